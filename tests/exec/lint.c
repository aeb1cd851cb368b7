/* lint.c: reads PTX and AMD disassembly for instructions that round otherwise than IEEE 754 says or
 * than we said: approximations, calls, flushed subnormals, arithmetic that may be contracted; and
 * code objects for the mode their kernels start in. */
#include "lint.h"

#include <lockstep/image.h>

#include <ctype.h>
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* PTX arithmetic says how it rounds, or it may be fused; `call` is a function of the toolchain's. A
 * word that begins with a point may stand anywhere in an instruction, the others begin it. */
static const char *const banned_ptx[] = {".approx",
                                         ".ftz",
                                         ".full",
                                         "call",
                                         "ex2.",
                                         "lg2.",
                                         "sin.",
                                         "cos.",
                                         "tanh.",
                                         "rsqrt.",
                                         "rcp.f",
                                         "sqrt.f",
                                         "div.f",
                                         "fma.f",
                                         "add.f32",
                                         "add.f64",
                                         "sub.f32",
                                         "sub.f64",
                                         "mul.f32",
                                         "mul.f64",
                                         "mad.f32",
                                         "mad.f64",
                                         "mad.rn.f",
                                         "red.global.add.f",
                                         "atom.global.add.f"};
static const char *const banned_amd[] = {"v_sqrt",   "v_rsq",        "v_exp",
                                         "v_log",    "v_sin",        "v_cos",
                                         "s_swappc", "s_call",       "global_atomic_add_f",
                                         "v_dot",    "v_mad_legacy", "v_mul_legacy"};

/* A word of the text that begins with `word`; for words that begin with a point, contains it. */
static const char *find_word(const char *text, const char *word) {
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++)
        if (word[0] == '.' || at == text || isspace((unsigned char)at[-1])) return at;
    return NULL;
}

static size_t count_words(const char *text, const char *word) {
    size_t count = 0;
    for (const char *at = text; (at = find_word(at, word)) != NULL; at++) count++;
    return count;
}

static bool refuse_line(const char *text, const char *found, char *reason, size_t size) {
    while (found > text && found[-1] != '\n') found--;
    snprintf(reason, size, "an instruction that must not be there: %.*s", (int)strcspn(found, "\n"),
             found);
    return false;
}

/* A correctly rounded division is v_rcp between v_div_scale and v_div_fmas, v_div_fixup; a division
 * of 64-bit integers begins with an estimate too, times 2^64 less a little. No other v_rcp may
 * stand. A compiler may share, or double, the last of these where ways meet. */
static bool lint_reciprocals(const char *text, char *reason, size_t size) {
    static const struct {
        const char *reciprocal, *scale, *fmas, *fixup, *integer;
    } rows[] = {{"v_rcp_f32", "v_div_scale_f32", "v_div_fmas_f32", "v_div_fixup_f32", "0x5f7ffffc"},
                {"v_rcp_f64", "v_div_scale_f64", "v_div_fmas_f64", "v_div_fixup_f64", NULL}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        const size_t ends = count_words(text, rows[i].fixup);
        const size_t divisions = count_words(text, rows[i].fmas);
        const size_t integers = rows[i].integer ? count_words(text, rows[i].integer) : 0;
        const size_t reciprocals = count_words(text, rows[i].reciprocal);
        if (reciprocals <= divisions + integers && !ends == !divisions &&
            count_words(text, rows[i].scale) <= 2 * divisions)
            continue;
        snprintf(reason, size, "%zu %s for %zu divisions and %zu of 64-bit integers", reciprocals,
                 rows[i].reciprocal, divisions, integers);
        return false;
    }
    return true;
}

/* Whether a call is of a costly function that the text itself defines: see LS_CALLED_1. PTX names
 * what is called; AMD's instruction does not, so there the function is at least in the code. */
static bool is_own_call(const char *text, const char *found, bool amd) {
    static const char own[] = "ls_called_";
    if (amd) return strstr(text, own) != NULL;
    if (strncmp(found, "callseq", strlen("callseq")) == 0) return true; /* a comment on one */
    const char *at = strstr(found, own), *end = strchr(found, ';');
    return at && end && at < end;
}

