/* emission.c: a text that the front end was given, on through the whole compiler: every form that
 * can be emitted, every report, what `check` says of it and of its layout. The compiler's own forms
 * (IR, plans, loop IR) read back and print the same text again.
 *
 * What `check` lets through has kernels in every dialect: no form and no report may be refused. */
#include "front.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/lockstep.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "json_read.h"

static char problem[900];

static const char *say(const char *what, const char *how) {
    snprintf(problem, sizeof problem, "%s: %s", what, how);
    return problem;
}

/* ---- the compiler's own forms, read back ---- */

typedef struct OwnForm {
    const char *name, *opening; /* how each of its parts begins, at the begin of a line */
    /* Reads a part, checks it and prints it; false after diagnostics. */
    bool (*print_again)(Compiler *compiler, uint32_t file, Text *out);
} OwnForm;

static bool print_ir(Compiler *compiler, uint32_t file, Text *out) {
    const Function *f = ir_read(compiler, &compiler->arena, file);
    if (!f) return false;
    ir_check(f, STAGE_GATHERED);
    ir_print(f, out);
    return true;
}

static bool print_plan(Compiler *compiler, uint32_t file, Text *out) {
    const Plan *plan = plan_read(compiler, &compiler->arena, file);
    if (!plan) return false;
    plan_check(plan);
    plan_print(plan, out);
    return true;
}

static bool print_nest(Compiler *compiler, uint32_t file, Text *out) {
    const Nest *nest = nest_read(compiler, &compiler->arena, file);
    if (!nest) return false;
    nest_check(nest);
    nest_print(nest, out);
    return true;
}

static const OwnForm own_forms[] = {
    {"ir", "step ", print_ir}, {"plan", "step ", print_plan}, {"nest", "nest ", print_nest}};

static const char *read_part(Compiler *compiler, const OwnForm *form, const char *text,
                             size_t size) {
    Text out = text_open(&compiler->arena);
    if (!form->print_again(compiler, source_add(compiler, form->name, text, size), &out)) {
        diagnostics_render(compiler, &out, false);
        return say(form->name, out.data);
    }
    if (out.size != size || memcmp(out.data, text, size) != 0)
        return say(form->name, "what is read back prints another text");
    return NULL;
}

/* Where the next part begins, or the end of the text. */
static const char *next_part(const char *text, const char *opening) {
    for (const char *line = text; (line = strchr(line, '\n')) != NULL;)
        if (strncmp(++line, opening, strlen(opening)) == 0) return line;
    return text + strlen(text);
}

static const char *reads_back(const OwnForm *form, const char *text) {
    const char *volatile wrong = NULL, *volatile at = text;
    static Compiler compiler; /* static: its value is needed after longjmp */
    while (*at && !wrong) {
        const char *end = next_part(at, form->opening);
        compiler = (Compiler){0};
        arena_open(&compiler.arena, &compiler);
        if (setjmp(compiler.unwind) == 0)
            wrong = read_part(&compiler, form, at, (size_t)(end - at));
        else
            wrong = say(form->name, compiler.failure_message);
        arena_close(&compiler.arena);
        at = next_part(at, form->opening);
    }
    return wrong;
}

/* ---- forms and reports of a step ---- */

/* Steps of imported files are not checked, and may be refused. */
static bool fits(ls_status status, bool checked) {
    return status == LS_OK ||
           (!checked && (status == LS_ERROR_UNSUPPORTED || status == LS_ERROR_PROGRAM));
}

static const char *check_forms(ls_compilation *compilation, size_t step, bool checked) {
    static const char *const forms[] = {"ir", "plan", "nest", "c", "cuda", "hip", "opencl"};
    for (size_t i = 0; i < COUNT(forms); i++) {
        const char *data = NULL;
        size_t size = 0;
        const ls_status status = ls_compilation_emit(compilation, step, forms[i], &data, &size);
        if (!fits(status, checked)) return say(forms[i], ls_compilation_message(compilation));
        if (status != LS_OK) continue;
        if (!data || strlen(data) != size) return say(forms[i], "no text");
        const char *wrong = i < COUNT(own_forms) ? reads_back(&own_forms[i], data) : NULL;
        if (wrong) return wrong;
    }
    return NULL;
}

