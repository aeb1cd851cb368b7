"""States as torchao's and bitsandbytes' 8-bit optimizers save them go on in lockstep.torch's."""

import sys
import unittest

sys.path.insert(0, sys.argv.pop(1))
import torch  # noqa: E402
import lockstep.torch as lt  # noqa: E402

SHAPES = (64, 96), (9,), (4100,)  # whole blocks, in f32 for being small, a short last block
COUNT = 7


def dynamic_map(signed):
    """The table of Dettmers 2015, as both packages make it."""
    values = [0.0, 1.0]
    for decade in range(7):
        edges = torch.linspace(0.1, 1, 2 ** (decade if signed else decade + 1) + 1).double()
        middles = ((edges[1:] + edges[:-1]) / 2 * 10.0 ** (decade - 6)).tolist()
        values += middles + ([-x for x in middles] if signed else [])
    return torch.tensor(sorted(values))


SIGNED, UNSIGNED = dynamic_map(True), dynamic_map(False)


class Coded:
    """What torchao's OptimState8bit and OptimStateFp8 have of attributes."""

    def __init__(self, codes, scale, qmap=None):
        self.codes, self.scale = codes, scale
        if qmap is not None:
            self.qmap = qmap

    def values(self):
        real = self.qmap[self.codes.long()] if hasattr(self, "qmap") else self.codes.float()
        scale = self.scale.repeat_interleave(256)[: real.numel()]
        return real * scale.view(real.shape)


def coded(shape, qmap, fp8=False):
    count = torch.Size(shape).numel()
    scale = torch.rand((count + 255) // 256) * 0.1 + 0.01
    if not fp8:
        return Coded(torch.randint(256, shape).byte(), scale, qmap)
    codes = torch.rand(shape) if qmap is UNSIGNED else torch.randn(shape)
    return Coded(codes.to(torch.float8_e4m3fn), scale)


def states(shape, fp8=False):
    """Both moments, in codes unless there are few."""
    if torch.Size(shape).numel() < 4096:
        return torch.randn(shape), torch.rand(shape)
    return coded(shape, SIGNED, fp8), coded(shape, UNSIGNED, fp8)


def torchao(m, v):
    return {"step": torch.tensor(float(COUNT)), "exp_avg": m, "exp_avg_sq": v}


def bitsandbytes(m, v, nested=True):
    own, quantized = {"step": COUNT}, {}
    for place, state in (("1", m), ("2", v)):
        if state is not None:
            quantized["state" + place] = getattr(state, "codes", state)
            if isinstance(state, Coded):
                quantized["qmap" + place], quantized["absmax" + place] = state.qmap, state.scale
    quantized["unorm_vec"] = torch.zeros(1)
    return {**own, "__bnb_optimizer_quant_state__": quantized} if nested else {**own, **quantized}


def values(state):
    return state.values() if isinstance(state, Coded) else state.clone()


def adamw(p, m, v, g, lr, betas=(0.9, 0.999), eps=1e-8, decay=0.01):
    m, v = m.lerp(g, 1 - betas[0]), v.lerp(g * g, 1 - betas[1])
    count = COUNT + 1
    m, v = m / (1 - betas[0] ** count), v / (1 - betas[1] ** count)
    return p * (1 - lr * decay) - lr * m / (v.sqrt() + eps)


def lion(p, m, v, g, lr):
    return p - lr * torch.sign(m.lerp(g, 1 - 0.9))


def momentum(p, m, v, g, lr):
    return p - lr * (0.8 * m + g)


class Packages(unittest.TestCase):
    def going_on(self, step, saved, rule, group, fp8=False):
        torch.manual_seed(0)
        params = [torch.nn.Parameter(torch.randn(shape)) for shape in SHAPES]
        kept = [states(shape, fp8) for shape in SHAPES]
        whole = {"state": {i: saved(m, v) for i, (m, v) in enumerate(kept)}}
        whole["param_groups"] = [{"params": [0, 1, 2], "weight_decay": 0.01, **group}]
        plain = step.replace("_codes_8bit", "").replace("_codes_fp8", "")
        optimizer = lt.Optimizer(params, [f"std/optim:{step}", f"std/optim:{plain}"])
        optimizer.load_state_dict(whole)
        expected = []
        for p, (m, v) in zip(params, kept):
            p.grad = torch.randn_like(p)
            real = values(m), None if v is None else values(v)
            expected.append(rule(p.detach(), *real, p.grad, 0.01))
        optimizer.step()
        for p, q in zip(params, expected):
            torch.testing.assert_close(p.detach(), q, atol=2e-6, rtol=1e-5)
        self.assertEqual(optimizer.state[params[0]]["m"].element_size(), 1)
        self.assertEqual(optimizer.state[params[1]]["m"].dtype, torch.float32)
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.01)

    def test_torchao(self):
        group = {"lr": torch.tensor(0.01), "betas": (0.9, 0.999), "eps": 1e-8, "amsgrad": False}
        for name, fp8 in (("adamw_codes_8bit", False), ("adamw_codes_fp8", True)):
            with self.subTest(name):
                self.going_on(name, torchao, adamw, group, fp8)

    def test_bitsandbytes(self):
        group = {"lr": 0.01, "betas": (0.9, 0.999), "eps": 1e-8, "alpha": 0.0, "t_alpha": None}
        for nested in (True, False):
            with self.subTest(nested=nested):
                self.going_on(
                    "adamw_codes_8bit", lambda m, v: bitsandbytes(m, v, nested), adamw, group
                )
        group = {"lr": 0.01, "betas": (0.9, 0.99), "eps": 0.0, "weight_decay": 0}

        def one(m, v):
            return bitsandbytes(m, None)

        self.going_on("lion_codes_8bit", one, lion, group)
        group["betas"] = (0.8, 0.0)  # as its SGD calls its momentum
        self.going_on("sgd_momentum_codes_8bit", one, momentum, group)

    def test_small(self):
        """A small tensor takes the codes where nothing else fits it."""
        p = torch.nn.Parameter(torch.ones(9).bfloat16())
        steps = ["std/optim:adamw", "std/optim:adamw_codes_8bit_bf16", "std/optim:adamw_8bit"]
        optimizer = lt.Optimizer([p], steps)
        optimizer.param_groups[0]["lr"] = 0.1
        p.grad = torch.ones_like(p)
        optimizer.step()
        self.assertEqual(optimizer.state[p]["m"].dtype, torch.uint8)
        self.assertLess(p.max().item(), 1.0)

    def test_refused(self):
        """Another table, other blocks, and a parameter whose blocks lie across the rows."""
        p = torch.nn.Parameter(torch.zeros(64, 96))
        m, v = states(p.shape)
        group = {"params": [0], "lr": 0.01, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0}
        odd = SIGNED.clone()
        odd[200] *= 1.01
        for mine, first, message in (
            (p, Coded(m.codes, m.scale, odd), "codes of another table"),
            (p, Coded(m.codes, m.scale[:3], SIGNED), r"`m_scale` loaded has shape \(3,\)"),
            (torch.nn.Parameter(torch.zeros(96, 64).t()), m, "does not lie by rows"),
        ):
            optimizer = lt.Optimizer([mine], "std/optim:adamw_codes_8bit")
            with self.assertRaisesRegex(ValueError, message):
                state = {0: torchao(first, v)}
                optimizer.load_state_dict({"state": state, "param_groups": [group]})
            self.assertEqual(len(optimizer.state), 0)


if __name__ == "__main__":
    unittest.main(verbosity=1)
