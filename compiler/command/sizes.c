/* sizes.c: the lengths of a step's axes as the command line and the arrays give them.
 *
 * A ragged axis has a length per tensor, or one for all; blocks and axes with an expression follow
 * from the others. Whether everything that is bound agrees is the runtime's to judge; here lengths
 * are found for the arrays that the command itself makes. */
#include "files.h"
#include "command.h"

#include <stdlib.h>
#include <string.h>

enum {
    TERMS_DEPTH = 16,
    TENSORS_MAX = 1 << 20 /* of a list that --size requests: each costs a name, a shape, a seed */
};

bool sizes_is_rest(const ls_image *image, size_t axis) {
    const ls_image_axis *row = &image->axes[axis];
    return row->whole && row->parent && image->axes[row->parent - 1].whole == row->whole;
}

int sizes_list(const ls_image *image, size_t axis) {
    size_t root = axis;
    for (uint32_t i = 0; i < image->axis_count && image->axes[root].parent; i++)
        root = image->axes[root].parent - 1;
    return root == axis || image->axes[root].whole ? -1 : (int)root;
}

bool sizes_is_ragged(const ls_image *image, size_t axis) {
    return sizes_list(image, axis) >= 0 && !sizes_is_rest(image, axis);
}

bool sizes_counts_tensors(const ls_image *image, size_t axis) {
    for (size_t i = 0; i < image->axis_count; i++)
        if (sizes_list(image, i) == (int)axis) return true;
    return false;
}

int parameter_list(const ls_image *image, const ls_image_parameter *parameter) {
    for (uint32_t i = 0; i < parameter->rank; i++)
        if (sizes_list(image, parameter->axes[i]) >= 0)
            return sizes_list(image, parameter->axes[i]);
    return -1;
}

void sizes_open(Sizes *sizes, const ls_image *image) {
    *sizes = (Sizes){.image = image};
    for (size_t i = 0; i < image->axis_count; i++) {
        const ls_image_axis *axis = &image->axes[i];
        sizes->size[i] = sizes_is_rest(image, i) ? axis->length : axis->fixed;
        if (sizes->size[i] >= 0) sizes->set_by[i] = "the program";
    }
}

void sizes_close(Sizes *sizes) {
    for (size_t i = 0; i < COUNT(sizes->lengths); i++) free(sizes->lengths[i]);
    *sizes = (Sizes){0};
}

/* An axis's expression for one tensor, or -1: a term is not known, or the value no length. */
static int64_t evaluate(const Sizes *sizes, const ls_image_axis *axis, size_t tensor) {
    int64_t stack[TERMS_DEPTH];
    size_t depth = 0;
    for (uint32_t i = 0; i < axis->term_count; i++) {
        const ls_image_term *term = &axis->terms[i];
        bool leaf = term->operation == LS_TERM_NUMBER || term->operation == LS_TERM_AXIS;
        if (leaf ? depth == TERMS_DEPTH : depth < 2) return -1;
        if (term->operation == LS_TERM_NUMBER) stack[depth++] = term->value;
        if (term->operation == LS_TERM_AXIS) {
            stack[depth] = sizes_at(sizes, (size_t)term->value, tensor);
            if (stack[depth++] < 0) return -1;
        }
        if (leaf) continue;
        int64_t b = stack[--depth], *a = &stack[depth - 1], quotient = 0;
        if (b && !(b == -1 && *a == INT64_MIN))
            quotient = *a / b - (*a % b != 0 && (*a < 0) != (b < 0));
        bool overflow = false;
        switch (term->operation) {
        case LS_TERM_ADD: overflow = __builtin_add_overflow(*a, b, a); break;
        case LS_TERM_SUBTRACT: overflow = __builtin_sub_overflow(*a, b, a); break;
        case LS_TERM_MULTIPLY: overflow = __builtin_mul_overflow(*a, b, a); break;
        case LS_TERM_DIVIDE: *a = quotient; break;
        default: *a = b ? *a - quotient * b : 0; break;
        }
        if (overflow) return -1;
    }
    return depth == 1 ? stack[0] : -1;
}

