/* gpu_blas.h: the calls of cuBLAS and rocBLAS that charlm makes, and their constants, declared by
 * ourselves, so that neither is needed to build. Every handle is a void pointer, every enumeration
 * an int. tests/driver/declarations_cublas.c holds NVIDIA's half against NVIDIA's header. */
#ifndef GPU_BLAS_H
#define GPU_BLAS_H

#include <stddef.h>
#include <stdint.h>

enum {
    CUBLAS_AS_IT_IS = 0,
    CUBLAS_TRANSPOSED = 1,
    CUBLAS_F32 = 0,
    CUBLAS_BF16 = 14,
    CUBLAS_F16 = 2,
    CUBLAS_COMPUTES_F32 = 68,
    CUBLAS_ALGORITHM = -1, /* the library's choice */
    ROCBLAS_AS_IT_IS = 111,
    ROCBLAS_TRANSPOSED = 112,
    ROCBLAS_F32 = 151,
    ROCBLAS_BF16 = 168,
    ROCBLAS_F16 = 150,
    ROCBLAS_ALGORITHM = 0
};

typedef const void *const *Pointers;
/* What the two have in common, and in which order. */
#define SIZES int turn_a, int turn_b, int m, int n, int k
#define OPERAND(name, data) data name, int name##_type, int name##_stride
typedef int CreateFunction(void **handle);
typedef int DestroyFunction(void *handle);
typedef int StreamFunction(void *handle, void *stream);
typedef int WorkspaceFunction(void *handle, void *memory, size_t bytes);
typedef int CudaGemm(void *handle, SIZES, const void *alpha, OPERAND(a, const void *),
                     OPERAND(b, const void *), const void *beta, OPERAND(c, void *), int compute,
                     int algorithm);
typedef int CudaBatch(void *handle, SIZES, const void *alpha, OPERAND(a, Pointers),
                      OPERAND(b, Pointers), const void *beta, OPERAND(c, void *const *), int count,
                      int compute, int algorithm);
typedef int RocGemm(void *handle, SIZES, const void *alpha, OPERAND(a, const void *),
                    OPERAND(b, const void *), const void *beta, OPERAND(c, const void *),
                    OPERAND(d, void *), int compute, int algorithm, int32_t solution,
                    uint32_t flags);
typedef int RocBatch(void *handle, SIZES, const void *alpha, OPERAND(a, const void *),
                     OPERAND(b, const void *), const void *beta, OPERAND(c, const void *),
                     OPERAND(d, void *), int count, int compute, int algorithm, int32_t solution,
                     uint32_t flags);

#endif
