/* text.c: words, sizes and numbers as people write and read them, the environment too. */
#include "files.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *command_environment(Variable variable) {
    static const char *const names[] = {
#define X(name, ...) [VARIABLE_##name] = #name,
#include "lockstep/environment.def"
#undef X
    };
    return secure_getenv(names[variable]);
}

const char *command_environment_foreign(const char *name) {
    return secure_getenv(name);
}

/* Edits (insert, delete, replace, swap of neighbours) between two short words. */
static size_t distance(const char *a, const char *b) {
    enum { LONGEST = 40 };
    size_t n = strlen(a), m = strlen(b);
    if (n > LONGEST || m > LONGEST) return LONGEST;
    size_t row[3][LONGEST + 1];
    for (size_t j = 0; j <= m; j++) row[0][j] = j;
    size_t *before = row[2], *last = row[0], *now = row[1];
    for (size_t i = 1; i <= n; i++) {
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < best) best = last[j] + 1;
            if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
        size_t *oldest = before;
        before = last, last = now, now = oldest;
    }
    return last[m];
}

const char *nearest(const char *word, const char *const *names, size_t count) {
    const char *best = NULL;
    size_t limit = strlen(word) < 3 ? 2 : strlen(word) / 3 + 2; /* edits that are too many */
    for (size_t i = 0; i < count; i++) {
        size_t edits = distance(word, names[i]);
        if (edits < limit && edits < strlen(names[i])) {
            limit = edits;
            best = names[i];
        }
    }
    return best;
}

bool size_parse(const char *text, int64_t *size) {
    int64_t value = 0;
    const char *at = text;
    for (; isdigit((unsigned char)*at); at++) {
        int digit = *at - '0';
        if (value > (INT64_MAX - digit) / 10) return false;
        value = value * 10 + digit;
    }
    if (at == text) return false;
    static const char letters[] = "KMG";
    const char *letter = *at ? strchr(letters, toupper((unsigned char)*at)) : NULL;
    if (letter) {
        int64_t unit = (int64_t)1 << (10 * (letter - letters + 1));
        if (value > INT64_MAX / unit) return false;
        value *= unit;
        at++;
    }
    *size = value;
    return *at == '\0';
}

void size_describe(uint64_t bytes, char *text, size_t capacity) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < COUNT(units)) value /= 1024, unit++;
    if (unit == 0)
        snprintf(text, capacity, "%llu byte%s", (unsigned long long)bytes, bytes == 1 ? "" : "s");
    else
        snprintf(text, capacity,
                 value < 9.995   ? "%.2f %s"
                 : value < 99.95 ? "%.1f %s"
                                 : "%.0f %s",
                 value, units[unit]);
}

/* As Python writes it, with `digits` digits: 3.0, 1e-08, 16777216.0, nan. */
static void float_print(double value, int digits, char *text, size_t capacity) {
    if (!isfinite(value)) {
        snprintf(text, capacity, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return;
    }
    snprintf(text, capacity, "%.*e", digits - 1, value);
    int exponent = atoi(strchr(text, 'e') + 1);
    if (exponent < -4 || exponent >= 16) return;
    int decimals = digits - 1 - exponent;
    snprintf(text, capacity, "%.*f", decimals < 1 ? 1 : decimals, value);
}

void double_print(double number, char *text, size_t capacity) {
    for (int digits = 1; digits <= 17; digits++) {
        float_print(number, digits, text, capacity);
        if (strtod(text, NULL) == number) return;
    }
}

void number_print(ls_type type, const void *element, char *text, size_t capacity) {
    int64_t i64;
    uint64_t u64;
    double number;
    switch (type) {
    case LS_I64:
        memcpy(&i64, element, sizeof i64);
        snprintf(text, capacity, "%lld", (long long)i64);
        return;
    case LS_U64:
        memcpy(&u64, element, sizeof u64);
        snprintf(text, capacity, "%llu", (unsigned long long)u64);
        return;
    case LS_BOOL:
        snprintf(text, capacity, "%s", element_number(type, element) != 0 ? "true" : "false");
        return;
    case LS_F64:
        memcpy(&number, element, sizeof number);
        double_print(number, text, capacity);
        return;
    case LS_F32:
    case LS_F16:
    case LS_BF16:
    case LS_E4M3:
    case LS_E5M2: /* the narrow ones are printed as the f32 they load as */
        number = element_number(type, element);
        for (int digits = 1; digits <= 9; digits++) {
            float_print(number, digits, text, capacity);
            if (strtof(text, NULL) == (float)number) return;
        }
        return;
    default: snprintf(text, capacity, "%lld", (long long)element_number(type, element)); return;
    }
}
