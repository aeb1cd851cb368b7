/* graph.c: a plan as a Graphviz graph.
 *
 * Time goes from left to right: arrays as they were (green), kernels with the statements that they
 * run (blue), temporaries (dashed), arrays as they are afterwards (yellow). An edge says how many
 * bytes move, and is the thicker the more they are. What has no axes is drawn small, once. */
#include <ctype.h>
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

enum { LINE_LENGTH = 52, LINES = 10, NAMES_PER_LINE = 4 };

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

static void put_row(Report *r, const char *face, const char *begin, const char *end) {
    text_printf(&r->out, "<TR><TD ALIGN=\"LEFT\"><FONT %s>", face);
    put_escaped(r, begin, end < begin + LINE_LENGTH ? end : begin + LINE_LENGTH);
    text_puts(&r->out, end <= begin + LINE_LENGTH ? "</FONT></TD></TR>" : "...</FONT></TD></TR>");
}

static const char *const code_face = "FACE=\"Courier\" POINT-SIZE=\"9\"";
static const char *const note_face = "COLOR=\"#555555\" POINT-SIZE=\"9\"";

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
    put_row(r, code_face, text.data, text.data + text.size);
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

/* The array of a materialised value: "sum_40". */
static const char *materialised_name(const Report *r, ValueId v) {
    const uint32_t array = r->plan->array_of[v];
    if (array) return r->plan->arrays[array - 1].name;
    const Value *value = &r->plan->function->values[v];
    return value->name ? value->name : plan_reduction(value);
}

static void put_made(Report *r, Lines *lines, ValueId v) {
    put_source(r, lines, r->plan->function->values[v].range, materialised_name(r, v));
}

static void put_axes(Report *r, const char *before, AxisSet axes) {
    const Function *f = r->plan->function;
    for (size_t axis = 0; axis < f->axis_count; axis++)
        if (axes >> axis & 1) {
            text_printf(&r->out, "%s%s", before, f->axes[axis].name);
            before = ", ";
        }
}

/* Of a derived step no line says what is stored: then the array's name has to do. */
static void put_store(Report *r, Lines *lines, const PhaseStore *store) {
    const Range range = line_of(r, store->range);
    const char *text = r->plan->function->compiler->sources[range.file].text;
    const char *name = r->plan->arrays[store->array].name;
    if (range.file && strncmp(text + range.begin, "step ", strlen("step ")) != 0)
        put_source(r, lines, range, NULL);
    else
        put_row(r, code_face, name, name + strlen(name));
}

static void put_phase(Report *r, Lines *lines, const Phase *phase) {
    text_printf(&r->out, "<TR><TD ALIGN=\"LEFT\"><FONT %s>%s", note_face,
                report_partitions[phase->shape]);
    put_axes(r, phase->outer ? ": for each " : "", phase->outer);
    put_axes(r, phase->outer ? " along " : ": over ", phase->inner);
    text_puts(&r->out, "</FONT></TD></TR>");
    for (size_t i = 0; i < phase->reduction_count; i++) put_made(r, lines, phase->reductions[i]);
    for (size_t i = 0; i < phase->scan_count; i++) put_made(r, lines, phase->scans[i]);
    for (size_t i = 0; i < phase->store_count; i++) {
        const PhaseStore *store = &phase->stores[i];
        if (r->plan->arrays[store->array].parameter != UINT32_MAX || store->kind == STORE_ADD)
            put_store(r, lines, store);
    }
}

static void put_kernel(Report *r, size_t k) {
    const KernelReport *kernel = &r->kernels[k];
    const char *name = kernel->name + strlen("lockstep_");
    text_printf(&r->out,
                "  kernel_%zu [shape=plain, label=<<TABLE BORDER=\"1\" CELLBORDER=\"0\" "
                "CELLSPACING=\"0\" CELLPADDING=\"2\" STYLE=\"ROUNDED\" BGCOLOR=\"#dbe9f6\" "
                "COLOR=\"#5b7fa3\"><TR><TD><B>%s</B></TD></TR>",
                k + 1, name);
    Lines lines = {.count = 0};
    for (uint32_t p = kernel->plan.first - kernel->plan.pre_reductions;
         p < kernel->plan.first + kernel->plan.count; p++)
        put_phase(r, &lines, &r->plan->phases[p]);
    if (lines.more) text_puts(&r->out, "<TR><TD ALIGN=\"LEFT\">...</TD></TR>");
    const double bytes = kernel->read + kernel->written;
    text_printf(&r->out, "<TR><TD><FONT %s>%s, ", note_face, report_bytes_text(r, bytes));
    text_printf(&r->out, "%.2g operations per byte</FONT></TD></TR></TABLE>>];\n",
                bytes > 0 ? kernel->operations / bytes : 0.0);
}

