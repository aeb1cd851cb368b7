/* simt_test.c: the emulator itself, and through it the CUDA and HIP preludes: primitives mean what
 * the preludes say, every device function has the bits of the C dialect, HIP's own square root is
 * IEEE's, and kernels that would hang are refused with the reason.
 *
 * ptx_test is the same with SIMT_TEST_PTX: what NVRTC makes of the CUDA text is run, PTX for PTX
 * instruction. It is skipped where there is no NVRTC. amd_functions_test is what of it says
 * something about machine code, with SIMT_TEST_AMD: bits, places, shuffles, sums and barriers, on
 * what clang makes of the HIP text; skipped where clang or llvm-objdump is missing. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "prelude.c"
#include "../../templates/math.h"
#include "../../templates/lite.h"
#include "integer.h"
#include "convert.h"
#include "philox.h"
#include "fixed.h"
#include "every_function.h"
#include "simt.h"
#ifdef SIMT_TEST_PTX
#include "ptx/compiler.h"
#endif
#ifdef SIMT_TEST_AMD
#include "amd/amd.h"
#include "amd/compiler.h"
#endif

enum { MESSAGE_SIZE = 4000 };

static unsigned long checks_passed, checks_failed;
static char message[MESSAGE_SIZE];

static bool check(bool passed, const char *dialect, const char *what) {
    if (passed)
        checks_passed++;
    else if (checks_failed++ < 20)
        printf("failed: %s: %s %s\n", dialect, what, message);
    return passed;
}

static uint64_t random_bits(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* ---- the text ---- */

static char *append_file(char *text, size_t *size, const char *path) {
    FILE *file = fopen(path, "rb");
    char buffer[4096];
    size_t count;
    if (!file) {
        printf("cannot read %s\n", path);
        exit(1);
    }
    while ((count = fread(buffer, 1, sizeof buffer, file)) > 0) {
        char *grown = realloc(text, *size + count + 1);
        if (!grown) exit(1);
        text = grown;
        memcpy(text + *size, buffer, count);
        *size += count;
        text[*size] = 0;
    }
    fclose(file);
    return text;
}

/* Of both dialects; HIP has some more. */
static const char *const kernels[] = {"every",          "roots",
                                      "places",         "shuffles",
                                      "sums",           "trees",
                                      "largest",        "draws",
                                      "neighbours",     "bytes_apart",
                                      "byte_and_word",  "careless",
                                      "far_neighbours", "unwritten",
                                      "together",       "unfenced",
                                      "fenced",         "half_barrier",
                                      "half_shuffle",   "two_barriers",
                                      "mixed_waits",    "rounds",
                                      "absent_block",   "block_fence",
                                      "block_atomic",   "far_store",
                                      "plain_look",     "only_acquires",
                                      "only_releases",  "by_wholes",
                                      "by_atomic",      "by_half_an_atomic",
                                      "bare_barrier",   "unacquired_barrier",
                                      "narrow_barrier"};
enum { KERNELS = sizeof kernels / sizeof kernels[0], HIP_KERNELS = 8 };

