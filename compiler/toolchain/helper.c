/* helper.c: the program that GPU toolchains run in, and libclang for a first look at a header, so
 * that their crashes, hangs, leaks and messages are not the trainer's. It is compiled into the
 * library (see process.c), answers one request after another on its standard input, a socket, and
 * ends when that is closed. */
#include "base/base.h"
#include "target/target.h"
#include "toolchain/toolchain.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SOCKET = 0 };

typedef struct Loaded {
    char *path;                   /* NULL: not loaded */
    void *table[RTC_SYMBOLS_MAX]; /* function pointers, as the toolchain's struct of them */
} Loaded;

/* A string of the request: `size` bytes, the last of which must be its final zero. */
static char *read_string(uint64_t size) {
    char *text = size && size < UINT32_MAX ? malloc((size_t)size) : NULL;
    if (text && rtc_read(SOCKET, text, (size_t)size) && text[size - 1] == 0) return text;
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
    if (!rtc_read(SOCKET, &request, sizeof request) || request.magic != RTC_MAGIC ||
        request.toolchain >= RTC_TOOLCHAIN_COUNT)
        return false;
    char *path = read_string(request.path_size);
    char *label = path ? read_string(request.label_size) : NULL;
    char *target = label ? read_string(request.target_size) : NULL;
    char *source = target ? read_string(request.source_size) : NULL;
    bool good = source != NULL;
    if (good) {
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
        RtcReply reply = {.magic = RTC_MAGIC,
                          .status = (uint32_t)status,
                          .milliseconds = rtc_now() - start,
                          .data_size = output.data ? output.size : 0,
                          .log_size = output.log ? strlen(output.log) : 0};
        good = rtc_write(SOCKET, &reply, sizeof reply) &&
               rtc_write(SOCKET, output.data, (size_t)reply.data_size) &&
               rtc_write(SOCKET, output.log, (size_t)reply.log_size);
    }
    rtc_output_free(&output);
    free(source);
    free(target);
    free(label);
    free(path);
    return good;
}

/* Ends this process when the library, or the whole program, is no more: a compile of a toolchain
 * cannot be told to stop. A program that forked has copies of the channel, which then stays open:
 * so its number counts too. */
static pid_t parent;
static char scratch[4096]; /* the folder for temporary files; "": there is none */

static void *watch(void *data) {
    (void)data;
    for (;;) {
        struct pollfd wait = {.fd = SOCKET, .events = POLLRDHUP};
        int ready = poll(&wait, 1, 1000);
        if (ready <= 0 && getppid() == parent) continue;
        if (scratch[0]) rtc_folder_remove(scratch);
        kill(0, SIGKILL); /* the group is our own: with what the toolchain started */
    }
    return NULL;
}

static void watch_parent(void) {
    pthread_t thread;
    sigset_t all, before;
    parent = getppid();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, watch, NULL) == 0) pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
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

int main(int count, char **arguments) {
    Loaded loaded[RTC_TOOLCHAIN_COUNT] = {{0}};
    prctl(PR_SET_NAME, "lockstep-rtc");
    close_others();
    if (count >= 4 && strcmp(arguments[1], "guard") == 0) {
        int channel = fcntl(SOCKET, F_DUPFD_CLOEXEC, 3), nothing = open("/dev/null", O_RDONLY);
        if (channel < 0 || nothing < 0 || dup2(nothing, 0) < 0) _exit(1);
        close(nothing);
        _exit(rtc_guard(arguments + 2, channel));
    }
    setrlimit(RLIMIT_CORE,
              &(struct rlimit){0, 0}); /* a toolchain's crash is not worth a core file */
    keep_memory();
    if (rtc_scratch_make(getpid(), scratch, sizeof scratch) >= 0) {
        rtc_folder_sweep_beside(scratch);
        setenv("TMPDIR", scratch, 1);
    }
    watch_parent();
    while (serve(loaded)) continue;
    if (scratch[0]) rtc_folder_remove(scratch);
    _exit(0); /* no destructors: the toolchains' are not ours to trust */
}
