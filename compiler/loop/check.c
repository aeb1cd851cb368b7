/* check.c: what every nest satisfies at any time. A pass that breaks a rule is caught behind it.
 *
 * What varies with what is a set of the loops around a node, a bit for each by its depth: a loop's
 * index varies with the loop, a value with what it is made of. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

enum { LOOPS = 64, NODE_DEPTH = 200, FEW_LEAVES = 8 };
typedef uint64_t LoopSet;

typedef enum Place { UNKNOWN, IN_SCOPE, GONE } Place;
typedef struct Known {
    Place place;
    const NestNode *node; /* what defines it; NULL: the header */
    LoopSet varies;       /* the loops with which it does; of an ALLOC what its elements do */
    int depth;            /* loops around what defines it */
    int own;              /* leading dims of an ALLOC that are each thread's own; -1: not known */
} Known;

typedef struct Checker {
    const Nest *nest;
    Arena *arena;
    Known *known;  /* by symbol */
    size_t *order; /* symbols in scope, in the order of their definitions */
    size_t order_count;
    const NestArray **arrays; /* by symbol */
    const NestNode *loops[LOOPS];
    int loop_count, depth;
    LoopSet first_only;    /* loops of whose iterations the branch at hand is the first's alone */
    uint32_t *seen, stamp; /* values, by the node that was the last to request them */
    const NestNode *node;
    char *problem;
} Checker;

/* The first problem stays. */
static bool fails(Checker *c, const NestNode *node, const char *rule) {
    if (!rule || c->problem) return c->problem;
    Text line = text_open(c->arena);
    if (node) nest_print_node(c->nest, node, &line);
    c->problem = node ? arena_printf(c->nest->arena, "%s: %s: %s", c->nest->name, line.data, rule)
                      : arena_printf(c->nest->arena, "%s: %s", c->nest->name, rule);
    return true;
}

static bool needs(Checker *c, bool holds, const char *rule) {
    return fails(c, c->node, holds ? NULL : rule);
}

static bool is_integer(Type type) {
    return type < TYPE_COUNT && (type_info[type].class == 'S' || type_info[type].class == 'U') &&
           type_info[type].compute == type;
}

static LoopSet of_kinds(const Checker *c, unsigned kinds) {
    LoopSet set = 0;
    for (int i = 0; i < c->loop_count; i++)
        if (kinds >> c->loops[i]->loop & 1) set |= UINT64_C(1) << i;
    return set;
}
enum {
    GRID = 1 << LOOP_GRID,
    WARP = 1 << LOOP_WARP,
    LANE = 1 << LOOP_LANE,
    SERIAL = 1 << LOOP_SERIAL,
    UNROLLED = 1 << LOOP_UNROLLED,
    VECTOR = 1 << LOOP_VECTOR,
    THREADS = WARP | LANE | VECTOR
};

static const NestNode *vector_loop(const Checker *c) {
    const NestNode *last = c->loop_count ? c->loops[c->loop_count - 1] : NULL;
    return last && last->loop == LOOP_VECTOR ? last : NULL;
}

/* ---- names ---- */

static bool check_name(Checker *c, SymbolId symbol, unsigned kinds, const char *rule) {
    if (!needs(c, symbol && symbol < c->nest->symbol_count, rule)) {
        const char *name = c->nest->symbols[symbol].name;
        if (c->known[symbol].place == UNKNOWN)
            fails(c, c->node, arena_printf(c->arena, "nothing above defines %s", name));
        if (c->known[symbol].place == GONE)
            fails(c, c->node, arena_printf(c->arena, "%s is not in scope here", name));
        needs(c, kinds >> c->nest->symbols[symbol].kind & 1, rule);
    }
    return c->problem;
}

