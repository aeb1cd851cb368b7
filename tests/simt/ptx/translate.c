/* translate.c: PTX to C++, one statement at a time. */
#include "translate.h"

#include <stdlib.h>
#include <string.h>

#include "operands.h"

/* ---- instructions ---- */

enum { OPERANDS_MOST = 8, PARTS_MOST = 12 };

typedef struct Instruction {
    char whole[WORD_SIZE], cut[WORD_SIZE];
    const char *parts[PARTS_MOST]; /* of `cut`, between dots */
    size_t part_count;
    Operand operands[OPERANDS_MOST];
    size_t operand_count;
} Instruction;

static void split(Translation *t, Instruction *in) {
    snprintf(in->cut, sizeof in->cut, "%s", in->whole);
    for (char *at = in->cut; at && in->part_count < PARTS_MOST;) {
        in->parts[in->part_count++] = at;
        at = strchr(at, '.');
        if (at) *at++ = 0;
    }
    if (in->part_count == PARTS_MOST) ptx_fail(t, "%s has too many parts", in->whole);
}

static const char *last_part(const Instruction *in) {
    return in->parts[in->part_count - 1];
}

static void expect_operands(Translation *t, const Instruction *in, size_t count) {
    if (in->operand_count != count)
        ptx_fail(t, "%s has %zu operands, expected %zu", in->whole, in->operand_count, count);
}

static unsigned bytes_of(const char *type) {
    const unsigned bits = (unsigned)atoi(type + 1);
    return bits / 8;
}

/* How ld, st and atom reach memory. */
typedef struct Access {
    const char *space;         /* "" generic, "global", "shared", "param", "local" */
    const char *order, *scope; /* of machine.h */
    bool looks;                /* volatile */
    unsigned elements;
} Access;

static bool access_part(Access *access, const char *part) {
    static const char *const spaces[] = {"global", "shared", "param", "local"};
    static const char *const orders[][2] = {{"relaxed", "__ATOMIC_RELAXED"},
                                            {"acquire", "__ATOMIC_ACQUIRE"},
                                            {"release", "__ATOMIC_RELEASE"},
                                            {"acq_rel", "__ATOMIC_ACQ_REL"}};
    static const char *const scopes[][2] = {
        {"cta", "SIMT_BLOCK"}, {"gpu", "SIMT_DEVICE"}, {"sys", "SIMT_SYSTEM"}};
    /* how a cache treats it changes no value */
    static const char *const caches[] = {"nc", "ca", "cg", "cs", "wb", "wt", "weak"};
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (strcmp(part, spaces[i]) == 0) return access->space = spaces[i], true;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        if (strcmp(part, orders[i][0]) == 0) return access->order = orders[i][1], true;
    for (size_t i = 0; i < sizeof scopes / sizeof *scopes; i++)
        if (strcmp(part, scopes[i][0]) == 0) return access->scope = scopes[i][1], true;
    for (size_t i = 0; i < sizeof caches / sizeof *caches; i++)
        if (strcmp(part, caches[i]) == 0) return true;
    if (strncmp(part, "L1::", 4) == 0 || strncmp(part, "L2::", 4) == 0) return true;
    if (strcmp(part, "volatile") == 0) return access->looks = true;
    if (strcmp(part, "v2") == 0 || strcmp(part, "v4") == 0)
        return access->elements = (unsigned)(part[1] - '0'), true;
    return false;
}

/* Of parts [1, last). */
static Access parse_access(Translation *t, const Instruction *in, size_t last) {
    Access access = {"", NULL, NULL, false, 1};
    for (size_t i = 1; i < last; i++)
        if (!access_part(&access, in->parts[i]))
            ptx_fail(t, "%s: .%s is not known", in->whole, in->parts[i]);
    return access;
}

/* Where the operand points, as a C pointer. */
static void write_pointer(Translation *t, const Access *access, const Operand *operand) {
    const bool named = operand->count != 0;
    if (operand->kind != ADDRESS) ptx_fail(t, "expected an address");
    if (named)
        fprintf(t->out, "(unsigned char *)%s + (long)%s", operand->text, operand->offset);
    else
        fprintf(t->out, "%s(%s + %s)",
                strcmp(access->space, "shared") == 0 ? "ptx_shared" : "ptx_global", operand->text,
                operand->offset);
}

