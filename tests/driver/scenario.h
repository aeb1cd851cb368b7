/* scenario.h: something done with the API on a stand-in library, once as it should be and once for
 * every driver call with that call failing. A new feature of the runtime is a scenario of its own
 * in a file scenario_NAME.c, and a row in scenarios[] of driver_test.c: then every call it makes is
 * failed, every object it makes is balanced, and a row of gpu.def that no scenario calls is named.
 */
#ifndef SCENARIO_H
#define SCENARIO_H

#include "fixtures.h"
#include "stand_in.h"

extern StandIn *control;
extern uint64_t scenario_seed; /* that stand_in_reset sets */

/* driver_test.c: step drive[n](inout p: f32[n], inout count: i64 = 5, flag: bool), and what its two
 * kernels do: the second adds 1 to count. */
extern const ls_image *const drive_images[1];
const ls_image *const *list_images_of_device(void); /* image_lists in code for this device */
void drive_hook(const char *kernel, const uint64_t *words, unsigned grid, unsigned block);
/* What is current on this thread. */
GpuCurrent thread_current(void);

/* In a function that gives an ls_status: goes on only when the call was made. */
#define DO(call)                              \
    do {                                      \
        ls_status status_ = (call);           \
        if (status_ != LS_OK) return status_; \
    } while (0)

typedef void StandInHook(const char *kernel, const uint64_t *words, unsigned grid, unsigned block);

typedef struct Scenario {
    const char *name;
    StandInHook *hook; /* what kernels do, or NULL */
    /* Does it all, and stops at the first error. It gets `session_bytes` of zeros, whose first
     * member is the ls_context *, and leaves there what is to be closed. */
    ls_status (*use)(void *session);
    void (*close)(void *session);
    size_t session_bytes;
    const GpuVerb *survives; /* calls it can do without, ended by VERB_COUNT; NULL: none */
} Scenario;

int open_control(void **state);         /* the group's setup: loads the library */
void stand_in_reset(StandInHook *hook); /* all counts 0, nothing fails, the variable set */
void assert_nothing_left(void);         /* of any kind of object; what is queued ends well */
/* `use` with work that runs as late, as early and as mixed as late.h has it. */
void use_in_every_order(const Scenario *scenario);
/* `use` with call n failing with `error`, for every n: somebody is told, the right call is blamed,
 * and nothing is left behind. STAND_IN_ERROR, or GPU_OUT_OF_MEMORY, which is an answer: of a call
 * that allocates it is tried again. */
void fail_every_call(const Scenario *scenario, int error);
/* The same where `use` goes on from what its session has: after the failure it is called once more,
 * and must succeed. */
void fail_every_call_and_resume(const Scenario *scenario, int error);
/* A vendor's call as the program around us makes it: not counted, and it never fails. */
#define VENDORS(verb, ...)                                         \
    do {                                                           \
        void *address_ = vendors_address(VERB_##verb);             \
        GpuCalls calls_;                                           \
        long count_ = control->calls, fail_at_ = control->fail_at; \
        memcpy(&calls_.verb, &address_, sizeof address_);          \
        control->fail_at = 0;                                      \
        assert_int_equal(calls_.verb(__VA_ARGS__), 0);             \
        control->calls = count_;                                   \
        control->fail_at = fail_at_;                               \
    } while (0)
void *vendors_address(GpuVerb verb);
/* After all scenarios: every call of gpu.def that the vendor has was made, and failed once. */
void assert_every_call_failed(void);

extern const Scenario scenario_everything, scenario_lists; /* driver_test.c */
extern const Scenario scenario_trainer, scenario_graph, scenario_recapture, scenario_repeat;
void repeat_code(void **state);
void graph_repeats(void **state), fallbacks(void **state), unrecorded(void **state);
void host_work_not_recorded(void **state), host_work_lacking(void **state);
void graph_end_fails(void **state), rows_of_copies(void **state);
void old_devices(void **state);
void graph_updates(void **state), graph_of_both(void **state), graph_update_fails(void **state);
void trainer_lists(void **state), strict_captures(void **state), two_devices(void **state);
void other_streams(void **state), trainer_captures(void **state), trainers_contexts(void **state),
    device_lost(void **state);
void forked_child(void **state), graph_begin_fails(void **state),
    trainer_keeps_memory(void **state);
extern const Scenario scenario_memory;
void memory_advice(void **state), memory_asks_again(void **state), memory_steady(void **state);
extern const Scenario scenario_profile;
void profile_of_no_time(void **state);
extern const Scenario scenario_monitor;
extern const Scenario scenario_feed, scenario_feed_fixed, scenario_data, scenario_reuse;
void feed_fails_half_way(void **state);
void feed_overlaps(void **state), feed_without_pinned(void **state), feed_in_place(void **state);

#endif
