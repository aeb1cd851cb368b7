/* step_known.c: code in which the lengths of rows are constants, for what is launched often.
 *
 * A launch takes the general code of its variant first. Once a step was launched KNOWN_LAUNCHES
 * times with rows of the same lengths, or replayed in graphs as often, the program's compiler makes
 * code for these lengths on a thread of its own; the first launch that finds it there, and the
 * first replay of a graph, puts its kernels in the place of the general ones: they take the same
 * arguments and give the same bits. What an earlier process made is in the cache, and is used from
 * the first launch on. Which kernel a launch may take is read from its arguments, which begin with
 * the lengths of the axes. */
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KNOWN_LAUNCHES = 32 };

ls_status known_open(ls_context *context) {
    const char *text = host_environment(VARIABLE_LOCKSTEP_LENGTHS);
    if (!text || !*text) return LS_OK;
    context->known_off = strcmp(text, "off") == 0;
    context->known_now = strcmp(text, "now") == 0;
    if (context->known_off || context->known_now) return LS_OK;
    return error_set(
        NULL, LS_ERROR_ARGUMENT,
        "ls_context_create: LOCKSTEP_LENGTHS is `%.32s`; it takes off or now, or is not set", text);
}

void known_free(ls_program *program, Variant *variant) {
    for (uint32_t i = 0; i < variant->known_count; i++) {
        program->context->driver->unload(program->context->device, variant->known[i].module);
        free(variant->known[i].kernels);
        free(variant->known[i].lengths);
    }
    variant->known_count = 0;
}

/* ---- which kernels a launch takes ---- */

static bool knows(const ls_image *image, const Known *known, const uint64_t *arguments) {
    for (uint32_t a = 0; a < image->axis_count; a++)
        if (known->lengths[a] && (uint64_t)known->lengths[a] != arguments[a]) return false;
    return true;
}

/* Puts the kernel that knows the launch's lengths in the place of the image's general one. */
static void take_of_image(const ls_image *image, const Variant *variants, Launch *launch) {
    for (uint32_t v = 0; v < image->variant_count; v++)
        for (uint32_t k = 0; k < variants[v].known_count; k++)
            for (uint32_t i = 0; i < image->variants[v].kernel_count; i++) {
                if (variants[v].kernels[i].cpu != launch->kernel.cpu ||
                    !knows(image, &variants[v].known[k], launch->arguments))
                    continue;
                launch->kernel = variants[v].known[k].kernels[i];
                return;
            }
}

static void take_kernels(const ls_step *step, Launch *launches, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (step->image->part_count == 0) take_of_image(step->image, step->variants, &launches[i]);
        for (uint32_t p = 0; p < step->image->part_count; p++)
            take_of_image(step->parts[p]->image, step->parts[p]->variants, &launches[i]);
    }
}

/* ---- code for the lengths of a step ---- */

/* Loads it. False: the general code stays in use. */
static bool add_known(ls_step *step, const int64_t *lengths, const void *code, size_t size) {
    const ls_image *image = step->image;
    const ls_image_variant *variant = &image->variants[step->chosen];
    Variant *loaded = &step->variants[step->chosen];
    Known known = {0};
    if (loaded->known_count == KNOWN_MAX) return false;
    known.kernels = calloc(variant->kernel_count + 1u, sizeof *known.kernels);
    known.lengths = calloc(image->axis_count + 1u, sizeof *known.lengths);
    if (!known.kernels || !known.lengths ||
        step->context->driver->load(step->context->device, image, variant, code, size,
                                    known.kernels, &known.module) != LS_OK) {
        free(known.kernels);
        free(known.lengths);
        return false;
    }
    memcpy(known.lengths, lengths, image->axis_count * sizeof *lengths);
    loaded->known[loaded->known_count++] = known;
    return true;
}

static void log_known(const ls_step *step, const int64_t *lengths, bool from_cache) {
    const ls_image *image = step->image;
    char text[256] = "";
    if (!log_wanted(LOG_INFO)) return;
    for (uint32_t a = 0; a < image->axis_count; a++) {
        const size_t used = strlen(text);
        if (lengths[a])
            snprintf(text + used, sizeof text - used, " %s=%lld", image->axes[a].name,
                     (long long)lengths[a]);
    }
    log_write(LOG_INFO, "step `%s` (%s) on %s: code for%s %s", image->step,
              image->variants[step->chosen].name, step->context->device->target, text,
              from_cache ? "from the cache" : "compiled");
}