static bool is_own(const Access *access) {
    return strcmp(access->space, "param") == 0 || strcmp(access->space, "local") == 0;
}

static const char *piece(const Operand *operand, unsigned i) {
    return operand->kind == PIECES ? operand->pieces[i] : operand->text;
}

static void write_move(Translation *t, const Instruction *in, bool loads) {
    const Access access = parse_access(t, in, in->part_count - 1);
    const char *type = last_part(in);
    const unsigned bytes = bytes_of(type);
    expect_operands(t, in, 2);
    const Operand *address = &in->operands[loads ? 1 : 0], *value = &in->operands[loads ? 0 : 1];
    const size_t pieces = value->kind == PIECES ? value->count : 1;
    if (pieces != access.elements) ptx_fail(t, "%s moves %zu registers", in->whole, pieces);
    if (access.order && strcmp(access.order, "__ATOMIC_RELAXED") != 0 && !loads)
        ptx_fail(t, "%s is not known", in->whole);
    fputs("{ unsigned char *a = ", t->out);
    write_pointer(t, &access, address);
    fprintf(t->out, "; ");
    if (is_own(&access))
        fprintf(t->out, "ptx_own(a, %u); ", bytes * access.elements);
    else if (access.order)
        fprintf(t->out, "ptx_align(a, %u); simt_machine.atomic(a, 0, %s, %s); ", bytes,
                access.order, access.scope ? access.scope : "SIMT_SYSTEM");
    else
        fprintf(t->out, "%s(a, %u); ", loads ? access.looks ? "ptx_look" : "ptx_read" : "ptx_write",
                bytes * access.elements);
    for (unsigned i = 0; i < access.elements; i++) {
        if (!*piece(value, i)) continue;
        if (loads)
            fprintf(t->out, "%s = ptx_get_%s(a + %u); ", piece(value, i), type, i * bytes);
        else
            fprintf(t->out, "ptx_put_%s(a + %u, %s); ", type, i * bytes, piece(value, i));
    }
    fputs("}", t->out);
}

/* atom d, [a], b and red [a], b. */
static void write_atomic(Translation *t, const Instruction *in) {
    const bool gives = strcmp(in->parts[0], "atom") == 0;
    const Access access = parse_access(t, in, in->part_count - 2);
    expect_operands(t, in, gives ? 3 : 2);
    if (gives) fprintf(t->out, "%s = ", in->operands[0].text);
    fprintf(t->out, "ptx_atom_%s_%s(", in->parts[in->part_count - 2], last_part(in));
    write_pointer(t, &access, &in->operands[gives]);
    fprintf(t->out, ", %s, %s, %s);", in->operands[gives + 1].text,
            access.order ? access.order : "__ATOMIC_RELAXED",
            access.scope ? access.scope : "SIMT_DEVICE");
}

static void write_fence(Translation *t, const Instruction *in) {
    const char *scope = last_part(in);
    const bool bar = strcmp(in->parts[0], "membar") == 0;
    const char *const reach = strcmp(scope, "cta") == 0 ? "SIMT_BLOCK"
                              : strcmp(scope, "gpu") == 0 || strcmp(scope, "gl") == 0
                                  ? "SIMT_DEVICE"
                              : strcmp(scope, "sys") == 0 ? "SIMT_SYSTEM"
                                                          : NULL;
    const bool weak = !bar && strcmp(in->parts[1], "acq_rel") == 0;
    if (!reach || in->part_count != (bar ? 2u : 3u)) ptx_fail(t, "%s is not known", in->whole);
    fprintf(t->out, "simt_machine.fence(%s, %s);", weak ? "__ATOMIC_ACQ_REL" : "__ATOMIC_SEQ_CST",
            reach);
}

/* Which wait of the text it is: threads that meet are at one. */
static unsigned next_place(Translation *t) {
    return ++t->places;
}

