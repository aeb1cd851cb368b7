/* build.c: building the IR.
 *
 * The tables of operations and types, the type rules, and builders that give an existing equal
 * value where there is one. A builder that is called with operands its rule forbids is a bug of the
 * caller: the checker has already refused the user's version of it. */
#include "base/base.h"
#include "ir/ir.h"

#include <math.h>
#include <string.h>

/* types.def in the order of ls_type: the image and the IR share type numbers. */
#define X(id, ...) _Static_assert((int)TYPE_##id == (int)LS_##id, "types.def and ls_type: " #id);
#include "types.def"
#undef X
_Static_assert((int)TYPE_COUNT == (int)LS_TYPE_COUNT, "types.def and ls_type differ in length");

enum { CLASS_F = 'F', CLASS_S = 'S', CLASS_U = 'U', CLASS_B = 'B' };
const TypeInfo type_info[TYPE_COUNT] = {
#define X(id, name, class, size, compute, c_name) \
    {name, CLASS_##class, size, TYPE_##compute, c_name},
#include "types.def"
#undef X
};

typedef enum RuleId {
    RULE_OTHER,
    RULE_ANY,
    RULE_SAME,
    RULE_FLOAT,
    RULE_INT,
    RULE_TEST,
    RULE_EQUAL,
    RULE_FTEST,
    RULE_BOOL,
    RULE_SELECT,
    RULE_POWI,
    RULE_SHIFT,
    RULE_ARG,
    RULE_BITS,
    RULE_UNBITS,
    RULE_NARROW,
    RULE_DRAW,
    RULE_DRAWF,
    RULE_FIX,
    RULE_PERMUTE,
    RULE_COUNT
} RuleId;

enum { L = OP_LEAF, R = OP_REDUCTION, C = OP_COMMUTATIVE, A = OP_ARRAY };
const OpInfo op_info[OP_COUNT] = {
    {"none", 0, RULE_OTHER, 0, 0, 0, false, OP_NONE, FORM_NONE, "", ""},
#define SPELLING_NONE FORM_NONE, ""
#define SPELLING_OWN FORM_OWN, ""
#define SPELLING_CALL FORM_CALL, ""
#define SPELLING_INFIX(sign) FORM_INFIX, #sign
#define SPELLING_ARITHMETIC(sign) FORM_ARITHMETIC, #sign
#define X(id, name, arity, rule, flags, cost, work, f64, lite, form, derivative) \
    {#name, arity, RULE_##rule, flags, cost, work, f64, OP_##lite, SPELLING_##form, derivative},
#include "ops.def"
#undef X
};

/* ---- type rules ---- */

enum { /* sets of types an operand may have */
       FLOATS = 1 << TYPE_F64 | 1 << TYPE_F32,
       SIGNEDS = 1 << TYPE_I64 | 1 << TYPE_I32,
       UNSIGNEDS = 1 << TYPE_U64 | 1 << TYPE_U32,
       INTS = SIGNEDS | UNSIGNEDS,
       NUMBERS = FLOATS | INTS,
       BOOLS = 1 << TYPE_BOOL,
       LIKE_0 = 1 << 30, /* the type of operand 0 */
       LIKE_1 = 1 << 29, /* the type of operand 1 */
};
typedef struct Rule {
    int operand[3];
    int result; /* LIKE_0, LIKE_1, or a type */
    const char *meaning;
} Rule;

static const Rule rules[RULE_COUNT] = {
    [RULE_ANY] = {{NUMBERS | BOOLS, LIKE_0, LIKE_0}, LIKE_0, "operands of one type"},
    [RULE_SAME] = {{NUMBERS, LIKE_0, LIKE_0}, LIKE_0, "numbers of one type"},
    [RULE_FLOAT] = {{FLOATS, LIKE_0, LIKE_0}, LIKE_0, "floats of one type"},
    [RULE_INT] = {{INTS, LIKE_0, LIKE_0}, LIKE_0, "integers of one type"},
    [RULE_TEST] = {{NUMBERS, LIKE_0}, TYPE_BOOL, "numbers of one type"},
    [RULE_EQUAL] = {{NUMBERS | BOOLS, LIKE_0}, TYPE_BOOL, "operands of one type"},
    [RULE_FTEST] = {{FLOATS}, TYPE_BOOL, "a float"},
    [RULE_BOOL] = {{BOOLS, BOOLS, BOOLS}, TYPE_BOOL, "bool operands"},
    [RULE_SELECT] = {{BOOLS, NUMBERS | BOOLS, LIKE_1}, LIKE_1, "a bool and two of one type"},
    [RULE_POWI] = {{NUMBERS, SIGNEDS}, LIKE_0, "a number and an i32 or i64 exponent"},
    [RULE_SHIFT] = {{INTS, INTS}, LIKE_0, "two integers"},
    [RULE_ARG] = {{NUMBERS}, TYPE_I64, "a number"},
    [RULE_BITS] = {{1 << TYPE_F32}, TYPE_U32, "an f32"},
    [RULE_UNBITS] = {{1 << TYPE_U32}, TYPE_F32, "a u32"},
    [RULE_NARROW] = {{1 << TYPE_F64}, TYPE_F32, "an f64"},
    [RULE_DRAW] = {{1 << TYPE_U64, 1 << TYPE_I64}, TYPE_U32, "a u64 key and an i64 index"},
    [RULE_DRAWF] = {{1 << TYPE_U64, 1 << TYPE_I64}, TYPE_F32, "a u64 key and an i64 index"},
    [RULE_FIX] = {{FLOATS, 1 << TYPE_I64}, TYPE_I64, "a float and an i64"},
    [RULE_PERMUTE] = {{1 << TYPE_I64, 1 << TYPE_I64, 1 << TYPE_U64},
                      TYPE_I64,
                      "two i64 and a u64 key"},
};

const char *ir_result_type(const Function *f, Op op, const ValueId args[3], Type *result) {
    const OpInfo *info = &op_info[op];
    *result = TYPE_NONE;
    for (int i = 0; i < 3; i++) {
        bool last = op == OP_LIST && i == 1;
        if ((i < info->arity) != (args[i] != 0) && !last) return "as many operands as its arity";
        if (args[i] >= f->value_count) return "operands that exist";
    }
    if (op == OP_GRAD) {
        const Value *from = &f->values[args[2]], *of = &f->values[args[0]];
        if (!(1 << of->type & FLOATS)) return "a float to derive";
        if (!(1 << f->values[args[1]].type & FLOATS)) return "a float to derive by";
        if (from->type != of->type || (from->axes & ~of->axes))
            return "an upstream gradient of the type and axes of its first operand";
        *result = f->values[args[1]].type;
        return NULL;
    }
    const Rule *rule = &rules[info->rule];
    if (info->rule == RULE_OTHER) return "to be built by its own builder";
    Type types[3] = {0};
    for (int i = 0; i < info->arity; i++) {
        types[i] = (Type)f->values[args[i]].type;
        int accepted = rule->operand[i] == LIKE_0   ? 1 << types[0]
                       : rule->operand[i] == LIKE_1 ? 1 << types[1]
                                                    : rule->operand[i];
        if (!(1 << types[i] & accepted)) return rule->meaning;
        if (types[i] == TYPE_F64 && !info->f64) return "an f32: it has no f64 form";
    }
    *result = rule->result == LIKE_0   ? types[0]
              : rule->result == LIKE_1 ? types[1]
                                       : (Type)rule->result;
    return NULL;
}

bool ir_takes_count(Op op) {
    return op_info[op].rule == RULE_SHIFT || op_info[op].rule == RULE_POWI;
}

const char *ir_cast_problem(const Function *f, Type type, ValueId a) {
    if (a == 0 || a >= f->value_count) return "an operand that exists";
    if (type >= TYPE_COUNT || type_info[type].compute != type) return "a compute type to cast to";
    return NULL;
}

const char *ir_round_problem(const Function *f, Type storage, ValueId a) {
    if (a == 0 || a >= f->value_count) return "an operand that exists";
    if (storage >= TYPE_COUNT) return "a storage type";
    if (type_info[storage].compute != (Type)f->values[a].type)
        return "an operand of the storage type's compute type";
    return NULL;
}

/* Or the q and k of one in blocks. */
static bool is_one_axis(const Function *f, AxisSet axes) {
    if (axes == 0) return false;
    if ((axes & (axes - 1)) == 0) return true;
    int whole = f->axes[__builtin_ctz(axes)].whole;
    return whole >= 0 && axes == ir_expand(f, (AxisSet)1 << whole);
}

const char *ir_reduce_problem(const Function *f, Op op, ValueId a, AxisSet over) {
    Type type;
    const char *problem = ir_result_type(f, op, (ValueId[3]){a}, &type);
    if (problem) return problem;
    if (!(op_info[op].flags & OP_REDUCTION)) return "to be a reduction";
    if (over & ~f->values[a].axes) return "axes that its operand has";
    if ((op == OP_ARGMIN || op == OP_ARGMAX) && !is_one_axis(f, over)) return "exactly one axis";
    if ((op == OP_SUM || op == OP_PROD) && (type == TYPE_I32 || type == TYPE_U32))
        return "its integers cast to i64 or u64 first";
    return NULL;
}

/* ---- values ---- */

Axis ir_axis(const char *name, int64_t fixed, Range range) {
    return (Axis){.name = name,
                  .fixed = fixed,
                  .parent = -1,
                  .whole = -1,
                  .block = -1,
                  .rest = -1,
                  .range = range};
}

Function *ir_function(Compiler *compiler, Arena *arena, const char *name) {
    Function *f = arena_alloc(arena, sizeof *f);
    f->compiler = compiler;
    f->arena = arena;
    f->name = name;
    f->math = LS_MATH_EXACT;
    f->bucket_count = 64;
    f->buckets = arena_alloc(arena, f->bucket_count * sizeof *f->buckets);
    f->values = arena_grow(arena, NULL, 0, &f->value_capacity, sizeof *f->values);
    f->value_count = 1; /* value 0 is none */
    return f;
}

Function *ir_function_like(const Function *f) {
    Function *copy = ir_function(f->compiler, f->arena, f->name);
    copy->range = f->range;
    copy->math = f->math;
    copy->axes = f->axes;
    copy->axis_count = f->axis_count;
    copy->parameters = f->parameters;
    copy->parameter_count = f->parameter_count;
    copy->parameter_capacity = f->parameter_count; /* full: growing the copy leaves f's alone */
    copy->functions = f->functions;
    copy->function_count = f->function_count;
    copy->iteration = f->iteration;
    copy->serial = f->serial;
    return copy;
}

static size_t hash_value(const Value *v) {
    uint64_t words[] = {
        (uint64_t)v->op << 8 | v->type, v->axes, v->arg[0], v->arg[1], v->arg[2], v->payload};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < COUNT(words); i++) {
        hash = (hash ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return (size_t)hash;
}

static bool same_value(const Value *a, const Value *b) {
    return a->op == b->op && a->type == b->type && a->axes == b->axes && a->arg[0] == b->arg[0] &&
           a->arg[1] == b->arg[1] && a->arg[2] == b->arg[2] && a->payload == b->payload;
}

static ValueId find(const Function *f, const Value *v) {
    ValueId id = f->buckets[hash_value(v) & (f->bucket_count - 1)];
    while (id != 0 && !same_value(&f->values[id], v)) id = f->values[id].next;
    return id;
}

static void link_value(Function *f, ValueId id) {
    ValueId *bucket = &f->buckets[hash_value(&f->values[id]) & (f->bucket_count - 1)];
    f->values[id].next = *bucket;
    *bucket = id;
}

/* An equal value, also with its operands exchanged where that changes nothing; else a new one. */
static ValueId intern(Function *f, Value value) {
    ValueId id = find(f, &value);
    if (id == 0 && (op_info[value.op].flags & OP_COMMUTATIVE)) {
        Value exchanged = value;
        exchanged.arg[0] = value.arg[1];
        exchanged.arg[1] = value.arg[0];
        id = find(f, &exchanged);
    }
    if (id != 0) return id;
    if (f->value_count >= f->bucket_count) {
        f->bucket_count *= 4;
        f->buckets = arena_alloc(f->arena, f->bucket_count * sizeof *f->buckets);
        for (ValueId v = 1; v < f->value_count; v++) link_value(f, v);
    }
    f->values =
        arena_grow(f->arena, f->values, f->value_count, &f->value_capacity, sizeof *f->values);
    id = (ValueId)f->value_count++;
    f->values[id] = value;
    link_value(f, id);
    return id;
}

static void require(const Function *f, Op op, const char *problem) {
    if (problem) bug(f->compiler, "%s: building %s wants %s", f->name, op_info[op].name, problem);
}

static AxisSet union_of_axes(const Function *f, const ValueId args[3]) {
    return f->values[args[0]].axes | f->values[args[1]].axes | f->values[args[2]].axes;
}

/* The payload of a constant: NaN canonical, no bits above the type's. */
static uint64_t normal_bits(Type type, uint64_t bits) {
    if (type == TYPE_F64) {
        double number;
        memcpy(&number, &bits, sizeof number);
        return isnan(number) ? UINT64_C(0x7fffffffffffffff) : bits;
    }
    if (type == TYPE_F32) {
        uint32_t low = (uint32_t)bits;
        float number;
        memcpy(&number, &low, sizeof number);
        return isnan(number) ? UINT32_C(0x7fffffff) : low;
    }
    if (type == TYPE_BOOL) return bits != 0;
    return type_info[type].size < 8 ? bits & ((UINT64_C(1) << 8 * type_info[type].size) - 1) : bits;
}

/* Integers saturate; those of the smaller types are exact in a double. */
static uint64_t integer_bits(Type type, double value) {
    bool is_signed = type_info[type].class == 'S';
    int width = 8 * type_info[type].size - is_signed;
    double limit = ldexp(1.0, width), min = is_signed ? -limit : 0.0;
    double whole = isnan(value) ? 0.0 : trunc(value);
    uint64_t max = UINT64_MAX >> (64 - width);
    if (whole >= limit) return max;
    if (whole <= min) return is_signed ? max + 1 : 0;
    return whole < 0 ? (uint64_t)(int64_t)whole : (uint64_t)whole;
}

uint64_t ir_number_bits(Type type, double value) {
    uint64_t bits = 0;
    float narrow = (float)value;
    if (type == TYPE_F64)
        memcpy(&bits, &value, sizeof bits);
    else if (type == TYPE_F32)
        memcpy(&bits, &narrow, sizeof narrow);
    else if (type == TYPE_BOOL)
        bits = value != 0;
    else
        bits = integer_bits(type, value);
    return normal_bits(type, bits);
}

ValueId ir_constant(Function *f, Type type, uint64_t bits) {
    bool good = type < TYPE_COUNT && type_info[type].compute == type;
    require(f, OP_CONST, good ? NULL : "a compute type");
    return intern(
        f, (Value){.op = OP_CONST, .type = (uint8_t)type, .payload = normal_bits(type, bits)});
}

ValueId ir_constant_number(Function *f, Type type, double value) {
    return ir_constant(f, type, ir_number_bits(type, value));
}

ValueId ir_leaf(Function *f, Op op, Type type, AxisSet axes, uint64_t payload) {
    require(f, op, op_info[op].flags & OP_LEAF ? NULL : "to be a leaf");
    if (op == OP_CONST) return ir_constant(f, type, payload);
    uint64_t count = op == OP_PARAMETER                ? f->parameter_count
                     : op == OP_SIZE || op == OP_INDEX ? f->axis_count
                                                       : UINT64_MAX;
    require(f, op, payload < count ? NULL : "a parameter or axis that exists");
    return intern(
        f, (Value){.op = (uint8_t)op, .type = (uint8_t)type, .axes = axes, .payload = payload});
}

ValueId ir_parameter(Function *f, uint32_t number) {
    require(f, OP_PARAMETER, number < f->parameter_count ? NULL : "a parameter that exists");
    const Parameter *p = &f->parameters[number];
    ValueId id = ir_leaf(f, OP_PARAMETER, type_info[p->type].compute, p->axes, number);
    ir_set_source(f, id, p->range, p->name);
    return id;
}

ValueId ir_size(Function *f, uint32_t axis) {
    require(f, OP_SIZE, axis < f->axis_count ? NULL : "an axis that exists");
    const Axis *row = &f->axes[axis];
    AxisSet axes = row->parent < 0 ? 0 : ir_closure(f, (AxisSet)1 << row->parent);
    if (row->fixed >= 0) return ir_constant(f, TYPE_I64, (uint64_t)row->fixed);
    return ir_leaf(f, OP_SIZE, TYPE_I64, axes, axis);
}

ValueId ir_index(Function *f, uint32_t axis) {
    require(f, OP_INDEX, axis < f->axis_count ? NULL : "an axis that exists");
    if (f->axes[axis].block >= 0) return ir_position(f, ir_expand(f, (AxisSet)1 << axis));
    return ir_leaf(f, OP_INDEX, TYPE_I64, ir_closure(f, (AxisSet)1 << axis), axis);
}

ValueId ir_position(Function *f, AxisSet over) {
    require(f, OP_POSITION, over & ~ir_all_axes(f) ? "axes that exist" : NULL);
    if (over == 0) return ir_constant(f, TYPE_I64, 0);
    if ((over & (over - 1)) == 0) return ir_index(f, (uint32_t)__builtin_ctz(over));
    return ir_leaf(f, OP_POSITION, TYPE_I64, ir_closure(f, over), over);
}

/* What `math lite` computes in place of an operation on f32. */
static Op graded(const Function *f, Op op, ValueId a) {
    const Op lite = (Op)op_info[op].lite;
    const bool has = lite != OP_NONE && f->math == LS_MATH_LITE;
    return has && a && f->values[a].type == TYPE_F32 ? lite : op;
}

ValueId ir_op(Function *f, Op op, ValueId a, ValueId b, ValueId c) {
    Type type;
    ValueId args[3] = {a, b, c};
    op = graded(f, op, a);
    if (op == OP_GRAD && c == 0 && a != 0 && f->values[a].axes == 0)
        args[2] = ir_constant_number(f, (Type)f->values[a].type, 1.0);
    require(f, op, ir_result_type(f, op, args, &type));
    require(f, op, op_info[op].flags & OP_REDUCTION ? "ir_reduce" : NULL);
    Value value = {.op = (uint8_t)op, .type = (uint8_t)type, .axes = union_of_axes(f, args)};
    memcpy(value.arg, args, sizeof args);
    if (op == OP_GRAD) value.axes = f->values[b].axes;
    if (op == OP_MARK) value.payload = f->value_count; /* no other mark has this number */
    return intern(f, value);
}

ValueId ir_cast(Function *f, Type type, ValueId a) {
    require(f, OP_CAST, ir_cast_problem(f, type, a));
    if ((Type)f->values[a].type == type) return a;
    return intern(
        f, (Value){.op = OP_CAST, .type = (uint8_t)type, .axes = f->values[a].axes, .arg = {a}});
}

ValueId ir_round_to(Function *f, Type storage, ValueId a) {
    require(f, OP_ROUND_TO, ir_round_problem(f, storage, a));
    if (type_info[storage].compute == storage) return a;
    return intern(f, (Value){.op = OP_ROUND_TO,
                             .type = f->values[a].type,
                             .axes = f->values[a].axes,
                             .arg = {a},
                             .payload = storage});
}

ValueId ir_broadcast(Function *f, ValueId a, AxisSet axes) {
    require(f, OP_BROADCAST, a == 0 || a >= f->value_count ? "an operand that exists" : NULL);
    require(f, OP_BROADCAST, axes & ~ir_all_axes(f) ? "axes that exist" : NULL);
    axes |= f->values[a].axes;
    if (axes == f->values[a].axes) return a;
    return intern(f,
                  (Value){.op = OP_BROADCAST, .type = f->values[a].type, .axes = axes, .arg = {a}});
}

ValueId ir_reduce(Function *f, Op op, ValueId a, AxisSet over) {
    Type type;
    ValueId args[3] = {a};
    require(f, op, ir_reduce_problem(f, op, a, over));
    require(f, op, ir_result_type(f, op, args, &type));
    return intern(f, (Value){.op = (uint8_t)op,
                             .type = (uint8_t)type,
                             .axes = f->values[a].axes & ~over,
                             .arg = {a},
                             .payload = over});
}

ValueId ir_list(Function *f, ValueId value, ValueId next, uint64_t payload) {
    require(f, OP_LIST, value == 0 || value >= f->value_count ? "a value" : NULL);
    require(f, OP_LIST, next && f->values[next].op != OP_LIST ? "a list after it" : NULL);
    return intern(f, (Value){.op = OP_LIST,
                             .type = f->values[value].type,
                             .axes = f->values[value].axes | f->values[next].axes,
                             .arg = {value, next},
                             .payload = payload});
}

AxisSet ir_listed(const Function *f, ValueId list) {
    AxisSet axes = 0;
    for (; list; list = f->values[list].arg[1])
        axes |= ir_expand(f, (AxisSet)1 << f->values[list].payload);
    return axes;
}

ValueId ir_gather(Function *f, ValueId source, ValueId list) {
    require(f, OP_GATHER,
            source == 0 || f->values[list].op != OP_LIST ? "a source and a list" : NULL);
    AxisSet axes = f->values[source].axes & ~ir_listed(f, list);
    return intern(f, (Value){.op = OP_GATHER,
                             .type = f->values[source].type,
                             .axes = axes | f->values[list].axes,
                             .arg = {source, list}});
}

ValueId ir_scatter(Function *f, Op op, ValueId q, ValueId list, AxisSet axes, AxisSet within) {
    require(f, op, f->values[q].type != TYPE_I64 ? "an i64" : NULL);
    require(f, op, f->values[list].op != OP_LIST ? "a list" : NULL);
    require(f, op, (axes | within) & ~ir_all_axes(f) ? "axes that exist" : NULL);
    return intern(f, (Value){.op = (uint8_t)op,
                             .type = TYPE_I64,
                             .axes = axes,
                             .arg = {q, list},
                             .payload = axes | (uint64_t)within << 32});
}

bool ir_is_scatter(const Value *v) {
    return v->op == OP_SCATTER || v->op == OP_SCATTER_MIN;
}

AxisSet ir_scatter_within(const Value *v) {
    return ir_is_scatter(v) ? (AxisSet)(v->payload >> 32) : 0;
}

ValueId ir_running(Function *f, Type type, AxisSet axes) {
    return ir_leaf(f, OP_RUNNING, type, axes, ++f->serial);
}

ValueId ir_scan(Function *f, ValueId init, ValueId body, ValueId running, uint32_t axis,
                bool reverse) {
    const Value *r = &f->values[running];
    bool typed = r->type == f->values[init].type && r->type == f->values[body].type;
    require(f, OP_SCAN, axis < f->axis_count ? NULL : "an axis that exists");
    require(f, OP_SCAN, r->op == OP_RUNNING && typed ? NULL : "three of the running value's type");
    return intern(f, (Value){.op = OP_SCAN,
                             .type = r->type,
                             .axes = r->axes,
                             .arg = {init, body, running},
                             .payload = axis | (reverse ? SCAN_REVERSE : 0)});
}

ValueId ir_random_key(Function *f, ValueId seed, ValueId step, ValueId tensor, uint32_t ordinal) {
    ValueId args[3] = {seed, step, tensor};
    for (int i = 0; i < 3; i++)
        require(f, OP_RANDOM_KEY, f->values[args[i]].type != TYPE_I64 ? "i64 operands" : NULL);
    return intern(f, (Value){.op = OP_RANDOM_KEY,
                             .type = TYPE_U64,
                             .axes = union_of_axes(f, args),
                             .arg = {seed, step, tensor},
                             .payload = ordinal});
}

ValueId ir_round_stochastic(Function *f, Type storage, ValueId a, ValueId bits) {
    bool narrow = type_info[storage].class == 'F' && type_info[storage].compute != storage;
    bool typed = f->values[a].type == TYPE_F32 && f->values[bits].type == TYPE_U32;
    require(f, OP_ROUND_STOCHASTIC, narrow && typed ? NULL : "a narrow float type, f32 and u32");
    return intern(f, (Value){.op = OP_ROUND_STOCHASTIC,
                             .type = TYPE_F32,
                             .axes = f->values[a].axes | f->values[bits].axes,
                             .arg = {a, bits},
                             .payload = storage});
}

ValueId ir_from_fixed(Function *f, Type type, ValueId q, ValueId shift) {
    bool typed = f->values[q].type == TYPE_I64 && f->values[shift].type == TYPE_I64;
    require(f, OP_FROM_FIXED, typed && (1 << type & FLOATS) ? NULL : "two i64 and a float type");
    return intern(f, (Value){.op = OP_FROM_FIXED,
                             .type = (uint8_t)type,
                             .axes = f->values[q].axes | f->values[shift].axes,
                             .arg = {q, shift},
                             .payload = type});
}

ValueId ir_call(Function *f, uint32_t function, ValueId list) {
    require(f, OP_CALL, function < f->function_count ? NULL : "a function that exists");
    return intern(f, (Value){.op = OP_CALL,
                             .type = (uint8_t)f->functions[function].result,
                             .axes = f->values[list].axes,
                             .arg = {list},
                             .payload = function});
}

ValueId ir_exp_nonpositive(Function *f, Op op, ValueId a) {
    const Value *operand = &f->values[a];
    return intern(f, (Value){.op = (uint8_t)op,
                             .type = operand->type,
                             .axes = operand->axes,
                             .arg = {a},
                             .payload = operand->type == TYPE_F32 ? EXP_NONPOSITIVE : 0});
}

ValueId ir_make(Function *f, const Value *like, const ValueId args[3]) {
    const Value v = *like;
    Op op = (Op)v.op;
    const uint32_t axis = (uint32_t)v.payload & (SCAN_REVERSE - 1);
    if (op_info[op].flags & OP_REDUCTION) return ir_reduce(f, op, args[0], (AxisSet)v.payload);
    if (op_info[op].flags & OP_LEAF) return ir_leaf(f, op, (Type)v.type, v.axes, v.payload);
    switch (op) {
    case OP_CAST: return ir_cast(f, (Type)v.type, args[0]);
    case OP_ROUND_TO: return ir_round_to(f, (Type)v.payload, args[0]);
    case OP_BROADCAST: return ir_broadcast(f, args[0], v.axes);
    case OP_LIST: return ir_list(f, args[0], args[1], v.payload);
    case OP_GATHER: return ir_gather(f, args[0], args[1]);
    case OP_SCATTER:
    case OP_SCATTER_MIN:
        return ir_scatter(f, op, args[0], args[1], (AxisSet)v.payload, ir_scatter_within(&v));
    case OP_SCAN: return ir_scan(f, args[0], args[1], args[2], axis, v.payload & SCAN_REVERSE);
    case OP_RANDOM_KEY: return ir_random_key(f, args[0], args[1], args[2], (uint32_t)v.payload);
    case OP_ROUND_STOCHASTIC: return ir_round_stochastic(f, (Type)v.payload, args[0], args[1]);
    case OP_FROM_FIXED: return ir_from_fixed(f, (Type)v.payload, args[0], args[1]);
    case OP_CALL: return ir_call(f, (uint32_t)v.payload, args[0]);
    default: break;
    }
    return ir_is_nonpositive(&v) ? ir_exp_nonpositive(f, op, args[0])
                                 : ir_op(f, op, args[0], args[1], args[2]);
}

ValueId ir_rebuild(Function *to, const Function *from, ValueId id, const ValueId args[3]) {
    const Value *v = &from->values[id];
    ValueId result = ir_make(to, v, args);
    ir_set_source(to, result, v->range, v->name);
    return result;
}

ValueId ir_find(const Function *f, const Value *value) {
    return find(f, value);
}

void ir_store(Function *f, uint32_t parameter, ValueId value, ValueId guard, Range range) {
    f->stores =
        arena_grow(f->arena, f->stores, f->store_count, &f->store_capacity, sizeof *f->stores);
    f->stores[f->store_count++] = (Store){parameter, value, guard, range};
}

void ir_copy_stores(Function *f, const Function *from, const ValueId *map) {
    for (size_t i = 0; i < from->store_count; i++) {
        const Store *s = &from->stores[i];
        ir_store(f, s->parameter, map[s->value], map[s->guard], s->range);
    }
}

void ir_set_source(Function *f, ValueId value, Range range, const char *name) {
    Value *v = &f->values[value];
    if (v->range.file == 0) v->range = range;
    if (v->name == NULL) v->name = name;
}

AxisSet ir_all_axes(const Function *f) {
    return f->axis_count >= 32 ? ~(AxisSet)0 : ((AxisSet)1 << f->axis_count) - 1;
}

AxisSet ir_closure(const Function *f, AxisSet axes) {
    for (size_t a = f->axis_count; a-- > 0;) /* parents precede what depends on them */
        if ((axes >> a & 1) && f->axes[a].parent >= 0) axes |= (AxisSet)1 << f->axes[a].parent;
    return axes;
}

bool ir_are_plain(const Function *f, AxisSet axes) {
    for (size_t a = 0; a < f->axis_count; a++)
        if ((axes >> a & 1) && (f->axes[a].parent >= 0 || f->axes[a].whole >= 0)) return false;
    return true;
}

AxisSet ir_expand(const Function *f, AxisSet axes) {
    for (size_t a = 0; a < f->axis_count; a++)
        if ((axes >> a & 1) && f->axes[a].block >= 0) {
            axes &= ~((AxisSet)1 << a);
            axes |= (AxisSet)1 << f->axes[a].block | (AxisSet)1 << f->axes[a].rest;
        }
    return axes;
}

int ir_list_axis(const Function *f, AxisSet axes) {
    for (size_t a = 0; a < f->axis_count; a++) {
        int parent = f->axes[a].parent;
        if ((axes >> a & 1) && parent >= 0 && f->axes[parent].whole < 0) return parent;
    }
    return -1;
}

const bool *ir_needed(const Function *f) {
    bool *needed = arena_alloc(f->arena, f->value_count * sizeof *needed);
    for (size_t i = 0; i < f->store_count; i++)
        needed[f->stores[i].value] = needed[f->stores[i].guard] = true;
    for (ValueId id = (ValueId)f->value_count; --id > 0;)
        for (int i = 0; i < 3 && needed[id]; i++) needed[f->values[id].arg[i]] = true;
    return needed;
}

/* The stores, by the numbers of their parameters. */
static const Store **sort_stores(const Function *f) {
    const Store **by_parameter =
        arena_alloc(f->arena, (f->parameter_count + 1) * sizeof *by_parameter);
    for (size_t i = 0; i < f->store_count; i++)
        by_parameter[f->stores[i].parameter] = &f->stores[i];
    return by_parameter;
}

/* Adds value `id` of `from` behind the operands that it needs: a walk in post-order. */
static void add_needed(Function *to, const Function *from, ValueId id, ValueId *map,
                       ValueId *stack) {
    size_t depth = 0;
    stack[depth++] = id;
    while (depth) {
        const ValueId v = stack[depth - 1], *arg = from->values[v].arg;
        ValueId next = 0;
        for (int i = 0; i < 3 && !next; i++)
            if (arg[i] && !map[arg[i]]) next = arg[i];
        if (next) {
            stack[depth++] = next;
            continue;
        }
        depth--;
        if (!v || map[v]) continue;
        const Value *value = &from->values[v];
        const ValueId args[3] = {map[arg[0]], map[arg[1]], map[arg[2]]};
        if (value->op != OP_RUNNING) {
            map[v] = ir_rebuild(to, from, v, args);
            continue;
        }
        map[v] = ir_running(to, (Type)value->type, value->axes);
        ir_set_source(to, map[v], value->range, value->name);
    }
}

Function *ir_compact(const Function *f) {
    Function *out = ir_function_like(f);
    ValueId *map = arena_alloc(f->arena, f->value_count * sizeof *map);
    ValueId *stack = arena_alloc(f->arena, (f->value_count + 1) * sizeof *stack);
    const Store **stores = sort_stores(f);
    out->serial = 0;
    for (size_t p = 0; p < f->parameter_count; p++) {
        const Store *s = stores[p];
        if (!s) continue;
        add_needed(out, f, s->value, map, stack);
        add_needed(out, f, s->guard, map, stack);
        ir_store(out, s->parameter, map[s->value], map[s->guard], s->range);
    }
    return out;
}
