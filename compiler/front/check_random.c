/* check_random.c: random numbers, and rounding by them.
 *
 * A draw is known by its keys, its ordinal and its axes. The ordinal counts the draws of the step
 * that writes them, in source order: those of a fn count where it is called, behind those in its
 * arguments; a step that is called, or derived by `backward`, counts its own from 0 as it does
 * alone. */
#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"

#include <string.h>

/* ---- keys and axes ---- */

AxisSet draw_axes(const Checker *c) {
    if (!c->step) return 0;
    return c->call ? c->call->axes : all_axes(c);
}

/* The axes of a draw: those named, or all of the step. False after an error. */
static bool named_axes(Checker *c, const Node *node, const Builtin *builtin, AxisSet *axes) {
    AxisSet listed = 0;
    bool fine = true;
    *axes = draw_axes(c);
    if (!node->has_brackets) return true;
    for (const Node *name = node->brackets; name; name = name->next) {
        const Symbol *axis = find_axis(c, name, builtin->name);
        fine &= axis && add_listed(c, axis->number, name->range, &listed);
    }
    for (const Node *name = node->brackets; name && fine; name = name->next)
        fine &= require_parents(c, listed, scope_find(c->scope, name->name)->number, name->range);
    *axes = with_blocks(c, listed);
    return fine;
}

/* A rank-0 integer, as i64. */
static Typed *check_key(Checker *c, Typed *key, const Builtin *builtin) {
    const char *what = arena_printf(c->arena, "the key of `%s`", builtin->name);
    if (is_error(key)) return key;
    if (key->axes) {
        if (complain(c, ERROR_KEY_RANK, key->range, builtin->name, describe(c, key)))
            diagnose_help(c->compiler, "a draw differs by element without it: `%s(seed, step)`",
                          builtin->name);
        return &c->error;
    }
    if (unify(c, &key, 1, ACCEPT_INT, (Range){0}, what) == TYPE_NONE) return &c->error;
    return typed_cast(c, key, TYPE_I64);
}

static const char *find_draw(const Typed *a, AxisSet axes, int depth) {
    static const struct {
        Op op;
        const char *name;
    } draws[] = {
        {OP_RANDOM_UNIFORM, "uniform"}, {OP_RANDOM_NORMAL, "normal"}, {OP_RANDOM_BITS, "bits"}};
    if (a->kind == TYPED_LET) return depth ? find_draw(a->let->value, axes, depth - 1) : NULL;
    if (a->kind != TYPED_OP || !(a->axes & axes) || depth == 0) return NULL;
    for (size_t i = 0; i < COUNT(draws); i++)
        if (draws[i].op == (Op)a->op) return draws[i].name;
    const char *name = NULL;
    for (int i = 0; i < 3 && !name; i++)
        if (a->args[i]) name = find_draw(a->args[i], axes, depth - 1);
    return name;
}

const char *drawn_over(const Typed *a, AxisSet axes) {
    enum { DEPTH = 6 };
    return find_draw(a, axes, DEPTH);
}

/* ---- the same numbers twice ---- */

typedef struct Drawn Drawn;
struct Drawn {
    const Typed *keys[2];
    uint32_t ordinal;
    const Item *writer, *called; /* whose draw it is, and by which call it came; NULL: the step's */
    Range range;                 /* of the call, or the draw */
    Drawn *next;
};

static bool same_key(const Checker *c, const Typed *a, const Typed *b, int depth) {
    while (a->kind == TYPED_LET) a = a->let->value;
    while (b->kind == TYPED_LET) b = b->let->value;
    if (a == b) return true;
    if (a->kind != b->kind || a->type != b->type || a->payload != b->payload || depth == 0)
        return false;
    if (a->kind == TYPED_CONSTANT) return true;
    if (a->kind == TYPED_PARAMETER) { /* read twice with no assignment between */
        uint32_t earlier = a->id < b->id ? a->id : b->id;
        return c->step->assigned[a->payload].last <= earlier;
    }
    if (a->kind != TYPED_OP || a->op != b->op) return false;
    for (int i = 0; i < 3; i++) {
        if (!a->args[i] != !b->args[i]) return false;
        if (a->args[i] && !same_key(c, a->args[i], b->args[i], depth - 1)) return false;
    }
    return true;
}

/* A step that is called counts its own draws from 0: with equal keys they are those of another
 * call. A step and what is derived of it mean to share them. */
static void note_draw(Checker *c, const Node *node, const Builtin *builtin, Typed *seed,
                      Typed *step, uint32_t ordinal) {
    enum { DEPTH = 8 };
    const StepCall *outermost = c->call;
    if (c->instance) return;
    while (outermost && outermost->outer) outermost = outermost->outer;
    Drawn *drawn = arena_alloc(c->arena, sizeof *drawn);
    *drawn = (Drawn){.keys = {seed, step},
                     .ordinal = ordinal,
                     .writer = c->call ? c->call->item : NULL,
                     .called = outermost ? outermost->item : NULL,
                     .range = outermost ? outermost->range : node->range,
                     .next = c->drawn};
    c->drawn = drawn;
    for (const Drawn *other = drawn->next; other; other = other->next) {
        bool shared = other->writer == drawn->writer && other->called != drawn->called;
        if (other->ordinal != ordinal || shared || !same_key(c, other->keys[0], seed, DEPTH) ||
            !same_key(c, other->keys[1], step, DEPTH))
            continue;
        const char *name = outermost ? outermost->item->name->text : builtin->name;
        if (diagnose(c->compiler, ERROR_SAME_DRAWS, drawn->range, name)) {
            diagnose_note(c->compiler, other->range, "they are drawn here");
            diagnose_help(c->compiler, "give one of them another seed");
        }
        return;
    }
}

