/* driver_test.c: every call site and every error path of the GPU driver, on a stand-in library.
 * Built once for CUDA and once for HIP: DEVICE, TARGET, VARIABLE and STAND_IN_PATH are the build's.
 */
#include "scenario.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* step drive[n](inout p: f32[n], inout count: i64 = 5, flag: bool): two kernels, one temporary. The
 * blocks of the first kernel wait for each other, where the device can do that. */
static const uint8_t axes[] = {0};
static const ls_image_axis axis[] = {{.name = "n", .fixed = -1}};
static const ls_image_parameter parameters[] = {{"p", LS_INOUT, LS_F32, 1, axes, 0, 0, 1, 0},
                                                {"count", LS_INOUT, LS_I64, 0, NULL, 1, 5, 2, 0},
                                                {"flag", LS_IN, LS_BOOL, 0, NULL, 0, 0, 3, 0}};
static const ls_image_kernel kernels[] = {
    {"drive", {1, 1, {{1, 0, 1, 0}}, 0}, 1000, 128, 2, 0, 1, 1, 0, NULL, NO_TILES},
    {"drive_end", {1, 1, {{1, 0, 1, 0}}, 0}, 1, 32, 1, 1, 1, 0, 0, NULL, NO_TILES},
};
static const ls_image_kernel lone_kernels[] = {
    {"drive", {1, 1, {{1, 0, 1, 0}}, 0}, 1000, 128, 2, 0, 1, 0, 0, NULL, NO_TILES},
    {"drive_end", {1, 1, {{1, 0, 1, 0}}, 0}, 1, 32, 1, 1, 1, 0, 0, NULL, NO_TILES},
};
static const ls_image_temporary temporaries[] = {
    {"arrived", {4, 0, {{0, 0, 0, 0}}, 0}, 1, 0, 1, 0}};
static const ls_image_extent work[] = {{1, 1, {{1, 0, 1, 0}}, 0}};
static const ls_image_extent every_element[] = {{4, 1, {{1, 0, 1, 0}}, 0}};
static const ls_image_flow flows[] = {
    {.array = 0, .written = 0, .count = 1, .bytes = every_element},
    {.array = 0, .written = 1, .count = 1, .bytes = every_element},
};
static const ls_image_traffic traffic[] = {{.flow_count = 2, .flows = flows}, {.flow_count = 0}};
static const char code[] = "stand-in code";
static const ls_image_variant variants[] = {
    {.name = "tiles",
     .layout = LS_LAYOUT_DENSE,
     .work_count = 1,
     .work = work,
     .work_limit = UINT64_MAX,
     .one_block_limit = 2000,
     .temporary_count = 1,
     .temporaries = temporaries,
     .kernel_count = 2,
     .kernels = kernels,
     .traffic = traffic,
     .code = code,
     .code_size = sizeof code},
    {.name = "tiles, no waiting",
     .layout = LS_LAYOUT_DENSE,
     .work_limit = UINT64_MAX,
     .temporary_count = 1,
     .temporaries = temporaries,
     .kernel_count = 2,
     .kernels = lone_kernels,
     .traffic = traffic,
     .code = code,
     .code_size = sizeof code},
};
static const ls_image image = IMAGE("drive", TARGET, axis, 1, parameters, variants, 2);
const ls_image *const drive_images[1] = {&image};

/* The lists of the fixtures, in code for this device. */
static ls_image list_image;
static ls_image_variant list_variant;
static const ls_image *const list_images[] = {&list_image};

static void make_list_image(void) {
    list_image = image_lists;
    list_variant = image_lists.variants[0];
    list_variant.code = code;
    list_variant.code_size = sizeof code;
    list_variant.functions = NULL;
    list_image.target = TARGET;
    list_image.variant_count = 1;
    list_image.variants = &list_variant;
}

const ls_image *const *list_images_of_device(void) {
    make_list_image();
    return list_images;
}

static unsigned grids[2], blocks[2];
static _Alignas(64) float memory_of_p[20500];

