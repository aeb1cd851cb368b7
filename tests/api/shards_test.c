/* shards_test.c: data sets in archives, in lines of JSON and in many files, and the thread that
 * reads them ahead. */
#include "fixtures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { BATCH = 4, WIDTH = 3 };

static char folder[] = "/tmp/lockstep-shards-XXXXXX";

static const char *in_folder(const char *name) {
    static char paths[4][400];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void write_bytes(const char *name, const void *data, size_t size) {
    FILE *file = fopen(in_folder(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void write_text(const char *name, const char *text) {
    write_bytes(name, text, strlen(text));
}

/* An array of i32, `shape` as "(3,)", as NumPy writes it. */
static void write_npy(const char *name, const char *shape, const int32_t *data, size_t count) {
    char text[128 + 64 * sizeof *data], dictionary[100];
    assert_true(count <= 64);
    snprintf(dictionary, sizeof dictionary, "{'descr': '<i4', 'fortran_order': False, 'shape': %s}",
             shape);
    snprintf(text, sizeof text, "\x93NUMPY\x01%c%c%c%-117s\n", 1, 1, 1, dictionary);
    memcpy(text + 6, "\x01\x00\x76\x00", 4);
    memcpy(text + 128, data, count * sizeof *data);
    write_bytes(name, text, 128 + count * sizeof *data);
}

static void run(const char *command) {
    char text[1000];
    snprintf(text, sizeof text, "cd %s && { %s; }", folder, command);
    assert_int_equal(system(text), 0);
}

static ls_context *open(void) {
    ls_context *context;
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &context));
    return context;
}

/* What a data set of one array, or two, holds: `count` numbers from `first` on in the first. */
static void expect_numbers(const char *path, uint32_t rank, int64_t count, int32_t first) {
    ls_context *context = open();
    ls_dataset *dataset;
    ls_tensor tensor;
    char file[200];
    snprintf(file, sizeof file, "%s", in_folder(path));
    const ls_dataset_array array = {.name = "x", .path = file};
    EXPECT_OK(context, ls_dataset_create(context, &array, 1, NULL, &dataset));
    EXPECT_OK(context, ls_dataset_tensor(dataset, "x", &tensor));
    assert_int_equal(tensor.rank, rank);
    assert_int_equal(tensor.type, LS_I32);
    int64_t elements = 1;
    for (uint32_t i = 0; i < rank; i++) elements *= tensor.shape[i];
    assert_int_equal(elements, count);
    for (int64_t i = 0; i < count; i++)
        assert_int_equal(((const int32_t *)tensor.data)[i], first + i);
    ls_dataset_destroy(dataset);
    ls_context_destroy(context);
}

static void expect_refused(const char *path, const char *why, const char *more) {
    ls_context *context = open();
    ls_dataset *dataset;
    char file[200];
    snprintf(file, sizeof file, "%s", in_folder(path));
    const ls_dataset_array array = {.name = "x", .path = file};
    EXPECT_FAILURE(context, LS_ERROR_FILE, ls_dataset_create(context, &array, 1, NULL, &dataset),
                   why, more);
    assert_null(dataset);
    ls_context_destroy(context);
}

/* ---- lines of JSON ---- */

static void tokens(void **state) {
    (void)state;
    write_text("t-0.jsonl", "{\"id\": \"a\", \"tokens\": [0, 1, 2], \"more\": {\"tokens\": [9]}}\n"
                            "\n  [3,4]\r\n[]\n{\"tokens\":[5]}");
    write_text("t-1.jsonl", "[6]\n");
    write_text("t-2.jsonl", "");
    write_text("other.jsonl", "{\"labels\": [7, 8], \"tokens\": [1]}\n{\"labels\": [9]}\n");
    expect_numbers("t-0.jsonl", 1, 6, 0);
    expect_numbers("t-?.jsonl", 1, 7, 0);
    expect_numbers("t-2.jsonl", 1, 0, 0);
    write_text("e-0.jsonl", "[]\n"); /* and the first file may be empty */
    write_text("e-1.jsonl", "[0, 1]\n");
    expect_numbers("e-?.jsonl", 1, 2, 0);
    expect_numbers("other.jsonl:labels", 1, 3, 7);
    static const struct {
        const char *text, *why;
    } wrong[] = {{"[1]\n[2, 3.5]\n", "line 2, byte 6: expected a whole number"},
                 {"[1, -1]\n", "line 1, byte 5: expected a whole number that is not negative"},
                 {"[2147483648]\n", "line 1, byte 12: expected a token below 2^31"},
                 {"{\"labels\": [1]}\n", "line 1, byte 16: expected a list under the key `tokens`"},
                 {"{\"tokens\": 1}\n", "line 1, byte 12: expected an array"},
                 {"{\"tokens\": [1}\n", "line 1, byte 14: expected a comma or ']'"},
                 {"[1] [2]\n", "line 1, byte 5: expected the end"},
                 {"[1\n", "line 1, byte 3: expected a comma or ']'"}};
    for (size_t i = 0; i < ROWS_OF(wrong); i++) {
        write_text("wrong.jsonl", wrong[i].text);
        expect_refused("wrong.jsonl", "wrong.jsonl", wrong[i].why);
    }
    expect_refused("absent.jsonl", "cannot open", "absent.jsonl");
}

/* ---- archives ---- */

static const char long_name[] =
    "a-folder-whose-name-is-long-enough/that-no-header-of-a-block-has-room-for-all-of-it/"
    "however-it-is-cut-into-a-prefix-and-a-name/and-this-is-where-the-sample-itself-lies";

/* Samples of WIDTH numbers with a number each, in three archives of the format. */
static void make_archives(const char *format) {
    char command[900];
    snprintf(command, sizeof command,
             "rm -rf s *.tar && mkdir -p s/%s && touch s/README s/5.y.npy.bak", long_name);
    run(command);
    for (int i = 0; i < 9; i++) {
        int32_t x[WIDTH], y = i;
        char name[300];
        for (int k = 0; k < WIDTH; k++) x[k] = WIDTH * i + k;
        snprintf(name, sizeof name, "s/%s%d.x.npy", i == 4 ? long_name : "", i);
        if (i == 4) snprintf(name, sizeof name, "s/%s/4.x.npy", long_name);
        write_npy(name, "(3,)", x, WIDTH);
        snprintf(strstr(name, ".x.npy"), 7, ".y.npy");
        write_npy(name, "()", &y, 1);
    }
    snprintf(command, sizeof command,
             "cd s && tar --format=%s -cf ../s-0.tar README 0.?.npy 1.?.npy 2.?.npy 5.y.npy.bak && "
             "tar --format=%s -cf ../s-1.tar 3.x.npy 3.y.npy %s && "
             "tar --format=%s -cf ../s-2.tar 5.?.npy 6.?.npy 7.?.npy 8.?.npy",
             format, format, long_name, format);
    run(command);
}

static void archives(void **state) {
    (void)state;
    static const char *const formats[] = {"gnu", "pax", "posix"};
    for (size_t i = 0; i < ROWS_OF(formats); i++) {
        make_archives(formats[i]);
        expect_numbers("s-?.tar:x.npy", 2, 27, 0);
        expect_numbers("s-?.tar:y.npy", 1, 9, 0);
        expect_numbers("s-2.tar:x.npy", 2, 12, 15);
        expect_refused("s-0.tar:z.npy", "s-0.tar: no member has such a name", "x.tar:x.npy");
        expect_refused("s-0.tar", "is not that of the first file", ".y.npy");
        expect_refused("s-0.tar:y.npy.bak", "not a .npy file", "5.y.npy.bak");
    }
    const int32_t numbers[] = {0, 1, 2, 3, 4, 5};
    run("mkdir -p c/d");
    write_npy("c/a.npy", "(2,)", numbers, 2);
    write_npy("c/b.npy", "(4,)", numbers + 2, 4);
    write_npy("c/d/c.npy", "(4,)", numbers + 2, 4);
    run("tar --format=ustar -cf c.tar c/a.npy c/b.npy c/d/c.npy");
    expect_numbers("c.tar/c/?.npy", 1, 6, 0);
    run("head -c 900 c.tar > cut.tar && tr 'u' 'v' < c.tar > sum.tar && : > empty.tar");
    expect_refused("cut.tar/c/?.npy", "cut.tar: truncated", "");
    expect_refused("sum.tar/c/?.npy", "sum.tar", "header at byte 0");
    expect_refused("empty.tar", "empty.tar: truncated", "");
    expect_refused("absent.tar", "cannot open", "absent.tar");
    expect_refused("x.tar.gz", "unpack it", "");
    run("mkdir -p d.tar && cp c/a.npy d.tar"); /* a folder is no archive */
    expect_numbers("d.tar/a.npy", 1, 2, 0);
}

/* Why a file is not read follows its extensions, not words that begin as one of them. */
static void kinds(void **state) {
    (void)state;
    static const struct {
        const char *name, *why;
    } rows[] = {{"train.targets.bin", "of no kind that is read"},
                {"x.tarred", "of no kind that is read"},
                {"x.npzip", "of no kind that is read"},
                {"x.jsonlines", "of no kind that is read"},
                {"x.tfrecordset", "of no kind that is read"},
                {"x.npz/y.bin", "of no kind that is read"},
                {"train.targets.tar.1", "for ls_dataset_create, which reads the .npy files"},
                {"x.tar-1", "for ls_dataset_create, which reads the .npy files"},
                {"x.tar.gz-1", "unpack it"},
                {"x.tar.bz2", "unpack it"},
                {"x.tar.zst", "unpack it"},
                {"x.tgz", "unpack it"},
                {"x.npz.1", "unzip it"},
                {"x.npz:y", "unzip it"},
                {"x.jsonl-1", "for ls_dataset_create, which reads its tokens"},
                {"x.tfrecord.1", "a TFRecord"},
                {"x.tfrecords-00001-of-00008", "a TFRecord"}};
    for (size_t i = 0; i < ROWS_OF(rows); i++) expect_refused(rows[i].name, rows[i].why, "");
}

/* A link has no bytes of its own: without a word its sample would be missing. */
static void links(void **state) {
    (void)state;
    make_archives("gnu");
    run("cd s && ln -f 0.x.npy 9.x.npy && tar -cf ../l.tar 0.x.npy 1.x.npy 9.x.npy");
    expect_refused("l.tar:x.npy", "l.tar: a sample in it is a link", "--hard-dereference");
    run("cd s && ln -sf 0.x.npy 9.x.npy && tar -cf ../l.tar 0.x.npy 9.x.npy");
    expect_refused("l.tar:x.npy", "l.tar: a sample in it is a link", "--dereference");
    run("cd s && tar -chf ../l.tar 0.x.npy README && ln -sf README R && tar -rf ../l.tar R");
    expect_numbers("l.tar:x.npy", 2, 3, 0); /* others may be links */
}

static size_t maps_of_process(void) {
    FILE *file = fopen("/proc/self/maps", "r");
    size_t count = 0;
    assert_non_null(file);
    for (int letter; (letter = getc(file)) != EOF;) count += letter == '\n';
    fclose(file);
    return count;
}

/* An archive is one map of the process, of which it may have some ten thousands, however many
 * samples are in it. */
static void one_map(void **state) {
    (void)state;
    enum { SAMPLES = 100 };
    static const char zeros[1 << 14];
    ls_context *context = open();
    ls_dataset *dataset;
    char path[200];
    run("mkdir -p n");
    for (int i = 0; i < SAMPLES; i++) {
        char name[40];
        const int32_t one = i;
        snprintf(name, sizeof name, "n/%03d.x.npy", i);
        write_npy(name, "()", &one, 1);
        snprintf(name, sizeof name, "n/%03d.z", i);
        write_bytes(name, zeros, sizeof zeros); /* between one sample's page and the next */
    }
    run("tar -C n -cf n.tar --sort=name .");
    snprintf(path, sizeof path, "%s", in_folder("n.tar:x.npy"));
    const ls_dataset_array array = {.name = "x", .path = path};
    const ls_dataset_options options = {.device_bytes = 1}; /* it is streamed */
    const size_t before = maps_of_process();
    EXPECT_OK(context, ls_dataset_create(context, &array, 1, &options, &dataset));
    assert_int_equal(ls_dataset_samples(dataset), SAMPLES);
    assert_true(maps_of_process() < before + SAMPLES / 4);
    ls_dataset_destroy(dataset);
    ls_context_destroy(context);
}

/* Arrays of one data set are of the same samples. */
static void keys(void **state) {
    (void)state;
    ls_context *context = open();
    ls_dataset *dataset;
    char x[200], y[200];
    make_archives("gnu");
    run("cd s && tar -cf ../k.tar 0.x.npy 0.y.npy 1.x.npy 2.y.npy");
    snprintf(x, sizeof x, "%s", in_folder("k.tar:x.npy"));
    snprintf(y, sizeof y, "%s", in_folder("k.tar:y.npy"));
    const ls_dataset_array arrays[] = {{.name = "x", .path = x}, {.name = "y", .path = y}};
    EXPECT_FAILURE(context, LS_ERROR_FILE, ls_dataset_create(context, arrays, 2, NULL, &dataset),
                   "the samples of arrays `x` and `y` have other names", "");
    run("cd s && tar -cf ../k.tar 0.x.npy 0.y.npy 2.x.npy 2.y.npy");
    EXPECT_OK(context, ls_dataset_create(context, arrays, 2, NULL, &dataset));
    assert_int_equal(ls_dataset_samples(dataset), 2);
    ls_dataset_destroy(dataset);
    ls_context_destroy(context);
}

/* ---- many files, read ahead ---- */

enum { FILES = 300, IN_FILE = 4 };

static void many_files(void) {
    run("mkdir -p m");
    for (int i = 0; i < FILES; i++) {
        int32_t data[IN_FILE];
        char name[30];
        for (int k = 0; k < IN_FILE; k++) data[k] = IN_FILE * i + k;
        snprintf(name, sizeof name, "m/%04d.npy", i);
        write_npy(name, "(4,)", data, IN_FILE);
    }
}

/* A process may have fewer descriptors than a data set has files. */
static void few_descriptors(void **state) {
    (void)state;
    struct rlimit before;
    many_files();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){64, before.rlim_max});
    expect_numbers("m/*.npy", 1, FILES * IN_FILE, 0);
    setrlimit(RLIMIT_NOFILE, &before);
}

