"""kernels.py FOLDER LEVEL...: the kernels that the wheel has for CPUs without a C compiler.

Writes FOLDER/cpu-LEVEL.kernels for each level of processors ("x86-64-v3"), with the host's C
compiler (LOCKSTEP_CC): the steps of FILES of the standard library, the forms of its optimizers that
the package makes (with a count for each tensor, a loss scale, gradients with the other sign) and
the gradients of its steps; for arrays whose rows are contiguous, with gaps between rows or without.
"""

from __future__ import annotations

import ctypes as C
import os
import sys
from typing import Iterator

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lockstep._api import IN, OUT, OK, KernelsOptions, LockstepError, fail, library
from lockstep._around import around, check_text, counted_source
from lockstep._derivative import derivable, derivative, targets_of
from lockstep._signature import Source, step_names
from lockstep._step import Step

FILES = "optim", "norms", "activations", "losses"
USUAL = "adam", "adamw", "sgd", "lion", "adaptive"  # of optim: those whose forms are made, too
STD = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 2, "templates", "std")


def files() -> Iterator[str]:
    """Those that have steps of their own: "std/optim/adamw"."""
    for name in FILES:
        folder = os.path.join(STD, name)
        parts = sorted(os.listdir(folder)) if os.path.isdir(folder) else [name + ".step"]
        for part in parts:
            path = f"std/{name}/{part}" if os.path.isdir(folder) else f"std/{part}"
            yield path[: -len(".step")]


def keep(
    compilation: C.c_void_p, steps: list[int], folder: str, levels: list[str], packed: bool = False
) -> None:
    """Adds the kernels of steps, by number, to the file of each level; and packs it."""
    for level in levels:
        options = KernelsOptions(
            level=level.encode(),
            path=os.path.join(folder, f"cpu-{level}.kernels").encode(),
            steps=(C.c_size_t * len(steps))(*steps),
            step_count=len(steps),
            packed=packed,
            contiguous=True,
        )
        status = library().ls_compilation_kernels(compilation, C.byref(options))
        if status != OK:
            fail(status, library().ls_compilation_message(compilation))


def optimizer_forms(step: Step) -> Iterator[Source]:
    """What lockstep.torch.Optimizer makes of a step, if it is one: with a count for each tensor,
    for gradients that are missing, and with a loss scale."""
    lists = {p.name for p in step.signature.parameters if p.tensors}
    written = {p.name for p in step.written} & lists & {"p", "w"}
    if "g" not in lists or not written:
        return
    if any(p.rank == 0 for p in step.written if p.role != OUT):
        try:
            yield counted_source(step.source)
        except LockstepError:
            pass  # of another form than most; Optimizer does without it, too
    text = around(step.source, "g", False, True)
    yield Source(text, "wrapped_" + step.source.name, None, step.source.file)


def gradients(step: Step) -> Iterator[Source]:
    """The derivative that autograd takes of a forward step, by all its arrays, and of a loss, by
    the first; of steps that give more for a backward step of their own (`_saved`) there are
    none."""
    name, outs = step.source.name, [p.name for p in step.written]
    arrays = [p.name for p in targets_of(step) if p.rank and p.role == IN]
    if not name.endswith("_forward"):
        outs, arrays = [out for out in outs if out == "loss"], arrays[:1]
    if derivable(step) is not None or len(outs) != 1 or not arrays:
        return
    try:
        yield derivative(step, outs, arrays).source
    except LockstepError:
        pass  # it has none


def main() -> None:
    folder, levels = sys.argv[1], sys.argv[2:]
    os.makedirs(folder, exist_ok=True)
    for level in levels:  # of what was here nothing stays
        path = os.path.join(folder, f"cpu-{level}.kernels")
        if os.path.exists(path):
            os.remove(path)

    def keep_step(source: Source, packed: bool = False) -> None:
        compiled = source.compiled()
        names = step_names(library(), compiled)
        keep(compiled, [names.index(source.name)], folder, levels, packed)
        library().ls_compilation_destroy(compiled)

    for file in files():
        pointer = C.c_void_p()
        status = library().ls_compile_file(file.encode(), None, C.byref(pointer))
        if status != OK:
            fail(status, library().ls_compilation_message(pointer))
        count = library().ls_compilation_own_step_count(pointer)
        names = step_names(library(), pointer)[:count]
        keep(pointer, list(range(count)), folder, levels)
        library().ls_compilation_destroy(pointer)
        for name in names:  # what is made of them beside them, for there is much that is the same
            step = Step(f"{'std/optim' if file.startswith('std/optim/') else file}:{name}")
            usual = file.rpartition("/")[2] in USUAL
            for source in (*(optimizer_forms(step) if usual else ()), *gradients(step)):
                keep_step(source)
    for gradient in "f32", "bf16":
        keep_step(Source(check_text([gradient]), "check"), gradient == "bf16")


main()
