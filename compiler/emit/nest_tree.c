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

/* ---- of one thread: folds of neighbouring columns, side by side ---- */

static bool is_horizontal(const NestPrinter *p, const NestNode *tree) {
    return p->nest->lanes == 1 && tree->kind == NEST_FOLD && tree->at_count == 1;
}

/* A binary counter in memory, and what is pushed to it or, where its number is even, to the lowest
 * level; past the last column both are identities. */
static void print_folds(NestPrinter *p, const NestNode *fold, int64_t leaves, int64_t dim) {
    static const char *const suffixes[] = {"level", "leaf", "sum", "to", NULL};
    const char *kind = kind_text(p, fold, fold->type), *pad = names_made(p->e, "pad");
    const char *name = names_stem(p->e, NULL, p->nest->symbols[fold->name].name, suffixes);
    int levels = 1;
    for (; leaves > 1; leaves /= 2) levels++;
    if (dim != p->e->target->columns || levels > 8)
        bug(p->e->compiler, "folds of this form have no text yet");
    p->spelled[fold->name] = name;
    text_printf(p->out,
                "LS_ALIGN(64) %s %s_level[%d][%lld], %s_leaf[%lld];\n"
                "for (int %s = 0; %s < %lld; %s++)\n"
                "%s_level[0][%s] = %s_leaf[%s] = ls_identity_%s();\n",
                type_info[leaf_type(fold->type)].c_name, name, levels, (long long)dim, name,
                (long long)dim, pad, pad, (long long)dim, pad, name, pad, name, pad, kind);
}

/* Of one column there is no loop. */
static bool is_only_one(const NestNode *node) {
    int64_t column;
    return index_is_number(node->at[0], &column);
}

/* What the folds come to, of the leaves that are counted. */
static const char *folds_text(NestPrinter *p, const NestNode *combine, const NestNode *tree) {
    const Index count = combine->extent.count ? combine->extent : tree->extent;
    const char *name = print_symbol(p, tree->name);
    return arena_printf(p->e->arena, "ls_columns_%s(%s_level, (int)%s, %s_leaf)",
                        kind_text(p, tree, tree->type), name,
                        print_bracketed(p, print_index(p, count)), name);
}

bool print_is_adjacent(const NestPrinter *p, const NestNode *loop) {
    for (const NestNode *node = loop->body; node; node = node->next) {
        const NestNode *tree = node->kind == NEST_PUSH ? p->trees[node->array] : NULL;
        if (tree && is_horizontal(p, tree) && index_uses(node->at[0], loop->name)) return true;
    }
    return false;
}

void print_combined_ahead(NestPrinter *p, const NestNode *loop) {
    for (const NestNode *node = loop->body; node; node = node->next) {
        const NestNode *to = node->kind == NEST_PUSH ? p->trees[node->array] : NULL;
        if (to && is_horizontal(p, to) && index_uses(node->at[0], loop->name)) {
            const char *name = print_symbol(p, to->name);
            text_printf(p->out, "%s *const %s_to = %s & 1 ? %s_leaf : %s_level[0];\n",
                        type_info[leaf_type(to->type)].c_name, name,
                        print_bracketed(p, print_index(p, node->at[1])), name, name);
            continue;
        }
        const NestNode *tree = node->kind == NEST_COMBINE ? p->trees[node->array] : NULL;
        if (!tree || !is_horizontal(p, tree) || !index_uses(node->at[0], loop->name)) continue;
        text_printf(p->out, "const %s *const %s_sum = %s;\n",
                    type_info[leaf_type(tree->type)].c_name, print_symbol(p, tree->name),
                    folds_text(p, node, tree));
    }
}

