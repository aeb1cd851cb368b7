/* lower.c: a checked step to IR.
 *
 * Needs a checked Module, in which every value is typed and every conversion written; gives a
 * Function in which the order of the statements has become values: `current` holds what each
 * parameter is worth at this point. Calls are inlined; the same function on the same values is
 * lowered once. Constant integer powers become multiplications, targets of grad get a MARK.
 *
 * A `for` ends a part of the step and begins another one (Sequence); parts.c has what a part
 * knows of the others. In it `current` is the slice at the place. */
#include <string.h>

#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"
#include "lower/lower.h"

enum { VALUES_MAX = 1 << 16 };

static ValueId lower(Lowering *l, Frame *frame, const Typed *a);

static Frame open_frame(Lowering *l, const Body *body, const ValueId *arguments) {
    return (Frame){.values = arena_alloc(l->arena, body->typed_count * sizeof(ValueId)),
                   .lets = arena_alloc(l->arena, body->let_count * sizeof(ValueId)),
                   .arguments = arguments};
}

/* r = 1, b = a; for each bit of |n| from the lowest: if set r = r * b; b = b * b while bits remain;
 * a negative n gives 1 / r. */
static ValueId power(Function *f, ValueId a, int64_t n) {
    uint64_t bits = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    Type type = (Type)f->values[a].type;
    ValueId result = 0, square = a;
    if (bits == 0) return ir_op(f, OP_POWI, a, ir_constant(f, TYPE_I64, 0), 0);
    for (; bits != 0; bits >>= 1) {
        if (bits & 1) result = result ? ir_op(f, OP_MUL, result, square, 0) : square;
        if (bits > 1) square = ir_op(f, OP_MUL, square, square, 0);
    }
    return n < 0 ? ir_op(f, OP_DIV, ir_constant_number(f, type, 1), result, 0) : result;
}

/* ---- calls ---- */

