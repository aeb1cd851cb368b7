"""panels.py: what is known of a kernel of row panels (compiler/emit/row_panels.c), and how often its loops turn.

A block takes a part of a panel, `span` rows, through two kinds of loops: one of rows, each a team's of warps, with a
barrier behind each of their loads, and one down columns, of which each warp has some, with the sums so far (`levels`,
`partials`) in memory. Columns have a way for each number of rows, of which a launch takes that for the rows of its part.
The rows of the next part are prefetched into the second cache."""
import dataclasses
import re

from flow import Loop, walk

TILE = 1024
LINE = 128      # bytes of a prefetch
GROUP = 4       # rows of a loop within a part, 2 a turn; one by one they are at most 8
SUMS = re.compile(r"_(levels|partials)_\d+$")


@dataclasses.dataclass(frozen=True)
class Panel:
    """rows of a part, elements of a row, the neighbouring columns of a lane, and the panels that a block takes at once: two
    if there are enough, so many in all."""
    span: int
    columns: int
    vector: int = 4
    groups: int = 1
    panels: int = 0


def vector_of(text, body):
    """The columns of a lane, by the accesses of the functions that a kernel runs on its panels."""
    for name in re.findall(r"LS_RUN_PANEL\((\w+)", body):
        function = re.search(rf"^LS_PHASE void {name}\((.*?)^\}}", text, re.S | re.M)
        if function and "_vec8_" in function[1]:
            return 8
    return 4


def panel_of(text, body, sizes):
    """What the text of a kernel says, None where it has no panels."""
    span = re.search(r"const \w+ span = ([^;]*);", body)
    length = re.search(r"ls_team\(ls_tiles\(([^;]*?)\)\),", body)
    if not span or not length or "LS_RUN_PANEL(" not in body:
        return None
    columns = 1
    for factor in length[1].split("*"):
        columns *= sizes[factor.strip().removeprefix("size_")]
    spans = [int(rows) for most, rows in re.findall(r"<= (\d+) \? (\d+)", span[1]) if columns <= int(most)]
    return Panel((spans + [int(span[1].split(":")[-1])])[0], columns, vector_of(text, body), *groups_of(body, sizes, columns))


