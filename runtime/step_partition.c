/* step_partition.c: a step over whole arrays that runs on this rank's part of them.
 *
 * The compiler makes stages of it (ls_sharded in image.h), steps of their own that this one keeps.
 * What is bound and set stays with the step; preparing it binds the stages: of a list all tensors
 * of the whole, those that the rank has nothing of as empty ones. A launch is that of the stages,
 * with an all-gather behind each but the last, of what each rank has computed of the exchanges. */
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

typedef struct Exchange { /* an array for all ranks, tensor by tensor */
    char *data;
    uint64_t *offsets; /* of each tensor, in bytes; and the end */
} Exchange;

struct Partition {
    ls_comm *comm;
    const ls_sharded *how;
    size_t tensors; /* of the whole */
    int64_t *elements, *shapes;
    uint32_t *ranks;
    size_t *piece_of; /* by tensor: 1 + which piece of this rank's it is, or 0 */
    ls_partition_piece *pieces;
    size_t piece_count;
    int size; /* ranks; their pieces: */
    ls_partition_piece **all;
    size_t *all_counts;
    ls_step **stages;
    Exchange *exchanges;
    ls_comm_part **gathers; /* by stage: of each rank */
    void **places;          /* by axis: i64 of each tensor, LS_SHARD_LENGTH, then LS_SHARD_BEGIN */
    bool preparing;
};

static bool is_list(const Partition *p) {
    return p->how->list > 0;
}

/* ---- life ---- */

void partition_free(ls_step *step) {
    Partition *p = step->partition;
    if (!p) return;
    const uint32_t stages = p->how ? p->how->stage_count : 0;
    for (uint32_t i = 0; p->stages && i < stages; i++) {
        if (!p->stages[i]) continue;
        p->stages[i]->partitioned = NULL;
        step_release(p->stages[i]);
    }
    for (uint32_t i = 0; p->exchanges && i < p->how->exchange_count; i++) {
        memory_free(step->context, p->exchanges[i].data);
        free(p->exchanges[i].offsets);
    }
    for (uint32_t i = 0; p->gathers && i < stages; i++) {
        for (int r = 0; p->gathers[i] && r < p->size; r++)
            free((void *)(uintptr_t)p->gathers[i][r].pieces);
        free(p->gathers[i]);
    }
    for (uint32_t a = 0; p->places && a < 2 * step->image->axis_count; a++)
        memory_free(step->context, p->places[a]);
    for (int r = 0; p->all && r < p->size; r++) free(p->all[r]);
    free(p->all);
    free(p->all_counts);
    free(p->stages);
    free(p->exchanges);
    free(p->gathers);
    free(p->places);
    free(p->elements);
    free(p->shapes);
    free(p->ranks);
    free(p->piece_of);
    free(p);
    step->partition = NULL;
}

/* ---- what is asked for ---- */

static ls_status refuse(const ls_step *step, ls_status status, const char *problem) {
    return error_set(&step->context->error, status, "ls_step_partition: step `%s` %s",
                     step->image->step, problem);
}

static ls_status check_state(const ls_step *step, const ls_comm *comm) {
    if (step->context != comm_context(comm))
        return refuse(step, LS_ERROR_ARGUMENT, "and the communicator are of different contexts");
    if (!step->program->make_sharded)
        return refuse(step, LS_ERROR_UNSUPPORTED,
                      "was built ahead of time, and parts take other kernels: load the .step file");
    if (step->source || step->instances)
        return refuse(step, LS_ERROR_UNSUPPORTED,
                      "is an instance or has some, and parts take other kernels: create a step of "
                      "its own for them");
    if (step->graphs || step->pinned)
        return refuse(step, LS_ERROR_STATE,
                      "is held by a graph: partition it before the graph is recorded");
    if (step->partition) return refuse(step, LS_ERROR_STATE, "is partitioned already");
    if (step->shard[0] || step->shard[1])
        return refuse(step, LS_ERROR_STATE, "has been told its place by ls_step_shard");
    return LS_OK;
}

