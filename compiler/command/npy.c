/* npy.c: NumPy's .npy files, format versions 1 to 3.
 *
 * The header is a Python dictionary in a fixed form; only that form is read. Big-endian data are
 * swapped and Fortran order is transposed into C order; anything that is not a plain number type is
 * refused. The file must be exactly as long as its header says. */
#include "files.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEADER_MAX = 1 << 16 };
static const char magic[] = "\x93NUMPY";

typedef struct Header {
    const char *path, *at, *end;
    Failure *failure;
    ls_type type;
    bool swapped, fortran;
    uint32_t rank;
    int64_t shape[LS_RANK_MAX];
} Header;

static bool malformed(Header *h, const char *expected) {
    return fail(h->failure, STATUS_INPUT, "%s: not a valid .npy file: its header should have %s",
                h->path, expected);
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

/* A quoted string without escapes, into a small buffer. */
static bool quoted(Header *h, char *text, size_t capacity) {
    spaces(h);
    if (h->at == h->end || (*h->at != '\'' && *h->at != '"')) return false;
    char quote = *h->at++;
    const char *begin = h->at;
    while (h->at < h->end && *h->at != quote && *h->at != '\\') h->at++;
    size_t size = (size_t)(h->at - begin);
    if (h->at == h->end || *h->at != quote || size >= capacity) return false;
    memcpy(text, begin, size);
    text[size] = '\0';
    h->at++;
    return true;
}

static bool read_type(Header *h) {
    char text[32];
    if (take(h, "["))
        return fail(h->failure, STATUS_INPUT,
                    "%s holds records (a structured type); Lockstep reads plain numbers", h->path);
    if (!quoted(h, text, sizeof text)) return malformed(h, "a type such as '<f4' after 'descr'");
    char order = text[0];
    h->swapped = order == '>';
    for (int type = 0; type < LS_TYPE_COUNT; type++) {
        const char *npy = type_names[type].npy;
        /* the byte order says nothing about single bytes, '=' is this machine's */
        if (npy[0] && strchr("<>=|", order) && strcmp(text + 1, npy + 1) == 0 &&
            (order != '|' || type_names[type].size == 1)) {
            h->type = (ls_type)type;
            return true;
        }
    }
    fail(h->failure, STATUS_INPUT, "%s holds elements of type '%s', which Lockstep does not know",
         h->path, text);
    fail_help(h->failure, "f2 f4 f8, i1 i2 i4 i8, u1 u2 u4 u8 and b1 can be read; bf16 and the "
                          "8-bit floats have no .npy type: keep them in .safetensors files");
    return false;
}

static bool read_shape(Header *h) {
    if (!take(h, "(")) return malformed(h, "a shape in parentheses");
    while (!take(h, ")")) {
        if (h->rank == LS_RANK_MAX)
            return fail(h->failure, STATUS_INPUT, "%s has more than %d axes", h->path, LS_RANK_MAX);
        spaces(h);
        const char *begin = h->at;
        int64_t length = 0;
        for (; h->at < h->end && *h->at >= '0' && *h->at <= '9'; h->at++) {
            int digit = *h->at - '0';
            if (length > (INT64_MAX - digit) / 10)
                return fail(h->failure, STATUS_INPUT, "%s claims an axis longer than 2^63",
                            h->path);
            length = length * 10 + digit;
        }
        if (h->at == begin) return malformed(h, "whole numbers in its shape");
        take(h, "L"); /* Python 2 wrote long integers so */
        h->shape[h->rank++] = length;
        bool comma = take(h, ",");
        if (comma) continue;
        if (h->rank == 1 || !take(h, ")")) return malformed(h, "a tuple as its shape");
        break;
    }
    return true;
}

static bool read_order(Header *h) {
    h->fortran = take(h, "True");
    return h->fortran || take(h, "False") || malformed(h, "True or False after 'fortran_order'");
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

static void swap_bytes(Array *array, size_t count) {
    size_t size = type_names[array->type].size;
    unsigned char *at = array->data;
    for (size_t i = 0; i < count; i++, at += size)
        for (size_t j = 0; j < size / 2; j++) {
            unsigned char byte = at[j];
            at[j] = at[size - 1 - j];
            at[size - 1 - j] = byte;
        }
}

/* The array lies first axis fastest; rewrites it last axis fastest. */
static void transpose(Array *array, size_t count) {
    size_t size = type_names[array->type].size;
    char *out = memory(array->bytes);
    int64_t index[LS_RANK_MAX] = {0};
    for (size_t i = 0; i < count; i++) {
        size_t from = 0;
        for (uint32_t axis = array->rank; axis-- > 0;)
            from = from * (size_t)array->shape[axis] + (size_t)index[axis];
        memcpy(out + i * size, (const char *)array->data + from * size, size);
        for (uint32_t axis = array->rank; axis-- > 0 && ++index[axis] == array->shape[axis];)
            index[axis] = 0;
    }
    free(array->data);
    array->data = out;
}

/* Where the header lies. `start` holds the first 12 bytes, zeros where the file is shorter. */
static bool find_header(const unsigned char *start, uint64_t file_size, const char *path,
                        size_t *offset, size_t *size, Failure *failure) {
    if (file_size < 10 || memcmp(start, magic, 6) != 0)
        return fail(failure, STATUS_INPUT, "%s: not a .npy file: it should begin with \\x93NUMPY",
                    path);
    if (start[6] < 1 || start[6] > 3)
        return fail(failure, STATUS_INPUT,
                    "%s is of .npy version %d.%d; versions 1 to 3 can be read", path, start[6],
                    start[7]);
    *offset = start[6] == 1 ? 10 : 12;
    *size = (size_t)start[8] | (size_t)start[9] << 8;
    if (start[6] > 1) *size |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
    if (*size > HEADER_MAX)
        return fail(failure, STATUS_INPUT, "%s: not a valid .npy file: its header claims %zu bytes",
                    path, *size);
    if (*offset + *size > file_size)
        return fail(failure, STATUS_INPUT, "%s: truncated: it ends within its header", path);
    return true;
}

static bool read_body(int descriptor, uint64_t file_size, const char *path, Array *array,
                      Failure *failure) {
    unsigned char start[12] = {0};
    char text[HEADER_MAX];
    size_t offset = 0, size = 0, count = 0;
    size_t first = file_size < sizeof start ? (size_t)file_size : sizeof start;
    if (!file_read_at(descriptor, path, start, first, 0, failure) ||
        !find_header(start, file_size, path, &offset, &size, failure) ||
        !file_read_at(descriptor, path, text, size, offset, failure))
        return false;
    Header h = {.path = path, .at = text, .end = text + size, .failure = failure};
    if (!read_header(&h)) return false;
    array->type = h.type;
    array->rank = h.rank;
    memcpy(array->shape, h.shape, sizeof h.shape);
    uint64_t held = file_size - offset - size;
    if (!shape_bytes(h.type, h.rank, h.shape, &count, &array->bytes) || array->bytes != held) {
        char shape[400];
        shape_describe(h.rank, h.shape, shape, sizeof shape);
        return fail(failure, STATUS_INPUT, "%s: %s: its header says %s%s, its data are %llu bytes",
                    path, array->bytes < held ? "damaged" : "truncated", type_names[h.type].name,
                    shape, (unsigned long long)held);
    }
    array->data = memory(array->bytes);
    if (!file_read_at(descriptor, path, array->data, array->bytes, offset + size, failure))
        return false;
    if (h.swapped) swap_bytes(array, count);
    if (h.fortran && h.rank > 1) transpose(array, count);
    if (h.type == LS_BOOL) { /* anything but 0 is true */
        unsigned char *flags = array->data;
        for (size_t i = 0; i < count; i++) flags[i] = flags[i] != 0;
    }
    return true;
}

bool npy_read(const char *path, Array *array, Failure *failure) {
    int descriptor;
    uint64_t size;
    *array = (Array){0};
    if (!file_open(path, &descriptor, &size, failure)) return false;
    bool read = read_body(descriptor, size, path, array, failure);
    close(descriptor);
    if (!read) array_free(array);
    return read;
}

bool npy_write(const char *path, const Array *array, Failure *failure) {
    const char *type = type_names[array->type].npy;
    if (!type[0])
        return fail(failure, STATUS_INPUT,
                    "cannot write %s: .npy has no type for %s; use .safetensors", path,
                    type_names[array->type].name);
    Buffer header = {0};
    buffer_add(&header, magic, 6);
    buffer_add(&header, "\x01\0\0\0", 4);
    buffer_printf(&header, "{'descr': '%s', 'fortran_order': False, 'shape': (", type);
    for (uint32_t i = 0; i < array->rank; i++)
        buffer_printf(&header, "%lld,%s", (long long)array->shape[i],
                      i + 1 < array->rank ? " " : "");
    if (array->rank > 1) header.size--; /* a tuple of one keeps its comma */
    buffer_puts(&header, "), }");
    while ((header.size + 1) % 64) buffer_puts(&header, " ");
    buffer_puts(&header, "\n");
    size_t size = header.size - 10;
    header.data[8] = (char)(size & 0xff);
    header.data[9] = (char)(size >> 8);
    OutputFile file;
    bool done = false;
    if (file_create(path, &file, failure)) {
        done = file_write(&file, header.data, header.size, failure) &&
               file_write(&file, array->data, array->bytes, failure);
        done = file_finish(&file, done, failure);
    }
    buffer_free(&header);
    return done;
}