void print_fold(NestPrinter *p, const NestNode *fold) {
    int64_t leaves = 0, dim = 1;
    const char *type = type_info[leaf_type(fold->type)].c_name;
    if (!index_is_number(fold->extent, &leaves) || fold->at_count > 1 ||
        (fold->at_count && !index_is_number(fold->at[0], &dim)))
        bug(p->e->compiler, "a fold of this form has no text yet");
    p->trees[fold->name] = fold;
    p->own_trees[fold->name] = p->in_lane;
    if (is_horizontal(p, fold)) {
        print_folds(p, fold, leaves, dim);
        return;
    }
    const char *name = print_symbol(p, fold->name);
    if (p->nest->lanes == 1 && !fold->at_count && leaves <= LANE_LEAVES)
        text_printf(p->out, "%s %s[%lld]%s;\n", type, name, (long long)leaves,
                    leaves == LANE_LEAVES ? " LS_ALIGN(64)" : "");
    else if (leaves == LANE_LEAVES && !fold->at_count && p->in_lane)
        text_printf(p->out, "%s %s[8] = {};\n", type, name);
    else if (leaves >= LANE_LEAVES && !fold->at_count)
        text_printf(p->out, "%s %s[%lld];\n", type, name, (long long)leaves / p->nest->lanes);
    else if (leaves <= ROW_LEAVES && !fold->at_count)
        text_printf(p->out, "%s %s[4] = {};\n", type, name);
    else if (leaves <= ROW_LEAVES)
        text_printf(p->out, "%s %s[%lld][4] = {};\n", type, name, (long long)dim);
    else
        bug(p->e->compiler, "a fold of %lld leaves has no text yet", (long long)leaves);
}

/* Of loops over lanes in each other the inner one has the lower part of the lane's number. */
const char *print_own_lane(NestPrinter *p, const NestNode *loop) {
    const uint32_t lanes = p->nest->lanes;
    int64_t extent = lanes;
    if (!p->lane) bug(p->e->compiler, "lanes without items have no text yet");
    index_is_number(loop->extent, &extent);
    if (extent == lanes) return p->lane;
    if (p->in_lane) return arena_printf(p->arena, "(%s & %lld)", p->lane, (long long)extent - 1);
    return arena_printf(p->arena, "(%s >> %d)", p->lane,
                        __builtin_ctzll((uint64_t)(lanes / extent)));
}

/* An index all of whose terms are multiples of the number. */
static Index divide(NestPrinter *p, Index index, int64_t by) {
    IndexTerm *terms = arena_alloc(p->arena, (index.count + 1) * sizeof *terms);
    for (size_t t = 0; t < index.count; t++) {
        terms[t] = index.terms[t];
        if (terms[t].factor % by) bug(p->e->compiler, "leaves of this form have no text yet");
        terms[t].factor /= by;
    }
    return (Index){terms, index.count};
}

/* Of a leaf across lanes what is left of its number in a thread's own vector. In a fold of more
 * than 128 neighbours are those of the lanes' parts. */
static const char *own_leaf(NestPrinter *p, const NestNode *fold, Index leaf) {
    Index own = leaf;
    int64_t leaves = LANE_LEAVES;
    index_is_number(fold->extent, &leaves);
    for (size_t t = 0; t < leaf.count; t++)
        for (uint32_t k = 0; k < leaf.terms[t].count; k++)
            if (p->loops[leaf.terms[t].symbols[k]] == 1 + LOOP_LANE)
                own = index_replace(p->arena, own, leaf.terms[t].symbols[k], (Index){NULL, 0});
    if (leaves > LANE_LEAVES) own = divide(p, own, leaves / LANE_LEAVES);
    return print_index(p, own);
}

static bool is_of_lanes(const NestNode *fold) {
    int64_t leaves = 0;
    return index_is_number(fold->extent, &leaves) && leaves == LANE_LEAVES;
}

/* ---- of one thread: trees over a tile of its memory ---- */

