/* nest_print.c: the nest of a unit of work as a function of generated code, in every dialect.
 *
 * The grid loop takes the items that the caller says; lane loops are the lanes that are there; a
 * vector loop is straight code for one vector. What differs between dialects is in memory_cpu.h
 * and memory_gpu.h. Needs a nest of schedule/. */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"
#include "emit/emit.h"

static void print_node(NestPrinter *p, const NestNode *node);

/* ---- what stands at the top ---- */

/* With vector loads the lane is declared anew for each item (ls_lane_of_item); otherwise compilers
 * would keep the lane's address in every array in registers across items. For lists it is declared
 * once, as the addresses change with the item anyhow. */
static void declare_lane(NestPrinter *p, const char *item) {
    p->lane = names_made(p->e, "lane");
    text_printf(p->out, "const i64 %s = ", p->lane);
    if (item)
        text_printf(p->out, "ls_lane_of_item(%s);\n", item);
    else
        text_puts(p->out, "(i64)ls_lane();\n");
}

/* Whether the kernel's own pre-reductions compute it. */
static bool is_pre_reduction(const NestPrinter *p, uint32_t array) {
    const Kernel *kernel = p->kernel;
    for (uint32_t i = kernel->first - kernel->pre_reductions; i < kernel->first; i++)
        if (plan_writes(&p->e->plan->phases[i], array)) return true;
    return false;
}

static void declare_array(NestPrinter *p, uint32_t array, const char *from) {
    Emitter *e = p->e;
    const SymbolId symbol = p->plain->arrays[array];
    const bool writes = nest_stores_to(p->nest->body, symbol);
    const bool changes =
        p->kernel ? (writes && nest_reads(p->nest->body, symbol)) || is_pre_reduction(p, array)
                  : emit_changes(e, array);
    text_printf(p->out, "%s%s *%sconst %s = %s;\n", writes ? "" : "const ",
                type_info[e->plan->arrays[array].type].c_name, changes ? "" : "LS_RESTRICT ",
                print_symbol(p, symbol), from);
}

/* As LS_PANEL_PART gives them: to a block, and to a thread. */
static const char *const block_panel[PANEL_GIVEN] = {"panel", "owner", "first_row",
                                                     "span",  "part",  [PANEL_LEVEL] = "level"};
static const char *const thread_panel[PANEL_GIVEN] = {
    "panel",        "owner",        "part.first",   NULL,         NULL,         "part.rows",
    "part.step[0]", "part.step[1]", "part.step[2]", "part.level", "part.carry", "part.left"};

static void spell_sizes(NestPrinter *p) {
    Emitter *e = p->e;
    static const char *const firsts[] = {"a->first_tensor", "a->first_element"};
    for (uint32_t axis = 0; axis < e->f->axis_count; axis++) {
        const SymbolId symbol = p->plain->lengths[axis];
        if (!symbol || p->nest->symbols[symbol].kind != NAMED_SIZE) continue;
        p->spelled[symbol] = e->size_name[axis];
        if (!p->uses[symbol]) continue;
        text_printf(p->out, "const i64 %s = %s;\n", e->size_name[axis], emit_given_size(e, axis));
    }
    const char *const *panel = p->nest->lanes > 1 ? block_panel : thread_panel;
    for (int i = 0; i < PANEL_GIVEN; i++) p->spelled[p->plain->panel[i]] = panel[i];
    if (p->plain->given) p->spelled[p->plain->given] = "(i64)(last_item - first_item)";
    for (int i = 0; i < 2; i++)
        if (p->plain->first[i]) p->spelled[p->plain->first[i]] = firsts[i];
    if (p->plain->item_count)
        p->spelled[p->plain->item_count] = arena_printf(e->arena, "a->%s_count", e->table);
    for (size_t i = 0; p->plain->strides && i < e->f->parameter_count * LS_AXES_MAX; i++)
        if (p->plain->strides[i])
            p->spelled[p->plain->strides[i]] = arena_printf(e->arena, "a->%s", e->stride_name[i]);
    print_iterations(p);
}

static void declare_derived(NestPrinter *p) {
    for (size_t i = 0; i < p->nest->derived_count; i++) {
        const NestDerived *derived = &p->nest->derived[i];
        const char *text = print_quotient(p, derived->value);
        if (p->uses[derived->symbol] == 1)
            p->spelled[derived->symbol] = text;
        else if (p->uses[derived->symbol])
            text_printf(p->out, "const i64 %s = %s;\n", print_symbol(p, derived->symbol), text);
    }
}

