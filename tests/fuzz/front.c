/* front.c: one input through the front end.
 *
 * Whatever the bytes: no crash, no broken invariant; a module without errors or errors without a
 * module; diagnostics that lie in the text and print; IR that ir_check accepts; a layout that is
 * its own layout and means the same; an index for editors whose places lie in the text. */
#include "front.h"

#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"
#include "lower/lower.h"

static char problem[700];

static void reset(Compiler *compiler) {
    compiler->diagnostics = NULL;
    compiler->diagnostic_count = compiler->diagnostic_capacity = compiler->error_count = 0;
}

static const char *check_diagnostics(Compiler *compiler) {
    Text text = text_open(&compiler->arena);
    diagnostics_render(compiler, &text, false);
    diagnostics_render(compiler, &text, true);
    for (size_t i = 0; i < compiler->diagnostic_count; i++) {
        const ls_diagnostic *d = &compiler->diagnostics[i];
        bool backwards =
            d->end_line < d->line || (d->end_line == d->line && d->end_column < d->column);
        if (backwards || !d->message[0] || !d->code[0])
            return "a diagnostic without place or words";
        text_json(&text, d->message);
    }
    return NULL;
}

static const char *check_module(Compiler *compiler, const char *text, size_t size, size_t *errors) {
    Module *module = module_read(compiler, "input.step", text, size);
    *errors = compiler->error_count;
    if ((module == NULL) != (*errors != 0)) return "neither a module nor errors, or both";
    const char *wrong = check_diagnostics(compiler);
    for (size_t s = 0; module && s < module_step_count(module); s++) {
        Sequence *sequence = NULL;
        if (!module_need_step(module, s)) continue;
        Function *f = lower_step(compiler, module, s, &sequence);
        Text printed = text_open(&compiler->arena);
        for (size_t i = 0; f && sequence && i < sequence->part_count; i++) {
            ir_check(sequence->parts[i].function, STAGE_LOWERED);
            ir_print(sequence->parts[i].function, &printed);
        }
        if (!f || sequence) continue;
        ir_check(f, STAGE_LOWERED);
        ir_print(f, &printed);
    }
    reset(compiler);
    return wrong;
}

static const char *check_layout(Compiler *compiler, const char *text, size_t size, size_t errors) {
    char *once = format_source(compiler, "input.step", text, size);
    reset(compiler);
    if (!once) return errors ? NULL : "a good text has no layout";
    char *twice = format_source(compiler, "input.step", once, strlen(once));
    if (!twice) return "the layout does not parse";
    if (strcmp(once, twice) != 0) return "the layout of the layout differs";
    size_t errors_after;
    const char *wrong = check_module(compiler, once, strlen(once), &errors_after);
    if (!wrong && errors_after != errors) wrong = "the layout means something else";
    return wrong;
}

static bool lies_in(const ls_index *index, ls_place place) {
    return place.file < index->file_count && place.begin <= place.end &&
           place.end <= index->files[place.file].size;
}

/* Places of the index lie in the text and are in order; all that it names can be described. */
static const char *check_places(const char *text, size_t size) {
    const ls_compile_options options = {.index = 1};
    ls_compilation *compilation = NULL;
    const ls_index *index = NULL;
    const char *wrong = NULL;
    ls_description description;
    ls_place at;
    ls_compile_text("input.step", text, size, &options, &compilation);
    if (compilation && ls_compilation_index(compilation, &index) != LS_OK)
        wrong = "a text has no index";
    for (size_t i = 0; index && i < index->mention_count && !wrong; i++) {
        const ls_mention *m = &index->mentions[i];
        const ls_mention *before = i ? &index->mentions[i - 1] : NULL;
        if (!lies_in(index, m->at) || m->definition >= index->definition_count)
            wrong = "a mention lies outside of its text";
        else if (before && before->at.file == m->at.file && before->at.begin > m->at.begin)
            wrong = "mentions are not in order";
    }
    for (size_t i = 0; index && i < index->definition_count && !wrong; i++) {
        const ls_definition *d = &index->definitions[i];
        const bool builtin = d->kind == LS_NAME_BUILTIN;
        if (!builtin && (!lies_in(index, d->at) || !lies_in(index, d->whole)))
            wrong = "a definition lies outside of its text";
        else if (ls_compilation_describe(compilation, i, 1, &description) != LS_OK)
            wrong = "a definition cannot be described";
    }
    for (uint32_t offset = 0; index && offset <= size && !wrong; offset += 1 + (uint32_t)size / 50)
        if (ls_compilation_value_at(compilation, 1, offset, &at, &description) != LS_OK ||
            !lies_in(index, at))
            wrong = "an expression lies outside of its text";
    ls_compilation_destroy(compilation);
    return wrong;
}

const char *front_check(const uint8_t *data, size_t size) {
    const ls_compile_options options = {.math = LS_MATH_SOURCE};
    Compiler compiler = {.options = &options};
    const char *volatile wrong = NULL;
    arena_open(&compiler.arena, &compiler);
    if (setjmp(compiler.unwind) == 0) {
        size_t errors;
        const char *first = check_module(&compiler, (const char *)data, size, &errors);
        wrong = first ? first : check_layout(&compiler, (const char *)data, size, errors);
    } else {
        snprintf(problem, sizeof problem, "unwound: %s", compiler.failure_message);
        wrong = problem;
    }
    arena_close(&compiler.arena);
    if (!wrong) wrong = check_places((const char *)data, size);
    return wrong ? wrong : emission_check((const char *)data, size);
}
