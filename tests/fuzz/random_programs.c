/* random_programs.c: well-typed .step programs made of random numbers, for exec_runner: names that
 * C and the emitter use themselves, values over every set of axes, plain and ragged, reductions
 * inside reductions, gathers, scans, draws, conditions, reads before and after assignments, every
 * storage type. A program is a function of its number alone. What the checker refuses here is a
 * mistake of this file or of the checker: either fails the test.
 */
#include "exec.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_MOST = 64, AXES_MOST = 9, DEPTH = 4, SETS = 3 };

/* clang-format off */
static const char *const nasty[] = {
    "double", "int", "switch", "register", "item", "tile", "leaf", "x_leaf", "size_n", "x_data",
    "n_above", "n_first", "x_at", "x_four", "x_stride_n", "a", "e", "c", "at", "inner", "outer",
    "outers", "phase_1", "sum_3", "x_2", "x_2_2", "__x__", "_", "ls_load_f32", "LS_KERNEL",
    "LS_FN", "u", "i", "tiles", "level", "part", "sum", "max", "count", "size", "index", "grad",
    "arguments", "live", "whole", "k_n", "n_k", "n", "k", "x", "y", "first", "last",
    "s_arguments", "s", "of", "from", "math", "step_1", "worker", "workers", "main", "memcpy",
    "signed", "complex", "stdout", "errno", "fma", "expf", "blockIdx", "warpSize", "lane",
    "lanes", "mark", "run", "chunk", "columns", "threadIdx", "x_tile", "x_tiles", "x_part",
    "phase_1_arrived", "phase_2_done", "n_size", "pass", "own_column", "strip", "x_level",
    "x_lane", "value", "values", "wide", "together", "batch", "asm", "typeof", "nullptr", "auto",
    "inline", "half", "float2", "uint", "linux", "unix"};
/* clang-format on */
enum { NASTY = sizeof nasty / sizeof *nasty };

typedef enum Kind { F32, F64, I32, I64, U32, U64, BOOL, KINDS } Kind;
static const char *const kind_names[] = {"f32", "f64", "i32", "i64", "u32", "u64", "bool"};

static const struct {
    const char *name;
    Kind kind;
} storage[] = {{"f32", F32},  {"f32", F32},  {"f32", F32},  {"f64", F64},   {"i32", I32},
               {"i64", I64},  {"u32", U32},  {"u64", U64},  {"bool", BOOL}, {"f16", F32},
               {"bf16", F32}, {"e4m3", F32}, {"e5m2", F32}, {"i8", I32},    {"u8", I32},
               {"i16", I32},  {"u16", I32}};
enum { STORAGE = sizeof storage / sizeof *storage };

enum { IN, INOUT, OUT, LET };
typedef struct Name {
    const char *text;
    Kind kind;
    unsigned axes, type; /* type: of a parameter, in `storage` */
    unsigned role;
    bool readable, assigned;
} Name;

typedef struct Generator {
    uint64_t state;
    FILE *out;
    const char *axis[AXES_MOST];
    int64_t fixed[AXES_MOST]; /* -1: open */
    unsigned axis_count, all;
    unsigned list, ragged; /* the axis that counts tensors; those that hang on it, or none */
    const char *whole;     /* of axes in blocks, `whole as (block, block + 1 = length)`, or NULL */
    unsigned block;
    int64_t length;
    bool split; /* write [q, k] for both */
    Name names[NAMES_MOST];
    unsigned name_count;
    bool taken[NASTY];
    unsigned operations;        /* left to be written in this statement */
    unsigned scans, scan_names; /* around this; so far in the step */
    bool small;                 /* quick to compile and to run: short, most lengths small */
} Generator;

/* An expression that was written: the axes it has; whether it is a constant and so without type. */
typedef struct Made {
    unsigned axes;
    bool constant;
} Made;

static unsigned below(Generator *g, unsigned limit) {
    return (unsigned)(random_bits(&g->state) % limit);
}

static bool chance(Generator *g, unsigned percent) {
    return below(g, 100) < percent;
}

/* The two axes of blocks, or none. */
static unsigned blocks(const Generator *g) {
    return g->whole ? 3u << g->block : 0;
}

/* With the axes that others hang on. */
static unsigned closure(const Generator *g, unsigned axes) {
    if (g->whole && axes >> (g->block + 1) & 1) axes |= 1u << g->block;
    return axes & g->ragged ? axes | 1u << g->list : axes;
}

