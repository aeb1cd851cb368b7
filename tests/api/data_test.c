/* data_test.c: data sets: read where they lie, copied, and streamed, with the same bits;
 * splits, wrong calls, and every allocation failing in turn. */
#include "fixtures.h"
#include "failing_memory.h"
#include "lockstep/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SAMPLES = 37, WIDTH = 3, BATCH = 8, LAUNCHES = 12 };

static const char text[] =
    "import \"std/data\"\n"
    "step read[s, b = 8, k](\n"
    "    x: f32[s, k], y: i32[s], inout at: i64 = 0, out batch: f32[b, k], out label: i32[b],\n"
    "    data_first: i64, data_count: i64, data_seed: i64, data_ordered: bool,\n"
    "    data_streamed: bool,\n"
    ") {\n"
    "    let row = next_batch(at = at, first = data_first, count = data_count, seed = data_seed,\n"
    "                         ordered = data_ordered, streamed = data_streamed)\n"
    "    batch = x[row, k]\n"
    "    label = y[row]\n"
    "}\n"
    "step pick[s, b = 8](x: u8[s], inout at: i64 = 0, out batch: u8[b], data_count: i64,\n"
    "                    data_seed: i64, data_streamed: bool) {\n"
    "    let row = next_batch(at = at, count = data_count, seed = data_seed,\n"
    "                         streamed = data_streamed)\n"
    "    batch = x[row]\n"
    "}\n"
    "step share[s, b](y: i32[s], inout at: i64 = 0, out label: i32[b], data_count: i64,\n"
    "                 data_seed: i64, data_begin: i64, data_stride: i64, data_streamed: bool) {\n"
    "    let row = next_batch_of_rank(at = at, begin = data_begin, stride = data_stride,\n"
    "        count = data_count, seed = data_seed, streamed = data_streamed)\n"
    "    label = y[row]\n"
    "}\n"
    "step spoil[s, k](inout x: f32[s, k]) { x = 0 }\n";

static _Alignas(64) char memory[(SAMPLES * WIDTH + 4) * sizeof(float)];
static int32_t y[SAMPLES + 4];

/* The samples, beginning so many bytes past a 64-byte boundary. */
static void fill(ls_dataset_array arrays[2], size_t past) {
    static const int64_t x_shape[] = {SAMPLES, WIDTH}, y_shape[] = {SAMPLES};
    float *x = (float *)(void *)(memory + past);
    for (int i = 0; i < SAMPLES * WIDTH; i++) x[i] = (float)(i + 1);
    for (int i = 0; i < SAMPLES; i++) y[i] = 1000 + i;
    arrays[0] = (ls_dataset_array){"x", NULL, {x, LS_F32, 2, x_shape, NULL}, 0};
    arrays[1] = (ls_dataset_array){"y", NULL, {y, LS_I32, 1, y_shape, NULL}, 0};
}

static Fixture open(const char *step) {
    Fixture f = {0};
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &f.context));
    EXPECT_OK(f.context, ls_program_load_text(f.context, "read.step", text, sizeof text - 1, NULL,
                                              &f.program));
    EXPECT_OK(f.context, ls_step_create(f.program, step, &f.step));
    return f;
}

/* Launches once and holds the batch against the split's own order. */
static void expect_batch(Fixture *f, ls_split *split, int64_t place, ls_graph *graph) {
    ls_tensor batch, label;
    EXPECT_OK(f->context, ls_split_next(split));
    if (graph)
        EXPECT_OK(f->context, ls_graph_launch(graph));
    else
        EXPECT_OK(f->context, ls_step_launch(f->step));
    EXPECT_OK(f->context, ls_step_output(f->step, "batch", &batch));
    EXPECT_OK(f->context, ls_step_output(f->step, "label", &label));
    EXPECT_OK(f->context, ls_synchronize(f->context));
    for (int64_t i = 0; i < BATCH; i++) {
        int64_t sample = ls_split_sample(split, place + i);
        assert_true(sample >= 0 && sample < SAMPLES);
        assert_int_equal(((int32_t *)label.data)[i], 1000 + sample);
        for (int k = 0; k < WIDTH; k++)
            assert_true(((float *)batch.data)[i * WIDTH + k] == (float)(sample * WIDTH + k + 1));
    }
}