static void declare_arrays(NestPrinter *p) {
    for (uint32_t i = 0; i < p->e->plan->array_count; i++) {
        const SymbolId symbol = p->plain->arrays[i];
        if (!symbol || !p->uses[symbol]) continue;
        const char *field = arena_printf(p->arena, "a->%s", p->e->field_name[i]);
        const bool once = !emit_is_list(p->e, i) && print_is_loaded_once(p, symbol);
        p->e->touched[(p->e->number - 1) * p->e->plan->array_count + i] = true;
        p->spelled[symbol] =
            once ? field : names_made(p->e, arena_printf(p->arena, "%s_data", p->e->field_name[i]));
        if (!emit_is_list(p->e, i) && !once) declare_array(p, i, field);
    }
}

/* The partial values of row panels, and a block's or thread's levels of their binary counter. */
static void declare_scratch(NestPrinter *p) {
    Emitter *e = p->e;
    for (size_t i = 0; i < p->plain->scratch_count; i++) {
        const SymbolId symbol = p->plain->scratch[i];
        const NestSymbol *own = &p->nest->symbols[symbol];
        const Type type = own->type == TYPE_BOOL ? TYPE_I32 : type_info[own->type].compute;
        const char *name = arena_printf(e->arena, "phase_%u_%s", e->number, own->name);
        const bool per_thread = p->plain->per_thread[i];
        if (e->portion == PORTION_PANEL) {
            const uint64_t levels = p->nest->lanes > 1 ? 4 : 6, size = type_info[type].size;
            ls_image_extent extent = plan_extent(
                e->f, size * (per_thread ? levels : 128 / e->panel_lanes), e->phase->outer);
            if (!per_thread)
                extent.factor[extent.factor_count++] = (ls_image_factor){
                    .axes = plan_extent_axes(e->f, e->phase->inner), .minimum = 1, .divide = 1024};
            emit_add_field(e, name, type_info[type].c_name, extent, false);
            e->fields[e->field_count - 1].temporary.per_block = per_thread;
        }
        p->is_scratch[symbol] = true;
        p->spelled[symbol] = names_made(e, own->name);
        if (p->uses[symbol])
            text_printf(p->out, "%s *const %s = a->%s;\n", type_info[type].c_name,
                        p->spelled[symbol], name);
    }
}

/* Pointers to the arrays of a tensor, once for all its elements. */
static void declare_tensor(NestPrinter *p, SymbolId tensor) {
    p->tensor = tensor;
    for (uint32_t i = 0; i < p->e->plan->array_count; i++)
        if (p->plain->arrays[i] && p->uses[p->plain->arrays[i]] && emit_is_list(p->e, i))
            declare_array(p, i,
                          arena_printf(p->arena, "LS_TENSOR(a->%s, %s)", p->e->field_name[i],
                                       print_symbol(p, tensor)));
}

/* Whether lists are accessed at the symbol. */
static bool is_tensor(const NestNode *body, SymbolId symbol) {
    for (const NestNode *node = body; node; node = node->next)
        if (node->list == symbol || is_tensor(node->body, symbol) || is_tensor(node->other, symbol))
            return true;
    return false;
}

static size_t add_streamed(const NestPrinter *p, const NestNode *body, Text *text) {
    size_t count = 0;
    for (const NestNode *node = body; node; node = node->next) {
        if (node->kind == NEST_STORE && node->hint == HINT_NON_TEMPORAL) {
            text_printf(text, "%ssizeof(%s)", text->size ? " + " : "",
                        type_info[p->nest->symbols[node->array].type].c_name);
            count++;
        }
        count += add_streamed(p, node->body, text);
    }
    return count;
}

/* Whether what is stored is so much that it goes past the caches: of this tensor, or in all. */
static void decide_non_temporal(NestPrinter *p) {
    Text sizes = text_open(p->arena);
    const bool rows = p->e->phase->shape == SHAPE_ROWS || p->plain->panel[0];
    if (add_streamed(p, p->nest->body, &sizes))
        text_printf(
            p->out, "const int non_temporal = %s * (i64)(%s) >= %lld;\n",
            print_bracketed(p, print_index(p, p->plain->elements)), sizes.data,
            (long long)(rows ? p->e->target->non_temporal_rows : p->e->target->non_temporal));
}

