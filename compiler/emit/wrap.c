/* wrap.c: generated code in lines that people read.
 *
 * A statement stands as far to the right as there are braces around it; lines that go on with it,
 * or with a comment, keep their distance to its first. A line of more than LINE_MAX columns is
 * broken after a comma or before an operator, as few brackets deep as can be, and goes on below the
 * bracket it was broken in. What stands in a comment stays whole, and so does a line that offers no
 * such place. A branch or a loop of one statement is one line, where it fits, and
 * variables of one type are declared together. */
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

enum {
    LINE_MAX = 100,
    SHORT_MAX = 56, /* of an expression inside another */
    DEPTH_MAX = 64, /* brackets within each other that are told apart */
    RANK_MAX = 4 * DEPTH_MAX,
    ALIGN_MAX = 64, /* a bracket further right is not aligned to */
    INDENT = 8,     /* of what goes on then */
    STEP = 4
};

/* A place to break a line at: what comes after it begins a line of its own. */
typedef struct Break {
    size_t at, indent;
} Break;

/* How tightly an operator at the beginning of `text` binds what stands before it: 1, loosely, or 2;
 * 0 when there is none that may begin a line. */
static size_t find_operator(const char *text, size_t left) {
    static const struct {
        const char *text;
        size_t binds;
    } operators[] = {{"? ", 1}, {": ", 1}, {"& ", 1}, {"&& ", 1}, {"| ", 1},
                     {"+ ", 1}, {"- ", 1}, {"* ", 2}, {"/ ", 2}};
    for (size_t i = 0; i < COUNT(operators); i++)
        if (strlen(operators[i].text) < left &&
            strncmp(text, operators[i].text, strlen(operators[i].text)) == 0)
            return operators[i].binds;
    return 0;
}

/* The best place in the line's first LINE_MAX columns; at is 0 when there is none. What is itself
 * a continuation goes on where it began. The parts of a `for` come first; an opening bracket is
 * better than nothing. */
static Break find_break(const char *line, size_t size, bool continued) {
    size_t open[DEPTH_MAX] = {0}, depth = 0, best_rank = RANK_MAX, indent = 0;
    Break best = {0};
    while (indent < size && line[indent] == ' ') indent++;
    const size_t below = indent + (continued ? 0 : INDENT);
    const size_t half = indent + (LINE_MAX - indent) / 2;
    for (size_t i = indent; i < size && i <= LINE_MAX; i++) {
        if (line[i] == '/' && i + 1 < size && line[i + 1] == '*') break;
        if (strchr("([{", line[i]) && depth < DEPTH_MAX - 1) {
            open[++depth] = i + 1;
            if (best_rank == RANK_MAX && line[i] == '(' && i < LINE_MAX)
                best = (Break){i + 1, below};
        }
        if (strchr(")]}", line[i]) && depth) depth--;
        if (line[i] != ' ' || i == indent || i + 1 >= size) continue;
        if (!best.at && line[i - 1] == '=') best = (Break){i + 1, below};
        const bool part = line[i - 1] == ';', comma = line[i - 1] == ',';
        const size_t binds = find_operator(line + i + 1, size - i - 1);
        if (!part && !comma && !binds) continue;
        const size_t rank = part ? 0 : 3 * depth + (comma ? 1 : 1 + binds);
        if (rank > best_rank && best.at >= half) continue; /* else little would stay here */
        const bool align = depth && open[depth] <= ALIGN_MAX;
        best = (Break){i + 1, align ? open[depth] : below};
        best_rank = rank;
    }
    return best;
}

/* Whether all of the line but its indentation is a comment or for the preprocessor. */
static bool stays_whole(const char *line, size_t size) {
    size_t indent = 0;
    while (indent < size && line[indent] == ' ') indent++;
    return indent == size || line[indent] == '#' || line[size - 1] == '\\';
}

/* Where the last line's code left off. */
typedef struct Layout {
    size_t depth;    /* braces that are open */
    bool comment;    /* one goes on */
    bool inside;     /* a statement does */
    size_t from, to; /* the first line's indentation, as it was and as it became */
} Layout;

/* Takes the braces of a line into account. */
static void follow(Layout *layout, const char *line, size_t size) {
    char last = ';';
    for (size_t i = 0; i < size; i++) {
        const char *two = i + 1 < size ? line + i : "  ";
        if (layout->comment) {
            layout->comment = strncmp(two, "*/", 2) != 0;
            i += !layout->comment;
            continue;
        }
        if (strncmp(two, "/*", 2) == 0) {
            layout->comment = true;
            i++;
            continue;
        }
        if (line[i] == '{') layout->depth++;
        if (line[i] == '}' && layout->depth) layout->depth--;
        if (line[i] != ' ') last = line[i];
    }
    layout->inside = !strchr(";{}", last);
}

/* How far to the right a line belongs whose text begins `indent` columns from the left. */
static size_t indent_of(Layout *layout, const char *line, size_t indent) {
    if (layout->comment || (layout->inside && line[indent] != '}')) {
        const size_t moved = indent + layout->to;
        return moved > layout->from ? moved - layout->from : 0;
    }
    layout->from = indent;
    layout->to = STEP * (layout->depth - (line[indent] == '}' && layout->depth));
    return layout->to;
}

static const char *indented(Emitter *e, const char *text) {
    Text out = text_open(e->arena);
    Layout layout = {0};
    while (*text) {
        const size_t size = strcspn(text, "\n"), indent = strspn(text, " ");
        if (indent < size && text[indent] != '#') {
            for (size_t left = indent_of(&layout, text, indent); left > 0; left--)
                text_puts(&out, " ");
            text_add(&out, text + indent, size - indent);
            follow(&layout, text + indent, size - indent);
        } else {
            text_add(&out, text, indent < size ? size : 0);
        }
        text_puts(&out, "\n");
        text += size + (text[size] != 0);
    }
    return out.data;
}

