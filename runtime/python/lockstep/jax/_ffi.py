"""XLA's foreign function interface: its C API, declared here, and the handler that launches steps.

The declarations are those of xla/ffi/api/c_api.h, which jaxlib ships; a test compares their
layouts. One handler for each platform serves all steps: an attribute of the call says which
(`step`, a number of `number_of`).
"""

from __future__ import annotations

import ctypes as C
import functools
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


class StreamGetArgs(C.Structure):
    _fields_ = [
        ("struct_size", C.c_size_t),
        ("extension_start", C.POINTER(Extension)),
        ("ctx", C.c_void_p),
        ("stream", C.c_void_p),
    ]


class DeviceOrdinalGetArgs(C.Structure):
    _fields_ = [
        ("struct_size", C.c_size_t),
        ("extension_start", C.POINTER(Extension)),
        ("ctx", C.c_void_p),
        ("device_ordinal", C.c_int32),
    ]


ErrorCreate = C.CFUNCTYPE(C.c_void_p, C.POINTER(ErrorCreateArgs))
StreamGet = C.CFUNCTYPE(C.c_void_p, C.POINTER(StreamGetArgs))
DeviceOrdinalGet = C.CFUNCTYPE(C.c_void_p, C.POINTER(DeviceOrdinalGetArgs))
UNUSED = (
    "XLA_FFI_Type_Register",
    "XLA_FFI_ExecutionContext_Get",
    "XLA_FFI_State_Set",
    "XLA_FFI_State_Get",
    "XLA_FFI_DeviceMemory_Allocate",
    "XLA_FFI_DeviceMemory_Free",
    "XLA_FFI_ThreadPool_Schedule",
    "XLA_FFI_ThreadPool_NumThreads",
    "XLA_FFI_Future_Create",
    "XLA_FFI_Future_SetAvailable",
    "XLA_FFI_Future_SetError",
    "XLA_FFI_RunId_Get",
)


class Api(C.Structure):
    _fields_ = [
        ("struct_size", C.c_size_t),
        ("extension_start", C.POINTER(Extension)),
        ("api_version", ApiVersion),
        ("internal_api", C.c_void_p),
        ("XLA_FFI_Error_Create", ErrorCreate),
        ("XLA_FFI_Error_GetMessage", C.c_void_p),
        ("XLA_FFI_Error_Destroy", C.c_void_p),
        ("XLA_FFI_Handler_Register", C.c_void_p),
        ("XLA_FFI_Stream_Get", StreamGet),
        *((name, C.c_void_p) for name in UNUSED),
        ("XLA_FFI_DeviceOrdinal_Get", DeviceOrdinalGet),  # not there in an older XLA
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


class XlaError(Exception):
    """An XLA_FFI_Error that a call into XLA gave, which goes back to it."""


def _asked(function: Any, arguments: Any) -> Any:
    """What a function of XLA's fills in."""
    arguments.struct_size = C.sizeof(arguments)
    error = function(C.byref(arguments))
    if error:
        raise XlaError(error)
    return arguments


class StreamContext(Context):
    """A context on one of XLA's streams, whatever stream another framework is on."""

    def __init__(self, kind: str, index: int, stream: int | None) -> None:
        super().__init__(kind, index)
        with self:
            self.check(self.api.ls_context_use_stream(self.pointer, stream or self.default_stream))

    def follow(self, stream: Any) -> None:
        pass


_streams: dict[Any, StreamContext] = {}


def _context_on(kind: str, frame: Any) -> Context:
    """That of the device and stream of a call; of every stream a context of its own, whose launches
    come one after the other."""
    if kind == "cpu":
        return context_of()
    api = frame.api.contents
    stream = _asked(api.XLA_FFI_Stream_Get, StreamGetArgs(ctx=frame.ctx)).stream
    has_ordinals = api.struct_size >= Api.XLA_FFI_DeviceOrdinal_Get.offset + C.sizeof(C.c_void_p)
    index = 0
    if has_ordinals and api.XLA_FFI_DeviceOrdinal_Get:
        arguments = DeviceOrdinalGetArgs(ctx=frame.ctx)
        index = _asked(api.XLA_FFI_DeviceOrdinal_Get, arguments).device_ordinal
    key = kind, index, stream
    with _lock:
        if key not in _streams:
            _streams[key] = StreamContext(*key)
        return _streams[key]


def _execute(kind: str, frame: Any) -> None:
    number = None
    for i in range(frame.attrs.size):
        span = frame.attrs.names[i].contents
        if C.string_at(span.ptr, span.len) == b"step":
            number = C.c_int64.from_address(frame.attrs.attrs[i].contents.value).value
    with _context_on(kind, frame) as context:
        launcher = _launchers.get((number, context))
        if launcher is None:
            call = _calls[number]  # type: ignore[index]
            launcher = _launchers[number, context] = Launcher(call, context)
        launcher.launch(
            _addresses(frame.args.size, frame.args.args),
            _addresses(frame.rets.size, frame.rets.rets),
        )


def _handle(kind: str, pointer: Any) -> int | None:
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
        _execute(kind, frame)
    except XlaError as error:
        own: int = error.args[0]
        return own
    except BaseException as error:  # back through XLA
        text = f"{type(error).__name__}: {error}".encode()
        arguments = ErrorCreateArgs(
            struct_size=C.sizeof(ErrorCreateArgs), message=text, errc=INTERNAL
        )
        made: int | None = frame.api.contents.XLA_FFI_Error_Create(C.byref(arguments))
        return made
    return None


_Handler = C.CFUNCTYPE(C.c_void_p, C.POINTER(CallFrame))
HANDLERS = {  # by XLA's platform
    platform: _Handler(functools.partial(_handle, kind))
    for platform, kind in (("cpu", "cpu"), ("CUDA", "cuda"), ("ROCM", "hip"))
}
