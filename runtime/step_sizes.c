/* step_sizes.c: how long every axis is, and the counts that follow from it.
 *
 * Lengths come from the shapes bound and must agree by the axis's name, tensor by tensor where the
 * axis is ragged. What no shape gives follows: blocks from what they are blocks of, and axes with
 * an expression. Needs: bindings that ls_step_bind and ls_step_bind_list accepted. */
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TERMS_DEPTH = 16, TERM_TEXT = 128 };

bool axis_is_rest(const ls_image *image, size_t axis) {
    const ls_image_axis *row = &image->axes[axis];
    return row->whole && row->parent && image->axes[row->parent - 1].whole == row->whole;
}

bool axis_is_blocks(const ls_image *image, size_t axis) {
    return image->axes[axis].whole && !axis_is_rest(image, axis);
}

int axis_list(const ls_image *image, size_t axis) {
    size_t root = axis;
    for (uint32_t i = 0; i < image->axis_count && image->axes[root].parent; i++)
        root = image->axes[root].parent - 1;
    if (root == axis || image->axes[root].whole) return -1;
    return (int)root;
}

bool axis_is_ragged(const ls_image *image, size_t axis) {
    return axis_list(image, axis) >= 0 && !axis_is_rest(image, axis);
}

bool axis_counts_tensors(const ls_image *image, size_t axis) {
    for (size_t i = 0; i < image->axis_count; i++)
        if (axis_list(image, i) == (int)axis) return true;
    return false;
}

int64_t step_length(const ls_step *step, size_t axis, size_t tensor) {
    if (!axis_is_ragged(step->image, axis)) return step->sizes[axis];
    const int64_t *lengths = step->lengths[axis].of;
    return lengths ? lengths[tensor] : 0;
}

/* What is known while lengths are gathered. */
typedef struct Search {
    ls_step *step;
    const char *call;
    const char *giver[LS_AXES_MAX]; /* the parameter each axis was first taken from; NULL: none */
} Search;

static const char *axis_name(const Search *s, size_t axis) {
    return s->step->image->axes[axis].name;
}

/* " of tensor 17" for a ragged axis. */
static const char *which_tensor(const Search *s, size_t axis, size_t tensor, char *text,
                                size_t size) {
    text[0] = 0;
    if (axis_is_ragged(s->step->image, axis)) snprintf(text, size, " of tensor %zu", tensor);
    return text;
}

static ls_status too_long(const Search *s, size_t axis) {
    return error_set(&s->step->context->error, LS_ERROR_BIND,
                     "%s: axis `%s` of step `%s` would be longer than memory can be", s->call,
                     axis_name(s, axis), s->step->image->step);
}

/* The lengths of a ragged axis get room for every tensor. */
static ls_status make_room(Search *s, size_t axis) {
    Lengths *lengths = &s->step->lengths[axis];
    size_t count = (size_t)s->step->sizes[axis_list(s->step->image, axis)];
    if (count <= lengths->capacity) return LS_OK;
    int64_t *grown = realloc(lengths->of, count * sizeof *grown);
    if (!grown) return error_memory(&s->step->context->error, s->call);
    lengths->of = grown;
    lengths->capacity = count;
    return LS_OK;
}

/* Axis `axis` has one length for all, and `name` gives it. */
static ls_status take(Search *s, size_t axis, int64_t length, const char *name) {
    const ls_image *image = s->step->image;
    int64_t *size = &s->step->sizes[axis];
    if (axis_is_rest(image, axis)) return LS_OK; /* judged when it was bound */
    if (s->giver[axis] && *size != length)
        return error_set(&s->step->context->error, LS_ERROR_BIND,
                         "%s: axis `%s` of step `%s` is %lld in `%s` and %lld in `%s`", s->call,
                         axis_name(s, axis), image->step, (long long)*size, s->giver[axis],
                         (long long)length, name);
    if (!s->giver[axis]) s->giver[axis] = name;
    *size = length;
    return LS_OK;
}

