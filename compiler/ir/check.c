/* check.c: what is legal in the IR, and after which pass.
 *
 * Needs a function that a pass has finished with. Changes nothing; calls bug() naming the first
 * value, store or axis that breaks a rule, and the rule. What is legal when is written here and
 * nowhere else:
 *
 *   always          the rules of the builders, values unique, operands first; axes with those they
 *                   depend on; lists only where an operation takes one; a running value only in the
 *                   body of its own scan; at most one store to a parameter, of its compute type and
 *                   within its axes
 *   after lower     every `out` is stored
 *   after derive    also no GRAD, MARK, STOP_GRADIENT or CLAMP
 *   after simplify  also every value is needed by a store, and no reduction is over no axes
 *   after gather    also the source of a GATHER is a parameter, a reduction, a scan or a scatter */
#include "base/base.h"
#include "ir/ir.h"

static const char *const stage_names[] = {[STAGE_LOWERED] = "lower",
                                          [STAGE_DERIVED] = "derive",
                                          [STAGE_SIMPLIFIED] = "simplify",
                                          [STAGE_GATHERED] = "gather"};

/* The first stage at which an operation is no longer legal. */
static const struct {
    uint8_t op, gone_after;
} gone[] = {{OP_GRAD, STAGE_DERIVED},
            {OP_MARK, STAGE_DERIVED},
            {OP_STOP_GRADIENT, STAGE_DERIVED},
            {OP_CLAMP, STAGE_DERIVED}};

/* ---- axes ---- */

static const char *axis_problem(const Function *f, size_t a) {
    const Axis *axis = &f->axes[a];
    if (axis->parent >= (int)a || axis->whole >= (int)a) return "what it depends on precedes it";
    if (axis->parent >= 0 && f->axes[axis->parent].parent >= 0 && axis->whole < 0)
        return "an axis depends on a plain one";
    if (axis->fixed >= 0 && axis->term_count) return "a fixed length has no terms";
    if (axis->block < 0) return axis->rest >= 0 ? "blocks have both of their axes" : NULL;
    if (axis->block != (int)a + 1 || axis->rest != (int)a + 2 || a + 2 >= f->axis_count)
        return "the two axes of its blocks follow it";
    const Axis *block = axis + 1, *rest = axis + 2;
    if (axis->length <= 0 || block->length != axis->length || rest->length != axis->length)
        return "the three axes of blocks know the length of one";
    if (block->whole != (int)a || rest->whole != (int)a || block->parent != axis->parent ||
        rest->parent != (int)a + 1)
        return "the axes of blocks depend on its parent and on the first of them";
    return NULL;
}

static AxisSet wholes(const Function *f) {
    AxisSet set = 0;
    for (size_t a = 0; a < f->axis_count; a++)
        if (f->axes[a].block >= 0) set |= (AxisSet)1 << a;
    return set;
}

static const char *axes_problem(const Function *f, AxisSet axes) {
    if (axes & ~ir_all_axes(f)) return "its axes are the step's";
    if (axes & wholes(f)) return "the whole of blocks stands for its two axes";
    return axes != ir_closure(f, axes) ? "it varies over what its axes depend on" : NULL;
}

/* ---- leaves ---- */

static const char *leaf_problem(const Function *f, const Value *v) {
    AxisSet over = (AxisSet)v->payload;
    int list;
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
        list = ir_list_axis(f, over);
        if (v->payload > UINT32_MAX || axes_problem(f, ir_closure(f, over)))
            return "a position is over axes that exist";
        if ((over & (over - 1)) == 0) return "the position over one axis is its index";
        if (list >= 0 && over >> list & 1) return "a position is within the tensor";
        return v->type != TYPE_I64 || v->axes != ir_closure(f, over)
                   ? "a position is an i64 over its axes and those they depend on"
                   : NULL;
    case OP_FIRST:
        return v->type != TYPE_I64 || v->axes || v->payload > 1
                   ? "the first tensor or element is an i64 without axes"
                   : NULL;
    case OP_RUNNING:
        return v->payload == 0 || v->payload > f->serial ? "a running value has its own number"
                                                         : NULL;
    default: break;
    }
    if (v->payload >= f->axis_count) return "the axis exists";
    const Axis *axis = &f->axes[v->payload];
    AxisSet self = (AxisSet)1 << v->payload;
    if (v->type != TYPE_I64) return "sizes and indices are i64";
    if (v->op == OP_INDEX) {
        if (axis->block >= 0) return "the index along blocks is a position";
        return v->axes != ir_closure(f, self) ? "an index has its own axis, and those it depends on"
                                              : NULL;
    }
    if (axis->fixed >= 0) return "the size of a fixed axis is a constant";
    return v->axes != (ir_closure(f, self) & ~self) ? "a size has the axes its axis depends on"
                                                    : NULL;
}

