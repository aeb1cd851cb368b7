"""Says which words of the emitter's formats names.c does not know, so that a user's
name could be one of them.

forms.py ROOT [TEXT]     TEXT: also as a line of the emitter
"""
import glob
import os
import re
import sys

root = sys.argv[1]
# Within loops over these no name of the source stands: see names.c. Not a stem's: device functions.
LOOSE, FUNCTIONS = {"i", "sums", "extrema"}, {"fast"}


def read(path):
    return open(os.path.join(root, path)).read()


def table(name):
    body = re.search(rf"static const char {name}\[\] =\n((?:\s*\"[^\"]*\"\n?)+);", read("compiler/emit/names.c"))
    return set("".join(re.findall(r'"([^"]*)"', body[1])).split())


words = table("language_words") | table("prelude_words") | table("nest_words") | LOOSE
suffixes = table("suffixes") | FUNCTIONS

lines = sys.argv[2:]
for path in glob.glob(os.path.join(root, "compiler", "emit", "*.c")):
    tokens = re.findall(r"/\*.*?\*/|'(?:[^'\\]|\\.)'|\"(?:[^\"\\\n]|\\.)*\"|[^/'\"]+|/", open(path).read(), re.S)
    source = "".join(token for token in tokens if token[:2] != "/*" and token[0] != "'")
    for array in re.findall(r"suffixes\[\] = \{(.*?)\}", source, re.S):
        lines += ["%s_" + name for name in re.findall(r'"(\w+)"', array)]
    source = re.sub(r"\b(bug|compiler_fail)\(.*?;", " ", source, flags=re.S)
    literals = re.findall(r'"(?:[^"\\]|\\.)*"(?:\s*"(?:[^"\\]|\\.)*")*', source)
    lines += ["".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literal)).replace("\\n", "\n") for literal in literals]

TYPE = r"(?:f64|f32|i64|i32|u64|u32|int|void|ls_\w+|struct \w+|%s)"
DECLARED = (rf"{TYPE}(?: \*(?:const )?| (?:LS_RESTRICT )?(?:const )?)([a-z]\w*)(?= =|\[|[,;)])",
            r", \*?(?:const )?([a-z]\w*)(?= =|\[)")
for line in lines:
    line = re.sub(r"/\*.*?\*/", " ", line, flags=re.S)
    for chain in re.findall(r"(?<![a-z]_)%s_([a-z][a-z_]*)\b(?!\()", line):
        for word in chain.strip("_").split("_"):
            if word and word not in suffixes:
                print(f"suffix {word} of {line.strip()[:60]!r}")
    for word in [word for form in DECLARED for word in re.findall(form, line)]:
        if word not in words and not word.startswith(("ls_", "phase_")):
            print(f"word {word} of {line.strip()[:60]!r}")
print(f"{len(words)} words, {len(suffixes)} suffixes")
