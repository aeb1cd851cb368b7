"""A loss scale that lives on the device: what torch.amp.GradScaler is for other optimizers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .._api import TYPES, LockstepError
from .._around import check_text
from .._bound import Bound
from .._signature import Source
from ._tensors import TENSORS, describe

SCALE_DEFAULTS = {
    "init_scale": 65536.0,
    "growth_factor": 2.0,
    "backoff_factor": 0.5,
    "growth_interval": 2000,
}


class LossScale(torch.optim.Optimizer):
    """The part of an Optimizer that scales losses and looks for gradients that overflowed."""

    _settings: dict[str, Any]
    _scale: dict[str, torch.Tensor] | None
    _unscaled: bool
    _check: dict[Any, Bound]
    _looked_at: Any
    param_groups: list[dict[str, Any]]

    if TYPE_CHECKING:

        def _outside_capture(self, what: str) -> None: ...

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
        if not work:
            return
        device = work[0][0].device
        values, context = self._scale_values(device), TENSORS.context(device)
        types = tuple(sorted({lot.form.gradient.type for lot, *_ in work}))
        with context:
            bound = self._checker(context, types)
            names = bound.source.signature.by_name
            for name, value in values.items():
                bound.bind(names[name], describe(value))
            looked_at = [(lot.key, addresses) for lot, _, addresses, _ in work]
            if self._looked_at != looked_at:
                self._outside_capture("gradients are not where they were")
                for i, type in enumerate(types):
                    bound.bind(
                        names[f"g{i}"],
                        [
                            (address, type, (g.numel(),), None)
                            for lot, gradients, addresses, _ in work
                            if lot.form.gradient.type == type
                            for g, address in zip(gradients, addresses)
                            if g is not None
                        ],
                    )
                self._looked_at = looked_at
            bound.set(names["unscaled"], self._unscaled)
            bound.launch()
            for lot, *_ in work:
                if lot.device != device:
                    raise LockstepError(
                        "a loss scale serves one device, and there are gradients on "
                        f"{device} and {lot.device}"
                    )
                own = lot.bound.source.signature.by_name
                lot.bound.bind(own["inverse_scale"], describe(values["inverse"]))
                lot.bound.bind(own["found_inf"], describe(values["found_inf"]))
