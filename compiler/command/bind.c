/* bind.c: from the words of the command line to bound parameters.
 *
 * Arrays are loaded, checked against the axes and copied to the device one after the other, so that
 * host memory holds one at a time. Generators without a shape come last, when the axes are known.
 */
#include "files.h"
#include "command.h"

#include <stdlib.h>
#include <string.h>

size_t parameter_find(const ls_image *image, const char *name, size_t size, Failure *failure) {
    const char **names = memory(image->parameter_count * sizeof *names);
    Buffer list = {0};
    size_t found = image->parameter_count;
    for (size_t i = 0; i < image->parameter_count; i++) {
        names[i] = image->parameters[i].name;
        buffer_printf(&list, "%s%s", i ? ", " : "", names[i]);
        if (strlen(names[i]) == size && memcmp(names[i], name, size) == 0) found = i;
    }
    if (found == image->parameter_count) {
        char *word = copy_text(name, size);
        const char *near = nearest(word, names, image->parameter_count);
        fail(failure, STATUS_USAGE, "step '%s' has no parameter '%s'", image->step, word);
        if (near)
            fail_help(failure, "did you mean %s?", near);
        else
            fail_help(failure, "it has %s", list.data ? list.data : "none");
        free(word);
    }
    free(names);
    buffer_free(&list);
    return found;
}

void parameter_describe(const ls_image *image, const ls_image_parameter *parameter, char *text,
                        size_t capacity) {
    int used =
        snprintf(text, capacity, "%s: %s", parameter->name, type_names[parameter->type].name);
    for (uint32_t i = 0; i < parameter->rank && used >= 0 && (size_t)used < capacity; i++)
        used += snprintf(text + used, capacity - (size_t)used, "%s%s%s", i ? ", " : "[",
                         image->axes[parameter->axes[i]].name, i + 1 == parameter->rank ? "]" : "");
}

void bindings_open(const Session *session, Bindings *bindings) {
    const ls_image *image = session->image;
    *bindings = (Bindings){.session = session};
    bindings->items = memory(image->parameter_count * sizeof *bindings->items);
    for (size_t i = 0; i < image->parameter_count; i++)
        bindings->items[i].parameter = &image->parameters[i];
    sizes_open(&bindings->sizes, image);
}

/* A number fills it: an array with one element per tensor of a list. */
static bool is_fillable(const ls_image *image, const ls_image_parameter *parameter) {
    return parameter->rank == 1 && sizes_counts_tensors(image, parameter->axes[0]);
}

bool bindings_parse(Bindings *bindings, const char *word, Failure *failure) {
    const ls_image *image = bindings->session->image;
    const char *equal = strchr(word, '=');
    if (!equal || equal == word)
        return fail(failure, STATUS_USAGE, "arguments after the file are NAME=VALUE, not '%s'",
                    word);
    size_t index = parameter_find(image, word, (size_t)(equal - word), failure);
    if (index == image->parameter_count) return false;
    Binding *binding = &bindings->items[index];
    const char *name = binding->parameter->name;
    if (binding->text) return fail(failure, STATUS_USAGE, "parameter '%s' is given twice", name);
    if (binding->parameter->role == LS_OUT) {
        fail(failure, STATUS_USAGE, "parameter '%s' is an output; it takes no value", name);
        fail_help(failure, "-o %s=FILE writes it, -o %s=- prints it", name, name);
        return false;
    }
    if (!value_parse(equal + 1, &binding->value, failure)) return false;
    binding->text = equal + 1;
    if (binding->value.kind == VALUE_NUMBER && binding->parameter->rank > 0 &&
        !is_fillable(image, binding->parameter)) {
        bool list = parameter_list(image, binding->parameter) >= 0;
        char text[400];
        parameter_describe(image, binding->parameter, text, sizeof text);
        fail(failure, STATUS_USAGE, "parameter '%s' is %s (%s), and %s is a number", name,
             list ? "a list" : "an array", text, binding->text);
        fail_help(failure,
                  "%s filled with it: %s='full(%s)', or with its lengths %s='full(LENGTH,..., %s)'",
                  list ? "tensors" : "an array", name, binding->text, name, binding->text);
        return false;
    }
    return true;
}

