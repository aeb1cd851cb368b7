"""Checks the editor grammars against the compiler's tables: a function, a type or a reserved word that a grammar lacks is an error."""
import json
import os
import re
import sys

root = sys.argv[1]


def text(*path):
    with open(os.path.join(root, *path)) as file:
        return file.read()


words = re.findall(r"^X\((\w+),", text("compiler", "front", "builtins.def"), re.M)
words += re.findall(r'^X\(\w+,\s*"(\w+)"', text("compiler", "ir", "types.def"), re.M)
words += re.findall(r'^X\(\w+,\s*"(\w+)",\s*[KW]\)', text("compiler", "front", "tokens.def"), re.M)
words += "of as math from reverse backward step".split()
assert len(words) > 90, "the compiler's tables do not read as before"

editor = os.path.join(root, "templates", "editor")
for name in ("package.json", "language-configuration.json"):
    json.loads(text("templates", "editor", "vscode", name))
grammar = json.loads(text("templates", "editor", "vscode", "syntaxes", "step.tmLanguage.json"))
vscode = " ".join(pattern.get("match", "") for pattern in grammar["patterns"])
for pattern in grammar["patterns"]:
    re.compile(pattern.get("match", ""))
vim = " ".join(line for line in text("templates", "editor", "vim", "syntax", "step.vim").splitlines()
               if line.startswith("syn keyword"))
failures = 0
for name, found in (("VS Code", set(re.findall(r"\w+", vscode))), ("Vim", set(re.findall(r"\w+", vim)))):
    for word in words:
        if word not in found:
            print(f"the {name} grammar lacks `{word}`")
            failures += 1
sys.exit(failures > 0)
