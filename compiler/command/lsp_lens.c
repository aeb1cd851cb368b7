/* lsp_lens.c: what is shown between the lines (the inferred types of `let`s, a line above each
 * step), and the one layout. */
#include "files.h"
#include "command.h"
#include "advise.h"
#include "lsp.h"

#include <stdlib.h>
#include <string.h>

/* ---- formatting ---- */

/* One edit of the whole text, or none where it has the layout already. */
void answer_formatting(Server *server, const JsonValue *parameters, Reply *reply) {
    Document *document = document_find(server, json_text_at(parameters, "textDocument.uri"));
    char *formatted = NULL;
    if (!document) {
        reply_error(reply, INVALID_PARAMETERS, "the document is not open");
        return;
    }
    const Buffer *text = &document->text;
    const ls_status status = ls_format_text(document->path, text->data, text->size, &formatted);
    if (status != LS_OK) {
        reply_error(reply, REQUEST_FAILED, "%s",
                    status == LS_ERROR_PROGRAM ? "a text with errors has no layout yet"
                                               : ls_status_name(status));
    } else {
        json_open(&reply->result, NULL, '[');
        if (strlen(formatted) != text->size || memcmp(formatted, text->data, text->size) != 0) {
            json_open(&reply->result, NULL, '{');
            write_positions(&reply->result, "range", (Position){0, 0},
                            lines_position(&document->lines, text->size, server->encoding));
            json_string(&reply->result, "newText", formatted);
            json_close(&reply->result, '}');
        }
        json_close(&reply->result, ']');
    }
    ls_text_free(formatted);
}

/* ---- inferred types ---- */

static void write_hint(JsonWriter *json, const Position position, const char *type) {
    Buffer label = {0};
    buffer_printf(&label, ": %s", type);
    json_open(json, NULL, '{');
    json_open(json, "position", '{');
    json_integer(json, "line", position.line);
    json_integer(json, "character", position.character);
    json_close(json, '}');
    json_string(json, "label", label.data);
    json_integer(json, "kind", 1); /* a type */
    json_close(json, '}');
    buffer_free(&label);
}

static double line_at(const JsonValue *parameters, const char *path, double otherwise) {
    double line;
    return json_number_at(parameters, path, &line) ? line : otherwise;
}

void answer_inlay(Server *server, const JsonValue *parameters, Reply *reply) {
    Document *document = document_find(server, json_text_at(parameters, "textDocument.uri"));
    if (!document || !document_analyse(server, document)) return;
    const ls_index *index = document->index;
    const double first = line_at(parameters, "range.start.line", 0);
    const double last = line_at(parameters, "range.end.line", UINT32_MAX);
    json_open(&reply->result, NULL, '[');
    for (size_t i = 0; i < index->definition_count; i++) {
        const ls_definition *d = &index->definitions[i];
        ls_description description;
        if (d->at.file != 1 || (d->kind != LS_NAME_LET && d->kind != LS_NAME_RUNNING)) continue;
        const Position end = lines_position(&document->lines, d->at.end, server->encoding);
        if (end.line < first || end.line > last) continue;
        ls_compilation_describe(document->compilation, i, 0, &description);
        if (description.type && !description.value)
            write_hint(&reply->result, end, description.type);
    }
    json_close(&reply->result, ']');
}

/* ---- a line above each step ---- */

void answer_lens(Server *server, const JsonValue *parameters, Reply *reply) {
    Document *document = document_find(server, json_text_at(parameters, "textDocument.uri"));
    if (!document || !document_analyse(server, document)) return;
    const ls_index *index = document->index;
    FileLines files = file_lines_open(server, index);
    json_open(&reply->result, NULL, '[');
    for (size_t i = 0; i < index->definition_count; i++) {
        const ls_definition *d = &index->definitions[i];
        if (d->at.file != 1 || d->kind != LS_NAME_STEP) continue;
        json_open(&reply->result, NULL, '{');
        write_range(&reply->result, "range", &files, d->at);
        json_open(&reply->result, "data", '{');
        json_string(&reply->result, "uri", document->uri);
        json_string(&reply->result, "step", d->name);
        json_close(&reply->result, '}');
        json_close(&reply->result, '}');
    }
    json_close(&reply->result, ']');
    file_lines_close(&files);
}

