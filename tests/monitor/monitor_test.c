/* monitor_test.c: the monitor of a GPU on stand-ins of the driver and of the monitoring library:
 * the right device, every call failing once, older libraries, nonsense. Built for CUDA with NVML
 * and for HIP with ROCm SMI. */
#include "failing_memory.h"
#include "fixtures.h"
#include "stand_in.h"
#include "stand_in_monitor.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static StandIn *driver;
static MonitorStandIn *library;

/* What is known from the first sample on; of PCIe throughput a thread finds out, and what keeps the
 * clock down ROCm SMI does not tell. */
enum {
    PCIE = 1 << LS_READING_PCIE_RECEIVED | 1 << LS_READING_PCIE_SENT,
#if defined(ON_HIP)
    UNTOLD = 1 << LS_READING_THROTTLE,
#else
    UNTOLD = 0,
#endif
    ALL_KNOWN = ((1 << LS_READING_COUNT) - 1) & ~PCIE & ~UNTOLD
};

static void *function_of(const char *path, const char *name) {
    void *handle = dlopen(path, RTLD_NOW); /* stays, so that all see the same */
    void *address = handle ? dlsym(handle, name) : NULL;
    assert_non_null(address);
    return address;
}

static void use(const char *path) {
    StandInFunction *get_driver;
    MonitorStandInFunction *get_library;
    void *address = function_of(DRIVER_PATH, "stand_in");
    memcpy(&get_driver, &address, sizeof address);
    address = function_of(path, "monitor_stand_in");
    memcpy(&get_library, &address, sizeof address);
    driver = get_driver();
    library = get_library();
    *driver = (StandIn){.version = 1 << 30, .devices = 2, .memory = SIZE_MAX, .capability = 90};
    *library = (MonitorStandIn){.processes = 2};
    setenv(DRIVER_VARIABLE, DRIVER_PATH, 1);
    setenv(VARIABLE, path, 1);
}

/* Ours has no context on a GPU yet, so none is marked. */
static void expect_processes(ls_monitor *monitor, size_t expected) {
    ls_process rows[4];
    size_t count;
    EXPECT_OK(NULL, ls_monitor_processes(monitor, rows, 4, &count));
    assert_int_equal(count, expected);
    bool own = false;
    for (size_t i = 0; i < count && i < 4; i++) {
        assert_int_equal(rows[i].lockstep, 0);
        if (rows[i].pid != getpid()) assert_string_equal(rows[i].name, "?");
        own |= rows[i].pid == getpid() && strncmp(rows[i].name, "monitor", 7) == 0;
    }
    assert_true(own || expected == 0);
}

static double value_of(const ls_sample *sample, ls_reading reading) {
    if (!(sample->known >> reading & 1)) fail_msg("%s is not known", ls_reading_name(reading));
    return sample->value[reading];
}

/* Waits until what the thread asks for about once a second is known. */
static void sample_with_pcie(ls_monitor *monitor, ls_sample *sample) {
    const struct timespec moment = {0, 10000000};
    for (int wait = 0; wait < 1000; wait++) {
        EXPECT_OK(NULL, ls_monitor_sample(monitor, sample));
        if ((sample->known & PCIE) == PCIE) return;
        nanosleep(&moment, NULL);
    }
    fail_msg("PCIe throughput stays unknown");
}

