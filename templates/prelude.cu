/* prelude.cu: the base of generated code, CUDA C dialect (NVRTC, no header). The names and their
 * order are those of prelude.c, which explains them. Compiled with --fmad=false --ftz=false
 * --prec-div=true --prec-sqrt=true. */
#ifndef LS_PRELUDE
#define LS_PRELUDE

#pragma nv_diag_suppress 177 /* a kernel does not use all that stands here */

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
 * LS_THREADS(n) after it, the block size it is built for, LS_THREADS_ALONE(n) where a block may have
 * all registers of a multiprocessor; LS_SHARED memory of the block; LS_UNROLL
 * before a loop; LS_ROWS before the loop over a tile's rows. */
#define LS_FN static __device__ __forceinline__
#define LS_KERNEL extern "C" __global__ void
/* LS_BLOCKS: how many blocks of 256 a multiprocessor shall hold at least. Where it is not told, ptxas
 * aims at a full one, and spills for it. Of
 * small blocks, whose warps wait for each other, it shall hold 640 threads, or 512. */
#ifndef LS_BLOCKS
#define LS_BLOCKS 2
#endif
#define LS_THREADS(count)                                                                          \
    __launch_bounds__(count, (count) <= 128               ? (LS_BLOCKS > 1 ? 640 : 512) / (count)  \
                             : (count) < 256 * LS_BLOCKS ? 256 * LS_BLOCKS / (count)               \
                                                         : 1)
#define LS_THREADS_ALONE(count) __launch_bounds__(count, 1)
#define LS_SHARED __shared__
#define LS_RESTRICT __restrict__
#define LS_ALIGN(bytes) __align__(bytes)
#define LS_UNROLL _Pragma("unroll")
#define LS_ROWS

#define LS_TENSOR(all, at) ls_tensor(all, at)
template <class Element> LS_FN Element *ls_tensor(Element *const *all, i64 at) {
    Element *tensor = all[at];
#ifdef __CUDA_ARCH__
    __builtin_assume(__isGlobal(tensor));
#endif
    return tensor;
}

/* The array into which whole vectors are stored, as an address that NVVM does not know from that of the
 * elements: where a vector and its elements begin at one address, it splits the vector. It is one
 * of the device's memory, unless some arrays of the text are in shared memory (LS_PROMOTED). */
template <class Element> LS_FN Element *ls_whole(Element *data) {
#ifdef __CUDA_ARCH__
    asm("" : "+l"(data));
#ifndef LS_PROMOTED
    __builtin_assume(__isGlobal(data));
#endif
#endif
    return data;
}

/* 1: a branch that skips rare work is cheap here. */
#define LS_BRANCH_RARE 1

/* Bit patterns, as they are. */
LS_FN u32 ls_bits_f32(f32 x) {
    return __float_as_uint(x);
}
LS_FN f32 ls_from_bits_f32(u32 bits) {
    return __uint_as_float(bits);
}
LS_FN u64 ls_bits_f64(f64 x) {
    return (u64)__double_as_longlong(x);
}
LS_FN f64 ls_from_bits_f64(u64 bits) {
    return __longlong_as_double((i64)bits);
}

/* a * b + c, rounded once. */
LS_FN f32 ls_fma_f32(f32 a, f32 b, f32 c) {
    return __fmaf_rn(a, b, c);
}
LS_FN f64 ls_fma_f64(f64 a, f64 b, f64 c) {
    return __fma_rn(a, b, c);
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
    return __fsqrt_rn(x);
}
LS_FN f64 ls_sqrt_f64(f64 x) {
    return __dsqrt_rn(x);
}

/* The lesser and the greater of two as ls_min_f32 and ls_max_f32 have them, NaN and zeros too, in one
 * instruction where LS_EXTREMA_FROM says so, a number of targets.def: 80 for sm_80. */
#if defined(__CUDA_ARCH__) && defined(LS_EXTREMA_FROM)
#if __CUDA_ARCH__ >= 10 * LS_EXTREMA_FROM
#define LS_EXTREMA 1
#endif
#endif
LS_FN f32 ls_minimum_f32(f32 a, f32 b) {
#ifdef LS_EXTREMA
    f32 y;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
#else
    f32 y = a < b ? a : b;
    y = a == b ? ls_from_bits_f32(ls_bits_f32(a) | ls_bits_f32(b)) : y;
    y = a == a ? y : a;
#endif
    return y;
}
LS_FN f32 ls_maximum_f32(f32 a, f32 b) {
#ifdef LS_EXTREMA
    f32 y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
#else
    f32 y = a > b ? a : b;
    y = a == b ? ls_from_bits_f32(ls_bits_f32(a) & ls_bits_f32(b)) : y;
    y = a == a ? y : a;
#endif
    return y;
}

/* Rounds to bf16 and to f16 by one instruction, of which ptxas makes one for two neighbours. Its bits are
 * those of convert.h by the PTX manual: to nearest even, with subnormal numbers, every NaN 0x7fff.
 * LS_CONVERTS_FROM is a number of targets.def, 80 for sm_80. */
