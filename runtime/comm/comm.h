/* comm/comm.h: the table of contents of the communicators: ranks and the bytes between them.
 *
 * An ls_comm is an engine's state and the context whose stream its operations follow. All
 * operations have one form, a Transfer: a run of bytes, perhaps empty, from every rank to every
 * other. An engine moves transfers; what is checked, copied within a rank, recorded in graphs and
 * brought to the host and back is above it and the same for all. */
#ifndef COMM_H
#define COMM_H

#include <stdatomic.h>

#include <lockstep/comm.h>

typedef enum TransferKind {
    TRANSFER_ALL_TO_ALL,
    TRANSFER_ALL_GATHER, /* a rank sends all others the same */
    TRANSFER_BROADCAST,  /* only `root` sends, and all others the same */
    TRANSFER_BARRIER,
    TRANSFER_KINDS
} TransferKind;
typedef struct Transfer {
    TransferKind kind;
    int root;                 /* of a broadcast, else 0 */
    const ls_comm_part *send; /* of an all-to-all one for each rank, else one, or NULL: nothing */
    const ls_comm_part *receive; /* for each rank; of a broadcast one; or NULL */
} Transfer;

/* What a communicator is opened with. */
typedef struct CommPlace {
    int rank, size;
    const ls_comm_id *id; /* the same bytes on all ranks; of no meaning for one rank */
    double timeout_s;
    int local_size;    /* ranks of this machine, as a launcher says; 0: unknown */
    const void *given; /* a communicator of the library's that stays the caller's, or NULL */
    ls_context *context;
} CommPlace;

/* A failure is final: whatever is asked for later fails with the same words. `run` is called by one
 * thread at a time, in the same order on all ranks; `abort` and `check` by any, at any time. Errors
 * come without the name of the call. */
typedef struct CommEngine {
    const char *name;
    int most;   /* ranks */
    bool takes; /* communicators of its library's: `given`, which has rank and size */
    /* Makes an id of the library's own; NULL: any bytes will do. */
    ls_status (*make_id)(ls_comm_id *id, Error *error);
    ls_status (*open)(CommPlace *place, Error *error, void **state);
    /* Moves what goes between different ranks; not what a rank has for itself. The memory is the
     * host's. Adds to *waited_us the time without progress. */
    ls_status (*run)(void *state, const Transfer *transfer, Error *error, double *waited_us);
    /* Instead of `run`: queues the same for memory of the device, of parts of one piece each, in
     * the order of a stream, NULL: the context's; `captured`: into a graph. */
    ls_status (*queue)(void *state, const Transfer *transfer, void *stream, bool captured,
                       Error *error);
    void (*abort)(void *state, const char *reason); /* NULL reason: none was given */
    ls_status (*check)(void *state, Error *error);
    void (*close)(void *state);
    /* Whether `run` may be called by a thread of ours while others use the library; NULL: yes. */
    bool (*any_thread)(const void *state);
} CommEngine;
extern const CommEngine engine_self;              /* self.c */
extern const CommEngine engine_shm;               /* shm.c */
extern const CommEngine engine_mpi;               /* mpi.c */
extern const CommEngine engine_nccl, engine_rccl; /* nccl.c */

/* launcher.c: what torchrun, mpirun and srun say in the environment. */
typedef struct Launcher {
    ls_comm_launch launch; /* launcher NULL: there is none */
    char run[160];         /* names the run: equal on its ranks, and no other run's at this time */
} Launcher;
ls_status launcher_find(Error *error, Launcher *launcher);

/* transfer.c: parts and what is between which ranks. */
uint64_t part_bytes(const ls_comm_part *part); /* NULL: 0 */
/* NULL: the kind has nothing from here to there. */
const ls_comm_part *transfer_to(const Transfer *transfer, int rank, int to);
const ls_comm_part *transfer_from(const Transfer *transfer, int rank, int from);
bool transfer_sends(const Transfer *transfer, int rank); /* to anyone, perhaps nothing */
const char *transfer_name(TransferKind kind);            /* "all_to_all" */
/* Which operation of a communicator it is, in a word that is not 0; its number; as text: "operation
 * 7, broadcast from rank 2". */
uint64_t transfer_doing(uint64_t number, TransferKind kind, int root);
uint64_t transfer_number(uint64_t doing);
typedef struct DoingText {
    char text[96];
} DoingText;
DoingText transfer_describe(uint64_t doing);
/* A place in a part, from which bytes are taken and to which they are given in order. */
typedef struct Cursor {
    const ls_comm_piece *piece;
    uint64_t at;        /* within the piece */
    uint64_t left, all; /* bytes of the part that are to come, and that it has */
} Cursor;
Cursor cursor_open(const ls_comm_part *part);
/* The memory that comes next, at most `bytes`, and goes past it; 0: there is no more. */
uint64_t cursor_next(Cursor *cursor, uint64_t bytes, char **data);
void cursor_take(Cursor *cursor, char *to, uint64_t bytes);
void cursor_give(Cursor *cursor, const char *from, uint64_t bytes);

/* aside.c: operations beside the launches, on a CPU. */
typedef struct CommAside CommAside;
typedef struct CommItem { /* of its queue */
    struct CommItem *next;
    const char *call;
    Transfer transfer;
    bool queued;
    void *once; /* is freed when it is done; NULL: it may come again */
} CommItem;
ls_status aside_open(ls_comm *comm, const char *call); /* the first time it makes the thread */
void aside_add(ls_comm *comm, CommItem *item);
void aside_wait(ls_comm *comm); /* until the queue is empty */
void aside_close(ls_comm *comm);

/* side.c: the same on a GPU, by an engine that queues. */
typedef struct CommSide {
    void *stream;          /* NULL: nothing was ever begun */
    void *forked, *joined; /* events */
    bool pending;          /* the context's stream has not waited for what was begun */
    bool captured;         /* that is in a graph */
} CommSide;
/* What is queued on the communicator's stream next comes behind what is on the context's. */
ls_status side_fork(ls_comm *comm, const char *call, bool captured);
/* What is queued on the context's stream next waits for what was begun. */
ls_status side_join(ls_comm *comm, const char *call, bool captured);
ls_status side_drain(ls_comm *comm); /* the host waits; outside of captures */
void side_close(ls_comm *comm);

/* comm.c */
struct ls_comm {
    ls_context *context;
    ls_comm *next; /* of the context's */
    const CommEngine *engine;
    void *state;
    int rank, size;
    CommAside *aside; /* or NULL */
    CommSide side;
    struct CommRecord *records; /* operations in graphs, until the communicator goes */
    char *staging;              /* of a GPU's operations outside of graphs: page-locked, */
                                /* or the device's where the engine moves that */
    uint64_t staging_bytes;
    ls_comm_statistics statistics;
    /* The first failure, written once by whoever runs operations; `failed` then says so. */
    Error failure;
    ls_status failed_with;
    atomic_bool failed;
};
/* Runs a transfer of the host's memory, and keeps the failure. */
ls_status comm_run(ls_comm *comm, const char *call, const Transfer *transfer);
/* Queues a transfer of the device's memory by an engine that does; see its `queue`. */
ls_status comm_queue(ls_comm *comm, const char *call, const Transfer *transfer, void *stream,
                     bool captured);

/* operation.c */
void operations_free(ls_comm *comm); /* what was recorded, and staging */
/* Some bytes of the host's from each rank, on every rank, by rank. Waits. */
ls_status comm_tell(ls_comm *comm, const char *call, const void *own, size_t bytes, void *all);

#endif
