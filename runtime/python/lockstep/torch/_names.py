"""PyTorch's names for what optimizer steps have, and steps that are put around others."""
from __future__ import annotations

import torch

from .._api import INOUT, OUT, TYPES
from .._signature import Source

# A step's own names for what PyTorch's optimizers keep, by the keys of their state.
STATE_NAMES = {"step": "count", "exp_avg": "m", "exp_avg_sq": "v", "max_exp_avg_sq": "v_max",
               "exp_inf": "u", "momentum_buffer": "m", "square_avg": "v", "grad_avg": "average",
               "sum": "total", "acc_delta": "moved", "mu_product": "mu_product"}
GROUP_NAMES = {"decay": "weight_decay"}  # and beta1, beta2 ...: "betas"
HINTS = ("foreach", "fused")  # how PyTorch is to do it


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
    return source.around() + \
        f"step wrapped_{source.name}[{signature.header()}](\n    {', '.join(rows)}\n)" \
        f"{signature.grade()} {{\n    {call}\n}}\n"


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether its elements fill one piece of memory, in whatever order."""
    if tensor.is_contiguous():
        return True
    expected = 1
    for stride, size in sorted((s, n) for s, n in zip(tensor.stride(), tensor.shape) if n > 1):
        if stride != expected:
            return False
        expected *= size
    return True
