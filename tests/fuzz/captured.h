/* captured.h: words of texts, for captured.c. */
#ifndef CAPTURED_H
#define CAPTURED_H

#include <stdbool.h>
#include <stddef.h>

enum { TARGETS = 3 };

typedef struct Token {
    const char *text;
    size_t size;
    bool name;
} Token;

size_t word_size(const char *text);   /* of the name that begins there, or 0 */
size_t number_size(const char *text); /* of the number, or 0 */
/* The next token of a C text, moving past it; comments are none. false: there is none. */
bool token_next(const char **text, Token *token);
bool step_token_next(const char **text, Token *token); /* of a .step text */
/* Whether two C texts differ in names only, one for one in each function, and in none that is not
 * declared in them. Says what it finds. */
bool same_but_for_names(const char *plain, const char *nasty);

#endif