static size_t hash_call(const Instance *instance, const ValueId *arguments) {
    uint64_t hash = instance->hash;
    for (size_t i = 0; i < instance->fn->parameter_count; i++) {
        hash = (hash ^ arguments[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return (size_t)hash;
}

static Inlined *find_inlined(Lowering *l, const Instance *instance, const ValueId *arguments,
                             uint32_t draws) {
    if (l->bucket_count == 0) return NULL;
    size_t bucket = hash_call(instance, arguments) & (l->bucket_count - 1);
    for (Inlined *i = l->buckets[bucket]; i; i = i->chain) {
        bool same = i->instance == instance && i->draws == draws;
        for (size_t a = 0; same && a < instance->fn->parameter_count; a++)
            same = i->arguments[a] == arguments[a];
        if (same) return i;
    }
    return NULL;
}

static void link_inlined(Lowering *l, Inlined *inlined) {
    size_t bucket = hash_call(inlined->instance, inlined->arguments) & (l->bucket_count - 1);
    inlined->chain = l->buckets[bucket];
    l->buckets[bucket] = inlined;
}

static void add_inlined(Lowering *l, Inlined inlined) {
    if (l->inlined_count >= l->bucket_count) {
        size_t old_count = l->bucket_count;
        Inlined **old = l->buckets;
        l->bucket_count = old_count ? old_count * 4 : 64;
        l->buckets = arena_alloc(l->arena, l->bucket_count * sizeof *l->buckets);
        for (size_t b = 0; b < old_count; b++) {
            for (Inlined *i = old[b], *chain; i; i = chain) {
                chain = i->chain;
                link_inlined(l, i);
            }
        }
    }
    Inlined *kept = arena_alloc(l->arena, sizeof *kept);
    *kept = inlined;
    link_inlined(l, kept);
    l->inlined_count++;
}

static ValueId lower_call(Lowering *l, Frame *frame, const Typed *call) {
    const Instance *instance = call->instance;
    size_t count = instance->fn->parameter_count;
    ValueId *arguments = arena_alloc(l->arena, count * sizeof *arguments);
    for (size_t i = 0; i < count; i++) /* a constant is part of the instance */
        if (call->arguments[i]->kind != TYPED_CONSTANT)
            arguments[i] = lower(l, frame, call->arguments[i]);
    uint32_t draws = instance->body.draw_count ? frame->draws + (uint32_t)call->payload : 0;
    const Inlined *known = find_inlined(l, instance, arguments, draws);
    if (known) return known->result;
    Frame inner = open_frame(l, &instance->body, arguments);
    inner.draws = draws;
    ValueId result = lower(l, &inner, instance->result);
    add_inlined(l, (Inlined){instance, arguments, draws, result, NULL});
    return result;
}

/* ---- values ---- */

static ValueId lower_let(Lowering *l, Frame *frame, const Let *let) {
    ValueId *slot = &frame->lets[let->number];
    Home *home = l->sequence && frame == l->frame ? &l->homes[let->number] : NULL;
    if (*slot) return *slot;
    const bool carried = home && home->part; /* an earlier part has it */
    ValueId value = carried ? part_carry(l, *home, let->name->text, let->range, false)
                            : lower(l, frame, let->value);
    if (let->is_target) { /* with all the axes it has as a value: its gradient has them */
        value = ir_broadcast(l->f, value, let->value->axes & ~l->places);
        value = ir_op(l->f, OP_MARK, value, 0, 0);
    }
    ir_set_source(l->f, value, let->range, let->name->text);
    if (home && !carried) *home = (Home){l->part + 1, value};
    return *slot = value;
}

/* Anything of the right type and axes: what becomes of it is dropped. */
static ValueId stand_in(Lowering *l, const Typed *a) {
    return ir_broadcast(l->f, ir_constant(l->f, (Type)a->type, 0), a->axes);
}

/* What the last assignment or a `let` gave may have fewer axes than it has as a value; where it is
 * indexed or derived they matter. */
static ValueId with_axes(Lowering *l, ValueId value, const Typed *a) {
    return ir_broadcast(l->f, value, a->axes);
}

static ValueId product_of_sizes(Function *f, AxisSet axes, ValueId product) {
    for (uint32_t a = 0; a < f->axis_count; a++)
        if (axes >> a & 1) product = ir_op(f, OP_MUL, product, ir_size(f, a), 0);
    return product;
}

/* Where the element of a draw stands. What is bound may be a part of larger arrays, and its draws
 * are those of the whole: of a list every tensor has its own number, and its elements theirs, where
 * the first tensor may begin within one of the whole; a step without lists is a tensor by itself.
 * What a step with a list draws per tensor, or once for all of it, is tensor 0. */
static ValueId draw_place(Lowering *l, AxisSet over, ValueId *tensor) {
    Function *f = l->f;
    int ragged = ir_list_axis(f, over), list = ir_list_axis(f, ir_all_axes(f));
    ValueId first = ir_leaf(f, OP_FIRST, TYPE_I64, 0, 0), element;
    *tensor = list < 0 ? first : ir_constant(f, TYPE_I64, 0);
    if (ragged >= 0) {
        over &= ~((AxisSet)1 << ragged);
        *tensor = ir_op(f, OP_ADD, first, ir_index(f, (uint32_t)ragged), 0);
    }
    element = part_position(l, over);
    if (over == 0) return element;
    if (ragged >= 0 || list < 0) {
        ValueId begin = ir_leaf(f, OP_FIRST, TYPE_I64, 0, 1), zero = ir_constant(f, TYPE_I64, 0);
        if (ragged >= 0) {
            const ValueId is_first = ir_op(f, OP_EQ, ir_index(f, (uint32_t)ragged), zero, 0);
            begin = ir_op(f, OP_SELECT, is_first, begin, zero);
        }
        return ir_op(f, OP_ADD, begin, element, 0);
    }
    if (__builtin_ctz(over) != list) return element;
    return ir_op(f, OP_ADD, product_of_sizes(f, over & (over - 1), first), element, 0);
}

static ValueId draw(Lowering *l, const Frame *frame, const Typed *a, const ValueId keys[2]) {
    ValueId tensor, element = draw_place(l, (AxisSet)a->payload, &tensor);
    uint32_t ordinal = frame->draws + (uint32_t)(a->payload >> 32);
    ValueId key = ir_random_key(l->f, keys[0], keys[1], tensor, ordinal);
    return ir_op(l->f, (Op)a->op, key, element, 0);
}

/* x[t - 1] in a loop over t, whose list has a place along it. */
static ValueId gather_from_whole(Lowering *l, Frame *frame, const Typed *a) {
    bool elsewhere = false;
    for (const Typed *entry = a->args[1]; entry; entry = entry->args[1]) {
        int64_t offset = 0;
        if (l->places >> entry->payload & 1)
            elsewhere |= place_offset(entry->args[0], (uint32_t)entry->payload, &offset) && offset;
    }
    return part_gather(l, a->args[0], lower(l, frame, a->args[1]), elsewhere);
}

static ValueId lower_operation(Lowering *l, Frame *frame, const Typed *a) {
    Function *f = l->f;
    Op op = (Op)a->op;
    ValueId args[3] = {0};
    if (op == OP_SIZE) return ir_size(f, (uint32_t)a->payload);
    if (op == OP_INDEX && (l->places >> a->payload & 1)) return part_place(l, (uint32_t)a->payload);
    if (op == OP_INDEX) return ir_index(f, (uint32_t)a->payload);
    if (op == OP_GATHER && (a->args[0]->axes & l->places)) return gather_from_whole(l, frame, a);
    for (int i = 0; i < 3; i++)
        if (a->args[i]) args[i] = lower(l, frame, a->args[i]);
    if (l->too_large) return stand_in(l, a);
    if (op == OP_RUNNING) return args[0] ? args[0] : ir_running(f, (Type)a->type, a->axes);
    if (op == OP_CALL) return ir_call(f, (uint32_t)a->payload, args[0]);
    if (op == OP_LIST) return ir_list(f, args[0], args[1], a->payload);
    if (op == OP_GATHER) return ir_gather(f, with_axes(l, args[0], a->args[0]), args[1]);
    if (op == OP_GRAD) part_check_gradient(l, args[0], args[1], a->args[0]->range);
    if (op == OP_GRAD) args[0] = with_axes(l, args[0], a->args[0]);
    if (op == OP_SCAN)
        return ir_scan(f, args[0], args[1], args[2], (uint32_t)a->payload & (SCAN_REVERSE - 1),
                       a->payload & SCAN_REVERSE);
    if (op == OP_BROADCAST) return ir_broadcast(f, args[0], a->axes);
    if (op == OP_RANDOM_BITS || op == OP_RANDOM_UNIFORM || op == OP_RANDOM_NORMAL)
        return draw(l, frame, a, args);
    if (op == OP_RANDOM_KEY)
        return ir_random_key(f, args[0], args[1], args[2], (uint32_t)a->payload);
    if (op == OP_ROUND_STOCHASTIC)
        return ir_round_stochastic(f, (Type)a->payload, args[0], args[1]);
    if (op == OP_CAST) return ir_cast(f, (Type)a->type, args[0]);
    if (op == OP_ROUND_TO) return ir_round_to(f, (Type)a->payload, args[0]);
    if (op_info[op].flags & OP_REDUCTION) {
        AxisSet over = (AxisSet)a->payload; /* of what was assigned a value with fewer axes, too */
        return ir_reduce(f, op, ir_broadcast(f, args[0], ir_closure(f, over)), over);
    }
    return ir_op(f, op, args[0], args[1], args[2]);
}

/* What the last assignment gave it, or what the step received. */
static ValueId read_parameter(Lowering *l, uint32_t number) {
    const Parameter *parameter = &l->step->parameters[number];
    if (l->current[number] == 0) {
        l->current[number] = part_state(l, number);
        ir_set_source(l->f, l->current[number], parameter->range, parameter->name);
    }
    return part_slice(l, number, l->current[number]);
}

static ValueId lower_new(Lowering *l, Frame *frame, const Typed *a) {
    switch (a->kind) {
    case TYPED_PARAMETER: return read_parameter(l, (uint32_t)a->payload);
    case TYPED_LET: return lower_let(l, frame, a->let);
    case TYPED_ARGUMENT: return frame->arguments[a->payload];
    case TYPED_POWER: return power(l->f, lower(l, frame, a->args[0]), (int64_t)a->payload);
    case TYPED_CALL: return lower_call(l, frame, a);
    case TYPED_OP: return lower_operation(l, frame, a);
    default: bug(l->compiler, "an erroneous value reached lower.c");
    }
}

static ValueId lower(Lowering *l, Frame *frame, const Typed *a) {
    if (a->kind == TYPED_CONSTANT) {
        if (a->type >= TYPE_COUNT) bug(l->compiler, "an untyped constant reached lower.c");
        return ir_constant(l->f, (Type)a->type, a->payload);
    }
    if (frame->values[a->id]) return frame->values[a->id];
    l->too_large |= l->f->value_count > VALUES_MAX || l->inlined_count > VALUES_MAX;
    ValueId value;
    value = l->too_large ? stand_in(l, a) : lower_new(l, frame, a);
    ir_set_source(l->f, value, a->range, NULL);
    return frame->values[a->id] = value;
}

/* ---- the step ---- */

/* What a parameter holds, from a state at which it may not have been touched; 0 for an `out` that
 * was not assigned. */
static ValueId held(Lowering *l, const ValueId *state, uint32_t number) {
    return state[number] || !part_has_state(l, number) ? state[number] : part_state(l, number);
}

/* if condition then value else old; old does not repeat the condition. Where there is no old value
 * nobody requests it. */
static ValueId masked(Function *f, ValueId condition, ValueId value, ValueId old) {
    while (old && f->values[old].op == OP_SELECT && f->values[old].arg[0] == condition)
        old = f->values[old].arg[2];
    if (!condition || !old || old == value) return value;
    return ir_op(f, OP_SELECT, condition, value, old);
}

/* What a mask lets through. */
static ValueId unmasked(const Function *f, ValueId condition, ValueId value) {
    const Value *v = &f->values[value];
    return v->op == OP_SELECT && v->arg[0] == condition ? v->arg[1] : value;
}

static void assign_parameter(Lowering *l, Frame *frame, const Checked *s) {
    ValueId value = lower(l, frame, s->value), old = held(l, l->current, s->parameter);
    ir_set_source(l->f, value, s->range, NULL);
    value = part_with_slice(l, s->parameter, old, value);
    l->current[s->parameter] = masked(l->f, l->mask, value, old);
    l->last[s->parameter] = (Last){s->range, ++l->assignments};
}

static void lower_block(Lowering *l, Frame *frame, const Block *block);

/* A branch from `before` on, under a mask; gives what the parameters hold then. */
static ValueId *lower_branch(Lowering *l, Frame *frame, const Block *block, const ValueId *before,
                             ValueId mask) {
    ValueId outer = l->mask, *current = l->current;
    size_t size = l->parameter_count * sizeof *before;
    l->current = arena_alloc(l->arena, size);
    if (size) memcpy(l->current, before, size);
    l->mask = mask;
    lower_block(l, frame, block);
    ValueId *after = l->current;
    l->current = current;
    l->mask = outer;
    return after;
}

/* A `when` with a `for` in it: what is assigned in a branch is masked, part by part. */
static void lower_when_parts(Lowering *l, Frame *frame, const Checked *s) {
    Branch branch = {.home = {l->part + 1, lower(l, frame, s->value)},
                     .range = s->value->range,
                     .outer = l->branch};
    for (int i = 0; i < 2; i++) {
        branch.negated = i == 1;
        l->branch = &branch;
        l->mask = part_mask(l);
        lower_block(l, frame, &s->branches[i]);
        l->branch = branch.outer;
    }
    l->mask = part_mask(l);
}

static void lower_loop(Lowering *l, Frame *frame, const Checked *s) {
    Sequence *q = l->sequence;
    const uint32_t outer = l->loop;
    q->loops = arena_grow(l->arena, q->loops, q->loop_count, &q->loop_capacity, sizeof *q->loops);
    q->loops[q->loop_count++] =
        (Loop){.axis = s->axis, .outer = outer, .reverse = s->reverse, .range = s->range};
    l->loop = (uint32_t)q->loop_count;
    part_open(l);
    lower_block(l, frame, s->body);
    l->loop = outer;
    part_open(l);
}

/* In a branch whose condition has rank 0 an assignment is what it is: nothing in it is seen where
 * the condition does not hold. Elsewhere it is masked at once, since reductions and gathers cover
 * all elements. */
static void lower_when(Lowering *l, Frame *frame, const Checked *s) {
    Function *f = l->f;
    ValueId condition = lower(l, frame, s->value), before[2] = {l->mask, l->mask}, is_not = 0;
    bool per_element = f->values[condition].axes != 0;
    if (per_element) {
        is_not = ir_op(f, OP_NOT, condition, 0, 0);
        before[0] = l->mask ? ir_op(f, OP_AND, l->mask, condition, 0) : condition;
        before[1] = l->mask ? ir_op(f, OP_AND, l->mask, is_not, 0) : is_not;
    }
    const ValueId *yes = lower_branch(l, frame, &s->branches[0], l->current, before[0]);
    const ValueId *no = lower_branch(l, frame, &s->branches[1], l->current, before[1]);
    for (uint32_t p = 0; p < l->parameter_count; p++) {
        ValueId old = l->current[p], a = yes[p], b = no[p];
        if (a == b || (per_element && b == old)) {
            l->current[p] = a;
            continue;
        }
        if (per_element && a == old) {
            l->current[p] = b;
            continue;
        }
        a = held(l, yes, p);
        b = held(l, no, p);
        if (per_element && l->mask == 0) {
            a = unmasked(f, condition, a);
            b = unmasked(f, is_not, b);
        }
        l->current[p] = a ? masked(f, condition, a, b) : b;
    }
}

static void lower_block(Lowering *l, Frame *frame, const Block *block) {
    for (size_t i = 0; i < block->count; i++) {
        const Checked *s = &block->statements[i];
        if (s->let)
            lower_let(l, frame, s->let);
        else if (s->body)
            lower_loop(l, frame, s);
        else if (s->loops)
            lower_when_parts(l, frame, s);
        else if (s->branches)
            lower_when(l, frame, s);
        else
            assign_parameter(l, frame, s);
    }
}

/* In the order of the last assignments. */
static void store_all(Lowering *l) {
    size_t count = l->f->parameter_count;
    for (size_t stored = 0, order = 0; stored < count; stored++) {
        size_t next = count;
        for (size_t p = 0; p < count; p++)
            if (l->last[p].order > order &&
                (next == count || l->last[p].order < l->last[next].order))
                next = p;
        if (next == count) return;
        order = l->last[next].order;
        ir_store(l->f, (uint32_t)next, l->current[next], 0, l->last[next].range);
    }
}

Function *lower_step(Compiler *compiler, const Module *module, size_t index, Sequence **sequence) {
    const Checker *checker = module->checker;
    const Step *step = module->steps[index]->checked;
    Arena *arena = &compiler->arena;
    Function *f = ir_function(compiler, arena, step->name);
    f->range = step->range;
    f->math = compiler->options->math != LS_MATH_SOURCE ? compiler->options->math : step->math;
    f->functions = checker->c_functions;
    f->function_count = checker->c_function_count;
    f->axes = step->axes;
    f->axis_count = step->axis_count;
    f->parameters = step->parameters;
    f->parameter_count = f->parameter_capacity = step->parameter_count;
    Lowering l = {.compiler = compiler, .arena = arena, .f = f, .step = step};
    l.parameter_count = step->parameter_count + step->local_count;
    l.current = arena_alloc(arena, l.parameter_count * sizeof *l.current);
    l.last = arena_alloc(arena, l.parameter_count * sizeof *l.last);
    Frame frame = open_frame(&l, &step->body, NULL);
    *sequence = NULL;
    l.frame = &frame;
    if (step->looped) {
        l.sequence = *sequence = sequence_open(&l, f);
        if (!l.sequence) return NULL;
        part_open(&l);
    }
    size_t errors = compiler->error_count;
    lower_block(&l, &frame, &step->block);
    if (l.sequence)
        sequence_close(&l);
    else
        store_all(&l);
    if (compiler->error_count != errors) return NULL;
    if (!l.too_large) return f;
    diagnose(compiler, ERROR_TOO_LARGE, step->range, step->name, VALUES_MAX);
    return NULL;
}
