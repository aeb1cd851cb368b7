/* print.c: a nest as text, which read.c reads back.
 *
 * Every symbol has one spelling: its name, or where that is taken its name with a number behind.
 * What an index or a value prints as does not depend on the numbers of symbols and values, so that
 * text that was read prints as it was. A value:
 *
 *   xv * xv + 0.5          operators; f32 has a point, an exponent, or is inf or nan
 *   3   3:i32   0.5:f64    i64; other types say so; true and false
 *   exp(x)  cast.f32(n)  round_to.bf16(x)  random_key.3(a, b, c)  call.NAME(x, y)
 *   [c*row + 4]            an index as an i64 */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

const NestOperator nest_operators[] = {
    {OP_OR, "|", 1},
    {OP_AND, "&", 2},
    {OP_EQ, "==", NEST_COMPARISON},
    {OP_NE, "!=", NEST_COMPARISON},
    {OP_LE, "<=", NEST_COMPARISON},
    {OP_GE, ">=", NEST_COMPARISON},
    {OP_LT, "<", NEST_COMPARISON},
    {OP_GT, ">", NEST_COMPARISON},
    {OP_ADD, "+", 4},
    {OP_SUB, "-", 4},
    {OP_MUL, "*", 5},
    {OP_DIV, "/", 5},
    {OP_FLOORDIV, "//", 5},
    {OP_MOD, "%", 5},
};
const size_t nest_operator_count = COUNT(nest_operators);

const char nest_nonpositive[] = "nonpositive";

bool nest_has_operation(Op op) {
    static const Op others[] = {OP_NONE,      OP_MARK,   OP_STOP_GRADIENT, OP_GRAD,
                                OP_BROADCAST, OP_GATHER, OP_LIST,          OP_CLAMP};
    for (size_t i = 0; i < COUNT(others); i++)
        if (op == others[i]) return false;
    return !(op_info[op].flags & (OP_LEAF | OP_REDUCTION | OP_ARRAY));
}

bool nest_is_word(const char *text, size_t size) {
    static const char *const words[] = {"true", "false", "inf", "nan"};
    for (size_t i = 0; i < COUNT(words); i++)
        if (strlen(words[i]) == size && memcmp(words[i], text, size) == 0) return true;
    return false;
}

const char *nest_reduction_problem(Op op, Type leaves, Type *result) {
    Value values[2] = {[1] = {.op = OP_CONST, .type = (uint8_t)leaves}};
    const Function f = {.values = values, .value_count = COUNT(values)};
    const bool indexed = op == OP_ARGMIN || op == OP_ARGMAX;
    *result = TYPE_NONE;
    if (!(op_info[op].flags & OP_REDUCTION)) return "to be a reduction";
    if (leaves >= TYPE_COUNT || type_info[leaves].compute != leaves) return "a compute type";
    const char *problem = ir_result_type(&f, op, (ValueId[3]){1}, result);
    return problem || indexed ? problem : ir_reduce_problem(&f, op, 1, 0);
}

/* ---- names ---- */

typedef struct Printer {
    const Nest *nest;
    Arena *arena;
    Text *out;
    const char **spellings; /* by symbol; NULL: none yet */
    bool *values;           /* that were looked at */
    bool *functions;        /* that are called */
} Printer;

static bool is_taken(const Printer *p, const char *text) {
    if (nest_is_word(text, strlen(text))) return true;
    for (size_t i = 1; i < p->nest->symbol_count; i++)
        if (p->spellings[i] && strcmp(p->spellings[i], text) == 0) return true;
    return false;
}