/* What is cut by: the one named, or the first that has most axes. */
static ls_status find_parameter(ls_step *step, const char *name, uint32_t *number) {
    const ls_image *image = step->image;
    if (name) {
        const int found = step_find(step, "ls_step_partition", name);
        *number = (uint32_t)(found < 0 ? 0 : found);
        return found < 0 ? LS_ERROR_ARGUMENT : LS_OK;
    }
    *number = 0;
    for (uint32_t i = 1; i < image->parameter_count; i++)
        if (step_is_list(step, i) && !step_is_list(step, *number)) *number = i;
    if (image->parameter_count > 0 && step_is_list(step, *number)) return LS_OK;
    return refuse(step, LS_ERROR_ARGUMENT, "has no list: name the parameter that is cut");
}

/* Takes over which rank has which elements; `within`: a tensor of several ranks is among them. */
static ls_status take_parts(const ls_step *step, Partition *p, const ls_parts *parts,
                            bool *within) {
    Error *error = &step->context->error;
    size_t rank_sum = 0;
    const size_t count = parts->count;
    p->tensors = count;
    p->all = calloc((size_t)p->size, sizeof *p->all);
    p->all_counts = calloc((size_t)p->size, sizeof *p->all_counts);
    p->piece_of = calloc(count + 1, sizeof *p->piece_of);
    p->elements = calloc(count + 1, sizeof *p->elements);
    p->ranks = calloc(count + 1, sizeof *p->ranks);
    for (size_t t = 0; t < count; t++) rank_sum += parts->tensors[t].rank;
    p->shapes = calloc(rank_sum + 1, sizeof *p->shapes);
    if (!p->all || !p->all_counts || !p->piece_of || !p->elements || !p->ranks || !p->shapes)
        return error_memory(error, "ls_step_partition");
    int64_t *shape = p->shapes;
    for (size_t t = 0; t < count; t++) {
        p->ranks[t] = parts->tensors[t].rank;
        for (uint32_t k = 0; k < p->ranks[t]; k++) *shape++ = parts->tensors[t].shape[k];
    }
    *within = false;
    for (int r = 0; r < p->size; r++) {
        const size_t pieces = ls_partition_run(parts->tensors, count, parts->cuts, r, NULL);
        p->all[r] = calloc(pieces + 1, sizeof **p->all);
        if (!p->all[r]) return error_memory(error, "ls_step_partition");
        p->all_counts[r] = ls_partition_run(parts->tensors, count, parts->cuts, r, p->all[r]);
        for (size_t i = 0; i < p->all_counts[r]; i++) {
            const ls_partition_piece *piece = &p->all[r][i];
            *within |= piece->first != 0;
            if (piece->first != p->elements[piece->tensor])
                return refuse(step, LS_ERROR_ARGUMENT,
                              "is given cuts that leave elements to no rank or to two");
            p->elements[piece->tensor] += piece->count;
        }
    }
    p->pieces = p->all[ls_comm_rank(p->comm)];
    p->piece_count = p->all_counts[ls_comm_rank(p->comm)];
    for (size_t i = 0; i < p->piece_count; i++) p->piece_of[p->pieces[i].tensor] = i + 1;
    return LS_OK;
}

static ls_status check_whole(const ls_step *step, const Partition *p, const ls_parts *parts) {
    const ls_cut *end = &parts->cuts[p->size];
    if (parts->cuts[0].tensor || parts->cuts[0].element || end->tensor != p->tensors ||
        end->element)
        return refuse(step, LS_ERROR_ARGUMENT,
                      "is given cuts that do not begin and end with the list: they are those of "
                      "ls_partition for as many runs as there are ranks");
    return LS_OK;
}

/* Where a tile or a block of the step's begins. */
static ls_status check_cuts(const ls_step *step, const Partition *p) {
    if (!p->how->axis) return LS_OK;
    int64_t unit = 1024;
    const int64_t block = step->image->axes[p->how->axis - 1].length;
    while (block > 0 && unit % block != 0) unit += 1024;
    for (int r = 0; r < p->size; r++)
        for (size_t i = 0; i < p->all_counts[r]; i++)
            if (p->all[r][i].first % unit != 0)
                return error_set(&step->context->error, LS_ERROR_ARGUMENT,
                                 "ls_step_partition: the part of rank %d begins at element %lld of "
                                 "tensor %zu, and step `%s` is cut at multiples of %lld: give "
                                 "ls_partition such units",
                                 r, (long long)p->all[r][i].first, p->all[r][i].tensor,
                                 step->image->step, (long long)unit);
    return LS_OK;
}

