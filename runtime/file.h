/* file.h: what the readers of .npy and .safetensors files share; see lockstep/files.h. */
#ifndef FILE_H
#define FILE_H

#include <lockstep/files.h>

struct ls_file {
    char *path;
    int descriptor;
    uint64_t size;
    ls_file_array *arrays; /* names and spellings are malloc'd */
    size_t count;
    void *map; /* NULL: not asked for */
};

typedef struct FileType { /* by ls_type */
    const char *npy, *safetensors;
} FileType;
extern const FileType file_types[LS_TYPE_COUNT];

/* file.c: all of the bytes; says what is wrong. */
ls_status file_read_at(const ls_file *file, void *data, size_t size, uint64_t offset);
/* Elements and bytes of a shape; false when they do not fit memory's size type. */
bool file_shape_bytes(ls_type type, uint32_t rank, const int64_t *shape, uint64_t *count,
                      uint64_t *bytes);
/* As the types are in memory: little-endian, bools 0 or 1. */
void file_convert(ls_type type, bool swapped, void *data, size_t bytes);

/* file_npy.c, file_safetensors.c: fill the arrays of a file that is open. */
ls_status file_read_npy(ls_file *file);
ls_status file_read_safetensors(ls_file *file);

#endif