/* Without what hangs on one of `on`. */
static unsigned standing(const Generator *g, unsigned axes, unsigned on) {
    if (g->whole && on >> g->block & 1) axes &= ~(2u << g->block);
    return g->ragged && on >> g->list & 1 ? axes & ~g->ragged : axes;
}

static unsigned some_axes(Generator *g, unsigned among) {
    switch (below(g, 4)) {
    case 0: return among;
    case 1: return among & (unsigned)random_bits(&g->state) & (unsigned)random_bits(&g->state);
    default: return among & (unsigned)random_bits(&g->state);
    }
}

static unsigned random_axes(Generator *g, unsigned among) {
    return closure(g, some_axes(g, among));
}

/* A name nobody has; at the end of the list, made-up ones. */
static const char *new_name(Generator *g) {
    for (int attempts = 0; attempts < 200; attempts++) {
        const unsigned i = below(g, NASTY);
        if (g->taken[i]) continue;
        g->taken[i] = true;
        return nasty[i];
    }
    return NULL;
}

static Made write_value(Generator *g, Kind kind, unsigned allowed, unsigned depth);

static void write_axes(Generator *g, unsigned axes) {
    const char *before = "[";
    for (unsigned i = 0; i < g->axis_count; i++)
        if (axes >> i & 1) {
            const bool both = blocks(g) && i == g->block && (axes & blocks(g)) == blocks(g);
            fprintf(g->out, "%s%s", before, both && !g->split ? g->whole : g->axis[i]);
            before = ", ";
            i += both && !g->split;
        }
    if (axes) fputs("]", g->out);
}

static void write_constant(Generator *g, Kind kind) {
    static const char *const floats[] = {"0.5", "1.0", "3.25", "1e-3", "1e4", "inf",
                                         "nan", "pi",  "0.0",  "2",    "0.1", "7"};
    static const char *const integers[] = {"0", "1", "2", "3", "7", "0x7f", "100", "31", "12345"};
    if (kind == BOOL)
        fputs(chance(g, 50) ? "true" : "false", g->out);
    else if (kind <= F64)
        fputs(floats[below(g, sizeof floats / sizeof *floats)], g->out);
    else
        fputs(integers[below(g, sizeof integers / sizeof *integers)], g->out);
}

/* A coordinate as a value of the kind. */
static Made write_index(Generator *g, Kind kind, unsigned axis) {
    if (kind == BOOL)
        fprintf(g->out, "(index(%s) %% 3 == 1)", g->axis[axis]);
    else
        fprintf(g->out, kind == I64 ? "index(%s)" : "%s(index(%s))",
                kind == I64 ? g->axis[axis] : kind_names[kind], g->axis[axis]);
    return (Made){.axes = closure(g, 1u << axis)};
}

/* A name of the kind, one that is cast to it, a coordinate or a length. Never a constant: every
 * step has a rank-0 parameter. */
static Made write_leaf(Generator *g, Kind kind, unsigned allowed) {
    if (g->axis_count && chance(g, 8)) {
        const unsigned axis = below(g, g->axis_count);
        if (allowed >> axis & 1) return write_index(g, kind, axis);
        const unsigned over = closure(g, 1u << axis) & ~(1u << axis);
        if (kind != BOOL && g->fixed[axis] < 0 && !(over & ~allowed)) {
            fprintf(g->out, "%s(size(%s))", kind_names[kind], g->axis[axis]);
            return (Made){.axes = over};
        }
    }
    unsigned candidates[NAMES_MOST], count = 0;
    for (int any = 0; count == 0; any++)
        for (unsigned i = 0; i < g->name_count; i++)
            if (g->names[i].readable && !(g->names[i].axes & ~allowed) &&
                (any || g->names[i].kind == kind || chance(g, 25)))
                candidates[count++] = i;
    const Name *name = &g->names[candidates[below(g, count)]];
    if (name->kind == kind)
        fputs(name->text, g->out);
    else if (kind == BOOL)
        fprintf(g->out, "(%s > %s)", name->text, name->kind <= F64 ? "0.25" : "3");
    else
        fprintf(g->out, "%s(%s)", kind_names[kind], name->text);
    return (Made){.axes = name->axes};
}

/* One operand of two: a name when the other is a constant. */
static Made write_other(Generator *g, Kind kind, unsigned allowed, unsigned depth, Made first) {
    Made made =
        first.constant ? write_leaf(g, kind, allowed) : write_value(g, kind, allowed, depth);
    return (Made){made.axes | first.axes, made.constant && first.constant};
}

