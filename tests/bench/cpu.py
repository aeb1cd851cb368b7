#!/usr/bin/env python3
"""Measures Lockstep on the CPU beside hand-written C, PyTorch (eager, fused, compiled), numba and JAX, as far as
this python can import them, in one process, on the same arrays, in turns.

    cmake --build build --target bench_parts
    python3 tests/bench/cpu.py [--only REGEX] [--rounds N] [--json FILE] [--peers c,torch,numba,jax]
    python3 tests/bench/cpu.py --grid SEED [--cells N] [--one-thread] ...
    python3 tests/bench/cpu.py --against BUILD [--quick] [--only REGEX] [--threads N] ...

Every candidate runs between two runs of a kernel that moves the same bytes and does nothing else, the limit of the
machine in that moment; rounds in which another process ran are dropped; medians are reported, as GB/s and as a
fraction of that limit. Before, each peer's results are compared with Lockstep's. What is compiled is kept under
the build folder and in PyTorch's own cache, so a second run is the quicker one. tests/bench/report.py makes the
tables and the chart of tests/bench/README.md from the JSON.

With --grid the rows are N cells (48) that SEED draws of a grid: eight steps on rows, 64 to 8192 rows of 64 to 50257
elements, f32 and bf16, without and with a gap between rows; --only chooses among them before they are drawn.

With --one-thread everything runs on one processor and is timed by the processor's time, so that other processes cost
nothing but what they take of the caches, and no round is dropped.

With --against an older build of Lockstep stands beside this one and nobody else (against.py); the exit status is 1
where this one is slower."""
import argparse
import faulthandler
import json
import os
import platform
import random
import re
import subprocess
import sys
import time

import arrays
import timing
from cases import cpu_cases, grid_cases
from lockstep import ROOT, Context

TUNABLES = ("glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=68719476736:glibc.malloc.hugetlb=1"
            ":glibc.malloc.arena_max=1")  # JAX's threads would give their memory back at every call


def processor():
    with open("/proc/cpuinfo") as file:
        models = re.findall(r"model name\s*: (.*)", file.read())
    return f"{models[0] if models else platform.machine()}, {os.cpu_count()} threads"


def commit():
    """Of the source tree, with a + where files were changed; None where that cannot be known."""
    try:
        done = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty=+"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=False)
    except OSError:  # no git
        return None
    return done.stdout.strip() or None


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="where bench_parts were built")
    parser.add_argument("--json", metavar="FILE", help="write the results to this file, after every row")
    parser.add_argument("--add", action="store_true", help="keep the other rows that this file has already")
    parser.add_argument("--only", default="", metavar="REGEX", help="rows whose name matches")
    parser.add_argument("--rounds", type=int, help="of each row (7; 15 with --against)")
    parser.add_argument("--patience", type=int, default=7, help="disturbed rounds a row drops at most (7)")
    parser.add_argument("--peers", default="c,torch,numba,jax", help="which to run beside, or none")
    parser.add_argument("--sample", type=float,
                        help="seconds that a sample takes at least (0.02; 0.01 with --against)")
    parser.add_argument("--shift", type=int, default=0, help="sizes divided by 2^N, to see that it works")
    parser.add_argument("--grid", type=int, metavar="SEED", help="cells of the grid of row steps that SEED draws")
    parser.add_argument("--cells", type=int, metavar="N", help="with --grid: how many (48)")
    parser.add_argument("--one-thread", action="store_true", help="on one processor, by the processor's time")
    parser.add_argument("--list", action="store_true", help="the names of the rows")
    parser.add_argument("--strict", action="store_true", help="end at a row's first failure, with its traceback")
    parser.add_argument("--against", metavar="BUILD", help="another build folder, to compare this build with")
    parser.add_argument("--quick", action="store_true", help="with --against: only rows of at most 4 MiB")
    parser.add_argument("--threads", type=int, metavar="N", help="with --against: LOCKSTEP_THREADS of both builds (1)")
    parser.add_argument("--bound", type=bounds, default=(1.05, 1.0), metavar="ROW,SUM",
                        help="with --against: ratios above which a row or the sum is slower (1.05,1)")
    options = parser.parse_args()
    if not options.against and (options.quick or options.threads):
        parser.error("--quick and --threads go with --against")
    if options.cells is not None and options.grid is None:
        parser.error("--cells goes with --grid")
    if options.one_thread and options.against:
        parser.error("--one-thread does not go with --against, which has --threads")
    if options.grid is not None and (options.against or options.shift):
        parser.error("--grid goes with neither --against nor --shift")
    options.rounds = options.rounds or (15 if options.against else 7)
    return options


def bounds(text):
    row, _, total = text.partition(",")
    return float(row), float(total or 1.0)


def drawn(cases, seed, count):
    """`count` of the cases, in their order."""
    chosen = set(random.Random(seed).sample(range(len(cases)), min(count, len(cases))))
    return [case for i, case in enumerate(cases) if i in chosen]