/* ---- operations ---- */

/* What a list of a gather or a scatter has to be: i64 at different axes. */
static const char *list_problem(const Function *f, ValueId list) {
    AxisSet seen = 0;
    if (f->values[list].op != OP_LIST) return "a list of indices";
    for (; list; list = f->values[list].arg[1]) {
        const Value *v = &f->values[list];
        if (v->payload >= f->axis_count) return "the axes of a list exist";
        AxisSet axes = ir_expand(f, (AxisSet)1 << v->payload);
        if (f->values[v->arg[0]].type != TYPE_I64) return "indices are i64";
        if (axes & seen) return "a list names an axis once";
        seen |= axes;
    }
    return NULL;
}

static const char *gather_problem(const Function *f, const Value *v) {
    const Value *source = &f->values[v->arg[0]];
    const char *problem = list_problem(f, v->arg[1]);
    if (problem) return problem;
    AxisSet listed = ir_listed(f, v->arg[1]), own = source->axes & ~listed;
    for (ValueId list = v->arg[1]; list; list = f->values[list].arg[1])
        if (!(ir_expand(f, (AxisSet)1 << f->values[list].payload) & source->axes))
            return "a gather lists axes that its source has";
    for (AxisSet left = own; left; left &= left - 1)
        if (ir_closure(f, left & (0 - left)) & listed)
            return "an axis is not its own where what it depends on is listed";
    if (v->type != source->type) return "a gather has its source's type";
    return v->axes != (own | f->values[v->arg[1]].axes) ? "its axes follow from its operands"
                                                        : NULL;
}

static const char *scatter_problem(const Function *f, const Value *v) {
    const Value *q = &f->values[v->arg[0]];
    const char *problem = list_problem(f, v->arg[1]);
    if (problem) return problem;
    AxisSet listed = ir_listed(f, v->arg[1]);
    if (q->type != TYPE_I64 || v->type != TYPE_I64) return "a scatter is of i64";
    if ((listed & ~v->axes) || (AxisSet)v->payload != v->axes)
        return "a scatter lists axes of its result";
    if (ir_scatter_within(v) &&
        (v->axes & ~listed & (((AxisSet)1 << (31 - __builtin_clz(listed))) - 1)))
        return "the axes that a scatter within others lists are its slowest";
    return v->axes & ~listed & ~(q->axes | f->values[v->arg[1]].axes)
               ? "what a scatter does not list its operands have"
               : NULL;
}

static const char *scan_problem(const Function *f, const Value *v) {
    const Value *init = &f->values[v->arg[0]], *body = &f->values[v->arg[1]];
    const Value *running = &f->values[v->arg[2]];
    uint64_t axis = v->payload & ~(uint64_t)SCAN_REVERSE;
    if (running->op != OP_RUNNING) return "a scan has a running value";
    if (axis >= f->axis_count) return "the axis exists";
    AxisSet along = ir_expand(f, (AxisSet)1 << axis), others = running->axes & ~along;
    if (v->type != running->type || v->type != init->type || v->type != body->type)
        return "a scan's operands have its type";
    if (v->axes != running->axes || (along & ~v->axes))
        return "a scan has its running value's axes";
    if ((init->axes & ~others) || (body->axes & ~running->axes))
        return "a scan's operands vary within its axes, where it begins not along it";
    for (AxisSet left = others; left; left &= left - 1)
        if (ir_closure(f, left & (0 - left)) & along) return "no axis of a scan depends on its own";
    return NULL;
}

