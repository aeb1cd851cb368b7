/* test_gradients.c: gradients of whole steps against central differences in f64, through indexing,
 * scans, reductions and broadcasts over plain, ragged and blocked axes, `if`, min and max.
 *
 * A step has inputs of f64 (others are filled and left alone), an out `e` of rank 0 and for some
 * inputs x an out dx. Some are written down here, the rest are drawn. Every step also runs
 * simplified and gathered: the bits are the same. */
#include "interp.h"

#include <lockstep/compiler.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMETERS = 32, TENSORS = 16 };

static int failures, checks;
static uint64_t state;

static uint32_t draw(uint32_t below) { /* xorshift: the same on every machine */
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 33) % below;
}

static const char *const programs[] = {
    /* shifts there, back, by a parameter, from the end; what is computed */
    "# sizes: t=5 c=3\n"
    "step s[t, c](x: f64[t, c], y: f64[c], k: i64, out e: f64, out dx: f64[t, c], out dy: f64[c]) "
    "{\n"
    "    let u = x * y\n"
    "    let v = u[t - 1, c] + 2.0 * x[t + k, c] - u[size(t) - 1 - index(t), c] * x\n"
    "    e = sum(v * v * x[t - 2, c])\n"
    "    let a, b = grad(e, x, y)\n"
    "    dx = a\n    dy = b\n}\n",
    /* one of each row; a corner; a row; with a shift beside */
    "# sizes: t=4 c=3\n"
    "step s[t, c](x: f64[t, c], pick: i32[t], out e: f64, out dx: f64[t, c]) {\n"
    "    let a = x[t, pick] * x[t - 1, pick]\n"
    "    e = sum(a * a) + x[1, 2] * x[-1, 0] + sum[c](x[0, c] * x[3, c]) + x[2, 1] ** 2\n"
    "    dx = grad(e, x)\n}\n",
    /* rows of a table, several times the same one and some out of range */
    "# sizes: t=9 v=4 c=3\n"
    "step s[t, v, c](w: f64[v, c], x: f64[t, c], pick: i64[t], both: i64[t, c], out e: f64,\n"
    "                out dw: f64[v, c], out dx: f64[t, c]) {\n"
    "    let rows = w[pick, c]\n"
    "    e = sum(rows * x * rows) + sum(w[both, c]) + sum(w[pick, both] * x)\n"
    "    let a, b = grad(e, w, x)\n    dw = a\n    dx = b\n}\n",
    /* twice: the second derivative goes through a scatter */
    "# sizes: t=7 v=3\n"
    "step s[t, v](w: f64[v], pick: i64[t], out e: f64, out dw: f64[v]) {\n"
    "    let inner = sum(w[pick] ** 3)\n    let g = grad(inner, w)\n"
    "    e = sum(g * g)\n    dw = grad(e, w)\n}\n",
    /* returns, an exponential mean from a start, a product, the most so far, a logistic map */
    "# sizes: t=6 c=2\n"
    "step s[t, c](x: f64[t, c], h: f64[c], stop: bool[t, c], out e: f64, out dx: f64[t, c],\n"
    "             out dh: f64[c]) {\n"
    "    let r = scan[t, reverse](0, acc, x + 0.9 * (if stop then 0 else acc))\n"
    "    let m = scan[t](h, acc, 0.25 * acc * x + x)\n"
    "    let p = scan[c](1, acc, acc * (x + 0.5))\n"
    "    let b = scan[t](h, most, max(most, x))\n"
    "    let q = scan[t](0.3, a, 0.5 * a * (1 - a) + 0.1 * x)\n"
    "    let n = cumsum[t](x)\n"
    "    e = sum(r * r * m) + sum(p * b) + sum(q * n * r)\n"
    "    let a, d = grad(e, x, h)\n    dx = a\n    dh = d\n}\n",
    /* twice, through a scan */
    "# sizes: t=5 c=2\n"
    "step s[t, c](x: f64[t, c], y: f64[c], out e: f64, out dx: f64[t, c], out dy: f64[c]) {\n"
    "    let inner = sum(scan[t](y, acc, 0.7 * acc * x + x * x) ** 2)\n"
    "    let gx, gy = grad(inner, x, y)\n"
    "    e = sum(gx * gx * y) + sum(gy ** 2)\n"
    "    let a, b = grad(e, x, y)\n    dx = a\n    dy = b\n}\n",
    /* through what a fn's derivative gives, and a call of another step's like */
    "# sizes: n=7\n"
    "fn f(x) = exp(-x * x) * x + abs(x) ** 3\n"
    "step s[n](x: f64[n], up: f64[n], out e: f64, out dx: f64[n]) {\n"
    "    let u = x * x * x\n    let v = grad(u, x, from = up * x)\n"
    "    e = sum(f'(x) * v) + sum(f(stop_gradient(x)) * x * 0)\n"
    "    dx = grad(e, x)\n}\n",
    /* a scan of a scan, read at other places, started by a sum, along an axis its body lacks */
    "# sizes: t=4 c=3\n"
    "step s[t, c](x: f64[t, c], y: f64[c], out e: f64, out dx: f64[t, c], out dy: f64[c]) {\n"
    "    let a = cumsum[t](x)\n    let s = sum[c](y)\n"
    "    let b = scan[c, reverse](s, acc, acc * 0.5 + a[t - 1, c] * y)\n"
    "    let g = scan[t](y, acc, acc * 1.5 - s)\n"
    "    e = sum(b * b) + sum(b[t, 0] * x[t, 1]) + sum(g * a)\n"
    "    let d, f = grad(e, x, y)\n    dx = d\n    dy = f\n}\n",
    /* lists: sums over tensors and lists, what lacks the tensors' axes, sizes, shifts */
    "# sizes: t=4 n=3+0+1+5\n"
    "step s[t, n of t](x: f64[t, n], y: f64[t], z: f64, out e: f64, out dx: f64[t, n],\n"
    "                  out dy: f64[t], out dz: f64) {\n"
    "    let m = sum[n](x * x * y)\n"
    "    let u = x * z + m\n"
    "    e = sum(u * x) + sum(m * m) + mean(x * y) + norm(x) + logsumexp(x * z) + sum(x[t, n - 1] "
    "* x)\n"
    "    let a, b, c = grad(e, x, y, z)\n    dx = a\n    dy = b\n    dz = c\n}\n",
    "# sizes: t=3 n=2+4+1 m=1+3+2\n"
    "step s[t, n of t, m of t](x: f64[t, n, m], r: f64[t, n], c: f64[t, m], out e: f64,\n"
    "                          out dx: f64[t, n, m], out dr: f64[t, n], out dc: f64[t, m]) {\n"
    "    let most = max[m](x)\n"
    "    let s = scan[n](c, acc, acc * 0.5 + x * r)\n"
    "    e = sum(x * r * c) + sum(most * r) + sum(s * s) + sum(c[t, m - 1] * c)\n"
    "    let a, b, d = grad(e, x, r, c)\n    dx = a\n    dr = b\n    dc = d\n}\n",
    "# sizes: t=3 n=2+0+4 b=5\n"
    "step s[b, t, n of t](x: f64[t, n], at: i64[b], which: i64[b], out e: f64, out dx: f64[t, n]) "
    "{\n"
    "    let a = x[which, at]\n"
    "    e = sum(a * a) + sum(x[t - 1, n] * x)\n"
    "    dx = grad(e, x)\n}\n",
    /* blocks: per block, per element, over all, indexed as a whole and block by block */
    "# sizes: n=11 b=2\n"
    "step s[b, n as (q, k = 4)](x: f64[n], s: f64[q], w: f64[b, n], at: i64[b], out e: f64,\n"
    "                           out dx: f64[n], out ds: f64[q], out dw: f64[b, n]) {\n"
    "    let m = max[k](x)\n    let u = mean[k](x * s)\n"
    "    e = sum(x * s * w) + sum(m * u) + sum(x[n - 1] * x * x) + sum(w[b, at]) + sum(x[at] * w) "
    "+\n"
    "        sum(s * s) + mean(x)\n"
    "    let a, c, d = grad(e, x, s, w)\n    dx = a\n    ds = c\n    dw = d\n}\n",
    "# sizes: t=3 n=9+0+4\n"
    "step s[t, n of t as (q, k = 4)](x: f64[t, n], s: f64[t, q], out e: f64, out dx: f64[t, n],\n"
    "                                out ds: f64[t, q]) {\n"
    "    let m = sum[k](x * x)\n"
    "    e = sum(m * s) + norm(x * s) + sum(cumsum[n](x) * x) + sum(s)\n"
    "    let a, c = grad(e, x, s)\n    dx = a\n    ds = c\n}\n",
    /* per block, each reduction, with a short last block; of an array that has no axis of blocks;
       blocks of a length that is given when it is compiled; one block, which is short; of a list */
    "# sizes: b=2 n=11\n"
    "step s[b, n as (q, k = 4)](x: f64[b, n], y: f64[n], z: f64[b], out e: f64, out dx: f64[b, "
    "n],\n"
    "                           out dy: f64[n], out dz: f64[b]) {\n"
    "    let u = x * y + z\n"
    "    e = sum(sum[k](u * u) * mean[k](x)) + sum(norm[k](u) * y) + sum(logsumexp[k](u) ** 2) +\n"
    "        sum(max[k](u) * min[k](x)) + sum(prod[k](y + 2.0)) + sum(f64(size(k)) * mean[k](z * "
    "u))\n"
    "    let a, c, d = grad(e, x, y, z)\n    dx = a\n    dy = c\n    dz = d\n}\n",
    "# sizes: n=11\n# D=4\nconst D = 256\n"
    "step s[n as (q, k = D)](x: f64[n], y: f64[q], z: f64, out e: f64, out dx: f64[n],\n"
    "                        out dy: f64[q], out dz: f64) {\n"
    "    e = sum((sum[k](x * x) * y + norm[k](x)) * (mean[k](x) + logsumexp[k](x * y))) +\n"
    "        sum(max[k](x) * x) + mean(x * y) + sum(sum[k](x + z) * y) + sum(mean[k](x - z) * y * "
    "y)\n"
    "    let a, c, d = grad(e, x, y, z)\n    dx = a\n    dy = c\n    dz = d\n}\n",
    "# sizes: n=3\n"
    "step s[n as (q, k = 8)](x: f64[n], y: f64[q], out e: f64, out dx: f64[n], out dy: f64[q]) {\n"
    "    e = sum(mean[k](x * y) * norm[k](x + y)) + sum(logsumexp[k](x * y)) + sum(max[k](x) * y)\n"
    "    let a, c = grad(e, x, y)\n    dx = a\n    dy = c\n}\n",
    "# sizes: t=4 n=9+0+4+2\n"
    "step s[t, n of t as (q, k = 4)](x: f64[t, n], y: f64[t], s: f64[t, q], out e: f64,\n"
    "                                out dx: f64[t, n], out dy: f64[t], out ds: f64[t, q]) {\n"
    "    let u = x * y + s\n"
    "    e = sum(mean[k](u) * s) + sum(norm[k](u)) + sum(logsumexp[k](u) * y) + sum(max[k](u) * "
    "x)\n"
    "    let a, c, d = grad(e, x, y, s)\n    dx = a\n    dy = c\n    ds = d\n}\n",
    /* a branch that is not taken passes nothing, whatever it holds: through functions, other
       branches, sums over axes, reductions, gathers of each kind, scans, calls, clamps */
    "# sizes: n=9\n"
    "step s[n](x: f64[n], y: f64[n], out e: f64, out dx: f64[n], out dy: f64[n]) {\n"
    "    let a = if x > 0 then sqrt(x) * y else 0.0\n"
    "    let b = if y < 9.0 then y * x else log(0.3 - y) + x / (y - y)\n"
    "    let c = if x > 0.2 then (if y > 0.1 then log(x * y) else x) else\n"
    "        (if y < 9.0 then exp(y) else sqrt(x * (y - y)))\n"
    "    e = sum(a + b * c) + sum(if x * y < 9.0 then a * a else a / (x - x) + sqrt(c - c))\n"
    "    let d, f = grad(e, x, y)\n    dx = d\n    dy = f\n}\n",
    "# sizes: r=4 n=5\n"
    "step s[r, n](x: f64[r, n], y: f64[r], z: f64[n], keep: bool[r, n], out e: f64,\n"
    "             out dx: f64[r, n], out dy: f64[r], out dz: f64[n]) {\n"
    "    let root = sqrt(y)\n    let log_z = log(z)\n"
    "    let m = if keep then x else x / (x - x)\n"
    "    let kept = if y > 0.0 and z > 0.0 then root * log_z * x else 0.0\n"
    "    let rows = if any[n](not keep) then logsumexp[n](sqrt(x - x)) * 0.0 + y else y * y\n"
    "    let p = if keep then prod[n](1.0 + x * x) else max[n](x) / y\n"
    "    e = sum(kept) + sum(if keep then m * m else 0.0) + sum(if y < 9.0 then p else rows / "
    "0.0)\n"
    "    let d, f, g = grad(e, x, y, z)\n    dx = d\n    dy = f\n    dz = g\n}\n",
    "# sizes: t=6 v=5\n"
    "step s[t, v](x: f64[v], y: f64[t], at: i64[t], out e: f64, out dx: f64[v], out dy: f64[t]) {\n"
    "    let root = sqrt(x)\n    let deep = sqrt(y)\n    let flat = sqrt(y - y)\n"
    "    let a = if x[at] > 0 then root[at] * y else y\n"
    "    let b = if y[t - 1] > 0 then deep[t - 1] * y else y[t - 1]\n"
    "    let c = (if y[2] > 0 then deep[2] else 1.5 * y[2]) + (if y[2] < 9 then y[1] else "
    "flat[1])\n"
    "    let h = if y < 9 then y[t - 1] * y else flat[t + 1]\n"
    "    e = sum(a * a) + sum(b * y + h) + c * c + sum(if x > 0 then root[v] else x)\n"
    "    let d, f = grad(e, x, y)\n    dx = d\n    dy = f\n}\n",
    "# sizes: t=7 c=2\n"
    "step s[t, c](x: f64[t, c], y: f64[c], stop: bool[t, c], out e: f64, out dx: f64[t, c],\n"
    "             out dy: f64[c]) {\n"
    "    let far = x / (x - x)\n    let root = sqrt(x)\n"
    "    let r = scan[t, reverse](y, acc, if stop then x else x + 0.9 * acc)\n"
    "    let m = scan[t](0, acc, (if stop then 0 else acc * far - acc * far + acc) + x)\n"
    "    let n = scan[t](y, acc, if x > 0 then 0.5 * acc * root else 0.25 * acc + y)\n"
    "    let p = scan[t](y, acc, if acc > -99.0 then 0.5 * acc + x else sqrt(acc) * x)\n"
    "    let q = scan[t](sqrt(y), acc, if y > 0 then 0.5 * acc + x else x)\n"
    "    let u = scan[t](sqrt(y - y), acc, 0.5 * acc + x)\n"
    "    e = sum(if x < 9.0 then x * y else u) + sum(if stop then 0.3 * m * x else r) + sum(if x > "
    "0 then n else p * p) +\n"
    "        sum(if y > 0 then q else x)\n"
    "    let d, f = grad(e, x, y)\n    dx = d\n    dy = f\n}\n",
    "# sizes: t=3 n=4+0+5\n"
    "step s[t, n of t](x: f64[t, n], y: f64[t], z: f64, out e: f64, out dx: f64[t, n],\n"
    "                  out dy: f64[t], out dz: f64) {\n"
    "    let a = if x > 0 then log(x) * sqrt(y) else z\n"
    "    let b = if y > 0 then a * z else x * y\n"
    "    let c = if z > 9.0 then sqrt(z - 9.0) / (y - y) else y * sum[n](x)\n"
    "    e = sum(b * x) + sum(c) + logsumexp(if x > 0 then x * z else x / 2.0)\n"
    "    let d, f, g = grad(e, x, y, z)\n    dx = d\n    dy = f\n    dz = g\n}\n",
    /* several uses in each branch; uses under conditions that have nothing to do with each other */
    "# sizes: n=12\n"
    "step s[n](x: f64[n], y: f64[n], out e: f64, out dx: f64[n], out dy: f64[n]) {\n"
    "    let u = sqrt(x) + x\n    let v = x * y\n"
    "    let a = if x > 0.2 then u * y * u else x * y * x\n"
    "    let b = if v > 0.1 and x > 0.0 then u else y * y\n"
    "    let c = if y > 0.1 then (if x > 0.1 then x * v + v else x * x * y) else x * y * y\n"
    "    e = sum(a) + sum(b * y) + sum(c * x) + sum(if y > 0.1 then c * v else c)\n"
    "    let d, f = grad(e, x, y)\n    dx = d\n    dy = f\n}\n",
    "# sizes: n=12\n"
    "step s[n](x: f64[n], y: f64[n], out e: f64, out dx: f64[n], out dy: f64[n]) {\n"
    "    let u = sqrt(x) + x\n"
    "    e = sum(if x > 0 and y < 0.7 then u * y else y) + sum(if y > 0.2 and x > 0 then u else "
    "0)\n"
    "    let d, f = grad(e, x, y)\n    dx = d\n    dy = f\n}\n",
    /* twice; through a gather and back */
    "# sizes: t=7 v=4\n"
    "step s[t, v](x: f64[v], y: f64[t], at: i64[t], out e: f64, out dx: f64[v], out dy: f64[t]) {\n"
    "    let root = sqrt(y)\n"
    "    let inner = sum(if y > 0 then x[at] * x[at] * root else x[at] ** 3)\n"
    "    let a, b = grad(inner, x, y)\n"
    "    let flat = sqrt(x - x)\n"
    "    let c = grad(sum(flat[at] * sqrt(y - y)), flat)\n"
    "    e = sum(a * a) + sum(b) + sum(if x < 9 then x else c * flat)\n"
    "    let d, f = grad(e, x, y)\n    dx = d\n    dy = f\n}\n",
    "# sizes: n=6\n"
    "fn root(x) = if x > 0 then sqrt(x) * x else x * x * x\n"
    "step s[n](x: f64[n], y: f64[n], out e: f64, out dx: f64[n], out dy: f64[n]) {\n"
    "    let inner = sum(if x > 0 then y * x * sqrt(x) else y * y * x) + sum(root(y) * x)\n"
    "    let a, b = grad(inner, x, y)\n"
    "    e = sum(a * b) + sum(root'(x) * a)\n"
    "    let d, f = grad(e, x, y)\n    dx = d\n    dy = f\n}\n",
};

