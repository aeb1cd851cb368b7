/* numeric.c: the numeric version, a hash of everything that decides the bits of a result.
 *
 * NUMERIC_SERIAL (target/target.h) and the device text of arithmetic and reductions, which are
 * hashed when Lockstep is built (library_build.c), and the derivatives of ops.def. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"

static uint64_t add(uint64_t hash, const char *text) { /* FNV-1a, the terminating zero included */
    do hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    while (*text++);
    return hash;
}

uint64_t numeric_version(void) {
    uint64_t hash = numeric_texts;
    for (Op op = 1; op < OP_COUNT; op = (Op)(op + 1))
        hash = add(add(hash, op_info[op].name), op_info[op].derivative);
    return hash;
}
