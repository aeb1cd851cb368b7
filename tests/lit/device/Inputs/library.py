"""What the real toolchain makes of every step of the library for one target: no kernel may spill, and every
kernel that moves 4-byte elements side by side does so 16 bytes at a time.

    library.py LOCKSTEP TARGET FILE.step..."""
import json
import subprocess
import sys

lockstep, target, *files = sys.argv[1:]
kernels = failures = 0
for file in files:
    if "\nstep " not in "\n" + open(file).read():
        continue  # names another file
    report = subprocess.run([lockstep, "explain", "--json", "--target", target, file], check=True,
                            capture_output=True, text=True).stdout
    for step in json.loads(report)["steps"]:
        for kernel in step["kernels"]:
            made = kernel["targets"][target]
            kernels += 1
            if made["spill_bytes"]:
                failures += 1
                print(f"{kernel['name']} of {file} spills {made['spill_bytes']} bytes, "
                      f"with {made['registers']} registers")
            if kernel["share"] == "tile" and made["widest_access"] < 8:
                failures += 1
                print(f"{kernel['name']} of {file} moves at most {made['widest_access']} bytes at a time")
print(f"{kernels} kernels, {failures} failures")
