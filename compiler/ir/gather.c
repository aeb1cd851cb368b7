/* gather.c: indexing pushed down to what lies in memory.
 *
 * Needs a simplified function; gives one, to be simplified again where it changed, with the same
 * stores' values in which the source of every GATHER is a parameter, a reduction, a scan or a
 * scatter. An expression at other coordinates is the same expression over its operands at those
 * coordinates: INDEX, POSITION and SIZE become what the list says, a gather inside one becomes a
 * gather with the lists put together, and what does not vary over the listed axes stays. Around the
 * whole stands `if every index is in range then ... else 0`; a gather from memory has that of
 * itself.
 *
 * Each value is rebuilt once for each list. Sums of an index and constants are folded, so that
 * shifts of shifts to the same place are one list. */
#include "base/base.h"
#include "ir/ir.h"

enum { VALUES_MAX = 1 << 18 };

typedef struct Known {
    ValueId value, list, at;
} Known;

typedef struct Gathering {
    Function *f;  /* the new function */
    Known *known; /* what a value is at the coordinates of a list: a hash table */
    size_t known_count, known_capacity;
    ValueId *stack;
    size_t stack_capacity;
} Gathering;

/* ---- what is known ---- */

static Known *find_known(const Gathering *g, ValueId value, ValueId list) {
    size_t at = (value * UINT64_C(0x9e3779b97f4a7c15) ^ list * UINT64_C(0xff51afd7ed558ccd)) >> 20;
    while (true) {
        Known *k = &g->known[at++ & (g->known_capacity - 1)];
        if (k->value == 0 || (k->value == value && k->list == list)) return k;
    }
}

static void learn(Gathering *g, ValueId value, ValueId list, ValueId at) {
    if (2 * g->known_count >= g->known_capacity) {
        Gathering before = *g;
        g->known_capacity = before.known_capacity ? 2 * before.known_capacity : 64;
        g->known = arena_alloc(g->f->arena, g->known_capacity * sizeof *g->known);
        for (size_t i = 0; i < before.known_capacity; i++)
            if (before.known[i].value)
                *find_known(g, before.known[i].value, before.known[i].list) = before.known[i];
    }
    *find_known(g, value, list) = (Known){value, list, at};
    g->known_count++;
}

static ValueId at_known(const Gathering *g, ValueId value, ValueId list) {
    return g->known_capacity ? find_known(g, value, list)->at : 0;
}

/* ---- coordinates ---- */

static ValueId number(Function *f, int64_t value) {
    return ir_constant(f, TYPE_I64, (uint64_t)value);
}

/* a + constant, of i64: (x + 1) + 2 is x + 3. */
static ValueId add_number(Function *f, ValueId a, uint64_t constant) {
    Value v = f->values[a];
    if (v.op == OP_CONST) return ir_constant(f, TYPE_I64, v.payload + constant);
    if ((v.op == OP_ADD || v.op == OP_SUB) && f->values[v.arg[1]].op == OP_CONST) {
        uint64_t inner = f->values[v.arg[1]].payload;
        constant += v.op == OP_ADD ? inner : 0 - inner;
        a = v.arg[0];
    }
    return constant ? ir_op(f, OP_ADD, a, ir_constant(f, TYPE_I64, constant), 0) : a;
}

static ValueId entry_of(const Function *f, ValueId list, int axis) {
    while (list && f->values[list].payload != (uint64_t)axis) list = f->values[list].arg[1];
    return list ? f->values[list].arg[0] : 0;
}

/* The index the list gives to an axis; 0 where the axis is its own. */
static ValueId coordinate(Function *f, ValueId list, int axis) {
    const Axis *row = &f->axes[axis];
    ValueId direct = entry_of(f, list, axis);
    ValueId whole = direct || row->whole < 0 ? 0 : entry_of(f, list, row->whole);
    if (!whole) return direct;
    Op op = f->axes[row->whole].block == axis ? OP_FLOORDIV : OP_MOD;
    return ir_op(f, op, whole, number(f, row->length), 0);
}

