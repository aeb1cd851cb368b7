/* read.c: reads a plan from its text, which print.c describes.
 *
 * A line with an error is passed over: each mistake gives one message. What the text says of a plan
 * may still be wrong; that is for check.c to find. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"

typedef struct KernelList {
    Kernel *items;
    size_t count, capacity;
} KernelList;

typedef struct PlanReader {
    IrReader ir;
    Planner *p;                            /* from the line `plan` on */
    KernelList kernels[1 + GROUPINGS_MAX]; /* of no grouping, then of each */
    size_t compared; /* the grouping whose kernels plans are compared by, plus 1; or 0 */
} PlanReader;

/* One of a list of words, by its number. */
static bool read_word(PlanReader *r, const char *const *words, size_t count, const char *what,
                      int *number) {
    const TextWord word = reader_take(&r->ir.words);
    for (size_t i = 0; i < count; i++)
        if (word_is(word, words[i])) {
            *number = (int)i;
            return true;
        }
    return reader_fail(&r->ir.words, word, what);
}

static bool read_count(PlanReader *r, const char *what, uint32_t *count) {
    int64_t number;
    const TextWord word = reader_peek(&r->ir.words);
    if (!reader_integer(&r->ir.words, UINT32_MAX, what, &number)) return false;
    if (number < 0) return reader_fail(&r->ir.words, word, what);
    *count = (uint32_t)number;
    return true;
}

/* `word`, and a number behind it: *count stays as it is without it. */
static bool read_counted(PlanReader *r, const char *word, uint32_t *count) {
    return !reader_accept(&r->ir.words, word) || read_count(r, "a number", count);
}

/* A value of the function, never 0. */
static bool read_value(PlanReader *r, ValueId *v) {
    const char *at = r->ir.words.at;
    if (!ir_read_operand(&r->ir, v)) return false;
    return *v || reader_fail(&r->ir.words, (TextWord){at, 1}, "a value");
}

/* The values up to the end of the line, one at least, in a list that the planner can grow. */
static bool read_values(PlanReader *r, ValueId **values, size_t *count, size_t *capacity) {
    do {
        ValueId v;
        if (!read_value(r, &v)) return false;
        *values = arena_grow(r->p->arena, *values, *count, capacity, sizeof **values);
        (*values)[(*count)++] = v;
    } while (reader_peek(&r->ir.words).size);
    return true;
}

/* ---- arrays ---- */

/* `@NAME` of a temporary, or the name of a parameter; *array is the plan's count where there is no
 * such temporary. */
static bool read_array_name(PlanReader *r, const char **name, uint32_t *array) {
    const Plan *plan = r->p->plan;
    const bool temporary = reader_accept(&r->ir.words, "@");
    const TextWord word = reader_peek(&r->ir.words);
    if (!reader_name(&r->ir.words, "a parameter, or @ and the name of a temporary", name))
        return false;
    for (*array = 0; *array < plan->array_count; ++*array)
        if ((plan->arrays[*array].parameter == UINT32_MAX) == temporary &&
            strcmp(plan->arrays[*array].name, *name) == 0)
            return true;
    return temporary || reader_fail(&r->ir.words, word, "the name of a parameter");
}

static bool read_array(PlanReader *r) {
    Plan *plan = r->p->plan;
    TextReader *words = &r->ir.words;
    Array array = {.parameter = UINT32_MAX};
    uint32_t number;
    ValueId v;
    const TextWord word = reader_peek(words);
    if (!read_array_name(r, &array.name, &number)) return false;
    if (word_is(word, "@")) {
        if (number < plan->array_count) return reader_fail(words, word, "a name not used above");
        if (!reader_expect(words, ":") || !ir_read_type(&r->ir, &array.type) ||
            !ir_read_axes(&r->ir, &array.axes))
            return false;
    }
    if (!reader_expect(words, "holds") || !read_value(r, &v)) return false;
    if (number < plan->array_count) {
        plan->arrays[number].materialised = v;
        plan->array_of[v] = number + 1;
        return true;
    }
    array.value = v;
    array.in_scratch = reader_accept(words, "scratch");
    planner_add_array(r->p, array);
    return true;
}

