"""numba: explicit loops under njit(parallel=True), with fastmath and without; results go into arrays that are
there. A list of tensors is cut into pieces, so that a step is one parallel loop. It has no bf16: those rows
are left out."""
import math
import types

import numba
import numpy
from numba import prange

PIECE = 1 << 16
LISTS = {"adamw": ("p", "m", "v", "g")}
F = numpy.float32
HALF, ONE, ROOT, DENSITY = F(0.5), F(1), F(0.7071067811865476), F(0.3989422804014327)
RATE, DECAY, BETA1, BETA2, EPS = F(1e-3), F(0.01), F(0.9), F(0.999), F(1e-8)


def gelu(x, y):
    for i in prange(x.size):
        y[i] = HALF * x[i] * (ONE + math.erf(x[i] * ROOT))


def gelu_backward(x, dy, dx):
    for i in prange(x.size):
        below = HALF * (ONE + math.erf(x[i] * ROOT))
        dx[i] = dy[i] * (below + x[i] * DENSITY * math.exp(-HALF * x[i] * x[i]))


def swiglu(gate, up, y):
    for i in prange(gate.size):
        y[i] = gate[i] / (ONE + math.exp(-gate[i])) * up[i]


def swiglu_backward(gate, up, dy, dgate, dup):
    for i in prange(gate.size):
        s = ONE / (ONE + math.exp(-gate[i]))
        dgate[i] = dy[i] * up[i] * s * (ONE + gate[i] * (ONE - s))
        dup[i] = dy[i] * gate[i] * s


def softmax(x, y):
    for r in prange(x.shape[0]):
        top = x[r, 0]
        for i in range(x.shape[1]):
            top = max(top, x[r, i])
        total = F(0)
        for i in range(x.shape[1]):
            power = math.exp(x[r, i] - top)
            y[r, i] = power
            total += power
        scale = ONE / total
        for i in range(x.shape[1]):
            y[r, i] *= scale


def layer_norm(x, gain, shift, y):
    n = F(x.shape[1])
    for r in prange(x.shape[0]):
        total, square = F(0), F(0)
        for i in range(x.shape[1]):
            total += x[r, i]
        mean = total / n
        for i in range(x.shape[1]):
            square += (x[r, i] - mean) * (x[r, i] - mean)
        scale = ONE / math.sqrt(square / n + F(1e-5))
        for i in range(x.shape[1]):
            y[r, i] = (x[r, i] - mean) * scale * gain[i] + shift[i]


def rms_norm(x, gain, y):
    n = F(x.shape[1])
    for r in prange(x.shape[0]):
        square = F(0)
        for i in range(x.shape[1]):
            square += x[r, i] * x[r, i]
        scale = ONE / math.sqrt(square / n + F(1e-6))
        for i in range(x.shape[1]):
            y[r, i] = x[r, i] * scale * gain[i]


