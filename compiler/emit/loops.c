/* loops.c: what the loops of the dialect with one lane have besides: forms that compilers make
 * better vector code of.
 *
 * A tile's lanes are added up over eight rows. Where all eight are there and what is done with an
 * element is short, it stands in the loop over lanes, or over a strip's columns, eight times, and
 * their values stay in registers. What the rows of a strip have of their own is computed for all of
 * them first, and not again for every 64 columns. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

const char *emit_used_lines(Emitter *e, const char *lines, const char *text) {
    Text kept = text_open(e->arena);
    for (const char *line = lines; *line;) {
        const size_t size = strcspn(line, "\n");
        const char *end = memmem(line, size, " = ", 3), *name = end;
        while (name && name > line && name[-1] != ' ') name--;
        if (!name || emit_has_word(text, arena_copy(e->arena, name, (size_t)(end - name))))
            text_printf(&kept, "%.*s\n", (int)size, line);
        line += size + (line[size] != 0);
    }
    return kept.data;
}

static bool has_draws(const Emitter *e) {
    static const uint8_t draws[] = {OP_RANDOM_BITS, OP_RANDOM_UNIFORM, OP_RANDOM_NORMAL};
    for (size_t n = 0; n < e->phase->value_count; n++)
        for (size_t i = 0; i < COUNT(draws); i++)
            if (e->f->values[e->phase->values[n]].op == draws[i]) return true;
    return false;
}

unsigned emit_element_cost(const Emitter *e) {
    unsigned cost = 0;
    const Group *columns = emit_walks_columns(e) ? &e->outer[e->outer_count - 1] : NULL;
    for (size_t i = 0; i < e->phase->value_count; i++) {
        const ValueId v = e->phase->values[i];
        const Value *value = &e->f->values[v];
        if (e->phase->levels[i] != LEVEL_ELEMENT) continue;
        if (columns && !(value->axes & columns->axes)) continue; /* a row's */
        cost += plan_is_read(e->plan, e->phase, v) ? 0 : op_info[value->op].work;
    }
    return cost;
}

/* Whether what is done with an element may stand there eight times. */
static bool is_short(const Emitter *e) {
    enum { COST_MOST = 24 };
    unsigned cost = 0;
    if (e->target->simt || !e->phase->reduction_count || has_draws(e)) return false;
    for (size_t i = 0; i < e->phase->reduction_count; i++) {
        const Op op = (Op)e->f->values[e->phase->reductions[i]].op;
        if (op == OP_ARGMIN || op == OP_ARGMAX) return false;
        if (op == OP_LOGSUMEXP) cost += op_info[OP_EXP].work;
    }
    return emit_element_cost(e) + cost <= COST_MOST;
}

/* Whether the phase reads the array from memory along rows that lie one behind the other. */
static bool reads_rows(const Emitter *e, const Phase *phase, uint32_t array) {
    const AxisSet all = e->phase->outer | e->phase->inner;
    return phase->shape == SHAPE_ROWS && phase->inner == e->phase->inner &&
           e->plan->arrays[array].axes == all && !e->plan->arrays[array].near &&
           !emit_held(e, array) && plan_value_reads(e->plan, phase, array);
}

/* ---- whole tiles of arrays that are read once ---- */

/* Whether the phase goes over memory as it lies and does little with it. */
static bool takes_tiles(const Emitter *e) {
    if (e->chained || e->layout != LS_LAYOUT_DENSE || e->inner_count != 1 || e->inner[0].whole)
        return false;
    if (e->phase->shape != SHAPE_ROWS || e->portion != PORTION_WHOLE || !is_short(e)) return false;
    for (uint32_t axis = 0; axis < e->f->axis_count; axis++)
        if (emit_is_split(e, axis)) return false;
    for (size_t i = 0; i < e->phase->store_count; i++)
        if (e->phase->stores[i].level == LEVEL_ELEMENT) return false;
    for (size_t i = 0; i < e->phase->reduction_count; i++)
        if (e->f->values[e->phase->reductions[i]].op == OP_LOGSUMEXP) return false;
    return true;
}

