"""The table of grades in templates/README.md says what sweep.txt records and ops.def has: no bound is below the largest error
found nor 0.002 above it, instructions are the column `cost`, and a function is `as exact` just where `math lite` has none of
its own. Of ops.def itself: what decisions weigh is not far from what was counted."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3))
from operations import ROOT, functions, operations


def recorded():
    with open(os.path.join(ROOT, "tests", "numerics", "sweep.txt")) as file:
        return {words[0]: float(words[1]) for words in map(str.split, file) if words[0][0] != "#"}


def numbers(text):
    return [float(number) for number in re.findall(r"(?<![\d^.-])\d+(?:\.\d+)?", text)]


def check(what, written, found, room=0.0):
    assert 0 <= written - found <= room, f"README gives {written} for {what}, the record {found}"


errors, rows = recorded(), {row.name: row for row in operations()}
names_of = {row.id: row.name for row in rows.values()}
with open(os.path.join(ROOT, "templates", "README.md")) as file:
    lines = file.read().split("`math exact`: largest error")[1].split("\n\n")[0].splitlines()
seen = []
for line in lines[2:]:
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    names = re.findall(r"`(\w+)`", cells[0])
    for i, name in enumerate(names):
        seen.append(name)
        check(f"instructions of {name}", numbers(cells[2])[i], rows[name].cost)
        if rows[name].operands == 1:  # the others: tests/numerics/powers.c
            check(name, numbers(cells[1])[i], errors[name], 0.002)
        assert (cells[3] == "as exact") == (rows[name].lite == "NONE"), f"README and ops.def differ on {name} lite"
        if rows[name].lite != "NONE":
            lite = names_of[rows[name].lite]
            check(lite, numbers(cells[3])[0], errors[f"{lite}_bf16"], 0.002)
            check(f"instructions of {lite}", numbers(cells[4])[0], rows[lite].cost)
lites = {row.lite for row in rows.values()}
exact = "floor ceil round trunc sqrt".split()  # rounded once, or exact
lacking = [row.name for row in functions() if row.id not in lites and row.name not in [*seen, *exact]]
assert not lacking, f"README's table of grades lacks {' '.join(lacking)}"
for row in functions():
    assert row.name in errors, f"sweep.txt lacks {row.name}"
    assert 0.4 * row.cost <= row.work <= 1.25 * row.cost, f"{row.name}: decisions weigh {row.work}, counted are {row.cost}"
print(len(seen), "functions as recorded")
