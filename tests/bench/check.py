#!/usr/bin/env python3
"""The benchmark scripts' own test, without any peer but C: every file parses, rows of small arrays run and give the
JSON that report.py reads, results that differ are found, and the table and the chart come out.

    python3 tests/bench/check.py BUILD"""
import ast
import glob
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ONLY = "1 Mi|1000 tensors|phase|GELU forward bf16|SwiGLU backward f32|softmax f32|Norm backward bf16|f32 .* × 12$|sum"
ROW = {"bytes": int, "copy_gb_s": float, "limit_s": float, "rounds": int, "dropped_rounds": int, "disturbed": bool,
       "candidates": dict, "failed": dict}
CANDIDATE = {"median_s", "min_s", "max_s", "gb_s", "fraction_of_copy", "of_lockstep", "first_call_s", "difference",
             "page_faults"}


def expect(truth, what):
    if not truth:
        raise SystemExit(f"check.py: {what}")


def sources():
    files = glob.glob(os.path.join(HERE, "*.py")) + glob.glob(os.path.join(HERE, "peers", "*.py"))
    expect(len(files) > 10, f"only {len(files)} files were found in {HERE}")
    for path in files:
        with open(path) as file:
            tree = ast.parse(file.read(), path)
        names = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        if path.endswith("_peer.py"):
            expect({"Peer", "open"} <= names, f"{path} has no Peer or no open")


def cases():
    from cases import cpu_cases, gpu_row_cases, gpu_step_cases
    gpu = [[*gpu_row_cases(shift), *gpu_step_cases(shift)] for shift in (0, 6, 10)]
    for found in (cpu_cases(), cpu_cases(8), *gpu):
        names = [case.name for case in found]
        expect(len(names) == len(set(names)), "two rows have one name")
        for case in found:
            lacking = [r for r in case.results if r not in case.arrays and r not in case.wanted]
            expect(case.results and not lacking, f"{case.name}: no array {lacking}")


def differences(build):
    from arrays import distance, native, sample
    library = native(build)
    expect(distance(library, sample(library, 2.0), sample(library, 2.0)) == 0, "equal results differ")
    expect(distance(library, sample(library, 2.1), sample(library, 2.0)) > 0.02, "2.1 is taken for 2")
    expect(distance(library, sample(library, float("nan")), sample(library, 2.0)) > 1e9, "NaN is taken for 2")


def rows(build, folder):
    path = os.path.join(folder, "cpu.json")
    command = [sys.executable, os.path.join(HERE, "cpu.py"), "--build", build, "--shift", "12", "--rounds", "1",
               "--strict", "--patience", "0", "--sample", "0.0005", "--peers", "c,none_such",
               "--json", path, "--only", ONLY]
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    expect(done.returncode == 0, f"cpu.py ended with {done.returncode}\n{done.stdout}")
    expect("without none_such: " in done.stdout, "a peer that is not there is not named")
    with open(path) as file:
        results = json.load(file)
    expect(results["versions"].keys() == {"c"} and "none_such" in results["missing"], "versions or missing are wrong")
    expect(len(results["rows"]) >= 9, f"rows: {list(results['rows'])}")
    for name, row in results["rows"].items():
        for key, kind in ROW.items():
            expect(isinstance(row[key], kind), f"{name}: {key} is {row.get(key)!r}")
        others = row["candidates"].keys() - {"C plain", "C plain, OpenMP"}
        expect(others == {"lockstep", "C"}, f"{name}: {row['candidates'].keys()}, {row['failed']}")
        for label, of in row["candidates"].items():
            ordered = 0 < of["min_s"] <= of["median_s"] <= of["max_s"]
            expect(of.keys() == CANDIDATE and ordered, f"{name}: {label}: {of}")
            expect(of["gb_s"] > 0 and of["fraction_of_copy"] > 0, f"{name}: {label}: {of}")
    return path, results


def report(folder, path, results):
    chart = os.path.join(folder, "chart.svg")
    table = subprocess.run([sys.executable, os.path.join(HERE, "report.py"), path, "--svg", chart], check=True,
                           stdout=subprocess.PIPE, text=True).stdout
    for name in results["rows"]:
        expect(f"| {name} |" in table, f"{name} is not in the table\n{table}")
    with open(chart) as file:
        expect("</svg>" in file.read(), "the chart has no end")


def grid():
    """Of two cells: in one C plain takes half of Lockstep's time, in the other as much; numba does one of them."""
    from report import grid_text

    def row(plain, **others):
        times = {"lockstep": 1.0, "C plain": plain, **others}
        return {"candidates": {label: {"median_s": 2e-6 * time, "fraction_of_copy": 0.4 / time, "of_lockstep": time}
                               for label, time in times.items()}}
    text = grid_text({"grid": {"seed": 5}, "rows": {"slow": row(0.5), "level": row(0.96, numba=3.0)}})
    for line in ("Grid 5, 2 cells", "| slow | 2 µs | 40 % | 0.50 | – |", "| level | 2 µs | 40 % | 0.96 | 3.00 |",
                 "| C plain | 0.73 | 0 | 1 | 1 of 2 |", "| numba | 3.00 | 1 | 0 | 0 of 1 |",
                 "| slow | C plain, whose sums go in any order | 0.50 | 40 % | 80 % |"):
        expect(line in text, f"the grid's text has no {line!r}\n{text}")
    expect("| level | C plain," not in text, f"0.96 is taken for behind\n{text}")


def main():
    build = os.path.abspath(sys.argv[1])
    sources()
    cases()
    differences(build)
    grid()
    with tempfile.TemporaryDirectory() as folder:
        path, results = rows(build, folder)
        report(folder, path, results)
    print(f"ok: {len(results['rows'])} rows")


main()
