/* places.h: where the elements of a value are, over axes of every kind. */
#ifndef PLACES_H
#define PLACES_H

#include "interp.h"

/* How the elements of values over a set of axes lie: tensor by tensor of the axes on which others
 * of the set hang (its lists), and within a tensor densely in step order, with whole blocks. */
typedef struct Layout Layout;
struct Layout {
    AxisSet axes, lists;
    int64_t *base; /* by tensor: its first element */
    int64_t count;
    Layout *next;
};

typedef struct Places {
    const Function *f;
    const int64_t *const *sizes;
    Layout *layouts;
    bool failed; /* out of memory */
} Places;

typedef struct Place {
    int64_t at[LS_AXES_MAX]; /* by axis */
} Place;

int64_t size_at(const Places *p, uint32_t axis, const Place *place);
/* The first (begin) or next place over the axes, those that are not among them staying; false after
 * the last. */
bool next_place(const Places *p, AxisSet axes, Place *place, bool begin);
const Layout *layout_of(Places *p, AxisSet axes); /* NULL: out of memory */
int64_t offset_at(const Places *p, const Layout *layout, const Place *place);
/* The distance between neighbours along an axis that is none of the layout's lists. */
int64_t step_along(const Places *p, const Layout *layout, uint32_t axis, const Place *place);
/* The flat index over the axes, within the tensor. */
int64_t position_at(const Places *p, AxisSet over, const Place *place);
/* Where a parameter's element lies in its array, or in that of its tensor. */
int64_t memory_at(const Places *p, const Parameter *parameter, const Place *place);
void places_close(Places *p);

/* A walk over all places of a set, run by run along the last axis. */
typedef struct Walk {
    AxisSet outer;
    int last; /* axis, or -1 */
    Place place;
    int64_t length;
} Walk;
/* Axes that are not walked stay where w->place has them. */
bool walk(const Places *p, AxisSet axes, Walk *w, bool begin);
/* Neighbours of a run are neighbours in every array over axes of the walk that has the last one. */

#endif
