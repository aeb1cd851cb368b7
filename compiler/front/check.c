/* check.c: items and statements: from the tree to a checked Module.
 *
 * Needs the tree of a file; gives its steps with every value typed and every conversion written
 * out, so that lower.c only has to copy. Goes on after errors: a name whose definition is wrong is
 * known as broken, and what uses it is silent. */
#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"

#include <string.h>

/* ---- reporting ---- */

bool complain(Checker *c, ErrorCode code, Range range, ...) {
    enum { CALLS_SHOWN = 3 };
    va_list arguments;
    va_start(arguments, range);
    bool kept = diagnose_list(c->compiler, code, range, arguments);
    va_end(arguments);
    int shown = 0;
    for (const Instance *i = c->instance; kept && i && i->call.file && shown < CALLS_SHOWN;
         i = i->caller, shown++) {
        Text types = text_open(c->arena);
        bool unknown = false; /* an argument is wrong: the call is not what matters */
        for (size_t a = 0; a < i->fn->parameter_count; a++) {
            unknown |= is_error(i->arguments[a]);
            text_printf(&types, "%s%s", a ? ", " : "", describe(c, i->arguments[a]));
        }
        if (unknown) break;
        diagnose_note(c->compiler, i->call, "`%s` is called here with (%s)", i->fn->name->text,
                      types.data);
    }
    for (const StepCall *call = c->call; kept && call && shown < CALLS_SHOWN;
         call = call->outer, shown++)
        diagnose_note(c->compiler, call->range, "`%s` is called here", call->item->name->text);
    return kept;
}

/* ---- names ---- */

static bool name_taken(Checker *c, const Name *name, Range range, const Symbol *other) {
    if (complain(c, ERROR_NAME_TAKEN, range, name->text, symbol_describe(other)))
        diagnose_note(c->compiler, other->range, "`%s` is defined here", name->text);
    return true;
}

/* A branch binds no name of the statements around it again. */
static bool is_bound_around(Checker *c, const Entry *entry) {
    for (const Scope *scope = c->scope; scope->is_block; scope = scope->parent) {
        const Symbol *other = scope_find_here(scope->parent, entry->name);
        if (other && other->kind != SYMBOL_BROKEN)
            return name_taken(c, entry->name, entry->range, other);
    }
    return false;
}

bool declare(Checker *c, Scope *scope, const Name *name, Range range, SymbolKind kind,
             Symbol **symbol) {
    Symbol *other = scope_find_here(scope, name);
    *symbol = NULL;
    if (other && other->kind != SYMBOL_BROKEN) return !name_taken(c, name, range, other);
    if (other) { /* was used before: that is reported */
        other->kind = (uint8_t)kind;
        other->range = range;
    } else {
        other = scope_add(scope, name, range, kind);
    }
    *symbol = other;
    return true;
}

Let *check_let(Checker *c, const Entry *entry, Typed *value) {
    Symbol *symbol;
    Let *let = arena_alloc(c->arena, sizeof *let);
    value = settle(c, value);
    *let = (Let){
        .name = entry->name, .range = entry->range, .value = value, .number = c->body->let_count++};
    SymbolKind kind = is_error(value) ? SYMBOL_BROKEN : SYMBOL_LET;
    index_value(c, entry->range, value);
    if (is_bound_around(c, entry)) return let;
    if (declare(c, c->scope, entry->name, entry->range, kind, &symbol)) symbol->let = let;
    return let;
}

/* ---- the head of a step ---- */

Typed *check_constant(Checker *c, const Node *node) {
    Typed *value = check_expression(c, node);
    if (is_error(value) || is_constant(value)) return value;
    complain(c, ERROR_NOT_CONSTANT, node->range);
    return &c->error;
}

static void parameter_default(Checker *c, const Entry *entry, Parameter *parameter) {
    if (!entry->initial) return;
    if (entry->role == LS_OUT) {
        complain(c, ERROR_DEFAULT_ON_OUT, entry->initial->range);
        return;
    }
    if (entry->axes) {
        complain(c, ERROR_DEFAULT_ON_ARRAY, entry->initial->range);
        return;
    }
    const char *target =
        arena_printf(c->arena, "`%s: %s`", parameter->name, type_info[parameter->type].name);
    Typed *value = convert_store(c, check_constant(c, entry->initial), parameter->type, target);
    parameter->has_default = true;
    if (is_constant(value)) parameter->initial = value->payload;
}

