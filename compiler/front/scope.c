/* scope.c: names and what they stand for, and which name was probably meant. */
#include <string.h>

#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"

enum { WORD_MAX = 48 };

void scope_open(Scope *scope, Arena *arena, Scope *parent) {
    *scope = (Scope){.arena = arena, .parent = parent};
}

static size_t bucket_of(const Scope *scope, const Name *name) {
    uint64_t hash = (uint64_t)(uintptr_t)name * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(hash >> 32) & (scope->bucket_count - 1);
}

static void link_symbol(Scope *scope, Symbol *symbol) {
    Symbol **bucket = &scope->buckets[bucket_of(scope, symbol->name)];
    symbol->chain = *bucket;
    *bucket = symbol;
}

Symbol *scope_find_here(const Scope *scope, const Name *name) {
    if (scope->bucket_count == 0) return NULL;
    Symbol *symbol = scope->buckets[bucket_of(scope, name)];
    while (symbol && symbol->name != name) symbol = symbol->chain;
    return symbol;
}

Symbol *scope_find(const Scope *scope, const Name *name) {
    Symbol *symbol = NULL;
    for (; scope && !symbol; scope = scope->parent) symbol = scope_find_here(scope, name);
    return symbol && symbol->origin && !symbol->another ? symbol->origin : symbol;
}

Symbol *scope_add(Scope *scope, const Name *name, Range range, SymbolKind kind) {
    if (scope->count >= scope->bucket_count) {
        scope->bucket_count = scope->bucket_count ? scope->bucket_count * 4 : 16;
        scope->buckets = arena_alloc(scope->arena, scope->bucket_count * sizeof *scope->buckets);
        for (Symbol *symbol = scope->first; symbol; symbol = symbol->next)
            link_symbol(scope, symbol);
    }
    Symbol *symbol = arena_alloc(scope->arena, sizeof *symbol);
    *symbol = (Symbol){.name = name, .range = range, .kind = (uint8_t)kind, .next = scope->first};
    scope->first = symbol;
    scope->count++;
    link_symbol(scope, symbol);
    return symbol;
}

const char *symbol_describe(const Symbol *symbol) {
    static const char *const words[] = {"a name",
                                        "a constant",
                                        "an axis",
                                        "a parameter",
                                        "bound by `let`",
                                        "a parameter",
                                        "a function",
                                        "a step",
                                        "a function of the language",
                                        "the running value of a scan",
                                        "a C function",
                                        "an import",
                                        "a name of two imports"};
    return words[symbol->kind];
}

/* Letters to add, drop, change or exchange to get from one word to the other. */
static size_t distance(const Name *a, const Name *b) {
    size_t rows[3][WORD_MAX + 1], *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b->size; j++) above[j] = before[j] = j;
    for (size_t i = 1; i <= a->size; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b->size; j++) {
            size_t best = above[j - 1] + (a->text[i - 1] != b->text[j - 1]);
            if (above[j] + 1 < best) best = above[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            bool exchanged = i > 1 && j > 1 && a->text[i - 1] == b->text[j - 2] &&
                             a->text[i - 2] == b->text[j - 1];
            if (exchanged && before[j - 2] + 1 < best) best = before[j - 2] + 1;
            row[j] = best;
        }
        size_t *spare = before;
        before = above;
        above = row;
        row = spare;
    }
    return above[b->size];
}

const char *scope_suggest(const Scope *scope, const Name *name, unsigned kinds) {
    const Name *best = NULL;
    size_t min = name->size <= 5 ? 2 : name->size <= 10 ? 3 : 4; /* not this far */
    if (name->size > WORD_MAX) return NULL;
    for (; scope; scope = scope->parent) {
        for (const Symbol *symbol = scope->first; symbol; symbol = symbol->next) {
            const Name *other = symbol->name;
            size_t gap =
                name->size > other->size ? name->size - other->size : other->size - name->size;
            if (!(kinds >> symbol->kind & 1) || other->size > WORD_MAX || gap > min) continue;
            size_t d = distance(name, other);
            bool closer = d < min || (best && d == min); /* of equals, what was defined first */
            if (!closer || d >= name->size || d >= other->size) continue;
            min = d;
            best = other;
        }
    }
    return best ? best->text : NULL;
}
