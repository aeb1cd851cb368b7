/* check_c_call.c: calls of imported C functions, and the partners that are their derivatives. */
#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"

#include <string.h>

/* ---- partners ---- */

/* The partner takes the upstream gradient before the same parameters, and gives the type of the one
 * that is derived. */
static const char *partner_problem(Checker *c, const CFunction *f, const CFunction *partner,
                                   size_t parameter) {
    if (partner->parameter_count != f->parameter_count + 1)
        return arena_printf(
            c->arena, "it does not take the upstream gradient and the %zu parameter%s of `%s`",
            f->parameter_count, f->parameter_count == 1 ? "" : "s", f->name);
    if (partner->parameters[0] != f->result)
        return arena_printf(c->arena, "the upstream gradient, its first parameter, is not %s",
                            type_info[f->result].name);
    for (size_t i = 0; i < f->parameter_count; i++)
        if (partner->parameters[i + 1] != f->parameters[i])
            return arena_printf(c->arena, "its parameter %zu is not %s", i + 2,
                                type_info[f->parameters[i]].name);
    if (partner->result != f->parameters[parameter])
        return arena_printf(c->arena, "its result is not %s",
                            type_info[f->parameters[parameter]].name);
    return NULL;
}

/* The function of that name in the same header; NULL: there is none. */
static CSymbol *partner_named(Checker *c, const Symbol *symbol, const char *ending) {
    const char *text = arena_printf(c->arena, "%s_d%s", symbol->name->text, ending);
    const Name *name = name_intern(c->names, text, strlen(text));
    Symbol *partner = scope_find_here(symbol->c->scope, name);
    return partner && partner->kind == SYMBOL_C ? partner->c : NULL;
}

/* NAME_d is the derivative by the only float, or by the first of several; NAME_d0, NAME_d1 ... are
 * those by parameter 0, 1 ... */
static void find_partners(Checker *c, const Symbol *symbol) {
    CFunction *f = &c->c_functions[symbol->c->number];
    bool first = true;
    for (size_t i = 0; i < f->parameter_count; i++) {
        if (type_info[f->parameters[i]].class != 'F') continue;
        CSymbol *partner = partner_named(c, symbol, arena_printf(c->arena, "%zu", i));
        if (!partner && first) partner = partner_named(c, symbol, "");
        first = false;
        if (!partner) continue;
        const char *problem = partner->problem ? partner->problem : partner->inner;
        if (!problem) problem = partner_problem(c, f, &c->c_functions[partner->number], i);
        if (problem)
            complain(c, ERROR_C_PARTNER, partner->problem ? partner->place : partner->range,
                     partner->name->text, f->name, problem);
        else
            f->derivatives[i] = partner->number;
    }
}

/* ---- the call ---- */

Typed *check_c_call(Checker *c, const Node *node, Symbol *symbol) {
    CSymbol *s = symbol->c;
    const char *name = symbol->name->text;
    if (s->problem) {
        if (complain(c, ERROR_C_FUNCTION, s->place, name, s->problem)) {
            for (size_t i = 0; i < s->more_count; i++)
                diagnose_note(c->compiler, s->more[i].place, "and %s", s->more[i].text);
            diagnose_note(c->compiler, node->range, "`%s` is called here", name);
        }
        return &c->error;
    }
    if (s->inner) {
        if (complain(c, ERROR_C_FUNCTION, s->place, name, s->inner))
            diagnose_note(c->compiler, node->range, "`%s` is called here", name);
        return &c->error;
    }
    if (node->has_brackets) {
        complain(c, ERROR_NO_AXES_HERE, node->at, name);
        return &c->error;
    }
    if (!s->partners) find_partners(c, symbol);
    s->partners = true;
    const CFunction *f = &c->c_functions[s->number];
    Typed **arguments = arena_alloc(c->arena, f->parameter_count * sizeof *arguments);
    if (!check_list(c, node, name, f->parameter_count, f->parameter_count, arguments))
        return &c->error;
    Typed *list = NULL;
    bool running = false;
    for (size_t i = f->parameter_count; i-- > 0;) {
        const char *target = arena_printf(c->arena, "%s, parameter %zu of `%s`",
                                          type_info[f->parameters[i]].name, i + 1, name);
        Typed *value = convert_argument(c, arguments[i], f->parameters[i], target);
        if (is_error(value)) return value;
        Typed *entry = typed_new(c, TYPED_OP, value->type, value->axes | (list ? list->axes : 0),
                                 value->range);
        entry->op = OP_LIST;
        entry->payload = i;
        entry->args[0] = value;
        entry->args[1] = list;
        running |= value->running;
        entry->running = running;
        list = entry;
    }
    Typed *call = typed_new(c, TYPED_OP, (int)f->result, list ? list->axes : 0, node->range);
    call->op = OP_CALL;
    call->payload = (uint64_t)s->number;
    call->args[0] = list;
    call->running = running;
    return call;
}
