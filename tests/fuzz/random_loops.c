/* random_loops.c: programs whose loops over time may go by strips: recurrences along t and u of
 * states over b and h, with counters, schedules and sums beside them, and statements ahead of the
 * inner loop and behind it. random_programs.c's loops have reductions along every axis, which few
 * strips survive. */
#include "exec.h"
#include "random.h"
#include "random_program.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct Pool {
    const char *const *lines;
    unsigned count;
} Pool;

static const char *const plain[] = {
    "n += 1",
    "s = s * 0.5 + f32(n % 3)",
    "q = max[h](s) * 0.25",
    "w = w * 0.5 + f32(index(h))",
    "s += w * 0.125",
    "s = s * 0.5 + uniform[b, h](3, n)",
    "q = if n % 2 == 0 then q else q * 0.5 + f32(index(b) % 5)",
    "loss = loss * 0.5 + sum(s) / f32(1 + size(b))",
    "loss += mean(q)",
    "most = max(most, count(s > 1))",
    "s = scan[h](0.0, r, r * 0.5 + s)",
};
static const char *const outer[] = {
    "z = q + sum[h](s)",
    "q = q * 0.5 + z[t - 1, b]",
    "s = s - g * 0.5",
    "z = g - f32(n)",
    "when n > 2 { q = q * 0.5 + g }",
    "last = mean[b](q)",
    "q = q + last * 0.5",
    "s = s * 0.5 + scan[h](0.0, r, r * 0.25 + g)",
};
static const char *const inner[] = {
    "s = s * 0.5 + x",
    "q = q * 0.5 + sum[h](x)",
    "y = q + y[t, u - 1, b]",
    "s += q * 0.125",
    "when n > 2 { s = s * 0.25 + x }",
    "y = y * 0.5 + g",
    "n += 2",
    "s = s * 0.5 + scan[h](1.0, r, r * 0.5 + x)",
};

static void write_lines(uint64_t *state, FILE *out, const char *indent, Pool own, unsigned most) {
    for (unsigned i = (unsigned)(random_bits(state) % (most + 1)); i > 0; i--) {
        const unsigned all = own.count + (unsigned)(sizeof plain / sizeof *plain);
        const unsigned which = (unsigned)(random_bits(state) % all);
        fprintf(out, "%s%s\n", indent,
                which < own.count ? own.lines[which] : plain[which - own.count]);
    }
}

static void write_sets(uint64_t *state, FILE *out) {
    static const unsigned lengths[] = {0, 1, 2, 3, 3, 5, 17, 40};
    fputs("# sizes:", out);
    for (unsigned i = 0; i < 3; i++)
        fprintf(out, "%s t=%u u=%u b=%u h=%u", i ? ";" : "", (unsigned)(random_bits(state) % 5),
                (unsigned)(random_bits(state) % 4), lengths[random_bits(state) % 8],
                lengths[random_bits(state) % 6]);
    fputs("\n# fill: normal\n", out);
}

void write_loops(FILE *out, uint64_t state) {
    static const char *const types[] = {"f32", "f32", "f16", "bf16"};
    const Pool around = {outer, sizeof outer / sizeof *outer};
    const Pool within = {inner, sizeof inner / sizeof *inner};
    const bool fixed = random_bits(&state) % 4 == 0;
    if (!fixed) write_sets(&state, out);
    if (fixed) fputs("# sizes: t=3 u=2 b=5 h=3; t=1 u=2 b=33 h=1; t=2 u=2 b=0 h=2\n", out);
    fprintf(out,
            "step loops[t, u%s, b, h](x: %s[t, u, b, h], g: f32[t, b], inout s: %s[b, h], "
            "inout q: %s[b],\n    inout w: f32[h], inout n: i32, inout loss: f32, inout most: i64, "
            "inout last: f32[t],\n    inout y: f32[t, u, b], inout z: f32[t, b]) {\n",
            fixed ? " = 2" : "", types[random_bits(&state) % 4], types[random_bits(&state) % 4],
            types[random_bits(&state) % 4]);
    fprintf(out, "    for t%s {\n", random_bits(&state) % 3 == 0 ? " reverse" : "");
    write_lines(&state, out, "        ", around, 3);
    if (random_bits(&state) % 4) {
        fprintf(out, "        for u%s {\n            s = s * 0.5 + x\n",
                random_bits(&state) % 3 == 0 ? " reverse" : "");
        write_lines(&state, out, "            ", within, 2);
        fputs("        }\n", out);
    }
    fputs("        q = q * 0.5 + g\n", out);
    write_lines(&state, out, "        ", around, 3);
    fputs("    }\n}\n", out);
}
