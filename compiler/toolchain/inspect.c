/* inspect.c: what a toolchain made of a kernel: registers, memory used for want of registers,
 * and the widest access to device memory. Read from the image itself, of which nothing is believed:
 * every offset is checked.
 *
 * cubin         see cubin.c
 * PTX           text: ld.global and st.global
 * code object   the AMDGPU note (MessagePack) holds the counts; the helper's disassembler the rest
 */
#include "base/base.h"
#include "target/target.h"
#include "toolchain/toolchain.h"

#include <stdlib.h>
#include <string.h>

/* "v4.f32 ..." -> 16: the count and the width in bits that an instruction's dotted parts give. */
static int ptx_access(const char *text) {
    int count = 1, bits = 0;
    size_t length = strcspn(text, " \t\n;");
    for (size_t i = 0; i + 1 < length; i++) {
        if (text[i] != '.') continue;
        if (text[i + 1] == 'v') count = atoi(text + i + 2);
        if (strchr("bsuf", text[i + 1])) bits = atoi(text + i + 2);
    }
    return count * bits / 8;
}

static bool inspect_ptx(Bytes image, const char *kernel, RtcKernelStats *stats) {
    char *text = malloc(image.size + 1), *entry = text;
    size_t length = strlen(kernel);
    if (!text) return false;
    if (image.size) memcpy(text, image.data, image.size);
    text[image.size] = 0;
    while ((entry = strstr(entry, ".entry "))) {
        entry += strlen(".entry ");
        if (strncmp(entry, kernel, length) == 0 && strchr("( \t\n", entry[length])) break;
    }
    if (entry) {
        char *end = strstr(entry, ".entry ");
        if (end) *end = 0;
        stats->widest_access = 0;
        for (char *at = entry; (at = strstr(at, ".global.")); at++) {
            bool access =
                at - entry >= 2 && (memcmp(at - 2, "ld", 2) == 0 || memcmp(at - 2, "st", 2) == 0);
            if (access) rtc_count_access(stats, ptx_access(at));
        }
    }
    free(text);
    return entry != NULL;
}

/* ---- AMD ---- */

/* MessagePack, as much of it as the note uses. A value is an item: its kind, its number (of
 * entries, of bytes, or itself), and for text where it is; skip() steps over a whole value. */
typedef enum ItemKind { ITEM_NUMBER, ITEM_TEXT, ITEM_LIST, ITEM_MAP, ITEM_OTHER } ItemKind;
typedef struct Item {
    ItemKind kind;
    uint64_t number;
    Bytes text;
} Item;

static bool big_endian(Bytes note, size_t *at, unsigned size, uint64_t *value) {
    *value = 0;
    for (unsigned i = 0; i < size; i++) {
        uint8_t byte;
        if (!bytes_read(note, (*at)++, &byte, 1)) return false;
        *value = *value << 8 | byte;
    }
    return true;
}

/* First byte from..to, kind, where its number is: in the byte itself (mask), or in that many more
 * bytes. */
static const struct {
    uint8_t from, to, kind, mask, more, skip;
} item_forms[] = {
    {0x00, 0x7f, ITEM_NUMBER, 0x7f, 0, 0}, {0x80, 0x8f, ITEM_MAP, 0x0f, 0, 0},
    {0x90, 0x9f, ITEM_LIST, 0x0f, 0, 0},   {0xa0, 0xbf, ITEM_TEXT, 0x1f, 0, 0},
    {0xc0, 0xc3, ITEM_OTHER, 0, 0, 0},     {0xc4, 0xc4, ITEM_TEXT, 0, 1, 0},
    {0xc5, 0xc5, ITEM_TEXT, 0, 2, 0},      {0xc6, 0xc6, ITEM_TEXT, 0, 4, 0},
    {0xca, 0xca, ITEM_OTHER, 0, 0, 4},     {0xcb, 0xcb, ITEM_OTHER, 0, 0, 8},
    {0xcc, 0xcc, ITEM_NUMBER, 0, 1, 0},    {0xcd, 0xcd, ITEM_NUMBER, 0, 2, 0},
    {0xce, 0xce, ITEM_NUMBER, 0, 4, 0},    {0xcf, 0xcf, ITEM_NUMBER, 0, 8, 0},
    {0xd0, 0xd0, ITEM_OTHER, 0, 0, 1},     {0xd1, 0xd1, ITEM_OTHER, 0, 0, 2},
    {0xd2, 0xd2, ITEM_OTHER, 0, 0, 4},     {0xd3, 0xd3, ITEM_OTHER, 0, 0, 8},
    {0xd9, 0xd9, ITEM_TEXT, 0, 1, 0},      {0xda, 0xda, ITEM_TEXT, 0, 2, 0},
    {0xdb, 0xdb, ITEM_TEXT, 0, 4, 0},      {0xdc, 0xdc, ITEM_LIST, 0, 2, 0},
    {0xdd, 0xdd, ITEM_LIST, 0, 4, 0},      {0xde, 0xde, ITEM_MAP, 0, 2, 0},
    {0xdf, 0xdf, ITEM_MAP, 0, 4, 0},       {0xe0, 0xff, ITEM_OTHER, 0, 0, 0},
};

