/* ahead.c: steps as a C header and a C file that need the runtime only (`lockstep build`).
 *
 * The file holds each step's images as static tables: for GPU targets with the code that the
 * toolchains made of every variant, for "cpu" with the kernels themselves as C. Equal tables are
 * written once. The text depends on the source, the options and the toolchains alone. What image.h
 * and lockstep/ahead.h say is the layout; every initialiser is positional, so that the file is C11
 * and C++ without a warning; zeros at the end of one are left out. */
#include <locale.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <lockstep/compiler.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"
#include "toolchain/toolchain.h"

typedef struct Written { /* written before: its initialiser and its name */
    const char *text, *name;
    struct Written *next;
} Written;

/* Where the code of a variant is: functions of the file, or so many bytes of a packed table. */
typedef struct EmbeddedCode {
    const char *functions, *packed; /* "NULL" where it has none */
    size_t at, size;
} EmbeddedCode;

typedef struct Ahead {
    const AheadInput *input;
    const ls_ahead_options *options;
    Arena *arena;
    Text kernels;   /* of target cpu: what they share with nobody */
    Text tables;    /* the file's */
    Text functions; /* its last part */
    AheadHeader header;
    Written *written;
    EmbeddedCode **codes;      /* for GPUs: by image and variant */
    size_t table_count, total; /* `total`: pieces of code that toolchains make */
} Ahead;

static const char *const role_names[] = {"LS_IN", "LS_INOUT", "LS_OUT"};
static const char *const layout_names[] = {"LS_LAYOUT_DENSE", "LS_LAYOUT_PITCHED",
                                           "LS_LAYOUT_STRIDED"};
static const char *const again_names[] = {"LS_FLOW_ALWAYS", "LS_FLOW_LARGEST", "LS_FLOW_FAR",
                                          "LS_FLOW_ONCE"};
static const char *const term_names[] = {"LS_TERM_NUMBER",   "LS_TERM_AXIS",     "LS_TERM_ADD",
                                         "LS_TERM_SUBTRACT", "LS_TERM_MULTIPLY", "LS_TERM_DIVIDE",
                                         "LS_TERM_REMAINDER"};
static const char *const type_ids[] = {
#define TYPE_ID(id, name, class_, bytes) "LS_" #id,
    LS_TYPE_LIST(TYPE_ID)
#undef TYPE_ID
};
static void quote(Text *out, const char *text) {
    if (!text) {
        text_puts(out, "NULL");
        return;
    }
    text_puts(out, "\"");
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            text_printf(out, "\\%c", c);
        else if (c < ' ' || c >= 127 || c == '?') /* no trigraphs */
            text_printf(out, "\\%03o", c);
        else
            text_add(out, text, 1);
    }
    text_puts(out, "\"");
}

/* A static array of `type`, or an earlier one that is equal; "NULL" of no entries. `kind` is what
 * its name says. */
static const char *table(Ahead *a, const char *type, const char *kind, const char *entries) {
    if (!*entries) return "NULL";
    const char *text = arena_printf(a->arena, "static const %s %%s[] = {\n%s};\n", type, entries);
    for (const Written *t = a->written; t; t = t->next)
        if (strcmp(t->text, text) == 0) return t->name;
    Written *made = arena_alloc(a->arena, sizeof *made);
    *made = (Written){text, arena_printf(a->arena, "%s_%zu", kind, ++a->table_count), a->written};
    a->written = made;
    text_printf(&a->tables, "static const %s %s[] = {\n%s};\n", type, made->name, entries);
    return made->name;
}

/* ---- the entries of image.h's tables ---- */

/* Without the zeros at its end. */
static void add_extent(Text *out, const ls_image_extent *extent) {
    text_printf(out, extent->scale > INT64_MAX ? "{%lluu" : "{%llu",
                (unsigned long long)extent->scale);
    if (extent->factor_count || extent->list) {
        text_printf(out, ", %u, {", extent->factor_count);
        for (size_t i = 0; i < extent->factor_count; i++) {
            const ls_image_factor *factor = &extent->factor[i];
            text_printf(out, "%s{%u, %u, %llu", i ? ", " : "", factor->axes, factor->minimum,
                        (unsigned long long)factor->divide);
            if (factor->within) text_printf(out, ", %u", factor->within);
            text_puts(out, "}");
        }
        if (!extent->factor_count) text_puts(out, "{0}");
        text_puts(out, "}");
        if (extent->list) text_printf(out, ", %u", extent->list);
    }
    text_puts(out, "}");
}

