/* skip_test.c: work that a rank-0 condition skips really is: the arrays of such a step lie in
 * memory that nobody may touch, and a launch neither reads nor writes them. Skipped where there is
 * no host compiler. */
#include "fixtures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const char source[] =
    "step guarded[b, n](x: f32[b, n], inout p: f32[b, n], inout m: bf16[b, n], inout row: f32[b],\n"
    "                   inout found: i32, inout steps: i32, inout norm_sum: f32, pick: i32[b]) {\n"
    "    when found == 0 {\n"
    "        let size_of = norm[n](x)\n"
    "        row = row + size_of\n"
    "        m = 0.5 * m + x / size_of\n"
    "        p = p - cumsum[n](m) + p[b - 1, n] + x[b, pick]\n"
    "        norm_sum += sum(size_of)\n"
    "    } else {\n"
    "        norm_sum = -1\n"
    "    }\n"
    "    steps += 1\n"
    "}\n";

enum { ARRAYS = 5 };
static const struct {
    const char *name;
    ls_type type;
    uint32_t rank;
} arrays[ARRAYS] = {
    {"x", LS_F32, 2}, {"p", LS_F32, 2}, {"m", LS_BF16, 2}, {"row", LS_F32, 1}, {"pick", LS_I32, 1}};

/* Whether a launch with `found` changes p, whose memory and that of the rest has the protection. */
static bool changes(int64_t rows, int64_t columns, int found, int protection, bool strided) {
    const int64_t shape[] = {rows, columns}, strides[] = {columns + 3, 1}, apart[] = {2};
    const size_t bytes = (size_t)(rows * (columns + 3)) * 4;
    void *memory[ARRAYS];
    ls_context *context;
    ls_program *program;
    ls_step *step;
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &context));
    EXPECT_OK(context, ls_program_load_text(context, "guarded.step", source, sizeof source - 1,
                                            NULL, &program));
    EXPECT_OK(context, ls_step_create(program, "guarded", &step));
    for (int i = 0; i < ARRAYS; i++) {
        memory[i] = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(memory[i] != MAP_FAILED);
        if (arrays[i].type == LS_F32)
            for (size_t k = 0; k < bytes / 4; k++) ((float *)memory[i])[k] = 1 + (float)(k % 7);
        assert_int_equal(mprotect(memory[i], bytes, protection), 0);
        const ls_tensor tensor = {memory[i], arrays[i].type, arrays[i].rank, shape,
                                  !strided              ? NULL
                                  : arrays[i].rank == 2 ? strides
                                                        : apart};
        EXPECT_OK(context, ls_step_bind(step, arrays[i].name, &tensor));
    }
    EXPECT_OK(context, ls_step_set(step, "found", &found));
    EXPECT_OK(context, ls_step_set_number(step, "steps", 41));
    EXPECT_OK(context, ls_step_set_number(step, "norm_sum", 0));
    EXPECT_OK(context, ls_step_launch(step));
    int steps = 0;
    float norm_sum = 0;
    EXPECT_OK(context, ls_step_get(step, "steps", &steps)); /* these go on */
    EXPECT_OK(context, ls_step_get(step, "norm_sum", &norm_sum));
    assert_int_equal(steps, 42);
    assert_true(found ? norm_sum == -1 : norm_sum > 0);
    bool changed = false;
    if (protection != PROT_NONE)
        for (size_t k = 0; k < bytes / 4 && !changed; k++)
            changed = ((float *)memory[1])[k] != 1 + (float)(k % 7);
    ls_step_destroy(step);
    ls_program_destroy(program);
    ls_context_destroy(context);
    for (int i = 0; i < ARRAYS; i++) munmap(memory[i], bytes);
    return changed;
}

static void nothing_is_touched(void **state) {
    (void)state;
    for (int strided = 0; strided < 2; strided++) {
        assert_true(changes(7, 33, 0, PROT_READ | PROT_WRITE, strided)); /* the test can fail */
        assert_false(changes(7, 33, 1, PROT_READ | PROT_WRITE, strided));
        changes(7, 33, 1, PROT_NONE, strided);    /* in one block */
        changes(300, 700, 1, PROT_NONE, strided); /* a kernel for each phase */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_touched)};
    char version[256];
    if (!ls_toolchain_describe("host", version, sizeof version)) {
        printf("no host compiler: %s\n", version);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
