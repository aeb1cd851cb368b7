/* check_index.c: reading at another coordinate, `x[b, target]`.
 *
 * Inside the brackets an axis name is its own coordinate. An entry that is just that leaves the
 * axis alone; the others become the LIST of a GATHER, as i64. A parent that is listed takes with it
 * what depends on it: the length of that is another one there. */
#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"

static size_t length_of(AxisSet axes) {
    return (size_t)__builtin_popcount(axes);
}

/* ---- what is indexed ---- */

/* The axes that the brackets list. A `let` over the q and k of blocks is read as one over n, or by
 * both; so is what a step that is called names, which its caller may have declared either way. */
static AxisSet listed_axes(const Checker *c, const Symbol *symbol, const Typed *source,
                           size_t count) {
    if (symbol->kind == SYMBOL_PARAMETER && !c->call)
        return c->step->parameters[symbol->number].declared;
    return length_of(source->axes) == count ? source->axes : without_blocks(c, source->axes);
}

static void check_entries(Checker *c, const Node *node) {
    c->indexing++;
    for (const Node *entry = node->first; entry; entry = entry->next) check_expression(c, entry);
    c->indexing--;
}

/* What `x` in `x[...]` reads; an error where it has no axes. */
static Typed *indexed_value(Checker *c, const Node *node, Symbol *symbol) {
    if (symbol->kind == SYMBOL_BROKEN) return &c->error;
    if (symbol->kind == SYMBOL_ARGUMENT) {
        if (complain(c, ERROR_INDEX_IN_FN, node->at, node->name->text))
            diagnose_help(c->compiler,
                          "index it where the function is called, and pass the result");
        return &c->error;
    }
    if (symbol->kind == SYMBOL_RUNNING) {
        if (complain(c, ERROR_NOT_INDEXED, node->at, node->name->text, symbol_describe(symbol)))
            diagnose_help(c->compiler, "only its value one element before is known, `%s` itself",
                          node->name->text);
        return &c->error;
    }
    Typed *source = symbol->kind == SYMBOL_AXIS ? NULL : read_unplaced(c, symbol, node->at);
    if (source && (is_error(source) || source->axes)) return source;
    if (complain(c, ERROR_NOT_INDEXED, node->at, node->name->text,
                 source && symbol->kind != SYMBOL_CONST ? "a single value"
                                                        : symbol_describe(symbol)) &&
        symbol->range.file)
        diagnose_note(c->compiler, symbol->range, "`%s` is defined here", node->name->text);
    return &c->error;
}

/* ---- the coordinates ---- */

/* The entry for `axis`, as i64; NULL where it is the axis itself. */
static Typed *coordinate(Checker *c, const Node *entry, uint32_t axis) {
    if (entry->kind == NODE_NAMED) {
        if (complain(c, ERROR_INDEX_NAMED, entry->at))
            diagnose_help(c->compiler,
                          "write the coordinate of `%s` alone, in the order of the axes",
                          c->step->axes[axis].name);
        return &c->error;
    }
    c->indexing++;
    Typed *value = check_expression(c, entry);
    c->indexing--;
    if (is_error(value)) return value;
    if (value->kind == TYPED_OP && value->op == OP_INDEX && value->payload == axis) return NULL;
    char class = type_class(value->type);
    if (class != 'S' && class != 'U') {
        if (complain(c, ERROR_INDEX_TYPE, entry->range, describe(c, value)) && !is_constant(value))
            diagnose_help(c->compiler, "write `i64(...)`");
        return &c->error;
    }
    return refuse_running(c, value, "an index") ? &c->error : typed_cast(c, value, TYPE_I64);
}

static Typed *list_entry(Checker *c, uint32_t axis, Typed *value, Typed *next) {
    AxisSet axes = value->axes | (next ? next->axes : 0);
    Typed *list = typed_new(c, TYPED_OP, TYPE_I64, axes, value->range);
    list->op = OP_LIST;
    list->payload = axis;
    list->args[0] = value;
    list->args[1] = next;
    return list;
}

Typed *gather_at(Checker *c, Typed *source, AxisSet axes, Typed **at, Range range) {
    AxisSet listed = 0;
    Typed *list = NULL;
    for (uint32_t a = 0; a < c->step->axis_count; a++) { /* parents first */
        int parent = c->step->axes[a].parent;
        if (!(axes >> a & 1)) continue;
        if (!at[a] && parent >= 0 && (listed >> parent & 1)) at[a] = index_of_axis(c, a, range);
        if (at[a]) listed |= (AxisSet)1 << a;
    }
    if (listed == 0) return source;
    for (uint32_t a = (uint32_t)c->step->axis_count; a-- > 0;)
        if (listed >> a & 1) list = list_entry(c, a, at[a], list);
    AxisSet rest = source->axes & ~with_blocks(c, listed);
    Typed *value = typed_new(c, TYPED_OP, source->type, rest | list->axes, range);
    value->op = OP_GATHER;
    value->storage = source->storage;
    value->args[0] = source;
    value->args[1] = list;
    return value;
}

Typed *check_indexing(Checker *c, const Node *node) {
    Symbol *symbol = find_value(c, node->qualifier, node->name, node->at);
    if (!symbol && node->qualifier) {
        unknown_member(c, node->qualifier, node->name, node->at);
        symbol = &c->broken;
    }
    Typed *source = symbol ? indexed_value(c, node, symbol) : unknown_name(c, node->name, node->at);
    if (is_error(source)) {
        if (!c->instance) check_entries(c, node);
        return source;
    }
    size_t count = 0;
    for (const Node *entry = node->first; entry; entry = entry->next) count++;
    AxisSet axes = listed_axes(c, symbol, source, count);
    if (count != length_of(axes)) {
        if (complain(c, ERROR_INDEX_COUNT, node->range, node->name->text, describe_axes(c, axes),
                     length_of(axes), length_of(axes) == 1 ? "" : "s", count)) {
            diagnose_note(c->compiler, symbol->range, "`%s` is defined here", node->name->text);
            if (count < length_of(axes))
                diagnose_help(c->compiler, "an axis name is its own coordinate, as in `%s%s`",
                              node->name->text, describe_axes(c, axes));
        }
        check_entries(c, node);
        return &c->error;
    }
    Typed **at = arena_alloc(c->arena, c->step->axis_count * sizeof(Typed *));
    const Node *entry = node->first;
    bool fine = !refuse_running(c, source, "reading at another coordinate");
    for (uint32_t a = 0; a < c->step->axis_count; a++) {
        if (!(axes >> a & 1)) continue;
        at[a] = coordinate(c, entry, a);
        fine &= !at[a] || !is_error(at[a]);
        entry = entry->next;
    }
    if (fine && (source->axes & c->places))
        return gather_in_loop(c, symbol, source, axes, at, node->range);
    return fine ? gather_at(c, source, axes, at, node->range) : &c->error;
}
