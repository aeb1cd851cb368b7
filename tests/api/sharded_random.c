/* sharded_random.c: random steps over a list, for ranks to share out, and what the interpreter
 * makes of them. */
#include "sharded.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "interp.h"

enum { LETS = 14 };
typedef enum Kind { SCALAR, TENSOR, ELEMENT } Kind; /* what a value varies over */

typedef struct Writer {
    char *text;
    size_t used;
    uint32_t state;
    Kind kinds[LETS + 5];
    int count; /* of values: parameters, then lets */
} Writer;

static uint32_t pick(Writer *w, uint32_t below) {
    w->state = w->state * 1664525u + 1013904223u;
    return (w->state >> 12) % below;
}

static void __attribute__((format(printf, 2, 3))) put(Writer *w, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    w->used += (size_t)vsnprintf(w->text + w->used, SHARDED_TEXT - w->used, format, arguments);
    va_end(arguments);
    if (w->used >= SHARDED_TEXT) abort();
}

/* A value of at least that kind, the later ones rather. */
static int any_value(Writer *w, Kind least) {
    for (;;) {
        const int number = w->count - 1 - (int)pick(w, (uint32_t)w->count);
        if (w->kinds[number] >= least) return number;
    }
}

static const char *name_of(const Writer *w, int number) {
    static const char *const parameters[] = {"p", "m", "g", "scale", "lr"};
    static char names[4][16];
    static int next;
    (void)w;
    if (number < 5) return parameters[number];
    next = (next + 1) % 4;
    snprintf(names[next], sizeof names[next], "x%d", number);
    return names[next];
}

/* A reduction of what has elements, or of what there is of each tensor. */
static Kind put_reduction(Writer *w) {
    static const char *const each[] = {"sum[n]", "mean[n]", "max[n]", "min[n]", "norm[n]"};
    static const char *const all[] = {"sum[t, n]", "max[t, n]", "min[t, n]", "norm[t, n]"};
    static const char *const tensors[] = {"sum[t]", "max[t]", "min[t]"};
    const int from = any_value(w, TENSOR);
    const char *name = name_of(w, from);
    if (w->kinds[from] == TENSOR) return put(w, "%s(%s)\n", tensors[pick(w, 3)], name), SCALAR;
    if (pick(w, 5) == 0) return put(w, "logsumexp[n](%s)\n", name), TENSOR;
    if (pick(w, 2) == 0) return put(w, "%s(%s)\n", each[pick(w, 5)], name), TENSOR;
    return put(w, "%s(%s)\n", all[pick(w, 4)], name), SCALAR;
}

static Kind put_operation(Writer *w) {
    const int a = any_value(w, SCALAR), b = any_value(w, SCALAR), c = any_value(w, SCALAR);
    const char *x = name_of(w, a), *y = name_of(w, b), *z = name_of(w, c);
    Kind kind = w->kinds[a] > w->kinds[b] ? w->kinds[a] : w->kinds[b];
    switch (pick(w, 6)) {
    case 0: put(w, "%s * %s - 0.25\n", x, y); return kind;
    case 1: put(w, "%s / (1.0 + abs(%s))\n", x, y); return kind;
    case 2: put(w, "exp(min(%s, 1.0)) + %s\n", x, y); return kind;
    case 3: put(w, "sqrt(abs(%s) + %s ** 2)\n", x, y); return kind;
    case 4:
        put(w, "tanh(%s) * f32(size(n)) / (2.0 + f32(index(t))) + %s\n", x, y);
        return kind > TENSOR ? kind : TENSOR;
    default:
        put(w, "if %s > %s then %s else -%s\n", x, y, z, y);
        return kind > w->kinds[c] ? kind : w->kinds[c];
    }
}

static int last_of(const Writer *w, Kind kind) {
    int number = w->count - 1;
    while (w->kinds[number] != kind) number--;
    return number;
}

void sharded_random(char text[SHARDED_TEXT], uint32_t seed) {
    Writer writer = {.text = text,
                     .state = seed * 7919 + 17,
                     .kinds = {ELEMENT, ELEMENT, ELEMENT, TENSOR, SCALAR},
                     .count = 5},
           *w = &writer;
    put(w, "step random[t, n of t](inout p: f32[t, n], inout m: bf16[t, n], g: f32[t, n],\n"
           "        scale: f32[t], lr: f32, out each: f32[t], out total: f32, out some: bool) {\n");
    for (int i = 0; i < LETS; i++) {
        put(w, "    let x%d = ", w->count);
        const Kind kind = pick(w, 2) ? put_reduction(w) : put_operation(w);
        w->kinds[w->count++] = kind;
    }
    put(w, "    each = %s\n    total = %s\n", name_of(w, last_of(w, TENSOR)),
        name_of(w, last_of(w, SCALAR)));
    const char *element = name_of(w, last_of(w, ELEMENT));
    put(w, "    some = any[t, n](%s > 0.0)\n    m = %s\n    p -= lr * %s * each + total\n}\n",
        element, element, element);
}

bool sharded_interpret(const char *text, int64_t tensors, const int64_t *lengths, void *const *data,
                       int launches) {
    const int64_t *const sizes[] = {&tensors, lengths};
    const int64_t first[2] = {0, 0};
    ls_compilation *compilation = NULL;
    bool ok = ls_compile_text("random.step", text, strlen(text), NULL, &compilation) == LS_OK;
    const Function *function = ok ? compilation_function(compilation, 0, STAGE_DERIVED) : NULL;
    for (int i = 0; function && i < launches; i++)
        if (!interpret(function, sizes, data, first)) function = NULL;
    ls_compilation_destroy(compilation);
    return function != NULL;
}
