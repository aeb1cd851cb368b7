/* gpu_vendor.c: where CUDA and HIP differ in more than the names of their calls: one Vendor row
 * each. Constants are ours; tests/driver/declarations_*.c hold them against the vendors' headers.
 */
#include "runtime.h"
#include "gpu.h"
#include "monitor.h"

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
    if (!error) snprintf(text, size, LS_TARGET_CUBIN "%d%d", major, minor);
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
    static const char cubin[] = LS_TARGET_CUBIN, ptx[] = LS_TARGET_PTX;
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

static GpuNode cuda_node(const Launch *launch, void **parameters) {
    return (GpuNode){.cuda = {.function = launch->kernel.gpu,
                              .grid = {launch->parts, 1, 1},
                              .block = {launch->threads, 1, 1},
                              .parameters = parameters}};
}

/* Counts down and says whether the body runs again. The driver supplies the function called, so
 * that only PTX will do here, which every later device takes. */
static const char cuda_repeat_code[] =
    ".version 6.0\n"
    ".target sm_60\n"
    ".address_size 64\n"
    ".extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);\n"
    ".visible .entry ls_repeat(.param .u64 left, .param .u64 handle)\n"
    "{\n"
    "    .reg .b64 %at, %handle;\n"
    "    .reg .b32 %count, %again;\n"
    "    .reg .pred %more;\n"
    "    .param .b64 first;\n"
    "    .param .b32 second;\n"
    "    ld.param.u64 %at, [left];\n"
    "    ld.param.u64 %handle, [handle];\n"
    "    cvta.to.global.u64 %at, %at;\n"
    "    ld.global.u32 %count, [%at];\n"
    "    sub.u32 %count, %count, 1;\n"
    "    st.global.u32 [%at], %count;\n"
    "    setp.ne.u32 %more, %count, 0;\n"
    "    selp.u32 %again, 1, 0, %more;\n"
    "    st.param.b64 [first], %handle;\n"
    "    st.param.b32 [second], %again;\n"
    "    call.uni cudaGraphSetConditional, (first, second);\n"
    "    ret;\n"
    "}\n"
    /* Counts down by `step`; the body runs (again) where more are left and the byte is 0. */
    ".visible .entry ls_until(.param .u64 left, .param .u64 stop, .param .u64 handle,\n"
    "                         .param .u32 step)\n"
    "{\n"
    "    .reg .b64 %at, %stop, %handle;\n"
    "    .reg .b32 %count, %step, %byte, %again;\n"
    "    .reg .pred %more, %on;\n"
    "    .param .b64 first;\n"
    "    .param .b32 second;\n"
    "    ld.param.u64 %at, [left];\n"
    "    ld.param.u64 %stop, [stop];\n"
    "    ld.param.u64 %handle, [handle];\n"
    "    ld.param.u32 %step, [step];\n"
    "    cvta.to.global.u64 %at, %at;\n"
    "    cvta.to.global.u64 %stop, %stop;\n"
    "    ld.global.u32 %count, [%at];\n"
    "    ld.global.u8 %byte, [%stop];\n"
    "    sub.u32 %count, %count, %step;\n"
    "    st.global.u32 [%at], %count;\n"
    "    setp.ne.u32 %more, %count, 0;\n"
    "    setp.eq.and.u32 %on, %byte, 0, %more;\n"
    "    selp.u32 %again, 1, 0, %on;\n"
    "    st.param.b64 [first], %handle;\n"
    "    st.param.b32 [second], %again;\n"
    "    call.uni cudaGraphSetConditional, (first, second);\n"
    "    ret;\n"
    "}\n";

static int cuda_copy_rows(const GpuCalls *calls, const Copy *copy, void *stream, GpuVerb *verb) {
    const GpuRows rows = {.from_kind = CUDA_MEMORY_DEVICE,
                          .from = copy->from,
                          .from_pitch = (size_t)copy->axes[0].from,
                          .to_kind = CUDA_MEMORY_DEVICE,
                          .to = copy->to,
                          .to_pitch = (size_t)copy->axes[0].to,
                          .width = copy->width,
                          .height = copy->axes[0].length};
    *verb = VERB_copy_pitched;
    return calls->copy_pitched(&rows, stream);
}

static const char *cuda_too_old(const char *target) {
    bool unused;
    return capability(target + 3, &unused) < CUDA_OLDEST_TARGET
               ? "Lockstep needs compute capability 6.0 or newer"
               : NULL;
}

