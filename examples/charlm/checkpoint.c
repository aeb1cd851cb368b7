/* checkpoint.c: everything that a training run needs to go on bit for bit, as a .safetensors file.
 *
 * Weights, both moments, the counters of steps and random draws, the loss scale, and the losses so
 * far; the options that shape the training are the file's metadata. What is written depends on the
 * options and the text alone, byte by byte but for the values: so the reader makes the header that
 * this model would have and compares, and a damaged or foreign file cannot get any further. */
#include "charlm.h"

#include <errno.h>
#include <libgen.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEADER_MOST = 1 << 24, NAME_MOST = 48 };
#define FIRST_WORDS "{\"__metadata__\":{\"format\":\"charlm 1\""

/* ---- whole files ---- */

/* A rename is on the disk when its folder is. */
static void sync_folder(const char *path) {
    char *copy = strdup(path);
    int folder = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY) : -1;
    if (folder >= 0) {
        fsync(folder); /* some file systems refuse; then nothing more can be done */
        close(folder);
    }
    free(copy);
}

/* Opens the file beside the target. */
static FILE *open_beside(const char *path, char *beside, size_t size) {
    if (snprintf(beside, size, "%s.%ld.part", path, (long)getpid()) >= (int)size) {
        fail("the path %.60s... is too long", path);
        return NULL;
    }
    FILE *file = fopen(beside, "wb");
    if (!file) fail("%s cannot be written: %s", beside, strerror(errno));
    return file;
}

bool file_possible(const char *path) {
    char beside[4096];
    FILE *file = open_beside(path, beside, sizeof beside);
    if (!file) return false;
    fclose(file);
    unlink(beside);
    return true;
}

bool file_replace(const char *path, bool (*write)(FILE *file, void *what), void *what) {
    char beside[4096];
    FILE *file = open_beside(path, beside, sizeof beside);
    if (!file) return false;
    errno = 0;
    bool ok = write(file, what) && fflush(file) == 0 && !ferror(file) && fsync(fileno(file)) == 0;
    int reason = ok ? 0 : errno;
    ok = fclose(file) == 0 && ok;
    if (ok && rename(beside, path) == 0) {
        sync_folder(path);
        return true;
    }
    if (ok) reason = errno;
    unlink(beside);
    return fail("%s could not be written%s%s; what was there is as it was", path,
                reason ? ": " : "", reason ? strerror(reason) : "");
}

/* ---- what a file holds ---- */

typedef struct Entry {
    char name[NAME_MOST];
    const char *type;
    Array array; /* on the device; or */
    void *host;  /* here, with the array's shape */
} Entry;

typedef struct Contents {
    Entry *entries;
    size_t count;
    char *header;
    size_t header_size;
} Contents;

static void add(Contents *contents, const char *group, const char *name, Array array, void *host) {
    Entry *entry = &contents->entries[contents->count++];
    const char *const types[LS_TYPE_COUNT] = {
        [LS_F64] = "F64", [LS_F32] = "F32", [LS_I64] = "I64", [LS_I32] = "I32"};
    *entry = (Entry){.array = array, .host = host, .type = types[array.type]};
    snprintf(entry->name, sizeof entry->name, "%s%s", group, name);
}

static size_t bytes_of(const Entry *entry) {
    return (size_t)array_size(entry->array) * ls_type_size(entry->array.type);
}

static void list_entries(Contents *contents, Model *model, Checkpoint *checkpoint) {
    Parameters *all = &model->parameters;
    State *state = &model->state;
    const Array points = {
        .type = LS_F64, .rank = 2, .shape = {(int64_t)checkpoint->history.count, 3}};
    add(contents, "", "history", points, checkpoint->history.points);
    add(contents, "state.", "step", (Array){.type = LS_I64}, &checkpoint->step);
    add(contents, "state.", "draws", state->draws, NULL);
    add(contents, "state.", "skipped", state->skipped, NULL);
    add(contents, "state.", "batches", state->batches, NULL);
    add(contents, "state.", "count", state->count, NULL);
    add(contents, "state.", "good", state->good, NULL);
    add(contents, "state.", "scale", state->scale, NULL);
    add(contents, "state.", "total", state->total, NULL);
    for (size_t i = 0; i < all->count; i++)
        add(contents, "weights.", all->names[i], all->values[i], NULL);
    for (size_t i = 0; i < all->count; i++)
        add(contents, "first_moment.", all->names[i], all->first[i], NULL);
    for (size_t i = 0; i < all->count; i++)
        add(contents, "second_moment.", all->names[i], all->second[i], NULL);
}

