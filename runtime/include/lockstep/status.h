/* lockstep/status.h: how every Lockstep function that can fail answers. */
#ifndef LOCKSTEP_STATUS_H
#define LOCKSTEP_STATUS_H

/* One row per status: name, what it means. */
#define LS_STATUS_LIST(X)                                                \
    X(OK, "done")                                                        \
    X(ERROR_ARGUMENT, "an argument of the call is wrong")                \
    X(ERROR_PROGRAM, "the .step source has errors")                      \
    X(ERROR_BIND, "an array or value does not fit the step's parameter") \
    X(ERROR_STATE, "the call is not allowed now")                        \
    X(ERROR_FILE, "a file could not be read or written")                 \
    X(ERROR_MEMORY, "out of memory")                                     \
    X(ERROR_DEVICE, "the device or its driver failed or is missing")     \
    X(ERROR_TOOLCHAIN, "a runtime compiler failed or is missing")        \
    X(ERROR_UNSUPPORTED, "not supported here")                           \
    X(ERROR_INTERNAL, "a bug in Lockstep")                               \
    X(ERROR_COMM, "another rank ended, gave up or does something else")

typedef enum ls_status {
#define LS_STATUS_ENUM(name, meaning) LS_##name,
    LS_STATUS_LIST(LS_STATUS_ENUM)
#undef LS_STATUS_ENUM
        LS_STATUS_COUNT
} ls_status;

#endif
