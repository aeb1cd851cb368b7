/* declarations_cuda.c: gpu.def and the constants of gpu.h against NVIDIA's cuda.h. It only has to
 * compile. Older toolkits lack some of the names: against these nothing is held. */
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#if CUDA_VERSION >= 13000
#include "runtime.h"
#include "gpu.h"

_Static_assert(sizeof(CUdeviceptr) == sizeof(void *), "device addresses are passed as pointers");
_Static_assert(sizeof(CUdevice) == sizeof(int), "devices are numbers");
_Static_assert(sizeof(CUresult) == sizeof(int), "results are numbers");
_Static_assert(sizeof(CUstreamCaptureMode) == sizeof(int), "modes are numbers");
_Static_assert(GPU_OUT_OF_MEMORY == CUDA_ERROR_OUT_OF_MEMORY, "out of memory");
_Static_assert(GPU_NO_DEVICE == CUDA_ERROR_NO_DEVICE, "no device");
_Static_assert(GPU_INVALID_DEVICE == CUDA_ERROR_INVALID_DEVICE, "invalid device");
_Static_assert(GPU_CAPTURE_RELAXED == CU_STREAM_CAPTURE_MODE_RELAXED, "relaxed capture");
_Static_assert(CUDA_ATTRIBUTE_MULTIPROCESSORS == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
               "attribute");
_Static_assert(CUDA_ATTRIBUTE_MAJOR == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, "attribute");
_Static_assert(CUDA_ATTRIBUTE_MINOR == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, "attribute");
#define X(number, cuda, hip, final, help) _Static_assert(number == CUDA_ERROR_##cuda, #cuda);
#include "gpu_errors.def"
_Static_assert(GPU_INVALID_VALUE == CUDA_ERROR_INVALID_VALUE, "invalid value");
_Static_assert(GPU_NOT_CAPTURING == CU_STREAM_CAPTURE_STATUS_NONE, "capture status");
_Static_assert(CUDA_ATTRIBUTE_INTEGRATED == CU_DEVICE_ATTRIBUTE_INTEGRATED, "attribute");
_Static_assert(CUDA_ATTRIBUTE_PAGEABLE == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, "attribute");
_Static_assert(GPU_UNTIMED == CU_EVENT_DISABLE_TIMING, "an event without a time");
_Static_assert(GPU_TOO_LARGE_TOGETHER == CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "refused");
_Static_assert(GPU_NOT_PERMITTED == CUDA_ERROR_NOT_PERMITTED, "refused");
_Static_assert(GPU_NOT_SUPPORTED == CUDA_ERROR_NOT_SUPPORTED, "refused");
_Static_assert(CUDA_ATTRIBUTE_COOPERATIVE == CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, "attribute");

/* Newer headers rename this one; libcuda keeps the older form, which every driver has. */
#undef cuEventElapsedTime
CUresult CUDAAPI cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end);

/* So with these, whose first forms serve all that Lockstep does. */
#undef cuGraphAddKernelNode
CUresult CUDAAPI cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before,
                                      size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *parameters);
#undef cuGraphKernelNodeSetParams
#undef cuGraphExecKernelNodeSetParams
CUresult CUDAAPI cuGraphKernelNodeSetParams(CUgraphNode node,
                                            const CUDA_KERNEL_NODE_PARAMS_v1 *parameters);
CUresult CUDAAPI cuGraphExecKernelNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                                const CUDA_KERNEL_NODE_PARAMS_v1 *parameters);
CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status,
                                           cuuint64_t *id, CUgraph *graph,
                                           const CUgraphNode **nodes, size_t *count);
#define SAME(own, theirs)                                                                       \
    _Static_assert(offsetof(GpuNode, cuda.own) == offsetof(CUDA_KERNEL_NODE_PARAMS_v1, theirs), \
                   #theirs)
SAME(function, func);
SAME(grid, gridDimX);
SAME(block, blockDimX);
SAME(shared_bytes, sharedMemBytes);
SAME(parameters, kernelParams);
SAME(extra, extra);
_Static_assert(sizeof(GpuNode) >= sizeof(CUDA_KERNEL_NODE_PARAMS_v1), "a kernel's node");

_Static_assert(sizeof(GpuWhile) == sizeof(CUgraphNodeParams), "a while node");
#define SAME_ROWS(own, theirs) \
    _Static_assert(offsetof(GpuRows, own) == offsetof(CUDA_MEMCPY2D, theirs), #theirs)
SAME_ROWS(from_kind, srcMemoryType);
SAME_ROWS(from, srcDevice);
SAME_ROWS(from_pitch, srcPitch);
SAME_ROWS(to_kind, dstMemoryType);
SAME_ROWS(to, dstDevice);
SAME_ROWS(to_pitch, dstPitch);
SAME_ROWS(width, WidthInBytes);
SAME_ROWS(height, Height);
_Static_assert(sizeof(GpuRows) == sizeof(CUDA_MEMCPY2D), "rows");
_Static_assert(CUDA_MEMORY_DEVICE == CU_MEMORYTYPE_DEVICE, "memory of a device");
#define SAME_WHILE(own, theirs) \
    _Static_assert(offsetof(GpuWhile, own) == offsetof(CUgraphNodeParams, theirs), #theirs)
SAME_WHILE(type, type);
SAME_WHILE(handle, conditional.handle);
SAME_WHILE(kind, conditional.type);
SAME_WHILE(size, conditional.size);
SAME_WHILE(bodies, conditional.phGraph_out);
SAME_WHILE(context, conditional.ctx);
_Static_assert(CUDA_NODE_CONDITIONAL == CU_GRAPH_NODE_TYPE_CONDITIONAL, "a while node");
_Static_assert(CUDA_CONDITION_WHILE == CU_GRAPH_COND_TYPE_WHILE, "a while node");
_Static_assert(CUDA_CONDITION_ASSIGN == CU_GRAPH_COND_ASSIGN_DEFAULT, "a while node");

/* Where the header gives a name a newer form (cuMemAlloc -> cuMemAlloc_v2), the table must have it:
 * under the plain name the library keeps a function with other parameters. */
#define TEXT(name) #name
#define EXPANDED(name) TEXT(name)
#define NEWEST(own, name) \
    _Static_assert(sizeof own == sizeof EXPANDED(name), own " has a newer form");

#define BOTH(result, verb, cuda, hip, parameters, arguments) \
    NEWEST(#cuda, cuda) DECLARATION(result, verb, cuda, parameters, arguments)
#define CUDA(result, verb, cuda, parameters, arguments) \
    NEWEST(#cuda, cuda) DECLARATION(result, verb, cuda, parameters, arguments)
#define HIP(result, verb, hip, parameters, arguments)
#include "declarations.h"
#include "gpu.def"
#else
typedef int NothingToCompare;
#endif
