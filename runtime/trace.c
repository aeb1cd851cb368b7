/* trace.c: a profile as a file for Perfetto and chrome://tracing.
 *
 * The format is the Trace Event Format's JSON object: complete events (X) on two tracks of a
 * process, times in microseconds. A file of several ranks has the text of each, as comm/trace.c
 * puts them together. The file is written under another name and renamed, unless what
 * has the name is no regular file: a device or a FIFO is written to, not replaced. */
#include "runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRACK_HOST = 1, TRACK_DEVICE = 2 };

/* A JSON string; bytes that are not of ASCII are taken as UTF-8 where they are that. */
static void put_string(FILE *file, const char *text) {
    fputc('"', file);
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        size_t more = *at < 0xc2 ? 0 : *at < 0xe0 ? 1 : *at < 0xf0 ? 2 : *at < 0xf5 ? 3 : 0;
        size_t valid = 0;
        while (valid < more && (at[valid + 1] & 0xc0) == 0x80) valid++;
        if (*at == '"' || *at == '\\') {
            fprintf(file, "\\%c", *at);
        } else if (*at < 0x20 || *at == 0x7f || (*at >= 0x80 && (!more || valid < more))) {
            fprintf(file, "\\u%04x", *at < 0x80 ? *at : 0xfffd);
        } else {
            fwrite(at, 1, more + 1, file);
            at += more;
        }
    }
    fputc('"', file);
}

static void put_name(FILE *file, const TraceProcess *process, const char *kind, int track,
                     const char *key, const char *name) {
    fprintf(file,
            "{\"ph\": \"M\", \"name\": \"%s\", \"pid\": %ld, \"tid\": %d, \"args\": {\"%s\": ",
            kind, process->number, track, key);
    put_string(file, name);
    fputs("}},\n", file);
}

static void put_event(FILE *file, const TraceProcess *process, const Profile *profile,
                      const ProfileEvent *event) {
    const ProfileRow *row = &profile->rows[event->row];
    static const char *const kinds[] = {[PROFILE_STEP] = "step",
                                        [PROFILE_GRAPH] = "graph",
                                        [PROFILE_COPY] = "copy",
                                        [PROFILE_HOST] = "host"};
    const char *category = event->host ? "call" : row->kernel ? "kernel" : kinds[row->kind];
    fputs("{\"ph\": \"X\", \"name\": ", file);
    put_string(file, row->kernel ? row->kernel : row->step);
    fprintf(file, ", \"cat\": \"%s\", \"pid\": %ld, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f",
            category, process->number, event->host ? TRACK_HOST : TRACK_DEVICE,
            event->at + process->shift_us, event->duration);
    fputs(", \"args\": {\"step\": ", file);
    put_string(file, row->step);
    if (row->line) {
        fputs(", \"source\": ", file);
        char *source = NULL;
        const size_t size = strlen(row->file) + 16;
        source = malloc(size);
        if (source) snprintf(source, size, "%s:%u", row->file, row->line);
        put_string(file, source ? source : row->file);
        free(source);
    }
    if (!event->host) {
        const double bytes = (double)event->moved.read + (double)event->moved.written;
        fprintf(file, ", \"bytes_read\": %llu, \"bytes_written\": %llu",
                (unsigned long long)event->moved.read, (unsigned long long)event->moved.written);
        if (bytes > 0 && event->duration > 0)
            fprintf(file, ", \"gb_s\": %.3f", bytes / event->duration * 1e-3);
    }
    fputs("}}", file);
}

/* A counter for each label, which viewers draw as a track. */
static void put_memory(FILE *file, const TraceProcess *process, const Profile *profile) {
    for (size_t i = 0; i < profile->memory_count; i++) {
        const ProfileMemory *change = &profile->memory[i];
        char name[LABEL_BYTES + 16];
        snprintf(name, sizeof name, "memory: %s", profile->labels[change->label]);
        fputs("{\"ph\": \"C\", \"name\": ", file);
        put_string(file, change->label ? name : "memory");
        fprintf(file, ", \"pid\": %ld, \"ts\": %.3f, \"args\": {\"bytes\": %llu}},\n",
                process->number, change->at + process->shift_us, (unsigned long long)change->bytes);
    }
}

