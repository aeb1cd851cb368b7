/* memory_gpu.h: four neighbours at once, in one access of 4 * sizeof(storage) bytes (two of 16 for
 * 8-byte types). LS_ACCESS_VEC4(bf16, bf16, f32) gives ls_load_vec4_bf16 and ls_store_vec4_bf16,
 * for an address that is a multiple of that, and for the ends of rows, and rows that begin
 * elsewhere, ls_load_part_bf16 and ls_store_part_bf16: the first `live` of them, element by
 * element. The others read as 0. */

/* Items of work go to the warps of the grid in turn. */
LS_FN i64 ls_first_item(void) {
    return (i64)ls_block() * ls_warps() + ls_warp();
}
LS_FN i64 ls_item_step(void) {
    return (i64)ls_blocks() * ls_warps();
}

/* The first item of a worker's contiguous range, where so many items are shared out evenly; and the
 * range of a phase whose warps take such, of all items or of those that it is given. */
LS_FN i64 ls_share(i64 items, i64 worker, i64 workers) {
    const i64 each = (i64)((u64)items / (u64)workers);
    return worker * each + ls_min(worker, items - each * workers);
}
LS_FN i64 ls_range_begin(i64 items, i64 first_item, i64 last_item, i64 item_step) {
    return last_item == LS_MAX_I64 ? ls_share(items, first_item, item_step) : first_item;
}
LS_FN i64 ls_range_end(i64 items, i64 first_item, i64 last_item, i64 item_step) {
    return last_item == LS_MAX_I64 ? ls_share(items, first_item + 1, item_step) : last_item;
}

/* The lane, as a number that compilers do not know from the item before. */
LS_FN i64 ls_lane_of_item(i64 item) {
    i64 lane = (i64)ls_lane();
#ifdef __CUDA_ARCH__
    asm("" : "+l"(lane) : "l"(item));
#endif
#ifdef __AMDGCN__
    asm("" : "+v"(lane) : "v"(item));
#endif
    (void)item;
    return lane;
}

/* Adds to a sum that other lanes add to as well, and lowers one that others lower: alike in any
 * order. What is lost (fixed.h) is the least of all, and stays beyond all sums. */
#define LS_ADD(sums, at, value) ls_add_to(&(sums)[at], value)
#define LS_ADD_MIN(values, at, value) ls_atomic_min_i64(&(values)[at], value)
LS_FN void ls_add_to(i64 *sum, i64 value) {
    if (value == LS_FIXED_LOST)
        ls_atomic_min_i64(sum, value);
    else
        ls_atomic_add_u64((u64 *)sum, (u64)value);
}

/* Before a loop over the rows of a tile, where a form of lockstep tune says how many. */
#define LS_PRAGMA(...) _Pragma(#__VA_ARGS__)
#define LS_UNROLL_BY(count) LS_PRAGMA(unroll count)

/* Before a loop that is not worth unrolling. */
#define LS_ROLLED _Pragma("unroll 1")

/* A phase takes the items first_item, first_item + item_step, ... below last_item, and where
 * `arrivals` is not 0 arrives at the counter of its last-block epilogue as one of so many. A kernel
 * partitions the items over the grid. */
#define LS_PHASE LS_FN
#ifdef __OPENCL_CPP_VERSION__
#define LS_OUTLINE static __attribute__((noinline))
#else
#define LS_OUTLINE static __device__ __attribute__((noinline))
#endif

#define LS_ITEM_RANGE i64 first_item, i64 last_item, i64 item_step, u32 arrivals
#define LS_ITEMS(item, count)                                                           \
    for (i64 item = first_item, item_stop = ls_min(last_item, count); item < item_stop; \
         item += item_step)
#define LS_ARRIVALS (ls_blocks() * ls_warps())
#define LS_RUN(phase) phase(a, ls_first_item(), LS_MAX_I64, ls_item_step(), LS_ARRIVALS);
#define LS_RUN_ALL(phase, items) LS_RUN(phase)

/* One whose items are blocks', and that on the block alone. Phases share such a block's memory:
 * they leave it behind a barrier. */
#ifndef __OPENCL_CPP_VERSION__
LS_FN u8 *ls_block_memory(void) {
    LS_SHARED LS_ALIGN(16) u8 memory[8192];
    return memory;
}
#endif
#define LS_RUN_BLOCK_ALONE(phase, items) phase(a, 0, LS_MAX_I64, 1, 0);
#define LS_RUN_BLOCKS(phase) phase(a, (i64)ls_block(), LS_MAX_I64, (i64)ls_blocks(), ls_blocks());

