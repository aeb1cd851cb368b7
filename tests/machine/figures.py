"""figures.py: what is measured of a kernel: figures(chip, kernel, source, sizes) from its machine code, the text that it
was made of, and the lengths of the axes.

From the text come the arguments (which of them are arrays, their types and shapes), the threads of a block, and whether a
row is a block's or a warp's. All else is the machine code's: the way that the bulk of the work takes (flow.py), the array
that each access on it goes to, by the argument from which its address was computed, and a warp's time on that way, by
issuing one instruction after the other and waiting where the code says so.

An array counts as large from a sixteenth of the largest one on; what else is loaded comes from the second cache, and so
does what another loop over the same item has loaded before. The trips of a loop within an item follow from the elements
that it moves: a tile of 1024, of as many for each lane down columns, or a row; those of row panels are panels.py's."""
import dataclasses
import re

import chips
from flow import Loop, best_path, walk
from panels import Trips, panel_of

SIZES = {"f64": 8, "f32": 4, "i64": 8, "i32": 4, "u64": 8, "u32": 4, "i16": 2, "u16": 2, "i8": 1, "u8": 1, "bool8": 1,
         "f16": 2, "bf16": 2, "e4m3": 1, "e5m2": 1}
TILE = 1024
LISTED = 1 << 20
BESIDE = 1 / 8  # a loop with less than this share of the accesses of the one that has most is left out


@dataclasses.dataclass(frozen=True)
class Array:
    """elements: in all, 0 for what is no array of the plan; element: its bytes; listed: an argument that is a table of
    arrays, which stands under its offset, and what it lists under LISTED more."""
    name: str
    element: int
    elements: int = 0
    listed: bool = False


@dataclasses.dataclass
class Source:
    arrays: dict          # offset of the argument: Array
    threads: dict         # kernel: threads of a block
    row: str = ""         # "block" or "warp" where a row is on the chip
    columns: bool = False  # an item is a tile of 1024 rows of a column for each lane
    ranged: bool = False  # a warp takes a range of items and arrives at a counter behind it
    kernels: dict = dataclasses.field(default_factory=dict)  # row and columns of each kernel
    panels: dict = dataclasses.field(default_factory=dict)   # of kernels of row panels
    whole: bool = True    # rows are long enough for the text that has no guards
    last: set = dataclasses.field(default_factory=set)       # kernels with an epilogue of the last block


def elements_of(shape, sizes):
    product = 1
    for axis in filter(None, (part.strip() for part in shape.split(","))):
        product *= int(axis) if axis.isdigit() else sizes[axis]
    return product