static const char *extents(Ahead *a, const ls_image_extent *extent, size_t count) {
    Text text = text_open(a->arena);
    for (size_t i = 0; i < count; i++) {
        text_puts(&text, "    ");
        add_extent(&text, &extent[i]);
        text_puts(&text, ",\n");
    }
    return table(a, "ls_image_extent", "extents", text.data);
}

static const char *axes(Ahead *a, const ls_image *image) {
    Text text = text_open(a->arena);
    for (size_t i = 0; i < image->axis_count; i++) {
        const ls_image_axis *axis = &image->axes[i];
        Text terms = text_open(a->arena);
        for (size_t k = 0; k < axis->term_count; k++)
            text_printf(&terms, "    {%s, %lld},\n", term_names[axis->terms[k].operation],
                        (long long)axis->terms[k].value);
        const char *name = table(a, "ls_image_term", "terms", terms.data);
        text_puts(&text, "    {");
        quote(&text, axis->name);
        text_printf(&text, ", %lld, %u, %u, %lld, %s, %u},\n", (long long)axis->fixed, axis->parent,
                    axis->whole, (long long)axis->length, name, axis->term_count);
    }
    return table(a, "ls_image_axis", "axes", text.data);
}

static const char *parameters(Ahead *a, const ls_image *image) {
    Text text = text_open(a->arena);
    for (size_t i = 0; i < image->parameter_count; i++) {
        const ls_image_parameter *p = &image->parameters[i];
        Text numbers = text_open(a->arena);
        for (size_t k = 0; k < p->rank; k++) text_printf(&numbers, "    %u,\n", p->axes[k]);
        const char *list = table(a, "uint8_t", "numbers", numbers.data);
        text_puts(&text, "    {");
        quote(&text, p->name);
        text_printf(&text, ", %s, %s, %u, %s, %u, 0x%llxu, %u, %u},\n", role_names[p->role],
                    type_ids[p->type], p->rank, list, p->has_default,
                    (unsigned long long)p->initial, p->line, p->optional);
    }
    return table(a, "ls_image_parameter", "parameters", text.data);
}

static const char *temporaries(Ahead *a, const ls_image_variant *variant) {
    Text text = text_open(a->arena);
    for (size_t i = 0; i < variant->temporary_count; i++) {
        const ls_image_temporary *t = &variant->temporaries[i];
        text_puts(&text, "    {");
        quote(&text, t->name);
        text_puts(&text, ", ");
        add_extent(&text, &t->bytes);
        text_printf(&text, ", %u, %u, %u, %u},\n", t->zeroed, t->pointers, t->per_block, t->share);
    }
    return table(a, "ls_image_temporary", "temporaries", text.data);
}

static const char *work_tables(Ahead *a, const ls_image_variant *variant) {
    Text text = text_open(a->arena);
    for (size_t i = 0; i < variant->table_count; i++) {
        text_puts(&text, "    {");
        add_extent(&text, &variant->tables[i].items);
        text_puts(&text, "},\n");
    }
    return table(a, "ls_image_table", "items", text.data);
}

static const char *conditions(Ahead *a, const ls_image_variant *variant) {
    Text text = text_open(a->arena);
    for (size_t i = 0; i < variant->condition_count; i++) {
        const ls_image_condition *condition = &variant->conditions[i];
        text_puts(&text, "    {");
        add_extent(&text, &condition->extent);
        text_printf(&text, ", %u, %lluu, %lluu, %u},\n", condition->largest,
                    (unsigned long long)condition->at_least, (unsigned long long)condition->at_most,
                    condition->required);
    }
    return table(a, "ls_image_condition", "conditions", text.data);
}

static const char *kernels(Ahead *a, const ls_image_variant *variant) {
    Text text = text_open(a->arena);
    for (size_t i = 0; i < variant->kernel_count; i++) {
        const ls_image_kernel *k = &variant->kernels[i];
        const char *phases = extents(a, k->phases, k->phase_count);
        text_puts(&text, "    {");
        quote(&text, k->name);
        text_puts(&text, ", ");
        add_extent(&text, &k->items);
        text_printf(&text, ", %u, %u, %u, %u, %lluu, %u, %u, %s, ", k->items_per_block, k->threads,
                    k->blocks_per_multiprocessor, k->one_block, (unsigned long long)k->item_cost,
                    k->cooperative, k->phase_count, phases);
        add_extent(&text, &k->tiles);
        text_puts(&text, "},\n");
    }
    return table(a, "ls_image_kernel", "kernels", text.data);
}

