"""Every message of errors.def has a test that is named after its code and holds a line of the message's own words."""
import glob
import os
import re
import sys

root = sys.argv[1]
with open(os.path.join(root, "compiler", "base", "errors.def")) as file:
    rows = re.findall(r'^X\((\w+),\s*"\w+",\s*"((?:[^"\\]|\\.)*)"\)', file.read(), re.M)
assert len(rows) > 70, "errors.def does not read as before"
texts = {}
for path in glob.glob(os.path.join(root, "tests", "lit", "*", "*.*")):
    with open(path, errors="replace") as file:
        texts[path] = file.read()
failures = 0
for code, message in rows:
    # The longest piece of the message between what is filled in must stand in a CHECK line.
    pieces = re.split(r"%(?:\.\*s|[-+ #0-9]*(?:ll|l|z)?[a-z])", message.replace('\\"', '"').replace("%%", "%"))
    piece = max(pieces, key=len).strip(" `:,;")
    name = code.lower().replace("_", "-")
    own = [text for path, text in texts.items() if os.path.basename(path).split(".")[0] == name]
    shown = any(piece in line for text in own or texts.values() for line in text.splitlines() if "CHECK" in line)
    if not shown:
        print(f"{name}: no test shows \"{piece}\"")
        failures += 1
sys.exit(failures > 0)
