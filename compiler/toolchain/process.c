/* process.c: the helper processes that GPU toolchains, and libclang at first, run in.
 *
 * How a library finds its helper: it carries it. The helper (helper.c) is built first and its
 * bytes are compiled into the library, which puts them in a memory file and runs that: nothing to
 * install next to the library, no path to go wrong, whatever program it is linked into. Where
 * memory files may not be run (vm.memfd_noexec, no /proc), a file in a temporary folder serves, and
 * is gone once it runs.
 *
 * A helper is spawned at the first GPU compile of a process and kept, since loading NVRTC takes
 * longer than compiling. It is replaced after a crash or a timeout. Threads that compile at once
 * share as many as there are processors; another is spawned only where none has become free for as
 * long as loading takes. They are the library's one piece of global state: a child process belongs
 * to the process, not to a context; a lock guards them. A process that forked gets helpers of its
 * own. */
#include "base/base.h"
#include "target/target.h"
#include "toolchain/toolchain.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WORDS_KEPT 2000 /* of what a toolchain printed before it crashed */
#define HELPERS_MAX 8
#define PATIENCE 150 /* milliseconds to wait for a helper rather than spawn another */

typedef struct Helper {
    pid_t pid, owner; /* owner: the process whose child it is; 0: there is none */
    int channel;      /* our end of its standard input */
    int words;        /* a memory file: its standard output and error */
    bool taken;       /* by a thread, which alone looks at the rest meanwhile */
} Helper;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t given_back = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static Helper helpers[HELPERS_MAX];

/* A fork while other threads compile: in the child nobody is left who could open the lock or give
 * a helper back. */
static void forget_lock(void) {
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&given_back, NULL);
    for (size_t i = 0; i < COUNT(helpers); i++) helpers[i].taken = false;
}
static void watch_forks(void) {
    pthread_atfork(NULL, NULL, forget_lock);
}

/* ---- starting and ending ---- */

/* Where there are none: a file that nobody can name. */
static int nameless_file(void) {
    char path[] = "/tmp/lockstep-XXXXXX";
    int file = mkostemp(path, O_CLOEXEC);
    if (file >= 0) unlink(path);
    return file >= 0 ? file : open("/dev/null", O_RDWR | O_CLOEXEC);
}

static char *const helper_words[] = {(char[]){"lockstep-rtc"}, NULL};

/* False, with the reason, if there can be none. */
static bool helper_start(Helper *helper, char *reason, size_t size) {
    int ends[2] = {-1, -1};
    helper->owner = 0;
    helper->words = rtc_memory_file("lockstep-rtc-words");
    if (helper->words < 0) helper->words = nameless_file();
    int error = helper->words < 0 ? errno : 0;
    if (!error && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) error = errno;
    if (!error) fcntl(helper->words, F_SETFL, O_APPEND); /* so that emptying it rewinds it */
    if (!error) {
        error = rtc_spawn_helper(helper_words, ends[1], helper->words, &helper->pid);
    }
    if (ends[1] >= 0) close(ends[1]);
    if (!error) {
        helper->channel = ends[0];
        helper->owner = getpid();
        return true;
    }
    snprintf(reason, size, "the helper process for compilers cannot be started: %s",
             strerror(error));
    if (ends[0] >= 0) close(ends[0]);
    if (helper->words >= 0) close(helper->words);
    return false;
}

/* Forgets the helper; ends it if it runs at `deadline`. Gives its exit status, or -1. */
static int helper_end(Helper *helper, double deadline) {
    int status = -1;
    if (helper->owner == 0) return -1;
    close(helper->channel);
    if (helper->owner == getpid()) {
        rtc_reap(helper->pid, deadline, &status);
        rtc_scratch_remove(helper->pid);
    }
    close(helper->words);
    helper->owner = 0;
    return status;
}

/* The end of what it printed, in one piece of text; *text is a string always. */
static void helper_words_read(const Helper *helper, char text[WORDS_KEPT + 1]) {
    struct stat status;
    ssize_t got = 0;
    if (fstat(helper->words, &status) == 0 && S_ISREG(status.st_mode)) {
        off_t from = status.st_size > WORDS_KEPT ? status.st_size - WORDS_KEPT : 0;
        got = pread(helper->words, text, WORDS_KEPT, from);
    }
    text[got > 0 ? got : 0] = 0;
    for (size_t n = strlen(text); n && strchr(" \r\n", text[n - 1]); n--) text[n - 1] = 0;
}