bool bindings_complete(const Bindings *bindings, Failure *failure) {
    const ls_image *image = bindings->session->image;
    Buffer missing = {0};
    size_t count = 0;
    for (size_t i = 0; i < image->parameter_count; i++) {
        const Binding *binding = &bindings->items[i];
        char text[400];
        if (binding->text || binding->parameter->role == LS_OUT || binding->parameter->has_default)
            continue;
        parameter_describe(image, binding->parameter, text, sizeof text);
        buffer_printf(&missing, "%s%s", count ? "; " : "", text);
        count++;
    }
    if (count) {
        fail(failure, STATUS_USAGE, "step '%s' needs %zu more parameter%s: %s", image->step, count,
             count == 1 ? "" : "s", missing.data);
        fail_help(failure,
                  "give each as NAME=VALUE: a number, x.npy, m.safetensors:NAME, zeros(...)");
    }
    buffer_free(&missing);
    return count == 0;
}

/* The array against the parameter's type, rank and the axes known so far, which it may add to. */
static bool check_array(Bindings *bindings, const Binding *binding, const Array *array,
                        Failure *failure) {
    const ls_image *image = bindings->session->image;
    const ls_image_parameter *parameter = binding->parameter;
    char declared[400], shape[400];
    parameter_describe(image, parameter, declared, sizeof declared);
    shape_describe(array->rank, array->shape, shape, sizeof shape);
    if (array->type != parameter->type) {
        fail(failure, STATUS_INPUT, "parameter '%s' is declared %s, and %s holds %s",
             parameter->name, declared, binding->text, type_names[array->type].name);
        fail_help(failure, "convert the file, or declare the parameter as %s",
                  type_names[array->type].name);
        return false;
    }
    if (array->rank != parameter->rank)
        return fail(failure, STATUS_INPUT,
                    "parameter '%s' is declared %s, of rank %u, and %s has shape %s, of rank %u",
                    parameter->name, declared, parameter->rank, binding->text, shape, array->rank);
    for (uint32_t i = 0; i < parameter->rank; i++) {
        uint8_t axis = parameter->axes[i];
        Sizes *sizes = &bindings->sizes;
        if (sizes->size[axis] < 0) {
            sizes->size[axis] = array->shape[i];
            sizes->set_by[axis] = parameter->name;
        } else if (sizes->size[axis] != array->shape[i]) {
            return fail(failure, STATUS_INPUT,
                        "axis '%s' is %lld long in '%s', but %lld long in '%s' (%s, shape %s)",
                        image->axes[axis].name, (long long)sizes->size[axis], sizes->set_by[axis],
                        (long long)array->shape[i], parameter->name, binding->text, shape);
        }
    }
    return true;
}

static bool known_shape(const Bindings *bindings, const ls_image_parameter *parameter,
                        int64_t *shape, Failure *failure) {
    const ls_image *image = bindings->session->image;
    for (uint32_t i = 0; i < parameter->rank; i++) {
        shape[i] = sizes_at(&bindings->sizes, parameter->axes[i], 0);
        if (shape[i] >= 0) continue;
        const char *axis = image->axes[parameter->axes[i]].name;
        fail(failure, STATUS_USAGE, "nothing says how long axis '%s' of parameter '%s' is", axis,
             parameter->name);
        fail_help(failure, "--size %s=LENGTH", axis);
        return false;
    }
    return true;
}

/* Device memory of the given shape, bound to the parameter; filled from `data` unless that is NULL.
 * Where kernels read the host's memory it becomes that of the array. */
