/* nest_access.c: loads and stores of a nest in generated code.
 *
 * In a vector loop neighbours of an array whose place is a multiple of the vector are one access,
 * ahead of the loop or behind it; all others are accessed element by element. Stores that go past
 * the caches are made in a block, which is sent off behind the loop. */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"
#include "emit/emit.h"

/* ---- arrays ---- */

/* The array of the plan that a symbol is; the plan's number of arrays: it is none. */
uint32_t print_array_of(const NestPrinter *p, SymbolId symbol) {
    uint32_t i = 0;
    while (i < p->e->plan->array_count && p->plain->arrays[i] != symbol) i++;
    return i;
}

static const char *storage(const NestPrinter *p, SymbolId array) {
    return type_info[p->nest->symbols[array].type].c_name;
}

/* The pointer to the elements. */
static const char *data_text(NestPrinter *p, const NestNode *node) {
    const uint32_t array = print_array_of(p, node->array);
    if (!node->list || node->list == p->tensor) return print_symbol(p, node->array);
    return arena_printf(p->arena, "LS_TENSOR(a->%s, %s)", p->e->field_name[array],
                        print_symbol(p, node->list));
}

/* Tables of integers that the runtime makes, one in each member of the arguments. */
static const char *table_text(NestPrinter *p, const NestNode *node) {
    if (node->array == p->plain->partitions) return print_range(p, node->at[0].count > 1);
    const char *at = print_index(p, node->at[0]);
    for (uint32_t axis = 0; axis < p->e->f->axis_count; axis++)
        if (p->plain->lengths[axis] == node->array)
            return arena_printf(p->arena, "a->%s[%s]", p->e->size_name[axis], at);
    for (int i = 0; i < 2; i++)
        if (p->plain->items[i] == node->array)
            return arena_printf(p->arena, "a->%s[%s].%s", p->e->table, at, i ? "item" : "tensor");
    return NULL;
}

/* ---- neighbours ---- */

bool print_defines(const NestNode *body, SymbolId symbol) {
    for (const NestNode *node = body; node; node = node->next)
        if (node->name == symbol || print_defines(node->body, symbol) ||
            print_defines(node->other, symbol))
            return true;
    return false;
}

bool print_varies(const NestNode *loop, Index index) {
    for (size_t t = 0; t < index.count; t++)
        for (uint32_t k = 0; k < index.terms[t].count; k++)
            if (print_defines(loop->body, index.terms[t].symbols[k])) return true;
    return false;
}

/* Whether all terms but the loop's own are multiples of the vector, or of 16 bytes on a GPU, where
 * no vector is aligned to more. */
static bool is_aligned(const NestPrinter *p, const NestNode *loop, const NestNode *node) {
    enum { ALIGNMENT = 16 };
    const Index at = node->at[0];
    const uint32_t size = (uint32_t)type_info[p->nest->symbols[node->array].type].size;
    uint32_t unit = print_width(loop);
    if (p->e->target->gpu && unit * size > ALIGNMENT) unit = ALIGNMENT / size;
    for (size_t t = 0; t < at.count; t++)
        if (!(at.terms[t].count == 1 && at.terms[t].symbols[0] == loop->name) &&
            at.terms[t].factor % unit)
            return false;
    return true;
}

/* Whether the limit leaves the first so many of a vector's elements. */
static bool has_packet_limit(NestPrinter *p, const NestNode *loop, const NestNode *node) {
    int64_t step;
    return !node->pad && !p->allocs[node->array] && !print_varies(loop, node->limit) &&
           index_is_number(index_coefficient(p->arena, node->limit, loop->name), &step) &&
           step == -1;
}

/* What has to hold, each once. */
typedef struct Tests {
    const char **texts;
    size_t count, capacity;
} Tests;

static bool has_test(const Tests *tests, const char *text) {
    for (size_t i = 0; i < tests->count; i++)
        if (strcmp(tests->texts[i], text) == 0) return true;
    return false;
}

static void add_test(NestPrinter *p, Tests *tests, const char *text) {
    if (has_test(tests, text)) return;
    tests->texts =
        arena_grow(p->arena, tests->texts, tests->count, &tests->capacity, sizeof *tests->texts);
    tests->texts[tests->count++] = text;
}

