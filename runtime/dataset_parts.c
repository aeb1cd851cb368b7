/* dataset_parts.c: an array of a data set that lies in many files: those that a pattern names, in
 * the order of their names, and the members of archives, one behind the other. Each is mapped, an
 * archive as a whole, and no descriptor is kept; what is read of the whole is read of the parts
 * that have it. Steps cannot read such an array where it lies, so it is loaded, or comes batch by
 * batch. */
#include "runtime.h"
#include "file.h"

#include <fnmatch.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char call[] = "ls_dataset_create";

static bool is_archive(const char *file) {
    const char *end = strrchr(file, '.');
    return end && strcmp(end, ".tar") == 0;
}

/* Of a pattern, as in a shell, a file of that very name is that file. */
bool dataset_has_parts(const char *path) {
    const char *name;
    char *file = dataset_path(path, &name);
    const bool many =
        file && (is_archive(file) || (strpbrk(file, "*?[") && access(file, F_OK) != 0));
    free(file);
    return many;
}

static ls_status refuse(ls_dataset *dataset, const char *path, const char *problem) {
    return error_set(&dataset->context->error, LS_ERROR_FILE, "%s: %s: %s", call, path, problem);
}

/* ---- parts ---- */

/* One more part, which the array owns; NULL: no memory. */
static DataArray *new_part(DataArray *array) {
    if (!array_grow(&array->parts, &array->part_capacity, array->part_count + 1,
                    sizeof *array->parts))
        return NULL;
    DataArray *part = &array->parts[array->part_count++];
    *part = (DataArray){0};
    return part;
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

/* The last part, whose tensor this is, becomes part of the whole, which `first` tells. */
static ls_status join(ls_dataset *dataset, DataArray *array, const char *path,
                      const ls_tensor *tensor, ls_tensor *first) {
    DataArray *part = &array->parts[array->part_count - 1];
    if (tensor->rank < 1 || tensor->rank > LS_RANK_MAX)
        return refuse(dataset, path, "it has no axis that counts samples, or too many others");
    ls_status status = array->part_count > 1 ? check(dataset, path, first, tensor) : LS_OK;
    if (status != LS_OK) return status;
    part->type = tensor->type;
    part->host = tensor->data;
    part->bytes = ls_type_size(tensor->type);
    for (uint32_t i = 0; i < tensor->rank; i++) part->bytes *= (size_t)tensor->shape[i];
    if (array->part_count == 1) {
        *first = *tensor;
        memcpy(array->shape, tensor->shape, tensor->rank * sizeof *array->shape);
        first->shape = array->shape;
    } else {
        if (!first->data) first->data = tensor->data; /* files before it are empty */
        part->begin = part[-1].begin + part[-1].bytes;
        array->shape[0] += tensor->shape[0];
    }
    return LS_OK;
}

static ls_status add_file(ls_dataset *dataset, DataArray *array, const char *path, const char *name,
                          ls_tensor *first) {
    ls_tensor tensor;
    DataArray *part = new_part(array);
    if (!part) return error_memory(&dataset->context->error, call);
    ls_status status = dataset_map(dataset, part, path, name, &tensor);
    return status == LS_OK ? join(dataset, array, path, &tensor, first) : status;
}

/* ---- archives ---- */

/* What a path says about an archive's members. */
typedef struct Members {
    const char *name; /* NULL: all .npy files */
    bool samples;     /* each is one, as WebDataset has them; else its first axis counts them */
    const char *map;
    ls_file *archive;
} Members;

/* Of a sample's member "some/KEY.x.npy" behind the key: "x.npy". */
static const char *extension(const char *name) {
    const char *slash = strrchr(name, '/'), *dot = strchr(slash ? slash : name, '.');
    return dot ? dot + 1 : name + strlen(name);
}

static bool is_wanted(const Members *members, const char *name) {
    const size_t size = strlen(name);
    if (!members->name) return size > 4 && strcmp(name + size - 4, ".npy") == 0;
    return members->samples ? strcmp(extension(name), members->name) == 0
                            : fnmatch(members->name, name, FNM_PATHNAME) == 0;
}

/* FNV-1a of the names of samples, in their order. */
static uint64_t add_key(uint64_t keys, const char *name) {
    uint64_t hash = keys ? keys : 0xcbf29ce484222325u;
    for (const char *end = extension(name); name < end; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    return hash;
}

static ls_status add_member(ls_dataset *dataset, DataArray *array, const Members *members,
                            const TarMember *member, ls_tensor *first) {
    char path[2048];
    ls_tensor tensor;
    ls_file view = {.path = path,
                    .descriptor = members->archive->descriptor,
                    .begin = member->offset,
                    .size = member->size};
    DataArray *part = new_part(array);
    if (!part) return error_memory(&dataset->context->error, call);
    snprintf(path, sizeof path, "%.900s:%.1000s", members->archive->path, member->name);
    ls_status status = file_read_npy(&view);
    if (status != LS_OK)
        status =
            error_set(&dataset->context->error, status, "%s: %s", call, ls_error_message(NULL));
    else
        status = dataset_take(dataset, part, &view, NULL, members->map + member->offset,
                              members->samples, &tensor);
    file_free_arrays(&view);
    if (status != LS_OK) return status;
    if (members->samples) array->keys = add_key(array->keys, member->name);
    return join(dataset, array, path, &tensor, first);
}

static ls_status add_members(ls_dataset *dataset, DataArray *array, Members *members,
                             ls_tensor *first) {
    const ls_file *archive = members->archive;
    const size_t before = array->part_count;
    TarMember member;
    ls_status status = LS_OK, read = LS_OK;
    uint64_t at = 0;
    while (status == LS_OK && file_next_member(archive, members->map, &at, &member, &read)) {
        if (!is_wanted(members, member.name)) continue;
        if (!member.whole)
            return refuse(dataset, archive->path,
                          "a sample in it is a link or a sparse file, whose bytes are elsewhere; "
                          "pack it with tar --dereference --hard-dereference and without --sparse");
        status = add_member(dataset, array, members, &member, first);
    }
    if (read != LS_OK)
        return error_set(&dataset->context->error, read, "%s: %s", call, ls_error_message(NULL));
    if (status == LS_OK && array->part_count == before)
        return refuse(dataset, archive->path,
                      "no member has such a name; \"x.tar:x.npy\" is of each sample KEY.x.npy, "
                      "\"x.tar/x-*.npy\" what is stored so");
    return status;
}

static ls_status add_archive(ls_dataset *dataset, DataArray *array, const char *path,
                             Members *members, ls_tensor *first) {
    const void *map = NULL;
    const size_t before = array->part_count;
    ls_status status = file_open_any(path, &members->archive);
    if (status == LS_OK && members->archive->size > 0) status = ls_file_map(members->archive, &map);
    if (status != LS_OK)
        status =
            error_set(&dataset->context->error, status, "%s: %s", call, ls_error_message(NULL));
    members->map = map;
    if (status == LS_OK) status = add_members(dataset, array, members, first);
    if (array->part_count == before) { /* nothing refers to it */
        ls_file_close(members->archive);
        return status;
    }
    file_keep_map(members->archive);
    array->parts[before].file = members->archive;
    return status;
}

/* ---- all of them ---- */

static ls_status add_path(ls_dataset *dataset, DataArray *array, const char *file, Members *members,
                          ls_tensor *first) {
    return is_archive(file) ? add_archive(dataset, array, file, members, first)
                            : add_file(dataset, array, file, members->name, first);
}

static ls_status add_all(ls_dataset *dataset, DataArray *array, const char *pattern,
                         Members *members, ls_tensor *first) {
    glob_t found = {0};
    ls_status status = LS_OK;
    const int error = glob(pattern, 0, NULL, &found);
    if (error == GLOB_NOSPACE)
        status = error_memory(&dataset->context->error, call);
    else if (error != 0)
        status = refuse(dataset, pattern, "no file has such a name");
    for (size_t i = 0; error == 0 && status == LS_OK && i < found.gl_pathc; i++)
        status = add_path(dataset, array, found.gl_pathv[i], members, first);
    globfree(&found);
    return status;
}

ls_status dataset_map_parts(ls_dataset *dataset, DataArray *array, const char *path,
                            ls_tensor *tensor) {
    Members members = {0};
    char *file = dataset_path(path, &members.name);
    if (!file) return error_memory(&dataset->context->error, call);
    members.samples = !members.name || members.name[-1] == ':';
    const bool many = strpbrk(file, "*?[") && access(file, F_OK) != 0;
    ls_status status = (many ? add_all : add_path)(dataset, array, file, &members, tensor);
    free(file);
    return status;
}

/* The first part that ends behind a byte. */
static size_t part_at(const DataArray *array, size_t at) {
    size_t low = 0, high = array->part_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const DataArray *part = &array->parts[middle];
        if (part->begin + part->bytes > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

void dataset_each_part(const DataArray *array, size_t from, size_t to, DataPartUse *use,
                       void *argument) {
    for (size_t i = part_at(array, from); i < array->part_count; i++) {
        const DataArray *part = &array->parts[i];
        const size_t begin = part->begin, end = begin + part->bytes;
        if (begin >= to) break;
        const size_t low = from > begin ? from : begin, high = to < end ? to : end;
        if (low < high) use(part, low - begin, high - low, argument);
    }
}
