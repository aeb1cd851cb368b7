/* nest_draws.c: random numbers in generated code: what neighbours in a loop draw is drawn ahead of
 * it, several at once, where the key is the same and the position grows by one. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"
#include "emit/emit.h"

enum { DRAWS_MAX = 16 };

static const struct {
    Op op;
    const char *what, *type;
} draw_kinds[] = {{OP_RANDOM_BITS, "bits", "u32"},
                  {OP_RANDOM_UNIFORM, "uniform", "f32"},
                  {OP_RANDOM_NORMAL, "normal", "f32"}};

static const NestNode *let_of(const NestNode *loop, SymbolId symbol) {
    for (const NestNode *node = loop->body; node; node = node->next)
        if (node->name == symbol) return node->kind == NEST_LET ? node : NULL;
    return NULL;
}

/* Whether the symbol is never negative, whoever computed it. */
static bool is_count(const NestPrinter *p, SymbolId symbol) {
    const NamedKind kind = p->nest->symbols[symbol].kind;
    return kind == NAMED_SIZE || kind == NAMED_DERIVED || kind == NAMED_LOOP;
}

static const NestNode *find_let(const NestNode *body, SymbolId symbol) {
    for (const NestNode *node = body; node; node = node->next) {
        if (node->kind == NEST_LET && node->name == symbol) return node;
        const NestNode *found = node->body ? find_let(node->body, symbol) : NULL;
        if (found) return found;
    }
    return NULL;
}

/* The same of a name that a LET gives, ahead of the loop, to one of several such. */
static bool is_chosen_count(const NestPrinter *p, SymbolId symbol) {
    if (is_count(p, symbol)) return true;
    const NestNode *let = find_let(p->nest->body, symbol);
    const Value *values = p->nest->values->values, *v = let ? &values[let->value] : NULL;
    if (!v || v->op != OP_SELECT) return false;
    for (int i = 1; i < 3; i++) {
        const Value *branch = &values[v->arg[i]];
        if (branch->op == OP_CONST
                ? (int64_t)branch->payload < 0
                : branch->op != VALUE_NAME || !is_count(p, (SymbolId)branch->payload))
            return false;
    }
    return true;
}

/* The value at the loop's first iteration, of what stands ahead of it, and by how much it grows
 * with each; 0: it does so otherwise. A position is not negative there: what is drawn elsewhere, of
 * which some may not exist, is drawn one by one. */
static ValueId value_ahead(NestPrinter *p, const NestNode *loop, ValueId id, bool position,
                           int64_t *step) {
    Function *f = p->nest->values;
    const Value v = f->values[id];
    int64_t steps[2] = {0, 0};
    *step = 0;
    if (v.op == VALUE_NAME || v.op == VALUE_INDEX) {
        const Index index = v.op == VALUE_INDEX ? *nest_index_of(p->nest, &v)
                                                : index_symbol(p->arena, (SymbolId)v.payload);
        const NestNode *let = v.op == VALUE_NAME ? let_of(loop, (SymbolId)v.payload) : NULL;
        if (let) return value_ahead(p, loop, let->value, position, step);
        if (position && v.op == VALUE_NAME && !is_chosen_count(p, (SymbolId)v.payload)) return 0;
        if (print_varies(loop, index) ||
            !index_is_number(index_coefficient(p->arena, index, loop->name), step))
            return 0;
        return index_uses(index, loop->name)
                   ? nest_index_value(p->nest, print_first_of(p, loop, index))
                   : id;
    }
    if (v.op == OP_CONST) return position && (int64_t)v.payload < 0 ? 0 : id;
    if (v.op != OP_ADD && (v.op != OP_SUB || position)) return 0;
    ValueId args[3] = {0};
    for (int i = 0; i < 2; i++)
        if (!(args[i] = value_ahead(p, loop, v.arg[i], position, &steps[i]))) return 0;
    *step = v.op == OP_ADD ? steps[0] + steps[1] : steps[0] - steps[1];
    return ir_make(f, &v, args);
}

void print_draws(NestPrinter *p, const NestNode *loop, const char *count) {
    static const char *const suffixes[] = {"room", NULL};
    int made = 0;
    for (NestNode *node = loop->body; node; node = node->next) {
        const Value v = p->nest->values->values[node->value];
        size_t kind = 0;
        int64_t step;
        if (node->kind != NEST_LET || made == DRAWS_MAX) continue;
        while (kind < COUNT(draw_kinds) && draw_kinds[kind].op != (Op)v.op) kind++;
        if (kind == COUNT(draw_kinds) || (loop->loop == LOOP_VECTOR && p->nest->width != 4))
            continue;
        const ValueId key = value_ahead(p, loop, v.arg[0], false, &step);
        if (!key || step != 0) continue;
        const ValueId first = value_ahead(p, loop, v.arg[1], true, &step);
        if (!first || step != 1) continue;
        const char *type = draw_kinds[kind].type, *what = draw_kinds[kind].what;
        const char *name = names_stem(p->e, NULL, "draws", suffixes);
        const char *key_text = print_value(p, key), *at = print_value(p, first);
        if (loop->loop == LOOP_VECTOR)
            text_printf(p->out, "%s %s[4];\nls_draw_%s(%s, %s, %s);\n", type, name, what, name,
                        key_text, at);
        else
            text_printf(p->out,
                        "%s %s_room[LS_DRAWS];\nconst %s *const %s = ls_draw_%s(%s_room, %s, %s, "
                        "%s);\n",
                        type, name, type, name, what, name, key_text, at, count);
        p->spelled[node->name] =
            arena_printf(p->arena, "%s[%s]", name, print_symbol(p, loop->name));
        p->ahead[node->name] = true;
        made++;
    }
}