static const char *tests_text(NestPrinter *p, const Tests *tests) {
    Text text = text_open(p->arena);
    for (size_t i = 0; i < tests->count; i++)
        text_printf(&text, "%s%s", i ? " && " : "", tests->texts[i]);
    return tests->count ? text.data : "1";
}

/* Whether a product is a multiple of the vector because one of its factors is tested to be one. */
static bool is_multiple(const NestPrinter *p, const IndexTerm *term) {
    bool multiple = false;
    for (uint32_t k = 0; k < term->count && p->multiples && term->count > 1; k++)
        multiple |= p->multiples[term->symbols[k]];
    return multiple;
}

/* Adds under what the index is a multiple of the vector at the loop's first iteration, whatever
 * else it is made of; false: that cannot be known. */
static bool add_multiples(NestPrinter *p, const NestNode *loop, uint32_t width, Index index,
                          Tests *tests) {
    for (size_t t = 0; t < index.count; t++) {
        const IndexTerm *term = &index.terms[t];
        Text product = text_open(p->arena);
        if (term->factor % width == 0 || is_multiple(p, term)) continue;
        if (term->count == 1 && term->symbols[0] == loop->name) continue;
        for (uint32_t k = 0; k < term->count; k++)
            if (p->nest->symbols[term->symbols[k]].kind == NAMED_SIZE)
                text_printf(&product, "%s%s", product.size ? " * " : "",
                            print_symbol(p, term->symbols[k]));
        if (!product.size) return false;
        const int64_t factor = term->factor < 0 ? -term->factor : term->factor;
        if (factor != 1) text_printf(&product, " * %lld", (long long)factor);
        add_test(p, tests, arena_printf(p->arena, "%s %% %u == 0", product.data, width));
    }
    return true;
}

const char *print_multiples(NestPrinter *p, const NestNode *loop, uint32_t width, Index index) {
    Tests tests = {0};
    return add_multiples(p, loop, width, index, &tests) ? tests_text(p, &tests) : NULL;
}

/* Arrays of contiguous elements begin on a multiple. */
bool print_is_packet(NestPrinter *p, const NestNode *loop, const NestNode *node) {
    const uint32_t width = print_width(loop);
    int64_t step;
    const NestNode *alloc = p->allocs[node->array];
    if (loop->loop != LOOP_VECTOR || p->e->layout != LS_LAYOUT_DENSE) return false;
    if (alloc && alloc->scope == SCOPE_REGISTER) return false;
    if (node->has_limit && !has_packet_limit(p, loop, node)) return false;
    if ((node->kind != NEST_LOAD && node->kind != NEST_STORE) || node->at_count != 1) return false;
    if (width != 4 && width != 8) return false;
    if (node->where && (node->kind == NEST_LOAD || print_defines(loop->body, node->where)))
        return false;
    if (node->list && print_defines(loop->body, node->list)) return false;
    if (table_text(p, node) || print_varies(loop, node->at[0])) return false;
    const Index at = node->at[0];
    if (!index_is_number(index_coefficient(p->arena, at, loop->name), &step) || step != 1)
        return false;
    return node->has_limit || is_aligned(p, loop, node);
}

Index print_first_of(NestPrinter *p, const NestNode *loop, Index at) {
    return index_replace(p->arena, at, loop->name, (Index){NULL, 0});
}

static const char *packet_name(NestPrinter *p, const NestNode *loop, const NestNode *node) {
    const char *name = p->nest->symbols[node->array].name;
    return names_nest(p->e, arena_printf(p->arena, "%s_%s", name, print_span(loop)));
}

void print_open_vector(NestPrinter *p, const NestNode *loop) {
    for (NestNode *node = loop->body; node; node = node->next) {
        if (!print_is_packet(p, loop, node)) {
            print_adjacent(p, loop, node);
            continue;
        }
        const char *type = storage(p, node->array), *name = packet_name(p, loop, node);
        p->e->vectors[p->nest->symbols[node->array].type] = true;
        text_printf(p->out, "ls_%s_%s %s", print_span(loop), type, name);
        if (node->kind == NEST_LOAD) {
            const char *at = print_index(p, print_first_of(p, loop, node->at[0]));
            const bool whole = p->whole || p->whole_vectors;
            const char *form = !node->has_limit ? print_span(loop) : print_limited(loop, whole);
            text_printf(p->out, " = ls_load_%s_%s(%s, %s", form, type, data_text(p, node), at);
            if (node->has_limit)
                text_printf(p->out, ", %s", print_index(p, print_first_of(p, loop, node->limit)));
            if (node->has_limit && !whole)
                text_printf(p->out, ", %s", print_aligned(p, loop, node));
            text_puts(p->out, ")");
            p->packet[node->name] = name;
        } else {
            print_add_packet(p, node, name);
        }
        text_puts(p->out, ";\n");
    }
}

