"""nvidia.py: the kernels of a cubin, from `nvdisasm -c -hex` and the cubin's own tables.

The upper half of an instruction's 128 bits schedules it: stall cycles in bits 41 to 44, the scoreboard that its result
raises in 46 to 48 and the one that says its operands are read in 49 to 51 (7: none), and the six scoreboards that it waits
for in 52 to 57."""
import glob
import os
import re
import shutil
import struct
import subprocess

from listing import Instruction, Kernel

# Where a kernel's arguments begin in constant bank 0.
ARGUMENTS = {"sm_75": 0x160, "sm_80": 0x160, "sm_86": 0x160, "sm_89": 0x160, "sm_90": 0x210, "sm_100": 0x380,
             "sm_120": 0x380}
WIDTHS = [(".128", 16), (".64", 8), (".U8", 1), (".S8", 1), (".U16", 2), (".S16", 2)]
LINE = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;\s*/\* 0x[0-9a-f]{16} \*/")
UPPER = re.compile(r"\s*/\* 0x([0-9a-f]{16}) \*/")
REGISTER = re.compile(r"\b(U?R)(\d+)\b")
CONSTANT = re.compile(r"c\[0x0\]\[0x([0-9a-f]+)\]")


def disassembler():
    """What LOCKSTEP_NVDISASM names, as that of the wheel nvidia-cuda-nvdisasm, or the toolkit's; or None."""
    named = os.environ.get("LOCKSTEP_NVDISASM")
    if named:
        return named
    found = glob.glob("/usr/local/cuda*/bin/nvdisasm")
    return shutil.which("nvdisasm") or (found[0] if found else None)


def width(name):
    return next((size for part, size in WIDTHS if part in name), 4)


def registers(text):
    return tuple(f"{kind}{number}" for kind, number in REGISTER.findall(text))


def written(name, operands, chip):
    """The registers that an instruction writes, and which of the arguments they take."""
    first = operands.split(",", 1)[0]
    found = re.fullmatch(r"(U?R)(\d+)(?:\.reuse)?", first.strip())
    if not found or name.startswith(("ST", "RED", "BAR", "BRA", "CALL", "RET", "MEMBAR")):
        return (), {}, operands
    rest = operands[len(first) + 1:]
    wide = 4 if ".128" in name else 2 if ".64" in name or ".WIDE" in name or name[0] == "D" else 1
    writes = tuple(f"{found[1]}{int(found[2]) + i}" for i in range(wide))
    taken = {}
    for place in CONSTANT.findall(rest):
        offset = int(place, 16) - ARGUMENTS[chip]
        if name.startswith(("LDC", "ULDC")):
            taken.update({register: offset + 4 * i for i, register in enumerate(writes)})
        else:
            taken.setdefault(writes[0], offset)
    return writes, taken, rest


def memory(operands):
    """The registers of an address: those of the last bracket that is not a descriptor."""
    places = re.findall(r"\[([^\]]*)\]", re.sub(r"desc\[[^\]]*\]", "", operands))
    return registers(places[-1]) if places else ()


def instruction(chip, number, guard, name, operands, upper):
    writes, taken, rest = written(name, operands, chip)
    result, operand = upper >> 46 & 7, upper >> 49 & 7
    it = Instruction(name, number, cycles=max(1, upper >> 41 & 15), writes=writes, reads=registers(rest),
                     constants=taken, queues=tuple(q for q in (result, operand) if q != 7),
                     waits=tuple((q, 0) for q in range(6) if upper >> 52 & 1 << q))
    it.guarded = bool(guard)
    op = name.split(".")[0]
    if it.queues:
        it.latency = "short"
    if op in ("LDG", "LD"):
        it.kind, it.size, it.address, it.latency = "load", width(name), memory(operands), "memory"
        it.whole = "STRONG" not in name
    elif op in ("STG", "ST"):
        it.kind, it.size, it.address = "store", width(name), memory(operands)
        it.whole = "STRONG" not in name
    elif op in ("ATOMG", "ATOM", "RED", "REDG"):
        it.kind, it.latency = "atomic", "arrival" if result != 7 else "short"
    elif op == "CCTL" and ".PF2" in name:
        it.kind, it.address = "prefetch", memory(operands)
    elif op == "MEMBAR":
        it.kind = "fence"
    elif op in ("SHFL", "STS"):
        it.kind = "exchange"
    elif op == "BAR":
        it.kind, it.cycles = "barrier", max(it.cycles, 30)
    elif op in ("BRA", "BRX", "JMP", "CALL"):
        label = re.search(r"`\(([^)]+)\)", operands)
        it.target = label[1] if label else None
        if calls(it):
            return it
        it.falls = bool(guard) or bool(re.match(r"!?U?P\d|\S*UR\d+,", operands)) or ".DIV" in name
    elif op in ("EXIT", "RET"):
        it.falls = bool(guard)
    return it


