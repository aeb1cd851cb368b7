"""PyTorch's tensors as steps meet them, and its streams."""

from __future__ import annotations

import operator
from typing import Any, Sequence

import torch

from .._api import TYPES, LockstepError
from .._arrays import Arrays, Row
from .._context import Context, Streams, context_of, streams

DTYPES = (
    torch.float64,
    torch.float32,
    torch.int64,
    torch.int32,
    torch.uint64,
    torch.uint32,
    torch.bool,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.int16,
    torch.int8,
    torch.uint16,
    torch.uint8,
)
NUMBERS = {dtype: number for number, dtype in enumerate(DTYPES)}
# With map() the least that Python does for each of many tensors.
GRADIENT, DTYPE = operator.attrgetter("grad"), operator.attrgetter("dtype")
ADDRESS, IS_CONTIGUOUS, IS_NEGATED = (
    torch.Tensor.data_ptr,
    torch.Tensor.is_contiguous,
    torch.Tensor.is_neg,
)


def is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


class TorchStreams(Streams):
    def current(self, index: int) -> Any:
        return torch.cuda.current_stream(index)

    def capturing(self) -> bool:
        return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


streams[0] = TorchStreams()


class Tensors(Arrays):
    """Tensors of any device; what has the buffer protocol or DLPack may stand for one on the
    CPU."""

    def owns(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor)

    def device(self, value: Any) -> torch.device:
        return value.device

    def context(self, device: Any) -> Context:
        if device is None or device.type == "cpu":
            return context_of()
        if device.type != "cuda":
            raise LockstepError(
                f"Lockstep runs on cpu, cuda and hip devices, and a tensor is on {device}"
            )
        return context_of("hip" if torch.version.hip else "cuda", device.index)

    def describe(
        self, value: Any, name: str = "an array", wanted: int | None = None, written: bool = False
    ) -> Row:
        if not isinstance(value, torch.Tensor):
            return super().describe(value, name, wanted, written)
        if value.layout is not torch.strided or value.dtype not in NUMBERS or value.is_neg():
            kind = (
                "negated numbers, a view"
                if value.dtype in NUMBERS and value.layout is torch.strided
                else value.dtype
                if value.layout is torch.strided
                else value.layout
            )
            raise LockstepError(
                f"{name} is a tensor of {kind}, which Lockstep has no type for: it takes "
                f"dense tensors of {', '.join(TYPES)}"
            )
        return value.data_ptr(), NUMBERS[value.dtype], tuple(value.shape), value.stride()

    def empty(self, type: int, shape: tuple[int, ...], device: Any) -> torch.Tensor:
        return torch.empty(shape, dtype=DTYPES[type], device=device)

    def cell(self, type: int, value: Any, device: Any) -> torch.Tensor:
        return torch.full((), value, dtype=DTYPES[type], device=device)

    def host_number(self, value: Any, device: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.device != (device or value.device):
            return value.item()
        return None

    def differentiated(self, step: Any, given: dict[str, Any]) -> Any:
        if not torch.is_grad_enabled():
            return None
        for value in given.values():
            if (
                value.requires_grad
                if isinstance(value, torch.Tensor)
                else isinstance(value, list)
                and any(getattr(v, "requires_grad", False) for v in value)
            ):
                from ._autograd import differentiated

                return differentiated(step, given)
        return None

    def written(self, values: Sequence[Any]) -> None:
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        if tensors:
            torch.autograd.graph.increment_version(tensors)


TENSORS = Tensors()


def local(tensor: Any) -> torch.Tensor:
    """What of a tensor lies here: of a DTensor its shard."""
    here: torch.Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return here


def whole_of(tensor: Any) -> torch.Tensor:
    """The tensor, of a DTensor gathered from all processes, contiguous; itself, where it is."""
    full: torch.Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return full.contiguous()


def store_whole(to: Any, whole: torch.Tensor) -> None:
    """Brings a whole tensor that was worked on, maybe in a copy, back to where it lies; of a
    DTensor the shard."""
    if hasattr(to, "full_tensor"):
        from torch.distributed.tensor import DTensor, Replicate

        every = [Replicate()] * to.device_mesh.ndim
        spread = DTensor.from_local(whole, to.device_mesh, every, run_check=False)
        whole = spread.redistribute(placements=to.placements).to_local()  # here, without a message
    here = local(to)
    if here.data_ptr() != whole.data_ptr():
        here.copy_(whole)


def describe(value: Any) -> Row:
    return TENSORS.describe(value)
