/* top.h: what the files of `lockstep top` share: top.c (what is watched, JSON, plain text),
 * top_screen.c (a picture of it for a terminal's size), terminal.c (the terminal). Include files.h
 * and command.h first. */
#ifndef TOP_H
#define TOP_H

enum { HISTORY = 512, PROCESSES_MAX = 256, LABELS_MAX = 8, LABELLED_MAX = 16 };

/* What Lockstep's processes hold under one label. */
typedef struct LabelRow {
    char name[56];
    uint64_t bytes;
    float ring[HISTORY]; /* as of Watched; below 0: the label was not there */
    float max;
} LabelRow;

/* A device, and what was seen of it. */
typedef struct Watched {
    ls_device_info device;
    ls_monitor *monitor; /* NULL: it cannot be watched, `reason` says why */
    char reason[600];
    ls_sample latest;
    uint32_t ever;                            /* readings that were known at some time */
    float history[LS_READING_COUNT][HISTORY]; /* a ring; below 0: not known */
    size_t seen;                 /* samples so far; the ring's next is seen % HISTORY */
    float max[LS_READING_COUNT]; /* the largest seen */
    double energy;               /* joules since the first sample, from the power at each */
    double sampled;              /* when the latest was taken, by its clock; 0: none yet */
    float spent[HISTORY];        /* joules between two samples; below 0: not known */
    float held[HISTORY];         /* bytes of Lockstep's processes */
    float max_spent, max_held;
    LabelRow labels[LABELS_MAX]; /* the largest ones, each where it came first; "": free */
    ls_process *processes;
    size_t process_count; /* of which the first PROCESSES_MAX are there */
} Watched;
typedef struct Top {
    Watched *devices;
    size_t count;
    double interval;
} Top;

/* What Lockstep's processes hold on the device. */
typedef struct Held {
    size_t processes;
    uint64_t bytes;
    bool known; /* of every one of them */
} Held;
Held top_held(const Watched *watched);
bool top_known(const Watched *watched, ls_reading reading);
/* "12.5 of 80.0 GiB": a reading and what belongs to it, as a row shows it. False: not known. */
bool top_value(const Watched *watched, ls_reading reading, char *text, size_t size);

/* top_screen.c */
typedef struct Look {
    unsigned width, height;
    bool color, unicode;
} Look;
/* Adds a picture of at most `height` lines, no wider than `width`, each ended by "\r\n" but the
 * last. */
void top_draw(const Top *top, const Look *look, Buffer *out);
/* The same as lines of text without history. */
void top_print(const Top *top, Buffer *out);

/* terminal.c: one terminal, on stdin and stdout, ours alone from open to close. */
bool terminal_open(void); /* false: it is none */
void terminal_size(unsigned *width, unsigned *height);
void terminal_show(const Buffer *picture);
/* Waits up to so many seconds. */
typedef enum TerminalEvent {
    TERMINAL_TIME,
    TERMINAL_KEY,
    TERMINAL_SIZE,
    TERMINAL_END
} TerminalEvent;
TerminalEvent terminal_wait(double time, int *key);
void terminal_close(void);

#endif
