/* spawn.c: child processes started from inside any program: posix_spawn, since a fork would
 * copy a trainer's locks and page tables. */
#include "base/base.h"
#include "target/target.h"
#include "toolchain/toolchain.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* A compiler believes its environment (COMPILER_PATH names what gcc runs), also where we may not.
 */
static char *const *environment_of_children(void) {
    static char path[] = "PATH=/usr/local/bin:/usr/bin:/bin";
    static char *const plain[] = {path, NULL};
    return getauxval(AT_SECURE) ? plain : environ;
}

int rtc_spawn(const char *path, char *const words[], int input, int output, pid_t *pid) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    /* Above the standard streams, which a program may have closed. */
    const int from = fcntl(input, F_DUPFD_CLOEXEC, 3), to = fcntl(output, F_DUPFD_CLOEXEC, 3);
    int error = from < 0 || to < 0 ? errno : posix_spawn_file_actions_init(&files);
    if (error) goto closed;
    error = posix_spawnattr_init(&attributes);
    if (error) {
        posix_spawn_file_actions_destroy(&files);
        goto closed;
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
    if (!error) error = posix_spawn_file_actions_adddup2(&files, from, 0);
    if (!error) error = posix_spawn_file_actions_adddup2(&files, to, 1);
    if (!error) error = posix_spawn_file_actions_adddup2(&files, 1, 2);
    if (!error)
        error = posix_spawn(pid, path, &files, &attributes, words, environment_of_children());
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
closed:
    if (from >= 0) close(from);
    if (to >= 0) close(to);
    return error;
}

int rtc_memory_file(const char *name) {
    int file = memfd_create(name, MFD_CLOEXEC);
    if (file < 0 || file > 2) return file;
    int higher = fcntl(file, F_DUPFD_CLOEXEC, 3);
    close(file);
    return higher;
}

static int spawn_from_memory(char *const words[], int input, int output, pid_t *pid) {
    char path[64];
    int file = rtc_memory_file("lockstep-rtc");
    if (file < 0) return errno;
    int error = rtc_write(file, rtc_helper_program, rtc_helper_program_size) ? 0 : errno;
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (!error) error = rtc_spawn(path, words, input, output, pid);
    close(file);
    return error;
}

static int spawn_from_file(char *const words[], int input, int output, pid_t *pid) {
    const char *places[] = {environment_foreign("XDG_RUNTIME_DIR"),
                            environment_value(VARIABLE_TMPDIR), "/tmp", "/var/tmp"};
    int error = ENOENT;
    for (size_t i = 0; i < COUNT(places); i++) {
        char folder[4000], path[4096];
        if (!places[i] || !*places[i] ||
            (size_t)snprintf(folder, sizeof folder, "%s/" RTC_FOLDER_NAME, places[i]) >=
                sizeof folder ||
            !mkdtemp(folder))
            continue;
        snprintf(path, sizeof path, "%s/lockstep-rtc", folder);
        int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
        error =
            file >= 0 && rtc_write(file, rtc_helper_program, rtc_helper_program_size) ? 0 : errno;
        if (file >= 0) close(file);
        /* Busy: another thread forked while the file was open for writing; its child will not be
         * long. */
        for (int attempt = 0; !error || (error == ETXTBSY && attempt < 50); attempt++) {
            if (error) usleep(2000);
            error = rtc_spawn(path, words, input, output, pid);
            if (!error) break;
        }
        unlink(path);
        rmdir(folder);
        if (!error) return 0;
    }
    return error;
}

int rtc_spawn_helper(char *const words[], int input, int output, pid_t *pid) {
    int error = spawn_from_memory(words, input, output, pid);
    return error ? spawn_from_file(words, input, output, pid) : 0;
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
