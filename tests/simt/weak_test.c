/* weak_test.c: how warps and blocks wait for each other (weak.k) in weak memory.
 *
 * Every order of what two blocks do is explored, with all that each read may see, on the text of
 * the device library; then more blocks in orders and with stale reads that a seed picks. Without
 * one of its fences or barriers the same fails: both when accesses that nothing orders are refused,
 * and by the result alone.
 *
 *   weak_test                          the suite's
 *   weak_test --templates FOLDER       of another device library: weak_mutants.py takes parts out
 *   weak_test --more                   where there are two blocks three are explored, but for the
 *                                      barrier of all
 *
 * weak_ptx_test, with SIMT_TEST_PTX, is the same on what NVRTC makes of the text; weak_amd_test,
 * with SIMT_TEST_AMD, what of it a seed picks on what clang makes of it for gfx942 and gfx1151,
 * whose stores wait in buffers of their own (amd/memory.c). Skipped where the tools are missing. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simt.h"
#include "watch.h"
#ifdef SIMT_TEST_PTX
#include "ptx/compiler.h"
#endif
#ifdef SIMT_TEST_AMD
#include "amd/amd.h"
#include "amd/compiler.h"
#endif

enum { MESSAGE_SIZE = 4000, WORDS = 5200, OUT = 16, SEEDS = 60, STATES_MAX = 2000000 };

typedef struct Arguments {
    uint32_t *data, *out, *counter;
    int64_t *sums;
} Arguments;

/* Device memory. Arguments are the same for all kernels. */
static uint32_t data[WORDS], out[OUT], counter;
static int64_t sums[3];
static char message[MESSAGE_SIZE];
static unsigned long passed, failed;
static uint64_t states_max = STATES_MAX;

typedef struct Case {
    const char *kernel;
    uint32_t threads, explored, most; /* of two waves of 32, or of a warp; blocks */
    bool cooperative;
    void (*expect)(uint32_t *expected, uint32_t blocks);
} Case;

static bool check(bool good, const char *dialect, const char *kernel, const char *what) {
    passed += good;
    failed += !good;
    if (!good) printf("failed: %s: %s: %s: %s\n", dialect, kernel, what, message);
    return good;
}

static void begin(void *unused) {
    (void)unused;
    for (uint32_t i = 0; i < WORDS; i++) data[i] = i < 8 ? 0xbad : i;
    memset(out, 0, sizeof out);
    memset(sums, 0, sizeof sums);
    counter = 0;
}

/* ---- results ---- */

static void expect_arrival(uint32_t *expected, uint32_t blocks) {
    for (uint32_t own = 0; own < 2 * blocks; own++) expected[0] += 10 * own + 8 + own % 2;
    expected[1] = expected[0];
}
static void expect_alone(uint32_t *expected, uint32_t blocks) {
    (void)blocks;
    expected[0] = expected[1] = 15;
}
static void expect_sums(uint32_t *expected, uint32_t blocks) {
    expected[0] = 11 * blocks * (blocks + 1) / 2 + 100 * (blocks - 1);
}
static void expect_wait(uint32_t *expected, uint32_t blocks) {
    for (uint32_t b = 0; b < blocks; b++) expected[b] = 10 + (b + 1) % blocks;
}
static void expect_barrier(uint32_t *expected, uint32_t blocks) {
    for (uint32_t i = 0; i < 4 * blocks; i++) expected[i] = 101 * (10 * (i / 2 % 2) + 1 - i % 2);
}
static void expect_tree(uint32_t *expected, uint32_t blocks) {
    (void)blocks;
    for (uint32_t i = 0; i < WORDS; i++) expected[0] += i < 8 ? 0xbad : i;
}
static void expect_teams(uint32_t *expected, uint32_t blocks) {
    (void)blocks;
    for (uint32_t i = 0; i < 6; i++) expected[i] = 128 * (i / 2) + 1 - i % 2;
}
static void expect_horizontal(uint32_t *expected, uint32_t blocks) {
    for (uint32_t b = 0; b < blocks; b++) expected[b] = 5 + b;
}