static SimtModule *open_module(SimtDialect dialect, const char *chip) {
    size_t size = 0;
    char *text =
        append_file(NULL, &size,
                    dialect == SIMT_HIP || dialect == SIMT_AMD ? SIMT_TEMPLATES "/prelude.hip"
                                                               : SIMT_TEMPLATES "/prelude.cu");
    text = append_file(text, &size, SIMT_TEMPLATES "/math.h");
    text = append_file(text, &size, SIMT_TEMPLATES "/lite.h");
    text = append_file(text, &size, SIMT_TEMPLATES "/integer.h");
    text = append_file(text, &size, SIMT_TEMPLATES "/convert.h");
    text = append_file(text, &size, SIMT_TEMPLATES "/philox.h");
    text = append_file(text, &size, SIMT_TEMPLATES "/fixed.h");
    text = append_file(text, &size, SIMT_TEMPLATES "/memory.h");
    text = append_file(text, &size, SIMT_TEMPLATES "/memory_gpu.h");
    text = append_file(text, &size, SIMT_TEMPLATES "/draw_gpu.h");
    text = append_file(text, &size, SIMT_TEMPLATES "/reduce.h");
    text = append_file(text, &size, SIMT_TEMPLATES "/reduce_gpu.h");
    text = append_file(text, &size, SIMT_FOLDER "/every_function.h");
    text = append_file(text, &size, SIMT_FOLDER "/kernels.k");
#ifdef SIMT_TEST_PTX
    char *made = ptx_compile(text, message, sizeof message);
    free(text);
    if (!made) return NULL;
    text = made;
    size = strlen(text);
#endif
#ifdef SIMT_TEST_AMD
    void *made = amd_compile(text, chip, &size, message, sizeof message);
    free(text);
    if (!made) return NULL;
    text = made;
#endif
    (void)chip;
    SimtModule *module =
        simt_open(text, size, dialect, kernels,
                  dialect == SIMT_HIP ? KERNELS : KERNELS - HIP_KERNELS, message, sizeof message);
    free(text);
    return module;
}

/* ---- one dialect at one width of wave ---- */

typedef struct Machine {
    const char *name;
    SimtDialect dialect;
    uint32_t wave;
    SimtModule *module;
    bool cooperative;
    const char *chip; /* of machine code */
} Machine;

typedef struct Arguments {
    const void *in;
    void *out;
    int64_t count;
    uint32_t *arrived;
} Arguments;

static bool launch(const Machine *machine, const char *kernel, uint32_t blocks, uint32_t threads,
                   uint64_t seed, const void *in, void *out, int64_t count, uint32_t *arrived) {
    Arguments arguments = {in, out, count, arrived};
    const SimtLaunch description = {.kernel = kernel,
                                    .arguments = &arguments,
                                    .blocks = blocks,
                                    .threads = threads,
                                    .wave = machine->wave,
                                    .seed = seed,
                                    .cooperative = machine->cooperative};
    message[0] = 0;
    return simt_launch(machine->module, &description, message, sizeof message);
}

static void test_places(const Machine *machine) {
    enum { BLOCKS = 5, THREADS = 96 };
    static uint32_t out[BLOCKS * THREADS][8];
    memset(out, 0xff, sizeof out);
    if (!check(launch(machine, "places", BLOCKS, THREADS, 1, NULL, out, 0, NULL), machine->name,
               "places"))
        return;
    for (uint32_t i = 0; i < BLOCKS * THREADS; i++) {
        const uint32_t thread = i % THREADS;
        const uint32_t expected[8] = {thread,      THREADS,     i / THREADS,  BLOCKS,
                                      thread % 32, thread / 32, THREADS / 32, 32};
        check(memcmp(out[i], expected, sizeof expected) == 0, machine->name, "places of a thread");
    }
}

static void test_exchanges(const Machine *machine) {
    static uint32_t out[256];
    for (uint64_t seed = 0; seed < 4; seed++) {
        memset(out, 0, sizeof out);
        check(launch(machine, "shuffles", 2, 128, seed, NULL, out, 0, NULL), machine->name,
              "shuffles");
        for (int i = 0; i < 256; i++) check(out[i] == 1, machine->name, "a lane's shuffles");
    }
    for (uint64_t seed = 0; seed < 4; seed++) {
        check(launch(machine, "neighbours", 1, 256, seed, NULL, out, 0, NULL), machine->name,
              "neighbours");
        for (uint32_t i = 0; i < 256; i++)
            check(out[i] == (i ^ 31u) + 100, machine->name, "a neighbour's value");
    }
}

