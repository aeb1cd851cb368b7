/* nest_global.c: the memory of all blocks in generated code: what items leave there for others, the
 * counters that they arrive at, and what the last of them combines.
 *
 * An item has a part of its own of such memory, which is a temporary of the step: as much for each
 * as the nest says. Counters begin as 0 and are 0 again when the last has come. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"
#include "emit/emit.h"

enum { TILE = 1024 };

/* Elements for each item. */
static uint64_t times_of(NestPrinter *p, const NestNode *alloc) {
    Arena *arena = p->arena;
    for (int64_t times = 1; times <= TILE; times *= 2)
        if (index_equal(alloc->at[0], index_scale(arena, p->plain->slots, times)))
            return (uint64_t)times;
    bug(p->e->compiler, "global memory is not of as many elements for each item");
    return 0;
}

static bool has_field(const Emitter *e, const char *name) {
    for (size_t i = 0; i < e->field_count; i++)
        if (strcmp(e->fields[i].temporary.name, name) == 0) return true;
    return false;
}

/* Memory of a nest may have the name of other memory of it, or that and a number. */
static const char *unused_field(const Emitter *e, const char *wish) {
    const char *name = wish;
    for (unsigned number = 2; has_field(e, name); number++)
        name = arena_printf(e->arena, "%s_%u", wish, number);
    return name;
}

/* Of memory of rows, how many elements one has. */
static int64_t row_of(const NestPrinter *p, const NestNode *alloc) {
    int64_t row = 1;
    if (alloc->at_count > 2 || (alloc->at_count == 2 && !index_is_number(alloc->at[1], &row)))
        bug(p->e->compiler, "global memory of this form has no text yet");
    return row;
}

const char *print_global_at(NestPrinter *p, const NestNode *node) {
    const NestNode *alloc = p->allocs[node->array];
    Index at = index_scale(p->arena, node->at[0], row_of(p, alloc));
    if (node->at_count > 1) at = index_add(p->arena, at, node->at[1]);
    return print_index(p, at);
}

void print_global(NestPrinter *p, const NestNode *alloc) {
    Emitter *e = p->e;
    const NestSymbol *symbol = &p->nest->symbols[alloc->name];
    const Type type = symbol->type == TYPE_BOOL ? TYPE_I32 : type_info[symbol->type].compute;
    const char *name =
        unused_field(e, arena_printf(e->arena, "phase_%u_%s", e->number, symbol->name));
    ls_image_extent extent = e->items;
    extent.scale *= times_of(p, alloc) * (uint64_t)row_of(p, alloc) * type_info[type].size;
    emit_add_field(e, name, type_info[type].c_name, extent, p->is_counter[alloc->name]);
    p->spelled[alloc->name] = arena_printf(e->arena, "a->%s", name);
}

static bool stores_to(const NestNode *node, SymbolId array) {
    for (; node; node = node->next)
        if (((node->kind == NEST_STORE || node->kind == NEST_ADD) && node->array == array) ||
            stores_to(node->body, array) || stores_to(node->other, array))
            return true;
    return false;
}

/* Whether all that is loaded behind the arrival, of what other items may have stored, is in memory
 * of all blocks, whose stores are published. */
static bool loads_published(const NestPrinter *p, const NestNode *body, const NestNode *arrive,
                            bool *behind) {
    for (const NestNode *node = body; node; node = node->next) {
        *behind |= node == arrive;
        if (*behind && node->kind == NEST_LOAD && !p->allocs[node->array] &&
            stores_to(p->nest->body, node->array))
            return false;
        if (!loads_published(p, node->body, arrive, behind) ||
            !loads_published(p, node->other, arrive, behind))
            return false;
    }
    return true;
}

/* Where the range of items that a thread is given begins or ends, or that of a warp, which has its
 * share of all. */
