/* check_axes.c: the axes of a step: their lengths, what depends on what, blocks, and the lists of
 * axes that parameters, reductions and draws name.
 *
 * In a value's AxisSet the whole n of `n as (q, k = 256)` is its q and k, and with an axis goes the
 * one it depends on. A list that is written names n, and must name the parents. */
#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"

enum { LENGTH_TERMS_MAX = 64 };

/* ---- sets of axes ---- */

static AxisSet bit(uint32_t axis) {
    return (AxisSet)1 << axis;
}

static Function axes_of(const Checker *c) {
    return (Function){.axes = c->step->axes, .axis_count = c->step->axis_count};
}

AxisSet with_parents(const Checker *c, AxisSet axes) {
    if (axes == 0) return 0;
    Function f = axes_of(c);
    return ir_closure(&f, axes);
}

AxisSet with_blocks(const Checker *c, AxisSet axes) {
    if (axes == 0) return 0;
    Function f = axes_of(c);
    return ir_expand(&f, axes);
}

AxisSet without_blocks(const Checker *c, AxisSet axes) {
    for (uint32_t n = 0; axes && n < c->step->axis_count; n++) {
        if (c->step->axes[n].block < 0) continue;
        AxisSet parts = with_blocks(c, bit(n));
        if ((axes & parts) == parts) axes = (axes & ~parts) | bit(n);
    }
    return axes;
}

AxisSet list_axis(const Checker *c, AxisSet axes) {
    if (axes == 0) return 0;
    Function f = axes_of(c);
    int axis = ir_list_axis(&f, axes);
    return axis < 0 ? 0 : bit((uint32_t)axis);
}

AxisSet all_axes(const Checker *c) {
    AxisSet axes = 0;
    if (c->call) return c->call->axes;
    for (uint32_t a = 0; a < c->step->axis_count; a++) axes |= bit(a);
    for (uint32_t a = 0; a < c->step->axis_count; a++)
        if (c->step->axes[a].block >= 0) axes &= ~bit(a);
    return axes;
}

const char *describe_listed(Checker *c, AxisSet axes) {
    Text text = text_open(c->arena);
    const char *separator = "[";
    for (uint32_t a = 0; a < c->step->axis_count; a++) {
        if (!(axes >> a & 1)) continue;
        text_printf(&text, "%s%s", separator, c->step->axes[a].name);
        separator = ", ";
    }
    text_puts(&text, "]");
    return text.data;
}

static const char *axis_name(const Checker *c, uint32_t axis) {
    return c->step->axes[axis].name;
}

bool refuse_two_lists(Checker *c, AxisSet axes, Range range, const char *what, bool is_value) {
    const Axis *all = c->step ? c->step->axes : NULL;
    int first = -1;
    for (uint32_t a = 0; all && a < c->step->axis_count; a++) {
        int parent = all[a].parent;
        if (!(axes >> a & 1) || parent < 0 || all[parent].whole >= 0) continue;
        if (first < 0 || all[first].parent == parent) {
            first = (int)a;
            continue;
        }
        bool kept = complain(c, ERROR_TWO_LISTS, range, what, all[first].name, all[a].name,
                             all[all[first].parent].name, all[parent].name);
        if (kept && is_value)
            diagnose_help(c->compiler, "reduce over `%s` or over `%s` first", all[first].name,
                          all[a].name);
        return true;
    }
    return false;
}

/* ---- lengths ---- */

static Typed *constant_length(Checker *c, const Node *node, int64_t min, ErrorCode code,
                              int64_t *length) {
    Typed *size = check_constant(c, node);
    *length = -1;
    if (is_error(size)) return size;
    char class = type_class(size->type);
    bool is_integer = class == 'S' || class == 'U';
    int64_t value =
        size->type == TYPE_I32 ? (int32_t)(uint32_t)size->payload : (int64_t)size->payload;
    if (is_integer && value >= min) {
        *length = value;
        return size;
    }
    complain(c, code, node->range,
             is_integer ? arena_printf(c->arena, "%lld", (long long)value) : describe(c, size));
    return &c->error;
}

