/* query.c: what a phase of a plan computes, what it reads and what it stores.
 *
 * The questions that the planner, the emitter and the reports ask of a plan; none changes it. */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"

/* Where the value stands among those of the phase, or their count. */
static size_t slot_of(const Phase *phase, ValueId v) {
    size_t low = 0, high = phase->value_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (phase->values[middle] < v)
            low = middle + 1;
        else
            high = middle;
    }
    return low < phase->value_count && phase->values[low] == v ? low : phase->value_count;
}

bool plan_needs(const Phase *phase, ValueId v) {
    return slot_of(phase, v) < phase->value_count;
}

Level plan_level(const Phase *phase, ValueId v) {
    const size_t slot = slot_of(phase, v);
    return slot < phase->value_count ? (Level)phase->levels[slot] : LEVEL_SCALAR;
}

bool plan_is_read(const Plan *plan, const Phase *phase, ValueId v) {
    uint32_t index = (uint32_t)(phase - plan->phases);
    return plan->function->values[v].op == OP_PARAMETER ||
           (plan->defined_in[v] && plan->defined_in[v] - 1 < index);
}

uint32_t plan_source(const Plan *plan, const Phase *phase, ValueId v) {
    const Value *value = &plan->function->values[v];
    const uint32_t index = (uint32_t)(phase - plan->phases);
    if (value->op != OP_PARAMETER || (plan->defined_in[v] && plan->defined_in[v] - 1 < index))
        return plan->array_of[v];
    return (uint32_t)value->payload + 1;
}

Literals plan_literal(size_t condition, bool holds) {
    return (Literals)1 << (2 * (condition - 1) + holds);
}

/* Not where nothing varies: that may be stored by the last-block epilogue, which runs in any case.
 */
ValueId plan_selected(const Plan *plan, const Phase *phase, ValueId v) {
    const Value *value = &plan->function->values[v];
    bool holds = true;
    if (!phase->known || value->op != OP_SELECT || !value->axes) return 0;
    ValueId c = value->arg[0];
    for (; plan->function->values[c].op == OP_NOT; c = plan->function->values[c].arg[0])
        holds = !holds;
    if (!plan->condition_of[c]) return 0;
    if (phase->known & plan_literal(plan->condition_of[c], holds)) return value->arg[1];
    return phase->known & plan_literal(plan->condition_of[c], !holds) ? value->arg[2] : 0;
}

/* Whether the condition is one of whole rows of the array, along its fastest axis. */
static bool is_of_rows(const Array *array, AxisSet condition) {
    return !condition || !(condition >> (31 - __builtin_clz(array->axes)));
}

bool plan_keeps(const Plan *plan, uint32_t array, ValueId *value, Guard *guard) {
    const Function *f = plan->function;
    const Value *select = &f->values[*value];
    const ValueId old = plan->arrays[array].value;
    if (!old || select->op != OP_SELECT) return false;
    if (!is_of_rows(&plan->arrays[array], f->values[select->arg[0]].axes)) return false;
    if (f->values[old].op != OP_PARAMETER) return false;
    if (select->arg[1] != old && select->arg[2] != old) return false;
    *guard = (Guard){select->arg[0], select->arg[2] == old};
    *value = select->arg[guard->holds ? 1 : 2];
    return true;
}

ValueId plan_stored(const Plan *plan, const Phase *phase, const PhaseStore *store) {
    ValueId v = store->value;
    for (Guard guard; plan_keeps(plan, store->array, &v, &guard);) continue;
    for (ValueId chosen; (chosen = plan_selected(plan, phase, v)); v = chosen)
        if (plan_is_read(plan, phase, v)) return v;
    const Value *value = &plan->function->values[v];
    if (plan_is_read(plan, phase, v)) return v;
    if (value->op == OP_ROUND_TO && value->payload == (uint64_t)plan->arrays[store->array].type)
        return value->arg[0]; /* the store itself rounds to the same bits */
    return v;
}

