/* explore.c: see explore.h. A run is what was chosen in it; the next one changes the last choice
 * that has another possibility left, and runs again from the beginning. */
#include "explore.h"

#include <stdio.h>
#include <stdlib.h>

#include "simt_parts.h"

typedef struct Choice {
    uint32_t chosen, count;
} Choice;

struct Explorer {
    Choice *choices;
    size_t length, room, at; /* at: where this run is in them */
    uint64_t *states;        /* hashed; 0: free */
    size_t state_room;
    uint64_t state_count;
    bool pruned, no_memory;
};

uint32_t explorer_choose(Explorer *explorer, uint32_t count) {
    if (explorer->at < explorer->length) return explorer->choices[explorer->at++].chosen;
    if (explorer->length == explorer->room) {
        const size_t room = explorer->room ? 2 * explorer->room : 256;
        Choice *choices = realloc(explorer->choices, room * sizeof *choices);
        if (!choices) {
            explorer->no_memory = true;
            return 0;
        }
        explorer->choices = choices;
        explorer->room = room;
    }
    explorer->choices[explorer->length++] = (Choice){0, count};
    explorer->at = explorer->length;
    return 0;
}

static uint64_t *slot_of(uint64_t *states, size_t room, uint64_t state) {
    size_t slot = (size_t)(state >> 20) % room;
    while (states[slot] && states[slot] != state) slot = (slot + 1) % room;
    return &states[slot];
}

static bool more_states(Explorer *explorer) {
    const size_t room = explorer->state_room ? 2 * explorer->state_room : 1 << 12;
    uint64_t *states = calloc(room, sizeof *states);
    if (!states) return false;
    for (size_t i = 0; i < explorer->state_room; i++)
        if (explorer->states[i]) *slot_of(states, room, explorer->states[i]) = explorer->states[i];
    free(explorer->states);
    explorer->states = states;
    explorer->state_room = room;
    return true;
}

bool explorer_enter(Explorer *explorer, uint64_t state) {
    if (explorer->at < explorer->length) return true;
    if (2 * explorer->state_count >= explorer->state_room && !more_states(explorer)) {
        explorer->no_memory = true;
        return false;
    }
    if (state == 0) state = 1;
    uint64_t *slot = slot_of(explorer->states, explorer->state_room, state);
    explorer->pruned = *slot != 0;
    if (*slot) return false;
    *slot = state;
    explorer->state_count++;
    return true;
}

/* False: there is no other run. */
static bool next_run(Explorer *explorer) {
    explorer->length = explorer->at; /* what the run before did not come to */
    while (explorer->length > 0) {
        Choice *last = &explorer->choices[explorer->length - 1];
        if (++last->chosen < last->count) return true;
        explorer->length--;
    }
    return false;
}

static bool can_explore(const SimtModule *module, const SimtLaunch *launch, char *message,
                        size_t message_size) {
    const bool weak = !module->amd && module->machine->watched && launch->memory != SIMT_AT_ONCE;
    const bool few = (uint64_t)launch->blocks * launch->threads <= EXPLORE_THREADS;
    if (!weak)
        snprintf(message, message_size, "only watched text in weak memory is explored");
    else if (!few)
        snprintf(message, message_size, "at most %d threads are explored", EXPLORE_THREADS);
    return weak && few;
}

bool simt_explore(SimtModule *module, const SimtLaunch *launch, const SimtTrial *trial,
                  SimtExplored *explored, char *message, size_t message_size) {
    Explorer explorer = {0};
    SimtLaunch one = *launch;
    bool good = can_explore(module, launch, message, message_size);
    one.explorer = &explorer;
    *explored = (SimtExplored){0};
    while (good) {
        trial->begin(trial->data);
        explorer.at = 0;
        explorer.pruned = false;
        good = simt_launch(module, &one, message, message_size);
        explored->runs++;
        explored->states = explorer.state_count;
        if (!good) break;
        good = !explorer.no_memory && explorer.state_count <= trial->states_max;
        if (!good)
            snprintf(message, message_size, "%s",
                     explorer.no_memory ? "out of memory for what is explored"
                                        : "there are too many states");
        if (good && !explorer.pruned) {
            explored->finished++;
            good = trial->is_right(trial->data);
            if (!good)
                snprintf(message, message_size, "run %llu leaves a wrong result",
                         (unsigned long long)explored->runs);
        }
        if (good && !next_run(&explorer)) break;
    }
    free(explorer.choices);
    free(explorer.states);
    return good;
}
