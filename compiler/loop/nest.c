/* nest.c: building a nest: its symbols, its values and its nodes. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

const char *const nest_kind_names[NEST_KIND_COUNT] = {
    [NEST_LOOP] = "loop",       [NEST_IF] = "if",         [NEST_WHEN] = "when",
    [NEST_LET] = "let",         [NEST_LOAD] = "load",     [NEST_STORE] = "store",
    [NEST_ADD] = "add",         [NEST_ALLOC] = "alloc",   [NEST_TREE] = "tree",
    [NEST_FOLD] = "fold",       [NEST_PUSH] = "push",     [NEST_COMBINE] = "combine",
    [NEST_BARRIER] = "barrier", [NEST_ARRIVE] = "arrive", [NEST_PREFETCH] = "prefetch"};
const char *const nest_loop_names[LOOP_KIND_COUNT] = {
    [LOOP_GRID] = "grid",     [LOOP_WARP] = "warp",         [LOOP_LANE] = "lane",
    [LOOP_SERIAL] = "serial", [LOOP_UNROLLED] = "unrolled", [LOOP_VECTOR] = "vector"};
const char *const nest_scope_names[SCOPE_COUNT] = {
    [SCOPE_REGISTER] = "register", [SCOPE_WORKER] = "worker", [SCOPE_SHARED] = "shared",
    [SCOPE_GLOBAL] = "global",     [SCOPE_WARP] = "warp",     [SCOPE_BLOCK] = "block",
    [SCOPE_GRID] = "grid"};
const char *const nest_hint_names[HINT_COUNT] = {[HINT_NONE] = "",
                                                 [HINT_L1] = "l1",
                                                 [HINT_L2] = "l2",
                                                 [HINT_ONCE] = "once",
                                                 [HINT_NON_TEMPORAL] = "non_temporal",
                                                 [HINT_OWNED] = "owned"};
const char *const nest_role_names[5] = {[ARRAY_IN] = "in",
                                        [ARRAY_OUT] = "out",
                                        [ARRAY_INOUT] = "inout",
                                        [ARRAY_TABLE] = "table",
                                        [ARRAY_TEMPORARY] = "temporary"};

Nest *nest_open(Compiler *compiler, Arena *arena, const char *name, const Function *functions) {
    Nest *nest = arena_alloc(arena, sizeof *nest);
    *nest = (Nest){.compiler = compiler,
                   .arena = arena,
                   .name = arena_copy(arena, name, strlen(name)),
                   .warps = 1,
                   .lanes = 1,
                   .width = 1};
    nest->values = ir_function(compiler, arena, nest->name);
    if (functions) {
        nest->values->functions = functions->functions;
        nest->values->function_count = functions->function_count;
    }
    nest->symbols =
        arena_grow(arena, nest->symbols, 0, &nest->symbol_capacity, sizeof *nest->symbols);
    nest->symbols[nest->symbol_count++] = (NestSymbol){.name = ""};
    return nest;
}

SymbolId nest_symbol(Nest *nest, const char *name, NamedKind kind, Type type) {
    nest->symbols = arena_grow(nest->arena, nest->symbols, nest->symbol_count,
                               &nest->symbol_capacity, sizeof *nest->symbols);
    nest->symbols[nest->symbol_count] = (NestSymbol){name, kind, type};
    return (SymbolId)nest->symbol_count++;
}

SymbolId nest_array(Nest *nest, const char *name, Type type, ArrayRole role, bool list,
                    Index extent) {
    const SymbolId symbol = nest_symbol(nest, name, NAMED_ARRAY, type);
    nest->arrays = arena_grow(nest->arena, nest->arrays, nest->array_count, &nest->array_capacity,
                              sizeof *nest->arrays);
    nest->arrays[nest->array_count++] = (NestArray){symbol, role, list, extent, false};
    return symbol;
}

SymbolId nest_size(Nest *nest, const char *name) {
    const SymbolId symbol = nest_symbol(nest, name, NAMED_SIZE, TYPE_I64);
    nest->sizes = arena_grow(nest->arena, nest->sizes, nest->size_count, &nest->size_capacity,
                             sizeof *nest->sizes);
    nest->sizes[nest->size_count++] = symbol;
    return symbol;
}

SymbolId nest_derived(Nest *nest, const char *name, ValueId value) {
    const SymbolId symbol = nest_symbol(nest, name, NAMED_DERIVED, TYPE_I64);
    nest->derived = arena_grow(nest->arena, nest->derived, nest->derived_count,
                               &nest->derived_capacity, sizeof *nest->derived);
    nest->derived[nest->derived_count++] = (NestDerived){symbol, value};
    return symbol;
}

void nest_fact(Nest *nest, NestFact fact) {
    nest->facts = arena_grow(nest->arena, nest->facts, nest->fact_count, &nest->fact_capacity,
                             sizeof *nest->facts);
    nest->facts[nest->fact_count++] = fact;
}

ValueId nest_name(Nest *nest, SymbolId symbol) {
    const NestSymbol *row = &nest->symbols[symbol];
    return ir_leaf(nest->values, (Op)VALUE_NAME, row->type, 0, symbol);
}

ValueId nest_index_value(Nest *nest, Index index) {
    int64_t number;
    size_t i = 0;
    if (index_is_number(index, &number))
        return ir_constant(nest->values, TYPE_I64, (uint64_t)number);
    if (index.count == 1 && index.terms[0].count == 1 && index.terms[0].factor == 1)
        return nest_name(nest, index.terms[0].symbols[0]);
    while (i < nest->index_count && !index_equal(nest->indices[i], index)) i++;
    if (i == nest->index_count) {
        nest->indices = arena_grow(nest->arena, nest->indices, nest->index_count,
                                   &nest->index_capacity, sizeof *nest->indices);
        nest->indices[nest->index_count++] = index;
    }
    return ir_leaf(nest->values, (Op)VALUE_INDEX, TYPE_I64, 0, i);
}

const Index *nest_index_of(const Nest *nest, const Value *value) {
    return &nest->indices[value->payload];
}

NestNode *nest_add(Nest *nest, NestNode ***end, NestNode node) {
    NestNode *added = arena_alloc(nest->arena, sizeof *added);
    *added = node;
    added->next = NULL;
    **end = added;
    *end = &added->next;
    return added;
}

Index *nest_at(Nest *nest, size_t count) {
    return arena_alloc(nest->arena, (count + 1) * sizeof(Index));
}

Index *nest_subscript(Nest *nest, Index at) {
    Index *list = nest_at(nest, 1);
    list[0] = at;
    return list;
}

NestNode *nest_copy(Arena *arena, const NestNode *node) {
    NestNode *first = NULL, **end = &first;
    for (; node; node = node->next) {
        NestNode *copy = arena_alloc(arena, sizeof *copy);
        *copy = *node;
        copy->at = arena_alloc(arena, (node->at_count + 1) * sizeof *copy->at);
        for (size_t i = 0; i < node->at_count; i++) copy->at[i] = node->at[i];
        copy->body = nest_copy(arena, node->body);
        copy->other = nest_copy(arena, node->other);
        copy->next = NULL;
        *end = copy;
        end = &copy->next;
    }
    return first;
}

bool nest_value_uses(const Nest *nest, ValueId value, SymbolId symbol) {
    const Value *v = &nest->values->values[value];
    if (!value) return false;
    if (v->op == VALUE_NAME) return v->payload == symbol;
    if (v->op == VALUE_INDEX) return index_uses(*nest_index_of(nest, v), symbol);
    for (int i = 0; i < op_info[v->op].arity; i++)
        if (v->arg[i] && nest_value_uses(nest, v->arg[i], symbol)) return true;
    return false;
}
