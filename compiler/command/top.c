/* top.c: `lockstep top`: what the devices are doing, live on a terminal, else once. */
#include "files.h"
#include "command.h"
#include "top.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct Options {
    double interval;
    bool once, json;
} Options;

bool top_known(const Watched *watched, ls_reading reading) {
    return watched->latest.known >> reading & 1;
}

Held top_held(const Watched *watched) {
    Held held = {0, 0, true};
    for (size_t i = 0; i < watched->process_count && i < PROCESSES_MAX; i++) {
        const ls_process *process = &watched->processes[i];
        if (!process->lockstep) continue;
        held.processes++;
        held.bytes += process->memory_bytes;
        held.known &= process->memory_known != 0;
    }
    return held;
}

/* ---- readings as text ---- */

static void describe_memory(const Watched *w, char *text, size_t size) {
    char used[40], total[40];
    size_describe((uint64_t)w->latest.value[LS_READING_MEMORY_USED], used, sizeof used);
    size_describe((uint64_t)w->latest.value[LS_READING_MEMORY_TOTAL], total, sizeof total);
    if (top_known(w, LS_READING_MEMORY_TOTAL))
        snprintf(text, size, "%s of %s", used, total);
    else
        snprintf(text, size, "%s", used);
}

static void describe_power(const Watched *w, char *text, size_t size) {
    if (top_known(w, LS_READING_POWER_LIMIT))
        snprintf(text, size, "%.0f of %.0f W", w->latest.value[LS_READING_POWER],
                 w->latest.value[LS_READING_POWER_LIMIT]);
    else
        snprintf(text, size, "%.0f W", w->latest.value[LS_READING_POWER]);
}

static void describe_clock(const Watched *w, char *text, size_t size) {
    if (top_known(w, LS_READING_MEMORY_CLOCK))
        snprintf(text, size, "%.0f MHz, memory %.0f", w->latest.value[LS_READING_CLOCK],
                 w->latest.value[LS_READING_MEMORY_CLOCK]);
    else
        snprintf(text, size, "%.0f MHz", w->latest.value[LS_READING_CLOCK]);
}

static void describe_rate(double rate, char *text, size_t size) {
    if (rate >= 1e9)
        snprintf(text, size, "%.2f GB/s", rate * 1e-9);
    else
        snprintf(text, size, "%.1f MB/s", rate * 1e-6);
}

/* "power cap, temperature", or "none" */
static void describe_throttle(double reasons, char *text, size_t size) {
    size_t used = 0;
    snprintf(text, size, "none");
    for (unsigned bit = 0; bit < 32; bit++) {
        const char *name = (uint64_t)reasons >> bit & 1 ? ls_throttle_name(bit) : NULL;
        if (!name || used >= size) continue;
        used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", name);
    }
}

static void describe_energy(double joules, char *text, size_t size) {
    const bool large = joules >= 1e4;
    snprintf(text, size, large ? "%.1f kJ" : "%.1f J", large ? joules * 1e-3 : joules);
}

bool top_value(const Watched *w, ls_reading reading, char *text, size_t size) {
    const double value = w->latest.value[reading];
    if (!top_known(w, reading)) return false;
    switch (reading) {
    case LS_READING_MEMORY_USED: describe_memory(w, text, size); break;
    case LS_READING_POWER: describe_power(w, text, size); break;
    case LS_READING_CLOCK: describe_clock(w, text, size); break;
    case LS_READING_ENERGY: describe_energy(value, text, size); break;
    case LS_READING_THROTTLE: describe_throttle(value, text, size); break;
    case LS_READING_PCIE_REPLAYS: snprintf(text, size, "%.0f", value); break;
    case LS_READING_PCIE_RECEIVED:
    case LS_READING_PCIE_SENT: describe_rate(value, text, size); break;
    default: snprintf(text, size, "%.0f %s", value, ls_reading_unit(reading)); break;
    }
    return true;
}

/* ---- watching ---- */