static void check_parameter(Checker *c, Step *step, const Entry *entry) {
    Symbol *symbol;
    Parameter parameter = {.name = entry->name->text, .role = entry->role, .range = entry->range};
    bool fine = parameter_axes(c, entry, &parameter.declared) && entry->type;
    parameter.axes = with_blocks(c, parameter.declared);
    if (entry->type) {
        parameter.type = entry->type->type;
        bool narrow = type_info[parameter.type].compute != parameter.type;
        if (narrow && !entry->axes) {
            if (complain(c, ERROR_STORAGE_TYPE, entry->type_range, entry->type->text,
                         "a rank-0 parameter"))
                diagnose_help(c->compiler, "write `%s`",
                              type_info[type_info[parameter.type].compute].name);
            fine = false;
        }
        if (fine) parameter_default(c, entry, &parameter);
    }
    if (!declare(c, c->scope, entry->name, entry->range, fine ? SYMBOL_PARAMETER : SYMBOL_BROKEN,
                 &symbol) ||
        !fine)
        return;
    symbol->number = (uint32_t)step->parameter_count;
    step->parameters[step->parameter_count++] = parameter;
}

static void check_parameters(Checker *c, Step *step, const Item *item) {
    size_t words = item->axis_count + item->parameter_count;
    step->parameter_capacity = item->parameter_count;
    step->parameters = arena_alloc(c->arena, item->parameter_count * sizeof *step->parameters);
    step->assigned = arena_alloc(c->arena, item->parameter_count * sizeof *step->assigned);
    for (const Entry *entry = item->parameters; entry; entry = entry->next) {
        check_parameter(c, step, entry);
        for (const Entry *axis = entry->axes; axis; axis = axis->next) words++;
    }
    int max = LS_ARGUMENTS_MAX - 60; /* the rest is for the plan's temporaries */
    if (words > (size_t)max)
        complain(c, ERROR_TOO_MANY, item->at, "parameters, counted with their axes", words, max);
}

/* ---- statements ---- */

void add_statement(Checker *c, Checked statement) {
    Block *block = c->block;
    block->statements = arena_grow(c->arena, block->statements, block->count, &block->capacity,
                                   sizeof *block->statements);
    block->statements[block->count++] = statement;
}

static Symbol *parameter_named(Checker *c, const Name *name) {
    Symbol *symbol = scope_find(c->scope, name);
    return symbol && symbol->kind == SYMBOL_PARAMETER ? symbol : NULL;
}

static void mark_assigned(Checker *c, const Name *name, Range range) {
    Symbol *symbol = parameter_named(c, name);
    if (!symbol) return;
    Assigned *assigned = &c->step->assigned[symbol->number];
    if (assigned->range.file == 0) {
        assigned->range = range;
        assigned->first = c->body->typed_count;
    }
    assigned->surely = true;
    assigned->last = c->body->typed_count;
}

void bind_let(Checker *c, const Entry *entry, Typed *value, Range range) {
    Let *let = check_let(c, entry, value);
    if (!is_error(value) && !is_constant(value))
        add_statement(c, (Checked){.let = let, .range = range});
}

/* The step that is called, or NULL. */
static Symbol *called_step(Checker *c, const Node *node) {
    if (node->kind != NODE_CALL || node->token == TOKEN_TYPE) return NULL;
    Symbol *symbol = find_function(c, node->qualifier, node->name, node->at);
    return symbol && symbol->kind == SYMBOL_STEP ? symbol : NULL;
}

static void check_let_statement(Checker *c, const Statement *s) {
    size_t count = 0;
    Symbol *step = called_step(c, s->value);
    for (const Entry *entry = s->targets; entry; entry = entry->next) count++;
    Typed **values = arena_alloc(c->arena, (count ? count : 1) * sizeof(Typed *));
    for (size_t i = 0; i < count; i++) values[i] = &c->error;
    const Builtin *builtin = s->value->kind == NODE_CALL ? find_builtin(c, s->value->name) : NULL;
    if (count > 1 && builtin && builtin->op == OP_GRAD) {
        check_gradients(c, s->value, count, values);
    } else if (step) {
        check_step_call(c, s->value, step, count, values);
    } else {
        Typed *value = check_expression(c, s->value);
        if (count == 1) values[0] = value;
        if (count > 1 && !is_error(value))
            complain(c, ERROR_LET_NAMES, s->targets->next->range, count);
    }
    size_t i = 0;
    for (const Entry *entry = s->targets; entry; entry = entry->next, i++)
        bind_let(c, entry, values[i], s->range);
}

