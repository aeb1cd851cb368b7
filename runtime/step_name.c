/* step_name.c: parameters by name, the name that was meant, and what a message calls them. */
#include "runtime.h"

#include <stdio.h>
#include <string.h>

enum { NAME_MAX_COMPARED = 64 };

static size_t min(size_t a, size_t b, size_t c) {
    size_t smaller = a < b ? a : b;
    return smaller < c ? smaller : c;
}

/* Edit distance of two names, or a large number for long ones. */
static size_t distance(const char *a, const char *b) {
    size_t row[NAME_MAX_COMPARED + 1], rows = strlen(a), columns = strlen(b);
    if (rows > NAME_MAX_COMPARED || columns > NAME_MAX_COMPARED) return SIZE_MAX;
    for (size_t j = 0; j <= columns; j++) row[j] = j;
    for (size_t i = 1; i <= rows; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= columns; j++) {
            size_t above = row[j];
            row[j] = min(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[columns];
}

bool name_is_nearer(const char *name, const char *candidate, size_t *best) {
    const size_t edits = distance(name, candidate);
    if (edits >= *best || edits > 1 + strlen(name) / 4) return false;
    *best = edits;
    return true;
}

static void list_parameters(const ls_image *image, char *text, size_t size) {
    size_t used = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < image->parameter_count && used < size; i++) {
        int wrote =
            snprintf(text + used, size - used, "%s`%s`", i ? ", " : "", image->parameters[i].name);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
}

int step_find(const ls_step *step, const char *call, const char *name) {
    const ls_image *image = step->image;
    for (uint32_t i = 0; i < image->parameter_count; i++)
        if (strcmp(image->parameters[i].name, name) == 0) return (int)i;
    size_t best = SIZE_MAX;
    const char *nearest = NULL;
    for (uint32_t i = 0; i < image->parameter_count; i++) {
        const char *candidate = image->parameters[i].name;
        if (name_is_nearer(name, candidate, &best)) nearest = candidate;
    }
    Error *error = &step->context->error;
    if (nearest) {
        error_set(error, LS_ERROR_ARGUMENT,
                  "%s: step `%s` has no parameter `%.64s`; did you mean `%s`?", call, image->step,
                  name, nearest);
        return -1;
    }
    char names[1024];
    list_parameters(image, names, sizeof names);
    error_set(error, LS_ERROR_ARGUMENT, "%s: step `%s` has no parameter `%.64s`; it has %s", call,
              image->step, name, names[0] ? names : "none");
    return -1;
}

void step_declaration(const ls_step *step, size_t parameter, char *text, size_t size) {
    const ls_image_parameter *row = &step->image->parameters[parameter];
    int wrote = snprintf(text, size, "%s", type_rows[row->type].name);
    size_t used = wrote > 0 ? (size_t)wrote : 0;
    for (uint32_t i = 0; i < row->rank && used < size; i++) {
        wrote = snprintf(text + used, size - used, "%s%s%s", i ? ", " : "[",
                         step->image->axes[row->axes[i]].name, i + 1 == row->rank ? "]" : "");
        used += wrote > 0 ? (size_t)wrote : 0;
    }
}

const char *step_article(const char *noun) {
    return strchr("aefi8", noun[0]) ? "an" : "a";
}

ls_status step_parameter(ls_step *step, const char *call, const char *name, size_t *number) {
    if (!step || !name)
        return error_set(step ? &step->context->error : NULL, LS_ERROR_ARGUMENT, "%s: %s is NULL",
                         call, step ? "parameter" : "step");
    ls_status status = context_not_capturing(step->context, call);
    if (status != LS_OK) return status;
    int found = step_find(step, call, name);
    if (found < 0) return LS_ERROR_ARGUMENT;
    *number = (size_t)found;
    return LS_OK;
}
