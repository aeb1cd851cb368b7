/* library.c: what the real toolchain makes of the kernels of some programs for one target.
 *
 *     library [--all | --part K/N | --clang] TARGET FILE...
 *
 * No kernel may go to local memory more often than rtc_spills says, and no access by fours or
 * eights may be split: there must be as many wide loads and stores as the source has. The first
 * variant of every step is made, which for most runs all phases in one kernel; with --all, every
 * variant, with --part, two steps of 2 N, from the Kth pair on (0 is the first), with --clang,
 * clang makes it where hipRTC would. The steps of a file are one module each in a namespace of its
 * own, since a toolchain takes longer to begin than for most steps. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "toolchain/toolchain.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 8, KERNELS_MOST = 128 }; /* of a module */
enum { SPILLED_FEW = 64 };                  /* bytes of memory, where instructions are not read */

typedef struct Module {
    char *text; /* an open stream's, until it is compiled */
    size_t size;
    FILE *stream;
    const ls_image_variant *variant[STEPS_MAX];
    const char *step[STEPS_MAX];
    size_t count;
} Module;

typedef struct Tally {
    const char *target, *file;
    bool clang; /* not what is taken first for the target */
    size_t kernels, failures;
    size_t steps, stride, rest; /* seen so far; of how many pairs one is made, and which */
} Tally;

/* The accesses of 2^n bytes that the calls in a source ask for. */
static void count_calls(const char *source, size_t expected[RTC_WIDTHS]) {
    static const struct {
        const char *head;
        size_t elements;
    } calls[] = {
        {"ls_load_vec4_", 4}, {"ls_store_vec4_", 4}, {"ls_load_vec8_", 8}, {"ls_store_vec8_", 8}};
    for (size_t i = 0; i < COUNT(calls); i++)
        for (const char *at = source; (at = strstr(at, calls[i].head)) != NULL;) {
            at += strlen(calls[i].head);
            const size_t length = strcspn(at, "(");
            for (int type = 1; type < TYPE_COUNT; type++) {
                const char *name = type_info[type].c_name;
                if (!name || strlen(name) != length || strncmp(at, name, length) != 0) continue;
                const size_t bytes = calls[i].elements * type_info[type].size;
                size_t width = 0;
                while (2u << width <= bytes && width + 1 < RTC_WIDTHS) width++;
                expected[width] += bytes > 16 ? bytes / 16 : 1;
                break;
            }
        }
}

/* All kernels of a step's variant together: a phase is a part of one of them. */
static void judge(Tally *tally, const char *step, const ls_image_variant *variant,
                  const RtcKernelStats *stats) {
    size_t expected[RTC_WIDTHS] = {0}, wanted = 0, found = 0;
    count_calls(variant->source, expected);
    for (uint32_t k = 0; k < variant->kernel_count; k++) {
        tally->kernels++;
        if (stats[k].widest_access < 0) {
            tally->failures++;
            printf("%s of %s (%s): its instructions could not be read\n", variant->kernels[k].name,
                   tally->file, variant->name);
            return;
        }
        const bool read = stats[k].instructions > 0;
        if (read ? !rtc_spills(&stats[k]) : stats[k].spill_bytes <= SPILLED_FEW) continue;
        tally->failures++;
        printf("%s of %s (%s) spills %d bytes, with %d registers\n", variant->kernels[k].name,
               tally->file, variant->name, stats[k].spill_bytes, stats[k].registers);
    }
    for (int width = RTC_WIDTHS; width-- > 2;) {
        wanted += expected[width];
        for (uint32_t k = 0; k < variant->kernel_count; k++)
            found += (size_t)stats[k].accesses[width];
        if (found >= wanted) continue;
        tally->failures++;
        printf("%s of %s (%s): %zu accesses should move %d bytes or more, %zu do\n", step,
               tally->file, variant->name, wanted, 1 << width, found);
        return;
    }
}