/* Of horizontally fused phases a warp begins with one when all its lanes are done with the one
 * before. */
#define LS_RUN_HORIZONTAL(phase, items) \
    ls_warp_sync();                     \
    LS_RUN(phase)

/* Parts of a list, or of leading axes, shared out like items. */
#define LS_RUN_PARTS(part, parts) \
    for (i64 part = ls_first_item(); part < (parts); part += ls_item_step())

/* This block's own part, of so many bytes, of a temporary. */
#define LS_OWN(all, bytes) ((u8 *)(all) + (i64)ls_block() * (((i64)(bytes) + 255) / 256 * 256))

/* LS_THREADS of a kernel of rows whose blocks are of more than 256: where the prelude says how many
 * blocks a multiprocessor shall hold, it shall hold 1024 threads, as one block alone leaves memory
 * idle behind its barriers. */
#ifdef LS_BLOCKS
#define LS_THREADS_MANY(count) \
    __launch_bounds__(count, LS_BLOCKS > 1 && (count) < 1024 ? 1024 / (count) : 1)
#else
#define LS_THREADS_MANY(count) LS_THREADS(count)
#endif

/* Copies by all threads of the block: of what it has in shared memory for a while. */
template <class Element> LS_FN void ls_copy_by_block(Element *to, const Element *from, i64 count) {
    for (i64 i = ls_thread(); i < count; i += ls_threads()) to[i] = from[i];
}

/* A last-block epilogue: whether this block is the last to arrive, and a phase that it runs on its
 * own. */
#define LS_LAST(counter) ls_last_block(counter)
#define LS_RUN_ALONE(phase, items) \
    phase(a, (i64)ls_warp(), LS_MAX_I64, (i64)ls_warps(), ls_warps());

/* Of a row fusion, such a phase on the tiles of a row, from the first one on. */
#define LS_RUN_ROW_RANGES(phase, first, tiles)           \
    phase(a, (first) + ls_share(tiles, member, members), \
          (first) + ls_share(tiles, member + 1, members), 1, 0);

/* What thread 0 sets for its block, which reads it behind a barrier. */
#ifndef LS_FROM_FIRST
#define LS_SET_BY_FIRST(type, name) LS_SHARED type name
#define LS_FROM_FIRST(name) (name)
#endif

/* Says 1 to the threads of the last block of the grid that comes here, who then see everything the
 * others wrote before. The counter is 0 again for the next launch. */
LS_FN int ls_last_block(u32 *counter) {
    LS_SET_BY_FIRST(u32, last);
    ls_barrier_release();
    if (ls_thread() == 0) {
        ls_release();
        last = ls_atomic_add_u32(counter, 1) + 1 == ls_blocks();
        if (last) *counter = 0;
        ls_acquire();
    }
    ls_barrier();
    return (int)LS_FROM_FIRST(last);
}
/* A row panel in a block: how many warps a team for rows of so many tiles has; the `span` rows
 * first, first + 128, ... below `rows`, partitioned over the teams. One without a row follows the
 * first team, so that all wait for each other, and no warp of it is a member. And the phases down
 * columns. */
LS_FN u32 ls_team(i64 tiles) {
    u32 team = 1;
    while (team < tiles) team *= 2;
    return team;
}
#define LS_PANEL_TEAM i64 member, i64 first_warp
#define LS_RUN_TEAMS(phase)                                                                       \
    for (u32 r = own_team; r - own_team < span && first + 128 * (i64)(r - own_team) < rows;       \
         r += teams) {                                                                            \
        const int there = r < span && first + 128 * (i64)r < rows;                                \
        const i64 row = first + 128 * (i64)(there ? r : r - own_team);                            \
        if (r > own_team) ls_barrier();                                                           \
        phase(a, there ? ls_warp() - first_warp : warps, there ? first_warp : 0, row, row + 1, 1, \
              0);                                                                                 \
    }
/* The first row of a panel's part, and of the part that the block does next: the rows of a panel
 * are so many neighbouring lanes' of the tree down columns. */
LS_FN i64 ls_part_row(i64 panel, u32 part, u32 span, u32 lanes) {
    const u32 panels = 128 / lanes, own = (u32)((u64)panel % panels);
    return 1024 * (i64)((u64)panel / panels) +
           (i64)(lanes * own + part * span / 8 + 128 * (part * span % 8));
}
LS_FN i64 ls_next_part(i64 panel, u32 part, u32 span, u32 lanes, u32 groups) {
    return part + 1 < 8 * lanes / span ? ls_part_row(panel, part + 1, span, lanes)
                                       : ls_part_row(panel + groups * ls_blocks(), 0, span, lanes);
}

