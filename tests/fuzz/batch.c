/* batch.c: see batch.h.
 *
 * A generated text is the prelude, the library's functions that it uses, uses of the library's
 * macros (a line each), and what is its own. Names at file scope in the own part of each get a
 * number; the rest stands once, ahead of all. */
#include "batch.h"

#include <ctype.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "toolchain/toolchain.h"

enum { NAMES = 1024, PATH_SIZE = 512, WORDS = 64 };

typedef struct Copy { /* of an image */
    ls_image image;
    ls_image_variant *variants;
    struct Copy *next;
} Copy;

typedef struct Linked { /* a variant that is to have functions of the batch */
    ls_image_variant *variant;
    unsigned number;
    struct Linked *next;
} Linked;

struct Batch {
    const Target *target;
    bool called;
    const char *head;  /* stands ahead of the prelude */
    const char *maker; /* with whose name the code is cached, or NULL: it is not */
    Compiler compiler; /* its arena */
    Text shared, own;
    Copy *copies;
    Linked *linked;
    unsigned number; /* of the texts so far */
    char *text;      /* as built */
    void *library;
};

extern char **environ;

Batch *batch_open(const char *target, bool called) {
    Batch *batch = must_allocate(sizeof *batch);
    batch->called = called;
    batch->target = target_for(target);
    arena_open(&batch->compiler.arena, &batch->compiler);
    batch->shared = text_open(&batch->compiler.arena);
    batch->own = text_open(&batch->compiler.arena);
    return batch;
}

void batch_close(Batch *batch) {
    if (!batch) return;
    if (batch->library) dlclose(batch->library);
    arena_close(&batch->compiler.arena);
    free(batch);
}

/* ---- names at file scope ---- */

static bool in_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

