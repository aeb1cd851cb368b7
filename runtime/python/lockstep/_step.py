"""Steps that are called on arrays, and what makes them of a text in a Python file."""

from __future__ import annotations

import collections
import collections.abc
import inspect
import linecache
import math
import os
import sys
from typing import Any, Callable, Sequence, TypeVar, Union

from ._api import IN, OUT, LockstepError
from ._arrays import BUFFERS, Arrays, Row
from ._bound import Bound
from ._context import Context, capturing
from ._signature import Axis, Parameter, Source

Lengths = dict[Axis, Any]


class Step:
    """A step that is called on arrays: Step("adamw.step"), Step("std/norms:rms_norm_forward"), or a
    text with `{`; keyword arguments override the file's constants.

        rms_norm = lockstep.Step("std/norms:rms_norm_forward")
        y = rms_norm(x, gain)               # x [b, c], gain [c] -> y [b, c]

    Parameters are given by name, or in order without those that are `out`; lists of arrays as
    sequences; rank-0 values also as numbers. An `out` is allocated unless it is given, and left out
    where it is False. The result is the `out`s, and each rank-0 `inout` that was given as a number
    or has a default: one array, or a named tuple of several. Arrays may have gaps between elements
    (a slice, a transposed view); what is written needs memory of its own for every element. Shapes
    are the parameters' axes, which the step's `repr` shows; one that does not fit is an error that
    names both parameters. NumPy's arrays, buffers and DLPack's of the CPU give NumPy's arrays,
    PyTorch's tensors give tensors, on their device.

    PyTorch's gradients: a call on tensors that require one is differentiated by `backward`, or
    raises where the step cannot be (it has an `inout`, or an `out` was given).
    """

    arrays: Arrays | None = None  # of what framework all its calls are; None: of its arguments'
    each_of: tuple[Step, frozenset[str]] | None = (
        None  # of one for the entries of another: _batched
    )

    def __init__(
        self,
        file_or_text: str | os.PathLike[str],
        name: str | None = None,
        *,
        path: str = "step.text",
        **constants: Any,
    ) -> None:
        self.source = Source(file_or_text, name, constants, path)
        self.signature = self.source.signature
        self.__name__ = self.source.name
        self.written = [p for p in self.signature.parameters if p.role != IN]
        self._order = [p.name for p in self.signature.parameters if p.role != OUT]
        self._required = [
            p for p in self.signature.parameters if p.role != OUT and p.default is None
        ]
        self._lists = [p for p in self.signature.parameters if p.tensors]
        self._shapes: dict[Any, dict[str, Any]] = {}  # of outs, by those of what was given
        self._bound: dict[Context, Bound] = {}
        self._lengths: dict[str, int] = {}
        self._results: tuple[list[str], Any] | None = None

    def __repr__(self) -> str:
        inner = ", ".join(p.declaration() for p in self.signature.parameters)
        return f"<step {self.source.name}[{self.signature.header()}]({inner})>"

    def __reduce__(self) -> Any:
        source = self.source
        return _made, (
            type(self),
            source.text or source.file,
            source.name,
            source.defines,
            source.file,
        )

    def set_length(self, **lengths: int) -> None:
        """Gives axes that no array has, as one that only a `for` goes over, their lengths, for the
        calls from now on: rollout.set_length(t=40)."""
        for axis, length in lengths.items():
            self._lengths[axis] = length
            for context, bound in self._bound.items():
                with context:
                    bound.set_length(axis, length)

    def explain(self, report: str = "TEXT", **sizes: int | str) -> str:
        """The plan at these lengths by axis: launches, bytes, kernels. `report` is TEXT, JSON or
        DOT.

        print(step.explain(b=256, k=64))
        """
        return self.source.explain(sizes, report)

    def __call__(self, *arguments: Any, **values: Any) -> Any:
        given = self._arguments(arguments, values)
        arrays = self._arrays(given)
        results = arrays.differentiated(self, given)
        return self.packed(self.run(given, arrays) if results is None else results)

    def run(self, given: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
        """Launches it on what was given by name; the results by name."""
        device = self._device(given, arrays)
        context = arrays.context(device)
        with context:
            bound = self._bound.get(context)
            if (
                bound is None or context.recording is not None
            ):  # a graph keeps what it was recorded with
                bound = Bound(self.source, context)
                for axis, length in self._lengths.items():
                    bound.set_length(axis, length)
                if context.recording is None:
                    self._bound[context] = bound
            results = self._bind(bound, given, device, arrays)
            bound.launch()
            if context.recording is not None:
                context.recording.append((given, results))  # which have to live as long
        for parameter in self.written:
            value = given.get(parameter.name)
            if value is not None and value is not False:
                arrays.written(value if parameter.tensors else (value,))
        return results

    def packed(self, results: dict[str, Any]) -> Any:
        """One result as it is, none as None, several as a named tuple."""
        if len(results) < 2:
            return next(iter(results.values()), None)
        if self._results is None or self._results[0] != list(results):
            name: Any = self.source.name
            self._results = list(results), collections.namedtuple(name, results, rename=True)
        return self._results[1](*results.values())

    def _arguments(self, arguments: Sequence[Any], values: dict[str, Any]) -> dict[str, Any]:
        given, order = dict(values), self._order
        if len(arguments) > len(order):
            raise TypeError(
                f"step {self.source.name} takes {len(order)} arguments, not {len(arguments)}"
            )
        for name, value in zip(order, arguments):
            if name in given:
                raise TypeError(f"step {self.source.name} was given `{name}` twice")
            given[name] = value
        for name in given:
            if name not in self.signature.by_name:
                raise TypeError(
                    f"step {self.source.name} has no parameter `{name}`: it is {self!r}"
                )
        missing = [p for p in self._required if given.get(p.name) is None]
        if missing:
            raise TypeError(
                f"step {self.source.name} lacks {'; '.join(p.declaration() for p in missing)}"
            )
        for parameter in self._lists:
            value = given.get(parameter.name)
            if value is None or value is False:
                continue
            if (
                hasattr(value, "__dlpack__")
                or hasattr(value, "__array_interface__")
                or not isinstance(value, collections.abc.Iterable)
            ):
                raise TypeError(
                    f"`{parameter.name}` of step {self.source.name} is a list of tensors, and "
                    f"a {type(value).__name__} was given"
                )
            given[parameter.name] = list(value)
        return given

    def _arrays(self, given: dict[str, Any]) -> Arrays:
        """Whose arrays these are."""
        if self.arrays is not None:
            return self.arrays
        torch = sys.modules.get("torch")
        if torch is not None:
            for value in given.values():
                if (
                    isinstance(value, torch.Tensor)
                    or isinstance(value, list)
                    and any(isinstance(v, torch.Tensor) for v in value)
                ):
                    from .torch._tensors import TENSORS

                    return TENSORS
        return BUFFERS

    def _device(self, given: dict[str, Any], arrays: Arrays) -> Any:
        device, first = None, None
        for parameter in self.signature.parameters:
            value = given.get(parameter.name)
            if value is None or value is False:
                continue
            for array in value if parameter.tensors else (value,):
                if not arrays.owns(array):
                    continue
                here = arrays.device(array)
                if (
                    here == device
                    or parameter.rank == 0
                    and parameter.role == IN
                    and (here is None or here.type == "cpu")
                ):
                    continue
                if device is not None and here != device:
                    raise LockstepError(
                        f"step {self.source.name}: `{first}` is on {device}, "
                        f"`{parameter.name}` on {here}; bring them together"
                    )
                device, first = here, parameter.name
        return device

    def _bind(
        self, bound: Bound, given: dict[str, Any], device: Any, arrays: Arrays
    ) -> dict[str, Any]:
        results: dict[str, Any] = {}
        rows: dict[str, Row | list[Row]] = {}
        allocate: list[Parameter] = []
        for parameter in self.signature.parameters:
            name, value = parameter.name, given.get(parameter.name)
            where, written = f"`{name}` of step {self.source.name}", parameter.role != IN
            if value is None and parameter.role != OUT:
                value = parameter.default
            if parameter.role == OUT and value is False:
                bound.bind(parameter, None)
            elif parameter.role == OUT and value is None:
                allocate.append(parameter)
                results[name] = None  # in its place
            elif parameter.tensors:
                rows[name] = [
                    arrays.describe(v, f"tensor {i} of {where}", parameter.type, written)
                    for i, v in enumerate(value or ())
                ]
            elif parameter.number and isinstance(value, (bool, int, float)):
                if parameter.role == IN or parameter.rank:
                    bound.set(parameter, value)
                    continue
                results[name] = arrays.cell(parameter.type, value, device)
                rows[name] = arrays.describe(results[name])
            else:
                number = arrays.host_number(value, device) if parameter.rank == 0 else None
                if number is not None:
                    bound.set(parameter, number)
                else:
                    rows[name] = arrays.describe(value, where, parameter.type, written)
            if parameter.role == OUT and value is not None and value is not False:
                results[name] = value
        if allocate:
            self._allocate(allocate, given, rows, results, device, arrays)
        if any(bound.last.get(name) != row for name, row in rows.items()) and capturing():
            raise LockstepError(
                f"step {self.source.name} in a graph capture: it has to work on the tensors "
                "of the call before, so call it once ahead with them, and give its outputs"
            )
        for name, row in rows.items():
            bound.bind(self.signature.by_name[name], row)
        return results

    def _allocate(
        self,
        outs: list[Parameter],
        given: dict[str, Any],
        rows: dict[str, Any],
        results: dict[str, Any],
        device: Any,
        arrays: Arrays,
    ) -> None:
        key = (
            None
            if self._lists
            else (tuple(rows), tuple(row[2] for row in rows.values()), tuple(p.name for p in outs))
        )
        shapes = self._shapes.get(key)
        if shapes is None:
            shapes = self.shapes(
                outs,
                {
                    name: [row[2] for row in r] if isinstance(r, list) else r[2]
                    for name, r in rows.items()
                },
            )
            if key is not None and len(self._shapes) < 1000:
                self._shapes[key] = shapes
        for parameter in outs:
            wanted = shapes[parameter.name]
            if parameter.tensors:
                made = [arrays.empty(parameter.type, shape, device) for shape in wanted]
                rows[parameter.name] = [arrays.describe(a, "", parameter.type) for a in made]
            else:
                made = arrays.empty(parameter.type, wanted, device)
                rows[parameter.name] = arrays.describe(made, "", parameter.type)
            results[parameter.name] = made

    def shapes(self, outs: Sequence[Parameter], given: dict[str, Any]) -> dict[str, Any]:
        """The shapes of `outs` (of a list one for each tensor) that follow from those given by
        name; the lengths may be anything that counts as Python's integers do."""
        known: Lengths = {}
        lists: dict[Axis, list[Lengths]] = {}
        flat: dict[tuple[Axis, ...], list[tuple[int, ...]]] = {}
        for name, shape in given.items():
            parameter = self.signature.by_name[name]
            if not parameter.tensors:
                known.update(zip(parameter.axes, shape))
                continue
            known[parameter.tensors] = len(shape)
            own = lists.setdefault(parameter.tensors, [{} for _ in shape])
            for lengths, one in zip(own, shape):
                lengths.update(
                    zip(parameter.inner, one if parameter.rank > 2 else (math.prod(one),))
                )
            if parameter.rank == 2:
                flat.setdefault(tuple(parameter.axes), list(shape))
        self.signature.solve(known)
        made: dict[str, Any] = {}
        for parameter in outs:
            if not parameter.tensors:
                made[parameter.name] = self._shape(parameter, parameter.axes, known)
                continue
            made[parameter.name] = flat.get(tuple(parameter.axes)) or [
                self._shape(parameter, parameter.inner, self.signature.solve({**known, **lengths}))
                for lengths in lists.get(parameter.tensors, ())
            ]
        return made

    def _shape(self, parameter: Parameter, axes: list[Axis], known: Lengths) -> tuple[Any, ...]:
        try:
            return tuple(known[axis] for axis in axes)
        except KeyError as axis:
            raise LockstepError(
                f"step {self.source.name}: how long axis `{axis.args[0].name}` of "
                f"`{parameter.name}` is does not follow from what was given: give "
                f"`{parameter.name}` too"
            ) from None


def _made(
    kind: type[Step], file_or_text: str, name: str, defines: Sequence[str], path: str
) -> Step:
    return kind(file_or_text, name, path=path, **literals(defines))


def literals(defines: Sequence[str]) -> dict[str, Any]:
    """Constants as Source.defines has them, for another step of the same file."""
    return {key: _Literal(text) for key, text in (line.split("=", 1) for line in defines)}


class _Literal(str):
    def __repr__(self) -> str:
        return str(self)


# ---- a text in a Python file ----


def placed(text: str, file: str) -> str:
    """The text on the lines and columns that it has in a Python file, so that messages name
    those."""
    whole = "".join(linecache.getlines(file))
    at = whole.find(text) if whole.count(text) == 1 else -1
    if at < 0:
        return text
    before = whole[:at]
    return "\n" * before.count("\n") + " " * (at - before.rfind("\n") - 1) + text


def step(text: Union[str, Callable[..., Any]], name: str | None = None, **constants: Any) -> Step:
    """A step of a text in a Python file, whose lines its messages then name:

        scale = lockstep.step(\"\"\"
            step scale[n](x: f32[n], by: f32 = 2.0, out y: f32[n]) { y = by * x }
        \"\"\")

    or of a function's docstring; its body is not looked at:

        @lockstep.step
        def scale(x, by=2.0):
            \"\"\"step scale[n](x: f32[n], by: f32 = 2.0, out y: f32[n]) { y = by * x }\"\"\"

    `name` chooses one of several steps, keyword arguments override constants; imports are looked
    for beside the Python file.
    """
    return made_of(Step, text, sys._getframe(1).f_code.co_filename, name, constants)


Kind = TypeVar("Kind", bound=Step)


def made_of(
    kind: type[Kind],
    text: Union[str, Callable[..., Any]],
    file: str,
    name: str | None,
    constants: dict[str, Any],
) -> Kind:
    """The step of a text, or of a function's docstring, that stands in a Python file."""
    if callable(text):
        function = text
        if function.__doc__ is None or "{" not in function.__doc__:
            raise TypeError(
                f"@lockstep.step: the docstring of {function.__name__} is to be the step's text"
            )
        file = inspect.getsourcefile(function) or file
        made = kind(placed(function.__doc__, file), name, path=file, **constants)
        made.__doc__ = function.__doc__
        return made
    return kind(placed(text, file), name, path=file, **constants)
