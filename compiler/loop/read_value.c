/* read_value.c: words, names, indices and values of a nest's text, within a line. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

enum { INDEX_TERMS = 256, OPERATIONS = 2000, ARGUMENTS = 32 };
static const int64_t FACTOR_MAX = INT64_C(1) << 53; /* so that sums of terms do not overflow */

/* ---- words ---- */

/* A name, a number, an operator of two characters, or one other character. */
NestWord nest_peek(NestReader *r) {
    while (*r->at == ' ' || *r->at == '\t' || *r->at == '\r') r->at++;
    if (*r->at == '#')
        while (*r->at && *r->at != '\n') r->at++;
    const char *end = r->at;
    const bool number = isdigit((unsigned char)*end);
    while (isalnum((unsigned char)*end) || *end == '_' || (number && *end == '.') ||
           (number && (*end == '+' || *end == '-') && (end[-1] == 'e' || end[-1] == 'E')))
        end++;
    if (end == r->at && *end && *end != '\n') {
        const bool two = (*end == '/' && end[1] == '/') || (strchr("=!<>", *end) && end[1] == '=');
        end += two ? 2 : 1;
    }
    return (NestWord){r->at, (size_t)(end - r->at)};
}

NestWord nest_take(NestReader *r) {
    const NestWord word = nest_peek(r);
    r->at += word.size;
    return word;
}

bool nest_is(NestWord word, const char *text) {
    return strlen(text) == word.size && memcmp(word.text, text, word.size) == 0;
}

static bool is_name(NestWord word) {
    return word.size && (isalpha((unsigned char)*word.text) || *word.text == '_') &&
           !nest_is_word(word.text, word.size);
}

static Range range_of(const NestReader *r, NestWord word) {
    const uint32_t begin = (uint32_t)(word.text - r->start);
    return (Range){r->file, begin, begin + (uint32_t)(word.size ? word.size : 1)};
}

static const char *copy(const NestReader *r, NestWord word) {
    return arena_copy(r->nest->arena, word.text, word.size);
}

bool nest_fail(NestReader *r, NestWord found, const char *expected) {
    const char *spelling =
        found.size ? arena_printf(r->nest->arena, "'%s'", copy(r, found)) : "the end of the line";
    diagnose(r->compiler, ERROR_EXPECTED, range_of(r, found), expected, spelling);
    return false;
}

bool nest_refuse(NestReader *r, NestWord place, ErrorCode code, const char *what,
                 const char *problem) {
    if (problem) diagnose(r->compiler, code, range_of(r, place), what, problem);
    return !problem;
}

bool nest_accept(NestReader *r, const char *text) {
    const bool found = nest_is(nest_peek(r), text);
    if (found) nest_take(r);
    return found;
}

bool nest_expect(NestReader *r, const char *text) {
    const NestWord word = nest_take(r);
    return nest_is(word, text) || nest_fail(r, word, arena_printf(r->nest->arena, "'%s'", text));
}

bool nest_read_choice(NestReader *r, const char *const *words, int first, int count,
                      const char *what, int *choice) {
    const NestWord word = nest_take(r);
    for (*choice = first; *choice < count; ++*choice)
        if (nest_is(word, words[*choice])) return true;
    return nest_fail(r, word, what);
}

bool nest_read_type(NestReader *r, Type *type) {
    const NestWord word = nest_take(r);
    for (*type = 0; *type < TYPE_COUNT; *type = (Type)(*type + 1))
        if (nest_is(word, type_info[*type].name)) return true;
    return nest_fail(r, word, "a type");
}

/* Digits, the value at most `most`. */
static bool read_digits(const char *text, uint64_t max, uint64_t *number) {
    *number = 0;
    for (const char *c = text; *c; c++) {
        const uint64_t digit = (uint64_t)(*c - '0');
        if (*c < '0' || *c > '9' || digit > max || *number > (max - digit) / 10) return false;
        *number = *number * 10 + digit;
    }
    return *text != 0;
}

bool nest_read_integer(NestReader *r, const char *what, int64_t max, int64_t *number) {
    const NestWord word = nest_take(r);
    uint64_t digits;
    if (!read_digits(copy(r, word), (uint64_t)max, &digits)) return nest_fail(r, word, what);
    *number = (int64_t)digits;
    return true;
}

