/* check_for.c: `for t { ... }` and `for t reverse { ... }`.
 *
 * In the body t is a place: values have no axis t, what varies over it is read and stored at the
 * current coordinate, and brackets read other places. What the body assigns counts as assigned
 * behind it only where each coordinate has its own slice, as t may be empty. An `out` that the loop
 * assigns has no value yet at places to come: which of its slices the body reads is judged when it
 * is known what the loop assigns. */
#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"

#include <string.h>

/* Brackets behind an `out`, in a loop or several. */
typedef struct Reading {
    uint32_t parameter;
    Range range;
    bool surely; /* what stands above assigns it */
    size_t depth;
    struct {
        uint32_t axis;
        bool assigns;     /* the loop assigns it */
        bool own, past;   /* the coordinate is the loop's own, or one that came before it */
    } loops[LS_AXES_MAX]; /* the outermost first; of axes that it has */
    struct Reading *next;
} Reading;

/* ---- the place ---- */

bool place_offset(const Typed *a, uint32_t axis, int64_t *offset) {
    bool minus = a->kind == TYPED_OP && a->op == OP_SUB;
    *offset = 0;
    if (a->kind != TYPED_OP) return false;
    if (a->op == OP_INDEX) return a->payload == axis && a->axes == 0;
    if (!minus && a->op != OP_ADD) return false;
    const Typed *place = a->args[0], *constant = a->args[1];
    if (!minus && is_constant(place)) {
        place = a->args[1];
        constant = a->args[0];
    }
    if (!is_constant(constant) || constant->type != TYPE_I64 || place->kind != TYPED_OP ||
        place->op != OP_INDEX || place->payload != axis || place->axes != 0)
        return false;
    *offset = minus ? (int64_t)(0 - constant->payload) : (int64_t)constant->payload;
    return true;
}

bool refuse_place(Checker *c, const Symbol *axis, Range range, const char *what) {
    if (!(c->places >> axis->number & 1)) return false;
    if (complain(c, ERROR_FOR_PLACE, range, what, axis->name->text, axis->name->text))
        diagnose_help(c->compiler, "brackets read other places, as in `x[%s - 1]`",
                      axis->name->text);
    return true;
}

Typed *read_unplaced(Checker *c, Symbol *symbol, Range range) {
    AxisSet places = c->places;
    bool deferred = symbol->kind == SYMBOL_PARAMETER &&
                    (c->step->parameters[symbol->number].axes & places) != 0;
    if (symbol->kind != SYMBOL_LET && !deferred) return read_symbol(c, symbol, range);
    Assigned assigned = {.surely = false}, *now = NULL;
    if (deferred) { /* gather_in_loop judges whether it has a value */
        now = &c->step->assigned[symbol->number];
        assigned = *now;
        now->surely = true;
    }
    c->places = 0;
    Typed *value = read_symbol(c, symbol, range);
    c->places = places;
    if (now) now->surely = assigned.surely;
    return value;
}

static void note_reading(Checker *c, uint32_t parameter, AxisSet axes, Typed **at, Range range) {
    Reading *reading = arena_alloc(c->arena, sizeof *reading);
    *reading = (Reading){.parameter = parameter,
                         .range = range,
                         .surely = c->step->assigned[parameter].surely,
                         .next = c->readings};
    c->readings = reading;
    for (const For *loop = c->loop; loop; loop = loop->outer)
        reading->depth += axes >> loop->axis & 1;
    size_t depth = reading->depth;
    for (const For *loop = c->loop; loop; loop = loop->outer) {
        int64_t offset = 0;
        if (!(axes >> loop->axis & 1)) continue;
        bool known = !at[loop->axis] || place_offset(at[loop->axis], loop->axis, &offset);
        reading->loops[--depth].axis = loop->axis;
        reading->loops[depth].own = known && offset == 0;
        reading->loops[depth].past = known && (loop->reverse ? offset > 0 : offset < 0);
    }
}

Typed *gather_in_loop(Checker *c, Symbol *symbol, Typed *source, AxisSet axes, Typed **at,
                      Range range) {
    bool own = true;
    for (uint32_t a = 0; a < c->step->axis_count; a++)
        if (axes & c->places & (AxisSet)1 << a) own &= at[a] == NULL;
    bool is_out = symbol->kind == SYMBOL_PARAMETER && symbol->number < c->step->parameter_count &&
                  c->step->parameters[symbol->number].role == LS_OUT;
    if (is_out) note_reading(c, symbol->number, axes, at, range);
    if (own) {
        Typed *slice =
            typed_new(c, (TypedKind)source->kind, source->type, source->axes & ~c->places, range);
        slice->storage = source->storage;
        slice->running = source->running;
        slice->payload = source->payload;
        slice->let = source->let;
        return gather_at(c, slice, axes & ~c->places, at, range);
    }
    for (uint32_t a = 0; a < c->step->axis_count; a++)
        if ((axes & c->places & (AxisSet)1 << a) && !at[a]) at[a] = index_of_axis(c, a, range);
    return gather_at(c, source, axes, at, range);
}

/* ---- what an `out` has ---- */

