/* routine.c: what is run again and again: tapes one after the other, one graph where there are
 * such. */
#include "charlm.h"

#include <stdlib.h>

void routine_add(Machine *machine, Routine *routine, const Tape *tape) {
    if (machine->failed) return;
    if (routine->count == routine->capacity) {
        const size_t larger = routine->capacity ? 2 * routine->capacity : 16;
        const Tape **grown = realloc(routine->tapes, larger * sizeof *grown);
        if (!grown) {
            machine->failed = !fail("out of host memory");
            return;
        }
        routine->tapes = grown;
        routine->capacity = larger;
    }
    routine->tapes[routine->count++] = tape;
}

static bool run_once(Machine *machine, const Routine *routine) {
    for (size_t i = 0; i < routine->count && !machine->failed; i++)
        tape_run(machine, routine->tapes[i]);
    return !machine->failed;
}

void routine_open(Machine *machine, Routine *routine) {
    if (machine->failed || !machine->graphs) return;
    if (!machine_check(machine, ls_graph_begin(machine->context), "beginning a graph")) return;
    run_once(machine, routine);
    machine_check(machine, ls_graph_end(machine->context, &routine->graph), "making a graph");
}

bool routine_run(Machine *machine, const Routine *routine, int64_t repeats) {
    if (machine->failed) return false;
    if (routine->graph)
        return machine_check(machine, ls_graph_repeat(routine->graph, (uint64_t)repeats),
                             "launching a graph");
    for (int64_t i = 0; i < repeats && run_once(machine, routine); i++) continue;
    return !machine->failed;
}

void routine_close(Routine *routine) {
    if (routine->graph) ls_graph_destroy(routine->graph);
    free(routine->tapes);
    *routine = (Routine){0};
}
