/* evaluate.c: one operation on constants, as the device computes it.
 *
 * The device functions of templates/ are compiled into the compiler itself, so a folded constant
 * has the bits that generated code would have computed. Which operation is folded, and by what
 * text, is the column `form` of ops.def; for which types, its `rule` and `f64`. */
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

/* The bits of the operands, and behind them the payload. */
typedef uint64_t (*Evaluate)(const uint64_t x[4]);

/* ---- from the table: a function for each operation and each type that its rule accepts ----
 * OVER_<rule>(F, wide, ...) is F(T, result, first, second, third, ...) for each of them, T being
 * the id of the first operand's type, which chooses the function; `wide` is the column f64. */
#define F64_0(F, ...)
#define F64_1(F, ...) F(F64, __VA_ARGS__)
#define OVER_FLOAT(F, wide, ...) \
    F64_##wide(F, f64, f64, f64, f64, __VA_ARGS__) F(F32, f32, f32, f32, f32, __VA_ARGS__)
#define OVER_INT(F, wide, ...)              \
    F(I64, i64, i64, i64, i64, __VA_ARGS__) \
    F(I32, i32, i32, i32, i32, __VA_ARGS__) \
    F(U64, u64, u64, u64, u64, __VA_ARGS__) \
    F(U32, u32, u32, u32, u32, __VA_ARGS__)
#define OVER_SAME(F, wide, ...)      \
    OVER_FLOAT(F, wide, __VA_ARGS__) \
    OVER_INT(F, 0, __VA_ARGS__)
#define OVER_BOOL(F, wide, ...) F(BOOL, bool, bool, bool, bool, __VA_ARGS__)
#define OVER_FTEST(F, wide, ...) \
    F64_##wide(F, bool, f64, f64, f64, __VA_ARGS__) F(F32, bool, f32, f32, f32, __VA_ARGS__)
#define OVER_TEST(F, wide, ...)              \
    OVER_FTEST(F, wide, __VA_ARGS__)         \
    F(I64, bool, i64, i64, i64, __VA_ARGS__) \
    F(I32, bool, i32, i32, i32, __VA_ARGS__) \
    F(U64, bool, u64, u64, u64, __VA_ARGS__) \
    F(U32, bool, u32, u32, u32, __VA_ARGS__)
#define OVER_EQUAL(F, wide, ...)    \
    OVER_TEST(F, wide, __VA_ARGS__) \
    OVER_BOOL(F, 0, __VA_ARGS__)
#define OVER_SHIFT(F, wide, ...)            \
    F(I64, i64, i64, i64, i64, __VA_ARGS__) \
    F(I32, i32, i32, i64, i64, __VA_ARGS__) \
    F(U64, u64, u64, i64, i64, __VA_ARGS__) \
    F(U32, u32, u32, i64, i64, __VA_ARGS__)
#define OVER_POWI(F, wide, ...)                                                            \
    F64_##wide(F, f64, f64, i64, i64, __VA_ARGS__) F(F32, f32, f32, i64, i64, __VA_ARGS__) \
        OVER_SHIFT(F, 0, __VA_ARGS__)
#define OVER_BITS(F, wide, ...) F(F32, u32, f32, f32, f32, __VA_ARGS__)
#define OVER_UNBITS(F, wide, ...) F(U32, f32, u32, u32, u32, __VA_ARGS__)
#define OVER_NARROW(F, wide, ...) F(F64, f32, f64, f64, f64, __VA_ARGS__)
#define OVER_DRAW(F, wide, ...) F(U64, u32, u64, i64, i64, __VA_ARGS__)
#define OVER_DRAWF(F, wide, ...) F(U64, f32, u64, i64, i64, __VA_ARGS__)
#define OVER_PERMUTE(F, wide, ...) F(I64, i64, i64, i64, u64, __VA_ARGS__)
#define OVER_FIX(F, wide, ...) \
    F64_##wide(F, i64, f64, i64, i64, __VA_ARGS__) F(F32, i64, f32, i64, i64, __VA_ARGS__)

/* What stands behind the types: the operation's id, its name, its operands' number and, where C has
 * one, its operator. */
#define GET_1(A, B, C) get_##A(x[0])
#define GET_2(A, B, C) get_##A(x[0]), get_##B(x[1])
#define GET_3(A, B, C) get_##A(x[0]), get_##B(x[1]), get_##C(x[2])
#define DEFINE_CALLED(T, R, A, B, C, id, name, n, sign)        \
    static uint64_t evaluate_##id##_##T(const uint64_t x[4]) { \
        return put_##R(ls_##name##_##A(GET_##n(A, B, C)));     \
    }
#define DEFINE_INFIX(T, R, A, B, C, id, name, n, sign)         \
    static uint64_t evaluate_##id##_##T(const uint64_t x[4]) { \
        return put_##R(get_##A(x[0]) sign get_##B(x[1]));      \
    }
