/* scenario.c: see scenario.h. */
#include "scenario.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

StandIn *control;
uint64_t scenario_seed;
static StandInFinish *finish_queued;
static unsigned char called_once[VERB_COUNT], failed_once[VERB_COUNT]; /* by any scenario */

int open_control(void **state) {
    (void)state;
    void *library = dlopen(STAND_IN_PATH, RTLD_NOW);
    if (!library) return -1;
    StandInFunction *get;
    void *address = dlsym(library, "stand_in");
    memcpy(&get, &address, sizeof address);
    control = get();
    address = dlsym(library, "stand_in_finish");
    memcpy(&finish_queued, &address, sizeof address);
    return 0;
}

static const Vendor *tested_vendor(void) {
    return strcmp(DEVICE, "cuda") == 0 ? &vendor_cuda : &vendor_hip;
}

void *vendors_address(GpuVerb verb) {
    void *library = dlopen(STAND_IN_PATH, RTLD_NOW);
    void *address = dlsym(library, tested_vendor()->names[verb]);
    assert_non_null(address);
    dlclose(library); /* open_control keeps it */
    return address;
}

GpuCurrent thread_current(void) {
    GpuCurrent now = {NULL};
    if (strcmp(DEVICE, "cuda") == 0)
        VENDORS(context_current, &now.context);
    else
        VENDORS(device_current, &now.device);
    return now;
}

void stand_in_reset(StandInHook *hook) {
    finish_queued(false);
    *control = (StandIn){.version = 1 << 30,
                         .devices = 2,
                         .memory = SIZE_MAX,
                         .cooperative = 1,
                         .together = 3,
                         .capability = 90,
                         .updates = 1,
                         .seed = scenario_seed,
                         .hook = hook};
    setenv(VARIABLE, STAND_IN_PATH, 1);
}

void assert_nothing_left(void) {
    finish_queued(true);
    if (control->faults) fail_msg("queued work used what was given up; see above");
#define X(objects) \
    if (control->objects != 0) fail_msg("%ld " #objects " are left", control->objects);
    STAND_IN_OBJECTS(X)
#undef X
}

void use_in_every_order(const Scenario *scenario) {
    enum { ORDERS = 12 };
    for (uint64_t seed = 0; seed < ORDERS; seed++) {
        stand_in_reset(scenario->hook);
        control->seed = seed;
        void *session = calloc(1, scenario->session_bytes);
        assert_non_null(session);
        if (scenario->use(session) != LS_OK)
            fail_msg("%s with seed %d: %s", scenario->name, (int)seed,
                     ls_error_message(*(void **)session));
        scenario->close(session);
        free(session);
        assert_nothing_left();
    }
}

static bool survives(const Scenario *scenario, GpuVerb verb, int error) {
    if (stand_in_gives_up(verb)) return true;
    static const GpuVerb allocating[] = {VERB_memory_allocate, VERB_pinned_allocate,
                                         VERB_context_current, VERB_context_use,
                                         VERB_device_current,  VERB_device_use};
    for (size_t i = 0; error == GPU_OUT_OF_MEMORY && i < COUNT(allocating); i++)
        if (allocating[i] == verb) return true; /* it is asked for less, or again */
    for (const GpuVerb *at = scenario->survives; at && *at != VERB_COUNT; at++)
        if (*at == verb) return true;
    return false;
}

static void check_message(const Scenario *scenario, long n, void *const *session) {
    const char *message = ls_error_message(*session);
    if (!strstr(message, control->failed_name) || !strstr(message, "STAND_IN_FAILED (999)"))
        fail_msg("%s: call %ld, %s: the message is: %s", scenario->name, n, control->failed_name,
                 message);
}

static void fail_each(const Scenario *scenario, int error, bool resume) {
    long n = 0;
    for (bool reached = true; reached;) {
        stand_in_reset(scenario->hook);
        control->fail_at = ++n;
        control->fail_with = error;
        void *session = calloc(1, scenario->session_bytes);
        assert_non_null(session);
        ls_status status = scenario->use(session);
        reached = control->calls >= n;
        if (reached && status == LS_OK && !survives(scenario, control->failed, error))
            fail_msg("%s: call %ld, %s: its failure went unnoticed", scenario->name, n,
                     control->failed_name);
        if (!reached && status != LS_OK)
            fail_msg("%s without a failing call: %s", scenario->name,
                     ls_error_message(*(void **)session));
        if (status != LS_OK && error == STAND_IN_ERROR) {
            assert_int_equal(status, LS_ERROR_DEVICE);
            check_message(scenario, n, session);
        }
        if (status != LS_OK && resume && scenario->use(session) != LS_OK)
            fail_msg("%s: after call %ld, %s, failed: %s", scenario->name, n, control->failed_name,
                     ls_error_message(*(void **)session));
        scenario->close(session);
        free(session);
        assert_nothing_left();
        reached = control->calls >= n; /* it may come in taking down */
        for (size_t i = 0; i < VERB_COUNT; i++) called_once[i] |= control->called[i];
        if (reached) failed_once[control->failed] = 1;
    }
    assert_true(n > 10);
}

void fail_every_call(const Scenario *scenario, int error) {
    fail_each(scenario, error, false);
}

void fail_every_call_and_resume(const Scenario *scenario, int error) {
    fail_each(scenario, error, true);
}

void assert_every_call_failed(void) {
    const Vendor *vendor = tested_vendor();
    for (size_t i = 0; i < VERB_COUNT; i++) {
        if (!vendor->names[i] || i == VERB_fill_16) continue; /* no rank-0 value has two bytes */
        if (i == VERB_device_properties) continue; /* older than device_properties_6: fallbacks */
        if (!called_once[i]) fail_msg("no scenario calls %s", vendor->names[i]);
        if (i == VERB_error_text || i == VERB_error_name) continue; /* part of reporting */
        if (!failed_once[i]) fail_msg("%s never failed in a scenario", vendor->names[i]);
    }
}
