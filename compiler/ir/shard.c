/* shard.c: a step over whole arrays, for a rank that has a part of them.
 *
 * Needs a function without gradients or scans to come (after simplify); gives stages, functions
 * that a rank runs in their order on its part. A list is cut within its tensors, along one axis, or
 * between them. What a reduction along what is cut makes of a part is stored (a value per tile of
 * 1024 elements within tensors, a value per tensor between them), the parts of all ranks are put
 * together, and the next stage begins with the reduction of all of them: the tree is that of the
 * whole, so the bits are. Every stage computes what it needs of the step's arrays anew, and only
 * the last one stores to them, so the order of the statements stays. A list counts all tensors of
 * the whole, of which those of other ranks are empty: indices and draws by tensor are those of the
 * whole; along the axis that is cut they begin where the part does. */
#include <string.h>

#include "base/base.h"
#include "ir/ir.h"

enum { TILE = 1024 };

typedef struct Shard {
    const Function *f;
    int list, axis; /* the axis that counts tensors, or -1; the one that is cut, or -1: between */
    AxisSet cut;    /* the axes of what a rank has a part of */
    bool *needed, *partial, *crosses; /* by value; see analyse */
    bool *of_call;                    /* a list of the arguments of a call */
    uint32_t *level, *number;         /* exchanges before it is there; its own exchange */
    uint32_t last;                    /* stage */
    Sharding *result;
} Shard;

/* ---- what cannot be ---- */

static uint32_t line_of(const Shard *s, Range range) {
    uint32_t line = 0, column = 0;
    if (range.file)
        source_position(&s->f->compiler->sources[range.file], range.begin, &line, &column);
    return line;
}

_Noreturn static void refuse(const Shard *s, Range range, const char *what, const char *help) {
    const Function *f = s->f;
    compiler_fail(f->compiler, LS_ERROR_UNSUPPORTED,
                  "step `%s` cannot run on parts: line %u %s; %s", f->name, line_of(s, range), what,
                  help);
}

static const char *whole_help(const Shard *s) {
    return s->list >= 0 && s->axis >= 0 ? "cut between tensors (units of 0 for ls_partition)"
                                        : "run it on whole arrays";
}

static bool is_cut(const Shard *s, AxisSet axes) {
    return (axes & s->cut) != 0;
}

static bool is_reduction(const Value *v) {
    return op_info[v->op].flags & OP_REDUCTION;
}

static bool is_place(int op) {
    return op == OP_ARGMIN || op == OP_ARGMAX;
}

static bool reduces_list(const Shard *s, const Value *v) {
    return is_reduction(v) && s->list >= 0 && (v->payload >> s->list & 1);
}

/* ---- sums over a list as sums over tensors of what each comes to, as they are defined ---- */

static void split_over_list(Shard *s) {
    const Function *f = s->f;
    Function *out = ir_function_like(f);
    const bool *needed = ir_needed(f);
    ValueId *map = arena_alloc(f->arena, f->value_count * sizeof *map);
    const AxisSet list = s->list < 0 ? 0 : (AxisSet)1 << s->list;
    for (ValueId id = 1; id < f->value_count; id++) {
        const Value *v = &f->values[id];
        const ValueId args[3] = {map[v->arg[0]], map[v->arg[1]], map[v->arg[2]]};
        const AxisSet over = (AxisSet)v->payload;
        if (!needed[id]) continue;
        if (!reduces_list(s, v) || !is_cut(s, over)) {
            map[id] = ir_rebuild(out, f, id, args);
            continue;
        }
        if (over == list && is_place(v->op)) { /* of the tensors' values, which come first */
            map[id] = ir_rebuild(out, f, id, args);
            continue;
        }
        if (ir_has_pairs((Op)v->op))
            refuse(s, v->range, "reduces a whole list by more than a sum, a minimum or a test",
                   "run it on whole arrays");
        const ValueId each = ir_reduce(out, (Op)v->op, args[0], over & ~list);
        ir_set_source(out, each, v->range, NULL);
        map[id] = ir_reduce(out, (Op)v->op, each, list);
        ir_set_source(out, map[id], v->range, v->name);
    }
    ir_copy_stores(out, f, map);
    s->f = out;
}

