/* step_parts.c: a step with `for`: its parts, and their launches in all iterations.
 *
 * A part is a step of its own, whose arrays are views of those of the step: of a parameter, of what
 * an earlier part has stored, or of a slice of one of them at the current coordinate. It is
 * prepared once, at coordinate 0; an iteration has its launches with other arguments: the data
 * pointers of slices, and the coordinate. So a launch of the step, and a graph of it, is a list of
 * launches like that of any other step. Needs: a step whose sizes and temporaries are there. */
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

/* ---- life ---- */

ls_status parts_create(ls_step *step, const char *call, Variant *variants) {
    const ls_image *image = step->image;
    step->parts = calloc(image->part_count, sizeof(ls_step *));
    for (uint32_t i = 0; i < image->part_count; i++) {
        ls_step *part = step->parts ? calloc(1, sizeof *part) : NULL;
        if (!part) return error_memory(&step->context->error, call);
        step->parts[i] = part;
        part->owner = step;
        part->program = step->program;
        part->context = step->context;
        part->image = image->parts[i].image;
        part->references = 1;
        part->variants = variants;
        variants += part->image->variant_count;
        step->program->references++;
        if (!step_allocate_host(part)) return error_memory(&step->context->error, call);
    }
    return LS_OK;
}

void parts_release(ls_step *step) {
    for (uint32_t i = 0; step->parts && i < step->image->part_count; i++) {
        ls_step *part = step->parts[i];
        if (!part) continue;
        /* what it shares with the step */
        for (uint32_t a = 0; part->lengths && a < step->image->axis_count; a++)
            part->lengths[a] = (Lengths){.of = NULL};
        for (uint32_t p = 0; part->bindings && p < part->image->parameter_count; p++)
            part->bindings[p].list.lengths = NULL;
        part->owner = NULL;
        step_release(part);
    }
    free(step->parts);
    free(step->part_of);
    step->parts = NULL;
}

ls_step *ls_step_part(ls_step *step, uint32_t number) {
    return step && step->parts && number < step->image->part_count ? step->parts[number] : NULL;
}

/* ---- views ---- */

/* An array of the step: a parameter, or a temporary, which lies densely in the order of its axes.
 */
typedef struct Source {
    char *data;
    uint32_t element;
    bool list;
    int64_t strides[LS_AXES_MAX]; /* in elements, by axis */
} Source;

static Source source_of(const ls_step *step, const ls_step *part, uint32_t parameter,
                        const ls_image_view *view) {
    const ls_image *image = step->image;
    const ls_image_parameter *row = &part->image->parameters[parameter];
    Source source = {.element = type_rows[row->type].size};
    if (view->array < image->parameter_count) {
        const Binding *binding = &step->bindings[view->array];
        const ls_image_parameter *own = &image->parameters[view->array];
        source.data = binding->data;
        source.list = step_is_list(step, view->array);
        for (uint32_t k = 0; k < own->rank && !source.list; k++)
            source.strides[own->axes[k]] = binding->strides[k];
        return source;
    }
    uint32_t axes = view->fixed;
    for (uint32_t k = 0; k < row->rank; k++) axes |= 1u << row->axes[k];
    source.data = step_temporary(step, view->array - image->parameter_count);
    source.list = part->bindings[parameter].list_axis >= 0;
    int64_t stride = 1;
    for (uint32_t a = image->axis_count; a-- > 0 && !source.list;) {
        if (!(axes >> a & 1)) continue;
        source.strides[a] = stride;
        stride *= step->sizes[a] > 0 ? step->sizes[a] : 1;
    }
    return source;
}

/* Where a list that is a temporary has its tensors: make_pointers of step_words.c has put them
 * there. */
static size_t pointers_at(const ls_step *step, uint32_t temporary) {
    const ls_image *image = step->image;
    const ls_image_variant *variant = &image->variants[step->chosen];
    size_t at = 0;
    for (uint32_t i = 0; i < image->parameter_count; i++)
        if (step_is_list(step, i)) at += step->bindings[i].list.count;
    for (uint32_t i = 0; i < temporary; i++)
        if (variant->temporaries[i].pointers)
            at += (size_t)step->sizes[variant->temporaries[i].bytes.list - 1];
    return at;
}

