/* scenario_feed.c: batches through a feed, and data sets loaded and streamed, copied as late as the
 * stand-in may: what nobody waited for is not there yet, what was filled too early is wrong. */
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 600, BATCHES = 7 };

typedef struct Session {
    ls_context *context;
    ls_program *program;
    ls_step *step;
    ls_graph *graph;
    ls_feed *feed;
} Session;

static float sums[BATCHES + 1];
static uint64_t lengths[BATCHES + 1];
static size_t runs;

/* Reads the batch when the step's second kernel runs, and remembers what it saw. */
static void hook(const char *kernel, const uint64_t *words, unsigned grid, unsigned block) {
    drive_hook(kernel, words, grid, block);
    if (strcmp(kernel, "drive_end") != 0 || runs > BATCHES) return;
    const float *p = (const float *)(uintptr_t)words[1];
    sums[runs] = 0;
    for (uint64_t i = 0; i < words[0]; i++) sums[runs] += p[i];
    lengths[runs++] = words[0];
}

static int64_t samples_of(int batch) {
    return batch == BATCHES - 1 ? 250 : BATCH;
}

static ls_status fill(Session *s, int batch) {
    void *host[2];
    DO(ls_feed_acquire(s->feed, host));
    float *p = host[0];
    memset(host[1], 1, 3 * (size_t)samples_of(batch));
    for (int64_t i = 0; i < samples_of(batch); i++) p[i] = (float)(batch + 1);
    return ls_feed_submit(s->feed, samples_of(batch));
}

static ls_status open(Session *s, int fixed) {
    static const int64_t p[] = {BATCH}, other[] = {BATCH, 3};
    static const ls_feed_array arrays[] = {{"p", LS_F32, 1, p}, {"other", LS_U8, 2, other}};
    runs = 0;
    DO(ls_context_create(DEVICE, NULL, &s->context));
    DO(ls_program_from_images(s->context, drive_images, 1, NULL, NULL, NULL, &s->program));
    DO(ls_step_create(s->program, "drive", &s->step));
    DO(ls_step_set_number(s->step, "flag", 1));
    DO(ls_feed_create(s->context, arrays, 2, 3, fixed, &s->feed));
    DO(ls_feed_bind(s->feed, s->step));
    DO(ls_step_prepare(s->step));
    DO(fill(s, 0));
    return fill(s, 1);
}

static ls_status check_batches(Session *s, bool same_length) {
    DO(ls_synchronize(s->context));
    assert_int_equal(runs, BATCHES);
    for (int i = 0; i < BATCHES; i++) {
        assert_true(sums[i] == (float)(i + 1) * (float)samples_of(i));
        assert_int_equal(lengths[i], same_length ? BATCH : samples_of(i));
    }
    return LS_OK;
}

static ls_status use(void *session) {
    Session *s = session;
    DO(open(s, 0));
    for (int i = 0; i < BATCHES; i++) {
        DO(ls_feed_next(s->feed));
        DO(ls_step_launch(s->step));
        if (i + 2 < BATCHES) DO(fill(s, i + 2));
    }
    return check_batches(s, false);
}

static ls_status use_fixed(void *session) {
    Session *s = session;
    DO(open(s, 1));
    DO(ls_graph_begin(s->context));
    ls_status launched = ls_step_launch(s->step);
    ls_status ended = ls_graph_end(s->context, &s->graph);
    DO(launched);
    DO(ended);
    for (int i = 0; i < BATCHES; i++) {
        DO(ls_feed_next(s->feed));
        DO(ls_graph_launch(s->graph));
        if (i + 2 < BATCHES) DO(fill(s, i + 2));
    }
    return check_batches(s, true);
}

static void finish(void *session) {
    Session *s = session;
    ls_graph_destroy(s->graph);
    ls_step_destroy(s->step);
    ls_feed_destroy(s->feed); /* it still binds the step */
    ls_program_destroy(s->program);
    ls_context_destroy(s->context);
}

