/* passes.c: passes on a nest, each held against the bits of the nest before it.
 *
 *   launch:WARPS,LANES,WIDTH      what the nest is for
 *   tile:LOOP,serial|grid|warp|once|alone    tile:LOOP,rows,N
 *   place_tree:TREE,register|worker|shared|global     two_trees:TREE,register|worker|shared|global
 *   load_first:LOOP   jam:LOOP,N   split_tail:LOOP   sweep   tidy
 *   coalesce:LOOP     coalesce:LOOP,divide
 *   deal:LOOP,warps|once|lanes   strip:LOOP,N   interchange:LOOP,N   skip_empty:LOOP
 *   keep:REGISTERS    guard_reuse   hoist   forward   drop_stores:ARRAY   merge_tests
 *   pipeline:LOOP     peel:LOOP    version:LOOP   quotients:LOOP
 *   tile_tree:TREE,register|worker|shared|global    order_accesses:LOOP,ARRAY,warp|block
 *   align:LOOP        narrow     merge_barriers     split_index:LOOP,N
 *   split_version:LOOP, of the first test in it       promote:LOOP
 *
 * A loop or a tree is called as the text has it. SIZES, such as n=1000,c=3, are those of the
 * arrays; several sets of them, separated by slashes, make several runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

#include "nest_tool.h"

enum { ARRAYS = 32, SETS = 16 };

typedef struct Set {
    int64_t sizes[ARRAYS]; /* by place in nest->sizes */
    void *before[ARRAYS];  /* by array: what the first run left */
    size_t bytes[ARRAYS];
} Set;

/* ---- data ---- */

static int64_t extent_of(const Nest *nest, const Set *set, Index extent) {
    int64_t sum = 0;
    for (size_t t = 0; t < extent.count; t++) {
        int64_t product = extent.terms[t].factor;
        for (uint32_t k = 0; k < extent.terms[t].count; k++)
            for (size_t i = 0; i < nest->size_count; i++)
                if (nest->sizes[i] == extent.terms[t].symbols[k]) product *= set->sizes[i];
        sum += product;
    }
    return sum;
}

