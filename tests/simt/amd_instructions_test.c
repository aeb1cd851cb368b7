/* amd_instructions_test.c: AMD's instructions one by one, in listings of this file as llvm-objdump
 * writes them: what the manuals say of the values that are easy to get wrong, waits that are
 * missing, and what is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simt.h"

enum { MESSAGE_SIZE = 4000, SEEDS = 12 };

static unsigned long checks_passed, checks_failed;
static char message[MESSAGE_SIZE];

static void check(bool passed, const char *what, const char *more) {
    if (passed)
        checks_passed++;
    else if (checks_failed++ < 20)
        printf("failed: %s %s\n", what, more);
}

/* ---- listings: s[4:5] points to what comes in, s[6:7] to what goes out ---- */

typedef struct Chip {
    const char *head, *load, *store;
    uint32_t wave;
} Chip;
static const Chip gfx942 = {"; listing gfx942\n\ts_load_dwordx4 s[4:7], s[0:1], 0x0\n"
                            "\ts_waitcnt lgkmcnt(0)\n",
                            "global_load_dwordx2", "global_store_dwordx2", 64};
static const Chip gfx1151 = {"; listing gfx1151\n\ts_load_b128 s[4:7], s[0:1], null\n"
                             "\ts_waitcnt lgkmcnt(0)\n",
                             "global_load_b64", "global_store_b64", 32};

static bool run(const Chip *chip, const char *body, const void *in, void *out, uint32_t threads,
                uint64_t seed) {
    const void *arguments[2] = {in, out};
    const SimtLaunch launch = {.kernel = "text",
                               .arguments = arguments,
                               .blocks = strstr(body, "s_cmp_eq_u32 s2, 0") ? 2 : 1,
                               .threads = threads,
                               .wave = chip->wave,
                               .seed = seed,
                               .cooperative = true};
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    if (!file) exit(1);
    fputs(chip->head, file);
    for (const char *line = body; *line; line += strcspn(line, "\n") + (strchr(line, '\n') != NULL))
        fprintf(file, "\t%.*s\n", (int)strcspn(line, "\n"), line);
    fputs("\ts_endpgm\n", file);
    fclose(file);
    message[0] = 0;
    const bool done = simt_run(text, size, SIMT_AMD, &launch, message, sizeof message);
    free(text);
    return done;
}

/* ---- values ---- */

/* Sources are v[2:3], v[4:5], v[6:7] and s[10:11], s[12:13], s[14:15], with the same bits; the
 * result is v[8:9], of which v9 was 0, or for an `s` s[16:17]. */
typedef struct Case {
    char kind;
    const char *text;
    uint64_t in[3], out;
} Case;

