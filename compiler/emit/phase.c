/* phase.c: one phase as a function of the argument structure.
 *
 * Collects the text for each hole of the phase's skeletons and fills them: what is done with an
 * item of work or a run of items (templates/<shape>.<lanes>.k), and how items are taken
 * (phase.<lanes>.k). axes.c says how the axes are walked. */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"
#include "emit/emit.h"

static const char *const shape_names[SHAPE_COUNT] = {"scalar", "map", "rows", "columns", "scan"};

/* What a portion's names end in, and which of the phase's texts it has. */
static const struct {
    const char *name, *frame;
    bool elements, results;
} portions[] = {[PORTION_WHOLE] = {"", "phase.%s.k", true, true},
                [PORTION_STRIP] = {"_strip", "strip.k", true, false},
                [PORTION_FINISH] = {"_finish", "phase.%s.k", false, true}};

/* ---- sections ---- */

/* A list stands for its values. */
static void add_root(Emitter *e, Roots *roots, ValueId v) {
    if (!v) return;
    if (e->f->values[v].op == OP_LIST) {
        add_root(e, roots, e->f->values[v].arg[0]);
        add_root(e, roots, e->f->values[v].arg[1]);
        return;
    }
    roots->values =
        arena_grow(e->arena, roots->values, roots->count, &roots->capacity, sizeof *roots->values);
    roots->values[roots->count++] = v;
}

static void add_stored(Emitter *e, Roots *roots, Level level) {
    for (size_t i = 0; i < e->phase->store_count; i++)
        if (e->phase->stores[i].level == level) {
            ValueId v = e->phase->stores[i].value;
            for (Guard guard; plan_keeps(e->plan, e->phase->stores[i].array, &v, &guard);)
                add_root(e, roots, guard.condition);
            add_root(e, roots, plan_stored(e->plan, e->phase, &e->phase->stores[i]));
        }
}

/* The values of a level that others use: operands of values of another level, and what is stored.
 */
static void add_frontier(Emitter *e, Roots *roots, Level level) {
    const Phase *phase = e->phase;
    bool *added = arena_alloc(e->arena, e->f->value_count * sizeof *added);
    for (size_t i = 0; i < phase->store_count; i++) {
        ValueId v = phase->stores[i].value;
        for (Guard guard; plan_keeps(e->plan, phase->stores[i].array, &v, &guard);) {
            const ValueId c = guard.condition;
            if (plan_level(phase, c) == level && !added[c]) add_root(e, roots, c);
            added[c] = true;
        }
        v = plan_stored(e->plan, e->phase, &phase->stores[i]);
        if (plan_level(phase, v) == level && !added[v]) add_root(e, roots, v);
        added[v] = true;
    }
    for (size_t i = 0; i < phase->guard_count; i++) {
        ValueId v = phase->guards[i].condition;
        if (plan_level(phase, v) == level && !added[v]) add_root(e, roots, v);
        added[v] = true;
    }
    for (size_t n = 0; n < phase->value_count; n++) {
        if (phase->levels[n] == level) continue;
        ValueId operands[3];
        const size_t count = plan_operands(e->plan, phase, phase->values[n], operands);
        for (size_t i = 0; i < count; i++) {
            if (plan_level(phase, operands[i]) == level && !added[operands[i]])
                add_root(e, roots, operands[i]);
            added[operands[i]] = true;
        }
    }
}

/* Of what the element loop of one lane's columns needs, the largest values that do not vary over
 * the columns. */
static void add_rows(Emitter *e, Roots *roots, const Roots *body, unsigned available) {
    const AxisSet columns = e->outer[e->outer_count - 1].axes;
    bool *wanted = arena_alloc(e->arena, e->f->value_count * sizeof *wanted);
    for (size_t i = 0; i < body->count; i++) wanted[body->values[i]] = true;
    for (ValueId v = (ValueId)e->f->value_count; v-- > 1;) {
        if (!wanted[v] || available >> plan_level(e->phase, v) & 1) continue;
        const Value *value = &e->f->values[v];
        if (!(value->axes & columns)) {
            add_root(e, roots, v);
            continue;
        }
        ValueId operands[3];
        for (size_t i = emit_operands(e, v, operands); i-- > 0;) wanted[operands[i]] = true;
    }
}

