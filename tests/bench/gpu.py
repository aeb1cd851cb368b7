#!/usr/bin/env python3
"""Measures Lockstep on a GPU beside PyTorch (eager, fused, compiled), Triton, Liger, CuPy and JAX, as far as this
python can import them, in one process, on the same arrays, in turns; without PyTorch alone.

    python3 tests/bench/gpu.py [--build build] [--device cuda] [--json FILE] [--only REGEX] [--rounds N]

Every candidate runs between two runs of a kernel that moves the same bytes and does nothing else (device_traffic.py),
with a cold cache (device_time.py); medians over the rounds are reported, as GB/s and as a fraction of that kernel.
Before, each peer's results are compared with Lockstep's. Rows under 64 MiB are also replayed as graphs, Lockstep's
and the peers'. With --device cpu the same script runs on the processor, to see that it works; tests/gpu.sh starts
it with --worker, and asks for row after row."""
import argparse
import gc
import importlib
import json
import os
import re
import statistics
import sys
import time

os.environ.setdefault("LOCKSTEP_CACHE", "off")  # a first call compiles, as a peer's does
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX leaves the others their memory
os.environ.setdefault("CUPY_ACCELERATORS", "cub")  # CuPy's sums are CUB's
import ctypes as C
from arrays import FAR_CACHE, TRAFFIC_MOST, Traffic, native
from cases import gpu_row_cases, gpu_step_cases
from device_arrays import OwnArrays, TorchArrays, import_torch
from device_time import COLD_BELOW, DeviceClock
from device_traffic import GpuTraffic, Vendor
from lockstep import ROOT, Context
from rows import CELLS, LOOSE, TOLERANCES, word

PEERS = ("torch", "triton", "liger", "cupy", "jax")
ON_STREAM = ("torch", "triton", "liger", "cupy")  # their work is on PyTorch's stream, where events see it
CAPTURED = ("torch", "triton", "liger")  # PyTorch can capture it in a graph
SMALL = 64 << 20  # bytes of a row under which launches cost time, and graphs are worth it


class Candidate:
    """A function, how to wait for it where the stream does not tell, and what it takes."""

    def __init__(self, function, wait=None, first_s=0.0, difference=0.0):
        self.function, self.wait, self.first_s, self.difference = function, wait, first_s, difference
        self.calls, self.times, self.hosts, self.ratios = 1, [], [], []