/* The stand-in's device memory is the host's, so a hook can be the kernel. */
void drive_hook(const char *kernel, const uint64_t *words, unsigned grid, unsigned block) {
    if (strncmp(kernel, "lists", 5) == 0) {
        CpuFunction run = image_lists.variants[0].functions[strcmp(kernel, "lists") != 0];
        run(words, 0, words[11], 0, 1);
        return;
    }
    int64_t *counter = (int64_t *)(uintptr_t)words[2];
    size_t which = strcmp(kernel, "drive_end") == 0;
    grids[which] = grid;
    blocks[which] = block;
    if (which) ++*counter;
    assert_int_equal(*(const unsigned char *)(uintptr_t)words[3], 1);
    assert_int_equal((uintptr_t)words[4] % 256, 0);
}

static void reset(void) {
    stand_in_reset(drive_hook);
}

typedef struct Session {
    ls_context *context;
    ls_program *program;
    ls_step *step;
    ls_graph *graph;
    int64_t counts[4]; /* how often the host's items were done */
    ls_host_work work;
    ls_event *start, *end;
    void *p;
} Session;

static void count_items(void *argument, uint64_t first, uint64_t last) {
    int64_t *counts = argument;
    for (; first < last; first++) counts[first]++;
}

/* A run of bytes, rows of one pitch, single elements backwards; fills of 1, 2, 4 and 8 bytes. */
static ls_status copy_and_fill(const Session *s) {
    static const int64_t shape[] = {4, 6}, pitched[] = {8, 1}, back[] = {-6, 1};
    static const ls_type types[] = {LS_U8, LS_BF16, LS_F32, LS_F64};
    static const uint64_t value = 0x0102030405060708;
    char *at = s->p;
    const ls_tensor to = {at + 4096, LS_F32, 2, shape, NULL};
    ls_tensor from = {at + 8192, LS_F32, 2, shape, NULL};
    DO(ls_copy(s->context, &to, &from));
    from.strides = pitched;
    DO(ls_copy(s->context, &to, &from));
    from.strides = back;
    DO(ls_copy(s->context, &to, &from));
    for (size_t i = 0; i < COUNT(types); i++) {
        const ls_tensor filled = {at + 16384, types[i], 2, shape, pitched};
        DO(ls_fill(s->context, &filled, &value));
    }
    return LS_OK;
}

/* One of everything the driver does. Stops at the first error. */
static ls_status use_everything(void *session) {
    Session *s = session;
    const int64_t length = 20500;
    int64_t counted = 0;
    uint8_t flag = 1;
    double ms = 0;
    char bytes[64] = "";
    DO(ls_context_create(DEVICE ":1", NULL, &s->context));
    DO(ls_alloc(s->context, (size_t)length * 4, &s->p));
    DO(ls_fill_zero(s->context, s->p, 64));
    DO(ls_copy_in(s->context, s->p, bytes, sizeof bytes));
    DO(ls_copy_out(s->context, bytes, s->p, sizeof bytes));
    DO(copy_and_fill(s));
    DO(ls_program_from_images(s->context, drive_images, 1, NULL, NULL, NULL, &s->program));
    DO(ls_step_create(s->program, "drive", &s->step));
    ls_tensor tensor = tensor_of(s->p, LS_F32, 1, &length);
    DO(ls_step_bind(s->step, "p", &tensor));
    DO(ls_step_set(s->step, "flag", &flag));
    DO(ls_step_launch(s->step));
    s->work = (ls_host_work){count_items, s->counts, COUNT(s->counts)};
    DO(ls_host_call(s->context, &s->work));
    DO(ls_event_create(s->context, &s->start));
    DO(ls_event_create(s->context, &s->end));
    DO(ls_event_record(s->start));
    DO(ls_synchronize(s->context));
    DO(ls_graph_begin(s->context));
    ls_status status = ls_step_launch(s->step);
    if (status == LS_OK) status = ls_host_call(s->context, &s->work);
    if (status == LS_OK) status = copy_and_fill(s);
    ls_status ended = ls_graph_end(s->context, &s->graph);
    if (status != LS_OK) {
        assert_int_not_equal(ended, LS_OK);
        return status;
    }
    DO(ended);
    assert_int_equal(s->counts[0], 1); /* recorded, not run */
    DO(ls_graph_launch(s->graph));
    DO(ls_graph_launch(s->graph));
    DO(ls_event_record(s->end));
    DO(ls_event_elapsed(s->start, s->end, &ms));
    assert_true(ms == 4 * 1.5); /* of two kernels, twice */
    DO(ls_step_get(s->step, "count", &counted));
    assert_int_equal(counted, 8);
    for (size_t i = 0; i < COUNT(s->counts); i++) assert_int_equal(s->counts[i], 3);
    assert_non_null(ls_context_stream(s->context));
    DO(ls_synchronize(s->context));
    return LS_OK;
}

