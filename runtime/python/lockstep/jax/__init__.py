"""Lockstep for JAX: steps as functions that jit, grad and vmap know, and optimizers over a pytree.

    import lockstep.jax
    loss = lockstep.jax.call("std/losses:cross_entropy", logits, target, outs=["loss"])
    dlogits = jax.grad(
        lambda x: lockstep.jax.call("std/losses:cross_entropy", x, target, outs=["loss"]))(logits)

A call goes through XLA's FFI: no array is copied, and a launch is part of the compiled program. It
runs on the CPU, and on a GPU in the stream that XLA names; the latter was tested on an emulated
device alone.
"""

from __future__ import annotations

from .._api import CompileError, LockstepError, version
from .._step import Step, step
from ._call import call
from ._optimizer import GradientTransformation, optimizer

__all__ = [
    "CompileError",
    "GradientTransformation",
    "LockstepError",
    "Step",
    "call",
    "optimizer",
    "step",
    "version",
]
