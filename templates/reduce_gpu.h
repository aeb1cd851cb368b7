/* reduce_gpu.h: the tree over a warp, 32 lanes, each with four neighbouring elements of every
 * row. Addition commutes, so in the butterfly every lane gets the same bits. A wave of 64 holds
 * two. Levels begin as 0, though none is read before it is written: what a loop has not surely
 * written would hold a register, as far as a compiler can tell, from one row to the next. */

#define LS_CALLED LS_FN /* a call would cost a GPU more than it saves */

/* warp: the value of 32 lanes' values, on every lane. halves: of eight neighbouring columns for
 * each of 16 lanes, of which the lower half of the lanes has the first rows and the upper half the
 * last: each half joins the rows of four of its columns, then these. tile: the tile's value, from
 * the lanes' four columns of rows; gather: the same from memory, a row's loads at once (those of
 * two rows took a list's norms from 64 registers to 72); tree: R of any count of values in memory,
 * which it writes over where there are more than 1024 and order matters. tile_alone is one
 * thread's, of values[0], values[stride], ..., eight loads at once where there are up to 128. */
#define LS_WARP_REDUCTION(kind, type, combine, ordered)                                        \
    LS_FN type ls_warp_##kind(type value) {                                                    \
        LS_UNROLL                                                                              \
        for (int mask = 1; mask < 32; mask *= 2)                                               \
            value = ls_combine_##kind(value, ls_shuffle_xor(value, (u32)mask));                \
        return value;                                                                          \
    }                                                                                          \
    LS_FN type ls_halves_##kind(const type *values) {                                          \
        const int upper = (int)ls_lane() & 16;                                                 \
        type own[4];                                                                           \
        if (!(ordered)) {                                                                      \
            type all = values[0];                                                              \
            LS_UNROLL                                                                          \
            for (int e = 1; e < 8; e++) all = ls_combine_##kind(all, values[e]);               \
            return ls_warp_##kind(all);                                                        \
        }                                                                                      \
        LS_UNROLL                                                                              \
        for (int e = 0; e < 4; e++) {                                                          \
            const type given = upper ? values[e] : values[e + 4];                              \
            const type kept = upper ? values[e + 4] : values[e];                               \
            own[e] = ls_combine_##kind(kept, ls_shuffle_xor(given, 16u));                      \
        }                                                                                      \
        type value = ls_combine_##kind(ls_combine_##kind(own[0], own[1]),                      \
                                       ls_combine_##kind(own[2], own[3]));                     \
        value = ls_combine_##kind(value, ls_shuffle_xor(value, 16u));                          \
        LS_UNROLL                                                                              \
        for (int mask = 1; mask < 16; mask *= 2)                                               \
            value = ls_combine_##kind(value, ls_shuffle_xor(value, (u32)mask));                \
        return value;                                                                          \
    }                                                                                          \
    LS_FN type ls_tile_##kind(type(*level)[4]) {                                               \
        return ls_warp_##kind(ls_combine_##kind(ls_combine_##kind(level[0][3], level[1][3]),   \
                                                ls_combine_##kind(level[2][3], level[3][3]))); \
    }                                                                                          \
    LS_FN type ls_gather_##kind(const type *values, i64 count) {                               \
        type level[4][4] = {};                                                                 \
        LS_ROLLED                                                                              \
        for (int row = 0; row < 8; row++) {                                                    \
            const i64 i = 128 * row + 4 * (i64)ls_lane();                                      \
            type loaded[4];                                                                    \
            LS_UNROLL                                                                          \
            for (int e = 0; e < 4; e++)                                                        \
                loaded[e] = i + e < count ? values[i + e] : ls_identity_##kind();              \
            LS_UNROLL                                                                          \
            for (int e = 0; e < 4; e++) ls_push_row_##kind(level[e], row, loaded[e]);          \
        }                                                                                      \
        return ls_tile_##kind(level);                                                          \
    }                                                                                          \
    LS_CALLED type ls_tile_alone_##kind(const type *values, i64 count, i64 stride) {           \
        type row_level[4] = {}, lane_level[8] = {};                                            \
        const i64 lanes = count < 128 ? (count + 7) / 8 * 8 : 128;                             \
        for (int lane = 0; lane < lanes && count <= 128; lane += 8) {                          \
            type loaded[8];                                                                    \
            LS_UNROLL                                                                          \
            for (int k = 0; k < 8; k++) {                                                      \
                const i64 i = lane + k;                                                        \
                loaded[k] = i < count ? values[i * stride] : ls_identity_##kind();             \
            }                                                                                  \
            LS_UNROLL                                                                          \
            for (int k = 0; k < 8; k++) ls_push_lane_##kind(lane_level, lane + k, loaded[k]);  \
        }                                                                                      \
        for (int lane = 0; lane < lanes && count > 128; lane++) {                              \
            for (int row = 0; row < 8; row++) {                                                \
                const i64 i = 128 * row + lane;                                                \
                ls_push_row_##kind(row_level, row,                                             \
                                   i < count ? values[i * stride] : ls_identity_##kind());     \
            }                                                                                  \
            ls_push_lane_##kind(lane_level, lane, row_level[3]);                               \
        }                                                                                      \
        return ls_lanes_##kind(lane_level, lanes);                                             \
    }                                                                                          \
    LS_FN type ls_tree_##kind(type *values, i64 count) {                                       \
        if (!(ordered) && count > 1024) {                                                      \
            type value = ls_identity_##kind();                                                 \
            for (i64 at = 0; at < count; at += 1024)                                           \
                value = ls_combine_##kind(                                                     \
                    value, ls_gather_##kind(values + at, ls_min(1024, count - at)));           \
            return value;                                                                      \
        }                                                                                      \
        while (count > 1024) {                                                                 \
            const i64 tiles = ls_tiles(count);                                                 \
            for (i64 tile = 0; tile < tiles; tile++) {                                         \
                const type value =                                                             \
                    ls_gather_##kind(values + 1024 * tile, ls_min(1024, count - 1024 * tile)); \
                ls_warp_sync();                                                                \
                if (ls_lane() == 0) values[tile] = value;                                      \
            }                                                                                  \
            ls_warp_sync();                                                                    \
            count = tiles;                                                                     \
        }                                                                                      \
        return ls_gather_##kind(values, count);                                                \
    }

