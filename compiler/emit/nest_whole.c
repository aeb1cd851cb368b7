/* nest_whole.c: rows of whole vectors in a text of their own: loop versioning.
 *
 * Where rows are a multiple of the vector, all vectors with a limit are ahead of it or beyond it: a
 * test for each does, and none is accessed by elements. The text of a row, or of a part of a row
 * panel, then stands twice, under the test that this is so, and as it is for all other rows. A tile
 * without limits (split_tail) is told from others in the first of these texts alone, but for rows
 * of many warps, and so are parts of a panel by how many rows they have. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"
#include "emit/emit.h"

const char *print_aligned(NestPrinter *p, const NestNode *loop, const NestNode *node) {
    const uint32_t width = print_width(loop);
    const char *whole = print_multiples(p, loop, width, node->at[0]);
    const char *halves = print_multiples(p, loop, width / 2, node->at[0]);
    if (width == 4) return whole ? whole : "0";
    return arena_printf(p->arena, "%s, %s", whole ? whole : "0", halves ? halves : "0");
}

typedef struct Whole { /* what has to hold, each once */
    NestPrinter *p;
    const char *texts[16];
    size_t count;
    bool known, any; /* all of it fits here; a vector is accessed as one */
} Whole;

static void add(Whole *w, const char *text) {
    if (!text) w->known = false;
    if (!text || strcmp(text, "1") == 0) return;
    for (size_t i = 0; i < w->count; i++)
        if (strcmp(w->texts[i], text) == 0) return;
    if (w->count == COUNT(w->texts))
        w->known = false;
    else
        w->texts[w->count++] = text;
}

/* The sizes that limits end at: for these to be whole, they are multiples of the vector. */
static void find_multiples(NestPrinter *p, const NestNode *body, const NestNode *vector) {
    for (const NestNode *node = body; node; node = node->next) {
        const bool inside = node->kind == NEST_LOOP && node->loop == LOOP_VECTOR;
        const bool tested = vector && node->has_limit &&
                            print_multiples(p, vector, print_width(vector), node->limit);
        for (size_t t = 0; t < node->limit.count && tested; t++) {
            const IndexTerm *term = &node->limit.terms[t];
            if (term->count == 1 && term->factor * term->factor == 1 &&
                p->nest->symbols[term->symbols[0]].kind == NAMED_SIZE)
                p->multiples[term->symbols[0]] = true;
        }
        find_multiples(p, node->body, inside ? node : NULL);
        find_multiples(p, node->other, inside ? node : NULL);
    }
}

static void look_at(Whole *w, const NestNode *body) {
    for (const NestNode *loop = body; loop && w->known; loop = loop->next) {
        look_at(w, loop->body);
        look_at(w, loop->other);
        if (loop->kind != NEST_LOOP || loop->loop != LOOP_VECTOR) continue;
        for (const NestNode *node = loop->body; node; node = node->next) {
            if (!node->has_limit) continue;
            const char *limit = print_multiples(w->p, loop, print_width(loop), node->limit);
            const bool packet = w->p->nest->symbols[node->array].kind == NAMED_ARRAY &&
                                print_is_packet(w->p, loop, node);
            if (limit || packet) add(w, limit);
            if (packet) add(w, print_multiples(w->p, loop, print_width(loop), node->at[0]));
            w->any |= packet;
        }
    }
}

Index print_limit(NestPrinter *p, Index limit) {
    const NestNode *loop = p->vector_loop;
    if (!p->whole_vectors || !index_uses(limit, loop->name) ||
        !print_multiples(p, loop, print_width(loop), limit))
        return limit;
    return index_replace(p->arena, limit, loop->name, (Index){NULL, 0});
}

bool print_is_kept(const Nest *nest, const PlainNest *plain) {
    enum { TILE = 1024 };
    return nest->lanes > 1 && plain->along_count && plain->along_max <= TILE * nest->warps;
}

bool print_open_whole(NestPrinter *p, const NestNode *body) {
    const bool panel = p->nest->lanes > 1 && p->plain->panel[0];
    Whole w = {.p = p, .known = panel || print_is_kept(p->nest, p->plain)};
    Text test = text_open(p->arena);
    p->multiples = arena_alloc(p->arena, (p->nest->symbol_count + 1) * sizeof *p->multiples);
    if (w.known) {
        find_multiples(p, body, NULL);
        look_at(&w, body);
    }
    p->multiples = NULL;
    if (!w.known || !w.any || !w.count) return false;
    for (size_t i = 0; i < w.count; i++) text_printf(&test, "%s%s", i ? " && " : "", w.texts[i]);
    text_printf(p->out, "if (%s) {\n", test.data);
    p->whole_vectors = true;
    return true;
}

/* Many warps tell whole tiles apart in this text too: others are one in many of a row, and elements
 * with a test each would be waited for one by one. */
void print_else_whole(NestPrinter *p) {
    p->whole_vectors = false;
    p->one_version = !print_is_kept(p->nest, p->plain) || p->nest->warps < MANY_WARPS;
    text_puts(p->out, "} else {\n");
}

void print_close_whole(NestPrinter *p) {
    p->one_version = false;
    text_puts(p->out, "}\n");
}