static void define(Checker *c, SymbolId symbol, NamedKind kind, LoopSet varies) {
    if (needs(c, symbol && symbol < c->nest->symbol_count, "it defines a symbol")) return;
    const NestSymbol *row = &c->nest->symbols[symbol];
    needs(c, row->kind == kind, "the symbol it defines is of its kind");
    needs(c, c->known[symbol].place == UNKNOWN, "a name is defined once");
    needs(c, row->type < TYPE_COUNT, "what it defines has a type");
    c->known[symbol] = (Known){IN_SCOPE, c->node, varies, c->loop_count, -1};
    c->order[c->order_count++] = symbol;
}

static void leave_scope(Checker *c, size_t order_count) {
    while (c->order_count > order_count) c->known[c->order[--c->order_count]].place = GONE;
}

/* ---- indices ---- */

enum { INTEGERS = 1 << NAMED_SIZE | 1 << NAMED_DERIVED | 1 << NAMED_LOOP | 1 << NAMED_VALUE };

static void check_term(Checker *c, const IndexTerm *term) {
    int loops = 0;
    for (uint32_t i = 0; i < term->count && !c->problem; i++) {
        const SymbolId symbol = term->symbols[i];
        if (check_name(c, symbol, INTEGERS, "an index is made of integers")) return;
        needs(c, is_integer(c->nest->symbols[symbol].type), "an index is made of integers");
        loops += c->nest->symbols[symbol].kind == NAMED_LOOP;
    }
    needs(c, loops <= 1, "an index is linear in loops");
}

static LoopSet index_varies(const Checker *c, Index index) {
    LoopSet set = 0;
    for (size_t i = 0; i < index.count; i++)
        for (uint32_t k = 0; k < index.terms[i].count; k++)
            set |= c->known[index.terms[i].symbols[k]].varies;
    return set;
}

static LoopSet check_index(Checker *c, Index index) {
    for (size_t i = 0; i < index.count && !c->problem; i++) check_term(c, &index.terms[i]);
    return c->problem ? 0 : index_varies(c, index);
}

/* Along the vector loop around it an index goes by `step` or stays as it is. */
static void check_vector_index(Checker *c, Index index, int64_t step, const char *rule) {
    const NestNode *loop = vector_loop(c);
    int64_t number;
    if (!loop || c->problem) return;
    const bool known = index_is_number(index_coefficient(c->arena, index, loop->name), &number);
    needs(c, known && (number == 0 || number == step), rule);
    const LoopSet varies =
        index_varies(c, index_replace(c->arena, index, loop->name, index_number(c->arena, 0)));
    needs(c, !(varies & of_kinds(c, VECTOR)),
          "an index in a vector loop has no integers that vary in it");
}

static bool number_of(Index index, int64_t min, int64_t max, int64_t *number) {
    return index_is_number(index, number) && *number >= min && *number <= max;
}

/* ---- values ---- */

static LoopSet check_value(Checker *c, ValueId id, int depth) {
    const Function *f = c->nest->values;
    LoopSet set = 0;
    if (needs(c, id && id < f->value_count, "it has a value") ||
        needs(c, depth < 4000, "its value is nested too deeply"))
        return 0;
    const Value *v = &f->values[id];
    if (v->op == VALUE_NAME) {
        if (check_name(c, (SymbolId)v->payload, INTEGERS, "a value is made of values")) return 0;
        needs(c, v->type == c->nest->symbols[v->payload].type, "a name has its symbol's type");
        return c->known[v->payload].varies;
    }
    if (v->op == VALUE_INDEX) return check_index(c, *nest_index_of(c->nest, v));
    if (v->op == OP_CONST || c->seen[id] == c->stamp) return 0;
    c->seen[id] = c->stamp;
    if (needs(c, nest_has_operation((Op)v->op) || v->op == OP_LIST,
              "its value is made of operations on elements"))
        return 0;
    fails(c, c->node, ir_operation_problem(f, v));
    for (int i = 0; i < 3 && !c->problem; i++)
        if (v->arg[i]) set |= check_value(c, v->arg[i], depth + 1);
    return set;
}

static LoopSet value_varies(Checker *c, ValueId value) {
    c->stamp++;
    return check_value(c, value, 0);
}