def groups_of(body, sizes, columns):
    """As ls_panel_groups has them, but for how many blocks there are: and of how many panels."""
    given = re.search(r"ls_panel_groups\([^;]* \+ (\d+)\) / (\d+), warps,\s*(\d+) \* ls_tiles\(rows\)", body)
    warps = re.search(r"const u32 warps = (\d+),", body)
    rows = re.search(r"const i64 rows = size_(\w+);", body)
    if not given or not warps or not rows:
        return 1, 0
    chunks = -(-columns // int(given[2]))
    return (2 if 2 * chunks <= int(warps[1]) else 1), int(given[3]) * -(-sizes[rows[1]] // TILE)


class Trips:
    """Sets the trips of the loops of a panel's item on a Bulk's path, and finds what is loaded once more."""

    def __init__(self, bulk, panel):
        self.bulk, self.panel = bulk, panel
        self.warps = bulk.threads() // 32
        blocks = 2 * bulk.chip.processors
        if 3 * -(-panel.panels // (2 * blocks)) > 2 * -(-panel.panels // blocks):
            self.panel = dataclasses.replace(panel, groups=1)
        self.again = set()     # instructions that load what the same loop of rows has loaded
        self.passes = {}       # of each array, by its name
        self.prefetched = {bulk.name(at) for at in walk(bulk.path) if bulk.code[at].kind == "prefetch"} - {"?"}

    def is_columns(self, step):
        names = [self.bulk.name(at) for at in walk(step.path)]
        return any(SUMS.search(name) for name in names) and not self.waits(step) and self.moves(step)

    def waits(self, step):
        return any(self.bulk.code[at].kind == "barrier" for at in walk(step.path))

    def moves(self, step):
        return any(self.bulk.is_large(at) for at in walk(step.path))

    def rows_of_turn(self, path):
        """Rows that a turn of a loop down columns goes over: a lane has a vector of each."""
        loads = {}
        for step in path:
            if isinstance(step, Loop):
                for name, rows in self.rows_of_turn(step.path).items():
                    step.trips = 2 * GROUP if rows == 1 else max(1, GROUP / rows)
                    loads[name] = loads.get(name, 0) + rows * step.trips
            elif self.bulk.is_large(step) and self.bulk.code[step].kind == "load":
                name = self.bulk.name(step)
                loads[name] = loads.get(name, 0) + self.rows_of(step)
        return loads

    def rows_of(self, at):
        """A lane's vector of a row, of which an access may be a part."""
        return self.elements(at) / self.panel.vector

    def excess(self, path):
        """The accesses of ways down columns to more rows than a part has."""
        return {at for step in path if isinstance(step, Loop)
                for at in (self.beyond(step.path) if self.is_columns(step) else self.excess(step.path))}

    def beyond(self, path):
        """Those behind the rows of a part, and those of loops that have more."""
        found, seen = set(), {}
        for step in path:
            loop = isinstance(step, Loop)
            rows = max(self.rows_of_turn([step]).values(), default=0) if loop else 0
            before = dict(seen)
            for at in walk(step.path) if loop else [step]:
                if self.bulk.is_large(at):
                    key, own = (self.bulk.code[at].kind, self.bulk.name(at)), self.rows_of(at)
                    seen[key] = seen.get(key, 0) + own * (step.trips if loop else 1)
                    if before.get(key, 0) + max(rows, own) > self.panel.span:
                        found.add(at)
        return found

    def small(self, path):
        """The loads of small arrays: a text that loads one anew for each row moves no more than one that does not."""
        return {at for at in walk(path) if self.bulk.code[at].kind == "load" and self.bulk.name(at) != "?" and
                not self.bulk.is_large(at) and not SUMS.search(self.bulk.name(at))}

    def count(self, name, amount):
        self.passes[name] = self.passes.get(name, 0) + amount

    def elements(self, at):
        return self.bulk.code[at].size / self.bulk.element(at)

    def of_row(self, path, times, seen):
        """A row's loops: a tile of a warp's is 32 elements of a lane, which several turns may share."""
        for step in path:
            if isinstance(step, Loop):
                each = {}
                for at in walk(step.path):
                    if self.bulk.is_large(at):
                        key = self.bulk.code[at].kind, self.bulk.name(at)
                        each[key] = each.get(key, 0) + self.elements(at)
                step.trips = 1 if self.waits(step) or not each else max(1, TILE / 32 / max(each.values()))
                self.of_row(step.path, times * step.trips, seen)
            elif self.bulk.is_large(step) and self.bulk.code[step].kind == "load":
                name, own = self.bulk.name(step), times * self.elements(step)
                if seen.get(name, 0) >= TILE / 32:
                    self.again.add(step)
                seen[name] = seen.get(name, 0) + own
        return seen

    def of_columns(self, step):
        rows = self.rows_of_turn(step.path)
        warps = self.warps // self.panel.groups
        step.trips = -(-self.panel.columns // (32 * self.panel.vector * warps)) * \
            self.panel.span / max(rows.values(), default=1)
        for name, count in rows.items():
            self.count(name, count / max(rows.values()))

    def of_prefetches(self, step):
        """The lines of all rows of a part, dealt to the threads."""
        element = max(self.bulk.element(at) for at in walk(step.path) if self.bulk.code[at].kind == "prefetch")
        step.trips = -(-self.panel.groups * self.panel.span * -(-self.panel.columns * element // LINE) // (32 * self.warps))

    def set(self, path):
        tiles = -(-self.panel.columns // TILE)
        team = 1 << max(0, tiles - 1).bit_length()
        for step in path:
            if not isinstance(step, Loop):
                continue
            kinds = {self.bulk.code[at].kind for at in walk(step.path)}
            if self.is_columns(step):
                self.of_columns(step)
            elif any(self.is_columns(own) for own in loops(step.path)):
                self.set(step.path)
            elif self.moves(step):
                step.trips = -(-self.panel.groups * self.panel.span // max(1, self.warps // team))
                for name, count in self.of_row(step.path, 1, {}).items():
                    self.count(name, count / (TILE / 32))
            elif "prefetch" in kinds:
                self.of_prefetches(step)

    def elements_of_thread(self):
        return self.panel.groups * self.panel.span * self.panel.columns / (32 * self.warps)


def loops(path):
    for step in path:
        if isinstance(step, Loop):
            yield step
            yield from loops(step.path)
