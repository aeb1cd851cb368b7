/* prelude.hip: the base of generated code, HIP C dialect (hipRTC, no header). The names and their
 * order are those of prelude.c, which explains them. Wave64 holds two groups of 32 lanes. Compiled
 * with -ffp-contract=off -fno-gpu-flush-denormals-to-zero. */
#ifndef LS_PRELUDE
#define LS_PRELUDE

/* Types. A value of type bool is an int, 0 or 1; in memory it is a bool8. The narrow floats are
 * their bits: convert.h packs and unpacks them. */
typedef double f64;
typedef float f32;
typedef long long i64;
typedef int i32;
typedef unsigned long long u64;
typedef unsigned int u32;
typedef short i16;
typedef unsigned short u16;
typedef signed char i8;
typedef unsigned char u8;
typedef u8 bool8;
typedef u16 f16, bf16;
typedef u8 e4m3, e5m2;

/* Qualifiers: LS_FN a device function; LS_KERNEL an entry point, result type included;
 * LS_THREADS(n) after it, the block size it is built for; LS_SHARED memory of the block; LS_UNROLL
 * before a loop; LS_ROWS before the loop over a tile's rows. */
#define LS_FN static inline __device__ __attribute__((always_inline))
#define LS_KERNEL extern "C" __global__ void
#define LS_THREADS(count) __launch_bounds__(count)
#define LS_THREADS_ALONE(count) __launch_bounds__(count)
#define LS_SHARED __shared__
#define LS_RESTRICT __restrict__
#define LS_ALIGN(bytes) __attribute__((aligned(bytes)))
/* LS_GREATER, LS_LESSER: what max and min of floats combine by; `plain`: by the library. */
#define LS_GREATER(T, plain, a, b) plain
#define LS_LESSER(T, plain, a, b) plain
#define LS_UNROLL _Pragma("unroll")
/* What a row loads is waited for before the next row's branches, so more rows at once would only take
 * registers. */
#define LS_ROWS _Pragma("unroll 1")

#define LS_TENSOR(all, at) ls_tensor(all, at)
template <class Element> LS_FN Element *ls_tensor(Element *const *all, i64 at) {
#ifdef __AMDGCN__ /* address space 1 is device memory */
    return (Element *)((__attribute__((address_space(1))) Element *const *)all)[at];
#else
    return all[at];
#endif
}

/* The array into which whole vectors are stored: as it is. prelude.cu says what else it may be. */
template <class Element> LS_FN Element *ls_whole(Element *data) {
    return data;
}

/* 1: a branch that skips rare work is cheap here. */
#define LS_BRANCH_RARE 1

/* Bit patterns, as they are. */
LS_FN u32 ls_bits_f32(f32 x) {
    u32 bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}
LS_FN f32 ls_from_bits_f32(u32 bits) {
    f32 x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}
LS_FN u64 ls_bits_f64(f64 x) {
    u64 bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}
LS_FN f64 ls_from_bits_f64(u64 bits) {
    f64 x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}

/* a * b + c, rounded once. */
LS_FN f32 ls_fma_f32(f32 a, f32 b, f32 c) {
    return __builtin_fmaf(a, b, c);
}
LS_FN f64 ls_fma_f64(f64 a, f64 b, f64 c) {
    return __builtin_fma(a, b, c);
}

