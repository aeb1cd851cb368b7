/* threads.c: eight threads, each with a context of its own, half of them on a GPU's stand-in and
 * half on the CPU, do what a trainer does, all at once. Built with the runtime's sources for
 * ThreadSanitizer; threads_test.c starts it. cmocka's checks are for its own thread, so each
 * counts its failures. */
#include "fixtures.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, ROUNDS = 3, ROWS = 5, COLUMNS = 4001, ELEMENTS = ROWS * COLUMNS, LAUNCHES = 6 };
static const int64_t shape[2] = {ROWS, COLUMNS};
static const ls_feed_array feed_arrays[] = {{"p", LS_F32, 2, shape}};

typedef struct Trainer {
    const char *device;
    int failures;
    ls_context *context;
    char message[512];
} Trainer;

static bool done(Trainer *trainer, ls_status status, const char *what) {
    if (status == LS_OK) return true;
    if (trainer->failures++ == 0)
        snprintf(trainer->message, sizeof trainer->message, "%s on %s: %.400s", what,
                 trainer->device, ls_error_message(trainer->context));
    return false;
}
#define TRY(call) done(trainer, (call), #call)
#define HOLDS(condition) done(trainer, (condition) ? LS_OK : LS_ERROR_INTERNAL, #condition)

/* Batches beside the work: copies on another stream, and memory that comes and goes. */
static void feed_batches(Trainer *trainer) {
    ls_feed *feed = NULL;
    ls_tensor batch;
    void *host[1], *memory;
    TRY(ls_feed_create(trainer->context, feed_arrays, 1, 2, 0, &feed));
    for (int i = 0; feed && i < 4; i++) {
        TRY(ls_feed_acquire(feed, host));
        for (int k = 0; k < ELEMENTS; k++) ((float *)host[0])[k] = (float)i;
        TRY(ls_feed_submit(feed, ROWS));
        TRY(ls_feed_next(feed));
        TRY(ls_feed_tensor(feed, 0, &batch));
        TRY(ls_alloc_labeled(trainer->context, (size_t)1 << (10 + 2 * i), "scratch", &memory));
        ls_free(trainer->context, memory);
    }
    ls_feed_destroy(feed);
}

static void use_step(Trainer *trainer, ls_step *step, float *memory) {
    ls_context *context = trainer->context;
    ls_tensor p = tensor_of(memory, LS_F32, 2, shape);
    ls_tensor g = tensor_of(memory + ELEMENTS, LS_F32, 2, shape);
    ls_event *start = NULL, *end = NULL;
    ls_graph *graph = NULL;
    double ms, total = 0;
    int32_t count = 0;
    TRY(ls_fill_zero(context, memory, 2 * ELEMENTS * sizeof(float)));
    TRY(ls_step_bind(step, "p", &p));
    TRY(ls_step_bind(step, "g", &g));
    TRY(ls_step_set_number(step, "lr", 1));
    TRY(ls_step_prepare(step));
    TRY(ls_event_create(context, &start));
    TRY(ls_event_create(context, &end));
    TRY(ls_event_record(start));
    TRY(ls_graph_begin(context));
    TRY(ls_step_launch(step));
    TRY(ls_graph_end(context, &graph));
    TRY(ls_profile_begin(context));
    for (int i = 0; i < LAUNCHES; i++) TRY(i % 2 ? ls_graph_launch(graph) : ls_step_launch(step));
    TRY(ls_profile_end(context));
    TRY(ls_graph_repeat(graph, 2));
    TRY(ls_event_record(end));
    TRY(ls_event_elapsed(start, end, &ms));
    TRY(ls_step_get(step, "count", &count));
    TRY(ls_step_get(step, "total", &total));
    HOLDS(count == 3 + LAUNCHES + 2 && total == 0);
    HOLDS(ls_step_bind(step, "x", &g) == LS_ERROR_ARGUMENT);
    HOLDS(strstr(ls_error_message(context), "no parameter `x`") != NULL);
    ls_graph_destroy(graph);
    ls_event_destroy(start);
    ls_event_destroy(end);
}

static void train(Trainer *trainer) {
    const ls_image *images[] = {&image_descend};
    ls_program *program = NULL;
    ls_step *step = NULL;
    ls_memory_statistics statistics;
    ls_context *none;
    void *memory = NULL;
    char report[2000];
    if (!TRY(ls_context_create(trainer->device, NULL, &trainer->context))) return;
    ls_context *context = trainer->context;
    HOLDS(ls_context_create("tpu", NULL, &none) == LS_ERROR_ARGUMENT);
    HOLDS(strstr(ls_error_message(NULL), "tpu") != NULL); /* this thread's */
    if (TRY(ls_program_from_images(context, images, 1, NULL, NULL, NULL, &program)) &&
        TRY(ls_step_create(program, "descend", &step)) &&
        TRY(ls_alloc_labeled(context, 2 * ELEMENTS * sizeof(float), "weights", &memory)))
        use_step(trainer, step, memory);
    feed_batches(trainer);
    HOLDS(ls_memory_report(context, report, sizeof report) > 100);
    ls_step_destroy(step);
    ls_program_destroy(program);
    ls_free(context, memory);
    TRY(ls_memory_trim(context, 0));
    ls_memory_stats(context, &statistics);
    HOLDS(statistics.in_use == 0 && statistics.reserved == 0);
    ls_context_destroy(context);
    trainer->context = NULL;
}

static void *run(void *argument) {
    for (int i = 0; i < ROUNDS; i++) train(argument);
    return NULL;
}

int main(void) {
    Trainer trainers[THREADS] = {{0}};
    pthread_t threads[THREADS];
    int failures = 0;
    setenv("LOCKSTEP_THREADS", "2", 1);
    for (int i = 0; i < THREADS; i++) {
        trainers[i].device = i % 2 ? "cpu:0" : "cpu"; /* on_device.c makes the latter a GPU */
        if (pthread_create(&threads[i], NULL, run, &trainers[i]) != 0) return 1;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        failures += trainers[i].failures;
        if (trainers[i].failures) printf("thread %d: %s\n", i, trainers[i].message);
    }
    printf("%d failures\n", failures);
    return failures != 0;
}
