/* lockstep/image.h: what a compiled step is, as plain data.
 *
 * The only thing the compiler and the runtime share. The compiler fills these tables, in memory or
 * as the static initialisers of ahead-of-time output; the runtime binds, sizes and launches by them
 * and asks nothing else. Everything is const and owned by whoever made it; it outlives every
 * ls_step. */
#ifndef LOCKSTEP_IMAGE_H
#define LOCKSTEP_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LS_IMAGE_VERSION 11
#define LS_AXES_MAX 32 /* axes of a step */
#define LS_RANK_MAX 32 /* axes of an array */
#define LS_ARGUMENTS_MAX \
    480 /* 8-byte words of a kernel's argument block: 4 KiB less room to spare */

/* The ordinal in the key of every `shuffle`; draws count theirs from 0. */
#define LS_SHUFFLE_ORDINAL 0xffffffffu

/* Element types, in the order of compiler/ir/types.def. One row per type: identifier, spelling,
 * class (F float, S signed, U unsigned, B bool), bytes. */
#define LS_TYPE_LIST(X)     \
    X(F64, "f64", 'F', 8)   \
    X(F32, "f32", 'F', 4)   \
    X(I64, "i64", 'S', 8)   \
    X(I32, "i32", 'S', 4)   \
    X(U64, "u64", 'U', 8)   \
    X(U32, "u32", 'U', 4)   \
    X(BOOL, "bool", 'B', 1) \
    X(F16, "f16", 'F', 2)   \
    X(BF16, "bf16", 'F', 2) \
    X(E4M3, "e4m3", 'F', 1) \
    X(E5M2, "e5m2", 'F', 1) \
    X(I16, "i16", 'S', 2)   \
    X(I8, "i8", 'S', 1)     \
    X(U16, "u16", 'U', 2)   \
    X(U8, "u8", 'U', 1)

typedef enum ls_type {
#define LS_TYPE_ENUM(id, name, class_, bytes) LS_##id,
    LS_TYPE_LIST(LS_TYPE_ENUM)
#undef LS_TYPE_ENUM
        LS_TYPE_COUNT
} ls_type;

typedef enum ls_role { LS_IN, LS_INOUT, LS_OUT } ls_role;

/* One term of a length in reverse Polish order, over the lengths of earlier axes. */
typedef enum ls_image_operation {
    LS_TERM_NUMBER, /* value */
    LS_TERM_AXIS,   /* the length of axis `value` */
    LS_TERM_ADD,
    LS_TERM_SUBTRACT,
    LS_TERM_MULTIPLY,
    LS_TERM_DIVIDE, /* floors; by zero gives 0 */
    LS_TERM_REMAINDER
} ls_image_operation;
typedef struct ls_image_term {
    ls_image_operation operation;
    int64_t value;
} ls_image_term;

/* An axis with a parent has one length for each coordinate of it: the arrays over both are lists of
 * tensors. Of `n as (q, k = 256)` n is the whole; q counts its blocks and has the length
 * ceil(n / 256), and n's parent; k has a whole block's length in arrays over q and k. */
typedef struct ls_image_axis {
    const char *name;
    int64_t fixed;   /* the length written in the source, or -1: taken from the arrays bound */
    uint32_t parent; /* 1 + the axis it depends on (of k: q), or 0 */
    uint32_t whole;  /* of q and k: 1 + n, or 0 */
    int64_t length;  /* of n, q and k: elements of a whole block; 0: none */
    const ls_image_term *terms; /* the length in terms of other axes, checked at bind; or NULL */
    uint32_t term_count;
} ls_image_axis;

typedef struct ls_image_parameter {
    const char *name;
    ls_role role;
    ls_type type;
    uint32_t rank;       /* 0: a device scalar */
    const uint8_t *axes; /* rank axis numbers, in step order */
    /* rank-0 only: may be left unbound, its device scalar starts as `initial` */
    uint32_t has_default;
    /* the bits of the default in the parameter's own type, low bytes first */
    uint64_t initial;
    uint32_t line; /* where the source declares it */
    /* 1: of an out, the kernels leave it out where its pointer is NULL, which it is when it is
     * neither bound nor asked for; 0: it always has memory */
    uint32_t optional;
} ls_image_parameter;

