#!/usr/bin/env python3
"""The test of cpu.py --against: what it decides, and on a few rows of small arrays against the build itself what it
prints and how it ends. No time is judged.

    python3 tests/bench/check_against.py BUILD"""
import json
import os
import subprocess
import sys
import tempfile

from against import Row, judge
from shapes import WIDTHS, against_cases

HERE = os.path.dirname(os.path.abspath(__file__))
ONLY = "^scale bf16|row sum f32 .* × 16$|list of norms f32, 5|^any NaN|^linreg"


def expect(truth, what):
    if not truth:
        raise SystemExit(f"check_against.py: {what}")


def decisions():
    """The arithmetic of a row and of the verdict."""
    row = Row.of("a", [[1.0, 1.1, 1.0], [2.0, 2.2, 2.0], [1.0, 5.0, 1.0]])
    expect(abs(row.ratio - 1.1) < 1e-9 and row.control == 1 and row.old_s == 1, f"a row of three rounds is {row}")
    loud = Row.of("a", [[1.0, 1.1, 1.2]])
    expect(abs(loud.ratio - 1) < 1e-9 and abs(loud.error - 0.2) < 1e-9, f"a build that differs from itself is {loud}")
    even = Row("even", 1.0, 1.0, 0.001, 1.0)
    verdict = judge([even, even], 1.05, 1.0)
    expect(not verdict.slower and not verdict.sum_slower, f"equal builds: {verdict}")
    verdict = judge([even, Row("small", 0.001, 1.06, 0.001, 1.0)], 1.05, 1.0)
    expect([of.name for of in verdict.slower] == ["small"], f"a small row is slower: {verdict}")
    expect(not verdict.sum_slower, f"what a small row does to the sum is noise: {verdict}")
    verdict = judge([even, Row("large", 2.0, 1.02, 0.001, 1.0)], 1.05, 1.0)
    expect(not verdict.slower and verdict.sum_slower, f"the sum is slower: {verdict}")
    verdict = judge([even, Row("loud", 2.0, 1.02, 0.02, 0.98)], 1.05, 1.0)
    expect(not verdict.sum_slower, f"the sum is slower by less than its noise: {verdict}")


def cases():
    for shift in (0, 12):
        found = against_cases(shift)
        expect(len({case.name for case in found}) == len(found), "two rows have one name")
        for case in found:
            lacking = [name for name in case.results if name not in case.arrays and name not in case.wanted]
            expect(case.results and not lacking, f"{case.name}: no array {lacking}")
    names = " ".join(case.name + "," for case in against_cases())
    for width in WIDTHS:
        for step in ("row sum f32", "softmax bf16", "column sum f32"):
            expect(f" {step} {max(4, 65536 // width)} × {width}," in names, f"no row of {step} of {width} columns")


def run(build, *arguments):
    command = [sys.executable, os.path.join(HERE, "cpu.py"), "--build", build, "--shift", "12", "--rounds", "2",
               "--patience", "0", "--sample", "0.0005", "--only", ONLY, "--against", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def comparisons(build, folder):
    """How many rows one comparison has; what it prints and how it ends at bounds that decide it."""
    path = os.path.join(folder, "against.json")
    status, out = run(build, build, "--bound", "1e6,1e6", "--threads", "1", "--json", path)
    expect(status == 0 and "\nok: no row is slower" in out and "SLOWER" not in out, f"status {status}\n{out}")
    with open(path) as file:
        results = json.load(file)
    expect(len(results["rows"]) >= 6 and not results["failed"], f"the rows are {list(results['rows'])}\n{out}")
    expect({"ratio", "noise", "slower", "sum_slower"} <= results["verdict"].keys(), f"{results['verdict']}")
    for name, row in results["rows"].items():
        expect(f"\n{name} " in out and row["ratio"] > 0 and row["old_s"] > 0, f"{name}: {row}\n{out}")
    status, out = run(build, build, "--bound", "1e-6,1e6", "--quick")
    expect(status == 1 and "\nSLOWER, rows above 1e-06:\n" in out, f"status {status}\n{out}")
    expect(out.count("measured again:") == 2 and "SLOWER, the sum" not in out, out)
    status, out = run(build, build, "--bound", "1e6,1e-6")
    expect(status in (0, 1) and ("\nSLOWER, the sum: " in out) == (status == 1), f"status {status}\n{out}")
    return len(results["rows"])


def refusals(build, folder):
    status, out = run(build, folder)
    expect(status == 2 and "there is no " in out and "liblockstep.a" in out, f"status {status}\n{out}")
    status, out = run(build, build, "--bound", "much")
    expect(status == 2 and "--bound" in out, f"status {status}\n{out}")


def main():
    build = os.path.abspath(sys.argv[1])
    decisions()
    cases()
    with tempfile.TemporaryDirectory() as folder:
        count = comparisons(build, folder)
        refusals(build, folder)
    print(f"ok: {count} rows")


main()