static void expect_epochs(const ls_dataset_array *arrays, const ls_dataset_options *options,
                          const ls_split_options *order, bool resident, bool captured) {
    Fixture f = open("read");
    ls_dataset *dataset;
    ls_split *split;
    ls_graph *graph = NULL;
    EXPECT_OK(f.context, ls_dataset_create(f.context, arrays, 2, options, &dataset));
    assert_int_equal(ls_dataset_resident(dataset), resident);
    assert_int_equal(ls_dataset_samples(dataset), SAMPLES);
    EXPECT_OK(f.context, ls_split_create(dataset, order, &split));
    EXPECT_OK(f.context, ls_split_bind(split, f.step));
    EXPECT_OK(f.context, ls_step_want(f.step, "batch"));
    EXPECT_OK(f.context, ls_step_want(f.step, "label"));
    EXPECT_OK(f.context, ls_step_prepare(f.step));
    if (captured) {
        EXPECT_OK(f.context, ls_graph_begin(f.context));
        EXPECT_OK(f.context, ls_step_launch(f.step));
        EXPECT_OK(f.context, ls_graph_end(f.context, &graph));
    }
    for (int i = 0; i < LAUNCHES; i++) expect_batch(&f, split, (int64_t)i * BATCH, graph);
    const int64_t place = 1000;
    EXPECT_OK(f.context, ls_step_set(f.step, "at", &place));
    EXPECT_OK(f.context, ls_split_seek(split, place));
    expect_batch(&f, split, place, graph);
    expect_batch(&f, split, place + BATCH, graph);
    ls_graph_destroy(graph);
    ls_split_destroy(split);
    ls_step_destroy(f.step);
    f.step = NULL;
    ls_dataset_destroy(dataset);
    close_fixture(&f);
}

static const ls_split_options all = {.batch = BATCH, .seed = 7};
static const ls_split_options part = {.first = 5, .count = 20, .batch = BATCH, .seed = -3};
static const ls_split_options ordered = {.first = 30, .batch = BATCH, .in_order = 1};
static const ls_dataset_options nothing_fits = {.device_bytes = 1};

/* Ranks that share the launches out: together they read what one rank would, in the same order. */
static void expect_share(const ls_dataset_array *arrays, const ls_dataset_options *data, int rank,
                         int ranks) {
    const int64_t batch = BATCH / ranks;
    const ls_split_options options = {.batch = batch, .seed = 7, .rank = rank, .ranks = ranks};
    Fixture f = open("share");
    ls_dataset *dataset;
    ls_split *split;
    int32_t read[BATCH];
    void *label;
    EXPECT_OK(f.context, ls_dataset_create(f.context, arrays, 2, data, &dataset));
    EXPECT_OK(f.context, ls_split_create(dataset, &options, &split));
    EXPECT_OK(f.context, ls_alloc(f.context, sizeof read, &label));
    const ls_tensor tensor = tensor_of(label, LS_I32, 1, &batch);
    EXPECT_OK(f.context, ls_split_bind(split, f.step));
    EXPECT_OK(f.context, ls_step_bind(f.step, "label", &tensor));
    for (int64_t i = 0; i < LAUNCHES; i++) {
        EXPECT_OK(f.context, ls_split_next(split));
        EXPECT_OK(f.context, ls_step_launch(f.step));
        EXPECT_OK(f.context, ls_copy_out(f.context, read, label, (size_t)batch * sizeof *read));
        EXPECT_OK(f.context, ls_synchronize(f.context));
        for (int64_t k = 0; k < batch; k++)
            assert_int_equal(read[k], 1000 + ls_split_sample(split, i * BATCH + rank * batch + k));
    }
    ls_split_destroy(split);
    ls_step_destroy(f.step);
    f.step = NULL;
    ls_dataset_destroy(dataset);
    ls_free(f.context, label);
    close_fixture(&f);
}

static void the_same_order_for_any_ranks(void **state) {
    (void)state;
    ls_dataset_array arrays[2];
    fill(arrays, 0);
    for (int ranks = 1; ranks <= 4; ranks *= 2)
        for (int rank = 0; rank < ranks; rank++) {
            expect_share(arrays, NULL, rank, ranks);
            expect_share(arrays, &nothing_fits, rank, ranks);
        }
}

