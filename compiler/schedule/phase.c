/* phase.c: the nest that a phase is printed from, for a target: the one place that knows which
 * shapes have a schedule and what of the target they are given. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

const Kernel *schedule_row_fusion(const Plan *plan, uint32_t phase) {
    for (size_t w = 0; w < plan->grouping_count; w++)
        for (size_t k = 0; k < plan->groupings[w].count; k++) {
            const Kernel *kernel = &plan->groupings[w].kernels[k];
            if (kernel->kind == KERNEL_ROW_FUSION && phase >= kernel->first &&
                phase < kernel->first + plan_mains(kernel))
                return kernel;
        }
    return NULL;
}

/* The last outer axes that one loop covers. */
static AxisSet find_columns(const Plan *plan, uint32_t phase, const PhaseNumbers *numbers) {
    const Phase *own = &plan->phases[phase];
    const int list = ir_list_axis(plan->function, own->outer | own->inner);
    const AxisSet outer = list < 0 ? own->outer : own->outer & ~((AxisSet)1 << list);
    AxisSet units[LS_AXES_MAX];
    const size_t count =
        schedule_units(plan, phase, outer, numbers->layout, numbers->row_fusion, units);
    return own->shape == SHAPE_COLUMNS && count ? units[count - 1] : 0;
}

/* Whether one warp runs the phase, for a segment whose rows or columns are done. */
static bool is_segment_epilogue(const Plan *plan, uint32_t phase) {
    for (size_t w = 0; w < plan->grouping_count; w++)
        for (size_t k = 0; k < plan->groupings[w].count; k++) {
            const Kernel *kernel = &plan->groupings[w].kernels[k];
            const uint32_t first = kernel->first + plan_mains(kernel);
            if (phase >= first && phase < first + kernel->segment_epilogue) return true;
        }
    return false;
}

/* A tile of a chunk of columns by a block, or where that has no form by a warp. */
static PlainNest *gpu_columns(const Plan *plan, uint32_t phase, const PhaseNumbers *numbers,
                              const ItemNumbers *items, bool block_memory, Arena *arena,
                              const char **problem) {
    ItemNumbers block = *items;
    block.warps = COLUMN_WARPS;
    PlainNest *nest = NULL;
    if (block_memory && !numbers->finished && !numbers->row_fusion &&
        !is_segment_epilogue(plan, phase))
        nest = schedule_reduced_columns(plan, phase, &block, arena, problem);
    return nest ? nest : schedule_columns(plan, phase, items, arena, problem);
}

PlainNest *schedule_phase(const Plan *plan, uint32_t phase, const Target *target,
                          const PhaseNumbers *numbers, Arena *arena, const char **problem) {
    const uint32_t lanes = target->gpu ? 32 : 1;
    const MapNumbers map = {
        .lanes = lanes, .layout = numbers->layout, .over_time = numbers->over_time};
    const ScanNumbers scan = {.lanes = lanes,
                              .width = 1,
                              .columns = target->columns,
                              .layout = numbers->layout,
                              .table = true};
    const bool columns = plan->phases[phase].shape == SHAPE_COLUMNS;
    const ItemNumbers items = {
        .warps = 1,
        .lanes = lanes,
        .width = columns || !target->gpu ? 1 : 4,
        /* loads of elements of different rows would wait for their addresses */
        .load_bytes = columns                              ? target->column_loads
                      : numbers->layout != LS_LAYOUT_DENSE ? 0
                                                           : target->row_loads,
        .columns = find_columns(plan, phase, numbers),
        .chunk = target->columns,
        .layout = numbers->layout,
        .finished = numbers->finished,
        .scratch_row = INT64_C(1024) * target->scratch_tiles,
        .row_fusion = numbers->row_fusion,
        .portion = numbers->portion,
        .panel_lanes = numbers->panel_lanes};
    switch (plan->phases[phase].shape) {
    case SHAPE_SCALAR: return schedule_scalar(plan, phase, lanes, numbers->layout, arena, problem);
    case SHAPE_MAP: return schedule_map(plan, phase, &map, arena, problem);
    case SHAPE_ROWS: return schedule_combine(plan, phase, &items, arena, problem);
    case SHAPE_COLUMNS:
        if (numbers->portion == PORTION_PANEL)
            return schedule_panel(plan, phase, &items, arena, problem);
        return target->gpu && numbers->portion == PORTION_WHOLE
                   ? gpu_columns(plan, phase, numbers, &items, !target->by_address, arena, problem)
                   : schedule_reduced_columns(plan, phase, &items, arena, problem);
    default: return schedule_scan(plan, phase, &scan, arena, problem);
    }
}

static PlainNest *schedule_class(const Plan *plan, const Kernel *kernel, const Target *target,
                                 const RowClass *rows, bool team, Arena *arena,
                                 const char **problem) {
    enum { KEPT_OF_BLOCK = 1 << 15 }; /* elements that a block may keep in registers */
    const uint32_t share = KEPT_OF_BLOCK / (32 * rows->warps);
    const uint32_t registers = target->row_registers < share ? target->row_registers : share;
    const RowNumbers numbers = {.warps = rows->warps,
                                .lanes = 32,
                                .width = 4,
                                .rows = rows->rows,
                                .tiles = rows->tiles,
                                .registers = team ? 0 : registers,
                                .first = !team,
                                .load_bytes = team ? target->row_loads : 0};
    const bool takes = kernel->kind == KERNEL_SINGLE || kernel->kind == KERNEL_ROW_FUSION;
    *problem = kernel->segment_epilogue ? "it has parts that follow it"
                                        : "its phases are not rows one after the other";
    if (!takes || kernel->segment_epilogue) return NULL;
    Kernel mains = *kernel;
    mains.count = plan_mains(kernel);
    mains.last_block = mains.pre_reductions = 0;
    return schedule_rows(plan, &mains, &numbers, arena, problem);
}

PlainNest *schedule_kernel(const Plan *plan, const Kernel *kernel, const Target *target,
                           const RowClass *rows, Arena *arena, const char **problem) {
    return schedule_class(plan, kernel, target, rows, false, arena, problem);
}

/* Memory of the block has an element for each of its warps, of which a team has those of its own.
 */
static bool is_shared_by_warp(const Nest *nest, const NestNode *body) {
    for (const NestNode *node = body; node; node = node->next) {
        int64_t length;
        if (node->kind == NEST_ALLOC && node->scope == SCOPE_SHARED &&
            (node->at_count != 1 || !index_is_number(node->at[0], &length) ||
             length != nest->warps))
            return false;
        if (!is_shared_by_warp(nest, node->body) || !is_shared_by_warp(nest, node->other))
            return false;
    }
    return true;
}

PlainNest *schedule_team(const Plan *plan, const Kernel *phases, const Target *target, Arena *arena,
                         const char **problem) {
    const RowClass rows = {.warps = target->panel_threads / 32,
                           .tiles = target->panel_threads / 32};
    Kernel own = *phases;
    own.kind = own.count > 1 ? KERNEL_ROW_FUSION : KERNEL_SINGLE;
    PlainNest *plain = schedule_class(plan, &own, target, &rows, true, arena, problem);
    if (!plain) return NULL;
    if (!is_shared_by_warp(plain->nest, plain->nest->body)) {
        *problem = "its warps share memory of another form";
        return NULL;
    }
    plain->team = true;
    return plain;
}
