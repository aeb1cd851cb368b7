#!/usr/bin/env python3
"""Reads AMD machine code for memory that another block may not see, on its control flow graph.

    amd_lint.py --listing CHIP FILE...       listings: clang's -S, or the disassembly of
                                             `lockstep emit --target asm:CHIP`; - is stdin
    amd_lint.py --text CHIP FILE...          HIP texts, which clang compiles
    amd_lint.py --library SOURCES STEPFILE...
                                             the texts that SOURCES, see sources.c, writes of
                                             programs: of every step one for each way in which
                                             its blocks wait for each other, every other one of
                                             these; --all: every text, for every chip

A rule is a function of a Listing that gives (number of a line, what is wrong there); RULES has
them all. LOCKSTEP_CLANG_AMD names the compiler, by default clang-19. Exit status 1 for a fault."""
import collections
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

from targets import clang_options, tried_with

# From gfx10 on a block has the caches of one compute unit or of two; hipRTC has it in one.
CHIPS = ["gfx90a", "gfx1030", *tried_with("clang"), "gfx1030:cumode", "gfx1151:cumode"]
SEVERAL_SECOND_CACHES = ("gfx942", "gfx950")
OPTIONS = clang_options("EXACT", "ASSEMBLY")
# The two ways in which a thread speaks for its block.
WAYS = [re.compile(r"ls_wait_for_blocks\(a->"), re.compile(r"LS_LAST\(a->")]

Line = collections.namedtuple("Line", "number kernel name operands")


class Listing:
    """Instructions in order, and of each the numbers of those that may come next."""

    def __init__(self, chip, text):
        self.chip, self.text = chip.partition(":")[0], text
        self.two_caches = re.search(r"\.amdhsa_workgroup_processor_mode 1\b", text) is not None
        self.lines, labels, addresses, kernel, start = [], {}, {}, "", 0
        for number, raw in enumerate(text.splitlines(), 1):
            # "name: ; comment", "\tname operands ; comment", "\tname operands // 001600: C00E ... <kernel+0x10>"
            code, _, comment = raw.partition("//")
            code = code.split(";")[0].rstrip()
            label = re.match(r"<?([\w.$]+)>?:$", code.strip())
            if label:
                labels[label[1]] = len(self.lines)
                if not label[1].startswith("."):
                    kernel = label[1]
            elif re.match(r"\s+[a-z]\w+(\s|$)", code):
                address = re.match(r" *([0-9A-F]+):", comment)
                if address:
                    if not self.lines or self.lines[-1].kernel != kernel:
                        start = int(address[1], 16)
                    addresses[kernel, int(address[1], 16) - start] = len(self.lines)
                name, _, operands = code.strip().partition(" ")
                target = re.search(r"<([\w.$]+)\+0x([0-9a-fA-F]+)>", comment)
                if target and name.startswith(("s_branch", "s_cbranch")):
                    operands = (target[1], int(target[2], 16))
                self.lines.append(Line(number, kernel, name, operands))
        self.next = [list(self.following(at, labels, addresses)) for at in range(len(self.lines))]
        self.before = [[] for _ in self.lines]
        for at, followers in enumerate(self.next):
            for follower in followers:
                self.before[follower].append(at)

    def following(self, at, labels, addresses):
        line = self.lines[at]
        if line.name.startswith(("s_setpc", "s_swappc", "s_call")):
            far = self.far_target(at)
            if far is None:
                raise ValueError(f"line {line.number}: {line.name}: the graph cannot be drawn")
            yield labels[far]
            return
        if line.name in ("s_branch",) or line.name.startswith("s_cbranch"):
            where = line.operands
            yield addresses[where] if isinstance(where, tuple) else labels[where.strip()]
        if line.name not in ("s_branch", "s_endpgm") and at + 1 < len(self.lines) and \
                self.lines[at + 1].kernel == line.kernel:
            yield at + 1

    def far_target(self, at):
        """The label of a branch beyond the reach of s_branch: s_getpc, the distance added to it, s_setpc."""
        if not self.lines[at].name.startswith("s_setpc"):
            return None
        for before in reversed(self.lines[max(0, at - 8):at]):
            distance = re.search(r"\((\.\w+)-\.Lpost_getpc\d+\)", str(before.operands))
            if distance:
                return distance[1]
        return None

    def forward(self, begin, step):
        """The states, sets of facts, in which each instruction may be reached: those of all ways
        to it together. step(line, facts) gives what holds behind the instruction."""
        before = [None] * len(self.lines)
        work = []
        for at, line in enumerate(self.lines):
            if at == 0 or self.lines[at - 1].kernel != line.kernel:
                before[at] = frozenset(begin)
                work.append(at)
        while work:
            at = work.pop()
            after = frozenset(step(self.lines[at], before[at]))
            for follower in self.next[at]:
                joined = after if before[follower] is None else before[follower] | after
                if joined != before[follower]:
                    before[follower] = joined
                    work.append(follower)
        return before

    def reached(self, begin, stops, backward=False):
        """What may come behind the instructions of `begin`, or before them, up to and including
        the first one on each way that `stops`."""
        seen, work = set(), list(begin)
        steps = self.before if backward else self.next
        while work:
            for near in steps[work.pop()]:
                if near not in seen:
                    seen.add(near)
                    if not stops(self.lines[near]):
                        work.append(near)
        return seen

    def where(self, matches):
        return [at for at, line in enumerate(self.lines) if matches(line)]


