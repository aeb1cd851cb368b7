/* memory.c: loads, stores and atomics. Issuing one takes its addresses and its data, and leaves
 * rubbish in the registers that a load will fill; they are filled when a wait covers it, or earlier
 * if the seed says so. A load finds what is there when it is issued; a store and an atomic are done
 * at the wait that covers them, when the wave ends, or earlier, in any order if they do not
 * overlap. A wait that is missing is seen: by this wave, whose register has rubbish, or by another
 * one, which does not find what was stored. A wave itself finds what it stored, and so do the waves
 * of its block on gfx942, where they share the first cache. */
#include <stdlib.h>
#include <string.h>

#include "lanes.h"

typedef enum Arithmetic {
    NO_ATOMIC,
    ADD,
    SUBTRACT,
    LEAST_SIGNED,
    LEAST,
    MOST_SIGNED,
    MOST,
    AND,
    OR,
    XOR,
    SWAP,
    COMPARE_SWAP
} Arithmetic;

/* A row of this file's table. */
typedef struct Access {
    Operation operation;
    PendingKind kind;
    u32 bytes, pieces; /* of 4 bytes, or one of 1 or 2 */
    bool extends;      /* with its sign */
    char half;         /* d16: 'l' or 'h', the other half stays */
    u32 twice;         /* ds_read2: what the offsets count */
    bool gives;        /* ds_add_rtn */
    Arithmetic arithmetic;
} Access;

/* ---- what is done at the end ---- */

/* Whether caches stand ahead of it: neither shared nor scratch memory, and memory is weak. */
static bool is_cached(const Wave *w, const unsigned char *place) {
    const u32 scratch = w->lanes * w->run->kernel->scratch_bytes;
    if (!w->block->cache || (uintptr_t)place - (uintptr_t)w->scratch < scratch) return false;
    return (uintptr_t)place - (uintptr_t)w->block->shared >= w->run->kernel->shared_bytes;
}

static void sample(Wave *w, Pending *p) {
    const Access *access = p->access;
    for (u64 left = p->lanes; left; left &= left - 1) {
        const int lane = __builtin_ctzll(left);
        for (u32 i = 0; i < access->pieces; i++) {
            const bool second = access->twice && i >= access->pieces / 2;
            const unsigned char *from = second ? p->second[lane] : p->places[lane];
            const u32 at = second ? i - access->pieces / 2 : i, kept = w->v[p->to + i][lane];
            u32 bits = 0;
            if (!p->in_shared && is_cached(w, from))
                amd_cache_read(w, from + 4 * (size_t)at, (unsigned char *)&bits, access->bytes,
                               p->coherent);
            else
                memcpy(&bits, from + 4 * (size_t)at, access->bytes);
            if (access->extends) bits = part_of(bits, access->bytes == 1 ? BYTE_0 : WORD_0, true);
            if (access->half == 'l') bits = (kept & 0xffff0000) | (bits & 0xffff);
            if (access->half == 'h') bits = (kept & 0xffff) | bits << 16;
            p->data[i][lane] = bits;
        }
    }
}

static void fill_vector(Wave *w, const Pending *p) {
    for (u64 left = p->lanes; left; left &= left - 1)
        for (u32 i = 0; i < p->access->pieces; i++)
            w->v[p->to + i][__builtin_ctzll(left)] = p->data[i][__builtin_ctzll(left)];
}

static void do_store(Wave *w, const Pending *p) {
    const Access *access = p->access;
    for (u64 left = p->lanes; left; left &= left - 1) {
        const int lane = __builtin_ctzll(left);
        for (u32 i = 0; i < access->pieces; i++) {
            const bool second = access->twice && i >= access->pieces / 2;
            unsigned char *to = second ? p->second[lane] : p->places[lane];
            const u32 at = second ? i - access->pieces / 2 : i;
            if (!p->in_shared && is_cached(w, to))
                amd_cache_write(w, to + 4 * (size_t)at, (const unsigned char *)&p->data[i][lane],
                                access->bytes, p->coherent);
            else
                memcpy(to + 4 * (size_t)at, &p->data[i][lane], access->bytes);
        }
    }
    w->run->looks = 0;
}

