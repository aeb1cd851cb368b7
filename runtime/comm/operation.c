/* operation.c: the operations of a communicator, in the order of the context's stream.
 *
 * An operation is a transfer: copies within a rank, then what its engine moves between ranks. On a
 * CPU that happens in the call; on a GPU the bytes are brought to page-locked memory and back. In a
 * capture the same is recorded, with copies of the parts that live as long as the communicator. */
#include "runtime.h"
#include "comm/comm.h"

#include <stdlib.h>
#include <string.h>

typedef struct CommRecord {
    struct CommRecord *next;
    ls_comm *comm;
    CommItem item; /* its transfer is of the host's memory */
    bool begins;   /* only, and goes on aside */
    ls_host_work work;
    char *staging;
    max_align_t parts[];
} CommRecord;

/* ---- what is asked for ---- */

static ls_status check_part(ls_comm *comm, const char *call, const ls_comm_part *part, int rank) {
    uint64_t bytes = 0;
    Error *error = &comm->context->error;
    if (part->count > 0 && !part->pieces)
        return error_set(error, LS_ERROR_ARGUMENT, "%s: the part of rank %d has no pieces", call,
                         rank);
    for (size_t i = 0; i < part->count; i++) {
        const ls_comm_piece *piece = &part->pieces[i];
        if (piece->bytes > 0 && !piece->data)
            return error_set(error, LS_ERROR_ARGUMENT,
                             "%s: data of piece %zu of the part of rank %d is NULL", call, i, rank);
        if (piece->bytes > INT64_MAX || (bytes += piece->bytes) > INT64_MAX)
            return error_set(error, LS_ERROR_ARGUMENT,
                             "%s: the part of rank %d is larger than any memory", call, rank);
    }
    return LS_OK;
}

static ls_status check_parts(ls_comm *comm, const char *call, const ls_comm_part *parts, int from,
                             int count) {
    ls_status status = LS_OK;
    for (int i = 0; i < count && status == LS_OK; i++)
        status = check_part(comm, call, &parts[i], from + i);
    return status;
}

/* ---- one's own part ---- */

static ls_status check_own(ls_comm *comm, const char *call, const Transfer *transfer) {
    if (transfer->kind != TRANSFER_ALL_TO_ALL) return LS_OK; /* the others are in place */
    const uint64_t has = part_bytes(&transfer->send[comm->rank]);
    const uint64_t wants = part_bytes(&transfer->receive[comm->rank]);
    if (has == wants) return LS_OK;
    return error_set(&comm->context->error, LS_ERROR_ARGUMENT,
                     "%s: rank %d has %llu bytes for itself and wants %llu", call, comm->rank,
                     (unsigned long long)has, (unsigned long long)wants);
}

static ls_status copy_own(const ls_comm *comm, const Transfer *transfer) {
    ls_context *context = comm->context;
    if (transfer->kind != TRANSFER_ALL_TO_ALL) return LS_OK;
    Cursor from = cursor_open(&transfer->send[comm->rank]);
    Cursor to = cursor_open(&transfer->receive[comm->rank]);
    while (to.left > 0) {
        char *target = NULL, *source = NULL;
        Cursor ahead = from;
        uint64_t bytes = cursor_next(&ahead, UINT64_MAX, &source);
        bytes = cursor_next(&to, bytes, &target);
        cursor_next(&from, bytes, &source);
        if (source == target) continue;
        ls_status status =
            copy_bytes(context, &(CopyRun){COPY_WITHIN, target, source, (size_t)bytes, NULL, NULL});
        if (status != LS_OK) return status;
    }
    return LS_OK;
}

/* ---- parts that live longer than the call ---- */

typedef struct Counts {
    size_t parts, pieces;
} Counts;

static int send_count(const ls_comm *comm, const Transfer *transfer) {
    if (!transfer->send) return 0;
    return transfer->kind == TRANSFER_ALL_TO_ALL ? comm->size : 1;
}

static int receive_count(const ls_comm *comm, const Transfer *transfer) {
    if (!transfer->receive) return 0;
    return transfer->kind == TRANSFER_BROADCAST ? 1 : comm->size;
}