/* ---- which values cross ranks ---- */

static void check_reduction(const Shard *s, const Value *v, const Value *from) {
    const Axis *row = s->axis >= 0 ? &s->f->axes[s->axis] : NULL;
    const AxisSet over = (AxisSet)v->payload;
    if (v->op == OP_LOGSUMEXP && s->f->math != LS_MATH_EXACT)
        refuse(s, v->range, "takes a logsumexp along what is cut, not with math exact",
               whole_help(s));
    if (over & ~s->cut)
        refuse(s, v->range, "reduces along what is cut and another axis in one order",
               whole_help(s));
    if (over != s->cut || (from->axes & s->cut) != s->cut)
        refuse(s, v->range, "reduces along blocks of what is cut", whole_help(s));
    if (row->block >= 0 && row->length != TILE)
        refuse(s, v->range, "reduces along an axis whose blocks are no tiles of 1024 elements",
               "make a step of its own of that, without blocks, or cut between tensors");
}

static void check_value(const Shard *s, const Value *v) {
    const Function *f = s->f;
    const AxisSet axes[2] = {f->values[v->arg[0]].axes, f->values[v->arg[1]].axes};
    const AxisSet list = s->list < 0 ? 0 : (AxisSet)1 << s->list,
                  whole = s->axis >= 0 ? s->cut : list;
    switch (v->op) {
    case OP_SCAN:
        if (whole >> (v->payload & (SCAN_REVERSE - 1)) & 1 && (v->axes & s->cut))
            refuse(s, v->range, "scans along what is cut", whole_help(s));
        break;
    case OP_GATHER:
        if (is_cut(s, axes[0]) && (ir_listed(f, v->arg[1]) & whole))
            refuse(s, v->range, "reads at other places of what is cut", whole_help(s));
        break;
    case OP_SCATTER:
    case OP_SCATTER_MIN:
        if (is_cut(s, axes[0] | axes[1]) &&
            (s->axis >= 0 || (s->list >= 0 && !(v->axes >> s->list & 1))))
            refuse(s, v->range, "adds up what is cut by indices", whole_help(s));
        break;
    case OP_POSITION:
        if (s->axis >= 0 && is_cut(s, (AxisSet)v->payload) && (AxisSet)v->payload != s->cut)
            refuse(s, v->range, "counts places of what is cut and another axis together",
                   whole_help(s));
        break;
    default: break;
    }
}

/* Whether the user wants the operand for all tensors of the list, not for a rank's own. */
static bool wants_all(const Shard *s, const Value *user, ValueId operand) {
    if (s->axis >= 0 || s->list < 0 || !s->partial[operand]) return false;
    if (is_reduction(user)) return user->payload >> s->list & 1;
    if (user->op == OP_SCAN) return (uint32_t)s->list == (user->payload & (SCAN_REVERSE - 1));
    return user->op == OP_GATHER && (ir_listed(s->f, user->arg[1]) >> s->list & 1);
}

static void cross(Shard *s, ValueId id) {
    const Value *v = &s->f->values[id];
    if (s->crosses[id]) return;
    if (s->list >= 0 && v->axes != (AxisSet)1 << s->list)
        refuse(s, v->range, "wants of all ranks what has other axes than the list's",
               "run it on whole arrays");
    s->crosses[id] = true;
}

static bool stores_all(const Shard *s, const Store *store) {
    return !is_cut(s, s->f->parameters[store->parameter].axes);
}

static uint32_t level_for(const Shard *s, ValueId operand, bool all) {
    return s->level[operand] + (all && s->crosses[operand]);
}

/* partial[v]: between tensors, one of each tensor, right for a rank's own only. crosses[v]: within
 * tensors a reduction that all ranks finish; between them what one wants of all tensors. */
