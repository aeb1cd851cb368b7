"""XLA's foreign function interface: its C API, declared here, and the handler that launches steps.

The declarations are those of xla/ffi/api/c_api.h, which jaxlib ships; a test compares their
layouts. One handler serves all steps: an attribute of the call says which (`step`, a number of
`register`).
"""

from __future__ import annotations

import ctypes as C
import threading
from typing import Any, NamedTuple

from .._api import Tensor
from .._arrays import Row, tensors_of
from .._bound import Bound
from .._context import Context, context_of
from .._signature import Parameter
from .._step import Step

METADATA = 1  # XLA_FFI_Extension_Metadata
EXECUTE = 3  # XLA_FFI_ExecutionStage_EXECUTE
INTERNAL = 13  # XLA_FFI_Error_Code_INTERNAL


class Extension(C.Structure):
    pass


Extension._fields_ = [
    ("struct_size", C.c_size_t),
    ("type", C.c_int),
    ("next", C.POINTER(Extension)),
]


class ApiVersion(C.Structure):
    _fields_ = [
        ("struct_size", C.c_size_t),
        ("extension_start", C.POINTER(Extension)),
        ("major_version", C.c_int),
        ("minor_version", C.c_int),
    ]


class ErrorCreateArgs(C.Structure):
    _fields_ = [
        ("struct_size", C.c_size_t),
        ("extension_start", C.POINTER(Extension)),
        ("message", C.c_char_p),
        ("errc", C.c_int),
    ]


ErrorCreate = C.CFUNCTYPE(C.c_void_p, C.POINTER(ErrorCreateArgs))


class Api(C.Structure):  # as far as it is used
    _fields_ = [
        ("struct_size", C.c_size_t),
        ("extension_start", C.POINTER(Extension)),
        ("api_version", ApiVersion),
        ("internal_api", C.c_void_p),
        ("XLA_FFI_Error_Create", ErrorCreate),
    ]


class Buffer(C.Structure):
    _fields_ = [
        ("struct_size", C.c_size_t),
        ("extension_start", C.POINTER(Extension)),
        ("dtype", C.c_int),
        ("data", C.c_void_p),
        ("rank", C.c_int64),
        ("dims", C.POINTER(C.c_int64)),
    ]


class ByteSpan(C.Structure):
    _fields_ = [("ptr", C.c_char_p), ("len", C.c_size_t)]


class Scalar(C.Structure):
    _fields_ = [("dtype", C.c_int), ("value", C.c_void_p)]


class Args(C.Structure):
    _fields_ = [
        ("struct_size", C.c_size_t),
        ("extension_start", C.POINTER(Extension)),
        ("size", C.c_int64),
        ("types", C.POINTER(C.c_int)),
        ("args", C.c_void_p),
    ]


class Rets(C.Structure):
    _fields_ = [
        ("struct_size", C.c_size_t),
        ("extension_start", C.POINTER(Extension)),
        ("size", C.c_int64),
        ("types", C.POINTER(C.c_int)),
        ("rets", C.c_void_p),
    ]


class Attrs(C.Structure):
    _fields_ = [
        ("struct_size", C.c_size_t),
        ("extension_start", C.POINTER(Extension)),
        ("size", C.c_int64),
        ("types", C.POINTER(C.c_int)),
        ("names", C.POINTER(C.POINTER(ByteSpan))),
        ("attrs", C.POINTER(C.POINTER(Scalar))),
    ]


class CallFrame(C.Structure):
    _fields_ = [
        ("struct_size", C.c_size_t),
        ("extension_start", C.POINTER(Extension)),
        ("api", C.POINTER(Api)),
        ("ctx", C.c_void_p),
        ("stage", C.c_int),
        ("args", Args),
        ("rets", Rets),
        ("attrs", Attrs),
        ("future", C.c_void_p),
    ]


class Metadata(C.Structure):
    _fields_ = [
        ("struct_size", C.c_size_t),
        ("api_version", ApiVersion),
        ("traits", C.c_uint32),
        ("state_type_id", C.c_int64),
    ]


class MetadataExtension(C.Structure):
    _fields_ = [("extension_base", Extension), ("metadata", C.POINTER(Metadata))]


class Place(NamedTuple):
    """Where a parameter's arrays are in a call: how many (None: no list), results or arguments.
    `wide`: 64-bit integers that JAX, without x64, holds as pairs of 32 bits."""

    parameter: Parameter
    arrays: int | None
    result: bool
    argument: bool
    wide: bool