# What instructions are.

def generation(chip):
    return int(chip[3:-2])  # gfx90a: 9, gfx1100: 11


def is_store(line):
    return re.match(r"(global|flat)_store", line.name) is not None


def is_load(line):
    return re.match(r"(global|flat)_load", line.name) is not None


def is_atomic(line):
    return re.match(r"(global|flat)_atomic", line.name) is not None


def is_counter(line):
    """An atomic of 32 bits. Those of 64 add to sums, which publish nothing."""
    return is_atomic(line) and not re.search(r"(_x2|64)$", line.name)


def is_coherent(line):
    """A load from the cache that blocks share: of a counter, or of what is volatile."""
    return is_load(line) and re.search(r"\b(sc1|glc|scope:SCOPE_(DEV|SYS))\b", line.operands) is not None


def is_sleep(line):
    return line.name == "s_sleep"


def is_barrier(line):
    return line.name in ("s_barrier", "s_barrier_wait")


def waits_for(chip, line, loads):
    """Whether it waits until all earlier loads (and atomics that return a value), or else all
    earlier stores, are done."""
    counter = "loadcnt" if loads else "storecnt"
    if line.name == "s_waitcnt":
        if not loads and generation(chip) >= 10:
            return False
        return "vmcnt(0)" in line.operands or line.operands.strip() in ("0", "0x0")
    if line.name == "s_waitcnt_vscnt":
        return not loads and re.search(r",\s*(0x0|0)$", line.operands) is not None
    return line.name.startswith("s_wait_") and counter in line.name and \
        line.operands.strip() in ("0", "0x0")


# The rules.

def relied_on(listing):
    """The barriers behind which a counter speaks for all waves of the block: where no store lies
    between. A group that stores a part of its own and then adds to a counter arrives for itself,
    and what the others stored before its last barrier is the block's own affair."""
    def ends(line):
        return is_barrier(line) or is_counter(line)

    counters = {at: listing.reached([at], ends, backward=True)
                for at in listing.where(is_counter)}
    stores = set(listing.where(is_store))
    for barrier in listing.where(is_barrier):
        behind = listing.reached([barrier], ends)
        if any(at in behind and not stores & behind & before for at, before in counters.items()):
            yield barrier


