/* make.c: indices and nodes, for schedules and passes. */
#include "base/base.h"
#include "ir/ir.h"
#include "loop/loop.h"

Index make_number(Nest *nest, int64_t n) {
    return index_number(nest->arena, n);
}

Index make_symbol(Nest *nest, SymbolId symbol) {
    return index_symbol(nest->arena, symbol);
}

Index make_add(Nest *nest, Index x, Index y) {
    return index_add(nest->arena, x, y);
}

Index make_less(Nest *nest, Index x, Index y) {
    return index_subtract(nest->arena, x, y);
}

Index make_times(Nest *nest, Index x, Index y) {
    return index_multiply(nest->arena, x, y);
}

Index make_scale(Nest *nest, Index x, int64_t factor) {
    return index_scale(nest->arena, x, factor);
}

Index *make_at(Nest *nest, Index first, const Index *second) {
    Index *list = nest_at(nest, second ? 2 : 1);
    list[0] = first;
    if (second) list[1] = *second;
    return list;
}

SymbolId make_loop_name(Nest *nest, const char *name) {
    return nest_symbol(nest, name, NAMED_LOOP, TYPE_I64);
}

ValueId make_constant(Nest *nest, int64_t n) {
    return ir_constant(nest->values, TYPE_I64, (uint64_t)n);
}

ValueId make_value(Nest *nest, Op op, Index x, Index y) {
    return ir_op(nest->values, op, nest_index_value(nest, x), nest_index_value(nest, y), 0);
}

SymbolId make_let(Nest *nest, NestNode ***end, const char *name, Type type, ValueId value) {
    const SymbolId own = nest_symbol(nest, name, NAMED_VALUE, type);
    nest_add(nest, end, (NestNode){.kind = NEST_LET, .name = own, .value = value});
    return own;
}

Index make_let_index(Nest *nest, NestNode ***end, const char *name, ValueId value) {
    return make_symbol(nest, make_let(nest, end, name, TYPE_I64, value));
}

Index make_let_min(Nest *nest, NestNode ***end, const char *name, int64_t max, Index x) {
    int64_t known;
    if (index_is_number(x, &known)) return make_number(nest, known < max ? known : max);
    return make_let_index(nest, end, name, make_value(nest, OP_MIN, make_number(nest, max), x));
}

Index make_let_divided(Nest *nest, NestNode ***end, const char *const names[2], Index x, Index by,
                       Index *rest) {
    int64_t known;
    *rest = make_number(nest, 0);
    if (index_is_number(by, &known) && known == 1) return x;
    const Index quotient =
        make_let_index(nest, end, names[0], make_value(nest, OP_FLOORDIV, x, by));
    const Index left = make_less(nest, x, make_times(nest, quotient, by));
    *rest = make_let_index(nest, end, names[1], nest_index_value(nest, left));
    return quotient;
}

void make_store(Nest *nest, NestNode ***end, SymbolId array, Index at, const Index *second,
                ValueId value) {
    nest_add(nest, end,
             (NestNode){.kind = NEST_STORE,
                        .array = array,
                        .at = make_at(nest, at, second),
                        .at_count = second ? 2 : 1,
                        .value = value});
}

void make_load(Nest *nest, NestNode ***end, SymbolId name, SymbolId array, Index at,
               const Index *second) {
    nest_add(nest, end,
             (NestNode){.kind = NEST_LOAD,
                        .name = name,
                        .array = array,
                        .at = make_at(nest, at, second),
                        .at_count = second ? 2 : 1});
}

NestNode *make_push(Nest *nest, NestNode ***end, SymbolId tree, Index first, const Index *leaf,
                    ValueId value) {
    return nest_add(nest, end,
                    (NestNode){.kind = NEST_PUSH,
                               .array = tree,
                               .at = make_at(nest, first, leaf),
                               .at_count = leaf ? 2 : 1,
                               .value = value});
}

NestNode *make_combine(Nest *nest, NestNode ***end, SymbolId name, SymbolId tree, const Index *at,
                       Index count) {
    return nest_add(nest, end,
                    (NestNode){.kind = NEST_COMBINE,
                               .name = name,
                               .array = tree,
                               .at = at ? make_at(nest, *at, NULL) : nest_at(nest, 0),
                               .at_count = at != NULL,
                               .extent = count});
}

SymbolId make_alloc(Nest *nest, NestNode ***end, NestScope scope, const char *name, Type type,
                    Index extent) {
    const SymbolId own = nest_symbol(nest, name, NAMED_ALLOC, type);
    nest_add(nest, end,
             (NestNode){.kind = NEST_ALLOC,
                        .scope = scope,
                        .name = own,
                        .at = make_at(nest, extent, NULL),
                        .at_count = 1});
    return own;
}

void make_append(NestNode ***end, NestNode *body) {
    **end = body;
    while (**end) *end = &(**end)->next;
}
