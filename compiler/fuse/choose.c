/* choose.c: which plan of a function moves the fewest bytes.
 *
 * phases.c builds a plan from choices: which values later phases read back rather than compute
 * again (from the parameter that they are stored to anyhow, or from a temporary), and which
 * reductions wait for a later pass over the same space. Here plans are built and compared: from a
 * plan in which every value is computed again and no reduction waits, one choice after another is
 * adopted when the plan with it is cheaper, until none is. Bytes are counted with every axis as
 * long as the others; a launch counts as a part of a pass over the largest space. The order in
 * which choices are tried is that of the function's stores and values, so the same function always
 * gives the same plan. */
#include <string.h>
#include <stdlib.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"

/* Values that are looked at for all plans that are built, at most: further choices are not tried.
 * That takes some 10 ms. */
enum { WORK = 1 << 19, VALUE_WORK = 2, PHASE_WORK = 32 };

enum { FIRST_WORK = WORK }; /* for the first plan, where nothing is read back */
/* Where that is too little: at most so many values are materialised before any are tried, and at
 * most one for eight phases that wait for each other. */
enum { ESTIMATED = 64 };

/* Phases up to which invariants are tried, and a reduction in every later pass; beyond, only in
 * passes that could then share a space. */
enum { FEW_PHASES = 12 };

/* A launch, in bytes for each element of the largest space. */
static const double launch_bytes = 0.25;
/* What a temporary must save at least. */
static const double temporary_bytes = 0.125;

typedef struct Cost {
    double moved;             /* with what launches count as, and operations beyond what is free */
    double bytes, operations; /* the latter of all phases, each for itself */
    size_t phases;
} Cost;

/* A plan with other choices, what it costs, or no plan. */
typedef struct Trial {
    Choices choices;
    Plan *plan;
    Arena *arena; /* of all of it */
    Cost cost;
} Trial;

typedef struct Search {
    const Function *f;
    Arena *arena;
    ValueCosts costs; /* no temporary has more bytes than the largest array without it */
    double unit;      /* elements of the largest space */
    double balance;   /* operations done while a byte moves */
    Trial best;
    size_t work;     /* values looked at */
    bool stopped;    /* before all choices were tried */
    Arena *spare[4]; /* of trials that were given up */
    size_t spare_count;
} Search;

/* The kernels with all last-block epilogues, and those with only the ones that visit nothing: which
 * is used depends on sizes. */
static double launches_of(const Plan *plan) {
    return 0.5 * (double)(plan->kernel_count + plan->groupings[plan->grouping_count - 1].count);
}

static Cost cost_of(const Search *s, const Plan *plan) {
    Arena *arena = arena_child(s->arena);
    Cost cost = {.phases = plan->phase_count};
    for (size_t i = 0; i < plan->kernel_count; i++) {
        const Kernel *kernel = &plan->kernels[i];
        const KernelBytes bytes = plan_kernel_bytes(plan, &s->costs.sizes, kernel, arena);
        const double work = plan_kernel_operations(plan, &s->costs.sizes, kernel, arena).work;
        const double moved = bytes.read + bytes.written, busy = work / s->balance;
        cost.moved += (moved > busy ? moved : busy) / s->unit;
        cost.bytes += moved / s->unit;
        for (uint32_t k = kernel->first; k < kernel->first + kernel->count; k++)
            cost.operations += plan_operations(plan, &s->costs.sizes, &plan->phases[k]).work;
        arena_reset(arena);
    }
    arena_close(arena);
    cost.moved += launch_bytes * launches_of(plan);
    return cost;
}

static bool is_less(Cost a, Cost b) {
    const double close = 1e-9 * (a.moved + b.moved);
    if (a.moved < b.moved - close || a.moved > b.moved + close) return a.moved < b.moved;
    if (a.phases != b.phases) return a.phases < b.phases;
    return a.operations < b.operations;
}

static Choices copy_choices(const Search *s, Choices from, Arena *arena) {
    Choices to = {.materialised_ = arena_alloc(arena, s->f->value_count * sizeof *to.materialised_),
                  .depth = arena_alloc(arena, s->f->value_count * sizeof *to.depth),
                  .wholes_first = from.wholes_first};
    if (from.materialised_)
        memcpy(to.materialised_, from.materialised_, s->f->value_count * sizeof *to.materialised_);
    if (from.depth) memcpy(to.depth, from.depth, s->f->value_count * sizeof *to.depth);
    return to;
}

