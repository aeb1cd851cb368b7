/* sizes.c: the sizes that a report counts with.
 *
 * An axis has one length, or of a list one per tensor; blocks and axes with an expression follow
 * from others, as at a bind. Counts are sums over a list's tensors. Needs a plan. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"

enum { ASSUMED_SIZE = 1024 };

static int64_t length_of_terms(const PlanSizes *s, size_t axis, size_t tensor);

static _Noreturn void refuse(const PlanSizes *s, const char *message) {
    compiler_fail(s->function->compiler, LS_ERROR_ARGUMENT, "%s", message);
}

static bool is_rest(const Function *f, size_t axis) {
    int whole = f->axes[axis].whole;
    return whole >= 0 && f->axes[whole].rest == (int)axis;
}

/* The lengths of "768+2304" become those of the axis. */
static void read_lengths(PlanSizes *s, Arena *arena, size_t axis, const char *word,
                         const char *text) {
    const Axis *row = &s->function->axes[axis];
    size_t count = 1;
    for (const char *at = text; *at; at++) count += *at == '+';
    if (count > 1 && row->parent < 0)
        refuse(s, arena_printf(arena, "axis %s has one length, and %s gives it %zu", row->name,
                               word, count));
    int64_t *lengths = arena_alloc(arena, count * sizeof *lengths);
    for (size_t i = 0; i < count; i++) {
        char *end;
        errno = 0;
        long long length = strtoll(text, &end, 10);
        if (errno || end == text || length < 0 || *end != (i + 1 < count ? '+' : '\0'))
            refuse(s, arena_printf(arena, "the size %s is not a whole number", word));
        if (row->fixed >= 0 && row->fixed != length)
            refuse(s, arena_printf(arena, "axis %s is %lld in the source, not %lld", row->name,
                                   (long long)row->fixed, length));
        lengths[i] = length;
        text = end + 1;
    }
    s->lengths[axis] = lengths;
    s->counts[axis] = count;
}

static size_t find_axis(const PlanSizes *s, Arena *arena, const char *word) {
    const Function *f = s->function;
    const char *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word) : 0;
    for (size_t axis = 0; equals && axis < f->axis_count; axis++)
        if (strlen(f->axes[axis].name) == length && memcmp(f->axes[axis].name, word, length) == 0)
            return axis;
    Text axes = text_open(arena);
    for (size_t axis = 0; axis < f->axis_count; axis++)
        text_printf(&axes, "%s%s", axis ? ", " : "", f->axes[axis].name);
    refuse(s, arena_printf(arena, "step %s has no axis %.*s; it has %s", f->name,
                           (int)(equals ? length : strlen(word)), word,
                           f->axis_count ? axes.data : "none"));
}

static void set_length(PlanSizes *s, Arena *arena, size_t axis, int64_t length) {
    int64_t *lengths = arena_alloc(arena, sizeof *lengths);
    *lengths = length;
    s->lengths[axis] = lengths;
    s->counts[axis] = 1;
}

/* Lengths per tensor say how many tensors there are. */
static void count_tensors(PlanSizes *s, Arena *arena, size_t axis) {
    const Function *f = s->function;
    int list = ir_list_axis(f, (AxisSet)1 << axis);
    if (list < 0 || s->counts[axis] < 2) return;
    int64_t count = (int64_t)s->counts[axis];
    if (!s->lengths[list]) set_length(s, arena, (size_t)list, count);
    if (s->lengths[list][0] != count)
        refuse(s,
               arena_printf(arena, "axis %s has %lld lengths, but %s is %lld", f->axes[axis].name,
                            (long long)count, f->axes[list].name, (long long)s->lengths[list][0]));
    s->uneven = true;
}

static bool follows(const PlanSizes *s, size_t axis) {
    const Axis *row = &s->function->axes[axis];
    return row->whole >= 0 || row->terms || (row->block >= 0 && s->lengths[row->block]);
}

/* The lengths that an expression names. */
static void gather_lengths(const PlanSizes *s, const Axis *row, size_t tensor,
                           int64_t lengths[LS_AXES_MAX]) {
    for (size_t i = 0; i < row->term_count; i++)
        if (row->terms[i].operation == LS_TERM_AXIS) {
            const size_t axis = (size_t)row->terms[i].value;
            lengths[axis] =
                s->lengths[axis] || follows(s, axis) ? plan_sizes_length(s, axis, tensor) : 0;
        }
}

/* Whether the expression of `sized`, whose length is given, has no other unknown than `axis`. */
static bool says(const PlanSizes *s, size_t axis, size_t sized) {
    const Axis *row = &s->function->axes[sized];
    bool uses = false;
    if (!row->terms || !s->lengths[sized]) return false;
    for (size_t i = 0; i < row->term_count; i++) {
        if (row->terms[i].operation != LS_TERM_AXIS) continue;
        const size_t other = (size_t)row->terms[i].value;
        uses |= other == axis;
        if (other != axis && !s->lengths[other] && !follows(s, other)) return false;
    }
    return uses;
}