static void write_shuffle(Translation *t, const Instruction *in) {
    const Operand *to = &in->operands[0];
    expect_operands(t, in, 5);
    fprintf(t->out,
            "{ pred inside; %s = ptx_shfl_sync_%s_%s(%s, %s, %s, %s, &inside, (void *)%u); ",
            to->text, in->parts[2], last_part(in), in->operands[1].text, in->operands[2].text,
            in->operands[3].text, in->operands[4].text, next_place(t));
    if (*to->other) fprintf(t->out, "%s = inside; ", to->other);
    fputs("}", t->out);
}

/* setp.lt[.and].f32 p, a, b[, c] */
static void write_compare(Translation *t, const Instruction *in) {
    const bool joins = in->part_count == 4 && strcmp(in->parts[2], "ftz") != 0;
    const char *sign = !joins                             ? ""
                       : strcmp(in->parts[2], "and") == 0 ? "&"
                       : strcmp(in->parts[2], "or") == 0  ? "|"
                       : strcmp(in->parts[2], "xor") == 0 ? "^"
                                                          : NULL;
    if (!sign || in->part_count > 4 || *in->operands[0].other)
        ptx_fail(t, "%s is not known", in->whole);
    expect_operands(t, in, joins ? 4 : 3);
    fprintf(t->out, "%s = ptx_setp_%s_%s(%s, %s)", in->operands[0].text, in->parts[1],
            last_part(in), in->operands[1].text, in->operands[2].text);
    if (joins) fprintf(t->out, " %s %s", sign, in->operands[3].text);
    fputs(";", t->out);
}

/* mov of {a, b}, of an address, of a register. */
static void write_mov(Translation *t, const Instruction *in) {
    const Operand *to = &in->operands[0], *from = &in->operands[1];
    const unsigned bits = 8 * bytes_of(last_part(in));
    expect_operands(t, in, 2);
    if (to->kind == PIECES) {
        fprintf(t->out, "{ const u64 whole = %s; ", from->text);
        for (size_t i = 0; i < to->count; i++)
            if (*to->pieces[i])
                fprintf(t->out, "%s = (u64)(whole >> %zu) & ~0ull >> %zu; ", to->pieces[i],
                        i * bits / to->count, 64 - bits / to->count);
        fputs("}", t->out);
    } else if (from->kind == PIECES) {
        fprintf(t->out, "%s = 0", to->text);
        for (size_t i = 0; i < from->count; i++)
            fprintf(t->out, " | (u64)%s << %zu", from->pieces[i], i * bits / from->count);
        fputs(";", t->out);
    } else if (from->kind == NAME) {
        fprintf(t->out, "%s = (u64)%s%s;", to->text, from->text,
                ptx_is_shared(t, from->name) ? " - (u64)__start_simt_shared" : "");
    } else {
        fprintf(t->out, "%s = ptx_mov_%s(%s);", to->text, last_part(in), from->text);
    }
}

static void write_wait(Translation *t, const Instruction *in) {
    const bool lanes = strcmp(in->parts[1], "warp") == 0;
    expect_operands(t, in, 1);
    fprintf(t->out, "ptx_bar_%ssync(%s, (void *)%u);", lanes ? "warp_" : "", in->operands[0].text,
            next_place(t));
}

static void write_ordinary(Translation *t, const Instruction *in) {
    if (in->operand_count < 2) ptx_fail(t, "%s is not known", in->whole);
    fprintf(t->out, "%s = ptx", in->operands[0].text);
    for (size_t i = 0; i < in->part_count; i++) fprintf(t->out, "_%s", in->parts[i]);
    for (size_t i = 1; i < in->operand_count; i++) {
        if (in->operands[i].kind != VALUE)
            ptx_fail(t, "%s: an operand that is no value", in->whole);
        fprintf(t->out, "%s%s", i == 1 ? "(" : ", ", in->operands[i].text);
    }
    fputs(");", t->out);
}

static void write_branch(Translation *t, const Instruction *in) {
    expect_operands(t, in, 1);
    fprintf(t->out, "goto %s;", in->operands[0].text);
}

static void write_return(Translation *t, const Instruction *in) {
    expect_operands(t, in, 0);
    fputs("return;", t->out);
}