static u64 after(Arithmetic arithmetic, u64 before, u64 value, u64 compared, u32 bytes) {
    const i64 a = bytes == 4 ? (i64)(i32)before : (i64)before;
    const i64 b = bytes == 4 ? (i64)(i32)value : (i64)value;
    switch (arithmetic) {
    case ADD: return before + value;
    case SUBTRACT: return before - value;
    case LEAST_SIGNED: return a < b ? before : value;
    case LEAST: return before < value ? before : value;
    case MOST_SIGNED: return a > b ? before : value;
    case MOST: return before > value ? before : value;
    case AND: return before & value;
    case OR: return before | value;
    case XOR: return before ^ value;
    case SWAP: return value;
    default: return before == compared ? value : before;
    }
}

/* One lane after the other, from a random one on. */
static void do_atomic(Wave *w, Pending *p) {
    const u32 pieces = p->access->pieces, bytes = 4 * pieces, first = amd_random(w->run, LANES);
    for (u32 k = 0; k < LANES; k++) {
        const u32 lane = (first + k) % LANES;
        u64 before = 0, value = p->data[0][lane], compared = p->data[pieces][lane];
        if (!(p->lanes >> lane & 1)) continue;
        if (pieces == 2) {
            value |= (u64)p->data[1][lane] << 32;
            compared = (u64)p->data[3][lane] << 32 | p->data[2][lane];
        }
        if (is_cached(w, p->places[lane])) amd_cache_drop(w, p->places[lane], bytes);
        memcpy(&before, p->places[lane], bytes);
        const u64 left = after(p->access->arithmetic, before, value, compared, bytes);
        memcpy(p->places[lane], &left, bytes);
        p->data[0][lane] = (u32)before; /* of a result: for when it is waited for */
        if (pieces == 2) p->data[1][lane] = (u32)(before >> 32);
    }
    w->run->looks = 0;
}

static void effect(Wave *w, Pending *p);

/* Does what was issued before `p` and overlaps it: of this wave, of the block where that is one
 * queue. */
static void do_older(Wave *w, const Pending *p) {
    const bool whole_block = !w->run->module->program.is_11 && !p->in_shared;
    const u32 waves = whole_block ? w->run->wave_count : 1;
    for (u32 k = 0; k < waves; k++) {
        Wave *other = whole_block ? w->block->waves[k] : w;
        for (u32 i = 0; i < other->pending_count; i++) {
            Pending *older = other->pending[i];
            if (older->sequence < p->sequence && older->begin < p->end && p->begin < older->end)
                effect(other, older);
        }
    }
}

static void effect(Wave *w, Pending *p) {
    if (p->done || (p->kind != STORE && p->kind != ATOMIC)) return;
    p->done = true;
    do_older(w, p);
    if (p->kind == STORE)
        do_store(w, p);
    else
        do_atomic(w, p);
}

static void finish(Wave *w, u32 index) {
    Pending *p = w->pending[index];
    effect(w, p);
    if (p->kind == WRITE_BACK && w->block->cache) amd_cache_write_back(w->block->cache);
    if (p->kind == TO_VECTOR || (p->kind == ATOMIC && p->gives)) fill_vector(w, p);
    for (u32 i = 0; p->kind == TO_SCALAR && i < p->access->pieces; i++)
        w->s[p->to + i] = p->data[i][0];
    memmove(w->pending + index, w->pending + index + 1,
            (w->pending_count - index - 1) * sizeof *w->pending);
    w->pending[--w->pending_count] = p;
}

bool amd_slip(Wave *w) {
    Pending *last = NULL, *older = NULL;
    for (u32 i = 0; i < w->pending_count; i++) {
        Pending *p = w->pending[i];
        if (!p->done && (p->kind == STORE || p->kind == ATOMIC)) older = last, last = p;
    }
    if (older) effect(w, last);
    return older != NULL;
}

void amd_advance(Wave *w) {
    if (w->pending_count > 0 && amd_random(w->run, 8) >= w->run->late)
        effect(w, w->pending[amd_random(w->run, w->pending_count)]);
}

/* Of those that come in order first, then of the others. */
void amd_wait(Wave *w, u32 counts, u32 left) {
    u32 waits = 0;
    for (u32 i = 0; i < w->pending_count; i++) waits += (w->pending[i]->counts & counts) != 0;
    for (int any_order = 0; any_order < 2; any_order++)
        for (u32 i = 0; i < w->pending_count && waits > left;) {
            Pending *p = w->pending[i];
            const bool covers = (p->counts & counts) && p->any_order <= any_order;
            if (covers) {
                p->counts &= ~counts;
                waits--;
            }
            if (covers && p->counts == 0)
                finish(w, i);
            else
                i++;
        }
}