/* A count known when sizes are: scale * product over the factors of
 * max(minimum, ceil(product of the sizes of the axes in `axes` / divide)). Where `within` is not
 * 0, the product is at most that of the sizes of the axes in it. An empty axis set counts 1. With a
 * `list` axis it is the sum of that over the list's tensors, each with its own lengths, the list
 * axis itself counting 1; without, no axis of it has a parent (blocks: q and n alone count, k not).
 */
typedef struct ls_image_factor {
    uint32_t axes; /* bit a: axis a */
    uint32_t minimum;
    uint64_t divide;
    uint32_t within;
} ls_image_factor;

typedef struct ls_image_extent {
    uint64_t scale;
    uint32_t factor_count;
    ls_image_factor factor[4];
    uint32_t list; /* 1 + the axis that counts tensors, or 0 */
} ls_image_extent;

/* Device memory the step owns while it is bound. Of a temporary with a `list` the argument is a
 * device array of pointers, one per tensor, into that memory; each tensor's part begins on a
 * 16-byte boundary. One that is `per_block` has these bytes, rounded up to 256, for each block or
 * worker of the largest launch of the variant, one after another. Those that are never needed at
 * once share memory: see ls_image_place. */
typedef struct ls_image_temporary {
    const char *name;
    ls_image_extent bytes; /* rounded up to 256 by the runtime */
    uint32_t zeroed;       /* cleared once at bind (arrival counters, which reset themselves) */
    uint32_t pointers;     /* 1: a pointer per tensor, see above */
    uint32_t per_block;
    uint32_t share; /* temporaries with the same number may lie in the same place; 0: with none */
} ls_image_temporary;

/* A list's items of work in device memory: for each item, in order, the tensor and the item's
 * number within the tensor. The runtime makes it from `items`, whose list is set. */
typedef struct ls_image_entry {
    int64_t tensor, item;
} ls_image_entry;
typedef struct ls_image_table {
    ls_image_extent items;
} ls_image_table;

/* One kernel: entry point and how many independent items of work it has. On a GPU a block has
 * `threads` threads and takes `items_per_block` items in turn; the grid is
 * min(ceil(items / items_per_block), one_block ? 1 : blocks per multiprocessor * multiprocessors),
 * at least 1. Of a `cooperative` kernel the blocks wait for each other, so all of the grid is on
 * the device at once; one block alone needs no such launch. Of several phases in one kernel the
 * items are the most that one has. On the CPU the items are shared out over the workers in
 * contiguous runs. Any grid and any number of workers gives the same bits. A launch always happens,
 * also with 0 items.
 *
 * The groups of 32 threads of a block may share an item: then `tiles` says in how many parts. If
 * tiles > 1 a block takes one item at a time, with min(tiles, threads / 32) groups of 32 threads;
 * blocks_per_multiprocessor is multiplied by (threads / 32) / tiles (rounded down) where that is
 * more than 1. */
typedef struct ls_image_kernel {
    const char *name;
    ls_image_extent items;
    uint32_t items_per_block;
    uint32_t threads;
    uint32_t blocks_per_multiprocessor;
    uint32_t one_block;
    /* elements an item visits, or a tile of it: the CPU driver uses one worker for small kernels */
    uint64_t item_cost;
    uint32_t cooperative;
    uint32_t phase_count; /* of one with several: the items of each of its phases */
    const ls_image_extent *phases;
    ls_image_extent tiles; /* scale 0: no item is shared */
} ls_image_kernel;

/* What an extent must be for a variant to be chosen. */
typedef struct ls_image_condition {
    ls_image_extent extent;
    uint32_t largest; /* 1: of a list's tensors the largest counts, not their sum */
    uint64_t at_least, at_most;
    uint32_t required; /* 1: elsewhere the variant is wrong; 0: another is faster there */
} ls_image_condition;

