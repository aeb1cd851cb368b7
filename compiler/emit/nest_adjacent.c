/* nest_adjacent.c: gathers of adjacent elements as vector loads.
 *
 * A vector loop may load at an index that grows by one from an address that is not known to be
 * aligned (shifted rows, halves of a row, a row that is the same for all). The load is one vector
 * access where a test at run time finds the address aligned and both ends of the vector in range,
 * in the same row and adjacent. The index at both ends is computed ahead of the loop.
 *
 * Where elements are all that the loop computes it is unswitched: one branch for vectors whose
 * loads are all so, in which what the row decides is computed once, the other for all else. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"
#include "emit/emit.h"

enum { SLICE_MAX = 16 };

typedef struct Adjacent {
    NestPrinter *p;
    const NestNode *loop;
    const NestNode *load;
    const NestNode *slice[SLICE_MAX]; /* the LETs that the index is computed from */
    size_t count;
    bool good;
} Adjacent;

static const NestNode *binding(const Adjacent *n, SymbolId symbol) {
    for (const NestNode *node = n->loop->body; node; node = node->next)
        if (node->name == symbol) return node;
    return NULL;
}

static int64_t step_of_symbol(Adjacent *n, SymbolId symbol);

static void keep(Adjacent *n, const NestNode *let) {
    size_t i = 0;
    while (i < n->count && n->slice[i] != let) i++;
    if (i == SLICE_MAX)
        n->good = false;
    else if (i == n->count)
        n->slice[n->count++] = let;
}

/* By how much the index grows from one element of a row to the next; n->good is false where that is
 * not known. */
static int64_t step_of_index(Adjacent *n, Index index) {
    int64_t step = 0;
    for (size_t t = 0; t < index.count; t++)
        for (uint32_t k = 0; k < index.terms[t].count; k++) {
            const int64_t own = step_of_symbol(n, index.terms[t].symbols[k]);
            if (own && index.terms[t].count > 1) n->good = false;
            step += own * index.terms[t].factor;
        }
    return step;
}

/* Whether a condition is the one that the load itself stands under. Of any other, the two ends do
 * not tell what holds between them. */
static bool is_range_of_load(const Adjacent *n, ValueId condition) {
    const Value v = n->p->nest->values->values[condition];
    const NestNode *where = n->load->where ? binding(n, n->load->where) : NULL;
    if (v.op == VALUE_NAME) return n->load->where && v.payload == n->load->where;
    return where && where->kind == NEST_LET && where->value == condition;
}

/* Whether it is a length, or a number above 0, which does not change along the vector. */
static bool is_length(const Adjacent *n, ValueId id) {
    const Nest *nest = n->p->nest;
    const Value v = nest->values->values[id];
    int64_t number = 0;
    if (v.op == OP_CONST) return (int64_t)v.payload > 0;
    if (v.op == VALUE_NAME) return nest->symbols[v.payload].kind == NAMED_SIZE;
    if (v.op != VALUE_INDEX) return false;
    const Index *index = nest_index_of(nest, &v);
    if (index_is_number(*index, &number)) return number > 0;
    for (size_t t = 0; t < index->count; t++) {
        if (index->terms[t].factor <= 0) return false;
        for (uint32_t k = 0; k < index->terms[t].count; k++)
            if (nest->symbols[index->terms[t].symbols[k]].kind != NAMED_SIZE) return false;
    }
    return true;
}

static int64_t step_of_value(Adjacent *n, ValueId id) {
    const Nest *nest = n->p->nest;
    const Value v = nest->values->values[id];
    switch (v.op) {
    case VALUE_NAME: return step_of_symbol(n, (SymbolId)v.payload);
    case VALUE_INDEX: return step_of_index(n, *nest_index_of(nest, &v));
    case OP_CONST: return 0;
    case OP_ADD: return step_of_value(n, v.arg[0]) + step_of_value(n, v.arg[1]);
    case OP_SUB: return step_of_value(n, v.arg[0]) - step_of_value(n, v.arg[1]);
    case OP_FLOORDIV: /* the same at both ends, which is asked */
        if (!is_length(n, v.arg[1])) n->good = false;
        step_of_value(n, v.arg[0]);
        return 0;
    case OP_AND:
    case OP_GE:
    case OP_LT: /* of a range: what holds at both ends holds between them */
        step_of_value(n, v.arg[0]);
        step_of_value(n, v.arg[1]);
        return 0;
    case OP_SELECT: /* the index where it is in range, and so it is at both ends */
        if (!is_range_of_load(n, v.arg[0])) n->good = false;
        step_of_value(n, v.arg[2]);
        return step_of_value(n, v.arg[1]);
    default: n->good = false; return 0;
    }
}

