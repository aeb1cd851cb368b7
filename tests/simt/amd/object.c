/* object.c: a code object as the driver would load it: segments, kernel descriptors and metadata
 * (LLVM's "User Guide for AMDGPU Backend", code object version 5), and its instructions through
 * llvm-objdump. */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "wave.h"

enum { PATH_SIZE = 512, PAGE = 4096, DESCRIPTOR_SIZE = 64 };

/* ---- tools ---- */

/* A program of this name, or one of a newer LLVM first, in the folders of PATH and Debian's. */
static bool find_program(const char *name, char *path, size_t size) {
    const char *rest = getenv("PATH");
    for (; rest && *rest;
         rest += rest[strcspn(rest, ":")] ? strcspn(rest, ":") + 1 : strcspn(rest, ":")) {
        snprintf(path, size, "%.*s/%s", (int)strcspn(rest, ":"), rest, name);
        if (access(path, X_OK) == 0) return true;
    }
    return false;
}

static bool find_tool(const char *tool, char *path, size_t size) {
    for (int version = 22; version >= 17; version--) {
        char name[64];
        snprintf(name, sizeof name, "%s-%d", tool, version);
        if (find_program(name, path, size)) return true;
        snprintf(path, size, "/usr/lib/llvm-%d/bin/%s", version, tool);
        if (access(path, X_OK) == 0) return true;
    }
    return false;
}

bool amd_has_tools(char *reason, size_t size) {
    static const char *const tools[] = {"clang", "lld", "llvm-objdump"};
    char path[PATH_SIZE];
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++)
        if (!find_tool(tools[i], path, sizeof path)) {
            snprintf(reason, size, "there is no %s 17 or newer", tools[i]);
            return false;
        }
    return true;
}

static char *read_all(FILE *file) {
    char *text = NULL;
    size_t size = 0, room = 0, count = 1;
    while (count > 0) {
        if (room - size < 2) {
            char *grown = realloc(text, room = 2 * room + 65536);
            if (!grown) break;
            text = grown;
        }
        count = fread(text + size, 1, room - size - 1, file);
        size += count;
        text[size] = 0;
    }
    return text;
}

/* The listing of a code object, for the caller to free. */
static char *disassemble(const void *code, size_t size, char *message, size_t message_size) {
    char tool[PATH_SIZE], command[3 * PATH_SIZE], path[PATH_SIZE];
    const char *parent = getenv("TMPDIR");
    char *text = NULL;
    if (!find_tool("llvm-objdump", tool, sizeof tool)) {
        snprintf(message, message_size, "there is no llvm-objdump 17 or newer");
        return NULL;
    }
    snprintf(path, sizeof path, "%s/amd-XXXXXX", parent && *parent ? parent : "/tmp");
    const int descriptor = mkstemp(path);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "wb") : NULL;
    bool written = file && fwrite(code, 1, size, file) == size;
    if (file) written &= fclose(file) == 0;
    snprintf(command, sizeof command, "'%s' -d --no-show-raw-insn '%s'", tool, path);
    FILE *output = written ? popen(command, "r") : NULL;
    if (output) text = read_all(output);
    const bool good = output && pclose(output) == 0 && text;
    if (descriptor >= 0 && !getenv("SIMT_KEEP")) unlink(path);
    if (good) return text;
    free(text);
    snprintf(message, message_size, "%s cannot list the code object", tool);
    return NULL;
}

/* ---- metadata: MessagePack ---- */

typedef struct Item {
    const unsigned char *at, *end;
    bool failed;
} Item;
typedef struct Token {
    char kind;  /* 'm'ap, 'l'ist, 's'tring, 'n'umber, '?' */
    u64 number; /* of entries, of bytes; the number */
    const unsigned char *text;
} Token;

static u64 big_endian(Item *item, size_t bytes) {
    u64 number = 0;
    for (size_t i = 0; i < bytes; i++) {
        item->failed |= item->at >= item->end;
        number = number << 8 | (item->failed ? 0 : *item->at++);
    }
    return number;
}

