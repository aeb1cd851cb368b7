/* vector.c: instructions on lanes: those of vector.def, and those with masks, with two results or
 * across lanes. */
#include <string.h>

#include "lanes.h"

/* ---- for the rows of vector.def ---- */

static u32 reverse(u32 a) {
    u32 turned = 0;
    for (u32 i = 0; i < 32; i++) turned |= (a >> i & 1u) << (31 - i);
    return turned;
}
/* Bits from the top that are like the sign; -1 when all are. */
static u32 sign_run(u32 a) {
    const u32 changes = a ^ (a & SIGN_32 ? ~0u : 0);
    return changes ? (u32)__builtin_clz(changes) : ~0u;
}
static u32 field_u32(u32 a, u32 at, u32 count) {
    return a >> at & ((1u << count) - 1);
}
static u32 field_i32(u32 a, u32 at, u32 count) {
    if (count == 0) return 0;
    const u32 field = field_u32(a, at, count);
    const u32 read = at + count > 32 ? 32 - at : count;
    if (at + count > 32) return (u32)((i32)a >> at); /* the sign goes on */
    return field >> (read - 1) & 1 ? field | ~0u << (read - 1) : field;
}
static i32 signed_24(u32 a) {
    return (i32)(a << 8) >> 8;
}
static u32 least_u32(u32 a, u32 b) {
    return a < b ? a : b;
}
static u32 most_u32(u32 a, u32 b) {
    return a > b ? a : b;
}
static u32 least_i32(u32 a, u32 b) {
    return (i32)a < (i32)b ? a : b;
}
static u32 most_i32(u32 a, u32 b) {
    return (i32)a > (i32)b ? a : b;
}
static u32 below(u64 lanes) {
    return (i64)lanes <= 0 ? 0 : lanes >= 32 ? ~0u : (1u << lanes) - 1;
}
/* Bytes of {a, b}: 0 to 3 are b's; 8 to 11 the signs of bytes 1, 3, 5, 7; 12 is 0, more 255. */
static u32 permute(u32 a, u32 b, u32 selector) {
    const u64 bytes = (u64)a << 32 | b;
    u32 made = 0;
    for (u32 i = 0; i < 4; i++) {
        const u32 name = selector >> (8 * i) & 255;
        u32 byte = name < 8 ? (u32)(bytes >> (8 * name)) & 255 : name == 12 ? 0 : 255;
        if (name >= 8 && name < 12) byte = bytes >> (16 * (name - 8) + 15) & 1 ? 255 : 0;
        made |= byte << (8 * i);
    }
    return made;
}
static u32 mantissa_32(u32 a) {
    int exponent;
    const float x = float_of(a);
    return x - x != 0 ? number_32(x, a, a, a) : bits_of_float(frexpf(x, &exponent));
}
static u64 mantissa_64(u64 a) {
    int exponent;
    const double x = double_of(a);
    return x - x != 0 ? number_64(x, a, a, a) : bits_of_double(frexp(x, &exponent));
}
static i32 exponent_of(double x) {
    int exponent = 0;
    if (x - x == 0) frexp(x, &exponent);
    return exponent;
}
static u64 nan_to_64(u32 a) {
    return (u64)(a & SIGN_32) << 32 | INFINITY_64 | (u64)(a & 0x7fffffu) << 29;
}
static u32 nan_to_32(u64 a) {
    return (u32)(a >> 32 & SIGN_32) | INFINITY_32 | (u32)(a >> 29 & 0x7fffffu) | QUIET_32;
}

static double inverse(double x) {
    return 1 / x;
}
static double inverse_root(double x) {
    return 1 / sqrt(x);
}

/* Within one unit of the last place of f(a), another way at each call; whether subnormals are zeros
 * is another way too, as manuals and compilers do not agree. */