/* What a kernel moves between its chip and device memory, by the plan; reports and profiles count
 * with it, nothing depends on it. A flow is the sum of `bytes`, at most `most` where that has a
 * scale, and nothing unless it is more than `above`. The flows of one array stand together. */
typedef enum ls_image_again {
    LS_FLOW_ALWAYS,
    LS_FLOW_LARGEST, /* while rows stay on chip (see ls_image_row), only the largest such flow of
                        each array counts */
    LS_FLOW_FAR,     /* counted only if rows do not stay on chip */
    LS_FLOW_ONCE     /* counted once, however many iterations a launch runs; others in each */
} ls_image_again;
typedef struct ls_image_flow {
    uint32_t array, written; /* a number; 1: the kernel writes it, 0: reads */
    ls_image_again again;
    uint32_t count;
    const ls_image_extent *bytes;
    ls_image_extent most, above;
} ls_image_flow;
/* Of a kernel that comes back to what it has of a row: of each such array its bytes, and the rows
 * that share them; `at_once` rows are walked together, or fewer where there are not as many. Rows
 * stay on chip where the sum over all such arrays of what is walked at once is no more than
 * `near`. */
typedef struct ls_image_row {
    ls_image_extent bytes, rows;
    uint32_t at_once;
} ls_image_row;
typedef struct ls_image_traffic {
    uint32_t flow_count, row_count;
    const ls_image_flow *flows;
    const ls_image_row *rows;
    uint64_t near; /* 0: they never do; UINT64_MAX: always */
} ls_image_traffic;

typedef enum ls_image_layout {
    LS_LAYOUT_DENSE, /* every array contiguous in its declared order, data on 16-byte boundaries */
    LS_LAYOUT_PITCHED, /* neighbours along every array's last axis are neighbours; for CPUs alone */
    LS_LAYOUT_STRIDED  /* any strides, any alignment */
} ls_image_layout;

/* Code of several variants, one behind the other, packed (LZ77, like LZ4 but with an unlimited
 * window, as variants of a step have much in common). `text` is in base 85, in pieces of any
 * length, NULL behind the last: five digits for four bytes, the first digit the highest; digit d is
 * the d-th of the characters '#' to 'y' without '?' and '\\'. The bytes are sequences. A sequence
 * begins with a token, a byte whose upper half counts literals and whose lower half counts the
 * bytes to copy beyond LS_PACKED_COPY_MIN; behind it come: if the upper half is 15, a number to add
 * to the literal count; the literals; if the lower half is 15, a number to add to the copy length;
 * then always a number n for the distance: n < LS_PACKED_RECENT is the n-th latest distance (0: the
 * latest), else the distance is n - (LS_PACKED_RECENT - 1). Either becomes the latest. A number is
 * bytes of seven bits each, the lowest first, with 128 added to all but the last. The last sequence
 * may end within its literals. */
#define LS_PACKED_COPY_MIN 4
#define LS_PACKED_RECENT 16
typedef struct ls_image_packed {
    const char *const *text;
} ls_image_packed;

/* Of a variant whose kernel runs all iterations of a `for` strip by strip, as nothing goes from one
 * strip of the axis to another: each block, or worker, runs them for strips of its own and waits
 * for nobody. For such a variant the length of `axis` is that of a strip, which ls_image_strip
 * gives, that of `all` is the whole axis's and that of `begin` the number of strips; for others of
 * the image `begin` is 0 and `all` the whole. */
typedef struct ls_image_strips {
    uint32_t axis, begin, all;
    uint64_t work;        /* elements, of all phases together, that a strip should have at least */
    uint32_t array_count; /* bytes of one coordinate of each array that the strips share out */
    const ls_image_extent *bytes;
} ls_image_strips;

