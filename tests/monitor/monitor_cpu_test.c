/* monitor_cpu_test.c: the monitor of the CPU, on the system's own /proc and /sys and on files of a
 * machine that is none. */
#include "failing_memory.h"
#include "fixtures.h"
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64];

/* Writes a file under the root, with the folders it needs. */
static void put(const char *path, const char *text) {
    char name[256];
    snprintf(name, sizeof name, "%s%s", root, path);
    for (char *slash = name + strlen(root) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        mkdir(name, 0700);
    }
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int make_root(void **state) {
    (void)state;
    snprintf(root, sizeof root, "monitor_cpu_test.XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state) {
    (void)state;
    char command[96];
    snprintf(command, sizeof command, "rm -r '%s'", root);
    return system(command);
}

static bool knows(const ls_sample *sample, ls_reading reading, double value) {
    const double found = sample->value[reading];
    const bool known = sample->known >> reading & 1;
    if (!known || found < value - 1e-6 || found > value + 1e-6)
        print_message("%s: %s%g, expected %g\n", ls_reading_name(reading), known ? "" : "unknown ",
                      found, value);
    return known && found >= value - 1e-6 && found <= value + 1e-6;
}

/* What a process may have: all that is available, or what its control groups leave of it. */
static void limits(void **state) {
    uint64_t left, total;
    (void)state;
    put("/proc/meminfo", "MemTotal:  8000 kB\nMemFree: 1 kB\nMemAvailable: 6000 kB\n");
    assert_true(limits_memory(root, &left, &total));
    assert_int_equal(left, 6000 * 1024);
    assert_int_equal(total, 8000 * 1024);
    assert_int_equal(limits_processors(root), 0);
    /* the group around the process's own is the narrower one; files' pages can be had */
    put("/proc/self/cgroup", "0::/pods/one\n");
    put("/sys/fs/cgroup/pods/one/memory.max", "max\n");
    put("/sys/fs/cgroup/pods/one/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/pods/memory.max", "4096000\n");
    put("/sys/fs/cgroup/pods/memory.current", "3000000\n");
    put("/sys/fs/cgroup/pods/memory.stat", "anon 1\ninactive_file 1000000\n");
    put("/sys/fs/cgroup/pods/cpu.max", "250000 100000\n");
    assert_true(limits_memory(root, &left, &total));
    assert_int_equal(left, 4096000 - 2000000);
    assert_int_equal(total, 4096000);
    assert_int_equal(limits_processors(root), 3);
    put("/sys/fs/cgroup/pods/one/cpu.max", "100000 100000\n"); /* now the own one is */
    assert_int_equal(limits_processors(root), 1);
    /* the older layout; the path is one of outside of the container */
    put("/proc/self/cgroup", "6:cpuset:/other\n5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2048000\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "3048000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    assert_true(limits_memory(root, &left, &total));
    assert_int_equal(left, 0);
    assert_int_equal(total, 2048000);
    assert_int_equal(limits_processors(root), 1);
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    assert_int_equal(limits_processors(root), 0);
    put("/proc/meminfo", "nothing\n");
    assert_false(limits_memory(root, &left, &total));
}

static void files(void **state) {
    (void)state;
    ls_monitor *monitor;
    ls_sample sample;
    put("/proc/self/cgroup", "none\n");
    put("/proc/stat", "cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 2 3\n");
    put("/proc/meminfo", "MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable: 600 kB\n");
    put("/proc/cpuinfo", "processor : 0\ncpu MHz\t\t: 2000.5\nprocessor : 1\ncpu MHz : 3000.5\n");
    put("/sys/class/hwmon/hwmon0/name", "nvme\n");
    put("/sys/class/hwmon/hwmon0/temp1_input", "10000\n");
    put("/sys/class/hwmon/hwmon1/name", "k10temp\n");
    put("/sys/class/hwmon/hwmon1/temp1_input", "61500\n");
    put("/sys/class/powercap/intel-rapl:0/energy_uj", "999000000\n");
    put("/sys/class/powercap/intel-rapl:0/max_energy_range_uj", "1000000000\n");
    put("/sys/class/powercap/intel-rapl:0/constraint_0_power_limit_uw", "225000000\n");
    EXPECT_OK(NULL, monitor_create("cpu", root, &monitor));
    EXPECT_OK(NULL, ls_monitor_sample(monitor, &sample));
    assert_false(sample.known >> LS_READING_UTILISATION & 1); /* no tick has passed */
    assert_true(knows(&sample, LS_READING_MEMORY_TOTAL, 1000 * 1024));
    assert_true(knows(&sample, LS_READING_MEMORY_USED, 400 * 1024));
    assert_true(knows(&sample, LS_READING_TEMPERATURE, 61.5));
    assert_true(knows(&sample, LS_READING_CLOCK, 2500.5));
    assert_true(knows(&sample, LS_READING_POWER_LIMIT, 225));
    put("/proc/stat", "cpu  160 10 105 715 110 0 0 0 0 0\n");    /* 75 of 100 busy */
    put("/sys/class/powercap/intel-rapl:0/energy_uj", "1000\n"); /* began again */
    put("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "3200000\n");
    put("/sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "3400000\n");
    EXPECT_OK(NULL, ls_monitor_sample(monitor, &sample));
    assert_true(knows(&sample, LS_READING_UTILISATION, 75));
    assert_true(knows(&sample, LS_READING_CLOCK, 3300));
    assert_true(sample.value[LS_READING_POWER] > 0); /* 1.001 J in the time that passed */
    assert_true(knows(&sample, LS_READING_ENERGY, 1.001));
    assert_false(sample.known >> LS_READING_FAN & 1);
    put("/proc/self/cgroup",
        "0::/pods/one\n"); /* which has 4,096,000 bytes, and two million left */
    put("/proc/meminfo", "MemTotal: 9000 kB\nMemAvailable: 8000 kB\n");
    EXPECT_OK(NULL, ls_monitor_sample(monitor, &sample));
    assert_true(knows(&sample, LS_READING_MEMORY_TOTAL, 4096000));
    assert_true(knows(&sample, LS_READING_MEMORY_USED, 2000000));

    put("/proc/stat", "nonsense\n");
    put("/proc/meminfo", "MemTotal: 5 kB\nMemAvailable: 600 kB\n");
    put("/sys/class/hwmon/hwmon1/temp1_input", "-40000000\n");
    put("/sys/class/powercap/intel-rapl:0/energy_uj", "nan\n");
    put("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "99999999999\n");
    put("/sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "inf\n");
    EXPECT_OK(NULL, ls_monitor_sample(monitor, &sample));
    assert_int_equal(sample.known, 1u << LS_READING_POWER_LIMIT);
    ls_monitor_destroy(monitor);
}

static void processes_of(ls_monitor *monitor, ls_process *rows, size_t expected) {
    size_t count;
    EXPECT_OK(NULL, ls_monitor_processes(monitor, rows, 8, &count));
    assert_int_equal(count, expected);
}

/* Where no chip tells a temperature, a zone does. */
static void zone(void **state) {
    (void)state;
    ls_monitor *monitor;
    ls_sample sample;
    put("/sys/class/thermal/thermal_zone0/type", "acpitz\n");
    put("/sys/class/thermal/thermal_zone0/temp", "20000\n");
    put("/sys/class/thermal/thermal_zone1/type", "x86_pkg_temp\n");
    put("/sys/class/thermal/thermal_zone1/temp", "48500\n");
    EXPECT_OK(NULL, monitor_create("cpu", root, &monitor));
    EXPECT_OK(NULL, ls_monitor_sample(monitor, &sample));
    assert_true(knows(&sample, LS_READING_TEMPERATURE, 48.5));
    ls_monitor_destroy(monitor);
}

static void processes(void **state) {
    (void)state;
    ls_monitor *monitor;
    ls_process rows[8];
    put("/proc/12/maps", "7f00-7f01 r--p 00000000 00:01 1 /usr/lib/libc.so.6\n"
                         "7f02-7f03 ---s 00000000 00:01 2 /memfd:lockstep:cpu (deleted)\n");
    put("/proc/12/statm", "100 50 3 4 5 6 7\n");
    put("/proc/12/comm", "train\x1b[31m\n");
    put("/proc/13/maps", "7f02-7f03 ---s 00000000 00:01 2 /memfd:lockstep:cuda:0 (deleted)\n");
    put("/proc/13/comm", "other device\n");
    put("/proc/14/maps", "");
    put("/proc/15/maps", "7f02-7f03 ---s 00000000 00:01 2 /memfd:lockstep:cpu (deleted)\n");
    put("/proc/15/statm", "100 70 3 4 5 6 7\n");
    put("/proc/self/maps", "7f02-7f03 ---s 00000000 00:01 2 /memfd:lockstep:cpu (deleted)\n");
    EXPECT_OK(NULL, monitor_create("cpu", root, &monitor));
    processes_of(monitor, rows, 2);
    assert_int_equal(rows[0].pid, 15); /* it holds more */
    assert_string_equal(rows[0].name, "?");
    assert_int_equal(rows[0].lockstep, 1);
    assert_int_equal(rows[0].memory_bytes, 70 * sysconf(_SC_PAGESIZE));
    assert_string_equal(rows[1].name, "train?[31m"); /* nothing that moves a cursor */
    put("/proc/16/maps", "7f02-7f03 ---s 00000000 00:01 2 /memfd:lockstep:cpu (deleted)\n");
    put("/proc/12/maps", "");
    processes_of(monitor, rows, 2); /* new ones and those that end are noticed at once */
    put("/proc/14/maps", "7f02-7f03 ---s 00000000 00:01 2 /memfd:lockstep:cpu (deleted)\n");
    processes_of(monitor, rows, 2); /* what had no mark a moment ago is not looked at again yet */
    ls_monitor_destroy(monitor);
}

/* This process, on the system it runs on. */
static void own(void **state) {
    (void)state;
    ls_monitor *monitor;
    ls_context *context, *second;
    ls_sample sample;
    ls_process rows[64];
    size_t count;
    EXPECT_OK(NULL, ls_monitor_create("cpu", &monitor));
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &context));
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &second));
    ls_context_destroy(second);
    EXPECT_OK(NULL, ls_monitor_sample(monitor, &sample));
    assert_true(sample.known >> LS_READING_MEMORY_TOTAL & 1);
    for (int ours = 1; ours >= 0; ours--) {
        int found = 0;
        EXPECT_OK(NULL, ls_monitor_processes(monitor, rows, 64, &count));
        for (size_t i = 0; i < count && i < 64; i++)
            if (rows[i].pid == getpid()) found += rows[i].memory_known && rows[i].memory_bytes > 0;
        assert_int_equal(found, ours);
        if (ours) ls_context_destroy(context);
    }
    ls_monitor_destroy(monitor);
}

static uint64_t bytes_of_process(ls_monitor *monitor, int64_t pid, const char *label) {
    ls_process_label rows[80];
    size_t count;
    uint64_t bytes = 0;
    EXPECT_OK(NULL, ls_monitor_labels(monitor, pid, rows, 80, &count));
    for (size_t i = 0; i < count && i < 80; i++)
        if (strcmp(rows[i].label, label) == 0) bytes += rows[i].bytes;
    return bytes;
}

static uint64_t bytes_of(ls_monitor *monitor, const char *label) {
    return bytes_of_process(monitor, getpid(), label);
}

/* This process as one of a container: outside it has number 77, and its pages name the one inside.
 */
static void expect_contained(uint64_t bytes) {
    char text[96], name[96];
    ls_monitor *monitor;
    put("/proc/77/maps", "");
    snprintf(name, sizeof name, "%s/proc/77/fd", root);
    snprintf(text, sizeof text, "/proc/%ld/fd", (long)getpid());
    assert_int_equal(symlink(text, name), 0);
    EXPECT_OK(NULL, monitor_create("cpu", root, &monitor));
    assert_int_equal(bytes_of_process(monitor, 77, "weights"), 0);
    snprintf(text, sizeof text, "Name:\tmonitor\nNSpid:\t77\t%ld\n", (long)getpid());
    put("/proc/77/status", text);
    assert_int_equal(bytes_of_process(monitor, 77, "weights"), bytes);
    ls_monitor_destroy(monitor);
}

/* The page of one of this process's contexts. */
static MarkPage own_page(void) {
    char path[64], target[64] = "";
    MarkPage page = {0};
    for (int file = 0; file < 64 && !page.version; file++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
        if (readlink(path, target, sizeof target - 1) < 0) continue;
        if (strncmp(target, "/memfd:lockstep:cpu", 19) != 0) continue;
        assert_int_equal(pread(file, &page, sizeof page, 0), sizeof page);
    }
    assert_int_equal(page.version, MARK_VERSION);
    return page;
}

/* A page counts where the system says that it is one: as a link to a mark. */
static void expect_links_only(void) {
    enum { ENTRIES = 32 };
    const MarkPage page = own_page();
    char text[64], name[200];
    ls_monitor *monitor;
    put("/proc/78/fd/0", "");
    snprintf(text, sizeof text, "NSpid:\t78\t%ld\n", (long)getpid());
    put("/proc/78/status", text);
    for (int i = 1; i < ENTRIES; i++) {
        snprintf(name, sizeof name, "%s/proc/78/fd/%d", root, i);
        if (i % 2) {
            assert_int_equal(symlink("/memfd:lockstep:cpu (deleted)", name), 0);
            continue;
        }
        FILE *file = fopen(name, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(&page, sizeof page, 1, file), 1);
        fclose(file);
    }
    EXPECT_OK(NULL, monitor_create("cpu", root, &monitor));
    assert_int_equal(bytes_of_process(monitor, 78, "weights"), 0);
    ls_monitor_destroy(monitor);
}

/* What the contexts of a process hold by label, read as another process would. */
static void labels(void **state) {
    (void)state;
    enum { MIB = 1 << 20, MANY = 100 };
    static const char long_name[] =
        "a label of more than fifty-five bytes, of which the rest is not told";
    ls_monitor *monitor;
    ls_context *contexts[2];
    ls_process_label rows[2];
    void *weights[2], *gradients, *other, *many[MANY];
    size_t count;
    EXPECT_OK(NULL, ls_monitor_create("cpu", &monitor));
    EXPECT_OK(NULL, ls_monitor_labels(monitor, getpid(), rows, 2, &count));
    assert_int_equal(count, 0);
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(NULL, ls_context_create("cpu", NULL, &contexts[i]));
        EXPECT_OK(contexts[i], ls_alloc_labeled(contexts[i], MIB, "weights", &weights[i]));
    }
    EXPECT_OK(contexts[0], ls_alloc_labeled(contexts[0], 3 * MIB, "gradients", &gradients));
    EXPECT_OK(contexts[0], ls_alloc_labeled(contexts[0], 64, long_name, &other));
    assert_int_equal(bytes_of(monitor, "weights"), 2 * MIB);
    expect_contained(2 * MIB);
    expect_links_only();
    assert_int_equal(bytes_of(monitor, "gradients"), 3 * MIB);
    assert_int_equal(bytes_of(monitor, "a label of more than fifty-five bytes, of which the res"),
                     64);
    EXPECT_OK(NULL, ls_monitor_labels(monitor, getpid(), rows, 2, &count));
    assert_int_equal(count, 3);
    ls_free(contexts[0], gradients);
    assert_int_equal(bytes_of(monitor, "gradients"), 0);
    for (int i = 0; i < MANY; i++) { /* more than a page has rows for */
        char name[32];
        snprintf(name, sizeof name, "many %d", i);
        EXPECT_OK(contexts[1], ls_alloc_labeled(contexts[1], 64, name, &many[i]));
    }
    assert_int_equal(bytes_of(monitor, "many 0"), 64);
    for (int i = 0; i < MANY; i++) ls_free(contexts[1], many[i]);
    assert_int_equal(bytes_of(monitor, "many 0"), 0);
    EXPECT_OK(NULL, ls_monitor_labels(monitor, 1 << 30, rows, 2, &count)); /* no such process */
    assert_int_equal(count, 0);
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_monitor_labels(monitor, 1, NULL, 3, &count),
                   "labels is NULL");
    for (int i = 0; i < 2; i++) {
        ls_free(contexts[i], weights[i]);
        if (i == 0) ls_free(contexts[0], other);
        ls_context_destroy(contexts[i]);
    }
    assert_int_equal(bytes_of(monitor, "weights"), 0);
    ls_monitor_destroy(monitor);
}

static void refusals(void **state) {
    (void)state;
    ls_monitor *monitor;
    size_t count;
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_monitor_create("cpu:1", &monitor), "only cpu");
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_monitor_create("cpu", NULL), "monitor is NULL");
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_monitor_sample(NULL, NULL), "monitor is NULL");
    EXPECT_OK(NULL, ls_monitor_create("cpu", &monitor));
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_monitor_processes(monitor, NULL, 3, &count),
                   "processes is NULL");
    ls_monitor_destroy(monitor);
    ls_monitor_destroy(NULL);
    assert_string_equal(ls_reading_name(LS_READING_MEMORY_USED), "memory_used");
    assert_string_equal(ls_reading_unit(LS_READING_POWER), "W");
    assert_string_equal(ls_reading_name(LS_READING_COUNT), "?");
    assert_string_equal(ls_throttle_name(5), "temperature");
    assert_null(ls_throttle_name(0));
    assert_null(ls_throttle_name(99));
}

static void no_memory(void **state) {
    (void)state;
    bool reached = true;
    const long before = memory_live;
    for (long n = 1; reached; n++) {
        ls_monitor *monitor;
        ls_process rows[8];
        size_t count;
        memory_until_failure = n;
        ls_status status = monitor_create("cpu", root, &monitor);
        if (status == LS_OK) status = ls_monitor_processes(monitor, rows, 8, &count);
        reached = memory_until_failure == 0;
        memory_until_failure = 0;
        assert_int_equal(status, reached ? LS_ERROR_MEMORY : LS_OK);
        ls_monitor_destroy(monitor);
        assert_int_equal(memory_live, before);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits),    cmocka_unit_test(zone),      cmocka_unit_test(files),
        cmocka_unit_test(processes), cmocka_unit_test(own),       cmocka_unit_test(labels),
        cmocka_unit_test(refusals),  cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
