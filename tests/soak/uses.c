/* uses.c: what a soak test does over and over: launches, replays, updates of graphs, loads of
 * programs, contexts with their threads, feeds and the like, calls that are refused, ranks. */
#include "soak.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 3, COLUMNS = 257, ELEMENTS = ROWS * COLUMNS, ARRAYS = 4, FIRST_COUNT = 3 };
enum { CHECKED = 64 }; /* turns between two looks at what was computed, which wait */
enum { ARRAY_BYTES = ELEMENTS * sizeof(float) / 256 * 256 + 256, ITEMS = 1000, RANKS = 2 };
static const int64_t shape[] = {ROWS, COLUMNS};

void soak_works(Soak *soak, const ls_context *context, ls_status status, const char *call) {
    if (status == LS_OK || soak->wrong[0]) return;
    snprintf(soak->wrong, sizeof soak->wrong, "%.150s: %s: %.400s", call, ls_status_name(status),
             ls_error_message(context));
}

void soak_fails(Soak *soak, const ls_context *context, ls_status expected, ls_status status,
                const char *call) {
    if (status == expected || soak->wrong[0]) return;
    snprintf(soak->wrong, sizeof soak->wrong, "%.150s: %s, not %s: %.300s", call,
             ls_status_name(status), ls_status_name(expected), ls_error_message(context));
}

#define WORKS(call) soak_works(soak, soak->context, (call), #call)
#define FAILS(expected, call) soak_fails(soak, soak->context, (expected), (call), #call)

static void holds(Soak *soak, bool condition, const char *what) {
    if (!condition && !soak->wrong[0]) snprintf(soak->wrong, sizeof soak->wrong, "%s", what);
}

/* ---- a step with its arrays ---- */

static ls_tensor array(const Soak *soak, size_t number, const int64_t *of) {
    return (ls_tensor){(char *)soak->memory + number * ARRAY_BYTES, LS_F32, 2, of, NULL};
}

static void bind_arrays(Soak *soak, ls_step *step) {
    const ls_tensor p = array(soak, 0, shape), g = array(soak, 2, shape), w = array(soak, 3, shape);
    WORKS(ls_step_bind(step, "p", &p));
    WORKS(ls_step_bind(step, "g", &g));
    WORKS(ls_step_bind(step, "w", &w));
    WORKS(ls_step_set_number(step, "lr", 0.5));
}

void soak_open_training(Soak *soak) {
    soak->launched = 0;
    WORKS(ls_context_create(soak->device, NULL, &soak->context));
    if (!soak->context) return;
    WORKS(soak_load(soak, soak->context, &soak->program));
    WORKS(ls_step_create(soak->program, "descend", &soak->step));
    WORKS(ls_alloc_labeled(soak->context, (size_t)ARRAYS * ARRAY_BYTES, "arrays", &soak->memory));
    if (soak->wrong[0]) return;
    WORKS(ls_fill_zero(soak->context, soak->memory, (size_t)ARRAYS * ARRAY_BYTES));
    bind_arrays(soak, soak->step);
    WORKS(ls_step_prepare(soak->step));
    WORKS(ls_graph_begin(soak->context));
    WORKS(ls_step_launch(soak->step));
    WORKS(ls_graph_end(soak->context, &soak->graph));
}

void soak_close_training(Soak *soak) {
    ls_graph_destroy(soak->graph);
    ls_step_destroy(soak->step);
    ls_program_destroy(soak->program);
    ls_free(soak->context, soak->memory);
    ls_context_destroy(soak->context);
    soak->graph = NULL;
    soak->step = NULL;
    soak->program = NULL;
    soak->memory = NULL;
    soak->context = NULL;
}

/* No launch was lost or came twice; nothing but zeros was added. */
static void check_training(Soak *soak, uint64_t turn) {
    int32_t count = 0;
    double total = 1;
    if (turn % CHECKED != CHECKED - 1) return;
    WORKS(ls_step_get(soak->step, "count", &count));
    WORKS(ls_step_get(soak->step, "total", &total));
    holds(soak, count == (int32_t)(FIRST_COUNT + soak->launched), "launches were lost");
    holds(soak, total == 0, "the sum of zeros is not 0");
}

static void launch(Soak *soak, uint64_t turn) {
    WORKS(ls_step_set_number(soak->step, "lr", 1.0 / (double)(turn + 1)));
    WORKS(ls_step_launch(soak->step));
    soak->launched++;
    check_training(soak, turn);
}

static void replay(Soak *soak, uint64_t turn) {
    WORKS(ls_graph_launch(soak->graph));
    soak->launched++;
    check_training(soak, turn);
}