/* ---- memory ---- */

static uint64_t tile_count(uint32_t tile, int64_t elements) {
    return tile ? (uint64_t)(elements / tile + (elements % tile != 0)) : 1;
}

/* Tensors begin on 16-byte boundaries where they have several values. */
static ls_status place_exchange(const ls_step *step, Partition *p, uint32_t number) {
    const ls_shard_exchange *row = &p->how->exchanges[number];
    Exchange *exchange = &p->exchanges[number];
    const uint64_t size = type_rows[row->type].size;
    uint64_t at = 0;
    exchange->offsets = calloc(p->tensors + 1, sizeof *exchange->offsets);
    if (!exchange->offsets) return error_memory(&step->context->error, "ls_step_partition");
    for (size_t t = 0; t < p->tensors; t++) {
        if (row->tile) at = (at + 15) / 16 * 16;
        exchange->offsets[t] = at;
        at += tile_count(row->tile, p->elements[t]) * size;
    }
    exchange->offsets[p->tensors] = at;
    if (at == 0) return LS_OK;
    return memory_allocate_for(step->context, "ls_step_partition", "ls_step_partition: exchanges",
                               (size_t)at, (void **)&exchange->data);
}

static ls_comm_piece piece_in(const Partition *p, uint32_t number,
                              const ls_partition_piece *piece) {
    const ls_shard_exchange *row = &p->how->exchanges[number];
    const Exchange *exchange = &p->exchanges[number];
    const uint64_t size = type_rows[row->type].size;
    const uint64_t first = row->tile ? (uint64_t)(piece->first / row->tile) : 0;
    return (ls_comm_piece){exchange->data + exchange->offsets[piece->tensor] + first * size,
                           tile_count(row->tile, piece->count) * size};
}

/* What a rank gives behind the stage; neighbours are one piece. */
static ls_status make_part(const ls_step *step, Partition *p, uint32_t stage, int rank) {
    const size_t most = p->how->exchange_count * p->all_counts[rank];
    ls_comm_piece *pieces = calloc(most + 1, sizeof *pieces);
    size_t count = 0;
    if (!pieces) return error_memory(&step->context->error, "ls_step_partition");
    for (uint32_t e = 0; e < p->how->exchange_count; e++) {
        if (p->how->exchanges[e].stage != stage) continue;
        for (size_t i = 0; i < p->all_counts[rank]; i++) {
            const ls_comm_piece made = piece_in(p, e, &p->all[rank][i]);
            ls_comm_piece *last = count ? &pieces[count - 1] : NULL;
            if (made.bytes == 0) continue;
            if (last && (char *)last->data + last->bytes == (char *)made.data)
                last->bytes += made.bytes;
            else
                pieces[count++] = made;
        }
    }
    p->gathers[stage][rank] = (ls_comm_part){pieces, count};
    return LS_OK;
}

static ls_status make_exchanges(ls_step *step, Partition *p) {
    ls_status status = LS_OK;
    const uint32_t stages = p->how->stage_count;
    p->exchanges = calloc(p->how->exchange_count + 1, sizeof *p->exchanges);
    p->gathers = calloc(stages, sizeof *p->gathers);
    if (!p->exchanges || !p->gathers)
        return error_memory(&step->context->error, "ls_step_partition");
    for (uint32_t e = 0; e < p->how->exchange_count && status == LS_OK; e++)
        status = place_exchange(step, p, e);
    for (uint32_t i = 0; i + 1 < stages && status == LS_OK; i++) {
        p->gathers[i] = calloc((size_t)p->size, sizeof **p->gathers);
        if (!p->gathers[i]) return error_memory(&step->context->error, "ls_step_partition");
        for (int r = 0; r < p->size && status == LS_OK; r++) status = make_part(step, p, i, r);
    }
    return status;
}

