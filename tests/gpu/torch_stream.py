#!/usr/bin/env python3
"""Lockstep on a stream of PyTorch's: what PyTorch queues before and after a step is seen in order, with no wait of
the host between, and a graph that PyTorch captures takes the step in. Without PyTorch, or without its device, left
out (exit status 77)."""
import argparse
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bench"))
from lockstep import ROOT, Context

STEP = """step double[n](inout p: f32[n], inout count: i64 = 0) {
    count += 1
    p = 2 * p
}
"""
N, ROUNDS = 1 << 20, 20


def left_out(why):
    print(f"left out: {why}")
    sys.exit(77)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    try:
        import torch
    except ImportError as error:
        left_out(str(error))
    on_gpu = options.device != "cpu"
    if on_gpu and not torch.cuda.is_available():
        left_out("PyTorch sees no device")
    place = "cuda" if on_gpu else "cpu"
    stream = torch.cuda.Stream() if on_gpu else None
    if on_gpu:
        torch.cuda.set_stream(stream)
    context = Context(options.build, options.device, stream.cuda_stream if on_gpu else None)
    p = torch.zeros(N, device=place)
    with tempfile.NamedTemporaryFile("w", suffix=".step") as file:
        file.write(STEP)
        file.flush()
        step = context.step(file.name, "double", {"p": (p.data_ptr(), "f32", (N,))})
    expected = 0.0
    for _ in range(ROUNDS):  # ((p + 1) * 2) * 0.5: PyTorch, Lockstep, PyTorch
        p.add_(1)
        step()
        p.mul_(0.5)
        expected += 1.0
    if not bool((p == expected).all()):
        sys.exit(f"FAILED: after {ROUNDS} rounds p is {p.min().item()} to {p.max().item()}, not {expected}")
    if on_gpu:
        other = torch.cuda.Stream()
        other.wait_stream(stream)
        context.use_stream(other.cuda_stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=other):
            p.add_(1)
            step()
            p.mul_(0.5)
        for _ in range(ROUNDS):
            graph.replay()
            expected += 1.0
        torch.cuda.synchronize()
        if not bool((p == expected).all()):
            sys.exit(f"FAILED: in PyTorch's graph p is {p.min().item()} to {p.max().item()}, not {expected}")
    print(f"PyTorch {torch.__version__} on {place}" + (", its stream and its graph" if on_gpu else ""))
    print(f"ok: {int(expected)} rounds")


if __name__ == "__main__":
    main()
