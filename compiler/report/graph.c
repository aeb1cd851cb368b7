/* graph.c: a plan as a Graphviz graph.
 *
 * Time goes from left to right: arrays as they were (green), kernels with the statements that they
 * run (blue), temporaries (dashed), arrays as they are afterwards (yellow). An edge says how many
 * bytes move, and is the thicker the more they are. What has no axes is drawn small, once. */
#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "front/front.h"
#include "fuse/fuse.h"
#include "emit/emit.h"
#include "toolchain/toolchain.h"
#include "compile.h"
#include "report/report.h"

enum { LINE_LENGTH = 52, LINES = 10, NAMES_PER_LINE = 4, NAME_POINTS = 11, LINE_POINTS = 9 };
enum { MARGIN = 8 }; /* of a box on both sides of its text, in points */

/* Text within the label of a table. */
static void put_escaped(Report *r, const char *begin, const char *end) {
    static const char special[] = "&<>\"";
    static const char *const words[] = {"&amp;", "&lt;", "&gt;", "&quot;"};
    for (const char *c = begin; c < end; c++) {
        const char *found = strchr(special, *c);
        if (found && *c)
            text_puts(&r->out, words[found - special]);
        else
            text_add(&r->out, isprint((unsigned char)*c) ? c : "?", 1);
    }
}

/* How a line of a table looks. */
typedef enum Style { STYLE_NAME, STYLE_CODE, STYLE_NOTE, STYLE_SUM } Style;
static const struct {
    const char *cell, *font; /* attributes of its cell, and of its font */
    Face face;
    int points;
} styles[] = {
    [STYLE_NAME] = {"", "POINT-SIZE=\"11\"", FACE_BOLD, NAME_POINTS},
    [STYLE_CODE] = {"ALIGN=\"LEFT\" ", "FACE=\"Courier\" POINT-SIZE=\"9\"", FACE_FIXED,
                    LINE_POINTS},
    [STYLE_NOTE] = {"ALIGN=\"LEFT\" ", "COLOR=\"#555555\" POINT-SIZE=\"9\"", FACE_PLAIN,
                    LINE_POINTS},
    [STYLE_SUM] = {"", "COLOR=\"#555555\" POINT-SIZE=\"9\"", FACE_PLAIN, LINE_POINTS},
};

/* A line of a table, in a cell that is wide enough for it. */
static void put_row(Report *r, Style style, const char *text) {
    const size_t size = strlen(text), shown = size < LINE_LENGTH ? size : LINE_LENGTH;
    const bool cut = style == STYLE_CODE && size > LINE_LENGTH;
    Text line = text_open(&r->c->compiler.arena);
    text_add(&line, text, cut ? shown : size);
    if (cut) text_puts(&line, "...");
    const double width =
        report_text_width(line.data, line.size, styles[style].face, styles[style].points);
    const char *bold = style == STYLE_NAME ? "<B>" : "", *end = style == STYLE_NAME ? "</B>" : "";
    text_printf(&r->out, "<TR><TD %sWIDTH=\"%.0f\"><FONT %s>%s", styles[style].cell,
                ceil(width) + MARGIN, styles[style].font, bold);
    put_escaped(r, line.data, line.data + line.size);
    text_printf(&r->out, "%s</FONT></TD></TR>", end);
}

/* ---- kernels ---- */

/* What of the source a kernel's phases make true, each range once. */
typedef struct Lines {
    Range shown[LINES];
    size_t count;
    bool more;
} Lines;

