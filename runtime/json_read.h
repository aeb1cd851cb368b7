/* json_read.h: a strict reader of JSON. It is the runtime's, for .safetensors files, and the
 * command's. */
#ifndef JSON_READ_H
#define JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool text_is_utf8(const char *text, size_t size);

typedef struct JsonReader {
    const char *start, *at, *end;
    const char *error; /* NULL, or what was expected at `at`; everything fails from then on */
    unsigned depth;
    bool no_memory;
} JsonReader;
JsonReader json_reader(const char *text, size_t size);
bool json_enter(JsonReader *json, char bracket); /* '{' or '[' */
/* Whether another member follows; consumes the comma or the closing bracket. `index` counts from 0.
 */
bool json_more(JsonReader *json, char bracket, size_t index);
bool json_key(JsonReader *json, char **key);          /* with its colon; the caller frees */
bool json_read_string(JsonReader *json, char **text); /* the caller frees */
bool json_read_unsigned(JsonReader *json, uint64_t *number);
bool json_skip(JsonReader *json); /* any one value */
bool json_end(JsonReader *json);  /* nothing but spaces is left */

#endif
