"""One row of cpu.py: Lockstep and the peers do the same work on the same arrays; what a peer computes is
compared with Lockstep's results before anybody is timed, and whoever differs is left out and named."""
import ctypes as C
import gc
import importlib
import math
import resource
import time

import arrays
from arrays import Memory, Traffic, distance, listed, sample
from timing import compare, rest

PEERS = ("c", "torch", "numba", "jax")
MOST = 20000               # calls in a sample
TOLERANCES = {"f32": 2e-4, "bf16": 0.06}  # of an element and the root mean square of its array
# What PyTorch computes less exactly: the norm of 64 Mi elements is off by 0.25 %, and its column sums of bf16 rows
# are added up in bf16, so that they are off by a third in places. The row of f32 proves that the work is the same.
LOOSE = {("norm", "f32"): 5e-3, ("layer_norm_backward", "bf16"): 0.5}
CELLS = {"any_nan": C.c_bool}


def open_peers(names):
    """The peers that can be used here, and why the others cannot."""
    opened, missing = {}, {}
    for name in names:
        try:
            module = importlib.import_module(f"peers.{name}_peer")
            opened[name] = module, module.open("cpu")
        except Exception as why:  # a peer's import may fail in any way
            missing[name] = word(why)
    return opened, missing


def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def word(error):
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]


class Candidate:
    def __init__(self, function, finish):
        self.function, self.finish = function, finish  # finish: waits for what it was given
        self.many = getattr(function, "many", None)
        self.first_s = self.worst = self.faults = 0.0
        self.repeat, self.calls = 1, 0

    def run(self, times):
        if self.many:
            self.many(times)
            result = None
        else:
            function, result = self.function, None
            for _ in range(times):
                result = function()
        self.finish(result)

    def settle(self, sample_s):
        """Warms it until it touches no new memory (what it allocates may take a dozen calls to find its place) and
        finds how many calls make a sample."""
        start, calm, calls = time.perf_counter(), 0, 0
        while calm < 2 and calls < 24 and (calls < 3 or time.perf_counter() - start < 2):
            before = faults()
            self.run(1)
            calls += 1
            calm = calm + 1 if faults() - before < 8 else 0
        rest()
        start = time.perf_counter()
        self.run(1)
        once = time.perf_counter() - start
        if once < sample_s / 4:
            start = time.perf_counter()
            self.run(4)
            once = (time.perf_counter() - start) / 4
        self.repeat = max(1, min(MOST, math.ceil(sample_s / max(once, 1e-7))))
        self.faults = self.calls = 0

    def timed(self):
        before = faults()
        self.run(self.repeat)
        self.faults += faults() - before
        self.calls += self.repeat


def lockstep(context, library, case, memory):
    """A row's step bound to its arrays, and compiled."""
    def one(m):
        return m.address, m.dtype, m.shape, m.pitch
    bound = {name: [one(m) for m in value] if isinstance(value, list) else one(value)
             for name, value in memory.items()}
    step = context.step(*case.step.rsplit(":", 1), bound, case.wanted, **case.cells)
    step.in_a_row = library.native_launches
    return Candidate(step, lambda _: context.synchronize())


