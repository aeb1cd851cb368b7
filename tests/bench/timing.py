"""Timing on a machine whose speed changes from second to second: every candidate runs between two runs
of a kernel that only moves the same bytes, in the same round; rounds that another process disturbed are
dropped; medians of times and of ratios are reported."""
import os
import statistics
import time

TICK = os.sysconf("SC_CLK_TCK")
CLOCK = time.perf_counter  # cpu.py --one-thread takes the process's own time


def busy_seconds():
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, soft, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + soft + steal) / TICK


COMPANIONS = []  # processes that run candidates of ours, while they live


def companion_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def own_seconds():
    times = os.times()
    return (times.user + times.system + times.children_user + times.children_system +
            sum(map(companion_seconds, COMPANIONS)))


class Foreign:
    """How much processor time others used while the body ran, as a share of the wall time."""

    def __enter__(self):
        self.start = busy_seconds(), own_seconds(), time.perf_counter()
        return self

    def __exit__(self, *_):
        busy, own, wall = self.start
        self.wall = time.perf_counter() - wall
        self.seconds = max(0.0, (busy_seconds() - busy) - (own_seconds() - own))

    def disturbed(self):
        return self.seconds > max(0.08 * self.wall, 0.03)


def rest(most=0.2):
    """Waits until no thread of this process runs: those of OpenMP, numba or JAX spin for a while after their work,
    on the cores that the next candidate needs. The time of a thread that runs is counted at a tick of the clock
    only, 10 ms apart at most, so nothing may have been used for longer than that."""
    end, calm = time.perf_counter() + most, 0.0
    while time.perf_counter() < end and calm < 0.012:
        before, start = time.process_time(), time.perf_counter()
        time.sleep(0.001)
        idle = time.process_time() - before < 0.0003
        calm = calm + time.perf_counter() - start if idle else 0.0


def stopwatch(function, short=0.06):
    """Seconds that a call takes. One that is short is timed the second time: a library's threads are asleep after the
    rest, and it is not to be judged by how the system wakes them and which core they get first."""
    rest()
    for again in (True, False):
        start = CLOCK()
        function()
        took = CLOCK() - start
        if took > short or not again:
            return took


def compare(candidates, reference, rounds, patience=60):
    """candidates: name -> function, all warm. Returns name -> {median_s, min_s, max_s, fraction, paired}, where
    fraction is the reference's time over the candidate's, and paired the candidate's over the first one's of the
    same round. At most `patience` rounds are dropped."""
    times = {name: [] for name in candidates}
    ratios = {name: [] for name in candidates}
    limits, kept, dropped, rest = [], 0, 0, []
    while kept < rounds:
        found = {}
        with Foreign() as foreign:
            for name, function in candidates.items():
                before, took, after = stopwatch(reference), stopwatch(function), stopwatch(reference)
                found[name] = took, (before + after) / 2 / took
                rest += [before, after]
        if foreign.disturbed() and dropped < patience:
            dropped += 1
            continue
        kept += 1
        limits += rest
        rest = []
        for name, (took, ratio) in found.items():
            times[name].append(took)
            ratios[name].append(ratio)
    first = times[next(iter(candidates))]
    result = {name: {"median_s": statistics.median(times[name]), "min_s": min(times[name]),
                     "max_s": max(times[name]), "fraction": statistics.median(ratios[name]),
                     "paired": statistics.median(took / own for took, own in zip(times[name], first))}
              for name in candidates}
    return result, {"median_s": statistics.median(limits), "min_s": min(limits), "rounds": kept,
                    "dropped_rounds": dropped, "disturbed": patience > 0 and dropped >= patience}