/* ---- data sets ---- */

typedef struct DataSession {
    ls_context *context;
    ls_dataset *dataset;
    ls_split *split;
} DataSession;

enum { CHUNK_BYTES = 304 }; /* whole elements of any type */

/* Two chunks are on their way before anybody waits for one. */
static int watch_loading(void *argument, uint64_t done, uint64_t total) {
    long *before = argument;
    if (done == 0) *before = control->host_waits;
    if (done <= 2 * CHUNK_BYTES) assert_int_equal(control->host_waits, *before);
    assert_true(done <= total);
    return 0;
}

/* A data set that is loaded chunk by chunk, and one that comes batch by batch. */
static ls_status use_data(void *session) {
    DataSession *s = session;
    static uint16_t values[1000], back[1000];
    static const int64_t shape[] = {500, 2};
    const ls_dataset_array array = {"x", NULL, {values, LS_U16, 2, shape, NULL}, 0};
    long waits = 0;
    const ls_dataset_options nothing_fits = {.device_bytes = 100},
                             chunks = {.chunk_bytes = CHUNK_BYTES,
                                       .progress = watch_loading,
                                       .argument = &waits};
    const ls_split_options batches = {.batch = 64};
    ls_tensor tensor;
    for (int i = 0; i < 1000; i++) values[i] = (uint16_t)(3 * i), back[i] = 0;
    DO(ls_context_create(DEVICE, NULL, &s->context));
    DO(ls_dataset_create(s->context, &array, 1, &chunks, &s->dataset));
    DO(ls_dataset_tensor(s->dataset, "x", &tensor));
    DO(ls_copy_out(s->context, back, tensor.data, sizeof back));
    assert_memory_equal(back, values, sizeof back);
    ls_dataset_destroy(s->dataset);
    s->dataset = NULL;
    DO(ls_dataset_create(s->context, &array, 1, &nothing_fits, &s->dataset));
    assert_false(ls_dataset_resident(s->dataset));
    DO(ls_split_create(s->dataset, &batches, &s->split));
    for (int i = 0; i < 5; i++) DO(ls_split_next(s->split));
    return LS_OK;
}

static void finish_data(void *session) {
    DataSession *s = session;
    ls_split_destroy(s->split);
    ls_dataset_destroy(s->dataset);
    ls_context_destroy(s->context);
}

/* ---- rows ---- */

/* Whether a copy is done is only asked to know whether to wait. */
static const GpuVerb survives[] = {
    VERB_event_query, VERB_context_current,   VERB_context_use, VERB_device_current,
    VERB_device_use,  VERB_event_synchronize, VERB_memory_info, VERB_COUNT};
const Scenario scenario_feed = {"feed", hook, use, finish, sizeof(Session), survives};
const Scenario scenario_feed_fixed = {"fixed feed",    hook,    use_fixed, finish,
                                      sizeof(Session), survives};

/* How much is free only tells what the data set may take. */
const Scenario scenario_data = {"data set",          NULL,    use_data, finish_data,
                                sizeof(DataSession), survives};