static void count_parts(const ls_comm_part *parts, int count, Counts *counts) {
    counts->parts += (size_t)count;
    for (int i = 0; i < count; i++) counts->pieces += parts[i].count;
}

static const ls_comm_part *keep_parts(const ls_comm_part *parts, int count,
                                      ls_comm_part **free_part, ls_comm_piece **free_piece) {
    ls_comm_part *kept = *free_part;
    *free_part += count;
    for (int i = 0; i < count; i++) {
        kept[i] = (ls_comm_part){*free_piece, parts[i].count};
        if (parts[i].count > 0)
            memcpy(*free_piece, parts[i].pieces, parts[i].count * sizeof **free_piece);
        *free_piece += parts[i].count;
    }
    return count > 0 ? kept : NULL;
}

static CommRecord *make_record(ls_comm *comm, const char *call, const Transfer *transfer) {
    Counts counts = {0, 0};
    const int sends = send_count(comm, transfer), receives = receive_count(comm, transfer);
    count_parts(transfer->send, sends, &counts);
    count_parts(transfer->receive, receives, &counts);
    CommRecord *record = calloc(1, sizeof *record + counts.parts * sizeof(ls_comm_part) +
                                       counts.pieces * sizeof(ls_comm_piece));
    if (!record) return NULL;
    ls_comm_part *part = (ls_comm_part *)(void *)record->parts;
    ls_comm_piece *piece = (ls_comm_piece *)(void *)(part + counts.parts);
    record->comm = comm;
    record->item = (CommItem){.call = call, .transfer = *transfer};
    record->item.transfer.send = keep_parts(transfer->send, sends, &part, &piece);
    record->item.transfer.receive = keep_parts(transfer->receive, receives, &part, &piece);
    return record;
}

static CommRecord *keep_record(ls_comm *comm, const char *call, const Transfer *transfer) {
    CommRecord *record = make_record(comm, call, transfer);
    if (!record) return NULL;
    record->next = comm->records;
    comm->records = record;
    return record;
}

/* Where parts lie in one piece: of an engine that moves the device's memory there, else on the
 * host. */
static ls_status take_staging(ls_comm *comm, const char *call, uint64_t bytes, void **memory) {
    ls_context *context = comm->context;
    return comm->engine->queue
               ? memory_allocate_for(context, call, "ls_comm: staging", bytes, memory)
               : context->driver->pinned_allocate(context->device, bytes, memory);
}

static void give_staging(ls_comm *comm, void *memory) {
    ls_context *context = comm->context;
    if (memory && comm->engine->queue)
        memory_free(context, memory);
    else if (memory)
        context->driver->pinned_release(context->device, memory);
}

void operations_free(ls_comm *comm) {
    while (comm->records) {
        CommRecord *record = comm->records;
        comm->records = record->next;
        give_staging(comm, record->staging);
        free(record);
    }
    give_staging(comm, comm->staging);
}

/* ---- through the host ---- */

/* A part as one piece, on the host or the device, and the same as it is. */
typedef struct Staged {
    const ls_comm_part *device;
    ls_comm_part part;
    ls_comm_piece piece;
    bool in, in_place; /* in_place: the one is the other */
} Staged;
typedef struct Staging {
    Staged *staged;
    size_t count;
    uint64_t bytes;
    Transfer transfer; /* of the staged parts, in arrays of their own */
    ls_comm_part *parts;
    bool on_device;
} Staging;

static void stage_parts(const ls_comm_part *parts, int count, int except, bool in,
                        Staging *staging) {
    for (int i = 0; i < count; i++) {
        Staged *staged = &staging->staged[staging->count++];
        *staged = (Staged){.device = &parts[i], .in = in};
        staged->piece.bytes = i == except ? 0 : part_bytes(&parts[i]);
        staged->in_place = staging->on_device && parts[i].count == 1 && i != except;
        if (staged->in_place) staged->piece = parts[i].pieces[0];
        if (staged->in_place) continue;
        staging->bytes += (staged->piece.bytes + 63) / 64 * 64;
    }
}