/* ---- arrays ---- */

/* Whether a kernel reads an array as it was before the step, and as a phase left it. */
static void find_reads(const Report *r, const KernelReport *kernel, uint32_t a, bool *old,
                       bool *made) {
    const Plan *plan = r->plan;
    *old = *made = false;
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
    text_printf(&r->out, "  %s_%u [shape=box, %s, label=\"%s\\n%s", state, a, look, array->name,
                type_info[array->type].name);
    put_axes(r, "[", array->axes);
    text_puts(&r->out, array->axes ? "]\"];\n" : "\"];\n");
}

/* The widest edge carries what the most bytes carry. */
static void put_edge(Report *r, const char *from, const char *to, double bytes) {
    double max = 1;
    for (uint32_t a = 0; a < r->plan->array_count; a++) {
        const double all = plan_sizes_array_bytes(&r->sizes, &r->plan->arrays[a]);
        if (all > max) max = all;
    }
    text_printf(&r->out, "  %s -> %s [label=\"%s\", penwidth=%.2f];\n", from, to,
                report_bytes_text(r, bytes), 0.7 + 2.3 * (bytes < max ? bytes / max : 1));
}

static void put_array(Report *r, uint32_t a) {
    const Array *array = &r->plan->arrays[a];
    Arena *arena = &r->c->compiler.arena;
    const bool temporary = array->parameter == UINT32_MAX;
    const double bytes = plan_sizes_array_bytes(&r->sizes, array);
    const char *before = arena_printf(arena, "before_%u", a);
    const char *after = arena_printf(arena, "after_%u", a);
    bool any_old = false, any_written = false, carried = false;
    for (size_t k = 0; k < r->kernel_count; k++) {
        bool old, made;
        const bool writes = report_kernel_writes(r, &r->kernels[k], a);
        find_reads(r, &r->kernels[k], a, &old, &made);
        any_old |= old;
        any_written |= writes;
        carried |= made && !writes;
    }
    if (temporary && !carried) return; /* stays within one kernel */
    if (any_old) put_node(r, a, "before", "style=filled, fillcolor=\"#e6f2df\"");
    if (any_written)
        put_node(r, a, "after", temporary ? "style=dashed" : "style=filled, fillcolor=\"#fbf0d2\"");
    for (size_t k = 0; k < r->kernel_count; k++) {
        const char *kernel = arena_printf(arena, "kernel_%zu", k + 1);
        bool old, made;
        const bool writes = report_kernel_writes(r, &r->kernels[k], a);
        find_reads(r, &r->kernels[k], a, &old, &made);
        const double read = plan_array_reads(r->plan, &r->sizes, &r->kernels[k].plan, a, arena);
        if (old) put_edge(r, before, kernel, read);
        if (made && !writes) put_edge(r, after, kernel, read);
        if (writes) put_edge(r, kernel, after, bytes);
    }
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
    text_printf(&r->out,
                " {\n  rankdir=LR; ranksep=0.6; nodesep=0.2;\n"
                "  label=\"%s: %zu launch%s, %s moved",
                r->plan->function->name, r->kernel_count, r->kernel_count == 1 ? "" : "es",
                report_bytes_text(r, r->moved));
    text_printf(&r->out, ", %.2f of the minimum\"; fontname=\"Helvetica\"; fontsize=11;\n",
                r->minimum > 0 ? r->moved / r->minimum : 1.0);
    text_puts(&r->out, "  node [fontname=\"Helvetica\", fontsize=11, height=0.3];\n"
                       "  edge [fontname=\"Helvetica\", fontsize=9, color=\"#666666\"];\n");
    for (size_t k = 0; k < r->kernel_count; k++) put_kernel(r, k);
    /* kernels stand in the order of their launches */
    for (size_t k = 1; k < r->kernel_count; k++)
        text_printf(&r->out, "  kernel_%zu -> kernel_%zu [style=invis];\n", k, k + 1);
    for (uint32_t a = 0; a < r->plan->array_count; a++)
        if (r->plan->arrays[a].axes || r->plan->arrays[a].parameter == UINT32_MAX) put_array(r, a);
    put_scalars(r);
    text_puts(&r->out, "}\n");
}
