/* copy.c: bytes from one place to another: between the host and the device, and within the device's
 * memory, of any strides. All of it is counted, and timed where a profile is taken.
 *
 * A copy within the device, or a fill, is rows of bytes along up to LS_RANK_MAX axes. What a driver
 * has no call for is cut into what it has: a copy into those of one axis less, a fill into its
 * first element and copies of what is filled already, twice as much each time. */
#include "runtime.h"

#include <stdio.h>
#include <string.h>

/* ---- counting ---- */

static void count(ls_copy_statistics *counts, CopyWay way, uint64_t bytes) {
    uint64_t *const copies[] = {&counts->to_device, &counts->from_device, &counts->within};
    uint64_t *const moved[] = {&counts->to_device_bytes, &counts->from_device_bytes,
                               &counts->within_bytes};
    ++*copies[way];
    *moved[way] += bytes;
}

static Moved moved_by(CopyWay way, uint64_t bytes) {
    return (Moved){way == COPY_IN ? 0 : bytes, way == COPY_OUT ? 0 : bytes};
}

void copy_add(ls_copy_statistics *counts, const ls_copy_statistics *more, uint64_t times) {
    counts->to_device += times * more->to_device;
    counts->to_device_bytes += times * more->to_device_bytes;
    counts->from_device += times * more->from_device;
    counts->from_device_bytes += times * more->from_device_bytes;
    counts->within += times * more->within;
    counts->within_bytes += times * more->within_bytes;
}

void ls_copy_stats(const ls_context *context, ls_copy_statistics *statistics) {
    if (!statistics) return;
    *statistics = context ? context->copies : (ls_copy_statistics){0};
}

/* ---- runs of bytes ---- */

ls_status copy_bytes(ls_context *context, const CopyRun *run) {
    static const char *const rows[] = {"copy to the device", "copy from the device",
                                       "copy within the device"};
    const Driver *driver = context->driver;
    Device *device = context->device;
    const ProfileSpan span = profile_open(context, run->stream);
    ls_status status;
    if (run->way == COPY_WITHIN)
        status = driver->copy_within(device, run->stream, run->to, run->from, run->bytes);
    else if (run->stream && run->way == COPY_IN)
        status = driver->stream_copy_in(device, run->stream, run->to, run->from, run->bytes);
    else if (run->stream)
        status = driver->stream_copy_out(device, run->stream, run->to, run->from, run->bytes);
    else if (run->way == COPY_IN)
        status = driver->copy_in(device, run->to, run->from, run->bytes);
    else
        status = driver->copy_out(device, run->to, run->from, run->bytes);
    if (status != LS_OK) return status;
    count(context->capture ? &context->capture->copies : &context->copies, run->way, run->bytes);
    if (run->step) count(&run->step->copies, run->way, run->bytes);
    profile_close(context, span, rows[run->way], PROFILE_COPY, moved_by(run->way, run->bytes));
    return LS_OK;
}

/* ---- rows of bytes ---- */

/* Where a copy's launches go: into the graph that is being captured, or to the stream. */
static ls_status emit(ls_context *context, const char *call, const Copy *copy) {
    uint64_t words[sizeof *copy / sizeof(uint64_t)];
    const size_t bytes = offsetof(Copy, axes) + copy->rank * sizeof copy->axes[0];
    Launch launch = {.step = "copy",
                     .name = copy->from ? "copy within the device" : "fill",
                     .arguments = words,
                     .argument_count = bytes / sizeof words[0],
                     .items = 1,
                     .parts = 1,
                     .copies = true};
    memcpy(words, copy, bytes);
    context->driver->copy_launch(context->device, copy, &launch);
    if (context->capture) return graph_record(context->capture, call, NULL, &launch, 1);
    return context->driver->launch(context->device, &launch, 1);
}

static void drop_axis(Copy *copy, uint32_t axis) {
    copy->rank--;
    memmove(&copy->axes[axis], &copy->axes[axis + 1], (copy->rank - axis) * sizeof copy->axes[0]);
}

/* Whether axis `outer` goes on where axis `inner` ends, in both arrays. */
static bool goes_on(const Copy *copy, uint32_t outer, uint32_t inner) {
    const int64_t length = (int64_t)copy->axes[inner].length;
    return copy->axes[outer].to == copy->axes[inner].to * length &&
           (!copy->from || copy->axes[outer].from == copy->axes[inner].from * length);
}

static bool is_run(const Copy *copy, uint32_t axis) {
    const int64_t width = (int64_t)copy->width;
    return copy->axes[axis].to == width && (!copy->from || copy->axes[axis].from == width);
}

/* Axes in the order in which they lie in the target, the widest rows, the fewest axes. The target
 * is written upwards. */
