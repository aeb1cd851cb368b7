"""The process of cpu.py --against in which two builds of Lockstep take turns, each a library of its own with a context
of its own, on the same arrays. Names of rows come on standard input, a line each; each is answered with a line of JSON.

    python3 tests/bench/against_run.py '{"old": LIBRARY, "new": LIBRARY, ...}'

A third context is the old build's again. In a round each context has several turns, of which its quickest counts: most
of what disturbs is shorter than a round. Their order is always the same: a side that followed itself would find the
processor's branch predictors as it left them."""
import argparse
import ctypes as C
import json
import math
import os
import sys
import time
import zlib

import arrays
from arrays import listed
from lockstep import Context
from rows import CELLS, lockstep, word
from shapes import against_cases
from timing import Foreign, rest

SIDES = ("old", "new", "again")
TURNS = 4         # of each side in a round; a sample is shared out to them
SPUN_OUT = 0.001  # seconds after which no worker thread looks for work, so that the next side has every core


def checksum(case, memory, own):
    """Of all bits that a row's step has computed."""
    found = 0
    for name in case.results:
        if name in case.wanted:
            cell = C.c_uint8 if CELLS.get(case.work) == C.c_bool else C.c_uint32
            found = zlib.crc32(cell(own.function.get(name, cell)), found)
        else:
            for part in listed(memory[name]):
                found = zlib.crc32(part.buffer(), found)
    return found


class Run:
    def __init__(self, options):
        self.options, self.library = options, arrays.native(options.native)
        paths = {"old": options.old, "new": options.new, "again": options.old}
        self.contexts = {label: Context(path, "cpu") for label, path in paths.items()}
        self.arena = arrays.Arena(self.library, 6 << 30)
        self.cases = {case.name: case for case in against_cases(options.shift)}
        self.spun_out = 0 if os.environ.get("LOCKSTEP_THREADS") == "1" else SPUN_OUT

    def prepare(self, case, memory):
        """label -> Candidate; all is compiled, and what they compute has the same bits."""
        found, bits = {}, {}
        for label, context in self.contexts.items():
            self.arena.fill(case, memory, not found)
            try:
                own = found[label] = lockstep(context, self.library, case, memory)
                own.run(1)
            except Exception as error:
                raise ValueError(f"{label}: {word(error)}") from error
            bits[label] = checksum(case, memory, own)
        if len(set(bits.values())) > 1:
            raise ValueError("the builds compute different bits")
        return found

    def round(self, candidates, calls):
        """The seconds of a call of each of SIDES. Where a sample is one call there is one turn."""
        least = dict.fromkeys(SIDES, math.inf)
        for _ in range(TURNS if calls > 1 else 1):
            for label in SIDES:
                own = candidates[label]
                if calls > 1:
                    own.run(calls // 2)
                start = time.perf_counter()
                own.run(calls)
                least[label] = min(least[label], (time.perf_counter() - start) / calls)
                if self.spun_out:
                    time.sleep(self.spun_out)
        return [least[label] for label in SIDES]

    def row(self, name):
        case, options = self.cases[name], self.options
        memory = self.arena.arrays(case)
        candidates = self.prepare(case, memory)
        for own in candidates.values():
            own.settle(options.sample / TURNS)
        calls = sorted(own.repeat for own in candidates.values())[1]
        rest()
        rounds, dropped = [], 0
        while len(rounds) < options.rounds:
            with Foreign() as foreign:
                took = self.round(candidates, calls)
            if foreign.disturbed() and dropped < options.patience:
                dropped += 1
            else:
                rounds.append(took)
        for own in candidates.values():
            own.function.destroy()
        return {"rounds": rounds, "dropped": dropped}


def answer(value):
    print(json.dumps(value), flush=True)


def main():
    options = argparse.Namespace(**json.loads(sys.argv[1]))
    try:
        run = Run(options)
    except Exception as error:
        return answer({"failed": word(error)})
    answer({label: context.description for label, context in run.contexts.items()})
    for line in sys.stdin:
        try:
            answer(run.row(line.rstrip("\n")))
        except Exception as error:
            if options.strict:
                raise
            answer({"failed": word(error)})
    return None


main()
