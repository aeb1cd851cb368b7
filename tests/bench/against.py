"""cpu.py --against BUILD: two builds of Lockstep side by side on the CPU.

against_run.py runs both in one process, where they take turns at every row on the same arrays, and the old build a
second time in a context of its own. A round gives two ratios: the new build's time to the mean of the old build's two,
and the old build's to its own, which shows what the machine does by itself. Each row's results must have the same bits
in both builds. A kernel whose text is the same in both is the same code at the same place, out of the cache.

A row is slower where the median of its ratios is above the bound each of three times that it is measured: the second
and the third time follow after all other rows, in new processes, where memory and code lie elsewhere. The least counts.
The sum is of the rows' times; the new build's are the old one's times the rows' ratios. A row's error is the standard
error of its median, found from how its rounds differ, or what the old build differs from itself, whichever is more;
the noise of the sum is three times the root of the sum of their squares."""
import dataclasses
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import arrays
from loops import Companion
from shapes import against_cases

QUICK_BYTES = 4 << 20               # --quick leaves rows out that have more
SAMPLE, QUICK_SAMPLE = 0.01, 0.004  # seconds of a side in a round
ANEW = 2                            # times that a row above the bound is measured again


@dataclasses.dataclass
class Row:
    """What a row's rounds came to. `ratio`: new to old; `control`: old to itself."""
    name: str
    old_s: float
    ratio: float
    error: float  # of the ratio
    control: float

    @staticmethod
    def of(name, rounds):
        """rounds: of each the seconds of a call of old, new and old again."""
        ratios = [2 * new / (old + again) for old, new, again in rounds]
        middle = statistics.median(ratios)
        control = statistics.median(again / old for old, _, again in rounds)
        spread = 1.4826 * statistics.median(abs(ratio - middle) for ratio in ratios)  # a normal one's deviation
        return Row(name, statistics.median((old + again) / 2 for old, _, again in rounds), middle,
                   max(1.2533 * spread / math.sqrt(len(ratios)), abs(control - 1)), control)


@dataclasses.dataclass
class Verdict:
    old_s: float
    ratio: float
    control: float
    noise: float
    geometric: float  # the mean of the rows' ratios, each row counting alike
    slower: list
    sum_slower: bool


def judge(rows, bound, sum_bound):
    """What the rows say together."""
    old = sum(row.old_s for row in rows)
    ratio = sum(row.old_s * row.ratio for row in rows) / old
    control = sum(row.old_s * row.control for row in rows) / old
    noise = 3 * math.sqrt(sum((row.old_s * row.error) ** 2 for row in rows)) / old
    return Verdict(old, ratio, control, noise,
                   math.exp(sum(math.log(row.ratio) for row in rows) / len(rows)),
                   [row for row in rows if row.ratio > bound], ratio > sum_bound + noise)


class Run(Companion):
    """A process of against_run.py."""

    def __init__(self, libraries, options):
        super().__init__(["against_run.py", json.dumps({
            **libraries, "native": options.build, "shift": options.shift, "rounds": options.rounds,
            "sample": options.sample, "patience": options.patience, "strict": options.strict})])

    def __enter__(self):
        super().__enter__()
        self.devices = self.answer()
        return self

    def answer(self):
        found = json.loads(self.line())
        if "failed" in found:
            raise RuntimeError(found["failed"])
        return found

    def row(self, name):
        """A Row, or in words why there is none."""
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        try:
            return Row.of(name, self.answer()["rounds"])
        except RuntimeError as error:
            return str(error)


def joined(build, folder, name):
    """A build's two archives as one shared object: of shared objects by the same names a process has but one."""
    archives = [os.path.join(build, archive) for archive in ("liblockstep.a", "liblockstep_rt.a")]
    lacking = [archive for archive in archives if not os.path.exists(archive)]
    if lacking:
        raise OSError(f"there is no {lacking[0]}: cmake --build {build}")
    path = os.path.join(folder, f"{name}.so")
    subprocess.run(["gcc", "-shared", "-o", path, "-Wl,--whole-archive", *archives, "-Wl,--no-whole-archive", "-lm"],
                   check=True)
    return path


def scaled(seconds):
    for unit, factor in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1 or unit == "us":
            return f"{seconds * factor:.3f} {unit:2s}"


def line(name, row):
    times = f"{scaled(row.old_s):>11s} {scaled(row.old_s * row.ratio):>11s}"
    return f"{name:58s} {times} {row.ratio:8.3f} {row.control:8.3f}"


