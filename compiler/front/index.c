/* index.c: what the text says place by place, for lockstep/index.h: definitions, mentions and the
 * values of expressions.
 *
 * Values are kept as the checker comes to them. The tables of names are made when somebody asks:
 * one walk over the trees of all files, with the scopes that the checker filled and those of steps,
 * functions and blocks once more, so that what an error kept from being checked has its names too.
 * A definition is known by its place, so a mention needs no more than that. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"

/* The value of an expression, or of a name that is introduced. */
typedef struct Valued {
    Range range;
    const Typed *value;
    Step *step;               /* whose axes those of the value are */
    const Instance *instance; /* of the fn that it stands in */
    size_t order;
    bool varies; /* the calls of the fn give it several types */
} Valued;

/* What a definition was, beside what the public table says. */
typedef struct Origin {
    const Entry *entry; /* of axes and parameters */
    const Item *item;   /* of items, and the one around others */
    const Symbol *symbol;
} Origin;

typedef struct Index {
    Valued *values; /* as they come; once the tables are made by place, each once */
    size_t value_count, value_capacity;
    bool made;
    ls_index tables;
    ls_definition *definitions;
    Origin *origins;
    size_t definition_capacity, origin_capacity;
    ls_mention *mentions; /* while they are collected, `definition` is the number in `targets` */
    Range *targets;       /* where what is mentioned is introduced */
    size_t mention_capacity, target_capacity;
} Index;

void index_open(Checker *c) {
    c->index = arena_alloc(c->arena, sizeof *c->index);
    c->compiler->checker = c;
}

void index_value(Checker *c, Range range, const Typed *value) {
    Index *index = c->index;
    if (!index || index->made || c->call || is_error(value) || range.file == 0) return;
    index->values = arena_grow(c->arena, index->values, index->value_count, &index->value_capacity,
                               sizeof *index->values);
    index->values[index->value_count] = (Valued){.range = range,
                                                 .value = value,
                                                 .step = c->step,
                                                 .instance = c->instance,
                                                 .order = index->value_count};
    index->value_count++;
}

static ls_place place_of(Range r) {
    return (ls_place){r.file, r.begin, r.end};
}

static int compare_places(ls_place a, ls_place b) {
    if (a.file != b.file) return a.file < b.file ? -1 : 1;
    if (a.begin != b.begin) return a.begin < b.begin ? -1 : 1;
    return a.end == b.end ? 0 : a.end < b.end ? -1 : 1;
}

/* Functions of the language have no place: they are told apart by their numbers. */
static Range builtin_range(size_t number) {
    return (Range){0, (uint32_t)number, (uint32_t)number};
}

/* ---- the walk ---- */

typedef struct Walk {
    Checker *c;
    Index *index;
    Unit *unit;
    const Item *item; /* a step or fn; NULL: none */
    uint32_t end;     /* of the item: how far its names can be said */
    Scope *scope;     /* of values */
} Walk;

static void add_definition(Walk *w, ls_name_kind kind, const char *name, Range at, Range whole,
                           Range scope, Origin origin) {
    Index *index = w->index;
    index->definitions = arena_grow(w->c->arena, index->definitions, index->tables.definition_count,
                                    &index->definition_capacity, sizeof *index->definitions);
    index->origins = arena_grow(w->c->arena, index->origins, index->tables.definition_count,
                                &index->origin_capacity, sizeof *index->origins);
    index->origins[index->tables.definition_count] = origin;
    index->definitions[index->tables.definition_count++] = (ls_definition){.kind = kind,
                                                                           .name = name,
                                                                           .at = place_of(at),
                                                                           .whole = place_of(whole),
                                                                           .scope = place_of(scope),
                                                                           .within = UINT32_MAX};
}

static void add_mention(Walk *w, Range at, Range target) {
    Index *index = w->index;
    if (at.file == 0 || at.end <= at.begin) return;
    const size_t number = index->tables.mention_count;
    index->mentions = arena_grow(w->c->arena, index->mentions, number, &index->mention_capacity,
                                 sizeof *index->mentions);
    index->targets = arena_grow(w->c->arena, index->targets, number, &index->target_capacity,
                                sizeof *index->targets);
    index->targets[number] = target;
    index->mentions[index->tables.mention_count++] =
        (ls_mention){.at = place_of(at), .definition = (uint32_t)number};
}