static void write_instruction(Translation *t, const Instruction *in) {
    const char *name = in->parts[0];
    if (strcmp(name, "ld") == 0)
        write_move(t, in, true);
    else if (strcmp(name, "st") == 0)
        write_move(t, in, false);
    else if (strcmp(name, "atom") == 0 || strcmp(name, "red") == 0)
        write_atomic(t, in);
    else if (strcmp(name, "fence") == 0 || strcmp(name, "membar") == 0)
        write_fence(t, in);
    else if (strcmp(in->whole, "prefetch.global.L2") == 0)
        fputs(";", t->out); /* changes no value */
    else if (strcmp(name, "bar") == 0 || strcmp(name, "barrier") == 0)
        write_wait(t, in);
    else if (strcmp(name, "shfl") == 0)
        write_shuffle(t, in);
    else if (strcmp(name, "setp") == 0)
        write_compare(t, in);
    else if (strcmp(name, "mov") == 0)
        write_mov(t, in);
    else if (strcmp(name, "bra") == 0)
        write_branch(t, in);
    else if (strcmp(name, "ret") == 0 || strcmp(name, "exit") == 0)
        write_return(t, in);
    else if (strcmp(name, "nanosleep") == 0)
        fprintf(t->out, "simt_machine.pause((void *)%u);", next_place(t));
    else if (strcmp(name, "trap") == 0)
        fputs("simt_machine.ptx_fail(\"trap\");", t->out);
    else
        write_ordinary(t, in);
}

/* A name or a list of names in parentheses, separated by commas, onto `made`. */
static size_t name_list(Translation *t, char *made, size_t size) {
    size_t count = 0, used = strlen(made);
    if (!ptx_take(t, "(")) return 0;
    while (!t->failed && !ptx_is(t, ")")) {
        char word[WORD_SIZE], name[TEXT_SIZE];
        ptx_take_word(t, word);
        ptx_c_name(word, name, sizeof name);
        used += (size_t)snprintf(made + used, used < size ? size - used : 0, "%s%s",
                                 used ? ", " : "", name);
        if (used >= size) ptx_fail(t, "too many arguments");
        count++;
        ptx_take(t, ",");
    }
    ptx_want(t, ")");
    return count;
}

/* call.uni (result), function, (arguments); */
static void write_call(Translation *t) {
    char arguments[4096] = "", function[WORD_SIZE], name[TEXT_SIZE];
    if (name_list(t, arguments, sizeof arguments)) ptx_want(t, ",");
    ptx_take_word(t, function);
    ptx_c_name(function, name, sizeof name);
    if (ptx_take(t, ",")) name_list(t, arguments, sizeof arguments);
    fprintf(t->out, "%s(%s);", name, arguments);
}

static void parse_instruction(Translation *t) {
    Instruction in = {.part_count = 0};
    ptx_take_word(t, in.whole);
    split(t, &in);
    if (strcmp(in.parts[0], "call") == 0) {
        write_call(t);
    } else {
        while (!t->failed && !ptx_is(t, ";")) {
            if (in.operand_count == OPERANDS_MOST) {
                ptx_fail(t, "%s has too many operands", in.whole);
                break;
            }
            ptx_parse_operand(t, &in.operands[in.operand_count++]);
            if (!ptx_take(t, ",")) break;
        }
        if (!t->failed) write_instruction(t, &in);
    }
    ptx_want(t, ";");
    fputc('\n', t->out);
}

/* ---- declarations ---- */

static void skip_alignment(Translation *t, unsigned *alignment) {
    while (ptx_take(t, ".align")) {
        char word[WORD_SIZE];
        ptx_take_word(t, word);
        *alignment = (unsigned)atoi(word);
    }
}

typedef struct Declared {
    char name[WORD_SIZE], c[TEXT_SIZE];
    unsigned bytes, alignment;
} Declared;

/* [.align N] .type name [ [N] ], behind .param, .shared or .local. */
static Declared parse_declared(Translation *t) {
    Declared made = {.alignment = 0};
    char type[WORD_SIZE];
    skip_alignment(t, &made.alignment);
    ptx_take_word(t, type);
    skip_alignment(t, &made.alignment);
    ptx_take_word(t, made.name);
    ptx_c_name(made.name, made.c, sizeof made.c);
    made.bytes = bytes_of(type + 1);
    if (!made.alignment) made.alignment = made.bytes;
    if (ptx_take(t, "[")) {
        char count[WORD_SIZE];
        ptx_take_word(t, count);
        made.bytes *= (unsigned)atoi(count);
        ptx_want(t, "]");
    }
    if (!made.bytes || !made.alignment)
        ptx_fail(t, "%s: a type or a size that is not known", made.name);
    return made;
}

