/* tuned.c: what `lockstep tune` keeps for a step, on whichever device, as a report's last
 * part. Needs the image of the report's first target. */
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "front/front.h"
#include "fuse/fuse.h"
#include "emit/emit.h"
#include "toolchain/toolchain.h"
#include "compile.h"
#include "report/report.h"

enum { RECORDS_MAX = 64 };

static size_t records_of(Report *r, ls_tuning_record **records) {
    *records = arena_alloc(&r->c->compiler.arena, RECORDS_MAX * sizeof **records);
    return tune_list(r->image, NULL, *records, RECORDS_MAX);
}

void report_tuned(Report *r) {
    ls_tuning_record *records;
    const size_t count = records_of(r, &records);
    for (size_t i = 0; i < count; i++) {
        const ls_tuning_record *record = &records[i];
        const struct {
            uint32_t number;
            const char *what;
        } parts[] = {{record->tuning.workers, record->tuning.workers == 1 ? "worker" : "workers"},
                     {record->tuning.threads, "threads a block"},
                     {record->tuning.blocks_per_multiprocessor, "blocks a multiprocessor"}};
        text_printf(&r->out, "  tuned for %s on %s: %s", record->sizes, record->device,
                    record->variant);
        for (size_t p = 0; p < COUNT(parts); p++)
            if (parts[p].number) text_printf(&r->out, ", %u %s", parts[p].number, parts[p].what);
        text_printf(&r->out, "; %.4g us instead of %.4g\n", record->best_us, record->usual_us);
    }
}

size_t report_tuned_records(Report *r, size_t before) {
    ls_tuning_record *records;
    const size_t count = records_of(r, &records);
    for (size_t i = 0; i < count; i++) {
        const ls_tuning_record *record = &records[i];
        const struct {
            const char *key, *value;
        } words[] = {{"step", r->image->step},
                     {"device", record->device},
                     {"sizes", record->sizes},
                     {"variant", record->variant}};
        text_puts(&r->out, before + i ? ",\n       {" : "\n       {");
        for (size_t w = 0; w < COUNT(words); w++) {
            text_printf(&r->out, "\"%s\": ", words[w].key);
            text_json(&r->out, words[w].value);
            text_puts(&r->out, ", ");
        }
        text_printf(&r->out,
                    "\"workers\": %u, \"threads\": %u, \"blocks_per_multiprocessor\": %u, "
                    "\"usual_us\": %.4f, \"best_us\": %.4f}",
                    record->tuning.workers, record->tuning.threads,
                    record->tuning.blocks_per_multiprocessor, record->usual_us, record->best_us);
    }
    return before + count;
}

void report_tuned_json(Report *r) {
    text_puts(&r->out, "\"tuned\": [");
    report_tuned_records(r, 0);
    text_puts(&r->out, "]");
}
