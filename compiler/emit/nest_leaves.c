/* nest_leaves.c: loops over the vectors of a row, in the code of one thread.
 *
 * What such a loop does for a vector is a function of its own, which the functions of reduce_cpu.h
 * are given: these know in which order a tree wants its leaves, and for how many elements which
 * form of it is best. What the function uses lies in a structure: where the elements of row 0 begin
 * in each array and how far from row to row, values, and where a row to come begins that is
 * prefetched. What is no affine function of the row's number lies in arrays, of each row. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"
#include "emit/emit.h"

enum { WIDTH = 16, TILE = 1024, CAPTURED_MAX = 64 };

typedef enum CapturedKind {
    CAPTURED_VALUE,    /* of the row, from outside */
    CAPTURED_LOAD,     /* where a load's first element lies */
    CAPTURED_STORE,    /* where a store's does */
    CAPTURED_PITCH,    /* elements from row to row */
    CAPTURED_PREFETCH, /* where what is prefetched begins; 0: nothing is */
} CapturedKind;

struct Captured {
    CapturedKind kind;
    bool each;       /* an array has it of each row */
    SymbolId symbol; /* of a value or a load, else 0 */
    const char *type, *name, *from;
    const char *place; /* what it is in the function */
    const char *step;  /* the number of an element there, from row 0 on; NULL: from the row on */
    Index pitch;
    const char *prefetch;     /* the function that prefetches */
    uint32_t bytes;           /* of a vector there */
    const char *old_spelling; /* of the symbol */
    ValueId old_inside;
};

typedef struct Leaves {
    NestPrinter *p;
    const NestNode *loop, *vector; /* over vectors, and of one */
    const NestNode *rows;          /* over rows, which is around them; or NULL: there is one row */
    Index room;                    /* for so many rows, side by side */
    bool columns;                  /* the loop over rows is the function's as well */
    bool tiles;                    /* the rows are tiles of a row */
    Captured *captured;
    size_t count;
    NameTable names; /* of the function */
    size_t trees;
    int parts;     /* of the elements: all, or the even and the odd ones */
    Text stores;   /* of what a row has stored, where there is such */
    Text places;   /* where the row's elements at hand are */
    bool uses_row; /* the row's number */
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
    captured->place = arena_printf(l->p->arena, "row->%s", name);
    return captured;
}

/* The same of rows side by side: one row uses the function that these do. */
static const Captured *batched(const Leaves *l, CapturedKind kind, const char *name) {
    const NestPrinter *p = l->p;
    for (size_t i = 0; !l->rows && i < p->batch_count; i++)
        if (p->batch_captured[i].kind == kind && strcmp(p->batch_captured[i].name, name) == 0)
            return &p->batch_captured[i];
    return NULL;
}

/* What each row has of its own goes to an array; of a row that is alone, to one of one element. */
static Captured *capture_each(Leaves *l, CapturedKind kind, const char *type, const char *name,
                              const char *from) {
    NestPrinter *p = l->p;
    const char *array = names_made(p->e, arena_printf(p->arena, "%s_of", name));
    if (l->rows) {
        text_printf(&p->batch_arrays, "%s%s[%s];\n", type, array, print_index(p, l->room));
        text_printf(p->out, "%s[%s] = %s;\n", array, print_symbol(p, l->rows->name), from);
    } else {
        text_printf(p->out, "%s%s[1] = {%s};\n", type, array, from);
    }
    const char *form = kind == CAPTURED_VALUE ? "const %s*" : "%sconst *";
    Captured *captured = capture(l, kind, arena_printf(p->arena, form, type), name, array);
    captured->each = l->uses_row = true;
    captured->place = arena_printf(p->arena, "row->%s[r]", name);
    return captured;
}

static bool is_of_vector(const Leaves *l, SymbolId symbol) {
    for (const NestNode *node = l->vector->body; node; node = node->next)
        if (node->name == symbol) return true;
    return false;
}

/* Whether each of the rows side by side has it for itself. */
static bool is_of_row(const Leaves *l, SymbolId symbol) {
    return l->rows && !l->columns &&
           (symbol == l->rows->name || print_defines(l->rows->body, symbol));
}

