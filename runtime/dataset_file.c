/* dataset_file.c: arrays of a data set that lie in files, mapped and never read as a whole.
 *
 * What the system is told about the map are hints: how it is read, what is read next, and what is
 * not read again, so that a file larger than the memory passes through it. */
#include "runtime.h"
#include "file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* "x.safetensors:NAME": the path's own part, and the name behind it or NULL. */
static char *split_path(const char *path, const char **name) {
    static const char end[] = ".safetensors:";
    const char *colon = strstr(path, end);
    size_t size = strlen(path);
    *name = NULL;
    if (colon) {
        size = (size_t)(colon - path) + sizeof end - 2;
        *name = path + size + 1;
    }
    return text_copy(path, size);
}

static const ls_file_array *choose(const ls_file *file, const char *name) {
    if (!name) return ls_file_count(file) == 1 ? ls_file_at(file, 0) : NULL;
    for (size_t i = 0; i < ls_file_count(file); i++)
        if (strcmp(ls_file_at(file, i)->name, name) == 0) return ls_file_at(file, i);
    return NULL;
}

static ls_status take(Error *error, const char *path, const char *name, DataArray *array,
                      ls_tensor *tensor) {
    static const char call[] = "ls_dataset_create";
    const ls_file_array *found = choose(array->file, name);
    if (!found && name)
        return error_set(error, LS_ERROR_FILE, "%s: %.*s has no tensor '%s'", call,
                         (int)(strlen(path) - strlen(name) - 1), path, name);
    if (!found)
        return error_set(error, LS_ERROR_FILE, "%s: %s has %zu tensors; say which, as in %s:NAME",
                         call, path, ls_file_count(array->file), path);
    if (found->type == LS_TYPE_COUNT)
        return error_set(error, LS_ERROR_FILE,
                         "%s: %s is of type %.40s, which Lockstep does not know", call, path,
                         found->type_name);
    if (found->fortran && found->rank > 1)
        return error_set(error, LS_ERROR_FILE,
                         "%s: %s has its first axis fastest (Fortran order), so its samples are "
                         "scattered; write it once more in C order (numpy.ascontiguousarray)",
                         call, path);
    const void *map;
    if (ls_file_map(array->file, &map) != LS_OK)
        return error_set(error, LS_ERROR_FILE, "%s: %s", call, ls_error_message(NULL));
    union { /* the tensor is only read */
        const char *mapped;
        void *data;
    } where = {.mapped = (const char *)map + found->offset};
    array->swapped = found->swapped && ls_type_size(found->type) > 1;
    *tensor = (ls_tensor){
        .data = where.data, .type = found->type, .rank = found->rank, .shape = found->shape};
    return LS_OK;
}

ls_status dataset_map(ls_dataset *dataset, DataArray *array, const char *path, ls_tensor *tensor) {
    static const char call[] = "ls_dataset_create";
    Error *error = &dataset->context->error;
    const char *name;
    char *file = split_path(path, &name);
    if (!file) return error_memory(error, call);
    ls_status status = ls_file_open(file, LS_FILE_BY_NAME, &array->file);
    free(file);
    if (status == LS_ERROR_MEMORY) return error_memory(error, call);
    if (status != LS_OK) return error_set(error, status, "%s: %s", call, ls_error_message(NULL));
    return take(error, path, name, array, tensor);
}

/* ---- hints ---- */

static void advise(const DataArray *array, size_t from, size_t to, int advice);

static void advise_part(const DataArray *part, size_t at, size_t bytes, void *argument) {
    advise(part, at, at + bytes, *(const int *)argument);
}

static void advise(const DataArray *array, size_t from, size_t to, int advice) {
    if (array->parts) dataset_each_part(array, from, to, advise_part, &advice);
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (!array->file || to <= from) return;
    uintptr_t first = (uintptr_t)array->host + from, end = (uintptr_t)array->host + to;
    first = first / page * page;
    madvise((void *)first, end - first, advice);
}

void dataset_read_along(const DataArray *array, bool along) {
    advise(array, 0, array->bytes, along ? MADV_SEQUENTIAL : MADV_RANDOM);
}

void dataset_announce(const DataArray *array, int64_t row) {
    size_t at = (size_t)row * array->row_bytes;
    advise(array, at, at + array->row_bytes, MADV_WILLNEED);
}

void dataset_forget(const DataArray *array, size_t from, size_t to) {
    advise(array, from, to, MADV_DONTNEED); /* of a file's map: it can be read again */
}
