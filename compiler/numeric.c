/* numeric.c: the numeric version, a hash of everything that decides the bits of a result.
 *
 * The device text of arithmetic and reductions, the derivatives of ops.def, and a serial number for
 * what is written in C: the order in which adjoints add up (derive.c) and what lower.c makes of
 * mean, norm, lerp and the like. Whoever changes one of those raises the serial. */
#include "compiler.h"

enum { SERIAL = 2 };

static const char *const texts[] = {"math.h",        "lite.h",        "philox.h",  "fixed.h",
                                    "integer.h",     "convert.h",     "memory.h",  "reduce.h",
                                    "reduce_loop.h", "reduce_simt.h", "prelude.c", "prelude.cu",
                                    "prelude.hip"};

static uint64_t add(uint64_t hash, const char *text) { /* FNV-1a, the terminating zero included */
    do hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    while (*text++);
    return hash;
}

uint64_t numeric_version(void) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ SERIAL;
    for (size_t i = 0; i < COUNT(texts); i++) {
        const char *text = embedded_text(texts[i]);
        if (!text) return 0; /* a file was renamed: test_numbers fails */
        hash = add(hash, text);
    }
    for (Op op = 1; op < OP_COUNT; op = (Op)(op + 1))
        hash = add(add(hash, op_info[op].name), op_info[op].derivative);
    return hash;
}
