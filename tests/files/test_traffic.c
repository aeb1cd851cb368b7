/* Tests of the traffic-only kernel on the CPU: arrays that are read keep their bits, arrays only
 * written are zeroed up to whole lines, and nothing beyond an array is touched, whatever its size
 * and place. */
#include "files.h"
#include "command.h"

#include <stdlib.h>
#include <string.h>

enum { GUARD = 4096, LINE = 64 };

typedef struct Guarded {
    unsigned char *block, *copy; /* guard, array, guard */
    size_t size;
    TrafficArray array;
} Guarded;

static Guarded make(size_t bytes, size_t offset, bool read, bool written) {
    Guarded g = {.size = bytes + 2 * GUARD};
    g.block = memory(g.size);
    for (size_t i = 0; i < g.size; i++) g.block[i] = (unsigned char)(i * 31 + 7);
    g.copy = memory(g.size);
    memcpy(g.copy, g.block, g.size);
    g.array = (TrafficArray){g.block + GUARD + offset, bytes - offset, 1, read, written};
    return g;
}

static int check(const Guarded *g, const char *what) {
    const unsigned char *begin = g->array.data, *end = begin + g->array.bytes;
    size_t zeroed = 0;
    int failures = 0;
    for (size_t i = 0; i < g->size; i++) {
        const unsigned char *at = g->block + i;
        bool inside = at >= begin && at < end;
        bool may_change = inside && g->array.written && !g->array.read;
        if (may_change && *at == 0) zeroed++;
        if (*at != g->copy[i] && !(may_change && *at == 0)) failures++;
    }
    if (g->array.written && !g->array.read && g->array.bytes > 2 * LINE &&
        zeroed < g->array.bytes - 2 * LINE)
        failures++;
    if (failures) printf("%s of %zu bytes: %d bytes are wrong\n", what, g->array.bytes, failures);
    return failures;
}

int main(void) {
    static const size_t sizes[] = {0, 1, 63, 64, 65, 2048, 5000, 100000, 1 << 20, (size_t)65 << 20};
    int failures = 0;
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (uint32_t threads = 1; threads <= 3; threads++) {
            Guarded in = make(sizes[i], sizes[i] > 200 ? 24 : 0, true, false);
            Guarded both = make(sizes[i] / 2, 0, true, true);
            Guarded out = make(sizes[i], 0, false, true);
            TrafficArray arrays[] = {in.array, both.array, out.array};
            HostTraffic *traffic = host_traffic_open(arrays, COUNT(arrays), threads);
            if (!traffic) return 1;
            host_traffic_run(traffic, 1);
            host_traffic_run(traffic, 2);
            host_traffic_close(traffic);
            failures += check(&in, "an array read") + check(&both, "an array updated") +
                        check(&out, "an array written");
            Guarded *all[] = {&in, &both, &out};
            for (size_t k = 0; k < COUNT(all); k++) {
                free(all[k]->block);
                free(all[k]->copy);
            }
        }
    printf("%d failures\n", failures);
    return failures != 0;
}
