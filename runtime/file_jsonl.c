/* file_jsonl.c: tokens in lines of JSON: each line is a list of whole numbers, or an object that
 * has one under a key. */
#include "runtime.h"
#include "file.h"
#include "json_read.h"

#include <stdlib.h>
#include <string.h>

typedef struct Tokens {
    int32_t *list;
    size_t count, capacity;
    bool no_memory, no_key; /* no_key: the error is an object without the key */
} Tokens;

static void read_list(JsonReader *json, Tokens *tokens) {
    uint64_t number;
    if (!json_enter(json, '[')) return;
    for (size_t i = 0; json_more(json, '[', i) && json_read_unsigned(json, &number); i++) {
        if (number > INT32_MAX) json->error = "a token below 2^31";
        tokens->no_memory |=
            !array_grow(&tokens->list, &tokens->capacity, tokens->count + 1, sizeof *tokens->list);
        if (tokens->no_memory || json->error) return;
        tokens->list[tokens->count++] = (int32_t)number;
    }
}

static void read_object(JsonReader *json, const char *key, Tokens *tokens) {
    bool found = false;
    char *name;
    if (!json_enter(json, '{')) return;
    for (size_t i = 0; json_more(json, '{', i) && json_key(json, &name); i++) {
        const bool wanted = !found && strcmp(name, key) == 0;
        free(name);
        found |= wanted;
        if (wanted)
            read_list(json, tokens);
        else
            json_skip(json);
    }
    tokens->no_key = !found && !json->error;
    if (tokens->no_key) json->error = "a list under the key `";
}

/* False: it is wrong, or there is no memory. */
static bool read_line(JsonReader *json, const char *key, Tokens *tokens) {
    while (json->at < json->end && memchr(" \t\r", *json->at, 3)) json->at++;
    if (json->at == json->end) return true;
    if (*json->at == '[')
        read_list(json, tokens);
    else
        read_object(json, key, tokens);
    tokens->no_memory |= json->no_memory;
    return !tokens->no_memory && !json->error && json_end(json);
}

static ls_status read_lines(ls_file *file, const char *key, Tokens *tokens) {
    const void *map;
    if (file->size == 0) return LS_OK;
    ls_status status = ls_file_map(file, &map);
    if (status != LS_OK) return status;
    const char *next = map, *end = next + file->size;
    for (uint64_t line = 1; next < end; line++) {
        const char *newline = memchr(next, '\n', (size_t)(end - next));
        JsonReader json = json_reader(next, (size_t)((newline ? newline : end) - next));
        if (!read_line(&json, key, tokens) && !tokens->no_memory)
            return error_set(NULL, LS_ERROR_FILE,
                             "cannot read %s: line %llu, byte %zu: expected %s%.100s%s", file->path,
                             (unsigned long long)line, (size_t)(json.at - next) + 1, json.error,
                             tokens->no_key ? key : "", tokens->no_key ? "`" : "");
        if (tokens->no_memory) return error_memory(NULL, "ls_dataset_create");
        next = newline ? newline + 1 : end;
    }
    return LS_OK;
}

ls_status file_read_tokens(const char *path, const char *key, int32_t **tokens, size_t *count) {
    Tokens all = {0};
    ls_file *file;
    ls_status status = file_open_any(path, &file);
    if (status == LS_OK) status = read_lines(file, key, &all);
    ls_file_close(file);
    if (status != LS_OK) free(all.list);
    *tokens = status == LS_OK ? all.list : NULL;
    *count = all.count;
    return status;
}
