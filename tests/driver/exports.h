/* exports.h: the exported functions of a driver library that is none (stand_in.c,
 * ../simt/emulated.c): each call of gpu.def is the includer's do_VERB, counted, failing on request,
 * and one at a time.
 *
 * The includer defines STAND_IN_CUDA or STAND_IN_HIP, and `state`, which stand_in() gives to tests.
 * A process whose queued work used what was given up ends with 5, and with STAND_IN_BALANCE in the
 * environment one that leaves something behind. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

StandInFunction stand_in;
StandIn *stand_in(void) {
    return &state;
}

/* One call at a time: contexts of several threads share the library. */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

StandInFinish stand_in_finish;
void stand_in_finish(bool run) {
    pthread_mutex_lock(&lock);
    if (run)
        late_finish_all();
    else
        late_forget_all();
    state.faults += late_faults();
    pthread_mutex_unlock(&lock);
}

/* After a failed wait, or a failure to make the device current for one, all that was queued has
 * ended: nobody could wait for it again. */
static void end_what_failed(GpuVerb verb) {
    switch (verb) {
    case VERB_context_current:
    case VERB_context_use:
    case VERB_device_current:
    case VERB_device_use:
    case VERB_stream_capturing:
    case VERB_stream_synchronize:
    case VERB_event_synchronize: late_finish_all();
    default: return;
    }
}

static int counted(GpuVerb verb, const char *name) {
    state.called[verb] = 1;
    if (verb == VERB_error_text || verb == VERB_error_name) return 0; /* part of reporting */
    state.calls++;
    late_seed(state.seed);
    if (state.fail_for_good) {
        late_forget_all();
        return state.fail_for_good;
    }
    if (state.fail_verb && state.fail_verb == verb) return state.fail_with;
    if (state.calls != state.fail_at) return 0;
    state.failed = verb;
    state.failed_name = name;
    end_what_failed(verb);
    return state.fail_with;
}

static void __attribute__((destructor)) check_balance(void) {
    long left = state.faults != 0;
    if (left) _exit(5);
    if (!getenv("STAND_IN_BALANCE")) return;
#define X(objects)                                                                              \
    if (state.objects) fprintf(stderr, "stand-in: %ld " #objects " are left\n", state.objects); \
    left |= state.objects;
    STAND_IN_OBJECTS(X)
#undef X
    if (left) _exit(5);
}

#define STAND_IN_EXPORT(result, verb, name, parameters, arguments)                        \
    result name parameters;                                                               \
    result name parameters {                                                              \
        pthread_mutex_lock(&lock);                                                        \
        int error_ = counted(VERB_##verb, #name);                                         \
        bool works_ =                                                                     \
            !error_ || stand_in_gives_up(VERB_##verb) || VERB_##verb == VERB_capture_end; \
        result done_ = (result)(intptr_t)error_;                                          \
        if (works_) done_ = do_##verb arguments;                                          \
        state.faults += late_faults();                                                    \
        pthread_mutex_unlock(&lock);                                                      \
        return error_ ? (result)(intptr_t)error_ : done_;                                 \
    }

#ifdef STAND_IN_CUDA
#define BOTH(result, verb, cuda, hip, parameters, arguments) \
    STAND_IN_EXPORT(result, verb, cuda, parameters, arguments)
#define CUDA(result, verb, cuda, parameters, arguments) \
    STAND_IN_EXPORT(result, verb, cuda, parameters, arguments)
#define HIP(result, verb, hip, parameters, arguments)
#else
#define BOTH(result, verb, cuda, hip, parameters, arguments) \
    STAND_IN_EXPORT(result, verb, hip, parameters, arguments)
#define CUDA(result, verb, cuda, parameters, arguments)
#define HIP(result, verb, hip, parameters, arguments) \
    STAND_IN_EXPORT(result, verb, hip, parameters, arguments)
#endif
#include "gpu.def"