static bool lists(const Function *f, ValueId list, int axis) {
    return axis >= 0 && (ir_listed(f, list) >> axis & 1);
}

/* The length of an axis in the tensor and block that the list gives. Where the tensor is another
 * one the lengths are counted, so that they lie in memory. */
static ValueId size_at(Function *f, ValueId list, int axis) {
    const Axis *row = &f->axes[axis];
    if (row->fixed >= 0) return number(f, row->fixed);
    if (row->whole >= 0) {
        const Axis *whole = &f->axes[row->whole];
        bool counts = whole->block == axis;
        if (!lists(f, list, whole->parent) && (counts || !lists(f, list, whole->block)))
            return ir_size(f, (uint32_t)axis);
        ValueId size = size_at(f, list, row->whole);
        if (counts)
            return ir_op(f, OP_FLOORDIV, add_number(f, size, (uint64_t)row->length - 1),
                         number(f, row->length), 0);
        ValueId block = coordinate(f, list, whole->block);
        if (!block) block = ir_index(f, (uint32_t)whole->block);
        ValueId before = ir_op(f, OP_MUL, block, number(f, row->length), 0);
        return ir_op(f, OP_MIN, number(f, row->length), ir_op(f, OP_SUB, size, before, 0), 0);
    }
    if (!lists(f, list, row->parent)) return ir_size(f, (uint32_t)axis);
    AxisSet along = ir_expand(f, (AxisSet)1 << axis);
    ValueId ones = ir_broadcast(f, number(f, 1), ir_closure(f, along));
    ValueId parent = ir_list(f, entry_of(f, list, row->parent), 0, (uint64_t)row->parent);
    return ir_gather(f, ir_reduce(f, OP_SUM, ones, along), parent);
}

/* The flat index over the axes at the coordinates of the list. */
static ValueId position_at(Function *f, ValueId list, AxisSet over) {
    ValueId sum = 0;
    for (int axis = 0; axis < (int)f->axis_count; axis++) {
        if (!(over >> axis & 1)) continue;
        const Axis *row = &f->axes[axis];
        int whole = row->whole;
        bool flat = whole >= 0 && f->axes[whole].block == axis && over >> f->axes[whole].rest & 1;
        ValueId index = flat ? entry_of(f, list, whole) : coordinate(f, list, axis);
        if (!index && flat && !(lists(f, list, axis) || lists(f, list, f->axes[whole].rest)))
            index = ir_index(f, (uint32_t)whole);
        if (!index && flat) {
            ValueId block = coordinate(f, list, axis), rest = coordinate(f, list, axis + 1);
            if (!block) block = ir_index(f, (uint32_t)axis);
            if (!rest) rest = ir_index(f, (uint32_t)axis + 1);
            index = ir_op(f, OP_MUL, block, number(f, row->length), 0);
            index = ir_op(f, OP_ADD, index, rest, 0);
        }
        if (!index) index = ir_index(f, (uint32_t)axis);
        ValueId size = sum ? size_at(f, list, flat ? whole : axis) : 0;
        sum = sum ? ir_op(f, OP_ADD, ir_op(f, OP_MUL, sum, size, 0), index, 0) : index;
        if (flat) axis++; /* its rest follows it */
    }
    return sum;
}

/* all and test, where there is a test */
static ValueId both(Function *f, ValueId all, ValueId test) {
    if (all == 0 || test == 0) return all ? all : test;
    return ir_op(f, OP_AND, all, test, 0);
}