static ls_status open_staging(const ls_comm *comm, const char *call, const Transfer *transfer,
                              Staging *staging) {
    const int sends = send_count(comm, transfer), receives = receive_count(comm, transfer);
    const size_t count = (size_t)(sends + receives) + 1;
    const bool each = transfer->kind != TRANSFER_BROADCAST;
    *staging = (Staging){.staged = calloc(count, sizeof(Staged)),
                         .parts = calloc(count, sizeof(ls_comm_part)),
                         .transfer = *transfer,
                         .on_device = comm->engine->queue != NULL};
    if (!staging->staged || !staging->parts) return error_memory(&comm->context->error, call);
    const bool all = transfer->kind == TRANSFER_ALL_TO_ALL;
    stage_parts(transfer->send, sends, all ? comm->rank : -1, false, staging);
    stage_parts(transfer->receive, receives, each ? comm->rank : -1, true, staging);
    staging->transfer.send = sends ? staging->parts : NULL;
    staging->transfer.receive = receives ? staging->parts + sends : NULL;
    return LS_OK;
}

static void place_staging(Staging *staging, char *memory) {
    uint64_t at = 0;
    for (size_t i = 0; i < staging->count; i++) {
        Staged *staged = &staging->staged[i];
        if (!staged->in_place) staged->piece.data = memory + at;
        if (!staged->in_place) at += (staged->piece.bytes + 63) / 64 * 64;
        staging->parts[i] = (ls_comm_part){&staged->piece, 1};
    }
}

static void close_staging(Staging *staging) {
    free(staging->staged);
    free(staging->parts);
}

static ls_status copy_staged(const ls_comm *comm, const Staging *staging, bool in, void *stream) {
    ls_context *context = comm->context;
    ls_status status = LS_OK;
    for (size_t i = 0; i < staging->count; i++) {
        const Staged *staged = &staging->staged[i];
        char *host = staged->piece.data;
        if (staged->in != in || staged->piece.bytes == 0 || staged->in_place) continue;
        for (size_t k = 0; k < staged->device->count && status == LS_OK; k++) {
            const ls_comm_piece *piece = &staged->device->pieces[k];
            const CopyWay way = staging->on_device ? COPY_WITHIN : in ? COPY_IN : COPY_OUT;
            if (piece->bytes > 0)
                status = copy_bytes(context, &(CopyRun){way, in ? piece->data : host,
                                                        in ? host : piece->data,
                                                        (size_t)piece->bytes, stream, NULL});
            host += piece->bytes;
        }
    }
    return status;
}

static ls_status grow_staging(ls_comm *comm, uint64_t bytes) {
    ls_context *context = comm->context;
    if (bytes <= comm->staging_bytes) return LS_OK;
    ls_status status = side_drain(comm); /* it may be read */
    if (status == LS_OK) status = context->driver->synchronize(context->device);
    if (status != LS_OK) return status;
    give_staging(comm, comm->staging);
    comm->staging = NULL;
    comm->staging_bytes = 0;
    void *memory = NULL;
    status = take_staging(comm, "an operation of a communicator", bytes, &memory);
    if (status != LS_OK) return status;
    comm->staging = memory;
    comm->staging_bytes = bytes;
    return LS_OK;
}

static ls_status run_through_host(ls_comm *comm, const char *call, const Transfer *transfer) {
    ls_context *context = comm->context;
    Staging staging;
    ls_status status = open_staging(comm, call, transfer, &staging);
    if (status == LS_OK) status = grow_staging(comm, staging.bytes);
    if (status == LS_OK) {
        place_staging(&staging, comm->staging);
        status = copy_staged(comm, &staging, false, NULL);
    }
    if (status == LS_OK) status = context->driver->synchronize(context->device);
    if (status == LS_OK) {
        status = comm_run(comm, call, &staging.transfer);
        if (status != LS_OK) error_set(&context->error, status, "%s", comm->failure.text);
    }
    if (status == LS_OK) status = copy_staged(comm, &staging, true, NULL);
    close_staging(&staging);
    return status;
}

/* ---- on the device's stream ---- */

