/* nest_value.c: the symbols, indices and values of a nest in generated code.
 *
 * A LET that one value behind it in the same body uses, and that the source does not name, stands
 * inside that value, one that is only stored in its store, and a copy is its original; every other
 * one is a `const` statement. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"
#include "emit/emit.h"

/* ---- how often symbols are used ---- */

static void count_index(NestPrinter *p, Index index) {
    for (size_t t = 0; t < index.count; t++)
        for (uint32_t k = 0; k < index.terms[t].count; k++) {
            p->uses[index.terms[t].symbols[k]]++;
            p->is_index[index.terms[t].symbols[k]] = true;
        }
}

static void count_value(NestPrinter *p, ValueId id) {
    const Value *values = p->nest->values->values, *v = &values[id];
    if (!id) return;
    if (v->op == VALUE_NAME) {
        p->uses[v->payload]++;
        p->user_body[v->payload] = p->body;
    }
    if (v->op == VALUE_INDEX) count_index(p, *nest_index_of(p->nest, v));
    for (ValueId list = v->op == OP_CALL ? v->arg[0] : 0; list; list = values[list].arg[1])
        count_value(p, values[list].arg[0]);
    for (int i = 0; i < op_info[v->op].arity && v->op != OP_CALL; i++) count_value(p, v->arg[i]);
}

static void mark_bounds(NestPrinter *p, Index extent) {
    for (size_t t = 0; t < extent.count; t++)
        for (uint32_t k = 0; k < extent.terms[t].count; k++)
            p->is_bound[extent.terms[t].symbols[k]] = true;
}

static void count_body(NestPrinter *p, const NestNode *body) {
    for (const NestNode *node = body; node; node = node->next) {
        p->body = body;
        p->own_body[node->name] = body;
        for (size_t i = 0; i < node->at_count; i++) count_index(p, node->at[i]);
        count_index(p, node->extent);
        if (node->kind == NEST_LOOP) mark_bounds(p, node->extent);
        if (node->has_limit) count_index(p, node->limit);
        p->uses[node->list] += node->list ? 1 : 0;
        p->is_index[node->list] = true;
        p->uses[node->where] += node->where ? 1 : 0;
        p->is_index[node->where] = true; /* by name */
        p->uses[node->array] += node->array ? 1 : 0;
        const Value *value = &p->nest->values->values[node->value];
        if (node->kind == NEST_STORE && value->op == VALUE_NAME) p->store[value->payload] = node;
        count_value(p, node->value);
        count_value(p, node->pad);
        count_body(p, node->body);
        count_body(p, node->other);
    }
}

void print_count_uses(NestPrinter *p) {
    count_body(p, p->nest->body);
    count_index(p, p->plain->elements);
    for (size_t i = p->nest->derived_count; i-- > 0;)
        if (p->uses[p->nest->derived[i].symbol]) count_value(p, p->nest->derived[i].value);
}

/* ---- symbols ---- */

bool print_is_unnamed(const char *name) {
    return *name == 't' && name[1] && name[1 + strspn(name + 1, "0123456789")] == 0;
}

const char *print_symbol(NestPrinter *p, SymbolId symbol) {
    if (!p->spelled[symbol]) p->spelled[symbol] = names_nest(p->e, p->nest->symbols[symbol].name);
    return p->spelled[symbol];
}

/* ---- indices ---- */

static int compare_terms(const void *a, const void *b) {
    const IndexTerm *x = a, *y = b;
    if ((x->factor < 0) != (y->factor < 0)) return x->factor < 0 ? 1 : -1;
    if (x->count != y->count) return x->count > y->count ? -1 : 1;
    if (x->factor != y->factor) return x->factor > y->factor ? -1 : 1;
    return x->count && x->symbols[0] != y->symbols[0] ? (x->symbols[0] < y->symbols[0] ? -1 : 1)
                                                      : 0;
}

const char *print_index(NestPrinter *p, Index index) {
    Text text = text_open(p->arena);
    IndexTerm *terms = arena_alloc(p->arena, (index.count + 1) * sizeof *terms);
    if (index.count == 0) return "0";
    memcpy(terms, index.terms, index.count * sizeof *terms);
    qsort(terms, index.count, sizeof *terms, compare_terms);
    for (size_t i = 0; i < index.count; i++) {
        const IndexTerm *term = &terms[i];
        const uint64_t size =
            term->factor < 0 ? 0 - (uint64_t)term->factor : (uint64_t)term->factor;
        const char *join = "";
        text_puts(&text, term->factor < 0 ? (i ? " - " : "-") : i ? " + " : "");
        if (size != 1 || !term->count) {
            text_printf(&text, "%" PRIu64, size);
            join = " * ";
        }
        for (uint32_t k = 0; k < term->count; k++, join = " * ")
            text_printf(&text, "%s%s", join, print_symbol(p, term->symbols[k]));
    }
    return text.data;
}

/* `0 < amount`, each side without what the other has. */
const char *print_amount(NestPrinter *p, Index amount) {
    Index less = {NULL, 0}, more = {NULL, 0};
    IndexTerm *terms = arena_alloc(p->arena, (2 * amount.count + 1) * sizeof *terms);
    less.terms = terms;
    more.terms = terms + amount.count;
    for (size_t i = 0; i < amount.count; i++) {
        IndexTerm term = amount.terms[i];
        const bool negative = term.factor < 0;
        if (negative) term.factor = -term.factor;
        terms[negative ? less.count : amount.count + more.count] = term;
        *(negative ? &less.count : &more.count) += 1;
    }
    return arena_printf(p->arena, "%s < %s", print_index(p, less), print_index(p, more));
}

