/* interp.c: the run of a function.
 *
 * Every value is computed once, whole, into an array over its axes, in the order of the IR, and
 * given back after its last use. What depends on a running value is computed by its scan, place by
 * place. */
#include "places.h"

#include <stdlib.h>
#include <string.h>

typedef struct Run {
    const Function *f;
    Places places;
    void *const *data;
    int64_t first[2];
    uint64_t **arrays; /* by value */
    ValueId *running;  /* by value: the running value it depends on, or 0 */
    const CallFunction *calls;
} Run;

static Type type_of(const Run *run, ValueId id) {
    return (Type)run->f->values[id].type;
}

static uint64_t *new_array(int64_t count) {
    return malloc((size_t)(count > 0 ? count : 1) * sizeof(uint64_t));
}

/* Where in its array the value has its element of this place; NULL: out of memory. */
static uint64_t *element_at(Run *run, ValueId id, const Place *place) {
    const Layout *layout = layout_of(&run->places, run->f->values[id].axes);
    return layout ? &run->arrays[id][offset_at(&run->places, layout, place)] : NULL;
}

/* Calls `compute` for every element of a value, run by run. */
typedef bool (*Compute)(Run *run, ValueId id, const Walk *w, uint64_t *out);
static bool for_each(Run *run, ValueId id, Compute compute) {
    Walk w = {.length = 0};
    for (bool more = walk(&run->places, run->f->values[id].axes, &w, true); more;
         more = walk(&run->places, run->f->values[id].axes, &w, false)) {
        if (w.length == 0) continue;
        uint64_t *out = element_at(run, id, &w.place);
        if (!out || !compute(run, id, &w, out)) return false;
    }
    return true;
}

/* ---- leaves and elementwise operations ---- */

static void load(Run *run, const Value *v, const Walk *w, uint64_t *out) {
    const Parameter *p = &run->f->parameters[v->payload];
    int list = ir_list_axis(run->f, p->axes);
    Place place = w->place;
    for (int64_t i = 0; i < w->length; i++) {
        if (w->last >= 0) place.at[w->last] = i;
        const void *array = run->data[v->payload];
        if (list >= 0) array = ((void *const *)array)[place.at[list]];
        out[i] = number_load(p->type, array, memory_at(&run->places, p, &place));
    }
}

static bool leaf(Run *run, ValueId id, const Walk *w, uint64_t *out) {
    const Value *v = &run->f->values[id];
    Place place = w->place;
    if (v->op == OP_PARAMETER) {
        load(run, v, w, out);
        return true;
    }
    for (int64_t i = 0; i < w->length; i++) {
        if (w->last >= 0) place.at[w->last] = i;
        int64_t number = v->op == OP_INDEX ? place.at[v->payload]
                         : v->op == OP_POSITION
                             ? position_at(&run->places, (AxisSet)v->payload, &place)
                         : v->op == OP_SIZE ? size_at(&run->places, (uint32_t)v->payload, &place)
                                            : run->first[v->payload & 1];
        out[i] = v->op == OP_CONST ? v->payload : (uint64_t)number;
    }
    return true;
}

static bool apply(Run *run, ValueId id, const Walk *w, uint64_t *out) {
    const Value *v = &run->f->values[id];
    const uint64_t *from[3] = {NULL};
    int64_t step[3] = {0};
    Type operands[3] = {TYPE_NONE, TYPE_NONE, TYPE_NONE};
    int arity = op_info[v->op].arity;
    for (int k = 0; k < arity; k++) {
        operands[k] = type_of(run, v->arg[k]);
        from[k] = element_at(run, v->arg[k], &w->place);
        step[k] = w->last >= 0 && (run->f->values[v->arg[k]].axes >> w->last & 1);
        if (!from[k]) return false;
    }
    for (int64_t i = 0; i < w->length; i++) {
        uint64_t x[3] = {0};
        for (int k = 0; k < arity; k++) x[k] = from[k][i * step[k]];
        out[i] = number_apply((Op)v->op, (Type)v->type, operands, v->payload, x);
    }
    return true;
}

static bool call(Run *run, ValueId id, const Walk *w, uint64_t *out) {
    enum { ARGUMENTS = 64 };
    const Value *values = run->f->values;
    const uint64_t *from[ARGUMENTS];
    int64_t step[ARGUMENTS];
    size_t count = 0;
    for (ValueId list = values[id].arg[0]; list; list = values[list].arg[1], count++) {
        ValueId argument = values[list].arg[0];
        if (count == ARGUMENTS) return false;
        from[count] = element_at(run, argument, &w->place);
        step[count] = w->last >= 0 && (values[argument].axes >> w->last & 1);
        if (!from[count]) return false;
    }
    for (int64_t i = 0; i < w->length; i++) {
        uint64_t x[ARGUMENTS];
        for (size_t k = 0; k < count; k++) x[k] = from[k][i * step[k]];
        run->calls[values[id].payload](x, &out[i]);
    }
    return true;
}

