/* dataset_parts.c: an array of a data set that lies in many files: those that a pattern names, in
 * the order of their names, one behind the other. Each is mapped as if it were alone; what is read
 * of the whole is read of the parts that have it. Steps cannot read such an array where it lies, so
 * it is loaded, or comes batch by batch. */
#include "runtime.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The pattern without the ":NAME" of a tensor, which each file found gets back. */
static char *pattern_of(const char *path, const char **name) {
    static const char end[] = ".safetensors:";
    const char *colon = strstr(path, end);
    *name = colon ? colon + sizeof end - 2 : "";
    return text_copy(path, strlen(path) - strlen(*name));
}

/* As in a shell, a file of that very name is that file. */
bool dataset_is_pattern(const char *path) {
    const char *name;
    if (!strpbrk(path, "*?[")) return false;
    char *file = pattern_of(path, &name);
    const bool there = file && access(file, F_OK) == 0;
    free(file);
    return !there;
}

static ls_status refuse(ls_dataset *dataset, const char *path, const char *problem) {
    return error_set(&dataset->context->error, LS_ERROR_FILE, "ls_dataset_create: %s: %s", path,
                     problem);
}

/* Every part but the first is of its type, and its samples have its shape. */
static ls_status check(ls_dataset *dataset, const char *path, const ls_tensor *first,
                       const ls_tensor *other) {
    bool alike = other->type == first->type && other->rank == first->rank;
    for (uint32_t i = 1; alike && i < first->rank; i++) alike = other->shape[i] == first->shape[i];
    return alike ? LS_OK
                 : refuse(dataset, path,
                          "its type, or the shape of its samples, is not that of the first file "
                          "that the pattern names");
}

static ls_status add_part(ls_dataset *dataset, DataArray *array, const char *file, const char *name,
                          ls_tensor *first) {
    DataArray *part = &array->parts[array->part_count++];
    ls_tensor tensor;
    char *path = malloc(strlen(file) + strlen(name) + 1);
    if (!path) return error_memory(&dataset->context->error, "ls_dataset_create");
    strcat(strcpy(path, file), name);
    ls_status status = dataset_map(dataset, part, path, &tensor);
    if (status == LS_OK && (tensor.rank < 1 || tensor.rank > LS_RANK_MAX))
        status = refuse(dataset, path, "it has no axis that counts samples, or too many others");
    if (status == LS_OK && array->part_count > 1) status = check(dataset, path, first, &tensor);
    free(path);
    if (status != LS_OK) return status;
    part->type = tensor.type;
    part->host = tensor.data;
    part->bytes = ls_type_size(tensor.type);
    for (uint32_t i = 0; i < tensor.rank; i++) part->bytes *= (size_t)tensor.shape[i];
    if (array->part_count == 1) {
        *first = tensor;
        memcpy(array->shape, tensor.shape, tensor.rank * sizeof *array->shape);
        first->shape = array->shape;
    } else {
        array->shape[0] += tensor.shape[0];
    }
    return LS_OK;
}

ls_status dataset_map_parts(ls_dataset *dataset, DataArray *array, const char *path,
                            ls_tensor *tensor) {
    const char *name;
    glob_t found = {0};
    char *pattern = pattern_of(path, &name);
    ls_status status = LS_OK;
    if (!pattern) return error_memory(&dataset->context->error, "ls_dataset_create");
    const int error = glob(pattern, 0, NULL, &found);
    free(pattern);
    if (error == 0) array->parts = calloc(found.gl_pathc, sizeof *array->parts);
    if (error == GLOB_NOSPACE || (error == 0 && !array->parts))
        status = error_memory(&dataset->context->error, "ls_dataset_create");
    else if (error != 0)
        status = refuse(dataset, path, "no file has such a name");
    for (size_t i = 0; array->parts && status == LS_OK && i < found.gl_pathc; i++)
        status = add_part(dataset, array, found.gl_pathv[i], name, tensor);
    globfree(&found);
    return status;
}

void dataset_each_part(const DataArray *array, size_t from, size_t to, DataPartUse *use,
                       void *argument) {
    size_t begin = 0;
    for (size_t i = 0; i < array->part_count && begin < to; i++) {
        const DataArray *part = &array->parts[i];
        const size_t end = begin + part->bytes;
        const size_t low = from > begin ? from : begin, high = to < end ? to : end;
        if (low < high) use(part, low - begin, high - low, argument);
        begin = end;
    }
}
