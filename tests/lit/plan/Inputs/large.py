"""Prints a large program, or runs a command on each kind within little memory and time.

large.py print KIND COUNT
large.py run COMMAND...    COMMAND gets the file's name as its last argument
large.py memory MIB        what tests/bench/plan says on stdin stays below
"""
import json
import resource
import subprocess
import sys
import tempfile


def dependent(count):
    sums = "".join(f"    let a{i + 1} = sum(x * a{i})\n" for i in range(count))
    return f"step s[n](x: f32[n], out y: f32) {{\n    let a0 = sum(x)\n{sums}    y = a{count}\n}}\n"


def choices(count):
    body = "".join(f"    let k{i} = argmax[f](x)\n    s += x[b, k{i}]\n"
                   f"    x = if index(f) == k{i} then 0.0 else x + s\n" for i in range(count))
    return f"step s[b, f](inout x: f32[b, f], inout s: f32[b]) {{\n{body}}}\n"


def layers(count):
    body = "    x = tanh(sum[h](tanh(sum[i](x * w)) * v) + x)\n" * count
    return f"step s[b, i, h](inout x: f32[b, i], w: f32[i, h], v: f32[i, h]) {{\n{body}}}\n"


def calls(count):
    tick = ("step tick[b, f](inout x: f32[b, f], inout live: bool[b], w: f32[f], out r: f32[b]) {\n"
            "    let best = max[f](x * w)\n    let i = argmax[f](if live then x else -x)\n"
            "    r = tanh(best) + x[b, i]\n    live &= r < 2\n    x = if live then x * 0.5 + r else x\n}\n")
    outs = ", ".join(f"out r{i}: f32[b]" for i in range(count))
    body = "".join(f"    tick(x = x, live = live, w = w, r = r{i})\n" for i in range(count))
    return tick + f"step s[b, f](inout x: f32[b, f], inout live: bool[b], w: f32[f], {outs}) {{\n{body}}}\n"


KINDS = {"dependent": (dependent, 70), "choices": (choices, 16), "layers": (layers, 16), "calls": (calls, 8)}


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
    resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20))


if sys.argv[1] == "print":
    print(KINDS[sys.argv[2]][0](int(sys.argv[3])), end="")
elif sys.argv[1] == "memory":
    rows = [json.loads(line) for line in sys.stdin]
    for row in rows:
        if row["bytes"] > int(sys.argv[2]) << 20:
            print(f"{row['shape']} of {row['statements']}: {row['bytes'] >> 20} MiB")
    print(f"{len(rows)} plans")
else:
    for name, (make, count) in KINDS.items():
        with tempfile.NamedTemporaryFile("w", suffix=".step") as file:
            file.write(make(count))
            file.flush()
            result = subprocess.run(sys.argv[2:] + [file.name + ":s"], preexec_fn=limit, capture_output=True, text=True)
            print(f"{name}: status {result.returncode}", result.stderr)
            print(result.stdout)
