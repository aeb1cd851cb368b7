"""The rows of cpu.py --against: those of cpu.py, and one step for each shape of work at the widths and sizes at which
schedules differ. `resident` rows lie in the second cache, `streamed` ones are larger than the last."""
import os

from cases import Array, Case, adamw, bench, cpu_cases, gpt2_sizes, reductions, rows
from lockstep import ROOT

WIDTHS = (16, 48, 64, 100, 256, 1000, 1024, 4096, 50257)
RESIDENT, STREAMED = 64 << 10, 16 << 20  # elements of an array


def shape(name, step, size, arrays, wanted=(), **cells):
    path = step if ":" in step else f"{bench('shapes.step')}:{step}"
    results = tuple(key for key, array in arrays.items() if array.fill == "out" or array.changed)
    return Case(name, "shape", path, size, arrays, results + tuple(wanted), tuple(wanted), cells)


def kinds_of(name, step, make):
    """The step and its form in bf16."""
    return [make(f"{name} f32", step, "f32"), make(f"{name} bf16", f"{step}_bf16", "bf16")]


def maps(n):
    def one(name, step, kind):
        return shape(f"{name} {n}", step, f"n={n}", {"x": Array(kind, [(n,)]), "y": Array(kind, [(n,)], "out")})
    return [*kinds_of("scale", "scale", one), *kinds_of("GELU", "std/activations:gelu_forward", one)]


def sums_of_rows(b, c):
    def one(kind_of_result):
        return lambda name, step, kind: shape(
            f"{name} {b} × {c}", step, f"b={b},c={c}",
            {"x": Array(kind, [(b, c)]), "s": Array(kind_of_result, [(b,)], "out")})
    return [*kinds_of("row sum", "row_sum", one("f32")), *kinds_of("row argmax", "row_argmax", one("i64"))]


def of_rows(b, c):
    """Steps of std that work on rows."""
    found = []
    for kind in ("f32", "bf16"):
        found += rows(kind, b, c, b, c, False)
    return found


def of_columns(b, c):
    def normalised(name, step, kind):
        return shape(f"{name} {b} × {c}", step, f"b={b},c={c}",
                     {"x": Array(kind, [(b, c)]), "y": Array(kind, [(b, c)], "out")})

    def summed(name, step, kind):
        return shape(f"{name} {b} × {c}", step, f"b={b},c={c}",
                     {"x": Array(kind, [(b, c)]), "s": Array("f32", [(c,)], "out")})
    return [*kinds_of("column sum", "column_sum", summed),
            *kinds_of("columns normalised", "column_normalise", normalised)]


def scans(b, c):
    def one(name, step, kind):
        return shape(f"{name} {b} × {c}", step, f"b={b},c={c}",
                     {"x": Array(kind, [(b, c)]), "y": Array(kind, [(b, c)], "out")})
    return [*kinds_of("scan of columns", "scan_down", one), *kinds_of("scan of rows", "scan_along", one)]


def wholes(n):
    size = f", {n} elements"
    return [shape(f"sum bf16{size}", "whole_sum_bf16", f"n={n}", {"x": Array("bf16", [(n,)])}, ("s",)),
            shape(f"max f32{size}", "whole_max", f"n={n}", {"x": Array("f32", [(n,)])}, ("s",))]


def tables(v, b, c):
    size = f"v={v},b={b},c={c}"
    table, pick = Array("f32", [(v, c)]), Array("i64", [(b,)], ("classes", v))
    return [shape(f"gathered rows f32 {b} × {c} of {v}", "gather", size,
                  {"table": table, "pick": pick, "y": Array("f32", [(b, c)], "out")}),
            shape(f"scattered rows f32 {b} × {c} to {v}", "scatter", size,
                  {"table": table, "pick": pick, "dy": Array("f32", [(b, c)]),
                   "dtable": Array("f32", [(v, c)], "out")})]


def lists(label, lengths):
    shapes, size = [(n,) for n in lengths], f"t={len(lengths)},n={'+'.join(map(str, lengths))}"
    x, y = Array("f32", shapes, "normal", True), Array("f32", shapes, "out", True)
    return [shape(f"list scaled f32, {label}", "list_scale", size, {"x": x, "y": y}),
            shape(f"list of norms f32, {label}", "list_norms", size,
                  {"x": x, "s": Array("f32", [(len(lengths),)], "out")}),
            shape(f"list clipped f32, {label}", "list_clip", size, {"x": x, "y": y}),
            adamw(f"AdamW f32, {label}", lengths, True)]


def linreg(b, k):
    path = os.path.join(ROOT, "examples", "linreg", "linreg.step")
    return shape(f"linreg {b} × {k}", f"{path}:linreg", f"b={b},k={k}",
                 {"x": Array("f32", [(b, k)]), "y": Array("f32", [(b,)]),
                  "w": Array("f32", [(k,)], "zeros", False, True)},
                 loss_sum=0, seen=0, nan_seen=0, bias=0)


def against_cases(shift=0):
    """All rows; `shift` makes arrays smaller, not rows."""
    resident, streamed = max(64, RESIDENT >> shift), max(256, STREAMED >> shift)
    per = lambda elements, c: max(4, elements // c)
    found = cpu_cases(shift)
    for n in (1000, resident, streamed):
        found += maps(n)
    for c in WIDTHS:
        b = per(resident, c)
        found += [*sums_of_rows(b, c), *of_rows(b, c), *of_columns(b, c)]
    for c in WIDTHS:
        b = per(streamed, c)
        found += [*sums_of_rows(b, c)[:2], *of_rows(b, c)[:3], *of_columns(b, c)[:1]]
    for c in (16, 1024):
        found += [*scans(per(resident, c), c), *scans(per(streamed, c), c)[::2]]
    for n in (4 << 10, resident, streamed):
        found += [*reductions("f32", n, "sum", "any_nan", "norm"), *wholes(n)]
    found += tables(max(8, 1000 >> shift), per(resident, 256), 256)
    found += tables(max(8, 50257 >> shift), per(streamed, 768), 768)[:1]
    found += lists("100 tensors of 10 to 1000", [10 * (1 + 37 * i % 100) for i in range(100)])
    found += lists("5 tensors of 10,000", 5 * [10000])
    found += lists("148 tensors", [max(1, n // 4 >> shift) for n in gpt2_sizes()])[:3]
    found.append(linreg(256, 64))
    named = {}
    for case in found:
        named.setdefault(case.name, case)
    return list(named.values())
