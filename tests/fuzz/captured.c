/* captured.c: no name of a source is captured in generated text.
 *
 * Collects the identifiers of the text of all targets and variants over the library and the test
 * programs; of those alike (device functions, what is made of stems, high numbers) some. Calls what
 * each test program declares by them, first those of its own text, and by what the emitter may make
 * of its other names; and calls it by names that mean nothing. Both texts must be the same up to
 * names, one for one within each function, so that each name stands for what it stood for. Each
 * program runs once on a CPU against the interpreter.
 *
 * --print NUMBER  the program of that number */
#include <ctype.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler.h"
#include "plan.h"
#include "emit.h"

#include "batch.h"
#include "captured.h"
#include "check.h"

enum { ROLES = 6, SLOTS_MOST = 400, ROUNDS = 7 };

const char *const captured_targets[] = {"cpu", "sm_80", "gfx90a"};

/* ---- the pool ---- */

typedef struct Words {
    char **list;
    size_t count, capacity;
} Words;

static bool in_words(const Words *words, const char *word, size_t size) {
    for (size_t i = 0; i < words->count; i++)
        if (strncmp(words->list[i], word, size) == 0 && words->list[i][size] == 0) return true;
    return false;
}

static void add_word(Words *words, const char *word, size_t size) {
    if (in_words(words, word, size)) return;
    if (words->count == words->capacity) {
        words->capacity = words->capacity ? 2 * words->capacity : 256;
        char **list = must_allocate(words->capacity * sizeof *list);
        if (words->count) memcpy(list, words->list, words->count * sizeof *list);
        free(words->list);
        words->list = list;
    }
    words->list[words->count] = must_allocate(size + 1);
    memcpy(words->list[words->count++], word, size);
}

static bool begins(const char *word, const char *with) {
    return strncmp(word, with, strlen(with)) == 0;
}

/* Which of many alike are left out: what is made of stems, which choose_names makes of the names of
 * each program; device functions, which are all of one form; high numbers. */
static bool is_another(const char *word, size_t size) {
    size_t digits = 0, last = size;
    while (digits < size && isdigit((unsigned char)word[size - 1 - digits])) digits++;
    while (last && word[last - 1] != '_') last--;
    const unsigned letters = (unsigned)(word[0] + word[size - 1] + (int)size);
    for (size_t k = 0; last > 1 && names_suffix(k); k++)
        if (strcspn(names_suffix(k), " ") == size - last &&
            memcmp(names_suffix(k), word + last, size - last) == 0)
            return letters % 16 != 0;
    for (size_t i = 0; i + 8 < size; i++)
        if (begins(word + i, "_stride_")) return letters % 16 != 0;
    if (begins(word, "ls_") || begins(word, "LS_") || *word == '_' || begins(word, "size_") ||
        begins(word, "lockstep_"))
        return letters % 16 != 0;
    if (digits && digits < size && (digits > 1 || word[size - 1] > '3'))
        return word[size - digits - 1] == '_' || size - digits == 1;
    return digits && digits < size && letters % 4 != 0;
}

/* Whether it was seen before: most are. */
static bool is_new(const Token *token) {
    enum { SEEN = 1 << 17 };
    static char *seen[SEEN];
    size_t hash = 5381;
    for (size_t i = 0; i < token->size; i++) hash = hash * 33 ^ (unsigned char)token->text[i];
    for (hash %= SEEN; seen[hash]; hash = (hash + 1) % SEEN)
        if (strncmp(seen[hash], token->text, token->size) == 0 && !seen[hash][token->size])
            return false;
    seen[hash] = must_allocate(token->size + 1);
    memcpy(seen[hash], token->text, token->size);
    return true;
}

static void collect(Words *words, const char *text) {
    Token token;
    while (token_next(&text, &token))
        if (token.name && is_new(&token) && !is_another(token.text, token.size))
            add_word(words, token.text, token.size);
}

static void collect_file(Words *words, const char *path) {
    static const ls_compile_options options = {.import_path_count = 0};
    ls_compilation *c = NULL;
    if (ls_compile_file(path, &options, &c) == LS_OK)
        for (size_t s = 0; s < ls_compilation_own_step_count(c); s++)
            for (size_t t = 0; t < TARGETS; t++) {
                const ls_image *image;
                if (ls_compilation_image(c, s, captured_targets[t], &image) != LS_OK) continue;
                for (uint32_t v = 0; v < image->variant_count; v++)
                    collect(words, image->variants[v].source);
            }
    ls_compilation_destroy(c);
}

