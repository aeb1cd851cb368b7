/* amd.c: what makes code for AMD devices: hipRTC where it is here and knows the device, else clang.
 * A cache hit loads neither, so the key names both: which of them compiles follows from their
 * files. */
#include "base/base.h"
#include "target/target.h"
#include "toolchain/toolchain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Until a toolchain takes it: the last one's word is the answer. */
static ls_status compile(const char *source, size_t size, const char *label, const char *target,
                         RtcForm form, ls_math math, RtcOutput *output) {
    const RtcJob job = {RTC_COMPILE, form, math, label ? label : "kernel", target, source, size};
    RtcOutput second = {0};
    *output = (RtcOutput){0};
    ls_status status = rtc_hiprtc_compile(&job, output);
    if (status != LS_ERROR_UNSUPPORTED) {
        if (status == LS_OK) output->choice = strdup("hipRTC");
        return status;
    }
    status = rtc_clang_compile(&job, &second);
    if (status == LS_ERROR_UNSUPPORTED) {
        status = rtc_fail(&second, LS_ERROR_TOOLCHAIN, "nothing here makes code for %s: %s; %s",
                          target, output->log ? output->log : "", second.log ? second.log : "");
        second.maker = "the compilers for AMD devices";
    } else if (status == LS_OK) {
        char *compiler = second.choice;
        if (!compiler ||
            asprintf(&second.choice, "%s, as %s", compiler, output->log ? output->log : "") < 0)
            second.choice = NULL;
        free(compiler);
    }
    rtc_output_free(output);
    *output = second;
    return status;
}

static bool describe(char *text, size_t size) {
    char first[1024] = "", second[1024] = "";
    const bool hiprtc = rtc_hiprtc_describe(first, sizeof first);
    const bool clang = rtc_clang.describe(second, sizeof second);
    if (!hiprtc && !clang) {
        snprintf(text, size, "%s; or else clang: %s", first, second);
        return false;
    }
    /* each begins with its hash */
    snprintf(text, size, "%.128s; %.128s", hiprtc ? first : "no hipRTC",
             clang ? second : "no clang");
    return true;
}

const Rtc rtc_hiprtc = {"hiprtc", compile, describe, rtc_hiprtc_version};

ls_status rtc_disassemble(const char *target, const void *image, size_t size, RtcOutput *output) {
    *output = (RtcOutput){0};
    ls_status status = rtc_hiprtc_disassemble(target, image, size, output);
    if (status != LS_ERROR_UNSUPPORTED) return status;
    rtc_output_free(output);
    *output = (RtcOutput){0};
    return rtc_clang_disassemble(image, size, output);
}