#define DEFINE_ARITHMETIC(T, ...) ARITHMETIC_##T(T, __VA_ARGS__)
#define ARITHMETIC_F64 DEFINE_INFIX
#define ARITHMETIC_F32 DEFINE_INFIX
#define ARITHMETIC_I64 DEFINE_CALLED
#define ARITHMETIC_I32 DEFINE_CALLED
#define ARITHMETIC_U64 DEFINE_CALLED
#define ARITHMETIC_U32 DEFINE_CALLED
#define ENTRY(T, R, A, B, C, id, name, n, sign) [OP_##id][TYPE_##T] = evaluate_##id##_##T,

/* The column `form` as two words, and what becomes of each kind of it. */
#define KIND_NONE NONE,
#define KIND_OWN OWN,
#define KIND_CALL CALLED,
#define KIND_INFIX(sign) INFIX, sign
#define KIND_ARITHMETIC(sign) ARITHMETIC, sign
#define SPREAD(F, ...) F(__VA_ARGS__)

#define FUNCTIONS(kind, ...) FUNCTIONS_##kind(__VA_ARGS__)
#define FUNCTIONS_NONE(...)
#define FUNCTIONS_OWN(...)
#define FUNCTIONS_CALLED(sign, id, name, n, rule, wide) \
    OVER_##rule(DEFINE_CALLED, wide, id, name, n, sign)
#define FUNCTIONS_INFIX(sign, id, name, n, rule, wide) \
    OVER_##rule(DEFINE_INFIX, wide, id, name, n, sign)
#define FUNCTIONS_ARITHMETIC(sign, id, name, n, rule, wide) \
    OVER_##rule(DEFINE_ARITHMETIC, wide, id, name, n, sign)
#define X(id, name, n, rule, flags, cost, work, f64, lite, form, derivative) \
    SPREAD(FUNCTIONS, KIND_##form, id, name, n, rule, f64)
#include "ops.def"
#undef X

#define ENTRIES(kind, ...) ENTRIES_##kind(__VA_ARGS__)
#define ENTRIES_NONE(...)
#define ENTRIES_OWN(...)
#define ENTRIES_CALLED(sign, id, name, n, rule, wide) OVER_##rule(ENTRY, wide, id, name, n, sign)
#define ENTRIES_INFIX ENTRIES_CALLED
#define ENTRIES_ARITHMETIC ENTRIES_CALLED
static const Evaluate operations[OP_COUNT][TYPE_COUNT] = {
#define X(id, name, n, rule, flags, cost, work, f64, lite, form, derivative) \
    SPREAD(ENTRIES, KIND_##form, id, name, n, rule, f64)
#include "ops.def"
#undef X
};

/* ---- operations whose text depends on more than the first operand's type ---- */

typedef struct Site {
    Type result, operand;
    uint64_t payload;
} Site;

#define FLOAT_TYPES(X) \
    X(F64, f64)        \
    X(F32, f32)
#define NUMBER_TYPES(X)        \
    FLOAT_TYPES(X) X(I64, i64) \
    X(I32, i32)                \
    X(U64, u64)                \
    X(U32, u32)
#define COMPUTE_TYPES(X) NUMBER_TYPES(X) X(BOOL, bool)

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
static Evaluate choose_CAST(const Site *site) {
    return casts[site->result][site->operand];
}

#define ROUND(S, T)                                   \
    static uint64_t round_to_##S(const uint64_t *x) { \
        return put_##T(ls_round_##S(get_##T(x[0])));  \
    }
ROUND(f16, f32)
ROUND(bf16, f32)
ROUND(e4m3, f32)
ROUND(e5m2, f32)
ROUND(i16, i32)
ROUND(i8, i32)
ROUND(u16, i32)
ROUND(u8, i32)
static const Evaluate roundings[TYPE_COUNT] = {
    [TYPE_F16] = round_to_f16,   [TYPE_BF16] = round_to_bf16, [TYPE_E4M3] = round_to_e4m3,
    [TYPE_E5M2] = round_to_e5m2, [TYPE_I16] = round_to_i16,   [TYPE_I8] = round_to_i8,
    [TYPE_U16] = round_to_u16,   [TYPE_U8] = round_to_u8};
static Evaluate choose_ROUND_TO(const Site *site) {
    return site->payload < TYPE_COUNT ? roundings[site->payload] : NULL;
}

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
static Evaluate choose_ROUND_STOCHASTIC(const Site *site) {
    return site->payload < TYPE_COUNT ? stochastic_roundings[site->payload] : NULL;
}

#define FROM_FIXED_TO(ID, T)                                             \
    static uint64_t from_fixed_##T(const uint64_t *x) {                  \
        return put_##T(ls_from_fixed_##T(get_i64(x[0]), get_i64(x[1]))); \
    }
