/* listing.c: the text of llvm-objdump -d to instructions. A line is a mnemonic, operands between
 * commas, modifiers behind the last one, and the address as a comment. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numbers.h"

enum { OPERANDS_MOST = 6, WORD_SIZE = 96 };

typedef struct Reader {
    Program *program;
    u32 room;
    u64 address; /* of the next line without one */
    char *message;
    size_t message_size;
    bool failed;
    const char *line;
    Operand operands[OPERANDS_MOST];
    u32 operand_count;
} Reader;

__attribute__((format(printf, 2, 3))) static void fail(Reader *r, const char *format, ...) {
    char why[256];
    va_list arguments;
    if (r->failed) return;
    r->failed = true;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    snprintf(r->message, r->message_size, "%s: %s", r->line, why);
}

/* ---- operands ---- */

static bool number_of(const char *text, Operand *o) {
    char *end = NULL;
    const char *digits = *text == '-' ? text + 1 : text;
    if (!isdigit((unsigned char)*digits)) return false;
    o->kind = CONSTANT;
    o->is_literal = digits[0] == '0' && digits[1] == 'x';
    o->is_real = !o->is_literal && strpbrk(text, ".e") != NULL;
    if (o->is_real)
        o->real = strtod(text, &end);
    else if (*text == '-')
        o->bits = 0 - strtoull(digits, &end, 0);
    else
        o->bits = strtoull(digits, &end, 0);
    return *end == 0;
}

/* v1, v[1:2], behind its letter. */
static bool numbered(const char *text, u32 base, u32 limit, OperandKind kind, Operand *o) {
    unsigned first, last;
    int used = 0;
    if (sscanf(text, "[%u:%u]%n", &first, &last, &used) < 2 || !used) {
        if (sscanf(text, "%u%n", &first, &used) != 1) return false;
        last = first;
    }
    if (text[used] || first > last || last >= limit) return false;
    o->kind = kind;
    o->at = (u16)(base + first);
    o->count = (u16)(last - first + 1);
    return true;
}

static bool named(const char *text, Operand *o) {
    static const struct {
        const char *name;
        OperandKind kind;
        u16 at, count;
    } names[] = {
        {"vcc", SCALAR, S_VCC, 2},
        {"vcc_lo", SCALAR, S_VCC, 1},
        {"vcc_hi", SCALAR, S_VCC + 1, 1},
        {"exec", SCALAR, S_EXEC, 2},
        {"exec_lo", SCALAR, S_EXEC, 1},
        {"exec_hi", SCALAR, S_EXEC + 1, 1},
        {"m0", SCALAR, S_M0, 1},
        {"flat_scratch", SCALAR, S_FLAT, 2},
        {"flat_scratch_lo", SCALAR, S_FLAT, 1},
        {"flat_scratch_hi", SCALAR, S_FLAT + 1, 1},
        {"xnack_mask", SCALAR, S_XNACK, 2},
        {"xnack_mask_lo", SCALAR, S_XNACK, 1},
        {"xnack_mask_hi", SCALAR, S_XNACK + 1, 1},
        {"null", SCALAR, S_SINK, 2},
        {"src_scc", SCC, 0, 1},
        {"scc", SCC, 0, 1},
        {"off", OFF, 0, 0},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, text) == 0) {
            o->kind = names[i].kind;
            o->at = names[i].at;
            o->count = names[i].count;
            return true;
        }
    o->kind = CONSTANT;
    o->count = 2;
    if (strcmp(text, "src_shared_base") == 0) o->bits = (u64)SHARED_APERTURE << 32;
    if (strcmp(text, "src_private_base") == 0) o->bits = (u64)SCRATCH_APERTURE << 32;
    return o->bits != 0;
}

/* gpr_idx(SRC0,DST): bits. */
static bool index_operand(const char *text, Operand *o) {
    static const char *const names[] = {"SRC0", "SRC1", "SRC2", "DST"};
    if (strncmp(text, "gpr_idx(", 8) != 0) return false;
    o->kind = CONSTANT;
    for (u32 i = 0; i < 4; i++) o->bits |= (u64)(strstr(text, names[i]) != NULL) << i;
    return true;
}