/* The range's text on one line, behind `name: ` where there is a name. */
static void put_source(Report *r, Lines *lines, Range range, const char *name) {
    const Compiler *compiler = r->plan->function->compiler;
    if (!range.file || range.file >= compiler->source_count) return;
    for (size_t i = 0; i < lines->count && !name; i++)
        if (lines->shown[i].file == range.file && lines->shown[i].begin == range.begin) return;
    lines->more |= lines->count == LINES;
    if (lines->count == LINES) return;
    lines->shown[lines->count++] = range;
    Text text = text_open(&r->c->compiler.arena);
    if (name) text_printf(&text, "%s: ", name);
    bool comment = false, space = false;
    for (const char *c = compiler->sources[range.file].text + range.begin,
                    *end = c + (range.end - range.begin);
         c < end; c++) {
        comment = *c == '#' || (comment && *c != '\n');
        if (comment || isspace((unsigned char)*c)) {
            space = true;
            continue;
        }
        if (space) text_puts(&text, " ");
        text_add(&text, c, 1);
        space = false;
    }
    put_row(r, STYLE_CODE, text.data ? text.data : "");
}

/* A store's range is its parameter's: the statement is the line. */
static Range line_of(const Report *r, Range range) {
    const Compiler *compiler = r->plan->function->compiler;
    if (!range.file || range.file >= compiler->source_count) return range;
    const char *text = compiler->sources[range.file].text;
    while (range.begin > 0 && text[range.begin - 1] != '\n') range.begin--;
    while (isspace((unsigned char)text[range.begin])) range.begin++;
    while (text[range.end] && text[range.end] != '\n') range.end++;
    return range;
}

/* The array of a materialised value, or its name or number: "sum_40". */
static const char *materialised_name(const Report *r, ValueId v) {
    const uint32_t array = r->plan->array_of[v];
    if (array) return r->plan->arrays[array - 1].name;
    const Value *value = &r->plan->function->values[v];
    if (value->name) return value->name;
    return arena_numbered(&r->c->compiler.arena, plan_reduction(value), v);
}

static void put_made(Report *r, Lines *lines, ValueId v) {
    put_source(r, lines, r->plan->function->values[v].range, materialised_name(r, v));
}

static void put_axes(const Report *r, Text *out, const char *before, AxisSet axes) {
    const Function *f = r->plan->function;
    for (size_t axis = 0; axis < f->axis_count; axis++)
        if (axes >> axis & 1) {
            text_printf(out, "%s%s", before, f->axes[axis].name);
            before = ", ";
        }
}

/* Whether a statement's line says what is stored: not of a derived step, and not of what is only on
 * the way to an array. */
static bool has_line(const Report *r, const PhaseStore *store) {
    const Range range = line_of(r, store->range);
    const char *text = r->plan->function->compiler->sources[range.file].text;
    return range.file && r->plan->arrays[store->array].parameter != UINT32_MAX &&
           store->kind == STORE_VALUE && strncmp(text + range.begin, "step ", strlen("step ")) != 0;
}

/* The statement, or else the array's name. */
static void put_store(Report *r, Lines *lines, const PhaseStore *store) {
    if (has_line(r, store))
        put_source(r, lines, line_of(r, store->range), NULL);
    else
        put_row(r, STYLE_CODE, r->plan->arrays[store->array].name);
}

/* Whether a kernel on row panels leaves a store to the one that finishes its columns. */
static bool is_finished_later(const Phase *phase, const PhaseStore *store) {
    return phase->shape == SHAPE_COLUMNS && store->level != LEVEL_ELEMENT;
}

static bool is_shown(const Kernel *kernel, const Phase *phase, const PhaseStore *store) {
    if (kernel->kind == KERNEL_ROW_PANELS) return !is_finished_later(phase, store);
    return kernel->kind != KERNEL_FINISH || is_finished_later(phase, store);
}

/* Whether what a phase makes for later ones is named where its reductions and scans are. */
static bool is_named(const Report *r, const Phase *phase, const PhaseStore *store) {
    const bool temporary = r->plan->arrays[store->array].parameter == UINT32_MAX;
    bool named = false;
    for (size_t i = 0; i < phase->reduction_count; i++)
        named |= phase->reductions[i] == store->value;
    for (size_t i = 0; i < phase->scan_count; i++) named |= phase->scans[i] == store->value;
    return temporary && store->kind == STORE_VALUE && named;
}

/* A phase stands in the kernel that runs it; in one that finishes its columns what becomes of the
 * partial results. */
