/* evaluate.c: one operation on constants, as the device computes it.
 *
 * The device functions of templates/ are compiled into the compiler itself, so a folded constant
 * has the bits that generated code would have computed. An operation without a row here is not
 * folded. */
#include "base/base.h"
#include "ir/ir.h"

#include "prelude.c"
#include "integer.h"
#include "convert.h"
#include "math.h"
#include "lite.h"
#include "philox.h"
#include "fixed.h"

/* The macro of stdbool.h would turn ls_bool_from_f32 pasted together into something else. */
#undef bool
typedef _Bool bool;

/* Constants travel as 64 bits; how each type lies in them. A bool is an int in device code. */
static f64 get_f64(uint64_t bits) {
    return ls_from_bits_f64(bits);
}
static f32 get_f32(uint64_t bits) {
    return ls_from_bits_f32((u32)bits);
}
static i64 get_i64(uint64_t bits) {
    return (i64)bits;
}
static i32 get_i32(uint64_t bits) {
    return (i32)(u32)bits;
}
static u64 get_u64(uint64_t bits) {
    return bits;
}
static u32 get_u32(uint64_t bits) {
    return (u32)bits;
}
static int get_bool(uint64_t bits) {
    return bits != 0;
}
static uint64_t put_f64(f64 x) {
    return ls_bits_f64(x);
}
static uint64_t put_f32(f32 x) {
    return ls_bits_f32(x);
}
static uint64_t put_i64(i64 x) {
    return (uint64_t)x;
}
static uint64_t put_i32(i32 x) {
    return (u32)x;
}
static uint64_t put_u64(u64 x) {
    return x;
}
static uint64_t put_u32(u32 x) {
    return x;
}
static uint64_t put_bool(int x) {
    return x != 0;
}

typedef uint64_t (*Evaluate)(const uint64_t *args);

#define FLOAT_TYPES(X) \
    X(F64, f64)        \
    X(F32, f32)
#define INTEGER_TYPES(X) \
    X(I64, i64)          \
    X(I32, i32)          \
    X(U64, u64)          \
    X(U32, u32)
#define NUMBER_TYPES(X) FLOAT_TYPES(X) INTEGER_TYPES(X)
#define COMPUTE_TYPES(X) NUMBER_TYPES(X) X(BOOL, bool)

/* The operations by shape: OP_id and the stem of the device function or the C operator. */
#define FLOAT_UNARY(X, ...)      \
    X(FLOOR, floor, __VA_ARGS__) \
    X(CEIL, ceil, __VA_ARGS__)   \
    X(ROUND, round, __VA_ARGS__) \
    X(TRUNC, trunc, __VA_ARGS__) \
    X(SQRT, sqrt, __VA_ARGS__)   \
    X(EXP, exp, __VA_ARGS__)     \
    X(LOG, log, __VA_ARGS__)
#define F32_UNARY(X, ...)                \
    X(RSQRT, rsqrt, __VA_ARGS__)         \
    X(CBRT, cbrt, __VA_ARGS__)           \
    X(EXP2, exp2, __VA_ARGS__)           \
    X(EXPM1, expm1, __VA_ARGS__)         \
    X(LOG2, log2, __VA_ARGS__)           \
    X(LOG1P, log1p, __VA_ARGS__)         \
    X(SIN, sin, __VA_ARGS__)             \
    X(COS, cos, __VA_ARGS__)             \
    X(TANH, tanh, __VA_ARGS__)           \
    X(ERF, erf, __VA_ARGS__)             \
    X(SIGMOID, sigmoid, __VA_ARGS__)     \
    X(SOFTPLUS, softplus, __VA_ARGS__)   \
    X(EXP_LITE, exp_lite, __VA_ARGS__)   \
    X(EXP2_LITE, exp2_lite, __VA_ARGS__) \
    X(LOG_LITE, log_lite, __VA_ARGS__)   \
    X(TANH_LITE, tanh_lite, __VA_ARGS__) \
    X(ERF_LITE, erf_lite, __VA_ARGS__)   \
    X(SIGMOID_LITE, sigmoid_lite, __VA_ARGS__)
#define FLOAT_TESTS(X, ...)      \
    X(ISNAN, isnan, __VA_ARGS__) \
    X(ISINF, isinf, __VA_ARGS__) \
    X(ISFINITE, isfinite, __VA_ARGS__)
