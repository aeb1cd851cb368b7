/* sequence.c: the run of a step with `for`: its parts one after the other, and those of a loop once
 * for each coordinate of its axis. */
#include "places.h"

#include <stdlib.h>
#include <string.h>

struct Run {
    const Sequence *sequence;
    const Function *const *parts;
    const int64_t *sizes[LS_AXES_MAX];
    int64_t at[LS_AXES_MAX]; /* by axis: the coordinate */
    void **arrays;           /* by array, as interpret() takes them */
    const int64_t *first;
    Places places; /* of the step */
    SequenceWatch *watch;
    void *user;
};
typedef struct Run Run;

static const Parameter *row_of(const Run *run, uint32_t array) {
    const Function *step = run->sequence->step;
    return array < step->parameter_count ? &step->parameters[array]
                                         : &run->sequence->carried[array - step->parameter_count];
}

static size_t element_size(const Parameter *row) {
    return type_info[row->type].size;
}

/* How many elements it has room for, in whole blocks. */
static int64_t room_of(const Run *run, const Parameter *row, const Place *tensor) {
    const Function *step = run->sequence->step;
    const int list = ir_list_axis(step, row->axes);
    int64_t count = 1;
    for (uint32_t a = 0; a < step->axis_count; a++) {
        const Axis *axis = &step->axes[a];
        if (!(row->declared >> a & 1) || (int)a == list) continue;
        int64_t length = size_at(&run->places, a, tensor);
        if (axis->block >= 0) length = (length + axis->length - 1) / axis->length * axis->length;
        if (axis->whole >= 0 && step->axes[axis->whole].rest == (int)a) length = axis->length;
        count *= length;
    }
    return count;
}

static void *new_array(const Run *run, const Parameter *row) {
    const int list = ir_list_axis(run->sequence->step, row->axes);
    Place tensor = {{0}};
    if (list < 0) return calloc((size_t)room_of(run, row, &tensor) + 1, element_size(row));
    const int64_t count = run->sizes[list][0];
    void **tensors = calloc((size_t)count + 1, sizeof *tensors);
    for (int64_t t = 0; tensors && t < count; t++) {
        tensor.at[list] = t;
        tensors[t] = calloc((size_t)room_of(run, row, &tensor) + 1, element_size(row));
    }
    return tensors;
}

static void free_array(const Run *run, const Parameter *row, void *array) {
    const int list = ir_list_axis(run->sequence->step, row->axes);
    for (int64_t t = 0; array && list >= 0 && t < run->sizes[list][0]; t++)
        free(((void **)array)[t]);
    free(array);
}

/* Between an array and a dense copy of its slice. */
static void copy_slice(const Run *run, const View *view, const Parameter *slice, void *copy,
                       bool back) {
    const Parameter *row = row_of(run, view->array);
    const size_t size = element_size(row);
    char *array = run->arrays[view->array];
    Place place = {{0}};
    for (uint32_t a = 0; a < LS_AXES_MAX; a++)
        if (view->fixed >> a & 1) place.at[a] = run->at[a];
    for (bool more = next_place(&run->places, slice->axes, &place, true); more;
         more = next_place(&run->places, slice->axes, &place, false)) {
        char *one = array + (size_t)memory_at(&run->places, row, &place) * size;
        char *other = (char *)copy + (size_t)memory_at(&run->places, slice, &place) * size;
        memcpy(back ? one : other, back ? other : one, size);
    }
}

/* ---- one who watches ---- */

/* Of an array over the axes of `row`: its elements, from `from` to `to`, or whether they differ. */
static bool visit_tensors(const Run *run, const Parameter *row, void *to, void *from, bool copies) {
    const int list = ir_list_axis(run->sequence->step, row->axes);
    bool same = true;
    Place tensor = {{0}};
    for (int64_t t = 0; t < (list < 0 ? 1 : run->sizes[list][0]); t++) {
        if (list >= 0) tensor.at[list] = t;
        void *const a = list < 0 ? to : ((void **)to)[t], *const b =
                                                              list < 0 ? from : ((void **)from)[t];
        const size_t bytes = (size_t)room_of(run, row, &tensor) * element_size(row);
        if (copies)
            memcpy(a, b, bytes);
        else
            same = same && memcmp(a, b, bytes) == 0;
    }
    return same;
}

static const Function *part_of(const PartRun *part) {
    return part->run->parts[part->number];
}

void sequence_reset(const PartRun *part) {
    for (uint32_t i = 0; i < part_of(part)->parameter_count; i++)
        visit_tensors(part->run, &part_of(part)->parameters[i], part->data[i], part->given[i],
                      true);
}

int sequence_differs(const PartRun *part) {
    for (uint32_t i = 0; i < part_of(part)->parameter_count; i++)
        if (!visit_tensors(part->run, &part_of(part)->parameters[i], part->data[i],
                           part->expected[i], false))
            return (int)i;
    return -1;
}

static void **copy_arrays(const Run *run, const Function *f, void *const *data) {
    void **copies = calloc(f->parameter_count + 1, sizeof *copies);
    for (uint32_t i = 0; copies && i < f->parameter_count; i++) {
        copies[i] = new_array(run, &f->parameters[i]);
        if (copies[i]) visit_tensors(run, &f->parameters[i], copies[i], data[i], true);
    }
    return copies;
}

static void free_arrays(const Run *run, const Function *f, void **arrays) {
    for (uint32_t i = 0; arrays && i < f->parameter_count; i++)
        free_array(run, &f->parameters[i], arrays[i]);
    free(arrays);
}