static const Case cases[] = {{"arrive", 32, 2, 4, false, expect_arrival},
                             {"arrive_by", 32, 2, 4, false, expect_arrival},
                             {"arrive_published", 32, 2, 4, false, expect_arrival},
                             {"arrive_by_published", 32, 2, 4, false, expect_arrival},
                             {"arrive_alone", 32, 1, 1, false, expect_alone},
                             {"add_and_arrive", 32, 2, 4, false, expect_sums},
                             {"last_block", 64, 2, 4, false, expect_arrival},
                             {"wait_for_blocks", 64, 2, 4, true, expect_wait},
                             {"barrier", 64, 1, 3, false, expect_barrier},
                             {"warp_sync", 32, 1, 3, false, expect_barrier},
                             {"horizontal", 32, 2, 4, false, expect_horizontal},
                             {"teams", 64, 1, 1, false, expect_teams},
                             {"tree", 32, 0, 1, false, expect_tree}};
enum { CASES = sizeof cases / sizeof cases[0] };

typedef struct Launched {
    const Case *test;
    uint32_t blocks;
} Launched;

static bool is_right(const void *what) {
    const Launched *launched = what;
    uint32_t expected[OUT] = {0};
    launched->test->expect(expected, launched->blocks);
    return memcmp(out, expected, sizeof out) == 0 && (counter & 0x7fffffffu) == 0;
}

/* ---- the text ---- */

static const char *templates = SIMT_TEMPLATES;
static uint32_t more_blocks;

static char *append_file(char *text, const char *folder, const char *name) {
    char path[1024], buffer[4096];
    size_t size = text ? strlen(text) : 0, count;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file) {
        printf("cannot read %s\n", path);
        exit(1);
    }
    while ((count = fread(buffer, 1, sizeof buffer, file)) > 0) {
        text = realloc(text, size + count + 1);
        if (!text) exit(1);
        memcpy(text + size, buffer, count);
        size += count;
        text[size] = 0;
    }
    fclose(file);
    return text;
}

typedef struct Machine {
    const char *name;
    SimtDialect dialect;
    uint32_t wave;
    const char *chip; /* of machine code, which is not explored */
} Machine;

static char *library(const Machine *machine) {
    static const char *const files[] = {"math.h",   "lite.h",      "integer.h", "convert.h",
                                        "philox.h", "fixed.h",     "memory.h",  "memory_gpu.h",
                                        "reduce.h", "reduce_gpu.h"};
    const bool hip = machine->dialect == SIMT_HIP || machine->dialect == SIMT_AMD;
    char *text = append_file(NULL, templates, hip ? "prelude.hip" : "prelude.cu");
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        text = append_file(text, templates, files[i]);
    return append_file(text, SIMT_FOLDER, "weak.k");
}

/* What a compiler of the machine's makes of the text; frees the text. */
static char *compiled(char *text, const Machine *machine, size_t *size) {
    char *made = text;
#if defined(SIMT_TEST_PTX)
    made = ptx_compile(text, message, sizeof message);
#elif defined(SIMT_TEST_AMD)
    made = amd_compile(text, machine->chip, size, message, sizeof message);
#endif
    (void)machine;
    if (made != text) free(text);
    if (made && machine->dialect != SIMT_AMD) *size = strlen(made);
    return made;
}

/* Frees the text. */
static SimtModule *open_text(char *text, const Machine *machine) {
    const char *kernels[CASES];
    size_t size = 0;
    for (size_t i = 0; i < CASES; i++) kernels[i] = cases[i].kernel;
    char *made = compiled(text, machine, &size);
    SimtModule *module =
        made ? simt_open(made, size, machine->dialect, kernels, CASES, message, sizeof message)
             : NULL;
    free(made);
    check(module != NULL, machine->name, "the text", "does not compile");
    return module;
}

/* ---- runs ---- */

static const Arguments arguments = {data, out, &counter, sums};

static uint32_t explored_blocks(const Case *test) {
    /* three that wait for each other over and over have too many states */
    const bool more = test->explored > 1 && !test->cooperative;
    return more ? test->explored + more_blocks : test->explored;
}

static bool explore(SimtModule *module, const Machine *machine, const Case *test, SimtMemory memory,
                    SimtExplored *explored) {
    Launched launched = {test, explored_blocks(test)};
    const SimtLaunch launch = {.kernel = test->kernel,
                               .arguments = &arguments,
                               .blocks = launched.blocks,
                               .threads = test->threads,
                               .wave = machine->wave,
                               .cooperative = test->cooperative,
                               .memory = memory};
    const SimtTrial trial = {begin, is_right, &launched, states_max};
    message[0] = 0;
    return simt_explore(module, &launch, &trial, explored, message, sizeof message);
}