static bool item_read(Bytes note, size_t *at, Item *item) {
    uint8_t first;
    if (!bytes_read(note, (*at)++, &first, 1)) return false;
    for (size_t i = 0; i < COUNT(item_forms); i++) {
        if (first < item_forms[i].from || first > item_forms[i].to) continue;
        item->kind = (ItemKind)item_forms[i].kind;
        item->number = first & item_forms[i].mask;
        if (item_forms[i].more && !big_endian(note, at, item_forms[i].more, &item->number))
            return false;
        *at += item_forms[i].skip;
        if (item->kind != ITEM_TEXT) return true;
        if (!bytes_part(note, *at, item->number, &item->text)) return false;
        *at += item->text.size;
        return true;
    }
    return false;
}

/* Steps over one value; what it holds counts as further values, so nothing recurses. */
static bool item_skip(Bytes note, size_t *at) {
    uint64_t left = 1;
    for (Item item; left; left--) {
        if (!item_read(note, at, &item)) return false;
        uint64_t inside = item.kind == ITEM_MAP    ? 2 * item.number
                          : item.kind == ITEM_LIST ? item.number
                                                   : 0;
        if (inside > note.size) return false; /* each takes a byte at least */
        left += inside;
    }
    return true;
}

/* Finds a key of the map at `at`; the place of its value goes to *value. */
static bool map_find(Bytes note, size_t at, const char *key, size_t *value) {
    Item map, name;
    if (!item_read(note, &at, &map) || map.kind != ITEM_MAP) return false;
    for (uint64_t i = 0; i < map.number; i++) {
        if (!item_read(note, &at, &name) || name.kind != ITEM_TEXT) return false;
        *value = at;
        if (name.text.size == strlen(key) && memcmp(name.text.data, key, name.text.size) == 0)
            return true;
        if (!item_skip(note, &at)) return false;
    }
    return false;
}

static int map_number(Bytes note, size_t map, const char *key) {
    size_t at;
    Item item;
    bool found = map_find(note, map, key, &at) && item_read(note, &at, &item) &&
                 item.kind == ITEM_NUMBER && item.number < INT32_MAX / 8;
    return found ? (int)item.number : -1;
}

static bool note_kernel(Bytes note, const char *kernel, RtcKernelStats *stats) {
    size_t at, name_at;
    Item list, name;
    if (!map_find(note, 0, "amdhsa.kernels", &at) || !item_read(note, &at, &list) ||
        list.kind != ITEM_LIST)
        return false;
    for (uint64_t i = 0; i < list.number; i++) {
        size_t map = at;
        if (map_find(note, map, ".name", &name_at) && item_read(note, &name_at, &name) &&
            name.kind == ITEM_TEXT && name.text.size == strlen(kernel) &&
            memcmp(name.text.data, kernel, name.text.size) == 0) {
            int spilled = map_number(note, map, ".vgpr_spill_count");
            int memory =
                map_number(note, map, ".private_segment_fixed_size"); /* spills and arrays */
            stats->registers = map_number(note, map, ".vgpr_count");
            stats->shared_bytes = map_number(note, map, ".group_segment_fixed_size");
            stats->spill_bytes = 4 * spilled > memory ? 4 * spilled : memory;
            return true;
        }
        if (!item_skip(note, &at)) return false;
    }
    return false;
}

/* The access to device memory that a line of disassembly makes, or 0: global_load_dwordx4,
 * buffer_load_b128. What may be to any memory, flat_load_dwordx4, costs more and is none. */
