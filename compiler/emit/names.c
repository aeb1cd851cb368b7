/* names.c: every identifier of generated text.
 *
 * Contract. A name that stands for something of the source comes from names_user, any other from
 * names_made or names_stem; the names of one function are made after names_begin, and no two are
 * the same. What the emitter writes without asking is of a form that no user's
 * name keeps, so nothing can capture it, and a search of generated text for a name finds that name
 * only: a fixed word      those below: of languages and toolchains, of preludes, of kernels
 *   STEM_word...      a stem that was made here and words of `suffixes`: x_data, m_row_level
 *   NAME_number       the second value called NAME, and those after it: x_2
 *   t12, size_n       a value without a name, an axis' length
 *   phase_1..., kernel_of_..., ls_..., LS_..., _...
 *   cuda..., hip..., CU..., HIP_..., NV_..., FP_FAST_...: macros of the GPU toolchains
 * A user's name of the last three lines gets n_ before it, any other of these forms a number behind
 * it. All others stay as they are: x is x. A name made of names (a temporary's, the coordinate of
 * joined axes) is treated as a user's.
 *
 * Words and suffixes must be all those that the emitter's formats have:
 * tests/lit/emit/words.test reads these and says what is missing here.
 *
 * Within loops over i, and over the sums and tops of one tile, no name of the source stands: these
 * words are the source's too.
 *
 * Imported C functions bring names that they share with their header: they are ls_c_NAME, their
 * locals c_NAME (import_c_function.c), so they meet neither the user's names nor each other's.
 * Names that others link to or read, of entry points and ahead-of-time headers, differ between
 * steps: see the end. */
#include <ctype.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

/* clang-format off */
/* Of C, C++, OpenCL and the preprocessors of all toolchains. */
static const char language_words[] =
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t "
    "char8_t class co_await co_return co_yield compl concept const const_cast consteval constexpr "
    "constinit continue decltype default delete do double dynamic_cast else enum explicit export "
    "extern false float for friend goto if inline int long mutable namespace new noexcept not "
    "not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires "
    "restrict return short signed sizeof static static_assert static_cast struct switch template "
    "this thread_local throw true try typedef typeid typename typeof typeof_unqual union unsigned "
    "using virtual void volatile wchar_t while xor xor_eq "
    "constant generic global kernel local pipe read_only read_write vec_step write_only "
    "EOF INFINITY NAN NULL errno hpux i386 linux main mips offsetof sparc sun unix ";

/* Of the preludes and the toolchains' own headers: types, built-in variables. */
static const char prelude_words[] =
    "f64 f32 i64 i32 u64 u32 i16 i8 u16 u8 bool8 f16 bf16 e4m3 e5m2 half max min abs "
    "blockDim blockIdx gridDim threadIdx warpSize ";

/* Of the emitter's own lines, members of structures among them. */
static const char nest_words[] =
    "a adjacent all alone arguments arrivals at batch begin bits block_memory blocks_waiting c "
    "carry chunk chunks columns complete copy count e end entry extrema first first_column "
    "first_element first_item first_tensor first_warp given group groups index inner item "
    "item_step item_stop items iteration lane lane_rows lanes last last_item last_panel leaf left "
    "length level live mark member members near_leaves next non_temporal of outer outers own own_at "
    "own_column own_group own_row own_team own_warps owner panel panel_row panels parent parents "
    "part part_row partials parts pass piece pitch place r row rows run scratch siblings some "
    "span start step stop strip strip_item strips sums team teams tensor tile tiles together turn "
    "values warps which whole wide width worker workers ";

/* Of the functions that are printed from nests, and of the macros in them. */
static const char frame_words[] =
    "a adjacent arrivals first_item item_step item_stop last_item non_temporal scratch workers ";

/* What is put behind a stem and "_", one word after the other. */
static const char suffixes[] =
    "above adjacent arguments arrived at base block copy count counts data done draws eight "
    "extremum finish first items lane leaf leaves level lines odd of once open packed panel part room "
    "row running same scratch step stores stride strip sum tile tiles to total trees values vec4 vec8 vector whole "
    "padded ";
