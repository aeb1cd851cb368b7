/* guard.c: the helper program's other use: it stands between the library and the system's C
 * compiler, for one compile.
 *
 * It makes the compile's folder, runs the compiler in it when it is asked to, and at its end
 * removes the folder. It ends when the library says so, or is no more: whether the program was
 * killed, and however, all that the compiler has started is killed and its folder removed. That
 * takes a process of its own: no handler runs at SIGKILL, and a parent-death signal comes when the
 * *thread* ends and is not inherited by what a compiler starts.
 *
 * What a compiler may use is processor time, measured over all that it has started: a machine under
 * load, or one that was stopped, makes no compile fail. What only waits is ended after ten times as
 * long. */
#include "base/base.h"
#include "target/target.h"
#include "toolchain/toolchain.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES_MAX = 4096, WORDS_MAX = 256 };

typedef struct Guard {
    int channel, signals, lock; /* lock: holds the folder */
    pid_t self, parent;
    double limit; /* milliseconds of processor time */
    char folder[4096];
} Guard;

/* ---- what the compiler has started ---- */

/* The processes below `parent`, which is one of `found` or this one. Every one of them is here:
 * what loses its parent becomes this process's child (PR_SET_CHILD_SUBREAPER). */
static size_t add_children(pid_t parent, pid_t *found, size_t count) {
    char path[320];
    snprintf(path, sizeof path, "/proc/%ld/task", (long)parent);
    DIR *threads = opendir(path);
    for (struct dirent *thread; threads && (thread = readdir(threads));) {
        long child;
        if (thread->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/%ld/task/%s/children", (long)parent, thread->d_name);
        FILE *file = fopen(path, "re");
        while (file && count < PROCESSES_MAX && fscanf(file, "%ld", &child) == 1)
            found[count++] = (pid_t)child;
        if (file) fclose(file);
    }
    if (threads) closedir(threads);
    return count;
}

static size_t all_below(pid_t *found) {
    size_t count = add_children(getpid(), found, 0);
    for (size_t i = 0; i < count; i++) count = add_children(found[i], found, count);
    return count;
}

/* Milliseconds that a process and the children it has waited for have used. */
static double time_of(pid_t pid) {
    char path[64], text[1024];
    unsigned long long used[4] = {0};
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (file >= 0) close(file);
    text[got > 0 ? got : 0] = 0;
    const char *after = strrchr(text, ')'); /* the name may hold anything */
    if (!after ||
        sscanf(after + 1, "%*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu %llu %llu",
               &used[0], &used[1], &used[2], &used[3]) != 4)
        return 0;
    return 1e3 * (double)(used[0] + used[1] + used[2] + used[3]) / (double)sysconf(_SC_CLK_TCK);
}

static double time_used(void) {
    static pid_t found[PROCESSES_MAX];
    struct rusage waited;
    double sum = 0;
    const size_t count = all_below(found);
    for (size_t i = 0; i < count; i++) sum += time_of(found[i]);
    if (getrusage(RUSAGE_CHILDREN, &waited) == 0)
        sum += 1e3 * (double)(waited.ru_utime.tv_sec + waited.ru_stime.tv_sec) +
               1e-3 * (double)(waited.ru_utime.tv_usec + waited.ru_stime.tv_usec);
    return sum;
}

/* Kills them all: what was started meanwhile is found in the next round. */
static void kill_all(pid_t group) {
    static pid_t found[PROCESSES_MAX];
    if (group > 0) kill(-group, SIGKILL);
    for (double end = rtc_now() + 5000; rtc_now() < end;) { /* longer: it waits for a dead disk */
        const size_t count = all_below(found);
        for (size_t i = 0; i < count; i++) kill(found[i], SIGKILL);
        pid_t got;
        while ((got = waitpid(-1, NULL, WNOHANG)) > 0) continue;
        if (got < 0 && errno == ECHILD) return;
        usleep(1000);
    }
}

/* ---- running ---- */

static _Noreturn void become(const Guard *guard, char **words, int failed) {
    sigset_t none;
    const rlim_t seconds = (rlim_t)(guard->limit / 1e3) + 2;
    struct rlimit max;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* this process has one thread, so it means this process */
    setpgid(0, 0);
    /* Should this process be killed too, nothing computes for ever. */
    if (getrlimit(RLIMIT_CPU, &max) == 0 && max.rlim_cur > seconds)
        setrlimit(RLIMIT_CPU, &(struct rlimit){seconds, max.rlim_max});
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (getppid() == guard->self) execv(words[0], words + 1);
    int error = errno;
    if (write(failed, &error, sizeof error) < 0) _exit(126);
    _exit(127);
}

/* Starts words[0] as words[1]...; 0, or an errno value. */
static int start(const Guard *guard, char **words, pid_t *pid) {
    int ends[2], error = 0;
    if (pipe2(ends, O_CLOEXEC) != 0) return errno;
    *pid = fork();
    if (*pid == 0) become(guard, words, ends[1]);
    if (*pid < 0) error = errno;
    close(ends[1]);
    if (*pid > 0 && read(ends[0], &error, sizeof error) == (ssize_t)sizeof error)
        waitpid(*pid, NULL, 0);
    else if (*pid > 0)
        error = 0;
    close(ends[0]);
    return error;
}

/* The library, or the whole program, is no more; or somebody wants this process to end. A program
 * that forked has copies of the channel, which then stays open: so its number counts too. */
static bool is_over(const Guard *guard, double patience) {
    struct signalfd_siginfo signal_info;
    struct pollfd waits[] = {{.fd = guard->channel, .events = POLLRDHUP},
                             {.fd = guard->signals, .events = POLLIN}};
    if (poll(waits, COUNT(waits), (int)patience) > 0 && waits[1].revents)
        while (read(guard->signals, &signal_info, sizeof signal_info) > 0)
            if (signal_info.ssi_signo != SIGCHLD) return true;
    return (waits[0].revents & (POLLRDHUP | POLLHUP | POLLERR)) || getppid() != guard->parent;
}

/* Waits for the compiler. False: there is nobody to tell. */
static bool watch(const Guard *guard, pid_t pid, RtcGuardReply *reply) {
    const double before = time_used();
    const double tick = guard->limit < 2000 ? guard->limit / 20 + 1 : 100;
    double waited = 0, last = rtc_now();
    for (;;) {
        if (is_over(guard, tick)) return false;
        int status;
        for (pid_t got; (got = waitpid(-1, &status, WNOHANG)) > 0;)
            if (got == pid) {
                reply->status = status;
                return true; /* what it left running is its affair, as a compiler cache's server */
            }
        const double now = rtc_now();
        waited += now - last < 1000 ? now - last : 1000; /* more: we were stopped, and it too */
        last = now;
        reply->late = time_used() - before > guard->limit    ? RTC_LATE_TIME
                      : waited > RTC_PATIENCE * guard->limit ? RTC_LATE_WAIT
                                                             : RTC_IN_TIME;
        if (reply->late == RTC_IN_TIME) continue;
        kill_all(pid);
        return true;
    }
}

/* Waits for a request, or for there being nobody to make one. */
static bool is_asked(const Guard *guard) {
    for (;;) {
        struct pollfd wait = {.fd = guard->channel, .events = POLLIN};
        if (poll(&wait, 1, 250) > 0) return true;
        if (getppid() != guard->parent) return false;
    }
}

/* One request: words, each with its final zero. */
static bool serve(const Guard *guard, bool *swept) {
    RtcGuardRequest request;
    RtcGuardReply reply = {.magic = RTC_MAGIC};
    char *words[WORDS_MAX + 1] = {0}, *text = NULL;
    pid_t pid = 0;
    bool good = is_asked(guard) && rtc_read(guard->channel, &request, sizeof request) &&
                request.magic == RTC_MAGIC && request.size > 0 && request.size < (1u << 24) &&
                (text = malloc(request.size)) && rtc_read(guard->channel, text, request.size) &&
                text[request.size - 1] == 0;
    size_t count = 0;
    for (char *at = text; good && at < text + request.size && count < WORDS_MAX;
         at += strlen(at) + 1)
        words[count++] = at;
    good = good && count > 1;
    if (good) {
        reply.error = start(guard, words, &pid);
        if (!*swept && guard->folder[0]) { /* while it works */
            rtc_folder_sweep_beside(guard->folder);
            *swept = true;
        }
        if (reply.error == 0) good = watch(guard, pid, &reply);
        if (!good) kill_all(pid);
        good = good && rtc_write(guard->channel, &reply, sizeof reply);
    }
    free(text);
    return good;
}

/* LIMIT ROOM PLACE...: milliseconds, bytes, and where the folder may be; no place, no folder. */
int rtc_guard(char **words, int channel) {
    Guard guard = {.channel = channel, .self = getpid(), .parent = getppid(), .lock = -1};
    RtcGuardReply reply = {.magic = RTC_MAGIC};
    char reason[2048] = "";
    sigset_t signals;
    bool swept = false;
    guard.limit = strtod(words[0], NULL);
    sigemptyset(&signals);
    for (size_t i = 0; i < 4; i++)
        sigaddset(&signals, (const int[]){SIGCHLD, SIGTERM, SIGINT, SIGHUP}[i]);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a folder where files may not grow so far has no room */
    guard.signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (guard.signals < 0) reply.error = errno;
    if (words[2]) {
        guard.lock = rtc_folder_make((const char *const *)(words + 2), strtoull(words[1], NULL, 10),
                                     guard.folder, sizeof guard.folder, reason, sizeof reason);
        if (guard.lock < 0) reply.error = ENOSPC;
        if (guard.lock < 0) guard.folder[0] = 0;
        if (guard.folder[0]) setenv("TMPDIR", guard.folder, 1);
    }
    const char *text = reply.error && reason[0] ? reason : guard.folder;
    reply.size = strlen(text) + 1;
    if (rtc_write(channel, &reply, sizeof reply) && rtc_write(channel, text, reply.size) &&
        reply.error == 0)
        while (serve(&guard, &swept)) continue;
    if (guard.folder[0]) rtc_folder_remove(guard.folder);
    return 0;
}
