/* emulated_vendor.h: the part of emulated.c about the device and what is current. */

static const char *architecture(void) {
    const char *name = getenv("SIMT_ARCHITECTURE");
    return name ? name : "gfx90a";
}

static uint32_t wave(void) {
#ifdef STAND_IN_CUDA
    return 32;
#else
    static const struct {
        const char *name;
        uint32_t lanes;
    } chips[] = {
#define CHIP(name, portable, tried, lanes) {name, lanes},
#include "target/targets.def"
    };
    for (size_t i = 0; i < sizeof chips / sizeof *chips; i++)
        if (strcmp(architecture(), chips[i].name) == 0) return chips[i].lanes;
    abort(); /* SIMT_ARCHITECTURE is none of them */
#endif
}

/* SIMT_WEAK: "on", or "only", where nothing but the result tells; else all see every store at once.
 */
static SimtMemory memory_model(void) {
    const char *weak = getenv("SIMT_WEAK");
    if (!weak || strcmp(weak, "off") == 0) return SIMT_AT_ONCE;
    return strcmp(weak, "only") == 0 ? SIMT_ONLY_WEAK : SIMT_WEAK;
}

static UNUSED int do_initialise(unsigned flags) {
    return flags ? INVALID_VALUE : 0;
}
static UNUSED int do_driver_version(int *version) {
    return *version = 1 << 30, 0;
}
static UNUSED int do_device_count(int *count) {
    return *count = 1, 0;
}
static UNUSED int do_device_get(int *device, int ordinal) {
    return *device = ordinal, 0;
}
static UNUSED int do_device_name(char *name, int size, int device) {
    (void)device;
    snprintf(name, (size_t)size, "Emulated device, waves of %u", wave());
    return 0;
}
/* The first is in the second's place on the bus: numbers are not places. */
static UNUSED int do_device_bus(char *text, int size, int device) {
    snprintf(text, (size_t)size, "0000:%02x:00.0", 0xc1 - device);
    return 0;
}

static UNUSED int do_device_uuid(void *uuid, int device) {
    memset(uuid, 0xa0 + device, 16);
    return 0;
}

static UNUSED int do_device_attribute(int *value, int attribute, int device) {
    (void)device;
#ifdef STAND_IN_CUDA
    enum { INTEGRATED = CUDA_ATTRIBUTE_INTEGRATED, PAGEABLE = CUDA_ATTRIBUTE_PAGEABLE };
#else
    enum { INTEGRATED = HIP_ATTRIBUTE_INTEGRATED, PAGEABLE = HIP_ATTRIBUTE_PAGEABLE };
#endif
    *value = attribute == CUDA_ATTRIBUTE_MAJOR   ? 9
             : attribute == CUDA_ATTRIBUTE_MINOR ? 0
             : attribute == (int)INTEGRATED || attribute == (int)PAGEABLE
                 ? 0                /* memory of its own */
                 : MULTIPROCESSORS; /* yes */
    return 0;
}
static UNUSED int do_device_properties_6(void *properties, int device) {
    (void)device;
    snprintf((char *)properties + HIP_6_ARCHITECTURE_AT, 64, "%s", architecture());
    return 0;
}
static UNUSED int do_device_properties(void *properties, int device) {
    (void)device;
    snprintf((char *)properties + HIP_ARCHITECTURE_AT, 64, "%s", architecture());
    return 0;
}
static UNUSED int do_error_text(int error, const char **text) {
    *text = error == STAND_IN_ERROR ? "STAND_IN_FAILED" : message;
    return 0;
}
static UNUSED const char *do_error_name(int error) {
    return error == STAND_IN_ERROR ? "STAND_IN_FAILED" : message;
}

static char the_context;
static _Thread_local void *current_context;
static UNUSED int do_context_retain(void **made, int device) {
    state.contexts++;
    return (void)device, *made = &the_context, 0;
}
static UNUSED int do_context_release(int device) {
    state.contexts--;
    return (void)device, 0;
}
static UNUSED int do_context_current(void **current) {
    return *current = current_context, 0;
}
static UNUSED int do_context_use(void *used) {
    return current_context = used, 0;
}
static UNUSED int do_context_state(int device, unsigned *flags, int *active) {
    return (void)device, *flags = 0, *active = current_context != NULL, 0;
}
static UNUSED int do_context_device(int *device) {
    return *device = 0, 0;
}
static UNUSED int do_device_current(int *device) {
    return *device = 0, 0;
}
static UNUSED int do_device_use(int device) {
    return (void)device, 0;
}