/* Whether a run goes wrong; an exploration that is given up has not found that. */
static bool explore_fails(SimtModule *module, const Machine *machine, const Case *test,
                          SimtMemory memory) {
    SimtExplored explored;
    return !explore(module, machine, test, memory, &explored) &&
           !strstr(message, "too many states") && !strstr(message, "out of memory");
}

/* What is not explored is no success. */
static void test_refused(SimtModule *module, const Machine *machine) {
    SimtExplored explored;
    const SimtMemory memory = machine->chip ? SIMT_WEAK : SIMT_AT_ONCE;
    check(!explore(module, machine, &cases[0], memory, &explored) &&
              strstr(message, "only watched text in weak memory is explored"),
          machine->name, cases[0].kernel, "explored what cannot be");
    if (machine->chip) return;
    states_max = 10;
    check(!explore(module, machine, &cases[0], SIMT_WEAK, &explored) &&
              strstr(message, "too many states") &&
              !explore_fails(module, machine, &cases[0], SIMT_WEAK),
          machine->name, cases[0].kernel, "explored with more states than there may be");
    states_max = STATES_MAX;
}

/* The first seed that goes wrong, or -1. */
static int64_t first_wrong(SimtModule *module, const Machine *machine, const Case *test,
                           SimtMemory memory) {
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const Launched launched = {test, 1 + (uint32_t)(seed % test->most)};
        const uint32_t threads = test->threads * (test->threads > 32 ? machine->wave / 32 : 1);
        const SimtLaunch launch = {.kernel = test->kernel,
                                   .arguments = &arguments,
                                   .blocks = launched.blocks,
                                   .threads = threads,
                                   .wave = machine->wave,
                                   .seed = seed,
                                   .cooperative = test->cooperative,
                                   .memory = memory};
        begin(NULL);
        snprintf(message, sizeof message, "seed %" PRIu64, seed);
        if (!simt_launch(module, &launch, message, sizeof message) || !is_right(&launched))
            return (int64_t)seed;
    }
    return -1;
}

static void test_library(const Machine *machine) {
    const char *name = machine->name;
    SimtModule *module = open_text(library(machine), machine);
    if (module) test_refused(module, machine);
    for (size_t i = 0; module && i < CASES; i++) {
        const Case *test = &cases[i];
        SimtExplored explored = {0};
        if (test->explored && !machine->chip) {
            check(explore(module, machine, test, SIMT_WEAK, &explored), name, test->kernel,
                  "explored");
            printf("%s: %s: blocks %u, states %" PRIu64 ", runs %" PRIu64 ", to the end %" PRIu64
                   "\n",
                   name, test->kernel, explored_blocks(test), explored.states, explored.runs,
                   explored.finished);
        }
        check(first_wrong(module, machine, test, SIMT_WEAK) < 0, name, test->kernel, "by a seed");
        if (machine->chip) continue;
        check(first_wrong(module, machine, test, SIMT_ONLY_WEAK) < 0, name, test->kernel,
              "weak alone");
    }
    simt_close(module);
}

/* ---- without a part ---- */

/* Takes the first `part` behind `from` out of the text. */
static bool take_out(char *text, const char *from, const char *part) {
    char *at = strstr(text, from);
    at = at ? strstr(at, part) : NULL;
    if (at) memset(at, ' ', strlen(part) - 1); /* but for its semicolon */
    return at != NULL;
}

static const Case *case_of(const char *kernel) {
    const Case *test = cases;
    while (strcmp(test->kernel, kernel) != 0) test++;
    return test;
}

