/* plan_bytes.c: what the phases of a plan move, and what they compute, for given sizes.
 *
 * A phase moves each array that it touches once, and what its tiles leave for each other. The
 * planner compares plans by it, and the reports count with it. */
#include "compiler.h"
#include "plan.h"

bool plan_writes(const Phase *phase, uint32_t array) {
    for (size_t i = 0; i < phase->store_count; i++)
        if (phase->stores[i].array == array) return true;
    return false;
}

double plan_read_bytes(const Plan *plan, const ReportSizes *sizes, const Phase *phase,
                       uint32_t array) {
    double bytes = report_array_bytes(sizes, &plan->arrays[array]), gathered = 0;
    if (plan_value_reads(plan, phase, array)) return bytes;
    if (!plan_gathers(plan, phase, array)) return 0;
    for (ValueId v = 1; v < plan->function->value_count; v++)
        if (plan_is_gather_of(plan, phase, v, array))
            gathered += 32 * report_elements(sizes, plan->function->values[v].axes);
    return gathered < bytes ? gathered : bytes;
}

double plan_partial_bytes(const Plan *plan, const ReportSizes *sizes, const Phase *phase) {
    double tiles = report_parts(sizes, phase->outer, phase->inner, 1024, 0), bytes = 0;
    if (!phase->reduction_count || !phase->inner || tiles <= report_elements(sizes, phase->outer))
        return 0;
    for (size_t i = 0; i < phase->reduction_count; i++) {
        const Value *value = &plan->function->values[phase->reductions[i]];
        bytes += type_info[value->type].size;
    }
    return bytes * tiles;
}

double plan_operations(const Plan *plan, const ReportSizes *sizes, const Phase *phase) {
    double cost = 0;
    for (ValueId v = 1; v < plan->function->value_count; v++)
        if (phase->needed[v] && phase->level[v] == LEVEL_ELEMENT && !plan_is_read(plan, phase, v))
            cost += op_info[plan->function->values[v].op].cost;
    for (size_t i = 0; i < phase->reduction_count; i++)
        cost += op_info[plan->function->values[phase->reductions[i]].op].cost;
    return cost * report_elements(sizes, phase->outer | phase->inner);
}
