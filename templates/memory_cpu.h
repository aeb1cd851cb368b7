/* memory_cpu.h: how one thread of the CPU takes its part of the work; prefetches and non-temporal
 * stores. */

/* A phase takes the items from first_item to last_item, and where `arrivals` is not 0 arrives at
 * the counter of its last-block epilogue as one of so many. A kernel of one phase takes the items
 * it is given; of several, each runs to its end before the next. A phase may have fewer items than
 * its kernel. */
#define LS_PHASE static inline
#define LS_OUTLINE static __attribute__((noinline, unused))

#define LS_ITEM_RANGE u64 first_item, u64 last_item, u32 workers, u32 arrivals
#define LS_ITEMS(item, count)                                                                     \
    for (i64 item = (i64)first_item, item_stop = ls_min((i64)last_item, count); item < item_stop; \
         item++)
/* The same where a kernel gives `given` items: each stands for as many of the phase's own. */
#define LS_ITEMS_OF(item, count, given)                            \
    for (i64 item = ls_part_of((i64)first_item, count, given),     \
             item_stop = ls_part_of((i64)last_item, count, given); \
         item < item_stop; item++)
/* A part of a row panel, and the thread that takes it. */
#define LS_PANEL_PART i64 panel, i64 owner, struct ls_part part
#define LS_RUN(phase) phase(a, first_item, last_item, workers, workers);
#define LS_RUN_ALL(phase, items)     \
    phase(a, 0, (u64)(items), 1, 1); \
    LS_DONE

LS_FN i64 ls_part_of(i64 item, i64 count, i64 given) {
    return given ? item * (count / given) + item * (count % given) / given : 0;
}

/* Where a loop begins or ends, as a number that compilers do not look into. Of the least of two
 * they would make a copy for each bound they derive from it, at every entry of the loop. */
LS_FN i64 ls_bound(i64 bound) {
    __asm__("" : "+r"(bound));
    return bound;
}

/* A later phase may use the memory of an earlier one for something else, of another type: here the
 * compiler has all of the earlier one's accesses behind it. */
#define LS_DONE __asm__ volatile("" ::: "memory");

/* Of horizontally fused phases a thread takes a part of each. */
#define LS_RUN_HORIZONTAL(phase, items)                      \
    phase(a, ls_worker_share((u64)(items), worker, workers), \
          ls_worker_share((u64)(items), worker + 1, workers), workers, workers);
LS_FN u64 ls_worker_share(u64 items, u32 worker, u32 workers) {
    return items / workers * worker + items % workers * worker / workers;
}

/* Parts of a list, or of leading axes, shared out like items. */
#define LS_RUN_PARTS(part, parts) for (i64 part = worker; part < (parts); part += workers)

/* This worker's own part, of so many bytes, of a temporary. */
#define LS_OWN(all, bytes) ((u8 *)(all) + (i64)worker * (((i64)(bytes) + 255) / 256 * 256))

/* ls_arrive of a worker that does `by` of what is expected: it alone, where that is all. */
LS_FN int ls_arrive_by(u32 *counter, u32 expected, u32 by) {
    if (by == expected) return 1;
    if (__atomic_add_fetch(counter, by, __ATOMIC_ACQ_REL) != expected) return 0;
    *counter = 0;
    return 1;
}

/* A last-block epilogue: whether this thread is the last to arrive, and a phase that it runs on its
 * own. */
#define LS_LAST(counter) ls_arrive(counter, workers)
#define LS_RUN_ALONE(phase, items)   \
    phase(a, 0, (u64)(items), 1, 1); \
    LS_DONE
/* Before a loop over elements: so many vectors side by side, that the latency of one is the others'
 * time to work. Clang does so by itself only where it may unroll every loop, which doubles its
 * time; gcc has no word for it. */
#ifndef __clang__
#define LS_INTERLEAVED
#elif defined(__AVX512F__) || defined(__aarch64__)
#define LS_INTERLEAVED _Pragma("clang loop interleave_count(4)")
#else /* half as many registers */
#define LS_INTERLEAVED _Pragma("clang loop interleave_count(2)")
#endif

/* So many of them. */
#ifdef __clang__
#define LS_PRAGMA(...) _Pragma(#__VA_ARGS__)
#define LS_VECTORS_AT_ONCE(count) LS_PRAGMA(clang loop interleave_count(count))
#else
#define LS_VECTORS_AT_ONCE(count)
#endif

