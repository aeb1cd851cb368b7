/* check_step_call.c: steps called in steps: the callee's statements, checked once more as part of
 * the caller.
 *
 * The axes of the callee become axes of the caller: those of an argument, one by one, are those of
 * its parameter. Its `in` parameters are bound as lets, rounded to their types as an array would
 * be; `inout` and `out` ones are the caller's parameters under the callee's names; an `out` that is
 * not given becomes a local of the caller's step, a parameter that nobody binds. So the rest of the
 * compiler sees one step. */
#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"

#include <string.h>

enum {
    TYPED_MAX = 1 << 17,               /* values of a step, those of the steps it calls included */
    CALLS_NESTED_MAX = NESTING_MAX / 2 /* and blocks around them; the rest is for what they hold */
};

/* What is known of a call while it is taken apart; arrays by the callee's parameters and axes. */
typedef struct Call {
    const Node *node;
    const Item *item;
    const Step *callee;
    const Node **given;  /* NULL: not given */
    Typed **values;      /* of what is read */
    Symbol **written;    /* of what is written */
    const Entry **entry; /* as declared */
    int *axis;           /* the caller's axis; -1: not known */
    Range *axis_at;      /* the argument that says so */
} Call;

static const char *name_of(const Call *call) {
    return call->item->name->text;
}

/* Axes as messages show them: "[b, k]". */
static const char *axes_of(Checker *c, const Step *step, AxisSet axes) {
    Step *here = c->step;
    Step other = *step;
    c->step = &other;
    const char *text = describe_listed(c, without_blocks(c, axes));
    c->step = here;
    return axes ? text : "no axes";
}

/* ---- the arguments ---- */

static size_t find_parameter(const Call *call, const Name *name) {
    size_t p = 0;
    for (const Entry *entry = call->item->parameters; entry; entry = entry->next, p++)
        if (entry->name == name) return p;
    return p;
}

static void unknown_parameter(Checker *c, const Call *call, const Node *argument) {
    Scope scope;
    const char *name = argument->name->text;
    if (!complain(c, ERROR_STEP_NO_PARAMETER, argument->at, name_of(call), name)) return;
    scope_open(&scope, c->arena, NULL);
    for (const Entry *entry = call->item->parameters; entry; entry = entry->next)
        scope_add(&scope, entry->name, entry->range, SYMBOL_PARAMETER);
    const char *meant = scope_suggest(&scope, argument->name, 1u << SYMBOL_PARAMETER);
    diagnose_note(c->compiler, call->item->at, "`%s` is declared here", name_of(call));
    if (meant) diagnose_help(c->compiler, "did you mean `%s`?", meant);
}

/* Which argument is which parameter's. */
static bool match_arguments(Checker *c, Call *call) {
    bool fine = true;
    for (const Node *argument = call->node->first; argument; argument = argument->next) {
        if (argument->kind == NODE_ERROR) {
            fine = false;
            continue;
        }
        if (argument->kind != NODE_NAMED) {
            if (complain(c, ERROR_STEP_POSITION, argument->range, name_of(call)) &&
                call->item->parameters)
                diagnose_help(c->compiler, "write `%s = ...`", call->item->parameters->name->text);
            fine = false;
            continue;
        }
        size_t p = find_parameter(call, argument->name);
        if (p == call->callee->parameter_count) {
            unknown_parameter(c, call, argument);
            fine = false;
        } else if (call->given[p]) {
            if (complain(c, ERROR_STEP_TWICE, argument->at, argument->name->text))
                diagnose_note(c->compiler, call->given[p]->at, "it is given here");
            fine = false;
        } else {
            call->given[p] = argument;
        }
    }
    return fine;
}

static bool report_missing(Checker *c, const Call *call, const Parameter *parameter) {
    if (!complain(c, ERROR_STEP_MISSING, call->node->at, parameter->name, name_of(call)))
        return false;
    diagnose_note(c->compiler, parameter->range, "`%s` is declared here", parameter->name);
    if (parameter->role == LS_INOUT && parameter->has_default)
        diagnose_help(c->compiler,
                      "its default is for a step of its own; here it needs an `inout` of the "
                      "caller: `%s = ...`",
                      parameter->name);
    else
        diagnose_help(c->compiler, "write `%s = ...`", parameter->name);
    return false;
}

/* The parameter of the caller that an `inout` or `out` of the callee stands for; NULL after an
 * error. */
