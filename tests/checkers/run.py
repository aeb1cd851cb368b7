#!/usr/bin/env python3
"""Tests under a sanitizer, in a build folder of their own.

    run.py KIND SOURCE BUILD [EXPRESSION]

KIND is `address` (AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer: the whole suite) or `thread`
(ThreadSanitizer: the tests with threads). Configures and builds BUILD/KIND and runs the tests there, or those whose
names match the expression. Prints how many passed, by folder; ends with 1 when one failed."""
import collections
import json
import os
import subprocess
import sys

LIT = "/usr/lib/llvm-14/build/utils/lit/lit.py"
KINDS = {
    "address": {"sanitize": "address,undefined", "expression": "", "prefix": [],
                # Requests that nobody can meet come back as NULL, as they do without a sanitizer.
                "environment": {"ASAN_OPTIONS": "allocator_may_return_null=1",
                                "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1"}},
    # Older versions of it cannot do with addresses that are as random as newer kernels make them.
    "thread": {"sanitize": "thread", "expression": ":: (api|files|monitor|driver|rtc|soak)/", "prefix": ["setarch", "-R"],
               "environment": {"TSAN_OPTIONS": "halt_on_error=1:exitcode=66:die_after_fork=0"}},
}


def build(kind, source, folder):
    configure = ["cmake", "-S", source, "-B", folder, "-G", "Ninja", f"-DLOCKSTEP_SANITIZE={kind['sanitize']}"]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", folder, "--parallel", "2"], check=True)


def run_tests(kind, folder, expression):
    results = os.path.join(folder, "tests", "results.json")
    if os.path.exists(results):
        os.remove(results)
    subprocess.run([*kind["prefix"], sys.executable, LIT, "--workers", "2", "--filter", expression, "--verbose",
                    "--output", results, os.path.join(folder, "tests", "lit"), os.path.join(folder, "tests", "executables")],
                   env={**os.environ, **kind["environment"]})
    if not os.path.exists(results):
        sys.exit("run.py: no test ran")
    with open(results, encoding="utf-8") as file:
        return json.load(file)["tests"]


def count(tests):
    """Prints a line a folder; how many failed."""
    folders = collections.defaultdict(collections.Counter)
    for test in tests:
        name = test["name"].split(" :: ")[-1]
        code = {"PASS": "passed", "FLAKYPASS": "passed", "UNSUPPORTED": "skipped"}.get(test["code"], "failed")
        if test["code"] != "EXCLUDED":
            folders[name.split("/")[0]][code] += 1
    for folder, codes in sorted(folders.items()):
        print(f"{folder:12}" + "".join(f" {codes[code]:5} {code}" for code in ("passed", "failed", "skipped")))
    whole = sum(folders.values(), collections.Counter())
    print(f"{whole['passed']} passed, {whole['failed']} failed, {whole['skipped']} skipped")
    return whole["failed"]


def main():
    if len(sys.argv) not in (4, 5) or sys.argv[1] not in KINDS:
        print(__doc__, file=sys.stderr)
        return 2
    kind, source, folder = KINDS[sys.argv[1]], sys.argv[2], os.path.join(sys.argv[3], sys.argv[1])
    expression = sys.argv[4] if len(sys.argv) == 5 and sys.argv[4] else kind["expression"]
    build(kind, source, folder)
    return count(run_tests(kind, folder, expression)) > 0


if __name__ == "__main__":
    sys.exit(main())