void emit_tiles(Emitter *e, Sections *s, const Roots *roots) {
    static const char *const suffixes[] = {"copy", NULL};
    const Group *fast = &e->inner[0];
    if (!takes_tiles(e)) return;
    for (uint32_t i = 0; i < e->plan->array_count; i++)
        if (reads_rows(e, e->phase, i) && emit_may_hold(e, i) &&
            strcmp(emit_offset(e, i, fast, 1), fast->name) == 0)
            e->tile_name[i] =
                names_stem(e, NULL, arena_printf(e->arena, "%s_tile", e->field_name[i]), suffixes),
            e->tiled = true;
    if (!e->tiled) return;
    emit_section(e, &s->tile_body, roots->values, roots->count, s->before, PLACE_ELEMENT);
    text_puts(&s->tile_push, emit_part(e, PART_PUSH_EIGHT));
    e->tiled = false;
}

/* A tile is read eight lines apart, which no processor takes for a stream: of an array that is far
 * it is copied in order first, and of a narrow one widened once. */
static const char *tiles_text(Emitter *e) {
    Text text = text_open(e->arena);
    for (uint32_t i = 0; i < e->plan->array_count; i++) {
        if (!e->tile_name[i]) continue;
        const Type type = e->plan->arrays[i].type, wide = type_info[type].compute;
        const char *name = e->tile_name[i], *storage = type_info[type].c_name;
        const char *from = arena_printf(e->arena, "&%s[%s]", emit_data(e, i),
                                        emit_join_offset(e, emit_base(e, i), "first"));
        const char *copied =
            arena_printf(e->arena, "ls_hold_%s(%s_copy, %s, 1024)", storage, name, from);
        emit_note_held(e, type);
        text_printf(&text,
                    "%s %s_copy[1024] LS_ALIGN(64);\nconst %s *const %s = ", type_info[wide].c_name,
                    name, type_info[wide].c_name, name);
        text_printf(&text, wide == type ? "stop - start >= LS_FAR / 1024 ? %s : %s;\n" : "%s;\n",
                    copied, from);
    }
    return text.data;
}

/* ---- what a chain asks for ---- */

/* Whether the phase takes rows that lie one behind the other, as a chain does. */
static bool has_next_rows(const Emitter *e) {
    if (e->target->simt || !e->chained || e->phase->shape != SHAPE_ROWS || e->list >= 0)
        return false;
    for (uint32_t axis = 0; axis < e->f->axis_count; axis++)
        if (emit_is_rest(e, axis)) return false;
    return e->layout == LS_LAYOUT_DENSE && e->inner_count == 1;
}

/* Which phases of the chain read the array's rows, too. */
typedef struct Readers {
    bool before, after;
} Readers;

static Readers other_readers(const Emitter *e, uint32_t array) {
    Readers others = {false, false};
    const uint32_t own = e->number - 1, end = e->chained->first + plan_mains(e->chained);
    for (uint32_t p = e->chained->first; p < end; p++) {
        const bool reads = reads_rows(e, &e->plan->phases[p], array);
        others.before |= reads && p < own;
        others.after |= reads && p > own;
    }
    return others;
}

/* Prefetches a part of the tile that comes next, or "": so does the first phase of a chain that
 * reads an array, from wherever it is. */
static const char *next_part(Emitter *e) {
    Text text = text_open(e->arena);
    if (!has_next_rows(e)) return "";
    for (uint32_t i = 0; i < e->plan->array_count; i++)
        if (reads_rows(e, e->phase, i) && !other_readers(e, i).before)
            text_printf(&text, "    ls_ask(&%s[%s + 1024 + 8 * some], 256 * (i64)sizeof(%s));\n",
                        emit_data(e, i), emit_join_offset(e, emit_base(e, i), "first"),
                        type_info[e->plan->arrays[i].type].c_name);
    if (!text.size) return "";
    return arena_printf(e->arena, "if (%s * inner >= LS_FAR) {\n%s}\n",
                        emit_product(e, e->outer, e->outer_count), text.data);
}

