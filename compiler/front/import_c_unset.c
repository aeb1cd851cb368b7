/* import_c_unset.c: reads of elements of local arrays, and of members of local structs and unions,
 * that were not set before. clang's own warnings tell those of whole locals (import_c.c).
 *
 * A definite-assignment analysis of bytes, whose rule is that of -Wsometimes-uninitialized: a read
 * is refused where nothing can have set any byte of it on the way there, and behind an `if` that
 * sets it in one branch, where the read itself depends on no further condition. What a loop stores
 * anywhere counts as set behind it, as does what any case of a `switch` stores; an index that is no
 * literal and no enumerator may be any element. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"
#include "front/clang.h"

/* Of a byte; from BYTE_MAYBE on: set on some path only, which meets the others at the nesting of
 * conditions that the rest says. */
enum { BYTE_UNSET, BYTE_SET, BYTE_MAYBE };

/* States of all bytes of the locals, side by side. */
typedef struct States {
    uint16_t *bytes;
    struct States *next; /* of those that are free */
} States;

typedef struct Flow {
    Walk *w;
    uint16_t *now, *collected; /* collected: where stores alone are looked at, they go here */
    States *spare;
    uint32_t nesting; /* of conditions and loops */
    bool ended;       /* by a return, a break or a continue */
    bool good;
} Flow;

/* Bytes of the locals; none: it is no place in a local that is looked at. */
typedef struct Place {
    size_t begin, end;
} Place;

static void visit(Flow *f, CXCursor cursor);

/* ---- states ---- */

static States *take_states(Flow *f) {
    const size_t size = f->w->local_bytes * sizeof *f->now;
    States *s = f->spare;
    if (s)
        f->spare = s->next;
    else {
        s = arena_alloc(f->w->c->arena, sizeof *s);
        s->bytes = arena_alloc(f->w->c->arena, size);
    }
    return s;
}

static States *copy_states(Flow *f) {
    States *s = take_states(f);
    memcpy(s->bytes, f->now, f->w->local_bytes * sizeof *f->now);
    return s;
}

static void give_back(Flow *f, States *s) {
    s->next = f->spare;
    f->spare = s;
}

static bool is_unset(const Flow *f, uint16_t state) {
    return state == BYTE_UNSET || (state >= BYTE_MAYBE && f->nesting + BYTE_MAYBE <= state);
}

/* ---- places ---- */

static bool is_wrapper(CXCursor cursor) {
    return cursor.kind == CURSOR_UNEXPOSED_EXPRESSION || cursor.kind == CURSOR_PARENTHESES;
}

/* What stands within parentheses, and with `all` within conversions too. */
static CXCursor inside(Flow *f, CXCursor cursor, bool all) {
    while (all ? is_wrapper(cursor) : cursor.kind == CURSOR_PARENTHESES) {
        size_t count;
        CXCursor *parts = clang_children(f->w->c, f->w->u, cursor, &count);
        if (count != 1) break;
        cursor = parts[0];
    }
    return cursor;
}

/* The value of an index that is a literal or an enumerator; -1: not known. */
static long long index_of(Flow *f, CXCursor cursor) {
    const Clang *clang = &f->w->u->clang;
    cursor = inside(f, cursor, true);
    if (cursor.kind == CURSOR_REFERENCE) {
        const CXCursor to = clang->clang_getCursorReferenced(cursor);
        return to.kind == CURSOR_ENUM_CONSTANT ? clang->clang_getEnumConstantDeclValue(to) : -1;
    }
    if (cursor.kind != CURSOR_INTEGER) return -1;
    const Range at = clang_range(f->w->c, f->w->u, cursor); /* of a macro: its name */
    const char *text = f->w->c->compiler->sources[at.file].text + at.begin;
    return at.file && isdigit((unsigned char)*text) ? strtoll(text, NULL, 0) : -1;
}

static Place local_place(Flow *f, CXCursor variable) {
    for (const CLocal *local = f->w->locals; local; local = local->next)
        if (f->w->u->clang.clang_equalCursors(local->variable, variable))
            return (Place){local->begin, local->begin + local->bytes};
    return (Place){0};
}