/* ---- nodes ---- */

/* Of a list, one thread takes a tensor's items one after the other: what belongs to the tensor is
 * computed once for them. */
static bool print_entries(NestPrinter *p, const NestNode *loop) {
    const NestNode *tensor = loop->body, *item = loop->body;
    while (item && !(item->kind == NEST_LOAD && item->array == p->plain->items[1]))
        item = item->next;
    if (p->nest->lanes > 1 || !p->plain->items[0] || !item || tensor->kind != NEST_LOAD ||
        tensor->array != p->plain->items[0])
        return false;
    const char *entry = print_symbol(p, loop->name);
    text_printf(p->out, "for (i64 %s = (i64)first_item; %s < (i64)last_item;) {\n", entry, entry);
    for (const NestNode *node = loop->body; node != item; node = node->next) print_node(p, node);
    text_puts(p->out, "do {\n");
    print_body(p, item);
    text_printf(p->out, "} while (++%s < (i64)last_item && a->%s[%s].tensor == %s);\n}\n", entry,
                p->e->table, entry, print_symbol(p, tensor->name));
    return true;
}

/* The items that a scan's kernel is launched with, as C text; LS_ITEMS_OF rescales the range. */
static const char *given_items(NestPrinter *p) {
    const ls_image_extent *extent = &p->e->items;
    Text text = text_open(p->arena);
    text_printf(&text, "%llu", (unsigned long long)extent->scale);
    for (uint32_t i = 0; i < extent->factor_count; i++) {
        const ls_image_factor *factor = &extent->factor[i];
        text_puts(&text, " * (((i64)1");
        for (uint32_t axis = 0; axis < p->e->f->axis_count; axis++)
            if (factor->axes >> axis & 1) text_printf(&text, " * a->%s", p->e->size_name[axis]);
        text_printf(&text, " + %llu) / %llu)", (unsigned long long)factor->divide - 1,
                    (unsigned long long)factor->divide);
    }
    return text.data;
}

static void print_items(NestPrinter *p, const NestNode *loop) {
    const char *outer = p->lane, *name = print_symbol(p, loop->name);
    const char *extent = print_index(p, loop->extent);
    if (loop->loop == LOOP_SERIAL)
        text_printf(p->out, "for (i64 %s = 0; %s < %s; %s++) {\n", name, name, extent, name);
    else if (!p->e->target->gpu && p->e->phase->shape == SHAPE_SCAN && p->e->list < 0)
        text_printf(p->out, "LS_ITEMS_OF(%s, %s, %s) {\n", name, extent, given_items(p));
    else
        text_printf(p->out, "LS_ITEMS(%s, %s) {\n", name, extent);
    if (p->nest->lanes > 1 && !outer) declare_lane(p, name);
    print_body(p, loop->body);
    p->lane = outer;
    text_puts(p->out, "}\n");
}

static void print_grid(NestPrinter *p, const NestNode *loop) {
    if (print_entries(p, loop)) return;
    if (p->plain->partitions) { /* the one that the thread, or the warp, is given */
        print_body(p, loop->body);
        return;
    }
    const bool whole = print_open_whole(p, loop->body);
    print_items(p, loop);
    if (!whole) return;
    print_else_whole(p);
    print_items(p, loop);
    print_close_whole(p);
}

static void print_vector(NestPrinter *p, const NestNode *loop) {
    if (p->nest->lanes == 1) {
        print_leaves(p, loop);
        return;
    }
    const char *name = print_symbol(p, loop->name);
    p->vector = loop->name;
    p->vector_loop = loop;
    p->one_row_if = NULL;
    print_open_vector(p, loop);
    const size_t size = p->out->size;
    print_draws(p, loop, "4");
    const char *one_row = p->out->size == size ? print_one_row(p, loop) : NULL;
    if (one_row) text_printf(p->out, "if (%s) {\n", one_row);
    p->one_row = one_row;
    text_printf(p->out, "LS_UNROLL\nfor (int %s = 0; %s < %s; %s++) {\n", name, name,
                print_index(p, loop->extent), name);
    print_body(p, loop->body);
    text_puts(p->out, "}\n");
    p->one_row = false;
    if (one_row)
        print_other_rows(p, loop);
    else
        print_close_vector(p, loop);
}

