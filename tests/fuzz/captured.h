/* captured.h: the parts of captured.c. */
#ifndef CAPTURED_H
#define CAPTURED_H

#include <stdbool.h>
#include <stddef.h>

enum { TARGETS = 3, ROLES = 6, SLOTS_MAX = 400 };
extern const char *const captured_targets[TARGETS];

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

/* captured_pool.c */
typedef struct Words {
    char **list;
    size_t count, capacity;
} Words;
bool in_words(const Words *words, const char *word, size_t size);
void add_word(Words *words, const char *word, size_t size); /* unless it is there */
/* Of the programs' texts for all targets, and of names.c. `visit` sees every image, with the number
 * of its program. */
struct ls_image;
typedef void PoolVisit(void *user, size_t number, const struct ls_image *image);
Words make_pool(char *const *paths, size_t path_count, PoolVisit *visit, void *user);
bool begins(const char *word, const char *with);
bool is_legal(const char *word); /* whether the language takes it for a name */
bool is_fixed(const char *word); /* whether it has no suffix: others are made of stems */

/* captured_rename.c */
typedef struct Slot {
    char name[64], nasty[80], plain[80];
    int role;
} Slot;

/* Of one program: the words of its generated text that are not made of its names, and whose turn it
 * is. These come first. */
typedef struct Own {
    Words words;
    size_t cursor;
} Own;

typedef struct Renamed {
    Own *own;
    Slot slots[SLOTS_MAX];
    size_t count;
    Words others; /* words that stay as they are */
} Renamed;

extern const char *const captured_roles[ROLES];
extern size_t captured_cursors[ROLES]; /* in the pool */
/* `text` has two characters before it. */
Renamed *rename_program(const char *text, const Words *pool, Own *own);
char *rename_text(Renamed *r, const char *text, bool nasty); /* malloc'ed */
void rename_drop(Renamed *r);

#endif