/* Of `w = 2 * h` a length of w says how long h is, as at a bind. */
static void solve_from(PlanSizes *s, Arena *arena, size_t axis, size_t sized) {
    const Axis *row = &s->function->axes[sized];
    const size_t count = s->counts[sized];
    int64_t *solved = arena_alloc(arena, count * sizeof *solved), lengths[LS_AXES_MAX];
    for (size_t i = 0; i < count; i++) {
        gather_lengths(s, row, i, lengths);
        solved[i] = ls_image_solve(row->terms, (uint32_t)row->term_count, axis, lengths,
                                   s->lengths[sized][i]);
        if (solved[i] < 0)
            refuse(s, arena_printf(arena, "no one length of axis %s makes axis %s %lld",
                                   s->function->axes[axis].name, row->name,
                                   (long long)s->lengths[sized][i]));
    }
    s->lengths[axis] = solved;
    s->counts[axis] = count;
}

static void solve(PlanSizes *s, Arena *arena, size_t axis) {
    for (size_t sized = 0; sized < s->function->axis_count; sized++)
        if (!s->lengths[axis] && says(s, axis, sized)) solve_from(s, arena, axis, sized);
}

/* A length that was given and also follows is what follows. */
static void check_expression(const PlanSizes *s, Arena *arena, size_t axis) {
    const Axis *row = &s->function->axes[axis];
    for (size_t i = 0; row->terms && s->lengths[axis] && i < s->counts[axis]; i++) {
        const int64_t value = length_of_terms(s, axis, i);
        if (value != s->lengths[axis][i])
            refuse(s, arena_printf(arena, "axis %s is %lld by its expression, not %lld", row->name,
                                   (long long)value, (long long)s->lengths[axis][i]));
    }
}

/* The bytes of a row that every target keeps on chip. */
static uint64_t least_on_chip(void) {
    uint64_t min = UINT64_MAX;
    for (size_t i = 0; target_at(i); i++)
        if (target_at(i)->on_chip_bytes < min) min = target_at(i)->on_chip_bytes;
    return min;
}

PlanSizes plan_sizes_read(const Function *f, const char *const *words, size_t count) {
    PlanSizes s = {.function = f, .assumed = count == 0, .on_chip = least_on_chip()};
    Arena *arena = f->arena;
    for (size_t i = 0; i < f->axis_count; i++)
        if (f->axes[i].fixed >= 0) set_length(&s, arena, i, f->axes[i].fixed);
    for (size_t i = 0; i < count; i++)
        read_lengths(&s, arena, find_axis(&s, arena, words[i]), words[i],
                     strchr(words[i], '=') + 1);
    for (size_t i = 0; i < f->axis_count; i++) count_tensors(&s, arena, i);
    for (size_t i = 0; i < f->axis_count; i++) {
        if (!s.lengths[i] && !follows(&s, i)) solve(&s, arena, i);
        if (s.lengths[i] || follows(&s, i)) continue;
        if (!s.assumed)
            refuse(&s, arena_printf(arena, "no size is given for axis %s of step %s",
                                    f->axes[i].name, f->name));
        set_length(&s, arena, i, ASSUMED_SIZE);
    }
    for (size_t i = 0; i < f->axis_count; i++) check_expression(&s, arena, i);
    return s;
}

/* Of an axis with an expression: 0 where that is no length. */
static int64_t length_of_terms(const PlanSizes *s, size_t axis, size_t tensor) {
    const Axis *row = &s->function->axes[axis];
    int64_t lengths[LS_AXES_MAX], value;
    gather_lengths(s, row, tensor, lengths);
    if (!ls_image_length(row->terms, (uint32_t)row->term_count, lengths, &value)) return 0;
    return value > 0 ? value : 0;
}

int64_t plan_sizes_length(const PlanSizes *s, size_t axis, size_t tensor) {
    const Axis *row = &s->function->axes[axis];
    if (s->lengths[axis]) return s->lengths[axis][s->counts[axis] > 1 ? tensor : 0];
    if (is_rest(s->function, axis)) return row->length;
    if (row->terms) return length_of_terms(s, axis, tensor);
    if (row->whole >= 0) {
        int64_t whole = plan_sizes_length(s, (size_t)row->whole, tensor);
        return whole / row->length + (whole % row->length != 0);
    }
    return row->block >= 0 ? plan_sizes_length(s, (size_t)row->block, tensor) * row->length : 0;
}

/* Elements over the axes in one tensor. Blocks and what is in them count as what they divide. */
static double product(const PlanSizes *s, AxisSet axes, int list, size_t tensor) {
    const Function *f = s->function;
    double elements = 1;
    for (size_t a = 0; a < f->axis_count; a++) {
        if (!(axes >> a & 1) || (int)a == list) continue;
        int whole = f->axes[a].whole;
        bool both =
            whole >= 0 && (axes >> f->axes[whole].block & 1) && (axes >> f->axes[whole].rest & 1);
        if (both && is_rest(f, a)) continue;
        elements *= (double)plan_sizes_length(s, both ? (size_t)whole : a, tensor);
    }
    return elements;
}

