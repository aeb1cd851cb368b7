"""What the measuring parts share: rows of tests/bench/gpu.py, asked for one by one of a worker, and their tables."""
import os

import machine
import summary
from running import Worker, python

BENCH = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bench")
LIMIT = 75.0  # seconds of a row, its compiles included


def script(options):
    command = [*python(), os.path.join(BENCH, "gpu.py"), "--build", options.build, "--device",
               options.device.split(":")[0], "--rounds", str(options.rounds)]
    return command + (["--shift", "10", "--sample", "0.0005", "--peers", "none"] if options.tiny else [])


def say(found):
    """A row passed when Lockstep was measured and nobody computed something else."""
    own, failed = found["candidates"].get("lockstep"), found.get("failed", {})
    different = [f"{name}: {why}" for name, why in failed.items() if "differ" in why]
    if not own:
        return False, {"why": failed.get("row", "Lockstep was not measured"), "found": found}
    says = f"{own['gb_s']:,.0f} GB/s, {100 * own['fraction_of_copy']:.0f} % of the traffic alone"
    if different:
        return False, {"why": "; ".join(different)[:300], "wrong": different, "says": says, "found": found}
    return True, {"says": says, "found": found}


def run(part, options, names):
    worker = Worker(part, [*script(options), "--worker"])
    worker.run(names, LIMIT, say, lambda name: " ".join(script(options)) + f" --only '^{name}$'")
    heads = [of["found"] for of in part.results["rows"].values() if "device" in of.get("found", {})]
    if heads:
        part.results["machine"]["beside"] = heads[-1]["versions"] or "nobody"
        part.results["machine"]["without"] = heads[-1]["missing"] or "nobody"


def cell(of, row):
    if of is None:
        return ""
    share = 100 * of["fraction_of_copy"]
    mark = "" if of["clock"] == "device" else "†"
    return f"{share:.0f} %{mark}" if not row["small"] else f"{1e6 * of['median_s']:.1f} µs{mark}"


def tables(results, names):
    """% of the traffic-only kernel for large rows, and microseconds for small ones; Lockstep first."""
    found = {name: of["found"] for name, of in results["rows"].items() if name in names and "candidates" in of.get("found", {})}
    device = results["machine"].get("nvidia-smi name", "")
    sheet, lines = machine.datasheet(device), []
    for small, title in ((False, "Large rows: share of the traffic-only kernel"),
                         (True, "Small rows: microseconds, with a cold cache")):
        rows = {name: row for name, row in found.items() if row.get("small") == small and row["candidates"]}
        labels = list(dict.fromkeys(label for row in rows.values() for label in row["candidates"]))
        if not rows:
            continue
        lines += [f"## {title}", ""]
        shown = []
        for name, row in rows.items():
            own, others = row["candidates"].get("lockstep"), [
                of["median_s"] for label, of in row["candidates"].items() if not label.startswith("lockstep")]
            mine = [of["median_s"] for label, of in row["candidates"].items() if label.startswith("lockstep")]
            shown.append({"row": name, "limit GB/s": f"{row['copy_gb_s']:,.0f}",
                          "GB/s": f"{own['gb_s']:,.0f}" if own else "",
                          "of the datasheet": f"{100 * own['gb_s'] / sheet:.0f} %" if own and sheet else "",
                          **{label: cell(row["candidates"].get(label), row) for label in labels},
                          "against the best": f"{min(others) / min(mine):.2f} ×" if others and mine else ""})
        lines += summary.table(("row", "limit GB/s", "GB/s", "of the datasheet", *labels, "against the best"), shown)
    if any("†" in line for line in lines):
        lines += ["† by the host's clock, with a warm cache: the library has a stream of its own.", ""]
    out = [f"- {name}: {label}: {why}" for name, row in found.items() for label, why in row.get("failed", {}).items()
           if "does no such work" not in why]
    return lines + (["## Candidates that were left out", "", *out, ""] if out else [])
