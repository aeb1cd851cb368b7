/* side.c: operations that run beside what is launched behind them on a GPU: on a stream of the
 * communicator's own, which events order with the context's. In a capture these are recorded too,
 * and the communicator's stream is a branch of the graph. */
#include "runtime.h"
#include "comm/comm.h"

static ls_status open_side(const ls_comm *comm, CommSide *side) {
    const Driver *driver = comm->context->driver;
    Device *device = comm->context->device;
    void **const events[] = {&side->forked, &side->joined};
    ls_status status = LS_OK;
    for (size_t i = 0; i < COUNT(events) && status == LS_OK; i++)
        if (!*events[i]) status = driver->event_create(device, false, events[i]);
    if (status == LS_OK && !side->stream) status = driver->stream_create(device, &side->stream);
    return status;
}

/* A capture holds nothing that waits for what is outside of it, nor the other way round. What is
 * pending of a capture that has ended went with it. */
static ls_status check_pending(ls_comm *comm, const char *call, bool captured) {
    CommSide *side = &comm->side;
    if (side->pending && side->captured) {
        const Driver *driver = comm->context->driver;
        ls_status status = driver->captured(comm->context->device, side->stream, &side->pending);
        if (status != LS_OK) return status;
    }
    if (!side->pending || side->captured == captured) return LS_OK;
    if (captured)
        return error_set(&comm->context->error, LS_ERROR_STATE,
                         "%s: an operation was begun before the program captured the stream: call "
                         "ls_comm_wait ahead of the capture",
                         call);
    side->pending = false;
    return LS_OK;
}

ls_status side_fork(ls_comm *comm, const char *call, bool captured) {
    const Driver *driver = comm->context->driver;
    Device *device = comm->context->device;
    CommSide *side = &comm->side;
    ls_status status = check_pending(comm, call, captured);
    if (status == LS_OK) status = open_side(comm, side);
    if (status == LS_OK) status = driver->stream_record(device, NULL, side->forked);
    if (status == LS_OK) status = driver->stream_wait(device, side->stream, side->forked);
    if (status != LS_OK) return status;
    side->pending = true;
    side->captured = captured;
    return LS_OK;
}

ls_status side_join(ls_comm *comm, const char *call, bool captured) {
    const Driver *driver = comm->context->driver;
    Device *device = comm->context->device;
    CommSide *side = &comm->side;
    ls_status status = check_pending(comm, call, captured);
    if (status != LS_OK || !side->pending) return status;
    status = driver->stream_record(device, side->stream, side->joined);
    if (status == LS_OK) status = driver->stream_wait(device, NULL, side->joined);
    if (status == LS_OK) side->pending = false;
    return status;
}

ls_status side_drain(ls_comm *comm) {
    const Driver *driver = comm->context->driver;
    Device *device = comm->context->device;
    const CommSide *side = &comm->side;
    if (!side->pending || side->captured) return LS_OK;
    ls_status status = driver->stream_record(device, side->stream, side->joined);
    return status == LS_OK ? driver->event_wait(device, side->joined) : status;
}

void side_close(ls_comm *comm) {
    ls_context *context = comm->context;
    const Driver *driver = context->driver;
    const CommSide *side = &comm->side;
    const Error before = context->error;
    side_drain(comm);
    context->error = before;
    if (side->forked) driver->event_destroy(context->device, side->forked);
    if (side->joined) driver->event_destroy(context->device, side->joined);
    if (side->stream) driver->stream_destroy(context->device, side->stream);
}
