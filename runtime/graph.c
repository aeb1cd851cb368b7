/* graph.c: launches recorded once and replayed with one call.
 *
 * A graph is a recording of launches. Where the driver has graphs of its own the stream is captured
 * meanwhile, which takes in the trainer's own work too, and the recording serves updates. */
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

ls_status ls_graph_begin(ls_context *context) {
    if (!context) return error_set(NULL, LS_ERROR_ARGUMENT, "ls_graph_begin: context is NULL");
    if (context->capture)
        return error_set(
            &context->error, LS_ERROR_STATE,
            "ls_graph_begin: a graph is being captured already; call ls_graph_end first");
    const Driver *driver = context->driver;
    ls_status status = context_not_capturing(context, "ls_graph_begin");
    if (status == LS_OK) status = comm_join(context, false);
    if (status != LS_OK) return status;
    ls_graph *graph = calloc(1, sizeof *graph);
    if (!graph) return error_memory(&context->error, "ls_graph_begin");
    graph->context = context;
    graph->native =
        driver->capture_begin &&
        !device_lacks(context->device, CAN_CAPTURE,
                      "a graph's launches are recorded and launched one by one, and the program's "
                      "own work on the stream is not recorded");
    if (graph->native) status = driver->capture_begin(context->device);
    if (status != LS_OK) {
        free(graph);
        return status;
    }
    error_watch(&context->error);
    error_watch(NULL);
    context->capture = graph;
    return LS_OK;
}

bool graph_keep(ls_graph *graph, ls_step *step) {
    for (size_t i = 0; i < graph->step_count; i++)
        if (graph->steps[i].step == step) return true;
    if (!array_grow(&graph->steps, &graph->step_capacity, graph->step_count + 1,
                    sizeof *graph->steps))
        return false;
    step->references++;
    step->graphs++;
    graph->steps[graph->step_count++] = (struct Kept){step, step->retirements};
    return true;
}

ls_status graph_record(ls_graph *graph, const char *call, ls_step *step, const Launch *launches,
                       size_t count) {
    ls_context *context = graph->context;
    Recording *recording = &graph->recording;
    size_t first = recording->launch_count;
    if ((step && !graph_keep(graph, step)) || !recording_add(recording, step, launches, count))
        return error_memory(&context->error, call);
    if (step) graph->launches++;
    if (!graph->native) return LS_OK;
    return context->driver->capture_launch(context->device, &recording->launches[first], count,
                                           &recording->nodes[first]);
}

/* Ends the capture, with or without a graph to show for it. */
static ls_status end_capture(ls_graph *graph, bool wanted) {
    const Driver *driver = graph->context->driver;
    size_t nodes = graph->recording.launch_count;
    ls_status status = LS_OK;
    if (graph->native)
        status =
            driver->capture_end(graph->context->device, wanted ? &graph->handle : NULL, &nodes);
    graph->statistics.native = graph->native || !driver->capture_begin;
    graph->statistics.launches = graph->recording.launch_count;
    graph->statistics.nodes = nodes;
    return status;
}

ls_status ls_graph_end(ls_context *context, ls_graph **graph) {
    if (graph) *graph = NULL;
    if (!context) return error_set(NULL, LS_ERROR_ARGUMENT, "ls_graph_end: context is NULL");
    ls_graph *made = context->capture;
    if (!made)
        return error_set(&context->error, LS_ERROR_STATE,
                         "ls_graph_end: no graph is being captured; call ls_graph_begin first");
    comm_join(context, true); /* a failure is watched */
    const char *own = error_watched(&context->error), *handless = error_watched(NULL);
    const char *cause = own ? own : handless; /* the context's first failure, or a NULL handle */
    context->capture = NULL;
    ls_status status = end_capture(made, graph && !cause);
    if (!graph)
        status = error_set(&context->error, LS_ERROR_ARGUMENT, "ls_graph_end: graph is NULL");
    else if (cause)
        status =
            error_set(&context->error, LS_ERROR_STATE,
                      "ls_graph_end: no graph was made, because a call during the capture failed: "
                      "%s",
                      cause);
    if (status != LS_OK) {
        ls_graph_destroy(made);
        return status;
    }
    *graph = made;
    return LS_OK;
}