/* ---- sharing ---- */

/* One that is free and runs, else, with `another`, one that is to be spawned. */
static Helper *find_free(size_t max, bool another) {
    Helper *found = NULL;
    for (size_t i = 0; i < max; i++) {
        if (helpers[i].taken) continue;
        if (helpers[i].owner == getpid()) return &helpers[i];
        if (another && !found) found = &helpers[i];
    }
    return found;
}

static Helper *helper_take(void) {
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    const size_t max = processors < 1             ? 1
                       : processors > HELPERS_MAX ? HELPERS_MAX
                                                  : (size_t)processors;
    const double patient = rtc_now() + PATIENCE;
    pthread_mutex_lock(&lock);
    bool none = true; /* is at work: there is nothing to wait for */
    for (size_t i = 0; i < max; i++) none = none && !helpers[i].taken;
    Helper *helper;
    while (!(helper = find_free(max, none || rtc_now() >= patient))) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += PATIENCE * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        pthread_cond_timedwait(&given_back, &lock, &until);
    }
    helper->taken = true;
    pthread_mutex_unlock(&lock);
    return helper;
}

static void helper_give_back(Helper *helper) {
    pthread_mutex_lock(&lock);
    helper->taken = false;
    pthread_cond_signal(&given_back);
    pthread_mutex_unlock(&lock);
}

/* ---- talking ---- */

typedef enum Talk { TALK_DONE, TALK_DEAD, TALK_LATE } Talk;

/* What a request has taken: processor time of the helper, so that a machine under load or one that
 * was stopped makes no compile fail; and time that passed, so that what only waits ends too. */
typedef struct Spent {
    double limit, before; /* milliseconds of processor time, and that of earlier requests */
    double waited, last;
    RtcLate late;
} Spent;

static double time_of(const Helper *helper) {
    clockid_t clock;
    struct timespec used;
    if (clock_getcpuclockid(helper->pid, &clock) != 0 || clock_gettime(clock, &used) != 0) return 0;
    return (double)used.tv_sec * 1e3 + (double)used.tv_nsec * 1e-6;
}

static Spent spent_nothing(const Helper *helper, const RtcToolchain *toolchain) {
    return (Spent){.limit = rtc_timeout() / (toolchain->share ? toolchain->share : 1),
                   .before = time_of(helper),
                   .last = rtc_now()};
}

static bool is_late(const Helper *helper, Spent *spent) {
    const double now = rtc_now();
    spent->waited += now - spent->last < 1000 ? now - spent->last : 1000; /* we were stopped too */
    spent->last = now;
    if (time_of(helper) - spent->before > spent->limit)
        spent->late = RTC_LATE_TIME;
    else if (spent->waited > RTC_PATIENCE * spent->limit)
        spent->late = RTC_LATE_WAIT;
    return spent->late != RTC_IN_TIME;
}

