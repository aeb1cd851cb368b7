/* plan_tool.c: one pass of compiler/fuse, alone, on the text of a plan.
 *
 *   plan_tool [--check | --pass NAME]... FILE
 *   plan_tool --steps FILE.step...
 *   plan_tool --shuffle FILE.step...
 *
 * Reads FILE, the text of a plan or of a function alone, does what the options say in order and
 * prints the plan. Passes are those of passes.def, and `choose`, `row_panels` and `worker_scratch`;
 * before and after each the plan is checked. Exit status 1: the text has errors, a check failed,
 * or there is no such plan, and stderr says which.
 *
 * --steps takes programs, and does with the plan of each of their steps what the text forms
 * promise: it reads back and prints as it did, with the same values, levels and arrays in each
 * phase; and its choices lead to it again when each pass runs on what was read from the text that
 * the pass before it left.
 *
 * --shuffle takes programs too. With its values and stores in other orders a step is the same
 * function; with its parameters in another order, too, it has as good a plan: those that have not
 * are printed. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"

#include "plan_tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_file(Compiler *compiler, const char *path, size_t *size) {
    FILE *in = fopen(path, "rb");
    char *text = arena_alloc(&compiler->arena, 1 << 20);
    if (!in) return NULL;
    *size = fread(text, 1, (1 << 20) - 1, in);
    return fclose(in) == 0 ? text : NULL;
}

/* ---- one pass ---- */

static const Plan *run_choose(const Plan *plan) {
    return plan_build(plan->function);
}

static const Plan *run_row_panels(const Plan *plan) {
    planner_find_row_panels((Plan *)(uintptr_t)plan);
    return plan;
}

/* On the kernels that plans are compared by, for the CPU. */
static const Plan *run_worker_scratch(const Plan *plan) {
    for (size_t i = 0; i < plan->grouping_count; i++)
        if (plan->groupings[i].kernels == plan->kernels)
            return plan_worker_scratch(plan, target_for("cpu"), &plan->groupings[i]);
    return plan;
}

static const struct {
    const char *name;
    const Plan *(*run)(const Plan *plan);
    PlanStage needs;
} others[] = {{"choose", run_choose, PLAN_CHOSEN},
              {"row_panels", run_row_panels, PLAN_EXPLAINED},
              {"worker_scratch", run_worker_scratch, PLAN_EXPLAINED}};

/* The plan after the pass, or NULL after a message. */
static const Plan *run_pass(const Plan *plan, const char *name) {
    Arena *arena = plan->function->arena;
    for (size_t i = 0; i < COUNT(others); i++) {
        if (strcmp(others[i].name, name) != 0) continue;
        if (plan->stage >= others[i].needs) return others[i].run(plan);
        fprintf(stderr, "plan_tool: %s needs a plan that is %s\n", name,
                plan_stage_names[others[i].needs]);
        return NULL;
    }
    for (size_t i = 0; i < COUNT(plan_passes); i++) {
        if (strcmp(plan_passes[i].name, name) != 0) continue;
        if (plan->stage + 1 != plan_passes[i].stage) {
            fprintf(stderr, "plan_tool: %s needs a plan that is %s\n", name,
                    plan_stage_names[plan_passes[i].stage - 1]);
            return NULL;
        }
        Plan *copy = (Plan *)(uintptr_t)plan;
        if (planner_run(planner_resume(copy, arena), &plan_passes[i])) return plan;
        fprintf(stderr, "plan_tool: %s: there is no plan with these choices\n", name);
        return NULL;
    }
    fprintf(stderr, "plan_tool: there is no pass %s\n", name);
    return NULL;
}

static Plan *read_text(Compiler *compiler, const char *name, const char *text, size_t size) {
    const uint32_t source = source_add(compiler, name, text, size);
    Plan *plan = plan_read(compiler, &compiler->arena, source);
    if (plan) return plan;
    Text out = text_open(&compiler->arena);
    diagnostics_render(compiler, &out, false);
    fputs(out.data, stderr);
    return NULL;
}

