/* random_hazards.c: statements whose order matters. What a step stores it also reads: at other
 * coordinates, in reductions and chains of them, in sums that a gradient scatters, as a condition
 * of nested `when`s that store it again, and in later statements. All of it is made of few arrays
 * over few sets of axes, so that phases meet; values stay small and finite, so that what is read
 * too early or too late is not hidden. */
#include "random.h"

#include <stdlib.h>
#include <string.h>

#include "exec.h"

/* A readable name over some of the axes, rather one that the step stores; NULL if there is none. */
static const Name *any_name(Generator *g, unsigned allowed, bool varies) {
    const Name *found = NULL;
    for (int tries = 0; tries < 12; tries++) {
        const Name *name = &g->names[below(g, g->name_count)];
        if (!name->readable || name->axes & ~allowed || (varies && !name->axes)) continue;
        found = name;
        if (name->role == INOUT || name->role == LET || chance(g, 30)) break;
    }
    return found;
}

static bool can_be_indexed(const Generator *g, const Name *name) {
    return name->axes && !(name->axes & blocks(g));
}

static void open_float(Generator *g, const Name *name) {
    if (name->kind != F32) fputs(name->kind <= F64 ? "f32(" : "0.125 * f32(", g->out);
}

static void close_float(Generator *g, const Name *name) {
    if (name->kind != F32) fputs(")", g->out);
}

/* An integer array over these axes to take coordinates from, or NULL. */
static const Name *find_table(Generator *g, unsigned allowed) {
    for (int tries = 0; tries < 12; tries++) {
        const Name *name = &g->names[below(g, g->name_count)];
        if (name->readable && name->axes && !(name->axes & ~allowed) && name->kind >= I32 &&
            name->kind <= U64)
            return name;
    }
    return NULL;
}

/* One coordinate: the axis' own, one near it, from the end, or from a table; gives its axes. */
static unsigned write_coordinate(Generator *g, unsigned axis, unsigned allowed) {
    const char *name = g->axis[axis];
    const unsigned own = closure(g, 1u << axis), others = own & ~(1u << axis);
    const Name *table = chance(g, 30) ? find_table(g, allowed) : NULL;
    if (table) {
        fprintf(g->out, chance(g, 50) ? "%s" : "i64(%s) %% 4", table->text);
        return table->axes;
    }
    if (!(own & ~allowed)) {
        switch (below(g, 6)) {
        case 0: fprintf(g->out, "size(%s) - 1 - index(%s)", name, name); return own;
        case 1: fprintf(g->out, "%s + %u", name, 1 + below(g, 2)); return own;
        case 2:
        case 3: fprintf(g->out, "%s - %u", name, 1 + below(g, 2)); return own;
        default: fputs(name, g->out); return own;
        }
    }
    if (!(others & ~allowed) && chance(g, 40)) {
        fprintf(g->out, "size(%s) - 1", name);
        return others;
    }
    for (unsigned i = 0; i < g->axis_count; i++) /* another axis' */
        if (!(closure(g, 1u << i) & ~allowed) && chance(g, 40)) {
            fprintf(g->out, "index(%s)", g->axis[i]);
            return closure(g, 1u << i);
        }
    fprintf(g->out, "%u", below(g, 2));
    return 0;
}

static unsigned write_element(Generator *g, const Name *name, unsigned allowed) {
    const char *before = "[";
    unsigned axes = 0;
    fputs(name->text, g->out);
    for (unsigned i = 0; i < g->axis_count; i++) {
        if (!(name->axes >> i & 1)) continue;
        fputs(before, g->out);
        axes |= write_coordinate(g, i, allowed);
        before = ", ";
    }
    fputs("]", g->out);
    return axes;
}

static unsigned write_sum(Generator *g, unsigned allowed, unsigned terms);