/* Whether the body stores to an ALLOC; with `scalars`: to one in registers, which makes a
 * loop-carried dependence. */
static bool carries(const NestPrinter *p, const NestNode *body, bool scalars) {
    for (const NestNode *node = body; node; node = node->next) {
        const NestNode *alloc = node->kind == NEST_STORE ? p->allocs[node->array] : NULL;
        if (alloc && (!scalars || alloc->scope == SCOPE_REGISTER)) return true;
    }
    return false;
}

/* The same loop over whole rounds of vectors, then over the rest, for which compilers make other
 * code: rows, and tensors of a list, end anywhere. */
static void print_main_and_rest(NestPrinter *p, const NestNode *loop, const char *count, bool row) {
    const char *name = print_symbol(p, loop->name);
    const char *whole = names_stem(p->e, NULL, "whole", (const char *const[]){NULL});
    text_printf(p->out, "const i64 %s = %s(%s);\n%sfor (i64 %s = 0; %s < %s; %s++) {\n", whole,
                row ? "LS_WHOLE" : "LS_ROUNDS", emit_bare(p->e, count),
                emit_interleaved(p->e, loop->body), name, name, whole, name);
    print_body(p, loop->body);
    text_printf(p->out, "}\n%s\nfor (i64 %s = %s; %s < %s; %s++) {\n", row ? "LS_REST" : "LS_FOURS",
                name, whole, name, count, name);
    print_body(p, loop->body);
    text_puts(p->out, "}\n");
}

static bool has_serial(const NestNode *body) {
    for (const NestNode *node = body; node; node = node->next)
        if ((node->kind == NEST_LOOP && node->loop != LOOP_UNROLLED) || has_serial(node->body) ||
            has_serial(node->other))
            return true;
    return false;
}

/* What compilers have to be told of a loop whose iterations are independent, or NULL: over a chunk
 * of columns or a tile's lanes, if it does more than to take what folds of others come to; over
 * rows, if it takes what was gathered. */
static const char *independence(const NestPrinter *p, const NestNode *loop) {
    if (p->nest->lanes > 1 || loop->loop != LOOP_SERIAL || has_serial(loop->body)) return NULL;
    if (emit_takes_gathered(p->e, p->nest, loop)) return "LS_INDEPENDENT";
    const bool many = nest_has(loop->body, NEST_LOOP) && emit_has_many_pairs(p->e, loop->body);
    const bool told = (many || p->e->phase->shape == SHAPE_COLUMNS) && !emit_takes_others(loop);
    return told ? emit_independent(p->e) : NULL;
}

/* A batch of rows: a loop that computes each row's own values, then one call that reduces all. */
static void print_batch(NestPrinter *p, const NestNode *rows, const char *head, const char *count) {
    Text body = text_open(p->arena), *out = p->out;
    const NestNode *outer = p->batch;
    p->batch = rows;
    p->batch_arrays = text_open(p->arena);
    p->out = &body;
    print_body(p, rows->body);
    p->out = out;
    p->batch = outer;
    if (p->batch_arrays.size) text_puts(out, p->batch_arrays.data);
    if (body.size) text_printf(out, "%s%s}\n", head, body.data);
    text_printf(out, "%s%s%s", p->batch_call, emit_bare(p->e, count), p->batch_call_end);
}