static void write_header(FILE *out, const Contents *contents, const Model *model) {
    const char *name;
    char text[64];
    fprintf(out, FIRST_WORDS);
    for (size_t i = 0; options_kept(model->options, i, &name, text, sizeof text); i++) {
        const char *usual;
        if (!options_is_new(i, &usual) || strcmp(text, usual) != 0)
            fprintf(out, ",\"%s\":\"%s\"", name, text);
    }
    fprintf(out, ",\"text\":\"%016" PRIx64 "\",\"points\":\"%" PRId64 "\"}", model->text->hash,
            contents->entries[0].array.shape[0]);
    uint64_t at = 0;
    for (size_t i = 0; i < contents->count; i++) {
        const Entry *entry = &contents->entries[i];
        fprintf(out, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", entry->name, entry->type);
        for (uint32_t k = 0; k < entry->array.rank; k++)
            fprintf(out, "%s%" PRId64, k ? "," : "", entry->array.shape[k]);
        fprintf(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, at + bytes_of(entry));
        at += bytes_of(entry);
    }
    fputc('}', out);
    while (ftell(out) % 8 != 0) fputc(' ', out);
}

static void close_contents(Contents *contents) {
    free(contents->entries);
    free(contents->header);
    *contents = (Contents){0};
}

static bool open_contents(Contents *contents, Model *model, Checkpoint *checkpoint) {
    *contents = (Contents){.entries = calloc(9 + 3 * model->parameters.count, sizeof(Entry))};
    if (!contents->entries) return fail("out of host memory");
    list_entries(contents, model, checkpoint);
    FILE *out = open_memstream(&contents->header, &contents->header_size);
    if (!out) {
        close_contents(contents);
        return fail("out of host memory");
    }
    write_header(out, contents, model);
    const bool ok = !ferror(out);
    if (fclose(out) == 0 && ok) return true;
    close_contents(contents);
    return fail("out of host memory");
}

/* ---- writing ---- */

typedef struct Writing {
    Model *model;
    const Contents *contents;
} Writing;

static bool write_values(FILE *file, void *what) {
    const Writing *writing = what;
    const Contents *contents = writing->contents;
    unsigned char length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)((uint64_t)contents->header_size >> 8 * i);
    bool ok = fwrite(length, sizeof length, 1, file) == 1 &&
              fwrite(contents->header, contents->header_size, 1, file) == 1;
    for (size_t i = 0; i < contents->count && ok; i++) {
        const Entry *entry = &contents->entries[i];
        const size_t bytes = bytes_of(entry);
        void *values = entry->host ? NULL : malloc(bytes + 1);
        if (!entry->host && !values) return fail("out of host memory");
        if (values) array_read(writing->model->machine, entry->array, values);
        ok = !writing->model->machine->failed &&
             fwrite(entry->host ? entry->host : values, 1, bytes, file) == bytes;
        free(values);
    }
    return ok;
}

bool checkpoint_write(const char *path, Model *model, const Checkpoint *checkpoint) {
    Contents contents;
    Checkpoint copy = *checkpoint; /* its values are only read */
    if (!open_contents(&contents, model, &copy)) return false;
    Writing writing = {model, &contents};
    const bool ok = file_replace(path, write_values, &writing);
    close_contents(&contents);
    return ok;
}

static uint64_t hash_more(uint64_t hash, const void *data, size_t bytes) { /* FNV-1a */
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ at[i]) * 0x100000001b3u;
    return hash;
}

bool checkpoint_hash(Model *model, const Checkpoint *checkpoint, uint64_t *hash) {
    Contents contents;
    Checkpoint copy = *checkpoint;
    *hash = 0xcbf29ce484222325u;
    if (!open_contents(&contents, model, &copy)) return false;
    for (size_t i = 0; i < contents.count && !model->machine->failed; i++) {
        const Entry *entry = &contents.entries[i];
        void *values = entry->host ? entry->host : malloc(bytes_of(entry) + 1);
        if (!values) {
            model->machine->failed = !fail("out of host memory");
            break;
        }
        if (!entry->host) array_read(model->machine, entry->array, values);
        *hash = hash_more(*hash, entry->name, strlen(entry->name));
        *hash = hash_more(*hash, values, bytes_of(entry));
        if (!entry->host) free(values);
    }
    close_contents(&contents);
    return !model->machine->failed;
}

