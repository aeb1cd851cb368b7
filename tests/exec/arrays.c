/* arrays.c: where the elements of an array lie. Dense: contiguous on a 16-byte boundary. Pitched:
 * padded rows, whose elements are neighbours, off any boundary. Strided: padded rows, gaps between
 * elements, axes in any order, some walked backwards, off any boundary. The tensors of a list are
 * contiguous, one behind the other with gaps; strided, in any order and off any boundary. Every
 * placement has room around it and in its gaps; a kernel that writes there is caught. */
#include "exec.h"
#include "interp.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM = 256, PATTERN = 0xa5 };

static void open_list(Array *array, const Sizes *sizes, uint32_t list) {
    array->list = true;
    array->tensor_count = (size_t)sizes->of[list - 1][0];
    array->tensors = must_allocate((array->tensor_count + 1) * sizeof *array->tensors);
    array->count = 0;
    for (size_t t = 0; t < array->tensor_count; t++) {
        Tensor *tensor = &array->tensors[t];
        tensor->begin = array->count;
        tensor->count = 1;
        for (uint32_t i = 0, at = 0; i < array->parameter->rank; i++) {
            const uint32_t axis = array->parameter->axes[i];
            if (axis + 1 == list) continue;
            tensor->shape[at] = sizes_length(sizes, axis, (int64_t)t);
            tensor->count *= (size_t)tensor->shape[at++];
        }
        array->count += tensor->count;
    }
}

void array_open(Array *array, const Sizes *sizes, uint32_t parameter) {
    memset(array, 0, sizeof *array);
    array->parameter = &sizes->image->parameters[parameter];
    array->element = type_size(array->parameter->type);
    array->count = 1;
    const uint32_t list = sizes_list(sizes->image, array->parameter);
    if (list) open_list(array, sizes, list);
    for (uint32_t i = 0; i < array->parameter->rank && !list; i++) {
        array->shape[i] = sizes_length(sizes, array->parameter->axes[i], 0);
        array->count *= (size_t)array->shape[i];
    }
    array->input = must_allocate(array->count * array->element);
    array->expected = must_allocate(array->count * array->element);
}

/* Where the tensors lie; the bytes they need. */
static size_t place_tensors(Array *array, Layout layout, uint64_t *state) {
    size_t next = ROOM, count = array->tensor_count;
    size_t *order = must_allocate((count + 1) * sizeof *order);
    for (size_t i = 0; i < count; i++) order[i] = i;
    for (size_t i = count; i > 1 && layout == LAYOUT_STRIDED; i--) {
        const size_t other = (size_t)(random_bits(state) % i), kept = order[other];
        order[other] = order[i - 1];
        order[i - 1] = kept;
    }
    for (size_t i = 0; i < count; i++) {
        Tensor *tensor = &array->tensors[order[i]];
        if (layout == LAYOUT_DENSE)
            next = (next + 15) / 16 * 16;
        else
            next += (size_t)(random_bits(state) % 3) * array->element;
        tensor->place = next;
        next += tensor->count * array->element;
        if (i % 3 == 0) next += 16;
    }
    free(order);
    return next + ROOM;
}

void array_place(Array *array, Layout layout, uint64_t *state) {
    const uint32_t rank = array->list ? 0 : array->parameter->rank;
    uint32_t order[AXES]; /* from the fastest axis to the slowest */
    for (uint32_t i = 0; i < rank; i++) order[i] = rank - 1 - i;
    int64_t next = 1, first = 0, last = 0;
    if (layout == LAYOUT_STRIDED) {
        next = 1 + (int64_t)(random_bits(state) % 3);
        for (uint32_t i = rank; i > 1; i--) {
            const uint32_t other = (uint32_t)(random_bits(state) % i), kept = order[other];
            order[other] = order[i - 1];
            order[i - 1] = kept;
        }
    }
    for (uint32_t i = 0; i < rank; i++) {
        const uint32_t axis = order[i];
        const int64_t length = array->shape[axis] > 0 ? array->shape[axis] : 1;
        array->strides[axis] = next;
        last += next * (length - 1);
        if (layout == LAYOUT_STRIDED && random_bits(state) % 4 == 0) {
            first += next * (length - 1); /* walked backwards from its end */
            array->strides[axis] = -next;
        }
        next *= length;
        if (layout != LAYOUT_DENSE) next += (int64_t)(random_bits(state) % 4);
    }
    const size_t shift = layout != LAYOUT_DENSE ? random_bits(state) % 16 : 0;
    array->first = ROOM + (shift + (size_t)first) * array->element;
    array->bytes = 2 * ROOM + (shift + (size_t)last + 1) * array->element;
    if (array->list) array->bytes = place_tensors(array, layout, state);
    free(array->image);
    free(array->result);
    array->image = must_allocate(array->bytes);
    array->result = must_allocate(array->bytes);
    memset(array->image, PATTERN, array->bytes);
}

static bool is_contiguous(const Array *array) {
    int64_t next = 1;
    for (uint32_t i = array->parameter->rank; i-- > 0; next *= array->shape[i])
        if (array->strides[i] != next) return false;
    return true;
}

/* Calls for every element the copy between its dense place and its placement. */
static void walk(const Array *array, uint8_t *dense, uint8_t *placed, bool gather) {
    const size_t size = array->element;
    const uint32_t rank = array->parameter->rank;
    if (array->count == 0) return;
    for (size_t t = 0; t < array->tensor_count; t++) {
        const Tensor *tensor = &array->tensors[t];
        uint8_t *one = dense + tensor->begin * size, *place = placed + tensor->place;
        if (tensor->count) memcpy(gather ? one : place, gather ? place : one, tensor->count * size);
    }
    if (array->list) return;
    placed += array->first;
    if (is_contiguous(array)) {
        memcpy(gather ? dense : placed, gather ? placed : dense, array->count * size);
        return;
    }
    int64_t index[AXES] = {0}, offset = 0;
    for (size_t i = 0; i < array->count; i++) {
        uint8_t *element = placed + offset * (int64_t)size;
        element_copy(gather ? dense : element, gather ? element : dense, size);
        dense += size;
        for (uint32_t axis = rank; axis-- > 0;) {
            offset += array->strides[axis];
            if (++index[axis] < array->shape[axis]) break;
            offset -= array->strides[axis] * array->shape[axis];
            index[axis] = 0;
        }
    }
}

void array_scatter(const Array *array, const uint8_t *dense, uint8_t *placed) {
    walk(array, (uint8_t *)(uintptr_t)dense, placed, false);
}

void array_gather(const Array *array, const uint8_t *placed, uint8_t *dense) {
    walk(array, dense, (uint8_t *)(uintptr_t)placed, true);
}

void array_close(Array *array) {
    free(array->tensors);
    free(array->input);
    free(array->expected);
    free(array->image);
    free(array->result);
    memset(array, 0, sizeof *array);
}