/* ---- one step: its axes' lengths, its arrays ---- */

typedef struct Step {
    ls_compilation *compilation;
    const Function *f;
    int64_t lengths[LS_AXES_MAX][TENSORS];
    const int64_t *sizes[LS_AXES_MAX];
    double *values[PARAMETERS]; /* of each parameter, tensor behind tensor, as doubles would lie */
    size_t counts[PARAMETERS];
    void *data[PARAMETERS];
    void *tensors[PARAMETERS][TENSORS];
} Step;

/* "name=3+0+4" somewhere in the first line. */
static bool read_lengths(const char *text, const char *name, int64_t *lengths) {
    char key[64];
    snprintf(key, sizeof key, " %s=", name);
    const char *at = strstr(text, key);
    if (!at || at > strchr(text, '\n')) return false;
    char *end = (char *)(uintptr_t)(at + strlen(key)) - 1;
    size_t count = 0;
    do lengths[count++] = strtoll(end + 1, &end, 10);
    while (*end == '+' && count < TENSORS);
    return true;
}

static int64_t length_of(const Step *s, uint32_t axis, int64_t tensor) {
    const Axis *row = &s->f->axes[axis];
    if (row->whole < 0) return s->lengths[axis][row->parent < 0 ? 0 : tensor];
    if (s->f->axes[row->whole].rest == (int)axis) return row->length;
    return (length_of(s, (uint32_t)row->whole, tensor) + row->length - 1) / row->length;
}

