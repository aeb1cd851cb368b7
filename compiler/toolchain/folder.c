/* folder.c: the private folders that toolchains work in: made where there is room, locked while
 * they are in use, removed with all that is in them, and swept where a crash left one.
 *
 * The lock tells a folder in use from one that was left: the kernel opens it when its holder ends,
 * however that ends, and no number of a process, which another may have by now, is trusted. */
#include "base/base.h"
#include "target/target.h"
#include "toolchain/toolchain.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define COMPILE_PREFIX "lockstep-compile-"
#define HELPER_PREFIX "lockstep-rtc-"
#define LEFT_LIFE 3600 /* seconds before a folder that nobody holds is taken for left */

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place) {
    (void)status, (void)kind, (void)place;
    remove(path); /* what cannot be removed stays; there is nobody to tell */
    return 0;
}

void rtc_folder_remove(const char *path) {
    struct stat status;
    if (lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid())
        nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

int rtc_folder_lock(const char *path) {
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (folder >= 0) flock(folder, LOCK_EX | LOCK_NB); /* without locks it is swept by age alone */
    return folder;
}

/* Whether `room` bytes can be had in a folder, which a quota may deny where the disk has them. */
static bool has_room(const char *folder, uint64_t room) {
    char path[4200];
    snprintf(path, sizeof path, "%s/room", folder);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int error = file < 0 ? errno : room ? posix_fallocate(file, 0, (off_t)room) : 0;
    if (file >= 0) close(file);
    unlink(path);
    errno = error;
    return error == 0 || (file >= 0 && (error == EOPNOTSUPP || error == EINVAL));
}

int rtc_folder_make(const char *const *places, uint64_t room, char *path, size_t size, char *reason,
                    size_t reason_size) {
    size_t told = 0;
    reason[0] = 0;
    for (; *places; places++) {
        if (!**places) continue;
        errno = ENAMETOOLONG;
        bool made = (size_t)snprintf(path, size, "%s/" COMPILE_PREFIX "XXXXXX", *places) < size &&
                    mkdtemp(path);
        int lock = made ? rtc_folder_lock(path) : -1;
        if (lock >= 0 && has_room(path, room)) return lock;
        int error = errno;
        if (made) rtc_folder_remove(path);
        if (lock >= 0) close(lock);
        if (told < reason_size)
            told += (size_t)snprintf(reason + told, reason_size - told, "%s%s: %s",
                                     told ? "; " : "", *places, strerror(error));
    }
    return -1;
}

static bool is_ours(const char *name) {
    const char *end = NULL;
    if (strncmp(name, COMPILE_PREFIX, strlen(COMPILE_PREFIX)) == 0)
        end = name + strlen(COMPILE_PREFIX);
    else if (strncmp(name, HELPER_PREFIX, strlen(HELPER_PREFIX)) == 0)
        return name[strlen(HELPER_PREFIX) + strspn(name + strlen(HELPER_PREFIX), "0123456789")] ==
               0;
    return end && strlen(end) == 6;
}

void rtc_folder_sweep(const char *place) {
    DIR *stream = *place ? opendir(place) : NULL;
    if (!stream) return;
    const time_t now = time(NULL);
    for (struct dirent *entry; (entry = readdir(stream));) {
        struct stat status;
        char path[4200];
        if (!is_ours(entry->d_name) ||
            fstatat(dirfd(stream), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
            status.st_mtime + LEFT_LIFE > now ||
            (size_t)snprintf(path, sizeof path, "%s/%s", place, entry->d_name) >= sizeof path)
            continue;
        int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (folder >= 0 && flock(folder, LOCK_EX | LOCK_NB) == 0) rtc_folder_remove(path);
        if (folder >= 0) close(folder);
    }
    closedir(stream);
}

void rtc_folder_sweep_beside(const char *path) {
    char place[4096];
    const char *slash = strrchr(path, '/');
    if (slash && (size_t)(slash - path) + 1 < sizeof place) {
        snprintf(place, sizeof place, "%.*s", (int)(slash - path) + 1, path);
        rtc_folder_sweep(place);
    }
}

/* ---- of the helper, whose folder the library knows by its number ---- */

static const char *scratch_folder(size_t number) {
    const char *own = environment_value(VARIABLE_TMPDIR);
    if (number == 0) return own && *own ? own : "/tmp";
    return number == 1 ? "/tmp" : NULL;
}

int rtc_scratch_make(pid_t helper, char *path, size_t size) {
    for (size_t i = 0; scratch_folder(i); i++) {
        snprintf(path, size, "%s/" HELPER_PREFIX "%ld", scratch_folder(i), (long)helper);
        rtc_folder_remove(path); /* of one that had this number and is no more */
        if (mkdir(path, 0700) == 0) return rtc_folder_lock(path);
    }
    path[0] = 0;
    return -1;
}

void rtc_scratch_remove(pid_t helper) {
    char path[4200];
    for (size_t i = 0; scratch_folder(i); i++)
        if ((size_t)snprintf(path, sizeof path, "%s/" HELPER_PREFIX "%ld", scratch_folder(i),
                             (long)helper) < sizeof path)
            rtc_folder_remove(path);
}
