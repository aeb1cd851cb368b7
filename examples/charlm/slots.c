/* slots.c: a batch in slots, computed by whichever rank, with the same bits for any number of them.
 *
 * A slot is the same launches and products on the same shapes wherever it runs, and draws by its
 * own number. Gradients of slots are added in f32 as a balanced tree, neighbours first. A rank owns
 * S/N slots in a row and adds them with a binary counter: buffer i has the sum of slots that buffer
 * i - 1 waits for. Then each rank gets the partial sums of the part of all parameters whose moments
 * it keeps, and the step that updates them adds what came, the upper levels of the tree, as it
 * loads. That step is written over all parameters; ls_step_partition runs it on a rank's part. With
 * --buckets the sums go to their ranks in parts: the last slot's backward pass runs in sections,
 * behind each of which what is whole is added up and sent while the next section runs. */
#include "charlm.h"

#include <stdlib.h>
#include <string.h>

enum { LEVELS_MAX = 11 };

typedef struct Bucket {
    Tape section; /* of the last pass's tape, whose operations it shares */
    Tape behind;  /* adds up and begins the exchange */
} Bucket;

struct Slots {
    Model *model;
    int64_t count, own, first; /* slots: all, this rank's, its first */
    size_t levels;             /* gradient buffers of this rank */
    Array *buffers[LEVELS_MAX];
    Pass passes[LEVELS_MAX];
    Tape clears[LEVELS_MAX], adds[LEVELS_MAX]; /* adds[i]: buffer i + 1 to i */
    Tape keep, update;
    Bucket *buckets; /* with --buckets and other ranks */
    size_t bucket_count;
    Array total, letters, totals, counts, slot; /* the loss of a slot; those of all */
    ls_cut *cuts;
    /* By rank, the pieces that it owns: of the gradients here, of the weights; */
    Lot *gradients, *values;
    Lot *received; /* and of this rank's pieces the gradients from each rank; */
    Lot first_moment, second_moment;
    Lot *whole_first, *whole_second; /* on rank 0, of all moments those that a rank owns */
};

static bool out_of_memory(Machine *machine) {
    if (!machine->failed) fail("out of host memory");
    machine->failed = true;
    return false;
}

static int ranks_of(const Slots *slots) {
    return ls_comm_size(slots->model->machine->comm);
}

static int rank_of(const Slots *slots) {
    return ls_comm_rank(slots->model->machine->comm);
}

/* ---- pieces ---- */

/* The types and shapes of all parameters; NULL after a failure. */
static ls_tensor *shapes_of(const Slots *slots) {
    const Parameters *all = &slots->model->parameters;
    ls_tensor *tensors = calloc(all->count, sizeof *tensors);
    for (size_t i = 0; tensors && i < all->count; i++)
        tensors[i] =
            (ls_tensor){.type = LS_F32, .rank = all->values[i].rank, .shape = all->values[i].shape};
    if (!tensors) out_of_memory(slots->model->machine);
    return tensors;
}

static ls_partition_piece *pieces_of(const Slots *slots, int rank, size_t *count) {
    const size_t all = slots->model->parameters.count;
    ls_tensor *tensors = shapes_of(slots);
    ls_partition_piece *pieces = calloc(all + 1, sizeof *pieces);
    *count = 0;
    if (tensors && pieces)
        *count = ls_partition_run(tensors, all, slots->cuts, rank, pieces);
    else
        out_of_memory(slots->model->machine);
    free(tensors);
    return pieces;
}

static bool cut(Slots *slots) {
    Machine *machine = slots->model->machine;
    ls_tensor *tensors = shapes_of(slots);
    slots->cuts = calloc((size_t)ranks_of(slots) + 1, sizeof *slots->cuts);
    bool ok = tensors && slots->cuts;
    if (!ok) out_of_memory(machine);
    ok = ok && machine_check(machine,
                             ls_partition(tensors, slots->model->parameters.count, NULL,
                                          ranks_of(slots), slots->cuts),
                             "dividing the parameters");
    free(tensors);
    return ok;
}