static Symbol *written_argument(Checker *c, const Call *call, const Parameter *parameter,
                                const Node *argument) {
    const Node *node = argument->first;
    bool is_name = node->kind == NODE_NAME && !node->qualifier;
    const char *role = parameter->role == LS_OUT ? "out" : "inout";
    Symbol *symbol = is_name ? find_value(c, NULL, node->name, node->range) : NULL;
    if (node->kind == NODE_ERROR || (symbol && symbol->kind == SYMBOL_BROKEN)) return NULL;
    if (is_name && !symbol) {
        unknown_name(c, node->name, node->range);
        return NULL;
    }
    if (!symbol || symbol->kind != SYMBOL_PARAMETER) {
        if (complain(c, ERROR_STEP_WRITTEN, node->range, parameter->name, name_of(call), role,
                     symbol ? symbol_describe(symbol) : "a value"))
            diagnose_note(c->compiler, parameter->range, "`%s` is declared here", parameter->name);
        return NULL;
    }
    const Parameter *own = &c->step->parameters[symbol->number];
    bool lacking = own->role == LS_IN || (parameter->role == LS_INOUT && own->role == LS_OUT);
    if (lacking) {
        const char *found = own->role == LS_IN ? "a parameter that is read only" : "an `out`";
        if (complain(c, ERROR_STEP_WRITTEN, node->range, parameter->name, name_of(call), role,
                     found)) {
            diagnose_note(c->compiler, own->range, "`%s` is declared here", own->name);
            diagnose_help(c->compiler, "declare it `inout %s`", own->name);
        }
        return NULL;
    }
    if (own->type != parameter->type) {
        complain(c, ERROR_STEP_TYPE, node->range, parameter->name, name_of(call),
                 type_info[parameter->type].name, type_info[own->type].name);
        return NULL;
    }
    return symbol;
}

static bool given_before(Checker *c, const Call *call, size_t p) {
    for (size_t other = 0; other < p; other++) {
        if (!call->written[other] || call->written[other]->number != call->written[p]->number)
            continue;
        if (complain(c, ERROR_STEP_SAME, call->given[p]->first->range,
                     call->written[p]->name->text))
            diagnose_note(c->compiler, call->given[other]->first->range,
                          "it is given here; parameters never alias one another");
        return true;
    }
    return false;
}

static bool read_argument(Checker *c, Call *call, size_t p) {
    const Parameter *parameter = &call->callee->parameters[p];
    const Node *argument = call->given[p];
    if (parameter->role == LS_IN) {
        if (argument)
            call->values[p] = check_expression(c, argument->first);
        else if (parameter->has_default)
            call->values[p] =
                typed_constant(c, (int)parameter->type, parameter->initial, call->node->range);
        else
            return report_missing(c, call, parameter);
        return !is_error(call->values[p]);
    }
    if (!argument) return parameter->role == LS_OUT || report_missing(c, call, parameter);
    call->written[p] = written_argument(c, call, parameter, argument);
    return call->written[p] && !given_before(c, call, p);
}

/* ---- the axes ---- */

static bool axis_problem(Checker *c, const Call *call, Range at, uint32_t from, uint32_t to,
                         const char *reason) {
    if (complain(c, ERROR_STEP_AXIS, at, call->callee->axes[from].name, name_of(call),
                 c->step->axes[to].name, reason))
        diagnose_note(c->compiler, call->callee->axes[from].range, "`%s` is declared here",
                      call->callee->axes[from].name);
    return false;
}

static bool same_terms(const Call *call, const Axis *a, const Axis *b) {
    if (a->term_count != b->term_count) return false;
    for (size_t i = 0; i < a->term_count; i++) {
        const ls_image_term *x = &a->terms[i], *y = &b->terms[i];
        if (x->operation != y->operation) return false;
        int64_t value = x->operation == LS_TERM_AXIS ? call->axis[x->value] : x->value;
        if (value != y->value) return false;
    }
    return true;
}

