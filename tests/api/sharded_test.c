/* sharded_test.c: steps that are written over whole tensors, on parts of them (ls_step_partition):
 * every array and value has the bits of the step on the whole, for any number of ranks, cut within
 * tensors and between them; in graphs; what is refused, with the reason. Ranks are processes of
 * this machine. */
#include "fixtures.h"
#include "sharded.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TENSORS = 8, LAUNCHES = 3, RANKS_MAX = 8, ARRAYS_MAX = 16 * TENSORS, SUMS = 4 };
static const int64_t rows[TENSORS] = {50, 1, 0, 65, 1, 100, 1024, 40};
static const int64_t columns[TENSORS] = {30, 7, 4, 40, 1024, 51, 3, 64};

static const char fixed_text[] =
    "import \"std/optim\"\n"
    "import \"std/clip\"\n"
    "import \"std/amp\"\n"
    "import \"std/ema\"\n"
    "step rounded[t, n of t](inout p: bf16[t, n], g: f32[t, n], inout count: i32 = 0) {\n"
    "    count += 1\n"
    "    p = bf16_stochastic(p - 0.1 * g + 0.01 * normal(3, count), bits(5, count))\n"
    "}\n"
    "step places[t, n of t](inout p: f32[t, n], out at: i64[t, n], out of: f32[t, n],\n"
    "                       out longest: i64, out mean_of: f32[t], out largest: f32) {\n"
    "    at = index(n) + 1000 * index(t)\n"
    "    of = f32(index(n)) / f32(size(n))\n"
    "    longest = max[t](size(n))\n"
    "    mean_of = mean[n](p)\n"
    "    largest = max[t, n](p)\n"
    "    p *= if index(n) == size(n) - 1 then 2.0 else 1.0\n"
    "}\n"
    "step chained[t, n of t](inout p: f32[t, n], g: f32[t, n], scale: f32[t], out all: f32,\n"
    "                        out each: f32[t], out fine: bool, out total: f64) {\n"
    "    all = norm[t, n](g)\n"
    "    let d = g / (1.0 + all)\n"
    "    each = norm[n](d - scale * p)\n"
    "    fine = all[t, n](isfinite(d)) and any[t](each > 0.0)\n"
    "    let u = d * each\n"
    "    total = sum[t, n](f64(u))\n"
    "    p -= f32(total) * u + prod[t](1.0 + 0.001 * sqrt(each))\n"
    "}\n"
    "step rows_of[t, r of t, c of t](inout p: f32[t, r, c], inout m: f32[t, r], g: f32[t, r, c],\n"
    "                                out worst: f32, out each: f32[t], out cells: i64) {\n"
    "    m = lerp(m, mean[c](g), 0.5)\n"
    "    each = max[r](abs(m))\n"
    "    worst = max[t](sqrt(each))\n"
    "    cells = sum[t](size(r) * size(c))\n"
    "    p -= worst * (g - m) / (1.0 + each)\n"
    "}\n"
    "step softest[t, n of t](inout p: f32[t, n], g: f32[t, n], out each: f32[t]) {\n"
    "    each = logsumexp[n](g)\n"
    "    p -= exp(g - each)\n"
    "}\n"
    "step alone[n](inout p: f32[n], g: f32[n], out length: f32) {\n"
    "    length = norm[n](g)\n"
    "    p -= g / (1.0 + length) + f32(index(n)) * uniform(7, 3)\n"
    "}\n"
    "step scans[t, n of t](inout p: f32[t, n]) {\n"
    "    p = cumsum[n](p)\n"
    "}\n"
    "step gathers[t, n of t](inout p: f32[t, n], g: f32[t, n]) {\n"
    "    p = g[t, size(n) - 1 - n]\n"
    "}\n"
    "step finds[t, n of t](inout p: f32[t, n], out at: i64[t], out least: i64[t], out of: i64) {\n"
    "    at = argmax[n](round(0.1 * p))\n"
    "    least = argmin[n](sqrt(p + 100.0))\n"
    "    of = argmin[t](max[n](p))\n"
    "    p -= f32(at - least) + f32(of)\n"
    "}\n"
    "step blocks[t, n of t as (q, k = 256)](inout p: f32[t, n], out scale: f32[t, q],\n"
    "                                       out all: f32) {\n"
    "    scale = max[k](abs(p))\n"
    "    all = sum[t, n](p)\n"
    "}\n"
    "step loop[t, n of t, i](inout p: f32[t, n]) {\n"
    "    for i {\n"
    "        p = p + 1.0\n"
    "    }\n"
    "}\n";