/* What the order of the turns may hide is found whatever the order. */
static void test_races(const Machine *machine) {
    enum { BLOCKS = 5 };
    enum { ON_CUDA = 1, ON_HIP = 2, NOWHERE = 0, ON_BOTH = 3, HIP_ONLY = 4 };
    static const struct {
        const char *kernel, *reason;
        uint32_t threads;
        int ordered; /* where nothing is wrong with it; or'ed with HIP_ONLY */
    } cases[] = {
        {"careless", "shared memory", 256, NOWHERE},
        {"far_neighbours", "shared memory", 256, NOWHERE},
        {"unwritten", "reads shared memory nobody has written", 64, NOWHERE},
        {"together", "writes device memory that thread", 64, NOWHERE},
        {"bytes_apart", "", 64, ON_BOTH},
        {"byte_and_word", "writes device memory that thread", 32, NOWHERE},
        {"unfenced", "device memory", 32, NOWHERE},
        {"fenced", "", 32, ON_BOTH},
        {"block_fence", "device memory", 32, NOWHERE},
        {"block_atomic", "does not reach beyond its block", 32, NOWHERE},
        {"plain_look", "no atomic does the reading", 32, NOWHERE},
        /* a barrier and a fence behind it are all that PTX wants */
        {"far_store", "device memory", 64, ON_CUDA},
        {"only_acquires", "device memory", 32, HIP_ONLY},
        {"only_releases", "device memory", 32, HIP_ONLY},
        {"by_wholes", "", 32, HIP_ONLY | ON_HIP},
        {"by_atomic", "", 32, HIP_ONLY | ON_HIP},
        {"by_half_an_atomic", "device memory", 32, HIP_ONLY},
        {"bare_barrier", "without a fence that releases", 64, HIP_ONLY},
        {"narrow_barrier", "without a fence that releases", 64, HIP_ONLY},
        {"unacquired_barrier", "without a fence that acquires", 64, HIP_ONLY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (uint64_t seed = 0; seed < 6; seed++) {
            uint32_t out[BLOCKS * 256] = {0}, arrived = 0;
            const bool cuda = machine->dialect != SIMT_HIP;
            if (cuda && cases[i].ordered & HIP_ONLY) continue;
            const bool ordered = cases[i].ordered & (cuda ? ON_CUDA : ON_HIP);
            const bool ran = launch(machine, cases[i].kernel, BLOCKS, cases[i].threads, seed, NULL,
                                    out, 0, &arrived);
            check(ran == ordered && (ordered || strstr(message, cases[i].reason)), machine->name,
                  cases[i].kernel);
        }
}

static void test_sums(const Machine *machine) {
    enum { COUNT = 10007, BLOCKS = 7 };
    static uint32_t in[COUNT], out[BLOCKS + 1];
    uint32_t expected = 0, arrived = 0;
    for (uint32_t i = 0; i < COUNT; i++) expected += in[i] = i * 2654435761u;
    for (uint64_t seed = 0; seed < 5; seed++) {
        memset(out, 0xff, sizeof out);
        check(launch(machine, "sums", BLOCKS, 64u << (seed & 3), seed, in, out, COUNT, &arrived),
              machine->name, "sums");
        check(out[BLOCKS] == expected && arrived == 0, machine->name, "the sum of all blocks");
    }
}

/* Memory behind a page that nobody may touch. */
static void *guarded(size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory =
        mmap(NULL, page + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, page, PROT_NONE) != 0) exit(1);
    return memory + page;
}

/* Of any length, a warp's sum has the bits of one thread's, and is near that of f64. */
static void test_trees(const Machine *machine) {
    static const int counts[] = {1,   2,   7,    8,    9,    100,  127,  128,
                                 129, 130, 1000, 1023, 1024, 1025, 3000, 5000};
    enum { MOST = 5000 };
    static float *values;
    if (!values) values = guarded((4 * MOST + 2) * sizeof *values);
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        const int count = counts[k];
        double expected = 0;
        uint32_t arrived = 0;
        for (int i = 0; i < count; i++) {
            values[i] = (float)((uint32_t)i * 2654435761u >> 8) * 0x1p-22f - 1.5f;
            expected += (double)values[i];
        }
        for (int i = 0; i < 3 * count; i++) values[count + i] = i % 3 ? 1e9f : values[i / 3];
        values[4 * count] = values[4 * count + 1] = NAN;
        check(launch(machine, "trees", 1, 64, k, NULL, values, count, &arrived), machine->name,
              "trees");
        const float *found = values + 4 * count;
        check(memcmp(found, found + 1, sizeof *found) == 0, machine->name, "one thread's tree");
        check(fabs((double)*found - expected) < 1e-3, machine->name, "the sum of a tree");
    }
}