/* The context that the trainer works in: its stream's, else the thread's. */
static int trainers_context(const GpuCalls *calls, void *stream, void **context, GpuVerb *verb) {
    *context = NULL;
    *verb = stream ? VERB_stream_context : VERB_context_current;
    return stream ? calls->stream_context(stream, context) : calls->context_current(context);
}

/* Its device: a call that is about the current context only. */
static int context_device(const GpuCalls *calls, void *context, int *device, GpuVerb *verb) {
    void *before = NULL;
    *verb = VERB_context_current;
    int error = calls->context_current(&before);
    if (error) return error;
    *verb = VERB_context_use;
    if (before != context) error = calls->context_use(context);
    if (error) return error;
    *verb = VERB_context_device;
    error = calls->context_device(device);
    int back = before != context ? calls->context_use(before) : 0;
    if (!error && back) *verb = VERB_context_use;
    return error ? error : back;
}

/* Arrays and streams are the context's that made them, and a second context of the process would
 * share nothing with it. So: the context that the trainer has on this device, and else the primary
 * one, which the runtime API uses too. That one is retained, so that it stays when the trainer
 * lets go; it is only made when there is no other. */
static int cuda_attach(const GpuCalls *calls, int device, void *stream, GpuHold *hold,
                       GpuVerb *verb) {
    void *theirs, *primary = NULL;
    unsigned flags;
    int where = -1, active = 0;
    *hold = (GpuHold){.elsewhere = -1};
    int error = trainers_context(calls, stream, &theirs, verb);
    if (!error && theirs) error = context_device(calls, theirs, &where, verb);
    if (error) return error;
    if (theirs && where != device) {
        if (stream) hold->elsewhere = where;
        if (stream) return 0;
        theirs = NULL;
    }
    if (theirs) {
        *verb = VERB_context_state;
        error = calls->context_state(device, &flags, &active);
        if (error) return error;
    }
    if (!theirs || active) {
        *verb = VERB_context_retain;
        error = calls->context_retain(&primary, device);
        if (error) return error;
    }
    hold->retained = primary && (!theirs || theirs == primary);
    if (primary && !hold->retained) calls->context_release(device);
    hold->own.context = theirs ? theirs : primary;
    return 0;
}

static int cuda_of_stream(const GpuCalls *calls, GpuCurrent own, void *stream, bool *ours,
                          GpuVerb *verb) {
    void *context = NULL;
    *verb = VERB_stream_context;
    const int error = calls->stream_context(stream, &context);
    *ours = context == own.context;
    return error;
}

static void cuda_detach(const GpuCalls *calls, int device, const GpuHold *hold) {
    if (hold->retained) calls->context_release(device);
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
    .variable = VARIABLE_LOCKSTEP_CUDA,
    .libraries = {"libcuda.so.1"},
    .no_library = "install the NVIDIA driver (in a container: start it with --gpus all)",
    .no_device = "see what nvidia-smi says, and whether CUDA_VISIBLE_DEVICES hides them",
    .oldest_version = 11040,
    .oldest = "CUDA 11.4: install NVIDIA driver 470 or newer",
    .multiprocessor_attribute = CUDA_ATTRIBUTE_MULTIPROCESSORS,
    .integrated_attribute = CUDA_ATTRIBUTE_INTEGRATED,
    .pageable_attribute = CUDA_ATTRIBUTE_PAGEABLE,
    .needs =
        {
            [CAN_COOPERATE] = {.attribute = CUDA_ATTRIBUTE_COOPERATIVE},
            [CAN_REPEAT] = {.version = 12040, .older = "they take CUDA 12.4 (NVIDIA driver 550)"},
        },
    .names = cuda_names,
    .error_name = cuda_error_name,
    .target = cuda_target,
    .suits = cuda_suits,
    .node = cuda_node,
    .copy_rows = cuda_copy_rows,
    .too_old = cuda_too_old,
    .repeat_code = cuda_repeat_code,
    .attach = cuda_attach,
    .of_stream = cuda_of_stream,
    .detach = cuda_detach,
    .enter = cuda_enter,
    .leave = cuda_leave,
    .watch = monitor_open_nvml,
};

/* ---- HIP ---- */

static const char *hip_error_name(const GpuCalls *calls, int error) {
    const char *name = calls->error_name(error);
    return name ? name : "an unknown error";
}

