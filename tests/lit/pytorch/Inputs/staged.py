"""Muon and Sophia of lockstep.torch against plain PyTorch, on CPU tensors."""

import copy
import io
import pickle
import sys
import unittest

sys.path.insert(0, sys.argv.pop(1))
import torch  # noqa: E402
import lockstep.torch as lt  # noqa: E402

F = torch.nn.functional


def matrices():
    """Wide, tall, square, empty ones, and one that lies transposed."""
    torch.manual_seed(0)
    made = [torch.randn(shape) for shape in ((5, 7), (16, 4), (32, 32), (3, 1), (0, 4))]
    return [torch.nn.Parameter(t) for t in (*made, torch.randn(8, 12).t())]


def with_gradients(params, number):
    generator = torch.Generator().manual_seed(number)
    for p in params:
        p.grad = torch.randn(p.shape, generator=generator)


def muon(p, m, g, *, lr, decay, nesterov, match_adamw):
    """The published steps, with what is rounded to bf16 rounded where std/optim says it is."""
    m.lerp_(g, 1 - 0.95)
    update = m.lerp(g, 1 - 0.95) if nesterov else m
    x = (update / update.norm().clamp(min=1e-7)).bfloat16()
    rows, columns = p.shape
    x = x.t() if rows > columns else x
    for _ in range(5):
        gram = x @ x.t()
        factor = (-4.775 * gram.float() + 2.0315 * (gram @ gram).float()).bfloat16()
        x = (3.4445 * x.float() + (factor @ x).float()).bfloat16()
    x = x.t() if rows > columns else x
    scale = 0.2 * max(rows, columns) ** 0.5 if match_adamw else max(1, rows / columns) ** 0.5
    p -= lr * scale * x.float() + lr * decay * p