/* Moves bytes one way until all are moved, the helper is gone, or it is too late. */
static Talk move(const Helper *helper, bool send_them, void *data, size_t size, Spent *spent) {
    const int tick = spent->limit < 2000 ? (int)(spent->limit / 20) + 1 : 100;
    for (char *next = data; size;) {
        struct pollfd wait = {.fd = helper->channel, .events = send_them ? POLLOUT : POLLIN};
        int ready = poll(&wait, 1, tick);
        if (ready < 0 && errno != EINTR) return TALK_DEAD;
        if (ready <= 0 && is_late(helper, spent)) return TALK_LATE;
        if (ready <= 0) continue;
        ssize_t moved = send_them ? send(helper->channel, next, size, MSG_NOSIGNAL | MSG_DONTWAIT)
                                  : recv(helper->channel, next, size, MSG_DONTWAIT);
        if (moved < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (moved <= 0) return TALK_DEAD;
        next += moved;
        size -= (size_t)moved;
    }
    return TALK_DONE;
}

static Talk talk(const Helper *helper, RtcRequest *request, const char *path, const RtcJob *job,
                 RtcReply *reply, RtcOutput *output, Spent *spent) {
    const struct {
        const void *data;
        uint64_t size;
    } parts[] = {{request, sizeof *request},
                 {path, request->path_size},
                 {job->label, request->label_size},
                 {job->target, request->target_size},
                 {job->source, request->source_size - 1},
                 {"", 1}};
    Talk state = TALK_DONE;
    for (size_t i = 0; i < COUNT(parts) && state == TALK_DONE; i++)
        state = move(helper, true, (void *)(uintptr_t)parts[i].data, (size_t)parts[i].size, spent);
    if (state == TALK_DONE) state = move(helper, false, reply, sizeof *reply, spent);
    if (state != TALK_DONE) return state;
    if (reply->magic != RTC_MAGIC || reply->status >= LS_STATUS_COUNT) return TALK_DEAD;
    output->data = calloc((size_t)reply->data_size + 1, 1);
    output->log = calloc((size_t)reply->log_size + 1, 1);
    if (!output->data || !output->log) return TALK_DEAD;
    output->size = (size_t)reply->data_size;
    state = move(helper, false, output->data, output->size, spent);
    return state == TALK_DONE ? move(helper, false, output->log, (size_t)reply->log_size, spent)
                              : state;
}

ls_status rtc_process_run(uint32_t toolchain, const char *path, const RtcJob *job,
                          RtcOutput *output) {
    const char *title = rtc_toolchains[toolchain]->title;
    const char *target = job->target[0] ? job->target : "its version";
    char words[WORDS_KEPT + 1] = "", reason[256] = "";
    double start = rtc_now();
    Spent spent = {0};
    RtcReply reply = {0};
    Talk state = TALK_DEAD;
    int status = -1;
    RtcRequest request = {.magic = RTC_MAGIC,
                          .toolchain = toolchain,
                          .verb = (uint32_t)job->verb,
                          .form = (uint32_t)job->form,
                          .math = (uint32_t)job->math,
                          .path_size = strlen(path) + 1,
                          .label_size = strlen(job->label) + 1,
                          .target_size = strlen(job->target) + 1,
                          .source_size = job->size + 1};
    pthread_once(&once, watch_forks);
    Helper *helper = helper_take();
    if (helper->owner && helper->owner != getpid()) helper_end(helper, 0);
    /* A helper that dies on a request may have died of an earlier one, or been killed while idle: a
     * fresh one gets a second chance. A fresh one that dies died of this request. */
    for (bool fresh = false; !fresh && state == TALK_DEAD;) {
        fresh = helper->owner == 0;
        if (fresh && !helper_start(helper, reason, sizeof reason)) break;
        if (ftruncate(helper->words, 0) != 0) { /* old words then precede the new ones */
        }
        rtc_output_free(output);
        spent = spent_nothing(helper, rtc_toolchains[toolchain]);
        state = talk(helper, &request, path, job, &reply, output, &spent);
        if (state == TALK_DONE) continue;
        helper_words_read(helper, words);
        /* One that closed the channel is about to exit, and how tells why. */
        status = helper_end(helper, state == TALK_DEAD ? rtc_now() + 1000 : 0);
    }
    helper_give_back(helper);
    output->milliseconds = state == TALK_DONE ? reply.milliseconds : rtc_now() - start;
    if (state == TALK_DONE) {
        if (reply.status == LS_OK) return LS_OK;
        free(output->data);
        output->data = NULL;
        output->size = 0;
        return (ls_status)reply.status;
    }
    if (reason[0]) return rtc_fail(output, LS_ERROR_TOOLCHAIN, "%s", reason);
    if (state == TALK_LATE) {
        rtc_explain_late(spent.late, spent.limit, reason, sizeof reason);
        return rtc_fail(output, LS_ERROR_TOOLCHAIN, "%s at work on %s for %s %s%s%s", title,
                        job->label, target, reason, words[0] ? "\n" : "", words);
    }
    rtc_explain_exit(status, reason, sizeof reason);
    char tried[256], hint[400] = "";
    if (rtc_untried_target(target, tried, sizeof tried))
        snprintf(
            hint, sizeof hint,
            "; an old one does so for a device it does not know, and Lockstep is tried with %s",
            tried);
    return rtc_fail(output, LS_ERROR_TOOLCHAIN, "%s crashed on %s for %s: its process %s%s%s%s",
                    title, job->label, target, reason, hint, words[0] ? "; it said:\n" : "", words);
}
