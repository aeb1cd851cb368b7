/* file_tar.c: the members of a tar archive: POSIX's ustar with the long names and large sizes of
 * GNU tar and pax. Nothing is unpacked: a member is a range of the archive's bytes. */
#include "runtime.h"
#include "file.h"

#include <stdio.h>
#include <string.h>

enum { BLOCK = 512 };
typedef struct TarHeader {
    char name[100], before_size[24], size[12], time[12], sum[8], kind, link[100], magic[8],
        before_prefix[80], prefix[155], rest[12];
} TarHeader;
_Static_assert(sizeof(TarHeader) == BLOCK, "a tar header is a block");

static bool damaged(const ls_file *file, uint64_t at, ls_status *status) {
    *status = error_set(NULL, LS_ERROR_FILE, "cannot read %s: no tar archive's header at byte %llu",
                        file->path, (unsigned long long)at);
    return false;
}

/* What was cut at a member's end would lack samples, and nobody would know. */
static bool truncated(const ls_file *file, ls_status *status) {
    *status =
        error_set(NULL, LS_ERROR_FILE,
                  "cannot read %s: truncated: a tar archive ends in blocks of zeros", file->path);
    return false;
}

/* Octal digits, or with the first bit set a big-endian number. */
static uint64_t number(const char *text, size_t size) {
    const unsigned char *at = (const unsigned char *)text, *end = at + size;
    uint64_t value = 0;
    if (*at & 0x80) {
        for (value = *at++ & 0x3f; at < end; at++) value = value << 8 | *at;
        return value;
    }
    while (at < end && *at == ' ') at++;
    for (; at < end && *at >= '0' && *at <= '7'; at++) value = value << 3 | (uint64_t)(*at - '0');
    return value;
}

static bool is_header(const TarHeader *header) {
    const unsigned char *bytes = (const unsigned char *)header;
    uint64_t sum = 0;
    for (size_t i = 0; i < BLOCK; i++) {
        const bool own = i >= offsetof(TarHeader, sum) && i < offsetof(TarHeader, kind);
        sum += own ? ' ' : bytes[i];
    }
    return sum == number(header->sum, sizeof header->sum);
}

static uint64_t decimal(const char *text, const char *end) {
    uint64_t value = 0;
    for (; text < end && *text >= '0' && *text <= '9'; text++)
        value = value * 10 + (uint64_t)(*text - '0');
    return value;
}

static void keep_name(TarMember *member, const char *text, uint64_t size) {
    const size_t most = sizeof member->name - 1;
    snprintf(member->name, sizeof member->name, "%.*s", (int)(size < most ? size : most), text);
}

/* What a pax header says about the member behind it: lines "27 path=...\n", whose length counts. */
static void read_pax(const char *text, uint64_t size, TarMember *member, uint64_t *bytes) {
    static const char path[] = " path=", length_of[] = " size=";
    enum { WORD = sizeof path - 1 };
    for (const char *end = text + size; text < end;) {
        const uint64_t length = decimal(text, end);
        if (length > (uint64_t)(end - text)) return;
        const char *next = text + length;
        while (text < next && *text != ' ') text++;
        if (next - text <= WORD) return;
        if (memcmp(text, path, WORD) == 0)
            keep_name(member, text + WORD, (uint64_t)(next - text - WORD - 1));
        if (memcmp(text, length_of, WORD) == 0) *bytes = decimal(text + WORD, next);
        text = next;
    }
}

static void read_name(const TarHeader *header, TarMember *member) {
    const bool posix = strncmp(header->magic, "ustar", 6) == 0; /* GNU's has a space behind it */
    const int size = (int)sizeof header->name, before = (int)sizeof header->prefix;
    snprintf(member->name, sizeof member->name, "%.*s%s%.*s", posix ? before : 0, header->prefix,
             posix && header->prefix[0] ? "/" : "", size, header->name);
}

bool file_next_member(const ls_file *file, const char *map, uint64_t *at, TarMember *member,
                      ls_status *status) {
    bool named = false;
    uint64_t large = 0; /* of a pax header */
    *status = LS_OK;
    for (;;) {
        static const char zeros[BLOCK];
        const TarHeader *header = (const TarHeader *)(const void *)(map + *at);
        if (file->size - *at < BLOCK) return truncated(file, status);
        if (memcmp(header, zeros, BLOCK) == 0) return false;
        uint64_t size = number(header->size, sizeof header->size);
        const char kind = header->kind;
        const bool about = kind == 'x' || kind == 'L'; /* the member behind it */
        if (large && !about) size = large;
        if (!is_header(header) || size > file->size - *at - BLOCK)
            return damaged(file, *at, status);
        const char *bytes = map + *at + BLOCK;
        const bool ordinary = kind == '0' || kind == '\0' || kind == '7';
        const bool other = kind == '1' || kind == '2' || kind == 'S'; /* links, sparse files */
        if ((ordinary || other) && !named) read_name(header, member);
        if (kind == 'L') keep_name(member, bytes, size);
        if (kind == 'x') {
            member->name[0] = '\0';
            read_pax(bytes, size, member, &large);
        }
        named = kind == 'L' || (kind == 'x' && member->name[0]) || (named && about);
        member->offset = *at + BLOCK;
        member->size = size;
        const uint64_t padded = (size + BLOCK - 1) / BLOCK * BLOCK;
        *at = padded > file->size - member->offset ? file->size : member->offset + padded;
        member->whole = ordinary;
        if (ordinary || other) return true;
        if (!about) large = 0;
    }
}
