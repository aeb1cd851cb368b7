/* test_derive.c: gradients against central differences, through the interpreter in f64.
 *
 * Every differentiable operation and reduction, over every set of axes, with every operand
 * broadcast; the f32-only functions against differences of libm's; what examples/language says
 * about ties, bounds and zeros; random compositions; a second derivative. */
#include "interp.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Compiler compiler;
static int failures, checks;

static void expect_close(const char *what, double expected, double found, double tolerance) {
    checks++;
    if (isnan(expected) && isnan(found)) return;
    if (fabs(found - expected) <= tolerance * (1 + fabs(expected))) return;
    if (++failures <= 30) printf("%s: expected %.9g, found %.9g\n", what, expected, found);
}

/* ---- functions under test: parameters p0 ... p3 of f64 or f32, results r0 ... ---- */

enum { AXES = 3, PARAMETERS = 8, ELEMENTS = 64 };
static const int64_t sizes[AXES] = {3, 2, 4};
static const char *const axis_names[AXES] = {"a", "b", "c"};

static Function *new_function(void) {
    Function *f = ir_function(&compiler, &compiler.arena, "test");
    f->axes = arena_alloc(f->arena, AXES * sizeof *f->axes);
    for (int i = 0; i < AXES; i++) f->axes[i] = ir_axis(axis_names[i], -1, (Range){0});
    f->axis_count = AXES;
    f->parameters = arena_alloc(f->arena, PARAMETERS * sizeof *f->parameters);
    f->parameter_capacity = PARAMETERS;
    return f;
}

static uint32_t add_parameter(Function *f, ls_role role, Type type, AxisSet axes) {
    uint32_t number = (uint32_t)f->parameter_count++;
    f->parameters[number] = (Parameter){.role = role, .type = type, .axes = axes, .declared = axes};
    f->parameters[number].name = arena_printf(f->arena, "p%u", number);
    return number;
}

static void add_result(Function *f, ValueId value) {
    const Value *v = &f->values[value];
    ir_store(f, add_parameter(f, LS_OUT, (Type)v->type, v->axes), value, 0, (Range){0});
}

static int64_t element_count(AxisSet axes) {
    int64_t count = 1;
    for (int i = 0; i < AXES; i++)
        if (axes >> i & 1) count *= sizes[i];
    return count;
}

typedef union Data { /* one parameter's array */
    double f64[ELEMENTS];
    float f32[ELEMENTS];
} Data;

static void run(const Function *f, Data *data) {
    void *pointers[PARAMETERS];
    for (size_t i = 0; i < f->parameter_count; i++) pointers[i] = &data[i];
    if (!interpret_plain(f, sizes, pointers))
        bug(&compiler, "%s: the interpreter refused it", f->name);
}

/* Derives, and checks on the way that simplify changes no bit of any result. */
static Function *derived(Function *f, Data *data) {
    ir_check(f, STAGE_LOWERED);
    Function *g = derive(f);
    ir_check(g, STAGE_DERIVED);
    Function *h = simplify(g);
    ir_check(h, STAGE_SIMPLIFIED);
    Data copy[PARAMETERS];
    memcpy(copy, data, sizeof copy);
    run(g, data);
    run(h, copy);
    if (memcmp(copy, data, sizeof copy) != 0)
        bug(&compiler, "%s: simplify changed a result", f->name);
    return g;
}

/* ---- central differences ----
 * `f` stores e to its first out and the gradients of sum(e * from) by parameters 0 ... targets-1 to
 * the following ones; `from` is parameter `from`. Every element of every gradient is checked. */
