/* test_constants.c: what a derivative is made of, and the numeric version, against recorded values.
 *
 * Every number that stands in a derivative of ops.def is listed here with its decimals, taken from
 * mathematics and not from there; slopes at one point of each function were computed with mpmath to
 * 30 digits. The numeric version stands here so that no commit changes it unawares. */
#include "interp.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Compiler compiler;
static int failures, checks;

/* ---- numbers in the derivatives ---- */

#define LOG_OF_2 0.693147180559945309417232121458
#define TWO_BY_SQRT_PI 1.12837916709551257389615890312

typedef struct Numbers {
    Op op;
    int operand;
    double numbers[4]; /* in the order of the text, without zeros */
} Numbers;

static const Numbers recorded[] = {
    {OP_SQRT, 0, {0.5}},
    {OP_RSQRT, 0, {-0.5}},
    {OP_CBRT, 0, {3}},
    {OP_EXP2, 0, {LOG_OF_2}},
    {OP_EXPM1, 0, {1}},
    {OP_LOG2, 0, {LOG_OF_2}},
    {OP_LOG1P, 0, {1}},
    {OP_ATAN, 0, {1}},
    {OP_TANH, 0, {1}},
    {OP_ERF, 0, {TWO_BY_SQRT_PI}},
    {OP_SIGMOID, 0, {1}},
    {OP_EXP2_LITE, 0, {LOG_OF_2}},
    {OP_ATAN_LITE, 0, {1}},
    {OP_TANH_LITE, 0, {1}},
    {OP_ERF_LITE, 0, {TWO_BY_SQRT_PI}},
    {OP_SIGMOID_LITE, 0, {1}},
    {OP_POW, 0, {1}},
    {OP_POWI, 0, {1}},
    {OP_MIN, 0, {0.5}},
    {OP_MIN, 1, {0.5}},
    {OP_MAX, 0, {0.5}},
    {OP_MAX, 1, {0.5}},
    {OP_COPYSIGN, 0, {1}},
};

static size_t collect(const Formula *formula, double *numbers, size_t count) {
    if (!formula) return count;
    if (formula->kind == FORMULA_NUMBER && formula->number != 0 && count < 4)
        numbers[count++] = formula->number;
    for (int i = 0; i < 3 && formula->kind == FORMULA_OP; i++)
        count = collect(formula->arg[i], numbers, count);
    return count;
}

static void check_numbers(void) {
    for (Op op = 1; op < OP_COUNT; op = (Op)(op + 1)) {
        const char *text = op_info[op].derivative;
        for (int operand = 0; *text; operand++) {
            double found[4] = {0}, expected[4] = {0};
            collect(formula_read(&compiler, &compiler.arena, &text), found, 0);
            for (size_t i = 0; i < COUNT(recorded); i++)
                if (recorded[i].op == op && recorded[i].operand == operand)
                    memcpy(expected, recorded[i].numbers, sizeof expected);
            checks++;
            if (memcmp(found, expected, sizeof found) == 0) continue;
            failures++;
            printf("%s, operand %d: the numbers of its derivative are %a %a %a %a, "
                   "recorded %a %a %a %a\n",
                   op_info[op].name, operand, found[0], found[1], found[2], found[3], expected[0],
                   expected[1], expected[2], expected[3]);
        }
    }
}

/* ---- slopes ---- */

typedef struct Slope {
    Op op;
    float at[3];
    double slopes[3];
} Slope;

