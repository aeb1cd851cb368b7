/* nest_leaves.c: loops over the vectors of a row, in the code of one thread.
 *
 * What such a loop does for a vector is a function of its own, which the functions of reduce_cpu.h
 * are given: these know in which order a tree wants its leaves, and for how many elements which
 * form of it is best. What the function uses of the row lies in a structure: where its elements
 * begin in each array, values, and where those of a row to come are that is prefetched. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"
#include "emit/emit.h"

enum { BATCH = 16, CAPTURED_MAX = 64, WIDTH = 16 };

typedef enum CapturedKind {
    CAPTURED_VALUE,    /* of the row, from outside */
    CAPTURED_ROWS,     /* of each row, in memory of the thread */
    CAPTURED_LOAD,     /* where a load's first element lies */
    CAPTURED_STORE,    /* where a store's does */
    CAPTURED_PITCH,    /* elements from row to row */
    CAPTURED_PREFETCH, /* where what is prefetched begins; 0: nothing is */
} CapturedKind;

typedef struct Captured {
    CapturedKind kind;
    SymbolId symbol; /* of a value or a load, else 0 */
    const char *type, *name, *from;
    const char
        *place; /* of a pitch the number, of others what of the row it is, or NULL: its name */
    Index pitch;
    const char *prefetch;     /* the function that prefetches */
    uint32_t bytes;           /* of a vector there */
    const char *old_spelling; /* of the symbol */
    ValueId old_inside;
} Captured;

typedef struct Leaves {
    NestPrinter *p;
    const NestNode *loop, *vector; /* over vectors, and of one */
    const NestNode
        *rows; /* down columns the loop over rows, which is the function's, too; or NULL */
    Captured captured[CAPTURED_MAX];
    size_t count;
    NameTable names; /* of the function */
    size_t trees;
    Text stores; /* of what a row has stored, where there is such */
    Text places; /* where a row of columns begins, as numbers that compilers do not look into: they
                  * would keep the address in each array for each of eight rows */
} Leaves;

static bool is_vector(const NestNode *node) {
    return node && node->kind == NEST_LOOP && node->loop == LOOP_VECTOR;
}

static const NestNode *last_of(const NestNode *body) {
    while (body && body->next) body = body->next;
    return body;
}

/* Of one vector there is no loop around it. */
bool print_is_leaves(const NestPrinter *p, const NestNode *loop) {
    if (p->nest->lanes > 1 || loop->kind != NEST_LOOP) return false;
    if (is_vector(loop)) return true;
    const NestNode *last = last_of(loop->body);
    if (loop->loop != LOOP_SERIAL || !is_vector(last)) return false;
    for (const NestNode *node = last->body; node; node = node->next)
        if (node->kind == NEST_PUSH && index_uses(node->at[node->at_count - 1], loop->name))
            return true;
    return false;
}

/* ---- what the function uses of the row ---- */

/* A name in the function and the structure; `user`: of the source, which is called there as
 * elsewhere. */
static const char *own_name(Leaves *l, const char *wish, bool user) {
    Emitter *e = l->p->e;
    const NameTable outer = e->names;
    e->names = l->names;
    const char *name = user && !print_is_unnamed(wish) ? names_user(e, wish) : names_made(e, wish);
    l->names = e->names;
    e->names = outer;
    return name;
}

static Captured *capture(Leaves *l, CapturedKind kind, const char *type, const char *name,
                         const char *from) {
    if (l->count == CAPTURED_MAX) bug(l->p->e->compiler, "a row has too many values");
    Captured *captured = &l->captured[l->count++];
    *captured = (Captured){.kind = kind, .type = type, .name = name, .from = from};
    return captured;
}

static bool is_of_vector(const Leaves *l, SymbolId symbol) {
    for (const NestNode *node = l->vector->body; node; node = node->next)
        if (node->name == symbol) return true;
    return false;
}

static void capture_value(Leaves *l, SymbolId symbol) {
    NestPrinter *p = l->p;
    for (size_t i = 0; i < l->count; i++)
        if (l->captured[i].symbol == symbol) return;
    const char *from =
        p->inside[symbol] ? print_value(p, p->inside[symbol]) : print_symbol(p, symbol);
    Captured *captured = capture(
        l, CAPTURED_VALUE, arena_printf(p->arena, "%s ", emit_type(p->nest->symbols[symbol].type)),
        own_name(l, p->nest->symbols[symbol].name, true), emit_bare(p->e, from));
    captured->symbol = symbol;
}