bool plan_skips_rows(const Plan *plan, const Phase *phase) {
    for (size_t i = 0; i < phase->store_count; i++) {
        const PhaseStore *store = &phase->stores[i];
        const Value *cleared = &plan->function->values[plan->arrays[store->array].value];
        bool rows = store->kind == STORE_CLEAR && ir_scatter_within(cleared);
        ValueId value = store->value;
        for (Guard guard;
             store->kind == STORE_VALUE && plan_keeps(plan, store->array, &value, &guard);)
            rows |= plan->function->values[guard.condition].axes != 0;
        if (!rows) return false;
    }
    return phase->store_count > 0;
}

/* The axes of the rows that the condition chooses, and those over which indices name them, where it
 * says that one does (reads() of derive.c). */
static bool find_rows(const Function *f, ValueId condition, AxisSet *rows, AxisSet *within) {
    const Value *v = &f->values[condition], *least = &f->values[v->arg[0]];
    if (v->op == OP_AND)
        return find_rows(f, v->arg[0], rows, within) || find_rows(f, v->arg[1], rows, within);
    if (v->op != OP_NE || least->op != OP_SCATTER_MIN) return false;
    if (f->values[v->arg[1]].op != OP_CONST || f->values[v->arg[1]].payload != INT64_MAX)
        return false;
    *rows = ir_listed(f, least->arg[1]);
    *within = f->values[least->arg[1]].axes;
    return ir_are_plain(f, *rows | *within);
}

ls_image_extent plan_visited(const Plan *plan, const Phase *phase, uint64_t scale, AxisSet axes) {
    const Function *f = plan->function;
    ls_image_extent extent = plan_extent(f, scale, axes);
    AxisSet rows = 0, within = 0;
    for (size_t i = 0; i < phase->store_count; i++) {
        const PhaseStore *store = &phase->stores[i];
        const Value *cleared = &f->values[plan->arrays[store->array].value];
        AxisSet own = 0, own_within = ir_scatter_within(cleared);
        bool found = store->kind == STORE_CLEAR && own_within;
        ValueId value = store->value;
        if (found) own = ir_listed(f, cleared->arg[1]);
        for (Guard guard; store->kind == STORE_VALUE && !found &&
                          plan_keeps(plan, store->array, &value, &guard);)
            found = guard.holds && find_rows(f, guard.condition, &own, &own_within);
        if (!found || (i && (own != rows || own_within != within))) return extent;
        rows = own;
        within = own_within;
    }
    if (!rows || !within || (axes & rows) != rows || extent.list) return extent;
    extent.factor[0] = (ls_image_factor){
        .axes = plan_extent_axes(f, rows), .divide = 1, .within = plan_extent_axes(f, within)};
    extent.factor[extent.factor_count++] =
        (ls_image_factor){.axes = plan_extent_axes(f, axes & ~rows), .divide = 1};
    return extent;
}

bool plan_is_open(const Plan *plan, const Phase *phase, const PhaseStore *store, Guard guard) {
    ValueId c = guard.condition;
    bool holds = guard.holds;
    for (; plan->function->values[c].op == OP_NOT; c = plan->function->values[c].arg[0])
        holds = !holds;
    const size_t number = plan->condition_of[c];
    const bool known = number && phase->known & plan_literal(number, holds);
    return store->level == LEVEL_LAST_BLOCK || !known;
}

size_t plan_operands(const Plan *plan, const Phase *phase, ValueId v, ValueId operands[3]) {
    const Value *value = &plan->function->values[v];
    size_t count = 0;
    if (plan_is_read(plan, phase, v)) return 0;
    operands[0] = plan_selected(plan, phase, v);
    if (operands[0]) return 1;
    for (int i = 0; i < op_info[value->op].arity; i++) {
        bool elsewhere = (value->op == OP_GATHER && i == 0) || (value->op == OP_SCAN && i == 2);
        if (value->arg[i] && !elsewhere) operands[count++] = value->arg[i];
    }
    return count;
}