void amd_settle(Wave *w) {
    for (u32 i = 0; i < w->pending_count; i++)
        effect(w, w->pending[amd_random(w->run, w->pending_count)]);
    while (w->pending_count > 0) finish(w, 0);
}

/* ---- issuing ---- */

static void run_atomic(Wave *w, const Instruction *in);

static Pending *issue(Wave *w, const Access *access, u32 counts) {
    while (w->pending_count > 0 &&
           (w->pending_count == PENDING_MOST || amd_random(w->run, 8) >= w->run->late))
        finish(w, 0);
    amd_advance(w);
    Pending **place = &w->pending[w->pending_count];
    if (!*place) *place = calloc(1, sizeof **place);
    if (!*place) {
        amd_fail(w, "out of memory");
        return NULL;
    }
    Pending *p = *place;
    p->kind = access->kind;
    p->counts = counts;
    p->access = access;
    p->any_order = p->gives = p->done = p->in_shared = p->coherent = false;
    p->sequence = ++w->run->sequence;
    p->lanes = 0;
    return p;
}

static void spoil(Wave *w, const Pending *p, u32 pieces) {
    for (u64 left = p->lanes; left; left &= left - 1) {
        const int lane = __builtin_ctzll(left);
        for (u32 i = 0; i < pieces; i++) {
            u32 *to = &w->v[p->to + i][lane];
            const u32 rubbish = 0xffa5c3e1u ^ (u32)lane << 8 ^ i, kept = *to;
            *to = p->access->half == 'l'   ? (kept & 0xffff0000) | (rubbish & 0xffff)
                  : p->access->half == 'h' ? (kept & 0xffff) | (rubbish & 0xffff0000)
                                           : rubbish;
        }
    }
}

static void include(Pending *p, const unsigned char *place, u32 bytes) {
    if ((uintptr_t)place < p->begin) p->begin = (uintptr_t)place;
    if ((uintptr_t)place + bytes > p->end) p->end = (uintptr_t)place + bytes;
}

/* From here on others come behind it. */
static void queue(Wave *w, Pending *p) {
    const u32 parts = p->access->twice ? 2 : 1;
    const u32 bytes = p->access->bytes * p->access->pieces / parts;
    p->begin = UINTPTR_MAX;
    p->end = 0;
    for (u64 left = p->kind == WRITE_BACK ? 0 : p->lanes; left; left &= left - 1) {
        const int lane = __builtin_ctzll(left);
        include(p, p->places[lane], bytes);
        if (parts == 2) include(p, p->second[lane], bytes);
    }
    if (p->kind == TO_VECTOR) {
        do_older(w, p);
        sample(w, p);
    }
    if (p->kind == TO_VECTOR || p->gives) spoil(w, p, p->access->pieces);
    w->pending_count++;
    if (w->run->late == 0) finish(w, w->pending_count - 1);
}

unsigned char *amd_shared(Wave *w, u64 offset, u32 bytes) {
    const u32 size = w->run->kernel->shared_bytes;
    if (offset + bytes <= size) return w->block->shared + offset;
    amd_fail(w, "byte %llu of shared memory, and there are %u", (unsigned long long)offset, size);
    return NULL;
}

static unsigned char *scratch_at(Wave *w, u64 offset, u32 lane, u32 bytes) {
    const u32 size = w->run->kernel->scratch_bytes;
    if (offset + bytes <= size) return w->scratch + (size_t)lane * size + offset;
    amd_fail(w, "byte %llu of scratch memory, and there are %u", (unsigned long long)offset, size);
    return NULL;
}

/* Counters, which atomics touch, are of no array. */
static unsigned char *device_at(Wave *w, const Instruction *in, u64 address, u32 bytes,
                                bool writes) {
    const SimtLaunch *launch = w->run->launch;
    const bool checked = launch->touch && !in->coherent && in->operation->run != run_atomic;
    unsigned char *place = (unsigned char *)(uintptr_t)address;
    const char *wrong = checked ? launch->touch(place, bytes, writes) : NULL;
    if (!wrong && address < 4096) wrong = "it touches address 0";
    if (wrong) amd_fail(w, "%s", wrong);
    return wrong ? NULL : place;
}

