#!/usr/bin/env python3
"""mutants.py BUILD [--draw N] [--seed S] [--folder F]... [--tests REGEX] [--longest SECONDS]
                 [--minutes N] [--only WORD] [--list | --report] (all options: --help)

Makes the product wrong, mechanically and one place at a time, and counts what the tests find:
`killed N of M` by folder, and every mutant that survives with its line and the change. Of all
mutants (find.py says which there are) N are drawn, by a seed, from each folder in proportion to its
lines. README.md beside this file says how to read the result.

Everything lies in BUILD/mutants: a copy of the source with a switch at every place, its build,
which places each test reaches (one pass over the tests), and the results. All of it goes on where
it stopped: a result lasts as long as its file does not change, a mutant that survived meets only
tests that are new, and a larger draw with the same seed contains the smaller.

A mutant is run by the tests that reach its place, the fastest first, until one fails that passes
without; one that takes five times what it took without, and twenty seconds, fails. Those of the
device library, which is text that is compiled when a step runs, cost a build each, and are run by
tables of tests. Exits 1 where one survives that equivalent.txt does not argue, or where that file
is out of date.
"""

import argparse
import base64
import hashlib
import json
import os
import re
import signal
import sys
import time
import zlib
from multiprocessing import get_context

from build import LIBRARY, Product
from suite import Suite

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
FOLDERS = ("compiler/fuse", "compiler/loop", "compiler/schedule", "runtime", LIBRARY)
MOST_EQUIVALENT = 0.10
# These compare a hash or a copy of what is made wrong, so that they would find any change at all.
OF_THE_TEXT = r"interp/test_constants$|structure/|mutants/"
# Tests of the device library: of which files, what they need built, their names; until one kills.
NUMERICS = "basics conversions integers draws divisions doubles powers sweep fast".split()
FUNCTIONS = r"/(?:math|lite|integer|convert|philox|fixed|draw_cpu)\.h$|/prelude"
LIBRARY_TESTS = (
    (FUNCTIONS, [f"numerics_{name}" for name in NUMERICS], r"numerics/"),
    (FUNCTIONS + r"|_gpu\.h$|/reduce\.h$", ["simt_test"], r"simt/simt_test$"),
    (r"_gpu\.h$|/reduce\.h$|/prelude\.(?:cu|hip)$", ["weak_test"], r"simt/weak_test$"),
    (r"", ["exec_runner"], r"exec/"),
    (r"", ["simt_exec"], r"simt/.*@"),
)


def say(*words):
    print(*words, flush=True)


class Lines:
    """A file of JSON lines, appended to as results come, so that a run can be stopped."""

    def __init__(self, path):
        self.path = path

    def read(self):
        if not os.path.exists(self.path):
            return
        with open(self.path, encoding="utf-8") as file:
            for line in file:
                if line.endswith("\n"):
                    yield json.loads(line)

    def add(self, **fields):
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(fields) + "\n")


# ---- the draw ----


def count_lines(product, folder):
    count = 0
    for name in product.files(folder):
        with open(os.path.join(product.original, name), "rb") as file:
            count += sum(1 for line in file if line.strip())
    return count


def shares(product, folders, count):
    """How many of `count` each folder gets: by lines, the largest remainders rounded up."""
    lines = {folder: count_lines(product, folder) for folder in folders}
    total = sum(lines.values())
    exact = {folder: count * lines[folder] / total for folder in lines}
    share = {folder: int(exact[folder]) for folder in lines}
    left = sorted(lines, key=lambda folder: share[folder] - exact[folder])
    for folder in left[: count - sum(share.values())]:
        share[folder] += 1
    return share


def draw(product, folders, count, seed):
    """The mutants drawn, by folder, in the order in which they are run: a part of a draw is a
    draw."""

    def rank(mutant):
        return hashlib.sha256(f"{seed}:{mutant.key}".encode()).hexdigest()

    drawn = {}
    for folder, share in shares(product, folders, count).items():
        names = product.files(folder)
        everything = [m for name in names for m in product.mutants.get(name, [])]
        drawn[folder] = sorted(everything, key=rank)[:share]
    places = {m.key: (i + 0.5) / len(of) for of in drawn.values() for i, m in enumerate(of)}
    order = sorted((m for of in drawn.values() for m in of), key=lambda m: (places[m.key], m.key))
    return drawn, order