#define FLOAT_BINARY(X, ...)           \
    X(COPYSIGN, copysign, __VA_ARGS__) \
    X(POW, pow, __VA_ARGS__)
#define FLOAT_INFIX(X, ...) \
    X(ADD, +, __VA_ARGS__)  \
    X(SUB, -, __VA_ARGS__)  \
    X(MUL, *, __VA_ARGS__)  \
    X(DIV, /, __VA_ARGS__)
#define NUMBER_UNARY(X, ...) \
    X(NEG, neg, __VA_ARGS__) \
    X(ABS, abs, __VA_ARGS__) \
    X(SIGN, sign, __VA_ARGS__)
#define NUMBER_BINARY(X, ...)          \
    X(MIN, min, __VA_ARGS__)           \
    X(MAX, max, __VA_ARGS__)           \
    X(FLOORDIV, floordiv, __VA_ARGS__) \
    X(MOD, mod, __VA_ARGS__)
#define INTEGER_BINARY(X, ...)       \
    X(ADD, add, __VA_ARGS__)         \
    X(SUB, sub, __VA_ARGS__)         \
    X(MUL, mul, __VA_ARGS__)         \
    X(BIT_AND, bit_and, __VA_ARGS__) \
    X(BIT_OR, bit_or, __VA_ARGS__)   \
    X(BIT_XOR, bit_xor, __VA_ARGS__)
#define INTEGER_COUNTED(X, ...)            \
    X(SHIFT_LEFT, shift_left, __VA_ARGS__) \
    X(SHIFT_RIGHT, shift_right, __VA_ARGS__)
#define POWERS(X, ...) X(POWI, powi, __VA_ARGS__)
#define EQUALITIES(X, ...) \
    X(EQ, ==, __VA_ARGS__) \
    X(NE, !=, __VA_ARGS__)
#define ORDERINGS(X, ...)  \
    X(LT, <, __VA_ARGS__)  \
    X(LE, <=, __VA_ARGS__) \
    X(GT, >, __VA_ARGS__)  \
    X(GE, >=, __VA_ARGS__)

/* A function for each operation and type, and the table that finds it. */
#define NAME(id, type) evaluate_##id##_##type
#define UNARY(id, stem, T)                              \
    static uint64_t NAME(id, T)(const uint64_t *x) {    \
        return put_##T(ls_##stem##_##T(get_##T(x[0]))); \
    }