/* The caller's axis `to` can be what the callee calls `from`. */
static bool axis_agrees(Checker *c, const Call *call, Range at, uint32_t from, uint32_t to) {
    const Axis *a = &call->callee->axes[from], *b = &c->step->axes[to];
    if (a->fixed >= 0 && b->fixed != a->fixed)
        return axis_problem(
            c, call, at, from, to,
            arena_printf(c->arena, "which must have the fixed length %lld", (long long)a->fixed));
    if (a->terms && !(b->terms && same_terms(call, a, b)))
        return axis_problem(c, call, at, from, to, "whose length must be the same expression");
    if ((a->block >= 0 || a->whole >= 0) && a->length != b->length)
        return axis_problem(
            c, call, at, from, to,
            arena_printf(c->arena, "which must be in blocks of %lld", (long long)a->length));
    if (a->parent >= 0 && (b->parent < 0 || call->axis[a->parent] != b->parent))
        return axis_problem(c, call, at, from, to,
                            b->parent < 0 ? "which is not ragged"
                                          : "which depends on another axis");
    if (a->parent < 0 && b->parent >= 0)
        return axis_problem(c, call, at, from, to, "which is ragged");
    return true;
}

static bool bind_axis(Checker *c, Call *call, Range at, uint32_t from, uint32_t to) {
    const Step *callee = call->callee;
    if (call->axis[from] == (int)to) return true;
    if (call->axis[from] >= 0) {
        if (complain(c, ERROR_STEP_AXIS_TWO, at, callee->axes[from].name, name_of(call),
                     c->step->axes[call->axis[from]].name, c->step->axes[to].name))
            diagnose_note(c->compiler, call->axis_at[from], "it is `%s` here",
                          c->step->axes[call->axis[from]].name);
        return false;
    }
    for (size_t a = 0; a < callee->axis_count; a++) {
        if (call->axis[a] != (int)to) continue;
        if (complain(c, ERROR_STEP_AXIS_ONE, at, callee->axes[a].name, callee->axes[from].name,
                     name_of(call), c->step->axes[to].name))
            diagnose_note(c->compiler, call->axis_at[a], "`%s` is `%s` here", callee->axes[a].name,
                          c->step->axes[to].name);
        return false;
    }
    call->axis[from] = (int)to;
    call->axis_at[from] = at;
    return true;
}

static int next_axis(AxisSet *rest) {
    if (*rest == 0) return -1;
    int axis = __builtin_ctz(*rest);
    *rest &= *rest - 1;
    return axis;
}

/* The axes `from` of the callee are the axes `to` of the caller, in order; a plain axis may stand
 * for the whole of one in blocks. With `bind`, binds them; else says whether they are as many. */
static bool pair_axes(Checker *c, Call *call, AxisSet from, AxisSet to, Range at, bool bind) {
    int a, b;
    while ((a = next_axis(&from)) >= 0) {
        if ((b = next_axis(&to)) < 0) return false;
        const Axis *own = &c->step->axes[b];
        int whole = own->whole, rest = whole >= 0 ? c->step->axes[whole].rest : -1;
        bool blocks = call->callee->axes[a].whole >= 0;
        if (!blocks && rest >= 0 && rest != b && (to >> rest & 1)) {
            to &= ~((AxisSet)1 << rest);
            b = whole;
        }
        if (bind && blocks && own->whole >= 0 &&
            !bind_axis(c, call, at, (uint32_t)call->callee->axes[a].whole, (uint32_t)whole))
            return false;
        if (bind && !bind_axis(c, call, at, (uint32_t)a, (uint32_t)b)) return false;
    }
    return to == 0;
}

/* The caller's axes of the callee's axes; those not known yet are left out. */
static AxisSet map_axes(const Checker *c, const Call *call, AxisSet axes) {
    AxisSet mapped = 0;
    for (int a; (a = next_axis(&axes)) >= 0;)
        if (call->axis[a] >= 0) mapped |= (AxisSet)1 << call->axis[a];
    return with_blocks(c, mapped);
}

static bool axes_differ(Checker *c, const Call *call, size_t p, AxisSet axes, Range at) {
    const Parameter *parameter = &call->callee->parameters[p];
    if (complain(c, ERROR_STEP_AXES, at, parameter->name, name_of(call),
                 axes_of(c, call->callee, parameter->axes), axes_of(c, c->step, axes)))
        diagnose_note(c->compiler, parameter->range, "`%s` is declared here", parameter->name);
    return false;
}

static Symbol *axis_named(Checker *c, const char *text) {
    Symbol *symbol = scope_find(c->scope, name_intern(c->names, text, strlen(text)));
    return symbol && symbol->kind == SYMBOL_AXIS ? symbol : NULL;
}