/* ---- a step's arrays ---- */

typedef struct Piece { /* of one tensor of one parameter, or an array that is whole */
    uint32_t parameter;
    size_t tensor;
    uint32_t rank;
    int64_t shape[2];
    uint64_t first, bytes; /* of the whole tensor's */
    bool cut;
    void *device;
} Piece;

typedef struct Whole { /* what the step on whole tensors began with and gave */
    char *initial[ARRAYS_MAX], *result[ARRAYS_MAX];
    uint64_t bytes[ARRAYS_MAX], scalars[64];
} Whole;

typedef struct Case {
    const char *step;
    bool within, between;
    bool sum; /* of its g */
} Case;

static uint32_t random_state;
static float draw(void) { /* of many magnitudes, so that orders differ */
    random_state = random_state * 1664525u + 1013904223u;
    const float value = (float)(int32_t)random_state * 0x1p-31f;
    return ldexpf(value, (int)(random_state >> 9 & 15) - 8);
}

static uint16_t to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void fill(const ls_image_parameter *row, char *data, uint64_t bytes) {
    const bool positive = strchr("vr", row->name[0]) || strcmp(row->name, "col") == 0;
    const size_t size = ls_type_size(row->type);
    for (uint64_t at = 0; at < bytes; at += size) {
        const float value = positive ? fabsf(draw()) : draw();
        const uint16_t half =
            row->type == LS_F16 ? (uint16_t)(random_state >> 18 & 0xbbff) : to_bf16(value);
        const uint8_t byte = (uint8_t)(random_state >> 21 & (row->type == LS_BOOL ? 1 : 0x77));
        if (row->type == LS_F32)
            memcpy(data + at, &value, sizeof value);
        else if (size == 2)
            memcpy(data + at, &half, sizeof half);
        else
            data[at] = (char)byte;
    }
}

/* How many elements an axis of that name has in a tensor; *unit: of so many of `n` each. */
static int64_t length_of(const ls_image *image, uint32_t axis, size_t tensor, int64_t *unit) {
    const ls_image_axis *row = &image->axes[axis];
    *unit = 0;
    if (strcmp(row->name, "t") == 0) return TENSORS;
    if (strcmp(row->name, "r") == 0) return rows[tensor];
    if (strcmp(row->name, "c") == 0) return columns[tensor];
    *unit = row->whole && row->length > 0 ? row->length : 1;
    return (rows[tensor] * columns[tensor] + *unit - 1) / *unit;
}

static bool is_list(const ls_image *image, const ls_image_parameter *row) {
    return row->rank > 1 && strcmp(image->axes[row->axes[0]].name, "t") == 0;
}

static bool is_one(const ls_image *image, const ls_image_parameter *row) { /* n without a list */
    return row->rank == 1 && strcmp(image->axes[row->axes[0]].name, "n") == 0;
}

enum { ALONE = 5 }; /* the tensor of a step without lists */

/* What of a parameter is in one piece of the list; NULL: the whole tensor. */
static Piece piece_of(const ls_image *image, uint32_t parameter, size_t tensor,
                      const ls_partition_piece *part) {
    const ls_image_parameter *row = &image->parameters[parameter];
    Piece piece = {.parameter = parameter, .tensor = tensor, .bytes = ls_type_size(row->type)};
    const uint32_t from = is_list(image, row) ? 1 : 0;
    piece.cut = is_list(image, row) || is_one(image, row);
    piece.rank = row->rank - from;
    for (uint32_t k = from; k < row->rank; k++) {
        int64_t unit, length = length_of(image, row->axes[k], tensor, &unit);
        if (unit && part) {
            piece.first = (uint64_t)(part->first / unit) * ls_type_size(row->type);
            length = (part->count + unit - 1) / unit;
        }
        piece.shape[k - from] = length;
        piece.bytes *= (uint64_t)length;
    }
    return piece;
}