/* Around the work: what must hold for it to have an effect. */
static const char *guard_text(const Emitter *e) {
    const uint32_t optional = plan_optional_of(e->plan, e->phase);
    const char *join = optional ? " && " : "if (";
    Text text = text_open(e->arena);
    if (optional) text_printf(&text, "if (a->%s", e->field_name[optional - 1]);
    for (size_t i = 0; i < e->phase->guard_count; i++) {
        const Guard *guard = &e->phase->guards[i];
        text_printf(&text, "%s%s%s", join, guard->holds ? "" : "!", e->text_of[guard->condition]);
        join = " & ";
    }
    if (text.size) text_puts(&text, ") {\n");
    return text.data;
}

static void list_names(Text *text, const char *before, const Group *groups, size_t count) {
    for (size_t i = 0; i < count; i++) text_printf(text, "%s%s", i ? ", " : before, groups[i].name);
}

static const char *comment_text(Emitter *e) {
    static const struct {
        const char *alone, *after;
    } words[SHAPE_COUNT] = {[SHAPE_MAP] = {"Each of ", ", each of "},
                            [SHAPE_ROWS] = {"Over ", " over "},
                            [SHAPE_COLUMNS] = {"Over ", " over "},
                            [SHAPE_SCAN] = {"Along ", ", along "}};
    Text text = text_open(e->arena);
    text_puts(&text, "/* ");
    const size_t empty = text.size;
    if (e->phase->shape == SHAPE_SCALAR) text_puts(&text, "Values on their own");
    list_names(&text, "For each of ", &e->tensor, e->list >= 0);
    list_names(&text, text.size > empty ? ", " : "For each of ", e->outer, e->outer_count);
    list_names(&text,
               text.size > empty ? words[e->phase->shape].after : words[e->phase->shape].alone,
               e->inner, e->inner_count);
    if (e->phase->reduction_count) {
        text_puts(&text, ":");
        for (size_t i = 0; i < e->phase->reduction_count; i++) {
            const Value *value = &e->f->values[e->phase->reductions[i]];
            text_printf(&text, "%s %s%s%s", i ? "," : "", plan_reduction(value),
                        value->name ? " " : "", value->name ? value->name : "");
        }
    }
    text_puts(&text, ". */");
    return text.data;
}

static const char *push_octet_text(Emitter *e) {
    for (size_t i = 0; i < e->phase->reduction_count; i++)
        emit_strip_fields(e, e->phase->reductions[i]);
    return emit_part(e, PART_PUSH_OCTET);
}

static bool has_stores(const Emitter *e, Level level) {
    for (size_t i = 0; i < e->phase->store_count; i++)
        if (e->phase->stores[i].level == level) return true;
    return false;
}

static const char *tail_text(Emitter *e) {
    if (!has_stores(e, LEVEL_TAIL)) return "";
    Text text = text_open(e->arena), stores = text_open(e->arena);
    emit_stores(e, &stores, LEVEL_TAIL, PLACE_SCALAR, "    ");
    const char *done = emit_add_field(e, arena_printf(e->arena, "phase_%u_done", e->number), "u32",
                                      (ls_image_extent){.scale = sizeof(uint32_t)}, true);
    text_printf(&text, "if (parties && ls_arrive(a->%s, parties)%s) {\n%s}\n", done,
                e->target->simt ? " && ls_lane() == 0" : "", stores.data);
    return text.data;
}

static void open_phase(Emitter *e, uint32_t number, Portion portion) {
    size_t arrays = e->plan->array_count, values = e->f->value_count;
    e->phase = &e->plan->phases[number];
    e->number = number + 1;
    e->portion = portion;
    names_begin(e);
    e->data_name = arena_alloc(e->arena, arrays * sizeof *e->data_name);
    e->at_name = arena_alloc(e->arena, arrays * sizeof *e->at_name);
    e->text_of = arena_alloc(e->arena, values * sizeof *e->text_of);
    e->name_of = arena_alloc(e->arena, values * sizeof *e->name_of);
    e->uses = arena_alloc(e->arena, values * sizeof *e->uses);
    e->ready = arena_alloc(e->arena, values * sizeof *e->ready);
    e->draw_name = arena_alloc(e->arena, values * sizeof *e->draw_name);
    e->draw_count = 0;
    e->draws_ahead = false;
    e->tile_name = arena_alloc(e->arena, arrays * sizeof *e->tile_name);
    e->tiled = false;
    for (size_t axis = 0; axis < e->f->axis_count; axis++) names_made(e, e->size_name[axis]);
    emit_open_axes(e);
    e->block_name = arena_alloc(e->arena, arrays * sizeof *e->block_name);
    emit_find_streams(e);
}

