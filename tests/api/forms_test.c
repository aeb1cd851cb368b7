/* forms_test.c: the forms of data parallelism, of one step from std/clip, with one result: every
 * rank with all states (plain), with a part of them (ZeRO-1), and with gradients that are sent as
 * they appear, from two buffers that are used again and again (ZeRO-2). Eight slots of gradients,
 * or six, whose sums are one tree whatever the form and the number of ranks, of which each has one,
 * two or four slots, or all. Ranks are processes. */
#include "fixtures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TENSORS = 5, RANKS_MAX = 8, STEPS = 3 };
typedef enum Form { PLAIN, ZERO_1, ZERO_2, FORMS } Form;
static int64_t lengths[TENSORS] = {3 * 1024 + 5, 7, 0, 5000, 40 * 1024};
static int64_t offsets[TENSORS + 1]; /* of tensors that begin on 64-byte boundaries */

typedef struct Rank {
    int rank, size;
    ls_comm_id id;
    Form form;
    int slots; /* of all ranks */
    ls_context *context;
    ls_comm *comm;
    ls_step *step;
    ls_tensor whole[TENSORS];
    ls_cut cuts[RANKS_MAX + 1];
    ls_partition_piece pieces[RANKS_MAX][TENSORS];
    size_t counts[RANKS_MAX];
    int64_t piece_lengths[TENSORS];
    float *p, *m, *v, *g, *bucket[2], *received[RANKS_MAX];
} Rank;

static void check(const Rank *r, ls_status status) {
    if (status == LS_OK) return;
    fprintf(stderr, "rank %d: %s\n", r->rank, ls_error_message(r->context));
    exit(3);
}

/* ---- gradients ---- */

static float slot_gradient(int step, int slot, int64_t element) {
    uint32_t x = (uint32_t)element * 2654435761u ^ (uint32_t)(step * 97 + slot) * 40503u;
    x = (x ^ x >> 15) * 2246822519u;
    return (float)(int32_t)(x ^ x >> 13) * 0x1p-31f * (float)(1 << (x & 7));
}

/* Neighbours first: the left branch has the largest power of two below `count`. */
static float slots_sum(int step, int first, int count, int64_t element) {
    int left = 1;
    if (count == 1) return slot_gradient(step, first, element);
    while (2 * left < count) left *= 2;
    return slots_sum(step, first, left, element) +
           slots_sum(step, first + left, count - left, element);
}

/* What this rank's slots come to, of one tensor. */
static void fill_gradient(const Rank *r, int step, size_t tensor, float *to) {
    const int own = r->slots / r->size;
    for (int64_t i = 0; i < lengths[tensor]; i++)
        to[i] = slots_sum(step, r->rank * own, own, offsets[tensor] + i);
}

/* ---- arrays ---- */

static float *array(float scale) {
    float *made = aligned_alloc(64, (size_t)offsets[TENSORS] * sizeof *made);
    if (!made) exit(3);
    for (int64_t i = 0; i < offsets[TENSORS]; i++) made[i] = scale * (float)(i % 13 - 6);
    return made;
}

/* The tensors of an array that has all; with `rank` those elements of them that it owns. */
static size_t place(const Rank *r, int rank, float *data, ls_comm_piece *pieces,
                    ls_tensor *tensors) {
    const size_t count = rank < 0 ? TENSORS : r->counts[rank];
    for (size_t i = 0; i < count; i++) {
        const ls_partition_piece all = {i, 0, lengths[i]};
        const ls_partition_piece *piece = rank < 0 ? &all : &r->pieces[rank][i];
        float *from = data + offsets[piece->tensor] + piece->first;
        const int64_t *length = rank < 0 ? &lengths[i] : &r->piece_lengths[i];
        if (pieces) pieces[i] = (ls_comm_piece){from, (uint64_t)piece->count * sizeof(float)};
        if (tensors) tensors[i] = (ls_tensor){from, LS_F32, 1, length, NULL};
    }
    return count;
}

