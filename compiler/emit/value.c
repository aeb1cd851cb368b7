/* value.c: expressions, loads and stores of generated code.
 *
 * A value becomes a `const` statement when the source names it or more than one expression uses it,
 * and stands inside its user otherwise. Before a statement of another source line that line is
 * quoted. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

const char *emit_type(Type type) {
    return type == TYPE_BOOL ? "int" : type_info[type].c_name;
}

const char *emit_constant(Emitter *e, Type type, uint64_t bits) {
    switch (type) {
    case TYPE_F32: {
        float x;
        uint32_t low = (uint32_t)bits;
        memcpy(&x, &low, sizeof x);
        if (!isfinite(x)) return arena_printf(e->arena, "ls_from_bits_f32(0x%08" PRIx32 "u)", low);
        return arena_printf(e->arena, signbit(x) ? "(%af)" : "%af", (double)x);
    }
    case TYPE_F64: {
        double x;
        memcpy(&x, &bits, sizeof x);
        if (!isfinite(x))
            return arena_printf(e->arena, "ls_from_bits_f64(0x%016" PRIx64 "ull)", bits);
        return arena_printf(e->arena, signbit(x) ? "(%a)" : "%a", x);
    }
    case TYPE_I32:
        if ((uint32_t)bits == 0x80000000u) return "(-2147483647 - 1)";
        return arena_printf(e->arena, (int32_t)bits < 0 ? "(%" PRId32 ")" : "%" PRId32,
                            (int32_t)bits);
    case TYPE_I64:
        if (bits == (uint64_t)1 << 63) return "(-9223372036854775807ll - 1)";
        return arena_printf(e->arena, (int64_t)bits < 0 ? "(%" PRId64 "ll)" : "%" PRId64 "ll",
                            (int64_t)bits);
    case TYPE_U32: return arena_printf(e->arena, "%" PRIu32 "u", (uint32_t)bits);
    case TYPE_U64: return arena_printf(e->arena, "%" PRIu64 "ull", bits);
    case TYPE_BOOL: return bits & 1 ? "1" : "0";
    default: bug(e->compiler, "a constant of storage type %s", type_info[type].name);
    }
}

static const char *load_text(Emitter *e, ValueId v, Place place) {
    const uint32_t array = plan_source(e->plan, e->phase, v) - 1;
    if (array == UINT32_MAX)
        bug(e->compiler, "value %u of step %s has nowhere to be read", v, e->f->name);
    if (place == PLACE_ELEMENT && e->tiled && e->tile_name[array])
        return arena_printf(e->arena, "%s[128 * part + lane]", e->tile_name[array]);
    return arena_printf(e->arena, "ls_%s_%s(%s, %s)", e->vectors ? "take" : "load",
                        emit_held_type(e, array), emit_data(e, array), emit_index(e, array, place));
}

/* The function for an operation: under `math fast` the target's own where it has one. */
static const char *function_stem(Emitter *e, const char *stem, const char *type) {
    if (e->f->math != LS_MATH_FAST) return stem;
    const char *fast = arena_printf(e->arena, "%s_fast", stem);
    const char *head = arena_printf(e->arena, " ls_%s_%s(", fast, type);
    return strstr(embedded_text(e->target->fast), head) ? fast : stem;
}

bool emit_is_infix(const Emitter *e, const Value *value) {
    const OpForm form = (OpForm)op_info[value->op].form;
    return (form == FORM_INFIX || form == FORM_ARITHMETIC) &&
           !(value->op == OP_DIV && e->target->divides);
}

const char *emit_operation(Emitter *e, const Function *f, const Value *value, const char **arg) {
    const OpInfo *info = &op_info[value->op];
    const Type operand = info->arity ? (Type)f->values[value->arg[0]].type : TYPE_NONE;
    switch (value->op) {
    case OP_CONST: return emit_constant(e, (Type)value->type, value->payload);
    case OP_RANDOM_KEY:
        return arena_printf(e->arena, "ls_random_key_u64(%s, %s, %" PRIu64 "u, %s)", arg[0], arg[1],
                            value->payload, arg[2]);
    case OP_ROUND_STOCHASTIC:
        return arena_printf(e->arena, "ls_round_stochastic_%s(%s, %s)",
                            type_info[value->payload].name, arg[0], arg[1]);
    case OP_FROM_FIXED:
        return arena_printf(e->arena, "ls_from_fixed_%s(%s, %s)", type_info[value->type].name,
                            arg[0], arg[1]);
    case OP_SELECT:
        return arena_printf(e->arena, "ls_select_%s(%s, %s, %s)", type_info[value->type].name,
                            arg[0], arg[1], arg[2]);
    case OP_CAST:
        return arena_printf(e->arena, "ls_%s_from_%s(%s)", type_info[value->type].name,
                            type_info[operand].name, arg[0]);
    case OP_ROUND_TO:
        return arena_printf(e->arena, "ls_round_%s(%s)", type_info[value->payload].name, arg[0]);
    default: break;
    }
    if (info->form == FORM_NONE || info->form == FORM_OWN)
        bug(e->compiler, "there is no text for %s", info->name);
    const bool arithmetic = info->form == FORM_ARITHMETIC;
    const char *type = type_info[operand].name, *name = info->name;
    const char *stem = function_stem(e, name, type);
    if (emit_is_infix(e, value) && stem == name && (!arithmetic || type_info[operand].class == 'F'))
        return arena_printf(e->arena, "%s %s %s", arg[0], info->sign, arg[1]);
    if (ir_takes_count((Op)value->op) && f->values[value->arg[1]].type != TYPE_I64)
        arg[1] = arena_printf(e->arena, "(i64)%s", arg[1]);
    switch (info->arity) {
    case 1: return arena_printf(e->arena, "ls_%s_%s(%s)", stem, type, arg[0]);
    case 2: return arena_printf(e->arena, "ls_%s_%s(%s, %s)", stem, type, arg[0], arg[1]);
    default:
        return arena_printf(e->arena, "ls_%s_%s(%s, %s, %s)", stem, type, arg[0], arg[1], arg[2]);
    }
}

