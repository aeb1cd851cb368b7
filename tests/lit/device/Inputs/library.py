"""What the real toolchain makes of every step of the library for one target: no kernel may spill, and a map moves 16
bytes at a time.

    library.py LOCKSTEP TARGET FILE.step..."""
import json
import subprocess
import sys

# They read at other coordinates, which need not be aligned; behind such loads the compilers split the store.
ELEMENTWISE = ("packed_glu_forward", "packed_swiglu_forward", "packed_swiglu_forward_bf16", "packed_geglu_forward")

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
            if made["spill_bytes"] != 0:
                failures += 1
                print(f"{kernel['name']} of {file} spills {made['spill_bytes']} bytes, "
                      f"with {made['registers']} registers")
            if kernel["share"] == "tile" and made["widest_access"] < 16 and step["name"] not in ELEMENTWISE:
                failures += 1
                print(f"{kernel['name']} of {file} moves at most {made['widest_access']} bytes at a time")
print(f"{kernels} kernels, {failures} failures")
