/* test_numbers.c: two writings of the arithmetic agree: the interpreter's and the device functions
 * that fold constants (templates/). Every operation on every type it takes, over all pairs of
 * awkward values and many of random bits; casts between all types; every pattern of the narrow
 * floats and their neighbours in f32. And that ops.def says so: what its column `form` has is
 * folded, on f64 where its column f64 has that, and nothing else is. */
#include "interp.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int failures, checks;

static const double floats[] = {
    0.0,      -0.0,      1.0,    -1.0,   0.5,     -0.5,   1.5,    2.5,        -2.5,
    3.0,      -7.0,      0.1,    1e-3,   1e10,    -1e10,  1e30,   -1e30,      1e38,
    1e-38,    1e-45,     -1e-45, 1e300,  -1e-300, 127.5,  255.0,  65504.0,    65520.0,
    448.0,    57344.,    61440., 0x1p31, -0x1p31, 0x1p63, 0x1p64, 16777217.0, 4503599627370497.5,
    INFINITY, -INFINITY, NAN,    100.0,  88.0,    -104.0, 709.0};
static const uint64_t integers[] = {0,
                                    1,
                                    2,
                                    3,
                                    7,
                                    31,
                                    32,
                                    63,
                                    64,
                                    100,
                                    127,
                                    128,
                                    32767,
                                    65535,
                                    65536,
                                    0x7fffffff,
                                    0x80000000,
                                    0xffffffff,
                                    UINT64_C(0x100000000),
                                    INT64_MAX,
                                    UINT64_C(0x8000000000000000),
                                    UINT64_C(0x8000000000000001),
                                    UINT64_MAX - 6,
                                    UINT64_MAX - 1,
                                    UINT64_MAX};

static size_t value_count(Type type) {
    if (type == TYPE_BOOL) return 2;
    return type_info[type].class == 'F' ? COUNT(floats) : COUNT(integers);
}

static uint64_t value_at(Type type, size_t i) {
    if (type == TYPE_BOOL) return i;
    if (type_info[type].class == 'F') return ir_number_bits(type, floats[i]);
    return type_info[type].size == 8 ? integers[i] : (uint32_t)integers[i];
}

static bool is_nan(Type type, uint64_t bits) {
    return type_info[type].class == 'F' && isnan(number_to_double(type, bits));
}

static int folds[OP_COUNT]; /* by operation: how often it was folded */

/* A shift is of the largest that is made fixed, so that it fits: nothing saturates. */
static bool fits(Op op, Type type, const uint64_t x[3]) {
    const double d = op == OP_TO_FIXED ? number_to_double(type, x[0]) : 0.0;
    const int64_t shift = (int64_t)x[1];
    if (d == 0.0 || !isfinite(d)) return true;
    const int capped = shift > 2000 ? 2000 : shift < -2000 ? -2000 : (int)shift;
    return fabsl(ldexpl((long double)d, capped)) <= 0x1p62L;
}

static void check(Op op, Type result, const Type operands[3], uint64_t payload,
                  const uint64_t x[3]) {
    uint64_t folded, args[3] = {x[0], x[1], x[2]};
    if (ir_takes_count(op) && operands[1] == TYPE_I32)
        args[1] = (uint64_t)(int64_t)(int32_t)(uint32_t)x[1];
    if (!fits(op, operands[0], x)) return;
    checks++;
    if (ir_evaluate(op, result, operands[0], payload, args, &folded) !=
        (op_info[op].form != FORM_NONE)) {
        if (++failures <= 20)
            printf("%s of %s: ops.def does not say whether it is folded\n", op_info[op].name,
                   type_info[operands[0]].name);
        return;
    }
    if (op_info[op].form == FORM_NONE) return;
    folds[op]++;
    uint64_t applied = number_apply(op, result, operands, payload, x);
    if (folded == applied || (is_nan(result, folded) && is_nan(result, applied))) return;
    if (++failures <= 20)
        printf("%s %s(%llx, %llx, %llx): folded %llx, interpreted %llx\n", op_info[op].name,
               type_info[operands[0]].name, (unsigned long long)x[0], (unsigned long long)x[1],
               (unsigned long long)x[2], (unsigned long long)folded, (unsigned long long)applied);
}

/* xorshift64 (Marsaglia, "Xorshift RNGs", 2003) */
static uint64_t random_bits(uint64_t *state) {
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}

/* A third each: any bits, an awkward value, and for floats a subnormal or a common size. */
static uint64_t random_value(Type type, uint64_t *state) {
    const uint64_t bits = random_bits(state), how = bits >> 32 & 3;
    const bool is_float = type_info[type].class == 'F', wide = type_info[type].size == 8;
    if (type == TYPE_BOOL) return bits & 1;
    if (how == 0) return value_at(type, bits % value_count(type));
    if (is_float && how == 1) /* subnormal, of either sign */
        return wide ? bits & UINT64_C(0x800fffffffffffff) : bits & 0x807fffff;
    if (is_float && how == 2)
        return ir_number_bits(type, (double)(int32_t)(uint32_t)bits * 0x1p-28);
    return wide ? random_bits(state) : (uint32_t)bits;
}

