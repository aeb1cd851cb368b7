#!/usr/bin/env python3
"""Turns what tests/bench/gpu.py or cpu.py measured into the tables of README.md beside it and a chart.

    python3 tests/bench/report.py RESULT.json [--svg FILE] [--readme tests/bench/README.md]

Prints Markdown. Of a GPU, gpu.sh's results.json too: each candidate's share of the same traffic alone, in percent. Of a CPU: times,
Lockstep's share of what the same traffic alone reaches, and how many times as fast as the best peer it is; then
the training loops and waits. Of cpu.py --grid: each rival's time over Lockstep's, and the cells in which one is ahead. --readme puts it between that file's two marks instead. The chart has a line for each
row of the table, a mark for each candidate's share."""
import argparse
import html
import json
import os
import statistics
import sys

# label -> (column of the table, colour); labels of one column never meet in one row
COLUMNS = (
    ("Lockstep", ("lockstep",), "#c0392b"),
    ("C", ("C",), "#e67e22"),
    ("C plain", ("C plain", "C plain, OpenMP"), "#f1c40f"),
    ("torch eager", ("torch eager", "torch foreach"), "#b0b7bf"),
    ("torch fused", ("torch fused", "torch, folded by hand", "torch, fused AdamW"), "#6c7a89"),
    ("torch compiled", ("torch compiled",), "#2c3e50"),
    ("Triton", ("triton",), "#2980b9"),
    ("Liger", ("liger",), "#16a085"),
    ("CuPy", ("cupy",), "#27ae60"),
    ("numba", ("numba",), "#a2d9a1"),
    ("numba fastmath", ("numba fastmath",), "#1e8449"),
    ("JAX", ("jax",), "#8e44ad"),
)


BEGIN, END = "<!-- made by tests/bench/report.py -->", "<!-- as far as here -->"


def share(row, labels):
    for label in labels:
        if label in row["candidates"]:
            return 100 * row["candidates"][label]["fraction_of_copy"]
    return None


def used_columns(rows):
    return [column for column in COLUMNS if any(share(row, column[1]) is not None for row in rows.values())]


def table(results):
    rows = results["rows"]
    columns = used_columns(rows)
    lines = [f"| % of the same traffic alone | Lockstep GB/s | {' | '.join(name for name, _, _ in columns)} |",
             "| --- |" + " --- |" * (len(columns) + 1)]
    for name, row in rows.items():
        own = row["candidates"].get("lockstep")
        cells = [f"{own['gb_s']:,.0f}" if own else "–"]
        for _, labels, _ in columns:
            value = share(row, labels)
            cells.append("–" if value is None else f"{value:.1f}" if value < 10 else f"{value:.0f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def digits(value):
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}"


def cpu_table(results):
    rows = results["rows"]
    columns = [column for column in used_columns(rows) if column[0] != "Lockstep"]
    names = " | ".join(name for name, _, _ in columns)
    lines = [f"| | Lockstep | of the limit | {names} | Lockstep against the best |",
             "| --- |" + " --- |" * (len(columns) + 3)]
    for name, row in rows.items():
        found = row["candidates"]
        if "lockstep" not in found:
            continue
        own = found["lockstep"]["median_s"]
        unit, factor = ("µs", 1e6) if own < 1e-3 else ("ms", 1e3)
        cells = [f"**{digits(own * factor)} {unit}**", f"{share(row, ('lockstep',)):.0f} %"]
        times = {label: found[label]["median_s"] for _, labels, _ in columns for label in labels if label in found}
        for _, labels, _ in columns:
            here = [times[label] for label in labels if label in times]
            cells.append(digits(min(here) * factor) if here else "–")
        best = min(times.values(), default=None)
        cells.append("–" if best is None else f"{digits(best / own)} ×")
        mark = " (disturbed)" if row.get("disturbed") else ""
        lines.append(f"| {name}{mark} | {' | '.join(cells)} |")
    return "\n".join(lines)