/* What such a loop leaves of a row, compilers take one by one, or half a vector at a time. It takes
 * the whole rounds, then; the rest has a loop of its own, of vectors some lanes of which do
 * nothing.
 */
#if defined(__clang__) && defined(__AVX512F__)
#define LS_WHOLE(count) ((count) & ~(i64)63)
#define LS_REST _Pragma("clang loop vectorize_predicate(enable) interleave_count(1)")
#else
#define LS_WHOLE(count) (count)
#define LS_REST
#endif

/* The same of tensors of a list, most of which may be shorter than a vector: the rest goes by
 * fours, without lanes that do nothing, whose loads would wait for the stores of the tensor before.
 */
#ifdef __clang__
#define LS_ROUNDS(count) ((count) & ~(i64)15)
#define LS_FOURS _Pragma("clang loop vectorize_width(4) interleave_count(1)")
#else
#define LS_ROUNDS(count) (count)
#define LS_FOURS
#endif

/* A part of a row panel: a subtree of `span` leaves, a power of two, of a tile's tree. The row of a
 * leaf is that of the first and a step for each bit of the leaf's number in the part. Leaves whose
 * row does not exist are the last ones; where that would not be so, parts are smaller. */
struct ls_part {
    i64 first, rows, span; /* the first row, and how many there are */
    i64 step[3];
    i64 level, carry, at, left; /* the subtree's level, and how many levels it completes; leaves
                                   of the panel before the part, and behind it */
};

/* How many rows a lane of the tree of a column needs, where all rows are so many: 1, 2, 4 or 8. */
LS_FN i64 ls_lane_rows(i64 rows) {
    return rows <= 128 ? 1 : rows <= 256 ? 2 : rows <= 512 ? 4 : 8;
}

/* Row panels of so many rows, each of 8 neighbouring lanes. */
LS_FN i64 ls_panels(i64 rows) {
    return rows <= 128 ? (rows + 7) / 8 : (rows + 1023) / 1024 * 16;
}

LS_FN i64 ls_leaf_row(i64 leaf, i64 lane_rows) {
    return leaf / 1024 * 1024 + leaf % 1024 / lane_rows + 128 * (leaf % lane_rows);
}

/* The part that begins `at` leaves behind the panel's first, of at most `span` leaves; `own`: the
 * rows of a lane. Behind the panel's last leaf: one of none. */
LS_FN struct ls_part ls_part_at(i64 panel, i64 at, i64 span, i64 own, i64 rows) {
    struct ls_part part;
    __builtin_memset(&part, 0, sizeof part);
    part.at = at;
    if (at >= 8 * own) return part;
    part.first = ls_leaf_row(8 * own * panel + at, own);
    i64 last = part.first;
    for (i64 bit = 0; bit < 3; bit++) {
        part.step[bit] = 1 << bit < own ? 128 << bit : (1 << bit) / own;
        if (1 << bit < span) last += part.step[bit];
    }
    if (own > 1 && own < span && last >= rows) span = own;
    while (at & (span - 1)) span /= 2;
    if (part.first >= rows)
        part.rows = 0;
    else if (own == 1 || own >= span)
        part.rows = ls_min(span, (rows - part.first + part.step[0] - 1) / part.step[0]);
    else
        part.rows = span;
    part.span = span;
    part.level = __builtin_ctzll((u64)span);
    part.carry = __builtin_ctzll((u64)(at + span)) - part.level;
    part.left = 8 * own - at - span;
    return part;
}

/* How many leaves of a panel are taken at a time: a power of two, at least a part, and otherwise at
 * most `most`. */
LS_FN i64 ls_near_leaves(i64 span, i64 lane_rows, i64 most) {
    i64 near_leaves = span;
    while (near_leaves < 8 * lane_rows && 2 * near_leaves <= most) near_leaves *= 2;
    return near_leaves;
}

/* So many leaves of a panel, from leaf `at` on: their rows in runs of neighbours, a run for each
 * row of a lane, from `row` up to `stop`; and their parts. */
#define LS_LEAVES_OF_PANEL for (i64 at = 0; at < 8 * lane_rows; at += near_leaves)
#define LS_RUNS_OF_LEAVES                                                       \
    for (i64 run = 0, row = ls_leaf_row(8 * lane_rows * panel + at, lane_rows), \
             stop = ls_min(row + ls_max(near_leaves / lane_rows, 1), rows);     \
         run < ls_min(near_leaves, lane_rows) && row < rows;                    \
         run++, row += 128, stop = ls_min(row + ls_max(near_leaves / lane_rows, 1), rows))
