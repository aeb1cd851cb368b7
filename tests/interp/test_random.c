/* test_random.c: properties that hold for every function, on random ones over all operations and
 * types.
 *
 * The text of the IR reads back and prints the same; the passes' results pass the check of their
 * stage; simplify and gather change no bit of any result, for special values above all, also over
 * empty axes. The axes are plain, ragged and in blocks. */
#include "interp.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    AXES = 6,
    TENSORS = 4,
    INPUTS = 10,
    POOL = 70,
    RESULTS = 12,
    PARAMETERS = INPUTS + RESULTS,
    BYTES = 8 * 512
};
enum { T, C, N, M, Q, K }; /* t, c, n of t, m as (q, k = 3) */
static Compiler compiler;
static uint32_t random_state;

static uint32_t draw(uint32_t below) { /* xorshift: the same on every machine */
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state % below;
}

static const double specials[] = {0.0,  -0.0, 1.0,    -1.0,     0.5,      2.0,       -3.0, 1e-40,
                                  1e30, 7.25, -1e-30, 16777217, INFINITY, -INFINITY, NAN,  255};

static uint64_t random_bits(Type type) {
    double value = specials[draw(COUNT(specials))];
    if (type_info[type].class == 'F' && draw(3) == 0) value = (double)draw(1000) / 64 - 8;
    if (type_info[type].class != 'F' && draw(3) == 0) value = (double)draw(80) - 20;
    return ir_number_bits(type, value);
}

static Function *header(void) {
    static const char *const names[AXES] = {"t", "c", "n", "m", "q", "k"};
    Function *f = ir_function(&compiler, &compiler.arena, "random");
    f->axes = arena_alloc(f->arena, AXES * sizeof *f->axes);
    for (int i = 0; i < AXES; i++) f->axes[i] = ir_axis(names[i], -1, (Range){0});
    f->axes[N].parent = T;
    f->axes[K].parent = Q;
    f->axes[M].block = Q;
    f->axes[M].rest = K;
    f->axes[Q].whole = f->axes[K].whole = M;
    f->axes[M].length = f->axes[Q].length = f->axes[K].length = 3;
    f->axis_count = AXES;
    f->parameters = arena_alloc(f->arena, PARAMETERS * sizeof *f->parameters);
    f->parameter_capacity = PARAMETERS;
    return f;
}

/* Some axes, with those they depend on. */
static AxisSet any_axes(const Function *f) {
    return ir_closure(f, ir_expand(f, draw(2) ? draw(8) : draw(1 << AXES)));
}

static uint32_t add_parameter(Function *f, ls_role role, Type type, AxisSet axes) {
    uint32_t number = (uint32_t)f->parameter_count++;
    AxisSet both = 1 << Q | 1 << K, declared = axes;
    if ((axes & both) == both && draw(2)) declared = (axes & ~both) | 1 << M;
    f->parameters[number] =
        (Parameter){.role = role, .type = type, .axes = axes, .declared = declared};
    f->parameters[number].name = arena_printf(f->arena, "p%u", number);
    return number;
}

static ValueId of_type(Function *f, const ValueId *pool, uint32_t count, Type type) {
    for (int tries = 0; tries < 20; tries++) {
        ValueId value = pool[draw(count)];
        if ((Type)f->values[value].type == type) return value;
    }
    return ir_constant(f, type, random_bits(type));
}

/* An i64 between -2 and 6, or any. */
static ValueId small(Function *f, const ValueId *pool, uint32_t count) {
    ValueId any = of_type(f, pool, count, TYPE_I64);
    if (draw(6) == 0) return any;
    any = ir_op(f, OP_MOD, any, ir_constant_number(f, TYPE_I64, 9), 0);
    return ir_op(f, OP_SUB, any, ir_constant_number(f, TYPE_I64, 2), 0);
}

static ValueId any_index(Function *f, const ValueId *pool, uint32_t count, uint32_t axis) {
    ValueId own = ir_index(f, axis), by = ir_constant_number(f, TYPE_I64, (double)draw(4));
    switch (draw(4)) {
    case 0: return own;
    case 1: return ir_op(f, OP_ADD, own, by, 0);
    case 2: return ir_op(f, OP_SUB, own, by, 0);
    default: return small(f, pool, count);
    }
}