static void check_gradients(const char *what, Function *f, Data *data, uint32_t targets,
                            uint32_t from, double tolerance) {
    Function *g = derived(f, data);
    uint32_t e = 0;
    while (g->parameters[e].role != LS_OUT) e++;
    int64_t outputs = element_count(g->parameters[e].axes);
    for (uint32_t t = 0; t < targets; t++) {
        for (int64_t i = 0; i < element_count(g->parameters[t].axes); i++) {
            Data moved[2][PARAMETERS];
            double h = 1e-5, difference = 0;
            for (int side = 0; side < 2; side++) {
                memcpy(moved[side], data, sizeof moved[side]);
                moved[side][t].f64[i] += side ? h : -h;
                run(g, moved[side]);
            }
            for (int64_t k = 0; k < outputs; k++)
                difference +=
                    (moved[1][e].f64[k] - moved[0][e].f64[k]) / (2 * h) * data[from].f64[k];
            char name[96];
            snprintf(name, sizeof name, "%s, operand %u, element %d", what, t, (int)i);
            expect_close(name, difference, data[e + 1 + t].f64[i], tolerance);
        }
    }
}

static double uniform(double low, double high) {
    return low + (high - low) * ((double)rand() / RAND_MAX);
}

static void fill(Data *data, double low, double high) {
    for (int i = 0; i < PARAMETERS; i++)
        for (int k = 0; k < ELEMENTS; k++) data[i].f64[k] = uniform(low, high);
}

/* ---- each elementwise operation, in f64, with each operand over each set of axes ---- */

static bool in_f64(Op op) {
    static const uint8_t only_f32[] = {OP_RSQRT, OP_CBRT,  OP_EXP2,    OP_EXPM1,
                                       OP_LOG2,  OP_LOG1P, OP_SIN,     OP_COS,
                                       OP_TANH,  OP_ERF,   OP_SIGMOID, OP_SOFTPLUS};
    return !memchr(only_f32, (int)op, sizeof only_f32);
}

static void check_operation(Op op, const AxisSet axes[3], double low, double high) {
    Function *f = new_function();
    ValueId args[3] = {0};
    Type result;
    AxisSet all = 0;
    Data data[PARAMETERS];
    uint32_t arity = op_info[op].arity, first = op == OP_SELECT;
    for (uint32_t i = 0; i < arity - first; i++) {
        args[first + i] = ir_parameter(f, add_parameter(f, LS_IN, TYPE_F64, axes[i]));
        all |= axes[i];
    }
    if (op == OP_SELECT) args[0] = ir_op(f, OP_LT, args[1], args[2], 0);
    if (ir_result_type(f, op, args, &result) || result != TYPE_F64) return;
    uint32_t from = add_parameter(f, LS_IN, TYPE_F64, all);
    ValueId e = ir_op(f, op, args[0], args[1], args[2]);
    add_result(f, e);
    for (uint32_t i = first; i < arity; i++)
        add_result(f, ir_op(f, OP_GRAD, e, args[i], ir_parameter(f, from)));
    fill(data, low, high);
    check_gradients(op_info[op].name, f, data, arity - first, from, 1e-4);
}

static void check_operations(void) {
    static const AxisSet shapes[][3] = {{7, 7, 7}, {4, 7, 3}, {0, 5, 2}, {1, 2, 4}, {6, 0, 0}};
    for (Op op = 1; op < OP_COUNT; op = (Op)(op + 1)) {
        uint8_t flags = op_info[op].flags;
        if (op_info[op].arity == 0 || (flags & OP_REDUCTION) || op == OP_GRAD ||
            op == OP_STOP_GRADIENT || !in_f64(op))
            continue;
        for (size_t i = 0; i < COUNT(shapes); i++) {
            check_operation(op, shapes[i], 0.2, 3.7);
            bool of_positive = op == OP_SQRT || op == OP_LOG || op == OP_POW;
            if (!of_positive) check_operation(op, shapes[i], -3.1, 2.9);
        }
    }
}

/* powi, casts and round_to have operands that the loop above does not make. */
static void check_powers(void) {
    for (int n = -3; n <= 4; n++) {
        Function *f = new_function();
        Data data[PARAMETERS];
        ValueId x = ir_parameter(f, add_parameter(f, LS_IN, TYPE_F64, 1));
        uint32_t from = add_parameter(f, LS_IN, TYPE_F64, 1);
        ValueId e = ir_op(f, OP_POWI, x, ir_constant_number(f, TYPE_I32, n), 0);
        add_result(f, e);
        add_result(f, ir_op(f, OP_GRAD, e, x, ir_parameter(f, from)));
        fill(data, -2, 2);
        if (n >= 0) data[0].f64[1] = 0; /* 0 ** 0 is 1 on both sides */
        check_gradients("powi", f, data, 1, from, 1e-3);
    }
}

