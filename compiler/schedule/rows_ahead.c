/* rows_ahead.c: short rows in which nothing is reduced, for one thread: what the rows have besides
 * their elements, the root of a norm say, ahead of them for a batch of rows at once.
 *
 * Fission of the loop over rows with scalar expansion: a loop computes such values of all rows of a
 * batch, by vectors where the compiler has them, and stores them to memory of the thread; a second
 * loop loads them and goes along the rows. Where rows are long the values are few, and computed
 * behind the elements of the row before. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

enum { ROWS = 64, SHORT = 512, WORK_MIN = 8 /* that of a root or a division */, VALUES = 16 };

typedef struct RowsAhead {
    ItemBuilder *items;
    Nest *nest;
    NestNode *row, *along;   /* the loops over rows and along them */
    SymbolId values[VALUES]; /* of a row, which its elements use */
    SymbolId rooms[VALUES];  /* and where a batch has them */
    size_t value_count;
} RowsAhead;

/* Straight code, of which nothing changes what other rows have ahead of their elements. */
static bool is_straight(const RowsAhead *a, const NestNode *body) {
    for (const NestNode *node = body; node; node = node->next) {
        if (node->kind != NEST_LET && node->kind != NEST_LOAD && node->kind != NEST_STORE)
            return false;
        if (node->kind == NEST_LET && a->nest->values->values[node->value].op == OP_FLOORDIV)
            return false; /* coordinates are divided out of its index */
        for (const NestNode *own = a->row->body; own != a->along; own = own->next)
            if (node->kind == NEST_STORE && own->kind == NEST_LOAD && own->array == node->array)
                return false;
    }
    return true;
}

/* Whether it takes a root, a division or what is slower. */
static bool is_slow(const Nest *nest, ValueId id) {
    const Value *v = &nest->values->values[id];
    if (!id || v->op == VALUE_NAME || v->op == VALUE_INDEX) return false;
    if (v->type != TYPE_I64 && op_info[v->op].work >= WORK_MIN) return true;
    for (int i = 0; i < op_info[v->op].arity; i++)
        if (is_slow(nest, v->arg[i])) return true;
    return false;
}

/* Rows of one length: values of which one is slow, and a loop that uses them. */
static bool find_values(RowsAhead *a) {
    const Nest *nest = a->nest;
    int64_t known;
    bool any = false;
    for (a->along = a->row->body; a->along && a->along->kind != NEST_LOOP;
         a->along = a->along->next)
        if (a->along->kind != NEST_LET && a->along->kind != NEST_LOAD) return false;
    if (!a->along || a->along->next || !is_straight(a, a->along->body)) return false;
    if (!nest_is_of_sizes(nest, a->row->extent) || !nest_is_of_sizes(nest, a->along->extent))
        return false;
    if (index_is_number(a->row->extent, &known) && known == 1) return false;
    if (index_is_number(a->along->extent, &known) && known > SHORT) return false;
    for (const NestNode *node = a->row->body; node != a->along; node = node->next) {
        any |= is_slow(nest, node->value);
        if (!nest_body_uses(nest, a->along, node->name)) continue;
        if (a->value_count == VALUES) return false;
        a->values[a->value_count++] = node->name;
    }
    return any;
}

static NestNode *over_rows(RowsAhead *a, NestNode *body, Index begin, Index count, SymbolId r) {
    const Index row = make_add(a->nest, begin, make_symbol(a->nest, r));
    body = nest_put_index(a->nest, nest_clone(a->nest, body), a->row->name, row);
    NestNode *loop = nest_around(a->nest, LOOP_SERIAL, r, count, body);
    loop->range = a->row->range;
    return loop;
}

/* The values of the rows from `begin` on, each in its room. */
static NestNode *values_of(RowsAhead *a, Index begin, Index count) {
    const SymbolId r = make_loop_name(a->nest, "r");
    NestNode *body = NULL, **end = &body;
    for (const NestNode *node = a->row->body; node != a->along; node = node->next)
        nest_add(a->nest, &end, *node);
    for (size_t i = 0; i < a->value_count; i++)
        make_store(a->nest, &end, a->rooms[i], make_symbol(a->nest, r), NULL,
                   nest_name(a->nest, a->values[i]));
    return over_rows(a, body, begin, count, r);
}

/* The elements of these rows, behind prefetches of the rows that come next. */
static NestNode *elements_of(RowsAhead *a, Index begin, Index count) {
    const SymbolId r = make_loop_name(a->nest, "r");
    RowPrefetch ahead;
    NestNode *body = NULL, **end = &body;
    for (size_t i = 0; i < a->value_count; i++)
        make_load(a->nest, &end, a->values[i], a->rooms[i], make_symbol(a->nest, r), NULL);
    if (items_prefetch(a->items, &ahead))
        make_append(&end, schedule_prefetch(&ahead, true, make_symbol(a->nest, a->row->name),
                                            make_number(a->nest, 0), a->along->extent));
    nest_add(a->nest, &end, *a->along);
    NestNode *loop = over_rows(a, body, begin, count, r), *along = loop->body;
    while (along->kind != NEST_LOOP) along = along->next;
    items_elements(a->items, &loop, along->name);
    return loop;
}

static NestNode *batches_of(RowsAhead *a, Index begin, Index stop) {
    Nest *nest = a->nest;
    NestNode *first = NULL, **end = &first;
    const SymbolId batch = make_loop_name(nest, "batch");
    const Index together = make_number(nest, ROWS);
    const Index more = make_add(nest, make_less(nest, stop, begin), make_number(nest, ROWS - 1));
    const Index batches =
        make_let_index(nest, &end, "batches", make_value(nest, OP_FLOORDIV, more, together));
    NestNode *loop = nest_add(
        nest, &end,
        (NestNode){.kind = NEST_LOOP, .loop = LOOP_SERIAL, .name = batch, .extent = batches});
    end = &loop->body;
    begin = make_add(nest, begin, make_scale(nest, make_symbol(nest, batch), ROWS));
    const Index count = make_let_index(
        nest, &end, "rows", make_value(nest, OP_MIN, together, make_less(nest, stop, begin)));
    for (size_t i = 0; i < a->value_count; i++) {
        const NestSymbol *own = &nest->symbols[a->values[i]];
        a->rooms[i] =
            make_alloc(nest, &end, SCOPE_WORKER,
                       arena_printf(a->items->arena, "%s_rows", own->name), own->type, together);
    }
    make_append(&end, values_of(a, begin, count));
    make_append(&end, elements_of(a, begin, count));
    return first;
}

void items_rows_ahead(ItemBuilder *b) {
    RowsAhead own = {.items = b, .nest = b->nest, .row = *b->row}, *a = &own;
    if (b->tensors || b->numbers->layout == LS_LAYOUT_STRIDED || !find_values(a)) return;
    b->few_max = SHORT;
    b->few = batches_of(a, make_symbol(b->nest, b->first), make_symbol(b->nest, b->stop));
}