/* The parameter that is assigned, or NULL after an error. */
static Symbol *assignment_target(Checker *c, const Entry *target, uint8_t token) {
    Symbol *symbol = scope_find(c->scope, target->name);
    const char *name = target->name->text;
    if (!symbol) {
        if (!c->unit->incomplete && complain(c, ERROR_UNKNOWN_NAME, target->range, name)) {
            const char *meant = scope_suggest(c->scope, target->name, 1u << SYMBOL_PARAMETER);
            if (meant) diagnose_help(c->compiler, "did you mean `%s`?", meant);
            if (meant) /* that one is not reported as unassigned, too */
                mark_assigned(c, name_intern(c->names, meant, strlen(meant)), target->range);
            else if (token == TOKEN_ASSIGN)
                diagnose_help(c->compiler, "a new name is bound with `let %s = ...`", name);
        }
        return NULL;
    }
    if (symbol->kind == SYMBOL_BROKEN) return NULL;
    if (symbol->kind != SYMBOL_PARAMETER) {
        if (complain(c, ERROR_NOT_A_PARAMETER, target->range, name, symbol_describe(symbol)))
            diagnose_note(c->compiler, symbol->range, "`%s` is defined here", name);
        return NULL;
    }
    const Parameter *parameter = &c->step->parameters[symbol->number];
    if (parameter->role == LS_IN) {
        if (complain(c, ERROR_READ_ONLY, target->range, name)) {
            diagnose_note(c->compiler, parameter->range, "`%s` is declared here", name);
            diagnose_help(c->compiler, "declare it `inout %s`", name);
        }
        return NULL;
    }
    if (parameter->role == LS_OUT && token != TOKEN_ASSIGN) {
        if (complain(c, ERROR_OUT_COMPOUND, target->range, token_info[token].spelling, name))
            diagnose_help(c->compiler, "declare it `inout %s`", name);
        return NULL;
    }
    return symbol;
}

static const uint8_t compound[TOKEN_COUNT] = {
    [TOKEN_ADD_TO] = TOKEN_PLUS,          [TOKEN_SUBTRACT_FROM] = TOKEN_MINUS,
    [TOKEN_MULTIPLY_BY] = TOKEN_MULTIPLY, [TOKEN_DIVIDE_BY] = TOKEN_DIVIDE,
    [TOKEN_OR_WITH] = TOKEN_OR,           [TOKEN_AND_WITH] = TOKEN_AND,
};

static bool axes_fit(Checker *c, const Statement *s, const Parameter *parameter,
                     const Typed *value) {
    AxisSet extra = value->axes & ~parameter->axes;
    if (extra == 0) return true;
    bool is_bool = value->type == TYPE_BOOL, is_float = type_class(value->type) == 'F';
    const char *which = describe_axes(c, extra);
    if (complain(c, ERROR_STORE_AXES, s->targets->range, describe_axes(c, value->axes),
                 parameter->name, which)) {
        const char *draw = drawn_over(value, extra);
        diagnose_note(c->compiler, s->value->range, "the value is computed here");
        if (draw)
            diagnose_help(c->compiler,
                          "a draw has all the step's axes or those it names: `%s%s(...)`", draw,
                          parameter->axes ? describe_axes(c, parameter->axes) : "[]");
        else
            diagnose_help(c->compiler,
                          "reduce it, as in `%s%s(...)` or `%s%s(...)`, or declare `%s` "
                          "over those axes",
                          is_bool ? "any" : "sum", which,
                          is_bool    ? "all"
                          : is_float ? "mean"
                                     : "max",
                          which, parameter->name);
    }
    return false;
}

/* `n |= 1`: what integers have instead. */
static bool refuse_bits(Checker *c, const Statement *s, const Typed *a) {
    bool is_or = s->token == TOKEN_OR_WITH;
    char class = type_class(a->type);
    if ((!is_or && s->token != TOKEN_AND_WITH) || is_error(a) || (class != 'S' && class != 'U'))
        return false;
    const char *name = s->targets->name->text, *spelling = token_info[s->token].spelling;
    if (complain(c, ERROR_NEEDS_BOOL, s->at, arena_printf(c->arena, "`%s`", spelling),
                 describe(c, a)))
        diagnose_help(c->compiler, "integers have `%s = %s(%s, ...)`", name,
                      is_or ? "bit_or" : "bit_and", name);
    return true;
}

