/* step_partition.c: a step over whole arrays that runs on this rank's part of them.
 *
 * The compiler makes stages of it (ls_sharded in image.h), steps of their own that this one keeps,
 * as it keeps the memory of what goes between ranks. step_stages.c binds and launches them. */
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

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
        free(p->exchanges[i].lengths);
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

/* What is cut by: the one named, or the first list. */
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
static ls_status take_parts(const ls_step *step, Partition *p, const ls_partition_parts *parts,
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
            if (piece->count < 0 || piece->first != p->elements[piece->tensor])
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

static ls_status check_whole(const ls_step *step, const Partition *p,
                             const ls_partition_parts *parts) {
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

uint64_t partition_tiles(uint32_t tile, int64_t elements) {
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
        at += partition_tiles(row->tile, p->elements[t]) * size;
    }
    exchange->offsets[p->tensors] = at;
    exchange->rows = row->axes == 0;
    if (at == 0 || row->axes != 0) return LS_OK; /* these when their lengths are known */
    return memory_allocate_for(step->context, "ls_step_partition", "ls_step_partition: exchanges",
                               (size_t)at, (void **)&exchange->data);
}

ls_comm_piece partition_piece(const Partition *p, uint32_t number, const ls_partition_piece *piece,
                              uint64_t line) {
    const ls_shard_exchange *row = &p->how->exchanges[number];
    const Exchange *exchange = &p->exchanges[number];
    const uint64_t size = type_rows[row->type].size;
    const uint64_t first = row->tile ? (uint64_t)(piece->first / row->tile) : 0;
    return (ls_comm_piece){exchange->data + exchange->offsets[piece->tensor] + first * size +
                               line * exchange->offsets[p->tensors],
                           partition_tiles(row->tile, piece->count) * size};
}

static size_t add_piece(ls_comm_piece *pieces, size_t count, ls_comm_piece made) {
    ls_comm_piece *last = count ? &pieces[count - 1] : NULL;
    if (made.bytes == 0) return count;
    if (last && (char *)last->data + last->bytes == (char *)made.data)
        last->bytes += made.bytes;
    else
        pieces[count++] = made;
    return count;
}

/* What a rank gives behind the stage; neighbours are one piece. */
static ls_status make_part(const ls_step *step, Partition *p, uint32_t stage, int rank) {
    uint64_t most = 0;
    size_t count = 0;
    for (uint32_t e = 0; e < p->how->exchange_count; e++)
        most += p->exchanges[e].rows * p->all_counts[rank];
    ls_comm_piece *pieces = calloc((size_t)most + 1, sizeof *pieces);
    if (!pieces) return error_memory(&step->context->error, "ls_step_partition");
    for (uint32_t e = 0; e < p->how->exchange_count; e++) {
        if (p->how->exchanges[e].stage != stage) continue;
        for (uint64_t line = 0; line < p->exchanges[e].rows; line++)
            for (size_t i = 0; i < p->all_counts[rank]; i++)
                count = add_piece(pieces, count, partition_piece(p, e, &p->all[rank][i], line));
    }
    free((void *)(uintptr_t)p->gathers[stage][rank].pieces);
    p->gathers[stage][rank] = (ls_comm_part){pieces, count};
    return LS_OK;
}

ls_status partition_make_parts(const ls_step *step, Partition *p) {
    ls_status status = LS_OK;
    for (uint32_t i = 0; i + 1 < p->how->stage_count; i++)
        for (int r = 0; r < p->size && status == LS_OK; r++) status = make_part(step, p, i, r);
    return status;
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
    }
    return status == LS_OK ? partition_make_parts(step, p) : status;
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
        if (row->axes[k] == argument->number || p->how->axis) break;
        place++;
    }
    /* tensors of one axis are given in any shape */
    const bool flat = p->how->axis || (own == 1 && place == 0);
    if (!flat && place == own)
        return error_set(&step->context->error, LS_ERROR_UNSUPPORTED,
                         "ls_step_partition: step `%s` asks for the length of axis `%s`, which the "
                         "tensors of `%s` lack: name a parameter that has it",
                         step->image->step, step->image->axes[argument->number].name, row->name);
    for (size_t t = 0; t < p->tensors; shape += p->ranks[t++]) {
        const size_t piece = p->piece_of[t];
        if (!flat && p->ranks[t] != own)
            return error_set(&step->context->error, LS_ERROR_ARGUMENT,
                             "ls_step_partition: tensor %zu has %u axes, and those of `%s` of step "
                             "`%s` have %u",
                             t, p->ranks[t], row->name, step->image->step, own);
        if (argument->from == LS_SHARD_BEGIN)
            values[t] = piece ? p->pieces[piece - 1].first : 0;
        else
            values[t] = flat ? p->elements[t] : shape[place];
    }
    return LS_OK;
}

size_t partition_place(const ls_step *step, const ls_shard_argument *argument) {
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
            void **place = &p->places[partition_place(step, argument)];
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

static ls_status make_how(ls_step *step, uint32_t parameter, const char *axis, bool within,
                          const ls_sharded **how) {
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
        program->maker, index, sums, step->sum_count, step->image->parameters[parameter].name, axis,
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

ls_status ls_step_partition(ls_step *step, ls_comm *comm, const ls_partition_parts *parts) {
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
        status = make_how(step, parameter, parts->axis, within || !step_is_list(step, parameter),
                          &p->how);
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
