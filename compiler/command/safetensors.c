/* safetensors.c: .safetensors files: what lockstep/files.h reads into arrays, and writing: 8 bytes
 * of header length, a JSON header, the tensors' bytes. */
#include "files.h"

#include <stdlib.h>
#include <string.h>

bool safetensors_open(const char *path, TensorFile *file, Failure *failure) {
    *file = (TensorFile){0};
    if (ls_file_open(path, LS_FILE_SAFETENSORS, &file->file) != LS_OK) return fail_read(failure);
    file->path = copy_text(path, strlen(path));
    file->count = ls_file_count(file->file);
    return true;
}

bool safetensors_read(const TensorFile *file, size_t index, Array *array, Failure *failure) {
    const ls_file_array *tensor = ls_file_at(file->file, index);
    *array = (Array){.type = tensor->type, .rank = tensor->rank, .bytes = (size_t)tensor->bytes};
    memcpy(array->shape, tensor->shape, sizeof array->shape);
    array->data = memory(array->bytes);
    array->name = copy_text(tensor->name, strlen(tensor->name));
    if (ls_file_read(file->file, index, array->data) == LS_OK) return true;
    array_free(array);
    return fail_read(failure);
}

void safetensors_close(TensorFile *file) {
    ls_file_close(file->file);
    free(file->path);
    *file = (TensorFile){0};
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
