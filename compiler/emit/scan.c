/* scan.c: scans in generated code.
 *
 * A scan s of a phase has the running value s_running, which begins as its initial value and takes
 * the scan's value after every element's stores. Where one thread walks down columns side by side
 * there is one for each of them. */
#include <stdio.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

void emit_name_scans(Emitter *e) {
    static const char *const suffixes[] = {"running", NULL};
    for (size_t i = 0; i < e->phase->scan_count; i++) {
        const ValueId scan = e->phase->scans[i];
        const Value *value = &e->f->values[scan];
        const char *name = names_stem(e, value->name, "scan", suffixes);
        e->name_of[scan] = e->scan_name[scan] = e->scan_name[value->arg[2]] = name;
    }
}

static const char *running_text(Emitter *e, ValueId scan) {
    return arena_printf(e->arena, emit_in_loop_columns(e) ? "%s_running[c]" : "%s_running",
                        e->scan_name[scan]);
}

const char *emit_scan_text(Emitter *e, const Value *value) {
    if (value->op == OP_SCAN) return e->text_of[value->arg[1]];
    const ValueId v = (ValueId)(value - e->f->values);
    if (!e->scan_name[v])
        bug(e->compiler, "step %s uses the running value %u outside its scan", e->f->name, v);
    return running_text(e, v);
}

void emit_scans_start(Emitter *e, Text *running, Text *start) {
    for (size_t i = 0; i < e->phase->scan_count; i++) {
        const ValueId scan = e->phase->scans[i];
        const Value *value = &e->f->values[scan];
        const char *type = emit_type((Type)value->type), *name = e->scan_name[scan];
        if (e->f->values[value->arg[0]].axes & e->phase->inner)
            bug(e->compiler, "a scan of step %s begins with what varies along it", e->f->name);
        const char *init = emit_bare(e, e->text_of[value->arg[0]]);
        if (emit_in_loop_columns(e)) {
            text_printf(running, "%s %s_running[64];\n", type, name);
            text_printf(start, "%s = %s;\n", running_text(e, scan), init);
        } else {
            text_printf(start, "%s %s_running = %s;\n", type, name, init);
        }
    }
}

/* All at once: no scan's value is made of another's new running value. */
void emit_scans_advance(Emitter *e, Text *out) {
    for (size_t i = 0; i < e->phase->scan_count; i++)
        text_printf(out, "%s = %s;\n", running_text(e, e->phase->scans[i]),
                    e->text_of[e->phase->scans[i]]);
}
