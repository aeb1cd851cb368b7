/* print.c: the IR as text; read.c reads it back.
 *
 *   step linreg                          math lite follows where the step says so
 *   axis k = 64                          or `axis b`: bound at run time
 *   axis n of t as (q, k = 256)          ragged, and in blocks: three axes
 *   axis w = 2 h *                       a length in reverse Polish order
 *   function clip(f32, f32): f32 by 1    a C function; its derivatives' numbers, or `none`
 *   inout lr: f32[k] = 0.5               role, storage type, axes, default
 *   %1 = parameter lr : f32[k]
 *   %2 = sum[k] %1 : f32 as total        a reduction names its axes; `as` gives the source's name
 *   %3 = list k %8 %7 : i64              the axis (of a call: the argument's number), the rest
 *   %4 = scan[k, reverse] %9 %6 %5 : f32[k]
 *   store lr = %2 when %9
 *
 * One value a line, operands first; `#` begins a comment. What is printed reads back as the same
 * function (ranges, the numbers of marks and the text of C functions apart). A label is any word
 * after `%`; printing numbers them. */
#include "base/base.h"
#include "ir/ir.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const ir_role_names[3] = {[LS_IN] = "in", [LS_INOUT] = "inout", [LS_OUT] = "out"};
const char *const ir_math_names[4] = {[LS_MATH_SOURCE] = "source",
                                      [LS_MATH_EXACT] = "exact",
                                      [LS_MATH_LITE] = "lite",
                                      [LS_MATH_FAST] = "fast"};

/* ---- printing ---- */

void ir_print_axes(const Function *f, AxisSet axes, Text *out) {
    const char *separator = "";
    text_puts(out, "[");
    for (uint32_t a = 0; a < f->axis_count; a++) {
        if (!(axes >> a & 1)) continue;
        text_printf(out, "%s%s", separator, f->axes[a].name);
        separator = ", ";
    }
    text_puts(out, "]");
}

void ir_print_number(Type type, uint64_t bits, Text *out) {
    double number = 0;
    float narrow = 0;
    if (type == TYPE_F64) {
        memcpy(&number, &bits, sizeof number);
    } else if (type == TYPE_F32) {
        uint32_t low = (uint32_t)bits;
        memcpy(&narrow, &low, sizeof narrow);
        number = (double)narrow;
    } else if (type == TYPE_BOOL) {
        text_puts(out, bits ? "true" : "false");
        return;
    } else if (type == TYPE_I64) {
        text_printf(out, "%" PRId64, (int64_t)bits);
        return;
    } else if (type == TYPE_I32) {
        text_printf(out, "%" PRId32, (int32_t)(uint32_t)bits);
        return;
    } else if (type == TYPE_U64 || type == TYPE_U32) {
        text_printf(out, "%" PRIu64, bits);
        return;
    } else {
        text_printf(out, "bits 0x%" PRIx64, bits);
        return;
    }
    if (isnan(number)) {
        text_puts(out, "nan");
        return;
    }
    char digits[40];
    if (fabs(number) < 1e9 && trunc(number) == number) { /* 10, not 1e+01 */
        text_printf(out, "%.0f", number);
        return;
    }
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, number);
        bool same =
            type == TYPE_F32 ? strtof(digits, NULL) == narrow : strtod(digits, NULL) == number;
        if (same) break;
    }
    text_puts(out, digits);
}

/* Spellings of the terms of a length that are no numbers and no axes. */
const char *const ir_term_names[7] = {[LS_TERM_ADD] = "+",
                                      [LS_TERM_SUBTRACT] = "-",
                                      [LS_TERM_MULTIPLY] = "*",
                                      [LS_TERM_DIVIDE] = "/",
                                      [LS_TERM_REMAINDER] = "%"};

static void print_axis(const Function *f, const Axis *axis, Text *out) {
    text_printf(out, "axis %s", axis->name);
    if (axis->parent >= 0) text_printf(out, " of %s", f->axes[axis->parent].name);
    if (axis->fixed >= 0) text_printf(out, " = %" PRId64, axis->fixed);
    for (size_t i = 0; i < axis->term_count; i++) {
        const ls_image_term *term = &axis->terms[i];
        text_puts(out, i == 0 ? " = " : " ");
        if (term->operation == LS_TERM_NUMBER)
            text_printf(out, "%" PRId64, term->value);
        else if (term->operation == LS_TERM_AXIS)
            text_puts(out, f->axes[term->value].name);
        else
            text_puts(out, ir_term_names[term->operation]);
    }
    if (axis->block >= 0)
        text_printf(out, " as (%s, %s = %" PRId64 ")", f->axes[axis->block].name,
                    f->axes[axis->rest].name, axis->length);
    text_puts(out, "\n");
}

