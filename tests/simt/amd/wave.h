/* wave.h: what the files of this folder share. They run AMD machine code (gfx942, gfx11) as
 * llvm-objdump lists it: AMD's "MI300 ISA" and "RDNA3 ISA" manuals, wave by wave, and in a wave one
 * instruction after the other for all lanes under EXEC. Pipeline of a launch:
 *
 *   object.c   the code object: kernels, their registers at the start, memory that it brings along
 *   listing.c  the disassembler's text -> Instructions, operands resolved to registers
 *   vector.c   instructions on lanes (vector.def, compare.def)
 *   scalar.c   instructions on SGPRs, branches, waits (scalar.def)
 *   memory.c   loads, stores, atomics: issued here, done at the wait that covers them
 *   run.c      the order of turns of blocks and waves
 *
 * What has no row in a table is an error with its text. */
#ifndef AMD_WAVE_H
#define AMD_WAVE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "amd.h"
#include "simt.h"

typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;

/* ---- instructions ---- */

enum {
    LANES = 64,
    ACCUMULATORS = 256, /* the first accumulation register, as a vector register */
    SPARE = 512,        /* vector registers for the instruction that runs */
    SPARES = 4,
    VECTORS = SPARE + SPARES,
    SCALARS = 136,
    S_VCC = 106,
    S_TRAP = 108,
    S_M0 = 124,
    S_EXEC = 126,
    S_FLAT = 128,
    S_XNACK = 130,
    S_SINK = 132, /* where writes to null go */
    SOURCES = 4,
    TEXT_SIZE = 200
};

typedef enum OperandKind {
    NOTHING,
    VECTOR,   /* `at`: the register */
    SCALAR,   /* `at`: the register */
    CONSTANT, /* `bits`, of the operand's type once it is resolved */
    SCC,
    OFF
} OperandKind;

/* SDWA: which part of a register. */
typedef enum Part { DWORD, BYTE_0, BYTE_1, BYTE_2, BYTE_3, WORD_0, WORD_1 } Part;

typedef struct Operand {
    OperandKind kind;
    u16 at, count; /* registers */
    bool negative, absolute, extends;
    bool is_real, is_literal; /* a constant: written with a point, in hexadecimal */
    Part part;
    double real;
    u64 bits;
} Operand;

typedef enum Dpp {
    DPP_NONE,
    DPP_QUAD,
    DPP_ROW_SHL,
    DPP_ROW_SHR,
    DPP_ROW_ROR,
    DPP_MIRROR,
    DPP_HALF_MIRROR,
    DPP_SHARE,
    DPP_XMASK,
    DPP_BCAST15,
    DPP_BCAST31,
    DPP_WAVE_SHL,
    DPP_WAVE_SHR,
    DPP_WAVE_ROL,
    DPP_WAVE_ROR
} Dpp;

typedef struct Wave Wave;
typedef struct Instruction Instruction;
typedef void Run(Wave *wave, const Instruction *in);

/* Where results and sources stand among the operands. */
typedef enum Form {
    LANE,       /* vector, sources */
    CARRY,      /* vector, mask, sources */
    COMPARE,    /* mask (none for v_cmpx of gfx10 and later), sources */
    ONE_SCALAR, /* scalar, sources */
    TEST,       /* sources */
    ACCUMULATE, /* as LANE; the result's register is the last source */
    RAW         /* as they come */
} Form;

typedef struct Operation {
    const char *name;
    Run *run;
    Form form;
    const char *result, *types[SOURCES]; /* "f32", "u64"...; of RAW "" */
} Operation;

struct Instruction {
    const Operation *operation;
    Run *run;
    Operand result, mask, sources[SOURCES];
    u32 source_count;
    u64 address; /* in the code object */
    u32 target;  /* a branch: the index of the next instruction */
    /* modifiers */
    i32 offset, offset0, offset1;
    char space;                    /* memory: 'g'lobal, 'f'lat, 's'cratch, 'd' shared */
    bool clamps, to_exec, returns; /* clamp; v_cmpx; sc0 or glc */
    bool coherent;                 /* sc1, sc0 or glc: of a load, that it is an atomic's */
    i32 scale;                     /* omod: by 2 to this power */
    u32 select, select_high, negate_low, negate_high;
    Dpp dpp;
    u32 dpp_value, row_mask, bank_mask;
    bool bound, fetch_inactive;
    bool is_sdwa;
    Part parts[2]; /* SDWA: of the sources */
    Part part;     /* of the result; what becomes of the rest: */
    char unused;   /* 'P' zeros, 'S' the sign, 'k' kept */
    bool is_dual;  /* the instruction that follows in the array runs with it */
    i32 waits[3];  /* s_waitcnt, -1: as many as there are */
    char text[TEXT_SIZE];
};

typedef struct Program {
    Instruction *code;
    u32 count;
    bool is_11; /* RDNA3; else CDNA3 */
} Program;

/* listing.c: false with the reason in `message`. */
bool amd_parse(Program *program, const char *text, char *message, size_t size);
void amd_program_free(Program *program);
/* The index of what stands at the address; `count` when nothing does. */
u32 amd_find(const Program *program, u64 address);

/* vector.c, scalar.c, memory.c: the rows of their tables; NULL: none. */
const Operation *amd_vector(const char *name);
const Operation *amd_compare(const char *name);
const Operation *amd_scalar(const char *name);
const Operation *amd_memory(const char *name);
/* NULL, or what is wrong with the operands of one of memory.c's. */
const char *amd_memory_operands(const Instruction *in);

/* ---- code objects ---- */