static Made write_binary(Generator *g, Kind kind, unsigned allowed, unsigned depth) {
    static const char *const patterns[KINDS] = {
        [F32] = "+-*/mMc+*",    [F64] = "+-*/mMc+*",    [I32] = "+-*dpmM&|^<>",
        [I64] = "+-*dpmM&|^<>", [U32] = "+-*dpmM&|^<>", [U64] = "+-*dpmM&|^<>",
        [BOOL] = "ao=!"};
    const char *all = patterns[kind];
    const char which = all[below(g, (unsigned)strlen(all))];
    static const struct {
        char letter;
        const char *before, *between;
    } forms[] = {{'+', "(", " + "},          {'-', "(", " - "},           {'*', "(", " * "},
                 {'/', "(", " / "},          {'d', "(", " // "},          {'p', "(", " % "},
                 {'m', "min(", ", "},        {'M', "max(", ", "},         {'c', "copysign(", ", "},
                 {'&', "bit_and(", ", "},    {'|', "bit_or(", ", "},      {'^', "bit_xor(", ", "},
                 {'<', "shift_left(", ", "}, {'>', "shift_right(", ", "}, {'a', "(", " and "},
                 {'o', "(", " or "},         {'=', "(", " == "},          {'!', "(", " != "}};
    size_t i = 0;
    while (forms[i].letter != which) i++;
    fputs(forms[i].before, g->out);
    const Made first = write_value(g, kind, allowed, depth);
    fputs(forms[i].between, g->out);
    const Made both = write_other(g, kind, allowed, depth, first);
    fputs(")", g->out);
    return both;
}

static Made write_compare(Generator *g, unsigned allowed, unsigned depth) {
    static const char *const compares[] = {"==", "!=", "<", "<=", ">", ">="};
    const Kind kind = (Kind)below(g, BOOL);
    fputs("(", g->out);
    const Made first = write_value(g, kind, allowed, depth);
    fprintf(g->out, " %s ", compares[below(g, 6)]);
    const Made both = write_other(g, kind, allowed, depth, first);
    fputs(")", g->out);
    return both;
}

static Made write_unary(Generator *g, Kind kind, unsigned allowed, unsigned depth) {
    static const char *const floats[] = {
        "abs(",   "-(",    "sign(",          "floor(", "ceil(",  "round(",   "trunc(",    "sqrt(",
        "exp(",   "log(",  "stop_gradient(", "rsqrt(", "cbrt(",  "exp2(",    "expm1(",    "log2(",
        "log1p(", "sin(",  "cos(",           "tanh(",  "erf(",   "sigmoid(", "softplus(", "bf16(",
        "f16(",   "e4m3(", "e5m2(",          "sin'(",  "tanh'(", "log1p'(",  "abs'("};
    static const char *const integers[] = {"abs(", "-(", "sign("};
    static const char *const tests[] = {"isnan(", "isinf(", "isfinite("};
    if (kind == BOOL) {
        if (chance(g, 40)) {
            fputs("(not ", g->out);
            const Made made = write_value(g, BOOL, allowed, depth);
            fputs(")", g->out);
            return made;
        }
        fputs(tests[below(g, 3)], g->out);
        const Made made = write_leaf(g, chance(g, 60) ? F32 : F64, allowed);
        fputs(")", g->out);
        return made;
    }
    fputs("(", g->out);
    fputs(kind == F32   ? floats[below(g, 31)]
          : kind == F64 ? floats[below(g, 11)]
          : kind <= I64 ? integers[below(g, 3)]
                        : "abs(",
          g->out);
    const Made made = write_leaf(g, kind, allowed);
    fputs("))", g->out);
    (void)depth;
    return made;
}

static Made write_select(Generator *g, Kind kind, unsigned allowed, unsigned depth) {
    fputs("(if ", g->out);
    const Made condition = write_value(g, BOOL, allowed, depth);
    fputs(" then ", g->out);
    const Made first = write_value(g, kind, allowed, depth);
    fputs(" else ", g->out);
    const Made both = write_other(g, kind, allowed, depth, first);
    fputs(")", g->out);
    return (Made){condition.axes | both.axes, both.constant};
}

