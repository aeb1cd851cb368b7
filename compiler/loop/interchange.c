/* interchange.c: moves a loop of independent iterations inside of the loops that are in it.
 *
 * The loop is distributed over its body: straight code keeps a copy of the loop around each run of
 * it, and of each loop in it the two are interchanged. Needs a serial loop of independent
 * iterations, at most so many, in which loops are as long in each. Keeps what an iteration does,
 * in its order. Changes registers to memory with an element for each iteration (scalar expansion);
 * what is the same in all iterations is computed once (invariant code motion), and other values
 * that a later part needs are computed there again (rematerialization). */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

typedef struct Interchange {
    Nest *nest;
    NestNode *loop;
    int64_t max;
    bool *written;           /* by symbol: an array that is stored to */
    const NestNode **values; /* LETs and LOADs that vary, in their order */
    size_t value_count;
    NestNode *allocs, **allocs_end;
    const char *problem;
} Interchange;

static void refuse(Interchange *x, const char *problem) {
    if (!x->problem) x->problem = problem;
}

static bool is_straight(const NestNode *body) {
    for (const NestNode *node = body; node; node = node->next) switch (node->kind) {
        case NEST_IF:
        case NEST_WHEN:
            if (!is_straight(node->body) || !is_straight(node->other)) return false;
            break;
        case NEST_LET:
        case NEST_LOAD:
        case NEST_STORE:
        case NEST_ADD:
        case NEST_PREFETCH: break;
        default: return false;
        }
    return true;
}

static void find_written(Interchange *x, const NestNode *body) {
    for (const NestNode *node = body; node; node = node->next) {
        if (node->kind == NEST_STORE || node->kind == NEST_ADD) x->written[node->array] = true;
        find_written(x, node->body);
        find_written(x, node->other);
    }
}

static bool uses(const Interchange *x, const NestNode *node, SymbolId symbol) {
    NestNode alone = *node;
    alone.next = NULL;
    return nest_body_uses(x->nest, &alone, symbol);
}

static bool uses_varying(const Interchange *x, const NestNode *node) {
    if (uses(x, node, x->loop->name)) return true;
    for (size_t i = 0; i < x->value_count; i++)
        if (uses(x, node, x->values[i]->name)) return true;
    return false;
}

/* Whether the node gives the same in all iterations, wherever in the loop it stands. */
static bool is_invariant(const Interchange *x, const NestNode *node) {
    if (node->kind != NEST_LET && node->kind != NEST_LOAD) return false;
    if (node->kind == NEST_LOAD && x->written[node->array]) return false;
    return !uses_varying(x, node);
}

/* ---- scalar expansion ---- */

static void expand_uses(Interchange *x, NestNode *body, SymbolId alloc) {
    for (NestNode *node = body; node; node = node->next) {
        if (node->array == alloc) {
            Index *at = nest_at(x->nest, node->at_count + 1);
            at[0] = index_symbol(x->nest->arena, x->loop->name);
            for (size_t i = 0; i < node->at_count; i++) at[i + 1] = node->at[i];
            node->at = at;
            node->at_count++;
        }
        expand_uses(x, node->body, alloc);
        expand_uses(x, node->other, alloc);
    }
}

static void expand(Interchange *x, const NestNode *alloc) {
    NestNode own = *alloc;
    if (alloc->scope != SCOPE_REGISTER && alloc->scope != SCOPE_WORKER)
        refuse(x, "its iterations partition memory");
    own.scope = SCOPE_WORKER;
    own.at = nest_at(x->nest, alloc->at_count + 1);
    own.at[0] = index_number(x->nest->arena, x->max);
    for (size_t i = 0; i < alloc->at_count; i++) own.at[i + 1] = alloc->at[i];
    own.at_count++;
    nest_add(x->nest, &x->allocs_end, own);
}

static void expand_all(Interchange *x, NestNode *body) {
    for (NestNode *node = body; node; node = node->next) {
        if (node->kind == NEST_ALLOC) {
            expand(x, node);
            expand_uses(x, x->loop->body, node->name);
        }
        expand_all(x, node->body);
    }
}