static void close_session(void *session) {
    Session *s = session;
    ls_event_destroy(s->start);
    ls_event_destroy(s->end);
    ls_graph_destroy(s->graph);
    ls_step_destroy(s->step);
    ls_program_destroy(s->program);
    if (s->context) ls_free(s->context, s->p);
    ls_context_destroy(s->context);
}

static void whole_path(void **state) {
    (void)state;
    reset();
    Session s = {0};
    GpuCurrent before = thread_current();
    EXPECT_OK(s.context, use_everything(&s));
    GpuCurrent after = thread_current();
    assert_memory_equal(&before, &after, sizeof before); /* the thread's device is as it was */
    assert_string_equal(ls_context_device(s.context), DEVICE ":1");
    assert_string_equal(ls_context_target(s.context), TARGET);
    assert_string_equal(ls_context_describe(s.context),
                        "Stand-in 1, " TARGET ", 10 multiprocessors");
    assert_int_equal(control->launches, 6);
    assert_int_equal(control->launches_together, 3); /* every other one */
    assert_int_equal(control->graph_launches, 2);
    assert_int_equal(control->capture_mode, GPU_CAPTURE_RELAXED);
    assert_int_equal(grids[0], 20); /* 21 blocks of work on 2 x 10 multiprocessors */
    assert_int_equal(blocks[0], 128);
    assert_int_equal(grids[1], 1);
    assert_int_equal(blocks[1], 32);
    ls_step_statistics statistics;
    EXPECT_OK(s.context, ls_step_stats(s.step, &statistics));
    assert_int_equal(statistics.threads, 128);
    close_session(&s);
    assert_nothing_left();
    assert_int_equal(control->strays, 0);
}

static void expect_grid(int64_t length, const char *variant, unsigned grid, long together) {
    Session s = {0};
    ls_step_statistics statistics;
    const ls_tensor tensor = tensor_of(memory_of_p, LS_F32, 1, &length);
    control->launches_together = 0;
    EXPECT_OK(NULL, ls_context_create(DEVICE, NULL, &s.context));
    EXPECT_OK(s.context,
              ls_program_from_images(s.context, drive_images, 1, NULL, NULL, NULL, &s.program));
    EXPECT_OK(s.context, ls_step_create(s.program, "drive", &s.step));
    EXPECT_OK(s.context, ls_step_bind(s.step, "p", &tensor));
    EXPECT_OK(s.context, ls_step_set_number(s.step, "flag", 1));
    EXPECT_OK(s.context, ls_step_launch(s.step));
    EXPECT_OK(s.context, ls_step_stats(s.step, &statistics));
    EXPECT_OK(s.context, ls_synchronize(s.context));
    assert_string_equal(statistics.variant, variant);
    assert_int_equal(grids[0], grid);
    assert_int_equal(control->launches_together, together);
    assert_int_equal(statistics.temporary_bytes, 256 * grid); /* for each block */
    close_session(&s);
    assert_nothing_left();
}

/* Blocks that wait for each other are on the device at once; one block waits for nobody, and where
 * a device or a driver cannot do it another variant is taken. */