/* Where a lane's access goes: `vector` and `base` are its operands. */
static unsigned char *place_of(Wave *w, const Instruction *in, const Operand *vector,
                               const Operand *base, u32 lane, u32 bytes, bool writes) {
    const u64 offset = (u64)(i64)in->offset;
    if (in->space == 's') {
        const u32 a = vector->kind == OFF ? 0 : raw_32(w, vector, lane);
        const u32 b = base->kind == OFF || base->kind == NOTHING ? 0 : raw_32(w, base, lane);
        return scratch_at(w, (u32)(a + b + (u32)offset), lane, bytes);
    }
    if (in->space == 'g' && base->kind == SCALAR)
        return device_at(w, in, amd_scalar_64(w, base->at) + raw_32(w, vector, lane) + offset,
                         bytes, writes);
    const u64 address = raw_64(w, vector, lane) + offset;
    if (in->space == 'f' && address >> 32 == SHARED_APERTURE)
        return amd_shared(w, (u32)address, bytes);
    if (in->space == 'f' && address >> 32 == SCRATCH_APERTURE)
        return scratch_at(w, (u32)address, lane, bytes);
    return device_at(w, in, address, bytes, writes);
}

static u32 counts_of(const Wave *w, const Instruction *in, bool loads) {
    const u32 vector = loads || !w->run->module->program.is_11 ? COUNTS_VECTOR : COUNTS_STORE;
    return in->space == 'f' ? vector | COUNTS_SHARED : vector;
}

static void take_data(const Wave *w, const Operand *data, Pending *p, u32 first, u32 pieces,
                      u64 lane) {
    for (u32 i = 0; i < pieces; i++) {
        Operand piece = *data;
        piece.at = (u16)(data->at + i);
        p->data[first + i][lane] = raw_32(w, &piece, lane);
    }
}

static void run_load(Wave *w, const Instruction *in) {
    const Access *access = (const Access *)in->operation;
    Pending *p = issue(w, access, counts_of(w, in, true));
    if (!p) return;
    p->to = in->sources[0].at;
    p->lanes = amd_exec(w);
    p->coherent = in->coherent;
    EACH_LANE(w, lane) {
        p->places[lane] = place_of(w, in, &in->sources[1], &in->sources[2], (u32)lane,
                                   access->bytes * access->pieces, false);
        if (!p->places[lane]) return;
    }
    queue(w, p);
}

static void run_store(Wave *w, const Instruction *in) {
    const Access *access = (const Access *)in->operation;
    Pending *p = issue(w, access, counts_of(w, in, false));
    if (!p) return;
    p->lanes = amd_exec(w);
    p->coherent = in->coherent;
    EACH_LANE(w, lane) {
        p->places[lane] = place_of(w, in, &in->sources[0], &in->sources[2], (u32)lane,
                                   access->bytes * access->pieces, true);
        if (!p->places[lane]) return;
        take_data(w, &in->sources[1], p, 0, access->pieces, lane);
        if (access->half == 'h') p->data[0][lane] >>= 16;
    }
    queue(w, p);
}

static void run_atomic(Wave *w, const Instruction *in) {
    const Access *access = (const Access *)in->operation;
    const Operand *o = in->sources + in->returns;
    Pending *p = issue(w, access, counts_of(w, in, in->returns));
    if (!p) return;
    p->to = in->sources[0].at;
    p->gives = in->returns;
    p->lanes = amd_exec(w);
    EACH_LANE(w, lane) {
        p->places[lane] =
            place_of(w, in, &o[0], &o[2], (u32)lane, access->bytes * access->pieces, true);
        if (!p->places[lane]) return;
        take_data(w, &o[1], p, 0, access->pieces * (access->arithmetic == COMPARE_SWAP ? 2 : 1),
                  lane);
    }
    queue(w, p);
}

/* ---- shared memory ---- */

/* The sum of register and offset is of 32 bits, as from gfx9 on: what is below zero may become a
 * place again. */
static bool shared_places(Wave *w, const Instruction *in, Pending *p, const Operand *address) {
    const Access *access = p->access;
    const u32 pieces = access->twice ? access->pieces / 2 : access->pieces;
    EACH_LANE(w, lane) {
        const u32 at = raw_32(w, address, lane);
        const u32 first = access->twice ? (u32)in->offset0 * access->twice : (u32)in->offset;
        p->places[lane] = amd_shared(w, at + first, access->bytes * pieces);
        p->second[lane] = p->places[lane];
        if (access->twice)
            p->second[lane] = amd_shared(w, at + (u32)in->offset1 * access->twice, 4 * pieces);
        if (!p->places[lane] || !p->second[lane]) return false;
    }
    return true;
}

