/* base.h: memory, text, messages, hashes and the environment. Every room of the compiler stands on
 * this one, which uses none of them.
 *
 * Nothing here is global mutable state: everything belongs to a Compiler, whose arenas are
 * dropped whole. */
#ifndef LOCKSTEP_BASE_H
#define LOCKSTEP_BASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstep/compiler.h>
#include <lockstep/image.h>
#include <lockstep/index.h>

#if defined(__GNUC__)
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
#else
#define PRINTF_LIKE(text, first)
#endif
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

typedef struct Compiler Compiler;

/* arena.c: memory by lifetime. Allocations are zeroed, 16-byte aligned, and freed all at once. When
 * memory runs out the arena unwinds to the API boundary (compiler_fail); callers never see NULL. */
typedef struct ArenaBlock ArenaBlock;
typedef struct Arena {
    Compiler *compiler;
    ArenaBlock *blocks;
    char *next, *end;
    ArenaBlock *spare;                /* of arena_reset(), all zeros */
    struct Arena *children, *sibling; /* those that arena_child() made */
} Arena;
void arena_open(Arena *arena, Compiler *compiler);
/* An arena that is closed with its parent at the latest; arena_close() ends it sooner, and then it
 * can be used again. */
Arena *arena_child(Arena *parent);
void *arena_alloc(Arena *arena, size_t size);
/* Grows an array that lies in the arena: returns `array` or a copy with room for one more element.
 */
void *arena_grow(Arena *arena, void *array, size_t count, size_t *capacity, size_t element_size);
char *arena_copy(Arena *arena, const char *text, size_t size); /* zero-terminated */
char *arena_printf(Arena *arena, const char *format, ...) PRINTF_LIKE(2, 3);
char *arena_numbered(Arena *arena, const char *stem, uint32_t number); /* "stem_7" */
void arena_close(Arena *arena);
/* Gives everything back but the blocks, for one use after the other. */
void arena_reset(Arena *arena);

/* version.c: "0.1.0". */
const char *compiler_version(void);

/* environment.c: a variable of the environment; NULL where it is not set, or not to be trusted. */
typedef enum Variable {
#define X(name, ...) VARIABLE_##name,
#include "lockstep/environment.def"
#undef X
} Variable;
const char *environment_name(Variable variable);
const char *environment_value(Variable variable);
const char *environment_foreign(const char *name); /* one that is not Lockstep's: "HOME" */

/* log.c: a line on stderr, where LOCKSTEP_LOG requests it. */
void base_log(const char *format, ...) PRINTF_LIKE(1, 2);

/* text.c: growing text in an arena, always zero-terminated. */
typedef struct Text {
    Arena *arena;
    char *data;
    size_t size, capacity;
} Text;
Text text_open(Arena *arena);
void text_add(Text *text, const char *bytes, size_t size);
void text_puts(Text *text, const char *string);
void text_printf(Text *text, const char *format, ...) PRINTF_LIKE(2, 3);
void text_vprintf(Text *text, const char *format, va_list arguments);
void text_json(Text *text, const char *string); /* quoted and escaped */
size_t utf8_length(const char *s, size_t size); /* of the character at `s`; 0: not UTF-8 */

/* A range of bytes of a source file. File 0 is "no place". */
typedef struct Range {
    uint32_t file, begin, end;
} Range;

enum { FILE_MAX = 4 << 20 }; /* bytes of a source file */
typedef struct Source {
    const char *path; /* as messages name it */
    const char *text; /* zero-terminated copy */
    size_t size;
    uint32_t *lines; /* where each line begins */
    size_t line_count, line_capacity;
} Source;

/* diagnostic.c: the error list. The message and severity of a code are its row in errors.def; the
 * arguments of diagnose() are those of its format. Notes and help attach to the last diagnostic.
 * After 20 errors, and for a range that already has one, further errors are dropped. */
typedef enum ErrorCode {
#define X(id, severity, format) ERROR_##id,
#include "errors.def"
#undef X
    ERROR_CODE_COUNT
} ErrorCode;
bool diagnose(Compiler *compiler, ErrorCode code, Range range, ...); /* false: dropped */
bool diagnostics_are_full(const Compiler *compiler); /* then reading on is of no use */
bool diagnose_list(Compiler *compiler, ErrorCode code, Range range, va_list arguments);
void diagnose_note(Compiler *compiler, Range range, const char *format, ...) PRINTF_LIKE(3, 4);
void diagnose_help(Compiler *compiler, const char *format, ...) PRINTF_LIKE(2, 3);
void diagnostics_sort(Compiler *compiler); /* by place, within each file */
/* As for a terminal: file:line:col: error: message, the source line, a caret under the range,
 * notes, help. */
