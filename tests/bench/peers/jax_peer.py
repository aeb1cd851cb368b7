"""JAX: the same formulas under jit. Its arrays cannot change, so the optimizers donate theirs and go on with
the results; the copies it starts from are its own."""
import functools

import jax
import jax.numpy as jnp
from jax import nn

BETA1, BETA2, EPS, DECAY, RATE = 0.9, 0.999, 1e-8, 0.01, 1e-3


def widened(function):
    """bf16 in and out, f32 between, as the steps do it."""
    def run(x, *rest):
        out = function(x.astype(jnp.float32), *(r.astype(jnp.float32) for r in rest))
        narrow = lambda y: y.astype(x.dtype) if y.shape == x.shape else y
        return jax.tree.map(narrow, out)
    return run


def update(p, m, v, g, first, second):
    m = BETA1 * m + (1 - BETA1) * g
    v = BETA2 * v + (1 - BETA2) * g * g
    return p - RATE * (m / first / (jnp.sqrt(v / second) + EPS) + DECAY * p), m, v


def adamw(state, gradients):
    count = state[0] + 1
    first, second = 1 - BETA1 ** count, 1 - BETA2 ** count
    return (count, *zip(*(update(p, m, v, g, first, second)
                          for p, m, v, g in zip(*state[1:], gradients))))


def amp_phase(state, gradients):
    count, p, m, v, average, w, scale, good = state
    unscaled = [g.astype(jnp.float32) / scale for g in gradients]
    length = jnp.sqrt(sum(jnp.vdot(g, g) for g in unscaled))
    fine = jnp.isfinite(length)

    def change(_):
        factor = jnp.minimum(1.0 / (length + 1e-6), 1.0)
        new = adamw((count, p, m, v), [factor * g for g in unscaled])
        mean = tuple(0.99 * a + 0.01 * b for a, b in zip(average, new[1]))
        copy = tuple(a.astype(jnp.bfloat16) for a in new[1])
        grow = good + 1 == 2000
        return (*new, mean, copy, jnp.where(grow, 2 * scale, scale), jnp.where(grow, 0, good + 1))

    return jax.lax.cond(fine, change, lambda _: (count, p, m, v, average, w, 0.5 * scale, 0), None)


def loop(step, state, gradients):
    """A function that runs one step and keeps what it gave; .wait waits for it."""
    compiled, held = jax.jit(step, donate_argnums=0), [state]

    def run():
        held[0] = compiled(held[0], gradients)
        return held[0]
    return run


def normalised(x, eps):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + eps)


def rms_norm(x, gain):
    return normalised(x, 1e-6) * gain


def layer_norm(x, gain, shift):
    return normalised(x - jnp.mean(x, -1, keepdims=True), 1e-5) * gain + shift


def backward(function):
    def run(*values):
        *inputs, dy = values
        return jax.vjp(function, *inputs)[1](dy)
    return run


def cross_entropy_forward(logits, target):
    picked = jnp.take_along_axis(logits, target[:, None], -1)[:, 0].astype(jnp.float32)
    return jnp.mean(jax.nn.logsumexp(logits.astype(jnp.float32), -1) - picked)


def cross_entropy(logits, target):
    value, slope = jax.value_and_grad(cross_entropy_forward)(logits.astype(jnp.float32), target)
    return value, slope.astype(logits.dtype)


gelu = functools.partial(nn.gelu, approximate=False)
swiglu = lambda gate, up: nn.silu(gate) * up
FORMULAS = {
    "gelu": (widened(gelu), ("x",)),
    "gelu_backward": (widened(backward(gelu)), ("x", "dy")),
    "swiglu": (widened(swiglu), ("gate", "up")),
    "swiglu_backward": (widened(backward(swiglu)), ("gate", "up", "dy")),
    "softmax": (widened(lambda x: nn.softmax(x, -1)), ("x",)),
    "rms_norm": (widened(rms_norm), ("x", "gain")),
    "rms_norm_backward": (widened(backward(rms_norm)), ("x", "gain", "dy")),
    "layer_norm": (widened(layer_norm), ("x", "gain", "shift")),
    "layer_norm_backward": (widened(backward(lambda x, gain: layer_norm(x, gain, 0 * gain))),
                            ("x", "gain", "dy")),
    "cross_entropy": (cross_entropy, ("logits", "target")),
    "cross_entropy_forward": (cross_entropy_forward, ("logits", "target")),
    "sum": (jnp.sum, ("x",)),
    "any_nan": (lambda x: jnp.isnan(x).any(), ("x",)),
    "norm": (lambda x: jnp.sqrt(jnp.vdot(x, x)), ("x",)),
}


