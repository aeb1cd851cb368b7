/* memory.h: reading and writing arrays.
 *
 * Storage is converted at the load and the store and nowhere else. The emitter asks for the
 * accesses it uses: LS_ACCESS(bf16, bf16, f32) gives ls_load_bf16 and ls_store_bf16. */

#define LS_ACCESS(name, storage, compute)                                    \
    LS_FN compute ls_load_##storage(const storage *data, i64 index) {        \
        return ls_unpack_##name(data[index]);                                \
    }                                                                        \
    LS_FN void ls_store_##storage(storage *data, i64 index, compute value) { \
        data[index] = ls_pack_##name(value);                                 \
    }

/* Costly functions of which there are many uses: LS_CALLED_1(tanh, f32) gives ls_called_tanh_f32,
 * of which there is one copy. */
#define LS_CALLED_1(name, type)                         \
    LS_OUTLINE type ls_called_##name##_##type(type a) { \
        return ls_##name##_##type(a);                   \
    }
#define LS_CALLED_2(name, type)                                 \
    LS_OUTLINE type ls_called_##name##_##type(type a, type b) { \
        return ls_##name##_##type(a, b);                        \
    }

/* a / b for 0 <= a, 0 <= b: in 32 bits when both fit, as they nearly always do. Of no use, but no
 * fault, where b is 0: of elements that do not exist. */
LS_FN i64 ls_divide(i64 a, i64 b) {
    const u64 divisor = (u64)b | (u64)(b == 0);
    return ((u64)a | divisor) >> 32 ? (i64)((u64)a / divisor) : (i64)((u32)a / (u32)divisor);
}

LS_FN i64 ls_min(i64 a, i64 b) {
    return a < b ? a : b;
}

LS_FN i64 ls_max(i64 a, i64 b) {
    return a > b ? a : b;
}

/* Parts of at most `size`: at least one. */
LS_FN i64 ls_parts(i64 n, i64 size) {
    return n <= size ? 1 : (n + size - 1) / size;
}

/* An item of a list's work: the tensor, and which of the tensor's items it is. */
typedef struct LS_ALIGN(16) ls_entry {
    i64 tensor, item;
} ls_entry;

/* Which of a list's items, in the order of tensors, is the first of a tensor. */
LS_FN i64 ls_first_of(const ls_entry *items, i64 count, i64 tensor) {
    i64 first = 0;
    while (count > 0) {
        const i64 half = count / 2;
        if (items[first + half].tensor < tensor)
            first += half + 1, count -= half + 1;
        else
            count = half;
    }
    return first;
}

/* Tiles of a run of n elements: at least one, so that nothing reduces to the identity. */
LS_FN i64 ls_tiles(i64 n) {
    return n <= 1024 ? 1 : (n + 1023) / 1024;
}

#define LS_MAX_I32 2147483647
#define LS_MAX_I64 9223372036854775807ll
