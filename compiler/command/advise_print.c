/* advise_print.c: what `lockstep advise` found, as text and as JSON. */
#include "files.h"
#include "command.h"
#include "advise.h"

#include <stdlib.h>
#include <string.h>

static double share_of_traffic(const Advise *advise) {
    const ls_advice *advice = &advise->advice;
    return advice->time_s > 0 ? advice->traffic_s / advice->time_s : 0;
}

/* ---- text ---- */

static void print_head(const Advise *advise, Buffer *out) {
    const ls_advice *a = &advise->advice;
    char moved[40], held[40], budget[40], time[40];
    size_describe((uint64_t)a->bytes_moved, moved, sizeof moved);
    size_describe(advise_memory(a), held, sizeof held);
    size_describe(advise->budget, budget, sizeof budget);
    time_describe(a->time_s, time, sizeof time);
    buffer_printf(out, "step %s on %s", advise->name, advise->device);
    if (a->device) buffer_printf(out, " (%s)", a->device);
    for (size_t i = 0; i < advise->sizes.count; i++)
        buffer_printf(out, ", %s", advise->sizes.items[i]);
    if (advise->vary.axis)
        buffer_printf(out, ", %s=%lld", advise->vary.axis, (long long)advise->chosen);
    buffer_printf(out, "\n  %.0f launch%s, %s moved, %s of memory of %s\n", a->launches,
                  a->launches == 1 ? "" : "es", moved, held, budget);
    buffer_printf(out,
                  "  predicted %s, %.0f %% of what the same reads and writes alone reach "
                  "(%.1f GB/s)\n",
                  time, 100 * share_of_traffic(advise), a->memory_gb_s);
}

static void print_kernel(const ls_advice_kernel *kernel, int width, Buffer *out) {
    const double times[] = {kernel->time_s, kernel->memory_s, kernel->instructions_s,
                            kernel->latency_s, kernel->launch_s};
    char text[COUNT(times)][40];
    for (size_t i = 0; i < COUNT(times); i++) time_describe(times[i], text[i], sizeof text[i]);
    buffer_printf(out, "  %-*s %10s  %-12s %10s %12s %10s %10s", width, kernel->name, text[0],
                  kernel->limit, text[1], text[2], text[3], text[4]);
    if (kernel->registers >= 0) buffer_printf(out, " %9d", kernel->registers);
    if (kernel->warps_max) buffer_printf(out, " %4u of %u", kernel->warps, kernel->warps_max);
    if (kernel->spill_bytes > 0) buffer_printf(out, ", %d bytes spilled", kernel->spill_bytes);
    buffer_puts(out, "\n");
}

static void print_kernels(const ls_advice *advice, Buffer *out) {
    int width = 6;
    bool code = false;
    for (size_t i = 0; i < advice->kernel_count; i++) {
        const int own = (int)strlen(advice->kernels[i].name);
        if (own > width) width = own;
        code |= advice->kernels[i].registers >= 0;
    }
    buffer_printf(out, "  %-*s %10s  %-12s %10s %12s %10s %10s%s\n", width, "kernel", "time",
                  "bound by", "memory", "instructions", "latency", "launch",
                  code ? " registers    warps" : "");
    for (size_t i = 0; i < advice->kernel_count; i++) print_kernel(&advice->kernels[i], width, out);
}

static void print_vary(const Advise *advise, Buffer *out) {
    const Vary *vary = &advise->vary;
    char budget[40], time[40], each[40], held[40];
    size_describe(advise->budget, budget, sizeof budget);
    if (!vary->largest) {
        buffer_printf(out, "  not even %s=1 fits %s\n", vary->axis, budget);
        return;
    }
    buffer_printf(out, "  %12s %10s %12s %10s\n", vary->axis, "time", "time of one", "memory");
    for (size_t i = 0; i < vary->count; i++) {
        const VaryRow *row = &vary->rows[i];
        time_describe(row->time, time, sizeof time);
        time_describe(row->time / (double)row->length, each, sizeof each);
        size_describe(row->memory, held, sizeof held);
        buffer_printf(out, "  %12lld %10s %12s %10s\n", (long long)row->length, time, each, held);
    }
    buffer_printf(out, "  %s=%lld is the largest that fits %s\n", vary->axis,
                  (long long)vary->largest, budget);
    buffer_printf(out,
                  "  beyond %s=%lld a larger %s stops paying: the time of one is within %.0f "
                  "%% of the least\n",
                  vary->axis, (long long)vary->pays_to, vary->axis, 100 * (PAYS - 1));
}

void advise_text(const Advise *advise, Buffer *out) {
    print_head(advise, out);
    print_kernels(&advise->advice, out);
    if (advise->vary.axis) print_vary(advise, out);
}

