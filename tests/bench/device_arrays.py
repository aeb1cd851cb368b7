"""The arrays of a row on a device: PyTorch's where it sees the device, so that peers can take them; else memory of
Lockstep's own. And samples of results, to compare who computed what."""
import array
import ctypes as C
import math
import random

from arrays import Memory, listed
from cases import BYTES

SAMPLES = 1 << 16  # of each result
TILE = 1 << 20     # values that are made on the host and repeated over an array, where there is no PyTorch


def import_torch(device):
    """PyTorch, or None and why."""
    try:
        import torch
    except Exception as error:  # an import may fail in any way
        return None, f"{type(error).__name__}: {error}".splitlines()[0]
    if device != "cpu" and not torch.cuda.is_available():
        return None, "PyTorch sees no device"
    return torch, ""


class TorchArrays:
    """Arrays as tensors of PyTorch."""

    def __init__(self, torch, device):
        self.torch, self.place = torch, "cpu" if device == "cpu" else "cuda"
        self.kinds = {"f32": torch.float32, "bf16": torch.bfloat16, "i64": torch.int64}

    def make(self, case):
        """parameter -> tensor, or a list of them for a list of tensors."""
        made = {}
        for name, of in case.arrays.items():
            tensors = [self.torch.empty(shape, device=self.place, dtype=self.kinds[of.dtype]) for shape in of.shapes]
            made[name] = tensors if of.listed else tensors[0]
        return made

    def fill(self, case, made, everything):
        """Sets values, the same each time; not `everything`: those of arrays that a launch changes."""
        generator = self.torch.Generator(self.place)
        for seed, (name, of) in enumerate(case.arrays.items()):
            if of.fill == "out" or not (everything or of.changed):
                continue
            generator.manual_seed(77 + seed)
            for tensor in listed(made[name]):
                if isinstance(of.fill, tuple):
                    tensor.random_(0, of.fill[1], generator=generator)
                    continue
                values = tensor if of.dtype == "f32" else self.torch.empty_like(tensor, dtype=self.torch.float32)
                values.normal_(generator=generator)
                if of.fill == "positive":
                    values.square_().mul_(1e-4)
                elif of.fill == "small":
                    values.mul_(0.01)
                elif of.fill == "zeros":
                    values.zero_()
                if values is not tensor:
                    tensor.copy_(values)

    def memory(self, case, made):
        """The same, as the C API takes it."""
        def one(name, tensor):
            return Memory(tensor.data_ptr(), case.arrays[name].dtype, tuple(tensor.shape), tensor.numel())
        return {name: [one(name, t) for t in value] if isinstance(value, list) else one(name, value)
                for name, value in made.items()}

    def sample(self, value):
        """Doubles of a result, on the host: of a tensor, a list of them, another library's array, or a number."""
        if isinstance(value, (bool, int, float)):
            return self.torch.tensor([float(value)], dtype=self.torch.float64)
        parts, found = listed(list(value) if isinstance(value, tuple) else value), []
        for part in parts:
            if not isinstance(part, self.torch.Tensor):
                part = self.torch.from_dlpack(part)
            flat = part.detach().reshape(-1)
            step = max(1, flat.numel() * len(parts) // SAMPLES)
            found.append(flat[::step].double().cpu())
        return self.torch.cat(found)

    def distance(self, found, expected):
        """0 for equal, about the relative error else: of an element and the root mean square of its array."""
        torch = self.torch
        if found.shape != expected.shape:
            return math.inf
        finite = expected.isfinite()
        if not bool((finite == found.isfinite()).all()):
            return math.inf
        expected, found = expected[finite], found[finite]
        if not expected.numel():
            return 0.0
        return float(((found - expected).abs() / (expected.abs() + expected.square().mean().sqrt() + 1e-300)).max())


class OwnArrays:
    """Memory of Lockstep's context, where nobody else is."""

    def __init__(self, context):
        self.context, self.held = context, []

    def make(self, case):
        self.release()
        made = {}
        for name, of in case.arrays.items():
            found = []
            for shape, count in zip(of.shapes, of.counts):
                at = C.c_void_p()
                self.context.check(self.context.library.ls_alloc(
                    self.context.handle, max(1, count * BYTES[of.dtype]), C.byref(at)))
                self.held.append(at)
                found.append(Memory(at.value, of.dtype, shape, count))
            made[name] = found if of.listed else found[0]
        return made

    def release(self):
        for at in self.held:
            self.context.library.ls_free(self.context.handle, at)
        self.held = []

    def tile(self, of, seed, count):
        draw = random.Random(seed)
        if isinstance(of.fill, tuple):
            return array.array("q", [draw.randrange(of.fill[1]) for _ in range(count)]).tobytes()
        scale = {"small": 0.01, "positive": 1e-4, "zeros": 0.0}.get(of.fill, 1.0)
        values = array.array("f", [scale * draw.uniform(0.0 if of.fill == "positive" else -1.7, 1.7)
                                   for _ in range(count)])
        if of.dtype == "f32":
            return values.tobytes()
        return array.array("H", array.array("H", values.tobytes())[1::2]).tobytes()  # bf16: the upper halves

    def fill(self, case, made, everything):
        for seed, (name, of) in enumerate(case.arrays.items()):
            if of.fill == "out" or not (everything or of.changed):
                continue
            tile = self.tile(of, seed, min(max(of.counts), TILE))
            for one in listed(made[name]):
                whole = one.count * BYTES[of.dtype]
                for at in range(0, whole, len(tile)):
                    self.context.check(self.context.library.ls_copy_in(
                        self.context.handle, one.address + at, tile, min(len(tile), whole - at)))

    def memory(self, case, made):
        return made