FLOAT_TYPES(FROM_FIXED_TO)
#define FROM_FIXED_ROW(ID, T) [TYPE_##ID] = from_fixed_##T,
static const Evaluate from_fixed[TYPE_COUNT] = {FLOAT_TYPES(FROM_FIXED_ROW)};
static Evaluate choose_FROM_FIXED(const Site *site) {
    return from_fixed[site->result];
}

#define CLAMPED(ID, T)                                                                       \
    static uint64_t clamp_##T(const uint64_t *x) {                                           \
        return put_##T(ls_min_##T(ls_max_##T(get_##T(x[0]), get_##T(x[1])), get_##T(x[2]))); \
    }
NUMBER_TYPES(CLAMPED)
#define CLAMP_ROW(ID, T) [TYPE_##ID] = clamp_##T,
static const Evaluate clamps[TYPE_COUNT] = {NUMBER_TYPES(CLAMP_ROW)};
static Evaluate choose_CLAMP(const Site *site) {
    return clamps[site->operand];
}

static uint64_t select_bits(const uint64_t *x) {
    return x[0] ? x[1] : x[2];
}
static Evaluate choose_SELECT(const Site *site) {
    return site->operand == TYPE_BOOL ? select_bits : NULL;
}

static uint64_t random_key(const uint64_t *x) {
    return ls_random_key_u64(get_i64(x[0]), get_i64(x[1]), (u32)x[3], get_i64(x[2]));
}
static Evaluate choose_RANDOM_KEY(const Site *site) {
    return site->operand == TYPE_I64 ? random_key : NULL;
}

typedef Evaluate Choose(const Site *site);
#define CHOICE(kind, ...) CHOICE_##kind(__VA_ARGS__)
#define CHOICE_NONE(...)
#define CHOICE_OWN(sign, id) [OP_##id] = choose_##id,
#define CHOICE_CALLED(...)
#define CHOICE_INFIX(...)
#define CHOICE_ARITHMETIC(...)
static Choose *const choices[OP_COUNT] = {
#define X(id, name, n, rule, flags, cost, work, f64, lite, form, derivative) \
    SPREAD(CHOICE, KIND_##form, id)
#include "ops.def"
#undef X
};

bool ir_evaluate(Op op, Type result, Type operand, uint64_t payload, const uint64_t args[3],
                 uint64_t *bits) {
    if (op >= OP_COUNT || result >= TYPE_COUNT || operand >= TYPE_COUNT) return false;
    const Site site = {result, operand, payload};
    const Evaluate evaluate = choices[op] ? choices[op](&site) : operations[op][operand];
    if (!evaluate) return false;
    *bits = evaluate((const uint64_t[4]){args[0], args[1], args[2], payload});
    return true;
}

/* ---- elements of arrays ---- */

/* X(id, spelling, C spelling, of the compute type) */
#define STORAGE_TYPES(X)       \
    X(F64, f64, f64, f64)      \
    X(F32, f32, f32, f32)      \
    X(I64, i64, i64, i64)      \
    X(I32, i32, i32, i32)      \
    X(U64, u64, u64, u64)      \
    X(U32, u32, u32, u32)      \
    X(BOOL, bool, bool8, bool) \
    X(F16, f16, f16, f32)      \
    X(BF16, bf16, bf16, f32)   \
    X(E4M3, e4m3, e4m3, f32)   \
    X(E5M2, e5m2, e5m2, f32)   \
    X(I16, i16, i16, i32)      \
    X(I8, i8, i8, i32)         \
    X(U16, u16, u16, i32)      \
    X(U8, u8, u8, i32)
#define ELEMENT(id, name, c, T)                                          \
    static uint64_t load_##id(const void *array, int64_t index) {        \
        return put_##T(ls_unpack_##name(((const c *)array)[index]));     \
    }                                                                    \
    static void store_##id(void *array, int64_t index, uint64_t value) { \
        ((c *)array)[index] = (c)ls_pack_##name(get_##T(value));         \
    }
STORAGE_TYPES(ELEMENT)
static const struct {
    uint64_t (*load)(const void *array, int64_t index);
    void (*store)(void *array, int64_t index, uint64_t value);
} elements[TYPE_COUNT] = {
#define ELEMENT_ROW(id, name, c, T) [TYPE_##id] = {load_##id, store_##id},
    STORAGE_TYPES(ELEMENT_ROW)
#undef ELEMENT_ROW
};

uint64_t ir_load_element(Type storage, const void *array, int64_t index) {
    return elements[storage].load(array, index);
}

void ir_store_element(Type storage, void *array, int64_t index, uint64_t value) {
    elements[storage].store(array, index, value);
}