/* The first place that differs, of loops that assign it, came before. */
static void judge_reading(Checker *c, const Reading *reading) {
    const Parameter *parameter = &c->step->parameters[reading->parameter];
    for (size_t i = 0; i < reading->depth; i++) {
        if (!reading->loops[i].assigns || reading->loops[i].own) continue;
        if (reading->loops[i].past) return;
        const char *axis = c->step->axes[reading->loops[i].axis].name;
        if (complain(c, ERROR_FOR_OUT, reading->range, parameter->name)) {
            diagnose_note(c->compiler, parameter->range, "`%s` is declared here", parameter->name);
            diagnose_help(c->compiler,
                          "it has its slice at `%s` below the assignment, and those before, as in "
                          "`%s - 1` (`%s + 1` in reverse), by a constant",
                          axis, axis, axis);
        }
        return;
    }
    if (reading->surely || !complain(c, ERROR_OUT_READ, reading->range, parameter->name)) return;
    diagnose_note(c->compiler, parameter->range, "`%s` is declared here", parameter->name);
}

/* A loop is left: what it assigns is known. */
static void close_readings(Checker *c, const For *loop, const Reading *before) {
    for (Reading *r = c->readings; r != before; r = r->next) {
        const Assigned *assigned = &c->step->assigned[r->parameter];
        for (size_t i = 0; i < r->depth; i++)
            if (r->loops[i].axis == loop->axis) r->loops[i].assigns = assigned->range.file != 0;
    }
    if (loop->outer) return;
    for (const Reading *r = c->readings; r != before; r = r->next) judge_reading(c, r);
    c->readings = (Reading *)(uintptr_t)before;
}

/* ---- the statement ---- */

/* Why no loop goes over the axis, or NULL. */
static const char *axis_problem(const Checker *c, uint32_t number) {
    const Axis *axis = &c->step->axes[number];
    if (axis->whole >= 0) return "it is a part of blocks";
    if (axis->block >= 0) return "it is in blocks";
    if (axis->parent >= 0) return "it is ragged";
    for (size_t a = 0; a < c->step->axis_count; a++)
        if (c->step->axes[a].parent == (int)number) return "a ragged axis depends on it";
    return NULL;
}

/* NULL after an error. */
static const Symbol *loop_axis(Checker *c, const Statement *s) {
    const Entry *entry = s->targets;
    Symbol *symbol = scope_find(c->scope, entry->name);
    const char *name = entry->name->text;
    if (symbol && symbol->kind == SYMBOL_BROKEN) return NULL;
    if (!symbol || symbol->kind != SYMBOL_AXIS) {
        if (!complain(c, ERROR_UNKNOWN_AXIS, entry->range, name)) return NULL;
        const char *meant = scope_suggest(c->scope, entry->name, 1u << SYMBOL_AXIS);
        if (symbol)
            diagnose_note(c->compiler, symbol->range, "`%s` is %s", name, symbol_describe(symbol));
        if (meant)
            diagnose_help(c->compiler, "did you mean `%s`?", meant);
        else if (!symbol)
            diagnose_help(c->compiler, "declare it in the brackets after the step's name; its "
                                       "length is given when the step is bound");
        return NULL;
    }
    const char *problem = axis_problem(c, symbol->number);
    if (problem) {
        if (complain(c, ERROR_FOR_AXIS, entry->range, name, problem))
            diagnose_note(c->compiler, c->step->axes[symbol->number].range, "`%s` is declared here",
                          name);
        return NULL;
    }
    if (c->places >> symbol->number & 1) {
        complain(c, ERROR_FOR_TWICE, entry->range, name);
        return NULL;
    }
    for (const When *when = c->when; when; when = when->outer) {
        if (when->condition->axes == 0) continue;
        if (complain(c, ERROR_FOR_WHEN, s->at, describe_axes(c, when->condition->axes))) {
            diagnose_note(c->compiler, when->condition->range, "the condition is %s",
                          describe(c, when->condition));
            diagnose_help(c->compiler, "put the `when` into the `for`");
        }
        return NULL;
    }
    return symbol;
}

bool check_for(Checker *c, const Statement *s) {
    Step *step = c->step;
    const Symbol *axis = loop_axis(c, s);
    if (!axis) return false;
    const AxisSet bit = (AxisSet)1 << axis->number;
    Checked checked = {.axis = axis->number, .reverse = s->reverse, .range = s->range};
    checked.body = arena_alloc(c->arena, sizeof *checked.body);
    const For loop = {
        .axis = axis->number, .reverse = s->reverse, .when = c->when, .outer = c->loop};
    const Reading *before = c->readings;
    step->looped |= bit;
    if (step->loop.file == 0) step->loop = s->at;
    Assigned *outside = copy_assigned(c);
    for (size_t p = 0; p < step->parameter_count; p++) step->assigned[p].range = (Range){0};
    c->loop = &loop;
    c->places |= bit;
    check_inner(c, s->body, checked.body);
    c->places &= ~bit;
    c->loop = loop.outer;
    close_readings(c, &loop, before);
    for (size_t p = 0; p < step->parameter_count; p++) {
        Assigned *assigned = &step->assigned[p];
        const bool sliced = step->parameters[p].axes & bit;
        assigned->surely = outside[p].surely || (sliced && assigned->surely);
        assigned->in_loop = assigned->range.file && !assigned->surely && !sliced;
        if (outside[p].range.file) assigned->range = outside[p].range;
    }
    add_statement(c, checked);
    return true;
}
