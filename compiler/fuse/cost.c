/* cost.c: what the phases of a plan move, and what they compute, for given sizes.
 *
 * A phase moves each array that it touches once, and what its tiles leave for each other; a kernel
 * what its phases do. The planner compares plans by it, and the reports count with it. */
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
    const uint32_t begin = kernel->first - kernel->prologue, end = kernel->first + kernel->count;
    size_t most = 0, count = 0, merged = 0;
    for (uint32_t i = begin; i < end; i++) most += plan->phases[i].touch_count;
    uint32_t *arrays = arena_alloc(arena, (most + 1) * sizeof *arrays);
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

/* Of all gathers, or of those from what a parameter holds before the step. */
static double gathered_bytes(const Plan *plan, const PlanSizes *sizes, const Phase *phase,
                             uint32_t array, bool old) {
    const double bytes = plan_sizes_array_bytes(sizes, &plan->arrays[array]);
    const Value *values = plan->function->values;
    double gathered = 0;
    for (size_t i = 0; i < phase->gather_count; i++) {
        const ValueId v = phase->gathers[i];
        if (plan_is_gather_of(plan, phase, v, array) &&
            (!old || values[values[v].arg[0]].op == OP_PARAMETER))
            gathered += 32 * plan_sizes_elements(sizes, values[v].axes);
    }
    return gathered < bytes ? gathered : bytes;
}

/* Of an array of so many bytes. */
static double read_bytes(const Plan *plan, const PlanSizes *sizes, const Phase *phase,
                         uint32_t array, double bytes) {
    const Touch *touch = plan_touch(phase, array);
    if (!touch) return 0;
    if (touch->reads) return bytes;
    return touch->gathers ? gathered_bytes(plan, sizes, phase, array, false) : 0;
}

double plan_read_bytes(const Plan *plan, const PlanSizes *sizes, const Phase *phase,
                       uint32_t array) {
    const double bytes = plan_sizes_array_bytes(sizes, &plan->arrays[array]);
    return read_bytes(plan, sizes, phase, array, bytes);
}

/* ---- strips of rows ---- */

/* Whether the phase makes the store in the strips, or when they are finished. */
static bool stores_in(const Phase *phase, const PhaseStore *store, KernelKind kind) {
    const bool strips = phase->shape != SHAPE_COLUMNS || store->level == LEVEL_ELEMENT;
    return kind == KERNEL_STRIPS ? strips : kind == KERNEL_FINISH ? !strips : true;
}

bool plan_kernel_writes(const Plan *plan, const Kernel *kernel, uint32_t array) {
    for (uint32_t i = kernel->first - kernel->prologue; i < kernel->first + kernel->count; i++) {
        const Phase *phase = &plan->phases[i];
        for (size_t s = 0; s < phase->store_count; s++)
            if (phase->stores[s].array == array &&
                stores_in(phase, &phase->stores[s], kernel->kind))
                return true;
    }
    return false;
}

/* What becomes of columns is made of arrays that no row has to itself. */
bool plan_kernel_reads(const Plan *plan, const Kernel *kernel, uint32_t array) {
    const bool finish = kernel->kind == KERNEL_FINISH;
    if (finish && plan->arrays[array].axes & kernel->outer) return false;
    for (uint32_t i = kernel->first - kernel->prologue; i < kernel->first + kernel->count; i++)
        if (plan_reads(plan, &plan->phases[i], array) &&
            !(finish && plan->phases[i].shape != SHAPE_COLUMNS))
            return true;
    return false;
}

/* What a kernel of strips wrote is on chip when it reads it back, and so is what it reads again. */
static double strips_reads(const Plan *plan, const PlanSizes *sizes, const Kernel *kernel,
                           uint32_t array) {
    const ValueId old = plan->arrays[array].value;
    bool reads_old = false;
    double most = 0;
    for (uint32_t i = kernel->first; i < kernel->first + kernel->count; i++) {
        const Phase *phase = &plan->phases[i];
        const double read = plan_read_bytes(plan, sizes, phase, array);
        reads_old |= old && plan_needs(phase, old) && !plan->home[old];
        if (read > most) most = read;
    }
    const bool reads = reads_old || !plan_kernel_writes(plan, kernel, array);
    return reads && plan_kernel_reads(plan, kernel, array) ? most : 0;
}

