/* kernels.c: machine code for CPUs made ahead of time, for machines without a C compiler: a file
 * for each level of processors, "cpu-x86-64-v3.kernels", in the folder `lockstep` beside the
 * library, or where LOCKSTEP_KERNELS says.
 *
 * A kernel is found by a hash of its text without the comments, so that the same arithmetic is
 * found whatever file and line it is written on. A file of another version of Lockstep finds
 * nothing. Whatever is wrong with a file makes it a miss, as in cache.c. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "toolchain/toolchain.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_SIZE RTC_PATH_SIZE
#define KERNELS_LIMIT ((uint64_t)1 << 30)

/* A file: the header, as many rows, sorted by key, and the code. */
typedef struct Header {
    uint8_t magic[16], maker[16]; /* which Lockstep */
    uint8_t count[8], zero[8];    /* low byte first */
} Header;
typedef struct Row {
    uint8_t key[16], checksum[8]; /* the second of the code */
    uint8_t offset[8], bytes[8];  /* where it lies in the file: alone, */
    uint8_t packed[8];            /* or, where this is 1, packed with others as image.h says */
    uint8_t at[8], size[8];       /* where among these; its own bytes */
} Row;
_Static_assert(sizeof(Header) == 48 && sizeof(Row) == 64, "these are a file format");
static const char magic[] = "lockstep-kernels";
static const char form[] = "1";
/* Of code that is packed together, which loading unpacks as far as it has to. */
#define BLOCK_LIMIT ((size_t)16 << 20)

static uint64_t number_read(const uint8_t bytes[8]) {
    uint64_t number = 0;
    for (unsigned i = 0; i < 8; i++) number |= (uint64_t)bytes[i] << (8 * i);
    return number;
}

static void number_write(uint8_t bytes[8], uint64_t number) {
    for (unsigned i = 0; i < 8; i++) bytes[i] = (uint8_t)(number >> (8 * i));
}

/* ---- keys ---- */

/* Adds the text without its comments, of which generated C has one kind and no quotes around. */
static void add_without_comments(Sha256 *hash, const char *source) {
    for (const char *begin; *source;) {
        begin = strstr(source, "/*");
        sha256_add(hash, source, begin ? (size_t)(begin - source) : strlen(source));
        const char *end = begin ? strstr(begin + 2, "*/") : NULL;
        if (!end) return;
        source = end + 2;
    }
}

static void make_key(const char *source, const char *level, const char *math, uint8_t key[16]) {
    uint8_t digest[32];
    Sha256 hash = sha256_open();
    sha256_add(&hash, level, strlen(level) + 1);
    sha256_add(&hash, math, strlen(math) + 1);
    add_without_comments(&hash, source);
    sha256_close(&hash, digest);
    memcpy(key, digest, 16);
}

static void begin_header(Header *header) {
    char numeric[32];
    uint8_t digest[32];
    snprintf(numeric, sizeof numeric, "%016llx", (unsigned long long)numeric_version());
    const char *field[] = {form, compiler_version(), numeric};
    Sha256 hash = sha256_open();
    for (size_t i = 0; i < COUNT(field); i++) sha256_add(&hash, field[i], strlen(field[i]) + 1);
    sha256_close(&hash, digest);
    *header = (Header){0};
    memcpy(header->magic, magic, 16);
    memcpy(header->maker, digest, 16);
}

static void make_checksum(const void *data, size_t size, uint8_t checksum[8]) {
    uint8_t digest[32];
    Sha256 hash = sha256_open();
    sha256_add(&hash, data, size);
    sha256_close(&hash, digest);
    memcpy(checksum, digest, 8);
}

static int by_key(const void *a, const void *b) {
    return memcmp(a, b, 16);
}

/* ---- the folders ---- */

