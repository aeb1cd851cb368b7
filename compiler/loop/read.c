/* read.c: reads a nest from its text, which loop.h describes, a line a node.
 *
 * A line with an error is passed over, and so are the lines that use its name: each mistake gives
 * one message. What is read has names of the right kind and values of the right types; all other
 * rules are those of check.c. Comments begin with `#`. */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

enum { DEPTH = 64, SUBSCRIPTS = 16, NAMES = 10000, FUNCTIONS = 64, PARAMETERS = 32 };

/* What a line defines, once all of it is read. */
typedef struct Defined {
    NestWord word; /* of size 0: nothing */
    NamedKind kind;
    Type type;
    Op op;
} Defined;

/* ---- lines ---- */

/* At the next line that is not empty, behind its indentation; false at the end of the text. */
static bool next_line(NestReader *r, int *spaces) {
    for (;;) {
        r->line = r->at;
        while (*r->at == ' ') r->at++;
        *spaces = (int)(r->at - r->line);
        if (nest_peek(r).size) return true;
        while (*r->at && *r->at != '\n') r->at++;
        if (*r->at == 0) return false;
        r->at++;
    }
}

static void pass_line(NestReader *r) {
    while (*r->at && *r->at != '\n') r->at++;
}

static Range line_range(const NestReader *r) {
    const char *begin = r->line;
    while (*begin == ' ') begin++;
    return (Range){r->file, (uint32_t)(begin - r->start), (uint32_t)(r->at - r->start)};
}

static bool end_line(NestReader *r) {
    const NestWord word = nest_peek(r);
    return word.size == 0 || nest_fail(r, word, "the end of the line");
}

/* The symbol, or 0 for one whose line is broken. */
static void add_name(NestReader *r, const Defined *defined, SymbolId symbol) {
    if (defined->word.size == 0) return;
    r->names =
        arena_grow(r->nest->arena, r->names, r->name_count, &r->name_capacity, sizeof *r->names);
    r->names[r->name_count++] = (NestName){defined->word, symbol, defined->op};
}

static const char *name_of(const NestReader *r, const Defined *defined) {
    return arena_copy(r->nest->arena, defined->word.text, defined->word.size);
}

static bool has_room(NestReader *r) {
    if (r->name_count < NAMES) return true;
    diagnose(r->compiler, ERROR_TOO_MANY, line_range(r), "names", r->name_count, NAMES);
    return false;
}

/* ---- the header ---- */

static bool read_count(NestReader *r, const char *word, int64_t max, uint32_t *count) {
    int64_t number;
    if (!nest_expect(r, word)) return false;
    const NestWord digits = nest_peek(r);
    if (!nest_read_integer(r, "a count of the launch", max, &number)) return false;
    *count = (uint32_t)number;
    return number > 0 || nest_fail(r, digits, "a count of the launch");
}

static bool read_launch(NestReader *r) {
    Defined name = {0};
    if (!nest_expect(r, "nest") || !nest_read_new(r, &name.word)) return false;
    r->nest->name = r->nest->values->name = name_of(r, &name);
    return read_count(r, "warps", 64, &r->nest->warps) &&
           read_count(r, "lanes", 64, &r->nest->lanes) &&
           read_count(r, "width", 64, &r->nest->width) && end_line(r);
}

static bool read_array(NestReader *r, Defined *d) {
    Index extent = index_number(r->nest->arena, 0);
    int role;
    if (!nest_read_new(r, &d->word)) return false;
    const bool list = nest_accept(r, "{");
    if (list && !nest_expect(r, "}")) return false;
    if (!nest_expect(r, ":") || !nest_read_type(r, &d->type) || !nest_expect(r, "[")) return false;
    if (!list && !nest_read_index(r, &extent)) return false;
    if (!nest_expect(r, "]") || !nest_read_choice(r, nest_role_names, 0, COUNT(nest_role_names),
                                                  "in, out, inout, table or temporary", &role))
        return false;
    const bool aliased = nest_accept(r, "aliased");
    if (!end_line(r)) return false;
    add_name(r, d, nest_array(r->nest, name_of(r, d), d->type, (ArrayRole)role, list, extent));
    r->nest->arrays[r->nest->array_count - 1].aliased = aliased;
    return true;
}

static bool read_sizes(NestReader *r, Defined *d) {
    do {
        if (!has_room(r) || !nest_read_new(r, &d->word)) return false;
        add_name(r, d, nest_size(r->nest, name_of(r, d)));
        d->word.size = 0;
    } while (nest_accept(r, ","));
    return end_line(r);
}

