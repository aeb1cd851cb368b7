"""The C API through ctypes: structures, functions, the library, and what its failures become.

The declarations are those of lockstep.h, image.h and compiler.h; a test compares their layouts. The
library is loaded when it is first needed: importing the package loads nothing.
"""

from __future__ import annotations

import ctypes as C
import ctypes.util
import glob
import importlib.util
import os
import shutil
import sys
import threading
from typing import Any, NoReturn

TYPES = (
    "f64",
    "f32",
    "i64",
    "i32",
    "u64",
    "u32",
    "bool",
    "f16",
    "bf16",
    "e4m3",
    "e5m2",
    "i16",
    "i8",
    "u16",
    "u8",
)
BYTES = (8, 4, 8, 4, 8, 4, 1, 2, 2, 1, 1, 2, 1, 2, 1)
FORMATS = dict(zip(TYPES, "dfqiQI?eHBBhbHB"))  # of struct and memoryview; bits where they have none
FLOATS = frozenset(n for n, name in enumerate(TYPES) if name[0] in "fbe" and name != "bool")
IMAGE_VERSION = 11
IN, INOUT, OUT = range(3)
TERMS = ("NUMBER", "AXIS", "ADD", "SUBTRACT", "MULTIPLY", "DIVIDE", "REMAINDER")
REPORTS = ("TEXT", "JSON", "DOT", "SCHEDULES")
OK, ERROR_ARGUMENT, ERROR_PROGRAM = range(3)


class Tensor(C.Structure):
    _fields_ = [
        ("data", C.c_void_p),
        ("type", C.c_int),
        ("rank", C.c_uint32),
        ("shape", C.POINTER(C.c_int64)),
        ("strides", C.POINTER(C.c_int64)),
    ]


class ImageTerm(C.Structure):
    _fields_ = [("operation", C.c_int), ("value", C.c_int64)]


class ImageAxis(C.Structure):
    _fields_ = [
        ("name", C.c_char_p),
        ("fixed", C.c_int64),
        ("parent", C.c_uint32),
        ("whole", C.c_uint32),
        ("length", C.c_int64),
        ("terms", C.POINTER(ImageTerm)),
        ("term_count", C.c_uint32),
    ]


class ImageParameter(C.Structure):
    _fields_ = [
        ("name", C.c_char_p),
        ("role", C.c_int),
        ("type", C.c_int),
        ("rank", C.c_uint32),
        ("axes", C.POINTER(C.c_uint8)),
        ("has_default", C.c_uint32),
        ("initial", C.c_uint64),
        ("line", C.c_uint32),
        ("optional", C.c_uint32),
    ]


class Image(C.Structure):
    _fields_ = [
        ("version", C.c_uint32),
        ("step", C.c_char_p),
        ("target", C.c_char_p),
        ("source_file", C.c_char_p),
        ("numeric_version", C.c_uint64),
        ("math", C.c_char_p),
        ("axis_count", C.c_uint32),
        ("axes", C.POINTER(ImageAxis)),
        ("parameter_count", C.c_uint32),
        ("parameters", C.POINTER(ImageParameter)),
        ("variant_count", C.c_uint32),
        ("variants", C.c_void_p),
        ("draws", C.c_uint32),
        ("line", C.c_uint32),
        ("tuning_count", C.c_uint32),
        ("tunings", C.c_void_p),
        ("part_count", C.c_uint32),
        ("loop_count", C.c_uint32),
        ("parts", C.c_void_p),
        ("loops", C.c_void_p),
    ]


class CompileOptions(C.Structure):
    _fields_ = [
        ("defines", C.POINTER(C.c_char_p)),
        ("define_count", C.c_size_t),
        ("math", C.c_int),
        ("dump", C.c_char_p),
        ("no_cache", C.c_int),
        ("no_tuning", C.c_int),
        ("all_forms", C.c_int),
        ("import_paths", C.POINTER(C.c_char_p)),
        ("import_path_count", C.c_size_t),
        ("sources", C.c_void_p),
        ("source_count", C.c_size_t),
        ("index", C.c_int),
    ]


