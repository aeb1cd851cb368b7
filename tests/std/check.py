"""Runs the steps of the standard library on the CPU and compares them with the results recorded in
expected/: `check.py LOCKSTEP FAMILY [CASE]`. Needs nothing but Python. record.py says where the
expected results come from. Exit status 1 if any number is further off than its tolerance.

A case is a step, the numbers and arrays it starts from, and one or more launches, each with its
inputs and expected outputs. What a launch leaves in the state goes into the next; a state that
starts at null is left to its default.
"""
import json
import math
import os
import subprocess
import sys
import tempfile

import tensors

HERE = os.path.dirname(os.path.abspath(__file__))


def plain(value):
    """[(where, number)] of a value, with the shapes for a message."""
    if isinstance(value, dict) and "list" in value:
        return [(f"[{at}] {number[0]}", number[1]) for at, part in enumerate(value["list"])
                for number in plain(part)]
    if isinstance(value, dict):
        return [(f"[{at}] of {value['shape']}", number) for at, number in enumerate(value["data"])]
    return [("", value)]


def expanded(value):
    """A case as json.load makes it, with data 0 as so many zeros."""
    if isinstance(value, list):
        return [expanded(part) for part in value]
    if isinstance(value, dict):
        value = {key: expanded(part) for key, part in value.items()}
        if value.get("data") == 0:
            value["data"] = [0] * math.prod(value["shape"])
    return value


def shapes(value):
    if isinstance(value, dict):
        return [part["shape"] for part in value["list"]] if "list" in value else value["shape"]
    return []


def compare(name, got, want, tolerance):
    """What is wrong with an output, as lines; empty when all is well."""
    if shapes(got) != shapes(want):
        return [f"{name} has shape {shapes(got)}, expected {shapes(want)}"]
    relative, absolute = tolerance
    wrong = []
    for (where, is_), (_, should) in zip(plain(got), plain(want)):
        if isinstance(should, bool) or isinstance(is_, bool):
            fine, limit = is_ == should, 0
        elif math.isnan(should) or math.isnan(is_):
            fine, limit = math.isnan(should) and math.isnan(is_), 0
        elif math.isinf(should) or math.isinf(is_):
            fine, limit = is_ == should, 0
        else:
            limit = absolute + relative * abs(should)
            fine = abs(is_ - should) <= limit
        if not fine:
            wrong.append(f"{name}{where} is {is_!r}, expected {should!r} within {limit:.3g}")
    if len(wrong) > 4:
        wrong[4:] = [f"... and {len(wrong) - 4} more of {len(plain(want))} in {name}"]
    return wrong


def written(value):
    """A number as an argument."""
    return str(value).lower() if isinstance(value, bool) else repr(value)


def launch(lockstep, step, arguments, outputs, folder, sizes=None):
    """One process, one launch. Gives the outputs, or raises RuntimeError with what it said."""
    source = step if step.startswith("std/") else os.path.join(HERE, step)
    command = [lockstep, "run", source, "--device", "cpu"]
    for name, value in arguments.items():
        if isinstance(value, dict):
            path = os.path.join(folder, name + ".in.safetensors")
            tensors.write(path, value)
            command.append(f"{name}={path}")
        else:
            command.append(f"{name}={written(value)}")
    if sizes:
        command += ["--size", sizes]
    paths = {name: os.path.join(folder, name + ".out.safetensors") for name in outputs}
    for name, path in paths.items():
        command += ["-o", f"{name}={path}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"$ {' '.join(command)}\n{done.stdout}exit status {done.returncode}")
    return {name: tensors.read(path, isinstance(outputs[name], dict) and "list" in outputs[name])
            for name, path in paths.items()}


def check(lockstep, case):
    """The lines that say what is wrong with a case."""
    state, wrong = dict(case.get("start", {})), []
    for number, entry in enumerate(case["launches"], 1):
        want = entry["out"]
        with tempfile.TemporaryDirectory() as folder:
            known = {name: value for name, value in state.items() if value is not None}
            arguments = {**case.get("numbers", {}), **known, **entry.get("in", {})}
            asked = {**{name: value for name, value in state.items()}, **want}
            try:
                got = launch(lockstep, case["step"], arguments, asked, folder, case.get("sizes"))
            except (RuntimeError, ValueError, KeyError) as error:
                return wrong + [f"launch {number}: {error}"]
        for name, expected in want.items():
            tolerance = case["tolerance"].get(name, case["tolerance"]["*"])
            wrong += [f"launch {number}: {line}" for line in compare(name, got[name], expected, tolerance)]
        state = {name: got[name] for name in state}
    return wrong


def main():
    lockstep, family = sys.argv[1:3]
    only = sys.argv[3:]
    with open(os.path.join(HERE, "expected", family + ".json"), encoding="utf-8") as file:
        cases = expanded(json.load(file))
    chosen = [case for case in cases if not only or case["name"] in only]
    failed = 0
    for case in chosen:
        wrong = check(os.path.abspath(lockstep), case)
        failed += bool(wrong)
        print(f"{'FAIL' if wrong else 'ok  '} {case['name']} ({case['step']})")
        for line in wrong:
            print("     " + line.replace("\n", "\n     "))
    print(f"{family}: {len(chosen) - failed} of {len(chosen)} cases as expected")
    sys.exit(1 if failed or not chosen else 0)


if __name__ == "__main__":
    main()
