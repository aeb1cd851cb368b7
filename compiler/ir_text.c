/* ir_text.c: the IR as text, and back.
 *
 *   step linreg                          math lite follows where the step says so
 *   axis k = 64                          or `axis b`: bound at run time
 *   inout lr: f32[k] = 0.5               role, storage type, axes, default
 *   %1 = parameter lr : f32[k]
 *   %2 = sum[k] %1 : f32 as total        a reduction names its axes; `as` gives the source's name
 *   store lr = %2 when %9
 *
 * One value a line, operands first; `#` begins a comment. What is printed reads back as the same
 * function (ranges and the numbers of marks apart). A label is any word after `%`; printing numbers
 * them. */
#include "compiler.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const role_names[] = {[LS_IN] = "in", [LS_INOUT] = "inout", [LS_OUT] = "out"};
static const char *const math_names[] = {[LS_MATH_SOURCE] = "source",
                                         [LS_MATH_EXACT] = "exact",
                                         [LS_MATH_LITE] = "lite",
                                         [LS_MATH_FAST] = "fast"};

/* ---- printing ---- */

static void print_axes(const Function *f, AxisSet axes, Text *out) {
    const char *separator = "";
    text_puts(out, "[");
    for (uint32_t a = 0; a < f->axis_count; a++) {
        if (!(axes >> a & 1)) continue;
        text_printf(out, "%s%s", separator, f->axes[a].name);
        separator = ", ";
    }
    text_puts(out, "]");
}

/* The shortest decimal that reads back as the same bits. */
static void print_number(Type type, uint64_t bits, Text *out) {
    double number = 0;
    float narrow = 0;
    if (type == TYPE_F64) {
        memcpy(&number, &bits, sizeof number);
    } else if (type == TYPE_F32) {
        uint32_t low = (uint32_t)bits;
        memcpy(&narrow, &low, sizeof narrow);
        number = (double)narrow;
    } else if (type == TYPE_BOOL) {
        text_puts(out, bits ? "true" : "false");
        return;
    } else if (type == TYPE_I64) {
        text_printf(out, "%" PRId64, (int64_t)bits);
        return;
    } else if (type == TYPE_I32) {
        text_printf(out, "%" PRId32, (int32_t)(uint32_t)bits);
        return;
    } else if (type == TYPE_U64 || type == TYPE_U32) {
        text_printf(out, "%" PRIu64, bits);
        return;
    } else {
        text_printf(out, "bits 0x%" PRIx64, bits);
        return;
    }
    if (isnan(number)) {
        text_puts(out, "nan");
        return;
    }
    char digits[40];
    if (fabs(number) < 1e9 && trunc(number) == number) { /* 10, not 1e+01 */
        text_printf(out, "%.0f", number);
        return;
    }
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, number);
        bool same =
            type == TYPE_F32 ? strtof(digits, NULL) == narrow : strtod(digits, NULL) == number;
        if (same) break;
    }
    text_puts(out, digits);
}

static void print_header(const Function *f, Text *out) {
    text_printf(out, "step %s", f->name);
    if (f->math != LS_MATH_EXACT) text_printf(out, " math %s", math_names[f->math]);
    text_puts(out, "\n");
    for (size_t a = 0; a < f->axis_count; a++) {
        text_printf(out, "axis %s", f->axes[a].name);
        if (f->axes[a].fixed >= 0) text_printf(out, " = %" PRId64, f->axes[a].fixed);
        text_puts(out, "\n");
    }
    for (size_t i = 0; i < f->parameter_count; i++) {
        const Parameter *p = &f->parameters[i];
        text_printf(out, "%s %s: %s", role_names[p->role], p->name, type_info[p->type].name);
        if (p->axes) print_axes(f, p->axes, out);
        if (p->has_default) {
            text_puts(out, " = ");
            print_number(p->type, p->initial, out);
        }
        text_puts(out, "\n");
    }
}

