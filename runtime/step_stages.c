/* step_stages.c: the stages of a step on parts of its arrays (step_partition.c).
 *
 * What is bound and set stays with the step; preparing it binds the stages: of a list all tensors
 * of the whole, those that the rank has nothing of as empty ones. A launch is that of the stages,
 * with an all-gather behind each but the last, of what each rank has computed of the exchanges. */
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

static bool is_list(const Partition *p) {
    return p->how->list > 0;
}

/* ---- exchanges of several rows ---- */

/* How long the step's axis is by what is bound; -1: nothing says. */
static int64_t bound_length(const ls_step *step, uint32_t axis) {
    const ls_image *image = step->image;
    if (image->axes[axis].fixed >= 0) return image->axes[axis].fixed;
    for (uint32_t i = 0; i < image->parameter_count; i++)
        for (uint32_t k = 0; k < image->parameters[i].rank; k++)
            if (image->parameters[i].axes[k] == axis && step->bindings[i].bound)
                return step->bindings[i].shape[k];
    return step->given[axis];
}

static ls_status size_exchange(ls_step *step, const char *call, uint32_t number, bool *changed) {
    const ls_shard_exchange *row = &step->partition->how->exchanges[number];
    Exchange *exchange = &step->partition->exchanges[number];
    uint64_t rows = 1;
    if (row->axes == 0) return LS_OK;
    if (!exchange->lengths)
        exchange->lengths = calloc(step->image->axis_count, sizeof *exchange->lengths);
    if (!exchange->lengths) return error_memory(&step->context->error, call);
    for (uint32_t a = 0; a < step->image->axis_count; a++) {
        if (!(row->axes >> a & 1)) continue;
        exchange->lengths[a] = bound_length(step, a);
        if (exchange->lengths[a] < 0)
            return error_set(&step->context->error, LS_ERROR_BIND,
                             "%s: no array that is bound has axis `%s` of step `%s`", call,
                             step->image->axes[a].name, step->image->step);
        if (__builtin_mul_overflow(rows, (uint64_t)exchange->lengths[a], &rows))
            return step_too_large(step, call, "an exchange");
    }
    if (rows == exchange->rows && exchange->data) return LS_OK;
    uint64_t bytes;
    if (__builtin_mul_overflow(rows, exchange->offsets[step->partition->tensors], &bytes))
        return step_too_large(step, call, "an exchange");
    if (exchange->data && (step->graphs || step->pinned))
        return error_set(
            &step->context->error, LS_ERROR_STATE,
            "%s: a graph holds step `%s`, whose exchanges have other sizes now: record "
            "it again",
            call, step->image->step);
    ls_status status = step_retire(step, exchange->data);
    exchange->data = NULL;
    exchange->rows = rows;
    *changed = true;
    if (status != LS_OK || bytes == 0) return status;
    return memory_allocate_for(step->context, call, "ls_step_partition: exchanges", (size_t)bytes,
                               (void **)&exchange->data);
}

static ls_status size_exchanges(ls_step *step, const char *call) {
    Partition *p = step->partition;
    ls_status status = LS_OK;
    bool changed = false;
    for (uint32_t e = 0; e < p->how->exchange_count && status == LS_OK; e++)
        status = size_exchange(step, call, e, &changed);
    return status == LS_OK && changed ? partition_make_parts(step, p) : status;
}

/* ---- binding the stages ---- */

typedef struct Bound { /* one parameter of a stage */
    ls_step *step, *stage;
    Partition *p;
    const char *call;
    uint32_t stage_parameter, number; /* number: of the step's parameter, or the exchange */
} Bound;

static const char *name_of(const Bound *b) {
    return b->stage->image->parameters[b->stage_parameter].name;
}

static ls_status bind_scalar(const Bound *b) {
    const Binding *binding = &b->step->bindings[b->number];
    const ls_image_parameter *row = &b->step->image->parameters[b->number];
    if (row->role != LS_OUT && !binding->bound && !binding->has_value)
        return error_set(&b->step->context->error, LS_ERROR_BIND,
                         "%s: parameter `%s` of step `%s` has no value: set or bind it", b->call,
                         row->name, b->step->image->step);
    return ls_step_bind(b->stage, name_of(b),
                        &(ls_tensor){.data = binding->data, .type = row->type});
}

static ls_status refuse_unbound(const Bound *b) {
    return error_set(&b->step->context->error, LS_ERROR_BIND,
                     "%s: parameter `%s` of step `%s` is not bound; a step on parts has no memory "
                     "of its own for arrays",
                     b->call, b->step->image->parameters[b->number].name, b->step->image->step);
}