static ls_status tensors_differ(const Search *s, size_t axis, size_t tensor, int64_t length,
                                const char *name, bool flat) {
    const ls_step *step = s->step;
    long long first = step->lengths[axis].of[tensor];
    if (flat)
        return error_set(&step->context->error, LS_ERROR_BIND,
                         "%s: tensor %zu has %lld elements in `%s` and %lld in `%s` (axis `%s` of "
                         "step `%s`)",
                         s->call, tensor, first, s->giver[axis], (long long)length, name,
                         axis_name(s, axis), step->image->step);
    return error_set(&step->context->error, LS_ERROR_BIND,
                     "%s: axis `%s` of step `%s` is %lld in tensor %zu of `%s` and %lld in tensor "
                     "%zu of `%s`",
                     s->call, axis_name(s, axis), step->image->step, first, tensor, s->giver[axis],
                     (long long)length, tensor, name);
}

/* The number-th length of every tensor of a list is that of `axis`. */
static ls_status take_lengths(Search *s, size_t axis, const List *list, size_t rank, size_t number,
                              const char *name) {
    ls_status status = LS_OK;
    if (!axis_is_ragged(s->step->image, axis)) {
        for (size_t i = 0; i < list->count && status == LS_OK; i++)
            status = take(s, axis, list->lengths[i * rank + number], name);
        return status;
    }
    status = make_room(s, axis);
    if (status != LS_OK) return status;
    int64_t *lengths = s->step->lengths[axis].of;
    for (size_t i = 0; i < list->count; i++) {
        int64_t length = list->lengths[i * rank + number];
        if (s->giver[axis] && lengths[i] != length)
            return tensors_differ(s, axis, i, length, name, rank == 1);
        lengths[i] = length;
    }
    if (!s->giver[axis]) s->giver[axis] = name;
    return LS_OK;
}

static ls_status take_parameter(Search *s, size_t number) {
    const ls_image_parameter *row = &s->step->image->parameters[number];
    const Binding *binding = &s->step->bindings[number];
    ls_status status = LS_OK;
    if (binding->list_axis < 0) {
        for (uint32_t i = 0; i < row->rank && status == LS_OK; i++)
            status = take(s, row->axes[i], binding->shape[i], row->name);
        return status;
    }
    size_t axis = (size_t)binding->list_axis, position = 0;
    const List *list = &binding->list;
    if (s->giver[axis] && s->step->sizes[axis] != (int64_t)list->count)
        return error_set(&s->step->context->error, LS_ERROR_BIND,
                         "%s: axis `%s` of step `%s` is %lld in `%s`, but `%s` has %zu tensor%s",
                         s->call, axis_name(s, axis), s->step->image->step,
                         (long long)s->step->sizes[axis], s->giver[axis], row->name, list->count,
                         list->count == 1 ? "" : "s");
    status = take(s, axis, (int64_t)list->count, row->name);
    for (uint32_t i = 0; i < row->rank && status == LS_OK; i++)
        if (row->axes[i] != axis)
            status = take_lengths(s, row->axes[i], list, row->rank - 1, position++, row->name);
    return status;
}

/* ---- lengths that follow from others ---- */

static void lengths_for(const ls_step *step, size_t tensor, int64_t lengths[LS_AXES_MAX]) {
    for (size_t i = 0; i < step->image->axis_count; i++) lengths[i] = step_length(step, i, tensor);
}