#define TEST(id, stem, T)                                \
    static uint64_t NAME(id, T)(const uint64_t *x) {     \
        return put_bool(ls_##stem##_##T(get_##T(x[0]))); \
    }
#define BINARY(id, stem, T)                                            \
    static uint64_t NAME(id, T)(const uint64_t *x) {                   \
        return put_##T(ls_##stem##_##T(get_##T(x[0]), get_##T(x[1]))); \
    }
#define COUNTED(id, stem, T)                                           \
    static uint64_t NAME(id, T)(const uint64_t *x) {                   \
        return put_##T(ls_##stem##_##T(get_##T(x[0]), get_i64(x[1]))); \
    }
#define INFIX(id, sign, T)                                \
    static uint64_t NAME(id, T)(const uint64_t *x) {      \
        return put_##T(get_##T(x[0]) sign get_##T(x[1])); \
    }
#define COMPARE(id, sign, T)                               \
    static uint64_t NAME(id, T)(const uint64_t *x) {       \
        return put_bool(get_##T(x[0]) sign get_##T(x[1])); \
    }
#define FUSED(id, stem, T)                                                            \
    static uint64_t NAME(id, T)(const uint64_t *x) {                                  \
        return put_##T(ls_##stem##_##T(get_##T(x[0]), get_##T(x[1]), get_##T(x[2]))); \
    }
#define ALL_FLOAT(ID, T)    \
    FLOAT_UNARY(UNARY, T)   \
    FLOAT_TESTS(TEST, T)    \
    FLOAT_BINARY(BINARY, T) \
    FLOAT_INFIX(INFIX, T)   \
    FUSED(FMA, fma, T)
#define ALL_INTEGER(ID, T) INTEGER_BINARY(BINARY, T) INTEGER_COUNTED(COUNTED, T)
#define ALL_NUMBER(ID, T)  \
    NUMBER_UNARY(UNARY, T) \
    NUMBER_BINARY(BINARY, T) POWERS(COUNTED, T) EQUALITIES(COMPARE, T) ORDERINGS(COMPARE, T)
FLOAT_TYPES(ALL_FLOAT)
INTEGER_TYPES(ALL_INTEGER)
NUMBER_TYPES(ALL_NUMBER)
F32_UNARY(UNARY, f32)
EQUALITIES(COMPARE, bool)
INFIX(AND, &, bool)
INFIX(OR, |, bool)
UNARY(NOT, not, bool)
static uint64_t evaluate_FLOAT_BITS_f32(const uint64_t *x) {
    return ls_float_bits_f32(get_f32(x[0]));
}
static uint64_t evaluate_TO_ODD_f64(const uint64_t *x) {
    return put_f32(ls_to_odd_f64(get_f64(x[0])));
}
static uint64_t evaluate_FLOAT_FROM_BITS_u32(const uint64_t *x) {
    return (u32)x[0];
}

#define DRAW(id, stem, T)                                              \
    static uint64_t evaluate_##id##_u64(const uint64_t *x) {           \
        return put_##T(ls_##stem##_u64(get_u64(x[0]), get_i64(x[1]))); \
    }
DRAW(RANDOM_BITS, random_bits, u32)
DRAW(RANDOM_UNIFORM, random_uniform, f32)
DRAW(RANDOM_NORMAL, random_normal, f32)
static uint64_t evaluate_SHUFFLE_i64(const uint64_t *x) {
    return put_i64(ls_shuffle_i64(get_i64(x[0]), get_i64(x[1]), get_u64(x[2])));
}
#define FIXED(ID, T)                                                      \
    static uint64_t evaluate_FIXED_SHIFT_##T(const uint64_t *x) {         \
        return put_i64(ls_fixed_shift_##T(get_##T(x[0]), get_i64(x[1]))); \
    }                                                                     \
    static uint64_t evaluate_TO_FIXED_##T(const uint64_t *x) {            \
        return put_i64(ls_to_fixed_##T(get_##T(x[0]), get_i64(x[1])));    \
    }                                                                     \
    static uint64_t from_fixed_##T(const uint64_t *x) {                   \
        return put_##T(ls_from_fixed_##T(get_i64(x[0]), get_i64(x[1])));  \
    }
FLOAT_TYPES(FIXED)

#define ROW(id, stem, ID, T) [OP_##id][TYPE_##ID] = NAME(id, T),
#define FLOAT_ROWS(ID, T)   \
    FLOAT_UNARY(ROW, ID, T) \
    FLOAT_TESTS(ROW, ID, T) FLOAT_BINARY(ROW, ID, T) FLOAT_INFIX(ROW, ID, T) ROW(FMA, fma, ID, T)
#define INTEGER_ROWS(ID, T) INTEGER_BINARY(ROW, ID, T) INTEGER_COUNTED(ROW, ID, T)
#define NUMBER_ROWS(ID, T)   \
    NUMBER_UNARY(ROW, ID, T) \
    NUMBER_BINARY(ROW, ID, T) POWERS(ROW, ID, T) EQUALITIES(ROW, ID, T) ORDERINGS(ROW, ID, T)
static const Evaluate operations[OP_COUNT][TYPE_COUNT] = {
    FLOAT_TYPES(FLOAT_ROWS) INTEGER_TYPES(INTEGER_ROWS) NUMBER_TYPES(NUMBER_ROWS)
        F32_UNARY(ROW, F32, f32) EQUALITIES(ROW, BOOL, bool) ROW(AND, and, BOOL, bool)
            ROW(OR, or, BOOL, bool) ROW(NOT, not, BOOL, bool) ROW(FLOAT_BITS, , F32, f32)
                ROW(FLOAT_FROM_BITS, , U32, u32) ROW(TO_ODD, , F64, f64)
                    ROW(RANDOM_BITS, , U64, u64) ROW(RANDOM_UNIFORM, , U64, u64)
                        ROW(RANDOM_NORMAL, , U64, u64) ROW(SHUFFLE, , I64, i64)
                            ROW(FIXED_SHIFT, , F32, f32) ROW(FIXED_SHIFT, , F64, f64)
                                ROW(TO_FIXED, , F32, f32) ROW(TO_FIXED, , F64, f64)};

