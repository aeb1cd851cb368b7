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

#include "compiler.h"
#include "rtc.h"
#include "plan.h"
#include "compilation.h"

enum { THREADS_MOST = 16, MESSAGE_SIZE = 4096 };

Made *compilation_made(ls_compilation *c, const ls_image *image) {
    for (size_t i = 0; i < c->step_count; i++)
        for (Made *made = c->steps[i].made; made; made = made->next)
            if (made->image == image) return made;
    return NULL;
}

ls_status code_make(const Rtc *rtc, const char *source, const char *step, const char *target,
                    RtcForm form, ls_math math, RtcOutput *output, char *message, size_t size) {
    ls_status status = rtc->compile(source, strlen(source), step, target, form, math, output);
    if (status == LS_OK) return LS_OK;
    snprintf(message, size, "%s could not compile step %s for %s: %.3500s", rtc->name, step, target,
             output->log ? output->log : "out of memory");
    rtc_output_free(output);
    return status;
}

/* Takes it from the cache or makes it. */
static ls_status fetch(const Made *made, size_t variant, bool no_cache, Code *code, char *message,
                       size_t size) {
    const ls_image *image = made->image;
    const Rtc *rtc = rtc_for_target(image->target);
    const char *source = image->variants[variant].source;
    char toolchain[1024];
    if (!rtc->describe(toolchain, sizeof toolchain)) {
        snprintf(message, size, "%s", toolchain);
        return LS_ERROR_TOOLCHAIN;
    }
    CacheKey key = cache_key(source, strlen(source), image->target, image->math, toolchain);
    code->from_cache = !no_cache && cache_load(&key, &code->data, &code->size);
    if (code->from_cache) return LS_OK;
    RtcOutput output = {0};
    ls_status status = code_make(rtc, source, image->step, image->target, RTC_IMAGE, made->math,
                                 &output, message, size);
    if (status != LS_OK) return status;
    code->data = output.data;
    code->size = output.size;
    output.data = NULL;
    rtc_output_free(&output);
    if (!no_cache) cache_store(&key, code->data, code->size);
    return LS_OK;
}

ls_status ls_compilation_code(ls_compilation *c, const ls_image *image, size_t variant,
                              const void **code, size_t *size, int *from_cache) {
    *code = NULL;
    *size = 0;
    c->message[0] = 0;
    Made *made = compilation_made(c, image);
    if (!made || variant >= image->variant_count) {
        snprintf(c->message, sizeof c->message, "the image is not one of this compilation");
        return LS_ERROR_ARGUMENT;
    }
    Code *kept = &made->code[variant];
    if (!kept->data) {
        ls_status status =
            fetch(made, variant, c->options.no_cache, kept, c->message, sizeof c->message);
        if (status != LS_OK) return status;
    } else {
        kept->from_cache = kept->from_cache || !kept->fresh;
    }
    kept->fresh = false;
    *code = kept->data;
    *size = kept->size;
    if (from_cache) *from_cache = kept->from_cache;
    return LS_OK;
}

/* ---- several at once ---- */

typedef struct Batch {
    const ls_compilation *c;
    const ls_code_request *requests;
    Made **made; /* by request; NULL: it is not to be made */
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
        const ls_code_request *request = &batch->requests[number];
        Made *made = batch->made[number];
        pthread_mutex_unlock(&batch->lock);
        /* What fails fails again, and says why, when it is asked for by itself. */
        if (made && fetch(made, request->variant, batch->c->options.no_cache,
                          &made->code[request->variant], message, sizeof message) == LS_OK)
            made->code[request->variant].fresh = true;
        pthread_mutex_lock(&batch->lock);
        batch->done++;
        pthread_cond_signal(&batch->moved);
    }
    pthread_mutex_unlock(&batch->lock);
    return NULL;
}

/* The program's signal handlers run on the program's own threads. */
static size_t start_threads(Batch *batch, pthread_t threads[THREADS_MOST]) {
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t wanted = processors < 1 ? 1 : (size_t)processors, started = 0;
    if (wanted > THREADS_MOST) wanted = THREADS_MOST;
    if (wanted > batch->count) wanted = batch->count;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started < wanted && pthread_create(&threads[started], NULL, work, batch) == 0) started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

void code_make_all(ls_compilation *c, const ls_code_request *requests, size_t count,
                   void (*done)(void *user, size_t done), void *user) {
    pthread_t threads[THREADS_MOST];
    Batch batch = {.c = c, .requests = requests, .count = count};
    batch.made = calloc(count + 1, sizeof *batch.made);
    if (!batch.made) return; /* they are made one by one */
    for (size_t i = 0; i < count; i++) {
        Made *made = compilation_made(c, requests[i].image);
        if (!made || requests[i].variant >= made->image->variant_count) continue;
        Code *code = &made->code[requests[i].variant];
        if (code->data || code->asked) continue;
        code->asked = true;
        batch.made[i] = made;
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
    for (size_t i = 0; i < count; i++)
        if (batch.made[i]) batch.made[i]->code[requests[i].variant].asked = false;
    pthread_cond_destroy(&batch.moved);
    pthread_mutex_destroy(&batch.lock);
    free(batch.made);
}

ls_status ls_compilation_codes(ls_compilation *c, const ls_code_request *requests, size_t count) {
    code_make_all(c, requests, count, NULL, NULL);
    for (size_t i = 0; i < count; i++) {
        Made *made = compilation_made(c, requests[i].image);
        if (made && requests[i].variant < made->image->variant_count &&
            made->code[requests[i].variant].data)
            continue;
        const void *code;
        size_t size;
        ls_status status =
            ls_compilation_code(c, requests[i].image, requests[i].variant, &code, &size, NULL);
        if (status != LS_OK) return status;
    }
    return LS_OK;
}