const char *print_range(NestPrinter *p, bool end) {
    if (!p->e->target->gpu) return end ? "(i64)last_item" : "(i64)first_item";
    return arena_printf(p->arena, "ls_range_%s(%s, first_item, last_item, item_step)",
                        end ? "end" : "begin", emit_bare(p->e, print_index(p, p->plain->slots)));
}

void print_last(NestPrinter *p, const NestNode *arrive) {
    if (p->nest->warps > 1 && !p->in_warp)
        bug(p->e->compiler, "an arrival of several warps has no text yet");
    const char *by = arrive->value ? print_value(p, arrive->value) : NULL;
    /* of several warps the one that arrives speaks for what the others have loaded, too */
    bool behind = p->nest->warps > 1;
    const bool published = p->nest->lanes > 1 && loads_published(p, p->nest->body, arrive, &behind);
    text_printf(p->out, "const int %s = ls_arrive%s%s(&%s[%s], (u32)%s%s%s);\n",
                print_symbol(p, arrive->name), by ? "_by" : "", published ? "_published" : "",
                print_symbol(p, arrive->array), print_index(p, arrive->at[0]),
                print_bracketed(p, print_index(p, arrive->extent)), by ? ", (u32)" : "",
                by ? print_bracketed(p, by) : "");
}

/* Of a phase of several warps the first one may arrive at a counter behind the barrier: its fence
 * speaks for all of them. */
void print_barrier(NestPrinter *p, const NestNode *node) {
    const bool releases = p->nest->warps > 1 && !p->kernel && nest_has(p->nest->body, NEST_ARRIVE);
    if (node->scope == SCOPE_GRID) bug(p->e->compiler, "a barrier of the grid has no text yet");
    text_puts(p->out, node->scope == SCOPE_WARP ? "ls_warp_sync();\n"
                      : releases                ? "ls_barrier_release();\n"
                                                : "ls_barrier();\n");
}

/* Memory that is wanted soon: in the nearest cache, or not there. */
void print_prefetch(NestPrinter *p, const NestNode *node) {
    text_printf(p->out, "%s(&%s[%s], %s * (i64)sizeof(%s));\n",
                node->hint == HINT_L2 ? "ls_prefetch_rows" : "ls_prefetch",
                print_symbol(p, node->array), print_index(p, node->at[0]),
                print_bracketed(p, print_index(p, node->extent)),
                type_info[p->nest->symbols[node->array].type].c_name);
}

bool print_is_tile(const NestPrinter *p, Index count) {
    int64_t number;
    if (index_is_number(count, &number)) return number <= TILE;
    if (count.count != 1 || count.terms[0].count != 1 || count.terms[0].factor != 1) return false;
    const ValueId id = p->value_of[count.terms[0].symbols[0]];
    const Value *values = p->nest->values->values, *v = &values[id];
    for (int i = 0; id && v->op == OP_MIN && i < 2; i++) {
        const Value *other = &values[v->arg[i]];
        if (other->op == OP_CONST && other->payload <= TILE) return true;
    }
    return false;
}

const char *print_combined(NestPrinter *p, const NestNode *combine, const char *kind) {
    Arena *arena = p->arena;
    const char *at = print_global_at(p, combine), *count = print_index(p, combine->extent);
    const char *array = print_symbol(p, combine->array);
    const char *one = arena_printf(arena, "%s[%s]", array, at);
    if (*at != '0' || at[1]) array = arena_printf(arena, "%s + %s", array, at);
    if (combine->at_count > 1)
        return arena_printf(arena, "ls_tree_alone_%s(%s, %s, %lld)", kind, array, count,
                            (long long)row_of(p, p->allocs[combine->array]));
    const char *text =
        arena_printf(arena, "ls_%s_%s(%s, %s)",
                     print_is_tile(p, combine->extent) ? "gather" : "tree", kind, array, count);
    return p->nest->lanes > 1 ? text : arena_printf(arena, "%s == 1 ? %s : %s", count, one, text);
}
