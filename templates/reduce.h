/* reduce.h: the canonical reduction tree (the README's section on bits has the definition).
 *
 * R over x[0..n): tile k is x[1024 k .. 1024 k + 1023], padded with the identity. Within a tile
 * element i = 128 row + lane; a[lane] = ((x0+x1)+(x2+x3))+((x4+x5)+(x6+x7)) over the rows; the
 * tile's value is the balanced tree over the lanes, neighbours first. n <= 1024: the tile's value,
 * else R of the tile values. Combining with the identity changes no bit, so absent parts may be
 * skipped.
 *
 * The emitter asks for what it uses: LS_REDUCTION(kind, type, identity, combine, ordered) gives the
 * functions below for one kind, `combine` being an expression over a and b; unless it is `ordered`,
 * any order of combining gives the same bits, and one value is kept instead of a level for every
 * power of two. What the lanes of a warp do together is LS_WARP_REDUCTION, in reduce_gpu.h (32
 * lanes) and reduce_cpu.h (one). */

/* push_row, push_lane: a binary counter that combines values in the order of the tree as they come;
 * after row 7 the lane's value is level[3], after lane 127 the tile's is level[7]; lanes gives it
 * for fewer. */
#define LS_REDUCTION(kind, type, identity, combine, ordered)                    \
    LS_FN type ls_identity_##kind(void) {                                       \
        return identity;                                                        \
    }                                                                           \
    LS_FN type ls_combine_##kind(type a, type b) {                              \
        return combine;                                                         \
    }                                                                           \
    LS_FN void ls_push_row_##kind(type *level, int row, type value) {           \
        if (!(ordered)) {                                                       \
            level[3] = row ? ls_combine_##kind(level[3], value) : value;        \
            return;                                                             \
        }                                                                       \
        if (!(row & 1)) {                                                       \
            level[0] = value;                                                   \
            return;                                                             \
        }                                                                       \
        value = ls_combine_##kind(level[0], value);                             \
        if (!(row & 2)) {                                                       \
            level[1] = value;                                                   \
            return;                                                             \
        }                                                                       \
        value = ls_combine_##kind(level[1], value);                             \
        if (!(row & 4)) {                                                       \
            level[2] = value;                                                   \
            return;                                                             \
        }                                                                       \
        level[3] = ls_combine_##kind(level[2], value);                          \
    }                                                                           \
    LS_FN void ls_push_lane_##kind(type *level, int lane, type value) {         \
        int carried = 1;                                                        \
        if (!(ordered)) {                                                       \
            level[7] = lane ? ls_combine_##kind(level[7], value) : value;       \
            return;                                                             \
        }                                                                       \
        LS_UNROLL                                                               \
        for (int bit = 0; bit < 7; bit++) {                                     \
            if (carried && !(lane >> bit & 1)) level[bit] = value, carried = 0; \
            if (carried) value = ls_combine_##kind(level[bit], value);          \
        }                                                                       \
        if (carried) level[7] = value;                                          \
    }                                                                           \
    LS_FN type ls_lanes_##kind(const type *level, i64 lanes) {                  \
        type value = ls_identity_##kind();                                      \
        if (lanes >= 128 || (!(ordered) && lanes > 0)) return level[7];         \
        LS_UNROLL                                                               \
        for (int bit = 0; bit < 7; bit++)                                       \
            if (lanes >> bit & 1) value = ls_combine_##kind(level[bit], value); \
        return value;                                                           \
    }                                                                           \
    LS_WARP_REDUCTION(kind, type, combine, ordered)                             \
    LS_TREE_ALONE(kind, type, ordered)

/* One thread's R of values[0], values[stride], ..., which higher levels are written over where
 * order matters. */
#define LS_TREE_ALONE(kind, type, ordered)                                                         \
    LS_CALLED type ls_tree_alone_##kind(type *values, i64 count, i64 stride) {                     \
        if (!(ordered) && count > 1024) {                                                          \
            type value = ls_identity_##kind();                                                     \
            for (i64 at = 0; at < count; at += 1024)                                               \
                value = ls_combine_##kind(                                                         \
                    value,                                                                         \
                    ls_tile_alone_##kind(values + at * stride, ls_min(1024, count - at), stride)); \
            return value;                                                                          \
        }                                                                                          \
        while (count > 1024) {                                                                     \
            const i64 tiles = ls_tiles(count);                                                     \
            for (i64 tile = 0; tile < tiles; tile++)                                               \
                values[tile * stride] = ls_tile_alone_##kind(                                      \
                    values + 1024 * tile * stride, ls_min(1024, count - 1024 * tile), stride);     \
            count = tiles;                                                                         \
        }                                                                                          \
        return ls_tile_alone_##kind(values, count, stride);                                        \
    }
