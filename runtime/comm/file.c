/* file.c: one file that all ranks write, each its own ranges of it, whole or not at all.
 *
 * Rank 0 says under which name, beside the path, it will be until it is whole, then creates it, and
 * the others open it: so each can take it away when another ends. What a rank
 * finds wrong is kept until all meet; then every rank reads what every other says, so that all
 * decide the same. Rank 0 renames the file when each has said that its ranges are on the disk: a
 * rank that ends before leaves what was there as it was. */
#include "runtime.h"
#include "comm/comm.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct Report { /* of a rank, for all */
    int32_t failed, given_up;
    uint64_t written, bytes;
    char text[232]; /* what went wrong; at first, of rank 0, the end of the file's name */
} Report;

struct ls_comm_file {
    ls_comm *comm;
    char *path, *real, *part; /* as given; links resolved; the file until it is whole */
    int descriptor;
    Report own, *all; /* all: by rank */
};

/* ---- what goes wrong ---- */

static void keep_failure(ls_comm_file *file, const char *what, int error) {
    if (file->own.failed) return; /* the first one stays */
    file->own.failed = 1;
    snprintf(file->own.text, sizeof file->own.text, "%s%s%s", what, *what && error ? ": " : "",
             error ? strerror(error) : "");
}

/* rank -1: of no one rank. */
static ls_status say(const ls_comm_file *file, const char *call, int rank, const char *text) {
    const ls_comm *comm = file->comm;
    char who[48] = "";
    if (comm->size > 1 && rank >= 0)
        snprintf(who, sizeof who, " on rank %d of %d", rank, comm->size);
    return error_set(&comm->context->error, LS_ERROR_FILE,
                     "%s: %.4000s could not be written%s: %s; what was there is as it was", call,
                     file->path, who, text);
}

/* Every rank's report to every rank: LS_OK, or the failure of the first that has one. */
static ls_status meet(ls_comm_file *file, const char *call) {
    ls_status status = comm_tell(file->comm, call, &file->own, sizeof file->own, file->all);
    for (int i = 0; i < file->comm->size && status == LS_OK; i++)
        if (file->all[i].failed) status = say(file, call, i, file->all[i].text);
    return status;
}

/* ---- life ---- */

static void drop(ls_comm_file *file) {
    if (file->descriptor >= 0) close(file->descriptor);
    free(file->path);
    free(file->real);
    free(file->part);
    free(file->all);
    free(file);
}

/* Rank 0 takes the file away, and where it may be gone each does: then no other of that name
 * comes. */
static void discard(ls_comm_file *file, ls_status status) {
    if (file->part && *file->part && (file->comm->rank == 0 || status == LS_ERROR_COMM))
        unlink(file->part);
    drop(file);
}

/* The others wait for what this rank has to say. */
static ls_status lacks_memory(ls_comm *comm, const char *call) {
    ls_comm_abort(comm, "out of memory");
    return error_memory(&comm->context->error, call);
}

static ls_status make(ls_comm *comm, const char *path, uint64_t bytes, ls_comm_file **file) {
    static const char call[] = "ls_comm_file_create";
    char real[PATH_MAX];
    ls_comm_file *made = calloc(1, sizeof *made);
    *file = made;
    if (!made) return lacks_memory(comm, call);
    *made = (ls_comm_file){.comm = comm, .descriptor = -1, .own.bytes = bytes};
    if (!realpath(path, real)) snprintf(real, sizeof real, "%s", path);
    made->path = text_copy(path, strlen(path));
    made->real = text_copy(real, strlen(real));
    made->part = calloc(1, strlen(real) + FILE_BESIDE);
    made->all = calloc((size_t)comm->size, sizeof *made->all);
    return made->path && made->real && made->part && made->all ? LS_OK : lacks_memory(comm, call);
}

/* A name that no other run has, though it be on another machine. */
static void choose_name(ls_comm_file *file) {
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        keep_failure(file, "the system gives no random numbers", 0);
    else
        snprintf(file->own.text, sizeof file->own.text, ".%016llx.part",
                 (unsigned long long)random);
}

/* On rank 0. */
static void create(ls_comm_file *file) {
    struct stat about;
    if (stat(file->real, &about) == 0 && !S_ISREG(about.st_mode)) {
        keep_failure(file, "it is no regular file", 0);
        return;
    }
    file->descriptor = open(file->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file->descriptor < 0) {
        keep_failure(file, "no file can be made beside it", errno);
        *file->part = 0;
    } else if (ftruncate(file->descriptor, (off_t)file->own.bytes) != 0) {
        keep_failure(file, "", errno);
    }
}

