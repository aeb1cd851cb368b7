/* gpu_library.c: finds a vendor's driver library and its devices, and says in one line what is
 * missing. */
#include "runtime.h"
#include "gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where each call's address goes. */
static const size_t call_offsets[VERB_COUNT] = {
#define BOTH(result, verb, ...) offsetof(GpuCalls, verb),
#define CUDA(result, verb, ...) offsetof(GpuCalls, verb),
#define HIP(result, verb, ...) offsetof(GpuCalls, verb),
#include "gpu.def"
};

/* Calls without which a device still works: it launches no cooperative kernels (HIP has the first
 * from ROCm 6 on), and refuses host work. */
static const bool optional[VERB_COUNT] = {
    [VERB_launch_together] = true, [VERB_blocks_together] = true, [VERB_host_function] = true};

static const struct {
    int error;
    const char *help;
} hints[] = {
    {34, "this is the toolkit's stub library: take its folder out of LD_LIBRARY_PATH"},
    {46, "another process holds the device exclusively"},
    {200, "the code is damaged or of another vendor: `lockstep cache clear`"},
    {209, "the code is for another architecture: build it for this device's"},
    {214, "the device's memory is damaged"},
    {218, "the driver does not understand this PTX: install a newer driver"},
    {222, "the runtime compiler is newer than the driver: install a newer driver, or set "
          "LOCKSTEP_NVRTC to an older one"},
    {700, "a kernel left its memory: were arrays freed or moved after they were bound? Create the "
          "context again"},
    {716, "an array is misaligned: was it moved after it was bound? Create the context again"},
    {719, "a kernel failed: create the context again"},
    {803, "the kernel module and the library have different versions: reboot"},
    {804, "the driver is too old for this library's compatibility mode"},
    {900, "this stream cannot be captured: give ls_context_create one of its own"},
    {901, "a call during the capture broke it; only launches are allowed there"},
    {906, "another stream used the legacy default stream during the capture"},
};

void gpu_describe_error(const GpuLibrary *library, GpuVerb verb, int error, char *text,
                        size_t size) {
    const char *help = NULL;
    for (size_t i = 0; i < COUNT(hints); i++)
        if (hints[i].error == error) help = hints[i].help;
    snprintf(text, size, "%s failed with %s (%d)%s%s", library->vendor->names[verb],
             library->vendor->error_name(&library->calls, error), error, help ? ": " : "",
             help ? help : "");
}

static bool load(const Vendor *vendor, GpuLibrary *library, char *reason, size_t size) {
    const char *own = getenv(vendor->variable);
    const int flags =
        RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE; /* drivers do not like to be unloaded */
    if (own && *own) {
        library->handle = dlopen(own, flags);
        const char *message = library->handle ? NULL : dlerror();
        if (!library->handle)
            snprintf(reason, size, "%s cannot be loaded (%s): %s", own, vendor->variable,
                     message ? message : "no reason given");
        return library->handle != NULL;
    }
    if (vendor->device_file && access(vendor->device_file, F_OK) != 0) {
        snprintf(reason, size, "no device: %s is missing: %s", vendor->device_file,
                 vendor->no_device_file);
        return false;
    }
    size_t last = 0;
    for (size_t i = 0; i < COUNT(vendor->libraries) && vendor->libraries[i]; i++) {
        last = i;
        library->handle = dlopen(vendor->libraries[i], flags);
        if (library->handle) return true;
    }
    snprintf(reason, size, "%s was not found: %s", vendor->libraries[last], vendor->no_library);
    return false;
}

static bool find_calls(GpuLibrary *library, char *reason, size_t size) {
    const Vendor *vendor = library->vendor;
    for (size_t i = 0; i < VERB_COUNT; i++) {
        if (!vendor->names[i]) continue;
        void *address = dlsym(library->handle, vendor->names[i]);
        if (!address && optional[i]) continue;
        if (!address) {
            snprintf(reason, size, "the %s driver is too old, it lacks %s; Lockstep needs %s",
                     vendor->title, vendor->names[i], vendor->oldest);
            return false;
        }
        memcpy((char *)&library->calls + call_offsets[i], &address, sizeof address);
    }
    return true;
}

static bool no_device(const GpuLibrary *library, char *reason, size_t size) {
    snprintf(reason, size, "the %s driver is there but finds no device: %s", library->vendor->title,
             library->vendor->no_device);
    return false;
}

static bool initialise(GpuLibrary *library, char *reason, size_t size) {
    const Vendor *vendor = library->vendor;
    GpuVerb verb = VERB_initialise;
    int version = 0, error = library->calls.initialise(0);
    if (!error) {
        verb = VERB_driver_version;
        error = library->calls.driver_version(&version);
    }
    if (!error && version < vendor->oldest_version) {
        snprintf(reason, size, "the %s driver is too old: it gives version %d, Lockstep needs %s",
                 vendor->title, version, vendor->oldest);
        return false;
    }
    if (!error) {
        verb = VERB_device_count;
        error = library->calls.device_count(&library->device_count);
    }
    if (error == GPU_NO_DEVICE || error == GPU_INVALID_DEVICE ||
        (!error && library->device_count < 1))
        return no_device(library, reason, size);
    if (error) gpu_describe_error(library, verb, error, reason, size);
    return error == 0;
}

bool gpu_library_open(const Vendor *vendor, GpuLibrary *library, char *reason, size_t size) {
    *library = (GpuLibrary){.vendor = vendor};
    if (!load(vendor, library, reason, size)) return false;
    if (find_calls(library, reason, size) && initialise(library, reason, size)) return true;
    gpu_library_close(library);
    return false;
}

void gpu_library_close(GpuLibrary *library) {
    if (library->handle) dlclose(library->handle);
    library->handle = NULL;
}

bool gpu_identify(const GpuLibrary *library, int index, GpuIdentity *identity, char *reason,
                  size_t size) {
    const GpuCalls *calls = &library->calls;
    char name[80] = "";
    GpuVerb verb = VERB_device_get;
    *identity = (GpuIdentity){0};
    int error = calls->device_get(&identity->device, index);
    if (!error) {
        verb = VERB_device_name;
        error = calls->device_name(name, sizeof name - 1, identity->device);
    }
    if (!error)
        error = library->vendor->target(calls, identity->device, identity->target,
                                        sizeof identity->target, &verb);
    if (!error) {
        verb = VERB_device_attribute;
        error =
            calls->device_attribute(&identity->multiprocessors,
                                    library->vendor->multiprocessor_attribute, identity->device);
    }
    int cooperative = 0;
    if (!error && calls->launch_together && calls->blocks_together)
        error = calls->device_attribute(&cooperative, library->vendor->cooperative_attribute,
                                        identity->device);
    identity->cooperative = cooperative != 0;
    if (error) {
        gpu_describe_error(library, verb, error, reason, size);
        return false;
    }
    snprintf(identity->description, sizeof identity->description,
             "%.70s, %.40s, %d multiprocessors", name, identity->target, identity->multiprocessors);
    return true;
}
