/* cubin.c: what NVIDIA's toolchains made of a kernel: .nv.info holds registers and stack frame per
 * kernel; the instructions, 16 bytes each, are scanned for loads and stores of global and of local
 * memory. Part of the library and of the helper. */
#include "base/base.h"
#include "target/target.h"
#include "toolchain/toolchain.h"

#include <string.h>

void rtc_count_access(RtcKernelStats *stats, int bytes) {
    int width = 0;
    if (bytes <= 0) return;
    while (width + 1 < RTC_WIDTHS && 2 << width <= bytes) width++;
    stats->accesses[width]++;
    if (bytes > stats->widest_access) stats->widest_access = bytes;
}

/* Whether a kernel had better be compiled for half the warps, with twice the registers. A spilled
 * register costs an instruction for each store and load of it, which the first cache serves; fewer
 * warps cost the loads that the others would have had in flight. Both texts of a kernel for whole
 * and for cut tiles count, although a size takes one of them. */
bool rtc_spills(const RtcKernelStats *stats) {
    enum { SHARE = 16 };
    return stats->local_accesses * SHARE > stats->instructions;
}

enum {
    INFO_HAS_SIZE = 4, /* a record of .nv.info: this, its attribute, a 16-bit size, its value */
    INFO_FRAME_SIZE = 0x11, /* value: symbol, bytes of stack */
    INFO_REGISTERS = 0x2f,  /* value: symbol, registers */
    OPCODE_MASK = 0x1ff,    /* the operation without its operand form */
    OPCODE_LOAD_GLOBAL = 0x181,
    OPCODE_LOAD_LOCAL = 0x183,
    OPCODE_STORE_GLOBAL = 0x186,
    OPCODE_STORE_LOCAL = 0x187
};

static bool cubin_symbol_is(Bytes elf, uint32_t index, const char *kernel) {
    Elf64_Shdr section, names_section;
    Bytes symbols, names;
    Elf64_Sym symbol;
    return elf_section(elf, "", ".symtab", &section, &symbols) &&
           elf_section_at(elf, section.sh_link, &names_section, &names) &&
           bytes_read(symbols, (uint64_t)index * sizeof symbol, &symbol, sizeof symbol) &&
           elf_string_is(names, symbol.st_name, kernel);
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
    stats->instructions = stats->local_accesses = 0;
    for (size_t at = 0; bytes_read(text, at, word, sizeof word); at += sizeof word) {
        const uint64_t opcode = word[0] & OPCODE_MASK;
        if (opcode == OPCODE_LOAD_GLOBAL || opcode == OPCODE_STORE_GLOBAL)
            rtc_count_access(stats, width[word[1] >> 9 & 7]);
        stats->instructions++;
        stats->local_accesses += opcode == OPCODE_LOAD_LOCAL || opcode == OPCODE_STORE_LOCAL;
    }
}

bool cubin_inspect(Bytes elf, const char *kernel, RtcKernelStats *stats) {
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

bool cubin_spills(const void *image, size_t size) {
    static const char prefix[] = ".text.";
    const Bytes elf = {image, size};
    Elf64_Ehdr header;
    Elf64_Shdr section, names_section;
    Bytes names, text, part;
    if (!bytes_read(elf, 0, &header, sizeof header) ||
        !elf_section_at(elf, header.e_shstrndx, &names_section, &names))
        return false;
    for (size_t i = 0; i < header.e_shnum && elf_section_at(elf, i, &section, &text); i++) {
        RtcKernelStats stats = {.widest_access = 0};
        if (!bytes_part(names, section.sh_name, sizeof prefix - 1, &part) ||
            memcmp(part.data, prefix, sizeof prefix - 1) != 0)
            continue;
        cubin_accesses(text, &stats);
        if (rtc_spills(&stats)) return true;
    }
    return false;
}