const char *print_bracketed(const NestPrinter *p, const char *text) {
    return strchr(text, ' ') || *text == '-' ? arena_printf(p->arena, "(%s)", text) : text;
}

/* ---- values ---- */

static const char *call_text(NestPrinter *p, const Value *v) {
    const Function *f = p->nest->values;
    Text text = text_open(p->arena);
    text_printf(&text, "ls_c_%s(", f->functions[v->payload].name);
    for (ValueId list = v->arg[0]; list; list = f->values[list].arg[1])
        text_printf(&text, "%s%s", list == v->arg[0] ? "" : ", ",
                    print_value(p, f->values[list].arg[0]));
    text_puts(&text, ")");
    return text.data;
}

/* Whether C has an operator for it, and not a function of ours. */
static bool is_operator(const NestPrinter *p, const Value *v) {
    if (!emit_is_infix(p->e, v)) return false;
    const Value *operand = &p->nest->values->values[v->arg[0]];
    return op_info[v->op].form != FORM_ARITHMETIC || type_info[operand->type].class == 'F';
}

/* What an operand is: in brackets where an operator stands in it. A value that stands inside may be
 * the name of another that does. */
static const char *operand_text(NestPrinter *p, ValueId id) {
    const Value *v = &p->nest->values->values[id];
    const char *text = print_value(p, id);
    while (v->op == VALUE_NAME && p->inside[v->payload])
        v = &p->nest->values->values[p->inside[v->payload]];
    if (v->op == VALUE_INDEX) return print_bracketed(p, text);
    return strchr(text, ' ') && is_operator(p, v) ? arena_printf(p->arena, "(%s)", text) : text;
}

const char *print_value(NestPrinter *p, ValueId id) {
    const Function *f = p->nest->values;
    const Value *v = &f->values[id];
    const char *arg[3] = {NULL, NULL, NULL};
    if (v->op == VALUE_NAME) {
        const SymbolId symbol = (SymbolId)v->payload;
        return p->inside[symbol]       ? print_value(p, p->inside[symbol])
               : p->moved_text[symbol] ? p->moved_text[symbol]
                                       : print_symbol(p, symbol);
    }
    if (v->op == VALUE_INDEX) return print_index(p, *nest_index_of(p->nest, v));
    if (v->op == OP_CALL) return call_text(p, v);
    for (int i = 0; i < op_info[v->op].arity; i++)
        arg[i] = is_operator(p, v) ? operand_text(p, v->arg[i])
                                   : emit_bare(p->e, operand_text(p, v->arg[i]));
    return emit_operation(p->e, f, v, arg);
}

static bool has_product(Index index) {
    for (size_t t = 0; t < index.count; t++)
        if (index.terms[t].count > 1) return true;
    return false;
}

/* Of a LET that is an integer of indices: its operands are not negative, and the divisor is not 0.
 * Where one thread's loop begins or ends, compilers would write the least of two again and again;
 * and of a number with a product in it, they would try all forms of the indices it stands in. */
static const char *let_text(NestPrinter *p, const NestNode *let) {
    const Value *v = &p->nest->values->values[let->value];
    if (p->nest->lanes == 1 && p->is_bound[let->name] && (v->op == OP_MIN || v->op == OP_MAX))
        return arena_printf(p->arena, "ls_bound(%s)", print_value(p, let->value));
    if (p->nest->lanes == 1 && v->op == VALUE_INDEX && has_product(*nest_index_of(p->nest, v)))
        return arena_printf(p->arena, "ls_bound(%s)", print_value(p, let->value));
    if (!p->is_index[let->name] || v->op != OP_FLOORDIV) return print_value(p, let->value);
    return print_quotient(p, let->value);
}

const char *print_quotient(NestPrinter *p, ValueId id) {
    const Value *values = p->nest->values->values, *v = &values[id];
    if (v->op != OP_FLOORDIV) return print_value(p, id);
    if (values[v->arg[1]].op == OP_CONST)
        return arena_printf(p->arena, "(i64)((u64)%s / %" PRIu64 ")", operand_text(p, v->arg[0]),
                            values[v->arg[1]].payload);
    return arena_printf(p->arena, "ls_divide(%s, %s)", print_value(p, v->arg[0]),
                        print_value(p, v->arg[1]));
}

bool print_is_vector(const NestPrinter *p, ValueId id) {
    const Value *v = &p->nest->values->values[id];
    if (v->op == VALUE_NAME) return p->is_vector[v->payload];
    for (int i = 0; v->op != VALUE_INDEX && i < op_info[v->op].arity; i++)
        if (print_is_vector(p, v->arg[i])) return true;
    return false;
}

void print_let(NestPrinter *p, const NestNode *let) {
    const NestSymbol *symbol = &p->nest->symbols[let->name];
    if (p->one_row && p->same_row[let->name]) let = print_first_in_row(p, let);
    if (p->ahead[let->name]) return;
    const char *text = let_text(p, let);
    const Value *value = &p->nest->values->values[let->value];
    if (value->op == VALUE_NAME && !p->is_index[let->name] && !p->inside[value->payload]) {
        p->inside[let->name] = let->value; /* a copy */
        return;
    }
    if (print_is_unnamed(symbol->name) && p->uses[let->name] == 1 && !p->is_index[let->name] &&
        emit_is_short(text) && p->user_body[let->name] == p->own_body[let->name]) {
        p->inside[let->name] = let->value;
        return;
    }
    if (!p->is_index[let->name] && print_is_only_stored(p, let)) {
        p->inside[let->name] = let->value;
        p->moved[let->name] = let;
        return;
    }
    emit_quote_line(p->e, p->out, let->range);
    text_printf(p->out, "const %s %s = %s;\n", emit_type(symbol->type), print_symbol(p, let->name),
                emit_bare(p->e, text));
}