static Sections open_sections(Emitter *e) {
    const bool simt = e->target->simt, columns = emit_walks_columns(e);
    Sections s = {.simt = simt,
                  .columns = columns,
                  .push = "",
                  .eights = "",
                  .tops = "",
                  .tile = "",
                  .finish = "",
                  .before = 1u << LEVEL_SCALAR | (emit_in_loop_columns(e) ? 0 : 1u << LEVEL_OUTER)};
    Text *const texts[] = {&s.draws,      &s.scalars,     &s.tensor,         &s.column_decoded,
                           &s.rest,       &s.length,      &s.outer,          &s.row,
                           &s.body,       &s.stores,      &s.epilogue,       &s.decoded,
                           &s.leaf_push,  &s.bases,       &s.outer_decoded,  &s.row_declared,
                           &s.row_values, &s.row_kept,    &s.ahead_declared, &s.ahead_values,
                           &s.ahead_kept, &s.ahead_bases, &s.vector_body,    &s.vector_push,
                           &s.top_body,   &s.tile_body,   &s.tile_push};
    for (size_t i = 0; i < COUNT(texts); i++) *texts[i] = text_open(e->arena);
    return s;
}

/* Of a list's values, those that differ between tensors only, where others use them. */
static void add_tensor_values(Emitter *e, Roots *roots) {
    const Phase *phase = e->phase;
    bool *added = arena_alloc(e->arena, e->f->value_count * sizeof *added);
    for (size_t n = phase->value_count; n-- > 0;) {
        const ValueId v = phase->values[n];
        ValueId operands[3];
        if (e->f->values[v].axes == e->tensor.axes) continue;
        for (size_t i = emit_operands(e, v, operands); i-- > 0;) {
            const bool own = e->f->values[operands[i]].axes == e->tensor.axes;
            if (own && plan_level(phase, operands[i]) == LEVEL_OUTER && !added[operands[i]])
                add_root(e, roots, operands[i]);
            added[operands[i]] = true;
        }
    }
    for (size_t i = 0; i < phase->store_count; i++) {
        ValueId v = plan_stored(e->plan, e->phase, &phase->stores[i]);
        if (v && e->f->values[v].axes == e->tensor.axes && plan_level(phase, v) == LEVEL_OUTER &&
            !added[v])
            add_root(e, roots, v);
    }
}

/* Once, and once for each outer coordinate; one lane's columns compute the latter per element. */
static void values_before_loop(Emitter *e, Sections *s) {
    Roots roots = {0};
    add_frontier(e, &roots, LEVEL_SCALAR);
    emit_section(e, &s->scalars, roots.values, roots.count, 0, PLACE_SCALAR);
    s->guard = guard_text(e);
    if (e->list >= 0) {
        roots.count = 0;
        add_tensor_values(e, &roots);
        emit_section(e, &s->tensor, roots.values, roots.count, 1u << LEVEL_SCALAR, PLACE_TENSOR);
    }
    if (emit_in_loop_columns(e)) return;
    roots.count = 0;
    add_frontier(e, &roots, LEVEL_OUTER);
    emit_section(e, &s->outer, roots.values, roots.count, 1u << LEVEL_SCALAR, PLACE_OUTER);
}

/* Whether the element loop has something ahead of it where draws can be made: of four elements, or
 * of a run of them. */
static bool draws_ahead(const Emitter *e) {
    const Shape shape = e->phase->shape;
    if (e->target->simt) return false;
    return shape == SHAPE_ROWS || emit_in_loop_columns(e);
}

/* What differs between the rows of a strip only, a lane computes for a row of its own ahead of all
 * columns; the loop over the rows has it from there. */
