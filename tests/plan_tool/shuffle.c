/* shuffle.c: a function whose statements come in another order.
 *
 * Its values in a random order in which operands still precede their users, its stores in a random
 * order; with `parameters`, its parameters in another order too. It means the same. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"

#include "plan_tool.h"

static uint64_t next(uint64_t *seed) {
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

/* 0 to count - 1 in any order. */
static uint32_t *permutation(Arena *arena, size_t count, uint64_t *seed) {
    uint32_t *order = arena_alloc(arena, (count + 1) * sizeof *order);
    for (size_t i = 0; i < count; i++) order[i] = (uint32_t)i;
    for (size_t i = count; i > 1; i--) {
        const size_t other = next(seed) % i;
        const uint32_t last = order[i - 1];
        order[i - 1] = order[other];
        order[other] = last;
    }
    return order;
}

static ValueId rebuild(Function *to, const Function *from, ValueId v, const ValueId *map,
                       const uint32_t *place) {
    const Value *value = &from->values[v];
    const ValueId args[3] = {map[value->arg[0]], map[value->arg[1]], map[value->arg[2]]};
    ValueId made;
    if (value->op == OP_RUNNING)
        made = ir_running(to, (Type)value->type, value->axes);
    else if (value->op == OP_PARAMETER)
        made = ir_parameter(to, place[value->payload]);
    else
        return ir_rebuild(to, from, v, args);
    ir_set_source(to, made, value->range, value->name);
    return made;
}

Function *shuffle(const Function *f, bool parameters, uint64_t seed) {
    Function *to = ir_function_like(f);
    Arena *arena = f->arena;
    ValueId *map = arena_alloc(arena, f->value_count * sizeof *map);
    uint32_t *place = arena_alloc(arena, (f->parameter_count + 1) * sizeof *place);
    const uint32_t *order = permutation(arena, f->parameter_count, &seed);
    for (uint32_t p = 0; p < f->parameter_count; p++) place[p] = parameters ? order[p] : p;
    to->parameters = arena_alloc(arena, (f->parameter_count + 1) * sizeof *to->parameters);
    for (uint32_t p = 0; p < f->parameter_count; p++) to->parameters[place[p]] = f->parameters[p];
    const uint32_t *values = permutation(arena, f->value_count, &seed);
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < f->value_count; i++) {
            const ValueId v = values[i], *arg = f->values[v].arg;
            if (!v || map[v]) continue;
            const bool ready =
                (!arg[0] || map[arg[0]]) && (!arg[1] || map[arg[1]]) && (!arg[2] || map[arg[2]]);
            /* a value that waited takes any turn from then on */
            if (ready && (next(&seed) & 1)) map[v] = rebuild(to, f, v, map, place);
            more |= !map[v];
        }
    }
    const uint32_t *stores = permutation(arena, f->store_count, &seed);
    for (size_t i = 0; i < f->store_count; i++) {
        const Store *s = &f->stores[stores[i]];
        ir_store(to, place[s->parameter], map[s->value], map[s->guard], s->range);
    }
    return to;
}
