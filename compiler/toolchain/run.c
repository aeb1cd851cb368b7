/* run.c: programs that the library runs to their end, each behind a guard (guard.c): the
 * library's side of what they say to each other. */
#include "base/base.h"
#include "target/target.h"
#include "toolchain/toolchain.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOG_LIMIT RTC_LOG_LIMIT

/* Where a compile's folder may be: the first with room. The last is memory. */
size_t rtc_places(const char *places[RTC_PLACES_MAX + 1], char *cache, size_t size) {
    const char *const all[] = {environment_value(VARIABLE_TMPDIR),
                               "/tmp",
                               "/var/tmp",
                               cache_folder(cache, size) ? cache : NULL,
                               environment_foreign("XDG_RUNTIME_DIR"),
                               "/dev/shm"};
    size_t count = 0;
    for (size_t i = 0; i < COUNT(all); i++)
        if (all[i] && *all[i]) places[count++] = all[i];
    places[count] = NULL;
    return count;
}

/* What the guard says next; false: it is no more. */
static bool read_reply(const RtcGuard *guard, RtcGuardReply *reply) {
    return rtc_read(guard->channel, reply, sizeof *reply) && reply->magic == RTC_MAGIC;
}

/* A guard that is to give a folder tells where it is, or why there is none. */
static bool read_folder(RtcGuard *guard, char *reason, size_t size) {
    RtcGuardReply reply;
    char text[sizeof guard->folder];
    if (!read_reply(guard, &reply) || reply.size == 0 || reply.size > sizeof text ||
        !rtc_read(guard->channel, text, (size_t)reply.size) || text[reply.size - 1] != 0) {
        snprintf(reason, size, "the process that watches over compilers ended at once");
        return false;
    }
    memcpy(guard->folder, text, (size_t)reply.size);
    if (reply.error == 0) return true;
    if (text[0])
        snprintf(reason, size,
                 "no temporary folder can be had (%.1500s); set TMPDIR to one with room", text);
    else
        snprintf(reason, size, "the process that watches over compilers cannot work: %s",
                 strerror(reply.error));
    return false;
}

bool rtc_guard_start(RtcGuard *guard, bool folder, uint64_t room, char *reason, size_t size) {
    enum { WORDS = 4 };
    char limit[32], bytes[32], cache[4096];
    const char *places[RTC_PLACES_MAX + 1];
    char *words[WORDS + RTC_PLACES_MAX + 1] = {(char[]){"lockstep-rtc"}, (char[]){"guard"}, limit,
                                               bytes};
    int sockets[2] = {-1, -1}, pipes[2] = {-1, -1};
    *guard = (RtcGuard){.channel = -1, .output = -1};
    snprintf(limit, sizeof limit, "%.3f", rtc_timeout());
    snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)room);
    const size_t count = folder ? rtc_places(places, cache, sizeof cache) : 0;
    /* posix_spawn takes char *const *; it does not write to the words */
    for (size_t i = 0; i < count; i++) words[WORDS + i] = (char *)(uintptr_t)places[i];
    int error = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) ? errno : 0;
    if (!error && pipe2(pipes, O_CLOEXEC) != 0) error = errno;
    if (!error) error = rtc_spawn_helper(words, sockets[1], pipes[1], &guard->pid);
    if (sockets[1] >= 0) close(sockets[1]);
    if (pipes[1] >= 0) close(pipes[1]);
    guard->channel = sockets[0];
    guard->output = pipes[0];
    if (error) {
        snprintf(reason, size, "a compiler's process cannot be started: %s", strerror(error));
        guard->pid = 0;
    } else if (read_folder(guard, reason, size)) {
        return true;
    }
    rtc_guard_end(guard);
    return false;
}

void rtc_guard_end(RtcGuard *guard) {
    int status;
    /* not only closed: a process that this one forked has a copy */
    if (guard->channel >= 0) shutdown(guard->channel, SHUT_RDWR), close(guard->channel);
    if (guard->output >= 0) close(guard->output);
    if (guard->pid > 0) rtc_reap(guard->pid, rtc_now() + 10e3, &status);
    *guard = (RtcGuard){.channel = -1, .output = -1};
}

/* ---- running ---- */

/* Adds what there is to the log; false: it has closed its output. */
static bool read_output(const RtcGuard *guard, RtcRun *run) {
    char bytes[4096];
    ssize_t got = read(guard->output, bytes, sizeof bytes);
    if (got < 0) return errno == EINTR || errno == EAGAIN;
    if (got == 0) return false;
    size_t room = LOG_LIMIT - run->log_size, take = (size_t)got < room ? (size_t)got : room;
    char *grown = realloc(run->log, run->log_size + take + 1);
    if (!grown) return true;
    run->log = grown;
    memcpy(run->log + run->log_size, bytes, take);
    run->log_size += take;
    run->log[run->log_size] = 0;
    return true;
}

/* Collects what the program says until the guard tells how it ended; then what is left of it, but
 * not what something that it left running may say some day. */
static bool collect(const RtcGuard *guard, RtcRun *run, RtcGuardReply *reply) {
    bool speaks = true;
    for (bool ended = false;;) {
        struct pollfd waits[] = {{.fd = guard->channel, .events = POLLIN},
                                 {.fd = speaks ? guard->output : -1, .events = POLLIN}};
        int ready = poll(waits, COUNT(waits), ended ? 0 : -1);
        if (ready < 0 && errno != EINTR) return false;
        if (ready < 0) continue;
        if (waits[1].revents)
            speaks = read_output(guard, run);
        else if (ended)
            return true;
        if (!ended && waits[0].revents) {
            if (!read_reply(guard, reply)) return false;
            ended = true;
        }
    }
}

/* Without the signal that writing to a process that is no more gives. */
static bool send_all(const RtcGuard *guard, const void *data, size_t size) {
    for (const char *next = data; size;) {
        ssize_t put = send(guard->channel, next, size, MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        next += put;
        size -= (size_t)put;
    }
    return true;
}

bool rtc_guard_run(RtcGuard *guard, const char *path, char *const words[], RtcRun *run,
                   char *reason, size_t size) {
    RtcGuardRequest request = {.magic = RTC_MAGIC, .size = (uint32_t)strlen(path) + 1};
    RtcGuardReply reply = {0};
    *run = (RtcRun){0};
    for (size_t i = 0; words[i]; i++) request.size += (uint32_t)strlen(words[i]) + 1;
    char *text = malloc(request.size), *end = text;
    if (!text) {
        snprintf(reason, size, "out of memory");
        return false;
    }
    end = stpcpy(end, path) + 1;
    for (size_t i = 0; words[i]; i++) end = stpcpy(end, words[i]) + 1;
    bool good = send_all(guard, &request, sizeof request) && send_all(guard, text, request.size) &&
                collect(guard, run, &reply);
    free(text);
    if (good && reply.error == 0) {
        run->status = reply.status;
        run->late = (RtcLate)reply.late;
        return true;
    }
    if (good)
        snprintf(reason, size, "%s cannot be started: %s", path, strerror(reply.error));
    else
        snprintf(reason, size, "the process that watches over %s was killed", path);
    free(run->log);
    run->log = NULL;
    return false;
}
