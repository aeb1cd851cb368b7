/* no_memory.c: the compiler when memory runs out: every allocation of reading, planning, emitting
 * and explaining a program fails once, alone and with all that follow it. What comes back is
 * LS_ERROR_MEMORY, or the whole result where nothing needed that piece; nothing crashes, nothing
 * stays allocated. malloc, calloc and realloc of the libraries come here by the linker's --wrap.
 *
 * Without an argument every fourth allocation fails alone, and every fourth with those that follow;
 * --all: each. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/lockstep.h>
#include <lockstep/compiler.h>
#include <lockstep/index.h>

static const char program[] =
    "step linreg[b, k](\n"
    "    x: f32[b, k], y: f32[b], inout w: f32[k], inout bias: f32,\n"
    "    inout loss_sum: f32, inout seen: i64, inout nan_seen: bool, lr: f32 = 0.01,\n"
    ") {\n"
    "    let loss = mean((sum[k](x * w) + bias - y) ** 2)\n"
    "    let dw, dbias = grad(loss, w, bias)\n"
    "    w -= lr * dw\n"
    "    bias -= lr * dbias\n"
    "    loss_sum += loss * size(b)\n"
    "    seen += size(b)\n"
    "    nan_seen |= isnan(loss)\n"
    "}\n";
static const char wrong[] =
    "step s[n](x: f32[n], out y: f32[n]) {\n    y = x + zz\n    y = 1 / u\n}\n";

static long left = -1, live; /* allocations until one fails; blocks that are allocated */
static bool for_good, failed;

static bool fails(void) {
    if (left < 0) return false;
    if (left > 0 && --left > 0) return false;
    if (!for_good) left = -1;
    failed = true;
    return true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void __real_free(void *block);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
char *__wrap_strdup(const char *text);
void __wrap_free(void *block);

static void *counted(void *block) {
    live += block != NULL;
    return block;
}

void *__wrap_malloc(size_t size) {
    return fails() ? NULL : counted(__real_malloc(size));
}
void *__wrap_calloc(size_t count, size_t size) {
    return fails() ? NULL : counted(__real_calloc(count, size));
}
void *__wrap_realloc(void *block, size_t size) {
    if (fails()) return NULL;
    void *larger = __real_realloc(block, size);
    live += larger && !block;
    return larger;
}
void __wrap_free(void *block) {
    live -= block != NULL;
    __real_free(block);
}

char *__wrap_strdup(const char *text) {
    char *copy = __wrap_malloc(strlen(text) + 1);
    return copy ? strcpy(copy, text) : NULL;
}

/* What editors ask, of good and wrong texts; asked again where memory ran out, it is all there. */
static ls_status read_index(const char *text) {
    const ls_compile_options options = {.index = 1};
    ls_compilation *compilation = NULL;
    const ls_index *index = NULL;
    ls_description description;
    ls_status status = ls_compile_text("linreg", text, strlen(text), &options, &compilation);
    if (status == LS_OK || status == LS_ERROR_PROGRAM) {
        ls_status asked = ls_compilation_index(compilation, &index);
        if (asked == LS_ERROR_MEMORY && left < 0) { /* there is memory again */
            if (ls_compilation_index(compilation, &index) != LS_OK) asked = LS_ERROR_INTERNAL;
            size_t mentions = 0;
            for (size_t i = 0; index && i < index->mention_count; i++)
                mentions += index->definitions[index->mentions[i].definition].at.file == 1;
            if (mentions < 4 || mentions > strlen(text) / 2) asked = LS_ERROR_INTERNAL;
        }
        for (size_t i = 0; asked == LS_OK && i < index->definition_count; i++)
            asked = ls_compilation_describe(compilation, i, 1, &description);
        if (asked != LS_OK) status = asked;
    }
    ls_compilation_destroy(compilation);
    return status;
}

static ls_status compile_all(const char *text) {
    static const char *const forms[] = {"ir", "plan", "c", "cuda", "hip"};
    static const char *const sizes[] = {"b=256", "k=64"};
    ls_compilation *compilation = NULL;
    ls_status status = ls_compile_text("linreg", text, strlen(text), NULL, &compilation);
    for (size_t i = 0; status == LS_OK && i < sizeof forms / sizeof *forms; i++) {
        const char *data = NULL;
        size_t size = 0;
        status = ls_compilation_emit(compilation, 0, forms[i], &data, &size);
        if (status == LS_OK && (!data || strlen(data) != size || size < 100))
            status = LS_ERROR_INTERNAL;
    }
    for (int report = 0; status == LS_OK && report < 3; report++) {
        const ls_explain_options options = {
            .report = (ls_report)report, .sizes = sizes, .size_count = 2};
        const char *data = NULL;
        status = ls_compilation_explain(compilation, 0, &options, &data);
    }
    if (compilation && !ls_compilation_message(compilation)) status = LS_ERROR_INTERNAL;
    ls_compilation_destroy(compilation);
    if (status == LS_OK || status == LS_ERROR_PROGRAM) {
        const ls_status index = read_index(text);
        if (index != status) return index;
    }
    if (status == LS_OK || status == LS_ERROR_PROGRAM) {
        char *formatted = NULL;
        const ls_status format = ls_format_text("linreg", text, strlen(text), &formatted);
        if (status == LS_OK || format != LS_OK) status = format;
        ls_text_free(formatted);
    }
    return status;
}

int main(int count, char **arguments) {
    const long step = count == 2 && strcmp(arguments[1], "--all") == 0 ? 1 : 4;
    static const char *const texts[] = {program, wrong};
    static const ls_status results[] = {LS_OK, LS_ERROR_PROGRAM};
    long runs = 0, refused = 0;
    for (size_t t = 0; t < 2; t++)
        for (int all = 0; all < 2; all++)
            for (long n = step == 1 ? 1 : 1 + 2 * all;; n += step) {
                const long before = live;
                left = n;
                for_good = all;
                failed = false;
                const ls_status status = compile_all(texts[t]);
                const bool reached = failed;
                left = -1;
                runs++;
                refused += status == LS_ERROR_MEMORY;
                if (status != results[t] && (status != LS_ERROR_MEMORY || !reached)) {
                    printf("program %zu, allocation %ld%s: %s\n", t, n, all ? " and on" : "",
                           ls_status_name(status));
                    return 1;
                }
                if (live != before) {
                    printf("program %zu, allocation %ld%s: %ld blocks stay allocated\n", t, n,
                           all ? " and on" : "", live - before);
                    return 1;
                }
                if (!reached) break;
            }
    printf("%ld runs, %ld of them without memory\n", runs, refused);
    return refused < 20; /* a wrapper that nobody calls proves nothing */
}
