/* fuzz_front.c: the libFuzzer target. For long, with two workers:
 *   build/tests/fuzz/fuzzer/fuzz_front -fork=2 -dict=tests/fuzz/step.dict \
 *       CORPUS tests/fuzz/seeds */
#include <stdio.h>
#include <stdlib.h>

#include "front.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *wrong = front_check(data, size);
    if (!wrong) return 0;
    fprintf(stderr, "%s\n", wrong);
    abort();
}
