"""Expected results of std/schedules, amp, clip and ema."""
import math
import warnings

import torch

from cases import LIST, MATRICES, Draw, Family, copies, rounded

warnings.filterwarnings("ignore", category=UserWarning)  # schedulers called without optimizers


def curve(make, count):
    """The factors a scheduler of PyTorch gives for the first steps."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = make(optimizer)
    factors = []
    for _ in range(count):
        factors.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return factors


def wsd(count, warm, start, end, last):
    rise = min((count + 1) / warm, 1.0) if warm else 1.0
    return rise * (1 - (1 - last) * min(max((count - start) / (end - start), 0), 1))


def schedules():
    family = Family("schedules")
    of = torch.optim.lr_scheduler
    counts = list(range(25))
    tensor = torch.tensor
    clamp = [min(max((c - 15) / 10, 0), 1) for c in counts]
    rise = [min((c + 1) / 5, 1) for c in counts]
    cosine = curve(lambda o: of.CosineAnnealingLR(o, 20, eta_min=0.1), 21)
    cosine += [0.1] * 4  # PyTorch goes up again; ours stays
    out = {
        "warm": tensor(curve(lambda o: of.LambdaLR(o, lambda c: min((c + 1) / 5, 1.0)), 25)),
        "straight": tensor([1.0] * 3 + curve(lambda o: of.LinearLR(o, 1.0, 0.1, 20), 22)),
        "wave": tensor(cosine),
        "waves": tensor(curve(lambda o: of.CosineAnnealingWarmRestarts(o, 7, eta_min=0.1), 25)),
        "power": tensor(curve(lambda o: of.PolynomialLR(o, 20, power=2.0), 25)),
        "root": tensor([min((c + 1) / 4, math.sqrt(4 / (c + 1))) for c in counts]),
        "decaying": tensor(curve(lambda o: of.ExponentialLR(o, 0.9), 25)),
        "stairs": tensor(curve(lambda o: of.StepLR(o, 6, 0.5), 25)),
        "stable": tensor([wsd(c, 5, 15, 25, 0.0) for c in counts]),
        "stable_sqrt": tensor([a * (1 - 0.9 * math.sqrt(b)) for a, b in zip(rise, clamp)]),
        "cycle": tensor(curve(lambda o: of.OneCycleLR(o, 1.0, total_steps=25, cycle_momentum=False), 24) + [4e-6]),
    }
    family.case("curves", "steps/schedules.step:curves", [({"count": tensor(counts)}, out)], kinds={"count": "i32"})

    def step(name, numbers, factor, default_peak=1e-3):
        peak = numbers.get("peak", default_peak)
        launches = [({"count": c}, {"lr": peak * factor(c)}) for c in (0, 3, 9, 17)]
        family.case(name, "std/schedules:" + name, launches, numbers=numbers, absolute=1e-9)

    step("constant_schedule", {"warmup": 5}, lambda c: min((c + 1) / 5, 1.0))
    step("linear_schedule", {"total": 20, "warmup": 5, "last": 0.2, "peak": 0.5}, lambda c: wsd(c, 5, 5, 20, 0.2))
    step("cosine_schedule", {"total": 20, "warmup": 5, "last": 0.2},
         lambda c: min((c + 1) / 5, 1) * (0.2 + 0.8 * (0.5 + 0.5 * math.cos(math.pi * max(c - 5, 0) / 15))))
    step("wsd_schedule", {"total": 20, "warmup": 2, "share": 0.25}, lambda c: wsd(c, 2, 15, 20, 0.0))
    step("inverse_sqrt_schedule", {"warmup": 4}, lambda c: min((c + 1) / 4, math.sqrt(4 / (c + 1))))
    step("one_cycle_schedule", {"total": 25}, lambda c: out["cycle"][c].item())
    return family


def amp():
    family = Family("amp")
    draw = Draw("amp")
    for name, bad in (("unscale", False), ("unscale-inf", True)):
        g = [rounded(x, "f16") for x in draw.list(LIST, -500, 500)]
        if bad:
            g[3][0, 1, 2] = math.inf
        family.case(name, "std/amp:unscale",
                    [({"g": g}, {"d": [x / 1024 for x in g], "found_inf": bad})], numbers={"scale": 1024.0},
                    kinds={"g": "f16"})
    g = draw.list(LIST, -500, 500)
    bad = copies(g)
    bad[0][1, 1] = math.nan
    family.case("unscale_in_place", "std/amp:unscale_in_place",
                [({"g": g}, {"g": [x / 3 for x in g], "found_inf": False}),
                 ({"g": bad}, {"g": [x / 3 for x in bad], "found_inf": True}),
                 ({"g": g}, {"g": [x / 3 for x in g], "found_inf": True})], {"found_inf": False}, {"scale": 3.0})
    launches, scale, good = [], 65536.0, 0
    for overflow in (False, False, False, True, False, False, True, False):
        if overflow:
            scale, good = scale * 0.25, 0
        else:
            good += 1
            if good == 3:
                scale, good = scale * 4, 0
        launches.append(({"found_inf": overflow}, {"scale": scale, "good": good}))
    family.case("update_scale", "std/amp:update_scale", launches, {"scale": None, "good": None},
                {"growth": 4.0, "backoff": 0.25, "interval": 3})
    family.case("update_scale-limit", "std/amp:update_scale",
                [({"found_inf": False}, {"scale": 2.0 ** 127, "good": 0})], {"scale": 2.0 ** 127, "good": None},
                {"interval": 1})
    phase(family)
    return family


def phase(family):
    """GradScaler around AdamW: four steps, of which the second and the third overflow."""
    draw = Draw("amp_adamw")
    p = draw.list(LIST)
    params = [torch.nn.Parameter(x.clone()) for x in p]
    optimizer = torch.optim.AdamW(params, lr=0.1)
    zeros = [torch.zeros_like(x) for x in p]
    state = {"m": zeros, "v": zeros}
    w = [rounded(x, "f16") for x in p]
    begin = {"p": p, "w": w, **state, "count": None, "scale": 4096.0, "good": None, "skipped": None}
    launches, scale, good, skipped, count = [], 4096.0, 0, 0, 0
    for number, bad in enumerate((False, True, True, False, False)):
        g = [rounded(x, "f16") for x in draw.list(LIST, -900, 900)]
        if bad:
            g[0][0, 0] = math.inf if number == 1 else math.nan
            scale, good, skipped = scale / 2, 0, skipped + 1
        else:
            for param, grad in zip(params, g):
                param.grad = grad / scale
            optimizer.step()
            count, good = count + 1, good + 1
            state = {"m": [optimizer.state[x]["exp_avg"].clone() for x in params],
                     "v": [optimizer.state[x]["exp_avg_sq"].clone() for x in params]}
            w = [rounded(x, "f16") for x in copies(params)]
            if good == 2:
                scale, good = scale * 2, 0
        launches.append(({"g": g}, {"p": copies(params), **state, "w": w, "count": count, "scale": scale, "good": good,
                                    "skipped": skipped}))
    family.case("amp_adamw", "std/amp:amp_adamw", launches, begin, {"lr": 0.1, "interval": 2},
                {"g": "f16", "w": "f16"}, tolerance={"w": [2 ** -10, 1e-6]})


def clip():
    family = Family("clip")
    draw = Draw("clip")
    g = draw.list(LIST)
    for name, limit in (("clip_by_norm", 1.0), ("clip_by_norm-loose", 100.0)):
        params = [torch.nn.Parameter(torch.zeros_like(x)) for x in g]
        for param, grad in zip(params, g):
            param.grad = grad.clone()
        total = torch.nn.utils.clip_grad_norm_(params, limit).item()
        family.case(name, "std/clip:clip_by_norm", [({"g": g}, {"g": [x.grad.clone() for x in params],
                                                               "total": total})],
                    numbers={} if limit == 1 else {"limit": limit})
    family.case("global_norm", "std/clip:global_norm", [({"g": g}, {"total": total})])
    empty = [torch.zeros(0), torch.zeros(0, 3)]
    family.case("global_norm-empty", "std/clip:global_norm", [({"g": empty}, {"total": 0.0})])
    each, totals = [], []
    for x in g:
        param = torch.nn.Parameter(torch.zeros_like(x))
        param.grad = x.clone()
        totals.append(torch.nn.utils.clip_grad_norm_([param], 0.7).item())
        each.append(param.grad.clone())
    family.case("clip_each", "std/clip:clip_each", [({"g": g}, {"g": each, "totals": torch.tensor(totals)})],
                numbers={"limit": 0.7})
    tiny = draw.list(LIST, -1e-6, 1e-6, digits=9)
    params = [torch.nn.Parameter(torch.zeros_like(x)) for x in tiny]
    for param, grad in zip(params, tiny):
        param.grad = grad.clone()
    total = torch.nn.utils.clip_grad_norm_(params, 1e-6).item()
    family.case("clip_by_norm-tiny", "std/clip:clip_by_norm",
                [({"g": tiny}, {"g": [x.grad.clone() for x in params], "total": total})], numbers={"limit": 1e-6},
                absolute=1e-13)
    family.case("clip_by_value", "std/clip:clip_by_value", [({"g": g}, {"g": [x.clamp(-0.3, 0.3) for x in g]})],
                numbers={"limit": 0.3})
    p, g = draw.list(MATRICES), draw.list(MATRICES, -2, 2)
    clipped = []
    for a, b in zip(p, g):
        most = 0.5 * a.norm(dim=1, keepdim=True).clamp(min=1e-3)
        length = b.norm(dim=1, keepdim=True)
        clipped.append(torch.where(length > most, b * (most / length.clamp(min=1e-6)), b))
    family.case("clip_adaptive", "std/clip:clip_adaptive", [({"p": p, "g": g}, {"g": clipped})],
                numbers={"limit": 0.5})
    p = draw.list(LIST)
    params = [torch.nn.Parameter(x.clone()) for x in p]
    optimizer = torch.optim.AdamW(params, lr=0.1, eps=0.1)
    zeros = [torch.zeros_like(x) for x in p]
    launches = []
    for number in (1, 2, 3):
        g = draw.list(LIST, digits=2)
        for param, grad in zip(params, g):
            param.grad = grad.clone()
        total = torch.nn.utils.clip_grad_norm_(params, 0.5).item()
        optimizer.step()
        launches.append(({"g": g}, {"p": copies(params), "total": total, "count": number,
                                    "m": [optimizer.state[x]["exp_avg"].clone() for x in params],
                                    "v": [optimizer.state[x]["exp_avg_sq"].clone() for x in params]}))
    family.case("clipped_adamw", "std/clip:clipped_adamw", launches, {"p": p, "m": zeros, "v": zeros, "count": None},
                {"lr": 0.1, "eps": 0.1, "limit": 0.5})
    return family


def composed():
    """Clipping, a schedule and AdamW in one step of the tests' own."""
    family = Family("composed")
    draw = Draw("train")
    p = draw.list(LIST)
    params = [torch.nn.Parameter(x.clone()) for x in p]
    optimizer = torch.optim.AdamW(params)
    zeros = [torch.zeros_like(x) for x in p]
    launches = []
    for count in range(4):
        g = draw.list(LIST, digits=2)
        for param, grad in zip(params, g):
            param.grad = grad.clone()
        length = torch.nn.utils.clip_grad_norm_(params, 1.0).item()
        part = min(max(count - 1, 0) / 3, 1)
        rate = 0.2 * min((count + 1) / 2, 1) * (0.1 + 0.9 * (0.5 + 0.5 * math.cos(math.pi * part)))
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
        launches.append(({"g": g}, {"p": copies(params), "length": length, "count": count + 1,
                                    "m": [optimizer.state[x]["exp_avg"].clone() for x in params],
                                    "v": [optimizer.state[x]["exp_avg_sq"].clone() for x in params]}))
    family.case("train", "steps/train.step:train", launches, {"p": p, "m": zeros, "v": zeros, "count": None},
                absolute=2e-6)
    return family