static void keep_rows(Emitter *e, Sections *s, const Roots *body) {
    Roots all = {0}, rows = {0};
    add_rows(e, &all, body, s->before);
    for (size_t i = 0; i < all.count; i++) {
        const Value *value = &e->f->values[all.values[i]];
        const bool leaf = op_info[value->op].flags & OP_LEAF;
        if ((!leaf || plan_is_read(e->plan, e->phase, all.values[i])) && value->op != OP_LIST &&
            value->axes && !(value->axes & ~e->phase->inner))
            add_root(e, &rows, all.values[i]);
    }
    emit_section(e, &s->row_values, rows.values, rows.count, s->before, PLACE_ROW);
    for (size_t v = 0; v < e->f->value_count; v++) e->ready[v] &= READY_TENSOR;
    for (size_t i = 0; i < rows.count; i++) {
        const ValueId v = rows.values[i];
        e->ready[v] = READY_ROW;
        if (emit_is_named_before(e, &rows, i)) continue;
        const char *name = e->text_of[v], *type = emit_type((Type)e->f->values[v].type);
        const char *own = names_made(e, arena_printf(e->arena, "%s_of_row", name));
        text_printf(&s->row_declared, "%s %s = 0;\n", type, own);
        text_printf(&s->row_kept, "%s = %s;\n", own, name);
        text_printf(&s->body, "const %s %s = ls_shuffle_xor(%s, ls_lane() ^ (u32)row);\n", type,
                    name, own);
    }
}

/* The lines before the columns of a strip that do so. */
static const char *kept_text(Emitter *e, const Sections *s) {
    Text text = text_open(e->arena);
    Hole holes[] = {{"DECLARED", s->row_declared.data},
                    {"DECODE", s->decoded.data},
                    {"VALUES", s->row_values.data},
                    {"KEPT", s->row_kept.data}};
    if (s->row_declared.size) emit_fill(e, &text, "strip_rows.simt.k", holes, COUNT(holes));
    return text.data;
}

static void element_loop(Emitter *e, Sections *s) {
    Roots roots = {0};
    for (size_t i = 0; i < e->phase->reduction_count; i++)
        add_root(e, &roots, e->f->values[e->phase->reductions[i]].arg[0]);
    add_stored(e, &roots, LEVEL_ELEMENT);
    if (emit_in_loop_columns(e)) {
        Roots rows = {0};
        add_rows(e, &rows, &roots, s->before);
        emit_section(e, &s->row, rows.values, rows.count, s->before, PLACE_ROW);
        emit_rows_ahead(e, s, &rows);
    }
    if (s->simt && e->portion == PORTION_STRIP) keep_rows(e, s, &roots);
    emit_vectors(e, s, &roots);
    emit_tiles(e, s, &roots);
    emit_tops(e, s);
    e->draws_ahead = draws_ahead(e);
    emit_section(e, &s->body, roots.values, roots.count, s->before, PLACE_ELEMENT);
    emit_stores(e, &s->stores, LEVEL_ELEMENT, PLACE_ELEMENT,
                s->simt ? "if (own_column < columns) " : ""); /* no element past the end */
    if (e->draws_ahead) emit_draws(e, s->columns ? &s->row : &s->draws);
    e->draws_ahead = false;
    s->push = emit_part(e, PART_PUSH); /* while the operands' names are those of the loop */
    s->eights = emit_part(e, PART_PUSH_EIGHT);
}

/* What becomes of the reductions' results. One lane's rows are finished in a loop of their own,
 * where nothing of the outer coordinate has been computed. */
static void values_after_loop(Emitter *e, Sections *s) {
    const bool batched = e->phase->shape == SHAPE_ROWS;
    Roots roots = {0};
    s->tile = emit_part(e, PART_TILE);
    s->finish = emit_part(e, PART_FINISH);
    for (size_t v = 0; v < e->f->value_count; v++) e->ready[v] &= READY_TENSOR;
    add_stored(e, &roots, LEVEL_EPILOGUE);
    emit_section(e, &s->epilogue, roots.values, roots.count,
                 batched ? 1u << LEVEL_SCALAR : s->before, PLACE_EPILOGUE);
    emit_stores(e, &s->epilogue, LEVEL_EPILOGUE, PLACE_EPILOGUE, "");
}