/* Quotient, correctly rounded, from any estimate y of 1 / d within 1 ulp (f64: 2^-20 of it will do),
 * where the compilers' own sequence trusts v_rcp for divisors whose significand is all ones. The
 * device's own instructions scale the operands to n and d, so that nothing over- or underflows on
 * the way, and the quotient back, rounded once; they also know zeros, infinities and NaN.
 *
 * Let p be the bits of the significand, u = 2^(-2p), 1 < d < 2 (for d = 1 all is exact) and y within
 * 1 ulp of 1 / d, as f64's first step makes it. The next makes it 1 / d rounded to nearest: for a
 * middle m of two numbers 1 - d m is an odd multiple of u, so 1 / d is u / d or more away from it.
 * Where it is near one, y is next to it, e = 1 - d y is exact, about d 2^(-p-1) and a multiple of
 * 2u, and e^2 < u. Newton's step y + y e is y e^2 too low, less than u / d but for d = 2 - 2^(1-p),
 * all ones, where y + y e may be a middle itself: Markstein's exception ("Computation of elementary
 * functions on the IBM RISC System/6000 processor", 1990). So e + 5/4 e^2 takes the place of e: it
 * rounds to e, with Newton's error, or where 5/4 e^2 > u / 2 to e + u, at most 0.6 u too high, and
 * for e = 2^-p, all ones, to e + 2u, which leaves the middle behind.
 *
 * Then q = n y with one correction is within 1 ulp of n / d, the last residual r = n - d q is exact,
 * and r y is added with one rounding: with y rounded to nearest that is the quotient rounded to
 * nearest, Markstein's theorem. */
LS_FN f32 ls_div_f32(f32 a, f32 b) {
    bool unused, scaled;
    const f32 d = __builtin_amdgcn_div_scalef(a, b, false, &unused);
    const f32 n = __builtin_amdgcn_div_scalef(a, b, true, &scaled);
    f32 y = __builtin_amdgcn_rcpf(d);
    const f32 rest = ls_fma_f32(-d, y, 1.0f); /* e */
    y = ls_fma_f32(ls_fma_f32(1.25f * rest, rest, rest), y, y);
    f32 q = n * y;
    q = ls_fma_f32(ls_fma_f32(-d, q, n), y, q);
    q = __builtin_amdgcn_div_fmasf(ls_fma_f32(-d, q, n), y, q, scaled);
    return __builtin_amdgcn_div_fixupf(q, b, a);
}
LS_FN f64 ls_div_f64(f64 a, f64 b) {
    bool unused, scaled;
    const f64 d = __builtin_amdgcn_div_scale(a, b, false, &unused);
    const f64 n = __builtin_amdgcn_div_scale(a, b, true, &scaled);
    f64 y = __builtin_amdgcn_rcp(d), rest = ls_fma_f64(-d, y, 1.0);
    y = ls_fma_f64(ls_fma_f64(rest, rest, rest), y, y);
    rest = ls_fma_f64(-d, y, 1.0);
    y = ls_fma_f64(ls_fma_f64(1.25 * rest, rest, rest), y, y);
    f64 q = n * y;
    q = ls_fma_f64(ls_fma_f64(-d, q, n), y, q);
    q = __builtin_amdgcn_div_fmas(ls_fma_f64(-d, q, n), y, q, scaled);
    return __builtin_amdgcn_div_fixup(q, b, a);
}

/* Square root, correctly rounded, from fma alone: whatever it is told, hipRTC 5.2 makes v_sqrt,
 * which is not, of every square root. An integer seed for 1/sqrt(x), Newton steps, and one step on
 * the exact residual x - s^2, after which rounding is right (Markstein, "Computation of elementary
 * functions on the IBM RISC System/6000 processor", 1990); small x is scaled so that the residual
 * is normal. Equal to IEEE for every f32; for f64 by Markstein's argument and the cases next to
 * midpoints, which are tested. */