static bool bind_memory(Bindings *bindings, size_t index, const int64_t *shape, Array *data,
                        Failure *failure) {
    ls_context *context = bindings->session->context;
    Binding *binding = &bindings->items[index];
    const ls_image_parameter *parameter = binding->parameter;
    size_t count;
    if (!shape_bytes(parameter->type, parameter->rank, shape, &count, &binding->bytes))
        return fail(failure, STATUS_USAGE, "parameter '%s' would be larger than memory can be",
                    parameter->name);
    ls_status status = LS_OK;
    binding->held = binding->bytes;
    if (data && binding->bytes && bindings->in_place && ls_context_shares_memory(context)) {
        binding->host = data->data;
        data->data = NULL;
    } else if (binding->bytes) {
        status = ls_alloc(context, binding->bytes, &binding->device);
        if (status == LS_OK && data)
            status = ls_copy_in(context, binding->device, data->data, binding->bytes);
    }
    void *memory = binding->host ? binding->host : binding->device;
    ls_tensor tensor = {memory, parameter->type, parameter->rank, shape, NULL};
    if (status == LS_OK) status = ls_step_bind(bindings->session->step, parameter->name, &tensor);
    if (status != LS_OK) return fail_status(failure, context, status);
    binding->bound = true;
    return true;
}

static bool set_number(const Bindings *bindings, const Binding *binding, Failure *failure) {
    const ls_image_parameter *parameter = binding->parameter;
    unsigned char element[8];
    char reason[200];
    if (!number_parse(binding->text, parameter->type, element, reason, sizeof reason))
        return fail(failure, STATUS_USAGE, "%s=%s: %s", parameter->name, binding->text, reason);
    ls_status status = ls_step_set(bindings->session->step, parameter->name, element);
    return status == LS_OK || fail_status(failure, bindings->session->context, status);
}

static bool load_array(Bindings *bindings, size_t index, Failure *failure) {
    Binding *binding = &bindings->items[index];
    if (parameter_list(bindings->session->image, binding->parameter) >= 0)
        return list_load(bindings, binding, failure);
    const ls_image_parameter *parameter = binding->parameter;
    int64_t shape[LS_RANK_MAX];
    Array array;
    bool shapeless = binding->value.kind == VALUE_GENERATED && !binding->value.has_shape;
    if (shapeless && !known_shape(bindings, parameter, shape, failure)) return false;
    if (!value_load(&binding->value, parameter->name, parameter->type, parameter->rank, shape,
                    &array, failure))
        return false;
    bool good = check_array(bindings, binding, &array, failure);
    if (good && parameter->rank == 0) {
        ls_status status = ls_step_set(bindings->session->step, parameter->name, array.data);
        good = status == LS_OK || fail_status(failure, bindings->session->context, status);
    } else if (good) {
        good = bind_memory(bindings, index, array.shape, &array, failure);
    }
    binding->tensor = array.name;
    array.name = NULL;
    array_free(&array);
    return good;
}

/* Of the axes that no parameter has. */
static bool set_lengths(Bindings *bindings, Failure *failure) {
    const ls_image *image = bindings->session->image;
    for (uint32_t a = 0; a < image->axis_count; a++) {
        const ls_image_axis *axis = &image->axes[a];
        bool has_array = axis->parent || axis->whole || axis->terms || axis->fixed >= 0;
        for (uint32_t p = 0; p < image->parameter_count; p++)
            for (uint32_t k = 0; k < image->parameters[p].rank; k++)
                has_array |= image->parameters[p].axes[k] == a;
        if (has_array) continue;
        if (!sizes_known(&bindings->sizes, a)) {
            fail(failure, STATUS_USAGE, "no parameter of step '%s' has axis '%s'", image->step,
                 axis->name);
            fail_help(failure, "give its length: --size %s=40", axis->name);
            return false;
        }
        ls_status status = ls_step_set_length(bindings->session->step, axis->name,
                                              sizes_at(&bindings->sizes, a, 0));
        if (status != LS_OK) return fail_status(failure, bindings->session->context, status);
    }
    return true;
}

