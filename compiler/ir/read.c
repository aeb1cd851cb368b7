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

static bool refuse(IrReader *r, const char *line, Op op, const char *problem) {
    if (!problem) return true;
    Range range = reader_range(&r->words, line, (size_t)(r->words.at - line));
    diagnose(r->words.compiler, ERROR_IR_RULE, range, op_info[op].name, problem);
    return false;
}

bool ir_read_type(IrReader *r, Type *type) {
    TextWord word = reader_take(&r->words);
    for (*type = 0; *type < TYPE_COUNT; *type = (Type)(*type + 1))
        if (word_is(word, type_info[*type].name)) return true;
    return reader_fail(&r->words, word, "a type");
}

static bool read_axis(IrReader *r, uint32_t *axis) {
    TextWord word = reader_take(&r->words);
    for (*axis = 0; *axis < r->f->axis_count; ++*axis)
        if (word_is(word, r->f->axes[*axis].name)) return true;
    return reader_fail(&r->words, word, "the name of an axis declared above");
}

/* `[b, k]`, `[]` or nothing. */
bool ir_read_axes(IrReader *r, AxisSet *axes) {
    *axes = 0;
    if (!reader_accept(&r->words, "[")) return true;
    if (reader_accept(&r->words, "]")) return true;
    do {
        uint32_t axis;
        if (!read_axis(r, &axis)) return false;
        *axes |= (AxisSet)1 << axis;
    } while (reader_accept(&r->words, ","));
    return reader_expect(&r->words, "]");
}

static bool read_number(IrReader *r, Type type, uint64_t *bits) {
    *bits = 0;
    char *end = NULL;
    if (reader_accept(&r->words, "bits")) {
        TextWord word = reader_take(&r->words);
        *bits = strtoull(arena_copy(r->f->arena, word.text, word.size), &end, 16);
        return (word.size > 2 && word.text[1] == 'x' && *end == 0) ||
               reader_fail(&r->words, word, "0x and bits");
    }
    if (type == TYPE_F32 || type == TYPE_F64) {
        TextWord word = reader_take(&r->words);
        const char *text = arena_copy(r->f->arena, word.text, word.size);
        double number = strtod(text, &end);
        float narrow = strtof(text, NULL);
        if (type == TYPE_F64)
            memcpy(bits, &number, sizeof number);
        else
            memcpy(bits, &narrow, sizeof narrow);
        return (word.size > 0 && *end == 0) || reader_fail(&r->words, word, "a number");
    }
    if (type == TYPE_BOOL) {
        TextWord word = reader_take(&r->words);
        *bits = word_is(word, "true");
        return *bits || word_is(word, "false") || reader_fail(&r->words, word, "true or false");
    }
    int64_t number;
    if (!reader_integer(&r->words, UINT64_MAX, "an integer", &number)) return false;
    *bits = (uint64_t)number;
    return true;
}

static IrLabel *find_label(const IrReader *r, TextWord word) {
    for (size_t i = r->label_count; i-- > 0;)
        if (r->labels[i].size == word.size && memcmp(r->labels[i].text, word.text, word.size) == 0)
            return &r->labels[i];
    return NULL;
}

/* `%label`; *value is 0 where the label's own line had an error. */
bool ir_read_operand(IrReader *r, ValueId *value) {
    if (!reader_expect(&r->words, "%")) return false;
    TextWord word = reader_take(&r->words);
    const IrLabel *label = find_label(r, word);
    if (!label) return reader_fail(&r->words, word, "the label of a value above");
    *value = label->value;
    return true;
}

static bool read_parameter_name(IrReader *r, uint32_t *number) {
    TextWord word = reader_take(&r->words);
    for (*number = 0; *number < r->f->parameter_count; ++*number)
        if (word_is(word, r->f->parameters[*number].name)) return true;
    return reader_fail(&r->words, word, "the name of a parameter declared above");
}

/* After the operands: `: type[axes]`. */
static bool read_annotation(IrReader *r, Type *type, AxisSet *axes) {
    return reader_expect(&r->words, ":") && ir_read_type(r, type) && ir_read_axes(r, axes);
}