static void write_shared(Translation *t) {
    const Declared made = parse_declared(t);
    if (t->shared_count == SHARED_MOST) {
        ptx_fail(t, "more than %d arrays in shared memory", SHARED_MOST);
        return;
    }
    snprintf(t->shared[t->shared_count++], WORD_SIZE, "%s", made.name);
    fprintf(t->out,
            "static unsigned char %s[%u] __attribute__((section(\"simt_shared\"), used, "
            "aligned(%u)));\n",
            made.c, made.bytes, made.alignment);
    ptx_want(t, ";");
}

static void write_local(Translation *t) {
    const Declared made = parse_declared(t);
    fprintf(t->out, "unsigned char %s[%u] __attribute__((aligned(%u)));\n", made.c, made.bytes,
            made.alignment < 16 ? 16 : made.alignment);
    ptx_want(t, ";");
}

/* .reg .type %name<N>; or .reg .type a, b; */
static void write_registers(Translation *t) {
    char type[WORD_SIZE], word[WORD_SIZE], name[TEXT_SIZE];
    ptx_take_word(t, type);
    do {
        ptx_take_word(t, word);
        ptx_c_name(word, name, sizeof name);
        if (!ptx_take(t, "<")) {
            fprintf(t->out, "%s %s;\n", type + 1, name);
            continue;
        }
        ptx_take_word(t, word);
        const int count = atoi(word);
        ptx_want(t, ">");
        for (int i = 0; i < count; i++)
            fprintf(t->out, "%s%s%s%d", i % 16 == 0 ? type + 1 : "", i % 16 == 0 ? " " : ", ", name,
                    i),
                fputs(i % 16 == 15 || i == count - 1 ? ";\n" : "", t->out);
    } while (ptx_take(t, ","));
    ptx_want(t, ";");
}

static void skip_statement(Translation *t) {
    while (!t->failed && t->next.kind != TOKEN_END && !ptx_is(t, ";")) ptx_advance(t);
    ptx_want(t, ";");
}

static bool parse_directive(Translation *t) {
    if (ptx_take(t, ".reg"))
        write_registers(t);
    else if (ptx_take(t, ".param") || ptx_take(t, ".local"))
        write_local(t);
    else if (ptx_take(t, ".shared"))
        write_shared(t);
    else if (ptx_is(t, ".pragma"))
        skip_statement(t);
    else
        return false;
    return true;
}

/* @p or @!p */
static void write_guard(Translation *t) {
    char word[WORD_SIZE], name[TEXT_SIZE];
    if (!ptx_take(t, "@")) return;
    const bool negated = ptx_take(t, "!");
    ptx_take_word(t, word);
    ptx_c_name(word, name, sizeof name);
    fprintf(t->out, "if (%s%s) ", negated ? "!" : "", name);
}

static bool write_label(Translation *t) {
    const char *at = t->at;
    while (*at == ' ' || *at == '\t') at++;
    if (t->next.kind != TOKEN_WORD || *at != ':' || at[1] == ':') return false;
    char name[TEXT_SIZE];
    ptx_c_name(t->next.word, name, sizeof name);
    fprintf(t->out, "%s:;\n", name);
    ptx_advance(t);
    ptx_want(t, ":");
    return true;
}

static void parse_body(Translation *t) {
    int depth = 1;
    while (!t->failed && depth > 0) {
        if (t->next.kind == TOKEN_END) {
            ptx_fail(t, "the body of a function does not end");
        } else if (ptx_take(t, "{")) {
            fputs("{\n", t->out);
            depth++;
        } else if (ptx_take(t, "}")) {
            fputs("}\n", t->out);
            depth--;
        } else if (!parse_directive(t) && !write_label(t)) {
            write_guard(t);
            parse_instruction(t);
        }
    }
}

/* ---- functions ---- */