/* Whether the language takes it for a name. */
static bool is_legal(const char *word) {
    static const ls_compile_options options = {.import_path_count = 0};
    char text[1000];
    ls_compilation *c = NULL;
    const int size =
        snprintf(text, sizeof text, "step q%s[%s](q: f32[%s], out w: f32[%s]) {\n w = q\n}\n", word,
                 word, word, word);
    const bool good = ls_compile_text("legal", text, (size_t)size, &options, &c) == LS_OK;
    ls_compilation_destroy(c);
    return good;
}

static Words make_pool(const glob_t *files) {
    Words words = {NULL, 0, 0}, pool = {NULL, 0, 0};
    for (size_t i = 0; i < files->gl_pathc; i++) collect_file(&words, files->gl_pathv[i]);
    for (size_t i = 0; names_word(i); i++)
        add_word(&words, names_word(i), strcspn(names_word(i), " "));
    for (size_t i = 0; i < words.count; i++)
        if ((words.list[i][1] && words.list[i][2]) || names_is_plain(words.list[i]))
            if (is_legal(words.list[i])) add_word(&pool, words.list[i], strlen(words.list[i]));
    return pool;
}

/* Whether a name has no suffix: others are made of stems. */
static bool is_fixed(const char *word) {
    const char *last = strrchr(word, '_');
    if (last && isdigit((unsigned char)last[1])) return false;
    for (size_t k = 0; last && names_suffix(k); k++)
        if (strcspn(names_suffix(k), " ") == strlen(last + 1) && begins(names_suffix(k), last + 1))
            return false;
    return true;
}

/* ---- programs called otherwise ---- */

static const char *const role_names[ROLES] = {"axes",      "parameters", "lets",
                                              "functions", "steps",      "imports"};
enum { AXIS, PARAMETER, LET, FUNCTION, STEP, IMPORT };

typedef struct Slot {
    char name[64], nasty[80], plain[80];
    int role;
} Slot;

/* Of one program: the words of its generated text that are not made of its names, and whose turn it
 * is. These come first. */
typedef struct Own {
    Words words;
    size_t cursor;
} Own;

typedef struct Renamed {
    Own *own;
    Slot slots[SLOTS_MOST];
    size_t count;
    Words others; /* words that stay as they are */
} Renamed;

static size_t cursors[ROLES];

static Slot *find_slot(Renamed *r, const char *word, size_t size) {
    for (size_t i = 0; i < r->count; i++)
        if (strncmp(r->slots[i].name, word, size) == 0 && r->slots[i].name[size] == 0)
            return &r->slots[i];
    return NULL;
}

static void add_slot(Renamed *r, const Token *token, int role) {
    if (!token->name || token->size >= sizeof r->slots[0].name || r->count == SLOTS_MOST) return;
    if (find_slot(r, token->text, token->size)) return;
    Slot *slot = &r->slots[r->count++];
    memcpy(slot->name, token->text, token->size);
    slot->role = role;
}

static bool is(const Token *token, const char *text) {
    return token->size == strlen(text) && memcmp(token->text, text, token->size) == 0;
}

/* What the program declares. */
static void find_slots(Renamed *r, const char *text) {
    Token token, before = {"", 0, false};
    int inside = -1; /* the role of names until the list ends */
    char end = 0;
    while (step_token_next(&text, &token)) {
        const char *rest = text;
        Token next;
        const bool typed = step_token_next(&rest, &next) && is(&next, ":");
        if (inside == STEP || inside == FUNCTION) {
            add_slot(r, &token, inside);
            inside = inside == STEP ? (is(&next, "[") ? AXIS : -1) : LET;
            end = inside == AXIS ? ']' : ')';
        } else if (inside >= 0 && token.size == 1 && *token.text == end) {
            inside = -1;
        } else if (inside >= 0 && !is(&token, "of") && !is(&token, "as")) {
            add_slot(r, &token, inside);
        } else if (token.name && typed) {
            add_slot(r, &token, PARAMETER);
        } else if (is(&token, "step") || is(&token, "fn")) {
            inside = is(&token, "fn") ? FUNCTION : STEP;
        } else if (is(&token, "let")) {
            inside = LET, end = '=';
        } else if (is(&before, "const")) {
            add_slot(r, &token, LET);
        } else if (is(&before, "as")) {
            add_slot(r, &token, IMPORT);
        }
        before = token;
    }
}

/* A name that is as long in generated text (of axes, with `lengths`, in size_NAME), where long
 * expressions are lines of their own, and gets a number when the name gets one. */