static int64_t given(const Sizes *sizes, size_t axis, size_t tensor) {
    return sizes->lengths[axis] ? sizes->lengths[axis][tensor] : sizes->size[axis];
}

int64_t sizes_at(const Sizes *sizes, size_t axis, size_t tensor) {
    const ls_image_axis *row = &sizes->image->axes[axis];
    int64_t length = given(sizes, axis, tensor), blocks;
    if (length >= 0) return length;
    if (row->terms) return evaluate(sizes, row, tensor);
    if (row->whole) { /* q: the blocks of n */
        size_t whole = row->whole - 1;
        length = given(sizes, whole, tensor);
        if (length < 0 && sizes->image->axes[whole].terms)
            length = evaluate(sizes, &sizes->image->axes[whole], tensor);
        return length < 0 ? -1 : length / row->length + (length % row->length != 0);
    }
    for (size_t q = 0; row->length && q < sizes->image->axis_count; q++) /* n: whole blocks */
        if (sizes->image->axes[q].whole == axis + 1 && !sizes_is_rest(sizes->image, q) &&
            (blocks = given(sizes, q, tensor)) >= 0 &&
            !__builtin_mul_overflow(blocks, row->length, &length))
            return length;
    return -1;
}

size_t sizes_tensors(const Sizes *sizes, size_t axis) {
    if (!sizes_is_ragged(sizes->image, axis)) return 1;
    int64_t count = sizes->size[sizes_list(sizes->image, axis)];
    return count > 0 ? (size_t)count : 0;
}

bool sizes_known(const Sizes *sizes, size_t axis) {
    const ls_image *image = sizes->image;
    if (sizes_is_ragged(image, axis) && sizes->size[sizes_list(image, axis)] < 0) return false;
    for (size_t i = 0; i < sizes_tensors(sizes, axis); i++)
        if (sizes_at(sizes, axis, i) < 0) return false;
    return true;
}

void sizes_describe(const Sizes *sizes, size_t axis, Buffer *out) {
    enum { SHOWN = 4 };
    size_t count = sizes_tensors(sizes, axis), differing = 0;
    for (size_t i = 1; i < count; i++)
        differing += sizes_at(sizes, axis, i) != sizes_at(sizes, axis, 0);
    if (!differing && count) count = 1;
    for (size_t i = 0; i < count && i < SHOWN; i++)
        buffer_printf(out, "%s%lld", i ? "+" : "", (long long)sizes_at(sizes, axis, i));
    if (count > SHOWN) buffer_puts(out, "+...");
    if (!count) buffer_puts(out, "0");
}

/* ---- --size ---- */

/* "768+768+2K": how many lengths, and their array, or 0 for a mistake. */
static size_t parse_lengths(const char *text, size_t size, int64_t **lengths) {
    size_t count = 0;
    *lengths = NULL;
    for (size_t at = 0;;) {
        size_t end = at;
        while (end < size && text[end] != '+') end++;
        char *number = copy_text(text + at, end - at);
        int64_t length;
        bool good = size_parse(number, &length);
        free(number);
        if (!good) {
            free(*lengths);
            *lengths = NULL;
            return 0;
        }
        if ((count & (count + 1)) == 0)
            *lengths = memory_grow(*lengths, 2 * count + 1, sizeof **lengths);
        (*lengths)[count++] = length;
        if (end == size) return count;
        at = end + 1;
    }
}

size_t size_next(const char **at, const char **name, size_t *name_size, int64_t **lengths,
                 Failure *failure) {
    failure->text[0] = '\0';
    *lengths = NULL;
    if (!**at) return 0;
    size_t length = strcspn(*at, ","), count = 0;
    *name = *at;
    *name_size = strcspn(*at, "=,");
    bool good = *name_size && *name_size < length && !((*at)[length] && !(*at)[length + 1]);
    if (good) count = parse_lengths(*at + *name_size + 1, length - *name_size - 1, lengths);
    if (!count) {
        fail(failure, STATUS_USAGE,
             "--size takes AXIS=LENGTH,..., as in n=64M,k=8, or n=768+2K for each tensor of a "
             "list; found '%.*s'",
             (int)length, *at);
        return 0;
    }
    *at += length + ((*at)[length] != '\0');
    return count;
}

