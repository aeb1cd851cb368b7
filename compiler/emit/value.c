/* value.c: types, constants and operations as text, and the source lines that are quoted before the
 * statements that come from them. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "emit/emit.h"

const char *emit_type(Type type) {
    return type == TYPE_BOOL ? "int" : type_info[type].c_name;
}

const char *emit_constant(Emitter *e, Type type, uint64_t bits) {
    switch (type) {
    case TYPE_F32: {
        float x;
        uint32_t low = (uint32_t)bits;
        memcpy(&x, &low, sizeof x);
        if (!isfinite(x)) return arena_printf(e->arena, "ls_from_bits_f32(0x%08" PRIx32 "u)", low);
        return arena_printf(e->arena, signbit(x) ? "(%af)" : "%af", (double)x);
    }
    case TYPE_F64: {
        double x;
        memcpy(&x, &bits, sizeof x);
        if (!isfinite(x))
            return arena_printf(e->arena, "ls_from_bits_f64(0x%016" PRIx64 "ull)", bits);
        return arena_printf(e->arena, signbit(x) ? "(%a)" : "%a", x);
    }
    case TYPE_I32:
        if ((uint32_t)bits == 0x80000000u) return "(-2147483647 - 1)";
        return arena_printf(e->arena, (int32_t)bits < 0 ? "(%" PRId32 ")" : "%" PRId32,
                            (int32_t)bits);
    case TYPE_I64:
        if (bits == (uint64_t)1 << 63) return "(-9223372036854775807ll - 1)";
        return arena_printf(e->arena, (int64_t)bits < 0 ? "(%" PRId64 "ll)" : "%" PRId64 "ll",
                            (int64_t)bits);
    case TYPE_U32: return arena_printf(e->arena, "%" PRIu32 "u", (uint32_t)bits);
    case TYPE_U64: return arena_printf(e->arena, "%" PRIu64 "ull", bits);
    case TYPE_BOOL: return bits & 1 ? "1" : "0";
    default: bug(e->compiler, "a constant of storage type %s", type_info[type].name);
    }
}

/* The function for an operation: under `math fast` the target's own where it has one. */
static const char *function_stem(Emitter *e, const char *stem, const char *type) {
    if (e->f->math != LS_MATH_FAST) return stem;
    const char *fast = arena_printf(e->arena, "%s_fast", stem);
    const char *head = arena_printf(e->arena, " ls_%s_%s(", fast, type);
    return strstr(embedded_text(e->target->fast), head) ? fast : stem;
}

/* A function of floats of which a copy at every use would be most of a text. */
static bool is_costly(const Function *f, const Value *value) {
    enum { COSTLY = 16 }; /* work: from tanh_lite on; not square roots and quotients */
    const OpInfo *info = &op_info[value->op];
    if (info->form != FORM_CALL || info->work < COSTLY || info->arity > 2) return false;
    for (int i = 0; i < info->arity; i++)
        if (f->values[value->arg[i]].type != value->type) return false;
    return type_info[value->type].class == 'F';
}

void emit_find_calls(Emitter *e, const Function *values) {
    uint32_t uses = 0;
    for (size_t i = 0; i < values->value_count; i++)
        uses += values->values[i].op < OP_COUNT && is_costly(values, &values->values[i]);
    e->calls = uses > e->target->inlined_uses;
}

/* The stem of a function that is called, which a line of the variant defines. */
static const char *called_stem(Emitter *e, const char *stem, const char *type, uint32_t arity) {
    const char *line = arena_printf(e->arena, "LS_CALLED_%u(%s, %s)\n", arity, stem, type);
    if (!strstr(e->called.data, line)) text_puts(&e->called, line);
    return arena_printf(e->arena, "called_%s", stem);
}

bool emit_is_infix(const Emitter *e, const Value *value) {
    const OpForm form = (OpForm)op_info[value->op].form;
    return (form == FORM_INFIX || form == FORM_ARITHMETIC) &&
           !(value->op == OP_DIV && e->target->divides);
}

