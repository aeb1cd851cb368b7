/* scalar.c: instructions on scalar registers: those of scalar.def, and what changes EXEC, the mode,
 * or where the wave goes on. */
#include <stdio.h>
#include <string.h>

#include "lanes.h"

/* ---- for the rows of scalar.def ---- */

static u32 reverse(u32 a) {
    u32 turned = 0;
    for (u32 i = 0; i < 32; i++) turned |= (a >> i & 1u) << (31 - i);
    return turned;
}
static u32 sign_run(u32 a) {
    const u32 changes = a ^ (a & SIGN_32 ? ~0u : 0);
    return changes ? (u32)__builtin_clz(changes) : ~0u;
}
/* From bit b[5:0] on, b[22:16] bits. */
static u64 scalar_field(u64 a, u32 b, u32 most, bool is_signed) {
    const u32 at = b & most, count = b >> 16 & 127;
    const u64 moved = is_signed ? (u64)((i64)a >> at) : a >> at;
    if (count == 0) return 0;
    if (count >= 64) return moved;
    const u64 field = moved & ((1ull << count) - 1);
    return is_signed && field >> (count - 1) & 1 ? field | ~0ull << count : field;
}

static void put_s_u32(Wave *w, const Instruction *in, u32 bits) {
    w->s[in->result.at] = bits;
}
static void put_s_u64(Wave *w, const Instruction *in, u64 bits) {
    w->s[in->result.at] = (u32)bits;
    w->s[in->result.at + 1] = (u32)(bits >> 32);
}
static u32 get_s_u32(const Wave *w, const Instruction *in, int i) {
    return raw_32(w, &in->sources[i], 0);
}
static u64 get_s_u64(const Wave *w, const Instruction *in, int i) {
    return raw_64(w, &in->sources[i], 0);
}
/* SOPK: 16 bits, with their sign or without. */
static u32 get_s_k16(const Wave *w, const Instruction *in, int i) {
    const u32 bits = get_s_u32(w, in, i);
    return in->sources[i].kind == CONSTANT ? (u32)(i32)(i16)bits : bits;
}
static u32 get_s_z16(const Wave *w, const Instruction *in, int i) {
    const u32 bits = get_s_u32(w, in, i);
    return in->sources[i].kind == CONSTANT ? bits & 0xffff : bits;
}

static u32 get_s_f32(const Wave *w, const Instruction *in, int i) {
    return flush_32(w, get_s_u32(w, in, i));
}
#define put_s_f32 put_s_u32

#define S_ONE(name, D, A, value, carry)                      \
    static void run_##name(Wave *w, const Instruction *in) { \
        const A a = get_s_##A(w, in, 0);                     \
        const bool scc = w->scc;                             \
        const D d = value;                                   \
        put_s_##D(w, in, d);                                 \
        w->scc = carry;                                      \
        (void)scc;                                           \
    }
#define S_TWO(name, D, A, B, value, carry)                   \
    static void run_##name(Wave *w, const Instruction *in) { \
        const A a = get_s_##A(w, in, 0);                     \
        const B b = get_s_##B(w, in, 1);                     \
        const bool scc = w->scc;                             \
        const D d = value;                                   \
        put_s_##D(w, in, d);                                 \
        w->scc = carry;                                      \
        (void)scc;                                           \
    }
#define S_TEST(name, T, holds)                               \
    static void run_##name(Wave *w, const Instruction *in) { \
        const T a = get_s_##T(w, in, 0);                     \
        const T b = get_s_##T(w, in, 1);                     \
        w->scc = holds;                                      \
    }
typedef u32 k16, z16;
#include "scalar.def"

