/* draw_gpu.h: the draws of four neighbouring elements at once, after philox.h: their words come
 * from one block of Philox, or from two where the first index is no multiple of four. */
#ifndef LS_DRAW_GPU
#define LS_DRAW_GPU

LS_FN void ls_draw_bits(u32 *four, u64 key, i64 i) {
    ls_words w = ls_random_words(key, i);
    LS_UNROLL
    for (int e = 0; e < 4; e++) four[e] = w.word[e];
    if (i & 3) {
        w = ls_random_words(key, i + 4);
        if (i & 1) {
            four[0] = four[1], four[1] = four[2], four[2] = four[3], four[3] = w.word[0];
            w.word[0] = w.word[1], w.word[1] = w.word[2];
        }
        if (i & 2) four[0] = four[2], four[1] = four[3], four[2] = w.word[0], four[3] = w.word[1];
    }
}
LS_FN void ls_draw_uniform(f32 *four, u64 key, i64 i) {
    u32 bits[4];
    ls_draw_bits(bits, key, i);
    LS_UNROLL
    for (int e = 0; e < 4; e++) four[e] = ls_uniform_of(bits[e]);
}
/* An odd first index cuts pairs in two. */
LS_FN void ls_draw_normal(f32 *four, u64 key, i64 i) {
    u32 bits[4];
    if (i & 1) {
        LS_UNROLL
        for (int e = 0; e < 4; e++) four[e] = ls_random_normal_u64(key, i + e);
    } else {
        ls_draw_bits(bits, key, i);
        LS_UNROLL
        for (int e = 0; e < 4; e++)
            four[e] = ls_normal_of(bits[e & 2], bits[(e & 2) + 1], (u32)e & 1u);
    }
}

#endif
