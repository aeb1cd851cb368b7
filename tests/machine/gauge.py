#!/usr/bin/env python3
"""gauge.py: figures of kernels from their machine code, without a device, against a table of them.

    gauge.py LOCKSTEP check CHIP...          the sample of cases.py: fails where a figure is worse than its row
    gauge.py LOCKSTEP check --all CHIP...    every case that the table has
    gauge.py LOCKSTEP record CHIP...         measures every case and writes table/CHIP.txt
    gauge.py LOCKSTEP record [--only NAMES] [--known] [--resume FILE] CHIP...
                                             those whose name the regular expression finds, or that the table has, into
                                             the table that is there; but not those that FILE names, where each is noted
    gauge.py LOCKSTEP show CHIP FILE:STEP AXIS=LENGTH,... [ROW]
                                             one step's kernels; ROW: the axis that a row is along, where there is one
    gauge.py LOCKSTEP ready CHIP             whether the table was made with the toolchain that is here

cubins are made by LOCKSTEP with NVRTC and read by nvdisasm (nvidia.py says where it is looked for), AMD's code by the
clang that LOCKSTEP_CLANG_AMD names, by default clang-19."""
import argparse
import ctypes
import glob
import os
import re
import subprocess
import sys
import tempfile

import amd
import cases
import chips
import nvidia
from figures import figures, read_source

HERE = os.path.dirname(os.path.abspath(__file__))
# Of each column its heading, its format, and whether more is better (1), worse (-1) or neither (0); and by how much,
# absolute, a figure may be worse before it counts.
COLUMNS = [("registers", "registers", "d", 0, 0), ("warps", "warps", "d", 0, 0), ("spilled", "spilled", "d", -1, 0),
           ("access", "access", "d", 1, 0), ("flight", "KB in flight", ".0f", 1, 0.6),
           ("per_byte", "warp instr/B", ".2f", -1, 0.02), ("passes", "passes", ".1f", -1, 0.1),
           ("fences", "fences", ".0f", -1, 0.6), ("atomics", "atomics", ".0f", -1, 0.6),
           ("barriers", "barriers", ".0f", -1, 0.6), ("share", "% of copy", ".0f", 1, 0.6)]


def clang():
    return os.environ.get("LOCKSTEP_CLANG_AMD", "clang-19")


def toolchain(chip):
    """What makes a chip's code, with its version; None where it is not here."""
    if chip.startswith("gfx"):
        try:
            said = subprocess.run([clang(), "--version"], capture_output=True, text=True).stdout
        except OSError:
            return None
        found = re.search(r"version (\d+\.\d+)", said)
        return f"clang {found[1]}" if found else None
    major, minor = ctypes.c_int(), ctypes.c_int()
    usual = [*glob.glob("/usr/local/cuda*/lib64/libnvrtc.so"), "libnvrtc.so"]
    try:
        library = ctypes.CDLL(os.environ.get("LOCKSTEP_NVRTC", usual[0]))
        library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    except (OSError, AttributeError):
        return None
    return f"NVRTC {major.value}.{minor.value}" if nvidia.disassembler() else None


def emit(lockstep, case, target, path):
    made = subprocess.run([lockstep, "emit", f"{case.path}:{case.step}", "--target", target, "--size", case.sizes,
                           "-o", path], capture_output=True, text=True)
    if made.returncode:
        raise ValueError(f"{case.name}: {made.stderr.strip()}")


def temporaries(lockstep, case):
    """The bytes of those that the plan names: `temporaries: sum_4 32.0 KiB, t2 128 MiB, and 4 for partial results ...`."""
    said = subprocess.run([lockstep, "explain", "--plan", f"{case.path}:{case.step}", "--size", case.sizes],
                          capture_output=True, text=True).stdout
    line = re.search(r"^  temporaries: (.*)", said, re.M)
    units = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
    return {name: int(float(size) * units[unit]) for name, size, unit in
            re.findall(r"(\w+) ([\d.]+) ([KMG]?i?B)", line[1].split(" and ")[0] if line else "")}