def ema():
    family = Family("ema")

    def averaged(name, step, rule, numbers=None, kind="f32", counter=False):
        draw = Draw(name)
        a = draw.list(LIST)
        begin = {"a": copies(a), **({"count": None} if counter else {})}
        launches = []
        for number in (1, 2, 3):
            p = draw.list(LIST, kind=kind)
            a = [rule(x, y, number) for x, y in zip(a, p)]
            launches.append(({"p": p}, {"a": copies(a), **({"count": number} if counter else {})}))
        family.case(name, "std/ema:" + step, launches, begin, numbers, {"p": kind})

    averaged("ema", "ema", lambda a, p, _: 0.9 * a + 0.1 * p, {"decay": 0.9})
    averaged("ema-defaults", "ema", lambda a, p, _: 0.999 * a + 0.001 * p)
    averaged("ema_mixed", "ema_mixed", lambda a, p, _: 0.9 * a + 0.1 * p, {"decay": 0.9}, "bf16")

    def warm(a, p, number):
        decay = min(0.25, (1 + number) / (10 + number))
        return decay * a + (1 - decay) * p

    averaged("ema_warm", "ema_warm", warm, {"decay": 0.25}, counter=True)
    model = torch.optim.swa_utils.AveragedModel(torch.nn.ParameterList([torch.zeros(shape) for shape in LIST]))
    draw, launches = Draw("swa"), []
    begin = draw.list(LIST)
    for number in (1, 2, 3):
        p = draw.list(LIST)
        model.update_parameters(torch.nn.ParameterList(copies(p)))
        launches.append(({"p": p}, {"a": [x.detach().clone() for x in model.module], "count": number}))
    family.case("swa", "std/ema:swa", launches, {"a": begin, "count": None})
    draw, launches = Draw("lookahead"), []
    slow, p = draw.list(LIST), draw.list(LIST)
    begin = {"slow": copies(slow), "p": copies(p), "count": None}
    for number in (1, 2, 3, 4):
        if number % 2 == 0:
            slow = [a + 0.3 * (b - a) for a, b in zip(slow, p)]
            p = copies(slow)
        launches.append(({}, {"slow": copies(slow), "p": copies(p), "count": number}))
    family.case("lookahead", "std/ema:lookahead", launches, begin, {"alpha": 0.3, "period": 2})
    return family


def accumulate():
    family = Family("accumulate")
    for kind, suffix in (("f32", ""), ("bf16", "_bf16"), ("f16", "_f16")):
        draw = Draw("accumulate" + suffix)
        total, launches = draw.list(LIST), []
        begin = copies(total)
        begin[0][1, 2] = math.nan  # the first launch does not add to what stood there
        for number in range(4):
            g = draw.list(LIST, kind=kind)
            first = number in (0, 2)
            total = [(0 if first else a) + 0.25 * b for a, b in zip(total, g)]
            launches.append(({"g": g, "first": first}, {"total": copies(total)}))
        family.case("accumulate" + suffix, "std/accumulate:accumulate" + suffix, launches, {"total": begin},
                    {"weight": 0.25}, {"g": kind})
    start, g = draw.list(LIST), draw.list(LIST)
    family.case("accumulate-defaults", "std/accumulate:accumulate",
                [({"g": g}, {"total": [a + b for a, b in zip(start, g)]})], {"total": start})
    return family


FAMILIES = [schedules, amp, clip, composed, ema, accumulate]
