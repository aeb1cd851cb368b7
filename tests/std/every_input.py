"""Activation steps on every bf16 number, against the same formulas in f64: `every_input.py LOCKSTEP`.
Steps of bf16 may be off by what `math lite` promises, a little over half a unit in the last place;
those of f32 by some. A slope near its zero may be off by as much of 1/8, of which size the terms are
that cancel. Prints the largest error of each step; exit status 1 if one is larger than it may be."""
import math
import os
import struct
import sys
import tempfile

import check

HALF_ROOT, DENSITY, TANH = math.sqrt(0.5), 1 / math.sqrt(2 * math.pi), 2 * math.sqrt(2 / math.pi)
PATTERNS = [struct.unpack("<f", struct.pack("<I", bits << 16))[0] for bits in range(1 << 16)]
INPUTS = [x for x in PATTERNS if math.isfinite(x)]


def sigmoid(x):
    if x >= 0:
        return 1 / (1 + math.exp(-x))
    return math.exp(x) / (1 + math.exp(x)) if x > -745 else 0.0


def below(x):
    """The normal distribution's integral up to x."""
    return 0.5 * math.erfc(-x * HALF_ROOT)


def bent(x):
    """What gelu_tanh gives to the sigmoid, and its slope."""
    return TANH * (x + 0.044715 * x ** 3), TANH * (1 + 3 * 0.044715 * x * x)


def gelu(x):
    return x * below(x)


def gelu_slope(x):
    return below(x) + x * DENSITY * math.exp(-min(x * x / 2, 745))


def gelu_tanh(x):
    return x * sigmoid(bent(x)[0])


def gelu_tanh_slope(x):
    inner, slope = bent(x)
    return sigmoid(inner) + (x * sigmoid(inner) * sigmoid(-inner) * slope if abs(x) < 1e3 else 0)


def mish(x):
    return x * math.tanh(x if x > 30 else math.log1p(math.exp(x)))


def mish_slope(x):
    soft = math.tanh(x if x > 30 else math.log1p(math.exp(x)))
    return soft + (x * (1 - soft) * (1 + soft) * sigmoid(x) if abs(x) < 700 else 0)


def silu(x):
    return x * sigmoid(x)


def silu_slope(x):
    return sigmoid(x) * (1 + x * sigmoid(-x))


# numbers smaller than this are held to its unit of the last place
LEAST = {gelu_slope: 2.0 ** -3, gelu_tanh_slope: 2.0 ** -3, silu_slope: 2.0 ** -3, mish_slope: 2.0 ** -3}
OTHERS = {"bf16": 2.0 ** -12, "f32": 2.0 ** -20}

# step: its input, the inputs that are 1, and the outputs with their functions
STEPS = {
    "gelu_forward_bf16": ("x", (), {"y": gelu}),
    "gelu_backward_bf16": ("x", ("dy",), {"dx": gelu_slope}),
    "gelu_tanh_forward_bf16": ("x", (), {"y": gelu_tanh}),
    "gelu_tanh_backward_bf16": ("x", ("dy",), {"dx": gelu_tanh_slope}),
    "silu_forward_bf16": ("x", (), {"y": silu}),
    "silu_backward_bf16": ("x", ("dy",), {"dx": silu_slope}),
    "swiglu_backward_bf16": ("gate", ("up", "dy"), {"dgate": silu_slope, "dup": silu}),
    "geglu_backward_bf16": ("gate", ("up", "dy"), {"dgate": gelu_slope, "dup": gelu}),
    "gelu_backward": ("x", ("dy",), {"dx": gelu_slope}),
    "gelu_tanh_forward": ("x", (), {"y": gelu_tanh}),
    "gelu_tanh_backward": ("x", ("dy",), {"dx": gelu_tanh_slope}),
    "mish_forward": ("x", (), {"y": mish}),
    "mish_backward": ("x", ("dy",), {"dx": mish_slope}),
    "glu_forward": ("gate", ("up",), {"y": sigmoid}),
    "silu_forward": ("x", (), {"y": silu}),
    "silu_backward": ("x", ("dy",), {"dx": silu_slope}),
    "swiglu_backward": ("gate", ("up", "dy"), {"dgate": silu_slope, "dup": silu}),
    "geglu_backward": ("gate", ("up", "dy"), {"dgate": gelu_slope, "dup": gelu}),
}
MOST = {"bf16": 0.56, "f32": 24.0}  # units in the last place
DIGITS = {"bf16": 8, "f32": 24}


def worst(found, function, kind):
    largest, at = 0.0, 0.0
    for x, y in zip(INPUTS, found):
        exact = function(x)
        size = max(abs(exact), LEAST.get(function, OTHERS[kind]))
        error = abs(y - exact) / 2.0 ** (math.frexp(size)[1] - DIGITS[kind])
        if not error <= largest:
            largest, at = error, x
    return largest, at


wrong = 0
with tempfile.TemporaryDirectory() as folder:
    for step, (first, ones, outputs) in STEPS.items():
        kind = "bf16" if step.endswith("_bf16") else "f32"
        inputs = {name: {"type": kind, "shape": [len(INPUTS)], "data": [1.0] * len(INPUTS)} for name in ones}
        inputs[first] = {"type": kind, "shape": [len(INPUTS)], "data": INPUTS}
        found = check.launch(sys.argv[1], "std/activations:" + step, inputs, dict.fromkeys(outputs, {}), folder)
        for name, function in outputs.items():
            largest, at = worst(found[name]["data"], function, kind)
            wrong += not largest <= MOST[kind]
            print(f"{step} {name}: {largest:.4f} units of the last place at {at!r}")
sys.exit(wrong > 0)