bool print_is_quick(const NestNode *fold) {
    int64_t leaves;
    return fold->kind == NEST_FOLD && index_is_number(fold->extent, &leaves) &&
           (leaves == ROW_LEAVES || leaves == LANE_LEAVES) &&
           (fold->op == OP_REDUCE_MIN || fold->op == OP_REDUCE_MAX) &&
           type_info[fold->type].class == 'F';
}

void print_tree(NestPrinter *p, const NestNode *tree) {
    const char *name = print_symbol(p, tree->name);
    if (p->nest->lanes > 1 || tree->at_count > 1)
        bug(p->e->compiler, "a tree of this form has no text yet");
    p->trees[tree->name] = tree;
    if (p->by_vectors[tree->name]) {              /* what it comes to */
        int64_t rows = tree->at_count ? TILE : 4; /* four are written at a time, where fewer are */
        if (tree->at_count) index_is_number(tree->at[0], &rows);
        if (rows < 4) rows = 4;
        text_printf(p->out, "f32 %s[%lld];\n", name, (long long)rows);
        return;
    }
    text_printf(p->out, "%s %s[%d] LS_ALIGN(64);\n", type_info[leaf_type(tree->type)].c_name, name,
                TILE);
    if (!tree->at_count) return;
    p->pitch[tree->name] = names_nest(p->e, arena_printf(p->arena, "%s_padded", name));
    text_printf(p->out, "const i64 %s = %d / %s;\n", p->pitch[tree->name], TILE,
                print_bracketed(p, print_index(p, tree->at[0])));
}

static void print_leaf(NestPrinter *p, const NestNode *tree, const NestNode *push,
                       const char *value) {
    const char *name = print_symbol(p, tree->name), *leaf;
    if (is_horizontal(p, tree) && is_only_one(push)) {
        text_printf(p->out, "%s_leaf[%s] = %s;\nls_push_columns_%s(%s_level, (int)%s, %s_leaf);\n",
                    name, print_index(p, push->at[0]), value, kind_text(p, tree, tree->type), name,
                    print_bracketed(p, print_index(p, push->at[1])), name);
        return;
    }
    if (is_horizontal(p, tree)) {
        text_printf(p->out, "%s_to[%s] = %s;\n", name, print_index(p, push->at[0]), value);
        return;
    }
    if (tree->at_count)
        leaf =
            arena_printf(p->arena, "%s * %s + %s", print_bracketed(p, print_index(p, push->at[0])),
                         p->pitch[tree->name], print_index(p, push->at[1]));
    else
        leaf = print_index(p, push->at[0]);
    text_printf(p->out, "%s[%s] = %s;\n", name, leaf, value);
}

/* Behind the loop over several trees: what each comes to, side by side. */
void print_pushed(NestPrinter *p, const NestNode *loop, const NestNode *body) {
    for (const NestNode *node = body; node; node = node->next) {
        const NestNode *tree = node->kind == NEST_PUSH ? p->trees[node->array] : NULL;
        print_pushed(p, loop, node->body);
        if (!tree || p->nest->lanes > 1 || !tree->at_count) continue;
        const char *kind = kind_text(p, tree, tree->type), *name = print_symbol(p, tree->name);
        if (!index_uses(node->at[0], loop->name)) continue;
        if (is_horizontal(p, tree)) {
            text_printf(p->out, "if (%s & 1) ls_push_columns_%s(%s_level, (int)%s, %s_leaf);\n",
                        print_bracketed(p, print_index(p, node->at[1])), kind, name,
                        print_bracketed(p, print_index(p, node->at[1])), name);
            continue;
        }
        if (!p->by_vectors[tree->name] && !nest_pushes_ahead(loop->body, node, node->array))
            text_printf(p->out, "ls_rows_%s(%s, %s, %s, %s);\n", kind, name,
                        print_index(p, loop->extent), print_index(p, tree->extent),
                        p->pitch[tree->name]);
    }
}

/* At the end of what a loop over several trees has pushed to one of them: the identity, up to where
 * the next one's leaves begin. */