/* All arrays of the step, of the pieces that a rank has (NULL: of the whole). */
static size_t pieces_of(const ls_image *image, const ls_partition_piece *parts, size_t count,
                        Piece *pieces) {
    size_t made = 0;
    for (uint32_t i = 0; i < image->parameter_count; i++) {
        const ls_image_parameter *row = &image->parameters[i];
        if (row->rank == 0) continue;
        if (!is_list(image, row)) {
            const bool one = is_one(image, row);
            const ls_partition_piece none = {0, 0, 0};
            const ls_partition_piece *part = !one || !parts ? NULL : count ? parts : &none;
            pieces[made++] = piece_of(image, i, ALONE, part);
            continue;
        }
        for (size_t k = 0; k < (parts ? count : TENSORS); k++)
            pieces[made++] =
                piece_of(image, i, parts ? parts[k].tensor : k, parts ? &parts[k] : NULL);
    }
    return made;
}

static size_t number_of(const Piece *piece) {
    return piece->parameter * TENSORS + (piece->rank ? piece->tensor : 0);
}

/* ---- running it ---- */

typedef struct Run {
    Fixture f;
    const ls_image *image;
    Piece pieces[ARRAYS_MAX];
    size_t count;
} Run;

static const char *program = fixed_text;

static void open_run(Run *run, const Case *c) {
    *run = (Run){.count = 0};
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &run->f.context));
    EXPECT_OK(run->f.context, ls_program_load_text(run->f.context, "sharded.step", program,
                                                   strlen(program), NULL, &run->f.program));
    EXPECT_OK(run->f.context, ls_step_create(run->f.program, c->step, &run->f.step));
    run->image = ls_step_image(run->f.step);
}

static void close_run(Run *run) {
    for (size_t i = 0; i < run->count; i++) ls_free(run->f.context, run->pieces[i].device);
    close_fixture(&run->f);
}

static void allocate(Run *run, const Whole *whole) {
    for (size_t i = 0; i < run->count; i++) {
        Piece *piece = &run->pieces[i];
        EXPECT_OK(run->f.context,
                  ls_alloc(run->f.context, piece->bytes ? piece->bytes : 1, &piece->device));
        EXPECT_OK(run->f.context,
                  ls_copy_in(run->f.context, piece->device,
                             whole->initial[number_of(piece)] + piece->first, piece->bytes));
    }
}

/* Of a sum, `g` is the first of them, and the others are it as well. */
static void bind(Run *run, const Case *c) {
    ls_tensor tensors[TENSORS];
    const ls_tensor *parts[SUMS] = {tensors, tensors, tensors, tensors};
    const ls_image *image = run->image;
    for (size_t i = 0, next; i < run->count; i = next) {
        const ls_image_parameter *row = &image->parameters[run->pieces[i].parameter];
        for (next = i; next < run->count && run->pieces[next].parameter == run->pieces[i].parameter;
             next++)
            tensors[next - i] = tensor_of(run->pieces[next].device, row->type,
                                          run->pieces[next].rank, run->pieces[next].shape);
        ls_status status;
        if (c->sum && strcmp(row->name, "g") == 0)
            status = ls_step_bind_sum_list(run->f.step, "g", parts, SUMS, next - i);
        else if (is_list(image, row))
            status = ls_step_bind_list(run->f.step, row->name, tensors, next - i);
        else
            status = ls_step_bind(run->f.step, row->name, tensors);
        EXPECT_OK(run->f.context, status);
    }
    for (uint32_t i = 0; i < image->parameter_count; i++) /* a list that a rank has nothing of */
        if (is_list(image, &image->parameters[i])) {
            bool found = false;
            for (size_t k = 0; k < run->count; k++) found |= run->pieces[k].parameter == i;
            const char *name = image->parameters[i].name;
            if (found) continue;
            if (c->sum && strcmp(name, "g") == 0)
                EXPECT_OK(run->f.context, ls_step_bind_sum_list(run->f.step, name, parts, SUMS, 0));
            else
                EXPECT_OK(run->f.context, ls_step_bind_list(run->f.step, name, NULL, 0));
        }
    for (uint32_t i = 0; i < image->parameter_count; i++)
        if (image->parameters[i].rank == 0 && !image->parameters[i].has_default &&
            image->parameters[i].role != LS_OUT)
            EXPECT_OK(run->f.context,
                      ls_step_set_number(run->f.step, image->parameters[i].name,
                                         image->parameters[i].type == LS_BOOL ? 0 : 0.25));
}

