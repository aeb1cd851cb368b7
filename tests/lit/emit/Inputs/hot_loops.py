"""Looks in x86 assembly for an innermost loop that holds each of the instructions given, so many times at
least and on the widest registers of this CPU, and no scalar division, no scalar root and no call but of
Lockstep's own functions.

hot_loops.py [--outer] TEXT INSTRUCTION:COUNT...      --outer: other loops may be in it
"""
import platform
import re
import sys

outer = "--outer" in sys.argv
sys.argv = [word for word in sys.argv if word != "--outer"]


def cpu_flags():
    for line in open("/proc/cpuinfo"):
        if line.startswith("flags"):
            return set(line.split(":")[1].split())
    return set()


def innermost_loops(lines):
    """From a label to a jump back to it, with no other such loop inside."""
    labels, loops = {}, []
    for number, line in enumerate(lines):
        label = re.match(r"\s*([.\w$]+):", line)
        if label:
            labels[label[1]] = number
        jump = re.match(r"\s+j\w+\s+([.\w$]+)", line)
        if jump and jump[1] in labels:
            begin = labels[jump[1]]
            if outer or not any(begin <= other[0] for other in loops):
                loops.append((begin, number))
    return [lines[begin : end + 1] for begin, end in loops]


def count(loop, instruction, register):
    """With AVX or without: vdivps is divps on a CPU that has only SSE."""
    name = instruction if register != "xmm" else instruction.lstrip("v")
    return sum(bool(re.match(rf"\s+{name}\b.*%{register}", line)) for line in loop)


if platform.machine() != "x86_64":
    print("not looked at: not an x86 CPU")
    sys.exit()
flags = cpu_flags()
register = "zmm" if "avx512f" in flags else "ymm" if "avx2" in flags else "xmm"
wanted = [(word.split(":")[0], int(word.split(":")[1])) for word in sys.argv[2:]]
if "fma" not in flags:
    wanted = [(name, least) for name, least in wanted if "fma" not in name and "fnm" not in name]
loops = innermost_loops(open(sys.argv[1]).read().splitlines())
hot = [loop for loop in loops if all(count(loop, name, register) >= least for name, least in wanted)]
# What combines neighbours goes from one short row to the next: a division of the row's own is scalar there.
if len(hot) > 1:
    hot = [loop for loop in hot if not any(re.match(r"\s+v?(perm|shuf)", line) for line in loop)]
print(f"{len(loops)} innermost loops, {len(hot)} hot on {register} registers")
for loop in hot:
    bad = [line for line in loop if re.match(r"\s+(v?(div|sqrt)s[sd]\b|call\S*\s+(?!ls_))", line)]
    if bad:
        sys.exit("\n".join(["in a hot loop:"] + bad))
if not hot:
    sys.exit("not vectorised: no loop has " + ", ".join(f"{least} {name}" for name, least in wanted))
print("vectorised")