static bool starts(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

typedef struct BatchWord {
    const char *text;
    size_t size;
} BatchWord;

static bool is_among(const BatchWord *words, size_t count, BatchWord word) {
    for (size_t i = 0; i < count; i++)
        if (words[i].size == word.size && memcmp(words[i].text, word.text, word.size) == 0)
            return true;
    return false;
}

static size_t add_word(BatchWord *words, size_t count, BatchWord word) {
    if (count < NAMES && !is_among(words, count, word)) words[count++] = word;
    return count;
}

static const char *skip_comment(const char *at) {
    const char *end = strstr(at + 2, "*/");
    return end ? end + 2 : at + strlen(at);
}

/* The tags of structures, and what stands before a bracket outside every brace: the functions. */
static size_t find_names(const char *text, BatchWord *words) {
    size_t count = 0;
    int braces = 0, brackets = 0;
    BatchWord last = {NULL, 0}, before = {NULL, 0};
    for (const char *at = text; *at;) {
        if (starts(at, "/*")) {
            at = skip_comment(at);
        } else if (in_word(*at)) {
            BatchWord word = {at, 0};
            while (in_word(at[word.size])) word.size++;
            before = last;
            last = word;
            at += word.size;
        } else {
            const bool outside = braces == 0 && brackets == 0;
            if (*at == '{' && outside && before.size == 6 && starts(before.text, "struct"))
                count = add_word(words, count, last);
            if (*at == '(' && outside && !starts(last.text, "LS_") &&
                !(last.size == 13 && starts(last.text, "__attribute__")))
                count = add_word(words, count, last);
            braces += (*at == '{') - (*at == '}');
            brackets += (*at == '(') - (*at == ')');
            at++;
        }
    }
    return count;
}

/* ---- texts ---- */

/* The lines of macro uses that a step's own part begins with; each is wanted once. */
static const char *take_uses(Batch *batch, const char *at) {
    while (starts(at, "LS_")) {
        const char *end = strchr(at, '\n');
        const size_t size = end ? (size_t)(end - at) + 1 : strlen(at);
        const char *line = arena_copy(&batch->compiler.arena, at, size);
        const char *found = strstr(batch->shared.data, line);
        if (!found || (found != batch->shared.data && found[-1] != '\n'))
            text_puts(&batch->shared, line);
        at += size;
    }
    return at;
}

/* Adds the text with its names numbered; gives the number. */
static unsigned add_text(Batch *batch, const char *source, bool broken) {
    BatchWord words[NAMES];
    const char *code = strstr(source, "\nLS_ACCESS(");
    if (!code) {
        fprintf(stderr, "batch: a text without LS_ACCESS has no known parts\n");
        exit(3);
    }
    const char *own = take_uses(batch, code + 1);
    const size_t count = find_names(own, words);
    const unsigned number = batch->number++;
    if (broken) text_puts(&batch->shared, "#define LS_BROKEN(...)\n");
    for (const char *at = own; *at;) {
        size_t size = 0;
        if (broken && starts(at, "LS_RUN")) {
            text_puts(&batch->own, "LS_BROKEN");
            at += strcspn(at, "(");
            continue;
        }
        while (in_word(at[size])) size++;
        text_add(&batch->own, at, size ? size : 1);
        if (size && is_among(words, count, (BatchWord){at, size}))
            text_printf(&batch->own, "__%u", number);
        at += size ? size : 1;
    }
    return number;
}

/* The kernels' entry points with the number of a text in their names. */
static const ls_image_kernel *numbered(Batch *batch, const ls_image_variant *variant,
                                       unsigned number) {
    Arena *arena = &batch->compiler.arena;
    ls_image_kernel *kernels = arena_alloc(arena, variant->kernel_count * sizeof *kernels);
    for (uint32_t k = 0; k < variant->kernel_count; k++) {
        kernels[k] = variant->kernels[k];
        kernels[k].name = arena_printf(arena, "%s__%u", kernels[k].name, number);
    }
    return kernels;
}

const ls_image *batch_add(Batch *batch, const ls_image *image, uint32_t wanted, bool spread,
                          bool broken) {
    Arena *arena = &batch->compiler.arena;
    Copy *copy = arena_alloc(arena, sizeof *copy);
    copy->image = *image;
    copy->variants = arena_alloc(arena, image->variant_count * sizeof *copy->variants);
    copy->image.variants = copy->variants;
    copy->image.variant_count = 0;
    copy->next = batch->copies;
    batch->copies = copy;
    /* of a step with `for`, which takes the form of each slice */
    ls_image_part *parts = arena_alloc(arena, image->part_count * sizeof *parts);
    for (uint32_t p = 0; p < image->part_count; p++) {
        parts[p] = image->parts[p];
        parts[p].image = batch_add(batch, parts[p].image, UINT32_MAX, spread, broken);
    }
    copy->image.parts = parts;
    for (uint32_t v = 0; v < image->variant_count; v++) {
        if (!(wanted >> v & 1) && image->variants[v].kernel_count) continue;
        ls_image_variant *variant = &copy->variants[copy->image.variant_count++];
        *variant = image->variants[v];
        variant->work_limit = UINT64_MAX;
        if (variant->kernel_count == 0) continue;
        if (spread && batch->target->gpu) variant->one_block_limit = 0;
        if (spread && variant->strips) {
            ls_image_strips *strips = arena_alloc(arena, sizeof *strips);
            *strips = *variant->strips;
            strips->work = 1;
            variant->strips = strips;
        }
        variant->kernels = numbered(batch, variant, add_text(batch, variant->source, broken));
        for (uint32_t k = 0; spread && k < variant->kernel_count; k++)
            ((ls_image_kernel *)(uintptr_t)variant->kernels)[k].item_cost = (uint64_t)1 << 32;
        variant->source = NULL;
    }
    return &copy->image;
}

/* The text's definitions of macros that the prelude asks for, which stand ahead of it. */
static const char *head_of(Batch *batch, const char *source) {
    const char *prelude = strstr(source, embedded_text(batch->target->prelude));
    const char *begin = strstr(source, "\n#define LS_");
    if (!prelude || !begin || begin > prelude) return "";
    return arena_copy(&batch->compiler.arena, begin + 1, (size_t)(prelude - begin - 1));
}

bool batch_link(Batch *batch, ls_image_variant *variant) {
    const char *head = head_of(batch, variant->source);
    if (batch->linked && strcmp(head, batch->head) != 0) return false;
    batch->head = head;
    Linked *linked = arena_alloc(&batch->compiler.arena, sizeof *linked);
    *linked = (Linked){variant, add_text(batch, variant->source, false), batch->linked};
    batch->linked = linked;
    return true;
}

void batch_keep(Batch *batch, const char *maker) {
    batch->maker = arena_copy(&batch->compiler.arena, maker, strlen(maker));
}

/* ---- code ---- */

static void make_text(Batch *batch) {
    Arena *arena = &batch->compiler.arena;
    Text text = text_open(arena), code = text_open(arena);
    text_puts(&code, batch->shared.data);
    text_puts(&code, batch->own.data);
    if (batch->head) text_puts(&text, batch->head);
    text_puts(&text, embedded_text(batch->target->prelude));
    if (batch->called && !batch->target->gpu)
        text_puts(&text, "#undef LS_FN\n#define LS_FN static __attribute__((unused))\n");
    library_add_used(&batch->compiler, &text, batch->target, code.data);
    text_puts(&text, code.data);
    batch->text = text.data;
}

static bool write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    if (!file) return false;
    const bool written = fputs(text, file) >= 0;
    return fclose(file) == 0 && written;
}