static void place_arrays(Step *s) {
    for (uint32_t i = 0; i < s->f->parameter_count; i++) {
        const Parameter *p = &s->f->parameters[i];
        int list = ir_list_axis(s->f, p->axes);
        int64_t tensors = list < 0 ? 1 : s->lengths[list][0];
        size_t begin[TENSORS + 1] = {0};
        for (int64_t t = 0; t < tensors; t++) {
            size_t count = 1;
            for (uint32_t a = 0; a < s->f->axis_count; a++)
                if ((p->declared >> a & 1) && (int)a != list) count *= (size_t)length_of(s, a, t);
            begin[t + 1] = begin[t] + count;
        }
        s->counts[i] = begin[tensors];
        s->values[i] = calloc(s->counts[i] + 1, sizeof(double));
        s->data[i] = s->values[i];
        size_t size = type_info[p->type].size;
        for (int64_t t = 0; t < tensors && list >= 0; t++)
            s->tensors[i][t] = (char *)s->values[i] + begin[t] * size;
        if (list >= 0) s->data[i] = s->tensors[i];
    }
}

static void fill(Step *s) {
    for (uint32_t i = 0; i < s->f->parameter_count; i++) {
        const Parameter *p = &s->f->parameters[i];
        for (size_t k = 0; k < s->counts[i] && p->role == LS_IN; k++) {
            double value =
                p->type == TYPE_F64 ? (draw(1000000) / 1e6 * 2.4 - 1.1) : (double)draw(7) - 1;
            if (p->type == TYPE_BOOL) value = draw(3) == 0;
            number_store(p->type, s->values[i], (int64_t)k,
                         number_from_double(type_info[p->type].compute, value));
        }
    }
}