static u32 about_32(const Wave *w, u32 a, double (*f)(double)) {
    const bool flushes = amd_random(w->run, 2);
    if (flushes && exponent_32(a) == 0) a &= SIGN_32;
    const double exact = f((double)float_of(a));
    const u32 nearest = number_32((float)exact, a, a, a);
    const u32 size = nearest & ~SIGN_32;
    if (size == 0 || size >= INFINITY_32) return nearest;
    if (flushes && exponent_32(nearest) == 0) return nearest & SIGN_32;
    const u32 made = nearest + amd_random(w->run, 3) - 1;
    const int last = exponent_32(nearest) ? ilogb(exact) - 23 : -149;
    const bool near = fabs((double)float_of(made) - exact) <= ldexp(1, last);
    return near && (made & ~SIGN_32) < INFINITY_32 ? made : nearest;
}
/* Within 2^29 of them, as the manual has it. */
static u64 about_64(const Wave *w, u64 a, double (*f)(double)) {
    const u64 nearest = number_64(f(double_of(a)), a, a, a), size = nearest & ~SIGN_64;
    if (exponent_64(size) < 2 || exponent_64(size) > 2045) return nearest;
    return nearest + amd_random(w->run, 1u << 30) - (1u << 29);
}

#define ONE(name, D, A, value)                               \
    static void run_##name(Wave *w, const Instruction *in) { \
        EACH_LANE(w, lane) {                                 \
            const A a = get_##A(w, in, 0, lane);             \
            put_##D(w, in, lane, value);                     \
        }                                                    \
    }
#define TWO(name, D, A, B, value)                            \
    static void run_##name(Wave *w, const Instruction *in) { \
        EACH_LANE(w, lane) {                                 \
            const A a = get_##A(w, in, 0, lane);             \
            const B b = get_##B(w, in, 1, lane);             \
            put_##D(w, in, lane, value);                     \
        }                                                    \
    }
#define THREE(name, D, A, B, C, value)                       \
    static void run_##name(Wave *w, const Instruction *in) { \
        EACH_LANE(w, lane) {                                 \
            const A a = get_##A(w, in, 0, lane);             \
            const B b = get_##B(w, in, 1, lane);             \
            const C c = get_##C(w, in, 2, lane);             \
            put_##D(w, in, lane, value);                     \
        }                                                    \
    }
#define ACC(name, D, A, B, value) THREE(name, D, A, B, D, value)
#include "vector.def"

/* ---- masks in or out ---- */

static void run_cndmask(Wave *w, const Instruction *in) {
    const Operand vcc = {.kind = SCALAR, .at = S_VCC};
    const u64 mask = get_mask(w, in->source_count > 2 ? &in->sources[2] : &vcc);
    EACH_LANE(w, lane)
    put_u32(w, in, lane, get_u32(w, in, mask >> lane & 1 ? 1 : 0, lane));
}

/* a + b + carry, a - b - carry, b - a - carry; the carry out, 0 for lanes that are off. */
static void carry(Wave *w, const Instruction *in, int sign, bool reversed) {
    const u64 before = in->source_count > 2 ? get_mask(w, &in->sources[2]) : 0;
    u64 after = 0;
    EACH_LANE(w, lane) {
        const u64 a = get_u32(w, in, reversed, lane), b = get_u32(w, in, !reversed, lane);
        const u64 one = before >> lane & 1, sum = sign > 0 ? a + b + one : a - b - one;
        after |= (sum >> 32 & 1) << lane;
        put_u32(w, in, lane, (u32)sum);
    }
    put_mask(w, &in->mask, after);
}
static void run_add_carry(Wave *w, const Instruction *in) {
    carry(w, in, 1, false);
}
static void run_sub_carry(Wave *w, const Instruction *in) {
    carry(w, in, -1, false);
}
static void run_subrev_carry(Wave *w, const Instruction *in) {
    carry(w, in, -1, true);
}