static Type type_of(const Checker *c, ValueId value) {
    return (Type)c->nest->values->values[value].type;
}

static void check_bool(Checker *c, SymbolId symbol) {
    if (check_name(c, symbol, 1 << NAMED_VALUE, "its condition is a bool")) return;
    needs(c, c->nest->symbols[symbol].type == TYPE_BOOL, "its condition is a bool");
}

/* ---- elements ---- */

static const NestNode *alloc_of(const Checker *c, const NestNode *n) {
    const NestNode *node = c->known[n->array].node;
    return node && node->kind == NEST_ALLOC ? node : NULL;
}

/* A subscript of registers is a warp's or a lane's index alone, or of loops that are in the text of
 * a thread. Gives whether it is the former. */
static bool check_register_subscript(Checker *c, Index at) {
    bool own = false;
    for (size_t i = 0; i < at.count && !c->problem; i++)
        for (uint32_t k = 0; k < at.terms[i].count && !c->problem; k++) {
            const NestNode *loop = c->known[at.terms[i].symbols[k]].node;
            const unsigned kind = loop && loop->kind == NEST_LOOP ? 1U << loop->loop : 0;
            const bool thread = kind & (WARP | LANE);
            const bool alone = at.count == 1 && at.terms[0].count == 1 && at.terms[0].factor == 1;
            own = own || thread;
            needs(c, (kind & (SERIAL | UNROLLED | VECTOR)) || (thread && alone),
                  "registers are indexed by warp and lane loops, each alone, and by serial, "
                  "unrolled and vector loops");
        }
    return own;
}

static void check_registers(Checker *c, const NestNode *n) {
    Known *known = &c->known[n->array];
    int own = 0;
    for (size_t i = 0; i < n->at_count && !c->problem; i++) {
        const bool thread = check_register_subscript(c, n->at[i]);
        needs(c, !thread || own == (int)i, "dims of warp and lane loops come first in registers");
        own += thread;
    }
    needs(c, known->own < 0 || known->own == own,
          "registers have the same dims of warp and lane loops in every use");
    known->own = own;
}

/* NAME{LIST}[...]: the loops with which the place varies. */
static LoopSet check_element(Checker *c, const NestNode *n) {
    const unsigned kinds = 1 << NAMED_ARRAY | 1 << NAMED_ALLOC;
    LoopSet set = 0;
    if (check_name(c, n->array, kinds, "what it accesses is an array or an alloc")) return 0;
    const NestNode *alloc = alloc_of(c, n);
    const bool list = !alloc && c->arrays[n->array]->list;
    needs(c, list == (n->list != 0), "a list of arrays takes {LIST}, and nothing else does");
    needs(c, n->at_count == (alloc ? alloc->at_count : 1), "it has a subscript for each dim");
    if (list && !check_name(c, n->list, INTEGERS, "{LIST} is an integer")) {
        needs(c, is_integer(c->nest->symbols[n->list].type), "{LIST} is an integer");
        set = c->known[n->list].varies;
    }
    for (size_t i = 0; i < n->at_count && !c->problem; i++) {
        const LoopSet varies = check_index(c, n->at[i]);
        if (alloc) /* an array's elements may also be gathered, one by one */
            check_vector_index(c, n->at[i], 1, "an index goes by 0 or 1 along a vector");
        const bool last = i + 1 == n->at_count || (alloc && alloc->scope == SCOPE_REGISTER);
        needs(c, last || !(varies & of_kinds(c, VECTOR)),
              "in memory the last subscript alone goes along a vector");
        set |= varies;
    }
    if (!c->problem && alloc && alloc->scope == SCOPE_REGISTER) check_registers(c, n);
    return set;
}

static void check_options(Checker *c, const NestNode *n) {
    if (n->has_limit) {
        check_index(c, n->limit);
        check_vector_index(c, n->limit, -1, "a limit goes by 0 or -1 along a vector");
    }
    if (n->where) check_bool(c, n->where);
}