def releases(listing):
    """Before one thread of a block adds to a counter, which tells other blocks that the block's
    work is done, every wave has waited for its own stores: no way leads from a store without a
    wait to the counter itself, nor to a barrier that it relies on."""
    def step(line, facts):
        if is_store(line) or (is_atomic(line) and not is_counter(line)):
            return {line.number}
        return () if waits_for(listing.chip, line, False) else facts

    needed = set(relied_on(listing))
    for at, stores in enumerate(listing.forward((), step)):
        line = listing.lines[at]
        if stores and at in needed:
            yield line.number, f"others rely on this barrier, and the store of line {min(stores)} " \
                               "may be under way"
        if stores and is_counter(line):
            yield line.number, f"the counter changes while the store of line {min(stores)} may be " \
                               "under way"


def writes_back(listing):
    """Where an AMD device has several second caches, one thread of a block writes its own back between
    the barrier behind which it speaks for all waves and the counter."""
    if listing.chip not in SEVERAL_SECOND_CACHES:
        return
    for barrier in relied_on(listing):
        behind = listing.reached([barrier], lambda line: line.name == "buffer_wbl2" or is_barrier(line))
        for at in behind:
            if is_counter(listing.lines[at]):
                yield listing.lines[at].number, "the counter changes while the second cache may have " \
                    f"what was stored before the barrier of line {listing.lines[barrier].number}"


def acquires(listing):
    """After the counter was read, its value has arrived and the caches that blocks do not share
    are emptied, in this order, before anything else is loaded."""
    middle = generation(listing.chip) in (10, 11)
    sleeps = listing.reached(listing.where(is_sleep), lambda line: is_load(line) or
                             is_barrier(line), backward=True)
    polls = {listing.lines[at].number for at in sleeps if is_coherent(listing.lines[at])}

    def step(line, facts):
        facts = set(facts)
        if is_counter(line) or line.number in polls:
            return {"asked", "first cache"} | ({"middle cache"} if middle else set())
        if waits_for(listing.chip, line, True):
            facts.discard("asked")
        if "asked" in facts:
            return facts
        if line.name == "buffer_gl1_inv":
            facts.discard("middle cache")
        elif line.name == "buffer_gl0_inv":
            facts.discard("first cache")
        elif line.name.startswith("buffer_wbinvl1") or \
                (line.name == "buffer_inv" and "sc1" in line.operands) or \
                (line.name == "global_inv" and re.search("SCOPE_(DEV|SYS)", line.operands)):
            facts.discard("first cache")
        return facts

    for at, facts in enumerate(listing.forward((), step)):
        line = listing.lines[at]
        if facts and is_load(line) and not is_coherent(line):
            yield line.number, f"loads after a counter was read, before: {', '.join(sorted(facts))}"


def wakes(listing):
    """Where the waves of a block have two first caches, these are emptied behind a barrier before
    anything is loaded."""
    if not listing.two_caches:
        return

    def step(line, facts):
        if is_barrier(line):
            return {line.number}
        return () if line.name in ("buffer_gl0_inv", "global_inv") else facts

    for at, barriers in enumerate(listing.forward((), step)):
        line = listing.lines[at]
        if barriers and is_load(line) and not is_coherent(line):
            yield line.number, f"loads behind the barrier of line {min(barriers)} from what its " \
                               "first cache may have kept"


def numbers(listing):
    """Nothing rounds otherwise than the text says: no approximation but the estimate that a division
    begins with, no function that is called, and subnormal numbers stay what they are."""
    for line in listing.lines:
        if re.match(r"v_(s_)?(sqrt|rsq|exp|log|sin|cos)_|v_(dot|mad_legacy|mul_legacy)|s_swappc|s_call",
                    line.name):
            yield line.number, f"{line.name} does not round as IEEE 754 says"
    for mode in re.finditer(r"\.amdhsa_float_denorm_mode_(?:32|16_64) ([012])\b", listing.text):
        yield listing.text.count("\n", 0, mode.start()) + 1, "subnormal numbers are flushed"