/* An axis that no argument has is the caller's of the same name. */
static bool bind_by_name(Checker *c, Call *call) {
    for (uint32_t a = 0; a < call->callee->axis_count; a++) {
        const Axis *axis = &call->callee->axes[a];
        if (call->axis[a] >= 0 || axis->parent >= 0 || axis->whole >= 0 || axis->block >= 0)
            continue;
        const Symbol *symbol = axis_named(c, axis->name);
        if (!symbol || (c->places >> symbol->number & 1)) continue; /* it has one place here */
        if (!bind_axis(c, call, call->node->range, a, symbol->number)) return false;
    }
    return true;
}

/* What goes by the order of the axes (x[i, j], sums, draws) means in the caller what it means in
 * the callee. */
static bool in_order(Checker *c, const Call *call) {
    const Axis *axes = call->callee->axes;
    for (uint32_t a = 1; a < call->callee->axis_count; a++) {
        if (call->axis[a - 1] < call->axis[a]) continue;
        if (complain(c, ERROR_STEP_AXIS_ORDER, call->axis_at[a], axes[a - 1].name, axes[a].name,
                     name_of(call), c->step->axes[call->axis[a - 1]].name,
                     c->step->axes[call->axis[a]].name)) {
            diagnose_note(c->compiler, call->axis_at[a - 1], "`%s` is `%s` here", axes[a - 1].name,
                          c->step->axes[call->axis[a - 1]].name);
            diagnose_help(c->compiler, "declare the axes of one of the steps in the other order");
        }
        return false;
    }
    return true;
}

/* Every axis is known, and each is as the callee declares it. */
static bool axes_agree(Checker *c, const Call *call) {
    for (uint32_t a = 0; a < call->callee->axis_count; a++) {
        const Axis *axis = &call->callee->axes[a];
        if (call->axis[a] >= 0) continue;
        if (complain(c, ERROR_STEP_AXIS_OPEN, call->node->at, axis->name, name_of(call))) {
            diagnose_note(c->compiler, axis->range, "`%s` is declared here", axis->name);
            diagnose_help(c->compiler,
                          "pass an argument that varies over it, or call an axis of this step `%s`",
                          axis->name);
        }
        return false;
    }
    for (uint32_t a = 0; a < call->callee->axis_count; a++)
        if (!axis_agrees(c, call, call->axis_at[a], a, (uint32_t)call->axis[a])) return false;
    return in_order(c, call);
}

static bool bind_axes(Checker *c, Call *call) {
    const Step *callee = call->callee;
    for (size_t a = 0; a < callee->axis_count; a++) call->axis[a] = -1;
    for (size_t p = 0; p < callee->parameter_count; p++) { /* what is written has all its axes */
        if (!call->written[p]) continue;
        AxisSet own = c->step->parameters[call->written[p]->number].axes & ~c->places;
        Range at = call->given[p]->first->range;
        if (!pair_axes(c, call, callee->parameters[p].axes, own, at, false))
            return axes_differ(c, call, p, own, at);
        if (!pair_axes(c, call, callee->parameters[p].axes, own, at, true)) return false;
    }
    for (size_t p = 0; p < callee->parameter_count; p++) {
        if (!call->values[p]) continue;
        AxisSet from = callee->parameters[p].axes, own = call->values[p]->axes;
        Range at = call->values[p]->range;
        if (pair_axes(c, call, from, own, at, false) && !pair_axes(c, call, from, own, at, true))
            return false;
    }
    if (!bind_by_name(c, call)) return false;
    for (size_t p = 0; p < callee->parameter_count; p++) { /* what has fewer is broadcast */
        AxisSet own = call->values[p] ? call->values[p]->axes : 0;
        if (own & ~map_axes(c, call, callee->parameters[p].axes))
            return axes_differ(c, call, p, own, call->values[p]->range);
    }
    return axes_agree(c, call);
}

/* ---- the body ---- */

/* With the axes of the parameter; a constant is a value from here on where the callee derives by
 * it. */
static Typed *with_all_axes(Checker *c, const Call *call, Typed *value, AxisSet axes) {
    bool derived = call->item->kind == ITEM_BACKWARD && is_constant(value);
    if (value->axes == axes && !derived) return value;
    Typed *wide = typed_new(c, TYPED_OP, value->type, axes, value->range);
    wide->op = OP_BROADCAST;
    wide->storage = value->storage;
    wide->args[0] = value;
    return wide;
}