/* A length as it is read: its terms in reverse Polish order. */
typedef struct Length {
    ls_image_term terms[LENGTH_TERMS_MAX];
    size_t count;
    const char *axis; /* whose length it is */
    const Item *item; /* the step */
} Length;

static bool add_term(Checker *c, Length *length, const Node *node, ls_image_operation operation,
                     int64_t value) {
    if (length->count < LENGTH_TERMS_MAX) {
        length->terms[length->count++] = (ls_image_term){operation, value};
        return true;
    }
    complain(c, ERROR_TOO_MANY, node->range, "terms in the length of an axis", length->count + 1,
             LENGTH_TERMS_MAX);
    return false;
}

static const Symbol *find_here(const Checker *c, const Node *node) {
    const Symbol *symbol =
        node->kind == NODE_NAME && !node->qualifier ? scope_find_here(c->scope, node->name) : NULL;
    return symbol && symbol->kind == SYMBOL_AXIS ? symbol : NULL;
}

/* An axis of the step that stands behind the one whose length this is, or that axis itself. */
static const Entry *find_later(const Checker *c, const Length *length, const Node *node) {
    if (node->kind != NODE_NAME || node->qualifier || find_here(c, node)) return NULL;
    for (const Entry *entry = length->item->axes; entry; entry = entry->next) {
        if (entry->name == node->name) return entry;
        for (const Entry *block = entry->blocks; block; block = block->next)
            if (block->name == node->name) return block;
    }
    return NULL;
}

static bool uses_axis(const Checker *c, const Length *length, const Node *node) {
    if (find_here(c, node) || find_later(c, length, node)) return true;
    for (const Node *n = node->first; n; n = n->next)
        if (uses_axis(c, length, n)) return true;
    return false;
}

static bool axis_term(Checker *c, Length *length, const Node *node) {
    const Symbol *symbol = find_here(c, node);
    if (!symbol) {
        const Entry *later = find_later(c, length, node);
        if (complain(c, ERROR_LENGTH_ORDER, node->range, length->axis, node->name->text))
            diagnose_note(c->compiler, later->range, "`%s` is declared here", node->name->text);
        diagnose_help(c->compiler, "a length is made of the axes before it");
        return false;
    }
    const Axis *axis = &c->step->axes[symbol->number];
    if (axis->fixed >= 0) return add_term(c, length, node, LS_TERM_NUMBER, axis->fixed);
    if (axis->parent >= 0) {
        const char *parent = axis_name(c, (uint32_t)axis->parent);
        if (complain(c, ERROR_LENGTH_VARIES, node->range, node->name->text, parent))
            diagnose_note(c->compiler, axis->range, "`%s` is declared here", node->name->text);
        return false;
    }
    if (axis->whole < 0) return add_term(c, length, node, LS_TERM_AXIS, symbol->number);
    return add_term(c, length, node, LS_TERM_AXIS, axis->whole) && /* (n + 255) // 256 */
           add_term(c, length, node, LS_TERM_NUMBER, axis->length - 1) &&
           add_term(c, length, node, LS_TERM_ADD, 0) &&
           add_term(c, length, node, LS_TERM_NUMBER, axis->length) &&
           add_term(c, length, node, LS_TERM_DIVIDE, 0);
}

