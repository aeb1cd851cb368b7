/* soak.h: the uses of the runtime that a soak test repeats. */
#ifndef SOAK_H
#define SOAK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstep/lockstep.h>

typedef struct Soak {
    const char *device;
    ls_context *context;
    ls_program *program;
    ls_step *step;
    ls_graph *graph;
    void *memory;      /* of the device: p, another p, g, w */
    uint64_t launched; /* of `step` so far, in graphs too */
    char wrong[700];   /* the first call that did not do what it should; "": none */
} Soak;

/* uses.c: one row per use. `once` is the unit that is counted; what it opens it closes. */
typedef struct Use {
    const char *name;
    bool training; /* works on `step`, which is open before and closed after */
    void (*once)(Soak *soak, uint64_t turn);
    uint64_t warm_up; /* units before the first sample: the drivers of the tests keep the latest 128
                         pieces of memory that were given up */
} Use;
extern const Use uses[];
extern const size_t use_count;

void soak_works(Soak *soak, const ls_context *context, ls_status status, const char *call);
void soak_fails(Soak *soak, const ls_context *context, ls_status expected, ls_status status,
                const char *call);
void soak_open_training(Soak *soak);
void soak_close_training(Soak *soak);

/* soak_compiled.c and soak_images.c: where programs come from. The program's step is
 *   descend[r, n](inout p: f32[r, n], g: f32[r, n], out w: f32[r, n], inout count: i32 = 3,
 *                 lr: f32, out total: f64)
 */
ls_status soak_load(Soak *soak, ls_context *context, ls_program **program);
void soak_refused_programs(Soak *soak); /* what cannot be loaded */
void soak_choose_libraries(const char *device);
extern const char *const soak_devices[]; /* that can be asked for; NULL behind the last */

#endif