/* a * b + c; of s_fmac c is the result's register. */
static void run_fma(Wave *w, const Instruction *in) {
    const u32 a = get_s_f32(w, in, 0), b = get_s_f32(w, in, 1);
    const u32 c = in->source_count > 2 ? get_s_f32(w, in, 2) : flush_32(w, w->s[in->result.at]);
    put_s_u32(w, in, flush_32(w, fuse_32(a, b, c)));
}
static void run_cmov_32(Wave *w, const Instruction *in) {
    if (w->scc) put_s_u32(w, in, get_s_u32(w, in, 0));
}
static void run_cmov_64(Wave *w, const Instruction *in) {
    if (w->scc) put_s_u64(w, in, get_s_u64(w, in, 0));
}
static void run_addk(Wave *w, const Instruction *in) {
    const u32 a = w->s[in->result.at], b = get_s_k16(w, in, 0), d = a + b;
    w->s[in->result.at] = d;
    w->scc = (~(a ^ b) & (a ^ d)) >> 31;
}
static void run_mulk(Wave *w, const Instruction *in) {
    w->s[in->result.at] *= get_s_k16(w, in, 0);
}
static void run_bitset0(Wave *w, const Instruction *in) {
    w->s[in->result.at] &= ~(1u << (get_s_u32(w, in, 0) & 31));
}
static void run_bitset1(Wave *w, const Instruction *in) {
    w->s[in->result.at] |= 1u << (get_s_u32(w, in, 0) & 31);
}

/* D = EXEC; EXEC = what comes of S0 and EXEC; SCC whether a lane is on. */
#define SAVE(how, value)                                                    \
    static void run_##how##_save_64(Wave *w, const Instruction *in) {       \
        const u64 s = get_s_u64(w, in, 0), exec = amd_scalar_64(w, S_EXEC); \
        const u64 made = value;                                             \
        put_s_u64(w, in, exec);                                             \
        w->s[S_EXEC] = (u32)made;                                           \
        w->s[S_EXEC + 1] = (u32)(made >> 32);                               \
        w->scc = made != 0;                                                 \
    }                                                                       \
    static void run_##how##_save_32(Wave *w, const Instruction *in) {       \
        const u32 s = get_s_u32(w, in, 0), exec = w->s[S_EXEC];             \
        const u32 made = value;                                             \
        put_s_u32(w, in, exec);                                             \
        w->s[S_EXEC] = made;                                                \
        w->scc = made != 0;                                                 \
    }
SAVE(and, s &exec)
SAVE(or, s | exec)
SAVE(xor, s ^ exec)
SAVE(andn2, s & ~exec)
SAVE(orn2, s | ~exec)

/* ---- where it goes on ---- */

static u64 vcc(const Wave *w) {
    return amd_scalar_64(w, S_VCC) & amd_lanes_all(w);
}
#define BRANCH(name, condition)                              \
    static void run_##name(Wave *w, const Instruction *in) { \
        if (condition) w->pc = in->target;                   \
    }
BRANCH(s_branch, true)
BRANCH(s_cbranch_scc0, !w->scc)
BRANCH(s_cbranch_scc1, w->scc)
BRANCH(s_cbranch_vccz, vcc(w) == 0)
BRANCH(s_cbranch_vccnz, vcc(w) != 0)
BRANCH(s_cbranch_execz, amd_exec(w) == 0)
BRANCH(s_cbranch_execnz, amd_exec(w) != 0)

/* The address of code is that of the loaded image, where constants lie too. */
static u64 address_of(const Wave *w, u32 pc) {
    const Program *program = &w->run->module->program;
    const u64 at = pc < program->count ? program->code[pc].address : 0;
    return (u64)(uintptr_t)w->run->module->image + at;
}
static void go_to(Wave *w, u64 address) {
    const Program *program = &w->run->module->program;
    const u32 pc = amd_find(program, address - (u64)(uintptr_t)w->run->module->image);
    if (pc == program->count) amd_fail(w, "it goes where no instruction is");
    w->pc = pc;
}
static void run_getpc(Wave *w, const Instruction *in) {
    put_s_u64(w, in, address_of(w, w->pc));
}
static void run_setpc(Wave *w, const Instruction *in) {
    go_to(w, get_s_u64(w, in, 0));
}
static void run_swappc(Wave *w, const Instruction *in) {
    const u64 target = get_s_u64(w, in, 0);
    put_s_u64(w, in, address_of(w, w->pc));
    go_to(w, target);
}
static void run_end(Wave *w, const Instruction *in) {
    (void)in;
    amd_settle(w);
    w->state = ENDED;
    w->left = true;
}
static void run_barrier(Wave *w, const Instruction *in) {
    (void)in;
    w->state = AT_BARRIER;
    w->left = true;
}
static void run_sleep(Wave *w, const Instruction *in) {
    (void)in;
    w->run->looks++;
    w->left = true;
}
static void run_trap(Wave *w, const Instruction *in) {
    (void)in;
    amd_fail(w, "a trap");
}
static void run_nothing(Wave *w, const Instruction *in) {
    (void)w, (void)in;
}

