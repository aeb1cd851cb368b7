/* emulated_blas.c: the few calls of cuBLAS and rocBLAS that examples/charlm makes, on the emulated
 * devices, whose memory is the host's. Built twice, with EMULATED_CUDA and with EMULATED_HIP.
 *
 * It checks what the libraries' manuals demand (operations, types, leading dimensions) and
 * multiplies with the sums in the order of the example's own loops, so that training on the
 * emulated device can be compared bit for bit with training on the CPU. The work goes through the
 * driver's host functions, in the order of the stream and into graphs. */
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef EMULATED_CUDA
enum {
    AS_IT_IS = 0,
    TRANSPOSED = 1,
    F32 = 0,
    BF16 = 14,
    F16 = 2,
    COMPUTE_F32 = 68,
    ALGORITHM = -1
};
static const char driver[] = "LOCKSTEP_CUDA", launch_call[] = "cuLaunchHostFunc";
#else
enum {
    AS_IT_IS = 111,
    TRANSPOSED = 112,
    F32 = 151,
    BF16 = 168,
    F16 = 150,
    COMPUTE_F32 = 151,
    ALGORITHM = 0
};
static const char driver[] = "LOCKSTEP_HIP", launch_call[] = "hipLaunchHostFunc";
#endif
enum { INVALID_VALUE = 7 };

/* C = op(A) op(B) + beta C, column-major. */
typedef struct Work {
    bool turn_a, turn_b, batched;
    int m, n, k, type_a, type_b, type_c, lda, ldb, ldc, count;
    float beta;
    const void *a, *b; /* of a batch arrays of pointers */
    void *c;
    struct Work *next;
} Work;

typedef struct Handle {
    void *stream;
    int (*launch)(void *stream, void (*function)(void *), void *argument);
    Work *works; /* graphs may hold them as long as the handle lives */
} Handle;

static float from_f16(uint16_t value) {
    const int exponent = value >> 10 & 31, fraction = value & 1023;
    const float size = exponent == 31 ? (fraction ? NAN : INFINITY)
                       : exponent     ? ldexpf((float)(1024 + fraction), exponent - 25)
                                      : ldexpf((float)fraction, -24);
    return value & 0x8000 ? -size : size;
}

/* The value next to it, of two the even one: where a step of f16 begins is found by counting. */
static uint16_t to_f16(float value) {
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    uint16_t below = 0, above = 0x7c00;
    if (value != value) return 0x7e00;
    if (fabsf(value) >= 65520) return sign | 0x7c00;
    while (above - below > 1) {
        const uint16_t middle = (uint16_t)((below + above) / 2);
        *(from_f16(middle) <= fabsf(value) ? &below : &above) = middle;
    }
    const double high = above == 0x7c00 ? 65536 : from_f16(above);
    const double half = ((double)from_f16(below) + high) / 2, size = fabsf(value);
    return sign | (size > half || (size == half && below & 1) ? above : below);
}

static float read_at(const void *data, int type, int64_t at) {
    uint32_t bits = 0;
    float value;
    if (type == F32) return ((const float *)data)[at];
    if (type == F16) return from_f16(((const uint16_t *)data)[at]);
    bits = (uint32_t)((const uint16_t *)data)[at] << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void write_at(void *data, int type, int64_t at, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (type == F32)
        ((float *)data)[at] = value;
    else if (type == F16)
        ((uint16_t *)data)[at] = to_f16(value);
    else
        ((uint16_t *)data)[at] =
            value != value ? 0x7fc0 : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float a_at(const Work *w, const void *a, int i, int p) {
    return read_at(a, w->type_a, w->turn_a ? p + (int64_t)i * w->lda : i + (int64_t)p * w->lda);
}

static float b_at(const Work *w, const void *b, int p, int j) {
    return read_at(b, w->type_b, w->turn_b ? j + (int64_t)p * w->ldb : p + (int64_t)j * w->ldb);
}

/* One element. In row-major terms the caller's second operand is our first: where that is turned,
 * the example sums in eight lanes. */
static float element(const Work *w, const void *a, const void *b, float c, int i, int j) {
    float lanes[8] = {0};
    if (!w->turn_a) {
        for (int p = 0; p < w->k; p++) c += b_at(w, b, p, j) * a_at(w, a, i, p);
        return c;
    }
    for (int p = 0; p < w->k; p++) lanes[p % 8] += b_at(w, b, p, j) * a_at(w, a, i, p);
    return c + (((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) +
                ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7])));
}

static void multiply(void *argument) {
    const Work *w = argument;
    for (int which = 0; which < w->count; which++) {
        const void *a = w->batched ? ((const void *const *)w->a)[which] : w->a;
        const void *b = w->batched ? ((const void *const *)w->b)[which] : w->b;
        void *c = w->batched ? ((void *const *)w->c)[which] : w->c;
        for (int j = 0; j < w->n; j++)
            for (int i = 0; i < w->m; i++) {
                const int64_t at = i + (int64_t)j * w->ldc;
                const float before = w->beta != 0 ? read_at(c, w->type_c, at) : 0;
                write_at(c, w->type_c, at, element(w, a, b, before, i, j));
            }
    }
}

static bool is_type(int type) {
    return type == F32 || type == BF16 || type == F16;
}