/* ---- reductions ---- */

static bool make_room(uint64_t **x, int64_t *room, int64_t count) {
    if (count <= *room) return true;
    uint64_t *grown = realloc(*x, (size_t)(2 * count + 64) * sizeof **x);
    if (grown) *x = grown;
    if (grown) *room = 2 * count + 64;
    return grown != NULL;
}

static bool reduce(Run *run, ValueId id, const Walk *w, uint64_t *out) {
    const Value *v = &run->f->values[id];
    const Layout *layout = layout_of(&run->places, run->f->values[v->arg[0]].axes);
    Place place = w->place;
    uint64_t *x = NULL;
    int64_t room = 0;
    for (int64_t i = 0; i < w->length && layout; i++) {
        if (w->last >= 0) place.at[w->last] = i;
        Walk inner = {.place = place};
        int64_t count = 0;
        for (bool more = walk(&run->places, (AxisSet)v->payload, &inner, true); more;
             more = walk(&run->places, (AxisSet)v->payload, &inner, false)) {
            if (inner.length == 0) continue;
            const uint64_t *from =
                &run->arrays[v->arg[0]][offset_at(&run->places, layout, &inner.place)];
            int64_t step = step_along(&run->places, layout, (uint32_t)inner.last, &inner.place);
            if (inner.last < 0) step = 0;
            if (!make_room(&x, &room, count + inner.length)) layout = NULL;
            for (int64_t k = 0; k < inner.length && layout; k++) x[count++] = from[k * step];
            if (!layout) break;
        }
        if (layout) out[i] = number_reduce((Op)v->op, type_of(run, v->arg[0]), x, count);
    }
    free(x);
    return layout != NULL;
}

/* ---- other coordinates ---- */

/* Moves the place to where the list says; false where an index is out of range. */
static bool go_to(Run *run, ValueId list, Place *place) {
    const Place from = *place;
    int64_t index[LS_AXES_MAX];
    bool listed[LS_AXES_MAX] = {false};
    for (; list; list = run->f->values[list].arg[1]) {
        const Value *entry = &run->f->values[list];
        const uint64_t *element = element_at(run, entry->arg[0], &from);
        listed[entry->payload] = true;
        index[entry->payload] = element ? (int64_t)*element : -1;
    }
    for (uint32_t a = 0; a < run->f->axis_count; a++) { /* what others depend on first */
        const Axis *row = &run->f->axes[a];
        if (!listed[a]) continue;
        if (index[a] < 0 || index[a] >= size_at(&run->places, a, place)) return false;
        if (row->block < 0) {
            place->at[a] = index[a];
        } else {
            place->at[row->block] = index[a] / row->length;
            place->at[row->rest] = index[a] % row->length;
        }
    }
    return true;
}

static bool gather_run(Run *run, ValueId id, const Walk *w, uint64_t *out) {
    const Value *v = &run->f->values[id];
    for (int64_t i = 0; i < w->length; i++) {
        Place place = w->place;
        if (w->last >= 0) place.at[w->last] = i;
        bool inside = go_to(run, v->arg[1], &place);
        const uint64_t *element = inside ? element_at(run, v->arg[0], &place) : NULL;
        out[i] = element ? *element : 0;
    }
    return !run->places.failed;
}

static bool scatter(Run *run, ValueId id, uint64_t *out, int64_t count) {
    const Value *v = &run->f->values[id];
    AxisSet from = run->f->values[v->arg[0]].axes | run->f->values[v->arg[1]].axes;
    Place place = {{0}};
    const bool least = v->op == OP_SCATTER_MIN;
    for (int64_t i = 0; i < count; i++) out[i] = least ? (uint64_t)INT64_MAX : 0;
    for (bool more = next_place(&run->places, from, &place, true); more;
         more = next_place(&run->places, from, &place, false)) {
        const uint64_t *q = element_at(run, v->arg[0], &place);
        Place to = place;
        if (!go_to(run, v->arg[1], &to)) continue;
        uint64_t *sum = element_at(run, id, &to);
        if (!q || !sum) continue;
        if (least)
            *sum = (int64_t)*q < (int64_t)*sum ? *q : *sum;
        else
            *sum = *q == (uint64_t)INT64_MIN ? *q : *sum + *q; /* something that is not finite */
    }
    return !run->places.failed;
}

