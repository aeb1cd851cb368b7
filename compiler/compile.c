/* compile.c: the pipeline: which passes run in which order, and nothing else.
 *
 * compile_step takes a step from its checked tree to the value IR that is planned, compile_plan to
 * a plan, and compile_image to the source text of every variant for a target; toolchain/code.c
 * makes machine code of that. After each pass its checker runs. Where a folder is given
 * (LOCKSTEP_DUMP) each stage is written there as STEP.N-NAME.EXT, "(unchanged)" where a pass did
 * nothing. */
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "front/front.h"
#include "lower/lower.h"
#include "fuse/fuse.h"
#include "emit/emit.h"
#include "toolchain/toolchain.h"
#include "compile.h"

/* ---- dumps ---- */

static void dump(ls_compilation *c, const char *step, const char *stage, const char *text) {
    if (!c->options.dump) return;
    mkdir(c->options.dump, 0777); /* may be there; if it cannot be made, fopen says so */
    const char *path = arena_printf(&c->compiler.arena, "%s/%s.%s", c->options.dump, step, stage);
    FILE *file = fopen(path, "wb");
    bool written = file && fputs(text, file) >= 0;
    if (file && fclose(file) != 0) written = false;
    if (!written)
        compiler_fail(&c->compiler, LS_ERROR_FILE,
                      "cannot write %s, a stage of the compile: %s; LOCKSTEP_DUMP names the folder",
                      path, strerror(errno));
}

static void dump_ir(ls_compilation *c, const Function *f, const char *stage, const Text *before,
                    Text *text) {
    *text = text_open(&c->compiler.arena);
    if (!c->options.dump) return;
    ir_print(f, text);
    bool same = before && strcmp(before->data, text->data) == 0;
    dump(c, f->name, stage, same ? "(unchanged)\n" : text->data);
}

static void dump_plan(ls_compilation *c, const Plan *plan) {
    Text text = text_open(&c->compiler.arena);
    if (!c->options.dump) return;
    plan_print(plan, &text);
    dump(c, plan->function->name, "4-fused.plan", text.data);
}

/* ---- the pipeline ---- */

/* A derived function with the fewest values. */
static Function *reduce(Function *derived) {
    Function *once = simplify(derived);
    ir_check(once, STAGE_SIMPLIFIED);
    Function *compacted = compact(find_touched(once));
    if (compacted != once) once = simplify(compacted);
    ir_check(once, STAGE_SIMPLIFIED);
    Function *gathered = gather(once);
    if (!gathered) return NULL;
    ir_check(gathered, STAGE_GATHERED);
    return gathered == once ? once : simplify(gathered);
}

static Function *derive_function(ls_compilation *c, Function *lowered, Text *text) {
    Text before;
    ir_check(lowered, STAGE_LOWERED);
    dump_ir(c, lowered, "1-lowered.ir", NULL, &before);
    Function *derived = derive(lowered);
    if (derived) dump_ir(c, derived, "2-derived.ir", &before, text);
    return derived;
}

static void compile_derived(ls_compilation *c, StepState *step, const Text *before) {
    Text text;
    if (!step->derived) return;
    ir_check(step->derived, STAGE_DERIVED);
    step->simplified = reduce(step->derived);
    if (!step->simplified) return;
    Function *strips = strip_mine(step->simplified);
    if (strips != step->simplified) step->simplified = simplify(strips);
    ir_check(step->simplified, STAGE_GATHERED);
    dump_ir(c, step->simplified, "3-simplified.ir", before, &text);
}

static void compile_function(ls_compilation *c, size_t number, Function *function) {
    StepState *step = &c->steps[number];
    Text derived;
    step->lowered = function;
    step->derived = derive_function(c, function, &derived);
    compile_derived(c, step, &derived);
}

/* ---- steps with `for` ---- */

static void name_part(ls_compilation *c, const char *step, Sequence *sequence, size_t number) {
    sequence->parts[number].function->name =
        arena_printf(&c->compiler.arena, "%s__%zu", step, number + 1);
}

/* Whether the part has become several, in no more loops than they need. */
static bool distribute(Sequence *sequence, size_t number, const Function *f) {
    const size_t before = sequence->part_count;
    if (!distribute_loop(sequence, number, f)) return false;
    for (size_t i = number; i <= number + sequence->part_count - before; i++)
        while (drop_dead_loop(sequence, i)) continue;
    return true;
}

