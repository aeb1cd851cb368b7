/* reduce.c: reductions in generated code.
 *
 * A reduction adds lines to each part of its phase's skeleton: buffers or registers, what an
 * element pushes, the tile's value, and how tiles combine. The variables of reduction `s` are
 * s_leaf, s_lane, s_eight, s_vector, s_odd, s_row_level, s_part; a logsumexp has s_most and s_base
 * besides. The tree itself is templates/reduce.h. */
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
    {OP_REDUCE_MIN, "min", "LS_INFINITY_%T", "LS_MOST_%T", "~(%t)0", "ls_min_%t(a, b)",
     "ls_min_%t(a, b)"},
    {OP_REDUCE_MAX, "max", "-LS_INFINITY_%T", "-LS_MOST_%T - 1", "0", "ls_max_%t(a, b)",
     "ls_max_%t(a, b)"},
    {OP_ANY, "any", "", "0", "", "", "a | b"},
    {OP_ALL, "all", "", "1", "", "", "a & b"},
    {OP_LOGSUMEXP, "sum", "(%t)-0.0", "", "", "a + b", ""},
    {OP_ARGMIN, "argmin", "", "", "", "", ""},
    {OP_ARGMAX, "argmax", "", "", "", "", ""},
};

static const Kind *kind_of(Op op) {
    for (size_t i = 0; i < COUNT(kinds); i++)
        if (kinds[i].op == op) return &kinds[i];
    return NULL;
}

/* The type the tree works on: bool as i32. */
static Type tree_type(const Emitter *e, ValueId r) {
    Type type = (Type)e->f->values[e->f->values[r].arg[0]].type;
    return type == TYPE_BOOL ? TYPE_I32 : type;
}

