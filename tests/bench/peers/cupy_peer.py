"""CuPy: element-wise kernels, a fused function and its reductions (CUB's, where CUPY_ACCELERATORS says cub), on
PyTorch's stream. It has no bf16."""
import cupy
import torch

ADAMW = """
    m = 0.9f * m + 0.1f * g;
    v = 0.999f * v + 0.001f * g * g;
    p -= 1e-3f * (m / first / (sqrtf(v / second) + 1e-8f) + 0.01f * p);
"""


@cupy.fuse()
def shifted(x, top):
    return cupy.exp(x - top)


@cupy.fuse()
def scaled(x, square, gain, eps):
    return x / cupy.sqrt(square + eps) * gain


def softmax(x):
    power = shifted(x, x.max(-1, keepdims=True))
    power /= power.sum(-1, keepdims=True)
    return power


def layer_norm(x, gain, shift):
    centred = x - x.mean(-1, keepdims=True)
    return scaled(centred, (centred * centred).mean(-1, keepdims=True), gain, 1e-5) + shift


def rms_norm(x, gain):
    return scaled(x, (x * x).mean(-1, keepdims=True), gain, 1e-6)


FORMULAS = {"softmax": (softmax, ("x",)), "layer_norm": (layer_norm, ("x", "gain", "shift")),
            "rms_norm": (rms_norm, ("x", "gain")), "sum": (lambda x: x.sum(), ("x",)),
            "any_nan": (lambda x: cupy.isnan(x).any(), ("x",)),
            "norm": (lambda x: cupy.sqrt((x * x).sum()), ("x",))}


class Peer:
    name = "cupy"

    def __init__(self):
        self.version = cupy.__version__
        self.stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
        self.adamw = cupy.ElementwiseKernel("float32 g, float32 first, float32 second",
                                            "float32 p, float32 m, float32 v", ADAMW, "adamw")

    def on_stream(self, function):
        def run():
            with self.stream:
                return function()
        return run

    def candidates(self, case, tensors):
        flat = [t for value in tensors.values() for t in (value if isinstance(value, list) else [value])]
        if any(t.dtype == torch.bfloat16 for t in flat):
            return {}
        arrays = {key: [cupy.from_dlpack(t) for t in value] if isinstance(value, list)
                  else cupy.from_dlpack(value) for key, value in tensors.items()}
        if case.work == "adamw":
            lists = [value if isinstance(value, list) else [value] for value in (arrays[k] for k in "gpmv")]
            count = [10]

            def run():
                count[0] += 1
                first, second = 1 - 0.9 ** count[0], 1 - 0.999 ** count[0]
                for g, p, m, v in zip(*lists):
                    self.adamw(g, first, second, p, m, v)
            return {"cupy": self.on_stream(run)}
        if case.work not in FORMULAS:
            return {}
        formula, names = FORMULAS[case.work]
        return {"cupy": self.on_stream(lambda: formula(*(arrays[name] for name in names)))}


def results(case, value):
    """In the order of case.results; None: in the row's own arrays. PyTorch takes no flags from others."""
    if case.work == "adamw":
        return [None] * len(case.results)
    return [value.astype("float32") if value.dtype == bool else value]


def open(device):
    if device != "cuda":
        raise ImportError("CuPy runs on GPUs only")
    return Peer()