/* The parts from where they are derived; again where one becomes several. */
static bool compile_part(ls_compilation *c, const char *step, Sequence *sequence, size_t number) {
    c->steps = arena_grow(&c->compiler.arena, c->steps, c->state_count, &c->state_capacity,
                          sizeof *c->steps);
    StepState *own = &c->steps[c->state_count++];
    do {
        name_part(c, step, sequence, number);
        Function *part = sequence->parts[number].function;
        *own = (StepState){.lowered = part, .derived = part};
        compile_derived(c, own, NULL);
    } while (own->simplified && distribute(sequence, number, own->simplified));
    sequence->parts[number].function = own->simplified;
    return own->simplified;
}

/* The same parts in memory of their own. */
static Sequence copy_parts(ls_compilation *c, const Sequence *sequence) {
    Sequence copy = *sequence;
    copy.parts = arena_alloc(&c->compiler.arena, (copy.part_count + 1) * sizeof *copy.parts);
    memcpy(copy.parts, sequence->parts, copy.part_count * sizeof *copy.parts);
    copy.part_capacity = copy.part_count;
    return copy;
}

/* Derives all parts. What they are then is the source, which the interpreter of the tests holds the
 * sequence against. */
static bool derive_parts(ls_compilation *c, const char *step, Sequence *sequence) {
    Text text;
    for (size_t i = 0; i < sequence->part_count; i++) {
        name_part(c, step, sequence, i);
        sequence->parts[i].function = derive_function(c, sequence->parts[i].function, &text);
        if (!sequence->parts[i].function) return false;
    }
    Sequence *source = arena_alloc(&c->compiler.arena, sizeof *source);
    *source = copy_parts(c, sequence);
    sequence->source = source;
    return true;
}

/* What one launch needs to run the loops around the part, if it does all that they do. */
static void find_iteration(Sequence *sequence, size_t number) {
    Part *part = &sequence->parts[number];
    const uint32_t loops = sequence_loops(sequence, number);
    part->function->iteration = loops ? sequence_iteration(sequence, part, loops) : NULL;
}

/* Whether the part, or some of it, would go by strips. */
static bool goes_by_strips(ls_compilation *c, const Sequence *sequence, size_t number) {
    Sequence copy = copy_parts(c, sequence);
    Function *f = copy.parts[number].function = simplify(copy.parts[number].function);
    find_iteration(&copy, number);
    return strips_axis(f) >= 0 || distribute_loop(&copy, number, f);
}

/* Makes perfect nests of loops that have statements around another loop, from the inside out, where
 * strips can run them. */
static bool sink_parts(ls_compilation *c, Sequence *sequence) {
    Sequence made = copy_parts(c, sequence);
    bool any = false;
    for (size_t i = 0; i < sequence->loop_count; i++) any |= sequence->loops[i].outer != 0;
    for (size_t i = 0; any && i < made.part_count; i++) {
        made.parts[i].function = reduce(made.parts[i].function);
        if (!made.parts[i].function) return false;
    }
    bool sunk = false;
    for (uint32_t loop = (uint32_t)made.loop_count; any && loop > 0; loop--) {
        Sequence tried = copy_parts(c, &made);
        size_t number;
        if (!sink_statements(&tried, loop, &number) || !goes_by_strips(c, &tried, number)) continue;
        made = tried;
        sunk = true;
    }
    if (sunk) *sequence = made;
    for (size_t i = 0; sunk && i < sequence->part_count; i++) find_iteration(sequence, i);
    return true;
}

static void compile_parts(ls_compilation *c, size_t number, Function *function,
                          Sequence *sequence) {
    const size_t first = c->state_count;
    bool good = derive_parts(c, function->name, sequence) && sink_parts(c, sequence);
    for (size_t i = 0; good && i < sequence->part_count; i++)
        good = compile_part(c, function->name, sequence, i) && good;
    c->steps[number] = (StepState){.lowered = function,
                                   .derived = function,
                                   .simplified = good ? function : NULL,
                                   .sequence = sequence,
                                   .first_part = first};
}

void compile_step(ls_compilation *c, size_t number) {
    Sequence *sequence;
    if (!module_need_step(c->module, number)) return;
    Function *function = lower_step(&c->compiler, c->module, number, &sequence);
    if (function && sequence)
        compile_parts(c, number, function, sequence);
    else if (function)
        compile_function(c, number, function);
}

static bool same_sums(const StepState *state, size_t number, const Sum *sums, size_t count) {
    bool same = state->sums && state->sum_of == number && state->sum_count == count;
    for (size_t i = 0; same && i < count; i++)
        same = state->sums[i].parameter == sums[i].parameter &&
               state->sums[i].count == sums[i].count && state->sums[i].type == sums[i].type;
    return same;
}

