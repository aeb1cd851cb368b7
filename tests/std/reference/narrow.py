"""Expected results of std/optim/narrow_states and narrow_weights, by their formulas."""
import math

import torch

from cases import LIST, Draw, Family, copies, rounded
from philox import bits

STEP = "std/optim:"
BLOCKS = [(2, 300), (0,), (1,), (256,)]  # with a short last block, an exact one, an empty tensor
ADAMW = {"beta1": 0.8, "beta2": 0.95, "eps": 1e-3, "decay": 0.1}


def by_block(x, reduce):
    """(a value per block of 256, the same at every element)"""
    flat = x.reshape(-1)
    values = torch.tensor([reduce(part) for part in flat.split(256) if part.numel()], dtype=torch.float64)
    return values, values.repeat_interleave(256)[:flat.numel()].reshape(x.shape)


def inverse(scale):
    return torch.where(scale == 0, torch.zeros_like(scale), 1 / scale)


def signed_code(x):
    return torch.sign(x) * (127 * x.abs().sqrt()).round()


def unsigned_code(x):
    return torch.where(x > 0, (255 * x.sqrt().sqrt()).round().clamp(min=1), x)


def largest(x):
    return x.abs().max().item()


def eight_bit(p, s, g, number, lr, beta1, beta2, eps, decay):
    m = s["m_scale"][1] * s["m"] * s["m"].abs() / 127 ** 2
    v = s["v_scale"][1] * (s["v"] / 255) ** 4
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
    s["m_scale"], s["v_scale"] = by_block(m, largest), by_block(v, largest)
    s["m"] = signed_code(m * inverse(s["m_scale"][1]))
    s["v"] = unsigned_code(v * inverse(s["v_scale"][1]))
    return p - lr * (m / (1 - beta1 ** number) / ((v / (1 - beta2 ** number)).sqrt() + eps) + decay * p)


def fp8(p, s, g, number, lr, beta1, beta2, eps, decay):
    m = beta1 * s["m_scale"][1] * s["m"] + (1 - beta1) * g
    r = (beta2 * (s["r_scale"][1] * s["r"]) ** 2 + (1 - beta2) * g * g).sqrt()
    s["m_scale"] = by_block(m, lambda x: largest(x) / 448)
    s["r_scale"] = by_block(r, lambda x: largest(x) / 448)
    s["m"] = rounded(m * inverse(s["m_scale"][1]), "e4m3")
    s["r"] = rounded(r * inverse(s["r_scale"][1]), "e4m3")
    return p - lr * (m / (1 - beta1 ** number) / (r / math.sqrt(1 - beta2 ** number) + eps) + decay * p)


def lion_8bit(p, s, g, number, lr, beta1, beta2, decay):
    m = s["m_scale"][1] * s["m"] * s["m"].abs() / 127 ** 2
    new = beta2 * m + (1 - beta2) * g
    s["m_scale"] = by_block(new, largest)
    s["m"] = signed_code(new * inverse(s["m_scale"][1]))
    return p - lr * (torch.sign(beta1 * m + (1 - beta1) * g) + decay * p)


def lion_fp8(p, s, g, number, lr, beta1, beta2, decay):
    m = s["m_scale"][1] * s["m"]
    new = beta2 * m + (1 - beta2) * g
    s["m_scale"] = by_block(new, lambda x: largest(x) / 448)
    s["m"] = rounded(new * inverse(s["m_scale"][1]), "e4m3")
    return p - lr * (torch.sign(beta1 * m + (1 - beta1) * g) + decay * p)


def in_blocks(family, name, update, states, kinds, hyper, counter):
    draw = Draw(name)
    p = draw.list(BLOCKS)
    tensors = []
    for tensor in p:
        state = {}
        for key in states:
            zeros = torch.zeros_like(tensor)
            state[key] = by_block(zeros, lambda x: 0.0) if key.endswith("_scale") else zeros
        tensors.append(state)

    def seen(key):
        return [state[key][0].clone() if key.endswith("_scale") else state[key].clone() for state in tensors]

    begin = {"p": copies(p), **{key: seen(key) for key in states}}
    if counter:
        begin["count"] = None
    launches = []
    for number in (1, 2, 3):
        g = draw.list(BLOCKS, digits=6)  # with few digits, codes would lie on the limit of two
        g[0][0, :256] *= number - 1  # a block of zeros in the first launch
        p = [update(a, s, b, number, 0.1, **hyper) for a, s, b in zip(p, tensors, g)]
        out = {"p": copies(p), **{key: seen(key) for key in states}}
        if counter:
            out["count"] = number
        launches.append(({"g": g}, out))
    family.case(name, STEP + name, launches[:2], begin, {"lr": 0.1, **hyper}, kinds, absolute=1e-6)


