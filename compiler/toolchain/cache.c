/* cache.c: images kept on disk, by the hash of everything they are a function of.
 *
 * What lies in the directory is executed, so only a directory and files of this user, which nobody
 * else may write, are trusted. An entry is written under a temporary name and renamed, so a reader
 * sees all of it or none and needs no lock; its checksum covers what renaming cannot (a lost disk
 * block, a crash before the data reached the disk). Whatever is wrong with an entry makes it a
 * miss, and the next store replaces it. Whatever is wrong with the directory costs time only. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "toolchain/toolchain.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CACHE_LIMIT ((uint64_t)1 << 30)
#define CACHE_PATH_SIZE 4096
#define TEMPORARY_PREFIX "unfinished-"
#define RECORD_PREFIX "tuned-" /* see tune.c */
#define TEMPORARY_LIFE 3600    /* seconds after which its writer is surely gone */
#define TOUCH_AFTER 86400      /* seconds; an entry in use is marked young once a day */

/* An entry: these 56 bytes, then the image. */
typedef struct Header {
    uint8_t magic[16];
    uint8_t size[8];      /* of the image, low byte first */
    uint8_t checksum[32]; /* of key, size and image */
} Header;
_Static_assert(sizeof(Header) == 56, "the header is a file format");
static const char magic[] = "lockstep-cache-1";

typedef struct Directory {
    int descriptor;
    char path[CACHE_PATH_SIZE];
    char reason[256]; /* why it cannot be used */
} Directory;

CacheKey cache_key(const char *source, size_t size, const char *target, const char *options,
                   const char *toolchain_version) {
    char numeric[32];
    snprintf(numeric, sizeof numeric, "%016llx", (unsigned long long)numeric_version());
    const char *field[] = {magic, compiler_version(), numeric, target, options, toolchain_version};
    Sha256 hash = sha256_open();
    /* Every field with its final zero, so that no two lists of fields are the same bytes. */
    for (size_t i = 0; i < COUNT(field); i++)
        sha256_add(&hash, field[i] ? field[i] : "", strlen(field[i] ? field[i] : "") + 1);
    sha256_add(&hash, source, size);
    uint8_t digest[32];
    sha256_close(&hash, digest);
    CacheKey key;
    for (size_t i = 0; i < 32; i++) snprintf(key.text + 2 * i, 3, "%02x", digest[i]);
    return key;
}

static void entry_checksum(const CacheKey *key, const Header *header, const void *data, size_t size,
                           uint8_t digest[32]) {
    Sha256 hash = sha256_open();
    sha256_add(&hash, key->text, 64);
    sha256_add(&hash, header->size, sizeof header->size);
    sha256_add(&hash, data, size);
    sha256_close(&hash, digest);
}

/* ---- the directory ---- */

static bool refuse(Directory *directory, const char *format, const char *what) {
    int length = snprintf(directory->reason, sizeof directory->reason, format, what);
    if (length >= (int)sizeof directory->reason)
        memcpy(directory->reason + sizeof directory->reason - 4, "...", 4);
    return false;
}

static bool directory_name(Directory *directory) {
    const char *off = environment_value(VARIABLE_LOCKSTEP_CACHE);
    const char *own = environment_value(VARIABLE_LOCKSTEP_CACHE_DIR);
    const char *xdg = environment_foreign("XDG_CACHE_HOME");
    const char *home = environment_foreign("HOME");
    const char *base = own, *under = "";
    directory->path[0] = 0;
    if (off && strcmp(off, "off") == 0) return refuse(directory, "%s", "LOCKSTEP_CACHE=off");
    if (!own || !*own) {
        base = xdg, under = "/lockstep";
        if (!xdg || *xdg != '/')
            base = home, under = "/.cache/lockstep"; /* XDG: a relative path counts
                                                        as not set */
    }
    if (!base || !*base)
        return refuse(directory, "%s",
                      "none of LOCKSTEP_CACHE_DIR, XDG_CACHE_HOME and HOME is set");
    if (snprintf(directory->path, CACHE_PATH_SIZE, "%s%s", base, under) >= CACHE_PATH_SIZE) {
        directory->path[0] = 0;
        return refuse(directory, "%s", "the directory's name is too long");
    }
    return true;
}