static ls_status view_list(ls_step *step, const char *call, ls_step *part, uint32_t parameter,
                           const ls_image_view *view) {
    Binding *binding = &part->bindings[parameter];
    const uint32_t own = step->image->parameter_count;
    const size_t count = view->array < own ? step->bindings[view->array].list.count
                                           : (size_t)step->sizes[binding->list_axis];
    const size_t at = view->array < own ? 0 : pointers_at(step, view->array - own);
    List *list = &binding->list;
    if (!array_grow(&list->pointers, &list->capacity, count, sizeof *list->pointers))
        return error_memory(&step->context->error, call);
    for (size_t i = 0; i < count; i++)
        list->pointers[i] = view->array < own ? step->bindings[view->array].list.pointers[i]
                                              : (void *)(uintptr_t)step->pointers.host[at + i];
    list->count = count;
    binding->dense = view->array >= own || step->bindings[view->array].dense;
    return LS_OK;
}

/* Whether the slice at every coordinate begins on a 16-byte boundary. */
static bool is_aligned(const ls_step *step, const Source *source, uint32_t fixed) {
    for (uint32_t a = 0; a < step->image->axis_count; a++)
        if ((fixed >> a & 1) && step->sizes[a] > 1 && source->strides[a] * source->element % 16)
            return false;
    return true;
}

static ls_status bind_view(ls_step *step, const char *call, ls_step *part, uint32_t parameter,
                           const ls_image_view *view) {
    const ls_image_parameter *row = &part->image->parameters[parameter];
    Binding *binding = &part->bindings[parameter];
    const Source source = source_of(step, part, parameter, view);
    binding->bound = binding->has_value = true;
    binding->data = source.data;
    if (source.list) return view_list(step, call, part, parameter, view);
    for (uint32_t k = 0; k < row->rank; k++) {
        binding->shape[k] = step->sizes[row->axes[k]];
        binding->strides[k] = source.strides[row->axes[k]];
    }
    const Layout layout = {source.data, source.element, row->rank, binding->shape,
                           binding->strides};
    binding->dense =
        row->rank == 0 || (layout_dense(&layout) && is_aligned(step, &source, view->fixed));
    return LS_OK;
}

static ls_status bind_part(ls_step *step, const char *call, ls_step *part, const ls_image_part *row,
                           bool planned) {
    for (uint32_t a = 0; a < part->image->axis_count; a++) {
        const bool own = a < step->image->axis_count;
        part->sizes[a] = own ? step->sizes[a] : 0;
        if (own) part->lengths[a].of = step->lengths[a].of;
    }
    for (uint32_t v = 0; v < part->image->variant_count && !part->strips; v++)
        part->strips = part->image->variants[v].strips;
    if (part->strips) part->sizes[part->strips->all] = step->sizes[part->strips->axis];
    part->sized = true;
    if (!planned) part->tabled = part->planned = false;
    for (uint32_t i = 0; i < part->image->parameter_count; i++) {
        ls_status status = bind_view(step, call, part, i, &row->views[i]);
        if (status != LS_OK) return status;
    }
    return LS_OK;
}

/* ---- the iterations ---- */

/* How the step has the part. */
static const ls_image_part *row_of(const ls_step *part) {
    const ls_step *step = part->owner;
    uint32_t number = 0;
    while (step->parts[number] != part) number++;
    return &step->image->parts[number];
}

/* Of how many loops around the part a launch runs all iterations. */
static uint32_t iterates(const ls_step *part) {
    return part->image->variants[part->chosen].iterates;
}

/* The loop that is `number` loops further out than the one around the part, counted from 0. */
static const ls_image_loop *loop_around(const ls_image *image, uint32_t loop, uint32_t number) {
    while (number-- > 0) loop = image->loops[loop - 1].outer;
    return &image->loops[loop - 1];
}

/* The axes of the loops that a launch runs. */
static uint32_t iterated_axes(const ls_step *part) {
    const ls_image *image = part->owner->image;
    uint32_t axes = 0;
    for (uint32_t i = 0; i < iterates(part); i++)
        axes |= 1u << loop_around(image, row_of(part)->loop, i)->axis;
    return axes;
}

void parts_size_for(ls_step *part, const ls_image_variant *variant) {
    const ls_image_strips *strips = part->strips;
    if (!strips) return;
    const int64_t length = part->sizes[strips->all];
    part->sizes[strips->axis] = length;
    part->sizes[strips->begin] = 0;
    if (!variant || !variant->strips) return;
    const int64_t strip = ls_image_strip(variant, length, step_value, part);
    part->sizes[strips->axis] = strip;
    part->sizes[strips->begin] = strip ? (length + strip - 1) / strip : 0;
}

