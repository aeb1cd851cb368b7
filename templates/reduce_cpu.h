/* reduce_cpu.h: the tree for one thread, over a tile in cache. Loops over separate buffers, of
 * fixed length or of whole vectors, which gcc and clang vectorise; where order matters, sums and
 * products, neighbours are combined by shuffles of whole vectors. */

/* Functions of a tile's size are called: inlined at every use they would only cost compile time. */
#define LS_CALLED LS_OUTLINE

/* Before a loop of eight or fewer that is written out, so that the loop around it becomes vector
 * code; and before one that is not. */
#ifdef __clang__
#define LS_UNROLLED _Pragma("clang loop unroll(full)")
#define LS_ROLLED _Pragma("clang loop unroll(disable)")
#else
#define LS_UNROLLED _Pragma("GCC unroll 8")
#define LS_ROLLED _Pragma("GCC unroll 1")
#endif

/* The balanced tree of eight values, by a function of two. */
#define LS_EIGHT(combine, x)                                           \
    combine(combine(combine((x)[0], (x)[1]), combine((x)[2], (x)[3])), \
            combine(combine((x)[4], (x)[5]), combine((x)[6], (x)[7])))

/* The elements that a row takes in a tile: the next power of two up to 512 elements, the whole tile
 * beyond.
 */
LS_FN i64 ls_padded(i64 inner) {
    i64 padded = 1;
    if (inner > 512) return 1024;
    while (padded < inner) padded *= 2;
    return padded;
}

/* So many tiles in rows; of short ones whole sixteens, which no more than doubles 8 tiles. */
LS_FN i64 ls_rows_in_scratch(i64 tiles, i64 longest) {
    const i64 padded = ls_padded(longest), rows = tiles * (1024 / padded);
    return padded == 1024 ? rows : (rows + 15) / 16 * 16;
}

/* pad: the identity, from a row's `length` elements on up to where the next row's begin, or as far
 * as rows reads them. */
#define LS_TILES_f64(kind, combine)                                                     \
    LS_FN void ls_pad_##kind(f64 *row, i64 length, i64 padded) {                        \
        for (; length < padded; length++) row[length] = ls_identity_##kind();           \
    }                                                                                   \
    LS_CALLED void ls_rows_##kind(f64 *values, i64 count, i64 length, i64 padded) {     \
        f64 half[512] LS_ALIGN(64);                                                     \
        i64 left = count * padded;                                                      \
        (void)length;                                                                   \
        for (; padded > 128; padded /= 2, left /= 2) {                                  \
            for (i64 i = 0; i < left / 256; i++) {                                      \
                const f64 *const two = values + 256 * i;                                \
                LS_INDEPENDENT                                                          \
                for (int l = 0; l < 128; l++)                                           \
                    values[128 * i + l] = ls_combine_##kind(two[l], two[128 + l]);      \
            }                                                                           \
        }                                                                               \
        for (; padded >= 4; padded /= 4, left /= 4) ls_neighbours_##kind(values, left); \
        if (padded == 1) return;                                                        \
        for (i64 i = 0; i < left / 2; i++)                                              \
            half[i] = ls_combine_##kind(values[2 * i], values[2 * i + 1]);              \
        for (i64 i = 0; i < left / 2; i++) values[i] = half[i];                         \
    }                                                                                   \
    LS_CALLED f64 ls_tile_##kind(f64 *values, i64 count) {                              \
        f64 lane[128] LS_ALIGN(64);                                                     \
        for (i64 i = count; i < (count <= 128 ? 128 : 1024); i++)                       \
            values[i] = ls_identity_##kind();                                           \
        if (count <= 128) return ls_lane_tree_##kind(values);                           \
        for (int l = 0; l < 128; l++) {                                                 \
            f64 value[8];                                                               \
            LS_UNROLLED                                                                 \
            for (int row = 0; row < 8; row++) value[row] = values[128 * row + l];       \
            lane[l] = ls_eight_##kind(value);                                           \
        }                                                                               \
        return ls_lane_tree_##kind(lane);                                               \
    }

#define LS_TILES_f32(kind, combine)                                                          \
    LS_REDUCE_ROWS(kind, combine)                                                            \
    LS_REDUCE_COLUMNS(kind) LS_FN void ls_pad_##kind(f32 *row, i64 length, i64 padded) {     \
        for (; padded <= 8 && length < padded; length++) row[length] = ls_identity_##kind(); \
    }                                                                                        \
    LS_CALLED void ls_rows_##kind(f32 *values, i64 count, i64 length, i64 padded) {          \
        i64 left = count * padded;                                                           \
        if (padded > 8) {                                                                    \
            const struct ls_rows_f32 rows = {values, padded};                                \
            ls_reduce_rows_##kind(ls_memory_f32, &rows, 1, 1, count, length, &values);       \
            return;                                                                          \
        }                                                                                    \
        for (; padded >= 4; padded /= 4, left /= 4) ls_neighbours_##kind(values, left);      \
        for (i64 i = 0; padded == 2 && i < left / 2; i++)                                    \
            values[i] = ls_combine_##kind(values[2 * i], values[2 * i + 1]);                 \
    }                                                                                        \
    LS_CALLED f32 ls_tile_##kind(f32 *values, i64 count) {                                   \
        ls_rows_##kind(values, 1, count, 1024);                                              \
        return values[0];                                                                    \
    }

