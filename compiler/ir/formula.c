/* formula.c: the small expressions of our own tables: the derivatives of ops.def, the rules of
 * simplify.c.
 *
 * They are written in the language itself: names of one letter, numbers, true, false, + - * /,
 * comparisons, unary -, `not`, `if c then a else b`, calls of operations by name, and cast(x) to
 * the type of the whole. A number takes the type of the operand next to it. A text that does not
 * parse is a bug of ours, and every one is read by the tests. */
#include "base/base.h"
#include "ir/ir.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct Reader {
    Compiler *compiler;
    Arena *arena;
    const char *text, *at;
} Reader;

static Formula *new_formula(Reader *r, FormulaKind kind) {
    Formula *formula = arena_alloc(r->arena, sizeof *formula);
    formula->kind = kind;
    return formula;
}

static Formula *new_op(Reader *r, Op op, Formula *a, Formula *b, Formula *c) {
    Formula *formula = new_formula(r, FORMULA_OP);
    formula->op = op;
    formula->arg[0] = a;
    formula->arg[1] = b;
    formula->arg[2] = c;
    return formula;
}

static void skip_blanks(Reader *r) {
    while (*r->at == ' ') r->at++;
}

/* Takes `token` when it comes next; a word only when it ends there. */
static bool accept(Reader *r, const char *token) {
    skip_blanks(r);
    size_t size = strlen(token);
    if (strncmp(r->at, token, size) != 0) return false;
    bool word = isalpha((unsigned char)*token);
    if (word && (isalnum((unsigned char)r->at[size]) || r->at[size] == '_')) return false;
    r->at += size;
    return true;
}

static void expect(Reader *r, const char *token) {
    if (!accept(r, token))
        bug(r->compiler, "formula \"%s\": expected '%s' at \"%s\"", r->text, token, r->at);
}

static Formula *read_formula(Reader *r);

static Formula *read_call(Reader *r, const char *name, size_t size) {
    Formula *call = new_formula(r, FORMULA_OP);
    int arity = 0;
    do {
        if (arity == 3) bug(r->compiler, "formula \"%s\": too many arguments", r->text);
        call->arg[arity++] = read_formula(r);
    } while (accept(r, ","));
    expect(r, ")");
    for (Op op = 1; op < OP_COUNT; op = (Op)(op + 1))
        if (strlen(op_info[op].name) == size && memcmp(op_info[op].name, name, size) == 0)
            call->op = op;
    if (call->op == OP_NONE || op_info[call->op].arity != arity)
        bug(r->compiler, "formula \"%s\": no operation '%.*s' of %d", r->text, (int)size, name,
            arity);
    return call;
}

static Formula *read_primary(Reader *r) {
    skip_blanks(r);
    if (accept(r, "(")) {
        Formula *inside = read_formula(r);
        expect(r, ")");
        return inside;
    }
    if (isdigit((unsigned char)*r->at)) {
        char *end;
        Formula *number = new_formula(r, FORMULA_NUMBER);
        number->number = strtod(r->at, &end);
        r->at = end;
        return number;
    }
    const char *name = r->at;
    while (isalnum((unsigned char)*r->at) || *r->at == '_') r->at++;
    size_t size = (size_t)(r->at - name);
    if (size > 0 && accept(r, "(")) return read_call(r, name, size);
    Formula *leaf = new_formula(r, FORMULA_NAME);
    if (size == 4 && memcmp(name, "true", 4) == 0)
        leaf->number = 1.0, leaf->kind = FORMULA_BOOL;
    else if (size == 5 && memcmp(name, "false", 5) == 0)
        leaf->kind = FORMULA_BOOL;
    else if (size == 1 && islower((unsigned char)*name))
        leaf->name = *name;
    else
        bug(r->compiler, "formula \"%s\": expected a name at \"%s\"", r->text, name);
    return leaf;
}

static Formula *read_unary(Reader *r) {
    if (accept(r, "not")) return new_op(r, OP_NOT, read_unary(r), NULL, NULL);
    if (!accept(r, "-")) return read_primary(r);
    Formula *operand = read_unary(r);
    if (operand->kind != FORMULA_NUMBER) return new_op(r, OP_NEG, operand, NULL, NULL);
    operand->number = -operand->number;
    return operand;
}

/* Infix operators by level, loosest first; a longer one before its beginning. */
static const struct {
    const char *spelling;
    Op op;
    int level;
} infix[] = {{"or", OP_OR, 0}, {"and", OP_AND, 1}, {"==", OP_EQ, 2}, {"!=", OP_NE, 2},
             {"<=", OP_LE, 2}, {"<", OP_LT, 2},    {">=", OP_GE, 2}, {">", OP_GT, 2},
             {"+", OP_ADD, 3}, {"-", OP_SUB, 3},   {"*", OP_MUL, 4}, {"/", OP_DIV, 4}};
enum { LEVELS = 5 };

static Formula *read_infix(Reader *r, int level) {
    if (level == LEVELS) return read_unary(r);
    Formula *left = read_infix(r, level + 1);
    for (size_t i = 0; i < COUNT(infix); i++) {
        if (infix[i].level != level || !accept(r, infix[i].spelling)) continue;
        left = new_op(r, infix[i].op, left, read_infix(r, level + 1), NULL);
        i = SIZE_MAX; /* and look for the next of this level */
    }
    return left;
}

static Formula *read_formula(Reader *r) {
    if (!accept(r, "if")) return read_infix(r, 0);
    Formula *condition = read_formula(r);
    expect(r, "then");
    Formula *then = read_formula(r);
    expect(r, "else");
    return new_op(r, OP_SELECT, condition, then, read_formula(r));
}

const Formula *formula_read(Compiler *compiler, Arena *arena, const char **text) {
    Reader r = {compiler, arena, *text, *text};
    const Formula *formula = read_formula(&r);
    skip_blanks(&r);
    if (*r.at && *r.at != ';') bug(compiler, "formula \"%s\": unexpected \"%s\"", r.text, r.at);
    *text = *r.at ? r.at + 1 : r.at;
    return formula;
}

/* The operand whose type a number next to it takes; the first that is not a number and may not be
 * of another type than its neighbours. */
static int typed_operand(const Formula *formula) {
    for (int i = formula->op == OP_SELECT ? 1 : 0; i < 3; i++)
        if (formula->arg[i] && formula->arg[i]->kind != FORMULA_NUMBER) return i;
    return -1;
}

ValueId formula_build(Function *f, const Formula *formula, const ValueId names[26], Type type) {
    if (formula->kind == FORMULA_NUMBER) return ir_constant_number(f, type, formula->number);
    if (formula->kind == FORMULA_BOOL) return ir_constant_number(f, TYPE_BOOL, formula->number);
    if (formula->kind == FORMULA_NAME) return names[formula->name - 'a'];
    if (formula->op == OP_CAST)
        return ir_cast(f, type, formula_build(f, formula->arg[0], names, type));
    ValueId args[3] = {0};
    int typed = typed_operand(formula);
    Type operand_type = type;
    if (typed >= 0) {
        args[typed] = formula_build(f, formula->arg[typed], names, type);
        operand_type = (Type)f->values[args[typed]].type;
    }
    for (int i = 0; i < 3; i++)
        if (formula->arg[i] && args[i] == 0)
            args[i] = formula_build(f, formula->arg[i], names, operand_type);
    return ir_op(f, formula->op, args[0], args[1], args[2]);
}