/* Of one thread, an innermost loop is what compilers make vector code of. */
static void print_rounds(NestPrinter *p, const NestNode *loop) {
    const char *name = print_symbol(p, loop->name), *count = print_index(p, loop->extent);
    int64_t number;
    const bool constant = index_is_number(loop->extent, &number);
    const bool run = p->nest->lanes == 1 && loop->loop == LOOP_SERIAL &&
                     !nest_has(loop->body, NEST_LOOP) && !nest_has(loop->body, NEST_COMBINE) &&
                     !carries(p, loop->body, true);
    if (run) {
        p->run = loop->name;
        print_draws(p, loop, count);
        print_open_non_temporal(p, loop);
    }
    const bool row = p->e->phase->shape == SHAPE_ROWS && p->e->outer_count;
    const bool tensor = p->e->list >= 0 && !constant && !nest_has(loop->body, NEST_PUSH);
    if (run && (row || tensor) && !nest_is_long(loop->body)) {
        print_main_and_rest(p, loop, count, row);
        print_close_non_temporal(p, loop, count);
        return;
    }
    print_combined_ahead(p, loop);
    const bool rows = p->nest->lanes == 1 && loop->loop == LOOP_SERIAL && !run;
    if (rows) {
        p->columns = loop->name;
        print_open_row_non_temporal(p, loop);
    }
    const char *independent = independence(p, loop);
    if (independent) {
        text_printf(p->out, "%s\n", independent);
    } else if (run) {
        if (!carries(p, loop->body, false)) text_puts(p->out, emit_interleaved(p->e, loop->body));
    } else if (loop->loop == LOOP_SERIAL && p->nest->lanes > 1 && (constant || *p->plain->panel)) {
        const uint32_t by = constant ? p->e->target->rows_at_once : 1; /* of few turns: rolled */
        text_puts(p->out, by ? arena_printf(p->arena, "LS_UNROLL_BY(%u)\n", by) : "LS_ROWS\n");
    } else if (loop->loop == LOOP_UNROLLED) {
        text_puts(p->out, p->nest->lanes > 1 ? "LS_UNROLL\n" : "LS_UNROLLED\n");
    }
    const bool tile = !constant && p->nest->lanes > 1 && print_is_tile(p, loop->extent);
    const char *head = arena_printf(p->arena, "for (%s %s = 0; %s < %s%s; %s++) {\n",
                                    (constant && p->nest->lanes > 1) || tile ? "int" : "i64", name,
                                    name, tile ? "(int)" : "", count, name);
    if (print_is_batch(p, loop)) {
        print_batch(p, loop, head, count);
    } else {
        text_puts(p->out, head);
        print_body(p, loop->body);
        print_padding(p, loop, loop->body);
        text_puts(p->out, "}\n");
    }
    print_pushed(p, loop, loop->body);
    if (run) print_close_non_temporal(p, loop, count);
    if (rows) print_close_row_non_temporal(p, loop, count);
}

/* Unswitches a loop of loads: where all vectors are whole, the loads are issued without a branch
 * between them. */
static void print_serial(NestPrinter *p, const NestNode *loop) {
    const char *whole = print_whole_if(p, loop);
    const bool tested = whole && strcmp(whole, "1") != 0;
    p->whole = whole != NULL;
    if (tested) text_printf(p->out, "if (%s) {\n", emit_bare(p->e, whole));
    print_rounds(p, loop);
    p->whole = false;
    if (tested) {
        text_puts(p->out, "} else {\n");
        print_rounds(p, loop);
        text_puts(p->out, "}\n");
    }
}

static void print_threads(NestPrinter *p, const NestNode *loop, const char *own, bool *inside) {
    p->spelled[loop->name] = own;
    *inside = true;
    print_body(p, loop->body);
    *inside = false;
}

/* Of a phase, which kernels of fewer or more warps run: in turns. */
static void print_warps(NestPrinter *p, const NestNode *loop) {
    if (p->kernel || p->plain->team) {
        print_threads(p, loop, p->warp, &p->in_warp);
        return;
    }
    const char *name = print_symbol(p, loop->name);
    text_printf(p->out, "for (i64 %s = %s; %s < %s; %s += (i64)ls_warps()) {\n", name, p->warp,
                name, print_index(p, loop->extent), name);
    print_threads(p, loop, name, &p->in_warp);
    text_puts(p->out, "}\n");
}

static void print_loop(NestPrinter *p, const NestNode *loop) {
    switch (loop->loop) {
    case LOOP_GRID: print_grid(p, loop); break;
    case LOOP_LANE: print_threads(p, loop, print_own_lane(p, loop), &p->in_lane); break;
    case LOOP_WARP: print_warps(p, loop); break;
    case LOOP_VECTOR: print_vector(p, loop); break;
    default:
        if (p->nest->lanes > 1 && !p->lane && !p->kernel && p->plain->partitions)
            print_items(p, loop);
        else if (print_is_leaves(p, loop) || print_down(p, loop))
            print_leaves(p, loop);
        else
            print_serial(p, loop);
    }
}

