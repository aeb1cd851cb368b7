/* shrink.c: makes a failing program smaller, as long as it fails in the same way.
 *
 * A cut replaces a range of the text by another text. Each pass offers cuts of one kind, larger
 * ones first: whole steps, blocks and lines; axes; runs, fills and lengths in the directives;
 * expressions by one of their operands or by a constant. What does not compile is dropped at once,
 * and costs no attempt. */
#include "check.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec.h"

typedef struct Shrink {
    const Case *failed;
    const char *log;
    size_t tries;
    char *text; /* the smallest so far */
} Shrink;

static char *copy_text(const char *text, size_t size) {
    char *copy = must_allocate(size + 1);
    memcpy(copy, text, size);
    return copy;
}

static bool compiles(const char *text) {
    ls_compilation *compilation = NULL;
    const bool good =
        ls_compile_text("shrunk", text, strlen(text), &exec_options, &compilation) == LS_OK &&
        ls_compilation_step_count(compilation) > 0;
    ls_compilation_destroy(compilation);
    return good;
}

/* Takes the candidate, which is malloc'ed, if it fails as the text does. */
static bool take(Shrink *s, char *candidate) {
    if (s->tries > 0 && strcmp(candidate, s->text) != 0 && compiles(candidate)) {
        s->tries--;
        if (check_text(s->failed, candidate, s->failed->machine, s->log) == s->failed->verdict) {
            free(s->text);
            s->text = candidate;
            return true;
        }
    }
    free(candidate);
    return false;
}

/* Replaces text[from .. to). */
static bool cut(Shrink *s, size_t from, size_t to, const char *by) {
    const size_t size = strlen(s->text), added = strlen(by);
    char *candidate = must_allocate(size - (to - from) + added + 1);
    memcpy(candidate, s->text, from);
    memcpy(candidate + from, by, added);
    memcpy(candidate + from + added, s->text + to, size - to + 1);
    return take(s, candidate);
}

static size_t line_end(const char *text, size_t at) {
    while (text[at] && text[at] != '\n') at++;
    return text[at] ? at + 1 : at;
}

/* Behind the bracket that closes the one at `at`; 0: none does. */
static size_t closing(const char *text, size_t at) {
    int depth = 0;
    for (; text[at]; at++) {
        depth += strchr("([{", text[at]) != NULL;
        depth -= strchr(")]}", text[at]) != NULL;
        if (depth == 0) return at + 1;
    }
    return 0;
}

/* ---- steps, blocks and lines ---- */

static bool cut_steps(Shrink *s) {
    bool any = false;
    for (size_t at = 0; s->text[at]; at = line_end(s->text, at)) {
        while (strncmp(s->text + at, "step ", 5) == 0) {
            size_t end = at + strcspn(s->text + at, "{");
            end = s->text[end] ? closing(s->text, end) : 0;
            if (!end || !cut(s, at, line_end(s->text, end), "")) break;
            any = true;
        }
    }
    return any;
}

static bool cut_lines(Shrink *s) {
    bool any = false;
    for (size_t at = 0; s->text[at];) {
        const size_t end = line_end(s->text, at);
        const size_t brace = at + strcspn(s->text + at, "{\n");
        if (s->text[at] == '#' || strncmp(s->text + at, "step ", 5) == 0) {
            at = end;
            continue;
        }
        if (s->text[brace] == '{') { /* a block: all of it, or its braces */
            const size_t close = closing(s->text, brace);
            if (close && cut(s, at, line_end(s->text, close), "")) {
                any = true;
                continue;
            }
            if (close) {
                char *inside = copy_text(s->text + brace + 1, close - brace - 2);
                const bool taken = cut(s, at, close, inside);
                free(inside);
                if (taken) {
                    any = true;
                    continue;
                }
            }
        } else if (cut(s, at, end, "")) {
            any = true;
            continue;
        }
        at = end;
    }
    return any;
}

/* ---- axes ---- */

