/* graph.c: launches recorded once and replayed with one call. */
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

ls_status ls_graph_begin(ls_context *context) {
    if (!context) return error_set(NULL, LS_ERROR_ARGUMENT, "ls_graph_begin: context is NULL");
    if (context->capture)
        return error_set(
            &context->error, LS_ERROR_STATE,
            "ls_graph_begin: a graph is being captured already; call ls_graph_end first");
    ls_status status = context_not_capturing(context, "ls_graph_begin");
    if (status != LS_OK) return status;
    ls_graph *graph = calloc(1, sizeof *graph);
    if (!graph) return error_memory(&context->error, "ls_graph_begin");
    graph->context = context;
    graph->errors_before = context->error.count;
    status = context->driver->capture_begin(context->device);
    if (status != LS_OK) {
        free(graph);
        return status;
    }
    context->capture = graph;
    return LS_OK;
}

/* A launch inside the capture: the graph keeps the step. */
ls_status graph_add_step(ls_graph *graph, ls_step *step) {
    for (size_t i = 0; i < graph->step_count; i++)
        if (graph->steps[i] == step) return LS_OK;
    if (graph->step_count == graph->step_capacity) {
        size_t capacity = graph->step_capacity ? graph->step_capacity * 2 : 8;
        ls_step **grown = realloc(graph->steps, capacity * sizeof(ls_step *));
        if (!grown) return error_memory(&graph->context->error, "ls_step_launch");
        graph->steps = grown;
        graph->step_capacity = capacity;
    }
    step->references++;
    graph->steps[graph->step_count++] = step;
    return LS_OK;
}

ls_status ls_graph_end(ls_context *context, ls_graph **graph) {
    if (graph) *graph = NULL;
    if (!context) return error_set(NULL, LS_ERROR_ARGUMENT, "ls_graph_end: context is NULL");
    ls_graph *made = context->capture;
    if (!made)
        return error_set(&context->error, LS_ERROR_STATE,
                         "ls_graph_end: no graph is being captured; call ls_graph_begin first");
    bool spoilt = context->error.count != made->errors_before;
    bool wanted = graph && !spoilt;
    context->capture = NULL;
    ls_status status = context->driver->capture_end(context->device, wanted ? &made->handle : NULL);
    if (!graph) {
        status = error_set(&context->error, LS_ERROR_ARGUMENT, "ls_graph_end: graph is NULL");
    } else if (spoilt) {
        char cause[1024] = "";
        memcpy(cause, context->error.text, strnlen(context->error.text, sizeof cause - 1));
        status =
            error_set(&context->error, LS_ERROR_STATE,
                      "ls_graph_end: no graph was made, because a call during the capture failed: "
                      "%s",
                      cause);
    }
    if (status != LS_OK) {
        ls_graph_destroy(made);
        return status;
    }
    *graph = made;
    return LS_OK;
}

ls_status ls_graph_launch(ls_graph *graph) {
    if (!graph) return error_set(NULL, LS_ERROR_ARGUMENT, "ls_graph_launch: graph is NULL");
    ls_context *context = graph->context;
    ls_status status = context_not_capturing(context, "ls_graph_launch");
    if (status != LS_OK) return status;
    const ProfileSpan span = profile_open(context);
    status = context->driver->graph_launch(context->device, graph->handle);
    profile_close(context, span, graph, status);
    return status;
}

void ls_graph_destroy(ls_graph *graph) {
    if (!graph) return;
    if (graph->handle) graph->context->driver->graph_destroy(graph->context->device, graph->handle);
    for (size_t i = 0; i < graph->step_count; i++) step_release(graph->steps[i]);
    free(graph->steps);
    free(graph);
}
