"""Prints for each target of explain's JSON: bytes spilled by all kernels, the widest access of any, and
whether the registers leave room for at least two blocks of a multiprocessor."""
import json
import sys

kernels = [kernel for step in json.load(sys.stdin)["steps"] for kernel in step["kernels"]]
for target in kernels[0]["targets"]:
    figures = [kernel["targets"][target] for kernel in kernels]
    if any("error" in each for each in figures):
        sys.exit(f"{target}: {figures}")
    room = 65536 // 512 if target.startswith("sm_") else 256
    print(target, f"spilled={sum(each['spill_bytes'] for each in figures)}",
          f"widest={max(each['widest_access'] for each in figures)}",
          f"room={all(each['registers'] <= room for each in figures)}")