static const char *call_problem(const Function *f, const Value *v) {
    if (v->payload >= f->function_count) return "the function exists";
    const CFunction *function = &f->functions[v->payload];
    ValueId list = v->arg[0];
    for (size_t i = 0; i < function->parameter_count; i++, list = f->values[list].arg[1]) {
        const Value *entry = &f->values[list];
        if (entry->op != OP_LIST || entry->payload != i) return "an argument for each parameter";
        if ((Type)f->values[entry->arg[0]].type != function->parameters[i])
            return "arguments have their parameters' types";
    }
    if (list) return "an argument for each parameter";
    if ((Type)v->type != function->result) return "a call has its function's type";
    return v->axes != f->values[v->arg[0]].axes ? "its axes follow from its operands" : NULL;
}

/* The operations whose types a row of ops.def does not give. */
static const char *other_problem(const Function *f, const Value *v) {
    const Value *a = &f->values[v->arg[0]], *b = &f->values[v->arg[1]], *c = &f->values[v->arg[2]];
    Type storage = v->payload < TYPE_COUNT ? (Type)v->payload : TYPE_NONE;
    switch (v->op) {
    case OP_LIST:
        if (b->op != OP_NONE && b->op != OP_LIST) return "a list goes on with a list";
        if (v->type != a->type) return "its type follows from its operands";
        break;
    case OP_GATHER: return gather_problem(f, v);
    case OP_SCATTER:
    case OP_SCATTER_MIN: return scatter_problem(f, v);
    case OP_SCAN: return scan_problem(f, v);
    case OP_CALL: return call_problem(f, v);
    case OP_RANDOM_KEY:
        if (a->type != TYPE_I64 || b->type != TYPE_I64 || c->type != TYPE_I64)
            return "a key is made of i64";
        if (v->type != TYPE_U64) return "a key is u64";
        break;
    case OP_ROUND_STOCHASTIC:
        if (storage == TYPE_NONE || type_info[storage].class != 'F' ||
            type_info[storage].compute == storage)
            return "it rounds to a narrow float type";
        if (a->type != TYPE_F32 || b->type != TYPE_U32 || v->type != TYPE_F32)
            return "an f32 is rounded with a u32";
        break;
    case OP_FROM_FIXED:
        if (a->type != TYPE_I64 || b->type != TYPE_I64) return "fixed point and its shift are i64";
        if ((Type)v->type != storage || type_info[storage].class != 'F')
            return "it becomes a float of the type it names";
        break;
    default: return "the operation is known";
    }
    return v->axes != (a->axes | b->axes | c->axes) ? "its axes follow from its operands" : NULL;
}

const char *ir_operation_problem(const Function *f, const Value *v) {
    Op op = (Op)v->op;
    const Value *a = &f->values[v->arg[0]];
    AxisSet axes = a->axes | f->values[v->arg[1]].axes | f->values[v->arg[2]].axes;
    Type type = (Type)v->type;
    const char *problem = NULL;
    if (op_info[op].flags & OP_REDUCTION) {
        problem = ir_reduce_problem(f, op, v->arg[0], (AxisSet)v->payload);
        if (!problem) ir_result_type(f, op, v->arg, &type);
        axes &= ~(AxisSet)v->payload;
        if (!problem && ir_closure(f, axes) != axes)
            problem = "a reduction is not over what an axis that is left depends on";
        int list = ir_list_axis(f, (AxisSet)v->payload);
        if (!problem && list >= 0 && (v->payload >> list & 1))
            problem = "a list is reduced tensor by tensor first";
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
        return other_problem(f, v);
    } else {
        problem = ir_result_type(f, op, v->arg, &type);
        if (op == OP_GRAD) axes = f->values[v->arg[1]].axes;
    }
    if (problem) return problem;
    if (type != (Type)v->type) return "its type follows from its operands";
    return axes != v->axes ? "its axes follow from its operands" : NULL;
}

/* Whether operand i of the operation is a list. */
static bool takes_list(Op op, int i) {
    return (op == OP_CALL && i == 0) || (i == 1 && (op == OP_LIST || op == OP_GATHER ||
                                                    op == OP_SCATTER || op == OP_SCATTER_MIN));
}