static void the_same_bits(void **state) {
    (void)state;
    ls_dataset_array arrays[2];
    const ls_split_options *splits[] = {&all, &part, &ordered};
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++)
        for (int captured = 0; captured < 2; captured++) {
            fill(arrays, 0);
            expect_epochs(arrays, NULL, splits[i], true, captured); /* where they lie */
            fill(arrays, 4);
            expect_epochs(arrays, NULL, splits[i], true, captured); /* copied */
            expect_epochs(arrays, &nothing_fits, splits[i], false, captured);
        }
}

static void where_it_lies(void **state) {
    (void)state;
    CPU_ONLY();
    Fixture f = open("read");
    ls_dataset_array arrays[2];
    ls_dataset *dataset;
    ls_tensor tensor;
    fill(arrays, 16);
    ls_memory_statistics before, after;
    ls_memory_stats(f.context, &before);
    EXPECT_OK(f.context, ls_dataset_create(f.context, arrays, 1, &nothing_fits, &dataset));
    ls_memory_stats(f.context, &after);
    assert_int_equal(before.in_use, after.in_use);
    EXPECT_OK(f.context, ls_dataset_tensor(dataset, "x", &tensor));
    assert_ptr_equal(tensor.data, memory + 16);
    ls_dataset_destroy(dataset);
    close_fixture(&f);
}

/* Every sample of a split once per epoch, epochs in different orders, the same on the next day. */
static void orders(void **state) {
    (void)state;
    Fixture f = open("read");
    ls_dataset_array arrays[2];
    ls_dataset *dataset;
    ls_split *split;
    fill(arrays, 0);
    EXPECT_OK(f.context, ls_dataset_create(f.context, arrays, 2, NULL, &dataset));
    EXPECT_OK(f.context, ls_split_create(dataset, &part, &split));
    int changed = 0;
    for (int64_t epoch = 0; epoch < 50; epoch++) {
        int seen[SAMPLES] = {0};
        for (int64_t i = 0; i < 20; i++) {
            int64_t sample = ls_split_sample(split, epoch * 20 + i);
            assert_true(sample >= 5 && sample < 25);
            assert_int_equal(sample, 5 + ls_shuffle(i, 20, -3, epoch));
            assert_int_equal(seen[sample]++, 0);
            changed += sample != ls_split_sample(split, i);
        }
    }
    assert_true(changed > 40 * 15);
    assert_int_equal(ls_split_sample(split, -1), -1);
    ls_split_destroy(split);
    ls_dataset_destroy(dataset);
    close_fixture(&f);
}

/* ---- files ---- */

static char folder[] = "/tmp/lockstep-data-XXXXXX";

