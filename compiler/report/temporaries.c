/* temporaries.c: the memory that a step's kernels hand things on in.
 *
 * Counted as the runtime does: temporaries that are never live at once share a slot, each slot is
 * aligned, and memory that every block has of its own counts for the blocks of the largest launch,
 * on a device with as many processors as the options say or the target usually has. */
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdint.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "front/front.h"
#include "fuse/fuse.h"
#include "emit/emit.h"
#include "toolchain/toolchain.h"
#include "compile.h"
#include "report/report.h"

enum { BLOCK_STEP = 256, TENSOR_STEP = 16 };

static uint64_t whole(double count) {
    return count < 9e18 ? (uint64_t)count : (uint64_t)9e18;
}

/* Of a cooperative kernel the most that one of its phases has; in one block the grid is for one. */
static uint64_t items_of(const Report *r, const ls_image_kernel *kernel) {
    double items = plan_sizes_extent(&r->own_sizes, &kernel->items);
    for (uint32_t i = 0; i < kernel->phase_count; i++) {
        const double own = plan_sizes_extent(&r->own_sizes, &kernel->phases[i]);
        if (own > items) items = own;
    }
    return whole(kernel->cooperative && !r->together && items > 1 ? 1 : items);
}

/* Blocks or workers of each launch; gives the most of one. */
static uint64_t count_parts(Report *r, const ls_image_variant *variant) {
    const Target *target = target_for(r->image->target);
    const uint64_t processors =
        r->options->processors ? r->options->processors : target->processors;
    uint64_t max = 1;
    for (uint32_t i = 0; i < variant->kernel_count; i++) {
        const ls_image_kernel *kernel = &variant->kernels[i];
        const uint64_t items = items_of(r, kernel);
        uint64_t tiles = 1;
        uint32_t threads = 1;
        if (kernel->tiles.scale) tiles = whole(plan_sizes_extent(&r->own_sizes, &kernel->tiles));
        const uint64_t parts = target->gpu
                                   ? ls_image_blocks(kernel, items, tiles, processors, &threads)
                                   : ls_image_workers(kernel, items, tiles, processors);
        r->kernels[i].blocks = parts;
        r->kernels[i].threads = threads;
        if (parts > max) max = parts;
    }
    return max;
}

void report_count_temporaries(Report *r) {
    Arena *arena = &r->c->compiler.arena;
    const ls_image_variant *variant = &r->image->variants[r->variant];
    const uint32_t count = variant->temporary_count;
    uint64_t *bytes = arena_alloc(arena, (count + 1) * sizeof *bytes);
    uint64_t *offsets = arena_alloc(arena, (count + 1) * sizeof *offsets), cleared;
    ls_image_temporary *rows = arena_alloc(arena, (count + 1) * sizeof *rows);
    r->temporary_count = count;
    r->parts = count_parts(r, variant);
    r->temporary_sizes = bytes;
    for (uint32_t i = 0; i < count; i++) {
        const ls_image_temporary *row = &variant->temporaries[i];
        double own =
            plan_sizes_extent_steps(&r->own_sizes, &row->bytes, row->pointers ? TENSOR_STEP : 1);
        if (row->per_block) own = ceil(own / BLOCK_STEP) * BLOCK_STEP * (double)r->parts;
        bytes[i] = whole(own);
        rows[i] = *row;
        rows[i].share = 0;
    }
    ls_image_variant apart = *variant;
    apart.temporaries = rows;
    r->temporary = (double)ls_image_place(variant, bytes, offsets, &cleared);
    r->temporary_apart = (double)ls_image_place(&apart, bytes, offsets, &cleared);
}

static void print_size(Report *r, uint32_t number) {
    const ls_image_temporary *row = &r->image->variants[r->variant].temporaries[number];
    text_puts(&r->out, report_bytes_text(r, (double)r->temporary_sizes[number]));
    if (row->per_block)
        text_printf(&r->out, " in %llu part%s", (unsigned long long)r->parts,
                    r->parts == 1 ? "" : "s");
    const ls_image_temporary *rows = r->image->variants[r->variant].temporaries;
    for (uint32_t i = 0; row->share && i < number; i++)
        if (rows[i].share == row->share) {
            text_printf(&r->out, " in the place of %s", rows[i].name);
            return;
        }
}

/* Those that carry values between phases by name, and how many there are for the kernels' own use:
 * counters, and what tiles leave for each other. */
void report_temporaries(Report *r) {
    const Target *target = target_for(r->image->target);
    const Plan *plan = plan_worker_scratch(r->plan, target, &r->plan->groupings[r->grouping]);
    const size_t parameters = plan->function->parameter_count;
    const size_t carried = plan->array_count - parameters;
    const size_t others = r->temporary_count - carried;
    double rest = 0;
    for (uint32_t i = 0; i < carried; i++) {
        const Array *array = &plan->arrays[parameters + i];
        text_printf(&r->out, "%s%s%s ", i == 0 ? "  temporaries: " : ", ", array->name,
                    array->in_scratch ? " (worker scratch)" : "");
        print_size(r, i);
    }
    for (size_t i = carried; i < r->temporary_count; i++) rest += (double)r->temporary_sizes[i];
    if (carried && others)
        text_printf(&r->out, ", and %zu for partial results and counters %s", others,
                    report_bytes_text(r, rest));
    if (carried && r->temporary < r->temporary_apart)
        text_printf(&r->out, "; %s in all, %s if each had a place of its own",
                    report_bytes_text(r, r->temporary), report_bytes_text(r, r->temporary_apart));
    if (carried) text_puts(&r->out, "\n");
}