static void capture_value(Leaves *l, SymbolId symbol) {
    NestPrinter *p = l->p;
    for (size_t i = 0; i < l->count; i++)
        if (l->captured[i].symbol == symbol) return;
    const char *from =
        p->inside[symbol] ? print_value(p, p->inside[symbol]) : print_symbol(p, symbol);
    const char *type = arena_printf(p->arena, "%s ", emit_type(p->nest->symbols[symbol].type));
    const char *name = own_name(l, p->nest->symbols[symbol].name, true);
    const Captured *same = batched(l, CAPTURED_VALUE, name);
    const bool each = is_of_row(l, symbol) || (same && same->each);
    Captured *captured =
        (each ? capture_each : capture)(l, CAPTURED_VALUE, type, name, emit_bare(p->e, from));
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

/* The index where the row begins; where row 0 does. */
static Index begin_of_vector(const Leaves *l, Index index) {
    const Index first = {NULL, 0};
    index = index_replace(l->p->arena, index, l->vector->name, first);
    return index_replace(l->p->arena, index, l->loop->name, first);
}
static Index begin_of(const Leaves *l, Index index) {
    index = begin_of_vector(l, index);
    return l->rows ? index_replace(l->p->arena, index, l->rows->name, (Index){NULL, 0}) : index;
}

/* What an array is called in generated code, so that a name of the source stays one name. */
static const char *array_name(const Leaves *l, SymbolId array) {
    const NestPrinter *p = l->p;
    const uint32_t own = print_array_of(p, array);
    return own < p->e->plan->array_count ? p->e->field_name[own] : p->nest->symbols[array].name;
}

static const char *address(const Leaves *l, const NestNode *node, Index at) {
    NestPrinter *p = l->p;
    return arena_printf(p->arena, "&%s[%s]", print_symbol(p, node->array), print_index(p, at));
}

/* Whether the place depends on a row by more than the row's number. */
static bool is_irregular(const Leaves *l, Index at) {
    for (size_t i = 0; l->rows && !l->columns && i < at.count; i++)
        for (size_t k = 0; k < at.terms[i].count; k++)
            if (is_of_row(l, at.terms[i].symbols[k])) return true;
    return false;
}

typedef struct Predicate {
    const char *text;
    bool irregular; /* it is not the same for all rows */
} Predicate;

/* The number of row r's element `at`, by the elements from row to row; of a row that is alone
 * `pitch` is 0, and `key` what it is of those side by side. */
static const char *pitch_of(Leaves *l, Index key, Index pitch) {
    NestPrinter *p = l->p;
    for (size_t i = 0; i < l->count; i++)
        if (l->captured[i].kind == CAPTURED_PITCH && index_equal(l->captured[i].pitch, key))
            return l->captured[i].step;
    const char *field = own_name(l, "pitch", false);
    Captured *own = capture(l, CAPTURED_PITCH, "i64 ", field, print_index(p, pitch));
    own->pitch = key;
    own->step = own_name(l, "place", false);
    l->uses_row = true;
    return own->step;
}

/* Where the first element lies that the node accesses, and from row to row; gives what a row of the
 * function's has there. Where what it stands under is not the same for all rows, each has its own.
 */
static Captured *capture_address(Leaves *l, CapturedKind kind, const NestNode *node,
                                 const char *type, const char *name, const Predicate *under) {
    NestPrinter *p = l->p;
    const Captured *same = batched(l, kind, name);
    const Index first = begin_of(l, node->at[0]);
    const char *condition = under ? under->text : NULL;
    bool irregular = (under && under->irregular) || (same && same->each);
    Index pitch = {NULL, 0};
    if (l->rows) pitch = index_coefficient(p->arena, node->at[0], l->rows->name);
    if (irregular || is_irregular(l, first) || is_irregular(l, pitch)) {
        const char *from = address(l, node, begin_of_vector(l, node->at[0]));
        if (condition) from = arena_printf(p->arena, "%s ? %s : 0", condition, from);
        return capture_each(l, kind, type, name, from);
    }
    const char *from = address(l, node, first);
    if (condition) from = arena_printf(p->arena, "%s ? %s : 0", condition, from);
    Captured *captured = capture(l, kind, type, name, from);
    if (pitch.count || (same && same->step)) {
        captured->pitch = same && same->step ? same->pitch : pitch;
        captured->step = pitch_of(l, captured->pitch, pitch);
    }
    return captured;
}

static void capture_place(Leaves *l, const NestNode *node, const char *wish, SymbolId symbol) {
    NestPrinter *p = l->p;
    const bool written = node->kind == NEST_STORE;
    const char *type = arena_printf(p->arena, "%s%s *", written ? "" : "const ",
                                    type_info[p->nest->symbols[node->array].type].c_name);
    Captured *captured = capture_address(l, written ? CAPTURED_STORE : CAPTURED_LOAD, node, type,
                                         own_name(l, wish, false), NULL);
    captured->symbol = symbol;
}

/* Prefetches, under the conditions that they stand in. */
static void capture_prefetches(Leaves *l, const NestNode *body, const Predicate *under) {
    NestPrinter *p = l->p;
    for (const NestNode *node = body; node && node != l->vector; node = node->next) {
        if (node->kind == NEST_IF) {
            Predicate own = {print_amount(p, node->extent), is_irregular(l, node->extent)};
            if (under) {
                own.text = arena_printf(p->arena, "%s && %s", under->text, own.text);
                own.irregular |= under->irregular;
            }
            capture_prefetches(l, node->body, &own);
        } else if (node->kind == NEST_PREFETCH) {
            const bool far = node->hint == HINT_L2;
            const char *name =
                arena_printf(p->arena, "%s_%s", array_name(l, node->array), far ? "far" : "near");
            const char *type = arena_printf(p->arena, "const %s *",
                                            type_info[p->nest->symbols[node->array].type].c_name);
            Captured *captured =
                capture_address(l, CAPTURED_PREFETCH, node, type, own_name(l, name, true), under);
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
            capture_place(l, node, array_name(l, node->array), node->name);
        } else {
            print_load(p, node);
            capture_value(l, node->name);
        }
    }
    for (const NestNode *node = l->vector->body; node; node = node->next) {
        if (node->kind == NEST_STORE) {
            const char *wish = arena_printf(p->arena, "%s_to", array_name(l, node->array));
            capture_place(l, node, wish, 0);
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
        const char *own = captured->kind == CAPTURED_LOAD ? captured->name : captured->place;
        p->spelled[captured->symbol] = inside ? own : captured->old_spelling;
        p->inside[captured->symbol] = inside ? 0 : captured->old_inside;
        p->is_vector[captured->symbol] = inside && captured->kind == CAPTURED_LOAD;
    }
}

static const char *fields_text(Leaves *l) {
    Text text = text_open(l->p->arena);
    for (size_t i = 0; i < l->count; i++)
        text_printf(&text, " %s%s;", l->captured[i].type, l->captured[i].name);
    return text.size ? text.data : "";
}

/* The address of row r's element `at`. */
static const char *element_of(const Leaves *l, const Captured *captured) {
    return arena_printf(l->p->arena, "%s + %s", captured->place,
                        captured->step ? captured->step : "at");
}

static void print_prefetched(Leaves *l) {
    for (size_t i = 0; i < l->count; i++) {
        const Captured *captured = &l->captured[i];
        if (captured->kind != CAPTURED_PREFETCH) continue;
        const char *element = element_of(l, captured);
        if (l->parts == 1)
            text_printf(l->p->out, "if (%s) %s(%s, %u);\n", captured->place, captured->prefetch,
                        element, captured->bytes);
        else
            text_printf(l->p->out, "if (%s && which != LS_ODDS) %s(%s, which ? %u : %u);\n",
                        captured->place, captured->prefetch, element, 2 * captured->bytes,
                        captured->bytes);
    }
}

/* The lines that are stored to are requested ahead of the loads, so that those of several rows come
 * at the same time: software prefetching for writing. */
static void print_owned(const Leaves *l) {
    size_t stored = 0;
    for (const NestNode *node = l->vector->body; node; node = node->next) {
        if (node->kind != NEST_STORE) continue;
        while (l->captured[stored].kind != CAPTURED_STORE) stored++;
        const Captured *to = &l->captured[stored++];
        if (node->hint == HINT_OWNED)
            text_printf(l->p->out, "ls_own_lines(%s, %u);\n", element_of(l, to),
                        WIDTH * type_info[l->p->nest->symbols[node->array].type].size);
    }
}

/* The loads of neighbours that are of the type. */
static int count_loads(const Leaves *l, Type type) {
    const NestPrinter *p = l->p;
    int count = 0;
    for (const NestNode *node = l->vector->body; node; node = node->next)
        count += node->kind == NEST_LOAD && index_uses(node->at[0], l->vector->name) &&
                 p->nest->symbols[node->array].type == type;
    return count;
}

/* To take even and odd elements apart is one operation less than to widen bf16, and one more of
 * f32. */
static void find_parts(Leaves *l) {
    const int narrow = count_loads(l, TYPE_BF16);
    l->parts = !l->columns && narrow && narrow >= count_loads(l, TYPE_F32) ? 2 : 1;
}

static const char *element_of_load(const Leaves *l, SymbolId load, const char *otherwise) {
    for (size_t i = 0; i < l->count; i++)
        if (l->captured[i].symbol == load && l->captured[i].kind == CAPTURED_LOAD)
            return element_of(l, &l->captured[i]);
    return otherwise;
}

/* Where row r's elements are that are at hand, as numbers that compilers do not look into. With
 * more than one array they would keep an address in each for each of eight rows, which are more
 * than there are registers. */
static Text places_text(const Leaves *l) {
    Text text = text_open(l->p->arena);
    for (size_t i = 0; i < l->count; i++) {
        const Captured *pitch = &l->captured[i];
        if (pitch->kind != CAPTURED_PITCH) continue;
        int arrays = 0;
        for (size_t k = 0; k < l->count; k++)
            arrays += k != i && l->captured[k].step == pitch->step;
        text_printf(&text, "const i64 %s = ls_bound(row->%s * r%s;\n", pitch->step, pitch->name,
                    arrays > 1 ? " + at)" : ") + at");
    }
    return text;
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
    l->places = places_text(l);
    if (l->places.size) text_puts(p->out, l->places.data);
    if (!l->uses_row) text_puts(p->out, "(void)r;\n");
    if (!count_loads(l, TYPE_BF16) && !count_loads(l, TYPE_F32))
        text_puts(p->out, "(void)which;\n");
    print_prefetched(l);
    print_owned(l);
    for (const NestNode *node = l->vector->body; node; node = node->next) {
        const char *name = node->name ? p->nest->symbols[node->name].name : NULL;
        if (node->kind == NEST_LOAD && p->is_vector[node->name]) {
            const char *own = print_symbol(p, node->name);
            text_printf(p->out, "const ls_vector_f32 %s = ls_take_%s(%s, left, which);\n", own,
                        type_info[p->nest->symbols[node->array].type].name,
                        element_of_load(l, node->name, own));
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
                        element_of(l, &l->captured[stored++]), values);
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

static const char *suffix_of(const NestPrinter *p, size_t number) {
    return number == 1 ? "" : arena_printf(p->arena, "_%zu", number);
}

/* The function, or an equal one that there is; gives its number. That of rows serves tiles as well.
 */
static size_t make_function(Leaves *l, const char *kind) {
    NestPrinter *p = l->p;
    const char *fields = fields_text(l), *body = body_text(l);
    const char *rows = arena_printf(p->arena, "%s: %s", kind, body);
    const char *key = l->tiles ? arena_printf(p->arena, "tiles %s", rows) : rows;
    for (size_t i = 0; i < p->leaf_count; i++)
        if (strcmp(p->leaf_fields[i], fields) == 0 &&
            (strcmp(p->leaf_bodies[i], key) == 0 || strcmp(p->leaf_bodies[i], rows) == 0))
            return i + 1;
    if (p->leaf_count == LEAVES_MAX)
        bug(p->e->compiler, "a phase has too many loops along its rows");
    p->leaf_fields[p->leaf_count] = fields;
    p->leaf_bodies[p->leaf_count++] = key;
    const char *name = p->label, *suffix = suffix_of(p, p->leaf_count);
    const char *row = arena_printf(p->arena, "struct %s_row%s", name, suffix);
    const char *open = arena_printf(p->arena,
                                    "(const void *of, i64 r, i64 at, i64 left, int which, "
                                    "ls_vector_f32 *leaf) {\n"
                                    "const %s *const row = (const %s *)of;\n",
                                    row, row);
    Text *out = &p->before;
    text_printf(out,
                "/* Sixteen %s of row r from `at` on, of which `left` are there. */\n"
                "%s {%s };\n"
                "LS_FN void %s_leaves%s%s%s}\n",
                l->columns ? "columns" : "elements", row, fields, name, suffix, open, body);
    const char *stores = "ls_no_stores_f32";
    if (l->stores.size) {
        stores = arena_printf(p->arena, "%s_stores%s", name, suffix);
        text_printf(out, "LS_FN void %s%s%s(void)which;\n%s}\n", stores, open, l->places.data,
                    l->stores.data);
    }
    const char *of = l->columns ? "columns" : l->tiles ? "tiles" : "rows";
    const char *length = l->columns ? "width" : "length";
    const char *parts = l->columns ? "" : arena_printf(p->arena, "%d, ", l->parts);
    text_printf(out,
                "LS_CALLED void %s_trees%s(const %s *rows, i64 count, i64 %s, f32 *const *to) {\n"
                "const %s own = *rows;\n"
                "ls_reduce_%s_%s(%s_leaves%s, %s%s&own, %s%zu, count, %s, to);\n}\n\n",
                name, suffix, row, length, row, of, kind, name, suffix, l->columns ? stores : "",
                l->columns ? ", " : "", parts, l->trees, length);
    return p->leaf_count;
}

/* ---- where the loop stands ---- */

static const NestNode *push_of(const NestNode *loop) {
    const NestNode *vector = is_vector(loop) ? loop : last_of(loop->body);
    for (const NestNode *node = vector->body; node; node = node->next)
        if (node->kind == NEST_PUSH) return node;
    return NULL;
}

bool print_is_batch(const NestPrinter *p, const NestNode *rows) {
    for (const NestNode *node = rows->body; node; node = node->next) {
        const NestNode *push = print_is_leaves(p, node) ? push_of(node) : NULL;
        if (push && push->at_count == 2 && index_uses(push->at[0], rows->name)) return true;
    }
    return false;
}

/* The members in their order: code built ahead of time is C++ as well, which has no designated
 * initializers before C++20. */
static const char *row_text(Leaves *l) {
    Text text = text_open(l->p->arena);
    for (size_t i = 0; i < l->count; i++)
        text_printf(&text, "%s%s", i ? ", " : "", l->captured[i].from);
    return text.data;
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
        Captured *captured = capture(l, CAPTURED_VALUE, "const f32 *",
                                     own_name(l, p->nest->symbols[node->name].name, true),
                                     print_symbol(p, node->array));
        captured->symbol = node->name;
        captured->each = l->uses_row = true;
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
    Leaves own = {.p = p, .loop = down ? down : loop, .columns = down};
    Leaves *l = &own;
    l->rows = down ? loop : p->batch;
    l->captured = arena_alloc(p->arena, CAPTURED_MAX * sizeof *l->captured);
    loop = l->loop;
    l->vector = is_vector(loop) ? loop : last_of(loop->body);
    const NameTable outer = e->names;
    names_begin_nest(e);
    static const char *const taken[] = {"of", "row", "r", "at", "left", "which", "leaf"};
    for (size_t i = 0; i < COUNT(taken); i++) names_made(e, taken[i]);
    l->names = e->names;
    e->names = outer;
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
    int64_t leaves;
    if (tree->at_count) l->room = tree->at[0];
    l->tiles =
        !l->columns && tree->at_count && index_is_number(tree->extent, &leaves) && leaves == TILE;
    if (l->columns) capture_rows(l);
    find_parts(l);
    capture_all(l);
    const char *suffix = suffix_of(p, make_function(l, kind)), *values = names_made(e, "trees");
    const char *row = names_made(e, "row");
    Text call = text_open(p->arena);
    text_printf(&call, "const struct %s_row%s %s = {%s};\n", p->label, suffix, row, row_text(l));
    text_printf(&call, "f32 *const %s[] = {%s};\n%s_trees%s(&%s, ", values, to, p->label, suffix,
                row);
    if (p->batch) {
        p->batch_captured = l->captured;
        p->batch_count = l->count;
        p->batch_call = call.data;
        p->batch_call_end = arena_printf(p->arena, ", %s, %s);\n", many, values);
        return;
    }
    text_printf(p->out, "%s%s, %s, %s);\n", call.data,
                l->columns ? print_index(p, l->rows->extent) : "1", many, values);
}
