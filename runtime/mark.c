/* mark.c: a page that says, by its name alone, that a process has a context of Lockstep's.
 *
 * A program links the runtime statically, so no library tells. While a context lives, the process
 * maps one page of a memory file called "lockstep:" and the device; it reads in /proc/PID/maps, and
 * `lockstep top` marks such processes. Nothing is written there. A system without memory files goes
 * without marks. */
#include "runtime.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

void mark_open(ls_context *context) {
    char name[32];
    const long page = sysconf(_SC_PAGESIZE);
    snprintf(name, sizeof name, "lockstep:%s", context->device->name);
    const int file = memfd_create(name, MFD_CLOEXEC);
    if (file < 0) return;
    void *mapped = page > 0 ? mmap(NULL, (size_t)page, PROT_NONE, MAP_SHARED, file, 0) : MAP_FAILED;
    close(file); /* the mapping keeps it */
    if (mapped == MAP_FAILED) return;
    context->mark = mapped;
    context->mark_bytes = (size_t)page;
}

void mark_close(ls_context *context) {
    if (context->mark) munmap(context->mark, context->mark_bytes);
}