/* ---- draws ---- */

/* The draw that `node` requests with the keys that begin at `first`. */
static Typed *draw(Checker *c, const Node *node, const Builtin *builtin, Typed **keys,
                   uint32_t ordinal, int type) {
    AxisSet axes;
    bool alone = c->instance && c->instance->call.file == 0; /* a fn that nobody calls */
    if (!c->step) {
        if (!alone) complain(c, ERROR_NOT_CONSTANT, node->range);
        return &c->error;
    }
    Typed *seed = check_key(c, keys[0], builtin);
    Typed *step =
        keys[1] ? check_key(c, keys[1], builtin) : typed_constant(c, TYPE_I64, 0, node->range);
    if (!named_axes(c, node, builtin, &axes) || is_error(seed) || is_error(step)) return &c->error;
    note_draw(c, node, builtin, seed, step, ordinal);
    Typed *value = typed_new(c, TYPED_OP, type, with_parents(c, axes) & ~c->places, node->range);
    value->op = (uint8_t)builtin->op;
    value->args[0] = seed;
    value->args[1] = step;
    value->payload = (uint64_t)ordinal << 32 | axes;
    return value;
}

Typed *check_draw(Checker *c, const Node *node, const Builtin *builtin) {
    Typed *keys[2] = {0};
    uint32_t ordinal = (*c->draws)++;
    if (!check_arguments(c, node, builtin, keys)) return &c->error;
    return draw(c, node, builtin, keys, ordinal,
                builtin->op == OP_RANDOM_BITS ? TYPE_U32 : TYPE_F32);
}

/* bernoulli(p, ...) = uniform(...) < p */
Typed *check_bernoulli(Checker *c, const Node *node, const Builtin *builtin) {
    Typed *arguments[3] = {0};
    uint32_t ordinal = (*c->draws)++;
    if (!check_arguments(c, node, builtin, arguments)) return &c->error;
    Typed *operands[2] = {draw(c, node, builtin, arguments + 1, ordinal, TYPE_F32), arguments[0]};
    if (is_error(operands[0])) return &c->error;
    int type = unify(c, operands, 2, ACCEPT_FLOAT, (Range){0}, "`bernoulli`");
    if (type == TYPE_NONE) return &c->error;
    return typed_op(c, OP_LT, TYPE_BOOL, operands[0], operands[1], NULL, 0, node->range);
}

/* ---- permutations ---- */

/* shuffle(i, n, seed, epoch): which of n samples comes at place i of an epoch. The same wherever it
 * is written, for the host requests it too (ls_shuffle): its key counts no ordinal. */
Typed *check_shuffle(Checker *c, const Node *node, const Builtin *builtin) {
    Typed *a[4] = {0};
    const char *what = arena_printf(c->arena, "`%s`", builtin->name);
    if (node->has_brackets) {
        complain(c, ERROR_NO_AXES_HERE, node->at, builtin->name);
        return &c->error;
    }
    if (!check_arguments(c, node, builtin, a)) return &c->error;
    for (size_t i = 0; i < COUNT(a) && a[i]; i++) {
        if (unify(c, &a[i], 1, ACCEPT_INT, (Range){0}, what) == TYPE_NONE) return &c->error;
        a[i] = typed_cast(c, a[i], TYPE_I64);
    }
    Typed *zero = typed_constant(c, TYPE_I64, 0, node->range);
    Typed *key = typed_op(c, OP_RANDOM_KEY, TYPE_U64, a[2], a[3] ? a[3] : zero, zero,
                          LS_SHUFFLE_ORDINAL, node->range);
    return typed_op(c, OP_SHUFFLE, TYPE_I64, a[0], a[1], key, 0, node->range);
}

/* ---- stochastic rounding ---- */

/* bf16_stochastic(x, r): the neighbour of x that the bits r choose. */
Typed *check_stochastic(Checker *c, const Node *node, const Builtin *builtin) {
    Typed *arguments[2];
    const char *what = arena_printf(c->arena, "`%s`", builtin->name);
    size_t length = strcspn(builtin->name, "_");
    Type storage = TYPE_BOOL;
    for (int t = 0; t < TYPE_COUNT; t++)
        if (strlen(type_info[t].name) == length &&
            strncmp(type_info[t].name, builtin->name, length) == 0)
            storage = (Type)t;
    if (node->has_brackets) {
        complain(c, ERROR_NO_AXES_HERE, node->at, builtin->name);
        return &c->error;
    }
    if (!check_arguments(c, node, builtin, arguments)) return &c->error;
    if (unify(c, &arguments[0], 1, ACCEPT_FLOAT, (Range){0}, what) == TYPE_NONE) return &c->error;
    Typed *x = typed_cast(c, arguments[0], TYPE_F32);
    const char *target = arena_printf(c->arena, "the u32 of random bits that %s takes", what);
    Typed *bits = convert_argument(c, arguments[1], TYPE_U32, target);
    if (is_error(x) || is_error(bits)) return &c->error;
    Typed *value = typed_new(c, TYPED_OP, TYPE_F32, x->axes | bits->axes, node->range);
    value->op = OP_ROUND_STOCHASTIC;
    value->args[0] = x;
    value->args[1] = bits;
    value->payload = storage;
    value->storage = (uint8_t)storage;
    return value;
}