static int64_t step_of_symbol(Adjacent *n, SymbolId symbol) {
    if (symbol == n->loop->name) return 1;
    const NestNode *node = binding(n, symbol);
    if (!node) return 0;
    if (node->kind != NEST_LET) {
        n->good = false;
        return 0;
    }
    const int64_t step = step_of_value(n, node->value);
    keep(n, node);
    return step;
}

/* The slice and the load at one element of the vector, with names of their own. */
static NestNode *instance(Adjacent *n, const NestNode *load, int64_t element) {
    Nest *nest = n->p->nest;
    NestNode *first = NULL, **end = &first;
    for (const NestNode *node = n->loop->body; node; node = node->next)
        for (size_t i = 0; i < n->count; i++)
            if (n->slice[i] == node) nest_add(nest, &end, *node);
    nest_add(nest, &end, *load);
    first = nest_clone(nest, first);
    nest_replace(nest, first, n->loop->name, index_number(nest->arena, element));
    return first;
}

static const NestNode *print_slice(NestPrinter *p, const NestNode *slice) {
    for (; slice->next; slice = slice->next) {
        p->is_index[slice->name] = true;
        print_let(p, slice);
    }
    return slice;
}

uint32_t print_width(const NestNode *loop) {
    int64_t width = 0;
    return index_is_number(loop->extent, &width) ? (uint32_t)width : 0;
}

const char *print_span(const NestNode *loop) {
    return print_width(loop) == 8 ? "vec8" : "vec4";
}

const char *print_limited(const NestNode *loop, bool whole) {
    if (print_width(loop) == 8) return whole ? "all_vec8" : "some_vec8";
    return whole ? "all" : "some";
}

/* Whether elements one by one are all that the vector is: nothing is reduced, drawn or limited. */
static bool is_of_elements(NestPrinter *p, const NestNode *loop) {
    for (const NestNode *node = loop->body; node; node = node->next) {
        if (node->kind != NEST_LET && node->kind != NEST_LOAD && node->kind != NEST_STORE)
            return false;
        if (node->kind != NEST_LET && node->has_limit) return false;
        if (node->kind == NEST_STORE && !p->allocs[node->array] && !print_is_packet(p, loop, node))
            return false;
    }
    return true;
}

/* Prints the test that both ends of the vector are adjacent, or the same element, and in one
 * row. */
static void print_test(Adjacent *n, const char *name, int64_t step) {
    NestPrinter *p = n->p;
    const uint32_t width = print_width(n->loop);
    NestNode *const ends[2] = {instance(n, n->load, 0), instance(n, n->load, width - 1)};
    const NestNode *first = print_slice(p, ends[0]), *last = print_slice(p, ends[1]);
    const char *at = print_index(p, first->at[0]), *end = print_index(p, last->at[0]);
    if (step == 1)
        text_printf(
            p->out,
            "const i64 adjacent = %s;\n%s_whole = adjacent %% %u == 0 && %s == adjacent + %u", at,
            name, width, end, width - 1);
    else
        text_printf(p->out, "%s_whole = %s == %s", name, at, end);
    for (const NestNode *a = ends[0], *b = ends[1]; a->next; a = a->next, b = b->next)
        if (p->nest->values->values[a->value].op == OP_FLOORDIV)
            text_printf(p->out, " && %s == %s", print_symbol(p, a->name), print_symbol(p, b->name));
    if (n->load->where)
        text_printf(p->out, " && %s && %s", print_symbol(p, first->where),
                    print_symbol(p, last->where));
    text_puts(p->out, ";\n");
}

