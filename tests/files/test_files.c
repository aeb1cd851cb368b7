/* test_files.c: tests of the command's readers and writers of files, .npy and .safetensors.
 * Malformed files come from tables, from cutting good files at every byte and from changing bytes
 * at random; what a reader accepts must be consistent, what it refuses must have a reason. */
#include "files.h"
#include "test_files.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int failures;
/* In memory where there is room for it: on a disk, most of the time goes into fsync. */
static char in_memory[] = "/dev/shm/lockstep-files-XXXXXX",
            on_disk[] = "/tmp/lockstep-files-XXXXXX";
static char *folder;

static const char *in_folder(const char *name) {
    static char paths[4][200];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void write_bytes(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

/* ---- .npy ---- */

static size_t npy_bytes(char *out, const char *header, size_t data) {
    size_t size = strlen(header);
    memcpy(out, "\x93NUMPY\x01\0", 8);
    out[8] = (char)(size & 0xff);
    out[9] = (char)(size >> 8);
    memcpy(out + 10, header, size);
    for (size_t i = 0; i < data; i++) out[10 + size + i] = (char)i;
    return 10 + size + data;
}

#define LARGE_4 "10000000000,10000000000,10000000000,10000000000,"

static const struct {
    const char *header;
    size_t data;
    const char *message; /* a part of it; NULL: it is good */
} npy_cases[] = {
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", 24, NULL},
    {"{\"shape\": (6,), \"descr\": \"<f4\", \"fortran_order\": True}", 24, NULL},
    {"{'descr': '|u1', 'fortran_order': False, 'shape': (), }", 1, NULL},
    {"{'descr': '<u1', 'fortran_order': False, 'shape': (1L, 1L), }", 1, NULL},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (0, 9223372036854775807), }", 0, NULL},
    {"", 0, "a dictionary"},
    {"{", 0, "a key and a colon"},
    {"{}", 0, "'descr', 'fortran_order' and 'shape'"},
    {"{'descr': '<f4', 'fortran_order': False}", 0, "'descr', 'fortran_order' and 'shape'"},
    {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}", 4, "each once"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (), 'more': 1}", 4, "each once"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': ()} x", 4, "nothing after"},
    {"{'descr': '<f4', 'fortran_order': false, 'shape': ()}", 4, "True or False"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': 4}", 16, "a shape in parentheses"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (4)}", 16, "a tuple"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (4 4)}", 64, "a tuple"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (,)}", 4, "whole numbers"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", 4, "whole numbers"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3", 24, "whole numbers|a tuple"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", 24, "damaged"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (7,)}", 24, "truncated"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807,)}", 24, "damaged"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", 0, "truncated"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (0," LARGE_4 LARGE_4 LARGE_4 LARGE_4 LARGE_4
         LARGE_4 LARGE_4 "12345678,7)}",
     4, "10000000000, 12345678], its data"}, /* as many axes as there is room for in a message */
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", 0, "2^63"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
     "1,1,1,1,1,1,1,1,1,1,1,1,1)}",
     4, "more than 32 axes"},
    {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", 4, "records"},
    {"{'descr': '<c8', 'fortran_order': False, 'shape': ()}", 8, "does not know"},
    {"{'descr': '|O', 'fortran_order': False, 'shape': ()}", 8, "does not know"},
    {"{'descr': '|f4', 'fortran_order': False, 'shape': ()}", 4, "does not know"},
    {"{'descr': '<U8', 'fortran_order': False, 'shape': ()}", 32, "does not know"},
    {"{'descr': '', 'fortran_order': False, 'shape': ()}", 4, "does not know"},
    {"{'descr': '<f4\\'', 'fortran_order': False, 'shape': ()}", 4, "a type"},
    {"{'descr': 4, 'fortran_order': False, 'shape': ()}", 4, "a type"},
};

/* `wanted` may name alternatives with |. */
static bool has_part(const char *text, const char *wanted) {
    char part[200];
    for (const char *at = wanted; *at; at += strspn(at, "|")) {
        size_t size = strcspn(at, "|");
        snprintf(part, sizeof part, "%.*s", (int)size, at);
        if (strstr(text, part)) return true;
        at += size;
    }
    return false;
}

static void test_npy_headers(void) {
    const char *path = in_folder("case.npy");
    char bytes[1000];
    for (size_t i = 0; i < COUNT(npy_cases); i++) {
        Array array;
        Failure why = {0};
        write_bytes(path, bytes, npy_bytes(bytes, npy_cases[i].header, npy_cases[i].data));
        bool read = npy_read(path, &array, &why);
        CHECK(read == !npy_cases[i].message, "%s: %s", npy_cases[i].header, why.text);
        if (read) {
            CHECK(array.bytes == npy_cases[i].data, "%s", npy_cases[i].header);
            array_free(&array);
        } else {
            CHECK(why.status == STATUS_INPUT && has_part(why.text, npy_cases[i].message), "%s: %s",
                  npy_cases[i].header, why.text);
        }
    }
}

/* Version 2 has four bytes for the length of the header, here of 300. */
static void test_npy_version_2(void) {
    static const char header[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }";
    const char *path = in_folder("long.npy");
    char bytes[12 + 300 + 3];
    Array array;
    Failure why = {0};
    memset(bytes, ' ', sizeof bytes);
    memcpy(bytes, "\x93NUMPY\x02\0\x2c\x01\0\0", 12);
    memcpy(bytes + 12, header, strlen(header));
    write_bytes(path, bytes, sizeof bytes);
    const bool read = npy_read(path, &array, &why);
    CHECK(read && array.bytes == 3, "%s", why.text);
    if (read) array_free(&array);
}

/* A zero (@ here) ends no string of the header. */
static void test_npy_zeros(void) {
    static const char *const headers[] = {
        "{'descr': '@f4', 'fortran_order': False, 'shape': ()}",
        "{'descr': '<f4@', 'fortran_order': False, 'shape': ()}",
        "{'descr': '<f4@ anything', 'fortran_order': False, 'shape': ()}",
        "{'descr@': '<f4', 'fortran_order': False, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': ()}@"};
    const char *path = in_folder("zero.npy");
    char bytes[400];
    for (size_t i = 0; i < COUNT(headers); i++) {
        Array array;
        Failure why = {0};
        size_t size = npy_bytes(bytes, headers[i], 4);
        for (size_t at = 10; at < size; at++)
            if (bytes[at] == '@') bytes[at] = 0;
        write_bytes(path, bytes, size);
        bool read = npy_read(path, &array, &why);
        CHECK(!read && has_part(why.text, "not a valid .npy file"), "%s: %s", headers[i], why.text);
        if (read) array_free(&array);
    }
}

static void test_npy_orders(void) {
    const char *path = in_folder("order.npy");
    char bytes[400];
    Array array;
    Failure why;
    size_t size =
        npy_bytes(bytes, "{'descr': '>u2', 'fortran_order': True, 'shape': (2, 3), }", 12);
    write_bytes(path, bytes, size);
    if (!npy_read(path, &array, &why)) {
        CHECK(false, "%s", why.text);
        return;
    }
    /* the file holds 0x0001 0x0203 ... column by column, big-endian */
    static const uint16_t expected[] = {0x0001, 0x0405, 0x0809, 0x0203, 0x0607, 0x0a0b};
    CHECK(memcmp(array.data, expected, sizeof expected) == 0, "order of elements");
    array_free(&array);
}

static Array sample(ls_type type, uint32_t rank, const int64_t *shape) {
    Array array = {.type = type, .rank = rank};
    size_t count = 0;
    for (uint32_t i = 0; i < rank; i++) array.shape[i] = shape[i];
    shape_bytes(type, rank, shape, &count, &array.bytes);
    array.data = memory(array.bytes);
    for (size_t i = 0; i < array.bytes; i++)
        ((unsigned char *)array.data)[i] = (unsigned char)(type == LS_BOOL ? i & 1 : i * 7 + 3);
    return array;
}

static bool same(const Array *a, const Array *b) {
    return a->type == b->type && a->rank == b->rank && a->bytes == b->bytes &&
           memcmp(a->shape, b->shape, a->rank * sizeof a->shape[0]) == 0 &&
           memcmp(a->data, b->data, a->bytes) == 0;
}

static void test_npy_round_trip(void) {
    const char *path = in_folder("trip.npy");
    static const int64_t shape[] = {3, 1, 5};
    for (int type = 0; type < LS_TYPE_COUNT; type++)
        for (uint32_t rank = 0; rank <= 3; rank++) {
            Array array = sample((ls_type)type, rank, shape), back;
            Failure why = {0};
            bool written = npy_write(path, &array, &why);
            CHECK(written == (type_names[type].npy[0] != '\0'), "%s: %s", type_names[type].name,
                  why.text);
            if (written) {
                bool read = npy_read(path, &back, &why);
                CHECK(read && same(&array, &back), "%s: %s", type_names[type].name, why.text);
                if (read) array_free(&back);
            }
            array_free(&array);
        }
}

/* ---- .safetensors ---- */

static size_t safetensors_bytes(char *out, const char *header, size_t data) {
    size_t size = strlen(header);
    memset(out, 0, 8);
    for (int i = 0; i < 8; i++) out[i] = (char)(size >> (8 * i) & 0xff);
    memcpy(out + 8, header, size);
    memset(out + 8 + size, 1, data);
    return 8 + size + data;
}

#define TENSOR(name, dtype, shape, offsets) \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static const struct {
    const char *header;
    size_t data;
    const char *message;
} safetensors_cases[] = {
    {"{}", 0, NULL},
    {"{}       ", 0, NULL},
    {"{" TENSOR("a", "F32", "[2]", "[0,8]") "}", 8, NULL},
    {"{" TENSOR("b", "BF16", "[2,2]", "[4,12]") "," TENSOR("a", "F32", "[]", "[0,4]") "}", 12,
     NULL},
    {"{\"__metadata__\":{\"format\":\"pt\"}," TENSOR("a", "F32", "[0]", "[0,0]") "}", 0, NULL},
    {"{" TENSOR("a", "F4_NEW", "[3]", "[0,5]") "}", 5, NULL},
    {"{" TENSOR("\\u00e9\\ud83d\\ude00", "I64", "[1]", "[0,8]") "}", 8, NULL},
    {"", 0, "an object"},
    {" {}", 0, "an object"},
    {"[]", 0, "an object"},
    {"{}x", 0, "the end"},
    {"{\"a\"", 0, "a colon"},
    {"{\"a\":3}", 0, "an object"},
    {"{" TENSOR("a", "F32", "[2]", "[0,8]") ",}", 8, "a string"},
    {"{" TENSOR("a", "F32", "[2]", "[0,8]") " " TENSOR("b", "F32", "[2]", "[0,8]") "}", 8,
     "a comma"},
    {"{\"__metadata__\":{\"format\":1}}", 0, "a string"},
    {"{\"__metadata__\":[]}", 0, "an object"},
    {"{" TENSOR("a", "F32", "[2]", "[0,8]") "}", 7, "truncated"},
    {"{" TENSOR("a", "F32", "[2]", "[0,8]") "}", 9, "belong to none"},
    {"{" TENSOR("a", "F32", "[2]", "[0,4]") "}", 4, "do not have the size"},
    {"{" TENSOR("a", "F32", "[2]", "[8,0]") "}", 8, "end before they begin"},
    {"{" TENSOR("a", "F32", "[2]", "[4,12]") "}", 12, "gap"},
    {"{" TENSOR("a", "F32", "[2]", "[0,8]") "," TENSOR("b", "F32", "[2]", "[4,12]") "}", 12,
     "overlap"},
    {"{" TENSOR("a", "F32", "[2]", "[0,8]") "," TENSOR("b", "F32", "[2]", "[0,8]") "}", 8,
     "overlap"},
    {"{" TENSOR("a", "F32", "[2]", "[0,8]") "," TENSOR("a", "F32", "[2]", "[8,16]") "}", 16,
     "twice"},
    {"{" TENSOR("a", "F32", "[2.0]", "[0,8]") "}", 8, "a whole number"},
    {"{" TENSOR("a", "F32", "[-2]", "[0,8]") "}", 8, "not negative"},
    {"{" TENSOR("a", "F32", "[02]", "[0,8]") "}", 8, "leading zeros"},
    {"{" TENSOR("a", "F32", "[1e1]", "[0,40]") "}", 40, "a whole number"},
    {"{" TENSOR("a", "F32", "\"2\"", "[0,8]") "}", 8, "an array"},
    {"{" TENSOR("a", "F32", "[2]", "[0]") "}", 8, "two numbers"},
    {"{" TENSOR("a", "F32", "[2]", "[0,8,8]") "}", 8, "two numbers"},
    {"{" TENSOR("a", "F32", "[18446744073709551616]", "[0,8]") "}", 8, "2^64"},
    {"{" TENSOR("a", "F32", "[9223372036854775808]", "[0,8]") "}", 8, "2^63"},
    {"{" TENSOR("a", "F32", "[4294967296,4294967296]", "[0,0]") "}", 0, "do not have the size"},
    {"{" TENSOR("a", "F32", "[4611686018427387905]", "[0,4]") "}", 4, "do not have the size"},
    {"{" TENSOR("a", "F32", "[2]", "[0,18446744073709551615]") "}", 8, "truncated"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "dtype, shape and data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
     "each once"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"x\":0,\"data_offsets\":[0,8]}}", 8, "nothing else"},
    {"{\"a\":{\"dtype\":1,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "a string"},
    {"{" TENSOR("\\ud83d", "F32", "[2]", "[0,8]") "}", 8, "a surrogate pair"},
    {"{" TENSOR("\\u0000", "F32", "[2]", "[0,8]") "}", 8, "zero character"},
    {"{" TENSOR("\\x", "F32", "[2]", "[0,8]") "}", 8, "a known escape"},
    {"{" TENSOR("\xff", "F32", "[2]", "[0,8]") "}", 8, "UTF-8"},
    {"{" TENSOR("\n", "F32", "[2]", "[0,8]") "}", 8, "control characters"},
};

static void test_safetensors_headers(void) {
    const char *path = in_folder("case.safetensors");
    char bytes[1000];
    for (size_t i = 0; i < COUNT(safetensors_cases); i++) {
        TensorFile file;
        Failure why = {0};
        const char *header = safetensors_cases[i].header, *message = safetensors_cases[i].message;
        write_bytes(path, bytes, safetensors_bytes(bytes, header, safetensors_cases[i].data));
        bool opened = safetensors_open(path, &file, &why);
        CHECK(opened == !message, "%s: %s", header, why.text);
        if (opened) safetensors_close(&file);
        if (!opened && message)
            CHECK(why.status == STATUS_INPUT && has_part(why.text, message), "%s: %s", header,
                  why.text);
    }
    TensorFile named;
    Failure none = {0};
    const char *escapes = "{" TENSOR("\\u00e9\\u20ac\\ud83d\\ude00", "I64", "[1]", "[0,8]") "}";
    write_bytes(path, bytes, safetensors_bytes(bytes, escapes, 8));
    const bool opened = safetensors_open(path, &named, &none);
    CHECK(opened, "%s", none.text);
    if (opened) {
        const char *name = ls_file_at(named.file, 0)->name;
        CHECK(strcmp(name, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80") == 0, "%s", name);
        safetensors_close(&named);
    }
    static const unsigned char huge[16] = {0xff, 0xff, 0xff, 0xff, 0xff,
                                           0xff, 0xff, 0xff, '{',  '}'};
    TensorFile file;
    Failure why = {0};
    write_bytes(path, huge, sizeof huge);
    CHECK(!safetensors_open(path, &file, &why) && strstr(why.text, "100 MB"), "%s", why.text);
}

static void test_safetensors_round_trip(void) {
    const char *path = in_folder("trip.safetensors");
    static const int64_t shape[] = {3, 1, 5};
    Array arrays[LS_TYPE_COUNT];
    const Array *list[LS_TYPE_COUNT];
    Failure why = {0};
    for (int type = 0; type < LS_TYPE_COUNT; type++) {
        char name[40];
        snprintf(name, sizeof name, "a \"quoted\" \\ name\n%d", type);
        arrays[type] = sample((ls_type)type, (uint32_t)type % 4, shape);
        arrays[type].name = copy_text(name, strlen(name));
        list[type] = &arrays[type];
    }
    CHECK(safetensors_write(path, list, LS_TYPE_COUNT, &why), "%s", why.text);
    TensorFile file;
    bool opened = safetensors_open(path, &file, &why);
    CHECK(opened && file.count == LS_TYPE_COUNT, "%s", why.text);
    for (size_t i = 0; opened && i < file.count; i++) {
        Array back;
        bool read = safetensors_read(&file, i, &back, &why);
        CHECK(read && same(&arrays[i], &back) && strcmp(back.name, arrays[i].name) == 0, "%s",
              why.text);
        if (read) array_free(&back);
    }
    if (opened) safetensors_close(&file);
    for (int type = 0; type < LS_TYPE_COUNT; type++) array_free(&arrays[type]);
}

/* ---- cut and changed files ---- */

/* Reads the file by either reader, entirely; true when it was accepted. */
static bool read_any(const char *path, bool npy, Failure *why) {
    Array array;
    TensorFile file;
    why->text[0] = '\0';
    if (npy) {
        if (!npy_read(path, &array, why)) return false;
        size_t count = 0, bytes = 0;
        CHECK(shape_bytes(array.type, array.rank, array.shape, &count, &bytes) &&
                  bytes == array.bytes,
              "an accepted array's size");
        array_free(&array);
        return true;
    }
    if (!safetensors_open(path, &file, why)) return false;
    for (size_t i = 0; i < file.count; i++)
        if (safetensors_read(&file, i, &array, why)) array_free(&array);
    safetensors_close(&file);
    return true;
}

static void test_damage(const char *path, bool npy) {
    char *good, *bad;
    size_t size;
    Failure why = {0};
    const char *changed = in_folder("changed");
    if (!file_read(path, &good, &size, &why) || !read_any(path, npy, &why)) {
        CHECK(false, "%s", why.text);
        return;
    }
    for (size_t cut = 0; cut < size; cut++) {
        write_bytes(changed, good, cut);
        CHECK(!read_any(changed, npy, &why) && why.text[0], "%s cut at byte %zu", path, cut);
        if (npy) /* there is no length of a header before */
            CHECK(has_part(why.text, cut < 10 ? "should begin with" : "truncated"), "%s", why.text);
    }
    uint64_t random = 7;
    static const char salt[] = "\0\"'{}[](),:\\09-e.\xff\x80 ";
    for (int round = 0; round < 4000; round++) {
        bad = copy_text(good, size);
        size_t length = size;
        for (uint64_t edits = 1 + random_next(&random) % 4; edits; edits--) {
            uint64_t at = random_next(&random) % length;
            switch (random_next(&random) % 4) {
            case 0: bad[at] = (char)random_next(&random); break;
            case 1: bad[at] = salt[random_next(&random) % (sizeof salt - 1)]; break;
            case 2: bad[at] = bad[random_next(&random) % length]; break;
            default: memmove(bad + at, bad + at + 1, --length - at); break;
            }
        }
        write_bytes(changed, bad, length);
        if (!read_any(changed, npy, &why)) CHECK(why.text[0], "refused without a reason");
        free(bad);
    }
    free(good);
}

static void test_special_files(void) {
    static const bool kinds[] = {false, true};
    Failure why;
    for (size_t i = 0; i < COUNT(kinds); i++) {
        CHECK(!read_any(folder, kinds[i], &why) && strstr(why.text, "a folder"), "%s", why.text);
        CHECK(!read_any("/dev/null", kinds[i], &why) && strstr(why.text, "device"), "%s", why.text);
        CHECK(!read_any(in_folder("none"), kinds[i], &why) && strstr(why.text, "No such"), "%s",
              why.text);
        const char *pipe = in_folder("pipe");
        CHECK(i > 0 || mkfifo(pipe, 0600) == 0, "mkfifo");
        CHECK(!read_any(pipe, kinds[i], &why) && strstr(why.text, "pipe"), "%s", why.text);
    }
}

/* ---- writing ---- */

static void test_replace(void) {
    const char *path = in_folder("old"), *link = in_folder("link");
    struct stat about;
    Failure why = {0};
    write_bytes(path, "old", 3);
    chmod(path, 0640);
    CHECK(symlink(path, link) == 0, "symlink");
    OutputFile file;
    CHECK(file_create(link, &file, &why) && file_write(&file, "half", 4, &why), "%s", why.text);
    char *data;
    size_t size;
    CHECK(file_read(path, &data, &size, &why) && strcmp(data, "old") == 0, "the old file stands");
    free(data);
    file_abandon(&file);
    CHECK(file_write_whole(link, "newer", 5, &why), "%s", why.text);
    CHECK(file_read(path, &data, &size, &why) && strcmp(data, "newer") == 0,
          "replaced through the link");
    free(data);
    CHECK(lstat(link, &about) == 0 && S_ISLNK(about.st_mode), "the link is still one");
    CHECK(stat(path, &about) == 0 && (about.st_mode & 0777) == 0640, "the permissions are kept");
    CHECK(!file_write_whole(in_folder("no/such"), "x", 1, &why) && strstr(why.text, "No such"),
          "%s", why.text);
    CHECK(file_write_whole("/dev/null", "x", 1, &why), "%s", why.text);
    CHECK(!file_write_whole("/dev/full", "x", 1, &why) && strstr(why.text, "No space"), "%s",
          why.text);
    char command[200];
    snprintf(command, sizeof command, "ls -A %s | grep -q '^\\.'", folder);
    CHECK(system(command) != 0, "no temporary file is left");
}

int main(void) {
    folder = mkdtemp(in_memory);
    if (!folder) folder = mkdtemp(on_disk);
    if (!folder) {
        perror(on_disk);
        return 1;
    }
    test_npy_headers();
    test_npy_version_2();
    test_npy_zeros();
    test_npy_orders();
    test_npy_round_trip();
    test_safetensors_headers();
    test_safetensors_round_trip();
    test_damage(in_folder("trip.npy"), true);
    test_damage(in_folder("trip.safetensors"), false);
    test_special_files();
    test_replace();
    test_texts();
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", folder);
    if (system(command) != 0) failures++;
    printf("%d failures\n", failures);
    return failures != 0;
}