/* What the strips leave of each column, and what tiles leave for each other. */
static void add_strip_partials(const Plan *plan, const PlanSizes *sizes, const Kernel *kernel,
                               KernelBytes *bytes) {
    const bool strips = kernel->kind == KERNEL_STRIPS;
    for (uint32_t i = kernel->first; i < kernel->first + kernel->count; i++) {
        const Phase *phase = &plan->phases[i];
        const bool columns = phase->shape == SHAPE_COLUMNS;
        const double partial = columns == strips ? 0 : plan_partial_bytes(plan, sizes, phase);
        double octets = 0;
        for (size_t r = 0; columns && r < phase->reduction_count; r++)
            octets += type_info[plan->function->values[phase->reductions[r]].type].size;
        octets *= plan_sizes_parts(sizes, phase->outer, phase->inner, 64, 0);
        bytes->read += partial + (strips ? 0 : octets);
        bytes->written += partial + (strips ? octets : 0);
    }
}

/* ---- chains ---- */

/* Of an array, how much belongs to a row of a chain. */
static double row_bytes(const Plan *plan, const PlanSizes *sizes, const Kernel *kernel,
                        uint32_t array) {
    enum { COLUMNS = 64 }; /* that are walked at once */
    const AxisSet own = plan->arrays[array].axes & kernel->outer;
    const double rows = plan_sizes_elements(sizes, own);
    const bool columns = own && plan->phases[kernel->first].shape == SHAPE_COLUMNS;
    const double bytes =
        plan_sizes_array_bytes(sizes, &plan->arrays[array]) / (rows > 1 ? rows : 1);
    return columns && rows > 1 ? bytes * (rows < COLUMNS ? rows : COLUMNS) : bytes;
}

/* How often the phases of a chain touch the array. */
static uint32_t touches(const Plan *plan, const Kernel *kernel, uint32_t array) {
    uint32_t count = 0;
    for (uint32_t i = kernel->first; i < kernel->first + plan_mains(kernel); i++)
        count += plan_touch(&plan->phases[i], array) != NULL;
    return count;
}

/* Whether what a chain comes back to in a row is still near when it does. */
static bool stays_near(const Plan *plan, const PlanSizes *sizes, const Kernel *kernel) {
    double bytes = 0;
    if (kernel->kind != KERNEL_CHAIN) return false;
    for (size_t i = 0; i < kernel->array_count; i++)
        if (touches(plan, kernel, kernel->arrays[i]) > 1)
            bytes += row_bytes(plan, sizes, kernel, kernel->arrays[i]);
    return bytes <= (double)sizes->on_chip;
}

static KernelBytes array_bytes(const Plan *plan, const PlanSizes *sizes, const Kernel *kernel,
                               uint32_t array, bool near) {
    KernelBytes bytes = {0, 0};
    const uint32_t end = kernel->first + kernel->count;
    const double all = plan_sizes_array_bytes(sizes, &plan->arrays[array]);
    double most = 0;
    bool written = false;
    for (uint32_t i = kernel->first - kernel->prologue; i < kernel->first; i++) {
        bytes.read += read_bytes(plan, sizes, &plan->phases[i], array, all);
        if (plan_writes(&plan->phases[i], array)) bytes.written += all;
    }
    for (uint32_t i = kernel->first; i < end; i++) {
        const Phase *phase = &plan->phases[i];
        const bool again = near && i < end - kernel->tail;
        const double read = again && written ? 0 : read_bytes(plan, sizes, phase, array, all);
        bytes.read += !again ? read : read > most ? read - most : 0;
        if (read > most) most = read;
        if (!plan_writes(phase, array)) continue;
        if (!again || !written) bytes.written += all;
        written = true;
    }
    return bytes;
}

