"""Arrays as steps meet them: NumPy's, whatever has the buffer protocol, and DLPack's of the CPU.

Nothing is copied: a step is given each array's address, shape and strides. `Arrays` is what a
framework has to say of its own; lockstep.torch has another of these.
"""

from __future__ import annotations

import ctypes as C
import math
from typing import Any, Sequence, Union

from ._api import BYTES, FORMATS, TYPES, LockstepError, Tensor
from ._context import Context, context_of

try:
    import numpy
except ImportError:  # results are memoryviews then
    numpy = None  # type: ignore[assignment]

# (address, type, shape, strides in elements or None for contiguous)
Row = tuple[Union[int, None], int, tuple[int, ...], Union[tuple[int, ...], None]]

BUFFER_FORMATS = {
    "d": 0,
    "f": 1,
    "q": 2,
    "l": 2,
    "i": 3,
    "Q": 4,
    "L": 4,
    "I": 5,
    "?": 6,
    "e": 7,
    "h": 11,
    "b": 12,
    "H": 13,
    "B": 14,
}
NAMES = {"bfloat16": 8, "float8_e4m3fn": 9, "float8_e5m2": 10}  # of ml_dtypes, in NumPy's arrays
# DLPack's type codes and bits: int, uint, float, bfloat, bool, and the narrow floats of version 1.1
DLPACK = {
    (2, 64): 0,
    (2, 32): 1,
    (0, 64): 2,
    (0, 32): 3,
    (1, 64): 4,
    (1, 32): 5,
    (6, 8): 6,
    (2, 16): 7,
    (4, 16): 8,
    (10, 8): 9,
    (12, 8): 10,
    (0, 16): 11,
    (0, 8): 12,
    (1, 16): 13,
    (1, 8): 14,
}
NUMPY_TYPES = (
    "f8",
    "f4",
    "i8",
    "i4",
    "u8",
    "u4",
    "?",
    "f2",
    "u2",
    "u1",
    "u1",
    "i2",
    "i1",
    "u2",
    "u1",
)


class _DLTensor(C.Structure):
    _fields_ = [
        ("data", C.c_void_p),
        ("device", C.c_int),
        ("device_id", C.c_int),
        ("ndim", C.c_int),
        ("code", C.c_uint8),
        ("bits", C.c_uint8),
        ("lanes", C.c_uint16),
        ("shape", C.POINTER(C.c_int64)),
        ("strides", C.POINTER(C.c_int64)),
        ("byte_offset", C.c_uint64),
    ]


class _DLVersioned(C.Structure):  # of version 1
    _fields_ = [
        ("major", C.c_uint32),
        ("minor", C.c_uint32),
        ("context", C.c_void_p),
        ("deleter", C.c_void_p),
        ("flags", C.c_uint64),
        ("tensor", _DLTensor),
    ]


_capsule_pointer = C.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = C.c_void_p, [C.py_object, C.c_char_p]
_capsule_valid = C.pythonapi.PyCapsule_IsValid
_capsule_valid.restype, _capsule_valid.argtypes = C.c_int, [C.py_object, C.c_char_p]