def equivalents(path):
    """The mutants that the file argues: their reasons by name."""
    found = {}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.startswith("#") or not line.strip():
                continue
            key, _, rest = line.partition(" ")
            place, _, reason = rest.partition(": ")
            if not re.fullmatch("[0-9a-f]{10}", key) or not reason.strip() or key in found:
                sys.exit(f"mutants.py: {path}:{number}: expected `KEY FILE FUNCTION: REASON`, once")
            found[key] = (place.strip(), reason.strip())
    return found


# ---- the tests ----


def test_identity(product, name):
    """A test's name with a hash of its own text, so that one that changed is new."""
    hashed = hashlib.sha256()
    suite, _, path = name.partition(" :: ")
    tests = os.path.join(product.original, "tests")
    if suite == "text" and os.path.exists(os.path.join(tests, "lit", path)):
        files = [os.path.join(tests, "lit", path)]
    else:
        folder, _, program = path.partition("/")
        files = [os.path.join(tests, "exec", "programs", program.split("@")[0] + ".step")]
        own = os.path.join(tests, folder)
        if not os.path.exists(files[0]) and os.path.isdir(own):
            files = [os.path.join(own, file) for file in sorted(os.listdir(own))]
    for file in files:
        if os.path.isfile(file):
            with open(file, "rb") as opened:
                hashed.update(opened.read())
    return f"{name}#{hashed.hexdigest()[:8]}"