static void capture_values(Leaves *l, ValueId id) {
    const Value *v = &l->p->nest->values->values[id];
    if (v->op == VALUE_NAME) {
        if (!is_of_vector(l, (SymbolId)v->payload)) capture_value(l, (SymbolId)v->payload);
        return;
    }
    for (int i = 0; i < op_info[v->op].arity; i++) capture_values(l, v->arg[i]);
}

/* The index where the row begins. */
static Index begin_of(const Leaves *l, Index index) {
    Arena *arena = l->p->arena;
    const Index first = {NULL, 0};
    index = index_replace(arena, index, l->vector->name, first);
    if (l->rows) index = index_replace(arena, index, l->rows->name, first);
    return index_replace(arena, index, l->loop->name, first);
}

/* What an array is called in generated code, so that a name of the source stays one name. */
static const char *array_name(const Leaves *l, SymbolId array) {
    const NestPrinter *p = l->p;
    const uint32_t own = print_array_of(p, array);
    for (uint32_t i = 0; p->plain->packed && i < p->e->plan->array_count; i++)
        if (p->plain->packed[i] == array) return p->e->packed_name[i];
    return own < p->e->plan->array_count ? p->e->field_name[own] : p->nest->symbols[array].name;
}

static const char *pointer_type(const Leaves *l, SymbolId array) {
    const NestPrinter *p = l->p;
    return arena_printf(p->arena, "const %s *", type_info[p->nest->symbols[array].type].c_name);
}

static const char *address(const Leaves *l, const NestNode *node) {
    NestPrinter *p = l->p;
    return arena_printf(p->arena, "&%s[%s]", print_symbol(p, node->array),
                        print_index(p, begin_of(l, node->at[0])));
}

/* Where the first element lies that the node accesses, and from row to row; gives what a row of the
 * function's has there. */
static Captured *capture_place(Leaves *l, const NestNode *node, const char *wish) {
    NestPrinter *p = l->p;
    const bool written = node->kind == NEST_STORE;
    const char *type = arena_printf(p->arena, "%s%s *", written ? "" : "const ",
                                    type_info[p->nest->symbols[node->array].type].c_name);
    Captured *captured = capture(l, written ? CAPTURED_STORE : CAPTURED_LOAD, type,
                                 own_name(l, wish, false), address(l, node));
    captured->place = arena_printf(p->arena, "row->%s + at", captured->name);
    const Index pitch =
        l->rows ? index_coefficient(p->arena, node->at[0], l->rows->name) : (Index){NULL, 0};
    if (!pitch.count) return captured;
    const char *name = NULL;
    for (size_t i = 0; i < l->count; i++)
        if (l->captured[i].kind == CAPTURED_PITCH && index_equal(l->captured[i].pitch, pitch))
            name = l->captured[i].place;
    if (!name) {
        const char *field = own_name(l, "pitch", false);
        Captured *own = capture(l, CAPTURED_PITCH, "i64 ", field, print_index(p, pitch));
        own->pitch = pitch;
        name = own->place = own_name(l, "place", false);
        text_printf(&l->places, "const i64 %s = ls_bound(row->%s * r + at);\n", name, field);
    }
    captured->place = arena_printf(p->arena, "row->%s + %s", captured->name, name);
    return captured;
}

/* Prefetches, under the conditions that they stand in. */
static void capture_prefetches(Leaves *l, const NestNode *body, const char *conditions) {
    NestPrinter *p = l->p;
    for (const NestNode *node = body; node && node != l->vector; node = node->next) {
        if (node->kind == NEST_IF) {
            const char *own = print_amount(p, node->extent);
            capture_prefetches(l, node->body,
                               conditions ? arena_printf(p->arena, "%s && %s", conditions, own)
                                          : own);
        } else if (node->kind == NEST_PREFETCH) {
            const bool far = node->hint == HINT_L2;
            const char *name =
                arena_printf(p->arena, "%s_%s", array_name(l, node->array), far ? "far" : "near");
            const char *from = address(l, node);
            Captured *captured = capture(
                l, CAPTURED_PREFETCH, pointer_type(l, node->array), own_name(l, name, true),
                conditions ? arena_printf(p->arena, "%s ? %s : 0", conditions, from) : from);
            captured->prefetch = far ? "ls_prefetch_rows" : "ls_prefetch";
            captured->bytes = WIDTH * type_info[p->nest->symbols[node->array].type].size;
        } else {
            bug(p->e->compiler, "a loop over vectors with this has no text yet");
        }
    }
}

