/* check_scan.c: running values: scan[k](init, acc, expr) and cumsum[k](e).
 *
 * What `acc` is follows from init and from expr, which uses it. So expr is checked as often as it
 * takes until the type and the axes that come out are those that went in: both only grow. */
#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"

#include <string.h>

enum {
    ROUNDS_MAX = 8,
    SCANS_MAX = 3 /* nested: the work multiplies */
};

typedef struct Scan {
    const char *name; /* of the function, for messages */
    const Symbol *axis;
    AxisSet over; /* the axis; q and k for the whole of blocks */
    bool reverse;
} Scan;

/* ---- the running value ---- */

static Typed *running_value(Checker *c, int type, AxisSet axes, Range range) {
    Typed *value = typed_new(c, TYPED_OP, type, axes, range);
    value->op = OP_RUNNING;
    value->running = true;
    return value;
}

Typed *read_running(Checker *c, const Symbol *symbol, Range range) {
    const Typed *now = symbol->value;
    if (now != c->running) {
        if (complain(c, ERROR_SCAN_OUTER, range, symbol->name->text)) {
            diagnose_note(c->compiler, symbol->range, "`%s` belongs to this scan",
                          symbol->name->text);
            diagnose_help(c->compiler, "a scan inside another one sees only its own running value");
        }
        return &c->error;
    }
    Typed *value = running_value(c, now->type, now->axes, range);
    value->args[0] = symbol->value;
    return value;
}

bool refuse_running(Checker *c, const Typed *a, const char *what) {
    if (!a->running) return false;
    if (complain(c, ERROR_SCAN_RUNNING, a->range, what))
        diagnose_help(c->compiler,
                      "the running value of a scan is there one element at a time; only "
                      "element-wise operations take it");
    return true;
}

/* ---- [k] and [k, reverse] ---- */

static bool is_reverse(const Node *node) {
    return node->kind == NODE_NAME && !node->qualifier && strcmp(node->name->text, "reverse") == 0;
}

/* What stands in the brackets; false after an error. */
static bool read_brackets(Checker *c, const Node *node, Scan *scan, bool may_reverse) {
    const Node *axis = node->brackets, *then = axis ? axis->next : NULL;
    if (!axis) {
        if (complain(c, ERROR_NEEDS_AXIS_NAME, node->at, scan->name))
            diagnose_help(c->compiler, "as in `%s[k](...)`", scan->name);
        return false;
    }
    scan->axis = find_axis(c, axis, scan->name);
    if (!scan->axis || refuse_place(c, scan->axis, axis->range, scan->name)) return false;
    scan->over = with_blocks(c, (AxisSet)1 << scan->axis->number);
    if (!then) return true;
    scan->reverse = is_reverse(then);
    if (scan->reverse && may_reverse && !then->next) return true;
    if (complain(c, ERROR_SCAN_BRACKETS,
                 scan->reverse && may_reverse ? then->next->range : then->range, scan->name,
                 may_reverse ? " and perhaps `reverse`" : "") &&
        scan->reverse && !may_reverse)
        diagnose_help(c->compiler, "write `scan[%s, reverse](0, acc, acc + ...)`",
                      scan->axis->name->text);
    return false;
}

/* ---- the result ---- */

/* What depends on the axis has another length at each place along it. */
static bool has_dependents(Checker *c, const Scan *scan, AxisSet axes, Range range) {
    AxisSet listed = without_blocks(c, axes & ~scan->over);
    for (uint32_t a = 0; a < c->step->axis_count; a++) {
        int parent = c->step->axes[a].parent;
        if (!(listed >> a & 1) || parent != (int)scan->axis->number) continue;
        const char *name = c->step->axes[a].name;
        if (complain(c, ERROR_SCAN_PARENT, range, scan->name, scan->axis->name->text, name))
            diagnose_help(c->compiler, "reduce over `%s` first, as in `sum[%s](...)`", name, name);
        return true;
    }
    return false;
}

static Typed *scan_of(Checker *c, const Scan *scan, Typed *init, Typed *body, Typed *running,
                      Range range) {
    if (has_dependents(c, scan, running->axes, range)) return &c->error;
    Typed *value = typed_new(c, TYPED_OP, running->type, running->axes, range);
    value->op = OP_SCAN;
    value->payload = scan->axis->number | (scan->reverse ? SCAN_REVERSE : 0);
    value->args[0] = init;
    value->args[1] = body;
    value->args[2] = running;
    return value;
}

/* Checks the expression with a running value like `now`; false after an error. */
static bool check_round(Checker *c, const Node *expression, Symbol *acc, Typed *now, Typed **body) {
    Typed *outer = c->running;
    acc->value = c->running = now;
    c->scanning++;
    *body = check_expression(c, expression);
    c->scanning--;
    c->running = outer;
    return !is_error(*body);
}

