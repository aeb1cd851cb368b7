/* file_safetensors.c: the header of .safetensors files: 8 bytes of its length, JSON, then the
 * tensors' bytes.
 *
 * What the format demands is checked before anything is believed: offsets inside the file, in
 * agreement with type and shape, without overlaps or holes, names and keys once. A type that
 * Lockstep does not know is an error only when its tensor is asked for. */
#include "runtime.h"
#include "file.h"
#include "json_read.h"

#include <stdlib.h>
#include <string.h>

enum { HEADER_MAX = 100000000 }; /* the format's own limit */

/* While the header is read the end of the data stands in array.bytes. */
typedef struct Tensor {
    char *name, *type_name;
    ls_file_array array;
} Tensor;
typedef struct Header {
    const char *path;
    Tensor *tensors;
    size_t count, capacity;
    const char *problem; /* of the last tensor */
    bool no_memory;
} Header;

static ls_status malformed(const char *path, const char *tensor, const char *what) {
    if (tensor)
        return error_set(NULL, LS_ERROR_FILE,
                         "%s: not a valid .safetensors file: tensor '%.200s': %s", path, tensor,
                         what);
    return error_set(NULL, LS_ERROR_FILE, "%s: not a valid .safetensors file: %s", path, what);
}

/* ---- the JSON ---- */

static bool read_shape(JsonReader *json, Tensor *tensor, const char **problem) {
    if (!json_enter(json, '[')) return false;
    for (size_t i = 0; json_more(json, '[', i); i++) {
        uint64_t length;
        if (!json_read_unsigned(json, &length)) return false;
        if (i == LS_RANK_MAX || length > INT64_MAX) {
            *problem = "it has more than 32 axes, or one longer than 2^63";
            return false;
        }
        tensor->array.shape[i] = (int64_t)length;
        tensor->array.rank = (uint32_t)i + 1;
    }
    return !json->error;
}

static bool read_offsets(JsonReader *json, Tensor *tensor, const char **problem) {
    uint64_t offsets[2];
    size_t count = 0;
    if (!json_enter(json, '[')) return false;
    for (; json_more(json, '[', count); count++)
        if (count == 2 || !json_read_unsigned(json, &offsets[count])) {
            if (!json->error) *problem = "data_offsets should be two numbers";
            return false;
        }
    if (json->error) return false;
    if (count != 2) {
        *problem = "data_offsets should be two numbers";
        return false;
    }
    tensor->array.offset = offsets[0];
    tensor->array.bytes = offsets[1];
    return true;
}

static bool read_dtype(JsonReader *json, Tensor *tensor, const char **problem) {
    (void)problem;
    if (!json_read_string(json, &tensor->type_name)) return false;
    for (int type = 0; type < LS_TYPE_COUNT; type++)
        if (strcmp(tensor->type_name, file_types[type].safetensors) == 0)
            tensor->array.type = (ls_type)type;
    return true;
}

static bool read_tensor(JsonReader *json, Tensor *tensor, const char **problem) {
    static const struct {
        const char *key;
        bool (*read)(JsonReader *, Tensor *, const char **);
    } members[] = {{"dtype", read_dtype}, {"shape", read_shape}, {"data_offsets", read_offsets}};
    unsigned seen = 0;
    if (!json_enter(json, '{')) return false;
    for (size_t i = 0; json_more(json, '{', i); i++) {
        char *key;
        size_t k = 0;
        if (!json_key(json, &key)) return false;
        while (k < COUNT(members) && strcmp(members[k].key, key) != 0) k++;
        free(key);
        if (k == COUNT(members) || seen & 1u << k) {
            *problem = "it should have dtype, shape and data_offsets, each once, and nothing else";
            return false;
        }
        seen |= 1u << k;
        if (!members[k].read(json, tensor, problem)) return false;
    }
    if (json->error) return false;
    if (seen != 7) *problem = "it should have dtype, shape and data_offsets";
    return seen == 7;
}

/* "__metadata__" is an object of strings; Lockstep has no use for it but checks its form. */
static bool read_metadata(JsonReader *json) {
    if (!json_enter(json, '{')) return false;
    for (size_t i = 0; json_more(json, '{', i); i++) {
        char *key, *value;
        if (!json_key(json, &key)) return false;
        free(key);
        if (!json_read_string(json, &value)) return false;
        free(value);
    }
    return !json->error;
}

/* Takes the name. */
static Tensor *add_tensor(Header *header, char *name) {
    header->no_memory = !array_grow(&header->tensors, &header->capacity, header->count + 1,
                                    sizeof *header->tensors);
    if (header->no_memory) {
        free(name);
        return NULL;
    }
    Tensor *tensor = &header->tensors[header->count++];
    *tensor = (Tensor){.name = name, .array.type = LS_TYPE_COUNT};
    return tensor;
}