/* An axis's expression as one would write it: "2 * h". */
static void expression_text(const ls_image *image, const ls_image_axis *axis, char *text,
                            size_t size) {
    static const char *const signs[] = {[LS_TERM_ADD] = "+",
                                        [LS_TERM_SUBTRACT] = "-",
                                        [LS_TERM_MULTIPLY] = "*",
                                        [LS_TERM_DIVIDE] = "//",
                                        [LS_TERM_REMAINDER] = "%"};
    char stack[TERMS_DEPTH][TERM_TEXT];
    bool compound[TERMS_DEPTH] = {false};
    size_t depth = 0;
    for (uint32_t i = 0; i < axis->term_count; i++) {
        const ls_image_term *term = &axis->terms[i];
        if (term->operation == LS_TERM_NUMBER || term->operation == LS_TERM_AXIS) {
            if (depth == TERMS_DEPTH) break;
            if (term->operation == LS_TERM_AXIS)
                snprintf(stack[depth], TERM_TEXT, "%s", image->axes[term->value].name);
            else
                snprintf(stack[depth], TERM_TEXT, "%lld", (long long)term->value);
            compound[depth++] = false;
            continue;
        }
        if (depth < 2) break;
        char joined[2 * TERM_TEXT + 16];
        size_t a = depth - 2, b = depth - 1;
        snprintf(joined, sizeof joined, "%s%s%s %s %s%s%s", compound[a] ? "(" : "", stack[a],
                 compound[a] ? ")" : "", signs[term->operation], compound[b] ? "(" : "", stack[b],
                 compound[b] ? ")" : "");
        memcpy(stack[a], joined, TERM_TEXT - 1);
        stack[a][TERM_TEXT - 1] = 0;
        compound[a] = true;
        depth--;
    }
    snprintf(text, size, "%s", depth ? stack[0] : "?");
}

static ls_status expression_differs(const Search *s, size_t axis, size_t tensor, int64_t value) {
    char text[TERM_TEXT], where[48];
    const ls_image *image = s->step->image;
    expression_text(image, &image->axes[axis], text, sizeof text);
    which_tensor(s, axis, tensor, where, sizeof where);
    if (!s->giver[axis])
        return error_set(&s->step->context->error, LS_ERROR_BIND,
                         "%s: axis `%s`%s of step `%s` is %s = %lld, and no axis can have %lld "
                         "elements",
                         s->call, axis_name(s, axis), where, image->step, text, (long long)value,
                         (long long)value);
    return error_set(&s->step->context->error, LS_ERROR_BIND,
                     "%s: axis `%s`%s of step `%s` is %s = %lld, but it is %lld in `%s`", s->call,
                     axis_name(s, axis), where, image->step, text, (long long)value,
                     (long long)step_length(s->step, axis, tensor), s->giver[axis]);
}

static ls_status blocks_differ(const Search *s, size_t axis, size_t tensor, int64_t value) {
    const ls_image *image = s->step->image;
    const ls_image_axis *row = &image->axes[axis];
    size_t whole = row->whole - 1;
    char where[48];
    which_tensor(s, axis, tensor, where, sizeof where);
    return error_set(
        &s->step->context->error, LS_ERROR_BIND,
        "%s: axis `%s`%s of step `%s` has %lld elements in `%s`, which is %lld block%s of %lld, "
        "but axis `%s` is %lld in `%s`",
        s->call, axis_name(s, whole), where, image->step,
        (long long)step_length(s->step, whole, tensor),
        s->giver[whole] ? s->giver[whole] : "its expression", (long long)value,
        value == 1 ? "" : "s", (long long)row->length, axis_name(s, axis),
        (long long)step_length(s->step, axis, tensor), s->giver[axis]);
}

static size_t tensors_of(const Search *s, size_t axis) {
    if (!axis_is_ragged(s->step->image, axis)) return 1;
    return (size_t)s->step->sizes[axis_list(s->step->image, axis)];
}

static int64_t *lengths_of(const Search *s, size_t axis) {
    return axis_is_ragged(s->step->image, axis) ? s->step->lengths[axis].of : &s->step->sizes[axis];
}

