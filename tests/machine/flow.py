"""flow.py: the way that the bulk of the work takes through a kernel.

A kernel's control flow is cut into loops, the strongly connected parts of it, each without the edges that lead back to
where it is entered. Through what is left there are many ways; the one taken moves the most bytes of device memory and,
among these, has the fewest instructions. A Loop stands on it for the way through its body."""
import dataclasses

TRIES = 4  # a loop's bytes against those outside of it, where ways are compared


@dataclasses.dataclass
class Loop:
    """path: numbers of instructions and Loops."""
    path: list
    trips: float = 1


def blocks(code):
    """Where straight parts begin, and of each the parts that may follow."""
    starts = {0}
    for at, it in enumerate(code):
        if it.target is not None or not it.falls:
            starts.add(at + 1)
            if it.target is not None:
                starts.add(it.target)
    starts = sorted(start for start in starts if start < len(code))
    ends = dict(zip(starts, starts[1:] + [len(code)]))
    following = {}
    for start, end in ends.items():
        last = code[end - 1]
        following[start] = ([end] if last.falls and end < len(code) else []) + \
            ([last.target] if last.target is not None and last.target < len(code) else [])
    return part_ways(code, ends, following)


def part_ways(code, ends, following):
    """A warp whose lanes agree passes one side of an if: where an AMD device turns to the lanes of the other side, it goes on
    behind that if it comes from the first, and into it if it has skipped the first. Two copies of such a part, the second
    called half a number later, keep these ways apart."""
    for start in list(following):
        end = ends[start]
        if not any(it.kind == "else" for it in code[start:end]) or len(following[start]) != 2:
            continue
        twin = start + 0.5
        into, past = following[start] if code[end - 1].skips else following[start][::-1]
        ends[twin], following[twin], following[start] = end, [into], [past]
        masks = {register for it in code[start:end] if it.kind == "else" for register in it.reads}
        masks = set() if any("readlane" in it.name for it in code[start:end]) else masks
        for other in following:
            if skipped(code, int(other), ends[other], start, masks):
                following[other] = [twin if near == start else near for near in following[other]]
    return ends, following


def skipped(code, start, end, to, masks):
    """Whether a part goes on at `to` where no lane has work on the first side: by a branch that is taken then, or past
    one into that side. It has put aside the lanes of the other one, in a register that the turn to them reads, one of
    `masks` if any is known; an if within the first side has not."""
    last = code[end - 1]
    if not (last.skips and last.target == to or last.enters and end == to):
        return False
    return any("xor" in it.name and (not masks or masks & set(it.writes)) for it in code[start:end])


def components(nodes, following):
    """Strongly connected parts, each before those that lead to it (Tarjan, without recursion)."""
    number, low, stack, on_stack, found = {}, {}, [], set(), []
    for root in nodes:
        if root in number:
            continue
        work = [(root, iter(following[root]))]
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            for near in rest:
                if near not in number:
                    number[near] = low[near] = len(number)
                    stack.append(near)
                    on_stack.add(near)
                    work.append((near, iter(following[near])))
                    break
                if near in on_stack:
                    low[node] = min(low[node], number[near])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    part = set()
                    while node not in part:
                        part.add(stack.pop())
                    on_stack -= part
                    found.append(part)
    return found


def best_path(code, value):
    """value(instruction): the bytes that count. The path from a kernel's first instruction to its end."""
    ends, following = blocks(code)

    def through(nodes, entry, is_loop):
        inside = {node: [near for near in following[node] if near in nodes and not (is_loop and near == entry)]
                  for node in nodes}
        reachable, work = {entry}, [entry]
        while work:
            for near in inside[work.pop()]:
                if near not in reachable:
                    reachable.add(near)
                    work.append(near)
        best = {}  # of each block: (bytes, -instructions), and the path from it to the end
        for part in components(sorted(reachable), inside):
            first = min(part)
            if len(part) > 1 or first in inside[first]:
                entered = [node for node in part if node == entry or any(
                    node in inside[before] for before in reachable - part)]
                heads = sorted(entered) or [first]
                leaving = {near for node in part for near in inside[node] if near not in part}
                for head in heads:
                    worth, path = through(part, head, True)
                    own = (TRIES * worth[0], TRIES * worth[1]), [Loop(path)]
                    best[head] = follow(own, leaving, best, not leaving)
                for node in part - set(heads):
                    best[node] = best[heads[0]]
                continue
            here = code[int(first):ends[first]]
            own = (sum(value(it) for it in here), -len(here)), list(range(int(first), ends[first]))
            latch = entry in following[first] if is_loop else not inside[first]
            best[first] = follow(own, inside[first], best, latch)
        return best[entry]

    return through(set(ends), 0, False)[1]


def follow(own, leaving, best, may_end):
    """A part and the best of what may come behind it; a way that ends nowhere is none."""
    (size, few), path = own
    ways = [best[near] for near in leaving if near in best and best[near] is not None]
    if may_end:
        ways.append(((0, 0), []))
    if not ways:
        return (float("-inf"), 0), path
    worth, rest = max(ways, key=lambda way: way[0])
    return (size + worth[0], few + worth[1]), path + rest


def walk(path):
    """The instructions of a path in their order, each once."""
    for step in path:
        if isinstance(step, Loop):
            yield from walk(step.path)
        else:
            yield step
