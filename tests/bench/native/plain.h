/* plain.h: included by plain.c once per element type T, with GET and PUT between T and float. The
 * loops that a trainer in C writes: a row at a time, a pass after the other, sums in the order of
 * the elements, which -Ofast lets the compiler change. A row begins `pitch` elements behind the one
 * before. */

#define EACH_ROW PRAGMA(omp parallel for num_threads(work->threads) if (work->threads > 1)) \
    for (size_t r = 0; r < work->rows; r++)
#define IN(k) ((const T *)work->at[k] + r * work->pitch)
#define OUT(k) ((T *)work->at[k] + r * work->pitch)

void NAME(plain_row_sum)(Work *work);
void NAME(plain_row_sum)(Work *work) {
    const size_t n = work->columns;
    float *const s = work->at[1];
    EACH_ROW {
        const T *const x = IN(0);
        float sum = 0;
        for (size_t i = 0; i < n; i++) sum += GET(x[i]);
        s[r] = sum;
    }
}

void NAME(plain_softmax)(Work *work);
void NAME(plain_softmax)(Work *work) {
    const size_t n = work->columns;
    EACH_ROW {
        const T *const x = IN(0);
        T *const y = OUT(1);
        float top = -3.4e38f, total = 0;
        for (size_t i = 0; i < n; i++) top = most(top, GET(x[i]));
        if (sizeof(T) == sizeof(float)) {
            for (size_t i = 0; i < n; i++) {
                const float power = expf(GET(x[i]) - top);
                total += power;
                y[i] = PUT(power);
            }
            for (size_t i = 0; i < n; i++) y[i] = PUT(GET(y[i]) / total);
            continue;
        }
        for (size_t i = 0; i < n; i++) total += expf(GET(x[i]) - top);
        const float scale = 1 / total;
        for (size_t i = 0; i < n; i++) y[i] = PUT(expf(GET(x[i]) - top) * scale);
    }
}

void NAME(plain_layer_norm)(Work *work);
void NAME(plain_layer_norm)(Work *work) {
    const size_t n = work->columns;
    const float *const gain = work->at[1], *const shift = work->at[2];
    EACH_ROW {
        const T *const x = IN(0);
        T *const y = OUT(3);
        float mean = 0, square = 0;
        for (size_t i = 0; i < n; i++) mean += GET(x[i]);
        mean /= (float)n;
        for (size_t i = 0; i < n; i++) square += (GET(x[i]) - mean) * (GET(x[i]) - mean);
        const float scale = 1 / sqrtf(square / (float)n + 1e-5f);
        for (size_t i = 0; i < n; i++) y[i] = PUT((GET(x[i]) - mean) * scale * gain[i] + shift[i]);
    }
}

void NAME(plain_rms_norm)(Work *work);
void NAME(plain_rms_norm)(Work *work) {
    const size_t n = work->columns;
    const float *const gain = work->at[1];
    EACH_ROW {
        const T *const x = IN(0);
        T *const y = OUT(2);
        float square = 0;
        for (size_t i = 0; i < n; i++) square += GET(x[i]) * GET(x[i]);
        const float scale = 1 / sqrtf(square / (float)n + 1e-6f);
        for (size_t i = 0; i < n; i++) y[i] = PUT(GET(x[i]) * scale * gain[i]);
    }
}

/* x, gain, dy, then dx, dgain and (centred) dshift. */
static void NAME(plain_norm_backward)(Work *work, int centred) {
    const size_t n = work->columns;
    const float *const gain = work->at[1];
    float *const dgain = work->at[4], *const dshift = work->at[5];
    memset(dgain, 0, n * sizeof *dgain);
    if (centred) memset(dshift, 0, n * sizeof *dshift);
#pragma omp parallel num_threads(work->threads) if (work->threads > 1)
    {
        float *const restrict sums = calloc(2 * n, sizeof *sums);
#pragma omp for
        for (size_t r = 0; r < work->rows; r++) {
            const T *const restrict x = IN(0), *const restrict dy = IN(2);
            T *const restrict dx = OUT(3);
            float mean = 0, square = 0, along = 0, total = 0;
            for (size_t i = 0; centred && i < n; i++) mean += GET(x[i]);
            mean /= (float)n;
            for (size_t i = 0; i < n; i++) square += (GET(x[i]) - mean) * (GET(x[i]) - mean);
            const float scale = 1 / sqrtf(square / (float)n + (centred ? 1e-5f : 1e-6f));
            for (size_t i = 0; i < n; i++) {
                const float slope = GET(dy[i]) * gain[i];
                along += slope * (GET(x[i]) - mean) * scale;
                total += slope;
            }
            along /= (float)n;
            total = centred ? total / (float)n : 0;
            for (size_t i = 0; i < n; i++) {
                const float slope = GET(dy[i]), unit = (GET(x[i]) - mean) * scale;
                sums[i] += slope * unit;
                if (centred) sums[n + i] += slope;
                dx[i] = PUT((slope * gain[i] - total - unit * along) * scale);
            }
        }
#pragma omp critical
        for (size_t i = 0; i < n; i++) {
            dgain[i] += sums[i];
            if (centred) dshift[i] += sums[n + i];
        }
        free(sums);
    }
}

void NAME(plain_rms_norm_backward)(Work *work);
void NAME(plain_rms_norm_backward)(Work *work) {
    NAME(plain_norm_backward)(work, 0);
}
void NAME(plain_layer_norm_backward)(Work *work);
void NAME(plain_layer_norm_backward)(Work *work) {
    NAME(plain_norm_backward)(work, 1);
}

/* Logits, target, then (where wanted) dlogits; the mean loss is the result. */
static void NAME(plain_losses)(Work *work, int gradient) {
    const size_t n = work->columns;
    const int64_t *const target = work->at[1];
    double loss = 0;
#pragma omp parallel for num_threads(work->threads) if (work->threads > 1) reduction(+ : loss)
    for (size_t r = 0; r < work->rows; r++) {
        const T *const x = IN(0);
        float top = -3.4e38f, total = 0;
        for (size_t i = 0; i < n; i++) top = most(top, GET(x[i]));
        for (size_t i = 0; i < n; i++) total += expf(GET(x[i]) - top);
        const float at = GET(x[target[r]]);
        loss += (double)(logf(total) + top - at);
        if (!gradient) continue;
        T *const y = OUT(2);
        const float part = 1 / (float)work->rows, scale = part / total;
        for (size_t i = 0; i < n; i++) y[i] = PUT(expf(GET(x[i]) - top) * scale);
        y[target[r]] = PUT(expf(at - top) * scale - part);
    }
    work->result = loss / (double)work->rows;
}

void NAME(plain_cross_entropy_forward)(Work *work);
void NAME(plain_cross_entropy_forward)(Work *work) {
    NAME(plain_losses)(work, 0);
}
void NAME(plain_cross_entropy)(Work *work);
void NAME(plain_cross_entropy)(Work *work) {
    NAME(plain_losses)(work, 1);
}
#undef EACH_ROW
#undef IN
#undef OUT
