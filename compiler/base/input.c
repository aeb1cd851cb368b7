/* input.c: what callers of lockstep/compiler.h give: options, and files to read. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/compiler.h>

#include "base/base.h"

static bool refuse(char *message, size_t size, const char *text) {
    snprintf(message, size, "%s", text);
    return false;
}

bool input_check_options(const ls_compile_options *o, char *message, size_t size) {
    const struct {
        const char *const *entries;
        size_t count;
        const char *name;
    } lists[] = {{o->defines, o->define_count, "defines"},
                 {o->import_paths, o->import_path_count, "import_paths"}};
    char text[128];
    if ((unsigned)o->math > LS_MATH_FAST) {
        snprintf(text, sizeof text, "options.math is %d, which is no ls_math", (int)o->math);
        return refuse(message, size, text);
    }
    for (size_t k = 0; k < COUNT(lists); k++) {
        const char *name = lists[k].name;
        const int one = (int)strlen(name) - 1; /* "define_count" */
        size_t i = 0;
        while (lists[k].entries && i < lists[k].count && lists[k].entries[i]) i++;
        if (i == lists[k].count && (i || !lists[k].entries)) continue;
        if (i == lists[k].count)
            snprintf(text, sizeof text, "options.%.*s_count is 0, but options.%s is not NULL", one,
                     name, name);
        else if (lists[k].entries)
            snprintf(text, sizeof text, "options.%s[%zu] is NULL", name, i);
        else
            snprintf(text, sizeof text, "options.%s is NULL, but options.%.*s_count is %zu", name,
                     one, name, lists[k].count);
        return refuse(message, size, text);
    }
    if (o->sources && !o->source_count)
        return refuse(message, size, "options.source_count is 0, but options.sources is not NULL");
    for (size_t i = 0; i < o->source_count; i++)
        if (!o->sources || !o->sources[i].name || (!o->sources[i].text && o->sources[i].size))
            return refuse(message, size, "options.sources has an entry without a name or a text");
    return true;
}

/* What is a little too large is read, for the compiler to say so in its place. */
enum { READ_MAX = 2 * FILE_MAX };

char *input_read(const char *path, size_t *size, const char **reason) {
    const bool standard = strcmp(path, "-") == 0;
    struct stat status;
    char *data = NULL;
    /* not to wait for a writer where the name is a FIFO's */
    int file = standard ? STDIN_FILENO : open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    *size = 0;
    *reason = NULL;
    if (file < 0) return NULL;
    if (!standard && fstat(file, &status) != 0) goto done;
    if (!standard && S_ISDIR(status.st_mode)) {
        errno = EISDIR;
        goto done;
    }
    if (!standard && !S_ISREG(status.st_mode)) {
        *reason = "it is no regular file; `-` reads a program from standard input";
        goto done;
    }
    data = malloc(READ_MAX + 2);
    for (ssize_t got = 1; data && got != 0 && *size <= READ_MAX;) {
        got = read(file, data + *size, READ_MAX + 1 - *size);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            free(data);
            data = NULL;
            break;
        }
        *size += (size_t)got;
    }
    if (data && *size > READ_MAX) {
        *reason = "it is larger than a source may be, 4 MiB";
        free(data);
        data = NULL;
    }
    if (data) data[*size] = 0;
done:
    if (!standard) {
        int error = errno;
        close(file);
        errno = error;
    }
    return data;
}
