/* context.c: one device and one stream, and the events on it. */
#include "runtime.h"

#include <stdlib.h>

ls_status ls_context_create(const char *device, void *stream, ls_context **context) {
    if (!context) return error_set(NULL, LS_ERROR_ARGUMENT, "ls_context_create: context is NULL");
    *context = NULL;
    log_check();
    ls_context *made = calloc(1, sizeof *made);
    if (!made) return error_memory(NULL, "ls_context_create");
    ls_status status = device_open(device, stream, NULL, &made->device);
    if (status == LS_OK) status = memory_open(&made->memory);
    if (status == LS_OK) status = known_open(made);
    if (status != LS_OK) {
        if (made->device) made->device->driver->close(made->device);
        free(made);
        return status;
    }
    made->device->error = &made->error;
    made->error.at_us = time_us(); /* what failed before is none of its messages */
    made->driver = made->device->driver;
    mark_open(made);
    log_write(LOG_INFO, "context on %s: %s", made->device->name, made->device->description);
    *context = made;
    return LS_OK;
}

void ls_context_destroy(ls_context *context) {
    if (!context) return;
    if (context->capture) {
        size_t nodes;
        if (context->capture->native) context->driver->capture_end(context->device, NULL, &nodes);
        ls_graph *spoilt = context->capture;
        context->capture = NULL;
        ls_graph_destroy(spoilt);
    }
    context_settle(context);
    profile_free(context);
    ahead_close(context);
    memory_close(context);
    mark_close(context);
    context->driver->close(context->device);
    free(context);
}

ls_device_kind ls_context_kind(const ls_context *context) {
    return error_handle(context, "ls_context_kind", "context") ? context->driver->kind
                                                               : LS_DEVICE_CPU;
}

const char *ls_context_device(const ls_context *context) {
    return error_handle(context, "ls_context_device", "context") ? context->device->name : "?";
}

const char *ls_context_describe(const ls_context *context) {
    return error_handle(context, "ls_context_describe", "context") ? context->device->description
                                                                   : "?";
}

const char *ls_context_target(const ls_context *context) {
    return error_handle(context, "ls_context_target", "context") ? context->device->target : "?";
}

int ls_context_shares_memory(const ls_context *context) {
    return error_handle(context, "ls_context_shares_memory", "context") &&
           context->device->reads_host;
}

ls_status context_captured(ls_context *context, bool *captured) {
    *captured = false;
    return context->driver->captured ? context->driver->captured(context->device, NULL, captured)
                                     : LS_OK;
}

ls_status context_not_capturing(ls_context *context, const char *call) {
    if (context->capture)
        return error_set(
            &context->error, LS_ERROR_STATE,
            "%s: not allowed between ls_graph_begin and ls_graph_end; only launches are", call);
    bool captured;
    ls_status status = context_captured(context, &captured);
    if (status != LS_OK || !captured) return status;
    return error_set(&context->error, LS_ERROR_STATE,
                     "%s: the program is capturing the context's stream, and only launches can go "
                     "into its graph; call this before or after",
                     call);
}

void context_settle(ls_context *context) {
    bool captured;
    if (context->capture) return;
    const Error before = context->error; /* a failure comes again where a result is wanted */
    if (context_captured(context, &captured) == LS_OK && !captured)
        context->driver->synchronize(context->device);
    context->error = before;
}

ls_status ls_context_use_stream(ls_context *context, void *stream) {
    static const char call[] = "ls_context_use_stream";
    if (!context) return error_set(NULL, LS_ERROR_ARGUMENT, "%s: context is NULL", call);
    if (!context->driver->use_stream) return LS_OK;
    if (context->capture)
        return error_set(&context->error, LS_ERROR_STATE,
                         "%s: not allowed between ls_graph_begin and ls_graph_end, which record "
                         "one stream",
                         call);
    return context->driver->use_stream(context->device, stream);
}

ls_status ls_synchronize(ls_context *context) {
    if (!context) return error_set(NULL, LS_ERROR_ARGUMENT, "ls_synchronize: context is NULL");
    ls_status status = context_not_capturing(context, "ls_synchronize");
    if (status == LS_OK) status = context->driver->synchronize(context->device);
    return status == LS_OK ? comm_failure(context) : status;
}

ls_status ls_event_create(ls_context *context, ls_event **event) {
    if (event) *event = NULL;
    if (!context || !event)
        return error_set(context ? &context->error : NULL, LS_ERROR_ARGUMENT,
                         "ls_event_create: %s is NULL", context ? "event" : "context");
    ls_event *made = calloc(1, sizeof *made);
    if (!made) return error_memory(&context->error, "ls_event_create");
    made->context = context;
    ls_status status = context->driver->event_create(context->device, true, &made->handle);
    if (status != LS_OK) {
        free(made);
        return status;
    }
    *event = made;
    return LS_OK;
}

ls_status ls_event_record(ls_event *event) {
    if (!event) return error_set(NULL, LS_ERROR_ARGUMENT, "ls_event_record: event is NULL");
    ls_context *context = event->context;
    ls_status status = context_not_capturing(context, "ls_event_record");
    if (status == LS_OK) status = context->driver->event_record(context->device, event->handle);
    if (status == LS_OK) event->recorded = true;
    return status;
}

ls_status ls_event_elapsed(ls_event *start, ls_event *end, double *milliseconds) {
    if (!start || !end || !milliseconds)
        return error_set(start ? &start->context->error : NULL, LS_ERROR_ARGUMENT,
                         "ls_event_elapsed: %s is NULL",
                         !start ? "start" : (!end ? "end" : "milliseconds"));
    *milliseconds = 0;
    ls_context *context = start->context;
    ls_status status = context_not_capturing(context, "ls_event_elapsed");
    if (status != LS_OK) return status;
    if (end->context != context)
        return error_set(&context->error, LS_ERROR_ARGUMENT,
                         "ls_event_elapsed: the events belong to different contexts");
    if (!start->recorded || !end->recorded)
        return error_set(&context->error, LS_ERROR_STATE,
                         "ls_event_elapsed: the %s event was never recorded; call ls_event_record",
                         start->recorded ? "end" : "start");
    return context->driver->event_elapsed(context->device, start->handle, end->handle,
                                          milliseconds);
}

ls_status ls_event_wait(ls_event *event) {
    if (!event) return error_set(NULL, LS_ERROR_ARGUMENT, "ls_event_wait: event is NULL");
    ls_context *context = event->context;
    ls_status status = context_not_capturing(context, "ls_event_wait");
    if (status != LS_OK || !event->recorded) return status;
    return context->driver->stream_wait(context->device, NULL, event->handle);
}

void ls_event_destroy(ls_event *event) {
    if (!event) return;
    event->context->driver->event_destroy(event->context->device, event->handle);
    free(event);
}
