/* explain_others.c: the plans that a plan was chosen from, with their launches and bytes.
 *
 * Each differs from the chosen one by a single choice. They are counted for the report's sizes,
 * while the planner compares them for axes of equal lengths: so one of them may do better here. */
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>

#include "compiler.h"
#include "plan.h"
#include "compilation.h"
#include "report.h"

enum { SHOWN = 6 };

typedef struct Other {
    const char *what;
    size_t launches, place;
    double moved;
} Other;

/* The other plan's way to run that is chosen where this one is. */
static const Way *same_way(const Plan *plan, const Way *chosen) {
    for (size_t i = 0; i < plan->way_count; i++) {
        const Way *way = &plan->ways[i];
        const bool both =
            (way->kernels[0].kind == KERNEL_ALL) == (chosen->kernels[0].kind == KERNEL_ALL);
        if (both && way->few == chosen->few && way->limited == chosen->limited) return way;
    }
    return &plan->ways[plan->way_count - 1];
}

static Other count_other(const Report *r, const Alternative *alternative, size_t place) {
    const Plan *plan = alternative->plan;
    const Way *way = same_way(plan, &r->plan->ways[r->variant]);
    Other other = {alternative->what, way->count, place, 0};
    for (size_t i = 0; i < other.launches; i++) {
        const KernelBytes bytes = plan_kernel_bytes(plan, &r->sizes, &way->kernels[i]);
        other.moved += bytes.read + bytes.written;
    }
    return other;
}

/* Fewer bytes first; equal ones in the order of the source's values. */
static int compare(const void *left, const void *right) {
    const Other *a = left, *b = right;
    if (a->moved != b->moved) return a->moved < b->moved ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

/* Whether two plans cost so much the same that only one is worth a line. */
static bool alike(double moved, double other_moved, size_t launches, size_t other_launches) {
    const double apart = moved > other_moved ? moved - other_moved : other_moved - moved;
    return launches == other_launches && apart <= 0.005 * moved;
}

/* Without those that are as good as the chosen one. */
static size_t find_others(Report *r, Other **others) {
    const Alternatives list = plan_alternatives(r->plan);
    size_t count = 0;
    *others = arena_alloc(&r->c->compiler.arena, (list.count + 1) * sizeof **others);
    for (size_t i = 0; i < list.count; i++) {
        const Other other = count_other(r, &list.items[i], i);
        if (!alike(r->moved, other.moved, r->kernel_count, other.launches))
            (*others)[count++] = other;
    }
    qsort(*others, count, sizeof **others, compare);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const Other *last = kept ? &(*others)[kept - 1] : NULL;
        if (!last || strcmp(last->what, (*others)[i].what) != 0) (*others)[kept++] = (*others)[i];
    }
    return kept;
}

void report_others(Report *r) {
    Other *others;
    const size_t count = find_others(r, &others);
    if (count) text_puts(&r->out, "  instead, it could have:\n");
    for (size_t i = 0; i < count && i < SHOWN; i++)
        text_printf(&r->out, "    %s: %zu launch%s, %s\n", others[i].what, others[i].launches,
                    others[i].launches == 1 ? "" : "es", report_bytes_text(r, others[i].moved));
    if (count > SHOWN) text_printf(&r->out, "    and %zu more\n", count - SHOWN);
}

void report_others_json(Report *r) {
    Other *others;
    const size_t count = find_others(r, &others);
    text_puts(&r->out, "\"alternatives\": [");
    for (size_t i = 0; i < count; i++) {
        text_puts(&r->out, i ? ",\n       {\"what\": " : "\n       {\"what\": ");
        text_json(&r->out, others[i].what);
        text_printf(&r->out, ", \"launches\": %zu, \"bytes_moved\": %.0f}", others[i].launches,
                    others[i].moved);
    }
    text_puts(&r->out, "]");
}
