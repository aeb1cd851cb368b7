/* safetensors.c: .safetensors files: 8 bytes of header length, a JSON header, the tensors' bytes.
 *
 * What the format demands is checked before anything is believed: offsets inside the file, in
 * agreement with type and shape, without overlaps or holes, names and keys once. A type that
 * Lockstep does not know is an error only when its tensor is asked for. */
#include "files.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEADER_MAX = 100000000 }; /* the format's own limit */

static bool malformed(Failure *failure, const char *path, const char *tensor, const char *what) {
    if (tensor)
        return fail(failure, STATUS_INPUT, "%s: not a valid .safetensors file: tensor '%.200s': %s",
                    path, tensor, what);
    return fail(failure, STATUS_INPUT, "%s: not a valid .safetensors file: %s", path, what);
}

static bool read_shape(JsonReader *json, Tensor *tensor, const char **problem) {
    if (!json_enter(json, '[')) return false;
    for (size_t i = 0; json_more(json, '[', i); i++) {
        uint64_t length;
        if (!json_read_unsigned(json, &length)) return false;
        if (i == LS_RANK_MAX || length > INT64_MAX) {
            *problem = "it has more than 32 axes, or one longer than 2^63";
            return false;
        }
        tensor->shape[i] = (int64_t)length;
        tensor->rank = (uint32_t)i + 1;
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
    tensor->begin = offsets[0];
    tensor->end = offsets[1];
    return true;
}

static bool read_dtype(JsonReader *json, Tensor *tensor, const char **problem) {
    (void)problem;
    if (!json_read_string(json, &tensor->dtype)) return false;
    for (int type = 0; type < LS_TYPE_COUNT; type++)
        if (strcmp(tensor->dtype, type_names[type].safetensors) == 0) tensor->type = (ls_type)type;
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

static bool read_members(JsonReader *json, TensorFile *file, Failure *failure) {
    size_t capacity = 0;
    if (!json_enter(json, '{')) return false;
    for (size_t i = 0; json_more(json, '{', i); i++) {
        char *key;
        if (!json_key(json, &key)) return false;
        if (strcmp(key, "__metadata__") == 0) {
            free(key);
            if (!read_metadata(json)) return false;
            continue;
        }
        if (file->count == capacity) {
            capacity = capacity ? 2 * capacity : 64;
            file->tensors = memory_grow(file->tensors, capacity, sizeof *file->tensors);
        }
        Tensor *tensor = &file->tensors[file->count++];
        *tensor = (Tensor){.name = key, .type = LS_TYPE_COUNT};
        const char *problem = NULL;
        if (!read_tensor(json, tensor, &problem)) {
            if (problem) malformed(failure, file->path, tensor->name, problem);
            return false;
        }
    }
    return json_end(json);
}

static bool read_header(TensorFile *file, const char *text, size_t size, Failure *failure) {
    JsonReader json = json_reader(text, size);
    failure->text[0] = '\0';
    if (size == 0 || text[0] != '{') json.error = "an object";
    if (!json.error && read_members(&json, file, failure)) return true;
    if (failure->text[0]) return false;
    return fail(failure, STATUS_INPUT,
                "%s: not a valid .safetensors file: byte %zu of its header should be %s",
                file->path, (size_t)(json.at - json.start),
                json.error ? json.error : "something else");
}

static int by_data(const void *a, const void *b) {
    const Tensor *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static const char *repeated_name(const TensorFile *file) {
    const char **names = memory(file->count * sizeof *names);
    const char *repeated = NULL;
    for (size_t i = 0; i < file->count; i++) names[i] = file->tensors[i].name;
    if (file->count) qsort(names, file->count, sizeof *names, by_name);
    for (size_t i = 1; i < file->count && !repeated; i++)
        if (strcmp(names[i - 1], names[i]) == 0) repeated = names[i];
    free(names);
    return repeated;
}

/* Sorts the tensors by their data and checks that these tile exactly the `size` bytes from `base`,
 * which become offsets into the file. */
static bool check_layout(TensorFile *file, uint64_t base, uint64_t size, Failure *failure) {
    uint64_t at = 0;
    const char *repeated = repeated_name(file);
    if (repeated) return malformed(failure, file->path, repeated, "it is there twice");
    if (file->count) qsort(file->tensors, file->count, sizeof *file->tensors, by_data);
    for (size_t i = 0; i < file->count; i++) {
        Tensor *tensor = &file->tensors[i];
        size_t count, bytes;
        if (tensor->end < tensor->begin)
            return malformed(failure, file->path, tensor->name, "its data end before they begin");
        if (tensor->end > size)
            return fail(
                failure, STATUS_INPUT,
                "%s: truncated: tensor '%.200s' ends at byte %llu of the data, the file has %llu",
                file->path, tensor->name, (unsigned long long)tensor->end,
                (unsigned long long)size);
        if (tensor->begin != at)
            return malformed(failure, file->path, tensor->name,
                             tensor->begin < at ? "its data overlap another tensor's"
                                                : "there is a gap before its data");
        if (tensor->type != LS_TYPE_COUNT &&
            (!shape_bytes(tensor->type, tensor->rank, tensor->shape, &count, &bytes) ||
             bytes != tensor->end - tensor->begin))
            return malformed(failure, file->path, tensor->name,
                             "its data do not have the size that its type and shape give");
        at = tensor->end;
        tensor->begin += base;
        tensor->end += base;
    }
    if (at != size)
        return malformed(failure, file->path, NULL, "bytes after the last tensor belong to none");
    return true;
}

bool safetensors_open(const char *path, TensorFile *file, Failure *failure) {
    unsigned char prefix[8];
    uint64_t size, length = 0;
    *file = (TensorFile){.descriptor = -1};
    int descriptor;
    if (!file_open(path, &descriptor, &size, failure)) return false;
    file->path = copy_text(path, strlen(path));
    file->descriptor = descriptor;
    char *text = NULL;
    bool good = false;
    if (size < sizeof prefix) {
        malformed(failure, path, NULL, "it is shorter than 8 bytes");
        goto done;
    }
    if (!file_read_at(descriptor, path, prefix, sizeof prefix, 0, failure)) goto done;
    for (int i = 7; i >= 0; i--) length = length << 8 | prefix[i];
    if (length > HEADER_MAX) {
        malformed(failure, path, NULL, "its header claims more than 100 MB");
        goto done;
    }
    if (length > size - sizeof prefix) {
        fail(failure, STATUS_INPUT, "%s: truncated: it ends within its header", path);
        goto done;
    }
    text = memory((size_t)length);
    good = file_read_at(descriptor, path, text, (size_t)length, sizeof prefix, failure) &&
           read_header(file, text, (size_t)length, failure) &&
           check_layout(file, sizeof prefix + length, size - sizeof prefix - length, failure);
done:
    free(text);
    if (!good) safetensors_close(file);
    return good;
}

bool safetensors_read(const TensorFile *file, size_t index, Array *array, Failure *failure) {
    const Tensor *tensor = &file->tensors[index];
    *array = (Array){0};
    if (tensor->type == LS_TYPE_COUNT)
        return fail(failure, STATUS_INPUT,
                    "%s: tensor '%.200s' is of type %.40s, which Lockstep does not know",
                    file->path, tensor->name, tensor->dtype);
    array->type = tensor->type;
    array->rank = tensor->rank;
    memcpy(array->shape, tensor->shape, sizeof array->shape);
    array->bytes = (size_t)(tensor->end - tensor->begin);
    array->data = memory(array->bytes);
    array->name = copy_text(tensor->name, strlen(tensor->name));
    if (!file_read_at(file->descriptor, file->path, array->data, array->bytes, tensor->begin,
                      failure)) {
        array_free(array);
        return false;
    }
    if (array->type == LS_BOOL) { /* anything but 0 is true */
        unsigned char *flags = array->data;
        for (size_t i = 0; i < array->bytes; i++) flags[i] = flags[i] != 0;
    }
    return true;
}

void safetensors_close(TensorFile *file) {
    for (size_t i = 0; i < file->count; i++) {
        free(file->tensors[i].name);
        free(file->tensors[i].dtype);
    }
    free(file->tensors);
    free(file->path);
    if (file->descriptor >= 0) close(file->descriptor);
    *file = (TensorFile){.descriptor = -1};
}

bool safetensors_write(const char *path, const Array *const *arrays, size_t count,
                       Failure *failure) {
    Buffer header = {0};
    uint64_t offset = 0;
    buffer_add(&header, "\0\0\0\0\0\0\0\0{", 9);
    for (size_t i = 0; i < count; i++) {
        const Array *array = arrays[i];
        if (i) buffer_puts(&header, ",");
        json_quote(&header, array->name);
        buffer_printf(&header, ":{\"dtype\":\"%s\",\"shape\":[",
                      type_names[array->type].safetensors);
        for (uint32_t k = 0; k < array->rank; k++)
            buffer_printf(&header, "%s%lld", k ? "," : "", (long long)array->shape[k]);
        buffer_printf(&header, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)offset,
                      (unsigned long long)(offset + array->bytes));
        offset += array->bytes;
    }
    buffer_puts(&header, "}");
    while (header.size % 8) buffer_puts(&header, " "); /* data on 8-byte boundaries */
    for (unsigned i = 0; i < 8; i++) header.data[i] = (char)((header.size - 8) >> (8 * i) & 0xff);
    OutputFile file;
    bool done = file_create(path, &file, failure);
    if (done) {
        done = file_write(&file, header.data, header.size, failure);
        for (size_t i = 0; i < count && done; i++)
            done = file_write(&file, arrays[i]->data, arrays[i]->bytes, failure);
        done = file_finish(&file, done, failure);
    }
    buffer_free(&header);
    return done;
}