static void bind(Rank *r) {
    const struct {
        const char *name;
        float *data;
    } lists[] = {{"p", r->p}, {"m", r->m}, {"v", r->v}};
    static ls_tensor tensors[RANKS_MAX][TENSORS];
    const int of = r->form == PLAIN ? -1 : r->rank;
    const ls_tensor *parts[RANKS_MAX];
    size_t count = 0;
    for (int k = 0; k < r->size; k++) {
        count = place(r, of, r->received[k], NULL, tensors[k]);
        parts[k] = tensors[k];
    }
    check(r, ls_step_bind_sum_list(r->step, "g", parts, (size_t)r->size, count));
    const ls_partition_parts whole = {.tensors = r->whole, .count = TENSORS, .cuts = r->cuts};
    if (r->form != PLAIN) check(r, ls_step_partition(r->step, r->comm, &whole));
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        ls_tensor list[TENSORS];
        const size_t pieces = place(r, of, lists[i].data, NULL, list);
        check(r, ls_step_bind_list(r->step, lists[i].name, list, pieces));
    }
}

static void open_rank(Rank *r) {
    ls_program *program;
    const ls_comm_options options = {.rank = r->rank, .size = r->size, .id = &r->id};
    check(r, ls_context_create("cpu", NULL, &r->context));
    check(r, ls_comm_create(r->context, "shm", &options, &r->comm));
    check(r, ls_program_load(r->context, "std/clip", NULL, &program));
    check(r, ls_step_create(program, "clipped_adamw", &r->step));
    ls_program_destroy(program);
    for (size_t t = 0; t < TENSORS; t++)
        r->whole[t] = (ls_tensor){NULL, LS_F32, 1, &lengths[t], NULL};
    check(r, ls_partition(r->whole, TENSORS, NULL, r->size, r->cuts));
    for (int k = 0; k < r->size; k++)
        r->counts[k] = ls_partition_run(r->whole, TENSORS, r->cuts, k, r->pieces[k]);
    for (size_t i = 0; i < r->counts[r->rank]; i++)
        r->piece_lengths[i] = r->pieces[r->rank][i].count;
    r->p = array(0.01f);
    r->m = array(0);
    r->v = array(0);
    r->g = array(0);
    r->bucket[0] = array(0);
    r->bucket[1] = array(0);
    for (int k = 0; k < r->size; k++) r->received[k] = array(0);
    bind(r);
}

/* ---- the exchange of each form, into `received` ---- */

static void gather_all(Rank *r, float *const *data, bool own_only) {
    ls_comm_piece pieces[RANKS_MAX][TENSORS];
    ls_comm_part parts[RANKS_MAX];
    for (int k = 0; k < r->size; k++)
        parts[k] = (ls_comm_part){pieces[k], place(r, own_only ? k : -1, data[k], pieces[k], NULL)};
    check(r, ls_comm_all_gather(r->comm, parts));
}

/* The elements of tensors from `first` to before `last` to the ranks that own them. `from` begins
 * with tensor `base`. */
static void send_owned(Rank *r, float *from, size_t base, size_t last, bool begins) {
    ls_comm_piece out[RANKS_MAX][TENSORS], in[RANKS_MAX][TENSORS];
    ls_comm_part send[RANKS_MAX], receive[RANKS_MAX];
    for (int k = 0; k < r->size; k++) {
        send[k] = (ls_comm_part){out[k], 0};
        receive[k] = (ls_comm_part){in[k], 0};
        for (size_t i = 0; i < r->counts[k]; i++) {
            const ls_partition_piece *piece = &r->pieces[k][i];
            if (piece->tensor < base || piece->tensor >= last) continue;
            float *at = from + offsets[piece->tensor] - offsets[base] + piece->first;
            out[k][send[k].count++] = (ls_comm_piece){at, (uint64_t)piece->count * sizeof(float)};
        }
        for (size_t i = 0; i < r->counts[r->rank]; i++) {
            const ls_partition_piece *piece = &r->pieces[r->rank][i];
            if (piece->tensor < base || piece->tensor >= last) continue;
            in[k][receive[k].count++] =
                (ls_comm_piece){r->received[k] + offsets[piece->tensor] + piece->first,
                                (uint64_t)piece->count * sizeof(float)};
        }
    }
    check(r, begins ? ls_comm_begin_all_to_all(r->comm, send, receive)
                    : ls_comm_all_to_all(r->comm, send, receive));
}