/* A leaf whose type and axes the line gives. */
static bool read_typed_leaf(IrReader *r, Op op, ValueId *value) {
    Function *f = r->f;
    Type type;
    AxisSet axes;
    int64_t number = 0;
    const char *after = r->words.at;
    if (op == OP_FIRST) {
        TextWord word = reader_take(&r->words);
        number = word_is(word, ir_first_names[1]);
        if (!number && !word_is(word, ir_first_names[0]))
            return reader_fail(&r->words, word, "tensor or element");
    } else if (!reader_integer(&r->words, UINT32_MAX, "the number of a running value", &number)) {
        return false;
    }
    after = r->words.at;
    if (!read_annotation(r, &type, &axes)) return false;
    r->words.at = after; /* the caller reads it again */
    *value = ir_leaf(f, op, type, axes, (uint64_t)number);
    if (op == OP_RUNNING && f->serial < (uint64_t)number) f->serial = (uint64_t)number;
    return true;
}

static bool read_leaf(IrReader *r, const char *line, Op op, ValueId *value) {
    uint32_t number;
    AxisSet over;
    if (op == OP_FIRST || op == OP_RUNNING) return read_typed_leaf(r, op, value);
    if (op == OP_POSITION) {
        if (!ir_read_axes(r, &over)) return false;
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
static bool read_payload(IrReader *r, Value *v) {
    Type storage;
    uint32_t axis = 0;
    int64_t number = 0;
    switch (v->op) {
    case OP_SCAN:
        if (!reader_expect(&r->words, "[") || !read_axis(r, &axis)) return false;
        v->payload = axis;
        if (reader_accept(&r->words, ",") && reader_expect(&r->words, "reverse"))
            v->payload |= SCAN_REVERSE;
        return reader_expect(&r->words, "]");
    case OP_LIST:
        if (isdigit((unsigned char)*reader_peek(&r->words).text)) {
            if (!reader_integer(&r->words, UINT32_MAX, "an axis or the number of an argument",
                                &number))
                return false;
            v->payload = (uint64_t)number;
            return true;
        }
        v->payload = read_axis(r, &axis) ? axis : UINT64_MAX;
        return v->payload != UINT64_MAX;
    case OP_RANDOM_KEY:
        if (!reader_integer(&r->words, UINT32_MAX, "the ordinal of a draw", &number)) return false;
        v->payload = (uint64_t)number;
        return true;
    case OP_SCATTER:
    case OP_SCATTER_MIN: {
        AxisSet within = 0;
        if (reader_accept(&r->words, "within") && !ir_read_axes(r, &within)) return false;
        v->payload = (uint64_t)within << 32;
        return true;
    }
    case OP_CALL: {
        TextWord word = reader_take(&r->words);
        while (v->payload < r->f->function_count &&
               !word_is(word, r->f->functions[v->payload].name))
            v->payload++;
        return v->payload < r->f->function_count ||
               reader_fail(&r->words, word, "the name of a function declared above");
    }
    case OP_ROUND_STOCHASTIC:
        if (!ir_read_type(r, &storage)) return false;
        v->payload = storage;
        return true;
    default: return true;
    }
}

/* An operation whose builder is its own. *value stays 0, without an error, when an operand's line
 * had one. */
static bool read_other(IrReader *r, const char *line, Op op, ValueId *value, Type *type,
                       AxisSet *axes) {
    Value v = {.op = (uint8_t)op};
    if (!read_payload(r, &v)) return false;
    for (int i = 0; i < op_info[op].arity; i++) {
        if (op == OP_LIST && i == 1 && !word_is(reader_peek(&r->words), "%")) break;
        if (!ir_read_operand(r, &v.arg[i])) return false;
        if (v.arg[i] == 0) v.type = TYPE_NONE;
    }
    bool broken = v.type == TYPE_NONE;
    if (!read_annotation(r, type, axes)) return false;
    if (broken) return true;
    v.type = (uint8_t)*type;
    v.axes = *axes;
    if (op == OP_FROM_FIXED) v.payload = *type;
    if (ir_is_scatter(&v)) v.payload |= *axes;
    const char *problem = ir_operation_problem(r->f, &v);
    if (problem) {
        Range range = reader_range(&r->words, line, (size_t)(r->words.at - line));
        diagnose(r->words.compiler, ERROR_IR_BROKEN, range, op_info[op].name, problem);
        return false;
    }
    *value = ir_make(r->f, &v, v.arg);
    return true;
}

/* An operation on operands. *value stays 0, without an error, when an operand's line had one. */
static bool read_operation(IrReader *r, const char *line, Op op, AxisSet over, ValueId *value,
                           Type *type, AxisSet *axes) {
    Function *f = r->f;
    Type storage = TYPE_NONE, result;
    ValueId args[3] = {0};
    if (op == OP_ROUND_TO && !ir_read_type(r, &storage)) return false;
    for (int i = 0; i < op_info[op].arity; i++)
        if (!ir_read_operand(r, &args[i])) return false;
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

static Op find_op(TextWord word) {
    for (Op op = 1; op < OP_COUNT; op = (Op)(op + 1))
        if (word_is(word, op_info[op].name)) return op;
    return OP_NONE;
}

/* The right side of `%label =`. */
static bool read_right_side(IrReader *r, const char *line, ValueId *value) {
    Function *f = r->f;
    TextWord word = reader_take(&r->words);
    Op op = find_op(word);
    if (op == OP_NONE) return reader_fail(&r->words, word, "an operation");
    AxisSet over = 0, axes = 0;
    Type type = TYPE_NONE;
    if ((op_info[op].flags & OP_REDUCTION) && !ir_read_axes(r, &over)) return false;
    if (op == OP_CONST) {
        const char *number = r->words.at; /* its type follows it */
        while (*r->words.at && *r->words.at != '\n' && *r->words.at != ':') r->words.at++;
        uint64_t bits;
        if (!read_annotation(r, &type, &axes)) return false;
        const char *after = r->words.at;
        r->words.at = number;
        if (!read_number(r, type, &bits)) return false;
        TextWord colon = reader_peek(&r->words);
        if (!word_is(colon, ":")) return reader_fail(&r->words, colon, "':'");
        r->words.at = after;
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

static bool read_value(IrReader *r, const char *line) {
    TextWord label = reader_take(&r->words);
    if (label.size == 0) return reader_fail(&r->words, label, "a label");
    if (find_label(r, label)) return reader_fail(&r->words, label, "a label not used above");
    ValueId value = 0;
    const char *name = NULL;
    bool good = reader_expect(&r->words, "=") && read_right_side(r, line, &value);
    if (good && reader_accept(&r->words, "as")) good = reader_name(&r->words, "a name", &name);
    if (good && value)
        ir_set_source(r->f, value, reader_range(&r->words, line, (size_t)(r->words.at - line)),
                      name);
    r->labels =
        arena_grow(r->f->arena, r->labels, r->label_count, &r->label_capacity, sizeof *r->labels);
    r->labels[r->label_count++] = (IrLabel){label.text, label.size, good ? value : 0};
    return good;
}

static bool read_store(IrReader *r, const char *line) {
    uint32_t parameter;
    ValueId value, guard = 0;
    if (!read_parameter_name(r, &parameter) || !reader_expect(&r->words, "=") ||
        !ir_read_operand(r, &value))
        return false;
    bool guarded = reader_accept(&r->words, "when");
    if (guarded && !ir_read_operand(r, &guard)) return false;
    if (value && (guard || !guarded))
        ir_store(r->f, parameter, value, guard,
                 reader_range(&r->words, line, (size_t)(r->words.at - line)));
    return true;
}

static bool read_step(IrReader *r) {
    if (!reader_name(&r->words, "the step's name", &r->f->name)) return false;
    if (!reader_accept(&r->words, "math")) return true;
    TextWord word = reader_take(&r->words);
    for (size_t i = 0; i < COUNT(ir_math_names); i++)
        if (word_is(word, ir_math_names[i])) {
            r->f->math = (ls_math)i;
            return true;
        }
    return reader_fail(&r->words, word, "exact, lite or fast");
}

/* `= 64`, or a length in reverse Polish order over the axes above. */
static bool read_length(IrReader *r, Axis *axis) {
    Function *f = r->f;
    ls_image_term terms[32];
    size_t count = 0;
    for (TextWord word = reader_peek(&r->words); word.size && !word_is(word, "as");
         word = reader_peek(&r->words)) {
        ls_image_term term = {LS_TERM_NUMBER, 0};
        if (count == COUNT(terms))
            return reader_fail(&r->words, word, "at most 32 terms of a length");
        for (size_t i = LS_TERM_ADD; i < COUNT(ir_term_names); i++)
            if (word_is(word, ir_term_names[i])) term.operation = (ls_image_operation)i;
        for (size_t a = 0; a < f->axis_count; a++)
            if (word_is(word, f->axes[a].name)) term = (ls_image_term){LS_TERM_AXIS, (int64_t)a};
        if (term.operation != LS_TERM_NUMBER)
            reader_take(&r->words);
        else if (!reader_integer(&r->words, INT64_MAX, "the axis's length", &term.value))
            return false;
        terms[count++] = term;
    }
    if (count == 0) return reader_fail(&r->words, reader_peek(&r->words), "the axis's length");
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
static bool read_blocks(IrReader *r, Axis *whole) {
    Function *f = r->f;
    int number = (int)f->axis_count;
    Axis block = ir_axis(NULL, -1, whole->range), rest = block;
    if (!reader_expect(&r->words, "(") ||
        !reader_name(&r->words, "the name of the axis that counts blocks", &block.name) ||
        !reader_expect(&r->words, ",") ||
        !reader_name(&r->words, "the name of the axis in a block", &rest.name) ||
        !reader_expect(&r->words, "=") ||
        !reader_integer(&r->words, INT64_MAX, "the length of a block", &whole->length) ||
        !reader_expect(&r->words, ")"))
        return false;
    if (whole->length <= 0 || f->axis_count + 3 > LS_AXES_MAX)
        return reader_fail(&r->words, reader_peek(&r->words), "blocks of at least one element");
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

static bool read_axis_line(IrReader *r, const char *line) {
    Function *f = r->f;
    Axis axis = ir_axis(NULL, -1, (Range){0});
    uint32_t parent;
    if (f->value_count > 1 || f->parameter_count > 0 || f->axis_count == LS_AXES_MAX)
        return reader_fail(&r->words, (TextWord){line, 4},
                           "at most 32 axes, before the parameters and values");
    if (!f->axes) f->axes = arena_alloc(f->arena, LS_AXES_MAX * sizeof *f->axes);
    if (!reader_name(&r->words, "the axis's name", &axis.name)) return false;
    if (reader_accept(&r->words, "of")) {
        if (!read_axis(r, &parent)) return false;
        axis.parent = (int)parent;
    }
    if (reader_accept(&r->words, "=") && !read_length(r, &axis)) return false;
    axis.range = reader_range(&r->words, line, (size_t)(r->words.at - line));
    if (reader_accept(&r->words, "as") && !read_blocks(r, &axis)) return false;
    f->axes[f->axis_count] = axis;
    f->axis_count += axis.block >= 0 ? 3 : 1;
    return true;
}

/* `function NAME`, which steps do not call; or `function NAME(types): type`, ` takes` and a number
 * of operations, and ` by` a number or `none` for each parameter. */
static bool read_function(IrReader *r) {
    enum { FUNCTIONS = 64, PARAMETERS = 32, OPERATIONS = 1 << 30 };
    Function *f = r->f;
    CFunction *functions = (CFunction *)(uintptr_t)f->functions, new = {.source = ""};
    if (!functions) f->functions = functions = arena_alloc(f->arena, FUNCTIONS * sizeof new);
    new.parameters = arena_alloc(f->arena, PARAMETERS * sizeof *new.parameters);
    if (f->function_count == FUNCTIONS)
        return reader_fail(&r->words, reader_peek(&r->words), "at most 64 functions");
    if (!reader_name(&r->words, "the function's name", &new.name)) return false;
    if (!reader_accept(&r->words, "(")) {
        functions[f->function_count++] = new;
        return true;
    }
    while (!reader_accept(&r->words, ")")) {
        if (new.parameter_count == PARAMETERS)
            return reader_fail(&r->words, reader_peek(&r->words), "at most 32 parameters");
        if (new.parameter_count && !reader_expect(&r->words, ",")) return false;
        if (!ir_read_type(r, &new.parameters[new.parameter_count++])) return false;
    }
    if (!reader_expect(&r->words, ":") || !ir_read_type(r, &new.result)) return false;
    if (reader_accept(&r->words, "takes")) {
        static const char what[] = "a number of operations";
        const TextWord word = reader_peek(&r->words);
        int64_t operations;
        if (!reader_integer(&r->words, OPERATIONS, what, &operations)) return false;
        if (operations < 0) return reader_fail(&r->words, word, what);
        new.operations = (uint32_t)operations;
    }
    if (reader_accept(&r->words, "by")) {
        new.derivatives = arena_alloc(f->arena, PARAMETERS * sizeof *new.derivatives);
        for (size_t i = 0; i < new.parameter_count; i++) {
            int64_t number = -1;
            if (i && !reader_expect(&r->words, ",")) return false;
            if (!reader_accept(&r->words, "none") &&
                !reader_integer(&r->words, FUNCTIONS - 1, "the number of a function, or none",
                                &number))
                return false;
            new.derivatives[i] = (int)number;
        }
    }
    functions[f->function_count++] = new;
    return true;
}

static bool read_parameter(IrReader *r, const char *line, ls_role role) {
    Function *f = r->f;
    Parameter p = {.role = role};
    if (!reader_name(&r->words, "the parameter's name", &p.name) ||
        !reader_expect(&r->words, ":") || !ir_read_type(r, &p.type) ||
        !ir_read_axes(r, &p.declared))
        return false;
    p.axes = ir_closure(f, ir_expand(f, p.declared));
    p.has_default = reader_accept(&r->words, "=");
    if (p.has_default && !read_number(r, p.type, &p.initial)) return false;
    if (type_info[p.type].size < 8) p.initial &= (UINT64_C(1) << 8 * type_info[p.type].size) - 1;
    p.range = reader_range(&r->words, line, (size_t)(r->words.at - line));
    f->parameters = arena_grow(f->arena, f->parameters, f->parameter_count, &f->parameter_capacity,
                               sizeof *f->parameters);
    f->parameters[f->parameter_count++] = p;
    return true;
}

bool ir_read_line(IrReader *r) {
    const char *line = r->words.at;
    TextWord word = reader_take(&r->words);
    if (word_is(word, "%")) return read_value(r, line);
    if (word_is(word, "store")) return read_store(r, line);
    if (word_is(word, "step")) return read_step(r);
    if (word_is(word, "axis")) return read_axis_line(r, line);
    if (word_is(word, "function")) return read_function(r);
    for (size_t i = 0; i < COUNT(ir_role_names); i++)
        if (word_is(word, ir_role_names[i])) return read_parameter(r, line, (ls_role)i);
    return reader_fail(&r->words, word,
                       "step, axis, function, in, inout, out, store or a label such as %1");
}

IrReader ir_reader_open(Compiler *compiler, Arena *arena, uint32_t source) {
    return (IrReader){.words = reader_open(compiler, arena, source),
                      .f = ir_function(compiler, arena, ""),
                      .errors_before = compiler->error_count};
}

bool ir_reader_close(IrReader *r) {
    if (r->words.compiler->error_count == r->errors_before && !*r->f->name)
        reader_fail(&r->words, (TextWord){r->words.start, 0}, "a line `step NAME`");
    return r->words.compiler->error_count == r->errors_before;
}

Function *ir_read(Compiler *compiler, Arena *arena, uint32_t source) {
    IrReader r = ir_reader_open(compiler, arena, source);
    do {
        if (reader_peek(&r.words).size > 0 && ir_read_line(&r)) reader_end_line(&r.words);
    } while (reader_next_line(&r.words));
    return ir_reader_close(&r) ? r.f : NULL;
}
