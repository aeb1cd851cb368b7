/* list.c: list parameters: their tensors matched with the other lists', copied into one block of
 * device memory, bound, and fetched again.
 *
 * The first list over an axis fixes the order and the names. A later one is put into that order
 * where its names are the same; else its own order counts, with a warning. */
#include "files.h"
#include "command.h"

#include <stdlib.h>
#include <string.h>

enum { BOUNDARY = 16 };

static bool same_axes(const ls_image_parameter *a, const ls_image_parameter *b) {
    return a->rank == b->rank && memcmp(a->axes, b->axes, a->rank) == 0;
}

/* The first list bound over the axis; with `like`, over exactly that parameter's axes. NULL: none.
 */
static const Binding *model_of(const Bindings *bindings, int axis, const ls_image_parameter *like) {
    const ls_image *image = bindings->session->image;
    for (size_t i = 0; i < image->parameter_count; i++) {
        const Binding *binding = &bindings->items[i];
        if (binding->bound && parameter_list(image, binding->parameter) == axis &&
            (!like || same_axes(like, binding->parameter)))
            return binding;
    }
    return NULL;
}

/* ---- order ---- */

typedef struct Named {
    const char *name;
    size_t index;
} Named;

static int by_name(const void *a, const void *b) {
    return strcmp(((const Named *)a)->name, ((const Named *)b)->name);
}

/* The name of a tensor of a list that is bound, or of an item of one that is not. */
typedef const char *NameOf(const void *list, size_t index);
static const char *bound_name(const void *list, size_t i) {
    return ((const Binding *)list)->tensors[i].name;
}
static const char *bound_key(const void *list, size_t i) {
    const ListTensor *tensor = &((const Binding *)list)->tensors[i];
    return tensor->key ? tensor->key : tensor->name;
}
static const char *item_name(const void *list, size_t i) {
    return ((const ValueList *)list)->items[i].name;
}
static const char *item_key(const void *list, size_t i) {
    const ListItem *item = &((const ValueList *)list)->items[i];
    return item->key ? item->key : item->name;
}

static Named *sorted_names(const void *list, NameOf *name_of, size_t count) {
    Named *names = memory(count * sizeof *names);
    for (size_t i = 0; i < count; i++) {
        names[i] = (Named){name_of(list, i), i};
        if (names[i].name) continue;
        free(names);
        return NULL;
    }
    if (count) qsort(names, count, sizeof *names, by_name);
    return names;
}

/* order[i] is the item that has the name of the model's tensor i; false: the sets differ. */
static bool match_names(const Binding *model, NameOf *model_name, const ValueList *list,
                        NameOf *name, size_t *order, bool *unnamed) {
    Named *a = sorted_names(model, model_name, list->count);
    Named *b = sorted_names(list, name, list->count);
    *unnamed = !a || !b;
    bool same = a && b;
    for (size_t i = 0; i < list->count && same; i++) {
        same = strcmp(a[i].name, b[i].name) == 0 && (i == 0 || strcmp(b[i - 1].name, b[i].name));
        order[a[i].index] = b[i].index;
    }
    free(a);
    free(b);
    return same;
}

static void choose_order(const Binding *model, const Binding *binding, const ValueList *list,
                         size_t *order) {
    static NameOf *const ways[][2] = {{bound_name, item_name},
                                      {bound_key, item_key},
                                      {bound_key, item_name},
                                      {bound_name, item_key}};
    bool unnamed = false;
    for (size_t i = 0; i < COUNT(ways) && model; i++)
        if (match_names(model, ways[i][0], list, ways[i][1], order, &unnamed)) return;
    for (size_t i = 0; i < list->count; i++) order[i] = i;
    if (model && !unnamed && list->count)
        note("warning: '%s' and '%s' name their tensors differently; they are matched in the order "
             "of the files",
             model->parameter->name, binding->parameter->name);
}

/* ---- lengths ---- */

/* "'layer.weight'" or "3", after the word tensor. */
static const char *tensor_label(const ListTensor *tensor, size_t index, char *text,
                                size_t capacity) {
    if (tensor->name)
        snprintf(text, capacity, "'%.200s'", tensor->name);
    else
        snprintf(text, capacity, "%zu", index);
    return text;
}

