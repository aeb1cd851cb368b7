"""lockstep.torch: operators of torch.library, and gradients of plain calls."""

import sys
import unittest

sys.path.insert(0, sys.argv.pop(1))
import torch  # noqa: E402
from torch._subclasses import FakeTensorMode  # noqa: E402
from torch.nn import functional as F  # noqa: E402
import lockstep  # noqa: E402
import lockstep.torch as lt  # noqa: E402
from lockstep._bound import Bound  # noqa: E402
from lockstep._derivative import derivative  # noqa: E402

SQUARES = """step squares[b, n](
    x: f64[b, n], w: f64[n], s: f64, out y: f64[b], out z: f64[b], out k: i64[b], shift: f64 = 0.5,
) {
    y = s * sum[n](x * x * w) + shift
    z = sum[n](x)
    k = argmax[n](x)
}
"""
LIST = """step double[t, n of t](p: f32[t, n], a: f32 = 2.0, out q: f32[t, n], out s: f32) {
    let y = a * p ** 2
    q = y
    s = sum(y)
}
"""


def squares_inputs():
    torch.manual_seed(0)
    x = torch.randn(4, 5, dtype=torch.float64)[:, ::2].requires_grad_()  # with gaps
    return (
        x,
        torch.randn(3, dtype=torch.float64, requires_grad=True),
        torch.tensor(1.5, dtype=torch.float64, requires_grad=True),
    )


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inner, self.gain = torch.nn.Linear(6, 6), torch.nn.Parameter(torch.rand(6))
        self.norm = lt.Step("std/norms:rms_norm_forward").op()
        self.silu = lt.Step("std/activations:silu_forward").op()
        self.loss = lt.Step("std/losses:cross_entropy").op(["loss"])

    def forward(self, x, target):
        return self.loss(self.norm(self.silu(self.inner(x)), self.gain), target, smoothing=0.1)

    def reference(self, x, target):
        y = F.rms_norm(F.silu(self.inner(x)), (6,), self.gain, 1e-6)
        return F.cross_entropy(y, target, label_smoothing=0.1)


