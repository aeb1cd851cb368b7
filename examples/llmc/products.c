/* products.c: matrix products on one thread, through OpenBLAS where it is found, else loops. */
#include "minigpt.h"

static Sgemm sgemm;
static char name[SGEMM_NAME];

bool products_open(const char *library) {
    return sgemm_open(library, &sgemm, name);
}

const char *products_name(void) {
    return name;
}

static float *place(const Matrix *matrix, int64_t outer, int64_t inner) {
    return matrix->data + outer * matrix->outer_step + inner * matrix->inner_step;
}

void product_run(const Product *p) {
    for (int64_t i = 0; i < p->outer; i++)
        for (int64_t k = 0; k < p->inner; k++)
            sgemm(ROW_MAJOR, p->a.turned ? TRANSPOSED : AS_IT_IS,
                  p->b.turned ? TRANSPOSED : AS_IT_IS, (int)p->rows, (int)p->columns, (int)p->depth,
                  1.0f, place(&p->a, i, k), (int)p->a.stride, place(&p->b, i, k), (int)p->b.stride,
                  p->add ? 1.0f : 0.0f, place(&p->c, i, k), (int)p->c.stride);
}
