"""counts.py SOURCE FOLDER: what a gcov says of two objects made of compiler/base/version.c: of three lines one is run
by the first object only, one by both with different branches, one by none. The last is argued."""
import json
import os
import sys

source, folder = sys.argv[1:]
path = os.path.join(source, "compiler", "base", "version.c")
with open(path, encoding="utf-8") as file:
    texts = [""] + [line.strip() for line in file]
numbers = [number for number, text in enumerate(texts) if text][-3:]


def line(number, count, branches):
    return {"line_number": number, "count": count, "branches": [{"count": taken} for taken in branches]}


def write(name, lines):
    document = {"current_working_directory": folder, "files": [{"file": path, "lines": lines}]}
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(json.dumps(document) + "\n")


write("one.json", [line(numbers[0], 3, [3, 0]), line(numbers[1], 1, []), line(numbers[2], 0, [0, 0])])
write("two.json", [line(numbers[0], 0, [0, 0]), line(numbers[1], 1, [])])
with open(os.path.join(folder, "argued"), "w", encoding="utf-8") as file:
    file.write(f"# by a test\n[nobody can]\ncompiler/base/version.c: {texts[numbers[2]]}\n")
