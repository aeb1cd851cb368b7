/* partition.c: contiguous ranges of items, one for each thread of a CPU or each warp of a GPU
 * (static scheduling): what items of a row leave is combined by whoever comes last, and a range
 * arrives once for all of its items of the row.
 *
 *   loop partition: grid partition_count
 *     load first, last
 *     loop i: serial min(last, all) - first
 *       let item = first + i
 *       ...
 *       when the range, or what the counter is for, ends behind the item
 *         arrive is_last = arrived[...] of siblings by as many as the range had
 */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

bool items_is_alone(const ItemBuilder *b) {
    return b->nest->lanes == 1 && !b->tensors;
}

/* Marks the arrays that are loaded; gives how many more there are. */
static size_t find_loaded(const Nest *nest, const NestNode *body, bool *known) {
    size_t count = 0;
    for (const NestNode *node = body; node; node = node->next) {
        const bool array =
            node->kind == NEST_LOAD && nest->symbols[node->array].kind == NAMED_ARRAY;
        if (array && !known[node->array]) {
            known[node->array] = true;
            count++;
        }
        count += find_loaded(nest, node->body, known) + find_loaded(nest, node->other, known);
    }
    return count;
}

/* A range takes registers of a warp, and what it saves, an arrival a tile, is little beside a tile
 * of many arrays. */
static bool is_light(const ItemBuilder *b) {
    enum { ARRAYS_MAX = 4 };
    bool *known = arena_alloc(b->arena, b->nest->symbol_count * sizeof *known);
    return find_loaded(b->nest, b->along->body, known) <= ARRAYS_MAX;
}

bool items_take_ranges(ItemBuilder *b) {
    if (items_is_alone(b)) return b->few || b->along->next;
    if (b->nest->lanes == 1 || b->chunked || !b->along->next || !is_light(b)) return false;
    b->first = nest_symbol(b->nest, "first", NAMED_VALUE, TYPE_I64);
    b->stop = nest_symbol(b->nest, "stop", NAMED_VALUE, TYPE_I64);
    return true;
}

static void load_entry(ItemBuilder *b, NestNode ***end, SymbolId name, Index entry) {
    nest_add(b->nest, end,
             (NestNode){.kind = NEST_LOAD,
                        .name = name,
                        .array = b->plain->partitions,
                        .at = make_at(b->nest, entry, NULL),
                        .at_count = 1});
}

/* Of one thread, where rows are short, all rows of a range are done at once. */
NestNode *items_partition(ItemBuilder *b, NestNode *work, Index all) {
    Nest *nest = b->nest;
    PlainNest *plain = b->plain;
    NestNode *body = NULL, **end = &body;
    const SymbolId partition = nest_symbol(b->nest, "partition", NAMED_LOOP, TYPE_I64);
    const SymbolId last = nest_symbol(b->nest, "last", NAMED_VALUE, TYPE_I64);
    plain->partitions =
        nest_array(nest, "partitions", TYPE_I64, ARRAY_TABLE, false, (Index){NULL, 0});
    plain->partition_count = nest_size(nest, "partition_count");
    load_entry(b, &end, b->first, make_symbol(b->nest, partition));
    load_entry(b, &end, last,
               make_add(b->nest, make_symbol(b->nest, partition), make_number(b->nest, 1)));
    nest_add(nest, &end,
             (NestNode){.kind = NEST_LET,
                        .name = b->stop,
                        .value = make_value(b->nest, OP_MIN, make_symbol(b->nest, last), all)});
    *end = work;
    if (b->few) {
        *end = nest_only_where(
            nest, make_less(b->nest, make_number(b->nest, b->few_max + 1), b->max), b->few);
        (*end)->other = work;
        (*end)->version = true;
    }
    return nest_around(nest, LOOP_GRID, partition, make_symbol(b->nest, plain->partition_count),
                       body);
}

void items_partition_table(ItemBuilder *b) {
    Nest *nest = b->nest;
    NestNode *table = b->tensors, *entries = arena_alloc(b->arena, sizeof *entries);
    const SymbolId step = nest_symbol(nest, "i", NAMED_LOOP, TYPE_I64);
    const Index first = make_symbol(nest, b->first);
    NestNode *body = NULL, **end = &body;
    b->entry = make_let(nest, &end, nest->symbols[table->name].name, TYPE_I64,
                        nest_index_value(nest, make_add(nest, first, make_symbol(nest, step))));
    nest_replace(nest, table->body, table->name, make_symbol(nest, b->entry));
    *end = table->body;
    *entries = *table;
    entries->loop = LOOP_SERIAL;
    entries->name = step;
    entries->extent = make_less(nest, make_symbol(nest, b->stop), first);
    entries->body = body;
    entries->next = NULL;
    NestNode *ranges = items_partition(b, entries, table->extent);
    ranges->range = table->range;
    ranges->next = table->next;
    *table = *ranges;
}

NestNode **items_range_ends(ItemBuilder *b, NestNode ***end, Index from, Index of, ValueId *by) {
    Nest *nest = b->nest;
    *by = 0;
    if (!b->ranged) return *end;
    const Index next = make_add(nest, make_symbol(nest, b->slot), make_number(nest, 1));
    const ValueId ends = make_value(nest, OP_GE, next, make_symbol(nest, b->stop));
    const ValueId complete = make_value(nest, OP_GE, next, make_add(nest, from, of));
    const SymbolId through =
        make_let(nest, end, "through", TYPE_BOOL, ir_op(nest->values, OP_OR, ends, complete, 0));
    NestNode **inside = &nest_add(nest, end, (NestNode){.kind = NEST_WHEN, .where = through})->body;
    const SymbolId begin = make_let(nest, &inside, "from", TYPE_I64,
                                    make_value(nest, OP_MAX, from, make_symbol(nest, b->first)));
    *by = nest_index_value(nest, make_less(nest, next, make_symbol(nest, begin)));
    return inside;
}

NestNode **items_arrive_once(ItemBuilder *b, NestNode ***end, Index at, Index from, Index of) {
    ValueId by;
    NestNode **inside = items_range_ends(b, end, from, of, &by);
    if (!b->ranged) return items_arrive(b, end, "arrived", at, of, 0);
    return items_arrive(b, &inside, "arrived", at, of, by);
}