static void print_value(const Function *f, ValueId id, Text *out) {
    const Value *v = &f->values[id];
    Op op = (Op)v->op;
    text_printf(out, "%%%" PRIu32 " = %s", id, op_info[op].name);
    if (op_info[op].flags & OP_REDUCTION) print_axes(f, (AxisSet)v->payload, out);
    if (op == OP_CONST) {
        text_puts(out, " ");
        print_number((Type)v->type, v->payload, out);
    }
    if (op == OP_PARAMETER) text_printf(out, " %s", f->parameters[v->payload].name);
    if (op == OP_SIZE || op == OP_INDEX) text_printf(out, " %s", f->axes[v->payload].name);
    if (op == OP_ROUND_TO) text_printf(out, " %s", type_info[v->payload].name);
    for (int i = 0; i < 3; i++)
        if (v->arg[i]) text_printf(out, " %%%" PRIu32, v->arg[i]);
    text_printf(out, " : %s", type_info[v->type].name);
    if (v->axes) print_axes(f, v->axes, out);
    if (v->name && op != OP_PARAMETER) text_printf(out, " as %s", v->name);
    text_puts(out, "\n");
}

void ir_print(const Function *f, Text *out) {
    print_header(f, out);
    for (ValueId id = 1; id < f->value_count; id++) print_value(f, id, out);
    for (size_t i = 0; i < f->store_count; i++) {
        const Store *s = &f->stores[i];
        text_printf(out, "store %s = %%%" PRIu32, f->parameters[s->parameter].name, s->value);
        if (s->guard) text_printf(out, " when %%%" PRIu32, s->guard);
        text_puts(out, "\n");
    }
}

/* ---- reading ---- */

typedef struct Label {
    const char *text;
    size_t size;
    ValueId value; /* 0: its line had an error, so lines that use it are passed over */
} Label;

typedef struct Reader {
    Compiler *compiler;
    Function *f;
    const char *start, *at;
    uint32_t file;
    Label *labels;
    size_t label_count, label_capacity;
} Reader;

typedef struct Word {
    const char *text;
    size_t size;
} Word;

static Range range_of(const Reader *r, const char *from, size_t size) {
    return (Range){r->file, (uint32_t)(from - r->start),
                   (uint32_t)(from - r->start + (ptrdiff_t)size)};
}

static void skip_blanks(Reader *r) {
    while (*r->at == ' ' || *r->at == '\t' || *r->at == '\r') r->at++;
    if (*r->at == '#')
        while (*r->at && *r->at != '\n') r->at++;
}

/* A word: letters, digits, and what numbers and qualified names have; or one other character. At
 * the end of the line, none. */
static Word peek(Reader *r) {
    skip_blanks(r);
    const char *end = r->at;
    while (isalnum((unsigned char)*end) || (*end && strchr("_.+-'", *end))) end++;
    if (end == r->at && *end && *end != '\n') end++;
    return (Word){r->at, (size_t)(end - r->at)};
}

static Word take(Reader *r) {
    Word word = peek(r);
    r->at += word.size;
    return word;
}

static bool is(Word word, const char *text) {
    return strlen(text) == word.size && memcmp(word.text, text, word.size) == 0;
}

static const char *spelling(Reader *r, Word word) {
    return word.size ? arena_printf(r->f->arena, "'%.*s'", (int)word.size, word.text)
                     : "the end of the line";
}

static bool fail(Reader *r, Word found, const char *expected) {
    Range range = range_of(r, found.text, found.size ? found.size : 1);
    diagnose(r->compiler, ERROR_EXPECTED, range, expected, spelling(r, found));
    return false;
}

static bool refuse(Reader *r, const char *line, Op op, const char *problem) {
    if (!problem) return true;
    Range range = range_of(r, line, (size_t)(r->at - line));
    diagnose(r->compiler, ERROR_IR_RULE, range, op_info[op].name, problem);
    return false;
}

static bool accept(Reader *r, const char *text) {
    if (!is(peek(r), text)) return false;
    take(r);
    return true;
}

static bool expect(Reader *r, const char *text) {
    Word word = take(r);
    return is(word, text) || fail(r, word, arena_printf(r->f->arena, "'%s'", text));
}

static bool read_name(Reader *r, const char *what, const char **name) {
    Word word = take(r);
    if (word.size == 0 || !(isalpha((unsigned char)*word.text) || *word.text == '_'))
        return fail(r, word, what);
    *name = arena_copy(r->f->arena, word.text, word.size);
    return true;
}

