/* switch.c: what every program with mutants is linked with. MUTANT names the mutant that is on, by
 * its number; MUTANTS_REACHED a file of one byte for each, in which a program and all that it
 * starts mark those whose place they came to. Its size is MUTANTS. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static unsigned char unread[MUTANTS];
int mutant_switch = -1;
unsigned char *mutants_reached = unread;

__attribute__((constructor)) static void mutants_begin(void) {
    const char *number = getenv("MUTANT"), *path = getenv("MUTANTS_REACHED");
    if (number) mutant_switch = atoi(number);
    const int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, MUTANTS, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) mutants_reached = mapped;
    close(file);
}
