/* non_temporal.c: which stores of a CPU thread are non-temporal where they write many bytes: those
 * of whole runs of elements that no phase of the step reads. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

enum { STREAMS_MAX = 8 }; /* blocks on the stack */

static bool is_read(const Plan *plan, uint32_t array) {
    for (size_t i = 0; i < plan->phase_count; i++)
        if (plan_reads(plan, &plan->phases[i], array)) return true;
    return false;
}

static void mark(const Plan *plan, const PlainNest *plain, NestNode *body, size_t *count) {
    for (NestNode *node = body; node; node = node->next) {
        mark(plan, plain, node->body, count);
        if (node->kind != NEST_STORE || node->where || *count >= STREAMS_MAX) continue;
        for (uint32_t a = 0; a < plan->array_count; a++)
            if (plain->arrays[a] == node->array && plan->arrays[a].axes && !is_read(plan, a)) {
                node->hint = HINT_NON_TEMPORAL;
                ++*count;
            }
    }
}

size_t schedule_non_temporal(const Plan *plan, const PlainNest *plain, NestNode *body) {
    size_t count = 0;
    mark(plan, plain, body, &count);
    return count;
}