/* The command line, ended by a NULL. */
static void fill_line(const char *words[WORDS], const char *const *compiler, const char *source,
                      const char *library) {
    static const char *const fixed[] = {"-fPIC", "-shared", "-w", "-x", "c", "-o"};
    size_t count = 0;
    while (compiler[count] && count < WORDS - 9) words[count] = compiler[count], count++;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) words[count++] = fixed[i];
    words[count++] = library;
    words[count++] = source;
    words[count] = NULL;
}

static bool run_compiler(const char *const *compiler, const char *source, const char *library,
                         const char *log) {
    const char *words[WORDS];
    fill_line(words, compiler, source, library);
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = -1;
    if (posix_spawn_file_actions_init(&actions) != 0) return false;
    posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    if (posix_spawnp(&child, words[0], &actions, NULL, (char **)(uintptr_t)words, environ) != 0 ||
        waitpid(child, &status, 0) != child)
        status = -1;
    posix_spawn_file_actions_destroy(&actions);
    return status == 0;
}

static void read_log(const char *path, char *message, size_t size) {
    FILE *file = fopen(path, "r");
    const size_t read = file ? fread(message, 1, size - 1, file) : 0;
    message[read] = '\0';
    if (file) fclose(file);
}

/* Those that kernels of these names have. */
static bool set_functions(Batch *batch, ls_image_variant *variant, const ls_image_kernel *kernels,
                          char *message, size_t size) {
    typedef void (*Entry)(const void *, uint64_t, uint64_t, uint32_t, uint32_t);
    Entry *functions =
        arena_alloc(&batch->compiler.arena, variant->kernel_count * sizeof *functions);
    for (uint32_t k = 0; k < variant->kernel_count; k++) {
        void *symbol = dlsym(batch->library, kernels[k].name);
        if (!symbol) {
            snprintf(message, size, "no kernel %s", kernels[k].name);
            return false;
        }
        memcpy(&functions[k], &symbol, sizeof symbol);
    }
    variant->functions = functions;
    return true;
}

