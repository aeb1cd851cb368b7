/* buffer.c: growing text and bytes, and the memory of the command.
 *
 * A command that runs out of memory has nothing to go back to: it says so and ends with status 3.
 */
#include "files.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void out_of_memory(size_t size) {
    fprintf(stderr, "lockstep: error: out of memory (asked for %zu bytes)\n", size);
    file_remove_temporary();
    _Exit(STATUS_DEVICE);
}

void *memory(size_t size) {
    void *block = calloc(1, size ? size : 1);
    if (!block) out_of_memory(size);
    return block;
}

void *memory_grow(void *old, size_t count, size_t size) {
    if (size && count > SIZE_MAX / size) out_of_memory(SIZE_MAX);
    void *block = realloc(old, count * size > 0 ? count * size : 1);
    if (!block) out_of_memory(count * size);
    return block;
}

char *copy_text(const char *text, size_t size) {
    char *copy = memory(size + 1);
    if (size) memcpy(copy, text, size);
    return copy;
}

static void reserve(Buffer *buffer, size_t more) {
    if (more >= SIZE_MAX / 2 - buffer->size) out_of_memory(SIZE_MAX);
    size_t needed = buffer->size + more + 1;
    if (needed <= buffer->capacity) return;
    size_t capacity = buffer->capacity ? buffer->capacity : 256;
    while (capacity < needed) capacity *= 2;
    buffer->data = memory_grow(buffer->data, capacity, 1);
    buffer->capacity = capacity;
}

void buffer_add(Buffer *buffer, const void *bytes, size_t size) {
    reserve(buffer, size);
    if (size) memcpy(buffer->data + buffer->size, bytes, size);
    buffer->size += size;
    buffer->data[buffer->size] = '\0';
}

void buffer_puts(Buffer *buffer, const char *text) {
    buffer_add(buffer, text, strlen(text));
}

void buffer_vprintf(Buffer *buffer, const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    int size = vsnprintf(NULL, 0, format, arguments);
    if (size > 0) {
        reserve(buffer, (size_t)size);
        vsnprintf(buffer->data + buffer->size, (size_t)size + 1, format, again);
        buffer->size += (size_t)size;
    }
    va_end(again);
}

void buffer_printf(Buffer *buffer, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    buffer_vprintf(buffer, format, arguments);
    va_end(arguments);
}

void buffer_free(Buffer *buffer) {
    free(buffer->data);
    *buffer = (Buffer){0};
}

bool fail(Failure *failure, int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    failure->status = status;
    vsnprintf(failure->text, sizeof failure->text, format, arguments);
    failure->help[0] = '\0';
    va_end(arguments);
    return false;
}

void fail_help(Failure *failure, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(failure->help, sizeof failure->help, format, arguments);
    va_end(arguments);
}