/* ---- phases ---- */

static bool read_phase(PlanReader *r) {
    Plan *plan = r->p->plan;
    TextReader *words = &r->ir.words;
    Phase phase = {.depth = 0};
    uint32_t number;
    int shape = 0;
    const TextWord word = reader_peek(words);
    if (!read_count(r, "the number of the phase", &number)) return false;
    if (number != plan->phase_count) return reader_fail(words, word, "the next phase's number");
    if (!read_word(r, plan_shape_names, SHAPE_COUNT, "the shape of a phase", &shape)) return false;
    phase.shape = (Shape)shape;
    if (reader_accept(words, "outer") && !ir_read_axes(&r->ir, &phase.outer)) return false;
    if (reader_accept(words, "inner") && !ir_read_axes(&r->ir, &phase.inner)) return false;
    if (!read_counted(r, "depth", &phase.depth)) return false;
    phase.reverse = reader_accept(words, "reverse");
    planner_add_phase(r->p, phase);
    return true;
}

static bool read_guard(PlanReader *r, Phase *phase) {
    Guard guard = {.holds = !reader_accept(&r->ir.words, "not")};
    if (!read_value(r, &guard.condition)) return false;
    Guard *guards = arena_alloc(r->p->arena, (phase->guard_count + 1) * sizeof *guards);
    if (phase->guard_count) memcpy(guards, phase->guards, phase->guard_count * sizeof *guards);
    guards[phase->guard_count++] = guard;
    phase->guards = guards;
    return true;
}

/* A store of the function whose level is not found yet. */
static bool read_unsettled(PlanReader *r, TextWord word, uint32_t array, ValueId v) {
    Plan *plan = r->p->plan;
    for (size_t s = 0; s < plan->function->store_count; s++) {
        const Store *store = &plan->function->stores[s];
        if (store->parameter != array || store->value != v) continue;
        plan->store_phase[s] = (uint32_t)plan->phase_count - 1;
        return true;
    }
    return reader_fail(&r->ir.words, word, "a store of the step, or `at` and a level");
}

static bool read_store(PlanReader *r, StoreKind kind) {
    Plan *plan = r->p->plan;
    TextReader *words = &r->ir.words;
    const char *name;
    PhaseStore store = {.kind = kind};
    int level = 0;
    const TextWord word = reader_peek(words);
    if (!read_array_name(r, &name, &store.array)) return false;
    if (store.array == plan->array_count) return reader_fail(words, word, "an array from above");
    if (kind != STORE_CLEAR && (!reader_expect(words, "=") || !read_value(r, &store.value)))
        return false;
    if (kind == STORE_VALUE && !reader_peek(words).size)
        return read_unsettled(r, word, store.array, store.value);
    if (!reader_expect(words, "at")) return false;
    if (!read_word(r, plan_level_names, LEVEL_COUNT, "a level", &level)) return false;
    store.level = (Level)level;
    if (kind != STORE_CLEAR) store.range = plan->function->values[store.value].range;
    planner_add_store(r->p, (uint32_t)plan->phase_count - 1, store);
    return true;
}

static bool read_why(PlanReader *r, Phase *phase) {
    TextReader *words = &r->ir.words;
    while (*words->at == ' ') words->at++;
    const size_t size = strcspn(words->at, "\n");
    phase->why = arena_copy(r->p->arena, words->at, size);
    words->at += size;
    return true;
}

/* ---- kernels ---- */