/* Where the library lies, or the program that has it inside, without the last name. */
static bool find_own_folder(char *path, size_t size) {
    Dl_info info;
    char *real = NULL;
    if (dladdr((const void *)magic, &info) && info.dli_fname && strchr(info.dli_fname, '/'))
        real = realpath(info.dli_fname, NULL);
    if (!real) real = realpath("/proc/self/exe", NULL);
    if (!real) return false;
    *strrchr(real, '/') = 0;
    const bool good = snprintf(path, size, "%s", real) < (int)size;
    free(real);
    return good;
}

/* The names that the file of a level may have: an opened one, or -1. */
static int open_file(const char *level) {
    char folder[PATH_SIZE], path[PATH_SIZE + 64];
    const char *given = environment_value(VARIABLE_LOCKSTEP_KERNELS);
    static const char *const under[] = {"/lockstep", "/../lib/lockstep"};
    const bool own = !given || !*given;
    if (own ? !find_own_folder(folder, sizeof folder)
            : snprintf(folder, sizeof folder, "%s", given) >= (int)sizeof folder)
        return -1;
    for (size_t i = 0; i < (own ? COUNT(under) : 1); i++) {
        snprintf(path, sizeof path, "%s%s/" RTC_KERNELS_NAME, folder, own ? under[i] : "", level);
        const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (file >= 0) return file;
    }
    return -1;
}

/* ---- reading ---- */

/* The rows of an opened file, malloc'ed; NULL: it is none of this Lockstep's. */
static Row *read_rows(int file, size_t *count, uint64_t *whole) {
    Header header, own;
    struct stat status;
    *count = 0;
    begin_header(&own);
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size < 0) return NULL;
    *whole = (uint64_t)status.st_size;
    if (*whole > KERNELS_LIMIT || !rtc_read(file, &header, sizeof header)) return NULL;
    if (memcmp(&header, &own, offsetof(Header, count)) != 0) return NULL;
    const uint64_t rows = number_read(header.count);
    if (rows > (*whole - sizeof header) / sizeof(Row)) return NULL;
    Row *made = malloc((size_t)rows * sizeof *made + 1);
    if (made && rtc_read(file, made, (size_t)rows * sizeof *made)) {
        *count = (size_t)rows;
        return made;
    }
    free(made);
    return NULL;
}

/* The code behind the first `at` bytes of what is packed; NULL: it is damaged. Frees the packed
 * bytes. */
static void *unpack(char *packed, uint64_t bytes, uint64_t at, uint64_t size) {
    void *code = NULL;
    const bool good = at <= BLOCK_LIMIT && ls_image_unpack_bytes(packed, (size_t)bytes, (size_t)at,
                                                                 (size_t)size, &code) == 1;
    free(packed);
    return good ? code : NULL;
}

/* A row's code, malloc'ed with a zero behind it; NULL unless every byte is as it was stored. */
static void *read_code(int file, const Row *row, uint64_t whole) {
    const uint64_t offset = number_read(row->offset), bytes = number_read(row->bytes);
    const uint64_t size = number_read(row->size);
    const bool packed = number_read(row->packed) == 1;
    uint8_t checksum[8];
    if (offset > whole || bytes > whole - offset || size > KERNELS_LIMIT) return NULL;
    if (!packed && bytes != size) return NULL;
    char *data = malloc((size_t)bytes + 1);
    if (data && lseek(file, (off_t)offset, SEEK_SET) == (off_t)offset &&
        rtc_read(file, data, (size_t)bytes)) {
        data[bytes] = 0;
        if (packed) data = unpack(data, bytes, number_read(row->at), size);
        if (data) make_checksum(data, (size_t)size, checksum);
        if (data && memcmp(checksum, row->checksum, 8) == 0) return data;
    }
    free(data);
    return NULL;
}

static void *load_from(int file, const uint8_t key[16], size_t *size) {
    size_t count;
    uint64_t whole;
    void *data = NULL;
    Row *rows = read_rows(file, &count, &whole);
    const Row *row = rows ? bsearch(key, rows, count, sizeof *rows, by_key) : NULL;
    if (row) {
        data = read_code(file, row, whole);
        *size = data ? (size_t)number_read(row->size) : 0;
    }
    free(rows);
    return data;
}

