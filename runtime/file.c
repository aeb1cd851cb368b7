/* file.c: .npy and .safetensors files: opening, mapping, reading into memory. */
#include "runtime.h"
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

const FileType file_types[LS_TYPE_COUNT] = {
#define X(id, npy, safetensors) [LS_##id] = {npy, safetensors},
    LS_FILE_TYPE_LIST(X)
#undef X
};

static ls_status failed(const char *what, const char *path) {
    return error_set(NULL, LS_ERROR_FILE, "cannot %s %s: %s", what, path, strerror(errno));
}

bool file_shape_bytes(ls_type type, uint32_t rank, const int64_t *shape, uint64_t *count,
                      uint64_t *bytes) {
    uint64_t total = 1;
    bool empty = false, huge = false;
    for (uint32_t i = 0; i < rank; i++) {
        if (shape[i] < 0) return false;
        empty |= shape[i] == 0;
        if (shape[i] > 0 && (uint64_t)shape[i] > (uint64_t)INT64_MAX / total) huge = true;
        if (shape[i] > 0 && !huge) total *= (uint64_t)shape[i];
    }
    if (huge && !empty) return false;
    if (empty) total = 0;
    if (total > (uint64_t)INT64_MAX / ls_type_size(type)) return false;
    *count = total;
    *bytes = total * ls_type_size(type);
    return true;
}

static ls_status open_regular(ls_file *file) {
    struct stat about;
    /* not to wait for a writer where the name is a FIFO's */
    file->descriptor = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file->descriptor < 0) return failed("open", file->path);
    if (fstat(file->descriptor, &about) != 0) return failed("read", file->path);
    if (!S_ISREG(about.st_mode))
        return error_set(NULL, LS_ERROR_FILE, "cannot read %s: it is %s, not a file", file->path,
                         S_ISDIR(about.st_mode) ? "a folder" : "a device or pipe");
    file->size = (uint64_t)about.st_size;
    return LS_OK;
}