static void make_whole(const Case *c, Whole *whole) {
    Run run;
    *whole = (Whole){.scalars = {0}};
    open_run(&run, c);
    run.count = pieces_of(run.image, NULL, 0, run.pieces);
    random_state = 11;
    for (size_t i = 0; i < run.count; i++) {
        const Piece *piece = &run.pieces[i];
        const size_t number = number_of(piece);
        whole->bytes[number] = piece->bytes;
        whole->initial[number] = calloc(1, piece->bytes + 1);
        whole->result[number] = calloc(1, piece->bytes + 1);
        if (run.image->parameters[piece->parameter].role != LS_OUT)
            fill(&run.image->parameters[piece->parameter], whole->initial[number], piece->bytes);
    }
    allocate(&run, whole);
    bind(&run, c);
    for (int i = 0; i < LAUNCHES; i++) EXPECT_OK(run.f.context, ls_step_launch(run.f.step));
    for (size_t i = 0; i < run.count; i++)
        EXPECT_OK(run.f.context,
                  ls_copy_out(run.f.context, whole->result[number_of(&run.pieces[i])],
                              run.pieces[i].device, run.pieces[i].bytes));
    for (uint32_t i = 0; i < run.image->parameter_count; i++)
        if (run.image->parameters[i].rank == 0)
            EXPECT_OK(run.f.context,
                      ls_step_get(run.f.step, run.image->parameters[i].name, &whole->scalars[i]));
    EXPECT_OK(run.f.context, ls_synchronize(run.f.context));
    close_run(&run);
}

static void free_whole(Whole *whole) {
    for (size_t i = 0; i < ARRAYS_MAX; i++) {
        free(whole->initial[i]);
        free(whole->result[i]);
    }
}

static void find_tensors(const Run *run, ls_tensor tensors[TENSORS], int64_t shapes[TENSORS][2],
                         size_t *count) {
    const bool flat = strcmp(run->image->axes[run->image->axis_count - 1].name, "c") != 0;
    *count = TENSORS;
    for (size_t t = 0; t < TENSORS; t++) {
        shapes[t][0] = flat ? rows[t] * columns[t] : rows[t];
        shapes[t][1] = columns[t];
        tensors[t] = tensor_of(NULL, LS_F32, flat ? 1 : 2, shapes[t]);
    }
    if (!is_one(run->image, &run->image->parameters[0])) return;
    tensors[0] = tensors[ALONE];
    *count = 1;
}

/* ---- a rank ---- */

typedef struct Rank {
    int rank, size;
    ls_comm_id id;
    const Case *step;
    const Whole *whole;
    bool within, graph;
} Rank;

static bool compare(Run *run, const Rank *rank) {
    char *host = malloc(1 << 20);
    bool same = true;
    for (size_t i = 0; i < run->count && same; i++) {
        const Piece *piece = &run->pieces[i];
        EXPECT_OK(run->f.context, ls_copy_out(run->f.context, host, piece->device, piece->bytes));
        same =
            memcmp(host, rank->whole->result[number_of(piece)] + piece->first, piece->bytes) == 0;
        if (!same)
            fprintf(stderr, "%s, rank %d of %d, %s: `%s` of tensor %zu differs\n", rank->step->step,
                    rank->rank, rank->size, rank->within ? "within" : "between",
                    run->image->parameters[piece->parameter].name, piece->tensor);
    }
    for (uint32_t i = 0; i < run->image->parameter_count && same; i++) {
        uint64_t value = 0;
        if (run->image->parameters[i].rank > 0) continue;
        EXPECT_OK(run->f.context, ls_step_get(run->f.step, run->image->parameters[i].name, &value));
        same = value == rank->whole->scalars[i];
        if (!same)
            fprintf(stderr, "%s, rank %d of %d, %s: `%s` differs\n", rank->step->step, rank->rank,
                    rank->size, rank->within ? "within" : "between",
                    run->image->parameters[i].name);
    }
    if (!same && program != fixed_text) fputs(program, stderr);
    free(host);
    return same;
}

/* What a rank keeps of the arrays that are cut is 1/N of them, off by less than what lies between
 * two places where a tensor may be cut: its whole, or 1024 elements. */
