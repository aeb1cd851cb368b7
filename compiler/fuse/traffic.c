/* traffic.c: what the kernels of a plan move, as expressions over the lengths of the axes.
 *
 * cost.c counts for given sizes; an image carries this, so that a profile knows the bytes for
 * whatever is bound. Both say the same: tests/lit/command/profile-bytes.test compares them. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"

typedef struct Flows {
    const Plan *plan;
    Arena *arena;
    ls_image_flow *items;
    size_t count, capacity;
} Flows;

static ls_image_extent extent_of(const Flows *f, uint64_t scale, AxisSet axes) {
    return plan_extent(f->plan->function, scale, axes);
}

static ls_image_extent whole(const Flows *f, uint32_t array) {
    const Array *row = &f->plan->arrays[array];
    return extent_of(f, type_info[row->type].size, row->axes);
}

static ls_image_flow *add(Flows *f, uint32_t array, bool written, ls_image_again again,
                          size_t count) {
    f->items = arena_grow(f->arena, f->items, f->count, &f->capacity, sizeof *f->items);
    ls_image_flow *flow = &f->items[f->count++];
    *flow = (ls_image_flow){.array = array, .written = written, .again = again};
    flow->bytes = arena_alloc(f->arena, (count + 1) * sizeof *flow->bytes);
    return flow;
}

static void add_extent(ls_image_flow *flow, ls_image_extent extent) {
    ((ls_image_extent *)(uintptr_t)flow->bytes)[flow->count++] = extent;
}

static void add_write(Flows *f, uint32_t array, ls_image_again again) {
    add_extent(add(f, array, true, again, 1), whole(f, array));
}

/* See plan_read_bytes. */
static void add_read(Flows *f, const Phase *phase, uint32_t array, ls_image_again again) {
    const Plan *plan = f->plan;
    const Value *values = plan->function->values;
    if (plan_value_reads(plan, phase, array)) {
        add_extent(add(f, array, false, again, 1), whole(f, array));
        return;
    }
    size_t gathers = 0;
    for (size_t i = 0; i < phase->gather_count; i++)
        gathers += plan_is_gather_of(plan, phase, phase->gathers[i], array);
    if (!gathers) return;
    ls_image_flow *flow = add(f, array, false, again, gathers);
    flow->most = whole(f, array);
    for (size_t i = 0; i < phase->gather_count; i++)
        if (plan_is_gather_of(plan, phase, phase->gathers[i], array))
            add_extent(flow, extent_of(f, 32, values[phase->gathers[i]].axes));
}

/* The numbers of a phase's reductions, in bytes, once for `divide` inner elements each. */
static ls_image_extent partials(const Flows *f, const Phase *phase, uint64_t divide) {
    const Function *function = f->plan->function;
    uint64_t bytes = 0;
    for (size_t i = 0; i < phase->reduction_count; i++)
        bytes += type_info[function->values[phase->reductions[i]].type].size;
    const int list = ir_list_axis(function, phase->outer | phase->inner);
    const AxisSet counts = list < 0 ? 0 : (AxisSet)1 << list;
    const ls_image_factor outer = {plan_extent_axes(function, phase->outer & ~counts), 0, 1};
    const ls_image_factor inner = {plan_extent_axes(function, phase->inner & ~counts), 0, divide};
    ls_image_extent extent = {
        .scale = bytes, .factor_count = divide ? 2 : 1, .list = (uint32_t)(list + 1)};
    extent.factor[0] = outer;
    if (divide) extent.factor[1] = inner;
    return extent;
}

/* See plan_partial_bytes: only rows of more than one tile leave any. */
static void add_partials(Flows *f, const Phase *phase) {
    enum { TILE = 1024 };
    if (!phase->reduction_count || !phase->inner) return;
    for (int written = 0; written < 2; written++) {
        ls_image_flow *flow = add(f, UINT32_MAX, written, LS_FLOW_ALWAYS, 1);
        add_extent(flow, partials(f, phase, TILE));
        flow->above = partials(f, phase, 0);
    }
}

