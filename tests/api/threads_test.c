/* threads_test.c: starts the programs built for ThreadSanitizer (threads.c, comm_threads.c),
 * without the randomised addresses that its older versions cannot do with. Fails when one reports a
 * race. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    static const char *const workers[] = {THREADS_CUDA, THREADS_HIP, THREADS_COMM};
    int failed = 0;
    setenv("TSAN_OPTIONS", "exitcode=66 halt_on_error=0", 1);
    for (size_t i = 0; i < sizeof workers / sizeof *workers; i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            personality(ADDR_NO_RANDOMIZE);
            execl(workers[i], workers[i], (char *)NULL);
            perror(workers[i]);
            _exit(127);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
            printf("%s ended with %#x\n", workers[i], (unsigned)status);
            failed = 1;
        }
    }
    return failed;
}