static bool read_kernel(PlanReader *r) {
    const Plan *plan = r->p->plan;
    TextReader *words = &r->ir.words;
    Kernel kernel = {.count = 0};
    uint32_t last;
    int kind = 0;
    if (!read_word(r, plan_kernel_names, KERNEL_KIND_COUNT, "the kind of a kernel", &kind))
        return false;
    kernel.kind = (KernelKind)kind;
    const TextWord word = reader_peek(words);
    if (!read_count(r, "the number of a phase", &kernel.first) || !reader_expect(words, "to") ||
        !read_count(r, "the number of a phase", &last))
        return false;
    if (kernel.first > last || last >= plan->phase_count)
        return reader_fail(words, word, "the numbers of phases above, in their order");
    kernel.count = last - kernel.first + 1;
    if (reader_accept(words, "over") && !ir_read_axes(&r->ir, &kernel.outer)) return false;
    if (!read_counted(r, "pre_reductions", &kernel.pre_reductions) ||
        !read_counted(r, "segment_epilogues", &kernel.segment_epilogue) ||
        !read_counted(r, "last_block_epilogues", &kernel.last_block))
        return false;
    KernelList *list = &r->kernels[plan->grouping_count];
    list->items = arena_grow(r->p->arena, list->items, list->count, &list->capacity, sizeof kernel);
    list->items[list->count++] = kernel;
    return true;
}

static bool read_grouping(PlanReader *r) {
    Plan *plan = r->p->plan;
    TextReader *words = &r->ir.words;
    if (plan->grouping_count == GROUPINGS_MAX || plan->stage < PLAN_GROUPED)
        return reader_fail(words, reader_peek(words), "7 groupings at most, of a grouped plan");
    Grouping *grouping = &plan->groupings[plan->grouping_count++];
    if (reader_accept(words, "compared")) r->compared = plan->grouping_count;
    grouping->limited = reader_accept(words, "small_epilogues");
    grouping->panels = reader_accept(words, "many_long_rows");
    grouping->few = reader_accept(words, "few_long_rows");
    return true;
}

static bool read_row_panels(PlanReader *r) {
    Plan *plan = r->p->plan;
    return ir_read_axes(&r->ir, &plan->panel_columns) &&
           read_counted(r, "element_bytes", &plan->panel_bytes) &&
           read_counted(r, "column_bytes", &plan->panel_partial);
}

/* ---- lines ---- */

static bool read_depth(PlanReader *r) {
    ValueId v;
    return read_value(r, &v) && reader_expect(&r->ir.words, "=") &&
           read_count(r, "a depth", &r->p->plan->choices.depth[v]);
}

static bool read_materialised(PlanReader *r) {
    do {
        ValueId v;
        if (!read_value(r, &v)) return false;
        r->p->plan->choices.materialised_[v] = true;
    } while (reader_peek(&r->ir.words).size);
    return true;
}

static bool read_in_phase(PlanReader *r, TextWord word) {
    Plan *plan = r->p->plan;
    Phase *phase = plan->phase_count ? &plan->phases[plan->phase_count - 1] : NULL;
    if (!phase) return reader_fail(&r->ir.words, word, "a phase before what it has");
    if (word_is(word, "guard")) return read_guard(r, phase);
    if (word_is(word, "why")) return read_why(r, phase);
    if (word_is(word, "reduce"))
        return read_values(r, &phase->reductions, &phase->reduction_count,
                           &phase->reduction_capacity);
    if (word_is(word, "scan"))
        return read_values(r, &phase->scans, &phase->scan_count, &phase->scan_capacity);
    for (size_t kind = 0; kind < COUNT(plan_store_names); kind++)
        if (word_is(word, plan_store_names[kind])) return read_store(r, (StoreKind)kind);
    return reader_fail(
        &r->ir.words, word,
        "materialised, depth, wholes_first, array, phase, what a phase has (guard, reduce, scan, "
        "clear, add, store, why), row_panels, grouping or kernel");
}

static bool read_plan_line(PlanReader *r) {
    const TextWord word = reader_take(&r->ir.words);
    if (word_is(word, "materialised")) return read_materialised(r);
    if (word_is(word, "depth")) return read_depth(r);
    if (word_is(word, "wholes_first")) return r->p->plan->choices.wholes_first = true;
    if (word_is(word, "array")) return read_array(r);
    if (word_is(word, "phase")) return read_phase(r);
    if (word_is(word, "row_panels")) return read_row_panels(r);
    if (word_is(word, "grouping")) return read_grouping(r);
    if (word_is(word, "kernel")) return read_kernel(r);
    return read_in_phase(r, word);
}