static Made write_power(Generator *g, Kind kind, unsigned allowed) {
    static const char *const constants[] = {"2", "3", "0", "5"};
    fputs("(", g->out);
    Made made = write_leaf(g, kind, allowed);
    if (chance(g, 60) || made.constant) {
        fprintf(g->out, " ** %s)", constants[below(g, 4)]);
        return made;
    }
    fputs(" ** ", g->out);
    made.axes |= write_leaf(g, I32, allowed).axes;
    fputs(")", g->out);
    return made;
}

static Made write_cast(Generator *g, Kind kind, unsigned allowed, unsigned depth) {
    const Kind from = (Kind)below(g, KINDS);
    if (kind == BOOL || from == kind) return write_leaf(g, kind, allowed);
    fprintf(g->out, "%s(", kind_names[kind]);
    const Made made = write_value(g, from, allowed, depth);
    fputs(")", g->out);
    return made;
}

/* sum[k](e): the operand has every axis that it is reduced over. */
static Made write_reduction(Generator *g, Kind kind, unsigned allowed, unsigned depth) {
    static const char *const floats[] = {"sum", "mean", "prod", "min", "max", "norm", "logsumexp"};
    unsigned over = some_axes(g, g->all);
    if (!over) over = 1u << below(g, g->axis_count);
    over |= closure(g, over) & ~allowed; /* of a list the tensors too, unless the result has them */
    Kind inside = kind;
    const char *name = "max";
    if (kind <= F64) {
        name = floats[below(g, kind == F32 ? 7 : 6)];
    } else if (kind == BOOL) {
        name = chance(g, 50) ? "any" : "all";
    } else if (kind == I64 && chance(g, 60)) {
        const bool one = !(over & (over - 1));
        name = one && chance(g, 60) ? (chance(g, 50) ? "argmax" : "argmin")
               : chance(g, 50)      ? "count"
                                    : "sum";
        inside = name[0] == 'a' ? (Kind)below(g, BOOL) : name[0] == 'c' ? BOOL : I32;
    } else if (kind == U64 && chance(g, 60)) {
        name = chance(g, 50) ? "sum" : "prod";
        inside = U32;
    } else if (chance(g, 50)) {
        name = "min";
    }
    fputs(name, g->out);
    write_axes(g, over);
    fputs("(", g->out);
    /* nothing is left that hangs on what is reduced */
    const unsigned within = standing(g, allowed & ~over, over) | over;
    Made made = write_value(g, inside, within, depth);
    for (unsigned i = 0; i < g->axis_count; i++) {
        if (!((over & ~made.axes) >> i & 1) && !(made.constant && over >> i & 1)) continue;
        fputs(inside == BOOL ? " or " : " + ", g->out);
        made.axes |= write_index(g, inside, i).axes;
        made.constant = false;
    }
    fputs(")", g->out);
    return (Made){.axes = made.axes & ~over};
}

/* x[k - 1, table]: a name of the kind at other coordinates, often near its own. */
static Made write_gather(Generator *g, Kind kind, unsigned allowed, unsigned depth) {
    unsigned candidates[NAMES_MOST], count = 0;
    for (unsigned i = 0; i < g->name_count; i++)
        if (g->names[i].readable && g->names[i].axes && g->names[i].kind == kind &&
            !(g->names[i].axes & blocks(g)))
            candidates[count++] = i;
    if (count == 0) return write_leaf(g, kind, allowed);
    const Name *name = &g->names[candidates[below(g, count)]];
    Made made = {.axes = 0};
    const char *before = "[";
    fputs(name->text, g->out);
    for (unsigned i = 0; i < g->axis_count; i++) {
        if (!(name->axes >> i & 1)) continue;
        const bool own = allowed >> i & 1;
        fputs(before, g->out);
        before = ", ";
        if (own && chance(g, 70)) {
            made.axes |= closure(g, 1u << i);
            fputs(g->axis[i], g->out);
            if (chance(g, 50)) fprintf(g->out, " %c %u", "+-"[below(g, 2)], 1 + below(g, 3));
        } else if (chance(g, 30) && !(closure(g, 1u << i) & ~(1u << i) & ~allowed)) {
            made.axes |= closure(g, 1u << i) & ~(1u << i);
            fprintf(g->out, "size(%s) - %u", g->axis[i], below(g, 4));
        } else {
            made.axes |= write_value(g, (Kind)(I32 + below(g, 4)), allowed, depth).axes;
        }
    }
    fputs("]", g->out);
    return made;
}

