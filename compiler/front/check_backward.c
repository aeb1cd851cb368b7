/* check_backward.c: `step name = backward other` and `backward other(x, eps)`: a whole step
 * derived.
 *
 * Its head is made as if it had been written: the axes and inputs of the other step, a gradient
 * `d<out>` for every float `out`, and the outputs `d<in>`. Its body is that of the other step,
 * whose `out`s become locals, and then grad of each `out` by each input, with the upstream gradient
 * given; those of one input are added in the order of the `out`s. */
#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"

/* ---- which step ---- */

static Item *unknown_step(Checker *c, const Node *node) {
    if (node->qualifier) {
        unknown_member(c, node->qualifier, node->name, node->range);
    } else if (!c->unit->incomplete &&
               complain(c, ERROR_UNKNOWN_STEP, node->range, node->name->text)) {
        const char *meant = scope_suggest(&c->unit->functions, node->name, 1u << SYMBOL_STEP);
        if (meant) diagnose_help(c->compiler, "did you mean `%s`?", meant);
    }
    return NULL;
}

/* The step that is derived, checked; NULL after an error. */
static Item *find_forward(Checker *c, const Item *item) {
    const Node *node = item->step;
    if (!node || node->kind != NODE_NAME) return NULL;
    Symbol *symbol = find_function(c, node->qualifier, node->name, node->range);
    if (!symbol) return unknown_step(c, node);
    if (symbol->kind != SYMBOL_STEP) {
        if (symbol->kind != SYMBOL_BROKEN)
            complain(c, ERROR_BACKWARD_STEP, node->range, node->name->text,
                     symbol_describe(symbol));
        return NULL;
    }
    Item *forward = symbol->item;
    if (forward->state == ITEM_ACTIVE || c->level >= NESTING_MAX / 2) {
        complain(c, forward->state == ITEM_ACTIVE ? ERROR_BACKWARD_ITSELF : ERROR_CALL_DEPTH,
                 node->range, node->name->text);
        return NULL;
    }
    c->level++;
    check_step(c, forward);
    c->level--;
    return forward->faulty ? NULL : forward;
}

/* ---- the head ---- */

static bool is_float(const Entry *entry) {
    return entry->type && type_info[entry->type->type].class == 'F';
}

static const Name *derived_name(Checker *c, const Name *name) {
    const char *text = arena_printf(c->arena, "d%s", name->text);
    return name_intern(c->names, text, name->size + 1);
}

/* A parameter like another one, with this name and role; it is the last of the list. */
static Entry *add_parameter(Checker *c, Item *item, const Entry *like, const Name *name,
                            ls_role role) {
    Entry *copy = arena_alloc(c->arena, sizeof *copy), **end = &item->parameters;
    *copy = *like;
    copy->name = name;
    copy->role = role;
    copy->next = NULL;
    while (*end) end = &(*end)->next;
    *end = copy;
    item->parameter_count++;
    return copy;
}

/* The gradient of a parameter: `d` and its name. False where that name is another's. */
static bool add_gradient(Checker *c, Item *item, const Entry *of, ls_role role) {
    const Name *name = derived_name(c, of->name);
    const Entry *other = NULL;
    for (const Entry *entry = item->parameters; entry; entry = entry->next)
        if (entry->name == name) other = entry;
    for (const Entry *entry = item->axes; entry; entry = entry->next)
        if (entry->name == name) other = entry;
    if (other) {
        if (complain(c, ERROR_BACKWARD_CLASH, item->range, of->name->text, name->text,
                     item->forward->name->text)) {
            diagnose_note(c->compiler, of->range, "`%s` is declared here", of->name->text);
            diagnose_note(c->compiler, other->range, "`%s` is declared here", other->name->text);
            diagnose_help(c->compiler, "rename one of them");
        }
        return false;
    }
    Entry *gradient = add_parameter(c, item, of, name, role);
    gradient->initial = NULL;
    gradient->range = item->at;
    return true;
}

static const Entry *named(const Entry *list, const Name *name) {
    while (list && list->name != name) list = list->next;
    return list;
}

/* Whether one of the named inputs is a float input, and named once. */
static bool check_target(Checker *c, const Item *item, const Entry *target) {
    const Item *forward = item->forward;
    const Entry *entry = named(forward->parameters, target->name);
    if (!entry) {
        if (complain(c, ERROR_STEP_NO_PARAMETER, target->range, forward->name->text,
                     target->name->text))
            diagnose_note(c->compiler, forward->at, "`%s` is declared here", forward->name->text);
        return false;
    }
    if (!entry->type) return false; /* that is reported */
    if (entry->role != LS_IN || !is_float(entry)) {
        const char *what = entry->role != LS_IN ? "an `out`" : entry->type->text;
        if (complain(c, ERROR_BACKWARD_TARGET, target->range, target->name->text, what))
            diagnose_note(c->compiler, entry->range, "`%s` is declared here", target->name->text);
        return false;
    }
    const Entry *first = named(item->targets, target->name);
    if (first == target) return true;
    if (complain(c, ERROR_STEP_TWICE, target->range, target->name->text))
        diagnose_note(c->compiler, first->range, "it is given here");
    return false;
}

