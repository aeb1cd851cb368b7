"""torch.optim's optimizers, made of .step steps."""

from __future__ import annotations

import ctypes as C
import os
import struct
import weakref
from typing import Any, Sequence

import torch
from torch.optim.optimizer import required

from .._api import LockstepError
from .._arrays import Row
from .._bound import Bound
from .._signature import Parameter
from ._form import Form
from ._loss_scale import LossScale, scale_settings
from ._lots import Lot
from ._names import HINTS, IGNORED, check_ranges, is_dense
from ._packages import LEAST_CODED
from ._saving import Saving
from ._tensors import (
    ADDRESS,
    DTYPE,
    DTYPES,
    GRADIENT,
    IS_CONTIGUOUS,
    IS_NEGATED,
    TENSORS,
    describe,
    is_tensor,
    local,
    whole_of,
)

# A lot, its gradients, their addresses, and which there are (None: all)
Work = tuple[Lot, list[Any], list[int], "tuple[bool, ...] | None"]


class Optimizer(LossScale, Saving, torch.optim.Optimizer):
    """A torch.optim.Optimizer of an optimizer step: one of std/optim, or your own of the same form.

        Optimizer(model.parameters(), "std/optim:adamw", lr=3e-4, weight_decay=0.1)

    The step works over lists, p: T[t, n] (or w, where the model holds a narrow copy and p is the
    optimizer's: adamw_mixed) and g. Its other lists and its rank-0 `inout`s are the state, which
    starts at zero, its rank-0 `in`s (and one per tensor, decay: f32[t]) the hyperparameters, by
    PyTorch's names where it has one: weight_decay for decay, betas. They are read from param_groups
    at every step(), so schedulers work, and are device values: nothing compiles again. A group is
    one launch for each type; parameters without a gradient are left out and count their own steps,
    as in PyTorch. Several steps, ["std/optim:adafactor", "std/optim:adafactor_vector"], give each
    parameter the first that fits its type and axes; one in codes (adamw_codes_8bit) is passed over
    by tensors below 4096 elements where another fits. A DTensor (FSDP2) is updated shard by shard
    where a step works on every element by itself, else gathered for the launch (lamb, adafactor).

    maximize=True turns the gradients' sign. loss_scale=True, or a dictionary with GradScaler's
    init_scale, growth_factor, backoff_factor, growth_interval, multiplies losses by a scale that
    lives on the device: `optimizer.scale(loss).backward(); optimizer.step()`. A step whose
    gradients overflowed changes nothing but the scale; nobody waits to know. capturable=True is for
    torch.cuda.graph: zero_grad() then zeroes instead of letting gradients go, so that they stay
    where they are bound. Capture after a few steps as usual; a learning rate that changes later has
    to be a tensor of the device, or set with write_hyperparameters().

    release=True updates each tensor as soon as its gradient is complete in the backward pass, and
    lets the gradient go: there are never all of them at once. step() has nothing to do then.

    constants overrides the file's constants, parameter and gradient name what is not called p, w or
    g, copies the states that begin as a copy of the parameters, estimates those that the step only
    reads.
    """

    def __init__(
        self,
        params: Any,
        step: str | Sequence[str],
        *,
        maximize: bool = False,
        loss_scale: Any = None,
        capturable: bool = False,
        release: bool = False,
        constants: dict[str, Any] | None = None,
        parameter: str | None = None,
        gradient: str = "g",
        copies: tuple[str, ...] = ("p", "z"),
        estimates: tuple[str, ...] = (),
        **hyperparameters: Any,
    ) -> None:
        self._settings = dict(
            step=step,
            maximize=maximize,
            capturable=capturable,
            constants=constants,
            parameter=parameter,
            gradient=gradient,
            copies=copies,
            estimates=estimates,
            release=release,
            loss_scale=scale_settings(loss_scale),
        )
        if release and (loss_scale or capturable):
            raise TypeError(
                "release=True updates each tensor within the backward pass: it goes together with "
                "neither loss_scale nor capturable"
            )
        params = params if is_tensor(params) else list(params)
        self._open([] if is_tensor(params) else params)
        super().__init__(params, {**self._defaults, **self._named(hyperparameters, False)})

    def _open(self, params: Any) -> None:
        """What follows from the steps alone."""
        step = self._settings["step"]
        self._steps: list[str] = [step] if isinstance(step, str) else list(step)
        self._forms: dict[Any, Form] = {}
        self._chosen: dict[Any, Form] = {}
        self._defaults: dict[str, Any] = {}
        dtype = self._first_dtype(params)
        for step in self._steps:
            for key, value in self._form(step, dtype).defaults.items():
                if key not in self._defaults or self._defaults[key] is required:
                    self._defaults[key] = value
        self._library = all(step.startswith("std/optim:") for step in self._steps)
        self._ignored: dict[str, Any] = {}
        for form in self._forms.values():
            if self._library:
                self._ignored.update(IGNORED.get(form.name, {}))
        self._lots: list[Lot] | None = None
        self._lots_before: list[Lot] = []
        self._idle: list[tuple[int, torch.Tensor]] = []
        self._shape: Any = None
        self._pid = os.getpid()
        self._open_scale()
        self._parted: dict[
            torch.Tensor, object
        ] = {}  # by which launch, where there are no rank-0 values
        self._counted: set[int] = set()  # groups in which each tensor counts for itself
        self._alone: dict[torch.Tensor, Lot] = {}  # with release

    def _form(self, step: str, dtype: torch.dtype | None) -> Form:
        if (step, dtype) not in self._forms:
            self._forms[step, dtype] = Form(self._settings, step, dtype)
        return self._forms[step, dtype]

    def _form_of(self, p: torch.Tensor) -> Form:
        """That of the first step that fits a parameter."""
        small = p.numel() < LEAST_CODED
        key = p.dtype, p.dim(), p.layout, getattr(p, "grad_dtype", None), small
        if key not in self._chosen:
            reasons, coded = [], []
            for step in self._steps:
                form = self._form(step, p.dtype)
                reason = form.misfit(p)
                if reason is not None:
                    reasons.append(reason)
                elif small and "_codes_" in form.name:
                    coded.append(form)
                else:
                    self._chosen[key] = form
                    break
            else:
                if not coded:
                    raise LockstepError(f"{self._called(p)} {'; and '.join(reasons)}")
                self._chosen[key] = coded[0]
        return self._chosen[key]

    def _counted_form(self, form: Form) -> Form | None:
        """The form with rank-0 values of each tensor's own; one without any serves as it is."""
        if not form.cells:
            return form
        key = form, "counted"
        if key not in self._forms:
            made = form.with_counts()
            if made is None:
                return None
            self._forms[key] = made
        return self._forms[key]

    @staticmethod
    def _first_dtype(params: Any) -> torch.dtype | None:
        entry: Any
        for entry in params:
            entry = entry["params"] if isinstance(entry, dict) else entry
            entry = (
                next(iter(entry), None)
                if not is_tensor(entry) and not isinstance(entry, tuple)
                else entry
            )
            entry = entry[1] if isinstance(entry, tuple) else entry
            if is_tensor(entry):
                return entry.dtype  # type: ignore[no-any-return]
        return None

    def _named(self, given: dict[str, Any], group: bool) -> dict[str, Any]:
        """Hyperparameters under the names that param_groups has. Groups may have more, which is
        kept."""
        made: dict[str, Any] = {}
        keys = [key for form in self._forms.values() for key in form.keys]
        for name, value in given.items():
            if name in HINTS or name in ("params", "param_names", "initial_lr"):
                if name not in HINTS:
                    made[name] = value
                continue
            own = [(key, index) for p, key, index in keys if p.name == name]
            if own and own[0][1] is not None:
                betas = list(made.get("betas", given.get("betas", self._defaults["betas"])))
                betas[own[0][1]] = value
                made["betas"] = tuple(betas)
            elif own or name in self._defaults:
                made[own[0][0] if own else name] = value
            elif group or name in self._ignored and self._ignored[name] in (None, value):
                made[name] = value
            else:
                more = "; there is std/optim:adamw_amsgrad" if name == "amsgrad" else ""
                raise TypeError(
                    f"step {' and '.join(self._steps)} has no hyperparameter `{name}`: it has "
                    f"{', '.join(self._defaults) or 'none'}{more}"
                )
        if "betas" in made and len(made["betas"]) != len(
            self._defaults.get("betas", made["betas"])
        ):
            raise ValueError(
                f"betas are {len(self._defaults['betas'])} numbers, not {made['betas']}"
            )
        return made

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(
            self._named(param_group, True) if isinstance(param_group, dict) else param_group
        )
        group = self.param_groups[-1]
        try:
            for p in group["params"]:
                self._fit(p)
            if self._library:
                check_ranges(group)
        except (LockstepError, ValueError):
            self.param_groups.pop()
            raise
        self._lots = None
        if self._settings["release"]:
            self._hook(group["params"])

    def _called(self, p: torch.Tensor) -> str:
        for number, group in enumerate(self.param_groups):
            for at, other in enumerate(group["params"]):
                if other is p:
                    names = group.get("param_names")
                    name = f"`{names[at]}`" if names else f"{at} of group {number}"
                    return f"parameter {name}, shape {tuple(p.shape)}"
        return "a parameter"

    def _fit(self, p: torch.Tensor) -> None:
        """Refuses a parameter that no step can update."""
        form = self._form_of(p)
        if hasattr(p, "to_local"):
            if any(placement.is_partial() for placement in p.placements):
                raise LockstepError(f"{self._called(p)} is a DTensor of partial sums")
        elif not (p.is_contiguous() or is_dense(p)):
            raise LockstepError(
                f"{self._called(p)} is not contiguous: strides {p.stride()}; make it so "
                "with p.data = p.data.contiguous() before the optimizer is made"
            )

    @staticmethod
    def _fits_as_it_lies(form: Form, p: torch.Tensor) -> bool:
        """A matrix that lies transposed is worked on in a copy, where a step has rows and
        columns."""
        return local(p).is_contiguous() or form.model.rank == 2

    # ---- state ----

    def _row(self, form: Form, parameter: Parameter, p: torch.Tensor, whole: bool) -> Row:
        """What a list holds for a parameter of the model, of a DTensor for its shard or the
        whole."""
        here = p if whole else local(p)
        if parameter is form.gradient or parameter is form.model:
            address, number, shape = None, parameter.type, tuple(here.shape)
        elif whole:
            address, number, shape = (
                None,
                parameter.type,
                tuple(self.state[p][parameter.name].shape),
            )
        else:
            address, number, shape, _ = describe(local(self.state[p][parameter.name]))
        if parameter.rank == 2 and parameter.axes == form.model.axes:
            shape = (here.numel(),)  # as it lies in memory
        return address, number, shape, None

    def _new_state(self, form: Form, parameter: Parameter, p: torch.Tensor) -> torch.Tensor:
        dtype, copied = DTYPES[parameter.type], parameter.name in self._settings["copies"]
        if parameter.axes == form.model.axes:
            kept = (
                torch.preserve_format if self._fits_as_it_lies(form, p) else torch.contiguous_format
            )
            tensor = torch.empty_like(p, dtype=dtype, memory_format=kept)
            return (tensor.copy_(p.detach()) if copied else tensor.zero_()).detach()
        known: dict[Any, Any] = dict(
            zip(form.model.inner, p.shape if form.model.rank > 2 else (p.numel(),))
        )
        form.source.signature.solve(known)
        shape = tuple(known[axis] for axis in parameter.inner)
        return torch.zeros(shape, dtype=dtype, device=p.device)

    def _begin(self, fresh: list[tuple[int, torch.Tensor]]) -> None:
        """State for parameters that have a gradient for the first time; all of a group, form and
        device share the rank-0 values."""
        self._outside_capture("parameters have a gradient for the first time")
        shared: dict[Any, dict[str, torch.Tensor]] = {}
        for index, p in fresh:
            self._fit(p)
            form = self._form_of(p)
            key = index, p.device, form
            if key not in shared or self._settings["release"]:
                shared[key] = {
                    c.name: torch.full(
                        (), form.starts[c.name], dtype=DTYPES[c.type], device=p.device
                    )
                    for c in form.cells
                }
            state = self.state[p]
            state.update({s.name: self._new_state(form, s, p) for s in form.states})
            state.update(shared[key])
        self._lots = None

    def _split(self, lot: Lot, present: list[bool]) -> None:
        """Some had no gradient, and the step cannot count for each: the others go on with rank-0
        values of their own."""
        self._outside_capture("some gradients are None")
        cells, together = {name: cell.clone() for name, cell in lot.cells.items()}, object()
        for p, here in zip(lot.members, present):
            if here:
                self.state[p].update(cells)
                self._parted[p] = together  # where there are none
        self._lots = None

    def _rebuild(self) -> None:
        """Lots are the parameters that share rank-0 values, or where these are different ones and
        the step can count for each, all of a group; kept where they are the same as before."""
        self._outside_capture(
            "no step was taken yet"
            if self._shape is None
            else "the parameters or their state have changed"
        )
        before = {lot.key: lot for lot in self._lots_before} if self._pid == os.getpid() else {}
        self._idle, self._pid = [], os.getpid()
        sorted_in: dict[Any, dict[Any, list[torch.Tensor]]] = {}
        for index, group in enumerate(self.param_groups):
            for p in group["params"]:
                if p not in self.state:
                    self._idle.append((index, p))
                    continue
                self._fit(p)
                form = self._form_of(p)
                own: Any = tuple(id(self.state[p][c.name]) for c in form.cells) or (
                    self._parted.get(p),
                )
                sorted_in.setdefault((index, p.device, form), {}).setdefault(own, []).append(p)
        self._lots = []
        for (index, device, form), parts in sorted_in.items():
            if len(parts) > 1 or index in self._counted:
                counted = self._counted_form(form)
                if counted is not None:
                    self._counted.add(index)
                    order = {p: at for at, p in enumerate(self.param_groups[index]["params"])}
                    form, parts = (
                        counted,
                        {
                            None: sorted(
                                (p for part in parts.values() for p in part), key=order.__getitem__
                            )
                        },
                    )
            for own, members in parts.items():
                self._lots.append(self._lot(before, index, form, own, members))
        self._lots_before, self._shape = self._lots, self._current_shape()

    def _lot(
        self, before: dict[Any, Lot], index: int, form: Form, own: Any, members: list[torch.Tensor]
    ) -> Lot:
        for p in members:
            self._check_device(p)
        lists = {s.name for s in form.states}
        cells = () if form.counted else own
        key = (
            index,
            form,
            cells,
            tuple(
                (id(p), tuple(id(t) for name, t in self.state[p].items() if name in lists))
                for p in members
            ),
        )
        lot = before.get(key)
        if lot is not None and form.counted:  # whose values may have been taken from a state since
            for name, cell in lot.cells.items():
                if any(
                    self.state[p][name].data_ptr() != own.data_ptr()
                    for p, own in zip(members, cell)
                ):
                    lot = None
                    break
        if lot is None:
            with TENSORS.context(local(members[0]).device):
                lot = Lot(self, index, form, members)
                lot.key = key
                if form.source.signature.draws:
                    lot.bound.api.ls_step_shard(lot.bound.pointer, self._position(members[0]), 0)
        return lot

    def _check_device(self, p: torch.Tensor) -> None:
        for name, value in self.state[p].items():
            if is_tensor(value) and value.device != p.device:
                raise LockstepError(
                    f"{self._called(p)} is on {p.device}, its state `{name}` on "
                    f"{value.device}: move the model before the first step, or move the "
                    "state with optimizer.load_state_dict(optimizer.state_dict())"
                )

    def _position(self, p: torch.Tensor) -> int:
        return next(
            i for i, q in enumerate(q for g in self.param_groups for q in g["params"]) if q is p
        )

    def _current_shape(self) -> Any:
        return len(self.state), [len(group["params"]) for group in self.param_groups]

    # ---- a step ----

    def _work(self) -> list[Work]:
        """The lots that have gradients, with these and their addresses."""
        while True:
            if (
                self._lots is None
                or self._shape != self._current_shape()
                or self._pid != os.getpid()
            ):
                self._rebuild()
            work: list[Work] = []
            again = False
            for lot in self._lots or ():
                gradients: list[Any] = list(map(GRADIENT, lot.members))
                try:
                    if lot.plain and all(map(IS_CONTIGUOUS, gradients)):
                        work.append((lot, gradients, list(map(ADDRESS, gradients)), None))
                        continue
                except (TypeError, RuntimeError):
                    pass  # one is None, or has no memory of its own
                present = [g is not None for g in gradients]
                if all(present):
                    pass
                elif not any(present):
                    continue
                elif not self._takes_some(lot):
                    self._split(lot, present)
                    again = True
                    break
                elif lot.form is not self._counted_form(lot.form) and not lot.form.counted:
                    self._counted.add(lot.group)
                    self._lots = None
                    again = True
                    break
                work.append(
                    (
                        lot,
                        gradients,
                        self._gradients(lot, gradients),
                        None if all(present) else tuple(present),
                    )
                )
            fresh = [(index, p) for index, p in self._idle if p.grad is not None]
            if not again and not fresh:
                return work
            if fresh:
                self._begin(fresh)

    def _takes_some(self, lot: Lot) -> bool:
        """Whether a launch may leave parameters out: in a capture none may."""
        self._outside_capture("some gradients are None")
        return lot.form.counted or self._counted_form(lot.form) is not None

    def _gradients(self, lot: Lot, gradients: list[Any]) -> list[int]:
        """The addresses of gradients that lie as their parameters do, or of copies that do; 0 of
        None."""
        if lot.plain and all(
            g is None or g.layout is torch.strided and g.is_contiguous() for g in gradients
        ):
            return [0 if g is None else g.data_ptr() for g in gradients]
        if lot.whole:
            gradients[:] = [None if g is None else whole_of(g) for g in gradients]
            return [0 if g is None else g.data_ptr() for g in gradients]
        addresses = []
        for i, (p, g) in enumerate(zip(lot.members, gradients)):
            if g is None:
                addresses.append(0)
                continue
            if g.layout is not torch.strided:
                raise LockstepError(
                    f"{self._called(p)} has a sparse gradient ({g.layout}), which "
                    f"{lot.form.step} does not take: use dense ones "
                    "(nn.Embedding(..., sparse=False))"
                )
            here, own = local(g), local(p)
            if i in lot.staged:
                here = here.contiguous()
            elif here.stride() != own.stride() and not (
                here.is_contiguous() and own.is_contiguous()
            ):
                here = torch.empty_like(own, dtype=here.dtype).copy_(here)
            gradients[i] = here
            addresses.append(here.data_ptr())
        return addresses

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def step(self, closure: Any = None) -> Any:
        """One update. Nothing is copied to the host, and nothing waits for the device. With
        release=True all updates were made in the backward pass, and it has nothing to do."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            work = self._work()
            if self._settings["loss_scale"]:
                self._check_overflow(work)
            for item in work:
                self._launch(item)
        self._unscaled = False
        return loss

    def _launch(self, item: Work) -> None:
        lot, gradients, addresses, present = item
        with lot.bound.context:
            if lot.whole:
                lot.bind_present(present)
                self._write(lot)
                lot.launch_whole(self.state, gradients)
            else:
                self._bind(lot, gradients, addresses, present)
                lot.launch()
        torch.autograd.graph.increment_version(
            lot.members if present is None else [p for p, here in zip(lot.members, present) if here]
        )

    def _bind(
        self, lot: Lot, gradients: list[Any], addresses: list[int], present: tuple[bool, ...] | None
    ) -> None:
        lot.bind_present(present)
        form, own = lot.form, lot.own_addresses()
        if own != lot.own:
            self._moved(lot)
            lot.own = own
            lot.bind(form.model, lot.masked(own))
        elif lot.addresses[form.model.name] is None:
            lot.bind(form.model, lot.masked(own))
        if addresses != lot.addresses[form.gradient.name]:
            self._outside_capture("gradients are not where they were")
            wanted = DTYPES[form.gradient.type]  # PyTorch sees to the device
            there = gradients if present is None else [g for g in gradients if g is not None]
            if any(map(IS_NEGATED, there)):
                raise LockstepError("a gradient is a view of negated numbers: resolve_neg() it")
            if set(map(DTYPE, there)) != {wanted}:
                p, g = next(
                    (p, g)
                    for p, g in zip(lot.members, gradients)
                    if g is not None and g.dtype != wanted
                )
                raise LockstepError(
                    f"{self._called(p)} has a gradient of {g.dtype}, and {form.step} takes {wanted}"
                )
            lot.bind(form.gradient, addresses)
        self._write(lot)

    def _moved(self, lot: Lot) -> None:
        self._outside_capture("parameters are not where they were")
        for p in lot.members:
            if local(p).device != lot.device:
                self._lots = None
                self._check_device(p)
            self._fit(p)
        lot.plain = not lot.sharded and all(p.is_contiguous() for p in lot.members)
        lot.copies = {i: local(lot.members[i]) for i in lot.copies}

    # ---- release: updates within the backward pass ----

    def _hook(self, params: list[torch.Tensor]) -> None:
        """Each tensor is updated as soon as its gradient is complete, which then goes."""
        own = weakref.ref(self)

        def update(p: torch.Tensor) -> None:
            optimizer = own()
            if optimizer is not None:
                optimizer._release(p)

        for p in params:
            p.register_post_accumulate_grad_hook(update)

    def _release(self, p: torch.Tensor) -> None:
        if p.grad is None:
            return
        index = next(
            i for i, group in enumerate(self.param_groups) for q in group["params"] if q is p
        )
        with torch.no_grad():
            if p not in self.state:
                self._begin([(index, p)])
            lot = self._alone.get(p)
            form = self._form_of(p)
            names = {s.name for s in (*form.states, *form.cells)}
            key = (
                index,
                os.getpid(),
                tuple(id(t) for name, t in self.state[p].items() if name in names),
            )
            if lot is None or lot.key != key:
                with TENSORS.context(local(p).device):
                    lot = self._alone[p] = Lot(self, index, form, [p])
                    lot.key = key
                    if form.source.signature.draws:
                        lot.bound.api.ls_step_shard(lot.bound.pointer, self._position(p), 0)
            gradients: list[Any] = [p.grad]
            addresses = self._gradients(lot, gradients)
            self._launch((lot, gradients, addresses, None))
        p.grad = None

    def _write(self, lot: Lot) -> None:
        """Sets what of the group's hyperparameters is another than at the step before."""
        group, values, bound = self.param_groups[lot.group], lot.values, lot.bound
        for parameter, key, index in lot.form.keys:
            value = group[key] if index is None else group[key][index]
            if value is values.get(parameter, values):  # which is no value
                continue
            if is_tensor(value):
                self._write_tensor(bound, parameter, key, value)
                if value.device != lot.device or value.dtype != DTYPES[parameter.type]:
                    continue  # read anew at every step
            else:
                self._outside_capture(
                    f"`{key}` has changed: call write_hyperparameters() before it"
                )
                try:
                    number = value if isinstance(value, (bool, int, float, str)) else float(value)
                    bound.set(parameter, number)
                except (TypeError, ValueError, struct.error, C.ArgumentError):
                    raise TypeError(f"`{key}` is {value!r}, not a number") from None
            values[parameter] = value

    def _write_tensor(
        self, bound: Bound, parameter: Parameter, key: str, value: torch.Tensor
    ) -> None:
        if value.numel() != 1 or parameter.rank:
            raise LockstepError(
                f"`{key}` is a tensor of shape {tuple(value.shape)}; one with one element "
                "or a number is wanted"
            )
        if value.device.type == "cpu" and (
            value.dtype != DTYPES[parameter.type] or bound.context.index is not None
        ):
            bound.set(parameter, value.item())
        elif value.dtype != DTYPES[parameter.type]:
            raise LockstepError(
                f"`{key}` is a tensor of {value.dtype} on {value.device}: on a device "
                f"{DTYPES[parameter.type]} is wanted, which the step reads as it is"
            )
        else:
            address, number, _, _ = describe(value)
            bound.bind(parameter, (address, number, (), ()))

    def write_hyperparameters(self) -> None:
        """Brings what changed in param_groups to the device, for graphs that were captured
        before."""
        for lot in (*(self._lots or ()), *self._alone.values()):
            with lot.bound.context:
                self._write(lot)

    def zero_grad(self, set_to_none: bool | None = None) -> None:
        super().zero_grad(not self._settings["capturable"] if set_to_none is None else set_to_none)
