/* products.c: matrix products in the stream's order.
 *
 * On a GPU they are cuBLAS's or rocBLAS's (products_gpu.c). On the CPU they are host work that
 * Lockstep's own threads share, in the stream and in its graphs: an item is one matrix of a batch,
 * or a block of rows of a large one, and goes through OpenBLAS, told to use one thread, or another
 * library with the C interface of BLAS, or through loops (sgemm_open). The items do not depend on
 * the number of threads, so neither does a bit of the results. Operands in bf16 and f16 are widened
 * to f32 first and results rounded, as a GPU's units do. */
#include "charlm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_ROWS = 64 };
struct Products {
    ls_context *context;
    GpuProducts *gpu; /* or, on the CPU: */
    Sgemm sgemm;
    char name[SGEMM_NAME];
    float *scratch[3]; /* c, a, b widened: one product is at work at a time */
    size_t scratch_size[3];
};

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* ---- f32 on the CPU ---- */

static int64_t row_blocks(const Product *product) {
    return (product->c.rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
}

static int64_t place(const Matrix *matrix, const Product *product, int64_t index) {
    return index / product->inner * matrix->outer_step +
           index % product->inner * matrix->inner_step;
}

/* A widened matrix lies in the scratch memory, row after row and matrix after matrix. */
static const float *operand(const Product *product, const Matrix *matrix, int which, int64_t index,
                            int64_t *stride) {
    if (matrix->type == LS_F32) {
        *stride = matrix->stride;
        return (const float *)matrix->data + place(matrix, product, index);
    }
    *stride = matrix->columns;
    return product->products->scratch[which] + index * matrix->rows * matrix->columns;
}

/* Items are blocks of rows, matrix by matrix. */
static void multiply(void *argument, uint64_t first, uint64_t last) {
    const Product *product = argument;
    const int64_t blocks = row_blocks(product), columns = product->c.columns;
    const int64_t depth = product->a.turned ? product->a.rows : product->a.columns;
    for (uint64_t item = first; item < last; item++) {
        const int64_t index = (int64_t)item / blocks, row = (int64_t)item % blocks * BLOCK_ROWS;
        int64_t strides[3];
        float *c = (float *)(uintptr_t)operand(product, &product->c, 0, index, &strides[0]);
        const float *a = operand(product, &product->a, 1, index, &strides[1]);
        const float *b = operand(product, &product->b, 2, index, &strides[2]);
        product->products->sgemm(ROW_MAJOR, product->a.turned ? TRANSPOSED : AS_IT_IS,
                                 product->b.turned ? TRANSPOSED : AS_IT_IS,
                                 (int)least(BLOCK_ROWS, product->c.rows - row), (int)columns,
                                 (int)depth, 1.0f, a + row * (product->a.turned ? 1 : strides[1]),
                                 (int)strides[1], b, (int)strides[2], product->add ? 1.0f : 0.0f,
                                 c + row * strides[0], (int)strides[0]);
    }
}

/* ---- bf16 and f16 on the CPU ---- */

static float from_bf16(uint16_t value) {
    const uint32_t bits = (uint32_t)value << 16;
    float wide;
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}

static uint16_t to_bf16(float value) { /* to nearest even */
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (value != value) return 0x7fc0;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float from_f16(uint16_t value) {
    const int exponent = value >> 10 & 31, fraction = value & 1023;
    const float size = exponent == 31 ? (fraction ? NAN : INFINITY)
                       : exponent     ? ldexpf((float)(1024 + fraction), exponent - 25)
                                      : ldexpf((float)fraction, -24);
    return value & 0x8000 ? -size : size;
}

static uint16_t to_f16(float value) { /* to nearest even; what is too large is infinite */
    int exponent = 0;
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    const float size = fabsf(value);
    if (value != value) return 0x7e00;
    if (size >= 65520) return sign | 0x7c00;
    frexpf(size, &exponent);             /* size < 2^exponent */
    if (size < 0x1p-14f) exponent = -13; /* subnormal numbers have one step, 2^-24 */
    const int steps = (int)nearbyintf(ldexpf(size, 11 - exponent));
    return (uint16_t)(sign | (((exponent + 13) << 10) + steps));
}

static float widened(ls_type type, uint16_t value) {
    return type == LS_F16 ? from_f16(value) : from_bf16(value);
}

/* Items are the rows of a's matrices, then those of b's. */
static void widen(void *argument, uint64_t first, uint64_t last) {
    const Product *product = argument;
    const uint64_t of_a = (uint64_t)(product->outer * product->inner * product->a.rows);
    for (uint64_t item = first; item < last; item++) {
        const int which = item < of_a ? 1 : 2;
        const Matrix *matrix = which == 1 ? &product->a : &product->b;
        if (matrix->type == LS_F32) continue;
        const int64_t row = (int64_t)(which == 1 ? item : item - of_a);
        const uint16_t *from = (const uint16_t *)matrix->data +
                               place(matrix, product, row / matrix->rows) +
                               row % matrix->rows * matrix->stride;
        float *to = product->products->scratch[which] + row * matrix->columns;
        for (int64_t i = 0; i < matrix->columns; i++) to[i] = widened(matrix->type, from[i]);
    }
}

/* Items are the rows of c's matrices. */
static void narrow(void *argument, uint64_t first, uint64_t last) {
    const Product *product = argument;
    const Matrix *matrix = &product->c;
    for (uint64_t item = first; item < last; item++) {
        const int64_t row = (int64_t)item;
        uint16_t *to = (uint16_t *)matrix->data + place(matrix, product, row / matrix->rows) +
                       row % matrix->rows * matrix->stride;
        const float *from = product->products->scratch[0] + row * matrix->columns;
        for (int64_t i = 0; i < matrix->columns; i++)
            to[i] = matrix->type == LS_F16 ? to_f16(from[i]) : to_bf16(from[i]);
    }
}

static bool reserve(Products *products, const Product *product) {
    const Matrix *matrices[] = {&product->c, &product->a, &product->b};
    for (int i = 0; i < 3; i++) {
        if (matrices[i]->type == LS_F32) continue;
        const size_t size =
            (size_t)(product->outer * product->inner * matrices[i]->rows * matrices[i]->columns);
        if (size <= products->scratch_size[i]) continue;
        float *grown = realloc(products->scratch[i], size * sizeof *grown);
        if (!grown) return fail("out of memory for the operands of a product");
        products->scratch[i] = grown;
        products->scratch_size[i] = size;
    }
    return true;
}

static bool prepare_work(Products *products, Product *product) {
    const uint64_t matrices = (uint64_t)(product->outer * product->inner);
    const bool wide = product->a.type == LS_F32 && product->b.type == LS_F32;
    product->work[0] = (ls_host_work){
        widen, product, wide ? 0 : matrices * (uint64_t)(product->a.rows + product->b.rows)};
    product->work[1] = (ls_host_work){multiply, product, matrices * (uint64_t)row_blocks(product)};
    product->work[2] = (ls_host_work){
        narrow, product, product->c.type == LS_F32 ? 0 : matrices * (uint64_t)product->c.rows};
    return reserve(products, product);
}

/* ---- both ---- */

/* The addresses of a batch's matrices, as an array on the device. */
static bool make_pointers(Products *products, Product *product) {
    const Matrix *matrices[] = {&product->c, &product->a, &product->b};
    const int64_t count = product->outer * product->inner;
    if (count == 1) return true;
    void **pointers = malloc((size_t)count * sizeof *pointers);
    if (!pointers) return fail("out of host memory");
    ls_status status = LS_OK;
    for (int i = 0; i < 3 && status == LS_OK; i++) {
        for (int64_t k = 0; k < count; k++)
            pointers[k] = (char *)matrices[i]->data +
                          place(matrices[i], product, k) * (int64_t)ls_type_size(matrices[i]->type);
        status =
            ls_alloc(products->context, (size_t)count * sizeof *pointers, &product->pointers[i]);
        if (status == LS_OK)
            status = ls_copy_in(products->context, product->pointers[i], pointers,
                                (size_t)count * sizeof *pointers);
    }
    free(pointers);
    return status == LS_OK || fail("preparing a product: %s", ls_error_message(products->context));
}

bool product_prepare(Products *products, Product *product) {
    product->products = products;
    return products->gpu ? make_pointers(products, product) : prepare_work(products, product);
}

bool product_run(Product *product) {
    Products *products = product->products;
    if (products->gpu) return gpu_product_run(products->gpu, product);
    for (int i = 0; i < 3; i++)
        if (ls_host_call(products->context, &product->work[i]) != LS_OK)
            return fail("queueing a product: %s", ls_error_message(products->context));
    return true;
}

void product_close(Product *product) {
    for (int i = 0; i < 3; i++)
        if (product->pointers[i]) ls_free(product->products->context, product->pointers[i]);
}

bool products_open(ls_context *context, const char *library, Products **products) {
    *products = calloc(1, sizeof **products);
    if (!*products) return fail("out of host memory");
    (*products)->context = context;
    if (ls_context_kind(context) != LS_DEVICE_CPU)
        return gpu_products_open(context, library, &(*products)->gpu);
    return sgemm_open(library, &(*products)->sgemm, (*products)->name);
}

const char *products_name(const Products *products) {
    return products->gpu ? gpu_products_name(products->gpu) : products->name;
}

void products_close(Products *products) {
    if (products->gpu) gpu_products_close(products->gpu);
    for (int i = 0; i < 3; i++) free(products->scratch[i]);
    free(products); /* the library stays loaded: its threads do not like to be unloaded */
}