/* A trial with the best choices so far, to change some of. */
static Trial begin(Search *s) {
    Arena *arena = s->spare_count ? s->spare[--s->spare_count] : arena_child(s->arena);
    return (Trial){.choices = copy_choices(s, s->best.choices, arena), .arena = arena};
}

static void give_up(Search *s, Trial *trial) {
    if (s->spare_count == COUNT(s->spare)) {
        arena_close(trial->arena);
        return;
    }
    arena_reset(trial->arena);
    s->spare[s->spare_count++] = trial->arena;
}

static void build(Search *s, Trial *trial) {
    s->stopped |= s->work > WORK;
    if (s->stopped) return;
    trial->plan = planner_build(s->f, &trial->choices, trial->arena, &s->work, WORK + WORK / 4);
    s->work += VALUE_WORK * s->f->value_count;
    if (!trial->plan) return;
    s->work += PHASE_WORK * trial->plan->phase_count;
    trial->cost = cost_of(s, trial->plan);
}

/* Whether a plan is better by more than `least`. */
static bool is_better(const Trial *trial, const Trial *than, double min) {
    Cost cost = trial->cost;
    cost.moved += min;
    return trial->plan && is_less(cost, than->cost);
}

/* Keeps the better of two trials in `best`. */
static void choose(Search *s, Trial *best, Trial *trial, bool better) {
    give_up(s, better ? best : trial);
    if (better) *best = *trial;
}

static bool try_choices(Search *s, Trial *trial) {
    build(s, trial);
    const bool better = is_better(trial, &s->best, 0);
    choose(s, &s->best, trial, better);
    return better;
}

/* ---- reductions that wait ---- */

static bool try_delay(Search *s, const ValueId *reductions, size_t count, uint32_t depth) {
    Trial trial = begin(s);
    for (size_t i = 0; i < count; i++) trial.choices.depth[reductions[i]] = depth + 1;
    return try_choices(s, &trial);
}

/* Whether what phase `a` reduces may be reduced where the later phase `b` goes over its space. */
static bool same_pass(const Phase *a, const Phase *b) {
    if (!a->reduction_count || a->depth >= b->depth || a->known != b->known) return false;
    if (b->reduction_count) return a->outer == b->outer && a->inner == b->inner;
    return b->shape == SHAPE_MAP && (a->outer | a->inner) == (b->outer | b->inner);
}

/* By value: whether it is one of these or made of one. */
static void find_dependents(const Search *s, const ValueId *reductions, size_t count,
                            bool *depends) {
    memset(depends, 0, s->f->value_count * sizeof *depends);
    ValueId first = (ValueId)s->f->value_count;
    for (size_t i = 0; i < count; i++) {
        depends[reductions[i]] = true;
        if (reductions[i] < first) first = reductions[i];
    }
    for (ValueId v = first; v < s->f->value_count; v++)
        for (int i = 0; i < op_info[s->f->values[v].op].arity; i++)
            depends[v] |= depends[s->f->values[v].arg[i]];
}

/* By phase: the first of those that reduce over the same axes. */
static const size_t *find_kinds(const Plan *plan, Arena *arena) {
    size_t *kinds = arena_alloc(arena, plan->phase_count * sizeof *kinds);
    for (size_t i = 0; i < plan->phase_count; i++) {
        const Phase *a = &plan->phases[i];
        for (kinds[i] = 0; kinds[i] < i; kinds[i]++) {
            const Phase *b = &plan->phases[kinds[i]];
            if (b->reduction_count && a->outer == b->outer && a->inner == b->inner) break;
        }
    }
    return kinds;
}

typedef struct Conflict {
    const size_t *kinds;
    bool *depends;     /* by value */
    uint32_t *delayed; /* by kind: the depth of the first pass that is */
} Conflict;

static Conflict open_meeting(const Search *s) {
    const Plan *plan = s->best.plan;
    Arena *arena = s->best.arena;
    return (Conflict){.kinds = find_kinds(plan, arena),
                      .depends = arena_alloc(arena, s->f->value_count * sizeof(bool)),
                      .delayed = arena_alloc(arena, plan->phase_count * sizeof(uint32_t))};
}

