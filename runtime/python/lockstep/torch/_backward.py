"""The operators of steps' gradients."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import torch

from .._api import FLOATS
from .._derivative import derivative
from .._signature import Parameter
from ._autograd import completed, gradients, placed, places_of, take, without


class Backward:
    """The operator of a step's gradients, one for all choices of the outs that have one and of the
    inputs that want one: compiled graphs, which others may have cached, know it by its name alone.
    It takes the tensors of the operator, a gradient or None for each float out, a bit for each
    target that is wanted, and the numbers; it gives the gradients wanted, of lists one for each
    tensor. `mapped` gives them for the entries of a batch."""

    def __init__(self, forward: Any, mapped: Callable[..., list[Any]]) -> None:
        self.forward, self.step, self.mapped = forward, forward.step, mapped
        self.tensors: list[Parameter] = [p for p in forward.inputs if not forward.is_number(p)]
        self.numbers: list[Parameter] = [p for p in forward.inputs if forward.is_number(p)]
        self.outs: list[Parameter] = [p for p in forward.results if p.type in FLOATS]
        rows = [f"Tensor{'[]' if p.tensors else ''} {p.name}" for p in self.tensors]
        rows += [f"Tensor{'[]' if p.tensors else ''}? lockstep_d{p.name}" for p in self.outs]
        rows += ["int lockstep_wanted"] + [forward.number_row(p) for p in self.numbers]
        self.names = [p.name for p in self.tensors] + [f"d{p.name}" for p in self.outs]
        self.torch_op = torch.library.custom_op(
            f"lockstep::{forward.name}_backward",
            self._run,
            mutates_args=(),
            schema=f"({', '.join(rows)}) -> Tensor[]",
        )
        self.torch_op.register_fake(self._fake)
        self.torch_op.register_autograd(self._backward, setup_context=self._keep)
        self.torch_op.register_vmap(self._vmap)

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
        flat: list[torch.Tensor] = []
        for found in gradients(self.step, values, upstream, wanted).values():
            flat += found if isinstance(found, list) else [found]
        return flat

    def _fake(self, *arguments: Any) -> list[torch.Tensor]:
        values, _, wanted = self._split(arguments)
        return [
            tensor.new_empty(tensor.shape)
            for name in wanted
            for tensor in (
                values[name] if isinstance(values[name], (list, tuple)) else [values[name]]
            )
        ]

    def _keep(self, ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        given = dict(enumerate(inputs))
        ctx.set_materialize_grads(False)
        ctx.places = places_of(given)  # type: ignore[arg-type]
        ctx.given = without(given, ctx.places)  # type: ignore[arg-type]
        ctx.save_for_backward(*take(given, ctx.places))  # type: ignore[arg-type]

    def _backward(self, ctx: Any, upstream: Any) -> Any:
        """The second derivative, by that of the derivative."""
        given = placed(ctx.given, ctx.places, ctx.saved_tensors)
        values, coming, wanted = self._split(list(given.values()))
        there = [name for name, value in coming.items() if value is not None]
        first = derivative(self.step, there, wanted)
        needs = dict(zip(self.names, ctx.needs_input_grad))
        asked = [n for n in self.names if (any(needs[n]) if _is_list(needs[n]) else needs[n])]
        values.update({f"d{name}": coming[name] for name in there})
        flat, each = list(upstream or ()), {}
        for name in wanted if flat else ():
            if _is_list(values[name]):
                own = [flat.pop(0) for _ in values[name]]
                each[f"d{name}"] = completed(first, f"d{name}", own, values)
            else:
                each[f"d{name}"] = flat.pop(0)
        found: dict[str, Any] = {}
        if any(gradient is not None for gradient in each.values()):
            found = gradients(first, values, each, asked)
        rest = (None,) * (1 + len(self.numbers))
        return (
            tuple(
                found.get(n, [None] * len(needs[n]) if _is_list(needs[n]) else None)
                for n in self.names
            )
            + rest
        )

    def _vmap(self, info: Any, in_dims: Sequence[Any], *arguments: Any) -> Any:
        values, upstream, wanted = self._split(arguments)
        dims = dict(zip(self.names, in_dims))
        found = self.mapped(self.step, info.batch_size, values, upstream, dims, wanted)
        return found, [0] * len(found)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))
