/* array.c: a dense array in host memory: its size, its elements as numbers, its text as NumPy's. */
#include "files.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const TypeName type_names[LS_TYPE_COUNT] = {
#define X(id, spelling, class, bytes) [LS_##id].name = spelling, [LS_##id].size = bytes,
    LS_TYPE_LIST(X)
#undef X
#define X(id, in_npy, in_safetensors) \
    [LS_##id].npy = in_npy, [LS_##id].safetensors = in_safetensors,
        LS_FILE_TYPE_LIST(X)
#undef X
};

void array_free(Array *array) {
    if (!array->borrowed) free(array->data);
    free(array->name);
    *array = (Array){0};
}

bool shape_bytes(ls_type type, uint32_t rank, const int64_t *shape, size_t *count, size_t *bytes) {
    size_t total = 1;
    bool empty = false, huge = false;
    for (uint32_t i = 0; i < rank; i++) {
        if (shape[i] < 0) return false;
        if (shape[i] == 0) {
            empty = true;
        } else if ((uint64_t)shape[i] > (uint64_t)INT64_MAX / total) {
            huge = true;
        } else {
            total *= (size_t)shape[i];
        }
    }
    if (huge && !empty) return false;
    if (empty) total = 0;
    if (total > (size_t)INT64_MAX / type_names[type].size) return false;
    *count = total;
    *bytes = total * type_names[type].size;
    return true;
}

void shape_describe(uint32_t rank, const int64_t *shape, char *text, size_t capacity) {
    size_t used = (size_t)snprintf(text, capacity, "[");
    for (uint32_t i = 0; i < rank && used + 24 < capacity; i++)
        used += (size_t)snprintf(text + used, capacity - used, "%s%lld", i ? ", " : "",
                                 (long long)shape[i]);
    snprintf(text + used, capacity - used, "]");
}

/* A float of `exponent` and `mantissa` bits below its sign; the largest exponent means infinity and
 * NaN unless `finite` (e4m3: only the all-ones pattern is NaN). */
static double small_float(uint32_t bits, int exponent, int mantissa, bool finite) {
    uint32_t fraction = bits & ((1u << mantissa) - 1);
    uint32_t power = bits >> mantissa & ((1u << exponent) - 1);
    double sign = bits >> (exponent + mantissa) & 1 ? -1.0 : 1.0;
    int bias = (1 << (exponent - 1)) - 1;
    if (power == (1u << exponent) - 1) {
        if (finite ? fraction == (1u << mantissa) - 1 : fraction != 0) return (double)NAN;
        if (!finite) return sign * (double)INFINITY;
    }
    if (power == 0) return sign * ldexp((double)fraction, 1 - bias - mantissa);
    return sign * ldexp((double)(fraction | 1u << mantissa), (int)power - bias - mantissa);
}

double element_number(ls_type type, const void *element) {
    union {
        double f64;
        float f32;
        int64_t i64;
        int32_t i32;
        uint64_t u64;
        uint32_t u32;
        int16_t i16;
        int8_t i8;
        uint16_t u16;
        uint8_t u8;
    } e;
    memcpy(&e, element, type_names[type].size);
    switch (type) {
    case LS_F64: return e.f64;
    case LS_F32: return (double)e.f32;
    case LS_I64: return (double)e.i64;
    case LS_I32: return e.i32;
    case LS_U64: return (double)e.u64;
    case LS_U32: return e.u32;
    case LS_F16: return small_float(e.u16, 5, 10, false);
    case LS_BF16: return small_float(e.u16, 8, 7, false);
    case LS_E4M3: return small_float(e.u8, 4, 3, true);
    case LS_E5M2: return small_float(e.u8, 5, 2, false);
    case LS_I16: return e.i16;
    case LS_I8: return e.i8;
    case LS_U16: return e.u16;
    case LS_BOOL:
    case LS_U8:
    default: return e.u8;
    }
}

/* ---- text ---- */