static ls_status bind_array(const Bound *b) {
    const Binding *binding = &b->step->bindings[b->number];
    const ls_image_parameter *row = &b->step->image->parameters[b->number];
    if (!binding->bound && binding->has_value && row->role == LS_IN)
        return ls_step_set(b->stage, name_of(b), &binding->fill);
    if (!binding->bound) return refuse_unbound(b);
    return ls_step_bind(
        b->stage, name_of(b),
        &(ls_tensor){binding->data, row->type, row->rank, binding->shape, binding->strides});
}

/* What a piece has of a parameter's tensor, where that is one number. */
static int64_t piece_length(const Bound *b, const ls_partition_piece *piece) {
    const ls_image *image = b->step->image;
    const uint32_t axis = image->parameters[b->number].axes[1];
    const int64_t block = image->axes[axis].length;
    if (image->axes[axis].whole == 0 || block <= 0) return piece->count;
    return (piece->count + block - 1) / block;
}

static ls_status refuse_pieces(const Bound *b, size_t tensor, int64_t has, int64_t wants) {
    return error_set(&b->step->context->error, LS_ERROR_BIND,
                     "%s: tensor %zu that is bound to `%s` of step `%s` has %lld elements, and the "
                     "part of rank %d has %lld",
                     b->call, tensor, b->step->image->parameters[b->number].name,
                     b->step->image->step, (long long)has, ls_comm_rank(b->p->comm),
                     (long long)wants);
}

/* One array for all of a rank's pieces. */
static ls_status cut_flat(const Bound *b, ls_tensor *tensors) {
    const ls_image_parameter *row = &b->step->image->parameters[b->number];
    const List *list = &b->step->bindings[b->number].list;
    int64_t at = 0;
    for (size_t i = 0; i < b->p->piece_count; i++) {
        ls_tensor *tensor = &tensors[b->p->pieces[i].tensor];
        int64_t *shape = (int64_t *)(uintptr_t)tensor->shape;
        shape[0] = piece_length(b, &b->p->pieces[i]);
        tensor->data = list->data + at * (int64_t)type_rows[row->type].size;
        at += shape[0];
    }
    return at == list->elements ? LS_OK : refuse_pieces(b, 0, list->elements, at);
}

static ls_status place_pieces(const Bound *b, ls_tensor *tensors) {
    const uint32_t rank = b->step->image->parameters[b->number].rank - 1;
    const List *list = &b->step->bindings[b->number].list;
    if (list->count != b->p->piece_count)
        return error_set(&b->step->context->error, LS_ERROR_BIND,
                         "%s: `%s` of step `%s` is bound to %zu tensor%s, and the part of rank %d "
                         "has pieces of %zu (ls_partition_run)",
                         b->call, b->step->image->parameters[b->number].name, b->step->image->step,
                         list->count, list->count == 1 ? "" : "s", ls_comm_rank(b->p->comm),
                         b->p->piece_count);
    for (size_t i = 0; i < list->count; i++) {
        ls_tensor *tensor = &tensors[b->p->pieces[i].tensor];
        int64_t *shape = (int64_t *)(uintptr_t)tensor->shape;
        const int64_t wants = rank == 1 ? piece_length(b, &b->p->pieces[i]) : 0;
        memcpy(shape, &list->lengths[i * rank], rank * sizeof *shape);
        if (rank == 1 && b->p->how->axis && shape[0] != wants)
            return refuse_pieces(b, i, shape[0], wants);
        tensor->data = list->pointers[i];
    }
    return LS_OK;
}

/* The length within a block, 0 of other axes. */
static int64_t rest_length(const Bound *b, uint32_t axis) {
    const ls_image *image = b->step->image;
    return axis_is_rest(image, axis) ? image->axes[axis].length : 0;
}

/* All tensors of the whole, empty but for this rank's. */
static ls_status bind_pieces(const Bound *b) {
    const Binding *binding = &b->step->bindings[b->number];
    const ls_image_parameter *row = &b->step->image->parameters[b->number];
    const uint32_t rank = row->rank - 1;
    const size_t count = b->p->tensors;
    if (!binding->bound) return refuse_unbound(b);
    if (binding->list.flat && rank > 1)
        return error_set(
            &b->step->context->error, LS_ERROR_BIND,
            "%s: `%s` of step `%s` has tensors of %u axes, and is bound to a flat array, "
            "of which nothing says how long they are: bind a list",
            b->call, row->name, b->step->image->step, rank);
    ls_tensor *tensors = calloc(count + 1, sizeof *tensors);
    int64_t *shapes = calloc(count * rank + 1, sizeof *shapes);
    ls_status status = LS_OK;
    if (!tensors || !shapes) status = error_memory(&b->step->context->error, b->call);
    for (size_t t = 0; status == LS_OK && t < count; t++)
        tensors[t] = (ls_tensor){NULL, row->type, rank, &shapes[t * rank], NULL};
    for (size_t t = 0; status == LS_OK && t < count;
         t++) /* blocks are as long where there are none */
        for (uint32_t k = 0; k < rank; k++) shapes[t * rank + k] = rest_length(b, row->axes[k + 1]);
    if (status == LS_OK && binding->list.flat && rank == 1)
        status = cut_flat(b, tensors);
    else if (status == LS_OK)
        status = place_pieces(b, tensors);
    if (status == LS_OK) status = ls_step_bind_list(b->stage, name_of(b), tensors, count);
    free(tensors);
    free(shapes);
    return status;
}