/* Of any length the largest is found, and nothing ahead of the values is looked at. */
static void test_largest(const Machine *machine) {
    static const int counts[] = {1, 8, 100, 127, 128, 129, 1000, 1024, 1025, 3000};
    enum { MOST = 3000 };
    static int64_t *values;
    if (!values) values = guarded((MOST + 2) * sizeof *values);
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        const int count = counts[k];
        int64_t expected = INT64_MIN;
        uint32_t arrived = 0;
        for (int i = 0; i < count; i++) {
            values[i] = -1 - (int64_t)((uint32_t)i * 2654435761u >> 1);
            if (values[i] > expected) expected = values[i];
        }
        values[count] = values[count + 1] = 0;
        check(launch(machine, "largest", 1, 64, k, NULL, values, count, &arrived), machine->name,
              "largest");
        check(values[count] == expected, machine->name, "a warp's largest");
        check(values[count + 1] == expected, machine->name, "one thread's largest");
    }
}

/* A draw is its number's, wherever the four begin; what lies ahead of them stays. */
static void test_draws(const Machine *machine) {
    enum { COUNT = 70 };
    static float out[5 * COUNT];
    for (int i = 0; i < 5 * COUNT; i++) out[i] = -1;
    check(launch(machine, "draws", 1, 32, 1, NULL, out, COUNT, NULL), machine->name, "draws");
    for (int i = 0; i < COUNT; i++) {
        check(out[5 * i] == -1, machine->name, "what lies ahead of four draws");
        for (int e = 1; e < 4 && i + 1 < COUNT; e++)
            check(out[5 * i + 1 + e] == out[5 * (i + 1) + e] && out[5 * i + 1 + e] >= 0,
                  machine->name, "a draw of a number");
    }
}

static void test_every_function(const Machine *machine, uint64_t seed) {
    enum { COUNT = 3000, BYTES = 8 * EVERY_SLOTS };
    static const uint64_t odd[] = {0,
                                   1,
                                   0x7f800000,
                                   0x7fc00001,
                                   0x80000000,
                                   0xff800000,
                                   0x3f800000,
                                   0x7ff0000000000000,
                                   0xfff8000000000001,
                                   0x8000000000000000,
                                   0x3ff0000000000000,
                                   0x7fffffff,
                                   0xffffffffffffffff,
                                   0x4b000000};
    uint8_t *in = calloc(COUNT, EVERY_INPUT), *out = calloc(COUNT, BYTES);
    uint8_t *expected = calloc(COUNT, BYTES);
    uint64_t state = 0xabcdef12345u + seed;
    uint32_t slots = 0;
    if (!in || !out || !expected) exit(1);
    for (size_t i = 0; i < COUNT; i++) {
        uint64_t words[3];
        for (int w = 0; w < 3; w++) words[w] = random_bits(&state);
        for (int w = 0; w < 2; w++) {
            if (i % 5 == 0) words[w] = odd[words[w] % (sizeof odd / sizeof odd[0])];
            if (i % 5 == 1) words[w] = ls_bits_f32((float)(int32_t)words[w] * 0x1p-26f);
            if (i % 5 == 2) words[w] = ls_bits_f64((double)(int32_t)words[w] * 0x1p-26);
        }
        memcpy(in + EVERY_INPUT * i, words, sizeof words);
        slots = every_function(in + EVERY_INPUT * i, expected + BYTES * i);
    }
    check(slots <= EVERY_SLOTS, machine->name, "EVERY_SLOTS is too small");
    check(launch(machine, "every", 3, 64, 9, in, out, COUNT, NULL), machine->name, "every");
    for (size_t i = 0; i < COUNT; i++)
        for (uint32_t slot = 0; slot < slots; slot++) {
            size_t at = BYTES * i + 8 * slot;
            if (memcmp(out + at, expected + at, 8) == 0) {
                checks_passed++;
                continue;
            }
            uint64_t found, wanted;
            memcpy(&found, out + at, 8);
            memcpy(&wanted, expected + at, 8);
            snprintf(message, sizeof message, "%u of input %zu: 0x%" PRIx64 ", expected 0x%" PRIx64,
                     slot, i, found, wanted);
            check(false, machine->name, "result");
        }
    free(in);
    free(out);
    free(expected);
}