/* Some axes of the value, each at an index; where t is listed n is too. */
static ValueId any_list(Function *f, const ValueId *pool, uint32_t count, AxisSet axes) {
    AxisSet listed = axes & draw(1 << AXES);
    ValueId list = 0;
    if ((axes >> Q & 1) && draw(3)) listed = (listed & ~(AxisSet)(1 << Q | 1 << K)) | 1 << M;
    if ((listed >> T & 1) && (axes >> N & 1)) listed |= 1 << N;
    if ((listed >> Q & 1) && (axes >> K & 1)) listed |= 1 << K;
    for (uint32_t axis = AXES; axis-- > 0;)
        if (listed >> axis & 1) list = ir_list(f, any_index(f, pool, count, axis), list, axis);
    return list;
}

static ValueId random_gather(Function *f, const ValueId *pool, uint32_t count) {
    ValueId source = pool[draw(count)], list = any_list(f, pool, count, f->values[source].axes);
    return list ? ir_gather(f, source, list) : 0;
}

static ValueId random_scatter(Function *f, const ValueId *pool, uint32_t count) {
    AxisSet target = any_axes(f);
    ValueId q = of_type(f, pool, count, TYPE_I64), list = any_list(f, pool, count, target);
    const Op op = draw(2) ? OP_SCATTER : OP_SCATTER_MIN;
    if (list == 0 || (ir_listed(f, list) & ~target)) return 0;
    return ir_scatter(f, op, ir_broadcast(f, q, target & ~ir_listed(f, list)), list, target, 0);
}

static ValueId random_scan(Function *f, const ValueId *pool, uint32_t count) {
    static const uint32_t along[] = {C, C, N, M, K};
    uint32_t axis = along[draw(COUNT(along))];
    ValueId with = pool[draw(count)], start = pool[draw(count)];
    Type type = (Type)f->values[with].type;
    AxisSet own = ir_expand(f, (AxisSet)1 << axis), axes = ir_closure(f, own);
    if ((Type)f->values[start].type != type || (f->values[start].axes & own))
        start = ir_constant(f, type, random_bits(type));
    axes |= f->values[with].axes | f->values[start].axes;
    if (ir_closure(f, axes & ~own) & own) return 0;
    ValueId running = ir_running(f, type, axes), body;
    if (type == TYPE_BOOL) {
        body = ir_op(f, OP_NE, running, with, 0);
    } else {
        body = ir_op(f, draw(2) ? OP_ADD : OP_MUL, running, with, 0);
        if (draw(2)) body = ir_op(f, OP_MAX, body, ir_op(f, OP_SUB, with, running, 0), 0);
    }
    return ir_scan(f, start, body, running, axis, draw(2));
}

static ValueId random_draw(Function *f, const ValueId *pool, uint32_t count) {
    static const Op kinds[] = {OP_RANDOM_BITS, OP_RANDOM_UNIFORM, OP_RANDOM_NORMAL};
    ValueId words[3];
    for (int i = 0; i < 3; i++) words[i] = of_type(f, pool, count, TYPE_I64);
    ValueId key = ir_random_key(f, words[0], words[1], words[2], draw(5));
    return ir_op(f, kinds[draw(3)], key, of_type(f, pool, count, TYPE_I64), 0);
}

static ValueId random_rounding(Function *f, const ValueId *pool, uint32_t count) {
    ValueId x = of_type(f, pool, count, TYPE_F32), bits = of_type(f, pool, count, TYPE_U32);
    return ir_round_stochastic(f, (Type)(TYPE_F16 + draw(4)), x, bits);
}