static bool take_length(Bindings *bindings, const Binding *binding, size_t axis, size_t tensor,
                        int64_t length, Failure *failure) {
    Sizes *sizes = &bindings->sizes;
    const ls_image *image = bindings->session->image;
    const ls_image_axis *row = &image->axes[axis];
    char label[220];
    bool ragged = sizes_is_ragged(image, axis);
    if (ragged && !sizes->lengths[axis]) {
        size_t count = sizes_tensors(sizes, axis);
        sizes->lengths[axis] = memory(count * sizeof **sizes->lengths);
        for (size_t i = 0; i < count; i++) sizes->lengths[axis][i] = sizes->size[axis];
    }
    int64_t *known = ragged ? &sizes->lengths[axis][tensor] : &sizes->size[axis];
    if (*known < 0) {
        *known = length;
        if (!sizes->set_by[axis]) sizes->set_by[axis] = binding->parameter->name;
        return true;
    }
    if (*known == length) return true;
    tensor_label(&binding->tensors[tensor], tensor, label, sizeof label);
    if (!ragged)
        return fail(failure, STATUS_INPUT,
                    "axis '%s' is %lld long in '%s', but %lld long in tensor %s of '%s'", row->name,
                    (long long)*known, sizes->set_by[axis], (long long)length, label,
                    binding->parameter->name);
    return fail(failure, STATUS_INPUT,
                "tensor %s has %lld elements in '%s' and %lld in '%s' (axis '%s')", label,
                (long long)*known, sizes->set_by[axis], (long long)length, binding->parameter->name,
                row->name);
}

static bool take_shape(Bindings *bindings, const Binding *binding, size_t index, Failure *failure) {
    const ls_image_parameter *parameter = binding->parameter;
    const ListTensor *tensor = &binding->tensors[index];
    int list = parameter_list(bindings->session->image, parameter);
    size_t at = 0, count, bytes;
    if (!shape_bytes(parameter->type, tensor->rank, tensor->shape, &count, &bytes))
        return fail(failure, STATUS_USAGE, "parameter '%s' would be larger than memory can be",
                    parameter->name);
    for (uint32_t i = 0; i < parameter->rank; i++) {
        if (parameter->axes[i] == list) continue;
        int64_t length = parameter->rank == 2 ? (int64_t)count : tensor->shape[at++];
        if (!take_length(bindings, binding, parameter->axes[i], index, length, failure))
            return false;
    }
    return true;
}

static bool check_item(const Binding *binding, const ListItem *item, size_t index,
                       Failure *failure) {
    const ls_image_parameter *parameter = binding->parameter;
    const ListTensor *tensor = &binding->tensors[index];
    char label[220];
    tensor_label(tensor, index, label, sizeof label);
    if (item->type != parameter->type) {
        fail(failure, STATUS_INPUT, "parameter '%s' is a list of %s, and its tensor %s holds %s",
             parameter->name, type_names[parameter->type].name, label,
             item->type < LS_TYPE_COUNT ? type_names[item->type].name
                                        : "a type that Lockstep does not know");
        if (item->type < LS_TYPE_COUNT)
            fail_help(failure, "convert the file, or declare the parameter as %s",
                      type_names[item->type].name);
        return false;
    }
    if (parameter->rank == 2 || item->rank == parameter->rank - 1) return true;
    return fail(failure, STATUS_INPUT,
                "the tensors of parameter '%s' have rank %u, and tensor %s has rank %u",
                parameter->name, parameter->rank - 1, label, item->rank);
}

/* Lists over the same axes are of the same shapes, also where only their elements count. */
static bool check_model(const Binding *like, const Binding *binding, size_t index,
                        Failure *failure) {
    const ListTensor *a = &like->tensors[index], *b = &binding->tensors[index];
    if (a->rank == b->rank && memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0)
        return true;
    char label[220], first[400], second[400];
    tensor_label(b->name ? b : a, index, label, sizeof label);
    shape_describe(a->rank, a->shape, first, sizeof first);
    shape_describe(b->rank, b->shape, second, sizeof second);
    return fail(failure, STATUS_INPUT, "tensor %s is %s in '%s' and %s in '%s'", label, first,
                like->parameter->name, second, binding->parameter->name);
}

/* ---- binding ---- */

static bool take_count(Bindings *bindings, const Binding *binding, size_t axis, size_t count,
                       Failure *failure) {
    Sizes *sizes = &bindings->sizes;
    if (sizes->size[axis] < 0) {
        sizes->size[axis] = (int64_t)count;
        sizes->set_by[axis] = binding->parameter->name;
    }
    if ((uint64_t)sizes->size[axis] == count) return true;
    return fail(failure, STATUS_INPUT,
                "axis '%s' is %lld long in '%s', but '%s' has %zu tensor%s (%s)",
                bindings->session->image->axes[axis].name, (long long)sizes->size[axis],
                sizes->set_by[axis], binding->parameter->name, count, count == 1 ? "" : "s",
                binding->text ? binding->text : "");
}

