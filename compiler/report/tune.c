/* tune.c: what `lockstep tune` found, kept next to the kernels in the cache.
 *
 * One small text file for a program on a device, "tuned-PROGRAM-DEVICE": both are hashes, of the
 * kernels' text and of the device's description. Its first line is the format's version, its second
 * the device; then comes a line for each range of work, and last a hash of all before. A file that
 * is not whole, or says what cannot be, counts as none: tuning changes speed only. */
#include <locale.h>
#include <stdio.h>
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

enum { FILE_BYTES = 16384, RECORDS_MAX = 32, NAME_BYTES = 80, THREADS_MAX = 1024 };
static const char format[] = "lockstep-tuned 1";

/* Words at a time, since every bind of a cached program comes through here. */
static uint64_t add(uint64_t hash, const char *text, size_t size) {
    for (size_t i = 0; i < size; i += 8) {
        uint64_t word = size;
        memcpy(&word, text + i, size - i < 8 ? size - i : 8);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}
static uint64_t add_text(uint64_t hash, const char *text) {
    return add(hash, text, strlen(text) + 1);
}

static void program_name(const ls_image *image, char name[NAME_BYTES]) {
    uint64_t hash[2] = {UINT64_C(0xcbf29ce484222325), UINT64_C(0x2545f4914f6cdd1d)};
    for (size_t i = 0; i < COUNT(hash); i++) {
        hash[i] = add_text(hash[i], image->target);
        for (uint32_t v = 0; v < image->variant_count && !image->variants[v].form; v++)
            hash[i] = add_text(hash[i], image->variants[v].source ? image->variants[v].source : "");
    }
    snprintf(name, NAME_BYTES, "tuned-%016llx%016llx-", (unsigned long long)hash[0],
             (unsigned long long)hash[1]);
}

static void file_name(const ls_image *image, const char *device, char name[NAME_BYTES]) {
    program_name(image, name);
    const size_t used = strlen(name);
    snprintf(name + used, NAME_BYTES - used, "%016llx", (unsigned long long)add_text(1, device));
}

/* ---- forms: the same kernels, made otherwise ---- */

/* The forms of all variants by the first row of the dialect's stand behind the variants, then those
 * by the next: so a file's numbers mean the same whether an image has forms or not. */
static const TargetForm *form_at(const ls_image *image, size_t form) {
    return target_form_at(target_for(image->target), form);
}

static size_t forms_of(const ls_image *image) {
    size_t count = 0;
    while (form_at(image, count)) count++;
    return count;
}

static const char form_name[] = "%s, %s";

static uint32_t usual_count(const ls_image *image) {
    uint32_t count = 0;
    while (count < image->variant_count && !image->variants[count].form) count++;
    return count;
}

static uint32_t form_count(const ls_image *image) {
    return usual_count(image) * (1 + (uint32_t)forms_of(image));
}

/* The image's plan, emitted with the form's numbers. */
static const ls_image *emit_form(ls_compilation *c, size_t step, const ls_image *image,
                                 size_t form) {
    const char *problem;
    Target *target = arena_alloc(&c->compiler.arena, sizeof *target);
    *target = *target_for(image->target);
    form_at(image, form)->change(target);
    return emit_step(compile_plan(c, step), target, image->target, LS_LAYOUT_STRIDED, NULL,
                     &problem);
}

static void add_forms(ls_compilation *c, size_t step, Made *made) {
    Arena *arena = &c->compiler.arena;
    const uint32_t usual = made->image->variant_count, count = form_count(made->image);
    ls_image_variant *all = arena_alloc(arena, count * sizeof *all);
    Code *code = arena_alloc(arena, count * sizeof *code);
    memcpy(all, made->image->variants, usual * sizeof *all);
    memcpy(code, made->code, usual * sizeof *code);
    for (uint32_t f = 0; f < count / usual - 1; f++) {
        const ls_image *image = emit_form(c, step, made->image, f);
        if (!image || image->variant_count != usual)
            bug(&c->compiler, "a form of step %s has other variants", made->image->step);
        for (uint32_t v = 0; v < usual; v++) {
            ls_image_variant *own = &all[usual * (1 + f) + v];
            *own = image->variants[v];
            own->name = arena_printf(arena, form_name, own->name, form_at(made->image, f)->name);
            own->form = 1 + f;
        }
    }
    made->code = code;
    made->image->variants = all;
    made->image->variant_count = count;
}

/* ---- reading ---- */

typedef struct Records {
    ls_tuning_record *items;
    size_t count, capacity;
    const ls_image *image;
} Records;

static bool read_line(const char *line, const ls_image *image, ls_tuning_record *record) {
    ls_image_tuning *t = &record->tuning;
    unsigned long long min, max;
    int used = 0;
    if (sscanf(line, "%u %llu %llu %u %u %u %lf %lf %159[^\n]%n", &t->variant, &min, &max,
               &t->threads, &t->blocks_per_multiprocessor, &t->workers, &record->usual_us,
               &record->best_us, record->sizes, &used) != 9)
        return false;
    t->at_least = min;
    t->at_most = max;
    if (t->variant >= form_count(image) || min > max || t->threads > THREADS_MAX ||
        t->blocks_per_multiprocessor > THREADS_MAX || t->workers > THREADS_MAX)
        return false;
    const uint32_t usual = usual_count(image);
    const char *name = image->variants[t->variant % usual].name;
    if (t->variant < usual)
        snprintf(record->variant, sizeof record->variant, "%s", name);
    else
        snprintf(record->variant, sizeof record->variant, form_name, name,
                 form_at(image, t->variant / usual - 1)->name);
    return true;
}

/* Of a whole file; what is wrong with it ends it. */
static void read_records(void *user, const char *text) {
    Records *records = user;
    const char *end = strstr(text, "\nsum ");
    char sum[24], device[160];
    if (!end || strncmp(text, format, strlen(format)) != 0) return;
    snprintf(sum, sizeof sum, "%016llx\n",
             (unsigned long long)add(1, text, (size_t)(end + 1 - text)));
    if (strcmp(end + 5, sum) != 0) return;
    const char *line = text + strlen(format);
    if (sscanf(line, "\n%159[^\n]\n", device) != 1) return;
    line += strlen(device) + 2;
    while (line < end + 1 && records->count < records->capacity) {
        ls_tuning_record *record = &records->items[records->count];
        *record = (ls_tuning_record){0};
        if (!read_line(line, records->image, record)) return;
        memcpy(record->device, device, sizeof device);
        records->count++;
        line = strchr(line, '\n') + 1;
    }
}

size_t tune_list(const ls_image *image, const char *device, ls_tuning_record *records,
                 size_t capacity) {
    char name[NAME_BYTES], text[FILE_BYTES];
    Records found = {records, 0, capacity, image};
    if (device) {
        file_name(image, device, name);
        if (cache_record_load(name, text, sizeof text)) read_records(&found, text);
    } else {
        program_name(image, name);
        cache_record_each(name, text, sizeof text, read_records, &found);
    }
    return found.count;
}

/* ---- writing ---- */

static bool overlap(const ls_image_tuning *a, const ls_image_tuning *b) {
    return a->at_least <= b->at_most && b->at_least <= a->at_most;
}

static bool put_record(char *text, size_t size, const ls_tuning_record *record) {
    const ls_image_tuning *t = &record->tuning;
    const size_t used = strlen(text);
    const int length =
        snprintf(text + used, size - used, "%u %llu %llu %u %u %u %.4f %.4f %s\n", t->variant,
                 (unsigned long long)t->at_least, (unsigned long long)t->at_most, t->threads,
                 t->blocks_per_multiprocessor, t->workers, record->usual_us, record->best_us,
                 record->sizes[0] ? record->sizes : "-");
    return length > 0 && (size_t)length < size - used;
}

ls_status tune_keep(const ls_image *image, const ls_tuning_record *record, char *reason,
                    size_t size) {
    char name[NAME_BYTES], text[FILE_BYTES];
    ls_tuning_record *kept = calloc(RECORDS_MAX, sizeof *kept);
    if (!kept) {
        snprintf(reason, size, "out of memory");
        return LS_ERROR_MEMORY;
    }
    const size_t count = tune_list(image, record->device, kept, RECORDS_MAX);
    const bool keeps = record->best_us > 0;
    size_t written = 0;
    snprintf(text, sizeof text, "%s\n%s\n", format, record->device);
    bool whole = !keeps || put_record(text, sizeof text, record);
    for (size_t i = 0; whole && i < count && written + keeps < RECORDS_MAX; i++) {
        if (overlap(&kept[i].tuning, &record->tuning)) continue;
        whole = put_record(text, sizeof text - 64, &kept[i]);
        written += whole;
    }
    free(kept);
    if (!whole) {
        snprintf(reason, size, "there are too many sizes; lockstep cache clear drops them all");
        return LS_ERROR_FILE;
    }
    const size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "sum %016llx\n",
             (unsigned long long)add(1, text, used));
    file_name(image, record->device, name);
    return cache_record_store(name, keeps || written ? text : NULL, reason, size) ? LS_OK
                                                                                  : LS_ERROR_FILE;
}

