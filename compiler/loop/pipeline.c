/* pipeline.c: software pipelining of a loop's loads: those of the next iteration are under way
 * while this one is computed.
 *
 * Needs a serial loop, and in it unrolled loops that only load from memory to registers, as
 * nest_load_first leaves them, around which stand loops of threads, unrolled ones and at most one
 * test; nothing in the loop stores to those arrays, and where they are loaded depends on indices of
 * loops alone. Keeps what is computed. Changes where values come from: registers that live from one
 * iteration to the next, filled ahead of the loop for its first, and in it as soon as they have
 * been read. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

enum { DEPTH = 8 };

typedef struct Fetch {
    const NestNode *around[DEPTH]; /* from the loop's body to the loads: loops and the test */
    size_t depth;
    NestNode *loop; /* the one that loads */
} Fetch;

typedef struct Pipeline {
    Nest *nest;
    NestNode *loop;
    NestNode *first, **first_end; /* ahead of the loop */
    bool any;
} Pipeline;

/* Whether the index is made of loops, sizes and what is bound outside of the pipelined loop. */
static bool is_known(const Pipeline *p, Index index) {
    for (size_t t = 0; t < index.count; t++)
        for (uint32_t k = 0; k < index.terms[t].count; k++) {
            const SymbolId symbol = index.terms[t].symbols[k];
            if (p->nest->symbols[symbol].kind != NAMED_LOOP && nest_find(&p->loop->body, symbol))
                return false;
        }
    return true;
}

static bool is_load(const Pipeline *p, const NestNode *node) {
    if (node->kind != NEST_LOAD || p->nest->symbols[node->array].kind != NAMED_ARRAY) return false;
    if (node->list || node->where || nest_stores_to(p->loop->body, node->array)) return false;
    for (size_t i = 0; i < node->at_count; i++)
        if (!is_known(p, node->at[i])) return false;
    return !node->has_limit || is_known(p, node->limit);
}

/* The straight code of a loop that loads: its own, or that of the vector loop that is all of it. */
static NestNode **code_of(NestNode *loop) {
    NestNode *inner = loop->body;
    return inner && inner->kind == NEST_LOOP && !inner->next ? &inner->body : &loop->body;
}

static bool is_fetch(const Pipeline *p, NestNode *loop) {
    bool any = false;
    if (loop->kind != NEST_LOOP || loop->loop != LOOP_UNROLLED) return false;
    for (const NestNode *node = *code_of(loop); node; node = node->next) {
        const bool keeps =
            node->kind == NEST_STORE && p->nest->symbols[node->array].kind == NAMED_ALLOC;
        if (!keeps && !is_load(p, node)) return false;
        any |= !keeps;
    }
    return any;
}

static NestNode *copy_alone(Nest *nest, const NestNode *node) {
    NestNode *copy = arena_alloc(nest->arena, sizeof *copy);
    *copy = *node;
    copy->next = NULL;
    return nest_copy(nest->arena, copy);
}

/* The loops of threads around the fetch and its own: what the registers are indexed by, threads
 * first. */
static size_t loops_of(const Fetch *fetch, const NestNode **loops) {
    size_t count = 0;
    for (size_t i = 0; i < fetch->depth; i++)
        if (fetch->around[i]->kind == NEST_LOOP) loops[count++] = fetch->around[i];
    loops[count++] = fetch->loop;
    if (*code_of(fetch->loop) != fetch->loop->body) loops[count++] = fetch->loop->body;
    return count;
}

static Index *subscripts(Nest *nest, const NestNode **loops, size_t count, bool extents) {
    Index *at = nest_at(nest, count);
    for (size_t i = 0; i < count; i++)
        at[i] = extents ? loops[i]->extent : index_symbol(nest->arena, loops[i]->name);
    return at;
}

/* Registers for what a load of the fetch gives, which is then read from these. */
static SymbolId declare(Pipeline *p, const NestNode **loops, size_t count, const NestNode *load) {
    Nest *nest = p->nest;
    const NestSymbol value = nest->symbols[load->name];
    const SymbolId next = nest_symbol(nest, arena_printf(nest->arena, "%s_next", value.name),
                                      NAMED_ALLOC, nest->symbols[load->array].type);
    nest_add(nest, &p->first_end,
             (NestNode){.kind = NEST_ALLOC,
                        .scope = SCOPE_REGISTER,
                        .name = next,
                        .at = subscripts(nest, loops, count, true),
                        .at_count = count});
    return next;
}

