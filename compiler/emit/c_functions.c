/* c_functions.c: imported C functions in generated code: their definitions, callees first, and
 * calls. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

void emit_c_functions(Emitter *e, Text *out) {
    const Function *f = e->f;
    bool *needed = arena_alloc(e->arena, f->function_count * sizeof *needed);
    for (ValueId v = 1; v < f->value_count; v++)
        if (f->values[v].op == OP_CALL) needed[f->values[v].payload] = true;
    for (size_t i = f->function_count; i-- > 0;)
        for (size_t k = 0; needed[i] && k < f->functions[i].call_count; k++)
            needed[f->functions[i].calls[k]] = true;
    for (size_t i = 0; i < f->function_count; i++)
        if (needed[i] && !strstr(out->data, f->functions[i].source))
            text_printf(out, "\n%s", f->functions[i].source);
}