/* In a graph the staging is the operation's own. A NULL stream is the context's. */
static ls_status run_on_stream(ls_comm *comm, const char *call, const Transfer *transfer,
                               void *stream, bool captured) {
    ls_context *context = comm->context;
    Staging staging;
    void *memory = NULL;
    ls_status status = open_staging(comm, call, transfer, &staging);
    if (status == LS_OK && captured && staging.bytes > 0) {
        CommRecord *record = keep_record(comm, call, &(Transfer){.kind = TRANSFER_BARRIER});
        status = record ? take_staging(comm, call, staging.bytes, &memory)
                        : error_memory(&context->error, call);
        if (record) record->staging = memory;
    } else if (status == LS_OK) {
        status = grow_staging(comm, staging.bytes);
        memory = comm->staging;
    }
    if (status == LS_OK) place_staging(&staging, memory);
    if (status == LS_OK) status = copy_staged(comm, &staging, false, stream);
    if (status == LS_OK) {
        status = comm_queue(comm, call, &staging.transfer, stream, captured);
        if (status != LS_OK) error_set(&context->error, status, "%s", comm->failure.text);
    }
    if (status == LS_OK) status = copy_staged(comm, &staging, true, stream);
    close_staging(&staging);
    if (status == LS_OK && transfer->kind == TRANSFER_BARRIER && !captured)
        status = ls_synchronize(context);
    return status;
}

/* ---- in a capture ---- */

static void run_record(void *argument, uint64_t first, uint64_t last) {
    CommRecord *record = argument;
    (void)first, (void)last;
    ls_comm *comm = record->comm;
    if (!record->begins) aside_wait(comm);  /* whose bytes the own part may be */
    copy_own(comm, &record->item.transfer); /* on a CPU, which cannot fail; else it is empty */
    if (record->begins) {
        aside_add(comm, &record->item);
        return;
    }
    comm_run(comm, record->item.call, &record->item.transfer);
}

static ls_status record_host(CommRecord *record) {
    ls_comm *comm = record->comm;
    record->work = (ls_host_work){run_record, record, 1};
    return host_call(comm->context, record->item.call, &record->work);
}

/* The copies go into the driver's graph beside the host function. */
static ls_status record_through_host(ls_comm *comm, const char *call, const Transfer *transfer) {
    ls_context *context = comm->context;
    Staging staging;
    CommRecord *record = NULL;
    void *memory = NULL;
    ls_status status = open_staging(comm, call, transfer, &staging);
    if (status == LS_OK && staging.bytes > 0)
        status = take_staging(comm, call, staging.bytes, &memory);
    if (status == LS_OK) {
        place_staging(&staging, memory);
        record = keep_record(comm, call, &staging.transfer);
        if (!record) status = error_memory(&context->error, call);
    }
    if (record)
        record->staging = memory;
    else
        give_staging(comm, memory);
    if (status == LS_OK) status = copy_staged(comm, &staging, false, NULL);
    if (status == LS_OK) status = record_host(record);
    if (status == LS_OK) status = copy_staged(comm, &staging, true, NULL);
    close_staging(&staging);
    return status;
}

/* ---- beside the launches ---- */

static bool is_on_cpu(const ls_comm *comm) {
    return comm->context->driver->kind == LS_DEVICE_CPU;
}

static bool goes_aside(const ls_comm *comm) {
    const CommEngine *engine = comm->engine;
    if (comm->size == 1) return false;
    if (!is_on_cpu(comm)) return engine->queue != NULL;
    return !engine->any_thread || engine->any_thread(comm->state);
}

/* The own part is copied in the stream's order. */
static ls_status begin(ls_comm *comm, const char *call, const Transfer *transfer, bool captured) {
    Error *error = &comm->context->error;
    ls_status status = aside_open(comm, call);
    if (status != LS_OK) return status;
    CommRecord *record =
        captured ? keep_record(comm, call, transfer) : make_record(comm, call, transfer);
    if (!record) return error_memory(error, call);
    record->begins = true;
    if (captured) return record_host(record);
    record->item.once = record;
    status = copy_own(comm, transfer);
    if (status == LS_OK)
        aside_add(comm, &record->item);
    else
        free(record);
    return status;
}

static void run_wait(void *argument, uint64_t first, uint64_t last) {
    const CommRecord *record = argument;
    (void)first, (void)last;
    aside_wait(record->comm);
}