/* One more value over those in the pool, or 0 where the draw does not fit its type rule. */
static ValueId random_value(Function *f, const ValueId *pool, uint32_t count) {
    Op op = (Op)(1 + draw(OP_COUNT - 1));
    ValueId args[3] = {0};
    Type type;
    for (int i = 0; i < op_info[op].arity; i++) args[i] = pool[draw(count)];
    if (op == OP_CONST || draw(8) == 0) {
        Type any = (Type)draw(TYPE_BOOL + 1);
        return ir_constant(f, any, random_bits(any));
    }
    switch (op) {
    case OP_SIZE: return ir_size(f, draw(AXES));
    case OP_INDEX: return ir_index(f, draw(AXES));
    case OP_POSITION: return ir_position(f, 1 << C | (draw(2) ? 1 << N : 1 << Q | draw(2) << K));
    case OP_FIRST: return ir_leaf(f, OP_FIRST, TYPE_I64, 0, draw(2));
    case OP_GATHER: return random_gather(f, pool, count);
    case OP_SCAN: return random_scan(f, pool, count);
    case OP_SCATTER:
    case OP_SCATTER_MIN: return random_scatter(f, pool, count);
    case OP_RANDOM_KEY: return random_draw(f, pool, count);
    case OP_ROUND_STOCHASTIC: return random_rounding(f, pool, count);
    case OP_FROM_FIXED: {
        ValueId q = of_type(f, pool, count, TYPE_I64);
        return ir_from_fixed(f, draw(2) ? TYPE_F32 : TYPE_F64, q, small(f, pool, count));
    }
    case OP_RUNNING:
    case OP_LIST:
    case OP_CALL:
    case OP_TO_FIXED: return 0;
    case OP_CAST: return ir_cast(f, (Type)draw(TYPE_BOOL + 1), args[0]);
    case OP_BROADCAST: return ir_broadcast(f, args[0], any_axes(f));
    case OP_ROUND_TO: {
        Type storage = (Type)(TYPE_F16 + draw(TYPE_COUNT - TYPE_F16));
        return ir_round_problem(f, storage, args[0]) ? 0 : ir_round_to(f, storage, args[0]);
    }
    case OP_PARAMETER:
    case OP_GRAD:
    case OP_MARK:
    case OP_STOP_GRADIENT:
    case OP_CLAMP: return 0;
    default: break;
    }
    if (op_info[op].flags & OP_REDUCTION) {
        AxisSet axes = f->values[args[0]].axes, over = axes & draw(1 << AXES);
        if (over & 1 << T) over &= ~(AxisSet)(1 << N); /* a list: its tensors first */
        if (ir_closure(f, axes & ~over) != (axes & ~over)) return 0;
        return ir_reduce_problem(f, op, args[0], over) ? 0 : ir_reduce(f, op, args[0], over);
    }
    if (op == OP_SELECT && draw(2)) args[2] = args[1];
    if ((op == OP_SUB || op == OP_AND) && draw(4) == 0) args[1] = args[0];
    if (ir_result_type(f, op, args, &type)) return 0;
    bool only_f32 =
        type == TYPE_F64 && op_info[op].cost > 20 && op != OP_POWI && op != OP_POW && op != OP_LOG;
    return only_f32 ? 0 : ir_op(f, op, args[0], args[1], args[2]);
}

static Function *random_function(void) {
    Function *f = header();
    ValueId pool[POOL];
    uint32_t count = 0;
    for (; count < INPUTS; count++) {
        Type type = draw(2) ? (Type)draw(TYPE_COUNT) : (Type)draw(TYPE_BOOL + 1);
        pool[count] = ir_parameter(f, add_parameter(f, LS_IN, type, any_axes(f)));
    }
    while (count < POOL) {
        ValueId value = random_value(f, pool, count);
        if (value) pool[count++] = value;
    }
    for (uint32_t i = 0; i < RESULTS; i++) {
        ValueId value = pool[i < 6 ? POOL - 1 - i : draw(POOL)];
        const Value *v = &f->values[value];
        ir_store(f, add_parameter(f, LS_OUT, (Type)v->type, v->axes | any_axes(f)), value, 0,
                 (Range){0});
    }
    return f;
}

static void fill(const Function *f, char (*data)[BYTES]) {
    for (uint32_t i = 0; i < INPUTS; i++)
        for (int k = 0; k < BYTES / 8; k++)
            number_store(f->parameters[i].type, data[i], k,
                         random_bits(type_info[f->parameters[i].type].compute));
}

