/* directives.c: reads the lines of a .step text that tell the runner how to run it. */
#include "exec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "name=number" at *text: moves past it. */
static bool read_pair(const char **text, char *name, char *number, size_t size) {
    char format[64];
    int used = 0;
    snprintf(format, sizeof format, " %%%zu[^= ;]=%%%zu[^ ;]%%n", size - 1, size - 1);
    if (sscanf(*text, format, name, number, &used) != 2) return false;
    *text += used;
    return true;
}

/* "5+0+1030" */
static bool read_lengths(const char *text, SizeSet *set, size_t axis) {
    char *end;
    do {
        if (set->axis[axis].count == LENGTHS) return false;
        set->axis[axis].sizes[set->axis[axis].count++] = strtoll(text, &end, 10);
        text = end + 1;
    } while (*end == '+');
    return *end == '\0';
}

static bool read_sizes(const char *text, Directives *directives) {
    while (*text != '\0') {
        if (directives->set_count == sizeof directives->sets / sizeof *directives->sets)
            return false;
        SizeSet *set = &directives->sets[directives->set_count++];
        char number[NAME_SIZE];
        while (set->count < AXES && read_pair(&text, set->axis[set->count].name, number, NAME_SIZE))
            if (!read_lengths(number, set, set->count++)) return false;
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

static bool read_shard(const char *text, Directives *directives) {
    long long first[2];
    if (sscanf(text, "%lld %lld", &first[0], &first[1]) != 2) return false;
    for (int i = 0; i < 2; i++) directives->shard[i] = first[i];
    return true;
}

static bool read_fill(const char *text, Directives *directives) {
    bool any = false;
    for (size_t i = 0; i < FILL_COUNT; i++)
        any |= directives->fill[i] = strstr(text, fill_names[i]) != NULL;
    return any;
}

static bool read_large(const char *text, Directives *directives) {
    directives->large = strcmp(text + strspn(text, " "), "yes") == 0;
    return directives->large;
}

static const struct {
    const char *prefix;
    bool (*read)(const char *text, Directives *directives);
} kinds[] = {
    {"# large:", read_large},       {"# sizes:", read_sizes},       {"# values:", read_values},
    {"# positive:", read_positive}, {"# launches:", read_launches}, {"# fill:", read_fill},
    {"# shard:", read_shard},
};

bool directives_read(const char *text, Directives *directives) {
    memset(directives, 0, sizeof *directives);
    directives->launches = 1;
    directives->fill[FILL_NORMAL] = directives->fill[FILL_SPECIAL] = true;
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

/* ---- sizes ---- */

static size_t lengths_of(const Sizes *sizes, uint32_t axis) {
    const uint32_t parent = sizes->image->axes[axis].parent;
    return parent ? (size_t)sizes->of[parent - 1][0] : 1;
}

/* A length in terms of others, in reverse Polish order; `tensor` is that of the axes that have one.
 */
static int64_t evaluate(const Sizes *sizes, const ls_image_axis *axis, int64_t tensor) {
    int64_t stack[64] = {0};
    size_t depth = 0;
    for (uint32_t i = 0; i < axis->term_count && depth < 63; i++) {
        const ls_image_term *term = &axis->terms[i];
        if (term->operation == LS_TERM_NUMBER) {
            stack[depth++] = term->value;
        } else if (term->operation == LS_TERM_AXIS) {
            stack[depth++] = sizes_length(sizes, (uint32_t)term->value, tensor);
        } else {
            const int64_t b = stack[--depth], a = stack[depth - 1];
            const int64_t quotient = b ? a / b - (a % b != 0 && (a < 0) != (b < 0)) : 0;
            stack[depth - 1] = term->operation == LS_TERM_ADD        ? a + b
                               : term->operation == LS_TERM_SUBTRACT ? a - b
                               : term->operation == LS_TERM_MULTIPLY ? a * b
                               : term->operation == LS_TERM_DIVIDE   ? quotient
                               : b                                   ? a - quotient * b
                                                                     : 0;
        }
    }
    return stack[0];
}

bool sizes_open(Sizes *sizes, const SizeSet *set, const ls_image *image) {
    memset(sizes, 0, sizeof *sizes);
    sizes->image = image;
    for (uint32_t a = 0; a < image->axis_count; a++) {
        const ls_image_axis *axis = &image->axes[a];
        if (axis->whole) continue; /* as its whole */
        const size_t count = lengths_of(sizes, a);
        size_t named = 0;
        sizes->of[a] = must_allocate((count + 1) * sizeof(int64_t));
        while (named < set->count && strcmp(set->axis[named].name, axis->name) != 0) named++;
        if (axis->fixed < 0 && axis->term_count == 0 && named == set->count) return false;
        for (size_t i = 0; i < count; i++)
            sizes->of[a][i] = axis->fixed >= 0 ? axis->fixed
                              : axis->term_count
                                  ? evaluate(sizes, axis, (int64_t)i)
                                  : set->axis[named].sizes[i % set->axis[named].count];
    }
    return true;
}

void sizes_close(Sizes *sizes) {
    for (uint32_t a = 0; a < AXES; a++) free(sizes->of[a]);
    memset(sizes, 0, sizeof *sizes);
}

int64_t sizes_length(const Sizes *sizes, uint32_t axis, int64_t tensor) {
    const ls_image_axis *row = &sizes->image->axes[axis];
    if (!row->whole) return sizes->of[axis][row->parent ? tensor : 0];
    if (row->parent && sizes->image->axes[row->parent - 1].whole) return row->length;
    return (sizes_length(sizes, row->whole - 1, tensor) + row->length - 1) / row->length;
}

uint32_t sizes_list(const ls_image *image, const ls_image_parameter *parameter) {
    for (uint32_t i = 0; i < parameter->rank; i++) {
        const uint32_t parent = image->axes[parameter->axes[i]].parent;
        if (parent && !image->axes[parent - 1].whole) return parent;
    }
    return 0;
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