static bool is_target(const Item *item, const Entry *entry) {
    if (entry->role != LS_IN || !is_float(entry)) return false;
    return item->has_targets ? named(item->targets, entry->name) != NULL : entry->has_axes;
}

/* A step that writes what it read has no inputs to go back to. */
static bool refuse_inout(Checker *c, const Item *item) {
    for (const Entry *entry = item->forward->parameters; entry; entry = entry->next) {
        if (entry->role != LS_INOUT) continue;
        if (complain(c, ERROR_BACKWARD_INOUT, item->step->range, item->forward->name->text,
                     entry->name->text)) {
            diagnose_note(c->compiler, entry->range, "`%s` is declared here", entry->name->text);
            diagnose_help(c->compiler, "declare an input and an `out` instead");
        }
        return true;
    }
    return false;
}

static bool refuse_loop(Checker *c, const Item *item) {
    const Step *forward = item->forward->checked;
    if (forward->loop.file == 0) return false;
    if (complain(c, ERROR_BACKWARD_FOR, item->step->range, item->forward->name->text))
        diagnose_note(c->compiler, forward->loop, "it stands here");
    return true;
}

/* What is wrong is reported; what calls it is silent. */
static bool no_head(Item *item) {
    item->damaged = true;
    item->axes = item->parameters = NULL;
    item->axis_count = item->parameter_count = 0;
    return false;
}

bool prepare_backward(Checker *c, Item *item) {
    Item *forward = item->forward = find_forward(c, item);
    if (!forward || item->damaged || refuse_inout(c, item) || refuse_loop(c, item))
        return no_head(item);
    const char *name = forward->name->text;
    size_t outs = 0, targets = 0;
    bool fine = true;
    for (const Entry *t = item->targets; t; t = t->next) fine &= check_target(c, item, t);
    item->axes = forward->axes;
    item->axis_count = forward->axis_count;
    item->math = forward->math;
    for (const Entry *entry = forward->parameters; entry; entry = entry->next)
        if (entry->role == LS_IN) add_parameter(c, item, entry, entry->name, LS_IN);
    for (const Entry *entry = forward->parameters; fine && entry; entry = entry->next) {
        if (entry->role != LS_OUT || !is_float(entry)) continue;
        fine = add_gradient(c, item, entry, LS_IN);
        outs++;
    }
    for (const Entry *entry = forward->parameters; fine && entry; entry = entry->next) {
        if (!is_target(item, entry)) continue;
        fine = add_gradient(c, item, entry, LS_OUT);
        targets++;
    }
    if (fine && outs == 0) {
        complain(c, ERROR_BACKWARD_NO_OUT, item->step->range, name);
    } else if (fine && targets == 0) {
        if (complain(c, ERROR_BACKWARD_NO_IN, item->range, name))
            diagnose_help(c->compiler, "name the inputs to derive by: `backward %s(x)`", name);
    }
    if (!fine || outs == 0 || targets == 0) return no_head(item);
    c->unit = item->unit = forward->unit; /* where the lengths of its axes are known */
    c->step->math = item->math;
    c->scope->parent = &c->unit->constants;
    return true;
}

/* ---- the body ---- */

/* The sum over the `out`s of the gradients by one input. */
static Typed *total(Checker *c, const Item *item, const Scope *inside, const Entry *input) {
    Symbol *symbol = scope_find_here(inside, input->name);
    Typed *target = read_symbol(c, symbol, item->at), *sum = NULL;
    if (symbol->kind == SYMBOL_LET) symbol->let->is_target = true;
    for (const Entry *out = item->forward->parameters; out; out = out->next) {
        if (out->role != LS_OUT || !is_float(out)) continue;
        Typed *value = read_symbol(c, scope_find_here(inside, out->name), item->at);
        Symbol *upstream = scope_find_here(c->scope, derived_name(c, out->name));
        Typed *from = read_symbol(c, upstream, item->at);
        if (is_error(value) || is_error(from) || is_error(target)) return &c->error;
        Typed *one = gradient(c, value, target, from, item->at);
        sum = sum ? typed_op(c, OP_ADD, target->type, sum, one, NULL, 0, item->at) : one;
    }
    return sum;
}

void check_backward_body(Checker *c, const Item *item) {
    Scope inside;
    scope_open(&inside, c->arena, &item->forward->unit->constants);
    check_derived(c, item->step, item->forward, &inside);
    for (const Entry *entry = item->forward->parameters; entry; entry = entry->next) {
        if (!is_target(item, entry)) continue;
        Symbol *result = scope_find_here(c->scope, derived_name(c, entry->name));
        Typed *sum = total(c, item, &inside, entry);
        Type type = c->step->parameters[result->number].type;
        if (!is_error(sum)) sum = convert_store(c, sum, type, result->name->text);
        if (!is_error(sum)) assign(c, result, sum, item->at);
    }
}