static void expect_sample(ls_monitor *monitor, unsigned device) {
    ls_sample sample;
    EXPECT_OK(NULL, ls_monitor_sample(monitor, &sample));
    assert_true(value_of(&sample, LS_READING_UTILISATION) == 50 + device);
    assert_true(value_of(&sample, LS_READING_MEMORY_TOTAL) == (double)((80ull + device) << 30));
    assert_true(value_of(&sample, LS_READING_MEMORY_USED) == (double)((80ull + device) << 29));
    assert_true(value_of(&sample, LS_READING_POWER) == 300 + device);
    assert_true(value_of(&sample, LS_READING_POWER_LIMIT) == 700 + device);
    assert_true(value_of(&sample, LS_READING_TEMPERATURE) == 40 + device);
    assert_true(value_of(&sample, LS_READING_CLOCK) == 1000 + device);
    assert_true(value_of(&sample, LS_READING_MEMORY_CLOCK) == 2000 + device);
    assert_true(value_of(&sample, LS_READING_PCIE_REPLAYS) == 3 + device);
#if defined(ON_HIP)
    assert_true(value_of(&sample, LS_READING_ENERGY) == 0.5 * (1000 + device));
    assert_false(sample.known >> LS_READING_THROTTLE & 1);
    assert_true(value_of(&sample, LS_READING_FAN) == 100.0 * (51 + device) / 255);
#else
    assert_true(value_of(&sample, LS_READING_ENERGY) >= 5002);
    assert_true(value_of(&sample, LS_READING_THROTTLE) == 0x25 + (device << 6));
    assert_true(value_of(&sample, LS_READING_FAN) == 20 + device);
    sample_with_pcie(monitor, &sample);
    assert_true(value_of(&sample, LS_READING_PCIE_SENT) == 1e8 + 1e3 * device);
    assert_true(value_of(&sample, LS_READING_PCIE_RECEIVED) == 2e8 + 1e3 * device);
    /* NVML counts for 20 ms in each direction: who takes a sample does not wait for that */
    assert_true(library->pcie_thread != 0 && library->pcie_thread != syscall(SYS_gettid));
#endif
}

/* The driver counts the devices the other way round. */
static void the_right_device(void **state) {
    (void)state;
    for (unsigned k = 0; k < 4; k++) {
        const unsigned i = k & 1;
        ls_monitor *monitor;
        use(NEW_PATH);
        library->new_clocks = (int)i;
        library->one_clock = k >= 2;
        EXPECT_OK(NULL, ls_monitor_create(i ? DEVICE ":1" : DEVICE, &monitor));
        expect_sample(monitor, 1 - i);
#if defined(ON_CUDA)
        assert_string_equal(library->asked, i ? "00000000:c0:00.0" : "00000000:c1:00.0");
        expect_processes(monitor, 2);
#else
        expect_processes(monitor, i ? 2 : 1);
#endif
        ls_monitor_destroy(monitor);
        assert_int_equal(library->opened, 0);
        assert_int_equal(driver->contexts, 0); /* none was made */
        assert_int_equal(driver->called[VERB_stream_create], 0);
    }
    ls_monitor *monitor;
    EXPECT_FAILURE(NULL, LS_ERROR_DEVICE, ls_monitor_create(DEVICE ":2", &monitor),
                   "there is no " DEVICE ":2, only 2 devices");
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_monitor_create("gpu", &monitor), "names no device");
    assert_null(monitor);
}

/* Each call of the driver, then each of the library: it is said, or the reading is not there. */
static void every_call_fails_once(void **state) {
    (void)state;
    unsigned char called[MONITOR_VERB_COUNT] = {0};
    size_t unknown = 0;
    for (int of_driver = 0; of_driver < 2; of_driver++) {
        bool reached = true;
        for (long n = 1; reached; n++) {
            ls_monitor *monitor;
            ls_sample sample;
            ls_process rows[4];
            size_t count;
            use(NEW_PATH);
            driver->fail_at = of_driver ? n : 0;
            library->fail_at = of_driver ? 0 : n;
            driver->fail_with = library->fail_with = STAND_IN_ERROR;
            ls_status status = ls_monitor_create(DEVICE, &monitor);
            if (status == LS_OK) {
                EXPECT_OK(NULL, ls_monitor_sample(monitor, &sample));
                EXPECT_OK(NULL, ls_monitor_processes(monitor, rows, 4, &count));
                unknown += (sample.known & ALL_KNOWN) != ALL_KNOWN;
                if (of_driver) assert_int_equal(sample.known & ALL_KNOWN, ALL_KNOWN);
#if defined(ON_CUDA)
                sample_with_pcie(monitor, &sample);
#endif
                ls_monitor_destroy(monitor);
            } else {
                assert_int_equal(status, LS_ERROR_DEVICE);
                assert_null(monitor);
                const bool nowhere = of_driver && driver->failed == VERB_device_bus;
                if (!strstr(ls_error_message(NULL), nowhere ? "does not say where" : "999"))
                    fail_msg("call %ld: %s", n, ls_error_message(NULL));
            }
            assert_int_equal(library->opened, 0);
            reached = (of_driver ? driver->calls : library->calls) >= n;
            for (int v = 0; v < MONITOR_VERB_COUNT; v++) called[v] |= library->called[v];
        }
    }
    assert_true(unknown >= 8);
    size_t used = 0;
    for (int v = 0; v < MONITOR_VERB_COUNT; v++) used += called[v];
    assert_true(used >= 13);
}

