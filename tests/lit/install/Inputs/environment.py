"""environment.py ROOT: each row of environment.def is read by those it names and nobody else, no
variable is read past the table, and messages name none that it has not."""
import os
import re
import sys

root = sys.argv[1]
READS = {"compiler/base/environment.c", "compiler/command/text.c", "runtime/common.c"}
table = open(f"{root}/runtime/include/lockstep/environment.def").read()
rows = dict(re.findall(r'^X\((\w+), "([^"]*)"', table, re.M))
faults, read = [], {}

for top in ("compiler", "runtime", "templates"):
    for folder, _, files in os.walk(f"{root}/{top}"):
        for file in files:
            path = os.path.relpath(f"{folder}/{file}", root)
            if not path.endswith((".c", ".h", ".def")) or path.endswith("/environment.def"):
                continue
            text = open(f"{root}/{path}").read()
            reader = "command" if path.startswith("compiler/command/") else top
            for name in re.findall(r"\bVARIABLE_(\w+)", text):
                read.setdefault(name, set()).add(reader)
            if re.search(r"\b(secure_)?getenv *\(", text) and path not in READS:
                faults.append(f"{path} reads the environment itself")
            for literal in re.findall(r'"(?:[^"\\\n]|\\.)*"', text):
                for name in re.findall(r"\bLOCKSTEP_[A-Z_]+", literal):
                    if name not in rows:
                        faults.append(f"{path} speaks of {name}, which is no row")
                    elif literal == f'"{name}"':
                        faults.append(f"{path} names {name} by a string")

for folder, _, files in os.walk(f"{root}/runtime/python/lockstep"):
    for file in files:
        if file.endswith(".py"):
            for name in re.findall(r'environ(?:\.get)?[\[(]"(LOCKSTEP_\w+)"', open(f"{folder}/{file}").read()):
                read.setdefault(name, set()).add("Python")
for name in sorted(rows.keys() | read.keys()):
    said, found = set(rows.get(name, "").split(", ")), read.get(name, set())
    if said != found:
        faults.append(f"{name}: the table says {sorted(said)}, the sources {sorted(found)}")
sys.exit("\n".join(faults) or None)