static void run_mad_u64_u32(Wave *w, const Instruction *in) {
    u64 after = 0;
    EACH_LANE(w, lane) {
        const u64 product = (u64)get_u32(w, in, 0, lane) * get_u32(w, in, 1, lane);
        const u64 sum = product + get_u64(w, in, 2, lane);
        after |= (u64)(sum < product) << lane;
        put_u64(w, in, lane, sum);
    }
    put_mask(w, &in->mask, after);
}
static void run_mad_i64_i32(Wave *w, const Instruction *in) {
    u64 after = 0;
    EACH_LANE(w, lane) {
        const i64 product = (i64)(i32)get_u32(w, in, 0, lane) * (i32)get_u32(w, in, 1, lane);
        i64 sum;
        const i64 c = (i64)get_u64(w, in, 2, lane);
        after |= (u64)__builtin_add_overflow(product, c, &sum) << lane;
        put_u64(w, in, lane, (u64)sum);
    }
    put_mask(w, &in->mask, after);
}

#define DIV_SCALE(N)                                                                   \
    static void run_div_scale_f##N(Wave *w, const Instruction *in) {                   \
        u64 mask = 0;                                                                  \
        EACH_LANE(w, lane) {                                                           \
            bool scaled;                                                               \
            put_f##N(w, in, lane,                                                      \
                     div_scale_##N(get_f##N(w, in, 0, lane), get_f##N(w, in, 1, lane), \
                                   get_f##N(w, in, 2, lane), &scaled));                \
            mask |= (u64)scaled << lane;                                               \
        }                                                                              \
        put_mask(w, &in->mask, mask);                                                  \
    }
DIV_SCALE(32)
DIV_SCALE(64)

/* ---- two singles at once ---- */

static u32 get_packed(const Wave *w, const Instruction *in, int i, bool high, u64 lane) {
    const Operand *o = &in->sources[i];
    const bool upper = (high ? in->select_high : in->select) >> i & 1;
    u32 bits = o->kind == CONSTANT ? (upper ? 0 : (u32)o->bits)
                                   : (u32)(raw_64(w, o, lane) >> (upper ? 32 : 0));
    if ((high ? in->negate_high : in->negate_low) >> i & 1) bits ^= SIGN_32;
    return flush_32(w, bits);
}
#define PACKED(name, value)                                                                \
    static void run_pk_##name(Wave *w, const Instruction *in) {                            \
        EACH_LANE(w, lane) {                                                               \
            u32 made[2];                                                                   \
            for (int high = 0; high < 2; high++) {                                         \
                const u32 a = get_packed(w, in, 0, high, lane);                            \
                const u32 b = get_packed(w, in, 1, high, lane);                            \
                const u32 c = in->source_count > 2 ? get_packed(w, in, 2, high, lane) : 0; \
                (void)c;                                                                   \
                made[high] = finish_32(w, in, value);                                      \
            }                                                                              \
            put_u64(w, in, lane, (u64)made[1] << 32 | made[0]);                            \
        }                                                                                  \
    }
PACKED(add_f32, add_32(a, b))
PACKED(mul_f32, multiply_32(a, b))
PACKED(fma_f32, fuse_32(a, b, c))
static void run_pk_mov(Wave *w, const Instruction *in) {
    EACH_LANE(w, lane) {
        const u64 a = raw_64(w, &in->sources[0], lane), b = raw_64(w, &in->sources[1], lane);
        const u32 low = (u32)(a >> (in->select & 1 ? 32 : 0));
        const u32 high = (u32)(b >> (in->select & 2 ? 32 : 0));
        put_u64(w, in, lane, (u64)high << 32 | low);
    }
}

/* ---- two 16-bit integers at once ---- */

static u16 get_half(const Wave *w, const Instruction *in, int i, bool high, u64 lane) {
    const u32 bits = raw_32(w, &in->sources[i], lane);
    return (u16)((high ? in->select_high : in->select) >> i & 1 ? bits >> 16 : bits);
}
#define HALVES(name, value)                                                              \
    static void run_pk_##name(Wave *w, const Instruction *in) {                          \
        EACH_LANE(w, lane) {                                                             \
            u32 made = 0;                                                                \
            for (int high = 0; high < 2; high++) {                                       \
                const u32 a = get_half(w, in, 0, high, lane);                            \
                const u32 b = get_half(w, in, 1, high, lane);                            \
                const u32 c = in->source_count > 2 ? get_half(w, in, 2, high, lane) : 0; \
                (void)c;                                                                 \
                made |= ((value)&0xffffu) << (16 * high);                                \
            }                                                                            \
            put_u32(w, in, lane, made);                                                  \
        }                                                                                \
    }