void diagnostics_render(const Compiler *compiler, Text *out, bool color);
uint32_t source_add(Compiler *compiler, const char *path, const char *text, size_t size);
void file_was_read(Compiler *compiler, const char *path); /* from disk: the result depends on it */
void source_position(const Source *source, uint32_t offset, uint32_t *line, uint32_t *column);

/* reader.c: the words of a form's text, line by line. A word is letters, digits and what numbers
 * and qualified names have, or one other character; `#` begins a comment. Each of those that give a
 * bool gives false after a diagnostic, but for accept and next_line. */
typedef struct TextWord {
    const char *text;
    size_t size;
} TextWord;
typedef struct TextReader {
    Compiler *compiler;
    Arena *arena;
    uint32_t file;
    const char *start, *at;
} TextReader;
TextReader reader_open(Compiler *compiler, Arena *arena, uint32_t source);
TextWord reader_peek(TextReader *r); /* at the end of the line, none */
TextWord reader_take(TextReader *r);
bool word_is(TextWord word, const char *text);
Range reader_range(const TextReader *r, const char *from, size_t size);
bool reader_fail(TextReader *r, TextWord found, const char *expected); /* false */
bool reader_accept(TextReader *r, const char *text);
bool reader_expect(TextReader *r, const char *text);
bool reader_name(TextReader *r, const char *what, const char **name);
bool reader_integer(TextReader *r, uint64_t max, const char *what, int64_t *number);
bool reader_end_line(TextReader *r);  /* nothing but a comment is left of it */
bool reader_next_line(TextReader *r); /* false: that was the last */

/* What libclang is given of a C header: texts that stand in for files, the header's own among them.
 */
typedef struct HeaderFile {
    const char *path, *text;
    size_t size;
} HeaderFile;
typedef struct CHeader {
    const char *library, *path; /* libclang's file; the header's */
    const char *const *arguments;
    const HeaderFile *files;
    size_t argument_count, file_count;
} CHeader;

/* The compiler object: one compilation of one file. */
struct Compiler {
    Arena arena; /* lives as long as the compilation */
    const ls_compile_options *options;
    Source *sources; /* sources[0] is empty */
    size_t source_count, source_capacity;
    ls_diagnostic *diagnostics;
    size_t diagnostic_count, diagnostic_capacity, error_count;
    const char **files; /* on disk, that were read */
    size_t file_count, file_capacity;
    bool from_library; /* the main file is the standard library's */
    void *checker;     /* of a compilation with an index: front/index.c */
    void *clang;       /* import_c.c: of the header being read */
    /* Parses a C header in another process, where it may take for ever: NULL, or why it cannot be
     * read. NULL itself: there is no such process. */
    const char *(*try_header)(Compiler *compiler, const CHeader *header);
    bool last_kept; /* the last diagnose() was not dropped: notes and help attach to it */
    jmp_buf unwind; /* set at every API entry */
    ls_status failure;
    char failure_message[512];
};
/* Unwinds to the API entry with a status: an invariant of ours is broken, memory ran out, a
 * toolchain failed. A user's mistake is a diagnostic instead. */
_Noreturn void compiler_fail(Compiler *compiler, ls_status status, const char *format, ...)
    PRINTF_LIKE(3, 4);
#define bug(compiler, ...) compiler_fail((compiler), LS_ERROR_INTERNAL, __VA_ARGS__)

/* sha256.c */
typedef struct Sha256 {
    uint32_t state[8];
    uint64_t size; /* bytes added so far */
    uint8_t block[64];
} Sha256;
Sha256 sha256_open(void);
void sha256_add(Sha256 *hash, const void *bytes, size_t size);
void sha256_close(Sha256 *hash, uint8_t digest[32]);

/* embedded.c (generated): the files of templates/, by their path under it. */
typedef struct EmbeddedFile {
    const char *path, *text;
    size_t size;
} EmbeddedFile;
extern const EmbeddedFile embedded_files[];
extern const size_t embedded_file_count;
const char *embedded_text(const char *path); /* NULL when there is no such file */

/* input.c: what a caller of lockstep/compiler.h may have left unset or set wrongly: false with a
 * message that names the field. */
bool input_check_options(const ls_compile_options *options, char *message, size_t size);
/* The bytes of a file, with a zero behind them, or NULL with the reason. "-" is standard input,
 * which may be a pipe; what has a name must be a file: a device or a pipe may have no end. */
char *input_read(const char *path, size_t *size, const char **reason);

#endif
