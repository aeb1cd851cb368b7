/* gpu.c: the GPU toolchains as rows of toolchain.h: finds the library's file without loading it,
 * which is all that a cache hit needs, and leaves the rest to the helper process. */
#include "base/base.h"
#include "target/target.h"
#include "toolchain/toolchain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- where it is ---- */

/* The folders of a distribution, where ld.so looks too. */
static const char *const system_folders[] = {
#if defined(__x86_64__)
    "/usr/lib/x86_64-linux-gnu",
#elif defined(__aarch64__)
    "/usr/lib/aarch64-linux-gnu",
#endif
    "/usr/lib64", "/usr/lib", "/usr/local/lib", NULL};

static bool look_in(const RtcToolchain *toolchain, const char *folder, size_t length, char *path,
                    size_t size) {
    for (size_t i = 0; length && toolchain->files[i]; i++)
        if ((size_t)snprintf(path, size, "%.*s/%s", (int)length, folder, toolchain->files[i]) <
                size &&
            access(path, R_OK) == 0)
            return true;
    return false;
}

/* Folders of a table, "$NAME/rest" begun by an environment variable that is set. */
static bool look_in_all(const RtcToolchain *toolchain, const char *const *folders, char *path,
                        size_t size) {
    for (; *folders; folders++) {
        char name[64], folder[4096];
        size_t length = strcspn(*folders, "/");
        const char *value = "";
        if (**folders == '$') {
            snprintf(name, sizeof name, "%.*s", (int)length - 1, *folders + 1);
            value = environment_foreign(name);
            if (!value || *value != '/') continue;
        }
        if ((size_t)snprintf(folder, sizeof folder, "%s%s", value,
                             *folders + (**folders == '$' ? length : 0)) < sizeof folder &&
            look_in(toolchain, folder, strlen(folder), path, size))
            return true;
    }
    return false;
}

/* ld.so's own list. Whatever its format, each path stands in it as a string. */
static bool look_in_ld_cache(const RtcToolchain *toolchain, char *path, size_t size) {
    char *data = NULL;
    size_t length = 0;
    bool found = false;
    if (!rtc_read_file("/etc/ld.so.cache", (size_t)1 << 26, &data, &length)) return false;
    for (size_t i = 0; !found && toolchain->files[i]; i++) {
        char end[128];
        size_t end_size = (size_t)snprintf(end, sizeof end, "/%s", toolchain->files[i]) + 1;
        for (char *match = data;
             !found && (match = memmem(match, length - (size_t)(match - data), end, end_size));
             match++) {
            char *begin = match;
            while (begin > data && begin[-1]) begin--;
            found = *begin == '/' && strlen(begin) < size && access(begin, R_OK) == 0;
            if (found) strcpy(path, begin);
        }
    }
    free(data);
    return found;
}

bool rtc_find_library(const RtcToolchain *toolchain, char *path, size_t path_size, char *reason,
                      size_t reason_size) {
    const char *wish = environment_value(toolchain->variable);
    if (wish && *wish) {
        if ((size_t)snprintf(path, path_size, "%s", wish) < path_size && access(path, R_OK) == 0)
            return true;
        snprintf(reason, reason_size, "%s is '%s', which cannot be read: %s",
                 environment_name(toolchain->variable), wish, strerror(errno));
        return false;
    }
    for (const char *next = environment_foreign("LD_LIBRARY_PATH"); next;) {
        size_t length = strcspn(next, ":");
        if (look_in(toolchain, next, length, path, path_size)) return true;
        next = next[length] ? next + length + 1 : NULL;
    }
    if (look_in_all(toolchain, toolchain->folders, path, path_size) ||
        look_in_all(toolchain, system_folders, path, path_size) ||
        look_in_ld_cache(toolchain, path, path_size))
        return true;
    snprintf(reason, reason_size,
             "%s is not here: no %s in LD_LIBRARY_PATH, the toolkits' usual places (%s) or the "
             "system's; %s",
             toolchain->title, toolchain->files[0], toolchain->folders[0], toolchain->advice);
    return false;
}

/* ---- the rows ---- */

void rtc_hash_options(Sha256 *hash, const char *toolchain) {
    for (size_t i = 0; i < rtc_option_count; i++) {
        if (strcmp(rtc_options[i].toolchain, toolchain) != 0) continue;
        sha256_add(hash, rtc_options[i].text, strlen(rtc_options[i].text) + 1);
        sha256_add(hash, &rtc_options[i].uses, sizeof rtc_options[i].uses);
    }
}

