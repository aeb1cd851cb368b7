"""Compares what profiles count, kernel by kernel, with what explain says of the plan: the image's expressions and the
planner's own count must agree.    profile_bytes.py LOCKSTEP DEVICE TARGET FILE:STEP SIZES ..."""
import json
import subprocess
import sys


def output(*words):
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


(lockstep, device, target), cases, wrong = sys.argv[1:4], sys.argv[4:], 0
for file, sizes in zip(cases[::2], cases[1::2]):
    plan = output(lockstep, "explain", "--json", "--plan", "--target", target, file, "--size", sizes)["steps"][0]
    bench = output(lockstep, "bench", "--json", "--rounds", "1", "--device", device, file, "--size", sizes)
    rows = {row["kernel"]: row for row in bench["profile"]}
    for kernel in plan["kernels"]:
        if "loops" in kernel:
            continue  # explain counts one iteration, the profile all of a launch
        row = rows.get(kernel["name"])
        ours = row and (row["bytes_read"], row["bytes_written"])
        theirs = (kernel["bytes_read"], kernel["bytes_written"])
        if ours != theirs:
            print(f"{file} {sizes} {kernel['name']}: the profile has {ours}, explain {theirs}")
            wrong += 1
    if rows[None]["bytes_read"] + rows[None]["bytes_written"] != plan["bytes_moved"]:
        print(f"{file} {sizes}: the step moves {rows[None]}, explain says {plan['bytes_moved']}")
        wrong += 1
print("all the same" if not wrong else f"{wrong} differ")
