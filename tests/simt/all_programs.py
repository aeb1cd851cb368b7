#!/usr/bin/env python3
"""all_programs.py SIMT_EXEC MACHINE RECORD: every program of the execution tests on an emulated machine that runs
what a compiler made: emulated-ptx, emulated-gfx942, emulated-gfx1151.

RECORD, a file of lines `passed NAME`, says which are done: those are left out, so that a run that was stopped goes on.
Remove it to begin anew. Exits 1 when a program failed."""
import os
import subprocess
import sys
import time


def done_before(record):
    if not os.path.exists(record):
        return set()
    with open(record, encoding="ascii") as file:
        return {line.split()[1] for line in file if line.startswith("passed ")}


def main():
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    tool, machine, record = sys.argv[1:]
    names = subprocess.run([tool, "--list-all", machine], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    done, failed = done_before(record), []
    for number, name in enumerate(names):
        if name in done:
            continue
        begin = time.time()
        run = subprocess.run([tool, "--only", name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if run.returncode == 77:
            print(run.stdout)
            return 77
        verdict = "failed" if run.returncode else "passed"
        if run.returncode:
            failed.append(name)
            print(run.stdout)
        else:
            with open(record, "a", encoding="ascii") as file:
                file.write(f"passed {name}\n")
        print(f"{verdict} {name}: {number + 1} of {len(names)}, {time.time() - begin:.0f} s", flush=True)
    print(f"{len(names) - len(failed)} passed, {len(failed)} failed {' '.join(failed)}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
