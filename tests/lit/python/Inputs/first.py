"""A first program on an installed package: a regression on NumPy's arrays, trained."""

import os
import subprocess
import sys

import numpy

import lockstep

assert lockstep.__file__.startswith(sys.prefix), lockstep.__file__
train = lockstep.step("""
step train[b, k](x: f32[b, k], y: f32[b], inout w: f32[k], out loss: f32, lr: f32 = 0.1) {
    let error = mean((sum[k](x * w) - y) ** 2)
    loss = error
    w -= lr * grad(error, w)
}
""")
random = numpy.random.default_rng(0)
x, truth = random.standard_normal((1000, 8), "f4"), numpy.arange(8, dtype="f4")
w, y = numpy.zeros(8, "f4"), x @ truth
losses = [float(train(x, y, w)) for _ in range(100)]
assert losses[-1] < 1e-6 * losses[0] and abs(w - truth).max() < 1e-3, (losses[0], losses[-1], w)
said = subprocess.run(
    [os.path.join(sys.prefix, "bin", "lockstep"), "--version"], capture_output=True, text=True
)
assert said.returncode == 0 and lockstep.version() in said.stdout, said
print(f"trained: loss {losses[0]:.3g} to {losses[-1]:.3g}")
