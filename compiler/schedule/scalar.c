/* scalar.c: the schedule of a phase of values on their own: one item, whose stores one lane does.
 */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

PlainNest *schedule_scalar(const Plan *plan, uint32_t phase, uint32_t lanes, ls_image_layout layout,
                           Arena *arena, const char **problem) {
    const Kernel alone = {.kind = KERNEL_SINGLE, .first = phase, .count = 1};
    PlainNest *plain = schedule_plain(plan, &alone, layout, arena, problem);
    if (!plain) return NULL;
    Nest *nest = plain->nest;
    nest->lanes = lanes;
    nest->body = nest_around(nest, LOOP_GRID, nest_symbol(nest, "once", NAMED_LOOP, TYPE_I64),
                             index_number(arena, 1), nest->body);
    nest_sweep(nest);
    return plain;
}
