/* mark.c: a page that says by its name that a process has a context of Lockstep's, and holds what
 * the context's memory is used for.
 *
 * A program links the runtime statically, so no library tells. While a context lives, the process
 * has open and maps one page of a memory file called "lockstep:" and the device; the name reads in
 * /proc/PID/maps, the page through /proc/PID/fd by whoever may look at the process, and `lockstep
 * top` shows both. A system without memory files goes without marks. */
#include "runtime.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

_Static_assert(sizeof(MarkPage) <= 4096, "the mark is one page, also where pages are smallest");

void mark_open(ls_context *context) {
    char name[32];
    const long page = sysconf(_SC_PAGESIZE);
    snprintf(name, sizeof name, "lockstep:%s", context->device->name);
    context->mark_file = -1;
    const int file = memfd_create(name, MFD_CLOEXEC);
    if (file < 0) return;
    void *mapped = page > 0 && ftruncate(file, page) == 0
                       ? mmap(NULL, (size_t)page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                       : MAP_FAILED;
    if (mapped == MAP_FAILED) {
        close(file);
        return;
    }
    context->mark_file = file;
    context->mark = mapped;
    context->mark_bytes = (size_t)page;
    context->mark->version = MARK_VERSION;
    context->mark->owner = getpid();
}

/* Its row, or a free one; the count where there is none: more labels than a page has room for. */
static size_t row_of(const MarkPage *page, const Label *label) {
    size_t row = 0, found = MARK_LABELS;
    for (; row < MARK_LABELS; row++) {
        if (strncmp(page->labels[row].name, label->name, MARK_NAME - 1) == 0) return row;
        if (found == MARK_LABELS && page->labels[row].bytes == 0) found = row;
    }
    return found;
}

void mark_memory(ls_context *context, const Label *label) {
    MarkPage *page = context->mark;
    const size_t row = page ? row_of(page, label) : MARK_LABELS;
    if (row == MARK_LABELS) return;
    page->changes++;
    snprintf(page->labels[row].name, MARK_NAME, "%.*s", MARK_NAME - 1, label->name);
    page->labels[row].bytes = label->in_use;
    page->changes++;
}

void mark_close(ls_context *context) {
    if (!context->mark) return;
    munmap(context->mark, context->mark_bytes);
    close(context->mark_file);
}
