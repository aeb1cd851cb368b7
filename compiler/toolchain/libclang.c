/* libclang.c: libclang as the helper runs it: it parses a C header once, so that what takes too
 * long, or too much memory, or ends libclang, happens there. The library parses it again afterwards
 * (front/import_c.c). Runs in the helper only.
 *
 * A job's source is an RtcHeader, the folder that relative paths begin in ("": not known) and the
 * arguments, each with its final zero, and the texts that stand in for files: path with its zero,
 * size as eight bytes, text with a zero. */
#include "base/base.h"
#include "target/target.h"
#include "toolchain/toolchain.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MEMORY_MAX_MB = 4096, DETAILED_PREPROCESSING = 1 };

typedef struct String {
    const void *data;
    unsigned flags;
} String;
typedef struct Location {
    const void *pointers[2];
    unsigned data;
} Location;
struct Unsaved {
    const char *path, *text;
    unsigned long size;
};
typedef void (*Inclusion)(void *file, Location *from, unsigned count, void *data);

#define LIBCLANG(X)                                                                     \
    X(void *, clang_createIndex, (int exclude, int display))                            \
    X(int, clang_parseTranslationUnit2,                                                 \
      (void *index, const char *path, const char *const *arguments, int argument_count, \
       struct Unsaved *unsaved, unsigned unsaved_count, unsigned options, void **unit)) \
    X(void, clang_disposeTranslationUnit, (void *unit))                                 \
    X(void, clang_disposeIndex, (void *index))                                          \
    X(void, clang_getInclusions, (void *unit, Inclusion visitor, void *data))           \
    X(String, clang_getFileName, (void *file))                                          \
    X(const char *, clang_getCString, (String string))                                  \
    X(void, clang_disposeString, (String string))

typedef struct Libclang {
#define X(result, name, arguments) result(*name) arguments;
    LIBCLANG(X)
#undef X
} Libclang;
static const RtcSymbol symbols[] = {
#define X(result, name, arguments) {#name, offsetof(Libclang, name)},
    LIBCLANG(X)
#undef X
};
_Static_assert(sizeof(Libclang) <= RTC_SYMBOLS_MAX * sizeof(void *),
               "the helper's table is too small");

/* ---- the request ---- */

typedef struct Request {
    const char *folder, **arguments;
    struct Unsaved *files;
    size_t argument_count, file_count;
    const char *next, *end;
} Request;

/* The next string; NULL: the request is broken. */
static const char *take_string(Request *r) {
    const char *text = r->next;
    const char *zero = text < r->end ? memchr(text, 0, (size_t)(r->end - text)) : NULL;
    r->next = zero ? zero + 1 : r->end;
    return zero ? text : NULL;
}

static bool take_file(Request *r, struct Unsaved *file) {
    uint64_t size;
    file->path = take_string(r);
    if (!file->path || (size_t)(r->end - r->next) < sizeof size) return false;
    memcpy(&size, r->next, sizeof size);
    r->next += sizeof size;
    if ((uint64_t)(r->end - r->next) <= size) return false;
    file->text = r->next;
    file->size = (unsigned long)size;
    r->next += size + 1;
    return true;
}

static bool read_request(const RtcJob *job, Request *r) {
    RtcHeader counts;
    *r = (Request){.next = job->source, .end = job->source + job->size};
    if (job->size < sizeof counts) return false;
    memcpy(&counts, job->source, sizeof counts);
    r->next += sizeof counts;
    if (counts.arguments > job->size || counts.files > job->size) return false;
    r->argument_count = counts.arguments;
    r->file_count = counts.files;
    r->arguments = calloc(r->argument_count + 1, sizeof *r->arguments);
    r->files = calloc(r->file_count + 1, sizeof *r->files);
    bool good = r->arguments && r->files && (r->folder = take_string(r)) != NULL;
    for (size_t i = 0; good && i < r->argument_count; i++)
        good = (r->arguments[i] = take_string(r)) != NULL;
    for (size_t i = 0; good && i < r->file_count; i++) good = take_file(r, &r->files[i]);
    return good;
}

/* ---- parsing ---- */