/* Where blocks are walked one by one, what is walked is as long as the block. */
static void find_length(Emitter *e, Sections *s) {
    bool split = false;
    for (uint32_t axis = 0; axis < e->f->axis_count; axis++) split |= emit_is_split(e, axis);
    s->inner = split ? "length" : "inner";
    if (!split) return;
    emit_split_sizes(e, &s->outer_decoded);
    text_printf(&s->length, "const i64 length = %s;\n", emit_product(e, e->inner, e->inner_count));
}

static void coordinates(Emitter *e, Sections *s) {
    const Shape shape = e->phase->shape;
    emit_decode(e, &s->outer_decoded, e->outer, e->outer_count - (s->columns ? 1 : 0), "outer",
                false);
    find_length(e, s);
    emit_decode(e, &s->decoded, e->inner, e->inner_count, "at", !s->columns);
    if (s->columns) {
        const Group *column = &e->outer[e->outer_count - 1];
        emit_decode_blocks(e, &s->column_decoded, column, column->name, true);
    } else if (!s->simt && e->inner_count) {
        emit_decode_rest(e, &s->rest, &e->inner[e->inner_count - 1]);
    }
    if (shape == SHAPE_ROWS && e->phase->reduction_count) {
        const char *fast = e->inner[e->inner_count - 1].name;
        text_printf(&s->leaf_push, "const i64 leaf = row * wide + at - first + (%s - %s_first);\n",
                    fast, fast);
    }
    text_puts(&s->leaf_push, s->push);
}

/* What a phase of a chain computes once becomes a function of its own, which the kernel calls
 * before the first row; the phase takes it from there. Gives the lines that do. */
static const char *open_values(Emitter *e, const char *phase_name, const char *scalars,
                               const char *used, Text *out) {
    Text members = text_open(e->arena), keep = text_open(e->arena), take = text_open(e->arena);
    const char *lines = scalars, *type, *own;
    while (emit_next_value(e, &lines, used, &type, &own)) {
        text_printf(&members, "%s %s;\n", type, own);
        text_printf(&keep, "values.%s = %s;\n", own, own);
        text_printf(&take, "const %s %s = values.%s;\n", type, own, own);
    }
    if (!members.size) return NULL;
    Text sizes = text_open(e->arena), tensor = text_open(e->arena);
    Hole holes[] = {{"SIZES", NULL},           {"PHASE", phase_name}, {"ARGUMENTS", e->arguments},
                    {"MEMBERS", members.data}, {"SCALARS", scalars},  {"KEEP", keep.data}};
    emit_locals(e, holes, COUNT(holes), &sizes, &tensor);
    holes[0].text = emit_used_lines(e, sizes.data, scalars);
    emit_fill(e, out, "phase_open.k", holes, COUNT(holes));
    return take.data;
}

static Hole *find_hole(Hole *holes, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(holes[i].name, name) == 0) return &holes[i];
    return NULL;
}

/* The texts of all holes but one. */
static const char *other_text(Emitter *e, const Hole *holes, size_t count, const Hole *but) {
    Text text = text_open(e->arena);
    for (size_t i = 0; i < count; i++)
        if (&holes[i] != but && holes[i].text) text_printf(&text, "%s\n", holes[i].text);
    return text.data;
}

/* The rows of a strip's blocks, sent off. */
static const char *strip_blocks(Emitter *e, const Sections *s, const StreamText *streams) {
    return arena_printf(e->arena,
                        "for (int row = 0; stream && row < rows; row++) {\n"
                        "    const i64 at = first + 128 * row;\n%s%s}\n",
                        s->decoded.data, streams->blocks.data);
}