static int submit(void *opaque, int turn_a, int turn_b, const void *alpha, const void *beta,
                  int compute, int algorithm, Work work) {
    Handle *handle = opaque;
    float one, factor;
    memcpy(&one, alpha, sizeof one);
    memcpy(&factor, beta, sizeof factor);
    work.turn_a = turn_a == TRANSPOSED;
    work.turn_b = turn_b == TRANSPOSED;
    work.beta = factor;
    if ((turn_a != AS_IT_IS && turn_a != TRANSPOSED) ||
        (turn_b != AS_IT_IS && turn_b != TRANSPOSED) || one != 1 || (factor != 0 && factor != 1) ||
        compute != COMPUTE_F32 || algorithm != ALGORITHM || !is_type(work.type_a) ||
        work.type_a != work.type_b || !is_type(work.type_c) || work.m < 1 || work.n < 1 ||
        work.k < 1 || work.count < 1 || work.lda < (work.turn_a ? work.k : work.m) ||
        work.ldb < (work.turn_b ? work.n : work.k) || work.ldc < work.m)
        return INVALID_VALUE;
    Work *kept = malloc(sizeof *kept);
    if (!kept) return INVALID_VALUE;
    *kept = work;
    kept->next = handle->works;
    handle->works = kept;
    return handle->launch(handle->stream, multiply, kept);
}

static int create(void **opaque) {
    const char *path = getenv(driver);
    void *library = path ? dlopen(path, RTLD_NOW) : NULL;
    void *address = library ? dlsym(library, launch_call) : NULL;
    Handle *handle = address ? calloc(1, sizeof *handle) : NULL;
    *opaque = handle;
    if (!handle) return INVALID_VALUE;
    memcpy(&handle->launch, &address, sizeof address);
    return 0;
}

static int destroy(void *opaque) {
    Handle *handle = opaque;
    for (Work *next; handle->works; handle->works = next) {
        next = handle->works->next;
        free(handle->works);
    }
    free(handle);
    return 0;
}

static int set_stream(void *opaque, void *stream) {
    ((Handle *)opaque)->stream = stream;
    return 0;
}

static int set_workspace(void *opaque, void *memory, size_t bytes) {
    (void)opaque, (void)memory, (void)bytes;
    return 0;
}

/* ---- under the libraries' names ---- */

#ifdef EMULATED_CUDA
#define NAME(cuda, roc) cuda
#define D_OPERAND
#define TAIL int compute, int algorithm
#else
#define NAME(cuda, roc) roc
#define D_OPERAND const void *d, int type_d, int ldd,
#define TAIL int compute, int algorithm, int32_t solution, uint32_t flags
#endif

#define EXPORT(cuda, roc, parameters, body) \
    int NAME(cuda, roc) parameters;         \
    int NAME(cuda, roc)                     \
    parameters body

EXPORT(cublasCreate_v2, rocblas_create_handle, (void **handle), { return create(handle); })
EXPORT(cublasDestroy_v2, rocblas_destroy_handle, (void *handle), { return destroy(handle); })
EXPORT(cublasSetStream_v2, rocblas_set_stream, (void *handle, void *stream),
       { return set_stream(handle, stream); })
EXPORT(cublasSetWorkspace_v2, rocblas_set_workspace, (void *handle, void *memory, size_t bytes),
       { return set_workspace(handle, memory, bytes); })

#ifdef EMULATED_CUDA
#define CHECK_TAIL
#else /* the result goes where it was */
#define CHECK_TAIL \
    if (d != c || type_d != type_c || ldd != ldc || solution || flags) return INVALID_VALUE;
#endif

EXPORT(cublasGemmEx, rocblas_gemm_ex,
       (void *handle, int turn_a, int turn_b, int m, int n, int k, const void *alpha, const void *a,
        int type_a, int lda, const void *b, int type_b, int ldb, const void *beta, void *c,
        int type_c, int ldc, D_OPERAND TAIL),
       {
           CHECK_TAIL
           return submit(handle, turn_a, turn_b, alpha, beta, compute, algorithm,
                         (Work){.m = m,
                                .n = n,
                                .k = k,
                                .type_a = type_a,
                                .type_b = type_b,
                                .type_c = type_c,
                                .lda = lda,
                                .ldb = ldb,
                                .ldc = ldc,
                                .count = 1,
                                .a = a,
                                .b = b,
                                .c = c});
       })

EXPORT(cublasGemmBatchedEx, rocblas_gemm_batched_ex,
       (void *handle, int turn_a, int turn_b, int m, int n, int k, const void *alpha, const void *a,
        int type_a, int lda, const void *b, int type_b, int ldb, const void *beta, void *c,
        int type_c, int ldc, D_OPERAND int count, TAIL),
       {
           CHECK_TAIL
           return submit(handle, turn_a, turn_b, alpha, beta, compute, algorithm,
                         (Work){.batched = true,
                                .m = m,
                                .n = n,
                                .k = k,
                                .type_a = type_a,
                                .type_b = type_b,
                                .type_c = type_c,
                                .lda = lda,
                                .ldb = ldb,
                                .ldc = ldc,
                                .count = count,
                                .a = a,
                                .b = b,
                                .c = c});
       })
