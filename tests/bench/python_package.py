"""The tables of runtime/python/README.md: what the Python package costs a call, beside PyTorch and
JAX.

    LOCKSTEP_PYTHON/bin/python tests/bench/python_package.py [ROW ...]

Needs PyTorch, JAX and NumPy, and a machine with nothing else to do: each figure is the least of
many runs, ours and theirs in turns. Prints Markdown; the README has what it printed, with the
machine.
"""

import os
import platform
import sys
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "runtime", "python"))
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy  # noqa: E402
import torch  # noqa: E402
from torch.nn import functional as F  # noqa: E402
import lockstep  # noqa: E402
import lockstep.jax  # noqa: E402
import lockstep.torch as lt  # noqa: E402


def least(rows, seconds=3.0):
    """The least time of each of several functions, which take turns."""
    best = {}
    for name, run in rows.items():
        run()
        run()
    end = time.perf_counter() + seconds * len(rows)
    while time.perf_counter() < end:
        for name, run in rows.items():
            count, begin = 0, time.perf_counter()
            while count < 3 or time.perf_counter() - begin < 0.02:
                at = time.perf_counter()
                run()
                took = time.perf_counter() - at
                best[name] = min(took, best.get(name, took))
                count += 1
    return best


def said(seconds):
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1 or unit == "µs":
            return f"{seconds * factor:.3g} {unit}"


def gradients(function, tensors):
    def run():
        for t in tensors:
            t.grad = None
        function().backward()

    return run


def calls():
    """What a call costs: silu of 16 floats."""
    step = lt.Step("std/activations:silu_forward")
    op, array, out = step.op(), numpy.ones(16, "f4"), numpy.empty(16, "f4")
    x, y = torch.ones(16), torch.empty(16)
    ours = jax.jit(lambda v: lockstep.jax.call("std/activations:silu_forward", v))
    theirs, vector = jax.jit(jax.nn.silu), jnp.ones(16)
    with lockstep.graph() as graph:
        step(x, y=y)
    return least(
        {
            "`lockstep.Step` on a NumPy array, output given": lambda: step(array, y=out),
            "`lockstep.torch.Step`, output given": lambda: step(x, y=y),
            "`lockstep.torch.Step`": lambda: step(x),
            "`Step.op()`": lambda: op(x),
            "`lockstep.graph`, a replay": graph.launch,
            "`lockstep.graph`, one of `repeat(1000)`": lambda: graph.repeat(1000),
            "`torch.nn.functional.silu`": lambda: F.silu(x),
            "`lockstep.jax.call` in `jax.jit`": lambda: ours(vector).block_until_ready(),
            "`jax.nn.silu` in `jax.jit`": lambda: theirs(vector).block_until_ready(),
        },
        1.0,
    )


def cross_entropy():
    """Loss and its gradient."""
    logits, target = torch.randn(1024, 50257, requires_grad=True), torch.randint(50257, (1024,))
    op = lt.Step("std/losses:cross_entropy").op(["loss"])
    compiled = torch.compile(F.cross_entropy)
    return {
        "ours": gradients(lambda: op(logits, target), [logits]),
        "eager": gradients(lambda: F.cross_entropy(logits, target), [logits]),
        "compiled": gradients(lambda: compiled(logits, target), [logits]),
    }


def rms_norm():
    x, gain = torch.randn(4096, 4096, requires_grad=True), torch.randn(4096, requires_grad=True)
    upstream = torch.randn(4096, 4096)
    op = lt.Step("std/norms:rms_norm_forward").op()

    def run(function):
        def one():
            x.grad = gain.grad = None
            function(x, gain).backward(upstream)

        return one

    theirs = torch.compile(lambda x, gain: F.rms_norm(x, (4096,), gain, 1e-6))
    return {
        "ours": run(op),
        "eager": run(lambda x, gain: F.rms_norm(x, (4096,), gain, 1e-6)),
        "compiled": run(theirs),
    }


def swiglu():
    gate, up = (torch.randn(2048, 4096, requires_grad=True) for _ in range(2))
    op = lt.Step("std/activations:swiglu_forward").op()
    compiled = torch.compile(lambda gate, up: F.silu(gate) * up)

    def run(function):
        def one():
            gate.grad = up.grad = None
            function(gate, up).sum().backward()

        return one

    return {
        "ours": run(op),
        "eager": run(lambda gate, up: F.silu(gate) * up),
        "compiled": run(compiled),
    }