/* Sets the lengths that `value` computes, or compares with those an array gave. */
typedef ls_status Differ(const Search *s, size_t axis, size_t tensor, int64_t value);
static ls_status settle(Search *s, size_t axis, bool (*value)(Search *, size_t, size_t, int64_t *),
                        Differ *differ) {
    ls_status status = axis_is_ragged(s->step->image, axis) ? make_room(s, axis) : LS_OK;
    if (status != LS_OK) return status;
    for (size_t i = 0; i < tensors_of(s, axis); i++) {
        int64_t length;
        if (!value(s, axis, i, &length)) return too_long(s, axis);
        if (length < 0 || (s->giver[axis] && lengths_of(s, axis)[i] != length))
            return differ(s, axis, i, length);
        lengths_of(s, axis)[i] = length;
    }
    return LS_OK;
}

static bool value_of_terms(Search *s, size_t axis, size_t tensor, int64_t *value) {
    const ls_image_axis *row = &s->step->image->axes[axis];
    int64_t lengths[LS_AXES_MAX];
    lengths_for(s->step, tensor, lengths);
    return ls_image_length(row->terms, row->term_count, lengths, value);
}

static bool value_of_blocks(Search *s, size_t axis, size_t tensor, int64_t *value) {
    const ls_image_axis *row = &s->step->image->axes[axis];
    int64_t whole = step_length(s->step, row->whole - 1, tensor);
    *value = whole / row->length + (whole % row->length != 0);
    return true;
}

static bool value_of_whole(Search *s, size_t axis, size_t tensor, int64_t *value) {
    const ls_image *image = s->step->image;
    for (size_t q = 0; q < image->axis_count; q++)
        if (axis_is_blocks(image, q) && image->axes[q].whole == axis + 1)
            return !__builtin_mul_overflow(step_length(s->step, q, tensor),
                                           image->axes[axis].length, value);
    return false;
}

static bool blocks_given(const Search *s, size_t axis) {
    const ls_image *image = s->step->image;
    for (size_t q = 0; q < image->axis_count; q++)
        if (axis_is_blocks(image, q) && image->axes[q].whole == axis + 1 && s->giver[q])
            return true;
    return false;
}

static bool uses(const ls_image_axis *axis, size_t other) {
    for (uint32_t i = 0; i < axis->term_count; i++)
        if (axis->terms[i].operation == LS_TERM_AXIS && axis->terms[i].value == (int64_t)other)
            return true;
    return false;
}

/* Whether the expression of `sized`, which an array gives, has no other unknown than `axis`. */
static bool says(const Search *s, size_t axis, size_t sized) {
    const ls_image *image = s->step->image;
    const ls_image_axis *row = &image->axes[sized];
    if (!row->terms || !s->giver[sized] || !uses(row, axis)) return false;
    if (axis_list(image, sized) != axis_list(image, axis)) return false;
    for (size_t other = axis + 1; other < sized; other++)
        if (uses(row, other) && !s->giver[other] && image->axes[other].fixed < 0)
            return false; /* not known yet */
    return true;
}

/* Of `w = 2 * h` an array over w says how long h is. */
static bool settle_backwards(Search *s, size_t axis, size_t sized) {
    if (!says(s, axis, sized)) return false;
    const ls_image_axis *row = &s->step->image->axes[sized];
    for (size_t i = 0; i < tensors_of(s, axis); i++) {
        int64_t lengths[LS_AXES_MAX];
        lengths_for(s->step, i, lengths);
        const int64_t length =
            ls_image_solve(row->terms, row->term_count, axis, lengths, lengths_of(s, sized)[i]);
        if (length < 0) return false;
        lengths_of(s, axis)[i] = length;
    }
    return true;
}

static ls_status no_solution(const Search *s, size_t axis, size_t sized) {
    char text[TERM_TEXT];
    expression_text(s->step->image, &s->step->image->axes[sized], text, sizeof text);
    return error_set(&s->step->context->error, LS_ERROR_BIND,
                     "%s: axis `%s` of step `%s` is %s, and no one length of `%s` makes that what "
                     "it is in `%s`",
                     s->call, axis_name(s, sized), s->step->image->step, text, axis_name(s, axis),
                     s->giver[sized]);
}