LEVEL = 0.95  # a median of paired ratios from here on counts as level
IN_ANY_ORDER = ("C", "C plain")  # whose sums go in any order


def ratio(value):
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def grid_text(results):
    """The cells of cpu.py --grid: each rival's time over Lockstep's, and the cells in which one is ahead."""
    rows = {name: row for name, row in results["rows"].items() if "lockstep" in row["candidates"]}
    columns = [column for column in used_columns(rows) if column[0] != "Lockstep"]
    found = {name: {} for name, _, _ in columns}
    lines = [f"Grid {results['grid']['seed']}, {len(rows)} cells: a rival's time over Lockstep's, medians of paired ratios.",
             "", f"| | Lockstep | of the limit | {' | '.join(found)} |", "| --- |" + " --- |" * (len(columns) + 2)]
    for cell, row in rows.items():
        own = row["candidates"]["lockstep"]
        unit, factor = ("µs", 1e6) if own["median_s"] < 1e-3 else ("ms", 1e3)
        cells = [f"{digits(own['median_s'] * factor)} {unit}", f"{share(row, ('lockstep',)):.0f} %"]
        for name, labels, _ in columns:
            times = [row["candidates"][label]["of_lockstep"] for label in labels if label in row["candidates"]]
            if times:
                found[name][cell] = min(times)
            cells.append(ratio(min(times)) if times else "–")
        lines.append(f"| {cell} | {' | '.join(cells)} |")
    lines += ["", "| Lockstep beside | median | 1.3 or more | level | behind |", "| --- |" + " --- |" * 4]
    for name, of in found.items():
        values = list(of.values())
        lines.append(f"| {name} | {ratio(statistics.median(values))} | {sum(v >= 1.3 for v in values)} | "
                     f"{sum(LEVEL <= v < 1.3 for v in values)} | {sum(v < LEVEL for v in values)} of {len(values)} |")
    behind = sorted((value, cell, name) for name, of in found.items() for cell, value in of.items() if value < LEVEL)
    lines += ["", "| behind | whom | ratio | of the limit, Lockstep | the other |", "| --- |" + " --- |" * 4] if behind else []
    for value, cell, name in behind:
        labels = next(labels for column, labels, _ in columns if column == name)
        order = ", whose sums go in any order" if name in IN_ANY_ORDER else ""
        lines.append(f"| {cell} | {name}{order} | {ratio(value)} | {share(rows[cell], ('lockstep',)):.0f} % | "
                     f"{share(rows[cell], labels):.0f} % |")
    return "\n".join(lines)


def loops_table(results):
    """Steps a second of training loops, and what a user waits for."""
    lines = []
    for key, title in (("linreg", "linreg, 64 features, batches of 256"),
                       ("charlm", "charlm, 831,360 parameters, 1024 characters a step")):
        found = results.get(key, {}).get("candidates", {})
        if found:
            cells = [f"{label} {digits(of['median'])}" for label, of in found.items()]
            lines.append(f"| {title}, steps/s | {'; '.join(cells)} |")
    if "launches" in results:
        cells = [f"{name} {of['median_us']:.2f} µs" for name, of in results["launches"].items()]
        lines.append(f"| a launch of AdamW on 16 elements, from C | {', '.join(cells)} |")
    if "first" in results:
        first = results["first"]
        lines.append("| AdamW, from the file to the end of the first launch | "
                     f"{first['cold']['total_ms']:.0f} ms cold, "
                     f"{first['cached']['total_ms']:.1f} ms with the kernel in the cache |")
    compiled = {name: of for name, of in results.get("compile", {}).items() if of}
    if compiled:
        cells = [f"{name} ({of['target']}) {of['median_ms']:.0f} ms" for name, of in compiled.items()]
        lines.append(f"| compiling AdamW after the first compile of a process | {', '.join(cells)} |")
    return "\n".join(["| | |", "| --- | --- |", *lines]) if lines else ""


