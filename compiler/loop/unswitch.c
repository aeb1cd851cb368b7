/* unswitch.c: loop unswitching: a loop that stores only where a condition holds, the same in all
 * its iterations, becomes one test around it.
 *
 * nest_sink brings a loop's body into the form that has one test: what decides it, then, under it,
 * all else, loads too, so that nothing is read where nothing is stored. nest_unswitch moves such
 * tests out of loops.
 *
 * Needs loops without barriers. Keeps what is computed and stored; what stood in the loop for the
 * stores alone is not done where none is. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

/* ---- the condition ---- */

static const NestNode *definition(const NestNode *body, SymbolId symbol) {
    for (const NestNode *node = body; node; node = node->next) {
        if (node->name == symbol) return node;
        const NestNode *inside = definition(node->body, symbol);
        if (!inside) inside = definition(node->other, symbol);
        if (inside) return inside;
    }
    return NULL;
}

/* Two names of one value. */
static bool is_same(const Nest *nest, SymbolId a, SymbolId b) {
    if (a == b) return true;
    const NestNode *one = definition(nest->body, a), *other = definition(nest->body, b);
    return one && other && one->kind == NEST_LET && other->kind == NEST_LET &&
           one->value == other->value;
}

/* The condition under which alone the nodes have an effect: none, or several: 0. */
static SymbolId find_condition(const Nest *nest, const NestNode *body) {
    SymbolId all = 0;
    for (const NestNode *node = body; node; node = node->next) {
        switch (node->kind) {
        case NEST_LET:
        case NEST_LOAD: continue;
        case NEST_WHEN:
            if (node->other) return 0;
            break;
        case NEST_STORE:
        case NEST_ADD: break;
        default: return 0;
        }
        if (!node->where || (all && !is_same(nest, all, node->where))) return 0;
        all = node->where;
    }
    return all;
}

/* ---- sinking ---- */

/* Nodes that run where the condition holds, without it. */
static void drop_condition(const Nest *nest, NestNode *body, SymbolId condition) {
    for (NestNode *node = body; node; node = node->next) {
        const bool accesses =
            node->kind == NEST_STORE || node->kind == NEST_ADD || node->kind == NEST_LOAD;
        if (accesses && node->where && is_same(nest, node->where, condition)) node->where = 0;
    }
}

/* Splits the body into what the condition is made of, which is kept, and the rest, which is given.
 */
static NestNode *split(const Nest *nest, NestNode **body, SymbolId condition, Arena *scratch) {
    uint32_t *uses = arena_alloc(scratch, nest->symbol_count * sizeof *uses);
    size_t count = 0;
    for (const NestNode *node = *body; node; node = node->next) count++;
    NestNode **nodes = arena_alloc(scratch, count * sizeof *nodes);
    bool *kept = arena_alloc(scratch, count * sizeof *kept);
    count = 0;
    for (NestNode *node = *body; node; node = node->next) nodes[count++] = node;
    uses[condition] = 1;
    for (size_t i = count; i-- > 0;) {
        kept[i] = nodes[i]->name && uses[nodes[i]->name];
        if (kept[i]) nest_add_uses(nest, nodes[i], uses);
    }
    NestNode *rest = NULL, **rest_end = &rest, **end = body;
    for (size_t i = 0; i < count; i++) {
        NestNode ***to = kept[i] ? &end : &rest_end;
        **to = nodes[i];
        *to = &nodes[i]->next;
    }
    *end = NULL;
    *rest_end = NULL;
    return rest;
}

static NestNode *test(Nest *nest, SymbolId condition, NestNode *body) {
    NestNode *first = NULL, **end = &first;
    NestNode *when = nest_add(nest, &end, (NestNode){.kind = NEST_WHEN, .where = condition});
    when->body = body;
    when->range = body->range;
    return first;
}

/* The innermost loops, with a test in each. */
bool nest_sink(Nest *nest, NestNode *loop) {
    bool inner = false, done = false;
    for (NestNode *node = loop->body; node; node = node->next)
        if (node->kind == NEST_LOOP) {
            inner = true;
            done |= nest_sink(nest, node);
        }
    const SymbolId condition = inner ? 0 : find_condition(nest, loop->body);
    if (!condition) return done;
    Arena *scratch = arena_child(nest->arena);
    NestNode *rest = split(nest, &loop->body, condition, scratch), **end = &loop->body;
    arena_close(scratch);
    drop_condition(nest, rest, condition);
    while (*end) end = &(*end)->next;
    *end = test(nest, condition, rest);
    return true;
}

/* ---- unswitching ---- */

static void unswitch(Nest *nest, NestNode **at) {
    for (; *at; at = &(*at)->next) {
        NestNode *loop = *at;
        unswitch(nest, &loop->body);
        unswitch(nest, &loop->other);
        if (loop->kind != NEST_LOOP || (loop->loop != LOOP_SERIAL && loop->loop != LOOP_UNROLLED))
            continue;
        const SymbolId condition = find_condition(nest, loop->body);
        if (!condition || definition(loop->body, condition)) continue;
        NestNode *after = loop->next;
        loop->next = NULL;
        drop_condition(nest, loop->body, condition);
        for (NestNode **inside = &loop->body; *inside;) {
            NestNode *node = *inside;
            if (node->kind != NEST_WHEN) {
                inside = &node->next;
                continue;
            }
            *inside = node->body; /* holds here: its body takes its place */
            while (*inside) inside = &(*inside)->next;
            *inside = node->next;
        }
        *at = test(nest, condition, loop);
        (*at)->next = after;
    }
}

void nest_unswitch(Nest *nest) {
    unswitch(nest, &nest->body);
}