/* Whether a delay of these reductions, and of all that depend on them, puts one into a pass that
 * has a reduction over the same space already. Where all later passes depend on them, these only
 * move along, and nothing is gained. */
static bool may_conflict(Search *s, const Conflict *conflict, const ValueId *reductions,
                         size_t count) {
    const Plan *plan = s->best.plan;
    const size_t *kinds = conflict->kinds;
    bool *depends = conflict->depends;
    uint32_t *delayed = conflict->delayed;
    s->work += s->f->value_count;
    s->stopped |= s->work > WORK;
    find_dependents(s, reductions, count, depends);
    for (size_t i = 0; i < plan->phase_count; i++) delayed[i] = UINT32_MAX;
    for (size_t i = 0; i < plan->phase_count; i++) {
        const Phase *phase = &plan->phases[i];
        for (size_t r = 0; r < phase->reduction_count; r++)
            if (depends[phase->reductions[r]] && phase->depth < delayed[kinds[i]])
                delayed[kinds[i]] = phase->depth;
    }
    for (size_t i = 0; i < plan->phase_count; i++) {
        const Phase *phase = &plan->phases[i];
        for (size_t r = 0; r < phase->reduction_count; r++)
            if (!depends[phase->reductions[r]] && phase->depth > delayed[kinds[i]]) return true;
    }
    return false;
}

/* All reductions of a phase in a later one of the same axes, or one of them. */
static bool try_delays(Search *s) {
    const Plan *plan = s->best.plan;
    const Conflict conflict = open_meeting(s);
    for (size_t i = 0; i < plan->phase_count && !s->stopped; i++) {
        const Phase *phase = &plan->phases[i];
        const size_t choices = phase->reduction_count > 1 ? phase->reduction_count + 1 : 1;
        uint8_t *may = arena_alloc(s->best.arena, choices); /* 1: yes, 2: no, 0: not yet known */
        for (size_t k = i + 1; k < plan->phase_count && !s->stopped; k++) {
            bool any = false;
            if (!same_pass(phase, &plan->phases[k])) continue;
            for (size_t c = 0; c < choices; c++) {
                const ValueId *some = c ? &phase->reductions[c - 1] : phase->reductions;
                const size_t count = c ? 1 : phase->reduction_count;
                if (!may[c])
                    may[c] =
                        plan->phase_count <= FEW_PHASES || may_conflict(s, &conflict, some, count)
                            ? 1
                            : 2;
                if (may[c] == 1 && try_delay(s, some, count, plan->phases[k].depth)) return true;
                any |= may[c] == 1;
            }
            if (!any) break;
        }
    }
    return false;
}

/* ---- values that are read back ---- */

static bool try_materialised(Search *s, ValueId v, bool materialised_) {
    Trial trial = begin(s);
    trial.choices.materialised_[v] = materialised_;
    return try_choices(s, &trial);
}

static bool try_stored(Search *s) {
    bool better = false;
    for (size_t i = 0; i < s->f->store_count && !s->stopped; i++) {
        const Store *store = &s->f->stores[i];
        if (s->best.choices.materialised_[store->value]) continue;
        if (planner_may_keep(s->f, store->value) && planner_holds(s->f, store))
            better |= try_materialised(s, store->value, true);
    }
    return better;
}

static bool try_many(Search *s, double times) {
    const Plan *plan = s->best.plan;
    Arena *arena = s->best.arena;
    const uint32_t *users = planner_find_users(plan, arena);
    Trial trial = begin(s);
    if (planner_keep_many(&s->costs, plan, users, arena, times, trial.choices.materialised_))
        return try_choices(s, &trial);
    give_up(s, &trial);
    return false;
}

/* Keeps the trial, if it will do, when it is better than the best of those tried beside it. */
static void offer(Search *s, Trial *best, Trial *trial, bool will_do) {
    if (!will_do)
        give_up(s, trial);
    else if (best->plan)
        choose(s, best, trial, is_better(trial, best, 0));
    else
        *best = *trial;
}

static bool adopt(Search *s, Trial *best) {
    if (best->plan) choose(s, &s->best, best, true);
    return best->plan;
}