class ExplainOptions(C.Structure):
    _fields_ = [
        ("report", C.c_int),
        ("sizes", C.POINTER(C.c_char_p)),
        ("size_count", C.c_size_t),
        ("targets", C.POINTER(C.c_char_p)),
        ("target_count", C.c_size_t),
        ("peak_gb_s", C.c_double),
        ("plan_only", C.c_int),
        ("processors", C.c_uint32),
        ("ranks", C.c_uint32),
        ("cut", C.c_char_p),
        ("between", C.c_int),
        ("slots", C.c_uint32),
        ("link_gbit_s", C.c_double),
        ("gather", C.POINTER(C.c_char_p)),
        ("gather_count", C.c_size_t),
    ]


class KernelsOptions(C.Structure):
    _fields_ = [
        ("level", C.c_char_p),
        ("path", C.c_char_p),
        ("steps", C.POINTER(C.c_size_t)),
        ("step_count", C.c_size_t),
        ("packed", C.c_int),
        ("contiguous", C.c_int),
        ("progress", C.c_void_p),
        ("user", C.c_void_p),
    ]


class GraphStatistics(C.Structure):
    _fields_ = [
        ("native", C.c_int),
        ("loops", C.c_int),
        ("launches", C.c_uint64),
        ("nodes", C.c_uint64),
        ("replays", C.c_uint64),
        ("updates", C.c_uint64),
        ("updated", C.c_uint64),
        ("reinstantiations", C.c_uint64),
    ]


class FeedArray(C.Structure):
    _fields_ = [
        ("name", C.c_char_p),
        ("type", C.c_int),
        ("rank", C.c_uint32),
        ("shape", C.POINTER(C.c_int64)),
    ]


class FeedStatistics(C.Structure):
    _fields_ = [
        ("samples", C.c_int64),
        ("batches", C.c_uint64),
        ("bytes", C.c_uint64),
        ("waits", C.c_uint64),
        ("waited_ms", C.c_double),
        ("slots", C.c_uint32),
        ("waiting", C.c_uint32),
        ("pinned", C.c_int),
        ("copies", C.c_uint64),
        ("device_waits", C.c_uint64),
        ("producer_waits", C.c_uint64),
        ("producer_waited_ms", C.c_double),
    ]


HANDLE, TEXT, SIZE, OUT_HANDLE = C.c_void_p, C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p)
OPTIONS = C.POINTER(CompileOptions)
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {  # name: (result, arguments)
    "ls_version": (TEXT, []),
    "ls_compile_file": (C.c_int, [TEXT, OPTIONS, OUT_HANDLE]),
    "ls_compile_text": (C.c_int, [TEXT, TEXT, SIZE, OPTIONS, OUT_HANDLE]),
    "ls_compilation_destroy": (None, [HANDLE]),
    "ls_compilation_message": (TEXT, [HANDLE]),
    "ls_compilation_step_count": (SIZE, [HANDLE]),
    "ls_compilation_own_step_count": (SIZE, [HANDLE]),
    "ls_compilation_step_name": (TEXT, [HANDLE, SIZE]),
    "ls_compilation_image": (C.c_int, [HANDLE, SIZE, TEXT, C.POINTER(C.POINTER(Image))]),
    "ls_compilation_explain": (C.c_int, [HANDLE, SIZE, C.POINTER(ExplainOptions), C.POINTER(TEXT)]),
    "ls_compilation_emit": (C.c_int, [HANDLE, SIZE, TEXT, OUT_HANDLE, C.POINTER(SIZE)]),
    "ls_compilation_kernels": (C.c_int, [HANDLE, C.POINTER(KernelsOptions)]),
    "ls_context_create": (C.c_int, [TEXT, HANDLE, OUT_HANDLE]),
    "ls_context_destroy": (None, [HANDLE]),
    "ls_context_use_stream": (C.c_int, [HANDLE, HANDLE]),
    "ls_synchronize": (C.c_int, [HANDLE]),
    "ls_error_message": (TEXT, [HANDLE]),
    "ls_program_load": (C.c_int, [HANDLE, TEXT, OPTIONS, OUT_HANDLE]),
    "ls_program_load_text": (C.c_int, [HANDLE, TEXT, TEXT, SIZE, OPTIONS, OUT_HANDLE]),
    "ls_program_destroy": (None, [HANDLE]),
    "ls_step_create": (C.c_int, [HANDLE, TEXT, OUT_HANDLE]),
    "ls_step_destroy": (None, [HANDLE]),
    "ls_step_bind": (C.c_int, [HANDLE, TEXT, C.POINTER(Tensor)]),
    "ls_step_bind_list": (C.c_int, [HANDLE, TEXT, C.POINTER(Tensor), SIZE]),
    "ls_step_set": (C.c_int, [HANDLE, TEXT, C.c_char_p]),
    "ls_step_set_number": (C.c_int, [HANDLE, TEXT, C.c_double]),
    "ls_step_shard": (C.c_int, [HANDLE, C.c_int64, C.c_int64]),
    "ls_step_prepare": (C.c_int, [HANDLE]),
    "ls_step_set_length": (C.c_int, [HANDLE, TEXT, C.c_int64]),
    "ls_step_launch": (C.c_int, [HANDLE]),
    "ls_graph_begin": (C.c_int, [HANDLE]),
    "ls_graph_end": (C.c_int, [HANDLE, OUT_HANDLE]),
    "ls_graph_launch": (C.c_int, [HANDLE]),
    "ls_graph_repeat": (C.c_int, [HANDLE, C.c_uint64]),
    "ls_graph_stats": (C.c_int, [HANDLE, C.POINTER(GraphStatistics)]),
    "ls_graph_destroy": (None, [HANDLE]),
    "ls_feed_create": (
        C.c_int,
        [HANDLE, C.POINTER(FeedArray), SIZE, C.c_uint32, C.c_int, OUT_HANDLE],
    ),
    "ls_feed_destroy": (None, [HANDLE]),
    "ls_feed_claim": (C.c_int, [HANDLE, C.POINTER(C.c_uint64), OUT_HANDLE]),
    "ls_feed_deliver": (C.c_int, [HANDLE, C.c_uint64, C.c_int64]),
    "ls_feed_close": (C.c_int, [HANDLE]),
    "ls_feed_next": (C.c_int, [HANDLE]),
    "ls_feed_tensor": (C.c_int, [HANDLE, SIZE, C.POINTER(Tensor)]),
    "ls_feed_stats": (None, [HANDLE, C.POINTER(FeedStatistics)]),
}


