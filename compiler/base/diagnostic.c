/* diagnostic.c: sources, the error list, and how errors look on a terminal.
 *
 * A user's mistake is a diagnostic and the passes go on; at most 20 errors are kept, and one for
 * each range, so that one mistake is reported once. The message of a code is its row in errors.def.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

enum { ERRORS_MAX = 20, NOTES_MAX = 8, WINDOW = 120 };

static const struct {
    const char *id, *severity, *format;
} errors[ERROR_CODE_COUNT] = {
#define X(id, severity, format) {#id, severity, format},
#include "errors.def"
#undef X
};

_Noreturn void compiler_fail(Compiler *compiler, ls_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    compiler->failure = status;
    vsnprintf(compiler->failure_message, sizeof compiler->failure_message, format, arguments);
    va_end(arguments);
    longjmp(compiler->unwind, 1);
}

uint32_t source_add(Compiler *compiler, const char *path, const char *text, size_t size) {
    Arena *arena = &compiler->arena;
    if (compiler->source_count == 0) { /* file 0 is "no place" */
        compiler->sources =
            arena_grow(arena, NULL, 0, &compiler->source_capacity, sizeof *compiler->sources);
        compiler->sources[compiler->source_count++] = (Source){.path = "", .text = ""};
    }
    compiler->sources = arena_grow(arena, compiler->sources, compiler->source_count,
                                   &compiler->source_capacity, sizeof *compiler->sources);
    Source *source = &compiler->sources[compiler->source_count];
    *source = (Source){.path = arena_copy(arena, path, strlen(path)),
                       .text = arena_copy(arena, text, size),
                       .size = size};
    for (const char *line = source->text, *end; line; line = end ? end + 1 : NULL) {
        source->lines = arena_grow(arena, source->lines, source->line_count, &source->line_capacity,
                                   sizeof *source->lines);
        source->lines[source->line_count++] = (uint32_t)(line - source->text);
        end = memchr(line, '\n', size - (size_t)(line - source->text));
    }
    return (uint32_t)compiler->source_count++;
}

void file_was_read(Compiler *compiler, const char *path) {
    for (size_t i = 0; i < compiler->file_count; i++)
        if (strcmp(compiler->files[i], path) == 0) return;
    compiler->files = arena_grow(&compiler->arena, compiler->files, compiler->file_count,
                                 &compiler->file_capacity, sizeof *compiler->files);
    compiler->files[compiler->file_count++] = arena_copy(&compiler->arena, path, strlen(path));
}

