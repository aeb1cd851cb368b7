#!/usr/bin/env python3
"""Counts what each operation costs on sm_90, from the machine code NVRTC makes of it, and holds the
column `cost` of compiler/ir/ops.def against that.

    instructions.py [--record]

A kernel applies the operation to 4 loaded values, another to 8; half the difference of two such
differences from kernels that do what is one instruction instead is what one value costs. An
instruction of sm_90 has 16 bytes; its low 9 bits are the operation. What LS_BRANCH_RARE jumps over is
left out. Counted are operations that are an operator of C or a device function without a loop, on f32
where they take it. With another NVRTC than the one ops.def names, the counts are only printed;
--record puts them into ops.def."""
import ctypes
import glob
import os
import re
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from operations import ROOT, TABLE, operations

with open(os.path.join(ROOT, "compiler", "toolchain", "options.def")) as rows:
    OPTIONS = ["--gpu-architecture=sm_90"] + re.findall(
        r'^X\(NVRTC, [^)]*\bRTC_USE_EXACT\b[^"]*"(.*)"\)$', rows.read(), re.MULTILINE)
# By rule: the types of the operands and of the result. A bool chooses between two floats.
RULES = {"SAME": ("f32 f32 f32", "f32"), "FLOAT": ("f32 f32 f32", "f32"), "INT": ("u32 u32", "u32"),
         "SHIFT": ("u32 i32", "u32"), "TEST": ("f32 f32", "bool"), "EQUAL": ("f32 f32", "bool"),
         "FTEST": ("f32", "bool"), "BITS": ("f32", "u32"), "UNBITS": ("u32", "f32"),
         "NARROW": ("f64", "f32"), "FIX": ("f32 i64", "i64"), "DRAW": ("u64 i64", "u32"),
         "DRAWF": ("u64 i64", "f32")}
# By the number of operands: what is one instruction.
BASES = ["", "@a + 1.0f", "@a + @b", "ls_fma_f32(@a, @b, @c)"]
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
    for name in ("prelude.cu", "math.h", "lite.h", "integer.h", "convert.h", "philox.h", "fixed.h"):
        with open(os.path.join(ROOT, "templates", name)) as file:
            parts.append(file.read())
    text = "\n".join(parts)
    assert "(!LS_BRANCH_RARE || " in text
    return text.replace("(!LS_BRANCH_RARE || ", "(0 && ")


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


def kernel(name, expression, operands, result, count):
    letters = "abc"[:len(operands)]
    parameters = "".join(f", const {type} *LS_RESTRICT x{k}" for k, type in enumerate(operands))
    places = "".join(f"x{k} += threadIdx.x;\n" for k in range(len(operands)))
    loads = "".join(f"{type} {letter}{i} = x{k}[{i} * 256];\n" for i in range(count)
                    for k, (letter, type) in enumerate(zip(letters, operands)))
    stores = "".join(f"y[{i} * 256] = {re.sub('@([abc])', chr(92) + 'g<1>' + str(i), expression)};\n"
                     for i in range(count))
    return (f"LS_KERNEL {name}({result} *LS_RESTRICT y{parameters}) {{\n"
            f"y += threadIdx.x;\n{places}{loads}{stores}}}\n")


def expression_of(row, operands):
    infix = re.fullmatch(r"\w+\((.+)\)", row.form)
    if infix:
        return f"@a {infix[1]} @b"
    values = ["(i64)@b" if row.rule == "SHIFT" and k else "@" + "abc"[k] for k in range(row.operands)]
    return f"ls_{row.name}_{operands[0]}({', '.join(values)})"


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


def record(counts):
    with open(TABLE) as file:
        text = file.read()
    for row, count in counts:
        pattern = rf"(^X\({row.id},.*?, +{row.rule}, +[\w|]+,)( *)(\d+)(?=,)"
        text = re.sub(pattern, lambda m: m[1] + f"{round(count):>{len(m[2] + m[3])}}", text, 1, re.MULTILINE)
    with open(TABLE, "w") as file:
        file.write(text)


def main():
    library, text, counted = nvrtc(), library_text(), []
    for n in (1, 2, 3):
        for count in (4, 8):
            text += kernel(f"base{n}__{count}", BASES[n], ["f32"] * n, "f32", count)
    for row in operations():
        if row.rule not in RULES or "R" in row.flags or row.form in ("NONE", "OWN"):
            continue
        operands, result = RULES[row.rule]
        operands, expression = operands.split()[:row.operands], ""
        expression = expression_of(row, operands)
        if result == "bool":
            expression, result = f"{expression} ? @a : 1.0f", "f32"
        for count in (4, 8):
            text += kernel(f"count_{row.id}__{count}", expression, operands, result, count)
        counted.append(row)
    sizes, counts, wrong = count_instructions(compile_text(library, text)), [], 0
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    version = f"{major.value}.{minor.value}"
    print(f"Instructions per value on sm_90, NVRTC {version}")
    for row in counted:
        base = sizes[f"base{row.operands}__8"] - sizes[f"base{row.operands}__4"]
        count = (sizes[f"count_{row.id}__8"] - sizes[f"count_{row.id}__4"] - base) / 4 + 1
        count -= RULES[row.rule][1] == "bool"
        counts.append((row, count))
        wrong += round(count) != row.cost
        print(f"{row.name:<15} {count:6.2f}{f', and ops.def has {row.cost}' if round(count) != row.cost else ''}")
    if "--record" in sys.argv:
        return record(counts)
    with open(TABLE) as file:
        same = re.search(r"NVRTC\s[\s*]*(\d+\.\d+)", file.read())[1] == version
    if same and wrong:
        sys.exit(f"{wrong} costs are not those of ops.def: instructions.py --record, and templates/README.md's table")


main()
