/* loaded_code.c: a kernel as the host compiler would leave it: a shared object. y = x + SERIAL. */
#include <stdint.h>

void loaded_run(const void *arguments, uint64_t first, uint64_t last, uint32_t worker,
                uint32_t workers);
void loaded_run(const void *arguments, uint64_t first, uint64_t last, uint32_t worker,
                uint32_t workers) {
    const uint64_t *words = arguments;
    const int32_t *x = (const int32_t *)(uintptr_t)words[1];
    int32_t *y = (int32_t *)(uintptr_t)words[2];
    (void)worker, (void)workers;
    for (uint64_t i = first; i < last; i++) y[i] = x[i] + SERIAL;
}
