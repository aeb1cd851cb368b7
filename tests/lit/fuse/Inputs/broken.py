"""broken.py PLAN_TOOL FILE: makes each change that FILE's comments list in the plan of FILE, and wants
the checker to refuse the plan with the message behind it. Unchanged it is legal.

    # replace "reduce %2" by "reduce %3": phase 0: what it reduces is a reduction
    # replace "..." by "..." and "..." by "...": ...
"""
import re
import subprocess
import sys


def refusal(tool, text):
    with open(sys.argv[3], "w") as out:
        out.write(text)
    done = subprocess.run([tool, "--check", sys.argv[3]], capture_output=True, text=True)
    return done.stderr if done.returncode else ""


tool, path = sys.argv[1:3]
lines = open(path).read().splitlines(keepends=True)
plan = "".join(line for line in lines if not line.startswith("#"))
changes = re.findall(r'^# replace ("[^"]*" by "[^"]*"(?: and "[^"]*" by "[^"]*")*): (.*)$',
                     "".join(lines), re.M)
wrong = [("unchanged", refusal(tool, plan))] if refusal(tool, plan) else []
for change, message in changes:
    broken, found = plan, ""
    for before, after in re.findall(r'"([^"]*)" by "([^"]*)"', change):
        before, after = before.replace("\\n", "\n"), after.replace("\\n", "\n")
        if before not in broken:
            found = f'"{before}" is not there'
        broken = broken.replace(before, after, 1)
    found = found or refusal(tool, broken)
    if not found.endswith(": " + message + "\n"):
        wrong.append((change, found))
for change, found in wrong:
    print(f"{change}: {found}")
print(f"{len(changes)} changes, {len(wrong)} not refused as they should be")
