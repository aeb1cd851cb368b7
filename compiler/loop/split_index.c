/* split_index.c: index-set splitting: a serial loop that computes something for the elements up to
 * a bound alone becomes two, one up to it and one over what is left, in which the comparison is
 * known and what only the others need is gone.
 *
 * Needs straight code that compares an index that goes on by one with a value that does not vary in
 * the loop: `k <= q` of a causal softmax, `k < length`, both sides of a window. Keeps the order of
 * iterations and what each of them computes, so every bit. Splits where one part then loads less or
 * computes less; the other part keeps the comparison and ends at a multiple of vectors. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

enum {
    SMALL = 1 << 30, /* a constant whose sums with indices do not overflow */
    QUESTIONS = 8,
    TREES = 8,
    EXPANDED = 256,
    LOAD_WORK = 8,
    WORK_MIN = 8 /* that a part has to save */
};

typedef struct Splitting {
    Nest *nest;
    const NestNode *loop;
    ValueId asked[QUESTIONS]; /* comparisons that were looked at */
    size_t asked_count;
    uint8_t *known; /* by symbol: 1: false, 2: true */
    size_t symbols;
    int budget; /* of values that an expansion may have */
} Splitting;

/* A comparison: of `count` iterations from the first on, which may be below 0 or beyond the loop's
 * end, it has the answer `early`, and of the others the other one. */
typedef struct Question {
    ValueId id, bound; /* bound: what the index is compared with */
    Index first;       /* the index at the first iteration */
    int64_t step;      /* 1 or -1 an iteration */
    bool early;
    int64_t more; /* where the two are equal: 1 if that iteration is one of the first */
} Question;

/* ---- what is compared ---- */

static const NestNode *let_in_loop(const Splitting *s, ValueId id) {
    const Value *v = &s->nest->values->values[id];
    for (const NestNode *node = s->loop->body; node && v->op == VALUE_NAME; node = node->next)
        if (node->kind == NEST_LET && node->name == v->payload) return node;
    return NULL;
}

/* The value with the LETs of the loop in the place of their names, where that is not too long. */
static ValueId expand(Splitting *s, ValueId id) {
    Function *f = s->nest->values;
    const NestNode *let = s->budget-- > 0 ? let_in_loop(s, id) : NULL;
    if (let) return expand(s, let->value);
    const Value v = f->values[id];
    ValueId args[3] = {0};
    bool same = true;
    if (!id || v.op == VALUE_NAME || v.op == VALUE_INDEX || v.op == OP_CONST) return id;
    for (int i = 0; i < op_info[v.op].arity; i++) {
        args[i] = expand(s, v.arg[i]);
        same &= args[i] == v.arg[i];
    }
    return same ? id : ir_make(f, &v, args);
}

/* The sum or difference of indices and small constants that the value is, of which no number that
 * the program computes is part. */
static bool to_index(const Splitting *s, ValueId id, Index *index) {
    Nest *nest = s->nest;
    const Value *v = &nest->values->values[id];
    Index x, y;
    if (v->op == VALUE_INDEX) {
        *index = *nest_index_of(nest, v);
    } else if (v->op == VALUE_NAME && nest->symbols[v->payload].kind == NAMED_LOOP) {
        *index = index_symbol(nest->arena, (SymbolId)v->payload);
    } else if (v->op == OP_CONST && v->payload + SMALL < 2 * (uint64_t)SMALL) {
        *index = index_number(nest->arena, (int64_t)v->payload);
    } else if ((v->op == OP_ADD || v->op == OP_SUB) && to_index(s, v->arg[0], &x) &&
               to_index(s, v->arg[1], &y)) {
        *index = (v->op == OP_ADD ? index_add : index_subtract)(nest->arena, x, y);
    } else {
        return false;
    }
    return true;
}

static bool is_comparison(const Value *v) {
    return v->op == OP_LE || v->op == OP_LT || v->op == OP_GE || v->op == OP_GT;
}