/* Compiles what the module has and empties it. */
static bool finish(Tally *tally, Module *module) {
    const char *kernels[KERNELS_MOST];
    RtcKernelStats stats[KERNELS_MOST];
    RtcOutput output = {0};
    size_t count = 0;
    bool ok = fclose(module->stream) == 0;
    module->stream = NULL;
    for (size_t s = 0; s < module->count; s++)
        for (uint32_t k = 0; k < module->variant[s]->kernel_count && count < KERNELS_MOST; k++)
            kernels[count++] = module->variant[s]->kernels[k].name;
    const Rtc *rtc = tally->clang ? &rtc_clang : rtc_for_target(tally->target);
    ok = ok && rtc->compile(module->text, module->size, tally->file, tally->target, RTC_IMAGE,
                            LS_MATH_EXACT, &output) == LS_OK;
    if (!ok) printf("%s: %s\n", tally->file, output.log ? output.log : "out of memory");
    ok = ok && rtc_inspect_all(tally->target, output.data, output.size, kernels, count, stats);
    if (!ok) printf("%s: a kernel is missing in the image\n", tally->file);
    for (size_t s = 0, first = 0; ok && s < module->count; s++) {
        judge(tally, module->step[s], module->variant[s], stats + first);
        first += module->variant[s]->kernel_count;
    }
    rtc_output_free(&output);
    free(module->text);
    *module = (Module){0};
    return ok;
}

/* A prelude's guard, a name defined as nothing, would leave the next namespace without it. */
static void lift_guards(FILE *stream, const char *source) {
    static const char guard[] = "\n#ifndef LS_", define[] = "\n#define ";
    for (const char *at = source; (at = strstr(at, guard)) != NULL;) {
        at += strlen("\n#ifndef ");
        const size_t size = strcspn(at, "\n");
        const char *next = at + size;
        if (strncmp(next, define, strlen(define)) == 0 &&
            strncmp(next + strlen(define), at, size) == 0 && next[strlen(define) + size] == '\n')
            fprintf(stream, "#undef %.*s\n", (int)size, at);
    }
}

static bool add(Tally *tally, Module *module, const char *step, const ls_image_variant *variant) {
    if (!module->stream) module->stream = open_memstream(&module->text, &module->size);
    if (!module->stream) return false;
    fprintf(module->stream, "namespace module_%zu {\n%s\n}\n", module->count, variant->source);
    lift_guards(module->stream, variant->source);
    module->step[module->count] = step;
    module->variant[module->count++] = variant;
    return module->count < STEPS_MAX || finish(tally, module);
}

/* One variant of every step that has so many; *more when any has one beyond. */
static bool make_variants(Tally *tally, ls_compilation *compilation, size_t number, bool *more) {
    const size_t steps = ls_compilation_own_step_count(compilation);
    Module module = {0};
    for (size_t s = 0; s < steps; s++) {
        const ls_image *image = NULL;
        if (tally->steps++ / 2 % tally->stride != tally->rest)
            continue; /* forward and backward go together */
        if (ls_compilation_image(compilation, s, tally->target, &image) != LS_OK) return false;
        if (number + 1 < image->variant_count) *more = true;
        if (number >= image->variant_count) continue;
        if (!add(tally, &module, ls_compilation_step_name(compilation, s),
                 &image->variants[number]))
            return false;
    }
    return !module.stream || finish(tally, &module);
}

static bool make_file(Tally *tally, bool all) {
    ls_compilation *compilation = NULL;
    bool ok = ls_compile_file(tally->file, NULL, &compilation) == LS_OK, more = true;
    for (size_t number = 0; ok && more && (all || number == 0); number++) {
        more = false;
        ok = make_variants(tally, compilation, number, &more);
    }
    if (!ok) printf("%s: %s\n", tally->file, ls_compilation_message(compilation));
    ls_compilation_destroy(compilation);
    return ok;
}

int main(int count, char **words) {
    const bool all = count > 1 && strcmp(words[1], "--all") == 0;
    const bool part = count > 2 && strcmp(words[1], "--part") == 0;
    const bool clang = count > 1 && strcmp(words[1], "--clang") == 0;
    const int first = part ? 3 : all || clang ? 2 : 1;
    Tally tally = {.clang = clang, .stride = 1};
    const bool known = !part || (sscanf(words[2], "%zu/%zu", &tally.rest, &tally.stride) == 2 &&
                                 tally.rest < tally.stride);
    if (!known || count <= first + 1 || !rtc_for_target(words[first])) {
        fprintf(stderr, "usage: library [--all | --part K/N | --clang] TARGET FILE...\n");
        return 2;
    }
    tally.target = words[first];
    bool ok = true;
    for (int i = first + 1; i < count; i++) {
        tally.file = words[i];
        ok = make_file(&tally, all) && ok;
    }
    printf("%zu kernels, %zu failures\n", tally.kernels, tally.failures);
    return ok && !tally.failures ? 0 : 1;
}