/* sum[k](x * ...): of what has more axes than are wanted; gives the axes left. */
static unsigned write_reduced(Generator *g, unsigned allowed) {
    static const char *const names[] = {"mean", "max", "min", "mean", "norm"};
    const Name *of = any_name(g, g->all, true);
    if (!of) return write_sum(g, 0, 1);
    unsigned over = of->axes & ~allowed;
    if (!over || chance(g, 30)) over |= of->axes & (unsigned)random_bits(&g->state);
    if (!over) over = of->axes;
    /* nothing is left that depends on what is reduced */
    if (g->ragged && over >> g->list & 1) over |= of->axes & g->ragged;
    if (g->whole && over >> g->block & 1) over |= of->axes & 2u << g->block;
    fputs(names[below(g, 5)], g->out);
    write_axes(g, over);
    fputs("(", g->out);
    open_float(g, of);
    fputs(of->text, g->out);
    close_float(g, of);
    if (chance(g, 60)) {
        fputs(chance(g, 50) ? " + " : " - ", g->out);
        write_sum(g, of->axes, 1);
    }
    fputs(")", g->out);
    return of->axes & ~over;
}

static unsigned write_term(Generator *g, unsigned allowed, unsigned terms) {
    const unsigned which = below(g, 100);
    const Name *name = any_name(g, g->all, which < 45);
    if (which < 45 && name && can_be_indexed(g, name)) {
        open_float(g, name);
        const unsigned axes = write_element(g, name, allowed);
        close_float(g, name);
        return axes;
    }
    if (which < 60 && terms > 1 && g->axis_count) return write_reduced(g, allowed);
    name = any_name(g, allowed, false);
    if (!name) {
        fputs("0.375", g->out);
        return 0;
    }
    open_float(g, name);
    fputs(name->text, g->out);
    close_float(g, name);
    return name->axes;
}

/* Terms over these axes; gives those they have. */
static unsigned write_sum(Generator *g, unsigned allowed, unsigned terms) {
    unsigned axes = 0;
    for (unsigned i = 0; i < terms; i++) {
        const char *const factors[] = {"", "0.5 * ", "0.25 * ", ""};
        if (i) fputs(chance(g, 60) ? " + " : " - ", g->out);
        fputs(factors[below(g, 4)], g->out);
        axes |= write_term(g, allowed, terms);
    }
    return axes;
}

static void write_stored_sum(Generator *g, const Name *name) {
    const char *type = storage[name->type].name;
    if (name->kind == BOOL) {
        fputs("(", g->out);
        write_sum(g, name->axes, 1 + below(g, 3));
        fputs(") > 0.25", g->out);
        return;
    }
    fprintf(g->out, "%s(0.125 + ", name->kind == F32 ? "" : type);
    write_sum(g, name->axes, 1 + below(g, 4));
    fputs(name->kind <= F64 ? ")" : " * 4)", g->out);
}

/* One that the step may store, over at least these axes; NULL if there is none. */
static Name *any_stored(Generator *g, unsigned axes, bool new) {
    for (int tries = 0; tries < 12; tries++) {
        Name *name = &g->names[below(g, g->name_count)];
        if ((name->role == INOUT || (new && name->role == OUT)) && !(axes & ~name->axes))
            return name;
    }
    return NULL;
}

static void indent(Generator *g, unsigned depth) {
    for (unsigned i = 0; i <= depth; i++) fputs("    ", g->out);
}

static void write_store(Generator *g, Name *name, unsigned depth) {
    indent(g, depth);
    fprintf(g->out, "%s = ", name->text);
    write_stored_sum(g, name);
    fputs("\n", g->out);
    name->readable = name->assigned = true;
}

/* A condition, of rank 0 mostly, made of something that the step stores; gives its axes. */
static unsigned write_condition(Generator *g, unsigned allowed, Name **of) {
    Name *name = NULL;
    unsigned axes = 0;
    for (int tries = 0; tries < 24 && !name; tries++) {
        Name *some = &g->names[below(g, g->name_count)];
        const bool whole = !(some->axes & ~allowed) && (!some->axes || chance(g, 25));
        if (some->readable && (whole || (can_be_indexed(g, some) && chance(g, 30)))) name = some;
    }
    *of = name && name->role == INOUT ? name : NULL;
    if (!name) {
        fputs("0.25 < ", g->out);
        write_reduced(g, 0);
        return 0;
    }
    if (chance(g, 30)) fputs("not ", g->out);
    if (name->kind != BOOL) fputs("(", g->out);
    if (name->axes & ~allowed || (can_be_indexed(g, name) && chance(g, 50))) {
        axes = write_element(g, name, 0);
    } else {
        fputs(name->text, g->out);
        axes = name->axes;
    }
    if (name->kind != BOOL) fputs(name->kind <= F64 ? " > 0.125)" : " > 1)", g->out);
    return axes;
}