static bool parse_operand(char *text, Operand *o) {
    size_t size = strlen(text);
    memset(o, 0, sizeof *o);
    if (number_of(text, o) || index_operand(text, o)) return true;
    memset(o, 0, sizeof *o);
    if (*text == '-') {
        o->negative = true;
        text++, size--;
    }
    if (size > 2 && text[0] == '|' && text[size - 1] == '|') {
        o->absolute = true;
        text[size - 1] = 0;
        text++;
    } else if (strncmp(text, "sext(", 5) == 0 && text[size - 1] == ')') {
        o->extends = true;
        text[size - 1] = 0;
        text += 5;
    }
    if (*text == 'v' && numbered(text + 1, 0, ACCUMULATORS, VECTOR, o)) return true;
    if (*text == 'a' && numbered(text + 1, ACCUMULATORS, ACCUMULATORS, VECTOR, o)) return true;
    if (*text == 's' && numbered(text + 1, 0, S_VCC, SCALAR, o)) return true;
    if (strncmp(text, "ttmp", 4) == 0 && numbered(text + 4, S_TRAP, 16, SCALAR, o)) return true;
    return named(text, o);
}

/* ---- modifiers ---- */

static bool bits_of(const char *text, u32 *bits) { /* [0,1,1] */
    *bits = 0;
    for (u32 i = 0; (*text == '[' || *text == ',') && isdigit((unsigned char)text[1]); i++) {
        *bits |= (u32)(text[1] - '0') << i;
        text += 2;
    }
    return strcmp(text, "]") == 0;
}

static bool part_named(const char *text, Part *part) {
    static const char *const names[] = {"DWORD",  "BYTE_0", "BYTE_1", "BYTE_2",
                                        "BYTE_3", "WORD_0", "WORD_1"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i]) == 0) return *part = (Part)i, true;
    return false;
}

static bool parse_dpp(Instruction *in, const char *word, const char *value) {
    static const struct {
        const char *name;
        Dpp dpp;
        bool has_value;
    } rows[] = {
        {"row_shl", DPP_ROW_SHL, true},    {"row_shr", DPP_ROW_SHR, true},
        {"row_ror", DPP_ROW_ROR, true},    {"row_mirror", DPP_MIRROR, false},
        {"row_share", DPP_SHARE, true},    {"row_half_mirror", DPP_HALF_MIRROR, false},
        {"row_newbcast", DPP_SHARE, true}, {"row_xmask", DPP_XMASK, true},
        {"wave_shl", DPP_WAVE_SHL, true},  {"wave_shr", DPP_WAVE_SHR, true},
        {"wave_rol", DPP_WAVE_ROL, true},  {"wave_ror", DPP_WAVE_ROR, true},
    };
    unsigned a, b, c, d;
    if (strcmp(word, "quad_perm") == 0 && value &&
        sscanf(value, "[%u,%u,%u,%u]", &a, &b, &c, &d) == 4) {
        in->dpp = DPP_QUAD;
        in->dpp_value = a | b << 2 | c << 4 | d << 6;
        return true;
    }
    if (strcmp(word, "row_bcast") == 0 && value) {
        in->dpp = strcmp(value, "15") == 0 ? DPP_BCAST15 : DPP_BCAST31;
        return strcmp(value, "15") == 0 || strcmp(value, "31") == 0;
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, word) == 0 && rows[i].has_value == (value != NULL)) {
            in->dpp = rows[i].dpp;
            in->dpp_value = value ? (u32)strtoul(value, NULL, 0) : 0;
            return in->dpp_value < 16;
        }
    return false;
}

static bool parse_sdwa(Instruction *in, const char *word, const char *value) {
    Part part;
    if (strcmp(word, "dst_unused") == 0) {
        in->unused = strcmp(value, "UNUSED_PAD") == 0    ? 'P'
                     : strcmp(value, "UNUSED_SEXT") == 0 ? 'S'
                                                         : 'k';
        return in->unused != 'k' || strcmp(value, "UNUSED_PRESERVE") == 0;
    }
    if (!part_named(value, &part)) return false;
    if (strcmp(word, "dst_sel") == 0) return in->part = part, true;
    const bool second = strcmp(word, "src1_sel") == 0;
    if (!second && strcmp(word, "src0_sel") != 0) return false;
    in->parts[second] = part;
    return true;
}

