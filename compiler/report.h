/* report.h: what the reports of `lockstep explain` share: explain.c (text and JSON),
 * explain_others.c (the plans not chosen), explain_temporaries.c (memory between kernels),
 * explain_graph.c (the graph). */
#ifndef REPORT_H
#define REPORT_H

/* One kernel of the variant the sizes select. */
typedef struct KernelReport {
    const char *name, *share;
    Kernel plan; /* its phases */
    double read, written, operations;
} KernelReport;

typedef struct Report {
    ls_compilation *c;
    size_t number;
    const Plan *plan;
    const ls_explain_options *options;
    ReportSizes sizes;
    const ls_image *image;
    uint32_t variant;
    bool together; /* its blocks wait for each other, and there are several */
    KernelReport *kernels;
    size_t kernel_count;
    double moved, minimum;
    double temporary, temporary_apart; /* bytes of all; if none shared its memory with others */
    const uint64_t *temporary_sizes;   /* of each, of all blocks together */
    size_t temporary_count;
    uint64_t parts; /* blocks or workers of the largest launch */
    Text out;
} Report;

/* explain.c */
extern const char *const report_shares[SHAPE_COUNT]; /* how a phase is shared out */
const char *report_bytes_text(Report *r, double bytes);
uint32_t report_choose(const Report *r, const Plan *plan, const ls_image *image, bool *together);
bool report_kernel_writes(const Report *r, const KernelReport *kernel, uint32_t array);

/* explain_temporaries.c */
void report_count_temporaries(Report *r);
void report_temporaries(Report *r);

/* explain_graph.c */
void report_graph(Report *r);

/* explain_others.c: the plans that were not chosen */
void report_others(Report *r);
void report_others_json(Report *r);

/* explain_tuned.c: what lockstep tune keeps for it */
void report_tuned(Report *r);
void report_tuned_json(Report *r);

#endif