static bool read_derived(NestReader *r, Defined *d) {
    ValueId value;
    if (!nest_read_new(r, &d->word) || !nest_expect(r, "=")) return false;
    if (!nest_read_value(r, &value) || !end_line(r)) return false;
    add_name(r, d, nest_derived(r->nest, name_of(r, d), value));
    return true;
}

static bool read_fact(NestReader *r) {
    enum { KINDS = 1 << NAMED_SIZE | 1 << NAMED_ARRAY };
    static const char *const words[] = {"multiple", "=", "absent"};
    NestName name;
    NestFact fact = {FACT_MULTIPLE, 0, 0};
    int kind;
    if (!nest_read_name(r, KINDS, "the name of a size or an array", &name) ||
        !nest_read_choice(r, words, 0, COUNT(words), "multiple of, = or absent", &kind))
        return false;
    fact.kind = (FactKind)kind;
    fact.symbol = name.symbol;
    if (fact.kind == FACT_MULTIPLE && !nest_expect(r, "of")) return false;
    if (fact.kind != FACT_ABSENT &&
        !nest_read_integer(r, "a number of elements", INT64_MAX, &fact.number))
        return false;
    if (!end_line(r)) return false;
    nest_fact(r->nest, fact);
    return true;
}

static bool read_function(NestReader *r) {
    Function *f = r->nest->values;
    CFunction *functions = (CFunction *)(uintptr_t)f->functions, new = {.source = ""};
    const NestWord name = nest_take(r);
    if (!functions)
        f->functions = functions = arena_alloc(r->nest->arena, FUNCTIONS * sizeof *functions);
    if (f->function_count == FUNCTIONS) return nest_fail(r, name, "at most 64 functions");
    if (name.size == 0) return nest_fail(r, name, "a function's name");
    new.name = arena_copy(r->nest->arena, name.text, name.size);
    new.parameters = arena_alloc(r->nest->arena, PARAMETERS * sizeof *new.parameters);
    if (!nest_expect(r, "(")) return false;
    while (!nest_accept(r, ")")) {
        if (new.parameter_count == PARAMETERS)
            return nest_fail(r, nest_peek(r), "at most 32 parameters");
        if (new.parameter_count && !nest_expect(r, ",")) return false;
        if (!nest_read_type(r, &new.parameters[new.parameter_count++])) return false;
    }
    if (!nest_expect(r, ":") || !nest_read_type(r, &new.result) || !end_line(r)) return false;
    functions[f->function_count++] = new;
    return true;
}

enum { WORD_SIZE, WORD_DERIVED, WORD_FUNCTION, WORD_ARRAY, WORD_FACT, HEADER_WORDS };
static const char *const header_words[HEADER_WORDS] = {"size", "derived", "function", "array",
                                                       "fact"};

static int header_word(NestReader *r) {
    const NestWord word = nest_peek(r);
    int i = 0;
    while (i < HEADER_WORDS && !nest_is(word, header_words[i])) i++;
    return i;
}

/* An array's extent may be made of sizes that stand below it: the first pass reads those. */
static void read_header_pass(NestReader *r, bool first) {
    for (int spaces, word; next_line(r, &spaces); pass_line(r)) {
        Defined d = {.type = TYPE_NONE};
        word = header_word(r);
        if (word == HEADER_WORDS) break;
        if (first != (word < WORD_ARRAY)) continue;
        if (spaces != 2) {
            diagnose(r->compiler, ERROR_NEST_INDENTATION, line_range(r), 2);
            continue;
        }
        nest_take(r);
        if (!has_room(r)) continue;
        const bool good = word == WORD_SIZE       ? read_sizes(r, &d)
                          : word == WORD_DERIVED  ? read_derived(r, &d)
                          : word == WORD_FUNCTION ? read_function(r)
                          : word == WORD_ARRAY    ? read_array(r, &d)
                                                  : read_fact(r);
        if (!good) add_name(r, &d, 0);
    }
}

static void read_header(NestReader *r) {
    const char *begin = r->at;
    read_header_pass(r, true);
    r->at = begin;
    read_header_pass(r, false);
    r->at = r->line;
}

/* ---- nodes ---- */

