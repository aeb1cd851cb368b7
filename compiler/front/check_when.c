/* check_when.c: `when condition { ... } else { ... }`.
 *
 * The condition is a value like any other, known before the branches; each branch has a scope and
 * statements of its own. What a branch assigns counts as assigned in that branch, and after the
 * `when` as far as both do. */
#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"

#include <string.h>

static bool has_loop(const Block *block) {
    for (size_t i = 0; i < block->count; i++)
        if (block->statements[i].body || block->statements[i].loops) return true;
    return false;
}

void check_when(Checker *c, const Statement *s) {
    Step *step = c->step;
    Typed *condition = check_expression(c, s->value);
    int type = unify(c, &condition, 1, ACCEPT_BOOL, (Range){0}, "the condition of `when`");
    if (type == TYPE_NONE) condition = &c->error;
    Checked checked = {.value = condition, .range = s->range};
    checked.branches = arena_alloc(c->arena, 2 * sizeof *checked.branches);
    When when = {.condition = condition,
                 .known = step->parameter_count + step->local_count,
                 .outer = c->when};
    c->when = &when;
    Assigned *before = copy_assigned(c);
    check_inner(c, s->body, &checked.branches[0]);
    Assigned *after = copy_assigned(c);
    if (step->parameter_count)
        memcpy(step->assigned, before, step->parameter_count * sizeof *before);
    check_inner(c, s->otherwise, &checked.branches[1]);
    c->when = when.outer;
    checked.loops = has_loop(&checked.branches[0]) || has_loop(&checked.branches[1]);
    for (size_t p = 0; p < step->parameter_count; p++) {
        Assigned *assigned = &step->assigned[p];
        assigned->surely &= after[p].surely;
        if (after[p].range.file) assigned->range = after[p].range;
        if (after[p].last > assigned->last) assigned->last = after[p].last;
    }
    if (!is_error(condition)) add_statement(c, checked);
}

/* The axes of every condition around it are among those of what is assigned. */
bool check_conditions(Checker *c, uint32_t number, Range target) {
    const Parameter *parameter = &c->step->parameters[number];
    for (const When *when = c->when; when; when = when->outer) {
        AxisSet extra = when->condition->axes & ~parameter->axes;
        if (extra == 0 || number >= when->known) continue; /* a local of a call is of that branch */
        const char *which = describe_axes(c, extra);
        if (complain(c, ERROR_WHEN_AXES, target, parameter->name, which)) {
            diagnose_note(c->compiler, when->condition->range, "the condition is %s",
                          describe(c, when->condition));
            diagnose_help(c->compiler,
                          "reduce the condition, as in `any%s(...)`, or declare `%s` over those "
                          "axes",
                          which, parameter->name);
        }
        return false;
    }
    return true;
}

void note_condition(Checker *c, const Assigned *assigned) {
    if (assigned->range.file == 0) return;
    if (assigned->in_loop) {
        diagnose_note(c->compiler, assigned->range,
                      "it is assigned here, in a `for` that may have no iteration");
        diagnose_help(c->compiler, "assign it before the `for`");
        return;
    }
    diagnose_note(c->compiler, assigned->range, "it is assigned here, under a condition");
    diagnose_help(c->compiler, "assign it before the `when`, or in both branches");
}