/* An own index less something is below the size, and one plus something is not below 0. */
ValueId gather_in_range(Function *f, ValueId list, AxisSet axes) {
    enum { FAR = INT32_MAX }; /* beyond it an index might wrap */
    ValueId all = 0, zero = number(f, 0);
    for (ValueId entry = list; entry; entry = f->values[entry].arg[1]) {
        ValueId index = f->values[entry].arg[0];
        uint32_t axis = (uint32_t)f->values[entry].payload;
        AxisSet self = ir_expand(f, (AxisSet)1 << axis);
        if (!(self & axes)) continue;
        const Value *v = &f->values[index], *by = &f->values[v->arg[1]];
        bool moved = v->op == OP_ADD && by->op == OP_CONST;
        int64_t distance = moved ? (int64_t)by->payload : 0;
        bool own = (moved ? v->arg[0] : index) == ir_index(f, axis) && distance <= FAR &&
                   distance >= -FAR && !(ir_closure(f, self) & ~self & ir_listed(f, list));
        if (!own || distance < 0) all = both(f, all, ir_op(f, OP_GE, index, zero, 0));
        if (!own || distance > 0)
            all = both(f, all, ir_op(f, OP_LT, index, size_at(f, list, (int)axis), 0));
    }
    return all;
}

/* ---- lists ---- */

/* `index` in front of the list. */
static ValueId put(Function *f, ValueId list, int axis, ValueId index) {
    return ir_list(f, index, list, (uint64_t)axis);
}

/* The entries of a list in the order of their axes, with what is its own coordinate left out: each
 * list has one form. */
static ValueId ordered(Function *f, ValueId list) {
    ValueId index[LS_AXES_MAX] = {0};
    AxisSet left = 0;
    for (ValueId entry = list; entry; entry = f->values[entry].arg[1]) {
        const Value *v = &f->values[entry];
        index[v->payload] = add_number(f, v->arg[0], 0);
    }
    for (int axis = 0; axis < (int)f->axis_count; axis++) {
        AxisSet self = ir_expand(f, (AxisSet)1 << axis);
        bool hangs = ir_closure(f, self) & left; /* on one that is another's: not its own then */
        if (index[axis] && (hangs || index[axis] != ir_index(f, (uint32_t)axis)))
            left |= self;
        else
            index[axis] = 0;
    }
    ValueId result = 0;
    for (int axis = (int)f->axis_count; axis-- > 0;)
        if (index[axis]) result = put(f, result, axis, index[axis]);
    return result;
}

/* What a list says of the axes of a source; `own` are those that are wanted. */
static ValueId restricted(Function *f, ValueId list, AxisSet source, AxisSet own, ValueId onto) {
    for (ValueId entry = list; entry; entry = f->values[entry].arg[1]) {
        Value v = f->values[entry];
        AxisSet axes = ir_expand(f, (AxisSet)1 << v.payload) & source;
        if ((axes & own) == axes && axes)
            onto = put(f, onto, (int)v.payload, v.arg[0]);
        else if (axes & own) /* the block of a whole whose rest is told otherwise */
            onto = put(f, onto, __builtin_ctz(axes & own),
                       coordinate(f, list, __builtin_ctz(axes & own)));
    }
    return onto;
}

/* A gather from what lies in memory. */
static ValueId from_memory(Function *f, ValueId source, ValueId list) {
    list = ordered(f, list);
    return list ? ir_gather(f, source, list) : source;
}

/* ---- one gather ---- */

static bool in_memory(const Value *v) {
    return v->op == OP_PARAMETER || (op_info[v->op].flags & (OP_REDUCTION | OP_ARRAY));
}

/* The value at the list's coordinates, when its operands there are known. */
static ValueId build_at(Gathering *g, ValueId id, ValueId list) {
    Function *f = g->f;
    Value v = f->values[id];
    AxisSet listed = ir_listed(f, list);
    if (v.op != OP_LIST && !(v.axes & listed)) return id;
    if (in_memory(&v)) return from_memory(f, id, restricted(f, list, v.axes, v.axes, 0));
    if (v.op == OP_INDEX) {
        ValueId index = coordinate(f, list, (int)v.payload);
        return index ? index : id;
    }
    if (v.op == OP_SIZE) return size_at(f, list, (int)v.payload);
    if (v.op == OP_POSITION) return position_at(f, list, (AxisSet)v.payload);
    ValueId args[3];
    for (int i = 0; i < 3; i++) args[i] = v.arg[i] ? at_known(g, v.arg[i], list) : 0;
    if (v.op == OP_GATHER) {
        const Value *source = &f->values[v.arg[0]];
        AxisSet own = source->axes & ~ir_listed(f, v.arg[1]);
        return from_memory(f, v.arg[0], restricted(f, list, source->axes, own, args[1]));
    }
    if (v.op == OP_BROADCAST) return args[0];
    bool sum = v.type == TYPE_I64 && (v.op == OP_ADD || v.op == OP_SUB);
    if (sum && f->values[args[1]].op == OP_CONST) {
        uint64_t constant = f->values[args[1]].payload;
        return add_number(f, args[0], v.op == OP_ADD ? constant : 0 - constant);
    }
    return ir_rebuild(f, f, id, args);
}

