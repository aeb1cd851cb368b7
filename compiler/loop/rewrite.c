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

/* Whether a node chooses an array of a list by the symbol. */
static bool chooses(const NestNode *body, SymbolId symbol) {
    for (const NestNode *node = body; node; node = node->next)
        if (node->list == symbol || chooses(node->body, symbol) || chooses(node->other, symbol))
            return true;
    return false;
}

NestNode *nest_put_index(Nest *nest, NestNode *body, SymbolId loop, Index index) {
    if (!chooses(body, loop)) {
        nest_replace(nest, body, loop, index);
        return body;
    }
    const SymbolId own = nest_symbol(nest, nest->symbols[loop].name, NAMED_VALUE, TYPE_I64);
    NestNode *let = arena_alloc(nest->arena, sizeof *let);
    *let = (NestNode){.kind = NEST_LET, .name = own, .value = nest_index_value(nest, index)};
    nest_replace(nest, body, loop, index_symbol(nest->arena, own));
    let->next = body;
    return let;
}

/* New symbols for those that a body defines, all at once. */
typedef struct Renaming {
    Nest *nest;
    SymbolId *to; /* by symbol; 0: stays */
    size_t symbols;
    ValueId *values; /* by value: what it became; 0: not looked at */
    size_t value_count;
} Renaming;

static SymbolId rename_symbol(const Renaming *r, SymbolId symbol) {
    return symbol < r->symbols && r->to[symbol] ? r->to[symbol] : symbol;
}

static Index rename_index(const Renaming *r, Index index) {
    Arena *arena = r->nest->arena;
    Index sum = {NULL, 0};
    bool same = true;
    for (size_t t = 0; t < index.count && same; t++)
        for (uint32_t k = 0; k < index.terms[t].count; k++)
            same &= rename_symbol(r, index.terms[t].symbols[k]) == index.terms[t].symbols[k];
    if (same) return index;
    for (size_t t = 0; t < index.count; t++) {
        Index product = index_number(arena, index.terms[t].factor);
        for (uint32_t k = 0; k < index.terms[t].count; k++)
            product = index_multiply(
                arena, product, index_symbol(arena, rename_symbol(r, index.terms[t].symbols[k])));
        sum = index_add(arena, sum, product);
    }
    return sum;
}

static ValueId rename_value(Renaming *r, ValueId id) {
    Function *f = r->nest->values;
    const Value v = f->values[id];
    ValueId args[3] = {0}, made = id;
    bool same = true;
    if (!id || (id < r->value_count && r->values[id])) return id ? r->values[id] : 0;
    if (v.op == VALUE_NAME) {
        if (rename_symbol(r, (SymbolId)v.payload) != v.payload)
            made = nest_name(r->nest, rename_symbol(r, (SymbolId)v.payload));
    } else if (v.op == VALUE_INDEX) {
        made = nest_index_value(r->nest, rename_index(r, *nest_index_of(r->nest, &v)));
    } else {
        for (int i = 0; i < op_info[v.op].arity; i++) {
            args[i] = v.arg[i] ? rename_value(r, v.arg[i]) : 0;
            same &= args[i] == v.arg[i];
        }
        if (!same) made = ir_make(f, &v, args);
    }
    if (id < r->value_count) r->values[id] = made;
    return made;
}

static void find_definitions(Renaming *r, const NestNode *body) {
    for (const NestNode *node = body; node; node = node->next) {
        if (node->name) {
            const NestSymbol old = r->nest->symbols[node->name];
            r->to[node->name] = nest_symbol(r->nest, old.name, old.kind, old.type);
        }
        find_definitions(r, node->body);
        find_definitions(r, node->other);
    }
}

static void rename_body(Renaming *r, NestNode *body) {
    for (NestNode *node = body; node; node = node->next) {
        for (size_t i = 0; i < node->at_count; i++) node->at[i] = rename_index(r, node->at[i]);
        node->extent = rename_index(r, node->extent);
        node->limit = rename_index(r, node->limit);
        node->list = rename_symbol(r, node->list);
        node->where = rename_symbol(r, node->where);
        node->array = rename_symbol(r, node->array);
        node->name = rename_symbol(r, node->name);
        node->value = rename_value(r, node->value);
        node->pad = rename_value(r, node->pad);
        rename_body(r, node->body);
        rename_body(r, node->other);
    }
}

