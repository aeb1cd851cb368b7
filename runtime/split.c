/* split.c: the samples of a data set that take part, their order, and, where the data set does not
 * fit the device, the feed that brings them.
 *
 * The order is that of std/data: place p is number p % count of epoch p / count. A thread of the
 * split's own, the feed's only producer, gathers the batches that come next, as many as the feed
 * has slots: that the disk is slow, or a page is not there, keeps nobody waiting but when it falls
 * behind. */
#include "runtime.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const int64_t POSITION_MAX = INT64_C(1) << 62; /* more than one will ever read */

struct ls_split {
    ls_dataset *dataset;
    int64_t first, count, batch, seed, place; /* `place`: of the next batch to be gathered */
    int64_t begin, stride;                    /* of a launch: samples before one's own; in all */
    int64_t announced;                        /* where what was asked for last ends */
    bool in_order;
    uint32_t slots;
    ls_feed *feed; /* NULL: the data set is resident */
    pthread_t reader;
    bool reading;         /* the thread is there */
    pthread_mutex_t lock; /* of `place` and `claimed`, where there is a feed */
    uint64_t claimed;     /* the first ticket whose place is not known yet */
    uint64_t taken, old;  /* tickets taken; those before `old` are of places before a seek */
    void **slot;          /* the reader's: where the arrays of its batch lie */
};

static ls_status null_argument(const ls_split *split, const char *call, const char *what) {
    return error_set(split ? &split->dataset->context->error : NULL, LS_ERROR_ARGUMENT,
                     "%s: %s is NULL", call, what);
}

/* ---- life ---- */

static ls_status open_feed(ls_split *split) {
    const ls_dataset *dataset = split->dataset;
    Error *error = &dataset->context->error;
    ls_feed_array *arrays = calloc(dataset->count, sizeof *arrays);
    int64_t *shapes = calloc(dataset->count, sizeof dataset->arrays->shape);
    ls_status status = arrays && shapes ? LS_OK : error_memory(error, "ls_split_create");
    for (size_t i = 0; i < dataset->count && status == LS_OK; i++) {
        const DataArray *array = &dataset->arrays[i];
        int64_t *shape = shapes + i * LS_RANK_MAX;
        memcpy(shape, array->shape, sizeof array->shape);
        shape[0] = split->batch;
        arrays[i] = (ls_feed_array){array->name, array->type, array->rank, shape};
    }
    if (status == LS_OK)
        status = ls_feed_create(dataset->context, arrays, dataset->count, split->slots,
                                LS_FEED_FIXED | LS_FEED_THREADS, &split->feed);
    split->slot = calloc(dataset->count, sizeof *split->slot);
    if (status == LS_OK && !split->slot) status = error_memory(error, "ls_split_create");
    free(arrays);
    free(shapes);
    return status;
}

static ls_status check_options(const ls_dataset *dataset, const ls_split_options *options) {
    static const char call[] = "ls_split_create";
    Error *error = &dataset->context->error;
    if (options->first < 0 || options->count < 0 || options->first > dataset->samples ||
        options->count > dataset->samples - options->first)
        return error_set(error, LS_ERROR_ARGUMENT,
                         "%s: %lld samples from %lld on were asked for, the data set has %lld",
                         call, (long long)options->count, (long long)options->first,
                         (long long)dataset->samples);
    if (options->first == dataset->samples)
        return error_set(error, LS_ERROR_ARGUMENT, "%s: no sample takes part", call);
    if (options->batch < 0)
        return error_set(error, LS_ERROR_ARGUMENT, "%s: a batch cannot have %lld samples", call,
                         (long long)options->batch);
    const int ranks = options->ranks ? options->ranks : 1;
    if (ranks < 0 || options->rank < 0 || options->rank >= ranks)
        return error_set(error, LS_ERROR_ARGUMENT, "%s: rank is %d and ranks %d; they count from 0",
                         call, options->rank, options->ranks);
    if (ranks > 1 && (options->batch == 0 || options->batch > POSITION_MAX / ranks))
        return error_set(error, LS_ERROR_ARGUMENT,
                         "%s: of several ranks the samples of a batch must be given, and those of "
                         "all counted",
                         call);
    if (options->batch == 0 && !dataset->resident)
        return error_set(error, LS_ERROR_ARGUMENT,
                         "%s: the data set is not resident, so the samples of a batch must be "
                         "given",
                         call);
    return LS_OK;
}

