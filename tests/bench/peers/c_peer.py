"""The same work by hand in C (native/*.c), compiled by gcc for this machine: one fork and join a step, rows
kept in the near cache, the next one prefetched, results streamed past the caches; and for rows also the plain
loops of a trainer in C, compiled with -Ofast, on one thread and with OpenMP."""
import ctypes as C
import os

from arrays import FAR_CACHE, Piece, Work, listed, native
from lockstep import ROOT

PIECE = 1 << 16  # elements of a list's tensor that are worked on as one
LEAST = 16 << 10  # elements from which on a second thread is worth its fork
ORDERS = {  # work -> the arrays in the order in which the kernel takes them
    "gelu": ("x", "y"), "gelu_backward": ("x", "dy", "dx"), "swiglu": ("gate", "up", "y"),
    "swiglu_backward": ("gate", "up", "dy", "dgate", "dup"), "softmax": ("x", "y"),
    "layer_norm": ("x", "gain", "shift", "y"), "rms_norm": ("x", "gain", "y"),
    "layer_norm_backward": ("x", "gain", "dy", "dx", "dgain", "dshift"),
    "rms_norm_backward": ("x", "gain", "dy", "dx", "dgain"),
    "cross_entropy": ("logits", "target", "dlogits"), "cross_entropy_forward": ("logits", "target"),
    "sum": ("x",), "any_nan": ("x",), "norm": ("x",), "row_sum": ("x", "s"),
}
LISTS = {"adamw": ("p", "m", "v", "g"), "amp_phase": ("p", "m", "v", "g", "average", "w")}


class Kernel:
    def __init__(self, library, name, work):
        self.run, self.kernel, self.work = library.native_run, C.cast(getattr(library, name), C.c_void_p), work
        self.at = C.byref(work)

    def __call__(self):
        self.run(self.kernel, self.at, 1)
        return self.work.result

    def many(self, times):
        self.run(self.kernel, self.at, times)


def pieces(lists):
    """lists: for each array its tensors."""
    found, before = [], 0
    for tensors in zip(*lists):
        count = tensors[0].count
        for start in range(0, count, PIECE):
            n = min(PIECE, count - start)
            at = [t.address + start * (2 if t.dtype == "bf16" else 4) for t in tensors]
            found.append(Piece((C.c_void_p * 6)(*at), n, before))
            before += n
    return (Piece * len(found))(*found), before


class Peer:
    name = "c"

    def __init__(self):
        self.library = native(os.environ.get("LOCKSTEP_BENCH_BUILD", os.path.join(ROOT, "build")))
        self.version = "gcc -O3 -march=native"
        self.threads = len(os.sched_getaffinity(0))

    def candidates(self, case, tensors):
        work = Work(threads=self.threads)
        if case.work in LISTS:
            table, work.n = pieces([listed(tensors[name]) for name in LISTS[case.work]])
            work.pieces, work.piece_count, work.count, work.scale = table, len(table), 10, 1024
        elif case.work in ORDERS:
            first = tensors[ORDERS[case.work][0]]
            for i, name in enumerate(ORDERS[case.work]):
                work.at[i] = tensors[name].address
            work.n, work.columns = first.count, first.shape[-1]
            work.pitch = first.pitch or work.columns
            work.rows = first.count // work.pitch if work.pitch else 0
        else:
            return {}
        total = sum(t.count * (2 if t.dtype == "bf16" else 4) for value in tensors.values() for t in listed(value))
        work.stream = int(total > FAR_CACHE)
        if work.n < LEAST:
            work.threads = 1
        suffix = "" if case.work in LISTS else "_" + case.dtype
        names = {"C": "native", "C plain": "plain", "C plain, OpenMP": "plain"}
        found = {}
        for label, prefix in names.items():
            name = f"{prefix}_{case.work}{suffix}"
            if not hasattr(self.library, name) or (label == "C plain, OpenMP" and self.threads < 2):
                continue
            own = Work.from_buffer_copy(work)
            if prefix == "plain":
                own.threads = 1 if label == "C plain" else self.threads
            found[label] = Kernel(self.library, name, own)
            found[label].kept = work  # what the copy points to
        return found

    def linreg(self, x, y, batches):
        """label -> (function of a number of epochs, function that gives weights and bias)."""
        weights = (C.c_float * (x.shape[1] + 1))()
        work = Work(rows=x.shape[0], columns=x.shape[0] // batches)
        work.at[0], work.at[1], work.at[2] = x.address, y.address, C.addressof(weights)
        kernel = Kernel(self.library, "native_linreg", work)
        return {"C": (lambda epochs: kernel.many(epochs * batches), lambda: list(weights))}


def view(memory):
    return memory


def results(case, value):
    """What the kernel gave, in the order of case.results; None: it lies in the row's own arrays."""
    return [value if name in case.wanted else None for name in case.results]


def open(device):
    if device != "cpu":
        raise ImportError("runs on the CPU only")
    return Peer()
