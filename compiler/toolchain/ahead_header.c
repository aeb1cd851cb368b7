/* ahead_header.c: the header of a step built ahead of time: the structure of arguments, the macro
 * of its defaults, and the functions' declarations. */
#include <math.h>
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

/* What a C program sees of an element; narrow floats are their bits. */
static const char *const c_types[LS_TYPE_COUNT] = {
    [LS_F64] = "double",    [LS_F32] = "float",    [LS_I64] = "int64_t",  [LS_I32] = "int32_t",
    [LS_U64] = "uint64_t",  [LS_U32] = "uint32_t", [LS_BOOL] = "uint8_t", [LS_F16] = "uint16_t",
    [LS_BF16] = "uint16_t", [LS_E4M3] = "uint8_t", [LS_E5M2] = "uint8_t", [LS_I16] = "int16_t",
    [LS_I8] = "int8_t",     [LS_U16] = "uint16_t", [LS_U8] = "uint8_t"};

/* What the names of a step's functions and of its structure begin with. */
const char *ahead_symbol(const AheadHeader *a, const ls_image *image) {
    const char *prefix = a->options->prefix ? a->options->prefix : "";
    return names_c_step(a->arena, arena_printf(a->arena, "%s%s", prefix, image->step));
}

/* As the runtime tells them apart. */
static int list_of(const ls_image *image, size_t axis) {
    size_t root = axis;
    for (uint32_t i = 0; i < image->axis_count && image->axes[root].parent; i++)
        root = image->axes[root].parent - 1;
    return root == axis || image->axes[root].whole ? -1 : (int)root;
}

bool ahead_has_length(const ls_image *image, size_t axis) {
    return !image->axes[axis].whole && image->axes[axis].fixed < 0;
}

static bool is_list(const ls_image *image, const ls_image_parameter *parameter) {
    for (uint32_t i = 0; i < parameter->rank; i++)
        if (list_of(image, parameter->axes[i]) >= 0) return true;
    return false;
}

static void declaration(Text *out, const ls_image *image, const ls_image_parameter *p) {
    static const char *const roles[] = {"", "inout ", "out "};
    static const char *const types[] = {
#define TYPE_NAME(id, name, class_, bytes) name,
        LS_TYPE_LIST(TYPE_NAME)
#undef TYPE_NAME
    };
    text_printf(out, "%s%s", roles[p->role], types[p->type]);
    for (uint32_t i = 0; i < p->rank; i++)
        text_printf(out, "%s%s", i ? ", " : "[", image->axes[p->axes[i]].name);
    if (p->rank) text_puts(out, "]");
}

/* What arrays over the blocks of an axis have to be long. */
static void blocks(Text *out, const ls_image *image, size_t whole) {
    for (uint32_t i = 0; i < image->axis_count; i++) {
        const ls_image_axis *rest = &image->axes[i];
        if (rest->whole != whole + 1 || !rest->parent || !image->axes[rest->parent - 1].whole)
            continue;
        text_printf(out, ", in %s blocks of %s = %lld, of which the last may be short",
                    image->axes[rest->parent - 1].name, rest->name, (long long)rest->length);
    }
}

/* Whether the structure holds the value of a rank-0 parameter, and no pointer to it. */
bool ahead_is_value(const AheadHeader *a, const ls_image_parameter *p) {
    return a->options->values && p->rank == 0 && p->role == LS_IN;
}

bool ahead_has_defaults(const AheadHeader *a, const ls_image *image) {
    for (size_t i = 0; i < image->parameter_count; i++)
        if (image->parameters[i].has_default && ahead_is_value(a, &image->parameters[i]))
            return true;
    return false;
}

/* A rank-0 value's bits as C says them. */
static void literal(Text *out, ls_type type, uint64_t bits) {
    float narrow;
    double wide;
    memcpy(&narrow, &bits, sizeof narrow);
    memcpy(&wide, &bits, sizeof wide);
    if ((type == LS_F32 && !isfinite(narrow)) || (type == LS_F64 && !isfinite(wide))) {
        const double value = type == LS_F32 ? (double)narrow : wide;
        text_puts(out, isnan(value) ? "NAN" : value > 0 ? "INFINITY" : "-INFINITY");
    } else if (type == LS_F32) {
        text_printf(out,
                    strpbrk(arena_printf(out->arena, "%.9g", (double)narrow), ".e") ? "%.9gf"
                                                                                    : "%.9g.0f",
                    (double)narrow);
    } else if (type == LS_F64) {
        text_printf(out, "%.17g", wide);
    } else if (type == LS_I64) {
        text_printf(out, (int64_t)bits == INT64_MIN ? "INT64_MIN" : "%lld", (long long)bits);
    } else if (type == LS_I32) {
        text_printf(out, "%d", (int32_t)bits);
    } else {
        text_printf(out, "%lluu", (unsigned long long)bits);
    }
}