static bool find_question(Splitting *s, ValueId id, Question *q) {
    Nest *nest = s->nest;
    const Value v = nest->values->values[id];
    if (!is_comparison(&v) || nest->values->values[v.arg[0]].type != TYPE_I64) return false;
    s->budget = EXPANDED;
    for (int i = 0; i < 2; i++) {
        const ValueId own = expand(s, v.arg[i]), bound = expand(s, v.arg[1 - i]);
        const bool less = (v.op == OP_LE || v.op == OP_LT) == (i == 0); /* own below the bound */
        const bool equal = v.op == OP_LE || v.op == OP_GE;
        Index index;
        if (s->budget <= 0 || nest_value_varies(s->nest, s->loop, bound) ||
            !to_index(s, own, &index))
            continue;
        *q = (Question){.id = id, .bound = bound};
        const Index step = index_coefficient(nest->arena, index, s->loop->name);
        if (!index_is_number(step, &q->step) || (q->step != 1 && q->step != -1)) continue;
        q->first = index_replace(nest->arena, index, s->loop->name, (Index){NULL, 0});
        if (nest_value_varies(s->nest, s->loop, nest_index_value(nest, q->first))) continue;
        q->early = less == (q->step == 1);
        q->more = q->early == equal;
        return true;
    }
    return false;
}

/* The first comparison in the value that was not looked at. */
static bool find_in_value(Splitting *s, ValueId id, Question *q) {
    const Value v = s->nest->values->values[id];
    if (!id || v.op == VALUE_NAME || v.op == VALUE_INDEX) return false;
    bool asked = s->asked_count == QUESTIONS;
    for (size_t i = 0; i < s->asked_count; i++) asked |= s->asked[i] == id;
    if (!asked && is_comparison(&v)) {
        s->asked[s->asked_count++] = id;
        if (find_question(s, id, q)) return true;
    }
    for (int i = 0; i < op_info[v.op].arity; i++)
        if (find_in_value(s, v.arg[i], q)) return true;
    return false;
}

static bool find_next(Splitting *s, Question *q) {
    for (const NestNode *node = s->loop->body; node; node = node->next)
        if (node->value && find_in_value(s, node->value, q)) return true;
    return false;
}

/* ---- with the answer known ---- */

static bool is_bool(const Function *f, ValueId id, bool answer) {
    const Value *v = &f->values[id];
    return v->op == OP_CONST && v->type == TYPE_BOOL && (v->payload != 0) == answer;
}

/* The value where the question has that answer, and names are known. */
static ValueId assume(const Splitting *s, ValueId id, ValueId question, bool answer) {
    Function *f = s->nest->values;
    const Value v = f->values[id];
    ValueId args[3] = {0};
    bool same = true;
    if (id && id == question) return ir_constant(f, TYPE_BOOL, answer);
    if (v.op == VALUE_NAME && v.payload < s->symbols && s->known[v.payload])
        return ir_constant(f, TYPE_BOOL, s->known[v.payload] == 2);
    if (!id || v.op == VALUE_NAME || v.op == VALUE_INDEX || v.op == OP_CONST) return id;
    for (int i = 0; i < op_info[v.op].arity; i++) {
        args[i] = assume(s, v.arg[i], question, answer);
        same &= args[i] == v.arg[i];
    }
    if (v.op == OP_SELECT && is_bool(f, args[0], true)) return args[1];
    if (v.op == OP_SELECT && is_bool(f, args[0], false)) return args[2];
    if (v.type == TYPE_BOOL && (v.op == OP_AND || v.op == OP_OR))
        for (int i = 0; i < 2; i++) {
            if (is_bool(f, args[i], v.op == OP_OR)) return args[i];
            if (is_bool(f, args[i], v.op == OP_AND)) return args[1 - i];
        }
    return same ? id : ir_make(f, &v, args);
}

/* The body, with names of its own, for iterations of which the answer is known. */
static NestNode *body_where(Splitting *s, const Question *q, bool answer) {
    Nest *nest = s->nest;
    Function *f = nest->values;
    NestNode *body = nest_copy(nest->arena, s->loop->body);
    Arena *scratch = arena_child(nest->arena);
    s->symbols = nest->symbol_count;
    s->known = arena_alloc(scratch, s->symbols);
    for (NestNode *node = body; node; node = node->next) {
        node->value = assume(s, node->value, q->id, answer);
        if (node->kind != NEST_LET) continue;
        if (is_bool(f, node->value, false)) s->known[node->name] = 1;
        if (is_bool(f, node->value, true)) s->known[node->name] = 2;
    }
    arena_close(scratch);
    nest_sweep_body(nest, &body);
    return nest_clone(nest, body);
}

/* ---- what a part takes ---- */