static void run_shared_load(Wave *w, const Instruction *in) {
    Pending *p = issue(w, (const Access *)in->operation, COUNTS_SHARED);
    if (p) p->in_shared = true;
    if (!p || !shared_places(w, in, p, &in->sources[1])) return;
    p->to = in->sources[0].at;
    p->lanes = amd_exec(w);
    queue(w, p);
}

static void run_shared_store(Wave *w, const Instruction *in) {
    Pending *p = issue(w, (const Access *)in->operation, COUNTS_SHARED);
    if (p) p->in_shared = true;
    if (!p || !shared_places(w, in, p, &in->sources[0])) return;
    p->lanes = amd_exec(w);
    const u32 pieces = p->access->twice ? p->access->pieces / 2 : p->access->pieces;
    EACH_LANE(w, lane) {
        take_data(w, &in->sources[1], p, 0, pieces, lane);
        if (p->access->twice) take_data(w, &in->sources[2], p, pieces, pieces, lane);
        if (p->access->half == 'h') p->data[0][lane] >>= 16;
    }
    queue(w, p);
}

static void run_shared_atomic(Wave *w, const Instruction *in) {
    const Access *access = (const Access *)in->operation;
    const Operand *o = in->sources + access->gives;
    Pending *p = issue(w, access, COUNTS_SHARED);
    if (p) p->in_shared = true;
    if (!p || !shared_places(w, in, p, &o[0])) return;
    p->lanes = amd_exec(w);
    p->to = in->sources[0].at;
    p->gives = access->gives;
    EACH_LANE(w, lane) take_data(w, &o[1], p, 0, access->pieces, lane);
    queue(w, p);
}

/* Registers of other lanes, read when it is issued, through the same counter: the place is the copy
 * that `data` has. An address counts bytes modulo the wave; of a lane that is off comes 0. */
static void permute(Wave *w, const Instruction *in, bool forward) {
    Pending *p = issue(w, (const Access *)in->operation, COUNTS_SHARED);
    if (!p) return;
    const u64 exec = amd_exec(w);
    p->lanes = exec;
    p->to = in->sources[0].at;
    for (u32 lane = 0; lane < LANES; lane++) p->data[1][lane] = 0;
    p->in_shared = true; /* no cache stands ahead of it */
    EACH_LANE(w, lane) {
        const u32 other =
            ((raw_32(w, &in->sources[1], lane) + (u32)in->offset) >> 2) & (w->lanes - 1);
        if (forward)
            p->data[1][other] = raw_32(w, &in->sources[2], lane);
        else if (exec >> other & 1)
            p->data[1][lane] = raw_32(w, &in->sources[2], other);
    }
    EACH_LANE(w, lane) p->places[lane] = (unsigned char *)&p->data[1][lane];
    queue(w, p);
}
static void run_bpermute(Wave *w, const Instruction *in) {
    permute(w, in, false);
}
static void run_permute(Wave *w, const Instruction *in) {
    permute(w, in, true);
}

/* ---- scalar loads ---- */

static void run_scalar_load(Wave *w, const Instruction *in) {
    const Access *access = (const Access *)in->operation;
    Pending *p = issue(w, access, COUNTS_SHARED);
    if (!p) return;
    const u64 address =
        amd_scalar_64(w, in->sources[1].at) + raw_32(w, &in->sources[2], 0) + (u64)(i64)in->offset;
    p->to = in->sources[0].at;
    p->any_order = true;
    p->places[0] = device_at(w, in, address & ~3ull, 4 * access->pieces, false);
    if (!p->places[0]) return;
    for (u32 i = 0; i < access->pieces; i++) {
        memcpy(&p->data[i][0], p->places[0] + 4 * (size_t)i, 4);
        w->s[p->to + i] = 0x5eadbee5u + i;
    }
    queue(w, p);
}

static void run_write_back(Wave *w, const Instruction *in) {
    Pending *p = issue(w, (const Access *)in->operation, COUNTS_VECTOR);
    if (p) queue(w, p);
}
/* sc0 alone is of a block, whose waves share the cache. */
static void run_invalidate(Wave *w, const Instruction *in) {
    const bool first = strcmp(in->operation->name, "buffer_gl0_inv") == 0;
    const bool block = w->run->module->program.is_11 || strstr(in->text, "sc1");
    if (!w->block->cache || (!first && !block)) return;
    amd_cache_empty(first ? w->cache : w->block->cache);
}

