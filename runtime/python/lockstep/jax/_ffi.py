"""XLA's foreign function interface: its C API, declared here, and the handler that launches steps.

The declarations are those of xla/ffi/api/c_api.h, which jaxlib ships; a test compares their
layouts. One handler serves all steps: an attribute of the call says which (`step`, a number of
`register`).
"""

from __future__ import annotations

import ctypes as C
import threading
from typing import Any, NamedTuple

from .._arrays import Row
from .._bound import Bound
from .._context import context_of
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
        ("args", C.POINTER(C.POINTER(Buffer))),
    ]


class Rets(C.Structure):
    _fields_ = [
        ("struct_size", C.c_size_t),
        ("extension_start", C.POINTER(Extension)),
        ("size", C.c_int64),
        ("types", C.POINTER(C.c_int)),
        ("rets", C.POINTER(C.POINTER(Buffer))),
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


_calls: list[Call] = []
_numbers: dict[Any, int] = {}
_lock = threading.Lock()


def number_of(call: Call) -> int:
    """What says in a compiled program which step it calls, and how."""
    key = id(call.step), call.places, call.left_out, call.numbers
    with _lock:
        if key not in _numbers:
            _numbers[key] = len(_calls)
            _calls.append(call)
        return _numbers[key]


def _row(buffer: Any, place: Place) -> Row:
    made = buffer.contents
    shape = tuple(made.dims[i] for i in range(made.rank))[: -1 if place.wide else None]
    strides, size = [], 1
    for length in reversed(shape):
        strides.append(size)
        size *= length
    return made.data, place.parameter.type, shape, tuple(reversed(strides))


def _execute(frame: Any) -> None:
    number = None
    for i in range(frame.attrs.size):
        span = frame.attrs.names[i].contents
        if C.string_at(span.ptr, span.len) == b"step":
            number = C.c_int64.from_address(frame.attrs.attrs[i].contents.value).value
    call = _calls[number]  # type: ignore[index]
    arguments, results = iter(range(frame.args.size)), iter(range(frame.rets.size))
    with context_of() as context:
        bound = call.step._bound.get(context)
        if bound is None:
            bound = call.step._bound[context] = Bound(call.step.source, context)
        for parameter in call.left_out:
            bound.bind(parameter, None)
        for name, value in call.numbers:
            bound.set(call.step.signature.by_name[name], value)
        for place in call.places:
            rows = []
            for _ in range(1 if place.arrays is None else place.arrays):
                if place.argument:
                    buffer = frame.args.args[next(arguments)]
                if place.result:  # of an inout the same memory
                    buffer = frame.rets.rets[next(results)]
                rows.append(_row(buffer, place))
            bound.bind(place.parameter, rows[0] if place.arrays is None else rows)
        bound.launch()


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