static void fill_skeleton(Emitter *e, const Sections *s, const StreamText *streams,
                          PhaseText *phase, Text *out) {
    const Group *fast = e->inner_count ? &e->inner[e->inner_count - 1] : NULL;
    const Group *column = s->columns ? &e->outer[e->outer_count - 1] : NULL;
    const bool results = portions[e->portion].results;
    const char *fast_name = fast ? fast->name : "";
    const char *followed = results && emit_is_followed(e)
                               ? emit_followed(e, e->list >= 0 ? e->tensor.name : "outer")
                               : "";
    const char *asked = emit_asked(e, "at", arena_printf(e->arena, "(end - %s_first)", fast_name));
    const bool streamed = streams->decide.size, split = s->length.size,
               strip = e->portion == PORTION_STRIP && !s->simt;
    Hole holes[] = {
        {"SIZES", NULL},
        {"WORK", NULL},
        {"RESULTS", ""},
        {"COMMENT", comment_text(e)},
        {"PHASE", phase->name},
        {"VALUES", ""},
        {"ARGUMENTS", e->arguments},
        {"SCALARS", s->scalars.data},
        {"GUARD", s->guard},
        {"GUARD_END", *s->guard ? "}\n" : ""},
        {"TENSOR", e->tensor.name},
        {"TENSOR_SIZES", NULL},
        {"TENSOR_VALUES", s->tensor.data},
        {"TABLE", e->table},
        {"SPACE", emit_space(e)},
        {"ITEM_COUNT", emit_item_count(e)},
        {"COLUMN", column ? column->name : ""},
        {"FAST", fast ? fast->name : ""},
        {"FAST_END", fast ? emit_run_end(e, fast) : ""},
        {"INNER", s->inner},
        {"LAST", split ? "first + ls_within(length - first)" : "ls_least(first + 1024, inner)"},
        {"COUNT", split ? "ls_within(length - first)" : "ls_least(1024, inner - first)"},
        {"OUTER_DECODE", s->outer_decoded.data},
        {"COLUMN_DECODE", s->column_decoded.data},
        {"LENGTH", s->length.data},
        {"ASKED", asked},
        {"WHOLE", emit_whole(e, s)},
        {"AHEAD", emit_ahead(e, s)},
        {"EIGHTS", emit_eights(e, s)},
        {"APART", emit_apart(e)},
        {"INTERLEAVED", emit_interleaved(e)},
        {"KEPT", kept_text(e, s)},
        {"REST", s->rest.data},
        {"OUTER", s->outer.data},
        {"DECODE", s->decoded.data},
        {"BASES", s->bases.data},
        {"ROW", s->row.data},
        {"STREAM", strip ? emit_strip_streams(e) : streams->decide.data},
        {"BLOCKS", strip ? streams->decide.data : ""},
        {"BLOCK", s->draws.size ? "ls_least(last - at, 1024)"
                  : *asked      ? "ls_least(last - at, inner <= LS_NEAR_ROW ? 256 : last - at)"
                  : streamed    ? "ls_least(last - at, stream ? 1024 : last - at)"
                                : "(last - at)"},
        {"STREAM_BLOCKS", strip && streamed ? strip_blocks(e, s, streams) : streams->blocks.data},
        {"STREAM_END", streamed && !e->chained ? "if (stream) ls_stream_end();\n" : ""},
        {"MAIN", ""},
        {"REST_FROM", ""},
        {"BODY", s->body.data},
        {"PUSH", s->leaf_push.data},
        {"STORES", s->stores.data},
        {"LEVELS", emit_part(e, PART_LEVELS)},
        {"LEAVES", emit_part(e, PART_LEAVES)},
        {"PAD", emit_part(e, PART_PAD)},
        {"PARTS", emit_part(e, PART_PARTS)},
        {"PUSH_ROW", emit_part(e, PART_PUSH_ROW)},
        {"PUSH_LANE", emit_part(e, PART_PUSH_LANE)},
        {"PUSH_OCTET", e->portion == PORTION_STRIP ? push_octet_text(e) : ""},
        {"OCTETS", e->portion == PORTION_FINISH ? emit_part(e, PART_OCTETS) : ""},
        {"CHUNKS", column ? emit_chunk_count(e) : ""},
        {"TILE", s->tile},
        {"COMBINE",
         results && e->phase->reduction_count && !emit_one_tile(e) ? emit_combine(e) : ""},
        {"FINISH", s->finish},
        {"EPILOGUE", s->epilogue.data},
        {"FOLLOWED", followed},
        {"TAIL", results ? tail_text(e) : ""},
    };
    const bool list = e->list >= 0;
    const char *work = arena_printf(e->arena, "%s%s.%s.k", shape_names[e->phase->shape],
                                    portions[e->portion].name, e->target->lanes);
    const char *frame =
        arena_printf(e->arena, list ? "list.%s.k" : portions[e->portion].frame, e->target->lanes);
    Text text = text_open(e->arena), sizes = text_open(e->arena), tensor = text_open(e->arena);
    Text finished = text_open(e->arena), main_loop = text_open(e->arena);
    if (e->phase->shape == SHAPE_ROWS &&
        (e->phase->reduction_count || s->epilogue.size || *followed)) {
        emit_fill(e, &finished, "rows_results.loop.k", holes, COUNT(holes));
        find_hole(holes, COUNT(holes), "RESULTS")->text = finished.data;
    }
    if (e->phase->shape == SHAPE_ROWS) {
        const bool rows = e->outer_count > 0;
        emit_fill(e, &main_loop, "rows_main.loop.k", holes, COUNT(holes));
        find_hole(holes, COUNT(holes), "MAIN")->text = rows ? main_loop.data : "LS_INTERLEAVED\n";
        find_hole(holes, COUNT(holes), "REST_FROM")->text =
            rows ? "whole" : arena_printf(e->arena, "%s_first", fast_name);
    }
    emit_fill(e, &text, work, holes, COUNT(holes));
    find_hole(holes, COUNT(holes), "WORK")->text = text.data;
    Hole *scalars = find_hole(holes, COUNT(holes), "SCALARS");
    const char *others = other_text(e, holes, COUNT(holes), scalars);
    const char *take = e->chained ? open_values(e, phase->name, scalars->text, others, out) : NULL;
    if (e->chained) scalars->text = take ? take : "";
    emit_locals(e, holes, COUNT(holes), &sizes, &tensor);
    holes[0].text = e->chained ? emit_used_lines(e, sizes.data, others) : sizes.data;
    find_hole(holes, COUNT(holes), "TENSOR_SIZES")->text = tensor.data;
    if (take) {
        phase->values = arena_printf(e->arena, "%s_values", phase->name);
        find_hole(holes, COUNT(holes), "VALUES")->text =
            arena_printf(e->arena, "const struct %s values, ", phase->values);
    }
    emit_fill(e, out, frame, holes, COUNT(holes));
}