static void put_phase(Report *r, Lines *lines, const Kernel *kernel, const Phase *phase) {
    const bool finish = kernel->kind == KERNEL_FINISH;
    Text note = text_open(&r->c->compiler.arena);
    if (finish && phase->shape != SHAPE_COLUMNS) return;
    text_puts(&note, finish ? "the columns' sums of all panels" : report_partitions[phase->shape]);
    put_axes(r, &note, phase->outer ? ": for each " : "", phase->outer);
    if (!finish) put_axes(r, &note, phase->outer ? " along " : ": over ", phase->inner);
    put_row(r, STYLE_NOTE, note.data);
    for (size_t i = 0; !finish && i < phase->reduction_count; i++)
        put_made(r, lines, phase->reductions[i]);
    for (size_t i = 0; !finish && i < phase->scan_count; i++) put_made(r, lines, phase->scans[i]);
    for (size_t i = 0; i < phase->store_count; i++)
        if (is_shown(kernel, phase, &phase->stores[i]) && !is_named(r, phase, &phase->stores[i]))
            put_store(r, lines, &phase->stores[i]);
}

static void put_kernel(Report *r, size_t k) {
    const KernelReport *kernel = &r->kernels[k];
    const char *name = kernel->name + strlen("lockstep_");
    text_printf(&r->out,
                "  kernel_%zu [shape=plain, label=<<TABLE BORDER=\"1\" CELLBORDER=\"0\" "
                "CELLSPACING=\"0\" CELLPADDING=\"2\" STYLE=\"ROUNDED\" BGCOLOR=\"#dbe9f6\" "
                "COLOR=\"#5b7fa3\">",
                k + 1);
    put_row(r, STYLE_NAME, name);
    Lines lines = {.count = 0};
    for (uint32_t p = kernel->plan.first - kernel->plan.pre_reductions;
         p < kernel->plan.first + kernel->plan.count; p++)
        put_phase(r, &lines, &kernel->plan, &r->plan->phases[p]);
    if (lines.more) put_row(r, STYLE_NOTE, "...");
    const double bytes = kernel->read + kernel->written + kernel->once.read + kernel->once.written;
    Text sum = text_open(&r->c->compiler.arena);
    text_puts(&sum, report_bytes_text(r, bytes));
    if (kernel->operations > 0 && bytes > 0)
        text_printf(&sum, ", %.2g operations per byte", kernel->operations / bytes);
    put_row(r, STYLE_SUM, sum.data);
    text_puts(&r->out, "</TABLE>>];\n");
}

/* ---- arrays ---- */

/* Whether a kernel reads an array as it was before the step, and as a phase left it. */
static void find_reads(const Report *r, const KernelReport *kernel, uint32_t a, bool *old,
                       bool *made) {
    const Plan *plan = r->plan;
    *old = *made = false;
    if (!plan_kernel_reads(plan, &kernel->plan, a)) return;
    for (uint32_t p = kernel->plan.first - kernel->plan.pre_reductions;
         p < kernel->plan.first + kernel->plan.count; p++) {
        const Phase *phase = &plan->phases[p];
        for (size_t i = 0; i < phase->value_count; i++) {
            const ValueId v = phase->values[i];
            const Value *value = &plan->function->values[v];
            const bool gathers = plan_is_gather_of(plan, phase, v, a);
            const ValueId read = gathers ? value->arg[0] : v;
            if (!gathers && (!plan_is_read(plan, phase, v) || plan_source(plan, phase, v) != a + 1))
                continue;
            if (plan->function->values[read].op == OP_PARAMETER)
                *old = true;
            else
                *made = true;
        }
    }
}

static void put_node(Report *r, uint32_t a, const char *state, const char *look) {
    const Array *array = &r->plan->arrays[a];
    Text type = text_open(&r->c->compiler.arena);
    text_puts(&type, type_info[array->type].name);
    put_axes(r, &type, "[", array->axes);
    if (array->axes) text_puts(&type, "]");
    const double name =
        report_text_width(array->name, strlen(array->name), FACE_PLAIN, NAME_POINTS);
    const double below = report_text_width(type.data, type.size, FACE_PLAIN, NAME_POINTS);
    text_printf(&r->out, "  %s_%u [shape=box, %s, width=%.2f, label=\"%s\\n%s\"];\n", state, a,
                look, ((name > below ? name : below) + 2 * MARGIN) / 72, array->name, type.data);
}

