/* ptx_instructions_test.c: PTX instruction by instruction, in texts of this file: what the manual
 * says of the values that are easy to get wrong, and what is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simt.h"

enum { MESSAGE_SIZE = 4000 };

static unsigned long checks_passed, checks_failed;
static char message[MESSAGE_SIZE];

static void check(bool passed, const char *what, const char *more) {
    if (passed)
        checks_passed++;
    else if (checks_failed++ < 20)
        printf("failed: %s %s\n", what, more);
}

/* ---- texts ---- */

static const char head[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
                           ".visible .entry text(.param .align 8 .b8 text_param_0[16])\n"
                           ".maxntid 64, 1, 1\n{\n"
                           ".reg .pred %p<8>;\n.reg .b16 %h<8>;\n.reg .b32 %w<8>;\n"
                           ".reg .b64 %d<8>;\n.reg .b32 %t<4>;\n.reg .b64 %out, %in;\n"
                           "ld.param.u64 %in, [text_param_0];\n"
                           "ld.param.u64 %out, [text_param_0+8];\n"
                           "mov.u32 %t1, %tid.x;\n";

static char *text_of(const char *body) {
    char *text = malloc(sizeof head + strlen(body) + 16);
    if (!text) exit(1);
    sprintf(text, "%s%s\nret;\n}\n", head, body);
    return text;
}

static bool run(const char *body, const void *in, void *out, uint32_t threads) {
    const void *arguments[2] = {in, out};
    const SimtLaunch launch = {.kernel = "text",
                               .arguments = arguments,
                               .blocks = 1,
                               .threads = threads,
                               .wave = 32,
                               .seed = 7};
    char *text = text_of(body);
    message[0] = 0;
    const bool done = simt_run(text, strlen(text), SIMT_PTX, &launch, message, sizeof message);
    free(text);
    return done;
}

/* ---- values ---- */

/* Operands of 16, 32 or 64 bits: h, w, d, or a predicate p; first the result's. */
typedef struct Case {
    const char *instruction, *operands;
    uint64_t in[3], out;
} Case;

#define NAN_F32 0x7fffffff
#define ONE 0x3f800000
#define INFINITY_F32 0x7f800000
#define MINUS 0x80000000
static const Case cases[] = {
    /* one rounding, to nearest even; no payload of a NaN stays in single precision */
    {"add.rn.f32", "www", {ONE, 0x33800000}, ONE},
    {"add.rn.f32", "www", {ONE, 0x33800001}, 0x3f800001},
    {"add.rn.f32", "www", {0xffc12345, ONE}, NAN_F32},
    {"sub.rn.f32", "www", {INFINITY_F32, INFINITY_F32}, NAN_F32},
    {"mul.rn.f32", "www", {0x00800000, 0x3f000000}, 0x00400000},
    {"mul.rn.ftz.f32", "www", {0x00800000, 0x3f000000}, 0},
    {"add.rn.ftz.f32", "www", {0x807fffff, 0x80000000}, MINUS},
    {"fma.rn.f32", "wwww", {0x3f800001, 0x3f800001, 0xbf800002}, 0x28800000},
    {"div.rn.f32", "www", {ONE, 0x40400000}, 0x3eaaaaab},
    {"div.rn.f32", "www", {MINUS, 0}, NAN_F32},
    {"rcp.rn.f32", "ww", {MINUS}, 0xff800000},
    {"sqrt.rn.f32", "ww", {MINUS}, MINUS},
    {"sqrt.rn.f32", "ww", {0xbf800000}, NAN_F32},
    {"neg.f32", "ww", {0xffc00001}, 0x7fc00001},
    {"abs.f32", "ww", {MINUS}, 0},
    {"add.rn.f64", "ddd", {0x3ff0000000000000, 0x3ca0000000000000}, 0x3ff0000000000000},
    {"fma.rn.f64",
     "dddd",
     {0x3ff0000000000001, 0x3ff0000000000001, 0xbff0000000000002},
     0x3970000000000000},
    /* the number, not the NaN; the zeros are ordered */
    {"min.f32", "www", {0x7fc00000, ONE}, ONE},
    {"max.f32", "www", {ONE, 0xffc00000}, ONE},
    {"min.f32", "www", {0, MINUS}, MINUS},
    {"max.f32", "www", {MINUS, 0}, 0},
    {"min.f32", "www", {0x7fc00001, 0x7fc00002}, NAN_F32},
    {"max.NaN.f32", "www", {ONE, 0x7fc00001}, NAN_F32},
    {"min.f64", "ddd", {0, 0x8000000000000000}, 0x8000000000000000},
    /* comparisons: of a NaN only the u forms, ne is not one of them */
    {"setp.ne.f32", "pww", {0x7fc00000, ONE}, 0},
    {"setp.neu.f32", "pww", {0x7fc00000, ONE}, 1},
    {"setp.eq.f32", "pww", {0, MINUS}, 1},
    {"setp.lt.f32", "pww", {0x7fc00000, ONE}, 0},
    {"setp.geu.f32", "pww", {0x7fc00000, ONE}, 1},
    {"setp.nan.f32", "pww", {ONE, 0x7f800001}, 1},
    {"setp.num.f32", "pww", {ONE, ONE}, 1},
    {"setp.lt.s32", "pww", {0xffffffff, 0}, 1},
    {"setp.lt.u32", "pww", {0xffffffff, 0}, 0},
    {"setp.lt.s16", "phh", {0x8000, 1}, 1},
    {"setp.gt.u64", "pdd", {0x8000000000000000, 1}, 1},
    /* integers wrap; more places than there are shift everything out */
    {"add.s32", "www", {0x7fffffff, 1}, MINUS},
    {"sub.s16", "hhh", {0, 1}, 0xffff},
    {"mul.lo.s32", "www", {0x10001, 0x10001}, 0x20001},
    {"mul.lo.s64", "ddd", {0x100000001, 0x100000001}, 0x200000001},
    {"mul.hi.s32", "www", {0xffffffff, 0xffffffff}, 0},
    {"mul.hi.u32", "www", {0xffffffff, 0xffffffff}, 0xfffffffe},
    {"mul.hi.u64", "ddd", {0xffffffffffffffff, 0xffffffffffffffff}, 0xfffffffffffffffe},
    {"mul.hi.s64", "ddd", {0xffffffffffffffff, 2}, 0xffffffffffffffff},
    {"mul.wide.s32", "dww", {0xffffffff, 2}, 0xfffffffffffffffe},
    {"mul.wide.u32", "dww", {0xffffffff, 2}, 0x1fffffffe},
    {"mad.lo.s32", "wwww", {3, 5, 0xffffffff}, 14},
    {"div.s64", "ddd", {0xfffffffffffffff9, 2}, 0xfffffffffffffffd},
    {"rem.s64", "ddd", {0xfffffffffffffff9, 2}, 0xffffffffffffffff},
    {"div.u32", "www", {0xffffffff, 2}, 0x7fffffff},
    {"neg.s32", "ww", {MINUS}, MINUS},
    {"abs.s64", "dd", {0xffffffffffffffff}, 1},
    {"min.s64", "ddd", {0xffffffffffffffff, 0}, 0xffffffffffffffff},
    {"min.u64", "ddd", {0xffffffffffffffff, 0}, 0},
    {"shl.b32", "www", {1, 32}, 0},
    {"shl.b64", "ddw", {1, 63}, 0x8000000000000000},
    {"shl.b64", "ddw", {1, 64}, 0},
    {"shr.s32", "www", {MINUS, 40}, 0xffffffff},
    {"shr.u32", "www", {MINUS, 31}, 1},
    {"shr.u64", "ddw", {0xff00000000000000, 0xffffffff}, 0},
    {"not.b64", "dd", {1}, 0xfffffffffffffffe},
    {"prmt.b32", "wwww", {0x33221100, 0x77665544, 0x7604}, 0x77660044},
    {"prmt.b32", "wwww", {0x00000080, 0, 0x0008}, 0x808080ff},
    {"bfi.b32", "wwwii", {0xff, 0x12345678, 8 | 4u << 8}, 0x12345f78},
    {"shf.l.wrap.b32", "wwww", {0x80000000, 1, 1}, 3},
    {"shf.r.clamp.b32", "wwww", {1, 0x5, 40}, 5},
    {"lop3.b32", "wwwwx", {0xf0, 0xcc, 0xaa}, 0x96},
    {"popc.b64", "wd", {0xf0f0f0f0f0f0f0f0}, 32},
    {"clz.b32", "ww", {0}, 32},
    {"selp.b64", "ddd", {5, 6}, 5},
    /* conversions */
    {"cvt.rzi.s32.f32", "ww", {0x4f000000}, 0x7fffffff},
    {"cvt.rzi.s32.f32", "ww", {0xff800000}, MINUS},
    {"cvt.rzi.s32.f32", "ww", {0x7fc00000}, 0},
    {"cvt.rzi.s64.f32", "dw", {0x7fc00000}, 0x8000000000000000},
    {"cvt.rzi.u64.f32", "dw", {0xbf800000}, 0},
    {"cvt.rzi.u64.f32", "dw", {0x5f800000}, 0xffffffffffffffff},
    {"cvt.rzi.s64.f64", "dd", {0xbffe000000000000}, 0xffffffffffffffff},
    {"cvt.rzi.s32.f64", "wd", {0x7ff8000000000000}, MINUS},
    {"cvt.rni.s32.f32", "ww", {0x40200000}, 2},
    {"cvt.rn.f32.s64", "wd", {0x1000001}, 0x4b800000},
    {"cvt.rn.f32.s64", "wd", {0x7fffff4000000001}, 0x5effffff},
    {"cvt.rn.f64.u64", "dd", {0xffffffffffffffff}, 0x43f0000000000000},
    {"cvt.rn.f32.f64", "wd", {0x3ff0000010000000}, ONE},
    {"cvt.rn.f32.f64", "wd", {0x3690000000000001}, 1},
    {"cvt.f64.f32", "dw", {1}, 0x36a0000000000000},
    {"cvt.s64.s32", "dw", {MINUS}, 0xffffffff80000000},
    {"cvt.u64.u32", "dw", {MINUS}, 0x80000000},
    {"cvt.s32.s8", "ww", {0x1ff}, 0xffffffff},
    {"cvt.u16.u32", "hw", {0x12345}, 0x2345},
    {"cvt.rn.bf16.f32", "hw", {0x3f808000}, 0x3f80},
    {"cvt.rn.bf16.f32", "hw", {0x3f818000}, 0x3f82},
    {"cvt.rn.bf16.f32", "hw", {0x7f7fffff}, 0x7f80},
    {"cvt.rn.bf16.f32", "hw", {0xffc12345}, 0x7fff},
    {"cvt.rn.bf16.f32", "hw", {0x80008001}, 0x8001},
    {"cvt.rn.f16.f32", "hw", {0x477fefff}, 0x7bff},
    {"cvt.rn.f16.f32", "hw", {0x477ff000}, 0x7c00},
    {"cvt.rn.f16.f32", "hw", {0x33000000}, 0},
    {"cvt.rn.f16.f32", "hw", {0x33000001}, 1},
    {"cvt.rn.f16.f32", "hw", {0x387fe000}, 0x0400},
    {"cvt.rn.f16.f32", "hw", {0xff800000}, 0xfc00},
    {"cvt.rn.f16x2.f32", "www", {ONE, 0xc0000000}, 0x3c00c000},
    {"cvt.f32.f16", "wh", {0x8001}, 0xb3800000},
    {"cvt.f32.f16", "wh", {0x7c00}, INFINITY_F32},
    {"cvt.f32.bf16", "wh", {0x8001}, 0x80010000},
};
enum { CASES = sizeof cases / sizeof *cases };

static unsigned bytes_of(char kind) {
    return kind == 'd' ? 8 : kind == 'h' ? 2 : 4;
}

/* Loads the operands of case `i`, runs it, stores the result as 64 bits. An `i` among the operands
 * is a byte of the third number, an `x` the table of three xors; selp's condition is true. */
static void write_case(FILE *file, const Case *it, int i) {
    const size_t count = strlen(it->operands);
    int bytes = 0;
    for (size_t k = 1; k < count && k <= 3; k++)
        if (strchr("hwd", it->operands[k]))
            fprintf(file, "ld.global.u%u %%%c%zu, [%%in+%d];\n", 8 * bytes_of(it->operands[k]),
                    it->operands[k], k, 24 * i + 8 * (int)(k - 1));
    if (strncmp(it->instruction, "selp", 4) == 0) fprintf(file, "setp.eq.u32 %%p1, 0, 0;\n");
    fprintf(file, "%s %%%c0", it->instruction, it->operands[0]);
    for (size_t k = 1; k < count; k++) {
        if (it->operands[k] == 'i')
            fprintf(file, ", %d", (int)(it->in[2] >> 8 * bytes++ & 255));
        else if (it->operands[k] == 'x')
            fprintf(file, ", 0x96");
        else
            fprintf(file, ", %%%c%zu", it->operands[k], k);
    }
    if (strncmp(it->instruction, "selp", 4) == 0) fprintf(file, ", %%p1");
    fprintf(file, ";\n");
    switch (it->operands[0]) {
    case 'p': fprintf(file, "selp.u64 %%d0, 1, 0, %%p0;\n"); break;
    case 'h': fprintf(file, "cvt.u64.u16 %%d0, %%h0;\n"); break;
    case 'w': fprintf(file, "cvt.u64.u32 %%d0, %%w0;\n"); break;
    default: break;
    }
    fprintf(file, "st.global.u64 [%%out+%d], %%d0;\n", 8 * i);
}

static void test_values(void) {
    static uint64_t in[CASES][3], out[CASES];
    char *body = NULL, more[256];
    size_t size = 0;
    FILE *file = open_memstream(&body, &size);
    if (!file) exit(1);
    for (int i = 0; i < CASES; i++) {
        memcpy(in[i], cases[i].in, sizeof in[i]);
        write_case(file, &cases[i], i);
    }
    fclose(file);
    check(run(body, in, out, 1), "the cases do not run:", message);
    free(body);
    for (int i = 0; i < CASES; i++) {
        const Case *it = &cases[i];
        snprintf(more, sizeof more, "of %llx, %llx, %llx: %llx, expected %llx",
                 (unsigned long long)it->in[0], (unsigned long long)it->in[1],
                 (unsigned long long)it->in[2], (unsigned long long)out[i],
                 (unsigned long long)it->out);
        check(out[i] == it->out, it->instruction, more);
    }
}

/* ---- memory, lanes, flow ---- */

static void test_memory(void) {
    static const char body[] =
        ".shared .align 8 .b8 kept[512];\n.local .align 8 .b8 own[16];\n"
        "mul.wide.u32 %d1, %t1, 16;\nadd.s64 %d2, %in, %d1;\nadd.s64 %d3, %out, %d1;\n"
        "ld.global.nc.L1::no_allocate.v4.b32 {%w0, %w1, _, %w3}, [%d2];\n"
        "mov.u32 %t2, kept;\nshl.b32 %t3, %t1, 3;\nadd.s32 %t2, %t2, %t3;\n"
        "st.shared.v2.b32 [%t2], {%w0, %w3};\nbar.sync 0;\n"
        "xor.b32 %t3, %t3, 8;\nmov.u32 %t2, kept;\nadd.s32 %t2, %t2, %t3;\n"
        "ld.shared.u64 %d4, [%t2];\nmov.b64 {%w4, %w5}, %d4;\n"
        "mov.b64 %d5, {%w5, %w4};\nst.local.u64 [own+8], %d5;\nld.local.b64 %d6, [own+8];\n"
        "mov.u64 %d7, kept;\ncvta.shared.u64 %d7, %d7;\nld.u32 %w6, [%d7];\n"
        "st.global.v2.b64 [%d3], {%d6, %d4};\n"
        "cvt.u16.u32 %h1, %w1;\nst.global.u8 [%d3], %h1;\n";
    static uint32_t in[64][4], out[64][4];
    for (uint32_t i = 0; i < 64; i++)
        for (uint32_t k = 0; k < 4; k++) in[i][k] = (i * 4 + k) * 2654435761u;
    check(run(body, in, out, 64), "memory:", message);
    for (uint32_t i = 0; i < 64; i++) {
        const uint32_t *from = in[i ^ 1];
        const uint32_t wanted[4] = {(from[3] & ~255u) | (in[i][1] & 255), from[0], from[0],
                                    from[3]};
        check(memcmp(out[i], wanted, sizeof wanted) == 0, "memory of a thread", "");
    }
}

/* Each mode's lane, and whether it lies in the segment. */
static void test_shuffles(void) {
    static const struct {
        const char *mode;
        int b, c;
    } modes[] = {{"bfly", 5, 31}, {"bfly", 20, 0x101f}, {"down", 3, 31},    {"up", 3, 0},
                 {"idx", 37, 31}, {"idx", 2, 0x181f},   {"down", 9, 0x181f}};
    static uint32_t out[32][2];
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        char body[512];
        snprintf(body, sizeof body,
                 "mul.wide.u32 %%d1, %%t1, 8;\nadd.s64 %%d3, %%out, %%d1;\n"
                 "mul.lo.s32 %%w1, %%t1, 3;\n"
                 "shfl.sync.%s.b32 %%w2|%%p1, %%w1, %d, %d, -1;\n"
                 "selp.b32 %%w3, 1, 0, %%p1;\nst.global.v2.b32 [%%d3], {%%w2, %%w3};\n",
                 modes[m].mode, modes[m].b, modes[m].c);
        check(run(body, NULL, out, 32), modes[m].mode, message);
        for (int lane = 0; lane < 32; lane++) {
            const int segment = modes[m].c >> 8, first = lane & segment, b = modes[m].b & 31;
            const int last = first | (31 & ~segment);
            const int from = *modes[m].mode == 'b'   ? lane ^ b
                             : *modes[m].mode == 'd' ? lane + b
                             : *modes[m].mode == 'u' ? lane - b
                                                     : first | (b & ~segment);
            const int inside = *modes[m].mode == 'u' ? from >= first : from <= last;
            check(out[lane][0] == (uint32_t)(3 * (inside ? from : lane)) &&
                      out[lane][1] == (uint32_t)inside,
                  modes[m].mode, "a lane of another");
        }
    }
}