/* Whether it loads one element of each row, or adjacent ones: by how much its index grows. */
static bool is_adjacent(Adjacent *n, int64_t *step) {
    NestPrinter *p = n->p;
    const NestNode *load = n->load;
    const uint32_t width = print_width(n->loop);
    if (load->kind != NEST_LOAD || load->has_limit || load->list || load->at_count != 1)
        return false;
    if (print_array_of(p, load->array) == p->e->plan->array_count) return false; /* a table */
    if (p->e->layout != LS_LAYOUT_DENSE || (width != 4 && width != 8)) return false;
    if (load->where) step_of_symbol(n, load->where);
    *step = step_of_index(n, load->at[0]);
    if (!n->good || p->nest->symbol_count + 2 * n->count + 2 > p->capacity) return false;
    return *step == 1 || (*step == 0 && n->count && is_of_elements(p, n->loop));
}

void print_adjacent(NestPrinter *p, const NestNode *loop, const NestNode *load) {
    static const char *const suffixes[] = {"whole", NULL};
    Adjacent n = {.p = p, .loop = loop, .load = load, .good = true};
    int64_t step;
    if (!is_adjacent(&n, &step)) return;
    const Type type = p->nest->symbols[load->array].type;
    const char *array = p->nest->symbols[load->array].name;
    const char *name = names_stem(
        p->e, NULL, arena_printf(p->arena, step ? "%s_adjacent" : "%s_same", array), suffixes);
    const char *form = print_span(loop), *storage = type_info[type].c_name;
    if (step) text_printf(p->out, "ls_%s_%s %s = {};\n", form, storage, name);
    text_printf(p->out, "int %s_whole;\n{\n", name);
    print_test(&n, name, step);
    if (step)
        text_printf(p->out, "if (%s_whole) %s = ls_load_%s_%s(%s, adjacent);\n", name, name, form,
                    storage, print_symbol(p, load->array));
    text_puts(p->out, "}\n");
    p->one_row_if = p->one_row_if ? arena_printf(p->arena, "%s && %s_whole", p->one_row_if, name)
                                  : arena_printf(p->arena, "%s_whole", name);
    for (size_t i = 0; i < n.count; i++)
        if (p->nest->values->values[n.slice[i]->value].op == OP_FLOORDIV)
            p->same_row[n.slice[i]->name] = true;
    if (!step) return;
    p->adjacent[load->name] = name;
    p->e->vectors[type] = true;
}

/* ---- loop unswitching ---- */

/* Whether it accesses arrays in registers, which take no index that is only known at run time. */
static bool uses_registers(const NestPrinter *p, const NestNode *loop) {
    for (const NestNode *node = loop->body; node; node = node->next)
        if (node->kind != NEST_LET && p->allocs[node->array]) return true;
    return false;
}

const char *print_one_row(NestPrinter *p, const NestNode *loop) {
    return p->one_row_if && is_of_elements(p, loop) ? p->one_row_if : NULL;
}

const NestNode *print_first_in_row(NestPrinter *p, const NestNode *let) {
    NestNode *first = arena_alloc(p->arena, sizeof *first);
    *first = *let;
    first->next = NULL;
    nest_replace(p->nest, first, p->vector, index_number(p->arena, 0));
    return first;
}

void print_other_rows(NestPrinter *p, const NestNode *loop) {
    const char *name = print_symbol(p, loop->name);
    const bool registers = uses_registers(p, loop);
    const size_t stored = p->stored_count;
    if (!registers) print_close_vector(p, loop);
    for (const NestNode *node = loop->body; node; node = node->next) {
        if (node->kind != NEST_LOAD) continue;
        p->adjacent[node->name] = NULL;
        if (!registers) p->packet[node->name] = NULL;
    }
    if (!registers) p->stored_count = 0;
    text_printf(p->out, "} else {\n%s\nfor (int %s = 0; %s < %s; %s++) {\n",
                registers ? "LS_UNROLL" : "LS_ROLLED", name, name, print_index(p, loop->extent),
                name);
    print_body(p, loop->body);
    text_puts(p->out, "}\n}\n");
    p->stored_count = stored;
    if (registers) print_close_vector(p, loop);
}