static bool open_step(Step *s, const char *text) {
    static const char *const defines[] = {"D=4"};
    const bool given = strstr(text, "# D=4") != NULL;
    ls_compile_options options = {.defines = given ? defines : NULL, .define_count = given};
    memset(s, 0, sizeof *s);
    if (ls_compile_text("step", text, strlen(text), &options, &s->compilation) != LS_OK) {
        printf("%s\n%s", text, ls_compilation_message(s->compilation));
        return false;
    }
    s->f = compilation_function(s->compilation, 0, STAGE_DERIVED);
    for (uint32_t a = 0; a < s->f->axis_count; a++) {
        s->sizes[a] = s->lengths[a];
        if (s->f->axes[a].whole >= 0) continue;
        if (!read_lengths(text, s->f->axes[a].name, s->lengths[a])) return false;
    }
    place_arrays(s);
    return true;
}

static void close_step(Step *s) {
    for (uint32_t i = 0; i < PARAMETERS; i++) free(s->values[i]);
    ls_compilation_destroy(s->compilation);
}

static int find(const Step *s, const char *prefix, const char *name) {
    for (uint32_t i = 0; i < s->f->parameter_count; i++) {
        const char *found = s->f->parameters[i].name;
        if (strncmp(found, prefix, strlen(prefix)) == 0 &&
            strcmp(found + strlen(prefix), name) == 0)
            return (int)i;
    }
    return -1;
}

