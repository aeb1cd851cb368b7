/* lockstep/ahead.h: what the files that `lockstep build` writes stand on.
 *
 * A trainer includes the generated header instead and calls its STEP_bind and STEP_launch. */
#ifndef LOCKSTEP_AHEAD_H
#define LOCKSTEP_AHEAD_H

#include <lockstep/lockstep.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where the fields of a generated argument structure lie, in bytes from its beginning. */
#define LS_NO_FIELD UINT32_MAX
/* With the offset of a parameter: the field is the value of a rank-0 parameter, no pointer. */
#define LS_FIELD_VALUE 0x80000000u
/* A length field for arrays without elements. One that was left 0 beside an array that is not NULL
 * is LS_ERROR_BIND, since it was most likely forgotten. */
#define LS_EMPTY INT64_MIN
typedef struct ls_ahead_fields {
    uint32_t version;     /* LS_IMAGE_VERSION of the compiler that made the file */
    const char *step;     /* "adamw" */
    const uint32_t *axes; /* by axis: its length, or LS_NO_FIELD where others give it */
    /* By parameter: its pointer, or its value; behind the last an int that says whether values were
     * begun with the step's defaults, LS_NO_FIELD where it has none. */
    const uint32_t *parameters;
} ls_ahead_fields;

/* A step of the best of `images` for the context's device, bound to what `arguments` holds. The
 * context keeps the kernels once they are loaded, so that a later call only binds; the step is the
 * caller's, to be destroyed before the context. Fields that are NULL stay unbound: device scalars
 * live in the step then, and an `out` may be asked for (ls_step_want); an array that is read is
 * missed. Ends with ls_step_prepare, unless a device scalar without a default is left for
 * ls_step_set. Errors as those of the calls that it makes; *step is then NULL. */
ls_status ls_ahead_bind(ls_context *context, const ls_image *const *images, size_t count,
                        const ls_ahead_fields *fields, const void *arguments, ls_step **step);
/* The same, one launch, and the step is gone again. */
ls_status ls_ahead_launch(ls_context *context, const ls_image *const *images, size_t count,
                          const ls_ahead_fields *fields, const void *arguments);

#ifdef __cplusplus
}
#endif
#endif
