#!/usr/bin/env python3
"""Programs that use Lockstep under valgrind's memcheck: reads of memory nobody wrote or that was given up, and leaks.

    memcheck.py BUILD [EXPRESSION]

Runs the programs below that BUILD has, or those whose names match, and says of each whether it is clean. The code
of kernels is made for a processor that valgrind knows, without AVX-512. Ends with 1 when one is not clean."""
import os
import re
import subprocess
import sys
import tempfile
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VALGRIND = ["valgrind", "--quiet", "--error-exitcode=99", "--leak-check=full", "--show-leak-kinds=definite,indirect",
            "--errors-for-leak-kinds=definite,indirect", "--child-silent-after-fork=yes", "--num-callers=30"]
API = ["bind_test", "list_test", "launch_test", "graph_test", "profile_test", "program_test", "handles_test", "copy_test",
       "instance_test", "flat_test", "compile_test", "feed_test", "data_test", "shards_test", "sum_test",
       "sharded_test", "forms_test", "comm_test", "partition_test", "copy_stream_test"]


def programs(build):
    """Name and words of each client."""
    example = os.path.join(build, "examples")
    yield "linreg", [os.path.join(example, "linreg", "linreg"), "--steps", "20", "--device", "cpu"]
    yield "shuffled", [os.path.join(example, "linreg", "shuffled"), "cpu"]
    yield "embed_c", [os.path.join(example, "embed_c", "embed_c"), "--steps", "20", "--device", "cpu"]
    for step in ("examples/adamw/adamw.step", "tests/exec/programs/for_lists.step", "tests/fuzz/seeds/everything.step"):
        path = os.path.join(SOURCE, step)
        if os.path.exists(path):
            yield "check " + step, [os.path.join(build, "lockstep"), "check", path]
            yield "explain " + step, [os.path.join(build, "lockstep"), "explain", path]
    for name in API:
        yield name, [os.path.join(build, "tests", "api", name)]


def run(name, words, folder):
    environment = {**os.environ, "LOCKSTEP_CPU": "x86-64-v3", "LOCKSTEP_THREADS": "2",
                   "LOCKSTEP_CACHE_DIR": os.path.join(folder, "cache")}
    begin = time.time()
    log = os.path.join(folder, re.sub(r"\W", "_", name) + ".log")
    made = subprocess.run([*VALGRIND, f"--log-file={log}", *words], env=environment, cwd=SOURCE, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    verdict = {0: "clean", 77: "skipped", 99: "NOT CLEAN"}.get(made.returncode, f"FAILED ({made.returncode})")
    print(f"{verdict:10} {name}, {time.time() - begin:.0f} s", flush=True)
    if verdict not in ("clean", "skipped"):
        with open(log, encoding="utf-8", errors="replace") as file:
            print(made.stdout[-2000:], file.read()[:6000], sep="\n")
    return verdict


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    build, expression = os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) == 3 else ""
    verdicts = []
    with tempfile.TemporaryDirectory() as folder:
        for name, words in programs(build):
            if not re.search(expression, name):
                continue
            if os.path.exists(words[0]):
                verdicts.append(run(name, words, folder))
            else:
                print(f"{'not built':10} {name}")
    bad = len([v for v in verdicts if v not in ("clean", "skipped")])
    print(f"{verdicts.count('clean')} clean, {bad} not, {verdicts.count('skipped')} skipped")
    return bad > 0 or not verdicts


if __name__ == "__main__":
    sys.exit(main())
