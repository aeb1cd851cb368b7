/* checkpoint.c: everything that a training run needs to go on bit for bit, as a .safetensors file.
 *
 * Weights, both moments, the counters of steps and random draws, the loss scale, and the losses so
 * far; the options that shape the training are the file's metadata. What is written depends on the
 * options and the text alone, byte by byte but for the values: so the reader makes the header that
 * this model would have and compares, and a damaged or foreign file cannot get any further. Each
 * rank writes what it keeps into the one file, rank 0 also what all have, and reads what it is to
 * keep: the tensors are whole, so their number may be another then. */
#include "charlm.h"

#include <errno.h>
#include <libgen.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEADER_MOST = 1 << 24, NAME_MOST = 48, LENGTH_BYTES = 8 };
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
    Array piece; /* elements of it that this rank writes, from `begin` on, if any */
    int64_t begin;
    bool kept; /* the piece is all that this rank has */
} Entry;

typedef struct Contents {
    Entry *entries;
    size_t count;
    char *header;
    size_t header_size;
    uint64_t bytes; /* of the file */
} Contents;

static Entry *add(Contents *contents, const char *group, const char *name, Array array,
                  void *host) {
    Entry *entry = &contents->entries[contents->count++];
    const char *const types[LS_TYPE_COUNT] = {
        [LS_F64] = "F64", [LS_F32] = "F32", [LS_I64] = "I64", [LS_I32] = "I32"};
    *entry = (Entry){.array = array, .host = host, .type = types[array.type]};
    snprintf(entry->name, sizeof entry->name, "%s%s", group, name);
    return entry;
}

static size_t size_of(Array array) {
    return (size_t)array_size(array) * ls_type_size(array.type);
}

static size_t bytes_of(const Entry *entry) {
    return size_of(entry->array);
}

/* Of a parameter's tensors, what this rank writes. */
static void add_tensors(Contents *contents, const Model *model, const char *group, SlotsPart part,
                        const Array *arrays) {
    const Parameters *all = &model->parameters;
    for (size_t i = 0; i < all->count; i++) {
        Entry *entry = add(contents, group, all->names[i], arrays[i], NULL);
        entry->piece = entry->array;
        if (!model->slots) continue;
        slots_piece(model, part, i, &entry->piece, &entry->begin);
        entry->kept = part != SLOTS_VALUES;
    }
}

static void list_entries(Contents *contents, Model *model, Checkpoint *checkpoint) {
    Parameters *all = &model->parameters;
    State *state = &model->state;
    const Array nothing = {.rank = 1};
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
    if (ls_comm_rank(model->machine->comm) == 0)
        for (size_t i = 0; i < contents->count; i++)
            contents->entries[i].piece = contents->entries[i].array;
    else
        for (size_t i = 0; i < contents->count; i++) contents->entries[i].piece = nothing;
    add_tensors(contents, model, "weights.", SLOTS_VALUES, all->values);
    add_tensors(contents, model, "first_moment.", SLOTS_FIRST, all->first);
    add_tensors(contents, model, "second_moment.", SLOTS_SECOND, all->second);
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
    if (fclose(out) == 0 && ok) {
        contents->bytes = LENGTH_BYTES + contents->header_size;
        for (size_t i = 0; i < contents->count; i++)
            contents->bytes += bytes_of(&contents->entries[i]);
        return true;
    }
    close_contents(contents);
    return fail("out of host memory");
}

/* ---- writing ---- */

static bool write_header_bytes(ls_comm_file *file, const Contents *contents) {
    unsigned char length[LENGTH_BYTES];
    for (int i = 0; i < LENGTH_BYTES; i++)
        length[i] = (unsigned char)((uint64_t)contents->header_size >> 8 * i);
    return ls_comm_file_write(file, 0, length, sizeof length) == LS_OK &&
           ls_comm_file_write(file, sizeof length, contents->header, contents->header_size) ==
               LS_OK;
}

/* This rank's elements of an entry whose data begin at a place of the file. */
static bool write_piece(ls_comm_file *file, Machine *machine, const Entry *entry, uint64_t at) {
    const size_t bytes = size_of(entry->piece);
    if (bytes == 0) return true;
    void *values = entry->host ? NULL : malloc(bytes);
    if (!entry->host && !values) return fail("out of host memory");
    if (values) array_read(machine, entry->piece, values);
    at += (uint64_t)entry->begin * ls_type_size(entry->array.type);
    const bool ok =
        !machine->failed &&
        ls_comm_file_write(file, at, entry->host ? entry->host : values, bytes) == LS_OK;
    free(values);
    return ok;
}

static bool write_values(ls_comm_file *file, Machine *machine, const Contents *contents) {
    uint64_t at = LENGTH_BYTES + contents->header_size;
    bool ok = ls_comm_rank(machine->comm) > 0 || write_header_bytes(file, contents);
    for (size_t i = 0; i < contents->count && ok; i++) {
        ok = write_piece(file, machine, &contents->entries[i], at);
        at += bytes_of(&contents->entries[i]);
    }
    return ok;
}

bool checkpoint_write(const char *path, Model *model, const Checkpoint *checkpoint) {
    Machine *machine = model->machine;
    Contents contents;
    Checkpoint copy = *checkpoint; /* its values are only read */
    ls_comm_file *file = NULL;
    if (!open_contents(&contents, model, &copy)) return false;
    ls_status status = ls_comm_file_create(machine->comm, path, contents.bytes, &file);
    if (status == LS_OK) { /* a failure of ours to write is the call's to tell all ranks */
        write_values(file, machine, &contents);
        status = ls_comm_file_close(file, !machine->failed);
    }
    close_contents(&contents);
    return status == LS_OK ? !machine->failed : machine_all_failed(machine, status, "saving");
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

/* The file has all that its header says, and no more. */
static bool check_size(FILE *file, const char *path, const Contents *contents) {
    uint64_t at = LENGTH_BYTES + contents->header_size;
    if (fseeko(file, 0, SEEK_END) != 0) return not_one(path);
    const uint64_t size = (uint64_t)ftello(file);
    for (size_t i = 0; i < contents->count; i++) {
        at += bytes_of(&contents->entries[i]);
        if (at > size) return fail("%s ends in the middle of %s", path, contents->entries[i].name);
    }
    return at == size || not_one(path);
}

/* Moments as far as this rank keeps them, all else whole. */
static bool read_entry(FILE *file, const char *path, Machine *machine, const Entry *entry,
                       uint64_t at) {
    const Array array = entry->kept ? entry->piece : entry->array;
    const size_t bytes = size_of(array);
    if (entry->kept) at += (uint64_t)entry->begin * ls_type_size(array.type);
    void *values = entry->host ? entry->host : malloc(bytes + 1);
    if (!values) return fail("out of host memory");
    const bool whole =
        fseeko(file, (off_t)at, SEEK_SET) == 0 && fread(values, 1, bytes, file) == bytes;
    if (whole && bytes && array.data) array_write(machine, array, values);
    if (!entry->host) free(values);
    return whole || fail("%s could not be read as far as %s", path, entry->name);
}

static bool read_values(FILE *file, const char *path, Model *model, const Contents *contents) {
    uint64_t at = LENGTH_BYTES + contents->header_size;
    bool ok = check_size(file, path, contents);
    for (size_t i = 0; i < contents->count && ok; i++) {
        ok = read_entry(file, path, model->machine, &contents->entries[i], at);
        at += bytes_of(&contents->entries[i]);
    }
    return ok && !model->machine->failed;
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
    if (ok) model_refresh(model);
    return ok && !model->machine->failed;
}