static bool describe(uint32_t index, char *text, size_t size) {
    const RtcToolchain *toolchain = rtc_toolchains[index];
    char path[4096], companion[4200];
    Sha256 hash = sha256_open();
    if (!rtc_find_library(toolchain, path, sizeof path, text, size)) return false;
    if (!rtc_hash_file(&hash, path)) {
        snprintf(text, size, "%s cannot be read: %s", path, strerror(errno));
        return false;
    }
    int folder = (int)(strrchr(path, '/') ? strrchr(path, '/') - path : 0);
    for (size_t i = 0; toolchain->companions[i]; i++) {
        snprintf(companion, sizeof companion, "%.*s/%s", folder, path, toolchain->companions[i]);
        rtc_hash_file(&hash, companion);
    }
    rtc_hash_options(&hash, toolchain->name);
    rtc_identity(text, size, toolchain->name, hash, path);
    return true;
}

static ls_status run(uint32_t index, const RtcJob *job, RtcOutput *output) {
    char path[4096], reason[1024];
    if (!rtc_find_library(rtc_toolchains[index], path, sizeof path, reason, sizeof reason))
        return rtc_fail(output, LS_ERROR_TOOLCHAIN, "%s", reason);
    return rtc_process_run(index, path, job, output);
}

static bool version(uint32_t index, char *text, size_t size) {
    RtcOutput output = {0};
    char path[4096];
    RtcJob job = {.verb = RTC_VERSION, .label = "being asked", .target = "", .source = ""};
    if (!rtc_find_library(rtc_toolchains[index], path, sizeof path, text, size)) return false;
    ls_status status = run(index, &job, &output);
    const char *log = output.log ? output.log : "out of memory";
    char *real = realpath(path, NULL); /* the versioned name says more than the link */
    if (status == LS_OK)
        snprintf(text, size, "%s (%s)", log, real ? real : path);
    else
        snprintf(text, size, "%.*s", (int)strcspn(log, "\n"), log);
    free(real);
    rtc_output_free(&output);
    return status == LS_OK;
}

/* ---- NVRTC ---- */

static ls_status nvrtc_compile(const char *source, size_t size, const char *label,
                               const char *target, RtcForm form, ls_math math, RtcOutput *output) {
    const RtcJob job = {RTC_COMPILE, form, math, label ? label : "kernel", target, source, size};
    *output = (RtcOutput){0};
    return run(RTC_TOOLCHAIN_NVRTC, &job, output);
}

static bool nvrtc_describe(char *text, size_t size) {
    return describe(RTC_TOOLCHAIN_NVRTC, text, size);
}

static bool nvrtc_version(char *text, size_t size) {
    return version(RTC_TOOLCHAIN_NVRTC, text, size);
}

const Rtc rtc_nvrtc = {"nvrtc", nvrtc_compile, nvrtc_describe, nvrtc_version};

/* ---- hipRTC, one of two that amd.c has ---- */

/* A library that somebody named and is not there is a fault; one that nobody has is not. */
static ls_status run_hiprtc(const RtcJob *job, RtcOutput *output) {
    char path[4096], reason[1024];
    const char *wish = environment_value(rtc_hiprtc_toolchain.variable);
    if (!rtc_find_library(&rtc_hiprtc_toolchain, path, sizeof path, reason, sizeof reason))
        return rtc_fail(output, wish && *wish ? LS_ERROR_TOOLCHAIN : LS_ERROR_UNSUPPORTED, "%s",
                        reason);
    return rtc_process_run(RTC_TOOLCHAIN_HIPRTC, path, job, output);
}

ls_status rtc_hiprtc_compile(const RtcJob *job, RtcOutput *output) {
    return run_hiprtc(job, output);
}

ls_status rtc_hiprtc_disassemble(const char *target, const void *image, size_t size,
                                 RtcOutput *output) {
    return run_hiprtc(&(RtcJob){.verb = RTC_DISASSEMBLE,
                                .label = "an image",
                                .target = target,
                                .source = image,
                                .size = size},
                      output);
}

bool rtc_hiprtc_describe(char *text, size_t size) {
    return describe(RTC_TOOLCHAIN_HIPRTC, text, size);
}

bool rtc_hiprtc_version(char *text, size_t size) {
    return version(RTC_TOOLCHAIN_HIPRTC, text, size);
}