/* ---- all kernels ---- */

double plan_array_reads(const Plan *plan, const PlanSizes *sizes, const Kernel *kernel,
                        uint32_t array) {
    if (kernel->kind == KERNEL_STRIPS || kernel->kind == KERNEL_FINISH)
        return strips_reads(plan, sizes, kernel, array);
    return array_bytes(plan, sizes, kernel, array, stays_near(plan, sizes, kernel)).read;
}

KernelBytes plan_kernel_bytes(const Plan *plan, const PlanSizes *sizes, const Kernel *kernel) {
    KernelBytes bytes = {0, 0};
    const bool strips = kernel->kind == KERNEL_STRIPS || kernel->kind == KERNEL_FINISH;
    const bool near = stays_near(plan, sizes, kernel);
    for (size_t i = 0; i < kernel->array_count; i++) {
        const uint32_t a = kernel->arrays[i];
        KernelBytes own = {0, 0};
        if (!strips)
            own = array_bytes(plan, sizes, kernel, a, near);
        else
            own.read = strips_reads(plan, sizes, kernel, a);
        if (strips && plan_kernel_writes(plan, kernel, a))
            own.written = plan_sizes_array_bytes(sizes, &plan->arrays[a]);
        bytes.read += own.read;
        bytes.written += own.written;
    }
    if (strips) add_strip_partials(plan, sizes, kernel, &bytes);
    for (uint32_t i = kernel->first - kernel->prologue;
         !strips && i < kernel->first + kernel->count; i++) {
        const double partial = plan_partial_bytes(plan, sizes, &plan->phases[i]);
        bytes.read += partial;
        bytes.written += partial;
    }
    return bytes;
}

double plan_minimum(const Plan *plan, const PlanSizes *sizes) {
    double minimum = 0;
    for (uint32_t a = 0; a < plan->function->parameter_count; a++) {
        const double all = plan_sizes_array_bytes(sizes, &plan->arrays[a]);
        const ValueId old = plan->arrays[a].value;
        double read = 0;
        bool written = false;
        for (size_t i = 0; i < plan->phase_count; i++) {
            const Phase *phase = &plan->phases[i];
            const double bytes =
                old && plan_needs(phase, old) ? all : gathered_bytes(plan, sizes, phase, a, true);
            if (bytes > read) read = bytes;
            written |= plan_writes(phase, a);
        }
        minimum += read + (written ? all : 0);
    }
    return minimum;
}

double plan_partial_bytes(const Plan *plan, const PlanSizes *sizes, const Phase *phase) {
    double tiles = plan_sizes_parts(sizes, phase->outer, phase->inner, 1024, 0), bytes = 0;
    if (!phase->reduction_count || !phase->inner ||
        tiles <= plan_sizes_elements(sizes, phase->outer))
        return 0;
    for (size_t i = 0; i < phase->reduction_count; i++) {
        const Value *value = &plan->function->values[phase->reductions[i]];
        bytes += type_info[value->type].size;
    }
    return bytes * tiles;
}

Operations plan_operations(const Plan *plan, const PlanSizes *sizes, const Phase *phase) {
    const Value *values = plan->function->values;
    const double elements = plan_sizes_elements(sizes, phase->outer | phase->inner);
    Operations sum = {0, 0};
    for (size_t i = 0; i < phase->value_count + phase->reduction_count; i++) {
        const bool reduces = i >= phase->value_count;
        const ValueId v = reduces ? phase->reductions[i - phase->value_count] : phase->values[i];
        const bool computed =
            reduces || (phase->levels[i] == LEVEL_ELEMENT && !plan_is_read(plan, phase, v));
        if (!computed) continue;
        sum.cost += op_info[values[v].op].cost;
        sum.work += op_info[values[v].op].work;
    }
    return (Operations){sum.cost * elements, sum.work * elements};
}