void print_padding(NestPrinter *p, const NestNode *loop, const NestNode *body) {
    for (const NestNode *node = body; node; node = node->next) {
        const NestNode *tree = node->kind == NEST_PUSH ? p->trees[node->array] : NULL;
        print_padding(p, loop, node->body);
        if (!tree || tree->kind != NEST_TREE || !tree->at_count) continue;
        if (!index_uses(node->at[0], loop->name) || p->by_vectors[tree->name]) continue;
        if (nest_pushes_ahead(loop->body, node, node->array)) continue;
        const char *kind = kind_text(p, tree, tree->type), *padded = p->pitch[tree->name];
        const char *row = print_bracketed(p, print_index(p, node->at[0]));
        text_printf(p->out, "ls_pad_%s(%s + %s * %s, %s, %s);\n", kind, print_symbol(p, tree->name),
                    row, padded, print_index(p, tree->extent), padded);
    }
}

/* What the tree in a thread's memory comes to. */
static const char *tile_text(NestPrinter *p, const NestNode *combine, const NestNode *tree) {
    const char *kind = kind_text(p, tree, tree->type), *name = print_symbol(p, tree->name);
    const char *count = print_index(p, tree->extent), *text;
    if (is_horizontal(p, tree) && is_only_one(combine))
        return arena_printf(p->e->arena, "%s[%s]", folds_text(p, combine, tree),
                            print_index(p, combine->at[0]));
    if (is_horizontal(p, tree))
        return arena_printf(p->e->arena, "%s_sum[%s]", name, print_index(p, combine->at[0]));
    if (tree->kind == NEST_FOLD) {
        int64_t leaves = 0;
        index_is_number(tree->extent, &leaves);
        const bool lanes = leaves == LANE_LEAVES;
        if (p->odd && print_is_quick(tree))
            return arena_printf(p->arena, "ls_%squick_%s(%s)", lanes ? "lane_" : "", kind, name);
        if (leaves == 2)
            return arena_printf(p->arena, "ls_combine_%s(%s[0], %s[1])", kind, name, name);
        return arena_printf(p->arena, "ls_%s_%s(%s)",
                            lanes         ? "lane_tree"
                            : leaves == 4 ? "four"
                                          : "eight",
                            kind, name);
    }
    text = tree->at_count ? arena_printf(p->arena, "%s[%s]", name, print_index(p, combine->at[0]))
           : p->by_vectors[tree->name]
               ? arena_printf(p->arena, "%s[0]", name)
               : arena_printf(p->arena, "ls_tile_%s(%s, %s)", kind, name, count);
    int64_t known;
    return tree->op == OP_SUM && type_info[leaf_type(tree->type)].class == 'F' &&
                   !(index_is_number(tree->extent, &known) && known > 0)
               ? arena_printf(p->arena, "%s > 0 ? %s : 0", count, text)
               : text;
}

void print_push(NestPrinter *p, const NestNode *push) {
    const NestNode *fold = p->trees[push->array];
    const char *kind = kind_text(p, fold, fold->type), *name = print_symbol(p, push->array);
    const char *condition = print_condition(p, push);
    const char *value = emit_bare(p->e, print_value(p, push->value));
    if (*condition)
        value = arena_printf(p->arena, "%s ? %s : ls_identity_%s()", condition,
                             print_value(p, push->value), kind);
    if (p->nest->lanes == 1)
        print_leaf(p, fold, push, value);
    else if (p->own_trees[fold->name] && !fold->at_count)
        text_printf(p->out, "ls_push_%s_%s(%s, %s, %s);\n", is_of_lanes(fold) ? "lane" : "row",
                    kind, name, print_index(p, push->at[0]), value);
    else if (fold->at_count || push->at_count > 1)
        text_printf(p->out, "ls_push_row_%s(%s[%s], %s, %s);\n", kind, name,
                    print_index(p, push->at[0]), print_index(p, push->at[1]), value);
    else if (p->nest->lanes > 1)
        text_printf(p->out, "%s[%s] = %s;\n", name, own_leaf(p, fold, push->at[0]), value);
    else
        bug(p->e->compiler, "a fold across lanes needs lanes");
}