/* The length of an axis in every tensor of the whole, or where this rank's part of it begins. */
static ls_status find_places(const ls_step *step, const Partition *p, uint32_t parameter,
                             const ls_shard_argument *argument, int64_t *values) {
    const ls_image_parameter *row = &step->image->parameters[parameter];
    const uint32_t own = row->rank - is_list(p);
    uint32_t place = 0; /* of the axis in a tensor's shape */
    const int64_t *shape = p->shapes;
    for (uint32_t k = 0; k < row->rank; k++) {
        if (row->axes[k] + 1u == p->how->list) continue;
        if (row->axes[k] == argument->number || own == 1) break;
        place++;
    }
    const bool flat = own == 1 || p->how->axis;
    if (!flat && place == own)
        return error_set(&step->context->error, LS_ERROR_UNSUPPORTED,
                         "ls_step_partition: step `%s` asks for the length of axis `%s`, which the "
                         "tensors of `%s` lack: name a parameter that has it",
                         step->image->step, step->image->axes[argument->number].name, row->name);
    for (size_t t = 0; t < p->tensors; shape += p->ranks[t++]) {
        const size_t piece = p->piece_of[t];
        if (argument->from == LS_SHARD_BEGIN)
            values[t] = piece ? p->pieces[piece - 1].first : 0;
        else
            values[t] = flat ? p->elements[t] : shape[place];
    }
    return LS_OK;
}

static size_t place_of(const ls_step *step, const ls_shard_argument *argument) {
    return argument->number + (argument->from == LS_SHARD_BEGIN ? step->image->axis_count : 0);
}

static ls_status make_places(ls_step *step, Partition *p, uint32_t parameter) {
    int64_t *values = calloc(p->tensors + 1, sizeof *values);
    ls_status status = LS_OK;
    p->places = calloc(2 * (size_t)step->image->axis_count + 1, sizeof *p->places);
    if (!values || !p->places) status = error_memory(&step->context->error, "ls_step_partition");
    for (uint32_t i = 0; i < p->how->stage_count && status == LS_OK; i++) {
        const ls_shard_stage *stage = &p->how->stages[i];
        for (uint32_t k = 0; k < stage->image->parameter_count && status == LS_OK; k++) {
            const ls_shard_argument *argument = &stage->arguments[k];
            if (argument->from != LS_SHARD_LENGTH && argument->from != LS_SHARD_BEGIN) continue;
            void **place = &p->places[place_of(step, argument)];
            if (*place) continue;
            const size_t bytes = (p->tensors ? p->tensors : 1) * sizeof *values;
            status = find_places(step, p, parameter, argument, values);
            if (status == LS_OK)
                status =
                    memory_allocate_for(step->context, "ls_step_partition",
                                        "ls_step_partition: lengths of the whole", bytes, place);
            if (status == LS_OK) status = ls_copy_in(step->context, *place, values, bytes);
        }
    }
    free(values);
    return status;
}

/* ---- the stages ---- */

static ls_status make_how(ls_step *step, uint32_t parameter, bool within, const ls_sharded **how) {
    ls_program *program = step->program;
    ls_context *context = step->context;
    const char *message = NULL;
    size_t index = 0;
    while (strcmp(program->names[index], step->image->step) != 0) index++;
    ls_sum *sums = calloc(step->sum_count + 1, sizeof *sums);
    if (!sums) return error_memory(&context->error, "ls_step_partition");
    for (size_t i = 0; i < step->sum_count; i++)
        sums[i] = (ls_sum){step->sums[i].parameter, step->sums[i].count, step->sums[i].type};
    ls_status status = program->make_sharded(
        program->maker, index, sums, step->sum_count, step->image->parameters[parameter].name,
        within, context->device->target, context->device->description, how, &message);
    free(sums);
    if (status == LS_OK) return LS_OK;
    return error_set(&context->error, status, "ls_step_partition: %s",
                     message ? message : ls_status_name(status));
}