/* False: it is none. */
static bool parse_modifier(Instruction *in, char *text) {
    static const char *const hints[] = {"slc", "dlc", "nt"}; /* caches */
    char *value = strchr(text, ':');
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (strcmp(text, hints[i]) == 0) return true;
    if (strcmp(text, "sc1") == 0) return in->coherent = true;
    if (strcmp(text, "sc0") == 0 || strcmp(text, "glc") == 0)
        return in->returns = in->coherent = true;
    if (strcmp(text, "clamp") == 0) return in->clamps = true;
    if (parse_dpp(in, text, NULL)) return true;
    if (!value) return false;
    *value++ = 0;
    const i32 number = (i32)strtol(value, NULL, 0);
    bool good = true;
    if (strcmp(text, "offset") == 0)
        in->offset = number;
    else if (strcmp(text, "offset0") == 0)
        in->offset0 = number;
    else if (strcmp(text, "offset1") == 0)
        in->offset1 = number;
    else if (strcmp(text, "mul") == 0)
        in->scale = number / 2;
    else if (strcmp(text, "div") == 0)
        in->scale = -1;
    else if (strcmp(text, "op_sel") == 0)
        good = bits_of(value, &in->select);
    else if (strcmp(text, "op_sel_hi") == 0)
        good = bits_of(value, &in->select_high);
    else if (strcmp(text, "neg_lo") == 0)
        good = bits_of(value, &in->negate_low);
    else if (strcmp(text, "neg_hi") == 0)
        good = bits_of(value, &in->negate_high);
    else if (strcmp(text, "row_mask") == 0)
        in->row_mask = (u32)number;
    else if (strcmp(text, "bank_mask") == 0)
        in->bank_mask = (u32)number;
    else if (strcmp(text, "bound_ctrl") == 0)
        in->bound = true;
    else if (strcmp(text, "fi") == 0)
        in->fetch_inactive = number != 0;
    else
        good = parse_dpp(in, text, value) || parse_sdwa(in, text, value);
    value[-1] = ':';
    return good;
}

/* hwreg(HW_REG_MODE[, offset, size]) */
static bool parse_register(Instruction *in, const char *text) {
    static const char mode[] = "hwreg(HW_REG_MODE";
    int at = 0, size = 32, used = 0;
    if (strncmp(text, mode, sizeof mode - 1) != 0) return false;
    text += sizeof mode - 1;
    if (*text == ',' && (sscanf(text, ", %d, %d%n", &at, &size, &used) != 2 || size > 32))
        return false;
    in->offset0 = at;
    in->offset1 = size;
    return strcmp(text + used, ")") == 0;
}

/* ---- types ---- */

static void resolve(Reader *r, Operand *o, const char *type) {
    const bool wide = strcmp(type, "f64") == 0 || strcmp(type + 1, "64") == 0;
    const bool pair = wide || strcmp(type, "p32") == 0;
    if (o->kind == NOTHING || o->kind == OFF) fail(r, "an operand that is no value");
    if (o->kind == SCALAR && o->at == S_SINK) *o = (Operand){.kind = CONSTANT, .count = 2};
    const bool counts = o->kind == VECTOR || (o->kind == SCALAR && strcmp(type, "mask") != 0);
    if (counts && o->count != (pair ? 2 : 1))
        fail(r, "an operand of %u registers for %s", o->count, type);
    if (o->kind != CONSTANT || o->count) return;
    if (strcmp(type, "h16") == 0 && o->is_real)
        o->bits = half_of_32(bits_of_float((float)o->real));
    else if (o->is_real)
        o->bits = wide ? bits_of_double(o->real) : bits_of_float((float)o->real);
    else if (strcmp(type, "f64") == 0 && o->is_literal)
        o->bits <<= 32;
    else if (strcmp(type, "i64") == 0 && o->is_literal)
        o->bits = (u64)(i64)(i32)o->bits;
}

static void set_result(Reader *r, Instruction *in, const Operand *o, bool vector) {
    const char *type = in->operation->result;
    const bool pair =
        strcmp(type, "f64") == 0 || strcmp(type, "u64") == 0 || strcmp(type, "p32") == 0;
    if (o->kind != (vector ? VECTOR : SCALAR) || (o->at != S_SINK && o->count != (pair ? 2 : 1)))
        fail(r, "a result that is not a register for %s", type);
    in->result = *o;
}

static u32 type_count(const Operation *operation) {
    u32 count = 0;
    while (count < SOURCES && operation->types[count]) count++;
    return count;
}

static void place_raw(Reader *r, Instruction *in) {
    const bool memory = amd_memory(in->operation->name) == in->operation;
    if (r->operand_count > (memory ? SOURCES : 0)) {
        fail(r, "too many operands");
        return;
    }
    memcpy(in->sources, r->operands, r->operand_count * sizeof *in->sources);
    in->source_count = r->operand_count;
    const char *wrong = memory ? amd_memory_operands(in) : NULL;
    if (wrong) fail(r, "%s", wrong);
    if (!wrong && in->operation->types[2]) resolve(r, &in->sources[2], in->operation->types[2]);
}

