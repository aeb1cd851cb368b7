"""What the planner makes of every step of the files given: launches, bytes moved over the minimum, and the
share of each kernel; for long axes, and for those of 8 elements, which run in one block. A row says it for
the CPU, and in further lines for CUDA and for HIP where they differ.

Then, for the steps that need more than a little, the KiB of temporaries with long axes, and what they would be
if none shared its memory with others.

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


def temporaries(step):
    together, apart = step["temporary_bytes"], step["temporary_bytes_apart"]
    return f"{together // 1024} of {apart // 1024}" if apart >= 1 << 20 else ""


def rows(lockstep, file, target):
    """By step: how it runs with long axes and with short ones, and what temporaries it has with long ones."""
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
    return {step["name"]: (f"{row(step):44} | {row(small)}", temporaries(step)) for step, small in zip(large, little)}


def table(lockstep, files):
    lines, memory = [], []
    for file in sorted(files, key=os.path.basename):
        if "\nstep " not in "\n" + open(file).read():
            continue  # names another file
        by_target = {name: rows(lockstep, file, target) for name, target in TARGETS.items()}
        for step in by_target["cpu"]:
            for number, out in enumerate((lines, memory)):
                said = {name: by_target[name][step][number] for name in TARGETS}
                if not any(said.values()):
                    continue
                out.append(f"{os.path.basename(file)[:-5] + ':' + step:32} {said['cpu']}")
                for name in ("cuda", "hip"):
                    if said[name] not in (said["cpu"], said["cuda"] if name == "hip" else None):
                        word = "cuda, hip" if name == "cuda" and said["hip"] == said["cuda"] else name
                        out.append(f"{'    ' + word:32} {said[name]}")
    if memory:
        lines += ["", "KiB of temporaries:"] + memory
    return "".join(line.rstrip() + "\n" for line in lines)


if __name__ == "__main__":
    if sys.argv[2] == "--record":
        text = table(sys.argv[1], sys.argv[4:])
        with open(sys.argv[3], "w") as out:
            out.write(text)
    else:
        sys.stdout.write(table(sys.argv[1], sys.argv[2:]))
