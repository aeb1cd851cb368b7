/* data.h: samples of a known linear model plus noise, the same on every machine. */
#ifndef LINREG_DATA_H
#define LINREG_DATA_H

#include <stddef.h>

/* x[samples][features] and weights are standard normal, y = x . weights + bias + noise * normal. */
void make_data(size_t samples, size_t features, float bias, float noise, float *x, float *y,
               float *weights);

#endif