static void watch(Top *top, const ls_device_info *device) {
    top->devices = memory_grow(top->devices, top->count + 1, sizeof *top->devices);
    Watched *w = &top->devices[top->count++];
    *w = (Watched){.device = *device};
    w->processes = memory(PROCESSES_MAX * sizeof *w->processes);
    if (ls_monitor_create(device->name, &w->monitor) == LS_OK) return;
    const char *message = ls_error_message(NULL);
    static const char call[] = "ls_monitor_create: ";
    if (strncmp(message, call, sizeof call - 1) == 0) message += sizeof call - 1;
    const size_t name = strlen(device->name); /* which stands before it anyhow */
    if (strncmp(message, device->name, name) == 0 && message[name] == ' ') message += name + 1;
    snprintf(w->reason, sizeof w->reason, "%.*s", (int)sizeof w->reason - 1, message);
}

/* The devices that can be used; with --device that one. */
static bool watch_all(Top *top, const char *wanted, Failure *failure) {
    enum { DEVICES_MAX = 64 };
    ls_device_info devices[DEVICES_MAX];
    size_t count = ls_devices(devices, DEVICES_MAX), usable = 0;
    bool refused = false;
    if (wanted && strcmp(wanted, "auto") == 0) wanted = NULL;
    for (size_t i = 0; i < count && i < DEVICES_MAX; i++) {
        const char *name = devices[i].name;
        const size_t length = wanted ? strlen(wanted) : 0;
        const bool meant = !wanted || strcmp(name, wanted) == 0 ||
                           (strncmp(name, wanted, length) == 0 && strcmp(name + length, ":0") == 0);
        if (meant && devices[i].usable) watch(top, &devices[i]);
        if (meant && wanted && !devices[i].usable)
            fail(failure, STATUS_DEVICE, "%s cannot be used: %s", name, devices[i].description);
        refused |= meant && wanted && !devices[i].usable;
    }
    for (size_t i = 0; i < top->count; i++) usable += top->devices[i].monitor != NULL;
    if (usable) return true;
    if (top->count)
        return fail(failure, STATUS_DEVICE, "%s %s", top->devices[0].device.name,
                    top->devices[0].reason);
    if (refused) return false;
    fail(failure, STATUS_DEVICE, "there is no device %s", wanted ? wanted : "that can be used");
    fail_help(failure, "lockstep devices says which there are, and why others cannot be used");
    return false;
}

/* What was spent since the sample before: by the device's own meter, else as if that sample's power
 * had held until this one. */
static void add_energy(Watched *w, const ls_sample *before) {
    const double time = w->sampled > 0 ? w->latest.seconds - w->sampled : 0;
    const uint64_t both = before->known & w->latest.known;
    const bool metered = both >> LS_READING_ENERGY & 1;
    const bool known = time > 0 && (metered || (before->known >> LS_READING_POWER & 1));
    const double joules =
        metered ? w->latest.value[LS_READING_ENERGY] - before->value[LS_READING_ENERGY]
                : before->value[LS_READING_POWER] * time;
    const float spent = known && joules >= 0 ? (float)joules : -1;
    if (spent >= 0) w->energy += joules;
    if (spent > w->max_spent) w->max_spent = spent;
    w->spent[w->seen % HISTORY] = spent;
    w->sampled = w->latest.seconds;
}

static void add_held(Watched *w) {
    const Held held = top_held(w);
    const float bytes = held.processes ? (float)held.bytes : -1;
    if (bytes > w->max_held) w->max_held = bytes;
    w->held[w->seen % HISTORY] = bytes;
}

/* The row of a label: its own, a free one, or that of the least, where that holds less; NULL: all
 * hold more. */
static LabelRow *label_row(Watched *w, const char *name, uint64_t bytes) {
    LabelRow *least = &w->labels[0];
    for (size_t i = 0; i < LABELS_MAX; i++) {
        if (strcmp(w->labels[i].name, name) == 0) return &w->labels[i];
        if (w->labels[i].bytes < least->bytes) least = &w->labels[i];
    }
    if (least->bytes >= bytes) return NULL;
    *least = (LabelRow){.max = 0};
    snprintf(least->name, sizeof least->name, "%.*s", (int)sizeof least->name - 1, name);
    for (size_t i = 0; i < HISTORY; i++) least->ring[i] = -1;
    return least;
}