static bool read_indices(NestReader *r, const char *end, NestNode *n) {
    n->at = nest_at(r->nest, SUBSCRIPTS);
    if (*end && nest_accept(r, end)) return true;
    do {
        if (n->at_count == SUBSCRIPTS) return nest_fail(r, nest_peek(r), "at most 16 subscripts");
        if (!nest_read_index(r, &n->at[n->at_count++])) return false;
    } while (nest_accept(r, ","));
    return !*end || nest_expect(r, end);
}

/* NAME{LIST}[I, ...]; *name: what it is of. */
static bool read_element(NestReader *r, NestNode *n, unsigned kinds, const char *what,
                         NestName *name) {
    enum { INTEGERS = 1 << NAMED_VALUE | 1 << NAMED_LOOP };
    NestName list;
    if (!nest_read_name(r, kinds, what, name)) return false;
    n->array = name->symbol;
    if (nest_accept(r, "{")) {
        if (!nest_read_name(r, INTEGERS, "the name of an integer", &list) || !nest_expect(r, "}"))
            return false;
        n->list = list.symbol;
    }
    return nest_expect(r, "[") && read_indices(r, "]", n);
}

static bool read_bool_name(NestReader *r, SymbolId *symbol) {
    const NestWord word = nest_peek(r);
    NestName name;
    if (!nest_read_name(r, 1 << NAMED_VALUE, "the name of a bool", &name)) return false;
    *symbol = name.symbol;
    return r->nest->symbols[name.symbol].type == TYPE_BOOL ||
           nest_fail(r, word, "the name of a bool");
}

/* Which words may follow an access. */
enum { LIMIT = 1, WHERE = 2, PAD = 4, NEAR = 8, STREAM = 16 };

static bool read_options(NestReader *r, NestNode *n, unsigned allowed) {
    int hint;
    for (;;) {
        if ((allowed & LIMIT) && !n->has_limit && nest_accept(r, "limit")) {
            n->has_limit = true;
            if (!nest_read_index(r, &n->limit)) return false;
        } else if ((allowed & WHERE) && !n->where && nest_accept(r, "where")) {
            if (!read_bool_name(r, &n->where)) return false;
        } else if ((allowed & PAD) && !n->pad && nest_accept(r, "pad")) {
            if (!nest_read_value(r, &n->pad)) return false;
        } else if ((allowed & (NEAR | STREAM)) && !n->hint && nest_accept(r, "hint")) {
            const bool near = allowed & NEAR;
            if (!nest_read_choice(r, nest_hint_names, near ? HINT_L1 : HINT_NON_TEMPORAL,
                                  near ? HINT_NON_TEMPORAL : HINT_COUNT,
                                  near ? "l1, l2 or once" : "non_temporal or owned", &hint))
                return false;
            n->hint = (NestHint)hint;
        } else {
            return true;
        }
    }
}

static bool read_loop(NestReader *r, NestNode *n, Defined *d) {
    int kind;
    if (!nest_read_new(r, &d->word) || !nest_expect(r, ":") ||
        !nest_read_choice(r, nest_loop_names, 0, LOOP_KIND_COUNT,
                          "grid, warp, lane, serial, unrolled or vector", &kind))
        return false;
    n->loop = (LoopKind)kind;
    d->kind = NAMED_LOOP;
    d->type = TYPE_I64;
    return nest_read_index(r, &n->extent);
}

static bool read_load(NestReader *r, NestNode *n, Defined *d) {
    enum { KINDS = 1 << NAMED_ARRAY | 1 << NAMED_ALLOC };
    NestName array;
    if (!nest_read_new(r, &d->word) || !nest_expect(r, "=") ||
        !read_element(r, n, KINDS, "the name of an array or an alloc", &array))
        return false;
    d->kind = NAMED_VALUE;
    d->type = type_info[r->nest->symbols[array.symbol].type].compute;
    return read_options(r, n, LIMIT | WHERE | PAD | NEAR);
}

static bool read_let(NestReader *r, NestNode *n, Defined *d) {
    if (!nest_read_new(r, &d->word) || !nest_expect(r, "=") || !nest_read_value(r, &n->value))
        return false;
    d->kind = NAMED_VALUE;
    d->type = (Type)r->nest->values->values[n->value].type;
    return true;
}

/* store, add and push */
static bool read_written(NestReader *r, NestNode *n) {
    enum { MEMORY = 1 << NAMED_ARRAY | 1 << NAMED_ALLOC };
    const bool push = n->kind == NEST_PUSH;
    NestName name;
    if (n->kind == NEST_ADD) n->op = nest_accept(r, "min") ? OP_SCATTER_MIN : OP_SCATTER;
    return read_element(r, n, push ? 1 << NAMED_TREE : MEMORY,
                        push ? "the name of a tree or a fold" : "the name of an array or an alloc",
                        &name) &&
           nest_expect(r, "=") && nest_read_value(r, &n->value) &&
           read_options(r, n, LIMIT | WHERE | (n->kind == NEST_STORE ? STREAM : 0));
}