/* Of such values, the one that saves most in a temporary. */
static bool try_temporaries(Search *s) {
    size_t count;
    Candidate *candidates = planner_find_candidates(&s->costs, s->best.plan,
                                                    planner_find_users(s->best.plan, s->best.arena),
                                                    s->best.arena, &count);
    if (count > CANDIDATES) {
        qsort(candidates, count, sizeof *candidates, planner_by_saved);
        count = CANDIDATES;
    }
    Trial best = {.plan = NULL};
    for (size_t i = 0; i < count && !s->stopped; i++) {
        Trial trial = begin(s);
        trial.choices.materialised_[candidates[i].v] = true;
        build(s, &trial);
        offer(s, &best, &trial, is_better(&trial, &s->best, temporary_bytes));
    }
    return adopt(s, &best);
}

/* What others have made useless. */
static bool try_without(Search *s) {
    bool better = false;
    for (ValueId v = 1; v < s->f->value_count; v++) {
        if (s->best.choices.materialised_[v]) better |= try_materialised(s, v, false);
    }
    return better;
}

/* Drops temporaries that no later phase reads, as others have taken their place: a search that
 * ended early has not tried to, and it gains nothing where operations hide their bytes. Whether
 * there were any. */
static bool drop_unread(Search *s) {
    const Plan *plan = s->best.plan;
    bool *read = arena_alloc(s->best.arena, plan->array_count * sizeof *read), any = false;
    for (uint32_t i = 0; i < plan->phase_count; i++)
        for (size_t t = 0; t < plan->phases[i].touch_count; t++) {
            const Touch *touch = &plan->phases[i].touches[t];
            read[touch->array] |= touch->reads || touch->gathers;
        }
    Trial trial = begin(s);
    for (size_t a = plan->function->parameter_count; a < plan->array_count; a++) {
        bool *materialised_ = &trial.choices.materialised_[plan->arrays[a].value];
        any |= *materialised_ && !read[a];
        *materialised_ = *materialised_ && read[a];
    }
    if (any) trial.plan = planner_build(s->f, &trial.choices, trial.arena, &s->work, 0);
    any = trial.plan;
    if (any) trial.cost = cost_of(s, trial.plan);
    choose(s, &s->best, &trial, any);
    return any;
}

/* ---- what does not vary along an axis ---- */

/* Whether a plan takes no more passes than the best, and less than an array of fewer axes more. */
static bool is_as_good(const Search *s, const Trial *trial) {
    return trial->plan && trial->cost.phases <= s->best.cost.phases &&
           trial->cost.moved <= s->best.cost.moved + 1.0 / 1024;
}

/* Loop-invariant code motion: what takes more operations than memory leaves time for is computed
 * once for all places along an axis, in a pass of its own; `at_hand`: in an earlier one, where that
 * takes fewer operations. Schedules of columns do so; iterations keep states in registers. */
static bool try_invariants(Search *s, bool at_hand) {
    const Plan *plan = s->best.plan;
    if (plan->phase_count > FEW_PHASES || (s->f->iteration && !at_hand)) return false;
    double *costs = arena_alloc(s->best.arena, s->f->value_count * sizeof *costs);
    Trial best = {.plan = NULL};
    for (const Phase *p = plan->phases; p < plan->phases + plan->phase_count; p++)
        for (AxisSet rest = p->shape == SHAPE_COLUMNS ? 0 : p->outer | p->inner;
             rest && !s->stopped; rest &= rest - 1) {
            Trial trial = begin(s);
            if (planner_keep_invariants(plan, p, rest & -rest, costs, trial.choices.materialised_))
                build(s, &trial);
            const bool fewer = trial.cost.operations < s->best.cost.operations;
            const bool will_do = at_hand ? is_as_good(s, &trial) && fewer
                                         : is_better(&trial, &s->best, temporary_bytes);
            offer(s, &best, &trial, will_do);
        }
    return adopt(s, &best);
}

/* What phases down columns compute for a row as a whole, and lanes with a column each would for
 * every column, is stored by those that have reduced the rows in the place of what it is made of;
 * so is what a whole reduction takes of each row (a loss), where that takes fewer bytes. */
static bool try_row_values(Search *s, Shape shape) {
    const Plan *plan = s->best.plan;
    double *costs = arena_alloc(s->best.arena, s->f->value_count * sizeof *costs);
    Trial trial = begin(s);
    bool any = false, columns = shape == SHAPE_COLUMNS;
    for (const Phase *p = plan->phases; p < plan->phases + plan->phase_count; p++)
        if (p->shape == shape && p->reduction_count && (columns || !p->outer))
            any |= planner_keep_invariants(plan, p, p->outer, costs, trial.choices.materialised_);
    if (any) build(s, &trial);
    const Cost cost = trial.cost, best = s->best.cost;
    const bool fewer = cost.moved <= best.moved && cost.bytes < best.bytes - 1e-9;
    any = any && is_as_good(s, &trial) && (columns || fewer);
    choose(s, &s->best, &trial, any);
    return any;
}

