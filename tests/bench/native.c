/* native.c: what Lockstep is measured against on the CPU: AdamW as a C programmer writes it, and a
 * kernel with the same traffic and no arithmetic worth the name, the limit of the machine in that
 * moment. cpu.py compiles it with gcc -O3 -march=native; both share the work over the threads as
 * OpenMP does. */
#define _GNU_SOURCE
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

/* Pages of 2 MiB where the system gives them, touched, so that no candidate pays for page faults.
 */
void *native_alloc(size_t bytes) {
    const size_t page = (size_t)2 << 20, size = (bytes + page - 1) / page * page + page;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    memory = (char *)(((uintptr_t)memory + page - 1) / page * page);
    madvise(memory, size - page, MADV_HUGEPAGE);
    memset(memory, 0, bytes);
    return memory;
}

/* Values between low and high: a cheap generator is enough for timing. */
void native_fill(float *data, size_t count, float low, float high) {
    uint32_t state = 2463534242u;
    for (size_t i = 0; i < count; i++) {
        state ^= state << 13, state ^= state >> 17, state ^= state << 5;
        data[i] = low + (high - low) * (float)(state >> 8) * 0x1p-24f;
    }
}

void native_adamw(float *restrict p, float *restrict m, float *restrict v, const float *restrict g,
                  size_t n, int step, int threads) {
    const float lr = 1e-3f, beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f, decay = 0.01f;
    const float rate = lr / (1 - powf(beta1, (float)step));
    const float scale = 1 / sqrtf(1 - powf(beta2, (float)step));
#pragma omp parallel for schedule(static) num_threads(threads)
    for (size_t i = 0; i < n; i++) {
        const float gradient = g[i];
        const float first = beta1 * m[i] + (1 - beta1) * gradient;
        const float second = beta2 * v[i] + (1 - beta2) * gradient * gradient;
        m[i] = first;
        v[i] = second;
        p[i] = p[i] * (1 - lr * decay) - rate * first / (sqrtf(second) * scale + eps);
    }
}

/* Reads four arrays, writes three: AdamW's 28 bytes an element. */
void native_traffic(float *restrict p, float *restrict m, float *restrict v,
                    const float *restrict g, size_t n, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (size_t i = 0; i < n; i++) {
        p[i] += g[i];
        m[i] += g[i];
        v[i] += g[i];
    }
}