def optimizer(shapes, missing=False):
    def parameters():
        p = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
        for t in p:
            t.grad = torch.randn_like(t)
        return p

    def run(p, made):
        if not missing:
            return made.step
        gradients, generator = [t.grad for t in p], torch.Generator().manual_seed(0)

        def one():
            for t, g, here in zip(
                p, gradients, (torch.rand(len(p), generator=generator) < 0.5).tolist()
            ):
                t.grad = g if here else None
            made.step()

        return one

    p, q, r = parameters(), parameters(), parameters()
    return {
        "ours": run(p, lt.Optimizer(p, "std/optim:adamw")),
        "eager": run(q, torch.optim.AdamW(q)),
        "compiled": run(r, torch.optim.AdamW(r, fused=True)),
    }


def jax_optimizer(shapes):
    """Parameters and state donated, as a trainer has it."""
    import optax

    def run(apply, init):
        parameters = [jnp.ones(shape) for shape in shapes]
        gradients = [jnp.full(shape, 0.5) for shape in shapes]
        kept = [parameters, init(parameters)]
        step = jax.jit(apply, donate_argnums=(1, 2))

        def one():
            kept[:] = jax.block_until_ready(step(gradients, *kept))

        return one

    theirs = optax.adamw(1e-3)

    def apply(gradients, parameters, state):
        updates, state = theirs.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state

    ours = lockstep.jax.optimizer("std/optim:adamw", lr=1e-3)
    return {"ours": run(ours.apply, ours.init), "optax": run(apply, theirs.init)}


GPT2 = (
    [(50257, 768), (1024, 768)]
    + 12
    * [
        (768,),
        (768,),
        (768, 2304),
        (2304,),
        (768, 768),
        (768,),
        (768,),
        (768,),
        (768, 3072),
        (3072,),
        (3072, 768),
        (768,),
    ]
    + [(768,), (768,)]
)
ROWS = {
    "cross entropy and its gradient, f32 1024 × 50257": cross_entropy,
    "RMSNorm and its gradients, f32 4096 × 4096": rms_norm,
    "SwiGLU and its gradients, f32 2048 × 4096": swiglu,
    "AdamW, the 148 tensors of GPT-2": lambda: optimizer(GPT2),
    "AdamW, 148 tensors of 16": lambda: optimizer(148 * [(16,)]),
    "AdamW, 64 tensors of 16, half without a gradient": lambda: optimizer(64 * [(16,)], True),
}


def processor():
    with open("/proc/cpuinfo") as file:
        return next(
            (line.split(":")[1].strip() for line in file if line.startswith("model name")),
            platform.machine(),
        )


def main():
    wanted = sys.argv[1:]
    print(
        f"{processor()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}; "
        f"PyTorch {torch.__version__}, "
        f"JAX {jax.__version__}, Lockstep {lockstep.version()}\n"
    )
    if not wanted or "calls" in wanted:
        print("| a call | |\n| --- | --- |")
        for name, seconds in calls().items():
            print(f"| {name} | {said(seconds / (1000 if 'repeat' in name else 1))} |")
        print()
    print("| | Lockstep | PyTorch | PyTorch compiled, or `fused=True` |\n| --- | --- | --- | --- |")
    for name, made in ROWS.items():
        if not wanted or any(word in name for word in wanted):
            best = least(made(), 4.0)
            print(
                f"| {name} | "
                + " | ".join(said(best[kind]) for kind in ("ours", "eager", "compiled"))
                + " |",
                flush=True,
            )
    if not wanted or "optax" in wanted:
        print("\n| in JAX, parameters and state donated | Lockstep | optax |\n| --- | --- | --- |")
        for name, shapes in (
            ("AdamW, the 148 tensors of GPT-2", GPT2),
            ("AdamW, 148 tensors of 16", 148 * [(16,)]),
        ):
            best = least(jax_optimizer(shapes), 4.0)
            print(f"| {name} | {said(best['ours'])} | {said(best['optax'])} |", flush=True)


if __name__ == "__main__":
    main()