/* ( .param ..., .param ... ) as parameters of C, onto `made`; the bytes of the last. */
static size_t parse_parameters(Translation *t, char *made, size_t size, unsigned *bytes) {
    size_t count = 0, used = strlen(made);
    if (!ptx_take(t, "(")) return 0;
    while (!t->failed && !ptx_is(t, ")")) {
        ptx_want(t, ".param");
        const Declared parameter = parse_declared(t);
        used += (size_t)snprintf(made + used, used < size ? size - used : 0, "%sunsigned char *%s",
                                 used ? ", " : "", parameter.c);
        if (used >= size) ptx_fail(t, "too many parameters");
        *bytes = parameter.bytes;
        count++;
        ptx_take(t, ",");
    }
    ptx_want(t, ")");
    return count;
}

/* .maxntid a, b, c and others, ahead of the body: the threads that a block may have. */
static unsigned parse_bounds(Translation *t) {
    unsigned threads = 0;
    while (t->next.kind == TOKEN_WORD && *t->next.word == '.') {
        const bool bound = ptx_is(t, ".maxntid") || ptx_is(t, ".reqntid");
        unsigned product = 1;
        ptx_advance(t);
        do {
            char word[WORD_SIZE];
            ptx_take_word(t, word);
            product *= (unsigned)atoi(word);
        } while (ptx_take(t, ","));
        if (bound) threads = product;
    }
    return threads;
}

static void parse_entry(Translation *t) {
    char word[WORD_SIZE], parameters[4096] = "";
    unsigned bytes = 0;
    ptx_take_word(t, word);
    if (parse_parameters(t, parameters, sizeof parameters, &bytes) != 1)
        ptx_fail(t, "the kernel %s does not take one structure", word);
    const unsigned threads = parse_bounds(t);
    ptx_want(t, "{");
    fprintf(t->out, "static void kernel_%s(%s) {\n", word, parameters);
    parse_body(t);
    fprintf(t->out,
            "extern \"C\" void simt_enter_%s(const void *arguments) {\n"
            "    kernel_%s((unsigned char *)arguments);\n"
            "}\n"
            "extern \"C\" const unsigned long simt_size_%s = %u;\n"
            "extern \"C\" const unsigned simt_bound_%s = %u;\n",
            word, word, word, bytes, word, threads);
}

static void parse_function(Translation *t) {
    char word[WORD_SIZE], name[TEXT_SIZE], parameters[4096] = "";
    unsigned bytes = 0;
    parse_parameters(t, parameters, sizeof parameters, &bytes);
    ptx_take_word(t, word);
    ptx_c_name(word, name, sizeof name);
    parse_parameters(t, parameters, sizeof parameters, &bytes);
    parse_bounds(t);
    fprintf(t->out, "static void %s(%s)", name, parameters);
    if (ptx_take(t, ";")) {
        fputs(";\n", t->out);
        return;
    }
    ptx_want(t, "{");
    fputs(" {\n", t->out);
    parse_body(t);
}

static void skip_line(Translation *t) {
    const int line = t->next.line;
    while (t->next.kind != TOKEN_END && t->next.line == line) ptx_advance(t);
}

bool ptx_translate(const char *text, FILE *out, char *message, size_t message_size) {
    Translation *t = calloc(1, sizeof *t);
    if (!t) {
        snprintf(message, message_size, "out of memory");
        return false;
    }
    t->at = text;
    t->line = 1;
    t->out = out;
    t->message = message;
    t->message_size = message_size;
    ptx_advance(t);
    while (!t->failed && t->next.kind != TOKEN_END) {
        if (ptx_is(t, ".version") || ptx_is(t, ".target") || ptx_is(t, ".address_size"))
            skip_line(t);
        else if (ptx_take(t, ".visible") || ptx_take(t, ".weak"))
            continue;
        else if (ptx_take(t, ".entry"))
            parse_entry(t);
        else if (ptx_take(t, ".func"))
            parse_function(t);
        else if (ptx_take(t, ".shared"))
            write_shared(t);
        else
            ptx_fail(t, "%s is not known", t->next.word);
    }
    const bool good = !t->failed;
    free(t);
    return good;
}
