/* promote.c: register promotion: scalar replacement of what a serial loop carries from one
 * iteration to the next. An element that every iteration loads and stores at the same place is
 * loaded once ahead of the loop, stays in a register, and is stored once behind it.
 *
 * Needs a serial loop. Takes each array, loaded and stored elsewhere too, of which all accesses in
 * the loop stand in one body, at one place and without a limit, loads without a condition; around
 * that body stand unrolled and vector loops, whose iterations have an element and a register each,
 * serial ones and tests of values, with which the place does not vary and which do not keep it
 * within the array. What the place is made of is computed again. No other array of the nest has the
 * same memory. Keeps what is computed: a value is rounded to the array's type as its store would. A
 * type that loses bits where it is computed with (of a NaN, an infinity of fp8) has to be stored by
 * every iteration, and there has to be one: of the others, what no iteration stores is stored as it
 * was. Arrays are taken as long as their registers, 64 of 32 bits a lane, last. */
#include <stdlib.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

enum { DEPTH = 8, REGISTERS_MAX = 64 };

typedef struct Promotion {
    Nest *nest;
    NestNode *loop;
    SymbolId array;
    NestNode **home;               /* the body with the accesses; NULL: none is found */
    const NestNode *around[DEPTH]; /* what stands around it in the loop, */
    size_t depth;
    const NestNode *access; /* and the first of them */
    bool loads, stores, fails;
    bool *needed; /* by symbol: what the place is made of */
} Promotion;

/* ---- legality ---- */

static bool is_same_place(const NestNode *a, const NestNode *b) {
    if (a->at_count != b->at_count) return false;
    for (size_t i = 0; i < a->at_count; i++)
        if (!index_equal(a->at[i], b->at[i])) return false;
    return true;
}

/* Whether a value that is loaded and stored again has the bits that it had. */
static bool keeps_bits(Type type) {
    return type_info[type].class != 'F' || type_info[type].compute == type;
}

static void find_access(Promotion *p, NestNode **body, const NestNode *node,
                        const NestNode *const *around, size_t depth) {
    bool guarded = node->where != 0;
    for (size_t i = 0; i < depth; i++) guarded |= around[i]->kind == NEST_WHEN;
    p->fails |= guarded && !keeps_bits(p->nest->symbols[p->array].type);
    const bool plain = (node->kind == NEST_LOAD || node->kind == NEST_STORE) && !node->has_limit &&
                       (!node->where || node->kind == NEST_STORE) && !node->list;
    if (!p->home) {
        p->home = body;
        p->access = node;
        p->depth = depth;
        for (size_t i = 0; i < depth; i++) p->around[i] = around[i];
    }
    p->fails |= !plain || p->home != body || !is_same_place(p->access, node);
    p->loads |= node->kind == NEST_LOAD;
    p->stores |= node->kind == NEST_STORE;
}

static void find_accesses(Promotion *p, NestNode **body, const NestNode **around, size_t depth) {
    for (NestNode *node = *body; node && !p->fails; node = node->next) {
        const bool test = node->kind == NEST_WHEN && !node->other;
        const bool loop =
            node->kind == NEST_LOOP &&
            (node->loop == LOOP_SERIAL || node->loop == LOOP_UNROLLED || node->loop == LOOP_VECTOR);
        if (node->array == p->array) find_access(p, body, node, around, depth);
        if (!node->body && !node->other) continue;
        if (((!test && !loop) || depth == DEPTH) &&
            (nest_body_uses(p->nest, node->body, p->array) ||
             nest_body_uses(p->nest, node->other, p->array))) {
            p->fails = true;
            return;
        }
        if (depth == DEPTH) continue;
        around[depth] = node;
        find_accesses(p, &node->body, around, depth + 1);
    }
}

static void need_index(Promotion *p, Index index) {
    for (size_t t = 0; t < index.count; t++)
        for (uint32_t k = 0; k < index.terms[t].count; k++)
            p->needed[index.terms[t].symbols[k]] = true;
}

static void need_value(Promotion *p, ValueId id) {
    const Value *v = &p->nest->values->values[id];
    if (!id) return;
    if (v->op == VALUE_NAME) p->needed[v->payload] = true;
    if (v->op == VALUE_INDEX) need_index(p, *nest_index_of(p->nest, v));
    for (int i = 0; i < op_info[v->op].arity; i++) need_value(p, v->arg[i]);
}

