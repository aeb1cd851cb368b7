/* rewrite.c: what passes have in common: replacing a symbol, copying with symbols of its own,
 * looking for nodes. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

ValueId nest_value_replace(Nest *nest, ValueId value, SymbolId symbol, Index by) {
    Function *f = nest->values;
    const Value v = f->values[value];
    ValueId args[3] = {0};
    bool same = true;
    if (!value || !nest_value_uses(nest, value, symbol)) return value;
    if (v.op == VALUE_NAME) return nest_index_value(nest, by);
    if (v.op == VALUE_INDEX)
        return nest_index_value(nest,
                                index_replace(nest->arena, *nest_index_of(nest, &v), symbol, by));
    for (int i = 0; i < op_info[v.op].arity; i++) {
        args[i] = nest_value_replace(nest, v.arg[i], symbol, by);
        same &= args[i] == v.arg[i];
    }
    return same ? value : ir_make(f, &v, args);
}

/* A symbol that is a name stays one: only indices can stand for a loop's. */
static SymbolId replace_name(const Nest *nest, SymbolId name, SymbolId symbol, Index by) {
    if (name != symbol) return name;
    if (by.count != 1 || by.terms[0].count != 1 || by.terms[0].factor != 1)
        bug(nest->compiler, "%s stands where an index cannot", nest->symbols[symbol].name);
    return by.terms[0].symbols[0];
}

static void replace_own(Nest *nest, NestNode *node, SymbolId symbol, Index by) {
    Arena *arena = nest->arena;
    for (size_t i = 0; i < node->at_count; i++)
        node->at[i] = index_replace(arena, node->at[i], symbol, by);
    node->extent = index_replace(arena, node->extent, symbol, by);
    node->limit = index_replace(arena, node->limit, symbol, by);
    node->list = replace_name(nest, node->list, symbol, by);
    node->where = replace_name(nest, node->where, symbol, by);
    node->array = replace_name(nest, node->array, symbol, by);
    node->name = replace_name(nest, node->name, symbol, by);
    node->value = nest_value_replace(nest, node->value, symbol, by);
    node->pad = nest_value_replace(nest, node->pad, symbol, by);
}

void nest_replace(Nest *nest, NestNode *body, SymbolId symbol, Index by) {
    for (NestNode *node = body; node; node = node->next) {
        replace_own(nest, node, symbol, by);
        nest_replace(nest, node->body, symbol, by);
        nest_replace(nest, node->other, symbol, by);
    }
}

/* The definitions of `body`, each with a new symbol, throughout `all`. */
static void rename_all(Nest *nest, NestNode *body, NestNode *all) {
    for (NestNode *node = body; node; node = node->next) {
        if (node->name) {
            const NestSymbol old = nest->symbols[node->name];
            const SymbolId renamed = nest_symbol(nest, old.name, old.kind, old.type);
            nest_replace(nest, all, node->name, index_symbol(nest->arena, renamed));
        }
        rename_all(nest, node->body, all);
        rename_all(nest, node->other, all);
    }
}

NestNode *nest_clone(Nest *nest, const NestNode *body) {
    NestNode *clone = nest_copy(nest->arena, body);
    rename_all(nest, clone, clone);
    return clone;
}

NestNode **nest_find(NestNode **body, SymbolId name) {
    for (NestNode **at = body; *at; at = &(*at)->next) {
        if ((*at)->name == name) return at;
        NestNode **inside = nest_find(&(*at)->body, name);
        if (!inside) inside = nest_find(&(*at)->other, name);
        if (inside) return inside;
    }
    return NULL;
}

bool nest_has(const NestNode *body, NestKind kind) {
    for (const NestNode *node = body; node; node = node->next)
        if (node->kind == kind || nest_has(node->body, kind) || nest_has(node->other, kind))
            return true;
    return false;
}

bool nest_is_of_sizes(const Nest *nest, Index index) {
    for (size_t t = 0; t < index.count; t++)
        for (uint32_t k = 0; k < index.terms[t].count; k++) {
            const NamedKind kind = nest->symbols[index.terms[t].symbols[k]].kind;
            if (kind != NAMED_SIZE && kind != NAMED_DERIVED) return false;
        }
    return true;
}

Index nest_ceiling(Nest *nest, NestNode ***end, Index extent, int64_t divide, const char *name) {
    Function *f = nest->values;
    int64_t number;
    if (divide == 1) return extent;
    if (index_is_number(extent, &number))
        return index_number(nest->arena, (number + divide - 1) / divide);
    const Index more = index_add(nest->arena, extent, index_number(nest->arena, divide - 1));
    const ValueId parts = ir_op(f, OP_FLOORDIV, nest_index_value(nest, more),
                                ir_constant(f, TYPE_I64, (uint64_t)divide), 0);
    for (size_t i = 0; i < nest->derived_count; i++)
        if (nest->derived[i].value == parts)
            return index_symbol(nest->arena, nest->derived[i].symbol);
    if (nest_is_of_sizes(nest, extent))
        return index_symbol(nest->arena, nest_derived(nest, name, parts));
    const SymbolId own = nest_symbol(nest, name, NAMED_VALUE, TYPE_I64);
    nest_add(nest, end, (NestNode){.kind = NEST_LET, .name = own, .value = parts});
    return index_symbol(nest->arena, own);
}