/* The widest edge carries what the most bytes carry. */
static void put_edge(Report *r, const char *from, const char *to, const char *what, double bytes) {
    double max = 1;
    for (uint32_t a = 0; a < r->plan->array_count; a++) {
        const double all = plan_sizes_array_bytes(&r->sizes, &r->plan->arrays[a]);
        if (all > max) max = all;
    }
    text_printf(&r->out, "  %s -> %s [label=\"%s%s\", penwidth=%.2f];\n", from, to, what,
                report_bytes_text(r, bytes), 0.7 + 2.3 * (bytes < max ? bytes / max : 1));
}

/* What goes between an array and a kernel, in bytes. */
typedef struct Flow {
    double old, made, written; /* read as it was; read as a phase left it */
} Flow;

static Flow flow_of(Report *r, const KernelReport *kernel, uint32_t a) {
    bool old, made;
    Flow flow = {0};
    const bool writes = report_kernel_writes(r, kernel, a);
    find_reads(r, kernel, a, &old, &made);
    const double read =
        plan_array_reads(r->plan, &r->sizes, &kernel->plan, a, &r->c->compiler.arena);
    if (old) flow.old = read;
    if (made && !writes) flow.made = read;
    if (writes) flow.written = plan_sizes_array_bytes(&r->sizes, &r->plan->arrays[a]);
    return flow;
}

/* What reads as "0 B" is no edge, and an array without edges is not drawn. */
static bool is_drawn(double bytes) {
    return bytes >= 0.5;
}

static void put_array(Report *r, uint32_t a) {
    Arena *arena = &r->c->compiler.arena;
    const bool temporary = r->plan->arrays[a].parameter == UINT32_MAX;
    const char *before = arena_printf(arena, "before_%u", a);
    const char *after = arena_printf(arena, "after_%u", a);
    bool any_old = false, any_written = false, carried = false;
    for (size_t k = 0; k < r->kernel_count; k++) {
        const Flow flow = flow_of(r, &r->kernels[k], a);
        any_old |= is_drawn(flow.old);
        any_written |= is_drawn(flow.written);
        carried |= is_drawn(flow.made);
    }
    if (temporary && !carried) return; /* stays within one kernel */
    if (any_old) put_node(r, a, "before", "style=filled, fillcolor=\"#e6f2df\"");
    if (any_written)
        put_node(r, a, "after", temporary ? "style=dashed" : "style=filled, fillcolor=\"#fbf0d2\"");
    for (size_t k = 0; k < r->kernel_count; k++) {
        const char *kernel = arena_printf(arena, "kernel_%zu", k + 1);
        const Flow flow = flow_of(r, &r->kernels[k], a);
        if (is_drawn(flow.old)) put_edge(r, before, kernel, "", flow.old);
        if (is_drawn(flow.made) && any_written) put_edge(r, after, kernel, "", flow.made);
        if (is_drawn(flow.written)) put_edge(r, kernel, after, "", flow.written);
    }
}

/* The partial results of row panels, which are no arrays of the plan: what the kernel that finishes
 * the columns reads beside these. */
static void put_partials(Report *r, size_t k) {
    const KernelReport *kernel = &r->kernels[k];
    Arena *arena = &r->c->compiler.arena;
    double bytes = kernel->read;
    if (kernel->plan.kind != KERNEL_FINISH || k == 0) return;
    for (uint32_t a = 0; a < r->plan->array_count; a++)
        bytes -= plan_array_reads(r->plan, &r->sizes, &kernel->plan, a, arena);
    if (is_drawn(bytes))
        put_edge(r, arena_printf(arena, "kernel_%zu", k), arena_printf(arena, "kernel_%zu", k + 1),
                 "partial results\\n", bytes);
}

