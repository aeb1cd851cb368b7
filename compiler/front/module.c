/* module.c: the files of a program: which file an `import` means, each read once, and what names a
 * file sees.
 *
 * A path is looked for next to the importing file, then in the folders of the library path; `std/`
 * is the library that the compiler carries. Without a name the import brings all that the imported
 * file can say itself; the file's own names hide imported ones, and a name that two imports have is
 * an error where it is used. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"

enum { IMPORT_DEPTH_MAX = 64 };

/* ---- which file ---- */

typedef struct Found {
    const char *path, *text;
    size_t size;
    uint64_t device, inode;
    bool is_library, is_c;
    int error; /* errno; 0: found, or simply not there */
    Text tried;
} Found;

static bool begins_with(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* "a/./b/../c" -> "a/c": what is not on disk has no other folders than those of its name. */
static char *normal_path(Arena *arena, const char *path) {
    char *out = arena_copy(arena, path, strlen(path));
    size_t size = 0;
    for (const char *part = path; *part;) {
        size_t length = strcspn(part, "/");
        const char *next = part[length] ? part + length + 1 : part + length;
        bool up = length == 2 && memcmp(part, "..", 2) == 0;
        size_t last = size; /* where the folder before begins */
        while (last > 0 && (last == size || out[last - 1] != '/')) last--;
        bool has_folder = last < size && strncmp(out + last, "../", 3) != 0 && out[last] != '/';
        if (up && has_folder) {
            size = last;
        } else if (!(length == 1 && *part == '.') && (length > 0 || part == path)) {
            memmove(out + size, part, (size_t)(next - part));
            size += (size_t)(next - part);
        }
        part = next;
    }
    out[size] = '\0';
    return out;
}

static const char *sibling_path(Arena *arena, const char *file, const char *name) {
    const char *slash = strrchr(file, '/');
    if (!slash) return name;
    return arena_printf(arena, "%.*s%s", (int)(slash + 1 - file), file, name);
}

static bool find_in_library(Checker *c, const char *path, Found *found) {
    found->path = normal_path(c->arena, path);
    for (size_t i = 0; i < embedded_file_count; i++) {
        if (strcmp(embedded_files[i].path, found->path) != 0) continue;
        found->text = embedded_files[i].text;
        found->size = embedded_files[i].size;
        found->is_library = true;
        return true;
    }
    return false;
}

static bool read_descriptor(Checker *c, int descriptor, Found *found) {
    struct stat status;
    if (fstat(descriptor, &status) != 0) return false;
    if (!S_ISREG(status.st_mode)) { /* reading it might never end */
        errno = S_ISDIR(status.st_mode) ? EISDIR : ESPIPE;
        return false;
    }
    if (status.st_size > FILE_MAX) {
        errno = EFBIG;
        return false;
    }
    char *text = arena_alloc(c->arena, (size_t)status.st_size + 1);
    size_t size = 0;
    while (size < (size_t)status.st_size) {
        ssize_t got = read(descriptor, text + size, (size_t)status.st_size - size);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return false;
        if (got == 0) break;
        size += (size_t)got;
    }
    found->text = text;
    found->size = size;
    found->device = (uint64_t)status.st_dev;
    found->inode = (uint64_t)status.st_ino;
    return true;
}

/* A source that the caller gave, or a file on disk. */
static bool find_at(Checker *c, const char *path, Found *found) {
    const ls_compile_options *options = c->compiler->options;
    const char *normal = normal_path(c->arena, path);
    text_printf(&found->tried, "%s%s", found->tried.size ? ", " : "", path);
    for (size_t i = 0; options && i < options->source_count; i++) {
        const ls_source *source = &options->sources[i];
        if (strcmp(normal_path(c->arena, source->name), normal) != 0) continue;
        found->path = normal;
        found->text = source->text;
        found->size = source->size;
        return true;
    }
    found->path = path;
    int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    bool good = descriptor >= 0 && read_descriptor(c, descriptor, found);
    if (!good && errno != ENOENT && errno != ENOTDIR) found->error = errno;
    if (descriptor >= 0) close(descriptor);
    return good;
}

static bool find_file(Checker *c, const Unit *from, const char *name, Found *found) {
    const ls_compile_options *options = c->compiler->options;
    if (begins_with(name, "std/")) return find_in_library(c, name, found);
    if (from->is_library)
        return find_in_library(c, sibling_path(c->arena, from->path, name), found);
    if (name[0] == '/') return find_at(c, name, found);
    bool good = find_at(c, sibling_path(c->arena, from->path, name), found);
    for (size_t i = 0; !good && !found->error && options && i < options->import_path_count; i++) {
        const char *folder = options->import_paths[i];
        const char *slash = *folder && folder[strlen(folder) - 1] != '/' ? "/" : "";
        good = find_at(c, arena_printf(c->arena, "%s%s%s", folder, slash, name), found);
    }
    return good;
}

/* Of the library's files, the one that was probably meant. */
static const char *suggest_library(Checker *c, const char *wanted) {
    Scope scope;
    scope_open(&scope, c->arena, NULL);
    for (size_t i = 0; i < embedded_file_count; i++) {
        const char *path = embedded_files[i].path, *end = strstr(path, ".step");
        if (!begins_with(path, "std/") || !end) continue;
        const Name *name = name_intern(c->names, path, (size_t)(end - path));
        if (!scope_find_here(&scope, name)) scope_add(&scope, name, (Range){0}, SYMBOL_BROKEN);
    }
    const Name *name = name_intern(c->names, wanted, strlen(wanted));
    return scope_suggest(&scope, name, 1u << SYMBOL_BROKEN);
}

const char *library_defining(Checker *c, const Name *name) {
    for (size_t i = 0; i < embedded_file_count; i++) {
        const EmbeddedFile *file = &embedded_files[i];
        if (!begins_with(file->path, "std/")) continue;
        for (const char *at = file->text; (at = strstr(at, name->text)); at++) {
            const bool item = at - file->text > 6 &&
                              (begins_with(at - 4, "\nfn ") || begins_with(at - 6, "\nstep "));
            if (!item || (at[name->size] != '(' && at[name->size] != '[')) continue;
            const char *base = file->path + strlen("std/");
            return arena_printf(c->arena, "std/%.*s", (int)strcspn(base, "/."), base);
        }
    }
    return NULL;
}

static void report_missing(Checker *c, const Unit *from, Range range, const char *wanted,
                           const Found *found) {
    bool is_library = from->is_library || begins_with(wanted, "std/");
    if (found->error) {
        const char *reason = found->error == EFBIG    ? "it is larger than a source may be"
                             : found->error == ESPIPE ? "it is no regular file"
                                                      : strerror(found->error);
        complain(c, ERROR_IMPORT_UNREADABLE, range, found->path, reason);
    } else if (is_library) {
        if (!complain(c, ERROR_IMPORT_LIBRARY, range, wanted)) return;
        const char *meant = suggest_library(c, wanted);
        if (meant) diagnose_help(c->compiler, "did you mean `%s`?", meant);
    } else if (complain(c, ERROR_IMPORT_MISSING, range, wanted)) {
        diagnose_help(c->compiler, "looked for %s; -I DIR or LOCKSTEP_PATH add folders",
                      found->tried.data);
    }
}

/* ---- reading ---- */

static bool same_file(const Unit *unit, const Found *found) {
    if (unit->is_c != found->is_c) return false;
    if (found->inode && unit->inode == found->inode && unit->device == found->device) return true;
    return unit->is_library == found->is_library && strcmp(unit->path, found->path) == 0;
}

/* A file that was read, or is being read: then it imports itself. */
static Unit *find_unit(const Checker *c, Unit *from, const Found *found) {
    for (Unit *unit = from; unit; unit = unit->importer)
        if (same_file(unit, found)) return unit;
    for (Unit *unit = c->units; unit; unit = unit->next)
        if (same_file(unit, found)) return unit;
    return NULL;
}

static void report_cycle(Checker *c, const Unit *from, const Unit *first, Range range) {
    enum { NOTES = 6 };
    const Unit *chain[IMPORT_DEPTH_MAX + 1];
    size_t count = 0;
    for (const Unit *unit = from; unit != first; unit = unit->importer) chain[count++] = unit;
    Text text = text_open(c->arena);
    text_printf(&text, "%s", first->path);
    for (size_t i = count; i-- > 0;) text_printf(&text, " -> %s", chain[i]->path);
    if (!complain(c, ERROR_IMPORT_CYCLE, range, first->path, text.data, first->path)) return;
    for (size_t i = count; i-- > 0 && count - i <= NOTES;)
        diagnose_note(c->compiler, chain[i]->import->range, "`%s` is imported here",
                      chain[i]->path);
}

static Unit *read_unit(Checker *c, Unit *importer, Item *import, const Found *found);

/* What an import brings in; NULL after an error. */
static Unit *import_unit(Checker *c, Unit *from, Item *item, size_t depth) {
    const char *text = c->compiler->sources[item->path.file].text + item->path.begin;
    const char *wanted = arena_copy(c->arena, text, item->path.end - item->path.begin);
    size_t length = strlen(wanted);
    bool has_suffix = item->is_c || (length > 5 && strcmp(wanted + length - 5, ".step") == 0);
    const char *name = has_suffix ? wanted : arena_printf(c->arena, "%s.step", wanted);
    Found found = {.path = name, .is_c = item->is_c, .tried = text_open(c->arena)};
    Range range = {item->path.file, item->path.begin - 1, item->path.end + 1};
    if (!find_file(c, from, name, &found)) {
        report_missing(c, from, range, wanted, &found);
        return NULL;
    }
    Unit *unit = find_unit(c, from, &found);
    if (unit && unit->active) {
        report_cycle(c, from, unit, range);
        return NULL;
    }
    if (unit) return unit;
    if (depth + 1 >= IMPORT_DEPTH_MAX) {
        complain(c, ERROR_IMPORT_DEPTH, range, IMPORT_DEPTH_MAX);
        return NULL;
    }
    return read_unit(c, from, item, &found);
}

/* An inline function that two headers include is one function. */
static bool same_thing(const Symbol *a, const Symbol *b) {
    if (a == b) return true;
    return a->kind == SYMBOL_C && b->kind == SYMBOL_C && !a->c->problem && !b->c->problem &&
           a->c->number == b->c->number;
}

/* One imported name: from now on the file can say it. */
static void add_imported(Scope *scope, Symbol *symbol) {
    Symbol *origin = symbol->origin ? symbol->origin : symbol;
    Symbol *known = scope_find_here(scope, symbol->name);
    if (!known) {
        known = scope_add(scope, symbol->name, symbol->range, (SymbolKind)symbol->kind);
        known->origin = origin;
        known->another = symbol->another;
    } else if (!same_thing(known->origin, origin) && !known->another) {
        known->kind = SYMBOL_AMBIGUOUS;
        known->another = origin;
    }
}

static void add_all(Scope *to, const Scope *own, const Scope *imported) {
    for (Symbol *symbol = own->first; symbol; symbol = symbol->next)
        if (symbol->kind != SYMBOL_BROKEN) add_imported(to, symbol);
    for (Symbol *symbol = imported->first; symbol; symbol = symbol->next)
        if (!scope_find_here(own, symbol->name)) add_imported(to, symbol);
}

static void read_imports(Checker *c, Unit *unit, size_t depth) {
    for (Item *item = unit->items; item; item = item->next) {
        if (item->kind != ITEM_IMPORT) continue;
        Unit *other = item->damaged ? NULL : import_unit(c, unit, item, depth);
        item->brought = other;
        Symbol *symbol = NULL;
        if (item->name &&
            declare(c, &unit->qualifiers, item->name, item->at, SYMBOL_IMPORT, &symbol))
            symbol->unit = other;
        if (item->name) continue;
        unit->incomplete |= !other || other->incomplete;
        if (!other) continue;
        unit->imports = arena_grow(c->arena, unit->imports, unit->import_count,
                                   &unit->import_capacity, sizeof(Unit *));
        unit->imports[unit->import_count++] = other;
        add_all(&unit->imported_constants, &other->constants, &other->imported_constants);
        add_all(&unit->imported_functions, &other->functions, &other->imported_functions);
    }
}

static Unit *read_unit(Checker *c, Unit *importer, Item *import, const Found *found) {
    Unit *unit = arena_alloc(c->arena, sizeof *unit);
    size_t depth = 0;
    *unit = (Unit){.path = found->path,
                   .device = found->device,
                   .inode = found->inode,
                   .is_library = found->is_library,
                   .is_c = import && import->is_c,
                   .active = true,
                   .import = import,
                   .importer = importer};
    scope_open(&unit->imported_constants, c->arena, NULL);
    scope_open(&unit->constants, c->arena, &unit->imported_constants);
    scope_open(&unit->imported_functions, c->arena, &c->builtins);
    scope_open(&unit->functions, c->arena, &unit->imported_functions);
    scope_open(&unit->qualifiers, c->arena, NULL);
    unit->file = source_add(c->compiler, found->path, found->text, found->size);
    if (found->inode) file_was_read(c->compiler, found->path);
    if (unit->is_c)
        import_c_read(c, unit,
                      (Range){import->path.file, import->path.begin - 1, import->path.end + 1});
    else
        unit->items = parse(c->names, unit->file).items;
    for (const Unit *outer = importer; outer; outer = outer->importer) depth++;
    read_imports(c, unit, depth);
    for (Item *item = unit->items; item; item = item->next) declare_item(c, unit, item);
    unit->active = false;
    if (c->last_unit)
        c->last_unit->next = unit;
    else
        c->units = unit;
    c->last_unit = unit;
    return unit;
}

Unit *units_read(Checker *c, const char *path, const char *text, size_t size) {
    Found found = {.path = path, .text = text, .size = size};
    found.is_library = c->compiler->from_library;
    struct stat status;
    if (!found.is_library && stat(path, &status) == 0) {
        found.device = (uint64_t)status.st_dev;
        found.inode = (uint64_t)status.st_ino;
    }
    return read_unit(c, NULL, NULL, &found);
}

/* ---- names ---- */

static Symbol *ambiguous(Checker *c, const Symbol *symbol, Range range) {
    const char *name = symbol->name->text;
    if (complain(c, ERROR_AMBIGUOUS_NAME, range, name)) {
        diagnose_note(c->compiler, symbol->origin->range, "`%s` is defined here", name);
        diagnose_note(c->compiler, symbol->another->range, "and here");
        diagnose_help(c->compiler,
                      "give one of the imports a name, `import \"...\" as other`, and "
                      "write `other.%s`",
                      name);
    }
    return &c->broken;
}

static Symbol *unknown_qualifier(Checker *c, const Name *qualifier, const Name *name, Range range) {
    if (!c->unit->incomplete && complain(c, ERROR_UNKNOWN_QUALIFIER, range, qualifier->text)) {
        const char *meant = scope_suggest(&c->unit->qualifiers, qualifier, 1u << SYMBOL_IMPORT);
        const char *module = habit(HABIT_MODULE, qualifier);
        if (scope_find(c->scope, qualifier))
            diagnose_help(c->compiler,
                          "values have no members: write `%s(%s)` for a function of it", name->text,
                          qualifier->text);
        else if (module)
            diagnose_help(c->compiler, "%s: `%s(...)`", module, name->text);
        else if (meant)
            diagnose_help(c->compiler, "did you mean `%s`?", meant);
    }
    return &c->broken;
}

/* In the file that the qualifier stands for; NULL: it has no such name. */
static Symbol *find_member(Checker *c, const Name *qualifier, const Name *name, Range range,
                           bool function) {
    Symbol *import = scope_find_here(&c->unit->qualifiers, qualifier);
    if (!import) return unknown_qualifier(c, qualifier, name, range);
    if (!import->unit) return &c->broken;
    Symbol *symbol =
        scope_find(function ? &import->unit->functions : &import->unit->constants, name);
    return symbol && symbol->kind == SYMBOL_BUILTIN ? NULL : symbol;
}

Symbol *find_value(Checker *c, const Name *qualifier, const Name *name, Range range) {
    Symbol *symbol =
        qualifier ? find_member(c, qualifier, name, range, false) : scope_find(c->scope, name);
    return symbol && symbol->kind == SYMBOL_AMBIGUOUS ? ambiguous(c, symbol, range) : symbol;
}

Symbol *find_function(Checker *c, const Name *qualifier, const Name *name, Range range) {
    Symbol *symbol = qualifier ? find_member(c, qualifier, name, range, true)
                               : scope_find(&c->unit->functions, name);
    return symbol && symbol->kind == SYMBOL_AMBIGUOUS ? ambiguous(c, symbol, range) : symbol;
}

void unknown_member(Checker *c, const Name *qualifier, const Name *name, Range range) {
    const Symbol *import = scope_find_here(&c->unit->qualifiers, qualifier);
    const Unit *unit = import ? import->unit : NULL;
    if (!unit || unit->incomplete) return;
    if (!complain(c, ERROR_UNKNOWN_MEMBER, range, unit->path, name->text)) return;
    unsigned kinds = 1u << SYMBOL_CONST | 1u << SYMBOL_FN | 1u << SYMBOL_STEP;
    const char *meant = scope_suggest(&unit->functions, name, kinds);
    if (!meant) meant = scope_suggest(&unit->constants, name, kinds);
    if (meant) diagnose_help(c->compiler, "did you mean `%s.%s`?", qualifier->text, meant);
}