/* ---- scans ---- */

/* One step: every value of the body at this place; scratch holds one element by value. */
static bool step_body(Run *run, ValueId scan, const Place *place, uint64_t *scratch) {
    const Value *s = &run->f->values[scan];
    for (ValueId id = s->arg[2] + 1; id < scan; id++) {
        const Value *v = &run->f->values[id];
        uint64_t x[3] = {0};
        Type operands[3] = {TYPE_NONE, TYPE_NONE, TYPE_NONE};
        if (run->running[id] != s->arg[2]) continue;
        for (int k = 0; k < op_info[v->op].arity; k++) {
            bool inside = run->running[v->arg[k]] == s->arg[2];
            const uint64_t *element =
                inside ? &scratch[v->arg[k]] : element_at(run, v->arg[k], place);
            if (!element) return false;
            x[k] = *element;
            operands[k] = type_of(run, v->arg[k]);
        }
        scratch[id] = number_apply((Op)v->op, (Type)v->type, operands, v->payload, x);
    }
    return true;
}

static bool scan(Run *run, ValueId id) {
    const Value *v = &run->f->values[id];
    AxisSet along = ir_expand(run->f, (AxisSet)1 << v->payload % SCAN_REVERSE);
    bool reverse = v->payload & SCAN_REVERSE, good = true;
    uint64_t *scratch = calloc(id + 1, sizeof *scratch);
    Place place = {{0}}, *steps = NULL;
    size_t room = 0;
    for (bool more = next_place(&run->places, v->axes & ~along, &place, true);
         more && scratch && good;
         more = next_place(&run->places, v->axes & ~along, &place, false)) {
        size_t count = 0;
        for (bool in = next_place(&run->places, along, &place, true); in && good;
             in = next_place(&run->places, along, &place, false)) {
            if (count == room) {
                Place *grown = realloc(steps, (room = 2 * room + 64) * sizeof *steps);
                good = grown != NULL;
                if (!good) break;
                steps = grown;
            }
            steps[count++] = place;
        }
        for (size_t i = 0; i < count && good; i++) {
            const Place *at = &steps[reverse ? count - 1 - i : i];
            if (i == 0) scratch[v->arg[2]] = *element_at(run, v->arg[0], at);
            good = step_body(run, id, at, scratch);
            bool inside = run->running[v->arg[1]];
            scratch[v->arg[2]] = inside ? scratch[v->arg[1]] : *element_at(run, v->arg[1], at);
            *element_at(run, id, at) = scratch[v->arg[2]];
        }
    }
    good = good && scratch;
    free(steps);
    free(scratch);
    return good;
}

/* ---- the run ---- */

static bool compute(Run *run, ValueId id) {
    const Value *v = &run->f->values[id];
    uint8_t flags = op_info[v->op].flags;
    if (v->op == OP_LIST || run->running[id]) return true; /* where they are used */
    const Layout *layout = layout_of(&run->places, v->axes);
    uint64_t *out = run->arrays[id] = layout ? new_array(layout->count) : NULL;
    if (!out || v->op == OP_MARK || v->op == OP_STOP_GRADIENT || v->op == OP_GRAD ||
        v->op == OP_CLAMP)
        return false;
    if (v->op == OP_CALL && !run->calls && !(run->calls = calls_of(run->f))) return false;
    if (v->op == OP_SCAN) return scan(run, id);
    if (ir_is_scatter(v)) return scatter(run, id, out, layout->count);
    return for_each(run, id,
                    v->op == OP_GATHER     ? gather_run
                    : v->op == OP_CALL     ? call
                    : flags & OP_REDUCTION ? reduce
                    : flags & OP_LEAF      ? leaf
                                           : apply);
}

/* A store of `if c then new else what is there` with a c that does not vary along the parameter's
 * fastest axis is no store where c does not hold: no bit of these rows changes. Gives the
 * conditions one by one, and what is stored if they all hold. */
static ValueId condition_of(const Function *f, const Store *s, ValueId *value, bool *holds) {
    const Value *select = &f->values[*value];
    if (select->op != OP_SELECT) return 0;
    const AxisSet axes = f->parameters[s->parameter].axes, of = f->values[select->arg[0]].axes;
    if (of && (!axes || of >> (31 - __builtin_clz(axes)))) return 0;
    for (int i = 1; i < 3; i++) {
        const Value *old = &f->values[select->arg[i]];
        if (old->op != OP_PARAMETER || old->payload != s->parameter) continue;
        *holds = i == 2;
        *value = select->arg[3 - i];
        return select->arg[0];
    }
    return 0;
}