void print_close_vector(NestPrinter *p, const NestNode *loop) {
    for (NestNode *node = loop->body; node; node = node->next) {
        if (node->kind != NEST_STORE || !print_is_packet(p, loop, node)) continue;
        const char *type = storage(p, node->array);
        if (node->where) text_printf(p->out, "if (%s) ", print_symbol(p, node->where));
        const char *at = print_index(p, print_first_of(p, loop, node->at[0]));
        const char *data = data_text(p, node), *packet = print_packet_of(p, node);
        const char *form = print_limited(loop, p->whole_vectors);
        if (!node->has_limit) form = print_span(loop);
        text_printf(p->out, "ls_store_%s_%s(%s, %s, ", form, type, data, at);
        if (node->has_limit)
            text_printf(p->out, "%s, ", print_index(p, print_first_of(p, loop, node->limit)));
        if (node->has_limit && !p->whole_vectors)
            text_printf(p->out, "%s, ", print_aligned(p, loop, node));
        text_printf(p->out, "%s);\n", packet);
    }
}

/* That the limit lies beyond the last vector of the loop of vectors, or NULL. */
static const char *beyond_text(NestPrinter *p, const NestNode *loop, Index limit) {
    const NestNode *vector = loop->body;
    Arena *arena = p->arena;
    int64_t extent, step;
    limit = index_replace(arena, limit, vector->name, index_number(arena, print_width(vector) - 1));
    if (!index_is_number(loop->extent, &extent) || print_varies(loop, limit) ||
        !index_is_number(index_coefficient(arena, limit, loop->name), &step) || step > 0)
        return NULL;
    limit = index_replace(arena, limit, loop->name, index_number(arena, extent - 1));
    return arena_printf(arena, "%s > 0", print_index(p, limit));
}

/* Adds under what no vector lies across the limit: that is a multiple of the vector, or beyond the
 * last one; false: neither can be known. */
static bool add_within(NestPrinter *p, const NestNode *loop, Index limit, Tests *all) {
    Tests own = {0};
    const bool known = add_multiples(p, loop->body, print_width(loop->body), limit, &own);
    bool there = known;
    for (size_t i = 0; i < own.count; i++) there &= has_test(all, own.texts[i]);
    if (there) return true;
    const char *beyond = beyond_text(p, loop, limit), *multiples = tests_text(p, &own);
    if (known && !beyond)
        for (size_t i = 0; i < own.count; i++) add_test(p, all, own.texts[i]);
    else if (known)
        add_test(p, all,
                 arena_printf(p->arena, own.count > 1 ? "((%s) || %s)" : "(%s || %s)", multiples,
                              beyond));
    else if (beyond)
        add_test(p, all, beyond);
    return known || beyond;
}

const char *print_whole_if(NestPrinter *p, const NestNode *loop) {
    const NestNode *vector = loop->body;
    Tests all = {0};
    if (loop->loop != LOOP_UNROLLED || !vector || vector->next || vector->loop != LOOP_VECTOR ||
        p->whole_vectors)
        return NULL;
    for (const NestNode *node = vector->body; node; node = node->next) {
        if (node->kind == NEST_STORE && p->allocs[node->array]) continue;
        if (node->kind == NEST_LOAD && node->at_count == 1 && !node->has_limit && !node->where &&
            !index_uses(node->at[0], vector->name))
            continue; /* one element, whatever the vector's */
        if (node->kind != NEST_LOAD || !node->has_limit || !print_is_packet(p, vector, node))
            return NULL;
        if (!add_multiples(p, vector, print_width(vector), node->at[0], &all) ||
            !add_within(p, loop, node->limit, &all))
            return NULL;
    }
    return tests_text(p, &all);
}