static void mention_symbol(Walk *w, Range at, const Symbol *symbol) {
    if (!symbol || symbol->kind == SYMBOL_BROKEN || symbol->kind == SYMBOL_AMBIGUOUS) return;
    if (symbol->kind == SYMBOL_BUILTIN)
        add_mention(w, at, builtin_range((size_t)(symbol->builtin - builtin_at(0))));
    else
        add_mention(w, at, symbol->range);
}

/* `name` or `qualifier.name`, which stands at `at`. */
static Symbol *mention_name(Walk *w, const Name *qualifier, const Name *name, Range at,
                            bool function) {
    Symbol *symbol, *import = NULL;
    if (qualifier) {
        Range before = {at.file, at.begin, at.begin + (uint32_t)qualifier->size};
        import = scope_find_here(&w->unit->qualifiers, qualifier);
        mention_symbol(w, before, import);
        if (!import || !import->unit) return NULL;
        at.begin = at.end - (uint32_t)name->size;
        symbol = scope_find(function ? &import->unit->functions : &import->unit->constants, name);
        if (symbol && symbol->kind == SYMBOL_BUILTIN) return NULL;
    } else {
        symbol = scope_find(function ? &w->unit->functions : w->scope, name);
    }
    mention_symbol(w, at, symbol);
    return symbol;
}

static void walk_node(Walk *w, const Node *node);

static void walk_nodes(Walk *w, const Node *list) {
    for (const Node *node = list; node; node = node->next) walk_node(w, node);
}

/* A name that is bound, from here to the end of the block. */
static void bind(Walk *w, SymbolKind kind, ls_name_kind public_kind, const Entry *entry,
                 Range whole, uint32_t from, uint32_t to) {
    if (!scope_find_here(w->scope, entry->name))
        scope_add(w->scope, entry->name, entry->range, kind);
    add_definition(w, public_kind, entry->name->text, entry->range, whole,
                   (Range){entry->range.file, from, to}, (Origin){.entry = entry, .item = w->item});
    add_mention(w, entry->range, entry->range);
}

/* scan[k](init, acc, e): acc is a name in e. */
static void walk_scan(Walk *w, const Node *node) {
    const Node *acc = node->first ? node->first->next : NULL, *e = acc ? acc->next : NULL;
    Scope scope, *outer = w->scope;
    walk_node(w, node->first);
    if (!e || acc->kind != NODE_NAME || acc->qualifier) {
        walk_nodes(w, acc);
        return;
    }
    scope_open(&scope, w->c->arena, outer);
    w->scope = &scope;
    bind(w, SYMBOL_RUNNING, LS_NAME_RUNNING, &(Entry){.name = acc->name, .range = acc->range},
         node->range, e->range.begin, e->range.end);
    w->index->origins[w->index->tables.definition_count - 1].entry = NULL;
    walk_nodes(w, e);
    w->scope = outer;
}

/* `step(x = e)`: x is the parameter's. */
static void mention_argument(Walk *w, const Node *argument, const Symbol *step) {
    const Entry *entry = step && step->item ? step->item->parameters : NULL;
    while (entry && entry->name != argument->name) entry = entry->next;
    if (entry) add_mention(w, argument->at, entry->range);
}

static void walk_call(Walk *w, const Node *node) {
    const bool cast = node->token == TOKEN_TYPE;
    Symbol *symbol = cast ? NULL : mention_name(w, node->qualifier, node->name, node->at, true);
    walk_nodes(w, node->has_brackets ? node->brackets : NULL);
    if (symbol && symbol->kind == SYMBOL_BUILTIN && symbol->builtin->check == check_scan) {
        walk_scan(w, node);
        return;
    }
    for (const Node *argument = node->first; argument; argument = argument->next) {
        if (argument->kind == NODE_NAMED) mention_argument(w, argument, symbol);
        walk_node(w, argument);
    }
}

static void walk_node(Walk *w, const Node *node) {
    if (!node) return;
    switch (node->kind) {
    case NODE_NAME: mention_name(w, node->qualifier, node->name, node->at, false); break;
    case NODE_INDEX:
        mention_name(w, node->qualifier, node->name, node->at, false);
        walk_nodes(w, node->first);
        break;
    case NODE_CALL: walk_call(w, node); break;
    case NODE_PRIME:
        mention_name(w, node->qualifier, node->name, node->at, true);
        walk_nodes(w, node->first);
        break;
    default: walk_nodes(w, node->first);
    }
}

