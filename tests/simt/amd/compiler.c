/* compiler.c: the product's own way from HIP source to machine code. */
#include "compiler.h"

#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "toolchain/toolchain.h"

void *amd_compile(const char *source, const char *chip, size_t *bytes, char *message, size_t size) {
    RtcOutput output = {0};
    const ls_status status = rtc_named("clang")->compile(source, strlen(source), "text", chip,
                                                         RTC_IMAGE, LS_MATH_EXACT, &output);
    void *data = NULL;
    if (status == LS_OK) {
        data = output.data;
        *bytes = output.size;
        output.data = NULL;
    } else {
        snprintf(message, size, "clang: %s", output.log ? output.log : "");
    }
    rtc_output_free(&output);
    return data;
}
