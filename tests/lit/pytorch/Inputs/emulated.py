"""Optimizers on the emulated CUDA device, whose memory is the host's: CPU tensors stand for those of a
device. Streams, the order between them, and a capture as torch.cuda.graph makes it."""
import copy
import ctypes as C
import os
import sys
import unittest

sys.path.insert(0, sys.argv.pop(1))
driver = C.CDLL(os.environ["LOCKSTEP_CUDA"])
import torch  # noqa: E402
import lockstep.torch as lt  # noqa: E402
from lockstep import _context  # noqa: E402


class Stream:
    """Of the driver; notes which streams it was made to wait for."""

    def __init__(self):
        self.pointer, self.waited = C.c_void_p(), []
        assert driver.cuStreamCreate(C.byref(self.pointer), 0) == 0
        self.cuda_stream = self.pointer.value

    def synchronize(self):
        assert driver.cuStreamSynchronize(self.pointer) == 0

    def wait_stream(self, other):
        self.waited.append(other)


class Emulated(_context.Context):
    def __init__(self, kind, index):
        assert kind == "cpu"
        super().__init__("cuda", 0)


class State:
    stream, capturing = None, False


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(10, 33), torch.nn.Tanh(), torch.nn.Linear(33, 3))


def backward(model, number, scale=lambda loss: loss):
    x = torch.randn(16, 10, generator=torch.Generator().manual_seed(number))
    scale((model(x) ** 2).mean()).backward()


def captured(work):
    """The driver's graph of what `work` does on the current stream."""
    graph, executable = C.c_void_p(), C.c_void_p()
    assert driver.cuStreamBeginCapture_v2(State.stream.pointer, 0) == 0
    State.capturing = True
    try:
        work()
    finally:
        State.capturing = False
        assert driver.cuStreamEndCapture(State.stream.pointer, C.byref(graph)) == 0
    assert driver.cuGraphInstantiateWithFlags(C.byref(executable), graph, C.c_uint64(0)) == 0
    return lambda: driver.cuGraphLaunch(executable, State.stream.pointer)


class Devices(unittest.TestCase):
    def setUp(self):
        State.stream = Stream()

    def test_capture(self):
        """Steps, a capture on another stream, replays; beside it the same on the CPU."""
        for options in ({}, {"loss_scale": {"init_scale": 64.0, "growth_interval": 3}}):
            a = network()
            b = copy.deepcopy(a)
            ours = lt.Optimizer(a.parameters(), "std/optim:adamw", lr=1e-2, capturable=True, **options)
            reference = torch.optim.AdamW(b.parameters(), lr=1e-2)
            scale = ours.scale if options else lambda loss: loss
            for number in range(3):
                for model, optimizer, times in ((a, ours, scale), (b, reference, lambda loss: loss)):
                    optimizer.zero_grad()
                    backward(model, number, times)
                    optimizer.step()
            before, State.stream = State.stream, Stream()
            replay = captured(ours.step)
            self.assertEqual(State.stream.waited, [])  # the capture came after what was queued
            for number in range(3, 8):
                if number == 6:  # read by the graph as it lies
                    ours.param_groups[0]["lr"] = reference.param_groups[0]["lr"] = 1e-3
                    ours.write_hyperparameters()
                ours.zero_grad()
                backward(a, number, scale)
                self.assertEqual(replay(), 0)
                reference.zero_grad()
                backward(b, number)
                reference.step()
            for p, q in zip(a.parameters(), b.parameters()):
                torch.testing.assert_close(p, q, atol=1e-6, rtol=1e-5)
            other, State.stream = State.stream, before  # and without a graph, on another stream
            ours.step()
            self.assertIs(before.waited[-1], other)

    def test_not_ready(self):
        """What a capture cannot take is refused, and said."""
        a = network()
        ours = lt.Optimizer(a.parameters(), "std/optim:adamw")
        backward(a, 0)
        for prepare, text in [
                (lambda: None, "no step was taken yet; take a few before"),
                (lambda: (ours.step(), [setattr(p, "grad", p.grad.clone()) for p in a.parameters()]),
                 "gradients are not where they were"),
                (lambda: (ours.step(), [setattr(p, "data", p.data.clone()) for p in a.parameters()]),
                 "parameters are not where they were"),
                (lambda: (ours.step(), setattr(a[0].bias, "grad", None)), "some gradients are None"),
                (lambda: (ours.zero_grad(), backward(a, 0), ours.step(), ours.param_groups[0].update(lr=3e-4)),
                 "`lr` has changed: call write_hyperparameters")]:
            prepare()
            with self.subTest(text), self.assertRaisesRegex(lt.LockstepError, text):
                captured(ours.step)
        ours.write_hyperparameters()
        captured(ours.step)()

    def test_steps(self):
        step = lt.Step("std/losses:mse_loss")
        x, y = torch.randn(50), torch.randn(50)
        first = State.stream
        torch.testing.assert_close(step(x, y).loss, torch.nn.functional.mse_loss(x, y))
        State.stream = Stream()
        torch.testing.assert_close(step(x, y).dx, 2 * (x - y) / 50)
        self.assertEqual(State.stream.waited, [first])
        out = {"loss": torch.empty(()), "dx": torch.empty(50)}
        step(x, y, **out)
        replay = captured(lambda: step(x, y, **out))
        x += 1
        self.assertEqual(replay(), 0)
        torch.testing.assert_close(out["loss"], torch.nn.functional.mse_loss(x, y))
        with self.assertRaisesRegex(lt.LockstepError, "step mse_loss in a graph capture.*give its outputs"):
            captured(lambda: step(x, y))
        torch.testing.assert_close(step(x, y, **out).loss, torch.nn.functional.mse_loss(x, y))

    def test_graph(self):
        """lockstep.graph on a device: recorded on a stream of its own, replayed on the current one."""
        step = lt.Step("step add[n](inout x: f32[n], by: f32) { x += by }")
        total = lt.Step("step total[n](x: f32[n], out s: f32) { s = sum(x) }")
        x, by = torch.zeros(100), torch.tensor(1.0)
        cell = {"by": by.expand(1)[0]}
        with lt.graph() as graph:
            step(x, **cell)
            s = total(x)
        self.assertEqual(x.sum(), 0)
        graph.launch()
        graph.repeat(9)
        State.stream.synchronize()
        self.assertEqual((x[0], s), (10, 1000))
        self.assertEqual(graph.statistics()["launches"], 2)
        before, State.stream = State.stream, Stream()
        graph.launch()
        self.assertIs(State.stream.waited[-1], before)
        State.stream.synchronize()
        self.assertEqual(s, 1100)
        a = network()
        b = copy.deepcopy(a)
        ours, reference = (lt.Optimizer(m.parameters(), "std/optim:adamw", capturable=True) for m in (a, b))
        for model, optimizer in ((a, ours), (b, reference)):
            backward(model, 0)
            optimizer.step()
        with lt.graph() as graph:
            ours.step()
        graph.repeat(3)
        for _ in range(3):
            reference.step()
        State.stream.synchronize()
        for p, q in zip(a.parameters(), b.parameters()):
            self.assertTrue(torch.equal(p, q))


if __name__ == "__main__":
    _context.Context = Emulated
    torch.cuda.current_stream = lambda index: State.stream
    torch.cuda.is_current_stream_capturing = lambda: State.capturing
    torch.cuda.is_initialized = lambda: True
    unittest.main(argv=sys.argv[:1], verbosity=1)