class Bench:
    def __init__(self, options):
        self.options = options
        on_gpu = self.on_gpu = options.device != "cpu"
        self.torch, why = import_torch(options.device)
        stream = None
        if self.torch and on_gpu:  # one stream for all; the default one cannot be given to a context
            self.stream = self.torch.cuda.Stream()
            self.torch.cuda.set_stream(self.stream)
            stream = self.stream.cuda_stream
        self.context = Context(options.build, options.device, stream)
        self.arrays = TorchArrays(self.torch, options.device) if self.torch else OwnArrays(self.context)
        self.clock = DeviceClock(self.context, options.sample, (1 << 20) if options.shift else 256 << 20, on_gpu)
        self.peers, self.missing = {}, {} if self.torch else {"torch": why}
        names = [] if not self.torch or options.peers == "none" else options.peers.split(",")
        for name in names:
            try:
                self.peers[name] = importlib.import_module(f"peers.{name}_peer").open(options.device)
            except Exception as error:  # a peer's import may fail in any way
                self.missing[name] = word(error)
        self.vendor = Vendor(self.context.target) if on_gpu else None
        self.traffic_memory = []

    def head(self):
        return {"device": self.context.description, "missing": self.missing, "rounds": self.options.rounds,
                "versions": {name: peer.version for name, peer in self.peers.items()}}

    # ---- the limit ----

    def alloc(self, size):
        at = C.c_void_p()
        self.context.check(self.context.library.ls_alloc(self.context.handle, max(16, size), C.byref(at)))
        self.traffic_memory.append(at)
        return at.value

    def limit(self, case):
        """A function that moves the row's bytes."""
        if self.on_gpu:
            return GpuTraffic(self.vendor, case, self.alloc, C.c_void_p(self.context.stream))
        library = native(self.options.build)
        traffic = Traffic(library, case, os.cpu_count())
        memory = library.native_alloc(min(2 * TRAFFIC_MOST, 2 * traffic.memory() + FAR_CACHE))
        return lambda: traffic.run(memory, 1)

    # ---- candidates ----

    def own(self, case, tensors):
        def one(m):
            return m.address, m.dtype, m.shape
        memory = self.arrays.memory(case, tensors)
        bound = {name: [one(m) for m in value] if isinstance(value, list) else one(value)
                 for name, value in memory.items()}
        start = time.perf_counter()
        step = self.context.step(*case.step.rsplit(":", 1), bound, case.wanted, **case.cells)
        step()
        self.context.synchronize()
        return step, time.perf_counter() - start

    def expected(self, case, tensors, step):
        if not self.torch:
            return []
        kind = CELLS.get(case.work, C.c_float)
        return [self.arrays.sample(step.get(name, kind) if name in case.wanted else tensors[name])
                for name in case.results]

    def difference(self, case, tensors, module, result, expected):
        values = module.results(case, result)
        if len(values) != len(expected):
            raise ValueError(f"it gives {len(values)} results, not {len(expected)}")
        return max(self.arrays.distance(self.arrays.sample(tensors[name] if value is None else value), want)
                   for name, value, want in zip(case.results, values, expected))

    def of_peer(self, name, case, tensors, expected, failed):
        """label -> Candidate, whose results agree."""
        peer, module, found = self.peers[name], importlib.import_module(f"peers.{name}_peer"), {}
        wait = getattr(module, "wait", None)
        self.arrays.fill(case, tensors, False)
        try:
            given = peer.candidates(case, tensors)
        except Exception as error:  # whatever a peer cannot do is its row's news, not the end
            failed[name] = word(error)
            return found
        for label, function in given.items():
            self.arrays.fill(case, tensors, False)
            try:
                start = time.perf_counter()
                result = function()
                (wait or (lambda _: None))(result)
                self.context.synchronize()
                first = time.perf_counter() - start
                worst = self.difference(case, tensors, module, result, expected)
                result = None
                if not worst <= LOOSE.get((case.work, case.dtype), TOLERANCES[case.dtype]):
                    raise ValueError(f"its results differ from Lockstep's by {worst:.2g}")
                found[label] = Candidate(function, None if name in ON_STREAM else wait, first, worst)
            except Exception as error:
                failed[label] = word(error)
        return found

    def captured(self, function):
        """The function as a graph of PyTorch's."""
        torch = self.torch
        for _ in range(3):
            function()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            function()
        torch.cuda.synchronize()
        return graph.replay

    def candidates(self, case, tensors, failed, until):
        self.arrays.fill(case, tensors, True)
        step, first = self.own(case, tensors)
        expected = self.expected(case, tensors, step)
        found = {"lockstep": Candidate(step, None, first)}
        small = sum(of.bytes for of in case.arrays.values()) < SMALL
        if small:
            found["lockstep graph"] = Candidate(self.context.graph(step))
        for name in self.peers:
            if time.monotonic() > until:
                failed[name] = "no time was left for it"
                continue
            given = self.of_peer(name, case, tensors, expected, failed)
            found.update(given)
            for label, candidate in given.items():
                if not (small and self.on_gpu and name in CAPTURED):
                    continue
                try:
                    found[label + " graph"] = Candidate(self.captured(candidate.function), None, candidate.first_s,
                                                        candidate.difference)
                except Exception as error:
                    failed[label + " graph"] = word(error)
        return found, small

    # ---- a row ----

    def time(self, candidate, cold):
        if candidate.wait:
            return self.clock.wall(candidate.function, candidate.calls, candidate.wait)
        return self.clock.stream(candidate.function, candidate.calls, cold)

    def measure(self, case, seconds):
        """The half of the time is for compiling; rounds go on as long as there is some left."""
        begin = time.monotonic()
        tensors, failed = self.arrays.make(case), {}
        found, small = self.candidates(case, tensors, failed, begin + 0.5 * seconds)
        limit = Candidate(self.limit(case))
        cold = sum(of.bytes for of in case.arrays.values()) < COLD_BELOW
        for candidate in [limit, *found.values()]:
            candidate.calls = self.clock.calls(candidate.function, candidate.wait)
        limits, rounds = [], 0
        while rounds < self.options.rounds and (rounds == 0 or time.monotonic() < begin + 0.85 * seconds):
            for candidate in found.values():
                before = self.time(limit, cold)[0]
                took, host = self.time(candidate, cold)
                after = self.time(limit, cold)[0]
                candidate.times.append(took)
                candidate.hosts.append(host)
                candidate.ratios.append((before + after) / 2 / took)
                limits += [before, after]
            rounds += 1
        least = sum(of.bytes * (2 if of.changed else 1) for of in case.arrays.values())
        row = {"bytes": least, "limit_s": statistics.median(limits), "rounds": rounds, "small": small, "cold": cold,
               "copy_gb_s": least / statistics.median(limits) / 1e9, "candidates": {}, "failed": failed}
        for label, c in found.items():
            median = statistics.median(c.times)
            row["candidates"][label] = {
                "median_s": median, "min_s": min(c.times), "max_s": max(c.times), "gb_s": least / median / 1e9,
                "fraction_of_copy": statistics.median(c.ratios), "host_us": 1e6 * min(c.hosts),
                "first_call_s": c.first_s, "difference": c.difference, "clock": "host" if c.wait else "device"}
        return row

    def row(self, case, seconds=1e9):
        start = time.perf_counter()
        try:
            found = self.measure(case, seconds)
        except Exception as error:  # one row must not cost the others
            if self.options.strict:
                raise
            found = {"bytes": 0, "copy_gb_s": 0, "candidates": {}, "failed": {"row": word(error)}}
        gc.collect()
        for at in self.traffic_memory:
            self.context.library.ls_free(self.context.handle, at)
        self.traffic_memory = []
        if self.torch and self.on_gpu:
            self.torch.cuda.empty_cache()
        found["took_s"] = time.perf_counter() - start
        return found