/* A chain's rows come from memory in its first phase and stay near for the others. Where they are
 * short the last one to read an array asks for the rows that the first will want next, while it has
 * other work; long ones would not all stay near. */
const char *emit_asked(Emitter *e, const char *from, const char *count) {
    Text text = text_open(e->arena);
    if (!has_next_rows(e)) return "";
    for (uint32_t i = 0; i < e->plan->array_count; i++) {
        if (!reads_rows(e, e->phase, i)) continue;
        const Readers others = other_readers(e, i);
        if (!others.before || others.after) continue;
        const char *type = type_info[e->plan->arrays[i].type].c_name;
        text_printf(&text,
                    "    ls_ask_rows(&%s[(outer + (stop - start) / tiles) * inner + %s], "
                    "%s * (i64)sizeof(%s));\n",
                    emit_data(e, i), from, count, type);
    }
    if (!text.size) return "";
    const char *outers = emit_product(e, e->outer, e->outer_count);
    return arena_printf(e->arena,
                        "/* The rows that come next. */\n"
                        "if (%s * inner >= LS_FAR && inner <= LS_NEAR_ROW &&\n"
                        "    outer + (stop - start) / tiles < %s) {\n%s}\n",
                        outers, outers, text.data);
}

/* ---- whole tiles ---- */

void emit_tops(Emitter *e, Sections *s) {
    ValueId *roots = arena_alloc(e->arena, (e->phase->reduction_count + 1) * sizeof *roots);
    size_t count = 0;
    for (size_t i = 0; i < e->phase->reduction_count; i++) {
        const Value *value = &e->f->values[e->phase->reductions[i]];
        if (value->op == OP_LOGSUMEXP) roots[count++] = value->arg[0];
    }
    if (!count || e->phase->shape != SHAPE_ROWS || !is_short(e)) return;
    emit_section(e, &s->top_body, roots, count, s->before, PLACE_ELEMENT);
    s->tops = emit_part(e, PART_PUSH_TOP);
}

static const char *tops_text(Emitter *e, const Sections *s) {
    Text text = text_open(e->arena);
    if (!*s->tops) return "";
    Hole holes[] = {{"EIGHT", emit_part(e, PART_TOP_EIGHT)},
                    {"FAST", e->inner[0].name},
                    {"BODY", s->top_body.data},
                    {"PUSH", s->tops},
                    {"PUSH_LANE", emit_part(e, PART_TOP_LANE)},
                    {"TOP", emit_part(e, PART_TOP)}};
    emit_fill(e, &text, "rows_top.loop.k", holes, COUNT(holes));
    return text.data;
}

/* The loop over the lanes of a whole tile of a row, or "". */
const char *emit_whole(Emitter *e, const Sections *s) {
    const Group *fast = e->inner_count == 1 ? &e->inner[0] : NULL;
    if (e->phase->shape != SHAPE_ROWS || !fast || fast->whole || s->length.size) return "";
    if (!is_short(e) || emit_has_word(s->body.data, "at")) return "";
    Text text = text_open(e->arena);
    const char *asked =
        arena_printf(e->arena, "%s%s", next_part(e), emit_asked(e, "first + 8 * some", "256"));
    const char *odd = emit_part(e, PART_ODD); /* each behind " | " */
    const char *done = *odd ? arena_printf(e->arena, "if (!(%s)) ", odd + 3) : "";
    const char *body = s->tile_body.size ? s->tile_body.data : s->body.data;
    const char *used = arena_printf(e->arena, "%s%s", body, s->stores.data);
    Hole holes[] = {{"BASES", emit_used_lines(e, s->bases.data, used)},
                    {"COPIES", tiles_text(e)},
                    {"SOME", *asked ? "32" : "128"}, /* not all at once, which would wait */
                    {"LANES", emit_part(e, PART_LANES)},
                    {"TOPS", tops_text(e, s)},
                    {"EIGHT", emit_part(e, PART_EIGHT)},
                    {"FAST", fast->name},
                    {"ASKED", asked},
                    {"BODY", body},
                    {"PUSH", s->tile_body.size ? s->tile_push.data : s->eights},
                    {"STORES", s->stores.data},
                    {"PUSH_LANE", emit_part(e, PART_PUSH_LANE)},
                    {"WHOLE", emit_part(e, PART_WHOLE)},
                    {"DONE", done}};
    emit_fill(e, &text, "rows_whole.loop.k", holes, COUNT(holes));
    return text.data;
}

