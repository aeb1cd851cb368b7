/* places.c: sizes, coordinates and offsets over plain, ragged and blocked axes. */
#include "places.h"

#include <stdlib.h>

int64_t size_at(const Places *p, uint32_t axis, const Place *place) {
    const Axis *row = &p->f->axes[axis];
    if (row->whole >= 0) {
        int64_t whole = size_at(p, (uint32_t)row->whole, place), length = row->length;
        if (p->f->axes[row->whole].block == (int)axis) return (whole + length - 1) / length;
        int64_t left = whole - length * place->at[row->parent];
        return left < length ? left : length;
    }
    return p->sizes[axis][row->parent < 0 ? 0 : place->at[row->parent]];
}

/* As it lies in memory: every block whole. */
static int64_t room_at(const Places *p, uint32_t axis, const Place *place) {
    const Axis *row = &p->f->axes[axis];
    bool rest = row->whole >= 0 && p->f->axes[row->whole].rest == (int)axis;
    return rest ? row->length : size_at(p, axis, place);
}

bool next_place(const Places *p, AxisSet axes, Place *place, bool begin) {
    uint32_t list[LS_AXES_MAX];
    int count = 0, level;
    for (uint32_t a = 0; a < p->f->axis_count; a++)
        if (axes >> a & 1) list[count++] = a;
    if (count == 0) return begin;
    level = begin ? 0 : count - 1;
    if (begin)
        place->at[list[0]] = 0;
    else
        place->at[list[level]]++;
    while (level >= 0) {
        if (place->at[list[level]] < size_at(p, list[level], place)) {
            if (level == count - 1) return true;
            place->at[list[++level]] = 0;
        } else if (--level >= 0) {
            place->at[list[level]]++;
        }
    }
    return false;
}

static int64_t tensor_number(const Places *p, AxisSet lists, const Place *place) {
    int64_t number = 0;
    for (uint32_t a = 0; a < p->f->axis_count; a++)
        if (lists >> a & 1) number = number * size_at(p, a, place) + place->at[a];
    return number;
}

const Layout *layout_of(Places *p, AxisSet axes) {
    for (Layout *known = p->layouts; known; known = known->next)
        if (known->axes == axes) return known;
    Layout *layout = calloc(1, sizeof *layout);
    int64_t tensors = 1;
    Place place = {{0}};
    if (!layout) goto failed;
    layout->axes = axes;
    for (uint32_t a = 0; a < p->f->axis_count; a++) {
        const Axis *row = &p->f->axes[a];
        if ((axes >> a & 1) && row->parent >= 0 && p->f->axes[row->parent].whole < 0)
            layout->lists |= (AxisSet)1 << row->parent;
    }
    for (uint32_t a = 0; a < p->f->axis_count; a++)
        if (layout->lists >> a & 1) tensors *= size_at(p, a, &place);
    layout->base = calloc((size_t)tensors + 1, sizeof *layout->base);
    if (!layout->base) goto failed;
    for (bool more = next_place(p, layout->lists, &place, true); more;
         more = next_place(p, layout->lists, &place, false)) {
        int64_t count = 1;
        for (uint32_t a = 0; a < p->f->axis_count; a++)
            if (axes & ~layout->lists & ((AxisSet)1 << a)) count *= room_at(p, a, &place);
        layout->base[tensor_number(p, layout->lists, &place)] = layout->count;
        layout->count += count;
    }
    layout->next = p->layouts;
    return p->layouts = layout;
failed:
    free(layout);
    p->failed = true;
    return NULL;
}

int64_t offset_at(const Places *p, const Layout *layout, const Place *place) {
    int64_t offset = 0;
    for (uint32_t a = 0; a < p->f->axis_count; a++)
        if (layout->axes & ~layout->lists & ((AxisSet)1 << a))
            offset = offset * room_at(p, a, place) + place->at[a];
    return layout->base[tensor_number(p, layout->lists, place)] + offset;
}

int64_t step_along(const Places *p, const Layout *layout, uint32_t axis, const Place *place) {
    int64_t step = 1;
    for (uint32_t a = axis + 1; a < p->f->axis_count; a++)
        if (layout->axes & ~layout->lists & ((AxisSet)1 << a)) step *= room_at(p, a, place);
    return step;
}

/* q and k together are their whole. */
static bool is_flat(const Function *f, AxisSet over, uint32_t axis) {
    int whole = f->axes[axis].whole;
    return whole >= 0 && f->axes[whole].block == (int)axis && (over >> f->axes[whole].rest & 1);
}

int64_t position_at(const Places *p, AxisSet over, const Place *place) {
    int64_t position = 0;
    for (uint32_t a = 0; a < p->f->axis_count; a++) {
        const Axis *row = &p->f->axes[a];
        if (!(over >> a & 1)) continue;
        if (is_flat(p->f, over, a)) {
            int64_t index = place->at[a] * row->length + place->at[a + 1];
            position = position * size_at(p, (uint32_t)row->whole, place) + index;
            a++;
        } else {
            position = position * size_at(p, a, place) + place->at[a];
        }
    }
    return position;
}

int64_t memory_at(const Places *p, const Parameter *parameter, const Place *place) {
    int list = ir_list_axis(p->f, parameter->axes);
    int64_t offset = 0;
    for (uint32_t a = 0; a < p->f->axis_count; a++) {
        const Axis *row = &p->f->axes[a];
        if (!(parameter->declared >> a & 1) || (int)a == list) continue;
        int64_t at = place->at[a];
        if (row->block >= 0) at = place->at[row->block] * row->length + place->at[row->rest];
        offset = offset * room_at(p, a, place) + at;
    }
    return offset;
}

void places_close(Places *p) {
    while (p->layouts) {
        Layout *next = p->layouts->next;
        free(p->layouts->base);
        free(p->layouts);
        p->layouts = next;
    }
}

bool walk(const Places *p, AxisSet axes, Walk *w, bool begin) {
    if (begin) {
        w->outer = axes;
        w->last = -1;
        for (int a = (int)p->f->axis_count; a-- > 0 && w->last < 0;)
            if (axes >> a & 1) w->last = a;
        if (w->last >= 0) w->outer &= ~((AxisSet)1 << w->last);
    }
    if (w->last >= 0) w->place.at[w->last] = 0;
    if (!next_place(p, w->outer, &w->place, begin)) return false;
    w->length = w->last < 0 ? 1 : size_at(p, (uint32_t)w->last, &w->place);
    return true;
}
