/* compiled.c: libraries that texts were compiled to, in the folder that SIMT_CACHE names: ranks of
 * a test are processes, and each of them loads the same texts. Without the variable nothing is
 * kept.
 *
 * A library's key is made of the text, of the command line, of the compiler's file, and of the
 * headers that the text includes. */
#include <fcntl.h>
#include <glob.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "simt_parts.h"

enum { PATH_SIZE = 1024, CHUNK = 1 << 16 };

typedef struct Key {
    uint64_t half[2];
} Key;

/* FNV-1a, and the same by another prime. */
static void add(Key *key, const void *data, size_t size) {
    for (size_t i = 0; i < size; i++) {
        const uint8_t byte = ((const uint8_t *)data)[i];
        key->half[0] = (key->half[0] ^ byte) * UINT64_C(0x100000001b3);
        key->half[1] = (key->half[1] ^ byte) * UINT64_C(0x9e3779b97f4a7c15);
    }
}

static void add_text(Key *key, const char *text) {
    add(key, text, strlen(text) + 1);
}

static bool add_file(Key *key, const char *path) {
    char chunk[CHUNK];
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = -1;
    while (file >= 0 && (size = read(file, chunk, sizeof chunk)) > 0) add(key, chunk, (size_t)size);
    if (file >= 0) close(file);
    return size == 0;
}

static bool add_headers(Key *key, const char *pattern) {
    glob_t found;
    bool good = glob(pattern, 0, NULL, &found) == 0;
    for (size_t i = 0; good && i < found.gl_pathc; i++) good = add_file(key, found.gl_pathv[i]);
    if (good) globfree(&found);
    return good;
}

/* The compiler by the first file of its name on PATH: which, how large and of when it is, as
 * another version is. */
static bool add_compiler(Key *key, const char *name) {
    const char *search = getenv("PATH");
    for (const char *at = search ? search : ""; *at; at += strspn(at, ":")) {
        char path[PATH_SIZE];
        struct stat file;
        const int folder = (int)strcspn(at, ":");
        const int size = snprintf(path, sizeof path, "%.*s/%s", folder, at, name);
        at += folder;
        if (size < 0 || size >= PATH_SIZE || access(path, X_OK) != 0 || stat(path, &file) != 0)
            continue;
        const int64_t facts[] = {(int64_t)file.st_size, (int64_t)file.st_mtim.tv_sec,
                                 (int64_t)file.st_mtim.tv_nsec};
        add_text(key, path);
        add(key, facts, sizeof facts);
        return true;
    }
    return false;
}

/* The library's path there. The paths of the text and of what is made of it, which are others each
 * time, are no part of the key. */
static bool find_path(char path[PATH_SIZE], const char *text, char *const *words,
                      const char *library) {
    const char *folder = getenv("SIMT_CACHE");
    Key key = {{UINT64_C(0xcbf29ce484222325), UINT64_C(0x84222325cbf29ce4)}};
    if (!folder || !*folder) return false;
    for (size_t i = 0; words[i]; i++)
        if (words[i] != library && words[i] != text) add_text(&key, words[i]);
    if (!add_compiler(&key, words[0]) || !add_headers(&key, SIMT_FOLDER "/*.h") ||
        !add_headers(&key, SIMT_FOLDER "/ptx/*.h") || !add_file(&key, text))
        return false;
    const int size = snprintf(path, PATH_SIZE, "%s/%016llx%016llx.so", folder,
                              (unsigned long long)key.half[0], (unsigned long long)key.half[1]);
    return size > 0 && size < PATH_SIZE;
}

static bool copy_file(const char *from, const char *to) {
    char chunk[CHUNK];
    FILE *in = fopen(from, "r"), *out = in ? fopen(to, "w") : NULL;
    bool good = out != NULL;
    for (size_t size; good && (size = fread(chunk, 1, sizeof chunk, in)) > 0;)
        good = fwrite(chunk, 1, size, out) == size;
    good = good && !ferror(in);
    if (in) fclose(in);
    if (out) good = fclose(out) == 0 && good;
    return good;
}

bool compiled_load(const char *text, char *const *words, const char *library) {
    char path[PATH_SIZE];
    return find_path(path, text, words, library) && copy_file(path, library);
}

/* Whole or not at all, as other processes may look for it. */
void compiled_store(const char *text, char *const *words, const char *library) {
    char path[PATH_SIZE], part[PATH_SIZE + 32];
    if (!find_path(path, text, words, library)) return;
    mkdir(getenv("SIMT_CACHE"), 0777);
    snprintf(part, sizeof part, "%s.%ld", path, (long)getpid());
    if (!copy_file(library, part) || rename(part, path) != 0) unlink(part);
}