/* Whether a comes before b: in time, and what holds another before that. */
static int by_time(const void *a, const void *b) {
    const ProfileEvent *x = a, *y = b;
    if (x->host != y->host) return x->host ? -1 : 1;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    return (x->duration < y->duration) - (x->duration > y->duration);
}

static void put_head(FILE *file, const char *device, uint64_t dropped) {
    fputs("{\"displayTimeUnit\": \"ns\", \"otherData\": {\"producer\": \"Lockstep\", \"device\": ",
          file);
    put_string(file, device);
    fprintf(file, ", \"dropped\": \"%llu\"}, \"traceEvents\": [\n", (unsigned long long)dropped);
}

void trace_put(FILE *file, const ls_context *context, const TraceProcess *process) {
    Profile *profile = context->profile;
    char device[200];
    const uint64_t dropped = profile->event_total - profile->event_count;
    snprintf(device, sizeof device, "%s (%s)", context->device->name, context->device->description);
    qsort(profile->events, profile->event_count, sizeof *profile->events, by_time);
    if (process->first) put_head(file, device, dropped);
    put_name(file, process, "process_name", 0, "name", process->name);
    if (process->label) put_name(file, process, "process_labels", 0, "labels", process->label);
    put_name(file, process, "thread_name", TRACK_HOST, "name", "calls");
    put_name(file, process, "thread_name", TRACK_DEVICE, "name", device);
    put_memory(file, process, profile);
    for (size_t i = 0; i < profile->event_count; i++) {
        put_event(file, process, profile, &profile->events[i]);
        fputs(",\n", file);
    }
    /* the last has no comma behind it, so there is one that is always there */
    fprintf(file,
            "{\"ph\": \"M\", \"name\": \"thread_sort_index\", \"pid\": %ld, \"tid\": %d, "
            "\"args\": {\"sort_index\": %d}}%s",
            process->number, TRACK_DEVICE, TRACK_DEVICE, process->last ? "\n]}\n" : ",\n");
    /* sorted now: what comes next in the ring no longer matters, the profile has ended */
}

static ls_status failed(ls_context *context, const char *path, int error) {
    return error_set(&context->error, LS_ERROR_FILE,
                     "ls_profile_trace: %s could not be written: %s", path, strerror(error));
}

/* Opens what is written to: `*temporary` is its name until all is there, or NULL where the final
 * name is a device's, a FIFO's or a folder's. `*path` becomes the final name, in `real`, where a
 * symbolic link points to it. */
static int open_trace(const char **path, char real[PATH_MAX], char **temporary) {
    struct stat about;
    const bool exists = stat(*path, &about) == 0;
    if (exists && !S_ISREG(about.st_mode)) return open(*path, O_WRONLY | O_CLOEXEC);
    if (exists && realpath(*path, real)) *path = real;
    *temporary = malloc(strlen(*path) + FILE_BESIDE);
    if (!*temporary) {
        errno = ENOMEM;
        return -1;
    }
    const int descriptor = file_create_beside(*path, *temporary);
    if (descriptor < 0) {
        const int error = errno;
        free(*temporary);
        *temporary = NULL;
        errno = error;
    }
    return descriptor;
}

ls_status trace_write(ls_context *context, const char *path) {
    char real[PATH_MAX], *temporary = NULL;
    const char *to = path;
    int error = 0, descriptor = open_trace(&to, real, &temporary);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
    if (!file) {
        error = errno;
        if (descriptor >= 0) close(descriptor);
    } else {
        const TraceProcess process = {(long)getpid(), "Lockstep", NULL, 0, true, true};
        trace_put(file, context, &process);
        if (fflush(file) != 0 || ferror(file)) error = errno ? errno : EIO;
        if (fclose(file) != 0 && !error) error = errno;
        if (!error && temporary && rename(temporary, to) != 0) error = errno;
    }
    if (error && temporary) unlink(temporary);
    free(temporary);
    if (error == ENOMEM) return error_memory(&context->error, "ls_profile_trace");
    return error ? failed(context, path, error) : LS_OK;
}