HALVES(lshlrev_b16, b << (a & 15))
HALVES(lshrrev_b16, b >> (a & 15))
HALVES(ashrrev_i16, (u32)((i16)b >> (a & 15)))
HALVES(add_u16, a + b)
HALVES(add_i16, a + b)
HALVES(sub_u16, a - b)
HALVES(sub_i16, a - b)
HALVES(mul_lo_u16, a *b)
HALVES(mad_u16, a *b + c)
HALVES(mad_i16, a *b + c)
HALVES(min_u16, least_u32(a, b))
HALVES(max_u16, most_u32(a, b))
HALVES(min_i16, least_i32((u32)(i16)a, (u32)(i16)b))
HALVES(max_i16, most_i32((u32)(i16)a, (u32)(i16)b))

/* ---- across lanes: some of them whatever EXEC says ---- */

static void run_readlane(Wave *w, const Instruction *in) {
    const u32 lane = raw_32(w, &in->sources[1], 0) & (w->lanes - 1);
    w->s[in->result.at] = raw_32(w, &in->sources[0], lane);
}
static void run_writelane(Wave *w, const Instruction *in) {
    const u32 lane = raw_32(w, &in->sources[1], 0) & (w->lanes - 1);
    w->v[in->result.at][lane] = raw_32(w, &in->sources[0], 0);
}
static void run_readfirstlane(Wave *w, const Instruction *in) {
    const u64 exec = amd_exec(w);
    const u64 lane = exec ? (u64)__builtin_ctzll(exec) : 0;
    w->s[in->result.at] = raw_32(w, &in->sources[0], lane);
}
static void run_swap(Wave *w, const Instruction *in) {
    EACH_LANE(w, lane) {
        const u32 kept = w->v[in->result.at][lane];
        w->v[in->result.at][lane] = w->v[in->sources[0].at][lane];
        w->v[in->sources[0].at][lane] = kept;
    }
}
/* M0 counts from the register that is named: the source's, the result's. */
static void move_relative(Wave *w, const Instruction *in, bool source, bool result) {
    const u32 m0 = w->s[S_M0], from = in->sources[0].at + (source ? m0 : 0);
    const u32 to = in->result.at + (result ? m0 : 0);
    if (from >= ACCUMULATORS || to >= ACCUMULATORS) amd_fail(w, "index %u", m0);
    if (w->run->failed) return;
    const bool constant = in->sources[0].kind != VECTOR;
    EACH_LANE(w, lane)
    w->v[to][lane] = constant ? raw_32(w, &in->sources[0], lane) : w->v[from][lane];
}
static void run_movrels(Wave *w, const Instruction *in) {
    move_relative(w, in, true, false);
}
static void run_movreld(Wave *w, const Instruction *in) {
    move_relative(w, in, false, true);
}
static void run_nothing(Wave *w, const Instruction *in) {
    (void)w, (void)in;
}

