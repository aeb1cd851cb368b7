/* origin.c: the process that made something, told from a child that was forked since, which has
 * the memory but neither the threads nor the device.
 *
 * The system wipes a page of ours in every child, so that asking is one load. Where it cannot
 * (Linux before 4.14) the number of the process is asked for. */
#include "runtime.h"

#include <sys/mman.h>
#include <unistd.h>

void origin_open(Origin *origin) {
    *origin = (Origin){.process = getpid()};
#ifdef MADV_WIPEONFORK
    const long page = sysconf(_SC_PAGESIZE);
    if (page <= 0) return;
    void *mapped =
        mmap(NULL, (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return;
    if (madvise(mapped, (size_t)page, MADV_WIPEONFORK) != 0) {
        munmap(mapped, (size_t)page);
        return;
    }
    origin->here = mapped;
    origin->bytes = (size_t)page;
    *origin->here = 1;
#endif
}

bool origin_forked(const Origin *origin) {
    return origin->here ? *origin->here == 0 : getpid() != origin->process;
}

void origin_renew(Origin *origin) {
    origin->process = getpid();
    if (origin->here) *origin->here = 1;
}

void origin_close(Origin *origin) {
    if (origin->here) munmap((void *)origin->here, origin->bytes);
    origin->here = NULL;
}