class Muon(unittest.TestCase):
    OPTIONS = (
        {},
        {"lr": 0.05, "nesterov": False, "weight_decay": 0.0},
        {"lr": 0.05, "adjust_lr_fn": "match_rms_adamw"},
    )

    def test_as_published(self):
        for options in self.OPTIONS:
            with self.subTest(**options):
                ours, plain = matrices(), [p.detach().clone() for p in matrices()]
                moments = [torch.zeros_like(p) for p in plain]
                optimizer = lt.Muon(ours, **options)
                rate = options.get("lr", 1e-3)
                for number in range(5):
                    with_gradients(ours, number)
                    optimizer.step()
                    for p, q, m in zip(ours, plain, moments):
                        if p.numel():
                            muon(
                                q,
                                m,
                                p.grad,
                                lr=rate,
                                decay=options.get("weight_decay", 0.1),
                                nesterov=options.get("nesterov", True),
                                match_adamw="adjust_lr_fn" in options,
                            )
                for p, q in zip(ours, plain):
                    torch.testing.assert_close(p.detach(), q, atol=0.02 * rate, rtol=0)
                self.assertFalse(ours[5].is_contiguous())

    def test_as_torch(self):
        """To what rounding to bf16 before the norm makes; and either loads the other's state."""
        for options in self.OPTIONS:
            with self.subTest(**options):
                ours, theirs, start = ([p for p in matrices() if p.numel()] for _ in range(3))
                one, two = lt.Muon(ours, **options), torch.optim.Muon(theirs, **options)
                for number in range(10):
                    if number == 5:
                        saved = copy.deepcopy((one.state_dict(), two.state_dict()))
                        one, two = lt.Muon(ours), torch.optim.Muon(theirs)
                        one.load_state_dict(saved[1])
                        two.load_state_dict(saved[0])
                    for params, optimizer in ((ours, one), (theirs, two)):
                        with_gradients(params, number)
                        optimizer.step()
                for p, q, before in zip(ours, theirs, start):
                    self.assertLess((p - q).norm().item(), 0.05 * (q - before).norm().item())

    def test_loss_scale(self):
        """A power of two changes no bit; what overflows changes nothing but the scale."""
        a, b = ([p for p in matrices() if p.numel()] for _ in range(2))
        plain = lt.Muon(a, lr=0.05)
        scaled = lt.Muon(b, lr=0.05, loss_scale={"init_scale": 16.0, "growth_interval": 3})
        self.assertEqual(scaled.scale(torch.tensor(2.0)).item(), 32.0)
        for number in range(6):
            if number == 4:
                saved = copy.deepcopy(scaled.state_dict())
                scaled = pickle.loads(pickle.dumps((b, scaled)))
                b, scaled = scaled
                other = lt.Muon(b, lr=0.05, loss_scale=True)
                other.load_state_dict(saved)
                self.assertEqual(other.loss_scale(), scaled.loss_scale())
            with_gradients(a, number)
            with_gradients(b, number)
            scale = scaled.loss_scale()[0]
            for p in b:
                p.grad *= scale
            if number == 1:
                b[2].grad[3, 4] = torch.nan
                before = [(p.clone(), scaled.state[p]["momentum_buffer"].clone()) for p in b]
                scaled.step()
                for p, (q, m) in zip(b, before):
                    self.assertTrue(torch.equal(p, q))
                    self.assertTrue(torch.equal(scaled.state[p]["momentum_buffer"], m))
                self.assertEqual(scaled.loss_scale(), (8.0, 1))
                with_gradients(b, number)
                for p in b:
                    p.grad *= 8.0
            if number == 2:
                scaled.unscale_()
            plain.step()
            scaled.step()
            self.assertTrue(all(map(torch.equal, a, b)))
        self.assertEqual(scaled.loss_scale(), (16.0, 1))
        with self.assertRaisesRegex(lt.LockstepError, "no loss scale"):
            plain.scale(torch.ones(()))
        with self.assertRaisesRegex(TypeError, "loss_scale has init_scale, .* no speed"):
            lt.Muon(a, loss_scale={"speed": 2})

    def test_drop_in(self):
        """Gradients that are missing, schedulers, versions, closures, copies and refusals."""
        params = matrices()
        optimizer = lt.Muon([{"params": params[:2], "lr": 0.1}, {"params": params[2:]}])
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.0)
        with_gradients(params, 0)
        params[2].grad = None
        before, version = [p.detach().clone() for p in params], params[0]._version
        self.assertEqual(optimizer.step(lambda: torch.tensor(3.0)).item(), 3.0)
        moved = [not torch.equal(p, q) for p, q in zip(params, before)]
        self.assertEqual(moved, [True, True, False, True, False, True])
        self.assertGreater(params[0]._version, version)
        self.assertNotIn(params[2], optimizer.state)
        scheduler.step()
        before = [p.detach().clone() for p in params]
        optimizer.step()
        self.assertTrue(all(map(torch.equal, params, before)))  # the rate is 0 now
        params, optimizer = copy.deepcopy((params, optimizer))
        other, again = pickle.loads(pickle.dumps((params, optimizer)))
        for chosen, one in ((params, optimizer), (other, again)):
            for group in one.param_groups:
                group["lr"] = 0.1
            with_gradients(chosen, 1)
            one.step()
        self.assertTrue(all(map(torch.equal, params, other)))
        self.assertFalse(torch.equal(params[0], before[0]))
        for given, options, message in (
            (torch.ones(2), {}, r"matrices of torch.float32; a parameter is .*\(2,\)"),
            (torch.ones(2, 2).half(), {}, "a parameter is torch.float16"),
            (torch.ones(2, 2), {"lr": -1.0}, "lr is -1.0"),
            (torch.ones(2, 2), {"adjust_lr_fn": "none"}, "adjust_lr_fn is 'none': there are"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                lt.Muon([torch.nn.Parameter(given)], **options)


def network():
    torch.manual_seed(0)
    layers = torch.nn.Linear(6, 9), torch.nn.Tanh(), torch.nn.Linear(9, 4)
    model = torch.nn.Sequential(*layers)
    transposed = model[0].weight.detach().t().contiguous().t()
    model[0].weight = torch.nn.Parameter(transposed)
    return model


def loss_of(model, number, drawn=False):
    generator = torch.Generator().manual_seed(number)
    x, y = torch.randn(32, 6, generator=generator), torch.randint(4, (32,), generator=generator)
    logits = model(x)
    if drawn:
        y = torch.multinomial(logits.softmax(1), 1, generator=generator).flatten()
    return F.cross_entropy(logits, y)


class Plain:
    """Algorithm 3 of the paper, with both of its estimators."""

    def __init__(self, params, lr, betas, gamma, decay):
        self.params, self.lr, self.betas = list(params), lr, betas
        self.gamma, self.decay = gamma, decay
        self.m = [torch.zeros_like(p) for p in self.params]
        self.h = [torch.zeros_like(p) for p in self.params]

    def renew(self, values):
        for h, value in zip(self.h, values):
            h.mul_(self.betas[1]).add_((1 - self.betas[1]) * value)

    def gauss_newton(self, batch):
        self.renew([batch * p.grad**2 for p in self.params])

    def hessian(self, loss, generator):
        first = torch.autograd.grad(loss, self.params, create_graph=True)
        u = [torch.empty_like(p).normal_(generator=generator) for p in self.params]
        self.renew([a * b for a, b in zip(u, torch.autograd.grad(first, self.params, u))])

    @torch.no_grad()
    def step(self):
        for p, m, h in zip(self.params, self.m, self.h):
            m.mul_(self.betas[0]).add_((1 - self.betas[0]) * p.grad)
            p.mul_(1 - self.lr * self.decay)
            p -= self.lr * (m / (self.gamma * h).clamp(min=1e-12)).clamp(-1, 1)


def run(model, optimizer, way, steps, first=0):
    for number in range(first, first + steps):
        if number % 3 == 0 and way == "hessian":
            generator = torch.Generator().manual_seed(number)
            optimizer.hessian(loss_of(model, number), generator)
        elif number % 3 == 0:
            model.zero_grad()
            loss_of(model, number, drawn=True).backward()
            optimizer.gauss_newton(32)
        model.zero_grad()
        loss_of(model, number).backward()
        optimizer.step()


class Sophia(unittest.TestCase):
    def test_as_published(self):
        for way in ("gauss_newton", "hessian"):
            with self.subTest(way):
                a, b = network(), network()
                ours = lt.Sophia(
                    a.parameters(), lr=1e-2, betas=(0.9, 0.8), gamma=2.0, weight_decay=0.1
                )
                plain = Plain(b.parameters(), 1e-2, (0.9, 0.8), 2.0, 0.1)
                run(a, ours, way, 8)
                run(b, plain, way, 8)
                for p, q, h in zip(a.parameters(), b.parameters(), plain.h):
                    torch.testing.assert_close(p, q, atol=1e-5, rtol=1e-4)
                    torch.testing.assert_close(ours.state[p]["h"], h, atol=1e-6, rtol=1e-3)
                    inside = (ours.state[p]["m"] / (2 * h).clamp(min=1e-12)).abs() < 1
                    self.assertTrue(inside.any())  # or the estimate would not matter
                self.assertFalse(a[0].weight.is_contiguous())

    def test_drop_in(self):
        """A state that goes on, missing gradients, copies, the loss scale and refusals."""
        a = network()
        ours = lt.Sophia(a.parameters(), lr=1e-2)
        run(a, ours, "hessian", 4)
        file = io.BytesIO()
        torch.save(ours.state_dict(), file)
        file.seek(0)
        b = copy.deepcopy(a)
        other = lt.Sophia(b.parameters(), betas=(0.5, 0.5))
        other.load_state_dict(torch.load(file))
        self.assertEqual(other.param_groups[0]["betas"], (0.96, 0.99))
        c, copied = copy.deepcopy((a, ours))
        d, pickled = pickle.loads(pickle.dumps((a, ours)))
        models = ((a, ours), (b, other), (c, copied), (d, pickled))
        for model, optimizer in models:
            run(model, optimizer, "gauss_newton", 4, first=4)
        for model, _ in models[1:]:
            self.assertTrue(all(map(torch.equal, a.parameters(), model.parameters())))
        scaled = lt.Sophia(network().parameters(), lr=1e-2, loss_scale=True)
        params = scaled.param_groups[0]["params"]
        for p in params:
            p.grad = torch.ones_like(p)
        params[1].grad = None
        scaled.gauss_newton(2)
        self.assertNotIn(params[1], scaled.state)
        torch.testing.assert_close(scaled.state[params[0]]["h"], torch.full((9, 6), 0.02))
        p = torch.nn.Parameter(torch.ones(3))  # a loss without curvature: the estimate decays
        flat = lt.Sophia([p], betas=(0.9, 0.5))
        flat.hessian((p**2).sum(), torch.Generator().manual_seed(0))
        estimate = flat.state[p]["h"].clone()
        self.assertTrue((estimate > 0).all())
        flat.hessian((2 * p).sum())
        self.assertTrue(torch.equal(flat.state[p]["h"], estimate / 2))
        with self.assertRaisesRegex(TypeError, "release=True would"):
            lt.Sophia(a.parameters(), release=True)
        with self.assertRaisesRegex(lt.LockstepError, "`?h.* is neither parameter"):
            lt.Optimizer(a.parameters(), "std/optim:sophia")


if __name__ == "__main__":
    unittest.main(verbosity=1)