static ls_status make_stages(ls_step *step, Partition *p) {
    ls_status status = LS_OK;
    p->stages = calloc(p->how->stage_count, sizeof *p->stages);
    if (!p->stages) return error_memory(&step->context->error, "ls_step_partition");
    for (uint32_t i = 0; i < p->how->stage_count && status == LS_OK; i++) {
        const ls_image *image = p->how->stages[i].image;
        status = step_create(step->program, image, program_summed_variants(step->program, image),
                             "ls_step_partition", &p->stages[i]);
        if (status == LS_OK) p->stages[i]->partitioned = step;
    }
    return status;
}

ls_status ls_step_partition(ls_step *step, ls_comm *comm, const ls_parts *parts) {
    static const char call[] = "ls_step_partition";
    uint32_t parameter = 0;
    bool within = false;
    if (!step || !comm || !parts || !parts->cuts || (parts->count && !parts->tensors))
        return error_set(step ? &step->context->error : NULL, LS_ERROR_ARGUMENT, "%s: %s is NULL",
                         call,
                         !step    ? "step"
                         : !comm  ? "comm"
                         : !parts ? "parts"
                                  : "tensors or cuts");
    ls_status status = context_not_capturing(step->context, call);
    if (status == LS_OK) status = check_state(step, comm);
    if (status == LS_OK) status = find_parameter(step, parts->parameter, &parameter);
    if (status != LS_OK || ls_comm_size(comm) == 1) return status;
    Partition *p = calloc(1, sizeof *p);
    if (!p) return error_memory(&step->context->error, call);
    step->partition = p;
    p->comm = comm;
    p->size = ls_comm_size(comm);
    status = take_parts(step, p, parts, &within);
    if (status == LS_OK) status = check_whole(step, p, parts);
    if (status == LS_OK)
        status = make_how(step, parameter, within || !step_is_list(step, parameter), &p->how);
    if (status == LS_OK && !is_list(p) && p->tensors != 1)
        status = refuse(step, LS_ERROR_ARGUMENT, "has no list, so its parts are of one tensor");
    if (status == LS_OK) status = check_cuts(step, p);
    if (status == LS_OK) status = make_stages(step, p);
    if (status == LS_OK) status = make_exchanges(step, p);
    if (status == LS_OK) status = make_places(step, p, parameter);
    step->ready = false;
    if (status != LS_OK) partition_free(step);
    return status;
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
    if (!binding->bound && binding->has_value)
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

/* All tensors of the whole, empty but for this rank's. */
static ls_status bind_pieces(const Bound *b) {
    const Binding *binding = &b->step->bindings[b->number];
    const ls_image_parameter *row = &b->step->image->parameters[b->number];
    const uint32_t rank = row->rank - 1;
    const size_t count = b->p->tensors;
    if (!binding->bound) return refuse_unbound(b);
    ls_tensor *tensors = calloc(count + 1, sizeof *tensors);
    int64_t *shapes = calloc(count * rank + 1, sizeof *shapes);
    ls_status status = LS_OK;
    if (!tensors || !shapes) status = error_memory(&b->step->context->error, b->call);
    for (size_t t = 0; status == LS_OK && t < count; t++)
        tensors[t] = (ls_tensor){NULL, row->type, rank, &shapes[t * rank], NULL};
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
        lengths[t] = (int64_t)tile_count(row->tile, piece->count);
        tensors[t] =
            (ls_tensor){piece_in(p, b->number, piece).data, row->type, 1, &lengths[t], NULL};
    }
    if (status == LS_OK && is_list(p))
        status = ls_step_bind_list(b->stage, name_of(b), tensors, p->tensors);
    else if (status == LS_OK)
        status = ls_step_bind(b->stage, name_of(b), &tensors[0]);
    free(tensors);
    free(lengths);
    return status;
}

static ls_status bind_place(const Bound *b, const ls_shard_argument *argument) {
    const int64_t count = (int64_t)b->p->tensors;
    void *place = b->p->places[place_of(b->step, argument)];
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
        statistics->temporary_bytes += p->exchanges[e].offsets[p->tensors];
    return status;
}
