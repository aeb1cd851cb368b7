/* code.c: from the text of an image's variants to machine code, through the cache; several at once
 * on threads of their own, each of which waits for a toolchain's process.
 *
 * What a thread makes depends on the text alone, and a cache entry appears whole, so neither the
 * number of threads nor their order can be told from the result. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "target/target.h"
#include "toolchain/toolchain.h"

enum { THREADS_MAX = 16, MESSAGE_SIZE = 4096 };

ls_status code_make(const Made *made, const char *source, RtcForm form, RtcOutput *output,
                    char *message, size_t size) {
    const ls_image *image = made->image;
    const Rtc *rtc = rtc_for_target(image->target);
    const char *target = made->level ? made->level : image->target;
    ls_status status =
        rtc->compile(source, strlen(source), image->step, target, form, made->math, output);
    if (status == LS_OK) {
        if (output->choice && !atomic_flag_test_and_set(made->told))
            base_log("code for %s is made by %s", target, output->choice);
        return LS_OK;
    }
    snprintf(message, size, "%s could not compile step %s for %s: %.3500s",
             output->maker ? output->maker : rtc->name, image->step, target,
             output->log ? output->log : "out of memory");
    rtc_output_free(output);
    return status;
}

/* Takes it from the cache, or from what was made ahead of time, which the cache then keeps. */
static bool load(const Made *made, const char *source, const CacheKey *key, bool cached,
                 Code *code) {
    const ls_image *image = made->image;
    if (cached && cache_load(key, &code->data, &code->size)) return true;
    if (rtc_for_target(image->target) != &rtc_host || made->level) return false;
    if (!kernels_load(source, image->math, &code->data, &code->size)) return false;
    if (cached) cache_store(key, code->data, code->size);
    return true;
}

/* Loads it or makes it. */
static ls_status fetch(const Made *made, size_t variant, bool no_cache, Code *code, char *message,
                       size_t size) {
    const ls_image *image = made->image;
    const Rtc *rtc = rtc_for_target(image->target);
    const char *target = made->level ? made->level : image->target;
    const char *source = image->variants[variant].source;
    char toolchain[1024], kernels[64];
    if (!rtc) {
        snprintf(message, size, "%s is emitted only, no toolchain makes code of it", image->target);
        return LS_ERROR_TOOLCHAIN;
    }
    const bool there = rtc->describe(toolchain, sizeof toolchain);
    kernels_describe(kernels, sizeof kernels);
    const CacheKey key =
        cache_key(source, strlen(source), target, image->math, there ? toolchain : kernels);
    code->from_cache = !(there && no_cache) &&
                       load(made, source, &key, !no_cache && (there || !made->level), code);
    if (code->from_cache) return LS_OK;
    if (!there) {
        snprintf(message, size, "%s", toolchain);
        return LS_ERROR_TOOLCHAIN;
    }
    RtcOutput output = {0};
    ls_status status = code_make(made, source, RTC_IMAGE, &output, message, size);
    if (status != LS_OK) return status;
    code->data = output.data;
    code->size = output.size;
    output.data = NULL;
    rtc_output_free(&output);
    if (!no_cache) cache_store(&key, code->data, code->size);
    return LS_OK;
}

ls_status code_get(Made *made, size_t variant, bool no_cache, char *message, size_t size) {
    Code *kept = &made->code[variant];
    if (!kept->data) {
        ls_status status = fetch(made, variant, no_cache, kept, message, size);
        if (status != LS_OK) return status;
    } else {
        kept->from_cache = kept->from_cache || !kept->fresh;
    }
    kept->fresh = false;
    return LS_OK;
}

/* ---- several at once ---- */

typedef struct Batch {
    const CodeRequest *requests;
    bool *wanted; /* by request: it is to be made, and by no other request */
    bool no_cache;
    size_t count, next, done;
    pthread_mutex_t lock;
    pthread_cond_t moved;
} Batch;

/* Works until all are taken. */
static void *work(void *data) {
    Batch *batch = data;
    char message[MESSAGE_SIZE];
    pthread_mutex_lock(&batch->lock);
    while (batch->next < batch->count) {
        const size_t number = batch->next++;
        const CodeRequest *request = &batch->requests[number];
        Code *code = &request->made->code[request->variant];
        pthread_mutex_unlock(&batch->lock);
        /* What fails fails again, and says why, when it is requested by itself. */
        if (batch->wanted[number] && fetch(request->made, request->variant, batch->no_cache, code,
                                           message, sizeof message) == LS_OK)
            code->fresh = true;
        pthread_mutex_lock(&batch->lock);
        batch->done++;
        pthread_cond_signal(&batch->moved);
    }
    pthread_mutex_unlock(&batch->lock);
    return NULL;
}

/* The program's signal handlers run on the program's own threads. */
static size_t start_threads(Batch *batch, pthread_t threads[THREADS_MAX]) {
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t wanted = processors < 1 ? 1 : (size_t)processors, started = 0;
    if (wanted > THREADS_MAX) wanted = THREADS_MAX;
    if (wanted > batch->count) wanted = batch->count;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started < wanted && pthread_create(&threads[started], NULL, work, batch) == 0) started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

void code_make_all(const CodeRequest *requests, size_t count, bool no_cache,
                   void (*done)(void *user, size_t done), void *user) {
    pthread_t threads[THREADS_MAX];
    Batch batch = {.requests = requests, .count = count, .no_cache = no_cache};
    batch.wanted = calloc(count + 1, sizeof *batch.wanted);
    if (!batch.wanted) return; /* they are made one by one */
    for (size_t i = 0; i < count; i++) {
        Code *code = &requests[i].made->code[requests[i].variant];
        batch.wanted[i] = !code->data && !code->asked;
        code->asked = true;
    }
    pthread_mutex_init(&batch.lock, NULL);
    pthread_cond_init(&batch.moved, NULL);
    const size_t started = start_threads(&batch, threads);
    if (started == 0) work(&batch);
    pthread_mutex_lock(&batch.lock);
    for (size_t told = 0; told < count;) {
        while (batch.done == told) pthread_cond_wait(&batch.moved, &batch.lock);
        told = batch.done;
        pthread_mutex_unlock(&batch.lock);
        if (done) done(user, told);
        pthread_mutex_lock(&batch.lock);
    }
    pthread_mutex_unlock(&batch.lock);
    for (size_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
    for (size_t i = 0; i < count; i++) requests[i].made->code[requests[i].variant].asked = false;
    pthread_cond_destroy(&batch.moved);
    pthread_mutex_destroy(&batch.lock);
    free(batch.wanted);
}
