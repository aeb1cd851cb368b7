/* fixtures.h: hand-made images whose kernels are C functions, so that the runtime is tested without
 * the compiler. Shared by the API tests. */
#ifndef FIXTURES_H
#define FIXTURES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <lockstep/lockstep.h>

/* step descend[r, n](inout p: f32[r, n], g: f32[r, n], out w: f32[r, n],
 *                    inout count: i32 = 3, lr: f32, out total: f64)
 * p -= lr * g; w = p; count += 1; total = sum(p), where total is the sum over the workers' parts.
 * One dense variant and one for any strides. */
extern const ls_image image_descend;
/* The same without the variant for strides. */
extern const ls_image image_descend_dense_only;
/* step fixed[k = 4, n](x: f64[k, n], out y: f64[n], out size: u64): y = x[0]; size = n. A small
 * variant (work up to 8) and a large one; `size` also counts 100 for the large one. */
extern const ls_image image_fixed;
/* step cells(a: f64, b: f32, c: i64, d: i32, e: u64, f: u32, g: bool, inout h: i32): h = 1. */
extern const ls_image image_cells;
/* step environment(out control: u64): what the kernel sees in the floating-point control register.
 */
extern const ls_image image_environment;

/* step lists[t, n of t](inout p: f32[t, n], g: f32[t, n], out w: f32[t, n], decay: f32[t], lr: f32,
 *                       out total: f64)
 * p -= lr * (g + decay * p); w = p; total = sum(p): in tiles of LIST_TILE elements, through a
 * temporary over the list and one part a tile. One dense variant and one for any alignment. */
enum { LIST_TILE = 4 };
extern const ls_image image_lists;
/* step shapes[t, r of t, c of t, v of t = r * c, n as (q, k = 4), h, w = 2 * h + 1, b of t as
 *             (d, e = 2)]
 * with a parameter over each set of axes that may stand in a list; the kernel only keeps its
 * arguments in shapes_words. */
enum { SHAPES_WORDS = 64 };
extern uint64_t shapes_words[SHAPES_WORDS];
extern const ls_image image_shapes;

/* The tests run on the CPU, and again on stand-ins for CUDA's and HIP's drivers: see on_device.c. A
 * test of what only the CPU does begins with CPU_ONLY(). */
#ifdef API_DEVICE
/* An image for the CPU as one for the context's device; what is made stays to the end. */
const ls_image *on_device(const ls_context *context, const ls_image *image);
#define ON_CPU 0
#define DEVICE_NAME API_DEVICE ":0"
#else
#define ON_CPU 1
#define DEVICE_NAME "cpu"
#endif
#define CPU_ONLY() \
    if (!ON_CPU) skip()

#define NO_TILES \
    { 0, 0, {{0, 0, 0, 0}}, 0 } /* of a kernel whose items nobody shares */
#define ROWS_OF(table) ((uint32_t)(sizeof(table) / sizeof(table)[0]))
/* An image of one step, called as its file is, from tables; what is not named is 0. */
#define IMAGE(step_, target_, axes_, axis_count_, parameters_, variants_, variant_count_)  \
    {                                                                                      \
        .version = LS_IMAGE_VERSION, .step = step_, .target = target_,                     \
        .source_file = step_ ".step", .numeric_version = 1, .axis_count = axis_count_,     \
        .axes = axes_, .parameter_count = ROWS_OF(parameters_), .parameters = parameters_, \
        .variant_count = variant_count_, .variants = variants_                             \
    }

typedef struct Fixture {
    ls_context *context;
    ls_program *program;
    ls_step *step;
} Fixture;
/* A CPU context with `threads` threads, a program of that one image, and its step. */
Fixture open_fixture(const ls_image *image, int threads);
void close_fixture(Fixture *fixture);

ls_tensor tensor_of(void *data, ls_type type, uint32_t rank, const int64_t *shape);

/* Fails the test unless `status` came back and the message holds every given piece
 * (NULL-terminated). */
void expect_failure(const ls_context *context, ls_status expected, ls_status status, ...);
#define EXPECT_FAILURE(context, expected, ...) \
    expect_failure((context), (expected), __VA_ARGS__, (const char *)NULL)
#define EXPECT_OK(context, call)                                                    \
    do {                                                                            \
        ls_status status_ = (call);                                                 \
        if (status_ != LS_OK) fail_msg("%s: %s", #call, ls_error_message(context)); \
    } while (0)

#endif