/* ---- the first plan ---- */

/* What an estimate alone says: of values that are worth it, the more distant ones the more there
 * are. False: they are too many. */
static bool keep_estimated(const Search *s, Trial *trial) {
    Planner *p = planner_open(s->f, trial->choices, trial->arena);
    for (ValueId v = 1; v < s->f->value_count; v++)
        if (p->live[v] && op_info[s->f->values[v].op].flags & (OP_REDUCTION | OP_ARRAY))
            p->plan->defined_in[v] = p->plan->array_of[v] = v;
    const uint32_t *users = planner_estimate_users(p, trial->arena);
    bool *materialised_ = trial->choices.materialised_;
    size_t max = 0;
    for (ValueId v = 1; v < s->f->value_count; v++)
        if (p->depth[v] > max) max = p->depth[v];
    max = max / 8 + ESTIMATED;
    for (double times = 1; times <= 1 << 20; times *= 16) {
        if (planner_keep_many(&s->costs, p->plan, users, trial->arena, times, materialised_) <= max)
            return true;
        memset(materialised_, 0, s->f->value_count * sizeof *materialised_);
    }
    return false;
}

/* The first plan materialises nothing by choice where that is of moderate size. In a deep program
 * each phase may compute most of it again, which grows as a square: then some values are
 * materialised, if that makes the plan small. */
static Trial first_plan(Search *s) {
    Trial trial = begin(s);
    trial.plan = planner_build(s->f, &trial.choices, trial.arena, &s->work, FIRST_WORK);
    for (int estimated = 1; !trial.plan && estimated >= 0; estimated--) {
        give_up(s, &trial);
        trial = begin(s);
        if (estimated && !keep_estimated(s, &trial)) continue;
        const size_t linear = FIRST_WORK / 4 + 16 * s->f->value_count;
        const size_t limit = estimated ? s->work + linear : 0;
        trial.plan = planner_build(s->f, &trial.choices, trial.arena, &s->work, limit);
    }
    return trial;
}

/* ---- the search ---- */

/* Where no plan is better. */
static Search open_search(const Function *function) {
    Search s = {.f = function, .arena = function->arena, .unit = 1, .costs = {.f = function}};
    s.balance = OPERATIONS_PER_BYTE;
    s.costs.sizes = plan_sizes_read(function, NULL, 0);
    for (size_t i = 0; i < function->parameter_count; i++) {
        const Parameter *parameter = &function->parameters[i];
        const double bytes =
            plan_sizes_elements(&s.costs.sizes, parameter->axes) * type_info[parameter->type].size;
        if (bytes > s.costs.largest) s.costs.largest = bytes;
    }
    return s;
}

/* Counts the temporaries that the plan has whatever is chosen, such as finished sums, among the
 * arrays that a temporary by choice may be as large as. */
static void find_largest(Search *s, const Plan *plan) {
    for (size_t a = s->f->parameter_count; a < plan->array_count; a++) {
        const ValueId v = plan->arrays[a].value;
        const double bytes =
            s->best.choices.materialised_[v] ? 0 : planner_value_bytes(&s->costs, v);
        if (bytes > s->costs.largest) s->costs.largest = bytes;
    }
}

static void find_unit(Search *s, const Plan *plan) {
    for (size_t i = 0; i < plan->phase_count; i++) {
        const Phase *phase = &plan->phases[i];
        const double elements = plan_sizes_elements(&s->costs.sizes, phase->outer | phase->inner);
        if (elements > s->unit) s->unit = elements;
    }
}

