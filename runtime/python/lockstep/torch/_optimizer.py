"""torch.optim's optimizers, made of .step steps."""
from __future__ import annotations

import ctypes as C
import os
import struct
from typing import Any

import torch
from torch.optim.optimizer import required

from .._api import IN, INOUT, OUT, LockstepError
from .._arrays import Row
from .._bound import Bound
from .._context import capturing
from .._signature import Parameter, Source
from ._loss_scale import SCALE_DEFAULTS, LossScale
from ._lots import Lot
from ._names import GROUP_NAMES, HINTS, around, is_dense
from ._saving import Saving
from ._tensors import ADDRESS, DTYPE, DTYPES, GRADIENT, IS_CONTIGUOUS, IS_NEGATED, TENSORS, describe, is_tensor


class Optimizer(LossScale, Saving, torch.optim.Optimizer):
    """A torch.optim.Optimizer of an optimizer step: one of std/optim, or your own of the same form.

        Optimizer(model.parameters(), "std/optim:adamw", lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)

    The step works over lists, p: T[t, n] (or w, where the model holds a narrow copy and p is the
    optimizer's: adamw_mixed) and g. Its other lists and its rank-0 `inout`s are the state, which starts
    at zero, its rank-0 `in`s (and one per tensor, decay: f32[t]) the hyperparameters, by PyTorch's
    names where it has one: weight_decay for decay, betas. They are read from param_groups at every
    step(), so schedulers work, and are device values: nothing compiles again. A group is one launch,
    or a few when parameters were without a gradient in some steps: each has its own count, as in
    PyTorch.

    maximize=True turns the gradients' sign. loss_scale=True, or a dictionary with GradScaler's
    init_scale, growth_factor, backoff_factor, growth_interval, multiplies losses by a scale that lives
    on the device: `optimizer.scale(loss).backward(); optimizer.step()`. A step whose gradients
    overflowed changes nothing but the scale; nobody waits to know. capturable=True is for
    torch.cuda.graph: zero_grad() then zeroes instead of letting gradients go, so that they stay where
    they are bound. Capture after a few steps as usual; a learning rate that changes later has to be
    a tensor of the device, or set with write_hyperparameters().

    constants overrides the file's constants, parameter and gradient name what is not called p, w or g,
    copies the states that begin as a copy of the parameters.
    """

    def __init__(self, params: Any, step: str, *, maximize: bool = False, loss_scale: Any = None,
                 capturable: bool = False, constants: dict[str, Any] | None = None,
                 parameter: str | None = None, gradient: str = "g", copies: tuple[str, ...] = ("p", "z"),
                 **hyperparameters: Any) -> None:
        self._settings = dict(step=step, maximize=maximize, capturable=capturable, constants=constants,
                              parameter=parameter, gradient=gradient, copies=copies,
                              loss_scale={**SCALE_DEFAULTS, **(loss_scale if loss_scale is not True else
                                                               {})} if loss_scale else None)
        unknown = set(self._settings["loss_scale"] or ()) - set(SCALE_DEFAULTS)
        if unknown:
            raise TypeError(f"loss_scale has {', '.join(SCALE_DEFAULTS)}, and no {', '.join(unknown)}")
        params = params if is_tensor(params) else list(params)
        self._open([] if is_tensor(params) else params)
        super().__init__(params, {**self._defaults, **self._named(hyperparameters)})

    def _open(self, params: Any) -> None:
        """What follows from the step alone."""
        s = self._settings
        source = Source(s["step"], constants=s["constants"])
        signature = source.signature
        original = signature.by_name  # with its defaults
        lists = [p for p in signature.parameters if p.tensors]
        names = {p.name for p in lists}
        what = f"step {source.name} is no optimizer:"
        if s["gradient"] not in names:
            raise LockstepError(f"{what} it has no list `{s['gradient']}` of gradients: "
                                f"{', '.join(p.declaration() for p in signature.parameters)}")
        dtype = self._first_dtype(params)
        written = [n for n in ([s["parameter"]] if s["parameter"] else ["w", "p"])
                   if n in names and signature.by_name[n].role != IN]
        fitting = [n for n in written if DTYPES[signature.by_name[n].type] == dtype] or written[:1]
        if not fitting:
            raise LockstepError(f"{what} it updates no list `{s['parameter'] or 'p'}`")
        if s["maximize"] or s["loss_scale"]:
            text = around(source, s["gradient"], s["maximize"], bool(s["loss_scale"]))
            source = Source(text, "wrapped_" + source.name, s["constants"], source.file)
            signature = source.signature
        self._source, self._gradient = source, signature.by_name[s["gradient"]]
        self._model = signature.by_name[fitting[0]]
        rest = [p for p in signature.parameters if p.name not in ("inverse_scale", "found_inf")]
        odd = [p.declaration() for p in rest if p not in (self._model, self._gradient) and
               (p.role == IN if p.tensors else p.rank > 0 and not (p.fills and p.role == IN))]
        if odd:
            raise LockstepError(f"{what} {'; '.join(odd)} is neither parameter, gradient, state nor "
                                "hyperparameter")
        self._lists = [p for p in rest if p.tensors and (p.role != OUT or p is self._model)]
        self._states = [p for p in self._lists if p not in (self._model, self._gradient)]
        self._cells = [p for p in rest if p.rank == 0 and p.role == INOUT]
        self._hypers = [p for p in rest if not p.tensors and p.role == IN]
        self._starts = {p.name: original[p.name].default or 0 for p in self._cells}
        self._keys: list[tuple[Parameter, str, int | None]] = []
        self._defaults: dict[str, Any] = {}
        betas: list[Any] = []
        for p in self._hypers:
            default = original[p.name].default
            if p.name in ("beta1", "beta2", "beta3"):
                self._keys.append((p, "betas", len(betas)))
                betas.append(default)
                self._defaults["betas"] = tuple(betas)
            else:
                key = GROUP_NAMES.get(p.name, p.name)
                self._keys.append((p, key, None))
                self._defaults[key] = required if default is None else default
        self._lots: list[Lot] | None = None
        self._lots_before: list[Lot] = []
        self._idle: list[tuple[int, torch.Tensor]] = []
        self._shape: Any = None
        self._scale, self._pid = None, os.getpid()
        self._unscaled, self._looked_at = False, None
        self._check: dict[Any, Bound] = {}
        self._parted: dict[torch.Tensor, object] = {}  # by which launch, where there are no rank-0 values

    @staticmethod
    def _first_dtype(params: Any) -> torch.dtype | None:
        entry: Any
        for entry in params:
            entry = entry["params"] if isinstance(entry, dict) else entry
            entry = next(iter(entry), None) if not is_tensor(entry) and not isinstance(entry, tuple) \
                else entry
            entry = entry[1] if isinstance(entry, tuple) else entry
            if is_tensor(entry):
                return entry.dtype  # type: ignore[no-any-return]
        return None

    def _named(self, given: dict[str, Any]) -> dict[str, Any]:
        """Hyperparameters under the names that param_groups has."""
        made = {}
        for name, value in given.items():
            if name in HINTS or name in ("params", "param_names", "initial_lr"):
                if name not in HINTS:
                    made[name] = value
                continue
            own = [(key, index) for p, key, index in self._keys if p.name == name]
            if own and own[0][1] is not None:
                betas = list(made.get("betas", given.get("betas", self._defaults["betas"])))
                betas[own[0][1]] = value
                made["betas"] = tuple(betas)
            elif own or name in self._defaults:
                made[own[0][0] if own else name] = value
            else:
                more = "; there is std/optim:adamw_amsgrad" if name == "amsgrad" else ""
                raise TypeError(f"step {self._settings['step']} has no hyperparameter `{name}`: it has "
                                f"{', '.join(self._defaults) or 'none'}{more}")
        if "betas" in made and len(made["betas"]) != len(self._defaults["betas"]):
            raise ValueError(f"betas are {len(self._defaults['betas'])} numbers, not {made['betas']}")
        return made

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(self._named(param_group) if isinstance(param_group, dict)
                                else param_group)
        group = self.param_groups[-1]
        try:
            for p in group["params"]:
                self._fit(p)
        except LockstepError:
            self.param_groups.pop()
            raise
        self._lots = None

    def _called(self, p: torch.Tensor) -> str:
        for number, group in enumerate(self.param_groups):
            for at, other in enumerate(group["params"]):
                if other is p:
                    names = group.get("param_names")
                    name = f"`{names[at]}`" if names else f"{at} of group {number}"
                    return f"parameter {name}, shape {tuple(p.shape)}"
        return "a parameter"

    def _fit(self, p: torch.Tensor) -> None:
        """Refuses a parameter that the step cannot update."""
        model, what = self._model, self._settings["step"]
        if p.layout is not torch.strided:
            raise LockstepError(f"{self._called(p)} is {p.layout}; {what} takes dense tensors")
        if p.dtype != DTYPES[model.type]:
            also = [n for n in ("p", "w") if n in self._source.signature.by_name]
            types = " or ".join(str(DTYPES[self._source.signature.by_name[n].type]) for n in also)
            raise LockstepError(f"{self._called(p)} is {p.dtype}, and {what} updates {types}: take a step "
                                "for it, such as std/optim:adamw_bf16 or adamw_mixed for bfloat16, and "
                                "an optimizer for each type")
        wanted = DTYPES[self._gradient.type]
        if (getattr(p, "grad_dtype", None) or p.dtype) != wanted:
            raise LockstepError(f"{self._called(p)} has gradients of {p.dtype}, and {what} takes {wanted}")
        if model.rank > 2 and p.dim() != model.rank - 1:
            raise LockstepError(f"{self._called(p)} has {p.dim()} axes, and {what} works on tensors of "
                                f"{model.rank - 1}: give the others to another optimizer")
        if not (p.is_contiguous() or model.rank == 2 and is_dense(p)):
            raise LockstepError(f"{self._called(p)} is not contiguous: strides {p.stride()}; make it so "
                                "with p.data = p.data.contiguous() before the optimizer is made")

    # ---- state ----

    def _row(self, parameter: Parameter, p: torch.Tensor) -> Row:
        """What a list holds for a parameter of the model."""
        if parameter is self._gradient:
            address, number, shape, strides = None, parameter.type, tuple(p.shape), None
        else:
            tensor = p if parameter is self._model else self.state[p][parameter.name]
            address, number, shape, strides = describe(tensor)
        if parameter.rank == 2 and parameter.axes == self._model.axes:
            shape = (p.numel(),)  # as it lies in memory
        return address, number, shape, None

    def _state_shape(self, parameter: Parameter, p: torch.Tensor) -> tuple[int, ...]:
        known = dict(zip(self._model.inner, p.shape if self._model.rank > 2 else (p.numel(),)))
        self._source.signature.solve(known)
        return tuple(known[axis] for axis in parameter.inner)

    def _new_state(self, parameter: Parameter, p: torch.Tensor) -> torch.Tensor:
        dtype, copied = DTYPES[parameter.type], parameter.name in self._settings["copies"]
        if parameter.axes == self._model.axes:
            tensor = torch.empty_like(p, dtype=dtype, memory_format=torch.preserve_format)
            return (tensor.copy_(p.detach()) if copied else tensor.zero_()).detach()
        return torch.zeros(self._state_shape(parameter, p), dtype=dtype, device=p.device)

    def _outside_capture(self, what: str) -> None:
        if capturing():
            raise LockstepError(f"Optimizer.step in a graph capture: {what}; take a few before the "
                                "capture, with capturable=True and gradients that stay where they are "
                                "(zero_grad(set_to_none=False))")

    def _begin(self, fresh: list[tuple[int, torch.Tensor]]) -> None:
        """State for parameters that have a gradient for the first time; all of a group and device share
        the rank-0 values."""
        self._outside_capture("parameters have a gradient for the first time")
        cells = {}
        for index, p in fresh:
            self._fit(p)
            if (index, p.device) not in cells:
                cells[index, p.device] = {c.name: torch.full((), self._starts[c.name],
                                                             dtype=DTYPES[c.type], device=p.device)
                                          for c in self._cells}
            state = self.state[p]
            state.update({s.name: self._new_state(s, p) for s in self._states})
            state.update(cells[index, p.device])
        self._lots = None

    def _split(self, lot: Lot, present: list[bool]) -> None:
        """Some had no gradient: the others go on with rank-0 values of their own."""
        self._outside_capture("some gradients are None")
        cells, together = {c.name: cell.clone() for c, cell in zip(self._cells, lot.cells)}, object()
        for p, here in zip(lot.members, present):
            if here:
                self.state[p].update(cells)
                self._parted[p] = together  # where there are none
        self._lots = None

    def _rebuild(self) -> None:
        """Lots are the parameters that share rank-0 values; kept where they are the same as before."""
        self._outside_capture("no step was taken yet" if self._shape is None else
                              "the parameters or their state have changed")
        before = {lot.key: lot for lot in self._lots_before} if self._pid == os.getpid() else {}
        self._idle, self._pid = [], os.getpid()
        sorted_in: dict[Any, list[torch.Tensor]] = {}
        for index, group in enumerate(self.param_groups):
            for p in group["params"]:
                if p not in self.state:
                    self._idle.append((index, p))
                    continue
                own: Any = tuple(id(self.state[p][c.name]) for c in self._cells) or (self._parted.get(p),)
                sorted_in.setdefault((index, p.device, own), []).append(p)
        self._lots = []
        for (index, device, own), members in sorted_in.items():
            for p in members:
                self._fit(p)
                self._check_device(p)
            key = index, device, own, tuple((id(p), tuple(id(t) for t in self.state[p].values()))
                                            for p in members)
            lot = before.get(key)
            if lot is None:
                with TENSORS.context(device):
                    lot = Lot(self, index, members)
                    lot.key = key
                    if self._source.signature.draws:
                        lot.bound.api.ls_step_shard(lot.bound.pointer, self._position(members[0]), 0)
            self._lots.append(lot)
        self._lots_before, self._shape = self._lots, self._current_shape()

    def _check_device(self, p: torch.Tensor) -> None:
        for name, value in self.state[p].items():
            if is_tensor(value) and value.device != p.device:
                raise LockstepError(f"{self._called(p)} is on {p.device}, its state `{name}` on "
                                    f"{value.device}: move the model before the first step, or move the "
                                    "state with optimizer.load_state_dict(optimizer.state_dict())")

    def _position(self, p: torch.Tensor) -> int:
        return next(i for i, q in enumerate(q for g in self.param_groups for q in g["params"]) if q is p)

    def _current_shape(self) -> Any:
        return len(self.state), [len(group["params"]) for group in self.param_groups]

    # ---- a step ----

    def _work(self) -> list[tuple[Lot, list[Any], list[int]]]:
        """The lots that have gradients, with these and their addresses."""
        while True:
            if self._lots is None or self._shape != self._current_shape() or self._pid != os.getpid():
                self._rebuild()
            work, partial = [], None
            for lot in self._lots or ():
                gradients = list(map(GRADIENT, lot.members))
                try:
                    addresses = list(map(ADDRESS, gradients))
                except (TypeError, RuntimeError):
                    present = [g is not None for g in gradients]
                    if all(present):
                        addresses = self._gradients(lot, gradients)
                    elif any(present):
                        partial = lot, present
                        break
                    else:
                        continue
                if not (lot.plain and all(map(IS_CONTIGUOUS, gradients))):
                    addresses = self._gradients(lot, gradients)
                work.append((lot, gradients, addresses))
            fresh = [(index, p) for index, p in self._idle if p.grad is not None]
            if not partial and not fresh:
                return work
            if fresh:
                self._begin(fresh)
            if partial:
                self._split(*partial)

    def _gradients(self, lot: Lot, gradients: list[Any]) -> list[int]:
        """The addresses of gradients that lie as their parameters do, or of copies that do."""
        for i, (p, g) in enumerate(zip(lot.members, gradients)):
            if g.layout is not torch.strided:
                raise LockstepError(f"{self._called(p)} has a sparse gradient ({g.layout}), which "
                                    f"{self._settings['step']} does not take: use dense ones "
                                    "(nn.Embedding(..., sparse=False))")
            if g.stride() != p.stride() and not (g.is_contiguous() and p.is_contiguous()):
                gradients[i] = torch.empty_like(p, dtype=g.dtype).copy_(g)
        return [g.data_ptr() for g in gradients]

    def step(self, closure: Any = None) -> Any:
        """One update. Nothing is copied to the host, and nothing waits for the device."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            work = self._work()
            if self._settings["loss_scale"]:
                self._check_overflow(work)
            for lot, gradients, addresses in work:
                with lot.bound.context:
                    self._bind(lot, gradients, addresses)
                    lot.bound.launch()
                torch.autograd.graph.increment_version(lot.members)
        self._unscaled = False
        return loss

    def _bind(self, lot: Lot, gradients: list[Any], addresses: list[int]) -> None:
        own = list(map(ADDRESS, lot.members))
        if own != lot.addresses[self._model.name]:
            self._moved(lot, own)
        if addresses != lot.addresses[self._gradient.name]:
            self._outside_capture("gradients are not where they were")
            wanted = DTYPES[self._gradient.type]  # PyTorch sees to the device
            if any(map(IS_NEGATED, gradients)):
                raise LockstepError("a gradient is a view of negated numbers: resolve_neg() it")
            if set(map(DTYPE, gradients)) != {wanted}:
                p, g = next((p, g) for p, g in zip(lot.members, gradients) if g.dtype != wanted)
                raise LockstepError(f"{self._called(p)} has a gradient of {g.dtype}, and "
                                    f"{self._settings['step']} takes {wanted}")
            lot.bind(self._gradient, addresses)
        self._write(lot)

    def _moved(self, lot: Lot, addresses: list[int]) -> None:
        self._outside_capture("parameters are not where they were")
        for p in lot.members:
            if p.device != lot.device:
                self._lots = None
                self._check_device(p)
            self._fit(p)
        lot.plain = all(p.is_contiguous() for p in lot.members)
        lot.bind(self._model, addresses)

    def _write(self, lot: Lot) -> None:
        """Sets what of the group's hyperparameters is another than at the step before."""
        group, values, bound = self.param_groups[lot.group], lot.values, lot.bound
        for parameter, key, index in self._keys:
            value = group[key] if index is None else group[key][index]
            if value is values.get(parameter, values):  # which is no value
                continue
            if is_tensor(value):
                self._write_tensor(bound, parameter, key, value)
                if value.device != lot.device or value.dtype != DTYPES[parameter.type]:
                    continue  # read anew at every step
            else:
                self._outside_capture(f"`{key}` has changed: call write_hyperparameters() before it")
                try:
                    number = value if isinstance(value, (bool, int, float, str)) else float(value)
                    bound.set(parameter, number)
                except (TypeError, ValueError, struct.error, C.ArgumentError):
                    raise TypeError(f"`{key}` is {value!r}, not a number") from None
            values[parameter] = value

    def _write_tensor(self, bound: Bound, parameter: Parameter, key: str, value: torch.Tensor) -> None:
        if value.numel() != 1 or parameter.rank:
            raise LockstepError(f"`{key}` is a tensor of shape {tuple(value.shape)}; one with one element "
                                "or a number is wanted")
        if value.device.type == "cpu" and (value.dtype != DTYPES[parameter.type] or
                                           bound.context.index is not None):
            bound.set(parameter, value.item())
        elif value.dtype != DTYPES[parameter.type]:
            raise LockstepError(f"`{key}` is a tensor of {value.dtype} on {value.device}: on a device "
                                f"{DTYPES[parameter.type]} is wanted, which the step reads as it is")
        else:
            address, number, _, _ = describe(value)
            bound.bind(parameter, (address, number, (), ()))

    def write_hyperparameters(self) -> None:
        """Brings what changed in param_groups to the device, for graphs that were captured before."""
        for lot in self._lots or ():
            with lot.bound.context:
                self._write(lot)

    def zero_grad(self, set_to_none: bool | None = None) -> None:
        super().zero_grad(not self._settings["capturable"] if set_to_none is None else set_to_none)
