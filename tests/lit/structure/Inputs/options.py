"""Compares the members of ls_compile_options with those of its structure in the Python package, which passes it by address."""
import os
import re
import sys

root = sys.argv[1]


def read(*path):
    with open(os.path.join(root, *path)) as file:
        return file.read()


header = re.sub(r"/\*.*?\*/", "", read("runtime", "include", "lockstep", "compiler.h"), flags=re.S)
body = re.search(r"typedef struct ls_compile_options \{(.*?)\} ls_compile_options;", header, re.S).group(1)
declared = re.findall(r"(\w+);", body)
python = read("runtime", "python", "lockstep", "_api.py")
fields = re.findall(r'\("(\w+)",', re.search(r"class CompileOptions\(C.Structure\):(.*?)\n\n", python, re.S).group(1))
if declared != fields:
    print(f"compiler.h has {declared}, _api.py {fields}")
print(f"{len(declared)} members, {int(declared != fields)} faults")
sys.exit(declared != fields)
