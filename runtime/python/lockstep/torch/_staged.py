"""Optimizers of more than one step: Muon, whose matrix products are PyTorch's, and Sophia."""

from __future__ import annotations

import functools
from typing import Any

import torch

from .._around import around, guarded
from .._api import TYPES
from .._step import Step
from ._loss_scale import LossScale, scale_settings
from ._optimizer import Optimizer
from ._tensors import TENSORS, local, store_whole, whole_of

RATES = {None: False, "original": False, "match_rms_adamw": True}  # match_adamw of the step


class _Step(Step):
    arrays = TENSORS


class Muon(LossScale):
    """Muon of std/optim: as torch.optim.Muon, and each loads the other's state_dict().

        Muon(matrices, lr=0.02, weight_decay=0.1)

    For matrices; what else a model has is for another optimizer. What stands between the matrix
    products is one launch for all matrices of a group. The momentum is divided by its norm before
    it is rounded to bf16, where PyTorch rounds first. Of a DTensor (FSDP2) the matrix is gathered
    for the products, and each process keeps its shards. loss_scale is as of Optimizer.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
        *,
        loss_scale: Any = None,
    ) -> None:
        self._settings = {"loss_scale": scale_settings(loss_scale)}
        self._open_scale()
        names = "lr", "weight_decay", "momentum", "nesterov", "ns_coefficients", "eps", "ns_steps"
        values = lr, weight_decay, momentum, nesterov, tuple(ns_coefficients), eps, ns_steps
        super().__init__(params, {**dict(zip(names, values)), "adjust_lr_fn": adjust_lr_fn})

    def __getstate__(self) -> dict[str, Any]:
        scale = None if self._scale is None else dict(self._scale)
        return {**super().__getstate__(), "settings": self._settings, "scale": scale}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        settings, scale = state.pop("settings", None), state.pop("scale", None)
        if settings is not None:  # a copy, or from a pickle
            self._settings = settings
            self._open_scale()
            self._scale = scale
        super().__setstate__(state)
        if not hasattr(self, "_zero_grad_profile_name"):
            self._patch_step_function()

    def state_dict(self) -> dict[str, Any]:
        made: dict[str, Any] = super().state_dict()
        if self._scale is not None:
            made["loss_scale"] = self._saved_scale()
        return made

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        given = dict(state_dict)
        scale = given.pop("loss_scale", None)
        super().load_state_dict(given)
        self._load_scale(scale)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        try:
            for p in group["params"]:
                if p.dim() != 2 or p.dtype != torch.float32:
                    raise ValueError(
                        "Muon is for matrices of torch.float32; a parameter is "
                        f"{p.dtype} of shape {tuple(p.shape)}"
                    )
            for key in ("lr", "weight_decay", "momentum"):
                if not group[key] >= 0:
                    raise ValueError(f"{key} is {group[key]}, and has to be at least 0")
            if group["adjust_lr_fn"] not in RATES:
                raise ValueError(
                    f"adjust_lr_fn is {group['adjust_lr_fn']!r}: there are "
                    f"{', '.join(map(repr, RATES))}"
                )
        except ValueError:
            self.param_groups.pop()
            raise

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def step(self, closure: Any = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            work = []
            for group in self.param_groups:
                devices: dict[torch.device, list[torch.Tensor]] = {}
                for p in group["params"]:
                    if p.grad is not None:
                        devices.setdefault(p.device, []).append(p)
                for params in devices.values():
                    work.append((group, params, [whole_of(p.grad) for p in params]))
            scale = self._check_scale([g for _, _, gradients in work for g in gradients])
            for group, params, gradients in work:
                self._update(group, params, gradients, scale)
        self._unscaled = False
        return loss

    def _check_scale(self, gradients: list[torch.Tensor]) -> dict[str, Any]:
        """What the steps are given besides, of the loss scale."""
        if not self._settings["loss_scale"] or not gradients:
            return {}
        rows = [(g.data_ptr(), TYPES.index("f32"), g.numel()) for g in gradients]
        for g in gradients:
            self._scale_values(g.device)  # which all are on
        values = self._look(gradients[0].device, rows)
        return {"inverse_scale": values["inverse"], "found_inf": values["found_inf"]}

    def _update(
        self,
        group: dict[str, Any],
        params: list[torch.Tensor],
        gradients: list[torch.Tensor],
        scale: dict[str, Any],
    ) -> None:
        steps, guard = _steps(bool(scale)), {k: v for k, v in scale.items() if k == "found_inf"}
        for p in params:
            before = self.state[p].get("momentum_buffer")
            if before is None:
                # of a DTensor a DTensor; of a transposed matrix one that is not
                before = torch.zeros_like(p, memory_format=torch.contiguous_format).detach()
            self.state[p]["momentum_buffer"] = before
        kept = [self.state[p]["momentum_buffer"] for p in params]
        momenta = [whole_of(m) for m in kept]
        make = torch.zeros if scale else torch.empty  # what is left out leaves zeros
        x = [make(tuple(p.shape), dtype=torch.bfloat16, device=p.device) for p in params]
        steps["momentum"](
            m=momenta,
            g=gradients,
            x=x,
            momentum=group["momentum"],
            nesterov=group["nesterov"],
            eps=group["eps"],
            **scale,
        )
        a, b, c = group["ns_coefficients"]
        for _ in range(group["ns_steps"]):  # the smaller of the two squares
            gram = [t.t() @ t if t.shape[0] > t.shape[1] else t @ t.t() for t in x]
            factors = [torch.empty_like(t) for t in gram]
            steps["gram"](gram=gram, gram_squared=[t @ t for t in gram], o=factors, b=b, c_=c)
            pairs = zip(x, factors)
            product = [t @ f if t.shape[0] > t.shape[1] else f @ t for t, f in pairs]
            steps["polynomial"](x=x, product=product, a=a)
        own = [p.detach() for p in params]
        lain = [whole_of(p) for p in own]
        steps["update"](
            p=lain,
            x=x,
            lr=group["lr"],
            decay=group["weight_decay"],
            match_adamw=RATES[group["adjust_lr_fn"]],
            **guard,
        )
        for to, worked_on in (*zip(own, lain), *zip(kept, momenta)):
            store_whole(to, worked_on)
        torch.autograd.graph.increment_version(params)


@functools.cache
def _steps(scaled: bool) -> dict[str, _Step]:
    """Those of Muon by name; with a loss scale two are left out where a gradient overflowed."""
    names = "momentum", "gram", "polynomial", "update"
    made = {name: _Step(f"std/optim:muon_{name}") for name in names}
    if scaled:
        inner = made["momentum"].source, made["update"].source
        made["momentum"] = _Step(around(inner[0], "g", False, True), "wrapped_muon_momentum")
        made["update"] = _Step(guarded(inner[1]), "guarded_muon_update")
    return made


class Sophia(Optimizer):
    """Sophia of std/optim, an Optimizer whose estimate of the Hessian's diagonal is renewed every
    ten steps or so, either way:

        optimizer.hessian(loss)              # Hutchinson's: differentiates the loss twice

        drawn = torch.distributions.Categorical(logits=logits).sample()
        cross_entropy(logits, drawn).backward()
        optimizer.gauss_newton(len(drawn))   # from gradients of the mean loss of drawn labels
        optimizer.zero_grad()

    betas are what is kept of the momentum and of the estimate. Its state is `m` and `h`.
    """

    def __init__(self, params: Any, **options: Any) -> None:
        if options.get("release"):
            raise TypeError("release=True would update within the estimate's backward pass, too")
        super().__init__(params, "std/optim:sophia", estimates=("h",), **options)

    def _open(self, params: Any) -> None:
        super()._open(params)
        self._defaults["betas"] = (*self._defaults["betas"][:1], 0.99)

    def gauss_newton(self, batch: int) -> None:
        """By Gauss, Newton and Bartlett: of the gradients as they are, of a mean over `batch`
        labels drawn from the model."""
        with torch.no_grad():
            for beta2, there in self._there():
                g = [self._as(self.state[p]["h"], p.grad) for p in there]
                SOPHIA["gauss_newton"](h=self._estimates(there), g=g, batch=batch, beta2=beta2)

    def hessian(self, loss: torch.Tensor, generator: torch.Generator | None = None) -> None:
        """By Hutchinson's method: of the product of the loss's Hessian with normal noise."""
        every = [p for group in self.param_groups for p in group["params"] if p.requires_grad]
        first = torch.autograd.grad(loss, every, create_graph=True, allow_unused=True)
        used = [(p, g) for p, g in zip(every, first) if g is not None]
        noise = {p: torch.empty_like(p).normal_(generator=generator).detach() for p, _ in used}
        curved = [(g, noise[p]) for p, g in used if g.requires_grad]  # of the others it is 0
        second: Any = [None] * len(noise)
        if curved:
            gradients, directions = zip(*curved)
            second = torch.autograd.grad(
                gradients, list(noise), grad_outputs=directions, allow_unused=True
            )
        products = dict(zip(noise, second))
        with torch.no_grad():
            for beta2, there in self._there(noise):
                h = [self.state[p]["h"] for p in there]
                u = [self._as(own, noise[p]) for own, p in zip(h, there)]
                hu = [self._as(own, products[p]) for own, p in zip(h, there)]
                SOPHIA["hessian"](h=self._estimates(there), u=u, hu=hu, beta2=beta2)

    def _there(self, chosen: Any = None) -> list[tuple[float, list[torch.Tensor]]]:
        """The parameters of each group and device that are chosen, or have a gradient, which have
        a state then, with the group's beta2."""
        found: dict[Any, list[torch.Tensor]] = {}
        fresh = []
        for index, group in enumerate(self.param_groups):
            for p in group["params"]:
                if p.grad is not None if chosen is None else p in chosen:
                    found.setdefault((index, p.device), []).append(p)
                    fresh += [(index, p)] if p not in self.state else []
        if fresh:
            self._begin(fresh)
        return [(self.param_groups[key[0]]["betas"][1], there) for key, there in found.items()]

    def _estimates(self, there: list[torch.Tensor]) -> list[torch.Tensor]:
        return [self._flat(self.state[p]["h"]) for p in there]

    @staticmethod
    def _flat(tensor: torch.Tensor) -> torch.Tensor:
        """The elements in the order of memory."""
        here = local(tensor)
        return here.as_strided((here.numel(),), (1,), here.storage_offset())

    def _as(self, own: torch.Tensor, other: torch.Tensor | None) -> torch.Tensor:
        """The elements of another tensor in the order in which the state lies; none are zeros."""
        if other is None:
            return self._flat(torch.zeros_like(own))
        here, mine = local(other), local(own)
        if here.stride() != mine.stride() or here.dtype != mine.dtype:
            here = torch.empty_like(mine).copy_(here)
        return self._flat(here)


SOPHIA = {name: _Step(f"std/optim:sophia_{name}") for name in ("gauss_newton", "hessian")}
