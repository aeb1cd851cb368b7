/* nests.c: see nests.h. What a bind does for a launch is done here for nests: lengths, tables of
 * lists and memory for temporaries. */
#include "nests.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target/target.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"
#include "interp.h"

typedef struct Memories { /* of a plan's arrays */
    void **data;          /* of a list: void *[tensors] */
    int64_t **counts;     /* elements, of a list one a tensor */
    size_t *tensors;
    bool *written;
} Memories;

static int64_t length_of(const NestsJob *job, uint32_t axis, int64_t tensor) {
    const Axis *row = &job->function->axes[axis];
    if (row->whole >= 0) {
        const int64_t whole = length_of(job, (uint32_t)row->whole, tensor);
        const bool rest = job->function->axes[row->whole].rest == (int)axis;
        return rest ? row->length : (whole + row->length - 1) / row->length;
    }
    return job->sizes[axis][row->parent < 0 ? 0 : tensor];
}

/* Elements over the axes in a tensor, blocks that are whole as what they divide. */
static int64_t elements_of(const NestsJob *job, AxisSet axes, int64_t tensor) {
    const Function *f = job->function;
    const int list = ir_list_axis(f, axes);
    int64_t count = 1;
    for (uint32_t a = 0; a < f->axis_count; a++) {
        const Axis *row = &f->axes[a];
        if (!(axes >> a & 1) || (int)a == list) continue;
        const bool part = row->whole >= 0;
        const AxisSet both = part ? ir_expand(f, (AxisSet)1 << row->whole) : 0;
        if (part && (axes & both) == both) {
            if (f->axes[row->whole].block == (int)a)
                count *= length_of(job, (uint32_t)row->whole, tensor);
            continue;
        }
        count *= length_of(job, a, tensor);
    }
    return count;
}

/* Elements that a parameter has room for in a tensor. */
static int64_t room_of(const NestsJob *job, const Parameter *parameter, size_t tensor) {
    const int list = ir_list_axis(job->function, parameter->axes);
    int64_t count = 1;
    for (uint32_t a = 0; a < job->function->axis_count; a++)
        if (parameter->declared >> a & 1 && (int)a != list)
            count *= length_of(job, a, (int64_t)tensor);
    return count;
}

static void open_memories(const NestsJob *job, const Plan *plan, Arena *arena, Memories *m) {
    m->data = arena_alloc(arena, plan->array_count * sizeof *m->data);
    m->counts = arena_alloc(arena, plan->array_count * sizeof *m->counts);
    m->tensors = arena_alloc(arena, plan->array_count * sizeof *m->tensors);
    m->written = arena_alloc(arena, plan->array_count * sizeof *m->written);
    for (size_t i = 0; i < plan->array_count; i++) {
        const Array *array = &plan->arrays[i];
        const int list = ir_list_axis(job->function, array->axes);
        m->tensors[i] = list < 0 ? 1 : (size_t)length_of(job, (uint32_t)list, 0);
        m->counts[i] = arena_alloc(arena, (m->tensors[i] + 1) * sizeof **m->counts);
        for (size_t t = 0; t < m->tensors[i]; t++)
            m->counts[i][t] = array->parameter == UINT32_MAX
                                  ? elements_of(job, array->axes, (int64_t)t)
                                  : room_of(job, &job->function->parameters[array->parameter], t);
        if (array->parameter != UINT32_MAX) {
            m->data[i] = job->data[array->parameter];
            continue;
        }
        void **pointers = arena_alloc(arena, (m->tensors[i] + 1) * sizeof *pointers);
        for (size_t t = 0; t < m->tensors[i]; t++)
            pointers[t] =
                arena_alloc(arena, ((size_t)m->counts[i][t] + 1) * type_info[array->type].size);
        m->data[i] = list < 0 ? pointers[0] : (void *)pointers;
    }
}