class Bench:
    """What all rows share."""

    def __init__(self, context, library, peers, options, threads):
        self.context, self.library, self.peers, self.options = context, library, peers, options
        self.threads = threads
        self.arena = arrays.Arena(library, 6 << 30)
        self.traffic_memory, self.touched = library.native_alloc(2 * arrays.TRAFFIC_MOST), 0

    def lockstep(self, case, memory):
        return lockstep(self.context, self.library, case, memory)

    def expected(self, case, memory, own):
        """Samples of what Lockstep computes."""
        own.finish(own.function())
        found = [own.function.get(name, CELLS.get(case.work, C.c_float)) if name in case.wanted
                 else memory[name] for name in case.results]
        return [sample(self.library, value) for value in found]

    def difference(self, case, memory, module, result, expected):
        """The largest of the row's results; what the peer leaves in the row's arrays is read from there."""
        worst = 0.0
        for name, value, want in zip(case.results, module.results(case, result), expected):
            keep = []
            if value is None:
                value = memory[name]
            elif hasattr(module, "raw"):
                raws = [module.raw(one) for one in (value if isinstance(value, (list, tuple)) else [value])]
                keep.append(raws)
                value = [Memory(at, kind, (), count) for at, kind, count, _ in raws]
                if getattr(memory.get(name), "pitch", 0):
                    at, kind, (rows, columns) = value[0].address, value[0].dtype, memory[name].shape
                    value = Memory(at, kind, (rows, columns), rows * columns, pitch=columns)
            worst = max(worst, distance(self.library, sample(self.library, value), want))
        return worst

    def peers_of(self, case, memory, expected, failed):
        """label -> Candidate whose results agree."""
        found = {}
        for name, (module, peer) in self.peers.items():
            wait = getattr(module, "wait", lambda result: None)
            self.arena.fill(case, memory, False)  # a peer may begin with copies
            try:
                tensors = {key: [module.view(m) for m in value] if isinstance(value, list) else module.view(value)
                           for key, value in memory.items()}
                given = peer.candidates(case, tensors)
            except Exception as error:  # whatever a peer cannot do is its row's news, not the end
                failed[name] = word(error)
                continue
            if not given:
                failed[name] = "does no such work here"
            for label, function in given.items():
                self.options.progress(label)
                self.arena.fill(case, memory, False)
                candidate = Candidate(function, wait)
                try:
                    start = time.perf_counter()
                    result = function()
                    wait(result)
                    candidate.first_s = time.perf_counter() - start
                    candidate.worst = self.difference(case, memory, module, result, expected)
                    result = None
                    if not candidate.worst <= LOOSE.get((case.work, case.dtype), TOLERANCES[case.dtype]):
                        raise ValueError(f"its results differ from Lockstep's by {candidate.worst:.2g}")
                    found[label] = candidate
                except Exception as error:
                    failed[label] = word(error)
        return found

    def measure(self, case):
        memory, failed = self.arena.arrays(case), {}
        self.arena.fill(case, memory, True)
        self.options.progress("lockstep")
        own = self.lockstep(case, memory)
        expected = self.expected(case, memory, own)
        candidates = {"lockstep": own, **self.peers_of(case, memory, expected, failed)}
        for label, candidate in candidates.items():
            self.options.progress(f"{label}: warming")
            candidate.settle(self.options.sample)
        one_thread = max(sum(a.counts) for a in case.arrays.values()) < 16 << 10
        traffic = Traffic(self.library, case, 1 if one_thread else self.threads)
        if traffic.memory() > self.touched:
            self.touched = traffic.memory()
            self.library.native_touch(self.traffic_memory, self.touched)
        limit = Candidate(lambda: traffic.run(self.traffic_memory, 1), lambda _: None)
        limit.many = lambda times: traffic.run(self.traffic_memory, times)
        limit.settle(self.options.sample)
        traffic.tune(self.traffic_memory, max(1, limit.repeat // 4))
        limit.settle(self.options.sample)
        self.options.progress("timing")
        times, reference = compare({label: c.timed for label, c in candidates.items()},
                                   lambda: limit.run(limit.repeat), self.options.rounds, self.options.patience)
        least = sum(a.bytes * (2 if a.changed else 1) for a in case.arrays.values())
        row = {"bytes": least, "copy_gb_s": least / (reference["median_s"] / limit.repeat) / 1e9,
               "limit_s": reference["median_s"] / limit.repeat, "rounds": reference["rounds"],
               "dropped_rounds": reference["dropped_rounds"], "disturbed": reference["disturbed"],
               "limit_way": {"streamed": bool(traffic.stream), "ahead": traffic.far},
               "candidates": {}, "failed": failed}
        for label, of in times.items():
            c = candidates[label]
            seconds = of["median_s"] / c.repeat
            row["candidates"][label] = {
                "median_s": seconds, "min_s": of["min_s"] / c.repeat, "max_s": of["max_s"] / c.repeat,
                "gb_s": least / seconds / 1e9, "fraction_of_copy": of["fraction"] * c.repeat / limit.repeat,
                "of_lockstep": of["paired"] * own.repeat / c.repeat,
                "first_call_s": c.first_s, "difference": c.worst,
                "page_faults": c.faults / c.calls}
        return row

    def row(self, case):
        start = time.perf_counter()
        try:
            found = self.measure(case)
        except Exception as error:  # one row must not cost the others
            if self.options.strict:
                raise
            found = {"bytes": 0, "copy_gb_s": 0, "candidates": {}, "failed": {"row": word(error)}}
        gc.collect()
        found["took_s"] = time.perf_counter() - start
        return found
