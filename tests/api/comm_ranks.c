/* comm_ranks.c: scenarios of the communicators. Each rank knows what every other sends, so that it
 * can check every byte. */
#include "comm_ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { RANKS_MAX = 16, PIECES = 3, SLOT = 1 << 17, LAUNCHES = 5 };

void rank_wrong(Rank *rank, const char *what, int line) {
    if (rank->wrong[0]) return;
    snprintf(rank->wrong, sizeof rank->wrong, "rank %d of %d, line %d: %s (%.400s)", rank->rank,
             rank->size, line, what, ls_error_message(rank->context));
}

bool rank_failed(const Rank *rank, ls_status status, const char *words) {
    return status == LS_ERROR_COMM && strstr(ls_error_message(rank->context), words) != NULL;
}

static const char *engine_of(const Rank *rank) {
    return rank->engine ? rank->engine : "shm";
}

void rank_run(Rank *rank, Scenario *scenario) {
    const ls_comm_options options = {
        .rank = rank->rank, .size = rank->size, .id = &rank->id, .timeout_s = rank->timeout_s};
    WORKS(ls_context_create("cpu", NULL, &rank->context));
    if (!rank->context) return;
    WORKS(ls_comm_create(rank->context, engine_of(rank), &options, &rank->comm));
    if (rank->comm) scenario(rank);
    ls_comm_destroy(rank->comm);
    ls_context_destroy(rank->context);
}

/* ---- memory of the device with known bytes in it ---- */

static unsigned char byte_of(int seed, uint64_t at) {
    const uint64_t mixed = (at + 1) * 0x9e3779b97f4a7c15u + (uint64_t)seed * 0xc2b2ae3d27d4eb4fu;
    return (unsigned char)(mixed >> 56);
}

static void *device_memory(Rank *rank, uint64_t bytes) {
    void *memory = NULL;
    WORKS(ls_alloc(rank->context, bytes ? bytes : 1, &memory));
    return memory;
}

static void fill(Rank *rank, void *memory, uint64_t bytes, int seed) {
    unsigned char *host = malloc(bytes + 1);
    for (uint64_t i = 0; i < bytes; i++) host[i] = byte_of(seed, i);
    WORKS(ls_copy_in(rank->context, memory, host, bytes));
    free(host);
}

static bool holds(Rank *rank, const void *memory, uint64_t bytes, int seed) {
    unsigned char *host = malloc(bytes + 1);
    bool same = true;
    WORKS(ls_copy_out(rank->context, host, memory, bytes));
    for (uint64_t i = 0; i < bytes && same; i++) same = host[i] == byte_of(seed, i);
    free(host);
    return same;
}

/* A part in pieces whose ends depend on `cut`; one of them is empty. */
static ls_comm_part cut_part(ls_comm_piece *pieces, void *memory, uint64_t bytes, int cut) {
    const uint64_t first = bytes * (uint64_t)(1 + cut % 5) / 7;
    pieces[0] = (ls_comm_piece){memory, first};
    pieces[1] = (ls_comm_piece){NULL, 0};
    pieces[2] = (ls_comm_piece){(char *)memory + first, bytes - first};
    return (ls_comm_part){pieces, PIECES};
}

/* ---- operations whose every byte is checked ---- */

static uint64_t size_between(int round, int from, int to) {
    static const uint64_t sizes[] = {0,        1,        1000,         4099, 9 * SLOT + 13,
                                     SLOT - 1, SLOT + 1, 3 * SLOT + 77};
    return sizes[(round * 5 + from * 3 + to) % 8];
}

static int seed_between(int round, int from, int to) {
    return (round * 31 + from) * 31 + to;
}