static int64_t work_of(const Nest *nest, const bool *varying, ValueId id, bool *any) {
    const Value *v = &nest->values->values[id];
    bool own = false;
    int64_t work = 0;
    if (v->op == VALUE_NAME) own = varying[v->payload];
    for (size_t i = 0; v->op == VALUE_INDEX && i < nest_index_of(nest, v)->count; i++)
        for (uint32_t k = 0; k < nest_index_of(nest, v)->terms[i].count; k++)
            own |= varying[nest_index_of(nest, v)->terms[i].symbols[k]];
    if (id && v->op != VALUE_NAME && v->op != VALUE_INDEX)
        for (int i = 0; i < op_info[v->op].arity; i++)
            work += work_of(nest, varying, v->arg[i], &own);
    *any |= own;
    return own && v->op != VALUE_NAME && v->op != VALUE_INDEX ? work + op_info[v->op].work : work;
}

/* What an iteration takes that is not the same for all of them. */
static int64_t work_of_body(const Nest *nest, SymbolId loop, const NestNode *body) {
    Arena *scratch = arena_child(nest->arena);
    bool *varying = arena_alloc(scratch, nest->symbol_count * sizeof *varying);
    int64_t work = 0;
    varying[loop] = true;
    for (const NestNode *node = body; node; node = node->next) {
        bool any = false;
        if (node->value) work += work_of(nest, varying, node->value, &any);
        for (size_t i = 0; node->kind == NEST_LOAD && i < node->at_count; i++)
            any |= index_uses(node->at[i], loop);
        if (node->kind == NEST_LOAD && any) work += LOAD_WORK;
        if (node->name) varying[node->name] = any;
    }
    arena_close(scratch);
    return work;
}

static bool is_straight(const Nest *nest, const NestNode *loop) {
    for (const NestNode *node = loop->body; node; node = node->next) {
        if (node->kind != NEST_LET && node->kind != NEST_LOAD && node->kind != NEST_STORE &&
            node->kind != NEST_PUSH)
            return false;
        if (nest_value_draws(nest, node->value)) return false;
    }
    return loop->kind == NEST_LOOP && loop->loop == LOOP_SERIAL;
}

/* ---- the two parts ---- */

/* How many iterations have the first answer, as an index that may lie outside of the loop. What the
 * program computes is bounded first, so that nothing overflows. */
static Index count_first(const Splitting *s, const Question *q, NestNode ***end) {
    Nest *nest = s->nest;
    Index bound;
    if (!to_index(s, q->bound, &bound)) {
        const Index past = index_scale(
            nest->arena, make_add(nest, s->loop->extent, make_number(nest, 1)), q->step);
        const Index one = make_number(nest, q->step);
        const Index low =
            q->step > 0 ? make_less(nest, q->first, one) : make_add(nest, q->first, past);
        const Index high =
            q->step > 0 ? make_add(nest, q->first, past) : make_less(nest, q->first, one);
        const ValueId least = ir_op(nest->values, OP_MAX, q->bound, nest_index_value(nest, low), 0);
        bound = make_let_index(nest, end, "bound",
                               ir_op(nest->values, OP_MIN, least, nest_index_value(nest, high), 0));
    }
    const Index left = index_scale(nest->arena, make_less(nest, bound, q->first), q->step);
    return make_add(nest, left, make_number(nest, q->more));
}

/* The same between `least` and the loop's extent, a multiple of so many unless it is the extent:
 * `up` or down from there. A loop that is no longer than that stays whole. */
static Index bounded_count(const Splitting *s, const Question *q, NestNode ***end, int64_t multiple,
                           bool up, int64_t least) {
    Nest *nest = s->nest;
    Index count = count_first(s, q, end);
    int64_t known;
    count = make_let_index(nest, end, "reach",
                           make_value(nest, OP_MAX, count, make_number(nest, least)));
    if (up) count = make_add(nest, count, make_number(nest, multiple - 1));
    count = make_scale(nest, nest_floor(nest, end, count, multiple, "vectors"), multiple);
    ValueId cut = make_value(nest, OP_MIN, count, s->loop->extent);
    if (multiple > 1 && !index_is_number(s->loop->extent, &known)) {
        const ValueId long_enough =
            make_value(nest, OP_GT, s->loop->extent, make_number(nest, multiple));
        const Index whole = up ? s->loop->extent : make_number(nest, 0);
        cut = ir_op(nest->values, OP_SELECT, long_enough, cut, nest_index_value(nest, whole));
    }
    return make_let_index(nest, end, "cut", cut);
}