static bool find_axis(const ls_image *image, const char *name, size_t length, size_t *axis,
                      Failure *failure) {
    for (*axis = 0; *axis < image->axis_count; ++*axis)
        if (strlen(image->axes[*axis].name) == length &&
            memcmp(image->axes[*axis].name, name, length) == 0)
            return true;
    fail(failure, STATUS_USAGE, "step '%s' has no axis '%.*s'", image->step, (int)length, name);
    Buffer list = {0};
    for (size_t i = 0; i < image->axis_count; i++)
        buffer_printf(&list, "%s%s", i ? ", " : "", image->axes[i].name);
    fail_help(failure, "it has %s", list.data ? list.data : "none");
    buffer_free(&list);
    return false;
}

/* Takes over `lengths`. */
static bool set_axis(Sizes *sizes, size_t axis, int64_t *lengths, size_t count, Failure *failure) {
    const ls_image *image = sizes->image;
    const char *name = image->axes[axis].name;
    if (count == 1) {
        int64_t length = lengths[0];
        free(lengths);
        if (length > TENSORS_MAX && sizes_counts_tensors(image, axis))
            return fail(failure, STATUS_USAGE,
                        "axis '%s' counts the tensors of a list, %d at most; --size says %lld",
                        name, TENSORS_MAX, (long long)length);
        if (sizes->size[axis] >= 0 && sizes->size[axis] != length)
            return fail(failure, STATUS_USAGE, "axis '%s' is %lld in %s, but --size says %lld",
                        name, (long long)sizes->size[axis], sizes->set_by[axis], (long long)length);
        sizes->size[axis] = length;
        sizes->set_by[axis] = "--size";
        return true;
    }
    if (!sizes_is_ragged(image, axis)) {
        free(lengths);
        return fail(failure, STATUS_USAGE,
                    "axis '%s' of step '%s' has one length, but --size gives it %zu", name,
                    image->step, count);
    }
    free(sizes->lengths[axis]);
    sizes->lengths[axis] = lengths;
    sizes->set_by[axis] = "--size";
    size_t list = (size_t)sizes_list(image, axis);
    if (sizes->size[list] >= 0 && (uint64_t)sizes->size[list] != count)
        return fail(failure, STATUS_USAGE,
                    "--size gives axis '%s' %zu lengths, but there are %lld tensors (axis '%s', "
                    "from %s)",
                    name, count, (long long)sizes->size[list], image->axes[list].name,
                    sizes->set_by[list]);
    sizes->size[list] = (int64_t)count;
    sizes->set_by[list] = "--size";
    return true;
}

bool sizes_option(Sizes *sizes, const StringList *words, Failure *failure) {
    for (size_t i = 0; i < words->count; i++) {
        const char *at = words->items[i], *name;
        size_t length, count, axis;
        int64_t *lengths;
        while ((count = size_next(&at, &name, &length, &lengths, failure)) > 0) {
            if (!find_axis(sizes->image, name, length, &axis, failure)) {
                free(lengths);
                return false;
            }
            if (!set_axis(sizes, axis, lengths, count, failure)) return false;
        }
        if (failure->text[0]) return false;
    }
    return true;
}

bool sizes_split(const StringList *given, StringList *sizes, Failure *failure) {
    failure->text[0] = '\0';
    for (size_t i = 0; i < given->count; i++) {
        const char *at = given->items[i], *name;
        size_t name_size, count;
        int64_t *lengths;
        while ((count = size_next(&at, &name, &name_size, &lengths, failure)) > 0) {
            Buffer plain = {0};
            buffer_printf(&plain, "%.*s=", (int)name_size, name);
            for (size_t k = 0; k < count; k++)
                buffer_printf(&plain, "%s%lld", k ? "+" : "", (long long)lengths[k]);
            free(lengths);
            list_add(sizes, plain.data);
        }
        if (failure->text[0]) return false;
    }
    return true;
}