/* Without the address the UUID will do, without both it is said. */
static void places(void **state) {
    (void)state;
#if defined(ON_CUDA)
    ls_monitor *monitor;
    use(NEW_PATH);
    library->fail_at = 2; /* by_bus */
    library->fail_with = 6;
    EXPECT_OK(NULL, ls_monitor_create(DEVICE ":1", &monitor));
    assert_string_equal(library->asked, "GPU-a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1");
    expect_sample(monitor, 0);
    ls_monitor_destroy(monitor);
    use(OLD_PATH);
    library->fail_at = 2;
    library->fail_with = 6;
    EXPECT_FAILURE(
        NULL, LS_ERROR_DEVICE, ls_monitor_create(DEVICE, &monitor),
        "cuda:0 cannot be watched: nvmlDeviceGetHandleByPciBusId_v2 failed (6): it knows "
        "no such device");
    assert_int_equal(library->opened, 0);
    use(NEW_PATH);
    driver->devices = 3; /* the last of which the library does not know */
    EXPECT_FAILURE(NULL, LS_ERROR_DEVICE, ls_monitor_create(DEVICE ":2", &monitor),
                   "cuda:2 cannot be watched: nvmlDeviceGetHandleByUUID failed (6)");
    assert_int_equal(library->opened, 0);
#endif
}

static void older_libraries(void **state) {
    (void)state;
    ls_monitor *monitor;
    ls_sample sample;
    use(OLD_PATH);
    EXPECT_OK(NULL, ls_monitor_create(DEVICE, &monitor));
    EXPECT_OK(NULL, ls_monitor_sample(monitor, &sample));
    assert_true(value_of(&sample, LS_READING_POWER) == 301);
    assert_true(value_of(&sample, LS_READING_CLOCK) == 1001);
#if defined(ON_CUDA)
    assert_false(sample.known >> LS_READING_PCIE_SENT & 1);
    assert_false(sample.known >> LS_READING_POWER_LIMIT & 1);
    expect_processes(monitor, 2);
#else
    assert_false(sample.known >> LS_READING_UTILISATION & 1);
    expect_processes(monitor, 1);
#endif
    ls_monitor_destroy(monitor);
    use(OLDEST_PATH);
    EXPECT_FAILURE(NULL, LS_ERROR_DEVICE, ls_monitor_create(DEVICE, &monitor),
                   DEVICE ":0 cannot be watched: the monitoring library is too old, it lacks ");
    assert_int_equal(library->opened, 0);
}

static void nonsense(void **state) {
    (void)state;
    ls_monitor *monitor;
    ls_sample sample;
    ls_process rows[4];
    size_t count = 99;
    use(NEW_PATH);
    library->absurd = 1;
    EXPECT_OK(NULL, ls_monitor_create(DEVICE, &monitor));
    EXPECT_OK(NULL, ls_monitor_sample(monitor, &sample));
    assert_int_equal(sample.known, 0);
    EXPECT_OK(NULL, ls_monitor_processes(monitor, rows, 4, &count));
    assert_int_equal(count, 0);
    library->absurd = 0;
    expect_sample(monitor, 1); /* it recovers */
    library->processes = 100;  /* more than there is room for, and then more still */
    library->sudden = 1000;
    EXPECT_OK(NULL, ls_monitor_processes(monitor, rows, 4, &count));
    assert_true(count >= 99);
    assert_true(rows[0].memory_bytes >= rows[1].memory_bytes);
    EXPECT_OK(NULL, ls_monitor_processes(monitor, NULL, 0, &count));
    assert_true(count >= 1099);
    ls_monitor_destroy(monitor);
    assert_int_equal(library->opened, 0);
}

static void no_library(void **state) {
    (void)state;
    ls_monitor *monitor;
    use(NEW_PATH);
    setenv(VARIABLE, "/nowhere/library.so", 1);
    EXPECT_FAILURE(NULL, LS_ERROR_DEVICE, ls_monitor_create(DEVICE, &monitor),
                   DEVICE ":0 cannot be watched: /nowhere/library.so cannot be loaded (" VARIABLE
                          ")");
    unsetenv(VARIABLE);
    if (ls_monitor_create(DEVICE, &monitor) == LS_OK)
        ls_monitor_destroy(monitor); /* a machine with the vendor's own, which knows such a place */
    else
        assert_non_null(strstr(ls_error_message(NULL), "cannot be watched: "));
    setenv(DRIVER_VARIABLE, "/nowhere/driver.so", 1);
    EXPECT_FAILURE(NULL, LS_ERROR_DEVICE, ls_monitor_create(DEVICE, &monitor),
                   DEVICE " cannot be used: /nowhere/driver.so");
}