/* Of lanes and short rows, by the kind.
 * pairs: neighbours of two vectors combined. rows: the values of `count` rows that lie `padded`
 * elements apart, each padded with the identity, end up in values[0 .. count); where a row is of
 * several 128, these are combined first, neighbours with neighbours. lane_tree: the value of 128
 * lanes. */
#define LS_TREE_1(kind, type, combine) /* in order */                                    \
    LS_FN void ls_pairs_##kind(ls_vector_##type *to, const ls_vector_##type *x,          \
                               const ls_vector_##type *y) {                              \
        const ls_vector_##type a = LS_EVENS_##type(*x, *y), b = LS_ODDS_##type(*x, *y);  \
        *to = combine;                                                                   \
    }                                                                                    \
    LS_FN void ls_neighbours_##kind(type *values, i64 left) {                            \
        enum { WIDTH = 64 / sizeof(type) };                                              \
        for (i64 i = 0; i < left; i += 4 * WIDTH) {                                      \
            const ls_vector_##type *const from = (const ls_vector_##type *)(values + i); \
            ls_vector_##type low, high;                                                  \
            ls_pairs_##kind(&low, &from[0], &from[1]);                                   \
            ls_pairs_##kind(&high, &from[2], &from[3]);                                  \
            ls_pairs_##kind((ls_vector_##type *)(values + i / 4), &low, &high);          \
        }                                                                                \
    }                                                                                    \
    LS_FN type ls_lane_tree_##kind(const type *lane) {                                   \
        enum { WIDTH = 64 / sizeof(type), COUNT = 128 / WIDTH };                         \
        const ls_vector_##type *const from = (const ls_vector_##type *)lane;             \
        ls_vector_##type half[COUNT / 2], quarter[COUNT / 4], all;                       \
        LS_UNROLLED                                                                      \
        for (int i = 0; i < COUNT / 2; i++)                                              \
            ls_pairs_##kind(&half[i], &from[2 * i], &from[2 * i + 1]);                   \
        LS_UNROLLED                                                                      \
        for (int i = 0; i < COUNT / 4; i++)                                              \
            ls_pairs_##kind(&quarter[i], &half[2 * i], &half[2 * i + 1]);                \
        LS_UNROLLED                                                                      \
        for (int i = 0; i < COUNT / 8; i++)                                              \
            ls_pairs_##kind(&half[i], &quarter[2 * i], &quarter[2 * i + 1]);             \
        all = half[0];                                                                   \
        if (COUNT == 16) ls_pairs_##kind(&all, &half[0], &half[1]);                      \
        LS_UNROLLED                                                                      \
        for (int i = 1; i < WIDTH; i *= 2) ls_pairs_##kind(&all, &all, &all);            \
        return all[0];                                                                   \
    }                                                                                    \
    LS_TILES_##type(kind, combine)

/* Trees of f32 along rows (of a kind without an order too), whose leaves a function gives sixteen
 * at a time, those of `trees` trees together. to[tree][row] becomes the value of the tree of each
 * of `count` rows of `length` leaves, up to 1024; beyond that the rows are `count` tiles of one row
 * with so many leaves left. Four rows are written at a time: where `count` is no multiple of four,
 * the places behind the last value are written, too. `parts`: 1, or 2 where the even and the odd
 * lanes of the tree lie in vectors of their own, so that the tree's lowest level has no shuffles.
 *
 * pair_elements, pair_quads: neighbours combined within 16 bytes, for the lowest two bits of a
 * lane's number, and 16 bytes with 16, for the next two. joined: the two parts of sixteen
 * neighbours, or of 32. rows_of: what 1, 2 or 4 rows of 128 come to. row_vectors: the partial sums
 * of a row that is 1, 2, 4 or 8 vectors long at most, or (16) up to 256 leaves, as one vector;
 * `whole`: no vector is partial. whole_tile: those of 1024 leaves, lane by lane; row_lanes: of
 * fewer: the last row of the tile, which may be partial, then the 1, 2 and 4 before it that there
 * are. four_rows: the values of four rows from their partial sums. batch_rest: reduce_rows of rows
 * of 64 leaves and up to 32 more, which are trees of their own. reduce_tiles: of rows of more than
 * 256 leaves. */
