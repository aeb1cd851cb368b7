/* test_texts.c: tests of what the command reads and writes as text: sizes, numbers, values, arrays
 * printed for people, JSON, and the word that was meant. */
#include "files.h"
#include "test_files.h"

#include <math.h>
#include <string.h>

/* ---- sizes, numbers, values ---- */

static void test_sizes(void) {
    static const struct {
        const char *text;
        int64_t size; /* -1: refused */
    } cases[] = {
        {"0", 0},
        {"64M", 64 << 20},
        {"1k", 1024},
        {"3G", 3LL << 30},
        {"", -1},
        {"K", -1},
        {"-1", -1},
        {"1.5M", -1},
        {"1KB", -1},
        {" 1", -1},
        {"1T", -1},
        {"8589934592G", -1},
        {"8589934591G", 8589934591LL << 30},
        {"9223372036854775807", INT64_MAX},
        {"9223372036854775808", -1},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        int64_t size = -1;
        bool good = size_parse(cases[i].text, &size);
        CHECK(good == (cases[i].size >= 0) && (!good || size == cases[i].size), "%s",
              cases[i].text);
    }
}

static void test_numbers(void) {
    static const struct {
        const char *text;
        ls_type type;
        const char *printed; /* NULL: refused */
    } cases[] = {
        {"1", LS_F32, "1.0"},
        {"0.1", LS_F32, "0.1"},
        {"1e-8", LS_F32, "1e-08"},
        {"-inf", LS_F32, "-inf"},
        {"nan", LS_BF16, "nan"},
        {"16777217", LS_F32, "16777216.0"},
        {"0.1", LS_F64, "0.1"},
        {"3", LS_I32, "3"},
        {"-3", LS_I32, "-3"},
        {"2147483647", LS_I32, "2147483647"},
        {"2147483648", LS_I32, NULL},
        {"-2147483648", LS_I32, "-2147483648"},
        {"-2147483649", LS_I32, NULL},
        {"18446744073709551615", LS_U64, "18446744073709551615"},
        {"18446744073709551616", LS_U64, NULL},
        {"-1", LS_U8, NULL},
        {"255", LS_U8, "255"},
        {"256", LS_U8, NULL},
        {"-9223372036854775808", LS_I64, "-9223372036854775808"},
        {"1.5", LS_I32, NULL},
        {"0xff", LS_U8, "255"},
        {"0xff", LS_F32, "255.0"},
        {"true", LS_BOOL, "true"},
        {"0", LS_BOOL, "false"},
        {"2", LS_BOOL, NULL},
        {"true", LS_F32, NULL},
        {"", LS_F32, NULL},
        {"1x", LS_F32, NULL},
        {"0x", LS_F32, NULL},
        {"1e", LS_F32, NULL},
        {"0x1p3", LS_F32, NULL},
        {"infinity", LS_F32, NULL},
        {"65504", LS_F16, "65504.0"},
        {"65520", LS_F16, "inf"},
        {"65519", LS_F16, "65504.0"},
        {"1e9", LS_E4M3, "448.0"},
        {"inf", LS_E4M3, "448.0"},
        {"464", LS_E4M3, "448.0"},
        {"-1e9", LS_E5M2, "-57344.0"},
        {"3.39e38", LS_BF16, "3.3895314e+38"},
        {"3.4e39", LS_BF16, "inf"},
        {"1.00390625", LS_BF16, "1.0"},
        {"1.01171875", LS_BF16, "1.015625"},
        {"6e-8", LS_F16, "5.9604645e-08"},
        {"0.001953125", LS_E4M3, "0.001953125"},
        {"0.0009765625", LS_E4M3, "0.0"},
        {"0.0146484375", LS_E4M3, "0.015625"},
        {"nan", LS_E4M3, "nan"},
        {"-0.0", LS_F16, "-0.0"},
        {"1e400", LS_F64, "inf"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        unsigned char element[8] = {0};
        char reason[200] = "", text[64] = "";
        bool good = number_parse(cases[i].text, cases[i].type, element, reason, sizeof reason);
        CHECK(good == (cases[i].printed != NULL), "'%s' as %s: %s", cases[i].text,
              type_names[cases[i].type].name, reason);
        if (!good || !cases[i].printed) continue;
        number_print(cases[i].type, element, text, sizeof text);
        CHECK(strcmp(text, cases[i].printed) == 0, "'%s' as %s gives %s", cases[i].text,
              type_names[cases[i].type].name, text);
    }
}

/* Every narrow float, printed and parsed, is itself again. */
static void test_narrow_floats(void) {
    static const ls_type types[] = {LS_F16, LS_BF16, LS_E4M3, LS_E5M2};
    for (size_t i = 0; i < COUNT(types); i++) {
        uint32_t patterns = type_names[types[i]].size == 2 ? 65536 : 256, wrong = 0;
        for (uint32_t bits = 0; bits < patterns; bits++) {
            char text[64], reason[100];
            uint32_t back = 0;
            number_print(types[i], &bits, text, sizeof text);
            if (strcmp(text, "nan") == 0) continue;
            if (types[i] == LS_E5M2 && strstr(text, "inf")) continue; /* parsing saturates */
            bool good = number_parse(text, types[i], &back, reason, sizeof reason);
            wrong += !good || back != bits;
        }
        CHECK(wrong == 0, "%s: %u patterns change", type_names[types[i]].name, wrong);
    }
}

static void test_values(void) {
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"1.5", NULL},
        {"true", NULL},
        {"x.npy", NULL},
        {"dir.safetensors/x.npy", NULL},
        {"m.safetensors", NULL},
        {"m.safetensors:layer.0.weight", NULL},
        {"zeros(2,3)", NULL},
        {"zeros", NULL},
        {"ones(1K)", NULL},
        {"full(2,3, 0.5)", NULL},
        {"full(7)", NULL},
        {"iota( 3 )", NULL},
        {"normal(2,3; 7)", NULL},
        {"normal(2,3)", NULL},
        {"normal(;7)", NULL},
        {"uniform", NULL},
        {"full", "needs the number"},
        {"zeros(2", "closing parenthesis"},
        {"zeros(2)x", "closing parenthesis"},
        {"zeros(2,)", "length of an axis"},
        {"zeros(x)", "length of an axis"},
        {"zeros(-1)", "length of an axis"},
        {"zeros(2; 7)", "a seed"},
        {"normal(2; x)", "a seed"},
        {"normal(2; 7, 8)", "a seed"},
        {"zeros(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)", "length"},
        {"zero(2)", "is no value"},
        {"x.np", "is no value"},
        {"", "is no value"},
        {".npy", "is no value"},
        {"a.npy+b.npy", NULL},
        {"zeros(2)+normal(3; 1)", NULL},
        {"a.safetensors:w+zeros(2)", NULL},
        {"a.npy+zero(2)", "is no value"},
        {"a.npy+", "is no value"},
        {"1e+5", NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        Value value;
        Failure why = {0};
        bool good = value_parse(cases[i].text, &value, &why);
        CHECK(good == !cases[i].message, "%s: %s", cases[i].text, why.text);
        if (!good && cases[i].message)
            CHECK(strstr(why.text, cases[i].message), "%s: %s", cases[i].text, why.text);
        if (good) value_free(&value);
    }
}