void kernels_describe(char *text, size_t size) {
    const char *levels[RTC_LEVELS_MAX];
    snprintf(text, size, "kernels for %s", rtc_cpu_levels(levels) ? levels[0] : "none");
}

bool kernels_load(const char *source, const char *math, void **data, size_t *size) {
    const char *levels[RTC_LEVELS_MAX];
    const char *given = environment_value(VARIABLE_LOCKSTEP_KERNELS);
    *data = NULL;
    *size = 0;
    if (given && strcmp(given, "off") == 0) return false;
    const size_t count = rtc_cpu_levels(levels);
    for (size_t i = 0; i < count && !*data; i++) {
        uint8_t key[16];
        const int file = open_file(levels[i]);
        if (file < 0) continue;
        make_key(source, levels[i], math, key);
        *data = load_from(file, key, size);
        close(file);
    }
    return *data != NULL;
}

/* ---- writing ---- */

typedef struct Entry {
    Row row; /* begins with the key */
    const void *data;
    void *owned;
    size_t size;
    uint64_t order;
} Entry;
typedef struct Block {
    const char *text;
    size_t size;
} Block;
struct Kernels {
    Entry *entries;
    Entry **placed; /* in the order in which they came: steps that are alike are neighbours */
    Block *blocks;  /* NULL: nothing is packed */
    size_t count, capacity, block_count;
};

Kernels *kernels_open(const char *path, size_t room) {
    size_t rows = 0;
    uint64_t whole = 0;
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    Row *row = file < 0 ? NULL : read_rows(file, &rows, &whole);
    Kernels *k = calloc(1, sizeof *k);
    if (k) {
        k->capacity = rows + room;
        k->entries = calloc(k->capacity + 1, sizeof *k->entries);
        k->placed = calloc(k->capacity + 1, sizeof *k->placed);
    }
    for (size_t i = 0; k && k->entries && i < rows; i++) {
        void *data = read_code(file, &row[i], whole);
        /* what was written first lies first, in front of what is added */
        const uint64_t order = number_read(row[i].offset) << 32 | number_read(row[i].at);
        if (data)
            k->entries[k->count++] =
                (Entry){row[i], data, data, (size_t)number_read(row[i].size), order};
    }
    free(row);
    if (file >= 0) close(file);
    if (k && k->entries && k->placed) return k;
    kernels_close(k);
    return NULL;
}

void kernels_close(Kernels *k) {
    for (size_t i = 0; k && k->entries && i < k->count; i++) free(k->entries[i].owned);
    if (k) free(k->entries), free(k->placed);
    free(k);
}

void kernels_add(Kernels *k, const CodeRequest *request) {
    const Made *made = request->made;
    const Code *code = &made->code[request->variant];
    if (k->count == k->capacity) return; /* there is room for as many as was said */
    Entry *entry = &k->entries[k->count];
    *entry = (Entry){.data = code->data, .size = code->size, .order = (UINT64_MAX >> 1) + k->count};
    make_key(made->image->variants[request->variant].source, strchr(made->level, ':') + 1,
             made->image->math, entry->row.key);
    k->count++;
}

static int by_key_then_latest(const void *a, const void *b) {
    const Entry *x = a, *y = b;
    const int order = by_key(x, y);
    return order ? order : (x->order < y->order) - (x->order > y->order);
}

static int by_order(const void *a, const void *b) {
    const Entry *x = *(Entry *const *)a, *y = *(Entry *const *)b;
    return (x->order > y->order) - (x->order < y->order);
}