/* ---- waits ---- */

static void run_waitcnt(Wave *w, const Instruction *in) {
    static const u32 counts[] = {COUNTS_VECTOR, COUNTS_SHARED};
    for (int i = 0; i < 2; i++)
        if (in->waits[i] >= 0) amd_wait(w, counts[i], (u32)in->waits[i]);
}
static void run_wait_stores(Wave *w, const Instruction *in) {
    amd_wait(w, COUNTS_STORE, get_s_u32(w, in, 1));
}
static void run_wait_loads(Wave *w, const Instruction *in) {
    amd_wait(w, COUNTS_VECTOR, get_s_u32(w, in, 1));
}
static void run_wait_shared(Wave *w, const Instruction *in) {
    amd_wait(w, COUNTS_SHARED, get_s_u32(w, in, 1));
}

/* ---- the mode: which register, from which bit, how many: hwreg(HW_REG_MODE, 4, 2) ---- */

static void set_mode(Wave *w, const Instruction *in, u32 bits) {
    const u32 at = (u32)in->offset0, mask = ((1ull << in->offset1) - 1) << at & ~0u;
    w->mode = (w->mode & ~mask) | (bits << at & mask);
    if (w->mode & 15) amd_fail(w, "a rounding other than to nearest is not known");
    w->flush_32 = (w->mode >> 4 & 3) != 3;
    w->flush_64 = (w->mode >> 6 & 3) != 3;
    if ((w->mode >> 4 & 3) % 3 || (w->mode >> 6 & 3) % 3)
        amd_fail(w, "subnormals that are zeros only on one side are not known");
}
static void run_setreg(Wave *w, const Instruction *in) {
    set_mode(w, in, get_s_u32(w, in, 0));
}
static void run_getreg(Wave *w, const Instruction *in) {
    put_s_u32(w, in, w->mode >> in->offset0 & (u32)((1ull << in->offset1) - 1));
}
/* gfx11: bits 3:0 rounding, as an instruction of its own; gfx9 has it too. */
static void run_round_mode(Wave *w, const Instruction *in) {
    if (get_s_u32(w, in, 0) & 15) amd_fail(w, "a rounding other than to nearest is not known");
}
static void run_denorm_mode(Wave *w, const Instruction *in) {
    Instruction own = *in;
    own.offset0 = 4;
    own.offset1 = 4;
    set_mode(w, &own, get_s_u32(w, in, 0));
}

/* ---- registers counted from an index ---- */

static void run_index_on(Wave *w, const Instruction *in) {
    const u32 which = get_s_u32(w, in, 1);
    w->s[S_M0] = (w->s[S_M0] & ~0xf0ffu) | which << 12 | (get_s_u32(w, in, 0) & 255);
    w->is_indexed = true;
}
static void run_index_off(Wave *w, const Instruction *in) {
    (void)in;
    w->is_indexed = false;
}
static void run_index_set(Wave *w, const Instruction *in) {
    w->s[S_M0] = (w->s[S_M0] & ~255u) | (get_s_u32(w, in, 0) & 255);
}
static void run_index_mode(Wave *w, const Instruction *in) {
    w->s[S_M0] = (w->s[S_M0] & ~0xf000u) | get_s_u32(w, in, 0) << 12;
}