/* Over all values of the operands' types, of the third a few, and over random ones. */
static void check_operation(Function *f, Op op, const Type operands[3]) {
    ValueId args[3] = {0};
    Type result;
    int arity = op_info[op].arity;
    for (int i = 0; i < arity; i++) args[i] = ir_constant(f, operands[i], (uint64_t)i);
    if (ir_result_type(f, op, args, &result)) return; /* not for these types */
    uint64_t state = UINT64_C(0x9e3779b97f4a7c15) + op;
    for (int i = 0; i < 4000; i++) {
        uint64_t x[3] = {0};
        for (int k = 0; k < arity; k++) x[k] = random_value(operands[k], &state);
        check(op, result, operands, 0, x);
    }
    for (size_t i = 0; i < value_count(operands[0]); i++)
        for (size_t j = 0; j < (arity > 1 ? value_count(operands[1]) : 1); j++)
            for (size_t k = 0; k < (arity > 2 ? value_count(operands[2]) : 1); k += 3)
                check(op, result, operands, 0,
                      (uint64_t[3]){value_at(operands[0], i),
                                    arity > 1 ? value_at(operands[1], j) : 0,
                                    arity > 2 ? value_at(operands[2], k) : 0});
}

static void check_operations(Function *f) {
    for (Op op = 1; op < OP_COUNT; op = (Op)(op + 1)) {
        if (op_info[op].arity == 0 || op_info[op].flags & OP_REDUCTION) continue;
        bool on_f64 = false;
        for (Type a = 0; a <= TYPE_BOOL; a = (Type)(a + 1))
            for (Type b = 0; b <= (op_info[op].arity > 1 ? TYPE_BOOL : 0); b = (Type)(b + 1)) {
                const int before = folds[op];
                check_operation(f, op,
                                (Type[3]){a, b,
                                          op == OP_SELECT    ? b
                                          : op == OP_SHUFFLE ? TYPE_U64
                                                             : a});
                const bool has_f64 = a == TYPE_F64 || (op_info[op].arity > 1 && b == TYPE_F64);
                on_f64 = on_f64 || (has_f64 && folds[op] > before);
            }
        if (folds[op] == 0 || on_f64 == op_info[op].f64) continue;
        printf("%s: ops.def is wrong on whether it has an f64 form\n", op_info[op].name);
        failures++;
    }
}

/* After all other checks. */
static void check_all_folded(void) {
    for (Op op = 1; op < OP_COUNT; op = (Op)(op + 1)) {
        if (op_info[op].form == FORM_NONE || folds[op]) continue;
        printf("%s has a form and was never folded\n", op_info[op].name);
        failures++;
    }
}

static void check_casts(void) {
    for (Type to = 0; to <= TYPE_BOOL; to = (Type)(to + 1))
        for (Type from = 0; from <= TYPE_BOOL; from = (Type)(from + 1))
            for (size_t i = 0; i < value_count(from); i++)
                check(OP_CAST, to, (Type[3]){from}, 0, (uint64_t[3]){value_at(from, i)});
}