def measure(lockstep, chip, case):
    """(name, figures) of each kernel of a case that moves what is large."""
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, "text")
        emit(lockstep, case, chip, text)
        if chip.startswith("gfx"):
            kernels = amd.compile_text(chip, text, clang(), {f"size_{axis}": n for axis, n in case.lengths})
        else:
            cubin = os.path.join(folder, "cubin")
            emit(lockstep, case, f"cubin:{chip}", cubin)
            kernels = nvidia.read(chip, cubin)
        with open(text) as file:
            source = read_source(file.read(), dict(case.lengths), temporaries(lockstep, case))
    found = []
    for kernel in sorted(kernels, key=lambda kernel: kernel.name):
        row = figures(chips.CHIPS[chip], kernel, source, dict(case.lengths))
        suffix = re.search(r"_(\d+)$", kernel.name) if len(kernels) > 1 else None
        if "share" in row:
            found.append((f"{case.name}{' #' + suffix[1] if suffix else ''}", row))
    return found


def width(name, heading):
    return max(len(heading), 7 if name != "share" else 9)


def line(name, row, names):
    return f"{name:{names}}" + "".join(f"  {shown(row[key], form):>{width(key, heading)}}"
                                       for key, heading, form, _, _ in COLUMNS)


def table(chip, rows):
    chip_of = chips.CHIPS[chip]
    names = max(len(name) for name in rows)
    head = f"# {chip} ({chip_of.device}), {toolchain(chip)}. Made by gauge.py record; README.md says what a column is.\n"
    return head + f"{'':{names}}" + "".join(f"  {heading:>{width(key, heading)}}" for key, heading, *_ in COLUMNS) + "\n" + \
        "".join(line(name, row, names).rstrip() + "\n" for name, row in rows.items())


def table_path(chip):
    return os.path.join(HERE, "table", f"{chip}.txt")


def read_table(chip):
    """The toolchain that a table was made with, and its rows."""
    rows = {}
    with open(table_path(chip)) as file:
        first = file.readline()
        file.readline()
        for text in file:
            words = text.split()
            count = len(COLUMNS)
            rows[" ".join(words[:-count])] = {key: float(word) for (key, *_), word in zip(COLUMNS, words[-count:])}
    return re.search(r"\), (.*?)\. Made", first)[1], rows


def shown(value, form):
    return format(int(value) if form == "d" else value, form)


def worse(row, known):
    """Which figures are worse than those known, as text."""
    said = []
    for key, heading, form, better, slack in COLUMNS:
        less = better * (float(shown(row[key], form)) - float(shown(known[key], form)))
        if less < -max(slack, 0.02 * abs(known[key]) if slack else 0):
            said.append(f"{heading} {shown(row[key], form)}, was {shown(known[key], form)}")
    return said


def measured(lockstep, chip, wanted):
    rows = {}
    for case in wanted:
        try:
            rows.update(measure(lockstep, chip, case))
        except ValueError as fault:
            print(f"left out: {fault}", file=sys.stderr)
    return rows


def impossible(row):
    """A share of a copy above the ceiling is an error of the gauge or of what it reads, as text."""
    most = 100 * chips.CEILING
    return [f"{row['share']:.0f} % of a copy, more than {most:.0f}"] if row["share"] > most + 0.5 else []


def gone(known, rows, wanted):
    """The kernels known of these cases that were not measured: of another text, or not understood."""
    names = {case.name for case in wanted}
    return [name for name in known if name not in rows and re.sub(r" #\d+$", "", name) in names]


def check(lockstep, chip, wanted):
    """Whether a row is worse than the table's or not there, or says what cannot be."""
    made_with, known = read_table(chip)
    if wanted is None:
        names = {re.sub(r" #\d+$", "", name) for name in known}
        wanted = [case for case in cases.every_case() if case.name in names]
    if made_with != toolchain(chip):
        print(f"{chip}: the table was made with {made_with}, and here is {toolchain(chip)}")
        return 1
    failures = better = 0
    rows = measured(lockstep, chip, wanted)
    for name, row in rows.items():
        if name not in known:
            print(f"{chip}: {name}: no row in the table")
            failures += 1
            continue
        said = impossible(row) + worse(row, known[name])
        failures += bool(said)
        better += not said and bool(worse(known[name], row))
        for text in said:
            print(f"{chip}: {name}: {text}")
    for name in gone(known, rows, wanted):
        print(f"{chip}: {name}: not seen any more")
        failures += 1
    print(f"{chip}: {len(rows)} kernels of {len(wanted)} cases, {failures} worse than the table, {better} better")
    return failures or not rows


