/* optimizers.c: AdamW, alone and as the whole phase after a backward pass in mixed precision, over
 * the pieces of a list of tensors with one fork and join a pass; and the loop of a small linear
 * model. */
#include "native.h"

#include <omp.h>

static const float rate = 1e-3f, beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f, decay = 0.01f;

/* The pieces of this thread: those that begin in its share of the elements. */
static Share pieces_of(const Work *work) {
    const size_t thread = (size_t)omp_get_thread_num(), threads = (size_t)omp_get_num_threads();
    const size_t from = work->n * thread / threads, to = work->n * (thread + 1) / threads;
    Share share = {0, 0};
    while (share.from < work->piece_count && work->pieces[share.from].before < from) share.from++;
    share.to = share.from;
    while (share.to < work->piece_count && work->pieces[share.to].before < to) share.to++;
    return share;
}

static void adamw_piece(float *restrict p, float *restrict m, float *restrict v,
                        const float *restrict g, size_t n, float step, float scale) {
    enum { PART = 64, FAR = 256 };
    for (size_t i = 0; i < n; i += PART) {
        const size_t count = n - i < PART ? n - i : PART;
        once_ahead(p + i + FAR, PART * sizeof *p), once_ahead(m + i + FAR, PART * sizeof *m);
        once_ahead(v + i + FAR, PART * sizeof *v), once_ahead(g + i + FAR, PART * sizeof *g);
        for (size_t j = i; j < i + count; j++) {
            const float first = beta1 * m[j] + (1 - beta1) * g[j];
            const float second = beta2 * v[j] + (1 - beta2) * g[j] * g[j];
            m[j] = first;
            v[j] = second;
            p[j] = p[j] * (1 - rate * decay) - step * first / (sqrtf(second) * scale + eps);
        }
    }
}

void native_adamw(Work *work) {
    work->count++;
    const float step = rate / (1 - powf(beta1, (float)work->count));
    const float scale = 1 / sqrtf(1 - powf(beta2, (float)work->count));
#pragma omp parallel num_threads(work->threads) if (work->threads > 1)
    {
        const Share share = pieces_of(work);
        for (size_t i = share.from; i < share.to; i++) {
            const Piece *at = &work->pieces[i];
            adamw_piece(at->at[0], at->at[1], at->at[2], at->at[3], at->n, step, scale);
        }
    }
}

static double square_of(const uint16_t *g, size_t n, float inverse) {
    double total = 0;
    for (size_t i = 0; i < n; i += BLOCK) {
        const size_t count = n - i < BLOCK ? n - i : BLOCK;
        once_ahead(g + i + BLOCK, BLOCK * sizeof *g);
        float lane[64] = {0};
        size_t j = i;
        for (; j + 64 <= i + count; j += 64)
            for (size_t k = 0; k < 64; k++) {
                const float value = inverse * from_bf16(g[j + k]);
                lane[k] += value * value;
            }
        for (; j < i + count; j++) lane[0] += inverse * from_bf16(g[j]) * inverse * from_bf16(g[j]);
        for (int k = 0; k < 64; k++) total += (double)lane[k];
    }
    return total;
}

static void phase_piece(float *restrict p, float *restrict m, float *restrict v,
                        const uint16_t *restrict g, float *restrict average, uint16_t *restrict w,
                        size_t n, float factor, float step, float scale) {
    enum { PART = 64, FAR = 256 };
    for (size_t i = 0; i < n; i += PART) {
        const size_t count = n - i < PART ? n - i : PART;
        once_ahead(p + i + FAR, PART * sizeof *p), once_ahead(m + i + FAR, PART * sizeof *m);
        once_ahead(v + i + FAR, PART * sizeof *v), once_ahead(g + i + FAR, PART * sizeof *g);
        once_ahead(average + i + FAR, PART * sizeof *average);
        for (size_t j = i; j < i + count; j++) {
            const float d = factor * from_bf16(g[j]);
            const float first = beta1 * m[j] + (1 - beta1) * d;
            const float second = beta2 * v[j] + (1 - beta2) * d * d;
            m[j] = first;
            v[j] = second;
            const float weight =
                p[j] * (1 - rate * decay) - step * first / (sqrtf(second) * scale + eps);
            p[j] = weight;
            average[j] = 0.99f * average[j] + 0.01f * weight;
            w[j] = to_bf16(weight);
        }
    }
}

/* at: p, m, v, g, average, w. work->scale is the loss scale, state[0] counts good steps. */
void native_amp_phase(Work *work) {
    const float inverse = (float)(1 / work->scale);
    double square = 0;
#pragma omp parallel num_threads(work->threads) reduction(+ : square)
    {
        const Share share = pieces_of(work);
        for (size_t i = share.from; i < share.to; i++)
            square += square_of(work->pieces[i].at[3], work->pieces[i].n, inverse);
    }
    const double length = work->result = sqrt(square);
    uint64_t bits;
    memcpy(&bits, &length, sizeof bits);
    if ((bits >> 52 & 0x7ff) == 0x7ff) {
        work->scale *= 0.5, work->state[0] = 0, work->state[1]++;
        return;
    }
    work->count++;
    const float factor = inverse * (float)fmin(1 / (length + 1e-6), 1.0);
    const float step = rate / (1 - powf(beta1, (float)work->count));
    const float scale = 1 / sqrtf(1 - powf(beta2, (float)work->count));
#pragma omp parallel num_threads(work->threads)
    {
        const Share share = pieces_of(work);
        for (size_t i = share.from; i < share.to; i++) {
            const Piece *at = &work->pieces[i];
            phase_piece(at->at[0], at->at[1], at->at[2], at->at[3], at->at[4], at->at[5], at->n,
                        factor, step, scale);
        }
    }
    if (++work->state[0] == 2000) work->scale *= 2, work->state[0] = 0;
}

/* at: x, y, w and behind it the bias. One batch after the other; state[0] sums the losses, state[1]
 * counts the samples, state[2] is 1 after a NaN. */
static void linreg_batch(const float *restrict x, const float *restrict y, float *restrict w,
                         size_t batch, double *state) {
    enum { FEATURES = 64 };
    float slope[FEATURES] = {0}, bias_slope = 0, loss = 0;
    const float bias = w[FEATURES];
    for (size_t row = 0; row < batch; row++, x += FEATURES) {
        float sum = 0;
        for (int k = 0; k < FEATURES; k++) sum += x[k] * w[k];
        const float error = sum + bias - y[row];
        for (int k = 0; k < FEATURES; k++) slope[k] += error * x[k];
        loss += error * error;
        bias_slope += error;
    }
    const float step = 0.01f * 2 / (float)batch;
    for (int k = 0; k < FEATURES; k++) w[k] -= step * slope[k];
    w[FEATURES] = bias - step * bias_slope;
    state[0] += (double)loss;
    state[1] += (double)batch;
    if ((float_bits(loss) & 0x7fffffff) > 0x7f800000) state[2] = 1;
}

/* One step; rows: samples, columns: of a batch; count: steps taken. */
void native_linreg(Work *work) {
    const size_t batches = (work->rows + work->columns - 1) / work->columns;
    const size_t first = (size_t)work->count++ % batches * work->columns;
    const size_t batch = work->rows - first < work->columns ? work->rows - first : work->columns;
    linreg_batch((const float *)work->at[0] + first * 64, (const float *)work->at[1] + first,
                 work->at[2], batch, work->state);
}