ls_status ls_comm_wait(ls_comm *comm) {
    static const char call[] = "ls_comm_wait";
    if (!comm) return error_set(NULL, LS_ERROR_ARGUMENT, "%s: comm is NULL", call);
    ls_context *context = comm->context;
    bool captured;
    ls_status status = context_captured(context, &captured);
    captured |= context->capture != NULL;
    if (status == LS_OK) status = side_join(comm, call, captured);
    if (status != LS_OK) return status;
    if (!comm->aside) return ls_comm_check(comm);
    if (!context->capture) {
        const ProfileSpan span = profile_open(context, NULL);
        aside_wait(comm);
        profile_close(context, span, call, PROFILE_HOST, (Moved){0, 0});
        return ls_comm_check(comm);
    }
    CommRecord *record = keep_record(comm, call, &(Transfer){.kind = TRANSFER_BARRIER});
    if (!record) return error_memory(&context->error, call);
    record->work = (ls_host_work){run_wait, record, 1};
    return host_call(context, call, &record->work);
}

/* ---- operations ---- */

static ls_status run_on_cpu(ls_comm *comm, const char *call, const Transfer *transfer,
                            bool captured) {
    ls_context *context = comm->context;
    if (captured) {
        CommRecord *record = keep_record(comm, call, transfer);
        return record ? record_host(record) : error_memory(&context->error, call);
    }
    aside_wait(comm); /* whose bytes the own part may be */
    ls_status status = copy_own(comm, transfer);
    if (status != LS_OK) return status;
    const ProfileSpan span = profile_open(context, NULL);
    status = comm_run(comm, call, transfer);
    if (status != LS_OK) error_set(&context->error, status, "%s", comm->failure.text);
    profile_close(context, span, call, PROFILE_HOST, (Moved){0, 0});
    return status;
}

/* The own part is copied in the stream's order, which waits for what was begun before something
 * that is not. */
static ls_status run_on_gpu(ls_comm *comm, const char *call, const Transfer *transfer, bool aside,
                            bool captured) {
    ls_context *context = comm->context;
    const bool queues = comm->engine->queue != NULL;
    if (context->capture && !context->capture->native)
        return error_set(&context->error, LS_ERROR_UNSUPPORTED,
                         "%s: %s has no graphs that record it: end the graph before it, call it, "
                         "and begin another behind it",
                         call, context->device->name);
    ls_status status = aside ? LS_OK : side_join(comm, call, captured);
    if (status == LS_OK) status = copy_own(comm, transfer);
    if (status == LS_OK && aside) status = side_fork(comm, call, captured);
    if (status != LS_OK) return status;
    if (captured && !queues) return record_through_host(comm, call, transfer);
    void *stream = aside ? comm->side.stream : NULL;
    const ProfileSpan span = profile_open(context, stream);
    status = queues ? run_on_stream(comm, call, transfer, stream, captured)
                    : run_through_host(comm, call, transfer);
    profile_close(context, span, call, PROFILE_HOST, (Moved){0, 0});
    return status;
}

static ls_status run(ls_comm *comm, const char *call, const Transfer *transfer, bool aside) {
    ls_context *context = comm->context;
    bool captured;
    ls_status status = context_captured(context, &captured);
    if (status != LS_OK) return status;
    captured |= context->capture != NULL;
    if (context->capture) context->capture->exchanges = true;
    if (atomic_load(&comm->failed))
        return error_set(&context->error, comm->failed_with, "%s", comm->failure.text);
    status = check_own(comm, call, transfer);
    if (status != LS_OK) return status;
    aside = aside && goes_aside(comm);
    if (!is_on_cpu(comm)) return run_on_gpu(comm, call, transfer, aside, captured);
    return aside ? begin(comm, call, transfer, captured)
                 : run_on_cpu(comm, call, transfer, captured);
}

static ls_status missing(const ls_comm *comm, const char *call, const char *what) {
    return error_set(comm ? &comm->context->error : NULL, LS_ERROR_ARGUMENT, "%s: %s is NULL", call,
                     what);
}

