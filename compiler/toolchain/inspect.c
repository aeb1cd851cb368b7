/* inspect.c: what a toolchain made of a kernel: registers, memory used for want of registers,
 * and the widest access to device memory. Read from the image itself, of which nothing is believed:
 * every offset is checked.
 *
 * cubin         .nv.info holds registers and stack frame per kernel; the instructions, 16 bytes
 * each, are scanned for loads and stores of global memory PTX           text: ld.global and
 * st.global code object   the AMDGPU note (MessagePack) holds the counts; the helper's disassembler
 * the rest */
#include "base/base.h"
#include "target/target.h"
#include "toolchain/toolchain.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that may end anywhere. */
typedef struct Bytes {
    const uint8_t *data;
    size_t size;
} Bytes;

static bool bytes_part(Bytes whole, uint64_t offset, uint64_t size, Bytes *part) {
    if (offset > whole.size || size > whole.size - offset) return false;
    *part = (Bytes){whole.data + offset, (size_t)size};
    return true;
}

static bool bytes_read(Bytes whole, uint64_t offset, void *value, size_t size) {
    Bytes part;
    if (!bytes_part(whole, offset, size, &part)) return false;
    memcpy(value, part.data, size);
    return true;
}

static void count_access(RtcKernelStats *stats, int bytes) {
    int width = 0;
    if (bytes <= 0) return;
    while (width + 1 < RTC_WIDTHS && 2 << width <= bytes) width++;
    stats->accesses[width]++;
    if (bytes > stats->widest_access) stats->widest_access = bytes;
}

/* ---- ELF ---- */

static bool elf_section_at(Bytes elf, size_t index, Elf64_Shdr *section, Bytes *content) {
    Elf64_Ehdr header;
    if (!bytes_read(elf, 0, &header, sizeof header) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB || index >= header.e_shnum ||
        header.e_shoff > elf.size ||
        !bytes_read(elf, header.e_shoff + index * sizeof *section, section, sizeof *section))
        return false;
    *content = (Bytes){elf.data, 0};
    return section->sh_type == SHT_NOBITS ||
           bytes_part(elf, section->sh_offset, section->sh_size, content);
}

/* Whether the string at `offset` of a string table is `text`, its final zero included. */
static bool string_is(Bytes strings, uint64_t offset, const char *text) {
    Bytes part;
    return bytes_part(strings, offset, strlen(text) + 1, &part) &&
           memcmp(part.data, text, strlen(text) + 1) == 0;
}

static bool elf_section(Bytes elf, const char *prefix, const char *name, Elf64_Shdr *section,
                        Bytes *content) {
    Elf64_Ehdr header;
    Elf64_Shdr names_section;
    Bytes names, part;
    size_t length = strlen(prefix);
    if (!bytes_read(elf, 0, &header, sizeof header) ||
        !elf_section_at(elf, header.e_shstrndx, &names_section, &names))
        return false;
    for (size_t i = 0; i < header.e_shnum && elf_section_at(elf, i, section, content); i++)
        if (bytes_part(names, section->sh_name, length, &part) &&
            memcmp(part.data, prefix, length) == 0 &&
            string_is(names, (uint64_t)section->sh_name + length, name))
            return true;
    return false;
}

/* ---- NVIDIA ---- */

enum {
    INFO_HAS_SIZE = 4, /* a record of .nv.info: this, its attribute, a 16-bit size, its value */
    INFO_FRAME_SIZE = 0x11, /* value: symbol, bytes of stack */
    INFO_REGISTERS = 0x2f,  /* value: symbol, registers */
    OPCODE_MASK = 0x1ff,    /* the operation without its operand form */
    OPCODE_LOAD_GLOBAL = 0x181,
    OPCODE_STORE_GLOBAL = 0x186
};

static bool cubin_symbol_is(Bytes elf, uint32_t index, const char *kernel) {
    Elf64_Shdr section, names_section;
    Bytes symbols, names;
    Elf64_Sym symbol;
    return elf_section(elf, "", ".symtab", &section, &symbols) &&
           elf_section_at(elf, section.sh_link, &names_section, &names) &&
           bytes_read(symbols, (uint64_t)index * sizeof symbol, &symbol, sizeof symbol) &&
           string_is(names, symbol.st_name, kernel);
}

static void cubin_info(Bytes elf, Bytes info, const char *kernel, RtcKernelStats *stats) {
    uint8_t head[4];
    for (size_t at = 0; bytes_read(info, at, head, 4);) {
        uint32_t value[2];
        size_t size = head[0] == INFO_HAS_SIZE ? (size_t)head[2] | (size_t)head[3] << 8 : 0;
        bool wanted = head[1] == INFO_FRAME_SIZE || head[1] == INFO_REGISTERS;
        if (wanted && size == sizeof value && bytes_read(info, at + 4, value, sizeof value) &&
            value[1] < INT32_MAX && cubin_symbol_is(elf, value[0], kernel))
            *(head[1] == INFO_REGISTERS ? &stats->registers : &stats->spill_bytes) = (int)value[1];
        at += 4 + size;
    }
}

/* Since Volta an instruction is 128 bits; the width of an access is in bits 73 to 75. */
static void cubin_accesses(Bytes text, RtcKernelStats *stats) {
    static const int width[8] = {1, 1, 2, 2, 4, 8, 16, 16};
    uint64_t word[2];
    stats->widest_access = 0;
    for (size_t at = 0; bytes_read(text, at, word, sizeof word); at += sizeof word) {
        const uint64_t opcode = word[0] & OPCODE_MASK;
        if (opcode == OPCODE_LOAD_GLOBAL || opcode == OPCODE_STORE_GLOBAL)
            count_access(stats, width[word[1] >> 9 & 7]);
    }
}

static bool inspect_cubin(Bytes elf, const char *kernel, RtcKernelStats *stats) {
    Elf64_Shdr section;
    Bytes text, info, shared;
    if (!elf_section(elf, ".text.", kernel, &section, &text)) return false;
    cubin_accesses(text, stats);
    stats->shared_bytes = 0;
    if (elf_section(elf, ".nv.shared.", kernel, &section, &shared) && section.sh_size < INT32_MAX)
        stats->shared_bytes = (int)section.sh_size;
    if (elf_section(elf, "", ".nv.info", &section, &info)) cubin_info(elf, info, kernel, stats);
    return true;
}

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
            if (access) count_access(stats, ptx_access(at));
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
                count_access(&stats[kernel], amd_access(line, length));
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
        if (head.n_type == 32 && string_is(notes, name, "AMDGPU") &&
            bytes_part(notes, description, head.n_descsz, &note))
            found = note_kernel(note, kernel, stats);
        at = description + (((uint64_t)head.n_descsz + 3) & ~3ull);
    }
    return found;
}

/* By what code of a target is. Nothing is recorded in a shared object. */
static bool (*const inspectors[])(Bytes, const char *, RtcKernelStats *) = {
    [TARGET_SHARED_OBJECT] = NULL,
    [TARGET_CUBIN] = inspect_cubin,
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
