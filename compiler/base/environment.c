/* environment.c: the one place where the compiler reads the environment. A program that runs with
 * more rights than who started it (set-user-ID, file capabilities) does not listen to that user: no
 * variable is set there, since most of them name what is run or loaded. */
#include "base/base.h"

#include <stdlib.h>

static const char *const names[] = {
#define X(name, ...) [VARIABLE_##name] = #name,
#include "lockstep/environment.def"
#undef X
};

const char *environment_name(Variable variable) {
    return names[variable];
}

const char *environment_value(Variable variable) {
    return secure_getenv(names[variable]);
}

const char *environment_foreign(const char *name) {
    return secure_getenv(name);
}