/* What it may take: so much more than the process has. */
static struct rlimit limit_memory(void) {
    struct rlimit before = {RLIM_INFINITY, RLIM_INFINITY};
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    const bool known = file && fscanf(file, "%lu", &pages) == 1;
    if (file) fclose(file);
    if (!known || getrlimit(RLIMIT_AS, &before) != 0) return before;
    const rlim_t most =
        (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)MEMORY_MAX_MB << 20);
    if (most < before.rlim_cur) setrlimit(RLIMIT_AS, &(struct rlimit){most, before.rlim_max});
    return before;
}

typedef struct Found {
    const Libclang *clang;
    char odd[1024]; /* the name of a file that is none; "": there is no such */
} Found;

/* What is no file has no end, or waits: the next who reads it may wait for ever. */
static void look_at_file(void *file, Location *from, unsigned count, void *data) {
    Found *found = data;
    struct stat status;
    (void)from, (void)count;
    const String name = found->clang->clang_getFileName(file);
    const char *path = found->clang->clang_getCString(name);
    if (path && stat(path, &status) == 0 && !S_ISREG(status.st_mode))
        snprintf(found->odd, sizeof found->odd, "%s", path);
    found->clang->clang_disposeString(name);
}

static ls_status parse(const Libclang *clang, const RtcJob *job, Request *r, RtcOutput *output) {
    Found found = {.clang = clang};
    void *unit = NULL, *index = clang->clang_createIndex(0, 0);
    if (!index) return rtc_fail(output, LS_ERROR_MEMORY, "libclang cannot begin to read");
    const struct rlimit before = limit_memory();
    const int failed = clang->clang_parseTranslationUnit2(
        index, job->label, r->arguments, (int)r->argument_count, r->files, (unsigned)r->file_count,
        DETAILED_PREPROCESSING, &unit);
    setrlimit(RLIMIT_AS, &before);
    if (unit) clang->clang_getInclusions(unit, look_at_file, &found);
    if (unit) clang->clang_disposeTranslationUnit(unit);
    clang->clang_disposeIndex(index);
    if (failed || !unit)
        return rtc_fail(output, LS_ERROR_TOOLCHAIN,
                        "libclang gave up on it (its error %d), which may be for want of memory: "
                        "it has %d MiB",
                        failed, MEMORY_MAX_MB);
    if (found.odd[0])
        return rtc_fail(output, LS_ERROR_TOOLCHAIN, "it includes %s, which is no file", found.odd);
    return rtc_fail(output, LS_OK, "%s", "");
}

/* In the folder of the process that asks; back in the helper's own afterwards. */
static ls_status parse_in_folder(const Libclang *clang, const RtcJob *job, Request *r,
                                 RtcOutput *output) {
    if (!*r->folder) return parse(clang, job, r, output);
    const int own = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (own < 0 || chdir(r->folder) != 0) {
        const int error = errno;
        if (own >= 0) close(own);
        return rtc_fail(output, LS_ERROR_FILE, "the folder %s cannot be entered: %s", r->folder,
                        strerror(error));
    }
    const ls_status status = parse(clang, job, r, output);
    const bool back = fchdir(own) == 0;
    close(own);
    return back ? status : rtc_fail(output, LS_ERROR_FILE, "the helper lost its folder");
}

static ls_status run(const void *table, const RtcJob *job, RtcOutput *output) {
    Request request;
    ls_status status =
        read_request(job, &request)
            ? parse_in_folder(table, job, &request, output)
            : rtc_fail(output, LS_ERROR_INTERNAL, "the request to libclang is incomplete");
    free(request.arguments);
    free(request.files);
    return status;
}

static const char *const none[] = {NULL};

/* The library's file is the one that the library itself has loaded. */
const RtcToolchain rtc_libclang_toolchain = {
    .name = "libclang",
    .title = "libclang",
    .variable = VARIABLE_LOCKSTEP_LIBCLANG,
    .files = none,
    .folders = none,
    .companions = none,
    .advice = "name the file with LOCKSTEP_LIBCLANG",
    .symbols = symbols,
    .symbol_count = COUNT(symbols),
    .share = 10,
    .run = run,
};
