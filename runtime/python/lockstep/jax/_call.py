"""Steps as functions of JAX."""

from __future__ import annotations

import functools
from typing import Any, Sequence

import jax
import jax.numpy as jnp
import numpy

from .._api import FLOATS, IN, INOUT, OUT, TYPES, LockstepError
from .._batched import each, rows_axis
from .._derivative import derivable, derivative, targets_of
from .._signature import Parameter
from .._step import Step
from . import _ffi
from ._ffi import Call, Place

NAMES = (
    "float64",
    "float32",
    "int64",
    "int32",
    "uint64",
    "uint32",
    "bool",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "int16",
    "int8",
    "uint16",
    "uint8",
)
WIDE = {"i64": "int32", "u64": "uint32"}  # halves of these, where JAX has no 64 bits


@functools.cache
def _target() -> str:
    for platform, handler in _ffi.HANDLERS.items():
        jax.ffi.register_ffi_target(
            "lockstep", jax.ffi.pycapsule(handler), platform=platform, api_version=1
        )
    return "lockstep"


@functools.lru_cache(maxsize=4096)
def _step(file_or_text: str) -> Step:
    return Step(file_or_text)


def call(
    step: Step | str, *arguments: Any, outs: Sequence[str] | None = None, **values: Any
) -> Any:
    """The results of a step on JAX's arrays: its `out`s (those named by `outs`; all) and its
    `inout`s, one array or a tuple, in the step's order.

        # x [b, c], gain [c] -> y [b, c]
        y = lockstep.jax.call("std/norms:rms_norm_forward", x, gain)

    Parameters are given by name, or in order without the `out`s; lists as sequences of arrays;
    rank-0 values as arrays or numbers (an f64 only as a number, unless JAX has 64 bits). An `inout`
    is given, and the new array is a result, which takes the old one's memory where it was donated
    (jax.jit(..., donate_argnums=...)). jit, grad (by `backward`, of the outs that have a gradient)
    and vmap (one launch for all entries; for each, where the step has lists) work. Types are the
    step's; where JAX has no 64-bit integers (jax_enable_x64), an i64 is given as 32 bits, and given
    back so.
    """
    made = _step(step) if isinstance(step, str) else step
    given = made._arguments(arguments, values)
    for p in made.signature.parameters:
        value = given.get(p.name)
        if value is None and p.role != OUT:
            given[p.name] = p.default
        elif p.role == OUT and value is not None:
            raise TypeError(
                f"step {made.source.name}: `{p.name}` is a result in JAX, and is not given"
            )
    every = [p.name for p in made.signature.parameters if p.role == OUT]
    unknown = set(outs or ()) - set(every)
    if unknown:
        raise TypeError(f"step {made.source.name} has no out `{unknown.pop()}`: {', '.join(every)}")
    chosen = tuple(name for name in every if outs is None or name in outs)
    numbers = tuple(
        (p.name, float(given[p.name]))
        for p in made.signature.parameters
        if _is_part(p) and isinstance(given[p.name], (int, float))
    )
    flat, counts = _flattened(made, given, dict(numbers))
    results = list(_function(made, counts, chosen, numbers)(*flat))
    named: dict[str, Any] = {}
    for p in made.signature.parameters:
        if p.role == INOUT or p.name in chosen:
            count = _count_of(made, counts, p)
            named[p.name] = (
                results.pop(0) if count is None else [results.pop(0) for _ in range(count)]
            )
    return next(iter(named.values())) if len(named) == 1 else tuple(named.values())


def _dtype(p: Parameter) -> Any:
    return jnp.dtype(NAMES[p.type])


def _is_wide(p: Parameter) -> bool:
    return TYPES[p.type] in WIDE and not jax.config.jax_enable_x64


def _is_part(p: Parameter) -> bool:
    """Whether a number is part of the program: f64, where JAX has no array for it."""
    return p.role == IN and p.rank == 0 and TYPES[p.type] == "f64" and not jax.config.jax_enable_x64