class Call(NamedTuple):
    step: Step
    places: tuple[Place, ...]
    left_out: tuple[Parameter, ...]
    numbers: tuple[tuple[str, float], ...]  # values that are part of the program
    shapes: tuple[tuple[int, ...], ...]  # of all arrays, place by place


class Launcher:
    """A call's own ls_step, whose tensors get the addresses of every execution."""

    def __init__(self, call: Call, context: Context) -> None:
        self.call, self.bound = call, Bound(call.step.source, context)
        arguments = results = 0
        shapes = iter(call.shapes)
        self.lists: list[tuple[Place, Any, slice, bool]] = []
        for parameter in call.left_out:
            self.bound.bind(parameter, None)
        for name, value in call.numbers:
            self.bound.set(call.step.signature.by_name[name], value)
        for place in call.places:
            count = 1 if place.arrays is None else place.arrays
            rows: list[Row] = [(0, place.parameter.type, next(shapes), None) for _ in range(count)]
            at = results if place.result else arguments  # of an inout both are the same memory
            self.lists.append((place, tensors_of(rows), slice(at, at + count), place.result))
            arguments += count if place.argument else 0
            results += count if place.result else 0
        self.last: list[list[int]] = [[-1]] * len(self.lists)

    def launch(self, arguments: list[int], results: list[int]) -> None:
        bound, words = self.bound, C.sizeof(Tensor) // 8  # the first of each is its address
        for i, (place, tensors, part, is_result) in enumerate(self.lists):
            addresses = (results if is_result else arguments)[part]
            if addresses == self.last[i]:
                continue
            memory: Any = (C.c_uint64 * (words * len(tensors))).from_buffer(tensors)
            memory[: words * len(addresses) : words] = addresses
            key, api = place.parameter.key, bound.api
            if place.arrays is None:
                status = api.ls_step_bind(bound.pointer, key, tensors)
            else:
                status = api.ls_step_bind_list(bound.pointer, key, tensors, len(addresses))
            bound.context.check(status)
            self.last[i] = addresses
        bound.launch()


_calls: list[Call] = []
_launchers: dict[Any, Launcher] = {}
_numbers: dict[Any, int] = {}
_lock = threading.Lock()


def number_of(call: Call) -> int:
    """What says in a compiled program which step it calls, and how."""
    key = id(call.step), *call[1:]
    with _lock:
        if key not in _numbers:
            _numbers[key] = len(_calls)
            _calls.append(call)
        return _numbers[key]


def _addresses(count: int, buffers: int) -> list[int]:
    """Where the data of `count` buffers lie. XLA has the buffers at equal distances: one read."""
    if count == 0:
        return []
    places = (C.c_uint64 * count).from_address(buffers)[:]
    at, apart = Buffer.data.offset, places[1] - places[0] if count > 1 else 8
    if apart > 0 and apart % 8 == 0 and places == [places[0] + i * apart for i in range(count)]:
        words = (apart // 8) * (count - 1) + 1
        return (C.c_uint64 * words).from_address(places[0] + at)[:: apart // 8]
    return [C.c_uint64.from_address(place + at).value for place in places]


def _execute(frame: Any) -> None:
    number = None
    for i in range(frame.attrs.size):
        span = frame.attrs.names[i].contents
        if C.string_at(span.ptr, span.len) == b"step":
            number = C.c_int64.from_address(frame.attrs.attrs[i].contents.value).value
    with context_of() as context:
        launcher = _launchers.get((number, context))
        if launcher is None:
            launcher = _launchers[number, context] = Launcher(_calls[number], context)  # type: ignore[index]
        launcher.launch(
            _addresses(frame.args.size, frame.args.args),
            _addresses(frame.rets.size, frame.rets.rets),
        )


def _handle(pointer: Any) -> int | None:
    frame = pointer.contents
    extension = frame.extension_start
    if extension and extension.contents.type == METADATA:
        metadata = C.cast(extension, C.POINTER(MetadataExtension)).contents.metadata.contents
        version = frame.api.contents.api_version if frame.api else None
        metadata.api_version.major_version = version.major_version if version else 0
        metadata.api_version.minor_version = version.minor_version if version else 1
        return None
    if frame.stage != EXECUTE:
        return None
    try:
        _execute(frame)
    except BaseException as error:  # back through XLA
        text = f"{type(error).__name__}: {error}".encode()
        arguments = ErrorCreateArgs(
            struct_size=C.sizeof(ErrorCreateArgs), message=text, errc=INTERNAL
        )
        made: int | None = frame.api.contents.XLA_FFI_Error_Create(C.byref(arguments))
        return made
    return None


HANDLER = C.CFUNCTYPE(C.c_void_p, C.POINTER(CallFrame))(_handle)
