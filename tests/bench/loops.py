"""What cpu.py measures that is no row of one step: training loops in steps a second, what a launch costs, how long
the first launch and compiles take."""
import ctypes as C
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

from arrays import Memory, distance
from lockstep import ROOT
from timing import COMPANIONS, Foreign, rest

HERE = os.path.dirname(os.path.abspath(__file__))
ADAMW = os.path.join(HERE, "steps", "adamw_f32.step")
NVRTC_TARGET, HIPRTC_TARGET = "sm_90", "gfx90a"
BATCHES, BATCH, FEATURES = 39, 256, 64


def rates(runs, rounds, patience):
    """name -> function that gives steps a second; medians over the rounds that nobody disturbed."""
    found, dropped, kept = {name: [] for name in runs}, 0, 0
    while kept < rounds:
        with Foreign() as foreign:
            one = {name: run() for name, run in runs.items()}
        if foreign.disturbed() and dropped < patience:
            dropped += 1
            continue
        kept += 1
        for name, rate in one.items():
            found[name].append(rate)
    return {"unit": "steps/s", "rounds": rounds, "dropped_rounds": dropped,
            "disturbed": patience > 0 and dropped >= patience,
            "candidates": {name: {"median": statistics.median(values), "min": min(values), "max": max(values)}
                           for name, values in found.items()}}


def show_rates(name, found):
    print(f"{name}" + (", DISTURBED: other processes ran" if found["disturbed"] else ""))
    for label, of in found["candidates"].items():
        print(f"  {label:44s} {of['median']:14,.1f} steps/s")
    for label, why in found["failed"].items():
        print(f"  {label:44s} LEFT OUT: {why}")


class Linreg:
    """examples/linreg's step on data of ours: an epoch of 39 batches is one graph."""

    def __init__(self, bench):
        library = self.library = bench.library
        counts = {"x": BATCHES * BATCH * FEATURES, "y": BATCHES * BATCH, "w": FEATURES + 1}
        self.memory = {name: Memory(library.native_alloc(4 * n), "f32", (n,), n, 77 + i)
                       for i, (name, n) in enumerate(counts.items())}
        self.memory["x"].shape = BATCHES * BATCH, FEATURES
        for m in (self.memory["x"], self.memory["y"]):
            library.native_fill(m.address, 0, 1, m.count, m.seed, 1)
        self.reset()
        context, at = bench.context, {name: m.address for name, m in self.memory.items()}
        path = os.path.join(ROOT, "examples", "linreg", "linreg.step")
        cells = self.cells = library.native_alloc(4096)
        rank0 = {"loss_sum": (cells, "f32", ()), "seen": (cells + 8, "i64", ()), "nan_seen": (cells + 16, "bool", ()),
                 "bias": (at["w"] + 4 * FEATURES, "f32", ())}
        steps = [context.step(path, "linreg", {
            "x": (at["x"] + 4 * BATCH * FEATURES * i, "f32", (BATCH, FEATURES)),
            "y": (at["y"] + 4 * BATCH * i, "f32", (BATCH,)), "w": (at["w"], "f32", (FEATURES,)), **rank0})
            for i in range(BATCHES)]
        graph, check, of = C.c_void_p(), context.check, context.library
        check(of.ls_graph_begin(context.handle))
        for step in steps:
            step()
        check(of.ls_graph_end(context.handle, C.byref(graph)))

        def epochs(count):
            check(of.ls_graph_repeat(graph, count))
            context.synchronize()
        self.epochs = epochs

    def reset(self):
        w = self.memory["w"]
        self.library.native_fill(w.address, 0, 0, w.count, 0, 1)

    def weights(self):
        return list((C.c_float * (FEATURES + 1)).from_address(self.memory["w"].address))