/* ---- the functions that are f32 only: differences of libm's functions ---- */

static double reference_rsqrt(double x) {
    return 1 / sqrt(x);
}
static double reference_sigmoid(double x) {
    return 1 / (1 + exp(-x));
}
static double reference_softplus(double x) {
    return log1p(exp(x));
}

static bool is_lite(Op op) {
    for (Op other = 1; other < OP_COUNT; other = (Op)(other + 1))
        if (op_info[other].lite == op) return true;
    return false;
}

/* A function that is f32 only and has a slope, for which there must be a reference. */
static bool needs_reference(Op op) {
    const OpInfo *info = &op_info[op];
    return info->form == FORM_CALL && info->arity == 1 && !info->f64 &&
           strcmp(info->derivative, "0") != 0 && !is_lite(op);
}

static void check_f32_functions(void) {
    size_t needed = 0;
    static const struct {
        Op op;
        double (*function)(double);
    } functions[] = {{OP_RSQRT, reference_rsqrt},
                     {OP_CBRT, cbrt},
                     {OP_EXP2, exp2},
                     {OP_EXPM1, expm1},
                     {OP_LOG2, log2},
                     {OP_LOG1P, log1p},
                     {OP_SIN, sin},
                     {OP_COS, cos},
                     {OP_ATAN, atan},
                     {OP_TANH, tanh},
                     {OP_ERF, erf},
                     {OP_SIGMOID, reference_sigmoid},
                     {OP_SOFTPLUS, reference_softplus}};
    for (Op op = 1; op < OP_COUNT; op = (Op)(op + 1)) needed += needs_reference(op);
    expect_close("the count of f32 functions", (double)needed, (double)COUNT(functions), 0);
    for (size_t i = 0; i < COUNT(functions); i++) {
        Function *f = new_function();
        Data data[PARAMETERS];
        ValueId x = ir_parameter(f, add_parameter(f, LS_IN, TYPE_F32, 7));
        ValueId e = ir_op(f, functions[i].op, x, 0, 0), one = ir_constant_number(f, TYPE_F32, 1);
        add_result(f, ir_op(f, OP_GRAD, e, x, one));
        bool negative = !isnan(functions[i].function(-2.5));
        for (int k = 0; k < ELEMENTS; k++) data[0].f32[k] = (float)uniform(negative ? -3 : 0.1, 3);
        Function *g = derived(f, data);
        for (int64_t k = 0; k < element_count(g->parameters[1].axes); k++) {
            double at = (double)data[0].f32[k], h = 1e-5;
            double slope =
                (functions[i].function(at + h) - functions[i].function(at - h)) / (2 * h);
            expect_close(op_info[functions[i].op].name, slope, (double)data[1].f32[k], 2e-6);
        }
    }
}

/* ---- reductions over every set of axes ---- */

static void check_reductions(void) {
    static const Op reductions[] = {OP_SUM, OP_PROD, OP_REDUCE_MIN, OP_REDUCE_MAX, OP_LOGSUMEXP};
    for (size_t i = 0; i < COUNT(reductions); i++)
        for (AxisSet over = 0; over < 8; over++)
            for (int zeros = 0; zeros < 3; zeros++) {
                Function *f = new_function();
                Data data[PARAMETERS];
                ValueId x = ir_parameter(f, add_parameter(f, LS_IN, TYPE_F64, 7));
                uint32_t from = add_parameter(f, LS_IN, TYPE_F64, 7 & ~over);
                ValueId e = ir_reduce(f, reductions[i], x, over);
                add_result(f, e);
                add_result(f, ir_op(f, OP_GRAD, e, x, ir_parameter(f, from)));
                fill(data, -1.5, 1.5);
                for (int k = 0; k < zeros; k++) data[0].f64[5 * k + 2] = 0;
                check_gradients(op_info[reductions[i]].name, f, data, 1, from, 1e-4);
            }
}