static bool keeps_its_share(const Run *run, const Rank *rank) {
    uint64_t own = 0, all = 0, most = 0, between[TENSORS] = {0};
    for (size_t i = 0; i < run->count; i++)
        if (run->pieces[i].cut && run->image->parameters[run->pieces[i].parameter].role == LS_INOUT)
            own += run->pieces[i].bytes;
    for (uint32_t i = 0; i < run->image->parameter_count; i++)
        for (size_t t = 0; t < TENSORS; t++) {
            const ls_image_parameter *row = &run->image->parameters[i];
            const uint64_t bytes = rank->whole->bytes[i * TENSORS + t];
            const uint64_t elements = (uint64_t)(rows[t] * columns[t]);
            if (row->role != LS_INOUT || !(is_list(run->image, row) || is_one(run->image, row)))
                continue;
            all += bytes;
            between[t] += rank->within && elements > 1024 ? bytes * 1024 / elements : bytes;
        }
    for (size_t t = 0; t < TENSORS; t++) most = between[t] > most ? between[t] : most;
    const double off = fabs((double)own - (double)all / rank->size);
    if (off > (double)most)
        fprintf(stderr, "%s, rank %d of %d: has %llu of %llu bytes, off by more than %llu\n",
                rank->step->step, rank->rank, rank->size, (unsigned long long)own,
                (unsigned long long)all, (unsigned long long)most);
    return off <= (double)most;
}

/* What is exchanged is memory of the step: of `alone` the sums of its tiles, beside temporaries of
 * whole 256 bytes. */
static bool counts_exchanges(const Run *run, const Rank *rank) {
    const uint64_t tiles = (uint64_t)(rows[ALONE] * columns[ALONE] + 1023) / 1024;
    ls_step_statistics statistics;
    EXPECT_OK(run->f.context, ls_step_stats(run->f.step, &statistics));
    if (strcmp(rank->step->step, "alone") != 0 || rank->size == 1) return true;
    return statistics.launches == 2 && statistics.temporary_bytes % 256 == tiles * sizeof(float);
}

static void launch(Run *run, const Rank *rank) {
    ls_context *context = run->f.context;
    ls_graph *graph = NULL;
    if (!rank->graph) {
        for (int i = 0; i < LAUNCHES; i++) EXPECT_OK(context, ls_step_launch(run->f.step));
        return;
    }
    EXPECT_OK(context, ls_step_prepare(run->f.step));
    EXPECT_OK(context, ls_graph_begin(context));
    EXPECT_OK(context, ls_step_launch(run->f.step));
    EXPECT_OK(context, ls_graph_end(context, &graph));
    EXPECT_OK(context, ls_graph_launch(graph));
    EXPECT_OK(context, ls_graph_update(graph));
    EXPECT_OK(context, ls_graph_repeat(graph, LAUNCHES - 1));
    EXPECT_OK(context, ls_synchronize(context));
    ls_graph_destroy(graph);
}

static int run_rank(const Rank *rank) {
    Run run;
    ls_comm *comm = NULL;
    ls_tensor tensors[TENSORS];
    int64_t shapes[TENSORS][2], units[TENSORS];
    ls_cut cuts[RANKS_MAX + 1];
    ls_partition_piece pieces[TENSORS];
    size_t count;
    open_run(&run, rank->step);
    const ls_comm_options options = {.rank = rank->rank, .size = rank->size, .id = &rank->id};
    EXPECT_OK(run.f.context, ls_comm_create(run.f.context, "shm", &options, &comm));
    find_tensors(&run, tensors, shapes, &count);
    for (size_t t = 0; t < TENSORS; t++) units[t] = rank->within ? 1024 : 0;
    EXPECT_OK(NULL, ls_partition(tensors, count, units, rank->size, cuts));
    const size_t own = ls_partition_run(tensors, count, cuts, rank->rank, pieces);
    if (rank->step->sum) { /* which arrays these are is known once there are some */
        const ls_tensor none = tensor_of(NULL, LS_F32, 1, &(int64_t){0});
        const ls_tensor *parts[SUMS] = {&none, &none, &none, &none};
        EXPECT_OK(run.f.context, ls_step_bind_sum_list(run.f.step, "g", parts, SUMS, 1));
    }
    const ls_partition_parts parts = {
        .parameter = count == 1 ? "p" : NULL, .tensors = tensors, .count = count, .cuts = cuts};
    EXPECT_OK(run.f.context, ls_step_partition(run.f.step, comm, &parts));
    run.count = pieces_of(run.image, pieces, own, run.pieces);
    allocate(&run, rank->whole);
    bind(&run, rank->step);
    launch(&run, rank);
    const bool same =
        compare(&run, rank) && keeps_its_share(&run, rank) && counts_exchanges(&run, rank);
    ls_step_destroy(run.f.step);
    run.f.step = NULL;
    ls_comm_destroy(comm);
    close_run(&run);
    return same ? 0 : 1;
}