/* ---- distribution ---- */

/* Puts ahead of the run of nodes what it needs of the values before it. */
static NestNode *with_values(Interchange *x, NestNode *run, size_t before) {
    for (size_t i = before; i-- > 0;) {
        const NestNode *value = x->values[i];
        if (!nest_body_uses(x->nest, run, value->name)) continue;
        if (value->kind == NEST_LOAD && x->written[value->array])
            refuse(x, "a value is of memory that changes");
        NestNode *copy = arena_alloc(x->nest->arena, sizeof *copy);
        *copy = *value;
        copy->next = run;
        run = copy;
    }
    return run;
}

/* The loop around a run of straight nodes. */
static void close_run(Interchange *x, NestNode **run, NestNode ***run_end, size_t before,
                      NestNode ***end) {
    Nest *nest = x->nest;
    if (!*run) return;
    NestNode *body = nest_clone(nest, with_values(x, *run, before));
    const SymbolId own = nest_symbol(nest, nest->symbols[x->loop->name].name, NAMED_LOOP, TYPE_I64);
    nest_replace(nest, body, x->loop->name, index_symbol(nest->arena, own));
    nest_add(nest, end,
             (NestNode){.kind = NEST_LOOP,
                        .loop = LOOP_SERIAL,
                        .name = own,
                        .extent = x->loop->extent,
                        .body = body,
                        .range = x->loop->range});
    *run = NULL;
    *run_end = run;
}

static void distribute(Interchange *x, const NestNode *body, NestNode ***end) {
    Nest *nest = x->nest;
    NestNode *run = NULL, **run_end = &run;
    size_t before = x->value_count;
    for (const NestNode *node = body; node && !x->problem; node = node->next) {
        if (node->kind == NEST_ALLOC) continue;
        if (is_invariant(x, node)) {
            nest_add(nest, end, *node);
            continue;
        }
        if (node->kind != NEST_LOOP) {
            NestNode alone = *node;
            alone.next = NULL;
            if (!is_straight(&alone)) refuse(x, "what is in the loop is not straight code");
            if (node->kind == NEST_LET || node->kind == NEST_LOAD)
                x->values[x->value_count++] = nest_copy(nest->arena, &alone);
            nest_add(nest, &run_end, *node);
            continue;
        }
        close_run(x, &run, &run_end, before, end);
        NestNode bound = {.kind = NEST_LOOP, .extent = node->extent};
        if (uses_varying(x, &bound)) refuse(x, "a loop in it is not as long in each iteration");
        NestNode *loop = nest_add(nest, end, *node), **inside = &loop->body;
        *inside = NULL;
        const size_t own = x->value_count;
        distribute(x, node->body, &inside);
        x->value_count = own;
        before = x->value_count;
    }
    close_run(x, &run, &run_end, before, end);
}

static size_t count_nodes(const NestNode *body) {
    size_t count = 0;
    for (const NestNode *node = body; node; node = node->next)
        count += 1 + count_nodes(node->body) + count_nodes(node->other);
    return count;
}

const char *nest_interchange(Nest *nest, SymbolId loop, int64_t max) {
    Arena *arena = nest->arena;
    NestNode **place = nest_find(&nest->body, loop), *first = NULL, **end = &first;
    if (!place || (*place)->kind != NEST_LOOP) return "there is no such loop";
    if ((*place)->loop != LOOP_SERIAL) return "the loop is not serial";
    NestNode *old = *place, copy = *old;
    Interchange x = {.nest = nest, .loop = &copy, .max = max};
    x.allocs_end = &x.allocs;
    copy.body = nest_copy(arena, old->body);
    x.written = arena_alloc(arena, nest->symbol_count * sizeof *x.written);
    x.values = arena_alloc(arena, (count_nodes(old->body) + 1) * sizeof *x.values);
    find_written(&x, copy.body);
    expand_all(&x, copy.body);
    distribute(&x, copy.body, &end);
    if (x.problem) return x.problem;
    *end = old->next;
    *x.allocs_end = first;
    *place = x.allocs;
    return NULL;
}