static const char *operation_text(Emitter *e, const Value *value) {
    const char *arg[3] = {NULL, NULL, NULL};
    for (int i = 0; i < op_info[value->op].arity; i++) arg[i] = e->text_of[value->arg[i]];
    const ValueId chosen = plan_chosen(e->plan, e->phase, (ValueId)(value - e->f->values));
    if (chosen) return e->text_of[chosen];
    switch (value->op) {
    case OP_SIZE: return emit_size(e, (uint32_t)value->payload);
    case OP_INDEX: return emit_coordinate(e, (uint32_t)value->payload);
    case OP_POSITION: return emit_position(e, (AxisSet)value->payload);
    case OP_FIRST: return value->payload ? "a->first_element" : "a->first_tensor";
    case OP_GATHER: return emit_gather(e, value);
    case OP_RANDOM_BITS:
    case OP_RANDOM_UNIFORM:
    case OP_RANDOM_NORMAL:
        if (emit_is_drawn_ahead(e, (ValueId)(value - e->f->values)))
            return emit_draw(e, (ValueId)(value - e->f->values));
        break;
    case OP_CALL: return emit_c_call(e, value);
    case OP_BROADCAST: return arg[0];
    default: break;
    }
    return emit_operation(e, e->f, value, arg);
}

void emit_quote(Text *out, const char *begin, const char *end) {
    for (const char *c = begin; c < end; c++)
        text_add(out, (*c == '*' && c[1] == '/') || !isprint((unsigned char)*c) ? "?" : c, 1);
}

/* Quotes the source line a statement comes from, when it is another than the last. */
void emit_quote_line(Emitter *e, Text *out, Range range) {
    if (range.file == 0 || range.file >= e->compiler->source_count) return;
    const Source *source = &e->compiler->sources[range.file];
    uint32_t line, column;
    source_position(source, range.begin, &line, &column);
    if (line == e->last_line) return;
    e->last_line = line;
    const char *begin = source->text + range.begin, *end = begin;
    while (begin > source->text && begin[-1] != '\n') begin--;
    while (*begin == ' ' || *begin == '\t') begin++;
    while (*end && *end != '\n' && *end != '#') end++;
    while (end > begin && isspace((unsigned char)end[-1])) end--;
    text_printf(out, "/* %u: ", line);
    emit_quote(out, begin, end < begin + 80 ? end : begin + 80);
    text_puts(out, " */\n");
}

static bool is_load(const Emitter *e, ValueId v) {
    return plan_is_read(e->plan, e->phase, v);
}

static bool is_own_reduction(const Emitter *e, ValueId v) {
    return (op_info[e->f->values[v].op].flags & OP_REDUCTION) && !is_load(e, v);
}

size_t emit_operands(const Emitter *e, ValueId v, ValueId operands[3]) {
    size_t count = plan_operands(e->plan, e->phase, v, operands);
    if (count == 2 && emit_is_drawn_ahead(e, v)) count = 1; /* the key */
    return count;
}

/* An expression without the brackets around all of it. */
const char *emit_bare(Emitter *e, const char *text) {
    if (*text != '(') return text;
    size_t size = strlen(text);
    int depth = 0;
    for (size_t i = 0; i < size; i++) {
        depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
        if (depth == 0 && i + 1 < size) return text;
    }
    return arena_copy(e->arena, text + 1, size - 2);
}

