/* random.c: random numbers in generated code of one thread.
 *
 * Four neighbouring elements share a block of Philox, so a number at a time would cost four times
 * the work. Where neighbouring elements of the element loop have neighbouring indices, their draws
 * are made ahead of it, of the run that it walks along (draw_loop.h). */
#include <stdio.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

enum { DRAWS_MAX = 16 }; /* with their numbers on the stack */

static const struct {
    Op op;
    const char *what, *type;
} kinds[] = {{OP_RANDOM_BITS, "bits", "u32"},
             {OP_RANDOM_UNIFORM, "uniform", "f32"},
             {OP_RANDOM_NORMAL, "normal", "f32"}};

/* The coordinate that moves in the element loop of one thread. */
static const Group *moving(const Emitter *e) {
    return emit_in_loop_columns(e) ? &e->outer[e->outer_count - 1] : &e->inner[e->inner_count - 1];
}

/* Whether the flat index over `set` grows by one with each element. */
static bool runs_along(const Emitter *e, AxisSet set) {
    const AxisSet last = moving(e)->axes;
    return (set & last) == last && !(set >> (31 - __builtin_clz(last)) >> 1);
}

static AxisSet position_of(const Value *value) {
    if (value->op == OP_POSITION) return (AxisSet)value->payload;
    return value->op == OP_INDEX ? (AxisSet)1 << value->payload : 0;
}

/* Whether a value stands ahead of the element loop. */
static bool stays(const Emitter *e, ValueId v) {
    const Level level = plan_level(e->phase, v);
    if (level == LEVEL_OUTER && emit_in_loop_columns(e)) return e->ready[v] & READY_TENSOR;
    return level == LEVEL_SCALAR || level == LEVEL_OUTER;
}

/* The position in an index that is one, or one plus what stays the same in the element loop. */
static ValueId find_position(const Emitter *e, ValueId index, ValueId *rest) {
    const Value *value = &e->f->values[index];
    *rest = 0;
    if (position_of(value)) return index;
    if (value->op != OP_ADD) return 0;
    for (int i = 0; i < 2; i++) {
        *rest = value->arg[1 - i];
        if (stays(e, *rest) && position_of(&e->f->values[value->arg[i]])) return value->arg[i];
    }
    return 0;
}

static const char *index_text(Emitter *e, ValueId index) {
    ValueId rest, position = find_position(e, index, &rest);
    AxisSet set = position_of(&e->f->values[position]);
    const Group *group = moving(e);
    const char *first =
        emit_in_loop_columns(e) ? "first_column" : arena_printf(e->arena, "%s_first", group->name);
    const char *text = emit_position_at(e, set, group, first);
    return rest ? arena_printf(e->arena, "ls_add_i64(%s, %s)", e->text_of[rest], emit_bare(e, text))
                : emit_bare(e, text);
}

bool emit_is_drawn_ahead(const Emitter *e, ValueId v) {
    const Value *value = &e->f->values[v];
    ValueId rest, position;
    size_t kind = 0;
    while (kind < COUNT(kinds) && kinds[kind].op != (Op)value->op) kind++;
    if (kind == COUNT(kinds) || !e->draws_ahead || plan_is_read(e->plan, e->phase, v)) return false;
    if (e->draw_count == DRAWS_MAX && !e->draw_name[v]) return false;
    if (!stays(e, value->arg[0])) return false;
    position = find_position(e, value->arg[1], &rest);
    return position && runs_along(e, position_of(&e->f->values[position]));
}

const char *emit_draw(Emitter *e, ValueId v) {
    static const char *const suffixes[] = {"room", NULL};
    const Value *value = &e->f->values[v];
    if (!e->draw_name[v]) {
        const bool plain = value->name && names_is_plain(value->name);
        const char *name = plain ? arena_printf(e->arena, "%s_draws", value->name) : "draws";
        e->draw_name[v] = names_stem(e, NULL, name, suffixes);
        e->draw_count++;
    }
    const char *coordinate = moving(e)->name;
    if (emit_in_loop_columns(e)) return arena_printf(e->arena, "%s[c]", e->draw_name[v]);
    return arena_printf(e->arena, "%s[%s - %s_first]", e->draw_name[v], coordinate, coordinate);
}

void emit_draws(Emitter *e, Text *out) {
    for (ValueId v = 1; v < e->f->value_count; v++) {
        if (!e->draw_name[v]) continue;
        const Value *value = &e->f->values[v];
        size_t kind = 0;
        while (kinds[kind].op != (Op)value->op) kind++;
        const char *key = e->text_of[value->arg[0]], *name = e->draw_name[v];
        const char *index = index_text(e, value->arg[1]), *type = kinds[kind].type;
        const char *count = emit_in_loop_columns(e)
                                ? "width"
                                : arena_printf(e->arena, "end - %s_first", moving(e)->name);
        text_printf(out, "%s %s_room[LS_DRAWS];\n", type, name);
        text_printf(out, "const %s *const %s = ls_draw_%s(%s_room, %s, %s, %s);\n", type, name,
                    kinds[kind].what, name, key, index, count);
    }
}
