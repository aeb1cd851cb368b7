/* test_random.c: properties that hold for every function, on random ones over all operations and
 * types.
 *
 * The text of the IR reads back and prints the same; the passes' results pass the check of their
 * stage; simplify changes no bit of any result, for special values above all, also over empty axes.
 */
#include "interp.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    AXES = 3,
    INPUTS = 10,
    POOL = 60,
    RESULTS = 12,
    PARAMETERS = INPUTS + RESULTS,
    BYTES = 8 * 64
};
static Compiler compiler;
static uint32_t random_state;

static uint32_t draw(uint32_t below) { /* xorshift: the same on every machine */
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state % below;
}

static const double specials[] = {0.0,  -0.0, 1.0,    -1.0,     0.5,      2.0,       -3.0, 1e-40,
                                  1e30, 7.25, -1e-30, 16777217, INFINITY, -INFINITY, NAN,  255};

static uint64_t random_bits(Type type) {
    double value = specials[draw(COUNT(specials))];
    if (type_info[type].class == 'F' && draw(3) == 0) value = (double)draw(1000) / 64 - 8;
    if (type_info[type].class != 'F' && draw(3) == 0) value = (double)draw(80) - 20;
    return ir_number_bits(type, value);
}

static Function *header(void) {
    static const char *const names[AXES] = {"a", "b", "c"};
    Function *f = ir_function(&compiler, &compiler.arena, "random");
    f->axes = arena_alloc(f->arena, AXES * sizeof *f->axes);
    for (int i = 0; i < AXES; i++) f->axes[i] = ir_axis(names[i], -1, (Range){0});
    f->axis_count = AXES;
    f->parameters = arena_alloc(f->arena, PARAMETERS * sizeof *f->parameters);
    f->parameter_capacity = PARAMETERS;
    return f;
}

static uint32_t add_parameter(Function *f, ls_role role, Type type, AxisSet axes) {
    uint32_t number = (uint32_t)f->parameter_count++;
    f->parameters[number] = (Parameter){.role = role, .type = type, .axes = axes, .declared = axes};
    f->parameters[number].name = arena_printf(f->arena, "p%u", number);
    return number;
}

/* One more value over those in the pool, or 0 where the draw does not fit its type rule. */
static ValueId random_value(Function *f, const ValueId *pool, uint32_t count) {
    Op op = (Op)(1 + draw(OP_COUNT - 1));
    ValueId args[3] = {0};
    Type type;
    for (int i = 0; i < op_info[op].arity; i++) args[i] = pool[draw(count)];
    if (op == OP_CONST || draw(8) == 0) {
        Type any = (Type)draw(TYPE_BOOL + 1);
        return ir_constant(f, any, random_bits(any));
    }
    switch (op) {
    case OP_SIZE: return ir_size(f, draw(AXES));
    case OP_INDEX: return ir_index(f, draw(AXES));
    case OP_CAST: return ir_cast(f, (Type)draw(TYPE_BOOL + 1), args[0]);
    case OP_BROADCAST: return ir_broadcast(f, args[0], draw(8));
    case OP_ROUND_TO: {
        Type storage = (Type)(TYPE_F16 + draw(TYPE_COUNT - TYPE_F16));
        return ir_round_problem(f, storage, args[0]) ? 0 : ir_round_to(f, storage, args[0]);
    }
    case OP_PARAMETER:
    case OP_GRAD:
    case OP_MARK:
    case OP_STOP_GRADIENT:
    case OP_CLAMP: return 0;
    default: break;
    }
    if (op_info[op].flags & OP_REDUCTION) {
        AxisSet over = draw(8);
        return ir_reduce_problem(f, op, args[0], over) ? 0 : ir_reduce(f, op, args[0], over);
    }
    if (op == OP_SELECT && draw(2)) args[2] = args[1];
    if ((op == OP_SUB || op == OP_AND) && draw(4) == 0) args[1] = args[0];
    if (ir_result_type(f, op, args, &type)) return 0;
    bool only_f32 =
        type == TYPE_F64 && op_info[op].cost > 20 && op != OP_POWI && op != OP_POW && op != OP_LOG;
    return only_f32 ? 0 : ir_op(f, op, args[0], args[1], args[2]);
}