static bool read_alloc(NestReader *r, NestNode *n, Defined *d) {
    int scope;
    if (!nest_read_choice(r, nest_scope_names, 0, SCOPE_WARP, "register, worker, shared or global",
                          &scope) ||
        !nest_read_new(r, &d->word) || !nest_expect(r, ":") || !nest_read_type(r, &d->type) ||
        !nest_expect(r, "["))
        return false;
    n->scope = (NestScope)scope;
    d->kind = NAMED_ALLOC;
    return read_indices(r, "]", n);
}

static bool read_reduction(NestReader *r, Op *op) {
    const NestWord word = nest_take(r);
    for (*op = 1; *op < OP_COUNT; *op = (Op)(*op + 1))
        if ((op_info[*op].flags & OP_REDUCTION) && nest_is(word, op_info[*op].name)) return true;
    return nest_fail(r, word, "a reduction");
}

/* tree and fold */
static bool read_tree(NestReader *r, NestNode *n, Defined *d) {
    Type result;
    if (!nest_read_new(r, &d->word) || !nest_expect(r, ":")) return false;
    const NestWord word = nest_peek(r);
    if (!read_reduction(r, &n->op) || !nest_read_type(r, &n->type) ||
        !nest_refuse(r, word, ERROR_IR_RULE, op_info[n->op].name,
                     nest_reduction_problem(n->op, n->type, &result)))
        return false;
    d->kind = NAMED_TREE;
    d->type = n->type;
    d->op = n->op;
    return nest_read_index(r, &n->extent) && (!nest_accept(r, "dims") || read_indices(r, "", n));
}

/* NAME = TREE[...] or NAME = OP ALLOC[I] count I */
static bool read_combine(NestReader *r, NestNode *n, Defined *d) {
    NestName name;
    if (!nest_read_new(r, &d->word) || !nest_expect(r, "=")) return false;
    const char *begin = r->at;
    const NestWord word = nest_take(r);
    const bool memory = !nest_is(nest_peek(r), "[");
    r->at = begin;
    if (memory && !read_reduction(r, &n->op)) return false;
    if (!read_element(r, n, memory ? 1 << NAMED_ALLOC : 1 << NAMED_TREE,
                      memory ? "the name of an alloc" : "the name of a tree or a fold", &name))
        return false;
    const Type leaves = type_info[r->nest->symbols[name.symbol].type].compute;
    const Op op = memory ? n->op : name.op;
    d->kind = NAMED_VALUE;
    return nest_refuse(r, word, ERROR_IR_RULE, op_info[op].name,
                       nest_reduction_problem(op, leaves, &d->type)) &&
           (memory ? nest_expect(r, "count") && nest_read_index(r, &n->extent)
                   : !nest_accept(r, "count") || nest_read_index(r, &n->extent));
}

static bool read_arrive(NestReader *r, NestNode *n, Defined *d) {
    enum { KINDS = 1 << NAMED_ARRAY | 1 << NAMED_ALLOC };
    NestName counters;
    const char *begin = r->at;
    if (nest_take(r).size == 0) return true;
    const bool named = nest_is(nest_peek(r), "=");
    r->at = begin;
    if (named && (!nest_read_new(r, &d->word) || !nest_expect(r, "="))) return false;
    d->kind = NAMED_VALUE;
    d->type = TYPE_BOOL;
    if (!read_element(r, n, KINDS, "the name of an array or an alloc", &counters) ||
        !nest_expect(r, "of") || !nest_read_index(r, &n->extent))
        return false;
    return !nest_accept(r, "by") || nest_read_value(r, &n->value);
}

static bool read_barrier(NestReader *r, NestNode *n) {
    int scope;
    if (!nest_read_choice(r, nest_scope_names, SCOPE_WARP, SCOPE_COUNT, "warp, block or grid",
                          &scope))
        return false;
    n->scope = (NestScope)scope;
    return true;
}