static bool made(const char *text, ls_type type, Array *array) {
    Value value;
    Failure why = {0};
    bool good =
        value_parse(text, &value, &why) && value_load(&value, "x", type, 0, NULL, array, &why);
    value_free(&value);
    return good;
}

static void test_generators(void) {
    Array array;
    Buffer text = {0};
    if (made("full(2,2, 1.5)", LS_BF16, &array)) {
        array_print(&array, &text);
        array_free(&array);
    }
    CHECK(text.data && strcmp(text.data, "[[1.5 1.5]\n [1.5 1.5]]") == 0, "%s", text.data);
    CHECK(!made("iota(300)", LS_U8, &array), "iota past the type");
    CHECK(!made("normal(3)", LS_I32, &array), "floats only");
    CHECK(!made("zeros(4294967296,4294967296)", LS_F32, &array), "more than memory");
    if (made("normal(100000; 3)", LS_F64, &array)) {
        const double *x = array.data;
        double sum = 0, squares = 0;
        for (size_t i = 0; i < 100000; i++) sum += x[i], squares += x[i] * x[i];
        CHECK(fabs(sum / 1e5) < 0.02 && fabs(squares / 1e5 - 1) < 0.02, "mean %g, variance %g",
              sum / 1e5, squares / 1e5);
        CHECK(x[0] == -0.6607094165639128, "the same numbers everywhere: %.17g", x[0]);
        array_free(&array);
    }
    buffer_free(&text);
}

