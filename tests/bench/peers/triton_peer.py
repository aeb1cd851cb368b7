"""Triton: one fused kernel for each piece of work, written as Triton's users write them: a block of elements
or a row to a program, f32 inside."""
import torch
import triton
import triton.language as tl

BLOCK = 1024
RATE, DECAY, BETA1, BETA2, EPS = (tl.constexpr(x) for x in (1e-3, 0.01, 0.9, 0.999, 1e-8))


@triton.jit
def adamw_kernel(p, m, v, g, first, second, n, B: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    inside = i < n
    gradient = tl.load(g + i, inside)
    mean = tl.load(m + i, inside)
    square = tl.load(v + i, inside)
    weight = tl.load(p + i, inside)
    mean = BETA1 * mean + (1 - BETA1) * gradient
    square = BETA2 * square + (1 - BETA2) * gradient * gradient
    weight -= RATE * (mean / first / (tl.sqrt(square / second) + EPS) + DECAY * weight)
    tl.store(m + i, mean, inside)
    tl.store(v + i, square, inside)
    tl.store(p + i, weight, inside)


@triton.jit
def gelu_kernel(x, y, n, B: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    inside = i < n
    at = tl.load(x + i, inside).to(tl.float32)
    tl.store(y + i, 0.5 * at * (1 + tl.erf(at * 0.7071067811865476)), inside)


@triton.jit
def gelu_backward_kernel(x, dy, dx, n, B: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    inside = i < n
    at = tl.load(x + i, inside).to(tl.float32)
    slope = tl.load(dy + i, inside).to(tl.float32)
    below = 0.5 * (1 + tl.erf(at * 0.7071067811865476))
    tl.store(dx + i, slope * (below + at * 0.3989422804014327 * tl.exp(-0.5 * at * at)), inside)


@triton.jit
def swiglu_kernel(gate, up, y, n, B: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    inside = i < n
    at = tl.load(gate + i, inside).to(tl.float32)
    tl.store(y + i, at * tl.sigmoid(at) * tl.load(up + i, inside).to(tl.float32), inside)


@triton.jit
def swiglu_backward_kernel(gate, up, dy, dgate, dup, n, B: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    inside = i < n
    at = tl.load(gate + i, inside).to(tl.float32)
    other = tl.load(up + i, inside).to(tl.float32)
    slope = tl.load(dy + i, inside).to(tl.float32)
    s = tl.sigmoid(at)
    tl.store(dgate + i, slope * other * s * (1 + at * (1 - s)), inside)
    tl.store(dup + i, slope * at * s, inside)


@triton.jit
def softmax_kernel(x, y, c, B: tl.constexpr):
    row, i = tl.program_id(0).to(tl.int64) * c, tl.arange(0, B)
    at = tl.load(x + row + i, i < c, other=-float("inf")).to(tl.float32)
    power = tl.exp(at - tl.max(at, 0))
    tl.store(y + row + i, power / tl.sum(power, 0), i < c)


@triton.jit
def norm_kernel(x, gain, shift, y, c, eps, CENTRED: tl.constexpr, B: tl.constexpr):
    row, i = tl.program_id(0).to(tl.int64) * c, tl.arange(0, B)
    at = tl.load(x + row + i, i < c, other=0.0).to(tl.float32)
    if CENTRED:
        at = tl.where(i < c, at - tl.sum(at, 0) / c, 0.0)
    result = at * tl.rsqrt(tl.sum(at * at, 0) / c + eps) * tl.load(gain + i, i < c)
    if CENTRED:
        result += tl.load(shift + i, i < c)
    tl.store(y + row + i, result, i < c)


@triton.jit
def cross_entropy_kernel(logits, target, loss, slope, b, c, B: tl.constexpr):
    """A row to a program: maximum and sum of exponentials while going along it, then the gradient."""
    r = tl.program_id(0)
    row, label = r.to(tl.int64) * c, tl.load(target + r)
    top = tl.full((), -float("inf"), tl.float32)
    total = tl.full((), 0.0, tl.float32)
    for start in range(0, c, B):
        i = start + tl.arange(0, B)
        at = tl.load(logits + row + i, i < c, other=-float("inf")).to(tl.float32)
        new = tl.maximum(top, tl.max(at, 0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(at - new), 0)
        top = new
    tl.store(loss + r, (tl.log(total) + top - tl.load(logits + row + label).to(tl.float32)) / b)
    for start in range(0, c, B):
        i = start + tl.arange(0, B)
        at = tl.load(logits + row + i, i < c, other=-float("inf")).to(tl.float32)
        share = tl.exp(at - top) / total - tl.where(i == label, 1.0, 0.0)
        tl.store(slope + row + i, share / b, i < c)


# work -> (kernel, its inputs, how many outputs like the first)
MAPS = {
    "gelu": (gelu_kernel, ("x",), 1),
    "gelu_backward": (gelu_backward_kernel, ("x", "dy"), 1),
    "swiglu": (swiglu_kernel, ("gate", "up"), 1),
    "swiglu_backward": (swiglu_backward_kernel, ("gate", "up", "dy"), 2),
}


def adamw(tensors):
    count = [10]

    def run():
        count[0] += 1
        first, second = 1 - 0.9 ** count[0], 1 - 0.999 ** count[0]
        for p, m, v, g in zip(*(tensors[key] for key in "pmvg")):
            adamw_kernel[(triton.cdiv(p.numel(), BLOCK),)](p, m, v, g, first, second, p.numel(), BLOCK)
    return run


def rows(case, tensors):
    x = tensors["logits" if case.work == "cross_entropy" else "x"]
    b, c = x.shape
    y, whole = torch.empty_like(x), triton.next_power_of_2(c)
    warps = min(16, max(4, whole // 512))
    if case.work == "softmax":
        def run_softmax():
            softmax_kernel[(b,)](x, y, c, whole, num_warps=warps)
            return y
        return run_softmax
    if case.work == "cross_entropy":
        target, losses = tensors["target"], torch.empty(b, device=x.device)

        def run():
            cross_entropy_kernel[(b,)](x, target, losses, y, b, c, 8192, num_warps=16)
            return losses.sum(), y
        return run
    centred, eps = (True, 1e-5) if case.work == "layer_norm" else (False, 1e-6)
    gain = tensors["gain"]
    shift = tensors.get("shift", gain)

    def run_norm():
        norm_kernel[(b,)](x, gain, shift, y, c, eps, centred, whole, num_warps=warps)
        return y
    return run_norm


class Peer:
    name = "triton"

    def __init__(self):
        self.version = triton.__version__

    def candidates(self, case, tensors):
        if case.work == "adamw":
            lists = {key: value if isinstance(value, list) else [value] for key, value in tensors.items()}
            return {"triton": adamw(lists)}
        if case.work in ("softmax", "layer_norm", "rms_norm", "cross_entropy"):
            return {"triton": rows(case, tensors)}
        if case.work not in MAPS:
            return {}
        kernel, names, results = MAPS[case.work]
        inputs = [tensors[name] for name in names]
        outputs = [torch.empty_like(inputs[0]) for _ in range(results)]
        n = inputs[0].numel()

        def run():
            kernel[(triton.cdiv(n, BLOCK),)](*inputs, *outputs, n, BLOCK)
            return outputs
        return {"triton": run}


def results(case, value):
    """In the order of case.results; None: in the row's own arrays."""
    if case.work == "adamw":
        return [None] * len(case.results)
    return list(value) if isinstance(value, (tuple, list)) else [value]


def open(device):
    import os
    if device == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
        raise ImportError("Triton compiles for GPUs only")
    return Peer()
