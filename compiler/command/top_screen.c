/* top_screen.c: the picture of `lockstep top` for a terminal of any size.
 *
 * A line is made of pieces, each cut where the line is full. What does not fit in height gives way:
 * first rows without history, then all but a line for each device, then processes. */
#include "files.h"
#include "command.h"
#include "top.h"

#include <stdlib.h>
#include <string.h>

typedef enum Shade {
    SHADE_PLAIN,
    SHADE_TITLE,
    SHADE_DIM,
    SHADE_OURS,
    SHADE_WARM,
    SHADE_LINE
} Shade;
static const char *const shades[] = {
    [SHADE_PLAIN] = "",        [SHADE_TITLE] = "\033[1m", [SHADE_DIM] = "\033[2m",
    [SHADE_OURS] = "\033[32m", [SHADE_WARM] = "\033[33m", [SHADE_LINE] = "\033[36m",
};

typedef struct Picture {
    const Look *look;
    Buffer *out;
    unsigned lines, column; /* lines begun; columns of the last one */
    unsigned labels;        /* lines that there are for labels of memory */
} Picture;

static bool full(const Picture *p) {
    return p->lines >= p->look->height;
}

static void begin(Picture *p) {
    buffer_puts(p->out, p->lines ? "\033[K\r\n" : "\033[H");
    p->lines++;
    p->column = 0;
}

/* Text of one column a byte; other bytes are shown as ?, for they could be anything. */
static void put(Picture *p, Shade shade, const char *text) {
    const bool colored = p->look->color && *shades[shade] && *text;
    if (colored) buffer_puts(p->out, shades[shade]);
    for (; *text && p->column < p->look->width; text++, p->column++) {
        const char shown = *text < ' ' || *text > '~' ? '?' : *text;
        buffer_add(p->out, &shown, 1);
    }
    if (colored) buffer_puts(p->out, "\033[0m");
}

static void put_to(Picture *p, unsigned column) {
    while (p->column < column && p->column < p->look->width) put(p, SHADE_PLAIN, " ");
}

/* ---- sparklines ---- */

static float scale_of(const Watched *w, ls_reading reading) {
    static const int of[LS_READING_COUNT] = {[LS_READING_MEMORY_USED] = LS_READING_MEMORY_TOTAL,
                                             [LS_READING_POWER] = LS_READING_POWER_LIMIT};
    if (reading == LS_READING_UTILISATION || reading == LS_READING_TEMPERATURE ||
        reading == LS_READING_FAN)
        return 100;
    if (of[reading] && top_known(w, (ls_reading)of[reading]))
        return (float)w->latest.value[of[reading]];
    return w->max[reading];
}

static void put_mark(Picture *p, float value, float scale) {
    static const char *const unicode[] = {"\u2581", "\u2582", "\u2583", "\u2584",
                                          "\u2585", "\u2586", "\u2587", "\u2588"};
    static const char *const plain[] = {"_", ".", ":", "-", "=", "+", "*", "#"};
    enum { STEPS = 8 };
    if (p->column >= p->look->width) return;
    const float part = scale > 0 ? value / scale : 0;
    int step = (int)(part * STEPS);
    if (step > STEPS - 1) step = STEPS - 1;
    const char *mark = value < 0 ? " " : p->look->unicode ? unicode[step] : plain[step];
    buffer_puts(p->out, mark);
    p->column++;
}

/* The latest to the right. */
static void put_ring(Picture *p, const float *ring, size_t seen, float scale) {
    if (p->column >= p->look->width) return;
    const size_t room = p->look->width - p->column;
    const size_t kept = seen < HISTORY ? seen : HISTORY;
    const size_t shown = room < kept ? room : kept;
    if (p->look->color) buffer_puts(p->out, shades[SHADE_LINE]);
    for (size_t i = 0; i < shown; i++) put_mark(p, ring[(seen - shown + i) % HISTORY], scale);
    if (p->look->color) buffer_puts(p->out, "\033[0m");
}

