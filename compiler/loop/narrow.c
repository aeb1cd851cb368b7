/* narrow.c: comparisons of a tile's indices in 32 bits: an index that is compared with a value that
 * does not vary in the lanes' loop (a one-hot test, a mask of a row's first elements) goes on from
 * the lane's first element, and so the value is taken from there on, ahead of the loop, clamped to
 * what lies a tile around it.
 *
 * Needs lane loops in which at most 1024 elements go by loops of constant length. Keeps every bit.
 */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

enum { TILE = 1024, DEPTH = 4 };

typedef struct Narrowing {
    Nest *nest;
    const NestNode *lanes;
    const NestNode *loops[DEPTH]; /* in the lanes' loop, around the node at hand */
    size_t depth;
    NestNode *lets, **end; /* ahead of what is in the lanes' loop */
} Narrowing;

static bool defines(const NestNode *body, SymbolId symbol) {
    for (const NestNode *node = body; node; node = node->next)
        if (node->name == symbol || defines(node->body, symbol) || defines(node->other, symbol))
            return true;
    return false;
}

/* Splits an index into what it is at the lane's first element and what the loops add to that: at
 * least 0 and less than a tile. */
static bool split(const Narrowing *n, Index index, Index *first, Index *more) {
    Arena *arena = n->nest->arena;
    int64_t most = 0;
    *first = index;
    for (size_t i = 0; i < n->depth; i++) {
        int64_t step, extent;
        const SymbolId name = n->loops[i]->name;
        if (!index_is_number(index_coefficient(arena, index, name), &step)) return false;
        if (!index_is_number(n->loops[i]->extent, &extent) || step < 0) return false;
        most += step * (extent - 1);
        *first = index_replace(arena, *first, name, (Index){NULL, 0});
    }
    for (size_t t = 0; t < first->count; t++)
        for (uint32_t k = 0; k < first->terms[t].count; k++)
            if (defines(n->lanes->body, first->terms[t].symbols[k])) return false;
    *more = index_subtract(arena, index, *first);
    return most > 0 && most < TILE;
}

/* The value from the lane's first element on, of 32 bits: a name, one for all uses. */
static ValueId name_of(Narrowing *n, ValueId value, Index first) {
    Nest *nest = n->nest;
    Function *f = nest->values;
    const Index before = make_less(nest, first, make_number(nest, 1));
    const Index behind = make_add(nest, first, make_number(nest, TILE));
    ValueId own = ir_op(f, OP_MIN, value, nest_index_value(nest, behind), 0);
    own = ir_op(f, OP_MAX, own, nest_index_value(nest, before), 0);
    own = ir_cast(f, TYPE_I32, ir_op(f, OP_SUB, own, nest_index_value(nest, first), 0));
    for (const NestNode *let = n->lets; let; let = let->next)
        if (let->value == own) return nest_name(nest, let->name);
    return nest_name(nest, make_let(nest, &n->end, "from_here", TYPE_I32, own));
}

static ValueId narrowed(Narrowing *n, const Value *v) {
    Nest *nest = n->nest;
    const Value *values = nest->values->values;
    for (int i = 0; i < 2; i++) {
        const Value index = values[v->arg[i]], other = values[v->arg[1 - i]];
        Index first, more;
        if (index.op != VALUE_INDEX || other.op != VALUE_NAME || other.type != TYPE_I64) continue;
        if (defines(n->lanes->body, (SymbolId)other.payload)) continue;
        if (!split(n, *nest_index_of(nest, &index), &first, &more)) continue;
        ValueId args[3] = {0};
        args[1 - i] = name_of(n, v->arg[1 - i], first);
        args[i] = ir_cast(nest->values, TYPE_I32, nest_index_value(nest, more));
        return ir_make(nest->values, v, args);
    }
    return 0;
}

static bool compares(Op op) {
    return op == OP_EQ || op == OP_NE || op == OP_LT || op == OP_LE || op == OP_GT || op == OP_GE;
}

static ValueId rewrite(Narrowing *n, ValueId id) {
    Function *f = n->nest->values;
    const Value v = f->values[id];
    ValueId args[3] = {0};
    bool same = true;
    if (!id || v.op == VALUE_NAME || v.op == VALUE_INDEX || v.op == OP_CONST) return id;
    const ValueId made = compares((Op)v.op) ? narrowed(n, &v) : 0;
    if (made) return made;
    for (int i = 0; i < op_info[v.op].arity; i++) {
        args[i] = rewrite(n, v.arg[i]);
        same &= args[i] == v.arg[i];
    }
    return same ? id : ir_make(f, &v, args);
}

static void narrow_in(Narrowing *n, NestNode *body) {
    for (NestNode *node = body; node; node = node->next) {
        const bool loop = node->kind == NEST_LOOP && n->depth < DEPTH;
        if (node->value) node->value = rewrite(n, node->value);
        if (loop) n->loops[n->depth++] = node;
        if (loop) narrow_in(n, node->body);
        if (loop) n->depth--;
    }
}

void nest_narrow(Nest *nest, NestNode *body) {
    for (NestNode *node = body; node; node = node->next) {
        const bool lanes = node->kind == NEST_LOOP && node->loop == LOOP_LANE;
        if (!lanes || (node->body && node->body->loop == LOOP_LANE)) { /* the innermost */
            nest_narrow(nest, node->body);
            nest_narrow(nest, node->other);
            continue;
        }
        Narrowing n = {.nest = nest, .lanes = node};
        n.end = &n.lets;
        narrow_in(&n, node->body);
        *n.end = node->body;
        node->body = n.lets;
    }
}