static Token take(Item *item) {
    static const struct {
        unsigned char code;
        char kind;
        unsigned char bytes;
    } rows[] = {{0xc0, '?', 0}, {0xc2, 'n', 0}, {0xc3, 'n', 0}, {0xcc, 'n', 1}, {0xcd, 'n', 2},
                {0xce, 'n', 4}, {0xcf, 'n', 8}, {0xd0, 'n', 1}, {0xd1, 'n', 2}, {0xd2, 'n', 4},
                {0xd3, 'n', 8}, {0xd9, 's', 1}, {0xda, 's', 2}, {0xdb, 's', 4}, {0xdc, 'l', 2},
                {0xdd, 'l', 4}, {0xde, 'm', 2}, {0xdf, 'm', 4}, {0xc4, 's', 1}, {0xc5, 's', 2}};
    Token token = {.kind = '?'};
    const u64 code = big_endian(item, 1);
    item->failed |= code > 0xdf && code < 0xe0;
    if (code < 0x80) token = (Token){'n', code, NULL};
    if (code >= 0x80 && code < 0x90) token = (Token){'m', code & 15, NULL};
    if (code >= 0x90 && code < 0xa0) token = (Token){'l', code & 15, NULL};
    if (code >= 0xa0 && code < 0xc0) token = (Token){'s', code & 31, NULL};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].code == code)
            token = (Token){rows[i].kind, big_endian(item, rows[i].bytes), NULL};
    if (token.kind == 's') {
        token.text = item->at;
        item->failed |= token.number > (u64)(item->end - item->at);
        if (!item->failed) item->at += token.number;
    }
    return token;
}

static void skip(Item *item) {
    const Token token = take(item);
    const u64 inside = token.kind == 'm' ? 2 * token.number : token.kind == 'l' ? token.number : 0;
    for (u64 i = 0; i < inside && !item->failed; i++) skip(item);
}

static bool is_text(const Token *token, const char *text) {
    return token->kind == 's' && token->number == strlen(text) &&
           memcmp(token->text, text, strlen(text)) == 0;
}
static void copy_text(const Token *token, char *to, size_t size) {
    snprintf(to, size, "%.*s", token->kind == 's' ? (int)token->number : 0,
             token->text ? (const char *)token->text : "");
}

static void read_argument(Item *item, Kernel *kernel) {
    const Token map = take(item);
    Hidden found = {.size = 0};
    for (u64 i = 0; i < map.number && !item->failed; i++) {
        const Token key = take(item);
        if (is_text(&key, ".offset")) {
            found.offset = (u32)take(item).number;
        } else if (is_text(&key, ".size")) {
            found.size = (u32)take(item).number;
        } else if (is_text(&key, ".value_kind")) {
            const Token kind = take(item);
            copy_text(&kind, found.kind, sizeof found.kind);
        } else {
            skip(item);
        }
    }
    if (strncmp(found.kind, "hidden_", 7) != 0)
        kernel->argument_bytes = found.offset + found.size;
    else if (kernel->hidden_count < HIDDEN_MOST)
        kernel->hidden[kernel->hidden_count++] = found;
}

static void read_kernel(Item *item, Kernel *kernel) {
    const Token map = take(item);
    for (u64 i = 0; i < map.number && !item->failed; i++) {
        const Token key = take(item);
        if (is_text(&key, ".name")) {
            const Token name = take(item);
            copy_text(&name, kernel->name, sizeof kernel->name);
        } else if (is_text(&key, ".max_flat_workgroup_size")) {
            kernel->threads_most = (u32)take(item).number;
        } else if (is_text(&key, ".wavefront_size")) {
            kernel->wave = (u32)take(item).number;
        } else if (is_text(&key, ".args")) {
            const Token list = take(item);
            for (u64 k = 0; k < list.number && !item->failed; k++) read_argument(item, kernel);
        } else {
            skip(item);
        }
    }
}

