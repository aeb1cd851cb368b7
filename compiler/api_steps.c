/* api_steps.c: the public functions of lockstep/compiler.h that make another step of a step: one
 * whose parameters are sums, and one that runs on parts of its arrays. */
#include <locale.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "front/front.h"
#include "fuse/fuse.h"
#include "emit/emit.h"
#include "toolchain/toolchain.h"
#include "compile.h"
#include "task.h"
#include "report/report.h"

/* ---- steps whose parameters are sums ---- */

typedef struct SumJob {
    size_t step;
    const ls_sum *sums;
    size_t count;
    const char *target, *device;
    Made *made;
    size_t number; /* of the step that was made */
} SumJob;

static ls_status make_summed(ls_compilation *c, void *job) {
    SumJob *j = job;
    const StepState *state = &c->steps[j->step];
    if (state->sequence)
        compiler_fail(&c->compiler, LS_ERROR_UNSUPPORTED,
                      "step `%s` has a `for`, and sums are for steps without",
                      state->simplified->name);
    Sum *sums = arena_alloc(&c->compiler.arena, (j->count + 1) * sizeof *sums);
    for (size_t i = 0; i < j->count; i++) sums[i] = sum_asked(state->lowered, &j->sums[i]);
    const size_t made = compile_summed(c, j->step, sums, j->count);
    if (!c->steps[made].simplified) return LS_ERROR_PROGRAM;
    j->number = made;
    j->made = compile_image(c, made, j->target);
    tune_apply(c, made, j->made, j->device);
    return LS_OK;
}

ls_status ls_compilation_image_summed(ls_compilation *c, size_t step, const ls_sum *sums,
                                      size_t count, const char *target, const char *device,
                                      const ls_image **image) {
    SumJob job = {step, sums, count, target, device, NULL, 0};
    *image = NULL;
    if (!c) return LS_ERROR_ARGUMENT;
    c->message[0] = 0;
    ls_status status = task_find_step(c, step);
    if (status == LS_OK) status = task_run(c, make_summed, &job);
    if (job.made) *image = job.made->image;
    return status;
}

/* ---- steps on parts ---- */

typedef struct ShardJob {
    SumJob sum;
    const char *parameter, *axis;
    bool within;
    ls_sharded *sharded;
} ShardJob;

static ls_status make_sharded(ls_compilation *c, void *job) {
    ShardJob *j = job;
    size_t number = j->sum.step;
    if (j->sum.count > 0) {
        ls_status status = make_summed(c, &j->sum);
        if (status != LS_OK) return status;
        number = j->sum.number;
    }
    const ShardedStep *step = compile_sharded(c, number, j->parameter, j->axis, j->within);
    const Sharding *s = step->sharding;
    ls_sharded *made = arena_alloc(&c->compiler.arena, sizeof *made);
    ls_shard_stage *stages = arena_alloc(&c->compiler.arena, s->stage_count * sizeof *stages);
    for (size_t i = 0; i < s->stage_count; i++) {
        if (!c->steps[step->first_stage + i].simplified) return LS_ERROR_PROGRAM;
        Made *stage = compile_image(c, step->first_stage + i, j->sum.target);
        tune_apply(c, step->first_stage + i, stage, j->sum.device);
        stages[i] = (ls_shard_stage){stage->image, s->stages[i].arguments};
    }
    *made = (ls_sharded){.list = (uint32_t)(s->list + 1),
                         .axis = (uint32_t)(s->axis + 1),
                         .cut = s->cut,
                         .stage_count = (uint32_t)s->stage_count,
                         .exchange_count = (uint32_t)s->exchange_count,
                         .stages = stages,
                         .exchanges = s->exchanges};
    j->sharded = made;
    return LS_OK;
}

ls_status ls_compilation_image_sharded(ls_compilation *c, size_t step, const ls_sum *sums,
                                       size_t sum_count, const char *parameter, const char *axis,
                                       int within, const char *target, const char *device,
                                       const ls_sharded **sharded) {
    ShardJob job = {
        {.step = step, .sums = sums, .count = sum_count, .target = target, .device = device},
        parameter,
        axis,
        within != 0,
        NULL};
    *sharded = NULL;
    if (!c || !parameter) return LS_ERROR_ARGUMENT;
    c->message[0] = 0;
    ls_status status = task_find_step(c, step);
    if (status == LS_OK) status = task_run(c, make_sharded, &job);
    if (status == LS_OK) *sharded = job.sharded;
    return status;
}