#define LS_WHICH(parts, p) ((parts) == 1 ? LS_NEIGHBOURS : LS_EVENS + (p))
#define LS_REDUCE_ROWS(kind, combine)                                                              \
    LS_FN ls_vector_f32 ls_combine_vectors_##kind(ls_vector_f32 a, ls_vector_f32 b) {              \
        return combine;                                                                            \
    }                                                                                              \
    LS_FN ls_vector_f32 ls_pair_elements_##kind(ls_vector_f32 x, ls_vector_f32 y) {                \
        return ls_combine_vectors_##kind(LS_QUAD_EVENS_f32(x, y), LS_QUAD_ODDS_f32(x, y));         \
    }                                                                                              \
    LS_FN ls_vector_f32 ls_pair_quads_##kind(ls_vector_f32 x, ls_vector_f32 y) {                   \
        return ls_combine_vectors_##kind(LS_EVEN_QUADS_f32(x, y), LS_ODD_QUADS_f32(x, y));         \
    }                                                                                              \
    LS_FN ls_vector_f32 ls_pair_four_##kind(const ls_vector_f32 *x) {                              \
        return ls_pair_elements_##kind(ls_pair_elements_##kind(x[0], x[1]),                        \
                                       ls_pair_elements_##kind(x[2], x[3]));                       \
    }                                                                                              \
    LS_FN void ls_row_partial_##kind(ls_vector_f32 *to, const ls_vector_f32 *x, int vectors) {     \
        if (vectors == 1) *to = x[0];                                                              \
        if (vectors == 2) *to = ls_pair_elements_##kind(x[0], x[1]);                               \
        if (vectors == 4) *to = ls_pair_four_##kind(x);                                            \
        if (vectors >= 8)                                                                          \
            *to = ls_pair_quads_##kind(ls_pair_four_##kind(x), ls_pair_four_##kind(x + 4));        \
    }                                                                                              \
    LS_FN void ls_four_rows_##kind(f32 *to, const ls_vector_f32 *of, int vectors) {                \
        ls_vector_f32 x, y;                                                                        \
        if (vectors == 1) {                                                                        \
            x = ls_pair_four_##kind(of);                                                           \
            x = ls_pair_quads_##kind(x, x);                                                        \
            x = ls_pair_quads_##kind(x, x);                                                        \
        } else if (vectors == 2) {                                                                 \
            x = ls_pair_quads_##kind(ls_pair_elements_##kind(of[0], of[1]),                        \
                                     ls_pair_elements_##kind(of[2], of[3]));                       \
            x = ls_pair_quads_##kind(x, x);                                                        \
            x = ls_pair_elements_##kind(x, x);                                                     \
            x = LS_FOUR_f32(x, 0, 1, 4, 5);                                                        \
        } else {                                                                                   \
            x = ls_pair_quads_##kind(of[0], of[1]);                                                \
            y = ls_pair_quads_##kind(of[2], of[3]);                                                \
            if (vectors == 4) {                                                                    \
                x = ls_pair_quads_##kind(x, y);                                                    \
                x = ls_pair_elements_##kind(x, x);                                                 \
                x = ls_pair_elements_##kind(x, x);                                                 \
                x = LS_FOUR_f32(x, 0, 4, 8, 12);                                                   \
            } else {                                                                               \
                x = ls_pair_elements_##kind(x, y);                                                 \
                x = ls_pair_elements_##kind(x, x);                                                 \
                x = ls_pair_quads_##kind(x, x);                                                    \
                x = LS_FOUR_f32(x, 0, 4, 1, 5);                                                    \
            }                                                                                      \
        }                                                                                          \
        __builtin_memcpy(to, &x, 4 * sizeof(f32));                                                 \
    }                                                                                              \
    LS_FN void ls_masked_leaves_##kind(ls_leaves_f32 *leaves, const void *of, i64 r, i64 at,       \
                                       i64 left, int which, int trees, ls_vector_f32 *to) {        \
        leaves(of, r, at, left, which, to);                                                        \
        LS_UNROLLED                                                                                \
        for (int t = 0; t < trees; t++)                                                            \
            to[t] = ls_select_first_f32(to[t], ls_left_of(left, which), ls_identity_##kind());     \
    }                                                                                              \
    LS_FN void ls_rows_of_##kind(ls_leaves_f32 *leaves, const void *of, i64 r, i64 at, int rows,   \
                                 int which, int trees, ls_vector_f32 *to) {                        \
        ls_vector_f32 x[4][LS_TREES];                                                              \
        LS_UNROLLED                                                                                \
        for (int i = 0; i < rows; i++) leaves(of, r, at + 128 * i, 32, which, x[i]);               \
        LS_UNROLLED                                                                                \
        for (int t = 0; t < trees; t++) {                                                          \
            to[t] = x[0][t];                                                                       \
            if (rows > 1) to[t] = ls_combine_vectors_##kind(to[t], x[1][t]);                       \
            if (rows > 2)                                                                          \
                to[t] =                                                                            \
                    ls_combine_vectors_##kind(to[t], ls_combine_vectors_##kind(x[2][t], x[3][t])); \
        }                                                                                          \
    }                                                                                              \
    LS_FN void ls_tree_rows_##kind(ls_leaves_f32 *leaves, const void *of, i64 r, i64 at, int rows, \
                                   int parts, int trees, ls_vector_f32(*to)[LS_TREES]) {           \
        ls_vector_f32 x[2][LS_TREES];                                                              \
        LS_UNROLLED                                                                                \
        for (int p = 0; p < parts; p++)                                                            \
            ls_rows_of_##kind(leaves, of, r, at, rows, LS_WHICH(parts, p), trees, x[p]);           \
        LS_UNROLLED                                                                                \
        for (int p = 0; p < parts; p++) {                                                          \
            LS_UNROLLED                                                                            \
            for (int t = 0; t < trees; t++)                                                        \
                to[p][t] = ls_combine_vectors_##kind(x[p][t], to[p][t]);                           \
        }                                                                                          \
    }                                                                                              \
    LS_FN void ls_last_row_##kind(ls_leaves_f32 *leaves, const void *of, i64 r, i64 at, i64 left,  \
                                  int parts, int trees, ls_vector_f32(*to)[LS_TREES]) {            \
        LS_UNROLLED                                                                                \
        for (int p = 0; p < parts; p++) {                                                          \
            LS_UNROLLED                                                                            \
            for (int t = 0; t < trees; t++) to[p][t] = ls_all_f32(ls_identity_##kind());           \
            if (left > 0)                                                                          \
                ls_masked_leaves_##kind(leaves, of, r, at, left, LS_WHICH(parts, p), trees,        \
                                        to[p]);                                                    \
        }                                                                                          \
    }                                                                                              \
    LS_FN ls_vector_f32 ls_joined_##kind(ls_vector_f32(*x)[LS_TREES], int parts, int t) {          \
        return parts == 1 ? x[0][t] : ls_combine_vectors_##kind(x[0][t], x[1][t]);                 \
    }                                                                                              \
    LS_FN void ls_row_vectors_##kind(ls_leaves_f32 *leaves, const void *of, i64 r, i64 begin,      \
                                     i64 length, int parts, int trees, int vectors, int whole,     \
                                     ls_vector_f32(*to)[4], i64 at) {                              \
        ls_vector_f32 x[LS_TREES][8], own[2][LS_TREES];                                            \
        const int units = (vectors > 8 ? 8 : vectors) / parts;                                     \
        LS_UNROLLED                                                                                \
        for (int v = 0; v < 8; v++) {                                                              \
            if (v >= units) continue;                                                              \
            const i64 lane = begin + 16 * parts * v, first = vectors > 8 ? 128 + lane : lane;      \
            if (whole) {                                                                           \
                LS_UNROLLED                                                                        \
                for (int p = 0; p < parts; p++) {                                                  \
                    leaves(of, r, first, 32, LS_WHICH(parts, p), own[p]);                          \
                }                                                                                  \
            }                                                                                      \
            if (!whole)                                                                            \
                ls_last_row_##kind(leaves, of, r, first, length - first, parts, trees, own);       \
            if (vectors > 8) ls_tree_rows_##kind(leaves, of, r, lane, 1, parts, trees, own);       \
            LS_UNROLLED                                                                            \
            for (int t = 0; t < trees; t++) x[t][v] = ls_joined_##kind(own, parts, t);             \
        }                                                                                          \
        LS_UNROLLED                                                                                \
        for (int t = 0; t < trees; t++) ls_row_partial_##kind(&to[t][at], x[t], units);            \
    }                                                                                              \
    LS_FN void ls_row_lanes_##kind(ls_leaves_f32 *leaves, const void *of, i64 r, i64 length,       \
                                   int parts, int trees, ls_vector_f32(*to)[4], i64 at) {          \
        ls_vector_f32 lane[LS_TREES][8];                                                           \
        const i64 rows = length / 128, rest = length % 128;                                        \
        LS_ROLLED                                                                                  \
        for (int l = 0; l < 128; l += 16 * parts) {                                                \
            ls_vector_f32 x[2][LS_TREES];                                                          \
            ls_last_row_##kind(leaves, of, r, 128 * rows + l, rest - l, parts, trees, x);          \
            if (rows & 1)                                                                          \
                ls_tree_rows_##kind(leaves, of, r, 128 * (rows - 1) + l, 1, parts, trees, x);      \
            if (rows & 2)                                                                          \
                ls_tree_rows_##kind(leaves, of, r, 128 * (rows & 4) + l, 2, parts, trees, x);      \
            if (rows & 4) ls_tree_rows_##kind(leaves, of, r, l, 4, parts, trees, x);               \
            LS_UNROLLED                                                                            \
            for (int t = 0; t < trees; t++)                                                        \
                lane[t][l / (16 * parts)] = ls_joined_##kind(x, parts, t);                         \
        }                                                                                          \
        LS_UNROLLED                                                                                \
        for (int t = 0; t < trees; t++) ls_row_partial_##kind(&to[t][at], lane[t], 8 / parts);     \
    }                                                                                              \
    LS_FN void ls_whole_tile_##kind(ls_leaves_f32 *leaves, const void *of, i64 r, int parts,       \
                                    int trees, ls_vector_f32(*to)[4], i64 at) {                    \
        ls_vector_f32 lane[LS_TREES][8];                                                           \
        LS_ROLLED                                                                                  \
        for (int l = 0; l < 128; l += 16 * parts) {                                                \
            ls_vector_f32 x[2][LS_TREES];                                                          \
            LS_UNROLLED                                                                            \
            for (int p = 0; p < parts; p++) {                                                      \
                ls_rows_of_##kind(leaves, of, r, 512 + l, 4, LS_WHICH(parts, p), trees, x[p]);     \
            }                                                                                      \
            ls_tree_rows_##kind(leaves, of, r, l, 4, parts, trees, x);                             \
            LS_UNROLLED                                                                            \
            for (int t = 0; t < trees; t++)                                                        \
                lane[t][l / (16 * parts)] = ls_joined_##kind(x, parts, t);                         \
        }                                                                                          \
        LS_UNROLLED                                                                                \
        for (int t = 0; t < trees; t++) ls_row_partial_##kind(&to[t][at], lane[t], 8 / parts);     \
    }                                                                                              \
    LS_FN void ls_batch_##kind(ls_leaves_f32 *leaves, const void *of, int parts, int trees,        \
                               i64 count, i64 length, int vectors, int whole, f32 *const *to) {    \
        LS_ROLLED                                                                                  \
        for (i64 r = 0; r < count; r += 4) {                                                       \
            ls_vector_f32 four[LS_TREES][4];                                                       \
            if (vectors <= 4) {                                                                    \
                LS_UNROLLED                                                                        \
                for (i64 i = 0; i < 4; i++)                                                        \
                    ls_row_vectors_##kind(leaves, of, ls_min(r + i, count - 1), 0, length, parts,  \
                                          trees, vectors, whole, four, i);                         \
            } else {                                                                               \
                const i64 rows = ls_min(4, count - r);                                             \
                LS_ROLLED                                                                          \
                for (i64 i = 0; i < rows; i++) {                                                   \
                    const i64 left = length > 1024 ? length - 1024 * (r + i) : length;             \
                    if (vectors > 16 && left >= 1024)                                              \
                        ls_whole_tile_##kind(leaves, of, r + i, parts, trees, four, i);            \
                    else if (vectors > 16)                                                         \
                        ls_row_lanes_##kind(leaves, of, r + i, left, parts, trees, four, i);       \
                    else                                                                           \
                        ls_row_vectors_##kind(leaves, of, r + i, 0, length, parts, trees, vectors, \
                                              whole, four, i);                                     \
                }                                                                                  \
                for (i64 i = rows; i < 4; i++) {                                                   \
                    LS_UNROLLED                                                                    \
                    for (int t = 0; t < trees; t++) four[t][i] = four[t][0];                       \
                }                                                                                  \
            }                                                                                      \
            LS_UNROLLED                                                                            \
            for (int t = 0; t < trees; t++) {                                                      \
                ls_four_rows_##kind(to[t] + r, four[t], (vectors > 8 ? 8 : vectors) / parts);      \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    LS_FN void ls_batch_rest_##kind(ls_leaves_f32 *leaves, const void *of, int trees, i64 count,   \
                                    i64 length, int vectors, f32 *const *to) {                     \
        LS_ROLLED                                                                                  \
        for (i64 r = 0; r < count; r += 4) {                                                       \
            ls_vector_f32 four[LS_TREES][4], rest[LS_TREES][4];                                    \
            LS_UNROLLED                                                                            \
            for (i64 i = 0; i < 4; i++) {                                                          \
                const i64 own = ls_min(r + i, count - 1);                                          \
                ls_row_vectors_##kind(leaves, of, own, 0, 64, 1, trees, 4, 1, four, i);            \
                ls_row_vectors_##kind(leaves, of, own, 64, length, 1, trees, vectors, 0, rest, i); \
            }                                                                                      \
            LS_UNROLLED                                                                            \
            for (int t = 0; t < trees; t++) {                                                      \
                f32 first[4], last[4];                                                             \
                ls_four_rows_##kind(first, four[t], 4);                                            \
                ls_four_rows_##kind(last, rest[t], vectors);                                       \
                LS_UNROLLED                                                                        \
                for (int i = 0; i < 4; i++) to[t][r + i] = ls_combine_##kind(first[i], last[i]);   \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    LS_FN void ls_reduce_tiles_##kind(ls_leaves_f32 *leaves, const void *of, int parts, int trees, \
                                      i64 count, i64 length, f32 *const *to) {                     \
        ls_batch_##kind(leaves, of, parts, trees, count, length, 64, 0, to);                       \
    }                                                                                              \
    LS_FN void ls_reduce_rows_##kind(ls_leaves_f32 *leaves, const void *of, int parts, int trees,  \
                                     i64 count, i64 length, f32 *const *to) {                      \
        if (length > 256)                                                                          \
            ls_reduce_tiles_##kind(leaves, of, parts, trees, count, length, to);                   \
        else if (length == 256)                                                                    \
            ls_batch_##kind(leaves, of, parts, trees, count, length, 16, 1, to);                   \
        else if (length > 128)                                                                     \
            ls_batch_##kind(leaves, of, parts, trees, count, length, 16, 0, to);                   \
        else if (length == 128)                                                                    \
            ls_batch_##kind(leaves, of, parts, trees, count, length, 8, 1, to);                    \
        else if (length > 96 || (length > 64 && parts > 1))                                        \
            ls_batch_##kind(leaves, of, parts, trees, count, length, 8, 0, to);                    \
        else if (length > 80)                                                                      \
            ls_batch_rest_##kind(leaves, of, trees, count, length, 2, to);                         \
        else if (length > 64)                                                                      \
            ls_batch_rest_##kind(leaves, of, trees, count, length, 1, to);                         \
        else if (length == 64)                                                                     \
            ls_batch_##kind(leaves, of, parts, trees, count, length, 4, 1, to);                    \
        else if (length > 32)                                                                      \
            ls_batch_##kind(leaves, of, parts, trees, count, length, 4, 0, to);                    \
        else if (length > 16 || parts > 1)                                                         \
            ls_batch_##kind(leaves, of, parts, trees, count, length, 2, 0, to);                    \
        else                                                                                       \
            ls_batch_##kind(leaves, of, parts, trees, count, length, 1, 0, to);                    \
    }

/* Down columns, side by side: to[tree][column] becomes the value of that tree of each of `width`
 * columns, at most 64, over `count` rows, at most 1024. Eight leaves come at a time: the rows of a
 * lane of the tree, or of as many lanes as make eight; four of them are stored before the next are
 * loaded. What eight come to goes to a binary counter of whole vectors; push_chunk: that of 64
 * columns together, where nothing is stored, so that the counter's branches are taken once.
 */
#define LS_REDUCE_COLUMNS(kind)                                                                    \
    LS_FN ls_vector_f32 ls_eight_rows_##kind(ls_vector_f32(*x)[LS_TREES], int t) {                 \
        return ls_combine_vectors_##kind(                                                          \
            ls_combine_vectors_##kind(ls_combine_vectors_##kind(x[0][t], x[1][t]),                 \
                                      ls_combine_vectors_##kind(x[2][t], x[3][t])),                \
            ls_combine_vectors_##kind(ls_combine_vectors_##kind(x[4][t], x[5][t]),                 \
                                      ls_combine_vectors_##kind(x[6][t], x[7][t])));               \
    }                                                                                              \
    LS_FN void ls_push_eight_##kind(ls_vector_f32(*level)[4][8], ls_vector_f32(*x)[LS_TREES],      \
                                    int trees, i64 at, i64 e) {                                    \
        LS_UNROLLED                                                                                \
        for (int t = 0; t < trees; t++) {                                                          \
            ls_vector_f32 own = ls_eight_rows_##kind(x, t);                                        \
            i64 bit = 0;                                                                           \
            LS_ROLLED                                                                              \
            for (; e >> bit & 1; bit++)                                                            \
                own = ls_combine_vectors_##kind(level[t][at / 16][bit], own);                      \
            level[t][at / 16][bit] = own;                                                          \
        }                                                                                          \
    }                                                                                              \
    LS_FN void ls_push_chunk_##kind(ls_vector_f32(*level)[4][8], ls_leaves_f32 *leaves,            \
                                    const void *of, i64 first, const i64 *row, int trees, i64 e) { \
        ls_vector_f32 own[LS_TREES][4];                                                            \
        LS_UNROLLED                                                                                \
        for (int v = 0; v < 4; v++) {                                                              \
            ls_vector_f32 x[8][LS_TREES];                                                          \
            LS_UNROLLED                                                                            \
            for (int j = 0; j < 8; j++)                                                            \
                leaves(of, first + row[j], 16 * v, 16, LS_NEIGHBOURS, x[j]);                       \
            LS_UNROLLED                                                                            \
            for (int t = 0; t < trees; t++) own[t][v] = ls_eight_rows_##kind(x, t);                \
        }                                                                                          \
        LS_UNROLLED                                                                                \
        for (int t = 0; t < trees; t++) {                                                          \
            i64 bit = 0;                                                                           \
            LS_ROLLED                                                                              \
            for (; e >> bit & 1; bit++) {                                                          \
                LS_UNROLLED                                                                        \
                for (int v = 0; v < 4; v++)                                                        \
                    own[t][v] = ls_combine_vectors_##kind(level[t][v][bit], own[t][v]);            \
            }                                                                                      \
            LS_UNROLLED                                                                            \
            for (int v = 0; v < 4; v++) level[t][v][bit] = own[t][v];                              \
        }                                                                                          \
    }                                                                                              \
    LS_FN void ls_four_leaves_##kind(ls_leaves_f32 *leaves, ls_leaves_f32 *stores, const void *of, \
                                     i64 first, const i64 *row, i64 count, int trees, i64 at,      \
                                     ls_vector_f32(*x)[LS_TREES]) {                                \
        LS_UNROLLED                                                                                \
        for (int j = 0; j < 4; j++) {                                                              \
            LS_UNROLLED                                                                            \
            for (int t = 0; t < trees; t++) x[j][t] = ls_all_f32(ls_identity_##kind());            \
            if (first + row[j] < count) leaves(of, first + row[j], at, 16, LS_NEIGHBOURS, x[j]);   \
        }                                                                                          \
        LS_UNROLLED                                                                                \
        for (int j = 0; j < 4; j++)                                                                \
            if (first + row[j] < count) stores(of, first + row[j], at, 16, LS_NEIGHBOURS, x[j]);   \
    }                                                                                              \
    LS_FN void ls_reduce_columns_##kind(ls_leaves_f32 *leaves, ls_leaves_f32 *stores,              \
                                        const void *of, int trees, i64 count, i64 width,           \
                                        f32 *const *to) {                                          \
        ls_vector_f32 level[LS_TREES][4][8];                                                       \
        const int depth = count <= 128 ? 0 : count <= 256 ? 1 : count <= 512 ? 2 : 3;              \
        const i64 lanes = 8 >> depth, eights = count <= 128 ? (count + 7) / 8 : 16 << depth;       \
        i64 row[8];                                                                                \
        LS_UNROLLED                                                                                \
        for (i64 j = 0; j < 8; j++) row[j] = (j >> depth) + 128 * (j & ((1 << depth) - 1));        \
        LS_ROLLED                                                                                  \
        for (i64 e = 0; e < eights; e++) {                                                         \
            const i64 first = lanes * e;                                                           \
            i64 at = 0;                                                                            \
            if (first + row[7] < count && width == 64 && trees <= 2 &&                             \
                stores == ls_no_stores_f32) {                                                      \
                ls_push_chunk_##kind(level, leaves, of, first, row, trees, e);                     \
                continue;                                                                          \
            }                                                                                      \
            if (first + row[7] < count) {                                                          \
                LS_ROLLED                                                                          \
                for (; at + 16 <= width; at += 16) {                                               \
                    ls_vector_f32 x[8][LS_TREES];                                                  \
                    LS_UNROLLED                                                                    \
                    for (int j = 0; j < 4; j++)                                                    \
                        leaves(of, first + row[j], at, 16, LS_NEIGHBOURS, x[j]);                   \
                    LS_UNROLLED                                                                    \
                    for (int j = 0; j < 4; j++)                                                    \
                        stores(of, first + row[j], at, 16, LS_NEIGHBOURS, x[j]);                   \
                    LS_UNROLLED                                                                    \
                    for (int j = 4; j < 8; j++)                                                    \
                        leaves(of, first + row[j], at, 16, LS_NEIGHBOURS, x[j]);                   \
                    LS_UNROLLED                                                                    \
                    for (int j = 4; j < 8; j++)                                                    \
                        stores(of, first + row[j], at, 16, LS_NEIGHBOURS, x[j]);                   \
                    ls_push_eight_##kind(level, x, trees, at, e);                                  \
                }                                                                                  \
            }                                                                                      \
            LS_ROLLED                                                                              \
            for (; at + 16 <= width; at += 16) {                                                   \
                ls_vector_f32 x[8][LS_TREES];                                                      \
                ls_four_leaves_##kind(leaves, stores, of, first, row, count, trees, at, x);        \
                ls_four_leaves_##kind(leaves, stores, of, first, row + 4, count, trees, at,        \
                                      x + 4);                                                      \
                ls_push_eight_##kind(level, x, trees, at, e);                                      \
            }                                                                                      \
            if (at < width) {                                                                      \
                ls_vector_f32 x[8][LS_TREES];                                                      \
                LS_ROLLED                                                                          \
                for (int j = 0; j < 8; j++) {                                                      \
                    LS_UNROLLED                                                                    \
                    for (int t = 0; t < trees; t++) x[j][t] = ls_all_f32(ls_identity_##kind());    \
                    if (first + row[j] >= count) continue;                                         \
                    leaves(of, first + row[j], at, width - at, LS_NEIGHBOURS, x[j]);               \
                    stores(of, first + row[j], at, width - at, LS_NEIGHBOURS, x[j]);               \
                }                                                                                  \
                ls_push_eight_##kind(level, x, trees, at, e);                                      \
            }                                                                                      \
        }                                                                                          \
        LS_UNROLLED                                                                                \
        for (int t = 0; t < trees; t++) {                                                          \
            LS_ROLLED                                                                              \
            for (i64 at = 0; at < width; at += 16) {                                               \
                ls_vector_f32 own = ls_all_f32(ls_identity_##kind());                              \
                for (int bit = 0; eights >> bit; bit++)                                            \
                    if (eights >> bit & 1)                                                         \
                        own = ls_combine_vectors_##kind(level[t][at / 16][bit], own);              \
                *(ls_vector_f32 *)(to[t] + at) = own;                                              \
            }                                                                                      \
        }                                                                                          \
    }

#define LS_TREE_0(kind, type, combine) /* in any order */                                    \
    LS_FN void ls_neighbours_##kind(type *values, i64 left) {                                \
        type half[512] LS_ALIGN(64);                                                         \
        for (i64 i = 0; i < left / 2; i++)                                                   \
            half[i] = ls_combine_##kind(values[2 * i], values[2 * i + 1]);                   \
        for (i64 i = 0; i < left / 4; i++)                                                   \
            values[i] = ls_combine_##kind(half[2 * i], half[2 * i + 1]);                     \
    }                                                                                        \
    LS_FN type ls_lane_tree_##kind(const type *lane) {                                       \
        type some[16], value;                                                                \
        for (int l = 0; l < 16; l++) some[l] = lane[l];                                      \
        for (int i = 16; i < 128; i += 16)                                                   \
            for (int l = 0; l < 16; l++) some[l] = ls_combine_##kind(some[l], lane[i + l]);  \
        value = some[0];                                                                     \
        for (int l = 1; l < 16; l++) value = ls_combine_##kind(value, some[l]);              \
        return value;                                                                        \
    }                                                                                        \
    LS_FN void ls_pad_##kind(type *row, i64 length, i64 padded) {                            \
        const i64 end = ls_min(padded, length / 128 * 128 + 128);                            \
        for (; length < end; length++) row[length] = ls_identity_##kind();                   \
    }                                                                                        \
    LS_CALLED void ls_rows_##kind(type *values, i64 count, i64 length, i64 padded) {         \
        type half[512] LS_ALIGN(64);                                                         \
        for (i64 i = 0; padded > 128 && i < count; i++) {                                    \
            const type *const row = values + padded * i;                                     \
            type *const to = values + 128 * i;                                               \
            for (int l = 0; l < 128; l++) to[l] = row[l];                                    \
            for (i64 at = 128; at < length; at += 128) {                                     \
                LS_INDEPENDENT                                                               \
                for (int l = 0; l < 128; l++) to[l] = ls_combine_##kind(to[l], row[at + l]); \
            }                                                                                \
        }                                                                                    \
        if (padded > 128) padded = 128;                                                      \
        i64 left = count * padded;                                                           \
        for (; padded >= 4; padded /= 4, left /= 4) ls_neighbours_##kind(values, left);      \
        if (padded == 1) return;                                                             \
        for (i64 i = 0; i < left / 2; i++)                                                   \
            half[i] = ls_combine_##kind(values[2 * i], values[2 * i + 1]);                   \
        for (i64 i = 0; i < left / 2; i++) values[i] = half[i];                              \
    }                                                                                        \
    LS_CALLED type ls_tile_##kind(type *values, i64 count) {                                 \
        if (count == 0) return ls_identity_##kind();                                         \
        ls_pad_##kind(values, count, 1024);                                                  \
        for (i64 at = 128; at < count; at += 128) {                                          \
            LS_INDEPENDENT                                                                   \
            for (int l = 0; l < 128; l++)                                                    \
                values[l] = ls_combine_##kind(values[l], values[at + l]);                    \
        }                                                                                    \
        return ls_lane_tree_##kind(values);                                                  \
    }