/* ---- statements ---- */

static void walk_statements(Walk *w, const Statement *list, uint32_t end);

static void walk_block(Walk *w, const Statement *list, uint32_t end) {
    Scope scope, *outer = w->scope;
    scope_open(&scope, w->c->arena, outer);
    w->scope = &scope;
    walk_statements(w, list, end);
    w->scope = outer;
}

static void walk_statement(Walk *w, const Statement *s, uint32_t end) {
    const Statement *otherwise = s->otherwise;
    walk_node(w, s->value);
    for (const Entry *entry = s->targets; entry; entry = entry->next) {
        if (s->kind == STATEMENT_LET)
            bind(w, SYMBOL_LET, LS_NAME_LET, entry, s->range, s->range.end, end);
        else if (s->kind != STATEMENT_CALL)
            mention_name(w, NULL, entry->name, entry->range, false);
    }
    if (s->body) walk_block(w, s->body, otherwise ? otherwise->range.begin : s->range.end);
    if (otherwise) walk_block(w, otherwise, s->range.end);
}

static void walk_statements(Walk *w, const Statement *list, uint32_t end) {
    for (const Statement *s = list; s; s = s->next) walk_statement(w, s, end);
}

/* ---- items ---- */

/* Of an item that is not finished, its names can be said in what may become a part of it. */
static uint32_t end_of_names(const Walk *w, const Item *item) {
    const Source *source = &w->c->compiler->sources[w->unit->file];
    const char *text = source->text;
    const bool braces = item->kind == ITEM_STEP || item->is_block;
    uint32_t end = item->range.end;
    if (braces && end > 0 && text[end - 1] == '}') return end;
    if (braces) return item->next ? item->next->range.begin : (uint32_t)source->size;
    while (end < source->size && text[end] != '\n') end++;
    return end;
}

static void bind_axis(Walk *w, const Entry *entry) {
    const uint32_t from = w->item->range.begin;
    if (entry->parent) mention_name(w, NULL, entry->parent, entry->parent_range, false);
    walk_node(w, entry->size);
    bind(w, SYMBOL_AXIS, LS_NAME_AXIS, entry, entry->range, from, w->end);
    for (const Entry *block = entry->blocks; block; block = block->next) {
        walk_node(w, block->size);
        bind(w, SYMBOL_AXIS, LS_NAME_AXIS, block, block->range, from, w->end);
    }
}

/* From the name to what is said about it last. */
static Range entry_range(const Entry *entry) {
    Range range = entry->range;
    if (entry->type_range.end > range.end) range.end = entry->type_range.end;
    for (const Entry *axis = entry->axes; axis; axis = axis->next)
        if (axis->range.end > range.end) range.end = axis->range.end;
    if (entry->initial && entry->initial->range.end > range.end)
        range.end = entry->initial->range.end;
    return range;
}

static void bind_parameter(Walk *w, const Entry *entry) {
    const bool step = w->item->kind == ITEM_STEP;
    for (const Entry *axis = entry->axes; axis; axis = axis->next)
        mention_name(w, NULL, axis->name, axis->range, false);
    walk_node(w, entry->initial);
    bind(w, step ? SYMBOL_PARAMETER : SYMBOL_ARGUMENT, step ? LS_NAME_PARAMETER : LS_NAME_ARGUMENT,
         entry, entry_range(entry), w->item->range.begin, w->end);
}

/* step name = backward other(x, y): what it has is the other step's. */
static void walk_backward(Walk *w, const Item *item) {
    const Node *node = item->step;
    if (!node || node->kind != NODE_NAME) return;
    const Symbol *symbol = mention_name(w, node->qualifier, node->name, node->at, true);
    const Item *forward = symbol && symbol->kind == SYMBOL_STEP ? symbol->item : NULL;
    for (const Entry *target = item->targets; target; target = target->next) {
        const Entry *entry = forward ? forward->parameters : NULL;
        while (entry && entry->name != target->name) entry = entry->next;
        if (entry) add_mention(w, target->range, entry->range);
    }
}