static void simplify(Copy *copy) {
    for (uint32_t i = copy->rank; i-- > 0;) {
        const int64_t back = (int64_t)copy->axes[i].length - 1;
        if (copy->axes[i].length == 1) {
            drop_axis(copy, i);
        } else if (copy->axes[i].to < 0) {
            copy->to += back * copy->axes[i].to;
            if (copy->from) copy->from += back * copy->axes[i].from;
            copy->axes[i].to = -copy->axes[i].to;
            copy->axes[i].from = -copy->axes[i].from;
        }
    }
    for (uint32_t i = 1; i < copy->rank; i++)
        for (uint32_t k = i; k > 0 && copy->axes[k - 1].to < copy->axes[k].to; k--) {
            const CopyAxis axis = copy->axes[k];
            copy->axes[k] = copy->axes[k - 1];
            copy->axes[k - 1] = axis;
        }
    for (uint32_t i = copy->rank; i-- > 1;)
        if (goes_on(copy, i - 1, i)) {
            copy->axes[i - 1].length *= copy->axes[i].length;
            copy->axes[i - 1].to = copy->axes[i].to;
            copy->axes[i - 1].from = copy->axes[i].from;
            drop_axis(copy, i);
        }
    if (copy->rank && is_run(copy, copy->rank - 1)) {
        copy->width *= copy->axes[copy->rank - 1].length;
        drop_axis(copy, copy->rank - 1);
    }
    if (!copy->from && copy->unit == 8 && copy->value >> 32 == (copy->value & UINT32_MAX))
        copy->unit = 4;
}

static ls_status emit_any(ls_context *context, const char *call, Copy copy);

/* The axis with the fewest steps goes, one call for each. */
static ls_status emit_apart(ls_context *context, const char *call, Copy copy) {
    uint32_t least = 0;
    ls_status status = LS_OK;
    for (uint32_t i = 1; i < copy.rank; i++)
        if (copy.axes[i].length < copy.axes[least].length) least = i;
    const uint64_t steps = copy.axes[least].length;
    const int64_t to = copy.axes[least].to, from = copy.axes[least].from;
    drop_axis(&copy, least);
    for (uint64_t i = 0; i < steps && status == LS_OK; i++) {
        status = emit_any(context, call, copy);
        copy.to += to;
        copy.from += from;
    }
    return status;
}

/* A fill's first element, in halves where a driver fills no more than 4 bytes at once. */
static ls_status emit_element(ls_context *context, const char *call, const Copy *fill) {
    Copy half = {.to = fill->to, .width = 4, .unit = 4, .value = fill->value & UINT32_MAX};
    Copy whole = {.to = fill->to, .width = fill->unit, .unit = fill->unit, .value = fill->value};
    if (fill->unit < 8) return emit_any(context, call, whole);
    ls_status status = emit_any(context, call, half);
    half.to += 4;
    half.value = fill->value >> 32;
    return status == LS_OK ? emit_any(context, call, half) : status;
}

/* Axis by axis from the innermost, which a row is too: what is filled is copied behind itself. */
static ls_status emit_doubling(ls_context *context, const char *call, const Copy *fill) {
    Copy filled = {.to = fill->to, .from = fill->to, .width = fill->unit};
    ls_status status = emit_element(context, call, fill);
    for (uint32_t axis = fill->rank + 1; axis-- > 0 && status == LS_OK;) {
        const bool row = axis == fill->rank;
        const uint64_t length = row ? fill->width / fill->unit : fill->axes[axis].length;
        const int64_t pitch = row ? (int64_t)fill->unit : fill->axes[axis].to;
        const uint32_t at = filled.rank++;
        filled.axes[at].to = filled.axes[at].from = pitch;
        for (uint64_t have = 1; have < length && status == LS_OK; have *= 2) {
            filled.axes[at].length = have < length - have ? have : length - have;
            filled.to = fill->to + (int64_t)have * pitch;
            status = emit_any(context, call, filled);
        }
        filled.axes[at].length = length;
        if (length == 1) filled.rank--;
    }
    return status;
}

static ls_status emit_any(ls_context *context, const char *call, Copy copy) {
    const Driver *driver = context->driver;
    simplify(&copy);
    if (!driver->copies || driver->copies(&copy)) return emit(context, call, &copy);
    return copy.from ? emit_apart(context, call, copy) : emit_doubling(context, call, &copy);
}

/* ---- the API ---- */

static ls_status refuse(ls_context *context, const char *call, const char *what,
                        const char *problem) {
    return error_set(&context->error, LS_ERROR_BIND, "%s: %s %s", call, what, problem);
}