#define ONE 0x3f800000
#define INFINITE 0x7f800000
#define QUIET 0x7fc00000
#define MINUS 0x80000000
#define ONE_64 0x3ff0000000000000
static const Case cases[] = {
    /* one rounding; NaN keeps its payload and becomes quiet */
    {'v', "v_add_f32_e32 v8, v2, v4", {ONE, 0x33800000}, ONE},
    {'v', "v_add_f32_e32 v8, v2, v4", {ONE, 0x33800001}, 0x3f800001},
    {'v', "v_add_f32_e32 v8, v2, v4", {0x7f812345, ONE}, 0x7fc12345},
    {'v', "v_sub_f32_e32 v8, v2, v4", {INFINITE, INFINITE}, QUIET},
    {'v', "v_subrev_f32_e32 v8, v2, v4", {ONE, 0x40000000}, ONE},
    {'v', "v_mul_f32_e32 v8, v2, v4", {0x00800000, 0x3f000000}, 0x00400000},
    {'v', "v_fma_f32 v8, v2, v4, v6", {0x3f800001, 0x3f800001, 0xbf800002}, 0x28800000},
    {'v', "v_fma_f32 v8, -v2, |v4|, v6", {ONE, 0xbf800000, 0x40000000}, ONE},
    {'v',
     "v_mov_b32_e32 v8, v6\nv_fmac_f32_e32 v8, v2, v4",
     {0x40000000, 0x40400000, ONE},
     0x40e00000},
    {'v', "v_fmaak_f32 v8, v2, v4, 0x3f800000", {0x40000000, 0x40400000}, 0x40e00000},
    {'v', "v_fmamk_f32 v8, v2, 0x40400000, v4", {0x40000000, ONE}, 0x40e00000},
    {'v', "v_add_f32_e64 v8, v2, v4 clamp", {ONE, ONE}, ONE},
    {'v', "v_add_f32_e64 v8, v2, v4 clamp", {QUIET, ONE}, 0},
    {'v', "v_add_f32_e64 v8, v2, v4 mul:4", {ONE, ONE}, 0x41000000},
    {'v', "v_add_f32_e64 v8, v2, v4 div:2", {ONE, ONE}, ONE},
    {'v', "v_add_f32_e32 v8, 0.5, v4", {0, ONE}, 0x3fc00000},
    {'v', "v_add_f32_e32 v8, 1, v4", {0, 1}, 2},
    {'v', "v_min_f32_e32 v8, v2, v4", {QUIET, ONE}, ONE},
    {'v', "v_max_f32_e32 v8, v2, v4", {ONE, QUIET}, ONE},
    {'v', "v_min_f32_e32 v8, v2, v4", {0, MINUS}, MINUS},
    {'v', "v_max_f32_e32 v8, v2, v4", {MINUS, 0}, 0},
    {'v', "v_add_f64 v[8:9], v[2:3], v[4:5]", {ONE_64, 0x3ca0000000000000}, ONE_64},
    {'v', "v_mul_f64 v[8:9], v[2:3], 0.5", {ONE_64}, 0x3fe0000000000000},
    {'v', "v_add_f64 v[8:9], v[2:3], 0x40080000", {ONE_64}, 0x4010000000000000},
    {'v',
     "v_fma_f64 v[8:9], v[2:3], v[4:5], -v[6:7]",
     {0x3ff0000000000001, 0x3ff0000000000001, 0x3ff0000000000002},
     0x3970000000000000},
    {'v',
     "v_pk_fma_f32 v[8:9], v[2:3], v[4:5], v[6:7] op_sel_hi:[1,0,1] neg_hi:[1,0,0]",
     {0x4000000040400000, 0x3f800000, 0x3f8000003f800000},
     0xbf80000040800000},
    {'v',
     "v_pk_mul_f32 v[8:9], v[2:3], s[12:13] op_sel:[1,0] op_sel_hi:[0,1]",
     {0x4000000040400000, 0x400000003f800000},
     0x40c0000040000000},
    {'v', "v_trunc_f32_e32 v8, v2", {0xbfc00000}, 0xbf800000},
    {'v', "v_floor_f32_e32 v8, v2", {0xbf000000}, 0xbf800000},
    {'v', "v_rndne_f32_e32 v8, v2", {0x40200000}, 0x40000000},
    {'v', "v_ldexp_f32 v8, v2, v4", {ONE, 0xffffff6b}, 1},
    {'v', "v_ldexp_f64 v[8:9], v[2:3], v4", {ONE_64, 0xfffffbce}, 1},
    {'v', "v_frexp_exp_i32_f32_e32 v8, v2", {ONE}, 1},
    {'v', "v_frexp_mant_f32_e32 v8, v2", {0x40400000}, 0x3f400000},
    /* integers */
    {'v', "v_add_u32_e32 v8, v2, v4", {0xffffffff, 2}, 1},
    {'v', "v_mul_lo_u32 v8, v2, v4", {0x10001, 0x10001}, 0x20001},
    {'v', "v_mul_hi_u32 v8, v2, v4", {0xffffffff, 0xffffffff}, 0xfffffffe},
    {'v', "v_mul_hi_i32 v8, v2, v4", {0xffffffff, 2}, 0xffffffff},
    {'v',
     "v_mad_u64_u32 v[8:9], s[20:21], v2, v4, v[6:7]",
     {0xffffffff, 0xffffffff, 1},
     0xfffffffe00000002},
    {'v',
     "v_mad_u64_u32 v[8:9], vcc, v2, v4, v[6:7]\nv_cndmask_b32_e64 v8, 0, 1, vcc",
     {0xffffffff, 0xffffffff, 0xffffffffffffffff},
     0xfffffffe00000001},
    {'v',
     "v_add_co_u32_e32 v8, vcc, v2, v4\nv_addc_co_u32_e32 v9, vcc, v3, v5, vcc",
     {0x00000001ffffffff, 0x0000000200000001},
     0x0000000400000000},
    {'v',
     "v_sub_co_u32_e32 v8, vcc, v2, v4\nv_subb_co_u32_e32 v9, vcc, v3, v5, vcc",
     {0x0000000300000000, 1},
     0x00000002ffffffff},
    {'v',
     "v_subrev_co_u32_e32 v8, vcc, v4, v2\nv_subbrev_co_u32_e32 v9, vcc, v5, v3, vcc",
     {0x0000000300000000, 1},
     0x00000002ffffffff},
    {'v', "v_lshl_add_u64 v[8:9], v[2:3], 3, v[4:5]", {0x20000000, 1}, 0x100000001},
    {'v', "v_lshlrev_b32_e32 v8, 33, v2", {1}, 2},
    {'v', "v_lshrrev_b64 v[8:9], v4, v[2:3]", {0x8000000000000000, 63}, 1},
    {'v', "v_ashrrev_i64 v[8:9], 64, v[2:3]", {5}, 5},
    {'v', "v_bfe_u32 v8, v2, 4, 8", {0x12345678}, 0x67},
    {'v', "v_bfe_i32 v8, v2, 4, 8", {0x00000ff0}, 0xffffffff},
    {'v', "v_bfe_i32 v8, v2, 28, 8", {0x80000000}, 0xfffffff8},
    {'v', "v_bfi_b32 v8, v2, v4, v6", {0xff, 0x12345678, 0xabcdef00}, 0xabcdef78},
    {'v', "v_perm_b32 v8, v2, v4, v6", {0x77665544, 0x33221100, 0x0c0d0700}, 0x00ff7700},
    {'v', "v_alignbit_b32 v8, v2, v4, 8", {0x11, 0x22222233}, 0x11222222},
    {'v', "v_ffbh_u32_e32 v8, v2", {1}, 31},
    {'v', "v_ffbh_u32_e32 v8, v2", {0}, 0xffffffff},
    {'v', "v_ffbh_i32_e32 v8, v2", {0xffffff00}, 24},
    {'v', "v_bfrev_b32_e32 v8, 1", {0}, MINUS},
    {'v', "v_med3_i32 v8, v2, v4, v6", {5, 0xffffffff, 3}, 3},
    {'v', "v_mbcnt_lo_u32_b32 v8, -1, v2", {7}, 7},
    {'v',
     "v_add_u32_sdwa v8, v2, v4 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1 "
     "src1_sel:WORD_1",
     {0x1200, 0x340000},
     0x46},
    {'v',
     "v_mov_b32_e32 v8, -1\nv_add_u32_sdwa v8, sext(v2), v4 dst_sel:BYTE_2 "
     "dst_unused:UNUSED_PRESERVE src0_sel:BYTE_0 src1_sel:DWORD",
     {0xff, 0x11},
     0xff10ffff},
    {'v', "v_add_u16_e32 v8, v2, v4", {0xffff, 0x70002}, 1},
    {'v',
     "s_mov_b32 s20, 3\ns_set_gpr_idx_on s20, gpr_idx(DST)\nv_mov_b32_e32 v5, v4\n"
     "s_set_gpr_idx_idx s10\ns_set_gpr_idx_mode gpr_idx(SRC0)\nv_mov_b32_e32 v9, v0\n"
     "s_set_gpr_idx_off",
     {2, 7},
     0x0000000200000007},
    {'v', "v_accvgpr_write_b32 a3, v2\nv_accvgpr_read_b32 v8, a3", {77}, 77},
    /* comparisons: lg is ordered, neq is not; EXEC is one lane */
    {'s', "v_cmp_lg_f32_e64 s[16:17], v2, v4", {QUIET, ONE}, 0},
    {'s', "v_cmp_neq_f32_e64 s[16:17], v2, v4", {QUIET, ONE}, 1},
    {'s', "v_cmp_nlt_f32_e64 s[16:17], v2, v4", {QUIET, ONE}, 1},
    {'s', "v_cmp_eq_f32_e64 s[16:17], v2, v4", {0, MINUS}, 1},
    {'s', "v_cmp_o_f64_e64 s[16:17], v[2:3], v[4:5]", {ONE_64, 0x7ff8000000000000}, 0},
    {'s', "v_cmp_lt_i32_e64 s[16:17], v2, v4", {0xffffffff, 0}, 1},
    {'s', "v_cmp_gt_u64_e64 s[16:17], v[2:3], v[4:5]", {MINUS, 0x100000000}, 0},
    {'s', "v_cmp_lt_i64_e64 s[16:17], v[2:3], -1", {0xfffffffffffffffe}, 1},
    {'s', "v_cmp_class_f32_e64 s[16:17], v2, v4", {0x7f800001, 1}, 1},
    {'s', "v_cmp_class_f32_e64 s[16:17], v2, v4", {0x80000001, 0x10}, 1},
    {'s', "v_cmp_class_f32_e64 s[16:17], -v2, v4", {INFINITE, 4}, 1},
    {'s', "v_cmp_ne_u16_sdwa s[16:17], v2, v4 src0_sel:BYTE_0 src1_sel:DWORD", {0x1ff, 0xff}, 0},
    {'s', "v_readfirstlane_b32 s16, v2\ns_mov_b32 s17, 0", {99}, 99},
    {'v', "v_cndmask_b32_e64 v8, v2, -v4, s[14:15]", {1, ONE, 1}, 0xbf800000},
    /* conversions */
    {'v', "v_cvt_u32_f32_e32 v8, v2", {0xbf800000}, 0},
    {'v', "v_cvt_u32_f32_e32 v8, v2", {0x4f800000}, 0xffffffff},
    {'v', "v_cvt_u32_f32_e32 v8, v2", {QUIET}, 0},
    {'v', "v_cvt_i32_f32_e32 v8, v2", {0xcf800000}, MINUS},
    {'v', "v_cvt_i32_f32_e32 v8, v2", {0xbfe00000}, 0xffffffff},
    {'v', "v_cvt_f32_u32_e32 v8, v2", {0x1000001}, 0x4b800000},
    {'v', "v_cvt_f32_f64_e32 v8, v[2:3]", {0x3ff0000010000000}, ONE},
    {'v', "v_cvt_f32_f64_e32 v8, v[2:3]", {0x3690000000000001}, 1},
    {'v', "v_cvt_f64_f32_e32 v[8:9], v2", {1}, 0x36a0000000000000},
    {'v', "v_cvt_u32_f64_e32 v8, v[2:3]", {0x41f0000000000000}, 0xffffffff},
    {'v', "v_cvt_f16_f32_e32 v8, v2", {0x477ff000}, 0x7c00},
    {'v', "v_cvt_f16_f32_e32 v8, v2", {0x33000001}, 1},
    {'v', "v_cvt_f32_f16_e32 v8, v2", {0x8001}, 0xb3800000},
    /* division: what is scaled, and back with one rounding */
    {'v',
     "v_div_scale_f32 v8, vcc, v4, v4, v2\nv_cndmask_b32_e64 v9, 0, 1, vcc",
     {0x7f000000, 0x00800000},
     0x0000000120800000},
    {'v',
     "v_div_scale_f32 v8, vcc, v2, v4, v2\nv_cndmask_b32_e64 v9, 0, 1, vcc",
     {0x00800000, 0x40000000},
     0x0000000120800000},
    {'v',
     "v_div_scale_f32 v8, vcc, v4, v4, v2\nv_cndmask_b32_e64 v9, 0, 1, vcc",
     {0x44800000, 0x7f000000},
     0x000000005f000000},
    {'v', "v_div_scale_f32 v8, vcc, v2, v4, v2", {ONE, 0}, QUIET},
    {'v',
     "v_div_scale_f32 v8, vcc, v2, v4, v2\nv_cndmask_b32_e64 v9, 0, 1, vcc",
     {0x40400000, 0x40000000},
     0x40400000},
    {'v', "s_mov_b64 vcc, 1\nv_div_fmas_f32 v8, v2, v4, v6", {0, 0, 0x40000000}, 0x60000000},
    {'v', "s_mov_b64 vcc, 1\nv_div_fmas_f32 v8, v2, v4, v6", {0, 0, 0x14800000}, 0},
    {'v', "s_mov_b64 vcc, 1\nv_div_fmas_f32 v8, v2, v4, v6", {ONE, 0x00000001, 0x14800000}, 1},
    {'v',
     "s_mov_b64 vcc, 1\nv_div_fmas_f32 v8, v2, v4, v6",
     {0xbf800000, 0x00000001, 0x15400000},
     1},
    {'v', "s_mov_b64 vcc, 0\nv_div_fmas_f32 v8, v2, v4, v6", {ONE, ONE, ONE}, 0x40000000},
    /* the quotient 2^-150 is scaled, although it would round to 0 */
    {'v',
     "v_div_scale_f32 v8, vcc, v2, v4, v2\nv_cndmask_b32_e64 v9, 0, 1, vcc",
     {0x3165747a, 0x7c65747a},
     0x000000015165747a},
    {'v', "v_div_fixup_f32 v8, v2, v4, v6", {QUIET, 0, MINUS}, 0xffc00000},
    {'v', "v_div_fixup_f32 v8, v2, v4, v6", {QUIET, MINUS, ONE}, 0xff800000},
    {'v', "v_div_fixup_f32 v8, v2, v4, v6", {QUIET, INFINITE, 0xbf800000}, MINUS},
    {'v', "v_div_fixup_f32 v8, v2, v4, v6", {ONE, 0xbf800000, ONE}, 0xbf800000},
    {'v', "v_div_fixup_f32 v8, v2, v4, v6", {ONE, 0x7f000000, 0x00000001}, 0},
    {'v', "v_div_fixup_f32 v8, v2, v4, v6", {QUIET, 0x80800000, 0x7f000000}, 0xff800000},
    /* scalars; the upper half is SCC where it says so */
    {'s', "s_add_u32 s16, s10, s12\ns_cselect_b32 s17, 1, 0", {0xffffffff, 1}, 0x100000000},
    {'s',
     "s_add_u32 s16, s10, s12\ns_addc_u32 s17, s11, s13",
     {0x00000001ffffffff, 0x0000000200000001},
     0x0000000400000000},
    {'s',
     "s_sub_u32 s16, s10, s12\ns_subb_u32 s17, s11, s13",
     {0x0000000300000000, 1},
     0x00000002ffffffff},
    {'s', "s_add_i32 s16, s10, s12\ns_cselect_b32 s17, 1, 0", {0x7fffffff, 1}, 0x180000000},
    {'s', "s_mov_b32 s17, 0\ns_abs_i32 s16, s10", {0xfffffffe}, 2},
    {'s', "s_lshl_b64 s[16:17], s[10:11], s12", {1, 97}, 0x200000000},
    {'s', "s_bfe_u32 s16, s10, 0x80004\ns_cselect_b32 s17, 1, 0", {0x12345678}, 0x100000067},
    {'s', "s_bfe_i64 s[16:17], s[10:11], 0x200000", {MINUS}, 0xffffffff80000000},
    {'s', "s_movk_i32 s16, 0xff80\ns_mov_b32 s17, 0", {0}, 0xffffff80},
    {'s', "s_mov_b32 s16, s10\ns_mov_b32 s17, 0\ns_addk_i32 s16, 0xfffe", {5}, 3},
    {'s', "s_cmpk_eq_i32 s10, 0xffff\ns_cselect_b64 s[16:17], 1, 0", {0xffffffff}, 1},
    {'s', "s_bitcmp1_b32 s10, 33\ns_cselect_b64 s[16:17], 1, 0", {2}, 1},
    {'s', "s_flbit_i32 s16, s10\ns_mov_b32 s17, 0", {0xffffffff}, 0xffffffff},
    {'s',
     "s_mul_hi_u32 s16, s10, s12\ns_mul_i32 s17, s10, s12",
     {0x10000, 0x10001},
     0x0001000000000001},
    {'s',
     "s_bcnt1_i32_b64 s16, s[10:11]\ns_cselect_b32 s17, 1, 0",
     {0xf0f0000000000000},
     0x100000008},
    {'s', "s_andn2_b64 s[16:17], s[10:11], s[12:13]", {0xff, 0x0f}, 0xf0},
    {'s', "s_mov_b64 s[16:17], 0x80000000", {0}, MINUS},
    {'s', "s_mul_f32 s16, s10, s12\ns_mov_b32 s17, 0", {0x40000000, 0x40400000}, 0x40c00000},
    {'s',
     "s_mov_b32 s16, 1.0\ns_fmac_f32 s16, s10, s12\ns_mov_b32 s17, 0",
     {0x40000000, 0x40400000},
     0x40e00000},
    {'s', "s_cmp_nlt_f32 s10, s12\ns_cselect_b64 s[16:17], 1, 0", {QUIET, ONE}, 1},
    {'s', "s_cvt_i32_f32 s16, s10\ns_mov_b32 s17, 0", {0xcf800000}, MINUS},
    {'s', "s_mov_b64 s[16:17], exec", {0}, 1},
    {'s', "s_mov_b32 s17, 0\ns_branch 1\ns_mov_b32 s17, 1\ns_mov_b32 s16, 6", {0}, 6},
    {'s',
     "s_mov_b64 s[16:17], 0\ns_add_u32 s16, s16, 1\ns_cmp_lt_u32 s16, s10\n"
     "s_cbranch_scc1 65533",
     {9},
     9},
    {'s',
     "s_getpc_b64 s[20:21]\ns_add_u32 s20, s20, 16\ns_addc_u32 s21, s21, 0\n"
     "s_setpc_b64 s[20:21]\ns_trap 2\ns_mov_b64 s[16:17], 5",
     {0},
     5},
};
enum { CASES = sizeof cases / sizeof *cases };