bool plan_value_reads(const Plan *plan, const Phase *phase, uint32_t array) {
    const ValueId packed[] = {plan->arrays[array].value, plan->arrays[array].materialised};
    for (int i = 0; i < 2; i++)
        if (packed[i] && plan_is_read(plan, phase, packed[i]) &&
            plan_source(plan, phase, packed[i]) == array + 1 && plan_needs(phase, packed[i]))
            return true;
    return false;
}

bool plan_is_gather_of(const Plan *plan, const Phase *phase, ValueId v, uint32_t array) {
    const Value *value = &plan->function->values[v];
    return value->op == OP_GATHER && plan_source(plan, phase, value->arg[0]) == array + 1 &&
           !plan_is_read(plan, phase, v) && plan_needs(phase, v);
}

bool plan_gathers(const Plan *plan, const Phase *phase, uint32_t array) {
    for (size_t i = 0; i < phase->gather_count; i++)
        if (plan_is_gather_of(plan, phase, phase->gathers[i], array)) return true;
    return false;
}

/* ---- touches ---- */

/* Whether value v of the phase touches an array, and how. */
static bool touch_of(const Plan *plan, const Phase *phase, ValueId v, Touch *touch) {
    const Value *values = plan->function->values;
    const bool gather = values[v].op == OP_GATHER, read = plan_is_read(plan, phase, v);
    if (!read && !gather) return false;
    const uint32_t source = plan_source(plan, phase, read ? v : values[v].arg[0]);
    if (!source) return false;
    const Array *array = &plan->arrays[source - 1];
    *touch = (Touch){.array = source - 1, .reads = read, .gathers = !read};
    if (!read) touch->elsewhere = ir_listed(plan->function, values[v].arg[1]);
    return !read || array->value == v || array->materialised == v;
}

static int by_array(const void *a, const void *b) {
    const uint32_t x = ((const Touch *)a)->array, y = ((const Touch *)b)->array;
    return x < y ? -1 : x > y;
}

/* Insertion sort: a phase has few values, nearly in order. */
static void sort_touches(Touch *touches, size_t count) {
    enum { FEW = 32 };
    if (count > FEW) {
        qsort(touches, count, sizeof *touches, by_array);
        return;
    }
    for (size_t i = 1; i < count; i++) {
        const Touch touch = touches[i];
        size_t at = i;
        for (; at > 0 && touches[at - 1].array > touch.array; at--) touches[at] = touches[at - 1];
        touches[at] = touch;
    }
}

/* Those of one array as one. */
static size_t merge_touches(Touch *touches, size_t count) {
    size_t merged = 0;
    for (size_t i = 0; i < count; i++) {
        if (!merged || touches[merged - 1].array != touches[i].array) {
            touches[merged++] = touches[i];
            continue;
        }
        Touch *last = &touches[merged - 1];
        last->reads |= touches[i].reads;
        last->gathers |= touches[i].gathers;
        last->writes |= touches[i].writes;
        last->last_block |= touches[i].last_block;
        last->adds |= touches[i].adds;
        last->elsewhere |= touches[i].elsewhere;
    }
    return merged;
}

void plan_find_touches(const Plan *plan, Phase *phase, Arena *arena) {
    size_t max = phase->store_count, count = 0;
    Touch touch;
    for (size_t i = 0; i < phase->value_count; i++)
        max += touch_of(plan, phase, phase->values[i], &touch);
    Touch *touches = arena_alloc(arena, (max + 1) * sizeof *touches);
    for (size_t i = 0; count + phase->store_count < max; i++)
        count += touch_of(plan, phase, phase->values[i], &touches[count]);
    for (size_t i = 0; i < phase->store_count; i++) {
        const PhaseStore *store = &phase->stores[i];
        const bool last_block = store->level == LEVEL_LAST_BLOCK;
        touches[count++] = (Touch){.array = store->array,
                                   .writes = !last_block,
                                   .last_block = last_block,
                                   .adds = store->kind == STORE_ADD};
    }
    sort_touches(touches, count);
    phase->touches = touches;
    phase->touch_count = merge_touches(touches, count);
}