/* Letters, digits and `_`, no digit first. */
static char *as_word(Arena *arena, const char *name) {
    char *word =
        arena_printf(arena, "%s%s", isdigit((unsigned char)*name) ? "_" : "", *name ? name : "_");
    for (char *c = word; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '_';
    return word;
}

static const char *spelling(Printer *p, SymbolId symbol) {
    if (symbol == 0 || symbol >= p->nest->symbol_count) return "?";
    if (p->spellings[symbol]) return p->spellings[symbol];
    const char *word = as_word(p->arena, p->nest->symbols[symbol].name), *text = word;
    for (unsigned i = 2; is_taken(p, text); i++) text = arena_printf(p->arena, "%s_%u", word, i);
    return p->spellings[symbol] = text;
}

static void find_calls(Printer *p, ValueId id) {
    const Value *v = &p->nest->values->values[id];
    if (id == 0 || p->values[id]) return;
    p->values[id] = true;
    if (v->op == OP_CALL) p->functions[v->payload] = true;
    for (int i = 0; i < 3; i++) find_calls(p, v->arg[i]);
}

/* In the order in which the text defines them. */
static void spell_nodes(Printer *p, const NestNode *node) {
    for (; node; node = node->next) {
        if (node->name) spelling(p, node->name);
        find_calls(p, node->value);
        find_calls(p, node->pad);
        spell_nodes(p, node->body);
        spell_nodes(p, node->other);
    }
}

static Printer open_printer(const Nest *nest, Text *out) {
    Arena *arena = arena_child(nest->arena);
    Printer p = {nest, arena, out, NULL, NULL, NULL};
    p.spellings = arena_alloc(arena, nest->symbol_count * sizeof *p.spellings);
    p.values = arena_alloc(arena, nest->values->value_count * sizeof *p.values);
    p.functions = arena_alloc(arena, (nest->values->function_count + 1) * sizeof *p.functions);
    for (size_t i = 0; i < nest->array_count; i++) spelling(&p, nest->arrays[i].symbol);
    for (size_t i = 0; i < nest->size_count; i++) spelling(&p, nest->sizes[i]);
    for (size_t i = 0; i < nest->derived_count; i++) spelling(&p, nest->derived[i].symbol);
    spell_nodes(&p, nest->body);
    return p;
}

/* ---- indices ---- */

typedef struct Term {
    int64_t factor;
    uint32_t count;
    const char *symbols[TERM_SYMBOLS_MAX];
} Term;

static int compare_names(const void *a, const void *b) {
    const char *const *left = a, *const *right = b;
    return strcmp(*left, *right);
}

/* Positive first, the constant last, more symbols first, larger first, by name. */
static int compare_terms(const void *a, const void *b) {
    const Term *x = a, *y = b;
    if ((x->factor < 0) != (y->factor < 0)) return x->factor < 0 ? 1 : -1;
    if (x->count != y->count) return x->count > y->count ? -1 : 1;
    if (x->factor != y->factor) {
        const bool larger = x->factor < 0 ? x->factor < y->factor : x->factor > y->factor;
        return larger ? -1 : 1;
    }
    for (uint32_t i = 0; i < x->count; i++) {
        const int order = strcmp(x->symbols[i], y->symbols[i]);
        if (order) return order;
    }
    return 0;
}

static void print_term(const Term *term, bool first, Text *out) {
    const uint64_t size = term->factor < 0 ? 0 - (uint64_t)term->factor : (uint64_t)term->factor;
    const char *separator = "";
    if (first)
        text_puts(out, term->factor < 0 ? "-" : "");
    else
        text_puts(out, term->factor < 0 ? " - " : " + ");
    if (size != 1 || term->count == 0) {
        text_printf(out, "%" PRIu64, size);
        separator = "*";
    }
    for (uint32_t i = 0; i < term->count; i++, separator = "*")
        text_printf(out, "%s%s", separator, term->symbols[i]);
}

static void print_index(Printer *p, Index index) {
    Term *terms = arena_alloc(p->arena, (index.count + 1) * sizeof *terms);
    for (size_t i = 0; i < index.count; i++) {
        terms[i].factor = index.terms[i].factor;
        terms[i].count = index.terms[i].count;
        for (uint32_t k = 0; k < terms[i].count; k++)
            terms[i].symbols[k] = spelling(p, index.terms[i].symbols[k]);
        qsort(terms[i].symbols, terms[i].count, sizeof *terms[i].symbols, compare_names);
    }
    qsort(terms, index.count, sizeof *terms, compare_terms);
    if (index.count == 0) text_puts(p->out, "0");
    for (size_t i = 0; i < index.count; i++) print_term(&terms[i], i == 0, p->out);
}

static void print_indices(Printer *p, const Index *at, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (i) text_puts(p->out, ", ");
        print_index(p, at[i]);
    }
}

/* ---- values ---- */

static void print_value(Printer *p, ValueId id, int level);

static void print_constant(Type type, uint64_t bits, Text *out) {
    const size_t begin = out->size;
    ir_print_number(type, bits, out);
    if (type_info[type].class == 'F' && !strpbrk(out->data + begin, ".ein")) text_puts(out, ".0");
    if (type != TYPE_F32 && type != TYPE_I64 && type != TYPE_BOOL)
        text_printf(out, ":%s", type_info[type].name);
}

/* What stands behind the name of an operation: its payload. */
static void print_payload(const Nest *nest, const Value *v, Text *out) {
    switch (v->op) {
    case OP_CAST: text_printf(out, ".%s", type_info[v->type].name); break;
    case OP_ROUND_TO:
    case OP_ROUND_STOCHASTIC:
    case OP_FROM_FIXED: text_printf(out, ".%s", type_info[v->payload].name); break;
    case OP_RANDOM_KEY: text_printf(out, ".%" PRIu64, v->payload); break;
    case OP_CALL: text_printf(out, ".%s", nest->values->functions[v->payload].name); break;
    default:
        if (ir_is_nonpositive(v)) text_printf(out, ".%s", nest_nonpositive);
    }
}