static bool read_members(JsonReader *json, Header *header) {
    if (!json_enter(json, '{')) return false;
    for (size_t i = 0; json_more(json, '{', i); i++) {
        char *key;
        if (!json_key(json, &key)) return false;
        if (strcmp(key, "__metadata__") == 0) {
            free(key);
            if (!read_metadata(json)) return false;
            continue;
        }
        Tensor *tensor = add_tensor(header, key);
        if (!tensor || !read_tensor(json, tensor, &header->problem)) return false;
    }
    return json_end(json);
}

static ls_status read_header(Header *header, const char *text, size_t size) {
    JsonReader json = json_reader(text, size);
    if (size == 0 || text[0] != '{') json.error = "an object";
    if (!json.error && read_members(&json, header)) return LS_OK;
    if (header->no_memory || json.no_memory) return error_memory(NULL, "ls_file_open");
    if (header->problem)
        return malformed(header->path, header->tensors[header->count - 1].name, header->problem);
    return error_set(NULL, LS_ERROR_FILE,
                     "%s: not a valid .safetensors file: byte %zu of its header should be %s",
                     header->path, (size_t)(json.at - json.start),
                     json.error ? json.error : "something else");
}

/* ---- where the data lie ---- */

static int by_data(const void *a, const void *b) {
    const Tensor *x = a, *y = b;
    if (x->array.offset != y->array.offset) return x->array.offset < y->array.offset ? -1 : 1;
    if (x->array.bytes != y->array.bytes) return x->array.bytes < y->array.bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b) {
    const Tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* Sorts the tensors by their data and checks that these tile exactly the `size` bytes from `base`,
 * which become offsets into the file. */
static ls_status check_layout(Header *header, uint64_t base, uint64_t size) {
    Tensor *tensors = header->tensors;
    uint64_t at = 0;
    if (header->count) qsort(tensors, header->count, sizeof *tensors, by_name);
    for (size_t i = 1; i < header->count; i++)
        if (strcmp(tensors[i - 1].name, tensors[i].name) == 0)
            return malformed(header->path, tensors[i].name, "it is there twice");
    if (header->count) qsort(tensors, header->count, sizeof *tensors, by_data);
    for (size_t i = 0; i < header->count; i++) {
        ls_file_array *array = &tensors[i].array;
        const char *name = tensors[i].name;
        uint64_t count, bytes, end = array->bytes;
        if (end < array->offset)
            return malformed(header->path, name, "its data end before they begin");
        if (end > size)
            return error_set(
                NULL, LS_ERROR_FILE,
                "%s: truncated: tensor '%.200s' ends at byte %llu of the data, the file has %llu",
                header->path, name, (unsigned long long)end, (unsigned long long)size);
        if (array->offset != at)
            return malformed(header->path, name,
                             array->offset < at ? "its data overlap another tensor's"
                                                : "there is a gap before its data");
        array->bytes = end - array->offset;
        if (array->type != LS_TYPE_COUNT &&
            (!file_shape_bytes(array->type, array->rank, array->shape, &count, &bytes) ||
             bytes != array->bytes))
            return malformed(header->path, name,
                             "its data do not have the size that its type and shape give");
        at = end;
        array->offset += base;
    }
    if (at != size)
        return malformed(header->path, NULL, "bytes after the last tensor belong to none");
    return LS_OK;
}

/* ---- the file ---- */

static ls_status keep(ls_file *file, Header *header) {
    if (header->count == 0) return LS_OK;
    file->arrays = calloc(header->count, sizeof *file->arrays);
    if (!file->arrays) return error_memory(NULL, "ls_file_open");
    for (; file->count < header->count; file->count++) {
        Tensor *tensor = &header->tensors[file->count];
        file->arrays[file->count] = tensor->array;
        file->arrays[file->count].name = tensor->name;
        file->arrays[file->count].type_name = tensor->type_name;
        tensor->name = tensor->type_name = NULL;
    }
    return LS_OK;
}

ls_status file_read_safetensors(ls_file *file) {
    unsigned char prefix[8];
    uint64_t length = 0;
    if (file->size < sizeof prefix)
        return malformed(file->path, NULL, "it is shorter than 8 bytes");
    ls_status status = file_read_at(file, prefix, sizeof prefix, 0);
    if (status != LS_OK) return status;
    for (int i = 7; i >= 0; i--) length = length << 8 | prefix[i];
    if (length > HEADER_MAX)
        return malformed(file->path, NULL, "its header claims more than 100 MB");
    if (length > file->size - sizeof prefix)
        return error_set(NULL, LS_ERROR_FILE, "%s: truncated: it ends within its header",
                         file->path);
    char *text = malloc(length ? (size_t)length : 1);
    if (!text) return error_memory(NULL, "ls_file_open");
    Header header = {.path = file->path};
    uint64_t base = sizeof prefix + length;
    status = file_read_at(file, text, (size_t)length, sizeof prefix);
    if (status == LS_OK) status = read_header(&header, text, (size_t)length);
    if (status == LS_OK) status = check_layout(&header, base, file->size - base);
    if (status == LS_OK) status = keep(file, &header);
    for (size_t i = 0; i < header.count; i++) {
        free(header.tensors[i].name);
        free(header.tensors[i].type_name);
    }
    free(header.tensors);
    free(text);
    return status;
}
