"""What the benchmarks run: for each row the step, its sizes and its arrays. The peers (peers/*.py) do the
same work under the row's `work` on the same arrays, or have nothing under that name and are left out."""
import dataclasses
import os

HERE = os.path.dirname(os.path.abspath(__file__))


def bench(name):
    return os.path.join(HERE, "steps", name)


@dataclasses.dataclass
class Array:
    """One array, or one for each shape. `fill`: normal, positive, small, zeros, ("classes", n), or out."""
    dtype: str
    shapes: list
    fill: str = "normal"
    listed: bool = False


@dataclasses.dataclass
class Case:
    name: str     # the row's
    work: str     # what peers look it up under
    step: str     # FILE:STEP, for the command
    sizes: str    # for --size
    arrays: dict  # parameter -> Array
    wanted: tuple = ()
    cells: dict = dataclasses.field(default_factory=dict)
    passes: int = 1  # GPUs: how often the least bytes go over before the clock is read, at least


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
                {key: Array("f32", shapes, fill, listed) for key, fill in fills.items()})


def amp_phase(name, lengths):
    """Unscale, overflow check, global norm, clip, AdamW, average of the weights, bf16 copy, next scale."""
    shapes = [(n,) for n in lengths]
    kinds = {"p": ("f32", "normal"), "m": ("f32", "small"), "v": ("f32", "positive"),
             "average": ("f32", "normal"), "w": ("bf16", "normal"), "g": ("bf16", "small")}
    return Case(name, "amp_phase", f"{bench('amp_phase.step')}:amp_phase",
                f"t={len(lengths)},n={'+'.join(map(str, lengths))}",
                {key: Array(dtype, shapes, fill, True) for key, (dtype, fill) in kinds.items()},
                cells={"count": 10, "scale": 1024, "good": 0, "skipped": 0})


def maps(kind, n):
    def case(name, work, step, *names):
        arrays = {key: Array(kind, [(n,)], "normal") for key in names[:-1]}
        for key in names[-1]:
            arrays[key] = Array(kind, [(n,)], "out")
        suffix = "" if kind == "f32" else "_" + kind
        return Case(f"{name} {kind}", work, f"std/activations:{step}{suffix}", f"n={n}", arrays)

    return [case("GELU forward", "gelu", "gelu_forward", "x", ("y",)),
            case("GELU backward", "gelu_backward", "gelu_backward", "x", "dy", ("dx",)),
            case("SwiGLU forward", "swiglu", "swiglu_forward", "gate", "up", ("y",)),
            case("SwiGLU backward", "swiglu_backward", "swiglu_backward", "gate", "up", "dy", ("dgate", "dup"))]


def rows(kind, b, c, classes_b, classes_c):
    suffix = "" if kind == "f32" else "_" + kind
    x = lambda fill="normal": Array(kind, [(b, c)], fill)
    vector = lambda fill="normal": Array("f32", [(c,)], fill)
    logits = lambda fill="normal": Array(kind, [(classes_b, classes_c)], fill)
    size, label = f"b={b},c={c}", f"{kind} {b} × {c}"
    return [
        Case(f"softmax {label}", "softmax", f"{bench('softmax.step')}:softmax{suffix}", size,
             {"x": x(), "y": x("out")}),
        Case(f"LayerNorm forward {label}", "layer_norm", f"std/norms:layer_norm_forward{suffix}", size,
             {"x": x(), "gain": vector(), "shift": vector(), "y": x("out")}),
        Case(f"LayerNorm backward {label}", "layer_norm_backward", f"std/norms:layer_norm_backward{suffix}", size,
             {"x": x(), "gain": vector(), "shift": vector(), "dy": x(), "dx": x("out"),
              "dgain": vector("out"), "dshift": vector("out")}),
        Case(f"RMSNorm forward {label}", "rms_norm", f"std/norms:rms_norm_forward{suffix}", size,
             {"x": x(), "gain": vector(), "y": x("out")}),
        Case(f"RMSNorm backward {label}", "rms_norm_backward", f"std/norms:rms_norm_backward{suffix}", size,
             {"x": x(), "gain": vector(), "dy": x(), "dx": x("out"), "dgain": vector("out")}),
        Case(f"cross entropy and gradient {kind} {classes_b} × {classes_c}", "cross_entropy",
             f"std/losses:cross_entropy{suffix}", f"b={classes_b},c={classes_c}",
             {"logits": logits(), "target": Array("i64", [(classes_b,)], ("classes", classes_c)),
              "dlogits": logits("out")}, wanted=("loss",)),
    ]


def total(kind, n):
    return Case(f"sum {kind}", "sum", f"{bench('elementwise.step')}:total", f"n={n}",
                {"x": Array(kind, [(n,)])}, wanted=("s",))


def all_cases(small):
    """Every row; `small`: sizes that a processor does in a moment, to see that the script works."""
    shift = 6 if small else 0
    lengths = [max(1, n >> shift) for n in gpt2_sizes()]
    b = 8192 >> shift
    return [
        adamw("AdamW f32, 64 Mi elements", [64 << 20 >> shift], False),
        adamw("AdamW f32, 1 Mi elements", [1 << 20 >> shift], False),
        adamw("AdamW f32, the 148 tensors of GPT-2", lengths, True),
        adamw("AdamW f32, 1000 tensors of 1024", 1000 * [1024], True),
        amp_phase("mixed-precision optimizer phase, GPT-2", lengths),
        *maps("bf16", 64 << 20 >> shift),
        *rows("f32", b, 4096, b // 2, 50257 >> shift),
        *rows("bf16", b, 4096, b // 2, 50257 >> shift),
        total("f32", 64 << 20 >> shift),
    ]
