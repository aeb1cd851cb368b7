/* alternatives.c: the plans that a plan was chosen from, with their launches and bytes.
 *
 * Each differs from the chosen one by a single choice. They are counted for the report's sizes,
 * while the planner compares them for axes of equal lengths: so one of them may do better here. */
#include <stdlib.h>
#include <string.h>
#include <locale.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "front/front.h"
#include "fuse/fuse.h"
#include "emit/emit.h"
#include "toolchain/toolchain.h"
#include "compile.h"
#include "report/report.h"

enum { SHOWN = 6 };

typedef struct Other {
    const char *what;
    size_t launches, place;
    double moved;
} Other;

/* Whether it is all at once, which the work alone says. */
static bool goes_at_once(const Report *r, const Plan *plan) {
    const uint64_t limit = emit_work_limit(plan, target_for(r->image->target), &plan->groupings[0]);
    double work = 0;
    for (size_t i = 0; i < plan->phase_count; i++)
        work += plan_sizes_elements(&r->sizes, plan->phases[i].outer | plan->phases[i].inner);
    return plan->grouping_count == 1 || (limit < UINT64_MAX && work <= (double)limit);
}

/* The grouping of the other plan that is used at these sizes. Where that depends on conditions, the
 * tables of its variants are made up to the one that is used. NULL where they cannot be, as with
 * too many arguments. */
static const Grouping *grouping_of(const Report *r, const Plan *plan) {
    const char *target = r->image->target, *problem;
    bool together;
    uint32_t grouping;
    if (goes_at_once(r, plan)) return &plan->groupings[0];
    const ls_image *image =
        emit_tables(plan, target_for(target), target, report_suits, &r->sizes, &problem);
    if (!image) return NULL;
    report_choose(&r->sizes, plan, image, &grouping, &together);
    return &plan->groupings[grouping];
}

static Other count_other(const Report *r, const Alternative *alternative, size_t place) {
    const Plan *plan = alternative->plan;
    const Grouping *grouping = grouping_of(r, plan);
    Other other = {alternative->what, grouping ? grouping->count : 0, place, 0};
    for (size_t i = 0; i < other.launches; i++) {
        const KernelBytes bytes =
            plan_kernel_bytes(plan, &r->sizes, &grouping->kernels[i], &r->c->compiler.arena);
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
        if (other.launches && !alike(r->moved, other.moved, r->kernel_count, other.launches))
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
    if (r->plan->stopped)
        text_puts(&r->out,
                  "  the search for a plan stopped early: the step is large, and there may be a "
                  "better one\n");
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
    text_printf(&r->out, "],\n     \"search_stopped\": %s", r->plan->stopped ? "true" : "false");
}
