"""Saving and loading the state of optimizers, their own and that of torch.optim's."""
from __future__ import annotations

import collections
import itertools
from typing import TYPE_CHECKING, Any

import torch

from ._names import STATE_NAMES
from ._tensors import DTYPES
from .._signature import Parameter


class Saving(torch.optim.Optimizer):
    """The part of an Optimizer that state_dict, load_state_dict, pickle and copy.deepcopy go through."""

    _settings: dict[str, Any]
    _scale: dict[str, torch.Tensor] | None
    _defaults: dict[str, Any]
    _states: list[Parameter]
    _cells: list[Parameter]
    _starts: dict[str, Any]
    _lots: Any
    state: Any
    param_groups: list[dict[str, Any]]

    if TYPE_CHECKING:
        def _open(self, params: Any) -> None: ...
        def _called(self, p: torch.Tensor) -> str: ...
        def _new_state(self, parameter: Parameter, p: torch.Tensor) -> torch.Tensor: ...
        def _scale_values(self, device: torch.device) -> dict[str, torch.Tensor]: ...

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "settings": self._settings,
                "scale": None if self._scale is None else dict(self._scale)}

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

    def state_dict(self) -> dict[str, Any]:
        made: dict[str, Any] = super().state_dict()
        for group in made["param_groups"]:
            group["maximize"] = self._settings["maximize"]
        if self._scale is not None:
            made["loss_scale"] = {name: self._scale[name] for name in ("scale", "good", "skipped")}
        return made

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Of an optimizer of the same step, which then goes on bit for bit; or PyTorch's own of the same
        kind, such as torch.optim.AdamW for std/optim:adamw."""
        given = dict(state_dict)
        scale = given.pop("loss_scale", None)
        # PyTorch would bring every value to its parameter's type.
        given["state"] = {index: Kept(dict(values)) for index, values in given["state"].items()}
        own = itertools.chain(self.param_groups, itertools.repeat({}))
        given["param_groups"] = [self._loaded_group(mine, group)
                                 for mine, group in zip(own, given["param_groups"])]
        before = self.state, self.param_groups
        try:
            super().load_state_dict(given)
            self._take_state()
        except BaseException:
            self.state, self.param_groups = before
            raise
        if scale is not None and self._settings["loss_scale"]:
            device = next(p for group in self.param_groups for p in group["params"]).device
            for name, value in scale.items():
                self._scale_values(device)[name].copy_(value)

    def _loaded_group(self, own: dict[str, Any], group: dict[str, Any]) -> dict[str, Any]:
        group = {**{key: own[key] for key in self._defaults if key in own}, **group}
        for key, value in (("maximize", self._settings["maximize"]), ("amsgrad", False)):
            if group.get(key, value) != value and not (key == "amsgrad" and any(
                    p.name == "v_max" for p in self._states)):
                raise ValueError(f"the state was saved with {key}={group[key]}, this optimizer has {value}")
        group.pop("maximize", None)
        return group

    def _take_state(self) -> None:
        """Copies what was loaded into state of the step's own types; parameters of a group with the same
        rank-0 values share them."""
        shared: dict[Any, Any] = {}
        taken: dict[Any, dict[str, Any]] = collections.defaultdict(dict)
        for index, group in enumerate(self.param_groups):
            for p in group["params"]:
                kept = self.state.get(p)
                values = {STATE_NAMES.get(k, k) if k not in self._all_names() else k: v
                          for k, v in (kept.values if isinstance(kept, Kept) else kept or {}).items()
                          if v is not None}
                if not values:
                    continue
                if "count" not in self._starts:
                    values.pop("count", None)
                elif "m" in values:
                    values.setdefault("count", 1)  # torch.optim.SGD counts by having a buffer
                if set(values) != self._all_names():
                    raise ValueError(f"{self._called(p)}: the state loaded has {', '.join(values)}, and "
                                     f"{self._settings['step']} keeps {', '.join(self._all_names())}")
                taken[p] = {s.name: self._loaded(s, p, values[s.name]) for s in self._states}
                cells = {c.name: torch.as_tensor(values[c.name]).detach().cpu().to(DTYPES[c.type])
                         for c in self._cells}
                key = index, p.device, tuple(c.item() for c in cells.values())
                if key not in shared:
                    shared[key] = {name: cell.reshape(()).to(p.device, copy=True)
                                   for name, cell in cells.items()}
                taken[p].update(shared[key])
        self.state, self._lots = taken, None

    def _all_names(self) -> set[str]:
        return {p.name for p in self._states} | set(self._starts)

    def _loaded(self, parameter: Parameter, p: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        made = self._new_state(parameter, p)
        if tuple(value.shape) != tuple(made.shape):
            raise ValueError(f"{self._called(p)}: the state `{parameter.name}` loaded has shape "
                             f"{tuple(value.shape)}, not {tuple(made.shape)}")
        return made.copy_(value)


class Kept:
    """State that load_state_dict of PyTorch's leaves alone."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values