def text_of(results):
    if "limit" not in results:
        return table(results)
    beside = ", ".join(f"{name} {version}" for name, version in results["versions"].items() if name != "c")
    note = f"{results['device']}, medians of {results['rounds']} rounds" + (f"; beside {beside}." if beside else ".")
    return "\n\n".join(part for part in (note, cpu_table(results), loops_table(results)) if part)


def put_into(path, text):
    with open(path) as file:
        whole = file.read()
    if whole.count(BEGIN) != 1 or whole.count(END) != 1:
        sys.exit(f"report.py: {path} needs one line `{BEGIN}` and, behind it, one `{END}`")
    before, rest = whole.split(BEGIN)
    with open(path, "w") as file:
        file.write(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}")


def chart(results):
    rows = {name: row for name, row in results["rows"].items() if row.get("limit_s", 1) > 2e-6}
    columns = used_columns(rows)
    left, width, step, top = 300, 520, 22, 70
    largest = max([100.0] + [share(row, labels) or 0 for row in rows.values() for _, labels, _ in columns])
    full = min(160, 20 * (int(largest) // 20 + 1))
    height = top + step * len(rows) + 40
    at = lambda value: left + width * min(value, full) / full
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 30} {height}" '
           'font-family="Helvetica, Arial, sans-serif" font-size="12">',
           f'<rect width="{left + width + 30}" height="{height}" fill="#ffffff"/>',
           f'<text x="12" y="20" font-size="14" font-weight="bold">{html.escape(results["device"])}</text>']
    x = 12
    for name, _, colour in columns:
        out.append(f'<circle cx="{x + 5}" cy="38" r="5" fill="{colour}"/>'
                   f'<text x="{x + 14}" y="42">{name}</text>')
        x += 34 + 7 * len(name)
    for value in range(0, full + 1, 20):
        colour = "#888888" if value == 100 else "#e4e4e4"
        out.append(f'<line x1="{at(value):.1f}" y1="{top - 10}" x2="{at(value):.1f}" y2="{height - 30}" '
                   f'stroke="{colour}"/><text x="{at(value):.1f}" y="{height - 14}" text-anchor="middle" '
                   f'fill="#555555">{value} %</text>')
    for i, (name, row) in enumerate(rows.items()):
        y = top + step * i + 8
        out.append(f'<text x="{left - 10}" y="{y + 4}" text-anchor="end">{html.escape(name)}</text>')
        for _, labels, colour in reversed(columns):  # Lockstep on top
            value = share(row, labels)
            if value is not None:
                out.append(f'<circle cx="{at(value):.1f}" cy="{y}" r="5" fill="{colour}" fill-opacity="0.85"/>')
    out.append(f'<text x="{left}" y="{height}" fill="#555555" font-size="11" dy="-2">speed as a share of the '
               f'same traffic alone</text></svg>')
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("results")
    parser.add_argument("--svg", metavar="FILE", help="write the chart to this file")
    parser.add_argument("--readme", metavar="FILE", help="put the tables into this file instead of printing them")
    options = parser.parse_args()
    with open(options.results) as file:
        results = json.load(file)
    if "part" in results:  # of gpu.sh: its rows, as gpu.py gives them
        found = {name: of["found"] for name, of in results["rows"].items() if "candidates" in of.get("found", {})}
        results = {"device": next((of["device"] for of in found.values()), results["machine"]["device"]), "rows": found}
    text = grid_text(results) if "grid" in results else text_of(results)
    if options.svg:
        with open(options.svg, "w") as file:
            file.write(chart(results))
        beside = os.path.relpath(options.svg, os.path.dirname(os.path.abspath(options.readme or ".")))
        text += f"\n\n![each candidate's speed as a share of the limit]({beside})" if options.readme else ""
    if options.readme:
        put_into(options.readme, text)
    else:
        print(text)


if __name__ == "__main__":
    main()