size_t compile_summed(ls_compilation *c, size_t number, const Sum *sums, size_t count) {
    Arena *arena = &c->compiler.arena;
    for (size_t i = c->step_count; i < c->state_count; i++)
        if (same_sums(&c->steps[i], number, sums, count)) return i;
    Sum *kept = arena_alloc(arena, (count + 1) * sizeof *kept);
    memcpy(kept, sums, count * sizeof *kept);
    c->steps = arena_grow(arena, c->steps, c->state_count, &c->state_capacity, sizeof *c->steps);
    const size_t made = c->state_count;
    c->steps[made] = (StepState){.sums = kept, .sum_count = count, .sum_of = number};
    c->state_count++;
    compile_function(c, made, sum_parameters(c->steps[number].lowered, kept, count));
    return made;
}

/* Each stage by the passes of a step. */
static size_t compile_stages(ls_compilation *c, const Sharding *sharding) {
    Arena *arena = &c->compiler.arena;
    const size_t first = c->state_count;
    for (size_t i = 0; i < sharding->stage_count; i++) {
        c->steps =
            arena_grow(arena, c->steps, c->state_count, &c->state_capacity, sizeof *c->steps);
        c->steps[c->state_count] = (StepState){.lowered = NULL};
        compile_function(c, c->state_count++, sharding->stages[i].function);
    }
    return first;
}

const ShardedStep *compile_sharded(ls_compilation *c, size_t number, const char *parameter,
                                   const char *axis, bool within) {
    const Function *f = c->steps[number].simplified;
    uint32_t p = 0;
    int along = -1;
    while (p < f->parameter_count && strcmp(f->parameters[p].name, parameter) != 0) p++;
    if (p == f->parameter_count)
        compiler_fail(&c->compiler, LS_ERROR_ARGUMENT, "step `%s` has no parameter `%s`", f->name,
                      parameter);
    for (size_t a = 0; axis && a < f->axis_count; a++)
        if (strcmp(f->axes[a].name, axis) == 0) along = (int)a;
    if (axis && (along < 0 || !(f->parameters[p].declared >> along & 1)))
        compiler_fail(&c->compiler, LS_ERROR_ARGUMENT,
                      "parameter `%s` of step `%s` has no axis `%s`", parameter, f->name, axis);
    if (c->steps[number].sequence)
        compiler_fail(&c->compiler, LS_ERROR_UNSUPPORTED,
                      "step `%s` has a `for`, and steps on parts have none", f->name);
    for (const ShardedStep *s = c->sharded; s; s = s->next)
        if (s->number == number && s->parameter == p && s->axis == along && s->within == within)
            return s;
    ShardedStep *made = arena_alloc(&c->compiler.arena, sizeof *made);
    const Sharding *sharding = shard(f, p, along, within);
    *made = (ShardedStep){.number = number,
                          .first_stage = compile_stages(c, sharding),
                          .parameter = p,
                          .axis = along,
                          .within = within,
                          .sharding = sharding,
                          .next = c->sharded};
    return c->sharded = made;
}

const Plan *compile_plan(ls_compilation *c, size_t number) {
    StepState *step = &c->steps[number];
    if (!step->plan) {
        Plan *plan = plan_build(step->simplified);
        plan_check(plan);
        dump_plan(c, plan);
        step->plan = plan;
    }
    return step->plan;
}

_Noreturn static void refuse_target(ls_compilation *c, const char *name) {
    Text targets = text_open(&c->compiler.arena);
    target_put_kinds(&targets);
    compiler_fail(&c->compiler, LS_ERROR_ARGUMENT, "there is no target %s: targets are %s", name,
                  targets.data);
}

static const ls_image *sequence_image(ls_compilation *c, size_t number, const char *target_name) {
    const StepState *step = &c->steps[number];
    const size_t count = step->sequence->part_count;
    const ls_image **images = arena_alloc(&c->compiler.arena, (count + 1) * sizeof *images);
    for (size_t i = 0; i < count; i++)
        images[i] = compile_image(c, step->first_part + i, target_name)->image;
    return emit_sequence(step->sequence, images, target_name, LS_LAYOUT_STRIDED);
}

/* One for all images for the target: which toolchain makes their code is logged once. */
static atomic_flag *told_of(ls_compilation *c, const char *target) {
    for (size_t i = 0; i < c->state_count; i++)
        for (const Made *made = c->steps[i].made; made; made = made->next)
            if (strcmp(made->image->target, target) == 0) return made->told;
    atomic_flag *told = arena_alloc(&c->compiler.arena, sizeof *told);
    atomic_flag_clear(told);
    return told;
}

