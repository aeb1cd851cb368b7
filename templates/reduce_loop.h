/* reduce_loop.h: the tree for one thread, over a tile in cache. Plain loops of fixed length over separate
 * buffers, which gcc and clang vectorise. */

/* Functions of a tile's size are called: inlined at every use they would only cost compile time. */
#define LS_CALLED static __attribute__((noinline, unused))

/* tile: values[count] up to a whole number of lanes is overwritten with the identity, so there must be
 * room for 1024. push_columns, columns: the binary counter of reduce.h for 64 columns side by side. */
#define LS_GROUP_REDUCTION(kind, type)                                                             \
    LS_CALLED type ls_tile_##kind(type *values, i64 count) {                                       \
        type lane[128], half[64], quarter[32];                                                     \
        if (count <= 16) {                                                                         \
            for (i64 left = count; left > 1; left = (left + 1) / 2) {                              \
                for (i64 i = 0; 2 * i + 1 < left; i++)                                             \
                    values[i] = ls_combine_##kind(values[2 * i], values[2 * i + 1]);               \
                if (left & 1) values[left / 2] = values[left - 1];                                 \
            }                                                                                      \
            return count ? values[0] : ls_identity_##kind();                                       \
        }                                                                                          \
        for (i64 i = count; i < (count <= 128 ? 128 : 1024); i++)                                  \
            values[i] = ls_identity_##kind();                                                      \
        if (count <= 128) {                                                                        \
            for (int l = 0; l < 128; l++) lane[l] = values[l];                                     \
        } else {                                                                                   \
            for (int l = 0; l < 128; l++) {                                                        \
                const type a = ls_combine_##kind(values[l], values[128 + l]);                      \
                const type b = ls_combine_##kind(values[256 + l], values[384 + l]);                \
                const type c = ls_combine_##kind(values[512 + l], values[640 + l]);                \
                const type d = ls_combine_##kind(values[768 + l], values[896 + l]);                \
                lane[l] = ls_combine_##kind(ls_combine_##kind(a, b), ls_combine_##kind(c, d));     \
            }                                                                                      \
        }                                                                                          \
        for (int l = 0; l < 64; l++) half[l] = ls_combine_##kind(lane[2 * l], lane[2 * l + 1]);    \
        for (int l = 0; l < 32; l++) quarter[l] = ls_combine_##kind(half[2 * l], half[2 * l + 1]); \
        for (int l = 0; l < 16; l++)                                                               \
            half[l] = ls_combine_##kind(quarter[2 * l], quarter[2 * l + 1]);                       \
        for (int l = 0; l < 8; l++) quarter[l] = ls_combine_##kind(half[2 * l], half[2 * l + 1]);  \
        for (int l = 0; l < 4; l++)                                                                \
            half[l] = ls_combine_##kind(quarter[2 * l], quarter[2 * l + 1]);                       \
        return ls_combine_##kind(ls_combine_##kind(half[0], half[1]),                              \
                                 ls_combine_##kind(half[2], half[3]));                             \
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
    LS_CALLED void ls_push_columns_##kind(type (*level)[64], int number, type *value, i64 width) { \
        int bit = 0;                                                                               \
        for (; number >> bit & 1; bit++)                                                           \
            for (i64 c = 0; c < width; c++) value[c] = ls_combine_##kind(level[bit][c], value[c]); \
        for (i64 c = 0; c < width; c++) level[bit][c] = value[c];                                  \
    }                                                                                              \
    LS_CALLED void ls_columns_##kind(type (*level)[64], int count, type *value, i64 width) {       \
        int started = 0;                                                                           \
        if (count == 0)                                                                            \
            for (i64 c = 0; c < width; c++) value[c] = ls_identity_##kind();                       \
        for (int bit = 0; count >> bit; bit++) {                                                   \
            if (!(count >> bit & 1)) continue;                                                     \
            for (i64 c = 0; c < width; c++)                                                        \
                value[c] = started ? ls_combine_##kind(level[bit][c], value[c]) : level[bit][c];   \
            started = 1;                                                                           \
        }                                                                                          \
    }

#define LS_ARG_SHUFFLE(kind, type)

/* Of `expected` workers that come here, says 1 to the last, who then sees everything the others wrote
 * before. The counter is 0 again for the next launch. */
LS_FN int ls_arrive(u32 *counter, u32 expected) {
    if (__atomic_add_fetch(counter, 1, __ATOMIC_ACQ_REL) != expected) return 0;
    *counter = 0;
    return 1;
}

/* A kernel's phases: one takes the items it is given; several run to their end one after another. */
#define LS_PHASE static inline
#define LS_RUN(phase) phase(a, first_item, last_item, workers);
#define LS_RUN_ALL(phase, items) phase(a, 0, (u64)(items), 1);