static const char *in_folder(const char *name) {
    static char paths[4][100];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static const char *write_file(const char *name, const void *header, size_t header_size,
                              const void *data, size_t size) {
    const char *path = in_folder(name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(header, 1, header_size, file), header_size);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return path;
}

/* The header is as long as NumPy's, 128 bytes, less `cut`. */
static const char *write_npy(const char *name, const char *dictionary, const void *data,
                             size_t size, size_t cut) {
    char header[129];
    snprintf(header, sizeof header, "\x93NUMPY\x01%c%c%c%-117s\n", 1, 1, 1, dictionary);
    header[7] = 0;
    header[8] = (char)(118 - cut);
    header[9] = 0;
    header[127 - cut] = '\n';
    return write_file(name, header, 128 - cut, data, size);
}

static const char *write_safetensors(const char *name, const char *json, const void *data,
                                     size_t size) {
    char header[300];
    memset(header, 0, 8);
    header[0] = (char)strlen(json);
    snprintf(header + 8, sizeof header - 8, "%s", json);
    return write_file(name, header, 8 + strlen(json), data, size);
}

/* Two arrays of the right contents, in files of several kinds. */
static void from_files(void **state) {
    (void)state;
    ls_dataset_array arrays[2], files[2];
    float big[SAMPLES * WIDTH];
    char both[sizeof big + sizeof(int32_t) * SAMPLES];
    fill(arrays, 0);
    const float *x = arrays[0].tensor.data;
    for (int i = 0; i < SAMPLES * WIDTH; i++) {
        uint32_t word;
        memcpy(&word, &x[i], sizeof word);
        word = word >> 24 | (word >> 8 & 0xff00) | (word << 8 & 0xff0000) | word << 24;
        memcpy(&big[i], &word, sizeof word);
    }
    memcpy(both, x, sizeof big);
    memcpy(both + sizeof big, y, sizeof(int32_t) * SAMPLES);
    const char *f4 = "{'descr': '<f4', 'fortran_order': False, 'shape': (37, 3), }";
    const char *f4_big = "{'descr': '>f4', 'fortran_order': False, 'shape': (37, 3), }";
    const char *i4 = "{'descr': '<i4', 'fortran_order': False, 'shape': (37,), }";
    const char *json = "{\"x\":{\"dtype\":\"F32\",\"shape\":[37,3],\"data_offsets\":[0,444]},"
                       "\"y\":{\"dtype\":\"I32\",\"shape\":[37],\"data_offsets\":[444,592]}}";
    write_npy("x.npy", f4, x, sizeof big, 0);
    write_npy("odd.npy", f4, x, sizeof big, 4);
    write_npy("big.npy", f4_big, big, sizeof big, 0);
    write_npy("y.npy", i4, y, sizeof(int32_t) * SAMPLES, 0);
    write_safetensors("both.safetensors", json, both, sizeof both);
    static const struct {
        const char *x, *y;
        bool in_place; /* of x, on a CPU */
    } rows[] = {{"x.npy", "y.npy", true},
                {"odd.npy", "y.npy", false},
                {"big.npy", "both.safetensors:y", false},
                {"both.safetensors:x", "y.npy", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char paths[2][100];
        snprintf(paths[0], sizeof paths[0], "%s", in_folder(rows[i].x));
        snprintf(paths[1], sizeof paths[1], "%s", in_folder(rows[i].y));
        files[0] = (ls_dataset_array){.name = "x", .path = paths[0]};
        files[1] = (ls_dataset_array){.name = "y", .path = paths[1]};
        expect_epochs(files, NULL, &all, true, false);
        expect_epochs(files, &nothing_fits, &part, ON_CPU && rows[i].in_place, true);
    }
}

/* Whether the kernel knows that the mapping with that address is read here and there. */
/* The samples in three files, one of them big-endian, one without any: one array. */
static void from_many_files(void **state) {
    (void)state;
    ls_dataset_array arrays[2], files[2];
    float big[9 * WIDTH];
    char paths[2][100];
    fill(arrays, 0);
    const float *x = arrays[0].tensor.data;
    for (int i = 0; i < 9 * WIDTH; i++) {
        uint32_t word;
        memcpy(&word, &x[20 * WIDTH + i], sizeof word);
        word = __builtin_bswap32(word);
        memcpy(&big[i], &word, sizeof word);
    }
    write_npy("many-0.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (20, 3), }", x,
              20 * WIDTH * sizeof *x, 4);
    write_npy("many-1.npy", "{'descr': '>f4', 'fortran_order': False, 'shape': (9, 3), }", big,
              sizeof big, 0);
    write_npy("many-2.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3), }", x, 0, 0);
    write_npy("many-3.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (8, 3), }",
              x + 29 * WIDTH, 8 * WIDTH * sizeof *x, 0);
    write_safetensors("lab-a.safetensors",
                      "{\"y\":{\"dtype\":\"I32\",\"shape\":[30],\"data_offsets\":[0,120]},"
                      "\"z\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[120,124]}}",
                      y, 124);
    write_safetensors("lab-b.safetensors",
                      "{\"y\":{\"dtype\":\"I32\",\"shape\":[7],\"data_offsets\":[0,28]}}", y + 30,
                      28);
    snprintf(paths[0], sizeof paths[0], "%s", in_folder("many-?.npy"));
    snprintf(paths[1], sizeof paths[1], "%s", in_folder("lab-*.safetensors:y"));
    files[0] = (ls_dataset_array){.name = "x", .path = paths[0]};
    files[1] = (ls_dataset_array){.name = "y", .path = paths[1]};
    expect_epochs(files, NULL, &all, true, true);
    expect_epochs(files, &(ls_dataset_options){.chunk_bytes = 40}, &ordered, true, false);
    expect_epochs(files, &nothing_fits, &part, false, true);
    ls_context *context;
    ls_dataset *dataset;
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &context));
    write_npy("many-4.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 2), }", x, 32,
              0);
    EXPECT_FAILURE(context, LS_ERROR_FILE, ls_dataset_create(context, files, 1, NULL, &dataset),
                   "many-4.npy", "is not that of the first file");
    snprintf(paths[0], sizeof paths[0], "%s", in_folder("absent-*.npy"));
    EXPECT_FAILURE(context, LS_ERROR_FILE, ls_dataset_create(context, files, 1, NULL, &dataset),
                   "absent-*.npy: no file has such a name");
    static const char *const records[] = {"x.tfrecord", "x.tfrecords", "x.tfrecord-00001-of-00008"};
    for (size_t i = 0; i < 3; i++) {
        files[0].path = records[i];
        EXPECT_FAILURE(context, LS_ERROR_FILE, ls_dataset_create(context, files, 1, NULL, &dataset),
                       records[i], "it is a TFRecord", "tf.data.TFRecordDataset");
    }
    files[0].path = "x.npz";
    EXPECT_FAILURE(context, LS_ERROR_FILE, ls_dataset_create(context, files, 1, NULL, &dataset),
                   "x.npz", "unzip it");
    ls_context_destroy(context);
}