/* A list of which every rank has all. */
static ls_status bind_whole_list(const Bound *b) {
    const Binding *binding = &b->step->bindings[b->number];
    const ls_image_parameter *row = &b->step->image->parameters[b->number];
    const List *list = &binding->list;
    const uint32_t rank = row->rank - 1;
    if (!binding->bound) return refuse_unbound(b);
    if (list->flat)
        return ls_step_bind(b->stage, name_of(b),
                            &(ls_tensor){list->data, row->type, 1, &list->elements, NULL});
    ls_tensor *tensors = calloc(list->count + 1, sizeof *tensors);
    if (!tensors) return error_memory(&b->step->context->error, b->call);
    for (size_t i = 0; i < list->count; i++)
        tensors[i] =
            (ls_tensor){list->pointers[i], row->type, rank, &list->lengths[i * rank], NULL};
    ls_status status = ls_step_bind_list(b->stage, name_of(b), tensors, list->count);
    free(tensors);
    return status;
}

static ls_status bind_own(const Bound *b) {
    if (step_is_device_scalar(b->step, b->number)) return bind_scalar(b);
    if (step_leaves_out(b->step, b->number)) return ls_step_bind(b->stage, name_of(b), NULL);
    if (!step_is_list(b->step, b->number)) return bind_array(b);
    return b->p->how->cut[b->number] ? bind_pieces(b) : bind_whole_list(b);
}

/* This rank's part, or all. */
static ls_status bind_rows(const Bound *b, const Exchange *exchange, ls_comm_piece place) {
    const ls_image *image = b->step->image, *stage = b->stage->image;
    const ls_image_parameter *row = &stage->parameters[b->stage_parameter];
    const int64_t size = type_rows[row->type].size;
    int64_t shape[LS_RANK_MAX], strides[LS_RANK_MAX];
    for (uint32_t k = 0; k < row->rank; k++) {
        uint32_t a = 0; /* the step's axis; the tiles' is none of them */
        while (a < image->axis_count &&
               strcmp(image->axes[a].name, stage->axes[row->axes[k]].name) != 0)
            a++;
        shape[k] = a < image->axis_count ? exchange->lengths[a] : (int64_t)place.bytes / size;
        strides[k] = a < image->axis_count ? (int64_t)exchange->offsets[1] / size : 1;
        for (uint32_t later = a + 1; later < image->axis_count; later++)
            if (b->p->how->exchanges[b->number].axes >> later & 1)
                strides[k] *= exchange->lengths[later];
    }
    return ls_step_bind(b->stage, name_of(b),
                        &(ls_tensor){place.data, row->type, row->rank, shape, strides});
}

static ls_status bind_exchange(const Bound *b, bool all) {
    const Partition *p = b->p;
    const ls_shard_exchange *row = &p->how->exchanges[b->number];
    const Exchange *exchange = &p->exchanges[b->number];
    if (!row->tile) {
        const int64_t count = (int64_t)p->tensors;
        return ls_step_bind(b->stage, name_of(b),
                            &(ls_tensor){exchange->data, row->type, 1, &count, NULL});
    }
    ls_tensor *tensors = calloc(p->tensors + 1, sizeof *tensors);
    int64_t *lengths = calloc(p->tensors + 1, sizeof *lengths);
    ls_status status = LS_OK;
    if (!tensors || !lengths) status = error_memory(&b->step->context->error, b->call);
    for (size_t t = 0; status == LS_OK && t < p->tensors; t++) {
        const size_t own = p->piece_of[t];
        const ls_partition_piece whole = {t, 0, p->elements[t]}, none = {t, 0, 0};
        const ls_partition_piece *piece = all ? &whole : own ? &p->pieces[own - 1] : &none;
        lengths[t] = (int64_t)partition_tiles(row->tile, piece->count);
        const ls_comm_piece place = partition_piece(p, b->number, piece, 0);
        tensors[t] = (ls_tensor){place.data, row->type, 1, &lengths[t], NULL};
        if (status == LS_OK && row->axes) status = bind_rows(b, exchange, place);
    }
    if (status == LS_OK && is_list(p))
        status = ls_step_bind_list(b->stage, name_of(b), tensors, p->tensors);
    else if (status == LS_OK && !row->axes)
        status = ls_step_bind(b->stage, name_of(b), &tensors[0]);
    free(tensors);
    free(lengths);
    return status;
}

