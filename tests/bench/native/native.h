/* native.h: what the hand-written rivals and the traffic-only kernels share. A kernel is a function
 * of one struct Work; OpenMP's threads each take one contiguous share, so a step is one fork and
 * join. */
#pragma once
#define _GNU_SOURCE
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

#define PRAGMA(...) _Pragma(#__VA_ARGS__)

enum { BLOCK = 1024, LINE = 64 }; /* elements worked on at a time; bytes */

/* A part of one tensor of a list. */
typedef struct Piece {
    void *at[6];
    size_t n, before; /* elements; elements in the pieces before it */
} Piece;

typedef struct Work {
    void *at[8]; /* arrays, inputs first */
    const Piece *pieces;
    size_t piece_count;
    size_t n, rows, columns, pitch; /* n: all elements; pitch: from a row to the next */
    int64_t threads, stream; /* stream: outputs are larger than the caches and not read back */
    int64_t count;           /* optimizer steps taken */
    double scale, result, state[4];
} Work;

typedef struct Share {
    size_t from, to;
} Share;

/* What this thread does of n units, cut where `grain` divides. */
static inline Share share_of(size_t n, size_t grain, size_t thread, size_t threads) {
    const size_t grains = (n + grain - 1) / grain;
    const size_t from = grains * thread / threads * grain;
    const size_t to = grains * (thread + 1) / threads * grain;
    return (Share){from < n ? from : n, to < n ? to : n};
}

static inline float bits_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float from_bf16(uint16_t x) {
    return bits_float((uint32_t)x << 16);
}

/* To nearest even; a NaN stays one. */
static inline uint16_t to_bf16(float x) {
    const uint32_t bits = float_bits(x);
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? (bits >> 16) | 0x40 : rounded);
}

static inline float least(float a, float b) {
    return a < b ? a : b;
}
static inline float most(float a, float b) {
    return a > b ? a : b;
}

/* e^x to about 1e-7, without a branch: 2^k times a polynomial on [-ln 2 / 2, ln 2 / 2]. */
static inline float exponential(float x) {
    x = least(most(x, -87.0f), 88.0f);
    const float k = __builtin_rintf(x * 1.44269504089f);
    const float r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    return p * bits_float((uint32_t)((int32_t)k + 127) << 23);
}

/* The error function to 2e-7 of 1 (Abramowitz and Stegun 7.1.26); `power` is e^(-x^2). */
static inline float error_function(float x, float power) {
    const float t = 1.0f / (1.0f + 0.3275911f * fabsf(x));
    float p = 1.061405429f;
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    return copysignf(1.0f - p * t * power, x);
}

/* Asks for the lines of [data, data + bytes) ahead of their use. */
static inline void ahead(const void *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i += LINE) __builtin_prefetch((const char *)data + i, 0, 3);
}

static inline void once_ahead(const void *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i += LINE) __builtin_prefetch((const char *)data + i, 0, 0);
}

/* Copies past the caches where the target's lines are whole. */
static inline void stream_out(void *target, const void *source, size_t bytes) {
    char *to = target;
    const char *from = source;
#ifdef __SSE2__
    size_t head = (LINE - ((uintptr_t)to & (LINE - 1))) & (LINE - 1);
    if (head > bytes) head = bytes;
    memcpy(to, from, head);
    to += head, from += head, bytes -= head;
    for (; bytes >= LINE; bytes -= LINE, to += LINE, from += LINE) {
#ifdef __AVX512F__
        _mm512_stream_si512((void *)to, _mm512_loadu_si512(from));
#else
        for (int i = 0; i < LINE; i += 16)
            _mm_stream_si128((void *)(to + i), _mm_loadu_si128((const void *)(from + i)));
#endif
    }
#endif
    memcpy(to, from, bytes);
}
