"""Expected results of std/codecs and std/optim/stored: the bytes of torchao and bitsandbytes, whose own
functions compute them here in f32, and the formula for what they have not."""
import torch

from cases import Draw, Family, copies, rounded
from philox import bits

CODECS, STEP = "std/codecs:", "std/optim:"
LENGTHS = [(2, 150), (0,), (1,), (256,)]  # a short last block, none, one of one element, a whole one
ADAMW = {"beta1": 0.8, "beta2": 0.95, "eps": 1e-3, "decay": 0.1}


def in_blocks(x, length, function):
    """What function(block as f32 [1, length]) gives for every block: its first result in the shape of x,
    and its second, one value per block."""
    parts = [function(part.float().reshape(1, -1)) for part in x.reshape(-1).split(length) if part.numel()]
    if not parts:
        return torch.zeros(x.shape), torch.zeros(0)
    return (torch.cat([part[0].reshape(-1) for part in parts]).reshape(x.shape),
            torch.cat([part[1].reshape(-1) for part in parts]))


def lists(function, values, length):
    """The same for a list: two lists, in f64."""
    pairs = [in_blocks(value, length, function) for value in values]
    return [first.double() for first, _ in pairs], [second.double() for _, second in pairs]


def awkward_blocks(draw, shapes):
    """Values of many sizes, with a block of zeros and some that lie on a value of a table."""
    x = [rounded(value * 10.0 ** draw.numbers(value.shape, -7, 0), "f32")
         for value in draw.list(shapes, digits=7)]
    x[0].reshape(-1)[:6] = torch.tensor([0.0, 1.0, -1.0, 0.55, 0.1, -0.1])
    x[-1].reshape(-1)[:256] = 0.0
    return x


def tables():
    from torchao.optim import subclass_4bit, subclass_8bit

    def table(values):
        return torch.tensor(values, dtype=torch.float32).double()

    return {"signed": table(subclass_8bit.get_qmap_signed()), "unsigned": table(subclass_8bit.get_qmap_unsigned()),
            "signed_4bit": table(subclass_4bit.get_qmap_signed()),
            "unsigned_4bit": table(subclass_4bit.get_qmap_unsigned())}


def by_table(family, qmaps):
    from torchao.optim import quant_utils

    for bit, block, search in ((8, 256, quant_utils.quantize_8bit_with_qmap),
                               (4, 128, quant_utils.quantize_4bit_with_qmap)):
        for name in ("signed", "unsigned"):
            draw = Draw(f"codes {bit} {name}")
            qmap = qmaps[name if bit == 8 else name + "_4bit"]
            shapes = LENGTHS if bit == 8 else [(40, 2), (0, 2), (1, 2), (64, 2)]
            x = awkward_blocks(draw, shapes)
            if name == "unsigned":
                x = [value.abs() for value in x]

            def stored(part):
                y, scale = quant_utils.scale_tensor(part, part.numel())
                return search(y, qmap.float()), scale

            codes, scales = lists(stored, x, block)
            back = [in_blocks(value, block, lambda part: (part, part[:, :1]))[0] for value in codes]
            values = []
            for code, scale in zip(back, scales):
                every = scale.repeat_interleave(block)[:code.numel()].reshape(code.shape)
                values.append((qmap.float()[code.long()] * every.float()).double())
            if bit == 4:
                codes = [16 * code[:, 0] + code[:, 1] for code in codes]
            codes = [code.long() for code in codes]
            kinds = {"code": "u8"}
            family.case(f"store_{bit}bit-{name}", f"{CODECS}store_{bit}bit",
                        [({"x": x, "table": qmap}, {"code": codes, "scale": scales})], kinds=kinds, to_the_bit=True)
            family.case(f"store_{bit}bit_{name}", f"{CODECS}store_{bit}bit_{name}",
                        [({"x": x}, {"code": codes, "scale": scales})], kinds=kinds, to_the_bit=True)
            family.case(f"load_{bit}bit_{name}", f"{CODECS}load_{bit}bit_{name}",
                        [({"code": codes, "scale": scales}, {"x": values})], kinds=kinds, relative=3e-7, absolute=0)
            family.case(f"load_{bit}bit-{name}", f"{CODECS}load_{bit}bit",
                        [({"code": codes, "scale": scales, "table": qmap}, {"x": values})], kinds=kinds,
                        to_the_bit=True)


