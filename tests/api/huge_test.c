/* huge_test.c: more than 2^31 elements: a map, reductions and a row step on the CPU. The arrays are
 * 2 GiB of addresses and a few MiB of memory: one piece of a file, mapped again and again, and
 * behind element 2^31 a piece of its own. Skipped where there is no host compiler. */
#include "fixtures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char source[] =
    "step flat[n](x: i8[n], out y: i8[n], out total: i64, out late: i64, out last: i64) {\n"
    "    let behind = index(n) >= 2147483648\n"
    "    y = i8(if behind then x + 20 else x + 10)\n"
    "    total = sum(i64(x))\n"
    "    late = count(behind)\n"
    "    last = argmax[n](if index(n) == 2147484000 then 100 else x)\n"
    "}\n"
    "step rows[b, k](x: i8[b, k], out y: i8[b, k], out r: i64[b]) {\n"
    "    r = sum[k](i64(x))\n"
    "    y = i8(i64(x) + r % 5)\n"
    "}\n";

enum { PIECE = 1 << 20, PIECES = 2049 };
static const int64_t count = (int64_t)PIECE * 2048 + 1025; /* of the last piece not all */

/* Element i of the repeated piece; those behind 2^31 have 3 more. */
static int element(int64_t i) {
    return (int)((uint64_t)(i % PIECE) * 2654435761u >> 20 & 63) - 20 + (i >> 31 ? 3 : 0);
}

/* The piece, repeated up to 2^31, and one that is its own; NULL: the machine does not allow it. */
static int8_t *open_array(void) {
    int file = memfd_create("huge", 0);
    uint8_t *all = mmap(NULL, (size_t)PIECE * PIECES, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bool good = file >= 0 && all != MAP_FAILED && ftruncate(file, 2 * PIECE) == 0;
    for (size_t i = 0; good && i < PIECES; i++)
        good = mmap(all + i * PIECE, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
                    i + 1 == PIECES ? PIECE : 0) != MAP_FAILED;
    if (file >= 0) close(file);
    return good ? (int8_t *)all : NULL;
}

static void fill_array(int8_t *x) {
    for (int64_t i = 0; i < PIECE; i++) x[i] = (int8_t)element(i);
    for (int64_t i = (int64_t)PIECE * 2048; i < (int64_t)PIECE * PIECES; i++)
        x[i] = (int8_t)element(i);
}

static void close_array(int8_t *x) {
    munmap(x, (size_t)PIECE * PIECES);
}

static int64_t sum_of(int64_t first, int64_t end) {
    int64_t piece = 0, sum = 0;
    for (int64_t i = 0; i < PIECE; i++) piece += element(i);
    while (first < end) {
        const bool whole = first % PIECE == 0 && end - first >= PIECE && first >> 31 == 0;
        sum += whole ? piece : element(first);
        first += whole ? PIECE : 1;
    }
    return sum;
}

typedef struct Huge {
    ls_context *context;
    ls_program *program;
    int8_t *x, *y;
} Huge;

static int open_all(void **state) {
    static Huge huge;
    char reason[512];
    *state = &huge;
    if (!ls_toolchain_describe("host", reason, sizeof reason)) return 0;
    huge.x = open_array();
    huge.y = open_array();
    if (!huge.x || !huge.y) return 0;
    fill_array(huge.x);
    if (ls_context_create("cpu", NULL, &huge.context) != LS_OK) return 1;
    if (ls_program_load_text(huge.context, "huge.step", source, strlen(source), NULL,
                             &huge.program) == LS_OK)
        return 0;
    fprintf(stderr, "%s\n", ls_error_message(huge.context));
    return 1;
}

static int close_all(void **state) {
    Huge *huge = *state;
    if (huge->program) ls_program_destroy(huge->program);
    ls_context_destroy(huge->context);
    if (huge->x) close_array(huge->x);
    if (huge->y) close_array(huge->y);
    return 0;
}

static ls_step *open_step(const Huge *huge, const char *name, uint32_t rank, const int64_t *shape) {
    ls_step *step;
    if (!huge->program) skip();
    const ls_tensor x = {huge->x, LS_I8, rank, shape, NULL},
                    y = {huge->y, LS_I8, rank, shape, NULL};
    EXPECT_OK(huge->context, ls_step_create(huge->program, name, &step));
    EXPECT_OK(huge->context, ls_step_bind(step, "x", &x));
    EXPECT_OK(huge->context, ls_step_bind(step, "y", &y));
    return step;
}

static void test_flat(void **state) {
    const Huge *huge = *state;
    int64_t total, late, last;
    ls_step *step = open_step(huge, "flat", 1, &count);
    EXPECT_OK(huge->context, ls_step_want(step, "total"));
    EXPECT_OK(huge->context, ls_step_want(step, "late"));
    EXPECT_OK(huge->context, ls_step_want(step, "last"));
    huge->y[count] = 77;
    EXPECT_OK(huge->context, ls_step_launch(step));
    EXPECT_OK(huge->context, ls_step_get(step, "total", &total));
    EXPECT_OK(huge->context, ls_step_get(step, "late", &late));
    EXPECT_OK(huge->context, ls_step_get(step, "last", &last));
    assert_int_equal(total, sum_of(0, count));
    assert_int_equal(late, 1025);
    assert_int_equal(last, 2147484000);
    for (int64_t i = 0; i < PIECE; i++) assert_int_equal(huge->y[i], element(i) + 10);
    for (int64_t i = count - 1025; i < count; i++) assert_int_equal(huge->y[i], element(i) + 20);
    assert_int_equal(huge->y[count], 77);
    ls_step_destroy(step);
}

static void test_rows(void **state) {
    const Huge *huge = *state;
    const int64_t shape[] = {3, count / 3};
    int64_t sums[3];
    const ls_tensor r = {sums, LS_I64, 1, shape, NULL};
    ls_step *step = open_step(huge, "rows", 2, shape);
    EXPECT_OK(huge->context, ls_step_bind(step, "r", &r));
    EXPECT_OK(huge->context, ls_step_launch(step));
    EXPECT_OK(huge->context, ls_synchronize(huge->context));
    for (int b = 0; b < 3; b++) assert_int_equal(sums[b], sum_of(b * shape[1], (b + 1) * shape[1]));
    const int64_t more = (sums[2] % 5 + 5) % 5;
    for (int64_t i = count - 1025; i < 3 * shape[1]; i++)
        assert_int_equal(huge->y[i], element(i) + more);
    ls_step_destroy(step);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_flat), cmocka_unit_test(test_rows)};
    return cmocka_run_group_tests(tests, open_all, close_all);
}