/* ---- names ---- */

static NestName *find_name(const NestReader *r, NestWord word) {
    for (size_t i = r->name_count; i-- > 0;)
        if (r->names[i].word.size == word.size &&
            memcmp(r->names[i].word.text, word.text, word.size) == 0)
            return &r->names[i];
    return NULL;
}

bool nest_read_new(NestReader *r, NestWord *word) {
    *word = nest_take(r);
    if (!is_name(*word)) return nest_fail(r, *word, "a name");
    if (!find_name(r, *word)) return true;
    diagnose(r->compiler, ERROR_NAME_TAKEN, range_of(r, *word), copy(r, *word),
             "defined above: each name is, once");
    *word = (NestWord){NULL, 0};
    return false;
}

bool nest_read_name(NestReader *r, unsigned kinds, const char *what, NestName *name) {
    const NestWord word = nest_take(r);
    if (!is_name(word)) return nest_fail(r, word, what);
    const NestName *found = find_name(r, word);
    if (!found) {
        diagnose(r->compiler, ERROR_UNKNOWN_NAME, range_of(r, word), copy(r, word));
        return false;
    }
    *name = *found;
    if (!found->symbol) return false;
    if (!(kinds >> r->nest->symbols[found->symbol].kind & 1)) return nest_fail(r, word, what);
    return true;
}

/* ---- indices ---- */

static bool read_integer_name(NestReader *r, SymbolId *symbol) {
    enum { KINDS = 1 << NAMED_SIZE | 1 << NAMED_DERIVED | 1 << NAMED_LOOP | 1 << NAMED_VALUE };
    NestWord word = nest_peek(r);
    NestName name;
    if (!nest_read_name(r, KINDS, "an integer's name", &name)) return false;
    const char class = type_info[r->nest->symbols[name.symbol].type].class;
    *symbol = name.symbol;
    return class == 'S' || class == 'U' || nest_fail(r, word, "an integer's name");
}

/* 8*c*row, c*row or 8 */
static bool read_term(NestReader *r, Index *term) {
    Arena *arena = r->nest->arena;
    int64_t factor = 1;
    uint32_t count = 0;
    *term = index_number(arena, 1);
    if (isdigit((unsigned char)*nest_peek(r).text)) {
        if (!nest_read_integer(r, "an integer of an index", FACTOR_MAX, &factor)) return false;
        *term = index_number(arena, factor);
        if (!nest_accept(r, "*")) return true;
    }
    do {
        const NestWord word = nest_peek(r);
        SymbolId symbol;
        if (!read_integer_name(r, &symbol)) return false;
        if (++count > TERM_SYMBOLS_MAX) return nest_fail(r, word, "at most 12 names in a product");
        *term = index_multiply(arena, *term, index_symbol(arena, symbol));
    } while (nest_accept(r, "*"));
    return true;
}

bool nest_read_index(NestReader *r, Index *index) {
    Arena *arena = r->nest->arena;
    Index term;
    *index = index_number(arena, 0);
    for (int terms = 0;; terms++) {
        const NestWord sign = nest_peek(r);
        const bool minus = nest_accept(r, "-");
        if (!minus && terms && !nest_accept(r, "+")) return true;
        if (terms == INDEX_TERMS) return nest_fail(r, sign, "at most 256 terms of an index");
        if (!read_term(r, &term)) return false;
        *index = minus ? index_subtract(arena, *index, term) : index_add(arena, *index, term);
    }
}

/* ---- values ---- */

static bool read_level(NestReader *r, int level, ValueId *value);