/* The bytes of a local, an element or a member of one. */
static Place place_of(Flow *f, CXCursor cursor) {
    const Clang *clang = &f->w->u->clang;
    size_t count;
    cursor = inside(f, cursor, true);
    if (cursor.kind == CURSOR_REFERENCE)
        return local_place(f, clang->clang_getCursorReferenced(cursor));
    if (cursor.kind != CURSOR_SUBSCRIPT && cursor.kind != CURSOR_MEMBER) return (Place){0};
    const long long bytes = clang->clang_Type_getSizeOf(clang->clang_getCursorType(cursor));
    CXCursor *parts = clang_children(f->w->c, f->w->u, cursor, &count);
    const Place base = count ? place_of(f, parts[0]) : (Place){0};
    if (base.begin == base.end || bytes <= 0) return (Place){0};
    size_t at = 0;
    if (cursor.kind == CURSOR_MEMBER) {
        const CXCursor field = clang->clang_getCursorReferenced(cursor);
        if (clang->clang_getCursorSemanticParent(field).kind == CURSOR_UNION) return base;
        at = (size_t)(clang->clang_Cursor_getOffsetOfField(field) / 8);
    } else {
        const long long index = count == 2 ? index_of(f, parts[1]) : -1;
        if (index < 0 || index >= C_ARRAY_BYTES_MAX) return base;
        at = (size_t)(index * bytes);
    }
    const size_t end = base.begin + at + (size_t)bytes;
    return end <= base.end ? (Place){base.begin + at, end} : base;
}

static bool is_place(CXCursor cursor) {
    return cursor.kind == CURSOR_REFERENCE || cursor.kind == CURSOR_SUBSCRIPT ||
           cursor.kind == CURSOR_MEMBER;
}

/* What is computed to find a place: its indices. */
static void visit_indices(Flow *f, CXCursor cursor) {
    size_t count;
    cursor = inside(f, cursor, true);
    if (!is_place(cursor)) {
        visit(f, cursor);
        return;
    }
    if (cursor.kind == CURSOR_REFERENCE) return;
    CXCursor *parts = clang_children(f->w->c, f->w->u, cursor, &count);
    if (count) visit_indices(f, parts[0]);
    if (cursor.kind == CURSOR_SUBSCRIPT && count == 2) visit(f, parts[1]);
}

static void load(Flow *f, CXCursor cursor) {
    const Place place = place_of(f, cursor);
    if (f->collected || f->ended || place.begin == place.end) return;
    for (size_t i = place.begin; i < place.end; i++)
        if (!is_unset(f, f->now[i])) return;
    f->good = c_problem(f->w, cursor, "it reads a local that may not have been set");
    for (size_t i = place.begin; i < place.end; i++) f->now[i] = BYTE_SET; /* said once */
}

static void store(Flow *f, CXCursor cursor) {
    const Place place = place_of(f, cursor);
    uint16_t *states = f->collected ? f->collected : f->now;
    for (size_t i = place.begin; i < place.end; i++) states[i] = BYTE_SET;
}

/* ---- expressions ---- */

static void visit_all(Flow *f, CXCursor cursor, size_t first) {
    size_t count;
    CXCursor *children = clang_children(f->w->c, f->w->u, cursor, &count);
    for (size_t i = first; i < count; i++) visit(f, children[i]);
}

/* A conversion: that of a place to its value is a read, that of an array to a pointer none. */
static void visit_conversion(Flow *f, CXCursor cursor) {
    size_t count;
    CXCursor *parts = clang_children(f->w->c, f->w->u, cursor, &count);
    const CXCursor inner = count == 1 ? inside(f, parts[0], false) : cursor;
    if (count != 1 || !is_place(inner)) {
        visit_all(f, cursor, 0);
        return;
    }
    visit_indices(f, inner);
    const CXType type = f->w->u->clang.clang_getCursorType(inner);
    if (f->w->u->clang.clang_getCanonicalType(type).kind != C_ARRAY) load(f, inner);
}

/* Whether `&&` or `||` stands between two operands, or what stands there is a macro's. */
static bool is_logical(Flow *f, CXCursor a, CXCursor b) {
    const Range left = clang_range(f->w->c, f->w->u, a), right = clang_range(f->w->c, f->w->u, b);
    if (left.file == 0 || left.file != right.file || left.end >= right.begin) return true;
    const char *text = f->w->c->compiler->sources[left.file].text;
    for (size_t i = left.end; i + 1 < right.begin; i++)
        if (text[i] == text[i + 1] && (text[i] == '&' || text[i] == '|')) return true;
    return false;
}

