/* catcher.c: the fruit catcher of examples/grpo as a plain C loop, for its speed beside Lockstep.
 *
 * The same game, policy, loss and update, one environment after the other. catcher.py compiles it
 * by `gcc -Ofast -march=native`, with which sums go in any order and tanh is that of the C library
 * for vectors. Usage: catcher [ITERATIONS [SEED]] */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { ENVIRONMENTS = 256, GROUP = 16, TICKS = 40, FRUITS = 3, INPUTS = 5, HIDDEN = 32 };
enum { ACTIONS = 3, EVERY = 4, WIDTH = 16, HEIGHT = 10 };
static const float rate = 1e-2f, decay = 1e-4f, entropy_weight = 0.01f, clip = 0.2f;

typedef struct Policy {
    float w1[INPUTS][HIDDEN], b1[HIDDEN], w2[ACTIONS][HIDDEN], b2[ACTIONS];
} Policy;
enum { PARAMETERS = sizeof(Policy) / sizeof(float) };

typedef struct Sample {
    float observed[INPUTS], log_prob, reward;
    int action;
} Sample;

static Policy policy, gradient, first, second;
static Sample samples[ENVIRONMENTS][TICKS];
static float places[ENVIRONMENTS / GROUP][TICKS / EVERY + 1], starts[ENVIRONMENTS / GROUP];
static uint64_t state;

static float uniform(void) { /* xorshift64*; above 0 and below 1 */
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return ((float)(uint32_t)(state * 0x2545F4914F6CDD1Du >> 41) + 0.5f) * 0x1p-23f;
}

/* The hidden layer and the logits. */
static void forward(const float *observed, float *hidden, float *logits) {
    for (int h = 0; h < HIDDEN; h++) {
        float sum = policy.b1[h];
        for (int i = 0; i < INPUTS; i++) sum += observed[i] * policy.w1[i][h];
        hidden[h] = tanhf(sum);
    }
    for (int a = 0; a < ACTIONS; a++) {
        float sum = policy.b2[a];
        for (int h = 0; h < HIDDEN; h++) sum += hidden[h] * policy.w2[a][h];
        logits[a] = sum;
    }
}

static float log_sum(const float *logits) {
    float most = fmaxf(fmaxf(logits[0], logits[1]), logits[2]), sum = 0;
    for (int a = 0; a < ACTIONS; a++) sum += expf(logits[a] - most);
    return most + logf(sum);
}

static void play(int b) {
    float x = starts[b / GROUP], fx[FRUITS] = {0}, fy[FRUITS] = {0}, hidden[HIDDEN];
    float logits[ACTIONS];
    int live[FRUITS] = {0};
    for (int t = 0; t < TICKS; t++) {
        Sample *sample = &samples[b][t];
        int nearest = 0, some = 0;
        float lowest = -2;
        for (int f = 0; f < FRUITS; f++) {
            float y = live[f] ? fy[f] : -1.0f;
            if (y > lowest) lowest = y, nearest = f;
            some |= live[f];
        }
        float dx = some ? (fx[nearest] - x) / WIDTH : 0;
        sample->observed[0] = x / WIDTH - 0.5f;
        sample->observed[1] = dx * 4;
        sample->observed[2] = some ? (HEIGHT - fy[nearest]) / HEIGHT : 0;
        sample->observed[3] = (float)some;
        sample->observed[4] = fminf(fmaxf(dx * WIDTH, -1), 1);
        forward(sample->observed, hidden, logits);
        int action = 0;
        float best = -INFINITY;
        for (int a = 0; a < ACTIONS; a++) {
            float noisy = logits[a] - logf(-logf(uniform()));
            if (noisy > best) best = noisy, action = a;
        }
        sample->action = action;
        sample->log_prob = logits[action] - log_sum(logits);
        x = fminf(fmaxf(x + (float)(action - 1), 0), WIDTH - 1);
        sample->reward = 0;
        for (int f = 0; f < FRUITS; f++) {
            if (!live[f]) continue;
            fy[f] += 1;
            if (fy[f] < HEIGHT) continue;
            sample->reward += fabsf(fx[f] - x) <= 1 ? 1.0f : -1.0f;
            live[f] = 0;
        }
        int slot = t / EVERY % FRUITS;
        if (t % EVERY == 0 && !live[slot]) {
            live[slot] = 1;
            fy[slot] = 0;
            fx[slot] = places[b / GROUP][t / EVERY];
        }
    }
}

