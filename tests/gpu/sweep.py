#!/usr/bin/env python3
"""Every one-argument function of f32 on a device, over all 2^32 inputs, against the hashes of
tests/numerics/sweep.txt: as steps of the language, so that the functions are those that programs get.

    python3 tests/gpu/sweep.py --build build --device cuda [--sample] [NAME...]

The hash is a sum of what (input, result) mix to, in 64 bits, so the order of the threads does not matter.
--sample takes every 499th input, as the suite's own sweep does on the CPU."""
import argparse
import ctypes as C
import os
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "bench"), os.path.dirname(HERE)]
from operations import functions
from lockstep import ROOT, Context

STRIDE, CHUNK = 499, 1 << 28  # of the sample; inputs of a launch
LITES = {row.lite for row in functions()}
PLAIN = [row.name for row in functions() if row.id not in LITES] + ["abs", "sign"]
LITE = [row.name for row in functions() if row.lite != "NONE"]
CASTS = "i32 u32 i64 u64"
NARROW = "bf16 f16 e4m3 e5m2"
# name in sweep.txt -> (f32 expression of x, grade)
FUNCTIONS = {
    **{name: (f"{name}(x)", "exact") for name in PLAIN},
    "pow_07": ("pow(x, 0.7)", "exact"), "pow_m13": ("pow(x, -1.3)", "exact"), "pow_base": ("pow(0.999, x)", "exact"),
    **{f"{name}_lite": (f"{name}(x)", "lite") for name in LITE},
    **{f"{name}_lite_bf16": (f"bf16({name}(x))", "lite") for name in LITE},
    "negative": ("-x", "exact"),
    "is_nan": ("f32(isnan(x))", "exact"), "is_infinite": ("f32(isinf(x))", "exact"),
    "is_finite": ("f32(isfinite(x))", "exact"),
    **{f"to_{name}": (f"f32({name}(x))", "exact") for name in CASTS.split()},
    **{f"to_{name}": (f"{name}(x)", "exact") for name in NARROW.split()},
}
# What programs cannot call: it lies inside of sigmoid, tanh and erf; and AMD's sqrt, which `sqrt` is there.
INSIDE = {"inverse", "sqrt_hip"}

MIX = """const length = {length}
fn mixed(u, y) {{
    let a = bit_or(shift_left(u64(u), 32), u64(float_bits(y)))
    let b = bit_xor(a, shift_right(a, 30)) * bit_or(shift_left(u64(0xbf58476d), 32), u64(0x1ce4e5b9))
    let c = bit_xor(b, shift_right(b, 27)) * bit_or(shift_left(u64(0x94d049bb), 32), u64(0x133111eb))
    return bit_xor(c, shift_right(c, 31))
}}
"""
STEP = """step sweep_{name}[n = length](first: u64, stride: u64, out hash: u64) math {grade} {{
    let u = u32(first + stride * u64(index(n)))
    let x = float_from_bits(u)
    hash = sum(mixed(u, {expression}))
}}
"""


def program(length):
    return MIX.format(length=length) + "".join(STEP.format(name=name, expression=expression, grade=grade)
                                               for name, (expression, grade) in FUNCTIONS.items())


def recorded():
    """name -> (hash of all inputs, of the sample)."""
    found = {}
    with open(os.path.join(ROOT, "tests", "numerics", "sweep.txt")) as file:
        for line in file:
            words = line.split()
            if len(words) == 6 and not line.startswith("#"):
                found[words[0]] = int(words[4], 16), int(words[5], 16)
    return found


def hash_of(step, sample):
    total = 0
    for first in range(0, 1 if sample else 1 << 32, CHUNK):
        step.set("first", C.c_uint64(first))
        step()
        total += step.get("hash", C.c_uint64)
    return total % (1 << 64)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    wanted, context = recorded(), Context(options.build, options.device)
    names = options.names or list(FUNCTIONS)
    unknown = [name for name in names if name not in FUNCTIONS or name not in wanted]
    lacking = set(wanted) - set(FUNCTIONS) - INSIDE
    if unknown or lacking:
        sys.exit(f"sweep.py: not in both tables: {' '.join(sorted([*unknown, *lacking]))}")
    with tempfile.NamedTemporaryFile("w", suffix=".step") as file:
        file.write(program(-(-(1 << 32) // STRIDE) if options.sample else CHUNK))
        file.flush()
        steps = [context.step(file.name, "sweep_" + name, {}, ("hash",), prepare=False,
                              stride=STRIDE if options.sample else 1, first=0) for name in names]
    context.prepare(steps)
    wrong = 0
    for name, step in zip(names, steps):
        start = time.perf_counter()
        found, expected = hash_of(step, options.sample), wanted[name][1 if options.sample else 0]
        wrong += found != expected
        print(f"{'ok' if found == expected else 'FAILED'} {name} {found:016x}"
              f"{'' if found == expected else f', and sweep.txt has {expected:016x}'}"
              f" ({time.perf_counter() - start:.2f} s)", flush=True)
    print(f"{len(names) - wrong} of {len(names)} functions give the bits of sweep.txt")
    sys.exit(wrong != 0)


if __name__ == "__main__":
    main()