static bool read_metadata(AmdModule *module, const unsigned char *begin, size_t size) {
    Item item = {begin, begin + size, false};
    const Token map = take(&item);
    for (u64 i = 0; i < map.number && !item.failed; i++) {
        const Token key = take(&item);
        if (!is_text(&key, "amdhsa.kernels")) {
            skip(&item);
            continue;
        }
        const Token list = take(&item);
        module->kernels = calloc(list.number + 1, sizeof *module->kernels);
        if (!module->kernels || list.kind != 'l') return false;
        for (u64 k = 0; k < list.number && !item.failed; k++)
            read_kernel(&item, &module->kernels[module->kernel_count++]);
    }
    return !item.failed && module->kernel_count > 0;
}

/* ---- the file ---- */

size_t amd_object_size(const void *code) {
    const Elf64_Ehdr *header = code;
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_machine != 224 /* AMDGPU */)
        return 0;
    return header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
}

static bool load_segments(AmdModule *module, const unsigned char *code) {
    const Elf64_Ehdr *header = (const void *)code;
    const Elf64_Phdr *segments = (const void *)(code + header->e_phoff);
    for (int i = 0; i < header->e_phnum; i++)
        if (segments[i].p_type == PT_LOAD &&
            segments[i].p_vaddr + segments[i].p_memsz > module->image_bytes)
            module->image_bytes = segments[i].p_vaddr + segments[i].p_memsz;
    module->image = mmap(NULL, module->image_bytes + PAGE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (module->image == MAP_FAILED) module->image = NULL;
    for (int i = 0; module->image && i < header->e_phnum; i++)
        if (segments[i].p_type == PT_LOAD)
            memcpy(module->image + segments[i].p_vaddr, code + segments[i].p_offset,
                   segments[i].p_filesz);
    return module->image != NULL;
}

/* What stands in the 64 bytes of a kernel's descriptor. */
static void read_descriptor(Kernel *kernel, const unsigned char *bytes, u64 address) {
    u32 words[DESCRIPTOR_SIZE / 4];
    u64 entry;
    memcpy(words, bytes, sizeof words);
    memcpy(&entry, words + 4, sizeof entry);
    kernel->shared_bytes = words[0];
    kernel->scratch_bytes = words[1];
    kernel->segment_bytes = words[2];
    kernel->entry = address + entry;
    kernel->mode = words[12] >> 12 & 255; /* rounding, then subnormals, as in the mode register */
    kernel->user_registers = words[13] >> 1 & 31;
    kernel->properties = words[14];
}

static const Elf64_Shdr *section_of(const unsigned char *code, u32 type, int from) {
    const Elf64_Ehdr *header = (const void *)code;
    const Elf64_Shdr *sections = (const void *)(code + header->e_shoff);
    for (int i = from; i < header->e_shnum; i++)
        if (sections[i].sh_type == type) return &sections[i];
    return NULL;
}

static bool find_descriptor(AmdModule *module, const unsigned char *code, Kernel *kernel) {
    const Elf64_Ehdr *header = (const void *)code;
    const Elf64_Shdr *sections = (const void *)(code + header->e_shoff);
    const Elf64_Shdr *table = section_of(code, SHT_DYNSYM, 0);
    char wanted[NAME_SIZE + 4];
    if (!table) return false;
    const char *names = (const char *)code + sections[table->sh_link].sh_offset;
    const Elf64_Sym *symbols = (const void *)(code + table->sh_offset);
    snprintf(wanted, sizeof wanted, "%s.kd", kernel->name);
    for (size_t i = 0; i < table->sh_size / sizeof *symbols; i++)
        if (strcmp(names + symbols[i].st_name, wanted) == 0 &&
            symbols[i].st_value + DESCRIPTOR_SIZE <= module->image_bytes) {
            read_descriptor(kernel, module->image + symbols[i].st_value, symbols[i].st_value);
            return true;
        }
    return false;
}

/* The note's name is "AMDGPU". */
static bool read_note(AmdModule *module, const unsigned char *code) {
    const Elf64_Shdr *section = section_of(code, SHT_NOTE, 0);
    if (!section) return false;
    const Elf64_Nhdr *note = (const void *)(code + section->sh_offset);
    const unsigned char *text = (const unsigned char *)(note + 1) + ((note->n_namesz + 3) & ~3u);
    return note->n_descsz <= section->sh_size && read_metadata(module, text, note->n_descsz);
}

static bool open_object(AmdModule *module, const unsigned char *code, size_t size, char *message,
                        size_t message_size) {
    const char *why = amd_object_size(code) > size    ? "it is cut off"
                      : section_of(code, SHT_RELA, 0) ? "it has relocations"
                      : !load_segments(module, code)  ? "out of memory"
                      : !read_note(module, code)      ? "it has no metadata"
                                                      : NULL;
    for (size_t i = 0; !why && i < module->kernel_count; i++) {
        if (!find_descriptor(module, code, &module->kernels[i])) why = "a kernel has no descriptor";
        if (module->kernels[i].properties >> 16 & 127) why = "arguments that come in registers";
    }
    if (why) {
        snprintf(message, message_size, "the code object: %s", why);
        return false;
    }
    char *text = disassemble(code, size, message, message_size);
    if (!text) return false;
    module->program.is_11 = strstr(text, "s_load_b") != NULL || strstr(text, "s_delay_alu");
    const bool good = amd_parse(&module->program, text, message, message_size);
    free(text);
    return good;
}

/* "; listing gfx942": the kernel `text` of a test: two pointers, at s[0:1], its block in s2. */
static const char listing[] = "; listing gfx";
static bool open_listing(AmdModule *module, const char *text, char *message, size_t message_size) {
    module->kernels = calloc(1, sizeof *module->kernels);
    if (!module->kernels) {
        snprintf(message, message_size, "out of memory");
        return false;
    }
    module->kernel_count = 1;
    module->program.is_11 = strncmp(text + sizeof listing - 1, "11", 2) == 0;
    *module->kernels = (Kernel){.name = "text",
                                .argument_bytes = 16,
                                .segment_bytes = 16,
                                .shared_bytes = 1024,
                                .scratch_bytes = 64,
                                .threads_most = 1024,
                                .wave = module->program.is_11 ? 32 : 64,
                                .user_registers = 2,
                                .properties = 1u << 3,
                                .mode = 0xf0};
    if (!amd_parse(&module->program, text, message, message_size)) return false;
    module->kernels->entry = module->program.count ? module->program.code[0].address : 0;
    return true;
}

AmdModule *amd_open(const void *code, size_t size, char *message, size_t message_size) {
    AmdModule *module = calloc(1, sizeof *module);
    const bool is_text = size >= sizeof listing && memcmp(code, listing, sizeof listing - 1) == 0;
    bool good = module != NULL;
    if (!module)
        snprintf(message, message_size, "out of memory");
    else if (is_text)
        good = open_listing(module, code, message, message_size);
    else if (size >= sizeof(Elf64_Ehdr) && amd_object_size(code))
        good = open_object(module, code, size, message, message_size);
    else
        good = false, snprintf(message, message_size, "this is no code object for AMD");
    if (good) return module;
    amd_close(module);
    return NULL;
}

void amd_close(AmdModule *module) {
    if (!module) return;
    if (module->image) munmap(module->image, module->image_bytes + PAGE);
    amd_program_free(&module->program);
    free(module->kernels);
    free(module);
}

const Kernel *amd_kernel(const AmdModule *module, const char *name) {
    for (size_t i = 0; i < module->kernel_count; i++)
        if (strcmp(module->kernels[i].name, name) == 0) return &module->kernels[i];
    return NULL;
}

size_t amd_argument_size(const AmdModule *module, const char *kernel) {
    const Kernel *found = amd_kernel(module, kernel);
    return found ? found->argument_bytes : 0;
}
