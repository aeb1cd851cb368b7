"""Lockstep for PyTorch: steps on tensors, and optimizers made of them.

    from lockstep.torch import Optimizer, Step
    optimizer = Optimizer(model.parameters(), "std/optim:adamw", lr=3e-4, weight_decay=0.1)
    cross_entropy = Step("std/losses:cross_entropy")
    loss, dlogits = cross_entropy(logits=logits, target=target)   # logits [b, c], target [b]

Nothing is copied, and nothing of PyTorch's ABI is used: steps are given each tensor's data_ptr(),
shape and strides, which is what a DLPack capsule holds without the price of making one (and without
its synchronisation, which an array on the current stream does not need). Work goes to the tensors'
device, in order with PyTorch's own on torch.cuda.current_stream(), and nothing waits for it.
"""

from __future__ import annotations

import sys
from typing import Any, Callable, Sequence

from .._api import CompileError, LockstepError, version
from .._graph import graph
from .._step import Step as _Step
from .._step import made_of
from ._operator import Operator, operator
from ._optimizer import Optimizer
from ._staged import Muon, Sophia
from ._tensors import TENSORS

__all__ = [
    "CompileError",
    "LockstepError",
    "Muon",
    "Operator",
    "Optimizer",
    "Sophia",
    "Step",
    "graph",
    "step",
    "version",
]


class Step(_Step):
    """lockstep.Step, for tensors: what it allocates is a tensor also where only numbers are
    given."""

    arrays = TENSORS

    def op(self, outs: Sequence[str] | None = None) -> Operator:
        """The step as an operator of torch.library, with a shape function and, by `backward`, a
        gradient, which torch.compile, vmap and FakeTensor look through. `outs` chooses results
        (all)."""
        return operator(self, outs)


def step(text: str | Callable[..., Any], name: str | None = None, **constants: Any) -> Step:
    """lockstep.step, for tensors: a step of a text, or of a function's docstring, in a Python
    file."""
    return made_of(Step, text, sys._getframe(1).f_code.co_filename, name, constants)
