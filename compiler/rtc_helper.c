/* rtc_helper.c: the program that GPU toolchains run in, so that their crashes, hangs, leaks and
 * messages are not the trainer's. It is compiled into the library (see rtc_process.c), answers one
 * request after another on its standard input, a socket, and ends when that is closed. */
#include "compiler.h"
#include "rtc.h"
#include "rtc_parts.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SOCKET = 0 };

typedef struct Loaded {
    char *path;                   /* NULL: not loaded */
    void *table[RTC_SYMBOLS_MAX]; /* function pointers, as the toolchain's struct of them */
} Loaded;

static bool read_all(void *data, size_t size) {
    for (char *next = data; size;) {
        ssize_t got = read(SOCKET, next, size);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        next += got;
        size -= (size_t)got;
    }
    return true;
}

static bool write_all(const void *data, size_t size) {
    for (const char *next = data; size;) {
        ssize_t put = write(SOCKET, next, size);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        next += put;
        size -= (size_t)put;
    }
    return true;
}

/* A string of the request: `size` bytes, the last of which must be its final zero. */
static char *read_string(uint64_t size) {
    char *text = size && size < UINT32_MAX ? malloc((size_t)size) : NULL;
    if (text && read_all(text, (size_t)size) && text[size - 1] == 0) return text;
    free(text);
    return NULL;
}

static ls_status load(const RtcToolchain *toolchain, Loaded *loaded, const char *path,
                      RtcOutput *output) {
    if (loaded->path && strcmp(loaded->path, path) == 0) return LS_OK;
    free(loaded->path);
    loaded->path = NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return rtc_fail(output, LS_ERROR_TOOLCHAIN, "%s cannot be loaded: %s; %s", toolchain->title,
                        dlerror(), toolchain->advice);
    for (size_t i = 0; i < toolchain->symbol_count; i++) {
        void *address = dlsym(library, toolchain->symbols[i].name);
        if (!address)
            return rtc_fail(output, LS_ERROR_TOOLCHAIN, "%s is not %s: it has no %s; %s", path,
                            toolchain->title, toolchain->symbols[i].name, toolchain->advice);
        memcpy((char *)loaded->table + toolchain->symbols[i].offset, &address, sizeof address);
    }
    loaded->path = strdup(path);
    return LS_OK;
}

/* One request; false when there is nobody to answer. */
static bool serve(Loaded *loaded) {
    RtcRequest request;
    RtcOutput output = {0};
    if (!read_all(&request, sizeof request) || request.magic != RTC_MAGIC ||
        request.toolchain >= RTC_TOOLCHAIN_COUNT)
        return false;
    char *path = read_string(request.path_size);
    char *label = path ? read_string(request.label_size) : NULL;
    char *target = label ? read_string(request.target_size) : NULL;
    char *source = target ? read_string(request.source_size) : NULL;
    bool good = source != NULL;
    if (good) {
        alarm(request.seconds);
        RtcJob job = {.verb = (RtcVerb)request.verb,
                      .form = (RtcForm)request.form,
                      .math = (ls_math)request.math,
                      .label = label,
                      .target = target,
                      .source = source,
                      .size = (size_t)request.source_size - 1};
        const RtcToolchain *toolchain = rtc_toolchains[request.toolchain];
        Loaded *own = &loaded[request.toolchain];
        double start = rtc_now();
        ls_status status = load(toolchain, own, path, &output);
        if (status == LS_OK) status = toolchain->run(own->table, &job, &output);
        alarm(0);
        RtcReply reply = {.magic = RTC_MAGIC,
                          .status = (uint32_t)status,
                          .milliseconds = rtc_now() - start,
                          .data_size = output.data ? output.size : 0,
                          .log_size = output.log ? strlen(output.log) : 0};
        good = write_all(&reply, sizeof reply) && write_all(output.data, (size_t)reply.data_size) &&
               write_all(output.log, (size_t)reply.log_size);
    }
    rtc_output_free(&output);
    free(source);
    free(target);
    free(label);
    free(path);
    return good;
}

/* Whatever else the trainer left open is not for us to keep open. */
static void close_others(void) {
    DIR *stream = opendir("/proc/self/fd");
    if (!stream) return;
    for (struct dirent *entry; (entry = readdir(stream));) {
        int file = atoi(entry->d_name);
        if (file > 2 && file != dirfd(stream)) close(file);
    }
    closedir(stream);
}

/* Between two kernels the toolchain gives back all it allocated. To take it from the system again,
 * a page at a time, is a tenth of a compile; 32 MB stay instead. */
static void keep_memory(void) {
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 32 << 20);
    mallopt(M_TOP_PAD, 4 << 20);
#endif
}

int main(void) {
    Loaded loaded[RTC_TOOLCHAIN_COUNT] = {{0}};
    char scratch[4096];
    prctl(PR_SET_NAME, "lockstep-rtc");
    setrlimit(RLIMIT_CORE,
              &(struct rlimit){0, 0}); /* a toolchain's crash is not worth a core file */
    close_others();
    keep_memory();
    rtc_scratch_path(getpid(), scratch, sizeof scratch);
    if (mkdir(scratch, 0700) == 0) setenv("TMPDIR", scratch, 1);
    while (serve(loaded)) continue;
    rtc_scratch_remove(scratch);
    _exit(0); /* no destructors: the toolchains' are not ours to trust */
}