/* Of a structure that holds values: those of the parameters that have one in the source. */
static void defaults(AheadHeader *a, const ls_image *image) {
    Text *out = &a->text;
    if (!ahead_has_defaults(a, image)) return;
    text_printf(out,
                "/* Begins the initialiser: struct %s_args args = {%s_defaults, ...}. */\n"
                "#define %s_defaults \\\n",
                ahead_symbol(a, image), ahead_symbol(a, image), ahead_symbol(a, image));
    for (size_t i = 0; i < image->parameter_count; i++) {
        const ls_image_parameter *p = &image->parameters[i];
        if (!p->has_default || !ahead_is_value(a, p)) continue;
        text_printf(out, "    .%s = ", names_c_member(a->arena, p->name));
        literal(out, p->type, p->initial);
        text_puts(out, ", \\\n");
    }
    text_puts(out, "    .defaults_ = 1\n");
}

void ahead_header_step(AheadHeader *a, const ls_image *image) {
    Text *out = &a->text;
    const char *step = ahead_symbol(a, image);
    text_printf(out, "\n/* %s:%u: what step %s works on. */\nstruct %s_args {\n",
                image->source_file ? image->source_file : "", image->line, image->step, step);
    for (size_t i = 0; i < image->axis_count; i++) {
        if (!ahead_has_length(image, i)) continue;
        const int list = list_of(image, i);
        text_printf(out,
                    list < 0 ? "    int64_t %s; /* length" : "    const int64_t *%s; /* length",
                    names_c_member(a->arena, image->axes[i].name));
        if (list >= 0) text_printf(out, " in each of the %s tensors", image->axes[list].name);
        blocks(out, image, i);
        text_puts(out, " */\n");
    }
    for (size_t i = 0; i < image->parameter_count; i++) {
        const ls_image_parameter *p = &image->parameters[i];
        if (ahead_is_value(a, p))
            text_printf(out, "    %s %s; /* ", c_types[p->type], names_c_member(a->arena, p->name));
        else
            text_printf(out, "    %s%s *%s%s; /* ", p->role == LS_IN ? "const " : "",
                        c_types[p->type], is_list(image, p) ? "const *" : "",
                        names_c_member(a->arena, p->name));
        declaration(out, image, p);
        if (p->has_default) text_puts(out, ", has a default");
        if (ahead_is_value(a, p)) text_puts(out, ", the value");
        text_puts(out, " */\n");
    }
    if (ahead_has_defaults(a, image))
        text_printf(out, "    int defaults_; /* set by %s_defaults */\n", step);
    if (!image->axis_count && !image->parameter_count) text_puts(out, "    int nothing;\n");
    text_puts(out, "};\n");
    defaults(a, image);
    text_printf(
        out,
        "ls_status %s_bind(ls_context *context, const struct %s_args *args, ls_step **step);\n"
        "ls_status %s_launch(ls_context *context, const struct %s_args *args);\n",
        step, step, step, step);
}

static const char *guard_of(AheadHeader *a) {
    char *guard = arena_printf(a->arena, "%s_STEP_H", a->options->name);
    for (char *at = guard; *at; at++) {
        if (*at >= 'a' && *at <= 'z') *at = (char)(*at - 'a' + 'A');
        const bool word = (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9');
        if (!word) *at = '_';
    }
    return *guard >= '0' && *guard <= '9' ? arena_printf(a->arena, "LS_%s", guard) : guard;
}

void ahead_header_open(AheadHeader *a) {
    const char *guard = guard_of(a);
    text_printf(&a->text, "/* Written by Lockstep %s; do not change. Built ahead of time for",
                compiler_version());
    for (size_t i = 0; i < a->options->target_count; i++)
        text_printf(&a->text, "%s %s", i ? "," : "", a->options->targets[i]);
    text_printf(
        &a->text,
        ".\n *\n"
        " * STEP_bind gives a step bound to what the structure holds, ready for ls_step_launch "
        "and\n"
        " * graphs; STEP_launch binds, launches and lets go. Both are queued on the context's\n"
        " * stream. Pointers are to memory of the context's device; of a list of tensors, a host\n"
        " * array of them, read during the call. NULL: a cell, or an output, of the step's own "
        "(see\n"
        " * ls_step_set, ls_step_want). A length that is meant to be 0 is LS_EMPTY. bf16, f16 and\n"
        " * 8-bit floats are their bits. Arrays are\n"
        " * contiguous, last axis fastest; %s. Names\n"
        " * that C, C++ or the library have for themselves, and those that end in _, have _ behind "
        "them.\n"
        " *\n"
        " * What a step's own cell holds, such as a count of the steps taken, goes with it: for\n"
        " * STEP_launch, give those that must last memory. */\n"
        "#ifndef %s\n#define %s\n\n%s#include <lockstep/ahead.h>\n\n"
        "#ifdef __cplusplus\nextern \"C\" {\n#endif\n",
        a->options->contiguous ? "built with --contiguous, the steps refuse others"
                               : "for others, bind again with ls_step_bind",
        guard, guard, a->options->values ? "#include <math.h>\n\n" : "");
}

const char *ahead_header_close(AheadHeader *a) {
    text_puts(&a->text, "\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
    return a->text.data;
}
