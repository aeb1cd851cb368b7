"""Prints what the planner makes of every step of the files given: launches, bytes moved over the minimum,
and the share of each kernel; for axes of 1024 elements, and for small ones, which run in one block."""
import json
import os
import subprocess
import sys


def explain(lockstep, file, sizes):
    words = [lockstep, "explain", "--json", "--target", "cpu", file]
    if sizes:
        words += ["--size", ",".join(f"{axis}={size}" for axis, size in sizes.items())]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)["steps"]


def row(step):
    ratio = step["bytes_moved"] / step["bytes_minimum"] if step["bytes_minimum"] else 1
    return f"{step['launches']} x{ratio:.2f} " + "+".join(k["share"] for k in step["kernels"])


lockstep = sys.argv[1]
for file in sorted(sys.argv[2:], key=os.path.basename):
    if "\nstep " not in "\n" + open(file).read():
        continue  # names another file
    for large in explain(lockstep, file, {}):
        # the others are fixed in the source, or follow from these
        small = {axis: 8 for axis, size in large["sizes"].items() if size == 1024}
        little = explain(lockstep, f"{file}:{large['name']}", small)[0]
        name = f"{os.path.basename(file)[:-5]}:{large['name']}"
        print(f"{name:32} {row(large):44} | {row(little)}")
