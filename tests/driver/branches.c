/* branches.c: see branches.h. */
#include "branches.h"

#include <stdlib.h>

void branches_begin(BranchStream *stream, void *owner) {
    static uint64_t captures;
    *stream = (BranchStream){.root = stream, .owner = owner, .capture = ++captures, .count = 1};
}

void branches_end(BranchStream *root) {
    for (unsigned i = 1; i < root->count; i++) root->others[i]->root = NULL;
    root->root = NULL;
}

BranchMark branches_record(const BranchStream *stream, BranchEvent *event) {
    BranchStream *root = stream->root;
    *event = (BranchEvent){root, root->capture, root->slots++};
    return (BranchMark){BRANCH_RECORD, stream->branch, event->slot};
}

static bool is_alive(const BranchEvent *event) {
    return event->root->root == event->root && event->root->capture == event->capture;
}

bool branches_wait(BranchStream *stream, void *owner, const BranchEvent *event, BranchMark *mark,
                   int *error) {
    *error = 0;
    if (!stream->root && !event->root) return false;
    if (!event->root || !is_alive(event) || (stream->root && stream->root != event->root) ||
        (!stream->root && event->root->count == BRANCHES_MAX)) {
        *error = BRANCHES_ISOLATION;
        return true;
    }
    if (!stream->root) {
        BranchStream *root = event->root;
        *stream = (BranchStream){.root = root, .owner = owner, .branch = root->count};
        root->others[root->count++] = stream;
    }
    *mark = (BranchMark){BRANCH_WAIT, stream->branch, event->slot};
    return true;
}

static const BranchMark *mark_at(const BranchMark *first, size_t stride, size_t entry) {
    return (const BranchMark *)(const void *)((const char *)first + entry * stride);
}

bool branches_are_several(const BranchMark *first, size_t stride, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (mark_at(first, stride, i)->kind != BRANCH_WORK) return true;
    return false;
}

/* From the end backwards: up to which entry of a branch the end is behind it. */
bool branches_are_joined(const BranchMark *first, size_t stride, size_t count) {
    size_t behind[BRANCHES_MAX] = {count};
    for (size_t i = count; i-- > 0;) {
        const BranchMark *mark = mark_at(first, stride, i);
        if (mark->kind == BRANCH_WORK && i >= behind[mark->branch]) return false;
        if (mark->kind != BRANCH_WAIT || i >= behind[mark->branch]) continue;
        for (size_t k = 0; k < i; k++) {
            const BranchMark *record = mark_at(first, stride, k);
            if (record->kind == BRANCH_RECORD && record->slot == mark->slot &&
                behind[record->branch] < k)
                behind[record->branch] = k;
        }
    }
    return true;
}

int branches_replay(const BranchMark *first, size_t stride, size_t count, LateStream *stream,
                    int (*queue)(LateStream *stream, const void *graph, size_t entry),
                    const void *graph) {
    LateStream *streams[BRANCHES_MAX] = {stream};
    LateEvent *events = calloc(count, sizeof *events); /* by slot: a record is an entry */
    int error = events ? 0 : LATE_OUT_OF_MEMORY;
    for (size_t i = 0; i < count && !error; i++) {
        const BranchMark *mark = mark_at(first, stride, i);
        LateStream **on = &streams[mark->branch];
        if (!*on) *on = late_open(false);
        if (!*on)
            error = LATE_OUT_OF_MEMORY;
        else if (mark->kind == BRANCH_RECORD)
            error = late_record(&events[mark->slot], *on);
        else if (mark->kind == BRANCH_WAIT)
            error = late_wait(*on, &events[mark->slot]);
        else
            error = queue(*on, graph, i);
    }
    for (size_t i = 0; events && i < count; i++) late_event_drop(&events[i]);
    for (size_t i = 1; i < BRANCHES_MAX; i++)
        if (streams[i]) late_close(streams[i]);
    free(events);
    return error;
}
