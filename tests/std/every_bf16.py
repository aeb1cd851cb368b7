"""The activation steps of bf16 on every bf16 number, against the same formulas in f64:
`every_bf16.py LOCKSTEP`. A result may be off by what `math lite` promises, a little over half a unit
in the last place of bf16; a slope near its zero by as much of 1/8, of which size the terms are that
cancel. Prints the largest error of each step; exit status 1 if one is larger than it may be."""
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


def silu(x):
    return x * sigmoid(x)


def silu_slope(x):
    return sigmoid(x) * (1 + x * sigmoid(-x))


# the unit of the last place of numbers that are smaller than that of what they are made of
LEAST = {gelu_slope: 2.0 ** -11, gelu_tanh_slope: 2.0 ** -11, silu_slope: 2.0 ** -11}
OTHERS, MOST = 2.0 ** -20, 0.56

# step: its input, the inputs that are 1, and the outputs with their functions
STEPS = {
    "gelu_forward_bf16": ("x", (), {"y": gelu}),
    "gelu_backward_bf16": ("x", ("dy",), {"dx": gelu_slope}),
    "gelu_tanh_forward_bf16": ("x", (), {"y": gelu_tanh}),
    "gelu_tanh_backward_bf16": ("x", ("dy",), {"dx": gelu_tanh_slope}),
    "silu_forward_bf16": ("x", (), {"y": silu}),
    "silu_backward_bf16": ("x", ("dy",), {"dx": silu_slope}),
    "swiglu_forward_bf16": ("gate", ("up",), {"y": silu}),
    "swiglu_backward_bf16": ("gate", ("up", "dy"), {"dgate": silu_slope, "dup": silu}),
    "geglu_forward_bf16": ("gate", ("up",), {"y": gelu}),
    "geglu_backward_bf16": ("gate", ("up", "dy"), {"dgate": gelu_slope, "dup": gelu}),
}


def worst(found, function):
    largest, at = 0.0, 0.0
    for x, y in zip(INPUTS, found):
        exact = function(x)
        unit = 2.0 ** (math.frexp(exact)[1] - 8) if exact else 0
        error = abs(y - exact) / max(unit, LEAST.get(function, OTHERS))
        if not error <= largest:
            largest, at = error, x
    return largest, at


wrong = 0
with tempfile.TemporaryDirectory() as folder:
    for step, (first, ones, outputs) in STEPS.items():
        inputs = {name: {"type": "bf16", "shape": [len(INPUTS)], "data": [1.0] * len(INPUTS)} for name in ones}
        inputs[first] = {"type": "bf16", "shape": [len(INPUTS)], "data": INPUTS}
        found = check.launch(sys.argv[1], "std/activations:" + step, inputs, dict.fromkeys(outputs, {}), folder)
        for name, function in outputs.items():
            largest, at = worst(found[name]["data"], function)
            wrong += not largest <= MOST
            print(f"{step} {name}: {largest:.4f} units of the last place at {at!r}")
sys.exit(wrong > 0)