static void put_history(Picture *p, const Watched *w, ls_reading reading) {
    put_ring(p, w->history[reading], w->seen, scale_of(w, reading));
}

/* ---- devices ---- */

static const struct {
    ls_reading reading;
    const char *label;
    bool history;
} rows[] = {
    {LS_READING_UTILISATION, "utilisation", true},
    {LS_READING_MEMORY_USED, "memory", true},
    {LS_READING_POWER, "power", true},
    {LS_READING_TEMPERATURE, "temperature", true},
    {LS_READING_CLOCK, "clock", true},
    {LS_READING_PCIE_RECEIVED, "PCIe in", true},
    {LS_READING_PCIE_SENT, "PCIe out", true},
    {LS_READING_FAN, "fan", false},
    {LS_READING_ENERGY, "energy", false}, /* of text alone */
    {LS_READING_THROTTLE, "throttled by", false},
    {LS_READING_PCIE_REPLAYS, "PCIe replays", false},
};
enum { LABEL_COLUMNS = 13, VALUE_COLUMNS = 34 };

static bool shown(const Watched *w, size_t row) {
    return rows[row].reading != LS_READING_ENERGY && (w->ever >> rows[row].reading & 1);
}

/* A device that tells its power spends energy. */
static bool has_energy(const Watched *w) {
    return w->ever >> LS_READING_POWER & 1;
}

static unsigned rows_of(const Watched *w) {
    unsigned count = 1;
    for (size_t i = 0; i < COUNT(rows); i++) count += shown(w, i);
    return count + has_energy(w) + (top_held(w).processes > 0);
}

static void put_held(Picture *p, const Watched *w) {
    char text[120], bytes[40];
    const Held held = top_held(w);
    size_describe(held.bytes, bytes, sizeof bytes);
    snprintf(text, sizeof text, "%zu process%s%s%s%s", held.processes,
             held.processes == 1 ? "" : "es", held.bytes ? ", " : "",
             held.bytes && !held.known ? "more than " : "", held.bytes ? bytes : "");
    put(p, SHADE_OURS, text);
}

static void put_title(Picture *p, const Watched *w) {
    put(p, SHADE_TITLE, w->device.name);
    put(p, SHADE_PLAIN, "  ");
    put(p, SHADE_DIM, w->device.description);
}

static bool is_hot(const Watched *w, ls_reading reading) {
    enum { HOT = 90 }; /* degrees, or percent of all */
    const float scale = scale_of(w, reading);
    const bool counts = reading == LS_READING_TEMPERATURE || reading == LS_READING_MEMORY_USED;
    return counts && scale > 0 && 100 * w->latest.value[reading] / (double)scale >= HOT;
}

/* Why a device cannot be watched, in as many lines as that takes. */
static unsigned reason_lines(const Look *look, const Watched *w) {
    const size_t room = look->width > 4 ? look->width - 2 : 2;
    return (unsigned)((strlen(w->reason) + room - 1) / room);
}

static void draw_reason(Picture *p, const Watched *w) {
    const size_t room = p->look->width > 4 ? p->look->width - 2 : 2, size = strlen(w->reason);
    for (size_t at = 0; at < size && !full(p); at += room) {
        char piece[sizeof w->reason];
        snprintf(piece, sizeof piece, "%.*s", (int)(room < sizeof piece ? room : sizeof piece - 1),
                 w->reason + at);
        begin(p);
        put(p, SHADE_WARM, "  ");
        put(p, SHADE_WARM, piece);
    }
}

static void begin_row(Picture *p, const char *label) {
    begin(p);
    put(p, SHADE_DIM, "  ");
    put(p, SHADE_DIM, label);
    put_to(p, 2 + LABEL_COLUMNS);
}

static void end_value(Picture *p) {
    put(p, SHADE_PLAIN, " ");
    put_to(p, 2 + LABEL_COLUMNS + (p->look->width >= 72 ? VALUE_COLUMNS : 24));
}