/* Of loops whose iterations are threads every one writes another element. `from`: the loops around
 * what is written, which has an instance in each of their iterations. */
static void check_writer(Checker *c, LoopSet varies, int from) {
    const LoopSet outside = (UINT64_C(1) << from) - 1;
    const LoopSet threads = of_kinds(c, THREADS) & ~outside & ~varies & ~c->first_only;
    if (!threads || c->problem) return;
    const NestNode *loop = c->loops[__builtin_ctzll(threads)];
    fails(c, c->node,
          arena_printf(c->arena, "each iteration of the %s loop %s writes the same element",
                       nest_loop_names[loop->loop], c->nest->symbols[loop->name].name));
}

static const NestArray *array_of(const Checker *c, const NestNode *n) {
    return alloc_of(c, n) ? NULL : c->arrays[n->array];
}

static Type stored_type(const Checker *c, const NestNode *n) {
    return c->nest->symbols[n->array].type;
}

static void check_load(Checker *c, const NestNode *n) {
    LoopSet set = check_element(c, n);
    check_options(c, n);
    if (c->problem) return;
    const Type type = type_info[stored_type(c, n)].compute;
    if (n->pad) value_varies(c, n->pad);
    if (c->problem) return;
    needs(c, !n->pad || type_of(c, n->pad) == type, "a pad has the type of what is loaded");
    needs(c, n->hint <= HINT_ONCE, "a load's hint is l1, l2 or once");
    const Known *known = &c->known[n->array];
    if (alloc_of(c, n)) set |= known->varies & ((UINT64_C(1) << known->depth) - 1);
    if (n->has_limit) set |= index_varies(c, n->limit);
    if (n->where) set |= c->known[n->where].varies;
    define(c, n->name, NAMED_VALUE, set);
    needs(c, c->nest->symbols[n->name].type == type,
          "what a load gives has the compute type of its array");
}

static void check_store(Checker *c, const NestNode *n) {
    const LoopSet set = check_element(c, n);
    check_options(c, n);
    const LoopSet varies = c->problem ? 0 : value_varies(c, n->value);
    if (c->problem) return;
    const Type type = stored_type(c, n);
    const NestArray *array = array_of(c, n);
    needs(c, type_of(c, n->value) == type_info[type].compute,
          "the value has the compute type of what it is stored to");
    needs(c, !array || (array->role != ARRAY_IN && array->role != ARRAY_TABLE),
          "what is stored to is no input and no table");
    needs(c, n->hint == HINT_NONE || n->hint >= HINT_NON_TEMPORAL,
          "a store's hint is non_temporal or owned");
    c->known[n->array].varies |= varies;
    if (n->kind == NEST_ADD)
        needs(c, type == TYPE_I64 && (n->op == OP_SCATTER || n->op == OP_SCATTER_MIN),
              "what is added to is an i64");
    else
        check_writer(c, set, array ? 0 : c->known[n->array].depth);
}

/* ---- trees ---- */

static void check_tree(Checker *c, const NestNode *n) {
    int64_t leaves;
    Type result;
    const char *problem = nest_reduction_problem(n->op, n->type, &result);
    if (problem) problem = arena_printf(c->arena, "%s wants %s", op_info[n->op].name, problem);
    fails(c, n, problem);
    check_index(c, n->extent);
    for (size_t i = 0; i < n->at_count && !c->problem; i++) check_index(c, n->at[i]);
    if (n->kind == NEST_FOLD)
        needs(c, number_of(n->extent, 1, INT64_C(1) << 32, &leaves) && !(leaves & (leaves - 1)),
              "a fold has a constant power of two of leaves");
    define(c, n->name, NAMED_TREE, 0);
    if (!c->problem)
        needs(c, c->nest->symbols[n->name].type == n->type, "a tree's symbol has its leaves' type");
}

/* Few leaves are combined in registers as they come, and one thread's folds side by side in memory.
 */