/* The LETs that the place is made of, in their order, as nodes of their own; what else is needed
 * has no right to be bound in the loop. */
static NestNode *place_of(Promotion *p) {
    NestNode *reversed = NULL, *first = NULL;
    for (const NestNode *node = *p->home; node; node = node->next) {
        if (node->kind != NEST_LET) continue;
        NestNode *copy = arena_alloc(p->nest->arena, sizeof *copy);
        *copy = *node;
        copy->next = reversed;
        reversed = copy;
    }
    for (size_t i = 0; i < p->access->at_count; i++) need_index(p, p->access->at[i]);
    for (NestNode *let = reversed, *before; let; let = before) {
        before = let->next;
        if (!p->needed[let->name]) continue;
        let->next = first;
        first = let;
        p->needed[let->name] = false;
        need_value(p, let->value);
    }
    return first;
}

static bool has_registers(const NestNode *node) {
    return node->kind == NEST_LOOP && node->loop != LOOP_SERIAL;
}

/* Whether what the place needs, besides its own LETs, stays the same in the loop. */
static bool is_fixed(Promotion *p) {
    for (size_t i = 0; i < p->depth; i++)
        if (has_registers(p->around[i])) p->needed[p->around[i]->name] = false;
    if (p->needed[p->loop->name]) return false;
    for (SymbolId s = 1; s < p->nest->symbol_count; s++)
        if (p->needed[s] && nest_find(&p->loop->body, s)) return false;
    return true;
}

/* Of 32 bits, for all elements of an iteration; 0: their number is not constant. */
static int64_t register_count(const Promotion *p) {
    const size_t size = type_info[type_info[p->nest->symbols[p->array].type].compute].size;
    int64_t count, all = size > 4 ? (int64_t)size / 4 : 1;
    for (size_t i = 0; i < p->depth; i++) {
        if (!has_registers(p->around[i])) continue;
        if (!index_is_number(p->around[i]->extent, &count)) return 0;
        all = count > REGISTERS_MAX ? REGISTERS_MAX + 1 : all * count;
    }
    return all;
}

/* How many subscripts the loop is in; of the last of them its factor, 0 if that is no number. */
static size_t subscripts_with(const Promotion *p, const NestNode *loop, size_t *subscript,
                              int64_t *factor) {
    size_t count = 0;
    for (size_t i = 0; i < p->access->at_count; i++) {
        if (!index_uses(p->access->at[i], loop->name)) continue;
        const Index by = index_coefficient(p->nest->arena, p->access->at[i], loop->name);
        if (!index_is_number(by, factor)) *factor = 0;
        *subscript = i;
        count++;
    }
    return count;
}

/* Whether each register has an element of its own: a loop is in one subscript, where its stride is
 * beyond all that the loops of smaller strides reach. */
static bool is_injective(const Promotion *p) {
    for (size_t i = 0; i < p->depth; i++) {
        size_t own, other;
        int64_t stride, factor, extent, reach = 0;
        if (!has_registers(p->around[i])) continue;
        if (index_is_number(p->around[i]->extent, &extent) && extent == 1) continue;
        if (subscripts_with(p, p->around[i], &own, &stride) != 1 || !stride) return false;
        for (size_t k = 0; k < p->depth; k++) {
            if (k == i || !has_registers(p->around[k]) ||
                subscripts_with(p, p->around[k], &other, &factor) != 1 || other != own)
                continue;
            if (!index_is_number(p->around[k]->extent, &extent)) return false;
            if (llabs(factor) <= llabs(stride)) reach += llabs(factor) * (extent - 1);
        }
        if (llabs(stride) <= reach) return false;
    }
    return true;
}

/* ---- the transform ---- */

/* The register of the element, or with `extents` the dims of all. */
static Index *subscripts(const Promotion *p, bool extents, size_t *count) {
    Nest *nest = p->nest;
    Index *at = nest_at(nest, p->depth + 1);
    *count = 0;
    for (size_t i = 0; i < p->depth; i++)
        if (has_registers(p->around[i]))
            at[(*count)++] =
                extents ? p->around[i]->extent : index_symbol(nest->arena, p->around[i]->name);
    if (!*count) at[(*count)++] = make_number(nest, extents ? 1 : 0);
    return at;
}