static int amd_access(const char *line, size_t length) {
    static const struct {
        const char *name;
        int bytes;
    } widths[] = {{"dwordx4", 16}, {"dwordx3", 12}, {"dwordx2", 8}, {"dword", 4},
                  {"b128", 16},    {"b96", 12},     {"b64", 8},     {"b32", 4},
                  {"short", 2},    {"16", 2},       {"byte", 1},    {"8", 1}};
    static const char *const kinds[] = {"global_load_", "global_store_", "buffer_load_",
                                        "buffer_store_"};
    while (length && (*line == ' ' || *line == '\t')) line++, length--;
    for (size_t i = 0; i < COUNT(kinds); i++) {
        size_t kind = strlen(kinds[i]);
        if (length < kind || memcmp(line, kinds[i], kind) != 0) continue;
        size_t word = strcspn(line + kind, " \t\n");
        for (size_t w = 0; w < COUNT(widths); w++)
            if (memmem(line + kind, word, widths[w].name, strlen(widths[w].name)))
                return widths[w].bytes;
    }
    return 0;
}

/* A kernel's instructions come after its name and a colon. */
static void amd_accesses(const char *target, Bytes image, const char *const *kernels, size_t count,
                         RtcKernelStats *stats) {
    RtcOutput output = {0};
    if (rtc_disassemble(target, image.data, image.size, &output) == LS_OK) {
        size_t kernel = count;
        for (const char *line = output.data; *line;) {
            size_t length = strcspn(line, "\n");
            if (length && line[length - 1] == ':' && *line != ' ' && *line != '\t') {
                /* "name:" of comgr's disassembler, "<name>:" of llvm-objdump */
                const bool angle = length > 2 && *line == '<' && line[length - 2] == '>';
                const char *name = line + angle;
                const size_t size = length - 1 - 2 * angle;
                for (kernel = 0; kernel < count; kernel++)
                    if (size == strlen(kernels[kernel]) && memcmp(name, kernels[kernel], size) == 0)
                        break;
                if (kernel < count) stats[kernel].widest_access = 0;
            } else if (kernel < count) {
                rtc_count_access(&stats[kernel], amd_access(line, length));
            }
            line += length + (line[length] != 0);
        }
    }
    rtc_output_free(&output);
}

static bool inspect_code_object(Bytes elf, const char *kernel, RtcKernelStats *stats) {
    Elf64_Shdr section;
    Elf64_Nhdr head;
    Bytes notes, note;
    bool found = false;
    if (!elf_section(elf, "", ".note", &section, &notes)) return false;
    for (uint64_t at = 0; !found && bytes_read(notes, at, &head, sizeof head);) {
        uint64_t name = at + sizeof head,
                 description = name + (((uint64_t)head.n_namesz + 3) & ~3ull);
        if (head.n_type == 32 && elf_string_is(notes, name, "AMDGPU") &&
            bytes_part(notes, description, head.n_descsz, &note))
            found = note_kernel(note, kernel, stats);
        at = description + (((uint64_t)head.n_descsz + 3) & ~3ull);
    }
    return found;
}

/* By what code of a target is. Nothing is recorded in a shared object. */
static bool (*const inspectors[])(Bytes, const char *, RtcKernelStats *) = {
    [TARGET_SHARED_OBJECT] = NULL,
    [TARGET_CUBIN] = cubin_inspect,
    [TARGET_PTX] = inspect_ptx,
    [TARGET_CODE_OBJECT] = inspect_code_object,
};

bool rtc_inspects(const char *target) {
    const TargetKind *kind = target_kind(target);
    return !kind || inspectors[kind->code];
}

bool rtc_inspect_all(const char *target, const void *image, size_t size, const char *const *kernels,
                     size_t count, RtcKernelStats *stats) {
    const Bytes bytes = {image, size};
    const TargetKind *kind = target_kind(target);
    bool found = kind && inspectors[kind->code];
    for (size_t i = 0; i < count; i++) {
        stats[i] = (RtcKernelStats){
            .registers = -1, .spill_bytes = -1, .shared_bytes = -1, .widest_access = -1};
        found = found && inspectors[kind->code](bytes, kernels[i], &stats[i]);
    }
    if (found && kind->code == TARGET_CODE_OBJECT)
        amd_accesses(target, bytes, kernels, count, stats);
    return found;
}

bool rtc_inspect(const char *target, const void *image, size_t size, const char *kernel,
                 RtcKernelStats *stats) {
    return rtc_inspect_all(target, image, size, &kernel, 1, stats);
}
