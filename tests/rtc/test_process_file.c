/* test_process_file.c: test_process.c, linked so that memory files cannot be had. */
#include "test_process.c"
