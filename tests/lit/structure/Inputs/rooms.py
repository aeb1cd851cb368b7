"""Checks that each room of the compiler uses only the rooms that compiler/README.md lists for it.

A room is a folder, or a file beside them. It uses another one when it includes its header, or calls or reads something that the
other one's header declares. A room may use only rooms that stand below it in the table, so that no two use each other."""
import glob
import os
import re
import sys

root = os.path.join(sys.argv[1], "compiler")
problems = []


def problem(path, text):
    problems.append(f"{os.path.relpath(path, root)}: {text}")


def read(path):
    with open(path) as file:
        return file.read()


def code(text):
    """Without comments and strings."""
    return re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', " ", text, flags=re.S)


# | `room` | what | `used` `used` |, the top one first
rows = re.findall(r"^\| `(\w+)`[^|]*\|[^|\n]*\| *((?:`\w+` *)*)\|$", read(os.path.join(root, "README.md")), re.M)
uses = {room: re.findall(r"\w+", used) for room, used in rows}
order = list(uses)
folders = {name for name in os.listdir(root) if os.path.isdir(os.path.join(root, name))} - {"command", "install"}
files = {name[:-2] for name in os.listdir(root) if name.endswith(".c")}
if set(order) != folders | files:
    problem(root, f"the table of rooms has {order}, and there are {sorted(folders | files)}")
for room in order:
    for used in uses[room]:
        if used not in order or order.index(used) <= order.index(room):
            problem("README.md", f"{room} may not use {used}, which is not below it")


def sources(room, end):
    return sorted(glob.glob(os.path.join(root, room, "*" + end)) if room in folders else glob.glob(os.path.join(root, room + end)))


# What a header declares: functions and variables, by room.
home = {}
for room in order:
    headers = [os.path.basename(path) for path in sources(room, ".h")]
    if set(headers) - {room + ".h", "clang.h"}:  # clang.h: libclang's own declarations
        problem(room, f"has more headers than its own: {headers}")
    for path in sources(room, ".h"):
        text = read(path)
        for include in re.findall(r'^#include "(.*\.h)"', text, re.M):
            problem(path, f"a header includes a project header, {include}")
        text = code(text)
        while re.search(r"\{[^{}]*\}", text):
            text = re.sub(r"\{[^{}]*\}", " ", text)
        for name in re.findall(r"\b([a-z]\w*)\s*\([^;{}]*\)[^;{}]*;", text):
            if name not in ("void", "int", "bool"):  # of a pointer to a function
                home[name] = room
        for name in re.findall(r"\bextern\b[^;()]*?\b(\w+)\s*(?:\[[^;]*\])?(?:,[^;]*)?;", text):
            home[name] = room

defined = {}
for room in order:
    for path in sources(room, ".c"):
        text = read(path)
        for include in re.findall(r'^#include "(?:(\w+)/)?(\w+)\.h"', text, re.M):
            used = include[0] or include[1]
            if used in order and used != room and used not in uses[room]:
                problem(path, f"{room} includes the header of {used}")
        text = code(text)
        for name in set(re.findall(r"^[a-zA-Z_][^\n;=]*?\b(\w+)\([^;{}]*\)\s*\{", text, re.M)):
            if not re.search(rf"^static\b[^;{{}}]*?\b{name}\([^;{{}}]*\)\s*\{{", text, re.M):
                defined.setdefault(name, set()).add(path)
        for name in set(re.findall(r"\b[a-z]\w*\b", text)):
            used = home.get(name)
            if not used or used == room or used in uses[room]:
                continue
            if re.search(rf"(?<![.>\w]){name}\s*\(", text) and not re.search(rf"^static\b[^;{{}}]*?\b{name}\(", text, re.M):
                problem(path, f"{room} calls {name} of {used}")

for name, paths in defined.items():
    rooms = {os.path.relpath(path, root).split(os.sep)[0].removesuffix(".c") for path in paths}
    if name in home and home[name] not in rooms:
        problem(min(paths), f"{name} is declared by the header of {home[name]}")

# The command stands on the public headers.
for path in glob.glob(os.path.join(root, "command", "*.[ch]")):
    for include in re.findall(r'^#include "(?:(\w+)/)?(\w+)\.h"', read(path), re.M):
        if (include[0] or include[1]) in order:
            problem(path, f"the command includes the header of {include[0] or include[1]}")

print("\n".join(problems) or f"{len(order)} rooms, {len(home)} names between them")
sys.exit(bool(problems))
