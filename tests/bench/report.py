#!/usr/bin/env python3
"""Turns what tests/bench/gpu.py measured into the README's table and chart.

    python3 tests/bench/report.py RESULT.json [--svg FILE]

Prints a Markdown table: each candidate's share of the device's own copy rate, in percent. The chart has the
same figures: a line for each row of the table, a mark for each candidate."""
import argparse
import html
import json

# label -> (column of the table, colour); labels of one column never meet in one row
COLUMNS = (
    ("Lockstep", ("lockstep",), "#c0392b"),
    ("torch eager", ("torch eager", "torch foreach"), "#b0b7bf"),
    ("torch fused", ("torch fused", "torch, fused AdamW"), "#6c7a89"),
    ("torch compiled", ("torch compiled",), "#2c3e50"),
    ("Triton", ("triton",), "#2980b9"),
    ("CuPy", ("cupy",), "#27ae60"),
    ("JAX", ("jax",), "#8e44ad"),
)


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
    lines = [f"| % of the copy rate | Lockstep GB/s | {' | '.join(name for name, _, _ in columns)} |",
             "| --- |" + " --- |" * (len(columns) + 1)]
    for name, row in rows.items():
        own = row["candidates"].get("lockstep")
        cells = [f"{own['gb_s']:,.0f}" if own else "–"]
        for _, labels, _ in columns:
            value = share(row, labels)
            cells.append("–" if value is None else f"{value:.1f}" if value < 10 else f"{value:.0f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def chart(results):
    rows, columns = results["rows"], used_columns(results["rows"])
    left, width, step, top = 300, 520, 22, 70
    largest = max([100.0] + [share(row, labels) or 0 for row in rows.values() for _, labels, _ in columns])
    full = 20 * (int(largest) // 20 + 1)
    height = top + step * len(rows) + 40
    at = lambda value: left + width * value / full
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
               'device copying as many bytes</text></svg>')
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("results")
    parser.add_argument("--svg", help="write the chart to this file")
    options = parser.parse_args()
    with open(options.results) as file:
        results = json.load(file)
    results = results.get("bench", results)  # gpu.sh puts it among the rest
    print(table(results))
    if options.svg:
        with open(options.svg, "w") as file:
            file.write(chart(results))


if __name__ == "__main__":
    main()