static bool comes_in_order(const Checker *c, const NestNode *tree) {
    int64_t count;
    return tree->kind == NEST_FOLD && (number_of(tree->extent, 1, FEW_LEAVES, &count) ||
                                       (c->nest->lanes == 1 && tree->at_count));
}

static void check_order(Checker *c, const NestNode *n, const Known *tree) {
    const Index leaf = n->at[n->at_count - 1];
    int64_t step, outer = INT64_MAX;
    if (c->problem || !comes_in_order(c, tree->node)) return;
    for (int i = tree->depth; i < c->loop_count; i++) {
        const NestNode *loop = c->loops[i];
        if (!index_uses(leaf, loop->name)) continue;
        needs(c, loop->loop == LOOP_SERIAL || loop->loop == LOOP_UNROLLED,
              "few leaves come in the order of a serial or unrolled loop");
        needs(c,
              number_of(index_coefficient(c->arena, leaf, loop->name), 1, INT64_MAX, &step) &&
                  step < outer,
              "few leaves come in ascending order");
        outer = step;
    }
}

static void check_push(Checker *c, const NestNode *n) {
    LoopSet set = 0;
    if (check_name(c, n->array, 1 << NAMED_TREE, "what is pushed to is a tree or a fold")) return;
    const Known *tree = &c->known[n->array];
    if (needs(c, n->at_count == tree->node->at_count + 1,
              "a push has a subscript for each dim, and the leaf"))
        return;
    for (size_t i = 0; i < n->at_count && !c->problem; i++) {
        const bool leaf = i + 1 == n->at_count; /* of a fold neighbours may lie across lanes */
        set |= check_index(c, n->at[i]);
        if (!leaf || tree->node->kind != NEST_FOLD)
            check_vector_index(c, n->at[i], 1, "an index goes by 0 or 1 along a vector");
    }
    check_options(c, n);
    if (!c->problem) value_varies(c, n->value);
    if (c->problem) return;
    needs(c, type_of(c, n->value) == tree->node->type, "the value has the type of the leaves");
    check_writer(c, set, tree->depth);
    check_order(c, n, tree);
}

static void check_combine(Checker *c, const NestNode *n) {
    const bool memory = n->op != OP_NONE;
    const unsigned kinds = memory ? 1 << NAMED_ALLOC : 1 << NAMED_TREE;
    LoopSet set = 0;
    Type result;
    if (check_name(c, n->array, kinds,
                   memory ? "a reduction of memory is of an alloc"
                          : "what is combined without a reduction is a tree or a fold"))
        return;
    const NestNode *tree = c->known[n->array].node;
    needs(c, n->at_count == tree->at_count, "it has a subscript for each dim");
    needs(c, memory || !n->extent.count || tree->kind == NEST_FOLD || tree->at_count,
          "a count is of the leaves of a fold, or of one of several trees");
    for (size_t i = 0; i < n->at_count && !c->problem; i++) {
        set |= check_index(c, n->at[i]);
        check_vector_index(c, n->at[i], 1, "an index goes by 0 or 1 along a vector");
    }
    set |= check_index(c, n->extent);
    if (c->problem) return;
    const Op op = memory ? n->op : tree->op;
    const Type leaves = memory ? type_info[stored_type(c, n)].compute : tree->type;
    const char *problem = nest_reduction_problem(op, leaves, &result);
    if (problem) problem = arena_printf(c->arena, "%s wants %s", op_info[op].name, problem);
    fails(c, n, problem);
    if (memory) set |= c->known[n->array].varies & ((UINT64_C(1) << c->known[n->array].depth) - 1);
    define(c, n->name, NAMED_VALUE, set);
    if (!c->problem)
        needs(c, c->nest->symbols[n->name].type == result,
              "what a combine gives has its reduction's type");
}

/* ---- memory of its own ---- */