def noted(path):
    """The lines of a file of what was measured, none where it is not there yet."""
    if not path or not os.path.exists(path):
        return set()
    with open(path) as file:
        return set(file.read().splitlines())


def record(lockstep, chip, options):
    every, rows = cases.every_case(), {}
    part = options.only or options.known or options.resume
    if part and os.path.exists(table_path(chip)):
        made_with, rows = read_table(chip)
        if made_with != toolchain(chip):
            sys.exit(f"{chip}: the table was made with {made_with}, and here is {toolchain(chip)}")
    names, done = {re.sub(r" #\d+$", "", name) for name in rows}, noted(options.resume)
    wanted = [case for case in every if re.search(options.only or "", case.name) and
              (not options.known or case.name in names) and f"{chip} {case.name}" not in done]
    place = {case.name: at for at, case in enumerate(every)}
    rows = {name: row for name, row in rows.items() if re.sub(r" #\d+$", "", name) in place}
    count = 0
    for case in wanted:
        made = measured(lockstep, chip, [case])
        for name in [name for name, row in made.items() if impossible(row)]:
            print(f"{chip}: {name} is left out: {impossible(made.pop(name))[0]}", file=sys.stderr)
        for name in gone(rows, made, [case]):
            print(f"{chip}: {name}: not seen any more", file=sys.stderr)
        rows = {name: row for name, row in rows.items() if re.sub(r" #\d+$", "", name) != case.name} | made
        rows = dict(sorted(rows.items(), key=lambda entry: (place[re.sub(r" #\d+$", "", entry[0])], entry[0])))
        count += len(made)
        write_table(chip, rows)
        if options.resume:
            with open(options.resume, "a") as file:
                file.write(f"{chip} {case.name}\n")
    print(f"{chip}: {count} kernels")


def write_table(chip, rows):
    """In one step, that a table is whole where this ends early."""
    os.makedirs(os.path.dirname(table_path(chip)), exist_ok=True)
    with open(table_path(chip) + ".new", "w") as file:
        file.write(table(chip, rows))
    os.replace(table_path(chip) + ".new", table_path(chip))


def show(lockstep, chip, step, sizes, row=None):
    path, _, name = step.rpartition(":")
    with open(path) as file:
        axes = cases.axes_of(file.read())[name]
    case = cases.Case(f"{name} {sizes}", path, name, sizes, tuple(cases.lengths_of(axes, sizes, row).items()))
    rows = dict(measure(lockstep, chip, case))
    if not rows:
        sys.exit(f"{chip}: {case.name}: no kernel of it is seen to move an array")
    print(table(chip, rows), end="")


def main(words):
    if len(words) < 3 or words[1] not in ("check", "record", "show", "ready"):
        sys.exit(__doc__)
    lockstep, action, rest = words[0], words[1], words[2:]
    if action == "ready":
        return read_table(rest[0])[0] != toolchain(rest[0])
    if action == "show":
        return show(lockstep, *rest)
    if action == "record":
        parser = argparse.ArgumentParser(prog="gauge.py LOCKSTEP record")
        parser.add_argument("--only"), parser.add_argument("--resume"), parser.add_argument("--known", action="store_true")
        parser.add_argument("chips", nargs="+")
        options = parser.parse_args(rest)
        return any([record(lockstep, chip, options) for chip in options.chips])
    wanted = None if rest[0] == "--all" else [case for case in cases.every_case() if case.name in cases.SAMPLE]
    return any([check(lockstep, chip, wanted) for chip in rest if chip != "--all"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