/* Of each node of the vector what comes from outside; loads that are the same for all are made
 * there. */
static void capture_all(Leaves *l) {
    NestPrinter *p = l->p;
    if (l->loop != l->vector) capture_prefetches(l, l->loop->body, NULL);
    for (const NestNode *node = l->vector->body; node; node = node->next) {
        if (node->kind != NEST_LOAD) continue;
        if (index_uses(node->at[0], l->vector->name)) {
            Captured *captured = capture_place(l, node, array_name(l, node->array));
            captured->symbol = node->name;
        } else {
            print_load(p, node);
            capture_value(l, node->name);
        }
    }
    for (const NestNode *node = l->vector->body; node; node = node->next) {
        if (node->kind == NEST_STORE) {
            const char *wish = arena_printf(p->arena, "%s_to", array_name(l, node->array));
            capture_place(l, node, wish);
        }
        if (node->kind == NEST_LET || node->kind == NEST_PUSH || node->kind == NEST_STORE)
            capture_values(l, node->value);
    }
}

/* ---- the function ---- */

/* From now on names mean what they do in the function, or again what they did outside. */
static void spell(Leaves *l, bool inside) {
    NestPrinter *p = l->p;
    for (size_t i = 0; i < l->count; i++) {
        Captured *captured = &l->captured[i];
        if (!captured->symbol) continue;
        if (inside) {
            captured->old_spelling = p->spelled[captured->symbol];
            captured->old_inside = p->inside[captured->symbol];
        }
        const char *own = captured->kind == CAPTURED_LOAD ? captured->name
                          : captured->place               ? captured->place
                                            : arena_printf(p->arena, "row->%s", captured->name);
        p->spelled[captured->symbol] = inside ? own : captured->old_spelling;
        p->inside[captured->symbol] = inside ? 0 : captured->old_inside;
        p->is_vector[captured->symbol] = inside && captured->kind == CAPTURED_LOAD;
    }
}

static const char *fields_text(Leaves *l) {
    Text text = text_open(l->p->arena);
    for (size_t i = 0; i < l->count; i++)
        text_printf(&text, "%s%s;\n", l->captured[i].type, l->captured[i].name);
    return text.size ? text.data : "";
}

static void print_prefetched(Leaves *l) {
    NestPrinter *p = l->p;
    for (size_t i = 0; i < l->count; i++) {
        const Captured *captured = &l->captured[i];
        if (captured->kind != CAPTURED_PREFETCH) continue;
        text_printf(p->out, "if (row->%s) %s(row->%s + at, %u);\n", captured->name,
                    captured->prefetch, captured->name, captured->bytes);
    }
}

static const char *place_of(const Leaves *l, SymbolId load, const char *otherwise) {
    for (size_t i = 0; i < l->count; i++)
        if (l->captured[i].symbol == load && l->captured[i].kind == CAPTURED_LOAD)
            return l->captured[i].place;
    return otherwise;
}

static const char *body_text(Leaves *l) {
    NestPrinter *p = l->p;
    Emitter *e = p->e;
    Text text = text_open(p->arena), *outer = p->out;
    const NameTable names = e->names;
    const uint32_t line = e->last_line;
    int leaves = 0;
    size_t stored = 0, values = l->trees;
    p->out = &text;
    l->stores = text_open(p->arena);
    e->names = l->names;
    e->last_line = 0;
    spell(l, true);
    if (l->places.size) text_puts(p->out, l->places.data);
    print_prefetched(l);
    for (const NestNode *node = l->vector->body; node; node = node->next) {
        const char *name = node->name ? p->nest->symbols[node->name].name : NULL;
        if (node->kind == NEST_LOAD && p->is_vector[node->name]) {
            const char *own = print_symbol(p, node->name);
            text_printf(p->out, "const ls_vector_f32 %s = ls_take_%s(%s, left);\n", own,
                        type_info[p->nest->symbols[node->array].type].name,
                        place_of(l, node->name, own));
        } else if (node->kind == NEST_LET) {
            p->spelled[node->name] = names_nest(e, name);
            p->is_vector[node->name] = print_is_vector(p, node->value);
            const char *value = emit_bare(e, print_value(p, node->value));
            emit_quote_line(e, p->out, node->range);
            text_printf(p->out, "const %s %s = %s;\n",
                        p->is_vector[node->name] ? "ls_vector_f32" : "f32",
                        print_symbol(p, node->name), value);
        } else if (node->kind == NEST_STORE) {
            while (l->captured[stored].kind != CAPTURED_STORE) stored++;
            text_printf(&l->stores, "LS_PUT(%s, %s, left, leaf[%zu]);\n",
                        type_info[p->nest->symbols[node->array].type].c_name,
                        l->captured[stored++].place, values);
            text_printf(p->out, "leaf[%zu] = %s;\n", values++,
                        emit_bare(e, print_value(p, node->value)));
        } else if (node->kind == NEST_PUSH) {
            text_printf(p->out, "leaf[%d] = %s;\n", leaves++,
                        emit_bare(e, print_value(p, node->value)));
        }
    }
    spell(l, false);
    p->out = outer;
    e->names = names;
    e->last_line = line;
    return text.size ? text.data : "";
}

