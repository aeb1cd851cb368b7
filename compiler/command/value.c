/* value.c: VALUE as `run` takes it: a number, a file, or an array to be made.
 *
 *   0.5   true   data.npy   model.safetensors   model.safetensors:layer.weight
 *   zeros(2,3)   ones(8)   full(2,3, 0.5)   iota(10)   normal(2,3; seed)   uniform(2,3; seed)
 *   and several joined by + for a list
 *
 * A generator without parentheses takes its parameter's shape from the other arrays. The random
 * numbers of `normal` and `uniform` are the same on every machine. */
#include "files.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* ---- numbers ---- */

static bool integer_fits(ls_type type, bool negative, uint64_t magnitude) {
    static const struct {
        ls_type type;
        uint64_t below, above; /* largest magnitudes below and above 0 */
    } ranges[] = {
        {LS_I64, (uint64_t)INT64_MAX + 1, INT64_MAX},
        {LS_I32, (uint64_t)INT32_MAX + 1, INT32_MAX},
        {LS_I16, (uint64_t)INT16_MAX + 1, INT16_MAX},
        {LS_I8, (uint64_t)INT8_MAX + 1, INT8_MAX},
        {LS_U64, 0, UINT64_MAX},
        {LS_U32, 0, UINT32_MAX},
        {LS_U16, 0, UINT16_MAX},
        {LS_U8, 0, UINT8_MAX},
    };
    for (size_t i = 0; i < COUNT(ranges); i++)
        if (ranges[i].type == type)
            return magnitude <= (negative ? ranges[i].below : ranges[i].above);
    return false;
}

/* Decimal or 0x digits after an optional sign; false where it is no integer at all. */
static bool integer_parse(const char *text, bool *negative, uint64_t *magnitude, bool *huge) {
    *negative = *text == '-';
    if (*text == '-' || *text == '+') text++;
    bool hexadecimal = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    const char *begin = hexadecimal ? text + 2 : text;
    if (!isxdigit((unsigned char)*begin)) return false;
    for (const char *at = begin; *at; at++)
        if (hexadecimal ? !isxdigit((unsigned char)*at) : !isdigit((unsigned char)*at))
            return false;
    errno = 0;
    *magnitude = strtoull(begin, NULL, hexadecimal ? 16 : 10);
    *huge = errno == ERANGE;
    return true;
}

static bool float_parse(const char *text, double *number) {
    const char *body = *text == '-' || *text == '+' ? text + 1 : text;
    bool word = strcasecmp(body, "inf") == 0 || strcasecmp(body, "nan") == 0;
    if (!word && !isdigit((unsigned char)*body) && *body != '.') return false;
    if (!word && body[strspn(body, "0123456789.eE+-")]) return false; /* no hexadecimal floats */
    char *end;
    *number = strtod(text, &end);
    if (word && strcasecmp(body, "nan") == 0) *number = (double)NAN;
    return end != text && *end == '\0';
}

/* A finite double as bits of a small float, to nearest even; what is too large becomes the largest
 * finite number where the type saturates, else infinity. */
static uint32_t small_float_bits(double number, int exponent, int mantissa, bool finite,
                                 bool saturate) {
    uint32_t sign = signbit(number) ? 1u << (exponent + mantissa) : 0;
    uint32_t top = (1u << exponent) - 1, fraction_mask = (1u << mantissa) - 1;
    uint32_t infinity = top << mantissa;
    uint32_t largest = finite ? (infinity | fraction_mask) - 1 : infinity - 1;
    if (isnan(number)) return infinity | fraction_mask;
    number = fabs(number);
    int power = -2000, bias = (1 << (exponent - 1)) - 1; /* zero: as subnormals */
    if (number > 0 && isfinite(number)) frexp(number, &power);
    int unit =
        (power - 1 < 1 - bias ? 1 - bias : power - 1) - mantissa; /* exponent of the last bit */
    double scaled = isfinite(number) ? nearbyint(ldexp(number, -unit)) : (double)INFINITY;
    double limit = ldexp(2, mantissa); /* a carry moves into the exponent by itself below */
    if (!isfinite(number) || scaled > limit || unit + mantissa > bias + (finite ? 1 : 0))
        return sign | (saturate ? largest : infinity);
    /* the hidden bit adds one to the exponent field, as in any IEEE format */
    uint32_t field = (uint32_t)(unit + mantissa - (1 - bias));
    uint32_t bits = (field << mantissa) + (uint32_t)scaled;
    if (bits > largest) bits = saturate ? largest : infinity;
    return sign | bits;
}