#define CASTS_TO(ID, T) \
    CAST(T, f64) CAST(T, f32) CAST(T, i64) CAST(T, i32) CAST(T, u64) CAST(T, u32) CAST(T, bool)
#define CAST(T, FROM)                                           \
    static uint64_t cast_##T##_##FROM(const uint64_t *x) {      \
        return put_##T(ls_##T##_from_##FROM(get_##FROM(x[0]))); \
    }
COMPUTE_TYPES(CASTS_TO)
#define CAST_ROW(ID, T)                                                                         \
    [TYPE_##ID] = {                                                                             \
        [TYPE_F64] = cast_##T##_f64,  [TYPE_F32] = cast_##T##_f32, [TYPE_I64] = cast_##T##_i64, \
        [TYPE_I32] = cast_##T##_i32,  [TYPE_U64] = cast_##T##_u64, [TYPE_U32] = cast_##T##_u32, \
        [TYPE_BOOL] = cast_##T##_bool},
static const Evaluate casts[TYPE_COUNT][TYPE_COUNT] = {COMPUTE_TYPES(CAST_ROW)};

#define ROUND_TO(S, T)                                \
    static uint64_t round_to_##S(const uint64_t *x) { \
        return put_##T(ls_round_##S(get_##T(x[0])));  \
    }
ROUND_TO(f16, f32)
ROUND_TO(bf16, f32)
ROUND_TO(e4m3, f32)
ROUND_TO(e5m2, f32)
ROUND_TO(i16, i32)
ROUND_TO(i8, i32)
ROUND_TO(u16, i32)
ROUND_TO(u8, i32)
static const Evaluate roundings[TYPE_COUNT] = {
    [TYPE_F16] = round_to_f16,   [TYPE_BF16] = round_to_bf16, [TYPE_E4M3] = round_to_e4m3,
    [TYPE_E5M2] = round_to_e5m2, [TYPE_I16] = round_to_i16,   [TYPE_I8] = round_to_i8,
    [TYPE_U16] = round_to_u16,   [TYPE_U8] = round_to_u8};

#define STOCHASTIC(S)                                                          \
    static uint64_t round_stochastic_##S(const uint64_t *x) {                  \
        return put_f32(ls_round_stochastic_##S(get_f32(x[0]), get_u32(x[1]))); \
    }
STOCHASTIC(f16)
STOCHASTIC(bf16)
STOCHASTIC(e4m3)
STOCHASTIC(e5m2)
static const Evaluate stochastic_roundings[TYPE_COUNT] = {[TYPE_F16] = round_stochastic_f16,
                                                          [TYPE_BF16] = round_stochastic_bf16,
                                                          [TYPE_E4M3] = round_stochastic_e4m3,
                                                          [TYPE_E5M2] = round_stochastic_e5m2};
static const Evaluate from_fixed[TYPE_COUNT] = {
    [TYPE_F64] = from_fixed_f64, [TYPE_F32] = from_fixed_f32};

bool ir_evaluate(Op op, Type result, Type operand, uint64_t payload, const uint64_t args[3],
                 uint64_t *bits) {
    if (op >= OP_COUNT || result >= TYPE_COUNT || operand >= TYPE_COUNT) return false;
    if (op == OP_SELECT) {
        *bits = args[0] ? args[1] : args[2];
        return true;
    }
    if (op == OP_RANDOM_KEY) {
        *bits =
            ls_random_key_u64(get_i64(args[0]), get_i64(args[1]), (u32)payload, get_i64(args[2]));
        return true;
    }
    bool to_type = payload < TYPE_COUNT;
    Evaluate evaluate = op == OP_CAST                          ? casts[result][operand]
                        : op == OP_FROM_FIXED                  ? from_fixed[result]
                        : op == OP_ROUND_TO && to_type         ? roundings[payload]
                        : op == OP_ROUND_STOCHASTIC && to_type ? stochastic_roundings[payload]
                                                               : operations[op][operand];
    if (!evaluate) return false;
    *bits = evaluate(args);
    return true;
}