def calls(it):
    """A function; ptxas also leaves a loop by a call to what stands behind it, which does not return."""
    return it.name.startswith("CALL") and not (it.target or "").startswith(".L_x")


def called(code, at):
    """The registers that a function writes, as far as its first return that is no branch's."""
    written_there = []
    while at is not None and at < len(code):
        written_there += code[at].writes
        if code[at].name.startswith("RET") and not code[at].falls:
            break
        at += 1
    return tuple(written_there)


def kernels_of(chip, text):
    """The code of each section .text.NAME; a name of the tables is its kernel's."""
    found, labels, kernel, wanted = {}, {}, None, None
    for number, line in enumerate(text.splitlines(), 1):
        label = re.match(r"\s*(\.?[\w.$]+):\s*$", line)
        if label:
            if label[1].startswith(".text."):
                kernel, wanted = label[1][6:], None
                found[kernel], labels[kernel] = [], {}
            elif kernel:
                labels[kernel][label[1]] = len(found[kernel])
            continue
        code, upper = LINE.match(line), UPPER.match(line)
        if kernel and code:
            wanted = (number, code[2], code[3], code[4])
        elif kernel and upper and wanted:
            found[kernel].append(instruction(chip, *wanted, int(upper[1], 16)))
            wanted = None
    for name, code in found.items():
        for it in code:
            if calls(it):
                it.writes, it.target = called(code, labels[name].get(it.target)), None
            elif it.target is not None:
                it.target = labels[name].get(it.target)
    return [Kernel(name, code) for name, code in found.items()]


def tables(cubin):
    """Of each kernel its registers, stack and shared memory: .nv.info has the first two as records (4, attribute,
    16-bit size, value), the value being a symbol and a number; the size of .nv.shared.NAME is the third."""
    begin, = struct.unpack_from("<Q", cubin, 0x28)
    count, names = struct.unpack_from("<HH", cubin, 0x3c)
    sections = [struct.unpack_from("<IIQQQQIIQQ", cubin, begin + 64 * i) for i in range(count)]

    def string(at):
        return cubin[at:cubin.index(b"\0", at)].decode()

    named = {string(sections[names][4] + section[0]): section for section in sections}
    symbols, strings = named[".symtab"], named[".strtab"]
    of = {}
    if ".nv.info" in named:
        at, end = named[".nv.info"][4], named[".nv.info"][4] + named[".nv.info"][5]
        while at + 4 <= end:
            form, attribute, size = struct.unpack_from("<BBH", cubin, at)
            size = size if form == 4 else 0
            if size == 8 and attribute in (0x11, 0x2f):
                symbol, value = struct.unpack_from("<II", cubin, at + 4)
                name, = struct.unpack_from("<I", cubin, symbols[4] + 24 * symbol)
                of.setdefault(string(strings[4] + name), {})[attribute] = value
            at += 4 + size
    return {name: (table.get(0x2f, 0), table.get(0x11, 0), named.get(".nv.shared." + name, [0] * 6)[5])
            for name, table in of.items()}


def read(chip, path):
    made = subprocess.run([disassembler(), "-c", "-hex", path], capture_output=True, text=True, check=True)
    with open(path, "rb") as file:
        known = tables(file.read())
    found = kernels_of(chip, made.stdout)
    for kernel in found:
        kernel.registers, kernel.spilled, kernel.shared = known[kernel.name]
    return found