static void update(Soak *soak, uint64_t turn) {
    const ls_tensor p = array(soak, turn % 2, shape);
    WORKS(ls_step_bind(soak->step, "p", &p));
    WORKS(ls_graph_update(soak->graph));
    WORKS(ls_graph_launch(soak->graph));
    soak->launched++;
    check_training(soak, turn);
}

/* ---- what comes and goes on a context ---- */

static void load(Soak *soak, uint64_t turn) {
    ls_program *program = NULL;
    ls_step *step = NULL, *other = NULL;
    double total = 1;
    if (turn == 0) { /* emulated devices keep every function while there are graphs */
        ls_graph_destroy(soak->graph);
        soak->graph = NULL;
    }
    WORKS(soak_load(soak, soak->context, &program));
    WORKS(ls_step_create(program, "descend", &step));
    if (soak->wrong[0]) return;
    bind_arrays(soak, step);
    WORKS(ls_step_launch(step));
    WORKS(ls_step_instance(step, &other));
    WORKS(ls_step_launch(other));
    WORKS(ls_step_get(other, "total", &total));
    holds(soak, total == 0, "the sum of zeros is not 0");
    ls_step_destroy(step);
    ls_step_destroy(other);
    ls_program_destroy(program);
}

static void feed(Soak *soak, uint64_t turn) {
    static const ls_feed_array arrays[] = {{"g", LS_F32, 2, shape}};
    ls_feed *made = NULL;
    void *host[1] = {NULL};
    WORKS(ls_feed_create(soak->context, arrays, 1, 2, turn % 2 ? LS_FEED_FIXED : 0, &made));
    if (!made) return;
    WORKS(ls_feed_bind(made, soak->step));
    for (int i = 0; i < 3 && !soak->wrong[0]; i++) {
        WORKS(ls_feed_acquire(made, host));
        if (host[0]) memset(host[0], 0, ELEMENTS * sizeof(float));
        WORKS(ls_feed_submit(made, ROWS));
        WORKS(ls_feed_next(made));
        WORKS(ls_step_launch(soak->step));
        soak->launched++;
    }
    ls_feed_destroy(made);
    bind_arrays(soak, soak->step);
    check_training(soak, turn);
}

/* Graphs, events, streams of copies, data sets and profiles. */
static void objects(Soak *soak, uint64_t turn) {
    static float samples[ELEMENTS];
    const ls_dataset_array of = {.name = "g", .tensor = {samples, LS_F32, 2, shape, NULL}};
    ls_graph *graph = NULL;
    ls_event *event = NULL;
    ls_copy_stream *stream = NULL;
    ls_dataset *dataset = NULL;
    ls_split *split = NULL;
    ls_profile_row rows[4];
    WORKS(ls_graph_begin(soak->context));
    WORKS(ls_step_launch(soak->step));
    WORKS(ls_graph_end(soak->context, &graph));
    WORKS(ls_event_create(soak->context, &event));
    WORKS(ls_copy_stream_create(soak->context, &stream));
    WORKS(ls_dataset_create(soak->context, &of, 1, NULL, &dataset));
    WORKS(ls_split_create(dataset, &(ls_split_options){.batch = ROWS}, &split));
    if (soak->wrong[0]) return;
    WORKS(ls_profile_begin(soak->context));
    WORKS(ls_graph_repeat(graph, 2));
    soak->launched += 2;
    WORKS(ls_event_record(event));
    WORKS(ls_copy_stream_wait(stream, event));
    WORKS(ls_copy_stream_synchronize(stream));
    WORKS(ls_profile_end(soak->context));
    holds(soak, ls_profile_rows(soak->context, rows, 4) > 0, "a profile without rows");
    ls_split_destroy(split);
    ls_dataset_destroy(dataset);
    ls_copy_stream_destroy(stream);
    ls_event_destroy(event);
    ls_graph_destroy(graph);
    check_training(soak, turn);
}

