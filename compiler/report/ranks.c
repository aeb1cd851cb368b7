/* ranks.c: the report of `lockstep explain --ranks`: a step on parts of its arrays, of which the
 * first rank's is looked at: what each stage moves, which bytes go between ranks, what a rank
 * keeps, and, where the memory's and the link's speed are given, what that takes and which of both
 * is the limit. Nothing is compiled. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "front/front.h"
#include "fuse/fuse.h"
#include "emit/emit.h"
#include "toolchain/toolchain.h"
#include "compile.h"
#include "report/report.h"

enum { TILE = 1024, TENSORS_MAX = 1 << 20 };

typedef struct RanksReport {
    ls_compilation *c;
    const ls_explain_options *options;
    const Function *f;
    const Sharding *sharding;
    const ShardedStep *step;
    PlanSizes sizes; /* of the whole */
    double ranks;
    size_t tensors;
    int64_t *elements, *own; /* of each tensor of what is cut by, and of them the first rank's */
    double all_elements, own_elements;
    double memory_s, link_s, sent, received;
    Report words; /* for report_bytes_text */
    Text out;
} RanksReport;

_Noreturn static void refuse(const RanksReport *r, const char *problem) {
    compiler_fail(&r->c->compiler, LS_ERROR_ARGUMENT, "%s", problem);
}

static bool is_power_of_two(uint32_t n) {
    return n && !(n & (n - 1));
}

static void check_options(const RanksReport *r) {
    const ls_explain_options *o = r->options;
    if (!o->slots) return;
    if (!is_power_of_two(o->slots)) refuse(r, "--slots is a power of two");
    if (o->slots % o->ranks == 0) return;
    Text sizes = text_open(&r->c->compiler.arena);
    for (uint32_t n = 1; n <= o->slots; n *= 2) text_printf(&sizes, "%s%u", n > 1 ? ", " : "", n);
    refuse(r, arena_printf(&r->c->compiler.arena,
                           "%u slots are not shared out evenly by %u ranks; they are by %s",
                           o->slots, o->ranks, sizes.data));
}

/* ---- what is cut ---- */

static const Parameter *cut_parameter(const RanksReport *r) {
    return &r->f->parameters[r->step->parameter];
}

static void count_elements(RanksReport *r) {
    const Parameter *p = cut_parameter(r);
    const int list = r->sharding->list;
    Arena *arena = &r->c->compiler.arena;
    r->tensors = list < 0 ? 1 : (size_t)plan_sizes_length(&r->sizes, (size_t)list, 0);
    if (r->tensors > TENSORS_MAX) refuse(r, "there are more tensors than a report is made for");
    r->elements = arena_alloc(arena, (r->tensors + 1) * sizeof *r->elements);
    r->own = arena_alloc(arena, (r->tensors + 1) * sizeof *r->own);
    for (size_t t = 0; t < r->tensors; t++) {
        r->elements[t] = 1;
        for (uint32_t a = 0; a < r->f->axis_count; a++)
            if ((p->declared >> a & 1) && (int)a != list)
                r->elements[t] *= plan_sizes_length(&r->sizes, a, t);
        r->all_elements += (double)r->elements[t];
    }
}

/* As ls_partition cuts it, of one type: at the nearest place to an equal share. */
static void cut_first(RanksReport *r) {
    const double share = r->all_elements / r->ranks;
    double before = 0;
    for (size_t t = 0; t < r->tensors && before < share; t++) {
        const double left = share - before, has = (double)r->elements[t];
        const double step = r->sharding->axis >= 0 ? TILE : has;
        double own = step > 0 ? floor(left / step + 0.5) * step : 0;
        if (own > has) own = has;
        r->own[t] = (int64_t)own;
        r->own_elements += own;
        before += has;
    }
}

/* "n=1024+0+0" */
static const char *lengths_text(const RanksReport *r, const char *name, size_t axis, bool tiles,
                                bool part) {
    Text text = text_open(&r->c->compiler.arena);
    text_printf(&text, "%s=", name);
    for (size_t t = 0; t < r->tensors; t++) {
        int64_t length =
            tiles ? (r->elements[t] + TILE - 1) / TILE : plan_sizes_length(&r->sizes, axis, t);
        if (part && r->sharding->axis >= 0)
            length = r->own[t];
        else if (part && !r->own[t])
            length = 0;
        text_printf(&text, "%s%lld", t ? "+" : "", (long long)length);
    }
    if (r->tensors == 0) text_puts(&text, "0");
    return text.data;
}