static void print_branch(NestPrinter *p, const NestNode *node, const char *condition) {
    text_printf(p->out, "if (%s) {\n", condition);
    print_body(p, node->body);
    if (node->other) {
        text_puts(p->out, "} else {\n");
        print_body(p, node->other);
    }
    text_puts(p->out, "}\n");
}

static void find_quick(const NestPrinter *p, const NestNode *body, bool *any, bool *all) {
    for (const NestNode *node = body; node; node = node->next) {
        *any |= print_is_quick(node);
        if (node->kind == NEST_ADD) *all = false;
        if (node->kind == NEST_STORE && p->nest->symbols[node->array].kind == NAMED_ARRAY)
            *all = false;
        if (node->kind == NEST_PUSH && p->trees[node->array]) *all = false; /* of all tiles */
        find_quick(p, node->body, any, all);
        find_quick(p, node->other, any, all);
    }
}

/* Whether both conditions make one. */
static bool holds_one_if(const NestNode *node) {
    const NestNode *body = node->body;
    return !node->other && body && body->kind == NEST_IF && !body->next && !body->other;
}

/* Min or max of a full tile in one thread: the first body uses quick functions that may be wrong
 * where there is a NaN or a zero; then (`odd`) the ELSE body does the tile again. */
static void print_if(NestPrinter *p, const NestNode *node) {
    bool any = false, all = p->nest->lanes == 1 && node->version;
    const char *condition = print_amount(p, node->extent);
    find_quick(p, node->body, &any, &all);
    if (!any || !all) {
        for (; holds_one_if(node); node = node->body)
            condition =
                arena_printf(p->arena, "%s && %s", condition, print_amount(p, node->body->extent));
        print_branch(p, node, condition);
        return;
    }
    const char *odd = names_made(p->e, "odd");
    text_printf(p->out, "int %s = !(%s);\nif (!%s) {\n", odd, condition, odd);
    p->odd = odd;
    print_body(p, node->body);
    p->odd = NULL;
    text_printf(p->out, "}\nif (%s) {\n", odd);
    print_body(p, node->other);
    text_puts(p->out, "}\n");
}

/* What follows is done by whoever is the last to be through with the items. */
static void print_arrive(NestPrinter *p, const NestNode *node) {
    Emitter *e = p->e;
    const char *done = emit_add_field(e, arena_printf(e->arena, "phase_%u_done", e->number), "u32",
                                      (ls_image_extent){.scale = sizeof(uint32_t)}, true);
    if (p->nest->warps > 1)
        text_printf(p->out, "if (arrivals && ls_last_block(a->%s)) {\n", done);
    else
        text_printf(p->out, "if (arrivals && ls_arrive(a->%s, arrivals)%s) {\n", done,
                    p->nest->lanes > 1 ? " && ls_lane() == 0" : "");
    const bool in_lane = p->in_lane;
    p->in_lane |= p->nest->warps == 1; /* one lane alone is there */
    print_body(p, node->next);
    p->in_lane = in_lane;
    text_puts(p->out, "}\n");
}

/* Omits a row's number of vectors if only this loop uses it: the call takes the row's length. */
static void drop_count(NestPrinter *p, const NestNode *loop) {
    const Index *count = &loop->extent;
    if (loop->loop == LOOP_SERIAL && count->count == 1 && count->terms[0].count == 1 &&
        p->uses[count->terms[0].symbols[0]] == 1)
        p->ahead[count->terms[0].symbols[0]] = true;
}

static void find_symbols(NestPrinter *p, const NestNode *body) {
    for (const NestNode *node = body; node; node = node->next) {
        if (node->kind == NEST_LET) p->value_of[node->name] = node->value;
        if (node->kind == NEST_ARRIVE) p->is_counter[node->array] = true;
        if (node->kind == NEST_LOOP) p->loops[node->name] = (uint8_t)(1 + node->loop);
        if (node->kind == NEST_LOOP && node->loop == LOOP_VECTOR && p->nest->lanes == 1)
            for (const NestNode *push = node->body; push; push = push->next)
                if (push->kind == NEST_PUSH) p->by_vectors[push->array] = true;
        if (print_is_leaves(p, node)) drop_count(p, node);
        if (print_down(p, node)) drop_count(p, print_down(p, node));
        find_symbols(p, node->body);
        find_symbols(p, node->other);
    }
}

