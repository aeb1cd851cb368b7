/* ir_check.c: what is legal in the IR, and after which pass.
 *
 * Needs a function that a pass has finished with. Changes nothing; calls bug() naming the first
 * value or store that breaks a rule, and the rule. What is legal when is written here and nowhere
 * else: always          the rules of the builders, values unique, operands first, at most one store
 * to a parameter, of its compute type and within its axes after lower     every `out` is stored
 *   after derive    also no GRAD, MARK, STOP_GRADIENT or CLAMP
 *   after simplify  also every value is needed by a store, and no reduction is over no axes */
#include "compiler.h"

static const char *const stage_names[] = {
    [STAGE_LOWERED] = "lower", [STAGE_DERIVED] = "derive", [STAGE_SIMPLIFIED] = "simplify"};

/* The first stage at which an operation is no longer legal. */
static const struct {
    uint8_t op, gone_after;
} gone[] = {{OP_GRAD, STAGE_DERIVED},
            {OP_MARK, STAGE_DERIVED},
            {OP_STOP_GRADIENT, STAGE_DERIVED},
            {OP_CLAMP, STAGE_DERIVED}};

static const char *leaf_problem(const Function *f, const Value *v) {
    switch (v->op) {
    case OP_CONST:
        if (v->axes) return "a constant has no axes";
        if (type_info[v->type].size < 8 && v->payload >> 8 * type_info[v->type].size)
            return "a constant's bits fit its type";
        return v->type == TYPE_BOOL && v->payload > 1 ? "a bool constant is 0 or 1" : NULL;
    case OP_PARAMETER:
        if (v->payload >= f->parameter_count) return "the parameter exists";
        if ((Type)v->type != type_info[f->parameters[v->payload].type].compute)
            return "a parameter's value has the compute type of its storage type";
        if (v->axes != f->parameters[v->payload].axes) return "a parameter's value has its axes";
        return f->parameters[v->payload].role == LS_OUT ? "an out parameter is never read" : NULL;
    case OP_POSITION:
    case OP_FIRST:
    case OP_RUNNING: return NULL;
    default:
        if (v->payload >= f->axis_count) return "the axis exists";
        if (v->type != TYPE_I64) return "sizes and indices are i64";
        if (v->op == OP_SIZE && f->axes[v->payload].fixed >= 0)
            return "the size of a fixed axis is a constant";
        if (v->op == OP_INDEX && v->axes != ir_closure(f, (AxisSet)1 << v->payload))
            return "an index has its own axis, and those it hangs on";
        return NULL;
    }
}

static const char *operation_problem(const Function *f, const Value *v) {
    Op op = (Op)v->op;
    const Value *a = &f->values[v->arg[0]];
    AxisSet axes = a->axes | f->values[v->arg[1]].axes | f->values[v->arg[2]].axes;
    Type type = (Type)v->type;
    const char *problem = NULL;
    if (op_info[op].flags & OP_REDUCTION) {
        problem = ir_reduce_problem(f, op, v->arg[0], (AxisSet)v->payload);
        if (!problem) ir_result_type(f, op, v->arg, &type);
        axes &= ~(AxisSet)v->payload;
    } else if (op == OP_CAST) {
        problem = ir_cast_problem(f, type, v->arg[0]);
        if (!problem && v->type == a->type) problem = "a cast changes the type";
    } else if (op == OP_ROUND_TO) {
        problem = ir_round_problem(f, (Type)v->payload, v->arg[0]);
        if (!problem && (Type)v->payload == (Type)v->type) problem = "round_to is to a narrow type";
        type = (Type)a->type;
    } else if (op == OP_BROADCAST) {
        if (v->axes == axes || (axes & ~v->axes)) return "a broadcast adds axes";
        axes = v->axes;
        type = (Type)a->type;
    } else if (op_info[op].rule == op_info[OP_LIST].rule && op != OP_GRAD) {
        return NULL;
    } else {
        problem = ir_result_type(f, op, v->arg, &type);
        if (op == OP_GRAD) axes = f->values[v->arg[1]].axes;
    }
    if (problem) return problem;
    if (type != (Type)v->type) return "its type follows from its operands";
    return axes != v->axes ? "its axes follow from its operands" : NULL;
}