class LockstepError(RuntimeError):
    """A call of Lockstep failed; the message says what was expected, what was found and what to
    do."""


class CompileError(LockstepError):
    """The .step source has errors; the message holds all of them, with their places."""


def fail(status: int, message: bytes | None) -> NoReturn:
    """Raises what a status of the C API and its message say."""
    text = (message or b"no reason given").decode(errors="replace")
    if "no C compiler" in text:
        text += "; or, for this Python alone: pip install ziglang, whose compiler is then found"
    raise (CompileError if status == ERROR_PROGRAM else LockstepError)(text)


def _candidates() -> list[str | None]:
    given = os.environ.get("LOCKSTEP_LIBRARY")
    if given:
        return [given]
    here = os.path.dirname(os.path.abspath(__file__))
    above = os.path.join(
        here, "..", "..", ".."
    )  # a checkout, or the prefix of an installation's share/
    return [
        *glob.glob(os.path.join(glob.escape(here), "lib", "liblockstep.so*")),
        os.path.join(above, "build", "liblockstep.so"),
        os.path.join(above, "..", "lib", "liblockstep.so"),
        "liblockstep.so",
        ctypes.util.find_library("lockstep"),
    ]


def _open_library() -> C.CDLL:
    reason: Exception | None = None
    for name in _candidates():
        if not name:
            continue
        try:
            opened = C.CDLL(name)
            break
        except OSError as error:
            reason = error
    else:
        raise LockstepError(
            f"liblockstep.so could not be loaded ({reason}): install Lockstep, or set "
            "LOCKSTEP_LIBRARY to the library's path"
        )
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(opened, name)
        function.restype, function.argtypes = result, arguments
    _find_compiler()
    return opened


def _find_compiler() -> None:
    """Where there is no C compiler on PATH that of PyPI's ziglang serves, if it is installed."""
    if os.environ.get("LOCKSTEP_CC") or any(map(shutil.which, ("clang", "gcc", "cc"))):
        return
    if " " not in sys.executable and importlib.util.find_spec("ziglang"):
        os.environ["LOCKSTEP_CC"] = f"{sys.executable} -m ziglang cc"


_opening = threading.Lock()
_opened: list[C.CDLL] = []


def library() -> C.CDLL:
    """The C API, loaded when it is first needed."""
    with _opening:
        if not _opened:
            _opened.append(_open_library())
    return _opened[0]


def version() -> str:
    """Lockstep's version, as `lockstep --version` begins."""
    text: bytes = library().ls_version()
    return text.decode()
