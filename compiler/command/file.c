/* file.c: whole files in, and files out that are either complete or not there.
 *
 * Output goes to a temporary name in the target's folder and is renamed over it at the end, so that
 * a failure, a full disk or Ctrl-C leaves the old file. */
#include "files.h"

#include <lockstep/lockstep.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The one half-written file of the process, for the signal handler; written only here. */
static char *volatile half_written;

void file_remove_temporary(void) {
    if (half_written) unlink(half_written);
}

static bool fail_file(Failure *failure, const char *what, const char *path) {
    return fail(failure, STATUS_INPUT, "cannot %s %s: %s", what, path, strerror(errno));
}

bool fail_read(Failure *failure) {
    return fail(failure, STATUS_INPUT, "%s", ls_error_message(NULL));
}

enum { SOURCE_MAX = 8 << 20 }; /* as the compiler reads: what is a little too large it refuses */

static bool read_all(int descriptor, const char *path, Buffer *out, Failure *failure) {
    char block[65536];
    for (;;) {
        ssize_t got = read(descriptor, block, sizeof block);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail_file(failure, "read", path);
        if (got == 0) break;
        buffer_add(out, block, (size_t)got);
        if (out->size > SOURCE_MAX)
            return fail(failure, STATUS_INPUT,
                        "cannot read %s: it is larger than a source may be, 4 MiB", path);
    }
    buffer_add(out, "", 0);
    return true;
}

bool file_read(const char *path, char **data, size_t *size, Failure *failure) {
    bool standard = strcmp(path, "-") == 0, read = false;
    struct stat about;
    Buffer out = {0};
    /* not to wait for a writer where the name is a FIFO's; a device or a pipe may have no end */
    int descriptor =
        standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0) return fail_file(failure, "open", path);
    if (!standard && fstat(descriptor, &about) == 0 && !S_ISREG(about.st_mode) &&
        !S_ISDIR(about.st_mode))
        fail(failure, STATUS_INPUT,
             "cannot read %s: it is no regular file; `-` reads a program from standard input",
             path);
    else
        read = read_all(descriptor, standard ? "standard input" : path, &out, failure);
    if (!standard) close(descriptor);
    if (!read) {
        buffer_free(&out);
        return false;
    }
    *data = out.data;
    *size = out.size;
    return true;
}

/* A temporary file in the folder of `path`, with the permissions the final one shall have. */
static bool create_beside(OutputFile *file, const struct stat *old, Failure *failure) {
    const char *slash = strrchr(file->path, '/');
    size_t folder = slash ? (size_t)(slash - file->path) + 1 : 0;
    Buffer name = {0};
    buffer_add(&name, file->path, folder);
    buffer_printf(&name, ".%.200s.XXXXXX", file->path + folder);
    file->temporary = name.data;
    file->descriptor = mkostemp(file->temporary, O_CLOEXEC);
    if (file->descriptor < 0) {
        fail_file(failure, "write", file->path);
        free(file->temporary);
        file->temporary = NULL;
        return false;
    }
    half_written = file->temporary;
    mode_t mask = umask(0);
    umask(mask);
    mode_t mode = old ? old->st_mode & 0777 : 0666 & ~mask;
    if (fchmod(file->descriptor, mode) != 0) {
        fail_file(failure, "write", file->path);
        file_abandon(file);
        return false;
    }
    return true;
}

/* What a path leads to through symbolic links, also where nothing is there yet; NULL with errno
 * where they lead nowhere. */
static char *through_links(const char *path) {
    enum { LINKS_MAX = 40 }; /* as Linux has it */
    char *name = copy_text(path, strlen(path)), target[4096];
    for (int i = 0; i < LINKS_MAX; i++) {
        ssize_t size = readlink(name, target, sizeof target - 1);
        if (size < 0) return name; /* no link */
        Buffer next = {0};
        const char *slash = strrchr(name, '/');
        if (*target != '/' && slash) buffer_add(&next, name, (size_t)(slash - name) + 1);
        buffer_add(&next, target, (size_t)size);
        free(name);
        name = next.data;
    }
    free(name);
    errno = ELOOP;
    return NULL;
}

char *file_identity(const char *path) {
    char *name = through_links(path);
    if (!name) return copy_text(path, strlen(path));
    char *slash = strrchr(name, '/');
    if (slash) *slash = '\0';
    char *folder = realpath(!slash ? "." : slash == name ? "/" : name, NULL);
    if (slash) *slash = '/';
    if (!folder) return name;
    Buffer whole = {0};
    buffer_printf(&whole, "%s/%s", folder, slash ? slash + 1 : name);
    free(folder);
    free(name);
    return whole.data;
}

bool file_create(const char *path, OutputFile *file, Failure *failure) {
    struct stat about;
    *file = (OutputFile){.descriptor = -1};
    /* through a symbolic link: what it points to is replaced, not the link */
    file->path = through_links(path);
    if (!file->path) return fail_file(failure, "write", path);
    bool exists = stat(file->path, &about) == 0;
    if (exists && !S_ISREG(about.st_mode)) {
        file->descriptor = open(path, O_WRONLY | O_CLOEXEC);
        if (file->descriptor >= 0) return true;
        fail_file(failure, "write", path);
    } else if (exists && access(path, W_OK) != 0) {
        fail_file(failure, "write", path);
    } else if (create_beside(file, exists ? &about : NULL, failure)) {
        return true;
    }
    free(file->path);
    *file = (OutputFile){.descriptor = -1};
    return false;
}

bool file_write(OutputFile *file, const void *data, size_t size, Failure *failure) {
    for (size_t done = 0; done < size;) {
        size_t piece = size - done < ((size_t)1 << 30) ? size - done : (size_t)1 << 30;
        ssize_t put = write(file->descriptor, (const char *)data + done, piece);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return fail_file(failure, "write", file->path);
        done += (size_t)put;
    }
    return true;
}

bool file_commit(OutputFile *file, Failure *failure) {
    bool good = true;
    if (file->temporary) {
        /* before the rename, or a power cut may leave an empty file under the final name */
        good = fsync(file->descriptor) == 0;
        good = close(file->descriptor) == 0 && good;
        good = good && rename(file->temporary, file->path) == 0;
    } else {
        good = close(file->descriptor) == 0;
    }
    file->descriptor = -1;
    if (!good) {
        fail_file(failure, "write", file->path);
        file_abandon(file);
        return false;
    }
    half_written = NULL;
    free(file->path);
    free(file->temporary);
    *file = (OutputFile){.descriptor = -1};
    return true;
}

void file_abandon(OutputFile *file) {
    if (file->descriptor >= 0) close(file->descriptor);
    if (file->temporary) unlink(file->temporary);
    half_written = NULL;
    free(file->path);
    free(file->temporary);
    *file = (OutputFile){.descriptor = -1};
}

bool file_finish(OutputFile *file, bool good, Failure *failure) {
    if (good) return file_commit(file, failure);
    file_abandon(file);
    return false;
}

bool file_write_whole(const char *path, const void *data, size_t size, Failure *failure) {
    OutputFile file;
    if (!file_create(path, &file, failure)) return false;
    return file_finish(&file, file_write(&file, data, size, failure), failure);
}
