"""The cell magic %%lockstep: steps in a notebook's cell."""

from __future__ import annotations

import sys
from typing import Any

from ._api import CompileError, LockstepError, library
from ._plan import drawing, timing
from ._signature import Source, step_names
from ._step import Step


def sizes_of(line: str) -> dict[str, int]:
    """`n=64K, c=10` as lengths by axis; K, M and G are powers of 1024."""
    sizes = {}
    for word in line.replace(",", " ").split():
        name, equals, value = word.partition("=")
        factor = {"K": 1024, "M": 1024**2, "G": 1024**3}.get(value[-1:], 1)
        digits = value[:-1] if factor > 1 else value
        if not equals or not digits.isdigit():
            raise LockstepError(f"%%lockstep: `{word}` is no length of an axis; write n=64K")
        sizes[name] = int(digits) * factor
    return sizes


class Drawing:
    """What a notebook shows as a picture, and a terminal as nothing."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return "<the plan as SVG>"


def run_cell(shell: Any, line: str, cell: str) -> None:
    """%%lockstep n=1M, c=64: compiles the cell, puts each of its steps into the notebook under its
    name, and, where the lengths of its axes are given, shows its plan and what a launch of it
    takes. Without lengths it shows what the steps take and give. Errors are those of `lockstep
    check`, with carets."""
    path = f"In[{getattr(shell, 'execution_count', 0)}]"
    try:
        sizes = sizes_of(line)
        steps = {name: Step(cell, name, path=path) for name in own_steps(cell, path)}
        shell.user_ns.update(steps)
        axes = {axis.name for step in steps.values() for axis in step.signature.axes}
        unknown = [name for name in sizes if name not in axes]
        if unknown:
            raise LockstepError(f"%%lockstep: no step of the cell has an axis `{unknown[0]}`")
        for name, step in steps.items():
            print(step)
            if sizes:
                own = {
                    axis.name: sizes[axis.name]
                    for axis in step.signature.axes
                    if axis.name in sizes
                }
                show(Drawing(drawing(step, own)))
                median, rate = timing(step, own)
                print(f"{name}: {median * 1e6:.4g} us a call, {rate / 1e9:.3g} GB/s")
    except (CompileError, LockstepError) as error:
        print(error, file=sys.stderr)


def own_steps(text: str, path: str) -> list[str]:
    """The names of the steps that stand in a text itself."""
    source = Source.__new__(Source)
    source.text, source.file, source.defines, source.made = text, path, (), {}
    api, compilation = library(), source.compiled()
    try:
        return step_names(api, compilation)[: api.ls_compilation_own_step_count(compilation)]
    finally:
        api.ls_compilation_destroy(compilation)


def show(picture: Drawing) -> None:
    from IPython.display import display

    display(picture)


def load(shell: Any) -> None:
    shell.register_magic_function(
        lambda line, cell: run_cell(shell, line, cell), "cell", "lockstep"
    )