/* ---- outs that may be absent ---- */

/* Whether the node has no effect but on one out, which is found, and on what `all` declares. */
static bool serves_out(const NestNode *node, const NestNode *all, SymbolId *out) {
    const bool writes = node->kind == NEST_STORE || node->kind == NEST_PUSH;
    if (node->kind == NEST_BARRIER || node->kind == NEST_ARRIVE || node->kind == NEST_ADD)
        return false;
    if (writes && !emit_declares(all->body, node->array)) {
        if (node->kind == NEST_PUSH || (*out && *out != node->array)) return false;
        *out = node->array;
    }
    for (const NestNode *own = node->body; own; own = own->next)
        if (!serves_out(own, all, out)) return false;
    for (const NestNode *own = node->other; own; own = own->next)
        if (!serves_out(own, all, out)) return false;
    return true;
}

/* Of a kernel's work for nothing but an out that may be absent: the out's number + 1; else 0. */
static uint32_t optional_out(const NestPrinter *p, const NestNode *node) {
    SymbolId out = 0;
    const bool work = node->kind == NEST_LOOP || node->kind == NEST_IF || node->kind == NEST_WHEN ||
                      node->kind == NEST_STORE;
    if (!p->kernel || p->guarded || !work || !serves_out(node, node, &out) || !out) return 0;
    const uint32_t array = print_array_of(p, out);
    return array < p->e->plan->array_count && plan_is_optional(p->e->plan, array) ? array + 1 : 0;
}

static void print_node(NestPrinter *p, const NestNode *node) {
    switch (node->kind) {
    case NEST_LOOP: print_loop(p, node); break;
    case NEST_IF:
        (node->version && p->one_version ? print_body(p, node->other) : print_if(p, node));
        break;
    case NEST_WHEN: print_branch(p, node, print_symbol(p, node->where)); break;
    case NEST_ALLOC: print_alloc(p, node); break;
    case NEST_LET: print_let(p, node); break;
    case NEST_LOAD:
        print_load(p, node);
        if (p->plain->items[0] == node->array && node->array) {
            if (is_tensor(node->next, node->name)) declare_tensor(p, node->name);
        }
        break;
    case NEST_STORE:
    case NEST_ADD: print_store(p, node); break;
    case NEST_FOLD: print_fold(p, node); break;
    case NEST_TREE: print_tree(p, node); break;
    case NEST_PUSH: print_push(p, node); break;
    case NEST_COMBINE: print_combine(p, node); break;
    case NEST_BARRIER: print_barrier(p, node); break;
    case NEST_ARRIVE: print_last(p, node); break;
    case NEST_PREFETCH: print_prefetch(p, node); break;
    case NEST_KIND_COUNT: bug(p->e->compiler, "a node is of no kind");
    }
}

void print_body(NestPrinter *p, const NestNode *body) {
    for (const NestNode *node = body; node; node = node->next) {
        const uint32_t optional = optional_out(p, node);
        if (node->kind == NEST_ARRIVE && !node->name) {
            print_arrive(p, node);
            return;
        }
        if (optional) text_printf(p->out, "if (a->%s) {\n", p->e->field_name[optional - 1]);
        p->guarded |= optional != 0;
        print_node(p, node);
        if (optional) p->guarded = false;
        if (optional) text_puts(p->out, "}\n");
    }
}

/* The nest, an optional array's work only where the array is bound. */
static void print_all(NestPrinter *p) {
    const uint32_t optional = p->kernel ? 0 : plan_optional_of(p->e->plan, p->e->phase);
    bool decided = false;
    for (const NestNode *node = p->nest->body; node; node = node->next) {
        const bool work = node->kind == NEST_LOOP || node->kind == NEST_WHEN;
        const bool guarded = optional && work;
        if (work && !decided) decide_non_temporal(p);
        decided |= work;
        if (node->kind == NEST_ARRIVE && !node->name) {
            print_arrive(p, node);
            return;
        }
        if (guarded) text_printf(p->out, "if (a->%s) {\n", p->e->field_name[optional - 1]);
        print_node(p, node);
        if (guarded) text_puts(p->out, "}\n");
    }
}

