"""amd.py: the kernels of what clang -S writes for an AMD device.

Loads are done in their order, so that `s_waitcnt vmcnt(2)` leaves the two newest under way; on gfx9 stores are among them,
from gfx10 on they have vscnt. lgkmcnt counts scalar loads and shared memory."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../rtc"))
from targets import clang_options

from listing import Instruction, Kernel

WIDTHS = [("dwordx4", 16), ("b128", 16), ("dwordx3", 12), ("b96", 12), ("dwordx2", 8), ("b64", 8), ("dword", 4),
          ("b32", 4), ("short", 2), ("b16", 2), ("16", 2), ("byte", 1), ("8", 1)]
LABEL = re.compile(r"([\w.$]+):(?:\s|$)")
RANGE = re.compile(r"\b([vsa])\[(\d+):(\d+)\]|\b([vsa])(\d+)\b")


def generation(chip):
    return int(chip[3:-2])


def registers(text):
    found = []
    for kind, first, last, single, number in RANGE.findall(text):
        if single:
            found.append(single + number)
        else:
            found += [f"{kind}{i}" for i in range(int(first), int(last) + 1)]
    return tuple(found)


def waits(chip, name, operands):
    """The counters that a wait names, each with how many may be left."""
    if name == "s_waitcnt":
        found = re.findall(r"(vmcnt|lgkmcnt)\((\d+)\)", operands)
        return tuple((counter[:-3], int(left)) for counter, left in found)
    if name == "s_waitcnt_vscnt":
        return (("vs", int(operands.split(",")[1], 0)),)
    return ()


def split(operands):
    """An instruction's operands: those before the comma that ends the first one, and the rest."""
    first, _, rest = operands.partition(",")
    return first, rest


def instruction(chip, number, name, operands):
    first, rest = split(operands)
    it = Instruction(name, number, cycles=4 if generation(chip) < 10 else 2, waits=waits(chip, name, operands))
    memory = re.match(r"(global|flat|buffer)_(load|store|atomic)", name)
    if memory and memory[2] == "load":
        it.kind, it.latency, it.queues, it.writes = "load", "memory", ("vm",), registers(first)
        it.address = it.reads = registers(rest)
    elif memory and memory[2] == "store":
        # global_store_dwordx4 ADDRESS, DATA, BASE
        data = rest.partition(",")
        it.kind, it.latency = "store", "short"
        it.queues = ("vm",) if generation(chip) < 10 else ("vs",)
        it.address, it.reads = registers(first) + registers(data[2]), registers(operands)
    elif memory:
        it.kind, it.latency, it.queues = "atomic", "arrival", ("vm",)
    elif name.startswith(("ds_", "s_load", "s_buffer_load")):
        it.latency, it.queues = "short", ("lgkm",)
        it.writes = registers(first) if not name.startswith("ds_write") else ()
        it.reads = registers(rest)
        place = re.search(r",\s*(0x[0-9a-f]+|\d+)\s*$", rest)
        if name.startswith("s_load") and place:
            it.constants = {register: int(place[1], 0) + 4 * i for i, register in enumerate(it.writes)}
    elif name in ("s_barrier", "s_barrier_wait"):
        it.kind, it.cycles = "barrier", 30
    elif name.startswith(("buffer_wbl2", "buffer_wbinvl1", "buffer_inv", "buffer_gl", "global_wb", "global_inv")):
        it.kind = "fence"
    elif name == "s_branch" or name.startswith("s_cbranch"):
        it.target, it.falls = operands.strip(), name != "s_branch"
        it.skips, it.enters = name == "s_cbranch_execz", name == "s_cbranch_execnz"
    elif name == "s_endpgm":
        it.falls = False
    elif name == "v_writelane_b32":
        value, lane = rest.rsplit(",", 1)
        it.writes, it.reads = (f"{first.strip()}#{lane.strip()}",), registers(value)
    elif name == "v_readlane_b32":
        source, lane = rest.rsplit(",", 1)
        it.writes, it.reads = registers(first), (f"{source.strip()}#{lane.strip()}",)
    elif not name.startswith(("s_cmp", "s_wait", "s_nop", "s_setprio", "s_delay", "s_clause")):
        it.writes, it.reads = registers(first), registers(rest)
    if re.match(r"s_(andn2|and_not1|or)_saveexec", name):
        it.kind = "else"
    if name.startswith(("ds_write", "ds_store", "ds_bpermute", "ds_permute", "ds_swizzle")) or "_dpp" in name:
        it.kind = "exchange"
    if it.kind in ("load", "store"):
        it.size = next((size for part, size in WIDTHS if part in name.split("_", 2)[2]), 4)
        it.whole = not re.search(r"\b(sc1|glc|scope:)", operands)
    return it