static bool read_at_random(const void *address) {
    FILE *file = fopen("/proc/self/smaps", "r");
    char line[512];
    bool inside = false, random = false;
    unsigned long from, to;
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            inside = from <= (uintptr_t)address && (uintptr_t)address < to;
        if (inside && strncmp(line, "VmFlags:", 8) == 0) random = strstr(line, " rr") != NULL;
    }
    fclose(file);
    return random;
}

/* A mapped file that steps read in place is not read ahead of the rows that they pick: those are
 * asked for ahead of each launch. */
static void rows_are_asked_for(void **state) {
    static float rows[4096 * 1024];
    ls_context *context;
    ls_dataset *dataset;
    ls_split *split;
    ls_tensor tensor;
    (void)state;
    CPU_ONLY();
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &context));
    const char *path =
        write_npy("rows.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (4096, 1024), }",
                  rows, sizeof rows, 0);
    const ls_dataset_array array = {.name = "x", .path = path};
    EXPECT_OK(context, ls_dataset_create(context, &array, 1, NULL, &dataset));
    EXPECT_OK(context, ls_dataset_tensor(dataset, "x", &tensor));
    assert_true(read_at_random((const char *)tensor.data + sizeof rows / 2));
    EXPECT_OK(context,
              ls_split_create(dataset, &(ls_split_options){.batch = 64, .seed = 1}, &split));
    for (int i = 0; i < 100; i++) EXPECT_OK(context, ls_split_next(split)); /* beyond an epoch */
    ls_split_destroy(split);
    ls_dataset_destroy(dataset);
    ls_context_destroy(context);
}

/* Anything but 0 is true, and what is no C order is refused. */
static void odd_files(void **state) {
    (void)state;
    ls_context *context;
    ls_dataset *dataset;
    ls_tensor tensor;
    static const uint8_t flags[] = {0, 1, 2, 255}, expected[] = {0, 1, 1, 1};
    uint8_t back[4];
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &context));
    ls_dataset_array array = {.name = "f"};
    array.path = write_npy("flags.npy", "{'descr': '|b1', 'fortran_order': False, 'shape': (4,)}",
                           flags, 4, 0);
    EXPECT_OK(context, ls_dataset_create(context, &array, 1, NULL, &dataset));
    EXPECT_OK(context, ls_dataset_tensor(dataset, "f", &tensor));
    EXPECT_OK(context, ls_copy_out(context, back, tensor.data, sizeof back));
    assert_memory_equal(back, expected, sizeof back);
    ls_dataset_destroy(dataset);
    array.path =
        write_npy("f.npy", "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 2)}", flags, 4, 0);
    EXPECT_FAILURE(context, LS_ERROR_FILE, ls_dataset_create(context, &array, 1, NULL, &dataset),
                   "f.npy has its first axis fastest", "ascontiguousarray");
    array.path = in_folder("none.npy");
    EXPECT_FAILURE(context, LS_ERROR_FILE, ls_dataset_create(context, &array, 1, NULL, &dataset),
                   "cannot open", "none.npy: No such file");
    array.path = in_folder("x.bin");
    EXPECT_FAILURE(context, LS_ERROR_FILE, ls_dataset_create(context, &array, 1, NULL, &dataset),
                   "it is of no kind that is read: .npy and .safetensors", ".jsonl and .tar");
    array.path = in_folder("both.safetensors");
    EXPECT_FAILURE(context, LS_ERROR_FILE, ls_dataset_create(context, &array, 1, NULL, &dataset),
                   "has 2 tensors; say which");
    array.path = in_folder("both.safetensors:z");
    EXPECT_FAILURE(context, LS_ERROR_FILE, ls_dataset_create(context, &array, 1, NULL, &dataset),
                   "both.safetensors has no tensor 'z'");
    array.path = write_safetensors(
        "new.safetensors", "{\"q\":{\"dtype\":\"F4\",\"shape\":[8],\"data_offsets\":[0,4]}}", flags,
        4);
    EXPECT_FAILURE(context, LS_ERROR_FILE, ls_dataset_create(context, &array, 1, NULL, &dataset),
                   "is of type F4, which Lockstep does not know");
    ls_context_destroy(context);
}

