/* toolchains.c: every device function through the real NVRTC and hipRTC, for every target: it
 * compiles, and the PTX and the AMD disassembly hold no instruction that rounds otherwise than we
 * say: no approximation, no call, nothing that may be contracted. Where a toolchain is missing it
 * is left out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "toolchain/toolchain.h"
#include "lint.h"

static unsigned long checks_passed, checks_failed;
static bool check(bool passed, const char *target, const char *what, const char *more) {
    if (passed)
        checks_passed++;
    else if (checks_failed++ < 20)
        printf("failed: %s: %s %s\n", target, what, more);
    return passed;
}

/* ---- the text ---- */

static const char kernel[] = "struct Arguments { const u8 *in; u8 *out; };\n"
                             "LS_KERNEL LS_THREADS(64) every(const Arguments arguments) {\n"
                             "    const u64 i = ls_block() * ls_threads() + ls_thread();\n"
                             "    every_function(arguments.in + EVERY_INPUT * i,\n"
                             "                   arguments.out + 8 * EVERY_SLOTS * i);\n"
                             "}\n";

static char *text_of(const char *prelude) {
    const char *const parts[] = {embedded_text(prelude),     embedded_text("math.h"),
                                 embedded_text("lite.h"),    embedded_text("integer.h"),
                                 embedded_text("convert.h"), embedded_text("philox.h"),
                                 embedded_text("fixed.h")};
    FILE *file = fopen(SIMT_FOLDER "/every_function.h", "rb");
    char *every = calloc(1, 1 << 16);
    if (!file || !every || fread(every, 1, (1 << 16) - 1, file) == 0) {
        puts("cannot read " SIMT_FOLDER "/every_function.h");
        exit(1);
    }
    fclose(file);
    size_t size = strlen(every) + sizeof kernel;
    for (size_t i = 0; i < COUNT(parts); i++) size += strlen(parts[i]);
    char *text = calloc(1, size);
    if (!text) exit(1);
    for (size_t i = 0; i < COUNT(parts); i++) strcat(text, parts[i]);
    strcat(strcat(text, every), kernel);
    free(every);
    return text;
}

/* ---- what may not be there ---- */

static size_t count_words(const char *text, const char *word) {
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++) count++;
    return count;
}

static void test_target(const Rtc *rtc, const char *target, const char *text, const char *fma) {
    RtcOutput output = {0};
    char reason[512] = "";
    size_t size = strlen(text);
    ls_status status = rtc->compile(text, size, "every", target, RTC_IMAGE, LS_MATH_EXACT, &output);
    check(status == LS_OK, target, "does not compile:", output.log ? output.log : "");
    check(output.log && output.log[0] == 0, target,
          "the toolchain complains:", output.log ? output.log : "");
    check(status != LS_OK || lint_image(target, output.data, output.size, reason, sizeof reason),
          target, "the image:", reason);
    rtc_output_free(&output);
    memset(&output, 0, sizeof output);
    status = rtc->compile(text, size, "every", target, RTC_ASSEMBLY, LS_MATH_EXACT, &output);
    if (check(status == LS_OK && output.size > 0, target, "no assembly:", output.log)) {
        char *assembly = calloc(1, output.size + 1);
        if (!assembly) exit(1);
        memcpy(assembly, output.data, output.size);
        check(lint_assembly(target, assembly, reason, sizeof reason), target, "the text:", reason);
        check(count_words(assembly, fma) > 100, target, "too few of", fma);
        free(assembly);
    }
    rtc_output_free(&output);
}

/* What `math fast` makes of it is refused: the check can fail. */
static void test_fast(const Rtc *rtc, const char *target, const char *text) {
    RtcOutput output = {0};
    char reason[512] = "";
    ls_status status =
        rtc->compile(text, strlen(text), "every", target, RTC_ASSEMBLY, LS_MATH_FAST, &output);
    if (check(status == LS_OK && output.data, target, "math fast does not compile:", output.log))
        check(!lint_assembly(target, output.data, reason, sizeof reason), target,
              "math fast passes for exact", "");
    rtc_output_free(&output);
}

static size_t test_toolchain(const char *name, const char *fma) {
    const Rtc *rtc = rtc_named(name);
    char reason[512];
    size_t count = 0;
    if (!rtc->describe(reason, sizeof reason)) {
        printf("left out: %s\n", reason);
        return 0;
    }
    for (size_t i = 0; ls_target_at(i); i++) {
        const char *target = ls_target_at(i)->name;
        if (strcmp(ls_target_at(i)->tried, name) != 0) continue;
        char *text = text_of(target_for(target)->prelude);
        test_target(rtc, target, text, fma);
        if (count++ == 0 && strcmp(name, "nvrtc") == 0) test_fast(rtc, target, text);
        free(text);
    }
    return count;
}

int main(void) {
    size_t targets = test_toolchain("nvrtc", "fma.rn.f32") + test_toolchain("hiprtc", "v_fma");
    printf("%lu passed, %lu failed, %zu targets\n", checks_passed, checks_failed, targets);
    if (checks_failed) return 1;
    return targets ? 0 : 77; /* skipped */
}
