/* main.c: minigpt, a small GPT-2 that learns the characters of a text, and the time it takes for
 * everything but the matrix products. */
#include "minigpt.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void introduce(const Trainer *trainer) {
    const Options *o = &trainer->options;
    const Model *model = &trainer->model;
    int taken = 0;
    for (int i = 0; i < STEPS; i++) taken += o->taken[i];
    printf("model    %ld layers, %ld channels, %ld heads, context %ld, %lld classes in rows of "
           "%lld: %lld parameters\n",
           o->layers, o->channels, o->heads, o->context, (long long)model->classes,
           (long long)model->padded, (long long)model->parameters);
    printf("steps    %d of %d by Lockstep, %s; the rest in plain C, products by %s\n", taken, STEPS,
           o->load ? "compiled now" : "built in", products_name());
}

/* Of all bits of the parameters, by FNV-1a: the same for steps that are built in or loaded, and for
 * any number of threads. */
static uint64_t hash(const Model *model) {
    const unsigned char *bytes = (const unsigned char *)model->values;
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < (size_t)model->parameters * sizeof(float); i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

static bool train(const Options *options, const Text *text) {
    Trainer trainer = {0};
    double seconds[KINDS] = {0}, others = 0;
    bool ok = trainer_open(&trainer, options, text);
    if (ok) introduce(&trainer);
    for (long step = 1; ok && step <= options->steps; step++) {
        ok = trainer_gradients(&trainer, text, seconds) && trainer_update(&trainer, seconds);
        const double loss = (double)trainer.model.loss;
        if (ok && !isfinite(loss))
            ok = fail("the loss is not finite any more: try a smaller --rate");
        if (!ok || (step % options->report != 0 && step != options->steps)) continue;
        double steps = 0;
        for (int i = 0; i < STEPS; i++) steps += seconds[i];
        printf("step %6ld   loss %.4f   %.2f s in products, %.2f in all else\n", step, loss,
               seconds[PRODUCT], steps);
        fflush(stdout);
        others = steps;
    }
    if (ok)
        printf("all but the products: %.3f ms a step; hash of the parameters %016" PRIx64 "\n",
               1e3 * others / (double)options->steps, hash(&trainer.model));
    trainer_close(&trainer);
    return ok;
}

int main(int count, char **arguments) {
    Options options;
    Text text = {0};
    const int status = options_read(&options, count, arguments);
    if (status) return status < 0 ? 0 : status;
    setenv("LOCKSTEP_THREADS", "1", 0); /* as the products and the plain C; the user may say more */
    bool ok = products_open(options.blas) && text_read(options.text, &text);
    if (ok && options.compare)
        ok = compare(&options, &text);
    else if (ok && options.check)
        ok = check(&options, &text);
    else if (ok)
        ok = train(&options, &text);
    text_close(&text);
    return ok ? 0 : FAILED;
}
