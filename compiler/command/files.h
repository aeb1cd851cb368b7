/* files.h: what the command reads and writes: arrays in .npy and .safetensors files, JSON, sizes
 * and values as written on the command line. Everything read is untrusted: each reader checks every
 * number against the file's real size before it believes it. Functions that can fail return false
 * and leave the reason in a Failure. */
#ifndef FILES_H
#define FILES_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <lockstep/files.h>
#include <lockstep/image.h>

#include "json_read.h"

#if defined(__GNUC__)
#define PRINTF_LIKE(format, first) __attribute__((__format__(__printf__, format, first)))
#else
#define PRINTF_LIKE(format, first)
#endif
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* What the command answers to the shell. */
enum { STATUS_DONE, STATUS_INPUT, STATUS_USAGE, STATUS_DEVICE };

/* Why something could not be done: the exit status it leads to, the message, and the way out (""
 * when none is known). */
typedef struct Failure {
    int status;
    char text[1500];
    char help[500];
} Failure;
bool fail(Failure *failure, int status, const char *format, ...) PRINTF_LIKE(3, 4); /* false */
void fail_help(Failure *failure, const char *format, ...) PRINTF_LIKE(2, 3);

/* buffer.c: growing text or bytes, always zero-terminated. Running out of memory ends the command
 * with a message: there is nothing to unwind to. */
typedef struct Buffer {
    char *data;
    size_t size, capacity;
} Buffer;
void *memory(size_t size); /* zeroed */
void *memory_grow(void *old, size_t count, size_t size);
char *copy_text(const char *text, size_t size);
void buffer_add(Buffer *buffer, const void *bytes, size_t size);
void buffer_puts(Buffer *buffer, const char *text);
void buffer_printf(Buffer *buffer, const char *format, ...) PRINTF_LIKE(2, 3);
void buffer_vprintf(Buffer *buffer, const char *format, va_list arguments) PRINTF_LIKE(2, 0);
void buffer_free(Buffer *buffer);

/* text.c: a variable of the environment; NULL where it is not set, or where the command runs with
 * more rights than who started it. */
typedef enum Variable {
#define X(name, ...) VARIABLE_##name,
#include "lockstep/environment.def"
#undef X
} Variable;
const char *command_environment(Variable variable);
const char *command_environment_foreign(const char *name); /* one that is not Lockstep's */
/* Words, numbers and sizes. */
/* The entry of `names` nearest to `word`, when near enough to suggest, or NULL. */
const char *nearest(const char *word, const char *const *names, size_t count);
/* An axis length: digits and K, M or G (powers of 1024). The whole text must be one. */
bool size_parse(const char *text, int64_t *size);
void size_describe(uint64_t bytes, char *text, size_t capacity); /* "1.5 GiB" */
/* The shortest decimal that reads back as the same number of the given type. */
void number_print(ls_type type, const void *element, char *text, size_t capacity);
void double_print(double number, char *text, size_t capacity);

/* json.c: a writer that indents; the reader is the runtime's, json_read.h. */
typedef struct JsonWriter {
    Buffer text;
    unsigned depth;
    bool filled; /* the innermost object or array has a member already */
} JsonWriter;
/* `key` is NULL inside arrays and at the top. */
void json_open(JsonWriter *json, const char *key, char bracket);
void json_close(JsonWriter *json, char bracket);
void json_string(JsonWriter *json, const char *key, const char *value); /* NULL writes null */
void json_number(JsonWriter *json, const char *key, double value);      /* not finite: null */
void json_integer(JsonWriter *json, const char *key, int64_t value);
void json_boolean(JsonWriter *json, const char *key, bool value);
void json_raw(JsonWriter *json, const char *key, const char *text); /* already JSON */
void json_quote(Buffer *out, const char *text);

/* array.c: one dense array in host memory, in C order, and how types are written in files. */
typedef struct Array {
    ls_type type;
    uint32_t rank;
    int64_t shape[LS_RANK_MAX];
    size_t bytes;
    void *data;    /* malloc'd; any alignment is fine for a reader of elements */
    bool borrowed; /* the data stays whose it is */
    char *name;    /* the tensor's name in its file, or NULL */
} Array;
typedef struct TypeName {
    const char *name; /* as in a .step file */
    size_t size;
    const char *npy, *safetensors; /* "": cannot be written there */
} TypeName;
extern const TypeName type_names[LS_TYPE_COUNT];
void array_free(Array *array);
/* Elements and bytes of a shape; false when they do not fit memory's size type. */
bool shape_bytes(ls_type type, uint32_t rank, const int64_t *shape, size_t *count, size_t *bytes);
void shape_describe(uint32_t rank, const int64_t *shape, char *text,
                    size_t capacity); /* "[2, 3]" */