static const char *value_problem(const Function *f, ValueId id, Stage stage) {
    const Value *v = &f->values[id];
    if (v->op == OP_NONE || v->op >= OP_COUNT) return "the operation exists";
    if (v->type >= TYPE_COUNT || type_info[v->type].compute != (Type)v->type)
        return "values have compute types";
    const char *problem = axes_problem(f, v->axes);
    if (problem) return problem;
    for (size_t i = 0; i < COUNT(gone); i++)
        if (v->op == gone[i].op && stage >= (Stage)gone[i].gone_after)
            return "derive removed these";
    for (int i = 0; i < 3; i++) {
        bool last = v->op == OP_LIST && i == 1;
        if ((i < op_info[v->op].arity) != (v->arg[i] != 0) && !last)
            return "as many operands as its arity";
        if (v->arg[i] >= id) return "operands precede their users";
        if (f->values[v->arg[i]].op == OP_LIST && !takes_list((Op)v->op, i))
            return "a list is an operand of gather, scatter and call";
    }
    if (ir_find(f, v) != id) return "equal values are one value";
    if (stage >= STAGE_SIMPLIFIED && (op_info[v->op].flags & OP_REDUCTION) && v->payload == 0)
        return "simplify removed reductions over no axes";
    Op source = (Op)f->values[v->arg[0]].op;
    if (stage >= STAGE_GATHERED && v->op == OP_GATHER && source != OP_PARAMETER &&
        !(op_info[source].flags & (OP_REDUCTION | OP_ARRAY)))
        return "gather left parameters, reductions, scans and scatters as sources";
    return op_info[v->op].flags & OP_LEAF ? leaf_problem(f, v) : ir_operation_problem(f, v);
}

/* ---- running values ----
 * Each belongs to one scan; what is computed from it is element by element and ends in the body. */

static const char *running_problem(const Function *f, ValueId id, ValueId *running, bool *scanned) {
    const Value *v = &f->values[id];
    if (v->op == OP_RUNNING) running[id] = id;
    if (v->op == OP_SCAN) {
        if (scanned[v->arg[2]]) return "a running value belongs to one scan";
        scanned[v->arg[2]] = true;
        bool own = running[v->arg[1]] == 0 || running[v->arg[1]] == v->arg[2];
        return running[v->arg[0]] || !own ? "a scan uses no other scan's running value" : NULL;
    }
    for (int i = 0; i < op_info[v->op].arity; i++) {
        ValueId of = running[v->arg[i]];
        if (of && running[id] && running[id] != of)
            return "a value uses the running value of one scan";
        if (of) running[id] = of;
    }
    bool whole = (op_info[v->op].flags & (OP_REDUCTION | OP_ARRAY)) || v->op == OP_GATHER;
    return whole && running[id] ? "a reduction or gather does not use a running value" : NULL;
}

/* ---- stores ---- */

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
    if (v->op == OP_LIST || guard->op == OP_LIST) return "a list is no value";
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
    ValueId *running = arena_alloc(f->arena, f->value_count * sizeof *running);
    bool *scanned = arena_alloc(f->arena, f->value_count * sizeof *scanned);
    for (size_t a = 0; a < f->axis_count; a++) {
        const char *problem = axis_problem(f, a);
        if (problem)
            bug(f->compiler, "%s after %s: axis %s: %s", f->name, stage_names[stage],
                f->axes[a].name, problem);
    }
    for (ValueId id = 1; id < f->value_count; id++) {
        const char *problem = value_problem(f, id, stage);
        if (!problem) problem = running_problem(f, id, running, scanned);
        if (problem)
            bug(f->compiler, "%s after %s: %%%u (%s): %s", f->name, stage_names[stage], id,
                f->values[id].op < OP_COUNT ? op_info[f->values[id].op].name : "?", problem);
    }
    for (size_t i = 0; i < f->store_count; i++) {
        const char *problem = store_problem(f, &f->stores[i]);
        if (!problem && (running[f->stores[i].value] || running[f->stores[i].guard]))
            problem = "a running value stays in its scan";
        if (problem)
            bug(f->compiler, "%s after %s: store %zu: %s", f->name, stage_names[stage], i, problem);
    }
    check_outs(f, stage);
    if (stage >= STAGE_SIMPLIFIED) check_needed(f);
}
