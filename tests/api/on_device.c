/* on_device.c: the API tests on a GPU's driver: linked into a test, with --wrap for the two
 * functions below, it turns "cpu" (but not "cpu:0") into API_DEVICE and images for the CPU into
 * images for it.
 *
 * With STAND_IN_PATH the driver is tests/driver's stand-in, whose device memory is the host's, and
 * the kernels are the images' C functions. With EMULATED_PATH it is tests/simt's, which runs what
 * the compiler generates. Both end the process with 5 when something was not given back. */
#include "fixtures.h"
#include "stand_in.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

ls_status __real_ls_context_create(const char *device, void *stream, ls_context **context);
ls_status __wrap_ls_context_create(const char *device, void *stream, ls_context **context);
ls_status __wrap_ls_context_create(const char *device, void *stream, ls_context **context) {
    if (device && strcmp(device, "cpu") == 0) device = API_DEVICE;
    return __real_ls_context_create(device, stream, context);
}

#ifdef EMULATED_PATH
static void __attribute__((constructor)) choose_libraries(void) {
    setenv(API_VARIABLE, EMULATED_PATH, 1);
    setenv(API_COMPILER, EMULATED_PATH, 1);
    setenv("STAND_IN_BALANCE", "on", 1);
}
#else
static void __attribute__((constructor)) choose_libraries(void) {
    setenv(API_VARIABLE, STAND_IN_PATH, 1);
    setenv("STAND_IN_BALANCE", "on", 1);
}

typedef void Function(const void *, uint64_t, uint64_t, uint32_t, uint32_t);

/* An extent for one tensor, from the argument block: a ragged axis's word is its lengths' address.
 */
static uint64_t part_of(const ls_image *image, const ls_image_extent *extent, const uint64_t *words,
                        size_t tensor) {
    uint64_t value = extent->scale;
    for (uint32_t i = 0; i < extent->factor_count; i++) {
        const ls_image_factor *factor = &extent->factor[i];
        uint64_t product = 1;
        for (uint32_t axis = 0; axis < image->axis_count; axis++) {
            if (!(factor->axes >> axis & 1) || axis + 1 == extent->list) continue;
            const bool ragged = extent->list && image->axes[axis].parent == extent->list;
            product *= ragged ? ((const uint64_t *)(uintptr_t)words[axis])[tensor] : words[axis];
        }
        if (factor->within) {
            uint64_t most = 1;
            for (uint32_t axis = 0; axis < image->axis_count; axis++)
                if (factor->within >> axis & 1) most *= words[axis];
            product = product < most ? product : most;
        }
        product = product / factor->divide + (product % factor->divide != 0);
        value *= product > factor->minimum ? product : factor->minimum;
    }
    return value;
}

/* All of a kernel's items by one worker, as the CPU would with one thread. */
static void run(const StandInCode *code, const char *kernel, const uint64_t *words) {
    for (uint32_t i = 0; i < code->variant->kernel_count; i++) {
        const ls_image_kernel *row = &code->variant->kernels[i];
        if (strcmp(row->name, kernel) != 0) continue;
        const uint64_t tensors = row->items.list ? words[row->items.list - 1] : 1;
        uint64_t items = 0;
        for (uint64_t k = 0; k < tensors; k++) items += part_of(code->image, &row->items, words, k);
        Function *function = code->variant->functions[i];
        function(words, 0, items, 0, 1);
        return;
    }
    abort();
}

/* The words of a variant's argument block: see image.h. */
static size_t words_of(const ls_image *image, const ls_image_variant *variant) {
    size_t words = image->axis_count + image->parameter_count + variant->temporary_count +
                   2u * variant->table_count + (image->draws ? 2u : 0);
    for (uint32_t i = 0; variant->layout == LS_LAYOUT_STRIDED && i < image->parameter_count; i++)
        words += image->parameters[i].rank;
    return words;
}

/* What was made for one device stays to the end; the tests count what others allocate. */
static void *keep(size_t bytes) {
    static _Alignas(16) char room[64 << 20];
    static atomic_size_t used;
    size_t size = (bytes + 15) / 16 * 16, at = atomic_fetch_add(&used, size);
    if (at + size > sizeof room) abort();
    return room + at;
}

static bool converts(const ls_context *context, const ls_image *image) {
    return image && ls_context_kind(context) != LS_DEVICE_CPU && strcmp(image->target, "cpu") == 0;
}

const ls_image *on_device(const ls_context *context, const ls_image *image) {
    if (!converts(context, image)) return image;
    ls_image *made = keep(sizeof *made);
    ls_image_variant *variants = keep(image->variant_count * sizeof *variants);
    *made = *image;
    made->target = API_TARGET;
    made->variants = variants;
    for (uint32_t i = 0; i < image->variant_count; i++) {
        variants[i] = image->variants[i];
        if (!variants[i].functions) continue;
        StandInCode *code = keep(sizeof *code);
        *code = (StandInCode){STAND_IN_CODE, words_of(image, &variants[i]), run, image,
                              &image->variants[i]};
        variants[i].code = code;
        variants[i].code_size = sizeof *code;
        variants[i].functions = NULL;
    }
    return made;
}

ls_status __real_ls_program_from_images(ls_context *context, const ls_image *const *images,
                                        size_t count, ls_code_maker make, void *maker,
                                        void (*release)(void *maker), ls_program **program);
ls_status __wrap_ls_program_from_images(ls_context *context, const ls_image *const *images,
                                        size_t count, ls_code_maker make, void *maker,
                                        void (*release)(void *maker), ls_program **program);
ls_status __wrap_ls_program_from_images(ls_context *context, const ls_image *const *images,
                                        size_t count, ls_code_maker make, void *maker,
                                        void (*release)(void *maker), ls_program **program) {
    bool any = false;
    for (size_t i = 0; images && i < count; i++) any |= converts(context, images[i]);
    const ls_image **converted = any ? keep(count * sizeof *converted) : NULL;
    for (size_t i = 0; any && i < count; i++) converted[i] = on_device(context, images[i]);
    if (any) images = converted;
    return __real_ls_program_from_images(context, images, count, make, maker, release, program);
}
#endif
