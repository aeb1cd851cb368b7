/* common.c: what many files of the runtime need: arrays that grow, copies of texts, threads, the
 * time, the environment. */
#include "runtime.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FIRST_CAPACITY = 8 };

bool array_grow(void *array, size_t *capacity, size_t count, size_t element) {
    void *held;
    if (count <= *capacity) return true;
    size_t wanted = *capacity ? *capacity : FIRST_CAPACITY;
    while (wanted < count) wanted *= 2;
    memcpy(&held, array, sizeof held); /* of whatever pointer it is */
    void *grown = realloc(held, wanted * element);
    if (!grown) return false;
    memcpy(array, &grown, sizeof grown);
    *capacity = wanted;
    return true;
}

char *text_copy(const char *text, size_t size) {
    char *copy = malloc(size + 1);
    if (!copy) return NULL;
    memcpy(copy, text, size);
    copy[size] = '\0';
    return copy;
}

int thread_start(pthread_t *thread, void *(*run)(void *), void *argument) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* Rows of one size: pointers would cost three times as much in a shared object. */
enum { NAME_SIZE = 25 };
#define X(name, ...) _Static_assert(sizeof #name <= NAME_SIZE, "no room for " #name);
#include <lockstep/environment.def>
#undef X
static const char variable_names[][NAME_SIZE] = {
#define X(name, ...) [VARIABLE_##name] = #name,
#include <lockstep/environment.def>
#undef X
};

const char *host_variable_name(Variable variable) {
    return variable_names[variable];
}

const char *host_environment(Variable variable) {
    return secure_getenv(variable_names[variable]);
}

const char *host_environment_foreign(const char *name) {
    return secure_getenv(name);
}

double time_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}
