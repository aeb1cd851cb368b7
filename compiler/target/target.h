/* target.h: what a target is, and the device functions that its kernels are made of.
 *
 * A target is a row of numbers and spellings: nobody asks whether it is CUDA. */
#ifndef LOCKSTEP_TARGET_H
#define LOCKSTEP_TARGET_H

/* A class of row lengths: up to `rows` times 128 elements, a warp of the block taking a row; or
 * with `rows` 0 up to `tiles` times 1024, a block taking a row, which stays in registers where the
 * block has as many warps as tiles. */
typedef struct RowClass {
    uint32_t warps, rows, tiles;
} RowClass;
enum { ROW_CLASSES = 7 };
uint64_t target_row_max(const RowClass *rows); /* elements */

/* targets.def's rows. A dialect. With `gpu`, the 32 lanes of a warp work on an item of 1024
 * elements, four neighbours each at a time; without, one CPU thread does. */
typedef struct Target {
    const char *name;      /* "cuda" */
    const char *title;     /* "CUDA"; NULL where messages need none */
    const char *device;    /* the driver that runs it: "cuda"; NULL: none */
    const char *toolchain; /* the toolchain that compiles it: "nvrtc"; NULL: it is emitted only */
    const char *second;    /* another one, for what the first does not know; or NULL */
    const char *prelude;   /* its file under templates/ */
    const char *const *libraries; /* the other files, in order, NULL-terminated */
    const char *fast; /* the file among these that has ls_NAME_fast_TYPE for ls_NAME_TYPE under
                         `math fast` */
    bool gpu;
    /* Entry points take the address of their arguments, and all memory of a block is theirs: other
     * functions find it through the arguments. */
    bool by_address;
    unsigned converts_from; /* the device, 80 for sm_80, from which on an instruction rounds to bf16
                               and f16; 0: none does */
    unsigned extrema_from;  /* from which on an instruction is the lesser or the greater of two f32,
                               which the prelude has as ls_minimum_f32, ls_maximum_f32; 0: none is */
    bool divides;           /* divides by its prelude's function, not by the compiler's operator */
    /* Uses of costly functions among the values of a phase's nest, copies by passes among them, up
     * to which each use is a copy of the function; where there are more, they are calls. */
    uint32_t inlined_uses;
    /* How a launch is shaped; see ls_image_kernel. */
    uint32_t threads, one_block_threads, blocks_per_multiprocessor, items_per_block;
    uint32_t processors; /* the multiprocessors, or CPU threads, that reports assume */
    uint32_t columns;    /* how many columns an item of a column phase has */
    /* The bytes that a thread loads before their first use, of a tile of a row and down a column;
     * 0: each load is used at once. */
    uint32_t row_loads, column_loads;
    /* How many rows of a tile a GPU's loop takes at once, and how many vectors a CPU's loop
     * interleaves; 0: the compiler's choice. */
    uint32_t rows_at_once, vectors_at_once;
    /* The bytes of results from which on a CPU uses non-temporal stores, of maps and of rows. A
     * plain store would fetch every cache line only to overwrite it, but what is read again soon is
     * better in cache. */
    uint64_t non_temporal, non_temporal_rows;
    /* Row fusions: the tiles that worker scratch holds (0: there is none); and the number of rows
     * up to which rows count as few, and of tiles from which on a row counts as long: with few long
     * rows each phase has a kernel of its own. */
    uint32_t scratch_tiles, few_rows, many_tiles;
    /* Rows that stay in registers: the classes of their lengths; and how many of a thread's
     * registers may hold elements that several phases of a row load. */
    RowClass row_classes[ROW_CLASSES];
    uint32_t row_registers;
    uint64_t on_chip_bytes; /* of a row, up to which a second read of it is served on chip */
    /* Limits of visited elements: up to which a step runs in one block; up to which it runs in one
     * launch of blocks that wait for each other (0: never), and where it reduces rows, for which
     * kernels of their own have better texts, unless it is in a `for`; of a last-block epilogue, of
     * a segment epilogue for one segment, and of a pre-reduction. */
    uint64_t one_block_limit, together_limit, waits_limit, last_block_limit, part_limit,
        pre_reduction_limit;
    /* Strips of an axis whose blocks run all iterations of a `for`: the visited elements that one
     * has at least in an iteration, and at most. */
    uint64_t strip_work, strip_limit;
    /* Of a block's shared memory, for states and temporaries of all iterations; 0: they stay in
     * memory of the device. */
    uint64_t promoted_bytes;
    /* Row panels: the threads of a block; the rows and columns from which on they are used, or of a
     * CPU the bytes that are read again, of a row and of all; the bytes of rows and partial values
     * that stay on chip; how many lanes of the tree a panel has, and where there is a second
     * number, the rows from which on that is it. */
    uint32_t panel_threads, panels_per_multiprocessor, panel_lanes[2];
    uint64_t panel_rows, panel_columns, panel_row_bytes, panel_all_bytes, panel_bytes, panel_few;
    uint64_t panel_again; /* of a GPU's block: the bytes of rows that are read twice from one part
                             to the next, which its part of the nearest caches holds */
} Target;