static void blocks_that_wait(void **state) {
    (void)state;
    reset();
    expect_grid(20500, "tiles", 20, 1);
    control->together = 1;
    expect_grid(20500, "tiles", 10, 1);
    expect_grid(2000, "tiles", 1, 0);
    expect_grid(2001, "tiles", 3, 1);
    control->together = 0; /* as a driver may say of a kernel that is too large: it is launched */
    expect_grid(20500, "tiles", 1, 0);
    control->cooperative = 0;
    expect_grid(20500, "tiles, no waiting", 20, 0);
    expect_grid(2000, "tiles", 1, 0);
}

/* What the device cannot give, and what it cannot do after a failure. */
static void exhausted(void **state) {
    (void)state;
    reset();
    Session s = {0};
    EXPECT_OK(s.context, use_everything(&s));
    void *more;
    control->memory = 0;
    EXPECT_FAILURE(s.context, LS_ERROR_MEMORY, ls_alloc(s.context, 1 << 20, &more), "ls_alloc",
                   "no 1.0 MiB more on " DEVICE ":1, which has 3.0 MiB of 8.0 MiB free",
                   "this context holds");
    assert_null(more);
    control->fail_at = control->calls + 1;
    control->fail_with = STAND_IN_ERROR;
    assert_int_equal(ls_synchronize(s.context), LS_ERROR_DEVICE);
    control->fail_at = 0;
    close_session(&s);
    assert_nothing_left();
}

/* Lists: bound, launched, captured, bound to other tensors, launched again. */
static ls_status use_lists(void *session) {
    Session *s = session;
    static const int64_t lengths[3] = {5, 0, 9};
    static _Alignas(64) float first[64], second[64], g[64];
    ls_tensor p[3], other[3], changes[3], output[3];
    size_t count;
    for (int i = 0; i < 3; i++) {
        p[i] = tensor_of(first + 16 * i, LS_F32, 1, &lengths[i]);
        other[i] = tensor_of(second + 16 * i, LS_F32, 1, &lengths[i]);
        changes[i] = tensor_of(g + 16 * i, LS_F32, 1, &lengths[i]);
    }
    for (int i = 0; i < 64; i++) first[i] = second[i] = 8, g[i] = 1;
    make_list_image();
    DO(ls_context_create(DEVICE, NULL, &s->context));
    DO(ls_program_from_images(s->context, list_images, 1, NULL, NULL, NULL, &s->program));
    DO(ls_step_create(s->program, "lists", &s->step));
    DO(ls_step_bind_list(s->step, "p", p, 3));
    DO(ls_step_bind_list(s->step, "g", changes, 3));
    DO(ls_step_set_number(s->step, "decay", 0));
    DO(ls_step_set_number(s->step, "lr", 1));
    DO(ls_step_prepare(s->step));
    long copies = control->copies_in;
    DO(ls_step_bind_list(s->step, "p", p, 3)); /* the same again */
    DO(ls_step_launch(s->step));
    assert_int_equal(control->copies_in, copies);
    DO(ls_graph_begin(s->context));
    ls_status status = ls_step_launch(s->step);
    ls_status ended = ls_graph_end(s->context, &s->graph);
    if (status != LS_OK) return status;
    DO(ended);
    DO(ls_step_bind_list(s->step, "p", other, 3)); /* the same lengths: pointers alone are copied */
    DO(ls_step_prepare(s->step));
    assert_int_equal(control->copies_in, copies + 1);
    DO(ls_step_launch(s->step));
    DO(ls_graph_launch(s->graph));
    DO(ls_step_bind_list(s->step, "p", other, 1));
    DO(ls_step_bind_list(s->step, "g", changes, 1));
    DO(ls_step_launch(s->step));
    DO(ls_step_output_list(s->step, "w", output, 3, &count));
    assert_int_equal(count, 1);
    DO(ls_synchronize(s->context));
    assert_true(first[0] == 6 && second[0] == 6 && second[40] == 7);
    return LS_OK;
}

