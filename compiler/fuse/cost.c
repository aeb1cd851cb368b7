/* cost.c: what the kernels of a plan move, and what their phases compute.
 *
 * A phase moves each array that it touches once, and the partial results of its tiles. A kernel
 * moves what its phases move, less what is still on chip when a later phase reads a row again.
 * These are flows: expressions over the lengths of the axes. An image carries them, so that a
 * profile counts bytes for whatever is bound; the planner compares plans by them, and the reports
 * print their values for given sizes. ls_image_count_moved() evaluates them for all three. */
#include <stdlib.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"

static int by_number(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

void plan_find_arrays(const Plan *plan, Kernel *kernel, Arena *arena) {
    const uint32_t begin = kernel->first - kernel->pre_reductions,
                   end = kernel->first + kernel->count;
    size_t max = 0, count = 0, merged = 0;
    for (uint32_t i = begin; i < end; i++) max += plan->phases[i].touch_count;
    uint32_t *arrays = arena_alloc(arena, (max + 1) * sizeof *arrays);
    for (uint32_t i = begin; i < end; i++)
        for (size_t t = 0; t < plan->phases[i].touch_count; t++)
            arrays[count++] = plan->phases[i].touches[t].array;
    if (end - begin > 1) qsort(arrays, count, sizeof *arrays, by_number);
    for (size_t i = 0; i < count; i++)
        if (!merged || arrays[merged - 1] != arrays[i]) arrays[merged++] = arrays[i];
    kernel->arrays = arrays;
    kernel->array_count = merged;
}

bool plan_writes(const Phase *phase, uint32_t array) {
    for (size_t i = 0; i < phase->store_count; i++)
        if (phase->stores[i].array == array) return true;
    return false;
}

/* Whether a kernel of this kind makes the phase's store: the finishing kernel makes a column
 * phase's stores other than per element, row panels make all others; any other kind makes all. */
static bool stores_in(const Phase *phase, const PhaseStore *store, KernelKind kind) {
    const bool panels = phase->shape != SHAPE_COLUMNS || store->level == LEVEL_ELEMENT;
    return kind == KERNEL_ROW_PANELS ? panels : kind == KERNEL_FINISH ? !panels : true;
}

bool plan_kernel_writes(const Plan *plan, const Kernel *kernel, uint32_t array) {
    for (uint32_t i = kernel->first - kernel->pre_reductions; i < kernel->first + kernel->count;
         i++) {
        const Phase *phase = &plan->phases[i];
        for (size_t s = 0; s < phase->store_count; s++)
            if (phase->stores[s].array == array &&
                stores_in(phase, &phase->stores[s], kernel->kind))
                return true;
    }
    return false;
}

/* The kernel that combines the columns of row panels reads only arrays without the axes of the
 * rows. */
bool plan_kernel_reads(const Plan *plan, const Kernel *kernel, uint32_t array) {
    const bool finish = kernel->kind == KERNEL_FINISH;
    if (finish && plan->arrays[array].axes & kernel->outer) return false;
    for (uint32_t i = kernel->first - kernel->pre_reductions; i < kernel->first + kernel->count;
         i++)
        if (plan_reads(plan, &plan->phases[i], array) &&
            !(finish && plan->phases[i].shape != SHAPE_COLUMNS))
            return true;
    return false;
}

/* ---- flows ---- */

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
    return plan_array_extent(f->plan->function, &f->plan->arrays[array]);
}