/* More than 2^32 samples, in a file of holes: only what the first batches read is there. */
static void beyond_32_bits(void **state) {
    (void)state;
    const int64_t count = ((int64_t)1 << 32) + 5;
    Fixture f = open("pick");
    ls_dataset *dataset;
    ls_split *split;
    ls_tensor batch;
    char path[100];
    snprintf(path, sizeof path, "%s",
             write_npy("far.npy",
                       "{'descr': '|u1', 'fortran_order': False, 'shape': (4294967301,)}", "", 0,
                       0));
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), 128 + count), 0);
    for (int64_t i = 0; i < 3 * BATCH; i++) {
        assert_int_equal(fseeko(file, 128 + ls_shuffle(i, count, 7, 0), SEEK_SET), 0);
        assert_int_equal(fputc((int)i + 1, file), i + 1);
    }
    assert_int_equal(fclose(file), 0);
    const ls_dataset_array array = {.name = "x", .path = path};
    EXPECT_OK(f.context, ls_dataset_create(f.context, &array, 1, &nothing_fits, &dataset));
    assert_int_equal(ls_dataset_samples(dataset), count);
    assert_int_equal(ls_dataset_resident(dataset), ON_CPU);
    EXPECT_OK(f.context, ls_split_create(dataset, &all, &split));
    EXPECT_OK(f.context, ls_split_bind(split, f.step));
    bool high = false;
    for (int64_t i = 0; i < 3 * BATCH; i++) {
        if (i % BATCH == 0) {
            EXPECT_OK(f.context, ls_split_next(split));
            EXPECT_OK(f.context, ls_step_want(f.step, "batch"));
            EXPECT_OK(f.context, ls_step_launch(f.step));
            EXPECT_OK(f.context, ls_step_output(f.step, "batch", &batch));
            EXPECT_OK(f.context, ls_synchronize(f.context));
        }
        high |= ls_split_sample(split, i) > INT32_MAX;
        assert_int_equal(((uint8_t *)batch.data)[i % BATCH], i + 1);
    }
    assert_true(high);
    ls_split_destroy(split);
    ls_step_destroy(f.step);
    f.step = NULL;
    ls_dataset_destroy(dataset);
    close_fixture(&f);
}

/* ---- wrong calls, and nothing left ---- */

typedef struct Seen {
    uint64_t done, total;
    int calls, until; /* it gives up at this call */
} Seen;

static int watch(void *argument, uint64_t done, uint64_t total) {
    Seen *seen = argument;
    assert_true(done >= seen->done && done <= total);
    seen->done = done;
    seen->total = total;
    return ++seen->calls == seen->until;
}

static void progress(void **state) {
    (void)state;
    Fixture f = open("read");
    ls_dataset_array arrays[2];
    ls_dataset *dataset;
    Seen seen = {0};
    ls_dataset_options options = {.chunk_bytes = 100,
                                  /* 104: whole elements of any type */ .progress = watch,
                                  .argument = &seen};
    const uint64_t bytes = SAMPLES * WIDTH * 4;
    fill(arrays, 8);
    EXPECT_OK(f.context, ls_dataset_create(f.context, arrays, 1, &options, &dataset));
    assert_int_equal(seen.done, bytes);
    assert_int_equal(seen.total, bytes);
    assert_int_equal(seen.calls, 1 + (bytes + 103) / 104);
    ls_dataset_destroy(dataset);
    seen = (Seen){0};
    options.chunk_bytes = SIZE_MAX; /* no more than there is to load */
    EXPECT_OK(f.context, ls_dataset_create(f.context, arrays, 1, &options, &dataset));
    assert_int_equal(seen.calls, 2);
    ls_dataset_destroy(dataset);
    options.chunk_bytes = 100;
    ls_memory_statistics before, after;
    ls_memory_stats(f.context, &before);
    seen = (Seen){.until = 3};
    EXPECT_FAILURE(f.context, LS_ERROR_STATE,
                   ls_dataset_create(f.context, arrays, 1, &options, &dataset), "given up",
                   "after 208 of 444 bytes");
    assert_null(dataset);
    ls_memory_stats(f.context, &after);
    assert_int_equal(before.in_use, after.in_use);
    close_fixture(&f);
}