/* The function ends here: what follows is of its plan. */
static bool open_plan(PlanReader *r) {
    const Function *f = r->ir.f;
    Choices choices = {.materialised_ =
                           arena_alloc(f->arena, f->value_count * sizeof *choices.materialised_),
                       .depth = arena_alloc(f->arena, f->value_count * sizeof *choices.depth)};
    if (!ir_reader_close(&r->ir)) return false;
    ir_check(f, STAGE_GATHERED);
    r->p = planner_open(f, choices, f->arena);
    return true;
}

static bool read_plan(PlanReader *r) {
    int stage = 0;
    reader_take(&r->ir.words);
    if (!open_plan(r)) return false;
    if (!read_word(r, plan_stage_names, PLAN_STAGE_COUNT, "the stage of a plan", &stage))
        return false;
    r->p->plan->stage = (PlanStage)stage;
    r->p->plan->stopped = reader_accept(&r->ir.words, "stopped");
    return true;
}

/* ---- what follows from the text ---- */

/* Where each value is made, as far as it is in an array. */
static void find_definitions(Plan *plan) {
    for (uint32_t i = 0; i < plan->phase_count; i++) {
        const Phase *phase = &plan->phases[i];
        for (size_t k = 0; k < phase->store_count; k++) {
            const PhaseStore *store = &phase->stores[k];
            const Array *array = &plan->arrays[store->array];
            const ValueId packed = array->materialised ? array->materialised : array->value;
            const bool temporary = array->parameter == UINT32_MAX;
            if (store->value && store->value == packed && (temporary || array->materialised))
                plan->defined_in[packed] = i + 1;
        }
    }
    for (size_t s = 0; s < plan->function->store_count; s++) {
        const Store *store = &plan->function->stores[s];
        if (plan->store_phase[s] != UINT32_MAX &&
            plan->arrays[store->parameter].materialised == store->value)
            plan->defined_in[store->value] = plan->store_phase[s] + 1;
    }
    for (uint32_t i = 0; i < plan->phase_count; i++) {
        const Phase *phase = &plan->phases[i];
        for (size_t k = 0; k < phase->reduction_count; k++)
            plan->defined_in[phase->reductions[k]] = i + 1;
        for (size_t k = 0; k < phase->scan_count; k++) plan->defined_in[phase->scans[k]] = i + 1;
    }
}

static void take_kernels(PlanReader *r) {
    Plan *plan = r->p->plan;
    const KernelList *compared = &r->kernels[plan->grouping_count ? r->compared : 0];
    if (r->compared || !plan->grouping_count) {
        plan->kernels = compared->items;
        plan->kernel_count = compared->count;
    }
    for (size_t i = 0; i < plan->grouping_count; i++) {
        const KernelList *own = &r->kernels[1 + i];
        plan->groupings[i].kernels = own->items;
        plan->groupings[i].count = own->count;
        for (size_t k = 0; k < own->count && plan->stage >= PLAN_GROUPED; k++)
            if (own->items[k].pre_reductions <= own->items[k].first)
                plan_find_arrays(plan, &own->items[k], r->p->arena);
    }
}

Plan *plan_read(Compiler *compiler, Arena *arena, uint32_t source) {
    PlanReader r = {.ir = ir_reader_open(compiler, arena, source)};
    TextReader *words = &r.ir.words;
    do {
        const TextWord word = reader_peek(words);
        bool good = word.size > 0;
        if (good && !r.p && word_is(word, "plan")) {
            if (!read_plan(&r)) return NULL; /* the lines that follow would mean nothing */
        } else if (good) {
            good = r.p ? read_plan_line(&r) : ir_read_line(&r.ir);
        }
        if (good) reader_end_line(words);
    } while (reader_next_line(words));
    if (!r.p && !open_plan(&r)) return NULL;
    if (!ir_reader_close(&r.ir)) return NULL;
    find_definitions(r.p->plan);
    planner_resume(r.p->plan, arena);
    take_kernels(&r);
    return r.p->plan;
}
