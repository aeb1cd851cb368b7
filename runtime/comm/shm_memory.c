/* shm_memory.c: the shared memory of the engine "shm": where things lie in it, and its map. */
#include "runtime.h"
#include "comm/shm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static uint64_t lines(uint64_t bytes) {
    return (bytes + SHM_LINE - 1) / SHM_LINE * SHM_LINE;
}

static uint64_t row_bytes(int size) { /* of `taken` */
    return lines((uint64_t)size * sizeof(uint64_t));
}

static uint64_t entries_bytes(int size) {
    return lines(sizeof(ShmSlot) + (uint64_t)size * sizeof(ShmEntry));
}

static uint64_t slots_at(int size) {
    const uint64_t count = (uint64_t)size;
    return lines(sizeof(ShmHeader) + count * sizeof(ShmRank)) + count * row_bytes(size);
}

uint64_t shm_bytes(int size) {
    return slots_at(size) +
           (uint64_t)size * SHM_SLOTS * (entries_bytes(size) + (uint64_t)SHM_SLOT_BYTES);
}

_Atomic uint64_t *shm_taken(const Shm *shm, int writer, int reader) {
    char *rows =
        (char *)shm->header + lines(sizeof(ShmHeader) + (uint64_t)shm->size * sizeof(ShmRank));
    return (_Atomic uint64_t *)(void *)(rows + (uint64_t)writer * row_bytes(shm->size)) + reader;
}

ShmSlot *shm_slot(const Shm *shm, int writer, uint64_t chunk) {
    const uint64_t place = (uint64_t)writer * SHM_SLOTS + chunk % SHM_SLOTS;
    return (ShmSlot *)(void *)((char *)shm->header + slots_at(shm->size) +
                               place * (entries_bytes(shm->size) + (uint64_t)SHM_SLOT_BYTES));
}

char *shm_slot_data(const Shm *shm, ShmSlot *slot) {
    return (char *)slot + entries_bytes(shm->size);
}

ls_status shm_map(int file, int size, Error *error, ShmMap **map) {
    *map = calloc(1, sizeof **map);
    if (!*map) return error_memory(error, "ls_comm_create");
    const uint64_t bytes = shm_bytes(size);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) {
        free(*map);
        *map = NULL;
        return error_set(error, LS_ERROR_MEMORY, "%llu bytes of shared memory: %s",
                         (unsigned long long)bytes, strerror(errno));
    }
    (*map)->header = memory;
    (*map)->bytes = bytes;
    atomic_store(&(*map)->users, 1);
    return LS_OK;
}

void shm_unmap(ShmMap *map) {
    if (!map || atomic_fetch_sub(&map->users, 1) != 1) return;
    munmap(map->header, map->bytes);
    free(map);
}