/* Moves what is the same in all iterations of the loop ahead of it. */
static void hoist(Nest *nest, NestNode **place) {
    NestNode *all = nest->body, *after = (*place)->next, **end = &nest->body;
    (*place)->next = NULL;
    nest->body = *place;
    nest_hoist(nest);
    while (*end) end = &(*end)->next;
    *end = after;
    *place = nest->body;
    nest->body = all;
}

/* The bodies of both parts where the answer is known; NULL: it saves nothing there. False: nowhere.
 */
static bool find_bodies(Splitting *s, const Question *q, NestNode *bodies[2]) {
    const int64_t all = work_of_body(s->nest, s->loop->name, s->loop->body);
    for (int late = 0; late < 2; late++) {
        bodies[late] = body_where(s, q, q->early == !late);
        if (work_of_body(s->nest, s->loop->name, bodies[late]) + WORK_MIN > all)
            bodies[late] = NULL;
    }
    return bodies[0] || bodies[1];
}

/* ---- what stands ahead of the loop ---- */

static bool only_prefetches(const NestNode *node) {
    if (node->kind == NEST_PREFETCH) return true;
    bool only = node->kind == NEST_IF && node->body && !node->other;
    for (const NestNode *inner = node->body; inner && only; inner = inner->next)
        only = only_prefetches(inner);
    return only;
}

static void limit_prefetches(NestNode *body, const NestNode *late, Index extent, Index cut) {
    for (NestNode *node = body; node; node = node->next) {
        limit_prefetches(node->body, late, extent, cut);
        if (node->kind == NEST_PREFETCH && index_equal(node->extent, extent) &&
            !nest_reads(late, node->array))
            node->extent = cut;
    }
}

/* What the late part does not load is not prefetched either: takes the prefetches of the loop's
 * elements from between the place and the loop, to stand behind the LETs that say where it ends. */
static void move_prefetches(NestNode **head, NestNode *loop, const NestNode *late, Index cut,
                            NestNode ***end) {
    for (NestNode **at = head; *at && *at != loop;) {
        NestNode *node = *at;
        if (!only_prefetches(node)) {
            at = &node->next;
            continue;
        }
        *at = node->next;
        node->next = NULL;
        limit_prefetches(node, late, loop->extent, cut);
        **end = node;
        *end = &node->next;
    }
}

/* ---- trees that end where the late part begins ----
 *
 * Where all that is left pushes one value to a tree, and combining with that value changes nothing,
 * these leaves are left out. Of an early part they are where it is all of the loop, but one. A
 * sum's 0.0 is known to be one only when it is there, and makes 0.0 of -0.0, so it is added in the
 * end. */

typedef struct Trimmed {
    NestNode *push[TREES], *combine[TREES];
    size_t count;
    bool asks; /* whether a sum's value is 0 */
} Trimmed;

static bool is_float_sum(const NestNode *tree) {
    return tree->op == OP_SUM && type_info[tree->type].class == 'F';
}

/* Whether the pushed value may stand for no leaf. */
static bool is_identity(const Nest *nest, const NestNode *tree, const NestNode *push, bool *asks) {
    const Value *value = &nest->values->values[push->value];
    const bool constant = value->op == OP_CONST;
    if (constant && value->payload == nest_identity(tree->op, tree->type)) return true;
    if (!is_float_sum(tree)) return false;
    if (constant) return value->payload == ir_number_bits(tree->type, 0.0);
    return *asks = true;
}

/* The constant that a LET of the body gives the name, or the value as it is. */
static ValueId constant_of(const Nest *nest, const NestNode *body, ValueId id) {
    const Value *values = nest->values->values;
    for (const NestNode *node = body; node; node = node->next)
        if (node->kind == NEST_LET && values[id].op == VALUE_NAME &&
            values[id].payload == node->name && values[node->value].op == OP_CONST)
            return node->value;
    return id;
}

/* The trees stand in the list itself and move to right ahead of the loop, so no other loop may push
 * to them before. */
