/* sgemm.c: products of matrices by OpenBLAS or another library, else by loops. */
#include "common.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static float dot(const float *a, int64_t step_a, const float *b, int64_t count) {
    float lanes[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (int lane = 0; lane < 8; lane++) lanes[lane] += a[(i + lane) * step_a] * b[i + lane];
    for (int lane = 0; i < count; i++, lane++) lanes[lane] += a[i * step_a] * b[i];
    return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) +
           ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

/* C += A B in an order that compilers make vectors of. */
static void loops(int order, int turn_a, int turn_b, int m, int n, int k, float alpha,
                  const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc) {
    const int64_t down = turn_a == TRANSPOSED ? 1 : lda, along = turn_a == TRANSPOSED ? lda : 1;
    (void)order, (void)alpha; /* row-major and 1 */
    for (int64_t i = 0; i < m; i++) {
        float *row = c + i * ldc;
        if (beta == 0) memset(row, 0, (size_t)n * sizeof *row);
        if (turn_b == TRANSPOSED) {
            for (int64_t j = 0; j < n; j++) row[j] += dot(a + i * down, along, b + j * ldb, k);
            continue;
        }
        for (int64_t p = 0; p < k; p++) {
            const float factor = a[i * down + p * along], *with = b + p * ldb;
            for (int64_t j = 0; j < n; j++) row[j] += factor * with[j];
        }
    }
}

bool sgemm_open(const char *library, Sgemm *sgemm, char name[SGEMM_NAME]) {
    static const char *const known[] = {"libopenblas.so.0", "libopenblas.so"};
    void *opened = NULL;
    *sgemm = loops;
    snprintf(name, SGEMM_NAME, "loops of our own");
    if (library && strcmp(library, "none") == 0) return true;
    if (library && !(opened = dlopen(library, RTLD_NOW | RTLD_LOCAL)))
        return fail("--blas: %s", dlerror());
    for (size_t i = 0; !opened && i < COUNT(known); i++)
        opened = dlopen(library = known[i], RTLD_NOW | RTLD_LOCAL);
    if (!opened) {
        fprintf(stderr,
                "%s: libopenblas was not found, so loops of our own make the matrix products, "
                "slowly; on Debian, libopenblas0 has it\n",
                program_name);
        return true;
    }
    void *address = dlsym(opened, "cblas_sgemm");
    if (!address) return fail("%s has no cblas_sgemm: --blas names another library", library);
    memcpy(sgemm, &address, sizeof address); /* ISO C has no cast for this */
    void (*set_threads)(int);
    address = dlsym(opened, "openblas_set_num_threads");
    memcpy(&set_threads, &address, sizeof address);
    if (set_threads) set_threads(1);
    snprintf(name, SGEMM_NAME, "%.100s", library);
    return true;
}
