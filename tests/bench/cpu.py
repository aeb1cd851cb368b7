#!/usr/bin/env python3
"""Measures Lockstep on the CPU beside a C loop and, where this python can import it, PyTorch.

    cmake --build build --target bench_parts
    python3 tests/bench/cpu.py [--build build] [--json FILE] [--only adamw,lists,linreg,first,compile] [--rounds N]

AdamW is given as GB/s and as a fraction of a kernel that moves the same bytes in the same moment."""
import argparse
import ctypes as C
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time

from lockstep import ROOT, Context
from timing import Foreign, compare

HERE = os.path.dirname(os.path.abspath(__file__))
TUNABLES = "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=68719476736:glibc.malloc.hugetlb=1"
STEP = os.path.join(HERE, "steps", "adamw_f32.step")
LIST_STEP = os.path.join(HERE, "steps", "adamw_list_f32.step")
NVRTC_TARGET, HIPRTC_TARGET = "sm_90", "gfx90a"


def import_torch():
    try:
        import torch
        return torch
    except ImportError:
        return None


def native(build, *flags):
    """native.c as a shared object, by gcc -O3 -march=native and the flags."""
    path = os.path.join(build, "tests", "bench", "native" + "".join(flags) + ".so")
    subprocess.run(["gcc", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC", *flags,
                    os.path.join(HERE, "native.c"), "-o", path, "-lm"], check=True)
    library = C.CDLL(path)
    library.native_alloc.restype = C.c_void_p
    library.native_alloc.argtypes = [C.c_size_t]
    library.native_fill.argtypes = [C.c_void_p, C.c_size_t, C.c_float, C.c_float]
    library.native_adamw.argtypes = [C.c_void_p] * 4 + [C.c_size_t, C.c_int, C.c_int]
    library.native_traffic.argtypes = [C.c_void_p] * 4 + [C.c_size_t, C.c_int]
    return library


def torch_adamw(torch, arrays, sizes, **kind):
    """arrays: where p, m, v and g begin; the tensors lie in each one behind the other."""
    parameters, states, offset = [], [], 0
    for n in sizes:
        p, m, v, g = (torch.frombuffer((C.c_char * (4 * n)).from_address(a + 4 * offset), dtype=torch.float32)
                      for a in arrays)
        parameters.append(torch.nn.Parameter(p))
        parameters[-1].grad = g
        states.append({"step": torch.tensor(10.0), "exp_avg": m, "exp_avg_sq": v})
        offset += n
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.01, **kind)
    optimizer.state.update(zip(parameters, states))
    return optimizer.step


def many(function, times):
    return function if times == 1 else lambda: [function() for _ in range(times)]


def gpt2_sizes(vocabulary=50257, context=1024, layers=12, width=768):
    """The elements of the 148 tensors of the smallest GPT-2."""
    norm = [width, width]
    attention = [3 * width * width, 3 * width, width * width, width]
    block = norm + attention + norm + [4 * width * width, 4 * width, 4 * width * width, width]
    return [vocabulary * width, context * width] + layers * block + norm


def lists(options, torch):
    """AdamW over many tensors: one launch against a loop over them."""
    plain = native(options.build, "-fno-math-errno")
    context = Context(options.build, "cpu")
    threads, results = os.cpu_count(), {}
    for label, sizes, repeat in (("the 148 tensors of GPT-2", gpt2_sizes(), 1),
                                 ("1000 tensors of 1024", 1000 * [1024], 20)):
        total = sum(sizes)
        own, rest = ([plain.native_alloc(4 * total) for _ in range(4)] for _ in range(2))
        for address, (low, high) in zip(own, ((-1, 1), (-.1, .1), (0, .01), (-.1, .1))):
            plain.native_fill(address, total, low, high)
        offsets = [sum(sizes[:i]) for i in range(len(sizes))]
        launch = context.step(LIST_STEP, "adamw", {
            name: [(a + 4 * offset, "f32", (n,)) for offset, n in zip(offsets, sizes)]
            for name, a in zip("pmvg", own)})

        def lockstep_run():
            for _ in range(repeat):
                launch()
            context.synchronize()

        def native_loop():
            for offset, n in zip(offsets, sizes):
                plain.native_adamw(*(a + 4 * offset for a in own), n, 10, threads)

        candidates = {"lockstep": lockstep_run,
                      "C, a parallel loop for each tensor": many(native_loop, repeat)}
        if torch:
            torch.set_num_threads(threads)
            candidates["torch fused"] = many(torch_adamw(torch, own, sizes, fused=True), repeat)
            candidates["torch foreach"] = many(torch_adamw(torch, own, sizes, foreach=True), repeat)
        found, limit = compare(
            candidates, many(lambda: plain.native_traffic(*rest, total, threads), repeat), options.rounds)
        print(f"AdamW f32, {label}, {total} elements, {threads} threads ({limit['rounds']} rounds, "
              f"{limit['dropped_rounds']} dropped)")
        for name, row in found.items():
            row["step_s"] = row["median_s"] / repeat
            print(f"  {name:36s} {1e3 * row['step_s']:9.3f} ms  {100 * row['fraction']:6.1f} % of the limit")
        results[label] = {"candidates": found, "limit": limit, "threads": threads}
    return results


