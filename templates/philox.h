/* philox.h: random numbers, after math.h; one text for C, CUDA C and HIP C.
 *
 * Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3, SC
 * 2011). A draw's key is the first two words of Philox(key = seed; step low, step high, ordinal,
 * tensor); its element i is word i mod 4 of Philox(key; i / 4 low, i / 4 high, 0, 0). Nothing else
 * enters, so a draw is the same in every fusion, launch shape and replay. */
#ifndef LS_PHILOX
#define LS_PHILOX

typedef struct ls_words {
    u32 word[4];
} ls_words;

LS_FN ls_words ls_philox(u64 key, u32 c0, u32 c1, u32 c2, u32 c3) {
    u32 k0 = (u32)key, k1 = (u32)(key >> 32);
    LS_UNROLL
    for (int round = 0; round < 10; round++) {
        u64 p = (u64)0xd2511f53u * c0, q = (u64)0xcd9e8d57u * c2;
        c0 = (u32)(q >> 32) ^ c1 ^ k0;
        c1 = (u32)q;
        c2 = (u32)(p >> 32) ^ c3 ^ k1;
        c3 = (u32)p;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    ls_words words = {{c0, c1, c2, c3}};
    return words;
}
LS_FN u64 ls_random_key_u64(i64 seed, i64 step, u32 ordinal, i64 tensor) {
    ls_words w =
        ls_philox((u64)seed, (u32)(u64)step, (u32)((u64)step >> 32), ordinal, (u32)(u64)tensor);
    return (u64)w.word[1] << 32 | w.word[0];
}
/* The four words that elements i & ~3 to i | 3 share. */
LS_FN ls_words ls_random_words(u64 key, i64 i) {
    u64 four = (u64)i >> 2;
    return ls_philox(key, (u32)four, (u32)(four >> 32), 0u, 0u);
}
LS_FN u32 ls_random_bits_u64(u64 key, i64 i) {
    ls_words w = ls_random_words(key, i);
    u32 low = i & 1 ? w.word[1] : w.word[0], high = i & 1 ? w.word[3] : w.word[2];
    return i & 2 ? high : low;
}
/* in [0, 1), a multiple of 2^-24 */
LS_FN f32 ls_uniform_of(u32 word) {
    return (f32)(i32)(word >> 8) * 0x1p-24f;
}
LS_FN f32 ls_random_uniform_u64(u64 key, i64 i) {
    return ls_uniform_of(ls_random_bits_u64(key, i));
}
/* sin(pi (x + turns / 2)) for 0 <= x <= 2, 0.86 ulp where x is a multiple of 2^-23: the quadrant is
 * taken off exactly, so nothing is lost near a zero. */
LS_FN f32 ls_sine_of_turns(f32 x, u32 turns) {
    f32 t = ls_fma_f32(x, 2.0f, 12582912.0f); /* 1.5 * 2^23 + the quadrant */
    f32 r = ls_fma_f32(-0.5f, t - 12582912.0f, x), s = r * r;
    u32 quadrant = ls_bits_f32(t) + turns;
    f32 g = ls_fma_f32(0x1.481cfcp-4f, s, -0x1.32bab2p-1f);
    g = ls_fma_f32(g, s, 0x1.466b8ep1f);
    g = ls_fma_f32(g, s, -0x1.4abbcep2f);
    g = ls_fma_f32(g, s, -0x1.777a5cp-24f); /* pi less its f32 */
    f32 sine = ls_fma_f32(r, 0x1.921fb6p1f, g * r);
    f32 c = ls_fma_f32(0x1.d685ccp-3f, s, -0x1.55b7dp0f);
    c = ls_fma_f32(c, s, 0x1.03c1b8p2f);
    c = ls_fma_f32(c, s, -0x1.3bd3ccp2f);
    f32 cosine = ls_fma_f32(c, s, 1.0f);
    f32 y = quadrant & 1u ? cosine : sine;
    return ls_from_bits_f32(ls_bits_f32(y) ^ ((quadrant & 2u) << 30));
}
/* Box and Muller on the words of elements i & ~1 and i | 1: the even one gets the cosine. */
LS_FN f32 ls_normal_of(u32 first, u32 second, u32 odd) {
    f32 u = (f32)(i32)((first >> 8) + 1u) * 0x1p-24f; /* in (0, 1] */
    f32 angle = (f32)(i32)(second >> 8) * 0x1p-23f;   /* over pi, in [0, 2) */
    return ls_sqrt_f32(-2.0f * ls_log_f32(u)) * ls_sine_of_turns(angle, odd ? 0u : 1u);
}
LS_FN f32 ls_random_normal_u64(u64 key, i64 i) {
    ls_words w = ls_random_words(key, i);
    u32 first = i & 2 ? w.word[2] : w.word[0], second = i & 2 ? w.word[3] : w.word[1];
    return ls_normal_of(first, second, (u32)i & 1u);
}
/* Place i of a permutation of 0 ... n - 1 that the key chooses, -1 for an i that is not one of
 * them. A Feistel network (Luby and Rackoff 1988) of two halves permutes the numbers of as many
 * bits as n - 1 has, and a number past the end is permuted again until it is none (cycle walking:
 * Black and Rogaway, Ciphers with arbitrary finite domains, 2002), less than twice on average. What
 * mixes a half is Philox's own round: its multipliers, high and low word of the product, its key
 * schedule; twice, because a narrow half sees few of the bits. Few elements take more rounds. */
LS_FN u32 ls_shuffle_mix(u32 half, u32 key, u32 multiplier) {
    u64 p = (u64)multiplier * (half ^ key);
    p = (u64)multiplier * ((u32)(p >> 32) ^ (u32)p);
    return (u32)(p >> 32);
}
LS_FN i64 ls_shuffle_i64(i64 i, i64 n, u64 key) {
    if (i < 0 || i >= n) return -1;
    u64 left = (u64)n - 1, x = (u64)i;
    u32 bits = 0;
    for (u32 step = 32; step > 0; step >>= 1) {
        u32 shift = left >> step ? step : 0u;
        bits += shift;
        left >>= shift;
    }
    bits += (u32)left; /* of n - 1, whose top bit is left over */
    const u32 low_bits = (bits + 1u) >> 1, pairs = bits < 7u ? 16u : 8u;
    const u32 low_mask = (u32)(((u64)1 << low_bits) - 1u);
    const u32 high_mask = (u32)(((u64)1 << (bits - low_bits)) - 1u);
    do {
        u32 low = (u32)x & low_mask, high = (u32)(x >> low_bits);
        u32 k0 = (u32)key, k1 = (u32)(key >> 32);
        for (u32 pair = 0; pair < pairs; pair++) {
            high ^= ls_shuffle_mix(low, k0, 0xd2511f53u) & high_mask;
            low ^= ls_shuffle_mix(high, k1, 0xcd9e8d57u) & low_mask;
            k0 += 0x9e3779b9u;
            k1 += 0xbb67ae85u;
        }
        x = (u64)high << low_bits | low;
    } while (x >= (u64)n);
    return (i64)x;
}

#endif