/* ---- what the language page says ---- */

typedef struct Point {
    Op op;
    double x[3];        /* operands */
    double gradient[3]; /* with respect to each, upstream 1 */
} Point;

static const Point points[] = {
    {OP_ABS, {0.0}, {0}},
    {OP_ABS, {-0.0}, {0}},
    {OP_SIGN, {0.0}, {0}},
    {OP_SIGN, {2.0}, {0}},
    {OP_MIN, {1.5, 1.5}, {0.5, 0.5}},
    {OP_MAX, {1.5, 1.5}, {0.5, 0.5}},
    {OP_MAX, {1.0, 2.0}, {0, 1}},
    {OP_MIN, {1.0, 2.0}, {1, 0}},
    {OP_CLAMP, {1.0, 1.0, 2.0}, {1, 0, 0}},
    {OP_CLAMP, {2.0, 1.0, 2.0}, {1, 0, 0}},
    {OP_CLAMP, {1.5, 1.0, 2.0}, {1, 0, 0}},
    {OP_CLAMP, {0.5, 1.0, 2.0}, {0, 1, 0}},
    {OP_CLAMP, {2.5, 1.0, 2.0}, {0, 0, 1}},
    {OP_CLAMP, {1.5, 3.0, 2.0}, {0, 0, 1}}, /* min(max(x, 3), 2) */
    {OP_FLOOR, {1.5}, {0}},
    {OP_ROUND, {0.25}, {0}},
    {OP_POW, {0.0, 2.0}, {0, 0}},
    {OP_POW, {0.0, 0.0}, {0, 0}},
    {OP_POW, {3.0, 0.0}, {0, 1.0986122886681098}},
    {OP_COPYSIGN, {2.0, -1.0}, {-1, 0}},
    {OP_STOP_GRADIENT, {2.0}, {0}},
    {OP_MOD, {7.5, 2.0}, {1, -3}},
    {OP_FLOORDIV, {7.5, 2.0}, {0, 0}},
};

static void check_points(void) {
    for (size_t i = 0; i < COUNT(points); i++) {
        const Point *p = &points[i];
        Function *f = new_function();
        Data data[PARAMETERS];
        ValueId args[3] = {0};
        uint32_t arity = op_info[p->op].arity;
        for (uint32_t k = 0; k < arity; k++) {
            args[k] = ir_parameter(f, add_parameter(f, LS_IN, TYPE_F64, 0));
            data[k].f64[0] = p->x[k];
        }
        ValueId e = ir_op(f, p->op, args[0], args[1], args[2]);
        for (uint32_t k = 0; k < arity; k++) add_result(f, ir_op(f, OP_GRAD, e, args[k], 0));
        derived(f, data);
        for (uint32_t k = 0; k < arity; k++)
            expect_close(op_info[p->op].name, p->gradient[k], data[arity + k].f64[0], 1e-15);
    }
}

/* One x over [a], one reduction to rank 0, one expected gradient. */
static void check_vector(const char *what, Op reduction, const double x[3],
                         const double gradient[3]) {
    Function *f = new_function();
    Data data[PARAMETERS] = {0};
    ValueId p = ir_parameter(f, add_parameter(f, LS_IN, TYPE_F64, 1));
    add_result(f, ir_op(f, OP_GRAD, ir_reduce(f, reduction, p, 1), p, 0));
    memcpy(data[0].f64, x, 3 * sizeof *x);
    derived(f, data);
    for (int i = 0; i < 3; i++) expect_close(what, gradient[i], data[1].f64[i], 1e-15);
}

