#!/usr/bin/env python3
"""How well `lockstep advise` predicts: the share of the limit that it says each step of the library reaches on this CPU, beside what
`lockstep bench` then measures, at three sizes.

    python3 tests/bench/advise.py LOCKSTEP [--only REGEX] [--every N] [--rounds N] [-o RESULTS.json]

The limit is the kernel that only moves the same bytes, at the rate that it shows in the rounds of that measurement (--peak), since
bandwidth drifts within seconds; what is predicted is what instructions and launches leave of it. A size is what fits so many bytes, as advise itself says: the first axis that
may vary is as long as that. Prints a line for each, and last how many are within 15 points."""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
sys.path.insert(0, os.path.join(ROOT, "tests/machine"))
import cases  # noqa: E402 (beside another folder's)

BUDGETS = {"512K": 512 << 10, "8M": 8 << 20, "96M": 96 << 20}
WITHIN = 15
LENGTHS = {"c": 768, "v": 4096, "t": 64, "h": 512, "f": 512, "k": 64, "j": 64, "g": 64, "q": 64, "e": 64, "a": 64, "u": 8, "i": 64,
           "o": 64, "w": 64, "s": 256, "n": 4096, "b": 64, "r": 64}


def steps():
    """(FILE:STEP, axes without those of a fixed length) of the library's own steps."""
    folder = os.path.join(ROOT, "templates/std")
    for name in sorted(os.listdir(folder)):
        if name.endswith(".step"):
            with open(os.path.join(folder, name)) as file:
                for step, axes in cases.axes_of(file.read()).items():
                    yield f"std/{name[:-5]}:{step}", [axis for axis, fixed in axes.items() if not fixed]


def run(lockstep, *words):
    done = subprocess.run([lockstep, *words, "--json"], capture_output=True, text=True)
    if done.returncode:
        raise ValueError((done.stderr.strip() or "no message").splitlines()[0])
    return json.loads(done.stdout)


def sizes_for(lockstep, step, axes, budget):
    """The sizes at which the step's memory is about the budget, or None where not even the least fits it."""
    lead, rest = axes[0], [f"{axis}={LENGTHS.get(axis, 64)}" for axis in axes[1:]]
    size = ["--size", ",".join(rest)] if rest else []
    found = run(lockstep, "advise", step, *size, "--vary", lead, "--memory", str(budget), "--peak", "10", "--device", "cpu")
    largest = found["vary"]["largest"]
    return ",".join([f"{lead}={largest}", *rest]) if largest else None


def measure(lockstep, step, axes, name, rounds):
    size = sizes_for(lockstep, step, axes, BUDGETS[name])
    if not size:
        return None
    found = run(lockstep, "bench", step, "--size", size, "--device", "cpu", "--rounds", str(rounds))
    if not found["fraction_of_copy"]:
        return None
    advised = run(lockstep, "advise", step, "--size", size, "--device", "cpu", "--peak", f"{found['copy_gb_s']:g}")
    limits = sorted(advised["kernels"], key=lambda kernel: -kernel["time_s"])
    return {"step": step, "size": size, "budget": name, "predicted": 100 * advised["fraction_of_copy"],
            "measured": 100 * found["fraction_of_copy"], "predicted_s": advised["time_s"], "measured_s": found["median_s"],
            "limit": limits[0]["limit"], "advised": advised, "bench": found}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("lockstep")
    parser.add_argument("--only", default="", help="steps whose name this finds")
    parser.add_argument("--every", type=int, default=1, help="of the steps one in so many")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-o", "--output", help="all figures as JSON")
    options = parser.parse_args()
    rows = []
    chosen = [found for found in steps() if re.search(options.only, found[0]) and found[1]][::options.every]
    for step, axes in chosen:
        for name in BUDGETS:
            try:
                row = measure(options.lockstep, step, axes, name, options.rounds)
            except ValueError as error:
                print(f"{step:45} left out: {error}", flush=True)
                break
            if row:
                rows.append(row)
                print(f"{step:45} {row['size']:30} predicted {row['predicted']:6.1f} %  measured {row['measured']:6.1f} %  "
                      f"{row['limit']}", flush=True)
                if options.output:
                    with open(options.output, "w") as file:
                        json.dump(rows, file, indent=1)
    if not rows:
        sys.exit("advise.py: nothing was measured")
    apart = [abs(row["predicted"] - row["measured"]) for row in rows]
    good = sum(value <= WITHIN for value in apart)
    print(f"{good} of {len(rows)} within {WITHIN} points ({100 * good / len(rows):.0f} %), median {statistics.median(apart):.1f} apart")


if __name__ == "__main__":
    main()