static ls_status bind_place(const Bound *b, const ls_shard_argument *argument) {
    const int64_t count = (int64_t)b->p->tensors;
    void *place = b->p->places[partition_place(b->step, argument)];
    return ls_step_bind(b->stage, name_of(b),
                        &(ls_tensor){place, LS_I64, is_list(b->p), &count, NULL});
}

static ls_status bind_argument(Bound *b, const ls_shard_argument *argument) {
    b->number = argument->number;
    switch (argument->from) {
    case LS_SHARD_PARAMETER: return bind_own(b);
    case LS_SHARD_PARTIAL: return bind_exchange(b, false);
    case LS_SHARD_GATHERED: return bind_exchange(b, true);
    default: return bind_place(b, argument);
    }
}

/* Lengths that were given by hand. */
static ls_status give_lengths(const ls_step *step, ls_step *stage) {
    ls_status status = LS_OK;
    for (uint32_t a = 0; a < step->image->axis_count && status == LS_OK; a++)
        if (step->given[a] >= 0)
            status = ls_step_set_length(stage, step->image->axes[a].name, step->given[a]);
    return status;
}

static ls_status prepare_stage(ls_step *step, const char *call, uint32_t number) {
    Partition *p = step->partition;
    Bound b = {.step = step, .stage = p->stages[number], .p = p, .call = call};
    ls_status status = give_lengths(step, b.stage);
    const uint32_t count = b.stage->image->parameter_count;
    for (uint32_t i = 0; i < count && status == LS_OK; i++) {
        b.stage_parameter = i;
        status = bind_argument(&b, &p->how->stages[number].arguments[i]);
    }
    return status == LS_OK ? step_prepare(b.stage, call) : status;
}

ls_status partition_prepare(ls_step *step, const char *call) {
    Partition *p = step->partition;
    ls_status status = LS_OK;
    p->preparing = true;
    if (status == LS_OK) status = size_exchanges(step, call);
    for (uint32_t i = 0; i < p->how->stage_count && status == LS_OK; i++)
        status = prepare_stage(step, call, i);
    p->preparing = false;
    step->ready = status == LS_OK;
    return status;
}

bool partition_is_due(const ls_step *stage) {
    const ls_step *step = stage->partitioned;
    return step && !step->ready && !step->partition->preparing;
}

/* ---- launching ---- */

ls_status partition_launch(ls_step *step) {
    Partition *p = step->partition;
    ls_context *context = step->context;
    ls_status status = LS_OK;
    if (!step->ready) status = step_prepare(step, "ls_step_launch");
    if (status == LS_OK && context->capture && !graph_keep(context->capture, step))
        status = error_memory(&context->error, "ls_step_launch");
    for (uint32_t i = 0; i < p->how->stage_count && status == LS_OK; i++) {
        status = ls_step_launch(p->stages[i]);
        step->pinned = step->pinned || p->stages[i]->pinned;
        if (status == LS_OK && i + 1 < p->how->stage_count)
            status = ls_comm_all_gather(p->comm, p->gathers[i]);
    }
    return status;
}

ls_status partition_statistics(ls_step *step, ls_step_statistics *statistics) {
    const Partition *p = step->partition;
    ls_status status = LS_OK;
    for (uint32_t i = 0; i < p->how->stage_count && status == LS_OK; i++) {
        ls_step_statistics own;
        status = ls_step_stats(p->stages[i], &own);
        own.launches += statistics->launches;
        own.compile_ms += statistics->compile_ms;
        own.from_cache = own.from_cache && (i == 0 || statistics->from_cache);
        own.temporary_bytes += statistics->temporary_bytes;
        own.table_bytes += statistics->table_bytes;
        if (statistics->parts > own.parts) own.parts = statistics->parts;
        copy_add(&own.copies, &statistics->copies, 1);
        *statistics = own;
    }
    for (uint32_t e = 0; e < p->how->exchange_count; e++)
        statistics->temporary_bytes += p->exchanges[e].rows * p->exchanges[e].offsets[p->tensors];
    return status;
}