static bool in_name(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

/* The text without an axis, wherever it stands in a list of axes. */
static char *without_axis(const char *text, const char *name, size_t size) {
    char *made = must_allocate(strlen(text) + 1);
    size_t used = 0;
    for (size_t at = 0; text[at];) {
        const bool word = strncmp(text + at, name, size) == 0 && !in_name(text[at + size]) &&
                          (at == 0 || !in_name(text[at - 1]));
        const bool first = at > 0 && text[at - 1] == '[';
        const bool later = at > 1 && strncmp(text + at - 2, ", ", 2) == 0;
        const size_t end = at + size;
        if (word && (first || later) && (text[end] == ']' || text[end] == ',')) {
            if (later) used -= 2;
            at = end;
            if (first && strncmp(text + at, ", ", 2) == 0) at += 2;
            if (first && text[at] == ']' && used > 0) used--, at++; /* nothing is left */
        } else {
            made[used++] = text[at++];
        }
    }
    made[used] = '\0';
    return made;
}

static bool cut_axes(Shrink *s) {
    bool any = false;
    const char *step = strstr(s->text, "step ");
    if (!step) return false;
    size_t at = (size_t)(step - s->text) + strcspn(step, "[(");
    while (s->text[at] && s->text[at] != ']' && s->text[at] != '(') {
        if (!in_name(s->text[at])) {
            at++;
            continue;
        }
        size_t size = 0;
        while (in_name(s->text[at + size])) size++;
        if (take(s, without_axis(s->text, s->text + at, size)))
            any = true;
        else
            at += size;
    }
    return any;
}

/* ---- directives ---- */

static bool cut_number(Shrink *s, size_t at) {
    const long long number = strtoll(s->text + at, NULL, 10);
    const size_t digits = strspn(s->text + at, "0123456789");
    const long long smaller[] = {0, 1, 2, 3, number / 8, number / 2, number - 1};
    char text[32];
    for (size_t i = 0; i < sizeof smaller / sizeof *smaller; i++) {
        if (smaller[i] >= number || smaller[i] < 0) continue;
        snprintf(text, sizeof text, "%lld", smaller[i]);
        if (cut(s, at, at + digits, text)) return true;
    }
    return false;
}

static bool cut_directives(Shrink *s) {
    bool any = false;
    for (size_t at = 0; s->text[at] == '#'; at = line_end(s->text, at)) {
        const size_t colon = at + strcspn(s->text + at, ":\n");
        if (s->text[colon] != ':') continue;
        /* one set of lengths, one fill, a tensor less */
        for (size_t i = colon + 1; s->text[i] && s->text[i] != '\n'; i++) {
            const size_t end = i + 1 + strcspn(s->text + i + 1, "; \n+");
            const size_t set = i + 1 + strcspn(s->text + i + 1, ";\n");
            if (s->text[i] == ';' && cut(s, i, set, "")) any = true;
            if (s->text[i] == ';' && cut(s, colon + 1, i + 1, "")) any = true;
            if (s->text[i] == '+' && cut(s, i, end, "")) any = true;
        }
        for (size_t i = colon + 1; s->text[i] && s->text[i] != '\n'; i++)
            if (isdigit((unsigned char)s->text[i]) && strchr("=+ ", s->text[i - 1]))
                while (cut_number(s, i)) any = true;
    }
    return any;
}

static bool cut_fills(Shrink *s) {
    if (strstr(s->text, "# fill:")) return false;
    return cut(s, 0, 0, "# fill: normal\n") || cut(s, 0, 0, "# fill: special\n");
}

/* ---- expressions ---- */

/* Where an operand ends: at a comma, an operator or a word of `if`, outside brackets. */
static size_t operand_end(const char *text, size_t at, size_t end) {
    static const char *const words[] = {
        " then ", " else ", " and ", " or ", " + ", " - ",  " * ", " / ",  " // ",
        " % ",    " ** ",   " == ",  " != ", " < ", " <= ", " > ", " >= ", ", "};
    while (at < end) {
        if (strchr("([{", text[at])) {
            const size_t behind = closing(text, at);
            at = behind && behind <= end ? behind : at + 1;
            continue;
        }
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (strncmp(text + at, words[i], strlen(words[i])) == 0) return at;
        at++;
    }
    return end;
}

/* The brackets at `open` with the name before them: by each operand inside, or by a constant. */
static bool cut_brackets(Shrink *s, size_t open) {
    static const char *const constants[] = {"1", "true"};
    const size_t end = closing(s->text, open);
    if (!end) return false;
    size_t from = open;
    while (from > 0 && (in_name(s->text[from - 1]) || s->text[from - 1] == '\'')) from--;
    if (from > 0 && from == open && s->text[from - 1] == ']') { /* sum[k](...) */
        while (from > 0 && s->text[from - 1] != '[') from--;
        if (from > 0) from--;
        while (from > 0 && in_name(s->text[from - 1])) from--;
    }
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (strlen(constants[i]) < end - from && cut(s, from, end, constants[i])) return true;
    for (size_t at = open + 1; at < end - 1;) {
        size_t stop = operand_end(s->text, at, end - 1);
        if (strncmp(s->text + at, "if ", 3) == 0) at += 3;
        if (strncmp(s->text + at, "not ", 4) == 0) at += 4;
        if (stop > at) {
            char *operand = must_allocate(stop - at + 3);
            snprintf(operand, stop - at + 3, "(%.*s)", (int)(stop - at), s->text + at);
            const bool bare = from == open && stop - at + 2 == end - open;
            const bool name = strspn(s->text + at, "abcdefghijklmnopqrstuvwxyz_0123456789."
                                                   "ABCDEFGHIJKLMNOPQRSTUVWXYZ") >= stop - at;
            if (name) snprintf(operand, stop - at + 3, "%.*s", (int)(stop - at), s->text + at);
            const bool taken = (!bare || name) && cut(s, from, end, operand);
            free(operand);
            if (taken) return true;
        }
        at = stop + 1;
        at += strcspn(s->text + at, " ()") == 0 ? 0 : strcspn(s->text + at, " ()");
        while (at < end - 1 && s->text[at] == ' ') at++;
    }
    return false;
}

static bool cut_expressions(Shrink *s) {
    bool any = false;
    for (size_t at = 0; s->text[at];) {
        const bool skip = s->text[at] != '(' || at == 0 || s->text[at + 1] == '\n';
        if (skip || !cut_brackets(s, at))
            at++;
        else
            any = true;
    }
    return any;
}

char *shrink(const Case *failed, size_t tries, const char *log) {
    static bool (*const passes[])(Shrink * s) = {cut_steps, cut_fills,      cut_lines,
                                                 cut_axes,  cut_directives, cut_expressions};
    Shrink s = {.failed = failed, .log = log, .tries = tries};
    s.text = copy_text(failed->text, strlen(failed->text));
    for (bool any = true; any && s.tries > 0;) {
        any = false;
        for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) any = passes[i](&s) || any;
    }
    return s.text;
}