enum { PRINT_WHOLE = 1000, PRINT_EDGE = 3, PRINT_COLUMNS = 75, NUMBER_TEXT = 48 };

typedef struct Printer {
    const Array *array;
    Buffer *out;
    bool abbreviate;
    int width;
} Printer;

/* Indices 0 1 2 ... n-3 n-2 n-1 of a long axis; every index of a short one. -1 stands for the dots.
 */
static int64_t shown(const Printer *printer, int64_t length, int64_t position) {
    if (!printer->abbreviate || length <= 2 * PRINT_EDGE) return position;
    if (position == PRINT_EDGE) return -1;
    return position < PRINT_EDGE ? position : length - (2 * PRINT_EDGE + 1) + position;
}

static int64_t shown_count(const Printer *printer, int64_t length) {
    return printer->abbreviate && length > 2 * PRINT_EDGE ? 2 * PRINT_EDGE + 1 : length;
}

static void element_text(const Printer *printer, size_t index, char *text, size_t capacity) {
    const Array *array = printer->array;
    const char *element = (const char *)array->data + index * type_names[array->type].size;
    number_print(array->type, element, text, capacity);
}

/* Prints (or, without output, measures) the part of the array from `offset` along `axis`. */
static void print_axis(Printer *printer, bool measure, uint32_t axis, size_t offset) {
    const Array *array = printer->array;
    int64_t length = array->shape[axis];
    size_t stride = 1;
    for (uint32_t i = axis + 1; i < array->rank; i++) stride *= (size_t)array->shape[i];
    bool last = axis + 1 == array->rank;
    char text[NUMBER_TEXT];
    size_t column = axis + 1;
    if (!measure) buffer_puts(printer->out, "[");
    for (int64_t i = 0; i < shown_count(printer, length); i++) {
        int64_t index = shown(printer, length, i);
        if (!measure && i > 0 && !last) {
            for (uint32_t k = axis + 1; k < array->rank; k++) buffer_puts(printer->out, "\n");
            buffer_printf(printer->out, "%*s", (int)axis + 1, "");
        }
        if (index < 0) {
            snprintf(text, sizeof text, "...");
        } else if (!last) {
            print_axis(printer, measure, axis + 1, offset + (size_t)index * stride);
            continue;
        } else {
            element_text(printer, offset + (size_t)index, text, sizeof text);
        }
        if (measure) {
            if (index >= 0 && (int)strlen(text) > printer->width)
                printer->width = (int)strlen(text);
            continue;
        }
        int width = index < 0 ? 0 : printer->width;
        size_t size = (size_t)width > strlen(text) ? (size_t)width : strlen(text);
        if (last && i > 0) {
            bool wrap = column + 1 + size > PRINT_COLUMNS;
            if (wrap)
                buffer_printf(printer->out, "\n%*s", (int)axis + 1, "");
            else
                buffer_puts(printer->out, " ");
            column = wrap ? axis + 1 : column + 1;
        }
        buffer_printf(printer->out, "%*s", width, text);
        column += size;
    }
    if (!measure) buffer_puts(printer->out, "]");
}

void array_print(const Array *array, Buffer *out) {
    Printer printer = {.array = array, .out = out};
    size_t count = 0, bytes = 0;
    if (!shape_bytes(array->type, array->rank, array->shape, &count, &bytes)) return;
    if (array->rank == 0) {
        char text[NUMBER_TEXT];
        element_text(&printer, 0, text, sizeof text);
        buffer_puts(out, text);
        return;
    }
    if (count == 0) {
        char shape[400];
        shape_describe(array->rank, array->shape, shape, sizeof shape);
        buffer_puts(out, array->rank == 1 ? "[]" : "[] of shape ");
        if (array->rank > 1) buffer_puts(out, shape);
        return;
    }
    printer.abbreviate = count > PRINT_WHOLE;
    print_axis(&printer, true, 0, 0);
    print_axis(&printer, false, 0, 0);
}
