#!/usr/bin/env python3
"""Measures Lockstep on a GPU; beside PyTorch, in the same process, stream and arrays, where this python
can import it; alone through `lockstep bench` where not.

    python3 tests/bench/gpu.py [--build build] [--device cuda] [--json FILE] [--rounds N]

With --device cpu the same script runs on the processor, to see that it works; the figures mean nothing."""
import argparse
import json
import os
import re
import statistics
import subprocess
import time

from lockstep import ROOT, Context

HERE = os.path.dirname(os.path.abspath(__file__))
ADAMW = os.path.join(HERE, "steps", "adamw_f32.step")
ELEMENTWISE = os.path.join(HERE, "steps", "elementwise.step")
# name, file, step, elements, bytes an element
ROWS = (
    ("AdamW f32 64Mi", ADAMW, "adamw", 64 << 20, 28),
    ("AdamW f32 1Mi", ADAMW, "adamw", 1 << 20, 28),
    ("GELU f32 64Mi", ELEMENTWISE, "gelu", 64 << 20, 8),
    ("GELU bf16 64Mi", ELEMENTWISE, "gelu_bf16", 64 << 20, 4),
    ("sum f32 64Mi", ELEMENTWISE, "total", 64 << 20, 4),
)


def import_torch(device):
    try:
        import torch
    except ImportError:
        return None
    if device == "cuda" and not torch.cuda.is_available():
        return None
    return torch


def json_of(command):
    """The JSON a command prints, or a word on why there is none."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        return {"failed": done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]}
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        return {"failed": ["the output is not JSON"]}


def alone(options):
    """`lockstep bench` with its own measured copy rate."""
    result = {}
    for name, file, step, n, _ in ROWS:
        n = n >> 6 if options.device == "cpu" else n
        result[name] = json_of([os.path.join(options.build, "lockstep"), "bench", f"{file}:{step}",
                                "--size", f"n={n}", "--device", options.device, "--json"])
        row = result[name]
        row = row["steps"][0] if isinstance(row, dict) and "steps" in row else row
        print(f"  {name:18s}", *(f"{key} {row[key]:.4g}" for key in
                                 ("median_s", "gb_s", "copy_gb_s", "fraction_of_copy") if key in row),
              *row.get("failed", []))
    return result


class Clock:
    """Seconds of `function`, by events on the stream on a GPU, by the clock on the CPU."""

    def __init__(self, torch, device):
        self.torch, self.cuda = torch, device == "cuda"

    def __call__(self, function, repeat):
        if not self.cuda:
            start = time.perf_counter()
            for _ in range(repeat):
                function()
            return (time.perf_counter() - start) / repeat
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(repeat):
            function()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3 / repeat


def candidates_of(torch, context, name, file, step, n, device):
    """Lockstep and PyTorch on the same arrays, and a copy kernel of about the same traffic."""
    dtype, kind = (torch.bfloat16, "bf16") if "bf16" in name else (torch.float32, "f32")
    if step == "adamw":
        p, m, g = (torch.randn(n, device=device) for _ in range(3))
        v = torch.rand(n, device=device)
        arrays = {key: (t.data_ptr(), kind, (n,)) for key, t in zip("pmvg", (p, m, v, g))}
        parameter = torch.nn.Parameter(p)
        parameter.grad = g

        def optimizer(**how):
            made = torch.optim.AdamW([parameter], lr=1e-3, weight_decay=0.01, **how)
            state = torch.tensor(10.0, device=device)
            made.state[parameter] = {"step": state, "exp_avg": m, "exp_avg_sq": v}
            return made.step

        found = {"lockstep": context.step(file, step, arrays), "torch fused": optimizer(fused=True),
                 "torch foreach": optimizer(foreach=True, capturable=device == "cuda")}
    else:
        x, y = torch.randn(n, device=device, dtype=dtype), torch.empty(n, device=device, dtype=dtype)
        arrays = {"x": (x.data_ptr(), kind, (n,))}
        if step == "total":
            found = {"lockstep": context.step(file, step, arrays, wanted=("s",)), "torch": x.sum}
        else:
            arrays["y"] = (y.data_ptr(), kind, (n,))
            gelu = torch.nn.functional.gelu
            found = {"lockstep": context.step(file, step, arrays), "torch": lambda: gelu(x)}
    keep = [value for value in locals().values()]
    return found, keep


def beside_torch(options, torch):
    stream = torch.cuda.current_stream().cuda_stream if options.device == "cuda" else None
    context = Context(options.build, options.device, stream or None)
    clock, result = Clock(torch, options.device), {}
    for name, file, step, n, bytes_each in ROWS:
        n = n >> 6 if options.device == "cpu" else n
        found, keep = candidates_of(torch, context, name, file, step, n, options.device)
        half = max(1, n * bytes_each // 8)
        source, target = (torch.empty(half, device=options.device) for _ in range(2))
        copy = lambda: target.copy_(source)
        repeat = max(1, min(200, (256 << 20) // (n * bytes_each)))
        for function in (copy, *found.values()):
            for _ in range(3):
                function()
        times, ratios = {key: [] for key in found}, {key: [] for key in found}
        for _ in range(options.rounds):
            for key, function in found.items():
                before, took, after = clock(copy, repeat), clock(function, repeat), clock(copy, repeat)
                times[key].append(took)
                ratios[key].append((before + after) / 2 / took)
        result[name] = {}
        for key in found:
            median = statistics.median(times[key])
            row = {"median_s": median, "gb_s": n * bytes_each / median / 1e9,
                   "fraction_of_copy": statistics.median(ratios[key])}
            result[name][key] = row
            print(f"  {name:18s} {key:14s} {row['gb_s']:8.1f} GB/s  {100 * row['fraction_of_copy']:6.1f} % "
                  f"of copying as many bytes")
        context.synchronize()
        del found, keep, source, target
    return {"rows": result, "device": context.description}


def linreg(options):
    program = os.path.join(options.build, "examples", "linreg", "linreg")
    rates = []
    for _ in range(3):
        done = subprocess.run([program, "--device", options.device, "--steps", "20000"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        match = re.search(r"(\d+) steps/s", done.stdout)
        if not match:
            return {"failed": done.stderr.strip().splitlines()[-1:]}
        rates.append(float(match.group(1)))
    print(f"  linreg {statistics.median(rates):,.0f} steps/s")
    return {"median_steps_s": statistics.median(rates), "runs": rates}


def first_launch(options):
    program = os.path.join(options.build, "tests", "bench", "latency")
    return [json_of([program, "first", ADAMW, "adamw", "1024", options.device]) for _ in range(3)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--json", help="write the results to this file")
    parser.add_argument("--rounds", type=int, default=11)
    options = parser.parse_args()
    torch = import_torch(options.device)
    results = {"device": options.device, "torch": torch.__version__ if torch else None}
    print(f"PyTorch: {results['torch'] or 'not importable here'}")
    results["alone"] = alone(options)
    if torch:
        results["beside_torch"] = beside_torch(options, torch)
    results["linreg"] = linreg(options)
    results["first_launch"] = first_launch(options)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


main()
