"""The little of Lockstep's C API that the benchmarks need, through ctypes."""
import ctypes as C
import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TYPES = {"f64": 0, "f32": 1, "i64": 2, "i32": 3, "bool": 6, "f16": 7, "bf16": 8}


class Tensor(C.Structure):
    _fields_ = [("data", C.c_void_p), ("type", C.c_int), ("rank", C.c_uint32),
                ("shape", C.POINTER(C.c_int64)), ("strides", C.POINTER(C.c_int64))]


def load(build):
    """build: a build folder, or a shared object that has the library in it."""
    library = C.CDLL(build if build.endswith(".so") else os.path.join(build, "liblockstep.so"))
    pointer, text = C.c_void_p, C.c_char_p
    for name, arguments in {
            "ls_context_create": [text, pointer, C.POINTER(pointer)],
            "ls_program_load": [pointer, text, pointer, C.POINTER(pointer)],
            "ls_step_create": [pointer, text, C.POINTER(pointer)],
            "ls_step_bind": [pointer, text, C.POINTER(Tensor)],
            "ls_step_bind_list": [pointer, text, C.POINTER(Tensor), C.c_size_t],
            "ls_step_set_number": [pointer, text, C.c_double],
            "ls_step_want": [pointer, text],
            "ls_step_prepare": [pointer], "ls_steps_prepare": [C.POINTER(pointer), C.c_size_t],
            "ls_step_launch": [pointer], "ls_step_destroy": [pointer], "ls_step_set": [pointer, text, pointer],
            "ls_step_get": [pointer, text, pointer],
            "ls_graph_begin": [pointer], "ls_graph_end": [pointer, C.POINTER(pointer)],
            "ls_graph_repeat": [pointer, C.c_uint64],
            "ls_graph_launch": [pointer], "ls_context_use_stream": [pointer, pointer],
            "ls_alloc": [pointer, C.c_size_t, C.POINTER(pointer)], "ls_free": [pointer, pointer],
            "ls_fill_zero": [pointer, pointer, C.c_size_t],
            "ls_copy_in": [pointer, pointer, pointer, C.c_size_t], "ls_copy_out": [pointer, pointer, pointer, C.c_size_t],
            "ls_event_create": [pointer, C.POINTER(pointer)], "ls_event_record": [pointer],
            "ls_event_elapsed": [pointer, pointer, C.POINTER(C.c_double)],
            "ls_synchronize": [pointer]}.items():
        getattr(library, name).argtypes = arguments
    for name in ("ls_error_message", "ls_context_describe", "ls_context_target", "ls_context_stream"):
        getattr(library, name).argtypes = [pointer]
        getattr(library, name).restype = pointer if name == "ls_context_stream" else text
    return library


def tensor_of(address, dtype, shape, pitch=0):
    """`pitch`: elements from a row to the next, where there is a gap."""
    strides = (C.c_int64 * 2)(pitch, 1) if pitch else None
    return Tensor(address, TYPES[dtype], len(shape), (C.c_int64 * len(shape))(*shape), strides)


class Context:
    def __init__(self, build, device, stream=None):
        self.library, self.handle = load(build), C.c_void_p()
        self.check(self.library.ls_context_create(device.encode(), stream, C.byref(self.handle)))
        self.description = self.library.ls_context_describe(self.handle).decode()
        self.target = self.library.ls_context_target(self.handle).decode()
        self.stream = self.library.ls_context_stream(self.handle)

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.library.ls_error_message(self.handle).decode())

    def synchronize(self):
        self.check(self.library.ls_synchronize(self.handle))

    def use_stream(self, stream):
        self.check(self.library.ls_context_use_stream(self.handle, stream))

    def step(self, path, name, arrays, wanted=(), prepare=True, **cells):
        """arrays: name -> (address, type, shape, pitch or 0), or a list of them for a list of tensors; not `prepare`: its code
        is made at the first launch, or by `prepare` together with others'"""
        program, step = C.c_void_p(), C.c_void_p()
        self.check(self.library.ls_program_load(self.handle, path.encode(), None, C.byref(program)))
        self.check(self.library.ls_step_create(program, name.encode(), C.byref(step)))
        for parameter, array in arrays.items():
            if isinstance(array, list):
                tensors = (Tensor * len(array))(*(tensor_of(*one) for one in array))
                self.check(self.library.ls_step_bind_list(step, parameter.encode(), tensors, len(array)))
            else:
                tensor = tensor_of(*array)
                self.check(self.library.ls_step_bind(step, parameter.encode(), C.byref(tensor)))
        for parameter in wanted:
            self.check(self.library.ls_step_want(step, parameter.encode()))
        for parameter, value in cells.items():
            self.check(self.library.ls_step_set_number(step, parameter.encode(), value))
        if prepare:
            self.check(self.library.ls_step_prepare(step))
        return Step(self, step)

    def graph(self, step):
        """A function that replays one launch of the step."""
        graph = C.c_void_p()
        self.check(self.library.ls_graph_begin(self.handle))
        step()
        self.check(self.library.ls_graph_end(self.handle, C.byref(graph)))
        return lambda: self.check(self.library.ls_graph_launch(graph))

    def prepare(self, steps):
        """Compiles for all of them at once."""
        handles = (C.c_void_p * len(steps))(*(step.handle for step in steps))
        self.check(self.library.ls_steps_prepare(handles, len(steps)))


class Step:
    """A bound step: called, it is launched once. `in_a_row(launch, step, times)`, set from outside, launches it
    from C, as a trainer does; `many` uses that where it is there."""
    in_a_row = None

    def __init__(self, context, handle):
        self.context, self.handle = context, handle
        self.launch = context.library.ls_step_launch

    def __call__(self):
        self.context.check(self.launch(self.handle))

    def many(self, times):
        if self.in_a_row:
            self.context.check(self.in_a_row(self.launch, self.handle, times))
        else:
            for _ in range(times):
                self()

    def destroy(self):
        self.context.library.ls_step_destroy(self.handle)

    def set(self, parameter, value):
        """value: of the C type that the cell has."""
        self.context.check(self.context.library.ls_step_set(self.handle, parameter.encode(), C.byref(value)))

    def get(self, parameter, kind):
        """The value of a cell; kind: the C type of it."""
        value = kind()
        self.context.check(self.context.library.ls_step_get(self.handle, parameter.encode(), C.byref(value)))
        return value.value