/* Whether the line is a statement that may stand behind an `if (...)` or a `for (...)`: neither a
 * declaration, which begins with two words, nor one of these two. */
static bool is_plain_statement(const char *line, size_t size) {
    size_t at = strspn(line, " ");
    const bool branch = strncmp(line + at, "if ", 3) == 0 || strncmp(line + at, "for ", 4) == 0;
    if (size <= at || line[size - 1] != ';' || branch) return false;
    for (size_t i = at; i + 1 < size; i++)
        if (strncmp(line + i, "/*", 2) == 0) return false;
    while (at < size && (isalnum((unsigned char)line[at]) || line[at] == '_')) at++;
    return line[at] != ' ' || !(isalpha((unsigned char)line[at + 1]) || strchr("_*", line[at + 1]));
}

/* How much of the text a branch or a loop of a single statement is, where the three lines of it fit
 * into one; else 0. */
static size_t short_branch(const char *text) {
    const size_t indent = strspn(text, " "), size = strcspn(text, "\n");
    const bool branch =
        strncmp(text + indent, "if (", 4) == 0 || strncmp(text + indent, "for (", 5) == 0;
    if (!branch || !text[size] || strncmp(text + size - 3, ") {", 3) != 0) return 0;
    const char *body = text + size + 1;
    const size_t body_size = strcspn(body, "\n"), body_indent = strspn(body, " ");
    const char *end = body + body_size + (body[body_size] != 0);
    if (size - 1 + body_size - body_indent > LINE_MAX || !is_plain_statement(body, body_size))
        return 0;
    const size_t end_size = strcspn(end, "\n");
    if (strspn(end, " ") != indent || end_size != indent + 1 || end[indent] != '}') return 0;
    return (size_t)(end + end_size + (end[end_size] != 0) - text);
}

/* Of the declaration of a variable without a value, or with zeros for it: how much of the line
 * stands before its name; else 0. */
static size_t declaration_head(const char *line) {
    static const char *const types[] = {"f32 ", "f64 ", "i32 ",         "i64 ",        "u32 ",
                                        "u64 ", "int ", "ls_vec4_f32 ", "ls_vec4_f64 "};
    size_t at = strspn(line, " "), head = 0;
    if (strncmp(line + at, "LS_ALIGN(64) ", 13) == 0) at += 13;
    for (size_t i = 0; i < COUNT(types); i++)
        if (strncmp(line + at, types[i], strlen(types[i])) == 0) head = at + strlen(types[i]);
    if (!head) return 0;
    at = head;
    while (isalnum((unsigned char)line[at]) || (line[at] && strchr("_[]", line[at]))) at++;
    if (strncmp(line + at, " = {}", 5) == 0) at += 5;
    if (strncmp(line + at, " LS_ALIGN(64)", 13) == 0) at += 13;
    return strncmp(line + at, ";\n", 2) == 0 ? head : 0;
}

/* Adds up to four declarations of one type as one; gives how much of the text they are. How many
 * does not depend on their names' lengths, so that other names make no other text. */
static size_t add_declarations(Text *out, const char *text) {
    const size_t head = declaration_head(text);
    size_t size = strcspn(text, "\n");
    if (!head) return 0;
    text_add(out, text, size - 1);
    while (declaration_head(text + size + 1) == head && strncmp(text + size + 1, text, head) == 0) {
        const char *next = text + size + 1;
        const size_t next_size = strcspn(next, "\n");
        text_puts(out, ", ");
        text_add(out, next + head, next_size - 1 - head);
        size += 1 + next_size;
    }
    text_puts(out, ";\n");
    return size + 1;
}

/* The text with such branches, loops and declarations in one line. */
static const char *joined(Emitter *e, const char *text) {
    Text out = text_open(e->arena);
    while (*text) {
        const size_t declarations = add_declarations(&out, text);
        text += declarations;
        if (declarations) continue;
        const size_t branch = short_branch(text), size = strcspn(text, "\n");
        if (branch) {
            const char *body = text + size + 1;
            const size_t indent = strspn(body, " ");
            text_add(&out, text, size - 1);
            text_add(&out, body + indent, strcspn(body, "\n") - indent);
            text_puts(&out, "\n");
        } else {
            text_add(&out, text, size + (text[size] != 0));
        }
        text += branch ? branch : size + (text[size] != 0);
    }
    return out.data;
}

const char *emit_wrap(Emitter *e, const char *text) {
    Text out = text_open(e->arena);
    text = joined(e, indented(e, text));
    while (*text) {
        const char *stop = strchr(text, '\n'), *line = text;
        size_t size = stop ? (size_t)(stop - text) : strlen(text);
        bool continued = false;
        text += stop ? size + 1 : size;
        while (size > LINE_MAX && !stays_whole(line, size)) {
            const Break place = find_break(line, size, continued);
            if (place.at <= place.indent) break;
            const size_t left = place.at - (line[place.at - 1] == ' ');
            text_add(&out, line, left);
            text_puts(&out, "\n");
            size -= place.at;
            char *rest = arena_alloc(e->arena, place.indent + size + 1);
            memset(rest, ' ', place.indent);
            memcpy(rest + place.indent, line + place.at, size);
            size += place.indent;
            line = rest;
            continued = true;
        }
        text_add(&out, line, size);
        text_puts(&out, "\n");
    }
    return out.data;
}

bool emit_is_short(const char *expression) {
    return strlen(expression) <= SHORT_MAX;
}