def _flattened(
    step: Step, given: dict[str, Any], numbers: dict[str, float]
) -> tuple[list[Any], tuple[tuple[str, int], ...]]:
    """All arrays that go in, and how many each list has."""
    flat: list[Any] = []
    counts: list[tuple[str, int]] = []
    for p in step.signature.parameters:
        if p.role == OUT or p.name in numbers:
            continue
        value = given[p.name]
        if p.tensors:
            counts.append((p.name, len(value)))
        for at, one in enumerate(value) if p.tensors else ((None, value),):
            where = (
                f"`{p.name}` of step {step.source.name}"
                if at is None
                else f"array {at} of `{p.name}` of step {step.source.name}"
            )
            wanted = jnp.dtype(WIDE[TYPES[p.type]]) if _is_wide(p) else _dtype(p)
            if TYPES[p.type] == "f64" and not jax.config.jax_enable_x64:
                raise LockstepError(
                    f"{where} is f64, of which JAX has arrays with jax_enable_x64 alone"
                )
            one = jnp.asarray(
                one, wanted if isinstance(one, (bool, int, float)) and p.rank == 0 else None
            )
            if one.dtype != wanted:
                raise LockstepError(
                    f"{where} is {TYPES[p.type]}, and an array of {one.dtype} was given"
                )
            if not p.tensors and one.ndim != p.rank:
                raise LockstepError(
                    f"{where} has {p.rank} axes, and an array of shape {one.shape} was given"
                )
            flat.append(one)
    return flat, tuple(counts)


def _count_of(step: Step, counts: tuple[tuple[str, int], ...], p: Parameter) -> int | None:
    if not p.tensors:
        return None
    known = dict(counts)
    if p.name in known:
        return known[p.name]
    return next(
        known[q.name]
        for q in step.signature.parameters
        if q.tensors is p.tensors and q.name in known
    )


class _Static:
    """What a backward pass has to know and is no array."""

    def __init__(self, value: Any) -> None:
        self.value = value


jax.tree_util.register_pytree_node(
    _Static, lambda s: ((), s.value), lambda value, _: _Static(value)
)


def _function(
    step: Step,
    counts: tuple[tuple[str, int], ...],
    outs: tuple[str, ...],
    numbers: tuple[tuple[str, float], ...],
) -> Any:
    """The function of flat arrays, made once, so that what was compiled is found again."""
    made: dict[Any, Any] = step.__dict__.setdefault("_jax", {})
    key = counts, outs, numbers, bool(jax.config.jax_enable_x64)
    if key not in made:
        made[key] = _made(step, counts, outs, numbers)
    return made[key]


