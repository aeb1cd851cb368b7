/* record.h: how far a run over random programs has come, in a file that the next run goes on from,
 * with the programs that took the longest to plan and the most memory. */
#ifndef RECORD_H
#define RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "check.h"

enum { RECORD_MOST = 5, RECORD_FAILURES = 64, RECORD_BUILDS = 32 };

typedef struct RecordPlace {
    uint64_t number; /* the program's; 0: none */
    double value;
} RecordPlace;

typedef struct Record {
    uint64_t first, seed, every, batch,
        statements; /* what makes the programs, and which is where */
    uint64_t done, everywhere, failed;
    double ms, kib; /* sums over those done */
    RecordPlace slowest[RECORD_MOST], largest[RECORD_MOST];
    struct {
        uint64_t program, done; /* a hash of this program's file; how many programs it has done */
    } builds[RECORD_BUILDS];
    struct {
        uint64_t number;
        unsigned machine, verdict;
    } failures[RECORD_FAILURES];
} Record;

/* Adds what became of a program. */
void record_case(Record *record, uint64_t number, const Case *one);
/* A batch is done: `count` programs by this build. */
void record_batch(Record *record, uint64_t count);
/* Reads the file into the record, whose first fields say what is wanted. A file that is not there
 * leaves it as it is; one of other programs, or that is no record, is false after a message. */
bool record_read(Record *record, const char *path);
/* Written beside the file, and put in its place when it is complete. */
bool record_write(const Record *record, const char *path);
void record_print(const Record *record);

#endif
