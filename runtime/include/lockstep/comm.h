/* lockstep/comm.h: several ranks, one device each, and the bytes that they hand each other.
 *
 *   ls_comm_create(context, NULL, NULL, &comm);             started by torchrun or mpirun
 *   ls_comm_all_to_all(comm, send, receive);                a part for every rank
 *   ls_comm_all_gather(comm, parts);                        in place
 *
 * No operation adds or rounds anything: engines move bytes, steps compute (ls_step_bind_sum), so a
 * result does not depend on how many ranks computed it where a batch is divided into the same slots
 * for any number of them, each rank with a power of two of these (runtime/comm/README.md).
 * lockstep.h includes this header.
 *
 * A communicator is its context's, and is used from one thread at a time with it; ls_comm_abort may
 * come from any. Threads of one process may be ranks, each with a context of its own. */
#ifndef LOCKSTEP_COMM_H
#define LOCKSTEP_COMM_H

#include <lockstep/lockstep.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- who started us ---- */

/* How torchrun, mpirun (Open MPI, MPICH and what is made of it) or srun started this process. */
typedef struct ls_comm_launch {
    const char *launcher;       /* "torchrun", "Open MPI", "MPICH", "Slurm"; static */
    int rank, size;             /* of the whole run */
    int local_rank, local_size; /* of those on this machine: device "cuda:<local_rank>" */
} ls_comm_launch;
/* 1, or 0 when the environment has none of these: rank 0 of 1. Variables that make no sense count
 * as none here; ls_comm_create says what is wrong with them. */
int ls_comm_launched(ls_comm_launch *launch);

/* ---- a communicator ---- */

typedef struct ls_comm ls_comm;

/* Names a communicator to be. One rank makes it and hands it to the others (a file, a socket,
 * another communicator's ls_comm_broadcast), like an ncclUniqueId. */
typedef struct ls_comm_id {
    char bytes[128];
} ls_comm_id;
ls_status ls_comm_id_create(const char *engine, ls_comm_id *id); /* message: the thread's */

typedef struct ls_comm_options {
    int rank, size; /* size 0: both as the launcher says, else 0 of 1 */
    /* NULL: made of the launcher's name for the run; then the communicators of one engine must be
     * created in the same order on every rank. Must be given where rank and size are. */
    const ls_comm_id *id;
    /* How long a rank waits in one call for another that does nothing; 0: 600. The smallest of
     * the ranks' counts. */
    double timeout_s;
} ls_comm_options;

/* Joins the other ranks: returns when all have called it. `engine`:
 *
 *   "self"  one rank, by itself;
 *   "shm"   up to 240 ranks of one machine, by shared memory: processes, or threads with a context
 *           each. Needs no library. On a GPU the bytes go through the host;
 *   "mpi"   Open MPI, MPICH and what shares their interfaces (Intel MPI, MVAPICH, Cray), loaded
 *           when first asked for (LOCKSTEP_MPI names another file); started by its mpirun or srun.
 *           MPI is initialised where the program has not done it, and finalised at exit then. On a
 *           GPU the bytes go through the host. `id` has no meaning;
 *   "nccl"  NVIDIA's NCCL, on CUDA devices, and "rccl", AMD's RCCL, on HIP devices, loaded when
 *           asked for (LOCKSTEP_NCCL names another file): sends and receives in the stream's order,
 *           without the host. `id` is ls_comm_id_create's of that engine, or any other, by which
 *           rank 0 hands one over through shm or mpi. A rank that ends is found by the time-out, in
 *           which what was queued before the operation counts, too, or by what the library reports;
 *           operations in graphs have no time-out. Sizes that differ between ranks are not found;
 *   NULL    "self" for one rank, "shm" where the launcher put all on one machine, else "mpi".
 *
 * `options` NULL: none. Errors: LS_ERROR_ARGUMENT; LS_ERROR_UNSUPPORTED, an engine that cannot be
 * had here; LS_ERROR_COMM, a rank did not come, or came with another size or version. */
ls_status ls_comm_create(ls_context *context, const char *engine, const ls_comm_options *options,
                         ls_comm **comm);
/* One on the trainer's own communicator, which stays the trainer's and is used for nothing else of
 * ours than to be duplicated: `handle` points to an MPI_Comm with engine "mpi". With "nccl" and
 * "rccl" it points to an ncclComm_t, which is used as it is, by one of both at a time, must stay
 * until ls_comm_destroy, and is aborted by a failure. All its ranks call it. The time-out is the
 * default. */
ls_status ls_comm_import(ls_context *context, const char *engine, const void *handle,
                         ls_comm **comm);
/* Waits for nobody. Graphs that hold its operations must be gone, and the context be there. What
 * other ranks still want of it is an error there. */
void ls_comm_destroy(ls_comm *comm);
int ls_comm_rank(const ls_comm *comm);
int ls_comm_size(const ls_comm *comm);
const char *ls_comm_engine(const ls_comm *comm); /* "shm" */

