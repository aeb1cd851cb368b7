/* read.c: reads the IR from its text, which print.c describes.
 *
 * A line with an error is passed over, and so are the lines that use its label: each mistake gives
 * one message. What a line says of a value's type and axes must be what follows from its operands.
 */
#include "base/base.h"
#include "ir/ir.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

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

/* After the operands: `: type[axes]`. */
static bool read_annotation(Reader *r, Type *type, AxisSet *axes) {
    return expect(r, ":") && read_type(r, type) && read_axes(r, axes);
}

/* A leaf whose type and axes the line gives. */
static bool read_typed_leaf(Reader *r, Op op, ValueId *value) {
    Function *f = r->f;
    Type type;
    AxisSet axes;
    int64_t number = 0;
    const char *after = r->at;
    if (op == OP_FIRST) {
        Word word = take(r);
        number = is(word, ir_first_names[1]);
        if (!number && !is(word, ir_first_names[0])) return fail(r, word, "tensor or element");
    } else if (!read_integer(r, UINT32_MAX, "the number of a running value", &number)) {
        return false;
    }
    after = r->at;
    if (!read_annotation(r, &type, &axes)) return false;
    r->at = after; /* the caller reads it again */
    *value = ir_leaf(f, op, type, axes, (uint64_t)number);
    if (op == OP_RUNNING && f->serial < (uint64_t)number) f->serial = (uint64_t)number;
    return true;
}

