/* value_list.c: the tensors that a VALUE stands for when its parameter is a list.
 *
 *   a.npy+b.npy   zeros(2,3)+ones(4)   m.safetensors   m.safetensors:layer.*   zeros
 *
 * What every tensor is called and how it is shaped is known before the first one is read, so that
 * lists can be matched; the tensors then are read one at a time. */
#include "files.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

static ListItem *add_item(ValueList *list) {
    if ((list->count & (list->count + 1)) == 0) /* full at 0, 1, 3, 7 ... */
        list->items = memory_grow(list->items, 2 * list->count + 1, sizeof *list->items);
    ListItem *item = &list->items[list->count++];
    *item = (ListItem){0};
    return item;
}

static void set_shape(ListItem *item, uint32_t rank, const int64_t *shape) {
    item->rank = rank;
    item->shape = memory(rank * sizeof *item->shape);
    if (rank) memcpy(item->shape, shape, rank * sizeof *item->shape);
}

/* What a glob's only star stands for in a name; NULL where there are other wildcards. */
static char *starred(const char *glob, const char *name) {
    size_t before = strcspn(glob, "*?[\\");
    if (glob[before] != '*') return NULL;
    const char *after = glob + before + 1;
    if (after[strcspn(after, "*?[\\")]) return NULL;
    return copy_text(name + before, strlen(name) - before - strlen(after));
}

static bool open_file(ValueList *list, const Value *value, Failure *failure) {
    list->files = memory_grow(list->files, list->file_count + 1, sizeof *list->files);
    TensorFile *file = &list->files[list->file_count];
    if (!safetensors_open(value->path, file, failure)) return false;
    size_t number = list->file_count++, found = 0;
    const char *glob = value->tensor;
    for (size_t i = 0; i < file->count && glob; i++) /* a name that is there is no glob */
        if (strcmp(ls_file_at(file->file, i)->name, glob) == 0) found = i + 1;
    for (size_t i = 0; i < file->count; i++) {
        const ls_file_array *tensor = ls_file_at(file->file, i);
        if (found ? i + 1 != found : glob && fnmatch(glob, tensor->name, 0) != 0) continue;
        ListItem *item = add_item(list);
        item->name = copy_text(tensor->name, strlen(tensor->name));
        item->key = glob && !found ? starred(glob, tensor->name) : NULL;
        item->type = tensor->type;
        item->value = value;
        item->file = number;
        item->tensor = i;
        set_shape(item, tensor->rank, tensor->shape);
    }
    if (list->count || !glob) return true;
    fail(failure, STATUS_INPUT, "%s has no tensor '%s'", file->path, glob);
    Buffer names = {0};
    for (size_t i = 0; i < file->count && i < 8; i++)
        buffer_printf(&names, "%s%.100s", i ? ", " : "", ls_file_at(file->file, i)->name);
    if (file->count > 8) buffer_printf(&names, " and %zu more", file->count - 8);
    fail_help(failure, file->count ? "it has %s" : "it has none", names.data ? names.data : "");
    buffer_free(&names);
    return false;
}

static bool open_part(ValueList *list, const Value *value, ls_type type, Failure *failure) {
    if (value->kind == VALUE_SAFETENSORS) return open_file(list, value, failure);
    ListItem *item = add_item(list);
    item->value = value;
    item->type = type;
    if (value->kind == VALUE_GENERATED) {
        set_shape(item, value->rank, value->shape);
        return true;
    }
    if (!npy_read(value->path, &item->loaded, failure)) return false;
    item->type = item->loaded.type;
    set_shape(item, item->loaded.rank, item->loaded.shape);
    return true;
}

bool value_list_open(const Value *value, ls_type type, ValueList *list, Failure *failure) {
    *list = (ValueList){0};
    bool good = true;
    if (value->kind == VALUE_LIST)
        for (size_t i = 0; i < value->part_count && good; i++)
            good = open_part(list, &value->parts[i], type, failure);
    else
        good = open_part(list, value, type, failure);
    if (!good) value_list_close(list);
    return good;
}

bool value_list_load(ValueList *list, size_t index, const char *parameter, ls_type type,
                     Array *array, Failure *failure) {
    ListItem *item = &list->items[index];
    *array = item->loaded;
    item->loaded = (Array){0};
    if (array->data) return true;
    if (item->value->kind == VALUE_SAFETENSORS)
        return safetensors_read(&list->files[item->file], item->tensor, array, failure);
    return value_load(item->value, parameter, type, item->rank, item->shape, array, failure);
}

void value_list_close(ValueList *list) {
    for (size_t i = 0; i < list->count; i++) {
        ListItem *item = &list->items[i];
        free(item->name);
        free(item->key);
        free(item->shape);
        array_free(&item->loaded);
    }
    for (size_t i = 0; i < list->file_count; i++) safetensors_close(&list->files[i]);
    free(list->items);
    free(list->files);
    *list = (ValueList){0};
}
