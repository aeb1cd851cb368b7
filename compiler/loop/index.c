/* index.c: indices as sums of products, and the questions that passes ask of them. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

static int compare_terms(const IndexTerm *a, const IndexTerm *b) {
    for (uint32_t i = 0; i < a->count && i < b->count; i++)
        if (a->symbols[i] != b->symbols[i]) return a->symbols[i] < b->symbols[i] ? -1 : 1;
    return a->count == b->count ? 0 : a->count < b->count ? -1 : 1;
}

static Index of_term(Arena *arena, IndexTerm term) {
    if (term.factor == 0) return (Index){NULL, 0};
    IndexTerm *terms = arena_alloc(arena, sizeof *terms);
    *terms = term;
    return (Index){terms, 1};
}

Index index_number(Arena *arena, int64_t number) {
    return of_term(arena, (IndexTerm){.factor = number});
}

Index index_symbol(Arena *arena, SymbolId symbol) {
    return of_term(arena, (IndexTerm){.factor = 1, .count = 1, .symbols = {symbol}});
}

/* a + factor * b */
static Index add_scaled(Arena *arena, Index a, Index b, int64_t factor) {
    IndexTerm *terms = arena_alloc(arena, (a.count + b.count + 1) * sizeof *terms);
    size_t i = 0, k = 0, count = 0;
    while (i < a.count || k < b.count) {
        const int order = i == a.count   ? 1
                          : k == b.count ? -1
                                         : compare_terms(&a.terms[i], &b.terms[k]);
        IndexTerm term = order <= 0 ? a.terms[i++] : b.terms[k++];
        if (order > 0) term.factor *= factor;
        if (order == 0) term.factor += factor * b.terms[k++].factor;
        if (term.factor != 0) terms[count++] = term;
    }
    return (Index){terms, count};
}

Index index_add(Arena *arena, Index a, Index b) {
    return add_scaled(arena, a, b, 1);
}

Index index_subtract(Arena *arena, Index a, Index b) {
    return add_scaled(arena, a, b, -1);
}

Index index_scale(Arena *arena, Index a, int64_t factor) {
    return add_scaled(arena, (Index){NULL, 0}, a, factor);
}

static IndexTerm multiply_terms(Arena *arena, const IndexTerm *a, const IndexTerm *b) {
    IndexTerm product = {.factor = a->factor * b->factor};
    uint32_t i = 0, k = 0;
    if (a->count + b->count > TERM_SYMBOLS_MAX)
        bug(arena->compiler, "an index has a product of more than %d symbols", TERM_SYMBOLS_MAX);
    while (i < a->count || k < b->count) {
        const bool left = k == b->count || (i < a->count && a->symbols[i] <= b->symbols[k]);
        product.symbols[product.count++] = left ? a->symbols[i++] : b->symbols[k++];
    }
    return product;
}

Index index_multiply(Arena *arena, Index a, Index b) {
    Index sum = {NULL, 0};
    for (size_t i = 0; i < a.count; i++)
        for (size_t k = 0; k < b.count; k++)
            sum = index_add(arena, sum,
                            of_term(arena, multiply_terms(arena, &a.terms[i], &b.terms[k])));
    return sum;
}

/* Takes the symbol out of the term once; false: it is not there. */
static bool divide_term(IndexTerm *term, SymbolId symbol) {
    for (uint32_t i = 0; i < term->count; i++) {
        if (term->symbols[i] != symbol) continue;
        term->count--;
        memmove(&term->symbols[i], &term->symbols[i + 1],
                (term->count - i) * sizeof *term->symbols);
        term->symbols[term->count] = 0;
        return true;
    }
    return false;
}

Index index_coefficient(Arena *arena, Index a, SymbolId symbol) {
    Index sum = {NULL, 0};
    for (size_t i = 0; i < a.count; i++) {
        IndexTerm term = a.terms[i];
        if (divide_term(&term, symbol)) sum = index_add(arena, sum, of_term(arena, term));
    }
    return sum;
}

Index index_replace(Arena *arena, Index a, SymbolId symbol, Index by) {
    Index sum = {NULL, 0};
    if (!index_uses(a, symbol)) return a;
    for (size_t i = 0; i < a.count; i++) {
        IndexTerm term = a.terms[i];
        uint32_t power = 0;
        while (divide_term(&term, symbol)) power++;
        Index product = of_term(arena, term);
        for (; power; power--) product = index_multiply(arena, product, by);
        sum = index_add(arena, sum, product);
    }
    return sum;
}

bool index_equal(Index a, Index b) {
    if (a.count != b.count) return false;
    for (size_t i = 0; i < a.count; i++)
        if (a.terms[i].factor != b.terms[i].factor || compare_terms(&a.terms[i], &b.terms[i]) != 0)
            return false;
    return true;
}

bool index_uses(Index a, SymbolId symbol) {
    for (size_t i = 0; i < a.count; i++)
        for (uint32_t k = 0; k < a.terms[i].count; k++)
            if (a.terms[i].symbols[k] == symbol) return true;
    return false;
}

bool index_is_number(Index a, int64_t *number) {
    if (a.count > 1 || (a.count && a.terms[0].count)) return false;
    *number = a.count ? a.terms[0].factor : 0;
    return true;
}