static bool read_node(NestReader *r, NestNode *n, Defined *d) {
    enum { KINDS = 1 << NAMED_ARRAY | 1 << NAMED_ALLOC };
    NestName name;
    int kind;
    if (!nest_read_choice(r, nest_kind_names, 0, NEST_KIND_COUNT,
                          "loop, if, let, load, store or another node", &kind))
        return false;
    n->kind = (NestKind)kind;
    switch (n->kind) {
    case NEST_LOOP: return read_loop(r, n, d);
    case NEST_IF:
        if (!nest_read_index(r, &n->extent) || !nest_expect(r, ">") || !nest_expect(r, "0"))
            return false;
        n->version = nest_accept(r, "version");
        return true;
    case NEST_WHEN: return read_bool_name(r, &n->where);
    case NEST_LET: return read_let(r, n, d);
    case NEST_LOAD: return read_load(r, n, d);
    case NEST_STORE:
    case NEST_ADD:
    case NEST_PUSH: return read_written(r, n);
    case NEST_ALLOC: return read_alloc(r, n, d);
    case NEST_TREE:
    case NEST_FOLD: return read_tree(r, n, d);
    case NEST_COMBINE: return read_combine(r, n, d);
    case NEST_BARRIER: return read_barrier(r, n);
    case NEST_ARRIVE: return read_arrive(r, n, d);
    case NEST_PREFETCH:
        return read_element(r, n, KINDS, "the name of an array or an alloc", &name) &&
               nest_expect(r, "count") && nest_read_index(r, &n->extent) &&
               read_options(r, n, NEAR);
    case NEST_KIND_COUNT: break;
    }
    return false;
}

/* ---- the body ---- */

/* Where the next node at a depth goes, and the last one there. */
typedef struct Level {
    NestNode **end, *last;
    bool has_else;
} Level;

static void read_else(NestReader *r, Level *level, Level *below) {
    NestNode *last = level->last;
    const bool fits = last && (last->kind == NEST_IF || last->kind == NEST_WHEN);
    nest_take(r);
    if (!fits || level->has_else)
        diagnose(r->compiler, ERROR_NEST_ELSE, line_range(r));
    else
        end_line(r);
    level->has_else = true;
    *below = (Level){.end = last ? &last->other : NULL};
}

static bool has_body(NestKind kind) {
    return kind == NEST_LOOP || kind == NEST_IF || kind == NEST_WHEN;
}

static void read_node_line(NestReader *r, Level *level, Level *below) {
    NestNode node = {.kind = NEST_LOOP, .op = OP_NONE, .type = TYPE_NONE};
    Defined d = {.type = TYPE_NONE, .op = OP_NONE};
    const bool good = has_room(r) && read_node(r, &node, &d) && end_line(r);
    node.range = line_range(r);
    if (good && d.word.size) node.name = nest_symbol(r->nest, name_of(r, &d), d.kind, d.type);
    add_name(r, &d, node.name);
    level->last = nest_add(r->nest, &level->end, node);
    level->has_else = false;
    *below = (Level){.end = has_body(node.kind) ? &level->last->body : NULL};
}

static void read_body(NestReader *r) {
    Level levels[DEPTH + 2] = {[1] = {.end = &r->nest->body}};
    int open = 1;
    for (int spaces; next_line(r, &spaces); pass_line(r)) {
        const int depth = spaces / 2;
        if (spaces % 2 || depth < 1 || depth > open || *r->at == '\t') {
            diagnose(r->compiler, ERROR_NEST_INDENTATION, line_range(r), 2 * open);
            continue;
        }
        if (depth == DEPTH) {
            diagnose(r->compiler, ERROR_TOO_DEEP, line_range(r));
            return;
        }
        if (nest_is(nest_peek(r), "else"))
            read_else(r, &levels[depth], &levels[depth + 1]);
        else
            read_node_line(r, &levels[depth], &levels[depth + 1]);
        open = levels[depth + 1].end ? depth + 1 : depth;
    }
}

Nest *nest_read(Compiler *compiler, Arena *arena, uint32_t source) {
    NestReader r = {.compiler = compiler, .file = source};
    const size_t errors_before = compiler->error_count;
    int spaces;
    r.nest = nest_open(compiler, arena, "", NULL);
    r.start = r.at = compiler->sources[source].text;
    if (!next_line(&r, &spaces) || spaces != 0) {
        nest_fail(&r, nest_peek(&r), "a line `nest NAME warps N lanes N width N`");
        return NULL;
    }
    if (!read_launch(&r)) return NULL;
    pass_line(&r);
    read_header(&r);
    read_body(&r);
    return compiler->error_count == errors_before ? r.nest : NULL;
}
