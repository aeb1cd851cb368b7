/* stand_in_devices.h: the part of stand_in.c about the library, its devices and what is current. */

static UNUSED int do_initialise(unsigned flags) {
    return flags ? INVALID_VALUE : 0;
}

static UNUSED int do_driver_version(int *version) {
    *version = state.version;
    return 0;
}

static UNUSED int do_device_count(int *count) {
    *count = state.devices;
    return 0;
}

static UNUSED int do_device_get(int *device, int ordinal) {
    *device = ordinal;
    return ordinal < 0 || ordinal >= state.devices ? INVALID_VALUE : 0;
}

static UNUSED int do_device_name(char *name, int size, int device) {
    snprintf(name, (size_t)size, "Stand-in %d", device);
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
    const struct {
        int attribute, value;
    } rows[] = {
#ifdef STAND_IN_CUDA
        {16, 10},
        {75, state.capability / 10},
        {76, state.capability % 10},
        {95, state.cooperative},
        {18, state.integrated},
        {88, state.pageable}
#else
        {63, 10}, {10, state.cooperative}, {16, state.integrated}, {65, state.pageable}
#endif
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (rows[i].attribute != attribute) continue;
        *value = rows[i].value;
        return 0;
    }
    return INVALID_VALUE;
}

static UNUSED int do_device_properties_6(void *properties, int device) {
    (void)device;
    memset(properties, 0, 1472);
    strcpy((char *)properties + 1160, "gfx90a:sramecc+:xnack-");
    return 0;
}

static UNUSED int do_device_properties(void *properties, int device) {
    (void)device;
    memset(properties, 0, 792);
    strcpy((char *)properties + 396, "gfx90a:sramecc+:xnack-");
    return 0;
}

static UNUSED int do_error_text(int error, const char **text) {
    *text = error == STAND_IN_ERROR ? "STAND_IN_FAILED" : "STAND_IN_OTHER";
    return 0;
}

static UNUSED const char *do_error_name(int error) {
    return error == STAND_IN_ERROR ? "STAND_IN_FAILED" : "STAND_IN_OTHER";
}

static UNUSED int do_context_retain(void **context, int device) {
    *context = &contexts[device];
    state.contexts++;
    return 0;
}

static UNUSED int do_context_release(int device) {
    (void)device;
    state.contexts--;
    return 0;
}

static UNUSED int do_context_current(void **context) {
    *context = current_context;
    return 0;
}

static UNUSED int do_context_use(void *context) {
    current_context = context;
    return 0;
}

static UNUSED int do_context_state(int device, unsigned *flags, int *active) {
    (void)device;
    *flags = 0;
    *active = state.contexts > 0;
    return 0;
}

static UNUSED int do_context_device(int *device) {
    if (!current_context) return INVALID_CONTEXT;
    const char *own = current_context;
    *device = (int)((own - contexts) % STAND_IN_DEVICES);
    return 0;
}

static UNUSED int do_device_current(int *device) {
    *device = current_device;
    return 0;
}

static UNUSED int do_device_use(int device) {
    current_device = device;
    return 0;
}
