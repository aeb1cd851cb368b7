/* arena.c: memory by lifetime.
 *
 * An arena hands out zeroed memory from blocks it owns and gives all of it back at once. Nobody
 * frees a single allocation, and nobody checks for NULL: when memory runs out the arena unwinds to
 * the API boundary. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

enum { ALIGNMENT = 16, FIRST_BLOCK = 16 << 10, LARGEST_BLOCK = 1 << 20 };

struct ArenaBlock {
    ArenaBlock *next;
    size_t size;
};

void arena_open(Arena *arena, Compiler *compiler) {
    *arena = (Arena){.compiler = compiler};
}

Arena *arena_child(Arena *parent) {
    Arena *child = arena_alloc(parent, sizeof *child);
    *child = (Arena){.compiler = parent->compiler, .sibling = parent->children};
    parent->children = child;
    return child;
}

static _Noreturn void out_of_memory(Arena *arena, size_t size) {
    compiler_fail(arena->compiler, LS_ERROR_MEMORY, "out of memory: %zu more bytes are needed",
                  size);
}

/* A spare block of so many bytes, or NULL. */
static ArenaBlock *take_spare(Arena *arena, size_t size) {
    for (ArenaBlock **at = &arena->spare; *at; at = &(*at)->next)
        if ((*at)->size >= size) {
            ArenaBlock *block = *at;
            *at = block->next;
            return block;
        }
    return NULL;
}

/* The header takes one aligned unit in front of the memory it describes. */
static void add_block(Arena *arena, size_t size) {
    size_t block_size = arena->blocks ? arena->blocks->size * 2 : FIRST_BLOCK;
    if (block_size > LARGEST_BLOCK) block_size = LARGEST_BLOCK;
    if (block_size < size) block_size = size;
    ArenaBlock *block = take_spare(arena, size);
    if (!block) {
        block = calloc(1, ALIGNMENT + block_size);
        if (!block) out_of_memory(arena, block_size);
        block->size = block_size;
    }
    block->next = arena->blocks;
    arena->blocks = block;
    arena->next = (char *)block + ALIGNMENT;
    arena->end = arena->next + block->size;
}

void *arena_alloc(Arena *arena, size_t size) {
    if (size > SIZE_MAX / 2) out_of_memory(arena, size);
    size = (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    if (size > (size_t)(arena->end - arena->next)) add_block(arena, size);
    void *memory = arena->next;
    arena->next += size;
    return memory;
}

void *arena_grow(Arena *arena, void *array, size_t count, size_t *capacity, size_t element_size) {
    if (count < *capacity) return array;
    size_t larger = *capacity ? *capacity * 2 : 8;
    if (larger > SIZE_MAX / 2 / element_size) out_of_memory(arena, SIZE_MAX);
    void *copy = arena_alloc(arena, larger * element_size);
    if (count) memcpy(copy, array, count * element_size);
    *capacity = larger;
    return copy;
}

char *arena_copy(Arena *arena, const char *text, size_t size) {
    char *copy = arena_alloc(arena, size + 1);
    if (size) memcpy(copy, text, size);
    return copy;
}

/* Printed where the next allocation begins, if there is room: then nothing is copied. */
char *arena_printf(Arena *arena, const char *format, ...) {
    const size_t room = (size_t)(arena->end - arena->next);
    va_list arguments;
    va_start(arguments, format);
    const int size = room ? vsnprintf(arena->next, room, format, arguments) : -1;
    va_end(arguments);
    if (size >= 0 && (size_t)size < room) return arena_alloc(arena, (size_t)size + 1);
    if (room) memset(arena->next, 0, room); /* what an arena hands out is zeros */
    Text text = text_open(arena);
    va_start(arguments, format);
    text_vprintf(&text, format, arguments);
    va_end(arguments);
    return text.data;
}

/* For names by the thousand: printf takes most of the time of those. */
char *arena_numbered(Arena *arena, const char *stem, uint32_t number) {
    char digits[10];
    size_t count = 0;
    const size_t size = strlen(stem);
    for (; !count || number; number /= 10) digits[count++] = (char)('0' + number % 10);
    char *name = arena_alloc(arena, size + count + 2);
    memcpy(name, stem, size);
    name[size] = '_';
    for (size_t i = 0; i < count; i++) name[size + 1 + i] = digits[count - 1 - i];
    return name;
}

/* Only the newest block has bytes that nobody took. */
void arena_reset(Arena *arena) {
    for (Arena *child = arena->children; child; child = child->sibling) arena_close(child);
    arena->children = NULL;
    for (ArenaBlock *block = arena->blocks, *next; block; block = next) {
        char *memory = (char *)block + ALIGNMENT;
        memset(memory, 0, block == arena->blocks ? (size_t)(arena->next - memory) : block->size);
        next = block->next;
        block->next = arena->spare;
        arena->spare = block;
    }
    arena->blocks = NULL;
    arena->next = arena->end = NULL;
}

static void free_blocks(ArenaBlock *block) {
    while (block) {
        ArenaBlock *next = block->next;
        free(block);
        block = next;
    }
}

void arena_close(Arena *arena) {
    for (Arena *child = arena->children; child; child = child->sibling) arena_close(child);
    free_blocks(arena->blocks);
    free_blocks(arena->spare);
    *arena = (Arena){.compiler = arena->compiler, .sibling = arena->sibling};
}
