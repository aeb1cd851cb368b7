/* habits.c: what is written here for words of other languages. */
#include <string.h>

#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"

static const struct {
    const char *word;
    Habit where;
    const char *text;
} habits[] = {
#define X(word, where, text) {word, HABIT_##where, text},
#include "habits.def"
#undef X
};

const char *habit(Habit where, const Name *word) {
    for (size_t i = 0; word && i < COUNT(habits); i++)
        if (habits[i].where == where && strcmp(habits[i].word, word->text) == 0)
            return habits[i].text;
    return NULL;
}

/* `expf` and its like: the function of double, with an f. */
static const char *without_f(Checker *c, const Name *name) {
    if (name->size < 3 || name->text[name->size - 1] != 'f') return NULL;
    const Name *shorter = name_intern(c->names, name->text, name->size - 1);
    const char *spelling = habit(HABIT_SPELLING, shorter);
    return spelling ? spelling : find_builtin(c, shorter) ? shorter->text : NULL;
}

const char *other_spelling(Checker *c, const Name *name) {
    const char *type = habit(HABIT_TYPE, name), *spelling = habit(HABIT_SPELLING, name);
    if (type) return arena_printf(c->arena, "%s(x)", type);
    return spelling ? spelling : without_f(c, name);
}

/* ---- helps of the parser ---- */

/* Of the words of other languages what is written here, behind an error without another help. */
static void suggest(Parser *p, size_t before, const char *text) {
    const Compiler *compiler = p->compiler;
    const size_t now = compiler->diagnostic_count;
    if (text && now > before && compiler->last_kept && !compiler->diagnostics[now - 1].help)
        diagnose_help(p->compiler, "%s", text);
}

/* `(float)x`: the type that the parentheses before this place hold; NULL: none. */
static const char *cast_before(const Parser *p) {
    const Token *t = &p->tokens.list[p->at];
    if (p->at < 3 || t[-1].kind != TOKEN_CLOSE_PAREN || t[-3].kind != TOKEN_OPEN_PAREN) return NULL;
    return habit(HABIT_TYPE, t[-2].name);
}

void parser_suggest(Parser *p, uint32_t start, size_t before) {
    const Token *here = &p->tokens.list[p->at];
    suggest(p, before, habit(HABIT_STATEMENT, p->tokens.list[start].name));
    if (here->kind == TOKEN_NAME || token_info[here->kind].class == 'K' ||
        token_info[here->kind].class == 'W')
        suggest(p, before, habit(HABIT_END, here->name));
    if (here->kind == TOKEN_COLON && here[1].newline)
        suggest(p, before, "a block stands in braces: `{ ... }`");
    const bool slashes = p->at > start + 1 && here[-2].kind == TOKEN_FLOOR_DIVIDE;
    if (slashes && here->kind == TOKEN_NAME && here[-1].kind == TOKEN_NAME)
        suggest(p, before, "a comment begins with `#`; `//` divides and floors");
    const Token *first = &p->tokens.list[start];
    if (first->kind == TOKEN_LET && habit(HABIT_TYPE, first[1].name))
        suggest(p, before, "the type follows from the value: `let name = value`");
    const char *type = cast_before(p);
    if (type)
        suggest(p, before,
                arena_printf(&p->compiler->arena, "a conversion is a call: `%s(x)`", type));
}

void parser_suggest_item(Parser *p, uint32_t start) {
    suggest(p, 0, habit(HABIT_ITEM, p->tokens.list[start].name));
}
