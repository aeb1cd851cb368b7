/* captured.c: no name of a source is captured in generated text.
 *
 * Collects the identifiers of the text of all targets and variants over the library and the test
 * programs; of those alike (device functions, what is made of stems, high numbers) some. Calls what
 * each test program declares by them, first those of its own text, and by what the emitter may make
 * of its other names; and calls it by names that mean nothing. Both texts must be the same up to
 * names, one for one within each function, so that each name stands for what it stood for. Each
 * program runs once on a CPU against the interpreter.
 *
 * --rounds COUNT  so many rounds of names, 7 at most (2)
 * --print NUMBER  the program of that number */
#include <ctype.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

#include "batch.h"
#include "captured.h"
#include "check.h"

enum { ROUNDS = 7, SUITE_ROUNDS = 2 };

const char *const captured_targets[TARGETS] = {"cpu", "sm_80", "gfx90a"};

/* Takes emit_is_short's place, which looks at the lengths of names. */
bool __wrap_emit_is_short(const char *expression);
bool __wrap_emit_is_short(const char *expression) {
    size_t count = 0;
    for (Token token; token_next(&expression, &token);) count++;
    return count <= 20;
}

typedef struct File {
    char path[512], name[64];
    char *text; /* with two newlines before it */
} File;

static char *read_text(const char *path) {
    FILE *file = fopen(path, "rb");
    char *text = must_allocate(1 << 18);
    if (!file) exit(3);
    text[0] = text[1] = '\n';
    if (fread(text + 2, 1, (1 << 18) - 3, file) == 0) exit(3);
    fclose(file);
    return text;
}

static ls_compilation *compile(const char *path, const char *text) {
    static const ls_compile_options options = {.import_path_count = 0};
    ls_compilation *c = NULL;
    if (ls_compile_text(path, text, strlen(text), &options, &c) == LS_OK) return c;
    ls_compilation_destroy(c);
    return NULL;
}

/* Of a step with `for` its parts. */
static bool compare_images(const ls_image *a, const ls_image *b, const char *target) {
    bool good = a->variant_count == b->variant_count && a->part_count == b->part_count;
    if (!good) printf("  another image of %s\n", a->step);
    for (uint32_t p = 0; good && p < a->part_count; p++)
        good = compare_images(a->parts[p].image, b->parts[p].image, target);
    for (uint32_t v = 0; good && !a->part_count && v < a->variant_count; v++) {
        good = same_but_for_names(a->variants[v].source, b->variants[v].source);
        if (!good) printf("  in %s for %s\n", b->variants[v].name, target);
    }
    return good;
}

static bool compare_steps(ls_compilation *plain, ls_compilation *nasty) {
    bool good = true;
    for (size_t s = 0; good && s < ls_compilation_own_step_count(plain); s++)
        for (size_t t = 0; good && t < TARGETS; t++) {
            const ls_image *a, *b;
            if (ls_compilation_image(plain, s, captured_targets[t], &a) != LS_OK) continue;
            if (ls_compilation_image(nasty, s, captured_targets[t], &b) != LS_OK) {
                printf("  no image of %s: %s\n", a->step, ls_compilation_message(nasty));
                return false;
            }
            good = compare_images(a, b, captured_targets[t]);
        }
    return good;
}

typedef enum Outcome { SAME, OTHER, SKIPPED } Outcome;

/* Behind the prelude and the device functions, which have words of their own. */
static void find_in(const ls_image *image, Own *own) {
    for (uint32_t p = 0; p < image->part_count; p++) find_in(image->parts[p].image, own);
    for (uint32_t v = 0; !image->part_count && v < image->variant_count; v++) {
        const char *text = strstr(image->variants[v].source, "_arguments {");
        for (Token token; text && token_next(&text, &token);) {
            char word[80];
            if (!token.name || token.size >= sizeof word) continue;
            snprintf(word, sizeof word, "%.*s", (int)token.size, token.text);
            if (strlen(word) < 3 || in_words(&own->words, word, token.size)) continue;
            if (names_has_prefix(word) || begins(word, "lockstep_")) continue;
            if (is_fixed(word) && is_legal(word)) add_word(&own->words, word, token.size);
        }
    }
}

typedef struct Owners { /* of the files from that number on */
    Own *own;
    size_t first;
} Owners;

static void visit_own(void *user, size_t number, const ls_image *image) {
    const Owners *owners = user;
    if (number >= owners->first) find_in(image, &owners->own[number - owners->first]);
}

/* The program by names that mean nothing, which most rounds have alike. */
typedef struct Plain {
    char *text;
    ls_compilation *compilation; /* NULL: the compiler refuses it */
} Plain;

static void drop_plain(Plain *plain) {
    ls_compilation_destroy(plain->compilation);
    free(plain->text);
    *plain = (Plain){NULL, NULL};
}

/* Takes the text. */
static void make_plain(const File *file, char *text, Plain *plain) {
    if (plain->text && strcmp(plain->text, text) == 0) {
        free(text);
        return;
    }
    drop_plain(plain);
    *plain = (Plain){text, compile(file->path, text)};
}