/* An operand that is a place, and not its value, is assigned to. */
static void visit_operator(Flow *f, CXCursor cursor) {
    size_t count;
    CXCursor *parts = clang_children(f->w->c, f->w->u, cursor, &count);
    const CXCursor first = count ? inside(f, parts[0], false) : cursor;
    if (count == 0 || !is_place(first)) {
        const bool depends = count == 2 && is_logical(f, parts[0], parts[1]);
        if (count) visit(f, parts[0]);
        f->nesting += depends;
        if (count > 1) visit(f, parts[1]);
        f->nesting -= depends;
        return;
    }
    visit_indices(f, first);
    for (size_t i = 1; i < count; i++) visit(f, parts[i]);
    if (cursor.kind != CURSOR_BINARY) load(f, first);
    store(f, first);
}

/* memcpy's pointers are `&place`. */
static CXCursor pointed_at(Flow *f, CXCursor cursor) {
    size_t count = 1;
    while (cursor.kind != CURSOR_UNARY && count == 1) {
        CXCursor *parts = clang_children(f->w->c, f->w->u, cursor, &count);
        if (count == 1) cursor = parts[0];
    }
    CXCursor *parts = clang_children(f->w->c, f->w->u, cursor, &count);
    return count == 1 ? inside(f, parts[0], false) : cursor;
}

static void visit_call(Flow *f, CXCursor cursor) {
    size_t count;
    CXCursor *parts = clang_children(f->w->c, f->w->u, cursor, &count);
    if (count != 4 || strcmp(c_spelling(f->w, cursor), "ls_memcpy") != 0) {
        visit_all(f, cursor, 0);
        return;
    }
    const CXCursor to = pointed_at(f, parts[1]), from = pointed_at(f, parts[2]);
    visit_indices(f, to);
    visit_indices(f, from);
    visit(f, parts[3]);
    load(f, from);
    store(f, to);
}

/* ---- control ---- */

/* What is set on both ways is; on one: behind them it depends on nothing more. */
static void meet(Flow *f, const uint16_t *other, bool other_ended) {
    for (size_t i = 0; i < f->w->local_bytes && !other_ended; i++) {
        if (f->ended || f->now[i] == other[i])
            f->now[i] = other[i];
        else
            f->now[i] = (uint16_t)(BYTE_MAYBE + f->nesting);
    }
    f->ended = f->ended && other_ended;
}

static void visit_branches(Flow *f, CXCursor cursor) {
    size_t count;
    CXCursor *parts = clang_children(f->w->c, f->w->u, cursor, &count);
    if (f->collected || count < 2) {
        visit_all(f, cursor, 0);
        return;
    }
    visit(f, parts[0]);
    const bool ended = f->ended;
    States *before = copy_states(f);
    f->nesting++;
    visit(f, parts[1]);
    States *first = copy_states(f);
    const bool first_ended = f->ended;
    memcpy(f->now, before->bytes, f->w->local_bytes * sizeof *f->now);
    f->ended = ended;
    if (count > 2) visit(f, parts[2]);
    f->nesting--;
    meet(f, first->bytes, first_ended);
    give_back(f, first);
    give_back(f, before);
}

/* What is stored below the cursor, on any way. */
static States *collect(Flow *f, CXCursor cursor) {
    States *stores = take_states(f);
    memset(stores->bytes, 0, f->w->local_bytes * sizeof *stores->bytes);
    const bool ended = f->ended;
    f->collected = stores->bytes;
    visit_all(f, cursor, 0);
    f->collected = NULL;
    f->ended = ended;
    return stores;
}

/* Gives what was collected, where nothing has set it, another state. */
static void add_collected(Flow *f, const States *stores, uint16_t state) {
    for (size_t i = 0; i < f->w->local_bytes; i++)
        if (stores->bytes[i] && (f->now[i] == BYTE_UNSET || state == BYTE_SET)) f->now[i] = state;
}

/* The body is the last part (of `do` the first); a later iteration finds what an earlier one
 * stored. */
