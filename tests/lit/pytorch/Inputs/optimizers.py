"""lockstep.torch.Optimizer against torch.optim, on CPU tensors."""
import copy
import io
import os
import pickle
import sys
import tempfile
import threading
import unittest
import warnings

sys.path.insert(0, sys.argv.pop(1))
import torch  # noqa: E402
import lockstep.torch as lt  # noqa: E402

T = torch.optim
MIXED = """
const beta = 0.9
step mixed[t, n of t](
    inout p: f32[t, n], inout m: f32[t, n], grad: bf16[t, n], out w: bf16[t, n],
    rate: f32, weight: f32[t], nesterov: bool = false,
) {
    m = beta * m + grad
    p -= rate * weight * (if nesterov then grad + beta * m else m)
    w = p
}
"""


def network(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(10, 33), torch.nn.Tanh(), torch.nn.Linear(33, 17),
                               torch.nn.Tanh(), torch.nn.Linear(17, 3))


def batch(number):
    generator = torch.Generator().manual_seed(number)
    return torch.randn(16, 10, generator=generator), torch.randn(16, 3, generator=generator)


def backward(model, number, scale=lambda loss: loss):
    x, y = batch(number)
    dtype = next(model.parameters()).dtype
    scale(((model(x.to(dtype)) - y) ** 2).mean()).backward()


def train(optimizer, model, steps=5, first=0, skip=None, scheduler=None):
    for number in range(first, first + steps):
        optimizer.zero_grad()
        backward(model, number)
        for i, p in enumerate(model.parameters()):
            if skip and skip(number, i):
                p.grad = None
        optimizer.step()
        if scheduler:
            scheduler.step()


def adamw(model, **options):
    return lt.Optimizer(model.parameters(), "std/optim:adamw", **{"lr": 1e-2, **options})


