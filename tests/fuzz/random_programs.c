/* random_programs.c: well-typed .step programs made of random numbers, for exec_runner: names that
 * C and the emitter use themselves, values over every set of axes, plain and ragged, reductions
 * inside reductions, gathers, scans, draws, conditions, reads before and after assignments, every
 * storage type. A program is a function of its number alone. What the checker refuses here is a
 * mistake of this file or of the checker: either fails the test.
 */
#include "exec.h"
#include "random.h"
#include "random_program.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    if (name.text && g->name_count < most_names(g)) g->names[g->name_count++] = name;
}

static void write_let(Generator *g) {
    const char *text = new_name(g);
    if (!text) return;
    const unsigned type = below(g, COMPUTE);
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

/* let m = mean[k](x * y): of an array of many axes over some of them. Several in a row, each made
 * of those before, are what norms, losses and their gradients are. */
static void write_layer(Generator *g) {
    static const char *const floats[] = {"sum", "mean", "max", "min", "norm", "logsumexp"};
    const Name *of = NULL;
    for (int tries = 0; tries < 6; tries++) {
        const Name *name = &g->names[below(g, g->name_count)];
        if (name->kind != F32 || !name->readable || !name->axes) continue;
        if (!of || (name->axes & ~of->axes)) of = name;
    }
    const char *text = of ? new_name(g) : NULL;
    if (!text) return;
    unsigned over = of->axes & (unsigned)random_bits(&g->state), axes;
    if (!over) over = of->axes;
    /* nothing is left that depends on what is reduced */
    if (g->ragged && over >> g->list & 1) over |= of->axes & g->ragged;
    if (g->whole && over >> g->block & 1) over |= of->axes & 2u << g->block;
    axes = of->axes & ~over;
    const bool several = chance(g, 20); /* how many are, not what they come to */
    fprintf(g->out, "    let %s = %s%s", text, several ? "f32(count" : "",
            several ? "" : floats[below(g, 6)]);
    write_axes(g, over);
    fprintf(g->out, "(%s %s ", of->text, several ? ">" : chance(g, 50) ? "*" : "-");
    g->operations = 2;
    write_value(g, F32, of->axes, 2);
    fputs(several ? "))\n" : ")\n", g->out);
    add_name(g, (Name){.text = text, .kind = F32, .axes = axes, .role = LET, .readable = true});
}

/* let d = grad(mean(e * x), x) or grad(e * x, x, from = y): of a float nobody has assigned. */
static void write_grad(Generator *g) {
    Name *target = &g->names[below(g, g->name_count)];
    const char *text = new_name(g);
    if (g->calls && g->late) return; /* what is assigned when it is called has no gradient */
    if (g->looped) return;           /* it might go through a loop */
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

static const char *write_let_of(Generator *g, unsigned *axes) {
    const char *text = new_name(g);
    if (!text) return NULL;
    fprintf(g->out, "    let %s = (", text);
    g->operations = 6;
    Made made = write_value(g, F32, g->all, DEPTH - 1);
    if (made.constant) {
        fputs(" + ", g->out);
        made.axes |= write_leaf(g, F32, g->all).axes;
    }
    *axes |= made.axes;
    fputs(")", g->out);
    return text;
}

/* The gradient of an `if` one of whose branches is never taken, though no compiler can know it, is
 * what it is where that branch has none, whatever it holds: `must_hold` says whether it is, and the
 * runner that it must. */
static void write_dead_branch(Generator *g) {
    const Name *target = NULL;
    for (int tries = 0; tries < 9 && !target; tries++) {
        const Name *name = &g->names[below(g, g->name_count)];
        if (name->kind == F32 && name->readable) target = name;
    }
    const char *gradients[2] = {NULL}, *taken = NULL, *dead = NULL;
    unsigned axes = target ? target->axes : 0;
    if (target) taken = write_let_of(g, &axes);
    if (taken) fputs("\n", g->out), dead = write_let_of(g, &axes);
    if (dead) {
        static const char *const awkward[] = {" * log(-abs(%s))", " / (%s - %s)",
                                              " + sqrt(%s - %s)"};
        fprintf(g->out, awkward[below(g, 3)], target->text, target->text);
        fprintf(g->out, " * %s\n", target->text);
        for (int i = 0; i < 2; i++) gradients[i] = new_name(g);
    }
    if (!dead || !gradients[0] || !gradients[1]) {
        fputs(dead || !taken ? "" : "\n", g->out);
        fputs("    must_hold = true\n", g->out);
        return;
    }
    const Name *w = &g->names[below(g, g->name_count)];
    while (!w->readable) w = &g->names[below(g, g->name_count)];
    for (int i = 0; i < 2; i++) {
        fprintf(g->out, "    let %s = grad(%s(", gradients[i], axes | w->axes ? "sum" : "");
        fprintf(g->out, "(if %s == %s or %s != %s then %s else %s%s%s) * %s", w->text, w->text,
                w->text, w->text, taken, i ? "" : "stop_gradient(", dead, i ? "" : ")",
                target->text);
        for (unsigned k = 0; k < g->axis_count && (axes | w->axes); k++)
            if (!((axes | w->axes) >> k & 1)) fprintf(g->out, " + f32(index(%s))", g->axis[k]);
        fprintf(g->out, "), %s)\n", target->text);
    }
    fputs(target->axes ? "    must_hold = all" : "    must_hold = ", g->out);
    write_axes(g, target->axes);
    fprintf(g->out, "(%s == %s or isnan(%s) and isnan(%s))\n", gradients[0], gradients[1],
            gradients[0], gradients[1]);
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
    const bool nested = chance(g, 20);
    for (int i = 0; i <= nested; i++) {
        fputs("    when ", g->out);
        g->operations = 3;
        write_value(g, BOOL, chance(g, 50) ? 0 : random_axes(g, allowed), 2);
        fputs(" {\n    ", g->out);
    }
    write_assignment(g, names[0]);
    if (nested) fputs("    }\n", g->out);
    if (count == 2 && chance(g, 50)) fputs("    } else {\n", g->out);
    if (count == 2) fputs("    ", g->out), write_assignment(g, names[1]);
    fputs("    }\n", g->out);
}

static bool write_statement(Generator *g);

/* Whether each iteration of the loops around this has a slice of its own. */
static bool is_sliced(const Generator *g, const Name *name) {
    unsigned places = 0, placed = name->placed;
    for (unsigned i = 0; i < g->axis_count; i++) places += !(g->all >> i & 1);
    while (placed) places--, placed &= placed - 1;
    return places == 0;
}

/* for t { ... }: in it t is a place, and names over t are slices. An `out` without it has a value
 * before. */
static void write_for(Generator *g) {
    const unsigned axis = below(g, g->axis_count), bit = 1u << axis, names = g->name_count;
    if (!(g->short_axes & g->all & bit)) return;
    const bool reverse = chance(g, 40);
    fprintf(g->out, "    for %s%s {\n", g->axis[axis], reverse ? " reverse" : "");
    g->reverse = reverse ? g->reverse | bit : g->reverse & ~bit;
    g->all &= ~bit;
    g->looped = true;
    g->depth++;
    for (unsigned i = 0; i < names; i++) {
        g->names[i].placed |= g->names[i].axes & bit;
        g->names[i].axes &= ~bit;
    }
    for (unsigned i = 1 + below(g, 4); i > 0; i--)
        if (!write_statement(g)) i++;
    for (int tries = 0, left = 2; tries < 9 && left; tries++) {
        Name *name = &g->names[below(g, names)];
        if (name->role != INOUT && (name->role != OUT || !is_sliced(g, name))) continue;
        write_assignment(g, name);
        left--;
    }
    g->depth--;
    g->all |= bit;
    g->name_count = names; /* without what the body has bound */
    for (unsigned i = 0; i < names; i++) {
        g->names[i].axes |= g->names[i].placed & bit;
        g->names[i].placed &= ~bit;
    }
    fputs("    }\n", g->out);
}

/* let y = first(a = x, b = z): the file's first step, whose parameters this one's begin with. */
static void write_call(Generator *g) {
    const char *before = "";
    bool taken[NAMES_MAX] = {false};
    const unsigned names = g->name_count;
    if (g->callee_count == 0) return;
    fputs("    ", g->out);
    for (unsigned i = 0; i < g->callee_count; i++) { /* outs that become lets */
        if (g->callee[i].role != OUT || g->names[i].role == IN || chance(g, 50)) continue;
        const char *text = new_name(g);
        if (!text) continue;
        taken[i] = true;
        fprintf(g->out, "%s%s", *before ? ", " : "let ", text);
        before = ", ";
        Name name = g->callee[i];
        name.text = text;
        name.role = LET;
        name.readable = false; /* until the call is over */
        add_name(g, name);
    }
    fprintf(g->out, "%s%s(", *before ? " = " : "", g->callee_name);
    for (unsigned i = 0; i < g->callee_count; i++) {
        const Name *to = &g->callee[i];
        if (taken[i]) continue;
        fprintf(g->out, "%s = ", to->text);
        if (to->role == IN && i > 0 && to->type < COMPUTE && chance(g, 50)) {
            g->operations = 3;
            const Made made = write_value(g, to->kind, to->axes, 2);
            if (made.constant) {
                fputs(to->kind == BOOL ? " or " : " + ", g->out);
                write_leaf(g, to->kind, to->axes);
            }
        } else {
            fputs(g->names[i].text, g->out);
        }
        fputs(", ", g->out);
    }
    fputs(")\n", g->out);
    for (unsigned i = 0; i < g->callee_count; i++)
        if (g->callee[i].role != IN && !taken[i])
            g->names[i].readable = g->names[i].assigned = true;
    for (unsigned i = names; i < g->name_count; i++) g->names[i].readable = true;
}

static void write_parameter(Generator *g, Name name, bool may_split) {
    static const char *const roles[] = {"", "inout ", "out "};
    name.kind = storage[name.type].kind;
    name.readable = name.role != OUT;
    add_name(g, name);
    fprintf(g->out, "    %s%s: %s", roles[name.role], name.text, storage[name.type].name);
    g->split = may_split && chance(g, 20);
    write_axes(g, name.axes);
    g->split = false;
    if (!name.axes && name.role != OUT && chance(g, 30)) {
        fputs(" = ", g->out);
        fputs(name.kind == BOOL ? "true" : name.kind <= F64 ? "0.75" : "3", g->out);
    }
    fputs(",\n", g->out);
}

/* Few types and sets of axes, and most of what is read is stored. */
static void make_hazard(Generator *g, Name *name, unsigned number) {
    static const unsigned types[] = {0, 0, 0, 0, 0, 4, 8, 10}; /* f32 mostly; i32, bool, bf16 */
    const unsigned axes[] = {g->all,
                             g->all,
                             closure(g, g->all & ~(1u << (g->axis_count - 1))),
                             closure(g, g->all & 1),
                             closure(g, g->all & ~1u),
                             0};
    name->type = types[below(g, 8)];
    if (number > 2) name->axes = axes[below(g, 6)] & g->all;
    if (number > 0 && chance(g, 60)) name->role = INOUT;
}

static void write_parameters(Generator *g) {
    static const unsigned floats[] = {0, 1, 2, 3, 9, 10, 11, 12}; /* in `storage` */
    const unsigned count = 3 + below(g, g->small ? 4 : 9);
    for (unsigned i = 0; i < g->callee_count; i++) {
        Name name = g->callee[i];
        name.text = new_name(g);
        name.assigned = false;
        if (name.role == OUT && chance(g, 30)) name.role = INOUT;
        write_parameter(g, name, i > 0);
    }
    for (unsigned i = g->callee_count; i < count; i++) {
        Name name = {.text = new_name(g), .type = below(g, STORAGE)};
        if (!name.text) break;
        /* One has every axis, so that each has a length, one is sure to be written, and one is a
         * number that every expression may use. A list may be empty: one has the other axes. */
        name.axes = i == 0 ? g->all : i == 2 ? 0 : random_axes(g, g->all);
        if (i == 1 && g->ragged) name.axes = g->all & ~g->ragged;
        name.role = i == 0 ? IN : i == 1 ? INOUT : i == 2 ? below(g, 2) : below(g, 3);
        if (g->layered && chance(g, 60)) name.type = floats[below(g, 8)];
        if (g->hazards) make_hazard(g, &name, i);
        if (g->floats) {
            name.type = floats[below(g, 8)];
            name.role = i == 1 || (i > 2 && chance(g, 30)) ? OUT : IN;
        }
        if (!name.axes) name.type %= COMPUTE; /* storage types are for arrays */
        if (!name.axes && g->floats) name.type %= 4;
        write_parameter(g, name, i > 0);
    }
    if (g->dead_branch) fputs("    out must_hold: bool,\n", g->out);
}

/* False where nothing was written. */
static bool write_statement(Generator *g) {
    const long begin = ftell(g->out);
    Name *name = &g->names[below(g, g->name_count)];
    const unsigned which = below(g, 100);
    const bool in_loop = g->depth > 0;
    if (g->loops && chance(g, 25))
        write_for(g);
    else if (g->hazards && !in_loop && chance(g, 75))
        write_hazard(g);
    else if (g->layered && chance(g, 50))
        write_layer(g);
    else if (which < 25)
        write_let(g);
    else if (which < 35)
        write_grad(g);
    else if (which < 42)
        write_swap(g);
    else if (which < 56)
        write_when(g);
    else if (name->role == INOUT ||
             (name->role == OUT && (!in_loop || name->readable || is_sliced(g, name))))
        write_assignment(g, name);
    return ftell(g->out) != begin;
}

static void write_step(Generator *g, unsigned number) {
    static const char *const grades[] = {"", "", "", " math lite"};
    g->name_count = 0;
    char text[16];
    snprintf(text, sizeof text, "%s_%u", chance(g, 30) ? "double" : "s", number);
    fprintf(g->out, "step %s", text);
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
        if (g->formula[i]) fprintf(g->out, " = %s%s", g->formula[i], g->axis[i - 1]);
    }
    fprintf(g->out, "%s(\n", g->axis_count ? "]" : "");
    write_parameters(g);
    const unsigned parameters = g->name_count;
    fprintf(g->out, ")%s {\n", grades[below(g, 4)]);
    const unsigned most = g->hazards ? 7 : g->layered ? 9 : 5;
    const unsigned drawn = g->small ? below(g, most) : 3 + below(g, g->hazards ? 4 : 9);
    const unsigned statements = g->statements ? g->statements : drawn;
    const unsigned call = statements && g->late ? below(g, statements) : 0;
    if (g->dead_branch) write_dead_branch(g);
    for (unsigned i = 0; i < statements; i++) {
        const long begin = ftell(g->out);
        if (i == call) write_call(g);
        write_statement(g);
        if (g->statements && ftell(g->out) == begin) i--; /* nothing was written */
    }
    for (unsigned i = 0; i < g->name_count; i++)
        if (g->names[i].role == OUT && !g->names[i].assigned) write_assignment(g, &g->names[i]);
    write_assignment(g, &g->names[1]);
    fputs("}\n", g->out);
    memcpy(g->callee_name, text, sizeof text);
    if (!g->calls) return;
    memcpy(g->callee, g->names, parameters * sizeof *g->names);
    g->callee_count = parameters;
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
        int64_t elements = 1, most = 12000, before = 1;
        if (g->small) most = chance(g, g->layered ? 30 : 70) ? 300 : chance(g, 80) ? 2500 : 10000;
        const unsigned longest = chance(g, 4) && g->axis_count ? below(g, g->axis_count) : 99;
        if (longest < 99) most = g->small ? 5000 : 1100000;
        for (unsigned i = 0; i < g->axis_count; i++) {
            int64_t length = fixed[i] >= 0 ? fixed[i] : random_length(g);
            if (g->short_axes >> i & 1 && fixed[i] < 0)
                length = below(g, 6);
            else if (i == longest && fixed[i] < 0)
                length = long_lengths[below(g, g->small ? 2 : 4)];
            while (length > 1 && elements * length > most) length /= 2;
            if (fixed[i] >= 0) length = fixed[i];
            if (g->formula[i]) {
                length = g->formula[i][0] == '2' ? 2 * before : 1 + before;
                if (length > 0) elements *= length;
                continue; /* not named: it follows */
            }
            before = length;
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
    if (g->small && chance(g, g->hazards ? 90 : 70)) /* one NaN hides others */
        fprintf(g->out, "# fill: %s\n", chance(g, g->hazards ? 90 : 50) ? "normal" : "special");
}

/* One or two of the later axes depend on an earlier one. */
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

/* Of a plain axis behind a plain one, sometimes a length that follows from the other's. */
static void make_formulas(Generator *g) {
    const unsigned special = g->ragged | blocks(g) | (g->ragged ? 1u << g->list : 0);
    for (unsigned i = 1; i < g->axis_count; i++)
        if (!(special & 3u << (i - 1)) && !g->formula[i - 1] && chance(g, 6)) {
            g->formula[i] = chance(g, 50) ? "2 * " : "1 + ";
            g->fixed[i] = -1;
        }
}

/* One or two plain axes on which nothing depends. */
static void make_loops(Generator *g) {
    const unsigned special = g->ragged | blocks(g) | (g->ragged ? 1u << g->list : 0);
    if (g->axis_count == 0 || (g->state >> 17) % 4 != 1) return;
    for (int tries = 0; tries < 2; tries++) {
        const unsigned axis = below(g, g->axis_count);
        if (!(special >> axis & 1) && !g->formula[axis]) g->short_axes |= 1u << axis;
    }
}

/* One step, or two that know nothing of each other, or one that calls the first, or a step and its
 * derivative. */
static void write_steps(Generator *g) {
    const unsigned way = below(g, 100);
    const bool two = way < (g->small ? 4 : 12);
    const bool calls = !two && way < (g->hazards ? 40 : 20);
    const bool derived = !two && !calls && way < 25 && g->axis_count > 0 && !g->hazards;
    g->loops = g->short_axes && !calls && !derived;
    g->calls = calls;
    g->late = chance(g, 50);
    g->floats = derived;
    g->dead_branch = !calls && !derived && g->state % 5 == 0;
    write_step(g, 0);
    g->calls = g->floats = g->dead_branch = false;
    g->looped = false;
    if (derived) fprintf(g->out, "step derived = backward %s\n", g->callee_name);
    if (!two && !calls) return;
    write_step(g, 1);
}

char *random_program(uint64_t number, uint64_t seed, bool small, unsigned statements) {
    char *text = NULL;
    size_t size = 0;
    Generator *g = must_allocate(sizeof *g);
    *g = (Generator){.state = (number + (seed - 1) * 0x632be59bd9b4e019u) * 0x9e3779b97f4a7c15u,
                     .small = small,
                     .statements = statements,
                     .out = open_memstream(&text, &size)};
    if (!g->out) exit(3);
    if (!statements && (g->state >> 40) % 16 == 7) {
        write_loops(g->out, g->state);
        fclose(g->out);
        free(g);
        return text;
    }
    g->axis_count = below(g, 5);
    if (chance(g, small ? 1 : 5)) g->axis_count = AXES_MAX - 1;
    g->layered = chance(g, 35);
    g->hazards = g->axis_count && chance(g, 30);
    if (g->hazards && g->axis_count > 3) g->axis_count = 1 + below(g, 3);
    if (g->layered && g->axis_count < 2) g->axis_count += 2;
    g->all = (1u << g->axis_count) - 1;
    for (unsigned i = 0; i < g->axis_count; i++) {
        g->axis[i] = new_name(g);
        g->fixed[i] = chance(g, 10) ? 1 + (int64_t)below(g, 9) : -1;
    }
    if (g->axis_count >= 2 && chance(g, 40)) make_ragged(g);
    if (g->axis_count >= 2 && chance(g, 30)) make_blocks(g);
    make_formulas(g);
    make_loops(g);
    write_sizes(g);
    g->own = chance(g, 25);
    if (g->own)
        fputs("fn bent(a) = a * a - sin(a) * 0.5\nfn slope(a) = bent'(a) / (a + 0.25)\n"
              "fn blend(a, b) = if a < b then a + b else a - b\n",
              g->out);
    write_steps(g);
    fclose(g->out);
    free(g);
    return text;
}