bool emit_nest(Emitter *e, const PlainNest *plain, const Kernel *kernel, const char *name,
               const char *comment, Text *out) {
    Nest *nest = plain->nest;
    Arena *arena = arena_child(e->arena);
    NestPrinter p = {
        .e = e, .plain = plain, .nest = nest, .out = out, .kernel = kernel, .arena = arena};
    const size_t count = 4 * nest->symbol_count + 64; /* and those that printing makes */
    p.spelled = arena_alloc(arena, count * sizeof *p.spelled);
    p.capacity = count;
    p.adjacent = arena_alloc(arena, count * sizeof *p.adjacent);
    p.packet = arena_alloc(arena, count * sizeof *p.packet);
    p.same_row = arena_alloc(arena, count * sizeof *p.same_row);
    p.allocs = arena_alloc(arena, count * sizeof *p.allocs);
    p.inside = arena_alloc(arena, count * sizeof *p.inside);
    p.store = arena_alloc(arena, count * sizeof *p.store);
    p.moved = arena_alloc(arena, count * sizeof *p.moved);
    p.moved_text = arena_alloc(arena, count * sizeof *p.moved_text);
    p.own_body = arena_alloc(arena, count * sizeof *p.own_body);
    p.user_body = arena_alloc(arena, count * sizeof *p.user_body);
    p.uses = arena_alloc(arena, count * sizeof *p.uses);
    p.is_scratch = arena_alloc(arena, count * sizeof *p.is_scratch);
    p.is_index = arena_alloc(arena, count * sizeof *p.is_index);
    p.is_bound = arena_alloc(arena, count * sizeof *p.is_bound);
    p.ahead = arena_alloc(arena, count * sizeof *p.ahead);
    p.non_temporal_off = e->target->gpu;
    p.trees = arena_alloc(arena, count * sizeof *p.trees);
    p.own_trees = arena_alloc(arena, count * sizeof *p.own_trees);
    p.is_vector = arena_alloc(arena, count * sizeof *p.is_vector);
    p.pitch = arena_alloc(arena, count * sizeof *p.pitch);
    p.loops = arena_alloc(arena, count * sizeof *p.loops);
    p.private = arena_alloc(arena, count * sizeof *p.private);
    print_count_uses(&p);
    emit_find_calls(e, nest->values);
    p.value_of = arena_alloc(arena, count * sizeof *p.value_of);
    p.is_counter = arena_alloc(arena, count * sizeof *p.is_counter);
    p.by_vectors = arena_alloc(arena, count * sizeof *p.by_vectors);
    find_symbols(&p, nest->body);
    Text own = text_open(arena);
    p.before = text_open(arena);
    p.label = name;
    p.out = &own;
    names_begin_nest(e);
    names_made(e, name);
    for (size_t i = 0; i < e->f->axis_count; i++) names_made(e, e->size_name[i]);
    e->last_line = 0;
    static const char *const given[] = {"", "LS_PANEL_TEAM, ", "LS_PANEL_PART, "};
    text_printf(&own, "%s\nLS_PHASE void %s(const struct %s *a, %sLS_ITEM_RANGE) {\n", comment,
                name, e->arguments, given[plain->panel[0] ? 2 : plain->team]);
    for (int i = 0; i < PANEL_GIVEN && plain->panel[0]; i++)
        if (block_panel[i]) names_made(e, block_panel[i]);
    static const char *const team[] = {"member", "first_warp"};
    for (size_t i = 0; i < COUNT(team) && plain->team; i++) names_made(e, team[i]);
    spell_sizes(&p);
    const bool shared = nest->warps > 1 && !print_is_kept(nest, plain);
    if (nest->lanes > 1 && !plain->team && (shared || nest->width == 1 || plain->items[0]))
        declare_lane(&p, NULL);
    if (nest->warps > 1) {
        p.warp = names_made(e, "own_warp");
        text_printf(&own, "const i64 %s = %s;\n", p.warp,
                    plain->team ? "member" : "(i64)ls_warp()");
    }
    declare_derived(&p);
    declare_arrays(&p);
    declare_scratch(&p);
    print_all(&p);
    if (p.non_temporal && !e->fused && !plain->panel[0])
        text_puts(&own, "if (non_temporal) ls_non_temporal_end();\n");
    text_puts(&own, "}\n");
    text_printf(out, "%s%s", p.before.size ? p.before.data : "", own.data);
    arena_close(arena);
    return p.non_temporal;
}