static Outcome compare_program(const File *file, const Words *pool, Own *own, Plain *plain,
                               char **kept) {
    Renamed *r = rename_program(file->text, pool, own);
    char *nasty_text = rename_text(r, file->text + 2, true);
    ls_compilation *nasty = NULL;
    Outcome outcome = SKIPPED;
    make_plain(file, rename_text(r, file->text + 2, false), plain);
    if (plain->compilation) {
        nasty = compile(file->path, nasty_text);
        outcome = nasty && compare_steps(plain->compilation, nasty) ? SAME : OTHER;
        if (!nasty) printf("  the compiler refuses it\n");
    }
    ls_compilation_destroy(nasty);
    *kept = nasty_text;
    rename_drop(r);
    return outcome;
}

/* ---- runs ---- */

/* The first sizes of each line, which must do. */
static char *one_size(const char *text) {
    char *result = NULL;
    size_t size;
    FILE *out = open_memstream(&result, &size);
    for (; *text; text += strcspn(text, "\n"), text += *text != 0)
        fprintf(out, "%.*s\n", (int)strcspn(text, begins(text, "# sizes:") ? ";\n" : "\n"), text);
    fclose(out);
    return result;
}

/* On CPUs, against the interpreter. */
static size_t run_programs(Case *cases, size_t count) {
    char log[] = "/tmp/captured-XXXXXX";
    size_t failed = 0;
    const int file = mkstemp(log);
    if (file < 0) exit(3);
    close(file);
    check_cases(cases, count, 0, log);
    for (size_t i = 0; i < count; i++) {
        if (cases[i].verdict == VERDICT_RIGHT) continue;
        printf("FAILED %s: %s\n", cases[i].name, verdict_words[cases[i].verdict]);
        failed++;
    }
    if (failed)
        printf("see %s\n", log);
    else
        remove(log);
    printf("%zu programs ran, %zu failed\n", count, failed);
    return failed;
}

int main(int count, char **arguments) {
    static const char *const patterns[] = {"/templates/std/*.step", "/templates/std/*/*.step",
                                           "/tests/exec/programs/*.step"};
    const long print = count == 3 && strcmp(arguments[1], "--print") == 0 ? atol(arguments[2]) : -1;
    const bool counted = count == 3 && strcmp(arguments[1], "--rounds") == 0;
    char *end = NULL;
    const long wanted = counted ? strtol(arguments[2], &end, 10) : 0;
    if (count != 1 && !(counted && !*end && wanted >= 1 && wanted <= ROUNDS) && print < 0) {
        fprintf(stderr, "usage: captured [--rounds 1 to %d | --print NUMBER]\n", ROUNDS);
        return 2;
    }
    const unsigned rounds = counted ? (unsigned)wanted : print >= 0 ? ROUNDS : SUITE_ROUNDS;
    glob_t all, programs;
    char pattern[600];
    setenv("LOCKSTEP_CACHE", "off", 1);
    for (size_t i = 0; i < 3; i++) {
        snprintf(pattern, sizeof pattern, "%s%s", SOURCE_FOLDER, patterns[i]);
        glob(pattern, i ? GLOB_APPEND : 0, NULL, &all);
    }
    glob(pattern, 0, NULL, &programs);
    Own *own = must_allocate((programs.gl_pathc + 1) * sizeof *own);
    Owners owners = {own, all.gl_pathc - programs.gl_pathc};
    const Words pool = make_pool(all.gl_pathv, all.gl_pathc, visit_own, &owners);
    printf("%zu names\n", pool.count);
    fflush(stdout);
    Case *cases = must_allocate((programs.gl_pathc + 1) * sizeof *cases);
    size_t case_count = 0, compared = 0, failed = 0;
    for (size_t i = 0; i < programs.gl_pathc; i++) {
        File file;
        Plain plain = {NULL, NULL};
        snprintf(file.path, sizeof file.path, "%s", programs.gl_pathv[i]);
        file.text = read_text(file.path);
        for (unsigned round = 0; round < rounds; round++) {
            char *text;
            const size_t number = round * programs.gl_pathc + i;
            const Outcome outcome = compare_program(&file, &pool, &own[i], &plain, &text);
            compared += outcome != SKIPPED;
            failed += outcome == OTHER;
            if (outcome == SKIPPED && round == 0) printf("skipped %s\n", file.path);
            if (outcome == OTHER) printf("FAILED %s, program %zu\n", file.path, number);
            fflush(stdout);
            if (print == (long)number) fputs(text, stdout);
            if (outcome == SAME && i % ROUNDS == round && !strstr(text, "import ")) {
                Case *one = &cases[case_count++];
                snprintf(one->name, sizeof one->name, "program-%zu", number);
                one->text = one_size(text);
            }
            free(text);
        }
        drop_plain(&plain);
        free(file.text);
    }
    for (size_t i = 0; i < ROLES; i++)
        printf("%s: %zu names of %zu\n", captured_roles[i], captured_cursors[i], pool.count);
    printf("%zu programs, %zu failed\n", compared, failed);
    failed += run_programs(cases, case_count);
    return failed != 0;
}
