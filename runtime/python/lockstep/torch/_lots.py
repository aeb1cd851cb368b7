"""Lots: the parameters that one launch of an optimizer updates."""
from __future__ import annotations

import ctypes as C
from typing import Any

import torch

from .._api import Tensor
from .._arrays import tensors_of
from .._bound import Bound
from .._signature import Parameter
from ._tensors import TENSORS, describe


class Lot:
    """Parameters of one group and device that have taken the same steps: one launch updates them."""

    def __init__(self, optimizer: Any, group: int, members: list[torch.Tensor]) -> None:
        self.group, self.members, self.device = group, members, members[0].device
        self.bound = Bound(optimizer._source, TENSORS.context(self.device))
        self.plain = all(p.is_contiguous() for p in members)
        self.key: Any = None
        self.lists: dict[str, Any] = {}
        self.addresses: dict[str, Any] = {}
        self.values: dict[Parameter, Any] = {}
        self.cells = [optimizer.state[members[0]].get(p.name) for p in optimizer._cells]
        for parameter, cell in zip(optimizer._cells, self.cells):
            self.bound.bind(parameter, describe(cell))
        for parameter in optimizer._lists:
            rows = [optimizer._row(parameter, p) for p in members]
            self.lists[parameter.name] = tensors_of(rows)
            self.addresses[parameter.name] = None
            if parameter not in (optimizer._model, optimizer._gradient):
                self.bind(parameter, [row[0] for row in rows])

    def bind(self, parameter: Parameter, addresses: list[int]) -> None:
        """The list as it was, at other addresses."""
        tensors, bound = self.lists[parameter.name], self.bound
        words = C.sizeof(Tensor) // 8  # the first of each is its address
        memory: Any = (C.c_uint64 * (words * len(tensors))).from_buffer(tensors)
        memory[:words * len(addresses):words] = addresses
        bound.context.check(bound.api.ls_step_bind_list(bound.pointer, parameter.key, tensors,
                                                        len(self.members)))
        self.addresses[parameter.name] = addresses