/* Of a list of arrays those elements that a rank owns; of a NULL list memory of their own. */
static Lot lot_of(Slots *slots, const Array *list, int rank) {
    Machine *machine = slots->model->machine;
    size_t count;
    ls_partition_piece *pieces = pieces_of(slots, rank, &count);
    Lot lot = {.arrays = calloc(count + 1, sizeof(Array)), .count = count};
    if (!lot.arrays) out_of_memory(machine);
    for (size_t i = 0; i < count && !machine->failed; i++) {
        const ls_partition_piece *piece = &pieces[i];
        lot.arrays[i] = list ? array_slice(list[piece->tensor], piece->first, piece->count)
                             : ARRAY(machine, LS_F32, piece->count);
    }
    free(pieces);
    return lot;
}

static Lot *lots_of(Slots *slots, const Array *list) {
    Lot *lots = calloc((size_t)ranks_of(slots), sizeof *lots);
    if (!lots) out_of_memory(slots->model->machine);
    for (int rank = 0; lots && rank < ranks_of(slots); rank++)
        lots[rank] = lot_of(slots, list, rank);
    return lots;
}

static void free_lots(const Slots *slots, Lot *lots) {
    for (int rank = 0; lots && rank < ranks_of(slots); rank++) free(lots[rank].arrays);
    free(lots);
}

/* ---- one slot after the other ---- */

static void make_buffers(Slots *slots) {
    Model *model = slots->model;
    Machine *machine = model->machine;
    const Parameters *all = &model->parameters;
    slots->levels = 1;
    for (int64_t own = slots->own; own > 1; own /= 2) slots->levels++;
    for (size_t level = 0; level < slots->levels && !machine->failed; level++) {
        slots->buffers[level] = calloc(all->count, sizeof(Array));
        if (!slots->buffers[level]) out_of_memory(machine);
        for (size_t i = 0; i < all->count && !machine->failed; i++)
            slots->buffers[level][i] =
                machine_array(machine, LS_F32, all->values[i].rank, all->values[i].shape);
    }
}

static void make_tapes(Slots *slots) {
    Model *model = slots->model;
    Machine *machine = model->machine;
    const size_t count = model->parameters.count;
    const int64_t micro = model->options->micro;
    slots->total = machine_array(machine, LS_F32, 0, NULL);
    slots->letters = machine_array(machine, LS_I64, 0, NULL);
    slots->slot = machine_array(machine, LS_I64, 0, NULL);
    slots->totals = ARRAY(machine, LS_F32, slots->count);
    slots->counts = ARRAY(machine, LS_I64, slots->count);
    for (size_t level = 0; level < slots->levels && !machine->failed; level++) {
        Array *buffer = slots->buffers[level];
        STEP(machine, machine->plain, &slots->clears[level], "clear_gradients",
             LIST("g", buffer, count));
        pass_open(
            model, PASS_SLOT,
            (PassInput){.gradients = buffer, .total = slots->total, .letters = slots->letters},
            &slots->passes[level]);
        if (level > 0)
            STEP(machine, machine->plain, &slots->adds[level - 1], "add_gradients",
                 LIST("a", slots->buffers[level - 1], count), LIST("b", buffer, count));
    }
    STEP(machine, machine->plain, &slots->keep, "keep_slot", BIND("total", slots->total),
         BIND("letters", slots->letters), BIND("totals", slots->totals),
         BIND("counts", slots->counts), BIND("slot", slots->slot),
         BIND("draws", model->state.draws), VALUE("first", (double)slots->first),
         VALUE("own", (double)slots->own),
         VALUE("others", (double)((slots->count - slots->own) * micro)));
}

static void add_pass(Slots *slots, Routine *routine, size_t at, bool last) {
    Machine *machine = slots->model->machine;
    const long whole = slots->model->options->micro - (last && slots->bucket_count > 0);
    routine_add(machine, routine, &slots->clears[at]);
    for (long i = 0; i < whole; i++) routine_add(machine, routine, &slots->passes[at].tape);
    for (size_t b = 0; last && b < slots->bucket_count; b++) {
        routine_add(machine, routine, &slots->buckets[b].section);
        routine_add(machine, routine, &slots->buckets[b].behind);
    }
    routine_add(machine, routine, &slots->keep);
}