class Arrays:
    """The arrays of one framework. This one is of NumPy, buffers and DLPack; all on the CPU."""

    def owns(self, value: Any) -> bool:
        """Whether it is an array for sure: a number, a list of arrays or a buffer need not be."""
        return hasattr(value, "__dlpack__") or hasattr(value, "__array_interface__")

    def device(self, value: Any) -> Any:
        """Where an array is, or None for the CPU."""
        return None

    def context(self, device: Any) -> Context:
        return context_of()

    def describe(
        self, value: Any, name: str = "an array", wanted: int | None = None, written: bool = False
    ) -> Row:
        """Narrow floats may come as their bits, in integers, where the type wanted is one."""
        try:
            view = memoryview(value)
        except (
            TypeError,
            ValueError,
            BufferError,
        ):  # none, or one of a type that it has no letter for
            return self._numpy(value, name, written) or self._dlpack(value, name, written)
        if view.readonly and not hasattr(value, "__array_interface__"):
            if hasattr(value, "__dlpack__"):
                return self._dlpack(value, name, written)
            value = numpy.asarray(view) if numpy is not None else value
        number = BUFFER_FORMATS.get((view.format or "B").lstrip("@=<"))
        if number is None or view.itemsize != BYTES[number]:
            raise LockstepError(
                f"{name} has elements of format {view.format!r}, which no type of Lockstep's is"
            )
        if view.readonly and written:
            raise LockstepError(f"{name} is written, and the array is read-only")
        if (
            wanted is not None
            and TYPES[wanted] in ("bf16", "e4m3", "e5m2")
            and TYPES[number] == ("u16" if BYTES[wanted] == 2 else "u8")
        ):
            number = wanted
        interface = getattr(value, "__array_interface__", None)
        address: int | None
        if interface:
            address = interface["data"][0]
        elif not view.nbytes:
            address = None
        elif view.readonly:
            raise LockstepError(f"{name} is a read-only buffer, which takes NumPy")
        else:
            address = C.addressof((C.c_char * view.nbytes).from_buffer(value))
        shape, strides = view.shape or (), view.strides or ()
        return address, number, tuple(shape), tuple(s // view.itemsize for s in strides)

    def _numpy(self, value: Any, name: str, written: bool) -> Row | None:
        number = NAMES.get(getattr(getattr(value, "dtype", None), "name", ""))
        interface = getattr(value, "__array_interface__", None)
        if number is None or interface is None:
            return None
        address, readonly = interface["data"]
        if readonly and written:
            raise LockstepError(f"{name} is written, and the array is read-only")
        size = BYTES[number]
        return address, number, tuple(value.shape), tuple(s // size for s in value.strides)

    def _dlpack(self, value: Any, name: str, written: bool) -> Row:
        export = getattr(value, "__dlpack__", None)
        if export is None:
            raise LockstepError(f"{name} is a {type(value).__name__}, not a tensor or a buffer")
        try:
            capsule = export(max_version=(1, 1))
        except TypeError:
            capsule = export()
        if _capsule_valid(capsule, b"dltensor_versioned"):
            versioned = _DLVersioned.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
            readonly, made = versioned.flags & 1, versioned.tensor
        else:
            readonly, made = 0, _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
        # The capsule goes at once: `value`, which the caller has, holds the memory.
        number = DLPACK.get((made.code, made.bits))
        if made.device != 1:
            raise LockstepError(
                f"{name} is on device {made.device}:{made.device_id} of DLPack's: outside of "
                "PyTorch (lockstep.torch) and JAX (lockstep.jax) steps take arrays of the CPU"
            )
        if number is None or made.lanes != 1:
            raise LockstepError(
                f"{name} has elements of DLPack's type {made.code} with {made.bits} bits, "
                "which no type of Lockstep's is"
            )
        if readonly and written:
            raise LockstepError(f"{name} is written, and the array is read-only")
        shape = tuple(made.shape[i] for i in range(made.ndim))
        strides = (
            tuple(made.strides[i] for i in range(made.ndim))
            if made.strides
            else tuple(math.prod(shape[i + 1 :]) for i in range(made.ndim))
        )
        return (made.data or 0) + made.byte_offset, number, shape, strides

    def empty(self, type: int, shape: tuple[int, ...], device: Any) -> Any:
        if numpy is not None:
            return numpy.empty(shape, NUMPY_TYPES[type])
        letter, data = FORMATS[TYPES[type]], memoryview(bytearray(BYTES[type] * math.prod(shape)))
        if 0 in shape:  # memoryview cannot say more of it
            return data.cast("B").cast(letter)
        return data.cast(letter, shape) if shape else data.cast(letter, ())

    def cell(self, type: int, value: Any, device: Any) -> Any:
        """A rank-0 array of the value."""
        made = self.empty(type, (), device)
        made[()] = value
        return made

    def host_number(self, value: Any, device: Any) -> Any:
        """A rank-0 value that lies elsewhere than the arrays, as a number; None: it is an array."""
        return None

    def differentiated(self, step: Any, given: dict[str, Any]) -> Any:
        """The results of a call of which gradients are wanted; None: of this one none are."""
        return None

    def written(self, values: Sequence[Any]) -> None:
        """Told which arrays a launch has written."""


BUFFERS = Arrays()


def tensors_of(rows: Sequence[Row]) -> Any:
    """The ls_tensors of rows as `describe` gives them, which keep what they need."""
    numbers = [n for _, _, shape, strides in rows for n in (*shape, *(strides or ()))]
    memory = (C.c_int64 * max(len(numbers), 1))(*numbers)
    made: Any = (Tensor * max(len(rows), 1))()
    at, pointer = C.addressof(memory), C.POINTER(C.c_int64)
    for tensor, (data, number, shape, strides) in zip(made, rows):
        tensor.data, tensor.type, tensor.rank = data, number, len(shape)
        tensor.shape, at = C.cast(at, pointer), at + 8 * len(shape)
        if strides is not None:
            tensor.strides, at = C.cast(at, pointer), at + 8 * len(strides)
    made.memory = memory
    return made
