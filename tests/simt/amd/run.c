/* run.c: the order of turns, and the registers and memory that waves begin with.
 *
 * Blocks are taken in random order, some at a time, all of a cooperative launch. A random wave of a
 * random one runs a random number of instructions, until it waits for its block, sleeps or ends.
 * What is not given, registers, shared and scratch memory, is rubbish. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wave.h"

/* Where memory is weak, ahead of one of so many instructions what was issued last takes its effect
 * before something older, and others have a turn. */
enum { SLIPS = 4 };
enum { THREADS_MOST = 1024, TOGETHER = 3, TURN_MOST = 512, LOOKS_MOST = 200, LONG = 4096 };
static const u64 steps_most = 4000000000u;

static u64 random_word(Launched *run) {
    run->random ^= run->random << 13;
    run->random ^= run->random >> 7;
    run->random ^= run->random << 17;
    return run->random;
}
u32 amd_random(Launched *run, u32 below) {
    return (u32)((random_word(run) >> 32) * below >> 32);
}

void amd_fail(Wave *wave, const char *format, ...) {
    Launched *run = wave->run;
    va_list arguments;
    if (run->failed) return;
    run->failed = true;
    int used = snprintf(
        run->message, run->message_size, "%s, block %u, wave %u, at %llx: %s: ", run->kernel->name,
        wave->block->number, wave->number, (unsigned long long)(wave->now ? wave->now->address : 0),
        wave->now ? wave->now->text : "");
    if (used < 0 || (size_t)used >= run->message_size) return;
    va_start(arguments, format);
    vsnprintf(run->message + used, run->message_size - (size_t)used, format, arguments);
    va_end(arguments);
}

/* ---- the beginning of a wave ---- */

static void put(Wave *wave, u32 *at, u64 bits, u32 registers) {
    wave->s[(*at)++] = (u32)bits;
    if (registers > 1) wave->s[(*at)++] = (u32)(bits >> 32);
    if (registers > 2) wave->s[(*at)++] = 0;
    if (registers > 2) wave->s[(*at)++] = 0;
}

/* What the descriptor asks for, in its order; then the number of the block. */
static void set_scalars(Wave *wave, const unsigned char *segment, const unsigned char *packet) {
    const Kernel *kernel = wave->run->kernel;
    const u64 values[] = {0, (u64)(uintptr_t)packet, 0, (u64)(uintptr_t)segment, 0,
                          0, kernel->scratch_bytes};
    static const u32 counts[] = {4, 2, 2, 2, 2, 2, 1};
    u32 at = 0;
    for (u32 i = 0; i < sizeof counts / sizeof *counts; i++)
        if (kernel->properties >> i & 1) put(wave, &at, values[i], counts[i]);
    wave->s[kernel->user_registers] = wave->block->number;
}

static void start_wave(Wave *wave, Block *block, u32 number, const unsigned char *segment,
                       const unsigned char *packet) {
    Launched *run = wave->run;
    const u32 first = number * wave->lanes, threads = run->launch->threads;
    wave->block = block;
    wave->number = number;
    wave->state = RUNS;
    wave->pc = amd_find(&run->module->program, run->kernel->entry);
    wave->now = NULL;
    wave->scc = wave->is_indexed = false;
    wave->steps = 0;
    wave->mode = run->kernel->mode;
    wave->flush_32 = (wave->mode >> 4 & 3) == 0;
    wave->flush_64 = (wave->mode >> 6 & 3) == 0;
    for (u32 i = 0; i < SCALARS; i++) wave->s[i] = (u32)random_word(run);
    for (u32 i = 0; i < VECTORS; i++)
        for (u32 lane = 0; lane < LANES; lane++) wave->v[i][lane] = (u32)random_word(run);
    for (u32 i = 0; i < wave->lanes * run->kernel->scratch_bytes; i++)
        wave->scratch[i] = (unsigned char)random_word(run);
    u64 exec = 0;
    for (u32 lane = 0; lane < wave->lanes; lane++) {
        wave->v[0][lane] = first + lane;
        if (first + lane < threads) exec |= 1ull << lane;
    }
    wave->s[S_EXEC] = (u32)exec;
    wave->s[S_EXEC + 1] = (u32)(exec >> 32);
    set_scalars(wave, segment, packet);
}