ls_status ls_split_create(ls_dataset *dataset, const ls_split_options *options, ls_split **split) {
    static const char call[] = "ls_split_create";
    if (split) *split = NULL;
    if (!dataset || !options || !split)
        return error_set(dataset ? &dataset->context->error : NULL, LS_ERROR_ARGUMENT,
                         "%s: %s is NULL", call,
                         !dataset ? "dataset" : (!options ? "options" : "split"));
    ls_status status = check_options(dataset, options);
    if (status != LS_OK) return status;
    ls_split *made = calloc(1, sizeof *made);
    if (!made) return error_memory(&dataset->context->error, call);
    *made = (ls_split){.dataset = dataset,
                       .first = options->first,
                       .count = options->count ? options->count : dataset->samples - options->first,
                       .batch = options->batch,
                       .seed = options->seed,
                       .begin = options->rank * options->batch,
                       .stride = (options->ranks ? options->ranks : 1) * options->batch,
                       .in_order = options->in_order != 0,
                       .slots = options->slots};
    pthread_mutex_init(&made->lock, NULL);
    if (!dataset->resident) status = open_feed(made);
    if (status == LS_OK)
        *split = made;
    else
        ls_split_destroy(made);
    return status;
}

void ls_split_destroy(ls_split *split) {
    if (!split) return;
    if (split->reading) {
        ls_feed_close(split->feed);
        pthread_join(split->reader, NULL);
    }
    ls_feed_destroy(split->feed);
    pthread_mutex_destroy(&split->lock);
    free(split->slot);
    free(split);
}

/* ---- the order ---- */

int64_t ls_split_sample(const ls_split *split, int64_t place) {
    if (!split || place < 0) return -1;
    int64_t number = place % split->count, epoch = place / split->count;
    if (split->in_order) return split->first + number;
    return split->first + ls_shuffle(number, split->count, split->seed, epoch);
}

/* What lies in files comes from a disk: all of the batch at a place is asked for before any of it
 * is read. */
static void announce(const ls_split *split, int64_t place) {
    const ls_dataset *dataset = split->dataset;
    for (size_t k = 0; k < dataset->count; k++) {
        if (!dataset_in_place(&dataset->arrays[k])) continue;
        for (int64_t i = 0; i < split->batch; i++)
            dataset_announce(&dataset->arrays[k], ls_split_sample(split, place + split->begin + i));
    }
}

/* Where steps read the rows themselves: those of the next launch, and of the one after it. */
static void announce_ahead(ls_split *split) {
    if (split->announced != split->place + split->stride) announce(split, split->place);
    split->place += split->stride;
    announce(split, split->place);
    split->announced = split->place + split->stride;
}

/* Gathers the batch at a place, whose arrays lie in split->slot. */
static void gather(const ls_split *split, int64_t place) {
    const ls_dataset *dataset = split->dataset;
    announce(split, place);
    for (int64_t i = 0; i < split->batch; i++) {
        const size_t sample = (size_t)ls_split_sample(split, place + split->begin + i);
        for (size_t k = 0; k < dataset->count; k++) {
            const DataArray *array = &dataset->arrays[k];
            const size_t bytes = array->row_bytes;
            dataset_read(array, (char *)split->slot[k] + (size_t)i * bytes, sample * bytes, bytes);
        }
    }
}

/* The reader: until the feed is closed. */
static void *read_ahead(void *argument) {
    ls_split *split = argument;
    uint64_t ticket;
    while (ls_feed_claim(split->feed, &ticket, split->slot) == LS_OK) {
        pthread_mutex_lock(&split->lock);
        const int64_t place = split->place;
        split->place += split->stride;
        split->claimed = ticket + 1;
        pthread_mutex_unlock(&split->lock);
        gather(split, place);
        ls_feed_deliver(split->feed, ticket, split->batch);
    }
    return NULL;
}

/* It begins with the first batch: a seek before that has nothing to undo. */
static ls_status start_reading(ls_split *split) {
    Error *error = &split->dataset->context->error;
    const int failed = thread_start(&split->reader, read_ahead, split);
    if (failed)
        return error_set(error, LS_ERROR_MEMORY, "ls_split_next: no thread to read with: %s",
                         strerror(failed));
    split->reading = true;
    return LS_OK;
}

ls_status ls_split_next(ls_split *split) {
    if (!split) return null_argument(NULL, "ls_split_next", "split");
    if (!split->feed) {
        announce_ahead(split);
        return LS_OK;
    }
    ls_status status = split->reading ? LS_OK : start_reading(split);
    do {
        if (status == LS_OK) status = ls_feed_next(split->feed);
        if (status == LS_OK) split->taken++;
    } while (status == LS_OK && split->taken <= split->old);
    return status;
}