static bool length_terms(Checker *c, Length *length, const Node *node) {
    static const struct {
        uint8_t token;
        ls_image_operation operation;
    } operators[] = {{TOKEN_PLUS, LS_TERM_ADD},
                     {TOKEN_MINUS, LS_TERM_SUBTRACT},
                     {TOKEN_MULTIPLY, LS_TERM_MULTIPLY},
                     {TOKEN_FLOOR_DIVIDE, LS_TERM_DIVIDE},
                     {TOKEN_MODULO, LS_TERM_REMAINDER}};
    int64_t value;
    if (node->kind == NODE_ERROR) return false;
    if (!uses_axis(c, length, node))
        return !is_error(constant_length(c, node, INT64_MIN, ERROR_AXIS_SIZE, &value)) &&
               add_term(c, length, node, LS_TERM_NUMBER, value);
    if (node->kind == NODE_NAME) return axis_term(c, length, node);
    if (node->kind == NODE_UNARY && node->token == TOKEN_MINUS)
        return add_term(c, length, node, LS_TERM_NUMBER, 0) &&
               length_terms(c, length, node->first) &&
               add_term(c, length, node, LS_TERM_SUBTRACT, 0);
    for (size_t i = 0; node->kind == NODE_BINARY && i < COUNT(operators); i++)
        if (operators[i].token == node->token)
            return length_terms(c, length, node->first) &&
                   length_terms(c, length, node->first->next) &&
                   add_term(c, length, node, operators[i].operation, 0);
    if (complain(c, ERROR_LENGTH_MADE_OF, node->kind == NODE_BINARY ? node->at : node->range)) {
        const Builtin *builtin = node->kind == NODE_CALL ? find_builtin(c, node->name) : NULL;
        if (node->kind == NODE_BINARY && node->token == TOKEN_DIVIDE)
            diagnose_help(c->compiler, "use `//` to divide and floor");
        if (builtin && builtin->op == OP_SIZE)
            diagnose_help(c->compiler, "here an axis stands for its length: `2 * h`");
    }
    return false;
}

static int64_t combine(ls_image_operation operation, int64_t a, int64_t b) {
    Op op = operation == LS_TERM_ADD        ? OP_ADD
            : operation == LS_TERM_SUBTRACT ? OP_SUB
            : operation == LS_TERM_MULTIPLY ? OP_MUL
            : operation == LS_TERM_DIVIDE   ? OP_FLOORDIV
                                            : OP_MOD;
    uint64_t args[3] = {(uint64_t)a, (uint64_t)b}, bits = 0;
    ir_evaluate(op, TYPE_I64, TYPE_I64, 0, args, &bits);
    return (int64_t)bits;
}

/* Of terms that are all numbers. */
static int64_t evaluate_terms(const Length *length) {
    int64_t stack[LENGTH_TERMS_MAX];
    size_t top = 0;
    for (size_t i = 0; i < length->count; i++) {
        const ls_image_term *term = &length->terms[i];
        if (term->operation == LS_TERM_NUMBER) {
            stack[top++] = term->value;
        } else {
            top--;
            stack[top - 1] = combine(term->operation, stack[top - 1], stack[top]);
        }
    }
    return stack[0];
}

/* `k = 64` and `w = 2 * h`; false after an error. */
static bool axis_length(Checker *c, Axis *axis, const Item *item, const Node *node) {
    Length length = {.axis = axis->name, .item = item};
    if (!uses_axis(c, &length, node))
        return !is_error(constant_length(c, node, 0, ERROR_AXIS_SIZE, &axis->fixed));
    if (!length_terms(c, &length, node)) return false;
    bool constant = true;
    for (size_t i = 0; i < length.count; i++) constant &= length.terms[i].operation != LS_TERM_AXIS;
    if (constant) {
        axis->fixed = evaluate_terms(&length);
        if (axis->fixed >= 0) return true;
        complain(c, ERROR_AXIS_SIZE, node->range,
                 arena_printf(c->arena, "%lld", (long long)axis->fixed));
        return false;
    }
    ls_image_term *terms = arena_alloc(c->arena, length.count * sizeof *terms);
    for (size_t i = 0; i < length.count; i++) terms[i] = length.terms[i];
    axis->terms = terms;
    axis->term_count = length.count;
    return true;
}

/* ---- the axes of a step ---- */

static bool cannot_hang(Checker *c, const Entry *entry, const char *why) {
    complain(c, ERROR_AXIS_PARENT, entry->parent_range, entry->name->text, entry->parent->text,
             why);
    return false;
}

