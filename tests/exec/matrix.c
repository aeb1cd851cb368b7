/* matrix.c: every operation x type x broadcast shape, at awkward sizes. A program holds one type
 * and one shape and every operation the type has, each with an output of its own: an operation
 * added to ops.def is tested by being there. */
#include "exec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Operation {
    const char *id, *name, *rule, *flags, *form, *lite;
    int arity;
    bool f64;
} Operation;
static const Operation operations[] = {
#define X(id, name, arity, rule, flags, cost, work, f64, lite, form, derivative) \
    {#id, #name, #rule, #flags, #form, #lite, arity, f64},
#include "ir/ops.def"
#undef X
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

/* How the language writes an operation that is neither infix nor a function of its own name. In a
 * pattern @a @b @c are operands of the type, @e an integer, @s a bool. */
static const struct {
    const char *id, *pattern;
} spellings[] = {
    {"NEG", "-@a"},
    {"NOT", "not @a"},
    {"FLOORDIV", "@a // @b"},
    {"MOD", "@a % @b"},
    {"POW", "@a ** @b"},
    {"POWI", "@a ** @e"},
    {"AND", "@a and @b"},
    {"OR", "@a or @b"},
    {"SELECT", "if @s then @a else @b"},
    {"REDUCE_MIN", "min"},
    {"REDUCE_MAX", "max"},
    {"SHIFT_LEFT", "shift_left(@a, @e)"},
    {"SHIFT_RIGHT", "shift_right(@a, @e)"},
};

/* What the language builds out of several operations. Classes: F float, S signed, U unsigned. */
static const struct {
    const char *name, *pattern, *classes;
    bool binary;
} composites[] = {
    {"lerp", "lerp(@a, @b, @c)", "F", true},
    {"cube", "@a ** 3", "FSU", false},
    {"inverse", "@a ** -2", "F", false},
    {"horner", "(@a * @b + @c) * @a - @b", "FSU", true},
};

static const struct {
    const char *name;
    char class;
} types[] = {{"f32", 'F'}, {"f64", 'F'}, {"i32", 'S'}, {"i64", 'S'},
             {"u32", 'U'}, {"u64", 'U'}, {"bool", 'B'}};
enum { TYPES = sizeof types / sizeof *types };

/* Where all shapes of one kind run the same loops, one of them has the large arrays. */
#define FEW_1 "n=0; n=1; n=3; n=255; n=256; n=257; n=4097"
#define SIZES_1 FEW_1 "; n=999983"
#define FEW_2 "n=0 k=5; n=5 k=0; n=1 k=1; n=3 k=257; n=257 k=3; n=255 k=256; n=1 k=4097"
#define SIZES_2 FEW_2 "; n=991 k=1009"
#define SIZES_3 \
    "n=0 j=3 k=5; n=3 j=0 k=5; n=1 j=1 k=1; n=3 j=5 k=257; n=257 j=3 k=5; n=97 j=103 k=100"

/* Where the operands live. `b` NULL is a constant; "" is rank 0. */
typedef struct Shape {
    const char *name, *axes, *a, *b, *result, *sizes;
    bool unary; /* also for operations of one operand */
} Shape;
static const Shape shapes[] = {
    {"n_n", "n", "n", "n", "n", SIZES_1, true},
    {"n_scalar", "n", "n", "", "n", FEW_1, false},
    {"n_constant", "n", "n", NULL, "n", FEW_1, false},
    {"scalars", "", "", "", "", "", true},
    {"scalar_spread", "n", "", "", "n", FEW_1, false},
    {"nk_nk", "n, k", "n, k", "n, k", "n, k", SIZES_2, false},
    {"nk_k", "n, k", "n, k", "k", "n, k", FEW_2, false},
    {"n_nk", "n, k", "n", "n, k", "n, k", FEW_2, false},
    {"n_k", "n, k", "n", "k", "n, k", FEW_2, false},
    {"nk_spread", "n, j, k", "n, k", "k", "n, j, k", SIZES_3, false},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* A step is written in two places at once: its parameters and its statements. */
typedef struct Writer {
    char *text, *body;
    size_t size, body_size;
    FILE *head, *statements;
    const char *grade; /* " math lite", or NULL */
} Writer;

static void writer_open(Writer *writer) {
    writer->grade = NULL;
    writer->head = open_memstream(&writer->text, &writer->size);
    writer->statements = open_memstream(&writer->body, &writer->body_size);
    if (!writer->head || !writer->statements) exit(3);
}

static void writer_close(Writer *writer, Programs *programs, const char *kind, const char *first,
                         const char *second) {
    char name[NAME_SIZE];
    fclose(writer->statements);
    fprintf(writer->head, ")%s {\n%s}\n", writer->grade ? writer->grade : "", writer->body);
    fclose(writer->head);
    free(writer->body);
    snprintf(name, sizeof name, "%s-%s-%s", kind, first, second);
    programs_add(programs, name, writer->text, false);
}

static void declare(FILE *out, const char *before, const char *name, const char *type,
                    const char *axes) {
    fprintf(out, "    %s%s: %s", before, name, type);
    fprintf(out, *axes ? "[%s],\n" : "%s,\n", axes);
}

/* Writes a pattern with the operands as they are called, constants where the shape says so. */
static void write_pattern(FILE *out, const char *pattern, const Shape *shape, char class) {
    for (const char *p = pattern; *p; p++) {
        if (*p != '@') {
            fputc(*p, out);
            continue;
        }
        p++;
        if (*p == 'b' && !shape->b && class != 'B')
            fputs(class == 'F' ? "1.5" : "3", out);
        else if (*p == 'b' && !shape->b)
            fputs("true", out);
        else if (*p == 'e' && !shape->b)
            fputs("5", out);
        else
            fputc(*p, out);
    }
}

static void pattern_of(const Operation *op, char *pattern, size_t size) {
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++)
        if (strcmp(spellings[i].id, op->id) == 0) {
            snprintf(pattern, size, "%s", spellings[i].pattern);
            return;
        }
    static const char *const calls[] = {"", "%s(@a)", "%s(@a, @b)", "%s(@a, @b, @c)"};
    const char *sign = strchr(op->form, '('); /* INFIX(+) */
    if (sign)
        snprintf(pattern, size, "@a %.*s @b", (int)strcspn(sign + 1, ")"), sign + 1);
    else
        snprintf(pattern, size, calls[op->arity], op->name);
}

/* Whether it is what `math lite` computes for another: the language has no name for it. */
static bool is_lite(const Operation *op) {
    for (size_t i = 0; i < OPERATIONS; i++)
        if (strcmp(operations[i].lite, op->id) == 0) return true;
    return false;
}

/* The type of the result of an operation on `type`, NULL where there is no such operation. */
static const char *result_of(const Operation *op, const char *type, char class) {
    char key[32];
    snprintf(key, sizeof key, " %s ", op->id);
    if (strchr(op->flags, 'L') || strchr(op->flags, 'R')) return NULL;
    if (strstr(" MARK STOP_GRADIENT TO_ODD ", key)) return NULL;
    if (strcmp(type, "f64") == 0 && !op->f64) return NULL;
    if (is_lite(op)) return NULL;
    if (class == 'U' && strstr(" NEG ABS SIGN ", key)) return NULL;
    if (strcmp(op->rule, "OTHER") == 0)
        return NULL; /* casts and broadcasts: below, and everywhere */
    const bool number = class != 'B', integer = class == 'S' || class == 'U';
    const struct {
        const char *rule, *result;
        bool allowed;
    } rules[] = {
        {"SAME", type, number},
        {"FLOAT", type, class == 'F'},
        {"INT", type, integer},
        {"SHIFT", type, integer},
        {"TEST", "bool", number},
        {"EQUAL", "bool", true},
        {"FTEST", "bool", class == 'F'},
        {"BOOL", "bool", !number},
        {"SELECT", type, true},
        {"POWI", type, number},
        {"BITS", "u32", strcmp(type, "f32") == 0},
        {"UNBITS", "f32", strcmp(type, "u32") == 0},
        /* draws and exact sums have programs of their own */
        {"DRAW", NULL, false},
        {"DRAWF", NULL, false},
        {"FIX", NULL, false},
        {"PERMUTE", NULL, false}, /* programs/shuffle.step */
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcmp(rules[i].rule, op->rule) == 0) return rules[i].allowed ? rules[i].result : NULL;
    fprintf(stderr, "exec_runner: the matrix does not know the rule %s of %s\n", op->rule, op->id);
    exit(2);
}

static void elementwise(Programs *programs, const Shape *shape, const char *type, char class) {
    Writer writer;
    writer_open(&writer);
    FILE *out = writer.head, *statements = writer.statements;
    if (*shape->sizes) fprintf(out, "# sizes: %s\n", shape->sizes);
    fprintf(out, "step elementwise");
    if (*shape->axes) fprintf(out, "[%s]", shape->axes);
    fprintf(out, "(\n");
    declare(out, "", "a", type, shape->a);
    if (shape->b) declare(out, "", "b", type, shape->b);
    declare(out, "", "c", type, shape->a);
    if (shape->b && class != 'B') declare(out, "", "e", "i32", shape->b);
    declare(out, "", "s", "bool", shape->b ? shape->b : shape->a);
    for (size_t i = 0; i < OPERATIONS; i++) {
        const Operation *op = &operations[i];
        const char *result = result_of(op, type, class);
        if (!result || (op->arity == 1 && !shape->unary)) continue;
        char name[64], pattern[96];
        snprintf(name, sizeof name, "o_%s", op->name);
        declare(out, "out ", name, result, shape->result);
        pattern_of(op, pattern, sizeof pattern);
        fprintf(statements, "    %s = ", name);
        write_pattern(statements, pattern, shape, class);
        fprintf(statements, "\n");
    }
    for (size_t i = 0; i < sizeof composites / sizeof *composites; i++) {
        if (!strchr(composites[i].classes, class) || (!composites[i].binary && !shape->unary))
            continue;
        char name[64];
        snprintf(name, sizeof name, "c_%s", composites[i].name);
        declare(out, "out ", name, type, shape->result);
        fprintf(statements, "    %s = ", name);
        write_pattern(statements, composites[i].pattern, shape, class);
        fprintf(statements, "\n");
    }
    writer_close(&writer, programs, "op", type, shape->name);
}

/* `math lite`: what has a form of it, on f32, and on f64 where it is exact all the same. */
static void lite(Programs *programs) {
    Writer writer;
    writer_open(&writer);
    writer.grade = " math lite";
    fprintf(writer.head, "# sizes: " SIZES_1 "\nstep lite[n](\n");
    declare(writer.head, "", "a", "f32", "n");
    declare(writer.head, "", "b", "f64", "n");
    for (size_t i = 0; i < OPERATIONS; i++) {
        const Operation *op = &operations[i];
        char name[64];
        if (strcmp(op->lite, "NONE") == 0) continue;
        snprintf(name, sizeof name, "o_%s", op->name);
        declare(writer.head, "out ", name, "f32", "n");
        fprintf(writer.statements, "    %s = %s(a)\n", name, op->name);
        if (!op->f64) continue;
        snprintf(name, sizeof name, "w_%s", op->name);
        declare(writer.head, "out ", name, "f64", "n");
        fprintf(writer.statements, "    %s = %s(b)\n", name, op->name);
    }
    writer_close(&writer, programs, "op", "lite", "n");
}

/* ---- reductions ---- */

typedef struct Reduction {
    const char *name, *axes, *operand, *over, *result, *sizes;
} Reduction;
static const Reduction reductions[] = {
    {"whole", "n", "n", "n", "", SIZES_1 "; n=1024; n=1025; n=131073"},
    {"rows", "n, k", "n, k", "k", "n", SIZES_2 "; n=2 k=999983; n=1 k=1048577"},
    {"columns", "n, k", "n, k", "n", "k", SIZES_2 "; n=999983 k=2"},
    {"both", "n, k", "n, k", "n, k", "", SIZES_2},
    {"middle", "n, j, k", "n, j, k", "j", "n, k", SIZES_3 "; n=3 j=4097 k=5"},
    {"outer", "n, j, k", "n, j, k", "n, k", "j", SIZES_3},
};

typedef struct Reducer {
    const char *name, *classes,
        *result; /* result NULL: the type; "wide": i64 or u64 for integers */
    bool one_axis;
} Reducer;
static const Reducer reducers[] = {
    {"sum", "FSU", "wide", false},   {"prod", "FSU", "wide", false}, {"min", "FSU", NULL, false},
    {"max", "FSU", NULL, false},     {"mean", "F", NULL, false},     {"norm", "F", NULL, false},
    {"logsumexp", "F", NULL, false}, {"argmin", "FSU", "i64", true}, {"argmax", "FSU", "i64", true},
    {"any", "B", "bool", false},     {"all", "B", "bool", false},    {"count", "B", "i64", false},
};

static void reduction(Programs *programs, const Reduction *shape, const char *type, char class) {
    Writer writer;
    writer_open(&writer);
    FILE *out = writer.head, *statements = writer.statements;
    fprintf(out, "# sizes: %s\n", shape->sizes);
    if (class == 'F') fprintf(out, "# fill: normal special minus zeros\n");
    fprintf(out, "step reduction[%s](\n", shape->axes);
    declare(out, "", "a", type, shape->operand);
    for (size_t i = 0; i < sizeof reducers / sizeof *reducers; i++) {
        const Reducer *reducer = &reducers[i];
        if (!strchr(reducer->classes, class) || (reducer->one_axis && strchr(shape->over, ',')))
            continue;
        const char *result = reducer->result ? reducer->result : type;
        if (strcmp(result, "wide") == 0)
            result = class == 'F' ? type : class == 'S' ? "i64" : "u64";
        char name[64];
        snprintf(name, sizeof name, "o_%s", reducer->name);
        declare(out, "out ", name, result, shape->result);
        fprintf(statements, "    %s = %s[%s](a)\n", name, reducer->name, shape->over);
    }
    writer_close(&writer, programs, "reduce", type, shape->name);
}

/* ---- conversions: from every type of array to every other, written and by the store ---- */

static void conversions(Programs *programs, const char *from, char class, const char *names[],
                        const char *classes) {
    Writer writer;
    writer_open(&writer);
    FILE *out = writer.head, *statements = writer.statements;
    fprintf(out, "# sizes: " FEW_1 "; n=65536\nstep conversions[n](\n");
    declare(out, "", "a", from, "n");
    for (size_t i = 0; names[i]; i++) {
        char name[64];
        snprintf(name, sizeof name, "to_%s", names[i]);
        declare(out, "out ", name, names[i], "n");
        if (classes[i] != 'B')
            fprintf(statements, "    %s = %s(a)\n", name, names[i]);
        else
            fprintf(statements, "    %s = %s\n", name, class == 'B' ? "a" : "a != 0");
        const bool stores = (class == 'F' && classes[i] == 'F') || strcmp(names[i], from) == 0;
        if (!stores) continue;
        snprintf(name, sizeof name, "store_%s", names[i]);
        declare(out, "out ", name, names[i], "n");
        fprintf(statements, "    %s = a\n", name);
    }
    writer_close(&writer, programs, "convert", from, "all");
}

void matrix_add(Programs *programs) {
    for (size_t t = 0; t < TYPES; t++)
        for (size_t s = 0; s < SHAPES; s++)
            elementwise(programs, &shapes[s], types[t].name, types[t].class);
    for (size_t t = 0; t < TYPES; t++)
        for (size_t r = 0; r < sizeof reductions / sizeof *reductions; r++)
            reduction(programs, &reductions[r], types[t].name, types[t].class);

    lite(programs);

    const char *names[] = {
#define X(id, name, class, size, compute, c_name) name,
#include "ir/types.def"
#undef X
        NULL
    };
    const char classes[] = {
#define X(id, name, class, size, compute, c_name) #class[0],
#include "ir/types.def"
#undef X
        '\0'
    };
    for (size_t i = 0; names[i]; i++) conversions(programs, names[i], classes[i], names, classes);
}