def example_rate(options, steps):
    program = os.path.join(options.build, "examples", "linreg", "linreg")
    out = subprocess.run([program, "--device", "cpu", "--steps", str(steps)], check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    return float(re.search(r"(\d+) steps/s", out).group(1))


def timed(epochs, seconds):
    """A function that gives steps a second over about so many seconds; `epochs` is warm."""
    start = time.perf_counter()
    epochs(1)
    count = max(1, min(100000, round(seconds / (time.perf_counter() - start))))

    def run():
        rest()
        begin = time.perf_counter()
        epochs(count)
        return count * BATCHES / (time.perf_counter() - begin)
    return run


def linreg(bench, options):
    """A linear model of 64 features in batches of 256: every loop trains on the same data, and has the weights of
    Lockstep's after an epoch."""
    own = Linreg(bench)
    own.epochs(1)
    expected, failed = sample_list(own.library, own.weights()), {}
    runs = {"lockstep": timed(own.epochs, 10 * options.sample)}
    example = os.path.join(options.build, "examples", "linreg", "linreg")
    if os.path.exists(example):
        steps = max(2000, int(2e6 * options.sample))
        runs["lockstep (examples/linreg, looks every 50)"] = lambda: example_rate(options, steps)
    for name, (module, peer) in bench.peers.items():
        if not hasattr(peer, "linreg"):
            continue
        for label, (epochs, weights) in peer.linreg(own.memory["x"], own.memory["y"], BATCHES).items():
            options.progress(label)
            try:
                epochs(1)
                worst = distance(own.library, sample_list(own.library, weights()), expected)
                if not worst <= 1e-3:
                    raise ValueError(f"its weights differ from Lockstep's by {worst:.2g}")
                runs[label] = timed(epochs, 10 * options.sample)
            except Exception as error:
                failed[label] = f"{type(error).__name__}: {error}"[:300]
    found = {**rates(runs, options.rounds, options.patience), "failed": failed}
    show_rates("linreg, 64 features, batches of 256", found)
    return found


class Companion:
    """A script that runs candidates in a process of its own, so that its threads and crashes are its own; none
    for no arguments."""

    def __init__(self, arguments):
        self.command = [sys.executable, os.path.join(HERE, arguments[0]), *arguments[1:]] if arguments else None

    def __enter__(self):
        if self.command:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            COMPANIONS.append(self.process.pid)
        return self

    def __exit__(self, *_):
        if self.command:
            COMPANIONS.remove(self.process.pid)
            self.process.kill()
            self.process.communicate()

    def losses(self):
        return json.loads(self.line()) if self.command else {}

    def seconds(self, label, steps):
        self.process.stdin.write(f"{label}\t{steps}\n")
        self.process.stdin.flush()
        return float(self.line())

    def line(self):
        found = self.process.stdout.readline()
        if not found:
            raise RuntimeError(f"{os.path.basename(self.command[1])} ended early")
        return found


def charlm(bench, options):
    """examples/charlm beside the same model in PyTorch, from the same weights, whose validation losses agree."""
    program = os.path.join(options.build, "examples", "charlm", "charlm")
    book = os.path.join(ROOT, "examples", "charlm", "pride-and-prejudice.txt")
    steps = max(2, int(1000 * options.sample))
    with tempfile.TemporaryDirectory() as folder:
        text, checkpoint = os.path.join(folder, "text.txt"), os.path.join(folder, "start.safetensors")
        with open(book, "rb") as source, open(text, "wb") as target:
            target.write(source.read(100000))  # less to validate

        def run(*arguments):
            command = [program, "--device", "cpu", "--text", text, "--sample", "0", *arguments]
            return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

        def own():
            out = run("--report", str(steps), "--stop", str(2 * steps), "--evaluate", "1000000")
            speeds = [float(line.split()[-3]) for line in out.splitlines() if re.match(r" *[1-9]\d* .* s$", line)]
            return speeds[-1] / (16 * 64)
        first = run("--stop", "1", "--evaluate", "1", "--save", checkpoint)
        wanted = float(re.search(r"validation loss ([0-9.]+)", first).group(1))
        runs, failed = {"lockstep (examples/charlm)": own}, {}
        with Companion(["peers/torch_charlm.py", checkpoint, text] if "torch" in bench.peers else []) as torch:
            options.progress("PyTorch's: compiling")
            for label, loss in torch.losses().items():
                if abs(loss - wanted) > 2e-3:
                    failed[label] = f"its validation loss is {loss:.4f}, Lockstep's {wanted:.3f}"
                else:
                    runs[label] = lambda label=label: steps / torch.seconds(label, steps)
            options.progress("timing")
            found = {**rates(runs, min(options.rounds, 5), options.patience), "failed": failed}
    show_rates("charlm, 831,360 parameters, 1024 characters a step", found)
    return found


def sample_list(library, values):
    return (C.c_double * len(values))(*values)


def latency(options, *arguments, **environment):
    program = os.path.join(options.build, "tests", "bench", "latency")
    return json.loads(subprocess.run([program, *arguments], check=True, stdout=subprocess.PIPE, text=True,
                                     env={**os.environ, **environment}).stdout)


def launches(_, options):
    """AdamW of 16 elements, from C: a launch each, a graph's replay each, many replays with one call."""
    count = max(1000, int(1e7 * options.sample))
    rounds = [latency(options, "steps", ADAMW, "adamw", "n=16", str(count), "cpu") for _ in range(options.rounds)]
    found = {name: {"median_us": statistics.median(1e6 / one[name] for one in rounds)} for name in rounds[0]}
    print("what a launch of AdamW on 16 elements costs, from C:",
          ", ".join(f"{name} {of['median_us']:.3f} us" for name, of in found.items()))
    return found


def first(_, options):
    cold, cached = [], []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o700)
            for runs in (cold, cached):
                runs.append(latency(options, "first", ADAMW, "adamw", "1024", LOCKSTEP_CACHE_DIR=folder))
    result = {}
    for name, runs, expected in (("cold", cold, "miss"), ("cached", cached, "hit")):
        result[name] = {key: statistics.median(run[key] for run in runs)
                        for key in ("open_ms", "load_ms", "first_launch_ms", "total_ms", "compile_ms")}
        result[name]["as_expected"] = all(run["cache"] == expected for run in runs)
        print(f"AdamW from file to first launch done, {name}: {result[name]['total_ms']:.1f} ms "
              f"(of which code {result[name]['compile_ms']:.1f} ms)")
    return result


def compile_times(_, options):
    result = {}
    for toolchain, target in (("NVRTC", NVRTC_TARGET), ("NVRTC to PTX", "compute_90"),
                              ("hipRTC", HIPRTC_TARGET), ("host", "cpu")):
        try:
            kernels = latency(options, "compile", ADAMW, target, str(min(options.rounds, 5) + 1))["kernels"]
        except subprocess.CalledProcessError:
            result[toolchain] = None
            print(f"{toolchain}: not available")
            continue
        later = [k["ms"] for k in kernels if k["round"] > 0]
        result[toolchain] = {"target": target, "median_ms": statistics.median(later), "min_ms": min(later),
                             "first_ms": kernels[0]["ms"]}
        print(f"{toolchain} ({target}): {statistics.median(later):.1f} ms per kernel source of AdamW "
              f"after the first, which takes {kernels[0]['ms']:.0f} ms")
    return result


# name, for --only -> (key of the JSON, function)
LOOPS = {
    "linreg steps a second": ("linreg", linreg),
    "charlm steps a second": ("charlm", charlm),
    "launch overhead": ("launches", launches),
    "first launch": ("first", first),
    "compile": ("compile", compile_times),
}