static bool is_bound_size(const Checker *c, Index index) {
    for (size_t i = 0; i < index.count; i++)
        for (uint32_t k = 0; k < index.terms[i].count; k++) {
            const NamedKind kind = c->nest->symbols[index.terms[i].symbols[k]].kind;
            if (kind != NAMED_SIZE && kind != NAMED_DERIVED) return false;
        }
    return true;
}

static void check_alloc(Checker *c, const NestNode *n) {
    int64_t number;
    needs(c, n->scope <= SCOPE_GLOBAL, "an alloc is register, worker, shared or global");
    for (size_t i = 0; i < n->at_count && !c->problem; i++) {
        check_index(c, n->at[i]);
        if (n->scope == SCOPE_REGISTER || n->scope == SCOPE_SHARED)
            needs(c, number_of(n->at[i], 1, INT64_C(1) << 32, &number),
                  n->scope == SCOPE_SHARED ? "the size of shared memory is a constant"
                                           : "the number of registers is a constant");
        if (n->scope == SCOPE_GLOBAL)
            needs(c, is_bound_size(c, n->at[i]), "the size of global memory is made of sizes");
    }
    if (n->scope == SCOPE_SHARED)
        needs(c, !of_kinds(c, THREADS),
              "shared memory is a block's: outside of its threads' loops");
    if (n->scope == SCOPE_GLOBAL)
        needs(c, !of_kinds(c, THREADS | GRID), "global memory is a launch's: outside of its loops");
    define(c, n->name, NAMED_ALLOC, 0);
}

/* ---- loops, order ---- */

static bool is_straight(const NestNode *node) {
    for (; node; node = node->next) switch (node->kind) {
        case NEST_LET:
        case NEST_LOAD:
        case NEST_STORE:
        case NEST_ADD:
        case NEST_PUSH:
        case NEST_COMBINE:
        case NEST_PREFETCH: break;
        default: return false;
        }
    return true;
}

/* Lane loops in each other are as many lanes together, and nothing stands between them. */
static bool is_all_lanes(const Checker *c, const NestNode *n, int64_t extent) {
    int64_t own;
    bool inside = false;
    for (int i = 0; i < c->loop_count; i++) {
        if (c->loops[i]->loop != LOOP_LANE) continue;
        if (!index_is_number(c->loops[i]->extent, &own)) return false;
        extent *= own;
        inside = true;
    }
    if (inside && c->loops[c->loop_count - 1]->body != n) return false;
    if (extent == c->nest->lanes) return true;
    return extent < c->nest->lanes && n->body && n->body->kind == NEST_LOOP &&
           n->body->loop == LOOP_LANE && !n->body->next;
}

static void check_loop(Checker *c, const NestNode *n) {
    const LoopSet outside = of_kinds(c, (unsigned)~SERIAL), warps = of_kinds(c, THREADS);
    int64_t extent = 0;
    const bool known = index_is_number(n->extent, &extent);
    check_index(c, n->extent);
    if (needs(c, n->loop < LOOP_KIND_COUNT, "its kind is known")) return;
    switch (n->loop) {
    case LOOP_GRID: needs(c, !outside, "a grid loop is inside of serial loops alone"); break;
    case LOOP_WARP:
        needs(c, known && extent == c->nest->warps, "as many warps as the launch has");
        needs(c, !warps, "a warp loop is in no other loop of threads");
        break;
    case LOOP_LANE:
        needs(c, known && is_all_lanes(c, n, extent), "as many lanes as the launch has");
        needs(c, !of_kinds(c, VECTOR), "a lane loop is in no vector loop");
        break;
    case LOOP_UNROLLED:
        needs(c, known && extent >= 1 && extent <= UNROLLED_MAX,
              "an unrolled loop has a constant of at most 16 iterations");
        break;
    case LOOP_VECTOR:
        needs(c, known && extent >= 1 && extent <= c->nest->width,
              "a vector loop is no longer than a vector");
        needs(c, is_straight(n->body), "a vector loop is straight code");
        break;
    default: break;
    }
}

/* A test around it cannot vary with threads: it stands outside of their loops, as the barrier does.
 */