static size_t new_leaves(NestPrinter *p) {
    if (p->leaf_count == LEAVES_MAX)
        bug(p->e->compiler, "a phase has too many loops along its rows");
    return ++p->leaf_count;
}

static const char *suffix_of(const NestPrinter *p, size_t number) {
    return number == 1 ? "" : arena_printf(p->arena, "_%zu", number);
}

/* The function, or an equal one that there is; gives its number. */
static size_t make_function(Leaves *l, const char *kind) {
    NestPrinter *p = l->p;
    const char *fields = fields_text(l), *body = body_text(l);
    size_t number = p->opened_leaves;
    for (size_t i = 0; !number && i < p->leaf_count; i++)
        if (strcmp(p->leaf_fields[i], fields) == 0 && strcmp(p->leaf_bodies[i], body) == 0)
            return i + 1;
    if (!number) number = new_leaves(p);
    p->opened_leaves = 0;
    p->leaf_fields[number - 1] = fields;
    p->leaf_bodies[number - 1] = body;
    const char *name = p->label, *suffix = suffix_of(p, number);
    const char *row = arena_printf(p->arena, "struct %s_row%s", name, suffix);
    const char *open = arena_printf(
        p->arena, "ls_vector_f32 *leaf) {\nconst %s *const row = (const %s *)of;\n", row, row);
    Text *out = &p->before;
    if (!l->rows) {
        text_printf(out,
                    "/* Sixteen elements of a row from `at` on, of which `left` are there. */\n"
                    "%s {\n%s};\n"
                    "LS_FN void %s_leaves%s(const void *of, i64 at, i64 left, %s%s}\n",
                    row, fields, name, suffix, open, body);
        text_printf(out,
                    "LS_CALLED void %s_trees%s(const %s *rows, i64 count, i64 length, "
                    "f32 *const *to) {\n"
                    "ls_reduce_rows_%s(%s_leaves%s, rows, sizeof *rows, %zu, count, length, to);\n"
                    "}\n\n",
                    name, suffix, row, kind, name, suffix, l->trees);
        return number;
    }
    text_printf(out,
                "/* Sixteen columns of row r from `at` on, of which `left` are there. */\n"
                "%s {\n%s};\n"
                "LS_FN void %s_leaves%s(const void *of, i64 r, i64 at, i64 left, %s%s}\n",
                row, fields, name, suffix, open, body);
    const char *stores = "ls_no_stores_f32";
    if (l->stores.size) {
        stores = arena_printf(p->arena, "%s_stores%s", name, suffix);
        text_printf(out, "LS_FN void %s(const void *of, i64 r, i64 at, i64 left, %s%s%s}\n", stores,
                    open, l->places.data, l->stores.data);
    }
    text_printf(out,
                "LS_CALLED void %s_trees%s(const %s *rows, i64 count, i64 width, "
                "f32 *const *to) {\nconst %s own = *rows;\n"
                "ls_reduce_columns_%s(%s_leaves%s, %s, &own, %zu, count, width, to);\n}\n\n",
                name, suffix, row, row, kind, name, suffix, stores, l->trees);
    return number;
}

/* ---- where the loop stands ---- */

void print_open_leaves(NestPrinter *p, const NestNode *rows) {
    for (const NestNode *node = rows->body; node; node = node->next) {
        if (!print_is_leaves(p, node)) continue;
        p->opened_leaves = new_leaves(p);
        p->rows_name = names_made(p->e, "rows_of");
        text_printf(p->out, "struct %s_row%s %s[%d];\n", p->label, suffix_of(p, p->opened_leaves),
                    p->rows_name, BATCH);
    }
}

/* Assignments, for ahead-of-time code is C++ as well: there, C++17 has no designated initializers.
 */