/* Of values in shared memory: by the lanes of a warp, one each where there are no more. */
static const char *combine_shared(NestPrinter *p, const NestNode *node, const char *kind) {
    int64_t room = 0;
    const char *array = print_symbol(p, node->array), *count = print_index(p, node->extent);
    if (p->plain->team) array = arena_printf(p->arena, "(%s + first_warp)", array);
    if (!index_is_number(p->allocs[node->array]->at[0], &room) || room > TILE || node->at[0].count)
        bug(p->e->compiler, "values in this memory are not combined yet");
    return room > 32 ? arena_printf(p->arena, "ls_gather_%s(%s, %s)", kind, array, count)
                     : arena_printf(p->arena, "ls_warp_%s(%s < %s ? %s[%s] : ls_identity_%s())",
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
               ? arena_printf(p->arena, "%s > 0 ? %s : 0", print_index(p, node->extent), text)
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
    if (!is_of_lanes(fold)) return arena_printf(p->arena, "%s[%d]", tree, level_of(fold));
    if (!node->extent.count) return arena_printf(p->arena, "%s[7]", tree);
    return arena_printf(p->arena, "ls_lanes_%s(%s, %s)", kind_text(p, fold, fold->type), tree,
                        print_index(p, node->extent));
}

/* The tree over a vector's values of each lane; of eight the halves of the lanes have parts. */
static const char *vector_text(NestPrinter *p, const NestNode *fold, const char *kind,
                               const char *values) {
    int64_t leaves = 0;
    index_is_number(fold->extent, &leaves);
    if (leaves == 2 * LANE_LEAVES && p->nest->lanes == 32)
        return arena_printf(p->arena, "ls_halves_%s(%s)", kind, values);
    if (leaves != 4 * p->nest->lanes) bug(p->e->compiler, "a fold of such vectors has no text yet");
    return arena_printf(p->arena,
                        "ls_warp_%s(ls_combine_%s(ls_combine_%s(%s[0], %s[1]), "
                        "ls_combine_%s(%s[2], %s[3])))",
                        kind, kind, kind, values, values, kind, values, values);
}

/* Whether what the quick functions have made of a tile may not be right. */
static void print_odd(NestPrinter *p, const NestNode *fold, const char *value) {
    int64_t leaves = 0;
    index_is_number(fold->extent, &leaves);
    if (leaves == LANE_LEAVES)
        text_printf(p->out, "%s |= %s == 0;\n", p->odd, value);
    else
        text_printf(p->out, "%s |= ls_odd_%s(%s);\n", p->odd, type_info[fold->type].name,
                    print_symbol(p, fold->name));
}

void print_combine(NestPrinter *p, const NestNode *node) {
    const NestNode *fold = p->trees[node->array];
    const char *name = print_symbol(p, node->name), *text;
    const char *tree = print_symbol(p, node->array);
    if (!fold)
        text = combine_memory(p, node);
    else if (p->nest->lanes == 1)
        text = tile_text(p, node, fold);
    else if (p->own_trees[fold->name] && !fold->at_count)
        text = own_text(p, node, fold);
    else if (fold->at_count)
        text =
            arena_printf(p->arena, "%s[%s][%d]", tree, print_index(p, node->at[0]), level_of(fold));
    else
        text = vector_text(p, fold, kind_text(p, fold, fold->type), tree);
    const bool odd = fold && p->odd && print_is_quick(fold);
    if (!odd && print_is_only_stored(p, node))
        print_move(p, node, text);
    else
        text_printf(p->out, "const %s %s = %s;\n", emit_type(p->nest->symbols[node->name].type),
                    name, text);
    if (odd) print_odd(p, fold, name);
}