static double value_of_e(Step *s) {
    if (!interpret(s->f, s->sizes, s->data, NULL)) return (double)NAN;
    return s->values[find(s, "", "e")][0];
}

/* Whether the gathered form gives the same bits. */
static bool same_gathered(Step *s) {
    const Function *f = compilation_function(s->compilation, 0, STAGE_GATHERED);
    double *kept[PARAMETERS] = {NULL};
    bool same = true;
    for (uint32_t i = 0; i < s->f->parameter_count; i++) {
        kept[i] = calloc(s->counts[i] + 1, sizeof(double));
        memcpy(kept[i], s->values[i], (s->counts[i] + 1) * sizeof(double));
    }
    same = interpret(f, s->sizes, s->data, NULL);
    for (uint32_t i = 0; i < s->f->parameter_count; i++) {
        same = same && memcmp(kept[i], s->values[i], (s->counts[i] + 1) * sizeof(double)) == 0;
        free(kept[i]);
    }
    return same;
}

/* The difference at two distances tells a kink from a wrong gradient. Where e does not change at
 * all the gradient is exactly 0. */
static void check_element(Step *s, const char *text, uint32_t x, size_t k, double found) {
    double *element = &s->values[x][k], kept = *element, difference[2];
    for (int round = 0; round < 2; round++) {
        double h = round ? 1e-6 : 1e-5;
        *element = kept + h;
        double above = value_of_e(s);
        *element = kept - h;
        difference[round] = (above - value_of_e(s)) / (2 * h);
        *element = kept;
    }
    checks++;
    double scale = 1 + fabs(found) + fabs(difference[1]);
    if (fabs(difference[0] - difference[1]) > 1e-5 * scale) return; /* a kink between them */
    const bool still = difference[0] == 0 && difference[1] == 0;
    if (still ? found == 0 : fabs(found - difference[1]) <= 2e-5 * scale) return;
    if (++failures <= 10)
        printf("%sd%s[%zu]: expected %.9g, found %.9g\n", text, s->f->parameters[x].name, k,
               difference[1], found);
}

