/* kernels.h: included by kernels.c once per element type T, with GET and PUT between T and float.
 * Blocks of 1024 elements whose loops the compiler vectorises, results streamed past the caches
 * where they are large, the next row or block asked for while the present one is in the near cache.
 */

static inline void NAME(flush)(T *target, const float *block, size_t n, int64_t stream) {
    T out[BLOCK] __attribute__((aligned(LINE)));
    if (!stream) {
        for (size_t i = 0; i < n; i++) target[i] = PUT(block[i]);
        return;
    }
    for (size_t i = 0; i < n; i++) out[i] = PUT(block[i]);
    stream_out(target, out, n * sizeof *out);
}

/* A map: statements that set y[j] (and z[j]) from A, B and C, the inputs' elements. */
#define A GET(a[i + j])
#define B GET(b[i + j])
#define C GET(c[i + j])
#define MAP(name, inputs, outputs, ...)                                                          \
    void NAME(name)(Work * work);                                                                \
    void NAME(name)(Work * work) {                                                               \
        PRAGMA(omp parallel num_threads(work->threads) if (work->threads > 1)) {                 \
            const Share share = share_of(work->n, BLOCK, (size_t)omp_get_thread_num(),           \
                                         (size_t)omp_get_num_threads());                         \
            const T *const restrict a = work->at[0], *const restrict b = work->at[1],            \
                                    *const restrict c = work->at[2];                             \
            float y[BLOCK] __attribute__((aligned(LINE))),                                       \
                z[BLOCK] __attribute__((aligned(LINE)));                                         \
            (void)b, (void)c, (void)z;                                                           \
            for (size_t i = share.from; i < share.to; i += BLOCK) {                              \
                const size_t n = share.to - i < BLOCK ? share.to - i : BLOCK;                    \
                if (inputs > 0) once_ahead(a + i + BLOCK, BLOCK * sizeof *a);                    \
                if (inputs > 1) once_ahead(b + i + BLOCK, BLOCK * sizeof *b);                    \
                if (inputs > 2) once_ahead(c + i + BLOCK, BLOCK * sizeof *c);                    \
                for (size_t j = 0; j < n; j++) {                                                 \
                    __VA_ARGS__                                                                  \
                }                                                                                \
                NAME(flush)((T *)work->at[inputs] + i, y, n, work->stream);                      \
                if (outputs > 1) NAME(flush)((T *)work->at[inputs + 1] + i, z, n, work->stream); \
            }                                                                                    \
        }                                                                                        \
    }

MAP(native_gelu, 1, 1, {
    const float x = A, s = x * 0.70710678f;
    y[j] = 0.5f * x * (1 + error_function(s, exponential(-s * s)));
})
MAP(native_gelu_backward, 2, 1, {
    const float x = A, s = x * 0.70710678f, power = exponential(-s * s);
    y[j] = B * (0.5f * (1 + error_function(s, power)) + x * 0.39894228f * power);
})
MAP(native_swiglu, 2, 1, {
    const float x = A;
    y[j] = x / (1 + exponential(-x)) * B;
})
MAP(native_swiglu_backward, 3, 2, {
    const float x = A, s = 1 / (1 + exponential(-x)), slope = C;
    y[j] = slope * B * s * (1 + x * (1 - s));
    z[j] = slope * x * s;
})
#undef A
#undef B
#undef C
#undef MAP

/* Rows of this thread. */
static inline Share NAME(rows_of)(const Work *work) {
    return share_of(work->rows, 1, (size_t)omp_get_thread_num(), (size_t)omp_get_num_threads());
}

/* One row as float, with its sum and greatest element. */
static inline void NAME(take)(const T *restrict x, float *restrict row, size_t n, float *sum,
                              float *top) {
    float total = 0, high = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        const float value = GET(x[i]);
        row[i] = value;
        total += value;
        high = high > value ? high : value;
    }
    *sum = total, *top = high;
}

static inline void NAME(rest)(T *y, const float *row, size_t n, int64_t stream) {
    for (size_t i = 0; i < n; i += BLOCK)
        NAME(flush)(y + i, row + i, n - i < BLOCK ? n - i : BLOCK, stream);
}

