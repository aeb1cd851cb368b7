/* lsp_json.c: JSON as a tree: a request's members come in any order, and most are not wanted. */
#include "files.h"
#include "command.h"
#include "advise.h"
#include "lsp.h"

#include <stdlib.h>
#include <string.h>

static bool read_value(JsonReader *json, JsonValue *value);

static bool read_members(JsonReader *json, JsonValue *value) {
    JsonValue **end = &value->first;
    if (!json_enter(json, value->kind)) return false;
    for (size_t i = 0; json_more(json, value->kind, i); i++) {
        *end = memory(sizeof **end);
        if (value->kind == '{' && !json_key(json, &(*end)->key)) return false;
        if (!read_value(json, *end)) return false;
        end = &(*end)->next;
    }
    return !json->error;
}

static bool read_value(JsonReader *json, JsonValue *value) {
    while (json->at < json->end && strchr(" \t\r\n", *json->at) && *json->at) json->at++;
    const char first = json->at < json->end ? *json->at : '\0', *begin = json->at;
    if (first == '{' || first == '[' || first == '"') value->kind = first;
    if (first == '"') return json_read_string(json, &value->text);
    if (value->kind) return read_members(json, value);
    if (!json_skip(json)) return false;
    value->text = copy_text(begin, (size_t)(json->at - begin));
    return true;
}

JsonValue *json_tree(const char *text, size_t size, const char **problem) {
    JsonReader json = json_reader(text, size);
    JsonValue *value = memory(sizeof *value);
    if (read_value(&json, value) && json_end(&json)) return value;
    *problem = json.error ? json.error : "one value";
    json_tree_free(value);
    return NULL;
}

void json_tree_free(JsonValue *value) {
    while (value) {
        JsonValue *next = value->next;
        json_tree_free(value->first);
        free(value->key);
        free(value->text);
        free(value);
        value = next;
    }
}

const JsonValue *json_member(const JsonValue *value, const char *path) {
    while (value && *path) {
        const size_t size = strcspn(path, ".");
        const JsonValue *member = value->kind == '{' ? value->first : NULL;
        while (member && (strlen(member->key) != size || memcmp(member->key, path, size) != 0))
            member = member->next;
        value = member;
        path += size + (path[size] == '.');
    }
    return value;
}

const char *json_text_at(const JsonValue *value, const char *path) {
    const JsonValue *member = json_member(value, path);
    return member && member->kind == '"' ? member->text : NULL;
}

bool json_number_at(const JsonValue *value, const char *path, double *number) {
    const JsonValue *member = json_member(value, path);
    char *end;
    if (!member || member->kind) return false;
    *number = strtod(member->text, &end);
    return end != member->text && *end == '\0';
}

bool json_true_at(const JsonValue *value, const char *path) {
    const JsonValue *member = json_member(value, path);
    return member && !member->kind && strcmp(member->text, "true") == 0;
}

void json_write(JsonWriter *json, const char *key, const JsonValue *value) {
    if (!value || !value->kind) {
        json_raw(json, key, value ? value->text : "null");
    } else if (value->kind == '"') {
        json_string(json, key, value->text);
    } else {
        json_open(json, key, value->kind);
        for (const JsonValue *member = value->first; member; member = member->next)
            json_write(json, member->key, member);
        json_close(json, value->kind == '{' ? '}' : ']');
    }
}
