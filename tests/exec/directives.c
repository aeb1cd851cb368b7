/* directives.c: reads the lines of a .step text that tell the runner how to run it. */
#include "exec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "name=number" at *text: moves past it. */
static bool read_pair(const char **text, char *name, char *number, size_t size) {
    char format[32];
    int used = 0;
    snprintf(format, sizeof format, " %%%zu[^= ;]=%%%zu[^ ;]%%n", size - 1, size - 1);
    if (sscanf(*text, format, name, number, &used) != 2) return false;
    *text += used;
    return true;
}

static bool read_sizes(const char *text, Directives *directives) {
    while (*text != '\0') {
        if (directives->set_count == sizeof directives->sets / sizeof *directives->sets)
            return false;
        SizeSet *set = &directives->sets[directives->set_count++];
        char number[NAME_SIZE];
        while (set->count < AXES && read_pair(&text, set->axis[set->count].name, number, NAME_SIZE))
            set->axis[set->count++].size = strtoll(number, NULL, 10);
        text += strspn(text, " ");
        if (*text == ';')
            text++;
        else if (*text != '\0')
            return false;
    }
    return true;
}

static bool read_values(const char *text, Directives *directives) {
    char number[NAME_SIZE];
    while (directives->value_count < 16 &&
           read_pair(&text, directives->values[directives->value_count].name, number, NAME_SIZE))
        directives->values[directives->value_count++].value = strtod(number, NULL);
    return text[strspn(text, " ")] == '\0';
}

static bool read_positive(const char *text, Directives *directives) {
    int used = 0;
    while (directives->positive_count < 16 &&
           sscanf(text, " %47s%n", directives->positive[directives->positive_count], &used) == 1) {
        directives->positive_count++;
        text += used;
    }
    return true;
}

static bool read_launches(const char *text, Directives *directives) {
    directives->launches = atoi(text);
    return directives->launches > 0;
}

static bool read_fill(const char *text, Directives *directives) {
    directives->fill[FILL_NORMAL] = strstr(text, "normal") != NULL;
    directives->fill[FILL_SPECIAL] = strstr(text, "special") != NULL;
    return directives->fill[FILL_NORMAL] || directives->fill[FILL_SPECIAL];
}

static const struct {
    const char *prefix;
    bool (*read)(const char *text, Directives *directives);
} kinds[] = {
    {"# sizes:", read_sizes},       {"# values:", read_values}, {"# positive:", read_positive},
    {"# launches:", read_launches}, {"# fill:", read_fill},
};

bool directives_read(const char *text, Directives *directives) {
    memset(directives, 0, sizeof *directives);
    directives->launches = 1;
    for (size_t i = 0; i < FILL_COUNT; i++) directives->fill[i] = true;
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        if (*line == '\n') line++;
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            const size_t prefix = strlen(kinds[i].prefix);
            if (strncmp(line, kinds[i].prefix, prefix) != 0) continue;
            char rest[1024];
            snprintf(rest, sizeof rest, "%.*s", (int)strcspn(line + prefix, "\n"), line + prefix);
            if (kinds[i].read(rest, directives)) continue;
            fprintf(stderr, "cannot read the directive: %s%s\n", kinds[i].prefix, rest);
            return false;
        }
        if (*line == '\0') break;
    }
    if (directives->set_count == 0) directives->set_count = 1; /* one run without sizes */
    return true;
}

bool directives_sizes(const SizeSet *set, const ls_image *image, int64_t *sizes) {
    for (uint32_t axis = 0; axis < image->axis_count; axis++) {
        sizes[axis] = image->axes[axis].fixed;
        for (size_t i = 0; i < set->count && sizes[axis] < 0; i++)
            if (strcmp(set->axis[i].name, image->axes[axis].name) == 0)
                sizes[axis] = set->axis[i].size;
        if (sizes[axis] < 0) return false;
    }
    return true;
}

bool directives_value(const Directives *directives, const char *name, double *value) {
    for (size_t i = 0; i < directives->value_count; i++) {
        if (strcmp(directives->values[i].name, name) != 0) continue;
        *value = directives->values[i].value;
        return true;
    }
    return false;
}

bool directives_positive(const Directives *directives, const char *name) {
    for (size_t i = 0; i < directives->positive_count; i++)
        if (strcmp(directives->positive[i], name) == 0) return true;
    return false;
}