#define LOAD(name, bytes, pieces, ...) \
    { {name, run_load, RAW, "", {NULL}}, TO_VECTOR, bytes, pieces, __VA_ARGS__ }
#define PUT(name, bytes, pieces, ...) \
    { {name, run_store, RAW, "", {NULL}}, STORE, bytes, pieces, __VA_ARGS__ }
#define ATOM(name, pieces, how) \
    { {name, run_atomic, RAW, "", {NULL}}, ATOMIC, 4, pieces, .arithmetic = how }
#define ATOMS(gfx9, gfx11, how)                                       \
    ATOM("atomic_" gfx9, 1, how), ATOM("atomic_" gfx9 "_x2", 2, how), \
        ATOM("atomic_" gfx11 "32", 1, how), ATOM("atomic_" gfx11 "64", 2, how)
#define DS_LOAD(name, bytes, pieces, ...) \
    { {"ds_" name, run_shared_load, RAW, "", {NULL}}, TO_VECTOR, bytes, pieces, __VA_ARGS__ }
#define DS_PUT(name, bytes, pieces, ...) \
    { {"ds_" name, run_shared_store, RAW, "", {NULL}}, STORE, bytes, pieces, __VA_ARGS__ }
#define DS_ATOM(name, bits, pieces, how)                                                  \
    {{"ds_" name "_" bits, run_shared_atomic, RAW, "", {NULL}},                           \
     ATOMIC,                                                                              \
     4,                                                                                   \
     pieces,                                                                              \
     .arithmetic = how},                                                                  \
    {                                                                                     \
        {"ds_" name "_rtn_" bits, run_shared_atomic, RAW, "", {NULL}}, ATOMIC, 4, pieces, \
            .arithmetic = how, .gives = true                                              \
    }
#define S_LOAD(name, pieces) \
    { {"s_load_" name, run_scalar_load, RAW, "", {"", "", "u32"}}, TO_SCALAR, 4, pieces, PLAIN }
