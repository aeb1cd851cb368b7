"""Steps that are put around others, for what optimizers of a framework do besides."""

from __future__ import annotations

import glob
import os
import re
from typing import Sequence

from ._api import INOUT, OUT, TYPES, LockstepError
from ._signature import Source
from ._step import literals

# All gradients are looked at once, ahead of the updates, which are left out where one overflowed.
# There is a list for each type that they have.
CHECK_STEP = """import "std/amp"
step check[{axes}](
    {lists}, inout scale: f32, inout good: i32, inout skipped: i64, out inverse: f32,
    out found_inf: bool, growth: f32, backoff: f32, interval: i32, unscaled: bool,
) {{
    let factor = if unscaled then 1.0 else 1 / f64(scale)
    let overflow = {overflow}
    inverse = factor
    found_inf = overflow
    skipped += i64(overflow)
    update_scale(found_inf = overflow, scale = scale, good = good, growth = growth,
        backoff = backoff, interval = interval)
}}
"""


def check_text(types: Sequence[str]) -> str:
    """The text of the step `check`, for gradients of these types."""
    each = range(len(types))
    return CHECK_STEP.format(
        axes=", ".join(f"t{i}, n{i} of t{i}" for i in each),
        lists=", ".join(f"g{i}: {type}[t{i}, n{i}]" for i, type in enumerate(types)),
        overflow=" or ".join(f"any(not isfinite(factor * g{i}))" for i in each),
    )


def around(source: Source, gradient: str, negated: bool, scaled: bool) -> str:
    """A step with another around it: -g for g, and g / scale, unless a gradient overflowed."""
    signature = source.signature
    g = signature.by_name[gradient]
    rows = [p.declaration(INOUT if p.role == OUT else None) for p in signature.parameters]
    given = [f"{p.name} = {p.name}" for p in signature.parameters if p is not g]
    value = ("-" if negated else "") + ("(inverse_scale * " + g.name + ")" if scaled else g.name)
    given.append(f"{g.name} = {TYPES[g.type]}({value})")
    call = f"{source.name}({', '.join(given)})"
    if scaled:
        rows += ["inverse_scale: f32", "found_inf: bool"]
        call = f"when not found_inf {{\n        {call}\n    }}"
    return (
        source.around()
        + f"step wrapped_{source.name}[{signature.header()}](\n    {', '.join(rows)}\n)"
        f"{signature.grade()} {{\n    {call}\n}}\n"
    )


def guarded(source: Source) -> str:
    """A step with another around it, which is left out where a gradient overflowed."""
    signature = source.signature
    rows = [p.declaration(INOUT if p.role == OUT else None) for p in signature.parameters]
    given = ", ".join(f"{p.name} = {p.name}" for p in signature.parameters)
    body = f"when not found_inf {{\n        {source.name}({given})\n    }}"
    rows.append("found_inf: bool")
    return (
        source.around()
        + f"step guarded_{source.name}[{signature.header()}](\n    {', '.join(rows)}\n)"
        f"{signature.grade()} {{\n    {body}\n}}\n"
    )


def counted_source(source: Source) -> Source:
    """A step with rank-0 `inout`s of each tensor's own, which a tensor bound as empty keeps."""
    path, text = text_of(source)
    at = re.search(rf"^step {source.name}\[", text, re.M)
    if at is None:
        raise LockstepError(f"the text of step {source.name} is not found")
    end = text.index("{", at.start())
    tensors = next(p.tensors for p in source.signature.parameters if p.tensors)
    signature, header = source.signature, text[at.start() : end]
    for p in signature.parameters:
        if p.role == INOUT and p.rank == 0:
            header = re.sub(
                rf"\binout {p.name}: (\w+)( = [^,\n]*)?",
                rf"inout {p.name}: \1[{tensors.name}]",
                header,
            )
    axes = next(p.inner for p in signature.parameters if p.tensors)
    rows = [
        f"inout {p.name}: {TYPES[p.type]}[{tensors.name}]"
        if p.role == INOUT and p.rank == 0
        else p.declaration(INOUT if p.role == OUT else None)
        for p in signature.parameters
    ]
    call = f"{source.name}({', '.join(f'{p.name} = {p.name}' for p in signature.parameters)})"
    elements = " * ".join(f"size({axis.name})" for axis in axes)
    wrapped = (
        f"\nstep counted_{source.name}[{signature.header()}](\n    {', '.join(rows)}\n)"
        f"{signature.grade()} {{\n    when {elements} > 0 {{\n"
        f"        {call}\n    }}\n}}\n"
    )
    return Source(
        text[: at.start()] + header + text[end:] + wrapped,
        "counted_" + source.name,
        literals(source.defines),
        path,
    )


def text_of(source: Source) -> tuple[str, str]:
    """The file in which a step stands, and its text."""
    if source.text is not None:
        return source.file, source.text
    paths = [source.file]
    if source.file.startswith("std/"):
        here = os.path.dirname(os.path.abspath(__file__))
        name = source.file[len("std/") :]
        for folder in (
            os.path.join(here, "std"),
            os.path.join(here, *[".."] * 3, "templates", "std"),
            os.path.join(here, *[".."] * 2, "std"),
        ):  # wheel, checkout, share/lockstep
            paths += [os.path.join(folder, name + ".step")] + glob.glob(
                os.path.join(glob.escape(folder), name, "*.step")
            )
    for path in paths:
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            if re.search(rf"^step {source.name}\[", text, re.M):
                return path, text
    raise LockstepError(f"the text of step {source.name} is not found")