static const char *flows(Ahead *a, const ls_image_traffic *traffic) {
    Text text = text_open(a->arena);
    for (size_t i = 0; i < traffic->flow_count; i++) {
        const ls_image_flow *flow = &traffic->flows[i];
        const char *bytes = extents(a, flow->bytes, flow->count);
        text_printf(&text, "    {%u, %u, %s, %u, %s, ", flow->array, flow->written,
                    again_names[flow->again], flow->count, bytes);
        add_extent(&text, &flow->most);
        text_puts(&text, ", ");
        add_extent(&text, &flow->above);
        text_puts(&text, "},\n");
    }
    return table(a, "ls_image_flow", "flows", text.data);
}

static const char *traffics(Ahead *a, const ls_image_variant *variant) {
    Text text = text_open(a->arena);
    for (size_t i = 0; variant->traffic && i < variant->kernel_count; i++) {
        const ls_image_traffic *traffic = &variant->traffic[i];
        Text rows = text_open(a->arena);
        for (size_t k = 0; k < traffic->row_count; k++) {
            text_puts(&rows, "    {");
            add_extent(&rows, &traffic->rows[k].bytes);
            text_puts(&rows, ", ");
            add_extent(&rows, &traffic->rows[k].rows);
            text_printf(&rows, ", %u},\n", traffic->rows[k].at_once);
        }
        const char *flow_name = flows(a, traffic);
        const char *row_name = table(a, "ls_image_row", "rows", rows.data);
        text_printf(&text, "    {%u, %u, %s, %s, %lluu},\n", traffic->flow_count,
                    traffic->row_count, flow_name, row_name, (unsigned long long)traffic->near);
    }
    return table(a, "ls_image_traffic", "traffic", text.data);
}

/* ---- code ---- */

static void report(void *user, size_t done) {
    Ahead *a = user;
    const ls_ahead_options *options = a->options;
    if (options->progress) options->progress(options->user, done, a->total, "kernels");
}

static bool is_wanted(const AheadImage *of, size_t variant) {
    return of->image || of->made->image->variants[variant].layout <= of->last;
}

/* The code of all variants for GPUs, side by side; that for CPUs is text. */
static void make_codes(Ahead *a) {
    const size_t count = a->input->image_count;
    CodeRequest *requests = NULL;
    size_t capacity = 0;
    for (size_t i = 0; i < count; i++) {
        Made *made = a->input->images[i].made;
        const uint32_t variant_count = a->input->images[i].variant_count;
        for (uint32_t v = 0; v < variant_count && !a->input->images[i].image; v++) {
            if (!is_wanted(&a->input->images[i], v) || made->image->variants[v].kernel_count == 0)
                continue;
            requests = arena_grow(a->arena, requests, a->total, &capacity, sizeof *requests);
            requests[a->total++] = (CodeRequest){made, v};
        }
    }
    report(a, 0);
    code_make_all(requests, a->total, a->input->no_cache, report, a);
}

static const Code *gpu_code(Ahead *a, Made *made, size_t variant) {
    char message[4096];
    ls_status status = code_get(made, variant, a->input->no_cache, message, sizeof message);
    if (status != LS_OK) compiler_fail(a->input->compiler, status, "%s", message);
    return &made->code[variant];
}

/* Writes packed code as a table, in lines within pieces that every C compiler takes. */
static const char *packed_table(Ahead *a, const Text *code) {
    enum { LINE = 1000, LINES = 4 };
    const Text digits = compress_code(a->arena, code);
    Text text = text_open(a->arena);
    for (size_t at = 0, line = 1; at < digits.size; at += LINE, line++) {
        const size_t left = digits.size - at;
        text_puts(&text, "\"");
        text_add(&text, digits.data + at, left < LINE ? left : LINE);
        text_puts(&text, left <= LINE || line % LINES == 0 ? "\",\n" : "\"\n");
    }
    text_puts(&text, "    NULL,\n");
    const char *pieces = table(a, "char *const", "codes", text.data);
    return table(a, "ls_image_packed", "packed", arena_printf(a->arena, "    {%s},\n", pieces));
}

/* Packs what is waiting; the places that it was to have get the table's name. */
static void pack_waiting(Ahead *a, Text *waiting, EmbeddedCode **codes, size_t count) {
    if (!waiting->size) return;
    const char *name = packed_table(a, waiting);
    for (size_t i = 0; i < count; i++) codes[i]->packed = name;
    *waiting = text_open(a->arena);
}

