/* report.h: what is written for people: what a step will cost and why, its text, and what
 * `lockstep tune` found. */
#ifndef LOCKSTEP_REPORT_H
#define LOCKSTEP_REPORT_H

/* ---- for the other rooms ---- */

/* explain.c: the report of `lockstep explain`. */
const char *report_explain(ls_compilation *c, size_t step, const ls_explain_options *options);
/* emission.c: FORM[:TARGET][#VARIANT] of a step; the message where it fails is the compilation's.
 */
ls_status report_emit(ls_compilation *c, size_t step, const char *form, const char **data,
                      size_t *size);
/* advice.c: see ls_compilation_advise. */
void report_advise(ls_compilation *c, size_t step, const ls_advise_options *options,
                   ls_advice *advice);
/* tune.c: see ls_tuning_keep and ls_tuning_list. */
ls_status tune_keep(const ls_image *image, const ls_tuning_record *record, char *reason,
                    size_t size);
size_t tune_list(const ls_image *image, const char *device, ls_tuning_record *records,
                 size_t capacity);
/* Adds to an image the forms that only a tuning chooses, where the options or a tuning want them,
 * and what was found for the device (NULL: nothing). */
void tune_apply(ls_compilation *c, size_t step, Made *made, const char *device);

/* ---- what the reports of `lockstep explain` share ---- */

/* One kernel of the variant the sizes select. */
typedef struct KernelReport {
    const char *name, *share;
    Kernel plan;                      /* its phases */
    double read, written, operations; /* of an iteration, where a launch runs all */
    KernelBytes once;                 /* besides, what all iterations of a launch move once */
    uint64_t blocks;                  /* or workers, of a launch; of whose threads: */
    uint32_t threads;
} KernelReport;

typedef struct Report {
    ls_compilation *c;
    size_t number;
    const Plan *plan;
    const ls_explain_options *options;
    PlanSizes sizes, own_sizes; /* own: those that the variant is for (plan_sizes_of_variant) */
    int64_t strip;              /* of a variant of strips: their length; else 0 */
    const ls_image *image;
    uint32_t grouping;
    uint32_t variant;
    bool together; /* its blocks wait for each other, and there are several */
    KernelReport *kernels;
    size_t kernel_count;
    double moved, minimum;
    double once;                       /* of all kernels */
    double iterations;                 /* of a part: those of a launch */
    double temporary, temporary_apart; /* bytes of all; if none shared its memory with others */
    const uint64_t *temporary_sizes;   /* of each, of all blocks together */
    size_t temporary_count;
    uint64_t parts; /* blocks or workers of the largest launch */
    Text out;
} Report;

/* explain.c */
extern const char *const report_partitions[SHAPE_COUNT]; /* how a phase is shared out */
const char *report_bytes_text(Report *r, double bytes);
/* Of a step or a part of one, with its code made where the report tells of it. */
Report report_open(ls_compilation *c, size_t number, const ls_explain_options *options,
                   const char *const *sizes, size_t size_count);
void report_text_head(const PlanSizes *sizes, Text *out);
void report_text_kernels(Report *r);
void report_json_head(const PlanSizes *sizes, Text *out);
/* `before` stands before the first, `more` among the keys of each. */
void report_json_kernels(Report *r, const char *before, const char *more);
/* The number of the variant that the sizes select, the grouping of the plan that it belongs to, and
 * whether it is cooperative. */
uint32_t report_choose(const PlanSizes *sizes, const Plan *plan, const ls_image *image,
                       uint32_t *grouping, bool *together);
/* Whether it is for the PlanSizes. */
bool report_suits(const void *sizes, const ls_image_variant *variant);
bool report_kernel_writes(const Report *r, const KernelReport *kernel, uint32_t array);
/* A kernel's figures on a target, from its code; false with the reason in the compilation's
 * message. Nothing is known where the options want the plan alone. */
typedef struct Figures {
    RtcKernelStats stats;
    TargetOccupancy occupancy; /* of its largest blocks; max 0: not known */
} Figures;
bool report_inspect(Report *r, const char *target, size_t kernel, Figures *figures);

/* sequence.c: the reports of a step with `for`, part by part. */
typedef struct SequenceReport {
    ls_compilation *c;
    const StepState *step;
    const Sequence *sequence;
    const ls_explain_options *options;
    PlanSizes sizes; /* of the step's axes */
    Report *parts;
    double *times; /* by part: how often it is launched */
    double *turns; /* and how many iterations it has */
    double launches, moved, minimum, temporary, apart;
    size_t temporary_count;
    Text out;
} SequenceReport;
/* sequence.c: the sizes of a part's axes, "n=8", from those of the whole step,
 * of which *count are given: these, a coordinate, which counts nothing, and the
 * length of the axis that has strips. */
const char **report_part_sizes(Arena *arena, const PlanSizes *whole, const Function *part,
                               const char *const *given, size_t *count);
SequenceReport report_sequence_open(ls_compilation *c, size_t number,
                                    const ls_explain_options *options);
const char *report_sequence(ls_compilation *c, size_t number, const ls_explain_options *options);

/* ranks.c: the report of a step on parts of its arrays. */
const char *report_ranks(ls_compilation *c, size_t number, const ls_explain_options *options);

/* temporaries.c */
void report_count_temporaries(Report *r);
void report_temporaries(Report *r);

/* font.c: of a text in points, at most. */
typedef enum Face { FACE_PLAIN, FACE_BOLD, FACE_FIXED } Face;
double report_text_width(const char *text, size_t size, Face face, double points);

/* graph.c */
void report_graph(Report *r);

/* schedules.c */
void report_schedules(Report *r);

/* alternatives.c: the plans that were not chosen */
void report_others(Report *r);
void report_others_json(Report *r);

/* tuned.c: what lockstep tune keeps for it */
void report_tuned(Report *r);
void report_tuned_json(Report *r);
/* The objects of its list, `before` of which stand there already; gives how many there are then. */
size_t report_tuned_records(Report *r, size_t before);

#endif