static void test_values(void) {
    static uint64_t in[CASES][3], out[CASES];
    char *body = NULL, more[256];
    size_t size = 0;
    FILE *file = open_memstream(&body, &size);
    if (!file) exit(1);
    fputs("v_mov_b32_e32 v1, 0\n", file);
    for (int i = 0; i < CASES; i++) {
        memcpy(in[i], cases[i].in, sizeof in[i]);
        for (int k = 0; k < 3; k++)
            fprintf(file,
                    "global_load_dwordx2 v[%d:%d], v1, s[4:5] offset:%d\n"
                    "s_load_dwordx2 s[%d:%d], s[4:5], 0x%x\n",
                    2 + 2 * k, 3 + 2 * k, 24 * i + 8 * k, 10 + 2 * k, 11 + 2 * k, 24 * i + 8 * k);
        fprintf(file, "v_mov_b64_e32 v[8:9], 0\ns_waitcnt vmcnt(0) lgkmcnt(0)\n%s\n",
                cases[i].text);
        if (cases[i].kind == 's') fputs("v_mov_b32_e32 v8, s16\nv_mov_b32_e32 v9, s17\n", file);
        fprintf(file, "global_store_dwordx2 v1, v[8:9], s[6:7] offset:%d\n", 8 * i);
    }
    fclose(file);
    check(run(&gfx942, body, in, out, 1, 3), "the cases do not run:", message);
    free(body);
    for (int i = 0; i < CASES; i++) {
        const Case *it = &cases[i];
        snprintf(more, sizeof more, "of %llx, %llx, %llx: %llx, expected %llx",
                 (unsigned long long)it->in[0], (unsigned long long)it->in[1],
                 (unsigned long long)it->in[2], (unsigned long long)out[i],
                 (unsigned long long)it->out);
        check(out[i] == it->out, it->text, more);
    }
}