static bool read_type(Reader *r, Type *type) {
    Word word = take(r);
    for (*type = 0; *type < TYPE_COUNT; *type = (Type)(*type + 1))
        if (is(word, type_info[*type].name)) return true;
    return fail(r, word, "a type");
}

static bool read_axis(Reader *r, uint32_t *axis) {
    Word word = take(r);
    for (*axis = 0; *axis < r->f->axis_count; ++*axis)
        if (is(word, r->f->axes[*axis].name)) return true;
    return fail(r, word, "the name of an axis declared above");
}

/* `[b, k]`, `[]` or nothing. */
static bool read_axes(Reader *r, AxisSet *axes) {
    *axes = 0;
    if (!accept(r, "[")) return true;
    if (accept(r, "]")) return true;
    do {
        uint32_t axis;
        if (!read_axis(r, &axis)) return false;
        *axes |= (AxisSet)1 << axis;
    } while (accept(r, ","));
    return expect(r, "]");
}

static bool read_integer(Reader *r, uint64_t most, const char *what, int64_t *number) {
    Word word = take(r);
    const char *text = arena_copy(r->f->arena, word.text, word.size);
    uint64_t magnitude = 0;
    bool negative = *text == '-', digits = false;
    for (const char *c = text + negative; *c; c++) {
        uint64_t digit = (uint64_t)(*c - '0');
        if (*c < '0' || *c > '9' || magnitude > (most - digit) / 10) return fail(r, word, what);
        magnitude = magnitude * 10 + digit;
        digits = true;
    }
    if (!digits) return fail(r, word, what);
    *number = (int64_t)(negative ? 0 - magnitude : magnitude);
    return true;
}

static bool read_number(Reader *r, Type type, uint64_t *bits) {
    *bits = 0;
    char *end = NULL;
    if (accept(r, "bits")) {
        Word word = take(r);
        *bits = strtoull(arena_copy(r->f->arena, word.text, word.size), &end, 16);
        return (word.size > 2 && word.text[1] == 'x' && *end == 0) || fail(r, word, "0x and bits");
    }
    if (type == TYPE_F32 || type == TYPE_F64) {
        Word word = take(r);
        const char *text = arena_copy(r->f->arena, word.text, word.size);
        double number = strtod(text, &end);
        float narrow = strtof(text, NULL);
        if (type == TYPE_F64)
            memcpy(bits, &number, sizeof number);
        else
            memcpy(bits, &narrow, sizeof narrow);
        return (word.size > 0 && *end == 0) || fail(r, word, "a number");
    }
    if (type == TYPE_BOOL) {
        Word word = take(r);
        *bits = is(word, "true");
        return *bits || is(word, "false") || fail(r, word, "true or false");
    }
    int64_t number;
    if (!read_integer(r, UINT64_MAX, "an integer", &number)) return false;
    *bits = (uint64_t)number;
    return true;
}

static Label *find_label(const Reader *r, Word word) {
    for (size_t i = r->label_count; i-- > 0;)
        if (r->labels[i].size == word.size && memcmp(r->labels[i].text, word.text, word.size) == 0)
            return &r->labels[i];
    return NULL;
}

/* `%label`; *value is 0 where the label's own line had an error. */
static bool read_operand(Reader *r, ValueId *value) {
    if (!expect(r, "%")) return false;
    Word word = take(r);
    const Label *label = find_label(r, word);
    if (!label) return fail(r, word, "the label of a value above");
    *value = label->value;
    return true;
}

static bool read_parameter_name(Reader *r, uint32_t *number) {
    Word word = take(r);
    for (*number = 0; *number < r->f->parameter_count; ++*number)
        if (is(word, r->f->parameters[*number].name)) return true;
    return fail(r, word, "the name of a parameter declared above");
}

static bool read_leaf(Reader *r, const char *line, Op op, ValueId *value) {
    uint32_t number;
    if (op == OP_PARAMETER) {
        if (!read_parameter_name(r, &number)) return false;
        *value = ir_parameter(r->f, number);
        return true;
    }
    if (!read_axis(r, &number)) return false;
    if (op == OP_SIZE && r->f->axes[number].fixed >= 0)
        return refuse(r, line, op, "an axis without a fixed length: write a const");
    *value = op == OP_SIZE ? ir_size(r->f, number) : ir_index(r->f, number);
    return true;
}

