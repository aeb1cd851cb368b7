/* file_npy.c: the header of NumPy's .npy files, format versions 1 to 3.
 *
 * It is a Python dictionary in a fixed form; only that form is read. What is not a plain number
 * type is refused. The file must be exactly as long as its header says. */
#include "runtime.h"
#include "file.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_MAX = 1 << 16 };
static const char magic[] = "\x93NUMPY";

typedef struct Header {
    const char *path, *at, *end;
    ls_file_array array;
    char type_name[32];
} Header;

/* False, with the reason. */
static bool refuse(const char *format, ...) PRINTF_LIKE(1, 2);
static bool refuse(const char *format, ...) {
    char text[1500];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    error_set(NULL, LS_ERROR_FILE, "%s", text);
    return false;
}

static bool malformed(Header *h, const char *expected) {
    return refuse("%s: not a valid .npy file: its header should have %s", h->path, expected);
}

static void spaces(Header *h) {
    while (h->at < h->end && (*h->at == ' ' || *h->at == '\n' || *h->at == '\t')) h->at++;
}

static bool take(Header *h, const char *word) {
    spaces(h);
    size_t size = strlen(word);
    if ((size_t)(h->end - h->at) < size || memcmp(h->at, word, size) != 0) return false;
    h->at += size;
    return true;
}

/* A quoted string without escapes and zeros, into a small buffer. */
static bool quoted(Header *h, char *text, size_t capacity) {
    spaces(h);
    if (h->at == h->end || (*h->at != '\'' && *h->at != '"')) return false;
    char quote = *h->at++;
    const char *begin = h->at;
    while (h->at < h->end && *h->at != quote && *h->at != '\\') h->at++;
    size_t size = (size_t)(h->at - begin);
    if (h->at == h->end || *h->at != quote || size >= capacity || memchr(begin, 0, size))
        return false;
    memcpy(text, begin, size);
    text[size] = '\0';
    h->at++;
    return true;
}

static bool read_type(Header *h) {
    char *text = h->type_name;
    if (take(h, "["))
        return refuse("%s holds records (a structured type); Lockstep reads plain numbers",
                      h->path);
    if (!quoted(h, text, sizeof h->type_name))
        return malformed(h, "a type such as '<f4' after 'descr'");
    char order = text[0];
    for (int type = 0; type < LS_TYPE_COUNT; type++) {
        const char *npy = file_types[type].npy;
        /* the byte order says nothing about single bytes, '=' is this machine's */
        if (npy[0] && order && strchr("<>=|", order) && strcmp(text + 1, npy + 1) == 0 &&
            (order != '|' || ls_type_size((ls_type)type) == 1)) {
            h->array.type = (ls_type)type;
            h->array.swapped = order == '>' && ls_type_size((ls_type)type) > 1;
            return true;
        }
    }
    return refuse(
        "%s holds elements of type '%s', which Lockstep does not know; f2 f4 f8, i1 i2 i4 "
        "i8, u1 u2 u4 u8 and b1 can be read, and bf16 and the 8-bit floats have no .npy "
        "type: keep them in .safetensors files",
        h->path, text);
}

static bool read_shape(Header *h) {
    if (!take(h, "(")) return malformed(h, "a shape in parentheses");
    while (!take(h, ")")) {
        if (h->array.rank == LS_RANK_MAX)
            return refuse("%s has more than %d axes", h->path, LS_RANK_MAX);
        spaces(h);
        const char *begin = h->at;
        int64_t length = 0;
        for (; h->at < h->end && *h->at >= '0' && *h->at <= '9'; h->at++) {
            int digit = *h->at - '0';
            if (length > (INT64_MAX - digit) / 10)
                return refuse("%s claims an axis longer than 2^63", h->path);
            length = length * 10 + digit;
        }
        if (h->at == begin) return malformed(h, "whole numbers in its shape");
        take(h, "L"); /* Python 2 wrote long integers so */
        h->array.shape[h->array.rank++] = length;
        bool comma = take(h, ",");
        if (comma) continue;
        if (h->array.rank == 1 || !take(h, ")")) return malformed(h, "a tuple as its shape");
        break;
    }
    return true;
}

static bool read_order(Header *h) {
    h->array.fortran = take(h, "True");
    return h->array.fortran || take(h, "False") ||
           malformed(h, "True or False after 'fortran_order'");
}

