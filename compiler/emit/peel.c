/* peel.c: the one element of a row that an index chooses, of the dialect with one lane.
 *
 * A gradient of cross entropy asks of every element whether it is the row's target. Compared as 64
 * bits that costs a third of the loop, and all but one are not: there the loop takes the answer as
 * no, and when it has done its part of the row the chosen element is computed again, with the
 * question asked. Nothing that is stored may be read by the phase. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

/* The value that an index of the loop is compared with, or 0. */
static ValueId chosen_by(const Emitter *e, ValueId v) {
    const Value *value = &e->f->values[v];
    if (value->op != OP_EQ && value->op != OP_NE) return 0;
    if (plan_is_read(e->plan, e->phase, v)) return 0;
    for (int i = 0; i < 2; i++) {
        const Value *index = &e->f->values[value->arg[i]];
        const ValueId other = value->arg[1 - i];
        const Level level = plan_level(e->phase, other);
        if (index->op == OP_INDEX && e->inner[0].axes == (AxisSet)1 << index->payload &&
            (level == LEVEL_OUTER || level == LEVEL_SCALAR))
            return other;
    }
    return 0;
}

const bool *emit_find_hits(const Emitter *e) {
    const Phase *phase = e->phase;
    bool any = false;
    if (e->target->simt || phase->shape != SHAPE_ROWS || e->inner_count != 1 || e->list >= 0)
        return NULL;
    if (phase->reduction_count || phase->scan_count || e->inner[0].whole) return NULL;
    for (uint32_t axis = 0; axis < e->f->axis_count; axis++)
        if (emit_is_rest(e, axis)) return NULL;
    for (size_t i = 0; i < phase->store_count; i++)
        if (phase->stores[i].level == LEVEL_ELEMENT &&
            (phase->stores[i].kind != STORE_VALUE ||
             plan_reads(e->plan, phase, phase->stores[i].array)))
            return NULL;
    bool *hits = arena_alloc(e->arena, e->f->value_count * sizeof *hits);
    for (size_t i = 0; i < phase->value_count; i++) {
        const ValueId v = phase->values[i];
        if (emit_is_drawn_ahead(e, v)) return NULL;
        any |= hits[v] = chosen_by(e, v) != 0;
    }
    return any ? hits : NULL;
}

const char *emit_hits(Emitter *e, const bool *hits, const char *body, const char *stores) {
    Text text = text_open(e->arena);
    const char *fast = e->inner[0].name;
    for (ValueId v = 1; v < e->f->value_count; v++) {
        if (!hits[v]) continue;
        Hole holes[] = {{"FAST", fast},
                        {"CHOSEN", e->text_of[chosen_by(e, v)]},
                        {"BODY", body},
                        {"STORES", stores}};
        emit_fill(e, &text, "rows_hit.loop.k", holes, COUNT(holes));
    }
    return text.data;
}