/* One of the reports, as they take the longest: `turn` says which. */
static const char *check_report(ls_compilation *compilation, size_t step, bool checked,
                                size_t turn) {
    static const char *const names[] = {"explain", "explain, JSON", "explain, DOT",
                                        "explain, schedules"};
    static const char *const targets[] = {"sm_90", "gfx90a", "cpu"};
    const ls_report report = (ls_report)(turn % COUNT(names));
    const ls_explain_options options = {.report = report,
                                        .targets = &targets[turn % COUNT(targets)],
                                        .target_count = 1,
                                        .plan_only = 1};
    const char *text = NULL;
    const ls_status status = ls_compilation_explain(compilation, step, &options, &text);
    if (!fits(status, checked)) return say(names[report], ls_compilation_message(compilation));
    if (status != LS_OK) return NULL;
    if (!text || !*text) return say(names[report], "no text");
    if (report != LS_REPORT_JSON) return NULL;
    JsonReader json = json_reader(text, strlen(text));
    return json_skip(&json) && json_end(&json) ? NULL : say(names[report], "no JSON");
}

/* ---- what `check` says ---- */

/* The codes of all that is said, in order; malloc'ed. */
static char *codes_of(const ls_compilation *compilation) {
    size_t size = 1;
    const size_t count = ls_compilation_diagnostic_count(compilation);
    for (size_t i = 0; i < count; i++)
        size += strlen(ls_compilation_diagnostic(compilation, i)->code) + 1;
    char *codes = calloc(1, size);
    for (size_t i = 0; codes && i < count; i++) {
        strcat(codes, ls_compilation_diagnostic(compilation, i)->code);
        strcat(codes, " ");
    }
    return codes;
}

/* `check` on a text. *codes is the caller's. */
static ls_status run_check(const char *text, size_t size, ls_compilation **compilation,
                           char **codes) {
    ls_status status = ls_compile_text("input.step", text, size, NULL, compilation);
    if (status == LS_OK) status = ls_compilation_check(*compilation);
    *codes = *compilation ? codes_of(*compilation) : NULL;
    return status;
}

/* What `check` says of a text it says of its layout, whose lines are others. */
static const char *check_kept(const char *text, size_t size, ls_status status, const char *codes) {
    ls_compilation *again = NULL;
    char *layout = NULL, *codes_again = NULL;
    const char *wrong = NULL;
    const ls_status formatted = ls_format_text("input.step", text, size, &layout);
    if (formatted == LS_OK) {
        const ls_status kept = run_check(layout, strlen(layout), &again, &codes_again);
        if (kept != status || !codes || !codes_again || strcmp(codes, codes_again) != 0)
            wrong = say("check says something else of the layout",
                        codes_again ? codes_again : ls_status_name(kept));
    } else if (formatted != LS_ERROR_PROGRAM) {
        wrong = say("fmt", ls_status_name(formatted));
    } else if (status == LS_OK) {
        wrong = say("fmt", "refuses what check lets through");
    }
    free(codes_again);
    ls_text_free(layout);
    ls_compilation_destroy(again);
    return wrong;
}

enum { IMPORTED = 2 }; /* steps of other files that are looked at: a file of the library has many */

const char *emission_check(const char *text, size_t size) {
    ls_compilation *compilation = NULL;
    char *codes = NULL;
    const char *wrong = NULL;
    const ls_status status = run_check(text, size, &compilation, &codes);
    if (status != LS_OK && status != LS_ERROR_PROGRAM)
        wrong = say("check", compilation ? ls_compilation_message(compilation) : "no memory");
    if (!wrong) wrong = check_kept(text, size, status, codes);
    const size_t own = status == LS_OK ? ls_compilation_own_step_count(compilation) : 0;
    size_t steps = status == LS_OK ? ls_compilation_step_count(compilation) : 0;
    if (steps > own + IMPORTED) steps = own + IMPORTED;
    for (size_t s = 0; s < steps && !wrong; s++) {
        wrong = check_forms(compilation, s, s < own);
        if (!wrong) wrong = check_report(compilation, s, s < own, s + size);
    }
    free(codes);
    ls_compilation_destroy(compilation);
    return wrong;
}