/* The arguments, and behind them what the runtime adds. */
static unsigned char *make_segment(const Launched *run) {
    const Kernel *kernel = run->kernel;
    const SimtLaunch *launch = run->launch;
    unsigned char *segment = calloc(1, kernel->segment_bytes + 16);
    const struct {
        const char *kind;
        u64 value;
    } hidden[] = {{"hidden_block_count_x", launch->blocks},
                  {"hidden_block_count_y", 1},
                  {"hidden_block_count_z", 1},
                  {"hidden_group_size_x", launch->threads},
                  {"hidden_group_size_y", 1},
                  {"hidden_group_size_z", 1},
                  {"hidden_grid_dims", 1}};
    if (!segment) return NULL;
    memcpy(segment, launch->arguments, kernel->argument_bytes);
    for (u32 i = 0; i < kernel->hidden_count; i++)
        for (size_t k = 0; k < sizeof hidden / sizeof *hidden; k++)
            if (strcmp(kernel->hidden[i].kind, hidden[k].kind) == 0 &&
                kernel->hidden[i].offset + kernel->hidden[i].size <= kernel->segment_bytes)
                memcpy(segment + kernel->hidden[i].offset, &hidden[k].value,
                       kernel->hidden[i].size);
    return segment;
}

/* The packet of the queue: sizes of a block and of the grid. */
static void make_packet(const SimtLaunch *launch, unsigned char packet[64]) {
    const u16 sizes[] = {1, (u16)launch->threads, 1, 1};
    const u32 grid[] = {launch->threads * launch->blocks, 1, 1};
    memset(packet, 0, 64);
    memcpy(packet + 2, sizes, sizeof sizes);
    memcpy(packet + 12, grid, sizeof grid);
}

/* ---- turns ---- */

static void step(Wave *wave) {
    const Program *program = &wave->run->module->program;
    if (wave->pc >= program->count) {
        amd_fail(wave, "it runs past the last instruction");
        return;
    }
    const Instruction *in = &program->code[wave->pc];
    wave->now = in;
    if (wave->run->block_caches && wave->pending_count > 1 && amd_random(wave->run, SLIPS) == 0 &&
        amd_slip(wave)) {
        wave->left = true;
        return;
    }
    wave->pc += in->is_dual ? 2 : 1;
    if (wave->is_indexed && *in->text == 'v')
        amd_run_indexed(wave, in);
    else
        in->run(wave, in);
    wave->steps++;
}

static void run_turn(Wave *wave) {
    Launched *run = wave->run;
    const u64 looks = run->looks;
    u32 turn = 1 + amd_random(run, 1 + amd_random(run, TURN_MOST));
    run->steps += turn;
    wave->left = false;
    amd_advance(wave);
    while (turn-- > 0 && !wave->left && !run->failed) step(wave);
    if (wave->state != RUNS || wave->steps > LONG) run->looks = 0;
    if (run->looks > looks) wave->steps = 0;
    if (run->steps > steps_most) amd_fail(wave, "it does not end");
}

/* True when all waves have ended. */
static bool block_ends(const Launched *run, Block *block) {
    u32 waiting = 0, ended = 0;
    for (u32 i = 0; i < run->wave_count; i++) {
        waiting += block->waves[i]->state == AT_BARRIER;
        ended += block->waves[i]->state == ENDED;
    }
    if (waiting && waiting + ended == run->wave_count)
        for (u32 i = 0; i < run->wave_count; i++)
            if (block->waves[i]->state == AT_BARRIER) block->waves[i]->state = RUNS;
    return ended == run->wave_count;
}

static Wave *wave_that_runs(Launched *run, const Block *block) {
    const u32 first = amd_random(run, run->wave_count);
    for (u32 i = 0; i < run->wave_count; i++) {
        Wave *wave = block->waves[(first + i) % run->wave_count];
        if (wave->state == RUNS) return wave;
    }
    return NULL;
}

static void start_block(Launched *run, Block *block, u32 number, const unsigned char *segment,
                        const unsigned char *packet) {
    block->number = number;
    if (run->block_caches) block->cache = amd_cache_at(run->block_caches, number);
    for (u32 i = 0; run->block_caches && i < run->wave_count; i++)
        block->waves[i]->cache = amd_cache_at(run->wave_caches, number * run->wave_count + i);
    for (u32 i = 0; i < run->kernel->shared_bytes; i++)
        block->shared[i] = (unsigned char)random_word(run);
    for (u32 i = 0; i < run->wave_count; i++)
        start_wave(block->waves[i], block, i, segment, packet);
}

/* Blocks of `order`, `room` at a time. */
static void run_blocks(Launched *run, const u32 *order, u32 room, const unsigned char *segment,
                       const unsigned char *packet) {
    u32 next = 0, resident = 0;
    while (!run->failed && (resident > 0 || next < run->launch->blocks)) {
        while (resident < room && next < run->launch->blocks)
            start_block(run, &run->blocks[resident++], order[next++], segment, packet);
        Block *block = &run->blocks[amd_random(run, resident)];
        Wave *wave = wave_that_runs(run, block);
        run_turn(wave);
        if (run->looks > (u64)LOOKS_MOST * resident * run->wave_count)
            amd_fail(wave, "it looks for what no other wave will write");
        if (run->failed || !block_ends(run, block)) continue;
        const Block done = *block;
        *block = run->blocks[--resident];
        run->blocks[resident] = done;
        for (u32 i = 0; i < run->wave_count; i++) block->waves[i]->block = block;
    }
}

