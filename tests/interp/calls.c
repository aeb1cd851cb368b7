/* calls.c: imported C functions in the oracle: the header itself, compiled by the host's compiler
 * with the host's own <math.h>, and called through a wrapper for each function.
 *
 * Nothing of what the compiler under test makes of the header is used. So headers of tests keep to
 * what is exact or what IEEE 754 rounds correctly: + - * / sqrt fma, comparisons, and of <math.h>
 * rests, exponents, neighbours and kinds. An overflow of an int, which C leaves undefined, so that
 * each compiler may make something else of it, stops the test with a trap. */
#include "interp.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const c_types[] = {[TYPE_F64] = "double",
                                      [TYPE_F32] = "float",
                                      [TYPE_I64] = "long long",
                                      [TYPE_I32] = "int",
                                      [TYPE_U64] = "unsigned long long",
                                      [TYPE_U32] = "unsigned",
                                      [TYPE_BOOL] = "_Bool"};

static void write_headers(FILE *out, const Compiler *compiler) {
    for (size_t i = 1; i < compiler->source_count; i++) {
        const char *path = compiler->sources[i].path;
        size_t length = strlen(path);
        const bool own = strncmp(path, "/lockstep/", 10) == 0; /* Lockstep's <math.h> */
        if (!own && length > 2 && strcmp(path + length - 2, ".h") == 0)
            fprintf(out, "#include \"%s\"\n", path);
    }
}

/* What Lockstep's own <math.h> is made of, which nothing calls here. */
static bool is_part_of_own(const CFunction *function) {
    return strncmp(function->name, "lockstep_", strlen("lockstep_")) == 0;
}

/* void call_N(const unsigned long long *x, unsigned long long *result) */
static void write_wrapper(FILE *out, const CFunction *function, size_t number) {
    fprintf(out,
            "void call_%zu(const unsigned long long *x, unsigned long long *result) {\n"
            "    (void)x;\n",
            number);
    for (size_t i = 0; i < function->parameter_count; i++)
        fprintf(out, "    %s a%zu;\n    __builtin_memcpy(&a%zu, &x[%zu], sizeof a%zu);\n",
                c_types[function->parameters[i]], i, i, i, i);
    fprintf(out, "    %s r = %s(", c_types[function->result], function->name);
    for (size_t i = 0; i < function->parameter_count; i++) fprintf(out, "%sa%zu", i ? ", " : "", i);
    fprintf(out, ");\n    *result = 0;\n    __builtin_memcpy(result, &r, sizeof r);\n}\n");
}

static void *build(const char *text) {
    char folder[] = "/tmp/lockstep-calls-XXXXXX", source[64], library[64], command[512];
    void *handle = NULL;
    if (!mkdtemp(folder)) return NULL;
    snprintf(source, sizeof source, "%s/calls.c", folder);
    snprintf(library, sizeof library, "%s/calls.so", folder);
    FILE *out = fopen(source, "w");
    if (out) {
        bool written = fputs(text, out) >= 0;
        written = fclose(out) == 0 && written;
        snprintf(command, sizeof command,
                 "cc -std=gnu11 -O1 -w -fPIC -shared -ffp-contract=off "
                 "-fsanitize=signed-integer-overflow -fsanitize-undefined-trap-on-error "
                 "-o %s %s -lm",
                 library, source);
        if (written && system(command) == 0) handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    }
    unlink(source);
    unlink(library);
    rmdir(folder);
    return handle;
}

static char *wrappers_text(const Function *f) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    write_headers(out, f->compiler);
    for (size_t i = 0; i < f->function_count; i++)
        if (!is_part_of_own(&f->functions[i])) write_wrapper(out, &f->functions[i], i);
    fclose(out);
    return text;
}

/* The last program's are kept: a test runs it many times. */
const CallFunction *calls_of(const Function *f) {
    static struct {
        char *text;
        void *handle;
        CallFunction *list;
    } last;
    char *text = wrappers_text(f);
    if (text && last.text && strcmp(text, last.text) == 0) {
        free(text);
        return last.list;
    }
    if (last.handle) dlclose(last.handle);
    free(last.text);
    free(last.list);
    last.text = text;
    last.handle = text ? build(text) : NULL;
    last.list = calloc(f->function_count + 1, sizeof *last.list);
    bool good = last.handle && last.list;
    for (size_t i = 0; i < f->function_count && good; i++) {
        char name[32];
        snprintf(name, sizeof name, "call_%zu", i);
        void *symbol = dlsym(last.handle, name);
        if (symbol) memcpy(&last.list[i], &symbol, sizeof symbol);
        good = symbol || is_part_of_own(&f->functions[i]);
    }
    if (good) return last.list;
    free(last.text);
    last.text = NULL;
    return NULL;
}