ls_status file_read_at(const ls_file *file, void *data, size_t size, uint64_t offset) {
    for (size_t done = 0; done < size;) {
        ssize_t got = pread(file->descriptor, (char *)data + done, size - done,
                            (off_t)(file->begin + offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return failed("read", file->path);
        if (got == 0)
            return error_set(NULL, LS_ERROR_FILE, "cannot read %s: it became shorter meanwhile",
                             file->path);
        done += (size_t)got;
    }
    return LS_OK;
}

static bool ends_in(const char *path, const char *end) {
    size_t size = strlen(path), length = strlen(end);
    return size >= length && strcmp(path + size - length, end) == 0;
}

/* Whether the name ends in the extension, or goes on behind it with the number of a part, another
 * extension or a member: "x.tfrecord-00001-of-00008", "x.npz.1", "x.jsonl:labels". */
static bool has_extension(const char *name, const char *extension) {
    const size_t length = strlen(extension);
    for (; (name = strstr(name, extension)) != NULL; name += length)
        if (strchr("-.:", name[length])) return true; /* that finds the name's end, too */
    return false;
}

/* Why a file is not read, by the extensions in its name. */
static const char *why_not(const char *path) {
    static const char record[] = "a TFRecord; write what tf.data.TFRecordDataset gives with "
                                 "numpy.save, as numpy.save(\"x.npy\", numpy.stack(list(...)))";
    static const char packed[] = "packed; unpack it: a data set reads the .npy files in a .tar";
    static const struct {
        const char *extension, *why;
    } kinds[] = {
        {".tfrecord", record},
        {".tfrecords", record},
        {".tar.gz", packed},
        {".tgz", packed},
        {".tar.bz2", packed},
        {".tar.xz", packed},
        {".tar.zst", packed},
        {".npz", "packed; unzip it: it holds .npy files"},
        {".tar", "for ls_dataset_create, which reads the .npy files in it"},
        {".jsonl", "for ls_dataset_create, which reads its tokens"},
    };
    const char *slash = strrchr(path, '/');
    for (size_t i = 0; i < COUNT(kinds); i++)
        if (has_extension(slash ? slash : path, kinds[i].extension)) return kinds[i].why;
    return "of no kind that is read: .npy and .safetensors, in a data set .jsonl and .tar, too";
}

ls_status file_open_any(const char *path, ls_file **file) {
    ls_file *made = calloc(1, sizeof *made);
    *file = NULL;
    if (!made) return error_memory(NULL, "ls_file_open");
    made->descriptor = -1;
    made->path = text_copy(path, strlen(path));
    ls_status status = made->path ? open_regular(made) : error_memory(NULL, "ls_file_open");
    if (status == LS_OK)
        *file = made;
    else
        ls_file_close(made);
    return status;
}

void file_keep_map(ls_file *file) {
    if (file->map && file->descriptor >= 0) {
        close(file->descriptor);
        file->descriptor = -1;
    }
}

ls_status ls_file_open(const char *path, ls_file_format format, ls_file **file) {
    static const char call[] = "ls_file_open";
    if (file) *file = NULL;
    if (!path || !file)
        return error_set(NULL, LS_ERROR_ARGUMENT, "%s: %s is NULL", call, path ? "file" : "path");
    if (format == LS_FILE_BY_NAME)
        format = ends_in(path, ".npy")           ? LS_FILE_NPY
                 : ends_in(path, ".safetensors") ? LS_FILE_SAFETENSORS
                                                 : format;
    if (format != LS_FILE_NPY && format != LS_FILE_SAFETENSORS)
        return error_set(NULL, LS_ERROR_FILE, "cannot read %s: it is %s", path, why_not(path));
    ls_status status = file_open_any(path, file);
    if (status == LS_OK)
        status = format == LS_FILE_NPY ? file_read_npy(*file) : file_read_safetensors(*file);
    if (status == LS_OK) return LS_OK;
    ls_file_close(*file);
    *file = NULL;
    return status;
}

void file_free_arrays(ls_file *file) {
    for (size_t i = 0; i < file->count; i++) {
        union { /* they are ours; the reader's are const */
            const char *read;
            char *made;
        } name = {file->arrays[i].name}, type = {file->arrays[i].type_name};
        free(name.made);
        free(type.made);
    }
    free(file->arrays);
}

void ls_file_close(ls_file *file) {
    if (!file) return;
    file_free_arrays(file);
    if (file->map) munmap(file->map, (size_t)file->size);
    if (file->descriptor >= 0) close(file->descriptor);
    free(file->path);
    free(file);
}

size_t ls_file_count(const ls_file *file) {
    return file ? file->count : 0;
}

const ls_file_array *ls_file_at(const ls_file *file, size_t index) {
    return file && index < file->count ? &file->arrays[index] : NULL;
}

ls_status ls_file_map(ls_file *file, const void **data) {
    if (data) *data = NULL;
    if (!file || !data)
        return error_set(NULL, LS_ERROR_ARGUMENT, "ls_file_map: %s is NULL",
                         file ? "data" : "file");
    if (!file->map) {
        void *map = mmap(NULL, (size_t)file->size, PROT_READ, MAP_SHARED, file->descriptor, 0);
        if (map == MAP_FAILED) return failed("map", file->path);
        file->map = map;
    }
    *data = file->map;
    return LS_OK;
}

/* ---- into memory ---- */

/* The array lies first axis fastest; writes it last axis fastest. */
static void transpose(const ls_file_array *array, const char *from, char *to, uint64_t count) {
    size_t size = ls_type_size(array->type);
    int64_t index[LS_RANK_MAX] = {0};
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = 0;
        for (uint32_t axis = array->rank; axis-- > 0;)
            at = at * (uint64_t)array->shape[axis] + (uint64_t)index[axis];
        memcpy(to + i * size, from + at * size, size);
        for (uint32_t axis = array->rank; axis-- > 0 && ++index[axis] == array->shape[axis];)
            index[axis] = 0;
    }
}

void file_convert(ls_type type, bool swapped, void *data, size_t bytes) {
    size_t size = ls_type_size(type);
    unsigned char *at = data;
    for (size_t i = 0; swapped && i + size <= bytes; i += size)
        for (size_t j = 0; j < size / 2; j++) {
            unsigned char byte = at[i + j];
            at[i + j] = at[i + size - 1 - j];
            at[i + size - 1 - j] = byte;
        }
    for (size_t i = 0; type == LS_BOOL && i < bytes; i++) /* anything but 0 is true */
        at[i] = at[i] != 0;
}

ls_status ls_file_read(const ls_file *file, size_t index, void *data) {
    static const char call[] = "ls_file_read";
    const ls_file_array *array = ls_file_at(file, index);
    if (!file || !data || !array)
        return error_set(NULL, LS_ERROR_ARGUMENT, "%s: %s", call,
                         !file   ? "file is NULL"
                         : !data ? "data is NULL"
                                 : "the file has no array of that number");
    if (array->type == LS_TYPE_COUNT)
        return error_set(NULL, LS_ERROR_FILE,
                         "%s: tensor '%.200s' is of type %.40s, which Lockstep does not know",
                         file->path, array->name, array->type_name);
    bool turned = array->fortran && array->rank > 1;
    void *raw = turned ? malloc(array->bytes ? (size_t)array->bytes : 1) : data;
    if (!raw) return error_memory(NULL, call);
    ls_status status = file_read_at(file, raw, (size_t)array->bytes, array->offset);
    if (status == LS_OK) {
        file_convert(array->type, array->swapped, raw, (size_t)array->bytes);
        if (turned) transpose(array, raw, data, array->bytes / ls_type_size(array->type));
    }
    if (turned) free(raw);
    return status;
}
