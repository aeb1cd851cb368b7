/* plain.c: the arithmetic of gpt2.step as a C programmer would write it: what a step fuses is one
 * function here, too. plain_fast.c has it again, compiled with -Ofast. */
#include "minigpt.h"

#include <math.h>
#include <string.h>

/* y = norm(x), a row. */
static void norm_row(const float *x, const float *gain, const float *shift, float *y, float *mean,
                     float *rstd, int64_t count) {
    float sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) sum += x[i];
    const float middle = sum / (float)count;
    for (int64_t i = 0; i < count; i++) squares += (x[i] - middle) * (x[i] - middle);
    const float scale = 1 / sqrtf(squares / (float)count + 1e-5f);
    for (int64_t i = 0; i < count; i++) y[i] = (x[i] - middle) * scale * gain[i] + shift[i];
    *mean = middle;
    *rstd = scale;
}

static void encode(const Call *call) {
    const struct encode_args *a = &call->with.encode;
    for (int64_t row = 0; row < a->b * a->t; row++) {
        const float *class = a->classes + a->token[row] * a->c;
        const float *place = a->places + row % a->t * a->c;
        float *restrict x = a->x + row * a->c;
        for (int64_t i = 0; i < a->c; i++) x[i] = class[i] + place[i];
    }
}

static void encode_backward(const Call *call) {
    const struct encode_backward_args *a = &call->with.encode_backward;
    for (int64_t row = 0; row < a->b * a->t; row++) {
        float *class = a->dclasses + a->token[row] * a->c;
        float *place = a->dplaces + row % a->t * a->c;
        const float *dx = a->dx + row * a->c;
        for (int64_t i = 0; i < a->c; i++) {
            class[i] += dx[i];
            place[i] += dx[i];
        }
    }
}

static void norm(const Call *call) {
    const struct norm_args *a = &call->with.norm;
    for (int64_t r = 0; r < a->r; r++)
        norm_row(a->x + r * a->c, a->gain, a->shift, a->y + r * a->c, a->mean + r, a->rstd + r,
                 a->c);
}

static void add_norm(const Call *call) {
    const struct add_norm_args *a = &call->with.add_norm;
    for (int64_t r = 0; r < a->r; r++) {
        const float *x = a->x + r * a->c, *branch = a->branch + r * a->c;
        float *restrict h = a->h + r * a->c;
        for (int64_t i = 0; i < a->c; i++) h[i] = x[i] + (branch[i] + a->bias[i]);
        norm_row(h, a->gain, a->shift, a->y + r * a->c, a->mean + r, a->rstd + r, a->c);
    }
}

/* dbias NULL: there is no branch before this norm. */
static void norm_backward_rows(const struct norm_backward_args *a, float *restrict dbias) {
    float *restrict dgain = a->dgain, *restrict dshift = a->dshift;
    for (int64_t r = 0; r < a->r; r++) {
        const float *h = a->h + r * a->c, *dy = a->dy + r * a->c;
        float *restrict dh = a->dh + r * a->c;
        const float middle = a->mean[r], scale = a->rstd[r];
        float slopes = 0, along = 0;
        for (int64_t i = 0; i < a->c; i++) {
            const float normal = (h[i] - middle) * scale, slope = dy[i] * a->gain[i];
            slopes += slope;
            along += slope * normal;
        }
        slopes /= (float)a->c;
        along /= (float)a->c;
        for (int64_t i = 0; i < a->c; i++) {
            const float normal = (h[i] - middle) * scale;
            dgain[i] += dy[i] * normal;
            dshift[i] += dy[i];
            dh[i] += (dy[i] * a->gain[i] - slopes - normal * along) * scale;
        }
        for (int64_t i = 0; dbias && i < a->c; i++) dbias[i] += dh[i];
    }
}

static void norm_backward(const Call *call) {
    norm_backward_rows(&call->with.norm_backward, NULL);
}

static void add_norm_backward(const Call *call) {
    const struct add_norm_backward_args *a = &call->with.add_norm_backward;
    const struct norm_backward_args norm = {.r = a->r,
                                            .c = a->c,
                                            .h = a->h,
                                            .gain = a->gain,
                                            .mean = a->mean,
                                            .rstd = a->rstd,
                                            .dy = a->dy,
                                            .dh = a->dh,
                                            .dgain = a->dgain,
                                            .dshift = a->dshift};
    norm_backward_rows(&norm, a->dbias);
}

static void add_bias(const Call *call) {
    const struct add_bias_args *a = &call->with.add_bias;
    for (int64_t r = 0; r < a->r; r++) {
        float *restrict y = a->y + r * a->d;
        for (int64_t i = 0; i < a->d; i++) y[i] += a->bias[i];
    }
}

static void add_bias_backward(const Call *call) {
    const struct add_bias_backward_args *a = &call->with.add_bias_backward;
    float *restrict dbias = a->dbias;
    for (int64_t r = 0; r < a->r; r++)
        for (int64_t i = 0; i < a->d; i++) dbias[i] += a->dy[r * a->d + i];
}