static bool find_trimmed(Splitting *s, NestNode **head, NestNode *part, Trimmed *t) {
    const Nest *nest = s->nest;
    const SymbolId loop = s->loop->name;
    for (NestNode *node = part; node; node = node->next) {
        if (node->kind == NEST_LET && !nest_value_uses(nest, node->value, loop)) continue;
        NestNode **place = node->kind == NEST_PUSH ? nest_find(head, node->array) : NULL;
        if (!place || (*place)->kind != NEST_TREE || (*place)->at_count || node->where ||
            node->has_limit || t->count == TREES || nest_value_uses(nest, node->value, loop))
            return false;
        NestNode *own = *head;
        while (own && own != *place) own = own->next;
        const Index end = index_replace(nest->arena, node->at[0], loop, s->loop->extent);
        node->value = constant_of(nest, part, node->value);
        t->combine[t->count] = nest_find_combine(*head, node->array);
        if (!own || nest_pushes_ahead(own->next, s->loop, own->name) ||
            !index_equal(end, own->extent) || !t->combine[t->count] ||
            !is_identity(nest, own, node, &t->asks))
            return false;
        t->push[t->count++] = node;
    }
    return t->count > 0;
}

/* The combine's value is that of the leaves that came and, if any were left out, their zero. */
static void add_zero(Nest *nest, const NestNode *tree, NestNode *combine, ValueId zero,
                     ValueId leaves_out) {
    Function *f = nest->values;
    const uint64_t identity = nest_identity(tree->op, tree->type);
    const NestSymbol *symbol = &nest->symbols[combine->name];
    const SymbolId some = nest_symbol(nest, symbol->name, NAMED_VALUE, symbol->type);
    const ValueId added =
        ir_op(f, OP_SELECT, leaves_out, zero, ir_constant(f, tree->type, identity));
    NestNode *let = arena_alloc(nest->arena, sizeof *let);
    *let = (NestNode){.kind = NEST_LET,
                      .name = combine->name,
                      .value = ir_op(f, OP_ADD, nest_name(nest, some), added, 0),
                      .range = combine->range,
                      .next = combine->next};
    if (f->values[zero].op == OP_CONST && f->values[zero].payload == identity) return;
    combine->name = some;
    combine->next = let;
}

/* Whether the values of sums that are no constants are all 0; 0: there are none. */
static ValueId asked_of_sums(const Splitting *s, NestNode **head, const Trimmed *t,
                             NestNode ***end) {
    Nest *nest = s->nest;
    Function *f = nest->values;
    ValueId all = 0;
    for (size_t i = 0; i < t->count; i++) {
        const NestNode *tree = *nest_find(head, t->push[i]->array);
        if (!is_float_sum(tree) || f->values[t->push[i]->value].op == OP_CONST) continue;
        const ValueId zero = ir_constant(f, tree->type, ir_number_bits(tree->type, 0.0));
        const ValueId is = ir_op(f, OP_EQ, t->push[i]->value, zero, 0);
        all = all ? ir_op(f, OP_AND, all, is, 0) : is;
    }
    return all ? nest_name(nest, make_let(nest, end, "nothing", TYPE_BOOL, all)) : 0;
}

/* Moves the tree behind what its extent, of so many iterations, is found by. */
static NestNode *move_tree(const Splitting *s, NestNode **head, const NestNode *push, Index stop,
                           NestNode ***end) {
    NestNode **place = nest_find(head, push->array), *tree = *place;
    *place = tree->next;
    tree->extent = index_replace(s->nest->arena, push->at[0], s->loop->name, stop);
    nest_add(s->nest, end, *tree);
    return tree;
}

/* Ends the trees at the cut, or where a sum's value is not 0 at the loop's extent; gives which. */
static Index trim(Splitting *s, NestNode **head, Trimmed *t, Index cut, NestNode ***end) {
    Nest *nest = s->nest;
    Function *f = nest->values;
    Index stop = cut;
    const ValueId all = asked_of_sums(s, head, t, end);
    const ValueId whole = nest_index_value(nest, s->loop->extent);
    ValueId leaves_out = ir_op(f, OP_LT, nest_index_value(nest, cut), whole, 0);
    if (all) {
        leaves_out = ir_op(f, OP_AND, all, leaves_out, 0);
        stop = make_let_index(nest, end, "stop",
                              ir_op(f, OP_SELECT, all, nest_index_value(nest, cut), whole));
    }
    for (size_t i = 0; i < t->count; i++) {
        const NestNode *tree = move_tree(s, head, t->push[i], stop, end);
        if (is_float_sum(tree)) add_zero(nest, tree, t->combine[i], t->push[i]->value, leaves_out);
    }
    return stop;
}

