/* test_cache.c: the cache trusts only what it wrote and nobody else could have changed, and
 * whatever is wrong costs time only. */
#include "rtc_test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>

/* Stand for those of the compiler, so that a test can change them. */
static const char *version = "1.2.3";
static uint64_t numeric = 7;
const char *compiler_version(void) {
    return version;
}
uint64_t numeric_version(void) {
    return numeric;
}

enum { OTHER_USER = 65534 };
static const char image[] = "an image, thirty-odd bytes of it";

static int setup(void **state) {
    if (make_folder(state) != 0) return -1;
    unsetenv("LOCKSTEP_CACHE");
    return setenv("LOCKSTEP_CACHE_DIR", test_folder, 1);
}

static CacheKey key_of(const char *source) {
    return cache_key(source, strlen(source), "cpu", "", "cc");
}

static bool holds(const CacheKey *key, const void *data, size_t size) {
    void *loaded;
    size_t loaded_size;
    bool hit = cache_load(key, &loaded, &loaded_size);
    bool same = hit && loaded_size == size && memcmp(loaded, data, size) == 0 &&
                ((char *)loaded)[size] == 0;
    assert_true(hit == same); /* never a wrong image */
    assert_true(hit || !loaded);
    free(loaded);
    return hit;
}

static char *path_of(const CacheKey *key) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", test_folder, key->text);
    return path;
}

