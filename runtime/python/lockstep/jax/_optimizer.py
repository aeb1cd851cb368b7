"""Optimizer steps over a pytree of JAX's arrays, in the form that optax's have."""

from __future__ import annotations

import functools
from typing import Any, Callable, NamedTuple

import jax
import jax.numpy as jnp

from .._api import IN, INOUT, LockstepError
from .._step import Step
from ._call import NAMES, call

GROUP_NAMES = {"weight_decay": "decay"}


class GradientTransformation(NamedTuple):
    """init(params) -> state; update(gradients, state, params) -> (updates, state) as optax's, where
    the new parameters are params + updates; apply(gradients, params, state) -> (params, state),
    which is the launch alone, and whose params and state may be donated."""

    init: Callable[[Any], Any]
    update: Callable[..., Any]
    apply: Callable[..., Any]


def optimizer(step: str, **hyperparameters: Any) -> GradientTransformation:
    """An optimizer step, such as "std/optim:adamw", over all arrays of a pytree in one launch:

        adamw = lockstep.jax.optimizer("std/optim:adamw", lr=3e-4, weight_decay=0.1)
        state = adamw.init(params)
        train = jax.jit(adamw.apply, donate_argnums=(1, 2))
        params, state = train(gradients, params, state)

    The state is a dictionary: for each list that the step keeps a pytree as `params` is, which
    starts at zero (a copy of the parameters where it is called z), and its rank-0 `inout`s.
    Hyperparameters are numbers, or functions of the count of steps:
    lr=lambda count: 1e-3 / (1 + count).
    """
    made = Step(step)
    signature = made.signature
    lists = [p for p in signature.parameters if p.tensors and p.role == INOUT]
    if not any(p.name == "g" for p in signature.parameters) or not any(
        p.name == "p" for p in lists
    ):
        raise LockstepError(
            f"step {made.source.name} is no optimizer over lists `p` and `g`: {made!r}"
        )
    model = signature.by_name["p"]
    odd = [p for p in lists if p.rank != 2 or p.axes != model.axes]
    if odd:
        raise LockstepError(
            f"step {made.source.name}: {odd[0].declaration()} is not of one number for each "
            "element, "
            "as it has to be over a pytree"
        )
    states = [p for p in lists if p.name != "p"]
    cells = [p for p in signature.parameters if p.rank == 0 and p.role == INOUT]
    given: dict[str, Any] = {}
    for name, value in hyperparameters.items():
        own = GROUP_NAMES.get(name, name)
        if own == "betas":
            given.update({f"beta{at + 1}": beta for at, beta in enumerate(value)})
        else:
            given[own] = value
    for name in given:
        if name not in signature.by_name or signature.by_name[name].role != IN or name == "g":
            raise TypeError(f"step {made.source.name} has no hyperparameter `{name}`")

    def init(params: Any) -> dict[str, Any]:
        state: dict[str, Any] = {}
        for p in states:
            if p.name == "z":
                state[p.name] = jax.tree.map(jnp.array, params)
            else:
                state[p.name] = jax.tree.map(
                    functools.partial(jnp.zeros_like, dtype=NAMES[p.type]), params
                )
        for p in cells:
            dtype = (
                NAMES[p.type] if jax.config.jax_enable_x64 else NAMES[p.type].replace("64", "32")
            )
            state[p.name] = jnp.asarray(p.default or 0, dtype)
        return state

    def apply(gradients: Any, params: Any, state: Any) -> tuple[Any, Any]:
        leaves, tree = jax.tree.flatten(params)
        count = state.get("count", 0)
        values = {name: value(count) if callable(value) else value for name, value in given.items()}
        result = call(
            made,
            outs=[],
            p=leaves,
            g=tree.flatten_up_to(gradients),
            **{p.name: tree.flatten_up_to(state[p.name]) for p in states},
            **{p.name: state[p.name] for p in cells},
            **values,
        )
        names = [p.name for p in signature.parameters if p.role == INOUT]
        found = dict(zip(names, result if isinstance(result, tuple) else (result,)))
        new = {
            name: value if name in {p.name for p in cells} else tree.unflatten(value)
            for name, value in found.items()
        }
        return new.pop("p"), new

    def update(gradients: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        if params is None:
            raise ValueError("update(gradients, state, params): the step updates the parameters")
        new, state = apply(gradients, params, state)
        return jax.tree.map(jnp.subtract, new, params), state

    return GradientTransformation(init, update, apply)
