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

/* Calls that a driver may lack, and what it then cannot do; all others it must have. */
static const struct {
    GpuVerb verb;
    Capability capability; /* CAPABILITY_COUNT: nothing that matters */
} needs[] = {
    {VERB_launch_together, CAN_COOPERATE}, /* HIP: from ROCm 5.5 on */
    {VERB_blocks_together, CAN_COOPERATE},
    {VERB_capture_info, CAN_UPDATE},
    {VERB_graph_nodes, CAN_UPDATE},
    {VERB_node_set, CAN_UPDATE},
    {VERB_executable_set, CAN_UPDATE},
    {VERB_graph_condition, CAN_REPEAT},
    {VERB_graph_add, CAN_REPEAT},
    {VERB_capture_mode, CAPABILITY_COUNT},  /* trainers capture in a mode that allows all */
    {VERB_host_function, CAPABILITY_COUNT}, /* host work is refused */
    {VERB_stream_device, CAPABILITY_COUNT}, /* a trainer's stream is not looked at */
    {VERB_device_bus, CAPABILITY_COUNT},    /* a monitor goes by the other of these two */
    {VERB_device_uuid, CAPABILITY_COUNT},
    {VERB_device_properties_6, CAPABILITY_COUNT}, /* one of these two */
    {VERB_device_properties, CAPABILITY_COUNT},
};

static bool is_optional(GpuVerb verb) {
    for (size_t i = 0; i < COUNT(needs); i++)
        if (needs[i].verb == verb) return true;
    return false;
}

static const struct {
    short error;
    bool final;
    const char *help;
} errors[] = {
#define X(number, cuda, hip, final, help) {number, final, help},
#include "gpu_errors.def"
};

bool gpu_error_is_final(int error) {
    for (size_t i = 0; i < COUNT(errors); i++)
        if (errors[i].error == error) return errors[i].final;
    return false;
}

void gpu_describe_error(const GpuLibrary *library, GpuVerb verb, int error, char *text,
                        size_t size) {
    const char *help = NULL;
    for (size_t i = 0; i < COUNT(errors); i++)
        if (errors[i].error == error) help = errors[i].help;
    snprintf(text, size, "%s failed with %s (%d)%s%s", library->vendor->names[verb],
             library->vendor->error_name(&library->calls, error), error, help ? ": " : "",
             help ? help : "");
}

static bool load(const Vendor *vendor, GpuLibrary *library, char *reason, size_t size) {
    const char *own = host_environment(vendor->variable);
    const int flags =
        RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE; /* drivers do not like to be unloaded */
    if (own && *own) {
        library->handle = dlopen(own, flags);
        const char *message = library->handle ? NULL : dlerror();
        if (!library->handle)
            snprintf(reason, size, "%s cannot be loaded (%s): %s", own,
                     host_variable_name(vendor->variable), message ? message : "no reason given");
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
        if (!address && is_optional((GpuVerb)i)) continue;
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
    int error = library->calls.initialise(0);
    if (!error) {
        verb = VERB_driver_version;
        error = library->calls.driver_version(&library->version);
    }
    if (!error && library->version < vendor->oldest_version) {
        snprintf(reason, size, "the %s driver is too old: it gives version %d, Lockstep needs %s",
                 vendor->title, library->version, vendor->oldest);
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

/* What the device cannot do, each with the reason. Gives the failed call's error, or 0. */
static int find_lacks(const GpuLibrary *library, GpuIdentity *identity) {
    const Vendor *vendor = library->vendor;
    for (size_t i = 0; i < COUNT(needs); i++) {
        void *address;
        memcpy(&address, (const char *)&library->calls + call_offsets[needs[i].verb],
               sizeof address);
        if (address || needs[i].capability == CAPABILITY_COUNT) continue;
        const char *name = vendor->names[needs[i].verb];
        snprintf(identity->lacks[needs[i].capability], LACK_BYTES, "the %s driver %s%.60s",
                 vendor->title, name ? "lacks " : "has no such thing", name ? name : "");
    }
    for (size_t i = 0; i < CAPABILITY_COUNT; i++) {
        const GpuNeed *need = &vendor->needs[i];
        char *reason = identity->lacks[i];
        if (*reason) continue;
        if (library->version < need->version) {
            snprintf(reason, LACK_BYTES, "%.100s", need->older);
            continue;
        }
        int can = 1;
        int error = need->attribute
                        ? library->calls.device_attribute(&can, need->attribute, identity->device)
                        : 0;
        if (error && error != GPU_INVALID_VALUE) return error; /* this one: it is unknown there */
        if (error || !can) snprintf(reason, LACK_BYTES, "the device cannot");
    }
    return 0;
}

/* Whether the device has an attribute that an older driver may not know. */
static int ask(const GpuLibrary *library, int device, int attribute, bool *has) {
    int value = 0;
    const int error = library->calls.device_attribute(&value, attribute, device);
    *has = !error && value;
    return error == GPU_INVALID_VALUE ? 0 : error;
}

/* Whether host and device have one memory. Page-locked memory has one address for both. */
static int find_memory(const GpuLibrary *library, GpuIdentity *identity) {
    bool integrated = false, pageable = false;
    const Vendor *vendor = library->vendor;
    int error = ask(library, identity->device, vendor->integrated_attribute, &integrated);
    if (!error && integrated)
        error = ask(library, identity->device, vendor->pageable_attribute, &pageable);
    identity->reads_pinned = integrated;
    identity->reads_host = integrated && pageable;
    return error;
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
    if (!error) error = find_memory(library, identity);
    if (!error) error = find_lacks(library, identity);
    if (error) {
        gpu_describe_error(library, verb, error, reason, size);
        return false;
    }
    const char *wrong = library->vendor->too_old(identity->target);
    if (wrong) {
        snprintf(reason, size, "%.60s is too old, %.20s: %s", name, identity->target, wrong);
        return false;
    }
    snprintf(identity->description, sizeof identity->description,
             "%.70s, %.40s, %d multiprocessors", name, identity->target, identity->multiprocessors);
    return true;
}
