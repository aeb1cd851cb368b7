/* version.c: Lockstep's own version, which texts and cached code name. */
#include "base/base.h"

const char *compiler_version(void) {
    return LOCKSTEP_VERSION;
}
