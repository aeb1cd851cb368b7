"""batch.py LOCKSTEP FOLDER: softmax and norms on the same row in batches of many sizes; counts the results that
have other bits than those of the row alone."""
import array
import os
import random
import subprocess
import sys

lockstep, folder = sys.argv[1:]


def write(name, kind, values, shape):
    head = "{'descr': '<%s', 'fortran_order': False, 'shape': %r, }" % (kind, shape)
    head += " " * (-(len(head) + 11) % 64) + "\n"
    with open(os.path.join(folder, name), "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + values.tobytes())


def read_row(name, row, length):
    data = open(os.path.join(folder, name), "rb").read()
    begin = 10 + int.from_bytes(data[8:10], "little")
    return data[begin + 4 * length * row : begin + 4 * length * (row + 1)]


random.seed(1)
STEPS = {
    "std/activations:softmax_forward": ["x=x.npy"],
    "std/norms:rms_norm_forward": ["x=x.npy", "gain=ones"],
    "std/norms:layer_norm_forward": ["x=x.npy", "gain=ones", "shift=zeros"],
}
batches = differing = 0
for columns in (5, 300, 5000):
    row = array.array("f", (random.gauss(0, 1) for _ in range(columns)))
    for step, arguments in STEPS.items():
        alone = None
        for rows, at in ((1, 0), (2, 1), (3, 0), (8, 5), (17, 16), (300, 123)):
            others = array.array("f", (random.gauss(0, 1) for _ in range(columns)))
            x = array.array("f")
            for r in range(rows):
                x.extend(row if r == at else others)
            write("x.npy", "f4", x, (rows, columns))
            subprocess.run([lockstep, "run", step, *arguments, "-o", "y=y.npy"], cwd=folder, check=True, capture_output=True)
            result = read_row("y.npy", at, columns)
            alone = alone or result
            batches += 1
            differing += result != alone
print(batches, "batches,", differing, "rows differ")