/* ---- operations ----
 *
 * All ranks call the same operations in the same order. They come in the order of the context's
 * stream, behind what was launched before: on a CPU an operation is done when the call returns;
 * on a GPU with an engine of the host the call waits, and goes through page-locked memory. Between
 * ls_graph_begin and ls_graph_end they are recorded and run at each replay, with the memory named
 * at the recording; LS_ERROR_UNSUPPORTED where the driver records no copies or host functions.
 * Sizes are in bytes and go beyond 2^32; parts may be empty. What a rank sends must be what the
 * other wants: other kinds, roots or sizes are an error on both that says what each was doing.
 *
 * An error is final, and the same on all ranks. When a process ends, aborts or keeps the others
 * waiting for longer than the time-out, every operation under way or to come, on every rank, gives
 * LS_ERROR_COMM with one message that names that rank; what was to be received may be half there.
 * Of a graph's operations the replay's call gives it (on a GPU, ls_synchronize), and what was
 * launched behind the failed one in that graph has run on what was there: go on from a checkpoint,
 * with any number of ranks. */

/* Some memory of the context's device. */
typedef struct ls_comm_piece {
    void *data; /* may be NULL where bytes is 0 */
    uint64_t bytes;
} ls_comm_piece;
/* Pieces that count as one run of bytes, as of the tensors of a list. The array, read during the
 * call only, stays the caller's; so does the memory, until the operation is done. */
typedef struct ls_comm_part {
    const ls_comm_piece *pieces;
    size_t count;
} ls_comm_part;

/* `send` and `receive` are arrays of one part for each rank: rank r gets send[r] of every rank, in
 * its receive[that rank]; one's own is copied. What is received may not overlap anything else.
 * Gradients: each rank gets the others' partial sums of the elements that it owns. */
ls_status ls_comm_all_to_all(ls_comm *comm, const ls_comm_part *send, const ls_comm_part *receive);
/* parts[r], of any size, is rank r's: it sends its own and receives the others'. Every rank knows
 * all sizes. The weights that each rank has computed a part of, tile values of a reduction. */
ls_status ls_comm_all_gather(ls_comm *comm, const ls_comm_part *parts);
/* Rank `root` sends `part`, the others receive it. */
ls_status ls_comm_broadcast(ls_comm *comm, int root, const ls_comm_part *part);
/* Returns when every rank has come; nothing launched behind it runs before. */
ls_status ls_comm_barrier(ls_comm *comm);

/* The same two operations beside what is launched behind them: they start when the stream comes to
 * them, so that what was launched before has written what they send, and go on in their order.
 * What they send may not be written, and what they receive not be used, by what comes before
 * ls_comm_wait. So a part of the gradients is exchanged while the next is computed; bytes and their
 * order are those of the operations above. In graphs too, each with its ls_comm_wait. On a CPU a
 * thread does them, on a GPU with NCCL or RCCL a stream of the communicator's own, a branch of a
 * graph. Where they cannot run aside (on a GPU through the host, and with an MPI that one thread
 * only may call) they are done in the stream's order. */
ls_status ls_comm_begin_all_to_all(ls_comm *comm, const ls_comm_part *send,
                                   const ls_comm_part *receive);
ls_status ls_comm_begin_all_gather(ls_comm *comm, const ls_comm_part *parts);
/* What is launched from here on waits for all that was begun; on a CPU the call does. Gives the
 * failure of any; ls_synchronize alone does not wait for them, and their memory may not be freed
 * before. Every other operation of the communicator waits for them, too, and so do graphs that hold
 * such, ls_graph_begin and, for what was begun in the graph, ls_graph_end; a program that captures
 * the context's stream itself calls it before and in the capture. */
ls_status ls_comm_wait(ls_comm *comm);

/* Ends the communicator for all ranks: what waits there gives LS_ERROR_COMM at once. May be called
 * from any thread, also while another is in an operation. `reason`: up to 200 bytes of it are in
 * the message; NULL: none. */
void ls_comm_abort(ls_comm *comm, const char *reason);
/* LS_OK, or the failure of an operation so far, with its message; asks nobody. */
ls_status ls_comm_check(ls_comm *comm);
typedef struct ls_comm_statistics {
    uint64_t operations;     /* that have begun, in graphs too */
    uint64_t sent, received; /* bytes from and to other ranks, not counting one's own */
    double waited_ms;        /* in operations, for other ranks */
} ls_comm_statistics;
/* Not while something that was begun is under way. */
void ls_comm_stats(const ls_comm *comm, ls_comm_statistics *statistics);

/* ---- one file of all ranks ---- */

/* A file that all ranks write, each its own ranges of it, and that is there whole or not at all: a
 * checkpoint of whole tensors, from which any number of ranks goes on:
 *
 *   ls_comm_file_create(comm, "run.safetensors", bytes, &file);
 *   ls_comm_file_write(file, offset, values, size);          of what this rank has; rank 0's header
 *   ls_comm_file_close(file, 1);
 *
 * It is written beside `path`, under a name of its own that ends in .part, and takes the place of
 * what was there when all of it is on the disk; whatever fails before, a rank that is killed too,
 * leaves what was there as it was (a run that is killed as a whole leaves the .part as well). On
 * several machines `path` is of a file system that all of them have. What is wrong on one rank is
 * LS_ERROR_FILE on all, with the rank and the reason, and the communicator goes on. */