/* The first call that is not of such a function; NULL: there is none. */
static const char *find_call(const char *text, const char *word, bool amd) {
    const char *found = find_word(text, word);
    while (found && is_own_call(text, found, amd)) found = find_word(found + 1, word);
    return found;
}

static bool is_call(const char *word) {
    return strcmp(word, "call") == 0 || strcmp(word, "s_swappc") == 0;
}

bool lint_assembly(const char *target, const char *text, char *reason, size_t size) {
    const bool amd = strncmp(target, LS_TARGET_GFX, strlen(LS_TARGET_GFX)) == 0;
    const char *const *banned = amd ? banned_amd : banned_ptx;
    const size_t count = amd ? COUNT(banned_amd) : COUNT(banned_ptx);
    for (size_t i = 0; i < count; i++) {
        const char *found =
            is_call(banned[i]) ? find_call(text, banned[i], amd) : find_word(text, banned[i]);
        if (found) return refuse_line(text, found, reason, size);
    }
    return !amd || lint_reciprocals(text, reason, size);
}

/* ---- the mode in a code object ---- */

enum {
    MODE_AT = 48,    /* compute_pgm_rsrc1 of a kernel descriptor */
    MODE_SHIFT = 12, /* its FLOAT_MODE: rounding of f32, of f16 and f64, subnormals of these */
    MODE_MASK = 0xff,
    MODE_WANTED = 0xf0 /* nearest even, nearest even, all allowed, all allowed */
};

static bool read_at(const void *image, size_t image_size, uint64_t offset, void *to, size_t size) {
    if (offset > image_size || size > image_size - offset) return false;
    memcpy(to, (const char *)image + offset, size);
    return true;
}

/* Kernel descriptors are the symbols KERNEL.kd. */
bool lint_image(const char *target, const void *image, size_t image_size, char *reason,
                size_t size) {
    Elf64_Ehdr header;
    Elf64_Shdr symbols, strings, section;
    Elf64_Sym symbol;
    size_t kernels = 0;
    if (strncmp(target, LS_TARGET_GFX, strlen(LS_TARGET_GFX)) != 0) return true;
    snprintf(reason, size, "the code object has no kernel descriptor");
    if (!read_at(image, image_size, 0, &header, sizeof header)) return false;
    for (size_t i = 0; i < header.e_shnum; i++) {
        if (!read_at(image, image_size, header.e_shoff + i * sizeof symbols, &symbols,
                     sizeof symbols))
            return false;
        if (symbols.sh_type != SHT_DYNSYM ||
            !read_at(image, image_size, header.e_shoff + symbols.sh_link * sizeof strings, &strings,
                     sizeof strings))
            continue;
        for (uint64_t at = 0; at < symbols.sh_size; at += sizeof symbol) {
            char name[256] = "";
            uint32_t mode;
            if (!read_at(image, image_size, symbols.sh_offset + at, &symbol, sizeof symbol))
                return false;
            for (size_t c = 0; c + 1 < sizeof name; c++)
                if (!read_at(image, image_size, strings.sh_offset + symbol.st_name + c, &name[c],
                             1) ||
                    !name[c])
                    break;
            const size_t length = strlen(name);
            if (length < 4 || strcmp(name + length - 3, ".kd") != 0) continue;
            if (!read_at(image, image_size, header.e_shoff + symbol.st_shndx * sizeof section,
                         &section, sizeof section) ||
                !read_at(image, image_size,
                         symbol.st_value - section.sh_addr + section.sh_offset + MODE_AT, &mode,
                         sizeof mode))
                return false;
            kernels++;
            mode = mode >> MODE_SHIFT & MODE_MASK;
            if (mode == MODE_WANTED) continue;
            snprintf(reason, size, "%s starts in float mode 0x%02x, not 0x%02x", name, mode,
                     MODE_WANTED);
            return false;
        }
    }
    return kernels > 0;
}