/* The nest that the phase is printed from. */
static PlainNest *find_nest(Emitter *e, Arena *arena) {
    const bool columns = e->phase->shape == SHAPE_COLUMNS;
    const char *problem;
    const PhaseNumbers numbers = {.columns = columns ? e->outer[e->outer_count - 1].axes : 0,
                                  .strided = e->layout == LS_LAYOUT_STRIDED,
                                  .finished = emit_is_followed(e) && e->portion != PORTION_STRIP,
                                  .chain = e->chained,
                                  .portion = e->portion,
                                  .held = emit_held_arrays(e)};
    PlainNest *nest = schedule_phase(e->plan, e->number - 1, e->target, &numbers, arena, &problem);
    if (!nest) bug(e->compiler, "a phase of step %s has no schedule: %s", e->f->name, problem);
    nest_check(nest->nest);
    return nest;
}

PhaseText emit_phase(Emitter *e, uint32_t number, Portion portion, Text *out) {
    open_phase(e, number, portion);
    PhaseText result = {.name = arena_printf(e->arena, "%sphase_%u%s", e->prefix, e->number,
                                             portions[portion].name),
                        .tail = has_stores(e, LEVEL_TAIL)};
    emit_find_items(e, &result);
    Arena *arena = arena_child(e->arena);
    const PlainNest *nest = find_nest(e, arena);
    if (nest) {
        e->eights |= nest->nest->width == 8;
        result.streams = emit_nest(e, nest, NULL, result.name, comment_text(e), out);
    }
    arena_close(arena);
    if (nest) return result;
    Sections sections = open_sections(e);
    values_before_loop(e, &sections);
    if (portions[portion].elements) element_loop(e, &sections);
    if (portions[portion].results) values_after_loop(e, &sections);
    coordinates(e, &sections);
    const StreamText streams = emit_streams(e);
    result.streams = streams.decide.size > 0;
    text_printf(&sections.bases, "%s%s%s", emit_bases(e), streams.bases.data, sections.draws.data);
    if (sections.ahead_declared.size) emit_share_bases(e, &sections);
    fill_skeleton(e, &sections, &streams, &result, out);
    return result;
}