static int run_passes(Compiler *compiler, int count, char **words) {
    size_t size;
    const char *text = read_file(compiler, words[count - 1], &size);
    if (!text) {
        fprintf(stderr, "plan_tool: cannot read %s\n", words[count - 1]);
        return 2;
    }
    const Plan *plan = read_text(compiler, words[count - 1], text, size);
    for (int i = 1; plan && i + 1 < count; i++) {
        plan_check(plan); /* a pass needs a legal plan, and leaves one */
        if (strcmp(words[i], "--pass") == 0 && i + 2 < count)
            plan = run_pass(plan, words[++i]);
        else if (strcmp(words[i], "--check") != 0)
            return fprintf(stderr, "plan_tool: no option %s\n", words[i]), 2;
        if (plan) plan_check(plan);
    }
    if (!plan) return 1;
    Text out = text_open(&compiler->arena);
    plan_print(plan, &out);
    fputs(out.data, stdout);
    return 0;
}

/* ---- whole programs ---- */

static const char *print(const Plan *plan) {
    Text out = text_open(plan->function->arena);
    plan_print(plan, &out);
    return out.data;
}

static Plan *reread(Compiler *compiler, const Plan *plan) {
    const char *text = print(plan);
    return read_text(compiler, "printed", text, strlen(text));
}

/* What is not in the text. */
static bool same_phase(const Phase *a, const Phase *b) {
    if (a->value_count != b->value_count || a->touch_count != b->touch_count) return false;
    for (size_t i = 0; i < a->value_count; i++)
        if (a->values[i] != b->values[i] || a->levels[i] != b->levels[i]) return false;
    for (size_t i = 0; i < a->touch_count; i++) {
        const Touch x = a->touches[i], y = b->touches[i];
        if (x.array != y.array || x.reads != y.reads || x.gathers != y.gathers ||
            x.writes != y.writes || x.adds != y.adds || x.last_block != y.last_block)
            return false;
    }
    return a->known == b->known && a->gather_count == b->gather_count;
}

static bool differ(const char *path, const char *step, const char *what) {
    fprintf(stderr, "plan_tool: %s: step %s: %s\n", path, step, what);
    return false;
}

static bool reads_back(Compiler *compiler, const char *path, const Plan *plan) {
    const char *step = plan->function->name;
    const Plan *read = reread(compiler, plan);
    if (!read) return differ(path, step, "its plan does not read back");
    plan_check(read);
    if (strcmp(print(plan), print(read)) != 0)
        return differ(path, step, "what was read of its plan prints another text");
    for (ValueId v = 1; v < plan->function->value_count; v++)
        if (plan->defined_in[v] != read->defined_in[v] || plan->array_of[v] != read->array_of[v])
            return differ(path, step, "what was read of its plan makes a value elsewhere");
    for (uint32_t i = 0; i < plan->phase_count; i++)
        if (!same_phase(&plan->phases[i], &read->phases[i]))
            return differ(path, step, "a phase that was read computes something else");
    return true;
}

/* A search that goes to its end leaves no temporary that nobody reads. */
static bool wastes_nothing(const char *path, const Plan *plan) {
    for (uint32_t a = (uint32_t)plan->function->parameter_count; a < plan->array_count; a++) {
        bool read = plan->stopped;
        for (uint32_t i = 0; i < plan->phase_count; i++)
            read |= plan_reads(plan, &plan->phases[i], a);
        if (!read) return differ(path, plan->function->name, "nobody reads a temporary");
    }
    return true;
}

/* From its choices to the plan again. */
static bool is_made_again(Compiler *compiler, const char *path, const Plan *plan) {
    const char *step = plan->function->name, *text = print(plan);
    const Plan *again = planner_open(plan->function, plan->choices, plan->function->arena)->plan;
    for (size_t i = 0; again && i < COUNT(plan_passes); i++) {
        again = run_pass(again, plan_passes[i].name);
        if (again) plan_check(again);
        if (again) again = reread(compiler, again);
    }
    if (again) again = run_row_panels(again);
    if (!again) return differ(path, step, "its choices lead to no plan, pass by pass");
    ((Plan *)(uintptr_t)again)->stopped = plan->stopped;
    return strcmp(text, print(again)) == 0 ||
           differ(path, step, "its choices lead to another plan, pass by pass");
}

static bool check_step(Compiler *compiler, const char *path, const char *text) {
    Function *f =
        ir_read(compiler, &compiler->arena, source_add(compiler, path, text, strlen(text)));
    if (!f) return differ(path, "?", "its IR does not read back");
    const Plan *plan = plan_build(f);
    if (!reads_back(compiler, path, plan) || !is_made_again(compiler, path, plan)) return false;
    if (!wastes_nothing(path, plan)) return false;
    for (size_t i = 0; i < plan->grouping_count; i++) {
        const Plan *near = plan_worker_scratch(plan, target_for("cpu"), &plan->groupings[i]);
        if (near != plan && !reads_back(compiler, path, near)) return false;
    }
    return true;
}

