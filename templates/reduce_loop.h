/* reduce_loop.h: the tree for one thread, over a tile in cache. Loops over separate buffers, of
 * fixed length or of whole vectors, which gcc and clang vectorise; where order matters, sums and
 * products, neighbours are combined by shuffles of whole vectors. */

/* Functions of a tile's size are called: inlined at every use they would only cost compile time. */
#define LS_CALLED static __attribute__((noinline, unused))

/* Before a loop of eight or fewer that is written out, so that the loop around it becomes vector
 * code. */
#ifdef __clang__
#define LS_UNROLLED _Pragma("clang loop unroll(full)")
#else
#define LS_UNROLLED _Pragma("GCC unroll 8")
#endif

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
#define LS_EVENS_f64(x, y) LS_MIXED(ls_mask_f64, x, y, 0, 2, 4, 6, 8, 10, 12, 14)
#define LS_ODDS_f64(x, y) LS_MIXED(ls_mask_f64, x, y, 1, 3, 5, 7, 9, 11, 13, 15)

/* How wide a row lies in a tile: the next power of two up to 512 elements, the whole tile beyond.
 */
LS_FN i64 ls_wide(i64 inner) {
    i64 wide = 1;
    if (inner > 512) return 1024;
    while (wide < inner) wide *= 2;
    return wide;
}

/* So many tiles in rows; of short ones whole sixteens, which no more than doubles 8 tiles. */
LS_FN i64 ls_rows_near(i64 tiles, i64 longest) {
    const i64 wide = ls_wide(longest), rows = tiles * (1024 / wide);
    return wide == 1024 ? rows : (rows + 15) / 16 * 16;
}

/* Sixteen neighbours, as they are in memory. */
#define ls_take_f32(data, index) (*(const ls_vector_f32 *)((data) + (index)))

/* Of lanes and short rows, by the kind.
 * pairs: neighbours of two vectors combined. rows: the values of `count` rows that lie `wide`
 * apart, each padded with the identity, end up in values[0 .. count); where a row is of several
 * 128, these are combined first, neighbours with neighbours. join: of the 1, 2, 4, 8 or 16 vectors
 * of a row one; join_rows: the values of the rows that 16 such vectors are. lane_tree: the value of
 * 128 lanes. */
#define LS_TREE_1(kind, type, combine) /* in order */                                        \
    LS_FN void ls_pairs_##kind(ls_vector_##type *to, const ls_vector_##type *x,              \
                               const ls_vector_##type *y) {                                  \
        const ls_vector_##type a = LS_EVENS_##type(*x, *y), b = LS_ODDS_##type(*x, *y);      \
        *to = combine;                                                                       \
    }                                                                                        \
    LS_FN void ls_neighbours_##kind(type *values, i64 left) {                                \
        enum { WIDTH = 64 / sizeof(type) };                                                  \
        for (i64 i = 0; i < left; i += 4 * WIDTH) {                                          \
            const ls_vector_##type *const from = (const ls_vector_##type *)(values + i);     \
            ls_vector_##type low, high;                                                      \
            ls_pairs_##kind(&low, &from[0], &from[1]);                                       \
            ls_pairs_##kind(&high, &from[2], &from[3]);                                      \
            ls_pairs_##kind((ls_vector_##type *)(values + i / 4), &low, &high);              \
        }                                                                                    \
    }                                                                                        \
    LS_FN void ls_both_##kind(ls_vector_##type *to, const ls_vector_##type *x,               \
                              const ls_vector_##type *y) {                                   \
        const ls_vector_##type a = *x, b = *y;                                               \
        *to = combine;                                                                       \
    }                                                                                        \
    LS_FN void ls_join_##kind(ls_vector_##type *of, int count, type *to) {                   \
        LS_UNROLLED                                                                          \
        for (int i = 0; count > 8 && i < 8; i++) ls_both_##kind(&of[i], &of[i], &of[8 + i]); \
        if (count > 4) {                                                                     \
            ls_pairs_##kind(&of[0], &of[0], &of[1]);                                         \
            ls_pairs_##kind(&of[1], &of[2], &of[3]);                                         \
            ls_pairs_##kind(&of[2], &of[4], &of[5]);                                         \
            ls_pairs_##kind(&of[3], &of[6], &of[7]);                                         \
        }                                                                                    \
        if (count > 2) {                                                                     \
            ls_pairs_##kind(&of[0], &of[0], &of[1]);                                         \
            ls_pairs_##kind(&of[1], &of[2], &of[3]);                                         \
        }                                                                                    \
        if (count > 1) ls_pairs_##kind(&of[0], &of[0], &of[1]);                              \
        *(ls_vector_##type *)to = of[0];                                                     \
    }                                                                                        \
    LS_FN void ls_join_rows_##kind(type *values) {                                           \
        ls_neighbours_##kind(values, 256);                                                   \
        ls_neighbours_##kind(values, 64);                                                    \
    }                                                                                        \
    LS_FN type ls_lane_tree_##kind(const type *lane) {                                       \
        enum { WIDTH = 64 / sizeof(type), COUNT = 128 / WIDTH };                             \
        const ls_vector_##type *const from = (const ls_vector_##type *)lane;                 \
        ls_vector_##type half[COUNT / 2], quarter[COUNT / 4], all;                           \
        LS_UNROLLED                                                                          \
        for (int i = 0; i < COUNT / 2; i++)                                                  \
            ls_pairs_##kind(&half[i], &from[2 * i], &from[2 * i + 1]);                       \
        LS_UNROLLED                                                                          \
        for (int i = 0; i < COUNT / 4; i++)                                                  \
            ls_pairs_##kind(&quarter[i], &half[2 * i], &half[2 * i + 1]);                    \
        LS_UNROLLED                                                                          \
        for (int i = 0; i < COUNT / 8; i++)                                                  \
            ls_pairs_##kind(&half[i], &quarter[2 * i], &quarter[2 * i + 1]);                 \
        all = half[0];                                                                       \
        if (COUNT == 16) ls_pairs_##kind(&all, &half[0], &half[1]);                          \
        LS_UNROLLED                                                                          \
        for (int i = 1; i < WIDTH; i *= 2) ls_pairs_##kind(&all, &all, &all);                \
        return all[0];                                                                       \
    }

