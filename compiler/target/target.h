/* target.h: what a target is, and the device functions that its kernels are made of.
 *
 * A target is a row of numbers and spellings: nobody asks whether it is CUDA. */
#ifndef LOCKSTEP_TARGET_H
#define LOCKSTEP_TARGET_H

/* Rows of up to `rows` times 128 elements, each by one of a block's warps; or with `rows` 0 of up
 * to `tiles` times 1024, each by a block, and in registers where it has as many warps. */
typedef struct RowClass {
    uint32_t warps, rows, tiles;
} RowClass;
enum { ROW_CLASSES = 3 };
uint64_t target_row_most(const RowClass *rows); /* elements */

/* targets.def's rows. A dialect: with `simt`, 32 lanes work on an item of 1024 elements, four
 * neighbours each at a time; without, one thread does. */
typedef struct Target {
    const char *name;             /* "cuda" */
    const char *title;            /* "CUDA"; NULL where messages need none */
    const char *device;           /* whose driver runs it: "cuda"; NULL: none */
    const char *toolchain;        /* which makes code of it: "nvrtc"; NULL: it is emitted only */
    const char *second;           /* another one, for what the first does not know; or NULL */
    const char *prelude;          /* its file under templates/ */
    const char *const *libraries; /* the other files, in order, NULL-terminated */
    const char *fast; /* that of them with ls_NAME_fast_TYPE for ls_NAME_TYPE under `math fast` */
    bool simt;
    /* Entry points take the address of their arguments, and all memory of a block is theirs: other
     * functions find it through the arguments. */
    bool by_address;
    unsigned converts_from; /* the device, 80 for sm_80, from which on an instruction rounds to bf16
                               and f16; 0: none does */
    bool divides;           /* by its prelude's function, not by the compiler's operator */
    /* Uses of costly functions among the values of a phase's nest, copies by passes among them, up to
     * which each use is a copy of the function; where there are more, they are calls. */
    uint32_t inlined_uses;
    /* How a launch is shaped; see ls_image_kernel. */
    uint32_t threads, one_block_threads, blocks_per_multiprocessor, items_per_block;
    uint32_t processors; /* that reports take a device to have: multiprocessors, or CPU threads */
    uint32_t columns;    /* columns an item of a column phase takes */
    /* Bytes that a thread loads ahead of their use, of a tile of a row and down a column; 0: each
     * is used as it comes. */
    uint32_t row_loads, column_loads;
    /* Rows of a tile that a GPU's loop has at once, and vectors that a CPU's has side by side; 0:
     * as compilers like. */
    uint32_t rows_at_once, vectors_at_once;
    /* Bytes of results that nobody reads back from which on one thread writes them past the caches,
     * where a plain store would fetch every line only to overwrite it: of maps, and of rows, which
     * are read again while they are near. */
    uint64_t streamed, streamed_rows;
    /* Chains: the tiles that a worker's nearest caches hold (0: workers have none); rows up to
     * which they are few, and tiles from which on a row is long: then each phase has a kernel of
     * its own. */
    uint32_t near_tiles, few_strips, many_tiles;
    /* Rows that stay in registers: how long, and by how many warps; and what the loads that several
     * phases of a row share may take of a thread's registers. */
    RowClass row_classes[ROW_CLASSES];
    uint32_t row_registers;
    uint64_t on_chip_bytes; /* of a row, up to which what is read again is still near */
    /* Elements visited up to which a step runs in one block, up to which in one launch of blocks
     * that wait for each other (0: blocks cannot); and of a phase of a tail, of one part of a
     * follower, of a phase of a prologue. */
    uint64_t one_block_limit, together_limit, tail_limit, part_limit, prologue_limit;
    /* Strips: threads of a block, rows and columns from which on they are worth it, and the bytes
     * of rows and levels that stay on chip. */
    uint32_t strip_threads, strips_per_multiprocessor;
    uint64_t strip_rows, strip_columns, strip_bytes;
} Target;

/* What code for a target is. */
typedef enum TargetCode {
    TARGET_NO_CODE,
    TARGET_SHARED_OBJECT,
    TARGET_CUBIN,
    TARGET_PTX,
    TARGET_CODE_OBJECT /* AMD's */
} TargetCode;
/* Names of targets that begin alike. After the prefix stands something of `first`, unless that is
 * "", and then nothing but what is in `rest`. */
typedef struct TargetKind {
    const char *prefix, *pattern; /* "sm_", and for people "sm_NN" */
    const Target *dialect;
    const char *first, *rest;
    TargetCode code;
    bool ahead_as_text; /* built ahead of time as C: code would be for one machine alone */
} TargetKind;

/* forms.c: what `lockstep tune` tries besides the numbers of a dialect: each form has others. */
typedef struct TargetForm {
    const char *name;
    void (*change)(Target *target);
} TargetForm;
const TargetForm *target_form_at(const Target *target, size_t index); /* NULL behind the last */

/* target.c: the rows by number, NULL behind the last. Those of CHIP and FORM are public:
 * ls_target_at, ls_form_at. The first dialect is the machine's own. */
const Target *target_at(size_t index);
const TargetKind *target_kind_at(size_t index);
/* By a target's name as far as the prefix; NULL if unknown. */
const TargetKind *target_kind(const char *name);
const Target *target_for(const char *name); /* its dialect */
bool target_is_well_formed(const char *name);
/* "cpu, sm_NN and compute_NN (CUDA), gfxNNN (HIP)"; "ir, cuda, cubin:sm_NN and asm[:TARGET]" */
void target_put_kinds(Text *out);
void target_put_forms(Text *out);

/* library.c: the device functions under templates/ as pieces of text, read when Lockstep is built.
 *
 * A piece is a macro; a function (LS_FN type name(...) to its closing brace); the use of a macro at
 * the start of a line; an #undef; a choice (#if to its #endif); other code. library_build.c reads
 * the files, expands the uses to see what functions they define, and writes what each piece needs
 * as tables; library.c picks from those what a text needs. */
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

/* library.c: adds the paragraphs of the target's template files that `code` uses. */
void library_add_used(Compiler *compiler, Text *out, const Target *target, const char *code);

#endif