/* eight: of a lane's rows. tile: of one row, whose memory is written over; few: the same of at
 * least one value and at most 128, one by one. gather: of values that stay; tile_alone: of
 * values[0], values[stride], ...; tree: R of any count, the higher levels written behind them.
 * push_columns: the binary counter of reduce.h for 64 columns side by side; all 64 are added, also
 * those past the last column. columns: where the value of `count` numbers stands, level or scratch.
 */
#define LS_WARP_REDUCTION(kind, type, combine, ordered)                                     \
    LS_FN type ls_four_##kind(const type *value) {                                          \
        return ls_combine_##kind(ls_combine_##kind(value[0], value[1]),                     \
                                 ls_combine_##kind(value[2], value[3]));                    \
    }                                                                                       \
    LS_FN type ls_eight_##kind(const type *value) {                                         \
        return LS_EIGHT(ls_combine_##kind, value);                                          \
    }                                                                                       \
    LS_TREE_##ordered(kind, type, combine)                                                  \
        LS_CALLED type ls_gather_##kind(const type *values, i64 count) {                    \
        type copy[1024] LS_ALIGN(64);                                                       \
        for (i64 i = 0; i < count; i++) copy[i] = values[i];                                \
        return ls_tile_##kind(copy, count);                                                 \
    }                                                                                       \
    LS_FN type ls_few_##kind(type *few, i64 count) {                                        \
        for (; count > 1; count = (count + 1) / 2) {                                        \
            for (i64 i = 0; i < count / 2; i++)                                             \
                few[i] = ls_combine_##kind(few[2 * i], few[2 * i + 1]);                     \
            if (count & 1) few[count / 2] = few[count - 1];                                 \
        }                                                                                   \
        return few[0];                                                                      \
    }                                                                                       \
    LS_CALLED type ls_tile_alone_##kind(const type *values, i64 count, i64 stride) {        \
        type copy[1024] LS_ALIGN(64);                                                       \
        for (i64 i = 0; i < count; i++) copy[i] = values[i * stride];                       \
        if (count > 0 && count <= 16) return ls_few_##kind(copy, count);                    \
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
        return LS_EIGHT(ls_better_##kind, value);                                     \
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