/* scan[k](init, acc, expr) and cumsum[k](e), along an axis of the result. */
static Made write_scan(Generator *g, Kind kind, unsigned allowed, unsigned depth) {
    static const char *const floats[] = {" * 0.5 + ", " - ", " + "};
    const unsigned axis = below(g, g->axis_count);
    if (!(allowed >> axis & 1) || g->scans == 2) return write_leaf(g, kind, allowed);
    allowed = standing(g, allowed, 1u << axis);
    Made made = {.axes = closure(g, 1u << axis)};
    const unsigned name = g->scan_names++;
    if (kind <= F64 && chance(g, 30)) {
        fprintf(g->out, "cumsum[%s](", g->axis[axis]);
        made.axes |= write_leaf(g, kind, allowed).axes;
        fprintf(g->out, " + %s(index(%s)))", kind_names[kind], g->axis[axis]);
        return made;
    }
    fprintf(g->out, "scan[%s%s](%s(", g->axis[axis], chance(g, 40) ? ", reverse" : "",
            kind_names[kind]);
    made.axes |= write_leaf(g, kind, allowed & ~(1u << axis)).axes;
    fprintf(g->out, "), run_%u, ", name);
    const bool choose = chance(g, 30);
    if (choose) {
        fputs("if ", g->out);
        made.axes |= write_leaf(g, BOOL, allowed).axes;
        fputs(" then ", g->out);
        made.axes |= write_leaf(g, kind, allowed).axes;
        fputs(" else ", g->out);
    }
    const char *sign = kind == BOOL  ? (chance(g, 50) ? " or " : " != ")
                       : kind <= F64 ? floats[below(g, 3)]
                                     : " + ";
    fprintf(g->out, "run_%u%s", name, sign);
    g->scans++;
    made.axes |= write_leaf(g, kind, allowed).axes;
    if (kind != BOOL && chance(g, 50)) {
        fputs(" - ", g->out);
        made.axes |= write_value(g, kind, allowed, depth).axes;
    }
    g->scans--;
    fputs(")", g->out);
    return made;
}

/* A draw over some of the axes; its keys have none. */
static Made write_draw(Generator *g, Kind kind, unsigned allowed) {
    static const char *const floats[] = {"uniform", "normal"};
    const unsigned axes = random_axes(g, allowed);
    if (axes == 0 || (kind != F32 && kind != U32 && kind != BOOL))
        return write_leaf(g, kind, allowed);
    fputs(kind == F32 ? floats[below(g, 2)] : kind == U32 ? "bits" : "bernoulli", g->out);
    write_axes(g, axes);
    fputs(kind == BOOL ? "(0.4, " : "(", g->out);
    write_leaf(g, chance(g, 50) ? I32 : I64, 0);
    if (chance(g, 60)) {
        fputs(", ", g->out);
        write_leaf(g, chance(g, 50) ? U32 : I64, 0);
    }
    fputs(")", g->out);
    return (Made){.axes = axes};
}

static Made write_value(Generator *g, Kind kind, unsigned allowed, unsigned depth) {
    if (depth == 0 || g->operations == 0) {
        if (!chance(g, 12)) return write_leaf(g, kind, allowed);
        write_constant(g, kind);
        return (Made){.constant = true};
    }
    g->operations--;
    const unsigned which = below(g, 100);
    if (which < 8) return write_leaf(g, kind, allowed);
    if (which < 21 && g->axis_count) return write_reduction(g, kind, allowed, depth - 1);
    if (which < 26 && g->axis_count) return write_gather(g, kind, allowed, depth - 1);
    if (which < 28 && g->axis_count) return write_scan(g, kind, allowed, depth - 1);
    if (which < 32 && g->axis_count) return write_draw(g, kind, allowed);
    if (which < 36) return write_unary(g, kind, allowed, depth - 1);
    if (which < 42) return write_select(g, kind, allowed, depth - 1);
    if (which < 47 && kind != BOOL) return write_power(g, kind, allowed);
    if (which < 55) return write_cast(g, kind, allowed, depth - 1);
    if (kind == BOOL && which < 80) return write_compare(g, allowed, depth - 1);
    return write_binary(g, kind, allowed, depth - 1);
}

static unsigned operations(Generator *g) {
    return g->small ? 1 + below(g, 7) : 4 + below(g, 12);
}

