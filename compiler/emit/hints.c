/* hints.c: pragmas before loops of the CPU dialect, for the compiler's vectoriser.
 */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "emit/emit.h"

static unsigned element_cost(const Emitter *e) {
    unsigned cost = 0;
    const Group *columns = emit_takes_columns(e) ? &e->outer[e->outer_count - 1] : NULL;
    for (size_t i = 0; i < e->phase->value_count; i++) {
        const ValueId v = e->phase->values[i];
        const Value *value = &e->f->values[v];
        if (e->phase->levels[i] != LEVEL_ELEMENT) continue;
        if (columns && !(value->axes & columns->axes)) continue; /* a row's */
        cost += plan_is_read(e->plan, e->phase, v) ? 0 : op_info[value->op].work;
    }
    return cost;
}

/* Whether a store may be left out. */
static bool stores_sometimes(const NestNode *body) {
    for (const NestNode *node = body; node; node = node->next) {
        const bool stores = node->kind == NEST_STORE || node->kind == NEST_ADD;
        if ((stores && node->where) || node->kind == NEST_WHEN || stores_sometimes(node->body))
            return true;
    }
    return false;
}

/* Whether more pairs of arrays, one of each written, are touched than compilers compare the
 * addresses of ahead of a loop (clang: 8); beyond, they make no vector code. Not where two may be
 * views of one array, nor where a store may be left out (see emit_interleaved). */
bool emit_has_many_pairs(const Emitter *e, const NestNode *body) {
    if (stores_sometimes(body)) return false;
    enum { PAIRS_MAX = 8 };
    const AxisSet along = e->phase->inner ? e->phase->inner : e->phase->outer;
    uint32_t read = 0, written = 0;
    for (uint32_t i = 0; i < e->plan->array_count; i++) {
        const uint32_t parameter = e->plan->arrays[i].parameter;
        if (!(e->plan->arrays[i].axes & along)) continue; /* one element for the loop */
        if (e->f->iteration && parameter != UINT32_MAX && !e->f->iteration->sole[parameter])
            return false;
        if (plan_writes(e->phase, i))
            written++;
        else if (plan_value_reads(e->plan, e->phase, i))
            read++;
    }
    return written * read + written * (written - 1) / 2 > PAIRS_MAX;
}

/* Whether memory or a fold of that name is declared in the body. */
bool emit_declares(const NestNode *body, SymbolId name) {
    for (const NestNode *node = body; node; node = node->next)
        if (((node->kind == NEST_ALLOC || node->kind == NEST_FOLD) && node->name == name) ||
            emit_declares(node->body, name) || emit_declares(node->other, name))
            return true;
    return false;
}

bool emit_takes_others(const NestNode *loop) {
    for (const NestNode *node = loop->body; node; node = node->next)
        if (node->kind == NEST_COMBINE && !emit_declares(loop->body, node->array)) return true;
    return false;
}

/* Whether two of the phase's arrays may be views of one, in an iteration of a `for`. (In parts of
 * one the views of an array are read at other places than its rows under conditions alone.) */
static bool may_share(const Emitter *e) {
    for (uint32_t i = 0; e->f->iteration && i < e->plan->array_count; i++) {
        const uint32_t parameter = e->plan->arrays[i].parameter;
        if (parameter == UINT32_MAX || e->f->iteration->sole[parameter]) continue;
        if (plan_writes(e->phase, i) || plan_value_reads(e->plan, e->phase, i)) return true;
    }
    return false;
}

static bool stores_by(const NestNode *store, SymbolId row) {
    for (size_t i = 0; i < store->at_count; i++)
        if (index_uses(store->at[i], row)) return true;
    return false;
}

/* Whether the loop over rows takes what another one has gathered (see small_rows.c), each of its
 * stores is of a row's own, and no store nor load may be left out: compilers do not compare the
 * addresses of as many arrays. */
bool emit_takes_gathered(const Emitter *e, const Nest *nest, const NestNode *loop) {
    bool takes = false;
    for (const NestNode *node = loop->body; node; node = node->next) {
        const bool load = node->kind == NEST_LOAD, store = node->kind == NEST_STORE;
        if (!load && !store && node->kind != NEST_LET && node->kind != NEST_COMBINE) return false;
        if ((load || store) && (node->where || node->has_limit)) return false;
        if (store && (nest_reads(loop->body, node->array) || !stores_by(node, loop->name)))
            return false;
        takes |= load && nest->symbols[node->array].kind == NAMED_ALLOC;
    }
    return takes && e->phase->shape == SHAPE_ROWS && !may_share(e);
}

/* The pragma before a loop over columns that says that its iterations are independent (ivdep),
 * where nothing is read or added to at other coordinates. Without it compilers would compare all
 * arrays' addresses, or give up. */
const char *emit_independent(const Emitter *e) {
    static const uint8_t others[] = {OP_GATHER, OP_SCATTER, OP_SCATTER_MIN, OP_CALL, OP_SCAN};
    for (size_t i = 0; i < e->phase->store_count; i++)
        if (e->phase->stores[i].kind == STORE_ADD) return "";
    for (size_t n = 0; n < e->phase->value_count; n++)
        for (size_t i = 0; i < COUNT(others); i++)
            if (e->f->values[e->phase->values[n]].op == others[i]) return "";
    return "LS_INDEPENDENT";
}

/* How many vectors of a map's loop to interleave. */
static const char *vectors_at_once(const Emitter *e) {
    enum { COST_MAX = 80 };
    if (e->target->vectors_at_once)
        return arena_printf(e->arena, "LS_VECTORS_AT_ONCE(%u)\n", e->target->vectors_at_once);
    bool narrow = element_cost(e) <= COST_MAX;
    for (size_t i = 0; i < e->phase->store_count; i++)
        narrow &= type_info[e->plan->arrays[e->phase->stores[i].array].type].size < 4;
    for (uint32_t i = 0; i < e->plan->array_count; i++)
        if (e->plan->arrays[i].axes && plan_value_reads(e->plan, e->phase, i))
            narrow &= type_info[e->plan->arrays[i].type].size < 4;
    return narrow ? "LS_INTERLEAVED_NARROW\n" : "LS_INTERLEAVED\n";
}

/* The lines before a map's loop; none where a store may be left out: there clang 14, told to
 * interleave what it does not vectorize, moves loads to that store, past others to the same array.
 */
const char *emit_interleaved(const Emitter *e, const NestNode *body) {
    if (stores_sometimes(body)) return "";
    const char *independent = emit_has_many_pairs(e, body) ? emit_independent(e) : "";
    return arena_printf(e->arena, "%s%s%s", independent, *independent ? "\n" : "",
                        vectors_at_once(e));
}