/* The sum of 2^level slots in buffer `at`; `last`: buckets add up what comes behind the last. */
static void add_slots(Slots *slots, Routine *routine, size_t level, size_t at, bool last) {
    if (level == 0) {
        add_pass(slots, routine, at, last);
        return;
    }
    add_slots(slots, routine, level - 1, at, false);
    add_slots(slots, routine, level - 1, at + 1, last);
    if (!last || slots->bucket_count == 0)
        routine_add(slots->model->machine, routine, &slots->adds[at]);
}

void slots_fill(Model *model, Routine *routine) {
    Slots *slots = model->slots;
    add_slots(slots, routine, slots->levels - 1, 0, true);
    routine_add(model->machine, routine, &slots->update);
}

/* ---- buckets ---- */

/* What of a lot, a rank's pieces, is of the parameters from `first` to before `last`. */
static Lot lot_within(const Slots *slots, const Lot *lot, int rank, size_t first, size_t last) {
    size_t count, begin = 0;
    ls_partition_piece *pieces = pieces_of(slots, rank, &count);
    while (pieces && begin < count && pieces[begin].tensor < first) begin++;
    Lot part = {lot->arrays + begin, 0};
    while (pieces && begin + part.count < count && pieces[begin + part.count].tensor < last)
        part.count++;
    free(pieces);
    return part;
}

/* Adds the buffers that the last pass ends, the upper one to the one below, and begins to send. */
static void fill_bucket(Slots *slots, Tape *tape, size_t first, size_t last) {
    Machine *machine = slots->model->machine;
    const int size = ranks_of(slots), rank = rank_of(slots);
    Lot *send = calloc((size_t)size, sizeof *send), *receive = calloc((size_t)size, sizeof *send);
    if (!send || !receive) out_of_memory(machine);
    for (size_t level = slots->levels - 1; level > 0 && !machine->failed; level--)
        STEP(machine, machine->plain, tape, "add_gradients",
             LIST("a", &slots->buffers[level - 1][first], last - first),
             LIST("b", &slots->buffers[level][first], last - first));
    for (int r = 0; r < size && !machine->failed; r++) {
        send[r] = lot_within(slots, &slots->gradients[r], r, first, last);
        receive[r] = lot_within(slots, &slots->received[r], rank, first, last);
    }
    if (!machine->failed) tape_begin_transfer(machine, tape, send, receive);
    free(send);
    free(receive);
}

static void make_buckets(Slots *slots) {
    Machine *machine = slots->model->machine;
    const Pass *pass = &slots->passes[slots->levels - 1];
    const size_t marks = pass->ready_count, asked = (size_t)slots->model->options->buckets;
    const size_t count = asked < marks ? asked : marks;
    size_t at = 0;
    if (count == 0 || ranks_of(slots) == 1) return;
    slots->buckets = calloc(count, sizeof *slots->buckets);
    if (!slots->buckets) {
        out_of_memory(machine);
        return;
    }
    slots->bucket_count = count;
    for (size_t b = 0; b < count && !machine->failed; b++) { /* backwards through the parameters */
        const Ready *from = &pass->ready[marks * b / count];
        const Ready *to = &pass->ready[marks * (b + 1) / count - 1];
        const size_t end = b + 1 < count ? to->at : pass->tape.count;
        slots->buckets[b].section =
            (Tape){.operations = pass->tape.operations + at, .count = end - at};
        fill_bucket(slots, &slots->buckets[b].behind, to->first, from->last);
        at = end;
    }
}

/* ---- between the ranks ---- */

static void make_lots(Slots *slots) {
    Model *model = slots->model;
    Machine *machine = model->machine;
    Parameters *all = &model->parameters;
    const int rank = rank_of(slots);
    slots->received = calloc((size_t)ranks_of(slots), sizeof(Lot));
    if (!slots->received || !cut(slots)) {
        out_of_memory(machine);
        return;
    }
    slots->gradients = lots_of(slots, slots->buffers[0]);
    slots->values = lots_of(slots, all->values);
    for (int from = 0; from < ranks_of(slots); from++) /* one's own are where they are */
        slots->received[from] = lot_of(slots, from == rank ? slots->buffers[0] : NULL, rank);
    const bool alone = ranks_of(slots) == 1;
    slots->first_moment = lot_of(slots, alone ? all->first : NULL, rank);
    slots->second_moment = lot_of(slots, alone ? all->second : NULL, rank);
    if (alone || !model->whole_moments) return;
    slots->whole_first = lots_of(slots, all->first);
    slots->whole_second = lots_of(slots, all->second);
}

