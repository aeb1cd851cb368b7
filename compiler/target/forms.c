/* forms.c: the forms of a dialect's kernels that `lockstep tune` tries: the dialect with other
 * numbers for what schedules and loops are given. They change speed only. A new one goes behind the
 * others of its dialect: files of earlier searches have its place. */
#include "base/base.h"
#include "target/target.h"

static void two_rows(Target *target) {
    target->rows_at_once = 2;
}

static void four_rows(Target *target) {
    target->rows_at_once = 4;
}

static void twice_the_loads(Target *target) {
    target->row_loads *= 2;
    target->column_loads *= 2;
}

static void half_the_loads(Target *target) {
    target->row_loads /= 2;
    target->column_loads /= 2;
}

static void past_the_caches(Target *target) {
    target->non_temporal = target->non_temporal_rows = 0;
}

static void into_the_caches(Target *target) {
    target->non_temporal = target->non_temporal_rows = INT64_MAX;
}

static void two_vectors(Target *target) {
    target->vectors_at_once = 2;
}

static void eight_vectors(Target *target) {
    target->vectors_at_once = 8;
}

static const TargetForm lanes[] = {{"2 rows at once", two_rows},
                                   {"4 rows at once", four_rows},
                                   {"twice the loads", twice_the_loads},
                                   {"half the loads", half_the_loads}};
static const TargetForm one[] = {{"past the caches", past_the_caches},
                                 {"2 vectors at once", two_vectors},
                                 {"8 vectors at once", eight_vectors},
                                 {"into the caches", into_the_caches}};

const TargetForm *target_form_at(const Target *target, size_t index) {
    const TargetForm *forms = target->gpu ? lanes : one;
    const size_t count = target->gpu ? COUNT(lanes) : COUNT(one);
    return index < count ? &forms[index] : NULL;
}