def accesses(listing):
    """Arrays lie in device memory and compilers know it; and a load that goes past all caches, which
    each waits for, would be what somebody made volatile."""
    for line in listing.lines:
        if line.name.startswith("flat_"):
            yield line.number, f"{line.name} may be to any memory, and waits for two counters"
        past = r"\bsc0 sc1\b|scope:SCOPE_SYS" + (r"|\bglc dlc\b" if generation(listing.chip) == 11 else "")
        if is_load(line) and re.search(past, line.operands):
            yield line.number, f"{line.name} goes past all caches"


RULES = [releases, writes_back, acquires, wakes, numbers, accesses]


# What is read.

def lint(chip, text, name):
    """What is wrong, as lines, how many counters were seen, and on how many barriers they rely."""
    try:
        listing = Listing(chip, text)
    except ValueError as reason:
        return [f"{name}, {chip}, {reason}"], 0, 0
    faults = [f"{name}, {chip}, line {number}: {what}" for rule in RULES
              for number, what in rule(listing)]
    return faults, len(listing.where(is_counter)), len(list(relied_on(listing)))


def compile_text(chip, path):
    compiler = os.environ.get("LOCKSTEP_CLANG_AMD", "clang-19")
    name, _, mode = chip.partition(":")
    made = subprocess.run([compiler, f"--offload-arch={name}", *OPTIONS, *([f"-m{mode}"] if mode else []),
                           "-o", "-", path], capture_output=True, text=True)
    if made.returncode:
        raise ValueError(f"{path}: {made.stderr}")
    return made.stdout


def way_of(path):
    with open(path) as file:
        text = file.read()
    return tuple(bool(way.search(text)) for way in WAYS)


def lint_text(job):
    """A text whose blocks wait for each other has a barrier that they rely on, or the rules look
    for something else than there is."""
    chip, path = job
    name = os.path.basename(path)
    faults, counters, needed = lint(chip, compile_text(chip, path), name)
    if any(way_of(path)) and not needed:
        faults.append(f"{name}, {chip}: the barrier that other blocks rely on was not found")
    return faults, counters, needed


def library_jobs(folder, every):
    """All texts for all chips; or of each step one for each way: of these every other one for
    gfx942, and half of the rest for another chip."""
    paths = sorted(os.path.join(folder, name) for name in os.listdir(folder))
    if every:
        return [(chip, path) for path in paths for chip in CHIPS]
    chosen = {}
    for path in paths:
        way = way_of(path)
        if any(way):
            chosen.setdefault((os.path.basename(path).rsplit(".", 2)[0], way), path)
    paths, others = list(chosen.values()), [chip for chip in CHIPS if chip != "gfx942"]
    return [("gfx942", path) for path in paths[::2]] + \
        [(others[i % len(others)], path) for i, path in enumerate(paths[1::4])]


def run(jobs, work):
    faults, counters, needed = [], 0, 0
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        for found, some, more in pool.map(work, jobs):
            faults, counters, needed = faults + found, counters + some, needed + more
    for fault in faults[:20]:
        print(fault)
    print(f"{len(jobs)} listings, {counters} counters, {needed} barriers that they rely on, "
          f"{len(faults)} faults")
    return 1 if faults or not jobs or not counters else 0


def lint_listing(job):
    chip, name, text = job
    return lint(chip, text, name)


def read(path):
    if path == "-":
        return path, sys.stdin.read()
    with open(path) as file:
        return os.path.basename(path), file.read()


def main(words):
    if len(words) < 3:
        sys.exit(__doc__)
    if words[0] == "--listing":
        return run([(words[1], *read(path)) for path in words[2:]], lint_listing)
    if words[0] == "--text":
        return run([(words[1], path) for path in words[2:]], lint_text)
    every = words[1] == "--all"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([words[1 + every], folder, "gfx942", *words[2 + every:]], check=True)
        return run(library_jobs(folder, every), lint_text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