/* One of a call's arrays as it lies in memory; `strides` is room for those that were left out. */
static ls_status read_tensor(ls_context *context, const char *call, const char *what,
                             const ls_tensor *tensor, int64_t strides[LS_RANK_MAX],
                             Layout *layout) {
    if ((size_t)tensor->type >= LS_TYPE_COUNT)
        return refuse(context, call, what, "has a type that is no element type");
    if (tensor->rank > LS_RANK_MAX || (tensor->rank && !tensor->shape))
        return refuse(context, call, what,
                      tensor->rank > LS_RANK_MAX ? "has more axes than an array can have"
                                                 : "has no shape");
    for (uint32_t i = 0; i < tensor->rank; i++)
        if (tensor->shape[i] < 0) return refuse(context, call, what, "has a negative length");
    memset(strides, 0, LS_RANK_MAX * sizeof *strides);
    *layout = (Layout){tensor->data, type_rows[tensor->type].size, tensor->rank, tensor->shape,
                       tensor->strides ? tensor->strides : strides};
    if (!layout_in_range(layout))
        return refuse(context, call, what, "is larger than memory can be");
    if (!tensor->strides) layout_contiguous(tensor->rank, tensor->shape, strides);
    if (!layout_in_range(layout))
        return refuse(context, call, what, "is larger than memory can be");
    if (!tensor->data && !layout_empty(layout))
        return refuse(context, call, what, "has a NULL data pointer; only an empty array may");
    return LS_OK;
}

static Copy copy_of(const Layout *to) {
    Copy copy = {.to = (char *)(uintptr_t)to->data, .width = to->element, .rank = to->rank};
    for (uint32_t i = 0; i < to->rank; i++) {
        copy.axes[i].length = (uint64_t)to->shape[i];
        copy.axes[i].to = to->strides[i] * (int64_t)to->element;
    }
    return copy;
}

static uint64_t bytes_of(const Copy *copy) {
    uint64_t bytes = copy->width;
    for (uint32_t i = 0; i < copy->rank; i++) bytes *= copy->axes[i].length;
    return bytes;
}

/* Counts it, in a graph with every replay, and times it where a profile is taken. */
static ls_status run_copy(ls_context *context, const char *call, const Copy *copy) {
    const uint64_t bytes = bytes_of(copy);
    const ProfileSpan span = profile_open(context, NULL);
    ls_status status = emit_any(context, call, *copy);
    if (status != LS_OK) return status;
    const Moved moved = {copy->from ? bytes : 0, bytes};
    count(context->capture ? &context->capture->copies : &context->copies, COPY_WITHIN, bytes);
    profile_close(context, span, copy->from ? "copy within the device" : "fill", PROFILE_COPY,
                  moved);
    return LS_OK;
}

static ls_status missing(ls_context *context, const char *call, const char *what) {
    return error_set(context ? &context->error : NULL, LS_ERROR_ARGUMENT, "%s: %s is NULL", call,
                     what);
}

ls_status ls_copy(ls_context *context, const ls_tensor *to, const ls_tensor *from) {
    static const char call[] = "ls_copy";
    int64_t strides[2][LS_RANK_MAX];
    Layout target, source;
    if (!context || !to || !from)
        return missing(context, call, !context ? "context" : (to ? "from" : "to"));
    ls_status status = read_tensor(context, call, "`to`", to, strides[0], &target);
    if (status == LS_OK) status = read_tensor(context, call, "`from`", from, strides[1], &source);
    if (status != LS_OK) return status;
    if (to->type != from->type)
        return error_set(&context->error, LS_ERROR_BIND,
                         "%s: `to` is %s and `from` is %s; a step converts", call,
                         type_rows[to->type].name, type_rows[from->type].name);
    bool same = to->rank == from->rank;
    for (uint32_t i = 0; same && i < to->rank; i++) same = to->shape[i] == from->shape[i];
    if (!same) return refuse(context, call, "`to` and `from`", "have different shapes");
    if (layout_empty(&target)) return LS_OK;
    if (!layout_distinct(&target))
        return refuse(context, call, "`to`", "has elements that share memory");
    if (!layout_disjoint(&target, &source))
        return refuse(context, call, "`to` and `from`", "share memory");
    Copy copy = copy_of(&target);
    copy.from = source.data;
    for (uint32_t i = 0; i < copy.rank; i++)
        copy.axes[i].from = source.strides[i] * (int64_t)source.element;
    return run_copy(context, call, &copy);
}

ls_status ls_fill(ls_context *context, const ls_tensor *to, const void *value) {
    static const char call[] = "ls_fill";
    int64_t strides[LS_RANK_MAX];
    Layout target;
    if (!context || !to || !value)
        return missing(context, call, !context ? "context" : (to ? "value" : "to"));
    ls_status status = read_tensor(context, call, "`to`", to, strides, &target);
    if (status != LS_OK || layout_empty(&target)) return status;
    if (!layout_distinct(&target))
        return refuse(context, call, "`to`", "has elements that share memory");
    Copy copy = copy_of(&target);
    copy.unit = (uint32_t)target.element;
    memcpy(&copy.value, value, target.element); /* low bytes first */
    return run_copy(context, call, &copy);
}