/* ---- replays ---- */

/* What goes into a graph of the program's own may be launched from there at any time. */
static void pin_steps(ls_graph *graph) {
    for (size_t i = 0; i < graph->step_count; i++) {
        ls_step *step = graph->steps[i].step;
        step->pinned = true;
        step_set_captured(step);
    }
}

static Moved moved_in(const Recording *recording, uint64_t times) {
    Moved all = {0, 0};
    for (size_t i = 0; i < recording->launch_count; i++) {
        all.read += times * recording->moved[i].read;
        all.written += times * recording->moved[i].written;
    }
    return all;
}

/* Whether it can be replayed, and whether the program around us captures the stream. */
static ls_status check_replay(ls_graph *graph, const char *call, bool *captured) {
    *captured = false;
    if (!graph) return error_set(NULL, LS_ERROR_ARGUMENT, "%s: graph is NULL", call);
    ls_context *context = graph->context;
    if (context->capture) return context_not_capturing(context, call);
    if (graph->broken)
        return error_set(&context->error, LS_ERROR_STATE,
                         "%s: the last ls_graph_update failed half way; call it again, or record "
                         "the graph again",
                         call);
    return context_captured(context, captured);
}

static ls_status replay(ls_graph *graph, const char *call, uint64_t times) {
    bool captured, looped = false;
    ls_status status = check_replay(graph, call, &captured);
    if (status != LS_OK || times == 0) return status;
    ls_context *context = graph->context;
    const Recording *recording = &graph->recording;
    const Driver *driver = context->driver;
    if (graph->exchanges) status = comm_join(context, captured);
    if (status != LS_OK) return status;
    if (captured) pin_steps(graph);
    if (!graph->native && !graph->settled) graph_count_replays(graph, times);
    graph->statistics.replays += times;
    copy_add(&context->copies, &graph->copies, times);
    if (!captured && profile_wants_replay(context, graph)) {
        status = profile_replay(graph, times);
        return status == LS_OK ? comm_failure(context) : status;
    }
    const ProfileSpan span = profile_open(context, NULL);
    /* A capture of the program's takes launches from any driver, graphs perhaps. */
    const bool ours = graph->statistics.nodes == recording->launch_count;
    if (!graph->native || (captured && ours))
        status =
            driver->repeat(context->device, recording->launches, recording->launch_count, times);
    else if (!captured)
        status = driver->graph_launch(context->device, graph->handle, times, &looped);
    else
        for (uint64_t i = 0; i < times && status == LS_OK; i++)
            status = driver->graph_launch(context->device, graph->handle, 1, &looped);
    if (looped) graph->statistics.loops = 1;
    if (status == LS_OK) status = comm_failure(context);
    if (status == LS_OK && span.profile) {
        char name[200];
        profile_name_graph(graph, times, name, sizeof name);
        profile_close(context, span, name, PROFILE_GRAPH, moved_in(recording, times));
    }
    return status;
}

ls_status ls_graph_launch(ls_graph *graph) {
    return replay(graph, "ls_graph_launch", 1);
}

ls_status ls_graph_repeat(ls_graph *graph, uint64_t times) {
    return replay(graph, "ls_graph_repeat", times);
}

/* Where the host looks at the byte ahead of each replay. */
static ls_status replay_until(ls_graph *graph, const char *call, const void *stop, uint64_t most,
                              uint64_t *times) {
    ls_context *context = graph->context;
    unsigned char set = 0;
    ls_status status = LS_OK;
    while (status == LS_OK && *times < most) {
        status = context->driver->copy_out(context->device, &set, stop, sizeof set);
        if (status == LS_OK) status = context->driver->synchronize(context->device);
        if (status != LS_OK || set) break;
        status = replay(graph, call, 1);
        if (status == LS_OK) ++*times;
    }
    return status;
}