/* On the other ranks. */
static void open_made(ls_comm_file *file) {
    file->descriptor = open(file->part, O_WRONLY | O_CLOEXEC);
    if (file->descriptor < 0) keep_failure(file, "the file of rank 0 is not reached", errno);
    if (file->all[0].bytes != file->own.bytes)
        keep_failure(file, "rank 0 gives it another size", 0);
}

/* All ranks meet behind each thing that one does. */
static ls_status open_file(ls_comm_file *file, const char *call) {
    const ls_comm *comm = file->comm;
    if (comm->rank == 0) choose_name(file);
    ls_status status = meet(file, call);
    if (status != LS_OK) return status;
    snprintf(file->part, strlen(file->real) + FILE_BESIDE, "%s%s", file->real, file->all[0].text);
    if (comm->rank == 0) create(file);
    status = meet(file, call);
    if (status != LS_OK || comm->size == 1) return status;
    if (comm->rank > 0) open_made(file);
    return meet(file, call);
}

ls_status ls_comm_file_create(ls_comm *comm, const char *path, uint64_t bytes,
                              ls_comm_file **file) {
    static const char call[] = "ls_comm_file_create";
    if (file) *file = NULL;
    if (!comm || !path || !file)
        return error_set(comm ? &comm->context->error : NULL, LS_ERROR_ARGUMENT, "%s: %s is NULL",
                         call,
                         !comm  ? "comm"
                         : path ? "file"
                                : "path");
    ls_comm_file *made = NULL;
    ls_status status = context_not_capturing(comm->context, call);
    if (status != LS_OK) return status;
    status = make(comm, path, bytes, &made);
    if (status == LS_OK) status = open_file(made, call);
    if (status != LS_OK) {
        if (made) discard(made, status);
        return status;
    }
    *file = made;
    return LS_OK;
}

/* ---- writing ---- */

ls_status ls_comm_file_write(ls_comm_file *file, uint64_t offset, const void *data,
                             uint64_t bytes) {
    static const char call[] = "ls_comm_file_write";
    if (!file || (bytes && !data))
        return error_set(file ? &file->comm->context->error : NULL, LS_ERROR_ARGUMENT,
                         "%s: %s is NULL", call, file ? "data" : "file");
    Report *own = &file->own;
    if (offset > own->bytes || bytes > own->bytes - offset)
        keep_failure(file, "a range that is written goes beyond its end", 0);
    for (uint64_t done = 0; done < bytes && !own->failed;) {
        const ssize_t count = pwrite(file->descriptor, (const char *)data + done,
                                     (size_t)(bytes - done), (off_t)(offset + done));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0)
            keep_failure(file, "", count < 0 ? errno : EIO);
        else
            done += (uint64_t)count;
    }
    own->written += bytes;
    return own->failed ? say(file, call, file->comm->rank, own->text) : LS_OK;
}

/* ---- the end ---- */

/* After all have met: the same on all ranks. */
static ls_status judge(const ls_comm_file *file, const char *call, bool *given_up) {
    char text[96];
    uint64_t written = 0;
    *given_up = false;
    for (int i = 0; i < file->comm->size; i++) {
        written += file->all[i].written;
        *given_up |= file->all[i].given_up;
    }
    for (int i = 0; i < file->comm->size && *given_up && !file->own.given_up; i++)
        if (file->all[i].given_up) return say(file, call, i, "it gave the file up");
    if (*given_up || written == file->own.bytes) return LS_OK;
    snprintf(text, sizeof text, "the ranks have written %llu of %llu bytes",
             (unsigned long long)written, (unsigned long long)file->own.bytes);
    return say(file, call, -1, text);
}

ls_status ls_comm_file_close(ls_comm_file *file, int keep) {
    static const char call[] = "ls_comm_file_close";
    bool given_up = false;
    if (!file) return error_set(NULL, LS_ERROR_ARGUMENT, "%s: file is NULL", call);
    Report *own = &file->own;
    own->given_up = !keep;
    if (!own->failed) *own->text = 0;
    if (keep && !own->failed && fsync(file->descriptor) != 0) keep_failure(file, "", errno);
    ls_status status = meet(file, call);
    if (status == LS_OK) status = judge(file, call, &given_up);
    if (status == LS_OK && !given_up) {
        if (file->comm->rank == 0 && rename(file->part, file->real) != 0)
            keep_failure(file, "", errno);
        else if (file->comm->rank == 0)
            file_sync_folder(file->real);
        status = meet(file, call);
    }
    if (status != LS_OK || given_up)
        discard(file, status);
    else
        drop(file);
    return status;
}