/* A context leaves its mark, and takes it away. */
static void marks(void **state) {
    (void)state;
    ls_context *context;
    ls_monitor *monitor;
    ls_process rows[4];
    size_t count;
    use(NEW_PATH);
    EXPECT_OK(NULL, ls_monitor_create(DEVICE, &monitor));
    EXPECT_OK(NULL, ls_context_create(DEVICE ":1", NULL, &context));
    EXPECT_OK(NULL, ls_monitor_processes(monitor, rows, 4, &count));
    assert_int_equal(rows[0].pid, getpid()); /* the first, though others hold more */
    assert_int_equal(rows[0].lockstep, 1);
    ls_context_destroy(context);
    EXPECT_OK(NULL, ls_monitor_processes(monitor, rows, 4, &count));
    for (size_t i = 0; i < count; i++) assert_int_equal(rows[i].lockstep, 0);
    ls_monitor_destroy(monitor);
}

#if defined(ON_HIP)
/* The kernel's file, not the library: which would keep us waiting. */
static void pcie(void **state) {
    (void)state;
    char root[] = "monitor_test.XXXXXX", folder[128], path[160];
    static const char *const folders[] = {"/sys", "/bus", "/pci", "/devices", "/0000:c1:00.0"};
    use(NEW_PATH);
    assert_non_null(mkdtemp(root));
    snprintf(folder, sizeof folder, "%s", root);
    for (size_t i = 0; i < COUNT(folders); i++) {
        strcat(folder, folders[i]);
        assert_int_equal(mkdir(folder, 0700), 0);
    }
    snprintf(path, sizeof path, "%s/pcie_bw", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("1000 2000 256\n", file);
    fclose(file);
    for (int i = 0; i < 2; i++) {
        ls_monitor *monitor;
        ls_sample sample;
        EXPECT_OK(NULL, monitor_create(DEVICE, root, &monitor));
        if (i == 0) {
            sample_with_pcie(monitor, &sample);
            assert_true(value_of(&sample, LS_READING_PCIE_RECEIVED) == 256000);
            assert_true(value_of(&sample, LS_READING_PCIE_SENT) == 512000);
        } else {
            EXPECT_OK(NULL, ls_monitor_sample(monitor, &sample));
            assert_int_equal(sample.known, ALL_KNOWN);
        }
        ls_monitor_destroy(monitor);
        unlink(path); /* and then there is none */
    }
    for (size_t i = COUNT(folders); i-- > 0; *strrchr(folder, '/') = 0)
        assert_int_equal(rmdir(folder), 0);
    assert_int_equal(rmdir(root), 0);
}
#endif

static void no_memory(void **state) {
    (void)state;
    bool reached = true;
    const long before = memory_live;
    for (long n = 1; reached; n++) {
        ls_monitor *monitor;
        ls_sample sample;
        ls_process rows[4];
        size_t count;
        use(NEW_PATH);
        memory_until_failure = n;
        ls_status status = ls_monitor_create(DEVICE, &monitor);
        if (status == LS_OK) status = ls_monitor_sample(monitor, &sample);
        if (status == LS_OK) status = ls_monitor_processes(monitor, rows, 4, &count);
        reached = memory_until_failure == 0;
        memory_until_failure = 0;
        /* PCIe throughput is known or not, no more */
        if (!reached) assert_int_equal(status, LS_OK);
        if (status != LS_OK) assert_int_equal(status, LS_ERROR_MEMORY);
        ls_monitor_destroy(monitor);
        assert_int_equal(memory_live, before);
        assert_int_equal(library->opened, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_right_device),
        cmocka_unit_test(every_call_fails_once),
        cmocka_unit_test(places),
        cmocka_unit_test(older_libraries),
        cmocka_unit_test(nonsense),
        cmocka_unit_test(no_library),
        cmocka_unit_test(marks),
        cmocka_unit_test(no_memory),
#if defined(ON_HIP)
        cmocka_unit_test(pcie),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
