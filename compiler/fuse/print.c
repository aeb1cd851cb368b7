/* print.c: a plan as text; read.c reads it back.
 *
 *   step softmax                            the function, as ir/print.c gives it
 *   ...
 *   plan explained                          the stage; `stopped` where the search ended early
 *   materialised %5 %9                      the choices: values that later phases read
 *   depth %8 = 2                            and the least depth of a reduction
 *   array @max_5: f32[b] holds %5           a temporary; `scratch` follows for worker scratch
 *   array y holds %7                        a parameter that phases behind its store read
 *   phase 0 rows outer [b] inner [k] depth 1
 *     guard not %8                          it has work only where the condition is false
 *     reduce %5 %6                          the reductions that it computes; also `scan`
 *     clear @sum_9 at element               stores zeros, for a scatter
 *     add @sum_9 = %9 at element            to add to
 *     store y = %7 at epilogue              without a level while the store may still move
 *     why it reduces over other axes than the phase before
 *   row_panels [k] element_bytes 8 column_bytes 4
 *   grouping compared small_epilogues       a grouping; plans are compared by the one called so
 *     kernel row_fusion 0 to 2 over [b] last_block_epilogues 1
 *
 * Kernels stand without a grouping until kernels.c has run. Every line is one item; `#` begins a
 * comment. What follows from these (which values a phase reads and computes, at which levels, which
 * guards it knows to hold, which arrays it touches, which phase defines a value) is found when the
 * text is read. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"

const char *const plan_stage_names[PLAN_STAGE_COUNT] = {
    "chosen",
#define X(id, stage, ...) stage,
#include "passes.def"
#undef X
};
const char *const plan_shape_names[SHAPE_COUNT] = {[SHAPE_SCALAR] = "scalar",
                                                   [SHAPE_MAP] = "map",
                                                   [SHAPE_ROWS] = "rows",
                                                   [SHAPE_COLUMNS] = "columns",
                                                   [SHAPE_SCAN] = "scan"};
const char *const plan_level_names[LEVEL_COUNT] = {[LEVEL_SCALAR] = "scalar",
                                                   [LEVEL_OUTER] = "outer",
                                                   [LEVEL_ELEMENT] = "element",
                                                   [LEVEL_EPILOGUE] = "epilogue",
                                                   [LEVEL_LAST_BLOCK] = "last_block_epilogue"};
const char *const plan_store_names[3] = {
    [STORE_VALUE] = "store", [STORE_CLEAR] = "clear", [STORE_ADD] = "add"};
const char *const plan_kernel_names[KERNEL_KIND_COUNT] = {
    [KERNEL_SINGLE] = "single",         [KERNEL_HORIZONTAL] = "horizontal",
    [KERNEL_ROW_FUSION] = "row_fusion", [KERNEL_ALL] = "cooperative",
    [KERNEL_ROW_PANELS] = "row_panels", [KERNEL_FINISH] = "finish_panels"};

static void print_choices(const Plan *plan, Text *out) {
    bool any = false;
    if (plan->choices.wholes_first) text_puts(out, "wholes_first\n");
    for (ValueId v = 1; plan->choices.materialised_ && v < plan->function->value_count; v++) {
        if (!plan->choices.materialised_[v]) continue;
        text_printf(out, "%s %%%u", any ? "" : "materialised", v);
        any = true;
    }
    if (any) text_puts(out, "\n");
    for (ValueId v = 1; plan->choices.depth && v < plan->function->value_count; v++)
        if (plan->choices.depth[v])
            text_printf(out, "depth %%%u = %u\n", v, plan->choices.depth[v]);
}

static void print_array_name(const Plan *plan, uint32_t array, Text *out) {
    const Array *a = &plan->arrays[array];
    text_printf(out, "%s%s", a->parameter == UINT32_MAX ? "@" : "", a->name);
}

static void print_arrays(const Plan *plan, Text *out) {
    for (uint32_t i = 0; i < plan->array_count; i++) {
        const Array *array = &plan->arrays[i];
        const bool temporary = array->parameter == UINT32_MAX;
        if (!temporary && !array->materialised) continue;
        text_puts(out, "array ");
        print_array_name(plan, i, out);
        if (temporary) {
            text_printf(out, ": %s", type_info[array->type].name);
            if (array->axes) ir_print_axes(plan->function, array->axes, out);
        }
        text_printf(out, " holds %%%u%s\n", temporary ? array->value : array->materialised,
                    array->in_scratch ? " scratch" : "");
    }
}

static void print_values(const char *word, const ValueId *values, size_t count, Text *out) {
    if (count) text_printf(out, "  %s", word);
    for (size_t i = 0; i < count; i++) text_printf(out, " %%%u", values[i]);
    if (count) text_puts(out, "\n");
}

static void print_stores(const Plan *plan, uint32_t index, Text *out) {
    const Function *f = plan->function;
    const Phase *phase = &plan->phases[index];
    for (size_t i = 0; i < phase->store_count; i++) {
        const PhaseStore *store = &phase->stores[i];
        text_printf(out, "  %s ", plan_store_names[store->kind]);
        print_array_name(plan, store->array, out);
        if (store->kind != STORE_CLEAR) text_printf(out, " = %%%u", store->value);
        text_printf(out, " at %s\n", plan_level_names[store->level]);
    }
    for (size_t s = 0; s < f->store_count; s++)
        if (plan->store_phase[s] == index)
            text_printf(out, "  store %s = %%%u\n", f->parameters[f->stores[s].parameter].name,
                        f->stores[s].value);
}

static void print_phase(const Plan *plan, uint32_t index, Text *out) {
    const Phase *phase = &plan->phases[index];
    text_printf(out, "phase %u %s", index, plan_shape_names[phase->shape]);
    if (phase->outer) text_puts(out, " outer "), ir_print_axes(plan->function, phase->outer, out);
    if (phase->inner) text_puts(out, " inner "), ir_print_axes(plan->function, phase->inner, out);
    if (phase->depth) text_printf(out, " depth %u", phase->depth);
    text_puts(out, phase->reverse ? " reverse\n" : "\n");
    for (size_t i = 0; i < phase->guard_count; i++)
        text_printf(out, "  guard %s%%%u\n", phase->guards[i].holds ? "" : "not ",
                    phase->guards[i].condition);
    print_values("reduce", phase->reductions, phase->reduction_count, out);
    print_values("scan", phase->scans, phase->scan_count, out);
    print_stores(plan, index, out);
    if (phase->why) text_printf(out, "  why %s\n", phase->why);
}

static void print_kernels(const Plan *plan, const Kernel *kernels, size_t count, const char *indent,
                          Text *out) {
    for (size_t i = 0; i < count; i++) {
        const Kernel *kernel = &kernels[i];
        text_printf(out, "%skernel %s %u to %u", indent, plan_kernel_names[kernel->kind],
                    kernel->first, kernel->first + kernel->count - 1);
        if (kernel->outer)
            text_puts(out, " over "), ir_print_axes(plan->function, kernel->outer, out);
        if (kernel->pre_reductions) text_printf(out, " pre_reductions %u", kernel->pre_reductions);
        if (kernel->segment_epilogue)
            text_printf(out, " segment_epilogues %u", kernel->segment_epilogue);
        if (kernel->last_block) text_printf(out, " last_block_epilogues %u", kernel->last_block);
        text_puts(out, "\n");
    }
}

static void print_groupings(const Plan *plan, Text *out) {
    if (plan->panel_columns) {
        text_puts(out, "row_panels ");
        ir_print_axes(plan->function, plan->panel_columns, out);
        text_printf(out, " element_bytes %u column_bytes %u\n", plan->panel_bytes,
                    plan->panel_partial);
    }
    for (size_t i = 0; i < plan->grouping_count; i++) {
        const Grouping *grouping = &plan->groupings[i];
        text_printf(
            out, "grouping%s%s%s%s\n", grouping->kernels == plan->kernels ? " compared" : "",
            grouping->limited ? " small_epilogues" : "", grouping->panels ? " many_long_rows" : "",
            grouping->few ? " few_long_rows" : "");
        print_kernels(plan, grouping->kernels, grouping->count, "  ", out);
    }
}

void plan_print(const Plan *plan, Text *out) {
    ir_print(plan->function, out);
    text_printf(out, "plan %s%s\n", plan_stage_names[plan->stage], plan->stopped ? " stopped" : "");
    print_choices(plan, out);
    print_arrays(plan, out);
    for (uint32_t i = 0; i < plan->phase_count; i++) print_phase(plan, i, out);
    if (plan->stage >= PLAN_GROUPED)
        print_groupings(plan, out);
    else
        print_kernels(plan, plan->kernels, plan->kernel_count, "", out);
}
