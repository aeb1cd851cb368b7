/* comm/shm.h: the engine "shm": its memory, which all ranks map, and its files.
 *
 * A rank writes chunks into slots of its own, in order, and counts them in `written`; each rank
 * that has read one counts it in the writer's row of `taken`; a slot is written again once all
 * have. Nobody waits at a barrier: a rank that has something to write or to read does it, and
 * sleeps on its bell, a futex, only when it has neither. */
#ifndef SHM_H
#define SHM_H

#include "comm/comm.h"

enum {
    SHM_RANKS = 240, /* a message between processes carries at most 253 handles */
    SHM_SLOTS = 2,
    SHM_SLOT_BYTES = 1 << 17, /* two writes and reads of which stay in a core's cache */
    SHM_LINE = 64,
    SHM_REASON = 640
};

typedef enum ShmState { SHM_COMING, SHM_JOINED, SHM_LEFT, SHM_ENDED } ShmState;
typedef struct ShmRank {
    _Alignas(SHM_LINE) atomic_uint bell; /* rung when something may have changed for the rank */
    atomic_uint sleeps;
    atomic_uint state;
    int process;
    _Atomic uint64_t doing;  /* the operation under way: see transfer_doing; 0: none */
    _Atomic uint64_t number; /* of operations that ended */
    _Alignas(SHM_LINE) _Atomic uint64_t written; /* chunks */
} ShmRank;

typedef struct ShmEntry { /* of a chunk: what one reader gets of it */
    uint64_t at, bytes;
    uint64_t total; /* for that reader in the whole operation */
} ShmEntry;
typedef struct ShmSlot { /* in front of the chunk's bytes */
    uint64_t doing;      /* the operation that it is of */
    uint32_t last;       /* the operation's last chunk from this rank */
    ShmEntry entries[];  /* by reader */
} ShmSlot;

enum { SHM_FINE, SHM_FAILING, SHM_FAILED };
typedef struct ShmHeader {
    uint32_t size;
    atomic_uint failed;
    char reason[SHM_REASON]; /* once it is SHM_FAILED */
    ShmRank ranks[];
    /* Behind the ranks: taken[writer][reader], then the slots. */
} ShmHeader;

/* A process's map of the memory, which ranks that are its threads share. */
typedef struct ShmMap {
    ShmHeader *header;
    uint64_t bytes;
    atomic_uint users;
} ShmMap;

typedef struct Shm {
    ShmMap *map;
    ShmHeader *header;
    int rank, size;
    double timeout_s;
    int *lives; /* by rank: a handle that can be read once the process has ended; -1: unknown */
    uint64_t operations, written;
    uint64_t *taken;  /* by writer: chunks that this rank has read */
    Cursor *out, *in; /* by rank, of the operation under way */
    bool *done;       /* likewise: nothing more comes from it */
} Shm;

/* shm_memory.c: where things lie. */
uint64_t shm_bytes(int size);
_Atomic uint64_t *shm_taken(const Shm *shm, int writer, int reader);
ShmSlot *shm_slot(const Shm *shm, int writer, uint64_t chunk);
char *shm_slot_data(const Shm *shm, ShmSlot *slot);
ls_status shm_map(int file, int size, Error *error, ShmMap **map);
void shm_unmap(ShmMap *map);

/* shm_join.c: how the ranks find each other. Fills map, lives and timeout_s. */
ls_status shm_join(Shm *shm, const CommPlace *place, Error *error);

/* shm_failure.c: the one failure, and what a rank that waits looks at. */
/* The first call keeps its words; all ranks wake. Gives LS_ERROR_COMM with the words kept. */
ls_status shm_fail(Shm *shm, Error *error, const char *format, ...) PRINTF_LIKE(3, 4);
ls_status shm_failed(const Shm *shm, Error *error); /* LS_OK, or that failure */
/* The failure of two ranks that are in different operations. */
ls_status shm_differ(Shm *shm, Error *error, int other, uint64_t doing);
/* Whether those whose part is wanted have left, or their processes ended. */
void shm_look(const Shm *shm, const bool *wanted, ShmState *states);
/* After another look at the slots, as one may have written its part first: the failure of those
 * that had gone, or of one that is in another operation. */
ls_status shm_missing(Shm *shm, Error *error, const bool *wanted, const ShmState *states);
ls_status shm_timed_out(Shm *shm, Error *error, const bool *wanted);
void shm_ring(Shm *shm, int rank);
/* Until the bell is rung again, or a while. */
void shm_sleep(Shm *shm, unsigned bell);

/* shm_run.c */
ls_status shm_run(void *state, const Transfer *transfer, Error *error, double *waited_us);

#endif
