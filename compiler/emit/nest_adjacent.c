/* nest_adjacent.c: gathers of adjacent elements as vector loads.
 *
 * A vector loop may load at an index that grows by one from an address that is not known to be
 * aligned (shifted rows, halves of a row, a row that is the same for all). The load is one vector
 * access where a test at run time finds the address aligned and both ends of the vector in range,
 * in the same row and adjacent. The index at both ends is computed ahead of the loop. */
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
        step_of_value(n, v.arg[0]);
        step_of_value(n, v.arg[1]);
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

void print_adjacent(NestPrinter *p, const NestNode *loop, const NestNode *load) {
    const uint32_t width = print_width(loop);
    const Type type = p->nest->symbols[load->array].type;
    Adjacent n = {.p = p, .loop = loop, .load = load, .good = true};
    static const char *const suffixes[] = {"whole", NULL};
    if (print_array_of(p, load->array) == p->e->plan->array_count) return; /* a table */
    if (load->kind != NEST_LOAD || load->has_limit || load->list || load->at_count != 1) return;
    if (p->e->layout != LS_LAYOUT_DENSE || (width != 4 && width != 8)) return;
    if (width == 8 && type_info[type].size > 2) return;
    if (load->where) step_of_symbol(&n, load->where);
    const int64_t step = step_of_index(&n, load->at[0]);
    if (!n.good || step != 1 || p->nest->symbol_count + 2 * n.count + 2 > p->capacity) return;
    const char *name = names_stem(
        p->e, NULL, arena_printf(p->arena, "%s_adjacent", p->nest->symbols[load->array].name),
        suffixes);
    const char *form = print_span(loop), *storage = type_info[type].c_name;
    const char *data = print_symbol(p, load->array);
    text_printf(p->out, "ls_%s_%s %s = {};\nint %s_whole;\n{\n", form, storage, name, name);
    NestNode *const ends[2] = {instance(&n, load, 0), instance(&n, load, width - 1)};
    const NestNode *first = print_slice(p, ends[0]), *last = print_slice(p, ends[1]);
    const char *at = print_index(p, first->at[0]);
    text_printf(p->out,
                "const i64 adjacent = %s;\n%s_whole = adjacent %% %u == 0 && %s == adjacent + %u",
                at, name, width, print_index(p, last->at[0]), width - 1);
    for (const NestNode *a = ends[0], *b = ends[1]; a->next; a = a->next, b = b->next)
        if (p->nest->values->values[a->value].op == OP_FLOORDIV)
            text_printf(p->out, " && %s == %s", print_symbol(p, a->name), print_symbol(p, b->name));
    if (load->where)
        text_printf(p->out, " && %s && %s", print_symbol(p, first->where),
                    print_symbol(p, last->where));
    text_printf(p->out, ";\nif (%s_whole) %s = ls_load_%s_%s(%s, adjacent);\n}\n", name, name, form,
                storage, data);
    p->adjacent[load->name] = name;
}