/* Places for the tensors, whose shapes are known, in one block; none for elements that are `given`
 * where kernels read the host's memory. */
static bool allocate(Bindings *bindings, Binding *binding, bool given, Failure *failure) {
    const ls_image_parameter *parameter = binding->parameter;
    size_t total = 0, payload = 0, count;
    for (size_t i = 0; i < binding->tensor_count; i++) {
        ListTensor *tensor = &binding->tensors[i];
        if (!shape_bytes(parameter->type, tensor->rank, tensor->shape, &count, &tensor->bytes) ||
            tensor->bytes > (size_t)INT64_MAX - BOUNDARY - total)
            return fail(failure, STATUS_USAGE, "parameter '%s' would be larger than memory can be",
                        parameter->name);
        tensor->offset = total;
        tensor->host = NULL;
        total += (tensor->bytes + BOUNDARY - 1) / BOUNDARY * BOUNDARY;
        payload += tensor->bytes;
    }
    binding->bytes = payload;
    binding->held = total;
    ls_context *context = bindings->session->context;
    if (!total || (given && bindings->in_place && ls_context_shares_memory(context))) return true;
    ls_status status = ls_alloc(context, total, &binding->device);
    return status == LS_OK || fail_status(failure, context, status);
}

static void *place_of(const Binding *binding, const ListTensor *tensor) {
    if (tensor->host || !tensor->bytes) return tensor->host;
    return (char *)binding->device + tensor->offset;
}

static bool bind_list(Bindings *bindings, Binding *binding, Failure *failure) {
    const ls_image_parameter *parameter = binding->parameter;
    ls_tensor *tensors = memory(binding->tensor_count * sizeof *tensors);
    for (size_t i = 0; i < binding->tensor_count; i++) {
        const ListTensor *tensor = &binding->tensors[i];
        tensors[i] = (ls_tensor){place_of(binding, tensor), parameter->type, tensor->rank,
                                 tensor->shape, NULL};
    }
    ls_status status =
        ls_step_bind_list(bindings->session->step, parameter->name, tensors, binding->tensor_count);
    free(tensors);
    if (status != LS_OK) return fail_status(failure, bindings->session->context, status);
    binding->bound = true;
    return true;
}

static char *copy_name(const char *name) {
    return name ? copy_text(name, strlen(name)) : NULL;
}

/* One tensor's elements to the device; frees them here, unless kernels read them here. */
static bool move_in(ls_context *context, const Binding *binding, ListTensor *tensor, Array *array,
                    Failure *failure) {
    ls_status status = LS_OK;
    if (tensor->bytes && !binding->device) {
        tensor->host = array->data;
        array->data = NULL;
    } else if (tensor->bytes)
        status = ls_copy_in(context, (char *)binding->device + tensor->offset, array->data,
                            tensor->bytes);
    array_free(array);
    return status == LS_OK || fail_status(failure, context, status);
}

static bool load_items(Bindings *bindings, Binding *binding, ValueList *list, const size_t *order,
                       Failure *failure) {
    ls_context *context = bindings->session->context;
    for (size_t i = 0; i < binding->tensor_count; i++) {
        ListTensor *tensor = &binding->tensors[i];
        Array array;
        if (!value_list_load(list, order[i], binding->parameter->name, binding->parameter->type,
                             &array, failure))
            return false;
        if (!move_in(context, binding, tensor, &array, failure)) return false;
    }
    return true;
}

static bool load_list(Bindings *bindings, Binding *binding, ValueList *list, Failure *failure) {
    const ls_image *image = bindings->session->image;
    int axis = parameter_list(image, binding->parameter);
    const Binding *model = model_of(bindings, axis, NULL);
    const Binding *like = model_of(bindings, axis, binding->parameter);
    if (!take_count(bindings, binding, (size_t)axis, list->count, failure)) return false;
    size_t *order = memory(list->count * sizeof *order);
    choose_order(model, binding, list, order);
    binding->tensors = memory(list->count * sizeof *binding->tensors);
    binding->tensor_count = list->count;
    bool good = true;
    for (size_t i = 0; i < list->count && good; i++) {
        const ListItem *item = &list->items[order[i]];
        ListTensor *tensor = &binding->tensors[i];
        tensor->name = copy_name(item->name);
        tensor->key = copy_name(item->key);
        tensor->rank = item->rank;
        tensor->shape = memory(item->rank * sizeof *tensor->shape);
        if (item->rank) memcpy(tensor->shape, item->shape, item->rank * sizeof *tensor->shape);
        good = check_item(binding, item, i, failure) &&
               (!like || check_model(like, binding, i, failure)) &&
               take_shape(bindings, binding, i, failure);
    }
    good = good && allocate(bindings, binding, true, failure) &&
           load_items(bindings, binding, list, order, failure) &&
           bind_list(bindings, binding, failure);
    free(order);
    return good;
}