static KnownState request(ls_step *step, ls_known_when when) {
    int64_t lengths[LS_AXES_MAX];
    const void *code = NULL;
    size_t size = 0;
    int from_cache = 0;
    const ls_program *program = step->program;
    memcpy(lengths, step->sizes, step->image->axis_count * sizeof *lengths);
    if (program->make_known(program->maker, step->image, step->chosen, lengths, when, &code, &size,
                            &from_cache) != LS_OK)
        return KNOWN_SETTLED;
    if (!code) return when == LS_KNOWN_KEPT ? KNOWN_COUNTED : KNOWN_AWAITED;
    if (add_known(step, lengths, code, size)) log_known(step, lengths, from_cache != 0);
    return KNOWN_SETTLED;
}

/* Tells one variant with one set of lengths of rows from another. */
static uint64_t mark_of(const ls_step *step) {
    const uint32_t axes = step->image->variants[step->chosen].row_axes;
    uint64_t mark = step->chosen + 1;
    for (uint32_t a = 0; a < step->image->axis_count; a++)
        if (axes >> a & 1) mark = (mark ^ (uint64_t)step->sizes[a]) * 0x9e3779b97f4a7c15u;
    return mark;
}

static bool is_known(const ls_step *step) {
    const Variant *variant = &step->variants[step->chosen];
    for (uint32_t i = 0; i < variant->known_count; i++)
        if (knows(step->image, &variant->known[i], step->arguments)) return true;
    return false;
}

void step_find_known(ls_step *step) {
    const ls_context *context = step->context;
    const ls_image_variant *variant = &step->image->variants[step->chosen];
    Variant *loaded = &step->variants[step->chosen];
    const uint64_t mark = mark_of(step);
    if (step->image->part_count) { /* which count for it */
        step->known = KNOWN_COUNTED;
        return;
    }
    if (!variant->row_axes || !step->program->make_known || context->known_off || step->tried) {
        step->known = KNOWN_SETTLED;
        step->known_mark = 0; /* counted anew once none of this holds */
        return;
    }
    if (mark != step->known_mark) step->known = KNOWN_COUNTED, step->known_launches = 0;
    step->known_mark = mark;
    if (is_known(step))
        step->known = KNOWN_SETTLED;
    else if (context->known_now && step->known != KNOWN_SETTLED)
        step->known = request(step, LS_KNOWN_NOW);
    else if (!loaded->known_asked)
        step->known = request(step, LS_KNOWN_KEPT);
    loaded->known_asked = true;
    take_kernels(step, step->launches, step->launch_count);
}

/* Of a step that is no loop. Gives whether there is new code. */
static bool count_own(ls_step *step, uint64_t times) {
    if (step->known == KNOWN_SETTLED) return false;
    if (step->known == KNOWN_COUNTED) {
        step->known_launches += times;
        if (step->known_launches < KNOWN_LAUNCHES) return false;
    }
    step->known = is_known(step) ? KNOWN_SETTLED : request(step, LS_KNOWN_SOON);
    return step->known == KNOWN_SETTLED && is_known(step); /* which another handle may have made */
}

bool step_count_launches(ls_step *step, uint64_t times) {
    bool made = false, settled = true;
    if (!step_is_ready(step)) return false;
    if (step->image->part_count == 0) made = count_own(step, times);
    for (uint32_t p = 0; p < step->image->part_count; p++) {
        made |= count_own(step->parts[p], times);
        settled &= step->parts[p]->known == KNOWN_SETTLED;
    }
    if (step->image->part_count && settled) step->known = KNOWN_SETTLED;
    if (made) take_kernels(step, step->launches, step->launch_count);
    return made;
}

void graph_count_replays(ls_graph *graph, uint64_t times) {
    Recording *recording = &graph->recording;
    bool made = false, settled = true;
    for (size_t i = 0; i < graph->step_count; i++) {
        made |= step_count_launches(graph->steps[i].step, times);
        settled &= graph->steps[i].step->known == KNOWN_SETTLED;
    }
    graph->settled = settled;
    for (size_t i = 0; i < recording->entry_count && (made || settled); i++) {
        const Recorded *entry = &recording->entries[i];
        if (entry->step)
            take_kernels(entry->step, &recording->launches[entry->first], entry->count);
    }
}