static void lists(void **state) {
    (void)state;
    reset();
    Session s = {0};
    EXPECT_OK(s.context, use_lists(&s));
    close_session(&s);
    assert_nothing_left();
}

const Scenario scenario_everything = {"everything",  drive_hook,      use_everything,
                                      close_session, sizeof(Session), NULL};
const Scenario scenario_lists = {"lists",       drive_hook,      use_lists,
                                 close_session, sizeof(Session), NULL};

/* A row each. */
/* clang-format off */
static const Scenario *const scenarios[] = {
    &scenario_everything, &scenario_monitor,
    &scenario_lists,
    &scenario_memory,
    &scenario_trainer,
    &scenario_profile,
    &scenario_feed,
    &scenario_feed_fixed,
    &scenario_data,
    &scenario_reuse,
    &scenario_graph,
    &scenario_recapture,
    &scenario_repeat,
};
/* clang-format on */

static void every_call_fails_once(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(scenarios); i++) {
        fail_every_call(scenarios[i], STAND_IN_ERROR);
        fail_every_call(scenarios[i], GPU_OUT_OF_MEMORY);
    }
    assert_every_call_failed();
}

static void every_order(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(scenarios); i++) use_in_every_order(scenarios[i]);
}

static void foreign_stream(void **state) {
    (void)state;
    reset();
    ls_context *first, *second;
    EXPECT_OK(NULL, ls_context_create(DEVICE, NULL, &first));
    assert_int_equal(control->streams, 1);
    long streams = control->streams;
    void *stream = ls_context_stream(first);
    EXPECT_OK(NULL, ls_context_create(DEVICE, stream, &second));
    assert_int_equal(control->streams, streams); /* none of its own */
    EXPECT_OK(second, ls_synchronize(second));
    ls_context_destroy(second);
    assert_int_equal(control->streams, streams);
    ls_context_destroy(first);
    assert_nothing_left();
}

static void capture_that_is_spoilt(void **state) {
    (void)state;
    reset();
    Session s = {0};
    ls_graph *graph;
    EXPECT_OK(s.context, use_everything(&s));
    EXPECT_OK(s.context, ls_graph_begin(s.context));
    assert_int_equal(ls_synchronize(s.context), LS_ERROR_STATE);
    EXPECT_FAILURE(s.context, LS_ERROR_STATE, ls_graph_end(s.context, &graph), "ls_synchronize");
    assert_null(graph);
    EXPECT_OK(s.context, ls_step_launch(s.step));
    EXPECT_OK(s.context, ls_synchronize(s.context)); /* nobody can wait within a capture */
    EXPECT_OK(s.context, ls_graph_begin(s.context));
    ls_event_destroy(s.start);
    ls_event_destroy(s.end);
    ls_graph_destroy(s.graph);
    ls_step_destroy(s.step);
    ls_program_destroy(s.program);
    ls_context_destroy(s.context); /* in the middle of a capture; the memory goes with it */
    assert_nothing_left();
}

static void listing(void **state) {
    (void)state;
    reset();
    ls_device_info info[8];
    size_t count = ls_devices(info, 8), found = 0;
    for (size_t i = 0; i < count; i++) {
        if (strncmp(info[i].name, DEVICE, strlen(DEVICE)) != 0) continue;
        assert_true(info[i].usable);
        assert_non_null(strstr(info[i].description, ", " TARGET ", 10 multiprocessors"));
        found++;
    }
    assert_int_equal(found, 2);
    assert_int_equal(ls_devices(NULL, 0), count);
    assert_int_equal(control->contexts, 0); /* looking takes no context */
}

/* The one line for a device that cannot be used. */
static void expect_reason(const char *piece) {
    ls_device_info info[8];
    size_t count = ls_devices(info, 8);
    ls_context *context;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(info[i].name, DEVICE) != 0) continue;
        assert_false(info[i].usable);
        if (!strstr(info[i].description, piece))
            fail_msg("\"%s\" is not in: %s", piece, info[i].description);
        EXPECT_FAILURE(NULL, LS_ERROR_DEVICE, ls_context_create(DEVICE, NULL, &context),
                       "ls_context_create: " DEVICE " cannot be used: ", piece);
        return;
    }
    fail_msg("no line for " DEVICE);
}