def pack(reached):
    bits = bytearray((len(reached) + 7) // 8)
    for at, byte in enumerate(reached):
        if byte:
            bits[at // 8] |= 1 << at % 8
    return base64.b64encode(zlib.compress(bytes(bits))).decode()


class Reach:
    """Which places each test comes to, without a mutant; how long it takes, and whether it
    passes."""

    def __init__(self, product, suite, stamp, words):
        self.product, self.suite, self.stamp, self.words = product, suite, stamp, words
        self.lines = Lines(os.path.join(product.state, "reach.jsonl"))
        self.tests = {}  # by identity: name, seconds, bits
        self.identities = {test_identity(product, name): name for name in sorted(suite.tests)}

    def wanted(self, identity):
        name = self.identities[identity]
        return re.search(self.words.tests, name) and not re.search(OF_THE_TEXT, name)

    def load(self):
        known = set()
        for line in self.lines.read():
            if line["stamp"] == self.stamp and line["test"] in self.identities:
                known.add(line["test"])
                if line["code"] == "passed" and self.wanted(line["test"]):
                    bits = zlib.decompress(base64.b64decode(line["reached"]))
                    self.tests[line["test"]] = (line["seconds"], bits)
        return known

    def measure(self, deadline):
        known = self.load()
        tasks = [t for t in self.identities if t not in known and self.wanted(t)]
        if not tasks:
            return
        say(f"{len(tasks)} tests, to see what each reaches")
        for task, line in each(self.words, self.suite, self.one, tasks, deadline):
            self.lines.add(stamp=self.stamp, test=task, **line)
            if line["code"] in ("failed", "late"):
                say(f"left out, as it fails without a mutant: {self.identities[task]}")
        self.load()

    def one(self, task, worker):
        path = os.path.join(self.product.state, f"reached.{worker}")
        count = len(self.product.numbers)
        with open(path, "wb") as file:
            file.write(bytes(max(count, 1)))
        for _ in range(2):  # one that fails now and then kills none either
            outcome = self.suite.run(self.identities[task], self.words.limit, MUTANTS_REACHED=path)
            if outcome.code != "failed":
                break
        with open(path, "rb") as file:
            reached = pack(file.read())
        seconds = round(outcome.seconds, 2)
        return {"code": outcome.code, "seconds": seconds, "reached": reached}

    def covering(self, number):
        """The tests that come to a place, the fastest first."""
        found = [
            (seconds, test)
            for test, (seconds, bits) in self.tests.items()
            if bits[number // 8] >> number % 8 & 1 and seconds <= self.words.longest
        ]
        return [test for _, test in sorted(found)]


def work(suite, function, words, tasks, results, number):
    """A worker: takes tasks until there is none, or until it is stopped."""
    for kind in (signal.SIGINT, signal.SIGTERM):
        signal.signal(kind, stop_tests)
    if words.workers > 1:
        suite.move(os.path.join(words.state, f"worker{number}"))
    try:
        for task in iter(tasks.get, None):
            results.put((task, function(task, number)))
    finally:
        results.put(None)


def stop_tests(*_):
    """Ends a worker with the test it runs, which has a session of its own."""
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        for child in file.read().split():
            try:
                os.killpg(int(child), signal.SIGKILL)
            except ProcessLookupError:
                pass
    os._exit(1)


def each(words, suite, function, tasks, deadline):
    """function(task, worker's number) of each task, in processes of their own, as they come."""
    context = get_context("fork")
    waiting, results = context.SimpleQueue(), context.SimpleQueue()
    arguments = (suite, function, words, waiting, results)
    workers = [context.Process(target=work, args=(*arguments, n)) for n in range(words.workers)]
    for worker in workers:
        worker.start()
    rest, running = list(reversed(tasks)), 0
    for _ in workers:
        waiting.put(rest.pop() if rest else None)
        running += 1
    try:
        while running:
            while not results._reader.poll(5):
                if not all(worker.is_alive() or worker.exitcode == 0 for worker in workers):
                    sys.exit("mutants.py: a worker was killed; another run goes on from here")
            found = results.get()
            if found is None:
                running -= 1
                continue
            yield found
            waiting.put(rest.pop() if rest and time.monotonic() < deadline else None)
    finally:
        for worker in workers if running else ():
            worker.terminate()
        for worker in workers:
            worker.join()
    if any(worker.exitcode for worker in workers):
        sys.exit("mutants.py: a worker failed; another run goes on from here")


# ---- the runs ----


class Runs:
    def __init__(self, product, suite, reach, words):
        self.product, self.suite, self.reach, self.words = product, suite, reach, words
        self.lines = Lines(os.path.join(product.state, "results.jsonl"))
        self.results, self.hashes = {}, {}
        for line in self.lines.read():
            if line["file"] == self.hash_of(line["path"]):
                self.keep(line)

    def hash_of(self, name):
        if name not in self.hashes:
            path = os.path.join(self.product.original, name)
            data = open(path, "rb").read() if os.path.exists(path) else b""
            self.hashes[name] = hashlib.sha256(data).hexdigest()[:12]
        return self.hashes[name]

    def keep(self, line):
        before = self.results.get(line["key"], {"ran": []})
        line["ran"] = sorted({*before["ran"], *line["ran"]})
        self.results[line["key"]] = line

    def add(self, mutant, **fields):
        line = {"key": mutant.key, "path": mutant.path, "file": self.hash_of(mutant.path), **fields}
        self.lines.add(**line)
        self.keep(line)

    def missing(self, mutant):
        """The tests that this mutant has yet to meet, or None where one has killed it."""
        result = self.results.get(mutant.key, {"verdict": "", "ran": []})
        if result["verdict"] == "killed":
            return None
        tests = self.reach.covering(self.product.numbers[mutant.key])
        return [test for test in tests if test not in result["ran"]]

    def until_killed(self, tests, **variables):
        """Runs tests until one fails."""
        ran = []
        for test in tests:
            limit = self.words.grace + 5 * self.reach.tests[test][0]
            outcome = self.suite.run(self.reach.identities[test], limit, **variables)
            ran.append(test)
            if outcome.kills() and self.passes(test, limit, variables):
                return {"verdict": "killed", "test": test, "code": outcome.code, "ran": []}
        return {"verdict": "survived", "test": "", "code": "", "ran": ran}

    def passes(self, test, limit, variables):
        """Without the mutant; one in the device library is in the build: there the test fails again."""
        if not variables:
            return self.suite.run(self.reach.identities[test], limit).kills()
        return self.suite.run(self.reach.identities[test], limit).code == "passed"

    def one(self, task, _worker):
        number, tests = task
        return self.until_killed(tests, MUTANT=number)

    def switched(self, order, deadline):
        """Those behind switches, side by side."""
        tasks, by_number = [], {}
        for mutant in order:
            if mutant.path.startswith(LIBRARY + "/"):
                continue
            tests = self.missing(mutant)
            number = self.product.numbers[mutant.key]
            if tests is None or (not tests and mutant.key in self.results):
                continue
            tasks.append((number, tests))
            by_number[number] = mutant
        for (number, _), line in each(self.words, self.suite, self.one, tasks, deadline):
            self.add(by_number[number], **line)
            told = f"  ({line['test'].partition('#')[0]})" if line["test"] else ""
            say(f"{line['verdict']} {by_number[number].describe()}{told}")

    def library(self, order, deadline):
        """Those of the device library, each a build of its tests."""
        for mutant in order:
            done = self.results.get(mutant.key, {"verdict": "", "ran": []})
            groups = self.groups(mutant.path, done["ran"])
            ended = done["verdict"] in ("killed", "unbuilt") or (done["verdict"] and not groups)
            if not mutant.path.startswith(LIBRARY + "/") or ended or time.monotonic() > deadline:
                continue
            path = os.path.join(self.product.original, mutant.path)
            with open(path, encoding="latin-1", newline="") as file:
                self.product.put(mutant.path, mutant.changed(file.read()))
            try:
                line = self.in_library(groups)
            finally:
                self.product.put(mutant.path)
            self.add(mutant, **line)
            told = f"  ({line['test'].partition('#')[0]})" if line["test"] else ""
            say(f"{line['verdict']} {mutant.describe()}{told}")
        if not self.product.make(*self.words.target):
            sys.exit(f"mutants.py: the build as it was fails:\n{self.product.log()}")

    def groups(self, path, met):
        """What is built and the tests that run then, of those that a mutant of this file has yet to meet."""
        groups = []
        for files, targets, pattern in LIBRARY_TESTS:
            tests = [
                test
                for test, (seconds, _) in sorted(self.reach.tests.items(), key=lambda t: t[1][0])
                if re.search(pattern, self.reach.identities[test])
                and seconds <= self.words.longest
                and test not in met
            ]
            if tests and re.search(files, path):
                groups.append((targets, tests))
        return groups

    def in_library(self, groups):
        ran = []
        for targets, tests in groups:
            if not self.product.make(*targets):
                return {"verdict": "unbuilt", "test": "", "code": "", "ran": []}
            line = self.until_killed(tests)
            if line["verdict"] == "killed":
                return line
            ran += line["ran"]
        return {"verdict": "survived", "test": "", "code": "", "ran": ran}


# ---- the report ----


class Report:
    def __init__(self, drawn, runs, argued, words):
        self.drawn, self.runs, self.argued, self.words = drawn, runs, argued, words
        self.survivors = []
        self.totals = dict.fromkeys(("killed", "survived", "unbuilt", "equivalent", "late"), 0)

    def verdict(self, mutant):
        if mutant.key in self.argued:
            return "equivalent"
        return self.runs.results.get(mutant.key, {"verdict": "to run"})["verdict"]

    def folder(self, folder, mutants):
        counts = dict.fromkeys((*self.totals, "to run"), 0)
        for mutant in mutants:
            verdict = self.verdict(mutant)
            counts[verdict] += 1
            if verdict == "survived":
                self.survivors.append(mutant)
            if verdict == "killed" and self.runs.results[mutant.key]["code"] == "late":
                counts["late"] += 1
        for kind in self.totals:
            self.totals[kind] += counts[kind]
        rest = [f"{counts[k]} {k}" for k in ("equivalent", "unbuilt", "to run") if counts[k]]
        met = counts["killed"] + counts["survived"]
        say(f"  {folder:18} killed {counts['killed']} of {met}" + "".join(f", {r}" for r in rest))

    def print(self, product):
        count = sum(len(of) for of in self.drawn.values())
        everything = sum(len(of) for of in product.mutants.values())
        say(f"seed {self.words.seed}: {count} drawn of {everything}")
        say(
            f"left out: {product.constants} integers in constant expressions, "
            f"{product.macros} places in the bodies of macros"
        )
        for folder, mutants in self.drawn.items():
            self.folder(folder, mutants)
        met = self.totals["killed"] + self.totals["survived"]
        share = f" ({100 * self.totals['killed'] / met:.1f} %)" if met else ""
        say(f"killed {self.totals['killed']} of {met}{share}, {self.totals['late']} by time")
        for mutant in self.survivors:
            ran = len(self.runs.results[mutant.key]["ran"])
            why = f"{ran} tests ran" if ran else "no test reaches it"
            say(f"survived {mutant.key} {mutant.describe()}  ({why})")
        return self.faults(product, count)

    def faults(self, product, count):
        known = {m.key: m for of in product.mutants.values() for m in of}
        faults = []
        for key, (place, _) in self.argued.items():
            path = place.split(" ")[0]
            if not any(path.startswith(folder + "/") for folder in product.folders):
                continue
            if key not in known or known[key].path != path:
                faults.append(f"equivalent.txt is out of date: {key} {place}")
            elif self.runs.results.get(key, {}).get("verdict") == "killed":
                faults.append(f"equivalent.txt is wrong, a test has killed it: {key} {place}")
        if self.totals["equivalent"] > MOST_EQUIVALENT * count:
            faults.append(f"{self.totals['equivalent']} of {count} are argued away: too many")
        for fault in faults:
            say(fault)
        return bool(faults or self.survivors)


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("build", help="the build folder; everything lies in its folder mutants/")
    add("--draw", type=int, default=600, metavar="N", help="how many mutants (600)")
    add("--seed", type=int, default=24, metavar="S", help="which (24)")
    add("--folder", action="append", metavar="F", help="of these folders alone")
    add("--tests", default=".", metavar="REGEX", help="by tests with such names alone")
    add("--longest", type=float, default=900, metavar="SECONDS", help="by tests as fast as that")
    add("--limit", type=float, default=900, metavar="SECONDS", help="for a test without a mutant")
    add("--grace", type=float, default=20, metavar="SECONDS", help="added to a test's time (20)")
    add("--equivalent", default=os.path.join(HERE, "equivalent.txt"), help="another equivalent.txt")
    add("--minutes", type=float, default=1e6, metavar="N", help="stops then, to go on another time")
    add("--target", action="append", metavar="T", default=[], help="builds only these of ninja's")
    add("--workers", type=int, default=1, metavar="N", help="tests at once (1)")
    add("--jobs", type=int, default=2, metavar="N", help="compiles at once (2)")
    add("--only", default="", metavar="WORD", help="mutants whose description or name has the word")
    add("--source", default=SOURCE, help="another project")
    add("--list", action="store_true", help="says which there are, and runs nothing")
    add("--report", action="store_true", help="prints what is known, and runs nothing")
    words = parser.parse_args()
    words.state = os.path.join(os.path.abspath(words.build), "mutants")
    words.source = os.path.abspath(words.source)
    words.folder = words.folder or list(FOLDERS)
    for folder in words.folder:
        if not os.path.isdir(os.path.join(words.source, folder)):
            parser.error(f"there is no folder {folder}")
    return words


def main():
    words = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    begin = time.monotonic()
    deadline = begin + 60 * words.minutes
    folders = FOLDERS if words.source == SOURCE else words.folder  # all have their switches
    product = Product(words.source, words.state, folders, words.jobs)
    if not product.is_configured() or not (words.list or words.report):
        product.copy()
        product.configure()
    product.find()
    drawn, order = draw(product, words.folder, words.draw, words.seed)
    if words.only:
        order = [m for m in order if words.only in f"{m.key} {m.describe()}"]
        drawn = {f: [m for m in of if m in order] for f, of in drawn.items()}
    argued = equivalents(words.equivalent)
    if words.list:
        for mutant in order:
            say(mutant.key, mutant.describe())
        return 0
    stamp = product.switch()
    if not words.report and not product.make(*words.target):
        sys.exit(f"mutants.py: the build with switches fails:\n{product.log()}")
    folders = [os.path.join(product.build, "tests", name) for name in ("lit", "executables")]
    suite = Suite([folder for folder in folders if os.path.isdir(folder)])
    reach = Reach(product, suite, stamp, words)
    if words.report:
        reach.load()
    else:
        reach.measure(deadline)
    runs = Runs(product, suite, reach, words)
    if not words.report:
        left = [mutant for mutant in order if mutant.key not in argued]
        runs.switched(left, deadline)
        if LIBRARY in words.folder:
            runs.library(left, deadline)
    return Report(drawn, runs, argued, words).print(product)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("mutants.py: stopped; another run goes on from here")
