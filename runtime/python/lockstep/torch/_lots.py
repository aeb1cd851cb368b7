"""Lots: the parameters that one launch of an optimizer updates."""

from __future__ import annotations

import ctypes as C
from typing import Any, Sequence

import torch

from .._api import Tensor
from .._arrays import Row, tensors_of
from .._bound import Bound
from .._signature import Parameter
from ._form import Form
from ._tensors import ADDRESS, TENSORS, describe, local, store_whole, whole_of


class Lot:
    """Parameters of one group, form and device that one launch updates: they have taken the same
    steps, or the form counts for each."""

    def __init__(self, optimizer: Any, group: int, form: Form, members: list[torch.Tensor]) -> None:
        self.group, self.form, self.members = group, form, members
        self.sharded = any(hasattr(p, "to_local") for p in members)
        self.device = local(members[0]).device
        self.bound = Bound(form.source, TENSORS.context(self.device))
        # Of what is no step of each element alone, shards are gathered for each launch.
        self.whole = self.sharded and not form.elementwise
        self.plain = not self.sharded and all(p.is_contiguous() for p in members)
        self.copies = {
            i: local(p)
            for i, p in enumerate(members)
            if not self.whole and not optimizer._fits_as_it_lies(form, p)
        }
        self.staged = {
            i: torch.empty(p.shape, dtype=p.dtype, device=p.device) for i, p in self.copies.items()
        }
        self.key: Any = None
        self.rows: dict[str, list[Row]] = {}
        self.own: list[int] | None = None  # where the parameters were
        self.lengths: dict[
            str, list[tuple[int, int]]
        ] = {}  # of all axes, with the member they are of
        self.lists: dict[str, Any] = {}
        self.addresses: dict[str, Any] = {}
        self.values: dict[Parameter, Any] = {}
        self.present: tuple[bool, ...] | None = None  # which members the lists have; None: all
        self._take_cells(optimizer.state)
        for parameter in form.lists:
            self.rows[parameter.name] = rows = [
                optimizer._row(form, parameter, p, self.whole) for p in members
            ]
            self.lists[parameter.name] = tensors_of(rows)
            self.lengths[parameter.name] = [
                (i, length) for i, row in enumerate(rows) for length in row[2]
            ]
            self.addresses[parameter.name] = None
            if parameter not in (form.model, form.gradient) and not self.whole:
                self.bind(parameter, [row[0] or 0 for row in rows])

    def _take_cells(self, state: Any) -> None:
        """Binds the rank-0 values; of a form that counts for each tensor they come to lie in one
        array, of which every parameter's state is an element."""
        self.cells: dict[str, torch.Tensor] = {}
        for parameter in self.form.cells:
            if self.form.counted:
                cell = torch.stack([state[p][parameter.name].reshape(()) for p in self.members])
                for p, own in zip(self.members, cell):
                    state[p][parameter.name] = own
            else:
                cell = state[self.members[0]][parameter.name]
            self.cells[parameter.name] = cell
            self.bound.bind(parameter, describe(cell))

    def own_addresses(self) -> list[int]:
        """Where the parameters lie, or the copies of those that a step does not take as they
        lie."""
        if self.sharded:
            return [local(p).data_ptr() for p in self.members]
        addresses = list(map(ADDRESS, self.members))
        for i, copy in self.staged.items():
            addresses[i] = copy.data_ptr()
        return addresses

    def bind(self, parameter: Parameter, addresses: Sequence[int]) -> None:
        """The list as it was, at other addresses."""
        tensors, bound = self.lists[parameter.name], self.bound
        words = C.sizeof(Tensor) // 8  # the first of each is its address
        memory: Any = (C.c_uint64 * (words * len(tensors))).from_buffer(tensors)
        memory[: words * len(addresses) : words] = addresses
        bound.context.check(
            bound.api.ls_step_bind_list(bound.pointer, parameter.key, tensors, len(self.members))
        )
        self.addresses[parameter.name] = addresses

    def bind_present(self, present: tuple[bool, ...] | None) -> None:
        """Lists in which the others are empty; None: all are there. Lists with parameters and
        gradients are bound anew afterwards."""
        if present == self.present:
            return
        for name, lengths in self.lengths.items():  # written where the tensors point to
            self.lists[name].memory[: len(lengths)] = [
                length if present is None or present[at] else 0 for at, length in lengths
            ]
        self.present = present
        for parameter in self.form.lists:
            if parameter in (self.form.model, self.form.gradient) or self.whole:
                self.addresses[parameter.name] = None
            else:
                self.bind(
                    parameter, self.masked([row[0] or 0 for row in self.rows[parameter.name]])
                )

    def masked(self, addresses: list[int]) -> list[int]:
        if self.present is None:
            return addresses
        return [address if here else 0 for address, here in zip(addresses, self.present)]

    def launch_whole(self, state: Any, gradients: Sequence[Any]) -> None:
        """A launch on tensors that are gathered, of which the shards are kept."""
        every: list[tuple[Parameter, list[Any], list[torch.Tensor]]] = []
        for parameter in self.form.lists:
            if parameter is self.form.gradient:
                own: list[Any] = [m if g is None else g for m, g in zip(self.members, gradients)]
            elif parameter is self.form.model:
                own = [p.detach() for p in self.members]
            else:
                own = [state[p][parameter.name] for p in self.members]
            there = self.present or (True,) * len(own)
            worked_on = [whole_of(t) if here else t for t, here in zip(own, there)]
            self.bind(parameter, [t.data_ptr() if here else 0 for t, here in zip(worked_on, there)])
            every.append((parameter, own, worked_on))
        self.bound.launch()
        for parameter, own, worked_on in every:
            if parameter is not self.form.gradient:
                for to, tensor, here in zip(own, worked_on, there):
                    if here:
                        store_whole(to, tensor)

    def launch(self) -> None:
        for i, copy in self.staged.items():
            copy.copy_(self.copies[i])
        self.bound.launch()
        for i, copy in self.staged.items():
            self.copies[i].copy_(copy)
