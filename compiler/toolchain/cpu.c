/* cpu.c: the processors that host code is made for: this one, or all those of a level of its
 * architecture. */
#include "base/base.h"
#include "target/target.h"
#include "toolchain/toolchain.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define CPUINFO_SIZE 16384

/* The first is what is taken unless one is chosen, this processor; the others are levels, each of
 * which has what those before it have. */
static const RtcCpu cpus[] = {
#if defined(__aarch64__)
    /* clang's spelling of it; gcc knows both */
    {"native", "-mcpu=native", "-mcpu=native", "", true, false, true},
    {"baseline", "-march=armv8-a", "-mcpu=generic", "", false, false, true},
#elif defined(__x86_64__)
    {"native", "-march=native", "-march=native", "", true, false, false},
    {"baseline", "-march=x86-64", "-mcpu=x86_64", "", false, false, false},
    {"x86-64-v2", "-march=x86-64-v2", "-mcpu=x86_64_v2", "cx16 popcnt ssse3 sse4_1 sse4_2", false,
     false, false},
    {"x86-64-v3", "-march=x86-64-v3", "-mcpu=x86_64_v3", "abm avx2 bmi1 bmi2 f16c fma movbe", false,
     false, true},
    {"x86-64-v4", "-march=x86-64-v4", "-mcpu=x86_64_v4",
     "avx512f avx512bw avx512cd avx512dq avx512vl abm avx2 bmi1 bmi2 f16c fma movbe", false, true,
     true},
#else
    {"native", "-march=native", "-march=native", "", true, false, true},
#endif
};

/* Whether the word stands in the text, between blanks. */
static bool has_word(const char *text, const char *word, size_t size) {
    for (const char *at = text; (at = strchr(at, *word)); at++)
        if (strncmp(at, word, size) == 0 && strchr(" \n", at[size]) && at > text &&
            strchr(" \t", at[-1]))
            return true;
    return false;
}

/* The first processor's part of /proc/cpuinfo, without the empty line behind it. */
static void read_cpuinfo(char *text, size_t room) {
    int file = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
    ssize_t size = file < 0 ? 0 : read(file, text, room - 1);
    if (file >= 0) close(file);
    text[size < 0 ? 0 : size] = 0;
    char *end = strstr(text, "\n\n");
    if (end) end[1] = 0;
}

/* The first of the words that the processor lacks, and its length; NULL: it has all. */
static const char *missing_word(const char *info, const char *words, size_t *length) {
    for (const char *word = words; *word; word += *length + (word[*length] == ' ')) {
        *length = strcspn(word, " ");
        if (!has_word(info, word, *length)) return word;
    }
    return NULL;
}

/* The row of that name, or COUNT(cpus) and the names that there are. */
static size_t find_row(const char *name, const char *what, size_t first, char *reason,
                       size_t size) {
    size_t found = first;
    while (found < COUNT(cpus) && strcmp(name, cpus[found].name) != 0) found++;
    if (found < COUNT(cpus)) return found;
    size_t used = (size_t)snprintf(reason, size, "%s is '%s'; here it may be", what, name);
    for (size_t i = first; i < COUNT(cpus) && used < size; i++)
        used += (size_t)snprintf(reason + used, size - used, "%s %s", i > first ? "," : "",
                                 cpus[i].name);
    return found;
}

static bool find_for_others(const char *level, RtcCpu *cpu, char *reason, size_t size) {
    const size_t found = find_row(level, "the level of processors", 1, reason, size);
    if (found < COUNT(cpus)) *cpu = cpus[found];
    return found < COUNT(cpus);
}

bool rtc_cpu_find(const char *target, RtcCpu *cpu, char *reason, size_t size) {
    if (strchr(target, ':')) return find_for_others(strchr(target, ':') + 1, cpu, reason, size);
    const char *wish = environment_value(VARIABLE_LOCKSTEP_CPU);
    const size_t found =
        wish && *wish ? find_row(wish, environment_name(VARIABLE_LOCKSTEP_CPU), 0, reason, size)
                      : 0;
    if (found == COUNT(cpus)) return false;
    char info[CPUINFO_SIZE];
    size_t length = 0;
    read_cpuinfo(info, sizeof info);
    *cpu = cpus[found];
    const char *missing = missing_word(info, cpu->needs, &length);
    if (missing) {
        snprintf(reason, size,
                 "LOCKSTEP_CPU is %s, and this processor has no %.*s; leave it unset or take a "
                 "lower one",
                 cpu->name, (int)length, missing);
        return false;
    }
    if (cpu->native) {
        cpu->wide = has_word(info, "avx512f", 7);
        cpu->fma = !has_word(info, "sse2", 4) || has_word(info, "fma", 3);
    }
    return true;
}

size_t rtc_cpu_levels(const char *levels[RTC_LEVELS_MAX]) {
    const char *wish = environment_value(VARIABLE_LOCKSTEP_CPU);
    char info[CPUINFO_SIZE];
    size_t count = 0, length;
    _Static_assert(COUNT(cpus) <= RTC_LEVELS_MAX, "every level has room");
    read_cpuinfo(info, sizeof info);
    for (size_t i = COUNT(cpus); i-- > 1;) {
        const bool wanted =
            !wish || !*wish || strcmp(wish, cpus[0].name) == 0 || strcmp(wish, cpus[i].name) == 0;
        if (wanted && !missing_word(info, cpus[i].needs, &length)) levels[count++] = cpus[i].name;
    }
    return count;
}

void rtc_cpu_hash(Sha256 *hash) {
    static const char *const lines[] = {"vendor_id", "cpu family", "model", "stepping",
                                        "flags",     "Features",   "CPU ",  "isa"};
    char text[CPUINFO_SIZE];
    read_cpuinfo(text, sizeof text);
    for (const char *info = text; *info;) {
        const size_t length = strcspn(info, "\n");
        for (size_t i = 0; i < COUNT(lines); i++)
            if (strncmp(info, lines[i], strlen(lines[i])) == 0) sha256_add(hash, info, length);
        info += length + (info[length] != 0);
    }
    unsigned long capabilities[] = {getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
    sha256_add(hash, capabilities, sizeof capabilities);
}