/* The operands to their places, by the form. */
static void place_operands(Reader *r, Instruction *in) {
    const Operation *operation = in->operation;
    const Operand *o = r->operands;
    const u32 types = type_count(operation);
    u32 left = r->operand_count, wanted = types;
    if (operation->form == RAW) {
        place_raw(r, in);
        return;
    }
    if (operation->form == LANE || operation->form == CARRY || operation->form == ACCUMULATE ||
        operation->form == ONE_SCALAR) {
        if (!left) {
            fail(r, "no operands");
            return;
        }
        set_result(r, in, o++, operation->form != ONE_SCALAR);
        left--;
    }
    if (operation->form == CARRY || (operation->form == COMPARE && left == 3)) {
        if (!left || o->kind != SCALAR) {
            fail(r, "a mask that is no scalar register");
            return;
        }
        in->mask = *o++;
        left--;
    }
    if (operation->form == ACCUMULATE) wanted--;
    const bool implicit = in->operation->run == amd_vector("v_cndmask_b32")->run && left == 2;
    if (left != wanted && !implicit) fail(r, "%u sources, expected %u", left, wanted);
    for (u32 i = 0; i < left && i < SOURCES && !r->failed; i++) {
        in->sources[i] = o[i];
        if (i < 2) in->sources[i].part = in->parts[i];
        resolve(r, &in->sources[i], operation->types[i]);
    }
    in->source_count = left;
    if (operation->form == ACCUMULATE) in->sources[in->source_count++] = in->result;
}

/* ---- lines ---- */

static bool cut_end(char *name, const char *end) {
    const size_t size = strlen(name), ends = strlen(end);
    if (size <= ends || strcmp(name + size - ends, end) != 0) return false;
    name[size - ends] = 0;
    return true;
}

static void find_operation(Reader *r, Instruction *in, char *name) {
    static const char *const spaces[] = {"global_", "flat_", "scratch_"};
    const char *plain = name;
    cut_end(name, "_dpp");
    if (!cut_end(name, "_e32")) cut_end(name, "_e64");
    in->is_sdwa = cut_end(name, "_sdwa");
    for (size_t i = 0; i < 3; i++)
        if (strncmp(name, spaces[i], strlen(spaces[i])) == 0) {
            in->space = *spaces[i];
            plain = name + strlen(spaces[i]);
        }
    if (strncmp(name, "v_dual_", 7) == 0) { /* v_dual_mov_b32 is v_mov_b32 */
        memmove(name + 2, name + 7, strlen(name + 7) + 1);
    }
    in->to_exec = strncmp(name, "v_cmpx_", 7) == 0;
    const bool memory = in->space || strncmp(name, "ds_", 3) == 0 ||
                        strncmp(name, "buffer_", 7) == 0 || strncmp(name, "s_load_", 7) == 0;
    in->operation = memory                           ? amd_memory(plain)
                    : strncmp(name, "v_cmp", 5) == 0 ? amd_compare(name)
                    : *name == 's'                   ? amd_scalar(name)
                                                     : amd_vector(name);
    if (!in->operation) fail(r, "the instruction is not known");
}

static void parse_waits(Reader *r, Instruction *in, const char *text) {
    static const char *const names[] = {"vmcnt(", "lgkmcnt(", "expcnt("};
    bool any = false;
    for (int i = 0; i < 3; i++) {
        const char *at = strstr(text, names[i]);
        in->waits[i] = at ? atoi(at + strlen(names[i])) : -1;
        any |= at != NULL;
    }
    if (!any) fail(r, "a wait for something else");
}

/* The words between commas and spaces, those in brackets whole: operands, then modifiers. */
static void parse_words(Reader *r, Instruction *in, const char *at) {
    while (*at && !r->failed) {
        char word[WORD_SIZE];
        size_t size = 0;
        int depth = 0;
        at += strspn(at, " \t,");
        for (; at[size] && (depth > 0 || !strchr(" \t,", at[size])); size++)
            depth += (strchr("([", at[size]) != NULL) - (strchr(")]", at[size]) != NULL);
        if (size == 0) break;
        if (size >= sizeof word) {
            fail(r, "a word of %zu letters", size);
            return;
        }
        memcpy(word, at, size);
        word[size] = 0;
        at += size;
        if (parse_modifier(in, word) || parse_register(in, word)) continue;
        if (r->operand_count == OPERANDS_MOST)
            fail(r, "too many operands");
        else if (!parse_operand(word, &r->operands[r->operand_count++]))
            fail(r, "%s is not known", word);
    }
}