static ls_status all_to_all(ls_comm *comm, const char *call, const ls_comm_part *send,
                            const ls_comm_part *receive, bool aside) {
    if (!comm || !send || !receive)
        return missing(comm, call, !comm ? "comm" : (!send ? "send" : "receive"));
    ls_status status = check_parts(comm, call, send, 0, comm->size);
    if (status == LS_OK) status = check_parts(comm, call, receive, 0, comm->size);
    if (status != LS_OK) return status;
    const Transfer transfer = {.kind = TRANSFER_ALL_TO_ALL, .send = send, .receive = receive};
    return run(comm, call, &transfer, aside);
}

static ls_status all_gather(ls_comm *comm, const char *call, const ls_comm_part *parts,
                            bool aside) {
    if (!comm || !parts) return missing(comm, call, comm ? "parts" : "comm");
    ls_status status = check_parts(comm, call, parts, 0, comm->size);
    if (status != LS_OK) return status;
    const Transfer transfer = {
        .kind = TRANSFER_ALL_GATHER, .send = &parts[comm->rank], .receive = parts};
    return run(comm, call, &transfer, aside);
}

ls_status ls_comm_all_to_all(ls_comm *comm, const ls_comm_part *send, const ls_comm_part *receive) {
    return all_to_all(comm, "ls_comm_all_to_all", send, receive, false);
}

ls_status ls_comm_begin_all_to_all(ls_comm *comm, const ls_comm_part *send,
                                   const ls_comm_part *receive) {
    return all_to_all(comm, "ls_comm_begin_all_to_all", send, receive, true);
}

ls_status ls_comm_all_gather(ls_comm *comm, const ls_comm_part *parts) {
    return all_gather(comm, "ls_comm_all_gather", parts, false);
}

ls_status ls_comm_begin_all_gather(ls_comm *comm, const ls_comm_part *parts) {
    return all_gather(comm, "ls_comm_begin_all_gather", parts, true);
}

ls_status ls_comm_broadcast(ls_comm *comm, int root, const ls_comm_part *part) {
    static const char call[] = "ls_comm_broadcast";
    if (!comm || !part) return missing(comm, call, comm ? "part" : "comm");
    if (root < 0 || root >= comm->size)
        return error_set(&comm->context->error, LS_ERROR_ARGUMENT,
                         "%s: root is %d, and ranks count from 0 to %d", call, root,
                         comm->size - 1);
    ls_status status = check_part(comm, call, part, root);
    if (status != LS_OK) return status;
    Transfer transfer = {.kind = TRANSFER_BROADCAST, .root = root};
    if (root == comm->rank)
        transfer.send = part;
    else
        transfer.receive = part;
    return run(comm, call, &transfer, false);
}

ls_status ls_comm_barrier(ls_comm *comm) {
    static const char call[] = "ls_comm_barrier";
    if (!comm) return missing(NULL, call, "comm");
    return run(comm, call, &(Transfer){.kind = TRANSFER_BARRIER}, false);
}

/* Through memory of the device, as operations take it. */
ls_status comm_tell(ls_comm *comm, const char *call, const void *own, size_t bytes, void *all) {
    ls_context *context = comm->context;
    const size_t size = (size_t)comm->size;
    void *memory = NULL;
    ls_comm_piece *pieces = calloc(size, sizeof *pieces);
    ls_comm_part *parts = calloc(size, sizeof *parts);
    ls_status status = pieces && parts ? ls_alloc(context, size * bytes, &memory)
                                       : error_memory(&context->error, call);
    char *device = memory;
    for (size_t i = 0; i < size && status == LS_OK; i++) {
        pieces[i] = (ls_comm_piece){device + i * bytes, bytes};
        parts[i] = (ls_comm_part){&pieces[i], 1};
    }
    if (status == LS_OK)
        status = ls_copy_in(context, device + (size_t)comm->rank * bytes, own, bytes);
    if (status == LS_OK)
        status = all_gather(comm, call, parts, false);
    else
        ls_comm_abort(comm, "out of memory"); /* the others wait for this rank's part */
    if (status == LS_OK) status = ls_copy_out(context, all, device, size * bytes);
    ls_free(context, memory);
    free(pieces);
    free(parts);
    return status;
}