static void test_broken(const Machine *machine) {
    const char *name = machine->name;
    static const struct {
        const char *kernel, *from, *part;
    } parts[] = {
        {"arrive", "ls_arrive_with(u32", "ls_release();"},
        {"arrive", "ls_arrive_with(u32", "ls_acquire();"},
        {"arrive", "before + by == expected) *counter = 0", "ls_warp_sync();"},
        {"last_block", "ls_last_block(u32", "ls_release();"},
        {"last_block", "ls_last_block(u32", "ls_acquire();"},
        {"wait_for_blocks", "ls_wait_for_blocks(u32", "ls_release();"},
        {"wait_for_blocks", "ls_wait_for_blocks(u32", "ls_acquire();"},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const Case *test = case_of(parts[i].kernel);
        char *text = library(machine);
        const bool there = take_out(text, parts[i].from, parts[i].part);
        SimtModule *module = open_text(text, machine);
        check(there, name, parts[i].from, "a part to take out is not there");
        if (module) {
            check(explore_fails(module, machine, test, SIMT_WEAK), name, test->kernel,
                  "explored without a part, nothing is wrong");
            check(explore_fails(module, machine, test, SIMT_ONLY_WEAK), name, test->kernel,
                  "without a part, all results are right");
            check(first_wrong(module, machine, test, SIMT_ONLY_WEAK) >= 0, name, test->kernel,
                  "without a part, no seed finds a wrong result");
        }
        simt_close(module);
    }
}

/* ---- states ---- */

/* What two lanes do, a letter for each thing: r and a, a fence that releases or acquires, + an
 * addition to the counter; capitals are the second lane's. */
static uint64_t hash_after(const char *doings) {
    Watch *watch = watch_open(1, 1, false, true);
    for (const char *at = doings; watch && *at; at++) {
        const uint32_t lane = *at == 'R' || *at == 'A';
        const char what = lane ? (char)(*at - 'A' + 'a') : *at;
        const WatchAtomic add = {.counter = &counter, .adds = true, .device = true};
        if (what == '+')
            watch_atomic(watch, &add);
        else
            watch_fence(watch, 0, lane, what == 'a', what == 'r');
    }
    const uint64_t hash = watch ? watch_hash(watch) : 0;
    watch_close(watch);
    return hash;
}

/* States that differ in what a later look or atomic makes of them have other hashes. */
static void test_hash(void) {
    static const struct {
        const char *one, *other, *what;
    } pairs[] = {{"r", "R", "the lane that has released"},
                 {"a", "A", "the lane that has acquired"},
                 {"r+++", "+r++", "what an addition before the last carried"}};
    message[0] = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        check(hash_after(pairs[i].one) && hash_after(pairs[i].one) == hash_after(pairs[i].one) &&
                  hash_after(pairs[i].one) != hash_after(pairs[i].other),
              "states", pairs[i].what, "is not hashed");
}

/* Whether what compiles is here; or says why not. */
static bool can_compile(void) {
#if defined(SIMT_TEST_PTX)
    if (getenv("LOCKSTEP_NVRTC")) setenv("EMULATED_NVRTC", getenv("LOCKSTEP_NVRTC"), 0);
    if (!ptx_can_compile()) puts("left out: there is no NVRTC");
    return ptx_can_compile();
#elif defined(SIMT_TEST_AMD)
    const bool can = amd_has_tools(message, sizeof message);
    if (!can) printf("left out: %s\n", message);
    return can;
#else
    return true;
#endif
}

int main(int count, char **words) {
#if defined(SIMT_TEST_PTX)
    static const Machine machines[] = {{"PTX", SIMT_PTX, 32, NULL}};
#elif defined(SIMT_TEST_AMD)
    static const Machine machines[] = {{"gfx942", SIMT_AMD, 64, "gfx942"},
                                       {"gfx1151", SIMT_AMD, 32, "gfx1151"}};
#else
    static const Machine machines[] = {{"CUDA", SIMT_CUDA, 32, NULL}, {"HIP", SIMT_HIP, 32, NULL}};
#endif
    const bool other = count == 3 && strcmp(words[1], "--templates") == 0;
    const bool more = count == 2 && strcmp(words[1], "--more") == 0;
    if (other) templates = words[2];
    more_blocks = more;
    if (count != 1 && !other && !more) {
        fputs("usage: weak_test [--templates FOLDER | --more]\n", stderr);
        return 2;
    }
    if (!can_compile()) return 77; /* skipped */
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) test_library(&machines[i]);
    if (count == 1 && machines[0].dialect == SIMT_CUDA) {
        test_broken(&machines[0]);
        test_hash();
    }
    printf("%lu passed, %lu failed\n", passed, failed);
    return failed != 0;
}