typedef struct ls_comm_file ls_comm_file;
/* All ranks, with the path of one file and its size. Not while a graph is recorded. */
ls_status ls_comm_file_create(ls_comm *comm, const char *path, uint64_t bytes, ls_comm_file **file);
/* Each rank for itself: bytes of the host's memory. No byte is written twice. A failure is kept
 * for ls_comm_file_close, which has to come all the same. */
ls_status ls_comm_file_write(ls_comm_file *file, uint64_t offset, const void *data, uint64_t bytes);
/* All ranks: gives the handle back in any case. `keep` 0 gives the file up, for all of them;
 * LS_ERROR_FILE where the ranks have not written every byte. */
ls_status ls_comm_file_close(ls_comm_file *file, int keep);
/* All ranks, each after ls_profile_end: the traces of all (ls_profile_trace) as one such file, a
 * process with the name "rank 3 of 8" for each, whose label says the host and the process. Times
 * are those of rank 0's clock; of other machines' clocks the label says within how much. */
ls_status ls_comm_trace(ls_comm *comm, const char *path);

/* ---- which rank has what of a list ---- */

typedef struct ls_cut { /* before an element of a tensor; the list's end is element 0 of none */
    size_t tensor;
    int64_t element;
} ls_cut;
/* Cuts a list into `runs` runs of nearly the same bytes, one for each rank: run r is what lies
 * between cuts[r] and cuts[r + 1]; `cuts` has room for runs + 1. A tensor of which units[i] is 0
 * stays whole, another is cut at common multiples of units[i] and 1024 elements only: there the
 * tiles of reductions begin, so a step on the runs has the bits of a step on the whole. The units
 * are the lengths of blocks (of 8-bit states), or the columns of a matrix that is to be cut between
 * rows; `units` NULL: 1024. Each end of a run is off by at most half of its tensor's distance
 * between such places. Only types and shapes are looked at; the message of an LS_ERROR_ARGUMENT is
 * the thread's. */
ls_status ls_partition(const ls_tensor *tensors, size_t count, const int64_t *units, int runs,
                       ls_cut *cuts);
/* What one run has of each tensor, in elements of its memory order: fills `pieces` (NULL: none) and
 * returns how many there are, at most `count`. An empty tensor is in one run. */
typedef struct ls_partition_piece {
    size_t tensor;
    int64_t first, count;
} ls_partition_piece;
size_t ls_partition_run(const ls_tensor *tensors, size_t count, const ls_cut *cuts, int run,
                        ls_partition_piece *pieces);

/* ---- a step on one's part ---- */

/* What of a step's arrays each rank has. */
typedef struct ls_partition_parts {
    /* One of the step's parameters, whose tensors these are; NULL: its first list. Other parameters
     * are cut where their axes are: moments, codes, scales of blocks. */
    const char *parameter;
    const char *axis; /* of a step without lists, where the parameter has several: that which is
                         cut; the one tensor is as long as this axis then. Else NULL */
    const ls_tensor
        *tensors; /* all of them, by types and shapes; of an array that is no list one */
    size_t count;
    const ls_cut *cuts; /* one more than ranks: ls_partition's */
} ls_partition_parts;
/* Makes a step that is written over whole tensors run on this rank's part of them, with the bits of
 * the step on the whole: the same .step file for one device and for many.
 *
 * - Lists that are cut are bound to this rank's pieces, in order (ls_partition_run): as many flat
 *   tensors, or one flat array of all. Arrays and lists that are not cut, such as a learning rate
 *   for each tensor, are whole on every rank, and so is what the step gives of them, such as the
 *   norm of each tensor: every rank computes all of it.
 * - Where a cut lies within a tensor, the axes of its tensors in the step are one (`n of t`); a
 *   step over rows and columns is cut between tensors (units of 0 for ls_partition).
 * - Draws, `index` and `size` are those of the whole.
 * - A reduction along what is cut is one of the tiles of 1024 elements, or of the tensors, of all
 *   ranks: the launch gathers these values (ls_comm_all_gather) and goes on, as often as one
 *   reduction needs another. All ranks launch the step, and decide the same: one norm, one skip.
 *   Arrays are read again behind each such exchange, and are stored to behind the last.
 *
 * Comes before the step is in a graph and behind its ls_step_bind_sum, which may be called again
 * for as many arrays. A step on parts allocates no arrays: all are bound, but for outs that nobody
 * asks for. `comm` must outlive the step; with one rank the step stays as it is. `parts` is read in
 * the call only. LS_ERROR_UNSUPPORTED, with the line, why, and what to do instead: of steps with
 * `for`, of those built ahead of time, of a scan or a read at an index along what is cut within
 * tensors, whose values may be another rank's.
 *
 * Vocabulary-parallel cross entropy: logits[b, v] cut along v, each rank with the columns of its
 * part of the vocabulary, `logsumexp[v](logits)` and `sum[v](if v == label then logits else 0.0)`.
 */
ls_status ls_step_partition(ls_step *step, ls_comm *comm, const ls_partition_parts *parts);

#ifdef __cplusplus
}
#endif
#endif