static Function *random_function(void) {
    Function *f = header();
    ValueId pool[POOL];
    uint32_t count = 0;
    for (; count < INPUTS; count++) {
        Type type = draw(2) ? (Type)draw(TYPE_COUNT) : (Type)draw(TYPE_BOOL + 1);
        pool[count] = ir_parameter(f, add_parameter(f, LS_IN, type, draw(8)));
    }
    while (count < POOL) {
        ValueId value = random_value(f, pool, count);
        if (value) pool[count++] = value;
    }
    for (uint32_t i = 0; i < RESULTS; i++) {
        ValueId value = pool[i < 6 ? POOL - 1 - i : draw(POOL)];
        const Value *v = &f->values[value];
        ir_store(f, add_parameter(f, LS_OUT, (Type)v->type, v->axes | draw(8)), value, 0,
                 (Range){0});
    }
    return f;
}

static void fill(const Function *f, char (*data)[BYTES]) {
    for (uint32_t i = 0; i < INPUTS; i++)
        for (int k = 0; k < BYTES / 8; k++)
            number_store(f->parameters[i].type, data[i], k,
                         random_bits(type_info[f->parameters[i].type].compute));
}

static bool run(const Function *f, const int64_t *sizes, char (*data)[BYTES]) {
    void *pointers[PARAMETERS];
    for (uint32_t i = 0; i < PARAMETERS; i++) pointers[i] = data[i];
    return interpret_plain(f, sizes, pointers);
}

static const char *text_of(const Function *f) {
    Text text = text_open(&compiler.arena);
    ir_print(f, &text);
    return text.data;
}

static bool reads_back(const Function *f) {
    const char *once = text_of(f);
    Function *read =
        ir_read(&compiler, &compiler.arena, source_add(&compiler, "once", once, strlen(once)));
    return read && strcmp(once, text_of(read)) == 0;
}

static const char *problem_with(Function *f) {
    static const int64_t all_sizes[][AXES] = {
        {3, 4, 5}, {1, 1, 1}, {2, 0, 3}, {0, 0, 0}, {4, 2, 7}};
    ir_check(f, STAGE_LOWERED);
    if (!reads_back(f)) return "its text does not read back";
    Function *g = simplify(f);
    ir_check(g, STAGE_SIMPLIFIED);
    if (!reads_back(g)) return "the text of its simplified form does not read back";
    if (simplify(g)->value_count != g->value_count) return "simplify finds more the second time";
    for (size_t s = 0; s < COUNT(all_sizes); s++) {
        static char before[PARAMETERS][BYTES], after[PARAMETERS][BYTES];
        memset(before, 0, sizeof before);
        fill(f, before);
        memcpy(after, before, sizeof after);
        if (!run(f, all_sizes[s], before) || !run(g, all_sizes[s], after)) return "it does not run";
        for (uint32_t i = 0; i < PARAMETERS; i++)
            if (memcmp(before[i], after[i], BYTES) != 0) {
                printf("result %u differs at sizes %d %d %d\n", i, (int)all_sizes[s][0],
                       (int)all_sizes[s][1], (int)all_sizes[s][2]);
                return "simplify changed a bit";
            }
    }
    return NULL;
}

int main(int count, char **words) {
    uint32_t functions = count > 1 ? (uint32_t)strtoul(words[1], NULL, 10) : 1000;
    static uint32_t n; /* static: its value is needed after longjmp */
    for (n = 1; n <= functions; n++) {
        arena_open(&compiler.arena, &compiler);
        random_state = n * 2654435761u | 1;
        if (setjmp(compiler.unwind)) {
            printf("function %u: %s\n", n, compiler.failure_message);
            return 1;
        }
        Function *f = random_function();
        const char *problem = problem_with(f);
        if (problem) {
            printf("function %u: %s\n%s\nsimplified:\n%s", n, problem, text_of(f),
                   text_of(simplify(f)));
            return 1;
        }
        arena_close(&compiler.arena);
        memset(&compiler, 0, sizeof compiler);
    }
    printf("%u functions\n", functions);
    return 0;
}