/* A value that may be stored to the type: narrow integers are cast, constants take any type. */
static void write_stored(Generator *g, unsigned type, unsigned allowed) {
    const bool narrow = storage[type].kind == I32 && strcmp(storage[type].name, "i32") != 0;
    const bool small = storage[type].kind == F32 && strcmp(storage[type].name, "f32") != 0;
    const unsigned drawn = small && chance(g, 40) ? random_axes(g, allowed) : 0;
    g->operations = operations(g);
    if (narrow) fprintf(g->out, "%s(", storage[type].name);
    if (drawn) fprintf(g->out, "%s_stochastic(", storage[type].name);
    fputs("(", g->out);
    const Made made = write_value(g, storage[type].kind, allowed, DEPTH);
    if (made.constant) { /* nothing to find in `x = 3` */
        fputs(storage[type].kind == BOOL ? " or " : " + ", g->out);
        write_leaf(g, storage[type].kind, allowed);
    }
    fputs(narrow ? "))" : ")", g->out);
    if (!drawn) return;
    fputs(", ", g->out);
    write_draw(g, U32, drawn);
    fputs(")", g->out);
}

static void add_name(Generator *g, Name name) {
    if (name.text && g->name_count < NAMES_MOST) g->names[g->name_count++] = name;
}

static void write_let(Generator *g) {
    const char *text = new_name(g);
    if (!text) return;
    const unsigned type = below(g, 9); /* of the compute types */
    const unsigned allowed = random_axes(g, g->all);
    fprintf(g->out, "    let %s = ", text);
    g->operations = operations(g);
    fprintf(g->out, "(");
    const Made made = write_value(g, storage[type].kind, allowed, DEPTH);
    fprintf(g->out, ")\n");
    if (made.constant) return;
    add_name(g, (Name){.text = text,
                       .kind = storage[type].kind,
                       .axes = made.axes,
                       .role = LET,
                       .readable = true});
}

/* let d = grad(mean(e * x), x) or grad(e * x, x, from = y): of a float nobody has assigned. */
static void write_grad(Generator *g) {
    Name *target = &g->names[below(g, g->name_count)];
    const char *text = new_name(g);
    if (!text || target->kind != F32 || !target->readable || target->assigned) return;
    g->operations = 6;
    if (chance(g, 30)) {
        fprintf(g->out, "    let %s = grad(", text);
        const Made made = write_value(g, F32, g->all, DEPTH - 1);
        fprintf(g->out, " * %s, %s, from = ", target->text, target->text);
        write_leaf(g, F32, made.axes | target->axes);
        fputs(")\n", g->out);
        add_name(
            g,
            (Name){.text = text, .kind = F32, .axes = target->axes, .role = LET, .readable = true});
        return;
    }
    fprintf(g->out, "    let %s = grad(", text);
    fprintf(g->out, g->all ? "%s(" : "(", chance(g, 50) ? "mean" : "sum");
    const Made made = write_value(g, F32, g->all, DEPTH - 1);
    fprintf(g->out, " * %s", target->text);
    for (unsigned i = 0; i < g->axis_count; i++)
        if (!((made.axes | target->axes) >> i & 1))
            fprintf(g->out, " + f32(index(%s))", g->axis[i]);
    fprintf(g->out, "), %s)\n", target->text);
    add_name(
        g, (Name){.text = text, .kind = F32, .axes = target->axes, .role = LET, .readable = true});
}

static void write_assignment(Generator *g, Name *name) {
    fprintf(g->out, "    %s ", name->text);
    const bool compound = name->role == INOUT && chance(g, 40);
    const bool narrow = name->kind == I32 && strcmp(storage[name->type].name, "i32") != 0;
    const char *sign = "=";
    if (compound && name->kind == BOOL) sign = chance(g, 50) ? "|=" : "&=";
    if (compound && name->kind != BOOL && !narrow)
        sign = chance(g, 40) ? "+=" : chance(g, 50) ? "-=" : "*=";
    fprintf(g->out, "%s ", sign);
    write_stored(g, name->type, name->axes);
    fputs("\n", g->out);
    name->readable = name->assigned = true;
}

/* let old = x; x = y; y = old: two arrays of one type and shape change places. */
static void write_swap(Generator *g) {
    Name *a = &g->names[below(g, g->name_count)], *b = &g->names[below(g, g->name_count)];
    const char *text;
    if (a == b || a->role != INOUT || b->role != INOUT || a->type != b->type ||
        a->axes != b->axes || !(text = new_name(g)))
        return;
    fprintf(g->out, "    let %s = %s\n    %s = %s\n    %s = %s\n", text, a->text, a->text, b->text,
            b->text, text);
    a->assigned = b->assigned = true;
}

