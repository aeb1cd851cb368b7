# growth.py LOCKSTEP: hostile programs of 300 KB, each within 8 seconds of processor time. Where work
# grows with the square of the size such a program takes minutes (16 KB of NUL bytes took 0.4 s);
# where it does not, 0.1 seconds.
import resource
import subprocess
import sys

BYTES, SECONDS = 300000, 8
HEAD = "step s[n](x: f32[n], out y: f32[n]) {\n"
SHAPES = {
    "NUL bytes": lambda k: b"\0" * k,
    "NUL bytes apart": lambda k: b"\0 " * k,
    "letters of no alphabet": lambda k: "\u00a7 ".encode() * k,
    "unclosed strings": lambda k: b'"\n' * k,
    "bad numbers": lambda k: b"1e " * k,
    "open brackets": lambda k: ("const a = " + "(" * k).encode(),
    "brackets": lambda k: ("const a = " + "(" * k + "1" + ")" * k).encode(),
    "minus signs": lambda k: ("const a = " + "- " * k + "1").encode(),
    "a sum": lambda k: ("const a = 1" + " + 1" * k).encode(),
    "powers": lambda k: ("const a = 1" + " ** 1" * k).encode(),
    "braces": lambda k: (HEAD + "when true {\n" * k).encode(),
    "axes": lambda k: ("step s[" + ", ".join(f"a{i}" for i in range(k)) + "](x: f32) {\n}\n").encode(),
    "one axis often": lambda k: ("step s[" + "a, " * k + "](x: f32) {\n}\n").encode(),
    "parents": lambda k: ("step s[" + ", ".join(f"a{i} of b{i}" for i in range(k)) +
                          "](x: f32) {\n}\n").encode(),
    "axes of an array": lambda k: ("step s[n](x: f32[" + "n, " * k + "]) {\n}\n").encode(),
    "parameters": lambda k: ("step s[n](" + ", ".join(f"x{i}: f32[n]" for i in range(k)) +
                             ") {\n}\n").encode(),
    "outputs": lambda k: ("step s[n](x: f32[n], " + ", ".join(f"out y{i}: f32[n]" for i in range(k)) +
                          ") {\n" + "".join(f"    y{i} = x\n" for i in range(k)) + "}\n").encode(),
    "statements": lambda k: (HEAD + "".join(f"    let a{i} = x + {i}\n" for i in range(k)) +
                             "    y = x\n}\n").encode(),
    "a chain of lets": lambda k: (HEAD + "    let a0 = x\n" +
                                  "".join(f"    let a{i + 1} = a{i} * x\n" for i in range(k)) +
                                  f"    y = a{k}\n" + "}\n").encode(),
    "unknown names": lambda k: (HEAD + "".join(f"    let a{i} = b{i}\n" for i in range(k)) +
                                "    y = x\n}\n").encode(),
    "names said twice": lambda k: (HEAD + "    let a = x\n" * k + "    y = x\n}\n").encode(),
    "assignments": lambda k: (HEAD + "    y = x\n" * k + "}\n").encode(),
    "errors on one line": lambda k: (HEAD + "    y = " + "+ ".join(f"b{i}" for i in range(k)) +
                                     "\n}\n").encode(),
    "a long line": lambda k: ("# " + "x" * 20 * k + "\nconst a = ]").encode(),
    "a long name": lambda k: ("const " + "x" * 20 * k + " = ]").encode(),
    "constants": lambda k: "".join(f"const a{i} = {i}\n" for i in range(k)).encode(),
    "a chain of constants": lambda k: ("const a0 = 1\n" + "".join(
        f"const a{i + 1} = a{i} + 1\n" for i in range(k))).encode(),
    "functions": lambda k: "".join(f"fn f{i}(x) = x + 1\n" for i in range(k)).encode(),
    "steps": lambda k: "".join(f"step s{i}[n](x: f32[n], out y: f32[n]) {{\n    y = x\n}}\n"
                               for i in range(k)).encode(),
    "imports": lambda k: ('import "std/optim"\n' * k).encode(),
    "imports of nothing": lambda k: "".join(f'import "none{i}"\n' for i in range(k)).encode(),
    "arguments": lambda k: (HEAD + "    y = max(" + "x, " * k + "x)\n}\n").encode(),
    "comments": lambda k: b"# a\n" * k,
    "empty lines": lambda k: b"\n" * k,
}


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


for name, shape in SHAPES.items():
    count = BYTES * 1000 // len(shape(1000))
    for command in ("check", "fmt"):
        done = subprocess.run([sys.argv[1], command, "-"], input=shape(count), preexec_fn=limit,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if done.returncode not in (0, 1):
            print(f"{command}: {name}, {count} of them: ended with {done.returncode}")
print("measured", len(SHAPES))
