/* emit_short.c: rows of 16 to 128 elements, of the dialect with one lane.
 *
 * A compiler makes a loop of each short row and takes its elements through memory to the tree. What
 * vectors of the language can say, sums of products for one, is written for rows of 1, 2, 4 and 8
 * whole vectors of 16 elements: each row becomes one vector in registers, 16 rows together their 16
 * values. The loop for all rows takes what is left. */
#include <string.h>

#include "compiler.h"
#include "plan.h"
#include "emit.h"

enum { WIDTH = 16, COUNT_MOST = 8 };

/* Operators that the language has for vectors, element by element and with the same rounding. */
static bool is_operator(Op op) {
    return op == OP_ADD || op == OP_SUB || op == OP_MUL || op == OP_DIV;
}

/* Whether neighbours along the row are neighbours in memory, and need no conversion. */
static bool is_vector_load(Emitter *e, ValueId v) {
    const uint32_t array = plan_source(e->plan, e->phase, v) - 1;
    const Group *fast = &e->inner[0];
    return array != UINT32_MAX && e->plan->arrays[array].type == TYPE_F32 &&
           emit_has_group(e, array, fast) && !emit_is_list(e, array) &&
           strcmp(emit_offset(e, array, fast, 1), fast->name) == 0;
}

static bool is_vector(Emitter *e, ValueId v) {
    const Value *value = &e->f->values[v];
    if (value->type != TYPE_F32 || plan_chosen(e->plan, e->phase, v)) return false;
    return plan_is_read(e->plan, e->phase, v) ? is_vector_load(e, v) : is_operator((Op)value->op);
}

/* Whether all that is done with an element is. */
static bool has_vectors(Emitter *e) {
    const Phase *phase = e->phase;
    if (e->target->simt || phase->shape != SHAPE_ROWS || !phase->reduction_count) return false;
    if (e->layout != LS_LAYOUT_DENSE || e->list >= 0 || e->f->math == LS_MATH_FAST) return false;
    if (e->inner_count != 1 || e->inner[0].whole || !e->outer_count || phase->scan_count)
        return false;
    for (uint32_t axis = 0; axis < e->f->axis_count; axis++)
        if (emit_is_split(e, axis)) return false;
    for (size_t i = 0; i < phase->reduction_count; i++) {
        const Value *value = &e->f->values[phase->reductions[i]];
        const ValueId element = value->arg[0];
        if (value->op != OP_SUM || phase->level[element] != LEVEL_ELEMENT) return false;
    }
    for (size_t i = 0; i < phase->store_count; i++)
        if (phase->stores[i].level == LEVEL_ELEMENT) return false;
    for (ValueId v = 1; v < e->f->value_count; v++)
        if (phase->needed[v] && phase->level[v] == LEVEL_ELEMENT && !is_vector(e, v)) return false;
    return true;
}

/* What is done with 16 elements at once, ahead of the text for one. */
void emit_vectors(Emitter *e, Sections *s, const Roots *roots) {
    if (!has_vectors(e)) return;
    e->vectors = true;
    emit_section(e, &s->vector_body, roots->values, roots->count, s->before, PLACE_ELEMENT);
    text_puts(&s->vector_push, emit_part(e, PART_PUSH_VECTOR));
    e->vectors = false;
}

const char *emit_short(Emitter *e, const Sections *s) {
    Text text = text_open(e->arena);
    if (!s->vector_push.size || *emit_followed(e)) return "";
    text_puts(&text, "/* Rows of whole vectors go by sixteen, their trees in registers. */\n");
    for (unsigned count = 1; count <= COUNT_MOST; count *= 2) {
        Hole holes[] = {{"WIDE", arena_printf(e->arena, "%u", WIDTH * count)},
                        {"COUNT", arena_printf(e->arena, "%u", count)},
                        {"LEAVES", emit_part(e, PART_LEAVES)},
                        {"OUTER_DECODE", s->outer_decoded.data},
                        {"OUTER", s->outer.data},
                        {"BASES", s->bases.data},
                        {"VECTORS", emit_part(e, PART_VECTORS)},
                        {"FAST", e->inner[0].name},
                        {"BODY", s->vector_body.data},
                        {"PUSH", s->vector_push.data},
                        {"JOIN", emit_part(e, PART_PUSH_SHORT)},
                        {"TILE", emit_part(e, PART_SHORT)},
                        {"APART", emit_apart(e)},
                        {"PARTS", emit_part(e, PART_PARTS)},
                        {"FINISH", s->finish},
                        {"EPILOGUE", s->epilogue.data}};
        emit_fill(e, &text, "rows_short.loop.k", holes, COUNT(holes));
    }
    return text.data;
}