bool bindings_load(Bindings *bindings, Failure *failure) {
    const ls_image *image = bindings->session->image;
    for (int shapeless = 0; shapeless < 2; shapeless++)
        for (size_t i = 0; i < image->parameter_count; i++) {
            const Binding *binding = &bindings->items[i];
            const Value *value = &binding->value;
            bool last = value->kind == VALUE_GENERATED && !value->has_shape;
            if (!binding->text || last != (shapeless == 1)) continue;
            bool good = value->kind == VALUE_NUMBER ? set_number(bindings, binding, failure)
                                                    : load_array(bindings, i, failure);
            if (!good) return false;
        }
    return set_lengths(bindings, failure);
}

bool bindings_allocate(Bindings *bindings, size_t index, Failure *failure) {
    Binding *binding = &bindings->items[index];
    const ls_image_parameter *parameter = binding->parameter;
    int64_t shape[LS_RANK_MAX];
    if (binding->bound || binding->wanted) return true;
    if (parameter->rank == 0) {
        if (parameter->role != LS_OUT) return true;
        ls_status status = ls_step_want(bindings->session->step, parameter->name);
        if (status != LS_OK) return fail_status(failure, bindings->session->context, status);
        binding->wanted = true;
        return true;
    }
    if (binding->text) return true; /* filled with a number: the step's own */
    if (parameter_list(bindings->session->image, parameter) >= 0)
        return list_allocate(bindings, binding, failure);
    Failure unknown = {0};
    if (parameter->role == LS_OUT && !known_shape(bindings, parameter, shape, &unknown)) {
        /* The arrays bound may tell more: then the step allocates it. */
        ls_status status = ls_step_want(bindings->session->step, parameter->name);
        if (status == LS_OK) status = ls_step_prepare(bindings->session->step);
        if (status == LS_OK) return true;
        *failure = unknown;
        return false;
    }
    return known_shape(bindings, parameter, shape, failure) &&
           bind_memory(bindings, index, shape, NULL, failure);
}

ls_status array_fetch(ls_context *context, void *host, const void *device, Array *array) {
    array->borrowed = host != NULL;
    array->data = host ? host : memory(array->bytes);
    if (host) return ls_synchronize(context);
    return array->bytes ? ls_copy_out(context, array->data, device, array->bytes) : LS_OK;
}

bool bindings_fetch(Bindings *bindings, size_t index, Array *array, Failure *failure) {
    const Session *session = bindings->session;
    const Binding *binding = &bindings->items[index];
    const ls_image_parameter *parameter = binding->parameter;
    size_t count;
    ls_status status = LS_OK;
    ls_tensor tensor = {.data = binding->host ? binding->host : binding->device};
    *array = (Array){.type = parameter->type, .rank = parameter->rank};
    if (parameter->rank && !binding->bound) /* filled with a number: it lies in the step */
        status = ls_step_output(session->step, parameter->name, &tensor);
    if (status != LS_OK) return fail_status(failure, session->context, status);
    for (uint32_t i = 0; i < parameter->rank; i++)
        array->shape[i] =
            tensor.shape ? tensor.shape[i] : sizes_at(&bindings->sizes, parameter->axes[i], 0);
    shape_bytes(array->type, array->rank, array->shape, &count, &array->bytes);
    if (parameter->rank) {
        status = array_fetch(session->context, binding->host, tensor.data, array);
    } else {
        array->data = memory(array->bytes);
        status = ls_step_get(session->step, parameter->name, array->data);
    }
    if (status == LS_OK) return true;
    array_free(array);
    return fail_status(failure, session->context, status);
}

void bindings_close(Bindings *bindings) {
    if (!bindings->items) return;
    for (size_t i = 0; i < bindings->session->image->parameter_count; i++) {
        Binding *binding = &bindings->items[i];
        value_free(&binding->value);
        free(binding->tensor);
        list_close(binding);
        free(binding->host);
        if (binding->device) ls_free(bindings->session->context, binding->device);
    }
    free(bindings->items);
    sizes_close(&bindings->sizes);
    *bindings = (Bindings){0};
}