static const char text[] =
    "import \"std/data\"\n"
    "step read[s, b = 4](x: i32[s], inout at: i64 = 0, out batch: i32[b], data_count: i64,\n"
    "                    data_seed: i64, data_streamed: bool) {\n"
    "    let row = next_batch(at = at, count = data_count, seed = data_seed,\n"
    "                         streamed = data_streamed)\n"
    "    batch = x[row]\n"
    "}\n";

/* Seeks at any time, before the first batch and while the next ones are read. */
static void seeks(void **state) {
    (void)state;
    Fixture f = {.context = open()};
    ls_dataset *dataset;
    ls_split *split;
    ls_tensor batch;
    char path[200];
    int64_t place = 0;
    many_files();
    snprintf(path, sizeof path, "%s", in_folder("m/*.npy"));
    const ls_dataset_array array = {.name = "x", .path = path};
    EXPECT_OK(f.context, ls_program_load_text(f.context, "read.step", text, sizeof text - 1, NULL,
                                              &f.program));
    EXPECT_OK(f.context, ls_step_create(f.program, "read", &f.step));
    EXPECT_OK(f.context, ls_dataset_create(f.context, &array, 1,
                                           &(ls_dataset_options){.device_bytes = 1}, &dataset));
    assert_false(ls_dataset_resident(dataset));
    for (uint32_t slots = 0; slots < 6; slots += slots ? 1 : 2) {
        EXPECT_OK(f.context,
                  ls_split_create(dataset,
                                  &(ls_split_options){.batch = BATCH, .seed = 5, .slots = slots},
                                  &split));
        EXPECT_OK(f.context, ls_split_bind(split, f.step));
        EXPECT_OK(f.context, ls_step_want(f.step, "batch"));
        place = 0;
        for (int i = 0; i < 300; i++) {
            if (i % 7 == 3 || i % 11 == (int)slots) {
                place = i * 37 % 5000;
                EXPECT_OK(f.context, ls_split_seek(split, place));
                if (i % 2) EXPECT_OK(f.context, ls_split_seek(split, ++place));
            }
            EXPECT_OK(f.context, ls_split_next(split));
            EXPECT_OK(f.context, ls_step_launch(f.step));
            EXPECT_OK(f.context, ls_step_output(f.step, "batch", &batch));
            EXPECT_OK(f.context, ls_synchronize(f.context));
            for (int k = 0; k < BATCH; k++)
                assert_int_equal(((const int32_t *)batch.data)[k],
                                 ls_split_sample(split, place + k));
            place += BATCH;
        }
        ls_split_destroy(split);
    }
    EXPECT_OK(f.context, ls_split_create(dataset, &(ls_split_options){.batch = BATCH}, &split));
    ls_split_destroy(split); /* nothing was read */
    ls_step_destroy(f.step);
    f.step = NULL;
    ls_dataset_destroy(dataset);
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens),          cmocka_unit_test(archives), cmocka_unit_test(kinds),
        cmocka_unit_test(links),           cmocka_unit_test(one_map),  cmocka_unit_test(keys),
        cmocka_unit_test(few_descriptors), cmocka_unit_test(seeks)};
    if (!mkdtemp(folder)) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) != 0 || failed;
}