/* By the device, or by the workers. `done` where that could be done, and nothing has run else. */
static ls_status loop_until(ls_graph *graph, const void *stop, uint64_t most, uint64_t *times,
                            bool *done) {
    ls_context *context = graph->context;
    const Driver *driver = context->driver;
    const Recording *recording = &graph->recording;
    ls_status status = LS_OK;
    *done = false;
    if (profile_wants_replay(context, graph)) return LS_OK;
    if (graph->native) {
        status = driver->graph_until(context->device, graph->handle, stop, most, times, done);
        if (*done) graph->statistics.loops = 1;
    } else if (driver->repeat_until) {
        *done = true;
        status = driver->repeat_until(context->device, recording->launches, recording->launch_count,
                                      stop, most, times);
        if (!graph->settled && *times) graph_count_replays(graph, *times);
    }
    graph->statistics.replays += *times;
    copy_add(&context->copies, &graph->copies, *times);
    return status;
}

ls_status ls_graph_repeat_until(ls_graph *graph, const void *stop, uint64_t most, uint64_t *times) {
    static const char call[] = "ls_graph_repeat_until";
    uint64_t counted = 0;
    bool captured, done = false;
    if (times) *times = 0;
    ls_status status = check_replay(graph, call, &captured);
    if (status != LS_OK) return status;
    ls_context *context = graph->context;
    if (!stop) return error_set(&context->error, LS_ERROR_ARGUMENT, "%s: stop is NULL", call);
    if (captured) return context_not_capturing(context, call);
    if (graph->exchanges) status = comm_join(context, false);
    if (status == LS_OK) status = loop_until(graph, stop, most, &counted, &done);
    if (status == LS_OK && !done) status = replay_until(graph, call, stop, most, &counted);
    if (times) *times = counted;
    return status == LS_OK ? comm_failure(context) : status;
}

/* ---- updates ---- */

/* The graph no longer uses what the step has replaced. */
static void leave_retired(struct Kept *kept) {
    step_drop_retired(kept->step, kept->since);
    kept->since = kept->step->retirements;
}

static bool entry_unchanged(const Recording *recording, const Recorded *entry) {
    const ls_step *step = entry->step;
    if (!step) return true;
    if (!step_is_ready(step) || step->launch_count != entry->count) return false;
    for (size_t i = 0; i < entry->count; i++)
        if (!launch_equal(&recording->launches[entry->first + i], &step->launches[i])) return false;
    return true;
}

static bool unchanged(const ls_graph *graph) {
    const Recording *recording = &graph->recording;
    for (size_t i = 0; i < recording->entry_count; i++)
        if (!entry_unchanged(recording, &recording->entries[i])) return false;
    return !graph->broken;
}

/* The same launches for the bindings as they are now. */
static ls_status record_again(const ls_graph *graph, const char *call, Recording *fresh) {
    const Recording *recording = &graph->recording;
    for (size_t i = 0; i < recording->entry_count; i++) {
        const Recorded *entry = &recording->entries[i];
        ls_step *step = entry->step;
        ls_status status = step ? step_prepare(step, call) : LS_OK;
        if (status != LS_OK) return status;
        if (!recording_add(fresh, step, step ? step->launches : &recording->launches[entry->first],
                           step ? step->launch_count : entry->count))
            return error_memory(&graph->context->error, call);
        if (step) step_set_captured(step);
    }
    return LS_OK;
}

/* Whether each launch can take its node over; a node cannot become cooperative or cease to be. */
static bool same_form(const Recording *old, const Recording *fresh) {
    if (old->launch_count != fresh->launch_count) return false;
    for (size_t i = 0; i < old->entry_count; i++)
        if (old->entries[i].count != fresh->entries[i].count) return false;
    for (size_t i = 0; i < old->launch_count; i++)
        if (old->launches[i].together != fresh->launches[i].together) return false;
    return true;
}

static bool nodes_known(const Recording *recording) {
    for (size_t i = 0; i < recording->launch_count; i++)
        if (!recording->nodes[i] && !launch_is_fixed(&recording->launches[i])) return false;
    return true;
}

static ls_status set_nodes(ls_graph *graph, Recording *fresh) {
    ls_context *context = graph->context;
    const Recording *old = &graph->recording;
    const bool all = graph->broken;
    bool renew = false;
    ls_status status = LS_OK;
    graph->broken = true; /* until all is done */
    for (size_t i = 0; i < fresh->launch_count && status == LS_OK; i++) {
        fresh->nodes[i] = old->nodes[i];
        if (launch_is_fixed(&fresh->launches[i])) continue;
        if (!all && launch_equal(&old->launches[i], &fresh->launches[i])) continue;
        status = context->driver->graph_set(context->device, graph->handle, old->nodes[i],
                                            &fresh->launches[i], &renew);
    }
    if (status == LS_OK && renew) {
        status = context->driver->graph_renew(context->device, graph->handle);
        graph->statistics.reinstantiations++;
    }
    if (status == LS_OK) graph->broken = false;
    return status;
}

