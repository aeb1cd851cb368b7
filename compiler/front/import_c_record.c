/* import_c_record.c: structs and unions of a C header by value, in the locals of functions and
 * between the functions that call each other.
 *
 * One of the header gets a definition among the functions' texts,
 *
 *   typedef struct cs_pair { float c_a; float c_b[2]; } cs_pair;
 *
 * which those that use it call like a function, so that it stands ahead of them. One that a
 * function declares itself stays in its text. Members have the names that locals have. */
#include <string.h>

#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"
#include "front/clang.h"

enum { FIELDS_MAX = 64 };

static CXType canonical(Walk *w, CXType type) {
    return w->u->clang.clang_getCanonicalType(type);
}

bool c_is_record(Walk *w, CXType type) {
    return canonical(w, type).kind == C_RECORD;
}

static const char *type_spelling(Walk *w, CXType type) {
    return clang_text(w->c, w->u, w->u->clang.clang_getTypeSpelling(type));
}

/* The words of a type but its qualifiers. */
static const char *bare(Walk *w, const char *text) {
    static const char *const qualifiers[] = {"const ", "volatile ", "struct ", "union "};
    for (size_t i = 0; i < COUNT(qualifiers); i++)
        if (strncmp(text, qualifiers[i], strlen(qualifiers[i])) == 0)
            return bare(w, text + strlen(qualifiers[i]));
    return text;
}

static bool is_name(const char *text) {
    return *text && !strpbrk(text, " (:*[");
}

/* The tag, or of one without a tag the typedef's name; NULL: it has none. */
static const char *record_name(Walk *w, CXCursor definition, CXType type) {
    const char *tag = c_spelling(w, definition);
    if (is_name(tag)) return tag;
    const char *text = bare(w, type_spelling(w, canonical(w, type)));
    if (!is_name(text)) text = bare(w, type_spelling(w, type));
    return is_name(text) ? text : NULL;
}

/* The type of a field that is a number or a record, and behind its name the lengths of an array. */
static const char *field_type(Walk *w, CXCursor field, CXType type, const char **lengths) {
    Text text = text_open(w->c->arena);
    type = c_element_type(w, type, &text);
    const CXType inner = canonical(w, type);
    *lengths = text.data ? text.data : "";
    if (inner.kind == C_RECORD) return c_record(w, field, type);
    if (!c_is_number(w, inner)) return NULL;
    const char *alias = bare(w, type_spelling(w, type));
    const char *own = inner.kind == C_BOOL ? "LS_C_BOOL" : type_spelling(w, inner);
    if (is_name(alias) && strcmp(alias, bare(w, own)) != 0 && !c_add_word(w, field, alias, own))
        return NULL;
    return inner.kind == C_BOOL ? "LS_C_BOOL" : bare(w, type_spelling(w, inner));
}

/* Where members lie without attributes, which the text in kernels does not have. */
typedef struct Layout {
    long long end, most; /* in bytes; most: the largest alignment */
    bool is_union, other;
} Layout;

static long long round_up(long long bytes, long long to) {
    return to > 0 ? (bytes + to - 1) / to * to : bytes;
}

static void add_member(Walk *w, Layout *layout, CXCursor field) {
    const Clang *clang = &w->u->clang;
    const CXType type = canonical(w, clang->clang_getCursorType(field));
    const long long align = clang->clang_Type_getAlignOf(type),
                    size = clang->clang_Type_getSizeOf(type);
    const long long begin = layout->is_union ? 0 : round_up(layout->end, align);
    layout->other |= clang->clang_Cursor_getOffsetOfField(field) != 8 * begin;
    if (align > layout->most) layout->most = align;
    if (begin + size > layout->end) layout->end = begin + size;
}

static bool is_laid_out(Walk *w, const Layout *layout, CXCursor definition) {
    const CXType type = w->u->clang.clang_getCursorType(definition);
    return !layout->other &&
           w->u->clang.clang_Type_getSizeOf(type) == round_up(layout->end, layout->most);
}