static void print_operation(Printer *p, const Value *v) {
    const Value *values = p->nest->values->values;
    text_puts(p->out, op_info[v->op].name);
    print_payload(p->nest, v, p->out);
    text_puts(p->out, "(");
    for (int i = 0; i < 3 && v->op != OP_CALL && v->arg[i]; i++) {
        if (i) text_puts(p->out, ", ");
        print_value(p, v->arg[i], 0);
    }
    for (ValueId list = v->op == OP_CALL ? v->arg[0] : 0; list; list = values[list].arg[1]) {
        if (list != v->arg[0]) text_puts(p->out, ", ");
        print_value(p, values[list].arg[0], 0);
    }
    text_puts(p->out, ")");
}

static const NestOperator *find_operator(Op op) {
    for (size_t i = 0; i < nest_operator_count; i++)
        if (nest_operators[i].op == op) return &nest_operators[i];
    return NULL;
}

/* In parentheses where what stands around it binds tighter: `level`. */
static void print_value(Printer *p, ValueId id, int level) {
    const Value *v = &p->nest->values->values[id];
    const NestOperator *operator= find_operator((Op)v->op);
    if (v->op == VALUE_NAME) {
        text_puts(p->out, spelling(p, (SymbolId)v->payload));
    } else if (v->op == VALUE_INDEX) {
        text_puts(p->out, "[");
        print_index(p, *nest_index_of(p->nest, v));
        text_puts(p->out, "]");
    } else if (v->op == OP_CONST) {
        print_constant((Type)v->type, v->payload, p->out);
    } else if (!operator) {
        print_operation(p, v);
    } else {
        if (operator->level<level) text_puts(p->out, "(");
        print_value(p, v->arg[0], operator->level +(operator->level == NEST_COMPARISON));
        text_printf(p->out, " %s ", operator->text);
        print_value(p, v->arg[1], operator->level + 1);
        if (operator->level<level) text_puts(p->out, ")");
    }
}

/* ---- nodes ---- */

static void print_element(Printer *p, const NestNode *n) {
    text_puts(p->out, spelling(p, n->array));
    if (n->list) text_printf(p->out, "{%s}", spelling(p, n->list));
    text_puts(p->out, "[");
    print_indices(p, n->at, n->at_count);
    text_puts(p->out, "]");
}

/* WORD ARRAY[...] = V, with the word min before the array where it is added as a SCATTER_MIN */
static void print_written(Printer *p, const NestNode *n) {
    if (n->op == OP_SCATTER_MIN) text_puts(p->out, "min ");
    print_element(p, n);
    text_puts(p->out, " = ");
    print_value(p, n->value, 0);
}

static void print_declared(Printer *p, const NestNode *n) {
    const NestSymbol *symbol = &p->nest->symbols[n->name];
    if (n->kind == NEST_ALLOC) {
        text_printf(p->out, "%s %s: %s[", nest_scope_names[n->scope], spelling(p, n->name),
                    type_info[symbol->type].name);
        print_indices(p, n->at, n->at_count);
        text_puts(p->out, "]");
        return;
    }
    text_printf(p->out, "%s: %s %s ", spelling(p, n->name), op_info[n->op].name,
                type_info[n->type].name);
    print_index(p, n->extent);
    if (n->at_count) text_puts(p->out, " dims ");
    print_indices(p, n->at, n->at_count);
}

static void print_options(Printer *p, const NestNode *n) {
    if (n->has_limit) {
        text_puts(p->out, " limit ");
        print_index(p, n->limit);
    }
    if (n->where) text_printf(p->out, " where %s", spelling(p, n->where));
    if (n->pad) {
        text_puts(p->out, " pad ");
        print_value(p, n->pad, 0);
    }
    if (n->hint) text_printf(p->out, " hint %s", nest_hint_names[n->hint]);
}

static void print_combine(Printer *p, const NestNode *n) {
    text_printf(p->out, "%s = ", spelling(p, n->name));
    if (n->op) text_printf(p->out, "%s ", op_info[n->op].name);
    print_element(p, n);
    const bool counted = n->op || n->extent.count;
    if (counted) text_puts(p->out, " count ");
    if (counted) print_index(p, n->extent);
}