static const char *value_problem(const Function *f, ValueId id, Stage stage) {
    const Value *v = &f->values[id];
    if (v->op == OP_NONE || v->op >= OP_COUNT) return "the operation exists";
    if (v->type >= TYPE_COUNT || type_info[v->type].compute != (Type)v->type)
        return "values have compute types";
    if (v->axes & ~ir_all_axes(f)) return "its axes are the step's";
    for (size_t i = 0; i < COUNT(gone); i++)
        if (v->op == gone[i].op && stage >= (Stage)gone[i].gone_after)
            return "derive removed these";
    for (int i = 0; i < 3; i++) {
        bool last = v->op == OP_LIST && i == 1;
        if ((i < op_info[v->op].arity) != (v->arg[i] != 0) && !last)
            return "as many operands as its arity";
        if (v->arg[i] >= id) return "operands precede their users";
    }
    if (ir_find(f, v) != id) return "equal values are one value";
    if (stage >= STAGE_SIMPLIFIED && (op_info[v->op].flags & OP_REDUCTION) && v->payload == 0)
        return "simplify removed reductions over no axes";
    return op_info[v->op].flags & OP_LEAF ? leaf_problem(f, v) : operation_problem(f, v);
}

static const char *store_problem(const Function *f, const Store *s) {
    if (s->parameter >= f->parameter_count) return "the parameter exists";
    const Parameter *p = &f->parameters[s->parameter];
    if (p->role == LS_IN) return "the parameter is inout or out";
    for (const Store *other = f->stores; other < s; other++)
        if (other->parameter == s->parameter) return "a parameter has one store";
    if (s->value == 0 || s->value >= f->value_count || s->guard >= f->value_count)
        return "the value and its guard exist";
    const Value *v = &f->values[s->value], *guard = &f->values[s->guard];
    if ((Type)v->type != type_info[p->type].compute)
        return "the value has the compute type of the parameter";
    if (s->guard && guard->type != TYPE_BOOL) return "the guard is bool";
    return (v->axes | guard->axes) & ~p->axes ? "the value's axes are among the parameter's" : NULL;
}

static void check_needed(const Function *f) {
    const bool *needed = ir_needed(f);
    for (ValueId id = 1; id < f->value_count; id++)
        if (!needed[id])
            bug(f->compiler, "%s after simplify: %%%u (%s): every value is needed by a store",
                f->name, id, op_info[f->values[id].op].name);
}

static void check_outs(const Function *f, Stage stage) {
    for (uint32_t i = 0; i < f->parameter_count; i++) {
        bool stored = f->parameters[i].role != LS_OUT;
        for (size_t s = 0; s < f->store_count && !stored; s++) stored = f->stores[s].parameter == i;
        if (!stored)
            bug(f->compiler, "%s after %s: %s: every out parameter is stored", f->name,
                stage_names[stage], f->parameters[i].name);
    }
}

void ir_check(const Function *f, Stage stage) {
    for (ValueId id = 1; id < f->value_count; id++) {
        const char *problem = value_problem(f, id, stage);
        if (problem)
            bug(f->compiler, "%s after %s: %%%u (%s): %s", f->name, stage_names[stage], id,
                f->values[id].op < OP_COUNT ? op_info[f->values[id].op].name : "?", problem);
    }
    for (size_t i = 0; i < f->store_count; i++) {
        const char *problem = store_problem(f, &f->stores[i]);
        if (problem)
            bug(f->compiler, "%s after %s: store %zu: %s", f->name, stage_names[stage], i, problem);
    }
    check_outs(f, stage);
    if (stage >= STAGE_SIMPLIFIED) check_needed(f);
}