uint64_t parts_iterations(const ls_step *part) {
    uint64_t count = 1;
    if (!part->owner) return 1;
    const uint32_t axes = iterated_axes(part);
    for (uint32_t a = 0; a < part->owner->image->axis_count; a++)
        if (axes >> a & 1) count *= (uint64_t)part->owner->sizes[a];
    return count;
}

static bool has_axis(const ls_image_parameter *row, uint32_t axis) {
    bool found = false;
    for (uint32_t k = 0; k < row->rank; k++) found |= row->axes[k] == axis;
    return found;
}

/* Whether the kernels take the bytes between the strips' coordinates of the array. */
static bool has_strips(const ls_step *part, uint32_t parameter) {
    const ls_image_strips *strips = part->image->variants[part->chosen].strips;
    return strips && has_axis(&part->image->parameters[parameter], strips->axis);
}

size_t parts_iteration_words(const ls_step *part) {
    const ls_image_part *row = row_of(part);
    const uint32_t axes = iterated_axes(part);
    size_t count = iterates(part);
    for (uint32_t p = 0; p < part->image->parameter_count; p++)
        count += (size_t)__builtin_popcount(row->views[p].fixed & axes) + has_strips(part, p);
    return count;
}

/* What is filled: with `launches` NULL it is only counted. */
typedef struct Unroll {
    ls_step *step;
    Launch *launches;
    uint32_t *part_of;
    uint64_t *words;
    size_t launch_count, word_count;
    int64_t at[LS_AXES_MAX]; /* the coordinates, by axis */
} Unroll;

/* The words before `end`: the iterations, and the bytes between slices, and between coordinates of
 * the axis of strips. */
static void add_iterations(const ls_step *step, const ls_step *part, const ls_image_part *row,
                           uint64_t *end) {
    const uint32_t axes = iterated_axes(part);
    uint64_t *word = end - parts_iteration_words(part);
    for (uint32_t i = iterates(part); i-- > 0;)
        *word++ = (uint64_t)step->sizes[loop_around(step->image, row->loop, i)->axis];
    for (uint32_t p = 0; p < part->image->parameter_count; p++) {
        const uint32_t moves = row->views[p].fixed & axes;
        if (!moves) continue;
        const Source source = source_of(step, part, p, &row->views[p]);
        for (uint32_t a = 0; a < step->image->axis_count; a++)
            if (moves >> a & 1) *word++ = (uint64_t)(source.strides[a] * source.element);
    }
    for (uint32_t p = 0; p < part->image->parameter_count; p++) {
        if (!has_strips(part, p)) continue;
        const Source source = source_of(step, part, p, &row->views[p]);
        *word++ = (uint64_t)(source.strides[part->strips->axis] * source.element);
    }
}

static void add_part(Unroll *u, uint32_t number) {
    const ls_image_part *row = &u->step->image->parts[number];
    const ls_step *part = u->step->parts[number];
    const size_t words = part->launches[0].argument_count; /* every part has a kernel */
    for (uint32_t i = 0; u->launches && i < part->launch_count; i++) {
        u->launches[u->launch_count + i] = part->launches[i];
        u->launches[u->launch_count + i].arguments = u->words + u->word_count;
        u->launches[u->launch_count + i].step = u->step->image->step;
        u->part_of[u->launch_count + i] = number;
    }
    if (u->launches && words) {
        uint64_t *own = u->words + u->word_count, *data = own + part->image->axis_count;
        memcpy(own, part->arguments, words * sizeof *own);
        for (uint32_t l = row->loop; l; l = u->step->image->loops[l - 1].outer) {
            const ls_image_loop *loop = &u->step->image->loops[l - 1];
            own[loop->place] = (uint64_t)u->at[loop->axis];
        }
        for (uint32_t p = 0; p < part->image->parameter_count; p++) {
            if (!row->views[p].fixed) continue;
            const Source source = source_of(u->step, part, p, &row->views[p]);
            for (uint32_t a = 0; a < u->step->image->axis_count; a++)
                if (row->views[p].fixed >> a & 1)
                    data[p] += (uint64_t)(u->at[a] * source.strides[a] * source.element);
        }
        if (iterates(part)) add_iterations(u->step, part, row, own + words);
    }
    u->launch_count += part->launch_count;
    u->word_count += words;
}

