"""A loss scale that lives on the device: what torch.amp.GradScaler is for other optimizers."""

from __future__ import annotations

from typing import Any

import torch

from .._api import TYPES, LockstepError
from .._around import check_text
from .._bound import Bound
from .._context import capturing
from .._signature import Source
from ._tensors import TENSORS, describe, local

SCALE_DEFAULTS = {
    "init_scale": 65536.0,
    "growth_factor": 2.0,
    "backoff_factor": 0.5,
    "growth_interval": 2000,
}


def scale_settings(loss_scale: Any) -> dict[str, Any] | None:
    """Those of loss_scale=True, or a dictionary of some; None: there is none."""
    if not loss_scale:
        return None
    made = {**SCALE_DEFAULTS, **(loss_scale if loss_scale is not True else {})}
    unknown = set(made) - set(SCALE_DEFAULTS)
    if unknown:
        raise TypeError(f"loss_scale has {', '.join(SCALE_DEFAULTS)}, and no {', '.join(unknown)}")
    return made


class LossScale(torch.optim.Optimizer):
    """The part of an Optimizer that scales losses and looks for gradients that overflowed."""

    _settings: dict[str, Any]
    _scale: dict[str, torch.Tensor] | None
    _unscaled: bool
    _check: dict[Any, Bound]
    _looked_at: Any
    _flag: torch.Tensor | None
    param_groups: list[dict[str, Any]]

    def _open_scale(self) -> None:
        """As it is before the first step."""
        self._scale, self._unscaled, self._looked_at = None, False, None
        self._check, self._flag = {}, None

    def _outside_capture(self, what: str) -> None:
        if capturing():
            raise LockstepError(
                f"Optimizer.step in a graph capture: {what}; take a few before the "
                "capture, with capturable=True and gradients that stay where they are "
                "(zero_grad(set_to_none=False))"
            )

    def _scale_values(self, device: torch.device) -> dict[str, torch.Tensor]:
        if self._scale is None:
            self._outside_capture("there is no loss scale yet")
            options = self._settings["loss_scale"]
            values = {
                "scale": (torch.float32, options["init_scale"]),
                "good": (torch.int32, 0),
                "skipped": (torch.int64, 0),
                "inverse": (torch.float32, 1.0),
                "found_inf": (torch.bool, False),
            }
            self._scale = {
                name: torch.full((), value, dtype=dtype, device=device)
                for name, (dtype, value) in values.items()
            }
        if self._scale["scale"].device != device:
            raise LockstepError(
                f"the loss scale is on {self._scale['scale'].device} and meets tensors on "
                f"{device}; it serves one device"
            )
        return self._scale

    def _saved_scale(self) -> dict[str, torch.Tensor]:
        """What state_dict has of a scale that there is."""
        return {name: (self._scale or {})[name] for name in ("scale", "good", "skipped")}

    def _load_scale(self, saved: Any) -> None:
        if saved is not None and self._settings["loss_scale"]:
            device = next(p for group in self.param_groups for p in group["params"]).device
            for name, value in saved.items():
                self._scale_values(device)[name].copy_(value)

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        """The loss times the scale, to call backward() on."""
        if not self._settings["loss_scale"]:
            raise LockstepError("this optimizer has no loss scale: create it with loss_scale=True")
        return loss * self._scale_values(loss.device)["scale"].to(loss.dtype)

    def unscale_(self) -> None:
        """Divides the gradients by the scale now, to clip them; step() then does not."""
        if not self._settings["loss_scale"] or self._unscaled:
            raise LockstepError(
                "unscale_ is for optimizers with loss_scale, once before each step()"
            )
        gradients = [
            p.grad for group in self.param_groups for p in group["params"] if p.grad is not None
        ]
        if gradients:
            scale = self._scale_values(gradients[0].device)["scale"]
            with torch.no_grad():
                torch._foreach_mul_(gradients, (1 / scale.double()).float())
        self._unscaled = True

    def loss_scale(self) -> tuple[float, int]:
        """The scale and how many steps were left out, as numbers: waits for the device."""
        if self._scale is None:
            return (self._settings["loss_scale"] or SCALE_DEFAULTS)["init_scale"], 0
        return self._scale["scale"].item(), self._scale["skipped"].item()

    def _checker(self, context: Any, types: tuple[int, ...]) -> Bound:
        if (context, types) not in self._check:
            bound = self._check[context, types] = Bound(
                Source(check_text([TYPES[type] for type in types]), "check"), context
            )
            options = self._settings["loss_scale"]
            for name in ("growth", "backoff", "interval"):
                key = "growth_interval" if name == "interval" else name + "_factor"
                bound.set(bound.source.signature.by_name[name], options[key])
        return self._check[context, types]

    def _check_overflow(self, work: list[Any]) -> None:
        """Looks at the gradients of all lots, which then leave their updates out or not."""
        if not work:
            return
        device = work[0][0].device
        rows = [
            (address, lot.form.gradient.type, g.numel())
            for lot, gradients, addresses, _ in work
            for g, address in zip(gradients, addresses)
            if g is not None
        ]
        sharded = [p for lot, *_ in work if lot.sharded for p in lot.members]
        if sharded:
            flag = self._elsewhere(sharded, [g for _, every, *_ in work for g in every])
            rows.append((flag.data_ptr(), TYPES.index("f32"), 1))
        values = self._look(device, rows)
        for lot, *_ in work:
            if lot.device != device:
                raise LockstepError(
                    "a loss scale serves one device, and there are gradients on "
                    f"{device} and {lot.device}"
                )
            own = lot.bound.source.signature.by_name
            with lot.bound.context:
                lot.bound.bind(own["inverse_scale"], describe(values["inverse"]))
                lot.bound.bind(own["found_inf"], describe(values["found_inf"]))

    def _elsewhere(self, sharded: list[Any], gradients: list[Any]) -> torch.Tensor:
        """Infinite where gradients overflowed in another process that has a shard of a tensor, so
        that all of them leave the step out: they wait for each other."""
        here = [local(g) for g in gradients if g is not None]
        worst = [g.detach().abs().max().float() for g in here if g.numel()]
        if self._flag is None:
            self._flag = torch.zeros(1, device=local(sharded[0]).device)
        total = torch.stack(worst).max() if worst else self._flag[0]
        self._flag.copy_(torch.where(torch.isfinite(total), 0.0, torch.inf))
        for mesh in {p.device_mesh for p in sharded}:
            for dim in range(mesh.ndim):
                group = mesh.get_group(dim)
                torch.distributed.all_reduce(self._flag, torch.distributed.ReduceOp.MAX, group)
        return self._flag

    def _look(self, device: torch.device, rows: list[tuple[int, int, int]]) -> dict[str, Any]:
        """Launches the check of gradients, each with its address, type and elements, which changes
        the scale and says on the device whether the step is left out."""
        values, context = self._scale_values(device), TENSORS.context(device)
        types = tuple(sorted({type for _, type, _ in rows}))
        with context:
            bound = self._checker(context, types)
            names = bound.source.signature.by_name
            for name, value in values.items():
                bound.bind(names[name], describe(value))
            if self._looked_at != rows:
                self._outside_capture("gradients are not where they were")
                for i, type in enumerate(types):
                    bound.bind(
                        names[f"g{i}"],
                        [
                            (address, type, (elements,), None)
                            for address, kind, elements in rows
                            if kind == type
                        ],
                    )
                self._looked_at = rows
            bound.set(names["unscaled"], self._unscaled)
            bound.launch()
        return values