static bool is_arg(Op op) {
    return op == OP_ARGMIN || op == OP_ARGMAX;
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

/* The suffix of the functions: sum_f32, argmax_i32. */
static const char *kind_name(Emitter *e, ValueId r) {
    return arena_printf(e->arena, "%s_%s", kind_of((Op)e->f->values[r].op)->stem,
                        type_info[tree_type(e, r)].name);
}

/* The C type of partial results. */
static const char *partial_type(Emitter *e, ValueId r) {
    if (is_arg((Op)e->f->values[r].op)) return arena_printf(e->arena, "ls_arg_%s", kind_name(e, r));
    return type_info[tree_type(e, r)].c_name;
}

bool emit_is_flat(const Emitter *e) {
    if (e->phase->shape == SHAPE_COLUMNS) return true;
    for (size_t i = 0; i < e->phase->reduction_count; i++)
        if (e->f->values[e->phase->reductions[i]].op == OP_LOGSUMEXP) return true;
    return false;
}

/* The variable stem of a reduction, and the name of its result. */
static const char *stem_of(Emitter *e, ValueId r) {
    static const char *const suffixes[] = {"leaf",   "row_level", "part", "most",  "base",
                                           "top",    "sum",       "lane", "eight", "total",
                                           "vector", "odd",       NULL};
    const Value *value = &e->f->values[r];
    if (!e->name_of[r])
        e->name_of[r] = names_stem(e, value->name, op_info[value->op].name, suffixes);
    return e->name_of[r];
}

static const char *field_named(Emitter *e, ValueId r, const char *what) {
    return arena_printf(e->arena, "phase_%u_%s_%s", e->number, stem_of(e, r), what);
}

/* Higher levels need less than the first again. */
static ls_image_extent partial_extent(Emitter *e, uint64_t element_bytes) {
    ls_image_extent extent = e->items;
    extent.scale *= 2 * element_bytes;
    if (e->phase->shape == SHAPE_COLUMNS) extent.scale *= e->target->columns;
    return extent;
}

void emit_reduction_fields(Emitter *e, ValueId r) {
    Op op = (Op)e->f->values[r].op;
    uint64_t bytes = is_arg(op) ? 16 : type_info[tree_type(e, r)].size;
    const char *type = is_arg(op) ? arena_printf(e->arena, "struct ls_arg_%s", kind_name(e, r))
                                  : partial_type(e, r);
    emit_add_field(e, field_named(e, r, "part"), type, partial_extent(e, bytes), false);
    if (op == OP_LOGSUMEXP)
        emit_add_field(e, field_named(e, r, "most"), type, partial_extent(e, bytes), false);
}

/* The same in both portions of a phase, whose variables may have other names. */
static const char *octet_field(Emitter *e, ValueId r, const char *what) {
    return arena_printf(e->arena, "phase_%u_octet%s_%u", e->number, what, r);
}

/* What the octets come to, 16 of a tile of rows; and while a strip is walked their levels. */
void emit_strip_fields(Emitter *e, ValueId r) {
    const uint64_t bytes = is_arg((Op)e->f->values[r].op) ? 16 : type_info[tree_type(e, r)].size;
    const char *type = is_arg((Op)e->f->values[r].op)
                           ? arena_printf(e->arena, "struct ls_arg_%s", kind_name(e, r))
                           : partial_type(e, r);
    ls_image_extent octets = plan_extent(e->f, 16 * bytes, e->phase->outer);
    octets.factor[octets.factor_count++] =
        (ls_image_factor){.axes = e->phase->inner, .minimum = 1, .divide = 1024};
    emit_add_field(e, octet_field(e, r, ""), type, octets, false);
    emit_add_field(e, octet_field(e, r, "_level"), type,
                   plan_extent(e->f, 4 * bytes, e->phase->outer), false);
    e->fields[e->field_count - 1].temporary.per_block = 1;
}

/* ---- the parts, for the dialects with one lane and with 32, and for rows and columns ---- */

typedef struct Lines {
    const char *s, *kind, *type, *value, *part, *most_part, *max;
    const char *most;                /* the variable of a row's maximum */
    const char *real;                /* f32 or f64, of a logsumexp */
    const char *octet, *octet_level; /* what strips leave, and their levels */
    bool arg, lse, strip;
    bool quick; /* whole tiles leave zeros and NaNs to the loop that takes any */
} Lines;

static void rows_loop(const Lines *r, Part part, Text *out) {
    switch (part) {
    case PART_LEAVES:
        text_printf(out, "%s %s_leaf[1024] LS_ALIGN(64);\n", r->type, r->s);
        if (r->lse) text_printf(out, "%s %s_most[1024] LS_ALIGN(64);\n", r->type, r->s);
        break;
    case PART_PUSH:
        if (r->arg)
            text_printf(out, "%s_leaf[leaf] = ls_leaf_%s(%s, first + leaf - row * wide);\n", r->s,
                        r->kind, r->value);
        else
            text_printf(out, "%s_leaf[leaf] = %s;\n", r->s, r->value);
        break;
    case PART_PAD: /* a tile of its own is done here, short rows side by side when all are there */
        text_puts(out, "if (wide == 1024) {\n");
        if (r->lse)
            text_printf(out, "    %s_most[0] = ls_exp_row_%s(%s_leaf, last - first, wide);\n", r->s,
                        r->real, r->s);
        text_printf(out,
                    "    %s_leaf[0] = ls_tile_%s(%s_leaf, %s);\n"
                    "} else for (i64 i = last - first; i < wide; i++)\n"
                    "    %s_leaf[row * wide + i] = ls_identity_%s();\n",
                    r->s, r->kind, r->s, r->lse ? "1024" : "last - first", r->s,
                    r->lse ? r->max : r->kind);
        break;
    case PART_LANES:
        text_printf(out, "%s %s_lane[128] LS_ALIGN(64);\n", r->type, r->s);
        if (r->quick) text_printf(out, "int %s_odd = 0;\n", r->s);
        break;
    case PART_EIGHT: text_printf(out, "%s %s_eight[8];\n", r->type, r->s); break;
    case PART_TOP_EIGHT:
        if (r->lse) text_printf(out, "%s %s_eight[8];\n", r->type, r->s);
        break;
    case PART_PUSH_TOP:
        if (r->lse) text_printf(out, "%s_eight[part] = %s;\n", r->s, r->value);
        break;
    case PART_TOP_LANE:
        if (r->lse)
            text_printf(out, "%s_lane[lane] = ls_quick_%s(%s_eight);\n", r->s, r->max, r->s);
        break;
    case PART_TOP:
        if (r->lse)
            text_printf(out,
                        "%s_most[row] = ls_lane_quick_%s(%s_lane);\n"
                        "const %s %s_base = ls_base_%s(%s_most[row]);\n",
                        r->s, r->max, r->s, r->type, r->s, r->real, r->s);
        break;
    case PART_PUSH_EIGHT:
        if (r->lse)
            text_printf(out, "%s_eight[part] = ls_exp_%s(%s - %s_base);\n", r->s, r->real, r->value,
                        r->s);
        else
            text_printf(out, "%s_eight[part] = %s;\n", r->s, r->value);
        break;
    case PART_PUSH_LANE:
        text_printf(out, "%s_lane[lane] = ls_%s_%s(%s_eight);\n", r->s,
                    r->quick ? "quick" : "eight", r->kind, r->s);
        if (r->quick) text_printf(out, "%s_odd |= ls_odd_%s(%s_eight);\n", r->s, r->real, r->s);
        break;
    case PART_WHOLE:
        text_printf(out, "%s_leaf[0] = ls_lane_%s_%s(%s_lane);\n", r->s,
                    r->quick ? "quick" : "tree", r->kind, r->s);
        break;
    case PART_ODD:
        if (r->quick) text_printf(out, " | %s_odd | (%s_leaf[0] == 0)", r->s, r->s);
        break;
    case PART_TILE:
        if (r->lse)
            text_printf(out, "if (wide < 1024) ls_exp_rows_%s(%s_leaf, %s_most, batch, wide);\n",
                        r->real, r->s, r->s);
        text_printf(out, "if (wide < 1024) ls_rows_%s(%s_leaf, batch, wide);\n", r->kind, r->s);
        break;
    case PART_PARTS:
        text_printf(out, "%s %s_part = %s_leaf[row];\n", r->type, r->s, r->s);
        if (r->lse) /* a NaN is in the sum */
            text_printf(out, "%s %s_top = %s_part == %s_part ? %s_most[row] : %s_part;\n", r->type,
                        r->s, r->s, r->s, r->s, r->s);
        break;
    default: break;
    }
}

static void strips_loop(const Lines *r, Part part, Text *out) {
    switch (part) {
    case PART_LEVELS:
        text_printf(out,
                    "LS_ALIGN(64) %s %s_row_level[4][64], %s_total[64], %s_leaf[64];\n"
                    "for (int c = 0; c < 64; c++) %s_leaf[c] = ls_identity_%s();\n",
                    r->type, r->s, r->s, r->s, r->s, r->kind);
        break;
    case PART_PUSH:
        if (r->arg)
            text_printf(out, "%s_leaf[c] = ls_leaf_%s(%s, at);\n", r->s, r->kind, r->value);
        else
            text_printf(out, "%s_leaf[c] = %s;\n", r->s, r->value);
        break;
    case PART_PUSH_ROW:
        text_printf(out, "ls_push_columns_%s(%s_row_level, row, %s_leaf);\n", r->kind, r->s, r->s);
        break;
    case PART_EIGHT: text_printf(out, "%s %s_eight[8];\n", r->type, r->s); break;
    case PART_PUSH_EIGHT: text_printf(out, "%s_eight[row] = %s;\n", r->s, r->value); break;
    case PART_VECTORS: text_printf(out, "ls_vector_%s %s_vector[4];\n", r->type, r->s); break;
    case PART_EIGHT_VECTORS: text_printf(out, "ls_vector_%s %s_eight[8];\n", r->type, r->s); break;
    case PART_PUSH_VECTOR: text_printf(out, "%s_eight[row] = %s;\n", r->s, r->value); break;
    case PART_PUSH_SHORT:
        text_printf(out, "ls_join_eight_%s(&%s_vector[part], %s_eight);\n", r->kind, r->s, r->s);
        break;
    case PART_SHORT:
        text_printf(out, "ls_put_vectors_%s(%s_total, %s_vector);\n", r->kind, r->s, r->s);
        break;
    case PART_PUSH_EIGHTS:
        text_printf(out, "%s_total[c] = ls_eight_%s(%s_eight);\n", r->s, r->kind, r->s);
        break;
    case PART_TOTALS:
        text_printf(out, "for (int c = 0; c < 64; c++) %s_total[c] = ls_identity_%s();\n", r->s,
                    r->kind);
        break;
    case PART_PUSH_FOURS:
        text_printf(out, "%s_total[c] = ls_combine_%s(%s_total[c], ls_four_%s(%s_eight));\n", r->s,
                    r->kind, r->s, r->kind, r->s);
        break;
    case PART_PUSH_OCTET:
        text_printf(out,
                    "const %s *const %s_sum =\n"
                    "    all ? %s_total : ls_columns_%s(%s_row_level, rows, %s_total);\n"
                    "ls_push_octets_%s(%s, wide, part, 64 / span, width, %s_sum, %s);\n",
                    r->type, r->s, r->s, r->kind, r->s, r->s, r->kind, r->octet_level, r->s,
                    r->octet);
        break;
    case PART_OCTETS:
        text_printf(out,
                    "%s %s_total[64] LS_ALIGN(64);\n"
                    "ls_octets_%s(%s, wide, octets, width, %s_total);\n"
                    "const %s *%s_sum = %s_total;\n",
                    r->type, r->s, r->kind, r->octet, r->s, r->type, r->s, r->s);
        break;
    case PART_PUBLISH:
        text_printf(out,
                    "for (i64 c = 0; c < width; c++) a->%s[(run + tile) * 64 + c] = %s_sum[c];\n",
                    r->part, r->s);
        break;
    case PART_GATHER:
        text_printf(out,
                    "for (i64 c = 0; c < width; c++) {\n"
                    "    %s_total[c] = ls_tree_alone_%s(a->%s + run * 64 + c, tiles, 64);\n"
                    "}\n%s_sum = %s_total;\n",
                    r->s, r->kind, r->part, r->s, r->s);
        break;
    default: break;
    }
}

/* Of a strip of rows and columns, and of what is made of all strips. */
static void strips_simt(const Lines *r, Part part, Text *out) {
    switch (part) {
    case PART_LEVELS: text_printf(out, "%s %s_row_level[4] = {};\n", r->type, r->s); break;
    case PART_LEAVES:
        text_printf(out, "%s %s_leaf = ls_identity_%s();\n", r->type, r->s, r->kind);
        break;
    case PART_PUSH:
        if (r->arg)
            text_printf(out, "%s_leaf = ls_leaf_%s(%s, at);\n", r->s, r->kind, r->value);
        else
            text_printf(out, "%s_leaf = %s;\n", r->s, r->value);
        break;
    case PART_PUSH_ROW:
        text_printf(out, "ls_push_row_%s(%s_row_level, row, %s_leaf);\n", r->kind, r->s, r->s);
        break;
    case PART_PUSH_OCTET:
        text_printf(out, "ls_push_octet_%s(%s, wide, part, 64 / span, %s_row_level[3], %s);\n",
                    r->kind, r->octet_level, r->s, r->octet);
        break;
    case PART_OCTETS:
        text_printf(out, "%s %s_part = ls_octets_%s(%s, wide, octets);\n", r->type, r->s, r->kind,
                    r->octet);
        break;
    case PART_PUBLISH:
        text_printf(out, "a->%s[(run + tile) * 32 + ls_lane()] = %s_part;\n", r->part, r->s);
        break;
    case PART_GATHER:
        text_printf(out, "%s_part = ls_tree_alone_%s(a->%s + run * 32 + ls_lane(), tiles, 32);\n",
                    r->s, r->kind, r->part);
        break;
    default: break;
    }
}

/* How the tiles of rows combine is one text for both dialects: a single thread is lane 0. */
static void rows_combine(const Lines *r, bool flat, Part part, Text *out) {
    if (part == PART_KEEP && !flat) {
        text_printf(out, "a->%s[run + tile] = %s_part;\n", r->part, r->s);
    } else if (part == PART_OWN && !flat) {
        text_printf(out, "%s_part = ls_tree_%s(a->%s + run, tiles);\n", r->s, r->kind, r->part);
    } else if (part == PART_PUBLISH && !flat) {
        text_printf(out, "a->%s[level + part] = %s_part;\n", r->part, r->s);
    } else if (part == PART_GATHER && !flat) {
        text_printf(out, "%s_part = ls_gather_%s(a->%s + run, brothers);\n", r->s, r->kind,
                    r->part);
    } else if (part == PART_PUBLISH) {
        text_printf(out, "if (ls_lane() == 0) a->%s[run + tile] = %s_part;\n", r->part, r->s);
        if (r->lse)
            text_printf(out, "if (ls_lane() == 0) a->%s[run + tile] = %s;\n", r->most_part,
                        r->most);
    } else if (part == PART_GATHER) {
        if (r->lse)
            text_printf(out,
                        "%s = ls_tree_%s(a->%s + run, tiles);\n"
                        "for (i64 i = run + ls_lane(); i < run + tiles; i += LS_LANES)\n"
                        "    a->%s[i] = a->%s[i] * ls_exp_%s(a->%s[i] - %s);\n"
                        "ls_group_sync();\n",
                        r->most, r->max, r->most_part, r->part, r->part, r->real, r->most_part,
                        r->most);
        text_printf(out, "%s_part = ls_tree_%s(a->%s + run, tiles);\n", r->s, r->kind, r->part);
    }
}

static void finish(Emitter *e, ValueId v, const Lines *r, bool loop_columns, Text *out) {
    Op op = (Op)e->f->values[v].op;
    Type type = (Type)e->f->values[v].type;
    const char *value = loop_columns ? arena_printf(e->arena, "%s_sum[c]", r->s)
                                     : arena_printf(e->arena, "%s_part", r->s);
    text_printf(out, "const %s %s = ", emit_type(type), r->s);
    if (r->arg)
        text_printf(out, "%s.index;\n", value);
    else if (r->lse)
        text_printf(out, "ls_logsumexp_%s(%s, %s);\n", r->real, r->most, value);
    else if (op == OP_SUM && type_info[type].class == 'F')
        text_printf(out, "inner == 0 ? 0 : %s;\n", value);
    else
        text_printf(out, "%s;\n", value);
}

/* A tile that turns out not to be plain is taken again, so nothing of it may have been stored. */
static bool is_quick(const Emitter *e, ValueId v) {
    const Op op = (Op)e->f->values[v].op;
    if (op != OP_REDUCE_MIN && op != OP_REDUCE_MAX) return false;
    if (e->target->simt || type_info[tree_type(e, v)].class != 'F') return false;
    for (size_t i = 0; i < e->phase->store_count; i++)
        if (e->phase->stores[i].level == LEVEL_ELEMENT) return false;
    return e->phase->shape == SHAPE_ROWS;
}

void emit_reduction(Emitter *e, ValueId v, Part part, Text *out) {
    const Value *value = &e->f->values[v];
    Op op = (Op)value->op;
    Lines r = {.s = stem_of(e, v),
               .kind = kind_name(e, v),
               .type = partial_type(e, v),
               .value = e->text_of[value->arg[0]] ? emit_bare(e, e->text_of[value->arg[0]]) : "",
               .part = field_named(e, v, "part"),
               .most_part = field_named(e, v, "most"),
               .real = type_info[tree_type(e, v)].name,
               .arg = is_arg(op),
               .lse = op == OP_LOGSUMEXP,
               .quick = is_quick(e, v),
               .strip = e->portion == PORTION_STRIP};
    r.octet = arena_printf(e->arena, "a->%s + %s * wide + own_at", octet_field(e, v, ""),
                           r.strip ? "strip" : "16 * tile");
    r.octet_level =
        arena_printf(e->arena, "a->%s + 4 * owner * wide + own_at", octet_field(e, v, "_level"));
    r.max = arena_printf(e->arena, "max_%s", r.real);
    bool rows = e->phase->shape == SHAPE_ROWS, simt = e->target->simt;
    r.most = arena_printf(e->arena, "%s_top", r.s);
    if (part == PART_FINISH) {
        e->text_of[v] = r.s;
        finish(e, v, &r, !rows && !simt, out);
    } else if (rows && part >= PART_PUBLISH) {
        rows_combine(&r, emit_is_flat(e), part, out);
    } else if (rows) {
        rows_loop(&r, part, out);
    } else if (simt) {
        strips_simt(&r, part, out);
    } else {
        strips_loop(&r, part, out);
    }
}

const char *emit_part(Emitter *e, Part part) {
    Text text = text_open(e->arena);
    for (size_t i = 0; i < e->phase->reduction_count; i++)
        emit_reduction(e, e->phase->reductions[i], part, &text);
    return text.data;
}

const char *emit_combine(Emitter *e) {
    const bool batched = e->phase->shape == SHAPE_ROWS;
    const char *strip_item = e->list < 0 ? (batched ? "item + row - tile" : "item - tile")
                             : batched   ? "place + (item - start) + row - tile"
                                         : "place + (item - start) - tile";
    ls_image_extent arrivals = e->items;
    arrivals.scale *= sizeof(uint32_t);
    const char *arrived = emit_add_field(e, arena_printf(e->arena, "phase_%u_arrived", e->number),
                                         "u32", arrivals, true);
    for (size_t i = 0; i < e->phase->reduction_count; i++)
        emit_reduction_fields(e, e->phase->reductions[i]);
    Text text = text_open(e->arena);
    Hole holes[] = {{"PUBLISH", emit_part(e, PART_PUBLISH)},
                    {"GATHER", emit_part(e, PART_GATHER)},
                    {"KEEP", emit_part(e, PART_KEEP)},
                    {"FINISH", emit_part(e, PART_OWN)},
                    {"ARRIVED", arena_printf(e->arena, "a->%s", arrived)},
                    {"FIRST_ITEM", batched ? "item + row - tile" : "item - tile"},
                    {"STRIP_ITEM", strip_item}};
    emit_fill(e, &text,
              arena_printf(e->arena, emit_is_flat(e) ? "combine_flat.%s.k" : "combine_tree.%s.k",
                           e->target->lanes),
              holes, COUNT(holes));
    return text.data;
}

/* ---- the library's macros for every kind and access the plan uses ---- */

/* What whole tiles of rows use besides. */
static void add_quick(Emitter *e, Text *out, Op op, Type type) {
    const char *name = type_info[type].name, *c_name = type_info[type].c_name;
    const bool min = op == OP_REDUCE_MIN;
    if (e->target->simt || type_info[type].class != 'F') return;
    const char *const lines[] = {
        arena_printf(e->arena, "LS_QUICK(%s_%s, %s, %c)\n", min ? "min" : "max", name, c_name,
                     min ? '<' : '>'),
        arena_printf(e->arena, "LS_ODD(%s)\n", name),
    };
    for (size_t i = 0; i < COUNT(lines); i++)
        if (!strstr(out->data, lines[i])) text_puts(out, lines[i]);
}

static void add_kind(Emitter *e, Text *out, const Kind *kind, Type type) {
    char class = type_info[type].class;
    const char *identity = class == 'F'   ? kind->identity_float
                           : class == 'U' ? kind->identity_unsigned
                                          : kind->identity_signed;
    const char *combine = class == 'F' ? kind->combine_float : kind->combine_integer;
    const bool ordered = nest_is_ordered(kind->op, type);
    const char *line = arena_printf(e->arena, "LS_REDUCTION(%s_%s, %s, %s, %s, %d)\n", kind->stem,
                                    type_info[type].name, type_info[type].c_name,
                                    expand(e, identity, type), expand(e, combine, type), ordered);
    if (!strstr(out->data, line)) text_puts(out, line);
    if (kind->op == OP_REDUCE_MIN || kind->op == OP_REDUCE_MAX) add_quick(e, out, kind->op, type);
}

static void add_arg_kind(Emitter *e, Text *out, Op op, Type type) {
    const char *name = type_info[type].name;
    char sign = op == OP_ARGMAX ? '>' : '<', inverse = op == OP_ARGMAX ? '<' : '>';
    const char *better =
        type_info[type].class == 'F'
            ? arena_printf(e->arena, "x %c y || (x == y && ls_bits_%s(x) %c ls_bits_%s(y))", sign,
                           name, inverse, name)
            : arena_printf(e->arena, "x %c y", sign);
    const char *line = arena_printf(e->arena, "LS_ARG_REDUCTION(%s_%s, %s, %s)\n",
                                    kind_of(op)->stem, name, type_info[type].c_name, better);
    if (!strstr(out->data, line)) text_puts(out, line);
}

const char *emit_use_kind(Emitter *e, Op op, Type type) {
    e->kinds[op - OP_NONE][type] = true;
    return arena_printf(e->arena, "%s_%s", kind_of(op)->stem, type_info[type].name);
}

void emit_reduction_library(Emitter *e, Text *out) {
    for (size_t k = 0; k < COUNT(kinds); k++)
        for (Type type = 0; type < TYPE_COUNT; type++)
            if (e->kinds[kinds[k].op - OP_NONE][type]) add_kind(e, out, &kinds[k], type);
    for (size_t p = 0; p < e->plan->phase_count; p++)
        for (size_t i = 0; i < e->plan->phases[p].reduction_count; i++) {
            ValueId v = e->plan->phases[p].reductions[i];
            Op op = (Op)e->f->values[v].op;
            Type type = tree_type(e, v);
            if (is_arg(op)) {
                add_arg_kind(e, out, op, type);
                continue;
            }
            add_kind(e, out, kind_of(op), type);
            if (op == OP_LOGSUMEXP) {
                add_kind(e, out, kind_of(OP_REDUCE_MAX), type);
                const char *line =
                    arena_printf(e->arena, "LS_LOGSUMEXP(%s)\n", type_info[type].name);
                if (!strstr(out->data, line)) text_puts(out, line);
                line = arena_printf(e->arena, "LS_EXP_ROWS(%s)\n", type_info[type].name);
                if (!e->target->simt && e->plan->phases[p].shape == SHAPE_ROWS &&
                    !strstr(out->data, line))
                    text_puts(out, line);
            }
        }
}

static void add_octets(Emitter *e, Text *out, const Phase *phase) {
    for (size_t i = 0; i < phase->reduction_count; i++) {
        const ValueId v = phase->reductions[i];
        const char *line =
            arena_printf(e->arena, "LS_OCTETS(%s, %s, %d)\n", kind_name(e, v), partial_type(e, v),
                         nest_is_ordered((Op)e->f->values[v].op, tree_type(e, v)));
        if (!strstr(out->data, line)) text_puts(out, line);
    }
}

void emit_octet_library(Emitter *e, const Way *way, Text *out) {
    for (size_t k = 0; k < way->count; k++) {
        const Kernel *kernel = &way->kernels[k];
        if (kernel->kind != KERNEL_STRIPS) continue;
        for (size_t p = kernel->first; p < kernel->first + kernel->count; p++)
            if (e->plan->phases[p].shape == SHAPE_COLUMNS) add_octets(e, out, &e->plan->phases[p]);
    }
}
