"""The table of grades in templates/README.md says what sweep.txt and instructions.txt record: no bound is below the largest
error found nor 0.002 above it, and instructions are those counted."""
import os
import re

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 4)


def recorded(name, column):
    with open(os.path.join(ROOT, "tests", "numerics", name)) as file:
        return {words[0]: float(words[column]) for words in map(str.split, file) if words[0][0] != "#"}


def numbers(text):
    return [float(number) for number in re.findall(r"(?<![\d^.-])\d+(?:\.\d+)?", text)]


def check(what, written, found, room):
    assert 0 <= written - found <= room, f"README gives {written} for {what}, the record {found}"


errors, instructions = recorded("sweep.txt", 1), recorded("instructions.txt", 1)
with open(os.path.join(ROOT, "templates", "README.md")) as file:
    lines = file.read().split("`math exact`: largest error")[1].split("\n\n")[0].splitlines()
count = 0
for line in lines[2:]:
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    names = re.findall(r"`(\w+)`", cells[0])
    if names == ["pow"]:  # of two operands: tests/numerics/powers.c
        continue
    for i, name in enumerate(names):
        check(name, numbers(cells[1])[i], errors[name], 0.002)
        check(f"instructions of {name}", numbers(cells[2])[i] + 0.5, instructions[name], 1)
        count += 1
        if cells[3] != "as exact":
            check(f"{name} lite", numbers(cells[3])[0], errors[f"{name}_lite_bf16"], 0.002)
            check(f"instructions of {name} lite", numbers(cells[4])[0] + 0.5, instructions[f"{name}_lite"], 1)
print(count, "functions as recorded")