static const Operation operations[] = {
#define ONE(name, D, A, value) {#name, run_##name, LANE, #D, {#A}},
#define TWO(name, D, A, B, value) {#name, run_##name, LANE, #D, {#A, #B}},
#define THREE(name, D, A, B, C, value) {#name, run_##name, LANE, #D, {#A, #B, #C}},
#define ACC(name, D, A, B, value) {#name, run_##name, ACCUMULATE, #D, {#A, #B, #D}},
#include "vector.def"
    {"v_cndmask_b32", run_cndmask, LANE, "u32", {"f32", "f32", "mask"}},
    {"v_add_co_u32", run_add_carry, CARRY, "u32", {"u32", "u32"}},
    {"v_sub_co_u32", run_sub_carry, CARRY, "u32", {"u32", "u32"}},
    {"v_subrev_co_u32", run_subrev_carry, CARRY, "u32", {"u32", "u32"}},
    {"v_addc_co_u32", run_add_carry, CARRY, "u32", {"u32", "u32", "mask"}},
    {"v_subb_co_u32", run_sub_carry, CARRY, "u32", {"u32", "u32", "mask"}},
    {"v_subbrev_co_u32", run_subrev_carry, CARRY, "u32", {"u32", "u32", "mask"}},
    {"v_mad_u64_u32", run_mad_u64_u32, CARRY, "u64", {"u32", "u32", "u64"}},
    {"v_mad_i64_i32", run_mad_i64_i32, CARRY, "u64", {"u32", "u32", "i64"}},
    {"v_div_scale_f32", run_div_scale_f32, CARRY, "f32", {"f32", "f32", "f32"}},
    {"v_div_scale_f64", run_div_scale_f64, CARRY, "f64", {"f64", "f64", "f64"}},
    {"v_pk_add_f32", run_pk_add_f32, LANE, "p32", {"p32", "p32"}},
    {"v_pk_mul_f32", run_pk_mul_f32, LANE, "p32", {"p32", "p32"}},
    {"v_pk_fma_f32", run_pk_fma_f32, LANE, "p32", {"p32", "p32", "p32"}},
    {"v_pk_mov_b32", run_pk_mov, LANE, "u64", {"u64", "u64"}},
    {"v_pk_lshlrev_b16", run_pk_lshlrev_b16, LANE, "u32", {"u32", "u32"}},
    {"v_pk_lshrrev_b16", run_pk_lshrrev_b16, LANE, "u32", {"u32", "u32"}},
    {"v_pk_ashrrev_i16", run_pk_ashrrev_i16, LANE, "u32", {"u32", "u32"}},
    {"v_pk_add_u16", run_pk_add_u16, LANE, "u32", {"u32", "u32"}},
    {"v_pk_add_i16", run_pk_add_i16, LANE, "u32", {"u32", "u32"}},
    {"v_pk_sub_u16", run_pk_sub_u16, LANE, "u32", {"u32", "u32"}},
    {"v_pk_sub_i16", run_pk_sub_i16, LANE, "u32", {"u32", "u32"}},
    {"v_pk_mul_lo_u16", run_pk_mul_lo_u16, LANE, "u32", {"u32", "u32"}},
    {"v_pk_min_u16", run_pk_min_u16, LANE, "u32", {"u32", "u32"}},
    {"v_pk_max_u16", run_pk_max_u16, LANE, "u32", {"u32", "u32"}},
    {"v_pk_min_i16", run_pk_min_i16, LANE, "u32", {"u32", "u32"}},
    {"v_pk_max_i16", run_pk_max_i16, LANE, "u32", {"u32", "u32"}},
    {"v_pk_mad_u16", run_pk_mad_u16, LANE, "u32", {"u32", "u32", "u32"}},
    {"v_pk_mad_i16", run_pk_mad_i16, LANE, "u32", {"u32", "u32", "u32"}},
    {"v_readlane_b32", run_readlane, ONE_SCALAR, "u32", {"u32", "u32"}},
    {"v_writelane_b32", run_writelane, LANE, "u32", {"u32", "u32"}},
    {"v_readfirstlane_b32", run_readfirstlane, ONE_SCALAR, "u32", {"u32"}},
    {"v_swap_b32", run_swap, LANE, "u32", {"u32"}},
    {"v_movrels_b32", run_movrels, LANE, "u32", {"u32"}},
    {"v_movreld_b32", run_movreld, LANE, "u32", {"u32"}},
    {"v_nop", run_nothing, RAW, "", {""}},
};

const Operation *amd_vector(const char *name) {
    static const char *const names[][2] = {
#define NAME(gfx11, gfx9) {#gfx11, #gfx9},
#include "vector.def"
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i][0], name) == 0) name = names[i][1];
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (strcmp(operations[i].name, name) == 0) return &operations[i];
    return NULL;
}