/* The best plan of the function as it is written, with this order of reductions. */
static Search search(const Function *function, bool wholes_first) {
    Search s = open_search(function);
    s.best.choices.wholes_first = wholes_first;
    s.best = first_plan(&s);
    find_largest(&s, s.best.plan);
    find_unit(&s, s.best.plan);
    s.best.cost = cost_of(&s, s.best.plan);
    bool better = planner_is_worth_search(s.best.plan), worth = better;
    for (double times = 1; better && times <= 16; times *= 4) try_many(&s, times);
    while (better && !s.stopped) {
        better = try_stored(&s);
        better |= try_delays(&s);
        better |= try_invariants(&s, false);
        better |= try_temporaries(&s);
        better |= try_without(&s);
    }
    s.balance = OPERATIONS_PER_BYTE_OF_DEVICES;
    s.best.cost = cost_of(&s, s.best.plan);
    while (worth && !s.stopped && try_invariants(&s, false)) try_delays(&s), try_without(&s);
    for (Shape i = SHAPE_ROWS; i <= SHAPE_COLUMNS && !s.stopped; i++) try_row_values(&s, i);
    for (int i = 0; i < FEW_PHASES && !s.stopped && try_invariants(&s, true); i++) continue;
    while (drop_unread(&s)) continue;
    return s;
}

/* Whether a whole reduction and another one are of one space. */
static bool has_wholes(const Function *f) {
    const bool *needed = ir_needed(f);
    for (ValueId v = 1; v < f->value_count; v++) {
        const Value *value = &f->values[v];
        if (!needed[v] || !(op_info[value->op].flags & OP_REDUCTION) || value->axes) continue;
        for (ValueId w = 1; w < f->value_count; w++) {
            const Value *other = &f->values[w];
            const bool reduces = needed[w] && op_info[other->op].flags & OP_REDUCTION;
            if (reduces && other->axes && (other->axes | other->payload) == value->payload)
                return true;
        }
    }
    return false;
}

/* The best plan of the function with any order. */
static Search search_orders(const Function *function) {
    Search s = search(function, false);
    if (s.stopped || !has_wholes(function)) return s;
    const Search other = search(function, true);
    return is_better(&other.best, &s.best, 0) ? other : s;
}

Plan *plan_build(const Function *function) {
    ValueId first;
    const Function *split = split_reductions(function, false, &first);
    Search s = search_orders(function);
    if (split != function) {
        const Search other = search_orders(split);
        if (is_better(&other.best, &s.best, 0)) s = other;
    }
    s.best.plan->choices = s.best.choices;
    s.best.plan->stopped = s.stopped;
    planner_complete(s.best.plan, s.best.arena);
    planner_find_row_panels(s.best.plan);
    return s.best.plan;
}

/* ---- what was not chosen ---- */

/* Alternatives that are reported at most, and phases that they have: each is emitted. */
enum { NAME_LENGTH = 40, ALTERNATIVES_MAX = 16, PHASES_MAX = 128 };

/* An alternative and what it costs, in the order in which they were found. */
typedef struct Found {
    Alternative alternative;
    Cost cost;
    size_t place;
} Found;

typedef struct FoundList {
    Found *items;
    size_t count, capacity;
} FoundList;

/* A value as the source spells it: its name, what it is stored to, or its text. */
static const char *source_name(const Search *s, ValueId v) {
    const Value *value = &s->f->values[v];
    const Compiler *compiler = s->f->compiler;
    if (value->name) return value->name;
    for (size_t i = 0; i < s->f->store_count; i++)
        if (s->f->stores[i].value == v) return s->f->parameters[s->f->stores[i].parameter].name;
    if (!value->range.file || value->range.file >= compiler->source_count)
        return arena_printf(s->arena, "%s_%u", plan_reduction(value), v);
    const char *text = compiler->sources[value->range.file].text + value->range.begin;
    const size_t size = value->range.end - value->range.begin, line = strcspn(text, "\n");
    const size_t whole = size < line ? size : line;
    const int shown = (int)(whole < NAME_LENGTH ? whole : NAME_LENGTH);
    return arena_printf(s->arena, "`%.*s%s`", shown, text, (size_t)shown < size ? "..." : "");
}

static void add_alternative(Search *s, FoundList *list, Trial *trial, const char *what) {
    build(s, trial);
    if (!trial->plan) return;
    list->items =
        arena_grow(s->arena, list->items, list->count, &list->capacity, sizeof *list->items);
    list->items[list->count] = (Found){{what, trial->plan}, trial->cost, list->count};
    list->count++;
}