/* Exchange, norm, update, and the new weights to all. */
static void make_update(Slots *slots) {
    Model *model = slots->model;
    Machine *machine = model->machine;
    Parameters *all = &model->parameters;
    const Options *o = model->options;
    State *state = &model->state;
    const int rank = rank_of(slots), size = ranks_of(slots);
    const size_t count = slots->values ? slots->values[rank].count : 0;
    const Array **parts = calloc((size_t)size, sizeof *parts);
    Lot *losses = calloc((size_t)size, sizeof *losses);
    Array(*ranges)[2] = calloc((size_t)size, sizeof *ranges);
    ls_tensor *shapes = shapes_of(slots);
    if (!parts || !losses || !ranges) out_of_memory(machine);
    for (int r = 0; r < size && !machine->failed; r++) {
        const int64_t share = slots->count / size;
        parts[r] = slots->received[r].arrays;
        ranges[r][0] = array_slice(slots->totals, r * share, share);
        ranges[r][1] = array_slice(slots->counts, r * share, share);
        losses[r] = (Lot){ranges[r], 2};
    }
    if (!machine->failed) {
        if (slots->bucket_count > 0)
            tape_wait(machine, &slots->update);
        else
            tape_transfer(machine, &slots->update, slots->gradients, slots->received);
        tape_transfer(machine, &slots->update, NULL, losses);
        const Argument arguments[] = {
            LIST("p", slots->values[rank].arrays, count),
            LIST("m", slots->first_moment.arrays, count),
            LIST("v", slots->second_moment.arrays, count),
            SUM("g", parts, (size_t)size, count),
            BIND("decay", model_numbers(model, all->decay, all->count)),
            VALUE("ones", 1),
            BIND("totals", slots->totals),
            BIND("counts", slots->counts),
            BIND("count", state->count),
            BIND("scale", state->scale),
            BIND("good", state->good),
            BIND("skipped", state->skipped),
            BIND("total", state->total),
            BIND("batches", state->batches),
            BIND("lr", state->rate),
            BIND("length", state->norm),
            VALUE("peak", o->rate),
            VALUE("last", o->last),
            VALUE("warm", (double)o->warm),
            VALUE("steps", (double)o->steps),
            VALUE("limit", o->clip),
        };
        const ls_partition_parts whole = {
            .tensors = shapes, .count = all->count, .cuts = slots->cuts};
        tape_step_on_parts(machine, machine->plain, &slots->update, "update_part", arguments,
                           COUNT(arguments), &whole);
        tape_transfer(machine, &slots->update, NULL, slots->values);
        if (model->type != LS_F32)
            STEP(machine, machine->plain, &slots->update, "copy_weights",
                 LIST("p", all->values, all->count), LIST("w", all->working, all->count));
    }
    free(parts);
    free(losses);
    free(ranges);
    free(shapes);
}

/* ---- moments at one place, and at theirs ---- */

static void gather_moments(Model *model, Lot own, Lot *whole) {
    Slots *slots = model->slots;
    Machine *machine = model->machine;
    const int rank = rank_of(slots), size = ranks_of(slots);
    Tape tape = {0};
    Lot *at_0 = calloc((size_t)size, sizeof *at_0), *elsewhere = calloc((size_t)size, sizeof *at_0);
    if (!at_0 || !elsewhere) out_of_memory(machine);
    for (int r = 0; r < size && !machine->failed; r++) {
        if (r == 0) elsewhere[r] = own;
        if (rank == 0) at_0[r] = whole[r];
    }
    if (!machine->failed) tape_transfer(machine, &tape, elsewhere, at_0);
    tape_run(machine, &tape);
    tape_close(&tape);
    free(at_0);
    free(elsewhere);
}

void slots_gather_moments(Model *model) {
    Slots *slots = model->slots;
    if (!slots || ranks_of(slots) == 1) return;
    gather_moments(model, slots->first_moment, slots->whole_first);
    gather_moments(model, slots->second_moment, slots->whole_second);
}