static void reasons(void **state) {
    (void)state;
    reset();
    control->devices = 0;
    expect_reason("driver is there but finds no device");
    reset();
    control->version = 1;
    expect_reason("driver is too old: it gives version 1, Lockstep needs ");
    static const struct {
        int error;
        const char *piece;
    } rows[] = {{100, "finds no device"},
                {101, "finds no device"},
                {34, "library for linking"},
                {803, "different versions: reboot"},
                {999, "failed with STAND_IN_FAILED (999)"}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        reset();
        control->fail_at = 1;
        control->fail_with = rows[i].error;
        ls_context *context;
        EXPECT_FAILURE(NULL, LS_ERROR_DEVICE, ls_context_create(DEVICE, NULL, &context),
                       rows[i].piece);
    }
    reset();
    setenv(VARIABLE, "libm.so.6", 1); /* a library, but not a driver */
    expect_reason("driver is too old, it lacks ");
    setenv(VARIABLE, "/nonexistent/driver.so", 1);
    expect_reason("/nonexistent/driver.so cannot be loaded (" VARIABLE ")");
    unsetenv(VARIABLE);
    if (strcmp(DEVICE, "hip") == 0 && access("/dev/kfd", F_OK) != 0)
        expect_reason("no device: /dev/kfd is missing");
    reset();
    ls_context *context;
    EXPECT_FAILURE(NULL, LS_ERROR_DEVICE, ls_context_create(DEVICE ":2", NULL, &context),
                   "there is no " DEVICE ":2, only 2 devices, counted from 0");
    assert_nothing_left();
}

static void automatic(void **state) {
    (void)state;
    reset();
    setenv("LOCKSTEP_CUDA", strcmp(DEVICE, "cuda") == 0 ? STAND_IN_PATH : "/nonexistent", 1);
    ls_context *context;
    EXPECT_OK(NULL, ls_context_create("auto", NULL, &context));
    assert_string_equal(ls_context_device(context), DEVICE ":0");
    ls_context_destroy(context);
    control->devices = 0;
    EXPECT_OK(NULL, ls_context_create(NULL, NULL, &context));
    assert_string_equal(ls_context_device(context), "cpu");
    ls_context_destroy(context);
    reset();
}