/* when: what is assigned keeps its value elsewhere. */
static void write_when(Generator *g) {
    Name *names[2];
    unsigned count = 0, allowed = g->all;
    for (int tries = 0; tries < 9 && count < 2; tries++) {
        Name *name = &g->names[below(g, g->name_count)];
        if (name->role != INOUT || (count && name == names[0])) continue;
        allowed &= name->axes;
        names[count++] = name;
    }
    if (count == 0) return;
    fputs("    when ", g->out);
    g->operations = 3;
    write_value(g, BOOL, chance(g, 50) ? 0 : random_axes(g, allowed), 2);
    fputs(" {\n    ", g->out);
    write_assignment(g, names[0]);
    if (count == 2 && chance(g, 50)) fputs("    } else {\n", g->out);
    if (count == 2) fputs("    ", g->out), write_assignment(g, names[1]);
    fputs("    }\n", g->out);
}

static void write_parameters(Generator *g) {
    static const char *const roles[] = {"", "inout ", "out "};
    const unsigned count = 3 + below(g, g->small ? 4 : 9);
    for (unsigned i = 0; i < count; i++) {
        Name name = {.text = new_name(g), .type = below(g, STORAGE)};
        if (!name.text) break;
        /* One has every axis, so that each has a length, one is sure to be written, and one is a
         * number that every expression may use. A list may be empty: one has the other axes. */
        name.axes = i == 0 ? g->all : i == 2 ? 0 : random_axes(g, g->all);
        if (i == 1 && g->ragged) name.axes = g->all & ~g->ragged;
        name.role = i == 0 ? IN : i == 1 ? INOUT : i == 2 ? below(g, 2) : below(g, 3);
        if (!name.axes) name.type = below(g, 9); /* storage types are for arrays */
        name.kind = storage[name.type].kind;
        name.readable = name.role != OUT;
        add_name(g, name);
        fprintf(g->out, "    %s%s: %s", roles[name.role], name.text, storage[name.type].name);
        g->split = i > 0 && chance(g, 20);
        write_axes(g, name.axes);
        g->split = false;
        if (!name.axes && name.role != OUT && chance(g, 30)) {
            fputs(" = ", g->out);
            fputs(name.kind == BOOL ? "true" : name.kind <= F64 ? "0.75" : "3", g->out);
        }
        fputs(",\n", g->out);
    }
}

static void write_step(Generator *g, unsigned number) {
    static const char *const grades[] = {"", "", "", " math lite"};
    g->name_count = 0;
    fprintf(g->out, "step %s_%u", chance(g, 30) ? "double" : "s", number);
    for (unsigned i = 0; i < g->axis_count; i++) {
        const bool block = blocks(g) && i == g->block;
        fprintf(g->out, "%s%s", i ? ", " : "[", block ? g->whole : g->axis[i]);
        if (block) {
            fprintf(g->out, " as (%s, %s = %" PRId64 ")", g->axis[i], g->axis[i + 1], g->length);
            i++;
            continue;
        }
        if (g->ragged >> i & 1) fprintf(g->out, " of %s", g->axis[g->list]);
        if (g->fixed[i] >= 0) fprintf(g->out, " = %" PRId64, g->fixed[i]);
    }
    fprintf(g->out, "%s(\n", g->axis_count ? "]" : "");
    write_parameters(g);
    fprintf(g->out, ")%s {\n", grades[below(g, 4)]);
    const unsigned statements = g->small ? below(g, 5) : 3 + below(g, 9);
    for (unsigned i = 0; i < statements; i++) {
        Name *name = &g->names[below(g, g->name_count)];
        const unsigned which = below(g, 100);
        if (which < 25)
            write_let(g);
        else if (which < 35)
            write_grad(g);
        else if (which < 42)
            write_swap(g);
        else if (which < 56)
            write_when(g);
        else if (name->role == OUT || name->role == INOUT)
            write_assignment(g, name);
    }
    for (unsigned i = 0; i < g->name_count; i++)
        if (g->names[i].role == OUT && !g->names[i].assigned) write_assignment(g, &g->names[i]);
    write_assignment(g, &g->names[1]);
    fputs("}\n", g->out);
}