/* A failed call leaves nothing behind but its message. */
static void refuse(Soak *soak, uint64_t turn) {
    static const int64_t narrow[] = {ROWS, COLUMNS - 1};
    ls_tensor wide = array(soak, 0, shape), other = array(soak, 2, narrow);
    ls_step *step = NULL;
    ls_graph *graph = NULL;
    ls_context *none = NULL;
    void *memory = NULL;
    soak_refused_programs(soak);
    soak_fails(soak, NULL, LS_ERROR_ARGUMENT, ls_context_create("tpu", NULL, &none), "tpu");
    FAILS(LS_ERROR_ARGUMENT, ls_step_create(soak->program, "ascend", &step));
    FAILS(LS_ERROR_MEMORY, ls_alloc(soak->context, SIZE_MAX / 2, &memory));
    FAILS(LS_ERROR_ARGUMENT, ls_step_bind(soak->step, "x", &wide));
    wide.type = LS_I64;
    FAILS(LS_ERROR_BIND, ls_step_bind(soak->step, "p", &wide));
    WORKS(ls_step_bind(soak->step, "g", &other));
    FAILS(LS_ERROR_BIND, ls_step_launch(soak->step)); /* lengths that do not agree */
    FAILS(LS_ERROR_BIND, ls_graph_update(soak->graph));
    bind_arrays(soak, soak->step);
    WORKS(ls_graph_update(soak->graph));
    WORKS(ls_step_create(soak->program, "descend", &step));
    FAILS(LS_ERROR_BIND, ls_step_launch(step)); /* nothing is bound */
    WORKS(ls_graph_begin(soak->context));
    FAILS(LS_ERROR_STATE, ls_synchronize(soak->context));
    FAILS(LS_ERROR_STATE, ls_graph_end(soak->context, &graph)); /* spoilt */
    ls_step_destroy(step);
    check_training(soak, turn);
}

/* ---- contexts and ranks ---- */

static void nothing(void *argument, uint64_t first, uint64_t last) {
    (void)argument, (void)first, (void)last;
}

static void context(Soak *soak, uint64_t turn) {
    const ls_host_work work = {nothing, NULL, ITEMS};
    float host[8] = {0};
    void *memory = NULL;
    (void)turn;
    WORKS(ls_context_create(soak->device, NULL, &soak->context));
    if (!soak->context) return;
    WORKS(ls_alloc(soak->context, sizeof host, &memory));
    WORKS(ls_copy_in(soak->context, memory, host, sizeof host));
    WORKS(ls_host_call(soak->context, &work)); /* the workers start */
    WORKS(ls_copy_out(soak->context, host, memory, sizeof host));
    WORKS(ls_synchronize(soak->context));
    ls_free(soak->context, memory);
    ls_context_destroy(soak->context);
    soak->context = NULL;
}

typedef struct Rank {
    Soak soak; /* its own context and failure */
    ls_comm_id id;
    int number;
} Rank;

static void *run_rank(void *argument) {
    Rank *rank = argument;
    Soak *soak = &rank->soak;
    const ls_comm_options options = {.rank = rank->number, .size = RANKS, .id = &rank->id};
    ls_comm_piece pieces[RANKS];
    ls_comm_part parts[RANKS];
    ls_comm *comm = NULL;
    WORKS(ls_context_create(soak->device, NULL, &soak->context));
    if (!soak->context) return NULL;
    WORKS(ls_comm_create(soak->context, "shm", &options, &comm));
    WORKS(ls_alloc(soak->context, (size_t)RANKS * ARRAY_BYTES, &soak->memory));
    for (int r = 0; r < RANKS; r++) {
        pieces[r] = (ls_comm_piece){(char *)soak->memory + r * ARRAY_BYTES, ARRAY_BYTES};
        parts[r] = (ls_comm_part){&pieces[r], 1};
    }
    if (comm && soak->memory) {
        WORKS(ls_comm_all_gather(comm, parts));
        WORKS(ls_comm_begin_all_gather(comm, parts));
        WORKS(ls_comm_wait(comm));
        WORKS(ls_comm_barrier(comm));
    }
    ls_comm_destroy(comm);
    ls_free(soak->context, soak->memory);
    ls_context_destroy(soak->context);
    return NULL;
}

static void ranks(Soak *soak, uint64_t turn) {
    Rank made[RANKS];
    pthread_t threads[RANKS];
    ls_comm_id id = {{0}};
    (void)turn;
    soak_works(soak, NULL, ls_comm_id_create("shm", &id), "ls_comm_id_create");
    int started = 0;
    for (int r = 0; r < RANKS; r++) {
        made[r] = (Rank){.soak = {.device = soak->device}, .id = id, .number = r};
        const int error = pthread_create(&threads[r], NULL, run_rank, &made[r]);
        holds(soak, error == 0, "a rank's thread cannot be started");
        if (error) break;
        started++;
    }
    for (int r = 0; r < started; r++) {
        pthread_join(threads[r], NULL);
        holds(soak, !made[r].soak.wrong[0], made[r].soak.wrong);
    }
}

const Use uses[] = {
    {"launches", true, launch, 0}, {"replays", true, replay, 0},
    {"updates", true, update, 0},  {"programs", true, load, 0},
    {"feeds", true, feed, 160},    {"objects", true, objects, 160},
    {"refusals", true, refuse, 0}, {"contexts", false, context, 160},
    {"ranks", false, ranks, 80},
};
const size_t use_count = sizeof uses / sizeof *uses;