#define EXTENDS .extends = true
#define PLAIN .extends = false
static const Access accesses[] = {
    LOAD("load_ubyte", 1, 1, PLAIN),
    LOAD("load_u8", 1, 1, PLAIN),
    LOAD("load_sbyte", 1, 1, EXTENDS),
    LOAD("load_i8", 1, 1, EXTENDS),
    LOAD("load_ushort", 2, 1, PLAIN),
    LOAD("load_u16", 2, 1, PLAIN),
    LOAD("load_sshort", 2, 1, EXTENDS),
    LOAD("load_i16", 2, 1, EXTENDS),
    LOAD("load_dword", 4, 1, PLAIN),
    LOAD("load_b32", 4, 1, PLAIN),
    LOAD("load_dwordx2", 4, 2, PLAIN),
    LOAD("load_b64", 4, 2, PLAIN),
    LOAD("load_dwordx3", 4, 3, PLAIN),
    LOAD("load_b96", 4, 3, PLAIN),
    LOAD("load_dwordx4", 4, 4, PLAIN),
    LOAD("load_b128", 4, 4, PLAIN),
    LOAD("load_short_d16", 2, 1, .half = 'l'),
    LOAD("load_d16_b16", 2, 1, .half = 'l'),
    LOAD("load_short_d16_hi", 2, 1, .half = 'h'),
    LOAD("load_d16_hi_b16", 2, 1, .half = 'h'),
    LOAD("load_ubyte_d16", 1, 1, .half = 'l'),
    LOAD("load_d16_u8", 1, 1, .half = 'l'),
    LOAD("load_ubyte_d16_hi", 1, 1, .half = 'h'),
    LOAD("load_d16_hi_u8", 1, 1, .half = 'h'),
    LOAD("load_sbyte_d16", 1, 1, EXTENDS, .half = 'l'),
    LOAD("load_d16_i8", 1, 1, EXTENDS, .half = 'l'),
    LOAD("load_sbyte_d16_hi", 1, 1, EXTENDS, .half = 'h'),
    LOAD("load_d16_hi_i8", 1, 1, EXTENDS, .half = 'h'),
    PUT("store_byte", 1, 1, PLAIN),
    PUT("store_b8", 1, 1, PLAIN),
    PUT("store_short", 2, 1, PLAIN),
    PUT("store_b16", 2, 1, PLAIN),
    PUT("store_dword", 4, 1, PLAIN),
    PUT("store_b32", 4, 1, PLAIN),
    PUT("store_dwordx2", 4, 2, PLAIN),
    PUT("store_b64", 4, 2, PLAIN),
    PUT("store_dwordx3", 4, 3, PLAIN),
    PUT("store_b96", 4, 3, PLAIN),
    PUT("store_dwordx4", 4, 4, PLAIN),
    PUT("store_b128", 4, 4, PLAIN),
    PUT("store_byte_d16_hi", 1, 1, .half = 'h'),
    PUT("store_d16_hi_b8", 1, 1, .half = 'h'),
    PUT("store_short_d16_hi", 2, 1, .half = 'h'),
    PUT("store_d16_hi_b16", 2, 1, .half = 'h'),
    ATOMS("add", "add_u", ADD),
    ATOMS("sub", "sub_u", SUBTRACT),
    ATOMS("smin", "min_i", LEAST_SIGNED),
    ATOMS("umin", "min_u", LEAST),
    ATOMS("smax", "max_i", MOST_SIGNED),
    ATOMS("umax", "max_u", MOST),
    ATOMS("and", "and_b", AND),
    ATOMS("or", "or_b", OR),
    ATOMS("xor", "xor_b", XOR),
    ATOMS("swap", "swap_b", SWAP),
    ATOMS("cmpswap", "cmpswap_b", COMPARE_SWAP),
    DS_LOAD("read_u8", 1, 1, PLAIN),
    DS_LOAD("load_u8", 1, 1, PLAIN),
    DS_LOAD("read_i8", 1, 1, EXTENDS),
    DS_LOAD("load_i8", 1, 1, EXTENDS),
    DS_LOAD("read_u16", 2, 1, PLAIN),
    DS_LOAD("load_u16", 2, 1, PLAIN),
    DS_LOAD("read_i16", 2, 1, EXTENDS),
    DS_LOAD("load_i16", 2, 1, EXTENDS),
    DS_LOAD("read_u16_d16", 2, 1, .half = 'l'),
    DS_LOAD("load_u16_d16", 2, 1, .half = 'l'),
    DS_LOAD("read_u16_d16_hi", 2, 1, .half = 'h'),
    DS_LOAD("load_u16_d16_hi", 2, 1, .half = 'h'),
    DS_LOAD("read_b32", 4, 1, PLAIN),
    DS_LOAD("load_b32", 4, 1, PLAIN),
    DS_LOAD("read_b64", 4, 2, PLAIN),
    DS_LOAD("load_b64", 4, 2, PLAIN),
    DS_LOAD("read_b96", 4, 3, PLAIN),
    DS_LOAD("load_b96", 4, 3, PLAIN),
    DS_LOAD("read_b128", 4, 4, PLAIN),
    DS_LOAD("load_b128", 4, 4, PLAIN),
    DS_LOAD("read2_b32", 4, 2, .twice = 4),
    DS_LOAD("load_2addr_b32", 4, 2, .twice = 4),
    DS_LOAD("read2_b64", 4, 4, .twice = 8),
    DS_LOAD("load_2addr_b64", 4, 4, .twice = 8),
    DS_LOAD("read2st64_b32", 4, 2, .twice = 256),
    DS_LOAD("load_2addr_stride64_b32", 4, 2, .twice = 256),
    DS_LOAD("read2st64_b64", 4, 4, .twice = 512),
    DS_LOAD("load_2addr_stride64_b64", 4, 4, .twice = 512),
    DS_PUT("write_b8", 1, 1, PLAIN),
    DS_PUT("store_b8", 1, 1, PLAIN),
    DS_PUT("write_b16", 2, 1, PLAIN),
    DS_PUT("store_b16", 2, 1, PLAIN),
    DS_PUT("write_b8_d16_hi", 1, 1, .half = 'h'),
    DS_PUT("store_b8_d16_hi", 1, 1, .half = 'h'),
    DS_PUT("write_b16_d16_hi", 2, 1, .half = 'h'),
    DS_PUT("store_b16_d16_hi", 2, 1, .half = 'h'),
    DS_PUT("write_b32", 4, 1, PLAIN),
    DS_PUT("store_b32", 4, 1, PLAIN),
    DS_PUT("write_b64", 4, 2, PLAIN),
    DS_PUT("store_b64", 4, 2, PLAIN),
    DS_PUT("write_b96", 4, 3, PLAIN),
    DS_PUT("store_b96", 4, 3, PLAIN),
    DS_PUT("write_b128", 4, 4, PLAIN),
    DS_PUT("store_b128", 4, 4, PLAIN),
    DS_PUT("write2_b32", 4, 2, .twice = 4),
    DS_PUT("store_2addr_b32", 4, 2, .twice = 4),
    DS_PUT("write2_b64", 4, 4, .twice = 8),
    DS_PUT("store_2addr_b64", 4, 4, .twice = 8),
    DS_PUT("write2st64_b32", 4, 2, .twice = 256),
    DS_PUT("store_2addr_stride64_b32", 4, 2, .twice = 256),
    DS_PUT("write2st64_b64", 4, 4, .twice = 512),
    DS_PUT("store_2addr_stride64_b64", 4, 4, .twice = 512),
    DS_ATOM("add", "u32", 1, ADD),
    DS_ATOM("add", "u64", 2, ADD),
    DS_ATOM("min", "i32", 1, LEAST_SIGNED),
    DS_ATOM("min", "i64", 2, LEAST_SIGNED),
    DS_ATOM("max", "i32", 1, MOST_SIGNED),
    DS_ATOM("max", "i64", 2, MOST_SIGNED),
    {{"ds_bpermute_b32", run_bpermute, RAW, "", {NULL}}, TO_VECTOR, 4, 1, PLAIN},
    {{"ds_permute_b32", run_permute, RAW, "", {NULL}}, TO_VECTOR, 4, 1, PLAIN},
    S_LOAD("dword", 1),
    S_LOAD("b32", 1),
    S_LOAD("dwordx2", 2),
    S_LOAD("b64", 2),
    S_LOAD("dwordx4", 4),
    S_LOAD("b128", 4),
    S_LOAD("dwordx8", 8),
    S_LOAD("b256", 8),
    S_LOAD("dwordx16", 16),
    S_LOAD("b512", 16),
    {{"buffer_wbl2", run_write_back, RAW, "", {NULL}}, WRITE_BACK, 0, 0, PLAIN},
    {{"buffer_inv", run_invalidate, RAW, "", {NULL}}, WRITE_BACK, 0, 0, PLAIN},
    {{"buffer_gl0_inv", run_invalidate, RAW, "", {NULL}}, WRITE_BACK, 0, 0, PLAIN},
    {{"buffer_gl1_inv", run_invalidate, RAW, "", {NULL}}, WRITE_BACK, 0, 0, PLAIN},
};

