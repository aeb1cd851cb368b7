"""advice.py ROOT ADVICE.json: the keys of `lockstep advise --json` for one kernel on sm_90, and its times by the model and the chips of
tests/machine/chips.py."""
import json
import os
import sys

sys.path.insert(0, os.path.join(sys.argv[1], "tests/machine"))
import chips  # noqa: E402 (where that is, is an argument)

with open(sys.argv[2]) as file:
    advice = json.load(file)
KEYS = ("step device target sizes launches bytes_moved bytes_minimum time_s copy_gb_s operations_per_s fraction_of_copy array_bytes "
        "temporary_bytes memory_bytes memory_budget kernels vary")
KERNEL = ("name share limit time_s memory_s instructions_s latency_s launch_s launches blocks bytes_read bytes_written operations "
          "registers spill_bytes shared_bytes warps warps_max")
faults = [key for key in KEYS.split() if key not in advice]
kernel = advice["kernels"][0]
faults += [key for key in KERNEL.split() if key not in kernel]

# The chips are those of targets.def.
with open(os.path.join(sys.argv[1], "compiler/target/targets.def")) as file:
    rows = {line.split('"')[1]: line for line in file if line.startswith("SPEED(\"")}
if sorted(rows) != sorted(chips.CHIPS):
    faults.append(f"chips: {sorted(rows)}")
for name, chip in chips.CHIPS.items():
    stated = (f'.device = "{chip.device}", .bandwidth = {chip.bandwidth:g}, .processors = {chip.processors}, .clock = {chip.clock:g}, '
              f".issue = {chip.issue}, ")
    if stated not in rows.get(name, ""):
        faults.append(f"{name}: {rows.get(name)} against {stated}")

# The rate that the kernel's own figures give by chips.rate: latency as the advice has it, found again.
chip = chips.CHIPS["sm_90"]
moved = kernel["bytes_read"] + kernel["bytes_written"]
memory = moved / (chips.CEILING * chip.copy * 1e9)
body = (kernel["memory_s"] ** 3 + kernel["instructions_s"] ** 3 + kernel["latency_s"] ** 3) ** (1 / 3)
elements = moved / 4
issued = (kernel["operations"] + 4 * elements) / chip.lanes / (chips.ISSUE * chip.issue * chip.clock * 1e9 * chip.processors)
for key, expected, found in (("memory", memory, kernel["memory_s"]), ("instructions", issued, kernel["instructions_s"]),
                             ("time", body + kernel["launch_s"], kernel["time_s"])):
    if abs(expected - found) > 1e-6 * expected:
        faults.append(f"{key}: {found} against {expected}")
ahead = 12 * 4  # bytes that a thread of a map has under way
load = moved / body / (chip.copy * 1e9)
item = 2 * (kernel["operations"] + 4 * elements) * ahead / kernel["bytes_read"] / (chip.clock * 1e9)
wait = 1e-6 * chips.loaded_latency(min(load, 0.96)) + item
latency = kernel["bytes_read"] * wait / (kernel["warps"] * chip.processors * chip.lanes * ahead)
if abs(latency - kernel["latency_s"]) > 0.02 * latency:
    faults.append(f"latency: {kernel['latency_s']} against {latency}")
print("\n".join(faults) or "all keys, the model's times")
sys.exit(bool(faults))