static void all_to_all(Rank *rank, ls_comm *comm, int round) {
    ls_comm_piece pieces[2][RANKS_MAX][PIECES];
    ls_comm_part send[RANKS_MAX], receive[RANKS_MAX];
    void *memory[2][RANKS_MAX];
    const int me = rank->rank;
    for (int k = 0; k < rank->size; k++) {
        const uint64_t out = size_between(round, me, k), in = size_between(round, k, me);
        memory[0][k] = device_memory(rank, out);
        memory[1][k] = device_memory(rank, in);
        fill(rank, memory[0][k], out, seed_between(round, me, k));
        send[k] = cut_part(pieces[0][k], memory[0][k], out, k);
        receive[k] = cut_part(pieces[1][k], memory[1][k], in, k + 2);
    }
    WORKS(ls_comm_all_to_all(comm, send, receive));
    for (int k = 0; k < rank->size; k++) {
        HOLDS(holds(rank, memory[1][k], size_between(round, k, me), seed_between(round, k, me)));
        ls_free(rank->context, memory[0][k]);
        ls_free(rank->context, memory[1][k]);
    }
}

static void all_gather(Rank *rank, ls_comm *comm, int round) {
    ls_comm_piece pieces[RANKS_MAX][PIECES];
    ls_comm_part parts[RANKS_MAX];
    void *memory[RANKS_MAX];
    for (int k = 0; k < rank->size; k++) {
        memory[k] = device_memory(rank, size_between(round, k, k));
        parts[k] = cut_part(pieces[k], memory[k], size_between(round, k, k), k + rank->rank);
    }
    fill(rank, memory[rank->rank], size_between(round, rank->rank, rank->rank),
         seed_between(round, rank->rank, 99));
    WORKS(ls_comm_all_gather(comm, parts));
    for (int k = 0; k < rank->size; k++) {
        HOLDS(holds(rank, memory[k], size_between(round, k, k), seed_between(round, k, 99)));
        ls_free(rank->context, memory[k]);
    }
}

static void broadcast(Rank *rank, ls_comm *comm, int round, int root) {
    ls_comm_piece pieces[PIECES];
    const uint64_t bytes = size_between(round, root, 1);
    void *memory = device_memory(rank, bytes);
    const ls_comm_part part = cut_part(pieces, memory, bytes, rank->rank);
    if (rank->rank == root) fill(rank, memory, bytes, round);
    WORKS(ls_comm_broadcast(comm, root, &part));
    HOLDS(holds(rank, memory, bytes, round));
    ls_free(rank->context, memory);
}

void all_to_all_of_many_sizes(Rank *rank) {
    for (int round = 0; round < 8; round++) all_to_all(rank, rank->comm, round);
    ls_comm_statistics statistics;
    uint64_t sent = 0, received = 0;
    for (int round = 0; round < 8; round++)
        for (int k = 0; k < rank->size; k++) {
            if (k == rank->rank) continue;
            sent += size_between(round, rank->rank, k);
            received += size_between(round, k, rank->rank);
        }
    ls_comm_stats(rank->comm, &statistics);
    HOLDS(statistics.operations == 8);
    HOLDS(statistics.sent == sent && statistics.received == received);
}

void all_gather_of_uneven_parts(Rank *rank) {
    for (int round = 0; round < 8; round++) all_gather(rank, rank->comm, round);
}

void broadcasts_that_run_ahead(Rank *rank) {
    for (int round = 0; round < 24; round++) broadcast(rank, rank->comm, round, round % rank->size);
    for (int round = 0; round < 24; round++) broadcast(rank, rank->comm, round, 0);
    WORKS(ls_comm_barrier(rank->comm));
}

