/* elf.c: the sections of an ELF file, of which nothing is believed: every offset is checked. Part
 * of the library and of the helper. */
#include "base/base.h"
#include "target/target.h"
#include "toolchain/toolchain.h"

#include <string.h>

bool bytes_part(Bytes whole, uint64_t offset, uint64_t size, Bytes *part) {
    if (offset > whole.size || size > whole.size - offset) return false;
    *part = (Bytes){whole.data + offset, (size_t)size};
    return true;
}

bool bytes_read(Bytes whole, uint64_t offset, void *value, size_t size) {
    Bytes part;
    if (!bytes_part(whole, offset, size, &part)) return false;
    memcpy(value, part.data, size);
    return true;
}

bool elf_section_at(Bytes elf, size_t index, Elf64_Shdr *section, Bytes *content) {
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
bool elf_string_is(Bytes strings, uint64_t offset, const char *text) {
    Bytes part;
    return bytes_part(strings, offset, strlen(text) + 1, &part) &&
           memcmp(part.data, text, strlen(text) + 1) == 0;
}

bool elf_section(Bytes elf, const char *prefix, const char *name, Elf64_Shdr *section,
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
            elf_string_is(names, (uint64_t)section->sh_name + length, name))
            return true;
    return false;
}
