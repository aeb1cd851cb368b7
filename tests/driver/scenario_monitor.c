/* scenario_monitor.c: the driver is asked where a device is, and nothing else of it is used. What
 * the monitoring libraries do is tests/monitor's. */
#include "scenario.h"

#include <stdlib.h>

typedef struct Session {
    ls_context *context; /* none: errors are the thread's */
    ls_monitor *monitors[3];
} Session;

static ls_status use(void *session) {
    Session *s = session;
    setenv(MONITOR_VARIABLE, MONITOR_PATH, 1);
    for (int i = 0; i < 3; i++)
        DO(ls_monitor_create(i == 1 ? DEVICE ":1" : DEVICE, &s->monitors[i]));
    return LS_OK;
}

static void finish(void *session) {
    for (int i = 0; i < 3; i++) ls_monitor_destroy(((Session *)session)->monitors[i]);
}

/* CUDA's devices have a UUID besides. */
static const GpuVerb survives[] = {VERB_device_bus, VERB_device_uuid, VERB_COUNT};
const Scenario scenario_monitor = {"monitor", NULL, use, finish, sizeof(Session), survives};
