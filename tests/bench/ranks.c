/* ranks.c: what an optimizer costs that ranks share out, as one JSON object on stdout.
 *   ranks RANKS DIVIDE REPEATS
 * RANKS processes of this machine have the 148 tensors of GPT-2, each divided by DIVIDE, whole
 * weights and gradients, and 1/RANKS of the moments. A step sends each rank the others' gradients
 * of its part, runs clipped_adamw on it, which adds them as it loads (ls_step_bind_sum_list) and
 * gathers the tiles of the norm (ls_step_partition), and gathers the new weights. In turns with the
 * steps each rank copies what it receives, gradients and weights, between the same places of its
 * own memory: `copy_ms`, the best; `over_copy` is the median of (exchange + gather) / copy of a
 * round, and `cpu_over_copy` the same of the processor's time, which other processes disturb less.
 * `least` what a reduce-scatter of the gradients and an all-gather of the weights have to send from
 * the first rank. Each process has its share of the threads. */
#include <lockstep/lockstep.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TENSORS = 148, RANKS_MAX = 16, LAYERS = 12, WIDTH = 768, WARM = 3 };

typedef struct Figures { /* shared by all processes */
    double step_ms, exchange_ms, gather_ms, copy_ms, over_copy, cpu_over_copy;
    uint64_t sent, received, least, states, whole_states;
} Figures;

typedef struct Rank {
    int rank, size;
    ls_comm_id id;
    int64_t divide;
    int repeats;
    ls_context *context;
    ls_comm *comm;
    ls_step *step;
    int64_t lengths[TENSORS], piece_lengths[TENSORS];
    ls_tensor whole[TENSORS];
    ls_cut cuts[RANKS_MAX + 1];
    ls_partition_piece pieces[RANKS_MAX][TENSORS];
    size_t counts[RANKS_MAX];
    float *p, *g, *m, *v, *received[RANKS_MAX];
    int64_t offsets[TENSORS + 1];
    Figures *figures;
} Rank;

static double milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static double processor_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static void check(const Rank *r, ls_status status) {
    if (status == LS_OK) return;
    fprintf(stderr, "ranks: rank %d: %s\n", r->rank, ls_error_message(r->context));
    exit(3);
}

static void make_lengths(Rank *r) {
    static const int64_t layer[] = {
        WIDTH, WIDTH, WIDTH * 3 * WIDTH, 3 * WIDTH, WIDTH * WIDTH,     WIDTH,
        WIDTH, WIDTH, 4 * WIDTH * WIDTH, 4 * WIDTH, 4 * WIDTH * WIDTH, WIDTH};
    size_t at = 0;
    r->lengths[at++] = 50257 * WIDTH;
    r->lengths[at++] = 1024 * WIDTH;
    for (int i = 0; i < LAYERS; i++)
        for (size_t k = 0; k < sizeof layer / sizeof *layer; k++) r->lengths[at++] = layer[k];
    r->lengths[at++] = WIDTH;
    r->lengths[at++] = WIDTH;
    for (size_t t = 0; t < TENSORS; t++) {
        r->lengths[t] = (r->lengths[t] + r->divide - 1) / r->divide;
        r->whole[t] = (ls_tensor){NULL, LS_F32, 1, &r->lengths[t], NULL};
        r->offsets[t + 1] = r->offsets[t] + (r->lengths[t] + 15) / 16 * 16;
    }
}

/* In shares of the whole: 1/4 and so on, so that nothing overflows in many steps. */
static float *array(const Rank *r, int64_t elements, float value) {
    void *memory = NULL;
    check(r, ls_alloc(r->context, (size_t)(elements ? elements : 1) * sizeof(float), &memory));
    float *made = memory;
    for (int64_t i = 0; i < elements; i++) made[i] = value * (float)(i % 7 - 3);
    return made;
}

static int64_t own_elements(const Rank *r, int rank) {
    int64_t total = 0;
    for (size_t i = 0; i < r->counts[rank]; i++) total += (r->pieces[rank][i].count + 15) / 16 * 16;
    return total;
}

/* The pieces of a rank in the whole (`whole`), or packed one behind the other. */
static void place(const Rank *r, int rank, float *data, int whole, ls_comm_piece *pieces,
                  ls_tensor *tensors) {
    int64_t at = 0;
    for (size_t i = 0; i < r->counts[rank]; i++) {
        const ls_partition_piece *piece = &r->pieces[rank][i];
        float *from = data + (whole ? r->offsets[piece->tensor] + piece->first : at);
        if (pieces) pieces[i] = (ls_comm_piece){from, (uint64_t)piece->count * sizeof(float)};
        if (tensors) tensors[i] = (ls_tensor){from, LS_F32, 1, &r->piece_lengths[i], NULL};
        at += (piece->count + 15) / 16 * 16;
    }
}