static void add_materialised(Search *s, FoundList *list, ValueId v) {
    const char *name = source_name(s, v);
    const bool materialised_ = s->best.choices.materialised_[v];
    Trial trial = begin(s);
    trial.choices.materialised_[v] = !materialised_;
    if (materialised_) {
        add_alternative(s, list, &trial,
                        arena_printf(s->arena, "%s computed again, not read back", name));
        return;
    }
    for (size_t i = 0; i < s->f->store_count; i++)
        if (s->f->stores[i].value == v && planner_holds(s->f, &s->f->stores[i])) {
            add_alternative(s, list, &trial,
                            arena_printf(s->arena, "%s read back from where it is stored", name));
            return;
        }
    add_alternative(s, list, &trial, arena_printf(s->arena, "%s kept in a temporary", name));
}

/* A reduction in the first pass that can make it. */
static void add_early(Search *s, FoundList *list, ValueId v) {
    if (!s->best.choices.depth[v]) return;
    Trial trial = begin(s);
    trial.choices.depth[v] = 0;
    add_alternative(s, list, &trial,
                    arena_printf(s->arena, "%s in an earlier pass", source_name(s, v)));
}

static void add_late(Search *s, FoundList *list) {
    const Plan *plan = s->best.plan;
    for (size_t i = 0; i < plan->phase_count; i++)
        for (size_t k = i + 1; k < plan->phase_count; k++) {
            if (!same_pass(&plan->phases[i], &plan->phases[k])) continue;
            Trial trial = begin(s);
            const ValueId first = plan->phases[i].reductions[0];
            trial.choices.depth[first] = plan->phases[k].depth + 1;
            add_alternative(s, list, &trial,
                            arena_printf(s->arena, "%s in a later pass", source_name(s, first)));
        }
}

/* Whole sums of floats as sums of rows: for a reader who may write them so. */
static void add_split(Search *s, FoundList *list) {
    ValueId first;
    const Function *split = split_reductions(s->f, true, &first);
    if (split == s->f) return;
    const Search other = search_orders(split);
    list->items =
        arena_grow(s->arena, list->items, list->count, &list->capacity, sizeof *list->items);
    list->items[list->count] = (Found){
        {arena_printf(s->arena, "%s written as a reduction of reductions, which has other bits",
                      source_name(s, first)),
         other.best.plan},
        other.best.cost,
        list->count};
    list->count++;
}

static int by_order(const void *a, const void *b) {
    const Found *x = a, *y = b;
    return x->place < y->place ? -1 : x->place > y->place;
}

static int by_cost(const void *a, const void *b) {
    const Found *x = a, *y = b;
    return is_less(x->cost, y->cost) ? -1 : is_less(y->cost, x->cost) ? 1 : by_order(a, b);
}

Alternatives plan_alternatives(const Plan *plan) {
    FoundList list = {0};
    Search s = open_search(plan->function);
    s.best.plan = planner_build(plan->function, &plan->choices, s.arena, &s.work, 0);
    s.best.choices = plan->choices;
    if (!s.best.plan || plan->phase_count < 2) return (Alternatives){0};
    find_unit(&s, s.best.plan);
    const Reads *below = planner_find_reads(&s.costs, s.best.plan, s.arena);
    const uint32_t *users = planner_find_users(plan, s.arena);
    for (ValueId v = 1; v < s.f->value_count; v++) {
        const bool may = planner_may_keep(s.f, v) && !plan->defined_in[v] && users[v] > 1;
        add_early(&s, &list, v);
        if (plan->choices.materialised_[v] || (may && planner_is_candidate(&s.costs, below, v)))
            add_materialised(&s, &list, v);
    }
    add_late(&s, &list);
    add_split(&s, &list);
    /* the cheapest, in their order */
    size_t count = list.count;
    size_t max = PHASES_MAX / plan->phase_count;
    if (max > ALTERNATIVES_MAX) max = ALTERNATIVES_MAX;
    if (count > max) {
        qsort(list.items, count, sizeof *list.items, by_cost);
        count = max;
        qsort(list.items, count, sizeof *list.items, by_order);
    }
    Alternatives all = {.items = arena_alloc(s.arena, (count + 1) * sizeof *all.items)};
    for (size_t i = 0; i < count; i++) {
        Plan *other = (Plan *)(uintptr_t)list.items[i].alternative.plan;
        planner_complete(other, s.arena);
        planner_find_row_panels(other);
        all.items[all.count++] = list.items[i].alternative;
    }
    return all;
}