/* Which code suits which device. */
static void targets(void **state) {
    (void)state;
    static const struct {
        const Vendor *vendor;
        const char *device, *targets[4]; /* best first; NULL ends those that suit */
        const char *unsuitable;
    } rows[] = {
        {&vendor_cuda, "sm_90", {"sm_90a", "sm_90", "compute_90", "compute_80"}, "sm_80"},
        {&vendor_cuda, "sm_89", {"sm_89", "sm_86", "sm_80", "compute_75"}, "compute_90"},
        {&vendor_cuda, "sm_86", {"sm_86", "sm_80", "compute_86", "compute_80"}, "sm_89"},
        {&vendor_cuda, "sm_86", {"sm_86", NULL, NULL, NULL}, "sm_75"},
        {&vendor_cuda, "sm_120", {"sm_120", "compute_100", "compute_90", NULL}, "sm_100"},
        {&vendor_cuda, "sm_100", {"sm_100", NULL, NULL, NULL}, "compute_90a"},
        {&vendor_cuda, "sm_90", {"sm_90", NULL, NULL, NULL}, "gfx90a"},
        {&vendor_cuda, "sm_90", {"sm_90", NULL, NULL, NULL}, "sm_"},
        {&vendor_cuda, "sm_90", {"sm_90", NULL, NULL, NULL}, "sm_89x"},
        {&vendor_hip, "gfx90a", {"gfx90a", NULL, NULL, NULL}, "gfx908"},
        {&vendor_hip, "gfx90a", {"gfx90a", NULL, NULL, NULL}, "cpu"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        int last = 1 << 30;
        for (int k = 0; k < 4 && rows[i].targets[k]; k++) {
            int score = rows[i].vendor->suits(rows[i].device, rows[i].targets[k]);
            if (score <= 0 || score >= last)
                fail_msg("%s on %s", rows[i].targets[k], rows[i].device);
            last = score;
        }
        if (rows[i].vendor->suits(rows[i].device, rows[i].unsuitable))
            fail_msg("%s on %s", rows[i].unsuitable, rows[i].device);
    }
}

static void wrong_code(void **state) {
    (void)state;
    reset();
    ls_context *context;
    ls_program *program;
    ls_step *step;
    float p[4] = {0};
    const int64_t length = 4;
    ls_tensor tensor = tensor_of(p, LS_F32, 1, &length);
    ls_image_variant bad = variants[0];
    ls_image bad_image = image;
    const ls_image *list[] = {&bad_image};
    bad.code = "garbage";
    bad_image.variants = &bad;
    bad_image.variant_count = 1;
    EXPECT_OK(NULL, ls_context_create(DEVICE, NULL, &context));
    EXPECT_OK(context, ls_program_from_images(context, list, 1, NULL, NULL, NULL, &program));
    EXPECT_OK(context, ls_step_create(program, "drive", &step));
    EXPECT_OK(context, ls_step_bind(step, "p", &tensor));
    EXPECT_OK(context, ls_step_set_number(step, "flag", 1));
    EXPECT_FAILURE(context, LS_ERROR_DEVICE, ls_step_launch(step),
                   "loading step `drive` (tiles) on " DEVICE, "ModuleLoadData failed");
    bad.code = code;
    EXPECT_OK(context, ls_step_launch(step));
    ls_step_destroy(step);
    ls_program_destroy(program);
    ls_context_destroy(context);
    assert_nothing_left();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_path),
        cmocka_unit_test(blocks_that_wait),
        cmocka_unit_test(exhausted),
        cmocka_unit_test(memory_advice),
        cmocka_unit_test(memory_asks_again),
        cmocka_unit_test(memory_steady),
        cmocka_unit_test(lists),
        cmocka_unit_test(every_order),
        cmocka_unit_test(every_call_fails_once),
        cmocka_unit_test(feed_overlaps),
        cmocka_unit_test(profile_of_no_time),
        cmocka_unit_test(feed_without_pinned),
        cmocka_unit_test(feed_fails_half_way),
        cmocka_unit_test(foreign_stream),
        cmocka_unit_test(capture_that_is_spoilt),
        cmocka_unit_test(trainer_captures),
        cmocka_unit_test(other_streams),
        cmocka_unit_test(trainer_lists),
        cmocka_unit_test(strict_captures),
        cmocka_unit_test(two_devices),
        cmocka_unit_test(trainers_contexts),
        cmocka_unit_test(device_lost),
        cmocka_unit_test(forked_child),
        cmocka_unit_test(graph_begin_fails),
        cmocka_unit_test(graph_end_fails),
        cmocka_unit_test(trainer_keeps_memory),
        cmocka_unit_test(graph_updates),
        cmocka_unit_test(graph_repeats),
        cmocka_unit_test(repeat_code),
        cmocka_unit_test(fallbacks),
        cmocka_unit_test(host_work_not_recorded),
        cmocka_unit_test(host_work_lacking),
        cmocka_unit_test(rows_of_copies),
        cmocka_unit_test(feed_in_place),
        cmocka_unit_test(unrecorded),
        cmocka_unit_test(old_devices),
        cmocka_unit_test(graph_of_both),
        cmocka_unit_test(graph_update_fails),
        cmocka_unit_test(listing),
        cmocka_unit_test(reasons),
        cmocka_unit_test(automatic),
        cmocka_unit_test(targets),
        cmocka_unit_test(wrong_code),
    };
    return cmocka_run_group_tests(tests, open_control, NULL);
}
