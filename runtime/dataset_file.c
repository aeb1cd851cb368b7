/* dataset_file.c: arrays of a data set that lie in files, mapped and never read as a whole.
 *
 * What the system is told about the map are hints: how it is read, what is read next, and what is
 * not read again, so that a file larger than the memory passes through it. */
#include "runtime.h"
#include "file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool ends_in(const char *path, const char *end) {
    const size_t size = strlen(path), length = strlen(end);
    return size >= length && strcmp(path + size - length, end) == 0;
}

char *dataset_path(const char *path, const char **name) {
    static const char *const ends[] = {".safetensors:", ".jsonl:", ".tar:", ".tar/"};
    *name = NULL;
    for (size_t i = 0; i < COUNT(ends); i++) {
        const char *found = strstr(path, ends[i]);
        if (!found) continue;
        *name = found + strlen(ends[i]);
        char *file = text_copy(path, (size_t)(*name - 1 - path));
        struct stat about;
        const bool folder = file && ends[i][strlen(ends[i]) - 1] == '/' &&
                            stat(file, &about) == 0 && S_ISDIR(about.st_mode);
        if (!folder) return file;
        free(file);
        *name = NULL;
    }
    return text_copy(path, strlen(path));
}

static const ls_file_array *choose(const ls_file *file, const char *name) {
    if (!name) return ls_file_count(file) == 1 ? ls_file_at(file, 0) : NULL;
    for (size_t i = 0; i < ls_file_count(file); i++)
        if (strcmp(ls_file_at(file, i)->name, name) == 0) return ls_file_at(file, i);
    return NULL;
}

ls_status dataset_take(ls_dataset *dataset, DataArray *array, const ls_file *file, const char *name,
                       const char *map, bool sample, ls_tensor *tensor) {
    static const char call[] = "ls_dataset_create";
    Error *error = &dataset->context->error;
    const char *path = file->path;
    const ls_file_array *found = choose(file, name);
    if (!found && name)
        return error_set(error, LS_ERROR_FILE, "%s: %s has no tensor '%s'", call, path, name);
    if (!found)
        return error_set(error, LS_ERROR_FILE, "%s: %s has %zu tensors; say which, as in %s:NAME",
                         call, path, ls_file_count(file), path);
    if (found->type == LS_TYPE_COUNT)
        return error_set(error, LS_ERROR_FILE,
                         "%s: %s is of type %.40s, which Lockstep does not know", call, path,
                         found->type_name);
    if (found->fortran && found->rank > 1)
        return error_set(error, LS_ERROR_FILE,
                         "%s: %s has its first axis fastest (Fortran order), so its samples are "
                         "scattered; write it once more in C order (numpy.ascontiguousarray)",
                         call, path);
    if (found->rank + sample > LS_RANK_MAX)
        return error_set(error, LS_ERROR_FILE, "%s: %s has too many axes for a sample", call, path);
    union { /* the tensor is only read */
        const char *mapped;
        void *data;
    } where = {.mapped = map + found->offset};
    array->mapped = true;
    array->swapped = found->swapped;
    array->shape[0] = 1;
    memcpy(array->shape + sample, found->shape, found->rank * sizeof *found->shape);
    *tensor = (ls_tensor){.data = where.data,
                          .type = found->type,
                          .rank = found->rank + sample,
                          .shape = array->shape};
    return LS_OK;
}

/* The tokens of a file of lines of JSON. */
static ls_status read_lines(DataArray *array, const char *path, const char *name,
                            ls_tensor *tensor) {
    int32_t *tokens;
    size_t count;
    ls_status status = file_read_tokens(path, name ? name : "tokens", &tokens, &count);
    if (status != LS_OK) return status;
    array->decoded = tokens;
    array->shape[0] = (int64_t)count;
    *tensor = (ls_tensor){.data = tokens, .type = LS_I32, .rank = 1, .shape = array->shape};
    return LS_OK;
}

ls_status dataset_map(ls_dataset *dataset, DataArray *array, const char *path, const char *name,
                      ls_tensor *tensor) {
    static const char call[] = "ls_dataset_create";
    Error *error = &dataset->context->error;
    const void *map;
    const bool lines = ends_in(path, ".jsonl");
    ls_status status = lines ? read_lines(array, path, name, tensor)
                             : ls_file_open(path, LS_FILE_BY_NAME, &array->file);
    if (status == LS_OK && !lines) status = ls_file_map(array->file, &map);
    if (status == LS_ERROR_MEMORY) return error_memory(error, call);
    if (status != LS_OK) return error_set(error, status, "%s: %s", call, ls_error_message(NULL));
    if (lines) return LS_OK;
    file_keep_map(array->file);
    return dataset_take(dataset, array, array->file, name, map, false, tensor);
}

/* ---- hints ---- */

static void advise(const DataArray *array, size_t from, size_t to, int advice);

static void advise_part(const DataArray *part, size_t at, size_t bytes, void *argument) {
    advise(part, at, at + bytes, *(const int *)argument);
}

static void advise(const DataArray *array, size_t from, size_t to, int advice) {
    if (array->parts) dataset_each_part(array, from, to, advise_part, &advice);
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (!array->mapped || to <= from) return;
    uintptr_t first = (uintptr_t)array->host + from, end = (uintptr_t)array->host + to;
    first = first / page * page;
    madvise((void *)first, end - first, advice);
}

/* Of whole maps: of a member's range it would make three maps of one, of which a process may have
 * some ten thousands. */
void dataset_read_along(const DataArray *array, bool along) {
    for (size_t i = 0; i < array->part_count; i++) dataset_read_along(&array->parts[i], along);
    if (array->file && array->file->map)
        madvise(array->file->map, (size_t)array->file->size, along ? MADV_SEQUENTIAL : MADV_RANDOM);
}

void dataset_announce(const DataArray *array, int64_t row) {
    size_t at = (size_t)row * array->row_bytes;
    advise(array, at, at + array->row_bytes, MADV_WILLNEED);
}

void dataset_forget(const DataArray *array, size_t from, size_t to) {
    advise(array, from, to, MADV_DONTNEED); /* of a file's map: it can be read again */
}