static void analyse(Shard *s) {
    const Function *f = s->f;
    const size_t count = f->value_count;
    s->needed = (bool *)(uintptr_t)ir_needed(f);
    s->partial = arena_alloc(f->arena, count * sizeof *s->partial);
    s->crosses = arena_alloc(f->arena, count * sizeof *s->crosses);
    s->level = arena_alloc(f->arena, count * sizeof *s->level);
    s->number = arena_alloc(f->arena, count * sizeof *s->number);
    s->of_call = arena_alloc(f->arena, count * sizeof *s->of_call);
    for (ValueId id = (ValueId)count; --id > 0;) {
        const Value *v = &f->values[id];
        if (v->op == OP_CALL) s->of_call[v->arg[0]] = true;
        if (v->op == OP_LIST && s->of_call[id]) s->of_call[v->arg[1]] = true;
    }
    for (ValueId id = 1; id < count; id++) {
        const Value *v = &f->values[id];
        if (!s->needed[id]) continue;
        check_value(s, v);
        for (int i = 0; i < 3 && v->arg[i]; i++) {
            const bool all = wants_all(s, v, v->arg[i]);
            const bool part = is_cut(s, f->values[v->arg[i]].axes) || s->partial[v->arg[i]];
            if (all && v->op == OP_SCAN)
                refuse(s, v->range, "scans along the list what ranks have parts of",
                       "run it on whole arrays");
            if (all) cross(s, v->arg[i]);
            s->partial[id] |= s->axis < 0 && !is_cut(s, v->axes) && part && !all;
            const uint32_t level = level_for(s, v->arg[i], all);
            if (level > s->level[id]) s->level[id] = level;
        }
        if ((v->op == OP_SCATTER || v->op == OP_SCATTER_MIN) && s->partial[id] && s->list >= 0 &&
            !(v->axes >> s->list & 1))
            refuse(s, v->range, "adds up by indices what ranks have parts of",
                   "run it on whole arrays");
        if (s->axis < 0 || !is_reduction(v) || !is_cut(s, f->values[v->arg[0]].axes)) continue;
        if (is_cut(s, v->axes)) {
            if ((v->axes & s->cut) == (s->cut & (s->cut - 1)))
                refuse(s, v->range, "reduces along blocks of what is cut", whole_help(s));
            continue;
        }
        check_reduction(s, v, &f->values[v->arg[0]]);
        cross(s, id);
        s->level[id]++;
    }
    for (size_t i = 0; i < f->store_count; i++) {
        const ValueId stored[2] = {f->stores[i].value, f->stores[i].guard};
        for (int k = 0; k < 2; k++) {
            const bool all = stores_all(s, &f->stores[i]) && s->partial[stored[k]];
            if (all) cross(s, stored[k]);
            if (level_for(s, stored[k], all) > s->last) s->last = level_for(s, stored[k], all);
        }
    }
}

static void add_exchange(Shard *s, ValueId id, int type, size_t *capacity) {
    Sharding *r = s->result;
    const Value *v = &s->f->values[id];
    r->exchanges =
        arena_grow(s->f->arena, r->exchanges, r->exchange_count, capacity, sizeof *r->exchanges);
    r->exchanges[r->exchange_count++] = (ls_shard_exchange){.type = (ls_type)type,
                                                            .stage = s->level[id] - (s->axis >= 0),
                                                            .tile = s->axis >= 0 ? TILE : 0,
                                                            .line = line_of(s, v->range),
                                                            .axes = s->list >= 0 ? 0 : v->axes};
}

/* Some have two: see shard_pairs.c. */
static void number_exchanges(Shard *s) {
    size_t capacity = 0;
    for (ValueId id = 1; id < s->f->value_count; id++) {
        if (!s->needed[id] || !s->crosses[id]) continue;
        const Value *v = &s->f->values[id];
        const bool pairs = s->axis >= 0 && ir_has_pairs((Op)v->op);
        s->number[id] = (uint32_t)s->result->exchange_count;
        add_exchange(s, id, pairs ? s->f->values[v->arg[0]].type : v->type, &capacity);
        if (pairs) add_exchange(s, id, v->type, &capacity);
    }
}

/* ---- a stage ---- */