const Touch *plan_touch(const Phase *phase, uint32_t array) {
    size_t low = 0, high = phase->touch_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (phase->touches[middle].array < array)
            low = middle + 1;
        else
            high = middle;
    }
    const bool found = low < phase->touch_count && phase->touches[low].array == array;
    return found ? &phase->touches[low] : NULL;
}

const char *plan_reduction(const Value *value) {
    static const char prefix[] = "reduce_"; /* tells `max` of an axis from `max` of two values */
    const char *name = op_info[value->op].name;
    return strncmp(name, prefix, sizeof prefix - 1) == 0 ? name + sizeof prefix - 1 : name;
}

bool plan_reads(const Plan *plan, const Phase *phase, uint32_t array) {
    return plan_value_reads(plan, phase, array) || plan_gathers(plan, phase, array);
}

/* The block that finishes a segment's last row or column runs the segment epilogue: so the kernel's
 * phases have to run in any case. */
static bool is_followed(const Plan *plan, uint32_t phase) {
    for (size_t i = 0; i < plan->grouping_count; i++)
        for (size_t k = 0; k < plan->groupings[i].count; k++) {
            const Kernel *kernel = &plan->groupings[i].kernels[k];
            if (kernel->segment_epilogue && phase >= kernel->first &&
                phase < kernel->first + kernel->count)
                return true;
        }
    return false;
}

bool plan_is_optional(const Plan *plan, uint32_t array) {
    const Function *f = plan->function;
    bool others = false;
    if (array >= f->parameter_count || f->parameters[array].role != LS_OUT) return false;
    if (!f->parameters[array].declared) return false;
    for (uint32_t i = 0; i < plan->phase_count; i++) {
        const Phase *phase = &plan->phases[i];
        bool stores = false;
        if (plan_reads(plan, phase, array)) return false;
        for (size_t k = 0; k < phase->store_count; k++) {
            stores |= phase->stores[k].array == array;
            others |=
                phase->stores[k].array != array && phase->stores[k].array < f->parameter_count;
        }
        if (!stores) continue;
        if (phase->shape == SHAPE_SCALAR || is_followed(plan, i)) return false;
        for (size_t k = 0; k < phase->store_count; k++)
            if (phase->stores[k].array != array || phase->stores[k].kind != STORE_VALUE)
                return false;
    }
    return others;
}

uint32_t plan_optional_of(const Plan *plan, const Phase *phase) {
    const uint32_t array = phase->store_count ? phase->stores[0].array : 0;
    return phase->store_count && plan_is_optional(plan, array) ? array + 1 : 0;
}

AxisSet plan_extent_axes(const Function *f, AxisSet axes) {
    for (uint32_t axis = 0; axis < f->axis_count; axis++) {
        const AxisSet both = ir_expand(f, (AxisSet)1 << axis);
        if (f->axes[axis].block < 0 || (axes & both) != both) continue;
        axes &= ~both;
        axes |= (AxisSet)1 << axis;
    }
    return axes;
}

ls_image_extent plan_extent(const Function *f, uint64_t scale, AxisSet axes) {
    const int list = ir_list_axis(f, axes);
    ls_image_extent extent = {.scale = scale, .factor_count = 1, .list = (uint32_t)(list + 1)};
    if (list >= 0) axes &= ~((AxisSet)1 << list);
    extent.factor[0] = (ls_image_factor){.axes = plan_extent_axes(f, axes), .divide = 1};
    return extent;
}

ls_image_extent plan_array_extent(const Function *f, const Array *array) {
    const Value *v = &f->values[array->parameter == UINT32_MAX ? array->value : 0];
    const uint64_t size = type_info[array->type].size;
    if (!ir_scatter_within(v)) return plan_extent(f, size, array->axes);
    const AxisSet rows = ir_listed(f, v->arg[1]);
    ls_image_extent extent = plan_extent(f, size, rows);
    extent.factor[0].within = plan_extent_axes(f, ir_scatter_within(v));
    extent.factor[extent.factor_count++] =
        (ls_image_factor){.axes = plan_extent_axes(f, array->axes & ~rows), .divide = 1};
    return extent;
}