/* What this machine can do, measured when a time is first asked for, as `advise` measures it, but
 * not at the largest size, since the editor waits; false, with server->unmeasured: it cannot be. */
static bool measure_machine(Server *server) {
    Failure failure = {0};
    ls_context *context;
    if (server->measured.machine.rate_count) return true;
    if (server->unmeasured) return false;
    ls_status status = ls_context_create("cpu", NULL, &context);
    const bool good = status == LS_OK ? machine_measure(context, server->peak, RATES_MAX - 1,
                                                        &server->measured, &failure)
                                      : fail_status(&failure, NULL, status);
    if (status == LS_OK) ls_context_destroy(context);
    if (!good) {
        server->measured.machine.rate_count = 0;
        server->unmeasured = copy_text(failure.text, strcspn(failure.text, "\n"));
    }
    return good;
}

/* The name of what binds most of a step's time. */
static const char *limit_of(const ls_advice *advice) {
    const ls_advice_kernel *most = advice->kernels;
    for (size_t i = 1; i < advice->kernel_count; i++)
        if (advice->kernels[i].time_s > most->time_s) most = &advice->kernels[i];
    return advice->kernel_count ? most->limit : "launch";
}

/* The predicted time, by the model of `advise`, and what binds it. */
static void describe_time(Server *server, ls_compilation *c, size_t step, const StringList *sizes,
                          double moved, Buffer *title) {
    char time[32], size[32];
    ls_advice advice;
    if (!measure_machine(server)) {
        buffer_printf(title, " · no time: %s", server->unmeasured);
        return;
    }
    const ls_advise_options options = {.target = "cpu",
                                       .sizes = sizes->items,
                                       .size_count = sizes->count,
                                       .plan_only = 1,
                                       .machine = server->measured.machine};
    if (ls_compilation_advise(c, step, &options, &advice) != LS_OK) {
        buffer_printf(title, " · no time: %s", ls_compilation_message(c));
        return;
    }
    time_describe(advice.time_s, time, sizeof time);
    size_describe((uint64_t)moved, size, sizeof size);
    buffer_printf(title, " · %s (%s) for %s at %.3g GB/s", time, limit_of(&advice), size,
                  advice.memory_gb_s);
}

/* The length of an axis in a report's "sizes"; of a list the sum over its tensors. */
static double axis_length(const JsonValue *sizes, const char *name, bool *list) {
    const JsonValue *size = json_member(sizes, name);
    double length = 0, one;
    *list = size && size->kind == '[';
    for (const JsonValue *s = *list ? size->first : NULL; s; s = s->next)
        if (json_number_at(s, "", &one)) length += one;
    if (size && !*list && !json_number_at(size, "", &length)) length = 1;
    return length;
}

/* How many elements the largest array of a step has at these sizes. */
static double most_elements(const ls_image *image, const JsonValue *sizes, const char **axes,
                            Buffer *names) {
    double most = 1;
    for (size_t p = 0; p < image->parameter_count; p++) {
        const ls_image_parameter *parameter = &image->parameters[p];
        double elements = 1, tensors = 1;
        bool any_list = false;
        for (uint32_t a = 0; a < parameter->rank; a++) {
            bool list;
            const size_t axis = parameter->axes[a];
            const double length = axis_length(sizes, image->axes[axis].name, &list);
            if (sizes_counts_tensors(image, axis))
                tensors *= length;
            else
                elements *= length;
            any_list |= list;
        }
        if (!any_list) elements *= tensors;
        if (elements <= most) continue;
        most = elements;
        buffer_free(names);
        *names = (Buffer){0};
        for (uint32_t a = 0; a < parameter->rank; a++)
            buffer_printf(names, "%s%s", a ? " x " : "", image->axes[parameter->axes[a]].name);
        *axes = names->data;
    }
    return most;
}

/* Whether a size names this axis. */
static bool names_axis(const char *size, const char *axis) {
    const size_t length = strcspn(size, "=");
    return strlen(axis) == length && memcmp(axis, size, length) == 0;
}

/* Gives an axis the length that a size says; of one whose length is known otherwise nothing. */
static void use_size(Sizes *known, size_t axis, const char *size, StringList *used) {
    StringList one = {0};
    Failure failure;
    list_add(&one, size);
    if (sizes_at(known, axis, 0) < 0 && sizes_option(known, &one, &failure))
        list_add(used, copy_text(size, strlen(size)));
    free(one.items);
}

