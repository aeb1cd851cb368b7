#!/usr/bin/env python3
"""Counts what each f32 function costs on sm_90, from the machine code NVRTC makes of it.

    instructions.py [--record]

A kernel applies the function to 4 loaded values, another to 8; half the difference of two such
differences from a kernel that adds 1 instead is what one value costs. An instruction of sm_90 has
16 bytes; its low 9 bits are the operation. Without --record the counts are compared with those in
instructions.txt, which hold for the version of NVRTC named there."""
import ctypes
import glob
import os
import re
import struct
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TABLE = os.path.join(ROOT, "tests", "numerics", "instructions.txt")
with open(os.path.join(ROOT, "compiler", "toolchain", "options.def")) as rows:
    OPTIONS = ["--gpu-architecture=sm_90"] + re.findall(
        r'^X\(NVRTC, [^)]*\bRTC_USE_EXACT\b[^"]*"(.*)"\)$', rows.read(), re.MULTILINE)
NAMES = """exp exp2 expm1 log log2 log1p sigmoid tanh erf softplus sqrt rsqrt cbrt sin cos
           tanh_lite erf_lite sigmoid_lite log_lite exp_lite exp2_lite""".split()
NOP = 0x118


def nvrtc():
    places = [os.environ.get("LOCKSTEP_NVRTC")] + sorted(
        glob.glob("/usr/local/cuda*/lib64/libnvrtc.so*")) + ["libnvrtc.so"]
    for place in filter(None, places):
        try:
            return ctypes.CDLL(place)
        except OSError:
            continue
    sys.exit("NVRTC is not here: set LOCKSTEP_NVRTC to the file libnvrtc.so")


def library_text():
    parts = []
    for name in ("prelude.cu", "math.h", "lite.h"):
        with open(os.path.join(ROOT, "templates", name)) as file:
            parts.append(file.read())
    return "\n".join(parts)


def compile_text(library, text):
    program = ctypes.c_void_p()
    library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"count", 0, None, None)
    options = (ctypes.c_char_p * len(OPTIONS))(*[option.encode() for option in OPTIONS])
    failed = library.nvrtcCompileProgram(program, len(OPTIONS), options)
    size = ctypes.c_size_t()
    ask, get = ((library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog) if failed else
                (library.nvrtcGetCUBINSize, library.nvrtcGetCUBIN))
    ask(program, ctypes.byref(size))
    data = ctypes.create_string_buffer(size.value)
    get(program, data)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    if failed:
        sys.exit(data.value.decode())
    return data.raw


def kernel(name, expression, count):
    loads = "".join(f"f32 v{i} = x[{i} * 256];\n" for i in range(count))
    stores = "".join(f"y[{i} * 256] = {expression.replace('@', f'v{i}')};\n" for i in range(count))
    return (f"LS_KERNEL {name}(f32 *LS_RESTRICT y, const f32 *LS_RESTRICT x) {{\n"
            f"x += threadIdx.x; y += threadIdx.x;\n{loads}{stores}}}\n")


def count_instructions(image):
    """By kernel, without the padding."""
    offset, = struct.unpack_from("<Q", image, 0x28)
    _, count, strings = struct.unpack_from("<HHH", image, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, offset + 64 * i) for i in range(count)]
    counts = {}
    for section in sections:
        start = sections[strings][4] + section[0]
        name = image[start:image.index(b"\0", start)].decode()
        if name.startswith(".text."):
            code = image[section[4]:section[4] + section[5]]
            counts[name[6:]] = sum(struct.unpack_from("<Q", code, at)[0] & 0x1FF != NOP
                                   for at in range(0, len(code), 16))
    return counts


def main():
    library = nvrtc()
    text = library_text()
    for name in NAMES + ["nothing"]:
        call = f"ls_{name}_f32(@)" if name != "nothing" else "@ + 1.0f"
        text += kernel(name + "__4", call, 4) + kernel(name + "__8", call, 8)
    counts = count_instructions(compile_text(library, text))
    base = counts["nothing__8"] - counts["nothing__4"]
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    lines = [f"# Instructions per value on sm_90, NVRTC {major.value}.{minor.value}; made by instructions.py --record."]
    for name in NAMES:
        per_value = (counts[name + "__8"] - counts[name + "__4"] - base) / 4 + 1
        lines.append(f"{name:<13} {per_value:6.2f}")
    result = "\n".join(lines) + "\n"
    print(result, end="")
    if "--record" in sys.argv:
        with open(TABLE, "w") as file:
            file.write(result)
        return
    with open(TABLE) as file:
        recorded = file.read()
    if recorded.splitlines()[0] == lines[0] and recorded != result:
        sys.exit("the counts are not those of instructions.txt: record them and README's table anew")


main()
