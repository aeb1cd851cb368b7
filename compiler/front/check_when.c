/* check_when.c: `when condition { ... } else { ... }`.
 *
 * The condition is a value like any other, known before the branches; each branch has a scope and
 * statements of its own. What a branch assigns counts as assigned in that branch, and after the
 * `when` as far as both do. */
#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"

#include <string.h>

static Assigned *copy_assigned(Checker *c) {
    size_t size = c->step->parameter_count * sizeof(Assigned);
    Assigned *copy = arena_alloc(c->arena, size);
    if (size) memcpy(copy, c->step->assigned, size);
    return copy;
}

/* A branch: its statements go to *block. */
static void check_branch(Checker *c, const Statement *statements, Block *block) {
    Scope scope, *outer_scope = c->scope;
    Block *outer_block = c->block;
    scope_open(&scope, c->arena, c->scope);
    scope.is_block = true;
    c->scope = &scope;
    c->block = block;
    c->level++; /* blocks nest through the steps they call, too */
    check_statements(c, statements);
    c->level--;
    for (const Symbol *symbol = scope.first; symbol; symbol = symbol->next)
        if (symbol->kind == SYMBOL_LET && !scope_find_here(&c->closed, symbol->name))
            scope_add(&c->closed, symbol->name, symbol->range, SYMBOL_LET);
    c->block = outer_block;
    c->scope = outer_scope;
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
    check_branch(c, s->body, &checked.branches[0]);
    Assigned *after = copy_assigned(c);
    if (step->parameter_count)
        memcpy(step->assigned, before, step->parameter_count * sizeof *before);
    check_branch(c, s->otherwise, &checked.branches[1]);
    c->when = when.outer;
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
    diagnose_note(c->compiler, assigned->range, "it is assigned here, under a condition");
    diagnose_help(c->compiler, "assign it before the `when`, or in both branches");
}