def adamw(options, torch):
    plain, best = native(options.build), native(options.build, "-fno-math-errno")
    context = Context(options.build, "cpu")
    threads, results = os.cpu_count(), {}
    for label, n, repeat in (("64Mi", 64 << 20, 1), ("1Mi", 1 << 20, 40)):
        own = [plain.native_alloc(4 * n) for _ in range(4)]
        rest = [plain.native_alloc(4 * n) for _ in range(4)]  # the traffic kernel's
        for address, (low, high) in zip(own, ((-1, 1), (-.1, .1), (0, .01), (-.1, .1))):
            plain.native_fill(address, n, low, high)
        launch = context.step(STEP, "adamw", dict(zip("pmvg", ((a, "f32", (n,)) for a in own))))

        def lockstep_run():
            for _ in range(repeat):
                launch()
            context.synchronize()

        candidates = {
            "lockstep": lockstep_run,
            "C, gcc -O3 -march=native": many(lambda: plain.native_adamw(*own, n, 10, threads), repeat),
            "C, the same with -fno-math-errno": many(lambda: best.native_adamw(*own, n, 10, threads), repeat),
        }
        if torch:
            torch.set_num_threads(threads)
            candidates["torch fused"] = many(torch_adamw(torch, own, [n], fused=True), repeat)
            candidates["torch foreach"] = many(torch_adamw(torch, own, [n], foreach=True), repeat)
        found, limit = compare(candidates, many(lambda: plain.native_traffic(*rest, n, threads), repeat),
                               options.rounds)
        byte_count = 28 * n * repeat
        print(f"AdamW f32, {label} elements, {threads} threads ({limit['rounds']} rounds, "
              f"{limit['dropped_rounds']} dropped): the same traffic alone "
              f"{byte_count / limit['median_s'] / 1e9:.1f} GB/s")
        for name, row in found.items():
            row["gb_s"] = byte_count / row["median_s"] / 1e9
            print(f"  {name:36s} {row['gb_s']:7.1f} GB/s  {100 * row['fraction']:6.1f} % of the limit")
        limit["gb_s"] = byte_count / limit["median_s"] / 1e9
        results[label] = {"candidates": found, "limit": limit, "threads": threads}
    return results