static void run_ranks(const Case *c, const Whole *whole, int size, bool within, bool graph) {
    Rank rank = {.size = size, .step = c, .whole = whole, .within = within, .graph = graph};
    pid_t processes[RANKS_MAX];
    EXPECT_OK(NULL, ls_comm_id_create("shm", &rank.id));
    fflush(NULL);
    for (int k = 0; k < size; k++) {
        processes[k] = fork();
        assert_true(processes[k] >= 0);
        if (processes[k] > 0) continue;
        rank.rank = k;
        alarm(300);
        exit(run_rank(&rank));
    }
    int failed = 0;
    for (int k = 0; k < size; k++) {
        int status = 0;
        assert_int_equal(waitpid(processes[k], &status, 0), processes[k]);
        failed += status != 0;
    }
    assert_int_equal(failed, 0);
}

static const Case cases[] = {
    {"adamw", true, true, false},
    {"lamb", true, true, false},
    {"lars_grouped", true, true, false},
    {"clipped_adamw", true, true, false},
    {"clip_each", true, true, false},
    {"amp_adamw", true, true, false},
    {"adafactor_vector", true, true, false},
    {"adafactor", false, true, false},
    {"adamw_8bit", true, true, false},
    {"lion_fp8", true, false, false},
    {"clip_adaptive", false, true, false},
    {"rounded", true, true, false},
    {"places", true, true, false},
    {"chained", true, true, false},
    {"rows_of", false, true, false},
    {"softest", true, true, false},
    {"alone", true, false, false},
    {"finds", true, true, false},
    {"chained", true, true, true},
};

/* Each case has all numbers of ranks on the CPU; on an emulated device, which takes longer, every
 * other one, so that half of the cases have 1 and 3 ranks, and the others 2 and 8. */
#ifdef API_DEVICE
enum { SIZE_STEP = 2 };
#else
enum { SIZE_STEP = 1 };
#endif

static void same_bits(void **state) {
    static const int sizes[] = {1, 2, 3, 8};
    const char *only = getenv("SHARDED_ONLY");
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Whole whole;
        if (only && strcmp(only, cases[i].step) != 0) continue;
        make_whole(&cases[i], &whole);
        for (size_t k = i % SIZE_STEP; k < sizeof sizes / sizeof *sizes; k += SIZE_STEP) {
            const bool graph = k / SIZE_STEP % 2;
            if (cases[i].within) run_ranks(&cases[i], &whole, sizes[k], true, graph);
            if (cases[i].between) run_ranks(&cases[i], &whole, sizes[k], false, !graph);
        }
        free_whole(&whole);
    }
}

/* ---- random programs ---- */

enum { PROGRAMS = 4 };

static float value_of(const ls_image_parameter *row, const char *data, uint64_t element) {
    float value = 0;
    if (row->type == LS_F32) memcpy(&value, data + 4 * element, 4);
    if (row->type == LS_BF16) memcpy((char *)&value + 2, data + 2 * element, 2);
    if (row->type == LS_BOOL) value = data[element];
    return value;
}

/* Bits, but that one NaN is as good as another. */
static bool is_same(const ls_image_parameter *row, const char *data, const char *other,
                    uint64_t bytes) {
    const size_t size = ls_type_size(row->type);
    for (uint64_t i = 0; i < bytes / size; i++)
        if (memcmp(data + i * size, other + i * size, size) != 0 &&
            !(isnan(value_of(row, data, i)) && isnan(value_of(row, other, i))))
            return false;
    return true;
}