/* The members of a definition, as text; false after a problem. */
static bool fields(Walk *w, CXCursor at, CXCursor definition, Text *text) {
    size_t count, kept = 0;
    Layout layout = {.is_union = definition.kind == CURSOR_UNION};
    CXCursor *found = clang_children(w->c, w->u, definition, &count);
    for (size_t i = 0; i < count; i++) {
        const CXCursor field = found[i];
        const char *lengths, *type;
        if (field.kind == CURSOR_STRUCT || field.kind == CURSOR_UNION) {
            if (w->u->clang.clang_Cursor_isAnonymousRecordDecl(field))
                return c_problem(w, at, "it uses a struct or union whose member has no name");
            continue; /* the type of a member, which comes next */
        }
        if (field.kind != CURSOR_FIELD)
            return c_problem(w, at, "it uses a struct or union with attributes");
        if (++kept > FIELDS_MAX)
            return c_problem(w, at, "it uses a struct or union with more than 64 members");
        const char *name = c_spelling(w, field);
        if (w->u->clang.clang_Cursor_isBitField(field))
            return c_problem(
                w, at, arena_printf(w->c->arena, "it uses a struct with the bit field `%s`", name));
        if (!is_name(name))
            return c_problem(w, at, "it uses a struct or union whose member has no name");
        type = field_type(w, field, w->u->clang.clang_getCursorType(field), &lengths);
        if (!type)
            return c_problem(w, at,
                             arena_printf(w->c->arena, "it uses a struct whose member `%s` is %s",
                                          name, c_describe_type(w, field)));
        if (!c_add_word(w, at, name, arena_printf(w->c->arena, "c_%s", name))) return false;
        text_printf(text, "    %s c_%s%s;\n", type, name, lengths);
        add_member(w, &layout, field);
    }
    if (kept > 0 && !is_laid_out(w, &layout, definition))
        return c_problem(w, at, "it uses a struct or union that is packed, or aligned otherwise");
    return kept > 0 || c_problem(w, at, "it uses a struct or union without members");
}

/* The definition's number among the functions, one for all that are alike. */
static int add_record(Checker *c, const char *kind, const char *stem, const char *body,
                      const Walk *w, const char **name) {
    *name = arena_printf(c->arena, "cs_%s", stem);
    for (unsigned k = 2;; k++) {
        bool taken = false;
        const char *text =
            arena_printf(c->arena, "typedef %s %s {\n%s} %s;\n", kind, *name, body, *name);
        for (size_t i = 0; i < c->c_function_count; i++) {
            if (strcmp(c->c_functions[i].name, *name) != 0) continue;
            if (strcmp(c->c_functions[i].source, text) == 0) return (int)i;
            taken = true;
        }
        if (taken) {
            *name = arena_printf(c->arena, "cs_%s_%u", stem, k);
            continue;
        }
        const CFunction record = {.name = *name,
                                  .source = text,
                                  .calls = w->calls, /* those of its members among them */
                                  .call_count = w->call_count};
        c->c_functions = arena_grow(c->arena, c->c_functions, c->c_function_count,
                                    &c->c_function_capacity, sizeof *c->c_functions);
        c->c_functions[c->c_function_count] = record;
        return (int)c->c_function_count++;
    }
}

/* One of a function, whose text is part of the function's. */
static const char *local_record(Walk *w, CXCursor at, CXCursor definition) {
    const char *tag = c_spelling(w, definition);
    const char *name = arena_printf(w->c->arena, "cl_%s", is_name(tag) ? tag : "");
    Text body = text_open(w->c->arena);
    if (!fields(w, at, definition, &body)) return NULL;
    return !is_name(tag) || c_add_word(w, at, tag, name) ? name : NULL;
}

/* One of the header, looked at once: a walk of its own, for the words and calls of it alone. */
static const CRecord *header_record(Walk *w, CXCursor at, CXCursor definition, CXType type) {
    for (const CRecord *known = w->u->records; known; known = known->next)
        if (w->u->clang.clang_equalCursors(known->definition, definition)) return known;
    Walk own = {.c = w->c, .u = w->u, .symbol = w->symbol, .function = w->function};
    const char *stem = record_name(w, definition, type), *name;
    Text body = text_open(w->c->arena);
    if (!fields(&own, at, definition, &body)) return NULL;
    if (!stem) {
        c_problem(w, at, "it uses a struct or union without a name");
        return NULL;
    }
    const char *kind = definition.kind == CURSOR_UNION ? "union" : "struct";
    const int number = add_record(w->c, kind, stem, body.data, &own, &name);
    if (!c_add_word(&own, at, stem, name)) return NULL;
    CRecord *record = arena_alloc(w->c->arena, sizeof *record);
    *record = (CRecord){definition, number, name, own.words, w->u->records};
    return w->u->records = record;
}

const char *c_record(Walk *w, CXCursor at, CXType type) {
    const Clang *clang = &w->u->clang;
    const CXCursor declaration = clang->clang_getTypeDeclaration(canonical(w, type));
    const CXCursor definition = clang->clang_getCursorDefinition(declaration);
    if (definition.kind != CURSOR_UNION && definition.kind != CURSOR_STRUCT) {
        c_problem(w, at, "it uses a struct or union that the header does not define");
        return NULL;
    }
    if (clang->clang_getCursorSemanticParent(definition).kind == CURSOR_FUNCTION)
        return local_record(w, at, definition);
    const CRecord *record = header_record(w, at, definition, type);
    if (!record || !c_keep_call(w, record->number)) return NULL;
    for (const Word *word = record->words; word; word = word->next)
        if (!c_add_word(w, at, word->name, word->text)) return NULL;
    const char *alias = bare(w, type_spelling(w, type)); /* a typedef of it, mostly */
    return !is_name(alias) || c_add_word(w, at, alias, record->name) ? record->name : NULL;
}
