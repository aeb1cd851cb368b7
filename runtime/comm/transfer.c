/* transfer.c: what a transfer moves between which ranks, and runs of bytes in pieces. */
#include "runtime.h"
#include "comm/comm.h"

#include <stdio.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

uint64_t part_bytes(const ls_comm_part *part) {
    uint64_t bytes = 0;
    for (size_t i = 0; part && i < part->count; i++) bytes += part->pieces[i].bytes;
    return bytes;
}

bool transfer_sends(const Transfer *transfer, int rank) {
    return transfer->kind != TRANSFER_BROADCAST || transfer->root == rank;
}

const ls_comm_part *transfer_to(const Transfer *transfer, int rank, int to) {
    if (rank == to || !transfer_sends(transfer, rank) || !transfer->send) return NULL;
    return transfer->kind == TRANSFER_ALL_TO_ALL ? &transfer->send[to] : transfer->send;
}

const ls_comm_part *transfer_from(const Transfer *transfer, int rank, int from) {
    if (rank == from || !transfer_sends(transfer, from) || !transfer->receive) return NULL;
    return transfer->kind == TRANSFER_BROADCAST ? transfer->receive : &transfer->receive[from];
}

const char *transfer_name(TransferKind kind) {
    static const char *const names[TRANSFER_KINDS] = {"all_to_all", "all_gather", "broadcast",
                                                      "barrier"};
    return (size_t)kind < TRANSFER_KINDS ? names[kind] : "?";
}

enum { KIND_BITS = 3, ROOT_BITS = 20 };

uint64_t transfer_doing(uint64_t number, TransferKind kind, int root) {
    return (number << ROOT_BITS | (uint64_t)root) << KIND_BITS | (uint64_t)kind;
}

uint64_t transfer_number(uint64_t doing) {
    return doing >> (KIND_BITS + ROOT_BITS);
}

DoingText transfer_describe(uint64_t doing) {
    const TransferKind kind = (TransferKind)(doing & ((1u << KIND_BITS) - 1));
    const unsigned root = (unsigned)(doing >> KIND_BITS & ((1u << ROOT_BITS) - 1));
    DoingText text;
    int used = snprintf(text.text, sizeof text.text, "operation %llu, %s",
                        (unsigned long long)transfer_number(doing), transfer_name(kind));
    if (kind == TRANSFER_BROADCAST)
        snprintf(text.text + used, sizeof text.text - (size_t)used, " from rank %u", root);
    return text;
}

Cursor cursor_open(const ls_comm_part *part) {
    const uint64_t bytes = part_bytes(part);
    return (Cursor){.piece = part ? part->pieces : NULL, .left = bytes, .all = bytes};
}

uint64_t cursor_next(Cursor *cursor, uint64_t bytes, char **data) {
    if (cursor->left == 0) return 0;
    while (cursor->at == cursor->piece->bytes) {
        cursor->piece++;
        cursor->at = 0;
    }
    const uint64_t rest = cursor->piece->bytes - cursor->at;
    const uint64_t count = bytes < rest ? bytes : rest;
    *data = (char *)cursor->piece->data + cursor->at;
    cursor->at += count;
    cursor->left -= count;
    return count;
}

void cursor_take(Cursor *cursor, char *to, uint64_t bytes) {
    char *data = NULL;
    for (uint64_t count; bytes > 0 && (count = cursor_next(cursor, bytes, &data)) > 0;
         to += count, bytes -= count)
        memcpy(to, data, count);
}

/* Stores past the caches, which then need not read what is overwritten: for what is too large to
 * be still there when it is used. */
static void copy_past_caches(char *to, const char *from, uint64_t bytes) {
#if defined(__SSE2__)
    enum { LINE = 64, WORD = sizeof(__m128i) };
    uint64_t at = -(uintptr_t)to % WORD;
    if (bytes >= LINE) memcpy(to, from, at);
    for (; bytes >= LINE && at <= bytes - LINE; at += LINE)
        for (int i = 0; i < LINE; i += WORD)
            _mm_stream_si128((__m128i *)(void *)(to + at + i),
                             _mm_loadu_si128((const __m128i *)(const void *)(from + at + i)));
    _mm_sfence();
    if (bytes < LINE) at = 0;
    memcpy(to + at, from + at, bytes - at);
#else
    memcpy(to, from, bytes);
#endif
}

void cursor_give(Cursor *cursor, const char *from, uint64_t bytes) {
    enum { LARGE = 1 << 20 }; /* of all that the cursor goes over */
    char *data = NULL;
    for (uint64_t count; bytes > 0 && (count = cursor_next(cursor, bytes, &data)) > 0;
         from += count, bytes -= count)
        if (cursor->all >= LARGE)
            copy_past_caches(data, from, count);
        else
            memcpy(data, from, count);
}