/* ---- reading ---- */

static bool not_one(const char *path) {
    return fail("%s is not a checkpoint that charlm wrote", path);
}

/* The header, ended by a zero; NULL with a message. */
static char *read_header(FILE *file, const char *path, size_t *size) {
    unsigned char length[8];
    uint64_t bytes = 0;
    if (fread(length, sizeof length, 1, file) == 1)
        for (int i = 0; i < 8; i++) bytes |= (uint64_t)length[i] << 8 * i;
    char *header = bytes > 0 && bytes < HEADER_MOST ? calloc(1, (size_t)bytes + 1) : NULL;
    if (!header || fread(header, (size_t)bytes, 1, file) != 1 ||
        strncmp(header, FIRST_WORDS, strlen(FIRST_WORDS)) != 0) {
        free(header);
        not_one(path);
        return NULL;
    }
    *size = (size_t)bytes;
    return header;
}

/* A value of the metadata; what charlm writes there has neither quotes nor backslashes. */
static bool find_value(const char *header, const char *name, char *text, size_t size) {
    char key[64];
    const int length = snprintf(key, sizeof key, ",\"%s\":\"", name);
    const char *from = strstr(header, key), *end = strstr(header, "\"}");
    if (!from || !end || from > end) return false;
    from += length;
    const size_t count = strcspn(from, "\"");
    if (count >= size) return false;
    memcpy(text, from, count);
    text[count] = 0;
    return true;
}

static FILE *open_checkpoint(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) fail("%s cannot be read: %s", path, strerror(errno));
    return file;
}

bool checkpoint_options(const char *path, Options *options) {
    size_t size;
    const char *name;
    char text[64];
    FILE *file = open_checkpoint(path);
    if (!file) return false;
    char *header = read_header(file, path, &size);
    fclose(file);
    bool ok = header != NULL;
    for (size_t i = 0; ok && options_kept(options, i, &name, text, sizeof text); i++) {
        const char *usual = text;
        const bool found = find_value(header, name, text, sizeof text);
        ok = found || options_is_new(i, &usual) ? options_take(options, i, found ? text : usual)
                                                : not_one(path);
    }
    free(header);
    return ok;
}

static bool read_values(FILE *file, const char *path, Model *model, const Contents *contents) {
    for (size_t i = 0; i < contents->count; i++) {
        const Entry *entry = &contents->entries[i];
        const size_t bytes = bytes_of(entry);
        void *values = entry->host ? entry->host : malloc(bytes + 1);
        if (!values) return fail("out of host memory");
        const bool whole = fread(values, 1, bytes, file) == bytes;
        if (whole && entry->array.data) array_write(model->machine, entry->array, values);
        if (!entry->host) free(values);
        if (!whole) return fail("%s ends in the middle of %s", path, entry->name);
    }
    if (fgetc(file) != EOF) return not_one(path);
    return !model->machine->failed;
}

static bool read_all(FILE *file, const char *path, Model *model, Checkpoint *checkpoint) {
    size_t size;
    char text[64], hash[64];
    char *header = read_header(file, path, &size);
    Contents contents = {0};
    if (!header) return false;
    snprintf(hash, sizeof hash, "%016" PRIx64, model->text->hash);
    bool ok = find_value(header, "text", text, sizeof text) || not_one(path);
    if (ok && strcmp(text, hash) != 0)
        ok = fail("%s was made with another text than %s", path, model->options->text);
    ok = ok && (find_value(header, "points", text, sizeof text) || not_one(path));
    const unsigned long points = ok ? strtoul(text, NULL, 10) : 0;
    for (unsigned long i = 0; ok && i < points && i < HEADER_MOST; i++)
        ok = history_add(&checkpoint->history, (Point){0});
    ok = ok && open_contents(&contents, model, checkpoint);
    if (ok && (contents.header_size != size || memcmp(contents.header, header, size) != 0))
        ok = not_one(path);
    ok = ok && read_values(file, path, model, &contents);
    close_contents(&contents);
    free(header);
    return ok;
}

bool checkpoint_read(const char *path, Model *model, Checkpoint *checkpoint) {
    FILE *file = open_checkpoint(path);
    if (!file) return false;
    const bool ok = read_all(file, path, model, checkpoint);
    fclose(file);
    if (ok) slots_spread_moments(model);
    if (ok) model_refresh(model);
    return ok && !model->machine->failed;
}
