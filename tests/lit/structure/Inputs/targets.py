"""targets.py ROOT PAGES LOCKSTEP TABLE: holds what lists targets against the rows of TABLE, which is targets.def: the first
README, the completions in the folder PAGES, the help and the messages of the command LOCKSTEP, and every target that a source or
a page names."""
import os
import re
import subprocess
import sys

root, pages, lockstep, table = sys.argv[1:]
rows = open(table).read()
chips = re.findall(r'^CHIP\("(\w+)", (?:"(\w+)"|NULL), "(\w+)"', rows, re.M)
dialects = dict(re.findall(r'^DIALECT\((\w+),([^#]*?\))$', rows, re.M))
kinds = re.findall(r'^KIND\(\w+, \w+, \.pattern = "(\w+)"', rows, re.M)
built = [pattern for dialect, pattern in re.findall(r'^KIND\(\w+, (\w+), \.pattern = "(\w+)"', rows, re.M)
         if ".toolchain = " in dialects[dialect]]
forms = re.findall(r'^FORM\("(\w+)"', rows, re.M)
known = {name for chip in chips for name in chip[:2]}
faults = []


def text_of(path):
    with open(path, errors="replace") as file:
        return file.read()


def of(toolchain, prefix):
    return prefix + " ".join(name[len(prefix):] for name, _, tried in chips if tried == toolchain)


# The first README.
readme = text_of(os.path.join(root, "README.md"))
for phrase in (f"NVRTC: {of('nvrtc', 'sm_')}, PTX |", f"hipRTC: {of('hiprtc', 'gfx')}, clang: {of('clang', 'gfx')}, clang 20: {of('clang20', 'gfx')} |"):
    if phrase not in readme:
        faults.append(f"README.md does not say: {phrase}")

# Completions.
targets = " ".join([name for name, _, _ in chips] + [portable for _, portable, _ in chips if portable])
for file, before in (("lockstep.bash", "build:-t) echo 'list "), ("lockstep.bash", "explain:-t) echo 'words "),
                     ("lockstep.bash", f"emit:-t) echo 'words {' '.join(forms)} "), ("lockstep.fish", "(__lockstep_list "),
                     ("_lockstep", "_values -s , target ")):
    text = text_of(os.path.join(pages, file))
    at = text.find(before)
    taken = re.match(r"[\w ]*", text[at + len(before):]).group() if at >= 0 else "nothing"
    if taken != targets:
        faults.append(f"{file}: {before.split(':')[0].strip('(_ ')} takes {taken}, not {targets}")


# What the command says.
def say(*words):
    return subprocess.run([lockstep, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout


step = os.path.join(root, "examples", "adamw", "adamw.step")
for words, names in ((("build", "--help"), built), (("emit", step, "--target", "c:tpu"), kinds),
                     (("emit", "--help"), forms), (("emit", step, "--target", "zzzzzz"), forms),
                     (("emit", step, "--target", "ir:x"), forms)):
    said = re.findall(r"\w+", say(*words))
    for name in names:
        if name not in said:
            faults.append(f"lockstep {' '.join(words[::2])} does not speak of {name}")

# What sources and pages name, and how the compiler asks.
OTHERS = {"sm_60"}  # the oldest device for the runtime's own PTX
for top in ("README.md", "compiler", "runtime", "templates", "examples", "tests/README.md", "tests/bench/README.md",
            "tests/exec/exec_runner.c", "tests/fuzz", "tests/rtc/amd_lint.py", "tests/simt/simt_exec.c", "tests/bench"):
    where = os.path.join(root, top)
    files = [where] if os.path.isfile(where) else \
        [os.path.join(folder, name) for folder, _, names in os.walk(where) for name in names]
    for path in files:
        place = os.path.relpath(path, root)
        if not path.endswith((".c", ".h", ".def", ".md", ".py", ".cmake", ".txt", ".in", ".cu", ".hip")) or \
                path.endswith("targets.def") or "results" in path or re.search(r"runtime/monitor", place):
            continue
        text = text_of(path)
        for name in re.findall(r"\b(?:sm|compute)_\d+[af]?\b|\bgfx[0-9][0-9a-f]{2,}\b", text):
            if not {name, name.rstrip("af") if name[0] != "g" else name} & (known | OTHERS):
                faults.append(f"{place} names {name}, which is no row")
        if place.startswith("compiler/") and "/target/" not in place:
            for asked in re.findall(r'"(?:sm_|compute_|gfx)"|cmp\([^;]*"(?:cuda|hip|c|cpu)"\)|&target_\w+', text):
                faults.append(f"{place} asks for a target by name: {asked}")

print("\n".join(faults + [f"{len(chips)} chips, {len(kinds)} kinds, {len(forms)} forms, {len(faults)} faults"]))
sys.exit(bool(faults))