typedef struct StageBuild {
    const Shard *s;
    Function *out;
    uint32_t stage;
    bool blocks;     /* the axis that is cut is in tiles here and was not before */
    int axis, tiles; /* of `out`: that axis; the one that counts tiles of all ranks, or -1 */
    uint8_t *axes;   /* by axis of the step */
    uint32_t *parameters;
    bool *own, *all; /* by value: which form the stage needs */
    ValueId *map, *map_all;
    ls_shard_argument *arguments; /* by parameter of `out` */
    size_t argument_capacity;
} StageBuild;

static AxisSet map_axes(const StageBuild *b, AxisSet axes) {
    AxisSet result = 0;
    for (uint32_t a = 0; a < b->s->f->axis_count; a++)
        if (axes >> a & 1) result |= (AxisSet)1 << b->axes[a];
    return ir_expand(b->out, result);
}

static bool is_taken(const Function *f, const char *name) {
    for (size_t i = 0; i < f->parameter_count; i++)
        if (strcmp(f->parameters[i].name, name) == 0) return true;
    for (size_t i = 0; i < f->axis_count; i++)
        if (f->axes[i].name && strcmp(f->axes[i].name, name) == 0) return true;
    return false;
}

static const char *free_name(const StageBuild *b, const char *stem, uint32_t number) {
    const char *name = arena_numbered(b->out->arena, stem, number);
    while (is_taken(b->out, name) || is_taken(b->s->f, name))
        name = arena_printf(b->out->arena, "%s_", name);
    return name;
}

static int map_parent(const StageBuild *b, int axis) {
    return axis < 0 ? -1 : b->axes[axis];
}

static const ls_image_term *map_terms(const StageBuild *b, const Axis *axis) {
    ls_image_term *terms = arena_alloc(b->out->arena, (axis->term_count + 1) * sizeof *terms);
    for (size_t i = 0; i < axis->term_count; i++) {
        terms[i] = axis->terms[i];
        if (terms[i].operation != LS_TERM_AXIS) continue;
        if (b->s->axis == (int)terms[i].value || (b->s->cut >> terms[i].value & 1))
            refuse(b->s, axis->range, "has an axis whose length follows from what is cut",
                   "give it a length of its own");
        terms[i].value = b->axes[terms[i].value];
    }
    return terms;
}

static void add_axis(StageBuild *b, Axis axis) {
    if (b->out->axis_count == LS_AXES_MAX)
        refuse(b->s, b->s->f->range, "has too many axes",
               "run it on whole arrays, or make two steps of it");
    b->out->axes[b->out->axis_count++] = axis;
}

/* The step's axes; behind that which is cut, where it is to be in tiles, those two; and last the
 * one that counts the tiles of all ranks. */
static void make_axes(StageBuild *b) {
    const Function *f = b->s->f;
    Function *out = b->out;
    const int cut = b->s->axis;
    out->axes = arena_alloc(out->arena, LS_AXES_MAX * sizeof *out->axes);
    out->axis_count = 0;
    for (uint32_t a = 0; a < f->axis_count; a++)
        b->axes[a] = (uint8_t)(a + (b->blocks && (int)a > cut ? 2 : 0));
    for (uint32_t a = 0; a < f->axis_count; a++) {
        Axis axis = f->axes[a];
        axis.parent = map_parent(b, axis.parent);
        axis.whole = map_parent(b, axis.whole);
        axis.block = map_parent(b, axis.block);
        axis.rest = map_parent(b, axis.rest);
        if (axis.terms) axis.terms = map_terms(b, &f->axes[a]);
        const bool part = (int)a == cut || (b->s->cut >> a & 1);
        if (part && axis.terms)
            refuse(b->s, axis.range, "has an axis that is cut and whose length follows from others",
                   "give it a length of its own");
        if (part && axis.whole < 0) axis.fixed = -1;
        if (part && axis.whole >= 0 && f->axes[axis.whole].block == (int)a) axis.fixed = -1;
        const bool in_tiles = b->blocks && (int)a == cut;
        if (in_tiles) {
            axis.block = (int)a + 1;
            axis.rest = (int)a + 2;
            axis.length = TILE;
        }
        add_axis(b, axis);
        if (!in_tiles) continue;
        Axis tile = ir_axis(free_name(b, "tile", 0), -1, axis.range), rest = tile;
        tile.whole = rest.whole = (int)a;
        tile.length = rest.length = TILE;
        tile.parent = axis.parent;
        add_axis(b, tile);
        rest.name = free_name(b, "within", 0);
        rest.parent = (int)a + 1;
        add_axis(b, rest);
    }
    b->axis = cut < 0 ? -1 : b->axes[cut];
    b->tiles = -1;
    if (cut < 0 || b->stage == 0) return;
    Axis all = ir_axis(free_name(b, "tiles", 0), -1, f->axes[cut].range);
    all.parent = map_parent(b, b->s->list);
    b->tiles = (int)out->axis_count;
    add_axis(b, all);
}