/* The axis that `n of t` depends on, in *parent. */
static bool find_parent(Checker *c, const Item *item, const Entry *entry, int *parent) {
    if (!entry->parent) return false;
    const Symbol *symbol = scope_find_here(c->scope, entry->parent);
    if (!symbol || symbol->kind != SYMBOL_AXIS) {
        if (symbol && symbol->kind == SYMBOL_BROKEN) return false;
        if (entry->parent == entry->name) return cannot_hang(c, entry, "it would depend on itself");
        for (const Entry *other = entry->next; other; other = other->next)
            if (other->name == entry->parent)
                return cannot_hang(c, entry, "that axis is declared after it");
        for (const Entry *other = item->axes; other; other = other->next)
            if (other->name == entry->parent) return false; /* its own error is reported */
        if (complain(c, ERROR_UNKNOWN_AXIS, entry->parent_range, entry->parent->text)) {
            const char *meant = scope_suggest(c->scope, entry->parent, 1u << SYMBOL_AXIS);
            if (meant)
                diagnose_help(c->compiler, "did you mean `%s`?", meant);
            else
                diagnose_help(c->compiler, "declare it first: `[%s, %s of %s]`",
                              entry->parent->text, entry->name->text, entry->parent->text);
        }
        return false;
    }
    const Axis *axis = &c->step->axes[symbol->number];
    if (axis->whole >= 0) return cannot_hang(c, entry, "that axis is a part of blocks");
    if (axis->block >= 0) return cannot_hang(c, entry, "that axis is in blocks");
    if (axis->parent >= 0) return cannot_hang(c, entry, "that axis is ragged itself");
    *parent = (int)symbol->number;
    return true;
}

/* Gives an axis its number; -1 after an error. */
static int add_axis(Checker *c, const Entry *entry) {
    Step *step = c->step;
    Symbol *symbol;
    if (!declare(c, c->scope, entry->name, entry->range, SYMBOL_AXIS, &symbol)) return -1;
    symbol->number = (uint32_t)step->axis_count;
    step->axes[step->axis_count] = ir_axis(entry->name->text, -1, entry->range);
    return (int)step->axis_count++;
}

/* q and k of axis n */
static bool add_blocks(Checker *c, const Entry *entry, int n) {
    const Entry *count = entry->blocks, *inner = count ? count->next : NULL;
    int64_t length = -1;
    if (!inner || !inner->size) return false;
    constant_length(c, inner->size, 1, ERROR_BLOCK_LENGTH, &length);
    int q = add_axis(c, count), k = q < 0 ? -1 : add_axis(c, inner);
    if (length < 0 || n < 0 || k < 0) return false;
    Axis *axes = c->step->axes, *whole = &axes[n];
    whole->block = q;
    whole->rest = k;
    whole->length = axes[q].length = axes[k].length = length;
    axes[q].whole = axes[k].whole = n;
    axes[q].parent = whole->parent;
    axes[k].parent = q;
    if (whole->fixed >= 0) axes[q].fixed = whole->fixed / length + (whole->fixed % length != 0);
    return true;
}

static bool check_axis(Checker *c, const Item *item, const Entry *entry) {
    bool fine = true;
    Axis axis = ir_axis(entry->name->text, -1, entry->range);
    if (entry->ragged.file) fine &= find_parent(c, item, entry, &axis.parent);
    if (entry->ragged.file && entry->size) {
        if (complain(c, ERROR_RAGGED_LENGTH, entry->size->range, entry->name->text))
            diagnose_note(c->compiler, entry->ragged, "it is ragged");
        fine = false;
    } else if (entry->size) {
        fine &= axis_length(c, &axis, item, entry->size);
    }
    int number = add_axis(c, entry);
    if (number >= 0) c->step->axes[number] = axis;
    if (entry->blocked.file) fine &= add_blocks(c, entry, number);
    return fine && number >= 0;
}