static void store_float(ls_type type, double number, void *element) {
    float single = (float)number;
    uint16_t half;
    uint8_t byte;
    switch (type) {
    case LS_F64: memcpy(element, &number, sizeof number); return;
    case LS_F32: memcpy(element, &single, sizeof single); return;
    case LS_F16:
        half = (uint16_t)small_float_bits(number, 5, 10, false, false);
        memcpy(element, &half, sizeof half);
        return;
    case LS_BF16:
        half = (uint16_t)small_float_bits(number, 8, 7, false, false);
        memcpy(element, &half, sizeof half);
        return;
    case LS_E4M3:
        byte = (uint8_t)small_float_bits(number, 4, 3, true, true);
        memcpy(element, &byte, sizeof byte);
        return;
    default:
        byte = (uint8_t)small_float_bits(number, 5, 2, false, true);
        memcpy(element, &byte, sizeof byte);
        return;
    }
}

static bool is_float(ls_type type) {
    static const bool floats[LS_TYPE_COUNT] = {
        [LS_F64] = true,  [LS_F32] = true,  [LS_F16] = true,
        [LS_BF16] = true, [LS_E4M3] = true, [LS_E5M2] = true};
    return floats[type];
}

static void store_integer(ls_type type, bool negative, uint64_t magnitude, void *element) {
    uint64_t bits = negative ? 0 - magnitude : magnitude;
    memcpy(element, &bits, type_names[type].size); /* little-endian: the low bytes come first */
}

bool number_parse(const char *text, ls_type type, void *element, char *reason, size_t capacity) {
    bool negative, huge;
    uint64_t magnitude;
    double number;
    const char *name = type_names[type].name;
    if (type == LS_BOOL) {
        bool yes = strcmp(text, "true") == 0 || strcmp(text, "1") == 0;
        if (!yes && strcmp(text, "false") != 0 && strcmp(text, "0") != 0) {
            snprintf(reason, capacity, "'%s' is neither true nor false", text);
            return false;
        }
        memcpy(element, &yes, 1);
        return true;
    }
    bool whole = integer_parse(text, &negative, &magnitude, &huge);
    if (!whole && !float_parse(text, &number)) {
        snprintf(reason, capacity, "'%s' is not a number", text);
        return false;
    }
    if (is_float(type)) {
        if (whole && text[strcspn(text, "xX")])
            number = negative ? -(double)magnitude : (double)magnitude;
        else
            float_parse(text, &number);
        store_float(type, number, element);
        return true;
    }
    if (!whole) {
        snprintf(reason, capacity, "'%s' is not a whole number, and the type is %s", text, name);
        return false;
    }
    if (huge || !integer_fits(type, negative, magnitude)) {
        snprintf(reason, capacity, "%s does not fit %s", text, name);
        return false;
    }
    store_integer(type, negative, magnitude, element);
    return true;
}

/* ---- generators ---- */

