"""Lockstep from Python: steps of the .step language on arrays.

    import lockstep
    cross_entropy = lockstep.Step("std/losses:cross_entropy")
    loss, dlogits = cross_entropy(logits, target)      # logits [b, c], target [b] -> loss, dlogits
    [b, c]

This module takes NumPy's arrays, buffers and what has `__dlpack__` on the CPU, and PyTorch's
tensors where they are. `lockstep.torch` has operators and optimizers for PyTorch, `lockstep.jax`
calls for JAX; in a notebook `%load_ext lockstep` brings the cell magic `%%lockstep`. The package
holds the compiler, the runtime and the command `lockstep`; steps run on NVIDIA's and AMD's GPUs
through their drivers, and on a CPU with the C compiler that is there (any of clang, gcc, or PyPI's
ziglang).
"""

from __future__ import annotations

from typing import Any

from ._api import CompileError, LockstepError, version
from ._feed import Claim, Feed
from ._graph import graph
from ._step import Step, step

__all__ = [
    "Claim",
    "CompileError",
    "Feed",
    "LockstepError",
    "Step",
    "graph",
    "step",
    "version",
]


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext lockstep`: the cell magic `%%lockstep`."""
    from ._notebook import load

    load(shell)