def stochastic(x, words):
    """bf16 by the random words: floor(|x| / u + r / 2^32) u, with u the distance of bf16 values."""
    unit = 2.0 ** (torch.frexp(x)[1].double() - 8)
    return torch.sign(x) * torch.floor(x.abs() / unit + words.double() / 2.0 ** 32) * unit


def random_weights(family, name, narrow):
    draw = Draw(name)
    p = draw.list(LIST, kind="bf16")
    m, v = [torch.zeros_like(x) for x in p], [torch.zeros_like(x) for x in p]
    begin = {"p": copies(p), "m": copies(m), "v": copies(v), "count": None}
    launches, seed = [], 12345678901
    for number in (1, 2, 3):
        g = draw.list(LIST, kind="bf16")
        for at in range(len(LIST)):
            first, second = 0.8 * m[at] + 0.2 * g[at], 0.95 * v[at] + 0.05 * g[at] ** 2
            step = first / (1 - 0.8 ** number) / ((second / (1 - 0.95 ** number)).sqrt() + 1e-3)
            new = p[at] - 0.1 * (step + 0.1 * p[at])
            shape = LIST[at]
            m[at] = stochastic(first, bits(shape, seed, number, 0, at)) if narrow else first
            v[at] = stochastic(second, bits(shape, seed, number, 1, at)) if narrow else second
            p[at] = stochastic(new, bits(shape, seed, number, 2 if narrow else 0, at))
        launches.append(({"g": g}, {"p": copies(p), "m": copies(m), "v": copies(v), "count": number}))
    kinds = {"p": "bf16", "g": "bf16"}
    if narrow:
        kinds.update(m="bf16", v="bf16")
    family.case(name, STEP + name, launches, begin, {"lr": 0.1, "seed": seed, **ADAMW}, kinds)


def halves(p):
    """The halves of f32 values: bf16 with ties up, and what is missing in units of the last bit."""
    words = p.float().reshape(-1).view(torch.int32).long() & 0xffffffff
    high = (words + 0x8000) & 0xffff0000
    high = torch.where(p.reshape(-1).isnan(), words & 0xffff0000, high)
    signed = torch.where(high >= 1 << 31, high - (1 << 32), high).to(torch.int32)
    low = torch.where(p.reshape(-1).isnan(), torch.zeros_like(words), words - high)
    return signed.view(torch.float32).double().reshape(p.shape), low.reshape(p.shape)


def split(family):
    draw = Draw("split_weights")
    kinds = {"w": "bf16", "low": "i16", "g": "bf16"}
    words = torch.tensor([0x3f808000, 0x3f807fff, 0x3f808001, 0x3f818000, 0x7f7fffff, 0x7f800000, 1, 0x8000, 0],
                         dtype=torch.int32)
    special = torch.cat([words.view(torch.float32), -words.view(torch.float32)]).double()
    p = [special, *draw.list(LIST, -3, 3)]
    w, low = zip(*[halves(x) for x in p])
    family.case("split_weights", STEP + "split_weights", [({"p": p}, {"w": list(w), "low": list(low)})], kinds=kinds,
                to_the_bit=True)
    family.case("join_weights", STEP + "join_weights", [({"w": list(w), "low": list(low)}, {"p": p})], kinds=kinds,
                to_the_bit=True)
    p = draw.list(LIST)
    w, low = zip(*[halves(x) for x in p])
    params = [torch.nn.Parameter(x.clone()) for x in p]
    optimizer = torch.optim.AdamW(params, lr=0.1)
    zeros = [torch.zeros_like(x) for x in p]
    launches = []
    for number in (1, 2, 3):
        g = draw.list(LIST, kind="bf16")
        for param, grad in zip(params, g):
            param.grad = grad.clone()
        optimizer.step()
        launches.append(({"g": g}, {"p": copies(params), "count": number}))
    family.case("adamw_split", "steps/split.step:split_joined", launches,
                {"w": list(w), "low": list(low), "m": zeros, "v": zeros, "count": None}, {"lr": 0.1}, kinds)


def narrow():
    family = Family("narrow")
    codes = {"m": "i8", "v": "u8"}
    in_blocks(family, "adamw_8bit", eight_bit, ["m", "m_scale", "v", "v_scale"], codes, ADAMW, True)
    in_blocks(family, "adamw_fp8", fp8, ["m", "m_scale", "r", "r_scale"], {"m": "e4m3", "r": "e4m3"}, ADAMW, True)
    lion = {"beta1": 0.8, "beta2": 0.95, "decay": 0.1}
    in_blocks(family, "lion_8bit", lion_8bit, ["m", "m_scale"], {"m": "i8"}, lion, False)
    in_blocks(family, "lion_fp8", lion_fp8, ["m", "m_scale"], {"m": "e4m3"}, lion, False)
    random_weights(family, "adamw_bf16", False)
    random_weights(family, "adamw_bf16_states", True)
    split(family)
    return family


FAMILIES = [narrow]
