"""What the benchmarks run: for each row the step, its sizes and its arrays. The peers (peers/*.py) do the
same work under the row's `work` on the same arrays, or have nothing under that name and are left out."""
import dataclasses
import os

HERE = os.path.dirname(os.path.abspath(__file__))
BYTES = {"f32": 4, "bf16": 2, "i64": 8}


def bench(name):
    return os.path.join(HERE, "steps", name)


@dataclasses.dataclass
class Array:
    """One array, or one for each shape. `fill`: normal, positive, small, zeros, ("classes", n), or out.
    `changed`: read and written in place. `twice`: has to be read whole before the rest can begin."""
    dtype: str
    shapes: list
    fill: str = "normal"
    listed: bool = False
    changed: bool = False
    twice: bool = False
    gap: int = 0  # elements between its rows

    @property
    def counts(self):
        found = []
        for shape in self.shapes:
            count = 1
            for length in shape:
                count *= length
            found.append(count)
        return found

    @property
    def bytes(self):
        return sum(self.counts) * BYTES[self.dtype]


@dataclasses.dataclass
class Case:
    name: str     # the row's
    work: str     # what peers look it up under
    step: str     # FILE:STEP, for the command
    sizes: str    # for --size
    arrays: dict  # parameter -> Array
    results: tuple = ()  # parameters, in the order in which peers give them
    wanted: tuple = ()
    cells: dict = dataclasses.field(default_factory=dict)

    @property
    def dtype(self):
        return "bf16" if any(a.dtype == "bf16" for a in self.arrays.values()) else "f32"


def gpt2_sizes(vocabulary=50257, context=1024, layers=12, width=768):
    """The elements of the 148 tensors of the smallest GPT-2."""
    norm = [width, width]
    attention = [3 * width * width, 3 * width, width * width, width]
    block = norm + attention + norm + [4 * width * width, 4 * width, 4 * width * width, width]
    return [vocabulary * width, context * width] + layers * block + norm


def adamw(name, lengths, listed):
    step = bench("adamw_list_f32.step" if listed else "adamw_f32.step")
    shapes = [(n,) for n in lengths]
    fills = {"p": "normal", "m": "small", "v": "positive", "g": "small"}
    sizes = f"t={len(lengths)},n={'+'.join(map(str, lengths))}" if listed else f"n={lengths[0]}"
    return Case(name, "adamw", f"{step}:adamw", sizes,
                {key: Array("f32", shapes, fill, listed, key != "g") for key, fill in fills.items()},
                ("p", "m", "v"), cells={"count": 10})


def amp_phase(name, lengths):
    """Unscale, overflow check, global norm, clip, AdamW, average of the weights, bf16 copy, next scale."""
    shapes = [(n,) for n in lengths]
    kinds = {"p": ("f32", "normal"), "m": ("f32", "small"), "v": ("f32", "positive"),
             "average": ("f32", "normal"), "w": ("bf16", "out"), "g": ("bf16", "small")}
    arrays = {key: Array(dtype, shapes, fill, True, key in ("p", "m", "v", "average"), key == "g")
              for key, (dtype, fill) in kinds.items()}
    return Case(name, "amp_phase", f"{bench('amp_phase.step')}:amp_phase",
                f"t={len(lengths)},n={'+'.join(map(str, lengths))}", arrays, ("p", "m", "v", "average", "w"),
                cells={"count": 10, "scale": 1024, "good": 0, "skipped": 0})


def maps(kind, n):
    def case(name, work, step, *names):
        arrays = {key: Array(kind, [(n,)], "normal") for key in names[:-1]}
        for key in names[-1]:
            arrays[key] = Array(kind, [(n,)], "out")
        suffix = "" if kind == "f32" else "_" + kind
        return Case(f"{name} {kind}", work, f"std/activations:{step}{suffix}", f"n={n}", arrays, names[-1])

    return [case("GELU forward", "gelu", "gelu_forward", "x", ("y",)),
            case("GELU backward", "gelu_backward", "gelu_backward", "x", "dy", ("dx",)),
            case("SwiGLU forward", "swiglu", "swiglu_forward", "gate", "up", ("y",)),
            case("SwiGLU backward", "swiglu_backward", "swiglu_backward", "gate", "up", "dy", ("dgate", "dup"))]


