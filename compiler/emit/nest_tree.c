/* nest_tree.c: the folds of a nest in generated code, and what is combined.
 *
 * A fold along an unrolled loop is a binary counter in registers, one for each of its dims; one
 * across the lanes is a vector's values of each thread, which shuffles combine, or a counter again
 * where each thread has one of its own. Values of tiles in shared memory are combined by every
 * group of lanes alike. The functions are those of reduce.h. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"
#include "emit/emit.h"

enum { ROW_LEAVES = 8, LANE_LEAVES = 128, TILE = 1024 };

/* bool as i32 */
static Type leaf_type(Type type) {
    return type == TYPE_BOOL ? TYPE_I32 : type;
}

static const char *kind_text(NestPrinter *p, const NestNode *node, Type type) {
    return emit_use_kind(p->e, node->op, leaf_type(type));
}

void print_fold(NestPrinter *p, const NestNode *fold) {
    int64_t leaves = 0, dim = 1;
    const char *name = print_symbol(p, fold->name);
    const char *type = type_info[leaf_type(fold->type)].c_name;
    if (!index_is_number(fold->extent, &leaves) || fold->at_count > 1 ||
        (fold->at_count && !index_is_number(fold->at[0], &dim)))
        bug(p->e->compiler, "a fold of this form has no text yet");
    p->trees[fold->name] = fold;
    p->own_trees[fold->name] = p->in_lane;
    if (leaves == LANE_LEAVES && !fold->at_count && p->in_lane)
        text_printf(p->out, "%s %s[8] = {};\n", type, name);
    else if (leaves == LANE_LEAVES && !fold->at_count)
        text_printf(p->out, "%s %s[%u];\n", type, name, p->nest->width);
    else if (leaves <= ROW_LEAVES && !fold->at_count)
        text_printf(p->out, "%s %s[4] = {};\n", type, name);
    else if (leaves <= ROW_LEAVES)
        text_printf(p->out, "%s %s[%lld][4] = {};\n", type, name, (long long)dim);
    else
        bug(p->e->compiler, "a fold of %lld leaves has no text yet", (long long)leaves);
}

/* Of a leaf across lanes what is left of its number in a thread's own vector. */
static const char *own_leaf(NestPrinter *p, Index leaf) {
    Index own = leaf;
    for (size_t t = 0; t < leaf.count; t++)
        for (uint32_t k = 0; k < leaf.terms[t].count; k++)
            if (p->loops[leaf.terms[t].symbols[k]] == 1 + LOOP_LANE)
                own = index_replace(p->e->arena, own, leaf.terms[t].symbols[k], (Index){NULL, 0});
    return print_index(p, own);
}

static bool is_of_lanes(const NestNode *fold) {
    int64_t leaves = 0;
    return index_is_number(fold->extent, &leaves) && leaves == LANE_LEAVES;
}

void print_push(NestPrinter *p, const NestNode *push) {
    const NestNode *fold = p->trees[push->array];
    const char *kind = kind_text(p, fold, fold->type), *name = print_symbol(p, push->array);
    const char *condition = print_condition(p, push);
    const char *value = emit_bare(p->e, print_value(p, push->value));
    if (*condition)
        value = arena_printf(p->e->arena, "%s ? %s : ls_identity_%s()", condition,
                             print_value(p, push->value), kind);
    if (p->own_trees[fold->name] && !fold->at_count)
        text_printf(p->out, "ls_push_%s_%s(%s, %s, %s);\n", is_of_lanes(fold) ? "lane" : "row",
                    kind, name, print_index(p, push->at[0]), value);
    else if (fold->at_count || push->at_count > 1)
        text_printf(p->out, "ls_push_row_%s(%s[%s], %s, %s);\n", kind, name,
                    print_index(p, push->at[0]), print_index(p, push->at[1]), value);
    else if (p->nest->lanes > 1)
        text_printf(p->out, "%s[%s] = %s;\n", name, own_leaf(p, push->at[0]), value);
    else
        bug(p->e->compiler, "a fold across lanes needs lanes");
}

