/* npy.c: NumPy's .npy files: what lockstep/files.h reads into an array, and writing, in format
 * version 1. */
#include "files.h"

#include <string.h>

bool npy_read(const char *path, Array *array, Failure *failure) {
    ls_file *file;
    *array = (Array){0};
    if (ls_file_open(path, LS_FILE_NPY, &file) != LS_OK) return fail_read(failure);
    const ls_file_array *found = ls_file_at(file, 0);
    *array = (Array){.type = found->type, .rank = found->rank, .bytes = (size_t)found->bytes};
    memcpy(array->shape, found->shape, sizeof array->shape);
    array->data = memory(array->bytes);
    bool read = ls_file_read(file, 0, array->data) == LS_OK;
    if (!read) array_free(array);
    ls_file_close(file);
    return read || fail_read(failure);
}

bool npy_write(const char *path, const Array *array, Failure *failure) {
    const char *type = type_names[array->type].npy;
    if (!type[0])
        return fail(failure, STATUS_INPUT,
                    "cannot write %s: .npy has no type for %s; use .safetensors", path,
                    type_names[array->type].name);
    Buffer header = {0};
    buffer_add(&header, "\x93NUMPY", 6);
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