static uint32_t add_parameter(StageBuild *b, Parameter made, ls_shard_argument from) {
    Function *out = b->out;
    const size_t number = out->parameter_count;
    b->arguments =
        arena_grow(out->arena, b->arguments, number, &b->argument_capacity, sizeof *b->arguments);
    out->parameters = arena_grow(out->arena, out->parameters, number, &out->parameter_capacity,
                                 sizeof *out->parameters);
    out->parameters[number] = made;
    b->arguments[number] = from;
    out->parameter_count++;
    return (uint32_t)number;
}

/* Those of the step; of a stage that is not the last, without what is only written. */
static void make_parameters(StageBuild *b) {
    const Function *f = b->s->f;
    const bool last = b->stage == b->s->last;
    b->out->parameters = NULL;
    b->out->parameter_count = b->out->parameter_capacity = 0;
    for (uint32_t p = 0; p < f->parameter_count; p++) {
        Parameter made = f->parameters[p];
        if (!last && made.role == LS_OUT) continue;
        if (!last) made.role = LS_IN;
        AxisSet declared = 0;
        for (uint32_t a = 0; a < f->axis_count; a++)
            if (made.declared >> a & 1) declared |= (AxisSet)1 << b->axes[a];
        made.axes = map_axes(b, made.axes);
        made.declared = declared;
        b->parameters[p] = add_parameter(b, made, (ls_shard_argument){LS_SHARD_PARAMETER, p});
    }
}

/* One that the step lacks, made when it is first asked for. */
static uint32_t extra(StageBuild *b, ls_shard_argument from, Type type, AxisSet axes,
                      const char *stem) {
    for (uint32_t i = 0; i < b->out->parameter_count; i++)
        if (b->arguments[i].from == from.from && b->arguments[i].number == from.number) return i;
    const Parameter made = {.name = free_name(b, stem, from.number),
                            .role = from.from == LS_SHARD_PARTIAL ? LS_OUT : LS_IN,
                            .type = type,
                            .axes = axes,
                            .declared = axes,
                            .range = b->s->f->range};
    return add_parameter(b, made, from);
}

static AxisSet list_axes(const StageBuild *b) {
    return b->s->list < 0 ? 0 : (AxisSet)1 << b->axes[b->s->list];
}

/* i64, of each tensor: how long the axis of the whole is, or where this rank's part of it begins.
 */
static ValueId by_tensor(StageBuild *b, ls_shard_from from, uint32_t axis) {
    const char *stem = from == LS_SHARD_LENGTH ? "length" : "begin";
    return ir_parameter(b->out,
                        extra(b, (ls_shard_argument){from, axis}, TYPE_I64, list_axes(b), stem));
}

static ValueId blocks_in(StageBuild *b, ValueId elements, int64_t block, int64_t add) {
    Function *out = b->out;
    const ValueId length = ir_constant(out, TYPE_I64, (uint64_t)block);
    if (add) elements = ir_op(out, OP_ADD, elements, ir_constant(out, TYPE_I64, (uint64_t)add), 0);
    return ir_op(out, OP_FLOORDIV, elements, length, 0);
}