void print_add_packet(NestPrinter *p, const NestNode *store, const char *name) {
    p->stored =
        arena_grow(p->arena, p->stored, p->stored_count, &p->stored_capacity, sizeof *p->stored);
    p->stored[p->stored_count++] = (StoredPacket){store, name, NULL};
}

static const StoredPacket *find_packet(const NestPrinter *p, const NestNode *store) {
    for (size_t i = p->stored_count; i-- > 0;)
        if (p->stored[i].store == store) return &p->stored[i];
    return NULL;
}

const char *print_packet_of(const NestPrinter *p, const NestNode *store) {
    const StoredPacket *packet = find_packet(p, store);
    return packet ? packet->name : NULL;
}

/* ---- past the caches ---- */

/* The index without what an unrolled loop over rows loads of each from registers; `print`: prints
 * these loads. */
static Index without_kept(NestPrinter *p, const NestNode *rows, Index index, bool print) {
    for (const NestNode *node = rows->body; node; node = node->next) {
        const NestNode *room = node->kind == NEST_LOAD ? p->allocs[node->array] : NULL;
        if (!room || room->scope != SCOPE_REGISTER || !index_uses(index, node->name)) continue;
        if (print)
            text_printf(p->out, "const i64 %s = %s[%s];\n", print_symbol(p, node->name),
                        print_symbol(p, node->array), print_index(p, node->at[0]));
        index = index_replace(p->arena, index, node->name, (Index){NULL, 0});
    }
    return index;
}

/* Of a loop's stores those that do, whose places follow each other. */
static bool is_streamed(NestPrinter *p, const NestNode *loop, const NestNode *body,
                        const NestNode *node) {
    int64_t step;
    return node->kind == NEST_STORE && node->hint == HINT_NON_TEMPORAL && !p->non_temporal_off &&
           index_is_number(index_coefficient(p->arena, node->at[0], loop->name), &step) &&
           step == 1 &&
           !print_varies(body,
                         body == loop ? node->at[0] : without_kept(p, body, node->at[0], false)) &&
           !(node->list && print_defines(body->body, node->list));
}

void print_open_non_temporal(NestPrinter *p, const NestNode *loop) {
    static const char *const suffixes[] = {"block", "to", NULL};
    for (NestNode *node = loop->body; node; node = node->next) {
        if (!is_streamed(p, loop, loop, node)) continue;
        const char *type = storage(p, node->array);
        const char *name = names_stem(p->e, NULL, p->nest->symbols[node->array].name, suffixes);
        text_printf(p->out,
                    "LS_ALIGN(64) %s %s_block[1024];\n%s *LS_RESTRICT const %s_to = non_temporal ? "
                    "%s_block : &%s[%s];\n",
                    type, name, type, name, name, data_text(p, node),
                    print_index(p, print_first_of(p, loop, node->at[0])));
        print_add_packet(p, node, name);
        p->non_temporal = true;
    }
}

void print_close_non_temporal(NestPrinter *p, const NestNode *loop, const char *count) {
    for (NestNode *node = loop->body; node; node = node->next) {
        if (!is_streamed(p, loop, loop, node)) continue;
        text_printf(p->out,
                    "if (non_temporal) ls_non_temporal(&%s[%s], %s_block, %s * (i64)sizeof(%s));\n",
                    data_text(p, node), print_index(p, print_first_of(p, loop, node->at[0])),
                    print_packet_of(p, node), print_bracketed(p, count), storage(p, node->array));
    }
}