static void test_flow(void) {
    static const char body[] =
        "mul.wide.u32 %d1, %t1, 4;\nadd.s64 %d3, %out, %d1;\nmov.u32 %w1, 0;\nmov.u32 %w2, 1;\n"
        "setp.eq.u32 %p1, %t1, 0;\n@%p1 bra $L_end;\n"
        "$L_top:\nadd.s32 %w1, %w1, %w2;\nadd.s32 %w2, %w2, 1;\n"
        "setp.le.and.u32 %p2, %w2, %t1, 1;\n@!%p2 bra $L_end;\nbra.uni $L_top;\n"
        "$L_end:\n{\n.param .b32 param0;\nst.param.b32 [param0], %w1;\nld.param.b32 %w3, "
        "[param0];\n}\n"
        "atom.global.add.u32 %w4, [%out+256], 1;\nred.relaxed.gpu.global.max.u32 [%out+260], %t1;\n"
        "st.global.u32 [%d3], %w3;\n";
    static uint32_t out[66];
    memset(out, 0, sizeof out);
    check(run(body, NULL, out, 64), "flow:", message);
    for (uint32_t i = 0; i < 64; i++) check(out[i] == i * (i + 1) / 2, "a loop of a thread", "");
    check(out[64] == 64 && out[65] == 63, "atomics", "");
}