/* The fetch as it fills the registers; and from then on the fetch itself reads those. */
static NestNode *split_fetch(Pipeline *p, const Fetch *fetch) {
    Nest *nest = p->nest;
    const NestNode *loops[DEPTH + 2];
    const size_t count = loops_of(fetch, loops);
    NestNode *fill = copy_alone(nest, fetch->loop), *body = NULL, **end = &body;
    for (NestNode *load = *code_of(fetch->loop); load; load = load->next) {
        if (load->kind != NEST_LOAD) continue;
        const SymbolId next = declare(p, loops, count, load);
        nest_add(nest, &end, *load);
        nest_add(nest, &end,
                 (NestNode){.kind = NEST_STORE,
                            .array = next,
                            .at = subscripts(nest, loops, count, false),
                            .at_count = count,
                            .value = nest_name(nest, load->name),
                            .has_limit = load->has_limit,
                            .limit = load->limit});
        load->array = next;
        load->at = subscripts(nest, loops, count, false);
        load->at_count = count;
        load->hint = HINT_NONE;
    }
    *code_of(fill) = body;
    return fill;
}

/* What fills the registers for an iteration, in the loops and the test around it from `from` on. */
static NestNode *fill_for(Pipeline *p, const Fetch *fetch, size_t from, const NestNode *fill,
                          Index iteration, bool only_test) {
    Nest *nest = p->nest;
    NestNode *body = copy_alone(nest, fill);
    for (size_t i = fetch->depth; i-- > from;) {
        if (only_test && fetch->around[i]->kind != NEST_IF) continue;
        NestNode *around = arena_alloc(nest->arena, sizeof *around);
        *around = *fetch->around[i];
        around->next = around->other = NULL;
        around->body = body;
        body = around;
    }
    body = nest_copy(nest->arena, body);
    nest_replace(nest, body, p->loop->name, iteration);
    return nest_clone(nest, body);
}

static void pipeline_fetch(Pipeline *p, const Fetch *fetch) {
    Nest *nest = p->nest;
    const NestNode *fill = split_fetch(p, fetch);
    const Index one = index_number(nest->arena, 1), zero = {NULL, 0};
    const Index next = index_add(nest->arena, index_symbol(nest->arena, p->loop->name), one);
    NestNode *ahead = fill_for(p, fetch, 0, fill, zero, false);
    ahead = nest_only_where(nest, p->loop->extent, ahead);
    *p->first_end = ahead;
    p->first_end = &ahead->next;
    NestNode *own = fill_for(p, fetch, 0, fill, next, true);
    own = nest_only_where(nest, index_subtract(nest->arena, p->loop->extent, next), own);
    own->next = fetch->loop->next;
    fetch->loop->next = own;
    p->any = true;
}

/* The stages of a body, which stands in what the fetch says so far. */
static void pipeline_body(Pipeline *p, NestNode *body, Fetch fetch) {
    bool tested = false;
    for (size_t i = 0; i < fetch.depth; i++) tested |= fetch.around[i]->kind == NEST_IF;
    for (NestNode *node = body; node; node = node->next) {
        const bool around =
            node->kind == NEST_LOOP && !is_fetch(p, node) &&
            (node->loop == LOOP_WARP || node->loop == LOOP_LANE || node->loop == LOOP_UNROLLED);
        const bool test =
            node->kind == NEST_IF && !node->other && !tested && is_known(p, node->extent);
        if ((around || test) && fetch.depth < DEPTH) {
            Fetch inner = fetch;
            inner.around[inner.depth++] = node;
            pipeline_body(p, node->body, inner);
        } else if (is_fetch(p, node)) {
            fetch.loop = node;
            pipeline_fetch(p, &fetch);
            node = node->next; /* what fills the registers */
        }
    }
}

const char *nest_pipeline(Nest *nest, SymbolId loop) {
    NestNode **place = nest_find(&nest->body, loop);
    if (!place || (*place)->kind != NEST_LOOP) return "there is no such loop";
    if ((*place)->loop != LOOP_SERIAL) return "the loop is not serial";
    Pipeline p = {.nest = nest, .loop = *place};
    p.first_end = &p.first;
    pipeline_body(&p, (*place)->body, (Fetch){.depth = 0});
    if (!p.any) return "no loop in it loads to registers alone";
    *p.first_end = *place;
    *place = p.first;
    return NULL;
}
