/* reduce.c: which reductions the library text of a variant has: the kinds that its nests use. The
 * functions are of templates/reduce.h. */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "emit/emit.h"

/* One row per reduction operation: the stem of its functions, the identity and how two values
 * combine, for floats and for integers. %t is the type. */
typedef struct Kind {
    Op op;
    const char *stem, *identity_float, *identity_signed, *identity_unsigned;
    const char *combine_float, *combine_integer;
} Kind;
static const Kind kinds[] = {
    {OP_SUM, "sum", "(%t)-0.0", "0", "0", "a + b", "ls_add_%t(a, b)"},
    {OP_PROD, "prod", "(%t)1.0", "1", "1", "a * b", "ls_mul_%t(a, b)"},
    {OP_REDUCE_MIN, "min", "LS_INFINITY_%T", "LS_MAX_%T", "~(%t)0",
     "LS_LESSER(%t, ls_min_%t(a, b), a, b)", "ls_min_%t(a, b)"},
    {OP_REDUCE_MAX, "max", "-LS_INFINITY_%T", "-LS_MAX_%T - 1", "0",
     "LS_GREATER(%t, ls_max_%t(a, b), a, b)", "ls_max_%t(a, b)"},
    {OP_ANY, "any", "", "0", "", "", "a | b"},
    {OP_ALL, "all", "", "1", "", "", "a & b"},
};

static const Kind *kind_of(Op op) {
    for (size_t i = 0; i < COUNT(kinds); i++)
        if (kinds[i].op == op) return &kinds[i];
    return NULL;
}

static const char *expand(Emitter *e, const char *format, Type type) {
    Text text = text_open(e->arena);
    for (const char *c = format; *c; c++) {
        if (*c != '%') {
            text_add(&text, c, 1);
            continue;
        }
        c++;
        const char *name = type_info[type].name;
        for (const char *n = name; *n; n++) {
            char letter = *n;
            if (*c == 'T' && letter >= 'a' && letter <= 'z') letter = (char)(letter - 'a' + 'A');
            text_add(&text, &letter, 1);
        }
    }
    return text.data;
}

/* What whole tiles of rows, and short rows, use besides. */
static void add_quick(Emitter *e, Text *out, Op op, Type type) {
    const char *name = type_info[type].name, *c_name = type_info[type].c_name;
    const bool min = op == OP_REDUCE_MIN;
    if (e->target->gpu || type_info[type].class != 'F') return;
    const char *const lines[] = {
        arena_printf(e->arena, "LS_QUICK(%s_%s, %s, %c)\n", min ? "min" : "max", name, c_name,
                     min ? '<' : '>'),
        arena_printf(e->arena, "LS_ODD(%s)\n", name),
        min ? "LS_REDUCE_ROWS(min_f32, ls_vectors_min_f32(a, b))\n"
            : "LS_REDUCE_ROWS(max_f32, ls_vectors_max_f32(a, b))\n",
    };
    for (size_t i = 0; i < (type == TYPE_F32 ? 3 : 2); i++)
        if (!strstr(out->data, lines[i])) text_puts(out, lines[i]);
}

static void add_kind(Emitter *e, Text *out, const Kind *kind, Type type) {
    char class = type_info[type].class;
    const char *identity = class == 'F'   ? kind->identity_float
                           : class == 'U' ? kind->identity_unsigned
                                          : kind->identity_signed;
    const char *combine = class == 'F' ? kind->combine_float : kind->combine_integer;
    if (type == TYPE_F32 && e->target->extrema_from && kind->op == OP_REDUCE_MIN)
        combine = "ls_minimum_f32(a, b)";
    if (type == TYPE_F32 && e->target->extrema_from && kind->op == OP_REDUCE_MAX)
        combine = "ls_maximum_f32(a, b)";
    const bool ordered = nest_is_ordered(kind->op, type);
    const char *line = arena_printf(e->arena, "LS_REDUCTION(%s_%s, %s, %s, %s, %d)\n", kind->stem,
                                    type_info[type].name, type_info[type].c_name,
                                    expand(e, identity, type), expand(e, combine, type), ordered);
    if (!strstr(out->data, line)) text_puts(out, line);
    if (kind->op == OP_REDUCE_MIN || kind->op == OP_REDUCE_MAX) add_quick(e, out, kind->op, type);
}

const char *emit_use_kind(Emitter *e, Op op, Type type) {
    e->kinds[op - OP_NONE][type] = true;
    return arena_printf(e->arena, "%s_%s", kind_of(op)->stem, type_info[type].name);
}

void emit_reduction_library(Emitter *e, Text *out) {
    for (size_t k = 0; k < COUNT(kinds); k++)
        for (Type type = 0; type < TYPE_COUNT; type++)
            if (e->kinds[kinds[k].op - OP_NONE][type]) add_kind(e, out, &kinds[k], type);
}
