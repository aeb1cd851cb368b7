"""C headers that take for ever, in a folder: `macros.h` expands 2^60 terms, `values.h` does so where its macros are numbers, `pipe.h`
includes a pipe that nobody writes to; and a program that imports each."""
import os
import sys

TERMS = 60


def header(first):
    lines = [f"#define A0 {first}"]
    lines += [f"#define A{i} A{i - 1} + A{i - 1}" for i in range(1, TERMS)]
    return "\n".join(lines) + "\n"


folder = sys.argv[1]
os.makedirs(folder)
os.mkfifo(os.path.join(folder, "pipe"))
same = "static inline float same(float x) { return x; }\n"
texts = {"macros": header("x") + f"static inline float same(float x) {{ return A{TERMS - 1}; }}\n", "values": header("1") + same,
         "pipe": '#include "pipe"\n' + same}
for name, text in texts.items():
    with open(os.path.join(folder, name + ".h"), "w") as file:
        file.write(text)
    with open(os.path.join(folder, name + ".step"), "w") as file:
        file.write(f'import c "{name}.h"\nstep s[n](x: f32[n], out y: f32[n]) {{\n    y = same(x)\n}}\n')