/* The labels of Lockstep's first processes, those of one name together. */
static void add_labels(Watched *w) {
    enum { MOST = 64 };
    ls_process_label all[MOST];
    size_t count = 0;
    for (size_t p = 0; p < w->process_count && p < LABELLED_MAX; p++) {
        ls_process_label of[MOST];
        size_t found = 0;
        if (!w->processes[p].lockstep) continue;
        if (ls_monitor_labels(w->monitor, w->processes[p].pid, of, MOST, &found) != LS_OK) continue;
        for (size_t i = 0; i < found && i < MOST; i++) {
            size_t at = 0;
            while (at < count && strcmp(all[at].label, of[i].label) != 0) at++;
            if (at == count && count < MOST) all[count++] = (ls_process_label){{0}, 0};
            if (at == MOST) continue;
            memcpy(all[at].label, of[i].label, sizeof all[at].label);
            all[at].bytes += of[i].bytes;
        }
    }
    for (size_t i = 0; i < LABELS_MAX; i++) { /* rows of labels that are there are kept */
        w->labels[i].bytes = 0;
        for (size_t k = 0; k < count; k++)
            if (strcmp(all[k].label, w->labels[i].name) == 0) w->labels[i].bytes = all[k].bytes;
    }
    for (size_t i = 0; i < count; i++) {
        LabelRow *row = label_row(w, all[i].label, all[i].bytes);
        if (row) row->bytes = all[i].bytes;
    }
    for (size_t i = 0; i < LABELS_MAX; i++) {
        LabelRow *row = &w->labels[i];
        row->ring[w->seen % HISTORY] = row->name[0] ? (float)row->bytes : -1;
        if ((float)row->bytes > row->max) row->max = (float)row->bytes;
    }
}

static void take(Watched *w) {
    const ls_sample before = w->latest;
    if (!w->monitor || ls_monitor_sample(w->monitor, &w->latest) != LS_OK) return;
    for (int r = 0; r < LS_READING_COUNT; r++) {
        const bool known = top_known(w, (ls_reading)r);
        const float value = known ? (float)w->latest.value[r] : -1;
        w->history[r][w->seen % HISTORY] = value;
        if (value > w->max[r]) w->max[r] = value;
    }
    w->ever |= w->latest.known;
    add_energy(w, &before);
    if (ls_monitor_processes(w->monitor, w->processes, PROCESSES_MAX, &w->process_count) != LS_OK)
        w->process_count = 0;
    add_held(w);
    add_labels(w);
    w->seen++;
}

static void take_all(Top *top) {
    for (size_t i = 0; i < top->count; i++) take(&top->devices[i]);
}

/* ---- once ---- */