static void print_row(Leaves *l, const char *row) {
    for (size_t i = 0; i < l->count; i++)
        text_printf(l->p->out, "%s.%s = %s;\n", row, l->captured[i].name, l->captured[i].from);
}

/* Where the trees' values go, and how many there are. */
static const char *trees_text(Leaves *l, size_t *count, const NestNode **push) {
    NestPrinter *p = l->p;
    Text text = text_open(p->arena);
    *count = 0;
    for (const NestNode *node = l->vector->body; node; node = node->next) {
        if (node->kind != NEST_PUSH) continue;
        *push = node;
        text_printf(&text, "%s%s", (*count)++ ? ", " : "", print_symbol(p, node->array));
    }
    return text.data;
}

/* Of rows down columns what belongs to each, which lies in memory of the thread. */
static void capture_rows(Leaves *l) {
    NestPrinter *p = l->p;
    for (const NestNode *node = l->rows->body; node && node != l->loop; node = node->next) {
        if (node->kind == NEST_LET && p->ahead[node->name]) continue;
        if (node->kind != NEST_LOAD || !p->allocs[node->array])
            bug(p->e->compiler, "a row down columns with this has no text yet");
        Captured *captured = capture(l, CAPTURED_ROWS, "const f32 *",
                                     own_name(l, p->nest->symbols[node->name].name, true),
                                     print_symbol(p, node->array));
        captured->symbol = node->name;
        captured->place = arena_printf(p->arena, "row->%s[r]", captured->name);
    }
}

const NestNode *print_down(const NestPrinter *p, const NestNode *loop) {
    if (p->nest->lanes > 1 || loop->kind != NEST_LOOP || loop->loop != LOOP_SERIAL) return NULL;
    const NestNode *last = last_of(loop->body);
    const NestNode *vector = is_vector(last) ? last : last ? last_of(last->body) : NULL;
    if (!last || last->kind != NEST_LOOP || !is_vector(vector)) return NULL;
    for (const NestNode *node = vector->body; node; node = node->next)
        if (node->kind == NEST_PUSH && node->at_count == 2 && index_uses(node->at[1], loop->name) &&
            index_uses(node->at[0], vector->name) && !index_uses(node->at[0], loop->name))
            return last;
    return NULL;
}

void print_leaves(NestPrinter *p, const NestNode *loop) {
    Emitter *e = p->e;
    const NestNode *down = print_down(p, loop);
    Leaves own = {.p = p, .loop = down ? down : loop, .rows = down ? loop : NULL};
    Leaves *l = &own;
    loop = l->loop;
    l->vector = is_vector(loop) ? loop : last_of(loop->body);
    const NameTable outer = e->names;
    names_begin_nest(e);
    static const char *const taken[] = {"of", "row", "r", "at", "left", "leaf"};
    for (size_t i = 0; i < COUNT(taken); i++) names_made(e, taken[i]);
    l->names = e->names;
    e->names = outer;
    l->places = text_open(p->arena);
    size_t trees = 0;
    const NestNode *push = NULL;
    const char *to = trees_text(l, &trees, &push);
    l->trees = trees;
    const NestNode *tree = p->trees[push->array];
    int64_t vectors = 1;
    if (loop != l->vector) index_is_number(loop->extent, &vectors);
    const Index length =
        push->has_limit ? begin_of(l, push->limit) : index_number(p->arena, WIDTH * vectors);
    const char *kind = emit_use_kind(e, tree->op, tree->type), *many = print_index(p, length);
    if (l->rows) capture_rows(l);
    capture_all(l);
    const char *suffix = suffix_of(p, make_function(l, kind)), *values = names_made(e, "trees");
    const char *declared = arena_printf(p->arena, "f32 *const %s[] = {%s};\n", values, to);
    if (tree->at_count && !l->rows) {
        print_row(l, arena_printf(p->arena, "%s[%s]", p->rows_name, print_index(p, push->at[0])));
        p->pending =
            arena_printf(p->arena, "%s%s_trees%s(%s, ", declared, p->label, suffix, p->rows_name);
        p->pending_end = arena_printf(p->arena, ", %s, %s);\n", many, values);
        return;
    }
    const char *row = names_made(e, "row");
    text_printf(p->out, "struct %s_row%s %s;\n", p->label, suffix, row);
    print_row(l, row);
    text_printf(p->out, "%s%s_trees%s(&%s, %s, %s, %s);\n", declared, p->label, suffix, row,
                l->rows ? print_index(p, l->rows->extent) : "1", many, values);
}