static void check_vectors(void) {
    check_vector("max, a tie", OP_REDUCE_MAX, (double[]){4, 1, 4}, (double[]){0.5, 0, 0.5});
    check_vector("min, all tie", OP_REDUCE_MIN, (double[]){2, 2, 2},
                 (double[]){1.0 / 3, 1.0 / 3, 1.0 / 3});
    check_vector("prod, one zero", OP_PROD, (double[]){2, 0, 5}, (double[]){0, 10, 0});
    check_vector("prod, two zeros", OP_PROD, (double[]){0, 0, 5}, (double[]){0, 0, 0});
    check_vector("logsumexp, far apart", OP_LOGSUMEXP, (double[]){1000, 0, -INFINITY},
                 (double[]){1, 0, 0});
    check_vector("logsumexp of nothing", OP_LOGSUMEXP, (double[]){-INFINITY, -INFINITY, -INFINITY},
                 (double[]){0, 0, 0});
}

/* A target that e does not depend on, or only through integers: zeros over all of its axes. */
static void check_independent(void) {
    Function *f = new_function();
    Data data[PARAMETERS];
    ValueId x = ir_parameter(f, add_parameter(f, LS_IN, TYPE_F64, 7));
    ValueId y = ir_parameter(f, add_parameter(f, LS_IN, TYPE_F64, 1));
    ValueId whole = ir_cast(f, TYPE_F64, ir_cast(f, TYPE_I64, x));
    ValueId e = ir_reduce(f, OP_SUM, ir_op(f, OP_MUL, whole, y, 0), 7);
    add_result(f, ir_op(f, OP_GRAD, e, x, 0));
    add_result(f, ir_op(f, OP_GRAD, ir_reduce(f, OP_SUM, y, 1), x, 0));
    fill(data, -9, 9);
    derived(f, data);
    for (int k = 0; k < 24; k++) {
        expect_close("through an integer", 0, data[2].f64[k], 0);
        expect_close("independent", 0, data[3].f64[k], 0);
    }
}

/* d/dx of the sum of the gradient of sum(x^3) is 6 x; the inner gradient is of a marked let. */
static void check_second_derivative(void) {
    Function *f = new_function();
    Data data[PARAMETERS];
    ValueId x = ir_parameter(f, add_parameter(f, LS_IN, TYPE_F64, 7));
    ValueId let = ir_op(f, OP_MARK, ir_op(f, OP_ADD, x, x, 0), 0, 0); /* 2 x */
    ValueId cube = ir_op(f, OP_MUL, let, ir_op(f, OP_MUL, let, let, 0), 0);
    ValueId first = ir_op(f, OP_GRAD, ir_reduce(f, OP_SUM, cube, 7), let, 0); /* 3 let^2 = 12 x^2 */
    add_result(f, ir_op(f, OP_GRAD, ir_reduce(f, OP_SUM, first, 7), x, 0));
    fill(data, -2, 2);
    derived(f, data);
    for (int k = 0; k < 24; k++)
        expect_close("second derivative", 24 * data[0].f64[k], data[1].f64[k], 1e-12);
}

/* linreg: dw = 2/n sum over a of r x, dbias = 2/n sum of r. */
static void check_linreg(void) {
    Function *f = new_function();
    Data data[PARAMETERS];
    ValueId x = ir_parameter(f, add_parameter(f, LS_IN, TYPE_F64, 5));
    ValueId y = ir_parameter(f, add_parameter(f, LS_IN, TYPE_F64, 1));
    ValueId w = ir_parameter(f, add_parameter(f, LS_IN, TYPE_F64, 4));
    ValueId bias = ir_parameter(f, add_parameter(f, LS_IN, TYPE_F64, 0));
    ValueId p = ir_reduce(f, OP_SUM, ir_op(f, OP_MUL, x, w, 0), 4);
    ValueId r = ir_op(f, OP_SUB, ir_op(f, OP_ADD, p, bias, 0), y, 0);
    ValueId squares = ir_reduce(f, OP_SUM, ir_op(f, OP_MUL, r, r, 0), 1);
    ValueId loss = ir_op(f, OP_DIV, squares, ir_cast(f, TYPE_F64, ir_size(f, 0)), 0);
    add_result(f, ir_op(f, OP_GRAD, loss, w, 0));
    add_result(f, ir_op(f, OP_GRAD, loss, bias, 0));
    fill(data, -2, 2);
    derived(f, data);
    double dw[4] = {0}, dbias = 0;
    for (int i = 0; i < 3; i++) {
        double residual = data[3].f64[0] - data[1].f64[i];
        for (int k = 0; k < 4; k++) residual += data[0].f64[4 * i + k] * data[2].f64[k];
        dbias += 2.0 / 3 * residual;
        for (int k = 0; k < 4; k++) dw[k] += 2.0 / 3 * residual * data[0].f64[4 * i + k];
    }
    for (int k = 0; k < 4; k++) expect_close("linreg dw", dw[k], data[4].f64[k], 1e-14);
    expect_close("linreg dbias", dbias, data[5].f64[0], 1e-14);
}