/* The loop directly in `around` that a part is in; 0: the part is not in one. */
static uint32_t loop_in(const ls_image *image, uint32_t part, uint32_t around) {
    uint32_t loop = image->parts[part].loop;
    while (loop != around && image->loops[loop - 1].outer != around)
        loop = image->loops[loop - 1].outer;
    return loop == around ? 0 : loop;
}

/* Whether a launch of the part runs all iterations of the loop, from its first coordinates on: it
 * does, as far in as there are any. */
static bool runs_all(Unroll *u, uint32_t part, uint32_t loop) {
    const ls_image *image = u->step->image;
    const uint32_t count = iterates(u->step->parts[part]);
    bool found = false, any = true;
    for (uint32_t i = 0; i < count && !found; i++) {
        const ls_image_loop *row = loop_around(image, image->parts[part].loop, i);
        found = row == &image->loops[loop - 1];
        any &= u->step->sizes[row->axis] > 0;
        u->at[row->axis] = 0;
    }
    return found && any;
}

/* Whether the part is for an axis that is empty, and none is. */
static bool has_no_work(const ls_step *step, const ls_image_part *row) {
    bool none = row->empty != 0;
    for (uint32_t a = 0; a < step->image->axis_count; a++)
        if (row->empty >> a & 1) none &= step->sizes[a] > 0;
    return none;
}

/* Those parts of the loop `around` (0: the step), once. A loop of many iterations has many
 * launches, and the recursion is as deep as loops stand in each other. */
static void add_parts(Unroll *u, uint32_t first, uint32_t end, uint32_t around) {
    const ls_image *image = u->step->image;
    for (uint32_t i = first, next; i < end; i = next) {
        const uint32_t loop = loop_in(image, i, around);
        next = i + 1;
        if (has_no_work(u->step, &image->parts[i])) continue;
        if (!loop) {
            add_part(u, i);
            continue;
        }
        while (next < end && loop_in(image, next, around) == loop) next++;
        const ls_image_loop *row = &image->loops[loop - 1];
        const int64_t length = u->step->sizes[row->axis];
        if (next == i + 1 && runs_all(u, i, loop)) { /* one launch for all */
            add_part(u, i);
            continue;
        }
        for (int64_t k = 0; k < length; k++) {
            u->at[row->axis] = row->reverse ? length - 1 - k : k;
            add_parts(u, i, next, loop);
        }
    }
}

static ls_status unroll(ls_step *step, const char *call) {
    Unroll count = {.step = step};
    add_parts(&count, 0, step->image->part_count, 0);
    if (count.launch_count > UINT32_MAX)
        return step_too_large(step, call, "the launches of all iterations");
    if (!array_grow(&step->launches, &step->launch_capacity, count.launch_count + 1,
                    sizeof *step->launches) ||
        !array_grow(&step->part_of, &step->part_capacity, count.launch_count + 1,
                    sizeof *step->part_of) ||
        !array_grow(&step->moved, &step->moved_capacity, count.launch_count + 1,
                    sizeof *step->moved) ||
        !array_grow(&step->arguments, &step->word_capacity, count.word_count + 1,
                    sizeof *step->arguments))
        return error_memory(&step->context->error, call);
    Unroll fill = {.step = step,
                   .launches = step->launches,
                   .part_of = step->part_of,
                   .words = step->arguments};
    add_parts(&fill, 0, step->image->part_count, 0);
    step->launch_count = (uint32_t)count.launch_count;
    return LS_OK;
}

ls_status parts_prepare(ls_step *step, const char *call, bool planned) {
    const ls_image *image = step->image;
    ls_status status = LS_OK;
    step->together = false;
    for (uint32_t i = 0; i < image->part_count && status == LS_OK; i++) {
        ls_step *part = step->parts[i];
        if (has_no_work(step, &image->parts[i])) {
            part->ready = part->planned = false;
            part->launch_count = 0;
            part->known = KNOWN_SETTLED; /* no code for its lengths, until it has work */
            part->known_mark = 0;
            continue;
        }
        status = bind_part(step, call, part, &image->parts[i], planned);
        if (status == LS_OK) status = step_prepare_part(part, call);
        step->together |= part->together;
    }
    return status == LS_OK ? unroll(step, call) : status;
}