typedef struct Hidden {
    char kind[32]; /* "hidden_block_count_x"... */
    u32 offset, size;
} Hidden;
enum { NAME_SIZE = 256, HIDDEN_MOST = 40 };

typedef struct Kernel {
    char name[NAME_SIZE];
    u64 entry;
    u32 argument_bytes, segment_bytes; /* of the structure; of all that s_load finds */
    u32 shared_bytes, scratch_bytes, threads_most, wave;
    u32 user_registers, properties, mode;
    Hidden hidden[HIDDEN_MOST];
    u32 hidden_count;
} Kernel;

struct AmdModule {
    unsigned char *image; /* as it is loaded */
    size_t image_bytes;
    Kernel *kernels;
    size_t kernel_count;
    Program program;
};

const Kernel *amd_kernel(const AmdModule *module, const char *name);

/* ---- waves ---- */

/* What waits for its end: memory.c. */
typedef enum PendingKind { TO_VECTOR, TO_SCALAR, STORE, ATOMIC, WRITE_BACK } PendingKind;
enum { COUNTS_VECTOR = 1, COUNTS_SHARED = 2, COUNTS_STORE = 4 };
enum { PENDING_MOST = 64, PIECES = 16 };
typedef struct Pending {
    PendingKind kind;
    u32 counts; /* whose waits do not cover it yet */
    const struct Access *access;
    bool any_order, gives; /* scalar loads; an atomic with a result */
    bool done, in_shared;  /* its effect on memory; which memory */
    bool coherent;         /* past the caches that blocks do not share */
    u64 sequence;          /* of all that was issued */
    uintptr_t begin, end;  /* around all its places */
    u64 lanes;
    u32 to; /* the first register */
    unsigned char *places[LANES], *second[LANES];
    u32 data[PIECES][LANES];
} Pending;

typedef enum WaveState { RUNS, AT_BARRIER, ENDED } WaveState;
typedef struct Block Block;
typedef struct Launched Launched;
typedef struct Cache Cache;
struct Wave {
    Launched *run;
    Block *block;
    u32 number, lanes, pc;
    const Instruction *now; /* that runs */
    u64 steps;              /* since its last s_sleep */
    WaveState state;
    bool scc, left;  /* its turn ends */
    bool is_indexed; /* s_set_gpr_idx_on: M0 has the index, and of which operands */
    u32 mode;
    u64 flush_32, flush_64; /* subnormals are zeros */
    unsigned char *scratch; /* of all lanes */
    Cache *cache;           /* of gfx1151, where memory is weak */
    Pending *pending[PENDING_MOST];
    u32 pending_count;
    u32 s[SCALARS];
    u32 v[VECTORS][LANES];
};

struct Block {
    u32 number;
    Wave **waves;
    unsigned char *shared;
    Cache *cache; /* NULL: none are modelled */
};

struct Launched {
    const AmdModule *module;
    const Kernel *kernel;
    const SimtLaunch *launch;
    Block *blocks;
    u32 wave_count; /* of a block */
    u64 random;
    u32 late; /* how often of 8 memory takes until the wait */
    u64 sequence;
    Cache *wave_caches, *block_caches; /* of all blocks of the launch; NULL: as above */
    u64 looks, steps;                  /* s_sleep since the last effect; instructions */
    bool failed;
    char *message;
    size_t message_size;
};

/* run.c */
__attribute__((format(printf, 2, 3))) void amd_fail(Wave *wave, const char *format, ...);
u32 amd_random(Launched *run, u32 below);

/* memory.c: waits until at most `left` of a kind are not done; all. */
void amd_wait(Wave *wave, u32 counts, u32 left);
void amd_settle(Wave *wave);
/* Memory may go ahead, if the seed says so. */
void amd_advance(Wave *wave);
/* The last store or atomic takes its effect before an older one; false: there are no two. */
bool amd_slip(Wave *wave);
/* NULL after amd_fail. */
unsigned char *amd_shared(Wave *wave, u64 offset, u32 bytes);

/* cache.c: caches, all empty. NULL: out of memory. */
Cache *amd_cache_open(size_t count);
Cache *amd_cache_at(Cache *caches, size_t index);
void amd_cache_close(Cache *caches, size_t count);
/* What only this one has goes to memory; what memory has too is dropped. */
void amd_cache_write_back(Cache *cache);
void amd_cache_empty(Cache *cache);
/* Through the wave's caches. */
void amd_cache_read(Wave *wave, const unsigned char *from, unsigned char *to, u32 bytes,
                    bool coherent);
void amd_cache_write(Wave *wave, unsigned char *to, const unsigned char *from, u32 bytes,
                     bool coherent);
/* Ahead of an atomic, which memory does: whole words, at most written back and no longer here. */
void amd_cache_drop(Wave *wave, unsigned char *at, u32 bytes);

/* vector.c: an instruction with DPP, two of VOPD. */
void amd_run_dpp(Wave *wave, const Instruction *in);
void amd_run_dual(Wave *wave, const Instruction *in);
/* One whose registers are counted from an index, while s_set_gpr_idx_on holds. */
void amd_run_indexed(Wave *wave, const Instruction *in);

/* The generic addresses of shared and of scratch memory: their upper halves. */
enum { SHARED_APERTURE = 0x10000, SCRATCH_APERTURE = 0x20000 };

static inline u64 amd_scalar_64(const Wave *wave, u32 at) {
    return (u64)wave->s[at + 1] << 32 | wave->s[at];
}
static inline u64 amd_lanes_all(const Wave *wave) {
    return wave->lanes == 64 ? ~0ull : 0xffffffffull;
}
static inline u64 amd_exec(const Wave *wave) {
    return amd_scalar_64(wave, S_EXEC) & amd_lanes_all(wave);
}

#endif
