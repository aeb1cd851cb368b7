"""A step for many entries in one launch, for what maps programs over an axis (vmap)."""

from __future__ import annotations

import re
from typing import Sequence

from ._api import IN, OUT, TYPES
from ._signature import Axis, Parameter
from ._step import Step, literals

ENTRY = "lockstep_entry"  # the axis of the entries


def rows_axis(step: Step) -> Axis | None:
    """The axis that takes the rows of all entries, one entry behind the other, with the bits that
    each has alone; None: there is none.

    It is the first of every array that has it, every result has it, and nothing is computed over
    it: no reduction, scan, index, place or draw.
    """
    known: dict[str, Axis | None] = step.__dict__.setdefault("_rows_axis", {})
    if "axis" not in known:
        known["axis"] = _find_rows_axis(step)
    return known["axis"]


def _find_rows_axis(step: Step) -> Axis | None:
    signature = step.signature
    written = [p for p in signature.parameters if p.role != IN]
    if signature.draws or not written or not all(p.rank for p in written):
        return None
    axis: Axis = written[0].axes[0]
    number = signature.axes.index(axis)
    depends = any(
        a.parent == number or a.whole == number or any(t == (1, number) for t in a.terms)
        for a in signature.axes
    )
    if depends or axis.fixed >= 0 or axis.terms or axis.parent >= 0:
        return None
    if any(axis in p.axes[1:] for p in signature.parameters):
        return None
    if any(p.axes[0] is not axis for p in written):
        return None
    for line in step.source.ir().splitlines():
        value = re.fullmatch(r"%\d+ = (\w+)(.*) : \w+(\[.*\])?( as \w+)?", line)
        if line.startswith("%") and value is None:
            return None
        if value is None and not re.match(r"(step|axis|in|inout|out|store) ", line):
            return None  # of a step with `for`
        if value and value[1] != "parameter" and axis.name in re.findall(r"\w+", value[2]):
            return None
    return axis


def each(step: Step, batched: frozenset[str], outs: Sequence[str]) -> Step:
    """The step for each entry of a first axis, which what is named in `batched` has, and all that
    it writes: `outs` and its `inout`s. Its `for` is one launch, of one kernel where the step has
    one."""
    key = batched, tuple(outs)
    made: dict[object, Step] = step.__dict__.setdefault("_each", {})
    if key not in made:
        source, signature = step.source, step.signature
        text = source.around()
        name = f"lockstep_each_{text.count('step lockstep_')}"
        axis = ENTRY + "_" * text.count(f"[{ENTRY}")  # another for entries of entries
        every = [p.name for p in signature.parameters if p.role == OUT]
        rows = [
            _row(p, axis if p.role != IN or p.name in batched else None)
            for p in signature.parameters
            if p.role != OUT or p.name in outs
        ]
        given = ", ".join(f"{p.name} = {p.name}" for p in signature.parameters if p.role != OUT)
        taken = ", ".join(f"lockstep_{out}" for out in every)
        lines = [f"let {taken} = {source.name}({given})" if every else f"{source.name}({given})"]
        lines += [f"{out} = lockstep_{out}" for out in every if out in outs]
        body = "\n        ".join(lines)
        header = ", ".join(part for part in (axis, signature.header()) if part)
        text += (
            f"step {name}[{header}](\n    {', '.join(rows)}\n){signature.grade()} {{\n"
            f"    for {axis} {{\n        {body}\n    }}\n}}\n"
        )
        made[key] = type(step)(text, name, path=source.file, **literals(source.defines))
        made[key].each_of = step, batched
    return made[key]


def _row(p: Parameter, axis: str | None) -> str:
    """The parameter's declaration, over one more axis or with its default."""
    text = p.declaration()
    if axis is not None:
        name, bracket, rest = text.partition("[")
        return f"{name}[{axis}, {rest}" if bracket else f"{text}[{axis}]"
    if p.default is None or p.rank:
        return text
    value = str(p.default).lower() if TYPES[p.type] == "bool" else repr(p.default)
    return f"{text} = {value}"