/* A parameter that nobody binds, for an `out` that is not given. */
static uint32_t add_local(Checker *c, const Parameter *parameter, AxisSet axes) {
    Step *step = c->step;
    size_t number = step->parameter_count + step->local_count;
    size_t capacity = step->parameter_capacity;
    step->parameters =
        arena_grow(c->arena, step->parameters, number, &capacity, sizeof *step->parameters);
    capacity = step->parameter_capacity;
    step->assigned =
        arena_grow(c->arena, step->assigned, number, &capacity, sizeof *step->assigned);
    step->parameter_capacity = capacity;
    step->parameters[number] = *parameter;
    step->parameters[number].axes = step->parameters[number].declared = axes;
    step->assigned[number] = (Assigned){0};
    step->local_count++;
    return (uint32_t)number;
}

static void bind_axis_name(Checker *c, const Call *call, Scope *scope, uint32_t axis) {
    const Axis *own = &call->callee->axes[axis];
    const Name *name = name_intern(c->names, own->name, strlen(own->name));
    scope_add(scope, name, own->range, SYMBOL_AXIS)->number = (uint32_t)call->axis[axis];
}

/* The callee's names in its own scope. False: a value does not fit its parameter. */
static bool bind_names(Checker *c, Call *call, Scope *scope) {
    const Step *callee = call->callee;
    Scope *outer = c->scope;
    bool fine = true;
    for (uint32_t a = 0; a < callee->axis_count; a++) bind_axis_name(c, call, scope, a);
    for (size_t p = 0; p < callee->parameter_count; p++) {
        const Parameter *parameter = &callee->parameters[p];
        AxisSet axes = map_axes(c, call, parameter->axes);
        if (parameter->role == LS_IN) {
            const char *target = arena_printf(c->arena, "`%s: %s` of `%s`", parameter->name,
                                              type_info[parameter->type].name, name_of(call));
            Typed *value = convert_store(c, call->values[p], parameter->type, target);
            fine &= !is_error(value);
            if (!is_error(value)) value = with_all_axes(c, call, value, axes);
            c->scope = scope;
            bind_let(c, call->entry[p], value, call->node->range);
            c->scope = outer;
            continue;
        }
        Symbol *symbol =
            scope_add(scope, call->entry[p]->name, call->entry[p]->range, SYMBOL_PARAMETER);
        symbol->number =
            call->written[p] ? call->written[p]->number : add_local(c, parameter, axes);
        call->written[p] = symbol;
    }
    return fine;
}

/* Scope: with all names of the callee. */
static void check_inside(Checker *c, Call *call, Scope *scope) {
    AxisSet all = (AxisSet)(((uint64_t)1 << call->callee->axis_count) - 1);
    StepCall here = {.item = call->item,
                     .range = call->node->range,
                     .axes = map_axes(c, call, all),
                     .outer = c->call};
    Scope *outer_scope = c->scope, outer_closed = c->closed;
    Unit *outer_unit = c->unit;
    scope_open(&c->closed, c->arena, NULL);
    uint32_t *outer_draws = c->draws, draws = 0;
    c->scope = scope;
    c->draws = &draws;
    c->unit = call->item->unit;
    c->call = &here;
    check_body(c, call->item);
    c->call = here.outer;
    c->draws = outer_draws;
    c->unit = outer_unit;
    c->scope = outer_scope;
    c->closed = outer_closed;
}

/* ---- the call ---- */

/* The values of the `out`s that are not given. */
static bool take_results(Checker *c, const Call *call, size_t count, Typed **results,
                         const bool *given) {
    const Step *callee = call->callee;
    size_t left = 0;
    for (size_t p = 0; p < callee->parameter_count; p++)
        left += callee->parameters[p].role == LS_OUT && !given[p];
    if (left != count) {
        if (complain(c, ERROR_STEP_RESULTS, call->node->range, name_of(call), left,
                     left == 1 ? "" : "s", count, count == 1 ? "is" : "are")) {
            diagnose_note(c->compiler, call->item->at, "`%s` is declared here", name_of(call));
            diagnose_help(c->compiler,
                          "give an `out` a parameter, `y = ...`, or bind its value: "
                          "`let y = %s(...)`",
                          name_of(call));
        }
        return false;
    }
    for (size_t p = 0, i = 0; p < callee->parameter_count; p++)
        if (callee->parameters[p].role == LS_OUT && !given[p])
            results[i++] = read_symbol(c, call->written[p], call->node->range);
    return true;
}