/* Before a loop over columns: that its elements are apart, where nothing is read or added to at
 * other coordinates. Compilers would compare all arrays' addresses, or give up. */
const char *emit_apart(const Emitter *e) {
    static const uint8_t others[] = {OP_GATHER, OP_SCATTER, OP_CALL, OP_SCAN};
    for (size_t i = 0; i < e->phase->store_count; i++)
        if (e->phase->stores[i].kind == STORE_ADD) return "";
    for (size_t n = 0; n < e->phase->value_count; n++)
        for (size_t i = 0; i < COUNT(others); i++)
            if (e->f->values[e->phase->values[n]].op == others[i]) return "";
    return "LS_APART";
}

typedef struct Own {
    Text declared, keep, take;
} Own;

/* Of the lines that name what a row has, those whose name is used: as an array over the rows that
 * go together, `index` where they are kept. */
static void keep_lines(Emitter *e, Own *own, const char *index, const char *lines,
                       const char *used) {
    const char *type, *word;
    while (emit_next_value(e, &lines, used, &type, &word)) {
        const char *all = names_made(e, arena_printf(e->arena, "%s_of_eight", word));
        text_printf(&own->declared, "%s %s[8];\n", type, all);
        text_printf(&own->keep, "%s[%s] = %s;\n", all, index, word);
        text_printf(&own->take, "const %s %s = %s[row];\n", type, word, all);
    }
}

/* Before a map's loop: how many vectors side by side. */
const char *emit_interleaved(const Emitter *e) {
    enum { COST_MOST = 80 };
    bool narrow = emit_element_cost(e) <= COST_MOST;
    for (size_t i = 0; i < e->phase->store_count; i++)
        narrow &= type_info[e->plan->arrays[e->phase->stores[i].array].type].size < 4;
    for (uint32_t i = 0; i < e->plan->array_count; i++)
        if (e->plan->arrays[i].axes && plan_value_reads(e->plan, e->phase, i))
            narrow &= type_info[e->plan->arrays[i].type].size < 4;
    return narrow ? "LS_INTERLEAVED_NARROW" : "LS_INTERLEAVED";
}

/* The loop over columns that takes eight rows at once, where `all` are there. */
const char *emit_eights(Emitter *e, const Sections *s) {
    if (e->target->simt || e->portion != PORTION_STRIP) return "";
    const bool fours = !s->vector_push.size;
    if (!is_short(e) || !*emit_apart(e)) return "const int all = 0;\n";
    Text text = text_open(e->arena), used = text_open(e->arena), coordinates = text_open(e->arena);
    Own own = {text_open(e->arena), text_open(e->arena), text_open(e->arena)};
    text_printf(&used, "%s%s%s", s->body.data, s->eights, s->stores.data);
    keep_lines(e, &own, fours ? "some" : "row", s->bases.data, used.data);
    keep_lines(e, &own, fours ? "some" : "row", s->row.data, used.data);
    const char *kept = arena_printf(e->arena, "%s%s", s->row.data, own.keep.data);
    const char *vectors = emit_column_vectors(e, s, own.take.data);
    const char *bases = emit_used_lines(e, s->bases.data, kept);
    const bool placed =
        emit_coordinates(e, &coordinates, s->body.data, s->stores.data, s->eights) ||
        emit_has_word(used.data, "at");
    const char *at = fours ? "first + 128 * (begin + row)" : "first + 128 * row";
    Hole holes[] = {
        {"VECTORS", vectors},
        {"VECTORS_END", *vectors ? "}\n" : ""},
        {"AT", at},
        {"COLUMN", e->outer[e->outer_count - 1].name},
        {"COLUMN_DECODE", s->column_decoded.data},
        {"EIGHT", emit_part(e, PART_EIGHT)},
        {"DECODE", s->decoded.data},
        {"DECODED",
         placed ? arena_printf(e->arena, "const i64 at = %s;\n%s", at, coordinates.data) : ""},
        {"BASES", bases},
        {"ROW", s->row.data},
        {"OWN", own.declared.data},
        {"KEEP", own.keep.data},
        {"TAKE", own.take.data},
        {"BODY", s->body.data},
        {"PUSH", s->eights},
        {"STORES", s->stores.data},
        {"TOTALS", fours ? emit_part(e, PART_TOTALS) : ""},
        {"PUSH_LANE", emit_part(e, fours ? PART_PUSH_FOURS : PART_PUSH_EIGHTS)}};
    emit_fill(e, &text, fours ? "columns_fours.loop.k" : "columns_eights.loop.k", holes,
              COUNT(holes));
    return text.data;
}

