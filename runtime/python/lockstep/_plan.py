"""The plan of a step as a picture, and what a launch of it takes on arrays made on the spot."""

from __future__ import annotations

import html
import json
import statistics
import time
from typing import Any, Mapping

from ._api import FLOATS, IN, OUT, TYPES, LockstepError
from ._step import Step

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]

ROW, BOX, SIDE, ARROW, CHARACTER = 18, 300, 210, 46, 7.5


def _lines(kernel: Mapping[str, Any]) -> list[str]:
    """What stands in a kernel's box. Of a loop the bytes are those of one iteration, and those
    that a launch of all iterations moves once."""
    moved = f"{bytes_of(kernel['bytes_read'])} read, {bytes_of(kernel['bytes_written'])} written"
    loops = kernel.get("loops")
    if not loops:
        return [kernel["name"], kernel["share"], moved]
    lines = [kernel["name"], f"{kernel['share']}, {loops}", f"{moved} in an iteration"]
    if kernel["bytes_once"]:
        lines.append(f"{bytes_of(kernel['bytes_once'])} once in a launch")
    return lines


def _room(least: int, around: int, texts: list[str]) -> int:
    """A width that every text has room in."""
    return max([least, *(round(CHARACTER * len(text)) + around for text in texts)])


def drawing(step: Step, sizes: Mapping[str, int | str]) -> str:
    """The plan as SVG: a box for each kernel, left what it reads, right what it writes, and the
    bytes."""
    plan = json.loads(step.source.explain(sizes, "JSON"))["steps"][0]
    y, parts, boxes = 40, [], [_lines(kernel) for kernel in plan["kernels"]]
    names = [name for kernel in plan["kernels"] for name in kernel["reads"] + kernel["writes"]]
    box = _room(BOX, 12, [line for lines in boxes for line in lines])
    side = _room(SIDE, ARROW + 12, names)
    width = box + 2 * side
    title = (
        f"{plan['name']}: {plan['launches']} launch{'es' * (plan['launches'] != 1)}, "
        f"{bytes_of(plan['bytes_moved'])} moved, at least {bytes_of(plan['bytes_minimum'])}"
    )
    for kernel, lines in zip(plan["kernels"], boxes):
        rows = max(len(kernel["reads"]), len(kernel["writes"]), len(lines))
        height, left, right = rows * ROW + 12, side, side + box
        parts.append(
            f'<rect x="{left}" y="{y}" width="{box}" height="{height}" rx="6" fill="#e8eef7" '
            'stroke="#3b6ea8"/>'
        )
        for i, line in enumerate(lines):
            weight = ' font-weight="bold"' if i == 0 else ""
            parts.append(
                f'<text x="{width // 2}" y="{y + ROW * (i + 1)}" text-anchor="middle"{weight}>'
                f"{html.escape(line)}</text>"
            )
        for names, edge, anchor, sign in (
            (kernel["reads"], left, "end", -1),
            (kernel["writes"], right, "start", 1),
        ):
            for i, name in enumerate(names):
                at, begin, end = y + ROW * (i + 1), edge + sign * 40, edge
                if sign > 0:
                    begin, end = edge, edge + 40
                parts.append(
                    f'<line x1="{begin}" y1="{at - 4}" x2="{end}" y2="{at - 4}" stroke="#3b6ea8" '
                    'marker-end="url(#arrow)"/>'
                )
                parts.append(
                    f'<text x="{edge + sign * ARROW}" y="{at}" text-anchor="{anchor}">'
                    f"{html.escape(name)}</text>"
                )
        y += height + 16
    marker = (
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
        'markerHeight="7" '
        'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#3b6ea8"/></marker></defs>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" '
        f'font-family="sans-serif" font-size="12"><rect width="{width}" height="{y}" '
        f'fill="white"/>{marker}<text x="12" y="22" '
        f'font-size="14">{html.escape(title)}</text>{"".join(parts)}</svg>'
    )


def bytes_of(count: float) -> str:
    """A number of bytes for people: 2.5 MiB."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.3g} {unit}" if unit != "B" else f"{count:.0f} B"
        count /= 1024
    return f"{count:.3g} GiB"


def made_arrays(step: Step, sizes: Mapping[str, int]) -> dict[str, Any]:
    """NumPy arrays for what a step takes, at these lengths by axis: floats are normally
    distributed, integers and bools zero."""
    if numpy is None:
        raise LockstepError("arrays to time a step on are NumPy's: pip install numpy")
    signature, random = step.signature, numpy.random.default_rng(0)
    known = signature.solve(
        {axis: sizes[axis.name] for axis in signature.axes if axis.name in sizes}
    )

    def one(parameter: Any, axes: list[Any]) -> Any:
        missing = [axis.name for axis in axes if axis not in known]
        if missing:
            raise LockstepError(f"step {signature.step}: give the length of axis `{missing[0]}`")
        shape = tuple(known[axis] for axis in axes)
        if parameter.type in FLOATS and TYPES[parameter.type] in ("f64", "f32", "f16"):
            kind = {"f64": "f8", "f32": "f4", "f16": "f2"}[TYPES[parameter.type]]
            return random.standard_normal(shape).astype(kind)
        empty = step._arrays({}).empty(parameter.type, shape, None)
        empty[...] = 0
        return empty

    made: dict[str, Any] = {}
    for parameter in signature.parameters:
        if parameter.role == OUT or parameter.default is not None and parameter.rank == 0:
            continue
        if parameter.tensors:
            made[parameter.name] = [
                one(parameter, parameter.inner) for _ in range(known[parameter.tensors])
            ]
        else:
            made[parameter.name] = one(parameter, parameter.axes)
    return made


def timing(step: Step, sizes: Mapping[str, int], seconds: float = 0.2) -> tuple[float, float]:
    """The median seconds of a call, its outputs given, and the bytes a second that it moves by the
    plan."""
    arrays = made_arrays(step, sizes)
    first = step.run(step._arguments((), arrays), step._arrays(arrays))
    given = {
        **arrays,
        **{
            p.name: first[p.name]
            for p in step.signature.parameters
            if p.role == OUT or p.role != IN and p.name in first
        },
    }
    runs: list[float] = []
    begin = time.perf_counter()
    while len(runs) < 5 or time.perf_counter() - begin < seconds:
        at = time.perf_counter()
        step(**given)
        runs.append(time.perf_counter() - at)
    median = statistics.median(runs)
    moved = json.loads(step.source.explain(sizes, "JSON"))["steps"][0]["bytes_moved"]
    return median, moved / median