bool check_axes(Checker *c, const Item *item) {
    bool fine = true;
    size_t count = 0;
    for (const Entry *entry = item->axes; entry; entry = entry->next)
        count += entry->blocked.file ? 3 : 1;
    c->step->axes = arena_alloc(c->arena, count * sizeof *c->step->axes);
    for (const Entry *entry = item->axes; entry; entry = entry->next) {
        size_t needed = entry->blocked.file ? 3 : 1;
        if (c->step->axis_count + needed > LS_AXES_MAX) {
            complain(c, ERROR_TOO_MANY, entry->range, "axes", count, LS_AXES_MAX);
            return false;
        }
        fine &= check_axis(c, item, entry);
    }
    return fine;
}

/* Lengths come from the arrays that are bound, also backwards: of `w = 2 * h` one over w says h. */
void check_axes_used(Checker *c) {
    const Step *step = c->step;
    AxisSet used = 0;
    for (size_t p = 0; p < step->parameter_count; p++) used |= step->parameters[p].declared;
    used |= step->looped; /* whose length is given by itself */
    for (size_t a = step->axis_count; a-- > 0;) {
        const Axis *axis = &step->axes[a];
        for (size_t i = 0; (used >> a & 1) && i < axis->term_count; i++)
            if (axis->terms[i].operation == LS_TERM_AXIS)
                used |= (AxisSet)1 << axis->terms[i].value;
    }
    for (size_t a = 0; a < step->axis_count; a++) {
        const Axis *axis = &step->axes[a];
        if ((used >> a & 1) || axis->fixed >= 0 || axis->terms || axis->whole >= 0) continue;
        if (!complain(c, ERROR_AXIS_UNUSED, axis->range, axis->name)) continue;
        if (axis->block >= 0)
            diagnose_help(c->compiler,
                          "an array over `%s` itself says it; the blocks do not say how short the "
                          "last one is",
                          axis->name);
        else if (axis->parent >= 0)
            diagnose_help(c->compiler, "declare an array over `[%s, %s]`, or drop it",
                          axis_name(c, (uint32_t)axis->parent), axis->name);
        else
            diagnose_help(c->compiler, "give it a length, `%s = 64`, or drop it", axis->name);
    }
}

/* ---- lists of axes ---- */

bool add_listed(Checker *c, uint32_t axis, Range range, AxisSet *listed) {
    const Axis *all = c->step->axes;
    if (*listed & bit(axis)) {
        complain(c, ERROR_AXIS_TWICE, range, axis_name(c, axis));
        return false;
    }
    if (with_blocks(c, bit(axis)) & with_blocks(c, *listed)) {
        int whole = all[axis].whole >= 0 ? all[axis].whole : (int)axis;
        const char *part = all[axis].whole >= 0             ? axis_name(c, axis)
                           : *listed >> all[axis].block & 1 ? all[all[axis].block].name
                                                            : all[all[axis].rest].name;
        complain(c, ERROR_AXIS_IN_WHOLE, range, part, axis_name(c, (uint32_t)whole));
        *listed |= bit(axis);
        return false;
    }
    *listed |= bit(axis);
    return true;
}

bool require_parents(Checker *c, AxisSet listed, uint32_t axis, Range range) {
    int parent = c->step->axes[axis].parent;
    if (parent < 0 || (listed >> parent & 1)) return true;
    const char *name = axis_name(c, axis), *on = axis_name(c, (uint32_t)parent);
    if (complain(c, ERROR_NEEDS_PARENT, range, name, on, on)) {
        AxisSet whole = with_parents(c, listed | bit(axis));
        diagnose_help(c->compiler, "write `%s`", describe_listed(c, whole));
    }
    return false;
}