static void check_barrier(Checker *c, const NestNode *n) {
    const unsigned threads = n->scope == SCOPE_WARP ? LANE | VECTOR : THREADS;
    needs(c, n->scope >= SCOPE_WARP && n->scope < SCOPE_COUNT,
          "a barrier is of a warp, a block "
          "or the grid");
    needs(c, !of_kinds(c, threads), "not all threads of a loop meet at a barrier in it");
    needs(c, n->scope != SCOPE_GRID || !of_kinds(c, (unsigned)~SERIAL),
          "a barrier of the grid is in no loop but serial ones");
}

static bool has_grid_loop(const NestNode *node, const NestNode *end) {
    for (; node && node != end; node = node->next)
        if ((node->kind == NEST_LOOP && node->loop == LOOP_GRID) ||
            has_grid_loop(node->body, NULL) || has_grid_loop(node->other, NULL))
            return true;
    return false;
}

/* `first`: of the body that it stands in. */
static void check_arrive(Checker *c, const NestNode *n, const NestNode *first) {
    const bool counted = n->array || n->name;
    const LoopSet set = counted ? check_element(c, n) | check_index(c, n->extent) : 0;
    if (c->problem) return;
    const NestNode *alloc = counted ? alloc_of(c, n) : NULL;
    needs(c,
          !counted || (is_integer(stored_type(c, n)) && (!alloc || alloc->scope == SCOPE_GLOBAL)),
          "a counter is an integer in memory");
    needs(c, !of_kinds(c, n->name ? LANE | VECTOR : THREADS),
          "a block, or a warp, arrives once: outside of its threads' loops");
    if (n->value) value_varies(c, n->value);
    if (n->name) {
        needs(c, of_kinds(c, GRID) != 0, "an arrival with a name is in a grid loop");
        define(c, n->name, NAMED_VALUE, set);
        if (!c->problem)
            needs(c, c->nest->symbols[n->name].type == TYPE_BOOL, "an arrival gives a bool");
        return;
    }
    needs(c, !of_kinds(c, (unsigned)~SERIAL) && has_grid_loop(first, n),
          "an arrival without a name stands behind a grid loop");
}

/* ---- the tree ---- */

static void check_body(Checker *c, const NestNode *first);

static void check_branch(Checker *c, const NestNode *body) {
    const size_t order = c->order_count;
    if (++c->depth > NODE_DEPTH) needs(c, false, "it is nested too deeply");
    check_body(c, body);
    c->depth--;
    leave_scope(c, order);
}

static void check_loop_body(Checker *c, const NestNode *n) {
    const size_t order = c->order_count;
    check_loop(c, n);
    if (c->problem || needs(c, c->loop_count < LOOPS, "it is nested too deeply")) return;
    define(c, n->name, NAMED_LOOP, UINT64_C(1) << c->loop_count);
    c->loops[c->loop_count++] = n;
    check_branch(c, n->body);
    c->loop_count--;
    leave_scope(c, order);
}

/* The loops of which an amount of 1 less multiples of their indices leaves the first iteration. */
static LoopSet first_of(const Checker *c, Index amount) {
    LoopSet set = 0;
    for (size_t i = 0; i < amount.count; i++) {
        const IndexTerm *term = &amount.terms[i];
        if (term->count == 0 && term->factor == 1) continue;
        const bool loop = term->count == 1 && term->factor < 0 &&
                          c->nest->symbols[term->symbols[0]].kind == NAMED_LOOP;
        if (!loop) return 0;
        set |= c->known[term->symbols[0]].varies;
    }
    return set;
}

static void check_if(Checker *c, const NestNode *n) {
    const LoopSet before = c->first_only;
    check_index(c, n->extent);
    if (!c->problem) c->first_only |= first_of(c, n->extent);
    check_branch(c, n->body);
    c->first_only = before;
    check_branch(c, n->other);
}

