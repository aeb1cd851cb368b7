"""Liger Kernel: LinkedIn's Triton kernels for language models, as its functional interface gives them. What it changes
in place (logits, and the inputs of a backward pass) are copies of its own."""
import importlib.metadata

import torch
from liger_kernel.transformers import functional as liger


def gradients(function, inputs, dy):
    """The backward pass alone: the forward one is done once."""
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    out = function(*leaves)
    return lambda: torch.autograd.grad(out, leaves, dy, retain_graph=True)


def rms_norm(x, gain):
    return liger.liger_rms_norm(x, gain, 1e-6, in_place=False)


def layer_norm(x, gain, shift):
    return liger.liger_layer_norm(x, gain, shift, 1e-5)


def cross_entropy(logits, target):
    """Loss and gradient: it leaves the gradient where the logits were."""
    def run():
        copy = logits.detach().requires_grad_()
        return liger.liger_cross_entropy(copy, target).detach(), copy.detach()
    return run


# work -> (function, the parameters it takes)
FORWARD = {"softmax": (liger.liger_softmax, ("x",)), "rms_norm": (rms_norm, ("x", "gain")),
           "layer_norm": (layer_norm, ("x", "gain", "shift")), "swiglu": (liger.liger_swiglu, ("gate", "up"))}
BACKWARD = {"rms_norm_backward": (rms_norm, ("x", "gain")), "swiglu_backward": (liger.liger_swiglu, ("gate", "up")),
            "layer_norm_backward": (layer_norm, ("x", "gain", "shift"))}


class Peer:
    name = "liger"

    def __init__(self):
        self.version = importlib.metadata.version("liger-kernel")

    def candidates(self, case, tensors):
        if case.work == "cross_entropy":
            return {"liger": cross_entropy(tensors["logits"].clone(), tensors["target"])}
        if case.work in FORWARD:
            function, names = FORWARD[case.work]
            values = [tensors[name] for name in names]
            return {"liger": torch.no_grad()(lambda: function(*values))}
        if case.work not in BACKWARD:
            return {}
        function, names = BACKWARD[case.work]
        return {"liger": gradients(function, [tensors[name] for name in names], tensors["dy"])}


def results(case, value):
    """In the order of case.results."""
    return list(value) if isinstance(value, (tuple, list)) else [value]


def open(device):
    if device != "cuda":
        raise ImportError("Liger's kernels are Triton's, which compiles for GPUs only")
    return Peer()
