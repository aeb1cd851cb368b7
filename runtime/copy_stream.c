/* copy_stream.c: copies between the host and the device on a stream of their own, which events
 * alone order with the context's. */
#include "runtime.h"

#include <stdlib.h>

struct ls_copy_stream {
    ls_context *context;
    void *stream;
    void *last;     /* an event behind all copies */
    bool in_flight; /* a copy was queued, and nobody has waited for it */
};

ls_status ls_copy_stream_create(ls_context *context, ls_copy_stream **stream) {
    static const char call[] = "ls_copy_stream_create";
    if (stream) *stream = NULL;
    if (!context || !stream)
        return error_set(context ? &context->error : NULL, LS_ERROR_ARGUMENT, "%s: %s is NULL",
                         call, context ? "stream" : "context");
    ls_status status = context_not_capturing(context, call);
    if (status != LS_OK) return status;
    ls_copy_stream *made = calloc(1, sizeof *made);
    if (!made) return error_memory(&context->error, call);
    made->context = context;
    status = context->driver->stream_create(context->device, &made->stream);
    if (status == LS_OK)
        status = context->driver->event_create(context->device, false, &made->last);
    if (status == LS_OK)
        *stream = made;
    else
        ls_copy_stream_destroy(made);
    return status;
}

/* Refuses what no call on a copy stream may be given. */
static ls_status check(const ls_copy_stream *stream, const char *call) {
    if (!stream) return error_set(NULL, LS_ERROR_ARGUMENT, "%s: stream is NULL", call);
    return context_not_capturing(stream->context, call);
}

static ls_status copy(ls_copy_stream *stream, const char *call, CopyWay way, void *to,
                      const void *from, size_t bytes) {
    ls_status status = check(stream, call);
    if (status != LS_OK || bytes == 0) return status;
    if (!to || !from)
        return error_set(&stream->context->error, LS_ERROR_ARGUMENT, "%s: %s is NULL", call,
                         (way == COPY_IN) == !to ? "device" : "host");
    stream->in_flight = true;
    return copy_bytes(stream->context, &(CopyRun){way, to, from, bytes, stream->stream, NULL});
}

ls_status ls_copy_stream_in(ls_copy_stream *stream, void *device, const void *host, size_t bytes) {
    return copy(stream, "ls_copy_stream_in", COPY_IN, device, host, bytes);
}

ls_status ls_copy_stream_out(ls_copy_stream *stream, void *host, const void *device, size_t bytes) {
    return copy(stream, "ls_copy_stream_out", COPY_OUT, host, device, bytes);
}

static ls_status check_event(const ls_copy_stream *stream, const ls_event *event,
                             const char *call) {
    ls_status status = check(stream, call);
    if (status != LS_OK) return status;
    if (!event)
        return error_set(&stream->context->error, LS_ERROR_ARGUMENT, "%s: event is NULL", call);
    if (event->context != stream->context)
        return error_set(&stream->context->error, LS_ERROR_ARGUMENT,
                         "%s: the event belongs to another context", call);
    return LS_OK;
}

ls_status ls_copy_stream_wait(ls_copy_stream *stream, ls_event *event) {
    ls_status status = check_event(stream, event, "ls_copy_stream_wait");
    if (status != LS_OK || !event->recorded) return status;
    const ls_context *context = stream->context;
    return context->driver->stream_wait(context->device, stream->stream, event->handle);
}

ls_status ls_copy_stream_record(ls_copy_stream *stream, ls_event *event) {
    ls_status status = check_event(stream, event, "ls_copy_stream_record");
    if (status != LS_OK) return status;
    const ls_context *context = stream->context;
    status = context->driver->stream_record(context->device, stream->stream, event->handle);
    if (status == LS_OK) event->recorded = true;
    return status;
}

static ls_status wait_for_copies(ls_copy_stream *stream) {
    const ls_context *context = stream->context;
    if (!stream->in_flight) return LS_OK;
    ls_status status =
        context->driver->stream_record(context->device, stream->stream, stream->last);
    if (status == LS_OK) status = context->driver->event_wait(context->device, stream->last);
    if (status == LS_OK) stream->in_flight = false;
    return status;
}

ls_status ls_copy_stream_synchronize(ls_copy_stream *stream) {
    ls_status status = check(stream, "ls_copy_stream_synchronize");
    return status == LS_OK ? wait_for_copies(stream) : status;
}

void ls_copy_stream_destroy(ls_copy_stream *stream) {
    if (!stream) return;
    const ls_context *context = stream->context;
    if (stream->last) wait_for_copies(stream);
    if (stream->last) context->driver->event_destroy(context->device, stream->last);
    if (stream->stream) context->driver->stream_destroy(context->device, stream->stream);
    free(stream);
}