/* ---- JSON ---- */

/* "n=768+2304": one number, or a list of them. */
static void json_size(JsonWriter *json, const char *word) {
    const char *equals = strchr(word, '=');
    char *name = copy_text(word, (size_t)(equals - word));
    Buffer value = {0};
    const bool list = strchr(equals, '+') != NULL;
    buffer_puts(&value, list ? "[" : "");
    for (const char *at = equals + 1; *at; at++)
        if (*at == '+')
            buffer_puts(&value, ", ");
        else
            buffer_add(&value, at, 1);
    buffer_puts(&value, list ? "]" : "");
    json_raw(json, name, value.data);
    buffer_free(&value);
    free(name);
}

static void json_known(JsonWriter *json, const char *key, int64_t value, bool known) {
    if (known)
        json_integer(json, key, value);
    else
        json_raw(json, key, "null");
}

static void json_kernel(JsonWriter *json, const ls_advice_kernel *kernel) {
    json_open(json, NULL, '{');
    json_string(json, "name", kernel->name);
    json_string(json, "share", kernel->partition);
    json_string(json, "limit", kernel->limit);
    json_number(json, "time_s", kernel->time_s);
    json_number(json, "memory_s", kernel->memory_s);
    json_number(json, "instructions_s", kernel->instructions_s);
    json_number(json, "latency_s", kernel->latency_s);
    json_number(json, "launch_s", kernel->launch_s);
    json_number(json, "launches", kernel->launches);
    json_number(json, "blocks", kernel->blocks);
    json_number(json, "bytes_read", kernel->bytes_read);
    json_number(json, "bytes_written", kernel->bytes_written);
    json_number(json, "operations", kernel->operations);
    json_known(json, "registers", kernel->registers, kernel->registers >= 0);
    json_known(json, "spill_bytes", kernel->spill_bytes, kernel->spill_bytes >= 0);
    json_known(json, "shared_bytes", kernel->shared_bytes, kernel->shared_bytes >= 0);
    json_known(json, "warps", kernel->warps, kernel->warps_max > 0);
    json_known(json, "warps_max", kernel->warps_max, kernel->warps_max > 0);
    json_close(json, '}');
}

static void json_vary(JsonWriter *json, const Vary *vary) {
    json_open(json, "vary", '{');
    json_string(json, "axis", vary->axis);
    json_integer(json, "largest", vary->largest);
    json_integer(json, "pays_to", vary->pays_to);
    json_open(json, "rows", '[');
    for (size_t i = 0; i < vary->count; i++) {
        json_open(json, NULL, '{');
        json_integer(json, "length", vary->rows[i].length);
        json_number(json, "time_s", vary->rows[i].time);
        json_number(json, "time_of_one_s", vary->rows[i].time / (double)vary->rows[i].length);
        json_integer(json, "memory_bytes", (int64_t)vary->rows[i].memory);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_close(json, '}');
}

void advise_json(const Advise *advise, Buffer *out) {
    const ls_advice *a = &advise->advice;
    JsonWriter json = {0};
    json_open(&json, NULL, '{');
    json_string(&json, "step", advise->name);
    json_string(&json, "device", advise->device);
    json_string(&json, "target", advise->options.target);
    json_open(&json, "sizes", '{');
    for (size_t i = 0; i < advise->sizes.count; i++) json_size(&json, advise->sizes.items[i]);
    if (advise->vary.axis) json_integer(&json, advise->vary.axis, advise->chosen);
    json_close(&json, '}');
    json_number(&json, "launches", a->launches);
    json_number(&json, "bytes_moved", a->bytes_moved);
    json_number(&json, "bytes_minimum", a->bytes_minimum);
    json_number(&json, "time_s", a->time_s);
    json_number(&json, "copy_gb_s", a->memory_gb_s);
    json_number(&json, "operations_per_s", a->operations_per_s);
    json_number(&json, "fraction_of_copy", share_of_traffic(advise));
    json_integer(&json, "array_bytes", (int64_t)a->array_bytes);
    json_integer(&json, "temporary_bytes", (int64_t)a->temporary_bytes);
    json_integer(&json, "memory_bytes", (int64_t)advise_memory(a));
    json_integer(&json, "memory_budget", (int64_t)advise->budget);
    json_open(&json, "kernels", '[');
    for (size_t i = 0; i < a->kernel_count; i++) json_kernel(&json, &a->kernels[i]);
    json_close(&json, ']');
    if (advise->vary.axis)
        json_vary(&json, &advise->vary);
    else
        json_raw(&json, "vary", "null");
    json_close(&json, '}');
    *out = json.text;
}