def measure(names, run, options):
    """Yields name and Row, or name and why there is none."""
    for name in names:
        options.progress.begin(name)
        found = run.row(name)
        options.progress.end()
        print(line(name, found) if isinstance(found, Row) else f"{name:58s} NO RESULT: {found}", flush=True)
        yield name, found


def measure_all(names, libraries, options):
    """name -> Row, and name -> why there is none."""
    rows, failed = {}, {}
    with Run(libraries, options) as run:
        for label, build in (("old", options.against), ("new", options.build)):
            print(f"{label}: {os.path.abspath(build)}: {run.devices[label]}")
        print(f"{'':58s} {'old':>11s} {'new':>11s} {'new/old':>8s} {'old/old':>8s}")
        for name, found in measure(names, run, options):
            (rows if isinstance(found, Row) else failed)[name] = found
    for _ in range(ANEW):
        above = [name for name, row in rows.items() if row.ratio > options.bound[0]]
        if not above:
            break
        print("measured again:")
        options.progress.total += len(above)
        with Run(libraries, options) as run:
            for name, found in measure(above, run, options):
                if isinstance(found, Row) and found.ratio < rows[name].ratio:
                    rows[name] = found
    return rows, failed


def conclude(rows, failed, options):
    """Prints the verdict; the exit status."""
    if rows:
        verdict = judge(list(rows.values()), *options.bound)
        total = Row("", verdict.old_s, verdict.ratio, 0, verdict.control)
        print(line(f"sum of {len(rows)} rows", total))
        print(f"noise of the sum's ratio {verdict.noise:.4f}; "
              f"geometric mean of the rows' ratios {verdict.geometric:.4f}")
        if verdict.slower:
            print(f"SLOWER, rows above {options.bound[0]:g}:")
            for row in sorted(verdict.slower, key=lambda row: -row.ratio):
                unsteady = ", NOT STEADY: the old build differs as much from itself" \
                    if abs(row.control - 1) > options.bound[0] - 1 else ""
                print(f"  {row.ratio:.3f}  {row.name}{unsteady}")
        if verdict.sum_slower:
            print(f"SLOWER, the sum: {verdict.ratio:.4f}, more than {options.bound[1]:g} and its noise of "
                  f"{verdict.noise:.4f}")
    for name, why in failed.items():
        print(f"NO RESULT: {name}: {why}")
    good = rows and not failed and not verdict.slower and not verdict.sum_slower
    if good:
        print("ok: no row is slower, nor is the sum")
    return 0 if good else 1


def as_json(device, rows, failed, options):
    verdict = dataclasses.asdict(judge(list(rows.values()), *options.bound)) if rows else {}
    verdict["slower"] = [row["name"] for row in verdict.get("slower", [])]
    return {"device": device, "old": os.path.abspath(options.against), "new": os.path.abspath(options.build),
            "rounds": options.rounds, "bound": options.bound, "verdict": verdict, "failed": failed,
            "rows": {name: dataclasses.asdict(row) for name, row in rows.items()}}


def chosen(options):
    """The rows that --only and --quick leave."""
    cases = [case for case in against_cases(options.shift) if re.search(options.only, case.name)]
    if options.quick:
        cases = [case for case in cases if sum(array.bytes for array in case.arrays.values()) <= QUICK_BYTES]
    return [case.name for case in cases]


def run(options, device, progress, write):
    """The exit status of cpu.py --against."""
    names = chosen(options)
    if options.list:
        print("\n".join(names))
        return 0
    if not names:
        print(f"cpu.py: no row's name matches {options.only!r}; --list prints them", file=sys.stderr)
        return 2
    arrays.native(options.build)  # made once, before the processes load it
    os.environ["LOCKSTEP_THREADS"] = str(options.threads or 1)
    options.sample = options.sample or (QUICK_SAMPLE if options.quick else SAMPLE)
    options.progress = progress(len(names))
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        try:
            libraries = {label: joined(build, folder, label)
                         for label, build in (("old", options.against), ("new", options.build))}
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"cpu.py: {error}", file=sys.stderr)
            return 2
        print(device)
        rows, failed = measure_all(names, libraries, options)
    status = conclude(rows, failed, options)
    write(as_json(device, rows, failed, options), options.json)
    print(f"took {time.perf_counter() - start:.0f} s")
    return status