/* What code for a target is. */
typedef enum TargetCode {
    TARGET_NO_CODE,
    TARGET_SHARED_OBJECT,
    TARGET_CUBIN,
    TARGET_PTX,
    TARGET_CODE_OBJECT /* AMD's */
} TargetCode;
/* Targets whose names have a prefix in common. After the prefix comes a character of `first`,
 * unless that is "", and then only characters of `rest`. */
typedef struct TargetKind {
    const char *prefix, *pattern; /* "sm_", and in messages "sm_NN" */
    const Target *dialect;
    const char *first, *rest;
    TargetCode code;
    bool ahead_as_text; /* built ahead of time as C, since machine code would be for one machine
                           alone */
} TargetKind;

/* What a multiprocessor (AMD: a compute unit) has for the warps (waves) that are resident: so many
 * parts that have warps of their own, each with `registers` for a lane, of which a warp takes a
 * multiple of `granule`, and room for `warps`; KiB of shared memory, of which a block takes
 * `reserved` at least; and room for so many blocks. */
typedef struct TargetMultiprocessor {
    const char *name; /* of the target */
    uint32_t registers, granule, parts, warps, shared, reserved, blocks;
} TargetMultiprocessor;

/* occupancy.c: how many warps of a kernel are resident, in whole blocks, and how many could be;
 * false where the device is not known. */
typedef struct TargetOccupancy {
    uint32_t warps, max;
} TargetOccupancy;
/* Whether a target has what the named one has, as "sm_90a" has what sm_90 has and "gfx90a:xnack-"
 * what gfx90a has; no digit may follow. */
bool target_is_variant(const char *target, const char *name);
bool target_occupancy(const char *target, uint32_t registers, uint32_t shared_bytes,
                      uint32_t threads, TargetOccupancy *occupancy);

/* speed.c: what a chip can do at most: GB/s of its memory, multiprocessors (AMD: compute units),
 * GHz, warp instructions that one issues in a cycle, GB of memory. */
typedef struct TargetSpeed {
    const char *name, *device; /* "sm_90", "H200" */
    double bandwidth;
    uint32_t processors;
    double clock, issue;
    uint32_t memory;
} TargetSpeed;
const TargetSpeed *target_speed(const char *target); /* NULL: not known */
void target_put_speeds(Text *out);                   /* "sm_80, sm_90 ... and gfx1151" */

/* The one model of time. A machine: bytes a second that are read alone and that are copied;
 * the share of these that the best of kernels reach; instructions a second of all its processors;
 * the seconds of a launch; and how long a load waits for an idle memory and how much longer for a
 * busy one (0: what is loaded ahead hides it). Two bounds meet as the `meeting`-th root of the sum
 * of such powers: the lower, the less do processors overlap what they do. */
typedef struct TargetMachine {
    double read_rate, copy_rate, ceiling, instruction_rate, launch, latency, queueing, meeting;
} TargetMachine;
/* A kernel's work: bytes, instructions, launches; the bytes of loads that are under way at once on
 * all processors, and the seconds that an item's own instructions take between its loads. */
typedef struct TargetLoad {
    double read, written, instructions, launches, in_flight, item;
} TargetLoad;
typedef enum TargetLimit {
    TARGET_MEMORY,
    TARGET_INSTRUCTIONS,
    TARGET_LATENCY,
    TARGET_LAUNCH,
    TARGET_LIMIT_COUNT
} TargetLimit;
extern const char *const target_limit_names[TARGET_LIMIT_COUNT];
typedef struct TargetTime {
    double bound[TARGET_LIMIT_COUNT]; /* seconds that each of the limits alone would make */
    double total;
    TargetLimit limit; /* the one that takes the most */
} TargetTime;
TargetMachine target_machine(const TargetSpeed *speed);
/* The seconds that so many bytes take by themselves. */
double target_traffic(const TargetMachine *machine, double read, double written);
TargetTime target_time(const TargetMachine *machine, const TargetLoad *load);

/* forms.c: the forms that `lockstep tune` tries: each is the dialect with other numbers. */
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
enum { NUMERIC_SERIAL = 4 };
extern const uint64_t numeric_texts;

/* library.c: adds the paragraphs of the target's template files that `code` uses. */
void library_add_used(Compiler *compiler, Text *out, const Target *target, const char *code);

#endif
