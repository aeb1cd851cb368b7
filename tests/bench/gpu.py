#!/usr/bin/env python3
"""Measures Lockstep on a GPU beside PyTorch (eager, fused, compiled), Triton, CuPy and JAX, as far as this
python can import them, in one process, on the same arrays, in turns; without PyTorch alone, by `lockstep bench`.

    python3 tests/bench/gpu.py [--build build] [--device cuda] [--json FILE] [--only REGEX] [--rounds N]

Every candidate runs between two copies of as many bytes as its row needs at least; medians over the rounds are
reported, as GB/s and as a fraction of that copy. With --device cpu the same script runs on the processor with
small arrays, to see that it works; those figures mean nothing."""
import argparse
import gc
import importlib
import json
import os
import re
import statistics
import subprocess
import sys
import time

os.environ.setdefault("LOCKSTEP_CACHE", "off")  # a first call compiles, as a peer's does
from cases import gpu_cases
from lockstep import ROOT, Context

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = ("torch", "triton", "cupy", "jax")
SAMPLE = 0.02  # seconds a sample takes at least


def import_torch(device):
    try:
        import torch
    except ImportError:
        return None
    return torch if device == "cpu" or torch.cuda.is_available() else None


def json_of(command):
    """The JSON a command prints, or a word on why there is none."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        return {"failed": (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]}
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        return {"failed": "the output is not JSON"}


def lockstep(options):
    return os.path.join(options.build, "lockstep")


def least_bytes(options, case):
    """Each input read once and each output written once, as `lockstep explain` counts them."""
    found = json_of([lockstep(options), "explain", case.step, "--size", case.sizes, "--json", "--plan",
                     "--device", "cpu"])
    return found["steps"][0]["bytes_minimum"]


def open_peers(device):
    """The peers that can be used here, and why the others cannot."""
    opened, missing = [], {}
    for name in PEERS:
        try:
            module = importlib.import_module(f"peers.{name}_peer")
            opened.append((module.open(device), getattr(module, "wait", None)))
        except Exception as why:  # a peer's import may fail in any way
            missing[name] = f"{type(why).__name__}: {str(why).splitlines()[0] if str(why) else ''}"
    return opened, missing


def make(torch, array, device):
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "i64": torch.int64}[array.dtype]
    made = []
    for shape in array.shapes:
        if isinstance(array.fill, tuple):
            made.append(torch.randint(0, array.fill[1], shape, device=device))
        elif array.fill == "out":
            made.append(torch.empty(shape, device=device, dtype=dtype))
        else:
            values = torch.randn(shape, device=device)
            values = values.square_() * 1e-4 if array.fill == "positive" else values
            values = values * 0.01 if array.fill == "small" else values
            made.append(values.to(dtype))
    return made if array.listed else made[0]


def bound(case, tensors):
    """The tensors as the C API takes them."""
    def one(name, tensor):
        return tensor.data_ptr(), case.arrays[name].dtype, tuple(tensor.shape)
    return {name: [one(name, t) for t in value] if isinstance(value, list) else one(name, value)
            for name, value in tensors.items()}


class Clock:
    """Seconds a call takes: many calls between two waits for the device."""

    def __init__(self, torch, context, device):
        self.wait_torch = torch.cuda.synchronize if device == "cuda" else lambda: None
        self.context = context

    def wait(self, result=None, own=None):
        if own is not None:
            own(result)
        self.context.synchronize()
        self.wait_torch()

    def __call__(self, function, repeat, own=None):
        self.wait()
        start, result = time.perf_counter(), None
        for _ in range(repeat):
            result = function()
        queued = time.perf_counter()
        self.wait(result, own)
        return (time.perf_counter() - start) / repeat, (queued - start) / repeat


def word(error):
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]


def find_candidates(options, torch, context, peers, case, tensors, clock):
    """label -> (function, its own way to wait, seconds of the first call); and label -> what failed."""
    makers = [(None, lambda: {"lockstep": context.step(*case.step.rsplit(":", 1), bound(case, tensors),
                                                       case.wanted, **case.cells)})]
    makers += [(own, lambda peer=peer: peer.candidates(case, tensors)) for peer, own in peers]
    found, failed = {}, {}
    for (own, maker), name in zip(makers, ["lockstep"] + [peer.name for peer, _ in peers]):
        try:
            start, given = time.perf_counter(), maker()
            making = (time.perf_counter() - start) / max(1, len(given))
        except Exception as error:  # whatever a peer cannot do is its row's news, not the end
            failed[name] = word(error)
            continue
        for label, function in given.items():
            try:
                first = making + clock(function, 1, own)[0]
                clock(function, 2, own)
                found[label] = function, own, first
            except Exception as error:
                failed[label] = word(error)
    return found, failed


def measure(options, torch, context, peers, case):
    clock = Clock(torch, context, options.device)
    tensors = {name: make(torch, array, options.device) for name, array in case.arrays.items()}
    least = least_bytes(options, case)
    half = max(1, least // 2)
    source = torch.zeros(half, dtype=torch.uint8, device=options.device)
    target = torch.empty_like(source)
    copy = lambda: target.copy_(source)
    candidates, failed = find_candidates(options, torch, context, peers, case, tensors, clock)

    def enough(function, own=None):
        return max(1, min(2000, round(SAMPLE / max(1e-6, clock(function, 3, own)[0]))))

    copy()
    copies = enough(copy)
    repeats = {label: enough(function, own) for label, (function, own, _) in candidates.items()}
    times, hosts, ratios = ({label: [] for label in candidates} for _ in range(3))
    limits = []
    for _ in range(options.rounds):
        for label, (function, own, _) in candidates.items():
            before = clock(copy, copies)[0]
            took, host = clock(function, repeats[label], own)
            after = clock(copy, copies)[0]
            times[label].append(took)
            hosts[label].append(host)
            ratios[label].append((before + after) / 2 / took)
            limits += [before, after]
    limit = statistics.median(limits)
    row = {"bytes": least, "copy_gb_s": 2 * half / limit / 1e9, "candidates": {}, "failed": failed}
    for label, (_, _, first) in candidates.items():
        median = statistics.median(times[label])
        row["candidates"][label] = {
            "median_s": median, "min_s": min(times[label]), "max_s": max(times[label]),
            "gb_s": least / median / 1e9, "fraction_of_copy": statistics.median(ratios[label]),
            "host_us": 1e6 * min(hosts[label]), "first_call_s": first}
    return row


def show(name, row):
    print(f"{name}: {row['bytes'] / 1e6:,.1f} MB at least, copied at {row['copy_gb_s']:,.0f} GB/s")
    for label, of in row["candidates"].items():
        print(f"  {label:20s} {1e3 * of['median_s']:10.4f} ms {of['gb_s']:9.1f} GB/s "
              f"{100 * of['fraction_of_copy']:6.1f} % of the copy, host {of['host_us']:8.1f} us, "
              f"first call {of['first_call_s']:7.3f} s")
    for label, why in row["failed"].items():
        print(f"  {label:20s} could not: {why}")
    sys.stdout.flush()


def alone(options, cases):
    """`lockstep bench` with its own measured copy rate, where there is no PyTorch to make arrays."""
    rows = {}
    for case in cases:
        found = json_of([lockstep(options), "bench", case.step, "--size", case.sizes, "--device",
                         options.device, "--json"])
        row = found["steps"][0] if "steps" in found else found
        rows[case.name] = row
        print(f"{case.name}:", *(f"{key} {row[key]:.4g}" for key in
                                 ("median_s", "gb_s", "copy_gb_s", "fraction_of_copy") if key in row),
              row.get("failed", ""))
    return rows


def linreg(options):
    """Training steps a second of a small model: a launch each, a graph each, many replays with one call."""
    program = os.path.join(options.build, "tests", "bench", "latency")
    file = os.path.join(ROOT, "examples", "linreg", "linreg.step")
    found = json_of([program, "steps", file, "linreg", "b=256,k=64", "20000", options.device])
    print("linreg, 64 features, batches of 256:",
          ", ".join(f"{key} {value:,.0f} steps/s" for key, value in found.items() if key != "failed"),
          found.get("failed", ""))
    return found


def first_launch(options):
    program = os.path.join(options.build, "tests", "bench", "latency")
    file = os.path.join(HERE, "steps", "adamw_f32.step")
    return [json_of([program, "first", file, "adamw", "1024", options.device]) for _ in range(3)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--json", help="write the results to this file")
    parser.add_argument("--only", default="", help="rows whose name matches this regular expression")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    cases = [case for case in gpu_cases(6 if options.device == "cpu" else 0) if re.search(options.only, case.name)]
    torch = import_torch(options.device)
    results = {"device": options.device, "rows": {}}
    if not torch:
        print("no PyTorch that sees the device here: Lockstep alone")
        results["alone"] = alone(options, cases)
    else:
        torch.manual_seed(1)
        stream = torch.cuda.current_stream().cuda_stream if options.device == "cuda" else None
        context = Context(options.build, options.device, stream or None)
        peers, results["missing"] = open_peers(options.device)
        results["versions"] = {peer.name: peer.version for peer, _ in peers}
        results["device"] = context.description
        print(f"{context.description}; beside", ", ".join(f"{k} {v}" for k, v in results["versions"].items()))
        for name, why in results["missing"].items():
            print(f"without {name}: {why}")
        for case in cases:
            try:
                row = measure(options, torch, context, peers, case)
            except Exception as error:  # one row must not cost the others
                row = {"bytes": 0, "copy_gb_s": 0, "candidates": {}, "failed": {"row": word(error)}}
            results["rows"][case.name] = row
            show(case.name, row)
            gc.collect()
            if options.device == "cuda":
                torch.cuda.empty_cache()
            if options.json:  # what was measured is kept if the machine goes
                with open(options.json, "w") as file:
                    json.dump(results, file, indent=1)
    results["linreg"] = linreg(options)
    results["first_launch"] = first_launch(options)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