static void check_program(const char *text) {
    Step s;
    if (!open_step(&s, text)) {
        failures++;
        if (s.compilation) close_step(&s);
        return;
    }
    fill(&s);
    double e = value_of_e(&s);
    checks++;
    if (!isfinite(e)) failures++, printf("%se is %g\n", text, e);
    if (!same_gathered(&s)) failures++, printf("%sits gathered form differs\n", text);
    for (uint32_t x = 0; x < s.f->parameter_count; x++) {
        int d = find(&s, "d", s.f->parameters[x].name);
        if (d < 0 || s.f->parameters[x].role != LS_IN) continue;
        double *gradient = calloc(s.counts[x] + 1, sizeof(double));
        value_of_e(&s);
        memcpy(gradient, s.values[d], s.counts[x] * sizeof(double));
        for (size_t k = 0; k < s.counts[x]; k++) check_element(&s, text, x, k, gradient[k]);
        free(gradient);
    }
    close_step(&s);
}

/* ---- drawn steps ----
 * A chain of lets over [t, c, n of t], each from those above. */

typedef struct Name {
    char text[8];
    unsigned axes; /* 1 t, 2 c, 4 n; 4 comes with 1 */
} Name;
static Name names[40];
static unsigned name_count;

static const Name *any_name(unsigned with) {
    for (int tries = 0; tries < 50; tries++) {
        const Name *name = &names[draw(name_count)];
        if ((name->axes & with) == with) return name;
    }
    return &names[0]; /* x, which has t, c and n */
}