static void check_assignment(Checker *c, const Statement *s) {
    Typed *value = check_expression(c, s->value);
    Symbol *symbol = assignment_target(c, s->targets, s->token);
    if (!symbol) return;
    const Parameter *parameter = &c->step->parameters[symbol->number];
    if (s->token != TOKEN_ASSIGN) {
        Typed *old = read_symbol(c, symbol, s->targets->range);
        value = refuse_bits(c, s, old) ? &c->error
                                       : check_binary(c, (TokenKind)compound[s->token], old, value,
                                                      s->at, s->value->range);
    }
    mark_assigned(c, s->targets->name, s->range);
    if (!check_conditions(c, symbol->number, s->targets->range)) return;
    if (is_error(value) || !axes_fit(c, s, parameter, value)) return;
    const char *target =
        arena_printf(c->arena, "`%s: %s%s`", parameter->name, type_info[parameter->type].name,
                     describe_axes(c, parameter->axes));
    value = convert_store(c, value, parameter->type, target);
    if (is_error(value) && s->token != TOKEN_ASSIGN)
        diagnose_help(c->compiler, "write `%s = %s(%s %s ...)`", parameter->name,
                      type_info[parameter->type].name, parameter->name,
                      token_info[compound[s->token]].spelling);
    if (is_error(value)) return;
    add_statement(c, (Checked){.parameter = symbol->number, .value = value, .range = s->range});
}

/* What a statement that is not understood may have assigned counts as assigned. */
static void assume_assigned(Checker *c, const Statement *s) {
    for (; s; s = s->next) {
        for (const Entry *entry = s->targets; entry && s->kind != STATEMENT_LET;
             entry = entry->next)
            mark_assigned(c, entry->name, s->range);
        for (const Node *n = s->value ? s->value->first : NULL; n; n = n->next) {
            const Node *given = n->kind == NODE_NAMED ? n->first : n;
            if (given->kind == NODE_NAME) mark_assigned(c, given->name, s->range);
        }
        assume_assigned(c, s->body);
        assume_assigned(c, s->otherwise);
    }
}

static void assume_one(Checker *c, const Statement *s) {
    Statement alone = *s;
    alone.next = NULL;
    assume_assigned(c, &alone);
}

static void assume_all(Checker *c) {
    for (size_t p = 0; p < c->step->parameter_count; p++) c->step->assigned[p].surely = true;
}

static void check_call_statement(Checker *c, const Statement *s) {
    Symbol *step = called_step(c, s->value);
    if (step) {
        if (!check_step_call(c, s->value, step, 0, NULL)) assume_one(c, s);
        return;
    }
    Typed *value = check_call(c, s->value);
    assume_one(c, s);
    if (!is_error(value)) complain(c, ERROR_UNUSED_VALUE, s->value->range);
}

static void check_statement(Checker *c, const Statement *s) {
    switch (s->kind) {
    case STATEMENT_LET: check_let_statement(c, s); break;
    case STATEMENT_ASSIGN: check_assignment(c, s); break;
    case STATEMENT_CALL: check_call_statement(c, s); break;
    case STATEMENT_RETURN:
        if (s->value->kind != NODE_ERROR) complain(c, ERROR_RETURN_IN_STEP, s->at);
        assume_all(c);
        break;
    case STATEMENT_WHEN: check_when(c, s); break;
    case STATEMENT_FOR:
        if (!check_for(c, s)) assume_one(c, s);
        break;
    default: /* more may have been skipped with it */ assume_one(c, s); assume_all(c);
    }
}

void assign(Checker *c, Symbol *parameter, Typed *value, Range range) {
    mark_assigned(c, parameter->name, range);
    add_statement(c, (Checked){.parameter = parameter->number, .value = value, .range = range});
}

void check_statements(Checker *c, const Statement *statements) {
    for (const Statement *s = statements; s; s = s->next) check_statement(c, s);
}

Assigned *copy_assigned(Checker *c) {
    size_t size = c->step->parameter_count * sizeof(Assigned);
    Assigned *copy = arena_alloc(c->arena, size);
    if (size) memcpy(copy, c->step->assigned, size);
    return copy;
}

