/* data.c: a text as numbers of characters, and windows drawn from it. */
#include "minigpt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 1 << 28 };

bool text_read(const char *path, Text *text) {
    FILE *file = fopen(path, "rb");
    if (!file) return fail("%s cannot be read: %s; --text names another", path, strerror(errno));
    *text = (Text){.tokens = malloc(TEXT_MAX)};
    if (text->tokens) text->size = fread(text->tokens, 1, TEXT_MAX, file);
    const bool whole = text->tokens && !ferror(file) && fgetc(file) == EOF;
    fclose(file);
    if (!text->tokens) return fail("out of memory");
    if (!whole) return fail("%s cannot be read, or is above 256 MiB", path);
    uint8_t *fitted = realloc(text->tokens, text->size + 1);
    if (fitted) text->tokens = fitted;
    int number[256];
    bool used[256] = {false};
    for (size_t i = 0; i < text->size; i++) used[text->tokens[i]] = true;
    for (int c = 0; c < 256; c++) {
        number[c] = text->classes;
        text->classes += used[c];
    }
    for (size_t i = 0; i < text->size; i++) text->tokens[i] = (uint8_t)number[text->tokens[i]];
    return true;
}

void text_close(Text *text) {
    free(text->tokens);
    *text = (Text){0};
}

float uniform(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (float)(*seed >> 40) * 0x1p-24f;
}

void text_draw(const Text *text, uint64_t *seed, long batch, long context, int32_t *token,
               int32_t *target) {
    const size_t places = text->size - (size_t)context;
    for (long b = 0; b < batch; b++) {
        const uint64_t high = (uint64_t)(uniform(seed) * 0x1p24f);
        const uint64_t low = (uint64_t)(uniform(seed) * 0x1p24f);
        const uint8_t *from = text->tokens + (high << 24 | low) % places;
        for (long t = 0; t < context; t++) {
            *token++ = from[t];
            *target++ = from[t + 1];
        }
    }
}