ls_status ls_split_seek(ls_split *split, int64_t place) {
    static const char call[] = "ls_split_seek";
    if (!split) return null_argument(NULL, call, "split");
    if (place < 0 || place > POSITION_MAX)
        return error_set(&split->dataset->context->error, LS_ERROR_ARGUMENT,
                         "%s: places count from 0 and end at 2^62, %lld was given", call,
                         (long long)place);
    pthread_mutex_lock(&split->lock);
    split->old = split->claimed;
    split->place = place;
    pthread_mutex_unlock(&split->lock);
    return LS_OK;
}

/* ---- steps ---- */

static ls_status set_device_scalar(const ls_split *split, ls_step *step, const char *name,
                                   ls_type type, const void *value) {
    const ls_image *image = step->image;
    for (size_t i = 0; i < image->parameter_count; i++) {
        const ls_image_parameter *found = &image->parameters[i];
        if (strcmp(found->name, name) != 0) continue;
        if (found->rank == 0 && found->type == type && found->role == LS_IN)
            return ls_step_set(step, name, value);
        return error_set(&split->dataset->context->error, LS_ERROR_BIND,
                         "ls_split_bind: parameter `%s` of step `%s` is to tell about the data "
                         "set, so it must be `%s: %s`",
                         name, image->step, name, ls_type_name(type));
    }
    return LS_OK;
}

static ls_status set_device_scalars(const ls_split *split, ls_step *step) {
    const uint8_t ordered = split->in_order, streamed = split->feed != NULL;
    const struct {
        const char *name;
        ls_type type;
        const void *value;
    } scalars[] = {{"data_first", LS_I64, &split->first},   {"data_count", LS_I64, &split->count},
                   {"data_seed", LS_I64, &split->seed},     {"data_begin", LS_I64, &split->begin},
                   {"data_stride", LS_I64, &split->stride}, {"data_ordered", LS_BOOL, &ordered},
                   {"data_streamed", LS_BOOL, &streamed}};
    ls_status status = LS_OK;
    for (size_t i = 0; i < COUNT(scalars) && status == LS_OK; i++)
        status = set_device_scalar(split, step, scalars[i].name, scalars[i].type, scalars[i].value);
    return status;
}

/* A step that reads rows by itself has to know which are this rank's. */
static ls_status check_ranks(const ls_split *split, const ls_step *step) {
    bool begin = false, stride = false;
    for (size_t i = 0; i < step->image->parameter_count; i++) {
        begin |= strcmp(step->image->parameters[i].name, "data_begin") == 0;
        stride |= strcmp(step->image->parameters[i].name, "data_stride") == 0;
    }
    if (split->stride == split->batch || split->feed || (begin && stride)) return LS_OK;
    return error_set(&split->dataset->context->error, LS_ERROR_BIND,
                     "ls_split_bind: the split is one rank's of several, and step `%s` lacks `%s`: "
                     "see next_batch_of_rank in std/data",
                     step->image->step, begin ? "data_stride" : "data_begin");
}

ls_status ls_split_bind(ls_split *split, ls_step *step) {
    static const char call[] = "ls_split_bind";
    if (!split || !step) return null_argument(split, call, split ? "step" : "split");
    const ls_dataset *dataset = split->dataset;
    bool any = false;
    ls_status status = LS_OK;
    for (size_t i = 0; i < step->image->parameter_count && status == LS_OK; i++)
        for (size_t k = 0; k < dataset->count && status == LS_OK; k++) {
            const char *name = dataset->arrays[k].name;
            if (strcmp(step->image->parameters[i].name, name) != 0) continue;
            any = true;
            status = dataset_check_role(dataset, step, call, i);
            if (status == LS_OK && !split->feed) status = ls_dataset_bind(dataset, step, name);
        }
    if (status == LS_OK && !any)
        status = error_set(&dataset->context->error, LS_ERROR_ARGUMENT,
                           "%s: step `%s` has no parameter that is called as an array of the data "
                           "set, such as `%s`",
                           call, step->image->step, dataset->arrays[0].name);
    if (status == LS_OK) status = check_ranks(split, step);
    if (status == LS_OK && split->feed) status = ls_feed_bind(split->feed, step);
    return status == LS_OK ? set_device_scalars(split, step) : status;
}
