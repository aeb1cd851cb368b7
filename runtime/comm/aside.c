/* aside.c: operations that run beside what is launched behind them, on a thread of their own.
 *
 * A queue of transfers, which the thread runs in the order in which the stream came to them. What
 * is not begun but called waits for the queue first, so that all of a communicator's operations
 * stay in one order, which is that of the calls. */
#include "runtime.h"
#include "comm/comm.h"

#include <pthread.h>
#include <stdlib.h>

struct CommAside {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    CommItem *first, *last; /* the first is under way */
    bool closing;
};

static void *run_queue(void *argument) {
    ls_comm *comm = argument;
    CommAside *aside = comm->aside;
    pthread_mutex_lock(&aside->lock);
    for (;;) {
        CommItem *item = aside->first;
        if (!item && aside->closing) break;
        if (!item) {
            pthread_cond_wait(&aside->change, &aside->lock);
            continue;
        }
        pthread_mutex_unlock(&aside->lock);
        comm_run(comm, item->call, &item->transfer);
        pthread_mutex_lock(&aside->lock);
        aside->first = item->next;
        if (!aside->first) aside->last = NULL;
        item->queued = false;
        if (item->once) free(item->once);
        pthread_cond_broadcast(&aside->change);
    }
    pthread_mutex_unlock(&aside->lock);
    return NULL;
}

ls_status aside_open(ls_comm *comm, const char *call) {
    if (comm->aside) return LS_OK;
    CommAside *aside = calloc(1, sizeof *aside);
    if (!aside) return error_memory(&comm->context->error, call);
    pthread_mutex_init(&aside->lock, NULL);
    pthread_cond_init(&aside->change, NULL);
    comm->aside = aside;
    if (thread_start(&aside->thread, run_queue, comm) == 0) return LS_OK;
    comm->aside = NULL;
    pthread_cond_destroy(&aside->change);
    pthread_mutex_destroy(&aside->lock);
    free(aside);
    return error_set(&comm->context->error, LS_ERROR_MEMORY,
                     "%s: the system gives no thread for operations beside the launches", call);
}

void aside_add(ls_comm *comm, CommItem *item) {
    CommAside *aside = comm->aside;
    pthread_mutex_lock(&aside->lock);
    while (item->queued) pthread_cond_wait(&aside->change, &aside->lock); /* of a replay before */
    item->queued = true;
    item->next = NULL;
    if (aside->last)
        aside->last->next = item;
    else
        aside->first = item;
    aside->last = item;
    pthread_cond_broadcast(&aside->change);
    pthread_mutex_unlock(&aside->lock);
}

void aside_wait(ls_comm *comm) {
    CommAside *aside = comm->aside;
    if (!aside) return;
    pthread_mutex_lock(&aside->lock);
    while (aside->first) pthread_cond_wait(&aside->change, &aside->lock);
    pthread_mutex_unlock(&aside->lock);
}

void aside_close(ls_comm *comm) {
    CommAside *aside = comm->aside;
    if (!aside) return;
    pthread_mutex_lock(&aside->lock);
    const bool busy = aside->first != NULL;
    aside->closing = true;
    pthread_cond_broadcast(&aside->change);
    pthread_mutex_unlock(&aside->lock);
    if (busy) comm->engine->abort(comm->state, "it left while an operation was under way");
    pthread_join(aside->thread, NULL);
    pthread_cond_destroy(&aside->change);
    pthread_mutex_destroy(&aside->lock);
    free(aside);
    comm->aside = NULL;
}
