/* vocabulary_test.c: cross entropy over a vocabulary that the ranks share out (ls_step_partition
 * along an axis of a matrix): losses and slopes have the bits of the whole, for rows with
 * infinities and NaN too, and with another number of rows. Ranks are processes. */
#include "fixtures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS_MAX = 8 };
static const char text[] =
    "step vocabulary[b, v](logits: f32[b, v], label: i64[b], out loss: f32[b], out all: f32,\n"
    "                      out d: f32[b, v]) {\n"
    "    let total = logsumexp[v](logits)\n"
    "    loss = total - sum[v](if index(v) == label then logits else 0.0)\n"
    "    all = mean[b](loss)\n"
    "    d = exp(logits - total) - (if index(v) == label then 1.0 else 0.0)\n"
    "}\n";

static void open_step(Fixture *f) {
    *f = (Fixture){0};
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &f->context));
    EXPECT_OK(f->context, ls_program_load_text(f->context, "vocabulary.step", text, sizeof text - 1,
                                               NULL, &f->program));
    EXPECT_OK(f->context, ls_step_create(f->program, "vocabulary", &f->step));
}

static uint32_t random_state;
static float draw(void) { /* of many magnitudes, so that orders differ */
    random_state = random_state * 1664525u + 1013904223u;
    const float value = (float)(int32_t)random_state * 0x1p-31f;
    return ldexpf(value, (int)(random_state >> 9 & 15) - 8);
}

enum { BATCH = 7, WORDS = 6000, ROWS_MAX = BATCH + 2 };

typedef struct Vocabulary {
    float logits[ROWS_MAX][WORDS], d[ROWS_MAX][WORDS], loss[ROWS_MAX], all;
    int64_t label[ROWS_MAX];
} Vocabulary;

static void make_logits(Vocabulary *v) {
    random_state = 5;
    for (int i = 0; i < ROWS_MAX; i++) {
        v->label[i] = (i * 1723) % WORDS;
        for (int k = 0; k < WORDS; k++) v->logits[i][k] = draw();
    }
    for (int k = 0; k < WORDS; k++) v->logits[2][k] = -INFINITY;
    for (int k = 0; k < 2048; k++) v->logits[3][k] = -INFINITY; /* two tiles of it */
    v->logits[4][1500] = INFINITY;
    v->logits[5][3] = NAN;
}

/* On columns first to first + count, of so many rows. */
static void run_vocabulary(Fixture *f, const Vocabulary *v, int64_t rows_now, int64_t first,
                           int64_t count, Vocabulary *result) {
    const int64_t shape[2] = {rows_now, count}, row_strides[2] = {count, 1};
    float *columns_of = calloc((size_t)(rows_now * count) + 1, sizeof *columns_of);
    void *logits, *label, *loss, *d;
    const size_t bytes = (size_t)(rows_now * count) * sizeof(float);
    for (int64_t i = 0; i < rows_now; i++)
        memcpy(columns_of + i * count, &v->logits[i][first], (size_t)count * sizeof(float));
    EXPECT_OK(f->context, ls_alloc(f->context, bytes + 1, &logits));
    EXPECT_OK(f->context, ls_alloc(f->context, bytes + 1, &d));
    EXPECT_OK(f->context, ls_alloc(f->context, sizeof v->label, &label));
    EXPECT_OK(f->context, ls_alloc(f->context, sizeof v->loss, &loss));
    EXPECT_OK(f->context, ls_copy_in(f->context, logits, columns_of, bytes));
    EXPECT_OK(f->context, ls_copy_in(f->context, label, v->label, sizeof v->label));
    const ls_tensor matrix = {logits, LS_F32, 2, shape, row_strides};
    const ls_tensor slope = {d, LS_F32, 2, shape, row_strides};
    const ls_tensor labels = tensor_of(label, LS_I64, 1, shape);
    const ls_tensor losses = tensor_of(loss, LS_F32, 1, shape);
    EXPECT_OK(f->context, ls_step_bind(f->step, "logits", &matrix));
    EXPECT_OK(f->context, ls_step_bind(f->step, "label", &labels));
    EXPECT_OK(f->context, ls_step_bind(f->step, "loss", &losses));
    EXPECT_OK(f->context, ls_step_bind(f->step, "d", &slope));
    EXPECT_OK(f->context, ls_step_launch(f->step));
    EXPECT_OK(f->context,
              ls_copy_out(f->context, result->loss, loss, (size_t)rows_now * sizeof(float)));
    EXPECT_OK(f->context, ls_copy_out(f->context, columns_of, d, bytes));
    EXPECT_OK(f->context, ls_step_get(f->step, "all", &result->all));
    EXPECT_OK(f->context, ls_synchronize(f->context));
    for (int64_t i = 0; i < rows_now; i++)
        memcpy(&result->d[i][first], columns_of + i * count, (size_t)count * sizeof(float));
    ls_free(f->context, logits);
    ls_free(f->context, label);
    ls_free(f->context, loss);
    ls_free(f->context, d);
    free(columns_of);
}