/* Operand i of v is to be known at the list's coordinates before v is built. */
static bool enters(const Function *f, const Value *v, int i, ValueId list) {
    if (v->arg[i] == 0 || (v->op != OP_LIST && !(v->axes & ir_listed(f, list)))) return false;
    return !in_memory(v) && !(v->op == OP_GATHER && i == 0);
}

static ValueId value_at(Gathering *g, ValueId source, ValueId list) {
    size_t depth = 0;
    g->stack = arena_grow(g->f->arena, g->stack, depth, &g->stack_capacity, sizeof *g->stack);
    g->stack[depth++] = source;
    while (depth > 0 && g->f->value_count < VALUES_MAX) {
        ValueId id = g->stack[depth - 1];
        size_t before = depth;
        Value v = g->f->values[id];
        if (at_known(g, id, list)) {
            depth--;
            continue;
        }
        for (int i = 0; i < 3; i++) {
            if (!enters(g->f, &v, i, list) || at_known(g, v.arg[i], list)) continue;
            g->stack =
                arena_grow(g->f->arena, g->stack, depth, &g->stack_capacity, sizeof *g->stack);
            g->stack[depth++] = v.arg[i];
        }
        if (depth == before) learn(g, id, list, build_at(g, id, list));
    }
    ValueId result = at_known(g, source, list);
    return result ? result : source; /* too many values: what becomes of it is dropped */
}

static ValueId push(Gathering *g, ValueId source, ValueId list) {
    Function *f = g->f;
    ValueId short_list = ordered(f, list);
    Value v = f->values[source];
    if (!short_list) return source;
    ValueId at = value_at(g, source, short_list);
    const Value *direct = &f->values[at];
    if (direct->op == OP_GATHER && direct->arg[0] == source) return at;
    ValueId in_range = gather_in_range(f, short_list, v.axes);
    if (in_range) at = ir_op(f, OP_SELECT, in_range, at, ir_constant(f, (Type)v.type, 0));
    return ir_broadcast(f, at, (v.axes & ~ir_listed(f, short_list)) | f->values[short_list].axes);
}

/* ---- the pass ---- */

static bool has_gather(const Function *f) {
    for (ValueId id = 1; id < f->value_count; id++)
        if (f->values[id].op == OP_GATHER) return true;
    return false;
}

Function *gather(Function *f) {
    Gathering g = {.f = ir_function_like(f)};
    ValueId *map = arena_alloc(f->arena, f->value_count * sizeof *map);
    if (!has_gather(f)) return f;
    for (ValueId id = 1; id < f->value_count; id++) {
        const Value *v = &f->values[id];
        ValueId args[3] = {map[v->arg[0]], map[v->arg[1]], map[v->arg[2]]};
        ValueId first_new = (ValueId)g.f->value_count;
        if (v->op == OP_GATHER)
            map[id] = ir_broadcast(g.f, push(&g, args[0], args[1]), v->axes);
        else
            map[id] = ir_rebuild(g.f, f, id, args);
        for (ValueId made = first_new; made < g.f->value_count; made++)
            ir_set_source(g.f, made, v->range, NULL);
        ir_set_source(g.f, map[id], v->range, v->name);
    }
    if (g.f->value_count >= VALUES_MAX) {
        diagnose(f->compiler, ERROR_TOO_LARGE, f->range, f->name, VALUES_MAX);
        return NULL;
    }
    ir_copy_stores(g.f, f, map);
    return ir_compact(g.f);
}
