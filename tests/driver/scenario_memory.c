/* scenario_memory.c: the device's memory runs out, and there is some again. */
#include "scenario.h"

typedef struct Session {
    ls_context *context;
    void *first, *more;
} Session;

static ls_status use(void *session) {
    Session *s = session;
    DO(ls_context_create(DEVICE, NULL, &s->context));
    DO(ls_alloc(s->context, 1 << 20, &s->first));
    size_t memory = control->memory;
    control->memory = 0;
    ls_status status = ls_alloc(s->context, 8 << 20, &s->more);
    control->memory = memory;
    if (status != LS_ERROR_MEMORY) return status;
    ls_free(s->context, s->first);
    s->first = NULL;
    DO(ls_alloc(s->context, 8 << 20, &s->more));
    return LS_OK;
}

static void finish(void *session) {
    Session *s = session;
    ls_free(s->context, s->first);
    ls_free(s->context, s->more);
    ls_context_destroy(s->context);
}

/* How much there is, is asked for the message only. */
static const GpuVerb survives[] = {VERB_memory_info,    VERB_context_current, VERB_context_use,
                                   VERB_device_current, VERB_device_use,      VERB_COUNT};
const Scenario scenario_memory = {"memory", NULL, use, finish, sizeof(Session), survives};