/* The bits of a number that is spelled so, or what it is not. */
static const char *number_problem(Type type, bool minus, const char *text, uint64_t *bits) {
    char *end = NULL;
    const bool is_float = type_info[type].class == 'F', word = isalpha((unsigned char)*text);
    const int width = 8 * type_info[type].size;
    if (type_info[type].compute != type || type == TYPE_BOOL) return "a compute type of numbers";
    if (is_float) {
        const double number = strtod(text, &end);
        const float narrow = strtof(text, NULL);
        if (*end || strchr(text, 'x')) return "a number";
        if (!word && (type == TYPE_F64 ? isinf(number) : isinf(narrow)))
            return "a number in the range of its type";
        *bits = ir_number_bits(type, type == TYPE_F64 ? number : (double)narrow);
        if (minus) *bits ^= UINT64_C(1) << (width - 1);
        return NULL;
    }
    const uint64_t half = UINT64_C(1) << (width - 1);
    const uint64_t max = type_info[type].class == 'S' ? half - !minus : half - 1 + half;
    if (minus && type_info[type].class == 'U') return "a number that is not negative";
    if (!read_digits(text, max, bits)) return "an integer in the range of its type";
    if (minus) *bits = 0 - *bits;
    return NULL;
}

/* A number, and its type where it is not f32 or i64. */
static bool read_number(NestReader *r, bool minus, ValueId *value) {
    const NestWord word = nest_take(r);
    const char *text = copy(r, word);
    Type type = strpbrk(text, ".eEn") ? TYPE_F32 : TYPE_I64;
    uint64_t bits = 0;
    if (nest_accept(r, ":") && !nest_read_type(r, &type)) return false;
    const char *problem = number_problem(type, minus, text, &bits);
    if (problem) return nest_fail(r, word, problem);
    *value = ir_constant(r->nest->values, type, bits);
    return true;
}

static bool read_payload(NestReader *r, Value *v) {
    const Function *f = r->nest->values;
    Type type = TYPE_NONE;
    int64_t number = 0;
    switch (v->op) {
    case OP_CAST:
    case OP_ROUND_TO:
    case OP_ROUND_STOCHASTIC:
    case OP_FROM_FIXED:
        if (!nest_expect(r, ".") || !nest_read_type(r, &type)) return false;
        if (v->op == OP_CAST || v->op == OP_FROM_FIXED) v->type = (uint8_t)type;
        if (v->op != OP_CAST) v->payload = type;
        return true;
    case OP_RANDOM_KEY:
        if (!nest_expect(r, ".") ||
            !nest_read_integer(r, "the ordinal of a draw", UINT32_MAX, &number))
            return false;
        v->payload = (uint64_t)number;
        v->type = TYPE_U64;
        return true;
    case OP_CALL: {
        if (!nest_expect(r, ".")) return false;
        const NestWord word = nest_take(r);
        while (v->payload < f->function_count && !nest_is(word, f->functions[v->payload].name))
            v->payload++;
        if (v->payload == f->function_count)
            return nest_fail(r, word, "the name of a function declared above");
        v->type = (uint8_t)f->functions[v->payload].result;
        return true;
    }
    default:
        if ((v->op != OP_EXP && v->op != OP_EXP_LITE) || !nest_accept(r, ".")) return true;
        if (!nest_expect(r, nest_nonpositive)) return false;
        v->payload = EXP_NONPOSITIVE;
        return true;
    }
}

/* Operands in parentheses; a call takes a list of them. */
static bool read_operands(NestReader *r, Value *v) {
    const NestWord open = nest_peek(r);
    ValueId values[ARGUMENTS];
    size_t count = 0, max = v->op == OP_CALL ? ARGUMENTS : op_info[v->op].arity;
    if (!nest_expect(r, "(")) return false;
    while (!nest_accept(r, ")")) {
        if (count && !nest_expect(r, ",")) return false;
        if (count == max) return nest_fail(r, nest_peek(r), "fewer operands");
        if (!read_level(r, 0, &values[count++])) return false;
    }
    if (v->op != OP_CALL && count < max) return nest_fail(r, open, "more operands");
    for (size_t i = count; i-- > 0;) {
        if (v->op == OP_CALL)
            v->arg[0] = ir_list(r->nest->values, values[i], v->arg[0], i);
        else
            v->arg[i] = values[i];
    }
    return true;
}

