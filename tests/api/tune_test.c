/* tune_test.c: launches as `lockstep tune` tries them: every variant that suits, every block size
 * and number of blocks, every number of workers gives the same bits; and what was kept for a size
 * is used at that size, and no other. On the CPU, and on emulated devices. */
#include "fixtures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char source[] =
    "step update[n](inout p: f32[n], g: bf16[n], inout count: i32 = 0, lr: f32 = 0.1) {\n"
    "    count += 1\n"
    "    p -= lr * g / sqrt(f32(count) + abs(p))\n"
    "}\n"
    "step totals[n](x: f32[n], out all: f32, out y: f32[n]) {\n"
    "    let mean = sum(x) / 3\n"
    "    all = mean\n"
    "    y = x - mean\n"
    "}\n"
    "step rows[r, c](x: f32[r, c], gain: f32[c], out y: f32[r, c], out d: f32[c]) {\n"
    "    let e = exp(x - max[c](x))\n"
    "    y = e / sum[c](e) * gain\n"
    "    d = sum[r](x * gain)\n"
    "}\n"
    "step columns[r, c](x: f32[r, c], out y: f32[c]) {\n"
    "    y = sum[r](x) * 0.5\n"
    "}\n";

/* What of each step is bound: a large array that it reads, those that it writes, a small one. */
static const struct {
    const char *step, *input, *changed, *outputs[2], *small;
    bool rows;
} cases[] = {
    {"update", "g", "p", {NULL, NULL}, NULL, false},
    {"totals", "x", NULL, {"y", NULL}, NULL, false},
    {"rows", "x", NULL, {"y", "d"}, "gain", true},
    {"columns", "x", NULL, {"y", NULL}, NULL, true},
};

enum { ROWS = 9, COLUMNS = 1500, ELEMENTS = ROWS * COLUMNS, MOST = 2 * ELEMENTS };

typedef struct Run {
    ls_context *context;
    ls_step *step;
    size_t number;
    void *input, *changed, *outputs[2], *small;
} Run;

static void *device_array(const Run *run, const char *name, int seed) {
    const bool wide = strcmp(name, "g") != 0;
    const bool column = strcmp(name, "gain") == 0 || strcmp(name, "d") == 0 ||
                        strcmp(cases[run->number].step, "columns") == 0;
    const bool all = strcmp(name, "x") == 0 || (cases[run->number].rows && !column);
    const int64_t flat[] = {ELEMENTS}, rows[] = {ROWS, COLUMNS}, line[] = {COLUMNS};
    static float host[ELEMENTS];
    static uint16_t narrow[ELEMENTS];
    const size_t bytes = ELEMENTS * (wide ? sizeof *host : sizeof *narrow);
    void *data;
    for (int i = 0; i < ELEMENTS; i++) host[i] = (float)((i * 37 + seed) % 1001 - 500) / 64;
    for (int i = 0; i < ELEMENTS; i++) narrow[i] = (uint16_t)(0x3c00 + (i * 29 + seed) % 300);
    EXPECT_OK(run->context, ls_alloc(run->context, bytes, &data));
    EXPECT_OK(run->context,
              ls_copy_in(run->context, data, wide ? (void *)host : (void *)narrow, bytes));
    const bool two = cases[run->number].rows && all;
    ls_tensor tensor = tensor_of(data, wide ? LS_F32 : LS_BF16, two ? 2 : 1,
                                 two                       ? rows
                                 : cases[run->number].rows ? line
                                                           : flat);
    EXPECT_OK(run->context, ls_step_bind(run->step, name, &tensor));
    return data;
}

static Run open_run(ls_context *context, ls_program *program, size_t number) {
    Run run = {.context = context, .number = number};
    EXPECT_OK(context, ls_step_create(program, cases[number].step, &run.step));
    run.input = device_array(&run, cases[number].input, 1);
    if (cases[number].small) run.small = device_array(&run, cases[number].small, 2);
    return run;
}

static void close_run(Run *run) {
    void *all[] = {run->input, run->small, run->changed, run->outputs[0], run->outputs[1]};
    ls_step_destroy(run->step);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]) ls_free(run->context, all[i]);
}

/* One launch on fresh arrays; gives what it wrote. */
static void results(Run *run, float *to) {
    const char *changed = cases[run->number].changed;
    int32_t none = 0;
    memset(to, 0, MOST * sizeof *to);
    if (run->changed) ls_free(run->context, run->changed);
    if (changed) {
        run->changed = device_array(run, changed, 3);
        EXPECT_OK(run->context, ls_step_set(run->step, "count", &none));
    }
    for (size_t i = 0; i < 2 && cases[run->number].outputs[i]; i++) {
        if (run->outputs[i]) ls_free(run->context, run->outputs[i]);
        run->outputs[i] = device_array(run, cases[run->number].outputs[i], 4);
    }
    EXPECT_OK(run->context, ls_step_launch(run->step));
    const size_t bytes = ELEMENTS * sizeof *to;
    if (changed) EXPECT_OK(run->context, ls_copy_out(run->context, to, run->changed, bytes));
    for (size_t i = 0; i < 2 && run->outputs[i]; i++)
        EXPECT_OK(run->context,
                  ls_copy_out(run->context, to + i * ELEMENTS, run->outputs[i], bytes));
    EXPECT_OK(run->context, ls_synchronize(run->context));
}

