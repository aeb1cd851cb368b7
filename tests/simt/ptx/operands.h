/* operands.h: the words of PTX and the operands of its instructions, as C. */
#ifndef PTX_OPERANDS_H
#define PTX_OPERANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Of a word of PTX, and of that as C. */
enum { WORD_SIZE = 256, TEXT_SIZE = WORD_SIZE + 32, SHARED_MOST = 256, PIECES_MOST = 4 };

typedef enum TokenKind { TOKEN_END, TOKEN_WORD, TOKEN_SIGN } TokenKind;
typedef struct Token {
    TokenKind kind;
    char word[WORD_SIZE]; /* a sign is a word of one letter */
    int line;
} Token;

typedef struct Translation {
    const char *at; /* behind `next` */
    int line;
    Token next;
    FILE *out;
    char *message;
    size_t message_size;
    bool failed;
    unsigned places;                     /* waits so far */
    char shared[SHARED_MOST][WORD_SIZE]; /* names of shared memory */
    size_t shared_count;
} Translation;

/* The first failure stays; from then on nothing is taken. */
__attribute__((format(printf, 2, 3))) void ptx_fail(Translation *t, const char *format, ...);

/* Goes on to the next word. */
void ptx_advance(Translation *t);
/* Whether the next word is this one; then to go on behind it; or it is a failure when it is not. */
bool ptx_is(const Translation *t, const char *word);
bool ptx_take(Translation *t, const char *word);
void ptx_want(Translation *t, const char *word);
void ptx_take_word(Translation *t, char *word);

/* A name of PTX as one of C: registers r_, everything else s_. */
void ptx_c_name(const char *name, char *made, size_t size);
bool ptx_is_shared(const Translation *t, const char *name);

typedef enum OperandKind { VALUE, NAME, ADDRESS, PIECES } OperandKind;
typedef struct Operand {
    OperandKind kind;
    char text[TEXT_SIZE];                /* C, but for PIECES; of an ADDRESS the base */
    char pieces[PIECES_MOST][TEXT_SIZE]; /* of {a, b}; "" for _ */
    char other[TEXT_SIZE];               /* p|q: q */
    char name[WORD_SIZE];                /* as PTX has it */
    char offset[64];
    size_t count;
} Operand;

void ptx_parse_operand(Translation *t, Operand *operand);

#endif
