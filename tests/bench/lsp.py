"""How long the language server takes, from a message of the client to its answer, for a file of about 1,000 lines.

    lsp.py LOCKSTEP [EDITS]

One JSON object a line: what was measured, the median and the largest of EDITS (200) in milliseconds, and what one took of the
server's processor time, which a busy machine changes less. An edit is one character typed in the middle of a line, half of them
errors; the time ends when its diagnostics have come and are read."""
import glob
import json
import os
import statistics
import sys
import time

os.environ["LOCKSTEP_COMMAND"] = sys.argv[1]
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lit", "lsp", "Inputs"))
from client import Client, position  # noqa: E402

EDITS = int(sys.argv[2]) if len(sys.argv) > 2 else 200


def program(lines):
    text = ['import "std/norms"', 'import "std/losses"', "const beta1 = 0.9", ""]
    while len(text) < lines:
        step = [f"step update_{len(text)}[b, k](x: f32[b, k], inout w: f32[k], out y: f32[b, k], lr: f32 = 0.01) {{",
                "    let scale = rsqrt(mean[k](x ** 2) + 1e-6)"]
        for i in range(12):
            before = f"a{i - 1}" if i else "x"
            step.append(f"    let a{i} = tanh({before} * w + {i}.5) * scale + exp(-{before} ** 2) # line {i}")
        text += step + ["    y = a11 * beta1", "    w -= lr * sum[b](a11 * x)", "}", ""]
    return "\n".join(text) + "\n"


def processor_ms():
    """Of the server, all its threads."""
    total = 0
    for path in glob.glob(f"/proc/{client.process.pid}/task/*/schedstat"):
        with open(path) as file:
            total += int(file.read().split()[0])
    return total / 1e6


def timed(what, count, run):
    times = []
    before = processor_ms()
    for i in range(count):
        begin = time.perf_counter()
        run(i)
        times.append((time.perf_counter() - begin) * 1000)
    print(json.dumps({"what": what, "lines": LINES, "median_ms": round(statistics.median(times), 2),
                      "max_ms": round(max(times), 2), "times": count,
                      "processor_ms": round((processor_ms() - before) / count, 2)}))


text = program(1000)
LINES = text.count("\n")
uri = "file:///bench/program.step"
client = Client()
client.open(uri, text)
assert client.published(uri) == []
at = text.index("scale + exp", len(text) // 2)
place, behind = position(text, at), position(text, at + 1)


def edit(i):
    """`scale` becomes `xcale` and `scale` again."""
    client.edit(uri, place, behind, "x" if i % 2 == 0 else "s", i + 2)
    found = client.published(uri)
    assert bool(found) == (i % 2 == 0)


def ask(method, **more):
    return lambda _: client.request(method, {"textDocument": {"uri": uri}, **more})


timed("diagnostics while typing", EDITS, edit)
if EDITS % 2:
    edit(1)
timed("hover", 50, ask("textDocument/hover", position=behind))
timed("definition", 50, ask("textDocument/definition", position=behind))
timed("completion", 20, ask("textDocument/completion", position=behind))
timed("inferred types of the file", 20, ask("textDocument/inlayHint"))
timed("symbols of the file", 20, ask("textDocument/documentSymbol"))
timed("rename", 20, ask("textDocument/rename", position=behind, newName="renamed"))
timed("layout", 20, ask("textDocument/formatting"))
lenses = ask("textDocument/codeLens")(0)
timed("line above a step", min(20, len(lenses)), lambda i: client.request("codeLens/resolve", lenses[i]))
assert client.close() == 0