/* What has no axes: one node for all that is read, one for what each kernel stores. */
static void put_scalars(Report *r) {
    size_t names = 0;
    Text edges = text_open(&r->c->compiler.arena), stored = text_open(&r->c->compiler.arena);
    static const char look[] = "shape=plaintext, fontsize=9, fontcolor=\"#555555\"";
    for (uint32_t a = 0; a < r->plan->function->parameter_count; a++) {
        bool old = false, made = false, any = false;
        if (r->plan->arrays[a].axes) continue;
        for (size_t k = 0; k < r->kernel_count; k++) {
            find_reads(r, &r->kernels[k], a, &old, &made);
            any |= old;
        }
        if (!any) continue;
        if (!names) text_printf(&r->out, "  scalars [%s, label=\"", look);
        text_printf(&r->out, "%s%s",
                    !names                   ? ""
                    : names % NAMES_PER_LINE ? ", "
                                             : ",\\n",
                    r->plan->arrays[a].name);
        names++;
    }
    if (names) text_puts(&r->out, "\"];\n");
    for (size_t k = 0; k < r->kernel_count; k++) {
        bool reads = false, writes = false;
        for (uint32_t a = 0; a < r->plan->function->parameter_count; a++) {
            bool old, made;
            if (r->plan->arrays[a].axes) continue;
            find_reads(r, &r->kernels[k], a, &old, &made);
            reads |= old;
            if (!report_kernel_writes(r, &r->kernels[k], a)) continue;
            if (!writes) text_printf(&stored, "  stored_%zu [%s, label=\"", k + 1, look);
            text_printf(&stored, "%s%s", writes ? "\\n" : "", r->plan->arrays[a].name);
            writes = true;
        }
        static const char thin[] = "style=dotted, arrowsize=0.6";
        if (reads) text_printf(&edges, "  scalars -> kernel_%zu [%s];\n", k + 1, thin);
        if (!writes) continue;
        text_puts(&stored, "\"];\n");
        text_printf(&edges, "  kernel_%zu -> stored_%zu [%s];\n", k + 1, k + 1, thin);
    }
    text_puts(&r->out, stored.data);
    text_puts(&r->out, edges.data);
}

void report_graph(Report *r) {
    text_puts(&r->out, "digraph ");
    text_json(&r->out, r->plan->function->name);
    text_puts(&r->out, " {\n  rankdir=LR; ranksep=0.6; nodesep=0.2;\n  fontname=\"Helvetica\"; "
                       "fontsize=11;\n  label=<<TABLE BORDER=\"0\" CELLPADDING=\"0\">");
    Text title = text_open(&r->c->compiler.arena);
    text_printf(&title, "%s: %zu launch%s, %s moved, %.2f of the minimum", r->plan->function->name,
                r->kernel_count, r->kernel_count == 1 ? "" : "es", report_bytes_text(r, r->moved),
                r->minimum > 0 ? r->moved / r->minimum : 1.0);
    put_row(r, STYLE_NAME, title.data);
    text_puts(&r->out, "</TABLE>>;\n");
    text_puts(&r->out, "  node [fontname=\"Helvetica\", fontsize=11, height=0.3];\n"
                       "  edge [fontname=\"Helvetica\", fontsize=9, color=\"#666666\"];\n");
    for (size_t k = 0; k < r->kernel_count; k++) put_kernel(r, k);
    /* kernels stand in the order of their launches */
    for (size_t k = 1; k < r->kernel_count; k++)
        text_printf(&r->out, "  kernel_%zu -> kernel_%zu [style=invis];\n", k, k + 1);
    for (uint32_t a = 0; a < r->plan->array_count; a++)
        if (r->plan->arrays[a].axes || r->plan->arrays[a].parameter == UINT32_MAX) put_array(r, a);
    for (size_t k = 0; k < r->kernel_count; k++) put_partials(r, k);
    put_scalars(r);
    text_puts(&r->out, "}\n");
}