class Operators(unittest.TestCase):
    def test_opcheck(self):
        x, w, s = squares_inputs()
        logits, target = torch.randn(4, 6, requires_grad=True), torch.randint(6, (4,))
        inout = lt.Step(
            "step add[n](inout x: f32[n], by: f32[n], out s: f32) { x += by\n s = sum(x) }"
        ).op()
        lists = lt.Step(LIST).op()
        for op, arguments in [
            (lt.Step("std/activations:silu_forward").op(), (torch.randn(8, requires_grad=True),)),
            (
                lt.Step("std/norms:rms_norm_forward").op(),
                (logits, torch.randn(6, requires_grad=True)),
            ),
            (lt.Step("std/losses:cross_entropy").op(["loss"]), (logits, target)),
            (lt.Step(SQUARES).op(), (x, w, s)),
            (inout, (torch.randn(3), torch.randn(3))),
            (lists, ([torch.randn(3), torch.randn(2, 2)],)),
        ]:
            with self.subTest(op.name):
                self.assertEqual(
                    set(torch.library.opcheck(op.torch_op, arguments).values()), {"SUCCESS"}
                )

    def test_compile(self):
        """Without a break, at several lengths, against PyTorch's own functions."""
        model = Model()
        for dynamic in (False, True):
            compiled = torch.compile(model, fullgraph=True, dynamic=dynamic)
            for b in (4, 9, 5):
                x, target = torch.randn(b, 6), torch.randint(6, (b,))
                found = []
                for forward in (compiled, model, model.reference):
                    model.zero_grad()
                    loss = forward(x, target)
                    (3 * loss).backward()
                    found.append([loss.detach()] + [p.grad.clone() for p in model.parameters()])
                torch.testing.assert_close(found[0], found[2])
                self.assertTrue(all(map(torch.equal, found[0][:1], found[1][:1])))

    def test_shapes(self):
        norm, silu = (
            lt.Step("std/norms:rms_norm_forward").op(),
            lt.Step("std/activations:silu_forward").op(),
        )
        with FakeTensorMode():
            self.assertEqual(norm(torch.empty(2, 6), torch.empty(6)).shape, (2, 6))
        made = lt.Step(SQUARES).op()(
            torch.empty(2, 6, device="meta", dtype=torch.float64),
            torch.empty(6, device="meta", dtype=torch.float64),
            1.0,
        )
        self.assertEqual(
            [(t.shape, t.dtype, t.device.type) for t in made],
            [((2,), torch.float64, "meta")] * 2 + [((2,), torch.int64, "meta")],
        )
        x = torch.randn(2, 3, 4).transpose(0, 2)  # one axis: tensors of any shape
        torch.testing.assert_close(silu(x), F.silu(x))
        self.assertIs(lt.Step("std/activations:silu_forward").op(), silu)
        for call, text in [
            (lambda: silu(), "lacks x: f32"),
            (lambda: silu(x, y=1), "takes x, and no y"),
            (lambda: silu(x, x), "takes x"),
            (lambda: lt.Step(SQUARES).op(["v"]), "has no out `v`: y, z, k"),
        ]:
            with self.assertRaisesRegex(TypeError, text):
                call()

    def launches(self, call):
        """What a call gives, and how many launches it took."""
        count, launch = [0], Bound.launch

        def counted(bound):
            count[0] += 1
            launch(bound)

        Bound.launch = counted
        try:
            return call(), count[0]
        finally:
            Bound.launch = launch

    def test_vmap(self):
        """One launch for all entries, with the bits of a launch for each."""
        softmax = lt.Step("std/activations:softmax_forward").op()
        silu = lt.Step("std/activations:silu_forward").op()
        norm = lt.Step("std/norms:rms_norm_forward").op()
        squares = lt.Step(SQUARES).op()
        loss = lt.Step("std/losses:cross_entropy").op(["loss"])
        dropout = lt.Step("std/activations:dropout_forward").op()
        x, gain, target = torch.randn(3, 4, 6), torch.randn(6), torch.randint(6, (3, 4))
        x64, ones = x.double(), torch.ones(3, dtype=torch.float64)
        for op, dims, arguments in [
            (norm, (0, None), (x, gain)),
            (norm, (1, None), (x, gain)),
            (norm, (2, None), (torch.randn(4, 6, 3), gain)),
            (norm, (0, 0), (x, torch.randn(3, 6))),  # not rows of one call: a `for`
            (norm, (None, 0), (x[0], torch.randn(3, 6))),
            (softmax, (1,), (x,)),
            (silu, (2,), (x,)),
            (squares, (0, None, None), (x64, gain.double(), ones[0])),
            (squares, (0, None, 0), (x64, gain.double(), ones)),
            (loss, (0, 0), (x, target)),
            (loss, (0, None), (x, target[0])),
            (dropout, (0,), (x[:, 0].contiguous(),)),
        ]:
            with self.subTest(op.name, dims=dims):
                many, count = self.launches(lambda: torch.vmap(op, in_dims=dims)(*arguments))
                size = next(a.shape[d] for a, d in zip(arguments, dims) if d is not None)
                runs = [
                    op(*(a if d is None else a.select(d, i) for a, d in zip(arguments, dims)))
                    for i in range(size)
                ]
                each = zip(*runs) if isinstance(many, tuple) else [runs]
                many = many if isinstance(many, tuple) else [many]
                self.assertTrue(all(torch.equal(m, torch.stack(e)) for m, e in zip(many, each)))
                self.assertEqual(count, 1)
        nested = torch.vmap(torch.vmap(loss, in_dims=(0, 0)), in_dims=(1, 1))
        found, count = self.launches(lambda: nested(x[None], target[None]))
        self.assertEqual((found.shape, count), ((3, 1), 1))
        self.assertEqual(torch.vmap(silu)(torch.empty(0, 4)).shape, (0, 4))

    def test_vmap_lists(self):
        double = lt.Step(LIST).op()
        p = [torch.randn(3, 4), torch.randn(3, 2, 2)]
        q, s = torch.vmap(double)(p)
        torch.testing.assert_close(q, [2 * p[0] ** 2, 2 * p[1] ** 2])
        torch.testing.assert_close(s, q[0].sum(1) + q[1].sum((1, 2)))

    def test_vmap_inout(self):
        """What every entry changes is mapped, and changes in place."""
        add = lt.Step("step add[n](inout x: f32[n], by: f32[n]) { x += by }").op()
        for x, dim in ((torch.zeros(3, 4), 0), (torch.zeros(4, 3), 1)):
            by = torch.randn(3, 4)
            torch.vmap(lambda x, by: add(x, by), in_dims=(dim, 0), out_dims=None)(x, by)
            torch.testing.assert_close(x.movedim(dim, 0), by)
        x = torch.zeros(4)
        torch.compile(add, fullgraph=True, backend="aot_eager")(x, torch.ones(4))
        self.assertTrue(torch.equal(x, torch.ones(4)))
        with self.assertRaisesRegex(lt.LockstepError, "`x` is changed by every entry"):
            torch.vmap(lambda by: add(torch.zeros(4), by), out_dims=None)(torch.zeros(3, 4))

    def test_vmap_gradients(self):
        """Through vmap, of what entries have and of what they share, and vmap over gradients."""
        norm, loss = (
            lt.Step("std/norms:rms_norm_forward").op(),
            lt.Step("std/losses:cross_entropy").op(["loss"]),
        )
        target = torch.randint(6, (3, 4))
        for ours, theirs, shape in [
            (norm, lambda x, g: F.rms_norm(x, (6,), g, 1e-6), (3, 6)),
            (norm, lambda x, g: F.rms_norm(x, (6,), g, 1e-6), (6,)),
            (
                lambda x, g: norm(x, g).sum() + loss(x * g, target[0]),
                lambda x, g: F.rms_norm(x, (6,), g, 1e-6).sum() + F.cross_entropy(x * g, target[0]),
                (6,),
            ),
        ]:
            torch.manual_seed(0)
            x, gain = torch.randn(3, 4, 6, requires_grad=True), torch.randn(shape).requires_grad_()
            found = []
            for f in (ours, theirs):
                y = torch.vmap(f, in_dims=(0, 0 if len(shape) > 1 else None))(x, gain)
                first = torch.autograd.grad(y.square().sum(), (x, gain), create_graph=True)
                second = torch.autograd.grad(sum(g.square().sum() for g in first), (x, gain))
                found.append([y, *first, *second])
            torch.testing.assert_close(*found, rtol=1e-4, atol=1e-3)
        y, theirs = norm(x[0], gain), F.rms_norm(x[0], (6,), gain, 1e-6)
        basis = torch.randn(5, 4, 6)
        (found, count), (wanted, _) = (
            self.launches(
                lambda: torch.vmap(
                    lambda v: torch.autograd.grad(z, (x, gain), v, retain_graph=True)
                )(basis)
            )
            for z in (y, theirs)
        )
        torch.testing.assert_close(found, wanted)
        self.assertEqual(count, 1)

    def test_lists(self):
        """Gradients of lists, compiled too; tensors without one come to have zeros or None."""
        double = lt.Step(LIST).op()
        for f in (double, torch.compile(lambda p: double(p), fullgraph=True, backend="aot_eager")):
            p = [torch.randn(3, requires_grad=True), torch.randn(2, 2)]
            q, s = f(p)
            (q[0].sum() + 3 * s).backward()
            torch.testing.assert_close(p[0].grad, 16 * p[0].detach())
            self.assertIsNone(p[1].grad)
        p = [torch.randn(3).requires_grad_(), torch.randn(2, 2).requires_grad_()]
        first = torch.autograd.grad(double(p)[1], p, create_graph=True)
        second = torch.autograd.grad(first[1].pow(2).sum(), p, allow_unused=True)
        torch.testing.assert_close([first[1], second[1]], [4 * p[1], 32 * p[1]])
        self.assertTrue(torch.equal(second[0], torch.zeros(3)))

    def test_gradients(self):
        op, plain = lt.Step(SQUARES).op(), lt.Step(SQUARES)
        for call in (op, plain):

            def floats(x, w, s):
                return tuple(call(x, w, s))[:2]

            self.assertTrue(torch.autograd.gradcheck(floats, squares_inputs()))
            self.assertTrue(torch.autograd.gradgradcheck(floats, squares_inputs()))
            y, _, k = call(*squares_inputs())
            self.assertEqual((y.requires_grad, k.requires_grad), (True, False))

    def test_parts(self):
        """What no gradient came for is not in the derivative; a scale is one of its values."""
        step = lt.Step("std/losses:cross_entropy")
        back = derivative(step, ["loss"], ["logits"])
        self.assertEqual(
            [p.declaration() for p in back.signature.parameters if "d" in p.name],
            ["dloss: f32", "out dlogits: f32[b, c]"],
        )
        self.assertIn("1 launch,", back.explain(b=512, c=1000))

    def test_plain(self):
        step = lockstep.Step("std/losses:cross_entropy")  # of the module without PyTorch, too
        logits, target = torch.randn(5, 7, requires_grad=True), torch.randint(7, (5,))
        results = []
        for loss in (step(logits, target).loss, F.cross_entropy(logits, target)):
            (2 * loss).backward()
            results.append(logits.grad)
            logits.grad = None
        torch.testing.assert_close(*results)
        p = [torch.randn(3, requires_grad=True), torch.randn(2, 2, requires_grad=True)]
        q, s = lt.Step(LIST)(p)
        (q[1].sum() + s).backward()
        torch.testing.assert_close([t.grad for t in p], [4 * p[0].detach(), 8 * p[1].detach()])
        chosen = lockstep.Step("step best[n](x: f32[n], out k: i64) { k = argmax(x) }")(p[0])
        self.assertFalse(chosen.requires_grad)

    def test_plain_compiled(self):
        """A plain call under torch.compile stays outside of the graph, and is differentiated."""
        step = lt.Step("std/activations:silu_forward")
        compiled = torch.compile(lambda x: step(x * 2) + 1, backend="aot_eager")
        found = []
        x = torch.randn(8, requires_grad=True)
        for f in (compiled, lambda x: F.silu(x * 2) + 1):
            y = f(x)
            y.sum().backward()
            found += [y.detach(), x.grad]
            x.grad = None
        torch.testing.assert_close(found[:2], found[2:])

    def test_never_cut(self):
        w = torch.randn(3, requires_grad=True)
        sgd, silu = lt.Step("std/optim:sgd"), lt.Step("std/activations:silu_forward")
        for call, text in [
            (
                lambda: sgd([w], [torch.ones(3)]),
                "step sgd: `p` requires a gradient, and .*`p` is inout",
            ),
            (lambda: silu(w, y=torch.empty(3)), "step silu_forward: `x` requires .*`y` was given"),
        ]:
            with self.assertRaisesRegex(lt.LockstepError, text + r"(.|\n)*torch.no_grad\(\)"):
                call()
            with torch.no_grad():
                call()
        sgd([w.detach()], [torch.ones(3)])
        op = lt.Step(
            "step add[n](inout x: f32[n], by: f32[n], out s: f32) { x += by\n s = sum(x * by) }"
        ).op()
        with self.assertRaisesRegex(RuntimeError, "no autograd formula was registered"):
            op(torch.zeros(3), w).backward()


if __name__ == "__main__":
    unittest.main(verbosity=1)