void check_inner(Checker *c, const Statement *statements, Block *block) {
    Scope scope, *outer_scope = c->scope;
    Block *outer_block = c->block;
    scope_open(&scope, c->arena, c->scope);
    scope.is_block = true;
    const bool in_loop = c->loop && c->loop->when == c->when; /* of a loop, else of a `when` */
    c->scope = &scope;
    c->block = block;
    c->level++; /* blocks nest through the steps they call, too */
    check_statements(c, statements);
    c->level--;
    for (const Symbol *symbol = scope.first; symbol; symbol = symbol->next)
        if (symbol->kind == SYMBOL_LET && !scope_find_here(&c->closed, symbol->name))
            scope_add(&c->closed, symbol->name, symbol->range, SYMBOL_LET)->state = in_loop;
    c->block = outer_block;
    c->scope = outer_scope;
}

void check_body(Checker *c, const Item *item) {
    if (item->kind == ITEM_BACKWARD)
        check_backward_body(c, item);
    else
        check_statements(c, item->body);
}

void check_step(Checker *c, Item *item) {
    Scope scope;
    if (item->state != ITEM_NEW) return;
    item->state = ITEM_ACTIVE;
    size_t errors = c->compiler->error_count;
    Checker outer = *c; /* where this one is called and not checked yet */
    Step *step = arena_alloc(c->arena, sizeof *step);
    *step = (Step){.name = item->name ? item->name->text : "", .range = item->at};
    step->math = item->math;
    c->unit = item->unit;
    scope_open(&scope, c->arena, &c->unit->constants);
    c->scope = &scope;
    c->step = step;
    c->body = &step->body;
    c->block = &step->block;
    c->draws = &step->body.draw_count;
    c->drawn = NULL;
    c->when = NULL;
    c->loop = NULL;
    c->places = 0;
    c->readings = NULL;
    scope_open(&c->closed, c->arena, NULL);
    c->call = NULL;
    bool fine = (item->kind == ITEM_STEP || prepare_backward(c, item)) && check_axes(c, item);
    check_parameters(c, step, item);
    bool complete = step->parameter_count == item->parameter_count;
    if (fine && !item->damaged) { /* else the body would only repeat it */
        check_body(c, item);
        if (complete) check_axes_used(c);
        for (size_t p = 0; p < step->parameter_count; p++) {
            const Parameter *parameter = &step->parameters[p];
            const Assigned *assigned = &step->assigned[p];
            if (parameter->role != LS_OUT || assigned->surely) continue;
            ErrorCode code = assigned->range.file ? ERROR_OUT_PARTLY : ERROR_OUT_UNASSIGNED;
            if (complain(c, code, parameter->range, parameter->name)) note_condition(c, assigned);
        }
    }
    item->checked = step;
    item->faulty = step->faulty || item->damaged || !complete || c->compiler->error_count != errors;
    item->state = ITEM_CHECKED;
    c->unit = outer.unit;
    c->scope = outer.scope;
    c->step = outer.step;
    c->body = outer.body;
    c->block = outer.block;
    c->draws = outer.draws;
    c->drawn = outer.drawn;
    c->when = outer.when;
    c->loop = outer.loop;
    c->places = outer.places;
    c->readings = outer.readings;
    c->closed = outer.closed;
    c->call = outer.call;
}

/* ---- items ---- */

static void check_fn_head(Checker *c, const Item *item) {
    for (const Entry *entry = item->parameters; entry; entry = entry->next) {
        if (entry->has_axes) complain(c, ERROR_FN_PARAMETER_AXES, entry->type_range);
        if (entry->type && type_info[entry->type->type].compute != entry->type->type)
            complain(c, ERROR_STORAGE_TYPE, entry->type_range, entry->type->text,
                     "a parameter of a function");
    }
}

void declare_item(Checker *c, Unit *unit, Item *item) {
    Symbol *symbol = NULL;
    item->unit = unit;
    if (item->kind == ITEM_IMPORT || !item->name) return;
    if (item->kind == ITEM_CONST) {
        declare(c, &unit->constants, item->name, item->at, SYMBOL_CONST, &symbol);
    } else {
        SymbolKind kind = item->kind == ITEM_FN ? SYMBOL_FN : SYMBOL_STEP;
        declare(c, &unit->functions, item->name, item->at, kind, &symbol);
    }
    if (symbol) symbol->item = item;
}

/* -D name=value takes the place of the constant's expression, in whichever file defines what the
 * main file calls so. */