/* One way to run the step: the kernels launched in order. Unless a tuning applies, the runtime
 * takes the first variant whose layout the bound arrays have, whose work does not exceed
 * work_limit, whose conditions all hold and which the device can run. The last of each layout asks
 * for nothing. All give the same bits.
 *
 * The argument block is an array of 8-byte words, the same for every kernel of the variant:
 *
 * - axis_count: sizes of the axes (i64); of an axis whose parent counts tensors a device array with
 *   one length per tensor; of k, which has no length of its own, that of a whole block;
 * - parameter_count: data pointers, device scalars included; of a list a device array with one
 * pointer per tensor; NULL for an optional out that is neither bound nor asked for;
 * - temporary_count: pointers;
 * - 2 * table_count: a device array of ls_image_entry, and how many there are (i64);
 * - if layout is not LS_LAYOUT_DENSE: for each parameter in order, rank strides in elements (i64);
 * 0 for lists, whose tensors are always contiguous: there this layout only drops the alignment;
 * - if the image draws: the first tensor and the first element of its draws (i64; ls_step_shard);
 * - if the variant iterates: how many iterations each of its loops has, the outermost first, and
 * for each parameter, and each axis of these loops among its view's fixed ones, in order, the bytes
 *   from one slice to the next (i64); data pointers are to the slice at 0 of these axes then;
 * - if it has strips: for each parameter with their axis, in order, the bytes from one coordinate
 *   of it to the next (i64).
 *
 * A GPU kernel takes it by value; a CPU kernel is
 *
 *     void name(const void *arguments, uint64_t first_item, uint64_t last_item,
 *               uint32_t worker, uint32_t workers) */
typedef struct ls_image_variant {
    const char *name; /* "one block, dense": for explain, logs and profiles */
    ls_image_layout layout;
    uint32_t work_count;
    const ls_image_extent *work; /* summed */
    uint64_t work_limit;         /* UINT64_MAX: always usable */
    /* of one with cooperative kernels: work up to which each runs in one block; above that it is
     * for devices that can launch them */
    uint64_t one_block_limit;
    uint32_t temporary_count;
    const ls_image_temporary *temporaries;
    uint32_t kernel_count;
    const ls_image_kernel *kernels;
    const char *source; /* the text the code is made of; NULL in ahead-of-time output */
    /* cubin, PTX (zero-terminated), code object, or NULL: made on demand */
    const void *code;
    size_t code_size;
    /* CPU, ahead of time: the kernels' addresses in the order of `kernels`, else NULL */
    void (*const *functions)(const void *, uint64_t, uint64_t, uint32_t, uint32_t);
    uint32_t table_count;
    const ls_image_table *tables;
    uint32_t condition_count;
    const ls_image_condition *conditions;
    const ls_image_traffic *traffic; /* one per kernel, in their order; NULL: not known */
    /* 0: the target's usual form; f + 1: an earlier variant emitted again with the target's form f,
     * chosen only by an ls_image_tuning */
    uint32_t form;
    /* instead of `code`: where its code_size bytes are among those of several variants */
    const ls_image_packed *packed;
    size_t packed_at;
    /* Of a part that is all of a loop's body: of how many loops around it, each in the next, one
     * launch runs all iterations. */
    uint32_t iterates;
    /* CPU: bit a for each axis a that rows run along, whose length as a constant of the code is
     * worth a compile where it is short; 0 ahead of time. */
    uint32_t row_axes;
    const ls_image_strips *strips; /* or NULL */
    /* Where it iterates, by array: 1: it is in registers or shared memory over all iterations, and
     * moved once ahead of them and once behind them; 2: it is nowhere else. For reports, `traffic`
     * has it counted; NULL: none is, or the image was made ahead of time. */
    const uint8_t *carried;
} ls_image_variant;

/* What `lockstep tune` found best for launches of about one size: if the work of variant `variant`
 * is in the range and it suits, it is taken and launched with these numbers; a field that is 0
 * leaves the kernels' own value. */
typedef struct ls_image_tuning {
    uint32_t variant;
    uint64_t at_least, at_most;
    uint32_t threads; /* of a block at most, where each group of 32 has items of its own */
    uint32_t blocks_per_multiprocessor;
    uint32_t workers; /* on a CPU */
} ls_image_tuning;