static void add_strips(Flows *f, const Kernel *kernel) {
    enum { STRIP = 64 };
    const Plan *plan = f->plan;
    const bool strips = kernel->kind == KERNEL_STRIPS;
    const uint32_t end = kernel->first + kernel->count;
    for (uint32_t a = 0; a < plan->array_count; a++) {
        const ValueId old = plan->arrays[a].value;
        bool reads = !plan_kernel_writes(plan, kernel, a);
        for (uint32_t i = kernel->first; i < end; i++)
            reads |= old && plan_needs(&plan->phases[i], old) && !plan->home[old];
        for (uint32_t i = kernel->first; i < end; i++)
            if (reads && plan_kernel_reads(plan, kernel, a))
                add_read(f, &plan->phases[i], a, LS_FLOW_LARGEST);
        if (plan_kernel_writes(plan, kernel, a)) add_write(f, a, LS_FLOW_ALWAYS);
    }
    for (uint32_t i = kernel->first; i < end; i++) {
        const Phase *phase = &plan->phases[i];
        const bool columns = phase->shape == SHAPE_COLUMNS;
        if (columns != strips) add_partials(f, phase);
        if (!columns || !phase->reduction_count) continue;
        add_extent(add(f, UINT32_MAX, strips, LS_FLOW_ALWAYS, 1), partials(f, phase, STRIP));
    }
}

/* See array_bytes of cost.c. */
static void add_phases(Flows *f, const Kernel *kernel, uint32_t array) {
    const Plan *plan = f->plan;
    const uint32_t end = kernel->first + kernel->count;
    bool written = false;
    for (uint32_t i = kernel->first - kernel->prologue; i < kernel->first; i++) {
        add_read(f, &plan->phases[i], array, LS_FLOW_ALWAYS);
        if (plan_writes(&plan->phases[i], array)) add_write(f, array, LS_FLOW_ALWAYS);
    }
    for (uint32_t i = kernel->first; i < end; i++) {
        const Phase *phase = &plan->phases[i];
        const bool chained = kernel->kind == KERNEL_CHAIN && i < end - kernel->tail;
        const ls_image_again later = written ? LS_FLOW_FAR : LS_FLOW_LARGEST;
        add_read(f, phase, array, chained ? later : LS_FLOW_ALWAYS);
        if (!plan_writes(phase, array)) continue;
        add_write(f, array, chained && written ? LS_FLOW_FAR : LS_FLOW_ALWAYS);
        written = true;
    }
}

/* See stays_near of cost.c. */
static void add_rows(Flows *f, const Kernel *kernel, ls_image_traffic *traffic) {
    enum { COLUMNS = 64 };
    const Plan *plan = f->plan;
    ls_image_row *rows = arena_alloc(f->arena, (plan->array_count + 1) * sizeof *rows);
    for (uint32_t a = 0; a < plan->array_count; a++) {
        uint32_t touched = 0;
        for (uint32_t i = kernel->first; i < kernel->first + kernel->count - kernel->tail; i++)
            touched += plan_reads(plan, &plan->phases[i], a) || plan_writes(&plan->phases[i], a);
        const AxisSet own = plan->arrays[a].axes & kernel->outer;
        const bool columns = own && plan->phases[kernel->first].shape == SHAPE_COLUMNS;
        if (touched > 1)
            rows[traffic->row_count++] =
                (ls_image_row){whole(f, a), extent_of(f, 1, own), columns ? COLUMNS : 1};
    }
    traffic->rows = rows;
}

ls_image_traffic plan_traffic(const Plan *plan, const Kernel *kernel, uint64_t on_chip) {
    Flows f = {.plan = plan, .arena = plan->function->arena};
    ls_image_traffic traffic = {.near = 0};
    if (kernel->kind == KERNEL_STRIPS || kernel->kind == KERNEL_FINISH) {
        add_strips(&f, kernel);
        traffic.near = UINT64_MAX;
    } else {
        for (uint32_t a = 0; a < plan->array_count; a++) add_phases(&f, kernel, a);
        for (uint32_t i = kernel->first - kernel->prologue; i < kernel->first + kernel->count; i++)
            add_partials(&f, &plan->phases[i]);
        if (kernel->kind == KERNEL_CHAIN) {
            add_rows(&f, kernel, &traffic);
            traffic.near = on_chip;
        }
    }
    traffic.flows = f.items;
    traffic.flow_count = (uint32_t)f.count;
    return traffic;
}