/* Only so that mistakes in them are told. */
static bool check_leftovers(Checker *c, const Node *node) {
    for (const Node *n = node->first; n; n = n->next) {
        const Node *value = n->kind == NODE_NAMED ? n->first : n;
        if (value->kind != NODE_NAME) check_expression(c, value);
    }
    return false;
}

static bool expand(Checker *c, Call *call, size_t count, Typed **results) {
    const Step *callee = call->callee;
    bool *given = arena_alloc(c->arena, callee->parameter_count * sizeof *given);
    Scope scope;
    bool fine = true;
    for (size_t p = 0; p < callee->parameter_count; p++) {
        fine &= read_argument(c, call, p);
        given[p] = call->written[p] != NULL;
    }
    if (!fine || !bind_axes(c, call)) return false;
    scope_open(&scope, c->arena, &call->item->unit->constants);
    if (!bind_names(c, call, &scope)) return false;
    check_inside(c, call, &scope);
    return take_results(c, call, count, results, given);
}

static Call open_call(Checker *c, const Node *node, const Item *item) {
    Call call = {.node = node, .item = item, .callee = item->checked};
    size_t parameters = item->parameter_count, axes = call.callee->axis_count, p = 0;
    call.given = arena_alloc(c->arena, parameters * sizeof *call.given);
    call.values = arena_alloc(c->arena, parameters * sizeof *call.values);
    call.written = arena_alloc(c->arena, parameters * sizeof *call.written);
    call.entry = arena_alloc(c->arena, parameters * sizeof *call.entry);
    call.axis = arena_alloc(c->arena, axes * sizeof *call.axis);
    call.axis_at = arena_alloc(c->arena, axes * sizeof *call.axis_at);
    for (const Entry *entry = item->parameters; entry; entry = entry->next) call.entry[p++] = entry;
    return call;
}

void check_derived(Checker *c, const Node *node, const Item *item, Scope *scope) {
    Call call = open_call(c, node, item);
    const Step *callee = call.callee;
    for (uint32_t a = 0; a < callee->axis_count; a++) {
        call.axis[a] = (int)axis_named(c, callee->axes[a].name)->number;
        bind_axis_name(c, &call, scope, a);
    }
    for (size_t p = 0; p < callee->parameter_count; p++) {
        const Parameter *parameter = &callee->parameters[p];
        const Name *name = call.entry[p]->name;
        Symbol *own = parameter->role == LS_IN ? scope_find_here(c->scope, name) : NULL;
        Symbol *symbol = scope_add(scope, name, call.entry[p]->range,
                                   own ? (SymbolKind)own->kind : SYMBOL_PARAMETER);
        if (own) {
            symbol->number = own->number;
            symbol->let = own->let;
        } else {
            symbol->number = add_local(c, parameter, map_axes(c, &call, parameter->axes));
        }
    }
    check_inside(c, &call, scope);
}

bool check_step_call(Checker *c, const Node *node, Symbol *symbol, size_t count, Typed **results) {
    Item *item = symbol->item;
    for (size_t i = 0; i < count; i++) results[i] = &c->error;
    if (item->state == ITEM_ACTIVE) {
        complain(c, ERROR_RECURSION, node->at, item->name->text);
        return check_leftovers(c, node);
    }
    if (c->level >= CALLS_NESTED_MAX) {
        complain(c, ERROR_CALL_DEPTH, node->at, item->name->text);
        return false;
    }
    if (node->has_brackets) {
        complain(c, ERROR_NO_AXES_HERE, node->at, item->name->text);
        return check_leftovers(c, node);
    }
    c->level++;
    check_step(c, item);
    bool good = !item->faulty && item->checked->parameter_count == item->parameter_count;
    if (good && c->body->typed_count > TYPED_MAX) {
        complain(c, ERROR_TOO_LARGE, c->step->range, c->step->name, TYPED_MAX);
        good = false;
    } else if (good) {
        Call call = open_call(c, node, item);
        c->body->typed_count += 1 + (uint32_t)item->parameter_count; /* a call is work, too */
        good =
            match_arguments(c, &call) ? expand(c, &call, count, results) : check_leftovers(c, node);
    } else {
        c->step->faulty = true; /* and silent, where it is called itself */
        check_leftovers(c, node);
    }
    c->level--;
    return good;
}
