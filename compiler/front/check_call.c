/* check_call.c: calls: functions of the language, casts, and the file's own functions.
 *
 * A function of the file is checked once for each set of argument types, axes and constants (an
 * Instance); calls that agree share it, so that functions which call each other twice do not double
 * the work at every level. */
#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"

#include <string.h>

/* ---- the functions of the language ---- */

static CheckCall check_test, check_bits, check_shift, check_pow, check_lerp, check_float_bits,
    check_from_bits, check_stop_gradient;

static const Builtin builtins[] = {
#define X(name, handler, min, max, op, form, what) \
    {#name, check_##handler, min, max, OP_##op, form, what},
#include "builtins.def"
#undef X
};

const Builtin *builtin_at(size_t number) {
    return number < COUNT(builtins) ? &builtins[number] : NULL;
}

void builtins_open(Checker *c) {
    scope_open(&c->builtins, c->arena, NULL);
    for (size_t i = 0; i < COUNT(builtins); i++) {
        const char *text = builtins[i].name;
        const Name *name = name_intern(c->names, text, strlen(text));
        scope_add(&c->builtins, name, (Range){0}, SYMBOL_BUILTIN)->builtin = &builtins[i];
    }
}

const Builtin *find_builtin(Checker *c, const Name *name) {
    const Symbol *symbol = scope_find(&c->unit->functions, name);
    return symbol && symbol->kind == SYMBOL_BUILTIN ? symbol->builtin : NULL;
}

static size_t count_arguments(const Node *node) {
    size_t count = 0;
    for (const Node *argument = node->first; argument; argument = argument->next) count++;
    return count;
}

static const char *plural(Checker *c, size_t min, size_t max) {
    if (max == 0) return "no arguments";
    return min == max ? arena_printf(c->arena, "%zu argument%s", min, min == 1 ? "" : "s")
                      : arena_printf(c->arena, "%zu or %zu arguments", min, max);
}

static void named_argument(Checker *c, const Node *argument, const char *function) {
    const char *name = argument->name->text;
    const bool axis = strcmp(name, "axis") == 0 || strcmp(name, "dim") == 0;
    if (complain(c, ERROR_NAMED_ARGUMENT, argument->at, function) && axis)
        diagnose_help(c->compiler, "axes stand in brackets, by name: `%s[k](x)`", function);
}

/* Checks every argument, also of a call that is wrong; true when all are there and right. */
bool check_list(Checker *c, const Node *node, const char *name, size_t min, size_t max,
                Typed **arguments) {
    size_t count = count_arguments(node), i = 0;
    bool fine = true;
    if (count < min || count > max) {
        complain(c, ERROR_ARGUMENT_COUNT, node->at, name, plural(c, min, max), count);
        fine = false;
    }
    for (const Node *argument = node->first; argument; argument = argument->next, i++) {
        Typed *value = &c->error;
        if (argument->kind == NODE_NAMED)
            named_argument(c, argument, name);
        else
            value = check_expression(c, argument);
        if (i < max) arguments[i] = value;
        fine &= !is_error(value);
    }
    return fine;
}

bool check_arguments(Checker *c, const Node *node, const Builtin *builtin, Typed **arguments) {
    return check_list(c, node, builtin->name, builtin->min, builtin->max, arguments);
}

bool check_f64(Checker *c, const Builtin *builtin, int type, Range range) {
    if (type != TYPE_F64 || op_info[builtin->op].f64) return true;
    if (complain(c, ERROR_NO_F64, range, builtin->name))
        diagnose_help(c->compiler, "write `%s(f32(x))`", builtin->name);
    return false;
}

/* The arguments of `builtin`, brought to one type; TYPE_NONE after an error. */
static int common_arguments(Checker *c, const Node *node, const Builtin *builtin, Accept accept,
                            Typed **arguments) {
    if (node->has_brackets) {
        complain(c, ERROR_NO_AXES_HERE, node->at, builtin->name);
        return TYPE_NONE;
    }
    if (!check_arguments(c, node, builtin, arguments)) return TYPE_NONE;
    const char *what = arena_printf(c->arena, "`%s`", builtin->name);
    int type = unify(c, arguments, builtin->min, accept, (Range){0}, what);
    return type != TYPE_NONE && check_f64(c, builtin, type, node->range) ? type : TYPE_NONE;
}

static Typed *operation(Checker *c, const Node *node, const Builtin *builtin, Accept accept,
                        int result) {
    Typed *arguments[3] = {0};
    int type = common_arguments(c, node, builtin, accept, arguments);
    if (type == TYPE_NONE) return &c->error;
    return typed_op(c, builtin->op, result == TYPE_NONE ? type : result, arguments[0], arguments[1],
                    arguments[2], 0, node->range);
}

Typed *check_number(Checker *c, const Node *node, const Builtin *builtin) {
    return operation(c, node, builtin, ACCEPT_NUMBER, TYPE_NONE);
}
Typed *check_float(Checker *c, const Node *node, const Builtin *builtin) {
    return operation(c, node, builtin, ACCEPT_FLOAT, TYPE_NONE);
}
static Typed *check_test(Checker *c, const Node *node, const Builtin *builtin) {
    return operation(c, node, builtin, ACCEPT_FLOAT, TYPE_BOOL);
}
static Typed *check_bits(Checker *c, const Node *node, const Builtin *builtin) {
    return operation(c, node, builtin, ACCEPT_INT, TYPE_NONE);
}

/* The count keeps its own type; a constant value takes that of the count. */
static Typed *check_shift(Checker *c, const Node *node, const Builtin *builtin) {
    Typed *arguments[3] = {0};
    const char *what = arena_printf(c->arena, "`%s`", builtin->name);
    if (node->has_brackets || !check_arguments(c, node, builtin, arguments)) {
        if (node->has_brackets) complain(c, ERROR_NO_AXES_HERE, node->at, builtin->name);
        return &c->error;
    }
    for (size_t i = 0; i < 2; i++)
        if (unify(c, &arguments[i], 1, ACCEPT_INT, (Range){0}, what) == TYPE_NONE) return &c->error;
    if (is_untyped(arguments[0]) && !is_untyped(arguments[1]))
        unify(c, arguments, 2, ACCEPT_INT, (Range){0}, what);
    if (is_error(arguments[0])) return &c->error;
    Typed *count = arguments[1];
    if (is_untyped(count)) count = typed_cast(c, count, TYPE_I64);
    return typed_op(c, builtin->op, arguments[0]->type, arguments[0], count, NULL, 0, node->range);
}

static Typed *check_pow(Checker *c, const Node *node, const Builtin *builtin) {
    Typed *arguments[3];
    if (node->has_brackets || !check_arguments(c, node, builtin, arguments)) {
        if (node->has_brackets) complain(c, ERROR_NO_AXES_HERE, node->at, builtin->name);
        return &c->error;
    }
    return check_power(c, arguments[0], arguments[1], node->at, node->range);
}

/* lerp(a, b, t) = fma(t, b - a, a) */
static Typed *check_lerp(Checker *c, const Node *node, const Builtin *builtin) {
    Typed *v[3];
    int type = common_arguments(c, node, builtin, ACCEPT_FLOAT, v);
    if (type == TYPE_NONE) return &c->error;
    Typed *gap = typed_op(c, OP_SUB, type, v[1], v[0], NULL, 0, node->range);
    return typed_op(c, OP_FMA, type, v[2], gap, v[0], 0, node->range);
}

static Typed *check_float_bits(Checker *c, const Node *node, const Builtin *builtin) {
    Typed *a;
    int type = common_arguments(c, node, builtin, ACCEPT_FLOAT, &a);
    if (type == TYPE_NONE) return &c->error;
    return typed_op(c, OP_FLOAT_BITS, TYPE_U32, typed_cast(c, a, TYPE_F32), NULL, NULL, 0,
                    node->range);
}

static Typed *check_from_bits(Checker *c, const Node *node, const Builtin *builtin) {
    Typed *a;
    int type = common_arguments(c, node, builtin, ACCEPT_INT, &a);
    if (type == TYPE_NONE) return &c->error;
    a = convert_argument(c, a, TYPE_U32, "the u32 that `float_from_bits` takes");
    return typed_op(c, OP_FLOAT_FROM_BITS, TYPE_F32, a, NULL, NULL, 0, node->range);
}

static Typed *check_stop_gradient(Checker *c, const Node *node, const Builtin *builtin) {
    Typed *a;
    int type = common_arguments(c, node, builtin, ACCEPT_NUMBER, &a);
    if (type == TYPE_NONE || is_constant(a)) return type == TYPE_NONE ? &c->error : a;
    return typed_op(c, OP_STOP_GRADIENT, type, a, NULL, NULL, 0, node->range);
}

/* ---- casts ---- */

/* f32(x), bf16(x): conversion to a compute type; to a storage type, the rounding without the store.
 */
static Typed *check_cast(Checker *c, const Node *node) {
    Typed *a;
    Type type = node->name->type;
    if (node->has_brackets) {
        complain(c, ERROR_NO_AXES_HERE, node->at, node->name->text);
        return &c->error;
    }
    if (!check_list(c, node, node->name->text, 1, 1, &a)) return &c->error;
    Typed *value = typed_convert(c, a, type);
    if (value != a && !is_error(value)) value->range = node->range;
    return value;
}

/* ---- functions of the file ---- */

enum { NOT_CALLED, CALLED }; /* the state of a fn's symbol */

static uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static bool same_argument(const Typed *a, const Typed *b) {
    return a->kind == TYPED_CONSTANT || b->kind == TYPED_CONSTANT
               ? a->kind == b->kind && a->type == b->type && a->payload == b->payload
               : a->type == b->type && a->axes == b->axes && a->storage == b->storage &&
                     a->running == b->running;
}

static Instance *find_instance(Checker *c, const Item *fn, const Step *step, Typed **arguments,
                               uint64_t hash) {
    if (c->bucket_count == 0) return NULL;
    Instance *i = c->buckets[hash & (c->bucket_count - 1)];
    for (; i; i = i->chain) {
        if (i->hash != hash || i->fn != fn || i->step != step) continue;
        bool same =
            i->body.draw_count == 0 ||
            (i->drawn_in == c->step && i->drawn_over == draw_axes(c) && i->places == c->places);
        for (size_t a = 0; a < fn->parameter_count && same; a++)
            same = same_argument(i->arguments[a], arguments[a]);
        if (same) return i;
    }
    return NULL;
}

static void add_instance(Checker *c, Instance *instance) {
    if (c->instance_count >= c->bucket_count) {
        size_t count = c->bucket_count ? c->bucket_count * 4 : 64;
        Instance **buckets = arena_alloc(c->arena, count * sizeof(Instance *));
        for (size_t b = 0; b < c->bucket_count; b++) {
            for (Instance *i = c->buckets[b], *chain; i; i = chain) {
                chain = i->chain;
                i->chain = buckets[i->hash & (count - 1)];
                buckets[i->hash & (count - 1)] = i;
            }
        }
        c->buckets = buckets;
        c->bucket_count = count;
    }
    Instance **bucket = &c->buckets[instance->hash & (c->bucket_count - 1)];
    instance->chain = *bucket;
    *bucket = instance;
    c->instance_count++;
}

/* The lets and the result of a body with braces. */
static Typed *check_block(Checker *c, const Item *fn) {
    Typed *result = NULL;
    bool broken = false;
    for (const Statement *s = fn->body; s; s = s->next) {
        if (result || (s->kind != STATEMENT_LET && s->kind != STATEMENT_RETURN)) {
            if (s->kind != STATEMENT_ERROR) complain(c, ERROR_FN_STATEMENT, s->range);
            broken = true;
            continue;
        }
        Typed *value = check_expression(c, s->value);
        if (s->kind == STATEMENT_RETURN) {
            result = settle(c, value);
            continue;
        }
        if (s->targets && s->targets->next) {
            complain(c, ERROR_LET_NAMES, s->targets->next->range, (size_t)2);
            value = &c->error;
        }
        for (const Entry *entry = s->targets; entry; entry = entry->next)
            check_let(c, entry, value);
    }
    if (!result && !broken && !fn->damaged) {
        if (complain(c, ERROR_MISSING_RETURN, fn->end, fn->name->text))
            diagnose_note(c->compiler, fn->at, "`%s` begins here", fn->name->text);
    }
    return result ? result : &c->error;
}

static void check_instance(Checker *c, Instance *instance) {
    Scope scope, *outer_scope = c->scope;
    Body *outer_body = c->body;
    Step *outer_step = c->step;
    uint32_t *outer_draws = c->draws;
    const Item *fn = instance->fn;
    Unit *outer_unit = c->unit;
    c->unit = fn->unit;
    scope_open(&scope, c->arena, &c->unit->constants);
    c->scope = &scope;
    c->body = &instance->body;
    c->draws = &instance->body.draw_count;
    c->instance = instance;
    uint32_t number = 0;
    for (const Entry *entry = fn->parameters; entry; entry = entry->next) {
        Symbol *symbol;
        declare(c, &scope, entry->name, entry->range, SYMBOL_ARGUMENT, &symbol);
        if (symbol) symbol->number = number;
        index_value(c, entry->range, instance->arguments[number]);
        number++;
    }
    instance->result = fn->is_block ? check_block(c, fn)
                       : fn->value  ? settle(c, check_expression(c, fn->value))
                                    : &c->error;
    index_value(c, fn->at, instance->result);
    c->instance = instance->caller;
    c->unit = outer_unit;
    c->step = outer_step;
    c->draws = outer_draws;
    c->body = outer_body;
    c->scope = outer_scope;
}

static Instance *new_instance(Checker *c, const Item *fn, const Step *step, Typed **arguments,
                              uint64_t hash, Range call) {
    Instance *instance = arena_alloc(c->arena, sizeof *instance);
    *instance = (Instance){.fn = fn,
                           .step = step,
                           .drawn_in = c->step,
                           .drawn_over = draw_axes(c),
                           .places = c->places,
                           .arguments = arguments,
                           .call = call,
                           .caller = c->instance,
                           .hash = hash};
    scope_find_here(&fn->unit->functions, fn->name)->state = CALLED;
    add_instance(c, instance);
    check_instance(c, instance);
    return instance;
}

/* The instance for these arguments; NULL after an error. */
static Instance *instance_for(Checker *c, const Node *node, const Item *fn, Typed **arguments) {
    const Step *step = NULL;
    uint64_t hash = mix(0, (uint64_t)(uintptr_t)fn);
    for (size_t i = 0; i < fn->parameter_count; i++) {
        const Typed *a = arguments[i];
        bool constant = is_constant(a);
        if (a->axes) step = c->step;
        hash = mix(hash, (uint64_t)a->type << 40 | (uint64_t)constant << 39 |
                             (uint64_t)a->running << 48 |
                             (constant ? 0 : (uint64_t)a->storage << 33 | a->axes));
        if (constant) hash = mix(hash, a->payload);
    }
    hash = mix(hash, (uint64_t)(uintptr_t)step);
    Instance *instance = find_instance(c, fn, step, arguments, hash);
    for (const Instance *i = c->instance; i; i = i->caller) {
        if (i->fn != fn) continue; /* with other arguments too: it would never end */
        complain(c, ERROR_RECURSION, node->at, fn->name->text);
        return NULL;
    }
    if (!instance && c->instance_count >= INSTANCES_MAX) {
        if (!c->exhausted) complain(c, ERROR_TOO_MANY_INSTANCES, node->at, INSTANCES_MAX);
        c->exhausted = true;
        return NULL;
    }
    if (!instance) instance = new_instance(c, fn, step, arguments, hash, node->range);
    uint32_t depth = c->body->level + instance->body.deepest;
    if (depth > NESTING_MAX) {
        complain(c, ERROR_CALL_DEPTH, node->at, fn->name->text);
        return NULL;
    }
    if (depth > c->body->deepest) c->body->deepest = depth;
    return instance;
}

Typed *call_fn_on(Checker *c, const Node *node, const Item *fn, Typed **arguments) {
    bool fine = true;
    size_t i = 0;
    for (const Entry *entry = fn->parameters; entry; entry = entry->next, i++) {
        if (entry->type) {
            const char *target = arena_printf(c->arena, "`%s: %s` of `%s`", entry->name->text,
                                              entry->type->text, fn->name->text);
            Type type = type_info[entry->type->type].compute;
            arguments[i] = convert_argument(c, arguments[i], type, target);
        }
        arguments[i] = settle(c, arguments[i]);
        fine &= !is_error(arguments[i]);
    }
    Instance *instance = instance_for(c, node, fn, arguments);
    uint32_t first_draw = *c->draws;
    if (instance) *c->draws += instance->body.draw_count;
    if (!instance || !fine || is_error(instance->result)) return &c->error;
    const Typed *result = instance->result;
    if (is_constant(result)) return typed_constant(c, result->type, result->payload, node->range);
    Typed *value = typed_new(c, TYPED_CALL, result->type, result->axes, node->range);
    value->storage = result->storage;
    value->running = result->running;
    value->payload = first_draw;
    value->instance = instance;
    value->arguments = arguments;
    return value;
}

static Typed *call_fn(Checker *c, const Node *node, const Item *fn) {
    size_t count = fn->parameter_count;
    Typed **arguments = arena_alloc(c->arena, count * sizeof(Typed *));
    if (node->has_brackets) {
        complain(c, ERROR_NO_AXES_HERE, node->at, fn->name->text);
        return &c->error;
    }
    bool there = count_arguments(node) == count && !fn->damaged;
    check_list(c, node, fn->name->text, count, count, arguments);
    return there ? call_fn_on(c, node, fn, arguments) : &c->error;
}

/* With arguments about which nothing is known: what remains to be checked is the names. */
void check_fn_alone(Checker *c, const Item *fn) {
    Symbol *symbol = scope_find_here(&fn->unit->functions, fn->name);
    if (symbol->item != fn || symbol->state == CALLED) return;
    Typed **arguments = arena_alloc(c->arena, fn->parameter_count * sizeof(Typed *));
    for (size_t i = 0; i < fn->parameter_count; i++) arguments[i] = &c->error;
    new_instance(c, fn, NULL, arguments, 0, (Range){0});
}

/* ---- any call ---- */

/* A step of the library that does what the name says: `layer_norm` has `layer_norm_forward`. */
static const char *forward_step(Checker *c, const Name *name) {
    const char *text = arena_printf(c->arena, "%s_forward", name->text);
    const Name *step = name_intern(c->names, text, strlen(text));
    const char *home = library_defining(c, step);
    if (!home) return NULL;
    return arena_printf(c->arena, "`import \"%s\"` has the step `%s`: `let y = %s(...)`", home,
                        text, text);
}

Typed *unknown_function(Checker *c, const Node *node) {
    const char *name = node->name->text;
    if (node->qualifier) {
        unknown_member(c, node->qualifier, node->name, node->at);
    } else if (!c->unit->incomplete && complain(c, ERROR_UNKNOWN_FUNCTION, node->at, name)) {
        unsigned callable = 1u << SYMBOL_FN | 1u << SYMBOL_BUILTIN | 1u << SYMBOL_C;
        const char *meant = other_spelling(c, node->name), *help = habit(HABIT_CALL, node->name);
        const char *home = meant || help ? NULL : library_defining(c, node->name);
        const char *forward = meant || help || home ? NULL : forward_step(c, node->name);
        if (!meant && !home && !help && !forward)
            meant = scope_suggest(&c->unit->functions, node->name, callable);
        const Symbol *value = scope_find(c->scope, node->name);
        if (value && value->kind != SYMBOL_BROKEN && value->range.file)
            diagnose_note(c->compiler, value->range, "`%s` is %s", name, symbol_describe(value));
        if (meant) diagnose_help(c->compiler, "did you mean `%s`?", meant);
        if (home) diagnose_help(c->compiler, "`import \"%s\"` brings it", home);
        if (help) diagnose_help(c->compiler, "%s", help);
        if (forward) diagnose_help(c->compiler, "%s", forward);
    }
    for (const Node *argument = node->first; argument; argument = argument->next) {
        const Symbol *axis =
            argument->kind == NODE_NAME ? scope_find(c->scope, argument->name) : NULL;
        if (axis && axis->kind == SYMBOL_AXIS) continue; /* the function meant may take one */
        if (argument->kind != NODE_NAMED) check_expression(c, argument);
    }
    return &c->error;
}

Typed *check_call(Checker *c, const Node *node) {
    if (node->token == TOKEN_TYPE) return check_cast(c, node);
    Symbol *symbol = find_function(c, node->qualifier, node->name, node->at);
    if (!symbol) return unknown_function(c, node);
    switch (symbol->kind) {
    case SYMBOL_BUILTIN: return symbol->builtin->check(c, node, symbol->builtin);
    case SYMBOL_C: return check_c_call(c, node, symbol);
    case SYMBOL_FN: return call_fn(c, node, symbol->item);
    case SYMBOL_STEP:
        if (complain(c, ERROR_STEP_AS_VALUE, node->range, node->name->text))
            diagnose_help(c->compiler, "bind what it gives first, `let y = %s(...)`",
                          node->name->text);
        return &c->error;
    default: return &c->error;
    }
}
