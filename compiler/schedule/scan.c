/* scan.c: the schedule of a phase of scans: its grid loop goes over outer coordinates, each of
 * which goes along the inner axes in order.
 *
 * On a GPU each lane scans one coordinate; neighbouring lanes read neighbouring memory where the
 * fastest axis is not the one that is scanned. There a CPU thread scans a chunk of neighbouring
 * columns at once, with the running values in memory of its own: the loop over columns moves inside
 * of the scan (loop interchange). Else it scans one coordinate after the other. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

/* From a loop over outer coordinates on; it stays where it is, as the loop over items. */
static const char *schedule_traverses(Nest *nest, NestNode *outermost, uint32_t columns) {
    SymbolId column;
    if (nest->lanes > 1)
        return nest_deal(nest, schedule_join(nest, outermost, 0, true)->name, DEAL_LANES);
    if (columns) {
        NestNode *adjacent = schedule_join(nest, outermost, 0, false);
        const char *problem = nest_strip(nest, adjacent->name, columns, &column);
        if (!problem) problem = nest_interchange(nest, column, columns);
        if (problem || adjacent == outermost) return problem;
    }
    schedule_join(nest, outermost, 0, true);
    return NULL;
}

PlainNest *schedule_scan(const Plan *plan, uint32_t phase, const ScanNumbers *numbers, Arena *arena,
                         const char **problem) {
    const Kernel alone = {.kind = KERNEL_SINGLE, .first = phase, .count = 1};
    const Phase *own = &plan->phases[phase];
    const bool list = ir_list_axis(plan->function, own->outer | own->inner) >= 0;
    const bool adjacent = own->outer > own->inner;
    PlainNest *plain = schedule_plain(plan, &alone, numbers->layout, arena, problem);
    if (!plain) return NULL;
    Nest *nest = plain->nest;
    NestNode *tensors = schedule_first_loop(nest->body), *outermost = tensors;
    nest->lanes = numbers->lanes;
    nest->width = numbers->width;
    if (tensors && list) outermost = schedule_next_loop(tensors);
    if (!outermost) bug(nest->compiler, "a scan without a loop");
    *problem = schedule_traverses(nest, outermost, adjacent ? numbers->columns : 0);
    if (!*problem && list && numbers->table) {
        NestNode *items = schedule_first_loop(tensors->body);
        if (nest->lanes == 1 && schedule_next_loop(items))
            *problem = "a tensor's outer axes do not join to items";
        schedule_table(plain, tensors, items);
    }
    nest_sweep(nest);
    nest_hoist(nest);
    return *problem ? NULL : plain;
}