#define ROWS(name)                                                                          \
    static void NAME(name##_rows)(const Work *work, Share share, float *row, float *other); \
    void NAME(name)(Work * work);                                                           \
    void NAME(name)(Work * work) {                                                          \
        PRAGMA(omp parallel num_threads(work->threads) if (work->threads > 1)) {            \
            float *const row = aligned_alloc(LINE, (work->columns + 31) / 16 * LINE * 4);   \
            if (row) NAME(name##_rows)                                                      \
            (work, NAME(rows_of)(work), row, row + (work->columns + 31) / 16 * 16);         \
            free(row);                                                                      \
        }                                                                                   \
    }                                                                                       \
    static void NAME(name##_rows)(const Work *work, Share share, float *restrict row,       \
                                  float *restrict other)

ROWS(native_softmax) {
    const size_t n = work->columns;
    (void)other;
    for (size_t r = share.from; r < share.to; r++) {
        const T *x = (const T *)work->at[0] + r * work->pitch;
        float sum, top, total = 0;
        NAME(take)(x, row, n, &sum, &top);
        for (size_t i = 0; i < n; i += BLOCK) {
            const size_t to = n - i < BLOCK ? n : i + BLOCK;
            ahead(x + n + i, BLOCK * sizeof *x);
            for (size_t j = i; j < to; j++) {
                row[j] = exponential(row[j] - top);
                total += row[j];
            }
        }
        const float scale = 1 / total;
        for (size_t i = 0; i < n; i++) row[i] *= scale;
        NAME(rest)((T *)work->at[1] + r * work->pitch, row, n, work->stream);
    }
}

ROWS(native_layer_norm) {
    const size_t n = work->columns;
    const float *restrict gain = work->at[1], *restrict shift = work->at[2];
    (void)other;
    for (size_t r = share.from; r < share.to; r++) {
        const T *x = (const T *)work->at[0] + r * work->pitch;
        float sum, top, square = 0;
        NAME(take)(x, row, n, &sum, &top);
        const float mean = sum / (float)n;
        for (size_t i = 0; i < n; i++) square += (row[i] - mean) * (row[i] - mean);
        const float scale = 1 / sqrtf(square / (float)n + 1e-5f);
        for (size_t i = 0; i < n; i += BLOCK) {
            const size_t to = n - i < BLOCK ? n : i + BLOCK;
            ahead(x + n + i, BLOCK * sizeof *x);
            for (size_t j = i; j < to; j++) row[j] = (row[j] - mean) * scale * gain[j] + shift[j];
        }
        NAME(rest)((T *)work->at[3] + r * work->pitch, row, n, work->stream);
    }
}

ROWS(native_rms_norm) {
    const size_t n = work->columns;
    const float *restrict gain = work->at[1];
    (void)other;
    for (size_t r = share.from; r < share.to; r++) {
        const T *x = (const T *)work->at[0] + r * work->pitch;
        float square = 0;
        for (size_t i = 0; i < n; i++) row[i] = GET(x[i]), square += row[i] * row[i];
        const float scale = 1 / sqrtf(square / (float)n + 1e-6f);
        for (size_t i = 0; i < n; i += BLOCK) {
            const size_t to = n - i < BLOCK ? n : i + BLOCK;
            ahead(x + n + i, BLOCK * sizeof *x);
            for (size_t j = i; j < to; j++) row[j] *= scale * gain[j];
        }
        NAME(rest)((T *)work->at[2] + r * work->pitch, row, n, work->stream);
    }
}

/* Both backward passes: x, gain, dy, then dx, dgain and (centred) dshift. The columns' sums are
 * kept by each thread and added once. */
static void NAME(norm_backward)(Work *work, int centred) {
    const size_t n = work->columns;
    const float *restrict gain = work->at[1];
    float *const dgain = work->at[4], *const dshift = work->at[5];
    memset(dgain, 0, n * sizeof *dgain);
    if (centred) memset(dshift, 0, n * sizeof *dshift);
#pragma omp parallel num_threads(work->threads) if (work->threads > 1)
    {
        const Share share = NAME(rows_of)(work);
        const size_t gap = (n + 15) / 16 * 16;
        float *const memory = aligned_alloc(LINE, 4 * gap * sizeof *memory);
        float *restrict unit = memory, *restrict slope = memory + gap;
        float *restrict sum_gain = memory + 2 * gap, *restrict sum_shift = memory + 3 * gap;
        memset(sum_gain, 0, 2 * gap * sizeof *memory);
        for (size_t r = share.from; r < share.to; r++) {
            const T *restrict x = (const T *)work->at[0] + r * work->pitch, *restrict dy =
                                                                                (const T *)
                                                                                    work->at[2] +
                                                                                r * work->pitch;
            float mean = 0, square = 0, along = 0, total = 0;
            if (centred) {
                for (size_t i = 0; i < n; i++) mean += GET(x[i]);
                mean /= (float)n;
            }
            for (size_t i = 0; i < n; i++) {
                const float value = GET(x[i]) - mean;
                unit[i] = value;
                square += value * value;
            }
            const float scale = 1 / sqrtf(square / (float)n + (centred ? 1e-5f : 1e-6f));
            for (size_t i = 0; i < n; i += BLOCK) {
                const size_t to = n - i < BLOCK ? n : i + BLOCK;
                ahead(x + n + i, BLOCK * sizeof *x);
                for (size_t j = i; j < to; j++) {
                    const float d = GET(dy[j]), s = d * gain[j], value = unit[j] * scale;
                    unit[j] = value;
                    slope[j] = s;
                    along += s * value;
                    total += s;
                    sum_gain[j] += d * value;
                    if (centred) sum_shift[j] += d;
                }
            }
            along /= (float)n;
            total = centred ? total / (float)n : 0;
            for (size_t i = 0; i < n; i += BLOCK) {
                const size_t to = n - i < BLOCK ? n : i + BLOCK;
                ahead(dy + n + i, BLOCK * sizeof *dy);
                for (size_t j = i; j < to; j++)
                    slope[j] = scale * (slope[j] - total - unit[j] * along);
            }
            NAME(rest)((T *)work->at[3] + r * work->pitch, slope, n, work->stream);
        }
#pragma omp critical
        {
            for (size_t i = 0; i < n; i++) dgain[i] += sum_gain[i];
            for (size_t i = 0; centred && i < n; i++) dshift[i] += sum_shift[i];
        }
        free(memory);
    }
}

void NAME(native_rms_norm_backward)(Work *work);
void NAME(native_rms_norm_backward)(Work *work) {
    NAME(norm_backward)(work, 0);
}
void NAME(native_layer_norm_backward)(Work *work);
void NAME(native_layer_norm_backward)(Work *work) {
    NAME(norm_backward)(work, 1);
}

/* The greatest element of a row and the sum of e^(x - greatest), block by block: a block is in the
 * near cache when its exponentials are taken, and blocks ahead are asked for. */
static inline void NAME(row_power)(const T *restrict x, size_t n, float *greatest, float *power) {
    float top = -INFINITY, sum = 0;
    for (size_t i = 0; i < n; i += BLOCK) {
        const size_t to = n - i < BLOCK ? n : i + BLOCK;
        float high = -INFINITY;
        for (size_t j = i; j < to; j++) {
            const float value = GET(x[j]);
            high = high > value ? high : value;
        }
        ahead(x + i + 2 * BLOCK, BLOCK * sizeof *x);
        if (high > top) {
            sum *= top > -INFINITY ? exponential(top - high) : 0;
            top = high;
        }
        float part = 0;
        for (size_t j = i; j < to; j++) part += exponential(GET(x[j]) - top);
        sum += part;
    }
    *greatest = top, *power = sum;
}

/* Logits, target, then (where wanted) dlogits; the mean loss is the result. */
static void NAME(cross_entropy)(Work *work, int slope) {
    const size_t n = work->columns;
    const int64_t *target = work->at[1];
    double loss = 0;
#pragma omp parallel num_threads(work->threads) reduction(+ : loss)
    {
        const Share share = NAME(rows_of)(work);
        float y[BLOCK] __attribute__((aligned(LINE)));
        for (size_t r = share.from; r < share.to; r++) {
            const T *restrict x = (const T *)work->at[0] + r * work->pitch;
            float top, power;
            NAME(row_power)(x, n, &top, &power);
            loss += (double)(logf(power) + top - GET(x[target[r]]));
            if (!slope) continue;
            const float part = 1 / (float)work->rows, scale = part / power;
            T *const out = (T *)work->at[2] + r * work->pitch;
            for (size_t i = 0; i < n; i += BLOCK) {
                const size_t count = n - i < BLOCK ? n - i : BLOCK;
                __builtin_prefetch(x + n + i, 0, 2);
                for (size_t j = 0; j < BLOCK; j += LINE / sizeof *x)
                    __builtin_prefetch(x + n + i + j, 0, 2);
                for (size_t j = 0; j < count; j++) y[j] = scale * exponential(GET(x[i + j]) - top);
                if ((size_t)target[r] >= i && (size_t)target[r] < i + count)
                    y[(size_t)target[r] - i] -= part;
                NAME(flush)(out + i, y, count, work->stream);
            }
        }
    }
    work->result = loss / (double)work->rows;
}

void NAME(native_cross_entropy_forward)(Work *work);
void NAME(native_cross_entropy_forward)(Work *work) {
    NAME(cross_entropy)(work, 0);
}
void NAME(native_cross_entropy)(Work *work);
void NAME(native_cross_entropy)(Work *work) {
    NAME(cross_entropy)(work, 1);
}
#undef ROWS
