/* host.c: host functions in the order of the stream, beside the launches: how a trainer's own CPU
 * work enters a graph. */
#include "runtime.h"

ls_status ls_host_call(ls_context *context, const ls_host_work *work) {
    if (!context || !work || !work->run)
        return error_set(context ? &context->error : NULL, LS_ERROR_ARGUMENT,
                         "ls_host_call: %s is NULL",
                         !context ? "context" : (!work ? "work" : "work->run"));
    return host_call(context, "host", work);
}

ls_status host_call(ls_context *context, const char *name, const ls_host_work *work) {
    uint64_t argument;
    Launch launch = {.step = "host", .name = name, .items = work->items, .parts = 1};
    if (work->items == 0) return LS_OK;
    ls_status status = context->driver->host_launch(context->device, work, &argument, &launch);
    if (status != LS_OK) return status;
    if (context->capture) return graph_record(context->capture, "ls_host_call", NULL, &launch, 1);
    return context->driver->launch(context->device, &launch, 1);
}

void *ls_context_stream(const ls_context *context) {
    if (!error_handle(context, "ls_context_stream", "context")) return NULL;
    return context->driver->stream(context->device);
}