/* How many neighbouring panels a block takes at once, each of as many parts: two where half of its
 * warps have all chunks of columns, which takes one and a half times as long as one; unless blocks
 * without a panel in the last turn would make more of it. A panel has half of the levels. */
LS_FN u32 ls_panel_groups(i64 chunks, u32 warps, i64 panels, u32 parts) {
    const u64 blocks = ls_blocks(), all = (u64)panels;
    const u64 turns = (all + blocks - 1) / blocks, pairs = (all + 2 * blocks - 1) / (2 * blocks);
    return 2 * chunks <= warps && parts <= 4 && 3 * pairs <= 2 * turns ? 2 : 1;
}

/* Prefetches an array's rows of a part, of so many bytes each, into the second-level cache: the
 * lines of all rows are dealt to the block's threads. */
LS_FN void ls_prefetch_part(const void *data, i64 bytes, i64 first, u32 span, u32 lanes, u32 groups,
                            i64 rows) {
#ifdef __CUDA_ARCH__
    const u32 lines = (u32)(bytes + 127) / 128;
    for (u32 i = ls_thread(); i < groups * span * lines; i += ls_threads()) {
        const u32 r = i / lines;
        const i64 row = first + (r < span ? 128 * r : lanes + 128 * (r - span));
        if (row < rows)
            asm volatile("prefetch.global.L2 [%0];" ::"l"((const char *)data + row * bytes +
                                                          128 * (i64)(i - r * lines)));
    }
#else
    (void)data, (void)bytes, (void)first, (void)span, (void)lanes, (void)groups, (void)rows;
#endif
}

/* Its columns, always the same for a warp. Each group of warps has a panel. */
#define LS_PANEL_PART i64 panel, i64 owner, i64 first_row, i64 span, i64 part, i64 level
#define LS_RUN_PANEL(phase, lanes)                                                        \
    if (panel_row + (lanes)*own_group < rows)                                             \
        phase(a, panel + own_group, ls_block(), part_row + (lanes)*own_group, span, part, \
              2 * own_group, ls_warp() % own_warps, LS_MAX_I64, own_warps, 0);

#define LS_MAY_ALIAS __attribute__((may_alias))

/* An element's access that stays alone, or LLVM joins it with a part of the whole four's and splits
 * that. On NVIDIA devices it is by an address that ls_whole hides: what is volatile has the scope
 * of the system there, past the first cache, so that each of four neighbours fetches their sector
 * anew. On AMD relaxed among the accesses of one thread, which costs nothing: what is volatile goes
 * past the device's caches there, and each waits for the one before. LS_LOOSE: four neighbours are
 * one access wherever an element may begin; aligned so, LS_LOOSE_ALIGN. */
#ifdef __AMDGCN__
#define LS_LOOSE 1
#define LS_LOOSE_ALIGN(bytes) __attribute__((aligned(bytes)))
#define LS_LOAD_ALONE(storage, at) \
    __hip_atomic_load(at, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SINGLETHREAD)
#define LS_STORE_ALONE(storage, at, value) \
    __hip_atomic_store(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SINGLETHREAD)
#else
#define LS_LOOSE 0
#define LS_LOOSE_ALIGN(bytes)
#ifdef __OPENCL_CPP_VERSION__
#define LS_LOAD_ALONE(storage, at) (*(const volatile storage *)(at))
#define LS_STORE_ALONE(storage, at, value) (*(volatile storage *)(at) = (value))
#else
#define LS_LOAD_ALONE(storage, at) (*(at))
#define LS_STORE_ALONE(storage, at, value) (*(at) = (value))
#endif
#endif

/* Neighbours as they lie in memory. Those of two bytes are loaded as words: of a word a compiler
 * takes either half of two bf16 as an f32 in one instruction, of a half that it has moved down in
 * two. */
template <class Raw, class Storage> LS_FN Raw ls_load_raw(const Storage *at) {
    struct LS_ALIGN(alignof(Raw)) LS_MAY_ALIAS Words {
        u32 at[(sizeof(Raw) + 3) / 4];
    };
    if (sizeof(Storage) != 2) return *(const Raw *)at;
    const Words words = *(const Words *)at;
    Raw raw;
    LS_UNROLL
    for (int e = 0; e < (int)(sizeof(Raw) / sizeof(Storage)); e++)
        raw.at[e] = (Storage)(words.at[e / 2] >> (e % 2 * 16));
    return raw;
}