static ValueId size_of(StageBuild *b, const Value *v) {
    const Function *f = b->s->f;
    const uint32_t axis = (uint32_t)v->payload;
    const Axis *row = &f->axes[axis];
    const bool is_rest = row->whole >= 0 && f->axes[row->whole].rest == (int)axis;
    const uint32_t whole = row->whole >= 0 ? (uint32_t)row->whole : axis;
    if (!(ir_expand(f, (AxisSet)1 << axis) & b->s->cut) || is_rest)
        return ir_size(b->out, b->axes[axis]);
    const ValueId length = by_tensor(b, LS_SHARD_LENGTH, whole);
    return row->whole < 0 ? length : blocks_in(b, length, row->length, row->length - 1);
}

/* Places along what is cut within tensors are those of the whole. */
static ValueId index_of(StageBuild *b, const Value *v) {
    const Function *f = b->s->f;
    const uint32_t axis = (uint32_t)v->payload;
    Function *out = b->out;
    const Axis *row = &f->axes[axis];
    if (b->s->axis < 0 || !(b->s->cut >> axis & 1)) return ir_index(out, b->axes[axis]);
    const bool is_rest = row->whole >= 0 && f->axes[row->whole].rest == (int)axis;
    if (is_rest) return ir_index(out, b->axes[axis]);
    const ValueId begin = by_tensor(b, LS_SHARD_BEGIN, (uint32_t)b->s->axis);
    if (row->whole >= 0)
        return ir_op(out, OP_ADD, ir_index(out, b->axes[axis]), blocks_in(b, begin, row->length, 0),
                     0);
    const ValueId own = b->blocks ? ir_position(out, map_axes(b, (AxisSet)1 << axis))
                                  : ir_index(out, b->axes[axis]);
    return ir_op(out, OP_ADD, own, begin, 0);
}

static ValueId position_of(StageBuild *b, const Value *v) {
    const AxisSet over = (AxisSet)v->payload;
    const ValueId own = ir_position(b->out, map_axes(b, over));
    if (b->s->axis < 0 || !is_cut(b->s, over)) return own;
    return ir_op(b->out, OP_ADD, own, by_tensor(b, LS_SHARD_BEGIN, (uint32_t)b->s->axis), 0);
}

static ValueId remake(StageBuild *b, ValueId id, const ValueId args[3]) {
    const Value *v = &b->s->f->values[id];
    Function *out = b->out;
    Value like = *v;
    like.axes = map_axes(b, v->axes);
    switch (v->op) {
    case OP_PARAMETER: return ir_parameter(out, b->parameters[v->payload]);
    case OP_SIZE: return size_of(b, v);
    case OP_INDEX: return index_of(b, v);
    case OP_POSITION: return position_of(b, v);
    case OP_FIRST: return ir_constant(out, TYPE_I64, 0); /* indices are those of the whole */
    case OP_RUNNING: return ir_running(out, (Type)v->type, like.axes);
    case OP_LIST:
        if (!b->s->of_call[id]) like.payload = b->axes[v->payload];
        break;
    case OP_SCAN:
        like.payload = b->axes[v->payload & (SCAN_REVERSE - 1)] | (v->payload & SCAN_REVERSE);
        break;
    case OP_SCATTER:
    case OP_SCATTER_MIN:
        like.payload =
            map_axes(b, (AxisSet)v->payload) | (uint64_t)map_axes(b, ir_scatter_within(v)) << 32;
        break;
    default:
        if (is_reduction(v)) like.payload = map_axes(b, (AxisSet)v->payload);
    }
    return ir_make(out, &like, args);
}

static ValueId gathered(StageBuild *b, const Value *v, uint32_t number) {
    const Type type = (Type)b->s->result->exchanges[number].type;
    AxisSet axes = map_axes(b, v->axes) | list_axes(b);
    if (b->tiles >= 0) axes |= (AxisSet)1 << b->tiles;
    return ir_parameter(
        b->out, extra(b, (ls_shard_argument){LS_SHARD_GATHERED, number}, type, axes, "gathered"));
}

