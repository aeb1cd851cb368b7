/* draw_cpu.h: the draws of a run of elements at once, after philox.h and memory.h. One thread
 * makes 32 blocks of Philox side by side, in plain loops that gcc and clang vectorise.
 *
 * ls_draw_X(room, key, i, count): the draws of elements i .. i + count - 1, count at most 1024, in
 * room for 1152 of them; returns where the first is. */
#ifndef LS_DRAW_LOOP
#define LS_DRAW_LOOP

#define LS_DRAWS 1152 /* 1024 and those before and after in the blocks at the ends, of 128 */

/* A word is the low half of 64 bits, which a vector multiplies as they are. */
LS_FN const u32 *ls_draw_bits(u32 *room, u64 key, i64 i, i64 count) {
    for (i64 done = 0; done < count + (i & 3); done += 128) {
        const u64 four = ((u64)i >> 2) + (u64)(done >> 2);
        u32 k0 = (u32)key, k1 = (u32)(key >> 32);
        u64 c0[32], c1[32], c2[32], c3[32];
        for (u32 j = 0; j < 32; j++) {
            c0[j] = four + j;
            c1[j] = (four + j) >> 32;
            c2[j] = c3[j] = 0;
        }
        for (int round = 0; round < 10; round++, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u)
            for (int j = 0; j < 32; j++) {
                const u64 p = (u64)0xd2511f53u * (u32)c0[j], q = (u64)0xcd9e8d57u * (u32)c2[j];
                c0[j] = (q >> 32) ^ c1[j] ^ k0;
                c1[j] = q;
                c2[j] = (p >> 32) ^ c3[j] ^ k1;
                c3[j] = p;
            }
        for (int j = 0; j < 32; j++) {
            room[done + 4 * j] = (u32)c0[j];
            room[done + 4 * j + 1] = (u32)c1[j];
            room[done + 4 * j + 2] = (u32)c2[j];
            room[done + 4 * j + 3] = (u32)c3[j];
        }
    }
    return room + (i & 3);
}
LS_FN const f32 *ls_draw_uniform(f32 *room, u64 key, i64 i, i64 count) {
    u32 bits[LS_DRAWS];
    const u32 *from = ls_draw_bits(bits, key, i, count);
    for (i64 k = 0; k < count; k++) room[k] = ls_uniform_of(from[k]);
    return room;
}
LS_FN const f32 *ls_draw_normal(f32 *room, u64 key, i64 i, i64 count) {
    u32 bits[LS_DRAWS];
    const i64 odd = i & 1; /* the first is the second of a pair */
    const u32 *from = ls_draw_bits(bits, key, i - odd, count + odd);
    for (i64 k = 0; k < count + odd; k += 2) {
        room[k] = ls_normal_of(from[k], from[k + 1], 0);
        room[k + 1] = ls_normal_of(from[k], from[k + 1], 1);
    }
    return room + odd;
}

#endif
