/* rtc_parts.h: what the rtc_*.c files and the helper program share; everybody else reads rtc.h. */
#ifndef RTC_PARTS_H
#define RTC_PARTS_H

#include "rtc.h"
#include <sys/types.h>

extern const Rtc rtc_nvrtc, rtc_hiprtc, rtc_host;

/* rtc.c */
/* Sets the log and returns `status`. */
ls_status rtc_fail(RtcOutput *output, ls_status status, const char *format, ...) PRINTF_LIKE(3, 4);
double rtc_now(void); /* milliseconds of a clock that only goes forward */
double
rtc_timeout(void); /* milliseconds a toolchain may take: LOCKSTEP_COMPILE_TIMEOUT, in seconds, for
                      those whose machine or kernel is slow; 120 seconds without it */
/* Adds to `hash` what tells one version of a file from another: its real path, size and time of
 * last change. False if there is no such file. */
bool rtc_hash_file(Sha256 *hash, const char *path);
/* "NAME-HASH, PATH": the hash first, so that a short buffer cuts only what is for people. */
void rtc_identity(char *text, size_t size, const char *name, Sha256 hash, const char *path);
bool rtc_read_file(const char *path, size_t limit, char **data, size_t *size);

/* rtc_spawn.c: child processes of a program that is not ours: it may have threads, signal handlers
 * and blocked signals, and may reap children itself. */
/* Starts `path` with these words in a process group of its own, default signals, and the three
 * standard streams only; `environment` NULL: ours. 0, or an errno value. */
int rtc_spawn(const char *path, char *const words[], char *const environment[], int input,
              int output, pid_t *pid);
/* Ends the child's whole group if it still runs at `deadline` (on rtc_now's clock; 0: at once).
 * False if it had to. *status is as from waitpid, or -1 when the program reaped our child before
 * us. */
bool rtc_reap(pid_t pid, double deadline, int *status);
/* "was killed by signal 11 (Segmentation fault)", "failed with exit status 3". */
void rtc_explain_exit(int status, char *text, size_t size);

#endif