def show(name, row):
    print(f"{name}: {row['bytes'] / 1e6:,.1f} MB at least, moved at {row['copy_gb_s']:,.0f} GB/s")
    for label, of in row["candidates"].items():
        print(f"  {label:24s} {1e3 * of['median_s']:10.4f} ms {of['gb_s']:9.1f} GB/s "
              f"{100 * of['fraction_of_copy']:6.1f} % of the traffic alone, host {of['host_us']:8.1f} us, "
              f"first call {of['first_call_s']:7.3f} s, differs by {of['difference']:.0e}")
    for label, why in row["failed"].items():
        print(f"  {label:24s} LEFT OUT: {why}")
    sys.stdout.flush()


def serve(bench, cases, answers):
    """Rows that are asked for on stdin, a line of JSON each: {"row": NAME, "seconds": S}."""
    for line in sys.stdin:
        asked = json.loads(line)
        found = {**bench.row(cases[asked["row"]], asked["seconds"]), **bench.head()}
        print(json.dumps(found), file=answers, flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--device", default="cuda", help="cuda, or cpu to see that it works")
    parser.add_argument("--json", metavar="FILE", help="write the results to this file, after every row")
    parser.add_argument("--only", default="", metavar="REGEX", help="rows whose name matches")
    parser.add_argument("--rounds", type=int, default=7, help="of each row (7)")
    parser.add_argument("--peers", default=",".join(PEERS), help="which to run beside, or none")
    parser.add_argument("--sample", type=float, default=0.02, help="seconds that a sample takes at least (0.02)")
    parser.add_argument("--shift", type=int, default=0, help="sizes divided by 2^N, to see that it works")
    parser.add_argument("--list", action="store_true", help="the names of the rows")
    parser.add_argument("--strict", action="store_true", help="end at a row's first failure, with its traceback")
    parser.add_argument("--worker", action="store_true", help="rows are asked for on stdin")
    return parser.parse_args()


def main():
    options = arguments()
    cases = {case.name: case for case in [*gpu_row_cases(options.shift), *gpu_step_cases(options.shift)]
             if re.search(options.only, case.name)}
    if options.list:
        print("\n".join(cases))
        return
    answers = os.fdopen(os.dup(1), "w")
    if options.worker:  # what libraries print goes to stderr
        os.dup2(2, 1)
    bench = Bench(options)
    if options.worker:
        serve(bench, cases, answers)
        return
    results = {**bench.head(), "rows": {}}
    print(f"{results['device']}; beside", ", ".join(f"{k} {v}" for k, v in results["versions"].items()) or "nobody")
    for name, why in results["missing"].items():
        print(f"without {name}: {why}")
    for name, case in cases.items():
        results["rows"][name] = bench.row(case)
        show(name, results["rows"][name])
        if options.json:  # what was measured is kept if the machine goes
            with open(options.json + ".part", "w") as file:
                json.dump(results, file, indent=1)
            os.replace(options.json + ".part", options.json)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # PyTorch, JAX and CuPy in one process do not always end well together
