/* memory_simt.h: four neighbours at once. LS_ACCESS_FOUR(bf16, f32) gives ls_load4_bf16 and
 * ls_store4_bf16: one access of 4 * sizeof(storage) bytes (two of 16 for 8-byte types) where all four
 * are live and the address is a multiple of that; element by element otherwise. Dead ones read as 0 and
 * are not written. */
#define LS_ACCESS_FOUR(storage, compute)                                                           \
    struct ls_four_##storage {                                                                     \
        compute at[4];                                                                             \
    };                                                                                             \
    struct LS_ALIGN(4 * sizeof(storage) < 16 ? 4 * sizeof(storage) : 16) ls_raw_##storage {        \
        storage at[4];                                                                             \
    };                                                                                             \
    LS_FN int ls_whole_##storage(const storage *data, i64 index, i64 live) {                       \
        return live >= 4 && ((u64)(data + index) & (alignof(ls_raw_##storage) - 1)) == 0;          \
    }                                                                                              \
    LS_FN ls_four_##storage ls_load4_##storage(const storage *data, i64 index, i64 live) {         \
        ls_raw_##storage raw;                                                                      \
        ls_four_##storage four;                                                                    \
        if (ls_whole_##storage(data, index, live)) {                                               \
            raw = *(const ls_raw_##storage *)(data + index);                                       \
        } else {                                                                                   \
            LS_UNROLL                                                                              \
            for (int e = 0; e < 4; e++) raw.at[e] = e < live ? data[index + e] : (storage)0;       \
        }                                                                                          \
        LS_UNROLL                                                                                  \
        for (int e = 0; e < 4; e++) four.at[e] = ls_unpack_##storage(raw.at[e]);                   \
        return four;                                                                               \
    }                                                                                              \
    LS_FN void ls_store4_##storage(storage *data, i64 index, i64 live,                             \
                                   const ls_four_##storage &four) {                                \
        ls_raw_##storage raw;                                                                      \
        LS_UNROLL                                                                                  \
        for (int e = 0; e < 4; e++) raw.at[e] = ls_pack_##storage(four.at[e]);                     \
        if (ls_whole_##storage(data, index, live)) {                                               \
            *(ls_raw_##storage *)(data + index) = raw;                                             \
        } else {                                                                                   \
            LS_UNROLL                                                                              \
            for (int e = 0; e < 4; e++)                                                            \
                if (e < live) data[index + e] = raw.at[e];                                         \
        }                                                                                          \
    }