static int run_words(const Vocabulary *whole, const Vocabulary *more, int rank, int size,
                     const ls_comm_id *id) {
    static Vocabulary own;
    Fixture f;
    ls_comm *comm = NULL;
    ls_cut cuts[RANKS_MAX + 1];
    ls_partition_piece piece = {0, 0, 0};
    const int64_t words = WORDS;
    const ls_tensor tensor = tensor_of(NULL, LS_F32, 1, &words);
    const ls_comm_options options = {.rank = rank, .size = size, .id = id};
    bool same = true;
    open_step(&f);
    EXPECT_OK(f.context, ls_comm_create(f.context, "shm", &options, &comm));
    EXPECT_OK(NULL, ls_partition(&tensor, 1, NULL, size, cuts));
    ls_partition_run(&tensor, 1, cuts, rank, &piece);
    const ls_partition_parts parts = {
        .parameter = "logits", .axis = "v", .tensors = &tensor, .count = 1, .cuts = cuts};
    EXPECT_OK(f.context, ls_step_partition(f.step, comm, &parts));
    for (int round = 0; round < 2; round++) { /* of more rows, then */
        const Vocabulary *wanted = round ? more : whole;
        const int64_t count = round ? ROWS_MAX : BATCH;
        run_vocabulary(&f, whole, count, piece.first, piece.count, &own);
        same = same && memcmp(own.loss, wanted->loss, (size_t)count * sizeof(float)) == 0 &&
               memcmp(&own.all, &wanted->all, sizeof own.all) == 0;
        for (int64_t i = 0; i < count; i++)
            same = same && memcmp(&own.d[i][piece.first], &wanted->d[i][piece.first],
                                  (size_t)piece.count * sizeof(float)) == 0;
    }
    ls_step_destroy(f.step);
    f.step = NULL;
    ls_comm_destroy(comm);
    close_fixture(&f);
    return same ? 0 : 1;
}

static void vocabulary(void **state) {
    static Vocabulary whole, more;
    static const int sizes[] = {2, 3, 8};
    Fixture f;
    (void)state;
    make_logits(&whole);
    more = whole;
    open_step(&f);
    run_vocabulary(&f, &whole, BATCH, 0, WORDS, &whole);
    run_vocabulary(&f, &more, ROWS_MAX, 0, WORDS, &more);
    close_fixture(&f);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        pid_t processes[RANKS_MAX];
        ls_comm_id id;
        EXPECT_OK(NULL, ls_comm_id_create("shm", &id));
        fflush(NULL);
        for (int rank = 0; rank < sizes[k]; rank++) {
            processes[rank] = fork();
            assert_true(processes[rank] >= 0);
            if (processes[rank] > 0) continue;
            alarm(300);
            exit(run_words(&whole, &more, rank, sizes[k], &id));
        }
        for (int rank = 0; rank < sizes[k]; rank++) {
            int status = 0;
            assert_int_equal(waitpid(processes[rank], &status, 0), processes[rank]);
            assert_int_equal(status, 0);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(vocabulary)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