LS_FN f32 ls_sqrt_f32(f32 x) {
    u32 small = ls_bits_f32(x) < 0x0c800000u; /* below 2^-102 */
    f32 scaled = small ? x * 0x1p60f : x, half = -0.5f * scaled;
    f32 y = ls_from_bits_f32(0x5f375a86u - (ls_bits_f32(scaled) >> 1));
    y = ls_fma_f32(y, ls_fma_f32(half * y, y, 0.5f), y);
    y = ls_fma_f32(y, ls_fma_f32(half * y, y, 0.5f), y);
    y = ls_fma_f32(y, ls_fma_f32(half * y, y, 0.5f), y);
    f32 s = scaled * y;
    s = ls_fma_f32(ls_fma_f32(-s, s, scaled), 0.5f * y, s);
    s = small ? s * 0x1p-30f : s;
    s = x > 0.0f && x < ls_from_bits_f32(0x7f800000u) ? s : x; /* zeros, infinity, NaN */
    return x < 0.0f ? ls_from_bits_f32(0x7fffffffu) : s;
}
LS_FN f64 ls_sqrt_f64(f64 x) {
    int small = ls_bits_f64(x) < 0x0600000000000000u; /* below 2^-927 */
    f64 scaled = small ? x * 0x1p260 : x, half = -0.5 * scaled;
    f64 y = ls_from_bits_f64(0x5fe6eb50c7b537a9u - (ls_bits_f64(scaled) >> 1));
    y = ls_fma_f64(y, ls_fma_f64(half * y, y, 0.5), y);
    y = ls_fma_f64(y, ls_fma_f64(half * y, y, 0.5), y);
    y = ls_fma_f64(y, ls_fma_f64(half * y, y, 0.5), y);
    y = ls_fma_f64(y, ls_fma_f64(half * y, y, 0.5), y);
    f64 s = scaled * y;
    s = ls_fma_f64(ls_fma_f64(-s, s, scaled), 0.5 * y, s);
    s = ls_fma_f64(ls_fma_f64(-s, s, scaled), 0.5 * y, s);
    s = small ? s * 0x1p-130 : s;
    s = x > 0.0 && x < ls_from_bits_f64(0x7ff0000000000000u) ? s : x;
    return x < 0.0 ? ls_from_bits_f64(0x7fffffffffffffffu) : s;
}

/* Where this thread is: in its block, in the grid, and in its group of LS_LANES lanes. */
#define LS_LANES 32u
LS_FN u32 ls_thread(void) {
    return __builtin_amdgcn_workitem_id_x();
}
LS_FN u32 ls_threads(void) {
    return __builtin_amdgcn_workgroup_size_x();
}
LS_FN u32 ls_block(void) {
    return __builtin_amdgcn_workgroup_id_x();
}
LS_FN u32 ls_blocks(void) {
#if LS_CODE_OBJECT >= 5 /* the launch leaves it beside the arguments */
    return *(const __attribute__((address_space(4))) u32 *)__builtin_amdgcn_implicitarg_ptr();
#else
    return __builtin_amdgcn_grid_size_x() / ls_threads();
#endif
}
LS_FN u32 ls_lane(void) {
    return ls_thread() & 31u;
}
LS_FN u32 ls_warp(void) {
    return ls_thread() >> 5;
}
LS_FN u32 ls_warps(void) {
    return ls_threads() >> 5;
}

/* ls_shuffle_xor(x, mask): the x of lane (own lane ^ mask) of the group, for mask < LS_LANES, all
 * lanes taking part. The byte address of ds_bpermute counts modulo the wave, so a thread's number
 * in its block will do for its lane. */
LS_FN i32 ls_shuffle_xor(i32 x, u32 mask) {
    return __builtin_amdgcn_ds_bpermute((i32)((ls_thread() ^ mask) << 2), x);
}
LS_FN u32 ls_shuffle_xor(u32 x, u32 mask) {
    return (u32)ls_shuffle_xor((i32)x, mask);
}
LS_FN f32 ls_shuffle_xor(f32 x, u32 mask) {
    return ls_from_bits_f32(ls_shuffle_xor(ls_bits_f32(x), mask));
}
LS_FN u64 ls_shuffle_xor(u64 x, u32 mask) {
    u32 low = ls_shuffle_xor((u32)x, mask), high = ls_shuffle_xor((u32)(x >> 32), mask);
    return (u64)high << 32 | low;
}
LS_FN i64 ls_shuffle_xor(i64 x, u32 mask) {
    return (i64)ls_shuffle_xor((u64)x, mask);
}
LS_FN f64 ls_shuffle_xor(f64 x, u32 mask) {
    return ls_from_bits_f64(ls_shuffle_xor(ls_bits_f64(x), mask));
}

