/* comm.c: communicators: which engine, which rank of how many, their life and their failure. */
#include "runtime.h"
#include "comm/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const CommEngine *const engines[] = {&engine_self, &engine_shm, &engine_mpi, &engine_nccl,
                                            &engine_rccl};
static const double default_timeout_s = 600;

static ls_status null_argument(const ls_comm *comm, const char *call, const char *what) {
    return error_set(comm ? &comm->context->error : NULL, LS_ERROR_ARGUMENT, "%s: %s is NULL", call,
                     what);
}

static ls_status find_engine(Error *error, const char *call, const char *name,
                             const CommEngine **engine) {
    for (size_t i = 0; i < COUNT(engines); i++) {
        *engine = engines[i];
        if (strcmp(name, engines[i]->name) == 0) return LS_OK;
    }
    *engine = NULL;
    return error_set(error, LS_ERROR_UNSUPPORTED,
                     "%s: there is no engine `%.40s`; there are self, shm, mpi, nccl and rccl",
                     call, name);
}

/* ---- names ---- */

ls_status ls_comm_id_create(const char *engine, ls_comm_id *id) {
    static const char call[] = "ls_comm_id_create";
    const CommEngine *found = NULL;
    if (!id) return null_argument(NULL, call, "id");
    *id = (ls_comm_id){{0}};
    ls_status status = engine ? find_engine(NULL, call, engine, &found) : LS_OK;
    if (status != LS_OK) return status;
    if (found && found->make_id) {
        Error error = {0};
        status = found->make_id(id, &error);
        if (status != LS_OK)
            error_set(NULL, status, "%s: engine %s: %.4000s", call, engine, error.text);
        return status;
    }
    uint64_t random[2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return error_set(NULL, LS_ERROR_UNSUPPORTED, "%s: the system gives no random numbers",
                         call);
    snprintf(id->bytes, sizeof id->bytes, "lockstep %016llx%016llx", (unsigned long long)random[0],
             (unsigned long long)random[1]);
    return LS_OK;
}

/* The run's name, by its hash: it may be longer than an id. */
static ls_comm_id id_of_run(const char *run) {
    ls_comm_id id = {{0}};
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (const char *at = run; *at; at++) hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
    snprintf(id.bytes, sizeof id.bytes, "run %016llx %.80s", (unsigned long long)hash, run);
    return id;
}

/* ---- which rank of how many ---- */

static ls_status wrong(const ls_context *context, const char *message) {
    return error_set((Error *)(uintptr_t)&context->error, LS_ERROR_ARGUMENT, "ls_comm_create: %s",
                     message);
}

static ls_status place_by_launcher(ls_context *context, ls_comm_id *run, CommPlace *place) {
    Launcher launcher;
    Error found = {0};
    ls_status status = launcher_find(&found, &launcher);
    if (status != LS_OK)
        return error_set(&context->error, status, "ls_comm_create: %.1000s", found.text);
    const ls_comm_launch *launch = &launcher.launch;
    place->rank = launch->launcher ? launch->rank : 0;
    place->size = launch->launcher ? launch->size : 1;
    place->local_size = launch->launcher ? launch->local_size : 1;
    if (place->id) return LS_OK;
    *run = id_of_run(launcher.run);
    place->id = run;
    return LS_OK;
}

static ls_status find_place(ls_context *context, const ls_comm_options *options, ls_comm_id *run,
                            CommPlace *place) {
    *place = (CommPlace){.rank = options->rank, .size = options->size, .id = options->id};
    place->timeout_s = options->timeout_s == 0 ? default_timeout_s : options->timeout_s;
    if (!(place->timeout_s > 0 && place->timeout_s < 1e9))
        return wrong(context, "timeout_s must be a number of seconds above 0");
    if (options->size == 0 && options->rank != 0)
        return wrong(context, "rank is given and size is not");
    if (options->size == 0) return place_by_launcher(context, run, place);
    if (options->size < 0 || options->rank < 0 || options->rank >= options->size)
        return error_set(&context->error, LS_ERROR_ARGUMENT,
                         "ls_comm_create: rank is %d and size %d; ranks count from 0",
                         options->rank, options->size);
    if (options->size > 1 && !options->id)
        return wrong(context, "rank and size are given and id is not: make one by "
                              "ls_comm_id_create on one rank and hand it to the others");
    return LS_OK;
}

static ls_status choose_engine(ls_context *context, const char *name, const CommPlace *place,
                               const CommEngine **engine) {
    const bool here = place->local_size == 0 || place->local_size == place->size;
    if (!name) name = place->size == 1 ? "self" : here ? "shm" : "mpi";
    ls_status status = find_engine(&context->error, "ls_comm_create", name, engine);
    if (status != LS_OK || place->size <= (*engine)->most) return status;
    return error_set(&context->error, LS_ERROR_UNSUPPORTED,
                     "ls_comm_create: engine %s joins at most %d rank%s, not %d", (*engine)->name,
                     (*engine)->most, (*engine)->most == 1 ? "" : "s", place->size);
}

/* ---- life ---- */

static ls_status open_engine(ls_context *context, const char *call, const CommEngine *engine,
                             CommPlace *place, ls_comm **comm) {
    ls_comm *made = calloc(1, sizeof *made);
    if (!made) return error_memory(&context->error, call);
    *made = (ls_comm){.context = context, .engine = engine};
    place->context = context;
    ls_status status = engine->open(place, &made->failure, &made->state);
    if (status != LS_OK) {
        error_set(&context->error, status, "%s: engine %s: %.4000s", call, engine->name,
                  made->failure.text);
        free(made);
        return status;
    }
    made->rank = place->rank;
    made->size = place->size;
    made->next = context->comms;
    context->comms = made;
    log_write(LOG_INFO, "rank %d of %d by engine %s", made->rank, made->size, engine->name);
    *comm = made;
    return LS_OK;
}

ls_status ls_comm_import(ls_context *context, const char *engine, const void *handle,
                         ls_comm **comm) {
    static const char call[] = "ls_comm_import";
    const CommEngine *chosen = NULL;
    CommPlace place = {.timeout_s = default_timeout_s, .given = handle};
    if (comm) *comm = NULL;
    if (!context || !comm || !engine || !handle)
        return error_set(context ? &context->error : NULL, LS_ERROR_ARGUMENT, "%s: %s is NULL",
                         call,
                         !context  ? "context"
                         : !engine ? "engine"
                         : !handle ? "handle"
                                   : "comm");
    ls_status status = context_not_capturing(context, call);
    if (status == LS_OK) status = find_engine(&context->error, call, engine, &chosen);
    if (status == LS_OK && !chosen->takes)
        status = error_set(&context->error, LS_ERROR_UNSUPPORTED,
                           "%s: engine %s has no library whose communicators it could take", call,
                           engine);
    return status == LS_OK ? open_engine(context, call, chosen, &place, comm) : status;
}

ls_status ls_comm_create(ls_context *context, const char *engine, const ls_comm_options *options,
                         ls_comm **comm) {
    static const char call[] = "ls_comm_create";
    static const ls_comm_options none = {0};
    const CommEngine *chosen = NULL;
    CommPlace place;
    ls_comm_id run;
    if (comm) *comm = NULL;
    if (!context || !comm)
        return error_set(context ? &context->error : NULL, LS_ERROR_ARGUMENT, "%s: %s is NULL",
                         call, context ? "comm" : "context");
    ls_status status = context_not_capturing(context, call);
    if (status == LS_OK) status = find_place(context, options ? options : &none, &run, &place);
    if (status == LS_OK) status = choose_engine(context, engine, &place, &chosen);
    return status == LS_OK ? open_engine(context, call, chosen, &place, comm) : status;
}

void ls_comm_destroy(ls_comm *comm) {
    if (!comm) return;
    context_settle(comm->context);
    ls_comm **at = &comm->context->comms;
    while (*at != comm) at = &(*at)->next;
    *at = comm->next;
    aside_close(comm);
    side_close(comm);
    comm->engine->close(comm->state);
    operations_free(comm);
    free(comm);
}

ls_context *comm_context(const ls_comm *comm) {
    return comm->context;
}

int ls_comm_rank(const ls_comm *comm) {
    return comm ? comm->rank : 0;
}

int ls_comm_size(const ls_comm *comm) {
    return comm ? comm->size : 1;
}

const char *ls_comm_engine(const ls_comm *comm) {
    return comm ? comm->engine->name : "?";
}

/* ---- failure ---- */

static ls_status note(ls_comm *comm, const char *call, const Transfer *transfer, ls_status status,
                      const Error *error) {
    comm->statistics.operations++;
    for (int rank = 0; rank < comm->size; rank++) {
        comm->statistics.sent += part_bytes(transfer_to(transfer, comm->rank, rank));
        comm->statistics.received += part_bytes(transfer_from(transfer, comm->rank, rank));
    }
    if (status == LS_OK) return LS_OK;
    error_set(&comm->failure, status, "%s on rank %d of %d: %.4000s", call, comm->rank, comm->size,
              error->text);
    comm->failed_with = status;
    atomic_store(&comm->failed, true);
    return status;
}

ls_status comm_run(ls_comm *comm, const char *call, const Transfer *transfer) {
    Error error = {0};
    double waited_us = 0;
    if (atomic_load(&comm->failed)) return comm->failed_with;
    ls_status status = comm->engine->run(comm->state, transfer, &error, &waited_us);
    comm->statistics.waited_ms += waited_us * 1e-3;
    return note(comm, call, transfer, status, &error);
}

ls_status comm_queue(ls_comm *comm, const char *call, const Transfer *transfer, void *stream,
                     bool captured) {
    Error error = {0};
    if (atomic_load(&comm->failed)) return comm->failed_with;
    ls_status status = comm->engine->queue(comm->state, transfer, stream, captured, &error);
    return note(comm, call, transfer, status, &error);
}

ls_status ls_comm_check(ls_comm *comm) {
    if (!comm) return null_argument(NULL, "ls_comm_check", "comm");
    Error *error = &comm->context->error, found = {0};
    if (atomic_load(&comm->failed))
        return error_set(error, comm->failed_with, "%s", comm->failure.text);
    ls_status status = comm->engine->check(comm->state, &found);
    if (status == LS_OK) return LS_OK;
    return error_set(error, status, "ls_comm_check: %.4000s", found.text);
}

ls_status comm_failure(ls_context *context) {
    ls_status status = LS_OK;
    for (ls_comm *comm = context->comms; comm && status == LS_OK; comm = comm->next)
        if (atomic_load(&comm->failed) || comm->engine->queue) status = ls_comm_check(comm);
    return status;
}

ls_status comm_join(ls_context *context, bool captured) {
    ls_status status = LS_OK;
    for (ls_comm *comm = context->comms; comm && status == LS_OK; comm = comm->next)
        status = side_join(comm, "ls_comm_wait", captured);
    return status;
}

void ls_comm_abort(ls_comm *comm, const char *reason) {
    if (comm) comm->engine->abort(comm->state, reason);
}

void ls_comm_stats(const ls_comm *comm, ls_comm_statistics *statistics) {
    if (!statistics) return;
    *statistics = comm ? comm->statistics : (ls_comm_statistics){0};
}