static void draw_energy(Picture *p, const Watched *w) {
    static const char *const units[] = {"J", "kJ", "MJ", "GJ"};
    char text[60];
    double energy = w->energy;
    size_t unit = 0;
    for (; energy >= 1000 && unit + 1 < COUNT(units); unit++) energy /= 1000;
    begin_row(p, "energy");
    snprintf(text, sizeof text, "%.*f %s spent", unit ? 2 : 0, energy, units[unit]);
    put(p, SHADE_PLAIN, text);
    end_value(p);
    put_ring(p, w->spent, w->seen, w->max_spent);
}

static unsigned labels_of(const Watched *w) {
    unsigned count = 0;
    for (size_t i = 0; i < LABELS_MAX; i++) count += w->labels[i].bytes > 0;
    return count;
}

/* What Lockstep's processes hold, by label, as far as there are lines for it. */
static void draw_labels(Picture *p, const Watched *w) {
    for (size_t i = 0; i < LABELS_MAX && p->labels > 0 && !full(p); i++) {
        const LabelRow *row = &w->labels[i];
        char text[80], bytes[40];
        if (!row->bytes) continue;
        p->labels--;
        size_describe(row->bytes, bytes, sizeof bytes);
        snprintf(text, sizeof text, "%10s %s", bytes, row->name);
        begin_row(p, "");
        for (size_t c = VALUE_COLUMNS - 1; c < strlen(text); c++) text[c] = 0;
        put(p, SHADE_PLAIN, text);
        end_value(p);
        put_ring(p, row->ring, w->seen, row->max);
    }
}

static void draw_device(Picture *p, const Watched *w) {
    if (full(p)) return;
    begin(p);
    put_title(p, w);
    if (!w->monitor) draw_reason(p, w);
    for (size_t i = 0; i < COUNT(rows); i++) {
        char value[80] = "-";
        if (!shown(w, i) || full(p)) continue;
        begin_row(p, rows[i].label);
        const bool known = top_value(w, rows[i].reading, value, sizeof value);
        put(p, known && is_hot(w, rows[i].reading) ? SHADE_WARM : SHADE_PLAIN, value);
        end_value(p);
        if (rows[i].history) put_history(p, w, rows[i].reading);
        if (rows[i].reading == LS_READING_POWER && !full(p)) draw_energy(p, w);
    }
    if (top_held(w).processes && !full(p)) {
        begin_row(p, "Lockstep");
        put_held(p, w);
        end_value(p);
        put_ring(p, w->held, w->seen, w->max_held);
        draw_labels(p, w);
    }
}

/* All of a device in a line. */
static void draw_line(Picture *p, const Watched *w) {
    static const ls_reading shown_readings[] = {LS_READING_UTILISATION, LS_READING_MEMORY_USED,
                                                LS_READING_POWER, LS_READING_TEMPERATURE};
    char value[80];
    if (full(p)) return;
    begin(p);
    put(p, SHADE_TITLE, w->device.name);
    if (!w->monitor) {
        put(p, SHADE_PLAIN, "  ");
        put(p, SHADE_WARM, w->reason);
    }
    for (size_t i = 0; i < COUNT(shown_readings); i++) {
        if (!top_value(w, shown_readings[i], value, sizeof value)) continue;
        put(p, SHADE_PLAIN, "  ");
        put(p, is_hot(w, shown_readings[i]) ? SHADE_WARM : SHADE_PLAIN, value);
    }
    put(p, SHADE_PLAIN, "  ");
    if (w->monitor) put_history(p, w, LS_READING_UTILISATION);
}

/* ---- processes ---- */

static size_t process_count(const Top *top) {
    size_t count = 0;
    for (size_t i = 0; i < top->count; i++) count += top->devices[i].process_count;
    return count;
}

static void draw_process(Picture *p, const Watched *w, const ls_process *process) {
    char text[120], bytes[40] = "-";
    if (process->memory_known) size_describe(process->memory_bytes, bytes, sizeof bytes);
    begin(p);
    put(p, SHADE_OURS, process->lockstep ? "* " : "  ");
    snprintf(text, sizeof text, "%-10.10s %10lld %12s  ", w->device.name, (long long)process->pid,
             bytes);
    put(p, SHADE_PLAIN, text);
    put(p, process->lockstep ? SHADE_OURS : SHADE_PLAIN, process->name);
}

