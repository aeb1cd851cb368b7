#!/usr/bin/env python3
"""all.py RECORD WORD TOOL...: all tests that the tools list with --list-all and whose names contain WORD.

RECORD, a file of lines `passed NAME`, says which are done: those are left out, so that a run that was stopped goes on.
Remove it to begin anew. Exits 1 when a test failed; what cannot run here (status 77) is counted apart."""
import os
import subprocess
import sys
import time


def done_before(record):
    if not os.path.exists(record):
        return set()
    with open(record, encoding="utf-8") as file:
        return {line.split()[1] for line in file if line.startswith("passed ")}


def tests_of(tools, word):
    for tool in tools:
        listing = subprocess.run([tool, "--list-all"], stdout=subprocess.PIPE, text=True, check=True)
        yield from ((tool, name) for name in listing.stdout.split() if word in name)


def main():
    if len(sys.argv) < 4:
        print(__doc__, file=sys.stderr)
        return 2
    record, word, tools = sys.argv[1], sys.argv[2], sys.argv[3:]
    tests, done, failed, skipped = list(tests_of(tools, word)), done_before(record), [], 0
    for number, (tool, name) in enumerate(tests):
        own = f"{os.path.basename(tool)}/{name}"
        if own in done:
            continue
        begin = time.time()
        run = subprocess.run([tool, "--only", name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        verdict = {0: "passed", 77: "skipped"}.get(run.returncode, "failed")
        if verdict == "failed":
            failed.append(own)
            print(run.stdout)
        elif verdict == "passed":
            with open(record, "a", encoding="utf-8") as file:
                file.write(f"passed {own}\n")
        skipped += verdict == "skipped"
        print(f"{verdict} {own}: {number + 1} of {len(tests)}, {time.time() - begin:.0f} s", flush=True)
    print(f"{len(tests) - len(failed) - skipped} passed, {len(failed)} failed, {skipped} skipped {' '.join(failed)}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