/* The code for GPUs, target by target, in tables of no more than what is unpacked in milliseconds.
 */
static void pack_codes(Ahead *a) {
    enum { TABLE_MAX = 4 << 20, ALIGNMENT = 16 };
    const size_t targets = a->options->target_count, count = a->input->image_count;
    EmbeddedCode **waiting = arena_alloc(a->arena, (a->total + 1) * sizeof *waiting);
    size_t waiting_count = 0;
    Text text = text_open(a->arena);
    a->codes = arena_alloc(a->arena, (count + 1) * sizeof *a->codes);
    for (size_t t = 0; t < targets; t++)
        for (size_t i = 0; i < count; i++) {
            Made *made = a->input->images[i].made;
            if (strcmp(made->image->target, a->options->targets[t]) != 0) continue;
            const uint32_t variant_count = a->input->images[i].variant_count;
            if (a->input->images[i].image) continue;
            a->codes[i] = arena_alloc(a->arena, variant_count * sizeof *a->codes[i]);
            for (uint32_t v = 0; v < variant_count; v++) {
                a->codes[i][v] = (EmbeddedCode){.functions = "NULL", .packed = "NULL"};
                if (!is_wanted(&a->input->images[i], v) ||
                    made->image->variants[v].kernel_count == 0)
                    continue;
                const Code *code = gpu_code(a, made, v);
                if (text.size && text.size + code->size > TABLE_MAX) {
                    pack_waiting(a, &text, waiting, waiting_count);
                    waiting_count = 0;
                }
                a->codes[i][v] =
                    (EmbeddedCode){.functions = "NULL", .at = text.size, .size = code->size};
                waiting[waiting_count++] = &a->codes[i][v];
                text_add(&text, code->data, code->size);
                while (text.size % ALIGNMENT) text_add(&text, "", 1);
            }
        }
    pack_waiting(a, &text, waiting, waiting_count);
}

static EmbeddedCode cpu_code(Ahead *a, const ls_image_variant *variant) {
    text_printf(&a->kernels, "\n%s", variant->source);
    Text text = text_open(a->arena);
    for (size_t k = 0; k < variant->kernel_count; k++)
        text_printf(&text, "    %s,\n", variant->kernels[k].name);
    return (EmbeddedCode){.functions = table(a, "ls_ahead_kernel", "functions", text.data),
                          .packed = "NULL"};
}

static const char *strips(Ahead *a, const ls_image_variant *variant) {
    const ls_image_strips *row = variant->strips;
    if (!row) return "";
    const char *bytes = extents(a, row->bytes, row->array_count);
    Text text = text_open(a->arena);
    text_printf(&text, "    {%u, %u, %u, %lluu, %u, %s},\n", row->axis, row->begin, row->all,
                (unsigned long long)row->work, row->array_count, bytes);
    return arena_printf(a->arena, ", %s", table(a, "ls_image_strips", "strips", text.data));
}

static const char *variants(Ahead *a, const AheadImage *of, uint32_t *count) {
    const ls_image *image = of->image ? of->image : of->made->image;
    Text text = text_open(a->arena);
    *count = 0;
    for (size_t v = 0; v < of->variant_count; v++) {
        if (!is_wanted(of, v)) continue;
        *count += 1;
        const ls_image_variant *variant = &image->variants[v];
        const EmbeddedCode code =
            of->image ? cpu_code(a, variant) : a->codes[of - a->input->images][v];
        const char *work = extents(a, variant->work, variant->work_count);
        const char *temporary = temporaries(a, variant), *kernel = kernels(a, variant);
        const char *items = work_tables(a, variant), *condition = conditions(a, variant);
        const char *traffic = traffics(a, variant);
        text_puts(&text, "    {");
        quote(&text, variant->name);
        text_printf(
            &text,
            ", %s, %u, %s, %lluu, %lluu, %u, %s, %u, %s,\n     NULL, NULL, %zuu, %s, %u, %s, "
            "%u, %s, %s, 0, %s, %zuu, %u, 0%s},\n",
            layout_names[variant->layout], variant->work_count, work,
            (unsigned long long)variant->work_limit, (unsigned long long)variant->one_block_limit,
            variant->temporary_count, temporary, variant->kernel_count, kernel, code.size,
            code.functions, variant->table_count, items, variant->condition_count, condition,
            traffic, code.packed, code.at, variant->iterates, strips(a, variant));
    }
    return table(a, "ls_image_variant", "variants", text.data);
}