static ls_status capture_again(ls_graph *graph, const char *call, Recording *fresh) {
    ls_context *context = graph->context;
    const Driver *driver = context->driver;
    void *handle = NULL;
    size_t nodes;
    if (graph->statistics.nodes != graph->recording.launch_count)
        return error_set(&context->error, LS_ERROR_STATE,
                         "%s: the steps now take other kernels than those recorded, and the graph "
                         "holds work that is not Lockstep's; record it again",
                         call);
    ls_status status = driver->capture_begin(context->device);
    if (status != LS_OK) return status;
    status =
        driver->capture_launch(context->device, fresh->launches, fresh->launch_count, fresh->nodes);
    ls_status ended =
        driver->capture_end(context->device, status == LS_OK ? &handle : NULL, &nodes);
    if (status == LS_OK) status = ended;
    if (status == LS_OK) status = driver->synchronize(context->device); /* the old one may run */
    if (status != LS_OK) {
        if (handle) driver->graph_destroy(context->device, handle);
        return status;
    }
    driver->graph_destroy(context->device, graph->handle);
    graph->handle = handle;
    graph->broken = false;
    graph->statistics.nodes = nodes;
    graph->statistics.reinstantiations++;
    return LS_OK;
}

static uint64_t count_changed(const Recording *old, const Recording *fresh) {
    uint64_t changed = 0;
    if (old->launch_count != fresh->launch_count) return fresh->launch_count;
    for (size_t i = 0; i < fresh->launch_count; i++)
        changed += !launch_equal(&old->launches[i], &fresh->launches[i]);
    return changed;
}

ls_status ls_graph_update(ls_graph *graph) {
    static const char call[] = "ls_graph_update";
    if (!graph) return error_set(NULL, LS_ERROR_ARGUMENT, "%s: graph is NULL", call);
    ls_context *context = graph->context;
    ls_status status = context_not_capturing(context, call);
    if (status != LS_OK) return status;
    if (unchanged(graph)) {
        graph->statistics.updates++;
        return LS_OK;
    }
    Recording fresh = {0};
    status = record_again(graph, call, &fresh);
    if (status == LS_OK && graph->native) {
        bool set = !device_lacks(context->device, CAN_UPDATE, "graphs are captured again") &&
                   same_form(&graph->recording, &fresh) && nodes_known(&graph->recording);
        status = set ? set_nodes(graph, &fresh) : capture_again(graph, call, &fresh);
    }
    if (status != LS_OK) {
        recording_free(&fresh);
        return status;
    }
    graph->statistics.updates++;
    graph->statistics.updated += count_changed(&graph->recording, &fresh);
    graph->statistics.launches = fresh.launch_count;
    if (!graph->native) graph->statistics.nodes = fresh.launch_count;
    recording_free(&graph->recording);
    graph->recording = fresh;
    graph->settled = false;
    for (size_t i = 0; i < graph->step_count; i++) leave_retired(&graph->steps[i]);
    return LS_OK;
}

ls_status ls_graph_stats(const ls_graph *graph, ls_graph_statistics *statistics) {
    if (!graph || !statistics)
        return error_set(graph ? &graph->context->error : NULL, LS_ERROR_ARGUMENT,
                         "ls_graph_stats: %s is NULL", graph ? "statistics" : "graph");
    *statistics = graph->statistics;
    return LS_OK;
}

void ls_graph_destroy(ls_graph *graph) {
    if (!graph) return;
    if (graph->handle) {
        context_settle(graph->context);
        graph->context->driver->graph_destroy(graph->context->device, graph->handle);
    }
    for (size_t i = 0; i < graph->step_count; i++) {
        leave_retired(&graph->steps[i]);
        graph->steps[i].step->graphs--;
        step_release(graph->steps[i].step);
    }
    recording_free(&graph->recording);
    free(graph->steps);
    free(graph);
}
