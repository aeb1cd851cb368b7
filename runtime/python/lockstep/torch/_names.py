"""PyTorch's names for what optimizer steps have, and its ranges."""

from __future__ import annotations

import inspect
import math
from typing import Any

import torch

# A step's own names for what PyTorch's optimizers keep, by the keys of their state.
STATE_NAMES = {
    "step": "count",
    "exp_avg": "m",
    "exp_avg_sq": "v",
    "max_exp_avg_sq": "v_max",
    "exp_inf": "u",
    "momentum_buffer": "m",
    "square_avg": "v",
    "grad_avg": "average",
    "sum": "total",
    "acc_delta": "moved",
    "mu_product": "mu_product",
    "ax": "average",
    "prev": "g_last",
    "step_size": "size",
    "row_var": "row",
    "col_var": "col",
    "variance": "v",
}
GROUP_NAMES = {
    "decay": "weight_decay",
    "decoupled": "decoupled_weight_decay",
}  # and beta1, beta2: "betas"
HINTS = ("foreach", "fused")  # how PyTorch is to do it
ADAM = {"count": "step", "m": "exp_avg", "v": "exp_avg_sq", "v_max": "max_exp_avg_sq"}
RMSPROP = {"v": "square_avg", "m": "momentum_buffer", "average": "grad_avg"}
# The optimizer of PyTorch that a step of std/optim is, its names for the state, and what its groups
# say.
TORCH: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    "adam": ("Adam", ADAM, {}),
    "amsgrad": ("Adam", ADAM, {"amsgrad": True}),
    "adamw": ("AdamW", ADAM, {}),
    "adamw_amsgrad": ("AdamW", ADAM, {"amsgrad": True}),
    "adamw_bf16": ("AdamW", ADAM, {}),
    "sgd": ("SGD", {}, {}),
    "sgd_momentum": ("SGD", {"m": "momentum_buffer"}, {}),
    "adamax": ("Adamax", {"count": "step", "m": "exp_avg", "u": "exp_inf"}, {}),
    "nadam": ("NAdam", {**ADAM, "mu_product": "mu_product"}, {}),
    "radam": ("RAdam", ADAM, {}),
    "adadelta": ("Adadelta", {"v": "square_avg", "moved": "acc_delta"}, {}),
    "adagrad": ("Adagrad", {"count": "step", "total": "sum"}, {}),
    "rmsprop": ("RMSprop", RMSPROP, {}),
    "rmsprop_momentum": ("RMSprop", RMSPROP, {}),
    "rmsprop_centered": ("RMSprop", RMSPROP, {"centered": True}),
    "asgd": ("ASGD", {"count": "step", "average": "ax"}, {}),
    "rprop": ("Rprop", {"count": "step", "g_last": "prev", "size": "step_size"}, {}),
    "adafactor": ("Adafactor", {"count": "step", "row": "row_var", "col": "col_var"}, {}),
    "adafactor_vector": ("Adafactor", {"count": "step", "v": "variance"}, {}),
}
# What PyTorch has as one tuple in its groups, and a step as several numbers.
PACKED = {
    "Adafactor": {"eps": ("eps1", "eps2")},
    "Rprop": {"etas": ("shrink", "grow"), "step_sizes": ("least", "most")},
}
STEPLESS = (
    "SGD",
)  # the others count in their state, whether a step of ours needs the number or not
# What PyTorch refuses, in its words: the least value, the most, and what it says.
RANGES = {
    "lr": (0, math.inf, "Invalid learning rate: {}"),
    "eps": (0, math.inf, "Invalid epsilon value: {}"),
    "weight_decay": (0, math.inf, "Invalid weight_decay value: {}"),
    "momentum": (0, math.inf, "Invalid momentum value: {}"),
    "rho": (0, 1, "Invalid rho value: {}"),
    "alpha": (0, math.inf, "Invalid alpha value: {}"),
    "lambd": (0, math.inf, "Invalid lambd value: {}"),
    "lr_decay": (0, math.inf, "Invalid lr_decay value: {}"),
    "momentum_decay": (0, math.inf, "Invalid momentum_decay value: {}"),
}
# Of SGD without momentum: what it takes and does not look at, and what it must be (None: anything).
IGNORED = {"sgd": {"momentum": 0, "nesterov": False, "dampening": None}}


def check_ranges(group: dict[str, Any]) -> None:
    """Raises what torch.optim raises for hyperparameters out of their range."""
    for key, (least, most, text) in RANGES.items():
        value = group.get(key)
        if (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and not least <= value <= most
        ):
            raise ValueError(text.format(value))
    for at, beta in enumerate(group.get("betas", ())):
        if isinstance(beta, (int, float)) and not 0 <= beta < 1:
            raise ValueError(f"Invalid beta parameter at index {at}: {beta}")
    if group.get("nesterov") and (group.get("momentum", 1) == 0 or group.get("dampening", 0) != 0):
        raise ValueError("Nesterov momentum requires a momentum and zero dampening")


def torch_defaults(name: str) -> dict[str, Any]:
    """What the groups of an optimizer of PyTorch's have, at its defaults."""
    rows = inspect.signature(getattr(torch.optim, name).__init__).parameters.values()
    return {row.name: row.default for row in rows if row.default is not inspect.Parameter.empty}


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether its elements fill one piece of memory, in whatever order."""
    if tensor.is_contiguous():
        return True
    expected = 1
    for stride, size in sorted((s, n) for s, n in zip(tensor.stride(), tensor.shape) if n > 1):
        if stride != expected:
            return False
        expected *= size
    return True