static void apply_defines(Checker *c) {
    const ls_compile_options *options = c->compiler->options;
    for (size_t i = 0; options && i < options->define_count; i++) {
        const char *text = options->defines[i];
        const char *path = arena_printf(c->arena, "-D %s", text);
        Item *item = parse_define(c->names, source_add(c->compiler, path, text, strlen(text)));
        if (!item) continue;
        const Name *qualifier = item->step ? item->step->qualifier : NULL;
        Symbol *symbol = find_value(c, qualifier, item->name, item->at);
        if (symbol && symbol->kind == SYMBOL_CONST && !symbol->item) {
            complain(c, ERROR_C_DEFINE, item->at, item->name->text);
        } else if (symbol && symbol->kind == SYMBOL_CONST) {
            item->unit = symbol->item->unit;
            symbol->item = item;
        } else if (!symbol && qualifier) {
            unknown_member(c, qualifier, item->name, item->at);
        } else if (!symbol && complain(c, ERROR_UNKNOWN_DEFINE, item->at, item->name->text)) {
            const char *meant = scope_suggest(&c->unit->constants, item->name, 1u << SYMBOL_CONST);
            if (meant) diagnose_help(c->compiler, "did you mean `%s`?", meant);
        }
    }
}

static bool is_step(const Item *item) {
    return item->kind == ITEM_STEP || item->kind == ITEM_BACKWARD;
}

/* `all`: also what nothing of the program uses yet, as of an imported file of the library. */
static void check_unit(Checker *c, Unit *unit, bool all) {
    c->unit = unit;
    c->scope = &unit->constants;
    for (const Item *item = unit->items; item; item = item->next)
        if (item->kind == ITEM_CONST && item->name)
            check_const(c, scope_find_here(&unit->constants, item->name));
    for (const Item *item = unit->items; item; item = item->next)
        if (item->kind == ITEM_FN) check_fn_head(c, item);
    for (Item *item = all ? unit->items : NULL; item; item = item->next)
        if (is_step(item)) check_step(c, item);
}

/* The steps of a file and of what it imports by their own names, where the main file can say them.
 */
static void list_steps(Checker *c, Module *module, Unit *unit, const Unit *main) {
    if (unit->listed) return;
    unit->listed = true;
    for (Item *item = unit->items; item; item = item->next) {
        if (!is_step(item)) continue;
        const Symbol *symbol = item->name ? scope_find(&main->functions, item->name) : NULL;
        if (unit != main && (!symbol || symbol->item != item)) continue;
        module->steps = arena_grow(c->arena, module->steps, module->step_count,
                                   &module->step_capacity, sizeof(Item *));
        module->steps[module->step_count++] = item;
    }
    if (unit == main) module->own_count = module->step_count;
    for (size_t i = 0; i < unit->import_count; i++) list_steps(c, module, unit->imports[i], main);
}

Module *module_read(Compiler *compiler, const char *path, const char *text, size_t size) {
    Arena *arena = &compiler->arena;
    Names *names = arena_alloc(arena, sizeof *names);
    size_t errors = compiler->error_count;
    names_open(names, compiler);
    Checker *c = arena_alloc(arena, sizeof *c);
    *c = (Checker){.compiler = compiler, .arena = arena, .names = names};
    c->body = &c->outside;
    c->draws = &c->outside.draw_count;
    c->error = (Typed){.kind = TYPED_ERROR, .type = TYPE_NONE, .storage = TYPE_NONE};
    if (compiler->options && compiler->options->index) index_open(c);
    builtins_open(c);
    Unit *main = units_read(c, path, text, size);
    c->unit = main;
    c->scope = &main->constants;
    apply_defines(c);
    for (Unit *unit = c->units; unit; unit = unit->next)
        check_unit(c, unit, unit == main || !unit->is_library);
    for (Unit *unit = c->units; unit; unit = unit->next)
        for (const Item *item = unit->items; item; item = item->next)
            if (unit->is_library && unit != main)
                break;
            else if (item->kind == ITEM_FN && item->name)
                check_fn_alone(c, item);
    Module *module = arena_alloc(arena, sizeof *module);
    list_steps(c, module, main, main);
    module->checker = c;
    diagnostics_sort(compiler);
    return compiler->error_count == errors ? module : NULL;
}

size_t module_step_count(const Module *module) {
    return module->step_count;
}

size_t module_own_count(const Module *module) {
    return module->own_count;
}

const char *module_step_name(const Module *module, size_t step) {
    const Name *name = module->steps[step]->name;
    return name ? name->text : "";
}

bool module_step_is_library(const Module *module, size_t step) {
    return module->steps[step]->unit->is_library;
}

bool module_need_step(Module *module, size_t step) {
    Item *item = module->steps[step];
    check_step(module->checker, item);
    return !item->faulty;
}