/* Barriers, with memory ordered among those who wait: the threads of a block; the lanes of a group.
 */
LS_FN void ls_barrier(void) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
LS_FN void ls_warp_sync(void) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

/* Whether a release for the device writes the second cache back, as there are several of them. */
#if defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__)
#define LS_WRITES_BACK 1
#else
#define LS_WRITES_BACK 0
#endif

/* A barrier of the block after which thread 0's fence speaks for all its threads: what any of them
 * stored before the barrier, other blocks see after that fence. A fence waits for the stores of its
 * own wave, and where the waves of a block share a first cache (CU mode) neither s_barrier nor a
 * fence for the workgroup waits for any: so each wave waits for its own before it arrives. That is
 * all that a release for the device does, but for gfx94x and gfx950, where it writes the second
 * cache back too, which thread 0's fence then does once for the block. What other blocks stored,
 * thread 0's fence lets in for all waves in CU mode; elsewhere ls_barrier empties each wave's own
 * first cache. */
LS_FN void ls_barrier_release(void) {
#if LS_WRITES_BACK
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_waitcnt(0x0f70); /* vmcnt(0) */
#else
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
#endif
    ls_barrier();
}

/* Of a counter that blocks share, as every block of the device sees it: what this thread accessed
 * before ls_release comes before what it adds to the counter then; what it accesses after
 * ls_acquire, after what it read of the counter before. Halves, as each of them costs: on gfx94x and
 * gfx950 a release writes the second cache back, an acquire empties the first. */
LS_FN void ls_release(void) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
}
LS_FN void ls_acquire(void) {
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
}

/* A release of what was stored by LS_PUBLISH alone, and of all loads. Such a store goes through the
 * caches to where all blocks see it, and is there when it is done: nothing is left to write back. */
#if LS_WRITES_BACK
#define LS_PUBLISH(at, value) \
    __hip_atomic_store(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
LS_FN void ls_release_published(void) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_waitcnt(0x0f70); /* vmcnt(0) */
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
}
#else
#define LS_PUBLISH(at, value) (*(at) = (value))
LS_FN void ls_release_published(void) {
    ls_release();
}
#endif

/* Adds to a counter that blocks share and returns what it held. Relaxed: fences are the caller's.
 */
LS_FN u32 ls_atomic_add_u32(u32 *counter, u32 value) {
    return __hip_atomic_fetch_add(counter, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
LS_FN u64 ls_atomic_add_u64(u64 *counter, u64 value) {
    return __hip_atomic_fetch_add(counter, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
/* Lowers a value that blocks share; as relaxed. */
LS_FN void ls_atomic_min_i64(i64 *least, i64 value) {
    __hip_atomic_fetch_min(least, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

/* What such a counter holds now, whoever wrote it; and a moment's rest between two looks. */
LS_FN u32 ls_atomic_read_u32(const u32 *counter) {
    return __hip_atomic_load(counter, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
LS_FN void ls_pause(void) {
    __builtin_amdgcn_s_sleep(1);
}

/* Waits until the blocks of a cooperative launch have all come here, memory ordered among them. The
 * state, 0 at first, needs no reset: what they add in all is 2^31, so that its top bit changes when
 * the last one has added. */
LS_FN void ls_wait_for_blocks(u32 *state) {
    ls_barrier_release();
    if (ls_thread() == 0 && ls_blocks() > 1) {
        ls_release();
        const u32 before =
            ls_atomic_add_u32(state, ls_block() == 0 ? 0x80000000u - (ls_blocks() - 1) : 1);
        while (!((ls_atomic_read_u32(state) ^ before) & 0x80000000u)) ls_pause();
        ls_acquire();
    }
    ls_barrier();
}

#endif