static uint64_t random_bits(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static void fill(Type type, void *data, int64_t count, uint64_t *state) {
    for (int64_t i = 0; i < count; i++) {
        const uint64_t bits = random_bits(state);
        const double number = (double)(int64_t)(bits % 20001) / 1000.0 - 10.0;
        ir_store_element(type, data, i, ir_number_bits(type_info[type].compute, number));
    }
}

/* Runs it on the set's data; false after a message. */
static bool run_set(const Nest *nest, Set *set, bool first, uint64_t seed) {
    NestBinding bindings[2 * ARRAYS];
    void *data[ARRAYS];
    int64_t counts[ARRAYS];
    size_t count = 0;
    bool same = true;
    for (size_t i = 0; i < nest->array_count; i++) {
        const Type type = nest->symbols[nest->arrays[i].symbol].type;
        uint64_t state = i + 1;
        counts[i] = extent_of(nest, set, nest->arrays[i].extent);
        set->bytes[i] = (size_t)counts[i] * type_info[type].size;
        data[i] = calloc(1, set->bytes[i] + 8);
        if (nest->arrays[i].role != ARRAY_OUT) fill(type, data[i], counts[i], &state);
        bindings[count++] = (NestBinding){
            .symbol = nest->arrays[i].symbol, .data = data[i], .counts = &counts[i], .tensors = 1};
    }
    for (size_t i = 0; i < nest->size_count; i++)
        bindings[count++] = (NestBinding){.symbol = nest->sizes[i], .size = set->sizes[i]};
    const NestRun job = {bindings, count, NULL, seed};
    const char *problem = nest_run(nest, &job);
    if (problem) printf("it stops: %s\n", problem);
    for (size_t i = 0; i < nest->array_count; i++) {
        const bool dropped = nest->arrays[i].role == ARRAY_TEMPORARY &&
                             !nest_body_uses(nest, nest->body, nest->arrays[i].symbol);
        const bool differs =
            !first && !problem && !dropped && memcmp(data[i], set->before[i], set->bytes[i]) != 0;
        if (differs) printf("%s has other bits\n", nest->symbols[nest->arrays[i].symbol].name);
        same &= !differs;
        if (first)
            set->before[i] = data[i];
        else
            free(data[i]);
    }
    return same && !problem;
}

/* ---- passes ---- */

/* The symbol that the text calls so: NAME_2 is the second of that name. */
static SymbolId find_name(const Nest *nest, const char *word, size_t size) {
    for (int whole = 1; whole >= 0; whole--) {
        size_t length = size, number = 1, seen = 0;
        if (!whole) {
            while (length && word[length - 1] >= '0' && word[length - 1] <= '9') length--;
            if (length < 2 || length == size || word[length - 1] != '_') return 0;
            number = strtoul(word + length, NULL, 10);
            length--;
        }
        for (SymbolId s = 1; s < nest->symbol_count; s++) {
            const NestSymbol *symbol = &nest->symbols[s];
            if (strlen(symbol->name) != length || strncmp(symbol->name, word, length) != 0)
                continue;
            if (symbol->kind != NAMED_ARRAY && !nest_find((NestNode **)(uintptr_t)&nest->body, s))
                continue;
            if (++seen == number) return s;
        }
    }
    return 0;
}

static NestScope scope_of(const char *word) {
    for (NestScope scope = SCOPE_REGISTER; scope <= SCOPE_GLOBAL; scope++)
        if (strcmp(word, nest_scope_names[scope]) == 0) return scope;
    return SCOPE_REGISTER;
}

static const char *tile(Nest *nest, SymbolId name, const char *kind) {
    TileNumbers numbers = {.kind = LOOP_SERIAL};
    if (strncmp(kind, "rows,", 5) == 0) {
        numbers.single = true;
        numbers.rows = (uint32_t)strtoul(kind + 5, NULL, 10);
    }
    numbers.alone = strcmp(kind, "alone") == 0;
    numbers.once = strcmp(kind, "once") == 0;
    if (numbers.once) numbers.kind = LOOP_WARP;
    for (LoopKind k = LOOP_GRID; k <= LOOP_SERIAL; k++)
        if (strcmp(kind, nest_loop_names[k]) == 0) numbers.kind = k;
    return nest_tile(nest, name, &numbers);
}

static const char *order_accesses(Nest *nest, SymbolId loop, const char *rest) {
    const size_t size = strcspn(rest, ",");
    if (!rest[size]) return "order_accesses wants LOOP,ARRAY,SCOPE";
    nest_order_accesses(nest, loop, find_name(nest, rest, size),
                        strcmp(rest + size + 1, "warp") == 0 ? SCOPE_WARP : SCOPE_BLOCK);
    return NULL;
}

static const char *split_version(Nest *nest, SymbolId loop) {
    NestNode **place = nest_find(&nest->body, loop);
    NestNode **test = place ? &(*place)->body : NULL;
    while (test && *test && (*test)->kind != NEST_IF) test = &(*test)->next;
    if (!test || !*test) return "there is no such test";
    nest_split_version(nest, test);
    return NULL;
}

/* NULL, or why not. */
static const char *apply(Nest *nest, const char *word) {
    const size_t length = strcspn(word, ":");
    const char *of = word[length] ? word + length + 1 : "";
    const size_t name_size = strcspn(of, ",");
    const char *rest = of[name_size] ? of + name_size + 1 : "";
    const SymbolId name = find_name(nest, of, name_size);
    const struct {
        const char *word;
        int number;
    } known[] = {{"launch", 0},
                 {"tile", 1},
                 {"place_tree", 2},
                 {"load_first", 3},
                 {"jam", 4},
                 {"split_tail", 5},
                 {"sweep", 6},
                 {"tidy", 7},
                 {"coalesce", 8},
                 {"deal", 9},
                 {"strip", 10},
                 {"interchange", 11},
                 {"two_trees", 12},
                 {"skip_empty", 13},
                 {"keep", 14},
                 {"guard_reuse", 15},
                 {"forward", 16},
                 {"drop_stores", 17},
                 {"merge_tests", 18},
                 {"hoist", 19},
                 {"pipeline", 20},
                 {"peel", 21},
                 {"trim", 22},
                 {"version", 23},
                 {"tile_tree", 24},
                 {"quotients", 25},
                 {"order_accesses", 26},
                 {"vectorize", 27},
                 {"unswitch", 28},
                 {"sink", 29},
                 {"align", 30},
                 {"narrow", 31},
                 {"merge_barriers", 32},
                 {"split_index", 33},
                 {"split_version", 34},
                 {"promote", 35}};
    int number = -1;
    for (size_t i = 0; i < COUNT(known); i++)
        if (strlen(known[i].word) == length && strncmp(word, known[i].word, length) == 0)
            number = known[i].number;
    switch (number) {
    case 0:
        return sscanf(of, "%u,%u,%u", &nest->warps, &nest->lanes, &nest->width) == 3
                   ? NULL
                   : "launch wants WARPS,LANES,WIDTH";
    case 1: return tile(nest, name, rest);
    case 2: return nest_place_tree(nest, name, scope_of(rest));
    case 3: return nest_load_first(nest, name);
    case 4: return nest_jam(nest, name, strtol(rest, NULL, 10));
    case 5: return nest_split_tail(nest, name);
    case 8: return nest_coalesce(nest, name, strcmp(rest, "divide") == 0);
    case 9:
        return nest_deal(nest, name,
                         strcmp(rest, "lanes") == 0  ? DEAL_LANES
                         : strcmp(rest, "once") == 0 ? DEAL_ONCE
                                                     : DEAL_WARPS);
    case 10: return nest_strip(nest, name, strtol(rest, NULL, 10), NULL);
    case 11: return nest_interchange(nest, name, strtol(rest, NULL, 10));
    case 12: return nest_two_trees(nest, name, scope_of(rest));
    case 13: return nest_skip_empty(nest, name);
    case 14: return nest_keep(nest, strtol(of, NULL, 10)), NULL;
    case 15: return nest_guard_reuse(nest), NULL;
    case 16: return nest_forward(nest), NULL;
    case 17: return nest_drop_stores(nest, name) ? NULL : "the nest loads from it";
    case 18: return nest_merge_tests(nest), NULL;
    case 20: return nest_pipeline(nest, name);
    case 21: return nest_peel(nest, name);
    case 22: return nest_trim(nest, name);
    case 23: return nest_version(nest, name, NULL);
    case 24: return nest_tile_tree(nest, name, scope_of(rest));
    case 25: return nest_quotients(nest, name, NULL);
    case 26: return order_accesses(nest, name, rest);
    case 27: return nest_vectorize(nest, &nest->body, name, NULL);
    case 19: return nest_hoist(nest), NULL;
    case 30: return nest_align(nest, name, NULL);
    case 31: return nest_narrow(nest, nest->body), NULL;
    case 32: return nest_merge_barriers(nest), NULL;
    case 33: return nest_split_index(nest, name, strtol(rest, NULL, 10));
    case 34: return split_version(nest, name);
    case 28: return nest_unswitch(nest), NULL;
    case 35: return nest_promote(nest, name, NULL) ? NULL : "the loop carries no element";
    case 29:
        for (NestNode *node = nest->body; node; node = node->next)
            if (node->kind == NEST_LOOP) nest_sink(nest, node);
        return NULL;
    case 6: return nest_sweep(nest), NULL;
    case 7: return nest_tidy(nest), NULL;
    default: return "there is no such pass";
    }
}

/* ---- the words ---- */

static bool read_sizes(const Nest *nest, const char *text, Set *set) {
    for (const char *at = text; *at && *at != '/'; at += *at == ',') {
        const size_t length = strcspn(at, "=");
        bool known = false;
        for (size_t i = 0; i < nest->size_count; i++) {
            const char *name = nest->symbols[nest->sizes[i]].name;
            if (strlen(name) != length || strncmp(name, at, length) != 0) continue;
            set->sizes[i] = strtoll(at + length + 1, NULL, 10);
            known = true;
        }
        if (!known) return false;
        at += strcspn(at, ",/");
    }
    return true;
}

int run_passes(Nest *nest, char **words, int count) {
    static Set sets[SETS];
    size_t set_count = 0;
    int begin = 0;
    if (nest->array_count > ARRAYS || nest->size_count > ARRAYS) return 1;
    if (strchr(words[0], '=')) {
        for (const char *at = words[0]; *at && set_count < SETS; at += *at == '/') {
            if (!read_sizes(nest, at, &sets[set_count++])) {
                printf("%s: the nest has no such size\n", at);
                return 1;
            }
            at += strcspn(at, "/");
        }
        begin = 1;
    }
    for (size_t s = 0; s < set_count; s++)
        if (!run_set(nest, &sets[s], true, 1)) return 1;
    for (int i = begin; i < count; i++) {
        const char *refused = apply(nest, words[i]);
        const char *problem = refused ? NULL : nest_problem(nest);
        if (refused || problem) {
            printf("%s: %s%s\n", words[i], refused ? "refused: " : "", refused ? refused : problem);
            return 1;
        }
        for (size_t s = 0; s < set_count; s++)
            if (!run_set(nest, &sets[s], false, (uint64_t)i + 2)) {
                printf("behind %s\n", words[i]);
                return 1;
            }
    }
    Text out = text_open(nest->arena);
    nest_print(nest, &out);
    fputs(out.data, stdout);
    if (set_count) printf("the same bits at %zu sets of sizes\n", set_count);
    return 0;
}
