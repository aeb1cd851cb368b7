/* prelude.c: the base of generated code, C dialect (gcc, clang). prelude.cu and prelude.hip give
 * the same names, in the same order, to CUDA C and HIP C; everything after a prelude is one text
 * for all. Here a block is one thread and a group one lane, so barriers, fences and exchanges have
 * nothing to do. Header-free. Rules of the arithmetic: nothing but + - * /, sqrt, fma and integers;
 * no contraction. */
#ifndef LS_PRELUDE
#define LS_PRELUDE

#ifdef __FAST_MATH__
#error "Lockstep's results are exact to the bit: compile this file without -ffast-math and -Ofast"
#endif
/* Vectors go to functions that are inlined, and to nobody else's. */
#ifdef __GNUC__
#pragma GCC diagnostic ignored "-Wpsabi"
#endif
/* gcc makes a call, or a slow instruction, of each loop that copies a short row. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-loop-distribute-patterns")
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__) && (defined(__cplusplus) || !defined(__STRICT_ANSI__))
#pragma GCC optimize("fp-contract=off")
#endif

/* Types. A value of type bool is an int, 0 or 1; in memory it is a bool8. The narrow floats are
 * their bits: convert.h packs and unpacks them. */
typedef double f64;
typedef float f32;
typedef __INT64_TYPE__ i64;
typedef __INT32_TYPE__ i32;
typedef __UINT64_TYPE__ u64;
typedef __UINT32_TYPE__ u32;
typedef __INT16_TYPE__ i16;
typedef __UINT16_TYPE__ u16;
typedef __INT8_TYPE__ i8;
typedef __UINT8_TYPE__ u8;
typedef u8 bool8;
typedef u16 f16, bf16;
typedef u8 e4m3, e5m2;

/* Qualifiers: LS_FN a device function; LS_KERNEL an entry point, result type included;
 * LS_THREADS(n) after it, the block size it is built for, LS_THREADS_ALONE(n) where a block may
 * have all registers of a multiprocessor; LS_SHARED memory of the block; LS_UNROLL before a loop.
 */
#define LS_FN static inline __attribute__((always_inline))
#define LS_KERNEL __attribute__((visibility("default"))) void
#define LS_THREADS(count)
#define LS_THREADS_ALONE(count)
#define LS_SHARED
#define LS_RESTRICT __restrict__
#define LS_ALIGN(bytes) __attribute__((aligned(bytes)))
/* LS_GREATER, LS_LESSER: what max and min of floats combine by; `plain`: by the library. */
#define LS_GREATER(T, plain, a, b) plain
#define LS_LESSER(T, plain, a, b) plain
#define LS_UNROLL

/* Before a loop whose iterations touch no memory that others write. Where a compiler makes no
 * vector code of such a loop all the same, nobody need be warned. */
#ifdef __clang__
#define LS_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#pragma clang diagnostic ignored "-Wpass-failed"
#else
#define LS_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* The array of tensor `at` of a list; says of it what compilers should know: on a GPU, that it is
 * in device memory. */
#define LS_TENSOR(all, at) ((all)[at])

/* 1 where rare work is skipped by a branch; 0 where it is done for all, because a branch would keep
 * a loop from becoming vector code. The bits are the same. gcc makes no vector code of such work
 * anyhow. */
#ifdef __clang__
#define LS_BRANCH_RARE 0
#else
#define LS_BRANCH_RARE 1
#endif

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

/* Quotient, correctly rounded. */
LS_FN f32 ls_div_f32(f32 a, f32 b) {
    return a / b;
}
LS_FN f64 ls_div_f64(f64 a, f64 b) {
    return a / b;
}

/* Square root, correctly rounded. */
LS_FN f32 ls_sqrt_f32(f32 x) {
    return __builtin_sqrtf(x);
}
LS_FN f64 ls_sqrt_f64(f64 x) {
    return __builtin_sqrt(x);
}

/* Where this thread is: in its block, in the grid, and in its group of LS_LANES lanes. Blocks are
 * one dimensional; groups are 32 lanes on every GPU, whatever the width of its waves. */
#define LS_LANES 1u
LS_FN u32 ls_thread(void) {
    return 0;
}
LS_FN u32 ls_threads(void) {
    return 1;
}
LS_FN u32 ls_block(void) {
    return 0;
}
LS_FN u32 ls_blocks(void) {
    return 1;
}
LS_FN u32 ls_lane(void) {
    return 0;
}
LS_FN u32 ls_warp(void) {
    return 0;
}
LS_FN u32 ls_warps(void) {
    return 1;
}

/* ls_shuffle_xor(x, mask): the x of lane (own lane ^ mask) of the group, for mask < LS_LANES, all
 * lanes taking part; x of type u32, i32, f32, u64, i64 or f64. */
#define ls_shuffle_xor(x, mask) ((void)(mask), (x))

/* Barriers, with memory ordered among those who wait: the threads of a block; the lanes of a group.
 */
LS_FN void ls_barrier(void) {}
LS_FN void ls_warp_sync(void) {}

/* A barrier of the block after which thread 0's fence speaks for all its threads: what any of them
 * stored before the barrier, other blocks see after that fence. */
LS_FN void ls_barrier_release(void) {}

/* Of a counter that blocks share, as every block of the device sees it: what this thread accessed
 * before ls_release comes before what it adds to the counter then; what it accesses after
 * ls_acquire, after what it read of the counter before. */
LS_FN void ls_release(void) {}
LS_FN void ls_acquire(void) {}

/* A release of what was stored by LS_PUBLISH alone, and of all loads. */
#define LS_PUBLISH(at, value) (*(at) = (value))
LS_FN void ls_release_published(void) {}

/* Adds to a counter that blocks share and returns what it held. Relaxed: fences are the caller's.
 */
LS_FN u32 ls_atomic_add_u32(u32 *counter, u32 value) {
    u32 before = *counter;
    *counter = before + value;
    return before;
}
LS_FN u64 ls_atomic_add_u64(u64 *counter, u64 value) {
    u64 before = *counter;
    *counter = before + value;
    return before;
}
/* Lowers a value that blocks share; as relaxed. */
LS_FN void ls_atomic_min_i64(i64 *least, i64 value) {
    *least = value < *least ? value : *least;
}

/* What such a counter holds now, whoever wrote it; and a moment's rest between two looks. */
LS_FN u32 ls_atomic_read_u32(const u32 *counter) {
    return *counter;
}
LS_FN void ls_pause(void) {}

/* Waits until the blocks of a cooperative launch have all come here, memory ordered among them. */
LS_FN void ls_wait_for_blocks(u32 *state) {
    (void)state;
}

#endif