#define LS_ACCESS_VEC4(name, storage, compute)                                                     \
    struct ls_vec4_##storage {                                                                     \
        compute at[4];                                                                             \
    };                                                                                             \
    struct LS_ALIGN(4 * sizeof(storage) < 16 ? 4 * sizeof(storage) : 16) ls_raw_##storage {        \
        storage at[4];                                                                             \
    };                                                                                             \
    typedef ls_raw_##storage ls_loose_##storage LS_LOOSE_ALIGN(sizeof(storage));                   \
    LS_FN ls_vec4_##storage ls_load_vec4_##storage(const storage *data, i64 index) {               \
        const ls_raw_##storage raw = ls_load_raw<ls_raw_##storage>(data + index);                  \
        ls_vec4_##storage four;                                                                    \
        LS_UNROLL                                                                                  \
        for (int e = 0; e < 4; e++) four.at[e] = ls_unpack_##name(raw.at[e]);                      \
        return four;                                                                               \
    }                                                                                              \
    LS_FN void ls_store_vec4_##storage(storage *data, i64 index, const ls_vec4_##storage &four) {  \
        ls_raw_##storage raw;                                                                      \
        LS_UNROLL                                                                                  \
        for (int e = 0; e < 4; e++) raw.at[e] = ls_pack_##name(four.at[e]);                        \
        *(ls_raw_##storage *)(ls_whole(data) + index) = raw;                                       \
    }                                                                                              \
    LS_FN ls_vec4_##storage ls_load_loose_##storage(const storage *data, i64 index) {              \
        const ls_loose_##storage *raw = (const ls_loose_##storage *)(data + index);                \
        ls_vec4_##storage four;                                                                    \
        LS_UNROLL                                                                                  \
        for (int e = 0; e < 4; e++) four.at[e] = ls_unpack_##name(raw->at[e]);                     \
        return four;                                                                               \
    }                                                                                              \
    LS_FN void ls_store_loose_##storage(storage *data, i64 index, const ls_vec4_##storage &four) { \
        ls_loose_##storage *raw = (ls_loose_##storage *)(data + index);                            \
        LS_UNROLL                                                                                  \
        for (int e = 0; e < 4; e++) raw->at[e] = ls_pack_##name(four.at[e]);                       \
    }                                                                                              \
    LS_FN ls_vec4_##storage ls_load_part_##storage(const storage *data, i64 index, int live) {     \
        const storage *part = ls_whole(data + index);                                              \
        ls_vec4_##storage four;                                                                    \
        LS_UNROLL                                                                                  \
        for (int e = 0; e < 4; e++)                                                                \
            four.at[e] =                                                                           \
                ls_unpack_##name(e < live ? LS_LOAD_ALONE(storage, part + e) : (storage)0);        \
        return four;                                                                               \
    }                                                                                              \
    LS_FN void ls_store_part_##storage(storage *data, i64 index, int live,                         \
                                       const ls_vec4_##storage &four) {                            \
        storage *part = ls_whole(data + index);                                                    \
        LS_UNROLL                                                                                  \
        for (int e = 0; e < 4; e++)                                                                \
            if (e < live) LS_STORE_ALONE(storage, part + e, ls_pack_##name(four.at[e]));           \
    }

/* Of LS_ACCESS_VEC4, where a vector begins `left` elements ahead of the end. all: it lies on its
 * boundary, and all of it ahead of the end or none; some: it lies there where it is `aligned`. */
#define LS_ACCESS_SOME(storage)                                                               \
    LS_FN ls_vec4_##storage ls_load_all_##storage(const storage *data, i64 index, i64 left) { \
        ls_vec4_##storage four = {};                                                          \
        if (left > 0) four = ls_load_vec4_##storage(data, index);                             \
        return four;                                                                          \
    }                                                                                         \
    LS_FN void ls_store_all_##storage(storage *data, i64 index, i64 left,                     \
                                      const ls_vec4_##storage &four) {                        \
        if (left > 0) ls_store_vec4_##storage(data, index, four);                             \
    }                                                                                         \
    LS_FN ls_vec4_##storage ls_load_some_##storage(const storage *data, i64 index, i64 left,  \
                                                   int aligned) {                             \
        if (LS_LOOSE && left >= 4) return ls_load_loose_##storage(data, index);               \
        if (aligned && left >= 4) return ls_load_vec4_##storage(data, index);                 \
        return ls_load_part_##storage(data, index, (int)ls_min(4, ls_max(0, left)));          \
    }                                                                                         \
    LS_FN void ls_store_some_##storage(storage *data, i64 index, i64 left, int aligned,       \
                                       const ls_vec4_##storage &four) {                       \
        if (LS_LOOSE && left >= 4)                                                            \
            ls_store_loose_##storage(data, index, four);                                      \
        else if (aligned && left >= 4)                                                        \
            ls_store_vec4_##storage(data, index, four);                                       \
        else                                                                                  \
            ls_store_part_##storage(data, index, (int)ls_min(4, ls_max(0, left)), four);      \
    }

