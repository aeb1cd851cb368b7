/* sequence.c: views and loops of a step with `for`, for the passes that change its parts. */
#include <string.h>

#include "base/base.h"
#include "ir/ir.h"

/* The name, with underscores behind it where the function has a parameter of that name. */
static const char *free_name(const Function *f, const char *name) {
    for (size_t i = 0; i < f->parameter_count; i++)
        if (strcmp(f->parameters[i].name, name) == 0)
            return free_name(f, arena_printf(f->arena, "%s_", name));
    return name;
}

uint32_t sequence_add_view(Part *part, View view, const Parameter *row) {
    Function *f = part->function;
    for (uint32_t i = 0; i < f->parameter_count; i++)
        if (part->views[i].array == view.array && part->views[i].fixed == view.fixed) return i;
    Parameter own = *row;
    own.name = free_name(f, own.name);
    own.role = LS_IN;
    own.has_default = false;
    part->views = arena_grow(f->arena, part->views, f->parameter_count, &part->view_capacity,
                             sizeof *part->views);
    f->parameters =
        arena_grow(f->arena, f->parameters, f->parameter_count, &f->parameter_capacity, sizeof own);
    part->views[f->parameter_count] = view;
    f->parameters[f->parameter_count] = own;
    return (uint32_t)f->parameter_count++;
}

Iteration *sequence_iteration(const Sequence *s, const Part *part, uint32_t loop_count) {
    const Function *f = part->function;
    Iteration *iteration = arena_alloc(f->arena, sizeof *iteration);
    IterationLoop *loops = arena_alloc(f->arena, loop_count * sizeof *loops);
    AxisSet axes = 0;
    for (uint32_t i = loop_count, loop = part->loop; i-- > 0; loop = s->loops[loop - 1].outer) {
        const Loop *row = &s->loops[loop - 1];
        loops[i] = (IterationLoop){row->axis, s->place[row->axis], row->reverse};
        axes |= (AxisSet)1 << row->axis;
    }
    AxisSet *moves = arena_alloc(f->arena, (f->parameter_count + 1) * sizeof *moves);
    bool *changes = arena_alloc(f->arena, (f->parameter_count + 1) * sizeof *changes);
    bool *sole = arena_alloc(f->arena, (f->parameter_count + 1) * sizeof *sole);
    for (size_t i = 0; i < f->parameter_count; i++) {
        moves[i] = part->views[i].fixed & axes;
        sole[i] = true;
        for (size_t k = 0; k < f->parameter_count; k++) {
            if (part->views[k].array != part->views[i].array) continue;
            changes[i] |= f->parameters[k].role != LS_IN;
            sole[i] &= k == i;
        }
    }
    *iteration = (Iteration){.loops = loops,
                             .loop_count = loop_count,
                             .moves = moves,
                             .changes = changes,
                             .sole = sole,
                             .strip = -1};
    return iteration;
}

static bool is_body(const Sequence *s, size_t number, uint32_t loop) {
    for (size_t i = 0; i < s->part_count; i++) {
        uint32_t around = i == number ? 0 : s->parts[i].loop;
        while (around && around != loop) around = s->loops[around - 1].outer;
        if (around && around == loop) return false;
    }
    return loop != 0;
}

uint32_t sequence_loops(const Sequence *s, size_t number) {
    uint32_t count = 0, loop = s->parts[number].loop;
    for (; is_body(s, number, loop); loop = s->loops[loop - 1].outer) count++;
    return count;
}

uint32_t sequence_copy_loops(Sequence *s, uint32_t loop, uint32_t count) {
    if (!count) return loop;
    const uint32_t outer = sequence_copy_loops(s, s->loops[loop - 1].outer, count - 1);
    Loop row = s->loops[loop - 1];
    row.outer = outer;
    s->loops = arena_grow(s->step->arena, s->loops, s->loop_count, &s->loop_capacity, sizeof row);
    s->loops[s->loop_count++] = row;
    return (uint32_t)s->loop_count;
}
