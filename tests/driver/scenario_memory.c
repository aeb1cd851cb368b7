/* scenario_memory.c: the device's memory runs out, and there is some again. */
#include "scenario.h"

#include <string.h>

typedef struct Session {
    ls_context *context;
    void *first, *more;
} Session;

static ls_status use(void *session) {
    Session *s = session;
    DO(ls_context_create(DEVICE, NULL, &s->context));
    DO(ls_alloc(s->context, 1 << 20, &s->first));
    DO(ls_fill_zero(s->context, s->first,
                    1 << 20)); /* queued still when the memory is given back */
    size_t memory = control->memory;
    control->memory = 0;
    ls_status status = ls_alloc(s->context, 8 << 20, &s->more);
    control->memory = memory;
    if (status != LS_ERROR_MEMORY) return status;
    ls_free(s->context, s->first);
    s->first = NULL;
    control->memory = 9 << 20;
    status = ls_alloc(s->context, 8 << 20, &s->more);
    control->memory = memory;
    DO(status);
    DO(ls_fill_zero(s->context, s->more, 8 << 20));
    ls_free(s->context, s->more);
    s->more = NULL;
    return ls_memory_trim(s->context, 0);
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

/* The device has 24 MiB. What is free in the pool is in the way, and given back. */
void memory_asks_again(void **state) {
    (void)state;
    enum { MIB = 1 << 20 };
    ls_context *context;
    void *small, *large, *more;
    stand_in_reset(NULL);
    EXPECT_OK(NULL, ls_context_create(DEVICE, NULL, &context));
    control->memory = 24 * MIB;
    EXPECT_OK(context, ls_alloc_labeled(context, 100, "cells", &small));
    EXPECT_OK(context, ls_alloc_labeled(context, 8 * MIB, "batch", &large));
    ls_free(context, large);
    EXPECT_OK(context, ls_alloc_labeled(context, 20 * MIB, "weights", &large));
    assert_true(control->allocated <= 21 * MIB && control->allocations == 2);
    /* 3 MiB are left, less than the pool would like; 2 MiB fit. */
    EXPECT_OK(context, ls_alloc(context, 2 * MIB, &more));
    assert_int_equal(control->allocations, 3);
    EXPECT_FAILURE(context, LS_ERROR_MEMORY, ls_alloc_labeled(context, 4 * MIB, "logits", &more),
                   "no 4.0 MiB more on " DEVICE ":0", ", for logits;",
                   "the largest: weights 20.0 MiB, ls_alloc 2.0 MiB, cells 100 B",
                   "free some, or use smaller arrays");
    ls_free(context, large);
    EXPECT_OK(context, ls_alloc_labeled(context, 4 * MIB, "logits", &more)); /* all goes on */
    ls_context_destroy(context);
    assert_nothing_left();
}

/* What would help depends on where the memory is. */
void memory_advice(void **state) {
    (void)state;
    enum { MIB = 1 << 20 };
    ls_context *context;
    void *all, *parts[6], *more;
    stand_in_reset(NULL);
    EXPECT_OK(NULL, ls_context_create(DEVICE, NULL, &context));
    control->memory = 0;
    EXPECT_FAILURE(
        context, LS_ERROR_MEMORY, ls_alloc(context, MIB, &more),
        "others hold 5.0 MiB of the device: end other processes, or call ls_memory_trim");
    control->memory = 12 * MIB;
    EXPECT_OK(context, ls_alloc(context, 12 * MIB, &all));
    ls_free(context, all);
    for (int i = 0; i < 6; i++) EXPECT_OK(context, ls_alloc(context, 2 * MIB, &parts[i]));
    for (int i = 0; i < 6; i += 2) ls_free(context, parts[i]);
    EXPECT_FAILURE(context, LS_ERROR_MEMORY, ls_alloc(context, 4 * MIB, &more),
                   "6.0 MiB of its 12.0 MiB are free, in one piece at most 2.0 MiB",
                   "what is free lies between what is in use: allocate the large arrays first");
    ls_free(context, parts[1]);
    EXPECT_OK(context, ls_alloc(context, 4 * MIB, &more));
    ls_context_destroy(context);
    assert_nothing_left();
}

/* Steps that come and go, arrays too: after the first round the driver allocates and frees nothing,
 * and nothing waits for the device. */
void memory_steady(void **state) {
    (void)state;
    ls_context *context;
    void *memory[3];
    stand_in_reset(NULL);
    EXPECT_OK(NULL, ls_context_create(DEVICE, NULL, &context));
    for (int round = 0; round < 10; round++) {
        if (round == 1) memset(control->called, 0, sizeof control->called);
        for (size_t i = 0; i < 3; i++)
            EXPECT_OK(context, ls_alloc(context, (size_t)1000 << 6 * i, &memory[i]));
        for (size_t i = 0; i < 3; i++) EXPECT_OK(context, ls_fill_zero(context, memory[i], 1000));
        for (size_t i = 0; i < 3; i++) ls_free(context, memory[i]);
    }
    assert_true(control->called[VERB_fill_8]);
    assert_false(control->called[VERB_memory_allocate]);
    assert_false(control->called[VERB_memory_free]);
    assert_false(control->called[VERB_stream_synchronize]);
    ls_context_destroy(context);
    assert_nothing_left();
}