static Typed *find_scan(Checker *c, const Node *node, const Scan *scan, Symbol *acc, Typed *init) {
    const Node *expression = node->first->next->next;
    /* a rank-0 f64 follows the arrays that it meets */
    int start = init->type == TYPE_F64 && init->axes == 0 ? TYPE_FLOAT : init->type;
    Typed *now = running_value(c, start, init->axes, acc->range), *body;
    struct Drawn *drawn = c->drawn;
    const uint32_t draws = *c->draws;
    for (int round = 0; round < ROUNDS_MAX; round++) {
        *c->draws = draws; /* each round is of the same */
        c->drawn = drawn;
        if (!check_round(c, expression, acc, now, &body)) return &c->error;
        Typed *ends[2] = {init, body};
        int type = unify(c, ends, 2, ACCEPT_ANY, node->at, "`scan`");
        AxisSet axes = with_parents(c, init->axes | body->axes | scan->over);
        if (type == TYPE_NONE) return &c->error;
        if (type == TYPE_INTEGER) type = TYPE_I64;
        if (type == TYPE_FLOAT) type = TYPE_F64;
        for (int i = 0; i < 2; i++) ends[i] = typed_cast(c, ends[i], type); /* of constants only */
        if (type == now->type && axes == now->axes)
            return scan_of(c, scan, ends[0], ends[1], now, node->range);
        now = running_value(c, type, axes, acc->range);
    }
    bug(c->compiler, "a scan over %s does not come to one type", scan->axis->name->text);
}

/* ---- scan ---- */

/* A new name, as `let` would bind. */
static bool name_is_new(Checker *c, const Node *name) {
    if (name->kind != NODE_NAME || name->qualifier) {
        if (name->kind != NODE_ERROR && complain(c, ERROR_SCAN_NAME, name->range))
            diagnose_help(c->compiler, "as in `scan[k](0, acc, acc + x)`");
        return false;
    }
    const Symbol *other = scope_find(c->scope, name->name);
    if (!other || other->kind == SYMBOL_BROKEN || other->kind == SYMBOL_CONST) return true;
    if (complain(c, ERROR_NAME_TAKEN, name->range, name->name->text, symbol_describe(other)))
        diagnose_note(c->compiler, other->range, "`%s` is defined here", name->name->text);
    return false;
}

static bool three_arguments(Checker *c, const Node *node) {
    size_t count = 0;
    for (const Node *n = node->first; n; n = n->next) {
        count++;
        if (n->kind != NODE_NAMED) continue;
        complain(c, ERROR_NAMED_ARGUMENT, n->at, "scan");
        return false;
    }
    if (count == 3) return true;
    if (complain(c, ERROR_ARGUMENT_COUNT, node->at, "scan",
                 "an initial value, a name and an expression", count))
        diagnose_help(c->compiler, "as in `scan[k](0, acc, acc + x)`");
    return false;
}

Typed *check_scan(Checker *c, const Node *node, const Builtin *builtin) {
    Scan scan = {.name = builtin->name};
    bool fine = read_brackets(c, node, &scan, true) && three_arguments(c, node);
    if (c->scanning >= SCANS_MAX) {
        if (complain(c, ERROR_TOO_DEEP, node->range))
            diagnose_help(c->compiler, "name the inner scan with `let`");
        return &c->error;
    }
    if (!fine) return &c->error;
    const Node *name = node->first->next;
    Typed *init = check_expression(c, node->first);
    fine = !refuse_running(c, init, "the start of another scan");
    if (!name_is_new(c, name) || !fine || is_error(init)) return &c->error;
    Scope inside, *outside = c->scope;
    scope_open(&inside, c->arena, outside);
    c->scope = &inside;
    Symbol *acc = scope_add(&inside, name->name, name->range, SYMBOL_RUNNING);
    Typed *value = find_scan(c, node, &scan, acc, init);
    c->scope = outside;
    index_value(c, name->range, value);
    return value;
}

/* ---- cumsum ---- */

/* Integers add up in 64 bits, as in `sum`; -0.0 + x is x, bit for bit. */
Typed *check_cumsum(Checker *c, const Node *node, const Builtin *builtin) {
    Typed *a;
    Scan scan = {.name = builtin->name};
    bool fine = read_brackets(c, node, &scan, false);
    if (!check_arguments(c, node, builtin, &a) || !fine) return &c->error;
    if (refuse_running(c, a, "`cumsum`")) return &c->error;
    if (unify(c, &a, 1, ACCEPT_NUMBER, (Range){0}, "`cumsum`") == TYPE_NONE) return &c->error;
    if ((a->axes & scan.over) != scan.over) {
        complain(c, ERROR_AXIS_LACKING, node->brackets->range, scan.axis->name->text,
                 describe(c, a));
        return &c->error;
    }
    char class = type_class(a->type);
    if (class != 'F') a = typed_cast(c, a, class == 'S' ? TYPE_I64 : TYPE_U64);
    uint64_t zero = class == 'F' ? ir_number_bits((Type)a->type, -0.0) : 0;
    Typed *init = typed_constant(c, a->type, zero, node->range);
    Typed *now = running_value(c, a->type, a->axes, node->range);
    Typed *body = typed_op(c, OP_ADD, a->type, now, a, NULL, 0, node->range);
    return scan_of(c, &scan, init, body, now, node->range);
}