/* -1 is the predicate that holds. */
static void test_predicates(void) {
    static const char body[] =
        "mul.wide.u32 %d1, %t1, 4;\nadd.s64 %d3, %out, %d1;\nsetp.eq.u32 %p1, %t1, 0;\n"
        "xor.pred %p2, %p1, -1;\nselp.u32 %w1, 1, 0, %p2;\nst.global.u32 [%d3], %w1;\n";
    static uint32_t out[2];
    check(run(body, NULL, out, 2), "predicates:", message);
    check(out[0] == 0 && out[1] == 1, "the inverse of a predicate", "");
}

/* An approximation is never far off, and not always the same. */
static void test_approximations(void) {
    static const char *const names[] = {"rcp.approx.ftz.f32", "sqrt.approx.f32", "ex2.approx.f32"};
    static const float nearest[] = {1 / 1.7f, 1.30384048f, 3.24900959f};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        static float out[64];
        char body[512];
        bool varies = false;
        snprintf(body, sizeof body,
                 "mul.wide.u32 %%d1, %%t1, 4;\nadd.s64 %%d3, %%out, %%d1;\n"
                 "%s %%w1, 0f3FD9999A;\nst.global.u32 [%%d3], %%w1;\n",
                 names[n]);
        check(run(body, NULL, out, 64), names[n], message);
        for (int i = 0; i < 64; i++) {
            const float off = out[i] / nearest[n] - 1;
            check(off < 4e-7f && off > -4e-7f, names[n], "is too far off");
            varies |= out[i] != out[0];
        }
        check(varies, names[n], "is the same each time");
    }
}