/* What all ranks together have of a value that crosses them. */
static ValueId finish(StageBuild *b, ValueId id) {
    const Value *v = &b->s->f->values[id];
    const uint32_t number = b->s->number[id];
    const ValueId all = gathered(b, v, number);
    if (b->tiles < 0) return all;
    if (ir_has_pairs((Op)v->op))
        return ir_pairs_finish(b->out, (Op)v->op, all, gathered(b, v, number + 1),
                               (uint32_t)b->tiles, TILE);
    return ir_reduce(b->out, (Op)v->op, all, (AxisSet)1 << b->tiles);
}

/* Which exchanges the stage computes its part of. */
static bool gives(const StageBuild *b, ValueId id) {
    const Shard *s = b->s;
    return s->needed[id] && s->crosses[id] &&
           s->result->exchanges[s->number[id]].stage == b->stage && b->stage < s->last;
}

static bool is_finished(const StageBuild *b, ValueId id) {
    return b->s->axis >= 0 && b->s->crosses[id] && b->s->level[id] <= b->stage;
}

static void request(StageBuild *b, ValueId id, bool all) {
    if (all && b->s->axis < 0 && b->s->crosses[id])
        b->all[id] = true;
    else
        b->own[id] = true;
}

static void find_needed(StageBuild *b) {
    const Shard *s = b->s;
    const Function *f = s->f;
    for (size_t i = 0; i < f->store_count && b->stage == s->last; i++) {
        request(b, f->stores[i].value, stores_all(s, &f->stores[i]));
        request(b, f->stores[i].guard, stores_all(s, &f->stores[i]));
    }
    for (ValueId id = (ValueId)f->value_count; --id > 0;) {
        const Value *v = &f->values[id];
        if (gives(b, id)) request(b, s->axis >= 0 ? v->arg[0] : id, false);
        if (!b->own[id] || is_finished(b, id)) continue;
        for (int i = 0; i < 3; i++)
            if (v->arg[i]) request(b, v->arg[i], wants_all(s, v, v->arg[i]));
    }
}

static void make_values(StageBuild *b) {
    const Shard *s = b->s;
    const Function *f = s->f;
    for (ValueId id = 1; id < f->value_count; id++) {
        const Value *v = &f->values[id];
        if (b->all[id]) b->map_all[id] = finish(b, id);
        if (!b->own[id]) continue;
        ValueId args[3] = {0};
        if (is_finished(b, id)) {
            b->map[id] = finish(b, id);
        } else {
            for (int i = 0; i < 3 && v->arg[i]; i++)
                args[i] = wants_all(s, v, v->arg[i]) ? b->map_all[v->arg[i]] : b->map[v->arg[i]];
            b->map[id] = remake(b, id, args);
        }
        ir_set_source(b->out, b->map[id], v->range, v->name);
    }
}

static ValueId stored(const StageBuild *b, ValueId id, bool all) {
    return all && b->s->axis < 0 && b->s->crosses[id] ? b->map_all[id] : b->map[id];
}

static void store_partial(StageBuild *b, const Value *v, uint32_t number, ValueId part) {
    ir_set_source(b->out, part, v->range, v->name);
    const uint32_t parameter =
        extra(b, (ls_shard_argument){LS_SHARD_PARTIAL, number}, (Type)b->out->values[part].type,
              b->out->values[part].axes, "partial");
    ir_store(b->out, parameter, part, 0, v->range);
}

/* Of each tile what its elements come to. */
static void store_tiles(StageBuild *b, ValueId id) {
    const Value *v = &b->s->f->values[id];
    Function *out = b->out;
    const AxisSet rest = (AxisSet)1 << out->axes[b->axis].rest;
    const ValueId element = b->map[v->arg[0]];
    const uint32_t number = b->s->number[id];
    if (!ir_has_pairs((Op)v->op)) {
        store_partial(b, v, number, ir_reduce(out, (Op)v->op, element, rest));
        return;
    }
    ValueId pair[2];
    ir_pairs_of_tiles(out, (Op)v->op, element, rest, pair);
    store_partial(b, v, number, pair[0]);
    store_partial(b, v, number + 1, pair[1]);
}