#if defined(__CUDA_ARCH__) && defined(LS_CONVERTS_FROM)
#if __CUDA_ARCH__ >= 10 * LS_CONVERTS_FROM
#define LS_CONVERTS 1
LS_FN bf16 ls_convert_bf16(f32 x) {
    bf16 stored;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(stored) : "f"(x));
    return stored;
}
LS_FN f16 ls_convert_f16(f32 x) {
    f16 stored;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(stored) : "f"(x));
    return stored;
}
#endif
#endif

/* The greater and the lesser value of a reduction: by one instruction, with the bits of ls_max_f32 but
 * for those of a NaN, as by the PTX manual NaN wins and -0 is below +0. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
LS_FN f32 ls_greater_f32(f32 a, f32 b) {
    f32 y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}
LS_FN f32 ls_lesser_f32(f32 a, f32 b) {
    f32 y;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}
#define LS_GREATER_f32(plain, a, b) ls_greater_f32(a, b)
#define LS_LESSER_f32(plain, a, b) ls_lesser_f32(a, b)
#define LS_GREATER_f64(plain, a, b) plain
#define LS_LESSER_f64(plain, a, b) plain
#define LS_GREATER(T, plain, a, b) LS_GREATER_##T(plain, a, b)
#define LS_LESSER(T, plain, a, b) LS_LESSER_##T(plain, a, b)
#else
#define LS_GREATER(T, plain, a, b) plain
#define LS_LESSER(T, plain, a, b) plain
#endif

/* Where this thread is: in its block, in the grid, and in its group of LS_LANES lanes, which is a
 * warp. */
#define LS_LANES 32u
LS_FN u32 ls_thread(void) {
    return threadIdx.x;
}
LS_FN u32 ls_threads(void) {
    return blockDim.x;
}
LS_FN u32 ls_block(void) {
    return blockIdx.x;
}
LS_FN u32 ls_blocks(void) {
    return gridDim.x;
}
LS_FN u32 ls_lane(void) {
    return threadIdx.x & 31u;
}
LS_FN u32 ls_warp(void) {
    return threadIdx.x >> 5;
}
LS_FN u32 ls_warps(void) {
    return blockDim.x >> 5;
}

/* ls_shuffle_xor(x, mask): the x of lane (own lane ^ mask) of the group, for mask < LS_LANES, all
 * lanes taking part. */
LS_FN u32 ls_shuffle_xor(u32 x, u32 mask) {
    return __shfl_xor_sync(0xffffffffu, x, (int)mask);
}
LS_FN i32 ls_shuffle_xor(i32 x, u32 mask) {
    return __shfl_xor_sync(0xffffffffu, x, (int)mask);
}
LS_FN f32 ls_shuffle_xor(f32 x, u32 mask) {
    return __shfl_xor_sync(0xffffffffu, x, (int)mask);
}
LS_FN u64 ls_shuffle_xor(u64 x, u32 mask) {
    return __shfl_xor_sync(0xffffffffu, x, (int)mask);
}
LS_FN i64 ls_shuffle_xor(i64 x, u32 mask) {
    return __shfl_xor_sync(0xffffffffu, x, (int)mask);
}
LS_FN f64 ls_shuffle_xor(f64 x, u32 mask) {
    return __shfl_xor_sync(0xffffffffu, x, (int)mask);
}

/* Barriers, with memory ordered among those who wait: the threads of a block; the lanes of a group.
 */
LS_FN void ls_barrier(void) {
    __syncthreads();
}
LS_FN void ls_warp_sync(void) {
    __syncwarp();
}

/* A barrier of the block after which thread 0's fence speaks for all its threads: what any of them
 * stored before the barrier, other blocks see after that fence. Nothing more is needed here: in the
 * PTX memory model a barrier synchronizes the threads, causality order is transitive, so their
 * stores come before thread 0's fence and the counter that it adds to, at whatever scope. */
LS_FN void ls_barrier_release(void) {
    __syncthreads();
}

/* Of a counter that blocks share, as every block of the device sees it: what this thread accessed
 * before ls_release comes before what it adds to the counter then; what it accesses after
 * ls_acquire, after what it read of the counter before. PTX has one fence for both. __threadfence()
 * would be one order of all threads' fences too, which costs more and nothing here rests on. */
LS_FN void ls_release(void) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
#else
    __threadfence();
#endif
}
LS_FN void ls_acquire(void) {
    ls_release();
}

/* A release of what was stored by LS_PUBLISH alone, and of all loads: a release costs no more. */
#define LS_PUBLISH(at, value) (*(at) = (value))
LS_FN void ls_release_published(void) {
    ls_release();
}

/* Adds to a counter that blocks share and returns what it held. Relaxed: fences are the caller's.
 */
LS_FN u32 ls_atomic_add_u32(u32 *counter, u32 value) {
    return atomicAdd(counter, value);
}
LS_FN u64 ls_atomic_add_u64(u64 *counter, u64 value) {
    return atomicAdd(counter, value);
}
/* Lowers a value that blocks share; as relaxed. */
LS_FN void ls_atomic_min_i64(i64 *least, i64 value) {
    atomicMin(least, value);
}

/* What such a counter holds now, whoever wrote it; and a moment's rest between two looks. */
LS_FN u32 ls_atomic_read_u32(const u32 *counter) {
    return *(const volatile u32 *)counter;
}
LS_FN void ls_pause(void) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 700
    __nanosleep(32);
#endif
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
