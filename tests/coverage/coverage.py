#!/usr/bin/env python3
"""Which lines and branches of the library and the compiler no test runs.

    coverage.py BUILD [--run LIT [--filter EXPRESSION]] [--list FILE] [--argued FILE] [--folder FOLDER]

BUILD is a build folder made with -DLOCKSTEP_COVERAGE=ON in which tests have run; --run forgets what they counted and
runs the suite in it, or the tests whose names match. Prints a table by folder; --list
writes every line that never ran, or one of whose branches was never taken, with its text. --argued names the file
of lines that no test can or need reach, and why (argued.txt beside this script): what it argues is counted apart.
Ends with 1 when an entry of it argues nothing any more, because the line is gone or is reached."""
import argparse
import collections
import fnmatch
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Line:
    """How often a line ran, and each of its branches, over all objects that it was compiled into."""

    def __init__(self):
        self.count = 0
        self.branches = []

    def add(self, count, branches):
        self.count += count
        if len(branches) > len(self.branches):
            self.branches, branches = list(branches), self.branches
        for i, taken in enumerate(branches):
            self.branches[i] += taken

    def missed(self):
        return sum(taken == 0 for taken in self.branches)


# ---- the suite ----

def run_suite(build, lit, expression):
    for folder, _, files in os.walk(build):
        for name in files:
            if name.endswith(".gcda"):
                os.remove(os.path.join(folder, name))
    run = subprocess.run([sys.executable, lit, "--workers", "2", "--filter", expression, "-q",
                          os.path.join(build, "tests", "lit"), os.path.join(build, "tests", "executables")])
    if run.returncode:
        print("coverage.py: tests failed: what they would have run is not counted", file=sys.stderr)


# ---- what gcov says ----

def notes(build):
    """The notes that gcc wrote for each object of the product; what was counted lies beside them."""
    for folder, _, files in os.walk(build):
        for name in files:
            if name.endswith(".gcno"):
                yield os.path.join(folder, name)


def ask_gcov(note):
    data = note[:-5] + ".gcda"
    run = subprocess.run([os.environ.get("GCOV", "gcov"), "--json-format", "--stdout", "--branch-probabilities",
                          data if os.path.exists(data) else note], capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"coverage.py: gcov {note}:\n{run.stderr}")
    return [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]


def read_counts(build):
    """{path in the source: {line number: Line}}"""
    counts = collections.defaultdict(lambda: collections.defaultdict(Line))
    with ThreadPoolExecutor(2) as pool:
        for documents in pool.map(ask_gcov, sorted(notes(build))):
            for document in documents:
                for file in document["files"]:
                    path = os.path.join(document.get("current_working_directory", build), file["file"])
                    path = os.path.relpath(os.path.realpath(path), SOURCE)
                    if not path.startswith(("compiler/", "runtime/")):
                        continue
                    for line in file["lines"]:
                        counts[path][line["line_number"]].add(
                            line["count"], [branch["count"] for branch in line.get("branches", [])])
    return counts


# ---- lines that are argued ----

class Argued:
    """Entries of a file: reasons in square brackets, and under each lines `FILES: TEXT`, where FILES is a path or a
    pattern of paths, and TEXT the whole line without its indent, or /REGULAR EXPRESSION/ that some of it matches."""

    def __init__(self, path):
        self.path, self.entries = path, []
        reason = None
        with open(path, encoding="utf-8") as file:
            for number, text in enumerate(file, 1):
                text = text.rstrip("\n")
                if not text or text.startswith("#"):
                    continue
                if text.startswith("[") and text.endswith("]"):
                    reason = text[1:-1]
                    continue
                files, colon, what = text.partition(": ")
                if not colon or not reason or not what:
                    sys.exit(f"{path}:{number}: not a reason in [], nor FILES: TEXT under one")
                self.entries.append(self.entry(number, files, what, reason))

    @staticmethod
    def entry(number, files, what, reason):
        pattern = re.compile(what[1:-1]) if len(what) > 2 and what[0] == what[-1] == "/" else None
        return {"number": number, "files": files, "what": what, "pattern": pattern, "reason": reason, "used": 0}

    def reason_for(self, path, text):
        for entry in self.entries:
            if not fnmatch.fnmatch(path, entry["files"]):
                continue
            if entry["pattern"].search(text) if entry["pattern"] else entry["what"] == text:
                entry["used"] += 1
                return entry["reason"]
        return None

    def stale(self):
        return [entry for entry in self.entries if not entry["used"]]


