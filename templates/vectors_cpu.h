/* vectors_cpu.h: sixteen elements at a time, for one thread: vectors of the language, how they come
 * from f32 and bf16 in memory and go there, and the leaves of trees that are made of them. */

/* 64 bytes, wherever they lie. */
typedef f32 ls_vector_f32 __attribute__((vector_size(64), aligned(4), may_alias));
typedef f64 ls_vector_f64 __attribute__((vector_size(64), aligned(8), may_alias));
#if defined(__clang__) || __GNUC__ >= 12
#define LS_MIXED(mask, x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define LS_MIXED(mask, x, y, ...) __builtin_shuffle(x, y, (mask){__VA_ARGS__})
typedef i32 ls_mask_f32 __attribute__((vector_size(64)));
typedef i64 ls_mask_f64 __attribute__((vector_size(64)));
#endif
#define LS_EVENS_f32(x, y) \
    LS_MIXED(ls_mask_f32, x, y, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define LS_ODDS_f32(x, y) \
    LS_MIXED(ls_mask_f32, x, y, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
/* The same within each 16 bytes, and of 16 bytes at a time; and four elements. */
#define LS_QUAD_EVENS_f32(x, y) \
    LS_MIXED(ls_mask_f32, x, y, 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30)
#define LS_QUAD_ODDS_f32(x, y) \
    LS_MIXED(ls_mask_f32, x, y, 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31)
#define LS_EVEN_QUADS_f32(x, y) \
    LS_MIXED(ls_mask_f32, x, y, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27)
#define LS_ODD_QUADS_f32(x, y) \
    LS_MIXED(ls_mask_f32, x, y, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31)
#define LS_FOUR_f32(x, a, b, c, d) \
    LS_MIXED(ls_mask_f32, x, x, a, b, c, d, a, b, c, d, a, b, c, d, a, b, c, d)
#define LS_EVENS_f64(x, y) LS_MIXED(ls_mask_f64, x, y, 0, 2, 4, 6, 8, 10, 12, 14)
#define LS_ODDS_f64(x, y) LS_MIXED(ls_mask_f64, x, y, 1, 3, 5, 7, 9, 11, 13, 15)

/* The value in each of sixteen lanes. */
LS_FN ls_vector_f32 ls_all_f32(f32 value) {
    const ls_vector_f32 zeros = {0};
    return value - zeros;
}

/* Sixteen elements that lie side by side, of which the first `left` are there; 0 stands for the
 * others, whose memory is not touched. only: x, but `other` beyond the first `left`. */
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
typedef i16 ls_half_i16 __attribute__((vector_size(32)));
LS_FN u16 ls_mask_of(i64 left) {
    return left >= 16 ? 0xffff : left <= 0 ? 0 : (u16)((1u << left) - 1);
}
LS_FN ls_vector_f32 ls_masked_f32(const f32 *from, i64 left) {
    const ls_vector_f32 none = {0};
    return __builtin_ia32_loadups512_mask(from, none, ls_mask_of(left));
}
LS_FN ls_vector_f32 ls_select_first_f32(ls_vector_f32 x, i64 left, f32 other) {
    const ls_vector_f32 others = ls_all_f32(other);
#ifdef __clang__
    return __builtin_ia32_selectps_512(ls_mask_of(left), x, others);
#else
    return __builtin_ia32_blendmps_512_mask(others, x, ls_mask_of(left));
#endif
}
#else
LS_FN ls_vector_f32 ls_masked_f32(const f32 *from, i64 left) {
    f32 some[16] LS_ALIGN(64) = {0};
    for (i64 i = 0; i < left; i++) some[i] = from[i];
    return *(const ls_vector_f32 *)some;
}
LS_FN ls_vector_f32 ls_select_first_f32(ls_vector_f32 x, i64 left, f32 other) {
    f32 only[16] LS_ALIGN(64);
    *(ls_vector_f32 *)only = x;
    for (i64 i = left < 0 ? 0 : left; i < 16; i++) only[i] = other;
    return *(const ls_vector_f32 *)only;
}
#endif

/* Which elements a vector has: sixteen neighbours; or of 32 neighbours those whose number is even,
 * or odd. Two of bf16 are 32 bits, so that such vectors take one operation each; and where the one
 * is combined with the other, neighbours are, without a shuffle. `left` is of all 16 or 32. */
enum { LS_NEIGHBOURS, LS_EVENS, LS_ODDS };
LS_FN i64 ls_left_of(i64 left, int which) {
    return which == LS_NEIGHBOURS ? left : (left + (which == LS_EVENS)) >> 1;
}
LS_FN ls_vector_f32 ls_take_f32(const f32 *from, i64 left, int which) {
    const ls_vector_f32 low = left >= 16 ? *(const ls_vector_f32 *)from : ls_masked_f32(from, left);
    if (which == LS_NEIGHBOURS) return low;
    const ls_vector_f32 high =
        left >= 32 ? *(const ls_vector_f32 *)(from + 16) : ls_masked_f32(from + 16, left - 16);
    return which == LS_EVENS ? LS_EVENS_f32(low, high) : LS_ODDS_f32(low, high);
}

/* The same of bf16, which are the upper halves of f32. */
typedef u16 ls_vector_bf16 __attribute__((vector_size(32), aligned(2), may_alias));
typedef u32 ls_vector_u32 __attribute__((vector_size(64)));
typedef u32 ls_pairs_bf16 __attribute__((vector_size(64), aligned(2), may_alias));
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
typedef i16 ls_whole_i16 __attribute__((vector_size(64)));
#ifdef __clang__
#define LS_MASKED_AT(from, vector) ((const vector *)(const void *)(from))
#else
#define LS_MASKED_AT(from, vector) ((const i16 *)(from))
#endif
LS_FN ls_vector_bf16 ls_masked_bf16(const bf16 *from, i64 left) {
    const ls_half_i16 none = {0};
    return (ls_vector_bf16)__builtin_ia32_loaddquhi256_mask(LS_MASKED_AT(from, ls_half_i16), none,
                                                            ls_mask_of(left));
}
LS_FN ls_vector_u32 ls_masked_pairs_bf16(const bf16 *from, i64 left) {
    const ls_whole_i16 none = {0};
    const u32 mask = left <= 0 ? 0 : (u32)((1ull << left) - 1);
    return (ls_vector_u32)__builtin_ia32_loaddquhi512_mask(LS_MASKED_AT(from, ls_whole_i16), none,
                                                           mask);
}
#else
LS_FN ls_vector_bf16 ls_masked_bf16(const bf16 *from, i64 left) {
    ls_vector_bf16 some = {0};
    if (left > 0) __builtin_memcpy(&some, from, (u64)left * sizeof *from);
    return some;
}
LS_FN ls_vector_u32 ls_masked_pairs_bf16(const bf16 *from, i64 left) {
    ls_vector_u32 some = {0};
    if (left > 0) __builtin_memcpy(&some, from, (u64)left * sizeof *from);
    return some;
}
#endif
LS_FN ls_vector_f32 ls_take_bf16(const bf16 *from, i64 left, int which) {
    if (which == LS_NEIGHBOURS) {
        ls_vector_bf16 some = {0};
        if (left >= 16)
            some = *(const ls_vector_bf16 *)from;
        else
            some = ls_masked_bf16(from, left);
        return (ls_vector_f32)(__builtin_convertvector(some, ls_vector_u32) << 16);
    }
    ls_vector_u32 pairs = {0};
    if (left >= 32)
        pairs = *(const ls_pairs_bf16 *)from;
    else
        pairs = ls_masked_pairs_bf16(from, left);
    return (ls_vector_f32)(which == LS_EVENS ? pairs << 16 : pairs & 0xffff0000u);
}

/* The lesser and the greater of two lanes, as ls_min_f32 and ls_max_f32 have them. */
typedef i32 ls_vector_i32 __attribute__((vector_size(64)));
LS_FN ls_vector_f32 ls_choose_f32(ls_vector_i32 first, ls_vector_f32 a, ls_vector_f32 b) {
    return (ls_vector_f32)((first & (ls_vector_i32)a) | (~first & (ls_vector_i32)b));
}
LS_FN ls_vector_f32 ls_vectors_min_f32(ls_vector_f32 a, ls_vector_f32 b) {
    const ls_vector_f32 zero = (ls_vector_f32)((ls_vector_i32)a | (ls_vector_i32)b);
    return ls_choose_f32(a == a, ls_choose_f32(a == b, zero, ls_choose_f32(a < b, a, b)), a);
}
LS_FN ls_vector_f32 ls_vectors_max_f32(ls_vector_f32 a, ls_vector_f32 b) {
    const ls_vector_f32 zero = (ls_vector_f32)((ls_vector_i32)a & (ls_vector_i32)b);
    return ls_choose_f32(a == a, ls_choose_f32(a == b, zero, ls_choose_f32(a > b, a, b)), a);
}

/* The leaves of up to LS_TREES trees, sixteen of row r from `at` on, of which `left` are there, or
 * the even or odd ones of 32; of columns what is stored of them behind the leaves, and the function
 * of their stores. */
enum { LS_TREES = 8 };
typedef void ls_leaves_f32(const void *of, i64 r, i64 at, i64 left, int which, ls_vector_f32 *leaf);
LS_FN void ls_no_stores_f32(const void *of, i64 r, i64 at, i64 left, int which,
                            ls_vector_f32 *leaf) {
    (void)of, (void)r, (void)at, (void)left, (void)which, (void)leaf;
}
/* Stores the first `left` elements. */
#define LS_PUT(storage, to, left, values)                                         \
    do {                                                                          \
        f32 put[16] LS_ALIGN(64);                                                 \
        storage *const put_to = to;                                               \
        *(ls_vector_f32 *)put = values;                                           \
        if (left >= 16)                                                           \
            for (int i = 0; i < 16; i++) ls_store_##storage(put_to, i, put[i]);   \
        else                                                                      \
            for (i64 i = 0; i < left; i++) ls_store_##storage(put_to, i, put[i]); \
    } while (0)
/* Leaves that lie in memory, in rows so far from each other. */
struct ls_rows_f32 {
    const f32 *values;
    i64 pitch;
};
LS_FN void ls_memory_f32(const void *of, i64 r, i64 at, i64 left, int which, ls_vector_f32 *leaf) {
    const struct ls_rows_f32 *const rows = (const struct ls_rows_f32 *)of;
    *leaf = ls_take_f32(rows->values + rows->pitch * r + at, left, which);
}