/* What the context may not have is streamed. */
static void a_limit(void **state) {
    (void)state;
    ls_dataset_array arrays[2];
    ls_dataset *dataset;
    ls_context *context;
    ls_memory_statistics before, after;
    fill(arrays, 4);
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &context));
    EXPECT_OK(context, ls_memory_limit(context, 128));
    ls_memory_stats(context, &before);
    EXPECT_OK(context, ls_dataset_create(context, arrays, 2, NULL, &dataset));
    assert_false(ls_dataset_resident(dataset));
    ls_memory_stats(context, &after);
    assert_int_equal(before.in_use, after.in_use);
    ls_dataset_destroy(dataset);
    const ls_dataset_options fits = {.device_bytes = 1 << 20};
    EXPECT_FAILURE(context, LS_ERROR_MEMORY, ls_dataset_create(context, arrays, 2, &fits, &dataset),
                   "data set: x");
    ls_context_destroy(context);
}

static void wrong_calls(void **state) {
    (void)state;
    Fixture f = open("spoil");
    ls_context *c = f.context;
    ls_dataset_array arrays[2];
    ls_dataset *dataset;
    ls_split *split;
    ls_tensor tensor;
    fill(arrays, 0);
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_dataset_create(c, arrays, 0, NULL, &dataset),
                   "at least one");
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_dataset_create(NULL, arrays, 2, NULL, &dataset),
                   "context is NULL");
    const int64_t short_shape[] = {SAMPLES - 1}, odd_strides[] = {2};
    arrays[1].tensor.shape = short_shape;
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_dataset_create(c, arrays, 2, NULL, &dataset),
                   "`y` has 36 samples, `x` has 37");
    arrays[1].tensor.strides = odd_strides;
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_dataset_create(c, arrays + 1, 1, NULL, &dataset),
                   "not contiguous");
    arrays[1].tensor = (ls_tensor){NULL, LS_I32, 1, short_shape, NULL};
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_dataset_create(c, arrays + 1, 1, NULL, &dataset),
                   "its data are NULL");
    EXPECT_OK(c, ls_dataset_create(c, arrays, 1, NULL, &dataset));
    EXPECT_FAILURE(c, LS_ERROR_BIND, ls_dataset_bind(dataset, f.step, "x"), "writes `x`");
    Fixture other = open("read");
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_dataset_bind(dataset, other.step, "x"),
                   "the data set and step `read` belong to different contexts");
    close_fixture(&other);
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_dataset_tensor(dataset, "z", &tensor), "no array `z`");
    const ls_split_options beyond = {.first = 30, .count = 8, .batch = 1}, none = {.first = 37};
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_split_create(dataset, &beyond, &split),
                   "8 samples from 30 on were asked for, the data set has 37");
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_split_create(dataset, &none, &split), "no sample");
    const ls_split_options endless = {.first = 5, .count = INT64_MAX}, less = {.batch = -1};
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_split_create(dataset, &endless, &split),
                   "9223372036854775807 samples from 5 on");
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_split_create(dataset, &less, &split),
                   "a batch cannot have -1 samples");
    EXPECT_OK(c, ls_split_create(dataset, &all, &split));
    EXPECT_FAILURE(c, LS_ERROR_BIND, ls_split_bind(split, f.step), "writes `x`");
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_split_seek(split, -1), "count from 0");
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_split_seek(split, INT64_MAX), "end at 2^62");
    ls_split_destroy(split);
    const ls_split_options third = {.batch = 8, .rank = 2, .ranks = 2};
    const ls_split_options shared = {.batch = 8, .ranks = 2};
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_split_create(dataset, &third, &split),
                   "rank is 2 and ranks 2");
    EXPECT_OK(c, ls_split_create(dataset, &shared, &split));
    Fixture reads = open("read"); /* has no data_begin */
    ls_dataset_array there[2];
    ls_dataset *whole;
    ls_split *half;
    fill(there, 0);
    EXPECT_OK(reads.context, ls_dataset_create(reads.context, there, 2, NULL, &whole));
    EXPECT_OK(reads.context, ls_split_create(whole, &shared, &half));
    EXPECT_FAILURE(reads.context, LS_ERROR_BIND, ls_split_bind(half, reads.step),
                   "lacks `data_begin`", "next_batch_of_rank");
    ls_split_destroy(half);
    ls_step_destroy(reads.step);
    reads.step = NULL;
    ls_dataset_destroy(whole);
    close_fixture(&reads);
    ls_split_destroy(split);
    ls_dataset_destroy(dataset);
    fill(arrays, 4);
    EXPECT_OK(c, ls_dataset_create(c, arrays, 1, &nothing_fits, &dataset));
    EXPECT_FAILURE(c, LS_ERROR_STATE, ls_dataset_tensor(dataset, "x", &tensor), "does not fit");
    const ls_split_options no_batch = {.seed = 1};
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_split_create(dataset, &no_batch, &split),
                   "not resident");
    ls_dataset_destroy(dataset);
    ls_dataset_destroy(NULL);
    ls_split_destroy(NULL);
    close_fixture(&f);
}