static bool keeps(Run *run, const Store *s, const Place *place) {
    ValueId value = s->value, c;
    for (bool holds; (c = condition_of(run->f, s, &value, &holds));)
        if ((*element_at(run, c, place) != 0) != holds) return true;
    const Value *last = &run->f->values[value];
    return last->op == OP_PARAMETER && last->payload == s->parameter;
}

static bool store(Run *run, const Store *s) {
    const Parameter *p = &run->f->parameters[s->parameter];
    int list = ir_list_axis(run->f, p->axes);
    Place place = {{0}};
    if (!run->data[s->parameter]) return true;
    for (bool more = next_place(&run->places, p->axes, &place, true); more;
         more = next_place(&run->places, p->axes, &place, false)) {
        void *array = run->data[s->parameter];
        const uint64_t *value = element_at(run, s->value, &place);
        const uint64_t *guard = s->guard ? element_at(run, s->guard, &place) : NULL;
        if (list >= 0) array = ((void *const *)array)[place.at[list]];
        if (!value || (s->guard && !guard)) return false;
        if ((!guard || *guard) && !keeps(run, s, &place))
            number_store(p->type, array, memory_at(&run->places, p, &place), *value);
    }
    return true;
}

/* Which running value each depends on; a scan's own ends in it. */
static void find_running(const Function *f, ValueId *running) {
    for (ValueId id = 1; id < f->value_count; id++) {
        const Value *v = &f->values[id];
        if (v->op == OP_RUNNING) running[id] = id;
        for (int i = 0; i < op_info[v->op].arity && v->op != OP_SCAN; i++)
            if (running[v->arg[i]]) running[id] = running[v->arg[i]];
    }
}

/* By value, the last that needs it; what a scan's body needs, the scan does; what a list has, those
 * who take the list do. */
static void find_last_uses(const Run *run, ValueId *last) {
    const Function *f = run->f;
    for (size_t i = 0; i < f->store_count; i++) {
        ValueId value = f->stores[i].value, c;
        last[value] = last[f->stores[i].guard] = UINT32_MAX;
        for (bool holds; (c = condition_of(f, &f->stores[i], &value, &holds));)
            last[c] = UINT32_MAX;
    }
    for (ValueId id = (ValueId)f->value_count; --id > 0;) {
        const Value *v = &f->values[id];
        if (last[id] < id) last[id] = id;
        bool inside = run->running[id] || v->op == OP_SCAN;
        ValueId until = v->op == OP_LIST || inside ? last[id] : id;
        if (v->op == OP_SCAN) until = id;
        for (int i = 0; i < op_info[v->op].arity; i++)
            if (last[v->arg[i]] < until) last[v->arg[i]] = until;
    }
}

bool interpret(const Function *f, const int64_t *const *sizes, void *const *data,
               const int64_t first[2]) {
    Run run = {.f = f, .places = {.f = f, .sizes = sizes}, .data = data};
    ValueId *last = calloc(f->value_count, sizeof *last), *ending = NULL, *next = NULL;
    run.arrays = calloc(f->value_count, sizeof *run.arrays);
    run.running = calloc(f->value_count, sizeof *run.running);
    ending = calloc(f->value_count, sizeof *ending); /* by value: the first that ends with it */
    next = calloc(f->value_count, sizeof *next);     /* and the next one that does */
    if (first) memcpy(run.first, first, sizeof run.first);
    bool good = run.arrays && run.running && last && ending && next;
    if (good) find_running(f, run.running);
    if (good) find_last_uses(&run, last);
    for (ValueId id = 1; id < f->value_count && good; id++) {
        if (last[id] == UINT32_MAX) continue;
        next[id] = ending[last[id]];
        ending[last[id]] = id;
    }
    for (ValueId id = 1; id < f->value_count && good; id++) {
        good = compute(&run, id);
        for (ValueId over = ending[id]; over; over = next[over]) {
            free(run.arrays[over]);
            run.arrays[over] = NULL;
        }
    }
    for (size_t i = 0; i < f->store_count && good; i++) good = store(&run, &f->stores[i]);
    for (ValueId id = 1; id < f->value_count && run.arrays; id++) free(run.arrays[id]);
    places_close(&run.places);
    free(run.arrays);
    free(run.running);
    free(last);
    free(ending);
    free(next);
    return good;
}

bool interpret_plain(const Function *f, const int64_t *sizes, void *const *data) {
    const int64_t *each[LS_AXES_MAX] = {NULL};
    for (size_t a = 0; a < f->axis_count; a++) each[a] = &sizes[a];
    return interpret(f, each, data, NULL);
}
