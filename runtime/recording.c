/* recording.c: launches in the order they came, with copies of their arguments: what a graph is
 * where the driver has none, and what an update compares with. */
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

static bool reserve(Recording *recording, size_t launches) {
    size_t count = recording->launch_count + launches, capacity = recording->launch_capacity;
    if (!array_grow(&recording->nodes, &capacity, count, sizeof *recording->nodes)) return false;
    capacity = recording->launch_capacity;
    if (!array_grow(&recording->moved, &capacity, count, sizeof *recording->moved)) return false;
    return array_grow(&recording->launches, &recording->launch_capacity, count,
                      sizeof *recording->launches) &&
           array_grow(&recording->entries, &recording->entry_capacity, recording->entry_count + 1,
                      sizeof *recording->entries);
}

/* Kernels of one variant have one argument block. */
static bool shares_arguments(const Launch *launches, size_t number) {
    return number && launches[number].arguments == launches[number - 1].arguments;
}

bool recording_add(Recording *recording, ls_step *step, const Launch *launches, size_t count) {
    if (!reserve(recording, count)) return false;
    size_t words = 0, at = 0;
    for (size_t i = 0; i < count; i++)
        if (!shares_arguments(launches, i)) words += launches[i].argument_count;
    uint64_t *arguments = malloc(words * sizeof *arguments + 1);
    if (!arguments) return false;
    recording->entries[recording->entry_count++] =
        (Recorded){step, recording->launch_count, count, arguments};
    const Moved *moved = step ? step_moved(step) : NULL;
    for (size_t i = 0; i < count; i++) {
        recording->moved[recording->launch_count] = moved ? moved[i] : (Moved){0, 0};
        recording->nodes[recording->launch_count] = NULL;
        recording->launches[recording->launch_count] = launches[i];
        if (i && !shares_arguments(launches, i)) at += launches[i - 1].argument_count;
        if (launches[i].argument_count && !shares_arguments(launches, i))
            memcpy(arguments + at, launches[i].arguments,
                   launches[i].argument_count * sizeof *arguments);
        recording->launches[recording->launch_count++].arguments = arguments + at;
    }
    return true;
}

void recording_free(Recording *recording) {
    for (size_t i = 0; i < recording->entry_count; i++) free(recording->entries[i].arguments);
    free(recording->entries);
    free(recording->nodes);
    free(recording->moved);
    free(recording->launches);
    *recording = (Recording){0};
}

static bool same_kernel(Kernel a, Kernel b) {
    return memcmp(&a, &b, sizeof a) == 0;
}

bool launch_equal(const Launch *a, const Launch *b) {
    return same_kernel(a->kernel, b->kernel) && a->host == b->host && a->copies == b->copies &&
           a->items == b->items && a->parts == b->parts && a->threads == b->threads &&
           a->together == b->together && a->argument_count == b->argument_count &&
           memcmp(a->arguments, b->arguments, a->argument_count * sizeof *a->arguments) == 0;
}

bool launch_is_fixed(const Launch *launch) {
    return launch->host || launch->copies;
}
