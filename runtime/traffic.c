/* traffic.c: what a step's kernels move by the plan: an image's flows, for the lengths bound. */
#include "runtime.h"

#include <string.h>

/* Sums stick at the end. */
static uint64_t sum(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* False: it overflows, or is of an axis nobody knows. */
static bool flow_bytes(const ls_step *step, const ls_image_flow *flow, uint64_t *bytes) {
    uint64_t total = 0, part, limit;
    for (uint32_t i = 0; i < flow->count; i++) {
        if (!extent_value(step, &flow->bytes[i], &part)) return false;
        total = sum(total, part);
    }
    if (flow->most.scale) {
        if (!extent_value(step, &flow->most, &limit)) return false;
        if (total > limit) total = limit;
    }
    if (flow->above.scale) {
        if (!extent_value(step, &flow->above, &limit)) return false;
        if (total <= limit) total = 0;
    }
    *bytes = total;
    return true;
}

/* Whether what the kernel comes back to in a row is still near when it does. */
static bool rows_stay_near(const ls_step *step, const ls_image_traffic *traffic) {
    double total = 0;
    if (traffic->near == 0 || traffic->near == UINT64_MAX) return traffic->near != 0;
    for (uint32_t i = 0; i < traffic->row_count; i++) {
        const ls_image_row *row = &traffic->rows[i];
        uint64_t bytes, rows;
        if (!extent_value(step, &row->bytes, &bytes) || !extent_value(step, &row->rows, &rows))
            return false;
        const double each = (double)bytes / (double)(rows > 1 ? rows : 1);
        total += each * (double)(rows > 1 && rows < row->at_once ? rows
                                 : rows > 1                      ? row->at_once
                                                                 : 1);
    }
    return total <= (double)traffic->near;
}

static bool kernel_moved(const ls_step *step, const ls_image_traffic *traffic, Moved *moved) {
    const bool near = rows_stay_near(step, traffic);
    uint64_t largest = 0; /* of those of the array at hand */
    for (uint32_t i = 0; i < traffic->flow_count; i++) {
        const ls_image_flow *flow = &traffic->flows[i];
        uint64_t bytes, *to = flow->written ? &moved->written : &moved->read;
        if (i == 0 || flow->array != traffic->flows[i - 1].array) largest = 0;
        if (near && flow->again == LS_FLOW_FAR) continue;
        if (flow->array < step->image->parameter_count && step_leaves_out(step, flow->array))
            continue;
        if (!flow_bytes(step, flow, &bytes)) return false;
        if (near && flow->again == LS_FLOW_LARGEST) {
            const uint64_t before = largest;
            if (bytes > largest) largest = bytes;
            bytes = largest - before;
        }
        *to = sum(*to, bytes);
    }
    return true;
}

const Moved *step_moved(ls_step *step) {
    const ls_image_variant *variant = &step->image->variants[step->chosen];
    if (step->counted) return step->moved;
    for (uint32_t i = 0; i < variant->kernel_count; i++) {
        step->moved[i] = (Moved){0, 0};
        if (variant->traffic && !kernel_moved(step, &variant->traffic[i], &step->moved[i]))
            step->moved[i] = (Moved){0, 0};
    }
    step->counted = true;
    return step->moved;
}