static ls_status settle_axis(Search *s, size_t axis) {
    const ls_image *image = s->step->image;
    const ls_image_axis *row = &image->axes[axis];
    if (axis_is_rest(image, axis)) return LS_OK;
    if (row->whole) return settle(s, axis, value_of_blocks, blocks_differ);
    if (row->terms) return settle(s, axis, value_of_terms, expression_differs);
    if (s->giver[axis] || row->fixed >= 0) return LS_OK;
    /* Nothing says where the last block ends, so it is whole. */
    if (blocks_given(s, axis)) return settle(s, axis, value_of_whole, blocks_differ);
    if (axis_is_ragged(image, axis)) {
        ls_status status = make_room(s, axis);
        if (status != LS_OK) return status;
    }
    for (size_t sized = axis + 1; sized < image->axis_count; sized++)
        if (settle_backwards(s, axis, sized)) return LS_OK;
    for (size_t sized = axis + 1; sized < image->axis_count; sized++)
        if (says(s, axis, sized)) return no_solution(s, axis, sized);
    bool arrays = false;
    for (uint32_t p = 0; p < image->parameter_count; p++)
        for (uint32_t k = 0; k < image->parameters[p].rank; k++)
            arrays |= image->parameters[p].axes[k] == axis;
    if (!arrays && !axis_is_ragged(image, axis))
        return error_set(&s->step->context->error, LS_ERROR_BIND,
                         "%s: the length of axis `%s` of step `%s`, which no parameter has, is not "
                         "given; call ls_step_set_length",
                         s->call, row->name, image->step);
    return error_set(&s->step->context->error, LS_ERROR_BIND,
                     "%s: nothing bound to step `%s` gives the length%s of axis `%s`; bind one of "
                     "the arrays that have it",
                     s->call, image->step, axis_is_ragged(image, axis) ? "s" : "", row->name);
}

static bool is_flat(const ls_step *step, size_t parameter) {
    return step->bindings[parameter].bound && step->bindings[parameter].list.flat;
}

/* Where nothing says how many tensors a list has, one array bound for all of it is the only one. */
static ls_status take_flat(Search *s, size_t number) {
    ls_step *step = s->step;
    const ls_image_parameter *parameter = &step->image->parameters[number];
    const size_t axis = (size_t)step->bindings[number].list_axis;
    const bool counted = s->giver[axis] || step->sizes[axis] >= 0;
    if (parameter->rank != 2 || s->giver[parameter->axes[parameter->axes[0] == axis]] ||
        (counted && step->sizes[axis] != 1) || (step->given[axis] >= 0 && step->given[axis] != 1))
        return LS_OK;
    ls_status status = list_cut(step, s->call, number, true);
    return status == LS_OK ? take_parameter(s, number) : status;
}

ls_status step_find_sizes(ls_step *step, const char *call) {
    const ls_image *image = step->image;
    Search search = {step, call, {NULL}};
    ls_status status = LS_OK;
    for (uint32_t i = 0; i < image->axis_count; i++)
        step->sizes[i] = axis_is_rest(image, i) ? image->axes[i].length : image->axes[i].fixed;
    for (uint32_t i = 0; i < image->parameter_count && status == LS_OK; i++)
        if (step->bindings[i].bound && !is_flat(step, i)) status = take_parameter(&search, i);
    for (uint32_t i = 0; i < image->parameter_count && status == LS_OK; i++)
        if (is_flat(step, i)) status = take_flat(&search, i);
    for (uint32_t i = 0; i < image->axis_count && status == LS_OK; i++)
        if (step->given[i] >= 0) status = take(&search, i, step->given[i], "ls_step_set_length");
    for (uint32_t i = 0; i < image->axis_count && status == LS_OK; i++)
        status = settle_axis(&search, i);
    for (uint32_t i = 0; i < image->parameter_count && status == LS_OK; i++)
        if (is_flat(step, i)) status = list_cut(step, call, i, false);
    return status;
}

