/* front.h: what every input must hold for; shared by the libFuzzer target and the driver of the
 * suite. */
#ifndef FRONT_H
#define FRONT_H

#include <stddef.h>
#include <stdint.h>

/* NULL, or what went wrong (valid until the next call). */
const char *front_check(const uint8_t *data, size_t size);
/* emission.c: the part of it behind the front end. */
const char *emission_check(const char *text, size_t size);

#endif