/* clang-format on */

static const char *const word_lists[] = {language_words, prelude_words, nest_words};

static bool has_word(const char *list, const char *word, size_t size) {
    for (const char *at = list; *at; at += strspn(at, " ")) {
        const size_t length = strcspn(at, " ");
        if (length == size && memcmp(at, word, size) == 0) return true;
        at += length;
    }
    return false;
}

/* Headers of the system, which files built ahead of time include, define INT64_MAX and the like. */
static bool is_limit(const char *name) {
    static const char *const limits[] = {"_MAX", "_MIN", "_WIDTH"};
    const char *end = strrchr(name, '_');
    for (size_t i = 0; end && i < COUNT(limits); i++)
        if (strcmp(end, limits[i]) == 0) return true;
    return false;
}

static bool is_word(const char *name) {
    for (size_t i = 0; i < COUNT(word_lists); i++)
        if (has_word(word_lists[i], name, strlen(name))) return true;
    return is_limit(name);
}

static bool all_digits(const char *text) {
    return *text && text[strspn(text, "0123456789")] == 0;
}

/* Whether what is behind the last "_" is a number or a suffix. */
static bool has_suffix(const char *name) {
    const char *last = strrchr(name, '_');
    if (strstr(name, "_stride_")) return true;
    return last && (all_digits(last + 1) || has_word(suffixes, last + 1, strlen(last + 1)));
}