/* ---- other orders ---- */

enum { ORDERS = 4 };

static const char *print_function(const Function *f) {
    Text out = text_open(f->arena);
    ir_print(f, &out);
    return out.data;
}

/* Launches, and MiB where every axis is as long as the others. */
static double bytes_of(const Plan *plan) {
    const PlanSizes sizes = plan_sizes_read(plan->function, NULL, 0);
    double moved = 0;
    for (size_t k = 0; k < plan->kernel_count; k++) {
        const KernelBytes bytes =
            plan_kernel_bytes(plan, &sizes, &plan->kernels[k], plan->function->arena);
        moved += bytes.read + bytes.written;
    }
    return moved / (1 << 20);
}

static bool check_orders(Compiler *compiler, const char *path, const char *text) {
    const Function *f = ir_compact(
        ir_read(compiler, &compiler->arena, source_add(compiler, path, text, strlen(text))));
    const char *own = print_function(f);
    const Plan *plan = plan_build(f);
    for (uint64_t seed = 1; seed <= ORDERS; seed++) {
        if (strcmp(own, print_function(ir_compact(shuffle(f, false, seed)))) != 0)
            return differ(path, f->name, "with statements in another order it is another function");
        const Plan *other = plan_build(ir_compact(shuffle(f, true, seed)));
        const double moved = bytes_of(plan), again = bytes_of(other);
        if (plan->kernel_count == other->kernel_count && moved <= 1.01 * again &&
            again <= 1.01 * moved)
            continue;
        printf("%s:%s: %zu launches, %.2f MiB; with parameters in another order %zu, %.2f\n",
               strrchr(path, '/') ? strrchr(path, '/') + 1 : path, f->name, plan->kernel_count,
               moved, other->kernel_count, again);
        return true;
    }
    return true;
}

/* Each step with a compiler of its own, which is given its text. */
static bool check_program(const char *path, size_t *steps,
                          bool (*check)(Compiler *compiler, const char *path, const char *text)) {
    static Compiler compiler; /* static: its value is needed after longjmp */
    ls_compilation *compilation;
    static volatile bool good;
    good = ls_compile_file(path, NULL, &compilation) == LS_OK;
    const size_t count = good ? ls_compilation_step_count(compilation) : 0;
    if (!good) fprintf(stderr, "plan_tool: %s does not compile\n", path);
    for (size_t s = 0; s < count; s++) {
        const char *emitted;
        size_t size;
        if (ls_compilation_emit(compilation, s, "ir", &emitted, &size) != LS_OK) good = false;
        char *volatile text = good ? strdup(emitted) : NULL;
        for (char *volatile next, *volatile at = text; at; at = next) {
            next = strstr(at, "\nstep "); /* another part, where there is a `for` */
            if (next) {
                *next = 0;
                next++;
            }
            memset(&compiler, 0, sizeof compiler);
            arena_open(&compiler.arena, &compiler);
            if (setjmp(compiler.unwind) == 0) {
                if (!check(&compiler, path, at)) good = false;
            } else {
                fprintf(stderr, "plan_tool: %s: %s\n", path, compiler.failure_message);
                good = false;
            }
            arena_close(&compiler.arena);
            ++*steps;
        }
        free(text);
    }
    ls_compilation_destroy(compilation);
    return good;
}

int main(int count, char **words) {
    const bool orders = count > 2 && strcmp(words[1], "--shuffle") == 0;
    if (orders || (count > 2 && strcmp(words[1], "--steps") == 0)) {
        int bad = 0;
        size_t steps = 0;
        for (int i = 2; i < count; i++)
            bad += !check_program(words[i], &steps, orders ? check_orders : check_step);
        printf("%zu steps of %d programs, %d wrong\n", steps, count - 2, bad);
        return bad > 0;
    }
    if (count < 2) {
        fputs("plan_tool [--check | --pass NAME]... FILE\n"
              "plan_tool --steps FILE.step...\n"
              "plan_tool --shuffle FILE.step...\n",
              stderr);
        return 2;
    }
    static Compiler compiler; /* static: its value is needed after longjmp */
    arena_open(&compiler.arena, &compiler);
    int status = 1;
    if (setjmp(compiler.unwind) == 0)
        status = run_passes(&compiler, count, words);
    else
        fprintf(stderr, "plan_tool: %s\n", compiler.failure_message);
    arena_close(&compiler.arena);
    return status;
}