/* The step on whole arrays has the bits of the interpreter. */
static void compare_with_interpreter(const Case *c, const Whole *whole) {
    static char *values[SHARDED_PARAMETERS * TENSORS];
    static int64_t lengths[TENSORS];
    uint64_t scalars[SHARDED_PARAMETERS] = {0};
    const float number = 0.25f;
    Run run;
    open_run(&run, c);
    const ls_image *image = run.image;
    assert_true(image->parameter_count <= SHARDED_PARAMETERS);
    for (size_t t = 0; t < TENSORS; t++) lengths[t] = rows[t] * columns[t];
    for (size_t i = 0; i < image->parameter_count * TENSORS; i++) {
        values[i] = calloc(1, whole->bytes[i] + 1);
        if (whole->initial[i]) memcpy(values[i], whole->initial[i], whole->bytes[i]);
    }
    void *data[SHARDED_PARAMETERS], **of[SHARDED_PARAMETERS];
    for (uint32_t i = 0; i < image->parameter_count; i++) {
        const ls_image_parameter *row = &image->parameters[i];
        of[i] = (void **)&values[i * TENSORS];
        data[i] = row->rank == 0 ? &scalars[i] : row->rank == 1 ? of[i][ALONE] : (void *)of[i];
        if (row->rank == 0 && row->role != LS_OUT) memcpy(&scalars[i], &number, sizeof number);
    }
    assert_true(sharded_interpret(program, TENSORS, lengths, data, LAUNCHES));
    for (uint32_t i = 0; i < image->parameter_count; i++) {
        const ls_image_parameter *row = &image->parameters[i];
        bool same =
            row->rank > 0 || is_same(row, (const char *)&scalars[i],
                                     (const char *)&whole->scalars[i], ls_type_size(row->type));
        for (size_t t = 0; t < TENSORS && row->rank > 0; t++)
            same &= is_same(row, values[i * TENSORS + t], whole->result[i * TENSORS + t],
                            whole->bytes[i * TENSORS + t]);
        if (!same) fprintf(stderr, "`%s` is not the interpreter's:\n%s", row->name, program);
        assert_true(same);
    }
    for (size_t i = 0; i < image->parameter_count * TENSORS; i++) free(values[i]);
    close_run(&run);
}

/* SHARDED_PROGRAMS=100 for more of them. */
static void random_programs(void **state) {
    static const Case random = {"random", true, true, false};
    static char text[SHARDED_TEXT];
    const char *wanted = getenv("SHARDED_PROGRAMS");
    const int programs = wanted ? atoi(wanted) : PROGRAMS;
    (void)state;
    for (int i = 0; i < programs; i++) {
        Whole whole;
        sharded_random(text, (uint32_t)i);
        program = text;
        make_whole(&random, &whole);
        compare_with_interpreter(&random, &whole);
        run_ranks(&random, &whole, 2 + i % 3, i % 4 != 3, i % 2 == 1);
        free_whole(&whole);
    }
    program = fixed_text;
}

/* ---- what is refused ---- */

typedef struct Refusal {
    const char *step, *words[2];
    bool within;
} Refusal;

static ls_status partition_two(Run *run, ls_comm *comm, const char *parameter, bool within) {
    ls_tensor tensors[TENSORS];
    int64_t shapes[TENSORS][2], units[TENSORS];
    ls_cut cuts[3];
    size_t count;
    find_tensors(run, tensors, shapes, &count);
    for (size_t t = 0; t < TENSORS; t++) units[t] = within ? 1024 : 0;
    EXPECT_OK(NULL, ls_partition(tensors, count, units, 2, cuts));
    const ls_partition_parts parts = {
        .parameter = parameter, .tensors = tensors, .count = count, .cuts = cuts};
    return ls_step_partition(run->f.step, comm, &parts);
}

static void refuse_steps(Run *run, ls_comm *comm) {
    static const Refusal refusals[] = {
        {"scans", {"line 45 scans along what is cut", "cut between tensors"}, true},
        {"gathers", {"reads at other places of what is cut", "units of 0"}, true},
        {"blocks", {"whose blocks are no tiles", "make a step of its own"}, true},
        {"loop", {"step `loop` has a `for`", ""}, true},
        {"adafactor", {"the tensors of `p`", "cut between tensors"}, true},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        ls_step_destroy(run->f.step);
        EXPECT_OK(run->f.context, ls_step_create(run->f.program, refusals[i].step, &run->f.step));
        EXPECT_FAILURE(run->f.context, LS_ERROR_UNSUPPORTED,
                       partition_two(run, comm, NULL, refusals[i].within),
                       "ls_step_partition: ", refusals[i].words[0], refusals[i].words[1]);
        EXPECT_FAILURE(run->f.context, LS_ERROR_BIND, ls_step_launch(run->f.step), "bound");
    }
}

