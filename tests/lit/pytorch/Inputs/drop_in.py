"""lockstep.torch.Optimizer where torch.optim's stood: state in both directions, several types,
missing gradients, torch.compile, the backward pass that updates, ranks."""

import copy
import os
import pickle
import sys
import unittest
import warnings

if "PACKAGE" not in os.environ:  # of the processes that are spawned it is
    os.environ["PACKAGE"] = sys.argv.pop(1)
sys.path.insert(0, os.environ["PACKAGE"])
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import lockstep.torch as lt  # noqa: E402
from lockstep._bound import Bound  # noqa: E402

T = torch.optim
launches = []
launch = Bound.launch
Bound.launch = lambda self: (launches.append(self.source.name), launch(self))[1]


def network(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(10, 33), torch.nn.Tanh(), torch.nn.Linear(33, 3))


def backward(model, number):
    x = torch.randn(16, 10, generator=torch.Generator().manual_seed(number))
    (model(x) ** 2).mean().backward()


def train(optimizer, model, steps=4, first=0):
    for number in range(first, first + steps):
        optimizer.zero_grad()
        backward(model, number)
        optimizer.step()


class DropIn(unittest.TestCase):
    def near(self, a, b, most=2e-6):
        for p, q in zip(a.parameters(), b.parameters()):
            self.assertLessEqual((p - q).abs().max().item(), most)

    def test_state_both_ways(self):
        """PyTorch's optimizer goes on from our state, and ours from the state that it then has."""
        for name, make, theirs in [
            ("adam", T.Adam, {}),
            ("amsgrad", T.Adam, {"amsgrad": True}),
            ("adamw", T.AdamW, {}),
            ("adamw_amsgrad", T.AdamW, {"amsgrad": True}),
            ("sgd", T.SGD, {}),
            ("sgd_momentum", T.SGD, {"momentum": 0.9}),
            ("adamax", T.Adamax, {}),
            ("nadam", T.NAdam, {}),
            ("radam", T.RAdam, {}),
            ("adadelta", T.Adadelta, {}),
            ("adagrad", T.Adagrad, {}),
            ("rmsprop", T.RMSprop, {}),
            ("rmsprop_momentum", T.RMSprop, {"momentum": 0.9}),
            ("rmsprop_centered", T.RMSprop, {"centered": True, "momentum": 0.9}),
            ("asgd", T.ASGD, {"t0": 3.0, "lambd": 0.1}),  # averages from step 5 on
            ("rprop", T.Rprop, {"etas": (0.4, 1.3), "step_sizes": (1e-5, 0.1)}),
        ]:
            with self.subTest(name):
                a, b = network(), network()
                options = {"lr": 1e-2} if name == "rprop" else {"lr": 1e-2, "weight_decay": 0.05}
                ours = lt.Optimizer(a.parameters(), f"std/optim:{name}", **options)
                reference = make(b.parameters(), **options, **theirs)
                if name == "asgd":
                    ours.param_groups[0].update(theirs)
                if name == "rprop":
                    ours.param_groups[0].update(shrink=0.4, grow=1.3, least=1e-5, most=0.1)
                if "momentum" in ours.param_groups[0]:
                    ours.param_groups[0]["momentum"] = 0.9
                group, done = reference.param_groups[0], {"lr", "weight_decay", *theirs}
                group.update(
                    {k: v for k, v in ours.defaults.items() if k in group and k not in done}
                )
                train(ours, a)
                train(reference, b)
                c = copy.deepcopy(a)
                other = make(c.parameters())  # all else is in the state
                other.load_state_dict(pickle.loads(pickle.dumps(ours.state_dict())))
                train(other, c, first=4)
                train(reference, b, first=4)
                self.near(c, b)
                d = copy.deepcopy(c)
                again = lt.Optimizer(d.parameters(), f"std/optim:{name}")
                again.load_state_dict(other.state_dict())
                train(again, d, first=8)
                train(reference, b, first=8)
                self.near(d, b)
                again.load_state_dict(again.state_dict())
                train(again, d, first=12)
                train(reference, b, first=12)
                self.near(d, b)

    def test_adafactor(self):
        """Matrices, transposed ones and vectors, in one optimizer; its state both ways."""

        def parameters():
            torch.manual_seed(0)
            return [
                torch.nn.Parameter(torch.randn(5, 7)),
                torch.nn.Parameter(torch.randn(6, 4).t()),
                torch.nn.Parameter(torch.randn(9)),
                torch.nn.Parameter(torch.randn(())),
            ]

        def steps(optimizer, p):
            for number in range(3):
                optimizer.zero_grad()
                sum((t * (number + 1)).sin().sum() for t in p).backward()
                optimizer.step()

        a, b = parameters(), parameters()
        ours = lt.Optimizer(
            a, ["std/optim:adafactor", "std/optim:adafactor_vector"], lr=0.05, weight_decay=0.1
        )
        reference = T.Adafactor(b, lr=0.05, weight_decay=0.1)
        launches.clear()
        steps(ours, a)
        self.assertEqual(len(launches), 6)  # one for each kind, three times
        steps(reference, b)
        for p, q in zip(a, b):
            torch.testing.assert_close(p, q, atol=2e-6, rtol=1e-5)
        self.assertFalse(a[1].is_contiguous())
        other = T.Adafactor(b)
        other.load_state_dict(copy.deepcopy(ours.state_dict()))
        self.assertEqual((other.param_groups[0]["lr"], other.param_groups[0]["d"]), (0.05, 1.0))
        steps(other, b)
        steps(ours, a)
        for p, q in zip(a, b):
            torch.testing.assert_close(p, q, atol=5e-6, rtol=1e-5)
        ours.load_state_dict(other.state_dict())  # which is copied
        steps(other, b)
        steps(ours, a)
        for p, q in zip(a, b):
            torch.testing.assert_close(p, q, atol=5e-6, rtol=1e-5)

    def test_several_types(self):
        """One launch for each type, and one look for overflows."""
        model = network()
        model[2].bfloat16()
        p = list(model.parameters())
        for scaled in (False, True):
            ours = lt.Optimizer(
                p,
                ["std/optim:adamw", "std/optim:adamw_bf16"],
                lr=1e-2,
                loss_scale={"init_scale": 8.0} if scaled else None,
            )
            for number in range(3):
                before = [t.detach().clone() for t in p]
                for t in p:
                    t.grad = torch.full_like(t, 8.0 if scaled else 1.0)
                if scaled and number == 1:
                    p[3].grad[0] = float("inf")
                launches.clear()
                ours.step()
                self.assertEqual(len(launches), 3 if scaled else 2)
                moved = [not torch.equal(t, old) for t, old in zip(p, before)]
                self.assertEqual(moved, [not (scaled and number == 1)] * 4)
        with self.assertRaisesRegex(
            lt.LockstepError, "float16, and std.*adamw .*and is torch.float16, and .*bf16"
        ):
            lt.Optimizer(
                [torch.nn.Parameter(torch.ones(2).half())],
                ["std/optim:adamw", "std/optim:adamw_bf16"],
            )

    def test_missing_gradients(self):
        """Whichever are missing, a step is one launch, and every tensor counts its own steps."""
        for name, make, options in [
            ("adamw", T.AdamW, {}),
            ("nadam", T.NAdam, {}),
            ("sgd", T.SGD, {}),
            ("sgd_momentum", T.SGD, {"momentum": 0.9}),
            ("adamw_amsgrad", T.AdamW, {"amsgrad": True}),
        ]:
            with self.subTest(name):
                torch.manual_seed(0)
                a = [torch.nn.Parameter(torch.randn(n % 7, 3)) for n in range(64)]
                b = [torch.nn.Parameter(t.detach().clone()) for t in a]
                own = {} if name == "adamw_amsgrad" else options
                ours = lt.Optimizer(a, f"std/optim:{name}", lr=1e-2, weight_decay=0.01, **own)
                reference = make(b, lr=1e-2, weight_decay=0.01, **options)
                for key in ("eps", "momentum_decay"):
                    if key in reference.param_groups[0]:
                        reference.param_groups[0][key] = ours.param_groups[0][key]
                chosen = torch.Generator().manual_seed(1)
                for number in range(12):
                    here = torch.rand(64, generator=chosen) < (1 if number == 9 else 0.5)
                    for p, q, there in zip(a, b, here):
                        p.grad = torch.randn_like(p) if there else None
                        q.grad = p.grad.clone() if there else None
                    launches.clear()
                    ours.step()
                    self.assertEqual(len(launches), 1)
                    reference.step()
                for p, q in zip(a, b):
                    torch.testing.assert_close(p, q, atol=2e-6, rtol=1e-5)
                if "count" in ours.state[a[8]] and name != "sgd_momentum":
                    self.assertEqual(
                        [int(ours.state[p]["count"]) for p in a if p.numel()],
                        [int(reference.state[q]["step"]) for q in b if q.numel()],
                    )
                c = [torch.nn.Parameter(t.detach().clone()) for t in a]
                other = lt.Optimizer(c, f"std/optim:{name}")
                other.load_state_dict(ours.state_dict())
                for p, q in zip(a, c):
                    p.grad = torch.randn_like(p)
                    q.grad = p.grad.clone()
                launches.clear()
                ours.step()
                other.step()
                self.assertEqual(len(launches), 2)
                self.assertTrue(all(map(torch.equal, a, c)))
        scaled = lt.Optimizer(a, "std/optim:adamw", loss_scale={"init_scale": 4.0})
        for number in range(3):
            for at, p in enumerate(a):
                p.grad = torch.ones_like(p) if (at + number) % 3 else None
            scaled.step()
        self.assertEqual({int(scaled.state[p]["count"]) for p in a if p.numel()}, {2})

    def test_compiled(self):
        """torch.compile around a function with step() in it."""
        a, b = network(), network()
        ours, reference = lt.Optimizer(a.parameters(), "std/optim:adamw"), T.AdamW(b.parameters())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")

            @torch.compile(backend="aot_eager")
            def one(x):
                ours.zero_grad()
                (a(x) ** 2).mean().backward()
                ours.step()

            for number in range(3):
                one(torch.randn(16, 10, generator=torch.Generator().manual_seed(number)))
        train(reference, b, 3)
        self.near(a, b)

    def test_fork(self):
        """A child goes on as its parent does, and neither touches the other's."""
        a = network()
        ours = lt.Optimizer(a.parameters(), "std/optim:adamw", lr=1e-2)
        train(ours, a, 2)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                train(ours, a, 2, first=2)
                os.write(write, pickle.dumps([p.detach().numpy() for p in a.parameters()]))
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            theirs = pickle.loads(pipe.read())
        os.waitpid(child, 0)
        train(ours, a, 2, first=2)
        for p, q in zip(a.parameters(), theirs):
            self.assertEqual(p.detach().numpy().tobytes(), q.tobytes())

    def test_release(self):
        """Each tensor is updated in the backward pass, and its gradient goes."""
        a, b = network(), network()
        ours = lt.Optimizer(a.parameters(), "std/optim:adamw", lr=1e-2, release=True)
        reference = lt.Optimizer(b.parameters(), "std/optim:adamw", lr=1e-2)
        scheduler = T.lr_scheduler.StepLR(ours, 2, 0.5), T.lr_scheduler.StepLR(reference, 2, 0.5)
        for number in range(4):
            backward(a, number)
            self.assertTrue(all(p.grad is None for p in a.parameters()))
            launches.clear()
            ours.step()
            self.assertEqual(launches, [])
            reference.zero_grad()
            backward(b, number)
            reference.step()
            for s in scheduler:
                s.step()
        self.assertTrue(all(map(torch.equal, a.parameters(), b.parameters())))
        c, other = copy.deepcopy((a, ours))
        d = copy.deepcopy(b)
        loaded = lt.Optimizer(d.parameters(), "std/optim:adamw", release=True)
        loaded.load_state_dict(reference.state_dict())
        for model in (a, c, d):
            backward(model, 9)
        train(reference, b, 1, first=9)
        for model in (a, c, d):
            self.assertTrue(all(map(torch.equal, model.parameters(), b.parameters())))
        with self.assertRaisesRegex(TypeError, "neither loss_scale nor capturable"):
            lt.Optimizer(a.parameters(), "std/optim:adamw", release=True, loss_scale=True)

    def test_ranges(self):
        p = [torch.nn.Parameter(torch.ones(2))]
        for name, make, options in [
            ("adamw", T.AdamW, {"lr": -1.0}),
            ("adamw", T.AdamW, {"lr": float("nan")}),
            ("adamw", T.AdamW, {"betas": (1.5, 0.9)}),
            ("adamw", T.AdamW, {"betas": (0.9, -1.0)}),
            ("adam", T.Adam, {"eps": -1e-8}),
            ("adam", T.Adam, {"weight_decay": -0.1}),
            ("sgd_momentum", T.SGD, {"momentum": -0.5}),
            ("sgd_momentum", T.SGD, {"momentum": 0.9, "nesterov": True, "dampening": 0.5}),
            ("adadelta", T.Adadelta, {"rho": 1.5}),
            ("adagrad", T.Adagrad, {"lr_decay": -1.0}),
            ("rmsprop", T.RMSprop, {"alpha": -1.0}),
            ("nadam", T.NAdam, {"momentum_decay": -1.0}),
        ]:
            with self.subTest(name, **options):
                with self.assertRaises(ValueError) as theirs:
                    make(p, **options)
                with self.assertRaises(ValueError) as ours:
                    lt.Optimizer(p, f"std/optim:{name}", **options)
                self.assertEqual(str(ours.exception), str(theirs.exception))

    def test_groups_keep_more(self):
        p, q = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
        ours = lt.Optimizer([{"params": [p], "name": "first", "lr_scale": 0.5}], "std/optim:adamw")
        ours.add_param_group({"params": [q], "name": "second"})
        self.assertEqual([group["name"] for group in ours.param_groups], ["first", "second"])
        other = lt.Optimizer([{"params": [p]}, {"params": [q]}], "std/optim:adamw")
        other.load_state_dict(ours.state_dict())
        self.assertEqual(other.param_groups[0]["lr_scale"], 0.5)

    def test_sgd_without_momentum(self):
        for name, options in (
            ("sgd", {"dampening": 0.5}),
            ("sgd", {"momentum": 0, "nesterov": False}),
            ("sgd_momentum", {"momentum": 0.0, "dampening": 0.5}),
        ):
            a, b = network(), network()
            train(lt.Optimizer(a.parameters(), f"std/optim:{name}", lr=0.1, **options), a)
            train(T.SGD(b.parameters(), lr=0.1, **options), b)
            self.near(a, b)
        with self.assertRaisesRegex(TypeError, "no hyperparameter `momentum`"):
            lt.Optimizer(a.parameters(), "std/optim:sgd", momentum=0.9)


