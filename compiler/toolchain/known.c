/* known.c: code of variants for axes of known lengths, which are constants of its text: taken from
 * the cache, or made on a thread of its own while the program goes on with the general code.
 *
 * In the cache it lies under the text of the general code and the lengths, so that a look needs no
 * text. The thread touches nothing of the compilation but the KnownCode that it works on; a last
 * store to `state` hands that over. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "target/target.h"
#include "toolchain/toolchain.h"

struct Background {
    pthread_mutex_t lock;
    pthread_t thread;
    pid_t process; /* a child that was forked since has no thread */
    bool started, running, ends;
    KnownCode *first, *last; /* that wait */
};

bool known_lengths(const ls_image *image, uint32_t variant, const int64_t *given,
                   int64_t *lengths) {
    bool any = false;
    for (uint32_t a = 0; a < image->axis_count; a++) {
        const bool is_row = image->variants[variant].row_axes >> a & 1;
        lengths[a] = is_row && given[a] > 0 && given[a] <= KNOWN_LENGTH_MAX ? given[a] : 0;
        any |= lengths[a] > 0;
    }
    return any;
}

KnownCode *known_find(const Made *made, uint32_t variant, const int64_t *lengths) {
    const size_t size = made->image->axis_count * sizeof *lengths;
    for (KnownCode *known = made->known; known; known = known->next)
        if (known->variant == variant && memcmp(known->lengths, lengths, size) == 0) return known;
    return NULL;
}

KnownCode *known_new(Arena *arena, const Made *made, uint32_t variant, const int64_t *lengths) {
    const ls_image *image = made->image;
    size_t count = 0;
    for (const KnownCode *known = made->known; known; known = known->next)
        count += known->variant == variant;
    if (count == KNOWN_MAX) return NULL;
    KnownCode *known = arena_alloc(arena, sizeof *known);
    int64_t *own = arena_alloc(arena, (image->axis_count + 1) * sizeof *own);
    Text options = text_open(arena);
    text_puts(&options, image->math);
    for (uint32_t a = 0; a < image->axis_count; a++) {
        own[a] = lengths[a];
        if (own[a]) text_printf(&options, ", %s = %lld", image->axes[a].name, (long long)own[a]);
    }
    *known = (KnownCode){.made = made, .variant = variant, .lengths = own, .options = options.data};
    return known;
}

/* False: no toolchain is here, which is where the only other code comes from. */
static bool find_key(const KnownCode *known, CacheKey *key) {
    const ls_image *image = known->made->image;
    const char *source = image->variants[known->variant].source;
    char toolchain[1024];
    if (!rtc_for_target(image->target)->describe(toolchain, sizeof toolchain)) return false;
    *key = cache_key(source, strlen(source), image->target, known->options, toolchain);
    return true;
}

bool known_load(KnownCode *known) {
    CacheKey key;
    if (known->no_cache || !find_key(known, &key) ||
        !cache_load(&key, &known->code.data, &known->code.size))
        return false;
    known->code.from_cache = true;
    atomic_store_explicit(&known->state, KNOWN_THERE, memory_order_release);
    return true;
}

void known_make(KnownCode *known) {
    RtcOutput output = {0};
    CacheKey key;
    char message[512];
    KnownState state = KNOWN_FAILED;
    if (code_make(known->made, known->source, RTC_IMAGE, &output, message, sizeof message) ==
        LS_OK) {
        known->code.data = output.data;
        known->code.size = output.size;
        output.data = NULL;
        rtc_output_free(&output);
        if (!known->no_cache && find_key(known, &key))
            cache_store(&key, known->code.data, known->code.size);
        state = KNOWN_THERE;
    } else {
        base_log("the general code is used for good: %s", message);
    }
    atomic_store_explicit(&known->state, state, memory_order_release);
}

ls_status known_take(const KnownCode *known, const void **code, size_t *size, int *from_cache) {
    const int state =
        known ? atomic_load_explicit(&known->state, memory_order_acquire) : KNOWN_AWAITED;
    if (state == KNOWN_FAILED) return LS_ERROR_UNSUPPORTED;
    if (state == KNOWN_AWAITED) return LS_OK;
    *code = known->code.data;
    *size = known->code.size;
    *from_cache = known->code.from_cache;
    return LS_OK;
}

/* ---- the thread ---- */

/* Until nothing waits. */
static void *work(void *data) {
    Background *background = data;
    pthread_mutex_lock(&background->lock);
    while (background->first && !background->ends) {
        KnownCode *known = background->first;
        background->first = known->after;
        pthread_mutex_unlock(&background->lock);
        known_make(known);
        pthread_mutex_lock(&background->lock);
    }
    background->running = false;
    pthread_mutex_unlock(&background->lock);
    return NULL;
}

/* The program's signal handlers run on the program's own threads. */
static bool start_thread(Background *background) {
    sigset_t all, before;
    if (background->started) pthread_join(background->thread, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    background->started = pthread_create(&background->thread, NULL, work, background) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return background->started;
}

bool background_add(Background **made, KnownCode *known) {
    Background *background = *made;
    if (!background) {
        background = calloc(1, sizeof *background);
        if (!background) return false;
        pthread_mutex_init(&background->lock, NULL);
        background->process = getpid();
        *made = background;
    }
    if (background->process != getpid()) return false;
    pthread_mutex_lock(&background->lock);
    known->after = NULL;
    if (background->first)
        background->last->after = known;
    else
        background->first = known;
    background->last = known;
    const bool start = !background->running;
    background->running = true;
    pthread_mutex_unlock(&background->lock);
    if (!start || start_thread(background)) return true;
    background->running = false; /* and nothing else waits */
    background->first = NULL;
    return false;
}

void background_close(Background *background) {
    if (!background) return;
    if (background->process == getpid()) {
        pthread_mutex_lock(&background->lock);
        background->ends = true;
        pthread_mutex_unlock(&background->lock);
        if (background->started) pthread_join(background->thread, NULL);
        pthread_mutex_destroy(&background->lock);
    }
    free(background);
}