/* A length that is at an edge of something: nothing, a group, a tile. */
static int64_t random_length(Generator *g) {
    static const int64_t lengths[] = {0,  1,  2,  3,   5,   31,  32,  33,   63,   64,
                                      65, 96, 97, 127, 128, 129, 255, 1023, 1024, 1025};
    static const int64_t short_lengths[] = {0, 1, 2, 3, 4, 5, 7, 8, 9};
    return g->small && chance(g, 40) ? short_lengths[below(g, 9)] : lengths[below(g, 20)];
}

static void write_sizes(Generator *g) {
    const int64_t *fixed = g->fixed;
    static const int64_t long_lengths[] = {2049, 4097, 70001, 1048577};
    const unsigned sets = g->small ? 1 + chance(g, 40) : SETS;
    fputs("# sizes:", g->out);
    for (unsigned set = 0; set < sets; set++) {
        int64_t elements = 1, most = 12000;
        if (g->small) most = chance(g, 70) ? 300 : chance(g, 80) ? 2500 : 10000;
        const unsigned longest = chance(g, 4) && g->axis_count ? below(g, g->axis_count) : 99;
        if (longest < 99) most = g->small ? 5000 : 1100000;
        for (unsigned i = 0; i < g->axis_count; i++) {
            int64_t length = fixed[i] >= 0 ? fixed[i] : random_length(g);
            if (i == longest && fixed[i] < 0) length = long_lengths[below(g, g->small ? 2 : 4)];
            while (length > 1 && elements * length > most) length /= 2;
            if (fixed[i] >= 0) length = fixed[i];
            const bool block = blocks(g) && i == g->block;
            if (length > 0) elements *= length;
            fprintf(g->out, " %s=%" PRId64, block ? g->whole : g->axis[i], length);
            if (block) i++;
            for (unsigned t = below(g, 4); (g->ragged >> i & 1) && t > 0; t--)
                fprintf(g->out, "+%" PRId64, chance(g, 30) ? (int64_t)below(g, 2) : length);
        }
        if (set + 1 < sets && g->axis_count) fputs(";", g->out);
        if (g->axis_count == 0) break;
    }
    fprintf(g->out, "\n# launches: %u\n", 1 + below(g, g->small ? 2 : 3));
    if (g->small && chance(g, 70))
        fprintf(g->out, "# fill: %s\n", chance(g, 50) ? "normal" : "special");
}

/* One or two of the later axes hang on an earlier one. */
static void make_ragged(Generator *g) {
    g->list = below(g, g->axis_count - 1);
    for (int count = 0; count < 2; count++) {
        const unsigned i = g->list + 1 + below(g, g->axis_count - 1 - g->list);
        g->ragged |= 1u << i;
        g->fixed[i] = -1;
    }
}

/* Two neighbours that are no list's. */
static void make_blocks(Generator *g) {
    const unsigned block = below(g, g->axis_count - 1), list = g->ragged ? 1u << g->list : 0;
    if ((g->ragged | list) & 3u << block) return;
    g->block = block;
    g->length = 1 + (int64_t)below(g, 40);
    g->fixed[block] = g->fixed[block + 1] = -1;
    g->whole = new_name(g);
}

char *random_program(uint64_t number, uint64_t seed, bool small) {
    char *text = NULL;
    size_t size = 0;
    Generator *g = must_allocate(sizeof *g);
    *g = (Generator){.state = (number + (seed - 1) * 0x632be59bd9b4e019u) * 0x9e3779b97f4a7c15u,
                     .small = small,
                     .out = open_memstream(&text, &size)};
    if (!g->out) exit(3);
    g->axis_count = below(g, 5);
    if (chance(g, small ? 1 : 5)) g->axis_count = AXES_MOST - 1;
    g->all = (1u << g->axis_count) - 1;
    for (unsigned i = 0; i < g->axis_count; i++) {
        g->axis[i] = new_name(g);
        g->fixed[i] = chance(g, 10) ? 1 + (int64_t)below(g, 9) : -1;
    }
    if (g->axis_count >= 2 && chance(g, 40)) make_ragged(g);
    if (g->axis_count >= 2 && chance(g, 30)) make_blocks(g);
    write_sizes(g);
    bool axes_taken[NASTY];
    memcpy(axes_taken, g->taken, sizeof axes_taken);
    const unsigned steps = 1 + chance(g, small ? 5 : 20);
    for (unsigned i = 0; i < steps; i++) {
        memcpy(g->taken, axes_taken, sizeof axes_taken); /* steps may use the same names */
        write_step(g, i);
    }
    fclose(g->out);
    free(g);
    return text;
}