static int hip_target(const GpuCalls *calls, int device, char *text, size_t size, GpuVerb *verb) {
    const bool newer = calls->device_properties_6 != NULL;
    *verb = newer ? VERB_device_properties_6 : VERB_device_properties;
    _Alignas(16) char properties[HIP_PROPERTIES_BYTES] = "";
    int error = newer                      ? calls->device_properties_6(properties, device)
                : calls->device_properties ? calls->device_properties(properties, device)
                                           : GPU_NOT_SUPPORTED;
    if (!error) {
        const char *name = properties + (newer ? HIP_6_ARCHITECTURE_AT : HIP_ARCHITECTURE_AT);
        /* "gfx90a:sramecc+:xnack-": code without the features' names runs with any of them */
        size_t length = strcspn(name, ":");
        snprintf(text, size, "%.*s", length < size ? (int)length : 0, name);
    }
    return error;
}

static int hip_suits(const char *own, const char *target) {
    return strcmp(own, target) == 0;
}

static GpuNode hip_node(const Launch *launch, void **parameters) {
    return (GpuNode){.hip = {.function = launch->kernel.gpu,
                             .grid = {launch->parts, 1, 1},
                             .block = {launch->threads, 1, 1},
                             .parameters = parameters}};
}

static int hip_copy_rows(const GpuCalls *calls, const Copy *copy, void *stream, GpuVerb *verb) {
    *verb = VERB_copy_2d;
    return calls->copy_2d(copy->to, (size_t)copy->axes[0].to, copy->from,
                          (size_t)copy->axes[0].from, copy->width, copy->axes[0].length,
                          HIP_COPY_WITHIN, stream);
}

/* What code is made for is known by name alone; the toolchain says what it no longer makes. */
static const char *hip_too_old(const char *target) {
    (void)target;
    return NULL;
}

/* HIP knows primary contexts only. */
static int hip_attach(const GpuCalls *calls, int device, void *stream, GpuHold *hold,
                      GpuVerb *verb) {
    int where = device;
    *hold = (GpuHold){.own.device = device, .elsewhere = -1};
    *verb = VERB_stream_device;
    int error = stream && calls->stream_device ? calls->stream_device(stream, &where) : 0;
    if (!error && where != device) hold->elsewhere = where;
    return error;
}

static int hip_of_stream(const GpuCalls *calls, GpuCurrent own, void *stream, bool *ours,
                         GpuVerb *verb) {
    int where = own.device;
    *verb = VERB_stream_device;
    const int error = calls->stream_device ? calls->stream_device(stream, &where) : 0;
    *ours = where == own.device;
    return error;
}

static void hip_detach(const GpuCalls *calls, int device, const GpuHold *hold) {
    (void)calls, (void)device, (void)hold;
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
    .variable = VARIABLE_LOCKSTEP_HIP,
    .libraries = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"},
    .device_file = "/dev/kfd",
    .no_device_file = "load the amdgpu kernel driver (in a container: pass --device /dev/kfd "
                      "--device /dev/dri)",
    .no_library = "install the ROCm runtime (Debian: libamdhip64-5)",
    .no_device = "see what rocminfo says, and whether you are in the groups render and video",
    .oldest_version = 50000000,
    .oldest = "ROCm 5: install a newer ROCm runtime",
    .multiprocessor_attribute = HIP_ATTRIBUTE_MULTIPROCESSORS,
    .integrated_attribute = HIP_ATTRIBUTE_INTEGRATED,
    .pageable_attribute = HIP_ATTRIBUTE_PAGEABLE,
    .needs =
        {
            /* What is captured must be recorded, and there is no telling before: see not_recorded.
             */
            [CAN_COOPERATE] = {.attribute = HIP_ATTRIBUTE_COOPERATIVE,
                               .version = 60400000,
                               .older =
                                   "HIP before 6.4 runs them at once when a graph is captured"},
            [CAN_CAPTURE] = {.version = 50300000,
                             .older = "those of ROCm before 5.3 are not to be relied on"},
        },
    .names = hip_names,
    .error_name = hip_error_name,
    .target = hip_target,
    .suits = hip_suits,
    .node = hip_node,
    .copy_rows = hip_copy_rows,
    .too_old = hip_too_old,
    .attach = hip_attach,
    .of_stream = hip_of_stream,
    .detach = hip_detach,
    .enter = hip_enter,
    .leave = hip_leave,
    .watch = monitor_open_rocm,
};