static const char *loops(Ahead *a, const ls_image *image) {
    Text text = text_open(a->arena);
    for (uint32_t i = 0; i < image->loop_count; i++)
        text_printf(&text, "    {%u, %u, %u, %u},\n", image->loops[i].axis, image->loops[i].place,
                    image->loops[i].reverse, image->loops[i].outer);
    return table(a, "ls_image_loop", "loops", text.data);
}

static const char *image_of(Ahead *a, const AheadImage *of);

/* The images of the parts, and how the step has them. */
static const char *parts(Ahead *a, const AheadImage *of) {
    const ls_image *image = of->made->image;
    Text text = text_open(a->arena);
    for (uint32_t i = 0; i < image->part_count; i++) {
        const ls_image_part *part = &image->parts[i];
        Text views = text_open(a->arena);
        for (uint32_t p = 0; p < part->image->parameter_count; p++)
            text_printf(&views, "    {%u, %u},\n", part->views[p].array, part->views[p].fixed);
        const char *view = table(a, "ls_image_view", "views", views.data);
        text_printf(&text, "    {&%s, %s, %u, %u},\n", image_of(a, &of->parts[i]), view, part->loop,
                    part->empty);
    }
    return table(a, "ls_image_part", "parts", text.data);
}

/* The file's part of one target; gives the name of its image. */
static const char *image_of(Ahead *a, const AheadImage *of) {
    const ls_image *image = of->image ? of->image : of->made->image;
    const char *part = parts(a, of), *loop = loops(a, image);
    const char *axis = axes(a, image), *parameter = parameters(a, image);
    uint32_t variant_count;
    const char *variant = variants(a, of, &variant_count);
    const char *name =
        arena_printf(a->arena, "%s_%s_image", ahead_symbol(&a->header, image), image->target);
    text_printf(&a->tables, "static const ls_image %s = {\n    LS_IMAGE_VERSION, ", name);
    quote(&a->tables, image->step);
    text_puts(&a->tables, ", ");
    quote(&a->tables, image->target);
    text_puts(&a->tables, ", ");
    quote(&a->tables, image->source_file);
    text_printf(&a->tables, ",\n    0x%llxu, ", (unsigned long long)image->numeric_version);
    quote(&a->tables, image->math);
    text_printf(&a->tables, ", %u, %s, %u, %s, %u, %s, %u, %u, 0, NULL", image->axis_count, axis,
                image->parameter_count, parameter, variant_count, variant, image->draws,
                image->line);
    if (image->part_count)
        text_printf(&a->tables, ", %u, %u, %s, %s", image->part_count, image->loop_count, part,
                    loop);
    text_puts(&a->tables, "};\n");
    return name;
}

static void offsets(Ahead *a, const ls_image *image) {
    Text *out = &a->functions;
    const char *step = ahead_symbol(&a->header, image);
    text_printf(out, "\nstatic const uint32_t %s_axes[] = {\n", step);
    for (size_t i = 0; i < image->axis_count; i++)
        if (ahead_has_length(image, i))
            text_printf(out, "    (uint32_t)offsetof(struct %s_args, %s),\n", step,
                        names_c_member(a->arena, image->axes[i].name));
        else
            text_puts(out, "    LS_NO_FIELD,\n");
    text_printf(out, "    LS_NO_FIELD};\nstatic const uint32_t %s_parameters[] = {\n", step);
    for (size_t i = 0; i < image->parameter_count; i++)
        text_printf(out, "    %s(uint32_t)offsetof(struct %s_args, %s),\n",
                    ahead_is_value(&a->header, &image->parameters[i]) ? "LS_FIELD_VALUE | " : "",
                    step, names_c_member(a->arena, image->parameters[i].name));
    if (ahead_has_defaults(&a->header, image))
        text_printf(out, "    (uint32_t)offsetof(struct %s_args, defaults_)", step);
    else
        text_puts(out, "    LS_NO_FIELD");
    text_printf(out,
                "};\nstatic const ls_ahead_fields %s_fields = {%u, \"%s\", %s_axes, "
                "%s_parameters};\n",
                step, (unsigned)LS_IMAGE_VERSION, image->step, step, step);
}

