/* fiber.h: stacks that take turns within one thread. */
#ifndef FIBER_H
#define FIBER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct Fibers Fibers;

/* Of each stack; its last page cannot be touched. Kernels are compiled without optimisation, and
 * those of large programs have frames of several hundred kilobytes. */
enum { FIBER_STACK = 4 * 1024 * 1024 };

/* `count` stacks; NULL when memory is out. */
Fibers *fibers_open(size_t count);
void fibers_close(Fibers *fibers);
/* Makes fiber `index` begin anew: its next turn calls run(data), which must end in fiber_leave. */
void fiber_start(Fibers *fibers, size_t index, void (*run)(void *data), void *data);
/* Gives fiber `index` a turn; back when it leaves. */
void fiber_enter(Fibers *fibers, size_t index);
/* Whether the address lies on one of the stacks. */
bool fibers_own(const Fibers *fibers, const void *address);
/* Whether the address lies on the page at the end of a stack: the stack is full. */
bool fiber_stack_is_full(const void *address);
/* In the running fiber: ends its turn. Back at its next one. */
void fiber_leave(Fibers *fibers);

#endif
