"""State of 8-bit optimizers of torchao and bitsandbytes, by the names of std/optim/stored's."""

from __future__ import annotations

import functools
from typing import Any

import torch

from .._step import Step
from ._names import STATE_NAMES
from ._tensors import TENSORS

# The packages keep the states of tensors below this in f32.
LEAST_CODED = 4096
QUANTIZED = "__bnb_optimizer_quant_state__"
BITSANDBYTES = {"state1": "m", "absmax1": "m_scale", "state2": "v", "absmax2": "v_scale"}


class _Step(Step):
    arrays = TENSORS


@functools.cache
def tables() -> tuple[torch.Tensor, torch.Tensor]:
    """What the codes of 8 bits stand for in std/codecs: signed and unsigned."""
    found = _Step("std/codecs:codec_tables")(signed_4bit=False, unsigned_4bit=False)
    return found[0], found[1]


def check_table(given: torch.Tensor, signed: bool) -> None:
    """Refuses codes that mean something else here."""
    own = tables()[0 if signed else 1]
    if given.shape != own.shape or not torch.allclose(given.cpu().float(), own, 1e-5, 1e-9):
        raise ValueError("the state loaded has codes of another table (qmap) than std/codecs")


def unpacked(values: dict[str, Any], p: torch.Tensor) -> dict[str, Any]:
    """What a package kept for a parameter, each tensor by itself; anything else as it is."""
    given, made = dict(values), dict[str, Any]()
    given.update(given.pop(QUANTIZED, {}))
    in_blocks = False
    for name, value in given.items():
        if hasattr(value, "codes") and hasattr(value, "scale"):  # a tensor of torchao's
            own = STATE_NAMES.get(name, name)
            if hasattr(value, "qmap"):
                check_table(value.qmap, own == "m")
            made[own], made[own + "_scale"], in_blocks = value.codes, value.scale, True
        elif name in ("qmap1", "qmap2"):
            check_table(value, name == "qmap1")
        elif name != "unorm_vec":
            made[BITSANDBYTES.get(name, name)] = value
            in_blocks = in_blocks or name == "absmax1"
    if in_blocks and not p.is_contiguous():
        raise ValueError(
            "the state loaded has scales for blocks of rows, and the parameter does not lie by rows"
        )
    return made