/* What the axes of a stage are long on the first rank. */
static const char *const *stage_sizes(const RanksReport *r, const Function *stage, size_t *count) {
    Arena *arena = &r->c->compiler.arena;
    const char **words = arena_alloc(arena, (stage->axis_count + 1) * sizeof *words);
    const Sharding *s = r->sharding;
    *count = 0;
    for (size_t a = 0; a < stage->axis_count; a++) {
        const Axis *row = &stage->axes[a];
        size_t own = 0; /* the step's axis of that name */
        while (own < r->f->axis_count && strcmp(r->f->axes[own].name, row->name) != 0) own++;
        const bool known = own < r->f->axis_count;
        const bool list = known && s->list >= 0 && r->f->axes[own].parent == s->list;
        if (row->fixed >= 0 || row->terms || row->whole >= 0) continue;
        if (!known) /* the tiles of all ranks */
            words[(*count)++] = lengths_text(r, row->name, 0, true, false);
        else if ((int)own == s->axis || (list && s->axis < 0))
            words[(*count)++] = lengths_text(r, row->name, own, false, true);
        else if (list)
            words[(*count)++] = lengths_text(r, row->name, own, false, false);
        else
            words[(*count)++] = arena_printf(arena, "%s=%lld", row->name,
                                             (long long)plan_sizes_length(&r->sizes, own, 0));
    }
    return words;
}

/* ---- lines ---- */

static const char *bytes_of(RanksReport *r, double bytes) {
    return report_bytes_text(&r->words, bytes);
}

static const char *time_text(const RanksReport *r, double seconds) {
    const bool small = seconds < 1e-3;
    return arena_printf(&r->c->compiler.arena, "%.3g %s", seconds * (small ? 1e6 : 1e3),
                        small ? "us" : "ms");
}

static void put_time(RanksReport *r, double seconds) {
    if (seconds > 0) text_printf(&r->out, ", %s", time_text(r, seconds));
}

static void put_between(RanksReport *r, double sent, double received) {
    const double most = sent > received ? sent : received;
    const double seconds = r->options->link_gbit_s > 0 ? most * 8e-9 / r->options->link_gbit_s : 0;
    r->sent += sent;
    r->received += received;
    r->link_s += seconds;
    text_printf(&r->out, "%s sent, ", bytes_of(r, sent));
    text_printf(&r->out, "%s received", bytes_of(r, received));
    put_time(r, seconds);
    text_puts(&r->out, "\n");
}

static void put_head(RanksReport *r) {
    const Sharding *s = r->sharding;
    report_text_head(&r->sizes, &r->out);
    text_printf(&r->out, "on %u ranks, cut %s", r->options->ranks,
                s->axis >= 0 ? "within tensors, along " : "between tensors");
    if (s->axis >= 0) text_puts(&r->out, r->f->axes[s->axis].name);
    text_printf(&r->out, "; the first has %.4g of %.4g elements of `%s`\n", r->own_elements,
                r->all_elements, cut_parameter(r)->name);
    for (int cut = 1; cut >= 0; cut--) {
        text_puts(&r->out, cut ? "  a part on each rank:" : "  whole on each rank:  ");
        for (size_t p = 0; p < r->f->parameter_count; p++)
            if (s->cut[p] == cut) text_printf(&r->out, " %s", r->f->parameters[p].name);
        text_puts(&r->out, "\n");
    }
}

/* Partial sums of gradients, which each rank gets of what it owns. */
static void put_gradients(RanksReport *r) {
    const ls_explain_options *o = r->options;
    double arrays = 0;
    if (!o->slots) return;
    text_puts(&r->out, "  sums of slots of");
    for (size_t p = 0; p < r->f->parameter_count; p++) {
        const Parameter *row = &r->f->parameters[p];
        if (!r->sharding->cut[p] || row->role != LS_IN) continue;
        arrays++;
        text_printf(&r->out, " %s", row->name);
    }
    text_printf(&r->out, ": %u slots, %u on each rank, which adds them in ", o->slots,
                o->slots / o->ranks);
    uint32_t buffers = 1;
    for (uint32_t own = o->slots / o->ranks; own > 1; own /= 2) buffers++;
    text_printf(&r->out, "%u buffer%s of %s\n    ", buffers, buffers == 1 ? "" : "s",
                bytes_of(r, arrays * r->all_elements * 4));
    put_between(r, arrays * (r->all_elements - r->own_elements) * 4,
                arrays * r->own_elements * 4 * (r->ranks - 1));
}

static void put_stage(RanksReport *r, size_t number) {
    const size_t state = r->step->first_stage + number;
    const Function *stage = r->c->steps[state].simplified;
    ls_explain_options own = *r->options;
    size_t count = 0;
    own.plan_only = 1;
    const char *const *words = stage_sizes(r, stage, &count);
    const Report report = report_open(r->c, state, &own, words, count);
    double read = 0, written = 0;
    for (size_t i = 0; i < report.kernel_count; i++) {
        read += report.kernels[i].read;
        written += report.kernels[i].written;
    }
    const double seconds = own.peak_gb_s > 0 ? (read + written) * 1e-9 / own.peak_gb_s : 0;
    r->memory_s += seconds;
    text_printf(&r->out, "  stage %zu: %zu launch%s, ", number + 1, report.kernel_count,
                report.kernel_count == 1 ? "" : "es");
    text_printf(&r->out, "%s read, ", bytes_of(r, read));
    text_printf(&r->out, "%s written", bytes_of(r, written));
    put_time(r, seconds);
    text_puts(&r->out, "\n");
}

