"""Runs the C functions of a header on the CPU and holds them against Python's math, in units in the last
place of f32.    math_bounds.py LOCKSTEP HEADER FOLDER [--emit TARGET | --device DEVICE FOLDER]
With a device the results must be, bit for bit, those that a run on the CPU left in the other folder."""
import math
import os
import struct
import subprocess
import sys

lockstep, header, folder = sys.argv[1:4]
device, like = sys.argv[5:7] if "--device" in sys.argv else ("cpu", None)
os.makedirs(folder, exist_ok=True)


def dim(x, y):
    return x - y if x > y else 0.0


def fmod(x, y):
    return math.nan if math.isinf(x) or y == 0 else math.fmod(x, y)


def remainder(x, y):
    return math.nan if math.isinf(x) or y == 0 else math.remainder(x, y)


def next_after(x, y):
    if x == y:
        return y
    bits = struct.unpack("i", struct.pack("f", x))[0] & 0x7fffffff
    if not bits:
        return math.copysign(2.0**-149, y)
    bits += 1 if (x < y) == (x > 0) else -1
    return math.copysign(struct.unpack("f", struct.pack("i", bits))[0], x)


def log_b(x):
    return -math.inf if x == 0 else math.inf if math.isinf(x) else math.frexp(x)[1] - 1.0


def i_log_b(x):
    return -(2.0**31) if x == 0 else 2.0**31 if math.isinf(x) else math.frexp(x)[1] - 1.0


def ld_exp(x, n):
    return math.ldexp(x, int(min(max(n, -(2.0**31)), 2.0**31 - 1)))


def l_round(x):
    if math.isinf(x) or abs(x) >= 1e18:
        return 0.0
    return math.copysign(math.floor(abs(x) + 0.5), x) + round(x)


def gamma(x):
    return math.copysign(math.inf, x) if x == 0 else math.nan if x == -math.inf else math.gamma(x)


def classes(x):
    """FP_INFINITE ... FP_NORMAL, and what the other macros say."""
    kind = 1 if math.isinf(x) else 2 if x == 0 else 3 if abs(x) < 2.0**-126 else 4
    return kind + 10.0 * (kind == 4) + 1000 * (x > 1)


OF_NAN = {classes: 100.0, i_log_b: -(2.0**31), l_round: 0.0}  # ld_exp's is x, or of the lengths NaN


# name: the exact function, arguments, bound in ulp, what x is multiplied with
FUNCTIONS = {
    "fmod": (fmod, 2, 0, 1e6),
    "fdim": (dim, 2, 0.5, 100),
    "hypot": (math.hypot, 2, 1, 1e20),
    "atan2": (math.atan2, 2, 4, 10),
    "tan": (math.tan, 1, 4, 100),
    "asin": (math.asin, 1, 4, 1),
    "acos": (math.acos, 1, 4, 1),
    "log10": (math.log10, 1, 1, 1e5),
    "sinh": (math.sinh, 1, 1, 80),
    "cosh": (math.cosh, 1, 1, 80),
    "asinh": (math.asinh, 1, 1, 1e3),
    "acosh": (math.acosh, 1, 1, 50),
    "atanh": (math.atanh, 1, 1, 1),
    "erfc": (math.erfc, 1, 1, 10),
    "tgamma": (gamma, 1, 1, 45),
    "lgamma": (math.lgamma, 1, 1, 1e2),
    "remainder": (remainder, 2, 0, 1e6),
    "nextafter": (next_after, 2, 0, 10),
    "logb": (log_b, 1, 0, 1e20),
    "ilogb": (i_log_b, 1, 0, 1e20),
    "ldexp": (ld_exp, 2, 0.5, 500),
    "lround": (l_round, 1, 0.5, 1e4),
    "fpclassify": (classes, 1, 0, 10),
}
CALLED = {"fpclassify": "lockstep_fpclassify_f32"}  # by the macro; of the others NAMEf