/* The element of each iteration of the loops around its place, to its register or back. */
static NestNode *copy_elements(const Promotion *p, const NestNode *place, SymbolId alloc, bool in) {
    Nest *nest = p->nest;
    size_t count;
    NestNode *body = place ? nest_copy(nest->arena, place) : NULL, **end = &body;
    NestNode load = {.kind = NEST_LOAD, .array = p->array}, store = {.kind = NEST_STORE};
    while (*end) end = &(*end)->next;
    load.name = nest_symbol(nest, nest->symbols[p->array].name, NAMED_VALUE,
                            type_info[nest->symbols[p->array].type].compute);
    load.at = nest_at(nest, p->access->at_count);
    load.at_count = p->access->at_count;
    for (size_t i = 0; i < load.at_count; i++) load.at[i] = p->access->at[i];
    store.array = alloc;
    store.at = subscripts(p, false, &count);
    store.at_count = count;
    store.value = nest_name(nest, load.name);
    if (!in) {
        Index *const at = load.at;
        load.array = alloc;
        load.at = store.at;
        load.at_count = store.at_count;
        store.array = p->array;
        store.at = at;
        store.at_count = p->access->at_count;
    }
    nest_add(nest, &end, load);
    nest_add(nest, &end, store);
    for (size_t i = p->depth; i-- > 0;)
        if (has_registers(p->around[i]))
            body = nest_around(nest, p->around[i]->loop, p->around[i]->name, p->around[i]->extent,
                               body);
    return nest_clone(nest, body);
}

static void use_registers(const Promotion *p, SymbolId alloc) {
    const Type type = p->nest->symbols[p->array].type;
    for (NestNode *node = *p->home; node; node = node->next) {
        if (node->array != p->array) continue;
        if (node->kind == NEST_STORE) node->value = ir_round_to(p->nest->values, type, node->value);
        node->array = alloc;
        node->hint = HINT_NONE;
        node->at = subscripts(p, false, &node->at_count);
    }
}

static NestNode *end_of(NestNode *body) {
    while (body->next) body = body->next;
    return body;
}

/* Gives where the loop stands then. */
static NestNode **promote(const Promotion *p, NestNode **at, const NestNode *place) {
    Nest *nest = p->nest;
    const NestSymbol array = nest->symbols[p->array];
    size_t count;
    NestNode *first = NULL, **end = &first;
    Index *dims = subscripts(p, true, &count);
    const SymbolId alloc = nest_symbol(nest, arena_printf(nest->arena, "%s_carried", array.name),
                                       NAMED_ALLOC, type_info[array.type].compute);
    nest_add(nest, &end,
             (NestNode){.kind = NEST_ALLOC,
                        .scope = SCOPE_REGISTER,
                        .name = alloc,
                        .at = dims,
                        .at_count = count});
    *end = copy_elements(p, place, alloc, true);
    end_of(*end)->next = p->loop;
    NestNode *out = copy_elements(p, place, alloc, false);
    use_registers(p, alloc);
    end_of(out)->next = p->loop->next;
    p->loop->next = out;
    *at = first;
    while (*at != p->loop) at = &(*at)->next;
    return at;
}

size_t nest_promote(Nest *nest, SymbolId loop, bool *promoted) {
    NestNode **at = nest_find(&nest->body, loop);
    size_t total = 0;
    int64_t room = REGISTERS_MAX;
    if (!at || (*at)->kind != NEST_LOOP || (*at)->loop != LOOP_SERIAL) return 0;
    for (size_t a = 0; a < nest->array_count; a++) {
        const NestArray *array = &nest->arrays[a];
        const NestNode *around[DEPTH];
        Arena *scratch = arena_child(nest->arena);
        Promotion p = {.nest = nest, .loop = *at, .array = array->symbol};
        p.needed = arena_alloc(scratch, nest->symbol_count * sizeof *p.needed);
        if (array->role == ARRAY_INOUT && !array->list && !array->aliased)
            find_accesses(&p, &(*at)->body, around, 0);
        const bool found = p.home && !p.fails && p.loads && p.stores;
        const int64_t registers = found ? register_count(&p) : 0;
        const bool good = registers && registers <= room && is_injective(&p);
        const NestNode *place = good ? place_of(&p) : NULL;
        if (good && is_fixed(&p)) {
            at = promote(&p, at, place);
            room -= registers;
            total++;
            if (promoted) promoted[array->symbol] = true;
        }
        arena_close(scratch);
    }
    return total;
}
