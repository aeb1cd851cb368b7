/* lockstep/files.h: the arrays in .npy and .safetensors files, read or mapped.
 *
 * A file is untrusted: every number in it is checked against its real size before it is believed.
 * Calls that fail leave their message with the thread, ls_error_message(NULL). A handle may be used
 * from one thread at a time. */
#ifndef LOCKSTEP_FILES_H
#define LOCKSTEP_FILES_H

#include <lockstep/image.h>
#include <lockstep/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How the formats spell the types: .npy, .safetensors; "": it has no such type. */
#define LS_FILE_TYPE_LIST(X) \
    X(F64, "<f8", "F64")     \
    X(F32, "<f4", "F32")     \
    X(I64, "<i8", "I64")     \
    X(I32, "<i4", "I32")     \
    X(U64, "<u8", "U64")     \
    X(U32, "<u4", "U32")     \
    X(BOOL, "|b1", "BOOL")   \
    X(F16, "<f2", "F16")     \
    X(BF16, "", "BF16")      \
    X(E4M3, "", "F8_E4M3")   \
    X(E5M2, "", "F8_E5M2")   \
    X(I16, "<i2", "I16")     \
    X(I8, "|i1", "I8")       \
    X(U16, "<u2", "U16")     \
    X(U8, "|u1", "U8")

typedef struct ls_file ls_file;
typedef struct ls_file_array {
    const char *name;      /* of the tensor; "" in a .npy file */
    const char *type_name; /* as the file spells it */
    ls_type type;          /* LS_TYPE_COUNT: one that Lockstep does not know (.safetensors only) */
    uint32_t rank;
    int64_t shape[LS_RANK_MAX];
    uint64_t offset, bytes; /* of the data in the file */
    int swapped;            /* they are big-endian */
    int fortran;            /* the first axis is fastest */
} ls_file_array;

typedef enum ls_file_format { LS_FILE_BY_NAME, LS_FILE_NPY, LS_FILE_SAFETENSORS } ls_file_format;

/* LS_FILE_BY_NAME goes by the name's end. Only the header is read. LS_ERROR_FILE: it is not there,
 * or not such a file. */
ls_status ls_file_open(const char *path, ls_file_format format, ls_file **file);
void ls_file_close(ls_file *file); /* takes the map with it; NULL is fine */
size_t ls_file_count(const ls_file *file);
/* In the order of their data; the file's. NULL: there is no such one. */
const ls_file_array *ls_file_at(const ls_file *file, size_t index);
/* Reads an array's data into `bytes` bytes of memory: little-endian, last axis fastest, each bool 0
 * or 1. */
ls_status ls_file_read(const ls_file *file, size_t index, void *data);
/* The whole file, mapped read-only for the life of the handle; an array's data begin at its offset,
 * as they are in the file. A file that is cut short meanwhile ends the process at the next look. */
ls_status ls_file_map(ls_file *file, const void **data);

#ifdef __cplusplus
}
#endif

#endif