#define LS_PARTS_OF_LEAVES                                                   \
    for (struct ls_part part = ls_part_at(panel, at, span, lane_rows, rows); \
         part.span && part.at < at + near_leaves;                            \
         part = ls_part_at(panel, part.at + part.span, span, lane_rows, rows))

/* Prefetches memory into the nearest cache. */
LS_FN void ls_prefetch(const void *from, i64 bytes) {
    for (i64 i = 0; i < bytes; i += 64) __builtin_prefetch((const char *)from + i);
}

/* The same where every element comes from a narrow float and goes to one: the conversions wait for
 * nothing else, so that more at once is quicker, though some of it goes to the stack. */
#if defined(__clang__) && defined(__AVX512F__)
#define LS_INTERLEAVED_NARROW _Pragma("clang loop interleave_count(8)")
#else
#define LS_INTERLEAVED_NARROW LS_INTERLEAVED
#endif

/* The same for the second cache: rows that come after those at hand would take their place in the
 * first. */
LS_FN void ls_prefetch_rows(const void *from, i64 bytes) {
    for (i64 i = 0; i < bytes; i += 64) __builtin_prefetch((const char *)from + i, 0, 2);
}

/* Fetches lines for writing, by the last byte that is in each. Where the memory begins off a line's
 * boundary its first line is left out: that belongs to what lies before it as well. */
LS_FN void ls_own_lines(const void *to, i64 bytes) {
    for (i64 i = 0; i < bytes; i += 64)
        __builtin_prefetch((const char *)to + (i + 64 < bytes ? i + 64 : bytes) - 1, 1);
}

/* Lowers a value that other workers lower as well. */
#define LS_ADD_MIN(values, at, value) ls_lower(&(values)[at], value, workers)
LS_FN void ls_lower(i64 *least, i64 value, u32 workers) {
    if (workers == 1) {
        *least = value < *least ? value : *least;
        return;
    }
    i64 before = __atomic_load_n(least, __ATOMIC_RELAXED);
    while (value < before && !__atomic_compare_exchange_n(least, &before, value, 1,
                                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
}

/* Adds to a sum that other workers add to as well; alike in any order. What is lost (fixed.h) is
 * the least of all, and stays beyond all sums. */
#define LS_ADD(sums, at, value) ls_add_to(&(sums)[at], value, workers)
LS_FN void ls_add_to(i64 *sum, i64 value, u32 workers) {
    if (workers == 1)
        *sum = value == LS_FIXED_LOST ? value : (i64)((u64)*sum + (u64)value);
    else if (value == LS_FIXED_LOST)
        ls_lower(sum, value, workers);
    else
        __atomic_fetch_add(sum, value, __ATOMIC_RELAXED);
}

/* Results that go past the caches are made in blocks of 1024 in the nearest cache and sent off
 * whole. */
#if defined(__SSE2__)
typedef long long ls_line __attribute__((vector_size(16)));
#ifdef __clang__
#define LS_STORE_PAST(to, line) __builtin_nontemporal_store(line, to)
#else
#define LS_STORE_PAST(to, line) __builtin_ia32_movntdq(to, line)
#endif
LS_FN void ls_non_temporal(void *to, const void *from, i64 bytes) {
    const i64 head = ls_min((i64)((0 - (u64)to) & 63), bytes);
    __builtin_memcpy(to, from, (u64)head);
    ls_line *lines = (ls_line *)((char *)to + head);
    from = (const char *)from + head;
    for (bytes -= head; bytes >= 64; bytes -= 64, from = (const char *)from + 64, lines += 4) {
        ls_line line[4]; /* one cache line at a time */
        __builtin_memcpy(line, from, 64);
        LS_STORE_PAST(&lines[0], line[0]);
        LS_STORE_PAST(&lines[1], line[1]);
        LS_STORE_PAST(&lines[2], line[2]);
        LS_STORE_PAST(&lines[3], line[3]);
    }
    __builtin_memcpy(lines, from, (u64)bytes);
}
LS_FN void ls_non_temporal_end(void) {
    __builtin_ia32_sfence();
}
#else
LS_FN void ls_non_temporal(void *to, const void *from, i64 bytes) {
    __builtin_memcpy(to, from, (u64)bytes);
}
LS_FN void ls_non_temporal_end(void) {}
#endif