static void pause_ms(long ms) {
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

/* Another communicator of the same ranks, whose id the first one carries. */
static ls_comm *open_second(Rank *rank) {
    ls_comm_id id = {{0}};
    ls_comm *second = NULL;
    void *memory = device_memory(rank, sizeof id);
    const ls_comm_piece piece = {memory, sizeof id};
    const ls_comm_part part = {&piece, 1};
    if (rank->rank == 0) WORKS(ls_comm_id_create("shm", &id));
    WORKS(ls_copy_in(rank->context, memory, &id, sizeof id));
    WORKS(ls_comm_broadcast(rank->comm, 0, &part));
    WORKS(ls_copy_out(rank->context, &id, memory, sizeof id));
    const ls_comm_options options = {.rank = rank->rank, .size = rank->size, .id = &id};
    WORKS(ls_comm_create(rank->context, rank->engine, &options, &second));
    ls_free(rank->context, memory);
    return second;
}

void two_communicators(Rank *rank) {
    ls_comm *second = open_second(rank);
    if (!second) return;
    HOLDS(ls_comm_rank(second) == rank->rank && ls_comm_size(second) == rank->size);
    HOLDS(strcmp(ls_comm_engine(second), rank->engine     ? rank->engine
                                         : rank->size > 1 ? "shm"
                                                          : "self") == 0);
    for (int round = 0; round < 4; round++) {
        all_gather(rank, rank->comm, round);
        all_to_all(rank, second, round + 1);
    }
    ls_comm_destroy(second);
    all_to_all(rank, rank->comm, 2); /* the first goes on */
}

void random_operations(Rank *rank) {
    uint32_t state = 12345;
    for (int round = 0; round < 30; round++) {
        state = state * 1664525u + 1013904223u;
        if (rank->rank == (int)(state >> 20 & 7)) pause_ms(state >> 28 & 3);
        switch (state >> 24 & 3) {
        case 0: all_to_all(rank, rank->comm, round); break;
        case 1: all_gather(rank, rank->comm, round); break;
        case 2: broadcast(rank, rank->comm, round, (int)(state >> 12) % rank->size); break;
        default: WORKS(ls_comm_barrier(rank->comm)); break;
        }
    }
}

void operations_in_a_graph(Rank *rank) {
    const uint64_t bytes = 2 * SLOT + 5;
    ls_comm_piece pieces[2][RANKS_MAX];
    ls_comm_part send[RANKS_MAX], receive[RANKS_MAX];
    void *memory[2][RANKS_MAX];
    ls_graph *graph = NULL;
    for (int k = 0; k < rank->size; k++) {
        for (int i = 0; i < 2; i++) {
            memory[i][k] = device_memory(rank, bytes);
            pieces[i][k] = (ls_comm_piece){memory[i][k], bytes};
        }
        send[k] = (ls_comm_part){&pieces[0][k], 1};
        receive[k] = (ls_comm_part){&pieces[1][k], 1};
    }
    WORKS(ls_graph_begin(rank->context));
    WORKS(ls_comm_all_to_all(rank->comm, send, receive));
    WORKS(ls_comm_barrier(rank->comm));
    WORKS(ls_graph_end(rank->context, &graph));
    memset(pieces, 0, sizeof pieces); /* the graph has its own */
    for (int round = 0; graph && round < LAUNCHES; round++) {
        for (int k = 0; k < rank->size; k++)
            fill(rank, memory[0][k], bytes, seed_between(round, rank->rank, k));
        WORKS(ls_graph_launch(graph));
        WORKS(ls_synchronize(rank->context));
        for (int k = 0; k < rank->size; k++)
            HOLDS(holds(rank, memory[1][k], bytes, seed_between(round, k, rank->rank)));
    }
    ls_graph_destroy(graph);
    for (int k = 0; k < rank->size; k++)
        for (int i = 0; i < 2; i++) ls_free(rank->context, memory[i][k]);
}

/* ---- beside the launches ---- */

typedef struct Aside { /* host work that writes what is sent, late */
    char *out[RANKS_MAX];
    uint64_t bytes;
    int rank, size, round;
} Aside;

static void write_late(void *argument, uint64_t first, uint64_t last) {
    Aside *aside = argument;
    (void)first, (void)last;
    pause_ms(10 * (aside->rank % 3));
    aside->round++;
    for (int k = 0; k < aside->size; k++)
        for (uint64_t i = 0; i < aside->bytes; i++)
            aside->out[k][i] = (char)byte_of(seed_between(aside->round, aside->rank, k), i);
}

/* An exchange starts once what it sends is written, though the writer is late, and what comes
 * behind ls_comm_wait sees what came: at once, and in a graph, in which the ranks are late by
 * different times, and which is run again without a pause. */
static void starts_behind_the_writer(Rank *rank, char **out, char **in, uint64_t bytes,
                                     const ls_comm_part *send, const ls_comm_part *receive) {
    Aside aside = {.bytes = bytes, .rank = rank->rank, .size = rank->size};
    const ls_host_work work = {write_late, &aside, 1};
    ls_graph *graph = NULL;
    for (int k = 0; k < rank->size; k++) aside.out[k] = out[k];
    for (int round = 1; round <= LAUNCHES; round++) {
        WORKS(ls_host_call(rank->context, &work));
        WORKS(ls_comm_begin_all_to_all(rank->comm, send, receive));
        WORKS(ls_comm_wait(rank->comm));
        for (int k = 0; k < rank->size; k++)
            HOLDS(holds(rank, in[k], bytes, seed_between(round, k, rank->rank)));
    }
    aside.round = 0;
    WORKS(ls_graph_begin(rank->context));
    WORKS(ls_host_call(rank->context, &work));
    WORKS(ls_comm_begin_all_to_all(rank->comm, send, receive));
    WORKS(ls_comm_wait(rank->comm));
    WORKS(ls_graph_end(rank->context, &graph));
    for (int round = 1; graph && round <= LAUNCHES; round++) {
        WORKS(ls_graph_launch(graph));
        for (int k = 0; k < rank->size; k++)
            HOLDS(holds(rank, in[k], bytes, seed_between(round, k, rank->rank)));
    }
    if (graph) WORKS(ls_graph_repeat(graph, LAUNCHES));
    for (int k = 0; graph && k < rank->size; k++)
        HOLDS(holds(rank, in[k], bytes, seed_between(2 * LAUNCHES, k, rank->rank)));
    ls_graph_destroy(graph);
}

/* What is begun does not keep rank 0 from going on: the others begin only when it has. */
static void goes_on_beside(Rank *rank, char **in, const ls_comm_part *send,
                           const ls_comm_part *receive) {
    ls_comm *second = open_second(rank);
    if (!second) return;
    const int last = rank->size - 1;
    if (rank->rank == 0) {
        const char before = last > 0 ? *in[last] : 0;
        WORKS(ls_comm_begin_all_to_all(rank->comm, send, receive));
        HOLDS(last == 0 || *in[last] == before); /* not there yet, */
        WORKS(ls_comm_barrier(second));          /* and here we are */
    } else {
        WORKS(ls_comm_barrier(second));
        WORKS(ls_comm_begin_all_to_all(rank->comm, send, receive));
    }
    WORKS(ls_comm_wait(rank->comm));
    ls_comm_destroy(second);
}

/* Bucket after bucket; what is called and not begun comes behind what was begun. */
static void many_begin(Rank *rank, char **out, char **in, uint64_t bytes) {
    enum { BUCKETS = 20 };
    for (int b = 0; b < BUCKETS; b++) {
        ls_comm_piece pieces[2][RANKS_MAX];
        ls_comm_part send[RANKS_MAX], receive[RANKS_MAX];
        const uint64_t at = bytes * (uint64_t)b / BUCKETS,
                       count = bytes * (uint64_t)(b + 1) / BUCKETS - at;
        for (int k = 0; k < rank->size; k++) {
            pieces[0][k] = (ls_comm_piece){out[k] + at, count};
            pieces[1][k] = (ls_comm_piece){in[k] + at, count};
            send[k] = (ls_comm_part){&pieces[0][k], 1};
            receive[k] = (ls_comm_part){&pieces[1][k], 1};
        }
        WORKS(ls_comm_begin_all_to_all(rank->comm, send, receive));
    }
    all_gather(rank, rank->comm, 3);
    for (int k = 0; k < rank->size; k++)
        HOLDS(holds(rank, in[k], bytes, seed_between(7, k, rank->rank)));
}

/* A rank's own part of an operation is of what was begun before: both at once, both in a graph, the
 * operation alone in a graph that is launched behind what was begun. */
static void sends_on(Rank *rank, char **in, uint64_t bytes, const ls_comm_part *send,
                     const ls_comm_part *receive) {
    ls_comm_piece pieces[2][RANKS_MAX];
    ls_comm_part on[RANKS_MAX], last[RANKS_MAX];
    ls_graph *graph = NULL;
    const int me = rank->rank, next = (me + 1) % rank->size;
    char *memory[RANKS_MAX];
    for (int k = 0; k < rank->size; k++) {
        memory[k] = device_memory(rank, bytes);
        pieces[0][k] = (ls_comm_piece){in[(k + 1) % rank->size], bytes};
        pieces[1][k] = (ls_comm_piece){memory[k], bytes};
        on[k] = (ls_comm_part){&pieces[0][k], 1};
        last[k] = (ls_comm_part){&pieces[1][k], 1};
    }
    enum { AT_ONCE, IN_A_GRAPH, BY_A_GRAPH, WAYS };
    for (int way = 0; way < WAYS; way++) {
        for (int k = 0; k < rank->size; k++) {
            fill(rank, in[k], bytes, 0);
            fill(rank, memory[k], bytes, 0);
        }
        if (way == IN_A_GRAPH) WORKS(ls_graph_begin(rank->context));
        if (way != BY_A_GRAPH) WORKS(ls_comm_begin_all_to_all(rank->comm, send, receive));
        if (way == BY_A_GRAPH) WORKS(ls_graph_begin(rank->context));
        WORKS(ls_comm_all_to_all(rank->comm, on, last));
        if (way != AT_ONCE) WORKS(ls_graph_end(rank->context, &graph));
        if (way == BY_A_GRAPH) WORKS(ls_comm_begin_all_to_all(rank->comm, send, receive));
        if (way != AT_ONCE) WORKS(ls_graph_launch(graph));
        for (int k = 0; k < rank->size; k++)
            HOLDS(holds(rank, memory[k], bytes, seed_between(7, next, k)));
        ls_graph_destroy(graph);
        graph = NULL;
    }
    for (int k = 0; k < rank->size; k++) ls_free(rank->context, memory[k]);
}

void exchanges_beside_launches(Rank *rank) {
    const uint64_t bytes = 2 * SLOT + 5;
    ls_comm_piece pieces[2][RANKS_MAX];
    ls_comm_part send[RANKS_MAX], receive[RANKS_MAX];
    char *memory[2][RANKS_MAX];
    for (int k = 0; k < rank->size; k++) {
        for (int i = 0; i < 2; i++) {
            memory[i][k] = device_memory(rank, bytes);
            fill(rank, memory[i][k], bytes, i ? 0 : seed_between(7, rank->rank, k));
            pieces[i][k] = (ls_comm_piece){memory[i][k], bytes};
        }
        send[k] = (ls_comm_part){&pieces[0][k], 1};
        receive[k] = (ls_comm_part){&pieces[1][k], 1};
    }
    many_begin(rank, memory[0], memory[1], bytes);
    sends_on(rank, memory[1], bytes, send, receive);
    if (ls_context_kind(rank->context) == LS_DEVICE_CPU) { /* of GPUs nccl_test.c tells */
        for (int k = 0; k < rank->size; k++) fill(rank, memory[1][k], bytes, 0);
        goes_on_beside(rank, memory[1], send, receive);
        for (int k = 0; k < rank->size; k++)
            HOLDS(holds(rank, memory[1][k], bytes, seed_between(7, k, rank->rank)));
    }
    starts_behind_the_writer(rank, memory[0], memory[1], bytes, send, receive);
    HOLDS(ls_comm_begin_all_to_all(rank->comm, NULL, receive) == LS_ERROR_ARGUMENT);
    HOLDS(ls_comm_begin_all_gather(NULL, receive) == LS_ERROR_ARGUMENT);
    HOLDS(ls_comm_wait(NULL) == LS_ERROR_ARGUMENT);
    for (int k = 0; k < rank->size; k++)
        for (int i = 0; i < 2; i++) ls_free(rank->context, memory[i][k]);
}

/* ---- failures: one message on all ranks, and final ---- */

static void expect_end(Rank *rank, ls_status status, const char *words) {
    HOLDS(rank_failed(rank, status, words));
    HOLDS(rank_failed(rank, ls_comm_barrier(rank->comm), words));
    HOLDS(rank_failed(rank, ls_comm_check(rank->comm), words));
}

/* Of what a rank does behind it the others may hear, with MPI, before they are through. */
static void first_barrier(Rank *rank, const char *words) {
    const ls_status status = ls_comm_barrier(rank->comm);
    HOLDS(status == LS_OK || (rank->engine && rank_failed(rank, status, words)));
}

void fails_of_different_operations(Rank *rank) {
    const ls_comm_part none[RANKS_MAX] = {{NULL, 0}};
    WORKS(ls_comm_barrier(rank->comm));
    ls_status status = rank->rank == rank->size - 1 ? ls_comm_barrier(rank->comm)
                                                    : ls_comm_all_gather(rank->comm, none);
    if (status == LS_OK) status = ls_comm_barrier(rank->comm);
    expect_end(rank, status, "different operations");
}

void fails_of_different_roots(Rank *rank) {
    char byte[1] = {0};
    const ls_comm_piece piece = {device_memory(rank, 1), sizeof byte};
    const ls_comm_part part = {&piece, 1};
    ls_status status = ls_comm_broadcast(rank->comm, rank->rank == 0 ? 1 : 0, &part);
    expect_end(rank, status, "different operations");
    ls_free(rank->context, piece.data);
}

void fails_of_sizes(Rank *rank) {
    void *memory = device_memory(rank, 64);
    ls_comm_piece piece = {memory, rank->rank == 0 ? 40 : 41};
    const ls_comm_part part = {&piece, 1};
    ls_status status = ls_comm_broadcast(rank->comm, 0, &part);
    for (int i = 0; i < 3 && status == LS_OK; i++) status = ls_comm_barrier(rank->comm);
    expect_end(rank, status, "rank 0 sends 40 bytes");
    ls_free(rank->context, memory);
}

void abort_of_the_last(Rank *rank) {
    first_barrier(rank, "aborted");
    if (rank->rank == rank->size - 1) ls_comm_abort(rank->comm, "the loss is not finite");
    expect_end(rank, ls_comm_barrier(rank->comm), "aborted: the loss is not finite");
}

void rank_that_leaves(Rank *rank) {
    static const char words[] = "called ls_comm_destroy after 1 operations";
    first_barrier(rank, words);
    if (rank->rank < rank->size - 1) expect_end(rank, ls_comm_barrier(rank->comm), words);
}

void rank_that_keeps_others_waiting(Rank *rank) {
    struct timespec before, after;
    const int last = rank->size - 1;
    char words[128] = "waited for 0.5 s";
    const ls_comm_piece piece = {device_memory(rank, 8), 8};
    const ls_comm_part part = {&piece, 1};
    if (!rank->engine) /* what this machine's shared memory says of both */
        snprintf(words, sizeof words,
                 "waited for 0.5 s in operation 2, broadcast from rank %d: rank %d (process ", last,
                 last);
    WORKS(ls_comm_barrier(rank->comm));
    if (rank->rank == last) pause_ms(3000);
    clock_gettime(CLOCK_MONOTONIC, &before);
    expect_end(rank, ls_comm_broadcast(rank->comm, last, &part), words);
    clock_gettime(CLOCK_MONOTONIC, &after);
    HOLDS(after.tv_sec - before.tv_sec < 3);
    ls_free(rank->context, piece.data);
}

void checks_of_arguments(Rank *rank) {
    void *memory = device_memory(rank, 64);
    const ls_comm_piece piece = {memory, 8}, absent = {NULL, 8}, large = {memory, UINT64_MAX / 2};
    const ls_comm_piece twice[] = {large, large};
    ls_comm_part parts[RANKS_MAX], others[RANKS_MAX];
    for (int k = 0; k < rank->size; k++) parts[k] = others[k] = (ls_comm_part){&piece, 1};
    HOLDS(ls_comm_all_to_all(NULL, parts, parts) == LS_ERROR_ARGUMENT);
    HOLDS(ls_comm_all_to_all(rank->comm, NULL, parts) == LS_ERROR_ARGUMENT);
    HOLDS(ls_comm_all_to_all(rank->comm, parts, NULL) == LS_ERROR_ARGUMENT);
    HOLDS(ls_comm_all_gather(rank->comm, NULL) == LS_ERROR_ARGUMENT);
    HOLDS(ls_comm_broadcast(rank->comm, 0, NULL) == LS_ERROR_ARGUMENT);
    HOLDS(ls_comm_broadcast(rank->comm, -1, parts) == LS_ERROR_ARGUMENT);
    HOLDS(ls_comm_broadcast(rank->comm, rank->size, parts) == LS_ERROR_ARGUMENT);
    HOLDS(ls_comm_barrier(NULL) == LS_ERROR_ARGUMENT);
    HOLDS(ls_comm_check(NULL) == LS_ERROR_ARGUMENT);
    others[rank->rank] = (ls_comm_part){&absent, 1};
    HOLDS(ls_comm_all_gather(rank->comm, others) == LS_ERROR_ARGUMENT);
    others[rank->rank] = (ls_comm_part){NULL, 1};
    HOLDS(ls_comm_all_gather(rank->comm, others) == LS_ERROR_ARGUMENT);
    others[rank->rank] = (ls_comm_part){twice, 2};
    HOLDS(ls_comm_all_gather(rank->comm, others) == LS_ERROR_ARGUMENT);
    others[rank->rank] = (ls_comm_part){NULL, 0};
    HOLDS(ls_comm_all_to_all(rank->comm, parts, others) == LS_ERROR_ARGUMENT);
    HOLDS(strstr(ls_error_message(rank->context), "8 bytes for itself and wants 0") != NULL);
    all_gather(rank, rank->comm, 1); /* none of it reached the others */
    ls_free(rank->context, memory);
}

/* ---- more than 2^31 bytes in a piece ---- */

enum { REAL_BYTES = 32 << 20, REPEATS = 66 };

/* The same real memory again and again, at addresses in a row; other memory where the last is. */
static char *repeated_memory(Rank *rank) {
    const int file = memfd_create("repeated", MFD_CLOEXEC);
    const size_t all = (size_t)REAL_BYTES * REPEATS;
    char *memory = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    HOLDS(file >= 0 && memory != MAP_FAILED && ftruncate(file, 2 * REAL_BYTES) == 0);
    for (size_t i = 0; i < REPEATS; i++)
        HOLDS(mmap(memory + i * REAL_BYTES, REAL_BYTES, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_FIXED, file, i + 1 < REPEATS ? 0 : REAL_BYTES) != MAP_FAILED);
    close(file);
    return memory;
}

void beyond_two_to_the_31(Rank *rank) {
    const uint64_t bytes = (uint64_t)REAL_BYTES * REPEATS;
    char *memory = repeated_memory(rank), *last = memory + (bytes - REAL_BYTES);
    const ls_comm_piece piece = {memory, bytes};
    const ls_comm_part part = {&piece, 1};
    for (size_t i = 0; i < REAL_BYTES; i++) {
        memory[i] = (char)(rank->rank == 0 ? i * 7 + 3 : 0);
        last[i] = (char)(rank->rank == 0 ? i * 5 + 1 : 0);
    }
    WORKS(ls_comm_broadcast(rank->comm, 0, &part));
    WORKS(ls_synchronize(rank->context));
    bool same = true;
    for (size_t i = 0; i < REAL_BYTES; i++)
        same = same && memory[i] == (char)(i * 7 + 3) && last[i] == (char)(i * 5 + 1);
    HOLDS(same);
    ls_comm_statistics statistics;
    ls_comm_stats(rank->comm, &statistics);
    HOLDS((rank->rank == 0 ? statistics.sent : statistics.received) == bytes);
    munmap(memory, bytes);
}

/* ---- a file of all ranks ---- */

enum { FILE_BYTES = 100003 };

/* Rank r writes every size-th stretch of a length that divides nothing; the file's bytes are those
 * of the seed. Gives the status of the end. */
static ls_status write_file(Rank *rank, const char *path, int seed, int leave_out, int keep) {
    ls_comm_file *file = NULL;
    int stretch = 0;
    WORKS(ls_comm_file_create(rank->comm, path, FILE_BYTES, &file));
    if (!file) return LS_ERROR_INTERNAL;
    for (uint64_t at = 0; at < FILE_BYTES; at += 1237, stretch++) {
        const uint64_t count = FILE_BYTES - at < 1237 ? FILE_BYTES - at : 1237;
        unsigned char own[1237];
        if (stretch % rank->size != rank->rank || stretch == leave_out) continue;
        for (uint64_t i = 0; i < count; i++) own[i] = byte_of(seed, at + i);
        WORKS(ls_comm_file_write(file, at, own, count));
    }
    return ls_comm_file_close(file, keep);
}

static bool file_holds(const char *path, int seed) {
    FILE *file = fopen(path, "rb");
    bool same = file != NULL;
    for (uint64_t i = 0; same && i < FILE_BYTES; i++) same = fgetc(file) == byte_of(seed, i);
    same = same && fgetc(file) == EOF;
    if (file) fclose(file);
    return same;
}

static bool file_failed(const Rank *rank, ls_status status, const char *words) {
    return status == LS_ERROR_FILE && strstr(ls_error_message(rank->context), words) != NULL;
}

void one_file_of_all(Rank *rank) {
    char path[64];
    const int last = rank->size - 1;
    ls_comm_file *file = NULL;
    snprintf(path, sizeof path, "comm_ranks.%02x%.12s", (unsigned)rank->size, rank->id.bytes + 16);
    WORKS(write_file(rank, path, 1, -1, 1));
    HOLDS(file_holds(path, 1));
    WORKS(ls_comm_barrier(rank->comm)); /* all have looked */
    WORKS(write_file(rank, path, 2, -1, 1));
    HOLDS(file_holds(path, 2));
    /* One rank gives it up, one leaves a stretch out, one writes beyond the end: all know. */
    ls_status status = write_file(rank, path, 3, -1, rank->rank != last);
    HOLDS(rank->rank == last ? status == LS_OK : file_failed(rank, status, "it gave the file up"));
    HOLDS(file_failed(rank, write_file(rank, path, 3, 7, 1), "have written 98766 of 100003 bytes"));
    HOLDS(strstr(ls_error_message(rank->context), " on rank ") == NULL); /* all have left it out */
    WORKS(ls_comm_file_create(rank->comm, path, 8, &file));
    if (rank->rank == last)
        HOLDS(file_failed(rank, ls_comm_file_write(file, 5, "abcd", 4), "goes beyond its end"));
    HOLDS(file_failed(rank, ls_comm_file_close(file, 1), "goes beyond its end"));
    if (rank->size > 1) {
        char words[64];
        snprintf(words, sizeof words, "on rank %d of %d", last, rank->size);
        HOLDS(strstr(ls_error_message(rank->context), words) != NULL);
        status = ls_comm_file_create(rank->comm, path, rank->rank == last ? 9 : 8, &file);
        HOLDS(file_failed(rank, status, "rank 0 gives it another size") && !file);
    }
    status = ls_comm_file_create(rank->comm, "nowhere/at/all", 8, &file);
    HOLDS(file_failed(rank, status, "nowhere/at/all could not be written") && !file);
    status = ls_comm_file_create(rank->comm, "/dev/null", 8, &file);
    HOLDS(file_failed(rank, status, "no regular file") && !file);
    HOLDS(ls_comm_file_create(rank->comm, NULL, 8, &file) == LS_ERROR_ARGUMENT);
    HOLDS(ls_comm_file_write(NULL, 0, path, 1) == LS_ERROR_ARGUMENT);
    HOLDS(ls_comm_file_close(NULL, 1) == LS_ERROR_ARGUMENT);
    HOLDS(file_holds(path, 2)); /* none of it touched what was there */
    WORKS(ls_comm_barrier(rank->comm));
    if (rank->rank == 0) HOLDS(remove(path) == 0);
}

const NamedScenario scenarios[] = {
    {"all_to_all_of_many_sizes", all_to_all_of_many_sizes},
    {"all_gather_of_uneven_parts", all_gather_of_uneven_parts},
    {"broadcasts_that_run_ahead", broadcasts_that_run_ahead},
    {"operations_in_a_graph", operations_in_a_graph},
    {"two_communicators", two_communicators},
    {"random_operations", random_operations},
    {"checks_of_arguments", checks_of_arguments},
    {"one_file_of_all", one_file_of_all},
    {"exchanges_beside_launches", exchanges_beside_launches},
};
const size_t scenario_count = sizeof scenarios / sizeof *scenarios;