static void bind_list(Rank *r, const char *name, float *data, int whole) {
    ls_tensor tensors[TENSORS];
    place(r, r->rank, data, whole, NULL, tensors);
    check(r, ls_step_bind_list(r->step, name, tensors, r->counts[r->rank]));
}

static void bind_gradients(Rank *r, size_t count) {
    static ls_tensor tensors[RANKS_MAX][TENSORS];
    const ls_tensor *parts[RANKS_MAX];
    for (int k = 0; k < r->size; k++) {
        place(r, r->rank, k == r->rank ? r->g : r->received[k], k == r->rank, NULL, tensors[k]);
        parts[k] = tensors[k];
    }
    check(r, ls_step_bind_sum_list(r->step, "g", parts, (size_t)r->size, count));
}

static void open_rank(Rank *r) {
    ls_program *program;
    const ls_comm_options options = {.rank = r->rank, .size = r->size, .id = &r->id};
    check(r, ls_context_create("cpu", NULL, &r->context));
    check(r, ls_comm_create(r->context, "shm", &options, &r->comm));
    check(r, ls_program_load(r->context, "std/clip", NULL, &program));
    check(r, ls_step_create(program, "clipped_adamw", &r->step));
    ls_program_destroy(program);
    make_lengths(r);
    check(r, ls_partition(r->whole, TENSORS, NULL, r->size, r->cuts));
    for (int k = 0; k < r->size; k++)
        r->counts[k] = ls_partition_run(r->whole, TENSORS, r->cuts, k, r->pieces[k]);
    for (size_t i = 0; i < r->counts[r->rank]; i++)
        r->piece_lengths[i] = r->pieces[r->rank][i].count;
    r->p = array(r, r->offsets[TENSORS], 0.01f);
    r->g = array(r, r->offsets[TENSORS], 0.001f);
    r->m = array(r, own_elements(r, r->rank), 0);
    r->v = array(r, own_elements(r, r->rank), 0);
    for (int k = 0; k < r->size; k++)
        r->received[k] = k == r->rank ? NULL : array(r, own_elements(r, r->rank), 0);
    bind_gradients(r, r->counts[r->rank]);
    const ls_partition_parts parts = {.tensors = r->whole, .count = TENSORS, .cuts = r->cuts};
    check(r, ls_step_partition(r->step, r->comm, &parts));
    bind_list(r, "p", r->p, 1);
    bind_list(r, "m", r->m, 0);
    bind_list(r, "v", r->v, 0);
    check(r, ls_step_prepare(r->step));
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct Round {
    double exchange, step, gather, copy; /* milliseconds, */
    double moving, copying;              /* and of the processor: the first and third, the last */
} Round;

static Round run_step(Rank *r, const ls_comm_part *send, const ls_comm_part *receive,
                      const ls_comm_part *gather) {
    check(r, ls_comm_barrier(r->comm));
    const double begin = milliseconds(), cpu = processor_ms();
    check(r, ls_comm_all_to_all(r->comm, send, receive));
    const double middle = milliseconds(), cpu_middle = processor_ms();
    check(r, ls_step_launch(r->step));
    check(r, ls_comm_barrier(r->comm)); /* a slower rank's step is no part of the gather */
    const double behind = milliseconds(), cpu_behind = processor_ms();
    check(r, ls_comm_all_gather(r->comm, gather));
    const double end = milliseconds();
    return (Round){.exchange = middle - begin,
                   .step = behind - middle,
                   .gather = end - behind,
                   .moving = processor_ms() - cpu_behind + cpu_middle - cpu};
}

/* What comes from the other ranks, from memory of this one: gradients to where they come, and
 * weights to `weights`. */
static void run_copy(const Rank *r, const ls_comm_part *receive, const ls_comm_part *gather,
                     float *weights, Round *round) {
    check(r, ls_comm_barrier(r->comm));
    const double begin = milliseconds(), cpu = processor_ms();
    for (int k = 0; k < r->size; k++) {
        char *to = (char *)weights;
        if (k == r->rank) continue;
        for (size_t i = 0; i < receive[k].count; i++)
            memcpy(receive[k].pieces[i].data, receive[r->rank].pieces[i].data,
                   receive[k].pieces[i].bytes);
        for (size_t i = 0; i < gather[k].count; to += gather[k].pieces[i++].bytes)
            memcpy(to, gather[k].pieces[i].data, gather[k].pieces[i].bytes);
    }
    round->copy = milliseconds() - begin;
    round->copying = processor_ms() - cpu;
}

static void run(Rank *r) {
    static ls_comm_piece out[RANKS_MAX][TENSORS], in[RANKS_MAX][TENSORS],
        weights[RANKS_MAX][TENSORS];
    ls_comm_part send[RANKS_MAX], receive[RANKS_MAX], gather[RANKS_MAX];
    Figures *f = r->figures;
    int64_t most = 0;
    for (int k = 0; k < r->size; k++) {
        place(r, k, r->g, 1, out[k], NULL);
        place(r, r->rank, k == r->rank ? r->g : r->received[k], k == r->rank, in[k], NULL);
        place(r, k, r->p, 1, weights[k], NULL);
        send[k] = (ls_comm_part){out[k], r->counts[k]};
        receive[k] = (ls_comm_part){in[k], r->counts[r->rank]};
        gather[k] = (ls_comm_part){weights[k], r->counts[k]};
        if (own_elements(r, k) > most) most = own_elements(r, k);
    }
    float *scratch = array(r, most, 0);
    double *ratios = calloc((size_t)r->repeats, sizeof *ratios);
    double *of_cpu = calloc((size_t)r->repeats, sizeof *of_cpu);
    double best = 1e300, exchange = 1e300, last = 1e300, copy = 1e300;
    if (!ratios || !of_cpu) exit(3);
    for (int i = 0; i < WARM + r->repeats; i++) {
        Round round = run_step(r, send, receive, gather);
        const double all = round.exchange + round.step + round.gather;
        if (r->size > 1) run_copy(r, receive, gather, scratch, &round);
        if (i < WARM) continue;
        if (all < best) best = all;
        if (round.exchange < exchange) exchange = round.exchange;
        if (round.gather < last) last = round.gather;
        if (round.copy < copy) copy = round.copy;
        if (r->size == 1) continue;
        ratios[i - WARM] = (round.exchange + round.gather) / round.copy;
        of_cpu[i - WARM] = round.moving / round.copying;
    }
    qsort(ratios, (size_t)r->repeats, sizeof *ratios, by_value);
    qsort(of_cpu, (size_t)r->repeats, sizeof *of_cpu, by_value);
    const size_t bytes = (size_t)own_elements(r, r->rank) * sizeof(float);
    ls_comm_statistics statistics;
    int64_t all = 0, own = 0;
    for (size_t t = 0; t < TENSORS; t++) all += r->lengths[t];
    for (size_t i = 0; i < r->counts[r->rank]; i++) own += r->pieces[r->rank][i].count;
    ls_comm_stats(r->comm, &statistics);
    const uint64_t rounds = (uint64_t)(WARM + r->repeats);
    if (r->rank == 0)
        *f = (Figures){best,
                       exchange,
                       last,
                       copy,
                       ratios[r->repeats / 2],
                       of_cpu[r->repeats / 2],
                       statistics.sent / rounds,
                       statistics.received / rounds,
                       4 * ((uint64_t)(all - own) + (uint64_t)own * (uint64_t)(r->size - 1)),
                       2 * bytes,
                       2 * (uint64_t)r->offsets[TENSORS] * sizeof(float)};
    free(ratios);
    free(of_cpu);
    ls_free(r->context, scratch);
}

int main(int count, char **words) {
    Rank r = {.size = count == 4 ? atoi(words[1]) : 0};
    if (r.size < 1 || r.size > RANKS_MAX || atoi(words[2]) < 1 || atoi(words[3]) < 1) {
        fputs("ranks RANKS DIVIDE REPEATS\n", stderr);
        return 2;
    }
    r.divide = atoi(words[2]);
    r.repeats = atoi(words[3]);
    r.figures =
        mmap(NULL, sizeof *r.figures, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (r.figures == MAP_FAILED || ls_comm_id_create("shm", &r.id) != LS_OK) return 3;
    for (r.rank = 1; r.rank <= r.size; r.rank++)
        if (fork() == 0) {
            r.rank--;
            open_rank(&r);
            run(&r);
            exit(0);
        }
    int failed = 0, status = 0;
    while (wait(&status) > 0) failed |= status;
    const Figures *f = r.figures;
    if (failed) return 3;
    printf("{\"ranks\": %d, \"step_ms\": %.3f, \"exchange_ms\": %.3f, \"gather_ms\": %.3f, "
           "\"copy_ms\": %.3f, \"over_copy\": %.3f, \"cpu_over_copy\": %.3f, \"sent\": %llu, "
           "\"received\": %llu, \"least\": %llu, \"states\": %llu, "
           "\"whole_states\": %llu}\n",
           r.size, f->step_ms, f->exchange_ms, f->gather_ms, f->copy_ms, f->over_copy,
           f->cpu_over_copy, (unsigned long long)f->sent, (unsigned long long)f->received,
           (unsigned long long)f->least, (unsigned long long)f->states,
           (unsigned long long)f->whole_states);
    return 0;
}
