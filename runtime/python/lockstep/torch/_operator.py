"""Steps as operators of torch.library: what torch.compile, vmap, FakeTensor and export can look
through."""

from __future__ import annotations

import hashlib
from typing import Any, Sequence

import torch

from .._api import FLOATS, IN, INOUT, OUT, TYPES, LockstepError, version
from .._signature import Parameter
from .._step import Step
from .._derivative import derivable, derivative, targets_of
from ._autograd import gradients, shapes_of
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
        self.inputs = sorted(self.declared, key=lambda p: self._is_number(p))
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
        if derivable(step) is None and not any(p.tensors for p in signature.parameters):
            self.backward_op = Backward(self).torch_op
            self.torch_op.register_autograd(self._backward, setup_context=self._keep)
        self.torch_op.register_vmap(self._vmap)

    def _schema(self) -> str:
        rows = []
        for at, p in enumerate(self.inputs):
            if p.role == INOUT:
                rows.append(f"Tensor(a{at}!){'[]' if p.tensors else ''} {p.name}")
            elif not self._is_number(p):
                rows.append(f"Tensor{'[]' if p.tensors else ''} {p.name}")
            else:
                rows.append(self._number_row(p))
        each = ["Tensor[]" if p.tensors else "Tensor" for p in self.results]
        return (
            f"({', '.join(rows)}) -> {each[0] if len(each) == 1 else '(' + ', '.join(each) + ')'}"
        )

    @staticmethod
    def _number_row(p: Parameter) -> str:
        kind = "bool" if TYPES[p.type] == "bool" else "float" if p.type in FLOATS else "int"
        return f"{kind} {p.name}={ {'bool': bool, 'float': float, 'int': int}[kind](p.default) }"

    @staticmethod
    def _is_number(p: Parameter) -> bool:
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
        if len(self.results) == 1:
            return results.view(shape) if self.results[0].rank else results
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
        return results[0] if len(results) == 1 else tuple(results)

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
        ctx.tensors = [name for name, value in values.items() if isinstance(value, torch.Tensor)]
        ctx.numbers = {name: value for name, value in values.items() if name not in ctx.tensors}
        ctx.save_for_backward(*(values[name] for name in ctx.tensors))

    def _backward(self, ctx: Any, *upstream: Any) -> Any:
        values = {**dict(zip(ctx.tensors, ctx.saved_tensors)), **ctx.numbers}
        given = [gradient for p, gradient in zip(self.results, upstream) if p.type in FLOATS]
        wanted = [
            p.name
            for p, need in zip(self.inputs, ctx.needs_input_grad)
            if need and p in self.targets
        ]
        found: dict[str, Any] = {}
        if wanted and any(gradient is not None for gradient in given):
            mask = sum(1 << at for at, p in enumerate(self.targets) if p.name in wanted)
            tensors = [values[p.name] for p in self.inputs if not self._is_number(p)]
            numbers = [values[p.name] for p in self.inputs if self._is_number(p)]
            found = dict(zip(wanted, self.backward_op(*tensors, *given, mask, *numbers)))
        return tuple(found.get(p.name) for p in self.inputs)

    # ---- vmap ----

    def _vmap(self, info: Any, in_dims: Sequence[int | None], *arguments: Any) -> Any:
        """One launch for each entry: a step's axes are its own, and a new one is not put into
        it."""

        def entry(value: Any, dim: Any, at: int) -> Any:
            if isinstance(value, (list, tuple)):
                return [entry(v, d, at) for v, d in zip(value, dim or [None] * len(value))]
            return value if dim is None else value.select(dim, at)

        runs = [
            self.torch_op(*(entry(value, dim, at) for value, dim in zip(arguments, in_dims)))
            for at in range(info.batch_size)
        ]
        if len(self.results) == 1:
            return torch.stack(runs), 0
        return tuple(map(torch.stack, zip(*runs))), (0,) * len(self.results)


class Backward:
    """The operator of a step's gradients, one for all choices of the outs that have one and of the
    inputs that want one: compiled graphs, which others may have cached, know it by its name alone.
    It takes the tensors of the operator, a gradient or None for each float out, a bit for each
    target that is wanted, and the numbers; it gives the gradients wanted."""

    def __init__(self, forward: Operator) -> None:
        self.forward, self.step = forward, forward.step
        self.tensors = [p for p in forward.inputs if not forward._is_number(p)]
        self.numbers = [p for p in forward.inputs if forward._is_number(p)]
        self.outs = [p for p in forward.results if p.type in FLOATS]
        rows = [f"Tensor {p.name}" for p in self.tensors] + [
            f"Tensor? lockstep_d{p.name}" for p in self.outs
        ]
        rows += ["int lockstep_wanted"] + [forward._number_row(p) for p in self.numbers]
        self.torch_op = torch.library.custom_op(
            f"lockstep::{forward.name}_backward",
            self._run,
            mutates_args=(),
            schema=f"({', '.join(rows)}) -> Tensor[]",
        )
        self.torch_op.register_fake(self._fake)
        self.torch_op.register_autograd(self._backward, setup_context=self._keep)

    def _split(self, arguments: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
        """The inputs and the gradients of outs, by name, and the names of the targets wanted."""
        count, more = len(self.tensors), len(self.outs)
        values = {p.name: value for p, value in zip(self.tensors, arguments)}
        upstream = {p.name: value for p, value in zip(self.outs, arguments[count:])}
        mask, given = arguments[count + more], arguments[count + more + 1 :]
        for at, p in enumerate(self.numbers):
            values[p.name] = given[at] if at < len(given) else p.default
        return (
            values,
            upstream,
            [p.name for at, p in enumerate(self.forward.targets) if mask >> at & 1],
        )

    def _run(self, *arguments: Any) -> list[torch.Tensor]:
        values, upstream, wanted = self._split(arguments)
        return list(gradients(self.step, values, upstream, wanted).values())

    def _fake(self, *arguments: Any) -> list[torch.Tensor]:
        values, _, wanted = self._split(arguments)
        return [values[name].new_empty(values[name].shape) for name in wanted]

    def _keep(self, ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        ctx.arguments = [None if isinstance(value, torch.Tensor) else value for value in inputs]
        ctx.places = [at for at, value in enumerate(inputs) if isinstance(value, torch.Tensor)]
        ctx.save_for_backward(*(inputs[at] for at in ctx.places))

    def _backward(self, ctx: Any, upstream: Any) -> Any:
        """The second derivative, by that of the derivative."""
        arguments = list(ctx.arguments)
        for at, tensor in zip(ctx.places, ctx.saved_tensors):
            arguments[at] = tensor
        values, given, wanted = self._split(arguments)
        first = derivative(
            self.step, [name for name, value in given.items() if value is not None], wanted
        )
        names = [p.name for p in self.tensors] + [f"d{p.name}" for p in self.outs]
        asked = [name for name, need in zip(names, ctx.needs_input_grad) if need]
        values.update({f"d{name}": value for name, value in given.items() if value is not None})
        found = gradients(
            first, values, {f"d{name}": g for name, g in zip(wanted, upstream)}, asked
        )
        return tuple(found.get(name) for name in names) + (None,) * (1 + len(self.numbers))


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