/* sqrt(2 / pi) and the cube's factor in GELU's approximation by tanh */
static const float slope_at_0 = 0.7978845608f, cubic = 0.044715f;

static void activate(const Call *call) {
    const struct activate_args *a = &call->with.activate;
    for (int64_t r = 0; r < a->r; r++) {
        const float *up = a->up + r * a->d;
        float *restrict y = a->y + r * a->d;
        for (int64_t i = 0; i < a->d; i++) {
            const float x = up[i] + a->bias[i];
            y[i] = 0.5f * x * (1 + tanhf(slope_at_0 * (x + cubic * x * x * x)));
        }
    }
}

static void activate_backward(const Call *call) {
    const struct activate_backward_args *a = &call->with.activate_backward;
    float *restrict dbias = a->dbias;
    for (int64_t r = 0; r < a->r; r++) {
        const float *up = a->up + r * a->d;
        float *restrict dup = a->dup + r * a->d;
        for (int64_t i = 0; i < a->d; i++) {
            const float x = up[i] + a->bias[i];
            const float t = tanhf(slope_at_0 * (x + cubic * x * x * x));
            const float inner = slope_at_0 * (1 + 3 * cubic * x * x);
            dup[i] *= 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * inner;
            dbias[i] += dup[i];
        }
    }
}

/* Only what a place may look at is computed. */
static void attend(const Call *call) {
    const struct attend_args *a = &call->with.attend;
    for (int64_t row = 0; row < a->g * a->q; row++) {
        const int64_t seen = row % a->q + 1;
        float *weight = a->weight + row * a->k, most = -INFINITY, sum = 0;
        for (int64_t i = 0; i < seen; i++) {
            weight[i] *= a->scale;
            if (weight[i] > most) most = weight[i];
        }
        for (int64_t i = 0; i < seen; i++) {
            weight[i] = expf(weight[i] - most);
            sum += weight[i];
        }
        const float share = 1 / sum;
        for (int64_t i = 0; i < seen; i++) weight[i] *= share;
        for (int64_t i = seen; i < a->k; i++) weight[i] = 0;
    }
}

static void attend_backward(const Call *call) {
    const struct attend_backward_args *a = &call->with.attend_backward;
    for (int64_t row = 0; row < a->g * a->q; row++) {
        const int64_t seen = row % a->q + 1;
        const float *weight = a->weight + row * a->k;
        float *restrict d = a->d + row * a->k, sum = 0;
        for (int64_t i = 0; i < seen; i++) sum += weight[i] * d[i];
        for (int64_t i = 0; i < seen; i++) d[i] = a->scale * weight[i] * (d[i] - sum);
        for (int64_t i = seen; i < a->k; i++) d[i] = 0;
    }
}

static void classify(const Call *call) {
    const struct classify_args *a = &call->with.classify;
    const float share = 1 / (float)a->r;
    double losses = 0;
    for (int64_t r = 0; r < a->r; r++) {
        float *logits = a->logits + r * call->pitch, most = -INFINITY, sum = 0;
        for (int64_t i = 0; i < a->v; i++)
            if (logits[i] > most) most = logits[i];
        const float right = logits[a->target[r]];
        for (int64_t i = 0; i < a->v; i++) {
            logits[i] = expf(logits[i] - most);
            sum += logits[i];
        }
        losses += (double)(logf(sum) + most - right);
        const float scale = share / sum;
        for (int64_t i = 0; i < a->v; i++) logits[i] *= scale;
        logits[a->target[r]] -= share;
    }
    *a->loss = (float)(losses / (double)a->r);
}

static void clear(const Call *call) {
    memset(call->with.clear.x, 0, (size_t)call->with.clear.n * sizeof(float));
}

/* adamw with torch's defaults */
static void update(const Call *call) {
    const struct update_args *a = &call->with.update;
    const double count = ++*a->count;
    const float pace = a->lr / (float)(1 - pow(0.9, count));
    const float correction = (float)(1 / sqrt(1 - pow(0.999, count)));
    for (int64_t t = 0; t < a->t; t++) {
        float *restrict p = a->p[t], *restrict m = a->m[t], *restrict v = a->v[t];
        float *restrict g = a->g[t];
        const float shrink = a->lr * a->decay[t];
        for (int64_t i = 0; i < a->n[t]; i++) {
            m[i] += (g[i] - m[i]) * 0.1f;
            v[i] += (g[i] * g[i] - v[i]) * 0.001f;
            p[i] -= pace * (m[i] / (correction * sqrtf(v[i]) + 1e-8f)) + shrink * p[i];
            g[i] = 0;
        }
    }
}

#ifndef PLAIN_STEPS
#define PLAIN_STEPS plain_steps
#endif
Plain *const PLAIN_STEPS[STEPS] = {
#define STEP(name) [STEP_##name] = name,
#include "steps.def"
#undef STEP
};