/* f64: random values, squares of 53-bit numbers, and what is next to the squares of midpoints
 * between two of them, where an error of a hair rounds the other way. f32: all at a stride. */
static void test_roots(const Machine *machine) {
    enum { COUNT = 400000 };
    double *in = calloc(COUNT, 12), *out = calloc(COUNT, 12);
    uint64_t state = 0x77777777777u;
    if (!in || !out) exit(1);
    for (size_t i = 0; i < COUNT; i++) {
        uint64_t bits = random_bits(&state);
        double root = 1 + (double)(bits >> 12) * 0x1p-52;
        double middle = root * root + root * 0x1p-52; /* (root + half a unit)^2 but for 2^-106 */
        int exponent = (int)(random_bits(&state) % 1020) * 2 - 1070;
        in[i] = i % 4 == 0   ? ls_from_bits_f64(bits)
                : i % 4 == 1 ? ldexp(nextafter(middle, i % 8 == 1 ? 0 : 8), exponent)
                : i % 4 == 2 ? ldexp(middle, exponent)
                             : ldexp(root * root, exponent);
        uint32_t pattern = (uint32_t)(i * 10737);
        memcpy((char *)(in + COUNT) + 4 * i, &pattern, 4);
    }
    in[0] = 1 + 0x1p-52;
    in[1] = 4 - 0x1p-51;
    in[2] = 0x1p-1074;
    in[3] = 0x1.fffffffffffffp1023;
    check(launch(machine, "roots", 2, 64, 3, in, out, COUNT, NULL), machine->name, "roots");
    for (size_t i = 0; i < COUNT; i++) {
        float x, y;
        memcpy(&x, (char *)(in + COUNT) + 4 * i, 4);
        memcpy(&y, (char *)(out + COUNT) + 4 * i, 4);
        snprintf(message, sizeof message, "of %a and %a: %a, %a", in[i], (double)x, out[i],
                 (double)y);
        check(ls_bits_f64(ls_canonical_f64(out[i])) == ls_bits_f64(ls_canonical_f64(sqrt(in[i]))),
              machine->name, "square root of f64");
        check(ls_float_bits_f32(y) == ls_float_bits_f32(sqrtf(x)), machine->name,
              "square root of f32");
    }
    free(in);
    free(out);
}

static void test_refused(const Machine *machine, const char *kernel, const char *reason) {
    uint32_t out[64];
    bool ran = launch(machine, kernel, 1, 64, 5, NULL, out, 0, NULL);
    check(!ran && strstr(message, reason) && strstr(message, kernel), machine->name, kernel);
}

/* The barrier of the grid, over and over, on a state that nobody resets. */
static void test_cooperation(const Machine *machine) {
    enum { BLOCKS = 5, ROUNDS = 7 };
    static uint32_t out[2 * BLOCKS];
    Machine together = *machine;
    uint32_t state = 0;
    together.cooperative = true;
    for (uint64_t seed = 0; seed < 6; seed++) {
        const uint32_t blocks = seed == 3 ? 1 : BLOCKS;
        memset(out, 0, sizeof out);
        check(launch(&together, "rounds", blocks, 64, seed, NULL, out, ROUNDS, &state),
              machine->name, "rounds");
        for (uint32_t b = 0; b < blocks; b++)
            check(out[blocks + b] == ROUNDS * blocks, machine->name, "what a block finds");
        check((state & 0x7fffffffu) == 0, machine->name, "the barrier's state");
    }
    if (machine->dialect == SIMT_AMD) return; /* some blocks take turns in every launch */
    check(!launch(&together, "absent_block", 3, 64, 1, NULL, out, 0, &state) &&
              strstr(message, "looks for what no other thread will write"),
          machine->name, "a block that does not come");
    state = 0;
    check(!launch(machine, "rounds", 2, 64, 1, NULL, out, 1, &state) &&
              strstr(message, "looks for what no other thread will write"),
          machine->name, "blocks one after another that wait for each other");
}