/* Those sizes that name an axis of the step; where there are any, other axes count as 1024. The
 * caller frees the words. */
static StringList sizes_of(const Server *server, const ls_image *image) {
    StringList used = {0};
    Sizes known;
    sizes_open(&known, image);
    for (size_t i = 0; i < server->size_count; i++)
        for (size_t axis = 0; axis < image->axis_count; axis++)
            if (names_axis(server->sizes[i], image->axes[axis].name))
                use_size(&known, axis, server->sizes[i], &used);
    for (size_t axis = 0; used.count && axis < image->axis_count; axis++) {
        Buffer size = {0};
        buffer_printf(&size, "%s=1024", image->axes[axis].name);
        use_size(&known, axis, size.data, &used);
        buffer_free(&size);
    }
    sizes_close(&known);
    return used;
}

static void describe_step(Server *server, ls_compilation *c, size_t number, const ls_image *image,
                          const StringList *given, const JsonValue *step, Buffer *title) {
    double launches = 0, moved = 0;
    const char *axes = NULL;
    Buffer names = {0};
    const JsonValue *sizes = json_member(step, "sizes");
    json_number_at(step, "launches", &launches);
    json_number_at(step, "bytes_moved", &moved);
    const double elements = most_elements(image, sizes, &axes, &names);
    buffer_printf(title, "%.0f launch%s", launches, launches > 1 || launches < 1 ? "es" : "");
    if (axes)
        buffer_printf(title, " · %.3g bytes per element of %s", moved / elements, axes);
    else
        buffer_printf(title, " · %.0f bytes", moved);
    describe_time(server, c, number, given, moved, title);
    for (const JsonValue *s = sizes ? sizes->first : NULL; s; s = s->next)
        buffer_printf(title, "%s%s=%s", s == sizes->first ? ", " : " ", s->key,
                      s->kind ? "..." : s->text);
    buffer_free(&names);
}

/* What the plan of a step says; false: it has none. */
static bool explain_step(Server *server, Document *document, const char *name, Buffer *title) {
    ls_compilation *c = document->compilation;
    const ls_image *image;
    const char *text, *problem;
    size_t step = 0;
    bool good = false;
    while (step < ls_compilation_own_step_count(c) &&
           strcmp(ls_compilation_step_name(c, step), name) != 0)
        step++;
    if (step >= ls_compilation_own_step_count(c) ||
        ls_compilation_image(c, step, "cpu", &image) != LS_OK)
        return false;
    StringList sizes = sizes_of(server, image);
    const char *targets[] = {"cpu"};
    ls_explain_options options = {.report = LS_REPORT_JSON,
                                  .sizes = sizes.items,
                                  .size_count = sizes.count,
                                  .targets = targets,
                                  .target_count = 1,
                                  .plan_only = 1};
    if (ls_compilation_explain(c, step, &options, &text) == LS_OK) {
        JsonValue *tree = json_tree(text, strlen(text), &problem);
        const JsonValue *steps = json_member(tree, "steps");
        good = steps && steps->first;
        if (good) describe_step(server, c, step, image, &sizes, steps->first, title);
        json_tree_free(tree);
    }
    for (size_t i = 0; i < sizes.count; i++) free((char *)(uintptr_t)sizes.items[i]);
    free(sizes.items);
    return good;
}

void answer_lens_resolve(Server *server, const JsonValue *parameters, Reply *reply) {
    Document *document = document_find(server, json_text_at(parameters, "data.uri"));
    const char *step = json_text_at(parameters, "data.step");
    Buffer title = {0};
    if (!document || !step || !json_member(parameters, "range")) {
        reply_error(reply, INVALID_PARAMETERS, "this is no code lens of a step");
        return;
    }
    if (!document_analyse(server, document) || !explain_step(server, document, step, &title))
        buffer_puts(&title, "no plan: the file has errors");
    json_open(&reply->result, NULL, '{');
    json_write(&reply->result, "range", json_member(parameters, "range"));
    json_write(&reply->result, "data", json_member(parameters, "data"));
    json_open(&reply->result, "command", '{');
    json_string(&reply->result, "title", title.data);
    json_string(&reply->result, "command", "");
    json_close(&reply->result, '}');
    json_close(&reply->result, '}');
    buffer_free(&title);
}
