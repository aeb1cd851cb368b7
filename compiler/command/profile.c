/* profile.c: what a context's profile found, as the table of `run --profile` and `bench`, and as
 * JSON. */
#include "files.h"
#include "command.h"

#include <stdlib.h>

/* All rows; the caller frees. */
static ls_profile_row *take_rows(const Session *session, size_t *count) {
    *count = ls_profile_rows(session->context, NULL, 0);
    ls_profile_row *rows = memory((*count + 1) * sizeof *rows);
    ls_profile_rows(session->context, rows, *count);
    return rows;
}

void time_describe(double time, char *text, size_t capacity) {
    static const struct {
        double above, scale;
        const char *unit;
    } units[] = {{1, 1, "s"}, {1e-3, 1e3, "ms"}, {0, 1e6, "us"}};
    size_t i = 0;
    while (time < units[i].above) i++;
    snprintf(text, capacity, "%.4g %s", time * units[i].scale, units[i].unit);
}

static void print_row(const ls_profile_row *row, int width, Buffer *out) {
    char min[40], middle[40], max[40], bytes[40] = "-", rate[40] = "-";
    time_describe(row->min_us * 1e-6, min, sizeof min);
    time_describe(row->median_us * 1e-6, middle, sizeof middle);
    time_describe(row->max_us * 1e-6, max, sizeof max);
    if (row->bytes_read + row->bytes_written)
        size_describe(row->bytes_read + row->bytes_written, bytes, sizeof bytes);
    if (row->gb_s > 0) snprintf(rate, sizeof rate, "%.1f", row->gb_s);
    buffer_printf(out, "%s%-*s %7llu %10s %10s %10s %10s %8s\n", row->kernel ? "  " : "",
                  row->kernel ? width - 2 : width, row->kernel ? row->kernel : row->step,
                  (unsigned long long)row->count, min, middle, max, bytes, rate);
}

void profile_print(const Session *session, Buffer *out) {
    size_t count;
    int width = 20;
    ls_profile_row *rows = take_rows(session, &count);
    for (size_t i = 0; i < count; i++) {
        int length = snprintf(NULL, 0, "%s%s", rows[i].kernel ? "  " : "",
                              rows[i].kernel ? rows[i].kernel : rows[i].step);
        if (length > width) width = length;
    }
    buffer_printf(out, "%-*s %7s %10s %10s %10s %10s %8s\n", width, "profile", "count", "min",
                  "median", "max", "moves", "GB/s");
    for (size_t i = 0; i < count; i++) print_row(&rows[i], width, out);
    if (count == 0) buffer_puts(out, "nothing was launched\n");
    free(rows);
}

void profile_json(const Session *session, JsonWriter *json) {
    size_t count;
    ls_profile_row *rows = take_rows(session, &count);
    json_open(json, "profile", '[');
    for (size_t i = 0; i < count; i++) {
        const ls_profile_row *row = &rows[i];
        const bool known = row->bytes_read + row->bytes_written > 0;
        json_open(json, NULL, '{');
        json_string(json, "step", row->step);
        json_string(json, "kernel", row->kernel);
        json_string(json, "file", row->file);
        json_integer(json, "line", row->line);
        json_integer(json, "count", (int64_t)row->count);
        json_number(json, "min_us", row->min_us);
        json_number(json, "median_us", row->median_us);
        json_number(json, "max_us", row->max_us);
        json_number(json, "total_us", row->total_us);
        if (known) {
            json_integer(json, "bytes_read", (int64_t)row->bytes_read);
            json_integer(json, "bytes_written", (int64_t)row->bytes_written);
            json_number(json, "gb_s", row->gb_s);
        }
        json_close(json, '}');
    }
    json_close(json, ']');
    free(rows);
}