class Optimizers(unittest.TestCase):
    def near(self, a, b, most=5e-7):
        for p, q in zip(a.parameters(), b.parameters()):
            self.assertLessEqual((p - q).abs().max().item(), most)

    def same(self, a, b):
        for p, q in zip(a.parameters(), b.parameters()):
            self.assertTrue(torch.equal(p, q))

    def test_as_torch(self):
        """The same results, also from a state of PyTorch's own; and a round trip through a file."""
        for name, make, options, theirs in [
                ("adamw", T.AdamW, dict(lr=1e-2, weight_decay=0.1, betas=(0.8, 0.95)), {}),
                ("adamw", T.AdamW, dict(lr=1e-2, maximize=True), {}),
                ("adamw_amsgrad", T.AdamW, dict(lr=1e-2), dict(amsgrad=True)),
                ("adam", T.Adam, dict(lr=1e-2, weight_decay=0.1), {}),
                ("amsgrad", T.Adam, dict(lr=1e-2), dict(amsgrad=True)),
                ("sgd", T.SGD, dict(lr=1e-1, weight_decay=0.1), {}),
                ("sgd_momentum", T.SGD, dict(lr=1e-1, momentum=0.9, nesterov=True), {}),
                ("sgd_momentum", T.SGD, dict(lr=1e-1, momentum=0.9, dampening=0.3), {}),
                ("adamax", T.Adamax, dict(lr=1e-2), {}), ("nadam", T.NAdam, dict(lr=1e-2), {}),
                ("radam", T.RAdam, dict(lr=1e-2), {}), ("adadelta", T.Adadelta, dict(lr=1e-1), {}),
                ("adagrad", T.Adagrad, dict(lr=1e-2, lr_decay=0.1), {}),
                ("rmsprop", T.RMSprop, dict(lr=1e-3, alpha=0.9), {}),
                ("rmsprop_momentum", T.RMSprop, dict(lr=1e-3, momentum=0.9), {}),
                ("rmsprop_centered", T.RMSprop, dict(lr=1e-3, momentum=0.9), dict(centered=True))]:
            with self.subTest(name, **options):
                a, b = network(), network()
                reference = make(a.parameters(), **options, **theirs)
                ours = lt.Optimizer(b.parameters(), f"std/optim:{name}", **options)
                train(reference, a)
                train(ours, b)
                self.near(a, b, 2e-6)
                c, d = copy.deepcopy(a), copy.deepcopy(b)
                other = lt.Optimizer(c.parameters(), f"std/optim:{name}", **options)
                other.load_state_dict(reference.state_dict())
                train(reference, a, first=5)
                train(other, c, first=5)
                self.near(a, c, 2e-6)
                file = io.BytesIO()
                torch.save(ours.state_dict(), file)
                file.seek(0)
                other = lt.Optimizer(d.parameters(), f"std/optim:{name}",
                                     maximize=options.get("maximize", False))
                other.load_state_dict(torch.load(file))
                train(ours, b, first=5)
                train(other, d, first=5)
                self.same(b, d)
                self.assertEqual(other.param_groups[0]["lr"], options["lr"])

    def test_every_step(self):
        """All of std/optim that is an optimizer by itself learns, and goes on from its state."""
        wide = ["adamw_8bit", "adamw_fp8", "lion", "lion_8bit", "lion_fp8", "lars", "lamb", "adan",
                "ademamix", "schedule_free_adamw", "schedule_free_sgd", "adafactor_vector"]
        narrow = ["adamw_mixed", "sgd_momentum_mixed", "lion_mixed", "adamw_bf16", "adamw_bf16_states",
                  "adamw_split"]
        for name in wide + narrow:
            with self.subTest(name):
                a = network() if name in wide else network().bfloat16()
                start = copy.deepcopy(a)
                ours = lt.Optimizer(a.parameters(), f"std/optim:{name}")
                train(ours, a)
                b = copy.deepcopy(a)
                other = lt.Optimizer(b.parameters(), f"std/optim:{name}")
                other.load_state_dict(ours.state_dict())
                train(ours, a, first=5)
                train(other, b, first=5)
                self.same(a, b)
                if name in ("adamw_8bit", "adamw_split", "lion_mixed"):  # a power of two changes no bit
                    c = copy.deepcopy(start)
                    scaled = lt.Optimizer(c.parameters(), f"std/optim:{name}", loss_scale=True)
                    for number in range(10):
                        scaled.zero_grad()
                        backward(c, number, scaled.scale)
                        scaled.step()
                    self.same(a, c)
                self.assertFalse(torch.equal(next(a.parameters()), next(start.parameters())))
        w = torch.nn.Parameter(torch.randn(5, 7))
        v = torch.nn.Parameter(w.detach().clone())
        for p, optimizer in ((w, lt.Optimizer([w], "std/optim:adafactor")), (v, T.Adafactor([v]))):
            for _ in range(3):
                optimizer.zero_grad()
                p.sin().sum().backward()
                optimizer.step()
        torch.testing.assert_close(w, v)

    def test_lion(self):
        """PyTorch has none: the paper's formula in f64."""
        p = torch.nn.Parameter(torch.randn(7))
        ours = lt.Optimizer([p], "std/optim:lion", lr=1e-2, betas=(0.9, 0.99), weight_decay=0.1)
        q, m = p.detach().double(), torch.zeros(7, dtype=torch.float64)
        for _ in range(4):
            p.grad = torch.randn(7)
            g = p.grad.double()
            q = q - 1e-2 * ((0.9 * m + 0.1 * g).sign() + 0.1 * q)
            m = 0.99 * m + 0.01 * g
            ours.step()
        torch.testing.assert_close(p.detach().double(), q, atol=1e-6, rtol=1e-6)

    def test_master_weights(self):
        """A step of one's own: bf16 parameters, f32 ones that the optimizer keeps."""
        a, b = network().bfloat16(), network()
        b.load_state_dict(a.state_dict())
        ours = lt.Optimizer(a.parameters(), MIXED, gradient="grad", rate=0.1, weight=1.0, nesterov=True,
                            constants={"beta": 0.8})
        reference = T.SGD(b.parameters(), lr=0.1, momentum=0.8, nesterov=True)
        for number in range(5):
            ours.zero_grad()
            backward(a, number)
            for p, q in zip(a.parameters(), b.parameters()):
                q.grad = p.grad.float()
            ours.step()
            reference.step()
        for p, q in zip(a.parameters(), b.parameters()):
            torch.testing.assert_close(ours.state[p]["p"], q.detach())
            self.assertTrue(torch.equal(p, ours.state[p]["p"].bfloat16()))

    def test_files(self):
        """A step in a file with an import beside it, its constants, and another step around it."""
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "own lib.step"), "w") as file:
                file.write("fn scaled(x, by) = by * x\n")
            path = os.path.join(folder, "own.step")
            with open(path, "w") as file:
                file.write('import "own lib"\nconst by = 1.0\nstep own[t, n of t](inout p: f32[t, n], '
                           "g: f32[t, n], lr: f32) {\n    p -= lr * scaled(g, by)\n}\n")
            for options, wanted in (({}, 0.5), ({"maximize": True}, 1.5), ({"loss_scale": True}, 0.5)):
                p = torch.nn.Parameter(torch.ones(3))
                ours = lt.Optimizer([p], path, lr=0.25, constants={"by": 2.0}, **options)
                (ours.scale(p.sum()) if "loss_scale" in options else p.sum()).backward()
                ours.step()
                self.assertEqual(p.tolist(), [wanted] * 3)
        a, b = network(), network()
        ours = lt.Optimizer(a.parameters(), "std/clip:clipped_adamw", lr=1e-2, limit=0.1)
        reference = T.AdamW(b.parameters(), lr=1e-2)
        for number in range(3):
            for model, optimizer in ((a, ours), (b, reference)):
                optimizer.zero_grad()
                backward(model, number)
            torch.nn.utils.clip_grad_norm_(b.parameters(), 0.1)
            ours.step()
            reference.step()
        self.near(a, b)

    def test_groups_and_schedulers(self):
        def groups(model):
            return [dict(params=[p for p in model.parameters() if p.dim() > 1], weight_decay=0.1),
                    dict(params=[p for p in model.parameters() if p.dim() == 1], lr=3e-3, weight_decay=0)]
        a, b = network(), network()
        reference, ours = T.AdamW(groups(a), lr=1e-2), lt.Optimizer(groups(b), "std/optim:adamw", lr=1e-2)
        for optimizer, model in ((reference, a), (ours, b)):
            scheduler = T.lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=30)  # betas move too
            train(optimizer, model, 20, scheduler=scheduler)
        self.near(a, b)
        self.assertEqual(len(ours._lots), 2)
        rate = torch.tensor(1e-2)  # read where it lies
        a, b = network(), network()
        reference, ours = T.AdamW(a.parameters(), lr=1e-2), adamw(b, lr=rate)
        train(reference, a, 3)
        train(ours, b, 3)
        reference.param_groups[0]["lr"] = 1e-3
        rate.fill_(1e-3)
        train(reference, a, 3)
        train(ours, b, 3)
        self.near(a, b)
        ours.param_groups[0]["lr"] = torch.tensor(1e-3, dtype=torch.float64)
        train(reference, a, 3)
        train(ours, b, 3)
        self.near(a, b)

    def test_no_gradients(self):
        """Parameters without a gradient are left out, and count their own steps."""
        a, b = network(), network()
        reference, ours = T.AdamW(a.parameters(), lr=1e-2), adamw(b)
        for optimizer, model in ((reference, a), (ours, b)):
            train(optimizer, model, 4, skip=lambda number, i: i == 2)
            train(optimizer, model, 9, skip=lambda number, i: (number + i) % 3 == 0)
        self.near(a, b)
        self.assertEqual([int(ours.state[p]["count"]) for p in b.parameters()],
                         [int(reference.state[p]["step"]) for p in a.parameters()])
        for name, make, options in (("sgd", T.SGD, {}), ("sgd_momentum", T.SGD, {"momentum": 0.9}),
                                    ("rmsprop", T.RMSprop, {})):  # with other or no rank-0 state
            c, d = network(), network()
            train(make(c.parameters(), lr=1e-3, **options), c, 9, skip=lambda number, i: (number + i) % 3 == 0)
            train(lt.Optimizer(d.parameters(), f"std/optim:{name}", lr=1e-3, **options), d, 9,
                  skip=lambda number, i: (number + i) % 3 == 0)
            self.near(c, d, 2e-6)
        ours.zero_grad()
        ours.step()  # nobody has one
        c = copy.deepcopy(b)
        other = adamw(c)
        other.load_state_dict(ours.state_dict())
        train(ours, b)
        train(other, c)
        self.same(b, c)

    def test_more_groups_later(self):
        a, b = network(), network()
        models = [(T.AdamW, a, {}), (lt.Optimizer, b, {"step": "std/optim:adamw"})]
        for make, model, options in models:
            p = list(model.parameters())
            optimizer = make(p[:2], lr=1e-2, **options)
            train(optimizer, model, 3)
            optimizer.add_param_group({"params": p[2:], "lr": 1e-3})
            train(optimizer, model, 3)
        self.near(a, b)

    def test_copies(self):
        a = network()
        ours = adamw(a)
        train(ours, a)
        for b, other in (copy.deepcopy((a, ours)), pickle.loads(pickle.dumps((a, ours)))):
            c, mine = copy.deepcopy((a, ours))
            train(mine, c)
            train(other, b)
            self.same(b, c)
        train(ours, a)
        self.same(a, b)
        b = copy.deepcopy(a)
        other = adamw(b)
        other.load_state_dict(ours.state_dict())
        train(ours, a)  # and does not touch the state of the other
        train(other, b)
        self.same(a, b)

    def test_memory_moves(self):
        a, b = network(), network()
        one, two = adamw(a), adamw(b)
        train(one, a, 4)
        train(two, b, 2)
        for p in b.parameters():
            p.data = p.data.clone()
        train(two, b, 2, first=2)
        self.same(a, b)
        torch.manual_seed(0)
        a = torch.nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
        b = copy.deepcopy(a)
        for optimizer, model in ((T.AdamW(a.parameters(), lr=0.1), a), (adamw(b, lr=0.1), b)):
            torch.manual_seed(1)
            for number in range(4):
                optimizer.zero_grad()
                model(torch.randn(2, 3, 8, 8)).square().mean().backward()
                if number == 2:  # another layout than the parameter's
                    model.weight.grad = model.weight.grad.contiguous()
                optimizer.step()
        self.near(a, b)
        p = [torch.nn.Parameter(torch.randn(n)) for n in ((0,), (), (3, 0), (2,))]
        q = [torch.nn.Parameter(t.detach().clone()) for t in p]
        for tensors, optimizer in ((p, T.AdamW(p, lr=0.1)), (q, lt.Optimizer(q, "std/optim:adamw", lr=0.1))):
            sum(t.square().sum() for t in tensors).backward()
            optimizer.step()
        torch.testing.assert_close(p, q)

    def test_closure_hooks_and_versions(self):
        a, calls = network(), []
        ours = adamw(a)
        ours.register_step_post_hook(lambda *_: calls.append(1))

        def closure():
            ours.zero_grad()
            x, y = batch(0)
            loss = ((a(x) - y) ** 2).mean()
            loss.backward()
            return loss
        first = ours.step(closure)
        self.assertLess(ours.step(closure).item(), first.item())
        self.assertEqual(len(calls), 2)
        p = torch.nn.Parameter(torch.ones(3))
        loss = (p * p).sum()
        p.grad = torch.ones(3)
        lt.Optimizer([p], "std/optim:adamw").step()
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            loss.backward()
        ours.state.clear()  # begins anew
        train(ours, a, 1)
        self.assertEqual(int(ours.state[a[0].weight]["count"]), 1)

    def test_loss_scale(self):
        """As GradScaler, but nobody looks: overflows at 3 and 7 leave a step out."""
        a, b = network(), network()
        options = dict(init_scale=1024.0, growth_interval=4)
        reference, ours = T.AdamW(a.parameters(), lr=1e-2), adamw(b, loss_scale=options)
        scaler = torch.amp.GradScaler("cpu", **options)
        self.assertEqual(ours.loss_scale(), (1024, 0))

        def step(number, model, optimizer, scale, clip=None):
            optimizer.zero_grad()
            backward(model, number, lambda loss: scale(loss) * (float("inf") if number in (3, 7) else 1))
            if clip:
                clip()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        for number in range(14):
            step(number, a, reference, scaler.scale,
                 (lambda: scaler.unscale_(reference)) if number > 5 else None)
            scaler.step(reference)
            scaler.update()
            step(number, b, ours, ours.scale, ours.unscale_ if number > 5 else None)
            ours.step()
            self.assertEqual(ours.loss_scale()[0], scaler.get_scale())
        self.near(a, b)
        self.assertEqual(ours.loss_scale()[1], 2)
        self.assertEqual(int(ours.state[b[0].weight]["count"]), 12)
        c = copy.deepcopy(b)
        other = adamw(c, loss_scale=options)
        other.load_state_dict(ours.state_dict())
        for number in range(14, 18):
            for model, optimizer in ((b, ours), (c, other)):
                step(number, model, optimizer, optimizer.scale)
                optimizer.step()
        self.same(b, c)
        self.assertEqual(ours.loss_scale(), other.loss_scale())
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)  # PyTorch's own serves too
        a, b = network(), network()
        for model, optimizer in ((a, T.AdamW(a.parameters(), lr=1e-2)), (b, adamw(b))):
            scaler.scale((model(batch(0)[0]) ** 2).mean()).backward()
            scaler.step(optimizer)
            scaler.update()
        self.near(a, b)

    def test_threads(self):
        made = {}

        def work(number):
            made[number] = network(number)
            train(adamw(made[number]), made[number], 20)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for number, model in made.items():
            alone = torch.nn.Sequential(*(copy.deepcopy(m) for m in network(number)))
            train(adamw(alone), alone, 20)
            self.assertEqual(len(list(alone.parameters())), len(list(model.parameters())))

    def test_errors(self):
        def parameter(*shape, **options):
            return torch.nn.Parameter(torch.randn(*shape, **options))
        adam = "std/optim:adamw"
        for params, step, options, error, text in [
                ([parameter(3)], adam, {"momentum": 1}, TypeError, "no hyperparameter `momentum`: it has lr, "),
                ([parameter(3)], adam, {"amsgrad": True}, TypeError, "there is std/optim:adamw_amsgrad"),
                ([parameter(3)], adam, {"betas": (0.9,)}, ValueError, "betas are 2 numbers"),
                ([parameter(3)], adam, {"loss_scale": {"a": 1}}, TypeError, "growth_interval, and no a"),
                ([], adam, {}, ValueError, "empty parameter list"),
                (parameter(3), adam, {}, TypeError, "should be an iterable"),
                ([parameter(3, dtype=torch.float64)], adam, {}, lt.LockstepError, "float64, and std.*float32"),
                ([parameter(3, dtype=torch.complex64)], adam, {}, lt.LockstepError, "0 of group 0.*complex64"),
                ([parameter(3), parameter(2, dtype=torch.bfloat16)], adam, {}, lt.LockstepError,
                 r"parameter 1 of group 0, shape \(2,\) is torch.bfloat16"),
                ([torch.nn.Parameter(torch.randn(6, 4)[::2])], adam, {}, lt.LockstepError, "not contiguous"),
                ([parameter(3)], "std/optim:adamw_mixed", {}, lt.LockstepError,
                 "has gradients of torch.float32, and .*mixed takes torch.bfloat16"),
                ([parameter(3)], "std/optim:adafactor", {}, lt.LockstepError, "has 1 axes.* tensors of 2"),
                ([parameter(3)], "std/optim:sophia", {}, lt.LockstepError, "no optimizer: h: f32.*is neither"),
                ([parameter(3)], "std/losses:mse_loss", {}, lt.LockstepError, "no list `g` of gradients"),
                ([parameter(3)], "std/optim:muon_momentum", {}, lt.LockstepError, "updates no list `p`"),
                ([parameter(3, dtype=torch.bfloat16)], MIXED, {"gradient": "grad", "rate": 1}, ValueError,
                 "didn't specify a value of required optimization parameter weight")]:
            with self.subTest(text), self.assertRaisesRegex(error, text):
                lt.Optimizer(params, step, **options)
        embedding = torch.nn.Embedding(5, 3, sparse=True)
        ours = lt.Optimizer(embedding.named_parameters(), adam)
        embedding(torch.tensor([1])).sum().backward()
        with self.assertRaisesRegex(lt.LockstepError, "parameter `weight`.* sparse gradient.*sparse=False"):
            ours.step()
        a = network()
        ours = adamw(a)
        train(ours, a, 1)
        for value, error, text in (("x", TypeError, "`lr` is 'x', not a number"),
                                   (torch.ones(2), lt.LockstepError, "`lr` is a tensor of shape")):
            ours.param_groups[0]["lr"] = value
            with self.assertRaisesRegex(error, text):
                ours.step()
        ours.param_groups[0]["lr"] = 1e-2
        ours.step()
        momentum = T.SGD(a.parameters(), lr=0.1, momentum=0.9)
        train(momentum, a, 1)
        before = ours.state_dict()
        with self.assertRaisesRegex(ValueError, "the state loaded has m, count, .* keeps "):
            ours.load_state_dict(momentum.state_dict())
        with self.assertRaisesRegex(ValueError, "maximize=False, this optimizer has True"):
            adamw(a, maximize=True).load_state_dict(before)
        ours.step()  # as if nothing had been
        a.bfloat16()
        backward(a, 0)
        with self.assertRaisesRegex(lt.LockstepError, "is torch.bfloat16, and .* updates torch.float32"):
            ours.step()
        p = parameter(3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours = lt.Optimizer([p, p], adam)
        p.grad = torch.ones(3)
        with self.assertRaisesRegex(lt.LockstepError, "list tied weights once"):
            ours.step()


class Functions(unittest.TestCase):
    def test_cross_entropy(self):
        both = lt.Step("std/losses:cross_entropy")

        class CrossEntropy(torch.autograd.Function):
            @staticmethod
            def forward(ctx, logits, target):
                loss, dlogits = both(logits=logits, target=target, smoothing=0.1)
                ctx.save_for_backward(dlogits)
                return loss

            @staticmethod
            def backward(ctx, gradient):
                return gradient * ctx.saved_tensors[0], None
        logits, target = torch.randn(9, 31), torch.randint(31, (9,))
        results = []
        for loss in (CrossEntropy.apply,
                     lambda x, y: torch.nn.functional.cross_entropy(x, y, label_smoothing=0.1)):
            x = logits.clone().requires_grad_()
            value = loss(x, target)
            (3 * value).backward()
            results.append((value.detach(), x.grad))
        torch.testing.assert_close(*results)

    def test_gradcheck(self):
        """In f64, against numerical derivatives."""
        text = ("step squares[b, n](x: f64[b, n], w: f64[n], out y: f64[b]) {\n    y = sum[n](x * x * w)\n}\n"
                "step squares_backward = backward squares\n")
        forward, backward_ = lt.Step(text, "squares"), lt.Step(text, "squares_backward")

        class Squares(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, w):
                ctx.save_for_backward(x, w)
                return forward(x, w)

            @staticmethod
            def backward(ctx, dy):
                x, w = ctx.saved_tensors
                return tuple(backward_(x=x, w=w, dy=dy))
        x = torch.randn(4, 5, dtype=torch.float64)[:, ::2].requires_grad_()  # strided
        w = torch.randn(3, dtype=torch.float64, requires_grad=True)
        self.assertTrue(torch.autograd.gradcheck(Squares.apply, (x, w)))

    def test_tensors(self):
        split = lt.Step("std/optim:split_weights")
        w, low = split([torch.randn(2, 3), torch.randn(5)])
        self.assertEqual([(t.dtype, tuple(t.shape)) for t in w + low],
                         [(torch.bfloat16, (2, 3)), (torch.bfloat16, (5,)), (torch.int16, (2, 3)),
                          (torch.int16, (5,))])
        loss = lt.Step("std/losses:mse_loss")
        x, y = torch.randn(7), torch.randn(7)
        for bad, text in [({"x": x.to_sparse()}, "tensor of torch.sparse_coo"), ({"x": x.double()}, "f64 array"),
                          ({"x": x.to(torch.complex64)}, "tensor of torch.complex64"),
                          ({"x": x[:3]}, "`n` of step `mse_loss` is 3 in `x` and 7 in `y`"),
                          ({"x": x._neg_view()}, "negated numbers"),
                          ({"x": torch.empty(7, device="meta")}, "`x` is on meta")]:
            with self.subTest(text), self.assertRaisesRegex(lt.LockstepError, text):
                loss(**{"x": x, "y": y, **bad})
        out = torch.empty(7)
        version = out._version
        value = loss(x, y, dx=out).loss
        torch.testing.assert_close(value, torch.nn.functional.mse_loss(x, y))
        torch.testing.assert_close(out, 2 * (x - y) / 7)
        self.assertGreater(out._version, version)
        step = lt.Step("std/amp:update_scale")
        self.assertEqual([t.item() for t in step(found_inf=torch.tensor(True), scale=8.0)], [4, 0])


if __name__ == "__main__":
    unittest.main(verbosity=1)
