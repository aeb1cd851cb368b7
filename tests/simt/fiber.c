/* fiber.c: ucontext makes the stacks; a switch is eight instructions where we have them, since
 * swapcontext asks the kernel about signals each time. */
#include "fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#if defined(__x86_64__)

/* Saves what a call must preserve on the stack, and the stack in *from; goes on where `to` was
 * saved. */
void fiber_switch(void **from, void *to);
__asm__(".text\n"
        ".globl fiber_switch\n"
        ".hidden fiber_switch\n"
        ".type fiber_switch, @function\n"
        "fiber_switch:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n"
        "    pushq %r13\n    pushq %r14\n    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n"
        "    popq %r12\n    popq %rbx\n    popq %rbp\n"
        "    ret\n"
        ".size fiber_switch, . - fiber_switch\n"
        ".section .note.GNU-stack,\"\",@progbits\n"
        ".text\n");
typedef void *Place;

#else

#include <ucontext.h>
typedef ucontext_t Place;

#endif

enum { GUARD = 4096 };

struct Fibers {
    size_t count, running;
    unsigned char *stacks;
    Place scheduler, *places;
    void (**run)(void *data);
    void **data;
};

static Fibers *entered; /* whose fiber has had the last turn */
static Fibers *spare;   /* closed last: the next are often as many */

static void release(Fibers *fibers) {
    if (!fibers) return;
    if (fibers->stacks) munmap(fibers->stacks, fibers->count * FIBER_STACK);
    free(fibers->places);
    free(fibers->run);
    free(fibers->data);
    free(fibers);
}

Fibers *fibers_open(size_t count) {
    Fibers *fibers = spare;
    spare = NULL;
    if (fibers && fibers->count == count) return fibers;
    release(fibers);
    fibers = calloc(1, sizeof *fibers);
    if (!fibers) return NULL;
    fibers->count = count;
    fibers->places = calloc(count, sizeof *fibers->places);
    fibers->run = calloc(count, sizeof *fibers->run);
    fibers->data = calloc(count, sizeof *fibers->data);
    fibers->stacks = mmap(NULL, count * FIBER_STACK, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fibers->stacks == MAP_FAILED) fibers->stacks = NULL;
    for (size_t i = 0; fibers->stacks && i < count; i++)
        if (mprotect(fibers->stacks + i * FIBER_STACK, GUARD, PROT_NONE) != 0) {
            release(fibers);
            return NULL;
        }
    if (fibers->places && fibers->run && fibers->data && fibers->stacks) return fibers;
    release(fibers);
    return NULL;
}

void fibers_close(Fibers *fibers) {
    if (!fibers) return;
    if (entered == fibers) entered = NULL;
    release(spare);
    spare = fibers;
}

bool fibers_own(const Fibers *fibers, const void *address) {
    return (uintptr_t)address - (uintptr_t)fibers->stacks < fibers->count * FIBER_STACK;
}

/* Where a new fiber begins; it is the one that has just been entered. */
static void begin(void) {
    Fibers *fibers = entered;
    fibers->run[fibers->running](fibers->data[fibers->running]);
    abort();
}

bool fiber_stack_is_full(const void *address) {
    return entered && fibers_own(entered, address) &&
           (size_t)((const unsigned char *)address - entered->stacks) % FIBER_STACK < GUARD;
}

#if defined(__x86_64__)

void fiber_start(Fibers *fibers, size_t index, void (*run)(void *data), void *data) {
    fibers->run[index] = run;
    fibers->data[index] = data;
    uintptr_t *top = (uintptr_t *)(void *)(fibers->stacks + (index + 1) * FIBER_STACK);
    *--top = 0; /* as if `begin` had been called: the stack is 8 off a multiple of 16 */
    *--top = (uintptr_t)begin;
    for (int i = 0; i < 6; i++) *--top = 0;
    fibers->places[index] = top;
}

void fiber_enter(Fibers *fibers, size_t index) {
    fibers->running = index;
    entered = fibers;
    fiber_switch(&fibers->scheduler, fibers->places[index]);
}

void fiber_leave(Fibers *fibers) {
    fiber_switch(&fibers->places[fibers->running], fibers->scheduler);
}

#else

void fiber_start(Fibers *fibers, size_t index, void (*run)(void *data), void *data) {
    Place *place = &fibers->places[index];
    fibers->run[index] = run;
    fibers->data[index] = data;
    getcontext(place);
    place->uc_stack.ss_sp = fibers->stacks + index * FIBER_STACK;
    place->uc_stack.ss_size = FIBER_STACK;
    place->uc_link = NULL;
    makecontext(place, begin, 0);
}

void fiber_enter(Fibers *fibers, size_t index) {
    fibers->running = index;
    entered = fibers;
    swapcontext(&fibers->scheduler, &fibers->places[index]);
}

void fiber_leave(Fibers *fibers) {
    swapcontext(&fibers->places[fibers->running], &fibers->scheduler);
}

#endif