/* The host waits for the copies of old batches only, the device for every one. */
void feed_overlaps(void **state) {
    (void)state;
    stand_in_reset(hook);
    control->seed = 3; /* copies take no time */
    Session s = {0};
    ls_feed_statistics statistics;
    EXPECT_OK(s.context, use(&s));
    ls_feed_stats(s.feed, &statistics);
    assert_int_equal(statistics.waits, 0);
    assert_int_equal(control->host_waits, 0);
    assert_int_equal(control->copies_beside, BATCHES + 1); /* the short one array by array */
    assert_int_equal(control->copies_within, 0);
    assert_int_equal(statistics.batches, BATCHES);
    assert_int_equal(statistics.samples, 250);
    assert_true(statistics.pinned);
    assert_int_equal(control->untimed, control->events); /* nobody asks when they happened */
    void *host[2];
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(s.context, ls_feed_acquire(s.feed, host));
        EXPECT_OK(s.context, ls_feed_submit(s.feed, BATCH));
    }
    EXPECT_FAILURE(s.context, LS_ERROR_STATE, ls_feed_acquire(s.feed, host), "all 3 slots hold");
    EXPECT_OK(s.context, ls_feed_next(s.feed));
    finish(&s);
    assert_nothing_left();
    stand_in_reset(hook); /* the same where copies take long */
    control->unready = 1;
    s = (Session){0};
    EXPECT_OK(s.context, use(&s));
    ls_feed_stats(s.feed, &statistics);
    assert_int_equal(statistics.waits, BATCHES - 3); /* each batch but the first of every slot */
    assert_int_equal(control->host_waits, BATCHES - 3);
    assert_true(statistics.waited_ms >= 0);
    finish(&s);
    assert_nothing_left();
    stand_in_reset(hook);
    control->seed = 3;
    s = (Session){0};
    EXPECT_OK(s.context, use_fixed(&s));
    ls_feed_stats(s.feed, &statistics);
    assert_int_equal(control->copies_within, BATCHES + 1);
    assert_int_equal(control->host_waits, 0);
    assert_int_equal(statistics.bytes, (6 * BATCH + 250) * 7);
    finish(&s);
    assert_nothing_left();
}

void feed_without_pinned(void **state) {
    (void)state;
    stand_in_reset(hook);
    control->pinned_fails = 1;
    Session s = {0};
    ls_feed_statistics statistics;
    EXPECT_OK(s.context, use(&s));
    ls_feed_stats(s.feed, &statistics);
    assert_false(statistics.pinned);
    finish(&s);
    assert_nothing_left();
}

/* ---- memory that was in use before ---- */

static void overwrite(const char *kernel, const uint64_t *words, unsigned grid, unsigned block) {
    float *p = (float *)(uintptr_t)words[1];
    drive_hook(kernel, words, grid, block);
    for (uint64_t i = 0; i < words[0]; i++) p[i] = -1;
}

typedef struct Reuse {
    ls_context *context;
    ls_program *program;
    ls_step *step;
    ls_feed *feed;
    ls_dataset *dataset;
} Reuse;

/* The kernel that writes the memory is still queued when that is free again. */
static ls_status use_and_free(Reuse *s, int64_t length, void **memory) {
    DO(ls_alloc(s->context, (size_t)length * sizeof(float), memory));
    const ls_tensor tensor = tensor_of(*memory, LS_F32, 1, &length);
    DO(ls_step_bind(s->step, "p", &tensor));
    DO(ls_step_launch(s->step));
    ls_free(s->context, *memory);
    return LS_OK;
}

static ls_status use_again(void *session) {
    Reuse *s = session;
    static const int64_t shape[] = {1 << 16};
    static const ls_feed_array arrays[] = {{"p", LS_F32, 1, shape}};
    static float values[1 << 16], back[1 << 16];
    const ls_dataset_array array = {"x", NULL, {values, LS_F32, 1, shape, NULL}, 0};
    void *before, *host;
    ls_tensor tensor;
    for (int i = 0; i < 1 << 16; i++) values[i] = (float)i;
    DO(ls_context_create(DEVICE, NULL, &s->context));
    DO(ls_program_from_images(s->context, drive_images, 1, NULL, NULL, NULL, &s->program));
    DO(ls_step_create(s->program, "drive", &s->step));
    DO(ls_step_set_number(s->step, "flag", 1));
    DO(use_and_free(s, shape[0], &before));
    DO(ls_feed_create(s->context, arrays, 1, 2, 0, &s->feed));
    DO(ls_feed_acquire(s->feed, &host));
    memcpy(host, values, sizeof values);
    DO(ls_feed_submit(s->feed, shape[0]));
    DO(ls_feed_next(s->feed));
    DO(ls_feed_tensor(s->feed, 0, &tensor));
    assert_ptr_equal(tensor.data, before);
    DO(ls_copy_out(s->context, back, tensor.data, sizeof back));
    assert_memory_equal(back, values, sizeof back);
    DO(use_and_free(s, shape[0], &before));
    DO(ls_dataset_create(s->context, &array, 1, NULL, &s->dataset));
    DO(ls_dataset_tensor(s->dataset, "x", &tensor));
    assert_ptr_equal(tensor.data, before);
    DO(ls_copy_out(s->context, back, tensor.data, sizeof back));
    assert_memory_equal(back, values, sizeof back);
    return LS_OK;
}