def as_shards(whole, p):
    """A gradient that lies as its parameter does."""
    if not hasattr(p, "to_local"):
        return whole
    from torch.distributed.tensor import DTensor, Replicate

    spread = DTensor.from_local(whole, p.device_mesh, [Replicate()] * p.device_mesh.ndim)
    return spread.redistribute(placements=p.placements)


def ranks(rank, count, store):
    """FSDP2's shards and ZeroRedundancyOptimizer, on `count` processes."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=count)
    try:
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.optim import ZeroRedundancyOptimizer

        a, b = network(), network()
        fully_shard(a, mesh=dist.init_device_mesh("cpu", (count,)))
        ours, reference = (
            lt.Optimizer(a.parameters(), "std/optim:adamw", lr=1e-2),
            T.AdamW(b.parameters(), lr=1e-2),
        )
        train(ours, a)
        train(reference, b)
        for p, q in zip(a.parameters(), b.parameters()):
            assert hasattr(p, "to_local") and hasattr(ours.state[p]["m"], "to_local")
            torch.testing.assert_close(p.full_tensor(), q.detach(), atol=2e-6, rtol=1e-5)
        saved = ours.state_dict()
        other = lt.Optimizer(a.parameters(), "std/optim:adamw")
        other.load_state_dict(saved)
        train(other, a, first=4)
        train(reference, b, first=4)
        for p, q in zip(a.parameters(), b.parameters()):
            torch.testing.assert_close(p.full_tensor(), q.detach(), atol=2e-6, rtol=1e-5)
        # Optimizers that look at whole tensors have the bits that they have without shards.
        steps = ["std/optim:adafactor", "std/optim:adafactor_vector"]
        for step, options in ((steps, {}), ("std/optim:lamb", {"loss_scale": {"init_scale": 4.0}})):
            e, f = network(), network()
            fully_shard(e, mesh=dist.init_device_mesh("cpu", (count,)))
            sharded, plain = (
                lt.Optimizer(m.parameters(), step, lr=1e-2, **options) for m in (e, f)
            )
            for number in range(3):
                for model, optimizer in ((e, sharded), (f, plain)):
                    for p in model.parameters():
                        whole = torch.randn(
                            p.shape, generator=torch.Generator().manual_seed(number)
                        )
                        p.grad = as_shards(whole, p)
                    optimizer.step()
            for p, q in zip(e.parameters(), f.parameters()):
                assert torch.equal(p.full_tensor(), q), step
        # Muon's matrices are gathered; a gradient that overflows in one process is left out by all.
        for kind in (lt.Muon, lambda p, **o: lt.Optimizer(p, "std/optim:adamw", **o)):
            e, f = network(), network()
            fully_shard(e, mesh=dist.init_device_mesh("cpu", (count,)))
            chosen = [[p for p in m.parameters() if p.dim() == 2] for m in (e, f)]
            both = [kind(p, lr=0.1, loss_scale={"init_scale": 8.0}) for p in chosen]
            for number in range(4):
                for params, optimizer in zip(chosen, both):
                    for at, p in enumerate(params):
                        whole = torch.randn(
                            p.shape, generator=torch.Generator().manual_seed(number)
                        )
                        if number == 2 and at == 0:
                            whole[-1, 0] = torch.inf  # in the last one's shard
                        p.grad = as_shards(whole, p)
                    optimizer.step()
            for p, q in zip(*chosen):
                assert torch.equal(p.full_tensor(), q)
            assert [optimizer.loss_scale() for optimizer in both] == [(4.0, 1)] * 2
        c, d = network(), network()
        zero = ZeroRedundancyOptimizer(
            c.parameters(), optimizer_class=lt.Optimizer, step="std/optim:adamw", lr=1e-2
        )
        reference = T.AdamW(d.parameters(), lr=1e-2)
        train(zero, c)
        train(reference, d)
        for p, q in zip(c.parameters(), d.parameters()):
            torch.testing.assert_close(p, q, atol=2e-6, rtol=1e-5)
    finally:
        dist.destroy_process_group()


class Ranks(unittest.TestCase):
    def test_shards(self):
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(ranks, (2, os.path.join(folder, "store")), nprocs=2)


if __name__ == "__main__":
    unittest.main(verbosity=1)