static void functions(Ahead *a, const ls_image *image, const char *const *images, size_t count) {
    Text *out = &a->functions;
    const char *step = ahead_symbol(&a->header, image);
    offsets(a, image);
    text_printf(out, "static const ls_image *const %s_images[] = {\n", step);
    for (size_t i = 0; i < count; i++) text_printf(out, "    &%s,\n", images[i]);
    text_printf(
        out,
        "};\n\n"
        "ls_status %s_bind(ls_context *context, const struct %s_args *args, ls_step **step) {\n"
        "    return ls_ahead_bind(context, %s_images, %zu, &%s_fields, args, step);\n}\n\n"
        "ls_status %s_launch(ls_context *context, const struct %s_args *args) {\n"
        "    return ls_ahead_launch(context, %s_images, %zu, &%s_fields, args);\n}\n",
        step, step, step, count, step, step, step, step, count, step);
}

/* ---- the files ---- */

/* Kernels are made of pieces, some of whose names one kernel or another has no use for. */
static void quiet(Text *out) {
    static const char *const warnings[] = {"unused-variable", "unused-parameter", "unused-function",
                                           "unused-but-set-variable", "missing-field-initializers"};
    text_puts(out, "\n#if defined(__GNUC__)\n");
    for (size_t i = 0; i < COUNT(warnings); i++)
        text_printf(out, "#pragma GCC diagnostic ignored \"-W%s\"\n", warnings[i]);
    text_puts(out, "#ifndef __clang__\n#pragma GCC diagnostic ignored \"-Wmaybe-uninitialized\"\n"
                   "#endif\n#endif\n\n");
}

/* The functions that the code uses. The backslashes that continue a macro's lines, which are in one
 * column there, follow the text: a third of the library is blanks. */
static void add_library(Ahead *a, Text *out, const Target *target, const char *code) {
    Text library = text_open(a->arena);
    library_add_used(a->input->compiler, &library, target, code);
    for (const char *at = library.data; *at; at++) {
        const size_t blanks = strspn(at, " ");
        if (blanks > 1 && strncmp(at + blanks, "\\\n", 2) == 0) at += blanks - 1;
        text_add(out, at, 1);
    }
}

static const char *source_text(Ahead *a, const Target *target) {
    Text code = text_open(a->arena), text = text_open(a->arena);
    text_printf(
        &text,
        "/* Written by Lockstep %s; do not change. Belongs to %s.h and is compiled as C or C++\n"
        " * with the runtime's headers",
        compiler_version(), a->options->name);
    if (target)
        text_puts(&text, "; best with -O3 -march=native -fno-math-errno -fno-trapping-math,\n"
                         " * which change the speed of target cpu and no bit of its results");
    text_printf(&text, ". */\n#include \"%s.h\"\n\n#include <stddef.h>\n", a->options->name);
    quiet(&text);
    if (target) {
        text_puts(&code, a->input->shared[0].data);
        text_puts(&code, a->input->shared[1].data);
        text_puts(&code, a->kernels.data);
        text_puts(&text, embedded_text(target->prelude));
        text_puts(&text, "#undef LS_KERNEL\n#define LS_KERNEL static void\n\n");
        add_library(a, &text, target, code.data);
        text_add(&text, code.data, code.size);
        text_puts(&text, "\ntypedef void (*ls_ahead_kernel)(const void *, uint64_t, uint64_t, "
                         "uint32_t, uint32_t);\n");
    }
    text_puts(&text, "\n");
    text_add(&text, a->tables.data, a->tables.size);
    text_add(&text, a->functions.data, a->functions.size);
    return text.data;
}

const char *ahead_text(const AheadInput *input, const char **header) {
    Arena *arena = &input->compiler->arena;
    const ls_ahead_options *options = input->options;
    const size_t targets = options->target_count;
    Ahead a = {.input = input,
               .options = options,
               .arena = arena,
               .kernels = text_open(arena),
               .tables = text_open(arena),
               .functions = text_open(arena),
               .header = {arena, options, text_open(arena)}};
    const Target *text = NULL; /* whose kernels go into the file as C */
    ahead_header_open(&a.header);
    make_codes(&a);
    pack_codes(&a);
    for (size_t i = 0; i < input->image_count; i++)
        if (input->images[i].image) text = input->images[i].target;
    for (size_t i = 0; i < options->step_count; i++) {
        const char **names = arena_alloc(arena, targets * sizeof *names);
        for (size_t t = 0; t < targets; t++) {
            const AheadImage *of = &input->images[i * targets + t];
            names[t] = image_of(&a, of);
        }
        const ls_image *image = input->images[i * targets].made->image;
        ahead_header_step(&a.header, image);
        functions(&a, image, names, targets);
    }
    *header = ahead_header_close(&a.header);
    return source_text(&a, text);
}
