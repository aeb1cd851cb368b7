"""The arrays of a row on the CPU, without any library of arrays: memory, values, samples of results, and the
kernels of native/*.c that move as many bytes as a row must."""
import ctypes as C
import dataclasses
import functools
import glob
import math
import os
import subprocess
import time

from cases import BYTES

HERE = os.path.dirname(os.path.abspath(__file__))
TYPES = {"f32": 0, "bf16": 1, "i64": 2}
FILLS = {"out": 0, "zeros": 0, "normal": 1, "positive": 2, "small": 3, "classes": 4}
SAMPLES = 1 << 16         # of each result
FAR_CACHE = 32 << 20      # from this many bytes on, outputs are streamed past the caches
TRAFFIC_MOST = 1 << 30    # memory of the traffic-only kernels; a row with more bytes goes over it several times
FAST = ["-mprefer-vector-width=512", "-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros",
        "-fassociative-math", "-ffinite-math-only"]
OTHERS = {"memory.c": [], "plain.c": ["-Ofast"]}  # the first looks for NaNs


class Piece(C.Structure):
    _fields_ = [("at", C.c_void_p * 6), ("n", C.c_size_t), ("before", C.c_size_t)]


class Work(C.Structure):
    _fields_ = [("at", C.c_void_p * 8), ("pieces", C.POINTER(Piece)), ("piece_count", C.c_size_t),
                ("n", C.c_size_t), ("rows", C.c_size_t), ("columns", C.c_size_t), ("pitch", C.c_size_t),
                ("threads", C.c_int64), ("stream", C.c_int64), ("count", C.c_int64), ("scale", C.c_double), ("result", C.c_double),
                ("state", C.c_double * 4)]


@functools.lru_cache(None)
def native(build):
    """native/*.c as a shared object, by the machine's own gcc for this machine; made where it is older."""
    folder = os.path.join(build, "tests", "bench")
    path = os.path.join(folder, "native.so")
    sources = sorted(glob.glob(os.path.join(HERE, "native", "*.c")))
    depend = sources + glob.glob(os.path.join(HERE, "native", "*.h"))
    if not os.path.exists(path) or os.path.getmtime(path) < max(map(os.path.getmtime, depend)):
        common = ["gcc", "-O3", "-march=native", "-fopenmp", "-fPIC"]
        objects = []
        for source in sources:
            objects.append(os.path.join(folder, os.path.basename(source)[:-1] + f"{os.getpid()}.o"))
            fast = OTHERS.get(os.path.basename(source), FAST)
            subprocess.run([*common, *fast, "-c", source, "-o", objects[-1]], check=True)
        fresh = f"{path}.{os.getpid()}"
        subprocess.run([*common, "-shared", *objects, "-o", fresh, "-lm"], check=True)
        os.replace(fresh, path)
        for file in objects:
            os.remove(file)
    library = C.CDLL(path)
    size, integer, pointer = C.c_size_t, C.c_int, C.c_void_p
    for name, result, arguments in (
            ("native_alloc", pointer, [size]),
            ("native_fill", None, [pointer, integer, integer, size, C.c_uint64, C.c_int64]),
            ("native_sample", None, [pointer, integer, size, size, pointer]),
            ("native_distance", C.c_double, [pointer, pointer, size]),
            ("native_touch", None, [pointer, size]),
            ("native_launches", integer, [pointer, pointer, C.c_uint64]),
            ("native_run", None, [pointer, pointer, size]),
            ("native_traffic_memory", size, [size, integer]),
            ("native_traffic", integer, [pointer, size] + 6 * [integer] + [size, integer, size])):
        getattr(library, name).restype = result
        getattr(library, name).argtypes = arguments
    return library


@dataclasses.dataclass
class Memory:
    """One array: what it is and where. `pitch`: elements from a row to the next, where there is a gap."""
    address: int
    dtype: str
    shape: tuple
    count: int  # of elements that it spans
    seed: int = 0
    pitch: int = 0

    def buffer(self):
        """Its bytes, as Python's buffers go."""
        return (C.c_char * (self.count * BYTES[self.dtype])).from_address(self.address)

    def rows(self):
        """Each row as an array of its own, without the gaps."""
        step = self.pitch * BYTES[self.dtype]
        return [Memory(self.address + r * step, self.dtype, self.shape[1:], self.shape[1]) for r in range(self.shape[0])]