/* ---- lanes ---- */

/* Runs `text` with v2 the lane, which leaves v8; then compares it with `expected` by lane. */
static void test_lanes(const Chip *chip, const char *text, int (*expected)(int lane)) {
    static uint64_t out[64];
    char body[1024], more[64];
    memset(out, 0, sizeof out);
    snprintf(body, sizeof body,
             "v_mov_b32_e32 v2, v0\nv_mov_b32_e32 v9, 0\nv_lshlrev_b32_e32 v1, 3, v0\n"
             "v_mov_b32_e32 v8, -1\n%s\n%s v1, v[8:9], s[6:7]",
             text, chip->store);
    check(run(chip, body, out, out, chip->wave, 5), text, message);
    for (int lane = 0; lane < (int)chip->wave; lane++) {
        snprintf(more, sizeof more, "lane %d: %d, expected %d", lane, (int)out[lane],
                 expected(lane));
        check((int32_t)out[lane] == expected(lane), text, more);
    }
}

static int permuted(int lane) {
    return ((lane + 67) & 63) * 3;
}
static int permuted_32(int lane) {
    return ((lane + 67) & 31) * 3;
}
static int from_live(int lane) {
    return lane < 32 ? -1 : (lane ^ 33) >= 32 ? lane ^ 33 : 0;
}
static int quad(int lane) {
    return (lane & ~3) | (3 - (lane & 3));
}
static int shifted(int lane) {
    return lane % 16 < 2 ? -1 : lane - 2;
}
static int shifted_bound(int lane) {
    return lane % 16 < 2 ? 0 : lane - 2;
}
static int rotated(int lane) {
    return (lane & ~15) | ((lane - 3) & 15);
}
static int masked(int lane) {
    return lane < 16 && lane % 16 < 4 ? lane ^ 15 : -1;
}
static int broadcast(int lane) {
    return lane < 16 ? -1 : (lane & ~15) - 1;
}
static int shared_lane(int lane) {
    return (lane & ~15) | 5;
}
static int counted(int lane) {
    return lane;
}
static int even(int lane) {
    return lane % 2 ? -1 : 7;
}
static int read_lane(int lane) {
    return lane == 9 ? 61 : -1;
}
static int swapped(int lane) {
    return 100 + lane;
}