static void make_stores(StageBuild *b) {
    const Shard *s = b->s;
    const Function *f = s->f;
    for (size_t i = 0; i < f->store_count && b->stage == s->last; i++) {
        const Store *row = &f->stores[i];
        const bool all = stores_all(s, row);
        ir_store(b->out, b->parameters[row->parameter], stored(b, row->value, all),
                 stored(b, row->guard, all), row->range);
    }
    for (ValueId id = 1; id < f->value_count; id++) {
        const Value *v = &f->values[id];
        if (!gives(b, id)) continue;
        if (s->axis >= 0)
            store_tiles(b, id);
        else
            store_partial(b, v, s->number[id], b->map[id]);
    }
}

static ShardStage make_stage(const Shard *s, uint32_t stage) {
    const Function *f = s->f;
    const size_t count = f->value_count;
    StageBuild b = {.s = s, .out = ir_function_like(f), .stage = stage};
    b.blocks = s->axis >= 0 && stage < s->last && f->axes[s->axis].block < 0;
    b.axes = arena_alloc(f->arena, (f->axis_count + 1) * sizeof *b.axes);
    b.parameters = arena_alloc(f->arena, (f->parameter_count + 1) * sizeof *b.parameters);
    b.own = arena_alloc(f->arena, count * sizeof *b.own);
    b.all = arena_alloc(f->arena, count * sizeof *b.all);
    b.map = arena_alloc(f->arena, count * sizeof *b.map);
    b.map_all = arena_alloc(f->arena, count * sizeof *b.map_all);
    if (s->last > 0) b.out->name = arena_printf(f->arena, "%s__%u", f->name, stage + 1);
    make_axes(&b);
    make_parameters(&b);
    find_needed(&b);
    make_values(&b);
    make_stores(&b);
    return (ShardStage){b.out, b.arguments};
}

/* ---- the whole ---- */

static AxisSet axes_of_list(const Function *f, int list) {
    AxisSet axes = 0;
    for (uint32_t a = 0; a < f->axis_count; a++)
        if (f->axes[a].block < 0 && ir_list_axis(f, ir_closure(f, (AxisSet)1 << a)) == list)
            axes |= (AxisSet)1 << a;
    return axes;
}

static void find_cut(Shard *s, uint32_t parameter, int axis, bool within) {
    const Function *f = s->f;
    const Parameter *p = &f->parameters[parameter];
    s->axis = -1;
    s->list = ir_list_axis(f, p->declared);
    if (!p->axes || (!within && s->list < 0))
        compiler_fail(f->compiler, LS_ERROR_BIND,
                      "parameter `%s` of step `%s` is no array that could be cut", p->name,
                      f->name);
    if (!within) {
        s->cut = axes_of_list(f, s->list);
        return;
    }
    const AxisSet own = axis >= 0 && s->list < 0 ? (AxisSet)1 << axis
                        : s->list < 0            ? p->declared
                                                 : p->declared & ~((AxisSet)1 << s->list);
    if (!own || (own & (own - 1)))
        compiler_fail(f->compiler, LS_ERROR_UNSUPPORTED,
                      "the tensors of `%s` in step `%s` have several axes, so they are not cut "
                      "themselves: cut between tensors (units of 0 for ls_partition)",
                      p->name, f->name);
    s->axis = __builtin_ctz(own);
    s->cut = ir_expand(f, own);
}

Sharding *shard(const Function *f, uint32_t parameter, int axis, bool within) {
    Shard s = {.f = f, .result = arena_alloc(f->arena, sizeof *s.result)};
    Sharding *r = s.result;
    find_cut(&s, parameter, axis, within);
    split_over_list(&s);
    analyse(&s);
    number_exchanges(&s);
    r->list = s.list;
    r->axis = s.axis;
    r->cut = arena_alloc(f->arena, f->parameter_count + 1);
    for (size_t p = 0; p < f->parameter_count; p++) r->cut[p] = is_cut(&s, f->parameters[p].axes);
    r->stage_count = s.last + 1;
    r->stages = arena_alloc(f->arena, r->stage_count * sizeof *r->stages);
    for (uint32_t i = 0; i <= s.last; i++) r->stages[i] = make_stage(&s, i);
    return r;
}
