/* task.h: what runs tasks on a compilation. */
#ifndef LOCKSTEP_TASK_H
#define LOCKSTEP_TASK_H

/* task.c: gives the status back and keeps what ls_compilation_message says. */
ls_status task_keep_message(ls_compilation *c, ls_status status, const char *message);
/* Runs a task to its end or to where a pass unwinds, with numbers read and written as in the C
 * locale, whatever the program has set. */
ls_status task_run(ls_compilation *c, ls_status (*task)(ls_compilation *c, void *job), void *job);
/* A task: a step of the library (size_t *job) is compiled when it is first asked for. */
ls_status task_compile_late(ls_compilation *c, void *job);
/* LS_OK once the step of that number is compiled. */
ls_status task_find_step(ls_compilation *c, size_t step);

#endif