/* The gradient of the loss by one sample; adds to `gradient` and returns the loss. */
static float learn(const Sample *sample, float advantage) {
    float hidden[HIDDEN], logits[ACTIONS], d[ACTIONS], chance[ACTIONS], disorder = 0;
    forward(sample->observed, hidden, logits);
    const float all = log_sum(logits), share = 1.0f / (ENVIRONMENTS * TICKS);
    for (int a = 0; a < ACTIONS; a++) {
        chance[a] = expf(logits[a] - all);
        disorder += chance[a] * (all - logits[a]);
    }
    const float ratio = expf(logits[sample->action] - all - sample->log_prob);
    const float bounded = fminf(fmaxf(ratio, 1 - clip), 1 + clip);
    const float plain = advantage * ratio, clipped = advantage * bounded;
    const float slope = plain <= clipped ? plain : 0; /* of the surrogate by the log-probability */
    for (int a = 0; a < ACTIONS; a++) {
        const float log_chance = logits[a] - all;
        d[a] = share * (-slope * ((a == sample->action ? 1.0f : 0.0f) - chance[a]) +
                        entropy_weight * chance[a] * (log_chance + disorder));
        gradient.b2[a] += d[a];
    }
    for (int h = 0; h < HIDDEN; h++) {
        float dh = 0;
        for (int a = 0; a < ACTIONS; a++) {
            gradient.w2[a][h] += d[a] * hidden[h];
            dh += d[a] * policy.w2[a][h];
        }
        dh *= 1 - hidden[h] * hidden[h];
        gradient.b1[h] += dh;
        for (int i = 0; i < INPUTS; i++) gradient.w1[i][h] += dh * sample->observed[i];
    }
    return share * (-fminf(plain, clipped) - entropy_weight * disorder);
}

static void update(int count) {
    float *p = (float *)&policy, *g = (float *)&gradient, *m = (float *)&first;
    float *v = (float *)&second;
    const float pace = rate / (1 - powf(0.9f, (float)count));
    const float correction = 1 / sqrtf(1 - powf(0.999f, (float)count));
    for (int i = 0; i < PARAMETERS; i++) {
        m[i] += (g[i] - m[i]) * 0.1f;
        v[i] += (g[i] * g[i] - v[i]) * 0.001f;
        p[i] -= pace * (m[i] / (correction * sqrtf(v[i]) + 1e-8f)) + rate * decay * p[i];
    }
}

static float iterate(int count, float *score) {
    float totals[ENVIRONMENTS], loss = 0;
    for (int g = 0; g < ENVIRONMENTS / GROUP; g++) {
        starts[g] = floorf(WIDTH * uniform());
        for (int s = 0; s <= TICKS / EVERY; s++) places[g][s] = floorf(WIDTH * uniform());
    }
    for (int b = 0; b < ENVIRONMENTS; b++) play(b);
    memset(&gradient, 0, sizeof gradient);
    *score = 0;
    for (int b = 0; b < ENVIRONMENTS; b++) {
        totals[b] = 0;
        for (int t = 0; t < TICKS; t++) totals[b] += samples[b][t].reward;
        *score += totals[b] / ENVIRONMENTS;
    }
    for (int g = 0; g < ENVIRONMENTS; g += GROUP) {
        float mean = 0, squares = 0;
        for (int k = 0; k < GROUP; k++) mean += totals[g + k] / GROUP;
        for (int k = 0; k < GROUP; k++) squares += (totals[g + k] - mean) * (totals[g + k] - mean);
        const float deviation = sqrtf(squares / (GROUP - 1)) + 1e-4f;
        for (int k = 0; k < GROUP; k++)
            for (int t = 0; t < TICKS; t++)
                loss += learn(&samples[g + k][t], (totals[g + k] - mean) / deviation);
    }
    update(count);
    return loss;
}

static void initialise(void) {
    for (int h = 0; h < HIDDEN; h++) {
        for (int i = 0; i < INPUTS; i++) policy.w1[i][h] = uniform() - 0.5f;
        for (int a = 0; a < ACTIONS; a++) policy.w2[a][h] = 0.3f * (uniform() - 0.5f);
    }
}

static double seconds(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int count, char **arguments) {
    const long iterations = count > 1 ? strtol(arguments[1], NULL, 10) : 300;
    state = 0x9E3779B97F4A7C15u + (count > 2 ? strtoul(arguments[2], NULL, 10) : 1) * 1000003u;
    if (iterations < 1) {
        fprintf(stderr, "usage: catcher [ITERATIONS [SEED]]\n");
        return 2;
    }
    initialise();
    const double start = seconds();
    for (long i = 1; i <= iterations; i++) {
        float score, loss = iterate((int)i, &score);
        if (i % (iterations < 10 ? 1 : iterations / 10) == 0)
            printf("iteration %5ld   reward %6.3f   loss %8.4f\n", i, score, loss);
    }
    const double each = (seconds() - start) / (double)iterations;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%.0f environment steps/s, %.0f us an iteration, peak memory %.1f MiB\n",
           ENVIRONMENTS * TICKS / each, 1e6 * each, (double)usage.ru_maxrss / 1024);
    return 0;
}
