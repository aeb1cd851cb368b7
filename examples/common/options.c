/* options.c: the command line, from a table with a row per option. */
#include "common.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", program_name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return false;
}

static void print_help(const OptionTable *table) {
    printf("%s: %s\n\nusage: %s [--OPTION [VALUE]]...\n\n", program_name, table->about,
           program_name);
    for (const OptionRow *row = table->rows; row < table->rows + table->count; row++) {
        char left[64];
        snprintf(left, sizeof left, "--%s %s", row->name, row->argument);
        printf("  %-20s %s", left, row->meaning);
        if (row->initial && (row->kind == WHOLE || row->kind == REAL))
            printf(" (%s)", row->initial);
        putchar('\n');
    }
    if (table->print_more) table->print_more();
}

bool option_set(const OptionRow *row, void *options, const char *text) {
    char *field = (char *)options + row->at, *end;
    if (row->kind == TEXT) {
        memcpy(field, &text, sizeof text);
        return true;
    }
    const double value = strtod(text, &end);
    const bool number = end != text && !*end && !isspace((unsigned char)*text);
    if (!number || !(value >= row->least) || !(value <= row->most) ||
        (row->kind == WHOLE && (double)(long)value != value))
        return fail("--%s is `%s`; it takes a %s from %g to %g", row->name, text,
                    row->kind == WHOLE ? "whole number" : "number", row->least, row->most);
    const long whole = (long)value;
    if (row->kind != REAL)
        memcpy(field, &whole, sizeof whole);
    else
        memcpy(field, &value, sizeof value);
    return true;
}

/* NULL with a message: there is none of that name. */
static const OptionRow *find_row(const OptionTable *table, const char *argument) {
    for (size_t i = 0; strncmp(argument, "--", 2) == 0 && i < table->count; i++)
        if (strcmp(argument + 2, table->rows[i].name) == 0) return &table->rows[i];
    fail("there is no option `%s`; --help lists them", argument);
    return NULL;
}

int options_parse(const OptionTable *table, void *options, int count, char **arguments,
                  uint64_t *given) {
    for (size_t i = 0; i < table->count; i++)
        if (table->rows[i].initial) option_set(&table->rows[i], options, table->rows[i].initial);
    for (int i = 1; i < count; i++) {
        if (strcmp(arguments[i], "--help") == 0 || strcmp(arguments[i], "-h") == 0) {
            print_help(table);
            return -1;
        }
        const OptionRow *row = find_row(table, arguments[i]);
        if (!row) return WRONG_ARGUMENTS;
        if (row->kind != FLAG && i + 1 == count) {
            fail("%s needs a value: %s", arguments[i], row->meaning);
            return WRONG_ARGUMENTS;
        }
        const char *text = row->kind == FLAG ? "1" : arguments[++i];
        if (table->take && table->take(options, row, text)) continue;
        if (!option_set(row, options, text)) return WRONG_ARGUMENTS;
        if (given) *given |= (uint64_t)1 << (row - table->rows);
    }
    return 0;
}
