/* trace.c: the profiles of all ranks in one file, on one clock.
 *
 * No rank leaves a barrier before every rank has come to it. So between two clocks the difference d
 * = there - here is at most (there behind) - (here before), and at least (there before) - (here
 * behind); several barriers narrow that down. Where 0 is possible the clock is taken to be one, as
 * on one machine it is. */
#include "runtime.h"
#include "comm/comm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROUNDS = 16 };
typedef struct Clock { /* of a rank, for all */
    double before[ROUNDS], behind[ROUNDS], began;
    int32_t there; /* a profile */
} Clock;

static ls_status read_clocks(ls_comm *comm, const char *call, Clock *all) {
    const Profile *profile = comm->context->profile;
    Clock own = {.there = profile && !profile->active};
    ls_status status = LS_OK;
    if (own.there) own.began = profile->began_us;
    for (int i = 0; i < ROUNDS && status == LS_OK; i++) {
        own.before[i] = time_us();
        status = ls_comm_barrier(comm);
        own.behind[i] = time_us();
    }
    return status == LS_OK ? comm_tell(comm, call, &own, sizeof own, all) : status;
}

/* How far a rank's clock is ahead of rank 0's; *off: by how much that may be wrong. */
static double clock_ahead(const Clock *here, const Clock *there, double *off) {
    double least = -INFINITY, most = INFINITY;
    for (int i = 0; i < ROUNDS; i++) {
        least = fmax(least, there->before[i] - here->behind[i]);
        most = fmin(most, there->behind[i] - here->before[i]);
    }
    const bool one = least <= 0 && most >= 0;
    *off = one ? 0 : (most - least) / 2;
    return one ? 0 : (least + most) / 2;
}

/* The text of this rank's part. */
static ls_status make_text(const ls_comm *comm, const char *call, const Clock *all, char **text,
                           size_t *size) {
    double begin = INFINITY, off, own_off;
    char name[64], host[80] = "", label[200];
    for (int i = 0; i < comm->size; i++)
        begin = fmin(begin, all[i].began - clock_ahead(&all[0], &all[i], &off));
    const Clock *own = &all[comm->rank];
    const double ahead = clock_ahead(&all[0], own, &own_off);
    const Profile *profile = comm->context->profile;
    const uint64_t dropped = profile->event_total - profile->event_count;
    gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, "rank %d of %d", comm->rank, comm->size);
    int used = snprintf(label, sizeof label, "%s, process %ld, clock within %.1f us", host,
                        (long)getpid(), own_off);
    if (dropped && used > 0 && (size_t)used < sizeof label)
        snprintf(label + used, sizeof label - (size_t)used, ", %llu events dropped",
                 (unsigned long long)dropped);
    const TraceProcess process = {.number = comm->rank + 1,
                                  .name = name,
                                  .label = label,
                                  .shift_us = own->began - ahead - begin,
                                  .first = comm->rank == 0,
                                  .last = comm->rank == comm->size - 1};
    FILE *file = open_memstream(text, size);
    if (!file) return error_memory(&comm->context->error, call);
    trace_put(file, comm->context, &process);
    const bool whole = !ferror(file);
    return fclose(file) == 0 && whole ? LS_OK : error_memory(&comm->context->error, call);
}

/* A rank without the memory for its text gives a size of 0, and then all give the file up. */
static ls_status write_parts(ls_comm *comm, const char *call, const char *path, const char *text,
                             uint64_t own, uint64_t *sizes) {
    uint64_t all = 0, at = 0;
    bool whole = true;
    ls_comm_file *file = NULL;
    ls_status status = comm_tell(comm, call, &own, sizeof own, sizes);
    for (int i = 0; i < comm->size; i++) {
        if (i < comm->rank) at += sizes[i];
        all += sizes[i];
        whole &= sizes[i] > 0;
    }
    if (status == LS_OK && !whole)
        return error_set(&comm->context->error, LS_ERROR_MEMORY,
                         "%s: the host of a rank ran out of memory", call);
    if (status == LS_OK) status = ls_comm_file_create(comm, path, all, &file);
    if (status != LS_OK) return status;
    ls_comm_file_write(file, at, text, own); /* what fails there, all are told of here: */
    return ls_comm_file_close(file, 1);
}

ls_status ls_comm_trace(ls_comm *comm, const char *path) {
    static const char call[] = "ls_comm_trace";
    if (!comm || !path)
        return error_set(comm ? &comm->context->error : NULL, LS_ERROR_ARGUMENT, "%s: %s is NULL",
                         call, comm ? "path" : "comm");
    ls_status status = context_not_capturing(comm->context, call);
    if (status != LS_OK) return status;
    char *text = NULL;
    size_t size = 0;
    Clock *clocks = calloc((size_t)comm->size, sizeof *clocks);
    uint64_t *sizes = calloc((size_t)comm->size, sizeof *sizes);
    if (clocks && sizes) {
        status = read_clocks(comm, call, clocks);
    } else { /* the others wait for this rank's clock */
        ls_comm_abort(comm, "out of memory");
        status = error_memory(&comm->context->error, call);
    }
    for (int i = 0; i < comm->size && status == LS_OK; i++)
        if (!clocks[i].there)
            status =
                error_set(&comm->context->error, LS_ERROR_STATE,
                          "%s: rank %d of %d has no profile that has ended", call, i, comm->size);
    if (status == LS_OK) {
        if (make_text(comm, call, clocks, &text, &size) != LS_OK) size = 0;
        status = write_parts(comm, call, path, text, size, sizes);
    }
    free(text);
    free(clocks);
    free(sizes);
    return status;
}