static void put_exchanges(RanksReport *r, size_t stage) {
    const Sharding *s = r->sharding;
    double own = 0, all = 0;
    for (size_t e = 0; e < s->exchange_count; e++) {
        const ls_shard_exchange *row = &s->exchanges[e];
        const double size = type_info[row->type].size;
        if (row->stage != stage) continue;
        text_printf(&r->out, "%s line %u", own + all > 0 ? "," : "  gather, for the reduction of",
                    row->line);
        for (size_t t = 0; t < r->tensors; t++) {
            const double whole = row->tile ? ceil((double)r->elements[t] / row->tile) : 1;
            all += whole * size;
            if (r->own[t] || !row->tile)
                own +=
                    row->tile ? ceil((double)r->own[t] / row->tile) * size : (r->own[t] ? size : 0);
        }
    }
    if (all == 0) return;
    text_printf(&r->out, ": %s\n    ",
                s->axis >= 0 ? "a value per tile of 1024 elements" : "a value per tensor");
    put_between(r, own * (r->ranks - 1), all - own);
}

static void put_gathered(RanksReport *r) {
    for (size_t i = 0; i < r->options->gather_count; i++) {
        size_t p = 0;
        while (p < r->f->parameter_count &&
               strcmp(r->f->parameters[p].name, r->options->gather[i]) != 0)
            p++;
        if (p == r->f->parameter_count || !r->sharding->cut[p])
            refuse(r, arena_printf(&r->c->compiler.arena,
                                   "--gather %s is no array that the ranks have parts of",
                                   r->options->gather[i]));
        const double size = type_info[r->f->parameters[p].type].size;
        text_printf(&r->out, "  gather %s, the new values of all ranks\n    ",
                    r->f->parameters[p].name);
        put_between(r, r->own_elements * size * (r->ranks - 1),
                    (r->all_elements - r->own_elements) * size);
    }
}

/* What a step keeps from launch to launch. */
static void put_states(RanksReport *r) {
    double all = 0;
    for (size_t p = 0; p < r->f->parameter_count; p++)
        if (r->sharding->cut[p] && r->f->parameters[p].role == LS_INOUT)
            all += plan_sizes_elements(&r->sizes, r->f->parameters[p].axes) *
                   type_info[r->f->parameters[p].type].size;
    const double share = r->all_elements > 0 ? r->own_elements / r->all_elements : 0;
    text_printf(&r->out, "  kept from launch to launch: %s of ", bytes_of(r, all * share));
    text_printf(&r->out, "%s\n", bytes_of(r, all));
}

static void put_bound(RanksReport *r) {
    text_printf(&r->out, "  in all: %s sent, ", bytes_of(r, r->sent));
    text_printf(&r->out, "%s received", bytes_of(r, r->received));
    if (r->options->peak_gb_s > 0 && r->options->link_gbit_s > 0)
        text_printf(&r->out, "; %s of memory and %s of the link, one after the other: bound by %s",
                    time_text(r, r->memory_s), time_text(r, r->link_s),
                    r->memory_s >= r->link_s ? "memory" : "the link");
    text_puts(&r->out, "\n");
}

const char *report_ranks(ls_compilation *c, size_t number, const ls_explain_options *options) {
    Arena *arena = &c->compiler.arena;
    const Function *f = c->steps[number].simplified;
    RanksReport r = {.c = c, .options = options, .f = f, .ranks = options->ranks};
    r.words.c = c;
    r.out = text_open(arena);
    check_options(&r);
    const char *name = options->cut;
    for (size_t p = 0; p < f->parameter_count && !name; p++)
        if (ir_list_axis(f, f->parameters[p].declared) >= 0) name = f->parameters[p].name;
    if (!name)
        refuse(&r, arena_printf(arena, "step `%s` has no list: --cut names the array that is cut",
                                f->name));
    r.step = compile_sharded(c, number, name, NULL, !options->between);
    r.sharding = r.step->sharding;
    r.sizes = plan_sizes_read(f, options->sizes, options->size_count);
    count_elements(&r);
    cut_first(&r);
    put_head(&r);
    put_gradients(&r);
    for (size_t i = 0; i < r.sharding->stage_count; i++) {
        put_stage(&r, i);
        put_exchanges(&r, i);
    }
    put_gathered(&r);
    put_states(&r);
    put_bound(&r);
    return r.out.data;
}