static void draw_processes(Picture *p, const Top *top) {
    const unsigned room = p->look->height - p->lines;
    const size_t count = process_count(top);
    if (count == 0 || room < 2 || p->lines > p->look->height) return;
    begin(p);
    put(p, SHADE_DIM, "  device            pid       memory  process (* has a Lockstep context)");
    for (size_t i = 0, left = count; i < top->count; i++) {
        const Watched *w = &top->devices[i];
        for (size_t k = 0; k < w->process_count && k < PROCESSES_MAX && !full(p); k++, left--) {
            if (p->lines + 1 == p->look->height && left > 1) {
                char text[60];
                snprintf(text, sizeof text, "  and %zu more", left);
                begin(p);
                put(p, SHADE_DIM, text);
                return;
            }
            draw_process(p, w, &w->processes[k]);
        }
    }
}

static void draw_head(Picture *p, const Top *top) {
    char text[80];
    snprintf(text, sizeof text, "   every %g s, q quits", top->interval);
    begin(p);
    put(p, SHADE_TITLE, "lockstep top");
    put(p, SHADE_DIM, text);
}

void top_draw(const Top *top, const Look *look, Buffer *out) {
    Picture p = {look, out, 0, 0, 0};
    const unsigned processes = process_count(top) ? 2 : 0;
    unsigned needed = 1 + processes;
    for (size_t i = 0; i < top->count; i++)
        needed += top->devices[i].monitor ? rows_of(&top->devices[i])
                                          : 1 + reason_lines(look, &top->devices[i]);
    draw_head(&p, top);
    const bool whole = needed <= look->height;
    unsigned spare = whole ? look->height - needed : 0;
    for (size_t i = 0; i < top->count; i++) p.labels += labels_of(&top->devices[i]);
    if (p.labels > spare) p.labels = spare;
    spare -= p.labels;
    for (size_t i = 0; i < top->count; i++) {
        if (whole && spare >= top->count + 1 && !full(&p)) begin(&p); /* an empty line */
        (whole ? draw_device : draw_line)(&p, &top->devices[i]);
    }
    if (whole && spare >= top->count + 1 && processes && !full(&p)) begin(&p);
    draw_processes(&p, top);
    buffer_puts(out, "\033[K\033[J");
}

/* ---- plain text ---- */

void top_print(const Top *top, Buffer *out) {
    for (size_t i = 0; i < top->count; i++) {
        const Watched *w = &top->devices[i];
        buffer_printf(out, "%s  %s\n", w->device.name, w->device.description);
        if (!w->monitor) buffer_printf(out, "  %s\n", w->reason);
        for (size_t k = 0; k < COUNT(rows); k++) {
            char value[80];
            if (top_value(w, rows[k].reading, value, sizeof value))
                buffer_printf(out, "  %-*s%s\n", LABEL_COLUMNS, rows[k].label, value);
        }
        for (size_t k = 0; k < LABELS_MAX; k++) {
            char bytes[40];
            if (!w->labels[k].bytes) continue;
            size_describe(w->labels[k].bytes, bytes, sizeof bytes);
            buffer_printf(out, "  %-*s%s, %s\n", LABEL_COLUMNS, "label", w->labels[k].name, bytes);
        }
        for (size_t k = 0; k < w->process_count && k < PROCESSES_MAX; k++) {
            const ls_process *process = &w->processes[k];
            char bytes[40] = "-";
            if (process->memory_known) size_describe(process->memory_bytes, bytes, sizeof bytes);
            buffer_printf(out, "  %-*s%lld %s, %s%s\n", LABEL_COLUMNS, "process",
                          (long long)process->pid, process->name, bytes,
                          process->lockstep ? ", has a Lockstep context" : "");
        }
    }
}
