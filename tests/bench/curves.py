#!/usr/bin/env python3
"""Plan times and memory by number of statements, from `build/tests/bench/plan grow`, as a result and as a table.

    build/tests/bench/plan grow | python3 tests/bench/curves.py [--json FILE] [--machine WORDS]

Prints Markdown: a row for each shape of program, a column for each number of statements."""
import argparse
import json
import sys


def cell(row):
    if row is None:
        return "–"
    time = f"{row['plan_ms']:.2g}" if row["plan_ms"] < 10 else f"{row['plan_ms']:,.0f}"
    return f"{time} / {row['bytes'] / 2**20:.2g}" if row["bytes"] < 10 << 20 else f"{time} / {row['bytes'] >> 20:,}"


def table(rows):
    counts = sorted({row["statements"] for row in rows})
    shapes = list(dict.fromkeys(row["shape"] for row in rows))
    found = {(row["shape"], row["statements"]): row for row in rows}
    lines = ["| ms / MiB | " + " | ".join(f"{count:,}" for count in counts) + " |", "| --- |" + " --- |" * len(counts)]
    for shape in shapes:
        lines.append(f"| {shape} | " + " | ".join(cell(found.get((shape, count))) for count in counts) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", help="writes what was measured to this file")
    parser.add_argument("--machine", default="", help="what it was measured on, for the file")
    arguments = parser.parse_args()
    rows = [json.loads(line) for line in sys.stdin if line.startswith('{"shape"')]
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"machine": arguments.machine, "rows": rows}, file, indent=1)
            file.write("\n")
    print(table(rows))


if __name__ == "__main__":
    main()