/* `when`s in one another; what they store is often what their conditions are made of. */
static void write_block(Generator *g, unsigned around, unsigned depth) {
    Name *of = NULL;
    if (!any_stored(g, around, false)) return;
    indent(g, depth);
    fputs("when ", g->out);
    const unsigned axes = around | write_condition(g, g->all, &of);
    fputs(" {\n", g->out);
    for (int side = 0; side < 2; side++) {
        const unsigned statements = 1 + below(g, 3);
        for (unsigned i = 0; i < statements; i++) {
            Name *name = of && !(axes & ~of->axes) && chance(g, 35) ? of : any_stored(g, axes, 0);
            if (depth < 2 && chance(g, 25)) write_block(g, axes, depth + 1);
            if (name) write_store(g, name, depth + 1);
        }
        if (side == 1 || chance(g, 60)) break;
        indent(g, depth);
        fputs("} else {\n", g->out);
    }
    indent(g, depth);
    fputs("}\n", g->out);
}

static void add_let(Generator *g, const char *text, unsigned axes) {
    if (g->name_count < most_names(g))
        g->names[g->name_count++] =
            (Name){.text = text, .kind = F32, .axes = axes, .role = LET, .readable = true};
}

/* let m = max[k](x), let s = mean[k](x - m), x = x * s: each made of those before. */
static void write_chain(Generator *g) {
    const unsigned length = 2 + below(g, 3);
    for (unsigned i = 0; i < length; i++) {
        const char *text = new_name(g);
        if (!text) return;
        fprintf(g->out, "    let %s = ", text);
        add_let(g, text, write_reduced(g, random_axes(g, g->all)));
        fputs("\n", g->out);
    }
    Name *name = any_stored(g, 0, true);
    if (name) write_store(g, name, 0);
}

/* let d = grad(sum(x[table] * ...), x): sums that elements are added to from anywhere. */
static void write_scatter(Generator *g) {
    const Name *of = any_name(g, g->all, true);
    const char *text = of && g->axis_count ? new_name(g) : NULL;
    if (!text || of->kind != F32 || of->assigned || !can_be_indexed(g, of)) return;
    if (g->calls && g->late) return; /* what is assigned when it is called has no gradient */
    fprintf(g->out, "    let %s = grad(sum(", text);
    const unsigned axes = write_element(g, of, g->all);
    unsigned own = axes;
    while (!own) own = closure(g, 1u << below(g, g->axis_count));
    for (unsigned i = 0; i < g->axis_count; i++)
        if (own >> i & 1) {
            fprintf(g->out, " * (1 + f32(index(%s) %% 3))", g->axis[i]);
            break;
        }
    if (chance(g, 60)) {
        fputs(" * (0.5 + ", g->out);
        write_sum(g, own, 1);
        fputs(")", g->out);
    }
    fprintf(g->out, "), %s)\n", of->text);
    add_let(g, text, of->axes);
    Name *name = any_stored(g, 0, true);
    if (name) write_store(g, name, 0);
}

static void write_held(Generator *g) { /* what it was is kept for later */
    const char *text = new_name(g);
    if (!text) return;
    fprintf(g->out, "    let %s = 0.5 * ", text);
    add_let(g, text, write_term(g, random_axes(g, g->all), 1));
    fputs("\n", g->out);
}

void write_hazard(Generator *g) {
    Name *name = any_stored(g, 0, true);
    switch (below(g, 8)) {
    case 0:
    case 1: write_block(g, 0, 0); return;
    case 2: write_chain(g); return;
    case 3: write_scatter(g); return;
    case 4: write_held(g); return;
    default:
        if (name) write_store(g, name, 0);
    }
}