static void test_across(void) {
    test_lanes(&gfx942,
               "v_add_u32_e32 v3, 3, v0\nv_lshlrev_b32_e32 v3, 2, v3\nv_mul_lo_u32 v4, v0, 3\n"
               "v_add_u32_e32 v3, 0x100, v3\nds_bpermute_b32 v8, v3, v4\ns_waitcnt lgkmcnt(0)",
               permuted);
    test_lanes(&gfx1151,
               "v_lshlrev_b32_e32 v3, 2, v0\nv_mul_lo_u32 v4, v0, 3\n"
               "ds_bpermute_b32 v8, v3, v4 offset:268\ns_waitcnt lgkmcnt(0)",
               permuted_32);
    test_lanes(&gfx942,
               "v_xor_b32_e32 v3, 33, v0\nv_lshlrev_b32_e32 v3, 2, v3\n"
               "v_cmp_gt_u32_e32 vcc, 32, v0\ns_andn2_saveexec_b64 s[10:11], vcc\n"
               "s_mov_b64 exec, s[10:11]\nv_cmp_le_u32_e32 vcc, 32, v0\ns_and_b64 exec, exec, vcc\n"
               "ds_bpermute_b32 v8, v3, v0\ns_waitcnt lgkmcnt(0)\ns_mov_b64 exec, s[10:11]",
               from_live);
    test_lanes(&gfx942, "v_mov_b32_dpp v8, v2 quad_perm:[3,2,1,0] row_mask:0xf bank_mask:0xf",
               quad);
    test_lanes(&gfx942, "v_mov_b32_dpp v8, v2 row_shr:2 row_mask:0xf bank_mask:0xf", shifted);
    test_lanes(&gfx942, "v_mov_b32_dpp v8, v2 row_shr:2 row_mask:0xf bank_mask:0xf bound_ctrl:0",
               shifted_bound);
    test_lanes(&gfx942, "v_mov_b32_dpp v8, v2 row_ror:3 row_mask:0xf bank_mask:0xf", rotated);
    test_lanes(&gfx942, "v_mov_b32_dpp v8, v2 row_mirror row_mask:0x1 bank_mask:0x1", masked);
    test_lanes(&gfx942, "v_mov_b32_dpp v8, v2 row_bcast:15 row_mask:0xf bank_mask:0xf", broadcast);
    test_lanes(&gfx1151, "v_mov_b32_dpp v8, v2 row_share:5 row_mask:0xf bank_mask:0xf",
               shared_lane);
    test_lanes(&gfx942, "v_mbcnt_lo_u32_b32 v8, -1, 0\nv_mbcnt_hi_u32_b32 v8, -1, v8", counted);
    test_lanes(&gfx942,
               "v_and_b32_e32 v3, 1, v0\nv_cmp_eq_u32_e32 vcc, 0, v3\n"
               "s_and_saveexec_b64 s[10:11], vcc\nv_mov_b32_e32 v8, 7\ns_mov_b64 exec, s[10:11]",
               even);
    test_lanes(&gfx942, "v_readlane_b32 s10, v2, 61\nv_writelane_b32 v8, s10, 9", read_lane);
    test_lanes(&gfx1151,
               "v_add_nc_u32_e32 v3, 0x64, v0\nv_mov_b32_e32 v8, v0\n"
               "v_dual_mov_b32 v8, v3 :: v_dual_mov_b32 v3, v8",
               swapped);
    test_lanes(&gfx1151,
               "v_mov_b32_e32 v3, 0x64\nv_add_nc_u32_e32 v3, v3, v0\ns_mov_b32 m0, 4\n"
               "v_movreld_b32_e32 v0, v3\nv_movrels_b32_e32 v8, v0",
               swapped);
    test_lanes(&gfx1151,
               "v_and_b32_e32 v3, 1, v0\ns_mov_b32 s10, exec_lo\nv_cmpx_eq_u32_e32 0, v3\n"
               "v_mov_b32_e32 v8, 7\ns_mov_b32 exec_lo, s10",
               even);
}

