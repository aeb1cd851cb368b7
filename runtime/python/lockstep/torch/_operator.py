"""Steps as operators of torch.library: what torch.compile, vmap, FakeTensor and export can look
through."""

from __future__ import annotations

import hashlib
from typing import Any, Sequence

import torch

from .._api import FLOATS, IN, INOUT, OUT, TYPES, LockstepError, version
from .._signature import Parameter
from .._step import Step
from .._batched import each, rows_axis
from .._derivative import derivable, derivative, targets_of
from ._autograd import completed, placed, places_of, shapes_of, take, without
from ._backward import Backward
from ._tensors import DTYPES, TENSORS

FORM = 1  # of the operators' schemas
_made: dict[str, Operator] = {}


class Operator:
    """A step as an operator, called as the step is:

        silu = lockstep.torch.Step("std/activations:silu_forward").op()
        y = silu(x)                  # torch.compile(fullgraph=True), autograd, vmap, meta tensors

    Arrays are tensors; rank-0 parameters with a default are numbers, those without tensors or
    numbers. A step over one axis takes tensors of any shape, as their elements. It has as results
    the `out`s chosen, one tensor or a tuple. `torch_op` is torch.library's own.
    """

    def __init__(self, step: Step, outs: Sequence[str], name: str) -> None:
        self.step, self.outs, self.name = step, list(outs), name
        signature = step.signature
        self.declared = [p for p in signature.parameters if p.role != OUT]
        # A schema has what has a default last.
        self.inputs = sorted(self.declared, key=lambda p: self.is_number(p))
        self.results = [p for p in signature.parameters if p.name in outs]
        arrays = [p for p in signature.parameters if p.rank]
        self.flat = (
            len(signature.axes) == 1
            and all(p.rank == 1 for p in arrays)
            and not any(p.tensors for p in arrays)
        )
        self.torch_op = torch.library.custom_op(
            f"lockstep::{name}",
            self._run,
            mutates_args=[p.name for p in self.inputs if p.role == INOUT],
            schema=self._schema(),
        )
        self.torch_op.register_fake(self._fake)
        self.targets = targets_of(step)
        if derivable(step) is None:
            self.backward_op = Backward(self, mapped_gradients).torch_op
            self.torch_op.register_autograd(self._backward, setup_context=self._keep)
        self.torch_op.register_vmap(self._vmap)

    def _schema(self) -> str:
        rows = []
        for at, p in enumerate(self.inputs):
            if p.role == INOUT:
                rows.append(f"Tensor(a{at}!){'[]' if p.tensors else ''} {p.name}")
            elif not self.is_number(p):
                rows.append(f"Tensor{'[]' if p.tensors else ''} {p.name}")
            else:
                rows.append(self.number_row(p))
        each = ["Tensor[]" if p.tensors else "Tensor" for p in self.results]
        return (
            f"({', '.join(rows)}) -> {each[0] if len(each) == 1 else '(' + ', '.join(each) + ')'}"
        )

    @staticmethod
    def number_row(p: Parameter) -> str:
        kind = "bool" if TYPES[p.type] == "bool" else "float" if p.type in FLOATS else "int"
        return f"{kind} {p.name}={ {'bool': bool, 'float': float, 'int': int}[kind](p.default) }"

    @staticmethod
    def is_number(p: Parameter) -> bool:
        return p.role == IN and not p.rank and p.default is not None

    def __call__(self, *arguments: Any, **values: Any) -> Any:
        given: dict[str, Any] = {}
        shape = None
        for at, p in enumerate(self.declared):
            value = arguments[at] if at < len(arguments) else values.pop(p.name, p.default)
            if value is None:
                raise TypeError(f"operator {self.name} lacks {p.declaration()}")
            if not p.rank and p.default is None and not isinstance(value, torch.Tensor):
                value = torch.tensor(value, dtype=DTYPES[p.type])
            if self.flat and p.rank and value.dim() != 1:
                if shape is not None and value.shape != shape:
                    raise LockstepError(
                        f"operator {self.name}: `{p.name}` has shape {tuple(value.shape)}, "
                        f"another argument {tuple(shape)}"
                    )
                shape, value = value.shape, value.reshape(-1)
            given[p.name] = value
        if values or len(arguments) > len(self.declared):
            raise TypeError(
                f"operator {self.name} takes {', '.join(p.name for p in self.declared)}"
                f"{', and no ' + next(iter(values)) if values else ''}"
            )
        results = self.torch_op(*(given[p.name] for p in self.inputs))
        if shape is None:
            return results
        if len(self.results) < 2:
            return results.view(shape) if self.results and self.results[0].rank else results
        return tuple(r.view(shape) if p.rank else r for p, r in zip(self.results, results))

    def _values(self, arguments: Sequence[Any]) -> dict[str, Any]:
        """What was given by name; the dispatcher leaves trailing defaults out."""
        return {
            p.name: arguments[at] if at < len(arguments) else p.default
            for at, p in enumerate(self.inputs)
        }

    def _run(self, *arguments: Any) -> Any:
        unwanted = {
            p.name: False
            for p in self.step.signature.parameters
            if p.role == OUT and p.name not in self.outs
        }
        results = self.step.run({**self._values(arguments), **unwanted}, TENSORS)
        return self._packed([results[p.name] for p in self.results])

    @staticmethod
    def _packed(results: list[Any]) -> Any:
        return results[0] if len(results) == 1 else tuple(results) or None

    def _fake(self, *arguments: Any) -> Any:
        values = self._values(arguments)
        shapes = self.step.shapes(self.results, shapes_of(self.step, values))
        first = next(
            v[0] if isinstance(v, (list, tuple)) else v
            for v in values.values()
            if isinstance(v, (torch.Tensor, list, tuple))
        )
        made: list[Any] = []
        for p in self.results:
            if p.tensors:
                made.append(
                    [first.new_empty(shape, dtype=DTYPES[p.type]) for shape in shapes[p.name]]
                )
            else:
                made.append(first.new_empty(shapes[p.name], dtype=DTYPES[p.type]))
        return self._packed(made)

    # ---- autograd ----

    def _keep(self, ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        values = self._values(inputs)
        ctx.set_materialize_grads(False)
        ctx.places = places_of(values)
        ctx.given = without(values, ctx.places)
        ctx.save_for_backward(*take(values, ctx.places))

    def _backward(self, ctx: Any, *upstream: Any) -> Any:
        values = placed(ctx.given, ctx.places, ctx.saved_tensors)
        given = [
            completed(self.step, p.name, gradient, values) if p.tensors and gradient else gradient
            for p, gradient in zip(self.results, upstream)
            if p.type in FLOATS
        ]
        needs = {
            p.name: any(need) if isinstance(need, (list, tuple)) else need
            for p, need in zip(self.inputs, ctx.needs_input_grad)
        }
        wanted = [p for p in self.targets if needs.get(p.name)]
        found: dict[str, Any] = {}
        if wanted and any(gradient is not None for gradient in given):
            mask = sum(1 << at for at, p in enumerate(self.targets) if p in wanted)
            tensors = [values[p.name] for p in self.inputs if not self.is_number(p)]
            numbers = [values[p.name] for p in self.inputs if self.is_number(p)]
            flat = list(self.backward_op(*tensors, *given, mask, *numbers))
            for p in wanted:
                found[p.name] = [flat.pop(0) for _ in values[p.name]] if p.tensors else flat.pop(0)
        return tuple(
            found.get(p.name, [None] * len(values[p.name]) if p.tensors else None)
            for p in self.inputs
        )

    # ---- vmap ----

    def _vmap(self, info: Any, in_dims: Sequence[Any], *arguments: Any) -> Any:
        results = mapped(self, info.batch_size, in_dims, arguments)
        return self._packed(results), self._packed([_firsts(result) for result in results])


def _firsts(result: Any) -> Any:
    return [0] * len(result) if isinstance(result, list) else 0


def mapped(op: Operator, size: int, in_dims: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    """The results for each entry of a batch, which is their first axis: one launch, unless the step
    has lists."""
    step, batched = op.step, set()
    values: dict[str, Any] = {p.name: p.default for p in op.inputs}
    for p, value, dim in zip(op.inputs, arguments, in_dims):
        if isinstance(dim, int):
            value = value.movedim(dim, 0)
            batched.add(p.name)
        elif p.role == INOUT:
            raise LockstepError(
                f"vmap over operator {op.name}: `{p.name}` is changed by every entry, and is "
                "not mapped"
            )
        values[p.name] = value
    if any(p.tensors for p in step.signature.parameters):
        return _one_by_one(op, size, in_dims, arguments)
    axis = rows_axis(step)
    own = {p.name for p in op.inputs if axis is not None and axis in p.axes}
    views = all(
        values[p.name].is_contiguous() for p in op.inputs if p.role == INOUT
    )  # so that what is written to the rows is written to the entries
    if axis is None or not batched <= own or not views:
        mapper = operator(each(step, frozenset(batched), op.outs), op.outs)
        return _listed(mapper.torch_op(*(values[p.name] for p in op.inputs)))
    rows = 0
    for name in own:
        value = values[name] if name in batched else values[name].expand(size, *values[name].shape)
        rows = value.shape[1]
        values[name] = value.reshape(size * rows, *value.shape[2:])
    results = _listed(op.torch_op(*(values[p.name] for p in op.inputs)))
    return [result.unflatten(0, (size, rows)) for result in results]


def _listed(results: Any) -> list[Any]:
    return list(results or ()) if isinstance(results, (list, tuple, type(None))) else [results]


def _one_by_one(
    op: Operator, size: int, in_dims: Sequence[Any], arguments: Sequence[Any]
) -> list[Any]:
    """A launch for each entry: how long the tensors of lists are may not vary over a `for`."""

    def entry(value: Any, dim: Any, at: int) -> Any:
        if isinstance(value, (list, tuple)):
            return [entry(v, d, at) for v, d in zip(value, dim or [None] * len(value))]
        return value if dim is None else value.select(dim, at)

    runs = []
    for at in range(size):
        results = op.torch_op(*(entry(v, d, at) for v, d in zip(arguments, in_dims)))
        runs.append([results] if len(op.results) == 1 else list(results or ()))
    return [
        [torch.stack(each) for each in zip(*result)]
        if isinstance(result[0], (list, tuple))
        else torch.stack(result)
        for result in zip(*runs)
    ]


def mapped_gradients(
    step: Step,
    size: int,
    values: dict[str, Any],
    upstream: dict[str, Any],
    dims: dict[str, Any],
    wanted: Sequence[str],
) -> list[Any]:
    """The gradients wanted, for each entry of a batch."""
    back = derivative(step, [name for name, value in upstream.items() if value is not None], wanted)
    given = {**values, **{f"d{name}": value for name, value in upstream.items()}}
    made = operator(back, None)
    names = [p.name for p in made.inputs]
    found = mapped(made, size, [dims.get(n) for n in names], [given.get(n) for n in names])
    flat: list[Any] = []
    for result in found:
        flat += result if isinstance(result, list) else [result]
    return flat


def operator(step: Step, outs: Sequence[str] | None) -> Operator:
    """The operator of a step, made once in a process for each program and choice of outs."""
    every = [p.name for p in step.signature.parameters if p.role == OUT]
    chosen = every if outs is None else [name for name in every if name in outs]
    if outs is not None and set(outs) - set(every):
        raise TypeError(
            f"step {step.source.name} has no out `{(set(outs) - set(every)).pop()}`: "
            f"{', '.join(every)}"
        )
    if not chosen and not any(p.role == INOUT for p in step.signature.parameters):
        raise LockstepError(f"step {step.source.name} as an operator has no result")
    source = step.source
    # Compiled graphs that PyTorch keeps know operators by their names: another form is another
    # name.
    identity = repr(
        (
            FORM,
            source.text or source.file,
            source.name,
            source.defines,
            chosen,
            version(),
            repr(step),
        )
    )
    key = hashlib.sha256(identity.encode()).hexdigest()[:12]
    if key not in _made:
        _made[key] = Operator(step, chosen, f"{source.name}_{key}")
    return _made[key]
