"""Whether explain says of a step what the runtime does: launches and bytes of temporaries, on the CPU.

    agree.py LOCKSTEP FILE:STEP SIZES NAME=VALUE ...    SIZES as for --size; the values give the same lengths"""
import json
import os
import subprocess
import sys

lockstep, step, sizes, *values = sys.argv[1:]
THREADS = "3"


def report(words):
    environment = {**os.environ, "LOCKSTEP_THREADS": THREADS}
    return json.loads(subprocess.run([lockstep] + words, check=True, capture_output=True, text=True, env=environment).stdout)


said = report(["explain", "--json", "--plan", "--target", "cpu", "--processors", THREADS, "--size", sizes, step])["steps"][0]
done = report(["run", "--stats", "--json", "--device", "cpu", step] + values)
for key in ("launches", "temporary_bytes"):
    print(key, said[key], "as said" if said[key] == done[key] else f"said, and it is {done[key]}")
