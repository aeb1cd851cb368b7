/* random_expressions.c: well-typed expressions made of random numbers, over every set of axes, with
 * names that C and the emitter use themselves. An expression's type is fixed beforehand; the axes
 * it came to have are known afterwards. */
#include "random.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "ir/ir.h"
#include "exec.h"

/* emit/emit.h, which has an Array of its own */
const char *names_word(size_t number);
const char *names_suffix(size_t number);

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
const char *const kind_names[KINDS] = {"f32", "f64", "i32", "i64", "u32", "u64", "bool"};

const StorageType storage[STORAGE] = {
    {"f32", F32},  {"f32", F32}, {"f32", F32},   {"f64", F64}, {"i32", I32},  {"i64", I64},
    {"u32", U32},  {"u64", U64}, {"bool", BOOL}, {"f16", F32}, {"bf16", F32}, {"e4m3", F32},
    {"e5m2", F32}, {"i8", I32},  {"u8", I32},    {"i16", I32}, {"u16", I32}};
unsigned below(Generator *g, unsigned limit) {
    return (unsigned)(random_bits(&g->state) % limit);
}

bool chance(Generator *g, unsigned percent) {
    return below(g, 100) < percent;
}

/* The two axes of blocks, or none. */
unsigned blocks(const Generator *g) {
    return g->whole ? 3u << g->block : 0;
}

/* With the axes that others depend on. */
unsigned closure(const Generator *g, unsigned axes) {
    if (g->whole && axes >> (g->block + 1) & 1) axes |= 1u << g->block;
    return axes & g->ragged ? axes | 1u << g->list : axes;
}

/* Without what depends on one of `on`. */
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

unsigned random_axes(Generator *g, unsigned among) {
    return closure(g, some_axes(g, among));
}

static bool is_given(const Generator *g, const char *name) {
    /* words of the language among those of C */
    static const char language[] =
        " and as bool const else false fn from if import in inf let math "
        "nan not of or out pi return reverse step then true when "
        "f16 f32 f64 bf16 e4m3 e5m2 i8 i16 i32 i64 u8 u16 u32 u64 bits ";
    char word[GIVEN_SIZE + 2];
    snprintf(word, sizeof word, " %s ", name);
    for (unsigned i = 0; i < g->given_count; i++)
        if (strcmp(g->given[i], name) == 0) return true;
    return strstr(language, word);
}

/* What generated code has for itself: a word of its own, or what it makes of another name of the
 * program. See names.c. */
static void made_name(Generator *g, char *name, size_t size) {
    unsigned words = 0, suffixes = 0;
    while (names_word(words)) words++;
    while (names_suffix(suffixes)) suffixes++;
    const char *word = names_word(below(g, words)), *suffix = names_suffix(below(g, suffixes));
    const char *stem = g->given_count ? g->given[below(g, g->given_count)] : "x";
    if (chance(g, 50))
        snprintf(name, size, "%.*s", (int)strcspn(word, " "), word);
    else if (chance(g, 80))
        snprintf(name, size, "%s_%.*s", stem, (int)strcspn(suffix, " "), suffix);
    else
        snprintf(name, size, chance(g, 50) ? "size_%s" : "%s_2", stem);
}

unsigned most_names(const Generator *g) {
    return g->statements ? NAMES_MAX : SHORT_NAMES;
}

/* A name nobody has; NULL when there are enough. */
const char *new_name(Generator *g) {
    const unsigned most = g->statements ? NASTY : SHORT_NASTY;
    for (int attempts = 0; attempts < 200 && g->given_count < most; attempts++) {
        char *name = g->given[g->given_count];
        if (chance(g, 50))
            snprintf(name, GIVEN_SIZE, "%s", nasty[below(g, sizeof nasty / sizeof *nasty)]);
        else
            made_name(g, name, GIVEN_SIZE);
        if (is_given(g, name) || strlen(name) > 28) continue;
        g->given_count++;
        return name;
    }
    return NULL;
}

