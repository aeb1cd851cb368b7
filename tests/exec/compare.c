/* compare.c: one array after a launch, byte for byte, and a useful word about what differs. */
#include "exec.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_element(ls_type type, const uint8_t *data) {
    uint64_t bits = 0;
    memcpy(&bits, data, type_size(type));
    printf("0x%0*" PRIx64, (int)(2 * type_size(type)), bits);
    float f32;
    double f64;
    int64_t wide = (int64_t)bits;
    const unsigned unused = 64 - 8 * (unsigned)type_size(type);
    switch (type) {
    case LS_F32:
        memcpy(&f32, data, sizeof f32);
        printf(" (%.9g)", (double)f32);
        break;
    case LS_F64:
        memcpy(&f64, data, sizeof f64);
        printf(" (%.17g)", f64);
        break;
    case LS_BF16:
        bits <<= 16;
        memcpy(&f32, &bits, sizeof f32);
        printf(" (%.4g)", (double)f32);
        break;
    case LS_I64:
    case LS_I32:
    case LS_I16:
    case LS_I8:
        wide = (int64_t)(bits << unused) >> unused;
        printf(" (%" PRId64 ")", wide);
        break;
    default: break;
    }
}

/* The inputs at the same coordinate, for those whose axes the result has. */
static void print_inputs(const Array *arrays, size_t count, const Array *result,
                         const int64_t *index) {
    for (size_t i = 0; i < count; i++) {
        const ls_image_parameter *input = arrays[i].parameter;
        if (input->role == LS_OUT || arrays[i].list) continue;
        size_t place = 0;
        bool known = true;
        for (uint32_t a = 0; a < input->rank; a++) {
            uint32_t b = 0;
            while (b < result->parameter->rank && result->parameter->axes[b] != input->axes[a]) b++;
            if (b == result->parameter->rank)
                known = false;
            else
                place = place * (size_t)arrays[i].shape[a] + (size_t)index[b];
        }
        if (!known) continue;
        printf("      with %s = ", input->name);
        print_element(input->type, arrays[i].input + place * arrays[i].element);
        printf("\n");
    }
}

static bool is_nan(ls_type type, const uint8_t *data) {
    static const struct {
        uint64_t magnitude, infinity;
    } formats[LS_TYPE_COUNT] = {[LS_F64] = {0x7fffffffffffffff, 0x7ff0000000000000},
                                [LS_F32] = {0x7fffffff, 0x7f800000},
                                [LS_F16] = {0x7fff, 0x7c00},
                                [LS_BF16] = {0x7fff, 0x7f80},
                                [LS_E4M3] = {0x7f, 0x7e},
                                [LS_E5M2] = {0x7f, 0x7c}};
    uint64_t bits = 0;
    memcpy(&bits, data, type_size(type));
    return formats[type].magnitude && (bits & formats[type].magnitude) > formats[type].infinity;
}

/* A NaN from outside that a `when` leaves alone keeps its bits where its store is skipped; the
 * interpreter stores it again, which makes it the one NaN. */
static bool same_element(const Array *array, size_t i, const uint8_t *found) {
    const uint8_t *expected = array->expected + i * array->element;
    const uint8_t *input = array->input + i * array->element;
    const ls_type type = array->parameter->type;
    return memcmp(found, expected, array->element) == 0 ||
           (array->parameter->role == LS_INOUT && memcmp(found, input, array->element) == 0 &&
            is_nan(type, input) && is_nan(type, expected));
}

bool compare_array(const Array *arrays, size_t count, size_t which, const ls_image *image,
                   const char *situation) {
    const Array *array = &arrays[which];
    if (memcmp(array->image, array->result, array->bytes) == 0) return true;
    const ls_image_parameter *parameter = array->parameter;
    uint8_t *got = must_allocate(array->count * array->element);
    array_gather(array, array->result, got);
    size_t different = 0;
    for (size_t i = 0; i < array->count; i++) {
        uint8_t *found = got + i * array->element;
        if (!same_element(array, i, found))
            different++;
        else
            memcpy(found, array->expected + i * array->element, array->element);
    }
    array_scatter(array, got, array->result);
    if (memcmp(array->image, array->result, array->bytes) == 0) {
        free(got);
        return true;
    }
    printf("  MISMATCH %s, %s: ", situation, parameter->name);
    if (different == 0)
        printf("bytes outside the array were written\n");
    else
        printf("%zu of %zu elements differ\n", different, array->count);
    size_t shown = 0;
    for (size_t i = 0; i < array->count && shown < 3; i++) {
        const uint8_t *expected = array->expected + i * array->element;
        if (memcmp(got + i * array->element, expected, array->element) == 0) continue;
        int64_t index[AXES] = {0};
        size_t rest = i, t = 0;
        if (array->list) {
            while (i - array->tensors[t].begin >= array->tensors[t].count) t++;
            printf("    %s, tensor %zu, element %zu: expected ", parameter->name, t,
                   i - array->tensors[t].begin);
            print_element(parameter->type, expected);
            printf(", found ");
            print_element(parameter->type, got + i * array->element);
            printf("\n");
            shown++;
            continue;
        }
        for (uint32_t a = parameter->rank; a-- > 0;) {
            index[a] = (int64_t)(rest % (size_t)array->shape[a]);
            rest /= (size_t)array->shape[a];
        }
        printf("    %s[", parameter->name);
        for (uint32_t a = 0; a < parameter->rank; a++)
            printf("%s%s=%" PRId64, a ? ", " : "", image->axes[parameter->axes[a]].name, index[a]);
        printf("] expected ");
        print_element(parameter->type, expected);
        printf(", found ");
        print_element(parameter->type, got + i * array->element);
        printf("\n");
        print_inputs(arrays, count, array, index);
        shown++;
    }
    free(got);
    return false;
}