static void visit_loop(Flow *f, CXCursor cursor) {
    size_t count;
    if (f->collected) {
        visit_all(f, cursor, 0);
        return;
    }
    States *stores = collect(f, cursor);
    CXCursor *parts = clang_children(f->w->c, f->w->u, cursor, &count);
    const bool ended = f->ended, is_for = cursor.kind == CURSOR_FOR;
    const uint32_t deeper = cursor.kind != CURSOR_DO;
    add_collected(f, stores, (uint16_t)(BYTE_MAYBE + f->nesting + deeper));
    for (size_t i = 0; i < count; i++) {
        /* a `for` may lack any of its first three parts: which is which is known of all alone */
        const bool once = !is_for || (count == 4 && i < 2), last = i + 1 == count;
        const uint32_t more = last ? deeper : once ? 0 : deeper + 1;
        f->nesting += more;
        visit(f, parts[i]);
        f->nesting -= more;
    }
    add_collected(f, stores, BYTE_SET);
    f->ended = ended;
    give_back(f, stores);
}

static void visit_switch(Flow *f, CXCursor cursor) {
    if (f->collected) {
        visit_all(f, cursor, 0);
        return;
    }
    States *stores = collect(f, cursor);
    size_t count;
    CXCursor *parts = clang_children(f->w->c, f->w->u, cursor, &count);
    const bool ended = f->ended;
    if (count) visit(f, parts[0]);
    add_collected(f, stores, (uint16_t)(BYTE_MAYBE + f->nesting)); /* a case behind another */
    f->nesting++;
    for (size_t i = 1; i < count; i++) visit(f, parts[i]);
    f->nesting--;
    add_collected(f, stores, BYTE_SET);
    f->ended = ended;
    give_back(f, stores);
}

/* A label: what came before it may have ended, and it begins anew. */
static void visit_case(Flow *f, CXCursor cursor) {
    f->ended = false;
    visit_all(f, cursor, 0);
}

static void visit_variable(Flow *f, CXCursor cursor) {
    const Place place = local_place(f, cursor);
    const CXCursor first = f->w->u->clang.clang_Cursor_getVarDeclInitializer(cursor);
    const bool has_value = first.kind >= CURSOR_UNEXPOSED_EXPRESSION;
    if (has_value) visit(f, first);
    uint16_t *states = f->collected ? f->collected : f->now;
    for (size_t i = place.begin; i < place.end; i++)
        states[i] = has_value ? BYTE_SET : f->collected ? states[i] : BYTE_UNSET;
}

static void visit(Flow *f, CXCursor cursor) {
    switch (cursor.kind) {
    case CURSOR_SIZEOF:
    case CURSOR_TYPE_REFERENCE:
    case CURSOR_STRUCT:
    case CURSOR_UNION: return;
    case CURSOR_VARIABLE: visit_variable(f, cursor); return;
    case CURSOR_UNEXPOSED_EXPRESSION: visit_conversion(f, cursor); return;
    case CURSOR_UNARY:
    case CURSOR_BINARY:
    case CURSOR_COMPOUND_ASSIGNMENT: visit_operator(f, cursor); return;
    case CURSOR_SUBSCRIPT:
    case CURSOR_MEMBER: visit_indices(f, cursor); return;
    case CURSOR_CALL: visit_call(f, cursor); return;
    case CURSOR_IF:
    case CURSOR_CONDITIONAL: visit_branches(f, cursor); return;
    case CURSOR_WHILE:
    case CURSOR_DO:
    case CURSOR_FOR: visit_loop(f, cursor); return;
    case CURSOR_SWITCH: visit_switch(f, cursor); return;
    case CURSOR_CASE:
    case CURSOR_DEFAULT: visit_case(f, cursor); return;
    default: break;
    }
    visit_all(f, cursor, 0);
    if (cursor.kind == CURSOR_RETURN || cursor.kind == CURSOR_BREAK ||
        cursor.kind == CURSOR_CONTINUE)
        f->ended = true;
}

bool c_check_elements(Walk *w, CXCursor body) {
    Flow f = {.w = w, .good = true};
    if (!w->local_bytes) return true;
    f.now = arena_alloc(w->c->arena, w->local_bytes * sizeof *f.now);
    visit(&f, body);
    return f.good;
}