static const char *run_kernel(const NestsJob *job, const Plan *plan, const PlainNest *plain,
                              const Memories *m, const NestCall *calls) {
    const Function *f = job->function;
    Arena *arena = f->arena;
    NestBinding *bindings =
        arena_alloc(arena, (plan->array_count + f->axis_count + 2) * sizeof *bindings);
    size_t count = 0;
    for (size_t i = 0; i < plan->array_count; i++)
        if (plain->arrays[i])
            bindings[count++] = (NestBinding){.symbol = plain->arrays[i],
                                              .data = m->data[i],
                                              .counts = m->counts[i],
                                              .tensors = m->tensors[i],
                                              .written = m->written[i]};
    for (uint32_t a = 0; a < f->axis_count; a++) {
        if (!plain->lengths[a]) continue;
        const int parent = f->axes[a].parent;
        int64_t *lengths = arena_alloc(arena, sizeof *lengths);
        if (parent >= 0) *lengths = length_of(job, (uint32_t)parent, 0);
        bindings[count++] = (NestBinding){.symbol = plain->lengths[a],
                                          .data = (void *)(uintptr_t)job->sizes[a],
                                          .counts = lengths,
                                          .size = job->sizes[a][0]};
    }
    for (int i = 0; i < 2; i++)
        if (plain->first[i])
            bindings[count++] =
                (NestBinding){.symbol = plain->first[i], .size = job->first ? job->first[i] : 0};
    const NestRun run = {bindings, count, calls, job->seed};
    return nest_run(plain->nest, &run);
}

/* The checker finds nothing, and the nest's text reads back and prints as it was. */
static bool text_holds(const NestsJob *job, const Nest *nest) {
    const Function *f = job->function;
    Text once = text_open(f->arena), twice = text_open(f->arena);
    nest_check(nest);
    nest_print(nest, &once);
    const uint32_t source = source_add(f->compiler, nest->name, once.data, once.size);
    const Nest *read = nest_read(f->compiler, f->arena, source);
    if (read) nest_print(read, &twice);
    if (read && strcmp(once.data, twice.data) == 0) return true;
    diagnostics_render(f->compiler, &twice, false);
    printf("  the text of a nest of %s does not read back:\n%s\n%s\n", f->name, once.data,
           twice.data);
    return false;
}

static bool stores(const Phase *phase, uint32_t array) {
    for (size_t i = 0; i < phase->store_count; i++)
        if (phase->stores[i].array == array) return true;
    return false;
}

/* ---- transformed ---- */

static size_t tile_all(Nest *nest, NestNode *body) {
    size_t count = 0;
    for (NestNode *node = body; node; node = node->next) {
        const TileNumbers numbers = {.kind = node->loop};
        const bool inner = node->kind == NEST_LOOP && !nest_has(node->body, NEST_LOOP);
        if (inner && !nest_tile(nest, node->name, &numbers)) return 1; /* the tree is another now */
        if (!inner) count += tile_all(nest, node->body) + tile_all(nest, node->other);
        if (count) return count;
    }
    return 0;
}

static size_t place_all(Nest *nest, NestNode *body) {
    for (NestNode *node = body; node; node = node->next) {
        if (node->kind == NEST_TREE && !nest_place_tree(nest, node->name, SCOPE_WORKER)) return 1;
        const size_t count = place_all(nest, node->body) + place_all(nest, node->other);
        if (count) return count;
    }
    return 0;
}

/* Loops over tiles get main and tail, unrolled ones their loads first: each that can. */
static void split_all(Nest *nest) {
    const SymbolId count = (SymbolId)nest->symbol_count;
    for (SymbolId s = 1; s < count; s++) {
        NestNode **place = nest_find(&nest->body, s);
        if (!place || (*place)->kind != NEST_LOOP) continue;
        if (strcmp(nest->symbols[s].name, "t") == 0) nest_split_tail(nest, s);
        if ((*place)->loop == LOOP_UNROLLED) nest_load_first(nest, s);
    }
}

/* Everything that can be done for one thread with vectors of so many elements is done. */
static const char *transform(Nest *nest, uint32_t width) {
    nest->width = width;
    while (tile_all(nest, nest->body)) continue;
    while (place_all(nest, nest->body)) continue;
    split_all(nest);
    nest_sweep(nest);
    nest_tidy(nest);
    return nest_problem(nest);
}

/* ---- what is made once of a step ---- */

typedef struct NestsMade {
    const Function *function;
    const Plan *plan;
    const NestCall *calls;
    const PlainNest **nests[WAYS][2]; /* by kernel: as built, and transformed */
    uint32_t width[WAYS];
    const char *problem;
} NestsMade;

