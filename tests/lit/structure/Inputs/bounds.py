"""Compares compiler/ir/bounds.def, which editors show, with tests/numerics/sweep.txt, which measured all inputs."""
import os
import re
import sys

root = sys.argv[1]


def read(*path):
    with open(os.path.join(root, *path)) as file:
        return file.read()


found = {m[0]: float(m[1]) for m in re.findall(r"^(\w+) +([\d.]+) +\S+ +[\d.]+%", read("tests", "numerics", "sweep.txt"), re.M)}
rows = re.findall(r"^X\((\w+), +([\d.]+), *([\d.]+)\)", read("compiler", "ir", "bounds.def"), re.M)
faults = 0


def compare(name, bound, measured, room=0.01):
    """A bound is not below what was found, and no more than that share above it."""
    global faults
    if measured is None or not measured <= bound <= measured * (1 + room) + 0.0011:
        print(f"{name}: bounds.def says {bound}, sweep.txt {measured}")
        faults += 1


for op, exact, lite in rows:
    name = op.lower()
    powers = [error for key, error in found.items() if key.startswith("pow_")]
    if name == "pow":  # of two operands: measured for some of either
        compare(name, float(exact), max(powers), 0.015)
    else:
        compare(name, float(exact), found.get(name))
    if float(lite):
        compare(name + "_lite", float(lite), found.get(name + "_lite"))
    elif name + "_lite" in found:
        print(f"{name}: bounds.def has no bound of `math lite`")
        faults += 1
print(f"{len(rows)} functions, {faults} faults")
sys.exit(faults > 0)