/* ---- refused ---- */

static void test_refused(void) {
    static const struct {
        const char *body, *reason;
    } refused[] = {
        {"unheard.of.b32 %w1, %w2;", "ptx_unheard_of_b32"},
        {"add.f32 %w1, %w2, %w3;", "ptx_add_f32"},
        {"ld.global.u32 %w1, [%in+2];", "not a multiple"},
        {"ld.global.v4.u32 {%w1, %w2, %w3, %w4}, [%in+8];", "not a multiple"},
        {"ld.global.unheard.u32 %w1, [%in];", ".unheard is not known"},
        {"ld.global.v2.u32 %w1, [%in];", "moves 1 registers"},
        {"mov.u32 %w1, %clock.x;", "the register %clock.x is not known"},
        {"bar.sync 1;", "other than the block's"},
        {"bar.warp.sync 3;", "must name all 32"},
        {"shfl.sync.idx.b32 %w1, %w2, 0, 31, 1;", "must name all 32"},
        {"fence.proxy.async;", "is not known"},
        {"setp.lt.f32 %p1|%p2, %w1, %w2;", "is not known"},
        {".unheard %w1;", "is not known"},
        {"trap;", "trap"},
        {"@%p1 add.s32 %w1, %w2;", "ptx_add_s32"},
    };
    static _Alignas(16) uint32_t memory[32];
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const bool ran = run(refused[i].body, memory, memory, 32);
        check(!ran && strstr(message, refused[i].reason), refused[i].body, message);
    }
    check(simt_open(".version 8.0\n.global .u32 counter;\n", 34, SIMT_PTX, NULL, 0, message,
                    sizeof message) == NULL &&
              strstr(message, "line 2: .global is not known"),
          "a variable of the module:", message);
}

int main(void) {
    test_values();
    test_memory();
    test_shuffles();
    test_flow();
    test_predicates();
    test_approximations();
    test_refused();
    printf("%lu passed, %lu failed\n", checks_passed, checks_failed);
    return checks_failed != 0;
}
