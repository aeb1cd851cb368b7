"""chunks.py LOCKSTEP FOLDER: cross entropy of 37 rows, whole and in chunks of several sizes; counts the
chunkings whose loss, losses or gradient have other bits than the whole."""
import array
import os
import random
import subprocess
import sys

lockstep, folder = sys.argv[1:]
ROWS, CLASSES = 37, 1030


def write(name, kind, values, shape):
    head = "{'descr': '<%s', 'fortran_order': False, 'shape': %r, }" % (kind, shape)
    head += " " * (-(len(head) + 11) % 64) + "\n"
    with open(os.path.join(folder, name), "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + values.tobytes())


def read(name):
    with open(os.path.join(folder, name), "rb") as file:
        data = file.read()
    return data[10 + int.from_bytes(data[8:10], "little"):]


def run(step, *arguments):
    subprocess.run([lockstep, "run", "std/losses:" + step, *arguments], cwd=folder, check=True, capture_output=True)


random.seed(1)
logits = array.array("f", (random.gauss(0, 3) for _ in range(ROWS * CLASSES)))
target = array.array("q", (random.randrange(CLASSES) if row % 5 else -100 for row in range(ROWS)))
write("logits.npy", "f4", logits, (ROWS, CLASSES))
write("target.npy", "i8", target, (ROWS,))
options = ["smoothing=0.1", "z=0.001"]
run("cross_entropy", "logits=logits.npy", "target=target.npy", *options, "-o", "loss=loss.npy", "-o", "dlogits=d.npy")
whole = read("loss.npy"), read("d.npy")
run("cross_entropy_scale", "target=target.npy", "-o", "scale=scale.npy")
tried = differing = 0
for size in (1, 5, 16, 36, 37):
    for step, gradient in (("cross_entropy_rows", "dlogits"), ("cross_entropy_rows_in_place", "logits")):
        losses, slopes = array.array("f"), b""
        for first in range(0, ROWS, size):
            count = min(size, ROWS - first)
            write("part.npy", "f4", logits[first * CLASSES:(first + count) * CLASSES], (count, CLASSES))
            write("labels.npy", "i8", target[first:first + count], (count,))
            run(step, "logits=part.npy", "target=labels.npy", "scale=scale.npy", *options, "-o", "losses=losses.npy",
                "-o", gradient + "=slopes.npy")
            losses.frombytes(read("losses.npy"))
            slopes += read("slopes.npy")
        write("all.npy", "f4", losses, (ROWS,))
        run("cross_entropy_mean", "losses=all.npy", "target=target.npy", "-o", "loss=loss.npy")
        tried += 1
        differing += (read("loss.npy"), slopes) != whole
print(tried, "chunkings,", differing, "differ from the whole")
