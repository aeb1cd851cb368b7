/* lanes.h: operands of vector instructions, lane by lane: modifiers of sources and of results. */
#ifndef AMD_LANES_H
#define AMD_LANES_H

#include "numbers.h"

/* The bits of numbers. */
typedef u32 f32, h16;
typedef u64 f64;

#define EACH_LANE(wave, lane)                  \
    for (u64 left_ = amd_exec(wave), lane = 0; \
         left_ && (lane = (u64)__builtin_ctzll(left_), true); left_ &= left_ - 1)

static inline u32 raw_32(const Wave *w, const Operand *o, u64 lane) {
    switch (o->kind) {
    case VECTOR: return w->v[o->at][lane];
    case SCALAR: return w->s[o->at];
    case SCC: return w->scc;
    default: return (u32)o->bits;
    }
}
static inline u64 raw_64(const Wave *w, const Operand *o, u64 lane) {
    switch (o->kind) {
    case VECTOR: return (u64)w->v[o->at + 1][lane] << 32 | w->v[o->at][lane];
    case SCALAR: return amd_scalar_64(w, o->at);
    case SCC: return w->scc;
    default: return o->bits;
    }
}

static inline u32 part_of(u32 bits, Part part, bool extends) {
    switch (part) {
    case BYTE_0:
    case BYTE_1:
    case BYTE_2:
    case BYTE_3:
        bits = bits >> 8 * (part - BYTE_0) & 255;
        return extends ? (u32)(i32)(int8_t)bits : bits;
    case WORD_0:
    case WORD_1:
        bits = bits >> 16 * (part - WORD_0) & 0xffff;
        return extends ? (u32)(i32)(i16)bits : bits;
    default: return bits;
    }
}

static inline u32 get_u32(const Wave *w, const Instruction *in, int i, u64 lane) {
    const Operand *o = &in->sources[i];
    u32 bits = raw_32(w, o, lane);
    if (o->part != DWORD) bits = part_of(bits, o->part, o->extends);
    if (o->absolute) bits &= ~SIGN_32;
    if (o->negative) bits ^= SIGN_32;
    return bits;
}
static inline u64 get_u64(const Wave *w, const Instruction *in, int i, u64 lane) {
    const Operand *o = &in->sources[i];
    u64 bits = raw_64(w, o, lane);
    if (o->absolute) bits &= ~SIGN_64;
    if (o->negative) bits ^= SIGN_64;
    return bits;
}
/* op_sel chooses the upper half, where the instruction has that. */
static inline u16 get_u16(const Wave *w, const Instruction *in, int i, u64 lane) {
    const Operand *o = &in->sources[i];
    u32 bits = raw_32(w, o, lane);
    if (o->part != DWORD) return (u16)part_of(bits, o->part, o->extends);
    return (u16)(in->select >> i & 1 ? bits >> 16 : bits);
}
static inline u32 get_h16(const Wave *w, const Instruction *in, int i, u64 lane) {
    const Operand *o = &in->sources[i];
    u32 bits = get_u16(w, in, i, lane);
    if (o->absolute) bits &= 0x7fff;
    if (o->negative) bits ^= 0x8000;
    return bits;
}
static inline u32 flush_32(const Wave *w, u32 x) {
    return w->flush_32 && (x & INFINITY_32) == 0 ? x & SIGN_32 : x;
}
static inline u64 flush_64(const Wave *w, u64 x) {
    return w->flush_64 && (x & INFINITY_64) == 0 ? x & SIGN_64 : x;
}
static inline u32 get_f32(const Wave *w, const Instruction *in, int i, u64 lane) {
    return flush_32(w, get_u32(w, in, i, lane));
}
static inline u64 get_f64(const Wave *w, const Instruction *in, int i, u64 lane) {
    return flush_64(w, get_u64(w, in, i, lane));
}

static inline void put_u32(Wave *w, const Instruction *in, u64 lane, u32 bits) {
    u32 *to = &w->v[in->result.at][lane];
    if (in->part == DWORD) {
        *to = bits;
        return;
    }
    const u32 wide = in->part >= WORD_0 ? 16 : 8;
    const u32 at = in->part >= WORD_0 ? 16u * (in->part - WORD_0) : 8u * (in->part - BYTE_0);
    const u32 mask = (wide == 16 ? 0xffffu : 255u) << at;
    const bool negative = bits >> (wide - 1) & 1;
    u32 rest = in->unused == 'k' ? *to : 0;
    if (in->unused == 'S' && negative) rest = ~0u << at;
    *to = (rest & ~mask) | (bits << at & mask);
}
static inline void put_u64(Wave *w, const Instruction *in, u64 lane, u64 bits) {
    w->v[in->result.at][lane] = (u32)bits;
    w->v[in->result.at + 1][lane] = (u32)(bits >> 32);
}
/* With op_sel the upper half; the other one of gfx9 is 0, of gfx11 what it was. */
static inline void put_u16(Wave *w, const Instruction *in, u64 lane, u32 bits) {
    u32 *to = &w->v[in->result.at][lane];
    const bool high = in->select >> in->source_count & 1;
    if (in->is_sdwa)
        put_u32(w, in, lane, bits & 0xffff);
    else if (high)
        *to = (*to & 0xffff) | bits << 16;
    else if (w->run->module->program.is_11)
        *to = (*to & 0xffff0000) | (bits & 0xffff);
    else
        *to = bits & 0xffff;
}
#define put_h16 put_u16

/* omod, then clamp, then what the mode does to subnormals. */
static inline u32 finish_32(const Wave *w, const Instruction *in, u32 bits) {
    if (in->scale && !is_nan_32(bits)) bits = bits_of_float(ldexpf(float_of(bits), in->scale));
    if (in->clamps) {
        if (!(float_of(bits) > 0)) bits = 0;
        if (float_of(bits) > 1) bits = 0x3f800000u;
    }
    return flush_32(w, bits);
}
static inline u64 finish_64(const Wave *w, const Instruction *in, u64 bits) {
    if (in->scale && !is_nan_64(bits)) bits = bits_of_double(ldexp(double_of(bits), in->scale));
    if (in->clamps) {
        if (!(double_of(bits) > 0)) bits = 0;
        if (double_of(bits) > 1) bits = 0x3ff0000000000000u;
    }
    return flush_64(w, bits);
}
static inline void put_f32(Wave *w, const Instruction *in, u64 lane, u32 bits) {
    put_u32(w, in, lane, finish_32(w, in, bits));
}
static inline void put_f64(Wave *w, const Instruction *in, u64 lane, u64 bits) {
    put_u64(w, in, lane, finish_64(w, in, bits));
}

/* Masks of lanes: one register of a wave32, two of a wave64. */
static inline u64 get_mask(const Wave *w, const Operand *o) {
    if (o->kind == CONSTANT) return o->bits & amd_lanes_all(w);
    return w->lanes == 64 ? amd_scalar_64(w, o->at) : w->s[o->at];
}
static inline void put_mask(Wave *w, const Operand *o, u64 mask) {
    w->s[o->at] = (u32)mask;
    if (w->lanes == 64) w->s[o->at + 1] = (u32)(mask >> 32);
}
static inline bool vcc_of(const Wave *w, u64 lane) {
    return amd_scalar_64(w, S_VCC) >> lane & 1;
}

#endif