class Peer:
    name = "jax"

    def __init__(self, device):
        self.version = jax.__version__
        self.place = jax.devices("gpu" if device == "cuda" else "cpu")[0]

    def array(self, tensor):
        if type(tensor).__module__ == "numpy" and tensor.dtype.name == "bfloat16":
            return jnp.asarray(tensor)  # NumPy's own views have no such type
        return jax.dlpack.from_dlpack(tensor)

    def own(self, tensors):
        with jax.default_device(self.place):
            return tuple(jnp.array(self.array(t), copy=True) for t in tensors)

    def candidates(self, case, tensors):
        if case.work in ("adamw", "amp_phase"):
            lists = {key: value if isinstance(value, list) else [value] for key, value in tensors.items()}
            state = (jnp.float32(10), *(self.own(lists[key]) for key in "pmv"))
            if case.work == "adamw":
                return {"jax": loop(adamw, state, self.own(lists["g"]))}
            state += (self.own(lists["average"]), self.own(lists["w"]), jnp.float32(1024), 0)
            return {"jax": loop(amp_phase, state, self.own(lists["g"]))}
        if case.work not in FORMULAS:
            return {}
        formula, names = FORMULAS[case.work]
        compiled, values = jax.jit(formula), [self.array(tensors[name]) for name in names]
        return {"jax": lambda: compiled(*values)}

    def linreg(self, x, y, batches):
        data = self.array(view(x)).reshape(batches, -1, x.shape[1]), self.array(view(y)).reshape(batches, -1)
        epoch, held = jax.jit(linreg_epoch), [(jnp.zeros(x.shape[1]), jnp.float32(0))]

        def epochs(count):
            for _ in range(count):
                held[0] = epoch(held[0], *data)
            jax.block_until_ready(held[0])
        return {"jax, an epoch's loop compiled": (epochs, lambda: [*held[0][0].tolist(), float(held[0][1])])}


def linreg_epoch(weights, x, y):
    """An epoch of SGD; x, y: batch by batch."""
    def loss(weights, x, y):
        w, bias = weights
        return jnp.mean((x @ w + bias - y) ** 2)

    def step(state, batch):
        weights, losses, bad = state
        value, slope = jax.value_and_grad(loss)(weights, *batch)
        weights = jax.tree.map(lambda w, d: w - 0.01 * d, weights, slope)
        return (weights, losses + value, bad | jnp.isnan(value)), None
    start = weights, jnp.float32(0), jnp.bool_(False)
    return jax.lax.scan(step, start, (x, y))[0][0]


def view(memory):
    """NumPy's view of memory that stays."""
    import numpy
    kind = {"f32": "float32", "bf16": jnp.bfloat16, "i64": "int64"}[memory.dtype]
    if memory.pitch:
        raise ValueError("its arrays have no gaps between rows")
    return numpy.frombuffer(memory.buffer(), dtype=kind).reshape(memory.shape)


def results(case, value):
    """In the order of case.results."""
    if case.work == "adamw":
        return list(value[1:4])
    if case.work == "amp_phase":
        return list(value[1:6])
    return list(value) if isinstance(value, (tuple, list)) else [value]


def raw(array):
    """(address, type, elements, what keeps it) of a result."""
    import numpy
    array = numpy.asarray(array)
    if array.dtype == numpy.bool_:
        array = array.astype(numpy.float32)
    kind = {"float32": "f32", "bfloat16": "bf16", "int64": "i64"}[array.dtype.name]
    array = numpy.ascontiguousarray(array)
    return array.ctypes.data, kind, array.size, array


def wait(result):
    jax.block_until_ready(result)


def open(device):
    if device == "cuda" and not any(d.platform == "gpu" for d in jax.devices()):
        raise ImportError("JAX sees no GPU")
    return Peer(device)