static void walk_body(Walk *w, const Item *item) {
    Scope scope;
    scope_open(&scope, w->c->arena, &w->unit->constants);
    w->scope = &scope;
    w->item = item;
    w->end = end_of_names(w, item);
    for (const Entry *e = item->kind == ITEM_STEP ? item->axes : NULL; e; e = e->next)
        bind_axis(w, e);
    for (const Entry *e = item->parameters; e; e = e->next) bind_parameter(w, e);
    walk_node(w, item->value);
    walk_statements(w, item->body, w->end);
    w->item = NULL;
    w->scope = &w->unit->constants;
}

static void walk_item(Walk *w, const Item *item) {
    static const ls_name_kind kinds[] = {[ITEM_IMPORT] = LS_NAME_IMPORT,
                                         [ITEM_CONST] = LS_NAME_CONST,
                                         [ITEM_FN] = LS_NAME_FN,
                                         [ITEM_STEP] = LS_NAME_STEP,
                                         [ITEM_BACKWARD] = LS_NAME_STEP};
    const Range file = {w->unit->file, 0, (uint32_t)w->c->compiler->sources[w->unit->file].size};
    if (item->kind == ITEM_IMPORT && item->brought)
        add_mention(w, item->path, (Range){item->brought->file, 0, 0});
    if (item->name) {
        add_definition(w, kinds[item->kind], item->name->text, item->at, item->range, file,
                       (Origin){.item = item});
        add_mention(w, item->at, item->at);
    }
    if (item->kind == ITEM_BACKWARD)
        walk_backward(w, item);
    else if (item->kind == ITEM_STEP || item->kind == ITEM_FN)
        walk_body(w, item);
    else
        walk_node(w, item->value);
}

/* Functions and constants of a C header. */
static void add_symbols(Walk *w, const Scope *scope) {
    for (const Symbol *symbol = scope->first; symbol; symbol = symbol->next)
        if (symbol->range.file && symbol->kind != SYMBOL_BROKEN)
            add_definition(w, LS_NAME_C, symbol->name->text, symbol->range, symbol->range,
                           symbol->range, (Origin){.symbol = symbol});
}

static void walk_unit(Walk *w, Unit *unit) {
    w->unit = unit;
    w->scope = &unit->constants;
    add_definition(w, LS_NAME_FILE, unit->path, (Range){unit->file, 0, 0},
                   (Range){unit->file, 0, 0}, (Range){unit->file, 0, 0}, (Origin){0});
    if (unit->is_c) {
        add_symbols(w, &unit->functions);
        add_symbols(w, &unit->constants);
    }
    for (const Item *item = unit->items; item; item = item->next) walk_item(w, item);
}

/* ---- the tables ---- */

static int compare_definitions(const void *a, const void *b) {
    return compare_places(((const ls_definition *)a)->at, ((const ls_definition *)b)->at);
}

static int compare_mentions(const void *a, const void *b) {
    return compare_places(((const ls_mention *)a)->at, ((const ls_mention *)b)->at);
}