/* Whether it is the first, the second or the last iteration of every loop around the part. */
static bool is_watched(const Run *run, uint32_t number) {
    bool watched = run->watch != NULL;
    for (uint32_t l = run->sequence->parts[number].loop; l; l = run->sequence->loops[l - 1].outer) {
        const uint32_t axis = run->sequence->loops[l - 1].axis;
        watched = watched && (run->at[axis] < 2 || run->at[axis] + 1 == run->sizes[axis][0]);
    }
    return watched;
}

static bool interpret_part(Run *run, uint32_t number, void **data) {
    const Function *f = run->parts[number];
    if (!is_watched(run, number)) return interpret(f, run->sizes, data, run->first);
    PartRun part = {.number = number, .sizes = run->sizes, .run = run, .expected = data};
    part.given = copy_arrays(run, f, data);
    void **own = copy_arrays(run, f, data);
    part.data = own;
    const bool good = part.given && own && interpret(f, run->sizes, data, run->first) &&
                      run->watch(run->user, &part);
    free_arrays(run, f, part.given);
    free_arrays(run, f, own);
    return good;
}

static bool run_part(Run *run, uint32_t number) {
    const Part *part = &run->sequence->parts[number];
    const Function *f = run->parts[number];
    void **data = calloc(f->parameter_count + 1, sizeof *data);
    bool good = data != NULL;
    for (uint32_t i = 0; i < f->parameter_count && good; i++) {
        const View *view = &part->views[i];
        data[i] = run->arrays[view->array];
        if (view->fixed == 0) continue;
        Place nowhere = {{0}};
        data[i] = calloc((size_t)room_of(run, &f->parameters[i], &nowhere) + 1,
                         element_size(&f->parameters[i]));
        good = data[i] != NULL;
        if (good) copy_slice(run, view, &f->parameters[i], data[i], false);
    }
    good = good && interpret_part(run, number, data);
    for (uint32_t i = 0; i < f->parameter_count && data; i++) {
        if (part->views[i].fixed == 0) continue;
        if (good && f->parameters[i].role != LS_IN)
            copy_slice(run, &part->views[i], &f->parameters[i], data[i], true);
        free(data[i]);
    }
    free(data);
    return good;
}

static bool is_in(const Sequence *s, uint32_t part, uint32_t loop) {
    uint32_t own = s->parts[part].loop;
    while (own && own != loop) own = s->loops[own - 1].outer;
    return own == loop;
}

/* Whether the part is for an axis that is empty, and none is. */
static bool has_no_work(const Run *run, uint32_t part) {
    const AxisSet empty = run->sequence->parts[part].empty;
    bool none = empty != 0;
    for (uint32_t a = 0; a < run->sequence->step->axis_count; a++)
        if (empty >> a & 1) none &= run->sizes[a][0] > 0;
    return none;
}

/* The parts from `first` on that are in the loop (0: all), once. */
static bool run_parts(Run *run, uint32_t first, uint32_t end, uint32_t loop) {
    const Sequence *s = run->sequence;
    for (uint32_t i = first; i < end;) {
        uint32_t inner = s->parts[i].loop, next = i + 1;
        if (has_no_work(run, i)) {
            i++;
            continue;
        }
        while (inner != loop && s->loops[inner - 1].outer != loop)
            inner = s->loops[inner - 1].outer;
        if (inner == loop) {
            if (!run_part(run, i++)) return false;
            continue;
        }
        while (next < end && is_in(s, next, inner)) next++;
        const Loop *row = &s->loops[inner - 1];
        const int64_t count = run->sizes[row->axis][0];
        for (int64_t k = 0; k < count; k++) {
            run->at[row->axis] = row->reverse ? count - 1 - k : k;
            if (!run_parts(run, i, next, inner)) return false;
        }
        i = next;
    }
    return true;
}

bool interpret_sequence(const Sequence *s, const Function *const *parts,
                        const int64_t *const *sizes, void *const *data, const int64_t first[2]) {
    return interpret_watched(s, parts, sizes, data, first, NULL, NULL);
}

bool interpret_watched(const Sequence *s, const Function *const *parts, const int64_t *const *sizes,
                       void *const *data, const int64_t first[2], SequenceWatch *watch,
                       void *user) {
    const size_t own = s->step->parameter_count, count = own + s->carried_count;
    Run run = {.sequence = s, .parts = parts, .first = first, .watch = watch, .user = user};
    for (uint32_t a = 0; a < s->step->axis_count; a++) run.sizes[a] = sizes[a];
    for (uint32_t a = 0; a < s->step->axis_count; a++)
        if (s->place[a]) run.sizes[s->place[a]] = &run.at[a];
    run.places = (Places){.f = s->step, .sizes = run.sizes};
    run.arrays = calloc(count + 1, sizeof *run.arrays);
    bool good = run.arrays != NULL;
    for (size_t i = 0; i < count && good; i++) {
        run.arrays[i] = i < own && data[i] ? data[i] : new_array(&run, row_of(&run, (uint32_t)i));
        good = run.arrays[i] != NULL;
    }
    good = good && run_parts(&run, 0, (uint32_t)s->part_count, 0);
    for (size_t i = 0; i < count && run.arrays; i++)
        if (i >= own || !data[i]) free_array(&run, row_of(&run, (uint32_t)i), run.arrays[i]);
    places_close(&run.places);
    free(run.arrays);
    return good;
}