/* The shapes follow from the other lists and --size: those of a list over the same axes, else one
 * length an axis. */
static bool shape_from_sizes(Bindings *bindings, Binding *binding, bool given, Failure *failure) {
    const ls_image *image = bindings->session->image;
    const ls_image_parameter *parameter = binding->parameter;
    size_t axis = (size_t)parameter_list(image, parameter);
    const Sizes *sizes = &bindings->sizes;
    for (uint32_t i = 0; i < parameter->rank; i++) {
        const char *name = image->axes[parameter->axes[i]].name;
        if (sizes_known(sizes, parameter->axes[i])) continue;
        fail(failure, STATUS_USAGE, "nothing says how long axis '%s' of parameter '%s' is", name,
             parameter->name);
        if (parameter->axes[i] == axis)
            fail_help(failure, "--size %s=COUNT, the number of tensors", name);
        else
            fail_help(failure, "--size %s=LENGTH, or %s=LENGTH+LENGTH+...", name, name);
        return false;
    }
    const Binding *like = model_of(bindings, (int)axis, parameter);
    const Binding *model = like ? like : model_of(bindings, (int)axis, NULL);
    size_t count = (size_t)sizes->size[axis];
    binding->tensors = memory(count * sizeof *binding->tensors);
    binding->tensor_count = count;
    for (size_t i = 0; i < count; i++) {
        ListTensor *tensor = &binding->tensors[i];
        uint32_t at = 0;
        tensor->name = model ? copy_name(model->tensors[i].name) : NULL;
        tensor->key = model ? copy_name(model->tensors[i].key) : NULL;
        tensor->rank = like ? like->tensors[i].rank : parameter->rank - 1;
        tensor->shape = memory(tensor->rank * sizeof *tensor->shape);
        for (uint32_t k = 0; like && k < tensor->rank; k++)
            tensor->shape[k] = like->tensors[i].shape[k];
        for (uint32_t k = 0; !like && k < parameter->rank; k++)
            if (parameter->axes[k] != axis)
                tensor->shape[at++] = sizes_at(sizes, parameter->axes[k], i);
    }
    return allocate(bindings, binding, given, failure);
}

bool list_load(Bindings *bindings, Binding *binding, Failure *failure) {
    const Value *value = &binding->value;
    if (value->kind == VALUE_GENERATED && !value->has_shape) {
        if (!shape_from_sizes(bindings, binding, true, failure)) return false;
        ls_context *context = bindings->session->context;
        for (size_t i = 0; i < binding->tensor_count; i++) {
            ListTensor *tensor = &binding->tensors[i];
            Value own = *value; /* each tensor of its own seed */
            Array array;
            own.seed += i;
            if (!value_load(&own, binding->parameter->name, binding->parameter->type, tensor->rank,
                            tensor->shape, &array, failure))
                return false;
            if (!move_in(context, binding, tensor, &array, failure)) return false;
        }
        return bind_list(bindings, binding, failure);
    }
    ValueList list;
    if (!value_list_open(value, binding->parameter->type, &list, failure)) return false;
    bool good = load_list(bindings, binding, &list, failure);
    value_list_close(&list);
    return good;
}

bool list_allocate(Bindings *bindings, Binding *binding, Failure *failure) {
    return shape_from_sizes(bindings, binding, false, failure) &&
           bind_list(bindings, binding, failure);
}

bool list_fetch(const Bindings *bindings, const Binding *binding, size_t index, Array *array,
                Failure *failure) {
    ls_context *context = bindings->session->context;
    const ListTensor *tensor = &binding->tensors[index];
    *array =
        (Array){.type = binding->parameter->type, .rank = tensor->rank, .bytes = tensor->bytes};
    for (uint32_t i = 0; i < tensor->rank; i++) array->shape[i] = tensor->shape[i];
    const ls_status status = array_fetch(context, tensor->host, place_of(binding, tensor), array);
    if (status == LS_OK) return true;
    array_free(array);
    return fail_status(failure, context, status);
}

void list_close(Binding *binding) {
    for (size_t i = 0; i < binding->tensor_count; i++) {
        free(binding->tensors[i].name);
        free(binding->tensors[i].key);
        free(binding->tensors[i].shape);
        free(binding->tensors[i].host);
    }
    free(binding->tensors);
}