class Progress:
    """Where the run stands: one line of a terminal, overwritten."""

    def __init__(self, total):
        self.total, self.done, self.name, self.start = total, 0, "", time.perf_counter()
        self.shown = sys.stderr.isatty()

    def begin(self, name):
        self.name = name
        self("")

    def __call__(self, what):
        if self.shown:
            passed = time.perf_counter() - self.start
            text = f"[{self.done + 1}/{self.total}, {passed:.0f} s] {self.name}  {what}"
            print(f"\r\x1b[K{text[:110]}", end="", file=sys.stderr, flush=True)

    def end(self):
        self.done += 1
        if self.shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def scaled(seconds):
    for unit, factor in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1 or unit == "us":
            return f"{seconds * factor:9.3f} {unit:2s}"


def show(name, row):
    notes = f", {row['dropped_rounds']} rounds dropped" if row.get("dropped_rounds") else ""
    notes += ", DISTURBED: other processes ran" if row.get("disturbed") else ""
    print(f"{name}: {row['bytes'] / 1e6:,.1f} MB at least; the limit {row['copy_gb_s']:,.1f} GB/s{notes}")
    for label, of in row["candidates"].items():
        print(f"  {label:20s} {scaled(of['median_s'])} {of['gb_s']:8.1f} GB/s "
              f"{100 * of['fraction_of_copy']:6.1f} % of the limit  differs by {of['difference']:.0e}"
              f"{'' if label == 'lockstep' else '  first call ' + scaled(of['first_call_s']).strip()}"
              f"{', %.0f page faults a call' % of['page_faults'] if of['page_faults'] >= 20 else ''}")
    for label, why in row["failed"].items():
        print(f"  {label:20s} LEFT OUT: {why}")
    sys.stdout.flush()


def write(results, path):
    if path:
        with open(path + ".part", "w") as file:
            json.dump(results, file, indent=1)
            file.write("\n")
        os.replace(path + ".part", path)


def main():
    options = arguments()
    faulthandler.enable()  # a peer's crash says where
    if options.against:
        from against import run
        return run(options, processor(), Progress, write)
    if options.one_thread:
        os.environ["LOCKSTEP_THREADS"] = "1"
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # libraries count what it leaves
        timing.CLOCK, options.patience = time.process_time, 0
    threads = len(os.sched_getaffinity(0))
    options.sample = options.sample or 0.02
    from loops import LOOPS
    from rows import Bench, open_peers, word
    gridded = options.grid is not None
    every = grid_cases() if gridded else cpu_cases(options.shift)
    cases = [case for case in every if re.search(options.only, case.name)]
    loops = {} if gridded else {name: of for name, of in LOOPS.items() if re.search(options.only, name)}
    if gridded:
        cases = drawn(cases, options.grid, 48 if options.cells is None else options.cells)
    if options.list:
        print("\n".join([case.name for case in cases] + list(loops)))
        return 0
    if not cases and not loops:
        sys.exit(f"cpu.py: no row's name matches {options.only!r}; --list prints them")
    os.environ["LOCKSTEP_BENCH_BUILD"] = options.build
    context, library = Context(options.build, "cpu"), arrays.native(options.build)
    peers, missing = open_peers([] if options.peers == "none" else options.peers.split(","))
    results = {"device": processor() + (", one used" if options.one_thread else ""), "limit": "the same traffic alone", "rounds": options.rounds,
               "versions": {name: peer.version for name, (_, peer) in peers.items()}, "missing": missing,
               "commit": commit(), "rows": {}}
    if options.add and options.json and os.path.exists(options.json):
        with open(options.json) as file:
            old = json.load(file)
        results["versions"] = {**old.get("versions", {}), **results["versions"]}
        results = {**old, **{key: value for key, value in results.items() if key != "rows"}}
    if gridded:
        results["grid"] = {"seed": options.grid, "cells": len(cases)}
        print(f"{len(cases)} of {len(every)} cells, drawn by the seed {options.grid}")
    print(f"{results['device']}; beside", ", ".join(f"{k} {v}" for k, v in results["versions"].items()) or "nobody")
    for name, why in missing.items():
        print(f"without {name}: {why}")
    progress = options.progress = Progress(len(cases) + len(loops))
    bench = Bench(context, library, peers, options, threads)
    for case in cases:
        progress.begin(case.name)
        results["rows"][case.name] = bench.row(case)
        progress.end()
        show(case.name, results["rows"][case.name])
        write(results, options.json)
    for name, (key, measure) in loops.items():
        progress.begin(name)
        try:
            results[key] = measure(bench, options)
        except Exception as error:
            if options.strict:
                raise
            results[key] = {"failed": {"all": word(error)}}
            print(f"{name}: LEFT OUT: {word(error)}")
        progress.end()
        sys.stdout.flush()
        write(results, options.json)
    if gridded:
        from report import grid_text
        print(grid_text(results))
    print(f"took {time.perf_counter() - progress.start:.0f} s")
    return 0


if __name__ == "__main__":
    if "GLIBC_TUNABLES" not in os.environ:  # the peers' best case; must be set before the process starts
        folder = os.path.join(ROOT, "build", "tests", "bench")
        os.execve(sys.executable, [sys.executable, *sys.argv], {
            **os.environ, "GLIBC_TUNABLES": TUNABLES, "NUMBA_THREADING_LAYER": "omp",
            "NUMBA_CACHE_DIR": os.environ.get("NUMBA_CACHE_DIR", os.path.join(folder, "numba"))})
    status = main()
    sys.stdout.flush()
    os._exit(status)  # all is written; PyTorch, JAX and numba in one process do not always end well together