bool parameter_axes(Checker *c, const Entry *parameter, AxisSet *declared) {
    const Symbol *last = NULL;
    bool fine = true;
    for (const Entry *entry = parameter->axes; entry; entry = entry->next) {
        Symbol *axis = scope_find_here(c->scope, entry->name);
        if (!axis || axis->kind != SYMBOL_AXIS) {
            if (complain(c, ERROR_UNKNOWN_AXIS, entry->range, entry->name->text)) {
                const char *meant = scope_suggest(c->scope, entry->name, 1u << SYMBOL_AXIS);
                if (meant) diagnose_help(c->compiler, "did you mean `%s`?", meant);
                if (!meant)
                    diagnose_help(c->compiler, "axes are declared in brackets after the step's "
                                               "name");
            }
            fine = false;
            continue;
        }
        bool orderly = !last || axis->number >= last->number;
        bool single = add_listed(c, axis->number, entry->range, declared);
        if (single && !orderly)
            complain(c, ERROR_AXIS_ORDER, entry->range, axis->name->text, last->name->text);
        fine &= single && orderly;
        last = axis;
    }
    for (const Entry *entry = parameter->axes; entry && fine; entry = entry->next)
        fine &= require_parents(c, *declared, scope_find_here(c->scope, entry->name)->number,
                                entry->range);
    return fine && !refuse_two_lists(c, *declared, parameter->range,
                                     arena_printf(c->arena, "`%s`", parameter->name->text), false);
}

/* ---- axes by name, in expressions ---- */

Symbol *find_axis(Checker *c, const Node *node, const char *function) {
    if (node->kind != NODE_NAME || node->qualifier) {
        if (node->kind != NODE_ERROR) complain(c, ERROR_NEEDS_AXIS_NAME, node->range, function);
        return NULL;
    }
    Symbol *symbol = scope_find(c->scope, node->name);
    if (symbol && symbol->kind == SYMBOL_AXIS) return symbol;
    if (symbol && symbol->kind == SYMBOL_BROKEN) return NULL;
    if (c->instance) {
        complain(c, ERROR_AXES_IN_FN, node->range);
    } else if (complain(c, ERROR_UNKNOWN_AXIS, node->range, node->name->text)) {
        const char *meant = scope_suggest(c->scope, node->name, 1u << SYMBOL_AXIS);
        if (symbol)
            diagnose_note(c->compiler, symbol->range, "`%s` is %s", node->name->text,
                          symbol_describe(symbol));
        if (meant) diagnose_help(c->compiler, "did you mean `%s`?", meant);
    }
    return NULL;
}

static Symbol *only_axis(Checker *c, const Node *node, const Builtin *builtin) {
    if (node->first && !node->first->next) return find_axis(c, node->first, builtin->name);
    complain(c, ERROR_NEEDS_AXIS_NAME, node->at, builtin->name);
    return NULL;
}

Typed *size_of_axis(Checker *c, uint32_t axis, Range range) {
    const Axis *row = &c->step->axes[axis];
    if (row->fixed >= 0) return typed_constant(c, TYPE_I64, (uint64_t)row->fixed, range);
    AxisSet axes = row->parent < 0 ? 0 : with_parents(c, bit((uint32_t)row->parent));
    Typed *value = typed_new(c, TYPED_OP, TYPE_I64, axes, range);
    value->op = OP_SIZE;
    value->payload = axis;
    return value;
}

Typed *index_of_axis(Checker *c, uint32_t axis, Range range) {
    AxisSet axes = with_parents(c, with_blocks(c, bit(axis))) & ~c->places;
    Typed *value = typed_new(c, TYPED_OP, TYPE_I64, axes, range);
    value->op = OP_INDEX;
    value->payload = axis;
    return value;
}

Typed *check_size(Checker *c, const Node *node, const Builtin *builtin) {
    Symbol *axis = only_axis(c, node, builtin);
    return axis ? size_of_axis(c, axis->number, node->range) : &c->error;
}

Typed *check_index(Checker *c, const Node *node, const Builtin *builtin) {
    Symbol *axis = only_axis(c, node, builtin);
    return axis ? index_of_axis(c, axis->number, node->range) : &c->error;
}