static ls_status use(Fixture *f, const ls_dataset_options *options) {
    char path[100];
    ls_dataset_array arrays[2];
    ls_dataset *dataset = NULL;
    ls_split *split = NULL;
    fill(arrays, 4);
    char x_path[100];
    snprintf(x_path, sizeof x_path, "%s", in_folder("odd.npy"));
    snprintf(path, sizeof path, "%s", in_folder("both.safetensors:y"));
    arrays[0].path = x_path;
    arrays[1].path = path;
    ls_status status = ls_dataset_create(f->context, arrays, 2, options, &dataset);
    if (status == LS_OK) status = ls_split_create(dataset, &all, &split);
    if (status == LS_OK) status = ls_split_bind(split, f->step);
    if (status == LS_OK) status = ls_split_next(split);
    ls_split_destroy(split);
    ls_dataset_destroy(dataset);
    return status;
}

static bool has_input(void) {
    const int copy = dup(0);
    return copy >= 0 && close(copy) == 0;
}

/* What was never opened is not closed: least of all the standard input. */
static void no_memory_for_a_file(void) {
    for (long n = 1; n <= 2; n++) {
        ls_file *file;
        memory_until_failure = n;
        const ls_status status = ls_file_open("absent.npy", LS_FILE_NPY, &file);
        memory_until_failure = 0;
        assert_int_equal(status, LS_ERROR_MEMORY);
        assert_true(has_input());
    }
}

static void no_memory(void **state) {
    (void)state;
    if (has_input()) no_memory_for_a_file();
    for (int non_temporal = 0; non_temporal < 2; non_temporal++) {
        Fixture f = open("read");
        const ls_dataset_options *options = non_temporal ? &nothing_fits : NULL;
        /* what step and context keep; where little is to be had, data that fit are streamed */
        EXPECT_OK(f.context, use(&f, NULL));
        EXPECT_OK(f.context, use(&f, &nothing_fits));
        long n = 0, live = memory_live;
        for (bool reached = true; reached;) {
            memory_until_failure = ++n;
            ls_status status = use(&f, options);
            reached = memory_until_failure == 0;
            memory_until_failure = 0;
            if (status != LS_OK) assert_int_equal(status, LS_ERROR_MEMORY);
            assert_int_equal(memory_live, live);
        }
        assert_true(n > 5);
        close_fixture(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bits),
        cmocka_unit_test(the_same_order_for_any_ranks),
        cmocka_unit_test(where_it_lies),
        cmocka_unit_test(from_files),
        cmocka_unit_test(from_many_files),
        cmocka_unit_test(odd_files),
        cmocka_unit_test(rows_are_asked_for),
        cmocka_unit_test(beyond_32_bits),
        cmocka_unit_test(a_limit),
        cmocka_unit_test(orders),
        cmocka_unit_test(progress),
        cmocka_unit_test(wrong_calls),
        cmocka_unit_test(no_memory),
    };
    if (!mkdtemp(folder)) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) != 0 || failed;
}
