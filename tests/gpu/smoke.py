"""Part 1: what a trainer asks of the runtime, the functions over all inputs, the execution matrix, on a device."""
import os
import re

import matrix
import summary
import sweep
from running import Row, python

HERE = os.path.dirname(os.path.abspath(__file__))
CHECKS = ("devices", "capture", "update", "repeat", "cooperative", "feed", "streams", "memory", "monitor")
TOGETHER = 8  # functions of a process, which are compiled at once
SHARDS = 96


def read_check(status, text):
    lines = [line for line in text.splitlines() if line.strip()]
    facts = {"says": "; ".join(line for line in lines[-4:] if not line.startswith("ok:"))[:200]}
    return status == 0 and bool(lines) and lines[-1].startswith("ok: "), facts


def read_sweep(status, text):
    right, wrong = re.findall(r"^ok (\S+) [0-9a-f]{16} ", text, re.M), re.findall(r"^(FAILED .*)", text, re.M)
    facts = {"says": f"{len(right)} functions right" + (f", {len(wrong)} wrong" if wrong else ""),
             "functions": len(right)}
    if wrong:
        facts.update(why=wrong[0], wrong=wrong)
    return status == 0 and bool(right) and not wrong, facts


# Programs with more elements than the quick matrix takes: row panels are of 1024 rows of 512 columns and more.
WHOLE = ("row_panels",)


def rows(options):
    smoke = os.path.join(options.build, "tests", "gpu", "gpu_smoke")
    tiny = ["--tiny"] if options.tiny else []
    made = [Row(f"check {name}", [smoke, name, options.device, *tiny], 60, read_check) for name in CHECKS]
    made.append(Row("check torch_stream", [*python(), os.path.join(HERE, "torch_stream.py"), "--build", options.build,
                                           "--device", options.device], 90, read_check))
    runner = os.path.join(options.build, "tests", "exec", "exec_runner")
    made += [Row(f"whole {program}", [runner, "--device", options.device, *(["--quick"] if options.tiny else []), "--only",
                                      program], 150, matrix.read) for program in WHOLE]
    names = list(sweep.FUNCTIONS)
    for i in range(0, len(names), TOGETHER):
        group = names[i:i + TOGETHER]
        made.append(Row("sweep " + " ".join(group),
                        [*python(), os.path.join(HERE, "sweep.py"), "--build", options.build, "--device", options.device,
                         *(["--sample"] if options.tiny or options.device == "cpu" else []), *group],
                        150, read_sweep))
    return made


def names(options):
    return [row.name for row in [*rows(options), *matrix.rows(options.build, options.device, SHARDS, True, 240)]]


def run(part, options, wanted):
    """The checks one by one, so that they have the device to themselves; the rest side by side."""
    made = [row for row in rows(options) if wanted(row.name)]
    checks = [row for row in made if row.name.startswith("check")]
    part.run_all(checks)
    part.run_all([row for row in made if row not in checks], min(4, options.jobs))
    part.run_all([row for row in matrix.rows(options.build, options.device, SHARDS, True, 240) if wanted(row.name)],
                 options.jobs)


TABLES = (matrix.totals,
          lambda results: summary.plain_rows({"rows": {name: of for name, of in results["rows"].items()
                                                       if not name.startswith("matrix")}}))
