/* toolchain.c: which runtime compiler makes code for which target, and the pieces they share. */
#include "base/base.h"
#include "target/target.h"
#include "toolchain/toolchain.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const Rtc *const toolchains[] = {&rtc_nvrtc, &rtc_hiprtc, &rtc_clang, &rtc_host};

const Rtc *rtc_named(const char *name) {
    for (size_t i = 0; name && i < COUNT(toolchains); i++)
        if (strcmp(toolchains[i]->name, name) == 0) return toolchains[i];
    return NULL;
}

const Rtc *rtc_for_target(const char *target) {
    return target_is_well_formed(target) ? rtc_named(target_for(target)->toolchain) : NULL;
}

const char *rtc_no_toolchain(const char *target, Arena *arena) {
    return arena_printf(arena, "%s is emitted only, no toolchain makes code of it", target);
}

/* compute_90 is as much tried as sm_90 is, and gfx90a:xnack+ as gfx90a. */
static bool same_device(const char *a, const char *b) {
    if (strchr(a, '_') && strchr(b, '_')) {
        a = strchr(a, '_');
        b = strchr(b, '_');
    }
    size_t length = strcspn(a, ":");
    return length == strcspn(b, ":") && strncmp(a, b, length) == 0;
}

bool rtc_untried_target(const char *target, char *tried, size_t size) {
    const Rtc *rtc = rtc_for_target(target);
    bool found = false;
    tried[0] = 0;
    for (size_t i = 0; rtc && ls_target_at(i); i++) {
        const ls_target *chip = ls_target_at(i);
        const size_t used = strlen(tried);
        if (strcmp(chip->tried, rtc->name) != 0) continue;
        snprintf(tried + used, size - used, "%s%s", used ? ", " : "", chip->name);
        found = found || same_device(chip->name, target);
    }
    return rtc && !found;
}

int ls_toolchain_describe(const char *toolchain, char *text, size_t size) {
    const Rtc *rtc = rtc_named(toolchain);
    if (!text || size == 0) return 0;
    if (rtc) return rtc->version(text, size);
    int used =
        snprintf(text, size, "no toolchain is called '%s'; there are", toolchain ? toolchain : "");
    for (size_t i = 0; ls_toolchain_at(i, NULL) && used >= 0 && (size_t)used < size; i++)
        used += snprintf(text + used, size - (size_t)used, "%s %s", i ? "," : "",
                         ls_toolchain_at(i, NULL));
    return 0;
}

bool rtc_hash_file(Sha256 *hash, const char *path) {
    struct stat status;
    char *real = realpath(path, NULL);
    if (!real || stat(real, &status) != 0) {
        free(real);
        return false;
    }
    char facts[96];
    int length = snprintf(facts, sizeof facts, "%lld %lld.%09ld", (long long)status.st_size,
                          (long long)status.st_mtim.tv_sec, (long)status.st_mtim.tv_nsec);
    sha256_add(hash, real, strlen(real) + 1);
    sha256_add(hash, facts, (size_t)length + 1);
    free(real);
    return true;
}

void rtc_identity(char *text, size_t size, const char *name, Sha256 hash, const char *path) {
    uint8_t digest[32];
    char hexadecimal[33];
    sha256_close(&hash, digest);
    for (size_t i = 0; i < 16; i++) snprintf(hexadecimal + 2 * i, 3, "%02x", digest[i]);
    snprintf(text, size, "%s-%s, %s", name, hexadecimal, path);
}

bool rtc_read_file(const char *path, size_t limit, char **data, size_t *size) {
    *data = NULL;
    *size = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    size_t capacity = 0;
    for (;;) {
        if (*size + 1 >= capacity) { /* one byte more than it holds, for the zero */
            capacity = capacity ? 2 * capacity : 1 << 16;
            char *grown = realloc(*data, capacity);
            if (!grown) break;
            *data = grown;
        }
        size_t room = capacity - *size - 1 < limit - *size ? capacity - *size - 1 : limit - *size;
        ssize_t got = room ? read(file, *data + *size, room) : 0;
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) break;
        if (got == 0) {
            (*data)[*size] = 0;
            close(file);
            return true;
        }
        *size += (size_t)got;
    }
    close(file);
    free(*data);
    *data = NULL;
    return false;
}