/* An approximation is never far off, and not always the same. */
static void test_approximations(void) {
    static const struct {
        const char *text;
        float nearest;
    } rows[] = {{"v_rcp_f32_e32 v8, 0x3fd9999a", 1 / 1.7f},
                {"v_sqrt_f32_e32 v8, 0x3fd9999a", 1.30384048f},
                {"v_exp_f32_e32 v8, 0x3fd9999a", 3.24900959f}};
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        static float out[128];
        char body[512];
        bool varies = false;
        snprintf(body, sizeof body,
                 "v_lshlrev_b32_e32 v1, 3, v0\n%s\nglobal_store_dwordx2 v1, v[8:9], s[6:7]",
                 rows[n].text);
        check(run(&gfx942, body, out, out, 64, 1), rows[n].text, message);
        for (int i = 0; i < 64; i++) {
            const float off = out[2 * i] / rows[n].nearest - 1;
            check(off < 2.5e-7f && off > -2.5e-7f, rows[n].text, "is too far off");
            varies |= out[2 * i] != out[0];
        }
        check(varies, rows[n].text, "is the same each time");
    }
}

/* ---- memory and waits ---- */

static void test_memory(const Chip *chip, const char *body) {
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        static uint64_t in[64], out[65];
        memset(out, 0, sizeof out);
        for (uint64_t i = 0; i < 64; i++) in[i] = i * 0x9e3779b97f4a7c15u;
        check(run(chip, body, in, out, chip->wave, seed), "memory:", message);
        for (uint32_t i = 0; i < chip->wave; i++) {
            const uint64_t from = in[i ^ 1];
            check(out[i] == ((from & 0xffffffffffff0000) | (from >> 32 & 0xffff)),
                  "memory of a lane", body);
        }
        check(out[64] == chip->wave, "an atomic", body);
    }
}

/* How many of the seeds give what is expected of every lane: v8 doubled, or another wave's. */
static int seeds_that_hold(const Chip *chip, const char *body, uint32_t threads, uint32_t factor,
                           uint32_t turned) {
    int held = 0;
    for (uint64_t seed = 0; seed < 4 * SEEDS; seed++) {
        static uint32_t in[256], out[256];
        bool good = true;
        for (uint32_t i = 0; i < 256; i++) in[i] = 1000 + i;
        memset(out, 0, sizeof out);
        if (!run(chip, body, in, out, threads, seed)) check(false, body, message);
        for (uint32_t i = 0; i < threads; i++) good &= out[i] == factor * in[i ^ turned];
        held += good;
    }
    return held;
}