static void test_print(void) {
    static const struct {
        const char *value;
        ls_type type;
        const char *text;
    } cases[] = {
        {"zeros(0)", LS_F32, "[]"},
        {"zeros(2,0)", LS_F32, "[] of shape [2, 0]"},
        {"iota(3)", LS_I32, "[0 1 2]"},
        {"iota(2000)", LS_I64, "[   0    1    2 ... 1997 1998 1999]"},
        {"ones(1,1,2)", LS_F32, "[[[1.0 1.0]]]"},
        {"zeros(2,1,1)", LS_BOOL, "[[[false]]\n\n [[false]]]"},
        {"zeros(40,40)", LS_U8,
         "[[0 0 0 ... 0 0 0]\n [0 0 0 ... 0 0 0]\n [0 0 0 ... 0 0 0]\n ...\n"
         " [0 0 0 ... 0 0 0]\n [0 0 0 ... 0 0 0]\n [0 0 0 ... 0 0 0]]"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        Array array = {0};
        Buffer text = {0};
        if (!made(cases[i].value, cases[i].type, &array)) {
            CHECK(false, "%s", cases[i].value);
            continue;
        }
        array_print(&array, &text);
        CHECK(strcmp(text.data, cases[i].text) == 0, "%s prints as\n%s", cases[i].value, text.data);
        array_free(&array);
        buffer_free(&text);
    }
}

static void test_json_writer(void) {
    JsonWriter json = {0};
    json_open(&json, NULL, '{');
    json_string(&json, "a \"key\"", "line\nbreak \xff\xc3\xa9\x01");
    json_open(&json, "list", '[');
    json_number(&json, NULL, 0.1);
    json_number(&json, NULL, (double)NAN);
    json_integer(&json, NULL, -5);
    json_close(&json, ']');
    json_open(&json, "empty", '{');
    json_close(&json, '}');
    json_close(&json, '}');
    JsonReader reader = json_reader(json.text.data, json.text.size);
    CHECK(json_skip(&reader) && json_end(&reader), "expected %s in %s", reader.error,
          json.text.data);
    CHECK(strstr(json.text.data, "\\nbreak \xef\xbf\xbd\xc3\xa9\\u0001"), "%s", json.text.data);
    CHECK(strstr(json.text.data, "null"), "%s", json.text.data);
    buffer_free(&json.text);
}

static void test_json_reader(void) {
    static const struct {
        const char *text;
        bool good;
    } cases[] = {
        {"{}", true},          {"[]", true},         {"[1,2.5e-3,-0]", true},
        {"\"\\u00e9\"", true}, {"null", true},       {"true", true},
        {"[[[]]]", true},      {"[1,]", false},      {"{\"a\":1,}", false},
        {"{a:1}", false},      {"[01]", false},      {"[1.]", false},
        {"[.5]", false},       {"[+1]", false},      {"nul", false},
        {"[1 2]", false},      {"{\"a\" 1}", false}, {"\"\\ud800\"", false},
        {"\"", false},         {"", false},          {"[1e]", false},
        {"NaN", false},        {"[1]]", false},      {"{\"a\":}", false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        JsonReader reader = json_reader(cases[i].text, strlen(cases[i].text));
        bool good = json_skip(&reader) && json_end(&reader);
        CHECK(good == cases[i].good, "%s", cases[i].text);
    }
    char deep[5000];
    memset(deep, '[', sizeof deep);
    JsonReader reader = json_reader(deep, sizeof deep);
    CHECK(!json_skip(&reader), "nesting without end");
}

static void test_nearest(void) {
    static const char *const names[] = {"check", "emit", "run", "bench", "devices"};
    static const struct {
        const char *word, *near;
    } cases[] = {{"chekc", "check"}, {"emti", "emit"},   {"rn", "run"}, {"device", "devices"},
                 {"zzz", NULL},      {"bemch", "bench"}, {"", NULL},    {"x", NULL}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *near = nearest(cases[i].word, names, COUNT(names));
        CHECK(near == cases[i].near || (near && cases[i].near && strcmp(near, cases[i].near) == 0),
              "%s: %s", cases[i].word, near ? near : "none");
    }
}

void test_texts(void) {
    test_sizes();
    test_numbers();
    test_narrow_floats();
    test_values();
    test_generators();
    test_print();
    test_json_writer();
    test_json_reader();
    test_nearest();
}