def single(x):
    try:
        return struct.unpack("f", struct.pack("f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


SPECIAL = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan]
SPECIAL += [single(x) for x in (1e-45, -3e-39, 3.4e38, 0.5, 1e-4, 88.9, 276, -277)]
# Where gamma is 1, has a pole or (near -1.5) turns, and their neighbours.
SPECIAL += [next_after(x, to) for x in (1.0, 2.0, -2.0, -1.5, -3.0) for to in (-math.inf, x, math.inf)]


def ulp(x):
    exponent = max(math.frexp(x)[1], -125) if x else -125
    return math.ldexp(1.0, exponent - 24)


def exact(function, arguments):
    if any(map(math.isnan, arguments)):
        if function in OF_NAN:
            return OF_NAN[function]
        if function is ld_exp:
            return arguments[0]
        return math.inf if function is math.hypot and any(map(math.isinf, arguments)) else math.nan
    try:
        return function(*arguments)
    except ValueError:
        pole = {math.log10: -math.inf, math.atanh: math.copysign(math.inf, arguments[0]), math.lgamma: math.inf}
        at_pole = function is math.lgamma or function in pole and abs(arguments[0]) == (function is math.atanh)
        return pole[function] if at_pole else math.nan
    except OverflowError:
        return math.inf if function is math.cosh else math.copysign(math.inf, arguments[0])


def write(path, values):
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % len(values)
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + (text.ljust(117) + "\n").encode())
        file.write(struct.pack(f"<{len(values)}f", *values))


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    start = 10 + struct.unpack("<H", data[8:10])[0]
    return struct.unpack(f"<{(len(data) - start) // 4}f", data[start:])


def points(scale):
    state, values = 12345, []
    for _ in range(4000):
        state = (state * 1103515245 + 12345) % 2**31
        values.append(single((state / 2**30 - 1) * scale * 10.0 ** -((state >> 7) % 5)))
    return values + SPECIAL * len(SPECIAL)


done, failed = 0, False
source = os.path.join(folder, "functions.step")
with open(source, "w") as file:
    file.write(f'import c "{os.path.abspath(header)}"\n')
    for name, (_, count, _, _) in FUNCTIONS.items():
        file.write(f"step {name}_of[n](x: f32[n], z: f32[n], out y: f32[n]) {{\n")
        call = f"c_{name}(x, z)" if count == 2 else f"c_{name}(x)"
        file.write(f"    y = {call if count == 2 else f'if z == z then {call} else {call}'}\n}}\n")
for name, (function, count, bound, scale) in FUNCTIONS.items():
    if "--emit" in sys.argv:
        text = subprocess.run([lockstep, "emit", f"{source}:{name}_of", "--target", sys.argv[5]],
                              check=True, capture_output=True, text=True).stdout
        done += f"ls_c_{CALLED.get(name, name + 'f')}(" in text
        continue
    x = points(scale)
    z = points(scale / 3)[: len(x) - len(SPECIAL) ** 2] + [s for s in SPECIAL for _ in SPECIAL]
    paths = {key: os.path.join(folder, f"{name}.{key}.npy") for key in "xzy"}
    write(paths["x"], x)
    write(paths["z"], z)
    subprocess.run([lockstep, "run", f"{source}:{name}_of", "--device", device, f"x={paths['x']}",
                    f"z={paths['z']}", "-o", f"y={paths['y']}"], check=True)
    worst, where = 0.0, None
    for a, b, found in zip(x, z, read(paths["y"])):
        wanted = exact(function, (a, b)[:count])
        if math.isnan(wanted) or math.isnan(found):
            error = 0 if math.isnan(wanted) and math.isnan(found) else math.inf
        elif math.isinf(single(wanted)) or math.isinf(found):
            error = 0 if single(wanted) == found else math.inf
        elif single(wanted) == found == 0:
            error = 0 if math.copysign(1, wanted) == math.copysign(1, found) else math.inf
        else:
            error = abs(found - wanted) / ulp(wanted)
        if error > worst:
            worst, where = error, (a, b, found, wanted)
    done += 1
    if like and open(paths["y"], "rb").read() != open(os.path.join(like, f"{name}.y.npy"), "rb").read():
        failed = True
        print(f"{name}: not the CPU's bits")
    if worst > bound:
        failed = True
        print(f"{name}: {worst:.3g} ulp, more than {bound}: {where}")
    elif "-v" in sys.argv:
        print(f"{name}: {worst:.3g} ulp")
if "--emit" in sys.argv:
    print(f"{done} functions emitted")
else:
    print(f"{done} functions, {'some not' if failed else 'all'} within their bounds")
