/* compare.c: V_CMP and V_CMPX: a mask of the lanes where it holds, 0 for those that are off. */
#include "lanes.h"

#include <stdio.h>
#include <string.h>

static void give(Wave *w, const Instruction *in, u64 mask) {
    const Operand exec = {.kind = SCALAR, .at = S_EXEC};
    if (in->mask.kind == SCALAR) put_mask(w, &in->mask, mask);
    if (in->to_exec) put_mask(w, &exec, mask);
}

#define COMPARISON(name, T, number, C, holds)               \
    static void name(Wave *w, const Instruction *in) {      \
        u64 mask = 0;                                       \
        EACH_LANE(w, lane) {                                \
            const C a = (C)number(get_##T(w, in, 0, lane)); \
            const C b = (C)number(get_##T(w, in, 1, lane)); \
            if (holds) mask |= 1ull << lane;                \
        }                                                   \
        give(w, in, mask);                                  \
    }

#define FLOATS(X, T, number, C)                \
    X(lt, T, T, number, C, a < b)              \
    X(eq, T, T, number, C, a == b)             \
    X(le, T, T, number, C, a <= b)             \
    X(gt, T, T, number, C, a > b)              \
    X(lg, T, T, number, C, (a < b) || (a > b)) \
    X(ge, T, T, number, C, a >= b)             \
    X(o, T, T, number, C, a == a && b == b)    \
    X(u, T, T, number, C, a != a || b != b)    \
    X(nge, T, T, number, C, !(a >= b))         \
    X(nlg, T, T, number, C, !(a < b || a > b)) \
    X(ngt, T, T, number, C, !(a > b))          \
    X(nle, T, T, number, C, !(a <= b))         \
    X(neq, T, T, number, C, !(a == b))         \
    X(nlt, T, T, number, C, !(a < b))
#define INTEGERS(X, T, get)    \
    X(lt, T, get, , T, a < b)  \
    X(eq, T, get, , T, a == b) \
    X(le, T, get, , T, a <= b) \
    X(gt, T, get, , T, a > b)  \
    X(ne, T, get, , T, a != b) \
    X(ge, T, get, , T, a >= b)
#define ALL(X)                        \
    FLOATS(X, f32, float_of, float)   \
    FLOATS(X, f64, double_of, double) \
    INTEGERS(X, u16, u16)             \
    INTEGERS(X, i16, u16)             \
    INTEGERS(X, u32, u32)             \
    INTEGERS(X, i32, u32)             \
    INTEGERS(X, u64, u64)             \
    INTEGERS(X, i64, u64)

#define X(how, T, get, number, C, holds) COMPARISON(compare_##how##_##T, get, number, C, holds)
ALL(X)
#undef X

#define CLASS(T, N)                                                                              \
    static void class_of_##T(Wave *w, const Instruction *in) {                                   \
        u64 mask = 0;                                                                            \
        EACH_LANE(w, lane)                                                                       \
        if (class_##N(get_u##N(w, in, 0, lane)) & get_u32(w, in, 1, lane)) mask |= 1ull << lane; \
        give(w, in, mask);                                                                       \
    }
CLASS(f32, 32)
CLASS(f64, 64)

static const Operation operations[] = {
#define X(how, T, get, number, C, holds) \
    {"v_cmp_" #how "_" #T, compare_##how##_##T, COMPARE, "", {#T, #T}},
    ALL(X)
#undef X
        {"v_cmp_class_f32", class_of_f32, COMPARE, "", {"f32", "u32"}},
    {"v_cmp_class_f64", class_of_f64, COMPARE, "", {"f64", "u32"}},
};

const Operation *amd_compare(const char *name) {
    char plain[64];
    if (strncmp(name, "v_cmp", 5) != 0) return NULL;
    snprintf(plain, sizeof plain, "v_cmp%s", name + (name[5] == 'x' ? 6 : 5));
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (strcmp(operations[i].name, plain) == 0) return &operations[i];
    return NULL;
}
