/* error.c: messages, status names and the element types' names.
 *
 * A message says which call failed, on what object, what was expected and found, and what to do.
 * The place where a failure is found writes it; callers only pass the status on. */
#include "runtime.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local Error thread_error;

ls_status error_set(Error *error, ls_status status, const char *format, ...) {
    if (!error) error = &thread_error;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    error->count++;
    error->at_us = time_us();
    if (error->watched && !error->first[0])
        memcpy(error->first, error->text, strnlen(error->text, sizeof error->first - 1));
    return status;
}

void error_watch(Error *error) {
    if (!error) error = &thread_error;
    error->watched = true;
    memset(error->first, 0, sizeof error->first);
}

const char *error_watched(Error *error) {
    if (!error) error = &thread_error;
    const bool watched = error->watched;
    error->watched = false;
    return watched && error->first[0] ? error->first : NULL;
}

bool error_handle(const void *handle, const char *call, const char *what) {
    if (!handle) error_set(NULL, LS_ERROR_ARGUMENT, "%s: %s is NULL", call, what);
    return handle != NULL;
}

ls_status error_memory(Error *error, const char *call) {
    return error_set(error, LS_ERROR_MEMORY, "%s: the host ran out of memory", call);
}

ls_status ls_inner_error(ls_context *context, ls_status status, const char *call,
                         const char *message) {
    return error_set(context ? &context->error : NULL, status, "%s%s%s", call ? call : "",
                     call ? ": " : "", message);
}

const char *ls_error_message(const ls_context *context) {
    const Error *error = context ? &context->error : &thread_error;
    /* a call with a NULL handle knows no context: its message is the thread's */
    if (thread_error.count && thread_error.at_us > error->at_us) error = &thread_error;
    return error->count ? error->text : "no call has failed";
}

const char *ls_status_name(ls_status status) {
    static const char *const names[] = {
#define X(name, meaning) "LS_" #name,
        LS_STATUS_LIST(X)
#undef X
    };
    return (size_t)status < COUNT(names) ? names[status] : "?";
}

const TypeRow type_rows[LS_TYPE_COUNT] = {
#define X(id, name, class, size) {name, class, size},
    LS_TYPE_LIST(X)
#undef X
};

const char *ls_type_name(ls_type type) {
    return (size_t)type < LS_TYPE_COUNT ? type_rows[type].name : "?";
}

size_t ls_type_size(ls_type type) {
    return (size_t)type < LS_TYPE_COUNT ? type_rows[type].size : 0;
}
