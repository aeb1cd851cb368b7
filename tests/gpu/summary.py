"""A part's page: what failed first, with the command that repeats it, then the tables, then the machine."""
import os

WORST_FIRST = ("failed", "stopped", "cut off", "not run", "absent", "ok")


def cell(value):
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value).replace("|", "\\|").replace("\n", " ")


def table(columns, lines):
    if not lines:
        return []
    return ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns),
            *("| " + " | ".join(cell(of.get(column, "")) for column in columns) + " |" for of in lines), ""]


def counted(rows):
    numbers = {state: sum(of["state"] == state for of in rows.values()) for state in WORST_FIRST}
    return ", ".join(f"{number} {state}" for state, number in numbers.items() if number) or "nothing was run"


def failures(rows):
    lines = []
    for name, of in rows.items():
        if of["state"] in ("failed", "stopped"):
            lines += [f"- **{name}**: {cell(of.get('why', ''))}", f"  `{of.get('command', '')}`"]
            lines += [f"  - {cell(word)}" for word in of.get("wrong", [])[:10]]
    return ["## Failed", "", *lines, ""] if lines else ["Nothing failed.", ""]


def left_out(rows):
    lines = [f"- {name} ({of['state']}): {cell(of.get('why', ''))}" for name, of in rows.items()
             if of["state"] in ("cut off", "not run", "absent")]
    return ["## Not run, or not to the end", "", *lines, ""] if lines else []


def machine(facts):
    lines = []
    for key, value in facts.items():
        if isinstance(value, list):
            lines += [f"- {key}:", *(f"      {line}" for line in value)]
        elif isinstance(value, dict):
            lines.append(f"- {key}: " + ", ".join(f"{k} {cell(v)}" for k, v in value.items()))
        else:
            lines.append(f"- {key}: {cell(value)}")
    return ["## Machine", "", *lines, ""]


def page(part, tables):
    """tables: functions of the results that give lines."""
    results = part.results
    rows = results["rows"]
    lines = [f"# gpu.sh {results['part']} on {results['machine'].get('device', '?')}: {counted(rows)}", "",
             f"{results['state']}, {results.get('seconds', 0):.0f} s of {60 * results['minutes']:.0f}.", ""]
    lines += failures(rows)
    for of in tables:
        lines += of(results)
    return "\n".join([*lines, *left_out(rows), *machine(results["machine"])]) + "\n"


def write(part, tables):
    path = os.path.join(part.folder, "summary.md")
    with open(path + ".part", "w") as file:
        file.write(page(part, tables))
    os.replace(path + ".part", path)


def plain_rows(results):
    """Every row with what it says, where a part has no table of its own."""
    return ["## Rows", "", *table(("row", "state", "seconds", "says"), [
        {"row": name, "state": of["state"], "seconds": of.get("seconds", ""), "says": of.get("says", "")}
        for name, of in results["rows"].items()])]