/* The smaller of two expressions that begin alike stands behind. */
static int compare_values(const void *a, const void *b) {
    const Valued *x = a, *y = b;
    const int order = compare_places(place_of(x->range), place_of(y->range));
    if (order) return order;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Sorts definitions, and their origins with them. */
static void sort_definitions(Walk *w) {
    Index *index = w->index;
    const size_t count = index->tables.definition_count;
    Origin *origins = arena_alloc(w->c->arena, (count + 1) * sizeof *origins);
    for (size_t i = 0; i < count; i++) index->definitions[i].within = (uint32_t)i;
    qsort(index->definitions, count, sizeof *index->definitions, compare_definitions);
    for (size_t i = 0; i < count; i++) {
        origins[i] = index->origins[index->definitions[i].within];
        index->definitions[i].within = UINT32_MAX;
    }
    index->origins = origins;
}

/* The number of what is introduced at a place; the count where there is nothing. */
static size_t find_definition(const Index *index, Range at) {
    ls_definition wanted = {.at = place_of(at)};
    const ls_definition *found =
        bsearch(&wanted, index->definitions, index->tables.definition_count,
                sizeof *index->definitions, compare_definitions);
    return found ? (size_t)(found - index->definitions) : index->tables.definition_count;
}

static void resolve_mentions(Index *index) {
    size_t kept = 0;
    for (size_t i = 0; i < index->tables.mention_count; i++) {
        ls_mention mention = index->mentions[i];
        const size_t number = find_definition(index, index->targets[mention.definition]);
        if (number == index->tables.definition_count) continue;
        mention.definition = (uint32_t)number;
        index->mentions[kept++] = mention;
    }
    index->tables.mention_count = kept;
    if (kept) qsort(index->mentions, kept, sizeof *index->mentions, compare_mentions);
}

/* Each place once: of a scan, which is checked several times, the last; of a fn, whether its calls
 * differ. */
static void merge_values(Index *index) {
    size_t kept = 0;
    if (index->value_count)
        qsort(index->values, index->value_count, sizeof *index->values, compare_values);
    for (size_t i = 0; i < index->value_count; i++) {
        Valued *now = &index->values[i], *last = kept ? &index->values[kept - 1] : NULL;
        if (last && compare_places(place_of(last->range), place_of(now->range)) == 0) {
            const bool same = last->value->type == now->value->type &&
                              last->value->axes == now->value->axes && last->step == now->step;
            now->varies = last->varies || (now->instance != last->instance && !same);
            *last = *now;
        } else {
            index->values[kept++] = *now;
        }
    }
    index->value_count = kept;
}

static void list_files(Walk *w) {
    const Compiler *compiler = w->c->compiler;
    ls_index_file *files = arena_alloc(w->c->arena, (compiler->source_count + 1) * sizeof *files);
    for (size_t i = 0; i < compiler->source_count; i++)
        files[i] = (ls_index_file){.path = compiler->sources[i].path,
                                   .text = compiler->sources[i].text,
                                   .size = compiler->sources[i].size};
    for (const Unit *unit = w->c->units; unit; unit = unit->next) {
        files[unit->file].library = unit->is_library;
        files[unit->file].header = unit->is_c;
    }
    w->index->tables.files = files;
    w->index->tables.file_count = compiler->source_count;
}

static void set_within(Index *index) {
    for (size_t i = 0; i < index->tables.definition_count; i++) {
        ls_definition *d = &index->definitions[i];
        const Item *item = index->origins[i].item;
        if (!item || !item->name || d->kind < LS_NAME_AXIS) continue;
        const size_t around = find_definition(index, item->at);
        if (around < index->tables.definition_count) d->within = (uint32_t)around;
    }
}

static void make_tables(Checker *c) {
    Index *index = c->index;
    Walk w = {.c = c, .index = index};
    index->tables = (ls_index){0}; /* what an attempt without memory may have left */
    for (size_t i = 0; builtin_at(i); i++)
        add_definition(&w, LS_NAME_BUILTIN, builtin_at(i)->name, builtin_range(i), (Range){0},
                       (Range){0}, (Origin){0});
    for (Unit *unit = c->units; unit; unit = unit->next) walk_unit(&w, unit);
    list_files(&w);
    sort_definitions(&w);
    resolve_mentions(index);
    merge_values(index);
    set_within(index);
    index->tables.definitions = index->definitions;
    index->tables.mentions = index->mentions;
    index->made = true;
}

const ls_index *index_tables(Compiler *compiler) {
    Checker *c = compiler->checker;
    if (!c) return NULL;
    if (!c->index->made) make_tables(c);
    return &c->index->tables;
}

/* ---- descriptions ---- */

/* A piece of the source on one line, without comments. */
static const char *one_line(Checker *c, Range range) {
    enum { LONGEST = 1000 };
    Text text = text_open(c->arena);
    bool comment = false, space = false;
    const char *source = c->compiler->sources[range.file].text;
    for (const char *s = source + range.begin, *end = source + range.end;
         s < end && text.size < LONGEST; s++) {
        comment = *s == '#' || (comment && *s != '\n');
        space |= comment || isspace((unsigned char)*s);
        if (comment || isspace((unsigned char)*s)) continue;
        const bool tight = text.size && strchr("([", text.data[text.size - 1]);
        const bool list_end = strchr(")]", *s) != NULL;
        if (list_end && text.size && text.data[text.size - 1] == ',') /* a trailing comma */
            text.data[--text.size] = '\0';
        if (space && text.size && !tight && !list_end) text_puts(&text, " ");
        text_add(&text, s, 1);
        space = false;
    }
    return text.size ? text.data : "";
}

/* The head of a step or fn, or all of another item. */
static const char *item_declaration(Checker *c, const Item *item) {
    Range range = item->range;
    if (item->kind == ITEM_STEP || (item->kind == ITEM_FN && item->is_block)) {
        const char *text = c->compiler->sources[range.file].text;
        bool comment = false;
        for (uint32_t at = range.begin; at < range.end; at++) {
            comment = text[at] == '#' || (comment && text[at] != '\n');
            if (comment || text[at] != '{') continue;
            range.end = at;
            break;
        }
    }
    const char *line = one_line(c, range);
    size_t size = strlen(line);
    while (size && line[size - 1] == ' ') size--;
    return arena_copy(c->arena, line, size);
}

static const char *entry_declaration(Checker *c, ls_name_kind kind, const Entry *entry) {
    static const char *const roles[] = {[LS_IN] = "", [LS_INOUT] = "inout ", [LS_OUT] = "out "};
    Range range = entry_range(entry);
    if (kind == LS_NAME_AXIS) {
        if (entry->size) range.end = entry->size->range.end;
        if (entry->ragged.end > range.end) range.end = entry->ragged.end;
        if (entry->blocked.end > range.end) range.end = entry->blocked.end;
    } else if (entry->axes) {
        const char *text = c->compiler->sources[range.file].text;
        while (!entry->initial && text[range.end] && text[range.end] != ']') range.end++;
        range.end += !entry->initial && text[range.end] == ']';
    }
    return arena_printf(c->arena, "%s%s", kind == LS_NAME_PARAMETER ? roles[entry->role] : "",
                        one_line(c, range));
}

/* The comment behind a name, on its line. */
static const char *comment_behind(Checker *c, const char *name) {
    const char *end = name + strcspn(name, "\n"), *sign = memchr(name, '#', (size_t)(end - name));
    while (sign && sign < end && strchr("# ", *sign)) sign++;
    return sign && sign < end ? arena_copy(c->arena, sign, (size_t)(end - sign)) : NULL;
}

/* The comment lines right above an item. */
static const char *comment_above(Checker *c, const char *text, const char *name) {
    Text comment = text_open(c->arena);
    const char *line = name;
    while (line > text && line[-1] != '\n') line--;
    const char *first = line;
    while (first > text) { /* up to the first line of the comment */
        const char *above = first - 1;
        while (above > text && above[-1] != '\n') above--;
        if (above[strspn(above, " \t")] != '#') break;
        first = above;
    }
    while (first < line) {
        const char *end = first + strcspn(first, "\n");
        first += strspn(first, " \t#");
        if (first > end) first = end;
        if (comment.size) text_puts(&comment, "\n");
        text_add(&comment, first, (size_t)(end - first));
        first = end + 1;
    }
    return comment.size ? comment.data : NULL;
}

static const char *comment_of(Checker *c, const ls_definition *d) {
    const char *text = c->compiler->sources[d->at.file].text;
    const char *name = text + d->at.begin, *comment = NULL;
    if (d->kind == LS_NAME_CONST || d->kind == LS_NAME_FN || d->kind == LS_NAME_STEP)
        comment = comment_above(c, text, name);
    const bool long_item = d->kind == LS_NAME_FN || d->kind == LS_NAME_STEP;
    return comment || long_item || d->kind == LS_NAME_IMPORT ? comment : comment_behind(c, name);
}

/* "b x 64", "n of each t x 8": the lengths of axes. */
static const char *shape_of(Checker *c, const Step *step, AxisSet axes) {
    Text text = text_open(c->arena);
    for (uint32_t a = 0; step && a < step->axis_count; a++) {
        const Axis *axis = &step->axes[a];
        if (!(axes >> a & 1)) continue;
        if (text.size) text_puts(&text, " x ");
        if (axis->fixed >= 0)
            text_printf(&text, "%lld", (long long)axis->fixed);
        else if (axis->parent >= 0)
            text_printf(&text, "%s of each %s", axis->name, step->axes[axis->parent].name);
        else
            text_puts(&text, axis->name);
    }
    return text.size ? text.data : NULL;
}

static void describe_value(Checker *c, const Valued *valued, bool bounds,
                           ls_description *description) {
    const Typed *a = valued->value;
    if (valued->varies) return;
    Step *here = c->step;
    c->step = valued->step;
    if (is_constant(a)) {
        Text text = text_open(c->arena);
        Type type = a->type == TYPE_INTEGER ? TYPE_I64
                    : a->type == TYPE_FLOAT ? TYPE_F64
                                            : (Type)a->type;
        ir_print_number(type, a->payload, &text);
        description->value = text.data;
    }
    description->type = describe(c, a);
    AxisSet axes = c->step ? without_blocks(c, a->axes) : a->axes;
    description->shape = shape_of(c, valued->step, axes);
    const ls_math asked = c->compiler->options->math;
    const ls_math math = asked != LS_MATH_SOURCE ? asked
                         : valued->step          ? valued->step->math
                                                 : LS_MATH_EXACT;
    if (bounds) description->bound = typed_bound(c, a, math);
    c->step = here;
}

static const Valued *find_value_at(const Index *index, Range range) {
    size_t low = 0, high = index->value_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = compare_places(place_of(index->values[middle].range), place_of(range));
        if (order == 0) return &index->values[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

void index_describe(Compiler *compiler, size_t number, bool bounds, ls_description *description) {
    const ls_index *tables = index_tables(compiler);
    Checker *c = compiler->checker;
    *description = (ls_description){0};
    if (!tables || number >= tables->definition_count) return;
    const ls_definition *d = &tables->definitions[number];
    const Origin *origin = &c->index->origins[number];
    if (d->kind == LS_NAME_BUILTIN) {
        description->declaration = builtin_at(number)->form;
        description->comment = builtin_at(number)->what;
        return;
    }
    if (d->kind == LS_NAME_FILE) return;
    const Range at = {d->at.file, d->at.begin, d->at.end};
    const Range whole = {d->whole.file, d->whole.begin, d->whole.end};
    if (d->kind < LS_NAME_AXIS && origin->item)
        description->declaration = item_declaration(c, origin->item);
    else if (origin->entry && d->kind != LS_NAME_LET)
        description->declaration = entry_declaration(c, d->kind, origin->entry);
    else if (d->kind == LS_NAME_LET || d->kind == LS_NAME_RUNNING)
        description->declaration = one_line(c, whole);
    if (d->kind != LS_NAME_C) description->comment = comment_of(c, d);
    const Valued *valued = find_value_at(c->index, at);
    if (valued) describe_value(c, valued, bounds, description);
    if (d->kind == LS_NAME_CONST && origin->item) {
        const Symbol *symbol = scope_find_here(&origin->item->unit->constants, origin->item->name);
        const Typed *value = symbol && symbol->kind == SYMBOL_CONST ? symbol->value : NULL;
        if (value && !is_error(value))
            describe_value(c, &(Valued){.value = value}, bounds, description);
    }
    if (d->kind == LS_NAME_PARAMETER && origin->item->checked && origin->entry) {
        Step *step = origin->item->checked;
        for (size_t p = 0; p < step->parameter_count; p++) {
            const Parameter *parameter = &step->parameters[p];
            if (parameter->name != origin->entry->name->text) continue;
            Step *here = c->step;
            c->step = step;
            description->type = arena_printf(c->arena, "%s%s", type_info[parameter->type].name,
                                             describe_axes(c, parameter->axes));
            description->shape = shape_of(c, step, parameter->declared);
            c->step = here;
        }
    }
}

void index_value_at(Compiler *compiler, uint32_t file, uint32_t offset, ls_place *at,
                    ls_description *description) {
    const ls_index *tables = index_tables(compiler);
    const Checker *c = compiler->checker;
    const Valued *best = NULL;
    *at = (ls_place){0};
    *description = (ls_description){0};
    for (size_t i = 0; tables && i < c->index->value_count; i++) {
        const Valued *valued = &c->index->values[i];
        const Range r = valued->range;
        if (r.file != file || offset < r.begin || offset > r.end) continue;
        if (!best || r.end - r.begin < best->range.end - best->range.begin) best = valued;
    }
    if (!best) return;
    *at = place_of(best->range);
    describe_value(compiler->checker, best, true, description);
}
