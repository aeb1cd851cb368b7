"""frequencies.py LOCKSTEP FOLDER: how often the steps of std/random draw each value, against what is
expected: prints every chi squared that is beyond 1 in 100,000, and how many were looked at."""
import array
import collections
import math
import os
import subprocess
import sys

lockstep, folder = sys.argv[1:]
ROWS = 60000
MOST = {1: 19.5, 4: 28.5, 5: 30.9, 8: 38.0}  # chi squared by degrees of freedom


def write(name, kind, values, shape):
    head = "{'descr': '<%s', 'fortran_order': False, 'shape': %r, }" % (kind, shape)
    head += " " * (-(len(head) + 11) % 64) + "\n"
    with open(os.path.join(folder, name), "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + values.tobytes())


def drawn(step, output, *arguments):
    subprocess.run([lockstep, "run", "std/random:" + step, *arguments, "-o", output + "=out.npy"], cwd=folder,
                   check=True, capture_output=True)
    with open(os.path.join(folder, "out.npy"), "rb") as file:
        data = file.read()
    values = array.array("q")
    values.frombytes(data[10 + int.from_bytes(data[8:10], "little"):])
    return list(values)


looked = wrong = 0


def compare(name, values, chances):
    """chances: {value: probability}"""
    global looked, wrong
    counts = collections.Counter(values)
    likely = {value: chance for value, chance in chances.items() if chance > 0}
    odd = sum((counts[value] - len(values) * chance) ** 2 / (len(values) * chance) for value, chance in likely.items())
    looked += 1
    if odd > MOST[len(likely) - 1] or set(counts) - set(likely):
        wrong += 1
        print(f"{name}: chi squared {odd:.1f}, {dict(counts)}")


compare("random_integers", drawn("random_integers", "x", "low=-3", "high=6", "--size", f"n={ROWS}"),
        {value: 1 / 9 for value in range(-3, 6)})
logits = [0.0, 1.0, -2.0, -math.inf, 2.0, -4.0]
write("logits.npy", "f4", array.array("f", logits * ROWS), (ROWS, len(logits)))
for temperature in (1.0, 0.5, 2.0):
    weights = [math.exp(x / temperature) for x in logits]
    compare(f"sample {temperature}", drawn("sample", "choice", "logits=logits.npy", f"temperature={temperature}"),
            {value: weight / sum(weights) for value, weight in enumerate(weights)})
weights = [0.5, 0.0, 1.0, 3.0, 0.01, 8.0]
write("weight.npy", "f4", array.array("f", weights * ROWS), (ROWS, len(weights)))
compare("sample_weighted", drawn("sample_weighted", "choice", "weight=weight.npy", "count=9"),
        {value: weight / sum(weights) for value, weight in enumerate(weights)})
write("extent.npy", "i8", array.array("q", [5, 2]), (2,))
places = drawn("spawn", "place", f"place=zeros({ROWS},2)", f"needed=ones({ROWS})", "extent=extent.npy")
compare("spawn", places[::2], {value: 0.2 for value in range(5)})
compare("spawn", places[1::2], {value: 0.5 for value in range(2)})
free = [1, 0, 1, 1, 0, 1, 1]
write("free.npy", "b1", array.array("B", free * ROWS), (ROWS, len(free)))
compare("spawn_free", drawn("spawn_free", "place", f"place=zeros({ROWS})", f"needed=ones({ROWS})", "free=free.npy"),
        {value: 0.2 for value in range(7) if free[value]})
print(looked, "distributions,", wrong, "unlikely")
