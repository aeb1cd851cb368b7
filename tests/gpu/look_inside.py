"""Part 4: what the vendor's tools see: ncu on twelve kernels, compute-sanitizer on twenty programs; then the whole
execution matrix with the time that is left."""
import csv
import io
import os
import re
import shutil
import sys

import matrix
import measure
import summary
from running import Row

sys.path.insert(0, measure.BENCH)
from cases import gpu_row_cases, gpu_step_cases

# Rows of tests/bench/cases.py by the beginnings of their names; their sizes are the benchmark's.
KERNELS = ("GELU forward bf16", "SwiGLU backward bf16", "softmax bf16 8192", "LayerNorm forward bf16 8192",
           "LayerNorm backward bf16 8192", "RMSNorm forward bf16 8192", "RMSNorm forward f32 8192",
           "RMSNorm backward bf16 8192", "cross entropy and gradient bf16", "sum f32", "AdamW f32, the 148 tensors",
           "mixed-precision optimizer phase")
# Programs of tests/exec/programs, so that each kind of phase, of state between launches and of work on lists is there:
# maps, rows short, long and in strips, columns, scans, whole sums, gathers, lists with guards and reductions, draws.
PROGRAMS = ("activations", "adamw", "amp_phase", "backward", "blocks", "cross_entropy", "draws", "extremes", "gradients",
            "indexing", "lamb_clipped", "layernorm", "linreg", "list_guards", "list_reductions", "prologue", "scans",
            "short_rows", "strips", "temporaries")
TOOLS = ("memcheck", "racecheck", "synccheck")
SHARDS = 128

# column of the page -> metric of ncu's raw page
FIGURES = {"time ns": "gpu__time_duration.sum", "DRAM %": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
           "SM %": "sm__throughput.avg.pct_of_peak_sustained_elapsed", "L2 hits %": "lts__t_sector_hit_rate.pct",
           "warps %": "sm__warps_active.avg.pct_of_peak_sustained_active", "registers": "launch__registers_per_thread"}
WANTED = ("time ns", "DRAM %", "L2 hits %")  # without these a row says nothing
STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio$")