/* Whether the early part pushes the first leaves of its trees, which are theirs alone. */
static bool begins(const Splitting *s, const Trimmed *t) {
    for (size_t i = 0; i < t->count; i++) {
        int64_t first;
        const Index at =
            index_replace(s->nest->arena, t->push[i]->at[0], s->loop->name, (Index){NULL, 0});
        if (!index_is_number(at, &first) || first != 0) return false;
    }
    return true;
}

/* Where the early part is all of the loop one leaf stands for all: combined with itself such a
 * value is itself. Gives how many iterations the early part has. */
static Index shorten(Splitting *s, NestNode **head, const Trimmed *t, Index cut, NestNode ***end) {
    Nest *nest = s->nest;
    Function *f = nest->values;
    const Index extent = s->loop->extent;
    const ValueId all = asked_of_sums(s, head, t, end), whole = nest_index_value(nest, extent);
    ValueId none = ir_op(f, OP_GE, nest_index_value(nest, cut), whole, 0);
    if (all) none = ir_op(f, OP_AND, all, none, 0);
    const ValueId one = make_value(nest, OP_MIN, extent, make_number(nest, 1));
    const Index stop = make_let_index(nest, end, "stop", ir_op(f, OP_SELECT, none, one, whole));
    for (size_t i = 0; i < t->count; i++) move_tree(s, head, t->push[i], stop, end);
    return make_let_index(nest, end, "ahead", make_value(nest, OP_MIN, cut, stop));
}

/* ---- the parts in the loop's place ---- */

static NestNode *part(Nest *nest, const NestNode *loop, SymbolId own, Index extent,
                      NestNode *body) {
    NestNode *made = nest_around(nest, LOOP_SERIAL, own, extent, body);
    made->range = loop->range;
    return made;
}

/* Moves the LETs of the late part, which are the same for all of it, to the end. */
static NestNode *take_lets(NestNode *late, NestNode ***end) {
    NestNode *pushes = NULL, **pushes_end = &pushes;
    for (NestNode *node = late, *after; node; node = after) {
        NestNode ***to = node->kind == NEST_LET ? end : &pushes_end;
        after = node->next;
        node->next = NULL;
        **to = node;
        *to = &node->next;
    }
    return pushes;
}

/* Puts two loops in the place of the one there; gives where the one stands that keeps its body, or
 * NULL. The list of nodes that has the loop begins at the head. */
static NestNode **put_parts(Splitting *s, NestNode **head, const Question *q, NestNode *bodies[2],
                            int64_t multiple) {
    Nest *nest = s->nest;
    Trimmed t = {.count = 0};
    const bool both = bodies[0] && bodies[1];
    const bool trims = bodies[1] && !both && find_trimmed(s, head, bodies[1], &t);
    const bool shortens =
        bodies[0] && !both && find_trimmed(s, head, bodies[0], &t) && begins(s, &t);
    NestNode **place = nest_find(head, s->loop->name), *loop = *place, *after = loop->next;
    NestNode *first = NULL, **end = &first;
    const Index cut =
        bounded_count(s, q, &end, both ? 1 : multiple, bodies[1] != NULL, trims ? 1 : 0);
    const SymbolId own = make_loop_name(nest, nest->symbols[loop->name].name);
    const Index at = make_add(nest, cut, make_symbol(nest, own));
    NestNode *late = bodies[1] ? bodies[1] : loop->body; /* bodies[0] has names of its own */
    Index stop = loop->extent, early = cut;
    if (bodies[1]) move_prefetches(head, loop, late, cut, &end);
    if (trims) {
        late = take_lets(late, &end);
        stop = trim(s, head, &t, cut, &end);
    }
    if (shortens) {
        bodies[0] = take_lets(bodies[0], &end);
        early = shorten(s, head, &t, cut, &end);
    }
    late = nest_put_index(nest, late, loop->name, at);
    late = part(nest, loop, own, make_less(nest, stop, cut), late);
    place = nest_find(head, loop->name);
    late->next = after;
    loop->next = trims && !t.asks ? after : late;
    if (bodies[0]) loop->body = bodies[0];
    for (size_t i = 0; i < s->asked_count && !bodies[1]; i++)
        s->asked[i] = nest_value_replace(nest, s->asked[i], loop->name, at);
    loop->extent = early;
    *end = loop;
    if (bodies[1] && !trims) hoist(nest, &loop->next);
    if (bodies[0]) hoist(nest, end);
    *place = first;
    return both ? NULL : nest_find(head, bodies[1] ? loop->name : own);
}