static bool set_all_functions(Batch *batch, char *message, size_t size) {
    for (Copy *copy = batch->copies; copy; copy = copy->next)
        for (uint32_t v = 0; v < copy->image.variant_count; v++)
            if (!set_functions(batch, &copy->variants[v], copy->variants[v].kernels, message, size))
                return false;
    for (Linked *linked = batch->linked; linked; linked = linked->next) {
        const ls_image_kernel *kernels = numbered(batch, linked->variant, linked->number);
        if (!set_functions(batch, linked->variant, kernels, message, size)) return false;
    }
    return true;
}

/* ---- the cache ---- */

/* The text's key among the kernels that this maker made by that command line, of which the names of
 * files, which are another folder's each time, are no part. */
static CacheKey key_of(Batch *batch, const char *const *compiler) {
    const char *words[WORDS];
    Text line = text_open(&batch->compiler.arena);
    fill_line(words, compiler, "SOURCE", "LIBRARY");
    for (size_t i = 0; words[i]; i++) text_printf(&line, "%s ", words[i]);
    return cache_key(batch->text, strlen(batch->text), "cpu", line.data, batch->maker);
}

/* Writes the library as the cache has it; false: it has not. */
static bool write_cached(Batch *batch, const CacheKey *key, const char *path) {
    void *data = NULL;
    size_t bytes = 0;
    if (!batch->maker || !cache_load(key, &data, &bytes)) return false;
    FILE *file = fopen(path, "wb");
    bool good = file && fwrite(data, 1, bytes, file) == bytes;
    if (file) good = fclose(file) == 0 && good;
    free(data);
    return good;
}

static void store(Batch *batch, const CacheKey *key, const char *path) {
    char *data = NULL;
    size_t bytes = 0;
    if (batch->maker && rtc_read_file(path, (size_t)1 << 30, &data, &bytes))
        cache_store(key, data, bytes);
    free(data);
}

static bool build_library(Batch *batch, const char *const *compiler, char *message, size_t size) {
    const char *parent = getenv("TMPDIR");
    char folder[PATH_SIZE], text[PATH_SIZE + 16], library[PATH_SIZE + 16], log[PATH_SIZE + 16];
    snprintf(folder, sizeof folder, "%s/lockstep-batch-XXXXXX",
             parent && *parent ? parent : "/tmp");
    snprintf(message, size, "cannot write to a new folder in %s", parent ? parent : "/tmp");
    if (!mkdtemp(folder)) return false;
    snprintf(text, sizeof text, "%s/batch.c", folder);
    snprintf(library, sizeof library, "%s/batch.so", folder);
    snprintf(log, sizeof log, "%s/log", folder);
    const CacheKey key = batch->maker ? key_of(batch, compiler) : (CacheKey){0};
    bool good = write_cached(batch, &key, library);
    if (!good) {
        good = write_file(text, batch->text);
        if (good && !run_compiler(compiler, text, library, log)) {
            read_log(log, message, size);
            good = false;
        }
        if (good) store(batch, &key, library);
    }
    if (good && !(batch->library = dlopen(library, RTLD_NOW | RTLD_LOCAL))) {
        snprintf(message, size, "%s", dlerror());
        good = false;
    }
    unlink(text);
    unlink(library);
    unlink(log);
    rmdir(folder);
    return good && set_all_functions(batch, message, size);
}

static void set_code(ls_image_variant *variant, const char *text) {
    variant->code = text;
    variant->code_size = strlen(text) + 1;
}

bool batch_build(Batch *batch, const char *const *compiler, char *message, size_t size) {
    make_text(batch);
    if (!batch->target->gpu) return build_library(batch, compiler, message, size);
    const char *text = arena_printf(&batch->compiler.arena, "// emulated\n%s", batch->text);
    for (Copy *copy = batch->copies; copy; copy = copy->next)
        for (uint32_t v = 0; v < copy->image.variant_count; v++) set_code(&copy->variants[v], text);
    for (Linked *linked = batch->linked; linked; linked = linked->next) {
        linked->variant->kernels = numbered(batch, linked->variant, linked->number);
        set_code(linked->variant, text);
    }
    return true;
}
