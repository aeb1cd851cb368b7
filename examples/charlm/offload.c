/* offload.c: --offload, AdamW's two moments in page-locked memory of the host.
 *
 * The parameters are divided into parts, tensors in a row. A part's moments come into one of two
 * buffers on the device, are used by the update of its tensors, and go back. Copies in and copies
 * out have a stream each, beside the one that computes, so the next part comes and the last goes
 * while this one is updated; the first two come during the passes, and the last two go during those
 * of the next step. Events order what must be ordered, on the device: the host waits for nothing.
 * The update is the same arithmetic on the same numbers: the bits are those without --offload. */
#include "charlm.h"

#include <stdlib.h>
#include <string.h>

enum { BUFFERS = 2, PARTS = 8, ALIGNMENT = 64 };

typedef struct Part {
    size_t first, count; /* of the tensors */
    char *host;          /* its moments: of each tensor the first, and then of each the second */
    size_t bytes;
    Tape update;
} Part;

struct Offload {
    Model *model;
    Part *parts;
    size_t part_count;
    char *host;     /* of all parts */
    Array counters; /* of steps, for each part */
    Tape measure, rescale;
    ls_copy_stream *in, *out;
    struct {
        Array memory;
        ls_event *there, *used, *left; /* moments came, were updated, have gone back */
    } buffers[BUFFERS];
};

static bool check(Offload *offload, ls_status status, const char *what) {
    return machine_check(offload->model->machine, status, what);
}

