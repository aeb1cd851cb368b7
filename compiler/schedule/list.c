/* list.c: a list's items of work by the table that the runtime makes of its tensors' lengths: an
 * entry says which item of which tensor is next. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

static SymbolId load_entry(PlainNest *plain, int column, SymbolId entry, NestNode ***end) {
    static const char *const tables[] = {"item_tensor", "item_number"};
    static const char *const names[] = {"tensor", "item"};
    Nest *nest = plain->nest;
    const SymbolId name = nest_symbol(nest, names[column], NAMED_VALUE, TYPE_I64);
    plain->items[column] =
        nest_array(nest, tables[column], TYPE_I64, ARRAY_TABLE, false, (Index){NULL, 0});
    nest_add(nest, end,
             (NestNode){.kind = NEST_LOAD,
                        .name = name,
                        .array = plain->items[column],
                        .at = nest_subscript(nest, index_symbol(nest->arena, entry)),
                        .at_count = 1});
    return name;
}

void schedule_table(PlainNest *plain, NestNode *tensors, NestNode *items) {
    Nest *nest = plain->nest;
    NestNode *first = NULL, **end = &first, *after = items->next;
    const SymbolId entry = nest_symbol(nest, "entry", NAMED_LOOP, TYPE_I64);
    plain->item_count = nest_size(nest, "item_count");
    const SymbolId tensor = load_entry(plain, 0, entry, &end);
    const SymbolId item = load_entry(plain, 1, entry, &end);
    int64_t count;
    const bool one = index_is_number(items->extent, &count) && count == 1;
    nest_replace(nest, items->body, items->name,
                 one ? index_number(nest->arena, 0) : index_symbol(nest->arena, item));
    NestNode **place = &tensors->body;
    while (*place != items) place = &(*place)->next;
    *place = items->body;
    while (*place) place = &(*place)->next;
    *place = after;
    nest_replace(nest, tensors->body, tensors->name, index_symbol(nest->arena, tensor));
    *end = tensors->body;
    tensors->body = first;
    tensors->name = entry;
    tensors->extent = index_symbol(nest->arena, plain->item_count);
}