/* How the names of targets begin; behind them stands which device of that kind. */
#define LS_TARGET_CPU "cpu"       /* all of it */
#define LS_TARGET_CUBIN "sm_"     /* a compute capability: "sm_90" */
#define LS_TARGET_PTX "compute_"  /* the same, for it and later ones */
#define LS_TARGET_OPENCL "opencl" /* C++ for OpenCL: its text, no code */
#define LS_TARGET_GFX "gfx"       /* AMD's name: "gfx90a" */

/* A step with `for` has its kernels in parts, images of their own, which run in their order; parts
 * of one loop stand together and run once for each coordinate of its axis. A part has the step's
 * axes, and behind them one for each axis that a loop goes over, whose length is the current
 * coordinate: it counts nothing. Its parameters are views of arrays: of a parameter of the step, or
 * of temporary i of its variants (parameter_count + i); `fixed` axes stand at the current
 * coordinate, so that the view begins there and lacks them. Lists have no fixed axes. The step's
 * own variants have no kernels: they say which layout the arrays have. */
typedef struct ls_image_view {
    uint32_t array, fixed; /* fixed: bit a: axis a */
} ls_image_view;
typedef struct ls_image_loop {
    uint32_t axis, place; /* place: the axis of the parts whose length is the coordinate */
    uint32_t reverse;
    uint32_t outer; /* 1 + the loop around it, or 0 */
} ls_image_loop;
typedef struct ls_image_part {
    const struct ls_image *image;
    const ls_image_view *views; /* by parameter */
    uint32_t loop;              /* 1 + the innermost loop around it, or 0 */
    uint32_t empty; /* not 0: it runs only where one of these axes (bit a: axis a) is empty */
} ls_image_part;

typedef struct ls_image {
    uint32_t version; /* LS_IMAGE_VERSION */
    const char *step;
    const char *target; /* "cpu", "sm_90", "compute_90" (PTX), "gfx90a" */
    const char *source_file;
    uint64_t numeric_version;
    const char *math; /* "exact", "lite" or "fast": only the last may give other bits elsewhere */
    uint32_t axis_count;
    const ls_image_axis *axes;
    uint32_t parameter_count;
    const ls_image_parameter *parameters;
    uint32_t variant_count;
    const ls_image_variant *variants;
    uint32_t draws; /* 1: has random numbers */
    uint32_t line;  /* of source_file: where the step stands; 0: not known */
    uint32_t tuning_count;
    const ls_image_tuning *tunings;  /* for the device; the first that applies counts */
    uint32_t part_count, loop_count; /* 0: it has no `for` */
    const ls_image_part *parts;
    const ls_image_loop *loops;
} ls_image;

/* A step over whole arrays, for ranks that each have a part of some of them. A rank runs the stages
 * in their order; behind stage s the ranks put together what each has computed of the exchanges of
 * that stage. A list has all tensors of the whole in every stage, of which those that a rank has
 * nothing of are empty. Arrays that are not cut are whole, and every rank computes them. */
typedef enum ls_shard_from {
    LS_SHARD_PARAMETER, /* parameter `number` of the step */
    LS_SHARD_PARTIAL,   /* exchange `number`, of which the stage computes this rank's part */
    LS_SHARD_GATHERED,  /* the same of all ranks */
    LS_SHARD_LENGTH,    /* i64, of each tensor: how long axis `number` of the whole is, */
    LS_SHARD_BEGIN      /* and where this rank's part of it begins */
} ls_shard_from;
typedef struct ls_shard_argument {
    ls_shard_from from;
    uint32_t number;
} ls_shard_argument;
/* `tile`: a value of each so many elements along the axis that is cut; 0: one of each tensor.
 * `axes`: of a step without a list, the other axes that there is a value for each coordinate of;
 * what is gathered has the tiles as its last axis. */