def read_source(text, sizes, temporaries=None):
    """temporaries: the bytes of those that the plan names; others hold partial results and counters."""
    arrays, offset = {}, 0
    struct = re.search(r"^struct \w+_arguments \{(.*?)^\};", text, re.S | re.M)
    for line in (struct[1] if struct else "").splitlines():
        field = re.match(r"\s*(?:const )?([\w]+)\s*(.*?)(\w+)(?:\[(\d+)\])?;(?:\s*/\* \w+ \w+(?:\[([^\]]*)\])? \*/)?", line)
        if not field:
            continue
        kind, stars, name, count, shape = field.groups()
        width = 8 if "*" in stars else SIZES.get(kind, 8)
        offset = -(-offset // width) * width
        if "*" in stars:
            known = re.search(r"/\* (in|out|inout) ", line)
            element = SIZES.get(kind, 8)
            elements = elements_of(shape or "", sizes) if known else (temporaries or {}).get(name, 0) // element
            arrays[offset] = Array(name, element, elements, stars.count("*") == 2)
            if arrays[offset].listed:
                arrays[LISTED + offset] = dataclasses.replace(arrays[offset], listed=False)
        offset += width * int(count or 1)
    threads = {name: int(count) for count, name in
               re.findall(r"^LS_KERNEL LS_THREADS(?:_[A-Z]+)?\((\d+)\) (\w+)\(", text, re.M)}
    row = re.search(ROW, text)
    return Source(arrays, threads, row[1] if row else "", ranged=RANGED in text, kernels=kernels_of(text),
                  panels=panels_of(text, sizes), whole=whole_rows(text, sizes),
                  last={name for name, body in bodies_of(text) if "LS_LAST(" in body})


def whole_rows(text, sizes):
    """Whether rows are of at least as many elements as each text for long ones is for."""
    tests = re.findall(r"if \((\d+) < size_(\w+)\)", text)
    return all(int(least) < sizes.get(axis, 0) for least, axis in tests)


RANGED = "ls_range_begin("


ROW = r"on rows of at most \d+ elements, a (block|warp) each"


def kernels_of(text):
    """Of each kernel whether a row is a block's or a warp's, by the phases that it calls, and whether it goes down
    columns. A kernel that runs several phases keeps what the text as a whole says."""
    phases = {}
    for comment, name, body in re.findall(r"^(?:/\* ([^\n]*) \*/\n)?LS_PHASE void (\w+)\((.*?)^\}", text, re.S | re.M):
        row = re.search(ROW, comment)
        phases[name] = (row[1] if row else "", "const i64 chunks = " in body, RANGED in body)
    found = {}
    for name, body in bodies_of(text):
        called = [phases[word] for word in dict.fromkeys(re.findall(r"\b\w+\b", body)) if word in phases]
        if len(called) == 1:
            found[name] = called[0]
    return found


def bodies_of(text):
    return re.findall(r"^LS_KERNEL LS_THREADS(?:_[A-Z]+)?\(\d+\) (\w+)\((.*?)^\}", text, re.S | re.M)


def panels_of(text, sizes):
    found = {name: panel_of(text, body, sizes) for name, body in bodies_of(text)}
    return {name: panel for name, panel in found.items() if panel}


def of_kernel(source, name):
    """What is known of one of the source's kernels."""
    row, columns, ranged = source.kernels.get(name, (source.row, False, source.ranged))
    panels = {name: source.panels[name]} if name in source.panels else {}
    return Source(source.arrays, {name: source.threads[name]}, row, columns, ranged, panels=panels, whole=source.whole,
                  last=source.last & {name})


def accesses(code, path, arrays):
    """Of each load and store on the path, the array that it goes to, or None. A register holds the arguments from which
    its value was computed; what a table of arrays gives is an array of it."""
    holds, found = {}, {}
    for at in walk(path):
        it = code[at]
        if it.kind in ("load", "store", "prefetch"):
            into = {arrays[offset] for register in it.address for offset in holds.get(register, ())}
            found[at] = into.pop() if len(into) == 1 else None
        carried = set()
        for register in it.reads if it.kind != "load" else it.address:
            carried |= holds.get(register, set())
        if it.kind == "load":
            carried = {LISTED + offset for offset in carried if arrays[offset].listed and it.size >= 8}
        for register in it.writes:
            taken = it.constants.get(register)
            holds[register] = carried | ({taken} if taken in arrays else set())
            if not holds[register]:
                del holds[register]
    return found


# Where rows begin off a boundary there are ways by elements beside those by vectors, which other rows take, and ways by
# both: of those that move as much the elements are it, and of these the one with the fewest instructions.
SPLIT, BRIEF = 1 / 512, 1 / 512
# What lanes and warps give each other, between barriers without an access to memory, is of the work of a row: a way past it
# is that of a warp without a tile. It counts less than any access.
SHARE = 1 / 32
# Where rows of at least a whole number of tiles have a text of their own, its accesses have no guard; shorter rows do not
# take it.
BARE = 1 / 1024
# What a warp does once for a range of items is not on the way of one.
ONCE = 1 << 20


class Bulk:
    """The way of the bulk's work through a kernel, with the array of each access."""

    def __init__(self, chip, kernel, source, sizes):
        self.chip, self.code, self.source, self.sizes = chip, kernel.code, source, sizes
        self.columns = sizes.get("row")
        odd = self.columns is not None and self.columns % 4
        wide = any(it.size >= 8 and it.whole for it in self.code)

        def value(it):
            # Rows off a boundary are read by elements; elsewhere elements are the ends of rows.
            if it.kind == "atomic" and self.source.ranged:
                return -ONCE
            if it.kind == "atomic" and self.columns and self.columns > TILE and not source.row:
                return 1
            if it.kind == "prefetch":
                return 1
            if it.kind == "exchange":
                return SHARE
            if it.kind not in ("load", "store"):
                return -BRIEF if odd else 0
            if not wide or (it.size >= 8 and it.whole):
                return it.size * (1 + (BARE if it.guarded != source.whole else 0))
            if source.panels:  # a loop of a panel may go by elements, beside one that goes by vectors
                return it.size / 2
            return (1 + SPLIT) * it.size if odd else 0

        self.largest = max([array.elements for array in source.arrays.values()] + [1])
        self.panel, left_out, small = None, set(), set()
        while True:
            self.path = best_path(self.code, lambda it: -ONCE if it.line in left_out else
                                  0 if it.line in small else value(it))
            self.arrays = accesses(self.code, self.path, source.arrays)
            if not source.panels:
                break
            self.panel = Trips(self, *source.panels.values())
            excess = {self.code[at].line for at in self.panel.excess(self.path)}
            again = {self.code[at].line for at in self.panel.small(self.path)}
            if not excess - left_out and not again - small:
                break
            left_out, small = left_out | excess, small | again
        if source.columns:
            self.path = self.one_pass(self.path)

    def one_pass(self, path):
        """A path without all but the longest of loops side by side that move the same large arrays: a phase down columns goes
        over a tile once, by one of them."""
        longest = {}
        for step in path:
            if isinstance(step, Loop):
                step.path = self.one_pass(step.path)
                moved = frozenset((self.code[at].kind, self.name(at)) for at in walk(step.path) if self.is_large(at))
                before = longest.get(moved)
                if moved and (not before or len(list(walk(step.path))) > len(list(walk(before.path)))):
                    longest[moved] = step
        return [step for step in path if not isinstance(step, Loop) or
                not any(self.is_large(at) for at in walk(step.path)) or any(step is loop for loop in longest.values())]

    def is_large(self, at):
        array = self.arrays.get(at)
        if self.code[at].kind not in ("load", "store"):
            return False
        return array is not None and not array.listed and array.elements * 16 >= self.largest

    def name(self, at):
        array = self.arrays.get(at)
        return array.name if array else "?"

    def element(self, at):
        array = self.arrays.get(at)
        return array.element if array else 4

    def stages(self, path):
        """Elements a thread moves of each array in each stage of an item: its straight part, and each loop in it. A list
        of dictionaries: (kind, name): (elements, bytes)."""
        own, found = {}, []
        for step in path:
            if isinstance(step, Loop):
                for stage in self.stages(step.path):
                    found.append({key: (step.trips * count, step.trips * size) for key, (count, size) in stage.items()})
            elif self.is_large(step):
                key = self.code[step].kind, self.name(step)
                count, size = own.get(key, (0, 0))
                own[key] = count + self.code[step].size / self.element(step), size + self.code[step].size
        return ([own] if own else []) + found

    def set_trips(self, path, outermost=True):
        """Sets how often each loop within the item's turns, inner ones first."""
        for step in path if not self.panel else []:
            if isinstance(step, Loop):
                self.set_trips(step.path, False)
                each = max([count for stage in self.stages(step.path) for count, _ in stage.values()] or [0]) * 32
                if not outermost and each:
                    step.trips = self.trips(each)

    def trips(self, elements):
        if self.source.columns:
            return max(1, TILE * 32 / elements)
        if self.source.row:
            held = elements * (self.threads() // 32 if self.source.row == "block" else 1)
            return max(1, -(-self.columns // held)) if self.columns else 1
        return max(1, min(TILE, self.columns or TILE) / elements)

    def threads(self):
        return max(self.source.threads.values())


class Clock:
    """A warp that issues the instructions of a path one after the other."""

    def __init__(self, bulk, latency):
        self.bulk, self.latency = bulk, latency
        self.now, self.queues = 0.0, {}
        self.in_flight, self.most = 0, 0

    def done(self, at, near):
        it, chip = self.bulk.code[at], self.bulk.chip
        if it.latency == "memory":
            return self.now + (self.latency if self.bulk.is_large(at) and not near else chips.L2)
        if it.latency == "arrival":
            return self.now + chips.ARRIVAL
        return self.now + chips.SHORT / chip.clock / 1e3

    def wait(self, waits):
        for queue, left in waits:
            entries = self.queues.get(queue, [])
            if len(entries) > left:
                going = entries[:len(entries) - left]
                self.queues[queue] = entries[len(entries) - left:]
                self.most = max(self.most, self.in_flight)
                self.now = max([self.now] + [time for time, _ in going])
                self.in_flight -= sum(size for _, size in going)

    def run(self, path, near):
        """near: arrays that the second cache has."""
        bulk = self.bulk
        for step in path:
            if isinstance(step, Loop):
                trips = min(step.trips, 4)
                for turn in range(int(max(1, trips))):
                    before = self.now
                    self.run(step.path, near)
                    spent = self.now - before
                self.now += spent * (step.trips - int(max(1, trips)))
                near = near | {bulk.name(at) for at in walk(step.path) if bulk.is_large(at)}
                continue
            it = bulk.code[step]
            self.wait(it.waits)
            again = bulk.name(step) in near or bulk.panel is not None and step in bulk.panel.again
            large = it.kind == "load" and bulk.is_large(step) and not again
            for i, queue in enumerate(it.queues):
                size = it.size if large and i == 0 else 0
                first = self.done(step, again) if i == 0 else \
                    self.now + chips.SHORT / bulk.chip.clock / 1e3
                self.queues.setdefault(queue, []).append((first, size))
                self.in_flight += size
            self.now += it.cycles / bulk.chip.clock / 1e3


def count(bulk, path):
    """Instructions that a warp issues on a path, loops as often as they turn."""
    return sum(step.trips * count(bulk, step.path) if isinstance(step, Loop) else 1 for step in path)


def count_kind(bulk, path, *kinds):
    return sum(step.trips * count_kind(bulk, step.path, *kinds) if isinstance(step, Loop) else
               bulk.code[step].kind in kinds for step in path)


def steady(bulk, path, latency):
    """The time of one turn of an item's loop among others, and the most bytes a thread has in flight."""
    clock = Clock(bulk, latency)
    ahead = frozenset(bulk.panel.prefetched if bulk.panel else ())
    for _ in range(3):
        before = clock.now
        clock.run(path, ahead)
    if ahead:  # which is on its way for the time of an item
        size = sum(array.element for array in bulk.source.arrays.values() if array.name in ahead)
        return max(clock.now - before, latency), clock.most + size * bulk.panel.elements_of_thread()
    return clock.now - before, clock.most


def times(bulk, path):
    """The time of one turn as a function of the latency, by straight lines between a few."""
    at = [0.35, 0.6, 1.0, 1.6, 2.4]
    known = [steady(bulk, path, latency)[0] for latency in at]

    def time(latency):
        i = max(j for j in range(4) if j == 0 or at[j] <= latency)
        return known[i] + (known[i + 1] - known[i]) * (latency - at[i]) / (at[i + 1] - at[i])
    return time


@dataclasses.dataclass
class Item:
    """A loop over items of the bulk: bytes that a thread moves of memory once, passes over each array, the bytes of each
    (kind, name) for one of the elements, a share of the threads that have work, and the share of its elements that a
    thread with work has."""
    path: list
    moved: float
    passes: dict
    elements: float
    least: dict
    active: float = 1
    filled: float = 1


def split_last(bulk):
    """A kernel's path up to where the last block goes on alone, a barrier behind the loops over items, and from there on."""
    moved = False
    for i, step in enumerate(bulk.path if bulk.source.last else []):
        if isinstance(step, Loop):
            moved |= bool(bulk.stages(step.path))
        elif moved and bulk.code[step].kind == "barrier":
            return bulk.path[:i], bulk.path[i:]
    return bulk.path, []


def time_alone(bulk):
    """Microseconds of what the last block does alone: its warps take tiles of what it loads by vectors in turn."""
    total = 0.0
    for top in split_last(bulk)[1]:
        loads = [at for at in walk(top.path) if bulk.code[at].kind == "load"] if isinstance(top, Loop) else []
        wide = [at for at in loads if bulk.code[at].size >= 8 and bulk.arrays.get(at) and bulk.arrays[at].elements]
        if not wide:
            continue
        tiles = -(-max(bulk.arrays[at].elements for at in wide) // TILE)
        for inner in (step for step in top.path if isinstance(step, Loop)):
            each = max([bulk.code[at].size / bulk.element(at) for at in walk(inner.path) if at in wide] or [0]) * 32
            inner.trips = TILE / each if each else 1
        total += -(-tiles // (bulk.threads() // 32)) * steady(bulk, top.path, chips.loaded_latency(0.3))[0]
    return total


def items(bulk):
    """The loops at the top of a kernel's path that move what is large; without a loop, all of it."""
    tops = [step for step in split_last(bulk)[0] if isinstance(step, Loop)]
    tops = [top for top in tops if bulk.stages(top.path)] or [Loop(bulk.path)]
    found = []
    for top in tops:
        bulk.set_trips(top.path, False)
        stages = bulk.stages(top.path)
        most = {}
        for stage in stages:
            for key, (elements, size) in stage.items():
                most[key] = max(most.get(key, (0, 0)), (elements, size))
        if not most:
            continue
        elements = max(count for count, _ in most.values())
        passes = {}
        if bulk.panel:
            elements = bulk.panel.elements_of_thread()
            bulk.panel.passes = {}
            bulk.panel.set(top.path)
            sizes = {key: size / number for key, (number, size) in most.items()}
            found.append(Item(top.path, elements * sum(sizes.values()), bulk.panel.passes, elements, sizes))
            continue
        for stage in stages:
            for (kind, name), (number, _) in stage.items():
                if kind == "load":
                    passes[name] = passes.get(name, 0) + number / elements
        item = Item(top.path, sum(size for _, size in most.values()), passes, elements,
                    {key: size / elements for key, (_, size) in most.items()})
        if bulk.source.row and bulk.columns:
            row = bulk.columns / 32
            if bulk.source.row == "block":
                warps = bulk.threads() // 32
                item.active = min(1, -(-row // elements) / warps)
                item.filled = row / (elements * item.active * warps)
            else:
                item.filled = min(1, row / elements)
        found.append(item)
    return found


def narrowest(bulk, path):
    """Bytes of the narrowest accesses that move a thirty-second of what all do: less is an element or so of a row."""
    moved = {}
    for at in walk(path):
        if bulk.is_large(at):
            moved[bulk.code[at].size] = moved.get(bulk.code[at].size, 0) + bulk.code[at].size
    return min(size for size, total in moved.items() if 32 * total >= sum(moved.values()))


def figures(chip, kernel, source, sizes):
    """A dictionary: one row of a table."""
    bulk = Bulk(chip, kernel, of_kernel(source, kernel.name), sizes)
    warps = chips.occupancy(chip, kernel.registers, kernel.shared, source.threads[kernel.name])
    row = {"registers": kernel.registers, "warps": warps, "spilled": kernel.spilled}
    found = items(bulk)
    if not found or not warps:
        return row
    once = [sum(bulk.code[at].size for at in walk(item.path) if bulk.is_large(at)) for item in found]
    heavy = [item for item, size in zip(found, once) if size >= BESIDE * max(once)]
    row["access"] = min(narrowest(bulk, item.path) for item in heavy)
    time, least, arrays = 0.0, 0.0, {}
    for item in heavy:
        share = warps * item.active
        speed = chips.rate(chip, share, item.moved * item.filled * chip.lanes, count(bulk, item.path),
                           times(bulk, item.path))
        time += item.moved / item.elements / speed
    for item in heavy:
        for key, size in item.least.items():
            arrays[key] = max(arrays.get(key, 0), size)
    time += 1e3 * time_alone(bulk) / bulk.largest
    least = sum(arrays.values())
    flights = [steady(bulk, item.path, chips.loaded_latency(0.9))[1] * item.active * item.filled * warps * chip.lanes / 1024
               for item in heavy]
    loading = [flight for flight, item in zip(flights, heavy) if item.passes]
    row.update({
        "flight": min(loading or [0]),
        "per_byte": max(count(bulk, item.path) / (item.moved * item.filled) for item in heavy),
        "passes": max([sum(item.passes.get(name, 0) for item in heavy) for item in heavy for name in item.passes] or [0]),
        "fences": max(count_kind(bulk, item.path, "fence") for item in heavy),
        "atomics": max(count_kind(bulk, item.path, "atomic") for item in heavy),
        "barriers": max(count_kind(bulk, item.path, "barrier") for item in heavy),
        "share": 100 * least / (time * chip.copy),
    })
    return row
