"""An ls_step with what is bound to it, and its launches."""

from __future__ import annotations

import struct
from typing import Any

from ._api import FORMATS, IN, TYPES
from ._arrays import Row, tensors_of
from ._context import Context
from ._signature import Parameter, Source


class Bound:
    """An ls_step on a device. What is bound again as it was costs nothing. Used under the
    context."""

    def __init__(self, source: Source, context: Context) -> None:
        self.context, self.source = context, source
        with context:
            self.owner = context.step(source)
        self.pointer, self.api = self.owner.handle.pointer, self.context.api
        self.last: dict[str, Any] = {}  # what is bound
        self.numbers: dict[str, Any] = {}  # the values of `in`s that are not
        self.made: dict[str, Any] = {}

    def bind(self, parameter: Parameter, row: Row | list[Row] | None) -> None:
        """A row as `describe` gives it, a list of them, or None for nothing."""
        if self.last.get(parameter.name) == row:
            return
        if row is None:
            status = self.api.ls_step_bind(self.pointer, parameter.key, None)
        elif isinstance(row, list):
            status = self.api.ls_step_bind_list(
                self.pointer, parameter.key, tensors_of(row), len(row)
            )
        else:
            status = self.api.ls_step_bind(
                self.pointer, parameter.key, self._tensor(parameter, row)
            )
        self.context.check(status)
        self.last[parameter.name] = row
        self.numbers.pop(parameter.name, None)

    def _tensor(self, parameter: Parameter, row: Row) -> Any:
        """The ls_tensor of a row, in the place of the one before where that had its rank."""
        data, number, shape, strides = row
        made = self.made.get(parameter.name)
        if made is None or made[0].rank != len(shape):
            made = self.made[parameter.name] = tensors_of([row])
        made[0].data, made[0].type = data, number
        if shape:
            made.memory[:] = shape + (strides or ())
        return made

    def set(self, parameter: Parameter, value: Any) -> None:
        """A number for a rank-0 parameter, or for all tensors of a list."""
        if self.last.get(parameter.name) is not None:
            self.bind(parameter, None)
        if self.numbers.get(parameter.name) == value:
            return
        if TYPES[parameter.type] in ("i64", "u64"):  # more than a double holds
            status = self.api.ls_step_set(
                self.pointer,
                parameter.key,
                struct.pack("<" + FORMATS[TYPES[parameter.type]], value),
            )
        else:
            status = self.api.ls_step_set_number(self.pointer, parameter.key, value)
        self.context.check(status)
        if parameter.role == IN:
            self.numbers[parameter.name] = value

    def set_length(self, axis: str, length: int) -> None:
        """Of an axis that no array has."""
        self.context.check(self.api.ls_step_set_length(self.pointer, axis.encode(), length))

    def launch(self) -> None:
        """Queues it, or lets lockstep.graph record it."""
        if self.context.recording is not None:
            self.context.check(self.api.ls_step_prepare(self.pointer))
            self.context.recording.append(self)
            return
        self.context.check(self.api.ls_step_launch(self.pointer))