const char *emit_operation(Emitter *e, const Function *f, const Value *value, const char **arg) {
    const OpInfo *info = &op_info[value->op];
    const Type operand = info->arity ? (Type)f->values[value->arg[0]].type : TYPE_NONE;
    switch (value->op) {
    case OP_CONST: return emit_constant(e, (Type)value->type, value->payload);
    case OP_RANDOM_KEY:
        return arena_printf(e->arena, "ls_random_key_u64(%s, %s, %" PRIu64 "u, %s)", arg[0], arg[1],
                            value->payload, arg[2]);
    case OP_ROUND_STOCHASTIC:
        return arena_printf(e->arena, "ls_round_stochastic_%s(%s, %s)",
                            type_info[value->payload].name, arg[0], arg[1]);
    case OP_FROM_FIXED:
        return arena_printf(e->arena, "ls_from_fixed_%s(%s, %s)", type_info[value->type].name,
                            arg[0], arg[1]);
    case OP_SELECT:
        return arena_printf(e->arena, "ls_select_%s(%s, %s, %s)", type_info[value->type].name,
                            arg[0], arg[1], arg[2]);
    case OP_CAST:
        return arena_printf(e->arena, "ls_%s_from_%s(%s)", type_info[value->type].name,
                            type_info[operand].name, arg[0]);
    case OP_ROUND_TO:
        return arena_printf(e->arena, "ls_round_%s(%s)", type_info[value->payload].name, arg[0]);
    default: break;
    }
    if (info->form == FORM_NONE || info->form == FORM_OWN)
        bug(e->compiler, "there is no text for %s", info->name);
    const bool arithmetic = info->form == FORM_ARITHMETIC;
    const char *type = type_info[operand].name, *name = info->name;
    const char *stem = function_stem(e, name, type);
    if (ir_is_nonpositive(value) && stem == name)
        stem = arena_printf(e->arena, "%s_%s", name, nest_nonpositive);
    if (emit_is_infix(e, value) && stem == name && (!arithmetic || type_info[operand].class == 'F'))
        return arena_printf(e->arena, "%s %s %s", arg[0], info->sign, arg[1]);
    if (ir_takes_count((Op)value->op) && f->values[value->arg[1]].type != TYPE_I64)
        arg[1] = arena_printf(e->arena, "(i64)%s", arg[1]);
    if (e->calls && is_costly(f, value)) stem = called_stem(e, stem, type, info->arity);
    switch (info->arity) {
    case 1: return arena_printf(e->arena, "ls_%s_%s(%s)", stem, type, arg[0]);
    case 2: return arena_printf(e->arena, "ls_%s_%s(%s, %s)", stem, type, arg[0], arg[1]);
    default:
        return arena_printf(e->arena, "ls_%s_%s(%s, %s, %s)", stem, type, arg[0], arg[1], arg[2]);
    }
}

void emit_quote(Text *out, const char *begin, const char *end) {
    for (const char *c = begin; c < end; c++)
        text_add(out, (*c == '*' && c[1] == '/') || !isprint((unsigned char)*c) ? "?" : c, 1);
}

/* Quotes the source line a statement comes from, when it is another than the last. */
void emit_quote_line(Emitter *e, Text *out, Range range) {
    if (range.file == 0 || range.file >= e->compiler->source_count) return;
    const Source *source = &e->compiler->sources[range.file];
    uint32_t line, column;
    source_position(source, range.begin, &line, &column);
    if (line == e->last_line) return;
    e->last_line = line;
    const char *begin = source->text + range.begin, *end = begin;
    while (begin > source->text && begin[-1] != '\n') begin--;
    while (*begin == ' ' || *begin == '\t') begin++;
    while (*end && *end != '\n' && *end != '#') end++;
    while (end > begin && isspace((unsigned char)end[-1])) end--;
    text_printf(out, "/* %u: ", line);
    emit_quote(out, begin, end < begin + 80 ? end : begin + 80);
    text_puts(out, " */\n");
}

/* An expression without the brackets around all of it. */
const char *emit_bare(Emitter *e, const char *text) {
    if (*text != '(') return text;
    size_t size = strlen(text);
    int depth = 0;
    for (size_t i = 0; i < size; i++) {
        depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
        if (depth == 0 && i + 1 < size) return text;
    }
    return arena_copy(e->arena, text + 1, size - 2);
}
