/* import_c_text.c: a C function in the words of kernels.
 *
 * The text is clang's own print of the tree, in which macros are expanded, word by word: functions
 * get a prefix, locals and members another one, enumerators are their values and typedefs the types
 * behind them. A word that nobody has accounted for makes the function one that cannot be imported.
 */
#include <ctype.h>
#include <string.h>

#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"
#include "front/clang.h"

/* Words that stand for themselves. */
static const char own_words[] =
    " auto break case char const continue default do double else float for if int long register "
    "return short signed sizeof struct switch union unsigned void while ";

static const char *word_text(Walk *w, const char *word) {
    for (const Word *known = w->words; known; known = known->next)
        if (strcmp(known->name, word) == 0) return known->text;
    if (strcmp(word, "_Bool") == 0) return "LS_C_BOOL";
    if (strcmp(word, "bool") == 0) return "LS_C_BOOL";
    const char *found = strstr(own_words, arena_printf(w->c->arena, " %s ", word));
    return found ? word : NULL;
}

/* The body as clang prints it, in our words; NULL when a word is not accounted for. */
static const char *translate(Walk *w, const char *body) {
    Text text = text_open(w->c->arena);
    for (const char *s = body; *s;) {
        size_t size = 1;
        if (isalpha((unsigned char)*s) || *s == '_') {
            while (isalnum((unsigned char)s[size]) || s[size] == '_') size++;
            const char *word = arena_copy(w->c->arena, s, size), *ours = word_text(w, word);
            if (!ours) {
                c_problem(w, w->function,
                          arena_printf(w->c->arena, "`%s` in it is not understood", word));
                return NULL;
            }
            text_puts(&text, ours);
        } else if (isdigit((unsigned char)*s) || (*s == '.' && isdigit((unsigned char)s[1]))) {
            while (isalnum((unsigned char)s[size]) || s[size] == '.' ||
                   ((s[size] == '+' || s[size] == '-') && strchr("eEpP", s[size - 1])))
                size++;
            text_add(&text, s, size);
        } else if (*s == '\'') {
            while (s[size] && s[size] != '\'') size += s[size] == '\\' ? 2 : 1;
            text_add(&text, s, ++size);
        } else if (*s == '"' || *s == '#' || *s == '@') {
            c_problem(w, w->function, "it contains a text");
            return NULL;
        } else {
            text_add(&text, s, 1);
        }
        s += size;
    }
    while (text.size && isspace((unsigned char)text.data[text.size - 1]))
        text.data[--text.size] = '\0';
    return text.data;
}

const char *c_type(Type type) {
    return type == TYPE_BOOL ? "LS_C_BOOL" : type_info[type].c_name;
}

/* As clang prints it. */
static const char *print(Walk *w, CXCursor cursor) {
    void *policy = w->u->clang.clang_getCursorPrintingPolicy(cursor);
    CXString printed = w->u->clang.clang_getCursorPrettyPrinted(cursor, policy);
    w->u->clang.clang_PrintingPolicy_dispose(policy);
    return clang_text(w->c, w->u, printed);
}

/* The constants of the header ahead of the body; NULL after a problem. */
static const char *add_constants(Walk *w, const char *body) {
    Text text = text_open(w->c->arena);
    text_puts(&text, "{\n");
    for (size_t i = 0; i < w->constant_count; i++) {
        const char *whole = print(w, w->constants[i]), *equals = strchr(whole, '=');
        if (equals && strchr(equals, '[')) {
            c_problem(w, w->function,
                      arena_printf(w->c->arena,
                                   "it uses the global `%s`, whose value has designators",
                                   c_spelling(w, w->constants[i])));
            return NULL;
        }
        while (strncmp(whole, "static ", 7) == 0 || strncmp(whole, "extern ", 7) == 0) whole += 7;
        const char *ours = translate(w, whole);
        if (!ours) return NULL;
        text_printf(&text, "    %s;\n", ours);
    }
    text_puts(&text, body + 1); /* behind its brace */
    return text.data;
}

const char *c_definition(Walk *w, const CFunction *function, const char *const *names) {
    const char *body = strchr(print(w, w->function), '{');
    body = body ? translate(w, body) : NULL;
    if (body && w->constant_count) body = add_constants(w, body);
    if (!body) return NULL;
    Text text = text_open(w->c->arena);
    text_printf(&text, "LS_FN %s ls_c_%s(",
                w->result_type ? w->result_type : c_type(function->result), function->name);
    for (size_t i = 0; i < function->parameter_count; i++) {
        const char *type = w->parameter_types[i];
        text_printf(&text, "%s%s c_%s", i ? ", " : "",
                    type ? type : c_type(function->parameters[i]), names[i]);
    }
    text_printf(&text, "%s) %s\n", function->parameter_count ? "" : "void", body);
    return text.data;
}