#define LS_TREE_0(kind, type, combine) /* in any order */                                   \
    LS_FN void ls_neighbours_##kind(type *values, i64 left) {                               \
        type half[512] LS_ALIGN(64);                                                        \
        for (i64 i = 0; i < left / 2; i++)                                                  \
            half[i] = ls_combine_##kind(values[2 * i], values[2 * i + 1]);                  \
        for (i64 i = 0; i < left / 4; i++)                                                  \
            values[i] = ls_combine_##kind(half[2 * i], half[2 * i + 1]);                    \
    }                                                                                       \
    LS_FN type ls_lane_tree_##kind(const type *lane) {                                      \
        type some[16], value;                                                               \
        for (int l = 0; l < 16; l++) some[l] = lane[l];                                     \
        for (int i = 16; i < 128; i += 16)                                                  \
            for (int l = 0; l < 16; l++) some[l] = ls_combine_##kind(some[l], lane[i + l]); \
        value = some[0];                                                                    \
        for (int l = 1; l < 16; l++) value = ls_combine_##kind(value, some[l]);             \
        return value;                                                                       \
    }

/* eight: of a lane's rows. tile: of one row; values[count .. 1024) is overwritten with the
 * identity. gather: of values that stay; tile_alone: of values[0], values[stride], ...; tree: R of
 * any count, the higher levels written behind them. push_columns: the binary counter of reduce.h
 * for 64 columns side by side; all 64 are added, also those past the last column. columns: where
 * the value of `count` numbers stands, level or scratch. */