/* `kept`: other sections use it too, so it needs a name. */
static void emit_value(Emitter *e, Text *out, ValueId v, Place place, bool kept) {
    const Value *value = &e->f->values[v];
    bool load = is_load(e, v), infix = false;
    if (!load && (value->op == OP_LIST || value->op == OP_SCATTER)) return; /* their users' text */
    const char *text = load ? load_text(e, v, place) : operation_text(e, value);
    if ((op_info[value->op].flags & OP_LEAF) && !load) {
        e->text_of[v] = text;
        return;
    }
    infix = strchr(text, ' ') && emit_is_infix(e, value);
    bool may_stand_inside = !load && !kept && !value->name;
    if (may_stand_inside && e->uses[v] <= 1 && emit_is_short(text)) {
        e->text_of[v] = infix ? arena_printf(e->arena, "(%s)", text) : text;
        return;
    }
    if (!e->name_of[v]) {
        const char *name = value->name;
        uint32_t stored = UINT32_MAX;
        if (value->op == OP_PARAMETER) name = e->f->parameters[value->payload].name;
        for (size_t i = 0; !name && stored == UINT32_MAX && i < e->phase->store_count; i++)
            if (plan_stored(e->plan, e->phase, &e->phase->stores[i]) == v)
                stored = e->phase->stores[i].array;
        e->name_of[v] = name                   ? names_user(e, name)
                        : stored != UINT32_MAX ? names_array(e, stored)
                                               : names_made(e, arena_printf(e->arena, "t%u", v));
    }
    if (!load) emit_quote_line(e, out, value->range);
    e->text_of[v] = e->name_of[v];
    text_printf(out, "const %s%s %s = %s;\n", e->vectors ? "ls_vector_" : "",
                emit_type((Type)value->type), e->name_of[v], emit_bare(e, text));
}

void emit_section(Emitter *e, Text *out, const ValueId *roots, size_t count, unsigned available,
                  Place place) {
    const Function *f = e->f;
    bool *wanted = arena_alloc(e->arena, f->value_count * sizeof *wanted);
    bool *kept = arena_alloc(e->arena, f->value_count * sizeof *kept);
    memset(e->uses, 0, f->value_count * sizeof *e->uses);
    for (size_t i = 0; i < count; i++) {
        wanted[roots[i]] = true;
        kept[roots[i]] = place != PLACE_ELEMENT && place != PLACE_EPILOGUE;
        e->uses[roots[i]]++;
    }
    for (ValueId v = (ValueId)f->value_count; v-- > 1;) {
        if (!wanted[v]) continue;
        if (available >> plan_level(e->phase, v) & 1 || e->ready[v] || is_own_reduction(e, v)) {
            wanted[v] = false;
            continue;
        }
        ValueId operands[3];
        for (size_t i = emit_operands(e, v, operands); i-- > 0;) {
            wanted[operands[i]] = true;
            /* an index is compared and used */
            e->uses[operands[i]] += f->values[v].op == OP_LIST ? 2 : 1;
        }
    }
    e->last_line = 0;
    for (ValueId v = 1; v < f->value_count; v++) {
        if (!wanted[v]) continue;
        emit_value(e, out, v, place, kept[v]);
        if (place == PLACE_ROW) e->ready[v] = READY_ROW;
        if (place == PLACE_TENSOR) e->ready[v] = READY_TENSOR;
    }
}

bool emit_has_condition(const Emitter *e, const PhaseStore *store) {
    ValueId v = store->value;
    for (Guard guard; plan_keeps(e->plan, store->array, &v, &guard);)
        if (plan_is_open(e->plan, e->phase, store, guard)) return true;
    return false;
}

const char *emit_condition(Emitter *e, const PhaseStore *store) {
    ValueId v = store->value;
    Text text = text_open(e->arena);
    for (Guard guard; plan_keeps(e->plan, store->array, &v, &guard);)
        if (plan_is_open(e->plan, e->phase, store, guard))
            text_printf(&text, "%s%s%s", text.size ? " & " : "if (", guard.holds ? "" : "!",
                        e->text_of[guard.condition]);
    if (text.size) text_puts(&text, ") ");
    return text.data;
}

void emit_stores(Emitter *e, Text *out, Level level, Place place, const char *guard) {
    for (size_t i = 0; i < e->phase->store_count; i++) {
        const PhaseStore *store = &e->phase->stores[i];
        if (store->level != level) continue;
        if (store->kind == STORE_ADD) {
            emit_scatter(e, out, store, guard);
            continue;
        }
        const char *value = store->kind == STORE_CLEAR
                                ? "0"
                                : emit_bare(e, e->text_of[plan_stored(e->plan, e->phase, store)]);
        if (place == PLACE_ELEMENT && e->block_name[store->array] && emit_in_loop_columns(e)) {
            text_printf(out, "ls_store_%s(%s_to, %s_to_at + c, %s);\n",
                        type_info[e->plan->arrays[store->array].type].c_name,
                        e->block_name[store->array], e->block_name[store->array], value);
            continue;
        }
        if (place == PLACE_ELEMENT && e->block_name[store->array]) {
            const char *fast = e->inner[e->inner_count - 1].name;
            text_printf(out, "ls_store_%s(%s_to, %s - %s_first, %s);\n",
                        type_info[e->plan->arrays[store->array].type].c_name,
                        e->block_name[store->array], fast, fast, value);
            continue;
        }
        text_printf(out, "%s%sls_store_%s(%s, %s, %s);\n", guard, emit_condition(e, store),
                    type_info[e->plan->arrays[store->array].type].c_name,
                    emit_data(e, store->array), emit_index(e, store->array, place), value);
    }
}
