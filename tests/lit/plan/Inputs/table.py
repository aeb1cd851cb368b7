"""What the planner makes of every step of the files given: launches, bytes moved over the minimum, and the
share of each kernel; for long axes, and for those of 8 elements, which run in one block. A row says it for
the CPU, and in further lines for CUDA and for HIP where they differ.

    table.py LOCKSTEP FILE ...             prints the table
    table.py LOCKSTEP --record OUT FILE ... writes it to OUT (ninja record_plans does so for both tables)"""
import json
import os
import subprocess
import sys

TARGETS = {"cpu": "cpu", "cuda": "sm_90", "hip": "gfx90a"}


def explain(lockstep, file, target, sizes):
    words = [lockstep, "explain", "--json", "--plan", "--target", target, file]
    if sizes:
        words += ["--size", ",".join(f"{axis}={size}" for axis, size in sizes.items())]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)["steps"]


def row(step):
    ratio = step["bytes_moved"] / step["bytes_minimum"] if step["bytes_minimum"] else 1
    return f"{step['launches']} x{ratio:.2f} " + "+".join(k["share"] for k in step["kernels"])


def rows(lockstep, file, target):
    """By step: how it runs with long axes and with short ones."""
    large = explain(lockstep, file, target, {})
    free = {}  # the others are fixed in the source, or follow from these
    for step in large:
        for axis, size in step["sizes"].items():
            free.setdefault(axis, set()).add(size == 1024)
    if any(len(kinds) > 1 for kinds in free.values()):
        little = [explain(lockstep, f"{file}:{step['name']}", target,
                          {axis: 8 for axis, size in step["sizes"].items() if size == 1024})[0] for step in large]
    else:
        little = explain(lockstep, file, target, {axis: 8 for axis, kinds in free.items() if kinds == {True}})
    return {step["name"]: f"{row(step):44} | {row(small)}" for step, small in zip(large, little)}


def table(lockstep, files):
    lines = []
    for file in sorted(files, key=os.path.basename):
        if "\nstep " not in "\n" + open(file).read():
            continue  # names another file
        by_target = {name: rows(lockstep, file, target) for name, target in TARGETS.items()}
        for step, cpu in by_target["cpu"].items():
            lines.append(f"{os.path.basename(file)[:-5] + ':' + step:32} {cpu}")
            for name in ("cuda", "hip"):
                if by_target[name][step] not in (cpu, by_target["cuda"][step] if name == "hip" else None):
                    both = by_target["hip"][step] == by_target[name][step]
                    word = "cuda, hip" if name == "cuda" and both else name
                    lines.append(f"{'    ' + word:32} {by_target[name][step]}")
    return "".join(line.rstrip() + "\n" for line in lines)


if __name__ == "__main__":
    if sys.argv[2] == "--record":
        text = table(sys.argv[1], sys.argv[4:])
        with open(sys.argv[3], "w") as out:
            out.write(text)
    else:
        sys.stdout.write(table(sys.argv[1], sys.argv[2:]))