void slots_piece(const Model *model, SlotsPart part, size_t parameter, Array *piece,
                 int64_t *begin) {
    const Slots *slots = model->slots;
    const Lot *const lots[] = {
        [SLOTS_VALUES] = &slots->values[rank_of(slots)],
        [SLOTS_FIRST] = &slots->first_moment,
        [SLOTS_SECOND] = &slots->second_moment,
    };
    size_t count;
    ls_partition_piece *pieces = pieces_of(slots, rank_of(slots), &count);
    *piece = (Array){.type = LS_F32, .rank = 1};
    *begin = 0;
    for (size_t i = 0; pieces && i < count; i++) {
        if (pieces[i].tensor != parameter) continue;
        *piece = lots[part]->arrays[i];
        *begin = pieces[i].first;
    }
    free(pieces);
}

/* ---- life ---- */

bool slots_open(Model *model) {
    Machine *machine = model->machine;
    Slots *slots = calloc(1, sizeof *slots);
    if (!slots) return out_of_memory(machine);
    *slots = (Slots){.model = model, .count = model->options->slots};
    model->slots = slots;
    slots->own = slots->count / ranks_of(slots);
    slots->first = slots->own * rank_of(slots);
    make_buffers(slots);
    if (!machine->failed) make_lots(slots);
    if (!machine->failed) make_tapes(slots);
    if (!machine->failed) make_buckets(slots);
    if (!machine->failed) make_update(slots);
    return !machine->failed;
}

/* Draws are counted from the first slot of all. */
void slots_begin(Model *model) {
    const Slots *slots = model->slots;
    int64_t draws = 0;
    if (!slots) return;
    array_read(model->machine, model->state.draws, &draws);
    draws += slots->first * model->options->micro;
    array_write(model->machine, model->state.draws, &draws);
    array_write(model->machine, slots->slot, &slots->first);
}

void slots_describe(const Model *model) {
    const Slots *slots = model->slots;
    const Options *o = model->options;
    const int size = ranks_of(slots);
    int64_t own = 0, sent = 0;
    for (size_t i = 0; i < slots->first_moment.count; i++)
        own += array_size(slots->first_moment.arrays[i]);
    for (int rank = 0; rank < size; rank++)
        for (size_t i = 0; rank != rank_of(slots) && i < slots->gradients[rank].count; i++)
            sent += array_size(slots->gradients[rank].arrays[i]);
    printf("ranks    %d by %s; %lld slots of %lld windows; each rank has the moments of a part, "
           "this one\n         %lld of %lld; a step sends %.3g MB of gradients and %.3g MB of "
           "weights\n",
           size, ls_comm_engine(model->machine->comm), (long long)slots->count,
           (long long)(o->batch / slots->count), (long long)own, (long long)model_size(model),
           (double)sent * 4e-6, (double)own * (size - 1) * 4e-6);
}

void slots_close(Slots *slots) {
    if (!slots) return;
    for (size_t level = 0; level < LEVELS_MAX; level++) {
        pass_close(&slots->passes[level]);
        tape_close(&slots->clears[level]);
        tape_close(&slots->adds[level]);
        free(slots->buffers[level]);
    }
    for (size_t b = 0; b < slots->bucket_count; b++) tape_close(&slots->buckets[b].behind);
    free(slots->buckets);
    tape_close(&slots->keep);
    tape_close(&slots->update);
    free_lots(slots, slots->gradients);
    free_lots(slots, slots->values);
    free_lots(slots, slots->received);
    free_lots(slots, slots->whole_first);
    free_lots(slots, slots->whole_second);
    free(slots->first_moment.arrays);
    free(slots->second_moment.arrays);
    free(slots->cuts);
    free(slots);
}

bool slots_agree(Model *model, bool yes) {
    Machine *machine = model->machine;
    int64_t answer = yes;
    if (ls_comm_size(machine->comm) == 1 || machine->failed) return yes;
    const Array cell = model->slots->letters; /* which is 0 between steps */
    const ls_comm_piece piece = {cell.data, sizeof answer};
    const ls_comm_part part = {&piece, 1};
    array_write(machine, cell, &answer);
    machine_check(machine, ls_comm_broadcast(machine->comm, 0, &part), "agreeing with rank 0");
    array_read(machine, cell, &answer);
    array_write(machine, cell, &(int64_t){0});
    return answer != 0;
}