/* Of those with the same key the latest, in the place of the first. */
static void sort_entries(Kernels *k) {
    size_t kept = 0;
    qsort(k->entries, k->count, sizeof *k->entries, by_key_then_latest);
    for (size_t i = 0; i < k->count; i++) {
        Entry *last = kept ? &k->entries[kept - 1] : NULL;
        if (last && by_key(last, &k->entries[i]) == 0) {
            last->order = k->entries[i].order;
            free(k->entries[i].owned);
            continue;
        }
        k->entries[kept++] = k->entries[i];
    }
    k->count = kept;
    for (size_t i = 0; i < kept; i++) k->placed[i] = &k->entries[i];
    qsort(k->placed, kept, sizeof *k->placed, by_order);
}

/* Where each lies in a file in which nothing is packed. */
static void place_alone(Kernels *k) {
    uint64_t offset = sizeof(Header) + k->count * sizeof(Row);
    for (size_t i = 0; i < k->count; i++) {
        Entry *entry = k->placed[i];
        number_write(entry->row.offset, offset);
        number_write(entry->row.bytes, entry->size);
        number_write(entry->row.packed, 0);
        number_write(entry->row.at, 0);
        offset += entry->size;
    }
}

/* The entries from number `first` on, as far as a block goes, as one; gives the next number. */
static size_t pack_block(Kernels *k, Arena *arena, size_t first, uint64_t offset) {
    Text code = text_open(arena);
    size_t end = first;
    for (; end < k->count && (end == first || code.size + k->placed[end]->size <= BLOCK_LIMIT);
         end++) {
        number_write(k->placed[end]->row.at, code.size);
        text_add(&code, k->placed[end]->data, k->placed[end]->size);
    }
    const Text text = compress_bytes(arena, &code);
    k->blocks[k->block_count++] = (Block){text.data, text.size};
    for (size_t i = first; i < end; i++) {
        number_write(k->placed[i]->row.offset, offset);
        number_write(k->placed[i]->row.bytes, text.size);
        number_write(k->placed[i]->row.packed, 1);
    }
    return end;
}

void kernels_place(Kernels *k, Arena *arena, bool packed) {
    sort_entries(k);
    for (size_t i = 0; i < k->count; i++) {
        number_write(k->entries[i].row.size, k->entries[i].size);
        make_checksum(k->entries[i].data, k->entries[i].size, k->entries[i].row.checksum);
    }
    place_alone(k);
    if (!packed) return;
    uint64_t offset = sizeof(Header) + k->count * sizeof(Row);
    k->blocks = arena_alloc(arena, (k->count + 1) * sizeof *k->blocks);
    for (size_t next = 0; next < k->count; offset += k->blocks[k->block_count - 1].size)
        next = pack_block(k, arena, next, offset);
}

static bool write_all(int file, const Kernels *k) {
    Header header;
    begin_header(&header);
    number_write(header.count, k->count);
    bool good = rtc_write(file, &header, sizeof header);
    for (size_t i = 0; good && i < k->count; i++)
        good = rtc_write(file, &k->entries[i].row, sizeof k->entries[i].row);
    for (size_t i = 0; good && i < k->block_count; i++)
        good = rtc_write(file, k->blocks[i].text, k->blocks[i].size);
    for (size_t i = 0; good && !k->blocks && i < k->count; i++)
        good = rtc_write(file, k->placed[i]->data, k->placed[i]->size);
    return good;
}

ls_status kernels_write(const Kernels *k, const char *path, char *message, size_t size) {
    char name[PATH_SIZE];
    int why = ENAMETOOLONG;
    if (snprintf(name, sizeof name, "%s.%ld", path, (long)getpid()) < (int)sizeof name) {
        const int file = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        bool good = file >= 0 && write_all(file, k);
        if (file >= 0) good = close(file) == 0 && good;
        if (good && rename(name, path) == 0) return LS_OK;
        why = errno;
        if (file >= 0) unlink(name);
    }
    snprintf(message, size, "cannot write %s: %s", path, strerror(why));
    return LS_ERROR_FILE;
}