/* Of `expected` items for `by` of which a warp arrives, says 1 to the last, who then sees
 * everything the others wrote before, and whose writes they do not see; with `published`,
 * everything that they published. The counter is 0 again for the next launch. Lane 0 speaks for its
 * group: what other lanes wrote comes before its release by the first wait for the group, and what
 * they read comes after its acquire by the last wait; a shuffle orders nothing. */
LS_FN int ls_arrive_with(u32 *counter, u32 expected, u32 by, int published) {
    u32 before = 0;
    ls_warp_sync();
    if (expected == by) return 1;
    if (ls_lane() == 0) {
        if (published)
            ls_release_published();
        else
            ls_release();
        before = ls_atomic_add_u32(counter, by);
        ls_acquire();
        if (before + by == expected) *counter = 0;
    }
    LS_UNROLL
    for (u32 mask = 1; mask < 32; mask *= 2) before |= ls_shuffle_xor(before, mask);
    ls_warp_sync();
    return before + by == expected;
}
LS_FN int ls_arrive(u32 *counter, u32 expected) {
    return ls_arrive_with(counter, expected, 1, 0);
}
LS_FN int ls_arrive_published(u32 *counter, u32 expected) {
    return ls_arrive_with(counter, expected, 1, 1);
}
LS_FN int ls_arrive_by(u32 *counter, u32 expected, u32 by) {
    return ls_arrive_with(counter, expected, by, 0);
}
LS_FN int ls_arrive_by_published(u32 *counter, u32 expected, u32 by) {
    return ls_arrive_with(counter, expected, by, 1);
}
