/* built.c: a nest as schedules build it, with what text cannot have: two symbols of one name, names
 * that are no words, a symbol that two nodes define. */
#include <stdio.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

#include "nest_tool.h"

static Nest *build(Compiler *compiler) {
    Nest *nest = nest_open(compiler, &compiler->arena, "built in C", NULL);
    NestNode **end = &nest->body;
    const Index n = index_symbol(nest->arena, nest_size(nest, "n"));
    const SymbolId y = nest_array(nest, "adam.y", TYPE_F32, ARRAY_OUT, false, n);
    static const char *const names[] = {"inf", "2nd", "n"};
    for (size_t i = 0; i < COUNT(names); i++) {
        const SymbolId loop = nest_symbol(nest, "i", NAMED_LOOP, TYPE_I64);
        const SymbolId value = nest_symbol(nest, names[i], NAMED_VALUE, TYPE_F32);
        NestNode **inside =
            &nest_add(nest, &end,
                      (NestNode){.kind = NEST_LOOP, .loop = LOOP_SERIAL, .name = loop, .extent = n})
                 ->body;
        nest_add(nest, &inside,
                 (NestNode){.kind = NEST_LET,
                            .name = value,
                            .value = ir_constant_number(nest->values, TYPE_F32, 0.25)});
        Index *at = nest_at(nest, 1);
        at[0] = index_symbol(nest->arena, loop);
        nest_add(nest, &inside,
                 (NestNode){.kind = NEST_STORE,
                            .array = y,
                            .at = at,
                            .at_count = 1,
                            .value = nest_name(nest, value)});
    }
    return nest;
}

int built(Compiler *compiler) {
    Nest *nest = build(compiler);
    Text out = text_open(&compiler->arena);
    nest_print(nest, &out);
    fputs(out.data, stdout);
    nest_check(nest);
    NestNode **end = &nest->body->next->next->next;
    *end = nest_copy(nest->arena, nest->body);
    (*end)->next = NULL;
    nest_check(nest); /* bug(): its message is printed */
    return 0;
}