def _made(
    step: Step,
    counts: tuple[tuple[str, int], ...],
    outs: tuple[str, ...],
    numbers: tuple[tuple[str, float], ...],
) -> Any:
    parameters, constant = step.signature.parameters, dict(numbers)
    inputs = [p for p in parameters if p.role != OUT and p.name not in constant]
    results = [p for p in parameters if p.role == INOUT or p.name in outs]
    places = tuple(
        Place(p, _count_of(step, counts, p), p.role != IN, p.role != OUT, _is_wide(p))
        for p in parameters
        if (p.role != OUT or p.name in outs) and p.name not in constant
    )
    if any(TYPES[p.type] == "f64" for p in results) and not jax.config.jax_enable_x64:
        raise LockstepError(
            f"step {step.source.name} gives an f64, of which JAX has arrays with jax_enable_x64 "
            "alone"
        )
    left_out = tuple(p for p in parameters if p.role == OUT and p.name not in outs)

    def split(flat: Sequence[Any]) -> dict[str, Any]:
        at, by_name = 0, {}
        for p in inputs:
            count = _count_of(step, counts, p)
            by_name[p.name] = flat[at] if count is None else list(flat[at : at + count])
            at += 1 if count is None else count
        return by_name

    def launch(*flat: Any) -> tuple[Any, ...]:
        by_name = split(flat)
        shapes = step.shapes(
            results,
            {
                name: [tuple(v.shape) for v in value]
                if isinstance(value, list)
                else tuple(value.shape)
                for name, value in by_name.items()
            },
        )
        types: list[Any] = []
        arguments: list[Any] = []
        aliases: dict[int, int] = {}
        first_of: dict[str, int] = {}
        for p in inputs:
            value = by_name[p.name]
            first_of[p.name] = len(arguments)
            for one in value if isinstance(value, list) else [value]:
                if _is_wide(p):  # the low half, and the sign
                    high = one >> 31 if TYPES[p.type] == "i64" else jnp.zeros_like(one)
                    one = jnp.stack([one, high], -1)
                arguments.append(one)
        for p in results:
            each = shapes[p.name] if p.tensors else [shapes[p.name]]
            if p.role == INOUT:
                value = by_name[p.name]
                each = [tuple(v.shape) for v in value] if p.tensors else [tuple(value.shape)]
            for at, shape in enumerate(each):
                if p.role == INOUT:
                    aliases[first_of[p.name] + at] = len(types)
                dtype = jnp.dtype(WIDE[TYPES[p.type]]) if _is_wide(p) else _dtype(p)
                types.append(jax.ShapeDtypeStruct(shape + (2,) if _is_wide(p) else shape, dtype))
        each_shape: list[tuple[int, ...]] = []
        for place in places:
            p = place.parameter
            if p.name in by_name:
                value = by_name[p.name]
                each_shape += [tuple(v.shape) for v in (value if p.tensors else [value])]
            else:
                each_shape += shapes[p.name] if p.tensors else [shapes[p.name]]
        number = _ffi.number_of(Call(step, places, left_out, numbers, tuple(each_shape)))
        made = jax.ffi.ffi_call(
            _target(), tuple(types), vmap_method="sequential", input_output_aliases=aliases
        )(*arguments, step=numpy.int64(number))
        found, at = [], 0
        for p in results:
            for _ in range(_count_of(step, counts, p) or (0 if p.tensors else 1)):
                found.append(made[at][..., 0] if _is_wide(p) else made[at])
                at += 1
        return tuple(found)

    function = (
        launch
        if any(p.tensors for p in parameters)
        else _mapped(step, launch, split, outs, constant)
    )
    if derivable(step) is not None:
        return function
    differentiable = jax.custom_vjp(function)

    def forward(*flat: Any) -> Any:
        values = [one.value for one in flat]
        return differentiable(*values), (values, _Static(tuple(one.perturbed for one in flat)))

    def backward(kept: Any, upstream: Any) -> Any:
        values, perturbed = kept[0], kept[1].value
        by_name, wants = split(values), split(perturbed)
        zero = jax.custom_derivatives.SymbolicZero
        coming, at = {}, 0
        for p in results:
            count = _count_of(step, counts, p)
            part = list(upstream[at : at + (1 if count is None else count)])
            at += len(part)
            if p.type not in FLOATS or all(isinstance(one, zero) for one in part):
                continue
            part = [
                jnp.zeros(one.aval.shape, one.aval.dtype) if isinstance(one, zero) else one
                for one in part
            ]
            coming[p.name] = part[0] if count is None else part
        wanted = [
            p.name
            for p in targets_of(step)
            if p.name not in constant and (any(wants[p.name]) if p.tensors else wants[p.name])
        ]
        found: dict[str, Any] = {}
        if wanted and coming:
            back = derivative(step, list(coming), wanted)
            every: dict[str, Any] = {
                **constant,
                **by_name,
                **{f"d{name}": value for name, value in coming.items()},
            }
            result = call(back, **every)
            found = dict(zip(wanted, result if isinstance(result, tuple) else (result,)))
            if step.each_of is not None:  # what the entries share has the sum of their gradients
                batched = step.each_of[1]
                found = {n: g if n in batched else g.sum(0) for n, g in found.items()}
        made: list[Any] = []
        for p in inputs:
            value = by_name[p.name]
            for place, one in enumerate(value) if isinstance(value, list) else ((None, value),):
                if not jnp.issubdtype(one.dtype, jnp.floating):
                    made.append(numpy.zeros(one.shape, jax.dtypes.float0))
                elif p.name in found:
                    made.append(found[p.name] if place is None else found[p.name][place])
                else:
                    made.append(jnp.zeros_like(one))
        return tuple(made)

    differentiable.defvjp(forward, backward, symbolic_zeros=True)
    return differentiable


def _mapped(
    step: Step, launch: Any, split: Any, outs: tuple[str, ...], constant: dict[str, float]
) -> Any:
    """The launch, and for vmap one launch of all entries: as rows of one call, or by a step for
    each."""
    mapped = jax.custom_batching.custom_vmap(launch)

    @mapped.def_vmap  # type: ignore[untyped-decorator]
    def rule(size: int, in_batched: Sequence[bool], *flat: Any) -> Any:
        values, which = split(flat), split(in_batched)
        batched = {name for name, is_batched in which.items() if is_batched}
        for p in step.signature.parameters:
            if p.role == INOUT and p.name not in batched:
                values[p.name] = jnp.broadcast_to(values[p.name], (size, *values[p.name].shape))
                batched.add(p.name)
        axis, rows = rows_axis(step), 0
        own = {p.name for p in step.signature.parameters if axis is not None and axis in p.axes}
        if axis is not None and batched <= own:
            for name in own & values.keys():
                value = values[name]
                if name not in batched:
                    value = jnp.broadcast_to(value, (size, *value.shape))
                rows = value.shape[1]
                values[name] = value.reshape(size * rows, *value.shape[2:])
            found = mapped(*values.values())
            found = tuple(one.reshape(size, rows, *one.shape[1:]) for one in found)
        else:
            many = each(step, frozenset(batched), outs)
            found = call(many, outs=outs, **values, **constant)
            found = found if isinstance(found, tuple) else (found,)
        return found, (True,) * len(found)

    return mapped