Made *compile_image(ls_compilation *c, size_t number, const char *target_name) {
    StepState *step = &c->steps[number];
    const char *problem;
    for (Made *made = step->made; made; made = made->next)
        if (strcmp(made->image->target, target_name) == 0) return made;
    const Target *target = target_for(target_name);
    if (!target_is_well_formed(target_name)) refuse_target(c, target_name);
    const ls_image *image = step->sequence ? sequence_image(c, number, target_name)
                                           : emit_step(compile_plan(c, number), target, target_name,
                                                       LS_LAYOUT_STRIDED, NULL, &problem);
    if (!image) compiler_fail(&c->compiler, LS_ERROR_UNSUPPORTED, "%s", problem);
    Made *made = arena_alloc(&c->compiler.arena, sizeof *made);
    made->image = (ls_image *)(uintptr_t)image;
    made->math = step->simplified->math;
    made->told = told_of(c, target_name);
    made->code = arena_alloc(&c->compiler.arena, image->variant_count * sizeof *made->code);
    made->next = step->made;
    step->made = made;
    for (uint32_t v = 0; v < image->variant_count && !step->sequence; v++)
        dump(c, step->simplified->name,
             arena_printf(&c->compiler.arena, "5-%s-%u.%s", target_name, v, target->name),
             image->variants[v].source);
    return made;
}

static bool has_made(const StepState *step, const Made *made) {
    const Made *own = step->made;
    while (own && own != made) own = own->next;
    return own != NULL;
}

static const char *known_text(ls_compilation *c, const Made *made, uint32_t variant,
                              const int64_t *lengths) {
    const ls_image *image = made->image;
    Arena *arena = &c->compiler.arena;
    size_t number = 0;
    while (!has_made(&c->steps[number], made)) number++;
    const Target *target = target_for(image->target);
    const char *text = emit_known(compile_plan(c, number), target, variant, lengths);
    Text stage = text_open(arena);
    text_printf(&stage, "5-%s-%u", image->target, variant);
    for (uint32_t a = 0; a < image->axis_count; a++)
        if (lengths[a]) text_printf(&stage, "-%s=%lld", image->axes[a].name, (long long)lengths[a]);
    text_printf(&stage, ".%s", target->name);
    dump(c, image->step, stage.data, text);
    return text;
}

ls_status compile_known(ls_compilation *c, Made *made, uint32_t variant, const int64_t *lengths,
                        ls_known_when when, KnownCode **found) {
    *found = known_find(made, variant, lengths);
    if (*found) return LS_OK;
    KnownCode *known = known_new(&c->compiler.arena, made, variant, lengths);
    if (!known) return LS_ERROR_UNSUPPORTED;
    known->no_cache = c->options.no_cache;
    if (!known_load(known)) {
        if (when == LS_KNOWN_KEPT) return LS_OK;
        known->source = known_text(c, made, variant, lengths);
        if (when == LS_KNOWN_NOW)
            known_make(known);
        else if (!background_add(&c->background, known))
            known->state = KNOWN_FAILED;
    }
    known->next = made->known;
    made->known = *found = known;
    return LS_OK;
}

void compile_check(ls_compilation *c, size_t number) {
    const Sequence *sequence = c->steps[number].sequence;
    for (size_t i = 0; sequence && i < sequence->part_count; i++)
        compile_check(c, c->steps[number].first_part + i);
    if (sequence) return;
    const Plan *plan = compile_plan(c, number);
    const char *said = NULL, *problem;
    const ls_target *chip;
    if (emit_words_bound(plan) <= LS_ARGUMENTS_MAX) return; /* nothing else is in a kernel's way */
    for (size_t i = 0; (chip = ls_target_at(i)) != NULL; i++) { /* one of each dialect */
        bool first = true;
        for (size_t k = 0; k < i; k++)
            first = first && target_for(ls_target_at(k)->name) != target_for(chip->name);
        if (!first ||
            emit_step(plan, target_for(chip->name), chip->name, LS_LAYOUT_STRIDED, NULL, &problem))
            continue;
        if (!said) diagnose(&c->compiler, ERROR_UNBUILDABLE, plan->function->range, problem);
        if (said && strcmp(said, problem) != 0)
            diagnose_note(&c->compiler, (Range){0}, "for %s: %s", chip->name, problem);
        if (!said) said = problem;
    }
}

AheadImage compile_ahead(ls_compilation *c, size_t step, const char *target_name,
                         ls_image_layout last, Text *shared) {
    const Target *target = target_for(target_name);
    AheadImage image = {
        .made = compile_image(c, step, target_name), .target = target, .last = last};
    const ls_image *made = image.made->image;
    const char *problem;
    for (uint32_t v = 0; v < made->variant_count; v++)
        if (made->variants[v].layout <= last) image.variant_count = v + 1;
    if (c->steps[step].sequence || !target_kind(target_name)->ahead_as_text) return image;
    image.image = emit_step(compile_plan(c, step), target, target_name, last, shared, &problem);
    if (!image.image) compiler_fail(&c->compiler, LS_ERROR_UNSUPPORTED, "%s", problem);
    image.variant_count = image.image->variant_count;
    return image;
}
