"""Every function of floats that compiler/ir/ops.def has is where it has to be, on f64 just where the table says so: among
the device functions, in what is compared between dialects, in what must become vector code, in random programs, in the page
of the language."""
import os
import re
import sys

ROOT = sys.argv[1]
sys.path.insert(0, os.path.join(ROOT, "tests"))
import operations


def text(*path):
    with open(os.path.join(ROOT, *path)) as file:
        return file.read()


def words(pattern, text):
    return set(re.findall(pattern, text))


def functions_of(template):
    """name -> types, of those that a template defines; a macro's T is both."""
    found = {}
    for name, type in re.findall(r"^\s*(?:LS_FN \w+\s*)?(?:LS_FN \w+\s+)?\w*\s?ls_(\w+?)_(f32|f64|##T)\(", template, re.M):
        found.setdefault(name, set()).update(["f32", "f64"] if type == "##T" else [type])
    return found


operations.TABLE = os.path.join(ROOT, "compiler", "ir", "ops.def")
lites = {row.lite for row in operations.operations()}
device = functions_of("".join(text("templates", name) for name in ("prelude.c", "math.h", "lite.h")))
every = text("tests", "simt", "every_function.h")
both = words(r"(?:UNARY|BINARY)\(T, (\w+)\)", every.split("#define FLOAT(T)")[1].split("#define INTEGER(T)")[0])
single = words(r"UNARY\(f32, (\w+)\)", every)
vector = words(r"\((?:UNARY, )?(\w+)(?:, f32)?\)", text("tests", "lit", "device", "Inputs", "vector-code.c"))
fuzzed = words(r'"(\w+)\("', text("tests", "fuzz", "random_expressions.c"))
page = words(r"\b\w+\b", text("examples", "language", "README.md").split("Functions of elements: ")[1].split("\n\n")[0])
problems = []
for row in operations.functions():
    wanted = {"f32", "f64"} if row.f64 else {"f32"}
    if device.get(row.name) != wanted:
        problems.append(f"templates/ has {row.name} of {sorted(device.get(row.name, []))}, ops.def of {sorted(wanted)}")
    places = [("tests/simt/every_function.h", both if row.f64 else single), ("vector-code.c", vector)]
    if row.id not in lites:
        places += [("tests/fuzz/random_expressions.c", fuzzed), ("examples/language/README.md", page)]
    problems += [f"{place} lacks {row.name}" for place, found in places if row.name not in found]
print(*problems, f"{len(operations.functions())} functions", sep="\n")
sys.exit(len(problems) > 0)