static bool split_loop(Nest *nest, NestNode **head, SymbolId name, int64_t multiple) {
    Splitting s = {.nest = nest};
    Question q;
    NestNode *bodies[2], **place = nest_find(head, name);
    int64_t extent;
    bool any = false;
    if (!is_straight(nest, *place) || nest_is_long((*place)->body)) return false;
    if (index_is_number((*place)->extent, &extent) && extent <= multiple) return false;
    while (place && (s.loop = *place, find_next(&s, &q))) {
        if (!find_bodies(&s, &q, bodies)) continue;
        place = put_parts(&s, head, &q, bodies, multiple);
        any = true;
    }
    return any;
}

static NestNode **list_of(NestNode **body, const NestNode *loop) {
    for (NestNode *node = *body; node; node = node->next) {
        if (node == loop) return body;
        NestNode **inside = list_of(&node->body, loop);
        if (!inside) inside = list_of(&node->other, loop);
        if (inside) return inside;
    }
    return NULL;
}

const char *nest_split_index(Nest *nest, SymbolId loop, int64_t multiple) {
    NestNode **place = nest_find(&nest->body, loop);
    if (!place || (*place)->kind != NEST_LOOP) return "there is no such loop";
    return split_loop(nest, list_of(&nest->body, *place), loop, multiple)
               ? NULL
               : "no part of the loop does less";
}

void nest_split_indices(Nest *nest, NestNode **body, int64_t multiple) {
    for (NestNode *node = *body, *after; node; node = after) {
        after = node->next;
        if (node->kind == NEST_LOOP && split_loop(nest, body, node->name, multiple)) continue;
        nest_split_indices(nest, &node->body, multiple);
        nest_split_indices(nest, &node->other, multiple);
    }
}

/* ---- versions ---- */

static bool is_defined_in(const Nest *nest, const NestNode *body, ValueId value) {
    for (const NestNode *node = body; node; node = node->next)
        if ((node->name && nest_value_uses(nest, value, node->name)) ||
            is_defined_in(nest, node->body, value) || is_defined_in(nest, node->other, value))
            return true;
    return false;
}

static bool is_same(const Question *a, const Question *b) {
    return a->bound == b->bound && index_equal(a->first, b->first) && a->step == b->step &&
           a->early == b->early && a->more == b->more;
}

/* What of the test's loops the version for whole strips requires besides. */
typedef struct Required {
    NestNode *lets, **end; /* ahead of the test */
    Index amount;
    Question asked[QUESTIONS]; /* is part of the amount */
    bool late[QUESTIONS];
    size_t count;
} Required;

static void require_answer(Splitting *s, Required *r, const Question *q, bool late) {
    Nest *nest = s->nest;
    const Index one = make_number(nest, 1);
    for (size_t i = 0; i < r->count; i++)
        if (r->late[i] == late && is_same(&r->asked[i], q)) return;
    const Index count = count_first(s, q, &r->end);
    const Index left = late ? make_less(nest, one, count)
                            : make_less(nest, count, make_less(nest, s->loop->extent, one));
    r->amount = make_let_index(nest, &r->end, "whole", make_value(nest, OP_MIN, r->amount, left));
    r->asked[r->count] = *q;
    r->late[r->count++] = late;
}

static void require_of_loop(Nest *nest, NestNode *test, NestNode *loop, Required *r) {
    Splitting s = {.nest = nest, .loop = loop};
    Question q;
    NestNode *bodies[2];
    int64_t extent;
    if (!is_straight(nest, loop) || nest_is_long(loop->body)) return;
    if (!index_is_number(loop->extent, &extent)) return;
    while (r->count < QUESTIONS && find_next(&s, &q)) {
        if (is_defined_in(nest, test->body, q.bound) ||
            is_defined_in(nest, test->body, nest_index_value(nest, q.first)))
            continue;
        if (!find_bodies(&s, &q, bodies) || (bodies[0] && bodies[1])) continue;
        const bool late = bodies[0] != NULL; /* the iterations that do more */
        require_answer(&s, r, &q, late);
        loop->body = body_where(&s, &q, q.early == !late);
    }
}

void nest_split_version(Nest *nest, NestNode **place) {
    NestNode *test = *place;
    Required r = {.end = &r.lets, .amount = test->extent};
    for (NestNode *node = test->body; node; node = node->next)
        require_of_loop(nest, test, node, &r);
    if (!r.lets) return;
    test->extent = r.amount;
    *r.end = test;
    *place = r.lets;
}