/* A block may be as large as the kernel says, and no larger. */
static void test_bounds(const Machine *machine) {
    uint32_t out[64] = {0}, in[64] = {0};
    check(launch(machine, "roots", 1, 64, 1, in, out, 0, NULL), machine->name, "roots of 64");
    check(!launch(machine, "roots", 1, 96, 1, in, out, 0, NULL) &&
              strstr(message, "blocks of 96 threads, and it was compiled for at most 64"),
          machine->name, "a block of more threads than the kernel was compiled for");
}

/* Of the inputs of every function, 3000 each. */
static unsigned long rounds = 1;

static void test_machine(const Machine *machine) {
    const bool threads = machine->dialect != SIMT_AMD; /* run one by one, and watched */
    if (threads) test_bounds(machine);
    test_places(machine);
    test_exchanges(machine);
    if (threads) test_races(machine);
    test_sums(machine);
    test_trees(machine);
    test_largest(machine);
    test_draws(machine);
    test_cooperation(machine);
    for (unsigned long round = 0; round < rounds; round++) {
        test_every_function(machine, round);
        if (round) fprintf(stderr, "\r%lu of %lu rounds", round + 1, rounds);
    }
    test_roots(machine);
    if (!threads) return;
    test_refused(machine, "half_barrier", "waits for the block while thread");
    test_refused(machine, "half_shuffle", "exchanges with its group");
    test_refused(machine, "two_barriers", "at different places in the code");
    test_refused(machine, "mixed_waits", "waits for its group");
    test_refused(machine, "absent", "no kernel absent");
}

static void test_text_errors(void) {
    const char *name = "nothing", text[] = "LS_KERNEL nothing(";
    message[0] = 0;
    check(simt_open(text, sizeof text - 1, SIMT_CUDA, &name, 1, message, sizeof message) == NULL &&
              strstr(message, "error"),
          "text", "a text that does not compile");
}

int main(int count, char **words) {
    if (count == 2) rounds = strtoul(words[1], NULL, 10);
    if (count > 2 || rounds == 0) {
        fputs("usage: simt_test [ROUNDS of 3000 inputs for each function]\n", stderr);
        return 2;
    }
#ifdef SIMT_TEST_PTX
    Machine machines[] = {{"PTX", SIMT_PTX, 32, NULL, false, NULL}};
    if (getenv("LOCKSTEP_NVRTC")) setenv("EMULATED_NVRTC", getenv("LOCKSTEP_NVRTC"), 0);
    if (!ptx_can_compile()) {
        puts("left out: there is no NVRTC");
        return 77; /* skipped */
    }
#elif defined(SIMT_TEST_AMD)
    Machine machines[] = {{"gfx942", SIMT_AMD, 64, NULL, false, "gfx942"},
                          {"gfx1151", SIMT_AMD, 32, NULL, false, "gfx1151"}};
    if (!amd_has_tools(message, sizeof message)) {
        printf("left out: %s\n", message);
        return 77; /* skipped */
    }
#else
    Machine machines[] = {{"CUDA", SIMT_CUDA, 32, NULL, false, NULL},
                          {"HIP, wave32", SIMT_HIP, 32, NULL, false, NULL},
                          {"HIP, wave64", SIMT_HIP, 64, NULL, false, NULL}};
#endif
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
        Machine *machine = &machines[i];
        machine->module = open_module(machine->dialect, machine->chip);
        if (check(machine->module != NULL, machine->name, "compiles")) test_machine(machine);
        simt_close(machine->module);
    }
    test_text_errors();
    printf("%lu passed, %lu failed\n", checks_passed, checks_failed);
    return checks_failed != 0;
}
