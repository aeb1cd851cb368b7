/* traffic.c: what a step's kernels move by the plan: an image's flows, for the lengths bound. */
#include "runtime.h"

static int is_left_out(const void *of, uint32_t array) {
    const ls_step *step = of;
    return array < step->image->parameter_count && step_leaves_out(step, array);
}

const Moved *step_moved(ls_step *step) {
    const ls_image_variant *variant = &step->image->variants[step->chosen];
    if (step->counted) return step->moved;
    for (uint32_t i = 0, kernel = 0; step->parts && i < step->launch_count; i++) {
        ls_step *part = step->parts[step->part_of[i]];
        kernel =
            i && step->launches[i].arguments == step->launches[i - 1].arguments ? kernel + 1 : 0;
        step->moved[i] = step_moved(part)[kernel];
    }
    const ls_image_strips *strips = variant->kernel_count ? variant->strips : NULL;
    const int64_t strip = strips ? step->sizes[strips->axis] : 0;
    if (strips) step->sizes[strips->axis] = step->sizes[strips->all]; /* of all strips */
    for (uint32_t i = 0; i < variant->kernel_count; i++) {
        step->moved[i] = (Moved){0, 0};
        if (variant->traffic)
            ls_image_count_moved(&variant->traffic[i], parts_iterations(step), step_value,
                                 is_left_out, step, &step->moved[i]);
    }
    if (strips) step->sizes[strips->axis] = strip;
    step->counted = true;
    return step->moved;
}
