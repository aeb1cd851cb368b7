/* host.c: host functions in the order of the stream, beside the launches: how a trainer's own CPU
 * work enters a graph. */
#include "runtime.h"

ls_status ls_host_call(ls_context *context, const ls_host_work *work) {
    if (!context || !work || !work->run)
        return error_set(context ? &context->error : NULL, LS_ERROR_ARGUMENT,
                         "ls_host_call: %s is NULL",
                         !context ? "context" : (!work ? "work" : "work->run"));
    return work->items ? context->driver->host_call(context->device, work) : LS_OK;
}

void *ls_context_stream(const ls_context *context) {
    return context->driver->stream(context->device);
}