static void refuse_calls(Run *run, ls_comm *comm) {
    ls_context *context = run->f.context;
    ls_step *step = run->f.step, *instance = NULL;
    const ls_tensor one = tensor_of(&(float){0}, LS_F32, 1, &(int64_t){1});
    const ls_tensor *sums[2] = {&one, &one};
    EXPECT_FAILURE(context, LS_ERROR_ARGUMENT, ls_step_partition(step, comm, NULL),
                   "parts is NULL");
    EXPECT_FAILURE(context, LS_ERROR_ARGUMENT, partition_two(run, comm, "h", true), "no parameter");
    EXPECT_OK(context, ls_step_shard(step, 0, 5));
    EXPECT_FAILURE(context, LS_ERROR_STATE, partition_two(run, comm, NULL, true),
                   "has been told its place by ls_step_shard");
    EXPECT_OK(context, ls_step_shard(step, 0, 0));
    EXPECT_OK(context, partition_two(run, comm, NULL, true));
    EXPECT_FAILURE(context, LS_ERROR_STATE, partition_two(run, comm, NULL, true), "already");
    EXPECT_FAILURE(context, LS_ERROR_UNSUPPORTED, ls_step_instance(step, &instance), "partitioned");
    EXPECT_FAILURE(context, LS_ERROR_STATE, ls_step_shard(step, 1, 0), "knows its place");
    EXPECT_FAILURE(context, LS_ERROR_STATE, ls_step_bind_sum_list(step, "g", sums, 2, 1),
                   "before ls_step_partition");
    EXPECT_FAILURE(context, LS_ERROR_BIND, ls_step_launch(step), "`p` of step `lamb` is not bound");
    EXPECT_OK(context, ls_step_bind_list(step, "p", &one, 1));
    EXPECT_FAILURE(context, LS_ERROR_BIND, ls_step_launch(step), "`p` of step `lamb`",
                   "bound to 1 tensor,", "rank 0 has pieces of");
    ls_tensor tensors[TENSORS], pieces[TENSORS];
    int64_t shapes[TENSORS][2], units[TENSORS];
    ls_partition_piece own[TENSORS];
    ls_cut cuts[3];
    size_t count;
    find_tensors(run, tensors, shapes, &count);
    for (size_t t = 0; t < TENSORS; t++) units[t] = 1024;
    EXPECT_OK(NULL, ls_partition(tensors, count, units, 2, cuts));
    const size_t there = ls_partition_run(tensors, count, cuts, 0, own);
    for (size_t i = 0; i < there; i++) pieces[i] = one;
    for (uint32_t i = 0; i < run->image->parameter_count; i++)
        if (is_list(run->image, &run->image->parameters[i]))
            EXPECT_OK(context,
                      ls_step_bind_list(step, run->image->parameters[i].name, pieces, there));
    EXPECT_FAILURE(context, LS_ERROR_BIND, ls_step_launch(step), "tensor 0 that is bound to `p`",
                   "has 1 elements, and the part of rank 0 has ");
}

static void refusals_of_rank_0(int rank, const ls_comm_id *id) {
    static const Case lamb = {"lamb", true, true, false};
    const ls_comm_options options = {.rank = rank, .size = 2, .id = id};
    Run run;
    ls_comm *comm = NULL;
    open_run(&run, &lamb);
    EXPECT_OK(run.f.context, ls_comm_create(run.f.context, "shm", &options, &comm));
    if (rank == 0) {
        refuse_calls(&run, comm);
        refuse_steps(&run, comm);
    }
    ls_step_destroy(run.f.step);
    run.f.step = NULL;
    ls_comm_destroy(comm);
    close_run(&run);
}

static void refused(void **state) {
    ls_comm_id id;
    (void)state;
    EXPECT_OK(NULL, ls_comm_id_create("shm", &id));
    fflush(NULL);
    const pid_t other = fork();
    assert_true(other >= 0);
    if (other == 0) {
        alarm(300);
        refusals_of_rank_0(1, &id);
        exit(0);
    }
    refusals_of_rank_0(0, &id);
    int status = 0;
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(status, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(refused), cmocka_unit_test(same_bits),
                                       cmocka_unit_test(random_programs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