static const Operation operations[] = {
#define S_ONE(name, D, A, value, carry) {#name, run_##name, ONE_SCALAR, #D, {#A}},
#define S_TWO(name, D, A, B, value, carry) {#name, run_##name, ONE_SCALAR, #D, {#A, #B}},
#define S_TEST(name, T, holds) {#name, run_##name, TEST, "", {#T, #T}},
#include "scalar.def"
#define SAVES(how)                                                                  \
    {"s_" #how "_saveexec_b64", run_##how##_save_64, ONE_SCALAR, "u64", {"u64"}}, { \
        "s_" #how "_saveexec_b32", run_##how##_save_32, ONE_SCALAR, "u32", {        \
            "u32"                                                                   \
        }                                                                           \
    }
    SAVES(and),
    SAVES(or),
    SAVES(xor),
    SAVES(andn2),
    SAVES(orn2),
    {"s_fmac_f32", run_fma, ONE_SCALAR, "f32", {"f32", "f32"}},
    {"s_fmaak_f32", run_fma, ONE_SCALAR, "f32", {"f32", "f32", "f32"}},
    {"s_fmamk_f32", run_fma, ONE_SCALAR, "f32", {"f32", "f32", "f32"}},
    {"s_cmov_b32", run_cmov_32, ONE_SCALAR, "u32", {"u32"}},
    {"s_cmov_b64", run_cmov_64, ONE_SCALAR, "u64", {"u64"}},
    {"s_addk_i32", run_addk, ONE_SCALAR, "u32", {"u32"}},
    {"s_mulk_i32", run_mulk, ONE_SCALAR, "u32", {"u32"}},
    {"s_bitset0_b32", run_bitset0, ONE_SCALAR, "u32", {"u32"}},
    {"s_bitset1_b32", run_bitset1, ONE_SCALAR, "u32", {"u32"}},
    {"s_branch", run_s_branch, TEST, "", {"target"}},
    {"s_cbranch_scc0", run_s_cbranch_scc0, TEST, "", {"target"}},
    {"s_cbranch_scc1", run_s_cbranch_scc1, TEST, "", {"target"}},
    {"s_cbranch_vccz", run_s_cbranch_vccz, TEST, "", {"target"}},
    {"s_cbranch_vccnz", run_s_cbranch_vccnz, TEST, "", {"target"}},
    {"s_cbranch_execz", run_s_cbranch_execz, TEST, "", {"target"}},
    {"s_cbranch_execnz", run_s_cbranch_execnz, TEST, "", {"target"}},
    {"s_getpc_b64", run_getpc, ONE_SCALAR, "u64", {NULL}},
    {"s_setpc_b64", run_setpc, TEST, "", {"u64"}},
    {"s_swappc_b64", run_swappc, ONE_SCALAR, "u64", {"u64"}},
    {"s_endpgm", run_end, RAW, "", {NULL}},
    {"s_barrier", run_barrier, RAW, "", {NULL}},
    {"s_sleep", run_sleep, TEST, "", {"u32"}},
    {"s_trap", run_trap, TEST, "", {"u32"}},
    {"s_nop", run_nothing, TEST, "", {"u32"}},
    {"s_code_end", run_trap, RAW, "", {NULL}},
    {"s_clause", run_nothing, TEST, "", {"u32"}},
    {"s_setprio", run_nothing, TEST, "", {"u32"}},
    {"s_set_inst_prefetch_distance", run_nothing, TEST, "", {"u32"}},
    {"s_inst_prefetch", run_nothing, TEST, "", {"u32"}},
    {"s_delay_alu", run_nothing, RAW, "", {NULL}},      /* hints */
    {"s_waitcnt_depctr", run_nothing, RAW, "", {NULL}}, /* hazards of registers */
    {"s_sendmsg", run_nothing, RAW, "", {NULL}},        /* of DEALLOC_VGPRS: listing.c */
    {"s_waitcnt", run_waitcnt, RAW, "", {NULL}},
    {"s_waitcnt_vscnt", run_wait_stores, TEST, "", {"u32", "u32"}},
    {"s_waitcnt_vmcnt", run_wait_loads, TEST, "", {"u32", "u32"}},
    {"s_waitcnt_lgkmcnt", run_wait_shared, TEST, "", {"u32", "u32"}},
    {"s_setreg_b32", run_setreg, TEST, "", {"u32"}},
    {"s_setreg_imm32_b32", run_setreg, TEST, "", {"u32"}},
    {"s_getreg_b32", run_getreg, ONE_SCALAR, "u32", {NULL}},
    {"s_set_gpr_idx_on", run_index_on, TEST, "", {"u32", "u32"}},
    {"s_set_gpr_idx_off", run_index_off, RAW, "", {NULL}},
    {"s_set_gpr_idx_idx", run_index_set, TEST, "", {"u32"}},
    {"s_set_gpr_idx_mode", run_index_mode, TEST, "", {"u32"}},
    {"s_round_mode", run_round_mode, TEST, "", {"u32"}},
    {"s_denorm_mode", run_denorm_mode, TEST, "", {"u32"}},
};

const Operation *amd_scalar(const char *name) {
    static const char *const names[][2] = {
#define NAME(gfx11, gfx9) {#gfx11, #gfx9},
#include "scalar.def"
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i][0], name) == 0) name = names[i][1];
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (strcmp(operations[i].name, name) == 0) return &operations[i];
    return NULL;
}