/* Random123's known answers, as far as a draw reaches them. */
static void check_known_answers(void) {
    static const uint32_t zeros[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    bool good = true;
    for (uint32_t i = 0; i < 4; i++) good = good && draw_bits(0, i) == zeros[i];
    uint64_t ones = draw_key(UINT64_MAX, UINT64_MAX, UINT32_MAX, UINT32_MAX);
    uint64_t pi = draw_key(UINT64_C(0x299f31d0a4093822), UINT64_C(0x85a308d3243f6a88), 0x03707344,
                           0x13198a2e);
    good = good && ones == UINT64_C(0x41c83b0e408f276d) && pi == UINT64_C(0x94fdccebd16cfe09);
    checks++;
    if (!good && ++failures) printf("Philox differs from its known answers\n");
}

static void check_draws(void) {
    const Type key[3] = {TYPE_I64, TYPE_I64, TYPE_I64}, fixed[3] = {TYPE_I64, TYPE_I64};
    for (size_t i = 0; i < COUNT(integers); i++)
        for (size_t k = 0; k < COUNT(integers); k++) {
            uint64_t x[3] = {integers[i], integers[k], integers[(i + k) % COUNT(integers)]};
            check(OP_RANDOM_KEY, TYPE_U64, key, i, x);
            check(OP_FROM_FIXED, TYPE_F32, fixed, TYPE_F32, x);
            check(OP_FROM_FIXED, TYPE_F64, fixed, TYPE_F64, x);
        }
}

static void check_stochastic(Type storage) {
    const Type operands[3] = {TYPE_F32, TYPE_U32};
    uint64_t bits = 88172645463325252u;
    for (int i = 0; i < 200000; i++) {
        bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
        uint64_t x = i % 3 ? (uint32_t)bits : (bits & 0x87ffffff) | 0x38000000;
        check(OP_ROUND_STOCHASTIC, TYPE_F32, operands, storage, (uint64_t[3]){x, bits >> 32});
    }
    for (size_t i = 0; i < COUNT(floats); i++)
        for (size_t k = 0; k < COUNT(integers); k++)
            check(OP_ROUND_STOCHASTIC, TYPE_F32, operands, storage,
                  (uint64_t[3]){value_at(TYPE_F32, i), value_at(TYPE_U32, k)});
}

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* An f64 made narrow by to_odd and round_to has been rounded once. */
static void check_once(Type storage, double place) {
    static const double nudges[] = {0, 0x1p-52, -0x1p-52, 0x1p-26, -0x1p-26};
    for (size_t i = 0; i < COUNT(nudges); i++) {
        double x = place + place * nudges[i], once = format_round(storage, x);
        const Type wide[3] = {TYPE_F64}, single[3] = {TYPE_F32};
        uint64_t bits = ir_number_bits(TYPE_F64, x);
        check(OP_TO_ODD, TYPE_F32, wide, 0, (uint64_t[3]){bits});
        uint64_t odd = number_apply(OP_TO_ODD, TYPE_F32, wide, 0, (uint64_t[3]){bits});
        uint64_t twice = number_apply(OP_ROUND_TO, TYPE_F32, single, storage, (uint64_t[3]){odd});
        checks++;
        if (number_to_double(TYPE_F32, twice) != once && !isnan(once) && ++failures <= 20)
            printf("%s: %a becomes %a, rounded once %a\n", type_info[storage].name, x,
                   number_to_double(TYPE_F32, twice), once);
    }
}

/* Around every value of a narrow float and every midpoint of two: the f32s there round alike. */
static void check_narrow_float(Type storage) {
    uint32_t patterns = UINT32_C(1) << 8 * type_info[storage].size;
    for (uint32_t p = 0; p < patterns; p++) {
        uint8_t array[2] = {(uint8_t)p, (uint8_t)(p >> 8)}, back[2] = {0};
        uint64_t value = number_load(storage, array, 0);
        number_store(storage, back, 0, value);
        double decoded = number_to_double(TYPE_F32, value);
        uint32_t stored = back[0] | (uint32_t)back[1] << 8;
        bool infinity = storage == TYPE_E5M2 && isinf(decoded); /* read, never written */
        checks++;
        if (!isnan(decoded) && !infinity && stored != p && ++failures <= 20)
            printf("%s %x reads as %a and is stored as %x\n", type_info[storage].name, p, decoded,
                   stored);
        double next = format_decode(storage, p + 1 < patterns ? p + 1 : p);
        const double places[] = {decoded, (decoded + next) / 2};
        for (size_t k = 0; k < COUNT(places); k++) check_once(storage, places[k]);
        for (size_t k = 0; k < COUNT(places); k++)
            for (uint32_t step = 0; step < 3; step++)
                check(OP_ROUND_TO, TYPE_F32, (Type[3]){TYPE_F32}, storage,
                      (uint64_t[3]){bits_of((float)places[k]) + step - 1});
    }
    for (size_t i = 0; i < COUNT(floats); i++)
        check(OP_ROUND_TO, TYPE_F32, (Type[3]){TYPE_F32}, storage,
              (uint64_t[3]){value_at(TYPE_F32, i)});
}

static void check_narrow_integer(Type storage) {
    for (size_t i = 0; i < COUNT(integers); i++)
        check(OP_ROUND_TO, TYPE_I32, (Type[3]){TYPE_I32}, storage,
              (uint64_t[3]){value_at(TYPE_I32, i)});
}

int main(void) {
    static Compiler compiler;
    arena_open(&compiler.arena, &compiler);
    if (setjmp(compiler.unwind)) {
        printf("%s\n", compiler.failure_message);
        return 1;
    }
    check_operations(ir_function(&compiler, &compiler.arena, "numbers"));
    check_casts();
    check_known_answers();
    check_draws();
    for (Type storage = TYPE_F16; storage < TYPE_COUNT; storage = (Type)(storage + 1)) {
        if (type_info[storage].class == 'F')
            check_narrow_float(storage), check_stochastic(storage);
        else
            check_narrow_integer(storage);
    }
    check_all_folded();
    arena_close(&compiler.arena);
    printf("%d checks, %d failures\n", checks, failures);
    return failures != 0;
}
