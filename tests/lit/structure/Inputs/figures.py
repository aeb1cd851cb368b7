"""figures.py ROOT: each row of "Five figures" in README.md against the row of that name in tests/bench/README.md: Lockstep's
time, and the best one of a library, which is not C and not Lockstep's own."""
import os
import re
import sys


def rows(path):
    with open(os.path.join(sys.argv[1], path)) as file:
        cells = [[cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in file if line.startswith("| ")]
    return {row[0].strip("| "): row[1:] for row in cells if len(row) > 2}


def number(text):
    found = re.match(r"\**([\d,.]+)", text)
    return float(found.group(1).replace(",", "")) if found else None


text = open(os.path.join(sys.argv[1], "README.md")).read()
section = text.split("## Five figures")[1].split("\n## ")[0]
claims = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if re.match(r"\| \w", line)]
claims = [claim for claim in claims if claim[1] != "Lockstep"]
measured = rows("tests/bench/README.md")
print(len(claims), "figures")
for name, own, best in claims:
    row = measured.get(name)
    # lockstep, of the limit, C, the libraries, the last column
    libraries = [number(cell) for cell in row[3:-1]] if row else []
    right = row and number(own) == number(row[0]) and number(best) == min(value for value in libraries if value)
    print(name, "is as measured" if right else "differs from what was measured")
