/* reduce_loop.h: the tree for one thread, over a tile in cache. Plain loops of fixed length over separate
 * buffers, which gcc and clang vectorise. */

/* Functions of a tile's size are called: inlined at every use they would only cost compile time. */
#define LS_CALLED static __attribute__((noinline, unused))

/* How wide a row lies in a tile: the next power of two up to 512 elements, the whole tile beyond. */
LS_FN i64 ls_wide(i64 inner) {
    i64 wide = 1;
    if (inner > 512) return 1024;
    while (wide < inner) wide *= 2;
    return wide;
}

/* How many elements of its row the tile of an item has. */
LS_FN i64 ls_live(i64 item, i64 inner, i64 tiles) {
    return ls_least(1024, inner - 1024 * (item % tiles));
}

/* rows: the values of `count` rows that lie `wide` apart, each padded with the identity, end up in
 * values[0 .. count); where a row is of several 128, these are combined first, neighbours with
 * neighbours. tile: of one row; values[count .. 1024) is overwritten with the identity.
 * gather: of values that stay; tile_alone: of values[0], values[stride], ...; tree: R of any count, the
 * higher levels written behind them. push_columns: the binary counter of reduce.h for 64 columns side by
 * side; an even number is written to level[0] by the caller; all 64 are added, also those past the last
 * column. columns: where the value of `count` numbers stands, level or scratch. */
#define LS_GROUP_REDUCTION(kind, type)                                                             \
    LS_CALLED void ls_rows_##kind(type *values, i64 count, i64 wide) {                             \
        type half[512];                                                                            \
        i64 left = count * wide;                                                                   \
        for (; wide > 128; wide /= 2, left /= 2) {                                                 \
            for (i64 i = 0; i < left / 256; i++) {                                                 \
                const type *const two = values + 256 * i;                                          \
                for (int l = 0; l < 128; l++)                                                      \
                    values[128 * i + l] = ls_combine_##kind(two[l], two[128 + l]);                 \
            }                                                                                      \
        }                                                                                          \
        for (; wide >= 4; wide /= 4, left /= 4) {                                                  \
            for (i64 i = 0; i < left / 2; i++)                                                     \
                half[i] = ls_combine_##kind(values[2 * i], values[2 * i + 1]);                     \
            for (i64 i = 0; i < left / 4; i++)                                                     \
                values[i] = ls_combine_##kind(half[2 * i], half[2 * i + 1]);                       \
        }                                                                                          \
        if (wide == 1) return;                                                                     \
        for (i64 i = 0; i < left / 2; i++)                                                         \
            half[i] = ls_combine_##kind(values[2 * i], values[2 * i + 1]);                         \
        for (i64 i = 0; i < left / 2; i++) values[i] = half[i];                                    \
    }                                                                                              \
    LS_CALLED type ls_tile_##kind(type *values, i64 count) {                                       \
        type lane[128];                                                                            \
        for (i64 i = count; i < (count <= 128 ? 128 : 1024); i++)                                  \
            values[i] = ls_identity_##kind();                                                      \
        if (count <= 128) {                                                                        \
            ls_rows_##kind(values, 1, 128);                                                        \
            return values[0];                                                                      \
        }                                                                                          \
        for (int l = 0; l < 128; l++) {                                                            \
            const type a = ls_combine_##kind(values[l], values[128 + l]);                          \
            const type b = ls_combine_##kind(values[256 + l], values[384 + l]);                    \
            const type c = ls_combine_##kind(values[512 + l], values[640 + l]);                    \
            const type d = ls_combine_##kind(values[768 + l], values[896 + l]);                    \
            lane[l] = ls_combine_##kind(ls_combine_##kind(a, b), ls_combine_##kind(c, d));         \
        }                                                                                          \
        ls_rows_##kind(lane, 1, 128);                                                              \
        return lane[0];                                                                            \
    }                                                                                              \
    LS_CALLED type ls_gather_##kind(const type *values, i64 count) {                               \
        type copy[1024];                                                                           \
        for (i64 i = 0; i < count; i++) copy[i] = values[i];                                       \
        return ls_tile_##kind(copy, count);                                                        \
    }                                                                                              \
    LS_CALLED type ls_tile_alone_##kind(const type *values, i64 count, i64 stride) {               \
        type copy[1024];                                                                           \
        for (i64 i = 0; i < count; i++) copy[i] = values[i * stride];                              \
        return ls_tile_##kind(copy, count);                                                        \
    }                                                                                              \
    LS_CALLED type ls_tree_alone_##kind(type *values, i64 count, i64 stride);                      \
    LS_CALLED type ls_tree_##kind(type *values, i64 count) {                                       \
        return ls_tree_alone_##kind(values, count, 1);                                             \
    }                                                                                              \
    LS_FN void ls_add_columns_##kind(type *to, const type *a, const type *b) {                     \
        for (int c = 0; c < 64; c++) to[c] = ls_combine_##kind(a[c], b[c]);                        \
    }                                                                                              \
    LS_FN void ls_push_columns_##kind(type (*level)[64], int number, const type *value) {          \
        type sum[64];                                                                              \
        int bit = 1;                                                                               \
        if (!(number & 1)) return;                                                                 \
        if (!(number & 2)) {                                                                       \
            ls_add_columns_##kind(level[1], level[0], value);                                      \
            return;                                                                                \
        }                                                                                          \
        ls_add_columns_##kind(sum, level[0], value);                                               \
        for (; number >> (bit + 1) & 1; bit++) ls_add_columns_##kind(sum, level[bit], sum);        \
        ls_add_columns_##kind(level[bit + 1], level[bit], sum);                                    \
    }                                                                                              \
    LS_CALLED const type *ls_columns_##kind(type (*level)[64], int count, type *scratch) {         \
        int bit = 0;                                                                               \
        if (count == 0)                                                                            \
            for (int c = 0; c < 64; c++) scratch[c] = ls_identity_##kind();                        \
        if (count == 0) return scratch;                                                            \
        while (!(count >> bit & 1)) bit++;                                                         \
        if (count >> bit == 1) return level[bit];                                                  \
        for (int c = 0; c < 64; c++) scratch[c] = level[bit][c];                                   \
        while (count >> ++bit)                                                                     \
            if (count >> bit & 1) ls_add_columns_##kind(scratch, level[bit], scratch);             \
        return scratch;                                                                            \
    }

#define LS_ARG_SHUFFLE(kind, type)

/* Of `expected` workers that come here, says 1 to the last, who then sees everything the others wrote
 * before. The counter is 0 again for the next launch. */
LS_FN int ls_arrive(u32 *counter, u32 expected) {
    if (__atomic_add_fetch(counter, 1, __ATOMIC_ACQ_REL) != expected) return 0;
    *counter = 0;
    return 1;
}
