/* monitor_pcie.c: how much goes over PCIe to and from an AMD device.
 *
 * The kernel counts packets for a second while its file pcie_bw is read, and ROCm SMI, which reads
 * the same file, keeps everything else of the device waiting meanwhile. So the file is read here,
 * by a thread of its own, from the first sample on; a device without the file has no thread. */
#include "runtime.h"
#include "gpu.h"
#include "monitor.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define PCIE_FILE "/sys/bus/pci/devices/%04x:%02x:%02x.%x/pcie_bw"

struct PcieWatch {
    const Monitor *monitor; /* for its root */
    GpuLocation location;
    pthread_t thread;
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t ending;
    bool ends;
    bool known;
    double received, sent, seconds; /* bytes in a second, and when that was */
};

/* Packets received, packets sent, and the most bytes that one carries. */
static bool read_traffic(const PcieWatch *watch, double *received, double *sent) {
    char text[128];
    unsigned long long in, out;
    unsigned max;
    const GpuLocation *at = &watch->location;
    if (!monitor_read(watch->monitor, text, sizeof text, PCIE_FILE, at->domain, at->bus, at->device,
                      at->function) ||
        sscanf(text, "%llu %llu %u", &in, &out, &max) != 3)
        return false;
    *received = (double)in * max;
    *sent = (double)out * max;
    return true;
}

/* Where reading does not take the second, waiting does. */
static void *watch_traffic(void *argument) {
    enum { PAUSE = 1 };
    PcieWatch *watch = argument;
    pthread_mutex_lock(&watch->lock);
    while (!watch->ends) {
        double received = 0, sent = 0;
        pthread_mutex_unlock(&watch->lock);
        const bool known = read_traffic(watch, &received, &sent);
        pthread_mutex_lock(&watch->lock);
        watch->known = known;
        watch->received = received;
        watch->sent = sent;
        watch->seconds = time_us() * 1e-6;
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += PAUSE;
        if (!watch->ends) pthread_cond_timedwait(&watch->ending, &watch->lock, &until);
    }
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

/* Signals are for the program's own threads. */
static bool start(PcieWatch *watch) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&watch->thread, NULL, watch_traffic, watch);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0;
}

PcieWatch *pcie_open(const Monitor *monitor, const GpuLocation *location) {
    pthread_condattr_t attributes;
    char path[192];
    snprintf(path, sizeof path, "%s" PCIE_FILE, monitor->root, location->domain, location->bus,
             location->device, location->function);
    if (access(path, R_OK) != 0 || pthread_condattr_init(&attributes) != 0) return NULL;
    PcieWatch *watch = calloc(1, sizeof *watch);
    if (!watch) {
        pthread_condattr_destroy(&attributes);
        return NULL;
    }
    watch->monitor = monitor;
    watch->location = *location;
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    bool made = pthread_mutex_init(&watch->lock, NULL) == 0;
    if (made && pthread_cond_init(&watch->ending, &attributes) != 0) {
        pthread_mutex_destroy(&watch->lock);
        made = false;
    }
    pthread_condattr_destroy(&attributes);
    if (made && start(watch)) return watch;
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
    if (watch->known && time_us() * 1e-6 - watch->seconds < OLD) {
        monitor_take(sample, LS_READING_PCIE_RECEIVED, watch->received);
        monitor_take(sample, LS_READING_PCIE_SENT, watch->sent);
    }
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