/* The operation on its operands: *v has all of it but the type of an ordinary one. */
static bool made_value(NestReader *r, NestWord place, Value *v, ValueId *value) {
    Function *f = r->nest->values;
    const Op op = (Op)v->op;
    Type type = TYPE_NONE;
    const bool other = op_info[op].rule == op_info[OP_CAST].rule;
    const char *problem = other ? NULL : ir_result_type(f, op, v->arg, &type);
    if (!nest_refuse(r, place, ERROR_IR_RULE, op_info[op].name, problem)) return false;
    if (!other) v->type = (uint8_t)type;
    if (op == OP_ROUND_TO) v->type = f->values[v->arg[0]].type;
    if (op == OP_ROUND_STOCHASTIC) v->type = TYPE_F32;
    problem = ir_operation_problem(f, v);
    if (!nest_refuse(r, place, ERROR_IR_BROKEN, op_info[op].name, problem)) return false;
    *value = ir_make(f, v, v->arg);
    return true;
}

static bool read_operation(NestReader *r, NestWord word, ValueId *value) {
    Value v = {0};
    while (v.op < OP_COUNT && !(nest_is(word, op_info[v.op].name) && nest_has_operation(v.op)))
        v.op++;
    if (v.op == OP_COUNT) return nest_fail(r, word, "an operation");
    return read_payload(r, &v) && read_operands(r, &v) && made_value(r, word, &v, value);
}

static bool read_index_value(NestReader *r, ValueId *value) {
    Index index;
    if (!nest_read_index(r, &index) || !nest_expect(r, "]")) return false;
    *value = nest_index_value(r->nest, index);
    return true;
}

static bool read_named_value(NestReader *r, ValueId *value) {
    enum { KINDS = 1 << NAMED_SIZE | 1 << NAMED_DERIVED | 1 << NAMED_LOOP | 1 << NAMED_VALUE };
    NestName name;
    if (!nest_read_name(r, KINDS, "a value's name: elements are read by load", &name)) return false;
    *value = nest_name(r->nest, name.symbol);
    return true;
}

/* A number, a name, an operation, an index or a value in parentheses. */
static bool read_primary(NestReader *r, ValueId *value) {
    const NestWord word = nest_peek(r);
    if (++r->operations > OPERATIONS) {
        diagnose(r->compiler, ERROR_TOO_DEEP, range_of(r, word));
        return false;
    }
    if (nest_accept(r, "(")) return read_level(r, 0, value) && nest_expect(r, ")");
    if (nest_accept(r, "[")) return read_index_value(r, value);
    if (nest_is(word, "true") || nest_is(word, "false")) {
        nest_take(r);
        *value = ir_constant(r->nest->values, TYPE_BOOL, nest_is(word, "true"));
        return true;
    }
    const bool minus = nest_accept(r, "-");
    const NestWord number = nest_peek(r);
    if (isdigit((unsigned char)*number.text) || nest_is(number, "inf") || nest_is(number, "nan"))
        return read_number(r, minus, value);
    if (minus || !is_name(word)) return nest_fail(r, number, "a value");
    if (word.text[word.size] != '(' && word.text[word.size] != '.')
        return read_named_value(r, value);
    nest_take(r);
    return read_operation(r, word, value);
}

static const NestOperator *find_operator(NestWord word, int level) {
    for (size_t i = 0; i < nest_operator_count; i++)
        if (nest_operators[i].level >= level && nest_is(word, nest_operators[i].text))
            return &nest_operators[i];
    return NULL;
}

/* Operators that bind at least as tight as `level`, from the left. */
static bool read_level(NestReader *r, int level, ValueId *value) {
    if (!read_primary(r, value)) return false;
    for (;;) {
        const NestWord word = nest_peek(r);
        const NestOperator *operator= find_operator(word, level);
        if (!operator) return true;
        nest_take(r);
        Value v = {.op = (uint8_t) operator->op, .arg = {*value}};
        if (!read_level(r, operator->level + 1, &v.arg[1]) || !made_value(r, word, &v, value))
            return false;
        const NestOperator *next = find_operator(nest_peek(r), level);
        if (next && next->level == NEST_COMPARISON && operator->level == NEST_COMPARISON) {
            diagnose(r->compiler, ERROR_COMPARISON_CHAIN, range_of(r, nest_peek(r)));
            return false;
        }
    }
}

bool nest_read_value(NestReader *r, ValueId *value) {
    r->operations = 0;
    return read_level(r, 0, value);
}