double element_number(ls_type type, const void *element);
/* The text of an array as NumPy lays it out, the middle left out when it is long. */
void array_print(const Array *array, Buffer *out);

/* file.c: whole files. */
bool fail_read(Failure *failure); /* false, with what the last call of lockstep/files.h said */
bool file_read(const char *path, char **data, size_t *size, Failure *failure);
/* A file written next to `path` and renamed over it by file_commit: until then, and after any
 * failure, the old one stands. A target that is no regular file (/dev/stdout) is written directly.
 */
typedef struct OutputFile {
    char *path, *temporary; /* temporary is NULL when written directly */
    int descriptor;
} OutputFile;
/* The same for every way to spell the path of one file, which need not be there; the caller's. */
char *file_identity(const char *path);
bool file_create(const char *path, OutputFile *file, Failure *failure);
bool file_write(OutputFile *file, const void *data, size_t size, Failure *failure);
bool file_commit(OutputFile *file, Failure *failure); /* closes; on failure as file_abandon */
void file_abandon(OutputFile *file);
bool file_finish(OutputFile *file, bool good, Failure *failure); /* one or the other */
bool file_write_whole(const char *path, const void *data, size_t size, Failure *failure);
void file_remove_temporary(void); /* for a signal handler: unlinks what is half written */

/* npy.c, safetensors.c */
bool npy_read(const char *path, Array *array, Failure *failure);
bool npy_write(const char *path, const Array *array, Failure *failure);

/* Reading is the runtime's, lockstep/files.h. */
typedef struct TensorFile {
    char *path;
    ls_file *file;
    size_t count;
} TensorFile;
bool safetensors_open(const char *path, TensorFile *file, Failure *failure);
bool safetensors_read(const TensorFile *file, size_t tensor, Array *array, Failure *failure);
void safetensors_close(TensorFile *file);
/* Every array has a name; names differ. */
bool safetensors_write(const char *path, const Array *const *arrays, size_t count,
                       Failure *failure);

/* value.c: VALUE of `run`, as written on the command line. */
typedef enum ValueKind {
    VALUE_NUMBER,
    VALUE_NPY,
    VALUE_SAFETENSORS,
    VALUE_GENERATED,
    VALUE_LIST
} ValueKind;
typedef struct Value Value;
struct Value {
    ValueKind kind;
    const char *text;      /* as written; not owned */
    char *path, *tensor;   /* files; tensor is NULL when not named */
    const char *generator; /* "zeros" ... */
    bool has_shape;        /* a generator without one takes its parameter's */
    uint32_t rank;
    int64_t shape[LS_RANK_MAX];
    uint64_t seed;
    char *fill;   /* the number of `full` */
    Value *parts; /* of a list, in order; their texts are owned */
    size_t part_count;
};
bool value_parse(const char *text, Value *value, Failure *failure);
/* Loads or makes the array. `shape` is used by a generator without one. */
bool value_load(const Value *value, const char *parameter, ls_type type, uint32_t rank,
                const int64_t *shape, Array *array, Failure *failure);
void value_free(Value *value);
/* A number as one element of `type`: exact for integers, refused when it does not fit. */
bool number_parse(const char *text, ls_type type, void *element, char *reason, size_t capacity);

/* value_list.c: the tensors of a VALUE for a list. */
typedef struct ListItem {
    char *name; /* in its file, or NULL */
    char *key;  /* what stood for the star of m.safetensors:layer.*, or NULL */
    ls_type type;
    uint32_t rank;
    int64_t *shape;
    const Value *value;
    size_t file, tensor; /* of a .safetensors file */
    Array loaded;        /* from a .npy file */
} ListItem;
typedef struct ValueList {
    ListItem *items;
    size_t count;
    TensorFile *files;
    size_t file_count;
} ValueList;
/* `value` outlives the list. A generator without a shape gives one item of rank 0. */
bool value_list_open(const Value *value, ls_type type, ValueList *list, Failure *failure);
/* Reads or makes an item; once each. */
bool value_list_load(ValueList *list, size_t item, const char *parameter, ls_type type,
                     Array *array, Failure *failure);
void value_list_close(ValueList *list);

uint64_t random_next(uint64_t *state); /* splitmix64 */

#endif