static const char *axes_text(unsigned axes) {
    static const char *const texts[] = {"", "t", "c", "t, c", "", "t, n", "", "t, c, n"};
    return texts[axes];
}

static void write_let(FILE *out, Name *name) {
    const Name *a = any_name(0), *b = any_name(0), *c = any_name(0), *i;
    static const char *const reductions[] = {"sum", "mean", "max", "min", "logsumexp", "norm"};
    name->axes = a->axes | b->axes;
    fprintf(out, "    let %s = ", name->text);
    switch (draw(17)) {
    case 0: fprintf(out, "%s + %s", a->text, b->text); break;
    case 1: fprintf(out, "%s - 0.5 * %s", a->text, b->text); break;
    case 2: fprintf(out, "%s * %s", a->text, b->text); break;
    case 3: fprintf(out, "%s / (1 + %s * %s)", a->text, b->text, b->text); break;
    case 4: fprintf(out, "exp(-(%s * %s)) + %s", a->text, a->text, b->text); break;
    case 5: fprintf(out, "max(%s, %s)", a->text, b->text); break;
    case 6: fprintf(out, "clamp(%s, -0.6, 0.7) * %s", a->text, b->text); break;
    case 7:
        fprintf(out, "if %s < %s then %s else %s", a->text, b->text, b->text, c->text);
        name->axes |= c->axes;
        break;
    case 15: /* sure to be not finite, or have such a slope, where it is not taken */
        fprintf(out, "if %s < 90.0 then %s else sqrt(%s - %s) * %s / (%s - %s)", a->text, b->text,
                a->text, a->text, c->text, b->text, b->text);
        name->axes |= c->axes;
        break;
    case 16:
        fprintf(out, "if %s > 0.2 then %s(%s) * %s else %s", a->text, draw(2) ? "sqrt" : "log",
                a->text, b->text, c->text);
        name->axes |= c->axes;
        break;
    case 8: /* over n, or over what else there is */
        i = any_name(draw(2) ? 5 : 2);
        name->axes = i->axes & 4 ? i->axes & ~4u : i->axes & ~2u;
        fprintf(out, "%s[%s](%s)", reductions[draw(6)], i->axes & 4 ? "n" : "c", i->text);
        break;
    case 9:
        i = any_name(5);
        name->axes = i->axes & 2;
        fprintf(out, "0.3 * sum[t, n](%s)", i->text);
        break;
    case 10: /* a shift along c */
        i = any_name(2);
        name->axes = i->axes;
        fprintf(out, "%s[%sc %c %u%s]", i->text, i->axes & 1 ? "t, " : "", draw(2) ? '-' : '+',
                draw(3), i->axes & 4 ? ", n" : "");
        break;
    case 11: /* one of the tensor, or of the row */
        i = any_name(5);
        name->axes = i->axes & 3;
        fprintf(out, "%s[t, %sat]", i->text, i->axes & 2 ? "c, " : "");
        break;
    case 12: /* along the tensor, by an index of its own */
        i = any_name(5);
        name->axes = i->axes;
        fprintf(out, "%s[t, %sfar]", i->text, i->axes & 2 ? "c, " : "");
        break;
    case 13: {
        bool starts = draw(2);
        i = any_name(2);
        name->axes = i->axes | b->axes | (starts ? 1 : 0); /* u has t */
        fprintf(out, "scan[c%s](%s, acc, 0.6 * acc %c %s * %s)", draw(2) ? ", reverse" : "",
                starts ? "u" : "0", draw(2) ? '+' : '-', i->text, b->text);
        break;
    }
    default:
        i = any_name(5);
        name->axes = i->axes;
        fprintf(out, "scan[n%s](0.25, acc, acc * %s * 0.5 + 0.3 * %s)", draw(2) ? ", reverse" : "",
                i->text, i->text);
    }
    fputs("\n", out);
}