/* Forms that tell by how they begin. */
bool names_has_prefix(const char *name) {
    static const char *const prefixes[] = {"_",          "ls_",  "LS_",     "size_", "phase_",
                                           "kernel_of_", "cuda", "hip",     "CUDA",  "CU_",
                                           "HIP_",       "NV_",  "FP_FAST_"};
    for (size_t i = 0; i < COUNT(prefixes); i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return true;
    if (strcmp(name, "size") == 0 || strcmp(name, "phase") == 0) return true; /* size_2 */
    return *name == 't' && all_digits(name + 1);
}

bool names_is_plain(const char *user) {
    return !names_has_prefix(user) && !has_suffix(user) && !is_word(user);
}

/* ---- the names of a function ---- */

static struct NameEntry *find(const NameTable *names, const char *name) {
    size_t hash = 5381;
    for (const char *c = name; *c; c++) hash = hash * 33 ^ (unsigned char)*c;
    hash &= names->capacity - 1;
    while (names->table[hash].name && strcmp(names->table[hash].name, name) != 0)
        hash = (hash + 1) & (names->capacity - 1);
    return &names->table[hash];
}

static void add(Emitter *e, const char *name) {
    NameTable *names = &e->names;
    if (2 * (names->count + 1) > names->capacity) {
        NameTable larger = {.capacity = names->capacity ? 2 * names->capacity : 512};
        larger.table = arena_alloc(e->arena, larger.capacity * sizeof *larger.table);
        for (size_t i = 0; i < names->capacity; i++)
            if (names->table[i].name) {
                *find(&larger, names->table[i].name) = names->table[i];
                larger.count++;
            }
        *names = larger;
    }
    *find(names, name) = (struct NameEntry){.name = name, .next = 2};
    names->count++;
}

static void add_words(Emitter *e, const char *list) {
    for (const char *word = list; *word; word += strspn(word, " ")) {
        const size_t size = strcspn(word, " ");
        add(e, arena_copy(e->arena, word, size));
        word += size;
    }
}

void names_begin(Emitter *e) {
    e->names = (NameTable){0};
    for (size_t i = 0; i < COUNT(word_lists); i++) add_words(e, word_lists[i]);
}

void names_begin_nest(Emitter *e) {
    e->names = (NameTable){0};
    add_words(e, language_words);
    add_words(e, prelude_words);
    add_words(e, frame_words);
    add(e, e->arguments);
}

/* The wish when it is free, else with the next number, as long as the emitter lives; `taken`: it is
 * not to be had. */
static const char *unique(Emitter *e, const char *wish, bool taken) {
    wish = arena_copy(e->arena, wish, strlen(wish));
    const char *name = wish;
    if (taken && !find(&e->names, wish)->name) add(e, wish);
    struct NameEntry *entry = find(&e->names, wish);
    while (find(&e->names, name)->name) name = arena_printf(e->arena, "%s_%u", wish, entry->next++);
    add(e, name);
    return name;
}

const char *names_made(Emitter *e, const char *wish) {
    return unique(e, wish, false);
}

/* Whether a name of a nest could be taken for a function or a macro of the preludes. Names of
 * values and axes are of a form that does nobody any harm here. */
static bool is_foreign(const char *name) {
    static const char *const harmless[] = {"t", "size"};
    if (is_limit(name)) return true;
    for (size_t i = 0; i < COUNT(harmless); i++)
        if (strncmp(name, harmless[i], strlen(harmless[i])) == 0) return false;
    return names_has_prefix(name);
}

const char *names_nest(Emitter *e, const char *name) {
    return is_foreign(name) ? names_user(e, name) : names_made(e, name);
}

const char *names_user(Emitter *e, const char *name) {
    if (names_has_prefix(name))
        name = arena_printf(e->arena, "n%s%s", *name == '_' ? "" : "_", name);
    return unique(e, name, has_suffix(name) || is_word(name));
}

/* A temporary has a value's name and its number, NAME_number already. */
const char *names_array(Emitter *e, uint32_t array) {
    const char *name = e->plan->arrays[array].name;
    if (array < e->f->parameter_count) return names_user(e, name);
    return unique(e, names_has_prefix(name) ? arena_printf(e->arena, "n_%s", name) : name, false);
}

const char *names_stem(Emitter *e, const char *user, const char *made,
                       const char *const *own_suffixes) {
    if (!user && is_foreign(made)) made = arena_printf(e->arena, "n_%s", made);
    for (;;) {
        const char *stem = user ? names_user(e, user) : names_made(e, made);
        bool all_free = true;
        for (size_t i = 0; own_suffixes[i]; i++) {
            const char *name = arena_printf(e->arena, "%s_%s", stem, own_suffixes[i]);
            if (strcmp(names_made(e, name), name) != 0) all_free = false;
        }
        if (all_free) return stem;
    }
}

const char *names_word(size_t number) {
    for (size_t i = 0; i < COUNT(word_lists); i++)
        for (const char *word = word_lists[i]; *word; word += strspn(word, " ")) {
            if (number-- == 0) return word;
            word += strcspn(word, " ");
        }
    return NULL;
}

const char *names_suffix(size_t number) {
    for (const char *word = suffixes; *word; word += strspn(word, " ")) {
        if (number-- == 0) return word;
        word += strcspn(word, " ");
    }
    return NULL;
}

/* ---- names that others see ---- */

/* Numbers behind it then say which variant and which kernel, of which step. */
const char *names_label(Arena *arena, const char *step) {
    const char *last = strrchr(step, '_');
    return last && (!last[1] || all_digits(last + 1)) ? arena_printf(arena, "%s_", step) : step;
}

static const char *marked(Arena *arena, const char *name, bool taken) {
    const size_t size = strlen(name);
    return taken || (size && name[size - 1] == '_') ? arena_printf(arena, "%s_", name) : name;
}

const char *names_c_member(Arena *arena, const char *name) {
    return marked(arena, name,
                  has_word(language_words, name, strlen(name)) || is_limit(name) ||
                      strncmp(name, "LS_", 3) == 0 || strncmp(name, "__", 2) == 0);
}

const char *names_c_step(Arena *arena, const char *step) {
    return marked(arena, step, strncmp(step, "ls_", 3) == 0 || strncmp(step, "LS_", 3) == 0);
}