def torch_loops(torch):
    """The training loop of examples/linreg, as people write it and as fast as eager PyTorch gets."""
    torch.manual_seed(0)
    x, w = torch.randn(10000, 64), torch.randn(64, 1)
    y = x @ w + 0.5 + 0.1 * torch.randn(10000, 1)

    def classic(steps):
        model = torch.nn.Linear(64, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        criterion = torch.nn.MSELoss()
        for step in range(steps):
            i = step % 40 * 256
            optimizer.zero_grad()
            loss = criterion(model(x[i:i + 256]), y[i:i + 256])
            loss.backward()
            optimizer.step()
            if torch.isnan(loss):
                raise SystemExit("NaN")
            if (step + 1) % 50 == 0:
                loss.item()

    def by_hand(steps):
        weight, bias = torch.zeros(64, 1), torch.zeros(1)
        total, bad = torch.zeros(()), torch.zeros((), dtype=torch.bool)
        with torch.no_grad():
            for step in range(steps):
                i = step % 40 * 256
                xb = x[i:i + 256]
                error = torch.addmm(bias, xb, weight).sub_(y[i:i + 256])
                loss = error.square().mean()
                error.mul_(2 / error.shape[0])
                weight.addmm_(xb.t(), error, alpha=-0.01)
                bias.sub_(error.sum(0), alpha=0.01)
                total.add_(loss, alpha=xb.shape[0])
                bad.logical_or_(torch.isnan(loss))
                if (step + 1) % 50 == 0 and bad.item():
                    raise SystemExit("NaN")

    return {"torch, nn.Linear + SGD + isnan": (classic, 4000),
            "torch, gradients by hand, no autograd": (by_hand, 8000)}


def linreg(options, torch):
    program = os.path.join(options.build, "examples", "linreg", "linreg")

    def lockstep_rate(steps=400000):
        out = subprocess.run([program, "--device", "cpu", "--steps", str(steps)], check=True,
                             stdout=subprocess.PIPE, text=True).stdout
        return float(re.search(r"(\d+) steps/s", out).group(1))

    def torch_rate(loop, steps):
        start = time.perf_counter()
        loop(steps)
        return steps / (time.perf_counter() - start)

    runs = {"lockstep (examples/linreg)": lockstep_rate}
    if torch:
        torch.set_num_threads(1)  # faster than two for matrices this small
        for name, (loop, steps) in torch_loops(torch).items():
            loop(200)
            runs[name] = lambda loop=loop, steps=steps: torch_rate(loop, steps)
    rates, dropped = {name: [] for name in runs}, 0
    while len(rates["lockstep (examples/linreg)"]) < options.rounds:
        with Foreign() as foreign:
            found = {name: run() for name, run in runs.items()}
        if foreign.disturbed() and dropped < 30:
            dropped += 1
            continue
        for name, rate in found.items():
            rates[name].append(rate)
    print(f"linreg, 64 features, batches of 256 ({options.rounds} rounds, {dropped} dropped)")
    result = {}
    for name, values in rates.items():
        result[name] = {"median_steps_s": statistics.median(values), "min": min(values), "max": max(values)}
        print(f"  {name:40s} {statistics.median(values):12,.0f} steps/s")
    return {"candidates": result, "dropped_rounds": dropped}


def latency(options, *arguments, **environment):
    program = os.path.join(options.build, "tests", "bench", "latency")
    return json.loads(subprocess.run([program, *arguments], check=True, stdout=subprocess.PIPE, text=True,
                                     env={**os.environ, **environment}).stdout)


def first(options, _):
    cold, cached = [], []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o700)
            for runs in (cold, cached):
                runs.append(latency(options, "first", STEP, "adamw", "1024", LOCKSTEP_CACHE_DIR=folder))
    result = {}
    for name, runs, expected in (("cold", cold, "miss"), ("cached", cached, "hit")):
        result[name] = {key: statistics.median(run[key] for run in runs)
                        for key in ("open_ms", "load_ms", "first_launch_ms", "total_ms", "compile_ms")}
        result[name]["as_expected"] = all(run["cache"] == expected for run in runs)
        print(f"AdamW from file to first launch done, {name}: {result[name]['total_ms']:.1f} ms "
              f"(of which code {result[name]['compile_ms']:.1f} ms)")
    return result


def compile_times(options, _):
    result = {}
    for toolchain, target in (("NVRTC", NVRTC_TARGET), ("NVRTC to PTX", "compute_90"),
                              ("hipRTC", HIPRTC_TARGET), ("host", "cpu")):
        try:
            kernels = latency(options, "compile", STEP, target, str(options.rounds + 1))["kernels"]
        except subprocess.CalledProcessError:
            result[toolchain] = None
            print(f"{toolchain}: not available")
            continue
        later = [k["ms"] for k in kernels if k["round"] > 0]
        result[toolchain] = {"target": target, "median_ms": statistics.median(later), "min_ms": min(later),
                             "first_ms": kernels[0]["ms"], "kernels": kernels}
        print(f"{toolchain} ({target}): {statistics.median(later):.1f} ms per kernel source of AdamW "
              f"after the first, which takes {kernels[0]['ms']:.0f} ms")
    return result


def processor():
    with open("/proc/cpuinfo") as file:
        models = re.findall(r"model name\s*: (.*)", file.read())
    return f"{models[0] if models else platform.machine()}, {os.cpu_count()} threads"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--json", help="write the results to this file")
    parser.add_argument("--only", default="adamw,lists,linreg,first,compile")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    if "GLIBC_TUNABLES" not in os.environ:  # PyTorch's best case; must be set before the process starts
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "GLIBC_TUNABLES": TUNABLES})
    torch = import_torch()
    parts = {"adamw": adamw, "lists": lists, "linreg": linreg, "first": first, "compile": compile_times}
    results = {"machine": processor(), "torch": torch.__version__ if torch else None}
    print(f"{results['machine']}; PyTorch {results['torch'] or 'not importable here'}")
    for name in options.only.split(","):
        results[name] = parts[name](options, torch)
        sys.stdout.flush()
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


main()