typedef struct Sizes {
    int64_t t, c, n[TENSORS], m;
} Sizes;

static bool run(const Function *f, const Sizes *sizes, char (*data)[BYTES]) {
    static const int64_t first[2] = {2, 5};
    const int64_t *each[AXES] = {[T] = &sizes->t, [C] = &sizes->c, [N] = sizes->n, [M] = &sizes->m};
    void *pointers[PARAMETERS], *tensors[PARAMETERS][TENSORS];
    for (uint32_t i = 0; i < PARAMETERS; i++) {
        for (int t = 0; t < TENSORS; t++) tensors[i][t] = data[i] + t * (BYTES / TENSORS);
        pointers[i] = f->parameters[i].axes >> N & 1 ? (void *)tensors[i] : data[i];
    }
    return interpret(f, each, pointers, first);
}

static const char *text_of(const Function *f) {
    Text text = text_open(&compiler.arena);
    ir_print(f, &text);
    return text.data;
}

static bool reads_back(const Function *f) {
    const char *once = text_of(f);
    Function *read =
        ir_read(&compiler, &compiler.arena, source_add(&compiler, "once", once, strlen(once)));
    return read && strcmp(once, text_of(read)) == 0;
}

/* The first result that differs, or -1. */
static int differs(const Function *f, const Function *g, const Sizes *sizes) {
    static char before[PARAMETERS][BYTES], after[PARAMETERS][BYTES];
    memset(before, 0, sizeof before);
    fill(f, before);
    memcpy(after, before, sizeof after);
    if (!run(f, sizes, before) || !run(g, sizes, after)) return PARAMETERS;
    for (int i = 0; i < PARAMETERS; i++)
        if (memcmp(before[i], after[i], BYTES) != 0) return i;
    return -1;
}

static const char *problem_with(Function *f) {
    static const Sizes all_sizes[] = {{3, 3, {4, 0, 1}, 7},
                                      {1, 1, {1}, 1},
                                      {2, 0, {3, 2}, 3},
                                      {0, 2, {0}, 0},
                                      {4, 2, {2, 4, 3, 0}, 5}};
    ir_check(f, STAGE_LOWERED);
    if (!reads_back(f)) return "its text does not read back";
    Function *g = simplify(f);
    ir_check(g, STAGE_SIMPLIFIED);
    if (!reads_back(g)) return "the text of its simplified form does not read back";
    if (simplify(g)->value_count != g->value_count) return "simplify finds more the second time";
    Function *h = gather(g);
    if (!h) return "gather makes it too large";
    ir_check(h, STAGE_GATHERED);
    if (h != g) h = simplify(h);
    ir_check(h, STAGE_GATHERED);
    for (size_t s = 0; s < COUNT(all_sizes); s++) {
        int simplified = differs(f, g, &all_sizes[s]), gathered = differs(g, h, &all_sizes[s]);
        if (simplified < 0 && gathered < 0) continue;
        printf("result %d differs at sizes number %zu\n", simplified >= 0 ? simplified : gathered,
               s);
        if (simplified < 0) printf("gathered:\n%s", text_of(h));
        return simplified >= 0 ? "simplify changed a bit" : "gather changed a bit";
    }
    return NULL;
}

int main(int count, char **words) {
    uint32_t functions = count > 1 ? (uint32_t)strtoul(words[1], NULL, 10) : 1000;
    static uint32_t n; /* static: its value is needed after longjmp */
    for (n = 1; n <= functions; n++) {
        arena_open(&compiler.arena, &compiler);
        random_state = n * 2654435761u | 1;
        if (setjmp(compiler.unwind)) {
            printf("function %u: %s\n", n, compiler.failure_message);
            return 1;
        }
        Function *f = random_function();
        const char *problem = problem_with(f);
        if (problem) {
            printf("function %u: %s\n%s\nsimplified:\n%s", n, problem, text_of(f),
                   text_of(simplify(f)));
            return 1;
        }
        arena_close(&compiler.arena);
        memset(&compiler, 0, sizeof compiler);
    }
    printf("%u functions\n", functions);
    return 0;
}
