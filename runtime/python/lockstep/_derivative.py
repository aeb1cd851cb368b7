"""The step that `backward` derives of another, for what differentiates programs."""

from __future__ import annotations

from typing import Any, Sequence

from ._api import FLOATS, IN, INOUT, OUT, CompileError, LockstepError
from ._batched import each
from ._signature import Parameter
from ._step import Step, literals


def derivable(step: Step) -> str | None:
    """Why a step has no derivative, or None."""
    inout = next((p for p in step.signature.parameters if p.role == INOUT), None)
    return f"`{inout.name}` is inout, and `backward` derives steps without" if inout else None


def targets_of(step: Step) -> list[Parameter]:
    """The parameters that gradients go to: floats, those of rank 0 too."""
    return [p for p in step.signature.parameters if p.role == IN and p.type in FLOATS]


def derivative(step: Step, outs: Sequence[str], targets: Sequence[str]) -> Step:
    """The step that takes what `step` takes and `d<out>` for each of `outs`, and gives `d<in>` for
    the targets. What serves other outs alone is not in it, so nothing has to be zero for these. Of
    a step for each entry, the derivative for each entry: `d<in>` is of every entry, also where
    these share the input."""
    if step.each_of is not None:
        inner, batched = step.each_of
        upstream = frozenset(f"d{name}" for name in outs)
        return each(
            derivative(inner, outs, targets), batched | upstream, [f"d{t}" for t in targets]
        )
    key = tuple(outs), tuple(targets)
    made: dict[Any, Step] = step.__dict__.setdefault("_derivatives", {})
    if key not in made:
        source, signature = step.source, step.signature
        every = [p.name for p in signature.parameters if p.role == OUT]
        text, name = source.around(), source.name
        again = text.count("step lockstep_")  # a derivative of a derivative
        part, back = f"lockstep_part_{again}", f"lockstep_backward_{again}"
        if set(outs) != set(every):
            rows = [p.declaration() for p in signature.parameters if p.role == IN or p.name in outs]
            given = ", ".join(f"{p.name} = {p.name}" for p in signature.parameters if p.role == IN)
            taken = ", ".join(f"lockstep_{name}" for name in every)
            lines = "\n".join(f"    {name} = lockstep_{name}" for name in every if name in outs)
            text += (
                f"step {part}[{signature.header()}](\n    {', '.join(rows)}\n)"
                f"{signature.grade()} {{\n    let {taken} = {name}({given})\n{lines}\n}}\n"
            )
            name = part
        text += f"step {back} = backward {name}({', '.join(targets)})\n"
        try:
            made[key] = type(step)(text, back, path=source.file, **literals(source.defines))
        except CompileError as error:
            raise LockstepError(
                f"step {source.name} has no derivative by {', '.join(targets)}: {error}"
            ) from error
    return made[key]