const Operation *amd_memory(const char *name) {
    for (size_t i = 0; i < sizeof accesses / sizeof *accesses; i++)
        if (strcmp(accesses[i].operation.name, name) == 0) return &accesses[i].operation;
    return NULL;
}

static bool is_vector(const Operand *o, u32 count) {
    return o->kind == VECTOR && o->count == count;
}

const char *amd_memory_operands(const Instruction *in) {
    const Access *access = (const Access *)in->operation;
    Run *const run = in->operation->run;
    const bool atomic = run == run_atomic, stores = atomic || run == run_store;
    const bool loads = run == run_load, shared = access->operation.name[0] == 'd';
    const bool permutes = run == run_bpermute || run == run_permute;
    const u32 gives = atomic ? in->returns : access->gives;
    const u32 parts = shared && access->kind == STORE && access->twice ? 2 : 1;
    const u32 pieces = access->pieces / parts * (access->arithmetic == COMPARE_SWAP ? 2 : 1);
    const Operand *o = in->sources;
    const u32 wanted = loads || stores          ? (in->space == 'f' ? 2u : 3u) + (atomic && gives)
                       : run == run_scalar_load ? 3
                       : permutes               ? 3
                       : shared ? (access->kind == TO_VECTOR ? 2 : 1 + parts + gives)
                                : 0;
    if (in->source_count != wanted) return "too few or too many operands";
    if (run == run_scalar_load)
        return o[0].kind == SCALAR && o[0].count == access->pieces && o[1].count == 2
                   ? NULL
                   : "its registers";
    if (wanted == 0) return NULL;
    if (access->kind == TO_VECTOR || gives) {
        if (!is_vector(o, access->pieces)) return "a result of another size";
        o++;
    }
    const Operand *base = loads ? &o[1] : &o[2];
    if (in->space == 'f' && !is_vector(o, 2)) return "an address that is not two registers";
    if (in->space == 'g' && !is_vector(o, base->kind == OFF ? 2 : 1)) return "its address";
    for (u32 i = 1; !loads && (stores || shared) && access->kind != TO_VECTOR && i <= parts; i++)
        if (!is_vector(&o[i], pieces)) return "data of another size";
    return NULL;
}