static ls_context *open_context(void) {
    ls_context *context;
    setenv("LOCKSTEP_THREADS", "4", 1);
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &context));
    return context;
}

static ls_program *open_program(ls_context *context, bool all_forms) {
    const ls_compile_options options = {.all_forms = all_forms, .no_tuning = all_forms};
    ls_program *program;
    EXPECT_OK(context, ls_program_load_text(context, "tuned.step", source, sizeof source - 1,
                                            &options, &program));
    return program;
}

static float expected[MOST], got[MOST];

static void every_launch_gives_the_same_bits(void **state) {
    (void)state;
    static const struct {
        uint32_t threads, blocks, workers;
    } groupings[] = {{0, 0, 0},  {32, 0, 0},  {64, 2, 0}, {128, 1, 0}, {0, 4, 0}, {256, 32, 0},
                     {64, 0, 1}, {96, 16, 2}, {0, 0, 1},  {0, 0, 2},   {0, 0, 3}, {0, 0, 4}};
    ls_context *context = open_context();
    ls_program *program = open_program(context, true);
    size_t tried = 0, forms = 0;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        Run run = open_run(context, program, c);
        results(&run, expected);
        const ls_image *image = ls_step_image(run.step);
        for (uint32_t v = 0; v < image->variant_count; v++)
            for (size_t w = 0; w < sizeof groupings / sizeof *groupings; w++) {
                if (image->variants[v].form && (c > 0 || w > 1)) break; /* each is compiled */
                const ls_image_tuning tuning = {.variant = v,
                                                .threads = groupings[w].threads,
                                                .blocks_per_multiprocessor = groupings[w].blocks,
                                                .workers = groupings[w].workers};
                ls_step_statistics statistics;
                EXPECT_OK(context, ls_step_tune(run.step, &tuning));
                const ls_status status = ls_step_stats(run.step, &statistics);
                if (status == LS_ERROR_UNSUPPORTED) continue; /* does not suit these sizes */
                EXPECT_OK(context, status);
                assert_true(statistics.tuned);
                if (ON_CPU && groupings[w].workers)
                    assert_true(statistics.parts <= groupings[w].workers);
                results(&run, got);
                if (memcmp(expected, got, sizeof got) != 0)
                    fail_msg("%s, %s: other bits with %u threads, %u blocks, %u workers",
                             cases[c].step, image->variants[v].name, groupings[w].threads,
                             groupings[w].blocks, groupings[w].workers);
                tried++;
                forms += image->variants[v].form > 0;
            }
        ls_step_statistics statistics;
        EXPECT_OK(context, ls_step_tune(run.step, NULL));
        EXPECT_OK(context, ls_step_stats(run.step, &statistics));
        assert_false(statistics.tuned);
        close_run(&run);
    }
    assert_true(tried > 60);
    assert_true(forms >= 4);
    ls_program_destroy(program);
    ls_context_destroy(context);
}

static ls_tuning_record record_for(ls_context *context, const ls_step_statistics *statistics) {
    ls_tuning_record record = {.tuning = {.at_least = statistics->work - 1,
                                          .at_most = statistics->work + 1,
                                          .threads = 64,
                                          .blocks_per_multiprocessor = 1,
                                          .workers = 1},
                               .sizes = "n=13500",
                               .usual_us = 2,
                               .best_us = 1};
    snprintf(record.device, sizeof record.device, "%s", ls_context_describe(context));
    return record;
}

/* What a program loaded now makes of step `update`; gives its statistics. */
static ls_step_statistics load_again(ls_context *context) {
    static char variant[200]; /* the step's own text goes with the step */
    ls_step_statistics statistics;
    ls_program *program = open_program(context, false);
    Run run = open_run(context, program, 0);
    results(&run, got);
    assert_memory_equal(expected, got, sizeof got);
    EXPECT_OK(context, ls_step_stats(run.step, &statistics));
    snprintf(variant, sizeof variant, "%s", statistics.variant);
    statistics.variant = variant;
    close_run(&run);
    ls_program_destroy(program);
    return statistics;
}

static void explain_shows(const char *target, const char *words) {
    ls_compilation *compilation;
    const char *text;
    for (int json = 0; json < 2; json++) {
        const ls_explain_options options = {.report = json ? LS_REPORT_JSON : LS_REPORT_TEXT,
                                            .targets = &target,
                                            .target_count = 1,
                                            .plan_only = 1};
        assert_int_equal(
            ls_compile_text("tuned.step", source, sizeof source - 1, NULL, &compilation), LS_OK);
        assert_int_equal(ls_compilation_explain(compilation, 0, &options, &text), LS_OK);
        assert_non_null(strstr(text, json ? "\"sizes\": \"n=13500\"" : words));
        ls_compilation_destroy(compilation);
    }
}

