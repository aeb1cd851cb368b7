/* rtc_spawn.c: child processes started from inside any program: posix_spawn, since a fork would
 * copy a trainer's locks and page tables. */
#include "compiler.h"
#include "rtc.h"
#include "rtc_parts.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

int rtc_spawn(const char *path, char *const words[], char *const environment[], int input,
              int output, pid_t *pid) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    int error = posix_spawn_file_actions_init(&files);
    if (error) return error;
    error = posix_spawnattr_init(&attributes);
    if (error) {
        posix_spawn_file_actions_destroy(&files);
        return error;
    }
    sigemptyset(&none);
    sigfillset(&all);
    /* A group of its own: a Ctrl-C meant for the program does not reach it, and one kill ends the
     * compiler with the linker it started. */
    short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP;
    if (!error) error = posix_spawnattr_setsigmask(&attributes, &none);
    if (!error) error = posix_spawnattr_setsigdefault(&attributes, &all);
    if (!error) error = posix_spawnattr_setpgroup(&attributes, 0);
    if (!error) error = posix_spawnattr_setflags(&attributes, flags);
    if (!error) error = posix_spawn_file_actions_adddup2(&files, input, 0);
    if (!error) error = posix_spawn_file_actions_adddup2(&files, output, 1);
    if (!error) error = posix_spawn_file_actions_adddup2(&files, 1, 2);
    if (!error)
        error =
            posix_spawn(pid, path, &files, &attributes, words, environment ? environment : environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return error;
}

bool rtc_reap(pid_t pid, double deadline, int *status) {
    bool in_time = true;
    long nap = 20000; /* nanoseconds; it has usually closed its output and is about to exit */
    for (;;) {
        pid_t got = waitpid(pid, status, in_time ? WNOHANG : 0);
        if (got == pid) return in_time;
        if (got < 0 && errno != EINTR) break;
        if (got == 0 && rtc_now() >= deadline) {
            /* It is still our child, so the number cannot have become another process's. */
            in_time = false;
            if (kill(-pid, SIGKILL) != 0) kill(pid, SIGKILL);
        } else if (got == 0) {
            nanosleep(&(struct timespec){0, nap}, NULL);
            if (nap < 5000000) nap *= 2;
        }
    }
    *status = -1;
    return in_time;
}

void rtc_explain_exit(int status, char *text, size_t size) {
    if (status != -1 && WIFSIGNALED(status))
        snprintf(text, size, "was killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else if (status != -1 && WIFEXITED(status))
        snprintf(text, size, "failed with exit status %d", WEXITSTATUS(status));
    else
        snprintf(text, size, "ended, and the program around it took its exit status");
}
