/* file.h: what the readers of .npy and .safetensors files share; see lockstep/files.h. */
#ifndef FILE_H
#define FILE_H

#include <lockstep/files.h>

struct ls_file {
    char *path;
    int descriptor;
    uint64_t begin, size;  /* begin: where it lies in the descriptor's file, as a member does */
    ls_file_array *arrays; /* names and spellings are malloc'd */
    size_t count;
    void *map; /* NULL: not asked for */
};

typedef struct FileType { /* by ls_type */
    const char *npy, *safetensors;
} FileType;
extern const FileType file_types[LS_TYPE_COUNT];

/* file.c: a file of any kind, with no arrays. */
ls_status file_open_any(const char *path, ls_file **file);
/* Closes the descriptor of a file that is mapped, of which a process may have few. */
void file_keep_map(ls_file *file);
void file_free_arrays(ls_file *file);
/* All of the bytes; says what is wrong. */
ls_status file_read_at(const ls_file *file, void *data, size_t size, uint64_t offset);
/* Elements and bytes of a shape; false when they do not fit memory's size type. */
bool file_shape_bytes(ls_type type, uint32_t rank, const int64_t *shape, uint64_t *count,
                      uint64_t *bytes);
/* As the types are in memory: little-endian, bools 0 or 1. */
void file_convert(ls_type type, bool swapped, void *data, size_t bytes);

/* file_npy.c, file_safetensors.c: fill the arrays of a file that is open. */
ls_status file_read_npy(ls_file *file);
ls_status file_read_safetensors(ls_file *file);

/* file_tar.c: the files in an archive, one after the other. */
typedef struct TarMember {
    char name[1024];
    uint64_t offset, size; /* of its bytes in the archive */
    bool whole;            /* they are all of it; false: a link, or sparse */
} TarMember;
/* The member that begins at *at or behind it, which then is where the next begins. False: the end,
 * or *status says what is wrong. `map`: the archive's bytes. */
bool file_next_member(const ls_file *file, const char *map, uint64_t *at, TarMember *member,
                      ls_status *status);

/* file_jsonl.c: the whole numbers of every line's list, which is the line or what its object has
 * under `key`, one behind the other, malloc'd. */
ls_status file_read_tokens(const char *path, const char *key, int32_t **tokens, size_t *count);

#endif
