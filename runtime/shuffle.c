/* shuffle.c: the language's `shuffle` on the host, from the text that devices compile. */
#include "runtime.h"

#include "../templates/prelude.c"
#include "../templates/integer.h"
#include "../templates/convert.h"
#include "../templates/math.h"
#include "../templates/philox.h"

int64_t ls_shuffle(int64_t place, int64_t count, int64_t seed, int64_t epoch) {
    return ls_shuffle_i64(place, count, ls_random_key_u64(seed, epoch, LS_SHUFFLE_ORDINAL, 0));
}