NestNode *nest_clone(Nest *nest, const NestNode *body) {
    NestNode *clone = nest_copy(nest->arena, body);
    Arena *scratch = arena_child(nest->arena);
    Renaming r = {
        .nest = nest, .symbols = nest->symbol_count, .value_count = nest->values->value_count};
    r.to = arena_alloc(scratch, (r.symbols + 1) * sizeof *r.to);
    r.values = arena_alloc(scratch, (r.value_count + 1) * sizeof *r.values);
    find_definitions(&r, clone);
    rename_body(&r, clone);
    arena_close(scratch);
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

NestNode *nest_around(Nest *nest, LoopKind kind, SymbolId name, Index extent, NestNode *body) {
    NestNode *loop = arena_alloc(nest->arena, sizeof *loop);
    *loop =
        (NestNode){.kind = NEST_LOOP, .loop = kind, .name = name, .extent = extent, .body = body};
    return loop;
}

NestNode *nest_only_where(Nest *nest, Index amount, NestNode *body) {
    NestNode *node = arena_alloc(nest->arena, sizeof *node);
    *node = (NestNode){.kind = NEST_IF, .extent = amount, .body = body};
    return node;
}

bool nest_has(const NestNode *body, NestKind kind) {
    for (const NestNode *node = body; node; node = node->next)
        if (node->kind == kind || nest_has(node->body, kind) || nest_has(node->other, kind))
            return true;
    return false;
}

static size_t count_nodes(const NestNode *body) {
    size_t count = 0;
    for (const NestNode *node = body; node; node = node->next)
        count += 1 + count_nodes(node->body) + count_nodes(node->other);
    return count;
}

bool nest_is_long(const NestNode *body) {
    enum { NODES_MAX = 2048 };
    return count_nodes(body) > NODES_MAX;
}

static bool pushes_ahead(const NestNode *body, const NestNode *end, SymbolId tree, bool *ended) {
    for (const NestNode *node = body; node && !*ended; node = node->next) {
        *ended = node == end;
        if (*ended) return false;
        if ((node->kind == NEST_PUSH && node->array == tree) ||
            pushes_ahead(node->body, end, tree, ended) ||
            pushes_ahead(node->other, end, tree, ended))
            return true;
    }
    return false;
}

NestNode *nest_find_combine(NestNode *body, SymbolId tree) {
    for (NestNode *node = body; node; node = node->next) {
        NestNode *found = node->kind == NEST_COMBINE && node->array == tree
                              ? node
                              : nest_find_combine(node->body, tree);
        if (!found) found = nest_find_combine(node->other, tree);
        if (found) return found;
    }
    return NULL;
}

bool nest_value_draws(const Nest *nest, ValueId value) {
    const Value *v = &nest->values->values[value];
    if (!value || v->op == VALUE_NAME || v->op == VALUE_INDEX) return false;
    if (v->op == OP_CALL || v->op == OP_RANDOM_BITS || v->op == OP_RANDOM_UNIFORM ||
        v->op == OP_RANDOM_NORMAL)
        return true;
    for (int i = 0; i < op_info[v->op].arity; i++)
        if (nest_value_draws(nest, v->arg[i])) return true;
    return false;
}

bool nest_value_varies(const Nest *nest, const NestNode *loop, ValueId value) {
    if (nest_value_uses(nest, value, loop->name)) return true;
    for (const NestNode *node = loop->body; node; node = node->next)
        if (node->name && nest_value_uses(nest, value, node->name)) return true;
    return false;
}

bool nest_pushes_ahead(const NestNode *body, const NestNode *end, SymbolId tree) {
    bool ended = false;
    return pushes_ahead(body, end, tree, &ended);
}

bool nest_is_of_sizes(const Nest *nest, Index index) {
    for (size_t t = 0; t < index.count; t++)
        for (uint32_t k = 0; k < index.terms[t].count; k++) {
            const NamedKind kind = nest->symbols[index.terms[t].symbols[k]].kind;
            if (kind != NAMED_SIZE && kind != NAMED_DERIVED) return false;
        }
    return true;
}

/* The quotient of an index that is not negative. */
static Index quotient(Nest *nest, NestNode ***end, Index dividend, int64_t divisor,
                      const char *name) {
    Function *f = nest->values;
    const ValueId parts = ir_op(f, OP_FLOORDIV, nest_index_value(nest, dividend),
                                ir_constant(f, TYPE_I64, (uint64_t)divisor), 0);
    for (size_t i = 0; i < nest->derived_count; i++)
        if (nest->derived[i].value == parts)
            return index_symbol(nest->arena, nest->derived[i].symbol);
    if (nest_is_of_sizes(nest, dividend))
        return index_symbol(nest->arena, nest_derived(nest, name, parts));
    const SymbolId own = nest_symbol(nest, name, NAMED_VALUE, TYPE_I64);
    nest_add(nest, end, (NestNode){.kind = NEST_LET, .name = own, .value = parts});
    return index_symbol(nest->arena, own);
}

Index nest_ceiling(Nest *nest, NestNode ***end, Index extent, int64_t divide, const char *name) {
    int64_t number;
    if (divide == 1) return extent;
    if (index_is_number(extent, &number))
        return index_number(nest->arena, (number + divide - 1) / divide);
    const Index more = index_add(nest->arena, extent, index_number(nest->arena, divide - 1));
    return quotient(nest, end, more, divide, name);
}

Index nest_floor(Nest *nest, NestNode ***end, Index extent, int64_t divide, const char *name) {
    int64_t number;
    if (divide == 1) return extent;
    if (index_is_number(extent, &number)) return index_number(nest->arena, number / divide);
    return quotient(nest, end, extent, divide, name);
}

bool nest_stores_to(const NestNode *body, SymbolId array) {
    for (const NestNode *node = body; node; node = node->next)
        if (((node->kind == NEST_STORE || node->kind == NEST_ADD) && node->array == array) ||
            nest_stores_to(node->body, array) || nest_stores_to(node->other, array))
            return true;
    return false;
}

bool nest_reads(const NestNode *body, SymbolId array) {
    for (const NestNode *node = body; node; node = node->next)
        if ((node->kind != NEST_STORE && node->array == array) || nest_reads(node->body, array) ||
            nest_reads(node->other, array))
            return true;
    return false;
}

bool nest_is_tile_long(const Nest *nest, const NestNode *loop) {
    enum { LEAVES = 1024 };
    int64_t extent;
    if (index_is_number(loop->extent, &extent)) return extent <= LEAVES;
    if (loop->extent.count != 1 || loop->extent.terms[0].count != 1) return false;
    const SymbolId width = loop->extent.terms[0].symbols[0];
    NestNode **place = nest_find((NestNode **)(uintptr_t)&nest->body, width);
    if (!place || (*place)->kind != NEST_LET || loop->extent.terms[0].factor != 1) return false;
    const Value *values = nest->values->values, *v = &values[(*place)->value];
    for (int i = 0; v->op == OP_MIN && i < 2; i++)
        if (values[v->arg[i]].op == OP_CONST && (int64_t)values[v->arg[i]].payload <= LEAVES)
            return true;
    return false;
}