static bool read_header(Header *h) {
    static const struct {
        const char *key;
        bool (*read)(Header *);
    } members[] = {{"descr", read_type}, {"fortran_order", read_order}, {"shape", read_shape}};
    unsigned seen = 0;
    if (!take(h, "{")) return malformed(h, "a dictionary");
    while (!take(h, "}")) {
        char key[32];
        size_t i = 0;
        if (!quoted(h, key, sizeof key) || !take(h, ":")) return malformed(h, "a key and a colon");
        while (i < COUNT(members) && strcmp(members[i].key, key) != 0) i++;
        if (i == COUNT(members) || seen & 1u << i)
            return malformed(h, "the keys 'descr', 'fortran_order' and 'shape', each once");
        seen |= 1u << i;
        if (!members[i].read(h)) return false;
        if (take(h, ",")) continue;
        if (!take(h, "}")) return malformed(h, "a comma or a closing brace");
        break;
    }
    if (seen != 7) return malformed(h, "'descr', 'fortran_order' and 'shape'");
    spaces(h);
    return h->at == h->end || malformed(h, "nothing after its dictionary");
}

/* Where the header lies. `start` holds the first 12 bytes, zeros where the file is shorter. */
static bool find_header(const unsigned char *start, uint64_t file_size, const char *path,
                        size_t *offset, size_t *size) {
    if (file_size < 10 || memcmp(start, magic, 6) != 0)
        return refuse("%s: not a .npy file: it should begin with \\x93NUMPY", path);
    if (start[6] < 1 || start[6] > 3)
        return refuse("%s is of .npy version %d.%d; versions 1 to 3 can be read", path, start[6],
                      start[7]);
    *offset = start[6] == 1 ? 10 : 12;
    *size = (size_t)start[8] | (size_t)start[9] << 8;
    if (start[6] > 1) *size |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
    if (*size > HEADER_MAX)
        return refuse("%s: not a valid .npy file: its header claims %zu bytes", path, *size);
    if (*offset + *size > file_size)
        return refuse("%s: truncated: it ends within its header", path);
    return true;
}

static void refuse_size(const Header *h, uint64_t held) {
    char shape[400] = "[";
    size_t used = 1;
    for (uint32_t i = 0; i < h->array.rank && used + 24 < sizeof shape; i++)
        used += (size_t)snprintf(shape + used, sizeof shape - used, "%s%lld", i ? ", " : "",
                                 (long long)h->array.shape[i]);
    refuse("%s: %s: its header says %s%s], its data are %llu bytes", h->path,
           h->array.bytes < held ? "damaged" : "truncated", ls_type_name(h->array.type), shape,
           (unsigned long long)held);
}

ls_status file_read_npy(ls_file *file) {
    unsigned char start[12] = {0};
    char text[HEADER_MAX];
    size_t offset = 0, size = 0,
           first = file->size < sizeof start ? (size_t)file->size : sizeof start;
    uint64_t count = 0;
    ls_status status = file_read_at(file, start, first, 0);
    if (status != LS_OK) return status;
    if (!find_header(start, file->size, file->path, &offset, &size)) return LS_ERROR_FILE;
    status = file_read_at(file, text, size, offset);
    if (status != LS_OK) return status;
    Header h = {.path = file->path, .at = text, .end = text + size};
    if (!read_header(&h)) return LS_ERROR_FILE;
    uint64_t held = file->size - offset - size;
    h.array.offset = offset + size;
    if (!file_shape_bytes(h.array.type, h.array.rank, h.array.shape, &count, &h.array.bytes) ||
        h.array.bytes != held) {
        refuse_size(&h, held);
        return LS_ERROR_FILE;
    }
    h.array.name = text_copy("", 0);
    h.array.type_name = text_copy(h.type_name, strlen(h.type_name));
    file->arrays = calloc(1, sizeof *file->arrays);
    if (file->arrays) {
        file->arrays[0] = h.array;
        file->count = 1;
        if (h.array.name && h.array.type_name) return LS_OK;
        return error_memory(NULL, "ls_file_open"); /* the file has them */
    }
    free((void *)(uintptr_t)h.array.name);
    free((void *)(uintptr_t)h.array.type_name);
    return error_memory(NULL, "ls_file_open");
}