typedef struct ls_shard_exchange {
    ls_type type;
    uint32_t stage, tile, line, axes;
} ls_shard_exchange;
typedef struct ls_shard_stage {
    const ls_image *image;
    const ls_shard_argument *arguments; /* by parameter of the image */
} ls_shard_stage;
typedef struct ls_sharded {
    uint32_t list,
        axis;           /* 1 + the step's axis that counts tensors, that is cut within them; or 0 */
    const uint8_t *cut; /* by parameter of the step: 1: a rank has a part of it */
    uint32_t stage_count, exchange_count;
    const ls_shard_stage *stages;
    const ls_shard_exchange *exchanges;
} ls_sharded;

/* The length that an axis's expression gives for those of the axes; 0: it overflows. */
int ls_image_length(const ls_image_term *terms, uint32_t count, const int64_t *lengths,
                    int64_t *value);
/* The other way round, of `w = 2 * h`: the one length of axis `unknown` that makes it `wanted`, for
 * expressions that grow with it; -1: there is none, or more than one. Its place in `lengths` is
 * used for trials. */
int64_t ls_image_solve(const ls_image_term *terms, uint32_t count, size_t unknown, int64_t *lengths,
                       int64_t wanted);

/* The code of a variant that has it packed, with a zero behind it: 1, and *code is the caller's to
 * free; or NULL, and 0: out of memory, -1: it is damaged. */
int ls_image_unpack(const ls_image_variant *variant, void **code);
/* The same of sequences that are bytes and no text: the `size` bytes behind the first `at`. */
int ls_image_unpack_bytes(const void *packed, size_t packed_size, size_t at, size_t size,
                          void **code);

/* What an extent comes to for the lengths in `of`: the sum over a list's tensors, or of its tensors
 * the largest; UINT64_MAX: more than can be counted. */
typedef uint64_t (*ls_image_value)(const void *of, const ls_image_extent *extent, uint32_t largest);
/* ls_image_work: a variant's work. ls_image_suits: whether that is within its work_limit and the
 * lengths satisfy its conditions. Of the variants that suit and that the layout and the device
 * allow, the first is launched, unless a tuning applies. */
uint64_t ls_image_work(const ls_image_variant *variant, ls_image_value value, const void *of);
int ls_image_suits(const ls_image_variant *variant, uint64_t work, ls_image_value value,
                   const void *of);

/* How long the strips of a variant are on an axis of that length, which is the axis's own in `of`:
 * long enough to be worth a block's time, and no array's part of one begins off a boundary of 16
 * bytes. */
int64_t ls_image_strip(const ls_image_variant *variant, int64_t length, ls_image_value value,
                       const void *of);

/* What a launch of a kernel that runs so many iterations, 1 where it is none of a loop, reads and
 * writes of device memory, in bytes, for the lengths in `of`. `left_out` says of which parameters
 * nothing moves, as they are outs without memory; NULL: of none. 0, and nothing counted, where it
 * is more than can be. */
typedef struct ls_image_moved {
    uint64_t read, written;
} ls_image_moved;
typedef int (*ls_image_left_out)(const void *of, uint32_t array);
int ls_image_count_moved(const ls_image_traffic *traffic, uint64_t iterations, ls_image_value value,
                         ls_image_left_out left_out, const void *of, ls_image_moved *moved);

/* Where the temporaries of a variant lie in one allocation that begins on a boundary of 256: gives
 * the offset of each, from the bytes that each has in all, and how many bytes at the beginning are
 * to be cleared. Returns the size of the allocation, UINT64_MAX where that is more than memory can
 * be. Those that share lie in the place of the largest of them. */
uint64_t ls_image_place(const ls_image_variant *variant, const uint64_t *bytes, uint64_t *offsets,
                        uint64_t *cleared);
/* How many blocks a launch has on a GPU, and of how many threads; how many workers on a CPU with so
 * many threads. Of a cooperative kernel the device may hold fewer blocks at once. */
uint64_t ls_image_blocks(const ls_image_kernel *kernel, uint64_t items, uint64_t tiles,
                         uint64_t multiprocessors, uint32_t *threads);
uint64_t ls_image_workers(const ls_image_kernel *kernel, uint64_t items, uint64_t tiles,
                          uint64_t threads);

#ifdef __cplusplus
}
#endif
#endif