void write_axes(Generator *g, unsigned axes) {
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
    static const char *const floats[] = {
        "0.5", "1.0", "3.25", "1e-3", "1e4",    "inf",   "nan",     "pi",        "0.0",
        "2",   "0.1", "7",    "-0.0", "3.4e38", "1e-40", "1.4e-45", "1.0000001", "16777217"};
    static const char *const integers[] = {"0",    "1",   "2",  "3",     "7",
                                           "0x7f", "100", "31", "12345", "0x7fffffff"};
    if (kind == BOOL)
        fputs(chance(g, 50) ? "true" : "false", g->out);
    else if (kind <= F64)
        fputs(floats[below(g, sizeof floats / sizeof *floats)], g->out);
    else
        fputs(integers[below(g, sizeof integers / sizeof *integers)], g->out);
}

/* A coordinate as a value of the kind. */
Made write_index(Generator *g, Kind kind, unsigned axis) {
    if (kind == BOOL)
        fprintf(g->out, "(index(%s) %% 3 == 1)", g->axis[axis]);
    else
        fprintf(g->out, kind == I64 ? "index(%s)" : "%s(index(%s))",
                kind == I64 ? g->axis[axis] : kind_names[kind], g->axis[axis]);
    return (Made){.axes = closure(g, 1u << axis)};
}

/* A name of the kind, one that is cast to it, a coordinate or a length. Never a constant: every
 * step has a rank-0 parameter. */