/* The line that holds `offset`, counted from 0. */
static size_t line_of(const Source *source, uint32_t offset) {
    size_t low = 0, high = source->line_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (source->lines[middle] <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static uint32_t characters(const char *text, size_t size) {
    uint32_t count = 0;
    for (size_t i = 0; i < size; count++) {
        size_t length = utf8_length(text + i, size - i);
        i += length ? length : 1;
    }
    return count;
}

void source_position(const Source *source, uint32_t offset, uint32_t *line, uint32_t *column) {
    *line = *column = 0;
    if (source->line_count == 0) return;
    if (offset > source->size) offset = (uint32_t)source->size;
    size_t index = line_of(source, offset);
    *line = (uint32_t)index + 1;
    *column = characters(source->text + source->lines[index], offset - source->lines[index]) + 1;
}

typedef struct Position {
    const char *file;
    uint32_t line, column, end_line, end_column;
} Position;

static Position position_of(const Compiler *compiler, Range range) {
    Position position = {.file = ""};
    if (range.file == 0 || range.file >= compiler->source_count) return position;
    const Source *source = &compiler->sources[range.file];
    position.file = source->path;
    source_position(source, range.begin, &position.line, &position.column);
    source_position(source, range.end, &position.end_line, &position.end_column);
    return position;
}

/* "UNKNOWN_NAME" -> "unknown-name" */
static const char *stable_code(Arena *arena, const char *id) {
    char *code = arena_copy(arena, id, strlen(id));
    for (char *c = code; *c; c++) *c = *c == '_' ? '-' : (char)tolower((unsigned char)*c);
    return code;
}

static bool already_reported(const Compiler *compiler, const Position *position) {
    for (size_t i = 0; i < compiler->diagnostic_count; i++) {
        const ls_diagnostic *other = &compiler->diagnostics[i];
        if (position->line != 0 && other->line == position->line &&
            other->column == position->column && other->end_line == position->end_line &&
            other->end_column == position->end_column && strcmp(other->file, position->file) == 0)
            return true;
    }
    return false;
}

bool diagnostics_are_full(const Compiler *compiler) {
    return compiler->diagnostic_count >= ERRORS_MAX;
}

bool diagnose(Compiler *compiler, ErrorCode code, Range range, ...) {
    va_list arguments;
    va_start(arguments, range);
    bool kept = diagnose_list(compiler, code, range, arguments);
    va_end(arguments);
    return kept;
}

bool diagnose_list(Compiler *compiler, ErrorCode code, Range range, va_list arguments) {
    Arena *arena = &compiler->arena;
    bool is_error = strcmp(errors[code].severity, "error") == 0;
    compiler->last_kept = false;
    /* before the place is looked for, which reads the line */
    if (diagnostics_are_full(compiler)) return false;
    Position position = position_of(compiler, range);
    if (already_reported(compiler, &position)) return false;
    Text message = text_open(arena);
    text_vprintf(&message, errors[code].format, arguments);
    compiler->diagnostics =
        arena_grow(arena, compiler->diagnostics, compiler->diagnostic_count,
                   &compiler->diagnostic_capacity, sizeof *compiler->diagnostics);
    compiler->diagnostics[compiler->diagnostic_count++] =
        (ls_diagnostic){.file = position.file,
                        .line = position.line,
                        .column = position.column,
                        .end_line = position.end_line,
                        .end_column = position.end_column,
                        .severity = errors[code].severity,
                        .code = stable_code(arena, errors[code].id),
                        .message = message.data};
    compiler->error_count += is_error;
    compiler->last_kept = true;
    return true;
}

static ls_diagnostic *last(Compiler *compiler) {
    return compiler->last_kept ? &compiler->diagnostics[compiler->diagnostic_count - 1] : NULL;
}

void diagnose_note(Compiler *compiler, Range range, const char *format, ...) {
    ls_diagnostic *diagnostic = last(compiler);
    if (!diagnostic || diagnostic->note_count == NOTES_MAX) return;
    Text message = text_open(&compiler->arena);
    va_list arguments;
    va_start(arguments, format);
    text_vprintf(&message, format, arguments);
    va_end(arguments);
    Position position = position_of(compiler, range);
    ls_note *notes = arena_alloc(&compiler->arena, (diagnostic->note_count + 1) * sizeof *notes);
    if (diagnostic->note_count)
        memcpy(notes, diagnostic->notes, diagnostic->note_count * sizeof *notes);
    notes[diagnostic->note_count++] = (ls_note){.file = position.line ? position.file : NULL,
                                                .line = position.line,
                                                .column = position.column,
                                                .end_line = position.end_line,
                                                .end_column = position.end_column,
                                                .message = message.data};
    diagnostic->notes = notes;
}

void diagnose_help(Compiler *compiler, const char *format, ...) {
    ls_diagnostic *diagnostic = last(compiler);
    if (!diagnostic) return;
    Text message = text_open(&compiler->arena);
    va_list arguments;
    va_start(arguments, format);
    text_vprintf(&message, format, arguments);
    va_end(arguments);
    diagnostic->help = message.data;
}

void diagnostics_sort(Compiler *compiler) {
    ls_diagnostic *list = compiler->diagnostics;
    for (size_t i = 1; i < compiler->diagnostic_count; i++) { /* 20 at most */
        ls_diagnostic moved = list[i];
        size_t j = i;
        for (; j > 0 && strcmp(list[j - 1].file, moved.file) == 0 &&
               (list[j - 1].line > moved.line ||
                (list[j - 1].line == moved.line && list[j - 1].column > moved.column));
             j--)
            list[j] = list[j - 1];
        list[j] = moved;
    }
}

/* ---- on a terminal ---- */

typedef struct Palette {
    const char *error, *note, *help, *bold, *caret, *reset;
} Palette;
static const Palette plain = {"", "", "", "", "", ""};
static const Palette colored = {"\033[1;31m", "\033[1;36m", "\033[1;32m",
                                "\033[1m",    "\033[1;32m", "\033[0m"};

static const Source *find_source(const Compiler *compiler, const char *path) {
    for (size_t i = compiler->source_count; i-- > 1;)
        if (strcmp(compiler->sources[i].path, path) == 0) return &compiler->sources[i];
    return NULL;
}

/* Bytes that a terminal would obey, or that are no UTF-8, are shown as one harmless character each.
 */
static void add_visible(Text *out, const char *text, size_t size) {
    for (size_t i = 0; i < size;) {
        size_t length = utf8_length(text + i, size - i);
        unsigned char c = (unsigned char)text[i];
        if (c == '\t')
            text_puts(out, " ");
        else if (length == 0 || c < 0x20 || c == 0x7f ||
                 (length == 2 && c == 0xc2 && (unsigned char)text[i + 1] < 0xa0))
            text_puts(out, "\xef\xbf\xbd");
        else
            text_add(out, text + i, length);
        i += length ? length : 1;
    }
}

static size_t skip_characters(const char *text, size_t size, uint32_t count) {
    size_t i = 0;
    while (count-- > 0 && i < size) {
        size_t length = utf8_length(text + i, size - i);
        i += length ? length : 1;
    }
    return i;
}

/* The source line and a caret under the whole range; of a very long line, a window around it. A
 * range that goes on in the next line is marked to the end of its first. */
static void render_line(const Compiler *compiler, Text *out, const Position *position,
                        const Palette *palette) {
    const Source *source = find_source(compiler, position->file);
    if (!source || position->line == 0 || position->line > source->line_count) return;
    const char *line = source->text + source->lines[position->line - 1];
    const char *limit = source->text + source->size;
    const char *end = memchr(line, '\n', (size_t)(limit - line));
    size_t size = (size_t)((end ? end : limit) - line);
    if (size && line[size - 1] == '\r') size--;
    uint32_t length = characters(line, size);
    uint32_t first = position->column - 1;
    uint32_t past = position->end_line > position->line ? length : position->end_column - 1;
    if (first > length) first = length;
    if (past > length) past = length;
    if (past <= first) past = first + 1;
    uint32_t skip = length > WINDOW && first > WINDOW / 2 ? first - WINDOW / 2 : 0;
    size_t begin = skip_characters(line, size, skip);
    size_t shown = skip_characters(line + begin, size - begin, WINDOW);
    if (past > skip + WINDOW) past = skip + WINDOW;
    text_puts(out, "  ");
    add_visible(out, line + begin, shown);
    text_puts(out, "\n  ");
    for (uint32_t i = skip; i < first; i++) text_puts(out, " ");
    text_puts(out, palette->caret);
    for (uint32_t i = first; i < past; i++) text_puts(out, i == first ? "^" : "~");
    text_printf(out, "%s\n", palette->reset);
}

static void render_heading(Text *out, const Position *position, const char *kind, const char *color,
                           const char *message, const Palette *palette) {
    if (position->line) {
        text_puts(out, palette->bold);
        add_visible(out, position->file, strlen(position->file));
        text_printf(out, ":%u:%u:%s ", position->line, position->column, palette->reset);
    }
    text_printf(out, "%s%s:%s ", color, kind, palette->reset);
    add_visible(out, message, strlen(message));
    text_puts(out, "\n");
}

void diagnostics_render(const Compiler *compiler, Text *out, bool color) {
    const Palette *palette = color ? &colored : &plain;
    for (size_t i = 0; i < compiler->diagnostic_count; i++) {
        const ls_diagnostic *d = &compiler->diagnostics[i];
        Position position = {d->file, d->line, d->column, d->end_line, d->end_column};
        render_heading(out, &position, d->severity, palette->error, d->message, palette);
        render_line(compiler, out, &position, palette);
        for (size_t n = 0; n < d->note_count; n++) {
            const ls_note *note = &d->notes[n];
            Position where = {note->file ? note->file : "", note->line, note->column,
                              note->end_line, note->end_column};
            render_heading(out, &where, "note", palette->note, note->message, palette);
            render_line(compiler, out, &where, palette);
        }
        if (d->help) {
            Position nowhere = {.file = ""};
            render_heading(out, &nowhere, "help", palette->help, d->help, palette);
        }
    }
}
