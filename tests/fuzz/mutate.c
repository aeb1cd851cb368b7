/* mutate.c: the front end on a fixed sequence of broken inputs, for the suite.
 *
 *   mutate [INPUTS [SEED [FOLDER]]]    each input is a seed of tests/fuzz/seeds with a few random
 * edits mutate --file FILE                 one input, as it is
 *
 * The same numbers give the same inputs on every machine. A failing input is written to stdout. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front.h"

enum { SEEDS_MAX = 64, SIZE_MAX_SEED = 1 << 14, SIZE_MAX_INPUT = 1 << 16 };

typedef struct Seed {
    uint8_t bytes[SIZE_MAX_SEED];
    size_t size;
} Seed;

static Seed seeds[SEEDS_MAX];
static size_t seed_count;
static uint64_t state;

/* What a person or a careless tool would write; the rest is bytes. */
static const char *const words[] = {"step s[n](x: f32[n], out y: f32[n]) {",
                                    "}",
                                    "\n",
                                    "let a = ",
                                    "let a, b = grad(x, y)",
                                    "return ",
                                    "const c = ",
                                    "fn f(x) = ",
                                    "fn f(x) {",
                                    "import \"a\"",
                                    "when x > 0 {",
                                    "else",
                                    "inout ",
                                    "out ",
                                    "if x then ",
                                    " else ",
                                    "and ",
                                    "or ",
                                    "not ",
                                    "**",
                                    "//",
                                    "%",
                                    "==",
                                    "<=",
                                    "+=",
                                    "|=",
                                    "(",
                                    ")",
                                    "[",
                                    "]",
                                    "{",
                                    ",",
                                    ":",
                                    ".",
                                    "'",
                                    "-",
                                    "0xffff",
                                    "1e308",
                                    "9223372036854775807",
                                    "0.5",
                                    "inf",
                                    "nan",
                                    "pi",
                                    "true",
                                    "false",
                                    "f32",
                                    "i64",
                                    "u64",
                                    "bool",
                                    "bf16",
                                    "i8",
                                    "u8",
                                    "sum",
                                    "sum[n]",
                                    "max(",
                                    "mean(",
                                    "argmax[n](",
                                    "size(n)",
                                    "index(n)",
                                    "count(",
                                    "lerp(",
                                    "clamp(",
                                    "isnan(",
                                    "grad(",
                                    "stop_gradient(",
                                    "scan[n](",
                                    "x[n - 1]",
                                    "f'(x)",
                                    "of t",
                                    "as (q, k = 4)",
                                    "k = 64",
                                    "math fast",
                                    "backward f",
                                    "# comment\n",
                                    "\t",
                                    "\r\n",
                                    "\xc3\xa9",
                                    "\xff",
                                    "x",
                                    "y",
                                    "n",
                                    "f(f(f(x)))"};

static uint64_t random_number(void) { /* splitmix64 */
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static size_t below(size_t limit) {
    return limit ? (size_t)(random_number() % limit) : 0;
}

static size_t read_file(const char *path, uint8_t *bytes, size_t capacity) {
    FILE *in = fopen(path, "rb");
    if (!in) return 0;
    size_t size = fread(bytes, 1, capacity, in);
    fclose(in);
    return size;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void read_seeds(const char *folder) {
    char *names[SEEDS_MAX];
    size_t count = 0;
    DIR *directory = opendir(folder);
    for (const struct dirent *e; directory && (e = readdir(directory)) && count < SEEDS_MAX;)
        if (e->d_name[0] != '.' && (names[count] = strdup(e->d_name)) != NULL) count++;
    if (directory) closedir(directory);
    qsort(names, count, sizeof names[0], by_name);
    for (size_t i = 0; i < count; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        seeds[seed_count].size = read_file(path, seeds[seed_count].bytes, SIZE_MAX_SEED);
        seed_count += seeds[seed_count].size > 0;
        free(names[i]);
    }
}

/* Puts `size` bytes in the place of `drop` bytes at `at`. */
static size_t splice(uint8_t *input, size_t length, size_t at, size_t drop, const void *bytes,
                     size_t size) {
    if (length - drop + size > SIZE_MAX_INPUT) return length;
    memmove(input + at + size, input + at + drop, length - at - drop);
    memcpy(input + at, bytes, size);
    return length - drop + size;
}

static size_t edit(uint8_t *input, size_t size) {
    size_t at = below(size + 1), rest = size - at;
    const Seed *other = &seeds[below(seed_count)];
    const char *word = words[below(sizeof words / sizeof words[0])];
    size_t from = below(other->size), length = below(120);
    if (length > other->size - from) length = other->size - from;
    uint8_t byte = (uint8_t)random_number();
    size_t drop = below(rest < 40 ? rest + 1 : 40);
    switch (below(6)) {
    case 0: return splice(input, size, at, 0, word, strlen(word));
    case 1: return splice(input, size, at, drop, word, strlen(word));
    case 2: return splice(input, size, at, drop, "", 0);
    case 3: return splice(input, size, at, 0, other->bytes + from, length);
    case 4: return splice(input, size, at, rest > 0, &byte, 1);
    default: return splice(input, size, at, drop, other->bytes + from, length);
    }
}

static int report(const char *wrong, const uint8_t *input, size_t size) {
    fprintf(stderr, "mutate: %s\n", wrong);
    fwrite(input, 1, size, stdout);
    return 1;
}

int main(int count, char **arguments) {
    static uint8_t input[SIZE_MAX_INPUT];
    if (count == 3 && strcmp(arguments[1], "--file") == 0) {
        size_t size = read_file(arguments[2], input, sizeof input);
        const char *wrong = front_check(input, size);
        return wrong ? report(wrong, input, size) : 0;
    }
    unsigned long inputs = count > 1 ? strtoul(arguments[1], NULL, 10) : 12000;
    unsigned long first = count > 2 ? strtoul(arguments[2], NULL, 10) : 1;
    read_seeds(count > 3 ? arguments[3] : "tests/fuzz/seeds");
    if (seed_count == 0) {
        fprintf(stderr, "mutate: no seeds; run it in the source tree\n");
        return 2;
    }
    for (unsigned long i = 0; i < inputs; i++) {
        state = (uint64_t)first << 32 | i;
        const Seed *seed = &seeds[below(seed_count)];
        size_t size = seed->size;
        memcpy(input, seed->bytes, size);
        for (size_t edits = 1 + below(8); edits > 0; edits--) size = edit(input, size);
        const char *wrong = front_check(input, size);
        if (wrong) return report(wrong, input, size);
    }
    printf("%lu inputs from %zu seeds\n", inputs, seed_count);
    return 0;
}
