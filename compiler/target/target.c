/* target.c: the rows of targets.def, and which of them a name is. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"

enum {
#define DIALECT(id, ...) DIALECT_##id,
#include "target/targets.def"
};

#define FILES(...) ((const char *const[]){__VA_ARGS__, NULL})
static const Target dialects[] = {
#define DIALECT(id, ...) {.name = #id, __VA_ARGS__},
#include "target/targets.def"
};

static const TargetKind kinds[] = {
#define KIND(start, id, ...) {.prefix = start, .dialect = &dialects[DIALECT_##id], __VA_ARGS__},
#include "target/targets.def"
};

static const ls_target chips[] = {
#define CHIP(...) {__VA_ARGS__},
#include "target/targets.def"
};

static const ls_form forms[] = {
#define FORM(...) {__VA_ARGS__},
#include "target/targets.def"
};

/* ---- the rows by number ---- */

const Target *target_at(size_t index) {
    return index < COUNT(dialects) ? &dialects[index] : NULL;
}

const TargetKind *target_kind_at(size_t index) {
    return index < COUNT(kinds) ? &kinds[index] : NULL;
}

const ls_target *ls_target_at(size_t index) {
    return index < COUNT(chips) ? &chips[index] : NULL;
}

const ls_form *ls_form_at(size_t index) {
    return index < COUNT(forms) ? &forms[index] : NULL;
}

/* The first ones of all dialects that have one, then the second ones. */
const char *ls_toolchain_at(size_t index, const char **device) {
    size_t at = 0;
    if (device) *device = NULL;
    for (int second = 0; second < 2; second++)
        for (size_t i = 0; i < COUNT(dialects); i++) {
            const char *name = second ? dialects[i].second : dialects[i].toolchain;
            if (!name || at++ != index) continue;
            if (device) *device = dialects[i].device;
            return name;
        }
    return NULL;
}

/* ---- by name ---- */

const TargetKind *target_kind(const char *name) {
    for (size_t i = 0; name && i < COUNT(kinds); i++)
        if (strncmp(name, kinds[i].prefix, strlen(kinds[i].prefix)) == 0) return &kinds[i];
    return NULL;
}

bool target_is_well_formed(const char *name) {
    enum { LONGEST = 24 };
    const TargetKind *kind = target_kind(name);
    if (!kind) return false;
    const char *rest = name + strlen(kind->prefix);
    return (strspn(rest, kind->first) > 0) == (kind->first[0] != 0) && strlen(rest) <= LONGEST &&
           rest[strspn(rest, kind->rest)] == 0;
}

const Target *target_for(const char *name) {
    const TargetKind *kind = target_kind(name);
    return kind ? kind->dialect : NULL;
}

const char *ls_target_dialect(const char *target) {
    const Target *dialect = target_for(target);
    return dialect ? dialect->name : NULL;
}

uint64_t target_row_max(const RowClass *rows) {
    return rows->rows ? 128 * rows->rows : 1024 * rows->tiles;
}

/* ---- for messages ---- */

void target_put_kinds(Text *out) {
    for (size_t d = 0; d < COUNT(dialects); d++) {
        const char *between = d ? ", " : "";
        for (size_t i = 0; i < COUNT(kinds); i++) {
            if (kinds[i].dialect != &dialects[d]) continue;
            text_printf(out, "%s%s", between, kinds[i].pattern);
            between = " and ";
        }
        if (dialects[d].title) text_printf(out, " (%s)", dialects[d].title);
    }
}

/* What stands for a target of this toolchain. */
static const char *pattern_of(const char *toolchain) {
    for (size_t i = 0; toolchain && i < COUNT(kinds); i++)
        if (kinds[i].dialect->toolchain && strcmp(kinds[i].dialect->toolchain, toolchain) == 0)
            return kinds[i].pattern;
    return "TARGET";
}

void target_put_forms(Text *out) {
    for (size_t i = 0; i < COUNT(forms); i++) {
        const ls_form *form = &forms[i];
        text_printf(out, "%s%s", i == 0 ? "" : i + 1 == COUNT(forms) ? " and " : ", ", form->name);
        if (form->content < LS_CONTENT_ASSEMBLY) continue;
        text_printf(out, form->named ? ":%s" : "[:%s]", pattern_of(form->toolchain));
    }
}