def raw_page(text):
    """The rows of `ncu --csv --page raw`: a heading, the units, then a kernel a line."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    table = list(csv.reader(io.StringIO("\n".join(line for line in lines[start:] if line.startswith('"')))))
    return [dict(zip(table[0], row)) for row in table[2:] if len(row) == len(table[0])]


def number(word):
    try:
        return float(word.replace(",", ""))
    except (ValueError, AttributeError):
        return None


def figures_of(kernel):
    found = {name: number(kernel.get(metric)) for name, metric in FIGURES.items()}
    stalls = [(number(value) or 0.0, match.group(1)) for name, value in kernel.items() if (match := STALL.match(name))]
    stalls = sorted((stall for stall in stalls if not stall[1].endswith("_not_issued")), reverse=True)
    found["stalls"] = ", ".join(f"{name} {value:.1f}" for value, name in stalls[:3])
    return {"kernel": kernel.get("Kernel Name", "?").split("(")[0], **{k: v for k, v in found.items() if v is not None}}


def read_ncu(status, text):
    kernels = [figures_of(kernel) for kernel in raw_page(text)]
    if not kernels:
        said = [line for line in text.splitlines() if "==ERROR==" in line or "rror" in line]
        return False, {"why": f"ncu gave no kernel: {(said or text.strip().splitlines() or ['no output'])[-1]}"[:300]}
    lacking = [name for name in WANTED if any(name not in kernel for kernel in kernels)]
    lacking += [] if all(kernel["stalls"] for kernel in kernels) else ["stalls"]
    facts = {"kernels": kernels, "says": f"DRAM {kernels[0].get('DRAM %', '?')} %, {kernels[0]['stalls']}"}
    if lacking:
        facts["why"] = f"ncu gave nothing for {', '.join(lacking)}"
    return status == 0 and not lacking, facts


def read_sanitizer(status, text):
    """Right when the tool says so itself: a program that did not start has no errors either."""
    count = re.search(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard", text)
    ran = re.search(r"(\d+) programs passed, 0 failed", text)
    problems = [line for line in text.splitlines()
                if re.match(r"=+ +(Invalid|Race|Error|Barrier|Program hit|Uninit|Potential|Divergent|Warning: Race)", line)]
    if not count:
        return False, {"why": (problems or text.strip().splitlines() or ["no output"])[-1].strip()[:300]}
    errors = int(count.group(1) or count.group(2) or 0)
    facts = {"says": f"{errors} errors"}
    if errors:
        facts.update(why=(problems or [count.group(0)])[0].strip("= ")[:300], wrong=[p.strip("= ") for p in problems[:10]])
    elif not ran:
        facts["why"] = "the program under the tool did not pass"
    return status == 0 and errors == 0 and ran is not None, facts


def tool(name, options):
    """Its path, or why it cannot be used."""
    path = shutil.which(name)
    if not path and not options.device.startswith("cuda"):
        return name, f"{name} is for CUDA"
    return path or name, None if path else f"{name} is not on the PATH"


def ncu_rows(options):
    path, why = tool("ncu", options)
    cases = {case.name: case for case in [*gpu_row_cases(10 if options.tiny else 0), *gpu_step_cases(10 if options.tiny else 0)]}
    made = []
    for start in KERNELS:
        start = start.replace(" 8192", " 8 ") if options.tiny else start
        case = next(case for name, case in cases.items() if name.startswith(start))
        step = case.step.rsplit(":", 1)[1]
        command = [path, "--csv", "--page", "raw", "--print-units", "base", "--target-processes", "application-only",
                   "--clock-control", "none", "--kernel-name", f"regex:{step}", "--launch-skip", "4", "--launch-count",
                   "2", "--section", "SpeedOfLight", "--section", "MemoryWorkloadAnalysis", "--section",
                   "WarpStateStats", "--section", "Occupancy", "--section", "LaunchStats", "--metrics",
                   ",".join(FIGURES.values()), os.path.join(options.build, "lockstep"), "bench", case.step, "--size",
                   case.sizes, "--rounds", "1", "--device", options.device]
        made.append(Row(f"ncu {case.name}", command, 60, read_ncu, why=why))
    return made


def sanitizer_rows(options):
    path, why = tool("compute-sanitizer", options)
    runner = os.path.join(options.build, "tests", "exec", "exec_runner")
    return [Row(f"{kind} {program}", [path, "--tool", kind, "--error-exitcode", "9", "--print-limit", "20", runner,
                                      "--device", options.device, "--quick", "--only", program], 90, read_sanitizer, why=why)
            for program in PROGRAMS for kind in TOOLS]


def matrix_rows(options):
    return matrix.rows(options.build, options.device, SHARDS, options.tiny, 300)


def names(options):
    return [row.name for row in [*ncu_rows(options), *sanitizer_rows(options), *matrix_rows(options)]]


def run(part, options, wanted):
    """ncu has the device to itself: its figures are of a device that does one thing."""
    part.run_all([row for row in ncu_rows(options) if wanted(row.name)])
    part.run_all([row for row in sanitizer_rows(options) if wanted(row.name)], max(1, options.jobs // 2))
    part.run_all([row for row in matrix_rows(options) if wanted(row.name)], options.jobs)


def kernels(results):
    lines = [{"row": name[4:], **kernel} for name, of in results["rows"].items() for kernel in of.get("kernels", [])]
    return ["## Kernels, by ncu", "", *summary.table(("row", "kernel", *FIGURES, "stalls"), lines),
            "DRAM % and SM % are of the peak; stalls are the warps that wait for each instruction issued.", ""] \
        if lines else []


def sanitizer(results):
    rows = {name: of for name, of in results["rows"].items() if name.split()[0] in TOOLS}
    lines = [{"program": program, **{kind: rows[f"{kind} {program}"].get("says") or rows[f"{kind} {program}"]["state"]
                                     for kind in TOOLS if f"{kind} {program}" in rows}}
             for program in PROGRAMS if any(f"{kind} {program}" in rows for kind in TOOLS)]
    return ["## compute-sanitizer", "", *summary.table(("program", *TOOLS), lines)] if lines else []


TABLES = (kernels, sanitizer, matrix.totals)