/* Of each of the columns' rows the block has a part of its own; their lines are fetched first. */
void print_open_row_non_temporal(NestPrinter *p, const NestNode *loop) {
    static const char *const suffixes[] = {"block", "to", "row", NULL};
    const uint32_t columns = p->e->target->columns;
    for (const NestNode *rows = loop->body; rows; rows = rows->next) {
        int64_t count;
        if (rows->kind != NEST_LOOP || rows->loop != LOOP_UNROLLED) continue;
        if (!index_is_number(rows->extent, &count)) continue;
        for (const NestNode *node = rows->body; node; node = node->next) {
            if (!is_streamed(p, loop, rows, node)) continue;
            const char *type = storage(p, node->array), *j = print_symbol(p, rows->name);
            const char *name = names_stem(p->e, NULL, p->nest->symbols[node->array].name, suffixes);
            text_printf(
                p->out,
                "LS_ALIGN(64) %s %s_block[%lld * %u];\n%s *LS_RESTRICT const %s_to = non_temporal "
                "? %s_block : %s;\ni64 %s_row[%lld];\n",
                type, name, (long long)count, columns, type, name, name, data_text(p, node), name,
                (long long)count);
            text_printf(p->out, "LS_UNROLLED\nfor (i64 %s = 0; %s < %lld; %s++) {\n", j, j,
                        (long long)count, j);
            without_kept(p, rows, node->at[0], true);
            const char *row = arena_printf(p->arena, "%s_row[%s]", name, j);
            text_printf(p->out, "%s = non_temporal ? %u * %s : %s;\n", row, columns, j,
                        print_index(p, print_first_of(p, loop, node->at[0])));
            text_printf(p->out,
                        "if (!non_temporal) ls_own_lines(&%s_to[%s], %s * (i64)sizeof(%s));\n}\n",
                        name, row, print_bracketed(p, print_index(p, loop->extent)), type);
            print_add_packet(p, node, name);
            p->stored[p->stored_count - 1].row = row;
            p->non_temporal = true;
        }
    }
}

void print_close_row_non_temporal(NestPrinter *p, const NestNode *loop, const char *count) {
    const uint32_t columns = p->e->target->columns;
    for (const NestNode *rows = loop->body; rows; rows = rows->next) {
        if (rows->kind != NEST_LOOP) continue;
        for (const NestNode *node = rows->body; node; node = node->next) {
            const StoredPacket *packet = find_packet(p, node);
            if (!packet || !packet->row) continue;
            const char *j = print_symbol(p, rows->name);
            text_printf(p->out, "for (i64 %s = 0; non_temporal && %s < %s; %s++) {\n", j, j,
                        print_index(p, rows->extent), j);
            without_kept(p, rows, node->at[0], true);
            text_printf(
                p->out, "ls_non_temporal(&%s[%s], %s_block + %u * %s, %s * (i64)sizeof(%s));\n}\n",
                data_text(p, node), print_index(p, print_first_of(p, loop, node->at[0])),
                packet->name, columns, j, print_bracketed(p, count), storage(p, node->array));
        }
    }
}

/* ---- accesses ---- */

const char *print_condition(NestPrinter *p, const NestNode *node) {
    Text text = text_open(p->arena);
    const NestNode *alloc = p->allocs[node->array];
    if (node->where) text_puts(&text, print_symbol(p, node->where));
    if (node->has_limit && !(alloc && alloc->scope == SCOPE_REGISTER)) /* nobody else has those */
        text_printf(&text, "%s%s > 0", text.size ? " && " : "",
                    print_index(p, print_limit(p, node->limit)));
    return text.data;
}

/* The dims of registers that warps and lanes index: each thread has its own. */
static void find_private(NestPrinter *p, const NestNode *body, const NestNode *alloc) {
    for (const NestNode *node = body; node && alloc->scope == SCOPE_REGISTER; node = node->next) {
        find_private(p, node->body, alloc);
        find_private(p, node->other, alloc);
        if ((node->kind != NEST_LOAD && node->kind != NEST_STORE) || node->array != alloc->name)
            continue;
        for (uint32_t d = 0; d < node->at_count; d++)
            for (size_t t = 0; t < node->at[d].count; t++) {
                const uint8_t loop = p->loops[node->at[d].terms[t].symbols[0]];
                if (loop == 1 + LOOP_WARP || loop == 1 + LOOP_LANE)
                    p->private[alloc->name] |= 1U << d;
            }
    }
}

static bool is_dropped(const NestPrinter *p, const NestNode *alloc, size_t dim) {
    int64_t count = 0;
    return (p->private[alloc->name] >> dim & 1) ||
           (index_is_number(alloc->at[dim], &count) && count == 1);
}

static int64_t print_dims(NestPrinter *p, const NestNode *node) { /* gives their product */
    int64_t elements = 1;
    for (size_t i = 0; i < node->at_count; i++) {
        int64_t dim = 0;
        if (!index_is_number(node->at[i], &dim))
            bug(p->e->compiler, "memory of a size that is no constant has no text yet");
        if (is_dropped(p, node, i)) continue;
        text_printf(p->out, "[%lld]", (long long)dim);
        elements *= dim;
    }
    return elements;
}

