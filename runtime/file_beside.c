/* file_beside.c: files that are written beside what they are to replace. */
#include "runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The permissions are the process's usual ones: the mask is not to be asked for, as other threads
 * create files too. */
int file_create_beside(const char *path, char *name) {
    enum { TRIES = 1000 };
    int descriptor = -1;
    for (int i = 0; i < TRIES; i++) {
        snprintf(name, strlen(path) + FILE_BESIDE, "%s.%ld-%d", path, (long)getpid(), i);
        descriptor = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor >= 0 || errno != EEXIST) break;
    }
    return descriptor;
}

void file_sync_folder(const char *path) {
    char *copy = text_copy(path, strlen(path));
    const int folder = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (folder >= 0) {
        fsync(folder);
        close(folder);
    }
    free(copy);
}
