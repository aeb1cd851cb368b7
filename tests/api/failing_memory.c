/* failing_memory.c: see failing_memory.h. Counts are plain: only one thread allocates in these
 * tests. */
#include "failing_memory.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *pointer, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_posix_memalign(void **pointer, size_t alignment, size_t size);
void __real_free(void *pointer);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *pointer, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_posix_memalign(void **pointer, size_t alignment, size_t size);
void __wrap_free(void *pointer);

long memory_live, memory_until_failure;

static bool fails(void) {
    return memory_until_failure > 0 && --memory_until_failure == 0;
}

static void *counted(void *pointer) {
    memory_live += pointer != NULL;
    return pointer;
}

void *__wrap_malloc(size_t size) {
    return fails() ? NULL : counted(__real_malloc(size));
}
void *__wrap_calloc(size_t count, size_t size) {
    return fails() ? NULL : counted(__real_calloc(count, size));
}
void *__wrap_realloc(void *pointer, size_t size) {
    if (fails()) return NULL;
    void *moved = __real_realloc(pointer, size);
    memory_live += moved && !pointer;
    return moved;
}
void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return fails() ? NULL : counted(__real_aligned_alloc(alignment, size));
}
int __wrap_posix_memalign(void **pointer, size_t alignment, size_t size) {
    if (fails()) return ENOMEM;
    int result = __real_posix_memalign(pointer, alignment, size);
    memory_live += result == 0;
    return result;
}
void __wrap_free(void *pointer) {
    memory_live -= pointer != NULL;
    __real_free(pointer);
}