/* Of values in shared memory: by a group's lanes, one each where there are no more. */
static const char *combine_shared(NestPrinter *p, const NestNode *node, const char *kind) {
    int64_t room = 0;
    const char *array = print_symbol(p, node->array), *count = print_index(p, node->extent);
    if (!index_is_number(p->allocs[node->array]->at[0], &room) || room > TILE || node->at[0].count)
        bug(p->e->compiler, "values in this memory are not combined yet");
    return room > 32 ? arena_printf(p->e->arena, "ls_gather_%s(%s, %s)", kind, array, count)
                     : arena_printf(p->e->arena, "ls_group_%s(%s < %s ? %s[%s] : ls_identity_%s())",
                                    kind, p->lane, count, array, p->lane, kind);
}

static const char *combine_memory(NestPrinter *p, const NestNode *node) {
    const NestNode *alloc = p->allocs[node->array];
    const Type type = leaf_type(p->nest->symbols[node->array].type);
    const char *kind = kind_text(p, node, type), *text;
    if (alloc && alloc->scope == SCOPE_GLOBAL)
        text = print_combined(p, node, kind);
    else if (alloc && alloc->scope == SCOPE_SHARED)
        text = combine_shared(p, node, kind);
    else
        bug(p->e->compiler, "values in this memory are not combined yet");
    return node->op == OP_SUM && type_info[type].class == 'F'
               ? arena_printf(p->e->arena, "%s > 0 ? %s : 0", print_index(p, node->extent), text)
               : text;
}

/* Where the binary counter has the value of all rows. */
static int level_of(const NestNode *fold) {
    int64_t leaves = ROW_LEAVES;
    int level = 0;
    index_is_number(fold->extent, &leaves);
    if (!nest_is_ordered(fold->op, leaf_type(fold->type))) return 3;
    for (; leaves > 1; leaves /= 2) level++;
    return level;
}

/* Of a fold that is the thread's own. */
static const char *own_text(NestPrinter *p, const NestNode *node, const NestNode *fold) {
    const char *tree = print_symbol(p, node->array);
    if (!is_of_lanes(fold)) return arena_printf(p->e->arena, "%s[%d]", tree, level_of(fold));
    if (!node->extent.count) return arena_printf(p->e->arena, "%s[7]", tree);
    return arena_printf(p->e->arena, "ls_lanes_%s(%s, %s)", kind_text(p, fold, fold->type), tree,
                        print_index(p, node->extent));
}

/* The tree over a vector's values of each lane. */
static const char *vector_text(NestPrinter *p, const char *kind, const char *values) {
    if (p->nest->width != 4) bug(p->e->compiler, "a fold of such vectors has no text yet");
    return arena_printf(p->e->arena,
                        "ls_group_%s(ls_combine_%s(ls_combine_%s(%s[0], %s[1]), "
                        "ls_combine_%s(%s[2], %s[3])))",
                        kind, kind, kind, values, values, kind, values, values);
}

void print_combine(NestPrinter *p, const NestNode *node) {
    const NestNode *fold = p->trees[node->array];
    const char *name = print_symbol(p, node->name), *text;
    const char *tree = print_symbol(p, node->array);
    if (!fold)
        text = combine_memory(p, node);
    else if (p->own_trees[fold->name] && !fold->at_count)
        text = own_text(p, node, fold);
    else if (fold->at_count)
        text = arena_printf(p->e->arena, "%s[%s][%d]", tree, print_index(p, node->at[0]),
                            level_of(fold));
    else
        text = vector_text(p, kind_text(p, fold, fold->type), tree);
    text_printf(p->out, "const %s %s = %s;\n", emit_type(p->nest->symbols[node->name].type), name,
                text);
}
