"""Lockstep from Python and PyTorch: any .step step on tensors, and optimizers made of them.

    softmax = Step("std/losses:cross_entropy")
    loss, dlogits = softmax(logits=logits, target=target)
    optimizer = Optimizer(model.parameters(), "std/optim:adamw", lr=3e-4, weight_decay=0.1)

One file over the C API (lockstep.h) with ctypes; copy it into a project. It needs liblockstep.so: the
path in LOCKSTEP_LIBRARY, else where the dynamic loader looks, else the build folder of the checkout it
lies in. Nothing is copied: steps are given each tensor's data_ptr(), shape and strides, which is what
a DLPack capsule holds without the price of making one (and without its synchronisation, which an
array on the current stream does not need). Work goes to the tensors' device, in order with PyTorch's
own on torch.cuda.current_stream(), and nothing waits for it. Without PyTorch, `Step` takes whatever
has the buffer protocol: NumPy arrays, array.array, memoryviews.
"""
import collections
import collections.abc
import ctypes as C
import ctypes.util
import itertools
import math
import operator
import os
import struct
import threading

try:
    import torch
    from torch.optim.optimizer import required
except ImportError:  # the lower half works on any buffer
    torch = None

__all__ = ["Step", "Optimizer", "LockstepError", "CompileError", "version"]

# ---- the C API: as lockstep.h, image.h and compiler.h declare it (a test compares the layouts) ----

TYPES = ("f64", "f32", "i64", "i32", "u64", "u32", "bool", "f16", "bf16", "e4m3", "e5m2", "i16", "i8",
         "u16", "u8")
BYTES = (8, 4, 8, 4, 8, 4, 1, 2, 2, 1, 1, 2, 1, 2, 1)
BUFFER_FORMATS = {"d": 0, "f": 1, "q": 2, "l": 2, "i": 3, "Q": 4, "L": 4, "I": 5, "?": 6, "e": 7,
                  "h": 11, "b": 12, "H": 13, "B": 14}
IMAGE_VERSION = 7
IN, INOUT, OUT = range(3)
TERMS = ("NUMBER", "AXIS", "ADD", "SUBTRACT", "MULTIPLY", "DIVIDE", "REMAINDER")
OK, ERROR_ARGUMENT, ERROR_PROGRAM = range(3)


class Tensor(C.Structure):
    _fields_ = [("data", C.c_void_p), ("type", C.c_int), ("rank", C.c_uint32),
                ("shape", C.POINTER(C.c_int64)), ("strides", C.POINTER(C.c_int64))]


class ImageTerm(C.Structure):
    _fields_ = [("operation", C.c_int), ("value", C.c_int64)]


class ImageAxis(C.Structure):
    _fields_ = [("name", C.c_char_p), ("fixed", C.c_int64), ("parent", C.c_uint32),
                ("whole", C.c_uint32), ("length", C.c_int64), ("terms", C.POINTER(ImageTerm)),
                ("term_count", C.c_uint32)]


class ImageParameter(C.Structure):
    _fields_ = [("name", C.c_char_p), ("role", C.c_int), ("type", C.c_int), ("rank", C.c_uint32),
                ("axes", C.POINTER(C.c_uint8)), ("has_default", C.c_uint32), ("initial", C.c_uint64),
                ("line", C.c_uint32), ("optional", C.c_uint32)]


class Image(C.Structure):
    _fields_ = [("version", C.c_uint32), ("step", C.c_char_p), ("target", C.c_char_p),
                ("source_file", C.c_char_p), ("numeric_version", C.c_uint64), ("math", C.c_char_p),
                ("axis_count", C.c_uint32), ("axes", C.POINTER(ImageAxis)),
                ("parameter_count", C.c_uint32), ("parameters", C.POINTER(ImageParameter)),
                ("variant_count", C.c_uint32), ("variants", C.c_void_p), ("draws", C.c_uint32),
                ("line", C.c_uint32), ("tuning_count", C.c_uint32), ("tunings", C.c_void_p)]


class CompileOptions(C.Structure):
    _fields_ = [("defines", C.POINTER(C.c_char_p)), ("define_count", C.c_size_t), ("math", C.c_int),
                ("dump", C.c_char_p), ("no_cache", C.c_int), ("no_tuning", C.c_int),
                ("all_forms", C.c_int), ("import_paths", C.POINTER(C.c_char_p)),
                ("import_path_count", C.c_size_t), ("sources", C.c_void_p), ("source_count", C.c_size_t)]


HANDLE, TEXT, SIZE, OUT_HANDLE = C.c_void_p, C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p)
OPTIONS = C.POINTER(CompileOptions)
FUNCTIONS = {  # name: (result, arguments)
    "ls_version": (TEXT, []),
    "ls_compile_file": (C.c_int, [TEXT, OPTIONS, OUT_HANDLE]),
    "ls_compile_text": (C.c_int, [TEXT, TEXT, SIZE, OPTIONS, OUT_HANDLE]),
    "ls_compilation_destroy": (None, [HANDLE]),
    "ls_compilation_message": (TEXT, [HANDLE]),
    "ls_compilation_step_count": (SIZE, [HANDLE]),
    "ls_compilation_own_step_count": (SIZE, [HANDLE]),
    "ls_compilation_step_name": (TEXT, [HANDLE, SIZE]),
    "ls_compilation_image": (C.c_int, [HANDLE, SIZE, TEXT, C.POINTER(C.POINTER(Image))]),
    "ls_context_create": (C.c_int, [TEXT, HANDLE, OUT_HANDLE]),
    "ls_context_destroy": (None, [HANDLE]),
    "ls_context_use_stream": (C.c_int, [HANDLE, HANDLE]),
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
    "ls_step_launch": (C.c_int, [HANDLE]),
}


class LockstepError(RuntimeError):
    """A call of Lockstep failed; the message says what was expected, what was found and what to do."""


class CompileError(LockstepError):
    """The .step source has errors; the message holds all of them, with their places."""


def _open_library():
    here = os.path.dirname(os.path.abspath(__file__))
    built = os.path.join(here, "..", "..", "build", "liblockstep.so")
    given = os.environ.get("LOCKSTEP_LIBRARY")
    names = [given] if given else ["liblockstep.so", C.util.find_library("lockstep"), built]
    for name in names:
        try:
            library = C.CDLL(name) if name else None
        except OSError as error:
            reason = error
            continue
        if library:
            break
    else:
        raise LockstepError(f"liblockstep.so could not be loaded ({reason}): install Lockstep, or set "
                            "LOCKSTEP_LIBRARY to the library's path")
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


_opening = threading.Lock()
_opened = []


def library():
    """The C API, loaded when it is first needed."""
    with _opening:
        if not _opened:
            _opened.append(_open_library())
    return _opened[0]


def version():
    return library().ls_version().decode()


# ---- what a step takes ----

class Parameter:
    """One parameter of a step. `tensors` is the axis that counts the tensors of a list, or None."""

    def __init__(self, row, axes):
        self.key, self.name = row.name, row.name.decode()
        self.role, self.type, self.rank = row.role, row.type, row.rank
        self.axes = [axes[row.axes[i]] for i in range(row.rank)]
        self.tensors = next((a.tensors for a in self.axes if a.tensors is not None), None)
        self.inner = [a for a in self.axes if a is not self.tensors]
        self.fills = row.rank == 1 and row.role != OUT and self.axes[0].counts
        self.number = self.rank == 0 or self.fills  # a number will do
        self.default = _number(row.initial, row.type) if row.has_default else None

    def declaration(self, role=None):
        axes = f"[{', '.join(a.name for a in self.axes)}]" if self.rank else ""
        role = ("", "inout ", "out ")[self.role if role is None else role]
        return f"{role}{self.name}: {TYPES[self.type]}{axes}"