/* A name for a part of the memory that the entry point has, or that all phases of it share. */
static void print_in_block(NestPrinter *p, const NestNode *node) {
    const NestSymbol *symbol = &p->nest->symbols[node->name];
    const char *type = emit_type(type_info[symbol->type].compute);
    text_printf(p->out, "%s(&%s)", type, print_symbol(p, node->name));
    print_dims(p, node);
    text_printf(p->out, " = *(%s(*)", type);
    const int64_t elements = print_dims(p, node);
    text_printf(p->out, ")(%s + %lld);\n", p->kernel ? "a->block_memory" : "ls_block_memory()",
                (long long)p->e->block_bytes);
    const Type stored = symbol->type == TYPE_BOOL ? TYPE_I32 : type_info[symbol->type].compute;
    const int64_t bytes = elements * type_info[stored].size;
    p->e->block_bytes += (bytes + 15) / 16 * 16;
}

/* A variable, or an array of a thread's own: dims of one element are none. */
void print_alloc(NestPrinter *p, const NestNode *node) {
    const NestSymbol *symbol = &p->nest->symbols[node->name];
    p->allocs[node->name] = node;
    if (node->scope == SCOPE_GLOBAL) {
        print_global(p, node);
        return;
    }
    find_private(p, p->nest->body, node);
    if (node->scope == SCOPE_SHARED && (p->e->target->by_address || !p->kernel)) {
        print_in_block(p, node);
        return;
    }
    text_printf(p->out, "%s%s %s",
                node->scope == SCOPE_SHARED   ? "LS_SHARED "
                : node->scope == SCOPE_WORKER ? "LS_ALIGN(64) "
                                              : "",
                emit_type(type_info[symbol->type].compute), print_symbol(p, node->name));
    print_dims(p, node);
    text_puts(p->out, ";\n");
}

static const char *alloc_text(NestPrinter *p, const NestNode *node) {
    const NestNode *alloc = p->allocs[node->array];
    Text text = text_open(p->arena);
    text_puts(&text, print_symbol(p, node->array));
    if (alloc->scope == SCOPE_GLOBAL) text_printf(&text, "[%s]", print_global_at(p, node));
    for (size_t i = 0; i < alloc->at_count && alloc->scope != SCOPE_GLOBAL; i++)
        if (!is_dropped(p, alloc, i))
            text_printf(&text, "[%s%s]",
                        p->plain->team && alloc->scope == SCOPE_SHARED ? "first_warp + " : "",
                        print_index(p, node->at[i]));
    return text.data;
}

/* Whether what stands between the node and the store leaves what the node reads as it is. Of two
 * arrays of the step, which may be one, no store is passed. */
static bool reaches(const NestPrinter *p, const NestNode *node, const NestNode *store) {
    for (const NestNode *next = node->next; next != store; next = next->next) {
        const bool stores = next->kind == NEST_STORE;
        const bool apart =
            node->array != next->array && (p->allocs[node->array] || p->allocs[next->array]);
        if ((stores && !apart) || (!stores && next->kind != NEST_LET && next->kind != NEST_LOAD &&
                                   next->kind != NEST_COMBINE))
            return false;
    }
    return true;
}

bool print_is_only_stored(const NestPrinter *p, const NestNode *node) {
    const NestNode *store = p->store[node->name];
    if (!store || p->uses[node->name] != 1 || p->user_body[node->name] != p->own_body[node->name])
        return false;
    if (node->kind == NEST_LET) return true;
    const NestNode *alloc = p->allocs[store->array];
    return !store->has_limit && !store->where &&
           (p->nest->lanes == 1 || (alloc && alloc->scope == SCOPE_REGISTER)) &&
           reaches(p, node, store);
}

bool print_is_loaded_once(const NestPrinter *p, SymbolId array) {
    for (const NestNode *node = p->nest->body; p->uses[array] == 1 && node; node = node->next)
        if (node->kind == NEST_LOAD && node->array == array) return true;
    return false;
}

void print_move(NestPrinter *p, const NestNode *node, const char *text) {
    p->moved[node->name] = node;
    p->moved_text[node->name] = text;
}