static Instruction *add(Reader *r, u64 address, const char *text) {
    Program *program = r->program;
    if (program->count == r->room) {
        r->room = 2 * r->room + 256;
        Instruction *grown = realloc(program->code, r->room * sizeof *grown);
        if (!grown) {
            fail(r, "out of memory");
            return NULL;
        }
        program->code = grown;
    }
    Instruction *in = &program->code[program->count++];
    memset(in, 0, sizeof *in);
    in->address = address;
    in->row_mask = in->bank_mask = 15;
    in->select_high = 7;
    snprintf(in->text, sizeof in->text, "%s", text);
    return in;
}

static bool is_plain(const char *name) {
    static const char *const names[] = {"s_delay_alu", "s_waitcnt_depctr", "s_waitcnt",
                                        "s_sendmsg"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

static void parse_one(Reader *r, u64 address, const char *text) {
    char name[WORD_SIZE];
    const size_t size = strcspn(text, " \t");
    Instruction *in = add(r, address, text);
    if (!in) return;
    snprintf(name, sizeof name, "%.*s", (int)size, text);
    memset(r->operands, 0, sizeof r->operands);
    r->operand_count = 0;
    find_operation(r, in, name);
    if (r->failed) return;
    in->run = in->operation->run;
    if (strcmp(name, "s_waitcnt") == 0) parse_waits(r, in, text);
    if (strcmp(name, "s_sendmsg") == 0 && !strstr(text, "MSG_DEALLOC_VGPRS"))
        fail(r, "a message that is not known");
    if (is_plain(name)) return;
    parse_words(r, in, text + size);
    if (!r->failed) place_operands(r, in);
    if (in->dpp) in->run = amd_run_dpp;
    const char *result = in->operation->result;
    if (in->clamps && *result != 'f' && *result != 'p') fail(r, "a clamp of integers");
}

/* Both halves of VOPD: a :: b. */
static void parse_line(Reader *r, u64 address, char *text) {
    char *second = strstr(text, " :: ");
    const u32 first = r->program->count;
    if (second) *second = 0;
    parse_one(r, address, text);
    if (!second || r->failed) return;
    parse_one(r, address, second + 4);
    r->program->code[first].is_dual = true;
    r->program->code[first].run = amd_run_dual;
}

/* A line of the listing: an instruction, if it begins with a space. */
static void read_line(Reader *r, char *line) {
    char *comment = strstr(line, "//");
    u64 address = r->address;
    if (*line != '\t' && *line != ' ') return;
    if (comment) {
        address = strtoull(comment + 2, NULL, 16);
        *comment = 0;
    }
    line += strspn(line, " \t");
    for (size_t size = strlen(line); size && isspace((unsigned char)line[size - 1]);)
        line[--size] = 0;
    if (!*line || strcmp(line, "...") == 0) return;
    r->line = line;
    parse_line(r, address, line);
    r->address = address + 4;
}

u32 amd_find(const Program *program, u64 address) {
    u32 first = 0, count = program->count;
    while (count > 0) {
        const u32 half = count / 2;
        if (program->code[first + half].address < address)
            first += half + 1, count -= half + 1;
        else
            count = half;
    }
    return first < program->count && program->code[first].address == address ? first
                                                                             : program->count;
}

/* A branch counts words from the instruction behind it. */
static void set_targets(Reader *r) {
    Program *program = r->program;
    for (u32 i = 0; i < program->count && !r->failed; i++) {
        Instruction *in = &program->code[i];
        const char *type = in->operation->types[0];
        if (!type || strcmp(type, "target") != 0) continue;
        in->target = amd_find(program, in->address + 4 + 4 * (u64)(i64)(i16)in->sources[0].bits);
        r->line = in->text;
        if (in->target == program->count) fail(r, "it goes where no instruction is");
    }
}

bool amd_parse(Program *program, const char *text, char *message, size_t size) {
    Reader r = {.program = program, .message = message, .message_size = size, .line = ""};
    while (*text && !r.failed) {
        const size_t length = strcspn(text, "\n");
        char *line = strndup(text, length);
        if (!line) {
            fail(&r, "out of memory");
            break;
        }
        read_line(&r, line);
        free(line);
        text += length + (text[length] == '\n');
    }
    if (!r.failed) set_targets(&r);
    return !r.failed;
}

void amd_program_free(Program *program) {
    free(program->code);
    program->code = NULL;
    program->count = 0;
}
