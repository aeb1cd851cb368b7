/* storage.c: elements of arrays of the host as compute values, and back, by the device functions of
 * templates/ themselves: what a load gives and what a store leaves. */
#include "base/base.h"
#include "ir/ir.h"

#include "prelude.c"
#include "integer.h"
#include "convert.h"

/* The macro of stdbool.h would turn ls_pack_bool pasted together into something else. */
#undef bool
typedef _Bool bool;

#define FLOAT_BITS(x) ls_bits_f32(x)
#define F64_BITS(x) ls_bits_f64(x)
#define I64_BITS(x) ((uint64_t)(x))
#define I32_BITS(x) ((u32)(x))
#define U64_OF(bits) (bits)
#define U64_BITS(x) (x)
#define U32_OF(bits) ((u32)(bits))
#define U32_BITS(x) (x)
#define BOOL_OF(bits) ((int)(bits))
#define BOOL_BITS(x) ((x) != 0)
#define FLOAT_OF(bits) ls_from_bits_f32((u32)(bits))
#define F64_OF(bits) ls_from_bits_f64(bits)
#define I64_OF(bits) ((i64)(bits))
#define I32_OF(bits) ((i32)(u32)(bits))

/* X(id, spelling, C spelling, how a compute value lies in 64 bits) */
#define STORAGE_TYPES(X)       \
    X(F64, f64, f64, F64)      \
    X(F32, f32, f32, FLOAT)    \
    X(I64, i64, i64, I64)      \
    X(I32, i32, i32, I32)      \
    X(U64, u64, u64, U64)      \
    X(U32, u32, u32, U32)      \
    X(BOOL, bool, bool8, BOOL) \
    X(F16, f16, f16, FLOAT)    \
    X(BF16, bf16, bf16, FLOAT) \
    X(E4M3, e4m3, e4m3, FLOAT) \
    X(E5M2, e5m2, e5m2, FLOAT) \
    X(I16, i16, i16, I32)      \
    X(I8, i8, i8, I32)         \
    X(U16, u16, u16, I32)      \
    X(U8, u8, u8, I32)

#define ELEMENT(id, name, c, bits)                                       \
    static uint64_t load_##id(const void *array, int64_t index) {        \
        return bits##_BITS(ls_unpack_##name(((const c *)array)[index])); \
    }                                                                    \
    static void store_##id(void *array, int64_t index, uint64_t value) { \
        ((c *)array)[index] = (c)ls_pack_##name(bits##_OF(value));       \
    }
STORAGE_TYPES(ELEMENT)

static const struct {
    uint64_t (*load)(const void *array, int64_t index);
    void (*store)(void *array, int64_t index, uint64_t value);
} elements[TYPE_COUNT] = {
#define ROW(id, name, c, bits) [TYPE_##id] = {load_##id, store_##id},
    STORAGE_TYPES(ROW)
#undef ROW
};

uint64_t ir_load(Type storage, const void *array, int64_t index) {
    return elements[storage].load(array, index);
}

void ir_store_element(Type storage, void *array, int64_t index, uint64_t value) {
    elements[storage].store(array, index, value);
}