static size_t moment_bytes(const Model *model, size_t tensor) {
    const size_t bytes =
        (size_t)array_size(model->parameters.values[tensor]) * ls_type_size(LS_F32);
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* ---- parts ---- */

/* As many tensors as stay within an eighth of all, or one. */
static bool cut(Offload *offload) {
    const Model *model = offload->model;
    const size_t count = model->parameters.count;
    size_t all = 0;
    for (size_t i = 0; i < count; i++) all += 2 * moment_bytes(model, i);
    offload->parts = calloc(count, sizeof *offload->parts);
    if (!offload->parts) return fail("out of host memory");
    for (size_t i = 0; i < count; i++) {
        const size_t bytes = 2 * moment_bytes(model, i);
        Part *part = offload->part_count ? &offload->parts[offload->part_count - 1] : NULL;
        if (!part || part->bytes + bytes > all / PARTS) {
            part = &offload->parts[offload->part_count++];
            part->first = i;
        }
        part->count++;
        part->bytes += bytes;
    }
    return true;
}

/* Where the moments of a part's tensors lie in memory that holds it. */
static void lay_out(const Model *model, const Part *part, char *memory, bool on_host, Array *first,
                    Array *second) {
    for (int moment = 0; moment < 2; moment++)
        for (size_t i = 0; i < part->count; i++) {
            Array *array = moment ? &second[i] : &first[i];
            *array = model->parameters.values[part->first + i];
            array->data = memory;
            array->on_host = on_host;
            memory += moment_bytes(model, part->first + i);
        }
}

static bool allocate(Offload *offload) {
    Model *model = offload->model;
    Machine *machine = model->machine;
    size_t bytes = 0, largest = 0;
    void *memory = NULL;
    for (size_t p = 0; p < offload->part_count; p++) {
        bytes += offload->parts[p].bytes;
        if (offload->parts[p].bytes > largest) largest = offload->parts[p].bytes;
    }
    if (!check(offload, ls_alloc_host(machine->context, bytes, &memory),
               "allocating page-locked memory"))
        return false;
    offload->host = memset(memory, 0, bytes);
    char *at = offload->host;
    for (size_t p = 0; p < offload->part_count; p++) {
        Part *part = &offload->parts[p];
        part->host = at;
        lay_out(model, part, at, true, &model->parameters.first[part->first],
                &model->parameters.second[part->first]);
        at += part->bytes;
    }
    for (size_t k = 0; k < BUFFERS; k++)
        offload->buffers[k].memory = ARRAY(machine, LS_U8, (int64_t)largest);
    offload->counters = ARRAY(machine, LS_I32, (int64_t)offload->part_count);
    return !machine->failed;
}

static bool make_tapes(Offload *offload) {
    Model *model = offload->model;
    Array *moments = calloc(2 * model->parameters.count, sizeof *moments);
    if (!moments) return fail("out of host memory");
    model_measure(model, &offload->measure);
    for (size_t p = 0; p < offload->part_count; p++) {
        Part *part = &offload->parts[p];
        Array *second = moments + part->count;
        const Array counter = array_slice(offload->counters, (int64_t)p, 1);
        lay_out(model, part, offload->buffers[p % BUFFERS].memory.data, false, moments, second);
        model_update_tensors(model, &part->update, part->first, part->count, moments, second,
                             p ? array_as(counter, 0, NULL) : model->state.count);
    }
    model_rescale(model, &offload->rescale);
    free(moments);
    return !model->machine->failed;
}

static bool make_streams(Offload *offload) {
    ls_context *context = offload->model->machine->context;
    bool ok = check(offload, ls_copy_stream_create(context, &offload->in), "a stream of copies") &&
              check(offload, ls_copy_stream_create(context, &offload->out), "a stream of copies");
    for (size_t k = 0; k < BUFFERS; k++) {
        ls_event **const events[] = {&offload->buffers[k].there, &offload->buffers[k].used,
                                     &offload->buffers[k].left};
        for (size_t i = 0; i < COUNT(events); i++)
            ok = ok && check(offload, ls_event_create(context, events[i]), "an event");
    }
    return ok;
}

bool offload_open(Model *model) {
    Offload *offload = calloc(1, sizeof *offload);
    if (!offload) return fail("out of host memory");
    offload->model = model;
    model->offload = offload;
    return cut(offload) && allocate(offload) && make_streams(offload) && make_tapes(offload);
}

/* Each part's launch counts the steps for itself. */
void offload_begin(Model *model) {
    const Offload *offload = model->offload;
    Machine *machine = model->machine;
    int32_t steps = 0;
    if (!offload) return;
    array_read(machine, model->state.count, &steps);
    for (size_t p = 0; p < offload->part_count; p++)
        array_write(machine, array_slice(offload->counters, (int64_t)p, 1), &steps);
}

void offload_fill(Model *model, Routine *routine) {
    routine_add(model->machine, routine, &model->offload->measure);
}

/* ---- a step ---- */

static bool bring(Offload *offload, size_t p) {
    const Part *part = &offload->parts[p];
    const size_t k = p % BUFFERS;
    return check(offload, ls_copy_stream_wait(offload->in, offload->buffers[k].left), "waiting") &&
           check(offload,
                 ls_copy_stream_in(offload->in, offload->buffers[k].memory.data, part->host,
                                   part->bytes),
                 "bringing moments") &&
           check(offload, ls_copy_stream_record(offload->in, offload->buffers[k].there),
                 "marking a copy");
}

static bool update(Offload *offload, size_t p) {
    const size_t k = p % BUFFERS;
    return check(offload, ls_event_wait(offload->buffers[k].there), "waiting") &&
           tape_run(offload->model->machine, &offload->parts[p].update) &&
           check(offload, ls_event_record(offload->buffers[k].used), "marking an update");
}

static bool take_back(Offload *offload, size_t p) {
    const Part *part = &offload->parts[p];
    const size_t k = p % BUFFERS;
    return check(offload, ls_copy_stream_wait(offload->out, offload->buffers[k].used), "waiting") &&
           check(offload,
                 ls_copy_stream_out(offload->out, part->host, offload->buffers[k].memory.data,
                                    part->bytes),
                 "taking moments back") &&
           check(offload, ls_copy_stream_record(offload->out, offload->buffers[k].left),
                 "marking a copy");
}

bool offload_step(Model *model, const Routine *routine) {
    Offload *offload = model->offload;
    const size_t count = offload->part_count;
    bool ok = true;
    for (size_t p = 0; p < count && p < BUFFERS; p++) ok = ok && bring(offload, p);
    ok = ok && routine_run(model->machine, routine, 1);
    for (size_t p = 0; p < count && ok; p++)
        ok = update(offload, p) && take_back(offload, p) &&
             (p + BUFFERS >= count || bring(offload, p + BUFFERS));
    return ok && tape_run(model->machine, &offload->rescale);
}

void offload_wait(Model *model) {
    Offload *offload = model->offload;
    if (offload && !model->machine->failed)
        check(offload, ls_copy_stream_synchronize(offload->out), "waiting for the moments");
}

void offload_describe(const Model *model) {
    const Offload *offload = model->offload;
    size_t bytes = 0, largest = 0;
    if (!offload) {
        printf("offload  the device's memory is the host's: the moments stay where they are\n");
        return;
    }
    for (size_t p = 0; p < offload->part_count; p++) {
        bytes += offload->parts[p].bytes;
        if (offload->parts[p].bytes > largest) largest = offload->parts[p].bytes;
    }
    printf("offload  moments on the host, %.3g MB in %zu parts: a step brings them and takes them "
           "back,\n         through %d buffers of %.3g MB\n",
           (double)bytes * 1e-6, offload->part_count, BUFFERS, (double)largest * 1e-6);
}

void offload_close(Offload *offload) {
    if (!offload) return;
    ls_context *context = offload->model->machine->context;
    ls_copy_stream_destroy(offload->in);
    ls_copy_stream_destroy(offload->out);
    for (size_t k = 0; k < BUFFERS; k++) {
        ls_event_destroy(offload->buffers[k].there);
        ls_event_destroy(offload->buffers[k].used);
        ls_event_destroy(offload->buffers[k].left);
    }
    for (size_t p = 0; p < offload->part_count; p++) tape_close(&offload->parts[p].update);
    tape_close(&offload->measure);
    tape_close(&offload->rescale);
    ls_free_host(context, offload->host);
    free(offload->parts);
    free(offload);
}