static char *drawn_program(void) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) exit(1);
    static const Name inputs[] = {{"x", 7}, {"y", 3}, {"u", 1}, {"w", 2}, {"z", 5}};
    memcpy(names, inputs, sizeof inputs);
    name_count = COUNT(inputs);
    fprintf(out, "# sizes: t=3 c=%u n=%u+%u+%u\nstep s[t, c, n of t](", 1 + draw(3), 1 + draw(3),
            1 + draw(2), 2 + draw(3));
    for (unsigned i = 0; i < COUNT(inputs); i++)
        fprintf(out, "%s: f64[%s], out d%s: f64[%s], ", names[i].text, axes_text(names[i].axes),
                names[i].text, axes_text(names[i].axes));
    fprintf(out, "at: i64[t], far: i64[t, n], out e: f64) {\n");
    for (int k = 0; k < 6; k++) {
        Name name = {.axes = 0};
        snprintf(name.text, sizeof name.text, "v%d", k);
        write_let(out, &name);
        names[name_count++] = name;
    }
    fprintf(out, "    e = ");
    for (int k = 0; k < 4; k++) {
        const Name *a = k == 0 ? &names[name_count - 1] : any_name(0);
        fprintf(out, a->axes ? "%smean(%s)" : "%s%s", k ? " + " : "", a->text);
    }
    fprintf(out, "\n    let gx, gy, gu, gw, gz = grad(e, x, y, u, w, z)\n"
                 "    dx = gx\n    dy = gy\n    du = gu\n    dw = gw\n    dz = gz\n}\n");
    fclose(out);
    return text;
}

int main(int count, char **words) {
    uint32_t drawn = count > 1 ? (uint32_t)strtoul(words[1], NULL, 10) : 150;
    for (size_t i = 0; i < COUNT(programs); i++) {
        state = i + 88172645463325252u;
        check_program(programs[i]);
    }
    for (uint32_t i = 1; i <= drawn; i++) {
        state = i * 2654435761u + 88172645463325252u;
        draw(2);
        char *text = drawn_program();
        check_program(text);
        free(text);
    }
    printf("%d checks, %d failures\n", checks, failures);
    return failures != 0;
}