#define LS_GROUP_REDUCTION(kind, type, combine, ordered)                                    \
    LS_TREE_##ordered(kind, type, combine) LS_FN type ls_four_##kind(const type *value) {   \
        return ls_combine_##kind(ls_combine_##kind(value[0], value[1]),                     \
                                 ls_combine_##kind(value[2], value[3]));                    \
    }                                                                                       \
    LS_FN type ls_eight_##kind(const type *value) {                                         \
        const type a = ls_combine_##kind(value[0], value[1]);                               \
        const type b = ls_combine_##kind(value[2], value[3]);                               \
        const type c = ls_combine_##kind(value[4], value[5]);                               \
        const type d = ls_combine_##kind(value[6], value[7]);                               \
        return ls_combine_##kind(ls_combine_##kind(a, b), ls_combine_##kind(c, d));         \
    }                                                                                       \
    LS_CALLED void ls_rows_##kind(type *values, i64 count, i64 wide) {                      \
        type half[512] LS_ALIGN(64);                                                        \
        i64 left = count * wide;                                                            \
        for (; wide > 128; wide /= 2, left /= 2) {                                          \
            for (i64 i = 0; i < left / 256; i++) {                                          \
                const type *const two = values + 256 * i;                                   \
                LS_APART                                                                    \
                for (int l = 0; l < 128; l++)                                               \
                    values[128 * i + l] = ls_combine_##kind(two[l], two[128 + l]);          \
            }                                                                               \
        }                                                                                   \
        for (; wide >= 4; wide /= 4, left /= 4) ls_neighbours_##kind(values, left);         \
        if (wide == 1) return;                                                              \
        for (i64 i = 0; i < left / 2; i++)                                                  \
            half[i] = ls_combine_##kind(values[2 * i], values[2 * i + 1]);                  \
        for (i64 i = 0; i < left / 2; i++) values[i] = half[i];                             \
    }                                                                                       \
    LS_CALLED type ls_tile_##kind(type *values, i64 count) {                                \
        type lane[128] LS_ALIGN(64);                                                        \
        for (i64 i = count; i < (count <= 128 ? 128 : 1024); i++)                           \
            values[i] = ls_identity_##kind();                                               \
        if (count <= 128) return ls_lane_tree_##kind(values);                               \
        for (int l = 0; l < 128; l++) {                                                     \
            type value[8];                                                                  \
            LS_UNROLLED                                                                     \
            for (int row = 0; row < 8; row++) value[row] = values[128 * row + l];           \
            lane[l] = ls_eight_##kind(value);                                               \
        }                                                                                   \
        return ls_lane_tree_##kind(lane);                                                   \
    }                                                                                       \
    LS_CALLED type ls_gather_##kind(const type *values, i64 count) {                        \
        type copy[1024] LS_ALIGN(64);                                                       \
        for (i64 i = 0; i < count; i++) copy[i] = values[i];                                \
        return ls_tile_##kind(copy, count);                                                 \
    }                                                                                       \
    LS_CALLED type ls_tile_alone_##kind(const type *values, i64 count, i64 stride) {        \
        type copy[1024] LS_ALIGN(64);                                                       \
        for (i64 i = 0; i < count; i++) copy[i] = values[i * stride];                       \
        return ls_tile_##kind(copy, count);                                                 \
    }                                                                                       \
    LS_CALLED type ls_tree_alone_##kind(type *values, i64 count, i64 stride);               \
    LS_CALLED type ls_tree_##kind(type *values, i64 count) {                                \
        return ls_tree_alone_##kind(values, count, 1);                                      \
    }                                                                                       \
    LS_FN void ls_add_columns_##kind(type *to, const type *a, const type *b) {              \
        for (int c = 0; c < 64; c++) to[c] = ls_combine_##kind(a[c], b[c]);                 \
    }                                                                                       \
    LS_FN void ls_push_columns_##kind(type(*level)[64], int number, const type *value) {    \
        type sum[64] LS_ALIGN(64);                                                          \
        int bit = 1;                                                                        \
        if (!(number & 1)) {                                                                \
            for (int c = 0; c < 64; c++) level[0][c] = value[c];                            \
            return;                                                                         \
        }                                                                                   \
        if (!(number & 2)) {                                                                \
            ls_add_columns_##kind(level[1], level[0], value);                               \
            return;                                                                         \
        }                                                                                   \
        ls_add_columns_##kind(sum, level[0], value);                                        \
        for (; number >> (bit + 1) & 1; bit++) ls_add_columns_##kind(sum, level[bit], sum); \
        ls_add_columns_##kind(level[bit + 1], level[bit], sum);                             \
    }                                                                                       \
    LS_CALLED const type *ls_columns_##kind(type(*level)[64], int count, type *scratch) {   \
        int bit = 0;                                                                        \
        if (count == 0)                                                                     \
            for (int c = 0; c < 64; c++) scratch[c] = ls_identity_##kind();                 \
        if (count == 0) return scratch;                                                     \
        while (!(count >> bit & 1)) bit++;                                                  \
        if (count >> bit == 1) return level[bit];                                           \
        for (int c = 0; c < 64; c++) scratch[c] = level[bit][c];                            \
        while (count >> ++bit)                                                              \
            if (count >> bit & 1) ls_add_columns_##kind(scratch, level[bit], scratch);      \
        return scratch;                                                                     \
    }

/* Of whole tiles, in any order, the greatest or least of a lane's eight and of the lanes, without
 * what rarely matters: a NaN may get lost, or stay, and of two zeros it is either. odd: whether one
 * of the eight is a NaN. */
#define LS_QUICK(kind, type, better)                                                  \
    LS_FN type ls_better_##kind(type a, type b) {                                     \
        return a better b ? a : b;                                                    \
    }                                                                                 \
    LS_FN type ls_quick_##kind(const type *value) {                                   \
        const type a = ls_better_##kind(value[0], value[1]);                          \
        const type b = ls_better_##kind(value[2], value[3]);                          \
        const type c = ls_better_##kind(value[4], value[5]);                          \
        const type d = ls_better_##kind(value[6], value[7]);                          \
        return ls_better_##kind(ls_better_##kind(a, b), ls_better_##kind(c, d));      \
    }                                                                                 \
    LS_FN type ls_lane_quick_##kind(const type *lane) {                               \
        type some[16] LS_ALIGN(64);                                                   \
        for (int l = 0; l < 16; l++) {                                                \
            type eight[8];                                                            \
            LS_UNROLLED                                                               \
            for (int i = 0; i < 8; i++) eight[i] = lane[16 * i + l];                  \
            some[l] = ls_quick_##kind(eight);                                         \
        }                                                                             \
        for (int l = 0; l < 8; l++) some[l] = ls_better_##kind(some[l], some[8 + l]); \
        return ls_quick_##kind(some);                                                 \
    }
#define LS_ODD(type)                                                  \
    LS_FN int ls_odd_##type(const type *value) {                      \
        const int a = __builtin_isunordered(value[0], value[1]);      \
        const int b = __builtin_isunordered(value[2], value[3]);      \
        const int c = __builtin_isunordered(value[4], value[5]);      \
        return a | b | c | __builtin_isunordered(value[6], value[7]); \
    }

/* Of `expected` workers that come here, says 1 to the last, who then sees everything the others
 * wrote before. The counter is 0 again for the next launch. */
LS_FN int ls_arrive(u32 *counter, u32 expected) {
    if (__atomic_add_fetch(counter, 1, __ATOMIC_ACQ_REL) != expected) return 0;
    *counter = 0;
    return 1;
}