class Axis:
    """`tensors` is the axis that counts the tensors whose length this is, or None."""

    def __init__(self, row):
        self.name, self.fixed, self.length = row.name.decode(), row.fixed, row.length
        self.parent, self.whole = row.parent - 1, row.whole - 1
        self.terms = [(row.terms[i].operation, row.terms[i].value) for i in range(row.term_count)]
        self.tensors, self.counts, self.rest = None, False, False


class Signature:
    """What ls_image says of a step's axes and parameters."""

    def __init__(self, image):
        self.step, self.draws = image.step.decode(), bool(image.draws)
        self.axes = axes = [Axis(image.axes[i]) for i in range(image.axis_count)]
        for axis in axes:
            root = axis
            while root.parent >= 0:
                root = axes[root.parent]
            if root is not axis and root.whole < 0:
                axis.tensors, root.counts = root, True
            parent = axes[axis.parent] if axis.parent >= 0 else None
            axis.rest = axis.whole >= 0 and parent is not None and parent.whole == axis.whole
        self.parameters = [Parameter(image.parameters[i], axes) for i in range(image.parameter_count)]
        self.by_name = {p.name: p for p in self.parameters}

    def header(self):
        """The axes as a .step file declares them."""
        parts = []
        for axis in self.axes:
            if axis.whole >= 0:
                continue
            text = axis.name + (f" of {self.axes[axis.parent].name}" if axis.parent >= 0 else "")
            pieces = [a for a in self.axes if a.whole >= 0 and self.axes[a.whole] is axis]
            if pieces:
                text += f" as ({pieces[0].name}, {pieces[1].name} = {axis.length})"
            if axis.terms:
                text += f" = {self._expression(axis)}"
            elif axis.fixed >= 0:
                text += f" = {axis.fixed}"
            parts.append(text)
        return ", ".join(parts)

    def _expression(self, axis):
        stack = []
        for operation, value in axis.terms:
            if operation < 2:
                stack.append(str(value) if operation == 0 else self.axes[value].name)
            else:
                b, a = stack.pop(), stack.pop()
                stack.append(f"({a} {('+', '-', '*', '//', '%')[operation - 2]} {b})")
        return stack[0]

    def solve(self, known):
        """Adds the lengths that follow from those in `known`, by axis."""
        for axis in self.axes:
            if axis in known:
                continue
            if axis.rest:
                known[axis] = axis.length
            elif axis.whole >= 0 and self.axes[axis.whole] in known:
                known[axis] = -(-known[self.axes[axis.whole]] // axis.length)
            elif axis.terms and all(o != 1 or self.axes[v] in known for o, v in axis.terms):
                known[axis] = eval(self._expression(axis), {"__builtins__": {}},  # names and integers
                                   {a.name: n for a, n in known.items()})
            elif axis.fixed >= 0:
                known[axis] = axis.fixed
        return known


_FORMATS = dict(zip(TYPES, "dfqiQI?eHBBhbHB"))


def _number(bits, type):
    """The default that an image holds as bits, as the shortest decimal that gives it."""
    data = struct.pack("<Q", bits)[:BYTES[type]]
    value = struct.unpack("<" + _FORMATS[TYPES[type]], data)[0]
    if TYPES[type] != "f32" or not math.isfinite(value):
        return value
    return next(v for v in (float(f"{value:.{digits}g}") for digits in range(6, 18))
                if struct.pack("<f", v) == data)


class Source:
    """A step of a file, or of a text, with what overrides its constants: compiled, but on no device."""

    def __init__(self, file_or_text, name=None, constants=None, path="step.text"):
        file_or_text = os.fspath(file_or_text)
        self.text = file_or_text if "{" in file_or_text else None
        self.file = path if self.text is not None else file_or_text  # of a text: where imports begin
        if self.text is None and name is None and not os.path.exists(self.file):
            self.file, _, after = self.file.partition(":")
            name = after or None
        def literal(value):
            return str(value).lower() if isinstance(value, bool) else repr(value)
        self.defines = tuple(f"{key}={literal(value)}" for key, value in (constants or {}).items())
        api, compilation = library(), C.c_void_p()
        options, data, self.made = self.options(), (self.text or "").encode(), {}
        if self.text is None:
            status = api.ls_compile_file(self.file.encode(), C.byref(options), C.byref(compilation))
        else:
            status = api.ls_compile_text(self.file.encode(), data, len(data), C.byref(options),
                                         C.byref(compilation))
        try:
            if status != OK:
                _raise(status, api.ls_compilation_message(compilation) if compilation else
                       b"out of memory")
            self._choose(api, compilation, name)
        finally:
            api.ls_compilation_destroy(compilation)

    def _choose(self, api, compilation, name):
        count = api.ls_compilation_step_count(compilation)
        names = [api.ls_compilation_step_name(compilation, i).decode() for i in range(count)]
        own = names[:api.ls_compilation_own_step_count(compilation)] or names
        if name is None and len(own) == 1:
            name = own[0]
        if name not in names:
            what = "name one of the steps" if name is None else f"there is no step `{name}`"
            raise LockstepError(f"{self.file}: {what}: {', '.join(own) or 'it has none'}")
        self.name = name
        image = C.POINTER(Image)()
        status = api.ls_compilation_image(compilation, names.index(name), b"cpu", C.byref(image))
        if status != OK:
            _raise(status, api.ls_compilation_message(compilation))
        if image.contents.version != IMAGE_VERSION:
            raise LockstepError(f"liblockstep.so {version()} has images of format {image.contents.version}, "
                                f"this lockstep_torch.py reads {IMAGE_VERSION}: take the one that came "
                                "with the library")
        self.signature = Signature(image.contents)

    def options(self):
        lines = (C.c_char_p * len(self.defines))(*(line.encode() for line in self.defines))
        return CompileOptions(defines=lines, define_count=len(self.defines))

    def programs(self, context):
        """Where the program made of it on a context is kept: files may change, the library does not."""
        if self.text is None and self.file.startswith("std/"):
            return context.programs, (self.file, self.defines)
        return self.made, context


def _raise(status, message):
    text = (message or b"no reason given").decode(errors="replace")
    raise (CompileError if status == ERROR_PROGRAM else LockstepError)(text)


# ---- contexts: one for each device of this process ----

class Handle:
    """A C object that goes after those made from it, in whatever order Python lets go of them, and on
    whatever thread: what dies is left to the context's next call."""

    def __init__(self, context, pointer, destroy, parent):
        self.context, self.pointer, self.destroy, self.parent = context, pointer, destroy, parent
        self.children, self.dead = 0, False
        if parent:
            parent.children += 1

    def bury(self):
        self.dead = True
        if self.children == 0:
            self.destroy(self.pointer)
            if self.parent:
                self.parent.children -= 1
                if self.parent.dead:
                    self.parent.bury()


class Owner:
    """What Python's objects hold of a Handle."""

    def __init__(self, handle):
        self.handle = handle

    def __del__(self):
        self.handle.context.graves.append(self.handle)


class Context:
    """A device's ls_context, its programs, and the stream it works on; used under its lock."""

    def __init__(self, device):
        self.lock, self.graves, self.programs = threading.RLock(), collections.deque(), {}
        self.api, self.pointer = library(), C.c_void_p()
        self.index, self.stream = device.index if device else None, None
        kind = device.type if device else "cpu"
        if kind == "cuda" and torch.version.hip:
            kind = "hip"
        if kind not in ("cpu", "cuda", "hip"):
            raise LockstepError(f"Lockstep runs on cpu, cuda and hip devices, and a tensor is on {device}")
        name = kind if kind == "cpu" else f"{kind}:{self.index}"
        # The handle of CUDA's default stream; HIP's is waited for by a stream of the context's own.
        self.default_stream = 1 if kind == "cuda" else None
        self.check(self.api.ls_context_create(name.encode(), None, C.byref(self.pointer)), None)

    def check(self, status, pointer=0):
        if status != OK:
            _raise(status, self.api.ls_error_message(self.pointer if pointer == 0 else pointer))

    def __enter__(self):
        self.lock.acquire()
        try:
            while self.graves:
                self.graves.popleft().bury()
            if self.index is not None:
                self.follow(torch.cuda.current_stream(self.index))
        except BaseException:
            self.lock.release()
            raise
        return self

    def __exit__(self, *failure):
        self.lock.release()

    def follow(self, stream):
        """Goes on on PyTorch's current stream, after what was queued on the one before."""
        if stream == self.stream:
            return
        if self.stream is not None and not torch.cuda.is_current_stream_capturing():
            stream.wait_stream(self.stream)  # on the device
        self.check(self.api.ls_context_use_stream(self.pointer, stream.cuda_stream or self.default_stream))
        self.stream = stream

    def step(self, source):
        """A new step of the source, whose program is made once."""
        programs, key = source.programs(self)
        made, options, pointer = programs.get(key), source.options(), C.c_void_p()
        if made is None:
            if source.text is None:
                status = self.api.ls_program_load(self.pointer, source.file.encode(), C.byref(options),
                                                  C.byref(pointer))
            else:
                data = source.text.encode()
                status = self.api.ls_program_load_text(self.pointer, source.file.encode(), data,
                                                       len(data), C.byref(options), C.byref(pointer))
            self.check(status)
            made = programs[key] = Owner(Handle(self, pointer, self.api.ls_program_destroy, None))
            pointer = C.c_void_p()
        program = made.handle
        self.check(self.api.ls_step_create(program.pointer, source.name.encode(), C.byref(pointer)))
        return Owner(Handle(self, pointer, self.api.ls_step_destroy, program))


_contexts, _contexts_lock = {}, threading.Lock()


def context_of(device):
    """The context of a torch.device; of the CPU for None."""
    key = None if device is None or device.type == "cpu" else (device.type, device.index)
    with _contexts_lock:
        if key not in _contexts:
            _contexts[key] = Context(None if key is None else device)
        return _contexts[key]


def _after_fork():  # the parent's threads and devices are not the child's
    global _contexts_lock
    _contexts_lock = threading.Lock()
    _contexts.clear()


os.register_at_fork(after_in_child=_after_fork)


# ---- arrays ----

if torch:
    DTYPES = (torch.float64, torch.float32, torch.int64, torch.int32, torch.uint64, torch.uint32,
              torch.bool, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2,
              torch.int16, torch.int8, torch.uint16, torch.uint8)
    NUMBERS = {dtype: number for number, dtype in enumerate(DTYPES)}
    # With map() the least that Python does for each of many tensors.
    GRADIENT, DTYPE, ADDRESS = operator.attrgetter("grad"), operator.attrgetter("dtype"), torch.Tensor.data_ptr
    IS_CONTIGUOUS, IS_NEGATED = torch.Tensor.is_contiguous, torch.Tensor.is_neg


def _is_tensor(value):
    return torch is not None and isinstance(value, torch.Tensor)


def _capturing():
    """Whether PyTorch's current stream is recorded in a graph."""
    return torch is not None and torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def describe(value, name="an array", wanted=None):
    """(address, type, shape, strides in elements) of a tensor, or of what has the buffer protocol, in
    which narrow floats are their bits where the type wanted is one."""
    if _is_tensor(value):
        if value.layout is not torch.strided or value.dtype not in NUMBERS or value.is_neg():
            kind = "negated numbers, a view" if value.dtype in NUMBERS and value.layout is torch.strided \
                else value.dtype if value.layout is torch.strided else value.layout
            raise LockstepError(f"{name} is a tensor of {kind}, which Lockstep has no type for: it takes "
                                f"dense tensors of {', '.join(TYPES)}")
        return value.data_ptr(), NUMBERS[value.dtype], tuple(value.shape), value.stride()
    try:
        view = memoryview(value)
    except TypeError:
        raise LockstepError(f"{name} is a {type(value).__name__}, not a tensor or a buffer") from None
    number = BUFFER_FORMATS.get(view.format.lstrip("@=<"))
    if number is None or view.itemsize != BYTES[number]:
        raise LockstepError(f"{name} has elements of format {view.format!r}, which no type of Lockstep's is")
    if wanted is not None and TYPES[wanted] in ("bf16", "e4m3", "e5m2") and \
            TYPES[number] == ("u16" if BYTES[wanted] == 2 else "u8"):
        number = wanted
    interface = getattr(value, "__array_interface__", None)
    if interface:
        address = interface["data"][0]
    else:
        address = C.addressof((C.c_char * view.nbytes).from_buffer(value)) if view.nbytes else None
    return address, number, tuple(view.shape), tuple(s // view.itemsize for s in view.strides)


def tensors_of(rows):
    """The ls_tensors of rows as `describe` gives them; strides None: contiguous. Keeps what they need."""
    numbers = [n for _, _, shape, strides in rows for n in (*shape, *(strides or ()))]
    memory = (C.c_int64 * max(len(numbers), 1))(*numbers)
    made, at, pointer = (Tensor * max(len(rows), 1))(), C.addressof(memory), C.POINTER(C.c_int64)
    for tensor, (data, number, shape, strides) in zip(made, rows):
        tensor.data, tensor.type, tensor.rank = data, number, len(shape)
        tensor.shape, at = C.cast(at, pointer), at + 8 * len(shape)
        if strides is not None:
            tensor.strides, at = C.cast(at, pointer), at + 8 * len(strides)
    made.memory = memory
    return made


def _empty(type, shape, device):
    if torch:
        return torch.empty(shape, dtype=DTYPES[type], device=device)
    data = memoryview(bytearray(BYTES[type] * math.prod(shape)))
    if 0 in shape:  # memoryview cannot say more of it
        return data.cast("B").cast(_FORMATS[TYPES[type]])
    return data.cast(_FORMATS[TYPES[type]], shape) if shape else data.cast(_FORMATS[TYPES[type]], ())


class Bound:
    """An ls_step on a device. What is bound again as it was costs nothing. Used under the context."""

    def __init__(self, source, device):
        self.context, self.source = context_of(device), source
        with self.context as context:
            self.owner = context.step(source)
        self.pointer, self.api = self.owner.handle.pointer, self.context.api
        self.last, self.numbers = {}, {}  # what is bound, and the values of `in`s that are not
        self.made = {}

    def bind(self, parameter, row):
        """A row as `describe` gives it, a list of them, or None for nothing."""
        if self.last.get(parameter.name) == row:
            return
        if row is None:
            status = self.api.ls_step_bind(self.pointer, parameter.key, None)
        elif isinstance(row, list):
            status = self.api.ls_step_bind_list(self.pointer, parameter.key, tensors_of(row), len(row))
        else:
            status = self.api.ls_step_bind(self.pointer, parameter.key, self._tensor(parameter, row))
        self.context.check(status)
        self.last[parameter.name] = row
        self.numbers.pop(parameter.name, None)

    def _tensor(self, parameter, row):
        """The ls_tensor of a row, in the place of the one before where that had its rank."""
        data, number, shape, strides = row
        made = self.made.get(parameter.name)
        if made is None or made[0].rank != len(shape):
            made = self.made[parameter.name] = tensors_of([row])
        made[0].data, made[0].type = data, number
        if shape:
            made.memory[:] = shape + strides
        return made

    def set(self, parameter, value):
        if self.last.get(parameter.name) is not None:
            self.bind(parameter, None)
        if self.numbers.get(parameter.name) == value:
            return
        if TYPES[parameter.type] in ("i64", "u64"):  # more than a double holds
            status = self.api.ls_step_set(self.pointer, parameter.key,
                                          struct.pack("<" + _FORMATS[TYPES[parameter.type]], value))
        else:
            status = self.api.ls_step_set_number(self.pointer, parameter.key, value)
        self.context.check(status)
        if parameter.role == IN:
            self.numbers[parameter.name] = value

    def launch(self):
        self.context.check(self.api.ls_step_launch(self.pointer))


# ---- steps ----

class Step:
    """A step that is called on tensors: Step("adamw.step"), Step("std/norms:rms_norm_forward"), or a
    text with `{`; keyword arguments override the file's constants.

    Parameters are given by name, or in order without those that are `out`; lists of tensors as
    sequences; rank-0 values also as numbers. An `out` is allocated unless it is given, and left out
    where it is False. The result is the `out`s, and each rank-0 `inout` that was given as a number or
    has a default: one tensor, or a named tuple of several. No gradients are recorded: for those call
    a step and its backward step in a torch.autograd.Function.
    """

    def __init__(self, file_or_text, name=None, **constants):
        self.source = Source(file_or_text, name, constants)
        self.signature = self.source.signature
        self.__name__ = self.source.name
        self._bound, self._results = {}, None

    def __repr__(self):
        inner = ", ".join(p.declaration() for p in self.signature.parameters)
        return f"<step {self.source.name}[{self.signature.header()}]({inner})>"

    def __reduce__(self):
        source = self.source
        return _step, (source.text or source.file, source.name, source.defines)

    def __call__(self, *arguments, **values):
        given = self._arguments(arguments, values)
        device = self._device(given)
        context = context_of(device)
        with context:
            bound = self._bound.get(context)
            if bound is None:
                bound = self._bound[context] = Bound(self.source, device)
            results = self._bind(bound, given, device)
            bound.launch()
        if torch:
            written = [t for p in self.signature.parameters if p.role != IN
                       for t in (given.get(p.name) if p.tensors else [given.get(p.name)]) or ()
                       if _is_tensor(t)]
            if written:
                torch.autograd.graph.increment_version(written)
        if len(results) < 2:
            return next(iter(results.values()), None)
        return self._tuple(results)

    def _tuple(self, results):
        if self._results is None or self._results[0] != list(results):
            made = collections.namedtuple(self.source.name, results, rename=True)
            self._results = list(results), made
        return self._results[1](*results.values())

    def _arguments(self, arguments, values):
        parameters, given = self.signature.parameters, dict(values)
        order = [p.name for p in parameters if p.role != OUT]
        if len(arguments) > len(order):
            raise TypeError(f"step {self.source.name} takes {len(order)} arguments, not {len(arguments)}")
        for name, value in zip(order, arguments):
            if name in given:
                raise TypeError(f"step {self.source.name} was given `{name}` twice")
            given[name] = value
        for name in given:
            if name not in self.signature.by_name:
                raise TypeError(f"step {self.source.name} has no parameter `{name}`: it is {self!r}")
        missing = [p.declaration() for p in parameters if p.role != OUT and p.default is None and
                   given.get(p.name) is None]
        if missing:
            raise TypeError(f"step {self.source.name} lacks {'; '.join(missing)}")
        for parameter in parameters:
            value = given.get(parameter.name)
            if not parameter.tensors or value is None or value is False:
                continue
            if _is_tensor(value) or not isinstance(value, collections.abc.Iterable):
                raise TypeError(f"`{parameter.name}` of step {self.source.name} is a list of tensors, and "
                                f"a {type(value).__name__} was given")
            given[parameter.name] = list(value)
        return given

    def _device(self, given):
        device, first = None, None
        for parameter in self.signature.parameters:
            value = given.get(parameter.name)
            for tensor in value if parameter.tensors and value else (value,):
                if not _is_tensor(tensor) or (parameter.rank == 0 and parameter.role == IN and
                                              tensor.device.type == "cpu"):
                    continue
                if device is not None and tensor.device != device:
                    raise LockstepError(f"step {self.source.name}: `{first}` is on {device}, "
                                        f"`{parameter.name}` on {tensor.device}; bring them together")
                device, first = tensor.device, parameter.name
        return device

    def _bind(self, bound, given, device):
        results, rows, allocate = {}, {}, []
        for parameter in self.signature.parameters:
            name, value = parameter.name, given.get(parameter.name)
            where = f"`{name}` of step {self.source.name}"
            if value is None and parameter.role != OUT:
                value = parameter.default
            if parameter.role == OUT and value is False:
                bound.bind(parameter, None)
            elif parameter.role == OUT and value is None:
                allocate.append(parameter)
                results[name] = None  # in its place
            elif parameter.tensors:
                rows[name] = [describe(v, f"tensor {i} of {where}", parameter.type)
                              for i, v in enumerate(value)]
            elif parameter.number and isinstance(value, (bool, int, float)):
                if parameter.role == IN or parameter.rank:
                    bound.set(parameter, value)
                    continue
                results[name] = self._cell(parameter, value, device)
                rows[name] = describe(results[name])
            elif parameter.rank == 0 and _is_tensor(value) and value.device != (device or value.device):
                bound.set(parameter, value.item())  # a value of the host's
            else:
                rows[name] = describe(value, where, parameter.type)
            if parameter.role == OUT and value is not None and value is not False:
                results[name] = value
        if allocate:
            self._allocate(allocate, given, rows, results, device)
        if any(bound.last.get(name) != row for name, row in rows.items()) and _capturing():
            raise LockstepError(f"step {self.source.name} in a graph capture: it has to work on the tensors "
                                "of the call before, so call it once ahead with them, and give its outputs")
        for name, row in rows.items():
            bound.bind(self.signature.by_name[name], row)
        return results

    @staticmethod
    def _cell(parameter, value, device):
        cell = _empty(parameter.type, (), device)
        if torch:
            cell.fill_(value)
        else:
            cell[()] = value
        return cell

    def _allocate(self, outs, given, rows, results, device):
        known, lists, flat = {}, {}, {}
        for name, row in rows.items():
            parameter = self.signature.by_name[name]
            if not parameter.tensors:
                known.update(zip(parameter.axes, row[2]))
                continue
            known[parameter.tensors] = len(row)
            own = lists.setdefault(parameter.tensors, [{} for _ in row])
            for lengths, (_, _, shape, _) in zip(own, row):
                lengths.update(zip(parameter.inner, shape if parameter.rank > 2 else (math.prod(shape),)))
            if parameter.rank == 2:
                flat.setdefault(tuple(parameter.axes), [shape for _, _, shape, _ in row])
        self.signature.solve(known)
        for parameter in outs:
            if not parameter.tensors:
                shape = self._shape(parameter, parameter.axes, known)
                results[parameter.name] = _empty(parameter.type, shape, device)
                rows[parameter.name] = describe(results[parameter.name], "", parameter.type)
                continue
            shapes = flat.get(tuple(parameter.axes)) or [
                self._shape(parameter, parameter.inner, self.signature.solve({**known, **lengths}))
                for lengths in lists.get(parameter.tensors, ())]
            results[parameter.name] = [_empty(parameter.type, shape, device) for shape in shapes]
            rows[parameter.name] = [describe(tensor, "", parameter.type)
                                    for tensor in results[parameter.name]]

    def _shape(self, parameter, axes, known):
        try:
            return tuple(known[axis] for axis in axes)
        except KeyError as axis:
            raise LockstepError(f"step {self.source.name}: how long axis `{axis.args[0].name}` of "
                                f"`{parameter.name}` is does not follow from what was given: give "
                                f"`{parameter.name}` too") from None


def _step(file_or_text, name, defines):
    step = Step.__new__(Step)
    constants = dict(line.split("=", 1) for line in defines)
    step.__init__(file_or_text, name, **{key: _Literal(text) for key, text in constants.items()})
    return step


class _Literal(str):
    def __repr__(self):
        return str(self)


# ---- optimizers ----

# A step's own names for what PyTorch's optimizers keep, by the keys of their state.
STATE_NAMES = {"step": "count", "exp_avg": "m", "exp_avg_sq": "v", "max_exp_avg_sq": "v_max",
               "exp_inf": "u", "momentum_buffer": "m", "square_avg": "v", "grad_avg": "average",
               "sum": "total", "acc_delta": "moved", "mu_product": "mu_product"}
GROUP_NAMES = {"decay": "weight_decay"}  # and beta1, beta2 ...: "betas"
HINTS = ("foreach", "fused")  # how PyTorch is to do it
SCALE_DEFAULTS = {"init_scale": 65536.0, "growth_factor": 2.0, "backoff_factor": 0.5,
                  "growth_interval": 2000}
# All gradients are looked at once, ahead of the updates, which are left out where one overflowed.
CHECK_STEP = """import "std/amp"
step check[t, n of t](
    g: {type}[t, n], inout scale: f32, inout good: i32, inout skipped: i64, out inverse: f32,
    out found_inf: bool, growth: f32, backoff: f32, interval: i32, unscaled: bool,
) {{
    let factor = if unscaled then 1.0 else 1 / f64(scale)
    let overflow = any(not isfinite(factor * g))
    inverse = factor
    found_inf = overflow
    skipped += i64(overflow)
    update_scale(found_inf = overflow, scale = scale, good = good, growth = growth,
        backoff = backoff, interval = interval)
}}
"""


def _around(source, gradient, negated, scaled):
    """A step with another around it: -g for g, and g / scale, unless a gradient overflowed."""
    signature = source.signature
    g = signature.by_name[gradient]
    rows = [p.declaration(INOUT if p.role == OUT else None) for p in signature.parameters]
    given = [f"{p.name} = {p.name}" for p in signature.parameters if p is not g]
    value = ("-" if negated else "") + ("(inverse_scale * " + g.name + ")" if scaled else g.name)
    given.append(f"{g.name} = {TYPES[g.type]}({value})")
    call = f"{source.name}({', '.join(given)})"
    if scaled:
        rows += ["inverse_scale: f32", "found_inf: bool"]
        call = f"when not found_inf {{\n        {call}\n    }}"
    text = source.text
    if text is None and os.path.exists(source.file):
        with open(source.file, encoding="utf-8") as file:
            text = file.read()  # and not imported, so that its constants can be overridden
    return (f'import "{source.file}"\n' if text is None else text + "\n") + \
        f"step wrapped_{source.name}[{signature.header()}](\n    {', '.join(rows)}\n) {{\n    {call}\n}}\n"


def _is_dense(tensor):
    """Whether its elements fill one piece of memory, in whatever order."""
    if tensor.is_contiguous():
        return True
    expected = 1
    for stride, size in sorted((s, n) for s, n in zip(tensor.stride(), tensor.shape) if n > 1):
        if stride != expected:
            return False
        expected *= size
    return True


class _Lot:
    """Parameters of one group and device that have taken the same steps: one launch updates them."""

    def __init__(self, optimizer, group, members):
        self.group, self.members, self.device = group, members, members[0].device
        self.bound = Bound(optimizer._source, self.device)
        self.plain = all(p.is_contiguous() for p in members)
        self.lists, self.addresses, self.values = {}, {}, {}
        self.cells = [optimizer.state[members[0]].get(p.name) for p in optimizer._cells]
        for parameter, cell in zip(optimizer._cells, self.cells):
            self.bound.bind(parameter, describe(cell))
        for parameter in optimizer._lists:
            rows = [optimizer._row(parameter, p) for p in members]
            self.lists[parameter.name] = tensors_of(rows)
            self.addresses[parameter.name] = None
            if parameter not in (optimizer._model, optimizer._gradient):
                self.bind(parameter, [row[0] for row in rows])

    def bind(self, parameter, addresses):
        """The list as it was, at other addresses."""
        tensors, bound = self.lists[parameter.name], self.bound
        words = C.sizeof(Tensor) // 8  # the first of each is its address
        (C.c_uint64 * (words * len(tensors))).from_buffer(tensors)[:words * len(addresses):words] = addresses
        bound.context.check(bound.api.ls_step_bind_list(bound.pointer, parameter.key, tensors,
                                                        len(self.members)))
        self.addresses[parameter.name] = addresses


class Optimizer(torch.optim.Optimizer if torch else object):
    """A torch.optim.Optimizer of an optimizer step: one of std/optim, or your own of the same form.

        Optimizer(model.parameters(), "std/optim:adamw", lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)

    The step works over lists, p: T[t, n] (or w, where the model holds a narrow copy and p is the
    optimizer's: adamw_mixed) and g. Its other lists and its rank-0 `inout`s are the state, which starts
    at zero, its rank-0 `in`s (and one per tensor, decay: f32[t]) the hyperparameters, by PyTorch's
    names where it has one: weight_decay for decay, betas. They are read from param_groups at every
    step(), so schedulers work, and are device values: nothing compiles again. A group is one launch,
    or a few when parameters were without a gradient in some steps: each has its own count, as in
    PyTorch.

    maximize=True turns the gradients' sign. loss_scale=True, or a dictionary with GradScaler's
    init_scale, growth_factor, backoff_factor, growth_interval, multiplies losses by a scale that lives
    on the device: `optimizer.scale(loss).backward(); optimizer.step()`. A step whose gradients
    overflowed changes nothing but the scale; nobody waits to know. capturable=True is for
    torch.cuda.graph: zero_grad() then zeroes instead of letting gradients go, so that they stay where
    they are bound. Capture after a few steps as usual; a learning rate that changes later has to be
    a tensor of the device, or set with write_hyperparameters().

    constants overrides the file's constants, parameter and gradient name what is not called p, w or g,
    copies the states that begin as a copy of the parameters.
    """

    def __init__(self, params, step, *, maximize=False, loss_scale=None, capturable=False,
                 constants=None, parameter=None, gradient="g", copies=("p", "z"), **hyperparameters):
        self._settings = dict(step=step, maximize=maximize, capturable=capturable, constants=constants,
                              parameter=parameter, gradient=gradient, copies=copies,
                              loss_scale={**SCALE_DEFAULTS, **(loss_scale if loss_scale is not True else
                                                               {})} if loss_scale else None)
        unknown = set(self._settings["loss_scale"] or ()) - set(SCALE_DEFAULTS)
        if unknown:
            raise TypeError(f"loss_scale has {', '.join(SCALE_DEFAULTS)}, and no {', '.join(unknown)}")
        params = params if _is_tensor(params) else list(params)
        self._open([] if _is_tensor(params) else params)
        super().__init__(params, {**self._defaults, **self._named(hyperparameters)})

    def _open(self, params):
        """What follows from the step alone."""
        s = self._settings
        source = Source(s["step"], constants=s["constants"])
        signature = source.signature
        original = signature.by_name  # with its defaults
        lists = [p for p in signature.parameters if p.tensors]
        names = {p.name for p in lists}
        what = f"step {source.name} is no optimizer:"
        if s["gradient"] not in names:
            raise LockstepError(f"{what} it has no list `{s['gradient']}` of gradients: "
                                f"{', '.join(p.declaration() for p in signature.parameters)}")
        dtype = self._first_dtype(params)
        written = [n for n in ([s["parameter"]] if s["parameter"] else ["w", "p"])
                   if n in names and signature.by_name[n].role != IN]
        fitting = [n for n in written if DTYPES[signature.by_name[n].type] == dtype] or written[:1]
        if not fitting:
            raise LockstepError(f"{what} it updates no list `{s['parameter'] or 'p'}`")
        if s["maximize"] or s["loss_scale"]:
            text = _around(source, s["gradient"], s["maximize"], bool(s["loss_scale"]))
            source = Source(text, "wrapped_" + source.name, s["constants"], source.file)
            signature = source.signature
        self._source, self._gradient = source, signature.by_name[s["gradient"]]
        self._model = signature.by_name[fitting[0]]
        rest = [p for p in signature.parameters if p.name not in ("inverse_scale", "found_inf")]
        odd = [p.declaration() for p in rest if p not in (self._model, self._gradient) and
               (p.role == IN if p.tensors else p.rank > 0 and not (p.fills and p.role == IN))]
        if odd:
            raise LockstepError(f"{what} {'; '.join(odd)} is neither parameter, gradient, state nor "
                                "hyperparameter")
        self._lists = [p for p in rest if p.tensors and (p.role != OUT or p is self._model)]
        self._states = [p for p in self._lists if p not in (self._model, self._gradient)]
        self._cells = [p for p in rest if p.rank == 0 and p.role == INOUT]
        self._hypers = [p for p in rest if not p.tensors and p.role == IN]
        self._starts = {p.name: original[p.name].default or 0 for p in self._cells}
        self._keys, self._defaults, betas = [], {}, []
        for p in self._hypers:
            default = original[p.name].default
            if p.name in ("beta1", "beta2", "beta3"):
                self._keys.append((p, "betas", len(betas)))
                betas.append(default)
                self._defaults["betas"] = tuple(betas)
            else:
                key = GROUP_NAMES.get(p.name, p.name)
                self._keys.append((p, key, None))
                self._defaults[key] = required if default is None else default
        self._lots, self._lots_before, self._idle, self._shape = None, (), [], None
        self._scale, self._pid = None, os.getpid()
        self._unscaled, self._check, self._looked_at, self._parted = False, {}, None, {}

    @staticmethod
    def _first_dtype(params):
        for entry in params:
            entry = entry["params"] if isinstance(entry, dict) else entry
            entry = next(iter(entry), None) if not _is_tensor(entry) and not isinstance(entry, tuple) \
                else entry
            entry = entry[1] if isinstance(entry, tuple) else entry
            if _is_tensor(entry):
                return entry.dtype
        return None

    def _named(self, given):
        """Hyperparameters under the names that param_groups has."""
        made = {}
        for name, value in given.items():
            if name in HINTS or name in ("params", "param_names", "initial_lr"):
                if name not in HINTS:
                    made[name] = value
                continue
            own = [(key, index) for p, key, index in self._keys if p.name == name]
            if own and own[0][1] is not None:
                betas = list(made.get("betas", given.get("betas", self._defaults["betas"])))
                betas[own[0][1]] = value
                made["betas"] = tuple(betas)
            elif own or name in self._defaults:
                made[own[0][0] if own else name] = value
            else:
                more = "; there is std/optim:adamw_amsgrad" if name == "amsgrad" else ""
                raise TypeError(f"step {self._settings['step']} has no hyperparameter `{name}`: it has "
                                f"{', '.join(self._defaults) or 'none'}{more}")
        if "betas" in made and len(made["betas"]) != len(self._defaults["betas"]):
            raise ValueError(f"betas are {len(self._defaults['betas'])} numbers, not {made['betas']}")
        return made

    def add_param_group(self, param_group):
        super().add_param_group(self._named(param_group) if isinstance(param_group, dict)
                                else param_group)
        group = self.param_groups[-1]
        try:
            for p in group["params"]:
                self._fit(p)
        except LockstepError:
            self.param_groups.pop()
            raise
        self._lots = None

    def _called(self, p):
        for number, group in enumerate(self.param_groups):
            for at, other in enumerate(group["params"]):
                if other is p:
                    names = group.get("param_names")
                    name = f"`{names[at]}`" if names else f"{at} of group {number}"
                    return f"parameter {name}, shape {tuple(p.shape)}"
        return "a parameter"

    def _fit(self, p):
        """Refuses a parameter that the step cannot update."""
        model, what = self._model, self._settings["step"]
        if p.layout is not torch.strided:
            raise LockstepError(f"{self._called(p)} is {p.layout}; {what} takes dense tensors")
        if p.dtype != DTYPES[model.type]:
            also = [n for n in ("p", "w") if n in self._source.signature.by_name]
            types = " or ".join(str(DTYPES[self._source.signature.by_name[n].type]) for n in also)
            raise LockstepError(f"{self._called(p)} is {p.dtype}, and {what} updates {types}: take a step "
                                "for it, such as std/optim:adamw_bf16 or adamw_mixed for bfloat16, and "
                                "an optimizer for each type")
        wanted = DTYPES[self._gradient.type]
        if (getattr(p, "grad_dtype", None) or p.dtype) != wanted:
            raise LockstepError(f"{self._called(p)} has gradients of {p.dtype}, and {what} takes {wanted}")
        if model.rank > 2 and p.dim() != model.rank - 1:
            raise LockstepError(f"{self._called(p)} has {p.dim()} axes, and {what} works on tensors of "
                                f"{model.rank - 1}: give the others to another optimizer")
        if not (p.is_contiguous() or model.rank == 2 and _is_dense(p)):
            raise LockstepError(f"{self._called(p)} is not contiguous: strides {p.stride()}; make it so "
                                "with p.data = p.data.contiguous() before the optimizer is made")

    # ---- state ----

    def _row(self, parameter, p):
        """What a list holds for a parameter of the model."""
        if parameter is self._gradient:
            address, number, shape, strides = None, parameter.type, tuple(p.shape), None
        else:
            tensor = p if parameter is self._model else self.state[p][parameter.name]
            address, number, shape, strides = describe(tensor)
        if parameter.rank == 2 and parameter.axes == self._model.axes:
            shape = (p.numel(),)  # as it lies in memory
        return address, number, shape, None

    def _state_shape(self, parameter, p):
        known = dict(zip(self._model.inner, p.shape if self._model.rank > 2 else (p.numel(),)))
        self._source.signature.solve(known)
        return tuple(known[axis] for axis in parameter.inner)

    def _new_state(self, parameter, p):
        dtype, copied = DTYPES[parameter.type], parameter.name in self._settings["copies"]
        if parameter.axes == self._model.axes:
            tensor = torch.empty_like(p, dtype=dtype, memory_format=torch.preserve_format)
            return (tensor.copy_(p.detach()) if copied else tensor.zero_()).detach()
        return torch.zeros(self._state_shape(parameter, p), dtype=dtype, device=p.device)

    def _outside_capture(self, what):
        if _capturing():
            raise LockstepError(f"Optimizer.step in a graph capture: {what}; take a few before the "
                                "capture, with capturable=True and gradients that stay where they are "
                                "(zero_grad(set_to_none=False))")

    def _begin(self, fresh):
        """State for parameters that have a gradient for the first time; all of a group and device share
        the rank-0 values."""
        self._outside_capture("parameters have a gradient for the first time")
        cells = {}
        for index, p in fresh:
            self._fit(p)
            if (index, p.device) not in cells:
                cells[index, p.device] = {c.name: torch.full((), self._starts[c.name],
                                                             dtype=DTYPES[c.type], device=p.device)
                                          for c in self._cells}
            state = self.state[p]
            state.update({s.name: self._new_state(s, p) for s in self._states})
            state.update(cells[index, p.device])
        self._lots = None

    def _split(self, lot, present):
        """Some had no gradient: the others go on with rank-0 values of their own."""
        self._outside_capture("some gradients are None")
        cells, together = {c.name: cell.clone() for c, cell in zip(self._cells, lot.cells)}, object()
        for p, here in zip(lot.members, present):
            if here:
                self.state[p].update(cells)
                self._parted[p] = together  # where there are none
        self._lots = None

    def _rebuild(self):
        """Lots are the parameters that share rank-0 values; kept where they are the same as before."""
        self._outside_capture("no step was taken yet" if self._shape is None else
                              "the parameters or their state have changed")
        before = {lot.key: lot for lot in self._lots_before} if self._pid == os.getpid() else {}
        sorted_in, self._idle, self._pid = {}, [], os.getpid()
        for index, group in enumerate(self.param_groups):
            for p in group["params"]:
                if p not in self.state:
                    self._idle.append((index, p))
                    continue
                own = tuple(id(self.state[p][c.name]) for c in self._cells) or (self._parted.get(p),)
                sorted_in.setdefault((index, p.device, own), []).append(p)
        self._lots = []
        for (index, device, own), members in sorted_in.items():
            for p in members:
                self._fit(p)
                self._check_device(p)
            key = index, device, own, tuple((id(p), tuple(id(t) for t in self.state[p].values()))
                                            for p in members)
            lot = before.get(key)
            if lot is None:
                with context_of(device):
                    lot = _Lot(self, index, members)
                    lot.key = key
                    if self._source.signature.draws:
                        lot.bound.api.ls_step_shard(lot.bound.pointer, self._position(members[0]), 0)
            self._lots.append(lot)
        self._lots_before, self._shape = self._lots, self._current_shape()

    def _check_device(self, p):
        for name, value in self.state[p].items():
            if _is_tensor(value) and value.device != p.device:
                raise LockstepError(f"{self._called(p)} is on {p.device}, its state `{name}` on "
                                    f"{value.device}: move the model before the first step, or move the "
                                    "state with optimizer.load_state_dict(optimizer.state_dict())")

    def _position(self, p):
        return next(i for i, q in enumerate(q for g in self.param_groups for q in g["params"]) if q is p)

    def _current_shape(self):
        return len(self.state), [len(group["params"]) for group in self.param_groups]

    # ---- a step ----

    def _work(self):
        """The lots that have gradients, with these and their addresses."""
        while True:
            if self._lots is None or self._shape != self._current_shape() or self._pid != os.getpid():
                self._rebuild()
            work, partial = [], None
            for lot in self._lots:
                gradients = list(map(GRADIENT, lot.members))
                try:
                    addresses = list(map(ADDRESS, gradients))
                except (TypeError, RuntimeError):
                    present = [g is not None for g in gradients]
                    if all(present):
                        addresses = self._gradients(lot, gradients)
                    elif any(present):
                        partial = lot, present
                        break
                    else:
                        continue
                if not (lot.plain and all(map(IS_CONTIGUOUS, gradients))):
                    addresses = self._gradients(lot, gradients)
                work.append((lot, gradients, addresses))
            fresh = [(index, p) for index, p in self._idle if p.grad is not None]
            if not partial and not fresh:
                return work
            if fresh:
                self._begin(fresh)
            if partial:
                self._split(*partial)

    def _gradients(self, lot, gradients):
        """The addresses of gradients that lie as their parameters do, or of copies that do."""
        for i, (p, g) in enumerate(zip(lot.members, gradients)):
            if g.layout is not torch.strided:
                raise LockstepError(f"{self._called(p)} has a sparse gradient ({g.layout}), which "
                                    f"{self._settings['step']} does not take: use dense ones "
                                    "(nn.Embedding(..., sparse=False))")
            if g.stride() != p.stride() and not (g.is_contiguous() and p.is_contiguous()):
                gradients[i] = torch.empty_like(p, dtype=g.dtype).copy_(g)
        return [g.data_ptr() for g in gradients]

    def step(self, closure=None):
        """One update. Nothing is copied to the host, and nothing waits for the device."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            work = self._work()
            if self._settings["loss_scale"]:
                self._check_overflow(work)
            for lot, gradients, addresses in work:
                with lot.bound.context:
                    self._bind(lot, gradients, addresses)
                    lot.bound.launch()
                torch.autograd.graph.increment_version(lot.members)
        self._unscaled = False
        return loss

    def _bind(self, lot, gradients, addresses):
        own = list(map(ADDRESS, lot.members))
        if own != lot.addresses[self._model.name]:
            self._moved(lot, own)
        if addresses != lot.addresses[self._gradient.name]:
            self._outside_capture("gradients are not where they were")
            wanted = DTYPES[self._gradient.type]  # PyTorch sees to the device
            if any(map(IS_NEGATED, gradients)):
                raise LockstepError("a gradient is a view of negated numbers: resolve_neg() it")
            if set(map(DTYPE, gradients)) != {wanted}:
                p, g = next((p, g) for p, g in zip(lot.members, gradients) if g.dtype != wanted)
                raise LockstepError(f"{self._called(p)} has a gradient of {g.dtype}, and "
                                    f"{self._settings['step']} takes {wanted}")
            lot.bind(self._gradient, addresses)
        self._write(lot)

    def _moved(self, lot, addresses):
        self._outside_capture("parameters are not where they were")
        for p in lot.members:
            if p.device != lot.device:
                self._lots = None
                self._check_device(p)
            self._fit(p)
        lot.plain = all(p.is_contiguous() for p in lot.members)
        lot.bind(self._model, addresses)

    def _write(self, lot):
        """Sets what of the group's hyperparameters is another than at the step before."""
        group, values, bound = self.param_groups[lot.group], lot.values, lot.bound
        for parameter, key, index in self._keys:
            value = group[key] if index is None else group[key][index]
            if value is values.get(parameter, values):  # which is no value
                continue
            if _is_tensor(value):
                self._write_tensor(bound, parameter, key, value)
                if value.device != lot.device or value.dtype != DTYPES[parameter.type]:
                    continue  # read anew at every step
            else:
                self._outside_capture(f"`{key}` has changed: call write_hyperparameters() before it")
                try:
                    number = value if isinstance(value, (bool, int, float, str)) else float(value)
                    bound.set(parameter, number)
                except (TypeError, ValueError, struct.error, C.ArgumentError):
                    raise TypeError(f"`{key}` is {value!r}, not a number") from None
            values[parameter] = value

    def _write_tensor(self, bound, parameter, key, value):
        if value.numel() != 1 or parameter.rank:
            raise LockstepError(f"`{key}` is a tensor of shape {tuple(value.shape)}; one with one element "
                                "or a number is wanted")
        if value.device.type == "cpu" and (value.dtype != DTYPES[parameter.type] or
                                           bound.context.index is not None):
            bound.set(parameter, value.item())
        elif value.dtype != DTYPES[parameter.type]:
            raise LockstepError(f"`{key}` is a tensor of {value.dtype} on {value.device}: on a device "
                                f"{DTYPES[parameter.type]} is wanted, which the step reads as it is")
        else:
            address, number, _, _ = describe(value)
            bound.bind(parameter, (address, number, (), ()))

    def write_hyperparameters(self):
        """Brings what changed in param_groups to the device, for graphs that were captured before."""
        for lot in self._lots or ():
            with lot.bound.context:
                self._write(lot)

    def zero_grad(self, set_to_none=None):
        super().zero_grad(not self._settings["capturable"] if set_to_none is None else set_to_none)

    # ---- loss scale ----

    def _scale_values(self, device):
        if self._scale is None:
            self._outside_capture("there is no loss scale yet")
            options = self._settings["loss_scale"]
            values = {"scale": (torch.float32, options["init_scale"]), "good": (torch.int32, 0),
                      "skipped": (torch.int64, 0), "inverse": (torch.float32, 1.0),
                      "found_inf": (torch.bool, False)}
            self._scale = {name: torch.full((), value, dtype=dtype, device=device)
                           for name, (dtype, value) in values.items()}
        if self._scale["scale"].device != device:
            raise LockstepError(f"the loss scale is on {self._scale['scale'].device} and meets tensors on "
                                f"{device}; it serves one device")
        return self._scale

    def scale(self, loss):
        """The loss times the scale, to call backward() on."""
        if not self._settings["loss_scale"]:
            raise LockstepError("this optimizer has no loss scale: create it with loss_scale=True")
        return loss * self._scale_values(loss.device)["scale"].to(loss.dtype)

    def unscale_(self):
        """Divides the gradients by the scale now, to clip them; step() then does not."""
        if not self._settings["loss_scale"] or self._unscaled:
            raise LockstepError("unscale_ is for optimizers with loss_scale, once before each step()")
        gradients = [p.grad for group in self.param_groups for p in group["params"]
                     if p.grad is not None]
        if gradients:
            scale = self._scale_values(gradients[0].device)["scale"]
            with torch.no_grad():
                torch._foreach_mul_(gradients, (1 / scale.double()).float())
        self._unscaled = True

    def loss_scale(self):
        """The scale and how many steps were left out, as numbers: waits for the device."""
        if self._scale is None:
            return (self._settings["loss_scale"] or SCALE_DEFAULTS)["init_scale"], 0
        return self._scale["scale"].item(), self._scale["skipped"].item()

    def _check_overflow(self, work):
        if not work:
            return
        device = work[0][0].device
        values, context = self._scale_values(device), context_of(device)
        with context:
            bound = self._check.get(context)
            if bound is None:
                source = Source(CHECK_STEP.format(type=TYPES[self._gradient.type]), "check")
                bound = self._check[context] = Bound(source, device)
                options = self._settings["loss_scale"]
                for name in ("growth", "backoff", "interval"):
                    key = "growth_interval" if name == "interval" else name + "_factor"
                    bound.set(source.signature.by_name[name], options[key])
            names = bound.source.signature.by_name
            for name, value in values.items():
                bound.bind(names[name], describe(value))
            looked_at = [(lot.key, addresses) for lot, _, addresses in work]
            if self._looked_at != looked_at:
                self._outside_capture("gradients are not where they were")
                bound.bind(names["g"], [(address, self._gradient.type, (g.numel(),), None)
                                        for _, gradients, addresses in work
                                        for g, address in zip(gradients, addresses)])
                self._looked_at = looked_at
            bound.set(names["unscaled"], self._unscaled)
            bound.launch()
            for lot, _, _ in work:
                if lot.device != device:
                    raise LockstepError("a loss scale serves one device, and there are gradients on "
                                        f"{device} and {lot.device}")
                own = lot.bound.source.signature.by_name
                lot.bound.bind(own["inverse_scale"], describe(values["inverse"]))
                lot.bound.bind(own["found_inf"], describe(values["found_inf"]))

    # ---- saving ----

    def __getstate__(self):
        return {**super().__getstate__(), "settings": self._settings,
                "scale": None if self._scale is None else dict(self._scale)}

    def __setstate__(self, state):
        state = dict(state)
        settings, scale = state.pop("settings", None), state.pop("scale", None)
        if settings is not None:  # a copy, or from a pickle
            self._settings = settings
            self._open([{"params": group["params"]} for group in state["param_groups"]])
            self._scale = scale
        super().__setstate__(state)
        if not hasattr(self, "_zero_grad_profile_name"):
            self._patch_step_function()
        self._lots = None

    def state_dict(self):
        made = super().state_dict()
        for group in made["param_groups"]:
            group["maximize"] = self._settings["maximize"]
        if self._scale is not None:
            made["loss_scale"] = {name: self._scale[name] for name in ("scale", "good", "skipped")}
        return made

    def load_state_dict(self, state_dict):
        """Of an optimizer of the same step, which then goes on bit for bit; or PyTorch's own of the same
        kind, such as torch.optim.AdamW for std/optim:adamw."""
        given = dict(state_dict)
        scale = given.pop("loss_scale", None)
        # PyTorch would bring every value to its parameter's type.
        given["state"] = {index: _Kept(dict(values)) for index, values in given["state"].items()}
        given["param_groups"] = [self._loaded_group(own, group) for own, group in itertools.zip_longest(
            self.param_groups, given["param_groups"], fillvalue={})][:len(given["param_groups"])]
        before = self.state, self.param_groups
        try:
            super().load_state_dict(given)
            self._take_state()
        except BaseException:
            self.state, self.param_groups = before
            raise
        if scale is not None and self._settings["loss_scale"]:
            device = next(p for group in self.param_groups for p in group["params"]).device
            for name, value in scale.items():
                self._scale_values(device)[name].copy_(value)

    def _loaded_group(self, own, group):
        group = {**{key: own[key] for key in self._defaults if key in own}, **group}
        for key, value in (("maximize", self._settings["maximize"]), ("amsgrad", False)):
            if group.get(key, value) != value and not (key == "amsgrad" and any(
                    p.name == "v_max" for p in self._states)):
                raise ValueError(f"the state was saved with {key}={group[key]}, this optimizer has {value}")
        group.pop("maximize", None)
        return group

    def _take_state(self):
        """Copies what was loaded into state of the step's own types; parameters of a group with the same
        rank-0 values share them."""
        shared, taken = {}, collections.defaultdict(dict)
        for index, group in enumerate(self.param_groups):
            for p in group["params"]:
                kept = self.state.get(p)
                values = {STATE_NAMES.get(k, k) if k not in self._all_names() else k: v
                          for k, v in (kept.values if isinstance(kept, _Kept) else kept or {}).items()
                          if v is not None}
                if not values:
                    continue
                if "count" not in self._starts:
                    values.pop("count", None)
                elif "m" in values:
                    values.setdefault("count", 1)  # torch.optim.SGD counts by having a buffer
                if set(values) != self._all_names():
                    raise ValueError(f"{self._called(p)}: the state loaded has {', '.join(values)}, and "
                                     f"{self._settings['step']} keeps {', '.join(self._all_names())}")
                taken[p] = {s.name: self._loaded(s, p, values[s.name]) for s in self._states}
                cells = {c.name: torch.as_tensor(values[c.name]).detach().cpu().to(DTYPES[c.type])
                         for c in self._cells}
                key = index, p.device, tuple(c.item() for c in cells.values())
                if key not in shared:
                    shared[key] = {name: cell.reshape(()).to(p.device, copy=True)
                                   for name, cell in cells.items()}
                taken[p].update(shared[key])
        self.state, self._lots = taken, None

    def _all_names(self):
        return {p.name for p in self._states} | set(self._starts)

    def _loaded(self, parameter, p, value):
        made = self._new_state(parameter, p)
        if tuple(value.shape) != tuple(made.shape):
            raise ValueError(f"{self._called(p)}: the state `{parameter.name}` loaded has shape "
                             f"{tuple(value.shape)}, not {tuple(made.shape)}")
        return made.copy_(value)


class _Kept:
    """State that load_state_dict of PyTorch's leaves alone."""

    def __init__(self, values):
        self.values = values
