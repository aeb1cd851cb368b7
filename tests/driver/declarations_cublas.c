/* declarations_cublas.c: what examples/charlm declares of cuBLAS against NVIDIA's header. It only
 * has to compile: each call is written down with our types, and not made. */
#include <cublas_v2.h>

#include "gpu_blas.h"

_Static_assert(CUBLAS_AS_IT_IS == CUBLAS_OP_N && CUBLAS_TRANSPOSED == CUBLAS_OP_T, "operations");
_Static_assert(CUBLAS_F32 == CUDA_R_32F && CUBLAS_BF16 == CUDA_R_16BF && CUBLAS_F16 == CUDA_R_16F,
               "types");
_Static_assert(CUBLAS_COMPUTES_F32 == CUBLAS_COMPUTE_32F, "what sums are made in");
_Static_assert(CUBLAS_ALGORITHM == CUBLAS_GEMM_DEFAULT, "algorithm");
_Static_assert(sizeof(cublasStatus_t) == sizeof(int) && CUBLAS_STATUS_SUCCESS == 0, "results");
_Static_assert(sizeof(cublasOperation_t) == sizeof(int), "operations are numbers");
_Static_assert(sizeof(cudaDataType_t) == sizeof(int), "types are numbers");
_Static_assert(sizeof(cublasComputeType_t) == sizeof(int), "compute types are numbers");
_Static_assert(sizeof(cublasGemmAlgo_t) == sizeof(int), "algorithms are numbers");

int declared_create(void **handle);
int declared_create(void **handle) {
    return (int)sizeof(cublasCreate_v2((cublasHandle_t *)handle));
}

int declared_stream(void *handle, void *stream, void *memory, size_t bytes);
int declared_stream(void *handle, void *stream, void *memory, size_t bytes) {
    (void)handle, (void)stream, (void)memory, (void)bytes;
    return (int)(sizeof(cublasSetStream_v2(handle, stream)) +
                 sizeof(cublasSetWorkspace_v2(handle, memory, bytes)) +
                 sizeof(cublasDestroy_v2(handle)));
}

CudaGemm declared_gemm;
int declared_gemm(void *handle, SIZES, const void *alpha, OPERAND(a, const void *),
                  OPERAND(b, const void *), const void *beta, OPERAND(c, void *), int compute,
                  int algorithm) {
    return (int)sizeof(cublasGemmEx(
        handle, (cublasOperation_t)turn_a, (cublasOperation_t)turn_b, m, n, k, alpha, a,
        (cudaDataType)a_type, a_stride, b, (cudaDataType)b_type, b_stride, beta, c,
        (cudaDataType)c_type, c_stride, (cublasComputeType_t)compute, (cublasGemmAlgo_t)algorithm));
}

CudaBatch declared_batch;
int declared_batch(void *handle, SIZES, const void *alpha, OPERAND(a, Pointers),
                   OPERAND(b, Pointers), const void *beta, OPERAND(c, void *const *), int count,
                   int compute, int algorithm) {
    return (int)sizeof(
        cublasGemmBatchedEx(handle, (cublasOperation_t)turn_a, (cublasOperation_t)turn_b, m, n, k,
                            alpha, a, (cudaDataType)a_type, a_stride, b, (cudaDataType)b_type,
                            b_stride, beta, c, (cudaDataType)c_type, c_stride, count,
                            (cublasComputeType_t)compute, (cublasGemmAlgo_t)algorithm));
}
