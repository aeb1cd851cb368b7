/* sum.c: a read-only parameter that is the sum of several arrays.
 *
 * Needs a lowered function; gives one in which each parameter of the list stands for that many of
 * its axes, one behind the other, and every load of it is their sum in f32 in the order of
 * `sum[r]`: neighbours first. So a step takes partial sums as it takes an array, in the same pass;
 * what comes behind this sees additions. */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "ir/ir.h"

static size_t find_parameter(const Function *f, const char *name) {
    size_t number = 0;
    while (number < f->parameter_count && strcmp(f->parameters[number].name, name) != 0) number++;
    return number;
}

Sum sum_asked(const Function *f, const ls_sum *asked) {
    const size_t number = find_parameter(f, asked->parameter);
    if (number == f->parameter_count)
        compiler_fail(f->compiler, LS_ERROR_ARGUMENT, "step `%s` has no parameter `%s`", f->name,
                      asked->parameter);
    const Parameter *p = &f->parameters[number];
    const Type type = (Type)asked->type;
    if (p->role != LS_IN)
        compiler_fail(f->compiler, LS_ERROR_BIND,
                      "parameter `%s` of step `%s` is written, and a sum can only be read", p->name,
                      f->name);
    if (!p->axes || p->has_default || type_info[p->type].compute != TYPE_F32)
        compiler_fail(f->compiler, LS_ERROR_BIND,
                      "parameter `%s` of step `%s` is no array of f32 or a narrower float, so "
                      "there is no sum in f32 to stand for it",
                      p->name, f->name);
    if (type != p->type && type != TYPE_F32)
        compiler_fail(f->compiler, LS_ERROR_BIND,
                      "the arrays of a sum for parameter `%s` of step `%s` are %s or f32", p->name,
                      f->name, type_info[p->type].name);
    return (Sum){(uint32_t)number, asked->count, type};
}

static const Sum *find_sum(const Sum *sums, size_t count, size_t parameter) {
    for (size_t i = 0; i < count; i++)
        if (sums[i].parameter == parameter) return &sums[i];
    return NULL;
}

static bool is_taken(const Function *f, const char *name) {
    for (size_t i = 0; i < f->parameter_count; i++)
        if (strcmp(f->parameters[i].name, name) == 0) return true;
    for (size_t i = 0; i < f->axis_count; i++)
        if (strcmp(f->axes[i].name, name) == 0) return true;
    return false;
}

/* g_0, g_1...; with as many more underscores as no parameter or axis has. */
static const char *name_of(const Function *f, const char *name, uint32_t number) {
    const char *between = "_";
    for (;;) {
        const char *made = arena_printf(f->arena, "%s%s%u", name, between, number);
        if (!is_taken(f, made)) return made;
        between = arena_printf(f->arena, "%s_", between);
    }
}

/* Gives by old number where the new ones begin. */
static uint32_t *expand_parameters(Function *out, const Function *f, const Sum *sums,
                                   size_t count) {
    uint32_t *first = arena_alloc(f->arena, (f->parameter_count + 1) * sizeof *first);
    size_t total = f->parameter_count;
    for (size_t i = 0; i < count; i++) total += sums[i].count;
    Parameter *made = arena_alloc(f->arena, (total + 1) * sizeof *made);
    uint32_t next = 0;
    for (size_t p = 0; p < f->parameter_count; p++) {
        const Sum *sum = find_sum(sums, count, p);
        first[p] = next;
        for (uint32_t i = 0; i < (sum ? sum->count : 1); i++) {
            made[next] = f->parameters[p];
            if (sum) {
                made[next].name = name_of(f, f->parameters[p].name, i);
                made[next].type = sum->type;
            }
            next++;
        }
    }
    out->parameters = made;
    out->parameter_count = out->parameter_capacity = next;
    return first;
}

static ValueId tree(Function *f, uint32_t first, uint32_t count) {
    if (count == 1) return ir_parameter(f, first);
    uint32_t left = 1;
    while (2 * left < count) left *= 2;
    const ValueId a = tree(f, first, left);
    return ir_op(f, OP_ADD, a, tree(f, first + left, count - left), 0);
}

Function *sum_parameters(const Function *f, const Sum *sums, size_t count) {
    Function *out = ir_function_like(f);
    const uint32_t *first = expand_parameters(out, f, sums, count);
    ValueId *map = arena_alloc(f->arena, f->value_count * sizeof *map);
    map[0] = 0;
    for (ValueId id = 1; id < f->value_count; id++) {
        const Value *v = &f->values[id];
        const ValueId args[3] = {map[v->arg[0]], map[v->arg[1]], map[v->arg[2]]};
        if (v->op != OP_PARAMETER) {
            map[id] = ir_rebuild(out, f, id, args);
            continue;
        }
        const Sum *sum = find_sum(sums, count, v->payload);
        map[id] = tree(out, first[v->payload], sum ? sum->count : 1);
        ir_set_source(out, map[id], v->range, v->name);
    }
    for (size_t i = 0; i < f->store_count; i++) {
        const Store *s = &f->stores[i];
        ir_store(out, first[s->parameter], map[s->value], map[s->guard], s->range);
    }
    return out;
}