static void exchange(Rank *r, int step) {
    if (r->form == PLAIN) {
        for (size_t t = 0; t < TENSORS; t++)
            fill_gradient(r, step, t, r->received[r->rank] + offsets[t]);
        gather_all(r, r->received, false);
    } else if (r->form == ZERO_1) {
        for (size_t t = 0; t < TENSORS; t++) fill_gradient(r, step, t, r->g + offsets[t]);
        send_owned(r, r->g, 0, TENSORS, false);
    } else {
        for (size_t t = TENSORS; t-- > 0;) { /* backwards, one bucket on its way */
            fill_gradient(r, step, t, r->bucket[t % 2]);
            check(r, ls_comm_wait(r->comm));
            send_owned(r, r->bucket[t % 2], t, t + 1, true);
        }
        check(r, ls_comm_wait(r->comm));
    }
}

/* ---- ranks ---- */

static uint64_t run_rank(Rank *r) {
    float *weights[RANKS_MAX];
    uint64_t hash = 0xcbf29ce484222325u;
    open_rank(r);
    for (int k = 0; k < r->size; k++) weights[k] = r->p;
    for (int step = 0; step < STEPS; step++) {
        exchange(r, step);
        check(r, ls_step_launch(r->step));
        if (r->form != PLAIN) gather_all(r, weights, true);
    }
    for (size_t t = 0; t < TENSORS; t++) {
        const unsigned char *bytes = (const unsigned char *)(r->p + offsets[t]);
        for (size_t i = 0; i < (size_t)lengths[t] * sizeof(float); i++)
            hash = (hash ^ bytes[i]) * 0x100000001b3u;
    }
    ls_step_destroy(r->step);
    ls_comm_destroy(r->comm);
    ls_context_destroy(r->context);
    return hash;
}

/* The hash of the weights that all ranks have. */
static uint64_t run_form(Form form, int size, int slots) {
    uint64_t *hashes = mmap(NULL, RANKS_MAX * sizeof *hashes, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    Rank rank = {.size = size, .form = form, .slots = slots};
    assert_true(hashes != MAP_FAILED);
    EXPECT_OK(NULL, ls_comm_id_create("shm", &rank.id));
    fflush(NULL);
    for (rank.rank = 0; rank.rank < size; rank.rank++) {
        if (fork() != 0) continue;
        alarm(300);
        hashes[rank.rank] = run_rank(&rank);
        _exit(0);
    }
    for (int k = 0, status; k < size; k++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    for (int k = 1; k < size; k++) assert_true(hashes[k] == hashes[0]);
    const uint64_t hash = hashes[0];
    munmap(hashes, RANKS_MAX * sizeof *hashes);
    return hash;
}

static void one_result(void **state) {
    static const struct {
        Form form;
        int size, slots;
    } rows[] = {{PLAIN, 2, 8},  {PLAIN, 8, 8},  {ZERO_1, 2, 8}, {ZERO_1, 4, 8},
                {ZERO_2, 2, 8}, {ZERO_2, 4, 8}, {ZERO_1, 3, 6}};
    (void)state;
    const uint64_t eight = run_form(PLAIN, 1, 8), six = run_form(PLAIN, 1, 6);
    assert_true(eight != 0 && six != 0 && six != eight);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (run_form(rows[i].form, rows[i].size, rows[i].slots) !=
            (rows[i].slots == 8 ? eight : six))
            fail_msg("form %d of %d ranks has another result", rows[i].form, rows[i].size);
    /* Three slots of a rank are no subtree. */
    assert_true(run_form(ZERO_1, 2, 6) != six);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_result)};
    for (size_t t = 0; t < TENSORS; t++) offsets[t + 1] = offsets[t] + (lengths[t] + 15) / 16 * 16;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