double plan_sizes_elements(const PlanSizes *s, AxisSet axes) {
    const int list = ir_list_axis(s->function, axes);
    const double tensors = list < 0 ? 1 : (double)plan_sizes_length(s, (size_t)list, 0);
    const size_t rounds = list >= 0 && s->uneven ? (size_t)tensors : tensors > 0;
    double total = 0;
    for (size_t i = 0; i < rounds; i++) total += product(s, axes, list, i);
    return rounds == 1 && list >= 0 ? total * tensors : total;
}

double plan_sizes_array_bytes(const PlanSizes *s, const Array *array) {
    const ls_image_extent bytes = plan_array_extent(s->function, array);
    return plan_sizes_extent(s, &bytes);
}

/* Of an image's extent, whose bits are n and q, in one tensor. */
static double extent_part(const PlanSizes *s, const ls_image_extent *e, size_t tensor) {
    double count = (double)e->scale;
    for (uint32_t k = 0; k < e->factor_count; k++) {
        double divide = (double)(e->factor[k].divide ? e->factor[k].divide : 1);
        double parts = product(s, e->factor[k].axes, (int)e->list - 1, tensor), within;
        if (e->factor[k].within) {
            within = product(s, e->factor[k].within, (int)e->list - 1, tensor);
            parts = parts < within ? parts : within;
        }
        parts /= divide;
        if (parts > (double)(uint64_t)parts) parts = (double)(uint64_t)parts + 1;
        count *= parts < e->factor[k].minimum ? e->factor[k].minimum : parts;
    }
    return count;
}

double plan_sizes_extent_steps(const PlanSizes *s, const ls_image_extent *e, double step) {
    int list = (int)e->list - 1;
    double tensors = list < 0 ? 1 : (double)plan_sizes_length(s, (size_t)list, 0), total = 0;
    size_t rounds = list >= 0 && s->uneven ? (size_t)tensors : tensors > 0;
    for (size_t i = 0; i < rounds; i++) {
        const double part = extent_part(s, e, i);
        total += step > 1 ? step * ceil(part / step) : part;
    }
    return rounds == 1 && list >= 0 ? total * tensors : total;
}

double plan_sizes_extent(const PlanSizes *s, const ls_image_extent *e) {
    return plan_sizes_extent_steps(s, e, 1);
}

static double extent_largest(const PlanSizes *s, const ls_image_extent *e) {
    const int list = (int)e->list - 1;
    const size_t rounds =
        list >= 0 && s->uneven ? (size_t)plan_sizes_length(s, (size_t)list, 0) : 1;
    double max = 0;
    for (size_t i = 0; i < rounds; i++) {
        const double part = extent_part(s, e, i);
        if (part > max) max = part;
    }
    return max;
}

uint64_t plan_sizes_value(const void *sizes, const ls_image_extent *extent, uint32_t largest) {
    const double value = (largest ? extent_largest : plan_sizes_extent)(sizes, extent);
    return value < 0x1p63 ? (uint64_t)value : UINT64_MAX;
}

PlanSizes plan_sizes_of_variant(const PlanSizes *s, const ls_image_variant *variant,
                                int64_t *strip) {
    const ls_image_strips *strips = variant->strips;
    PlanSizes own = *s;
    *strip = 0;
    if (!strips) return own;
    Arena *arena = s->function->arena;
    const int64_t length = plan_sizes_length(s, strips->axis, 0);
    for (size_t i = 0; i < s->function->axis_count; i++) /* nothing follows from a strip's */
        if (!s->lengths[i]) set_length(&own, arena, i, plan_sizes_length(s, i, 0));
    *strip = ls_image_strip(variant, length, plan_sizes_value, s);
    set_length(&own, arena, strips->axis, *strip);
    set_length(&own, arena, strips->all, length);
    set_length(&own, arena, strips->begin, *strip ? (length + *strip - 1) / *strip : 0);
    return own;
}

void plan_sizes_print_length(const PlanSizes *s, size_t axis, bool json, Text *out) {
    enum { SHOWN = 4 };
    int list = ir_list_axis(s->function, (AxisSet)1 << axis);
    size_t count = 1;
    if (list >= 0 && s->uneven && !is_rest(s->function, axis))
        count = (size_t)plan_sizes_length(s, (size_t)list, 0);
    if (json && count > 1) text_puts(out, "[");
    for (size_t i = 0; i < count && (json || i < SHOWN); i++)
        text_printf(out, "%s%lld", i ? (json ? ", " : "+") : "",
                    (long long)plan_sizes_length(s, axis, i));
    if (json && count > 1) text_puts(out, "]");
    if (!json && count > SHOWN) text_puts(out, "+...");
}