/* ---- random compositions of smooth operations over random axes ---- */

static ValueId random_value(Function *f, const ValueId *pool, int count) {
    ValueId a = pool[rand() % count], b = pool[rand() % count], c = pool[rand() % count];
    ValueId one = ir_constant_number(f, TYPE_F64, 1.0), square = ir_op(f, OP_MUL, a, a, 0);
    switch (rand() % 12) {
    case 0: return ir_op(f, OP_ADD, a, b, 0);
    case 1: return ir_op(f, OP_SUB, a, b, 0);
    case 2: return ir_op(f, OP_DIV, b, ir_op(f, OP_ADD, one, square, 0), 0);
    case 3: return ir_op(f, OP_SQRT, ir_op(f, OP_ADD, one, square, 0), 0, 0);
    case 4: return ir_op(f, OP_EXP, ir_op(f, OP_NEG, square, 0, 0), 0, 0);
    case 5: return ir_op(f, OP_LOG, ir_op(f, OP_ADD, one, square, 0), 0, 0);
    case 6:
        return ir_op(f, OP_DIV, ir_op(f, OP_FMA, a, b, c), ir_constant_number(f, TYPE_F64, 2), 0);
    case 7: return ir_op(f, OP_MAX, a, b, 0);
    case 8: return ir_op(f, OP_SELECT, ir_op(f, OP_LT, a, b, 0), c, a);
    case 9: return ir_broadcast(f, a, (AxisSet)(rand() % 8));
    case 10: return ir_reduce(f, OP_LOGSUMEXP, a, f->values[a].axes & (AxisSet)(rand() % 8));
    default: return ir_reduce(f, OP_SUM, a, f->values[a].axes & (AxisSet)(rand() % 8));
    }
}

static void check_random(int count) {
    for (int n = 0; n < count; n++) {
        Function *f = new_function();
        Data data[PARAMETERS];
        ValueId pool[24];
        int size = 0;
        for (; size < 3; size++)
            pool[size] = ir_parameter(f, add_parameter(f, LS_IN, TYPE_F64, (AxisSet)(rand() % 8)));
        for (; size < 15; size++) pool[size] = random_value(f, pool, size);
        ValueId e = pool[size - 1];
        for (int k = 0; k < 4; k++) e = ir_op(f, OP_ADD, e, pool[rand() % size], 0);
        uint32_t from = add_parameter(f, LS_IN, TYPE_F64, f->values[e].axes);
        add_result(f, e);
        for (int k = 0; k < 3; k++)
            add_result(f, ir_op(f, OP_GRAD, e, pool[k], ir_parameter(f, from)));
        fill(data, -1.2, 1.3);
        char name[32];
        snprintf(name, sizeof name, "random %d", n);
        check_gradients(name, f, data, 3, from, 1e-4);
    }
}

int main(void) {
    arena_open(&compiler.arena, &compiler);
    if (setjmp(compiler.unwind)) {
        printf("%s\n", compiler.failure_message);
        return 1;
    }
    srand(1);
    check_operations();
    check_powers();
    check_f32_functions();
    check_reductions();
    check_points();
    check_vectors();
    check_independent();
    check_second_derivative();
    check_linreg();
    check_random(150);
    arena_close(&compiler.arena);
    printf("%d checks, %d failures\n", checks, failures);
    return failures != 0;
}