class Arena:
    """Memory that is touched once and handed out anew for every row."""

    def __init__(self, library, most):
        self.library, self.most, self.used = library, most, 0
        self.base = library.native_alloc(most)
        if not self.base:
            raise MemoryError(f"no {most >> 20} MiB for the arrays")

    def take(self, count, gap):
        at = self.base + self.used
        self.used += (count + gap - 1) // gap * gap
        if self.used > self.most:
            raise MemoryError(f"a row needs more than {self.most >> 20} MiB")
        return at

    def arrays(self, case):
        """parameter -> Memory, or a list of them for a list of tensors."""
        self.used, seed, made = 0, 0, {}
        for index, (name, array) in enumerate(case.arrays.items()):
            found = []
            self.used += 4096 + 1088 * index  # no two arrays begin at the same place of the caches' sets
            for shape, count in zip(array.shapes, array.counts):
                seed += 1
                if array.gap:
                    count = shape[0] * (shape[1] + array.gap)
                found.append(Memory(self.take(count * BYTES[array.dtype], 64), array.dtype, shape, count, seed,
                                    shape[1] + array.gap if array.gap else 0))
            self.used = (self.used + 4095) // 4096 * 4096
            made[name] = found if array.listed else found[0]
        return made

    def fill(self, case, made, everything):
        """Sets values; not `everything`: those of arrays that a launch changes, as they were at first."""
        for name, array in case.arrays.items():
            if not everything and not array.changed and array.fill != "out":
                continue
            classes = array.fill[1] if isinstance(array.fill, tuple) else 1
            fill = FILLS[array.fill[0] if isinstance(array.fill, tuple) else array.fill]
            for one in listed(made[name]):
                self.library.native_fill(one.address, TYPES[one.dtype], fill, one.count, one.seed, classes)


def listed(value):
    return value if isinstance(value, list) else [value]


def sample(library, value):
    """Doubles of a result: a number, a Memory, or a list of Memory."""
    if isinstance(value, (bool, int, float)):
        return (C.c_double * 1)(value)
    parts = value.rows() if getattr(value, "pitch", 0) else listed(value)
    wants = [min(part.count, max(32, SAMPLES // len(parts))) for part in parts]
    out, at = (C.c_double * sum(wants))(), 0
    for part, want in zip(parts, wants):
        library.native_sample(part.address, TYPES[part.dtype], part.count, want, C.byref(out, 8 * at))
        at += want
    return out


def distance(library, found, expected):
    """0 for equal, about the relative error else."""
    if len(found) != len(expected):
        return math.inf
    return library.native_distance(found, expected, len(found))


class Traffic:
    """The machine's best rate in this moment for a row's pattern of reads, writes and updates in place."""

    def __init__(self, library, case, threads):
        rank = max(len(a.shapes[0]) for a in case.arrays.values())
        arrays = [a for a in case.arrays.values() if len(a.shapes[0]) == rank]  # not gains and targets
        widest = max(a.bytes for a in arrays)
        kinds = lambda wide: [a for a in arrays if (a.bytes == widest) == wide]
        count = lambda some, kind: sum(kind == ("update" if a.changed else "write" if a.fill == "out" else "read")
                                       for a in some)
        passes = [tuple(count(kinds(True), k) for k in ("read", "write", "update")) +
                  tuple(count(kinds(False), k) for k in ("read", "write"))]
        passes += [(0, 0, 0, 1, 0) for a in arrays if a.twice]
        self.moved = sum(a.bytes * (2 if a.changed or a.twice else 1) for a in arrays)
        total = sum(a.bytes for a in arrays)
        self.times = -(-total // TRAFFIC_MOST)
        self.bytes = -(-widest // self.times)
        self.passes, self.threads = passes, threads
        self.large = total > FAR_CACHE
        self.stream, self.far = int(self.large), 1024
        self.library = library

    def memory(self):
        """The bytes that it goes over."""
        return self.library.native_traffic_memory(self.bytes, max(sum(p) for p in self.passes))

    def run(self, memory, times):
        for pattern in self.passes:
            if self.library.native_traffic(memory, self.bytes, *pattern, self.stream, self.far,
                                           self.threads, times * self.times):
                raise ValueError(f"native/memory.c has no pattern {pattern}: add it to PATTERNS")

    def tune(self, memory, times):
        """Keeps the way of storing and of asking ahead that is the fastest here."""
        found = []
        for self.stream in (0, 1) if self.large else (0,):
            for self.far in (0, 1024, 4096):
                took = []
                for _ in range(4):
                    start = time.perf_counter()
                    self.run(memory, times)
                    took.append(time.perf_counter() - start)
                found.append((min(took), self.stream, self.far))
        _, self.stream, self.far = min(found)