void print_load(NestPrinter *p, const NestNode *node) {
    const char *type = emit_type(p->nest->symbols[node->name].type), *table = table_text(p, node);
    const char *name = print_symbol(p, node->name), *condition = print_condition(p, node);
    const char *text =
        table                    ? table
        : p->allocs[node->array] ? alloc_text(p, node)
        : p->packet[node->name]
            ? arena_printf(p->arena, "%s.at[%s]", p->packet[node->name], print_symbol(p, p->vector))
        : p->is_scratch[node->array]
            ? arena_printf(p->arena, "%s[%s]", print_symbol(p, node->array),
                           print_index(p, node->at[0]))
            : arena_printf(p->arena, "ls_load_%s(%s, %s)", storage(p, node->array),
                           data_text(p, node), print_index(p, node->at[0]));
    const bool whole = p->packet[node->name] || (p->adjacent[node->name] && p->one_row);
    if (whole && !p->packet[node->name])
        text = arena_printf(p->arena, "%s.at[%s]", p->adjacent[node->name],
                            print_symbol(p, p->vector));
    else if (p->adjacent[node->name])
        text = arena_printf(p->arena, "%s_whole ? %s.at[%s] : %s", p->adjacent[node->name],
                            p->adjacent[node->name], print_symbol(p, p->vector), text);
    if (*condition && !whole)
        text = arena_printf(p->arena, "%s ? %s : %s", condition, text,
                            node->pad ? print_value(p, node->pad) : "0");
    if (print_is_only_stored(p, node))
        print_move(p, node, text);
    else
        text_printf(p->out, "const %s %s = %s;\n", type, name, text);
}

void print_store(NestPrinter *p, const NestNode *node) {
    const char *condition = print_condition(p, node), *packet = print_packet_of(p, node);
    const char *value = emit_bare(p->e, print_value(p, node->value));
    const Value *stored = &p->nest->values->values[node->value];
    if (stored->op == VALUE_NAME && p->moved[stored->payload])
        emit_quote_line(p->e, p->out, p->moved[stored->payload]->range);
    if (packet && node->hint != HINT_NON_TEMPORAL) {
        text_printf(p->out, "%s.at[%s] = %s;\n", packet, print_symbol(p, p->vector), value);
        return;
    }
    const NestNode *alloc = p->allocs[node->array];
    if (p->plain->finished && node->array == p->plain->finished) {
        const char *own = print_symbol(p, node->list);
        text_puts(p->out, emit_followed(p->e, node->list ? own : print_index(p, node->at[0])));
        return;
    }
    const bool alone = p->nest->lanes > 1 && !p->in_lane &&
                       !(alloc && alloc->scope == SCOPE_REGISTER); /* one thread stores it */
    if (alone)
        text_printf(p->out, "if (%s == 0%s%s) ",
                    p->in_warp || p->nest->warps == 1 ? p->lane ? p->lane : "ls_lane()"
                    : p->plain->team ? arena_printf(p->arena, "(%s | %s)", p->lane, p->warp)
                                     : "ls_thread()",
                    *condition ? " && " : "", condition);
    else if (*condition)
        text_printf(p->out, "if (%s) ", condition);
    const char *row = packet ? find_packet(p, node)->row : NULL;
    if (alloc && alloc->scope == SCOPE_GLOBAL && p->nest->lanes > 1)
        text_printf(p->out, "LS_PUBLISH(&%s, %s);\n", alloc_text(p, node), value);
    else if (alloc)
        text_printf(p->out, "%s = %s;\n", alloc_text(p, node), value);
    else if (p->is_scratch[node->array])
        text_printf(p->out, "%s[%s] = %s;\n", print_symbol(p, node->array),
                    print_index(p, node->at[0]), value);
    else if (node->kind == NEST_ADD)
        text_printf(p->out, "%s(%s, %s, %s);\n",
                    node->op == OP_SCATTER_MIN ? "LS_ADD_MIN" : "LS_ADD", data_text(p, node),
                    print_index(p, node->at[0]), value);
    else if (packet && row)
        text_printf(p->out, "ls_store_%s(%s_to, %s + %s, %s);\n", storage(p, node->array), packet,
                    row, print_symbol(p, p->columns), value);
    else if (packet)
        text_printf(p->out, "ls_store_%s(%s_to, %s, %s);\n", storage(p, node->array), packet,
                    print_symbol(p, p->run), value);
    else
        text_printf(p->out, "ls_store_%s(%s, %s, %s);\n", storage(p, node->array),
                    data_text(p, node), print_index(p, node->at[0]), value);
}