/* The log says once that a tuning is used. */
static ls_step_statistics load_again_logged(ls_context *context) {
    static const char line[] = "step `update`: launched as lockstep tune found best (";
    char text[8192];
    FILE *file = tmpfile();
    const int before = dup(STDERR_FILENO);
    assert_non_null(file);
    fflush(stderr);
    assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
    setenv("LOCKSTEP_LOG", "info", 1);
    const ls_step_statistics statistics = load_again(context);
    unsetenv("LOCKSTEP_LOG");
    fflush(stderr);
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    const char *found = strstr(text, line);
    if (!found) fail_msg("`%s` is not in: %s", line, text);
    assert_null(strstr(found + 1, line));
    return statistics;
}

static void what_is_kept_is_used(void **state) {
    (void)state;
    char folder[] = "/tmp/lockstep-tuned-XXXXXX", reason[300], command[100];
    assert_non_null(mkdtemp(folder));
    setenv("LOCKSTEP_CACHE_DIR", folder, 1);
    ls_context *context = open_context();
    ls_program *program = open_program(context, false);
    Run run = open_run(context, program, 0);
    ls_step_statistics statistics, tuned;
    ls_tuning_record found[4];
    results(&run, expected);
    EXPECT_OK(context, ls_step_stats(run.step, &statistics));
    assert_false(statistics.tuned);
    const ls_image *image = ls_step_image(run.step);
    ls_tuning_record record = record_for(context, &statistics);
    if (!ON_CPU) record.tuning.variant = image->variant_count; /* a form of the first */
    EXPECT_OK(context, ls_tuning_keep(image, &record, reason, sizeof reason));
    tuned = load_again_logged(context);
    assert_true(tuned.tuned);
    if (ON_CPU)
        assert_int_equal(tuned.parts, 1);
    else
        assert_int_equal(tuned.threads, 64);
    assert_true(ON_CPU == !strstr(tuned.variant, "contiguous arrays, 2 rows at once"));
    assert_int_equal(ls_tuning_list(image, record.device, found, 4), 1);
    assert_int_equal(ls_tuning_list(image, NULL, found, 4), 1);
    assert_string_equal(found[0].sizes, "n=13500");
    assert_int_equal(found[0].tuning.threads, 64);
    assert_int_equal(ls_tuning_list(image, "another device", found, 4), 0);

    explain_shows(image->target, "tuned for n=13500 on ");
    ls_cache_stats stats; /* the cache knows of it */
    EXPECT_OK(context, ls_cache_read_stats(&stats, 1));
    assert_int_equal(stats.tuned, 1);

    record.tuning.at_least += 10; /* another size: kept beside it, and of no concern here */
    record.tuning.at_most += 10;
    EXPECT_OK(context, ls_tuning_keep(image, &record, reason, sizeof reason));
    assert_int_equal(ls_tuning_list(image, NULL, found, 4), 2);
    record.tuning.at_least -= 10; /* the first, dropped */
    record.tuning.at_most -= 10;
    record.best_us = 0;
    EXPECT_OK(context, ls_tuning_keep(image, &record, reason, sizeof reason));
    assert_int_equal(ls_tuning_list(image, NULL, found, 4), 1);
    assert_false(load_again(context).tuned);

    record.best_us = 1; /* and a file that somebody changed says nothing */
    EXPECT_OK(context, ls_tuning_keep(image, &record, reason, sizeof reason));
    snprintf(command, sizeof command, "sed -i 's/=13500/=13501/' %s/tuned-*", folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(ls_tuning_list(image, NULL, found, 4), 0);
    assert_false(load_again(context).tuned);

    uint64_t removed;
    EXPECT_OK(context, ls_cache_clear(&removed));
    assert_true(removed >= 1);
    EXPECT_OK(context, ls_cache_read_stats(&stats, 0));
    assert_int_equal(stats.tuned, 0);
    close_run(&run);
    ls_program_destroy(program);
    ls_context_destroy(context);
    assert_int_equal(rmdir(folder), 0);
    unsetenv("LOCKSTEP_CACHE_DIR");
}

static void refusals(void **state) {
    (void)state;
    ls_context *context = open_context();
    ls_program *program = open_program(context, false);
    Run run = open_run(context, program, 1);
    const ls_image_tuning none = {.variant = 1000};
    assert_int_equal(ls_step_tune(NULL, &none), LS_ERROR_ARGUMENT);
    EXPECT_OK(context, ls_step_tune(run.step, &none));
    assert_int_equal(ls_step_prepare(run.step), LS_ERROR_UNSUPPORTED);
    assert_non_null(strstr(ls_error_message(context), "variant 1000 of step `totals`"));
    close_run(&run);
    ls_program_destroy(program);
    ls_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_launch_gives_the_same_bits),
        cmocka_unit_test(what_is_kept_is_used),
        cmocka_unit_test(refusals),
    };
    char version[256];
    if (!ls_toolchain_describe("host", version, sizeof version)) {
        printf("no host compiler: %s\n", version);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