static void write_file(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* ---- SHA-256 ---- */

static void hash_is(const char *text, size_t repeat, const char *expected) {
    uint8_t digest[32];
    char hexadecimal[65];
    Sha256 hash = sha256_open();
    for (size_t i = 0; i < repeat; i++) sha256_add(&hash, text, strlen(text));
    sha256_close(&hash, digest);
    for (size_t i = 0; i < 32; i++) snprintf(hexadecimal + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(hexadecimal, expected);
}

static void sha256_known_answers(void **state) { /* FIPS 180-4's examples */
    (void)state;
    hash_is("", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    hash_is("abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    hash_is("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    hash_is("a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void sha256_in_pieces(void **state) {
    uint8_t text[200], whole[32], pieces[32];
    (void)state;
    for (size_t i = 0; i < sizeof text; i++) text[i] = (uint8_t)(i * 37);
    for (size_t size = 0; size <= sizeof text; size++)
        for (size_t cut = 0; cut <= size; cut += 13) {
            Sha256 a = sha256_open(), b = sha256_open();
            sha256_add(&a, text, size);
            sha256_add(&b, text, cut);
            sha256_add(&b, text + cut, size - cut);
            sha256_close(&a, whole);
            sha256_close(&b, pieces);
            assert_memory_equal(whole, pieces, 32);
        }
}

/* ---- keys ---- */

static void key_depends_on_everything(void **state) {
    (void)state;
    CacheKey keys[12];
    size_t count = 0;
    keys[count++] = cache_key("source", 6, "sm_90", "exact", "nvrtc");
    keys[count++] = cache_key("source", 5, "sm_90", "exact", "nvrtc");
    keys[count++] = cache_key("sourcf", 6, "sm_90", "exact", "nvrtc");
    keys[count++] = cache_key("source", 6, "sm_80", "exact", "nvrtc");
    keys[count++] = cache_key("source", 6, "sm_90", "fast", "nvrtc");
    keys[count++] = cache_key("source", 6, "sm_90", "exact", "nvrtd");
    keys[count++] =
        cache_key("source", 6, "sm_90e", "xact", "nvrtc"); /* no field runs into the next */
    keys[count++] = cache_key("csource", 7, "sm_90", "exact", "nvrt");
    keys[count++] = cache_key("source", 6, "sm_90", "exact", NULL);
    numeric++;
    keys[count++] = cache_key("source", 6, "sm_90", "exact", "nvrtc");
    numeric--;
    version = "1.2.4";
    keys[count++] = cache_key("source", 6, "sm_90", "exact", "nvrtc");
    version = "1.2.3";
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(strspn(keys[i].text, "0123456789abcdef"), 64);
        for (size_t j = 0; j < i; j++) assert_string_not_equal(keys[i].text, keys[j].text);
    }
    keys[count] = cache_key("source", 6, "sm_90", "exact", "nvrtc");
    assert_string_equal(keys[count].text, keys[0].text);
}

/* ---- hits and misses ---- */

static void miss_then_hit(void **state) {
    CacheKey key = key_of("a"), other = key_of("b");
    (void)state;
    assert_false(holds(&key, image, sizeof image));
    cache_store(&key, image, sizeof image);
    assert_true(holds(&key, image, sizeof image));
    assert_false(holds(&other, image, sizeof image));
    cache_store(&key, "new", 3); /* replaces */
    assert_true(holds(&key, "new", 3));
    cache_store(&other, "", 0);
    assert_true(holds(&other, "", 0));
    assert_int_equal(files_in(test_folder), 2); /* no temporary file is left */
}

static size_t read_entry(const CacheKey *key, uint8_t *data, size_t size) {
    FILE *file = fopen(path_of(key), "rb");
    assert_non_null(file);
    size_t got = fread(data, 1, size, file);
    fclose(file);
    return got;
}

static void truncated_or_longer_is_a_miss(void **state) {
    CacheKey key = key_of("a");
    uint8_t entry[512];
    (void)state;
    cache_store(&key, image, sizeof image);
    size_t size = read_entry(&key, entry, sizeof entry);
    for (size_t length = 0; length < size; length++) {
        write_file(path_of(&key), entry, length);
        assert_false(holds(&key, image, sizeof image));
    }
    entry[size] = 0;
    write_file(path_of(&key), entry, size + 1);
    assert_false(holds(&key, image, sizeof image));
    cache_store(&key, image, sizeof image);
    assert_true(holds(&key, image, sizeof image));
}

static void any_flipped_bit_is_a_miss(void **state) {
    CacheKey key = key_of("a");
    uint8_t entry[512];
    (void)state;
    cache_store(&key, image, sizeof image);
    size_t size = read_entry(&key, entry, sizeof entry);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        entry[bit / 8] ^= (uint8_t)(1u << bit % 8);
        write_file(path_of(&key), entry, size);
        entry[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(holds(&key, image, sizeof image));
    }
    write_file(path_of(&key), entry, size);
    assert_true(holds(&key, image, sizeof image));
}

static void another_keys_entry_is_a_miss(void **state) {
    CacheKey key = key_of("a"), other = key_of("b");
    char from[256];
    (void)state;
    cache_store(&key, image, sizeof image);
    strcpy(from, path_of(&key));
    assert_int_equal(rename(from, path_of(&other)), 0);
    assert_false(holds(&other, image, sizeof image));
}

/* ---- who may have written it ---- */

static void writable_by_others_is_not_trusted(void **state) {
    CacheKey key = key_of("a");
    ls_cache_stats stats;
    (void)state;
    cache_store(&key, image, sizeof image);
    struct stat status;
    assert_int_equal(stat(path_of(&key), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(chmod(path_of(&key), 0620), 0);
    assert_false(holds(&key, image, sizeof image));
    assert_int_equal(chmod(path_of(&key), 0644), 0);
    assert_true(holds(&key, image, sizeof image));
    for (mode_t mode = 0; mode <= 022; mode += 2) {
        bool safe = (mode & 022) == 0;
        assert_int_equal(chmod(test_folder, 0700 | mode), 0);
        assert_int_equal(holds(&key, image, sizeof image), safe);
        assert_int_equal(ls_cache_read_stats(&stats, 0), LS_OK);
        assert_int_equal(stats.usable, safe);
        if (!safe) assert_says(stats.reason, "other users may write");
        CacheKey fresh = key_of("fresh");
        cache_store(&fresh, image, sizeof image);
        assert_int_equal(access(path_of(&fresh), F_OK) == 0, safe);
        unlink(path_of(&fresh));
    }
}

static void another_users_is_not_trusted(void **state) {
    CacheKey key = key_of("a");
    ls_cache_stats stats;
    (void)state;
    if (geteuid() != 0) skip();
    cache_store(&key, image, sizeof image);
    assert_int_equal(chown(path_of(&key), OTHER_USER, (gid_t)-1), 0);
    assert_false(holds(&key, image, sizeof image));
    cache_store(&key, image, sizeof image); /* replaces it */
    assert_true(holds(&key, image, sizeof image));
    assert_int_equal(chown(test_folder, OTHER_USER, (gid_t)-1), 0);
    assert_false(holds(&key, image, sizeof image));
    assert_int_equal(ls_cache_read_stats(&stats, 0), LS_OK);
    assert_false(stats.usable);
    assert_says(stats.reason, "another user");
}

static void odd_entries_are_misses(void **state) {
    CacheKey key = key_of("a");
    char target[256];
    (void)state;
    snprintf(target, sizeof target, "%s/elsewhere", test_folder);
    cache_store(&key, image, sizeof image);
    assert_int_equal(rename(path_of(&key), target), 0);
    assert_int_equal(symlink(target, path_of(&key)),
                     0); /* a good entry, but not where it belongs */
    assert_false(holds(&key, image, sizeof image));
    cache_store(&key, image, sizeof image); /* replaces the link, not what it points to */
    assert_true(holds(&key, image, sizeof image));
    unlink(path_of(&key));
    assert_int_equal(mkfifo(path_of(&key), 0600), 0);
    assert_false(holds(&key, image, sizeof image)); /* and does not wait for a writer */
    unlink(path_of(&key));
    assert_int_equal(mkdir(path_of(&key), 0700), 0);
    assert_false(holds(&key, image, sizeof image));
    cache_store(&key, image, sizeof image);
    assert_false(holds(&key, image, sizeof image));
    assert_int_equal(files_in(test_folder), 2);
}

/* ---- the directory ---- */

static int read_only_use(void *data) {
    const CacheKey *key = data;
    void *loaded;
    size_t size;
    ls_cache_stats stats;
    if (geteuid() == 0 && setuid(OTHER_USER) != 0) return 2;
    if (!cache_load(key, &loaded, &size)) return 3;
    free(loaded);
    CacheKey fresh = key_of("fresh");
    cache_store(&fresh, image, sizeof image);
    if (cache_load(&fresh, &loaded, &size)) return 4;
    if (ls_cache_read_stats(&stats, 0) != LS_OK || stats.usable || stats.entries != 1) return 5;
    if (!strstr(stats.reason, "nothing new")) return 6;
    return ls_cache_clear(NULL) == LS_ERROR_FILE ? 0 : 7;
}

static void read_only_still_hits(void **state) {
    CacheKey key = key_of("a");
    (void)state;
    cache_store(&key, image, sizeof image);
    if (geteuid() == 0) { /* root may write anywhere: become somebody */
        assert_int_equal(chown(path_of(&key), OTHER_USER, (gid_t)-1), 0);
        assert_int_equal(chown(test_folder, OTHER_USER, (gid_t)-1), 0);
    }
    assert_int_equal(chmod(test_folder, 0500), 0);
    assert_int_equal(in_child(read_only_use, &key), 0);
}

static int full_disk_use(void *data) {
    (void)data;
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &(struct rlimit){100, 100}) != 0) return 2;
    char large[1000] = {1};
    CacheKey key = key_of("large");
    void *loaded;
    size_t size;
    cache_store(&key, large, sizeof large);
    return cache_load(&key, &loaded, &size) ? 3 : 0;
}

static void full_disk_leaves_nothing(void **state) {
    (void)state;
    assert_int_equal(in_child(full_disk_use, NULL), 0);
    assert_int_equal(files_in(test_folder), 0);
}

static void switched_off(void **state) {
    CacheKey key = key_of("a");
    ls_cache_stats stats;
    (void)state;
    cache_store(&key, image, sizeof image);
    setenv("LOCKSTEP_CACHE", "off", 1);
    assert_false(holds(&key, image, sizeof image));
    CacheKey fresh = key_of("fresh");
    cache_store(&fresh, image, sizeof image);
    assert_int_equal(ls_cache_read_stats(&stats, 0), LS_OK);
    assert_false(stats.usable);
    assert_says(stats.reason, "LOCKSTEP_CACHE=off");
    unsetenv("LOCKSTEP_CACHE");
    assert_true(holds(&key, image, sizeof image));
    assert_false(holds(&fresh, image, sizeof image));
}

static void directory_of(const char *expected) {
    ls_cache_stats stats;
    char path[256];
    snprintf(path, sizeof path, "%s%s", test_folder, expected);
    assert_int_equal(ls_cache_read_stats(&stats, 0), LS_OK);
    assert_true(stats.usable);
    assert_string_equal(stats.directory, path);
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
}

static void where_it_is(void **state) {
    char path[256], *home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    ls_cache_stats stats;
    (void)state;
    umask(0);
    snprintf(path, sizeof path, "%s/a/b//c", test_folder);
    setenv("LOCKSTEP_CACHE_DIR", path, 1);
    directory_of("/a/b//c");
    unsetenv("LOCKSTEP_CACHE_DIR");
    snprintf(path, sizeof path, "%s/xdg", test_folder);
    setenv("XDG_CACHE_HOME", path, 1);
    directory_of("/xdg/lockstep");
    setenv("XDG_CACHE_HOME", "not/absolute", 1);
    snprintf(path, sizeof path, "%s/home", test_folder);
    setenv("HOME", path, 1);
    directory_of("/home/.cache/lockstep");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    assert_int_equal(ls_cache_read_stats(&stats, 0), LS_OK);
    assert_false(stats.usable);
    assert_says(stats.reason, "HOME");
    snprintf(path, sizeof path, "%s/file", test_folder);
    write_file(path, "x", 1);
    setenv("LOCKSTEP_CACHE_DIR", path, 1);
    assert_int_equal(ls_cache_read_stats(&stats, 0), LS_OK);
    assert_false(stats.usable);
    assert_says(stats.reason, "Not a directory");
    CacheKey key = key_of("a");
    cache_store(&key, image, sizeof image); /* costs nothing but time */
    assert_false(holds(&key, image, sizeof image));
    if (home) setenv("HOME", home, 1);
    free(home);
}

/* ---- all of it ---- */

static void stats_verify_and_clear(void **state) {
    ls_cache_stats stats;
    char path[256];
    uint64_t removed;
    (void)state;
    for (char name = 'a'; name <= 'e'; name++) {
        CacheKey key = key_of((char[]){name, 0});
        cache_store(&key, image, sizeof image);
        if (name >= 'd') assert_int_equal(truncate(path_of(&key), 60), 0);
    }
    snprintf(path, sizeof path, "%s/notes.txt", test_folder);
    write_file(path, "not ours", 8);
    assert_int_equal(ls_cache_read_stats(&stats, 0), LS_OK);
    assert_true(stats.usable);
    assert_string_equal(stats.reason, "");
    assert_string_equal(stats.directory, test_folder);
    assert_int_equal(stats.entries, 5);
    assert_int_equal(stats.bytes, 3 * (56 + sizeof image) + 2 * 60);
    assert_int_equal(stats.damaged, 0); /* nobody looked */
    assert_int_equal(ls_cache_read_stats(&stats, 1), LS_OK);
    assert_int_equal(stats.entries, 3);
    assert_int_equal(stats.damaged, 2);
    assert_int_equal(ls_cache_read_stats(&stats, 1), LS_OK);
    assert_int_equal(stats.damaged, 0); /* they are gone */
    assert_int_equal(ls_cache_clear(&removed), LS_OK);
    assert_int_equal(removed, 3);
    assert_int_equal(files_in(test_folder), 1); /* what is not ours stays */
    assert_int_equal(ls_cache_clear(NULL), LS_OK);
    assert_int_equal(ls_cache_read_stats(NULL, 0), LS_ERROR_ARGUMENT);
}

static void age(const char *path, long seconds) {
    struct timespec times[2];
    clock_gettime(CLOCK_REALTIME, &times[0]);
    times[0].tv_sec -= seconds;
    times[1] = times[0];
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void oldest_go_first(void **state) {
    char path[256];
    (void)state;
    for (int i = 0; i < 10; i++) {
        CacheKey key = key_of((char[]){(char)('a' + i), 0});
        cache_store(&key, image, sizeof image);
        age(path_of(&key), 1000 - 100 * i);
    }
    snprintf(path, sizeof path, "%s/unfinished-1-old", test_folder);
    write_file(path, "half", 4);
    age(path, 100000);
    snprintf(path, sizeof path, "%s/unfinished-2-new", test_folder);
    write_file(path, "half", 4);
    cache_trim(3 * (56 + sizeof image) + 10);
    for (int i = 0; i < 10; i++) {
        CacheKey key = key_of((char[]){(char)('a' + i), 0});
        assert_int_equal(holds(&key, image, sizeof image), i >= 7);
    }
    assert_int_equal(files_in(test_folder), 4); /* the one being written stays */
}

static void use_keeps_young(void **state) {
    CacheKey key = key_of("a");
    struct stat status;
    (void)state;
    cache_store(&key, image, sizeof image);
    age(path_of(&key), 10 * 86400);
    assert_true(holds(&key, image, sizeof image));
    assert_int_equal(stat(path_of(&key), &status), 0);
    assert_true(status.st_mtime > time(NULL) - 3600);
}

/* ---- many at once ---- */

enum { KEYS = 4, ROUNDS = 400, WORKERS = 6 };

/* The image of key k, made so that every byte is known. */
static void fill(uint8_t *data, size_t size, size_t k) {
    for (size_t i = 0; i < size; i++) data[i] = (uint8_t)(i * 7 + k);
}

static int worker(void *data) {
    int number = *(int *)data, hits = 0;
    uint8_t expected[5000];
    for (int round = 0; round < ROUNDS; round++) {
        size_t k = (size_t)(round + number) % KEYS, size = 1000 * (k + 1);
        CacheKey key = key_of((char[]){(char)('a' + k), 0});
        void *loaded;
        size_t loaded_size;
        fill(expected, size, k);
        if (cache_load(&key, &loaded, &loaded_size)) {
            hits++;
            if (loaded_size != size || memcmp(loaded, expected, size) != 0) return 2;
            free(loaded);
        } else {
            cache_store(&key, expected, size);
        }
        if (number == 0 && round % 16 == 0 && ls_cache_clear(NULL) != LS_OK) return 3;
        if (number == 1 && round % 16 == 0) cache_trim(2500);
        if (number == 2 && round % 4 == 0) cache_store(&key, expected, size);
    }
    return hits > 0 ? 0 : 4;
}

static void many_processes_at_once(void **state) {
    pid_t children[WORKERS];
    (void)state;
    fflush(NULL);
    for (int i = 0; i < WORKERS; i++) {
        children[i] = fork();
        if (children[i] == 0) _exit(worker(&i));
        assert_true(children[i] > 0);
    }
    for (int i = 0; i < WORKERS; i++) {
        int status = -1;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    assert_int_equal(ls_cache_clear(NULL), LS_OK);
    assert_int_equal(files_in(test_folder), 0);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, remove_folder)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_known_answers),
        cmocka_unit_test(sha256_in_pieces),
        cmocka_unit_test(key_depends_on_everything),
        TEST(miss_then_hit),
        TEST(truncated_or_longer_is_a_miss),
        TEST(any_flipped_bit_is_a_miss),
        TEST(another_keys_entry_is_a_miss),
        TEST(writable_by_others_is_not_trusted),
        TEST(another_users_is_not_trusted),
        TEST(odd_entries_are_misses),
        TEST(read_only_still_hits),
        TEST(full_disk_leaves_nothing),
        TEST(switched_off),
        TEST(where_it_is),
        TEST(stats_verify_and_clear),
        TEST(oldest_go_first),
        TEST(use_keeps_young),
        TEST(many_processes_at_once),
    };
    return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