def fp8(family):
    from torchao.optim.subclass_fp8 import quantize_fp8

    x = awkward_blocks(Draw("fp8"), LENGTHS)
    codes, scales = lists(lambda part: [y.float() for y in quantize_fp8(part, part.numel())], x, 256)
    values = []
    for code, scale in zip(codes, scales):
        every = scale.repeat_interleave(256)[:code.numel()].reshape(code.shape)
        values.append((code.float() * every.float()).double())
    kinds = {"code": "e4m3"}
    family.case("store_fp8", CODECS + "store_fp8", [({"x": x}, {"code": codes, "scale": scales})], kinds=kinds,
                to_the_bit=True)
    family.case("load_fp8", CODECS + "load_fp8", [({"code": codes, "scale": scales}, {"x": values})], kinds=kinds,
                to_the_bit=True)


def bf16_at_random(x, seed, count, tensor):
    unit = 2.0 ** (torch.frexp(x)[1].double() - 8)
    words = bits(x.shape, seed, count, 0, tensor).double()
    return torch.sign(x) * torch.floor(x.abs() / unit + words / 2.0 ** 32) * unit


def at_random(family):
    """bf16 by 16 random bits and more, 24 bits by 8."""
    special = torch.tensor([0.0, 1.0, -1.0, 3.4028234e38, 1e-45, torch.inf, -torch.inf, torch.nan])
    x = [rounded(special, "f32"), *Draw("24 bits").list(LENGTHS, -3, 3, digits=6)]
    keys = {"seed": 77, "count": 5}
    high, low, joined = [], [], []
    for at, value in enumerate(x):
        words = value.float().reshape(-1).view(torch.int32).long() & 0xffffffff
        random = bits(value.shape, 77, 5, 0, at).reshape(-1) & 0xff
        kept = (words + random) & 0xffffff00
        upper = (kept + 0x8000) & 0xffff0000
        finite = value.reshape(-1).isfinite()
        upper, kept = torch.where(finite, upper, words), torch.where(finite, kept, words)
        low.append(torch.where(finite, (kept - upper) // 256, 0).reshape(value.shape))
        for parts, pattern in ((high, upper), (joined, kept)):
            signed = torch.where(pattern >= 1 << 31, pattern - (1 << 32), pattern).to(torch.int32)
            parts.append(signed.view(torch.float32).double().reshape(value.shape))
    kinds = {"high": "bf16", "low": "i8"}
    family.case("store_24bit", CODECS + "store_24bit", [({"x": x}, {"high": high, "low": low})], numbers=keys,
                kinds=kinds, to_the_bit=True)
    family.case("load_24bit", CODECS + "load_24bit", [({"high": high, "low": low}, {"x": joined})], kinds=kinds,
                to_the_bit=True)
    x = Draw("bf16 at random").list(LENGTHS, -3, 3, digits=6)
    codes = [bf16_at_random(value, 77, 5, at) for at, value in enumerate(x)]
    family.case("store_bf16", CODECS + "store_bf16", [({"x": x}, {"code": codes})], numbers=keys,
                kinds={"code": "bf16"}, to_the_bit=True)


def torchao_optimizer(family, name, state_of, shapes, kinds, count=2):
    """AdamW of torchao, a tensor at a time, as its class calls it. bf16 parameters are rounded at random as
    the language does, where torchao has random numbers of its own."""
    from torchao.optim.adam import single_param_adam

    draw = Draw(name)
    kind = kinds.get("p", "f32")
    p = [value.float() for value in draw.list(shapes, kind=kind)]
    states = [(state_of(value, True), state_of(value, False)) for value in p]

    def seen(place):
        return [state[place].codes.double() for state in states]

    def scales(place):
        return [state[place].scale.double().clone() for state in states]

    def now():
        return {"m": seen(0), "m_scale": scales(0), "v": seen(1), "v_scale": scales(1)}

    begin = {"p": [value.double() for value in p], **now(), "count": None}
    launches = []
    for number in range(1, count + 1):
        # bf16 values over a largest one of 1 are often half way between two codes, where either is right.
        g = draw.list(shapes, -0.77, 0.77, kind=kind, digits=6)
        for at, (value, grad, (m, v)) in enumerate(zip(p, g, states)):
            single_param_adam(value, grad.float(), torch.tensor(float(number)), m, v, None, torch.tensor(0.1), 0.8,
                              0.95, 0.1, 1e-3, True, False)
            if kind == "bf16":
                value.copy_(bf16_at_random(value.double(), 0, number, at))
        launches.append(({"g": g}, {"p": [value.double() for value in p], **now(), "count": number}))
    family.case(name, STEP + name, launches, begin, {"lr": 0.1, **ADAMW}, kinds, absolute=1e-6)


def nearest_codes(x, qmap, absmax, codes, length):
    """The search of bitsandbytes on GPUs, which takes the nearest code; its search for CPUs, in whose place
    this is put, is off by a few codes where they lie close."""
    from torchao.optim import quant_utils

    def stored(part):
        y, scale = quant_utils.scale_tensor(part, part.numel())
        return quant_utils.quantize_8bit_with_qmap(y, qmap), scale

    found, scales = in_blocks(x, length, stored)
    codes.copy_(found)
    absmax.copy_(scales)


def bitsandbytes_optimizer(family, name, make, states, numbers, options, counter=True):
    """An 8-bit optimizer of bitsandbytes on the CPU."""
    draw = Draw(name)
    shapes = [(2, 150), (1,), (256,)]
    start = draw.list(shapes)
    params = [torch.nn.Parameter(value.float()) for value in start]
    optimizer = make(params, lr=0.1, min_8bit_size=1, **options)
    begin, launches = {"p": start}, []
    for ours in states:
        begin[ours] = [torch.zeros_like(value) for value in start]
        begin[ours + "_scale"] = [torch.zeros((value.numel() + 255) // 256) for value in start]
    if counter:
        begin["count"] = None
    for number in (1, 2, 3):
        g = draw.list(shapes, digits=6)
        for param, grad in zip(params, g):
            param.grad = grad.float()
        optimizer.step()
        out = {"p": [param.detach().double() for param in params], **({"count": number} if counter else {})}
        for at, ours in enumerate(states, 1):
            out[ours] = [optimizer.state[param][f"state{at}"].double() for param in params]
            out[ours + "_scale"] = [optimizer.state[param][f"absmax{at}"].double() for param in params]
        launches.append(({"g": g}, out))
    family.case(name + "-bitsandbytes", STEP + name, launches, begin, {"lr": 0.1, **numbers},
                dict.fromkeys(states, "u8"), absolute=1e-6)


def optimizers(family):
    import bitsandbytes
    import bitsandbytes.backends.cpu.ops as on_cpu
    from torchao.optim.subclass_4bit import OptimState4bit
    from torchao.optim.subclass_8bit import OptimState8bit
    from torchao.optim.subclass_fp8 import OptimStateFp8

    codes = {"m": "u8", "v": "u8"}
    torchao_optimizer(family, "adamw_codes_8bit", lambda p, signed: OptimState8bit.zeros(p.shape, signed),
                      [(2, 256), (256,)], codes)
    torchao_optimizer(family, "adamw_codes_8bit_bf16", lambda p, signed: OptimState8bit.zeros(p.shape, signed),
                      [(2, 256), (256,)], {**codes, "p": "bf16", "g": "bf16"}, 3)
    torchao_optimizer(family, "adamw_codes_4bit", lambda p, signed: OptimState4bit.zeros(p.shape, signed),
                      [(128, 2), (64, 2)], codes)
    torchao_optimizer(family, "adamw_codes_fp8", lambda p, signed: OptimStateFp8.zeros(p.shape),
                      [(2, 256), (256,)], {"m": "e4m3", "v": "e4m3"})
    on_cpu._quant_blockwise_fp32_direct = nearest_codes
    options = {"betas": (0.8, 0.95), "weight_decay": 0.1}
    bitsandbytes_optimizer(family, "adamw_codes_8bit", bitsandbytes.optim.AdamW8bit, ["m", "v"], ADAMW,
                           {**options, "eps": 1e-3})
    bitsandbytes_optimizer(family, "lion_codes_8bit", bitsandbytes.optim.Lion8bit, ["m"],
                           {"beta1": 0.8, "beta2": 0.95, "decay": 0.1}, options, False)
    bitsandbytes_optimizer(family, "sgd_momentum_codes_8bit", bitsandbytes.optim.SGD8bit, ["m"],
                           {"momentum": 0.8, "decay": 0.1}, {"momentum": 0.8, "weight_decay": 0.1})


def adamw_24bit(family):
    """AdamW of PyTorch on weights that are rounded at random to 24 bits after every step."""
    draw = Draw("adamw_24bit")
    shapes = [(3, 5), (0,), (1,)]
    p = [rounded(value, "bf16") for value in draw.list(shapes)]
    params = [torch.nn.Parameter(value.clone()) for value in p]
    optimizer = torch.optim.AdamW(params, lr=0.1, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1)
    zeros = [torch.zeros_like(value) for value in p]
    begin = {"w": p, "low": zeros, "m": zeros, "v": zeros, "count": None}
    launches = []
    for number in (1, 2, 3):
        g = draw.list(shapes, kind="bf16")
        for param, grad in zip(params, g):
            param.grad = grad.clone()
        optimizer.step()
        w, low = [], []
        for at, param in enumerate(params):
            unit = 2.0 ** (torch.frexp(param.data)[1].double() - 16)  # of the 24 bits
            random = (bits(param.shape, 0, number, 0, at) & 0xff).double() / 256
            param.data = torch.sign(param.data) * torch.floor(param.data.abs() / unit + random) * unit
            high = torch.sign(param.data) * torch.floor(param.data.abs() / (256 * unit) + 0.5) * 256 * unit
            w.append(high)
            low.append((torch.sign(param.data) * (param.data - high) / unit).round())
        launches.append(({"g": g}, {"w": w, "low": low, "count": number,
                                    "m": [optimizer.state[x]["exp_avg"].clone() for x in params],
                                    "v": [optimizer.state[x]["exp_avg_sq"].clone() for x in params]}))
    family.case("adamw_24bit", STEP + "adamw_24bit", launches, begin, {"lr": 0.1, **ADAMW},
                {"w": "bf16", "low": "i8", "g": "bf16"})


def own_pair(family, qmap):
    """tests/std/steps/stored.step, by Adam's formula in f64."""
    draw = Draw("adam_own")
    shapes = [(2, 150), (0,), (1,)]
    p = draw.list(shapes)
    m, v = [torch.zeros_like(x) for x in p], [torch.zeros_like(x) for x in p]
    codes, scales = [torch.zeros_like(x) for x in p], [torch.zeros((x.numel() + 255) // 256) for x in p]
    begin = {"p": p, "m": m, "v": codes, "v_scale": scales, "count": None}
    launches = []
    for number in (1, 2):
        g = draw.list(shapes, digits=6)
        d = [x + 0.1 * y for x, y in zip(g, p)]
        first = [0.9 * x + 0.1 * y for x, y in zip(m, d)]
        second = [0.999 * x + 0.001 * y * y for x, y in zip(v, d)]
        p = [x - 0.1 * a / (1 - 0.9 ** number) / ((b / (1 - 0.999 ** number)).sqrt() + 1e-3)
             for x, a, b in zip(p, first, second)]
        m = [bf16_at_random(x, 3, number, at) for at, x in enumerate(first)]
        codes, scales, v = [], [], []
        for x in second:
            code, scale = torch.zeros_like(x), torch.zeros((x.numel() + 255) // 256)
            nearest_codes(x, qmap.float(), scale, code, 256)
            codes.append(code)
            scales.append(scale.double())
            v.append(qmap[code.long()] * scale.double().repeat_interleave(256)[:x.numel()].reshape(x.shape))
        launches.append(({"g": g, "v_table": qmap},
                         {"p": p, "m": m, "v": codes, "v_scale": scales, "count": number}))
    family.case("adam_own", "steps/stored.step:adam_own", launches, begin, kinds={"m": "bf16", "v": "u8"},
                absolute=1e-6)


def codecs():
    family = Family("codecs")
    torch.set_default_dtype(torch.float32)  # what the packages are made for
    try:
        gather(family)
    finally:
        torch.set_default_dtype(torch.float64)
    return family


def gather(family):
    qmaps = tables()
    # The least digits of the tables depend on the machine that made them.
    family.case("codec_tables", CODECS + "codec_tables", [({}, qmaps)], relative=4e-7, absolute=0)
    by_table(family, qmaps)
    fp8(family)
    at_random(family)
    optimizers(family)
    adamw_24bit(family)
    own_pair(family, qmaps["unsigned"])


FAMILIES = [codecs]