static const Slope slopes[] = {
    {OP_NEG, {1.7f}, {-1}},
    {OP_ABS, {-1.7f}, {-1}},
    {OP_SQRT, {1.7f}, {0.38348248904548819}},
    {OP_RSQRT, {1.7f}, {-0.22557792840534962}},
    {OP_CBRT, {1.7f}, {0.234016307766628}},
    {OP_EXP, {0.7f}, {2.0137526834646737}},
    {OP_EXP2, {0.7f}, {1.1260209075705039}},
    {OP_EXPM1, {0.7f}, {2.0137526834646737}},
    {OP_LOG, {0.7f}, {1.4285714528998554}},
    {OP_LOG2, {0.7f}, {2.0609929506541628}},
    {OP_LOG1P, {0.7f}, {0.588235298242536}},
    {OP_SIN, {0.7f}, {0.76484219496416165}},
    {OP_COS, {0.7f}, {-0.64421767812006163}},
    {OP_ATAN, {0.7f}, {0.67114094711467978}},
    {OP_TANH, {0.7f}, {0.63473959912858046}},
    {OP_ERF, {0.7f}, {0.69127487194743247}},
    {OP_SIGMOID, {0.7f}, {0.22171287418215748}},
    {OP_SOFTPLUS, {0.7f}, {0.66818776952514269}},
    {OP_MUL, {1.7f, 0.6f}, {0.60000002384185791, 1.7000000476837158}},
    {OP_DIV, {1.7f, 0.6f}, {1.6666666004392862, -4.7222219793884961}},
    {OP_MOD, {1.7f, 0.6f}, {1, -2}},
    {OP_POW, {1.7f, 0.6f}, {0.48525687793859722, 0.72955788733153963}},
    {OP_COPYSIGN, {1.7f, -0.6f}, {-1, 0}},
    {OP_FMA, {1.7f, 0.6f, 0.3f}, {0.60000002384185791, 1.7000000476837158, 1}},
};

static void check_slope(const Slope *s) {
    const int arity = op_info[s->op].arity;
    Function *f = ir_function(&compiler, &compiler.arena, "slope");
    Parameter parameters[6] = {{0}};
    ValueId args[3] = {0};
    float values[6] = {0};
    void *data[6];
    f->parameters = parameters;
    f->parameter_count = f->parameter_capacity = (uint32_t)(2 * arity);
    for (int i = 0; i < 2 * arity; i++) {
        static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
        parameters[i] =
            (Parameter){.name = names[i], .role = i < arity ? LS_IN : LS_OUT, .type = TYPE_F32};
        data[i] = &values[i];
    }
    for (int i = 0; i < arity; i++) {
        args[i] = ir_parameter(f, (uint32_t)i);
        values[i] = s->at[i];
    }
    ValueId e = ir_op(f, s->op, args[0], args[1], args[2]);
    for (int i = 0; i < arity; i++)
        ir_store(f, (uint32_t)(arity + i), ir_op(f, OP_GRAD, e, args[i], 0), 0, (Range){0});
    if (!interpret_plain(derive(f), NULL, data)) bug(&compiler, "the interpreter refused it");
    for (int i = 0; i < arity; i++) {
        const double found = (double)values[arity + i], expected = s->slopes[i];
        checks++;
        if (fabs(found - expected) <= 5e-7 * fabs(expected)) continue;
        failures++;
        printf("%s, operand %d: slope %.9g, recorded %.17g\n", op_info[s->op].name, i, found,
               expected);
    }
}

/* ---- the numeric version ---- */

static const uint64_t recorded_version = UINT64_C(0xb4e7e80d50d5cafc);

static void check_version(void) {
    const uint64_t version = numeric_version();
    checks++;
    if (version == recorded_version) return;
    failures++;
    printf("the numeric version is 0x%016" PRIx64 ", recorded 0x%016" PRIx64 ".\n"
           "  A device text under templates/, a derivative of ops.def or NUMERIC_SERIAL "
           "(compiler/target/target.h)\n  has changed. If results are to stay as they were, look "
           "for what "
           "changed them. If they are meant\n  to change, or only a text does, put the new version "
           "into tests/interp/test_constants.c and say\n  in the commit what computes otherwise.\n",
           version, recorded_version);
}

int main(void) {
    arena_open(&compiler.arena, &compiler);
    if (setjmp(compiler.unwind)) {
        printf("%s\n", compiler.failure_message);
        return 1;
    }
    check_numbers();
    for (size_t i = 0; i < COUNT(slopes); i++) check_slope(&slopes[i]);
    check_version();
    arena_close(&compiler.arena);
    printf("%d checks, %d failures\n", checks, failures);
    return failures != 0;
}
