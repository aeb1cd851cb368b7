"""Whether explain says of a step what the runtime does: launches and bytes of temporaries.

    agree.py LOCKSTEP DEVICE TARGET PROCESSORS FILE:STEP SIZES NAME=VALUE ...

PROCESSORS is how many the device has, of the CPU how many threads it takes; SIZES is as for --size, and the values
give the same lengths."""
import json
import os
import subprocess
import sys

lockstep, device, target, processors, step, sizes, *values = sys.argv[1:]


def report(words):
    environment = {**os.environ, "LOCKSTEP_THREADS": processors}
    return json.loads(subprocess.run([lockstep] + words, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout)


said = report(["explain", "--json", "--plan", "--target", target, "--processors", processors, "--size", sizes, step])["steps"][0]
done = report(["run", "--stats", "--json", "--device", device, step] + values)
for key in ("launches", "temporary_bytes"):
    print(key, said[key], "as said" if said[key] == done[key] else f"said, and it is {done[key]}")