bool emit_is_named_before(const Emitter *e, const Roots *values, size_t index) {
    for (size_t i = 0; i < index; i++)
        if (strcmp(e->text_of[values->values[i]], e->text_of[values->values[index]]) == 0)
            return true;
    return false;
}

/* What a strip has of its rows, where that is some work: the lines that compute it, in
 * s->row, go into a loop of their own, and from there on it is taken from arrays. */
void emit_rows_ahead(Emitter *e, Sections *s, const Roots *rows) {
    enum { COST_LEAST = 4 };
    unsigned cost = 0;
    if (e->phase->shape != SHAPE_COLUMNS || e->outer_count != 1 || e->inner_count != 1) return;
    if (has_draws(e) || e->list >= 0 || s->length.size) return;
    /* by value: whether it stands in the row's lines */
    for (ValueId v = 1; v < e->f->value_count; v++)
        if (e->ready[v] == READY_ROW && !plan_is_read(e->plan, e->phase, v))
            cost += op_info[e->f->values[v].op].work;
    if (cost < COST_LEAST) return;
    Text taken = text_open(e->arena);
    for (size_t i = 0; i < rows->count; i++) {
        const ValueId v = rows->values[i];
        const bool leaf = op_info[e->f->values[v].op].flags & OP_LEAF;
        if (leaf && !plan_is_read(e->plan, e->phase, v)) continue;
        if (emit_is_named_before(e, rows, i)) continue;
        const char *name = e->text_of[v], *type = emit_type((Type)e->f->values[v].type);
        const char *own = names_made(e, arena_printf(e->arena, "%s_of_row", name));
        text_printf(&s->ahead_declared, "%s %s[8];\n", type, own);
        text_printf(&s->ahead_kept, "%s[row] = %s;\n", own, name);
        text_printf(&taken, "const %s %s = %s[row];\n", type, name, own);
    }
    s->ahead_values = s->row;
    s->row = taken;
}

/* Of the offsets each of the two loops has those that it uses. */
void emit_share_bases(Emitter *e, Sections *s) {
    Text body = text_open(e->arena), bases = text_open(e->arena);
    text_printf(&body, "%s%s%s%s", s->row.data, s->body.data, s->stores.data, s->push);
    text_puts(&bases, emit_used_lines(e, s->bases.data, body.data));
    text_puts(&s->ahead_bases, emit_used_lines(e, s->bases.data, s->ahead_values.data));
    s->bases = bases;
}

const char *emit_ahead(Emitter *e, const Sections *s) {
    if (!s->ahead_declared.size) return "";
    Text text = text_open(e->arena);
    Hole holes[] = {{"DECLARED", s->ahead_declared.data},
                    {"DECODE", s->decoded.data},
                    {"BASES", s->ahead_bases.data},
                    {"VALUES", s->ahead_values.data},
                    {"KEPT", s->ahead_kept.data}};
    emit_fill(e, &text, "columns_ahead.loop.k", holes, COUNT(holes));
    return text.data;
}
