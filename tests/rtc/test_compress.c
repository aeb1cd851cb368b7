/* test_compress.c: packed code comes back as it was, from any place in it; what is damaged is
 * refused, within its memory. */
#include "rtc_test.h"

enum { PIECE = 100, PIECES_MAX = 20000 };

static Compiler compiler;
static uint64_t seed;

static uint32_t random_number(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
}

/* The digits in pieces, as a C file has them. */
static const char **pieces_of(const Text *digits) {
    const char **pieces = arena_alloc(&compiler.arena, PIECES_MAX * sizeof *pieces);
    size_t count = 0;
    for (size_t at = 0; at < digits->size; at += PIECE) {
        const size_t left = digits->size - at;
        pieces[count++] =
            arena_copy(&compiler.arena, digits->data + at, left < PIECE ? left : PIECE);
    }
    assert_true(count < PIECES_MAX);
    return pieces;
}

static int unpack(const char **pieces, size_t at, size_t size, void **code) {
    const ls_image_packed packed = {pieces};
    const ls_image_variant variant = {.packed = &packed, .packed_at = at, .code_size = size};
    return ls_image_unpack(&variant, code);
}

static size_t check_text(const Text *text) {
    const Text digits = compress_code(&compiler.arena, text);
    const Text bytes = compress_bytes(&compiler.arena, text);
    const char **pieces = pieces_of(&digits);
    for (int i = 0; i < 4; i++) {
        const size_t at = i == 0 ? 0 : random_number() % (text->size + 1);
        const size_t size = i == 0 ? text->size : random_number() % (text->size - at + 1);
        void *code;
        assert_int_equal(unpack(pieces, at, size, &code), 1);
        assert_memory_equal(code, text->data + at, size);
        assert_int_equal(((char *)code)[size], 0);
        free(code);
        assert_int_equal(ls_image_unpack_bytes(bytes.data, bytes.size, at, size, &code), 1);
        assert_memory_equal(code, text->data + at, size);
        free(code);
    }
    return digits.size;
}

/* Bytes of so many values, some of them copied from before. */
static Text random_text(size_t size, uint32_t values, uint32_t copies) {
    Text text = text_open(&compiler.arena);
    while (text.size < size) {
        const size_t left = size - text.size;
        if (text.size && random_number() % 100 < copies) {
            const size_t from = random_number() % text.size;
            size_t length = 1 + random_number() % (random_number() % 8 ? 40 : 4000);
            if (length > text.size - from) length = text.size - from;
            text_add(&text, arena_copy(&compiler.arena, text.data + from, length),
                     length < left ? length : left);
        } else {
            const char byte = (char)(random_number() % values);
            text_add(&text, &byte, 1);
        }
    }
    return text;
}

static void comes_back(void **state) {
    (void)state;
    seed = 20261125;
    for (size_t size = 1; size < 40; size++) {
        const Text text = random_text(size, 256, 0);
        check_text(&text);
    }
    for (int i = 0; i < 200; i++) {
        const Text text = random_text(1 + random_number() % 20000, 1 + random_number() % 256,
                                      random_number() % 100);
        check_text(&text);
    }
}

static void is_small(void **state) {
    (void)state;
    seed = 1;
    const Text zeros = random_text(1000000, 1, 0);
    assert_true(check_text(&zeros) < 100);
    const Text noise = random_text(100000, 256, 0); /* base 85 and the counts alone */
    assert_true(check_text(&noise) < 126000);
    Text twice = random_text(100000, 256, 0);
    text_add(&twice, arena_copy(&compiler.arena, twice.data, twice.size), twice.size);
    assert_true(check_text(&twice) < 126000);
}

/* Under AddressSanitizer and valgrind this shows that nothing else is touched. */
static void damage_is_refused(void **state) {
    (void)state;
    seed = 2;
    size_t refused = 0;
    const Text text = random_text(3000, 50, 40), digits = compress_code(&compiler.arena, &text);
    for (int i = 0; i < 2000; i++) {
        Text bad = text_open(&compiler.arena);
        const size_t size = i % 2 ? digits.size : random_number() % digits.size;
        void *code;
        text_add(&bad, digits.data, size);
        for (int k = 0; i % 2 && k < 3; k++)
            bad.data[random_number() % size] = (char)(1 + random_number() % 255);
        const int status = unpack(pieces_of(&bad), 0, text.size, &code);
        assert_true(status == 1 || status == -1);
        assert_true((status == 1) == (code != NULL));
        if (i % 2 == 0) assert_int_equal(status, -1);
        refused += status != 1;
        free(code);
    }
    assert_true(refused > 1500);
    const Text bytes = compress_bytes(&compiler.arena, &text);
    for (size_t size = 0; size + 1 < bytes.size; size++) { /* the last one may end nothing */
        void *cut = malloc(size + 1); /* so that AddressSanitizer knows its end */
        void *code;
        assert_non_null(cut);
        memcpy(cut, bytes.data, size);
        assert_int_equal(ls_image_unpack_bytes(cut, size, 0, text.size, &code), -1);
        assert_null(code);
        free(cut);
    }
    void *code;
    const char **pieces = pieces_of(&digits);
    assert_int_equal(unpack(pieces, 1, SIZE_MAX - 1, &code), 0);
    assert_int_equal(unpack(pieces, SIZE_MAX, 2, &code), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back),
        cmocka_unit_test(is_small),
        cmocka_unit_test(damage_is_refused),
    };
    arena_open(&compiler.arena, &compiler);
    if (setjmp(compiler.unwind)) return 1;
    const int failed = cmocka_run_group_tests_name("compress", tests, NULL, NULL);
    arena_close(&compiler.arena);
    return failed;
}
