/* monitor_gpu.c: which of a monitoring library's devices is "cuda:1", and loading such a library.
 *
 * The driver's library says where the device is, by PCI address and UUID; no context is made on it.
 * Numbers differ between the two, by CUDA_VISIBLE_DEVICES and by order. */
#include "runtime.h"
#include "gpu.h"
#include "monitor.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char call[] = "ls_monitor_create";

/* What cannot be had is not there: the library may know the device by the other. Gives the error of
 * the first. */
static int find_location(const GpuLibrary *library, int device, GpuLocation *location) {
    const GpuCalls *calls = &library->calls;
    char text[32] = "";
    *location = (GpuLocation){.has_bus = false};
    int error = calls->device_bus ? calls->device_bus(text, sizeof text, device) : 0;
    if (*text && !error)
        location->has_bus = sscanf(text, "%x:%x:%x.%x", &location->domain, &location->bus,
                                   &location->device, &location->function) >= 3;
    if (calls->device_uuid) location->has_uuid = calls->device_uuid(location->uuid, device) == 0;
    return error;
}

static ls_status locate(const Driver *driver, GpuLibrary *library, int index, GpuLocation *location,
                        Error *error) {
    int device;
    if (index >= library->device_count)
        return error_set(
            error, LS_ERROR_DEVICE, "%s: there is no %s:%d, only %d device%s, counted from 0", call,
            driver->name, index, library->device_count, library->device_count == 1 ? "" : "s");
    char text[384];
    int code = library->calls.device_get(&device, index);
    if (code) {
        gpu_describe_error(library, VERB_device_get, code, text, sizeof text);
        return error_set(error, LS_ERROR_DEVICE, "%s: %s:%d: %s", call, driver->name, index, text);
    }
    code = find_location(library, device, location);
    if (location->has_bus || location->has_uuid) return LS_OK;
    snprintf(text, sizeof text, "install a newer driver");
    if (code) gpu_describe_error(library, VERB_device_bus, code, text, sizeof text);
    return error_set(error, LS_ERROR_DEVICE,
                     "%s: the %s driver does not say where %s:%d is, so it cannot be told from "
                     "others: %s",
                     call, library->vendor->title, driver->name, index, text);
}

ls_status monitor_open_gpu(const Driver *driver, int index, const char *root, Error *error,
                           Monitor **monitor) {
    const Vendor *vendor = driver->vendor;
    GpuLibrary library;
    GpuLocation location;
    char reason[512], device[16];
    *monitor = NULL;
    if (!gpu_library_open(vendor, &library, reason, sizeof reason))
        return error_set(error, LS_ERROR_DEVICE, "%s: %s cannot be used: %s", call, driver->name,
                         reason);
    ls_status status = locate(driver, &library, index, &location, error);
    gpu_library_close(&library);
    if (status != LS_OK) return status;
    snprintf(device, sizeof device, "%s:%d", driver->name, index % 10000);
    status = vendor->watch(device, &location, error, monitor);
    if (status != LS_OK) return status;
    memcpy((*monitor)->device, device, sizeof device);
    snprintf((*monitor)->root, sizeof(*monitor)->root, "%s", root);
    return LS_OK;
}

/* ---- libraries ---- */

static void *open_first(const MonitorLibrary *library, char *reason, size_t size) {
    const int flags = RTLD_NOW | RTLD_LOCAL;
    const char *own = host_environment(library->variable);
    if (own && *own) {
        void *handle = dlopen(own, flags);
        const char *message = handle ? NULL : dlerror();
        if (!handle)
            snprintf(reason, size, "%s cannot be loaded (%s): %s", own,
                     host_variable_name(library->variable), message ? message : "no reason given");
        return handle;
    }
    size_t last = 0;
    for (size_t i = 0; i < COUNT(library->libraries) && library->libraries[i]; i++) {
        last = i;
        void *handle = dlopen(library->libraries[i], flags);
        if (handle) return handle;
    }
    snprintf(reason, size, "%s was not found: %s", library->libraries[last], library->missing);
    return NULL;
}

void *monitor_library(const MonitorLibrary *library, void *calls, char *reason, size_t size) {
    void *handle = open_first(library, reason, size);
    if (!handle) return NULL;
    for (size_t i = 0; i < library->count; i++) {
        void *address = dlsym(handle, library->names[i]);
        memcpy((char *)calls + i * sizeof address, &address, sizeof address);
        if (address || i >= library->required) continue;
        snprintf(reason, size,
                 "the monitoring library is too old, it lacks %s: install a newer one",
                 library->names[i]);
        dlclose(handle);
        return NULL;
    }
    return handle;
}