/* The same for eight neighbours, in accesses of 16 bytes, or one of fewer. all: on a boundary of
 * that, all ahead of the end or none; some: where they are `aligned` they lie on such a boundary,
 * and where the halves are, each lies on one of vec4. */
#define LS_ACCESS_VEC8(name, storage, compute)                                                     \
    struct ls_vec8_##storage {                                                                     \
        compute at[8];                                                                             \
    };                                                                                             \
    struct LS_ALIGN(8 * sizeof(storage) < 16 ? 8 * sizeof(storage) : 16) ls_raw_vec8_##storage {   \
        storage at[8];                                                                             \
    };                                                                                             \
    LS_FN ls_vec8_##storage ls_load_vec8_##storage(const storage *data, i64 index) {               \
        const ls_raw_vec8_##storage raw = ls_load_raw<ls_raw_vec8_##storage>(data + index);        \
        ls_vec8_##storage eight;                                                                   \
        LS_UNROLL                                                                                  \
        for (int e = 0; e < 8; e++) eight.at[e] = ls_unpack_##name(raw.at[e]);                     \
        return eight;                                                                              \
    }                                                                                              \
    LS_FN void ls_store_vec8_##storage(storage *data, i64 index, const ls_vec8_##storage &eight) { \
        ls_raw_vec8_##storage raw;                                                                 \
        LS_UNROLL                                                                                  \
        for (int e = 0; e < 8; e++) raw.at[e] = ls_pack_##name(eight.at[e]);                       \
        *(ls_raw_vec8_##storage *)(ls_whole(data) + index) = raw;                                  \
    }                                                                                              \
    LS_FN ls_vec8_##storage ls_load_all_vec8_##storage(const storage *data, i64 index, i64 left) { \
        ls_vec8_##storage eight = {};                                                              \
        if (left > 0) eight = ls_load_vec8_##storage(data, index);                                 \
        return eight;                                                                              \
    }                                                                                              \
    LS_FN void ls_store_all_vec8_##storage(storage *data, i64 index, i64 left,                     \
                                           const ls_vec8_##storage &eight) {                       \
        if (left > 0) ls_store_vec8_##storage(data, index, eight);                                 \
    }                                                                                              \
    LS_FN ls_vec8_##storage ls_load_some_vec8_##storage(const storage *data, i64 index, i64 left,  \
                                                        int aligned, int halves) {                 \
        if (aligned && left >= 8) return ls_load_vec8_##storage(data, index);                      \
        const ls_vec4_##storage low = ls_load_some_##storage(data, index, left, halves);           \
        const ls_vec4_##storage high = ls_load_some_##storage(data, index + 4, left - 4, halves);  \
        ls_vec8_##storage eight;                                                                   \
        LS_UNROLL                                                                                  \
        for (int e = 0; e < 4; e++) eight.at[e] = low.at[e], eight.at[4 + e] = high.at[e];         \
        return eight;                                                                              \
    }                                                                                              \
    LS_FN void ls_store_some_vec8_##storage(storage *data, i64 index, i64 left, int aligned,       \
                                            int halves, const ls_vec8_##storage &eight) {          \
        if (aligned && left >= 8) {                                                                \
            ls_store_vec8_##storage(data, index, eight);                                           \
            return;                                                                                \
        }                                                                                          \
        ls_vec4_##storage low, high;                                                               \
        LS_UNROLL                                                                                  \
        for (int e = 0; e < 4; e++) low.at[e] = eight.at[e], high.at[e] = eight.at[4 + e];         \
        ls_store_some_##storage(data, index, left, halves, low);                                   \
        ls_store_some_##storage(data, index + 4, left - 4, halves, high);                          \
    }
