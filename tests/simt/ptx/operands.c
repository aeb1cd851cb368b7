/* operands.c: see operands.h. */
#include "operands.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void ptx_fail(Translation *t, const char *format, ...) {
    va_list arguments;
    if (t->failed) return;
    t->failed = true;
    int used = snprintf(t->message, t->message_size, "PTX, line %d: ", t->next.line);
    va_start(arguments, format);
    vsnprintf(t->message + used, t->message_size - (size_t)used, format, arguments);
    va_end(arguments);
}

/* ---- tokens ---- */

static bool in_word(const char *at) {
    return (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9') ||
           *at == '_' || *at == '$' || *at == '%' || *at == '.';
}

static void skip_space(Translation *t) {
    for (;;) {
        if (*t->at == '\n') t->line++;
        if (*t->at == ' ' || *t->at == '\t' || *t->at == '\n' || *t->at == '\r')
            t->at++;
        else if (t->at[0] == '/' && t->at[1] == '/')
            t->at += strcspn(t->at, "\n");
        else
            return;
    }
}

/* L1::no_allocate is one word, a label's colon none. */
void ptx_advance(Translation *t) {
    size_t size = 0;
    skip_space(t);
    t->next.line = t->line;
    t->next.kind = *t->at ? TOKEN_WORD : TOKEN_END;
    if (*t->at == '"') size = strcspn(t->at + 1, "\"") + 2;
    while (in_word(t->at + size) || (t->at[size] == ':' && t->at[size + 1] == ':'))
        size += t->at[size] == ':' ? 2 : 1;
    if (size == 0 && *t->at) {
        t->next.kind = TOKEN_SIGN;
        size = 1;
    }
    if (size >= WORD_SIZE) {
        ptx_fail(t, "a word of %zu letters", size);
        size = 0;
        t->next.kind = TOKEN_END;
    }
    memcpy(t->next.word, t->at, size);
    t->next.word[size] = 0;
    t->at += size;
}

bool ptx_is(const Translation *t, const char *word) {
    return t->next.kind != TOKEN_END && strcmp(t->next.word, word) == 0;
}
bool ptx_take(Translation *t, const char *word) {
    if (t->failed || !ptx_is(t, word)) return false;
    ptx_advance(t);
    return true;
}
void ptx_want(Translation *t, const char *word) {
    if (!ptx_take(t, word)) ptx_fail(t, "expected %s, found %s", word, t->next.word);
}
void ptx_take_word(Translation *t, char *word) {
    if (t->next.kind != TOKEN_WORD) ptx_fail(t, "expected a word, found %s", t->next.word);
    snprintf(word, WORD_SIZE, "%s", t->next.word);
    ptx_advance(t);
}

/* ---- names ---- */

void ptx_c_name(const char *name, char *made, size_t size) {
    snprintf(made, size, "%s%s", *name == '%' ? "r_" : "s_", *name == '%' ? name + 1 : name);
    for (char *at = made; *at; at++)
        if (*at == '$' || *at == '.') *at = '_';
}

bool ptx_is_shared(const Translation *t, const char *name) {
    for (size_t i = 0; i < t->shared_count; i++)
        if (strcmp(t->shared[i], name) == 0) return true;
    return false;
}

/* What a register of the machine's holds; NULL: it is none. */
static const char *special(const char *name) {
    static const char *const names[][2] = {
        {"%tid.x", "simt_machine.thread.x"},
        {"%ntid.x", "simt_machine.threads.x"},
        {"%ctaid.x", "simt_machine.block.x"},
        {"%nctaid.x", "simt_machine.blocks.x"},
        {"%laneid", "(simt_machine.thread.x & 31)"},
        {"%tid.y", "0"},
        {"%tid.z", "0"},
        {"%ctaid.y", "0"},
        {"%ctaid.z", "0"},
        {"%ntid.y", "1"},
        {"%ntid.z", "1"},
        {"%nctaid.y", "1"},
        {"%nctaid.z", "1"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i][0], name) == 0) return names[i][1];
    return NULL;
}

/* ---- operands ---- */

/* A number: 12, -12, 0x1F, 0f3F800000, 0d3FF0000000000000, with U behind it. */
static bool number_text(const char *word, bool negative, char *made, size_t size) {
    char *end = NULL;
    const bool single = word[0] == '0' && (word[1] == 'f' || word[1] == 'F');
    const bool twice = word[0] == '0' && (word[1] == 'd' || word[1] == 'D');
    if (word[0] < '0' || word[0] > '9') return false;
    const unsigned long long value =
        single || twice ? strtoull(word + 2, &end, 16) : strtoull(word, &end, 0);
    if (*end == 'U') end++;
    if (*end) return false;
    snprintf(made, size, negative ? "(0 - %lluull)" : "%lluull", value);
    return true;
}

/* One word, or a number: as C. */
static void simple_operand(Translation *t, Operand *operand, char *made, size_t size) {
    const bool negative = ptx_take(t, "-");
    char word[WORD_SIZE];
    ptx_take_word(t, word);
    snprintf(operand->name, sizeof operand->name, "%s", word);
    operand->kind = VALUE;
    if (number_text(word, negative, made, size)) return;
    if (negative) ptx_fail(t, "-%s is no number", word);
    if (*word == '%' && special(word)) {
        snprintf(made, size, "%s", special(word));
        return;
    }
    ptx_c_name(word, made, size);
    if (*word == '%' && strchr(word, '.')) ptx_fail(t, "the register %s is not known", word);
    if (*word != '%') operand->kind = NAME;
}

static void address_operand(Translation *t, Operand *operand) {
    simple_operand(t, operand, operand->text, sizeof operand->text);
    const bool named = operand->kind == NAME;
    operand->kind = ADDRESS;
    operand->count = named;
    snprintf(operand->offset, sizeof operand->offset, "0");
    const bool minus = ptx_is(t, "-");
    if (minus || ptx_take(t, "+")) {
        char word[WORD_SIZE];
        const bool negative = ptx_take(t, "-");
        ptx_take_word(t, word);
        if (!number_text(word, negative, operand->offset, sizeof operand->offset))
            ptx_fail(t, "%s is no offset", word);
    }
    ptx_want(t, "]");
}

void ptx_parse_operand(Translation *t, Operand *operand) {
    memset(operand, 0, sizeof *operand);
    if (ptx_take(t, "[")) {
        address_operand(t, operand);
    } else if (ptx_take(t, "{")) {
        do {
            char *piece = operand->pieces[operand->count++];
            simple_operand(t, operand, piece, sizeof operand->pieces[0]);
            if (strcmp(piece, "s__") == 0) *piece = 0;
        } while (operand->count < PIECES_MOST && ptx_take(t, ","));
        ptx_want(t, "}");
        operand->kind = PIECES;
    } else {
        simple_operand(t, operand, operand->text, sizeof operand->text);
        if (ptx_take(t, "|")) {
            Operand second;
            simple_operand(t, &second, operand->other, sizeof operand->other);
        }
    }
}
