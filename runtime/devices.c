/* devices.c: which devices there are, which one a name means, and what one lacks. */
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

const Driver *const drivers[] = {&driver_cuda, &driver_hip, &driver_cpu};
const size_t driver_count = COUNT(drivers);

size_t ls_devices(ls_device_info *devices, size_t capacity) {
    size_t count = 0;
    if (!devices) capacity = 0;
    for (size_t i = 0; i < driver_count; i++) {
        size_t room = count < capacity ? capacity - count : 0;
        count += drivers[i]->list(drivers[i], room ? devices + count : NULL, room);
    }
    return count;
}

/* "NAME" or "NAME:INDEX" */
static const Driver *parse(const char *text, int *index) {
    for (size_t i = 0; i < driver_count; i++) {
        size_t length = strlen(drivers[i]->name);
        if (strncmp(text, drivers[i]->name, length) != 0) continue;
        const char *rest = text + length;
        *index = 0;
        if (!*rest) return drivers[i];
        if (*rest++ != ':' || strlen(rest) < 1 || strlen(rest) > 4) return NULL;
        if (strspn(rest, "0123456789") != strlen(rest)) return NULL;
        *index = atoi(rest);
        return drivers[i];
    }
    return NULL;
}

ls_status device_named(const char *call, const char *text, Error *error, const Driver **driver,
                       int *index) {
    const char *from = "";
    *driver = NULL;
    *index = 0;
    if (!text || strcmp(text, "auto") == 0) {
        text = host_environment(VARIABLE_LOCKSTEP_DEVICE);
        from = " (from LOCKSTEP_DEVICE)";
    }
    if (!text || !*text || strcmp(text, "auto") == 0) return LS_OK;
    *driver = parse(text, index);
    if (*driver) return LS_OK;
    return error_set(error, LS_ERROR_ARGUMENT,
                     "%s: `%.64s`%s names no device; use auto, cpu, cuda, cuda:1, hip or hip:1",
                     call, text, from);
}

ls_status device_open(const char *text, void *stream, Error *error, Device **device) {
    const Driver *driver;
    int index;
    *device = NULL;
    ls_status status = device_named("ls_context_create", text, error, &driver, &index);
    if (status != LS_OK) return status;
    if (driver) return driver->open(driver, index, stream, error, device);
    status = LS_ERROR_DEVICE;
    for (size_t i = 0; i < driver_count && !*device; i++) {
        status = drivers[i]->open(drivers[i], 0, stream, error, device);
        if (status != LS_OK)
            log_write(LOG_INFO, "auto passes over %s: %s", drivers[i]->name,
                      ls_error_message(NULL));
    }
    return status;
}

/* What is missing, in the middle of a sentence. */
static const char *const capabilities[CAPABILITY_COUNT] = {
    [CAN_COOPERATE] = "kernels whose blocks wait for each other",
    [CAN_CAPTURE] = "graphs",
    [CAN_UPDATE] = "new parameters for a graph's kernels",
    [CAN_REPEAT] = "graphs that repeat themselves",
};

bool device_lacks(Device *device, Capability capability, const char *instead) {
    if (!device->lacks[capability][0]) return false;
    if (!device->told[capability])
        log_write(LOG_INFO, "%s has no %s (%s): %s", device->name, capabilities[capability],
                  device->lacks[capability], instead);
    device->told[capability] = true;
    return true;
}
