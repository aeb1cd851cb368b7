/* test_files.h: what the tests of the command's files and of its texts share. */
#ifndef TEST_FILES_H
#define TEST_FILES_H

extern int failures;

#define CHECK(condition, ...)                                      \
    do {                                                           \
        if (!(condition)) {                                        \
            failures++;                                            \
            printf("%s:%d: %s: ", __FILE__, __LINE__, #condition); \
            printf(__VA_ARGS__);                                   \
            printf("\n");                                          \
        }                                                          \
    } while (0)

/* test_texts.c */
void test_texts(void);

#endif