static void print_line(Printer *p, const NestNode *n) {
    Text *out = p->out;
    text_puts(out, nest_kind_names[n->kind]);
    text_puts(out, n->kind == NEST_ARRIVE && !n->array && !n->name ? "" : " ");
    switch (n->kind) {
    case NEST_LOOP:
        text_printf(out, "%s: %s ", spelling(p, n->name), nest_loop_names[n->loop]);
        print_index(p, n->extent);
        break;
    case NEST_IF:
        print_index(p, n->extent);
        text_puts(out, n->version ? " > 0 version" : " > 0");
        break;
    case NEST_WHEN: text_puts(out, spelling(p, n->where)); break;
    case NEST_LET:
        text_printf(out, "%s = ", spelling(p, n->name));
        print_value(p, n->value, 0);
        break;
    case NEST_LOAD:
        text_printf(out, "%s = ", spelling(p, n->name));
        print_element(p, n);
        break;
    case NEST_STORE:
    case NEST_ADD:
    case NEST_PUSH: print_written(p, n); break;
    case NEST_ALLOC:
    case NEST_TREE:
    case NEST_FOLD: print_declared(p, n); break;
    case NEST_COMBINE: print_combine(p, n); break;
    case NEST_BARRIER: text_puts(out, nest_scope_names[n->scope]); break;
    case NEST_ARRIVE:
        if (!n->array && !n->name) break;
        if (n->name) text_printf(out, "%s = ", spelling(p, n->name));
        print_element(p, n);
        text_puts(out, " of ");
        print_index(p, n->extent);
        if (n->value) {
            text_puts(out, " by ");
            print_value(p, n->value, 0);
        }
        break;
    case NEST_PREFETCH:
        print_element(p, n);
        text_puts(out, " count ");
        print_index(p, n->extent);
        break;
    case NEST_KIND_COUNT: break;
    }
    if (n->kind != NEST_WHEN) print_options(p, n);
}

static void print_body(Printer *p, const NestNode *node, int depth) {
    for (; node; node = node->next) {
        text_printf(p->out, "%*s", 2 * depth, "");
        print_line(p, node);
        text_puts(p->out, "\n");
        print_body(p, node->body, depth + 1);
        if (node->other) text_printf(p->out, "%*selse\n", 2 * depth, "");
        print_body(p, node->other, depth + 1);
    }
}

static void print_fact(Printer *p, const NestFact *fact) {
    text_printf(p->out, "  fact %s ", spelling(p, fact->symbol));
    if (fact->kind == FACT_MULTIPLE)
        text_printf(p->out, "multiple of %" PRId64 "\n", fact->number);
    else if (fact->kind == FACT_EQUAL)
        text_printf(p->out, "= %" PRId64 "\n", fact->number);
    else
        text_puts(p->out, "absent\n");
}

static void print_function(const CFunction *function, Text *out) {
    text_printf(out, "  function %s(", function->name);
    for (size_t i = 0; i < function->parameter_count; i++)
        text_printf(out, "%s%s", i ? ", " : "", type_info[function->parameters[i]].name);
    text_printf(out, "): %s\n", type_info[function->result].name);
}

static void print_header(Printer *p) {
    const Nest *nest = p->nest;
    text_printf(p->out, "nest %s warps %u lanes %u width %u\n", as_word(p->arena, nest->name),
                nest->warps, nest->lanes, nest->width);
    for (size_t i = 0; i < nest->array_count; i++) {
        const NestArray *array = &nest->arrays[i];
        text_printf(p->out, "  array %s%s: %s[", spelling(p, array->symbol),
                    array->list ? "{}" : "", type_info[nest->symbols[array->symbol].type].name);
        if (!array->list) print_index(p, array->extent);
        text_printf(p->out, "] %s%s\n", nest_role_names[array->role],
                    array->aliased ? " aliased" : "");
    }
    for (size_t i = 0; i < nest->size_count; i++)
        text_printf(p->out, "%s%s", i ? ", " : "  size ", spelling(p, nest->sizes[i]));
    if (nest->size_count) text_puts(p->out, "\n");
    for (size_t i = 0; i < nest->derived_count; i++) {
        text_printf(p->out, "  derived %s = ", spelling(p, nest->derived[i].symbol));
        print_value(p, nest->derived[i].value, 0);
        text_puts(p->out, "\n");
    }
    for (size_t i = 0; i < nest->fact_count; i++) print_fact(p, &nest->facts[i]);
    for (size_t i = 0; i < nest->values->function_count; i++)
        if (p->functions[i]) print_function(&nest->values->functions[i], p->out);
}

void nest_print(const Nest *nest, Text *out) {
    Printer p = open_printer(nest, out);
    print_header(&p);
    print_body(&p, nest->body, 1);
    arena_close(p.arena);
}

void nest_print_node(const Nest *nest, const NestNode *node, Text *out) {
    Printer p = open_printer(nest, out);
    print_line(&p, node);
    arena_close(p.arena);
}