static bool read_leaf(Reader *r, const char *line, Op op, ValueId *value) {
    uint32_t number;
    AxisSet over;
    if (op == OP_FIRST || op == OP_RUNNING) return read_typed_leaf(r, op, value);
    if (op == OP_POSITION) {
        if (!read_axes(r, &over)) return false;
        if (!refuse(r, line, op, over & (over - 1) ? NULL : "more than one axis")) return false;
        *value = ir_position(r->f, over);
        return true;
    }
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

/* What stands between the name and the operands of an operation that has something there. */
static bool read_payload(Reader *r, Value *v) {
    Type storage;
    uint32_t axis = 0;
    int64_t number = 0;
    switch (v->op) {
    case OP_SCAN:
        if (!expect(r, "[") || !read_axis(r, &axis)) return false;
        v->payload = axis;
        if (accept(r, ",") && expect(r, "reverse")) v->payload |= SCAN_REVERSE;
        return expect(r, "]");
    case OP_LIST:
        if (isdigit((unsigned char)*peek(r).text)) {
            if (!read_integer(r, UINT32_MAX, "an axis or the number of an argument", &number))
                return false;
            v->payload = (uint64_t)number;
            return true;
        }
        v->payload = read_axis(r, &axis) ? axis : UINT64_MAX;
        return v->payload != UINT64_MAX;
    case OP_RANDOM_KEY:
        if (!read_integer(r, UINT32_MAX, "the ordinal of a draw", &number)) return false;
        v->payload = (uint64_t)number;
        return true;
    case OP_CALL: {
        Word word = take(r);
        while (v->payload < r->f->function_count && !is(word, r->f->functions[v->payload].name))
            v->payload++;
        return v->payload < r->f->function_count ||
               fail(r, word, "the name of a function declared above");
    }
    case OP_ROUND_STOCHASTIC:
        if (!read_type(r, &storage)) return false;
        v->payload = storage;
        return true;
    default: return true;
    }
}

/* An operation whose builder is its own. *value stays 0, without an error, when an operand's line
 * had one. */
static bool read_other(Reader *r, const char *line, Op op, ValueId *value, Type *type,
                       AxisSet *axes) {
    Value v = {.op = (uint8_t)op};
    if (!read_payload(r, &v)) return false;
    for (int i = 0; i < op_info[op].arity; i++) {
        if (op == OP_LIST && i == 1 && !is(peek(r), "%")) break;
        if (!read_operand(r, &v.arg[i])) return false;
        if (v.arg[i] == 0) v.type = TYPE_NONE;
    }
    bool broken = v.type == TYPE_NONE;
    if (!read_annotation(r, type, axes)) return false;
    if (broken) return true;
    v.type = (uint8_t)*type;
    v.axes = *axes;
    if (op == OP_FROM_FIXED) v.payload = *type;
    if (op == OP_SCATTER) v.payload = *axes;
    const char *problem = ir_operation_problem(r->f, &v);
    if (problem) {
        Range range = range_of(r, line, (size_t)(r->at - line));
        diagnose(r->compiler, ERROR_IR_BROKEN, range, op_info[op].name, problem);
        return false;
    }
    *value = ir_make(r->f, &v, v.arg);
    return true;
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
    } else if (op_info[op].rule == op_info[OP_LIST].rule && op != OP_GRAD && op != OP_CAST &&
               op != OP_ROUND_TO && op != OP_BROADCAST) {
        if (!read_other(r, line, op, value, &type, &axes)) return false;
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
    for (size_t i = 0; i < COUNT(ir_math_names); i++)
        if (is(word, ir_math_names[i])) {
            r->f->math = (ls_math)i;
            return true;
        }
    return fail(r, word, "exact, lite or fast");
}

/* `= 64`, or a length in reverse Polish order over the axes above. */
static bool read_length(Reader *r, Axis *axis) {
    Function *f = r->f;
    ls_image_term terms[32];
    size_t count = 0;
    for (Word word = peek(r); word.size && !is(word, "as"); word = peek(r)) {
        ls_image_term term = {LS_TERM_NUMBER, 0};
        if (count == COUNT(terms)) return fail(r, word, "at most 32 terms of a length");
        for (size_t i = LS_TERM_ADD; i < COUNT(ir_term_names); i++)
            if (is(word, ir_term_names[i])) term.operation = (ls_image_operation)i;
        for (size_t a = 0; a < f->axis_count; a++)
            if (is(word, f->axes[a].name)) term = (ls_image_term){LS_TERM_AXIS, (int64_t)a};
        if (term.operation != LS_TERM_NUMBER)
            take(r);
        else if (!read_integer(r, INT64_MAX, "the axis's length", &term.value))
            return false;
        terms[count++] = term;
    }
    if (count == 0) return fail(r, peek(r), "the axis's length");
    if (count == 1 && terms[0].operation == LS_TERM_NUMBER) {
        axis->fixed = terms[0].value;
        return true;
    }
    ls_image_term *kept = arena_alloc(f->arena, count * sizeof *kept);
    memcpy(kept, terms, count * sizeof *kept);
    axis->terms = kept;
    axis->term_count = count;
    return true;
}

/* `(q, k = 256)`: the two axes that follow the whole. */
static bool read_blocks(Reader *r, Axis *whole) {
    Function *f = r->f;
    int number = (int)f->axis_count;
    Axis block = ir_axis(NULL, -1, whole->range), rest = block;
    if (!expect(r, "(") || !read_name(r, "the name of the axis that counts blocks", &block.name) ||
        !expect(r, ",") || !read_name(r, "the name of the axis in a block", &rest.name) ||
        !expect(r, "=") || !read_integer(r, INT64_MAX, "the length of a block", &whole->length) ||
        !expect(r, ")"))
        return false;
    if (whole->length <= 0 || f->axis_count + 3 > LS_AXES_MAX)
        return fail(r, peek(r), "blocks of at least one element");
    whole->block = number + 1;
    whole->rest = number + 2;
    block.whole = rest.whole = number;
    block.length = rest.length = whole->length;
    block.parent = whole->parent;
    rest.parent = number + 1;
    if (whole->fixed >= 0) block.fixed = (whole->fixed + whole->length - 1) / whole->length;
    f->axes[number + 1] = block;
    f->axes[number + 2] = rest;
    return true;
}

static bool read_axis_line(Reader *r, const char *line) {
    Function *f = r->f;
    Axis axis = ir_axis(NULL, -1, (Range){0});
    uint32_t parent;
    if (f->value_count > 1 || f->parameter_count > 0 || f->axis_count == LS_AXES_MAX)
        return fail(r, (Word){line, 4}, "at most 32 axes, before the parameters and values");
    if (!f->axes) f->axes = arena_alloc(f->arena, LS_AXES_MAX * sizeof *f->axes);
    if (!read_name(r, "the axis's name", &axis.name)) return false;
    if (accept(r, "of")) {
        if (!read_axis(r, &parent)) return false;
        axis.parent = (int)parent;
    }
    if (accept(r, "=") && !read_length(r, &axis)) return false;
    axis.range = range_of(r, line, (size_t)(r->at - line));
    if (accept(r, "as") && !read_blocks(r, &axis)) return false;
    f->axes[f->axis_count] = axis;
    f->axis_count += axis.block >= 0 ? 3 : 1;
    return true;
}

/* `function NAME(types): type`, and ` by` a number or `none` for each parameter. */
static bool read_function(Reader *r) {
    enum { FUNCTIONS = 64, PARAMETERS = 32 };
    Function *f = r->f;
    CFunction *functions = (CFunction *)(uintptr_t)f->functions, new = {.source = ""};
    if (!functions) f->functions = functions = arena_alloc(f->arena, FUNCTIONS * sizeof new);
    new.parameters = arena_alloc(f->arena, PARAMETERS * sizeof *new.parameters);
    if (f->function_count == FUNCTIONS) return fail(r, peek(r), "at most 64 functions");
    if (!read_name(r, "the function's name", &new.name) || !expect(r, "(")) return false;
    while (!accept(r, ")")) {
        if (new.parameter_count == PARAMETERS) return fail(r, peek(r), "at most 32 parameters");
        if (new.parameter_count && !expect(r, ",")) return false;
        if (!read_type(r, &new.parameters[new.parameter_count++])) return false;
    }
    if (!expect(r, ":") || !read_type(r, &new.result)) return false;
    if (accept(r, "by")) {
        new.derivatives = arena_alloc(f->arena, PARAMETERS * sizeof *new.derivatives);
        for (size_t i = 0; i < new.parameter_count; i++) {
            int64_t number = -1;
            if (i && !expect(r, ",")) return false;
            if (!accept(r, "none") &&
                !read_integer(r, FUNCTIONS - 1, "the number of a function, or none", &number))
                return false;
            new.derivatives[i] = (int)number;
        }
    }
    functions[f->function_count++] = new;
    return true;
}

static bool read_parameter(Reader *r, const char *line, ls_role role) {
    Function *f = r->f;
    Parameter p = {.role = role};
    if (!read_name(r, "the parameter's name", &p.name) || !expect(r, ":") ||
        !read_type(r, &p.type) || !read_axes(r, &p.declared))
        return false;
    p.axes = ir_closure(f, ir_expand(f, p.declared));
    p.has_default = accept(r, "=");
    if (p.has_default && !read_number(r, p.type, &p.initial)) return false;
    if (type_info[p.type].size < 8) p.initial &= (UINT64_C(1) << 8 * type_info[p.type].size) - 1;
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
    if (is(word, "function")) return read_function(r);
    for (size_t i = 0; i < COUNT(ir_role_names); i++)
        if (is(word, ir_role_names[i])) return read_parameter(r, line, (ls_role)i);
    return fail(r, word, "step, axis, function, in, inout, out, store or a label such as %1");
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
