/* soak_images.c: a program of a hand-made image, for the stand-ins of the GPUs' drivers: the
 * runtime without the compiler, at the speed of a driver that computes nothing. on_device.c, which
 * is linked in, makes the image one for the device. */
#include "fixtures.h"
#include "soak.h"

#include <stdio.h>
#include <string.h>

const char *const soak_devices[] = {API_DEVICE, NULL};

/* Made once: what is made for the device stays to the end. */
static const ls_image *image_of(const ls_context *context) {
    static const ls_image *image;
    if (!image) image = on_device(context, &image_descend);
    return image;
}

ls_status soak_load(Soak *soak, ls_context *context, ls_program **program) {
    const ls_image *images[] = {image_of(context)};
    (void)soak;
    return ls_program_from_images(context, images, 1, NULL, NULL, NULL, program);
}

void soak_refused_programs(Soak *soak) {
    ls_image older = *image_of(soak->context);
    const ls_image *images[] = {&older, NULL};
    ls_program *program = NULL;
    older.version--;
    soak_fails(soak, soak->context, LS_ERROR_UNSUPPORTED,
               ls_program_from_images(soak->context, images, 1, NULL, NULL, NULL, &program),
               "an image of another version");
    soak_fails(soak, soak->context, LS_ERROR_ARGUMENT,
               ls_program_from_images(soak->context, images + 1, 1, NULL, NULL, NULL, &program),
               "an image that is NULL");
}

void soak_choose_libraries(const char *device) {
    (void)device; /* on_device.c has */
}