/* ---- at bind ---- */

void tune_apply(ls_compilation *c, size_t step, Made *made, const char *device) {
    const ls_image *image = made->image;
    for (uint32_t i = 0; i < image->part_count; i++) {
        const size_t part = c->steps[step].first_part + i;
        tune_apply(c, part, compile_image(c, part, image->target), device);
    }
    if (image->part_count) return; /* its own variants have no kernels */
    const bool forms_there = usual_count(image) < image->variant_count;
    if (c->options.all_forms && !forms_there) {
        add_forms(c, step, made);
        return;
    }
    if (!device || c->options.no_cache || c->options.no_tuning || made->tunings) return;
    ls_tuning_record *records = calloc(RECORDS_MAX, sizeof *records);
    if (!records) return; /* it is only for speed */
    const size_t count = tune_list(image, device, records, RECORDS_MAX);
    bool wanted = false;
    for (size_t i = 0; i < count; i++) wanted |= records[i].tuning.variant >= image->variant_count;
    if (count) made->tunings = calloc(count, sizeof *made->tunings);
    for (size_t i = 0; made->tunings && i < count; i++) made->tunings[i] = records[i].tuning;
    free(records);
    if (wanted) add_forms(c, step, made);
    if (!made->tunings) return;
    made->image->tunings = made->tunings;
    made->image->tuning_count = (uint32_t)count;
}