uint64_t random_next(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static double random_unit(uint64_t *state) {
    return (double)(random_next(state) >> 11) * 0x1p-53;
}

/* ln(x) for x in (0, 1) from + - * / alone, so that it has the same bits with every libm:
 * x = m 2^e with m in [sqrt(1/2), sqrt(2)), ln m = 2 atanh((m - 1) / (m + 1)). */
static double logarithm(double x) {
    int exponent;
    double m = frexp(x, &exponent);
    if (m < 0.70710678118654757) {
        m *= 2;
        exponent--;
    }
    double t = (m - 1) / (m + 1), square = t * t, sum = 0;
    for (int k = 25; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
    return 2 * t * sum + exponent * 0.69314718055994531;
}

/* Marsaglia's polar method; the second number of each pair is thrown away for simplicity. */
static double random_normal(uint64_t *state) {
    for (;;) {
        double u = 2 * random_unit(state) - 1, v = 2 * random_unit(state) - 1;
        double s = u * u + v * v;
        if (s > 0 && s < 1) return u * sqrt(-2 * logarithm(s) / s);
    }
}

static void make_zeros(const Value *value, ls_type type, uint64_t index, uint64_t *state, void *e) {
    (void)value, (void)index, (void)state;
    memset(e, 0, type_names[type].size);
}

static void make_iota(const Value *value, ls_type type, uint64_t index, uint64_t *state, void *e) {
    (void)value, (void)state;
    if (is_float(type))
        store_float(type, (double)index, e);
    else
        store_integer(type, false, index, e);
}

static void make_uniform(const Value *value, ls_type type, uint64_t index, uint64_t *state,
                         void *e) {
    (void)value, (void)index;
    store_float(type, (double)(random_next(state) >> 40) * 0x1p-24, e); /* below 1 in f32 too */
}

static void make_normal(const Value *value, ls_type type, uint64_t index, uint64_t *state,
                        void *e) {
    (void)value, (void)index;
    store_float(type, random_normal(state), e);
}

/* `full` and `ones` are made by copying; a NULL maker stands for that. */
typedef struct Generator {
    const char *name;
    bool seed, fill, floats; /* takes a seed; takes a last number; makes floats only */
    void (*make)(const Value *, ls_type, uint64_t, uint64_t *, void *);
} Generator;
static const Generator generators[] = {
    {"zeros", false, false, false, make_zeros}, {"ones", false, false, false, NULL},
    {"full", false, true, false, NULL},         {"iota", false, false, false, make_iota},
    {"normal", true, false, true, make_normal}, {"uniform", true, false, true, make_uniform},
};

static const Generator *find_generator(const char *name, size_t size) {
    for (size_t i = 0; i < COUNT(generators); i++)
        if (strlen(generators[i].name) == size && memcmp(generators[i].name, name, size) == 0)
            return &generators[i];
    return NULL;
}

/* ---- parsing ---- */

/* The next piece up to a comma, semicolon or the end, without spaces around it. */
static char *next_piece(const char **at, char *delimiter) {
    const char *begin = *at + strspn(*at, " ");
    const char *end = begin + strcspn(begin, ",;");
    *delimiter = *end;
    *at = *end ? end + 1 : end;
    while (end > begin && end[-1] == ' ') end--;
    return copy_text(begin, (size_t)(end - begin));
}

static bool parse_seed(const char *text, Value *value) {
    bool negative, huge;
    return integer_parse(text, &negative, &value->seed, &huge) && !negative && !huge;
}

/* The inside of the parentheses: lengths; then for `full` the number; after a semicolon the seed.
 */
static bool parse_arguments(const Generator *generator, const char *at, Value *value,
                            Failure *failure) {
    char delimiter = *at ? ',' : '\0';
    if (*at == ';') delimiter = *at++;
    while (delimiter) {
        bool seed = delimiter == ';', good;
        char *piece = next_piece(&at, &delimiter);
        bool last = delimiter == '\0';
        if (generator->fill && last && !seed) {
            value->fill = piece;
            break;
        }
        if (seed) {
            good = generator->seed && last && parse_seed(piece, value);
        } else {
            good = value->rank < LS_RANK_MAX && size_parse(piece, &value->shape[value->rank]);
            value->rank++;
        }
        if (!good)
            fail(failure, STATUS_USAGE, "'%s' in %s is not %s", piece, value->text,
                 seed ? "a seed that this generator takes" : "the length of an axis");
        free(piece);
        if (!good) return false;
    }
    value->has_shape = value->rank > 0;
    if (!generator->fill || value->fill) return true;
    return fail(failure, STATUS_USAGE, "%s needs the number to fill with: full(2,3, 0.5)",
                value->text);
}

static bool parse_generator(const char *text, const Generator *generator, const char *arguments,
                            Value *value, Failure *failure) {
    value->kind = VALUE_GENERATED;
    value->generator = generator->name;
    if (!*arguments) {
        if (!generator->fill) return true;
        return fail(failure, STATUS_USAGE, "%s needs the number to fill with: full(2,3, 0.5)",
                    text);
    }
    size_t size = strlen(arguments);
    if (arguments[size - 1] != ')') {
        const char *end = strrchr(arguments, ')');
        return fail(failure, STATUS_USAGE,
                    end ? "%s goes on behind its closing parenthesis: '%s'"
                        : "%s lacks its closing parenthesis",
                    text, end ? end + 1 : "");
    }
    char *inside = copy_text(arguments + 1, size - 2);
    bool good = parse_arguments(generator, inside, value, failure);
    free(inside);
    return good;
}

static bool ends_with(const char *text, size_t size, const char *ending) {
    size_t length = strlen(ending);
    return size > length && memcmp(text + size - length, ending, length) == 0;
}

static bool parse_file(const char *text, Value *value) {
    static const char ending[] = ".safetensors";
    if (ends_with(text, strlen(text), ".npy")) {
        value->kind = VALUE_NPY;
        value->path = copy_text(text, strlen(text));
        return true;
    }
    for (const char *at = strstr(text, ending); at; at = strstr(at + 1, ending)) {
        const char *after = at + sizeof ending - 1;
        if (at == text || (*after && *after != ':')) continue;
        value->kind = VALUE_SAFETENSORS;
        value->path = copy_text(text, (size_t)(after - text));
        if (*after) value->tensor = copy_text(after + 1, strlen(after + 1));
        return true;
    }
    return false;
}

/* One part of a list, which `+` joins: only asked whether it could be one. */
static bool looks_like_array(const char *text, size_t size) {
    size_t word = strcspn(text, "(");
    if (word > size) word = size;
    char *part = copy_text(text, size);
    bool array =
        find_generator(text, word) || ends_with(part, size, ".npy") || strstr(part, ".safetensors");
    free(part);
    return array;
}

static bool is_list(const char *text) {
    const char *part = text;
    int depth = 0;
    bool list = false;
    for (const char *at = text;; at++) {
        if (*at == '(') depth++;
        if (*at == ')') depth--;
        if (*at && (*at != '+' || depth > 0)) continue;
        if (!looks_like_array(part, (size_t)(at - part))) return false;
        if (!*at) return list;
        list = true;
        part = at + 1;
    }
}

static bool parse_list(const char *text, Value *value, Failure *failure) {
    const char *part = text;
    int depth = 0;
    value->kind = VALUE_LIST;
    for (const char *at = text;; at++) {
        if (*at == '(') depth++;
        if (*at == ')') depth--;
        if (*at && (*at != '+' || depth > 0)) continue;
        value->parts = memory_grow(value->parts, value->part_count + 1, sizeof *value->parts);
        char *own = copy_text(part, (size_t)(at - part));
        Value *parsed = &value->parts[value->part_count];
        if (!value_parse(own, parsed, failure)) {
            free(own);
            return false;
        }
        value->part_count++;
        if (parsed->kind == VALUE_GENERATED && !parsed->has_shape)
            return fail(failure, STATUS_USAGE,
                        "in the list %s, %s needs its lengths, as in zeros(2,3)", text, own);
        if (!*at) return true;
        part = at + 1;
    }
}

bool value_parse(const char *text, Value *value, Failure *failure) {
    bool negative, huge;
    uint64_t magnitude;
    double number;
    *value = (Value){.kind = VALUE_NUMBER, .text = text};
    if (integer_parse(text, &negative, &magnitude, &huge) || float_parse(text, &number) ||
        strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        return true;
    if (is_list(text) && access(text, F_OK) != 0) return parse_list(text, value, failure);
    size_t word = strcspn(text, "(");
    const Generator *generator = find_generator(text, word);
    bool good = generator ? parse_generator(text, generator, text + word, value, failure)
                          : parse_file(text, value);
    if (good) return true;
    value_free(value);
    if (generator) return false;
    fail(failure, STATUS_USAGE, "'%s' is no value: neither a number nor a file nor a generator",
         text);
    const char *names[COUNT(generators)];
    for (size_t i = 0; i < COUNT(generators); i++) names[i] = generators[i].name;
    char *name = copy_text(text, word);
    const char *near = nearest(name, names, COUNT(names));
    if (near)
        fail_help(failure, "did you mean %s%s?", near, text + word);
    else
        fail_help(failure, "a file is x.npy, m.safetensors or m.safetensors:NAME; a generator is "
                           "zeros(2,3), ones(8), full(8, 0.5), iota(8), normal(8; seed) or "
                           "uniform(8; seed)");
    free(name);
    return false;
}

void value_free(Value *value) {
    free(value->path);
    free(value->tensor);
    free(value->fill);
    for (size_t i = 0; i < value->part_count; i++) {
        free((char *)(uintptr_t)value->parts[i].text);
        value_free(&value->parts[i]);
    }
    free(value->parts);
    *value = (Value){0};
}

/* ---- loading ---- */

static bool generate(const Value *value, const char *parameter, ls_type type, uint32_t rank,
                     const int64_t *shape, Array *array, Failure *failure) {
    const Generator *generator = find_generator(value->generator, strlen(value->generator));
    const char *fill = value->fill ? value->fill : "1";
    char reason[200];
    unsigned char element[8];
    size_t count, size = type_names[type].size;
    *array = (Array){.type = type, .rank = value->has_shape ? value->rank : rank};
    const int64_t *lengths = value->has_shape ? value->shape : shape;
    for (uint32_t i = 0; i < array->rank; i++) array->shape[i] = lengths[i];
    if (generator->floats && !is_float(type))
        return fail(failure, STATUS_USAGE, "%s gives floats, but parameter '%s' is %s", value->text,
                    parameter, type_names[type].name);
    if (!shape_bytes(type, array->rank, array->shape, &count, &array->bytes))
        return fail(failure, STATUS_USAGE, "%s=%s has more bytes than memory can have addresses",
                    parameter, value->text);
    if (!generator->make && !number_parse(fill, type, element, reason, sizeof reason))
        return fail(failure, STATUS_USAGE, "%s=%s: %s", parameter, value->text, reason);
    if (generator->make == make_iota && count && !is_float(type) &&
        !(type == LS_BOOL ? count <= 2 : integer_fits(type, false, count - 1)))
        return fail(failure, STATUS_USAGE, "%s=%s: %zu does not fit %s", parameter, value->text,
                    count - 1, type_names[type].name);
    array->data = memory(array->bytes);
    uint64_t state = value->seed;
    if (generator->make == make_zeros) return true; /* memory() is zeroed */
    for (size_t i = 0; i < count; i++) {
        if (generator->make) generator->make(value, type, i, &state, element);
        memcpy((char *)array->data + i * size, element, size);
    }
    return true;
}

/* Which tensor of the file is meant; more than one would be a list. */
static bool choose_tensor(const TensorFile *file, const Value *value, const char *parameter,
                          size_t *chosen, Failure *failure) {
    size_t matches = 0;
    Buffer names = {0};
    for (size_t i = 0; i < file->count; i++) {
        const char *name = ls_file_at(file->file, i)->name;
        if (value->tensor && strcmp(value->tensor, name) == 0) {
            *chosen = i;
            buffer_free(&names);
            return true;
        }
        if (i < 8) buffer_printf(&names, "%s%.100s", i ? ", " : "", name);
        if (value->tensor && fnmatch(value->tensor, name, 0) != 0) continue;
        *chosen = i;
        matches++;
    }
    if (file->count > 8) buffer_printf(&names, " and %zu more", file->count - 8);
    if (matches == 0) {
        fail(failure, STATUS_INPUT, "%s has no tensor '%s'", file->path,
             value->tensor ? value->tensor : "");
        fail_help(failure, file->count ? "it has %s" : "it has none", names.data);
    } else if (matches > 1) {
        fail(failure, STATUS_USAGE,
             "%s stands for a list of %zu tensors, and parameter '%s' is one array", value->text,
             matches, parameter);
        fail_help(failure, "name one of them, %s:NAME; it has %s", file->path, names.data);
    }
    buffer_free(&names);
    return matches == 1;
}

bool value_load(const Value *value, const char *parameter, ls_type type, uint32_t rank,
                const int64_t *shape, Array *array, Failure *failure) {
    if (value->kind == VALUE_GENERATED)
        return generate(value, parameter, type, rank, shape, array, failure);
    if (value->kind == VALUE_NPY) return npy_read(value->path, array, failure);
    if (value->kind == VALUE_LIST)
        return fail(failure, STATUS_USAGE,
                    "%s is a list of %zu tensors, and parameter '%s' is one array", value->text,
                    value->part_count, parameter);
    TensorFile file;
    size_t chosen = 0;
    if (!safetensors_open(value->path, &file, failure)) return false;
    bool loaded = choose_tensor(&file, value, parameter, &chosen, failure) &&
                  safetensors_read(&file, chosen, array, failure);
    safetensors_close(&file);
    return loaded;
}