/* After the operands: `: type[axes]`. */
static bool read_annotation(Reader *r, Type *type, AxisSet *axes) {
    return expect(r, ":") && read_type(r, type) && read_axes(r, axes);
}

/* An operation on operands. *value stays 0, without an error, when an operand's line had one. */
static bool read_operation(Reader *r, const char *line, Op op, AxisSet over, ValueId *value,
                           Type *type, AxisSet *axes) {
    Function *f = r->f;
    Type storage = TYPE_NONE, result;
    ValueId args[3] = {0};
    if (op == OP_ROUND_TO && !read_type(r, &storage)) return false;
    for (int i = 0; i < op_info[op].arity; i++)
        if (!read_operand(r, &args[i])) return false;
    if (!read_annotation(r, type, axes)) return false;
    for (int i = 0; i < op_info[op].arity; i++)
        if (args[i] == 0) return true;
    const char *problem =
        op == OP_CAST        ? ir_cast_problem(f, *type, args[0])
        : op == OP_ROUND_TO  ? ir_round_problem(f, storage, args[0])
        : op == OP_BROADCAST ? (*axes & ~f->values[args[0]].axes ? NULL : "axes its operand lacks")
        : op_info[op].flags & OP_REDUCTION ? ir_reduce_problem(f, op, args[0], over)
                                           : ir_result_type(f, op, args, &result);
    if (!refuse(r, line, op, problem)) return false;
    *value = op == OP_CAST                      ? ir_cast(f, *type, args[0])
             : op == OP_ROUND_TO                ? ir_round_to(f, storage, args[0])
             : op == OP_BROADCAST               ? ir_broadcast(f, args[0], *axes)
             : op_info[op].flags & OP_REDUCTION ? ir_reduce(f, op, args[0], over)
                                                : ir_op(f, op, args[0], args[1], args[2]);
    return true;
}

static Op find_op(Word word) {
    for (Op op = 1; op < OP_COUNT; op = (Op)(op + 1))
        if (is(word, op_info[op].name)) return op;
    return OP_NONE;
}

/* The right side of `%label =`. */
static bool read_right_side(Reader *r, const char *line, ValueId *value) {
    Function *f = r->f;
    Word word = take(r);
    Op op = find_op(word);
    if (op == OP_NONE) return fail(r, word, "an operation");
    AxisSet over = 0, axes = 0;
    Type type = TYPE_NONE;
    if ((op_info[op].flags & OP_REDUCTION) && !read_axes(r, &over)) return false;
    if (op == OP_CONST) {
        const char *number = r->at; /* its type follows it */
        while (*r->at && *r->at != '\n' && *r->at != ':') r->at++;
        uint64_t bits;
        if (!read_annotation(r, &type, &axes)) return false;
        const char *after = r->at;
        r->at = number;
        if (!read_number(r, type, &bits)) return false;
        Word colon = peek(r);
        if (!is(colon, ":")) return fail(r, colon, "':'");
        r->at = after;
        if (!refuse(r, line, op, type_info[type].compute == type ? NULL : "a compute type"))
            return false;
        *value = ir_constant(f, type, bits);
    } else if (op_info[op].flags & OP_LEAF) {
        if (!read_leaf(r, line, op, value) || !read_annotation(r, &type, &axes)) return false;
    } else if (!read_operation(r, line, op, over, value, &type, &axes)) {
        return false;
    }
    if (*value == 0) return true;
    const Value *v = &f->values[*value];
    bool right = (Type)v->type == type && v->axes == axes;
    return refuse(r, line, op, right ? NULL : "the type and axes that follow from its operands");
}

static bool read_value(Reader *r, const char *line) {
    Word label = take(r);
    if (label.size == 0) return fail(r, label, "a label");
    if (find_label(r, label)) return fail(r, label, "a label not used above");
    ValueId value = 0;
    const char *name = NULL;
    bool good = expect(r, "=") && read_right_side(r, line, &value);
    if (good && accept(r, "as")) good = read_name(r, "a name", &name);
    if (good && value) ir_place(r->f, value, range_of(r, line, (size_t)(r->at - line)), name);
    r->labels =
        arena_grow(r->f->arena, r->labels, r->label_count, &r->label_capacity, sizeof *r->labels);
    r->labels[r->label_count++] = (Label){label.text, label.size, good ? value : 0};
    return good;
}

