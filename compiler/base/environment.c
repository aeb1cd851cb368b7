/* environment.c: the one place where the compiler reads the environment. A program that runs with
 * more rights than who started it (set-user-ID, file capabilities) does not listen to that user: no
 * variable is set there, since most of them name what is run or loaded. */
#include "base/base.h"

#include <stdlib.h>

const char *environment_value(const char *name) {
    return secure_getenv(name);
}
