"""Part 3: whole training steps: optimizers over lists, the mixed-precision phase, training loops."""
import json
import os
import re
import sys

import machine
import measure
import summary
from running import Row, python

sys.path.insert(0, measure.BENCH)
from cases import gpu_step_cases
from lockstep import ROOT

LATENCY = "AdamW of 16 elements: launches, replays, one call"


def case_names(options):
    return [case.name for case in gpu_step_cases(10 if options.tiny else 0)]


def read_json(status, text):
    """The JSON object that a program prints on its last line."""
    found = json.loads(text.strip().splitlines()[-1])
    numbers = ", ".join(f"{key} {value:,.0f}" if isinstance(value, float) else f"{key} {value}"
                        for key, value in found.items() if not isinstance(value, (dict, list)))
    return status == 0, {"says": numbers, "rates": found}


def read_linreg(status, text):
    rate = re.search(r"([\d.]+) steps/s", text)
    return status == 0 and rate is not None, {
        "says": f"{float(rate.group(1)):,.0f} steps/s" if rate else "", "rates": {"steps/s": float(rate.group(1))} if rate else {}}


def read_charlm(status, text):
    """The last line of progress: characters a second."""
    speeds = [float(line.split()[-3]) for line in text.splitlines() if re.match(r" *[1-9]\d* .* s$", line)]
    losses = re.findall(r"validation loss ([0-9.]+)", text)
    blas = re.search(r"products by (.*)", text)
    says = f"{speeds[-1]:,.0f} characters/s, loss {losses[-1]}" if speeds and losses else ""
    return status == 0 and bool(speeds and losses), {
        "says": says + (f", {blas.group(1)}" if blas else ""), "rates": {"characters/s": speeds[-1]} if speeds else {}}


def blas(options):
    """The vendor's library for charlm's products, or why there is none."""
    if options.device == "cpu":
        return ["--blas", "none"] if options.tiny else [], None
    named = os.environ.get("LOCKSTEP_CUBLAS")
    found = [named] if named else [file for file in machine.libraries("cublas") if "Lt" not in file] \
        if options.device.startswith("cuda") else machine.libraries("rocblas")
    if found:
        return ["--blas", found[0]], None
    return [], "cuBLAS was not found in the toolkit's usual places; LOCKSTEP_CUBLAS names it"


def charlm(options, kind):
    program = os.path.join(options.build, "examples", "charlm", "charlm")
    words, why = blas(options)
    small = "--layers 1 --channels 32 --heads 2 --context 8 --batch 2 --stop 2 --report 1 --evaluate 2".split()
    small += ["--text", os.path.join(measure.BENCH, "steps", "amp_phase.step")]  # any text will do
    full = "--stop 400 --report 100 --evaluate 400".split()
    return Row(f"charlm {kind}", [program, "--device", options.device, "--type", kind, "--sample", "0", *words,
                                  *(small if options.tiny else full)], 120, read_charlm, why=why)


def process_rows(options):
    latency = os.path.join(options.build, "tests", "bench", "latency")
    linreg = os.path.join(ROOT, "examples", "linreg", "linreg.step")
    adamw = os.path.join(measure.BENCH, "steps", "adamw_f32.step")
    count = "5" if options.tiny else "20000"
    peers = [*python(), os.path.join(measure.BENCH, "peers", "torch_loops.py"), "--device", options.device.split(":")[0],
             *(["--tiny"] if options.tiny else [])]
    cold = {"LOCKSTEP_CACHE": "off"}
    return [
        Row("linreg: launches, replays, one call", [latency, "steps", linreg, "linreg", "b=256,k=64", count,
                                                    options.device], 60, read_json),
        Row("linreg, the example", [os.path.join(options.build, "examples", "linreg", "linreg"), "--device", options.device,
                                    "--steps", "117" if options.tiny else "100000"], 60, read_linreg),
        Row("linreg in PyTorch", [*peers, "linreg"], 100, read_json),
        Row(LATENCY, [latency, "steps", adamw, "adamw", "n=16", count, options.device], 60, read_json),
        Row("first launch, cold", [latency, "first", adamw, "adamw", "1024", options.device], 60, read_json, cold),
        Row("first launch, from the cache", [latency, "first", adamw, "adamw", "1024", options.device], 60, read_json),
        charlm(options, "f32"),
        charlm(options, "bf16"),
        Row("charlm in PyTorch", [*peers, "charlm"], 150, read_json),
    ]


def names(options):
    return case_names(options) + [row.name for row in process_rows(options)]


def run(part, options, wanted):
    """The loops first: they are short, and nothing else shows them."""
    part.results["measured"] = [name for name in case_names(options) if wanted(name)]
    part.run_all([row for row in process_rows(options) if wanted(row.name)])
    measure.run(part, options, part.results["measured"])


def loops(results):
    lines = [{"loop": name, **of["rates"]} for name, of in results["rows"].items() if of.get("rates")]
    columns = list(dict.fromkeys(key for line in lines for key in line))
    return ["## Loops, a second; first launches in milliseconds", "", *summary.table(columns, lines)] if lines else []


TABLES = (loops, lambda results: measure.tables(results, results.get("measured", [])),
          lambda results: summary.plain_rows(results))
