#!/usr/bin/env python3
"""Training loops in PyTorch on a device, in processes of their own: examples/linreg's and examples/charlm's.

    python3 tests/bench/peers/torch_loops.py --device cuda linreg|charlm [--tiny]

Prints steps (or characters) a second of each form as a JSON object. Without PyTorch, or without the device, it says
so and exits with 77."""
import argparse
import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
BATCHES, BATCH, FEATURES = 39, 256, 64
# charlm's usual model
SIZES = {"layers": 4, "channels": 128, "heads": 4, "context": 64, "batch": 16}
TINY = {"layers": 1, "channels": 32, "heads": 2, "context": 16, "batch": 4}


def left_out(why):
    print(f"left out: {why}")
    sys.exit(77)


def timed(torch, function, seconds, on_gpu):
    """Calls a second; the function is warm."""
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    wait()
    start, calls = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        function()
        calls += 1
    wait()
    return calls / (time.perf_counter() - start)


def captured(torch, function):
    """The function as a graph of PyTorch's, on a stream of its own."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph.replay


def linreg(torch, device, seconds):
    """An epoch of batches with the gradient written out, in place, and the losses and NaNs kept on the device."""
    on_gpu = device != "cpu"
    torch.manual_seed(1)
    x, y = torch.randn(BATCHES, BATCH, FEATURES, device=device), torch.randn(BATCHES, BATCH, 1, device=device)
    w, bias = torch.zeros(FEATURES, 1, device=device), torch.zeros(1, device=device)
    total, bad = torch.zeros((), device=device), torch.zeros((), dtype=torch.bool, device=device)

    def step(xb, yb):
        error = torch.addmm(bias, xb, w) - yb
        loss = error.square().mean()
        error = error * (2 / BATCH)
        w.addmm_(xb.t(), error, alpha=-0.01)
        bias.sub_(error.sum(0), alpha=0.01)
        total.add_(loss, alpha=BATCH)
        bad.logical_or_(torch.isnan(loss))

    def epoch(one):
        for i in range(BATCHES):
            one(x[i], y[i])
    found = {}
    with torch.no_grad():
        compiled = torch.compile(step, dynamic=False)
        for label, one in (("eager", step), ("compiled", compiled)):
            epoch(one)
            found[label] = BATCHES * timed(torch, lambda: epoch(one), seconds, on_gpu)
            if on_gpu:
                graph = captured(torch, lambda: epoch(one))
                found[label + ", an epoch as a graph"] = BATCHES * timed(torch, graph, seconds, on_gpu)
    if bool(bad):
        sys.exit("FAILED: it trained to NaN")
    return found


def charlm(torch, device, seconds, sizes):
    """The same model, shapes and optimizer; weights of any kind, since only the time counts."""
    import torch_charlm
    torch.manual_seed(1)
    width, letters = sizes["channels"], 88
    hidden = (8 * width // 3 + 31) // 32 * 32
    weights = {"letters": (letters, width), "places": (sizes["context"], width), "norm": (width,), "head": (letters, width)}
    for i in range(sizes["layers"]):
        weights.update({f"layer{i:02d}.{name}": shape for name, shape in {
            "norm1": (width,), "qkv": (3 * width, width), "project": (width, width), "norm2": (width,),
            "up": (2 * hidden, width), "down": (width, hidden)}.items()})
    text = torch.randint(letters, (100000,), device=device)
    found = {}
    for label, compiled in (("eager", False), ("compiled", True)):
        made = {name: (0.02 * torch.randn(shape) if len(shape) > 1 else torch.ones(shape)).to(device)
                for name, shape in weights.items()}
        trainer = torch_charlm.Trainer(made, sizes, text, compiled)
        trainer.train(3)
        rate = timed(torch, lambda: trainer.train(1), seconds, device != "cpu")
        found[f"{label}, characters/s"] = rate * sizes["batch"] * sizes["context"]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("what", choices=("linreg", "charlm"))
    options = parser.parse_args()
    try:
        import torch
    except ImportError as error:
        left_out(str(error))
    if options.device != "cpu" and not torch.cuda.is_available():
        left_out("PyTorch sees no device")
    seconds = 0.05 if options.tiny else 3.0
    if options.what == "linreg":
        found = linreg(torch, options.device, seconds)
    else:
        found = charlm(torch, options.device, seconds, TINY if options.tiny else SIZES)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