def layer_norm_backward(x, gain, dy, dx, dgain, dshift, parts):
    n = F(x.shape[1])
    gains, shifts = numpy.zeros((parts, x.shape[1]), F), numpy.zeros((parts, x.shape[1]), F)
    for part in prange(parts):
        for r in range(x.shape[0] * part // parts, x.shape[0] * (part + 1) // parts):
            total, square, along, slope = F(0), F(0), F(0), F(0)
            for i in range(x.shape[1]):
                total += x[r, i]
            mean = total / n
            for i in range(x.shape[1]):
                square += (x[r, i] - mean) * (x[r, i] - mean)
            scale = ONE / math.sqrt(square / n + F(1e-5))
            for i in range(x.shape[1]):
                unit = (x[r, i] - mean) * scale
                along += dy[r, i] * gain[i] * unit
                slope += dy[r, i] * gain[i]
                gains[part, i] += dy[r, i] * unit
                shifts[part, i] += dy[r, i]
            along, slope = along / n, slope / n
            for i in range(x.shape[1]):
                dx[r, i] = scale * (dy[r, i] * gain[i] - slope - (x[r, i] - mean) * scale * along)
    dgain[:] = gains.sum(0)
    dshift[:] = shifts.sum(0)


def rms_norm_backward(x, gain, dy, dx, dgain, parts):
    n = F(x.shape[1])
    gains = numpy.zeros((parts, x.shape[1]), F)
    for part in prange(parts):
        for r in range(x.shape[0] * part // parts, x.shape[0] * (part + 1) // parts):
            square, along = F(0), F(0)
            for i in range(x.shape[1]):
                square += x[r, i] * x[r, i]
            scale = ONE / math.sqrt(square / n + F(1e-6))
            for i in range(x.shape[1]):
                unit = x[r, i] * scale
                along += dy[r, i] * gain[i] * unit
                gains[part, i] += dy[r, i] * unit
            along = along / n
            for i in range(x.shape[1]):
                dx[r, i] = scale * (dy[r, i] * gain[i] - x[r, i] * scale * along)
    dgain[:] = gains.sum(0)


def cross_entropy_forward(logits, target):
    loss = 0.0
    for r in prange(logits.shape[0]):
        top, total = logits[r, 0], F(0)
        for i in range(logits.shape[1]):
            top = max(top, logits[r, i])
        for i in range(logits.shape[1]):
            total += math.exp(logits[r, i] - top)
        loss += math.log(total) + top - logits[r, target[r]]
    return loss / logits.shape[0]


def cross_entropy(logits, target, dlogits):
    loss, part = 0.0, ONE / F(logits.shape[0])
    for r in prange(logits.shape[0]):
        top, total = logits[r, 0], F(0)
        for i in range(logits.shape[1]):
            top = max(top, logits[r, i])
        for i in range(logits.shape[1]):
            power = math.exp(logits[r, i] - top)
            dlogits[r, i] = power
            total += power
        loss += math.log(total) + top - logits[r, target[r]]
        scale = part / total
        for i in range(logits.shape[1]):
            dlogits[r, i] *= scale
        dlogits[r, target[r]] -= part
    return loss / logits.shape[0]


def total(x):
    found = F(0)
    for i in prange(x.size):
        found += x[i]
    return found


def any_nan(x):
    bits = x.view(numpy.uint32)  # fastmath knows no NaN
    found = 0
    for i in prange(x.size):
        found += (bits[i] & numpy.uint32(0x7fffffff)) > numpy.uint32(0x7f800000)
    return found > 0


def norm(x):
    found = F(0)
    for i in prange(x.size):
        found += x[i] * x[i]
    return math.sqrt(found)


def adamw(p, m, v, g, rate, scale):
    for i in prange(p.size):
        first = BETA1 * m[i] + (ONE - BETA1) * g[i]
        second = BETA2 * v[i] + (ONE - BETA2) * g[i] * g[i]
        m[i] = first
        v[i] = second
        p[i] = p[i] * (ONE - RATE * DECAY) - rate * first / (math.sqrt(second) * scale + EPS)


def adamw_list(p, m, v, g, tensor, start, stop, rate, scale):
    for k in prange(tensor.size):
        t = tensor[k]
        a, b, c, d = p[t], m[t], v[t], g[t]
        for i in range(start[k], stop[k]):
            first = BETA1 * b[i] + (ONE - BETA1) * d[i]
            second = BETA2 * c[i] + (ONE - BETA2) * d[i] * d[i]
            b[i] = first
            c[i] = second
            a[i] = a[i] * (ONE - RATE * DECAY) - rate * first / (math.sqrt(second) * scale + EPS)


def linreg(x, y, w, batches, epochs, rate):
    """Epochs of SGD on the mean square error; w ends with the bias. Returns the losses' sum, or NaN."""
    rows, features, losses = x.shape[0] // batches, x.shape[1], F(0)
    slope = numpy.zeros(features + 1, F)
    for step in range(epochs * batches):
        first = step % batches * rows
        slope[:] = F(0)
        loss = F(0)
        for r in range(first, first + rows):
            error = w[features] - y[r]
            for k in range(features):
                error += x[r, k] * w[k]
            for k in range(features):
                slope[k] += error * x[r, k]
            slope[features] += error
            loss += error * error
        for k in range(features + 1):
            w[k] -= rate * F(2) / F(rows) * slope[k]
        losses += loss
        if math.isnan(loss):
            return loss
    return losses


# work -> (loop, its arrays)
FORMULAS = {
    "gelu": (gelu, ("x", "y")), "gelu_backward": (gelu_backward, ("x", "dy", "dx")),
    "swiglu": (swiglu, ("gate", "up", "y")),
    "swiglu_backward": (swiglu_backward, ("gate", "up", "dy", "dgate", "dup")),
    "softmax": (softmax, ("x", "y")), "layer_norm": (layer_norm, ("x", "gain", "shift", "y")),
    "layer_norm_backward": (layer_norm_backward, ("x", "gain", "dy", "dx", "dgain", "dshift")),
    "rms_norm": (rms_norm, ("x", "gain", "y")),
    "rms_norm_backward": (rms_norm_backward, ("x", "gain", "dy", "dx", "dgain")),
    "cross_entropy": (cross_entropy, ("logits", "target", "dlogits")),
    "cross_entropy_forward": (cross_entropy_forward, ("logits", "target")),
    "sum": (total, ("x",)), "any_nan": (any_nan, ("x",)), "norm": (norm, ("x",)),
}


def typed(tensors):
    found = numba.typed.List()
    for tensor in tensors:
        found.append(tensor)
    return found


def compiled(function, fast):
    """A copy, so that numba keeps the two ways apart in its cache."""
    suffix = "_fast" if fast else "_exact"
    copy = types.FunctionType(function.__code__, function.__globals__, function.__name__ + suffix)
    copy.__qualname__ = copy.__name__
    return numba.njit(parallel=True, fastmath=fast, cache=True)(copy)


class Peer:
    name = "numba"

    def __init__(self):
        self.version = numba.__version__
        self.made = {}

    def get(self, function, fast):
        key = function.__name__, fast
        if key not in self.made:
            self.made[key] = compiled(function, fast)
        return self.made[key]

    def optimizer(self, tensors, fast):
        arrays, count = [tensors[name] for name in LISTS["adamw"]], [10]
        if isinstance(arrays[0], list):
            parts = [(t, at, min(at + PIECE, p.size)) for t, p in enumerate(arrays[0])
                     for at in range(0, p.size, PIECE)]
            arrays = [typed(some) for some in arrays] + [numpy.array(column) for column in zip(*parts)]
            loop = self.get(adamw_list, fast)
        else:
            loop = self.get(adamw, fast)

        def run():
            count[0] += 1
            loop(*arrays, F(RATE / (1 - float(BETA1) ** count[0])), F(1 / math.sqrt(1 - float(BETA2) ** count[0])))
        return run

    def candidates(self, case, tensors):
        if case.dtype != "f32":
            return {}
        if case.work == "adamw":
            return {"numba": self.optimizer(tensors, False), "numba fastmath": self.optimizer(tensors, True)}
        if case.work not in FORMULAS:
            return {}
        function, names = FORMULAS[case.work]
        values = [tensors[name] for name in names]
        if case.work.endswith("norm_backward"):
            values.append(numba.get_num_threads())  # each sums columns of its own
        exact, fast = self.get(function, False), self.get(function, True)
        return {"numba": lambda: exact(*values), "numba fastmath": lambda: fast(*values)}

    def linreg(self, x, y, batches):
        def one(fast):
            w = numpy.zeros(x.shape[1] + 1, F)
            loop, values = numba.njit(fastmath=fast)(linreg), (view(x), view(y))
            return lambda epochs: loop(*values, w, batches, epochs, F(0.01)), lambda: w.tolist()
        return {"numba": one(False), "numba fastmath": one(True)}


def view(memory):
    kind = {"f32": numpy.float32, "bf16": numpy.uint16, "i64": numpy.int64}[memory.dtype]
    flat = numpy.frombuffer(memory.buffer(), dtype=kind)
    return flat.reshape(-1, memory.pitch)[:, :memory.shape[1]] if memory.pitch else flat.reshape(memory.shape)


def results(case, value):
    return [float(value) if name in case.wanted else None for name in case.results]


def open(device):
    if device != "cpu":
        raise ImportError("its loops here are for the CPU")
    return Peer()