def rows(kind, b, c, classes_b, classes_c, forward_alone):
    suffix = "" if kind == "f32" else "_" + kind
    x = lambda fill="normal": Array(kind, [(b, c)], fill)
    vector = lambda fill="normal": Array("f32", [(c,)], fill)
    logits = lambda fill="normal": Array(kind, [(classes_b, classes_c)], fill)
    target = Array("i64", [(classes_b,)], ("classes", classes_c))
    size, label = f"b={b},c={c}", f"{kind} {b} × {c}"
    losses, of_classes = f"std/losses:cross_entropy{suffix}", f"{kind} {classes_b} × {classes_c}"
    found = [
        Case(f"softmax {label}", "softmax", f"std/activations:softmax_forward{suffix}", size,
             {"x": x(), "y": x("out")}, ("y",)),
        Case(f"LayerNorm forward {label}", "layer_norm", f"std/norms:layer_norm_forward{suffix}", size,
             {"x": x(), "gain": vector(), "shift": vector(), "y": x("out")}, ("y",)),
        Case(f"LayerNorm backward {label}", "layer_norm_backward", f"std/norms:layer_norm_backward{suffix}", size,
             {"x": x(), "gain": vector(), "shift": vector(), "dy": x(), "dx": x("out"),
              "dgain": vector("out"), "dshift": vector("out")}, ("dx", "dgain", "dshift")),
        Case(f"RMSNorm forward {label}", "rms_norm", f"std/norms:rms_norm_forward{suffix}", size,
             {"x": x(), "gain": vector(), "y": x("out")}, ("y",)),
        Case(f"RMSNorm backward {label}", "rms_norm_backward", f"std/norms:rms_norm_backward{suffix}", size,
             {"x": x(), "gain": vector(), "dy": x(), "dx": x("out"), "dgain": vector("out")}, ("dx", "dgain")),
        Case(f"cross entropy and gradient {of_classes}", "cross_entropy", losses,
             f"b={classes_b},c={classes_c}", {"logits": logits(), "target": target, "dlogits": logits("out")},
             ("loss", "dlogits"), wanted=("loss",)),
    ]
    if forward_alone:
        found.append(Case(f"cross entropy {of_classes}", "cross_entropy_forward", losses,
                          f"b={classes_b},c={classes_c}", {"logits": logits(), "target": target},
                          ("loss",), wanted=("loss",)))
    return found


def reductions(kind, n, *which):
    names = {"sum": ("sum", "total"), "any_nan": ("any NaN", "any_nan"), "norm": ("norm", "length")}
    size = "" if n >= 1 << 24 or n < 1 << 12 else f", {n >> 10} Ki elements"
    return [Case(f"{names[work][0]} {kind}{size}", work, f"{bench('elementwise.step')}:{names[work][1]}", f"n={n}",
                 {"x": Array(kind, [(n,)])}, ("s",), wanted=("s",)) for work in which]


def optimizers(shift, smallest):
    lengths = [max(1, n >> shift) for n in gpt2_sizes()]
    tiny = [adamw("AdamW f32, 4 Ki elements", [4 << 10], False),
            adamw("AdamW f32, 16 elements: what a launch costs", [16], False)] if smallest else []
    return [
        adamw("AdamW f32, 64 Mi elements", [64 << 20 >> shift], False),
        adamw("AdamW f32, 1 Mi elements", [1 << 20 >> shift], False),
        *tiny,
        adamw("AdamW f32, the 148 tensors of GPT-2", lengths, True),
        adamw("AdamW f32, 1000 tensors of 1024", 1000 * [1024], True),
        amp_phase("mixed-precision optimizer phase, GPT-2", lengths),
    ]


def gpu_row_cases(shift=0):
    """The rows of gpu.py that are one pass over arrays or rows; `shift` makes them smaller, to see that they work.
    The small ones are the sizes that people train at."""
    b = 8192 >> shift
    found = []
    for kind in ("bf16", "f32"):
        found += rows(kind, b, 4096, b // 2, 50257 >> shift, False)
        found += maps(kind, 64 << 20 >> shift)
        small = rows(kind, max(2, 2048 >> shift), 768, max(2, 256 >> shift), 4096, False)
        found += [case for case in small if case.work in ("softmax", "layer_norm", "layer_norm_backward", "rms_norm")]
    return [*found, *reductions("f32", 64 << 20 >> shift, "sum", "any_nan", "norm"),
            *reductions("f32", 1 << 20 >> shift, "sum")[:1]]


def gpu_step_cases(shift=0):
    """The rows of gpu.py that are whole optimizer steps."""
    return optimizers(shift, True)


GRID_ROWS, GRID_COLUMNS = (64, 256, 2048, 8192), (64, 80, 384, 768, 1600, 4096, 50257)
GRID_MOST = 1 << 28  # elements of an array


def row_sums(kind, b, c):
    suffix = "" if kind == "f32" else "_" + kind
    return Case(f"row sums {kind} {b} × {c}", "row_sum", f"{bench('shapes.step')}:row_sum{suffix}", f"b={b},c={c}",
                {"x": Array(kind, [(b, c)]), "s": Array("f32", [(b,)], "out")}, ("s",))


def pitched(case):
    """The same with a gap of 32 elements behind each row of each matrix."""
    arrays = {name: dataclasses.replace(array, gap=32 if len(array.shapes[0]) == 2 else 0)
              for name, array in case.arrays.items()}
    return dataclasses.replace(case, name=case.name + ", pitched", arrays=arrays)


def grid_cases():
    """The steps on rows at the sizes at which people train: every number of rows with every width."""
    found = []
    for kind in ("f32", "bf16"):
        for b in GRID_ROWS:
            for c in GRID_COLUMNS:
                if b * c <= GRID_MOST:
                    cells = [*rows(kind, b, c, b, c, True), row_sums(kind, b, c)]
                    found += cells + [pitched(case) for case in cells]
    return found


def cpu_cases(shift=0):
    """The rows of cpu.py: arrays several times the size of the last cache, and not larger."""
    b, n = 8192 >> shift, 32 << 20 >> shift
    classes = 50257 >> shift
    return [
        *optimizers(shift, True),
        *maps("f32", n),
        *maps("bf16", 2 * n),
        *rows("f32", b, 4096, max(2, b // 8), classes, True),
        *rows("bf16", b, 4096, max(2, b // 4), classes, True),
        *reductions("f32", 2 * n, "sum", "any_nan", "norm"),
    ]
