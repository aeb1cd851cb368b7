"""Saving and loading the state of optimizers, their own and that of torch.optim's."""

from __future__ import annotations

import collections
import itertools
from typing import TYPE_CHECKING, Any

import torch

from ._form import Form
from ._names import PACKED, STATE_NAMES, STEPLESS, TORCH, torch_defaults
from ._packages import unpacked
from ._tensors import DTYPES
from .._signature import Parameter


class Saving(torch.optim.Optimizer):
    """The part of an Optimizer that state_dict, load_state_dict, pickle and copy.deepcopy go
    through."""

    _settings: dict[str, Any]
    _scale: dict[str, torch.Tensor] | None
    _defaults: dict[str, Any]
    _forms: dict[Any, Form]
    _library: bool
    _alone: dict[torch.Tensor, Any]
    _lots: Any
    state: Any
    param_groups: list[dict[str, Any]]

    if TYPE_CHECKING:

        def _open(self, params: Any) -> None: ...
        def _called(self, p: torch.Tensor) -> str: ...
        def _form_of(self, p: torch.Tensor) -> Form: ...
        def _hook(self, params: list[torch.Tensor]) -> None: ...
        def _new_state(self, form: Form, parameter: Parameter, p: torch.Tensor) -> torch.Tensor: ...
        def _saved_scale(self) -> dict[str, torch.Tensor]: ...
        def _load_scale(self, saved: Any) -> None: ...

    def __getstate__(self) -> dict[str, Any]:
        return {
            **super().__getstate__(),
            "settings": self._settings,
            "scale": None if self._scale is None else dict(self._scale),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        settings, scale = state.pop("settings", None), state.pop("scale", None)
        if settings is not None:  # a copy, or from a pickle
            self._settings = settings
            self._open([{"params": group["params"]} for group in state["param_groups"]])
            self._scale = scale
        super().__setstate__(state)
        if not hasattr(self, "_zero_grad_profile_name"):
            self._patch_step_function()
        self._lots = None
        if settings is not None and settings["release"]:
            for group in self.param_groups:
                self._hook(group["params"])

    def _torch_form(self) -> tuple[str, dict[str, Any]] | None:
        """The optimizer of PyTorch that this one is, and what its groups have, at their
        defaults."""
        if not self._library:
            return None
        names = {form.name for form in self._forms.values()}
        found = [TORCH.get(name) for name in names]
        if any(row is None for row in found) or len({row[0] for row in found if row}) != 1:
            return None
        name = next(row[0] for row in found if row)
        return name, {
            **torch_defaults(name),
            **{k: v for row in found if row for k, v in row[2].items()},
        }

    def state_dict(self) -> dict[str, Any]:
        """The state, by the names of the optimizer of PyTorch that the step is, if it is one: that
        one loads it, and load_state_dict here either."""
        made: dict[str, Any] = super().state_dict()
        theirs = self._torch_form()
        for at, group in enumerate(made["param_groups"]):
            if theirs is not None:
                group = {**theirs[1], **group}
                for key, own in PACKED.get(theirs[0], {}).items():
                    group[key] = tuple(group[name] for name in own)
                if theirs[0] == "Adafactor":
                    group["d"] = group["clip"]
                made["param_groups"][at] = group
            group["maximize"] = self._settings["maximize"]
        if theirs is not None:
            counts: dict[int, torch.Tensor] = {}
            every = [p for group in self.param_groups for p in group["params"]]
            for index, p in enumerate(every):
                if p in self.state:
                    made["state"][index] = self._torch_state(theirs[0], p, counts)
        if self._scale is not None:
            made["loss_scale"] = self._saved_scale()
        return made

    def _torch_state(
        self, theirs: str, p: torch.Tensor, counts: dict[int, torch.Tensor]
    ) -> dict[str, Any]:
        names, values = TORCH[self._form_of(p).name][1], self.state[p]
        made: dict[str, Any] = {}
        if theirs not in STEPLESS and "count" not in values:
            made["step"] = torch.zeros(())  # PyTorch counts here, and does nothing by it
        for name, value in values.items():
            if name == "count" and theirs not in STEPLESS:
                if id(value) not in counts:
                    number = value.detach().cpu()
                    exact = torch.float32 if number < 2**24 else torch.float64
                    counts[id(value)] = number.to(exact)
                value = counts[id(value)].clone()
            elif name == "row":
                value = value.unsqueeze(-1)
            elif name == "col":
                value = value.unsqueeze(-2)
            made[names.get(name, name)] = value
        if theirs == "ASGD":  # what the step reckons anew, and PyTorch keeps for its next one
            group = next(g for g in self.param_groups if any(q is p for q in g["params"]))
            count = made["step"].double()
            slowed = (1 + group["lambd"] * group["lr"] * count) ** group["alpha"]
            made["eta"] = (group["lr"] / slowed).float()
            made["mu"] = (1 / (count - group["t0"]).clamp(min=1)).float()
        return made

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Of an optimizer of the same step, which then goes on bit for bit; or PyTorch's own of the
        same kind, such as torch.optim.AdamW for std/optim:adamw; or for adamw_codes_8bit and the
        like torchao's and bitsandbytes'."""
        given = dict(state_dict)
        scale = given.pop("loss_scale", None)
        # PyTorch would bring every value to its parameter's type.
        given["state"] = {index: Kept(dict(values)) for index, values in given["state"].items()}
        own = itertools.chain(self.param_groups, itertools.repeat({}))
        given["param_groups"] = [
            self._loaded_group(mine, group) for mine, group in zip(own, given["param_groups"])
        ]
        before = self.state, self.param_groups
        try:
            super().load_state_dict(given)
            self._take_state()
        except BaseException:
            self.state, self.param_groups = before
            raise
        self._load_scale(scale)

    def _loaded_group(self, own: dict[str, Any], group: dict[str, Any]) -> dict[str, Any]:
        saved, group = group, {**{key: own[key] for key in self._defaults if key in own}, **group}
        states = {p.name for form in self._forms.values() for p in form.states}
        for key, value in (("maximize", self._settings["maximize"]), ("amsgrad", False)):
            if group.get(key, value) != value and not (key == "amsgrad" and "v_max" in states):
                raise ValueError(
                    f"the state was saved with {key}={group[key]}, this optimizer has {value}"
                )
        theirs = self._torch_form()
        for key, names in PACKED.get(theirs[0] if theirs else "", {}).items():
            for name, value in zip(names, group.pop(key, ())):
                if value is not None:
                    group[name] = value
        if "momentum" in self._defaults and "momentum" not in saved and "betas" in saved:
            group["momentum"] = group.pop("betas")[0]  # of bitsandbytes' SGD
        if "clip" in self._defaults and "d" in group:
            group["clip"] = group["d"]
        for key in ("maximize", *(set(theirs[1]) - set(self._defaults) if theirs else ())):
            group.pop(key, None)
        return group

    def _take_state(self) -> None:
        """Copies what was loaded into state of the step's own types; parameters of a group with the
        same rank-0 values share them."""
        shared: dict[Any, Any] = {}
        taken: dict[Any, dict[str, Any]] = collections.defaultdict(dict)
        for index, group in enumerate(self.param_groups):
            for p in group["params"]:
                kept, form = self.state.get(p), self._form_of(p)
                every = form.all_names()
                given = kept.values if isinstance(kept, Kept) else kept or {}
                values = {
                    STATE_NAMES.get(k, k) if k not in every else k: v
                    for k, v in unpacked(given, p).items()
                    if v is not None
                }
                if not values:
                    continue
                for name in ("eta", "mu"):  # of torch.optim.ASGD, which the step reckons anew
                    values.pop(name, None)
                if "count" not in form.starts:
                    values.pop("count", None)
                elif "m" in values:
                    values.setdefault("count", 1)  # torch.optim.SGD counts by having a buffer
                if set(values) != every:
                    raise ValueError(
                        f"{self._called(p)}: the state loaded has {', '.join(values)}, and "
                        f"{form.step} keeps {', '.join(every)}"
                    )
                taken[p] = {s.name: self._loaded(form, s, p, values[s.name]) for s in form.states}
                cells = {
                    c.name: torch.as_tensor(values[c.name]).detach().cpu().to(DTYPES[c.type])
                    for c in form.cells
                }
                key = index, form, p.device, tuple(c.item() for c in cells.values())
                if key not in shared or self._settings["release"]:
                    shared[key] = {
                        name: cell.reshape(()).to(p.device, copy=True)
                        for name, cell in cells.items()
                    }
                taken[p].update(shared[key])
        self.state, self._lots = taken, None
        self._alone.clear()

    def _loaded(
        self, form: Form, parameter: Parameter, p: torch.Tensor, value: torch.Tensor
    ) -> torch.Tensor:
        made = self._new_state(form, parameter, p)
        if value.dim() == made.dim() + 1 and parameter.name in (
            "row",
            "col",
        ):  # torch.optim.Adafactor's
            value = value.squeeze(-1 if parameter.name == "row" else -2)
        if tuple(value.shape) != tuple(made.shape):
            raise ValueError(
                f"{self._called(p)}: the state `{parameter.name}` loaded has shape "
                f"{tuple(value.shape)}, not {tuple(made.shape)}"
            )
        return made.copy_(value)


class Kept:
    """State that load_state_dict of PyTorch's leaves alone."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values