static void write_json(const Top *top, Buffer *out) {
    JsonWriter json = {0};
    json_open(&json, NULL, '{');
    json_open(&json, "devices", '[');
    for (size_t i = 0; i < top->count; i++) {
        const Watched *w = &top->devices[i];
        json_open(&json, NULL, '{');
        json_string(&json, "name", w->device.name);
        json_string(&json, "description", w->device.description);
        json_string(&json, "unknown_because", w->monitor ? NULL : w->reason);
        for (int r = 0; r < LS_READING_COUNT; r++) {
            if (top_known(w, (ls_reading)r))
                json_number(&json, ls_reading_name((ls_reading)r), w->latest.value[r]);
            else
                json_raw(&json, ls_reading_name((ls_reading)r), "null");
        }
        json_open(&json, "labels", '[');
        for (size_t k = 0; k < LABELS_MAX; k++) {
            if (!w->labels[k].bytes) continue;
            json_open(&json, NULL, '{');
            json_string(&json, "label", w->labels[k].name);
            json_integer(&json, "bytes", (int64_t)w->labels[k].bytes);
            json_close(&json, '}');
        }
        json_close(&json, ']');
        json_open(&json, "processes", '[');
        for (size_t k = 0; k < w->process_count && k < PROCESSES_MAX; k++) {
            const ls_process *process = &w->processes[k];
            json_open(&json, NULL, '{');
            json_integer(&json, "pid", process->pid);
            json_string(&json, "name", process->name);
            json_boolean(&json, "lockstep", process->lockstep);
            if (process->memory_known)
                json_integer(&json, "memory", (int64_t)process->memory_bytes);
            else
                json_raw(&json, "memory", "null");
            json_close(&json, '}');
        }
        json_close(&json, ']');
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_close(&json, '}');
    *out = json.text;
}

/* Rates need a while between two looks, and PCIe throughput is not known at the first. */
static void show_once(Top *top, bool json) {
    const struct timespec while_ = {0, 200 * 1000 * 1000};
    Buffer out = {0};
    take_all(top);
    nanosleep(&while_, NULL);
    take_all(top);
    (json ? write_json : top_print)(top, &out);
    if (out.size) fwrite(out.data, 1, out.size, stdout);
    buffer_free(&out);
}

/* ---- live ---- */

static bool unicode_wanted(void) {
    static const char *const variables[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < COUNT(variables); i++) {
        const char *value = command_environment_foreign(variables[i]);
        if (value && *value) return strstr(value, "UTF-8") || strstr(value, "utf8");
    }
    return false;
}

static void draw(const Top *top) {
    Look look = {.color = color_wanted(stdout), .unicode = unicode_wanted()};
    Buffer picture = {0};
    terminal_size(&look.width, &look.height);
    top_draw(top, &look, &picture);
    terminal_show(&picture);
    buffer_free(&picture);
}

static void show_live(Top *top) {
    enum { ESCAPE = 27, CONTROL_C = 3 };
    double next = seconds();
    for (;;) {
        int key = 0;
        if (seconds() >= next) {
            take_all(top);
            next += top->interval;
            if (next < seconds()) next = seconds() + top->interval; /* it took longer than that */
            draw(top);
        }
        TerminalEvent event = terminal_wait(next - seconds(), &key);
        if (event == TERMINAL_END) return;
        if (event == TERMINAL_KEY &&
            (key == 'q' || key == 'Q' || key == ESCAPE || key == CONTROL_C))
            return;
        if (event == TERMINAL_SIZE) draw(top);
    }
}

static int run(const Invocation *invocation) {
    const Options *options = invocation->options;
    Top top = {.interval = options->interval > 0 ? options->interval : 1};
    Failure failure = {0};
    if (invocation->argument_count)
        return usage_error(invocation->command, "unexpected argument '%s'",
                           invocation->arguments[0]);
    if (options->interval > 0 && (options->interval < 0.1 || options->interval > 3600))
        return usage_error(invocation->command, "--interval takes 0.1 to 3600 seconds");
    int status = STATUS_DONE;
    if (!watch_all(&top, invocation->common.device, &failure)) {
        status = report(&failure);
    } else if (options->once || options->json || !terminal_open()) {
        show_once(&top, options->json);
    } else {
        show_live(&top);
        terminal_close();
    }
    for (size_t i = 0; i < top.count; i++) {
        ls_monitor_destroy(top.devices[i].monitor);
        free(top.devices[i].processes);
    }
    free(top.devices);
    return status;
}

#define OFFSET(member) offsetof(Options, member)
static const Option top_options[] = {
    {0, "interval", "SECONDS", OPTION_NUMBER, OFFSET(interval), "between looks; 1 by default"},
    {0, "once", NULL, OPTION_FLAG, OFFSET(once),
     "look once and print it, as when stdout is no terminal"},
    {0, "json", NULL, OPTION_FLAG, OFFSET(json), "look once and print it as JSON"},
};

const Command command_top = {
    .name = "top",
    .summary = "shows what the devices are doing, live",
    .arguments = "",
    .details =
        "Utilisation, memory, power, energy since top began, temperature, clocks and PCIe\n"
        "throughput with their history, and the processes, of every device that can be used; q\n"
        "or ctrl-C quits. NVIDIA's devices are read through NVML, AMD's through ROCm SMI, the\n"
        "CPU through /proc and /sys; what cannot be read is not shown. Energy is the device's own\n"
        "meter's, else the power at each look, times the time to the next. Processes marked * have "
        "a Lockstep context on\n"
        "the device, and what these hold is shown by label; of other users' processes neither\n"
        "can be seen.",
    .examples = "  lockstep top\n"
                "  lockstep top --device cuda:1 --interval 0.5\n"
                "  lockstep top --json",
    .options = top_options,
    .option_count = COUNT(top_options),
    .options_size = sizeof(Options),
    .device = true,
    .run = run,
};