static void make_plain(Slot *slot, size_t number, const Renamed *r, bool lengths) {
    static const char letters[] = "qjzQJZvwVWABCDEFGHIKLMNOPRSTUXY0123456789_kh";
    const bool underscore = *slot->nasty == '_';
    char escaped[sizeof slot->nasty + 2];
    snprintf(escaped, sizeof escaped, "n%s%s", underscore ? "" : "_", slot->nasty);
    const bool prefixed = !(lengths && slot->role == AXIS) && names_has_prefix(slot->nasty);
    const bool numbered = !names_is_plain(prefixed ? escaped : slot->nasty);
    const size_t size = strlen(prefixed ? escaped : slot->nasty) - (numbered ? 2 : 0);
    for (;; number += 7) {
        size_t rest = number, at = 0;
        do slot->plain[at] = letters[rest % (at ? sizeof letters - 1 : 31)], rest /= 31;
        while (++at < size && (rest || at < 2));
        while (at < size) slot->plain[at++] = 'z';
        slot->plain[at] = 0;
        bool taken = !names_is_plain(slot->plain);
        if (numbered) strcat(slot->plain, "_2");
        taken |= in_words(&r->others, slot->plain, strlen(slot->plain));
        for (const Slot *other = r->slots; other < slot; other++)
            taken |= strcmp(other->plain, slot->plain) == 0;
        if (!taken) return;
    }
}

/* What the emitter may make of an earlier name of the program. */
static const char *make_derived(const Renamed *r, size_t number, size_t tries) {
    static size_t turn;
    static char name[200];
    const char *stem = r->slots[number - 1 - (tries + turn) % 3].nasty;
    if (!names_suffix(++turn)) turn = 0;
    const char *suffix = names_suffix(turn);
    snprintf(name, sizeof name, "%s_%.*s", stem, (int)strcspn(suffix, " "), suffix);
    if (turn % 8 == 0) snprintf(name, sizeof name, "size_%s", stem);
    if (turn % 8 == 4) snprintf(name, sizeof name, "%s_2", stem);
    return name;
}

static void choose_names(Renamed *r, const Words *pool) {
    Words taken = {NULL, 0, 0};
    for (size_t i = 0; i < r->count; i++) {
        Slot *slot = &r->slots[i];
        const char *name;
        size_t tries = 0;
        do
            if (i % 4 == 3 && tries < 40)
                name = make_derived(r, i, tries);
            else if (i % 4 && tries < r->own->words.count)
                name = r->own->words.list[r->own->cursor++ % r->own->words.count];
            else
                name = pool->list[cursors[slot->role]++ % pool->count];
        while (++tries < pool->count &&
               (in_words(&r->others, name, strlen(name)) || in_words(&taken, name, strlen(name)) ||
                strlen(name) >= sizeof slot->nasty - 4));
        add_word(&taken, name, strlen(name));
        snprintf(slot->nasty, sizeof slot->nasty, "%s", name);
        make_plain(slot, i, r, false);
    }
    for (size_t i = 0; i < taken.count; i++) free(taken.list[i]);
    free(taken.list);
}