def kernels_of(chip, text):
    found, labels, kernel, kernarg = [], {}, None, "s[0:1]"
    for number, raw in enumerate(text.splitlines(), 1):
        code = raw.split(";")[0].rstrip()
        label = LABEL.match(code)
        if label:
            if not label[1].startswith("."):
                kernel = Kernel(label[1], [])
                found.append(kernel)
            labels[label[1]] = (kernel, len(kernel.code) if kernel else 0)
        elif kernel and re.match(r"\s+[a-z]\w+(\s|$)", code):
            name, _, operands = code.strip().partition(" ")
            if "\t" in name:
                name, _, operands = code.strip().partition("\t")
            kernel.code.append(instruction(chip, number, name, operands.strip()))
        else:
            table = re.match(r"\s+\.amdhsa_(kernel|\w+)\s+(\S+)", code)
            if table and table[1] == "kernel":
                kernel, first = next(k for k in found if k.name == table[2]), 0
            elif table and kernel:
                if table[1] == "next_free_vgpr":
                    kernel.registers = int(table[2])
                elif table[1] == "group_segment_fixed_size":
                    kernel.shared = int(table[2])
                elif table[1] == "private_segment_fixed_size":
                    kernel.spilled = int(table[2])
                elif table[1] == "user_sgpr_private_segment_buffer" and table[2] == "1":
                    first += 4
                elif table[1] in ("user_sgpr_dispatch_ptr", "user_sgpr_queue_ptr") and table[2] == "1":
                    first += 2
                elif table[1] == "user_sgpr_kernarg_segment_ptr":
                    only_arguments(kernel, f"s{first}")
    for kernel in found:
        for it in kernel.code:
            if isinstance(it.target, str):
                it.target = labels[it.target][1]
    return [kernel for kernel in found if kernel.code]


def only_arguments(kernel, base):
    """Scalar loads take arguments where they go through the register in which their address arrives, or a copy."""
    bases = {base}
    for it in kernel.code:
        if it.name.startswith("s_load"):
            if not bases & set(it.reads):
                it.constants = {}
        elif it.name in ("s_mov_b64", "s_mov_b32") and bases & set(it.reads):
            bases.update(it.writes[:1])
            continue
        bases -= set(it.writes) - {base} if it.name.startswith("s_mov") else set(it.writes)


# What the toolchain gives clang: the rows of compiler/toolchain/options.def.
OPTIONS = clang_options("EXACT", "ASSEMBLY", "LLVM_18")


def compile_text(chip, path, compiler, lengths):
    """The kernels of a text. A branch whose lanes are only masked does not show in the code which way is taken, so what is
    looked at is made once more with what the lengths are known to be multiples of, up to 16, and how long a row is at least, as
    the compiler then leaves out the other way; registers and memory are those of the text as it is."""
    with open(path) as file:
        text = file.read()

    def known(match):
        length = lengths.get(match[1])
        most = max((number for number in (4, 8, 16) if length and length % number == 0), default=0)
        said = f"{match[1]} % {most} == 0" if most else f"{match[1]} % 4 != 0"
        if length and length == lengths.get("size_row"):
            said += f" && {match[1]} >= {length}"
        return match[0] + (f" __builtin_assume({said});" if length else "")

    whole = make(chip, text, compiler)
    for kernel, of in zip(whole, make(chip, re.sub(r"const i64 (size_\w+) = a->\1;", known, text), compiler)):
        kernel.code = of.code
    return whole


def make(chip, text, compiler):
    one_unit = ["-mcumode"] if generation(chip) >= 10 else []  # as hipRTC has it
    made = subprocess.run([compiler, f"--offload-arch={chip}", *one_unit, *OPTIONS, "-o", "-", "-"],
                          input=text, capture_output=True, text=True)
    if made.returncode:
        raise ValueError(made.stderr)
    return kernels_of(chip, made.stdout)