static bool calls_functions(const Function *f) {
    for (ValueId v = 1; v < f->value_count; v++)
        if (f->values[v].op == OP_CALL) return true;
    return false;
}

static bool is_panel_way(const Way *way) {
    for (size_t k = 0; k < way->count; k++)
        if (way->kernels[k].kind == KERNEL_STRIPS) return true;
    return false;
}

/* A kernel's nest; NULL after a message. */
static const PlainNest *make_nest(NestsJob *job, const Plan *plan, const Kernel *kernel,
                                  uint32_t width) {
    const Function *f = job->function;
    const char *problem;
    const PlainNest *plain = schedule_plain(plan, kernel, f->arena, &problem);
    if (!plain) {
        printf("  %s has no plain nest: %s\n", f->name, problem);
        job->refused++;
        return NULL;
    }
    problem = nest_problem(plain->nest);
    if (!problem && width) problem = transform(plain->nest, width);
    if (problem) printf("  a nest of %s, width %u: %s\n", f->name, width, problem);
    return problem || !text_holds(job, plain->nest) ? NULL : plain;
}

static NestsMade *make_all(NestsJob *job) {
    const Function *f = job->function;
    NestsMade *made = arena_alloc(f->arena, sizeof *made);
    const Plan *plan = plan_build(f);
    made->function = f;
    made->plan = plan;
    if (calls_functions(f)) made->calls = (const NestCall *)calls_of(f);
    for (size_t w = 0; w < plan->way_count; w++) {
        const Way *way = &plan->ways[w];
        made->width[w] = UINT32_C(1) << (job->seed + w) % 6; /* 1 to 32 */
        for (int t = 0; t < 2 && !is_panel_way(way); t++) {
            made->nests[w][t] = arena_alloc(f->arena, (way->count + 1) * sizeof *made->nests[w][t]);
            for (size_t k = 0; k < way->count; k++) {
                made->nests[w][t][k] =
                    make_nest(job, plan, &way->kernels[k], t ? made->width[w] : 0);
                if (!made->nests[w][t][k]) return NULL;
            }
        }
    }
    return made;
}

static bool run_way(NestsJob *job, const NestsMade *made, size_t w, int transformed) {
    const Plan *plan = made->plan;
    const Way *way = &plan->ways[w];
    Memories m;
    open_memories(job, plan, job->function->arena, &m);
    for (int launch = 0; launch < job->launches; launch++)
        for (size_t k = 0; k < way->count; k++) {
            const Kernel *kernel = &way->kernels[k];
            const char *problem =
                run_kernel(job, plan, made->nests[w][transformed][k], &m, made->calls);
            job->ran++;
            if (problem) {
                printf("  the nest of kernel %zu of %s stops: %s\n", k, job->function->name,
                       problem);
                return false;
            }
            for (uint32_t a = 0; a < plan->array_count; a++)
                for (uint32_t p = kernel->first - kernel->prologue;
                     p < kernel->first + kernel->count; p++)
                    m.written[a] |= stores(&plan->phases[p], a);
        }
    return true;
}

static bool run_all(NestsJob *job, const NestsMade *made) {
    for (size_t w = 0; w < made->plan->way_count; w++)
        for (int t = 0; t < 1 + job->transformed && made->nests[w][t]; t++) {
            char name[64];
            snprintf(name, sizeof name, t ? "way %zu, vectors of %u" : "way %zu", w,
                     made->width[w]);
            job->reset(job->user);
            if (!run_way(job, made, w, t) || !job->compare(job->user, name)) return false;
        }
    return true;
}

bool nests_run(NestsJob *job) {
    Compiler *compiler = job->function->compiler;
    jmp_buf unwind;
    memcpy(&unwind, &compiler->unwind, sizeof unwind);
    volatile bool ok = true;
    if (setjmp(compiler->unwind)) {
        printf("  %s: %s\n", job->function->name, compiler->failure_message);
        ok = false;
    } else {
        if (!*job->made) *job->made = make_all(job);
        ok = *job->made && run_all(job, *job->made);
    }
    memcpy(&compiler->unwind, &unwind, sizeof unwind);
    return ok;
}