/* ---- launches ---- */

static void free_blocks(Launched *run, u32 room) {
    for (u32 i = 0; run->blocks && i < room; i++) {
        for (u32 k = 0; run->blocks[i].waves && k < run->wave_count; k++) {
            Wave *wave = run->blocks[i].waves[k];
            for (u32 p = 0; wave && p < PENDING_MOST; p++) free(wave->pending[p]);
            if (wave) free(wave->scratch);
            free(wave);
        }
        free(run->blocks[i].waves);
        free(run->blocks[i].shared);
    }
    free(run->blocks);
}

static bool make_blocks(Launched *run, u32 room) {
    run->blocks = calloc(room, sizeof *run->blocks);
    for (u32 i = 0; run->blocks && i < room; i++) {
        Block *block = &run->blocks[i];
        block->waves = calloc(run->wave_count, sizeof *block->waves);
        block->shared = calloc(1, run->kernel->shared_bytes + 16);
        if (!block->waves || !block->shared) return false;
        for (u32 k = 0; k < run->wave_count; k++) {
            Wave *wave = block->waves[k] = calloc(1, sizeof *wave);
            if (!wave) return false;
            wave->run = run;
            wave->lanes = run->kernel->wave;
            wave->scratch = calloc(wave->lanes, run->kernel->scratch_bytes + 16);
            if (!wave->scratch) return false;
        }
    }
    return run->blocks != NULL;
}

static bool make_caches(Launched *run) {
    const u32 blocks = run->launch->blocks;
    if (run->launch->memory == SIMT_AT_ONCE) return true;
    run->block_caches = amd_cache_open(blocks);
    run->wave_caches = amd_cache_open((size_t)blocks * run->wave_count);
    return run->block_caches && run->wave_caches;
}

/* The end of a launch writes back what is left. */
static void close_caches(Launched *run) {
    const u32 blocks = run->launch->blocks;
    for (u32 i = 0; run->block_caches && i < blocks; i++)
        amd_cache_write_back(amd_cache_at(run->block_caches, i));
    amd_cache_close(run->block_caches, blocks);
    amd_cache_close(run->wave_caches, (size_t)blocks * run->wave_count);
}

static bool is_legal(const Kernel *kernel, const SimtLaunch *launch, char *message, size_t size) {
    if (!kernel) {
        snprintf(message, size, "the code has no kernel %s", launch->kernel);
        return false;
    }
    if (launch->blocks && launch->threads && launch->threads <= THREADS_MOST &&
        launch->threads <= kernel->threads_most && launch->wave == kernel->wave)
        return true;
    snprintf(message, size, "%s: %u blocks of %u threads and waves of %u, compiled for %u and %u",
             kernel->name, launch->blocks, launch->threads, launch->wave, kernel->threads_most,
             kernel->wave);
    return false;
}

bool amd_launch(AmdModule *module, const SimtLaunch *launch, char *message, size_t size) {
    Launched run = {.module = module,
                    .kernel = amd_kernel(module, launch->kernel),
                    .launch = launch,
                    .message = message,
                    .message_size = size,
                    .random = launch->seed * 0x9e3779b97f4a7c15u + 0x2545f4914f6cdd1du};
    if (!is_legal(run.kernel, launch, message, size)) return false;
    if (run.random == 0) run.random = 1;
    run.wave_count = (launch->threads + run.kernel->wave - 1) / run.kernel->wave;
    static const u32 late[] = {0, 4, 7, 8}; /* at once, now and then, as late as it may be */
    run.late = late[amd_random(&run, 4)];
    const u32 room = launch->cooperative || launch->blocks < TOGETHER ? launch->blocks : TOGETHER;
    unsigned char packet[64], *segment = make_segment(&run);
    u32 *order = calloc(launch->blocks, sizeof *order);
    bool good = make_blocks(&run, room) && make_caches(&run) && segment && order;
    make_packet(launch, packet);
    for (u32 i = 0; good && i < launch->blocks; i++) {
        const u32 other = amd_random(&run, i + 1);
        order[i] = order[other];
        order[other] = i;
    }
    if (good)
        run_blocks(&run, order, room, segment, packet);
    else
        snprintf(message, size, "%s: out of memory", launch->kernel);
    close_caches(&run);
    free_blocks(&run, room);
    free(order);
    free(segment);
    return good && !run.failed;
}