# ---- results ----

class Sums:
    def __init__(self):
        self.lines = self.ran = self.branches = self.taken = self.argued = self.open = 0

    def percent(self):
        parts = [(self.ran, self.lines), (self.taken, self.branches)]
        return ["%.1f" % (100 * part / whole) if whole else "-" for part, whole in parts]


def source_lines(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8", errors="replace") as file:
        return [""] + [line.strip() for line in file]


def judge(counts, argued, folder):
    """Sums by folder, and the lines that are left: (path, number, what, text)."""
    table, left = collections.defaultdict(Sums), []
    for path in sorted(counts):
        if folder and not path.startswith(folder):
            continue
        texts, sums = source_lines(path), table[os.path.dirname(path)]
        for number, line in sorted(counts[path].items()):
            sums.lines += 1
            sums.ran += line.count > 0
            sums.branches += len(line.branches)
            sums.taken += len(line.branches) - line.missed()
            if line.count > 0 and not line.missed():
                continue
            text = texts[number] if number < len(texts) else ""
            if argued and argued.reason_for(path, text):
                sums.argued += 1
                continue
            sums.open += 1
            what = f"{line.missed()} of {len(line.branches)} branches" if line.count else "never runs"
            left.append((path, number, what, text))
    return table, left


def print_table(table):
    whole = Sums()
    print(f"{'folder':22} {'lines':>7} {'%':>6} {'branches':>9} {'%':>6} {'argued':>7} {'left':>6}")
    for folder, sums in sorted(table.items()):
        for name in vars(sums):
            setattr(whole, name, getattr(whole, name) + getattr(sums, name))
    for folder, sums in sorted(table.items()) + [("all", whole)]:
        lines, branches = sums.percent()
        print(f"{folder:22} {sums.lines:7} {lines:>6} {sums.branches:9} {branches:>6} {sums.argued:7} {sums.open:6}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--run", metavar="LIT", help="runs the tests first, by this runner")
    parser.add_argument("--filter", metavar="EXPRESSION", default="", help="of these only those that match")
    parser.add_argument("--list", metavar="FILE", help="the lines that are left")
    parser.add_argument("--argued", metavar="FILE", help="the lines that need no test, with reasons")
    parser.add_argument("--folder", metavar="FOLDER", help="only of paths that begin so, runtime/comm")
    arguments = parser.parse_args()
    if arguments.run:
        run_suite(arguments.build, arguments.run, arguments.filter)
    counts = read_counts(arguments.build)
    if not any(line.count for lines in counts.values() for line in lines.values()):
        sys.exit(f"coverage.py: nothing was counted in {arguments.build}: build it with -DLOCKSTEP_COVERAGE=ON "
                 "and run tests in it")
    argued = Argued(arguments.argued) if arguments.argued else None
    table, left = judge(counts, argued, arguments.folder)
    print_table(table)
    if arguments.list:
        with open(arguments.list, "w", encoding="utf-8") as file:
            for path, number, what, text in left:
                file.write(f"{path}:{number}: {what}: {text}\n")
    stale = argued.stale() if argued and not arguments.folder else []
    for entry in stale:
        print(f"{argued.path}:{entry['number']}: argues nothing: {entry['files']}: {entry['what']}")
    return bool(stale)


if __name__ == "__main__":
    sys.exit(main())
