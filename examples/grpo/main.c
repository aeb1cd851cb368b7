/* main.c: trains, and tells how it goes. */
#include "grpo.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static double seconds(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double share_caught(const Metrics *metrics) {
    return metrics->reachable ? (double)metrics->caught / (double)metrics->reachable : 0;
}

static void print_line(const Options *options, const Metrics *metrics, long iterations,
                       double elapsed) {
    const double learnings = (double)(iterations * options->updates);
    const double steps =
        (double)iterations * (double)options->environments * (double)options->ticks;
    printf("%9lld   %6.1f %%   %7.3f   %8.4f   %7.3f   %8.5f   %5.1f %%   %7.4f   %9.0f\n",
           (long long)metrics->episode, 100 * share_caught(metrics),
           (double)metrics->reward_sum / (double)iterations, (double)metrics->loss / learnings,
           (double)metrics->entropy / learnings, (double)metrics->kl / learnings,
           100 * (double)metrics->clipped / learnings, (double)metrics->norm_sum / learnings,
           steps / elapsed);
    fflush(stdout);
}

/* Peak memory as the system counts it, in MiB. */
static double peak_memory(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (double)usage.ru_maxrss / 1024 : 0;
}

static bool train(Trainer *trainer, const Options *options, Curve *curve) {
    double elapsed = 0;
    printf("iteration     caught    reward       loss   entropy         kl   clipped      norm"
           "     steps/s\n");
    for (long done = 0; done < options->iterations;) {
        const long rest = options->iterations - done;
        const long now = rest < options->report ? rest : options->report;
        const double start = seconds();
        Metrics metrics;
        if (!trainer_run(trainer, (uint64_t)now, &metrics)) return false;
        const double took = seconds() - start;
        done += now;
        elapsed += took;
        print_line(options, &metrics, now, took);
        if (metrics.nan_seen)
            return fail("a gradient was not finite before iteration %ld, and was left out; try a "
                        "smaller --rate",
                        done);
        if (!curve_add(curve, (Point){(double)done, share_caught(&metrics),
                                      (double)metrics.reward_sum / (double)now}))
            return false;
    }
    const double steps =
        (double)options->iterations * (double)options->environments * (double)options->ticks;
    printf("%.0f environment steps/s, %.0f us an iteration, peak memory %.1f MiB\n",
           steps / elapsed, 1e6 * elapsed / (double)options->iterations, peak_memory());
    return true;
}

int main(int count, char **arguments) {
    Options options;
    const int wrong = options_read(&options, count, arguments);
    if (wrong) return wrong < 0 ? 0 : wrong;
    Trainer trainer;
    Curve curve = {0};
    bool ok = trainer_open(&trainer, &options) && train(&trainer, &options, &curve);
    if (ok && options.curve) ok = curve_write(&curve, options.curve);
    trainer_close(&trainer);
    curve_close(&curve);
    return ok ? 0 : 1;
}
