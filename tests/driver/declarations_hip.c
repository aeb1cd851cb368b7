/* declarations_hip.c: gpu.def and the constants of gpu.h against AMD's headers. It only has to
 * compile. */
#include <stddef.h>
#include <stdint.h>

#define __HIP_PLATFORM_AMD__ 1
#define __HIP_PLATFORM_HCC__ 1
#include <hip/hip_runtime_api.h>
#include <hip/hip_version.h>

#include "runtime.h"
#include "gpu.h"

_Static_assert(sizeof(hipDeviceptr_t) == sizeof(void *), "device addresses are pointers");
_Static_assert(sizeof(hipDevice_t) == sizeof(int), "devices are numbers");
_Static_assert(sizeof(hipError_t) == sizeof(int), "results are numbers");
_Static_assert(GPU_OUT_OF_MEMORY == hipErrorOutOfMemory, "out of memory");
_Static_assert(GPU_NO_DEVICE == hipErrorNoDevice, "no device");
_Static_assert(GPU_INVALID_DEVICE == hipErrorInvalidDevice, "invalid device");
_Static_assert(GPU_CAPTURE_RELAXED == hipStreamCaptureModeRelaxed, "relaxed capture");
_Static_assert(HIP_ATTRIBUTE_MULTIPROCESSORS == hipDeviceAttributeMultiprocessorCount, "attribute");
_Static_assert(HIP_ATTRIBUTE_INTEGRATED == hipDeviceAttributeIntegrated, "attribute");
_Static_assert(HIP_ATTRIBUTE_PAGEABLE == hipDeviceAttributePageableMemoryAccess, "attribute");
_Static_assert(GPU_UNTIMED == hipEventDisableTiming, "an event without a time");
_Static_assert(GPU_TOO_LARGE_TOGETHER == hipErrorCooperativeLaunchTooLarge, "refused");
_Static_assert(GPU_NOT_SUPPORTED == hipErrorNotSupported, "refused");
_Static_assert(HIP_ATTRIBUTE_COOPERATIVE == hipDeviceAttributeCooperativeLaunch, "attribute");
#define X(number, cuda, hip, final, help) _Static_assert(number == hip, #hip);
#include "gpu_errors.def"
_Static_assert(GPU_INVALID_VALUE == hipErrorInvalidValue, "invalid value");
_Static_assert(GPU_NOT_CAPTURING == hipStreamCaptureStatusNone, "capture status");
_Static_assert(HIP_PROPERTIES_BYTES >= sizeof(hipDeviceProp_t), "room for the properties");

/* What is another since 5.2: see hip_changes.def. A second declaration has to be the header's. */
#define ADDED(since, result, name, parameters) result name parameters;
#define VALUE(since, expression, before, after) \
    _Static_assert((expression) == (HIP_VERSION < since ? (before) : (after)), #expression);
#define TYPE(since, name, before, after)                                                    \
    _Static_assert(HIP_VERSION < since                                                      \
                       ? __builtin_types_compatible_p(__typeof__(name), __typeof__(before)) \
                       : __builtin_types_compatible_p(__typeof__(name), __typeof__(after)), \
                   #name);
#include "hip_changes.def"

#define SAME(own, theirs) \
    _Static_assert(offsetof(GpuNode, hip.own) == offsetof(hipKernelNodeParams, theirs), #theirs)
SAME(function, func);
SAME(grid, gridDim);
SAME(block, blockDim);
SAME(shared_bytes, sharedMemBytes);
SAME(parameters, kernelParams);
SAME(extra, extra);
_Static_assert(sizeof(GpuNode) >= sizeof(hipKernelNodeParams), "a kernel's node");

#define BOTH(result, verb, cuda, hip, parameters, arguments) \
    DECLARATION(result, verb, hip, parameters, arguments)
#define CUDA(result, verb, cuda, parameters, arguments)
#define HIP(result, verb, hip, parameters, arguments) \
    DECLARATION(result, verb, hip, parameters, arguments)
#include "declarations.h"
#include "gpu.def"