ls_status ls_step_set_length(ls_step *step, const char *axis, int64_t length) {
    static const char call[] = "ls_step_set_length";
    if (!step || !axis)
        return error_set(step ? &step->context->error : NULL, LS_ERROR_ARGUMENT, "%s: %s is NULL",
                         call, step ? "axis" : "step");
    const ls_image *image = step->image;
    ls_status status = context_not_capturing(step->context, call);
    uint32_t number = 0;
    if (status != LS_OK) return status;
    while (number < image->axis_count && strcmp(image->axes[number].name, axis) != 0) number++;
    const ls_image_axis *row = number < image->axis_count ? &image->axes[number] : NULL;
    if (!row)
        return error_set(&step->context->error, LS_ERROR_ARGUMENT,
                         "%s: step `%s` has no axis `%.64s`", call, image->step, axis);
    if (row->parent || row->whole)
        return error_set(&step->context->error, LS_ERROR_ARGUMENT,
                         "%s: axis `%s` of step `%s` has no one length of its own; bind the arrays "
                         "that have it",
                         call, axis, image->step);
    if (length < 0 || (row->fixed >= 0 && row->fixed != length))
        return error_set(&step->context->error, LS_ERROR_BIND,
                         "%s: axis `%s` of step `%s` cannot have %lld elements", call, axis,
                         image->step, (long long)length);
    if (step->given[number] != length) step->ready = step->sized = false;
    step->given[number] = length;
    return LS_OK;
}

/* ---- counts ---- */

/* Of the lengths of the axes but the list's; false: it does not fit. */
static bool product_of(const ls_step *step, uint32_t axes, uint32_t list, size_t tensor,
                       uint64_t *value) {
    uint64_t product = 1;
    bool fits = true;
    for (uint32_t a = 0; a < step->image->axis_count && product; a++) {
        if (!(axes >> a & 1) || a + 1 == list) continue;
        uint64_t length = (uint64_t)step_length(step, a, tensor), larger;
        if (length == 0)
            product = 0;
        else if (fits && !__builtin_mul_overflow(product, length, &larger))
            product = larger;
        else
            fits = false;
    }
    *value = product;
    return fits || product == 0;
}

static bool factor_value(const ls_step *step, const ls_image_factor *factor, uint32_t list,
                         size_t tensor, uint64_t *value) {
    uint64_t product, most, divide = factor->divide ? factor->divide : 1;
    bool fits = product_of(step, factor->axes, list, tensor, &product);
    if (factor->within && product_of(step, factor->within, list, tensor, &most)) {
        product = fits && product < most ? product : most;
        fits = true;
    }
    if (!fits) return false;
    product = product / divide + (product % divide != 0);
    *value = product < factor->minimum ? factor->minimum : product;
    return true;
}

bool extent_part(const ls_step *step, const ls_image_extent *extent, size_t tensor,
                 uint64_t *value) {
    uint64_t total = extent->scale, part;
    for (uint32_t i = 0; i < extent->factor_count; i++)
        if (!factor_value(step, &extent->factor[i], extent->list, tensor, &part) ||
            __builtin_mul_overflow(total, part, &total))
            return false;
    *value = total;
    return true;
}

bool extent_value(const ls_step *step, const ls_image_extent *extent, uint64_t *value) {
    if (!extent->list) return extent_part(step, extent, 0, value);
    size_t count = (size_t)step->sizes[extent->list - 1];
    uint64_t total = 0, part;
    for (size_t i = 0; i < count; i++)
        if (!extent_part(step, extent, i, &part) || __builtin_add_overflow(total, part, &total))
            return false;
    *value = total;
    return true;
}

bool extent_largest(const ls_step *step, const ls_image_extent *extent, uint64_t *value) {
    if (!extent->list) return extent_part(step, extent, 0, value);
    size_t count = (size_t)step->sizes[extent->list - 1];
    uint64_t part;
    *value = 0;
    for (size_t i = 0; i < count; i++) {
        if (!extent_part(step, extent, i, &part)) return false;
        if (part > *value) *value = part;
    }
    return true;
}