static void test_waits(void) {
    static const char loads[] = "v_lshlrev_b32_e32 v1, 2, v0\nglobal_load_dword v8, v1, s[4:5]\n"
                                "%sv_add_u32_e32 v8, v8, v8\n"
                                "global_store_dword v1, v8, s[6:7]";
    static const char older[] = "v_lshlrev_b32_e32 v1, 2, v0\nglobal_load_dword v8, v1, s[4:5]\n"
                                "global_load_dword v9, v1, s[4:5]\ns_waitcnt vmcnt(%d)\n"
                                "v_add_u32_e32 v8, v8, v8\nglobal_store_dword v1, v8, s[6:7]";
    static const char shared[] =
        "v_lshlrev_b32_e32 v1, 2, v0\nglobal_load_dword v8, v1, s[4:5]\ns_waitcnt vmcnt(0)\n"
        "ds_write_b32 v1, v8\n%ss_barrier\nv_xor_b32_e32 v2, 0x100, v1\nds_read_b32 v8, v2\n"
        "s_waitcnt lgkmcnt(0)\nglobal_store_dword v1, v8, s[6:7]";
    /* block 0 stores and says so, block 1 waits for it; an atomic's load passes the first cache */
    static const char device[] =
        "v_lshlrev_b32_e32 v1, 2, v0\nv_mov_b32_e32 v3, 0\nv_mov_b32_e32 v4, 1\n"
        "s_cmp_eq_u32 s2, 0\ns_cbranch_scc0 11\n"
        "global_load_dword v8, v1, s[4:5]\ns_waitcnt vmcnt(0)\nv_add_u32_e32 v8, v8, v8\n"
        "global_store_dword v1, v8, s[6:7] offset:256\n%s"
        "global_atomic_add v3, v4, s[6:7] offset:1020\ns_sleep 1\ns_sleep 1\ns_sleep 1\ns_sleep "
        "1\ns_endpgm\n"
        "global_load_dword v9, v3, s[6:7] offset:1020 sc1\ns_sleep 1\ns_waitcnt vmcnt(0)\n"
        "v_readfirstlane_b32 s8, v9\ns_cmp_eq_u32 s8, 64\ns_cbranch_scc0 65530\n"
        "global_load_dword v9, v1, s[6:7] offset:256\ns_waitcnt vmcnt(0)\n"
        "global_store_dword v1, v9, s[6:7]";
    static const char own[] = "v_lshlrev_b32_e32 v1, 2, v0\nglobal_load_dword v8, v1, s[4:5]\n"
                              "s_waitcnt vmcnt(0)\nglobal_store_dword v1, v8, s[6:7]\n"
                              "global_load_dword v9, v1, s[6:7]\ns_waitcnt vmcnt(%d)\n"
                              "v_add_u32_e32 v9, v9, v9\nglobal_store_dword v1, v9, s[6:7]";
    static const char stores[] =
        "v_lshlrev_b32_e32 v1, 2, v0\nglobal_load_b32 v8, v1, s[4:5]\ns_waitcnt vmcnt(0)\n"
        "global_store_b32 v1, v8, s[6:7]\n%ss_barrier\nv_xor_b32_e32 v2, 0x80, v1\n"
        "global_load_b32 v9, v2, s[6:7]\ns_waitcnt vmcnt(0)\ns_barrier\n"
        "global_store_b32 v1, v9, s[6:7]";
    char body[1024];
    const int all = 4 * SEEDS;
    const struct {
        const Chip *chip;
        const char *text, *wait;
        uint32_t threads, factor, turned;
        bool holds;
    } rows[] = {
        {&gfx942, loads, "s_waitcnt vmcnt(0)\n", 64, 2, 0, true},
        {&gfx942, loads, "s_waitcnt lgkmcnt(0)\n", 64, 2, 0, false},
        {&gfx942, shared, "s_waitcnt lgkmcnt(0)\n", 128, 1, 64, true},
        {&gfx942, shared, "", 128, 1, 64, false},
        {&gfx942, device, "s_waitcnt vmcnt(0)\n", 64, 2, 0, true},
        {&gfx942, device, "s_waitcnt vmcnt(1)\n", 64, 2, 0, false},
        {&gfx1151, stores, "s_waitcnt_vscnt null, 0x0\n", 64, 1, 32, true},
        {&gfx1151, stores, "s_waitcnt vmcnt(0)\n", 64, 1, 32, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(body, sizeof body, rows[i].text, rows[i].wait);
        const int held =
            seeds_that_hold(rows[i].chip, body, rows[i].threads, rows[i].factor, rows[i].turned);
        check(rows[i].holds ? held == all : held > 0 && held < all, body,
              rows[i].holds ? "a wait that covers it" : "a wait that is missing is not seen");
    }
    for (int left = 0; left < 3; left++) {
        snprintf(body, sizeof body, older, left);
        const int held = seeds_that_hold(&gfx942, body, 64, 2, 0);
        check(left < 2 ? held == all : held < all, body, "the older of two loads");
    }
    snprintf(body, sizeof body, own, 0);
    check(seeds_that_hold(&gfx942, body, 64, 2, 0) == all, body, "a wave reads what it stored");
}

/* ---- refused ---- */

static void test_refused(void) {
    static const struct {
        const Chip *chip;
        const char *body, *reason;
    } refused[] = {
        {&gfx942, "v_unheard_of_b32 v1, v2",
         "v_unheard_of_b32 v1, v2: the instruction is not known"},
        {&gfx942, "v_add_f32_e32 v1, v2", "1 sources, expected 2"},
        {&gfx942, "v_add_f32_e32 v1, v2, v3 unheard:1", "unheard:1 is not known"},
        {&gfx942, "v_add_f32_e32 v1, v[2:3], v3", "2 registers"},
        {&gfx942, "v_add_f64 v1, v[2:3], v[4:5]", "not a register for f64"},
        {&gfx942, "v_add_f32_e32 v1, v2, v256", "v256 is not known"},
        {&gfx942, "v_add_u32_e64 v1, v2, v3 clamp", "a clamp of integers"},
        {&gfx942, "s_waitcnt unheard(0)", "a wait for something else"},
        {&gfx942, "s_sendmsg sendmsg(MSG_INTERRUPT)", "a message that is not known"},
        {&gfx942, "s_branch 100", "it goes where no instruction is"},
        {&gfx942, "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 1", "a rounding other"},
        {&gfx942, "s_setreg_imm32_b32 hwreg(HW_REG_TRAPSTS, 0, 2), 1", "is not known"},
        {&gfx942, "v_add_f32_e32", "no operands"},
        {&gfx942, "global_load_dword v1, v[2:3]", "too few or too many operands"},
        {&gfx942, "global_load_dwordx2 v1, v[2:3], off", "a result of another size"},
        {&gfx942, "global_load_dword v1, v2, off", "its address"},
        {&gfx942, "flat_store_dword v[2:3], v[4:5]", "data of another size"},
        {&gfx942, "ds_write2_b32 v1, v2", "too few or too many operands"},
        {&gfx942, "s_load_dwordx2 s[8:11], s[4:5], 0x0", "its registers"},
        {&gfx942, "s_barrier s0", "too many operands"},
        {&gfx942, "s_trap 2", "a trap"},
        {&gfx942, "v_mov_b32_e32 v1, 0x3fd\nds_read_b32 v2, v1", "byte 1021 of shared memory"},
        {&gfx942, "scratch_load_dword v2, off, off offset:64", "byte 64 of scratch memory"},
        {&gfx942, "v_mov_b64_e32 v[2:3], 0\nglobal_load_dword v1, v[2:3], off", "address 0"},
        {&gfx942, "s_mov_b64 s[8:9], 3\ns_setpc_b64 s[8:9]", "where no instruction is"},
        {&gfx942, "s_sleep 1\ns_branch 65534", "looks for what no other wave will write"},
        {&gfx1151, "v_dual_mov_b32 v1, v2 :: v_dual_unheard_b32 v3, v4", "is not known"},
    };
    static uint64_t memory[64];
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const bool ran = run(refused[i].chip, refused[i].body, memory, memory, 32, 1);
        check(!ran && strstr(message, refused[i].reason), refused[i].body, message);
    }
    check(!simt_open("text", 4, SIMT_AMD, NULL, 0, message, sizeof message) &&
              strstr(message, "no code object"),
          "a text that is none:", message);
    check(!run(&gfx942, "s_nop 0", memory, memory, 1025, 1) && strstr(message, "1025 threads"),
          "a block that is too large:", message);
}