/* ---- DPP ---- */

/* The lane that a lane reads; negative: none. */
static int dpp_lane(const Instruction *in, int lane, int lanes) {
    const int row = lane & ~15, at = lane & 15, n = (int)in->dpp_value;
    switch (in->dpp) {
    case DPP_QUAD: return (lane & ~3) | (n >> 2 * (lane & 3) & 3);
    case DPP_ROW_SHL: return at + n < 16 ? lane + n : -1;
    case DPP_ROW_SHR: return at - n >= 0 ? lane - n : -1;
    case DPP_ROW_ROR: return row | ((at - n) & 15);
    case DPP_MIRROR: return row | (15 - at);
    case DPP_HALF_MIRROR: return (lane & ~7) | (7 - (lane & 7));
    case DPP_SHARE: return row | n;
    case DPP_XMASK: return row | (at ^ n);
    case DPP_BCAST15: return row ? row - 1 : -1;
    case DPP_BCAST31: return lane >= 32 ? 31 : -1;
    case DPP_WAVE_SHL: return lane + 1 < lanes ? lane + 1 : -1;
    case DPP_WAVE_SHR: return lane - 1;
    case DPP_WAVE_ROL: return (lane + 1) & (lanes - 1);
    case DPP_WAVE_ROR: return (lane - 1) & (lanes - 1);
    default: return lane;
    }
}

void amd_run_dpp(Wave *w, const Instruction *in) {
    const u64 exec = amd_exec(w);
    Instruction own = *in;
    u64 writes = 0;
    for (int lane = 0; lane < (int)w->lanes; lane++) {
        const int from = dpp_lane(in, lane, (int)w->lanes);
        const bool valid = from >= 0 && (in->fetch_inactive || exec >> from & 1);
        const bool on = in->row_mask >> (lane / 16) & in->bank_mask >> (lane % 16 / 4) & 1;
        if (on && (valid || in->bound)) writes |= 1ull << lane;
        w->v[SPARE][lane] = valid ? raw_32(w, &in->sources[0], (u64)from) : 0;
    }
    own.sources[0].kind = VECTOR;
    own.sources[0].at = SPARE;
    const u64 before = amd_scalar_64(w, S_EXEC), on = exec & writes;
    w->s[S_EXEC] = (u32)on;
    w->s[S_EXEC + 1] = (u32)(on >> 32);
    in->operation->run(w, &own);
    if (in->to_exec) return;
    w->s[S_EXEC] = (u32)before;
    w->s[S_EXEC + 1] = (u32)(before >> 32);
}

/* ---- registers counted from an index ---- */

static void move_register(Wave *w, Operand *o, bool is_moved) {
    if (o->kind != VECTOR || !is_moved) return;
    o->at = (u16)(o->at + (w->s[S_M0] & 255));
    if (o->at >= ACCUMULATORS) amd_fail(w, "index %u", w->s[S_M0] & 255);
}

/* M0 bits 12 to 14: the sources; 15: the result. */
void amd_run_indexed(Wave *w, const Instruction *in) {
    Instruction own = *in;
    for (u32 i = 0; i < 3; i++) move_register(w, &own.sources[i], w->s[S_M0] >> (12 + i) & 1);
    move_register(w, &own.result, w->s[S_M0] >> 15 & 1);
    if (in->dpp || in->is_dual || in->operation->form == ACCUMULATE)
        amd_fail(w, "an index is not known for it");
    if (!w->run->failed) in->run(w, &own);
}

/* ---- VOPD: both read before either writes ---- */

void amd_run_dual(Wave *w, const Instruction *in) {
    Instruction first = *in;
    first.result.at = SPARE + 1;
    in->operation->run(w, &first);
    in[1].operation->run(w, &in[1]);
    EACH_LANE(w, lane) w->v[in->result.at][lane] = w->v[SPARE + 1][lane];
}