/* Comments too: they say which sizes the axes have. */
static char *rename_text(Renamed *r, const char *text, bool nasty) {
    char *result = NULL;
    size_t size;
    FILE *out = open_memstream(&result, &size);
    while (*text) {
        Token word = {text, word_size(text), true};
        const bool member = word.size && text[-1] == '.';
        const bool directive = word.size && begins(text - 2, "# ") && text[word.size] == ':';
        const Slot *slot =
            word.size && !member && !directive ? find_slot(r, text, word.size) : NULL;
        const size_t skipped = word.size ? word.size : number_size(text);
        if (slot)
            fputs(nasty ? slot->nasty : slot->plain, out);
        else
            fwrite(text, 1, skipped ? skipped : 1, out);
        text += skipped ? skipped : 1;
    }
    fclose(out);
    return result;
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

static Renamed *rename_program(const char *text, const Words *pool, Own *own) {
    Renamed *r = must_allocate(sizeof *r);
    r->own = own;
    find_slots(r, text);
    for (const char *at = text; *at;) {
        const size_t size = word_size(at), skipped = size ? size : number_size(at);
        if (size && !find_slot(r, at, size)) add_word(&r->others, at, size);
        at += skipped ? skipped : 1;
    }
    choose_names(r, pool);
    return r;
}

static void drop(Renamed *r) {
    for (size_t i = 0; i < r->others.count; i++) free(r->others.list[i]);
    free(r->others.list);
    free(r);
}

static ls_compilation *compile(const char *path, const char *text) {
    static const ls_compile_options options = {.import_path_count = 0};
    ls_compilation *c = NULL;
    if (ls_compile_text(path, text, strlen(text), &options, &c) == LS_OK) return c;
    ls_compilation_destroy(c);
    return NULL;
}

static bool compare_steps(ls_compilation *plain, ls_compilation *nasty) {
    bool good = true;
    for (size_t s = 0; good && s < ls_compilation_own_step_count(plain); s++)
        for (size_t t = 0; good && t < TARGETS; t++) {
            const ls_image *a, *b;
            if (ls_compilation_image(plain, s, captured_targets[t], &a) != LS_OK) continue;
            if (ls_compilation_image(nasty, s, captured_targets[t], &b) != LS_OK ||
                a->variant_count != b->variant_count) {
                printf("  another image of %s: %s\n", a->step, ls_compilation_message(nasty));
                return false;
            }
            for (uint32_t v = 0; good && v < a->variant_count; v++) {
                good = same_but_for_names(a->variants[v].source, b->variants[v].source);
                if (!good) printf("  in %s for %s\n", b->variants[v].name, captured_targets[t]);
            }
        }
    return good;
}

typedef enum Outcome { SAME, OTHER, SKIPPED } Outcome;

/* Behind the prelude and the device functions, which have words of their own. */
static void find_own(const File *file, Own *own) {
    ls_compilation *c = compile(file->path, file->text);
    for (size_t s = 0; c && s < ls_compilation_own_step_count(c); s++)
        for (size_t t = 0; t < TARGETS; t++) {
            const ls_image *image;
            if (ls_compilation_image(c, s, captured_targets[t], &image) != LS_OK) continue;
            for (uint32_t v = 0; v < image->variant_count; v++) {
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
    ls_compilation_destroy(c);
}

static Outcome compare_program(const File *file, const Words *pool, Own *own, char **kept) {
    Renamed *r = rename_program(file->text, pool, own);
    char *plain_text = rename_text(r, file->text + 2, false);
    char *nasty_text = rename_text(r, file->text + 2, true);
    ls_compilation *plain = compile(file->path, plain_text), *nasty = NULL;
    Outcome outcome = SKIPPED;
    if (plain) {
        nasty = compile(file->path, nasty_text);
        outcome = nasty && compare_steps(plain, nasty) ? SAME : OTHER;
        if (nasty && outcome == OTHER) { /* the other way to be as long */
            for (size_t i = 0; i < r->count; i++) make_plain(&r->slots[i], i, r, true);
            ls_compilation_destroy(plain);
            free(plain_text);
            plain_text = rename_text(r, file->text + 2, false);
            plain = compile(file->path, plain_text);
            if (plain && compare_steps(plain, nasty)) outcome = SAME;
            printf("  again: %s\n", outcome == SAME ? "the same" : "not the same");
        }
        if (!nasty) printf("  the compiler refuses it\n");
    }
    ls_compilation_destroy(plain);
    ls_compilation_destroy(nasty);
    free(plain_text);
    *kept = nasty_text;
    drop(r);
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
    glob_t all, programs;
    char pattern[600];
    setenv("LOCKSTEP_CACHE", "off", 1);
    for (size_t i = 0; i < 3; i++) {
        snprintf(pattern, sizeof pattern, "%s%s", SOURCE_FOLDER, patterns[i]);
        glob(pattern, i ? GLOB_APPEND : 0, NULL, &all);
    }
    glob(pattern, 0, NULL, &programs);
    const Words pool = make_pool(&all);
    printf("%zu names\n", pool.count);
    fflush(stdout);
    Own *own = must_allocate((programs.gl_pathc + 1) * sizeof *own);
    Case *cases = must_allocate((programs.gl_pathc + 1) * sizeof *cases);
    size_t case_count = 0, compared = 0, failed = 0, number = 0;
    for (unsigned round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < programs.gl_pathc; i++, number++) {
            File file;
            char *text;
            snprintf(file.path, sizeof file.path, "%s", programs.gl_pathv[i]);
            file.text = read_text(file.path);
            if (round == 0) find_own(&file, &own[i]);
            const Outcome outcome = compare_program(&file, &pool, &own[i], &text);
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
            free(file.text);
        }
    for (size_t i = 0; i < ROLES; i++)
        printf("%s: %zu names of %zu\n", role_names[i], cursors[i], pool.count);
    printf("%zu programs, %zu failed\n", compared, failed);
    failed += run_programs(cases, case_count);
    return failed != 0;
}