/* What the phase has to do with of the array, at its own coordinates. */
static ls_image_extent visited(const Flows *f, const Phase *phase, uint32_t array) {
    const Array *row = &f->plan->arrays[array];
    if (row->parameter == UINT32_MAX) return whole(f, array);
    return plan_visited(f->plan, phase, type_info[row->type].size, row->axes);
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

static void add_write(Flows *f, const Phase *phase, uint32_t array, ls_image_again again) {
    add_extent(add(f, array, true, again, 1), visited(f, phase, array));
}

/* The bytes counted per gathered element: the element's size if the gather does not index the
 * array's fastest axis (neighbours are contiguous), else a 32-byte sector. */
static uint64_t gathered_bytes(const Plan *plan, uint32_t array, ValueId gather) {
    enum { SECTOR = 32 };
    const Function *f = plan->function;
    const AxisSet axes = plan->arrays[array].axes;
    const AxisSet listed = ir_listed(f, f->values[gather].arg[1]);
    const bool along = axes && !(listed >> (31 - __builtin_clz(axes)) & 1);
    return along ? type_info[plan->arrays[array].type].size : SECTOR;
}

static ls_image_extent gathered(const Flows *f, const Phase *phase, uint32_t array,
                                ValueId gather) {
    const AxisSet axes = f->plan->function->values[gather].axes;
    return plan_visited(f->plan, phase, gathered_bytes(f->plan, array, gather), axes);
}

/* The whole array once; if the phase only gathers from it, the bytes of the gathers if that is
 * less. */
static void add_read(Flows *f, const Phase *phase, uint32_t array, ls_image_again again) {
    const Plan *plan = f->plan;
    const Touch *touch = plan_touch(phase, array);
    if (!touch || !(touch->reads || touch->gathers)) return;
    if (touch->reads) {
        add_extent(add(f, array, false, again, 1), visited(f, phase, array));
        return;
    }
    ls_image_flow *flow = add(f, array, false, again, phase->gather_count);
    flow->most = whole(f, array);
    for (size_t i = 0; i < phase->gather_count; i++)
        if (plan_is_gather_of(plan, phase, phase->gathers[i], array))
            add_extent(flow, gathered(f, phase, array, phase->gathers[i]));
}

/* The bytes of the partial results of a phase's reductions: for each outer coordinate one per
 * `divide` inner elements; 0: just one. */
static ls_image_extent partials(const Flows *f, const Phase *phase, uint64_t divide) {
    const Function *function = f->plan->function;
    uint64_t bytes = 0;
    for (size_t i = 0; i < phase->reduction_count; i++)
        bytes += type_info[function->values[phase->reductions[i]].type].size;
    const int list = ir_list_axis(function, phase->outer | phase->inner);
    const AxisSet counts = list < 0 ? 0 : (AxisSet)1 << list;
    const ls_image_factor outer = {plan_extent_axes(function, phase->outer & ~counts), 0, 1, 0};
    const ls_image_factor inner = {plan_extent_axes(function, phase->inner & ~counts), 0, divide,
                                   0};
    ls_image_extent extent = {
        .scale = bytes, .factor_count = divide ? 2 : 1, .list = (uint32_t)(list + 1)};
    extent.factor[0] = outer;
    if (divide) extent.factor[1] = inner;
    return extent;
}

/* What the tiles of long reductions leave for each other, written once and read once: only rows of
 * more than one tile leave any. */
static void add_partials(Flows *f, const Phase *phase) {
    enum { TILE = 1024 };
    if (!phase->reduction_count || !phase->inner) return;
    for (int written = 0; written < 2; written++) {
        ls_image_flow *flow = add(f, UINT32_MAX, written, LS_FLOW_ALWAYS, 1);
        add_extent(flow, partials(f, phase, TILE));
        flow->above = partials(f, phase, 0);
    }
}

/* A kernel of row panels has on chip what it reads again, be it its own results or what it read
 * before. Each panel writes a partial result per column; the finishing kernel reads these. */
static void add_panels(Flows *f, const Kernel *kernel) {
    enum { PANEL = 64 };
    const Plan *plan = f->plan;
    const bool panels = kernel->kind == KERNEL_ROW_PANELS;
    const uint32_t end = kernel->first + kernel->count;
    for (size_t n = 0; n < kernel->array_count; n++) {
        const uint32_t a = kernel->arrays[n];
        const ValueId old = plan->arrays[a].value;
        bool reads = !plan_kernel_writes(plan, kernel, a);
        for (uint32_t i = kernel->first; i < end; i++)
            reads |= old && plan_needs(&plan->phases[i], old) && !plan->defined_in[old];
        for (uint32_t i = kernel->first; i < end; i++)
            if (reads && plan_kernel_reads(plan, kernel, a))
                add_read(f, &plan->phases[i], a, LS_FLOW_LARGEST);
        if (plan_kernel_writes(plan, kernel, a))
            add_extent(add(f, a, true, LS_FLOW_ALWAYS, 1), whole(f, a));
    }
    for (uint32_t i = kernel->first; i < end; i++) {
        const Phase *phase = &plan->phases[i];
        const bool columns = phase->shape == SHAPE_COLUMNS;
        if (columns != panels) add_partials(f, phase);
        if (!columns || !phase->reduction_count) continue;
        add_extent(add(f, UINT32_MAX, panels, LS_FLOW_ALWAYS, 1), partials(f, phase, PANEL));
    }
}

static void add_phases(Flows *f, const Kernel *kernel, uint32_t array) {
    const Plan *plan = f->plan;
    const uint32_t end = kernel->first + kernel->count;
    bool written = false;
    for (uint32_t i = kernel->first - kernel->pre_reductions; i < kernel->first; i++) {
        add_read(f, &plan->phases[i], array, LS_FLOW_ALWAYS);
        if (plan_writes(&plan->phases[i], array))
            add_write(f, &plan->phases[i], array, LS_FLOW_ALWAYS);
    }
    for (uint32_t i = kernel->first; i < end; i++) {
        const Phase *phase = &plan->phases[i];
        const bool fused = kernel->kind == KERNEL_ROW_FUSION && i < end - kernel->last_block;
        const ls_image_again later = written ? LS_FLOW_FAR : LS_FLOW_LARGEST;
        add_read(f, phase, array, fused ? later : LS_FLOW_ALWAYS);
        if (!plan_writes(phase, array)) continue;
        add_write(f, phase, array, fused && written ? LS_FLOW_FAR : LS_FLOW_ALWAYS);
        written = true;
    }
}

/* ---- what rows have on chip ---- */

/* The largest gather of the array in the kernel's phases, 0 where one reads it at its own
 * coordinates. */
static ValueId largest_gather(const Plan *plan, const Kernel *kernel, uint32_t array) {
    const Value *values = plan->function->values;
    ValueId largest = 0;
    for (uint32_t i = kernel->first; i < kernel->first + plan_mains(kernel); i++) {
        const Phase *phase = &plan->phases[i];
        const Touch *touch = plan_touch(phase, array);
        if (touch && (touch->reads || touch->writes)) return 0;
        for (size_t g = 0; touch && g < phase->gather_count; g++) {
            const ValueId v = phase->gathers[g];
            if (!plan_is_gather_of(plan, phase, v, array)) continue;
            if (!largest || values[v].axes > values[largest].axes) largest = v;
        }
    }
    return largest;
}

/* For each array that two or more of the kernel's phases touch: its bytes and the number of rows
 * that share them. */
static void add_rows(Flows *f, const Kernel *kernel, ls_image_traffic *traffic) {
    enum { COLUMNS = 64 }; /* that are visited at once */
    const Plan *plan = f->plan;
    ls_image_row *rows = arena_alloc(f->arena, (kernel->array_count + 1) * sizeof *rows);
    for (size_t n = 0; n < kernel->array_count; n++) {
        const uint32_t a = kernel->arrays[n];
        uint32_t touched = 0;
        for (uint32_t i = kernel->first; i < kernel->first + plan_mains(kernel); i++)
            touched += plan_touch(&plan->phases[i], a) != NULL;
        if (touched < 2) continue;
        const ValueId gather = largest_gather(plan, kernel, a);
        const AxisSet axes = gather ? plan->function->values[gather].axes : plan->arrays[a].axes;
        const AxisSet own = axes & kernel->outer;
        const Phase *first = &plan->phases[kernel->first];
        const bool columns = own && first->shape == SHAPE_COLUMNS;
        rows[traffic->row_count++] =
            (ls_image_row){gather ? gathered(f, first, a, gather) : whole(f, a),
                           extent_of(f, 1, own), columns ? COLUMNS : 1};
    }
    traffic->rows = rows;
}

ls_image_traffic plan_traffic(const Plan *plan, const Kernel *kernel, uint64_t on_chip,
                              Arena *arena) {
    Flows f = {.plan = plan, .arena = arena};
    ls_image_traffic traffic = {.near = 0};
    if (kernel->kind == KERNEL_ROW_PANELS || kernel->kind == KERNEL_FINISH) {
        add_panels(&f, kernel);
        traffic.near = UINT64_MAX;
    } else {
        for (size_t n = 0; n < kernel->array_count; n++) add_phases(&f, kernel, kernel->arrays[n]);
        for (uint32_t i = kernel->first - kernel->pre_reductions; i < kernel->first + kernel->count;
             i++)
            add_partials(&f, &plan->phases[i]);
        if (kernel->kind == KERNEL_ROW_FUSION) {
            add_rows(&f, kernel, &traffic);
            traffic.near = on_chip;
        }
    }
    traffic.flows = f.items;
    traffic.flow_count = (uint32_t)f.count;
    return traffic;
}

ls_image_traffic plan_carried_traffic(const Plan *plan, const ls_image_traffic *traffic,
                                      const uint8_t *carried, Arena *arena) {
    Flows f = {.plan = plan, .arena = arena};
    ls_image_traffic result = *traffic;
    for (uint32_t i = 0, last = UINT32_MAX; i < traffic->flow_count; i++) {
        const ls_image_flow *flow = &traffic->flows[i];
        const uint32_t array = flow->array;
        const uint8_t mark = array < plan->array_count ? carried[array] : 0;
        if (!mark) *add(&f, array, flow->written, flow->again, 0) = *flow;
        for (uint32_t written = 0; mark == 1 && array != last && written < 2; written++)
            add_extent(add(&f, array, written, LS_FLOW_ONCE, 1), whole(&f, array));
        last = array;
    }
    result.flows = f.items;
    result.flow_count = (uint32_t)f.count;
    return result;
}

/* ---- for given sizes ---- */

static KernelBytes count_moved(const ls_image_traffic *traffic, uint64_t iterations,
                               const PlanSizes *sizes) {
    ls_image_moved moved;
    ls_image_count_moved(traffic, iterations, plan_sizes_value, NULL, sizes, &moved);
    return (KernelBytes){(double)moved.read, (double)moved.written};
}

KernelBytes plan_kernel_bytes(const Plan *plan, const PlanSizes *sizes, const Kernel *kernel,
                              Arena *arena) {
    const ls_image_traffic traffic = plan_traffic(plan, kernel, sizes->on_chip, arena);
    return count_moved(&traffic, 1, sizes);
}

KernelBytes plan_iteration_bytes(const Plan *plan, const PlanSizes *sizes, const Kernel *kernel,
                                 const uint8_t *carried, KernelBytes *once, Arena *arena) {
    const ls_image_traffic all = plan_traffic(plan, kernel, sizes->on_chip, arena);
    const ls_image_traffic traffic = plan_carried_traffic(plan, &all, carried, arena);
    *once = count_moved(&traffic, 0, sizes);
    const KernelBytes first = count_moved(&traffic, 1, sizes);
    return (KernelBytes){first.read - once->read, first.written - once->written};
}

double plan_array_reads(const Plan *plan, const PlanSizes *sizes, const Kernel *kernel,
                        uint32_t array, Arena *arena) {
    ls_image_traffic traffic = plan_traffic(plan, kernel, sizes->on_chip, arena);
    uint32_t first = 0, count = 0;
    while (first < traffic.flow_count && traffic.flows[first].array != array) first++;
    while (first + count < traffic.flow_count && traffic.flows[first + count].array == array)
        count++;
    traffic.flows += first;
    traffic.flow_count = count;
    return count_moved(&traffic, 1, sizes).read;
}

/* The bytes that the phase gathers from the array's value before the step, at most `all`. */
static double gathers_of_old(const Plan *plan, const PlanSizes *sizes, const Phase *phase,
                             uint32_t array, double all) {
    const Value *values = plan->function->values;
    double bytes = 0;
    for (size_t i = 0; i < phase->gather_count; i++) {
        const ValueId v = phase->gathers[i];
        if (values[values[v].arg[0]].op == OP_PARAMETER && plan_is_gather_of(plan, phase, v, array))
            bytes +=
                (double)gathered_bytes(plan, array, v) * plan_sizes_elements(sizes, values[v].axes);
    }
    return bytes < all ? bytes : all;
}

double plan_minimum(const Plan *plan, const PlanSizes *sizes) {
    double minimum = 0;
    for (uint32_t a = 0; a < plan->function->parameter_count; a++) {
        const double all = plan_sizes_array_bytes(sizes, &plan->arrays[a]);
        const ValueId old = plan->arrays[a].value;
        double read = 0, written = 0;
        for (size_t i = 0; i < plan->phase_count; i++) {
            const Phase *phase = &plan->phases[i];
            const ls_image_extent visited = plan_visited(
                plan, phase, type_info[plan->arrays[a].type].size, plan->arrays[a].axes);
            const double own = plan_sizes_extent(sizes, &visited);
            const double bytes =
                old && plan_needs(phase, old) ? own : gathers_of_old(plan, sizes, phase, a, all);
            if (bytes > read) read = bytes;
            if (plan_writes(phase, a) && own > written) written = own;
        }
        minimum += read + written;
    }
    return minimum;
}

/* What a call takes where its function says so. */
static Operations value_operations(const Function *f, const Value *value) {
    const double own = value->op == OP_CALL ? f->functions[value->payload].operations : 0;
    if (own > 0) return (Operations){own, own};
    return (Operations){op_info[value->op].cost, op_info[value->op].work};
}

/* The operations of the phase, without values already marked in `counted`; marks those that it
 * counts. NULL: all values count. */
static Operations count_operations(const Plan *plan, const PlanSizes *sizes, const Phase *phase,
                                   bool *counted) {
    const Value *values = plan->function->values;
    const ls_image_extent visited = plan_visited(plan, phase, 1, phase->outer | phase->inner);
    const double elements = plan_sizes_extent(sizes, &visited);
    Operations sum = {0, 0};
    for (size_t i = 0; i < phase->value_count + phase->reduction_count; i++) {
        const bool reduces = i >= phase->value_count;
        const ValueId v = reduces ? phase->reductions[i - phase->value_count] : phase->values[i];
        const bool computed =
            reduces || (phase->levels[i] == LEVEL_ELEMENT && !plan_is_read(plan, phase, v));
        if (!computed || (counted && counted[v])) continue;
        const Operations own = value_operations(plan->function, &values[v]);
        sum.cost += own.cost;
        sum.work += own.work;
        if (counted) counted[v] = true;
    }
    return (Operations){sum.cost * elements, sum.work * elements};
}

Operations plan_operations(const Plan *plan, const PlanSizes *sizes, const Phase *phase) {
    return count_operations(plan, sizes, phase, NULL);
}

/* Whether a worker, or a block, has room for a number of each element of its row. */
static bool row_is_on_chip(const PlanSizes *sizes, const Kernel *kernel, const Phase *phase) {
    enum { NUMBER = 4 };
    const AxisSet inner = (phase->outer | phase->inner) & ~kernel->outer;
    return NUMBER * plan_sizes_elements(sizes, inner) <= (double)sizes->on_chip;
}

Operations plan_kernel_operations(const Plan *plan, const PlanSizes *sizes, const Kernel *kernel,
                                  Arena *arena) {
    const uint32_t end = kernel->first + kernel->count, mains = kernel->first + plan_mains(kernel);
    bool *counted = NULL;
    Operations sum = {0, 0};
    if (kernel->kind == KERNEL_ROW_FUSION &&
        row_is_on_chip(sizes, kernel, &plan->phases[kernel->first]))
        counted = arena_alloc(arena, plan->function->value_count * sizeof *counted);
    for (uint32_t i = kernel->first; i < end; i++) {
        const Operations own =
            count_operations(plan, sizes, &plan->phases[i], i < mains ? counted : NULL);
        sum.cost += own.cost;
        sum.work += own.work;
    }
    return sum;
}
