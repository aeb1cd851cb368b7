/* column_vectors.c: what vectors of the language can say of a strip's columns, for one lane.
 *
 * Where all that is done with an element is + - * / of f32, it is written for 16 elements at once
 * and stays in registers: eight rows of 64 columns. The loops for all sizes take what is left. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

/* Operators that the language has for vectors, element by element and with the same rounding. */
static bool is_operator(Op op) {
    return op == OP_ADD || op == OP_SUB || op == OP_MUL || op == OP_DIV;
}

/* The coordinate that moves in the element loop. */
static const Group *fast_of(const Emitter *e) {
    return &e->outer[e->outer_count - 1];
}

/* Whether neighbours are neighbours in memory, and need no conversion. */
static bool is_vector_load(Emitter *e, ValueId v) {
    const uint32_t array = plan_source(e->plan, e->phase, v) - 1;
    const Group *fast = fast_of(e);
    return array != UINT32_MAX && e->plan->arrays[array].type == TYPE_F32 &&
           emit_has_group(e, array, fast) && !emit_is_list(e, array) &&
           strcmp(emit_offset(e, array, fast, 1), fast->name) == 0;
}

/* Whether the value of 16 neighbours can be written, those of its operands that are not there
 * before the element loop among them. */
static bool is_vector(Emitter *e, ValueId v, unsigned available) {
    const Value *value = &e->f->values[v];
    if (value->op == OP_CONST || available >> plan_level(e->phase, v) & 1 || e->ready[v])
        return value->type == TYPE_F32;
    if (value->type != TYPE_F32 || !(value->axes & fast_of(e)->axes)) return false;
    if (plan_is_read(e->plan, e->phase, v)) return is_vector_load(e, v);
    if (!is_operator((Op)value->op) || plan_chosen(e->plan, e->phase, v)) return false;
    return is_vector(e, value->arg[0], available) && is_vector(e, value->arg[1], available);
}

/* Whether all that is done with an element can be. */
static bool has_vectors(Emitter *e, unsigned available) {
    const Phase *phase = e->phase;
    if (e->target->simt || phase->shape != SHAPE_COLUMNS || e->portion == PORTION_FINISH)
        return false;
    if (e->layout != LS_LAYOUT_DENSE || e->list >= 0 || e->f->math == LS_MATH_FAST) return false;
    if (!e->outer_count || fast_of(e)->whole || phase->scan_count || !phase->reduction_count)
        return false;
    for (uint32_t axis = 0; axis < e->f->axis_count; axis++)
        if (emit_is_split(e, axis)) return false;
    for (size_t i = 0; i < phase->store_count; i++)
        if (phase->stores[i].level == LEVEL_ELEMENT) return false;
    for (size_t i = 0; i < phase->reduction_count; i++) {
        const Value *value = &e->f->values[phase->reductions[i]];
        const ValueId element = value->arg[0];
        if (value->op != OP_SUM || !is_vector(e, element, available)) return false;
        if (!(e->f->values[element].axes & fast_of(e)->axes)) return false;
    }
    return true;
}

/* What is done with 16 elements at once, ahead of the text for one. */
void emit_vectors(Emitter *e, Sections *s, const Roots *roots) {
    if (!has_vectors(e, s->before)) return;
    e->vectors = true;
    emit_section(e, &s->vector_body, roots->values, roots->count, s->before, PLACE_ELEMENT);
    text_puts(&s->vector_push, emit_part(e, PART_PUSH_VECTOR));
    e->vectors = false;
}

const char *emit_column_vectors(Emitter *e, const Sections *s, const char *take) {
    Text text = text_open(e->arena);
    if (!s->vector_push.size) return "";
    Hole holes[] = {{"VECTORS", emit_part(e, PART_VECTORS)},
                    {"COLUMN", e->outer[e->outer_count - 1].name},
                    {"EIGHT", emit_part(e, PART_EIGHT_VECTORS)},
                    {"TAKE", take},
                    {"BODY", s->vector_body.data},
                    {"PUSH", s->vector_push.data},
                    {"JOIN", emit_part(e, PART_PUSH_SHORT)},
                    {"TOTAL", emit_part(e, PART_SHORT)}};
    emit_fill(e, &text, "columns_vectors.loop.k", holes, COUNT(holes));
    return text.data;
}
