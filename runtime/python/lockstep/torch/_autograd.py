"""Gradients of steps for PyTorch: calls that autograd records."""

from __future__ import annotations

from typing import Any, Sequence

import torch

from .._api import FLOATS, IN, LockstepError
from .._derivative import derivable, derivative
from .._step import Step


def gradients(
    step: Step, values: dict[str, Any], upstream: dict[str, Any], wanted: Sequence[str]
) -> dict[str, Any]:
    """`d<in>` for each of `wanted`, given the inputs and, where there is one, the gradient of each
    out."""
    back = derivative(step, [name for name, value in upstream.items() if value is not None], wanted)
    defaults = {p.name: p.default for p in step.signature.parameters if p.role == IN and not p.rank}
    given = {
        **defaults,
        **values,
        **{f"d{name}": value for name, value in upstream.items() if value is not None},
    }
    result = back(**given)
    found = dict(zip(wanted, result if isinstance(result, tuple) else (result,)))
    if step.each_of is not None:  # what the entries share has the sum of their gradients
        found = {n: g if n in step.each_of[1] else g.sum(0) for n, g in found.items()}
    return found


def places_of(values: dict[str, Any]) -> list[tuple[str, int | None]]:
    """Where there are tensors: a name, and of a list the number."""
    places: list[tuple[str, int | None]] = []
    for name, value in values.items():
        if isinstance(value, torch.Tensor):
            places.append((name, None))
        elif isinstance(value, (list, tuple)):
            places += [(name, at) for at, v in enumerate(value) if isinstance(v, torch.Tensor)]
    return places


def take(values: dict[str, Any], places: Sequence[tuple[str, int | None]]) -> list[torch.Tensor]:
    """The tensors at these places."""
    return [values[name] if at is None else values[name][at] for name, at in places]


def without(values: dict[str, Any], places: Sequence[tuple[str, int | None]]) -> dict[str, Any]:
    """The values without the tensors at these places, which `placed` puts back."""
    left = {
        name: list(value) if isinstance(value, (list, tuple)) else value
        for name, value in values.items()
    }
    for name, at in places:
        if at is None:
            left[name] = None
        else:
            left[name][at] = None
    return left


def completed(step: Step, name: str, gradient: Any, values: dict[str, Any]) -> Any:
    """The gradient of a list, with zeros for the tensors that have none; None: none has any."""
    if all(g is None for g in gradient):
        return None
    shapes = step.shapes([step.signature.by_name[name]], shapes_of(step, values))[name]
    like = next(g for g in gradient if g is not None)
    return [
        like.new_zeros(shape) if g is None else g.contiguous() for g, shape in zip(gradient, shapes)
    ]


class Differentiated(torch.autograd.Function):
    """A call of a step whose gradient its derivative gives. Of lists every tensor is an
    argument."""

    @staticmethod
    def forward(
        ctx: Any,
        step: Step,
        given: dict[str, Any],
        places: list[Any],
        names: list[str],
        *tensors: torch.Tensor,
    ) -> Any:
        from ._tensors import TENSORS

        ctx.set_materialize_grads(False)
        results = step.run(placed(given, places, tensors), TENSORS)
        ctx.step, ctx.given, ctx.places = step, without(given, places), places
        ctx.save_for_backward(*tensors)
        flat: list[torch.Tensor] = []
        ctx.results = []  # (name, how many tensors of a list or None)
        for name, value in results.items():
            ctx.results.append((name, len(value) if isinstance(value, list) else None))
            flat += value if isinstance(value, list) else [value]
        names += [(name, count) for name, count in ctx.results]  # type: ignore[misc]
        ctx.mark_non_differentiable(*(t for t in flat if not t.is_floating_point()))
        return tuple(flat)

    @staticmethod
    def backward(ctx: Any, *flat: torch.Tensor | None) -> Any:
        step, at = ctx.step, 0
        values = placed(ctx.given, ctx.places, ctx.saved_tensors)
        upstream: dict[str, Any] = {}
        for name, count in ctx.results:
            gradient: Any = flat[at] if count is None else list(flat[at : at + count])
            at += count or (count is None)
            if count is not None:
                gradient = completed(step, name, gradient, values)
            upstream[name] = gradient
        if all(value is None for value in upstream.values()):
            return (None,) * (4 + len(ctx.places))
        needed = ctx.needs_input_grad[4:]
        wanted = list(dict.fromkeys(name for (name, _), need in zip(ctx.places, needed) if need))
        found = gradients(step, values, upstream, wanted)
        return (None,) * 4 + tuple(
            (found[name] if at is None else found[name][at]) if need else None
            for (name, at), need in zip(ctx.places, needed)
        )


def placed(
    given: dict[str, Any], places: Sequence[Any], tensors: Sequence[torch.Tensor]
) -> dict[str, Any]:
    """The values with the tensors at their places."""
    made = {
        name: list(value) if isinstance(value, list) else value for name, value in given.items()
    }
    for (name, at), tensor in zip(places, tensors):
        if at is None:
            made[name] = tensor
        else:
            made[name][at] = tensor
    return made


def shapes_of(step: Step, values: dict[str, Any]) -> dict[str, Any]:
    """The shapes of tensors by parameter, as Step.shapes takes them."""
    return {
        name: [tuple(v.shape) for v in value] if isinstance(value, list) else tuple(value.shape)
        for name, value in values.items()
        if isinstance(value, torch.Tensor) or isinstance(value, list)
    }


def differentiated(step: Step, given: dict[str, Any]) -> dict[str, Any] | None:
    """The results of a call that autograd has to record; None: nobody wants a gradient of it."""
    places: list[tuple[str, int | None]] = []
    tensors: list[torch.Tensor] = []
    asked = None
    for p in step.signature.parameters:
        value = given.get(p.name)
        for at, tensor in enumerate(value) if p.tensors and value else ((None, value),):
            if isinstance(tensor, torch.Tensor):
                if tensor.requires_grad and tensor.is_floating_point():
                    asked = asked or p
                if p.role == IN:
                    places.append((p.name, at))
                    tensors.append(tensor)
    outs = [p for p in step.signature.parameters if p.role != IN]
    if asked is None or not any(p.type in FLOATS for p in outs if given.get(p.name) is not False):
        return None
    reason = derivable(step)
    if reason is None:
        here = next(
            (p for p in outs if given.get(p.name) is not None and given[p.name] is not False), None
        )
        reason = (
            f"`{here.name}` was given, and autograd does not see what is written to it"
            if here
            else None
        )
    if reason is not None:
        raise LockstepError(
            f"step {step.source.name}: `{asked.name}` requires a gradient, and the call cannot "
            f"be differentiated: {reason}. Where none is wanted call it under torch.no_grad(), "
            "or on detached tensors"
        )
    names: list[Any] = []
    flat = list(Differentiated.apply(step, given, places, names, *tensors))
    results: dict[str, Any] = {}
    for name, count in names:
        results[name] = flat.pop(0) if count is None else [flat.pop(0) for _ in range(count)]
    return results
