/* library.h: the device functions under templates/ as pieces of text, read when Lockstep is built.
 *
 * A piece is a macro; a function (LS_FN type name(...) to its closing brace); the use of a macro at
 * the start of a line; an #undef; a choice (#if to its #endif); other code. library_build.c reads
 * the files, expands the uses to see what functions they define, and writes what each piece needs
 * as tables; library.c picks from those what a text needs. */
#ifndef LIBRARY_H
#define LIBRARY_H

typedef struct Word {
    const char *text;
    size_t size;
} Word;

typedef enum PieceKind {
    PIECE_OTHER,
    PIECE_FUNCTION,
    PIECE_MACRO,
    PIECE_USE,
    PIECE_UNDEF,
    PIECE_CHOICE
} PieceKind;

/* Places are in the text of a file under templates/; `need_first` and `need_count` are of the
 * pieces that this one uses. */
typedef struct Piece {
    uint8_t kind; /* PieceKind */
    bool blank_before;
    uint16_t file, name_size; /* of the function or macro */
    uint32_t text, code, end; /* with the comment before it, without it, behind it */
    uint32_t name;
    uint32_t need_first, need_count;
} Piece;

/* A word that a piece defines, in a hash table; the piece counts from 1, 0: none. */
typedef struct DefinedWord {
    uint32_t text; /* in `words` */
    uint16_t size, piece;
} DefinedWord;

typedef struct Library {
    const char *name;         /* of the target's dialect */
    const char *const *files; /* the text of each */
    const Piece *pieces;
    const uint16_t *needs;
    const DefinedWord *defined;
    const char *words;
    uint32_t piece_count, defined_count; /* the latter a power of two */
} Library;

/* library_words.c */
Word library_word_at(const char *text);
size_t library_slot(const Library *library, Word word); /* its place in `defined`, or a free one */
const Piece *library_find(const Library *library, Word word);
const char *library_line_end(const char *at);
/* What the use of a macro stands for; `arguments` is behind the opening bracket. */
void library_expand(const Library *library, Text *out, const Piece *macro, const char *arguments);

/* library_tables.c, which library_build.c writes */
extern const Library library_tables[];
extern const size_t library_table_count;
/* A serial number for what decides bits and is written in C: the order in which adjoints add up
 * and where they are exactly 0 (derive.c, adjoint.c), and what lower.c makes of mean, norm, lerp
 * and the like. Whoever changes one of those raises it. Hashed with the texts that decide bits it
 * is `numeric_texts`: see numeric.c; tests/interp/test_constants.c has the version that results. */
enum { NUMERIC_SERIAL = 3 };
extern const uint64_t numeric_texts;

#endif