/* mkdir -p, private from the first folder it makes. */
static bool make_directories(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        bool failed = mkdir(path, 0700) != 0 && errno != EEXIST && access(path, F_OK) != 0;
        *slash = '/';
        if (failed) return false;
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static bool ours_alone(const struct stat *status) {
    return status->st_uid == geteuid() && (status->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* Opens the directory, making it if asked. On failure `reason` says why; a caller that only wants
 * speed need not care. */
static bool directory_open(Directory *directory, bool make) {
    directory->descriptor = -1;
    directory->reason[0] = 0;
    if (!directory_name(directory)) return false;
    int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    directory->descriptor = open(directory->path, flags);
    if (directory->descriptor < 0 && errno == ENOENT && make) {
        if (!make_directories(directory->path))
            return refuse(directory, "the directory cannot be made: %s", strerror(errno));
        directory->descriptor = open(directory->path, flags);
    }
    if (directory->descriptor < 0)
        return refuse(directory, "the directory cannot be opened: %s", strerror(errno));
    struct stat status;
    const char *why = NULL;
    if (fstat(directory->descriptor, &status) != 0)
        why = strerror(errno);
    else if (status.st_uid != geteuid())
        why = "the directory belongs to another user; name another with LOCKSTEP_CACHE_DIR";
    else if (!ours_alone(&status))
        why = "other users may write to the directory; chmod 700 it after a look at what is in it";
    if (!why) return true;
    close(directory->descriptor);
    directory->descriptor = -1;
    return refuse(directory, "%s", why);
}

static void directory_close(Directory *directory) {
    if (directory->descriptor >= 0) close(directory->descriptor);
    directory->descriptor = -1;
}

bool cache_folder(char *path, size_t size) {
    Directory directory;
    if (!directory_open(&directory, true)) return false;
    directory_close(&directory);
    return (size_t)snprintf(path, size, "%s", directory.path) < size;
}

/* ---- entries ---- */

static bool is_key(const char *name) {
    return strlen(name) == 64 && strspn(name, "0123456789abcdef") == 64;
}

static bool is_record(const char *name) {
    return strncmp(name, RECORD_PREFIX, strlen(RECORD_PREFIX)) == 0;
}

static bool is_temporary(const char *name) {
    return strncmp(name, TEMPORARY_PREFIX, strlen(TEMPORARY_PREFIX)) == 0;
}

/* Reads and checks one entry; NULL unless every byte is as it was stored. */
static void *entry_read(const Directory *directory, const CacheKey *key, size_t *size) {
    uint8_t *data = NULL;
    bool good = false;
    Header header;
    struct stat status;
    /* O_NONBLOCK: somebody's FIFO must not stop us. */
    int file =
        openat(directory->descriptor, key->text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) return NULL;
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || !ours_alone(&status)) goto done;
    if (status.st_size < (off_t)sizeof header || (uint64_t)status.st_size > CACHE_LIMIT) goto done;
    if (!rtc_read(file, &header, sizeof header) || memcmp(header.magic, magic, 16) != 0) goto done;
    uint64_t stored = 0;
    for (unsigned i = 0; i < 8; i++) stored |= (uint64_t)header.size[i] << (8 * i);
    if (stored != (uint64_t)status.st_size - sizeof header) goto done;
    data = malloc((size_t)stored + 1);
    if (!data || !rtc_read(file, data, (size_t)stored)) goto done;
    uint8_t digest[32];
    entry_checksum(key, &header, data, (size_t)stored, digest);
    good = memcmp(digest, header.checksum, 32) == 0;
    data[stored] = 0;
    *size = (size_t)stored;
    if (good && status.st_mtime + TOUCH_AFTER < time(NULL)) futimens(file, NULL);
done:
    close(file);
    if (good) return data;
    free(data);
    return NULL;
}

bool cache_load(const CacheKey *key, void **data, size_t *size) {
    Directory directory;
    *data = NULL;
    *size = 0;
    if (!directory_open(&directory, false)) return false;
    *data = entry_read(&directory, key, size);
    directory_close(&directory);
    return *data != NULL;
}

/* A new file that is nobody else's; its name goes to `name`. */
static int temporary_open(const Directory *directory, char *name, size_t size) {
    for (unsigned attempt = 0; attempt < 100; attempt++) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        snprintf(name, size, TEMPORARY_PREFIX "%ld-%lx-%x", (long)getpid(), (long)now.tv_nsec,
                 attempt);
        int file =
            openat(directory->descriptor, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (file >= 0 || errno != EEXIST) return file;
    }
    return -1;
}

/* A whole file under its name, or none. */
static bool file_store(const Directory *directory, const char *to, const void *head,
                       size_t head_size, const void *data, size_t size) {
    char name[80];
    int file = temporary_open(directory, name, sizeof name);
    if (file < 0) return false;
    bool written = rtc_write(file, head, head_size) && rtc_write(file, data, size);
    written = close(file) == 0 && written;
    if (written && renameat(directory->descriptor, name, directory->descriptor, to) == 0)
        return true;
    unlinkat(directory->descriptor, name, 0);
    return false;
}

void cache_store(const CacheKey *key, const void *data, size_t size) {
    Directory directory;
    Header header;
    if (size > CACHE_LIMIT - sizeof header || !directory_open(&directory, true)) return;
    memcpy(header.magic, magic, 16);
    for (unsigned i = 0; i < 8; i++) header.size[i] = (uint8_t)((uint64_t)size >> (8 * i));
    entry_checksum(key, &header, data, size, header.checksum);
    if (file_store(&directory, key->text, &header, sizeof header, data, size) &&
        key->text[0] == '0') /* one store in sixteen looks at the whole directory */
        cache_trim(CACHE_LIMIT);
    directory_close(&directory);
}

/* ---- the whole directory ---- */

/* Calls visit for each of our files, or those whose names begin so; false if the directory cannot
 * be read. */
typedef struct Found {
    char name[80];
    struct stat status;
} Found;
static bool each_file(const Directory *directory, const char *begin,
                      void (*visit)(void *, const Found *), void *data) {
    int copy = openat(directory->descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = copy < 0 ? NULL : fdopendir(copy);
    if (!stream) {
        if (copy >= 0) close(copy);
        return false;
    }
    for (struct dirent *entry; (entry = readdir(stream));) {
        Found found;
        if (!is_key(entry->d_name) && !is_temporary(entry->d_name) && !is_record(entry->d_name))
            continue;
        if (strncmp(entry->d_name, begin, strlen(begin)) != 0) continue;
        if (strlen(entry->d_name) >= sizeof found.name) continue;
        strcpy(found.name, entry->d_name);
        if (fstatat(directory->descriptor, found.name, &found.status, AT_SYMLINK_NOFOLLOW) == 0)
            visit(data, &found);
    }
    closedir(stream);
    return true;
}

typedef struct FoundList {
    Found *found;
    size_t count, capacity;
    uint64_t bytes;
} FoundList;

static void collect(void *data, const Found *found) {
    FoundList *list = data;
    if (is_record(found->name)) return; /* small, and dear to make */
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        Found *grown = realloc(list->found, capacity * sizeof *grown);
        if (!grown) return; /* the rest is looked at another time */
        list->found = grown;
        list->capacity = capacity;
    }
    list->found[list->count++] = *found;
    list->bytes += (uint64_t)found->status.st_size;
}

static int by_age(const void *a, const void *b) {
    const struct timespec *x = &((const Found *)a)->status.st_mtim;
    const struct timespec *y = &((const Found *)b)->status.st_mtim;
    if (x->tv_sec != y->tv_sec) return x->tv_sec < y->tv_sec ? -1 : 1;
    return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

void cache_trim(uint64_t limit) {
    Directory directory;
    FoundList list = {0};
    if (!directory_open(&directory, false)) return;
    each_file(&directory, "", collect, &list);
    if (list.count) qsort(list.found, list.count, sizeof *list.found, by_age);
    time_t now = time(NULL);
    for (size_t i = 0; i < list.count; i++) {
        const Found *found = &list.found[i];
        bool stale = is_temporary(found->name) && found->status.st_mtime + TEMPORARY_LIFE < now;
        if (!stale && (list.bytes <= limit || is_temporary(found->name))) continue;
        if (unlinkat(directory.descriptor, found->name, 0) == 0)
            list.bytes -= (uint64_t)found->status.st_size;
    }
    free(list.found);
    directory_close(&directory);
}

typedef struct Survey {
    const Directory *directory;
    ls_cache_stats *stats;
    bool verify;
} Survey;

static void survey_one(void *data, const Found *found) {
    Survey *survey = data;
    if (is_temporary(found->name)) return;
    if (is_record(found->name)) {
        survey->stats->tuned++;
        return;
    }
    if (survey->verify) {
        CacheKey key;
        size_t size;
        memcpy(key.text, found->name, sizeof key.text);
        void *image = entry_read(survey->directory, &key, &size);
        if (!image) {
            survey->stats->damaged++;
            unlinkat(survey->directory->descriptor, found->name, 0);
            return;
        }
        free(image);
    }
    survey->stats->entries++;
    survey->stats->bytes += (uint64_t)found->status.st_size;
}

ls_status ls_cache_read_stats(ls_cache_stats *stats, int verify) {
    static _Thread_local char path[CACHE_PATH_SIZE]; /* lockstep/compiler.h: until the next call */
    Directory directory;
    if (!stats) return LS_ERROR_ARGUMENT;
    memset(stats, 0, sizeof *stats);
    bool open = directory_open(&directory, true);
    strcpy(path, directory.path);
    stats->directory = path;
    Survey survey = {&directory, stats, verify != 0};
    if (open && !each_file(&directory, "", survey_one, &survey))
        refuse(&directory, "the directory cannot be read: %s", strerror(errno));
    else if (open && faccessat(directory.descriptor, ".", W_OK, AT_EACCESS) != 0)
        refuse(&directory, "nothing new can be kept (%s); what is there is used", strerror(errno));
    stats->usable = directory.reason[0] == 0;
    memcpy(stats->reason, directory.reason, sizeof stats->reason);
    directory_close(&directory);
    return LS_OK;
}

typedef struct Removal {
    const Directory *directory;
    uint64_t removed, kept;
} Removal;

static void remove_one(void *data, const Found *found) {
    Removal *removal = data;
    if (unlinkat(removal->directory->descriptor, found->name, 0) == 0)
        removal->removed += is_key(found->name) || is_record(found->name);
    else if (errno != ENOENT) /* another process may be clearing too */
        removal->kept++;
}

ls_status ls_cache_clear(uint64_t *removed) {
    Directory directory;
    if (removed) *removed = 0;
    if (!directory_open(&directory, false)) return LS_OK; /* nothing of ours is there */
    Removal removal = {.directory = &directory};
    bool read = each_file(&directory, "", remove_one, &removal);
    directory_close(&directory);
    if (removed) *removed = removal.removed;
    return read && removal.kept == 0 ? LS_OK : LS_ERROR_FILE;
}

/* ---- records: small files that are read whole; what they say is judged by who reads them ---- */

static bool record_read(const Directory *directory, const char *name, char *text, size_t size) {
    struct stat status;
    int file = openat(directory->descriptor, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) return false;
    bool good = fstat(file, &status) == 0 && S_ISREG(status.st_mode) && ours_alone(&status) &&
                (uint64_t)status.st_size < size && rtc_read(file, text, (size_t)status.st_size);
    close(file);
    text[good ? status.st_size : 0] = 0;
    return good;
}

bool cache_record_load(const char *name, char *text, size_t size) {
    Directory directory;
    if (!directory_open(&directory, false)) return false;
    bool good = record_read(&directory, name, text, size);
    directory_close(&directory);
    return good;
}

bool cache_record_store(const char *name, const char *text, char *reason, size_t size) {
    Directory directory;
    bool good = directory_open(&directory, true);
    if (good && text)
        good = file_store(&directory, name, "", 0, text, strlen(text)) ||
               refuse(&directory, "it cannot be written: %s", strerror(errno));
    else if (good)
        unlinkat(directory.descriptor, name, 0);
    snprintf(reason, size, "%s", directory.reason);
    directory_close(&directory);
    return good;
}

typedef struct RecordVisit {
    const Directory *directory;
    char *text;
    size_t size;
    void (*visit)(void *user, const char *text);
    void *user;
} RecordVisit;

static void visit_record(void *data, const Found *found) {
    const RecordVisit *v = data;
    if (record_read(v->directory, found->name, v->text, v->size)) v->visit(v->user, v->text);
}

void cache_record_each(const char *begin, char *text, size_t size,
                       void (*visit)(void *user, const char *text), void *user) {
    Directory directory;
    if (!directory_open(&directory, false)) return;
    RecordVisit v = {&directory, text, size, visit, user};
    each_file(&directory, begin, visit_record, &v);
    directory_close(&directory);
}