static void check_node(Checker *c, const NestNode *n, const NestNode *first) {
    LoopSet set;
    c->node = n;
    switch (n->kind) {
    case NEST_LOOP: check_loop_body(c, n); break;
    case NEST_IF: check_if(c, n); break;
    case NEST_WHEN:
        check_bool(c, n->where);
        check_branch(c, n->body);
        check_branch(c, n->other);
        break;
    case NEST_LET:
        set = value_varies(c, n->value);
        define(c, n->name, NAMED_VALUE, set);
        if (!c->problem)
            needs(c, c->nest->symbols[n->name].type == type_of(c, n->value),
                  "its symbol has its value's type");
        break;
    case NEST_LOAD: check_load(c, n); break;
    case NEST_STORE:
    case NEST_ADD: check_store(c, n); break;
    case NEST_ALLOC: check_alloc(c, n); break;
    case NEST_TREE:
    case NEST_FOLD: check_tree(c, n); break;
    case NEST_PUSH: check_push(c, n); break;
    case NEST_COMBINE: check_combine(c, n); break;
    case NEST_BARRIER: check_barrier(c, n); break;
    case NEST_ARRIVE: check_arrive(c, n, first); break;
    case NEST_PREFETCH:
        check_element(c, n);
        check_index(c, n->extent);
        break;
    case NEST_KIND_COUNT: break;
    }
}

static void check_body(Checker *c, const NestNode *first) {
    for (const NestNode *n = first; n && !c->problem; n = n->next) check_node(c, n, first);
}

/* ---- the header ---- */

static void check_fact(Checker *c, const NestFact *fact) {
    const bool absent = fact->kind == FACT_ABSENT;
    if (check_name(c, fact->symbol, absent ? 1 << NAMED_ARRAY : 1 << NAMED_SIZE,
                   absent ? "what is absent is an array" : "a fact is of a size"))
        return;
    needs(c, !absent || c->arrays[fact->symbol]->role == ARRAY_OUT, "what is absent is an output");
    needs(c, fact->kind != FACT_MULTIPLE || fact->number > 0, "a multiple is of at least 1");
}

static void check_header(Checker *c) {
    const Nest *nest = c->nest;
    needs(c, nest->warps && nest->lanes && nest->width, "a launch has warps, lanes and a width");
    for (size_t i = 0; i < nest->size_count && !c->problem; i++)
        define(c, nest->sizes[i], NAMED_SIZE, 0);
    for (size_t i = 0; i < nest->derived_count && !c->problem; i++) {
        value_varies(c, nest->derived[i].value);
        if (!c->problem)
            needs(c, type_of(c, nest->derived[i].value) == TYPE_I64, "a derived size is an i64");
        define(c, nest->derived[i].symbol, NAMED_DERIVED, 0);
    }
    for (size_t i = 0; i < nest->array_count && !c->problem; i++) {
        check_index(c, nest->arrays[i].extent);
        define(c, nest->arrays[i].symbol, NAMED_ARRAY, 0);
        if (!c->problem) c->arrays[nest->arrays[i].symbol] = &nest->arrays[i];
    }
    for (size_t i = 0; i < nest->fact_count && !c->problem; i++) check_fact(c, &nest->facts[i]);
}

const char *nest_problem(const Nest *nest) {
    Checker c = {.nest = nest, .arena = arena_child(nest->arena)};
    c.known = arena_alloc(c.arena, nest->symbol_count * sizeof *c.known);
    c.order = arena_alloc(c.arena, nest->symbol_count * sizeof *c.order);
    c.arrays = arena_alloc(c.arena, nest->symbol_count * sizeof *c.arrays);
    c.seen = arena_alloc(c.arena, nest->values->value_count * sizeof *c.seen);
    check_header(&c);
    check_body(&c, nest->body);
    const char *problem = c.problem;
    arena_close(c.arena);
    return problem;
}

void nest_check(const Nest *nest) {
    const char *problem = nest_problem(nest);
    if (problem) bug(nest->compiler, "%s", problem);
}