static bool read_store(Reader *r, const char *line) {
    uint32_t parameter;
    ValueId value, guard = 0;
    if (!read_parameter_name(r, &parameter) || !expect(r, "=") || !read_operand(r, &value))
        return false;
    bool guarded = accept(r, "when");
    if (guarded && !read_operand(r, &guard)) return false;
    if (value && (guard || !guarded))
        ir_store(r->f, parameter, value, guard, range_of(r, line, (size_t)(r->at - line)));
    return true;
}

static bool read_step(Reader *r) {
    if (!read_name(r, "the step's name", &r->f->name)) return false;
    if (!accept(r, "math")) return true;
    Word word = take(r);
    for (size_t i = 0; i < COUNT(math_names); i++)
        if (is(word, math_names[i])) {
            r->f->math = (ls_math)i;
            return true;
        }
    return fail(r, word, "exact, lite or fast");
}

static bool read_axis_line(Reader *r, const char *line) {
    Function *f = r->f;
    Axis axis = ir_axis(NULL, -1, (Range){0});
    if (f->value_count > 1 || f->parameter_count > 0 || f->axis_count == LS_AXES_MAX)
        return fail(r, (Word){line, 4}, "at most 32 axes, before the parameters and values");
    if (!read_name(r, "the axis's name", &axis.name)) return false;
    if (accept(r, "=") && !read_integer(r, INT64_MAX, "the axis's length", &axis.fixed))
        return false;
    axis.range = range_of(r, line, (size_t)(r->at - line));
    if (!f->axes) f->axes = arena_alloc(f->arena, LS_AXES_MAX * sizeof *f->axes);
    f->axes[f->axis_count++] = axis;
    return true;
}

static bool read_parameter(Reader *r, const char *line, ls_role role) {
    Function *f = r->f;
    Parameter p = {.role = role};
    if (!read_name(r, "the parameter's name", &p.name) || !expect(r, ":") ||
        !read_type(r, &p.type) || !read_axes(r, &p.axes))
        return false;
    p.has_default = accept(r, "=");
    if (p.has_default && !read_number(r, p.type, &p.initial)) return false;
    if (type_info[p.type].size < 8) p.initial &= (UINT64_C(1) << 8 * type_info[p.type].size) - 1;
    p.declared = p.axes;
    p.range = range_of(r, line, (size_t)(r->at - line));
    f->parameters = arena_grow(f->arena, f->parameters, f->parameter_count, &f->parameter_capacity,
                               sizeof *f->parameters);
    f->parameters[f->parameter_count++] = p;
    return true;
}

static bool read_line(Reader *r) {
    const char *line = r->at;
    Word word = take(r);
    if (is(word, "%")) return read_value(r, line);
    if (is(word, "store")) return read_store(r, line);
    if (is(word, "step")) return read_step(r);
    if (is(word, "axis")) return read_axis_line(r, line);
    for (size_t i = 0; i < COUNT(role_names); i++)
        if (is(word, role_names[i])) return read_parameter(r, line, (ls_role)i);
    return fail(r, word, "step, axis, in, inout, out, store or a label such as %1");
}

Function *ir_read(Compiler *compiler, Arena *arena, uint32_t source) {
    Reader r = {.compiler = compiler, .file = source};
    r.f = ir_function(compiler, arena, "");
    r.start = r.at = compiler->sources[source].text;
    size_t errors_before = compiler->error_count;
    for (;;) {
        if (peek(&r).size > 0 && read_line(&r) && peek(&r).size > 0)
            fail(&r, peek(&r), "the end of the line");
        while (*r.at && *r.at != '\n') r.at++;
        if (*r.at == 0) break;
        r.at++;
    }
    if (compiler->error_count == errors_before && !*r.f->name)
        fail(&r, (Word){r.start, 0}, "a line `step NAME`");
    return compiler->error_count == errors_before ? r.f : NULL;
}
