"""Checks the goals of a file: a line names a step, a target, axis lengths, and what the plan may take at most:
launches and, over the minimum, bytes. A goal behind ~ is out of reach so far: when it is met on all targets, the ~ must go.

    goals.py LOCKSTEP ROOT FILE [--all: says how each is met]"""
import json
import subprocess
import sys


def plan(lockstep, file, target, sizes):
    words = [lockstep, "explain", "--json", "--plan", "--target", target, file, "--size", sizes]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)["steps"][0]


lockstep, root, goals = sys.argv[1:4]
missed = 0
for line in open(goals):
    words = line.split("#")[0].split()
    if not words:
        continue
    far = words[0] == "~"
    file, targets, sizes, launches, most = words[far:]
    reports, met = [], True
    for target in targets.split(","):
        step = plan(lockstep, f"{root}/{file}", target, sizes)
        ratio = step["bytes_moved"] / step["bytes_minimum"]
        good = step["launches"] <= int(launches) and ratio < float(most) + 0.005
        met &= good
        reports.append(f"{'met   ' if good else 'far   ' if far else 'MISSED'} {file} on {target}, {sizes}: "
                       f"{step['launches']} x{ratio:.3f}, wanted {launches} x{most}")
    missed += met == far
    if met == far or "--all" in sys.argv:
        print("\n".join(reports))
sys.exit(missed > 0)