int main(void) {
    test_values();
    test_across();
    test_approximations();
    test_memory(&gfx942,
                "v_lshlrev_b32_e32 v1, 3, v0\nglobal_load_dwordx2 v[2:3], v1, s[4:5]\n"
                "s_waitcnt vmcnt(0)\nds_write_b64 v1, v[2:3]\ns_waitcnt lgkmcnt(0)\n"
                "v_xor_b32_e32 v4, 8, v1\nds_read2_b32 v[6:7], v4 offset1:1\n"
                "ds_read_u16 v5, v4 offset:4\ns_waitcnt lgkmcnt(0)\n"
                "scratch_store_dwordx2 off, v[6:7], off offset:8\n"
                "v_mov_b32_e32 v3, 0\nscratch_load_dword v9, v3, off offset:12\n"
                "scratch_load_dword v8, off, off offset:8\ns_waitcnt vmcnt(1)\n"
                "v_mov_b32_e32 v10, s6\nv_mov_b32_e32 v11, s7\n"
                "v_add_co_u32_e32 v10, vcc, v10, v1\nv_addc_co_u32_e32 v11, vcc, 0, v11, vcc\n"
                "s_waitcnt vmcnt(0)\nflat_store_dwordx2 v[10:11], v[8:9]\n"
                "global_store_short v1, v5, s[6:7]\n"
                "v_mov_b32_e32 v12, 1\nv_mov_b32_e32 v13, 0\n"
                "global_atomic_add v13, v12, s[6:7] offset:512");
    test_memory(&gfx1151,
                "v_lshlrev_b32_e32 v1, 3, v0\nglobal_load_b64 v[2:3], v1, s[4:5]\n"
                "s_waitcnt vmcnt(0)\nds_store_b64 v1, v[2:3]\ns_waitcnt lgkmcnt(0)\n"
                "v_xor_b32_e32 v4, 8, v1\nds_load_2addr_b32 v[6:7], v4 offset1:1\n"
                "ds_load_u16 v5, v4 offset:4\ns_waitcnt lgkmcnt(0)\n"
                "global_store_b64 v1, v[6:7], s[6:7]\nglobal_load_b64 v[8:9], v1, s[6:7]\n"
                "s_waitcnt vmcnt(0)\nglobal_store_b64 v1, v[8:9], s[6:7]\n"
                "global_store_b16 v1, v5, s[6:7]\nv_mov_b32_e32 v12, 1\nv_mov_b32_e32 v13, 0\n"
                "global_atomic_add_u32 v14, v13, v12, s[6:7] offset:512 glc\ns_waitcnt vmcnt(0)");
    test_waits();
    test_refused();
    printf("%lu passed, %lu failed\n", checks_passed, checks_failed);
    return checks_failed != 0;
}