static void print_function(const CFunction *function, Text *out) {
    if (function->result == TYPE_NONE) { /* of C alone: a struct, or one that has such */
        text_printf(out, "function %s\n", function->name);
        return;
    }
    text_printf(out, "function %s(", function->name);
    for (size_t i = 0; i < function->parameter_count; i++)
        text_printf(out, "%s%s", i ? ", " : "", type_info[function->parameters[i]].name);
    text_printf(out, "): %s", type_info[function->result].name);
    if (function->operations) text_printf(out, " takes %u", function->operations);
    for (size_t i = 0; i < function->parameter_count && function->derivatives; i++) {
        text_puts(out, i ? ", " : " by ");
        if (function->derivatives[i] < 0)
            text_puts(out, "none");
        else
            text_printf(out, "%d", function->derivatives[i]);
    }
    text_puts(out, "\n");
}

static void print_header(const Function *f, Text *out) {
    text_printf(out, "step %s", f->name);
    if (f->math != LS_MATH_EXACT) text_printf(out, " math %s", ir_math_names[f->math]);
    text_puts(out, "\n");
    for (size_t a = 0; a < f->axis_count; a++)
        if (f->axes[a].whole < 0) print_axis(f, &f->axes[a], out); /* its blocks with it */
    for (size_t i = 0; i < f->function_count; i++) print_function(&f->functions[i], out);
    for (size_t i = 0; i < f->parameter_count; i++) {
        const Parameter *p = &f->parameters[i];
        text_printf(out, "%s %s: %s", ir_role_names[p->role], p->name, type_info[p->type].name);
        if (p->declared) ir_print_axes(f, p->declared, out);
        if (p->has_default) {
            text_puts(out, " = ");
            ir_print_number(p->type, p->initial, out);
        }
        text_puts(out, "\n");
    }
}

const char *const ir_first_names[2] = {"tensor", "element"};

/* What stands between an operation's name and its operands. */
static void print_payload(const Function *f, const Value *v, bool argument, Text *out) {
    Op op = (Op)v->op;
    if ((op_info[op].flags & OP_REDUCTION) || op == OP_POSITION)
        ir_print_axes(f, (AxisSet)v->payload, out);
    if (op == OP_SCAN)
        text_printf(out, "[%s%s]", f->axes[v->payload % SCAN_REVERSE].name,
                    v->payload & SCAN_REVERSE ? ", reverse" : "");
    if (op == OP_LIST && argument) text_printf(out, " %" PRIu64, v->payload);
    if (op == OP_LIST && !argument) text_printf(out, " %s", f->axes[v->payload].name);
    if (ir_scatter_within(v)) {
        text_puts(out, " within ");
        ir_print_axes(f, ir_scatter_within(v), out);
    }
    if (op == OP_RUNNING || op == OP_RANDOM_KEY) text_printf(out, " %" PRIu64, v->payload);
    if (op == OP_FIRST) text_printf(out, " %s", ir_first_names[v->payload]);
    if (op == OP_CALL) text_printf(out, " %s", f->functions[v->payload].name);
    if (op == OP_CONST) {
        text_puts(out, " ");
        ir_print_number((Type)v->type, v->payload, out);
    }
    if (op == OP_PARAMETER) text_printf(out, " %s", f->parameters[v->payload].name);
    if (op == OP_SIZE || op == OP_INDEX) text_printf(out, " %s", f->axes[v->payload].name);
    if (op == OP_ROUND_TO || op == OP_ROUND_STOCHASTIC)
        text_printf(out, " %s", type_info[v->payload].name);
}

static void print_value(const Function *f, ValueId id, bool argument, Text *out) {
    const Value *v = &f->values[id];
    Op op = (Op)v->op;
    text_printf(out, "%%%" PRIu32 " = %s", id, op_info[op].name);
    print_payload(f, v, argument, out);
    for (int i = 0; i < 3; i++)
        if (v->arg[i]) text_printf(out, " %%%" PRIu32, v->arg[i]);
    text_printf(out, " : %s", type_info[v->type].name);
    if (v->axes) ir_print_axes(f, v->axes, out);
    if (v->name && op != OP_PARAMETER) text_printf(out, " as %s", v->name);
    text_puts(out, "\n");
}

void ir_print(const Function *f, Text *out) {
    bool *argument = arena_alloc(f->arena, f->value_count * sizeof *argument); /* lists of calls */
    for (ValueId id = 1; id < f->value_count; id++)
        for (ValueId list = f->values[id].op == OP_CALL ? f->values[id].arg[0] : 0; list;
             list = f->values[list].arg[1])
            argument[list] = true;
    print_header(f, out);
    for (ValueId id = 1; id < f->value_count; id++) print_value(f, id, argument[id], out);
    for (size_t i = 0; i < f->store_count; i++) {
        const Store *s = &f->stores[i];
        text_printf(out, "store %s = %%%" PRIu32, f->parameters[s->parameter].name, s->value);
        if (s->guard) text_printf(out, " when %%%" PRIu32, s->guard);
        text_puts(out, "\n");
    }
}
