"""What follows from an optimizer step alone: which of its parameters are what."""

from __future__ import annotations

import functools
import json
from typing import Any

import torch
from torch.optim.optimizer import required

from .._api import IN, INOUT, OUT, LockstepError
from .._around import around, counted_source
from .._signature import Parameter, Source
from ._names import GROUP_NAMES
from ._tensors import DTYPES


class Form:
    """A step for parameters of one type. `counted`: each tensor has its own rank-0 values, `count`
    say, and one that is bound as empty keeps them, so that tensors without a gradient need no
    launch apart."""

    def __init__(
        self, settings: dict[str, Any], step: str, dtype: torch.dtype | None, counted: bool = False
    ) -> None:
        s, self.step, self.counted, self.settings, self.dtype = (
            settings,
            step,
            counted,
            settings,
            dtype,
        )
        source = Source(step, constants=s["constants"])
        self.name, signature = source.name, source.signature
        original = signature.by_name  # with its defaults
        names = {p.name for p in signature.parameters if p.tensors}
        what = f"step {source.name} is no optimizer:"
        if s["gradient"] not in names:
            raise LockstepError(
                f"{what} it has no list `{s['gradient']}` of gradients: "
                f"{', '.join(p.declaration() for p in signature.parameters)}"
            )
        written = [
            n
            for n in ([s["parameter"]] if s["parameter"] else ["w", "p"])
            if n in names and signature.by_name[n].role != IN
        ]
        fitting = [n for n in written if DTYPES[signature.by_name[n].type] == dtype] or written[:1]
        if not fitting:
            raise LockstepError(f"{what} it updates no list `{s['parameter'] or 'p'}`")
        if counted and any(p.rank == 0 and p.role == INOUT for p in signature.parameters):
            source = counted_source(source)
        if s["maximize"] or s["loss_scale"]:
            text = around(source, s["gradient"], s["maximize"], bool(s["loss_scale"]))
            source = Source(text, "wrapped_" + source.name, s["constants"], source.file)
        signature = source.signature
        self.source, self.gradient = source, signature.by_name[s["gradient"]]
        self.model = signature.by_name[fitting[0]]
        rest = [p for p in signature.parameters if p.name not in ("inverse_scale", "found_inf")]
        self.cells = [
            p for p in rest if p.role == INOUT and not p.tensors and (p.rank == 0 or counted)
        ]
        odd = [
            p.declaration()
            for p in rest
            if p not in (self.model, self.gradient, *self.cells)
            and p.name not in s.get("estimates", ())
            and (p.role == IN if p.tensors else p.rank > 0 and not (p.fills and p.role == IN))
        ]
        if odd:
            raise LockstepError(
                f"{what} {'; '.join(odd)} is neither parameter, gradient, state nor hyperparameter"
            )
        self.lists = [p for p in rest if p.tensors and (p.role != OUT or p is self.model)]
        self.states = [p for p in self.lists if p not in (self.model, self.gradient)]
        self.starts = {p.name: original[p.name].default or 0 for p in self.cells}
        self.keys: list[
            tuple[Parameter, str, int | None]
        ] = []  # hyperparameters, as groups have them
        self.defaults: dict[str, Any] = {}
        betas: list[Any] = []
        for p in (p for p in rest if not p.tensors and p.role == IN):
            default = original[p.name].default
            if p.name in ("beta1", "beta2", "beta3"):
                self.keys.append((p, "betas", len(betas)))
                betas.append(default)
                self.defaults["betas"] = tuple(betas)
            else:
                key = GROUP_NAMES.get(p.name, p.name)
                self.keys.append((p, key, None))
                self.defaults[key] = required if default is None else default

    def all_names(self) -> set[str]:
        """Of what is kept for a parameter."""
        return {p.name for p in self.states} | set(self.starts)

    def misfit(self, p: torch.Tensor) -> str | None:
        """Why the step cannot update a parameter, or None."""
        model, signature = self.model, self.source.signature
        if p.layout is not torch.strided:
            return f"is {p.layout}; {self.step} takes dense tensors"
        if p.dtype != DTYPES[model.type]:
            types = " or ".join(
                str(DTYPES[signature.by_name[n].type]) for n in ("p", "w") if n in signature.by_name
            )
            return (
                f"is {p.dtype}, and {self.step} updates {types}: take a step for it, such as "
                "std/optim:adamw_bf16 or adamw_mixed for bfloat16, or several, "
                '["std/optim:adamw", ...], of '
                "which each parameter takes the first that fits"
            )
        wanted = DTYPES[self.gradient.type]
        if (getattr(p, "grad_dtype", None) or p.dtype) != wanted:
            return f"has gradients of {p.dtype}, and {self.step} takes {wanted}"
        if model.rank > 2 and p.dim() != model.rank - 1:
            return (
                f"has {p.dim()} axes, and {self.step} works on tensors of {model.rank - 1}: give a "
                "second "
                "step for the others, or another optimizer"
            )
        return None

    @functools.cached_property
    def elementwise(self) -> bool:
        """Whether every element is updated by itself, so that a shard may be updated as a whole."""
        plan = json.loads(self.source.explain({}, "JSON"))["steps"][0]
        return all(
            set(kernel["share"].split(" then ")) == {"map"} for kernel in plan["kernels"]
        ) and all(p.rank == 2 and p.axes == self.model.axes for p in self.lists)

    def with_counts(self) -> Form | None:
        """The same with rank-0 values of each tensor's own; None where its text is not found or has
        another form than those of the library."""
        try:
            return Form(self.settings, self.step, self.dtype, True)
        except LockstepError:
            return None
