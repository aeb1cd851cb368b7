/* gpu_vendor.c: where CUDA and HIP differ in more than the names of their calls: one Vendor row
 * each. Constants are ours; tests/driver/declarations_*.c hold them against the vendors' headers.
 */
#include "runtime.h"
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const cuda_names[VERB_COUNT] = {
#define BOTH(result, verb, cuda, hip, parameters, arguments) [VERB_##verb] = #cuda,
#define CUDA(result, verb, cuda, parameters, arguments) [VERB_##verb] = #cuda,
#define HIP(result, verb, hip, parameters, arguments)
#include "gpu.def"
};

static const char *const hip_names[VERB_COUNT] = {
#define BOTH(result, verb, cuda, hip, parameters, arguments) [VERB_##verb] = #hip,
#define CUDA(result, verb, cuda, parameters, arguments)
#define HIP(result, verb, hip, parameters, arguments) [VERB_##verb] = #hip,
#include "gpu.def"
};

/* ---- CUDA ---- */

static const char *cuda_error_name(const GpuCalls *calls, int error) {
    const char *name = NULL;
    return calls->error_text(error, &name) == 0 && name ? name : "an unknown error";
}

static int cuda_target(const GpuCalls *calls, int device, char *text, size_t size, GpuVerb *verb) {
    int major, minor;
    *verb = VERB_device_attribute;
    int error = calls->device_attribute(&major, CUDA_ATTRIBUTE_MAJOR, device);
    if (!error) error = calls->device_attribute(&minor, CUDA_ATTRIBUTE_MINOR, device);
    if (!error) snprintf(text, size, "sm_%d%d", major, minor);
    return error;
}

/* "sm_90" -> 90; `special` tells of a suffix, as in "sm_90a". */
static int capability(const char *text, bool *special) {
    char *end;
    long number = strtol(text, &end, 10);
    *special = *end != 0;
    return end == text || number < 0 || number > 9999 ? -1 : (int)number;
}

/* A cubin runs on its own capability and on later ones of the same generation, PTX on every later
 * one; what has a suffix only on its own. The own cubin is best, then the closest, then the newest
 * PTX. */
static int cuda_suits(const char *own, const char *target) {
    enum { OWN = 40000, SAME_GENERATION = 20000 };
    static const char cubin[] = "sm_", ptx[] = "compute_";
    bool special, unused;
    int device = capability(own + sizeof cubin - 1, &unused);
    if (strncmp(target, cubin, sizeof cubin - 1) == 0) {
        int code = capability(target + sizeof cubin - 1, &special);
        if (code == device) return OWN + special;
        if (special || code < 0 || code > device || code / 10 != device / 10) return 0;
        return SAME_GENERATION + code;
    }
    if (strncmp(target, ptx, sizeof ptx - 1) != 0) return 0;
    int code = capability(target + sizeof ptx - 1, &special);
    if (code < 0 || code > device || (special && code != device)) return 0;
    return 1 + code;
}

static int cuda_attach(const GpuCalls *calls, int device, GpuCurrent *own, GpuVerb *verb) {
    *verb = VERB_context_retain;
    own->context = NULL;
    return calls->context_retain(&own->context, device);
}

static void cuda_detach(const GpuCalls *calls, int device) {
    calls->context_release(device);
}

static int cuda_enter(const GpuCalls *calls, GpuCurrent own, GpuCurrent *before, GpuVerb *verb) {
    *verb = VERB_context_current;
    before->context = NULL;
    int error = calls->context_current(&before->context);
    if (error || before->context == own.context) return error;
    *verb = VERB_context_use;
    return calls->context_use(own.context);
}

static int cuda_leave(const GpuCalls *calls, GpuCurrent own, GpuCurrent before, GpuVerb *verb) {
    *verb = VERB_context_use;
    return before.context == own.context ? 0 : calls->context_use(before.context);
}

const Vendor vendor_cuda = {
    .title = "CUDA",
    .variable = "LOCKSTEP_CUDA",
    .libraries = {"libcuda.so.1"},
    .no_library = "install the NVIDIA driver (in a container: start it with --gpus all)",
    .no_device = "see what nvidia-smi says, and whether CUDA_VISIBLE_DEVICES hides them",
    .oldest_version = 11040,
    .oldest = "CUDA 11.4: install NVIDIA driver 470 or newer",
    .multiprocessor_attribute = CUDA_ATTRIBUTE_MULTIPROCESSORS,
    .cooperative_attribute = CUDA_ATTRIBUTE_COOPERATIVE,
    .names = cuda_names,
    .error_name = cuda_error_name,
    .target = cuda_target,
    .suits = cuda_suits,
    .attach = cuda_attach,
    .detach = cuda_detach,
    .enter = cuda_enter,
    .leave = cuda_leave,
};

/* ---- HIP ---- */

static const char *hip_error_name(const GpuCalls *calls, int error) {
    const char *name = calls->error_name(error);
    return name ? name : "an unknown error";
}

static int hip_target(const GpuCalls *calls, int device, char *text, size_t size, GpuVerb *verb) {
    *verb = VERB_device_properties;
    char *properties = calloc(1, HIP_PROPERTIES_BYTES);
    if (!properties) return GPU_OUT_OF_MEMORY;
    int error = calls->device_properties(properties, device);
    if (!error) {
        const char *name = properties + HIP_ARCHITECTURE_AT;
        if (strncmp(name, "gfx", 3) != 0) name = properties + HIP_6_ARCHITECTURE_AT;
        /* "gfx90a:sramecc+:xnack-": code without the features' names runs with any of them */
        size_t length = strcspn(name, ":");
        snprintf(text, size, "%.*s", length < size ? (int)length : 0, name);
    }
    free(properties);
    return error;
}

static int hip_suits(const char *own, const char *target) {
    return strcmp(own, target) == 0;
}

static int hip_attach(const GpuCalls *calls, int device, GpuCurrent *own, GpuVerb *verb) {
    (void)calls;
    *verb = VERB_device_use;
    own->device = device;
    return 0;
}

static void hip_detach(const GpuCalls *calls, int device) {
    (void)calls, (void)device;
}

static int hip_enter(const GpuCalls *calls, GpuCurrent own, GpuCurrent *before, GpuVerb *verb) {
    *verb = VERB_device_current;
    int error = calls->device_current(&before->device);
    if (error || before->device == own.device) return error;
    *verb = VERB_device_use;
    return calls->device_use(own.device);
}

static int hip_leave(const GpuCalls *calls, GpuCurrent own, GpuCurrent before, GpuVerb *verb) {
    *verb = VERB_device_use;
    return before.device == own.device ? 0 : calls->device_use(before.device);
}

const Vendor vendor_hip = {
    .title = "HIP",
    .variable = "LOCKSTEP_HIP",
    .libraries = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"},
    .device_file = "/dev/kfd",
    .no_device_file = "load the amdgpu kernel driver (in a container: pass --device /dev/kfd "
                      "--device /dev/dri)",
    .no_library = "install the ROCm runtime (Debian: libamdhip64-5)",
    .no_device = "see what rocminfo says, and whether you are in the groups render and video",
    .oldest_version = 50000000,
    .oldest = "ROCm 5: install a newer ROCm runtime",
    .multiprocessor_attribute = HIP_ATTRIBUTE_MULTIPROCESSORS,
    .cooperative_attribute = HIP_ATTRIBUTE_COOPERATIVE,
    .names = hip_names,
    .error_name = hip_error_name,
    .target = hip_target,
    .suits = hip_suits,
    .attach = hip_attach,
    .detach = hip_detach,
    .enter = hip_enter,
    .leave = hip_leave,
};
