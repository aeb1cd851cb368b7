/* monitor_pcie.c: how much goes over PCIe to and from a device.
 *
 * Both vendors count while they are asked: NVML for 20 ms in each direction, the kernel for AMD's
 * devices for a second. So a thread of its own asks, from the first sample on, about once a
 * second. */
#include "runtime.h"
#include "gpu.h"
#include "monitor.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct PcieWatch {
    PcieRead *read;
    const Monitor *monitor;
    pthread_t thread;
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t ending;
    bool ends;
    PcieTraffic traffic;
    double seconds; /* when that was */
};

/* Where reading does not take the second, waiting does. */
static void *watch_traffic(void *argument) {
    enum { PAUSE = 1 };
    PcieWatch *watch = argument;
    pthread_mutex_lock(&watch->lock);
    while (!watch->ends) {
        pthread_mutex_unlock(&watch->lock);
        PcieTraffic traffic = {false, false, 0, 0};
        watch->read(watch->monitor, &traffic);
        pthread_mutex_lock(&watch->lock);
        watch->traffic = traffic;
        watch->seconds = time_us() * 1e-6;
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += PAUSE;
        if (!watch->ends) pthread_cond_timedwait(&watch->ending, &watch->lock, &until);
    }
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

PcieWatch *pcie_open(const Monitor *monitor, PcieRead *read) {
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0) return NULL;
    PcieWatch *watch = calloc(1, sizeof *watch);
    if (!watch) {
        pthread_condattr_destroy(&attributes);
        return NULL;
    }
    watch->monitor = monitor;
    watch->read = read;
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    bool made = pthread_mutex_init(&watch->lock, NULL) == 0;
    if (made && pthread_cond_init(&watch->ending, &attributes) != 0) {
        pthread_mutex_destroy(&watch->lock);
        made = false;
    }
    pthread_condattr_destroy(&attributes);
    if (made && thread_start(&watch->thread, watch_traffic, watch) == 0) return watch;
    if (made) {
        pthread_cond_destroy(&watch->ending);
        pthread_mutex_destroy(&watch->lock);
    }
    free(watch);
    return NULL;
}

void pcie_sample(PcieWatch *watch, ls_sample *sample) {
    enum { OLD = 5 }; /* seconds */
    if (!watch) return;
    pthread_mutex_lock(&watch->lock);
    const PcieTraffic *traffic = &watch->traffic;
    const bool fresh = time_us() * 1e-6 - watch->seconds < OLD;
    if (fresh && traffic->received_known)
        monitor_take(sample, LS_READING_PCIE_RECEIVED, traffic->received);
    if (fresh && traffic->sent_known) monitor_take(sample, LS_READING_PCIE_SENT, traffic->sent);
    pthread_mutex_unlock(&watch->lock);
}

void pcie_close(PcieWatch *watch) {
    if (!watch) return;
    pthread_mutex_lock(&watch->lock);
    watch->ends = true;
    pthread_cond_signal(&watch->ending);
    pthread_mutex_unlock(&watch->lock);
    pthread_join(watch->thread, NULL);
    pthread_cond_destroy(&watch->ending);
    pthread_mutex_destroy(&watch->lock);
    free(watch);
}
