/* phase.c: the nest that a phase is printed from, for a target: the one place that knows which
 * shapes have a schedule and what of the target they are given. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

bool schedule_has(const Plan *plan, uint32_t phase) {
    const Shape shape = plan->phases[phase].shape;
    return shape == SHAPE_MAP || shape == SHAPE_SCAN;
}

PlainNest *schedule_phase(const Plan *plan, uint32_t phase, const Target *target, bool strided,
                          Arena *arena, const char **problem) {
    const uint32_t lanes = target->simt ? 32 : 1;
    const MapNumbers map = {.lanes = lanes, .strided = strided};
    const ScanNumbers scan = {.warps = 1,
                              .lanes = lanes,
                              .width = 1,
                              .columns = target->columns,
                              .strided = strided,
                              .table = true};
    return plan->phases[phase].shape == SHAPE_MAP
               ? schedule_map(plan, phase, &map, arena, problem)
               : schedule_scan(plan, phase, &scan, arena, problem);
}