Made write_leaf(Generator *g, Kind kind, unsigned allowed) {
    if (g->axis_count && chance(g, 8)) {
        const unsigned axis = below(g, g->axis_count);
        if (allowed >> axis & 1) return write_index(g, kind, axis);
        const unsigned over = closure(g, 1u << axis) & ~(1u << axis);
        if (kind != BOOL && g->fixed[axis] < 0 && !(over & ~allowed)) {
            fprintf(g->out, "%s(size(%s))", kind_names[kind], g->axis[axis]);
            return (Made){.axes = over};
        }
    }
    unsigned candidates[NAMES_MAX], count = 0;
    const bool latest = g->layered && g->name_count > 4 && chance(g, 50);
    for (int any = 0; count == 0; any++)
        for (unsigned i = latest && any < 2 ? g->name_count - 4 : 0; i < g->name_count; i++)
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
        [F32] = "+-*/mMc+*dpw",  [F64] = "+-*/mMc+*dpw", [I32] = "+-*dpmM&|^<>",
        [I64] = "+-*dpmM&|^<>s", [U32] = "+-*dpmM&|^<>", [U64] = "+-*dpmM&|^<>",
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
                 {'o', "(", " or "},         {'=', "(", " == "},          {'!', "(", " != "},
                 {'w', "pow(", ", "},        {'s', "shuffle(", ", "}};
    size_t i = 0;
    while (forms[i].letter != which) i++;
    fputs(forms[i].before, g->out);
    const Made first = write_value(g, kind, allowed, depth);
    fputs(forms[i].between, g->out);
    const Made both = write_other(g, kind, allowed, depth, first);
    fputs(which == 's' ? ", 3, 7)" : ")", g->out);
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
        "abs(",   "-(",       "sign(",     "floor(",         "ceil(",  "round(", "trunc(",
        "sqrt(",  "exp(",     "log(",      "stop_gradient(", "rsqrt(", "cbrt(",  "exp2(",
        "expm1(", "log2(",    "log1p(",    "sin(",           "cos(",   "atan(",  "tanh(",
        "erf(",   "sigmoid(", "softplus(", "bf16(",          "f16(",   "e4m3(",  "e5m2(",
        "sin'(",  "tanh'(",   "log1p'(",   "atan'(",         "abs'("};
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
    fputs(kind == F32   ? floats[below(g, 33)]
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

/* fma, lerp, clamp: of three. */
static Made write_ternary(Generator *g, Kind kind, unsigned allowed, unsigned depth) {
    static const char *const names[] = {"clamp(", "fma(", "lerp("};
    fputs(names[kind <= F64 ? below(g, 3) : 0], g->out);
    Made made = write_leaf(g, kind, allowed);
    for (int i = 0; i < 2; i++) {
        fputs(", ", g->out);
        made.axes |= write_value(g, kind, allowed, depth).axes;
    }
    fputs(")", g->out);
    return made;
}

/* f32 as its bits, and bits as an f32. */
static Made write_bits(Generator *g, Kind kind, unsigned allowed) {
    fputs(kind == U32 ? "float_bits(" : "float_from_bits(", g->out);
    const Made made = write_leaf(g, kind == U32 ? F32 : U32, allowed);
    fputs(")", g->out);
    return made;
}

/* A function of the file's own. */
static Made write_own(Generator *g, Kind kind, unsigned allowed, unsigned depth) {
    const bool one = chance(g, 40);
    const unsigned which = below(g, 3);
    if (one && kind == F32)
        fprintf(g->out, which == 0 ? "bent(" : which == 1 ? "bent'(" : "slope'(");
    else
        fputs("blend(", g->out);
    const Made made = write_leaf(g, kind, allowed);
    if (one && kind == F32) {
        fputs(")", g->out);
        return made;
    }
    fputs(", ", g->out);
    const Made both = write_value(g, kind, allowed, depth);
    fputs(")", g->out);
    return (Made){made.axes | both.axes, false};
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
    if (over & ~g->all) return write_leaf(g, kind, allowed); /* one place in a loop */
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
    const bool all = over == g->all && chance(g, 30); /* sum(e), e of all axes */
    fputs(name, g->out);
    if (!all) write_axes(g, over);
    fputs("(", g->out);
    /* nothing is left that depends on what is reduced */
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

/* Along the axis of a loop: its own place, or, but for an `out`, any. */
static unsigned write_place(Generator *g, const Name *name, unsigned axis, unsigned allowed,
                            unsigned depth) {
    if (name->role != OUT && chance(g, 30))
        return write_value(g, (Kind)(I32 + below(g, 4)), allowed, depth).axes;
    fputs(g->axis[axis], g->out);
    const bool past = name->role == OUT;
    if (chance(g, 60))
        fprintf(g->out, " %c %u", past ? (g->reverse >> axis & 1 ? '+' : '-') : "+-"[below(g, 2)],
                1 + below(g, 3));
    return 0;
}

/* x[k - 1, table]: a name of the kind at other coordinates, often near its own. */
static Made write_gather(Generator *g, Kind kind, unsigned allowed, unsigned depth) {
    unsigned candidates[NAMES_MAX], count = 0;
    for (unsigned i = 0; i < g->name_count; i++)
        if (g->names[i].readable && (g->names[i].axes | g->names[i].placed) &&
            g->names[i].kind == kind && !(g->names[i].axes & blocks(g)))
            candidates[count++] = i;
    if (count == 0) return write_leaf(g, kind, allowed);
    const Name *name = &g->names[candidates[below(g, count)]];
    Made made = {.axes = 0};
    const char *before = "[";
    fputs(name->text, g->out);
    for (unsigned i = 0; i < g->axis_count; i++) {
        if (!((name->axes | name->placed) >> i & 1)) continue;
        const bool own = allowed >> i & 1;
        fputs(before, g->out);
        before = ", ";
        if (name->placed >> i & 1)
            made.axes |= write_place(g, name, i, allowed, depth);
        else if (own && chance(g, 70)) {
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
Made write_draw(Generator *g, Kind kind, unsigned allowed) {
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

Made write_value(Generator *g, Kind kind, unsigned allowed, unsigned depth) {
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
    if (which < 38 && kind != BOOL) return write_ternary(g, kind, allowed, depth - 1);
    if (which < 39 && (kind == U32 || kind == F32)) return write_bits(g, kind, allowed);
    if (which < 40 && kind != BOOL && g->own) return write_own(g, kind, allowed, depth - 1);
    if (which < 42) return write_select(g, kind, allowed, depth - 1);
    if (which < 47 && kind != BOOL) return write_power(g, kind, allowed);
    if (which < 55) return write_cast(g, kind, allowed, depth - 1);
    if (kind == BOOL && which < 80) return write_compare(g, allowed, depth - 1);
    return write_binary(g, kind, allowed, depth - 1);
}