static void finish_again(void *session) {
    Reuse *s = session;
    ls_dataset_destroy(s->dataset);
    ls_feed_destroy(s->feed);
    ls_step_destroy(s->step);
    ls_program_destroy(s->program);
    ls_context_destroy(s->context);
}

const Scenario scenario_reuse = {"memory used before", overwrite,     use_again,
                                 finish_again,         sizeof(Reuse), survives};

/* Calls of the first submit fail, each in its turn: what it has queued by then is waited for before
 * its memory goes. */
void feed_fails_half_way(void **state) {
    (void)state;
    static const int64_t shape[] = {BATCH};
    static const ls_feed_array array = {"p", LS_F32, 1, shape};
    ls_status status = LS_ERROR_DEVICE;
    for (long call = 1; status != LS_OK; call++) {
        Session s = {0};
        void *host;
        stand_in_reset(hook);
        EXPECT_OK(NULL, ls_context_create(DEVICE, NULL, &s.context));
        EXPECT_OK(s.context, ls_feed_create(s.context, &array, 1, 2, 0, &s.feed));
        EXPECT_OK(s.context, ls_feed_acquire(s.feed, &host));
        control->fail_at = control->calls + call;
        control->fail_with = STAND_IN_ERROR;
        status = ls_feed_submit(s.feed, BATCH);
        control->fail_at = 0;
        if (status != LS_OK) EXPECT_OK(s.context, ls_feed_acquire(s.feed, &host));
        ls_feed_destroy(s.feed);
        ls_context_destroy(s.context);
        assert_nothing_left();
    }
}

/* Where host and device have one memory, steps read what the host has filled, which is not filled
 * anew while they do; without page-locked memory it is copied as ever. A data set is used where it
 * lies if the device reads what the host has allocated. */
void feed_in_place(void **state) {
    (void)state;
    for (int pinned = 0; pinned < 2; pinned++) {
        for (uint64_t seed = 0; seed < 12; seed++) {
            stand_in_reset(hook);
            control->seed = seed;
            control->integrated = 1;
            control->pinned_fails = !pinned;
            Session s = {0};
            EXPECT_OK(s.context, use(&s));
            assert_int_equal(control->copies_beside, pinned ? 0 : BATCHES + 1);
            assert_int_equal(control->copies_within, 0);
            finish(&s);
            assert_nothing_left();
        }
    }
    for (int pageable = 0; pageable < 2; pageable++) {
        static _Alignas(256) uint16_t values[512];
        static const int64_t shape[] = {256, 2};
        const ls_dataset_array array = {"x", NULL, {values, LS_U16, 2, shape, NULL}, 0};
        ls_context *context;
        ls_dataset *dataset;
        ls_tensor tensor;
        stand_in_reset(hook);
        control->integrated = 1;
        control->pageable = pageable;
        EXPECT_OK(NULL, ls_context_create(DEVICE, NULL, &context));
        assert_int_equal(ls_context_shares_memory(context), pageable);
        EXPECT_OK(context, ls_dataset_create(context, &array, 1, NULL, &dataset));
        EXPECT_OK(context, ls_dataset_tensor(dataset, "x", &tensor));
        assert_int_equal(tensor.data == values, pageable);
        assert_int_equal(control->copies_in > 0, !pageable);
        ls_dataset_destroy(dataset);
        ls_context_destroy(context);
        assert_nothing_left();
    }
}
